"""Calibration and ranking equal scikit-learn's and their literal definitions; DeLong's variance equals the bootstrap's."""
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.measures.calibration import (
    auroc,
    brier_score,
    calibrated_error,
    calibration_scores,
    expected_calibration_error,
    reliability_table,
)

FEW = {'resamples': 20}
TENTHS = st.integers(0, 10).map(lambda i: i/10)  # many ties, and both ends
FORECASTS = st.lists(st.tuples(st.booleans(), TENTHS | st.floats(0, 1)), min_size=1, max_size=40)


def columns(rows): return np.array([t for t, _ in rows]), np.array([p for _, p in rows])


@settings(deadline=None)
@given(FORECASTS, st.integers(1, 8))
def test_reliability_agrees_with_scikit_learn(rows, bins):
    from sklearn.calibration import calibration_curve
    truth, probability = columns(rows)
    table = reliability_table(truth, probability, bins)
    if len(set(truth)) == 2:
        share, mean = calibration_curve(truth, probability, n_bins=bins, pos_label=True)
        assert table['share_true'].to_list() == pytest.approx(list(share))
        assert table['mean_probability'].to_list() == pytest.approx(list(mean))
    assert table['n'].sum() == len(rows) and (table['bin_low'] <= table['mean_probability'] + 1e-12).all()
    gaps = (table['mean_probability'] - table['share_true']).abs()
    error = expected_calibration_error(truth, probability, bins)
    assert error == pytest.approx((gaps*table['n']).sum()/len(rows))


@settings(deadline=None)
@given(FORECASTS)
def test_brier_agrees_with_scikit_learn(rows):
    from sklearn.metrics import brier_score_loss
    truth, probability = columns(rows)
    assert brier_score(truth, probability, **FEW).estimate == pytest.approx(brier_score_loss(truth, probability, pos_label=True))


def literal_placements(truth, score):
    "For each true item the share of false ones it beats, and for each false item the share of true ones that beat it."
    true, false = [s for t, s in zip(truth, score, strict=True) if t], [s for t, s in zip(truth, score, strict=True) if not t]
    def beats(a, b): return 1.0 if a > b else .5 if a == b else 0.0
    return [np.mean([beats(a, b) for b in false]) for a in true], [np.mean([beats(a, b) for a in true]) for b in false]


def literal_variance(truth, score):
    "DeLong et al. 1988, equations 5 to 7, without numpy's variance."
    parts = [(values, sum(values)/len(values)) for values in literal_placements(truth, score)]
    return sum(sum((value - mean)**2 for value in values)/(len(values) - 1)/len(values) for values, mean in parts)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), TENTHS | st.floats(-5, 5)), min_size=4, max_size=30))
def test_delong_is_its_literal_definition(rows):
    from scipy.stats import norm
    from sklearn.metrics import roc_auc_score
    truth, score = (list(column) for column in zip(*rows, strict=True))
    found = auroc(truth, score)
    assert found.n == len(truth)
    if len(set(truth)) == 1:
        assert found.estimate is None
        return
    area = roc_auc_score(truth, score)
    assert found.estimate == pytest.approx(area)
    if sum(truth) in (1, len(truth) - 1):
        assert found.low is None
        return
    variance = literal_variance(truth, score)
    if variance > 1e-12: assert found.high == pytest.approx(min(1, area + norm.ppf(.975)*math.sqrt(variance)))
    else: assert found.low is None


def simulated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    truth = generator.random(n) < .4
    return truth, (truth + generator.normal(0, 1.1, n)).round(1)


def test_delong_keeps_its_level():
    "The interval of AUROC holds the truth in 95 % of samples."
    generator, held = np.random.default_rng(3), []
    for _ in range(400):
        truth = generator.random(120) < .5
        found = auroc(truth, truth + generator.normal(0, 1.49**.5, 120))
        held.append(found.low <= 0.71875 <= found.high)  # Φ(1/√(2·1.49)) = 0.7188
    assert .92 <= np.mean(held) <= .98


def test_ranking_does_not_depend_on_the_scale():
    truth, score = simulated(100, 7)
    assert auroc(truth, np.exp(score)) == auroc(truth, score)
    assert auroc(truth, -score).estimate == pytest.approx(1 - auroc(truth, score).estimate)
    assert auroc([1, 1, 0], [0, -1, -math.inf]).estimate == 1


def test_wilson_interval_of_a_bin():
    from statsmodels.stats.proportion import proportion_confint
    truth, score = simulated(150, 4)
    table = reliability_table(truth, 1/(1 + np.exp(-score)), 6, level=.9)
    for n, share, low, high in table.select('n', 'share_true', 'low', 'high').iter_rows():
        assert (low, high) == pytest.approx(proportion_confint(round(n*share), n, alpha=.1, method='wilson'), abs=1e-12)


def test_the_error_of_a_calibrated_judge_is_what_chance_makes():
    probability = np.random.default_rng(1).uniform(size=120)
    truths = np.random.default_rng(2).uniform(size=(300, 120)) < probability
    chance = calibrated_error(probability, seed=3)
    errors = np.array([expected_calibration_error(truth, probability) for truth in truths])
    assert chance.estimate == pytest.approx(errors.mean(), abs=.005)
    assert np.mean((errors >= chance.low) & (errors <= chance.high)) == pytest.approx(.95, abs=.03)
    assert expected_calibration_error(truths[0], np.clip(probability*.4, 0, 1)) > chance.high


def test_edges():
    none, one, level = brier_score([], [], **FEW), brier_score([True], [.7], **FEW), brier_score([1, 1, 1], [.7]*3, **FEW)
    assert (none.estimate, none.low, none.n) == (None, None, 0)
    assert one.estimate is not None and one.low is one.high is None
    assert level.estimate == pytest.approx(one.estimate) and level.low is None  # all resamples are equal
    assert expected_calibration_error([], []) is None and expected_calibration_error([True], [.7]) == pytest.approx(.3)
    assert calibrated_error([]).estimate is None
    assert reliability_table([], []).is_empty() and reliability_table([1, 0], [.5, .5])['n'].to_list() == [2]
    assert reliability_table([0, 1], [0.0, 1.0])['bin_high'].to_list() == [.1, 1]


@pytest.mark.parametrize('truth, probability, error', [
    ([True], [.5, .5], UsageError), ([True, None], [.5, .5], DataError), ([True], [None], DataError), ([True], [math.nan], DataError),
    ([2], [.5], DataError), ([.5], [.5], DataError), (['yes'], [.5], DataError), ([True], ['0.5'], DataError), ([True], [[.5]], DataError),
    ([math.nan], [.5], DataError)])
def test_faults_are_named(truth, probability, error):
    for function in (reliability_table, brier_score, expected_calibration_error, auroc):
        with pytest.raises(error): function(truth, probability)


def test_ranges_are_checked():
    for outside in (-.01, 1.01, math.inf):
        for function in (reliability_table, brier_score, expected_calibration_error):
            with pytest.raises(DataError, match='outside'): function([True], [outside])
    for call in (lambda: reliability_table([1], [.5], 0), lambda: auroc([1, 0], [1, 0], 1)):
        with pytest.raises(UsageError): call()


def test_table_of_groups():
    truth, score = simulated(60, 9)
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
    assert empty['value'].null_count() == len(empty) == 3 and calibration_scores(frame.clear(), by=['model']).is_empty()
    with pytest.raises(DataError): calibration_scores(frame.drop('truth'))
    with pytest.raises(UsageError): calibration_scores(frame, by=['truth'])
    with pytest.raises(DataError): calibration_scores(frame.with_columns(pl.col('probability')*2))
