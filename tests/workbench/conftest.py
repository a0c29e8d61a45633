"""One JupyterLab and one Chromium for all tests of this folder that a worker runs."""
from pathlib import Path

import pytest
from in_browser import chromium, running_lab


@pytest.fixture(scope='session')
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('workbench')/'root'
    folder.mkdir()
    return folder


@pytest.fixture(scope='session')
def lab(root):
    with running_lab(root) as lab: yield lab


@pytest.fixture(scope='session')
def browser():
    with chromium() as browser: yield browser
