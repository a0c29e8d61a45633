"""LLM-OASIS with the paper's parameters: what arrives at a server is what § 6 and Appendix B say."""
import json

import pytest
from on_the_wire import check, on_the_wire

from factlab.data.corpora import load_oasis_sample
from factlab.reports.redo import redo_entries
from factlab.studies.oasis.redo import PASTED_MARK, small_files

ENTRIES = redo_entries('oasis')
SAMPLE = load_oasis_sample().to_dicts()
PASSAGES = 2  # each with a factual and an unfactual text, and two claims
SEEDS = 5  # each with another order of the examples; the other settings have none, so at temperature 0 five runs ask the same once
FOUR = {'text_zs': 'texts', 'text_zs_ex': 'texts', 'text_fs': 'orders*texts', 'text_fs_ex': 'orders*texts'}
TRIED = 10  # passages of Figure 1: the first on which the model keeps every rule is shown
VALUES = {'texts': 2*PASSAGES, 'passages': PASSAGES, 'orders': SEEDS, 'tried': TRIED}
ASKED = {
    'oasis/fig1': (1, {'unified': 'tried'}), 'oasis/table1': (1, {'unified': 'passages'}),
    'oasis/table5': (8, FOUR), 'oasis/table7': (8, {kind.replace('text', 'claim', 1): times for kind, times in FOUR.items()}),
    'oasis/table6': (8, {'text_zs': 'texts', 'rag_zs': 'texts'}),
    'oasis/fig3': (8, {'rag_zs': 'texts'}), 'oasis/fig4': (8, {'rag_zs': 'texts'}), 'oasis/fig5': (8, {'rag_zs': 'texts'}),
}


def four_steps(row: dict) -> str:
    return json.dumps({'step.1': row['claims'], 'step.2': [row['claims'][row['altered']], row['falsified']], 'step.3': row['factual'],
                       'step.4': row['unfactual']})


def say(kind: str, example: str, call) -> str|None:
    "An answer of the right form: four steps as they were written for the passage; the first two texts are called factual."
    if kind == 'unified': return next((four_steps(row) for row in SAMPLE if row['passage'] in call.prompt), None)
    return ('Factual' if call.number % 2 else 'Not Factual') if kind.endswith(('_zs', '_fs')) else None


@pytest.fixture(scope='module')
def files(tmp_path_factory) -> dict[str, str]: return small_files(tmp_path_factory.mktemp('oasis'), PASSAGES)


def test_every_exhibit_that_asks_a_model_is_checked():
    assert {id for id, entry in ENTRIES.items() if entry.models} == {*ASKED}


@pytest.mark.parametrize('id', ASKED)
def test_an_exhibit_as_the_paper_asks(id, files, tmp_path):
    models, expected = ASKED[id]
    outcome = on_the_wire(ENTRIES[id], files, tmp_path, say)
    check(outcome, expected, VALUES, of=models)
    assert outcome.decoding() == {0.0}, 'Appendix B'
    for each in outcome.seen:
        system, user = (each.call.body['messages'][at]['content'] for at in (0, -1))
        assert PASTED_MARK in system + user, 'the printed words that were pasted into the folder'
        # § 6.3
        if each.kind == 'rag_zs': assert '\n---\n' in user and user.index('<text>') < user.index('\n---\n') < user.index('<evidence>')
    if id == 'oasis/fig1':
        steps = SAMPLE[0]
        shown = {('factual text', 'words'): len(steps['factual'].split()), ('claims', 'count'): len(steps['claims'])}
        found = {(row, column): measured for row, column, measured in outcome.cells.select('row', 'column', 'measured').iter_rows()}
        assert shown.items() <= found.items(), 'the first passage on which every rule is kept'
    if id not in ('oasis/fig1', 'oasis/table1'): assert outcome.cells.filter(outcome.cells['status'] == 'measured')['n'].max() == 2*PASSAGES


def test_the_paper_counts_texts_and_claims_as_the_entries_do():
    assert ENTRIES['oasis/table5'].n == 1708 and ENTRIES['oasis/table7'].n == 2656 and ENTRIES['oasis/table6'].parameters['k'] == 30
