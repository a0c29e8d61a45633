"""FACTS’ leaderboards: ranks, intervals and probabilities by other means."""
import numpy as np
import polars as pl
import pytest

from factlab.audit.recomputed import recomputed_cells
from factlab.core.core import DataError, UsageError
from factlab.reports.published import cell, published_values
from factlab.studies.facts.leaderboard import SCORE_COLUMNS, leaderboard, leaderboard_cells, rank_grid
from factlab.studies.facts.relations import LEADERBOARDS


@pytest.fixture(scope='module')
def made(): return {id: leaderboard_cells(id) for id in LEADERBOARDS}


def by_hand(scores: np.ndarray) -> list[int]:
    "The one order in which every earlier system beats every later one by majority, or ties with it and has the larger mean."
    def ahead(a, b):
        wins, losses = (scores[a] > scores[b]).sum(), (scores[a] < scores[b]).sum()
        return wins > losses or wins == losses and scores[a].mean() > scores[b].mean()
    return [1 + sum(ahead(other, system) for other in range(len(scores)) if other != system) for system in range(len(scores))]


@pytest.mark.parametrize('id', LEADERBOARDS)
def test_fused_ranks_are_the_printed_ones_and_those_by_hand(made, id):
    board = leaderboard(id)
    ranks = made[id].filter(pl.col('column') == 'Fused rank')
    assert ranks['recomputed'].to_list() == ranks['published'].to_list() == by_hand(board.scores) == list(range(1, 10))
    assert (ranks['low'] <= ranks['recomputed']).all() and (ranks['recomputed'] <= ranks['high']).all()
    average = made[id].filter(pl.col('column') == 'Average (%)')
    assert np.allclose(average['recomputed'], board.scores.mean(1), atol=.05)


@pytest.mark.parametrize('id', LEADERBOARDS)
def test_rank_probabilities_sum_to_one_both_ways_and_do_not_depend_on_the_seed(made, id):
    grid = rank_grid(made[id])
    for way in ('row', 'column'): assert np.allclose(grid.group_by(way).agg(pl.col('probability').sum())['probability'], 1)
    assert len(grid) == 81 and grid['marked'].sum() == 9
    other = rank_grid(leaderboard_cells(id, seed=7))
    assert np.abs(grid['probability'].to_numpy() - other['probability'].to_numpy()).max() < .03
    assert leaderboard_cells(id, seed=7, draws=200).equals(leaderboard_cells(id, seed=7, draws=200))


def test_half_widths_are_the_normal_ones(made):
    for row, data, method, half in made['facts/table5'].filter(kind='plus_minus').select('row', 'data', 'method', 'recomputed').iter_rows():
        score = cell('facts/table5', row, ' '.join(filter(None, [data, method, '(%)']))).value
        p, n = score, {'Open': 860, 'Blind': 859, None: 1719}[data]
        assert abs(half - 1.96*(p*(100 - p)/n)**.5) < .03


def test_a_leaderboard_without_a_score_says_which():
    lost = (pl.col('exhibit') == 'facts/table5') & (pl.col('row') == 'GPT-4o') & (pl.col('column') == SCORE_COLUMNS[2])
    frame = published_values(paper='facts').filter(~lost)
    with pytest.raises(DataError, match='GPT-4o, Open Claude 3.5 Sonnet'): leaderboard('facts/table5', frame)
    with pytest.raises(UsageError): recomputed_cells('nobody/table1')
