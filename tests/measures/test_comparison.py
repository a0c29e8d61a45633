"""Paired tests agree with statsmodels, loops and simulations; frames are aligned by id."""
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import UsageError
from factlab.measures.comparison import (
    MCNEMAR_METHODS,
    SYSTEM_PAIRS,
    compare_pairs,
    compare_systems,
    discordant_counts,
    holm,
    mcnemar,
    mcnemar_power,
    paired_bounds,
    smallest_difference,
)

counts = st.integers(0, 60)


@settings(max_examples=80, deadline=None)
@given(counts, counts)
def test_mcnemar_agrees_with_statsmodels(b, c):
    from statsmodels.stats.contingency_tables import mcnemar as peer
    from statsmodels.stats.proportion import binom_test
    table = [[7, b], [c, 3]]
    assert mcnemar(b, c, 'exact') == pytest.approx(peer(table, exact=True).pvalue)
    if b != c: assert mcnemar(b, c, 'corrected') == pytest.approx(peer(table, exact=False, correction=True).pvalue)
    exact, mid = mcnemar(b, c, 'exact'), mcnemar(b, c)
    if b + c: assert exact == pytest.approx(binom_test(b, b + c)) and mid < exact or b == c
    assert 0 <= mid <= exact <= 1 and mcnemar(c, b) == mid


def test_mid_p_by_definition():
    "The chance of something less likely, plus half of the chance of something as likely as what was seen."
    from math import comb
    for b, c in product(range(9), range(9)):
        n = b + c
        chances = {k: comb(n, k)/2**n for k in range(n + 1)}
        far = sum(p for k, p in chances.items() if abs(2*k - n) > abs(b - c))
        same = sum(p for k, p in chances.items() if abs(2*k - n) == abs(b - c))
        assert mcnemar(b, c) == pytest.approx(1 if b == c else far + same/2)


def test_mcnemar_edges():
    for method in MCNEMAR_METHODS: assert mcnemar([0, 4], [0, 4], method).tolist() == [1, 1]
    for wrong in ((1.5, 2), (-1, 2), (float('nan'), 1)):
        with pytest.raises(UsageError, match='whole numbers'): mcnemar(*wrong)
    with pytest.raises(UsageError, match='one shape'): mcnemar([1, 2], [1])
    with pytest.raises(UsageError, match='mid-p'): mcnemar(1, 2, 'asymptotic')


@settings(max_examples=15, deadline=None)  # the peer collects garbage at each call
@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_agrees_with_statsmodels(p):
    from statsmodels.stats.multitest import multipletests
    assert holm(p).tolist() == pytest.approx(multipletests(p, method='holm')[1].tolist() if p else [])


def test_holm_refuses_what_is_no_p():
    for wrong in ([.5, 1.2], [-.1], [float('nan')], .5):
        with pytest.raises(UsageError): holm(wrong)


def test_all_pairs_against_a_loop():
    generator = np.random.default_rng(0)
    correct = np.where(generator.random((6, 90)) < .1, np.nan, (generator.random((6, 90)) < .6).astype(float))
    names = list('abcdef')
    table = compare_pairs(names, correct, method='exact')
    assert len(table) == 15 and dict(table.schema) == dict(SYSTEM_PAIRS.columns)
    for row in table.to_dicts():
        pairs = list(zip(correct[names.index(row['first'])], correct[names.index(row['second'])], strict=True))
        pairs = [(x, y) for x, y in pairs if x == x and y == y]
        b, c = sum(x > y for x, y in pairs), sum(x < y for x, y in pairs)
        assert (row['n'], row['only_first'], row['only_second']) == (len(pairs), b, c)
        assert row['p'] == pytest.approx(mcnemar(b, c, 'exact')) and row['difference'] == pytest.approx((b - c)/len(pairs))
        assert row['low'] < row['difference'] < row['high']
    assert table['p_holm'].to_list() == pytest.approx(holm(table['p']).tolist())


def test_pair_edges():
    same = compare_pairs(['a', 'b'], [[1, 0, 1], [1, 0, 1]])
    assert same.select('p', 'p_holm', 'difference').row(0) == (1, 1, 0) and same['low'][0] < 0 < same['high'][0]
    nothing = compare_pairs(['a', 'b'], [[1, np.nan], [np.nan, 0]])
    assert nothing.select('n', 'difference', 'low', 'p').row(0) == (0, None, None, 1)
    assert compare_pairs(['a', 'b'], [[1], [0]])['n'].to_list() == [1] and compare_pairs([], np.zeros((0, 5))).is_empty()
    with pytest.raises(UsageError, match='1 .right'): discordant_counts([[.5, 1]])
    with pytest.raises(UsageError, match='one row'): compare_pairs(['a'], [[1], [0]])
    with pytest.raises(UsageError, match='matrix'): discordant_counts([1, 0])


