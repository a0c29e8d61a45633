"""Intervals agree with scipy and statsmodels, cover what they promise, and are defined at the edges."""
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.measures.metrics import matching_scores
from factlab.measures.stats import (
    F1,
    PRECISION,
    RECALL,
    Interval,
    average,
    bootstrap_counts,
    cluster_totals,
    cluster_weights,
    difference,
    difference_interval,
    mean_interval,
    paired_counts,
    proportion_bounds,
    proportion_interval,
    ratio,
    resampled_totals,
    run_means,
    score_intervals,
    share_interval,
)


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


def test_many_distinct_rows_are_the_same_bootstrap():
    "Counts with hundreds of distinct rows are drawn by example, others by row; the sums have one distribution."
    noisy = np.random.default_rng(3).normal(2, 1, (300, 2))
    totals = resampled_totals(noisy, 20_000, seed=5)
    assert totals.mean(0) == pytest.approx(noisy.sum(0), abs=5*np.sqrt(300/20_000))
    assert np.cov(totals.T) == pytest.approx(300*np.cov(noisy.T, ddof=0), abs=15)
    assert np.array_equal(totals, resampled_totals(noisy[::-1], 20_000, seed=5))
    whole = resampled_totals(np.repeat(noisy, 5, axis=0), 2000, seed=5)  # more examples than one chunk holds at once
    assert whole.shape == (2000, 2) and whole.mean(0) == pytest.approx(5*noisy.sum(0), abs=5)


def columns_statistic(statistic):
    return lambda *columns, axis: statistic(np.stack([column.sum(axis) for column in columns], -1))


def test_differences_are_paired():
    from scipy.stats import bootstrap
    first, second = random_counts(200), random_counts(200, seed=1)
    ours = difference_interval(first, second, F1)
    theirs = bootstrap(tuple(np.hstack([first, second]).T.astype(float)), columns_statistic(difference(F1)), paired=True, vectorized=True,
                       n_resamples=10_000, batch=1000, method='percentile', rng=np.random.default_rng(1)).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=.004)
    back = difference_interval(second, first, F1, resamples=500)
    assert back.estimate == pytest.approx(-ours.estimate) and paired_counts(first, second).shape == (200, 6)
    same = difference_interval(first, first, F1)
    assert (same.estimate, same.low, same.high) == (0, 0, 0)
    for wrong in (first[:-1], first[:, :2]):
        with pytest.raises(UsageError, match='one shape'): difference_interval(wrong, second)
    with pytest.raises(UsageError): difference_interval([[1, None, 2]], [[1, 1, 1]])


def test_average_is_balanced_accuracy():
    from sklearn.metrics import balanced_accuracy_score
    generator = np.random.default_rng(0)
    truth, said = generator.integers(0, 2, (2, 300))
    counts = np.stack([truth & said, truth, (1 - truth) & (1 - said), 1 - truth], 1)
    statistic = average(ratio([1, 0, 0, 0], [0, 1, 0, 0]), ratio([0, 0, 1, 0], [0, 0, 0, 1]))
    assert bootstrap_counts(counts, statistic).estimate == pytest.approx(balanced_accuracy_score(truth, said))
    assert bootstrap_counts(counts[truth == 1], statistic).estimate is None
    with pytest.raises(UsageError): average()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([.5, .9, .95, .99]))
def test_proportions_agree_with_scipy(counted, level):
    from scipy.stats import binomtest
    successes, n = counted
    test = binomtest(successes, n)
    interval, peer = proportion_interval(successes, n, level), test.proportion_ci(level, 'wilson')
    assert (interval.low, interval.high) == pytest.approx((peer.low, peer.high), abs=1e-9)
    assert interval.low <= interval.estimate + 1e-12 and interval.estimate <= interval.high + 1e-12


def test_proportion_edges():
    assert proportion_interval(0, 0) == Interval(None, None, None, 0, .95, method='wilson') and proportion_interval(0, 0).plus_minus is None
    low, high = proportion_bounds([0, 3, 5], [0, 5, 5])
    assert np.isnan(low[0]) and np.isnan(high[0]) and low[1:].tolist() == pytest.approx([proportion_interval(k, 5).low for k in (3, 5)])
    assert proportion_bounds(3, [5, 10])[0].shape == (2,)
    for wrong in ((6, 5), (-1, 5), (float('nan'), 5), (1, float('nan')), (None, 3), ('a', 3)):
        with pytest.raises(UsageError): proportion_bounds(*wrong)
    with pytest.raises(UsageError): proportion_interval(1, 2, level=1.5)


@pytest.mark.parametrize(('share', 'n'), [(.5, 10), (1.0, 10), (np.float64(.914), 100), (2.5, 10)])
def test_a_share_is_no_number_of_successes(share, n):
    with pytest.raises(UsageError, match='looks like a share: give the number of successes'): proportion_interval(share, n)


