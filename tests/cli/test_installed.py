"""What is installed: a wheel outside any checkout, the base without what runs notebooks, and a message that says how to have that."""
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES = 25  # a wheel's, at the most
BLOCKED = 'import sys\nfor name in {names!r}: sys.modules[name] = None\n'  # Python's way to say that there is no such module


def python(code: str, *blocked: str) -> subprocess.CompletedProcess:
    "Run code where some modules cannot be imported."
    return subprocess.run([sys.executable, '-c', BLOCKED.format(names=blocked) + code], capture_output=True, text=True, cwd=ROOT)


@pytest.fixture(scope='module')
def installed(tmp_path_factory) -> Path:
    "The commands of an environment that has the wheel and, for all else, what this one has."
    folder = tmp_path_factory.mktemp('wheel')
    source = folder/'source'  # a build in place would leave its files here
    source.mkdir()
    for name in ('settings.ini', 'setup.py', 'pyproject.toml', 'README.md', 'LICENSE'): shutil.copy(ROOT/name, source/name)
    for name in ('factlab', 'nbs/papers', 'nbs/train'):
        shutil.copytree(ROOT/name, source/name, ignore=shutil.ignore_patterns('__pycache__', '.ipynb_checkpoints'))
    pip = [sys.executable, '-m', 'pip', '-q', '--disable-pip-version-check']
    subprocess.run([*pip, 'wheel', '--no-deps', '--no-index', '--no-build-isolation', '-w', str(folder), str(source)], check=True)
    wheel, = folder.glob('factlab-*.whl')
    assert wheel.stat().st_size < MEGABYTES*2**20
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', str(folder/'env')], check=True)
    here = sysconfig.get_path('purelib')
    there = Path(sysconfig.get_path('purelib', vars={'base': str(folder/'env'), 'platbase': str(folder/'env')}))
    (there/'others.pth').write_text(f'{here}\n', encoding='utf-8')  # a path file in it, as an editable factlab's, is not read from there
    subprocess.run([*pip, '--python', str(folder/'env'/'bin'/'python'), 'install', '--no-deps', '--no-index', '--no-compile',
                    '--ignore-installed', str(wheel)], check=True)
    return folder/'env'/'bin'


def run(command: Path, *arguments: str, cwd: Path) -> str:
    "What a command prints, outside of any checkout."
    environment = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'} | {'FACTLAB_HOME': str(cwd/'home')}
    done = subprocess.run([command, *arguments], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_checks_and_reproduces_outside_a_checkout(installed, tmp_path):
    code = 'import factlab; from factlab.core.core import project_dir; print(factlab.__file__, project_dir())'
    assert run(installed/'python', '-c', code, cwd=tmp_path).split() == [str(next(installed.parent.rglob('factlab/__init__.py'))), 'None']
    (tmp_path/'pairs.jsonl').write_text(json.dumps({'text': 'The mill opened in 1901.', 'summary': 'The mill opened in 1910.'}) + '\n')
    checked = run(installed/'factlab', 'check', 'pairs.jsonl', '--verifier', 'cosine', '--json', cwd=tmp_path)
    assert json.loads(checked)['texts'] and len(json.loads(checked)['units']) == 1
    said = run(installed/'factlab', 'reproduce', 'final/table6', cwd=tmp_path)
    assert (tmp_path/'figures'/'final'/'table6.csv').is_file() and 'tables, charts and manifests: figures' in said


def test_measures_need_neither_torch_nor_spacy():
    heavy = ('torch', 'spacy', 'transformers', 'sentence_transformers', 'IPython', 'papermill')
    done = python('import factlab.measures as m\nfor name in m.__all__: getattr(m, name)\nprint(len(m.__all__))', *heavy)
    assert done.returncode == 0 and int(done.stdout) > 20, done.stderr


@pytest.mark.parametrize(('command', 'missing', 'library'), [
    (['lab'], 'jupyterlab', 'JupyterLab'), (['lab'], 'ipywidgets', 'JupyterLab'), (['reproduce', 'final/table6'], 'papermill', 'papermill'),
    (['train', 'retriever'], 'papermill', 'papermill'),
    (['probe', 'injection', '--judge', 'words', '--chart', 'flips.svg'], 'vl_convert', 'vl-convert')])
def test_a_command_says_how_to_install_what_it_needs(command, missing, library):
    done = python(f'from factlab.cli.main import main\nsys.exit(main({command!r}))', missing)
    assert done.returncode == 2
    assert done.stderr == f"factlab: factlab {command[0]}{' --chart'*('--chart' in command)} needs {library}: pip install 'factlab[lab]'\n"


def test_the_workbench_says_how_to_install_what_it_needs():
    caught = """
from factlab.core.core import UsageError
try: from factlab.workbench import browse
except UsageError as error: print(error)
from factlab.workbench.check_page import check_html
from factlab.workbench import read_examples
"""
    done = python(caught, 'ipywidgets', 'traitlets')
    assert (done.returncode, done.stdout) == (0, "the workbench needs JupyterLab: pip install 'factlab[lab]'\n"), done.stderr


def test_the_base_installation_runs_no_notebooks():
    "The commands about a user's own texts are there without the extra, and so is what is said of exhibits."
    lab = ('jupyterlab', 'ipywidgets', 'papermill', 'nbclient', 'nbformat', 'ipykernel', 'IPython', 'jupyter_core', 'jupyter_client',
           'spacy', 'faiss', 'vl_convert', 'statsmodels', 'pandas', 'nltk')
    commands = (['info'], ['list', 'exhibits'], ['published', 'oasis/table3'], ['reproduce', 'final/table6', '--dry-run'])
    done = python(f'from factlab.cli.main import main\nsys.exit(sum(map(main, {commands!r})))', *lab)
    assert done.returncode == 0 and 'nothing to ask' in done.stdout, done.stderr
