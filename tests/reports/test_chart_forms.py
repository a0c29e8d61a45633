"""Curves, shares and grids: hostile text is drawn as text, and what cannot be drawn is refused."""
import polars as pl
import pytest

from factlab.core.core import DataError, UsageError
from factlab.reports.plots import CURVES, GRID, SHARES, curve_chart, rank_chart, share_chart
from factlab.reports.theme import save_chart

HOSTILE = '</text><script>alert(1)</script> & "\' ]]> \x00\u202e ${datum} 漢字'


def curves(**more):
    first = dict(series='CoT', x=1.0, published=.2, measured=.3) | more
    return CURVES.frame([first, dict(series='CoT', x=2.0, published=.25, measured=None)])



def shares(*values): return SHARES.frame([dict(row='set', part=str(i), share=value) for i, value in enumerate(values)])


def grid(p=.5): return GRID.frame([dict(panel='', row='system', column=rank, probability=p, marked=rank == 1) for rank in (1, 2)])


def test_forms_draw_hostile_text_as_text_and_the_same_each_time(tmp_path):
    hostile_shares = shares(.5, .2).with_columns(part=pl.lit(HOSTILE), row=pl.lit(HOSTILE))
    charts = {'curve': curve_chart(curves(series=HOSTILE), HOSTILE, HOSTILE, HOSTILE),
              'share': share_chart(hostile_shares, HOSTILE, HOSTILE),
              'rank': rank_chart(grid().with_columns(row=pl.lit(HOSTILE)), HOSTILE, HOSTILE),
              'panels': rank_chart(pl.concat([grid(), grid().with_columns(panel=pl.lit(HOSTILE))]), 'Two panels?')}
    for name, chart in charts.items():
        files = save_chart(chart, tmp_path/name)
        first = [path.read_bytes() for path in files]
        assert b'<script' not in first[0] and len(first[1]) > 2_000
        save_chart(chart, tmp_path/name)
        assert first == [path.read_bytes() for path in files]


@pytest.mark.parametrize('draw, error, word', [
    (lambda: curve_chart(curves(x=0.0), 't', 'x', 'y'), DataError, 'logarithmic'),
    (lambda: curve_chart(CURVES.frame(), 't', 'x', 'y'), DataError, 'nothing to draw'),
    (lambda: curve_chart(pl.concat([curves(series=name) for name in 'abcdefgh']), 't', 'x', 'y'), UsageError, 'colours'),
    (lambda: share_chart(shares(.7, .4), 't'), DataError, 'add up'), (lambda: share_chart(shares(-.1), 't'), DataError, 'between 0 and 1'),
    (lambda: share_chart(shares(None), 't'), DataError, 'between'), (lambda: share_chart(shares(), 't'), DataError, 'empty'),
    (lambda: share_chart(shares(*[.1]*8), 't'), UsageError, 'colours'),
    (lambda: rank_chart(grid(1.2), 't'), DataError, 'outside 0 to 1'), (lambda: rank_chart(grid(None), 't'), DataError, 'or none'),
    (lambda: rank_chart(GRID.frame(), 't'), DataError, 'empty'),
    (lambda: rank_chart(shares(.5), 't'), DataError, 'grid'),
])
def test_forms_refuse_what_they_cannot_draw(draw, error, word):
    with pytest.raises(error, match=word): draw()
