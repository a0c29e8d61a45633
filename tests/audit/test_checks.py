"""Checks: their arithmetic, their outcomes, and what the names of columns suggest. True tables pass."""
from decimal import ROUND_HALF_UP
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from printed_tables import ROUNDINGS, as_published, exact_print, printed, with_metrics

from factlab.audit.checks import (
    AVERAGE,
    MAX_CLASSES,
    Check,
    PublishedCells,
    bounds_meet,
    f1_bounds,
    f1_checks,
    half_width_bounds,
    mean_bounds,
    mean_checks,
    recompute,
    share_bounds,
)
from factlab.audit.counts import grim_check, split_fits
from factlab.audit.report import audit
from factlab.core.core import UsageError
from factlab.reports.published import published_values

unit = st.floats(0, 1)


@given(unit, unit, unit, unit, unit, unit)
def test_f1_bounds_hold_every_f1(p1, p2, r1, r2, a, b):
    (p1, p2), (r1, r2) = sorted((p1, p2)), sorted((r1, r2))
    p, r = p1 + a*(p2 - p1), r1 + b*(r2 - r1)
    f1 = 2*p*r/(p + r) if p + r > 0 else 0
    low, high = f1_bounds((p1, p2), (r1, r2))
    assert low - 1e-9 <= f1 <= high + 1e-9


def test_means_shares_and_meeting():
    assert mean_bounds([(0, 1), (1, 3)]) == (Fraction(1, 2), 2) and share_bounds((1, 2), (4, 5)) == (Fraction(1, 5), Fraction(1, 2))
    for nothing in (lambda: mean_bounds([]), lambda: share_bounds((1, 1), (0, 3))):
        with pytest.raises(UsageError): nothing()
    assert bounds_meet((0, 1), (1, 2)) and not bounds_meet((0, 1), (1.001, 2))


def test_wilson_and_normal_widths_against_statsmodels():
    proportion = pytest.importorskip('statsmodels.stats.proportion')
    for count, n in ((786, 860), (430, 860), (5, 20)):
        exact = Fraction(100*count, n)
        for how, wilson in (('normal', False), ('wilson', True)):
            low, high = proportion.proportion_confint(count, n, method=how)
            assert float(half_width_bounds((exact, exact), (n, n), wilson)[0]) == pytest.approx(50*(high - low), abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(unit, unit), min_size=1, max_size=5), st.integers(2, 4), st.sampled_from(ROUNDINGS))
def test_no_false_alarm_on_f1_and_averages(scores, digits, rounding):
    cells, row, words = {}, 'system', with_metrics(('Precision', 'Recall', 'F1'), model=AVERAGE)
    exact = {'Precision': [], 'Recall': [], 'F1': []}
    for i, (p, r) in enumerate(scores):
        values = {'Precision': p, 'Recall': r, 'F1': 2*p*r/(p + r) if p + r > 1e-300 else 0}
        words |= with_metrics(values, model=f'M{i}')
        for name, value in values.items():
            exact[name].append(value)
            cells['toy/table', row, f'M{i} {name}'] = printed(value, digits, rounding)
    for name, values in exact.items():
        cells['toy/table', row, f'Average {name}'] = printed(sum(map(Fraction, values))/len(values), digits, rounding)
    checks = audit(frame=as_published(cells, words=words)).checks
    assert len(checks) == len(scores) + 3 and not (checks['outcome'] == 'contradiction').any()
    if rounding is ROUND_HALF_UP: assert checks['holds'].all()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 900), min_size=2, max_size=4), st.integers(0, 2), st.integers(3, 4), st.randoms(use_true_random=False),
       st.sampled_from(ROUNDINGS))
