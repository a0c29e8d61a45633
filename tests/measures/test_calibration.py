"""Calibration and ranking equal scikit-learn's and their literal definitions; DeLong's variance equals the bootstrap's."""
import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.measures.calibration import (
    auroc,
    average_precision,
    brier_decomposition,
    brier_score,
    calibration_scores,
    delong_test,
    expected_calibration_error,
    log_loss,
    maximum_calibration_error,
    paired_scores,
    reliability_table,
)

FEW = {'resamples': 20}
TENTHS = st.integers(0, 10).map(lambda i: i/10)  # many ties, and both ends
FORECASTS = st.lists(st.tuples(st.booleans(), TENTHS | st.floats(0, 1)), min_size=1, max_size=40)


def columns(rows): return np.array([t for t, _ in rows]), np.array([p for _, p in rows])


def literal_groups(probability: np.ndarray, bins: int) -> list[list[int]]:
    "Equal mass: the i-th edge is the smallest value with at least i/bins of all values at or below it; a bin reaches up to its edge."
    values = sorted(set(probability.tolist()))
    edges = [next(v for v in values if bins*sum(probability <= v) >= i*len(probability)) for i in range(1, bins + 1)]
    groups = {}
    for row, p in enumerate(probability): groups.setdefault(sum(p > edge for edge in edges), []).append(row)
    return [groups[place] for place in sorted(groups)]


@settings(deadline=None)
@given(FORECASTS, st.integers(1, 8), st.sampled_from(['width', 'mass']))
def test_reliability_agrees_with_scikit_learn_and_with_counting(rows, bins, binning):
    from sklearn.calibration import calibration_curve
    truth, probability = columns(rows)
    table = reliability_table(truth, probability, bins, binning)
    groups = literal_groups(probability, bins)
    if binning == 'mass': share, mean = [truth[g].mean() for g in groups], [probability[g].mean() for g in groups]
    elif len(set(truth)) == 2: share, mean = calibration_curve(truth, probability, n_bins=bins, pos_label=True)
    else: share = mean = None
    if share is not None:
        assert table['share_true'].to_list() == pytest.approx(list(share))
        assert table['mean_probability'].to_list() == pytest.approx(list(mean))
    assert table['n'].sum() == len(rows) and (table['bin_low'] <= table['mean_probability'] + 1e-12).all()
    if binning == 'mass' and len(set(probability)) == len(rows) >= bins: assert table['n'].max() - table['n'].min() <= 1
    gaps = (table['mean_probability'] - table['share_true']).abs()
    ece, mce = (error(truth, probability, bins, binning, **FEW) for error in (expected_calibration_error, maximum_calibration_error))
    assert ece.estimate == pytest.approx((gaps*table['n']).sum()/len(rows)) and mce.estimate == pytest.approx(gaps.max())


@settings(deadline=None)
@given(FORECASTS)
def test_losses_agree_with_scikit_learn(rows):
    from sklearn.metrics import brier_score_loss
    from sklearn.metrics import log_loss as theirs
    truth, probability = columns(rows)
    assert brier_score(truth, probability, **FEW).estimate == pytest.approx(brier_score_loss(truth, probability, pos_label=True))
    expected = theirs(truth, probability, labels=[False, True])
    assert log_loss(truth, probability, **FEW).estimate == pytest.approx(expected, rel=1e-6, abs=1e-12)


@settings(deadline=None)
@given(FORECASTS, st.sampled_from(['width', 'mass', 'distinct']))
def test_brier_decomposition_adds_up(rows, binning):
    truth, probability = columns(rows)
    parts = brier_decomposition(truth, probability, 5, binning)
    assert parts.score == pytest.approx(parts.reliability - parts.resolution + parts.uncertainty + parts.within_bins, abs=1e-12)
    assert parts.score == pytest.approx(np.mean((truth - probability)**2)) and parts.uncertainty == pytest.approx(truth.var())
    if binning == 'distinct':  # Murphy's definition by hand
        groups = [truth[probability == value] for value in np.unique(probability)]
        resolution = sum(len(g)*(g.mean() - truth.mean())**2 for g in groups)/len(truth)
        assert parts.within_bins == pytest.approx(0, abs=1e-12) and parts.resolution == pytest.approx(resolution, abs=1e-12)


