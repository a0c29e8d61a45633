"""Simulated judge noise agrees with flipping every decision and with its closed form; corrections find the truth they promise."""
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import UsageError
from factlab.measures.metrics import matching_scores
from factlab.measures.noise import (
    CORRECTED,
    NOISE,
    Rate,
    corrected_scores,
    expected_matches,
    judge_draws,
    judge_noise,
    judge_rates,
    noise_draws,
    prediction_powered_mean,
    rogan_gladen,
    tuned_weight,
)
from factlab.measures.stats import F1, resampled_totals


def random_counts(n: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    gold, found = generator.integers(0, 4, n), generator.integers(0, 5, n)
    return np.stack([generator.binomial(np.minimum(gold, found), .6), found, gold], 1)


def flipped(counts: np.ndarray, sensitivity: float, specificity: float, generator: np.random.Generator) -> int:
    "One draw, decision by decision."
    total = 0
    for tp, found, _ in counts:
        for finding in range(found):
            stays = generator.random() < (sensitivity if finding < tp else specificity)
            total += stays if finding < tp else not stays
    return total


def test_draws_agree_with_flipping_decisions():
    counts, generator = random_counts(60), np.random.default_rng(7)
    literal = np.array([flipped(counts, .9, .8, generator) for _ in range(1500)])
    ours = judge_draws(counts, .9, .8, 20_000, seed=3)
    mean, spread = expected_matches(counts, .9, .8)
    for drawn in (literal, ours[:, 0]):
        assert drawn.mean() == pytest.approx(mean, abs=4*spread/len(drawn)**.5)
        assert drawn.std() == pytest.approx(spread, rel=4/(2*len(drawn))**.5)
    assert (ours[:, 1:] == counts[:, 1:].sum(0)).all()


def test_a_perfect_judge_changes_nothing():
    counts = random_counts(50)
    assert (judge_draws(counts, 1, 1, 20) == counts.sum(0)).all()
    assert expected_matches(counts, 1, 1) == (counts[:, 0].sum(), 0)
    lost = judge_draws(counts, 0, 1, 5)
    assert (lost[:, 0] == 0).all()


def test_seeds_and_edges():
    counts = random_counts(50)
    assert np.array_equal(judge_draws(counts, .9, .9, 30, 1), judge_draws(counts[::-1], .9, .9, 30, 1))
    assert not np.array_equal(judge_draws(counts, .9, .9, 30, 1), judge_draws(counts, .9, .9, 30, 2))
    assert judge_draws(counts[:0], .9, .9, 4).tolist() == [[0, 0, 0]]*4 and expected_matches(counts[:0], .9, .9) == (0, 0)
    assert judge_draws([[0, 0, 0]], .9, .9, 3).tolist() == [[0, 0, 0]]*3
    for wrong in ([[2, 1, 3]], [[2, 3, 1]], [[.5, 1, 1]], [[1, 1]], [[float('nan'), 1, 1]], [[-1, 0, 0]]):
        with pytest.raises(UsageError): judge_draws(wrong, .9, .9)
    for rates in ((1.1, .9), (.9, -.1), (float('nan'), .9), (Rate(3, 2), .9), (.9, Rate(0, 0))):
        with pytest.raises(UsageError): judge_draws(counts, *rates)
    with pytest.raises(UsageError, match='draws'): judge_draws(counts, .9, .9, 0)


def noisy_frame():
    frame = pl.DataFrame(random_counts(300), schema=['tp', 'n_predicted', 'n_gold']).with_columns(model=pl.Series(['b', 'a', 'c']*100))
    return frame.with_columns(tp=pl.when(pl.int_range(300) % 10 > 0).then('tp'))


def test_table_of_noise():
    frame = noisy_frame()
    table = judge_noise(frame, ['model'], draws=4000)
    assert dict(table.drop('model').schema) == dict(NOISE.columns)
    assert table['model'].to_list() == [name for name in 'bac' for _ in range(3)]
    assert table.filter(pl.col('metric') == 'f1')['value'].to_list() == matching_scores(frame, ['model'], 'wrong')['f1'].to_list()
    assert table['unparsed'].to_list() == [10]*9
    assert ((table['mean'] - table['expected']).abs() < 5*table['spread']/4000**.5).all()
    assert ((table['high'] - table['low'])/(2*1.96*table['spread'])).is_between(.9, 1.1).all()
    found = noise_draws(frame, ['model'], draws=2000)
    correlations = np.corrcoef(F1(found.totals))
    assert found.totals.shape == (3, 2000, 3) and np.abs(correlations[np.triu_indices(3, 1)]).max() < .1  # groups are drawn on their own
    assert judge_noise(frame, draws=10)['draws'].to_list() == [10]*3
    assert judge_noise(frame.clear(), ['model']).is_empty() and judge_noise(frame.clear())['expected'].null_count() == 3
    nothing_found = pl.DataFrame({'tp': [0], 'n_predicted': [0], 'n_gold': [2]})
    assert judge_noise(nothing_found)['mean'].to_list() == [None, 0, 0]


def test_rates():
    assert judge_rates(Rate(95, 100), .9) == (.95, .9)
    for pair in ((.5, .5), (.2, .7), (Rate(1, 2), Rate(1, 2))):
        assert judge_rates(*pair)
        with pytest.raises(UsageError, match='1 or less'): judge_rates(*pair, informative=True)
        with pytest.raises(UsageError, match='1 or less'): rogan_gladen(.5, *pair)
        with pytest.raises(UsageError, match='1 or less'): corrected_scores(noisy_frame(), sensitivity=pair[0], specificity=pair[1])


@settings(max_examples=60, deadline=None)
@given(st.floats(.01, .99), st.floats(.55, 1), st.floats(.55, 1))
def test_rogan_gladen_inverts_the_judge(share, sensitivity, specificity):
    called = share*sensitivity + (1 - share)*(1 - specificity)
    assert rogan_gladen(called, sensitivity, specificity) == pytest.approx(share)
    assert rogan_gladen(0, sensitivity, specificity) == 0 and rogan_gladen(1, sensitivity, specificity) == 1


def test_corrected_scores():
    generator = np.random.default_rng(0)
    gold, found = generator.integers(3, 9, 3000), generator.integers(0, 4, 3000)
    true = np.stack([generator.binomial(found, .6), found, gold], 1)
    judged = true.copy()
    judged[:, 0] = generator.binomial(true[:, 0], .9) + generator.binomial(found - true[:, 0], .2)
    frame = pl.DataFrame(judged, schema=['tp', 'n_predicted', 'n_gold'])
    table = corrected_scores(frame, sensitivity=.9, specificity=.8, resamples=2000)
    assert dict(table.schema) == dict(CORRECTED.columns) and (table['corrected'] < table['value'] - .003).all()
    truth = matching_scores(pl.DataFrame(true, schema=['tp', 'n_predicted', 'n_gold'])).select('precision', 'recall', 'f1').row(0)
    assert all(low < value < high for low, value, high in zip(table['low'], truth, table['high'], strict=True))
    doubtful = corrected_scores(frame, sensitivity=Rate(90, 100), specificity=Rate(80, 100), resamples=2000)
    assert doubtful['corrected'].to_list() == table['corrected'].to_list()
    assert ((doubtful['high'] - doubtful['low']) > 2*(table['high'] - table['low'])).all()
    perfect = corrected_scores(frame, sensitivity=1, specificity=1, resamples=500, seed=4)
    assert perfect['corrected'].to_list() == pytest.approx(perfect['value'].to_list())
    assert perfect['low'][2] == pytest.approx(np.quantile(F1(resampled_totals(judged, 500, 4)), .025))


def test_corrected_edges():
    frame = noisy_frame()
    assert corrected_scores(frame, ['model'], resamples=50)['n'].to_list() == [100]*9
    assert corrected_scores(frame.clear())['corrected'].null_count() == 3
    one = corrected_scores(pl.DataFrame({'tp': [1], 'n_predicted': [1], 'n_gold': [1]}), sensitivity=1)
    assert one['corrected'].to_list() == [1, 1, 1] and one['low'].null_count() == 3
    nothing = corrected_scores(pl.DataFrame({'tp': [0, 0], 'n_predicted': [1, 2], 'n_gold': [1, 1]}), resamples=20)
    assert nothing['corrected'].to_list() == [0, 0, 0]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12),
       st.floats(.55, 1), st.floats(.55, 1))
