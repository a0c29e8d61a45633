"""Judges of texts: what is read from an answer, what fits a budget of tokens, and the methods on scripted models."""
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.models.asking import RETRY_NOTE, VERDICTS
from factlab.models.interface import Request, Response, ScriptedModel, load_model
from factlab.retrieval.budget import fit_evidence, token_counter
from factlab.runs.plan import make_run
from factlab.studies.oasis.judges import (
    CLAIM_EXAMPLES,
    SETTINGS,
    TEXT_EXAMPLES,
    FactualityJudge,
    cut_inputs,
    format_examples,
    judge_prompt,
    order_seeds,
    parse_factual,
)
from factlab.studies.oasis.study import Settings, judge_entry

ROWS = pl.DataFrame({'id': ['a', 'b'], 'text': ['The sea is salt.', 'The sea is sweet.'],
                     'evidence': [['Sea water holds salt.', 'Rivers bring it.'], []]},
                    schema_overrides={'evidence': pl.List(pl.String)})


@pytest.mark.parametrize('answer, factual', [
    ('Factual', True), ('factual.', True), ('Not Factual', False), ('NOT FACTUAL', False), ('"Not factual"', False), ('non-factual', False),
    ('Unfactual', False),
    ('LABEL: Factual', True), ('Label: **Not Factual**', False), ('EXPLANATION: nothing is factual here\nLABEL: Factual', True),
    ('EXPLANATION: x\nLABEL: Factual\n\nEXPLANATION: y\nLABEL: Not Factual', False), ('This text is not factual.', False),
    ('**Factual** since it is not in doubt', True),
    ('', None), ('yes', None), ('Factual or Not Factual?', None), ('It is either factual or not factual', None), ('counterfactual', None),
    ('LABEL:', None), ('This text is factually accurate, but dull.', True), ('The text is factually inaccurate.', False),
    ('LABEL: factually incorrect', False),
    ('It is not factually correct.', False), ('Factually', None),
    ('Not Factual: it is not entirely factual.', False), ('LABEL: Not Factual (it is not entirely factual)', False),
    ('This is not **factual**.', False), ('It is “not factual”.', False),
    ('EXPLANATION: not every text is factual\nLABEL: Factual', True), ('I do not know the author. The text is factual.', True),
    ('No, the text is factual.', True),
    ('The text is entirely factual.', True), ('not\nfactual', False), ('The text is non-factual.', False)])
def test_labels_are_read_as_a_person_would(answer, factual):
    parsed = parse_factual(answer)
    assert parsed.value is factual and (parsed.status == 'ok') == (factual is not None)


@pytest.mark.parametrize('answer', [
    'The text is not entirely factual.', "This isn't factual.", 'This isn’t factual.', 'It is not a factual text.',
    'The text is hardly factual.', 'Not fully factual',
    'LABEL: not entirely factual', 'LABEL: Partially factual', 'LABEL: **Mostly Factual**', 'Label: never factual',
    'I would not call it factual.', 'It is not, strictly, factual.',
    'It cannot be called factual.', 'This is not 100% factual.', "It isn't a fully factual text.", 'There are no factual errors.',
    'Largely factual', 'It is not unfactual.',
    'EXPLANATION: all of it is factual\nLABEL: not entirely factual', 'LABEL: Factual\nLABEL: not quite factual',
    'It is not a **factual** text.'])
def test_a_label_that_is_denied_or_hedged_is_no_label(answer):
    parsed = parse_factual(answer)
    assert parsed.value is None and parsed.status == 'unparsed' and parsed.reason.startswith('the label is denied or hedged')


@given(st.text())
def test_any_text_is_read_or_unparsed(text):
    parsed = parse_factual(text)
    assert parsed.status in ('ok', 'unparsed') and (parsed.value is None) == (parsed.status == 'unparsed')
    if 'factual' not in text.lower() and 'ſ' not in text: assert parsed.value is None


@pytest.mark.parametrize('task', ['text', 'rag', 'claim'])
@pytest.mark.parametrize('setting', SETTINGS)
def test_every_prompt_shows_item_and_form(task, setting):
    prompt = judge_prompt(task, **SETTINGS[setting])
    shown = '\n'.join(m.content for m in prompt.render(**{name: f'({name})' for name in prompt.fields}))
    assert all(f'({name})' in shown for name in prompt.fields) and ('EXPLANATION' in shown) == ('EX' in setting)
    assert ('(examples)' in shown) == ('FS' in setting)
    assert parse_factual(prompt.example_answer).value is False


