"""LLM-OASIS with the paper's parameters: what arrives at a server is what § 6 and Appendix B say."""
import pytest
from on_the_wire import check, on_the_wire

from factlab.reports.redo import redo_entries
from factlab.studies.oasis.redo import PASTED_MARK, small_files

ENTRIES = redo_entries('oasis')
PASSAGES = 2  # each with a factual and an unfactual text, and two claims
SEEDS = 5  # each with another order of the examples; the other settings have none, so at temperature 0 five runs ask the same once
FOUR = {'text_zs': 'texts', 'text_zs_ex': 'texts', 'text_fs': 'orders*texts', 'text_fs_ex': 'orders*texts'}
VALUES = {'texts': 2*PASSAGES, 'passages': PASSAGES, 'orders': SEEDS}
ASKED = {
    'oasis/table1': (1, {'unified': 'passages'}),
    'oasis/table5': (8, FOUR), 'oasis/table7': (8, {kind.replace('text', 'claim', 1): times for kind, times in FOUR.items()}),
    'oasis/table6': (8, {'text_zs': 'texts', 'rag_zs': 'texts'}),
    'oasis/fig3': (8, {'rag_zs': 'texts'}), 'oasis/fig4': (8, {'rag_zs': 'texts'}), 'oasis/fig5': (8, {'rag_zs': 'texts'}),
}


def say(kind: str, example: str, call) -> str|None:
    "An answer of the right form; the first two texts are called factual."
    return ('Factual' if call.number % 2 else 'Not Factual') if kind.endswith(('_zs', '_fs')) else None


@pytest.fixture(scope='module')
def files(tmp_path_factory) -> dict[str, str]: return small_files(tmp_path_factory.mktemp('oasis'), PASSAGES)


def test_every_exhibit_that_asks_a_model_is_checked():
    assert {id for id, entry in ENTRIES.items() if entry.models} == {*ASKED, 'oasis/fig1'}


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
    if id not in ('oasis/table1',): assert outcome.cells.filter(outcome.cells['status'] == 'measured')['n'].max() == 2*PASSAGES


def test_the_paper_counts_texts_and_claims_as_the_entries_do():
    assert ENTRIES['oasis/table5'].n == 1708 and ENTRIES['oasis/table7'].n == 2656 and ENTRIES['oasis/table6'].parameters['k'] == 30
