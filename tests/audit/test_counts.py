"""Counts behind rates: the searches find what a plain search finds, and true tables pass."""
from decimal import ROUND_HALF_UP
from fractions import Fraction

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from printed_tables import ROUNDINGS, as_published, exact_print, rates

from factlab.audit.counts import counts_within, nearest_share, two_class_fits
from factlab.audit.report import audit

unit = st.floats(0, 1)


@given(st.integers(1, 400), st.data())
def test_counts_within_is_a_plain_search(size, data):
    low = data.draw(st.floats(0, 1))
    high = data.draw(st.floats(low, 1))
    sizes, counts = counts_within((low, high), np.arange(1, size + 1))
    brute = {(n, k) for n in (1, size//2 + 1, size) for k in range(n + 1) if low - 1e-12 <= k/n <= high + 1e-12}
    assert {(int(n), int(k)) for n, k in zip(sizes, counts, strict=True) if n in (1, size//2 + 1, size)} >= brute
    assert ((counts/sizes >= low - 1e-6) & (counts/sizes <= high + 1e-6)).all()


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 300), st.integers(2, 300), st.lists(st.tuples(unit, unit), min_size=1, max_size=4), st.integers(2, 4),
       st.sampled_from(ROUNDINGS))
def test_no_false_alarm_on_tables_of_rates(p, n, rows, digits, rounding):
    cells = {('toy/table', 'All', 'N'): str(p + n)}
    for i, (a, b) in enumerate(rows):
        for column, value in rates(round(a*p), p, round(b*n), n).items():
            cells['toy/table', f'row {i}', column] = exact_print(value, digits, rounding)
    result = audit(frame=as_published(cells))
    assert not (result.checks['outcome'] == 'contradiction').any()
    assert (result.findings['sure'] == 'remark').all()
    assert len(result.checks) == 2*len(rows) + 1


def test_a_wrong_number_of_examples_is_found():
    rng = np.random.default_rng(2)
    for _ in range(20):
        p, n = (int(x) for x in rng.integers(40, 200, 2))
        cells = {('toy/t', 'All', 'N'): str(p + n - 3)}
        for i in range(8):
            for column, value in rates(int(rng.integers(0, p)), p, int(rng.integers(0, n)), n).items():
                cells['toy/t', f'row {i}', column] = exact_print(value, 2, ROUND_HALF_UP)
        found = audit(frame=as_published(cells)).findings.filter(pl.col('name') == 'toy/t N')
        assert found['sure'].to_list() == ['certain'] and f'N = {p + n}' in found['implied'].item()


def test_counts_of_tiny_totals():
    assert nearest_share(Fraction('0.5'), (3, 3)) in ((Fraction(1, 3),)*2, (Fraction(2, 3),)*2)
    assert two_class_fits({'recall+': (1, 1), 'recall−': (1, 1)}, [2]) == {(1, 1)}