def test_examples_are_shuffled_by_seed_and_all_there():
    orders = {format_examples(TEXT_EXAMPLES, seed=seed) for seed in range(8)}
    assert len(orders) > 4 and format_examples(TEXT_EXAMPLES, seed=3) == format_examples(TEXT_EXAMPLES, seed=3)
    for shown in orders:
        assert all(example.text in shown for example in TEXT_EXAMPLES) and shown.count('\nFactual') + shown.count('\nNot Factual') == 5
    assert format_examples(CLAIM_EXAMPLES, explain=True).count('EXPLANATION: ') == 5
    labels = [example.factual for example in (*TEXT_EXAMPLES, *CLAIM_EXAMPLES)]
    assert 4 <= sum(labels) <= 6  # neither label is the safe one


@pytest.mark.parametrize('first', [0, 1, 2, 40])
def test_five_runs_have_five_orders_and_a_seed_means_what_it_meant(first):
    settings = Settings(limit=2, seed=first, loaded={'yes': ScriptedModel('yes', lambda request: 'Factual', revision=f'orders {first}')})
    for task, examples in (('text', TEXT_EXAMPLES), ('claim', CLAIM_EXAMPLES)):
        seeds = [step.seed for step in judge_entry(settings, 'FS', task, 'yes', 5, few_shot=True).steps]
        assert seeds[0] == first and sorted(set(seeds)) == seeds
        assert len({format_examples(examples, seed=seed) for seed in seeds}) == 5
        # a seed is left out only where its order was there before
        before = [format_examples(examples, seed=seed) for seed in range(first, seeds[-1] + 1)]
        assert len(set(before)) == 5
    plain = judge_entry(settings, 'ZS', 'text', 'yes', 5)
    assert [step.seed for step in plain.steps] == [*range(first, first + 5)]


def test_more_runs_than_orders_are_refused():
    assert len(order_seeds(0, 120)) == 120
    with pytest.raises(UsageError, match='5 examples have 120 orders: 121 runs'): order_seeds(0, 121)


def words(texts): return np.array([len(text.split()) for text in texts])


@given(st.lists(st.lists(st.text('ab ', min_size=1).map(lambda text: ' '.join(text.split()) or 'a'), max_size=6), max_size=5),
       st.integers(1, 12))
def test_evidence_is_the_longest_beginning_within_the_budget(passages, budget):
    for item, shown in zip(passages, fit_evidence(passages, budget, words), strict=True):
        everything = [word for text in item for word in text.split()]
        assert shown.split() == everything[:budget]
        assert fit_evidence([item], None, words) == ['\n'.join(item)]


def test_a_budget_below_one_is_refused():
    with pytest.raises(UsageError, match='budget of 0'): fit_evidence([['a']], 0, words)


def test_tokens_are_those_of_the_model():
    tiny = load_model('tiny')
    counts = token_counter(tiny)(['salt', 'the sea is salt and wide', ''])
    assert counts[0] < counts[1] and counts[2] <= 1
    long = 'water '*300
    shown, = fit_evidence([[long, 'never reached']], 40, token_counter(tiny))
    assert 20 < len(shown.split()) <= 40 and 'never' not in shown


