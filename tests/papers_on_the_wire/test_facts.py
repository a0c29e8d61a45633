"""FACTS Grounding with the paper's parameters: what arrives at a server is what §§ 3, 4 and Appendix A say."""
import csv
import json
import os
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from on_the_wire import Outcome, check, on_the_wire

from factlab.reports.redo import redo_entries
from factlab.studies.facts.redo import LABELLED, PASTED_MARK, PUBLIC, RESPONDERS, small_files
from factlab.text.sentences import split_sentences

DATA = Path(os.environ.get('FACTLAB_DATA', 'nowhere'))/'facts'/'evaluation_prompts.csv'
pytestmark = pytest.mark.skipif(not DATA.is_file(), reason="the authors' prompts are not in $FACTLAB_DATA: factlab data get facts")

ENTRIES = redo_entries('facts')
REQUESTS = 4  # so that three models give the ten responses from which on agreement is measured
VALUES = {'responses': REQUESTS, 'requests': REQUESTS, 'responders': len(RESPONDERS)}
ELIGIBLE = 'ineligible_responses_filter_no_context'
CHOSEN = {  # by judge: the template in bold in Table 2; in Table 4 it is the request alone for all
    'gemini-1.5-pro': 'json', 'gpt-4o': 'json', 'claude-3-5-sonnet-20241022': 'implicit_span_level'}
OF_FILE = {  # the authors' templates by the names of the folder that `factlab prompts export --published` writes
    'response': 'response_level', 'implicit_span': 'implicit_span_level', 'json': 'json', 'json_alt': 'json_alt'}
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
    if kind == 'respond': return answered(call.body['model'])
    return example.replace('"supported"', '"unsupported"').replace('Accurate', 'Inaccurate') if 'gpt-4o answers' in call.prompt else None


@pytest.fixture(scope='module')
def files(tmp_path_factory) -> dict[str, str]: return small_files(tmp_path_factory.mktemp('facts'), REQUESTS, 2)


def test_every_exhibit_that_asks_a_model_is_checked():
    assert {id for id, entry in ENTRIES.items() if entry.models} == {*ASKED}


def answered(model: str) -> str: return f'{model} answers from the document.'


@cache
def templates() -> dict[str, str]:
    with open(DATA, encoding='utf-8', newline='') as file: return dict([*csv.reader(file)][1:])


def published(name: str, **values: str) -> str:
    """The authors' template, filled in: a backslash and an n stay, as do single braces. Doubled ones that hold no field are those of
    Python's templates: the examples of eligibility verdicts are shown with one."""
    text = templates()[name]
    for field, value in values.items(): text = text.replace(f'{{{{{field}}}}}', value)
    return text.replace('{{\n', '{\n').replace('\n}}', '\n}') if name.startswith('ineligible') else text


def labelled(files: dict[str, str]) -> list[dict]:
    "The test rows, by the authors' names of the fields."
    rows = pl.read_ndjson(files[LABELLED]).filter(split='test').to_dicts()
    return [{'user_request': row['request'], 'context_document': row['document'], 'response': row['response'],
             'full_prompt': '\n\n'.join(filter(None, (row.get('system'), row['document'], row['request'])))} for row in rows]


def shown_in_table_2(outcome: Outcome, rows: list[dict]) -> None:
    "Seven templates (Appendix A), of which one is SimpleQA's: by whole responses, by sentences, and a second question about each excerpt."
    each = [{name: row[name] for name in ('user_request', 'context_document', 'response')} for row in rows]
    for kind, name in OF_FILE.items(): assert outcome.prompts(kind) == {published(name, **row) for row in each}, kind
    assert outcome.prompts('span') == {published('span_level', **row, span=sentence).replace('{{ix+1}}', str(at))
                                       for row in each for at, sentence in enumerate(split_sentences(row['response']), 1)}
    example = {'json_dict["sentence"]': 'The mill opened.', 'json_dict["excerpt"]': 'It opened in 1901.'}  # what `say` calls supported
    assert outcome.prompts('double_check') == {published('json_with_double_check', **example)}
    assert outcome.in_order('json', 'double_check')
    assert all(prompt.startswith(PASTED_MARK) and row['response'] in prompt for prompt in outcome.prompts('simpleqa')
               for row in each if row['response'] in prompt)


def shown_in_table_4(outcome: Outcome, rows: list[dict]) -> None:
    "Eligibility by the request alone and with the document, each beside another response to the same request (§ 3.2)."
    responses = {*pl.read_ndjson(rows[0]['file'])['response']}
    for name, field in ((ELIGIBLE, 'user_request'), ('ineligible_responses_filter_with_context', 'full_prompt')):
        for row in rows:
            shown = {field: row[field], 'response_a': row['response']}
            beside = {published(name, **shown, response_b=other) for other in responses - {row['response']}}
            assert len(outcome.prompts(ELIGIBLE) & beside) == 1, name  # the two templates have one form


def shown_to_judges(outcome: Outcome, requests: list[dict], responders: list[str], eligibility: bool) -> None:
    "The prompt as it is published to responders; each judge with its template; eligibility beside the judge's own response (§ 3)."
    assert outcome.prompts('respond') == {row['full_prompt'] for row in requests}
    assert all(len(each.call.body['messages']) == 1 for each in outcome.seen), 'no system message'
    for judge, template in CHOSEN.items():
        asked = {kind: {each.call.prompt for each in outcome.seen if each.model == judge and each.kind == kind}
                 for kind in (*CHOSEN.values(), ELIGIBLE)}
        fields = [{name: row[name] for name in ('user_request', 'context_document')} for row in requests]
        wanted = {published(template, **row, response=answered(name)) for row in fields for name in responders}
        assert wanted <= asked[template] and not any(asked[kind] for kind in {*CHOSEN.values()} - {template}), judge
        beside = {published(ELIGIBLE, user_request=row['user_request'], response_a=answered(name), response_b=answered(judge))
                  for row in requests for name in responders}
        assert beside <= asked[ELIGIBLE] if eligibility else not asked[ELIGIBLE], judge


@pytest.mark.parametrize('id', ASKED)
def test_an_exhibit_as_the_paper_asks(id, files, tmp_path):
    models, expected = ASKED[id]
    outcome = on_the_wire(ENTRIES[id], files, tmp_path, say)
    check(outcome, expected, VALUES, of=models)
    assert '?' not in outcome.counts() and outcome.decoding() == {0.0}
    for kind in (*CHOSEN.values(), ELIGIBLE): assert outcome.in_order('respond', kind)
    for kind in outcome.counts(): assert outcome.lengths(kind) <= {2048, 1024, 16}
    if id in ('facts/table2', 'facts/table4'):
        rows = [row | {'file': files[LABELLED]} for row in labelled(files)]
        return (shown_in_table_2 if id == 'facts/table2' else shown_in_table_4)(outcome, rows)
    requests = [json.loads(line) for line in Path(files[PUBLIC]).read_text(encoding='utf-8').splitlines()]
    names = [name.partition(':')[2].partition('?')[0] for name in RESPONDERS]
    own = id == 'facts/selfpreference'
    shown_to_judges(outcome, requests, [*CHOSEN] if own else names, eligibility=id in ('facts/table6', 'facts/leaderboard'))
