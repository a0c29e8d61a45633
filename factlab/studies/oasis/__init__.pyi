from .study import Study as Study
from .study import judge_answers as judge_answers
from .study import load_tasks as load_tasks
from .study import pipeline_answers as pipeline_answers
from .study import verifier_answers as verifier_answers
from .tables import score_answers as score_answers
