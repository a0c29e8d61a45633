"""Judges of grounding, asked through every template of models that are scripted to answer well, badly or not at all."""
import json
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.grounding.judges import ELIGIBILITY, GROUNDING, TEMPLATES, EligibilityJudge, GroundingJudge, read_paper_prompts
from factlab.grounding.parsing import ISSUES
from factlab.models.interface import Response, ScriptedModel
from factlab.models.prompts import EXAMPLE_ANSWERS
from factlab.runs.plan import make_run

ROWS = pl.DataFrame({'id': ['a', 'b'], 'document': ['The mill opened in 1901. It has two stones.', 'Tea is sold on Mondays.'],
                     'request': ['When did the mill open?', 'When is tea sold?'],
                     'response': ['It opened in 1901. It has two stones.', 'On Mondays. The tea is green.']})


def json_lines(*labels: str) -> str:
    objects = [{'sentence': f's{at}', 'label': label, 'rationale': '', 'excerpt': f'e{at}'} for at, label in enumerate(labels)]
    return '\n'.join(map(json.dumps, objects))


def verdicts(template: str, answer, rows: pl.DataFrame = ROWS) -> pl.DataFrame:
    script = answer if callable(answer) else lambda request: answer
    return GroundingJudge(TEMPLATES[template]).predict(rows, ScriptedModel('judge', script, '1'), store=False)


def test_every_template_shows_the_same_beginning_and_the_document_first():
    prompts = [template.prompt for template in TEMPLATES.values()]
    shown = [prompt.render(**{field: f'<{field}>' for field in prompt.fields}) for prompt in prompts]
    assert len({messages[0].content for messages in shown}) == 1
    beginnings = {messages[1].content[:messages[1].content.index('<response>')] for messages in shown}
    assert len(beginnings) == 1 and beginnings.pop().startswith('Document:\n<document>')


def test_one_span_that_is_not_borne_out_makes_the_response_inaccurate():
    def answer(request): return 'Inaccurate' if 'green' in request.messages[-1].content.rsplit('alone:')[-1] else 'Accurate'
    found = verdicts('span', answer)
    assert found['accurate'].to_list() == [True, False] and found['calls'].to_list() == [2, 2]
    labels = found['sentences'].list.eval(pl.element().struct['label']).to_list()
    assert labels == [['supported', 'supported'], ['supported', 'unsupported']]


def test_a_span_that_cannot_be_read_leaves_the_verdict_open_unless_another_decides():
    def answer(request):
        span = request.messages[-1].content.rsplit('alone:')[-1]
        return 'Who knows?' if 'opened' in span or 'Mondays' in span else 'Inaccurate' if 'green' in span else 'Accurate'
    found = verdicts('span', answer)
    assert found['status'].to_list() == ['unparsed', 'ok'] and found['accurate'].to_list() == [None, False]


def test_a_span_that_failed_is_named_as_failed():
    down = Response(finish_reason='error', error='down')
    found = verdicts('span', lambda r: down if 'opened' in r.messages[-1].content.rsplit('alone:')[-1] else 'Accurate')
    assert found['status'].to_list() == ['failed', 'ok'] and found['reason'][0]


@pytest.mark.parametrize(('second', 'expected'), [('YES', [True, True]), ('NO', [False, False]), ('Perhaps.', [None, None])])
def test_the_double_check_overrules_what_was_called_supported(second, expected):
    found = verdicts('json_double_check', lambda r: second if 'YES or NO' in r.messages[-1].content else json_lines('supported', 'no_rad'))
    assert found['accurate'].to_list() == expected and found['calls'].to_list() == [2, 2]
    once = verdicts('json', json_lines('supported', 'no_rad'))
    assert once['accurate'].to_list() == [True, True] and once['calls'].to_list() == [1, 1]


def test_the_double_check_is_asked_with_sentence_and_excerpt_alone():
    asked = []
    def answer(request):
        asked.append(request.messages[-1].content)
        return 'YES' if 'YES or NO' in asked[-1] else json_lines('supported', 'contradictory')
    found = verdicts('json_double_check', answer, ROWS.head(1))
    second = [text for text in asked if 'YES or NO' in text]
    assert len(second) == 1 and 's0' in second[0] and 'e0' in second[0] and 'mill' not in second[0]
    assert found['accurate'].to_list() == [False]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(TEMPLATES)), st.text(max_size=60))
def test_any_answer_gives_a_frame(template, answer):
    found = GROUNDING.check(verdicts(template, answer))
    assert found['id'].to_list() == ['a', 'b'] and (found['accurate'].is_not_null() == (found['status'] == 'ok')).all()


def test_an_empty_response_is_never_accurate_and_costs_nothing():
    for template in TEMPLATES:
        found = verdicts(template, 'Accurate', ROWS.with_columns(response=pl.Series(['', ' \n'])))
        assert found['status'].to_list() == ['unparsed']*2 and found['calls'].to_list() == [0, 0] and found['accurate'].null_count() == 2


