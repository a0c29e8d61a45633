"""Contrasts of named pairs against all resamples enumerated, against scipy's paired bootstrap, and where nothing can be said."""
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest, bootstrap
from statsmodels.stats.multitest import multipletests

from factlab.core.core import UsageError
from factlab.measures.baselines import compare_with_baselines
from factlab.measures.comparison import CONTRASTS, paired_contrasts
from factlab.measures.stats import F1, RECALL


def made(n: int, chance: float, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    gold, found = np.random.default_rng(0).integers(0, 4, n), generator.integers(0, 4, n)
    return np.stack([np.minimum(generator.binomial(gold, chance), found), found, gold], 1).astype(float)


def f1(counts: np.ndarray) -> float: return 2*counts[:, 0].sum()/(counts[:, 1].sum() + counts[:, 2].sum())


def test_five_examples_against_all_their_resamples():
    first = np.array([[2, 2, 2], [1, 2, 1], [0, 1, 2], [1, 1, 1], [2, 3, 2]])
    second = np.array([[1, 2, 2], [1, 1, 1], [0, 2, 2], [0, 0, 1], [2, 2, 2]])
    every = np.array([f1(first[list(chosen)]) - f1(second[list(chosen)]) for chosen in product(range(5), repeat=5)])
    row = paired_contrasts({'a': first, 'b': second}, [('a', 'b')], resamples=200_000).row(0, named=True)
    assert row['difference'] == pytest.approx(f1(first) - f1(second)) and row['n'] == 5
    assert (row['low'], row['high']) == pytest.approx(np.quantile(every, [.025, .975]), abs=.01)
    assert row['p'] == pytest.approx(min(1, 2*min((every <= 1e-12).mean(), (every >= -1e-12).mean())), abs=.01)


@pytest.mark.parametrize('statistic, score', [(F1, f1), (RECALL, lambda counts: counts[:, 0].sum()/counts[:, 2].sum())])
def test_the_interval_is_that_of_scipy(statistic, score):
    first, second = made(60, .7, 1), made(60, .5, 2)
    row = paired_contrasts({'a': first, 'b': second}, [('a', 'b')], statistic, resamples=40_000).row(0, named=True)
    theirs = bootstrap((np.arange(60),), lambda chosen: score(first[chosen]) - score(second[chosen]), n_resamples=20_000, vectorized=False,
                       method='percentile', rng=np.random.default_rng(3))
    assert row['difference'] == pytest.approx(score(first) - score(second))
    assert (row['low'], row['high']) == pytest.approx(tuple(theirs.confidence_interval), abs=.008)


def test_p_is_adjusted_over_all_contrasts():
    counts = {name: made(80, chance, seed) for seed, (name, chance) in enumerate((('a', .9), ('b', .6), ('c', .6), ('d', .2)))}
    pairs = [('a', 'b'), ('b', 'c'), ('a', 'd'), ('b', 'd')]
    found = CONTRASTS.check(paired_contrasts(counts, pairs))
    assert found.select('first', 'second').rows() == pairs
    assert found['p_holm'].to_list() == pytest.approx(multipletests(found['p'].to_list(), method='holm')[1].tolist())
    alone = paired_contrasts(counts, pairs[:1])
    assert alone['difference'][0] == found['difference'][0] and alone['p'][0] == alone['p_holm'][0]
    turned = paired_contrasts(counts, [('b', 'a')])
    assert turned['difference'][0] == -alone['difference'][0] and turned['p'][0] == pytest.approx(alone['p'][0], abs=.02)


def test_where_nothing_can_be_said():
    same = made(20, .5, 1)
    row = paired_contrasts({'a': same, 'b': same}, [('a', 'b')]).row(0, named=True)
    assert (row['difference'], row['low'], row['high'], row['p'], row['p_holm']) == (0, 0, 0, 1, 1)
    nothing = np.zeros((20, 3))
    empty = paired_contrasts({'a': same, 'b': nothing}, [('a', 'b')]).row(0, named=True)
    assert (empty['difference'], empty['p'], empty['p_holm'], empty['n']) == (None, None, None, 20)
    assert paired_contrasts({'a': same}, []).is_empty()


@pytest.mark.parametrize('counts, pairs, said', [
    ({'a': np.ones((3, 3))}, [('a', 'z')], "'z'"), ({'a': np.ones((3, 3)), 'b': np.ones((4, 3))}, [('a', 'b')], 'one shape'),
    ({'a': np.ones((3, 3)), 'b': np.full((3, 3), np.nan)}, [('a', 'b')], 'NaN'),
    ({'a': np.ones((1, 3)), 'b': np.ones((1, 3))}, [('a', 'b')], 'two examples'),
    ({'a': np.ones((3, 3)), 'b': np.ones((3, 3)), 'c': np.ones((4, 3)), 'd': np.ones((4, 3))}, [('a', 'b'), ('c', 'd')], 'differ')])
def test_what_cannot_be_compared(counts, pairs, said):
    with pytest.raises(UsageError, match=said): paired_contrasts(counts, pairs)


@pytest.mark.parametrize('n', [2, 3, 5, 8])
def test_a_few_examples_are_never_surer_than_the_sign_test(n):
    "All examples on one side: the exact two-sided sign test of scipy is the least p; resampling alone would give 2/10,001."
    least = binomtest(n, n).pvalue
    found = paired_contrasts({'a': np.tile([2, 2, 2], (n, 1)), 'b': np.tile([0, 2, 2], (n, 1))}, [('a', 'b')])
    assert found['p'][0] == pytest.approx(max(least, 2/10_001))
    rows = compare_with_baselines({'a': np.ones((n, 2)), 'b': np.tile([0, 1], (n, 1))}, ['b'], 'mean').filter(pl.col('name') == 'a')
    assert rows['p'][0] == pytest.approx(max(least, 2/10_001))