def test_a_correction_never_asks_for_more_than_an_infallible_judge_could_find(rows, sensitivity, specificity):
    counts = np.array([(min(tp, predicted, gold), predicted, gold) for tp, predicted, gold in rows])
    frame = pl.DataFrame(counts, schema=['tp', 'n_predicted', 'n_gold'], orient='row')
    found = corrected_scores(frame, sensitivity=sensitivity, specificity=specificity, resamples=200)
    most = sum(min(predicted, gold) for _, predicted, gold in rows)
    asked = (counts[:, 0].sum() - (1 - specificity)*counts[:, 1].sum())/(sensitivity + specificity - 1)
    whole = counts[:, 1:].sum()
    f1 = found.filter(metric='f1').row(0, named=True)
    if not whole or asked > most + 1e-6: assert f1['corrected'] is None and f1['low'] is None
    elif asked < most - 1e-6: assert f1['corrected'] == pytest.approx(2*max(asked, 0)/whole) and f1['high'] <= 1


values = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=20)


@settings(max_examples=80, deadline=None)
@given(values, st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0, 1))
def test_prediction_powered_by_its_formula(labelled, judge_only, weight):
    human, judge = (np.array(column) for column in zip(*labelled, strict=True))
    ours = prediction_powered_mean(human, judge, judge_only, weight=weight)
    assert ours.estimate == pytest.approx(weight*np.mean(judge_only) + (human - weight*judge).mean()) and ours.weight == weight
    assert 0 <= tuned_weight(human, judge, np.array(judge_only)) <= 1


