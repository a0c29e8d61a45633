from .examples import Examples as Examples
from .examples import read_examples as read_examples
from .examples import sample_rows as sample_rows
from .page import Workbench as Workbench
