from .study import Settings as Settings
from .study import answers_of as answers_of
from .study import load_tasks as load_tasks
from .study import retrieval_plan as retrieval_plan
from .study import setting_plan as setting_plan
from .study import verifier_plan as verifier_plan
from .tables import score_answers as score_answers