def test_no_false_alarm_on_macro_recall_and_counts(sizes, absent, digits, random, rounding):
    shares = [Fraction(random.randint(0, n), n) for n in sizes]
    classes = min(len(sizes) + absent, MAX_CLASSES)
    cells = {('toy/a', 'system', f'Set class{i} accuracy'): exact_print(share, digits, rounding) for i, share in enumerate(shares)}
    cells['toy/b', 'system', 'Set Recall'] = exact_print(sum(shares)/classes, digits, rounding)
    words = with_metrics(['Recall', *[f'class{i} accuracy' for i in range(len(sizes))]], data='Set')
    checks = audit(frame=as_published(cells, words=words)).checks
    assert len(checks) and not (checks['outcome'] == 'contradiction').any()
    cells |= {('toy/a', 'All', f'size {i}'): str(n) for i, n in enumerate(sizes)}
    book = PublishedCells(as_published(cells, words=words))
    checks = [grim_check(('toy/a', 'system', f'Set class{i} accuracy'), ('toy/a', 'All', f'size {i}'), book) for i in range(len(sizes))]
    assert recompute(checks, book)['outcome'].is_in(['holds', 'cut off']).all()
    assert split_fits([Fraction(exact_print(share, digits, rounding)) for share in shares], sizes, Fraction(1, 10**digits))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 860), min_size=6, max_size=6), min_size=2, max_size=6))
def test_no_false_alarm_on_scores_intervals_and_ranks(counts):
    cells = {('toy/t', 'All', 'Open N'): '860', ('toy/t', 'All', 'Blind N'): '860'}
    columns = [f'{split} {judge} (%)' for split in ('Open', 'Blind') for judge in 'ABC']
    words = {f'{split} N': {'data': split, 'metric': 'N', 'kind': 'count'} for split in ('Open', 'Blind')}
    words |= {column: {'data': column.split()[0], 'metric': 'Score (%)'} for column in columns}
    words['Average (%)'] = {'model': AVERAGE, 'metric': 'Score (%)'}
    means = [sum(row)/6/860 for row in counts]
    for i, row in enumerate(counts):
        for column, k in zip(columns, row, strict=True):
            half = 100*1.959964*np.sqrt(k/860*(1 - k/860)/860)
            cells['toy/t', f'm{i}', column] = f'{printed(100*k/860, 1)} ± {printed(half, 1)}'
        cells['toy/t', f'm{i}', 'Average (%)'] = printed(100*means[i], 1)
        cells['toy/t', f'm{i}', 'Fused rank'] = str(1 + sum(other > means[i] for other in means))
    checks = audit(frame=as_published(cells, words=words)).checks
    assert len(checks) == 8*len(counts) and not (checks['outcome'] == 'contradiction').any()


def test_cut_off_is_not_a_contradiction():
    frame = as_published({('t', 's', 'Precision'): '0.600', ('t', 's', 'Recall'): '0.700', ('t', 's', 'F1'): '0.64'})
    cells = PublishedCells(frame)
    assert recompute(f1_checks(cells), cells)['outcome'].to_list() == ['cut off']


def test_averages_take_the_columns_of_their_own_measure():
    cells = PublishedCells(published_values('final/table4'))
    checks = mean_checks(cells)
    assert len(checks) == 30 and {len(check.basis) for check in checks} == {4}
    assert all(column.split()[-1] == check.target[2].split()[-1] for check in checks for _, _, column in check.basis)
    assert not any(check.target[2].startswith('Average') for check in f1_checks(cells))
    assert not f1_checks(PublishedCells(published_values('final/table9')))  # means over runs


def test_a_check_without_numbers_says_nothing_and_one_with_an_unknown_cell_is_refused():
    blank = ('final/fig4', 'Binarized', 'GPT-4o F1')
    assert recompute([Check('same', blank, (blank,), {'': lambda basis: basis[0]})]).is_empty()
    with pytest.raises(UsageError, match='not among the published'):
        recompute([Check('same', blank, (('x', 'y', 'z'),), {'': lambda basis: basis[0]})])
    assert recompute([]).is_empty()


def test_a_rough_number_excuses_a_twentieth_and_no_more():
    def outcome(said, note):
        cells = {('toy/t', 'a', 'Sum'): '100', ('toy/t', 'a', 'Part'): said}
        frame = as_published(cells).with_columns(note=pl.when(pl.col('column') == 'Part').then(pl.lit(note)))
        check = Check('sum', ('toy/t', 'a', 'Sum'), (('toy/t', 'a', 'Part'),), {'': lambda basis: basis[0]})
        return recompute([check], frame)['outcome'].item()
    rough = 'said to be roughly so'
    assert [outcome(said, rough) for said in ('100', '104', '96', '110', '90', '33')] == ['holds', 'rough', 'rough', *['contradiction']*3]
    assert outcome('104', None) == 'contradiction'