def test_interval_of_a_paired_difference_covers():
    generator = np.random.default_rng(1)
    for n, b, c in ((40, .1, .05), (200, .2, .1), (25, .02, .02)):
        drawn = generator.multinomial(n, [b, c, 1 - b - c], size=20_000)
        low, high = paired_bounds(drawn[:, 0], drawn[:, 1], np.full(len(drawn), n))
        assert ((low <= b - c) & (b - c <= high)).mean() > .935
    low, high = paired_bounds([10], [0], [10])
    assert 0 < low[0] < high[0] <= 1 and np.isnan(paired_bounds(0, 0, 0)[0])
    with pytest.raises(UsageError, match='more discordant'): paired_bounds(5, 5, 9)


def answers(names=('x', 'y', 'z'), n=30, seed=0):
    generator = np.random.default_rng(seed)
    ids = [f'e{i}' for i in range(n)]
    return pl.concat([pl.DataFrame({'system': name, 'id': ids, 'correct': generator.random(n) < .5}) for name in names])


def test_answers_are_aligned_by_id():
    frame = answers().with_columns(correct=pl.when(pl.int_range(90) % 7 > 0).then('correct'))
    matrix = np.array([frame.filter(system=name)['correct'].cast(pl.Float64).to_numpy() for name in 'xyz'])
    pairs = compare_systems(frame, method='exact')
    assert pairs.equals(compare_pairs([*'xyz'], matrix, method='exact')) and pairs['n'].max() < 30
    shuffled = frame.filter(system='y').vstack(frame.sample(fraction=1, shuffle=True, seed=1)).unique(['system', 'id'], keep='first')
    assert sorted(pairs['p']) == pytest.approx(sorted(compare_systems(shuffled, method='exact')['p']))
    for bad in (frame.head(-1), pl.concat([frame, frame.head(1)])):
        with pytest.raises(UsageError, match='do not align'): compare_systems(bad)
    unknown = compare_systems(frame.with_columns(correct=pl.lit(None)))
    assert unknown['n'].to_list() == [0]*3 and compare_systems(frame.clear()).is_empty()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.floats(.01, .9), st.floats(-1, 1), st.sampled_from(MCNEMAR_METHODS))
def test_power_by_enumeration(n, discordance, share, method):
    from scipy.stats import multinomial
    difference = share*discordance
    b, c = (grid.ravel() for grid in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    b, c = b[b + c <= n], c[b + c <= n]
    first, second = (discordance + difference)/2, (discordance - difference)/2
    chances = multinomial.pmf(np.stack([b, c, n - b - c], 1), n, [first, second, 1 - first - second])
    expected = chances[mcnemar(b, c, method) <= 1 - .95].sum()
    assert mcnemar_power(n, difference, discordance, method=method) == pytest.approx(expected, abs=1e-6)


def test_power_against_simulation():
    generator = np.random.default_rng(0)
    for method in MCNEMAR_METHODS:
        drawn = generator.multinomial(860, [.12, .08, .8], size=20_000)
        simulated = (mcnemar(drawn[:, 0], drawn[:, 1], method) <= .05).mean()
        assert mcnemar_power(860, .04, .2, method=method) == pytest.approx(simulated, abs=.015)


@pytest.mark.parametrize('method', MCNEMAR_METHODS)
def test_the_smallest_difference_is_just_found(method):
    for n, discordance in ((300, .1), (1000, .2), (40, .2)):
        found = smallest_difference(n, discordance, method=method)
        assert mcnemar_power(n, found, discordance, method=method) == pytest.approx(.8, abs=1e-3)


def test_power_edges():
    assert mcnemar_power(0, .1, .2) == mcnemar_power(100, 0, 0) == 0 and smallest_difference(5, .1) is None
    assert mcnemar_power(2000, 0, .2) <= .055 and mcnemar_power(1000, .03, .2) == pytest.approx(mcnemar_power(1000, -.03, .2))
    for wrong in ((.3, .2), (.1, 1.2), (float('nan'), .2)):
        with pytest.raises(UsageError): mcnemar_power(10, *wrong)
    with pytest.raises(UsageError): smallest_difference(10, .2, power=1)
    with pytest.raises(UsageError): mcnemar_power(-1, .1, .2)
