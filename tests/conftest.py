"""What every test stands on: folders of its own, no network hub, no progress bars."""
import os
from pathlib import Path

import pytest


@pytest.fixture(scope='session', autouse=True)
def surroundings(tmp_path_factory):
    "Keep the store, the cache and the runs of the tests away from those of the user."
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('FACTLAB_HOME', str(tmp_path_factory.mktemp('home')))
        patch.setenv('HF_HUB_OFFLINE', '1')
        patch.setenv('FACTLAB_PROGRESS', '0')
        patch.delenv('FACTLAB_DATA_MIRROR', raising=False)
        if folder := os.environ.get('FACTLAB_DATA'): patch.setenv('FACTLAB_DATA', str(Path(folder).expanduser().resolve()))
        yield


def with_weights(home: Path) -> None:
    "Give a home of its own the embedded model's converted weights, which take every new home seconds to make."
    from factlab.models.transformers_backend import tiny_folder
    folder = tiny_folder()
    (home/'cache').mkdir(parents=True, exist_ok=True)
    if not (link := home/'cache'/folder.name).exists(): link.symlink_to(folder)


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