def literal_placements(truth, score):
    "For each true item the share of false ones it beats, and for each false item the share of true ones that beat it."
    true, false = [s for t, s in zip(truth, score, strict=True) if t], [s for t, s in zip(truth, score, strict=True) if not t]
    def beats(a, b): return 1.0 if a > b else .5 if a == b else 0.0
    return [np.mean([beats(a, b) for b in false]) for a in true], [np.mean([beats(a, b) for a in true]) for b in false]


def literal_covariance(truth, first, second):
    "DeLong et al. 1988, equations 5 to 7, without numpy's covariance."
    of_first, of_second = literal_placements(truth, first), literal_placements(truth, second)
    total = 0
    for a, b in zip(of_first, of_second, strict=True):
        mean_a, mean_b = sum(a)/len(a), sum(b)/len(b)
        total += sum((x - mean_a)*(y - mean_b) for x, y in zip(a, b, strict=True))/(len(a) - 1)/len(a)
    return total


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), TENTHS, TENTHS | st.floats(-5, 5)), min_size=4, max_size=30))
def test_delong_is_its_literal_definition(rows):
    from scipy.stats import norm
    from sklearn.metrics import roc_auc_score
    truth, first, second = (list(column) for column in zip(*rows, strict=True))
    found, test = auroc(truth, first), delong_test(truth, first, second)
    assert (found.n_true, found.n_false) == (sum(truth), len(truth) - sum(truth))
    if len(set(truth)) == 1:
        assert found.estimate is None and test.difference is None and test.p_value is None
        return
    areas = roc_auc_score(truth, first), roc_auc_score(truth, second)
    assert found.estimate == pytest.approx(areas[0]) and test.difference == pytest.approx(areas[0] - areas[1], abs=1e-12)
    if min(found.n_true, found.n_false) == 1:
        assert found.low is None and test.z is None
        return
    variance = literal_covariance(truth, first, first)
    assert found.standard_error**2 == pytest.approx(variance, abs=1e-12)
    if variance > 1e-12: assert found.high == pytest.approx(min(1, areas[0] + norm.ppf(.975)*math.sqrt(variance)))
    else: assert found.low is None
    of_difference = variance + literal_covariance(truth, second, second) - 2*literal_covariance(truth, first, second)
    if of_difference > 1e-9:
        z = (areas[0] - areas[1])/math.sqrt(of_difference)
        assert test.z == pytest.approx(z, abs=1e-6) and test.p_value == pytest.approx(2*norm.sf(abs(z)), abs=1e-6)
    elif abs(areas[0] - areas[1]) > 1e-9: assert test.p_value is None


def simulated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    truth, shared = generator.random(n) < .4, generator.normal(0, 1, n)
    return truth, (truth + shared + generator.normal(0, .5, n)).round(1), (.6*truth + shared + generator.normal(0, .5, n)).round(1)


def test_delong_agrees_with_the_bootstrap():
    truth, first, second = simulated(400, 1)
    generator = np.random.default_rng(2)
    areas = []
    for _ in range(600):
        i = generator.integers(0, 400, 400)
        areas.append((auroc(truth[i], first[i]).estimate, auroc(truth[i], second[i]).estimate))
    areas = np.array(areas)
    found, test = auroc(truth, first), delong_test(truth, first, second)
    assert found.standard_error == pytest.approx(areas[:, 0].std(), rel=.12)
    assert (found.low, found.high) == pytest.approx(np.quantile(areas[:, 0], [.025, .975]), abs=.012)
    difference = areas[:, 0] - areas[:, 1]
    assert (test.low, test.high) == pytest.approx(np.quantile(difference, [.025, .975]), abs=.015)
    apart = [auroc(truth, s).standard_error for s in (first, second)]
    assert test.high - test.low < 2*1.96*math.hypot(*apart)  # pairing helps


