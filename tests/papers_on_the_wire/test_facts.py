"""FACTS Grounding with the paper's parameters: what arrives at a server is what §§ 3, 4 and Appendix A say."""
import os
from pathlib import Path

import pytest
from on_the_wire import check, on_the_wire

from factlab.reports.redo import redo_entries
from factlab.studies.facts.redo import JUDGES, RESPONDERS, small_files

DATA = Path(os.environ.get('FACTLAB_DATA', 'nowhere'))/'facts'/'evaluation_prompts.csv'
pytestmark = pytest.mark.skipif(not DATA.is_file(), reason="the authors' prompts are not in $FACTLAB_DATA: factlab data get facts")

ENTRIES = redo_entries('facts')
REQUESTS = 4  # so that three models give the ten responses from which on agreement is measured
VALUES = {'responses': REQUESTS, 'requests': REQUESTS, 'responders': len(RESPONDERS)}
ELIGIBLE = 'ineligible_responses_filter_no_context'
# every response, and those of three responders that read nothing, by each judge with its own template
JUDGED = {'respond': 'requests', '*json': '2*requests*(responders + 3)', '*implicit_span_level': 'requests*(responders + 3)'}
FILTERED = {f'*{ELIGIBLE}': '3*requests*(responders + 3)'}  # by the request alone, which all three do best with (Table 4)
# by exhibit: models, and how often they are asked
ASKED = {
    'facts/table2': (3, {'response': 'responses', 'implicit_span': 'responses', 'json': 'responses', 'json_alt': 'responses',
                         'simpleqa': 'responses'}),
    'facts/table4': (3, {ELIGIBLE: '2*responses'}),  # with and without the document
    'facts/table5': (9, JUDGED),
    'facts/table6': (9, JUDGED | FILTERED),
    'facts/selfpreference': (3, {'respond': 'requests'}),
    'facts/leaderboard': (9, JUDGED | FILTERED),
}


def say(kind: str, example: str, call) -> str|None:
    "An answer of the right form; what GPT-4o answers is not grounded."
    if kind == 'respond': return f'{call.body["model"]} answers from the document.'
    return example.replace('"supported"', '"unsupported"').replace('Accurate', 'Inaccurate') if 'gpt-4o answers' in call.prompt else None


@pytest.fixture(scope='module')
def files(tmp_path_factory) -> dict[str, str]: return small_files(tmp_path_factory.mktemp('facts'), REQUESTS, 2)


def test_every_exhibit_that_asks_a_model_is_checked():
    assert {id for id, entry in ENTRIES.items() if entry.models} == {*ASKED}


@pytest.mark.parametrize('id', ASKED)
def test_an_exhibit_as_the_paper_asks(id, files, tmp_path):
    models, expected = ASKED[id]
    outcome = on_the_wire(ENTRIES[id], files, tmp_path, say)
    check(outcome, expected, VALUES, of=models)
    assert outcome.decoding() == {0.0}
    assert outcome.in_order('respond', 'json') and outcome.in_order('respond', 'implicit_span_level')
    for kind in outcome.counts(): assert outcome.lengths(kind) <= {2048, 1024, 16}
    if 'table4' not in id and 'table2' not in id:  # each judge with the template that the paper chose for it (Table 2)
        judged = {each.model: each.kind for each in outcome.seen if each.kind in ('json', 'implicit_span_level', 'implicit_span')}
        assert judged == {'gemini-1.5-pro': 'json', 'gpt-4o': 'json', 'claude-3-5-sonnet-20241022': 'implicit_span_level'}
        assert len(judged) == len(JUDGES)
