"""The lessons run from top to bottom, as a reader runs them."""
import os
from pathlib import Path

import nbformat
import pytest
from conftest import with_weights
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize('name', ['build_a_benchmark', 'check_your_summaries', 'compare_two_systems', 'judge_your_answers',
                                  'judge_your_judge', 'paper_scale', 'score_predictions', 'steer_a_judge'])
def test_a_lesson_runs(name, tmp_path, monkeypatch):
    with_weights(tmp_path/'home')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')]))
    notebook = nbformat.read(ROOT/'nbs'/'tutorials'/f'{name}.ipynb', 4)
    NotebookClient(notebook, timeout=600, resources={'metadata': {'path': str(tmp_path)}}).execute()
    printed = [output for cell in notebook.cells for output in cell.get('outputs', [])]
    assert printed and not [output for output in printed if output['output_type'] == 'error' or output.get('name') == 'stderr']