def test_rows_that_cannot_be_judged():
    mute = ROWS.with_columns(response=pl.lit(None, pl.String))
    for rows, message in ((ROWS.drop('document'), 'document'), (ROWS.with_columns(id=pl.lit('a')), 'twice'), (mute, 'null')):
        with pytest.raises(DataError, match=message): verdicts('response', 'Accurate', rows)
    assert verdicts('response', 'Accurate', ROWS.head(0)).is_empty()


def test_a_judge_is_a_method_and_its_run_is_resumed(home):
    calls = []
    model = ScriptedModel('judge', lambda request: calls.append(1) or json_lines('supported'), '1')
    judge = GroundingJudge(TEMPLATES['json'])
    first = make_run(ROWS, judge, model, dataset='two')
    again = make_run(ROWS, judge, model, dataset='two')
    assert len(calls) == 2 and again.predictions.equals(first.predictions) and first.predictions['sentences'].list.len().to_list() == [1, 1]


# ---- eligibility -------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('shown', ['request', 'request_and_document'])
def test_eligibility(shown):
    asked = []
    model = ScriptedModel('judge', lambda r: asked.append(r.messages[-1].content) or f'{{"Instruction Following": "{ISSUES[2]}"}}', '1')
    found = EligibilityJudge(shown).predict(ROWS.with_columns(baseline=pl.lit('Some other answer.')), model, store=False)
    assert found['issues'].to_list() == [ISSUES[2]]*2 and ELIGIBILITY.check(found).height == 2
    assert all(('two stones' in text.split('Response:')[0] or 'Tea is sold on Mondays.' in text) is (shown != 'request') for text in asked)
    with pytest.raises(DataError, match='baseline'): EligibilityJudge(shown).predict(ROWS, model, store=False)


def test_an_eligibility_judge_of_another_kind(): 
    with pytest.raises(UsageError, match='request_and_document'): EligibilityJudge('document')


# ---- the published templates -------------------------------------------------------------------------------------------------------

def test_the_published_templates_word_for_word(published_templates):
    published = dict(pl.read_csv(published_templates).iter_rows())
    prompts = read_paper_prompts(published_templates)
    shown = prompts['response'].render(document='D', request='Q', response='R')[0].content
    expected = published['response_level']
    fields = {'user_request': 'Q', 'context_document': 'D', 'response': 'R'}
    for field, value in fields.items(): expected = expected.replace(f'{{{{{field}}}}}', value)
    assert shown == expected and '\\n' in shown, 'a backslash and an n stay as published'
    span = prompts['span'].render(document='D', request='Q', response='R', sentence='S', number='3')[0].content
    assert '**Span 3**' in span and '{' not in span
    assert '{"sentence": "Apples are red."' in prompts['json'].render(document='D', request='Q', response='R')[0].content
    assert '{\n  "Instruction Following": "No Issues"\n}' in prompts['request'].render(request='Q', response='R', baseline='B')[0].content
    judge = GroundingJudge(replace(TEMPLATES['span'], prompt=prompts['span']))
    found = judge.predict(ROWS, ScriptedModel('judge', lambda r: 'Accurate', '1'), store=False)
    assert found['accurate'].to_list() == [True, True]
    assert EligibilityJudge(prompt=prompts['request_and_document']).name == 'eligible_by_request_paper'


def test_other_files_are_refused(tmp_path):
    path = tmp_path/'prompts.csv'
    for text, message in (('a,b\n1,2\n', 'columns'), ('evaluation_method,evaluation_prompt\njson,x\n', 'lacks'), ('\n', 'cannot read')):
        path.write_text(text)
        with pytest.raises(DataError, match=message): read_paper_prompts(path)
    with pytest.raises(DataError, match='cannot read'): read_paper_prompts(tmp_path/'none.csv')


# ---- a second asking -----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('template', TEMPLATES)
def test_what_cannot_be_read_is_asked_for_once_more_in_the_form_that_the_template_needs(template):
    "And once only. Every form asked for can be read by who reads the first answer."
    def said(request):
        if 'YES or NO' in request.messages[-1].content and request.label != 'grounding/entailed_again': return 'Hm.'
        return EXAMPLE_ANSWERS[request.label] if request.label.endswith('_again') else 'Hm.'
    model = ScriptedModel('slow', said, f'again {template}')
    rows = ROWS.head(1)
    judge = GroundingJudge(TEMPLATES[template], retry_unparsed=True)
    found = judge.predict(rows, model, store=False)
    assert found['status'].to_list() == ['ok'] and found['accurate'].to_list() == [True]
    assert {prompt.name for prompt in judge.prompts} == {each.label for each in model.asked}
    mute = ScriptedModel('mute', lambda request: 'Hm.', f'mute {template}')
    assert judge.predict(rows, mute, store=False)['status'].to_list() == ['unparsed']
    assert len(mute.asked) == 2*len({each.messages[:2] for each in mute.asked if len(each.messages) <= 2})
