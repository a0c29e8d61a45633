"""What CONTRIBUTING promises: each of its sections works as it is written, in a home and a checkout of its own."""
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT/'.github'/'CONTRIBUTING.md').read_text(encoding='utf-8')
SECTIONS = dict(re.findall(r'^## (.+?)\n(.*?)(?=^## |\Z)', TEXT, re.MULTILINE | re.DOTALL))


def blocks(section: str, language: str = 'python') -> list[str]:
    return re.findall(rf'^```{language}\n(.*?)^```', SECTIONS[section], re.MULTILINE | re.DOTALL)


ADDING = [name for name in SECTIONS if name.startswith('Add ')]


def run(*command: str, cwd: Path, home: Path, **environment: str) -> subprocess.CompletedProcess:
    made = subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ
        | {'FACTLAB_HOME': str(home), 'FACTLAB_PROGRESS': '0', 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}
        | environment,
    )
    assert made.returncode == 0, (made.stdout + made.stderr)[-4000:]
    return made


@pytest.fixture
def home(tmp_path) -> Path:
    from conftest import with_weights
    folder = tmp_path/'home'
    folder.mkdir()
    with_weights(folder)
    return folder


@pytest.mark.parametrize('section', [name for name in ADDING if name != 'Add an exhibit'])
def test_a_section_runs(section, home, tmp_path):
    for content in blocks(section, 'json'):
        (tmp_path/'data'/'museum').mkdir(parents=True)
        (tmp_path/'data'/'museum'/'museum.jsonl').write_text(content, encoding='utf-8')
        assert (found := hashlib.sha256(content.encode()).hexdigest()) in TEXT and f', {len(content.encode())},' in TEXT, (
            f'{len(content.encode())}, {found}'
        )
    program = tmp_path/'added.py'
    program.write_text('\n'.join(blocks(section)), encoding='utf-8')
    run(sys.executable, str(program), cwd=tmp_path, home=home, FACTLAB_DATA=str(tmp_path/'data'))


def test_an_exhibit_is_reproduced(home, tmp_path):
    entry, notebook = blocks('Add an exhibit')
    checkout = tmp_path/'checkout'
    for name in ('factlab', 'nbs'):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns('.ipynb_checkpoints', '__pycache__'))
    shutil.copy(ROOT/'settings.ini', checkout)
    comment, _, line = entry.partition('\n')
    listed = checkout/re.search(r'factlab/\S+\.py', comment)[0]
    listed.write_text(
        re.sub(r'^(EXHIBITS = \()$', rf'\1\n    {line.strip()},', listed.read_text(encoding='utf-8'), flags=re.MULTILINE), encoding='utf-8'
    )
    comment, *cells = re.split(r'^# %%', notebook, flags=re.MULTILINE)
    made = nbformat.v4.new_notebook(metadata={'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}})
    for cell in cells:
        mark, _, source = cell.partition('\n')
        made.cells.append(nbformat.v4.new_code_cell(source.strip(), metadata={'tags': ['parameters']} if 'parameters' in mark else {}))
    nbformat.write(made, checkout/comment.strip('# \n'))
    run(
        sys.executable,
        '-c',
        'import sys; from factlab.cli.main import main; sys.exit(main())',
        'reproduce',
        'final/lengths',
        '--limit',
        '5',
        '--out',
        str(tmp_path / 'figures'),
        cwd=checkout,
        home=home,
        PYTHONPATH=str(checkout),
    )
    assert 'Summaries' in (tmp_path / 'figures' / 'final' / 'lengths.csv').read_text(encoding='utf-8') and 'final/lengths' in (
        tmp_path / 'figures' / 'README.md'
    ).read_text(encoding='utf-8')
