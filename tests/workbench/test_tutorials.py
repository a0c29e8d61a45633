"""The lessons run from top to bottom, as a reader runs them."""
import os
import re
from pathlib import Path

import nbformat
import pytest
from conftest import with_weights
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize('name', ['build_a_benchmark', 'check_your_summaries', 'compare_two_systems', 'judge_your_answers',
                                  'judge_your_judge', 'paper_scale', 'score_predictions', 'steer_a_judge', 'workbench',
                                  'your_own_method', 'your_own_package'])
def test_a_lesson_runs(name, tmp_path, monkeypatch):
    with_weights(tmp_path/'home')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')]))
    notebook = nbformat.read(ROOT/'nbs'/'tutorials'/f'{name}.ipynb', 4)
    NotebookClient(notebook, timeout=600, resources={'metadata': {'path': str(tmp_path)}}).execute()
    printed = [output for cell in notebook.cells for output in cell.get('outputs', [])]
    assert printed and not [output for output in printed if output['output_type'] == 'error' or output.get('name') == 'stderr']


def test_lessons_have_one_order():
    lessons = dict[int, tuple[str, str]]()  # by number: name, next
    for path in (ROOT/'nbs'/'tutorials').glob('*.ipynb'):
        found = re.search(r'\*Lesson (\d+) of (\d+); .*?\((\w+)\.ipynb\)\*', nbformat.read(path, 4).cells[0].source)
        assert found, f'{path.name} does not say which lesson it is'
        lessons[int(found[1])] = path.stem, found[3]
        assert int(found[2]) == len([*path.parent.glob('*.ipynb')]) <= 12
    assert sorted(lessons) == [*range(1, len(lessons) + 1)] and lessons[1][0] == 'check_your_summaries'
    assert [lessons[n][1] for n in sorted(lessons)] == [*(lessons[n][0] for n in sorted(lessons)[1:]), 'check_your_summaries']
