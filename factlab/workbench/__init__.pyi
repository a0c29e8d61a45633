from .examples import Examples as Examples
from .examples import read_examples as read_examples
from .examples import sample_rows as sample_rows
from .page import Workbench as Workbench
from .response_view import ResponseWorkbench as ResponseWorkbench
from .responses import gold_of_labels as gold_of_labels
from .responses import judged_responses as judged_responses
