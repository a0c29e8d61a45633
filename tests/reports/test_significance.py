"""Marks against the best row: compared with a literal resampling of ids, and what happens to rows that cannot be compared."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.measures.comparison import holm
from factlab.measures.stats import F1, PRECISION, RECALL, difference_interval
from factlab.reports.significance import MARKS, against_best, aligned_counts, mark_cells
from factlab.reports.tables import BEST_ROW, CELLS, show_table

CHANCES = {'Zero-Shot': .35, 'CoT': .6, 'Few-Shot': .57, 'FactScore': .45}


def made(n: int = 120, unparsed: float = .15, seed: int = 0, chances: dict = CHANCES) -> pl.DataFrame:
    "Counts of made-up methods, some of whose answers cannot be read, in no order."
    generator = np.random.default_rng(seed)
    gold, parts = generator.integers(0, 4, n), []
    for method, chance in chances.items():
        found = generator.integers(0, 5, n)
        tp = np.minimum(generator.binomial(gold, chance), found).astype(float)
        tp[generator.random(n) < unparsed] = np.nan
        parts.append(pl.DataFrame({'method': method, 'id': [f's{i}' for i in range(n)], 'tp': tp, 'n_predicted': found,
                                   'n_gold': gold}).with_columns(
            pl.col('tp').fill_nan(None).cast(pl.Int64)).sample(fraction=1, shuffle=True, seed=seed))
    return pl.concat(parts)


def f1_of(rows: list[tuple]) -> float:
    whole = sum(predicted + gold for _, predicted, gold in rows)
    return 2*sum(tp for tp, _, _ in rows)/whole if whole else float('nan')


def literal(frame: pl.DataFrame, row: str, best: str, resamples: int = 4000) -> tuple:
    "The paired bootstrap by its definition: draw ids that both rows could be scored on, score both, subtract."
    of = {name: {id: (tp, predicted, gold) for id, tp, predicted, gold in part.drop_nulls('tp').select('id', 'tp', 'n_predicted',
        'n_gold').iter_rows()}
          for (name,), part in frame.group_by('method')}
    common = sorted(of[row].keys() & of[best].keys())
    generator, differences = np.random.default_rng(1), []
    for _ in range(resamples):
        drawn = generator.choice(common, len(common))
        differences.append(f1_of([of[row][id] for id in drawn]) - f1_of([of[best][id] for id in drawn]))
    observed = f1_of([of[row][id] for id in common]) - f1_of([of[best][id] for id in common])
    differences = np.array(differences)
    p = min(1, 2*(1 + min((differences <= 0).sum(), (differences >= 0).sum()))/(1 + resamples))
    return len(common), observed, *np.quantile(differences, [.025, .975]), p


@pytest.mark.parametrize('seed', [0, 1])
def test_marks_are_those_of_a_literal_loop_over_ids(seed):
    frame = made(seed=seed)
    marks = against_best(aligned_counts(frame))
    scores = {name: f1_of(part.drop_nulls('tp').select('tp', 'n_predicted', 'n_gold').rows()) for (name,), part in frame.group_by('method')}
    best = max(scores, key=scores.get)
    assert marks['row'].to_list() == list(CHANCES) and dict(zip(marks['row'], marks['value'], strict=True)) == pytest.approx(scores)
    by_hand = {name: literal(frame, name, best) for name in CHANCES if name != best}
    adjusted = dict(zip(by_hand, holm([found[-1] for found in by_hand.values()]), strict=True))
    for mark in marks.to_dicts():
        if mark['row'] == best:
            assert mark['mark'] == 'best' and mark['p'] is mark['difference'] is None
            assert mark['n'] == frame.filter(pl.col('tp').is_not_null() & (pl.col('method') == best)).height
            continue
        n, difference, low, high, p = by_hand[mark['row']]
        assert (mark['n'], mark['difference']) == (n, pytest.approx(difference)) and n < 120
        assert mark['low'] == pytest.approx(low, abs=.012) and mark['high'] == pytest.approx(high, abs=.012)
        assert mark['p'] == pytest.approx(p, abs=.03)
        if abs(adjusted[mark['row']] - .05) > .03: assert (mark['mark'] == '*') == (adjusted[mark['row']] < .05)
    assert '*' in marks['mark'].to_list()


@pytest.mark.parametrize('statistic', [F1, PRECISION, RECALL])
def test_without_unparsed_rows_each_difference_is_that_of_the_paired_bootstrap(statistic):
    counts = aligned_counts(made(unparsed=0))
    marks = against_best(counts, statistic)
    best, = marks.filter(mark='best')['row']
    for mark in marks.filter(pl.col('row') != best).iter_rows(named=True):
        alone = difference_interval(counts[mark['row']], counts[best], statistic, seed=7)
        assert mark['n'] == 120 and mark['difference'] == pytest.approx(alone.estimate)
        assert (mark['low'], mark['high']) == pytest.approx((alone.low, alone.high), abs=.006)
    others = marks.filter(pl.col('row') != best)
    assert others['p_holm'].to_list() == pytest.approx([float(p) for p in holm(others['p'])])


def test_of_equal_methods_few_are_marked():
    "The chance of any mark in a table of four equal methods is the level; choosing the best by looking raises it a little."
    equal = dict.fromkeys('abcd', .5)
    marked = sum('*' in against_best(aligned_counts(made(80, .05, seed, equal)), resamples=400)['mark'].to_list() for seed in range(150))
    assert marked/150 < .14
    worse = {**equal, 'd': .15}
    assert sum(against_best(aligned_counts(made(80, .05, seed, worse)), resamples=400)['mark'][3] == '*' for seed in range(30)) >= 28


def test_a_row_that_is_better_on_the_common_examples_has_no_mark():
    "The best row of the table may be behind another one where both were read; the difference says so, and nothing is called behind."
    best = np.array([[1, 1, 1]]*60 + [[0, 1, 1]]*40, float)
    other = np.array([[np.nan]*3]*60 + [[1, 1, 1]]*20 + [[0, 1, 1]]*20, float)
    mark = against_best({'best': best, 'other': other}).row(1, named=True)
    assert mark['n'] == 40 and mark['difference'] == .5 and mark['p'] < .01 and mark['mark'] == ''


def test_rows_that_cannot_be_compared():
    nan = np.full((9, 3), np.nan)
    ones = np.ones((9, 3))
    assert against_best({'a': nan, 'b': nan})['mark'].to_list() == ['', '']
    assert against_best({'a': ones})['mark'].to_list() == ['best']
    assert against_best({'a': ones, 'b': ones})['mark'].to_list() == ['best', ''] and against_best({'a': ones, 'b': ones})['p'][1] == 1
    first, last = ones.copy(), ones*[0, 1, 1]
    first[1:], last[:-1] = np.nan, np.nan
    assert against_best({'a': first, 'b': last}).select('n', 'p').row(1) == (0, None)  # nothing in common
    for n in (0, 1): assert against_best({'a': ones[:n], 'b': nan[:n]})['p'].null_count() == 2
    silent = against_best({'a': np.zeros((9, 3)), 'b': ones})
    assert silent['mark'].to_list() == ['', 'best'] and silent['p'].null_count() == 2  # no finding, no gold item: no F1
    for wrong in ({}, {'a': ones, 'b': ones[1:]}):
        with pytest.raises(UsageError, match='one shape'): against_best(wrong)
    with pytest.raises(UsageError, match='level'): against_best({'a': ones}, level=1)
    with pytest.raises(UsageError, match='infinity'): against_best({'a': ones*np.inf})


def test_counts_that_do_not_align():
    frame = made(5)
    with pytest.raises(DataError, match='tp'): aligned_counts(frame.drop('tp'))
    with pytest.raises(UsageError, match='other examples'):
        aligned_counts(frame.filter((pl.col('method') != 'CoT') | (pl.col('id') != 's1')))
    with pytest.raises(UsageError, match='more than once'): aligned_counts(pl.concat([frame, frame]))
    assert aligned_counts(frame.clear()) == {}


def test_cells_say_what_was_tested_and_the_table_marks_it():
    frame = made()
    marks = against_best(aligned_counts(frame))
    cells = mark_cells('final/table4', 'tiny F1', frame)
    assert cells.columns == list(CELLS.columns) and cells['status'].unique().to_list() == ['measured']
    for mark in marks.iter_rows(named=True):
        own = {kind: tuple(values) for kind, *values in cells.filter(row=mark['row'], column='tiny F1', against=BEST_ROW)
               .select('kind', 'measured', 'low', 'high', 'n').iter_rows()}
        if mark['mark'] == 'best': assert own == {'difference': (0, None, None, mark['n'])}
        else: assert own == {'difference': (mark['difference'], mark['low'], mark['high'], mark['n']),
                             'p': (mark['p_holm'], None, None, mark['n'])}
    percent = mark_cells('final/table4', 'tiny F1', frame, scale=100, same={'metric': 'F1', 'model': 'tiny'})
    assert set(percent['metric']) == {'F1'} and set(percent['model']) == {'tiny'}
    assert percent['method'].to_list() == cells['row'].to_list()
    factor = pl.when(kind='difference').then(100).otherwise(1)
    assert percent['measured'].to_list() == pytest.approx(cells.select(factor*pl.col('measured'))['literal'].to_list())
    score = dict.fromkeys(CELLS.columns) | {'exhibit': 'final/table4', 'column': 'tiny F1', 'kind': 'value', 'n': 120}
    scores = CELLS.frame([score | {'row': mark['row'], 'measured': mark['value']} for mark in marks.to_dicts()])
    lines = {line.split('  ')[0]: line for line in show_table(pl.concat([scores, cells])).text.splitlines()}
    signs = {'best': '▲', '*': '*', '': ''}
    for mark in marks.to_dicts(): assert lines[mark['row']].endswith(f'{mark["value"]:.2f}{signs[mark["mark"]]}')
    assert mark_cells('final/table4', 'tiny F1', frame.clear()).is_empty()
    assert mark_cells('final/table4', 'tiny F1', frame.filter(method='CoT')).is_empty()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.none()|st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=4, max_size=4), min_size=1,
                max_size=4))
def test_any_counts_give_marks_that_hold_together(rows):
    counts = {str(i): np.array([[np.nan]*3 if tp is None else [min(tp, predicted, gold), predicted, gold] for tp, predicted, gold in row])
              for i, row in enumerate(rows)}
    marks = against_best(counts, resamples=50)
    assert dict(marks.schema) == dict(MARKS.columns) and marks['row'].to_list() == list(counts)
    assert (marks['mark'] == 'best').sum() == (1 if marks['value'].count() else 0)
    if marks['value'].count(): assert marks.filter(mark='best')['value'][0] == marks['value'].max()
    tested = marks.drop_nulls('p')
    assert (tested['p_holm'] >= tested['p']).all() and (tested['low'] <= tested['high']).all() and (tested['n'] >= 2).all()
    assert tested.filter(mark='*').select((pl.col('difference') < 0).all() & (pl.col('p_holm') < .05).all()).item()
