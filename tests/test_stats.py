"""Bootstrap intervals agree with scipy, cover what they promise, and are defined at the edges."""
import time

import numpy as np
import polars as pl
import pytest

from factlab.core import UsageError
from factlab.metrics import matching_scores
from factlab.stats import F1, PRECISION, RECALL, Interval, bootstrap_counts, ratio, resampled_totals, score_intervals


def random_counts(n: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    gold, found = generator.integers(0, 5, n), generator.integers(0, 4, n)
    return np.stack([generator.binomial(np.minimum(gold, found), .6), found, gold], 1)


@pytest.mark.parametrize('statistic, name', [(PRECISION, 'precision'), (RECALL, 'recall'), (F1, 'f1')])
def test_agrees_with_scipy(statistic, name):
    from scipy.stats import bootstrap
    counts = random_counts(150)
    ours = bootstrap_counts(counts, statistic, seed=3)
    def of_columns(*columns, axis): return statistic(np.stack([column.sum(axis) for column in columns], -1))
    theirs = bootstrap(tuple(counts.T), of_columns, paired=True, vectorized=True, n_resamples=10_000, method='percentile',
                       rng=np.random.default_rng(5)).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=.004)
    frame = pl.DataFrame(counts, schema=['tp', 'n_predicted', 'n_gold'])
    assert ours.estimate == pytest.approx(matching_scores(frame)[name][0]) and ours.low < ours.estimate < ours.high and ours.n == 150


def test_resamples_are_the_ordinary_bootstrap():
    counts = random_counts(40, seed=2)
    generator = np.random.default_rng(11)
    ordinary = counts[generator.integers(0, 40, (20_000, 40))].sum(1)
    ours = resampled_totals(counts, 20_000, seed=12)
    assert ours.mean(0) == pytest.approx(ordinary.mean(0), rel=.01) and np.cov(ours.T) == pytest.approx(np.cov(ordinary.T), rel=.06, abs=1)


def test_coverage():
    "Of 400 samples from a population of known precision, about 95 % give intervals that hold it."
    generator = np.random.default_rng(4)
    population = random_counts(20_000, seed=9)
    truth = PRECISION(population.sum(0))
    intervals = [bootstrap_counts(population[generator.integers(0, 20_000, 200)], PRECISION, resamples=1000, seed=i) for i in range(400)]
    assert .91 <= np.mean([i.low <= truth <= i.high for i in intervals]) <= .98


def test_seeded_and_independent_of_order():
    counts = random_counts(300)
    assert bootstrap_counts(counts, F1, seed=1) == bootstrap_counts(np.random.default_rng(0).permutation(counts), F1, seed=1)
    assert bootstrap_counts(counts, F1, seed=1) != bootstrap_counts(counts, F1, seed=2)
    assert bootstrap_counts(counts, F1, seed=np.random.default_rng(1)) == bootstrap_counts(counts, F1, seed=1)
    assert np.array_equal(resampled_totals(counts, 50, 1)[:20], resampled_totals(counts, 20, 1))
    wide, narrow = bootstrap_counts(counts, F1, level=.99), bootstrap_counts(counts, F1, level=.5)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_edges():
    assert bootstrap_counts(np.zeros((0, 3)), F1, resamples=10) == Interval(None, None, None, 0, .95, 10, 10)
    assert bootstrap_counts([[1, 2, 2]], PRECISION, resamples=10) == Interval(.5, None, None, 1, .95, 10, 0)
    assert bootstrap_counts([[0, 0, 1]] * 5, PRECISION, resamples=10) == Interval(None, None, None, 5, .95, 10, 10)
    assert bootstrap_counts([[1, 1, 1]] * 5, PRECISION, resamples=10) == Interval(1, 1, 1, 5, .95, 10, 0)
    rare = bootstrap_counts([[1, 1, 1], [0, 0, 1], [0, 0, 1]], PRECISION)
    assert rare.estimate == rare.low == rare.high == 1 and rare.undefined / rare.resamples == pytest.approx(8/27, abs=.02)
    for counts in ([1, 2], [[1, np.nan, 1]], [[np.inf, 1, 1]], np.zeros((3, 0))):
        with pytest.raises(UsageError): bootstrap_counts(counts, F1)
    for options in ({'level': 1}, {'level': 0}, {'resamples': 0}):
        with pytest.raises(UsageError): bootstrap_counts([[1, 1, 1]], F1, **options)
    with pytest.raises(UsageError): bootstrap_counts([[1, 1, 1]], lambda totals: totals)


def test_fast_enough():
    counts = random_counts(1265)
    noisy = np.random.default_rng(0).random((1265, 2))  # no two rows alike: the slowest case
    for data, statistic, limit in ((counts, F1, 1), (noisy, ratio([1, 0], [0, 1]), 4)):
        start = time.perf_counter()
        bootstrap_counts(data, statistic)
        assert time.perf_counter() - start < limit


def test_score_intervals():
    frame = pl.DataFrame(random_counts(200), schema=['tp', 'n_predicted', 'n_gold']).with_columns(model=pl.Series(['b', 'a'] * 100))
    frame = frame.with_columns(tp=pl.when(pl.int_range(200) % 10 > 0).then('tp'))
    for unparsed in ('exclude', 'wrong'):
        table = score_intervals(frame, by=['model'], unparsed=unparsed, resamples=500)
        assert table['model'].to_list() == ['b'] * 3 + ['a'] * 3 and table['unparsed'].to_list() == [20] * 3 + [0] * 3
        expected = matching_scores(frame, by=['model'], unparsed=unparsed)
        assert table.filter(pl.col('metric') == 'recall')['value'].to_list() == pytest.approx(expected['recall'].to_list())
        assert table['n'].to_list() == [80 if unparsed == 'exclude' else 100] * 3 + [100] * 3
        assert (table['low'] < table['value']).all() and (table['value'] < table['high']).all()
    assert score_intervals(frame.clear())['value'].null_count() == 3 and score_intervals(frame.clear(), by=['model']).is_empty()
