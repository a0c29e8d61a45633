"""`factlab lab`: what its notebook says, and what it refuses. The command itself is driven in `test_browser_lab.py`."""
import json
import socket
import subprocess
import sys

import nbformat
import polars as pl
import pytest

from factlab.cli.lab import free_port, lab_notebook, running_lab, write_notebook
from factlab.cli.main import main
from factlab.core.core import RunError, UsageError
from factlab.localization.methods import localizers
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import make_run


@pytest.fixture
def run(tmp_path):
    rows = pl.DataFrame({'id': ['a'], 'text': ['The mill closed in 1931.'], 'summary': ['The mill closed in 1913.'],
                         'gold': [['1913 is wrong.']]})
    return make_run(rows, localizers('zero_shot')[0], ScriptedModel('scripted', lambda request: 'A. "1913" should be 1931.'),
                    dataset='sample', store=False, folder=tmp_path/'runs')


def test_an_unknown_run_is_refused_with_what_there_is(run, tmp_path, capsys, monkeypatch):
    with pytest.raises(UsageError, match=run.id): lab_notebook('nothing-of-the-kind', run.folder.parent)
    with pytest.raises(UsageError, match='none yet'): lab_notebook('nothing', tmp_path/'no runs')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    assert main(['lab', 'nothing-of-the-kind', '--no-browser']) == 2 and 'Complete runs' in capsys.readouterr().err
    assert not (tmp_path/'home'/'notebooks').exists()


def test_a_name_is_no_code_whatever_it_holds(run, tmp_path):
    "A folder of a run that somebody renamed, and a folder of runs with a quote in its name."
    for number, name in enumerate(('x") or __import__("os").mkdir("hacked") or ("', "y'\n!touch hacked\n%cd /\n'", 'z\\', '{0}')):
        runs = tmp_path/f"it's {number} runs"
        target = runs/name.replace('/', '∕')
        target.parent.mkdir(parents=True)
        manifest = json.loads((run.folder/'manifest.json').read_text()) | {'id': target.name}
        run.folder.rename(target)
        (target/'manifest.json').write_text(json.dumps(manifest))
        path = write_notebook(target.name, runs, tmp_path/'notebooks')
        assert path.parent == tmp_path/'notebooks'
        code = nbformat.read(path, 4).cells[1].source.replace('from factlab.workbench import browse', 'browse = print')
        ran = subprocess.run([sys.executable, '-c', code], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0 and 'Run(' in ran.stdout and not (tmp_path/'hacked').exists(), ran.stderr
        target.rename(run.folder)


def test_a_notebook_that_is_there_is_kept_and_unfinished_runs_are_refused(run, tmp_path):
    path = write_notebook(run.id[:12], run.folder.parent, tmp_path/'notebooks')
    path.write_text('{"mine": true}')
    assert write_notebook(run.id, run.folder.parent, tmp_path/'notebooks') == path and path.read_text() == '{"mine": true}'
    manifest = json.loads((run.folder/'manifest.json').read_text())
    (run.folder/'manifest.json').write_text(json.dumps(manifest | {'state': 'unfinished'}))
    with pytest.raises(RunError, match='unfinished'): lab_notebook(run.id, run.folder.parent)


def test_a_port_that_is_taken_is_said(tmp_path):
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        with pytest.raises(UsageError, match='--port'), running_lab(tmp_path, taken.getsockname()[1]): raise AssertionError('it started')
    for port in (-1, 70_000):
        with pytest.raises(UsageError, match='cannot be used'): free_port(port)
    assert list(tmp_path.iterdir()) == []