@pytest.mark.parametrize('model', ['tiny', 'scripted'])
@pytest.mark.parametrize('how', [{}, {'few_shot': True, 'explain': True}])
def test_no_input_is_longer_than_its_length_and_evidence_goes_before_the_text(model, how):
    model = load_model('tiny') if model == 'tiny' else ScriptedModel('m', lambda request: 'Factual')
    prompt, given = judge_prompt('rag', **how), {'examples': format_examples(TEXT_EXAMPLES)} if how else {}
    def size(value): return model.count_tokens([Request(messages=prompt.render(**value))])[0]
    text, passages = 'The sea is salt, and rivers bring the salt. '*3, [f'Passage {n} says that sea water holds salt.' for n in range(40)]
    values = [given | {'text': text, 'evidence': ''}, given | {'text': 'Salt.', 'evidence': ''}]
    least, bare = (size(values[0] | {'text': part}) for part in ('', text))
    for tokens in (least + 3, bare, bare + 1, bare + 40, bare + 5000):
        for value, whole in zip(cut_inputs(prompt, values, [passages, []], tokens, model), (text, 'Salt.'), strict=True):
            assert size(value) <= tokens and whole.startswith(value['text'])
            assert value['text'] == whole or tokens < bare and not value['evidence']
            assert '\n'.join(passages).startswith(value['evidence'])
    first, second = cut_inputs(prompt, values, [passages, []], bare + 40, model)
    assert size(first) > bare + 30 and second['evidence'] == ''
    assert cut_inputs(prompt, values, [passages, []], bare + 5000, model)[0]['evidence'] == '\n'.join(passages)
    with pytest.raises(UsageError, match='instructions alone take'): cut_inputs(prompt, values, [passages, []], least, model)


def test_verdicts_follow_the_script():
    model = ScriptedModel('m', lambda request: 'Not Factual' if 'sweet' in request.messages[-1].content else 'Factual', revision='1')
    for judge in (FactualityJudge(), FactualityJudge('rag'), FactualityJudge('claim', few_shot=True)):
        found = judge.predict(ROWS, model, False)
        assert found.columns == list(VERDICTS.columns) and found['inconsistent'].to_list() == [False, True]
        assert found['calls'].to_list() == [1, 1]


def test_what_names_no_label_is_compared_or_left_unparsed():
    def answer(request):
        if request.choices: return Response(finish_reason='choices', choice_logprobs=(-2., -1.))
        return 'I wonder.' if 'sweet' in request.messages[-1].content else 'Factual'
    model = ScriptedModel('m', answer, revision='1')
    found = FactualityJudge().predict(ROWS, model, False)
    assert found['inconsistent'].to_list() == [False, True] and found['reason'].to_list() == ['', RETRY_NOTE]
    assert found['calls'].to_list() == [1, 2]
    found = FactualityJudge(retry_unparsed=False).predict(ROWS, model, False)
    assert found['status'].to_list() == ['ok', 'unparsed'] and found['inconsistent'].to_list() == [False, None]
    assert 'neither label' in found['reason'][1]


def test_the_seed_orders_examples_and_nothing_else_at_temperature_0():
    seen = []
    model = ScriptedModel('m', lambda request: seen.append(request) or 'Factual', revision='1')
    keys = {}
    for few_shot in (False, True):
        for seed in (0, 1):
            seen.clear()
            FactualityJudge(few_shot=few_shot).predict(ROWS.head(1), model, False, seed=seed)
            keys[few_shot, seed] = seen[0].key({})
    assert keys[False, 0] == keys[False, 1] and keys[True, 0] != keys[True, 1]
    assert FactualityJudge(temperature=.7).name != FactualityJudge().name and FactualityJudge('rag', tokens=500).name == 'rag_zs_500'


def test_runs_are_kept_apart_by_setting_and_evidence_is_needed(tmp_path):
    model = ScriptedModel('m', lambda request: 'Factual', revision='1')
    ids = {make_run(ROWS, FactualityJudge(task, **setting, tokens=tokens), model, dataset='mine', folder=tmp_path).id
           for task in ('text', 'rag', 'claim') for setting in SETTINGS.values() for tokens in (None, 400)}
    assert len(ids) == 24
    with pytest.raises(DataError, match=re.escape("['evidence'] are missing")):
        FactualityJudge('claim').predict(ROWS.drop('evidence'), model, False)
    with pytest.raises(UsageError, match='no task'): FactualityJudge('poem')


def test_one_passage_or_a_list_of_them():
    seen = []
    model = ScriptedModel('m', lambda request: seen.append(request.messages[-1].content) or 'Factual', revision='1')
    FactualityJudge('claim').predict(pl.DataFrame({'id': ['a'], 'text': ['T'], 'evidence': ['{braces} <b>']}), model, False)
    FactualityJudge('claim').predict(pl.DataFrame({'id': ['a'], 'text': ['T'], 'evidence': [['{braces} <b>']]}), model, False)
    assert seen[0] == seen[1] and '{braces} <b>' in seen[0]
