"""Direct judges of mixed contexts, asked of models that are scripted to answer well, badly or not at all."""
import json
import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.mixed_context.judges import (
    DIRECT_PROMPTS,
    KNOWLEDGE_PROMPT,
    SHOTS,
    DirectJudge,
    Verdicts,
    format_shots,
    parse_verdicts,
    verdict_json,
)
from factlab.mixed_context.labels import FACTUAL, LABELS, MIXED_PREDICTIONS, NON_FACTUAL, NONE, UNNAMED
from factlab.models.interface import Response, ScriptedModel
from factlab.runs.plan import make_run

LABEL = {(True, True): NONE, (False, True): FACTUAL, (False, False): NON_FACTUAL, (True, False): UNNAMED}
ROWS = pl.DataFrame({'id': ['a', 'b'], 'document': ['The mill opened in 1901.', 'Tea is sold in Lund.'],
                     'summary': ['A mill opened in 1901.', 'Tea is sold in Lund, a city of Sweden.']})


def predict(answer, rows: pl.DataFrame = ROWS, variant: str = 'vanilla') -> pl.DataFrame:
    script = answer if callable(answer) else lambda request: answer
    return DirectJudge(variant).predict(rows, ScriptedModel('judge', script, '1'), store=False)


# --- prompts ----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('prompt', [*DIRECT_PROMPTS.values(), KNOWLEDGE_PROMPT], ids=lambda prompt: prompt.name)
def test_a_prompt_shows_the_document_first_and_the_summary_late(prompt):
    text, = (message.content for message in prompt.render(**{field: f'({field})' for field in prompt.fields}))
    assert text.startswith('Document:\n<document>\n(document)') and text.index('(summary)') > .55*len(text)
    assert text.count('(document)') == text.count('(summary)') == 1 and '{{' not in text
    assert parse_verdicts(prompt.example_answer).ok


def test_direct_prompts_share_all_that_stands_before_what_differs():
    shown = [prompt.render(document='d'*50, summary='s')[0].content for prompt in DIRECT_PROMPTS.values()]
    rules = shown[0].index('Summary of the document')
    assert len({text[:rules] for text in shown}) == 1 and rules > 400


def test_no_form_that_a_prompt_shows_can_be_taken_for_an_answer():
    for prompt in (*DIRECT_PROMPTS.values(), KNOWLEDGE_PROMPT):
        assert not parse_verdicts(prompt.user.replace('{{', '{').replace('}}', '}').split('Summary of')[-1]).ok


def test_the_examples_have_one_label_each_and_are_read_as_they_are_written():
    assert {LABEL[shot.faithful, shot.factual] for shot in SHOTS} == set(LABELS)
    lines = [line.partition(': ')[2] for line in format_shots().splitlines() if line.startswith('Verdicts')]
    assert [parse_verdicts(line).value for line in lines] == [Verdicts(shot.faithful, shot.factual) for shot in SHOTS]


# --- reading ----------------------------------------------------------------------------------------------------------------

SPELLINGS = {True: ['true', '"true"', '"True"', '"YES"', '"yes."', 'True', "'True'"],
             False: ['false', '"False"', '"no"', '"NO"', 'False', "'no'"]}
KEYS = {'faithful': ['Faithfulness', 'faithfulness', 'FAITHFULNESS', 'Faithful', ' faithfulness '],
        'factual': ['Factuality', 'factuality', 'FACTUALITY', 'factual', 'factuality_']}
AROUND = [('', ''), ('```json\n', '\n```'), ('```JSON\n', '```\nDone.'), ('My verdict is: ', ' I hope this helps.'),
          ('It says {nothing} of that.\n', ''), ('{"step": 1}\n', ''), ('<think>x</think>', '')]


@given(faithful=st.booleans(), factual=st.booleans(), data=st.data())
@settings(max_examples=300, deadline=None)
def test_both_verdicts_are_read_in_every_spelling(faithful, factual, data):
    key, other = (f'"{data.draw(st.sampled_from(KEYS[name]))}"' for name in ('faithful', 'factual'))
    pairs = [f'{key}: {data.draw(st.sampled_from(SPELLINGS[faithful]))}', f'{other}: {data.draw(st.sampled_from(SPELLINGS[factual]))}']
    before, after = data.draw(st.sampled_from(AROUND))
    body = ', '.join(data.draw(st.permutations(pairs))) + data.draw(st.sampled_from(['', ',']))
    found = parse_verdicts(f'{before}{{{body}}}{after}')
    assert found.value == (faithful, factual) and found.status == 'ok'


@given(first=st.tuples(st.booleans(), st.booleans()), last=st.tuples(st.booleans(), st.booleans()))
def test_the_last_of_several_objects_counts(first, last):
    found = parse_verdicts(f'Perhaps {verdict_json(*first)}, but then {verdict_json(*last)}.')
    assert found.value == last and '2 objects' in found.reason