def test_tuned_weight_is_the_best():
    generator = np.random.default_rng(1)
    right = generator.random(4000) < .5
    judge = np.where(generator.random(4000) < .8, right, ~right).astype(float)
    def variance(weight):
        return (right[:800] - weight*judge[:800]).var(ddof=1)/800 + weight**2*judge[800:].var()/3200
    tuned = prediction_powered_mean(right[:800].astype(float), judge[:800], judge[800:]).weight
    assert variance(tuned) <= min(variance(weight) for weight in np.linspace(0, 1, 21))*1.004 and variance(tuned) < variance(0)
    noise = generator.random(4000).round()
    assert prediction_powered_mean(right[:800], noise[:800], noise[800:]).weight < .1


def test_prediction_powered_edges():
    with pytest.raises(UsageError, match='no human label'): prediction_powered_mean([], [], [1, 0])
    assert prediction_powered_mean([1], [1], [0, 1]) == (1, 0)
    everyone = prediction_powered_mean([1, 0, 1], [1, 0, 1], [])
    assert everyone.weight == 0 and everyone.estimate == pytest.approx(2/3)
    assert prediction_powered_mean([1, 0, 1], [1, 1, 1], [1, 1]).weight == 0  # a judge that never varies
    assert prediction_powered_mean([1, 0, 1], [0, 1, 0], [1, 0]).weight == 0  # a judge that is always wrong
    for wrong in (([1, 0], [1], [0]), ([1, None], [1, 1], [0]), ([1, 0], [1, float('nan')], [0]), (['a', 'b'], [1, 0], [1])):
        with pytest.raises(UsageError): prediction_powered_mean(*wrong)
    with pytest.raises(UsageError, match='weight'): prediction_powered_mean([1, 0], [1, 0], [1], weight=2)
    with pytest.raises(UsageError, match='unlabelled'): prediction_powered_mean([1, 0], [1, 0], [], weight=1)


def test_what_final_prints_follows_from_the_plain_form():
    "Table 10 from Table 4's printed precision and recall: the means, and the number of gold items behind the half-widths."
    from factlab.reports.published import published_values
    def cells(exhibit):
        return published_values(exhibit).with_columns(
            key=pl.col('row').str.replace_all(' ', '') + '/' + pl.col('column').str.to_lowercase()
        )

    scores = dict(cells('final/table4').select('key', 'value').iter_rows())
    gaps, gold = [], []
    printed = cells('final/table10').filter(~pl.col('column').str.starts_with('Average'))
    for key, mean, half in printed.select('key', 'value', 'plus_minus').iter_rows():
        precision, recall = (scores[key.removesuffix('f1') + metric] for metric in ('precision', 'recall'))
        matches, spread = expected_matches([[recall, recall/precision, 1]], .95, .9)
        gaps.append(mean - 2*matches/(1 + recall/precision))
        gold.append((1.96*2*spread/(1 + recall/precision)/half)**2)
    assert len(gaps) == 40 and np.abs(gaps).max() < .015 and 0 < np.mean(gaps) < .007
    assert np.median(gold) == pytest.approx(2131*1265/1405, rel=.03)


def test_counted_rates_widen_the_draws_as_the_closed_form_says():
    counts = np.array([[3., 6, 5]]*200)
    rates = Rate(83, 100), Rate(140, 200)
    drawn = judge_draws(counts, *rates, draws=40_000, seed=1)[:, 0]
    mean, spread = expected_matches(counts, *rates)
    assert abs(drawn.mean() - mean) < 5*spread/40_000**.5 and abs(drawn.std()/spread - 1) < .02
    generator = np.random.default_rng(2)  # literally: rates from their Beta distributions, then every finding flipped
    sens, spec = generator.beta(83.5, 17.5, 4000), generator.beta(140.5, 60.5, 4000)
    literal = [(generator.random(600) < a).sum() + (generator.random(600) > b).sum() for a, b in zip(sens, spec, strict=True)]
    assert abs(np.mean(literal) - mean) < 5*spread/4000**.5 and abs(np.std(literal)/spread - 1) < .06
    assert spread > 2*expected_matches(counts, .83, .7)[1]


def test_counted_rates_are_drawn_once_for_all_groups():
    frame = pl.DataFrame({'method': ['a']*300 + ['b']*300, 'tp': [3]*600, 'n_predicted': [6]*600, 'n_gold': [5]*600})
    known = noise_draws(frame, ['method'], sensitivity=.83, specificity=.7, draws=2000).totals[..., 0]
    counted = noise_draws(frame, ['method'], sensitivity=Rate(83, 100), specificity=Rate(140, 200), draws=2000).totals[..., 0]
    assert abs(np.corrcoef(known)[0, 1]) < .1 and np.corrcoef(counted)[0, 1] > .7
