"""FACTS’ self-preference: the estimators cancel what they should, and their ranges hold all corners."""
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.reports.exhibits import find_exhibits, headline
from factlab.reports.published import cell
from factlab.studies.facts.leaderboard import JUDGES
from factlab.studies.facts.self_preference import (
    PRINTED_FIGURE,
    STATED_ESTIMATOR,
    estimates_near_published,
    estimators,
    preference_cells,
    preference_marks,
    rounding_range,
)


def test_the_stated_estimate_by_hand():
    def leads(split):
        for judge in JUDGES:
            scores = {other: cell('facts/table5', judge, f'{split} {other} (%)').value for other in JUDGES}
            yield scores[judge] - sum(value for other, value in scores.items() if other != judge)/2
    expected = np.mean([lead for split in ('Open', 'Blind') for lead in leads(split)])
    cells = preference_cells(draws=500)
    ours = cells.filter((pl.col('row') == STATED_ESTIMATOR) & (pl.col('column') == 'Table 5 both')).row(0, named=True)
    assert ours['recomputed'] == pytest.approx(expected) and ours['high'] < 3.225
    assert set(cells['status']) == {'exact', 'simulated', 'published'}  # none is accused: the paper names no estimator
    printed = cells.filter(pl.col('published').is_not_null()).select('row', 'column', 'published', 'measured')
    assert printed.rows() == [(*PRINTED_FIGURE, 3.23, None)]
    exhibit = find_exhibits(['facts/selfpreference'])[0]
    shown = headline(exhibit, cells)
    assert (shown['published'], exhibit.counterpart) == (3.23, PRINTED_FIGURE) and shown['low'] < 3.23 < shown['high']
    assert set(estimates_near_published(cells)['row']) <= set(estimators(list(JUDGES)))
    assert len(preference_marks(cells)) == 10


@given(st.integers(0, 2**32 - 1), st.floats(-5, 5))
@settings(max_examples=50)
def test_quality_and_leniency_cancel_and_a_bonus_stays(seed, bonus):
    rng = np.random.default_rng(seed)
    systems = [*JUDGES, 'a', 'b']
    scores = rng.uniform(40, 60, 5)[:, None] + rng.uniform(-10, 10, 3)[None]
    scores[:3] += bonus*np.eye(3)
    ways = estimators(systems)
    assert ways[STATED_ESTIMATOR](scores) == pytest.approx(bonus, abs=1e-9)
    assert ways['Double difference, three systems'](scores) == pytest.approx(1.5*bonus, abs=1e-9)


def test_the_range_holds_all_corners():
    rng = np.random.default_rng(3)
    scores = rng.uniform(60, 90, (3, 3))
    for way in estimators(list(JUDGES)).values():
        low, high = rounding_range(way, scores, .1)
        corners = [float(way(scores + .05*np.array(signs).reshape(3, 3))) for signs in itertools.product((-1, 1), repeat=9)]
        assert (min(corners), max(corners)) == pytest.approx((low, high))