def test_delong_keeps_its_level():
    "Two scores that are equally good differ significantly in about 5 % of samples; the interval of AUROC holds the truth in 95 %."
    generator = np.random.default_rng(3)
    rejected, held = [], []
    for _ in range(400):
        truth = generator.random(120) < .5
        shared, (a, b) = generator.normal(0, 1, 120), generator.normal(0, .7, (2, 120))
        rejected.append(delong_test(truth, truth + shared + a, truth + shared + b).p_value < .05)
        found = auroc(truth, truth + shared + a)
        held.append(found.low <= 0.71875 <= found.high)  # Φ(1/√(2·1.49)) = 0.7188
    assert .02 <= np.mean(rejected) <= .085 and .92 <= np.mean(held) <= .98


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), TENTHS | st.floats(-3, 3)), min_size=1, max_size=40))
def test_average_precision_agrees_with_scikit_learn(rows):
    from sklearn.metrics import average_precision_score
    truth, score = columns(rows)
    found = average_precision(truth, score, **FEW)
    if truth.any(): assert found.estimate == pytest.approx(average_precision_score(truth, score))
    else: assert found.estimate is None and found.low is None and found.undefined == 20


def test_average_precision_interval_is_the_bootstrap():
    from sklearn.metrics import average_precision_score
    truth, score, _ = simulated(200, 5)
    generator = np.random.default_rng(6)
    values = [average_precision_score(truth[i], score[i]) for i in generator.integers(0, 200, (800, 200))]
    found = average_precision(truth, score, resamples=3000)
    assert (found.low, found.high) == pytest.approx(np.quantile(values, [.025, .975]), abs=.02)
    assert found == average_precision(truth[::-1], score[::-1], resamples=3000) != average_precision(truth, score, resamples=3000, seed=1)


def test_ranking_does_not_depend_on_the_scale():
    truth, score, other = simulated(100, 7)
    assert auroc(truth, np.exp(score)) == auroc(truth, score)
    assert auroc(truth, -score).estimate == pytest.approx(1 - auroc(truth, score).estimate)
    test, back = delong_test(truth, score, other), delong_test(truth, other, score)
    assert test.z == pytest.approx(-back.z) and test.p_value == pytest.approx(back.p_value)
    assert auroc([1, 1, 0], [0, -1, -math.inf]).estimate == 1


def test_wilson_interval_of_a_bin():
    from statsmodels.stats.proportion import proportion_confint
    truth, score, _ = simulated(150, 4)
    table = reliability_table(truth, 1/(1 + np.exp(-score)), 6, level=.9)
    for n, share, low, high in table.select('n', 'share_true', 'low', 'high').iter_rows():
        assert (low, high) == pytest.approx(proportion_confint(round(n*share), n, alpha=.1, method='wilson'), abs=1e-12)


def test_edges():
    for function in (brier_score, log_loss, expected_calibration_error, maximum_calibration_error, average_precision):
        none, one, level = function([], [], **FEW), function([True], [.7], **FEW), function([1, 1, 1], [.7]*3, **FEW)
        assert (none.estimate, none.low, none.n) == (None, None, 0)
        assert one.estimate is not None and one.low is one.high is None
        assert level.estimate == pytest.approx(one.estimate) and level.low is None  # all resamples are equal
    assert log_loss([1], [0.0], **FEW).estimate == pytest.approx(36.04, abs=.01)
    assert reliability_table([], [], binning='mass').is_empty() and brier_decomposition([], []).n == 0
    for binning in ('width', 'mass', 'distinct'): assert reliability_table([1, 0], [.5, .5], binning=binning)['n'].to_list() == [2]
    assert reliability_table([0, 1], [0.0, 1.0])['bin_high'].to_list() == [.1, 1]
    test = delong_test([1, 1, 0, 0], [.5]*4, [.5]*4)
    assert (test.difference, test.z, test.p_value) == (0, None, 1)


