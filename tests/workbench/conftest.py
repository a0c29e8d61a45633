"""A JupyterLab over an empty folder and a Chromium, one of each for a file of tests."""
from pathlib import Path

import pytest
from in_browser import chromium, running_lab


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('workbench')/'root'
    folder.mkdir()
    return folder


@pytest.fixture(scope='module')
def lab(root):
    with running_lab(root) as lab: yield lab


@pytest.fixture(scope='module')
def browser():
    with chromium() as browser: yield browser
