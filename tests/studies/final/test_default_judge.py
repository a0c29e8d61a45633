"One judge is the default wherever none is named."
import json
from inspect import signature

import pytest

from factlab.core.core import project_dir
from factlab.localization.matching import DEFAULT_JUDGE, load_judge
from factlab.studies.final.study import Study
from factlab.workbench.page import browse

NOTEBOOKS = sorted((project_dir()/'nbs'/'papers').glob('*/*.ipynb'))


def parameters(path) -> dict:
    "What the cell of parameters sets."
    cells = json.loads(path.read_text(encoding='utf-8'))['cells']
    code = [''.join(cell['source']) for cell in cells if 'parameters' in cell['metadata'].get('tags', [])]
    found: dict = {}
    for each in code: exec(each, {}, found)  # our own notebooks
    return found


@pytest.mark.parametrize('path', [path for path in NOTEBOOKS if path.parent.name == 'final'], ids=lambda path: path.stem)
def test_notebooks_take_the_default_judge(path):
    assert parameters(path).get('judge', DEFAULT_JUDGE) == DEFAULT_JUDGE


def test_study_and_workbench_take_the_default_judge():
    assert Study().judge == signature(browse).parameters['judge'].default == load_judge().name == DEFAULT_JUDGE == 'offline'