@pytest.mark.parametrize('truth, probability, error', [
    ([True], [.5, .5], UsageError), ([True, None], [.5, .5], DataError), ([True], [None], DataError), ([True], [math.nan], DataError),
    ([2], [.5], DataError), ([.5], [.5], DataError), (['yes'], [.5], DataError), ([True], ['0.5'], DataError), ([True], [[.5]], DataError),
    ([math.nan], [.5], DataError)])
def test_faults_are_named(truth, probability, error):
    for function in (reliability_table, brier_score, log_loss, brier_decomposition, expected_calibration_error, maximum_calibration_error,
                     auroc, average_precision):
        with pytest.raises(error): function(truth, probability)
    with pytest.raises(error): delong_test(truth, probability, probability)


def test_ranges_are_checked():
    for outside in (-.01, 1.01, math.inf):
        for function in (reliability_table, brier_score, log_loss, brier_decomposition, expected_calibration_error):
            with pytest.raises(DataError, match='outside'): function([True], [outside])
    for call in (lambda: reliability_table([1], [.5], 0), lambda: reliability_table([1], [.5], 5, 'depth'),
                 lambda: auroc([1, 0], [1, 0], 1),
                 lambda: average_precision([1, 0], [1, 0], level=95), lambda: average_precision([1, 0], [1, 0], resamples=0),
                 lambda: delong_test([1, 0], [1, 0], [1])):
        with pytest.raises(UsageError): call()


def test_pairing_by_id():
    first = pl.DataFrame({'id': ['a', 'b', 'c'], 'truth': [True, False, True], 'score': [.1, .2, .3]})
    second = pl.DataFrame({'id': ['c', 'a', 'b'], 'truth': [True, True, False], 'score': [3, 1, 2]})
    both = paired_scores(first, second)
    assert both.rows() == [('a', True, .1, 1), ('b', False, .2, 2), ('c', True, .3, 3)]
    for bad in (second.head(2), pl.concat([second, second.head(1)]), second.with_columns(id=pl.lit(None, pl.String)),
                second.with_columns(~pl.col('truth')), second.drop('truth'), second.with_columns(id=pl.int_range(3))):
        with pytest.raises(DataError): paired_scores(first, bad)
        with pytest.raises(DataError): paired_scores(bad, first)


def test_table_of_groups():
    truth, score, _ = simulated(60, 9)
    probability = 1/(1 + np.exp(-score))
    frame = pl.DataFrame({'model': ['a']*60 + ['b']*60, 'truth': [*truth, *truth],
                          'probability': [*probability, *[None]*4, *probability[4:]]})
    table = calibration_scores(frame, by=['model'], **FEW)
    assert table.filter(model='b').select('n', 'unparsed').unique().rows() == [(56, 4)]
    found = {(m, k): v for m, k, v in table.select('model', 'metric', 'value').iter_rows()}
    assert found['a', 'auroc'] == auroc(truth, score).estimate
    assert found['b', 'brier score'] == brier_score(truth[4:], probability[4:]).estimate
    assert table.drop_nulls().filter((pl.col('low') > pl.col('high')) | (pl.col('n') + pl.col('unparsed') != 60)).is_empty()
    empty = calibration_scores(frame.clear(), **FEW)
    assert empty['value'].null_count() == len(empty) == 6 and calibration_scores(frame.clear(), by=['model']).is_empty()
    with pytest.raises(DataError): calibration_scores(frame.drop('truth'))
    with pytest.raises(UsageError): calibration_scores(frame, by=['truth'])
    with pytest.raises(DataError): calibration_scores(frame.with_columns(pl.col('probability')*2))
    assert list(itertools.islice(table['metric'], 6)) == empty['metric'].to_list()
