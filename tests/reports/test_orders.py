"""Orders on several sets as lines: who stands where, what is equal, and what cannot be drawn."""
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError
from factlab.reports.orders import ORDERS, _slots, order_chart
from factlab.reports.theme import PALETTE, save_chart

HOSTILE = '</text><script>alert(1)</script> & "\' ]]> \x00\u202e ${datum} 漢字'
scores = st.lists(st.sampled_from([0., .25, .5, .75, 1.]), min_size=4, max_size=4)


def orders(**places) -> pl.DataFrame:
    return ORDERS.frame([dict(series=f'm{at}', place=place, score=score) for place, each in places.items()
                         for at, score in enumerate(each)])


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(scores, scores)
def test_better_stands_above_and_equals_share_a_rank(first, second):
    slots = _slots(orders(one=first, two=second))
    for place, given_ in (('one', first), ('two', second)):
        there = sorted((row for row in slots if row['place'] == place), key=lambda row: row['slot'])
        assert [row['score'] for row in there] == sorted(given_, reverse=True)
        assert all(row['rank'] == 1 + sum(other > row['score'] for other in given_) for row in there)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(scores)
def test_lines_do_not_cross_where_no_rank_changes(first):
    slots = _slots(orders(one=first, two=first, three=[.5]*4))
    at = {(row['place'], row['series']): row['slot'] for row in slots}
    assert all(at['one', name] == at['two', name] == at['three', name] for name in ('m0', 'm1', 'm2', 'm3'))


def test_names_stand_at_both_ends_and_scores_between(tmp_path):
    frame = orders(planted=[.8, .6, .6], found=[.5, .7, .7]).with_columns(status=pl.when(series=pl.lit('m2')).then(pl.lit('baseline')))
    svg = save_chart(order_chart(frame, 'Who leads?', between=['τ = −1'], note='made up'), tmp_path/'chart')[0].read_text()
    assert all(svg.count(f'>{name}</text>') == 2 for name in ('m0', 'm1', 'm2')) and svg.count('>0.60</text>') == 2
    assert all(said in svg for said in ('τ = −1', '>planted<', 'best above', 'grey ground: equal', 'grey and dashed: baselines',
                                        'm1 · found: rank 1, 0.7', PALETTE[0], PALETTE[1])) and PALETTE[2] not in svg


def test_one_place_hostile_names_and_more_series_than_colours(tmp_path):
    one = orders(**{HOSTILE: [.5]}).with_columns(series=pl.lit(HOSTILE))
    first = [path.read_bytes() for path in save_chart(order_chart(one, HOSTILE, between=[HOSTILE], note=HOSTILE), tmp_path/'one')]
    assert b'<script' not in first[0]
    save_chart(order_chart(orders(a=[i/20 for i in range(12)], b=[.5]), 'Many?'), tmp_path/'many')


@pytest.mark.parametrize('frame, word', [(ORDERS.frame(), 'empty'), (orders(a=[None]), 'not finite'),
                                         (orders(a=[float('nan')]), 'not finite'), (pl.concat([orders(a=[.5])]*2), 'two scores'),
                                         (pl.DataFrame({'series': ['a']}), 'missing')])
def test_orders_that_cannot_be_drawn(frame, word):
    with pytest.raises(DataError, match=word): order_chart(frame, '?')
