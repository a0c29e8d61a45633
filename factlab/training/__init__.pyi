from .edited_pairs import make_pairs as make_pairs
from .extractor import train_extractor as train_extractor
from .paraphrased_claims import question_statements as question_statements
from .paraphrased_claims import summary_statements as summary_statements
from .retriever import train_retriever as train_retriever
from .verifier import train_verifier as train_verifier
from .verifier_evaluation import evaluate_verifier as evaluate_verifier
from .written_passages import written_pairs as written_pairs
