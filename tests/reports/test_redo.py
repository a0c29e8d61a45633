"""Every exhibit has an entry that its notebook can take, and whose line for a shell says the same."""
import argparse
import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from factlab.cli.reproduce import _parameters, add_reproduce
from factlab.reports.exhibits import catalog, find_exhibits
from factlab.reports.redo import REDONE, redo_entries, redone_page
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


def test_a_page_tells_what_rows_share_once_and_its_lines_can_be_pasted():
    entries = [replace(entry, n=None) for id, entry in ENTRIES.items() if id.startswith('final/')]
    row = dict.fromkeys(('calls', 'prompt_tokens', 'completion_tokens', 'hours'), 0.)
    table = REDONE.frame([{name: getattr(entry, name) for name in ('exhibit', 'before', 'command', 'rows', 'models', 'n', 'deviates')} | row
                          for entry in entries])
    page = redone_page(table)
    for point in {point for entry in entries for point in entry.deviates}: assert page.count(point) == 1, point
    shell = page.partition('```sh\n')[2].partition('```')[0]
    said = [shlex.split(line) for line in shell.replace(' \\\n', ' ').splitlines() if line and not line.startswith('#')]
    assert [words for words in said if words[1] == 'reproduce'] == [shlex.split(entry.command) for entry in entries]
