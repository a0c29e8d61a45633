"""Every exhibit has an entry that its notebook can take, and whose line for a shell says the same."""
import argparse
import json
import shlex
from pathlib import Path

import pytest

from factlab.cli.reproduce import _parameters, add_reproduce
from factlab.reports.exhibits import catalog, find_exhibits
from factlab.reports.redo import redo_entries
from factlab.reports.reproduce import fitted, parameters_of

ENTRIES = redo_entries()


def test_every_exhibit_has_an_entry():
    assert [*ENTRIES] == [exhibit.id for exhibit in catalog()]


@pytest.mark.parametrize('id', ENTRIES)
def test_a_notebook_has_the_parameters_of_its_entry_and_its_line_gives_them(id):
    exhibit, = find_exhibits([id])
    entry, known = ENTRIES[id], parameters_of(exhibit)
    assert {*entry.parameters} <= {*known}
    parser = argparse.ArgumentParser()
    add_reproduce(parser.add_subparsers())
    arguments = parser.parse_args(shlex.split(entry.command)[1:])
    written = json.loads(json.dumps(fitted(_parameters(arguments), known)).replace(f'{Path.cwd()}/', ''))
    assert written == fitted(entry.parameters, known)
    if entry.models: assert entry.rows and entry.deviates