@pytest.mark.parametrize('successes, n', [(True, 10), (5, 10.5)])
def test_what_is_no_count_is_refused(successes, n):
    with pytest.raises(UsageError, match='no counts'): proportion_interval(successes, n)
    assert proportion_interval(5.0, 10) == proportion_interval(5, 10) and proportion_interval(0.0, 10).estimate == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=12), st.sampled_from([.8, .95]))
def test_runs_agree_with_scipy(values, level):
    from scipy.stats import ttest_1samp
    ours = mean_interval(values, level)
    if np.std(values) < 1e-12: return
    theirs = ttest_1samp(values, 0).confidence_interval(level)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert ours.plus_minus == pytest.approx((theirs.high - theirs.low)/2)


def test_run_edges():
    assert mean_interval([]) == Interval(None, None, None, 0, .95, method='t') and mean_interval([.4]).low is None
    assert mean_interval([.5]*5).plus_minus == 0
    for wrong in ([.1, None], [.1, float('nan')]):
        with pytest.raises(UsageError, match='no score'): mean_interval(wrong)
    runs = pl.DataFrame({'method': ['b', 'a']*3, 'metric': 'f1', 'value': [.1, .5, .2, .6, .3, .7]})
    table = run_means(runs, by=['method', 'metric'])
    assert table['method'].to_list() == ['b', 'a']
    assert table['mean'].to_list() == pytest.approx([.2, .6])
    assert table['runs'].to_list() == [3, 3]
    assert table['plus_minus'].to_list() == pytest.approx([mean_interval([.1, .2, .3]).plus_minus]*2)
    assert run_means(runs.clear(), by=['method']).is_empty()
    with pytest.raises(DataError, match='missing'): run_means(runs, by=['model'])


def clustered(clusters: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    "Hits that are alike within a cluster, and their clusters; clusters differ in size."
    generator = np.random.default_rng(seed)
    which = np.repeat(np.arange(clusters), generator.integers(1, 6, clusters))
    return generator.random(len(which)) < np.where(generator.random(clusters) < .5, .15, .85)[which], which


def test_clusters_are_resampled_whole():
    hits, which = clustered(40)
    counts = np.column_stack([hits, np.ones(len(hits))])
    ours = bootstrap_counts(counts, ratio([1, 0], [0, 1]), clusters=which, seed=1)
    generator, drawn = np.random.default_rng(7), []
    parts = [counts[which == number] for number in range(40)]
    for _ in range(20_000):
        sums = sum(parts[number].sum(0) for number in generator.integers(0, 40, 40))
        drawn.append(sums[0]/sums[1])
    assert (ours.low, ours.high) == pytest.approx(tuple(np.quantile(drawn, [.025, .975])), abs=.01)
    assert ours.estimate == pytest.approx(hits.mean()) and ours.n == len(hits)
    apart = bootstrap_counts(counts, ratio([1, 0], [0, 1]), seed=1)
    assert ours.high - ours.low > 1.2*(apart.high - apart.low)
    single = bootstrap_counts(counts, ratio([1, 0], [0, 1]), clusters=np.arange(len(hits)), seed=1)
    assert (single.low, single.high) == (apart.low, apart.high)  # a cluster each: the ordinary bootstrap
    weights = cluster_weights(which, 20_000, seed=3)
    assert tuple(np.quantile(weights@hits/weights.sum(1), [.025, .975])) == pytest.approx((ours.low, ours.high), abs=.01)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from('abcd'), st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_cluster_totals_are_those_of_a_loop(rows):
    totals = cluster_totals([row[1:] for row in rows] or np.zeros((0, 2)), [row[0] for row in rows])
    names = sorted({row[0] for row in rows})
    assert totals.tolist() == [[sum(row[i] for row in rows if row[0] == name) for i in (1, 2)] for name in names]


def test_a_share_by_cluster_keeps_its_promise():
    "Of 300 samples of 30 clusters about 95 % give intervals that hold the share. Wilson's, of independent things, hold it less often."
    from statsmodels.stats.proportion import proportion_confint
    ours, theirs = 0, 0
    for seed in range(300):
        hits, which = clustered(30, seed)
        found = share_interval(hits, which, resamples=400)
        ours += found.low <= .5 <= found.high
        low, high = proportion_confint(hits.sum(), len(hits), method='wilson')
        theirs += low <= .5 <= high
    assert .9 <= ours/300 <= .985 and theirs/300 < ours/300 - .04


def test_shares_at_the_ends_and_bad_clusters():
    from statsmodels.stats.proportion import proportion_confint
    all_hit = share_interval([True]*6, list('aabbcc'))
    assert (all_hit.estimate, all_hit.n) == (1, 6)
    assert (all_hit.low, all_hit.high) == pytest.approx(proportion_confint(3, 3, method='wilson'))
    none = share_interval([False]*6, list('aabbcc'))
    assert (none.low, none.high) == pytest.approx(proportion_confint(0, 3, method='wilson'))
    assert share_interval([], []).estimate is None and share_interval([True, False], ['a', 'a']).low is None
    for hits, clusters in (([True], []), ([True], [None]), ([True], [float('nan')])):
        with pytest.raises(UsageError, match='cluster'): share_interval(hits, clusters)
