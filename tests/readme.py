"""README.md is made from nbs/index.ipynb: `python tests/readme.py` writes it, `--check` compares it and runs its snippets."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter
from traitlets.config import Config

from factlab.core.core import cache_dir

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def made() -> str:
    "The README's text: the notebook as Markdown, its paths as seen from the project's root."
    notebook = nbformat.read(ROOT/'nbs'/'index.ipynb', as_version=4)
    notebook.metadata['language_info'] = {'name': 'python'}
    notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith('#| hide')]
    for cell in notebook.cells:
        if cell.source.startswith('#| echo: false'): cell.source = ''
    exporter = MarkdownExporter(config=Config({'NbConvertBase': {'display_data_priority': ['text/markdown', 'text/plain']}}))
    text, _ = exporter.from_notebook_node(notebook)
    text = text.replace('\r\n', '\n')  # as a terminal ends its lines
    text = re.sub(r'^#\|.*\n', '', text, flags=re.MULTILINE)
    text = re.sub(r'^```python\n+```\n', '', text, flags=re.MULTILINE)
    # a cell of `!command` becomes a shell block, with what it printed below it
    text = re.sub(r'^```python\n!(.*?)^```', r'```sh\n\1```', text, flags=re.MULTILINE|re.DOTALL)
    text = re.sub(r'\]\((?!https?:|#)(?:\.\./)?([^)]+)\)', lambda found: f']({_from_root(found[1])})', text)
    text = re.sub(r'\b(href|src)="(?!https?:|#)(?:\.\./)?([^"]+)"', lambda found: f'{found[1]}="{_from_root(found[2])}"', text)
    return re.sub(r'\n{3,}', '\n\n', text).strip() + '\n'


def _from_root(path: str) -> str:
    return path if (ROOT/path).exists() else f'nbs/{path}' if (ROOT/'nbs'/path).exists() else path


def run_snippets(text: str) -> int:
    "Run the python blocks in order as one program, and each shell block that only looks; raise when one fails."
    with tempfile.TemporaryDirectory() as home:
        # a home of its own, but for the embedded model's weights where `tests/run.py` has them converted
        if cache := os.environ.get('FACTLAB_TEST_CACHE'): (Path(home)/'cache').symlink_to(cache)
        weights = os.environ.get('FACTLAB_WEIGHTS') or str(cache_dir()/'weights')  # fetched once, whatever the home
        path = f'{BIN}{os.pathsep}{os.environ["PATH"]}'
        environment = os.environ | {'FACTLAB_HOME': home, 'FACTLAB_WEIGHTS': weights, 'FACTLAB_PROGRESS': '0', 'PATH': path}
        python = '\n'.join(re.findall(r'^```python\n(.*?)^```', text, re.DOTALL | re.MULTILINE))
        subprocess.run([sys.executable, '-c', python], cwd=home, env=environment, check=True)
        shell = [line for block in re.findall(r'^```sh\n(.*?)^```', text, re.DOTALL | re.MULTILINE) for line in block.splitlines()]
        looks = r'factlab (examples|check|verify|data (list|show|path)|runs list|store|audit|published|reproduce .*--dry-run)'
        looking = [line for line in shell if re.match(looks, line)]
        looking += re.findall(r'^\|[^|]*\| `(factlab (?:score|compare|judge) [^`]*)` \|', text, re.MULTILINE)  # of the table of questions
        for line in looking: subprocess.run(['bash', '-c', line], cwd=home, env=environment, check=True)
    return len(looking)


def main() -> None:
    text, path = made(), ROOT/'README.md'
    if '--check' not in sys.argv: path.write_text(text, encoding='utf-8')
    elif path.read_text(encoding='utf-8') != text: sys.exit('README.md is not what nbs/index.ipynb says: run `make readme`')
    else: print(f'README is up to date; its python and {run_snippets(text)} commands ran')


if __name__ == '__main__': main()
