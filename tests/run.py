"""What `make test` does, step by step: every step runs even when one before it failed, and the last line counts them.

Usage: python tests/run.py [STEP ...]   (all steps when none is named)
"""
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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from factlab.reports.exhibits import Exhibit

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
    "mypy over the exported modules; pyproject.toml names the packages whose types are open."
    call(sys.executable, '-m', 'mypy')


def library() -> None:
    "Every library notebook runs from top to bottom."
    call(
        sys.executable,
        'tests/notebooks.py',
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
        '--ignore=tests/docs',  # the site is built and tested by `.ci/run`, and so are
        '--ignore=tests/papers_on_the_wire',  # all exhibits with the papers' own parameters
        '-n',
        '3',
        '--dist',
        'loadfile',
        '--no-loadscope-reorder',  # but slow files first, as tests/conftest.py orders them
        OMP_NUM_THREADS='1',
    )


def reproduce(out: Path, *arguments: str) -> None:
    "Exhibits into a folder, two at once."
    call(str(BIN/'factlab'), 'reproduce', *arguments, '--jobs', '2', '--out', str(out), FACTLAB_PROGRESS='0', OMP_NUM_THREADS='1')


ASKED = 'tiny?answer_limit=16'  # few answers at once are written slowly: short ones take a third of the time
FEW = {'limit': 2, 'runs': 2, 'k': 2, 'samples': 1, 'sampled': 2, 'distractors': 10, 'padded_to': 500,  # each where a notebook has it
       'retry_unparsed': False}
OWN = {  # of one paper, or of one notebook
    'final': {'limit': 1},
    'final/table4': {'limit': 2, 'few': 1},  # this and the next as the tour asks them, so that it finds their answers
    'final/fig10': {'limit': 2},
    'final/fig5': {'limit': 4}, 'final/fig7': {'limit': 4},  # enough summaries for a claim that is rejected
    'final/table9': {'methods': ['self_cot']},
    'fhsum/table2': {'models': ASKED},  # as in the tour, where this and the next would wait for each other's answers
    'fhsum/table3': {'models': ASKED},
    'fhsum/transfer': {'limit': 1, 'sets': ['sample', 'xent']},
    'oasis/table5': {'retry_unparsed': True},
    'oasis/fig2': {'k': [1, 2, 3, 5, 10, 20, 30, 50, 100]},
    'oasis/fig5': {'lengths': [400, 800]},
    'oasis/tablec1': {'k': [1, 5, 30]},
}
PARTS = (  # exhibits that ask the same questions are one part: in two kernels one would wait for the other's answers
    'final/table4 table7 table8 table10 fig4 table1 fig3 fig9 fig10 fig5 fig7 counterfactual',
    'fhsum/transfer casestudy construction table2 table3 table6 fig6 fig7 fig8 noticing table1 table7 table8 fig4',
    'oasis/table6 fig3 fig4 fig5 table5 table7 table8',
    'facts/judges leaderboard',
    'final/table9',
    'oasis/tablec1 fig2 table4',
    'final/fig6 fig11',
)  # the longest first; and each other one, which asks nothing, for itself: so both kernels end at about the same time


def few_of(exhibit: 'Exhibit') -> dict:
    "What a paper's notebook is run with."
    from factlab.reports.reproduce import parameters_of

    known = parameters_of(exhibit)
    asks = "'tiny'" in known.get('models', known.get('model', '')) and 'dtype' not in known  # with a dtype it gives probabilities
    return FEW | ({'models': ASKED} if asks else {}) | OWN.get(exhibit.paper, {}) | OWN.get(exhibit.id, {})


def papers() -> None:
    "Every paper notebook runs through papermill on a few rows, and its files appear."
    from misbehaving_server import MisbehavingServer, answer

    from factlab.building.generation import UNIFIED
    from factlab.reports.exhibits import find_exhibits
    from factlab.reports.reproduce import SharedKernel, run_notebook

    paths = [path for path in sorted((ROOT/'nbs'/'papers').rglob('*.ipynb')) if path.parent.name != 'papers']
    parts = [[f'{ids.partition("/")[0]}/{name}' for name in ids.partition('/')[2].split()] for ids in PARTS]
    parts += [[id] for path in paths if not any((id := f'{path.parent.name}/{path.stem}') in part for part in parts)]
    with tempfile.TemporaryDirectory() as folder, MisbehavingServer(lambda call: answer(UNIFIED.example_answer)) as server:
        out = Path(folder)/'figures'
        # the embedded model needs a minute for one answer of four steps in JSON
        own = {'oasis/table1': {'models': f'openai:writer?base_url={server.url}'}}
        def run_part(ids: list[str], kernel: SharedKernel) -> list[str]:
            errors = []
            for exhibit in find_exhibits(ids):
                outcome = run_notebook(exhibit, few_of(exhibit) | own.get(exhibit.id, {}), kernel, out=out)
                print(f'{outcome.exhibit:18} {outcome.status:12} {outcome.seconds:7.1f} s  {outcome.error}'.rstrip(), flush=True)
                if not outcome.done: errors.append(outcome.error or f'{exhibit.id}: {outcome.failed} requests failed')
            return errors
        left = iter(parts)  # each of the two kernels takes what is next
        def one_kernel() -> list[str]:
            with SharedKernel({'FACTLAB_PROGRESS': '0', 'OMP_NUM_THREADS': '1'}) as kernel:
                return [error for part in left for error in run_part(part, kernel)]
        os.environ.setdefault('FACTLAB_PROGRESS', '0')  # no lines on how long a notebook has been running
        with ThreadPoolExecutor(2) as pool: errors = sum(pool.map(lambda _: one_kernel(), range(2)), [])
        if errors: raise AssertionError('\n'.join(errors))
        missing = [str(path.relative_to(ROOT)) for path in paths if not any((out/path.parent.name).glob(f'{path.stem}.*csv'))]
        if missing: raise AssertionError(f'no results of {missing}')


def tour() -> None:
    "What `make reproduce` runs, on fewer rows and with shorter answers; most of what it asks was asked just before."
    few = ('--limit', '2', '-p', 'distractors=10', '-p', f'models=["{ASKED}"]')
    with tempfile.TemporaryDirectory() as folder: reproduce(Path(folder)/'figures', '--tour', *few)


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
    "Every exact result is what its notebook writes, the gallery is that of the files; measured results of other plans are named."
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
    subprocess.run([str(BIN/'factlab'), 'reproduce', '--stale'], cwd=ROOT, check=False)  # measured results may wait to be made again


def _same(committed: Path, made: Path) -> bool:
    "Are two files the same? What was counted on a sample is not committed where the paper's own data are."
    if not committed.is_file(): return not made.name.count('.') > 1 and committed.with_name(f'{made.stem}.final{made.suffix}').is_file()
    return committed.read_bytes() == made.read_bytes()


def readme() -> None:
    "README is what index.ipynb says, and its snippets run."
    call(sys.executable, 'tests/readme.py', '--check', OMP_NUM_THREADS='1')


BESIDE = (types, lint, exported, clean, audit, readme)  # one process each: two of them at once, the longest first
STEPS = (*BESIDE, units, library, papers, tour, results)


def main(names: list[str]) -> int:
    unknown = set(names) - {step.__name__ for step in STEPS}
    if unknown: sys.exit(f'no step {sorted(unknown)}: there are {", ".join(step.__name__ for step in STEPS)}')
    from factlab.core.core import cache_dir
    if (fetched := cache_dir()/'weights').is_dir(): os.environ.setdefault('FACTLAB_WEIGHTS', str(fetched))  # once for all homes
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
