"""Fused ranks agree with their definitions, tried on every order; rank probabilities with what is known of the draws."""
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from factlab.core.core import UsageError
from factlab.measures.ranking import (
    RANK_RANGES,
    RANKS,
    TIE_RULES,
    condorcet_ranks,
    normal_draws,
    preferences,
    rank_draws,
    rank_probabilities,
    rank_ranges,
    shared_ranks,
)

matrices = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(lambda shape: arrays(np.int64, shape, elements=st.integers(0, 4)))


def beats(scores, i, j): return sum(a > b for a, b in zip(scores[i], scores[j], strict=True))


@settings(max_examples=120, deadline=None)
@given(matrices)
def test_condorcet_by_definition(scores):
    size = len(scores)
    above = preferences(scores)
    assert all(above[i, j] == beats(scores, i, j) for i in range(size) for j in range(size))
    ranks = condorcet_ranks(scores)
    for i in range(size):
        if all(above[i, j] > above[j, i] for j in range(size) if j != i): assert ranks[i] == 1 and (ranks == 1).sum() == 1
        if all(above[i, j] < above[j, i] for j in range(size) if j != i): assert ranks[i] == size
    # every set that beats all others by majority stands above them; the smallest sets of that kind are the groups
    closed = {0, size}
    for number in range(1, size):
        for group in combinations(range(size), number):
            outside = [j for j in range(size) if j not in group]
            if all(above[i, j] > above[j, i] for i in group for j in outside):
                closed.add(number)
                assert max(ranks[list(group)]) < min(ranks[outside])
    starts = sorted(closed)[:-1]
    assert sorted(set(ranks.tolist())) == [1 + number for number in starts]


@settings(max_examples=60, deadline=None)
@given(matrices, st.sampled_from(TIE_RULES), st.randoms())
def test_ranks_do_not_depend_on_the_order_of_the_input(scores, ties, random):
    order = list(range(len(scores)))
    random.shuffle(order)
    assert (condorcet_ranks(scores[order], ties) == condorcet_ranks(scores, ties)[order]).all()
    shared, fused = condorcet_ranks(scores), condorcet_ranks(scores, ties)
    for i, j in combinations(range(len(scores)), 2):
        if shared[i] < shared[j]: assert fused[i] < fused[j]
        elif shared[i] == shared[j] and ties == 'mean': assert np.sign(fused[i] - fused[j]) == np.sign(scores[j].sum() - scores[i].sum())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5).flatmap(lambda size: arrays(np.int64, (7, size, 4), elements=st.integers(0, 3))), st.sampled_from(TIE_RULES))
def test_many_at_once(batch, ties):
    assert (condorcet_ranks(batch, ties) == [condorcet_ranks(scores, ties) for scores in batch]).all()


def test_edges():
    assert condorcet_ranks([[.3, .1]]).tolist() == [1]
    for ties in TIE_RULES: assert condorcet_ranks(np.ones((4, 3)), ties).tolist() == [1]*4
    assert shared_ranks([1, 1, 0]).tolist() == [1, 1, 3]
    for function in (condorcet_ranks, preferences):
        for wrong in ([[1, float('nan')], [0, 1]], np.zeros((0, 2)), np.zeros((2, 0)), [1, 2], [['a'], ['b']], [[1, 2], [3]]):
            with pytest.raises(UsageError): function(wrong)
    with pytest.raises(UsageError, match='shared'): condorcet_ranks([[1], [2]], 'name')


def printed(table: str) -> pl.DataFrame:
    "FACTS' Table 5 or 6 as published: six scores, their average and the fused rank."
    from factlab.reports.published import published_values
    return published_values(f'facts/{table}').pivot('column', index='row', values='value').drop_nulls('Fused rank')


@pytest.mark.parametrize('table', ['table5', 'table6'])
def test_facts_fused_ranks_need_a_tie_rule(table):
    "Majorities leave two pairs of FACTS' nine models even; by the mean score the printed fused ranks come out."
    scores = printed(table)
    judges = [name for name in scores.columns if name.startswith(('Open ', 'Blind ')) and name.endswith('(%)')]
    values = scores.select(judges).to_numpy()
    assert len(judges) == 6 and condorcet_ranks(values, 'mean').tolist() == scores['Fused rank'].to_list() == list(range(1, 10))
    assert condorcet_ranks(values).tolist() == [1, 1, 3, 4, 5, 6, 7, 8, 8]


def test_normal_draws():
    drawn = normal_draws([.5, .6], [.02, .02], draws=40_000, seed=1)
    assert drawn.mean(0) == pytest.approx([.5, .6], abs=.001) and drawn.std(0) == pytest.approx([.02/1.96]*2, rel=.03)
    from scipy.stats import norm
    close = normal_draws([.5, .51], [.02, .02], draws=40_000)
    assert (close[:, 0] > close[:, 1]).mean() == pytest.approx(norm.sf(.01/(2**.5*.02/1.96)), abs=.01)
    tied = normal_draws(np.zeros((3, 4)), np.ones((3, 4)), 5000, blocks=['x', 'x', 'y', 'y'])
    correlations = np.corrcoef(tied[:, 0].T)
    assert correlations[0, 1] == pytest.approx(1) and abs(correlations[0, 2]) < .06 and abs(np.corrcoef(tied[:, :, 0].T)[0, 1]) < .06
    assert (normal_draws([1.], [0.], 5) == 1).all()
    for wrong in (([1, 2], [1]), ([float('nan')], [1]), ([1], [-1])):
        with pytest.raises(UsageError): normal_draws(*wrong)
    with pytest.raises(UsageError, match='label'): normal_draws([1, 2], [1, 1], blocks=['x'])


def test_rank_probabilities():
    draws = np.array([[3, 2, 1], [3, 2, 1], [2, 3, 1], [2, 2, 1]])
    table = rank_probabilities(['a', 'b', 'c'], draws)
    assert dict(table.schema) == dict(RANKS.columns) and table['probability'].to_list() == [.75, .25, 0, .5, .5, 0, 0, 0, 1]
    assert rank_probabilities(['a', 'b', 'c'], draws, larger_is_better=False)['probability'].to_list()[6:] == [1, 0, 0]
    fused = np.random.default_rng(0).normal(size=(50, 4, 3))
    assert (rank_draws(fused) == [condorcet_ranks(scores, 'mean') for scores in fused]).all()
    ranges = rank_ranges(['a', 'b', 'c'], [1, 2, 3], draws)
    assert dict(ranges.schema) == dict(RANK_RANGES.columns)
    assert ranges.rows() == [('a', 1, 1, 2, .75), ('b', 2, 1, 2, .5), ('c', 3, 3, 3, 0)]
    for wrong in ((['a'], draws), (['a', 'b', 'c'], draws[:0]), (['a', 'b', 'c'], draws*float('nan')), (['a'], [1, 2])):
        with pytest.raises(UsageError): rank_probabilities(*wrong)
    with pytest.raises(UsageError): rank_ranges(['a', 'b'], [1, 2], draws)