@pytest.mark.parametrize('answer', [
    '', '   ', 'true', 'The summary is faithful and factual.', 'Faithfulness: true, Factuality: true', '{}', '[]', 'null',
    '{"Faithfulness": true}', '{"Factuality": false}', '{"Faithfulness": true, "Factuality": null}',
    '{"Faithfulness": true, "Factuality": 1}', '{"Faithfulness": "mostly", "Factuality": true}',
    '{"Faithfulness": true/false, "Factuality": true/false}', '{"Faithfulness": "true or false", "Factuality": true}',
    '{"Faithfulness": "not true", "Factuality": true}', '{"Faithfulness": [true], "Factuality": true}',
    '{"Faithfulness": true, "Faithfulness": false, "Factuality": true}', '{"Faithfulness": true, "Factuality": tr',
    '{"Faithfulness": true, "Factuality": true} {"Faithfulness": false',
    '{"Unfaithfulness": true, "Factuality": true}', '{"Faithfulness": __import__("os"), "Factuality": True}',
    '{"Faithfulness": true, "Factuality": true, "again": {"Factuality": false}}', '{"a":'*200 + 'true' + '}'*200])
def test_nothing_else_becomes_a_verdict(answer):
    found = parse_verdicts(answer)
    assert (found.value, found.status) == (None, 'unparsed') and found.reason


PIECES = [verdict_json(True, False), verdict_json(False, False), '{', '}', '"', '```', 'true', 'false', ':', ',', '\n', 'Faithfulness',
          '"Factuality"', '\ud800', '\x00', '“', "'", 'yes', 'null', '\\', '{{', '[', ']', '1e999', 'NaN']

@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12).map(''.join))
@settings(max_examples=500, deadline=None)
def test_no_answer_raises_and_no_verdict_comes_from_a_text_without_it(text):
    found = parse_verdicts(text)
    if found.ok:
        assert re.search(r'faithful', text, re.IGNORECASE) and re.search(r'factual', text, re.IGNORECASE)
        for verdict in found.value: assert re.search('true|yes' if verdict else 'false|no', text, re.IGNORECASE)
    else: assert found.value is None and found.reason


# --- judging ----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('pair, label', LABEL.items())
@pytest.mark.parametrize('variant', DIRECT_PROMPTS)
def test_verdicts_become_labels(pair, label, variant):
    found = predict('I think so. ' + verdict_json(*pair), variant=variant)
    assert found['label'].to_list() == [label]*2 and found.select('faithful', 'factual').rows() == [pair]*2
    assert found['id'].to_list() == ['a', 'b'] and found['answer'][0].startswith('I think so.') and found['calls'].to_list() == [1, 1]
    assert found.columns == list(MIXED_PREDICTIONS.columns)


def test_what_cannot_be_read_or_asked_stays_visible():
    def answer(request):
        return Response.failed('no route') if '1901' in request.messages[0].content else '{"Faithfulness": true}'
    found = predict(answer)
    assert found['status'].to_list() == ['failed', 'unparsed'] and found['label'].null_count() == 2
    assert found['reason'][0] == 'no route' and 'factual' in found['reason'][1]


def test_an_answer_that_is_cut_off_says_so():
    found = predict(Response(text='First, the document', finish_reason='length', completion_tokens=4), variant='cot')
    assert found['status'][0] == 'unparsed' and 'cut off after 4 tokens' in found['reason'][0]


def test_summaries_without_words_are_not_asked_about():
    rows = pl.DataFrame({'id': ['a', 'b', 'c'], 'document': ['x', ' ', '\n'], 'summary': ['…', 'y', '']})
    found = predict(verdict_json(True, True), rows)
    assert found['reason'].to_list() == ['the summary is empty', 'the document is empty', 'the document is empty']
    assert found['calls'].sum() == 0 and (found['status'] == 'unparsed').all()


@pytest.mark.parametrize('rows', [ROWS.drop('document'), ROWS.with_columns(document=pl.lit(None, pl.String)),
                                  ROWS.with_columns(id=pl.lit('a')), ROWS.with_columns(summary=pl.lit(3))])
def test_rows_that_no_method_can_read(rows):
    with pytest.raises(DataError): predict('x', rows)


def test_other_variants_are_refused():
    with pytest.raises(UsageError, match='vanilla, icl, cot'): DirectJudge('zero-shot')


def test_a_judge_makes_a_run_that_is_read_back(home):
    model = ScriptedModel('judge', lambda request: json.dumps({'Faithfulness': False, 'Factuality': True}), '1')
    runs = [make_run(ROWS, DirectJudge(variant), model, dataset='two') for variant in DIRECT_PROMPTS]
    assert len({run.id for run in runs}) == 3 and len(model.asked) == 6
    again = make_run(ROWS, DirectJudge('cot'), model, dataset='two')
    assert again.id == runs[2].id and again.predictions['label'].to_list() == [FACTUAL]*2 and len(model.asked) == 6
    assert DirectJudge('cot', max_tokens=9).max_tokens == 9 != DirectJudge('cot').max_tokens
