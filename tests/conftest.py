"""What every test stands on: folders of its own, no network hub, no progress bars."""
import gc
import json
import os
from pathlib import Path

import pytest
from hypothesis import settings

from factlab.core.core import cache_dir
from factlab.reports.reproduce import spare_grammar

spare_grammar()  # before a test module imports jsonschema by nbformat or altair: seconds in each worker
gc.set_threshold(100_000, 30, 100)  # a tenth of a worker's time went into looking for cycles

SLOW = (  # files that take longest: first, so that no worker has one left when the others are done; the store's forks, in little memory
    'test_store.py', 'test_reproduce.py', 'test_train.py', 'test_transformers_backend.py', 'test_browser.py',
    'test_browser_lab.py', 'test_browser_workbench.py',  
    'test_tutorials.py', 'test_runs.py', 'test_generation.py', 'test_verify.py', 'test_embedded_judge.py',
    'test_verifier.py', 'test_extractor.py', 'test_named_models.py', 'test_matching.py', 'test_serve_backend.py',
    'test_server_process.py', 'test_commands.py', 'test_baselines.py', 'test_repeats.py',
    'test_counterfactual.py', 'test_contributing.py', 'test_main.py',
)


def pytest_configure(config):
    "Property tests draw the same examples each time, so that the suite fails for what was changed; `--hypothesis-seed` draws others."
    settings.register_profile('suite', derandomize=True, database=None)
    if config.getoption('hypothesis_seed', None) is None: settings.load_profile('suite')


def pytest_collection_modifyitems(items):
    "Slow files first (`tests/run.py` tells xdist to keep this order)."
    items.sort(key=lambda item: SLOW.index(item.path.name) if item.path.name in SLOW else len(SLOW))


def pytest_collection_finish(session):
    "What was imported stays: the garbage collector need not look through it again, in every test that fills memory or calls for it."
    gc.collect()
    gc.freeze()


def shared_cache(tmp_path_factory) -> Path:
    "One cache for all workers, so that the embedded model's weights are converted once: that of `tests/run.py`, or one beside theirs."
    if named := os.environ.get('FACTLAB_TEST_CACHE'): return Path(named)
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base)/'cache'
    cache.mkdir(exist_ok=True)
    return cache


@pytest.fixture(scope='session', autouse=True)
def surroundings(tmp_path_factory):
    "Keep the store, the cache and the runs of the tests away from those of the user. Weights that the user fetched are there."
    home = tmp_path_factory.mktemp('home')
    (home/'cache').symlink_to(shared_cache(tmp_path_factory))
    with pytest.MonkeyPatch.context() as patch:
        fetched = cache_dir()/'weights'
        if fetched.is_dir() and 'FACTLAB_WEIGHTS' not in os.environ: patch.setenv('FACTLAB_WEIGHTS', str(fetched))
        patch.setenv('FACTLAB_HOME', str(home))
        patch.setenv('HF_HUB_OFFLINE', '1')
        patch.setenv('FACTLAB_PROGRESS', '0')
        patch.setattr('factlab.models.endpoint_calls.FIRST_WAIT', 0.01)  # seconds before a call to a server is tried again
        patch.delenv('FACTLAB_DATA_MIRROR', raising=False)
        if folder := os.environ.get('FACTLAB_DATA'): patch.setenv('FACTLAB_DATA', str(Path(folder).expanduser().resolve()))
        yield


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    "A home of a test's own."
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    return tmp_path/'home'


@pytest.fixture
def no_key(monkeypatch):
    "No key, address or prices of the user's."
    for name in [*os.environ]:
        if name.startswith('OPENAI_') or name == 'FACTLAB_PRICES': monkeypatch.delenv(name)


def with_weights(home: Path) -> None:
    "Give a home of its own the embedded model's converted weights, which take every new home seconds to make."
    from factlab.models.transformers_backend import tiny_folder
    folder = tiny_folder()
    (home/'cache').mkdir(parents=True, exist_ok=True)
    if not (link := home/'cache'/folder.name).exists(): link.symlink_to(folder)


def with_cache(home: Path) -> None:
    "Give a home of its own the cache of the other tests: passages that they encoded, and the converted weights."
    home.mkdir(exist_ok=True)
    (home/'cache').symlink_to(cache_dir())


def written(path: Path, *rows: dict) -> str:
    "The path of a file with a line of JSON for each row."
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows), encoding='utf-8')
    return str(path)


def real_data(name: str):
    "Skip, with the reason, where `$FACTLAB_DATA` does not hold a data set."
    folder = os.environ.get('FACTLAB_DATA')
    if not folder: pytest.skip(f'needs real data: set FACTLAB_DATA to a folder that holds {name}/')
    if not (Path(folder)/name).is_dir(): pytest.skip(f'needs real data: {folder} holds no {name}/')


@pytest.fixture
def final_data():
    "FINAL as a frame (schema FINAL), from `$FACTLAB_DATA`."
    real_data('final')
    from factlab.data import datasets as data
    return data.load('final')


@pytest.fixture
def published_templates() -> Path:
    "The authors' file of FACTS' prompts, from `$FACTLAB_DATA`."
    real_data('facts')
    return Path(os.environ['FACTLAB_DATA'])/'facts'/'evaluation_prompts.csv'


@pytest.fixture
def store(tmp_path):
    "A store of one test."
    from factlab.store.answers import Store
    with Store(tmp_path/'store.sqlite') as store: yield store
