"""What `make test` does, step by step: every step runs even when one before it failed, and the last line counts them.

Usage: python tests/run.py [STEP ...]   (all steps when none is named)
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
# of no use in a copy; mypy and ruff may be writing to their caches
NOT_COPIED = ('.venv*', '.git', '__pycache__', '*.egg-info', '.*_cache', '.hypothesis', 'build', '_docs')


SAID = threading.local()  # `file`: where commands of a step that runs beside another one write


def call(*command: str, cwd: Path = ROOT, **environment: str) -> None:
    "Run a command and raise when it fails."
    file = getattr(SAID, 'file', None)
    subprocess.run(command, cwd=cwd, check=True, env=os.environ | environment, stdout=file, stderr=file and subprocess.STDOUT)


@contextmanager
def checkout_copy() -> Iterator[Path]:
    "The checkout's files in a folder of their own, to be changed and compared with."
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)/'factlab'
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        yield copy


def exported() -> None:
    "The committed modules are what the notebooks export."
    with checkout_copy() as copy:
        call(str(BIN/'nbdev_export'), cwd=copy)
        call(
            'diff',
            '-ru',
            '--exclude=__pycache__',
            '--exclude=assets',
            '--exclude=published.csv',
            str(ROOT / 'factlab'),
            str(copy / 'factlab'),
        )


def clean() -> None:
    "Notebooks are as nbdev_clean leaves them, and papermill's parameters tag with them."
    with checkout_copy() as copy:
        call(str(BIN/'nbdev_clean'), cwd=copy)
        call('diff', '-rq', '--exclude=.ipynb_checkpoints', '--exclude=__pycache__', str(ROOT/'nbs'), str(copy/'nbs'))
    for path in (*(ROOT/'nbs'/'papers').rglob('*.ipynb'), *(ROOT/'nbs'/'train').glob('*.ipynb')):
        if '"parameters"' not in path.read_text(encoding='utf-8'):
            raise AssertionError(f'{path.relative_to(ROOT)} has no cell tagged parameters')


def lint() -> None:
    "ruff over modules, notebooks and tests."
    call(str(BIN/'ruff'), 'check', '.')


def types() -> None:
    "mypy over the exported modules: no more errors than are known."
    call(sys.executable, 'tests/type_errors.py')


def library() -> None:
    "Every library notebook runs from top to bottom."
    call(
        str(BIN / 'nbdev_test'),
        '--path',
        str(ROOT / 'nbs'),
        '--file_re',
        r'^\d\d\w*\.ipynb$',
        '--n_workers',
        '2',
        '--do_print',
        FACTLAB_PROGRESS='0',
        OMP_NUM_THREADS='1',
    )  # two at once: threads of both on the same two cores would wait for each other


def units() -> None:
    """pytest, workers of one thread each: threads of several on the same two cores would wait for each other. Three on two cores, as they
    also wait: for servers, browsers, and processes that are to die."""
    call(
        sys.executable,
        '-m',
        'pytest',
        'tests',
        '-n',
        '3',
        '--dist',
        'loadfile',
        '--no-loadscope-reorder',  # but slow files first, as tests/conftest.py orders them
        OMP_NUM_THREADS='1',
        FACTLAB_SITE=str(ROOT / '_docs'),  # the site that is tested is the one that `make docs` finds there
    )


def reproduce(out: Path, *arguments: str) -> None:
    "Exhibits into a folder, two at once."
    call(str(BIN/'factlab'), 'reproduce', *arguments, '--jobs', '2', '--out', str(out), FACTLAB_PROGRESS='0', OMP_NUM_THREADS='1')


FEW = {  # what papers asks beside its rows; each where a notebook has it, and in its manifest
    'runs': '2',  # of the same questions
    'distractors': '100',  # passages beside the sample's
}


def papers() -> None:
    "Every paper notebook runs through papermill on a few rows, and its files appear."
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)/'figures'
        reproduce(out, '--limit', '4', *[part for name, value in FEW.items() for part in ('-p', f'{name}={value}')])
        exhibits = [path for path in sorted((ROOT/'nbs'/'papers').rglob('*.ipynb')) if path.parent.name != 'papers']
        missing = [str(path.relative_to(ROOT)) for path in exhibits if not any((out/path.parent.name).glob(f'{path.stem}.*csv'))]
        if missing: raise AssertionError(f'no results of {missing}')


def tour() -> None:
    "What `make reproduce` runs; most of what it asks was asked just before."
    with tempfile.TemporaryDirectory() as folder: reproduce(Path(folder)/'figures', '--tour')


BENCHES = {  # sizes at which nothing is timed well
    'categoriser': 'max_cases: 40\nask: 0',
    'claims_memory': 'sizes: [200, 400]\npassages: 200',
    'generation': 'requests: 4\nnew_tokens: 8\nalone: 1\nrepeats: 1',
    'killed_server': 'load: 12\nnew_tokens: 8',
    'injection': 'summaries: 60\nentities: 300',
    'mixed_context': 'limit: 3',
    'million_answers': 'answers: 2000\nclaims: 10\nwith_documents: 200\ncharacters: 500\nold_answers: 200\nlookups: 20\nrepeats: 2',
    'passages_memory': 'sizes: [500, 1000]\nword_sizes: [500, 1000]',
    'ptrue': 'questions: 8\nsampled: 1',
    'runs': '',
    'serving': 'prompts: 4\nnew_tokens: 8\nquestions: 2\nload: 8\nrounds: 1',
    'search': 'queries: 50\npassages: 5000\nrepeats: 1',
    'stats': 'repeats: 1',
    'store': 'sizes: [50, 100]\nrepeats: 1',
    'two_servers': 'hidden: 128\nlayers: 1\njudged: 4\nwords: 30\nwritten: 4\ntokens: 4\nrounds: 1',
    'verifiers': 'verifiers: [cosine]\nlimit: 8\nresamples: 100',
    'waves': 'claims: 4\npages: 1\nk: 5\nstretches: 1\nlength: 32',
    'widgets': 'size: 5000\nrepeats: 1',
}


def measure(name: str) -> None:
    "One notebook of nbs/bench at a small size: that it runs, not how fast."
    if name == 'categoriser' and not os.environ.get('FACTLAB_DATA'):
        print('-- bench/categoriser is skipped: it needs real data, and FACTLAB_DATA names no folder')
        return
    if name in ('serving', 'killed_server', 'two_servers') and not os.environ.get('FACTLAB_VLLM') and not (ROOT/'.venv-vllm').is_dir():
        print(f'-- bench/{name} is skipped: it needs vLLM, and there is neither FACTLAB_VLLM nor .venv-vllm (make test-vllm makes it)')
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)/f'{name}.ipynb'
        command = (
            str(BIN / 'papermill'),
            str(ROOT / 'nbs' / 'bench' / f'{name}.ipynb'),
            str(made),
            '--no-progress-bar',
            *(('-y', BENCHES[name]) if BENCHES[name] else ()),
        )
        surroundings = {'FACTLAB_PROGRESS': '0', 'OMP_NUM_THREADS': '1'}
        if name == 'waves': surroundings['FACTLAB_DATA'] = ''  # the sample will do, and is quicker
        try: call(*command, cwd=ROOT / 'nbs' / 'bench', **surroundings)
        except subprocess.CalledProcessError:  # two kernels that start at once may choose the same port, and one ends before its first cell
            if made.is_file() and any(cell.get('execution_count') for cell in json.loads(made.read_text(encoding='utf-8'))['cells']): raise
            call(*command, cwd=ROOT / 'nbs' / 'bench', **surroundings)


def bench() -> None:
    "Every notebook of nbs/bench runs at a small size."
    there = {path.stem for path in (ROOT/'nbs'/'bench').glob('*.ipynb')}
    if there != set(BENCHES): raise AssertionError(f'sizes are given for {sorted(BENCHES)}, there are {sorted(there)}')
    with ThreadPoolExecutor(2) as pool: list(pool.map(measure, BENCHES))


def audit() -> None:
    "The audit notebook runs, its cells by hand agree, and the committed page is what it writes."
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder)/'audit.md'
        call(
            str(BIN / 'papermill'),
            str(ROOT / 'nbs' / 'papers' / 'audit.ipynb'),
            str(Path(folder) / 'audit.ipynb'),
            '-p',
            'out',
            str(page),
            '--no-progress-bar',
            OMP_NUM_THREADS='1',
        )
        call('diff', '-u', str(ROOT/'figures'/'audit.md'), str(page))


def results() -> None:
    "Every exact result is what its notebook writes, the gallery is that of the files; measured results of older code are named."
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)/'figures'
        reproduce(out, '--status', 'exact')
        made = [path.relative_to(out) for path in sorted(out.rglob('*')) if path.suffix in ('.csv', '.json', '.svg')]
        differing = [str(path) for path in made if not _same(ROOT/'figures'/path, out/path)]
    if differing:
        raise AssertionError(f'figures has other {", ".join(differing)}: make them again with factlab reproduce --status exact')
    call(sys.executable, '-c', 'from pathlib import Path; from factlab.reports.exhibits import write_gallery; before = '
         'Path("figures/README.md").read_bytes(); write_gallery(Path("figures")); assert before == Path("figures/README.md").read_bytes(), '
         '"figures/README.md was not that of its files: it is now"')
    subprocess.run([str(BIN/'factlab'), 'reproduce', '--stale'], cwd=ROOT, check=False)  # named, not refused


def _same(committed: Path, made: Path) -> bool:
    "Are two files the same? What was counted on a sample is not committed where the paper's own data are."
    if not committed.is_file(): return not made.name.count('.') > 1 and committed.with_name(f'{made.stem}.final{made.suffix}').is_file()
    return committed.read_bytes() == made.read_bytes()


def readme() -> None:
    "README is what index.ipynb says, and its snippets run."
    call(sys.executable, 'tests/readme.py', '--check', OMP_NUM_THREADS='1')


BESIDE = (types, lint, exported, clean, audit, readme)  # one process each: two of them at once, the longest first
STEPS = (*BESIDE, units, library, papers, tour, bench, results)


def main(names: list[str]) -> int:
    unknown = set(names) - {step.__name__ for step in STEPS}
    if unknown: sys.exit(f'no step {sorted(unknown)}: there are {", ".join(step.__name__ for step in STEPS)}')
    with tempfile.TemporaryDirectory() as home:  # one for all steps: what one has asked of a model the next finds answered
        cache = Path(home)/'cache'
        cache.mkdir()
        os.environ |= {'FACTLAB_HOME': home, 'FACTLAB_TEST_CACHE': str(cache)}  # tests' own homes share the converted weights
        os.environ.pop('PYTHONDONTWRITEBYTECODE', None)  # compiled once, not by each of hundreds of processes
        return run([step for step in STEPS if not names or step.__name__ in names])


def run(steps: Sequence[Callable[[], None]]) -> int:
    "Each step, and how long it took. Gives the exit code."
    beside = [step for step in BESIDE if step in steps]
    if len(beside) < 2: beside = []
    alone = [step for step in steps if step not in beside]
    with ThreadPoolExecutor(2) as pool: passed = list(pool.map(run_beside, beside))
    passed += map(run_step, alone)
    failed = [step.__name__ for step, right in zip((*beside, *alone), passed, strict=True) if not right]
    if failed: print(f'failed: {", ".join(failed)}')
    print(f'{len(steps) - len(failed)} passed, {len(failed)} failed')
    return int(bool(failed))


def run_beside(step: Callable[[], None]) -> bool:
    "A step while another one runs: what it says is shown when it is done."
    with tempfile.TemporaryFile('w+', encoding='utf-8', errors='replace') as SAID.file:
        try: passed = run_step(step)
        finally:
            SAID.file.seek(0)
            print(SAID.file.read(), end='', flush=True)
            SAID.file = None
    return passed


def run_step(step: Callable[[], None]) -> bool:
    "Did it pass? Says so, and how long it took."
    started, file = time.monotonic(), getattr(SAID, 'file', None)
    print(f'== {step.__name__}: {step.__doc__}', flush=True, file=file)
    passed = False
    try: step()
    except (subprocess.CalledProcessError, AssertionError, OSError) as error:
        print(f'-- {step.__name__} FAILED: {error}', flush=True, file=file)
    else: passed = True
    print(f'-- {step.__name__}: {time.monotonic() - started:.0f} s', flush=True, file=file)
    return passed


if __name__ == '__main__': sys.exit(main(sys.argv[1:]))
