"""Macro averages over different numbers of classes are found and put on one footing."""
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from printed_tables import as_published, printed, with_metrics

from factlab.audit.checks import PublishedCells, macro_recall_checks
from factlab.audit.class_averages import classes_of, precision_classes
from factlab.audit.report import audit


def test_two_numbers_of_classes_are_found_and_put_on_one_footing():
    cells = {}
    for s, values, k in (('a', (0.2, 0.5), 2), ('b', (0.3, 0.6), 3)):
        cells |= {('toy/t', s, f'Set {name} accuracy'): printed(v, 4) for name, v in zip('uv', values, strict=True)}
        cells |= {('toy/t', s, f'Set {m}'): printed(sum(values)/k, 4) for m in ('Precision', 'Recall', 'F1')}
    words = with_metrics(('u accuracy', 'v accuracy', 'Precision', 'Recall', 'F1'), data='Set')
    result = audit(frame=as_published(cells, words={'a': {'method': 'a'}, 'b': {'method': 'b'}} | words))
    assert result.findings['name'].to_list() == ['toy/Set classes'] and (result.checks['outcome'] == 'holds').all()
    assert 'a as printed, b on one footing' in result.findings['consequence'].item()
    for measure in ('F1', 'recall'): assert result.footing[measure].to_list() == pytest.approx([0.35, 0.45])
    assert result.footing['precision over'].to_list() == [None, None]  # no class sizes


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.integers(3, 5), st.integers(0, 2))
def test_a_lost_accuracy_shows_no_wrong_number_of_classes(values, k, place):
    names = ('u accuracy', 'v accuracy', 'w accuracy')
    cells = {('toy/t', 'a', f'Set {name}'): printed(value, 4) for name, value in zip(names, values, strict=True)}
    cells |= {('toy/t', 'a', f'Set {name}'): printed(sum(values)/k, 4) for name in ('Precision', 'Recall', 'F1')}
    lost = pl.when(pl.col('column') != f'Set {names[place]}').then('printed')
    frame = as_published(cells, words={'a': {'method': 'a'}} | with_metrics((*names, 'Precision', 'Recall', 'F1'), data='Set'))
    book = PublishedCells(frame.with_columns(printed=lost))
    check, = macro_recall_checks(book)
    others, digit = sum(value for at, value in enumerate(values) if at != place), 1e-3
    found, fits = classes_of(check, book), [n for n in (3, 4, 5) if -digit <= n*sum(values)/k - others <= 1 + digit]
    assert k in fits and found in (None, *fits) and (found == k or len(fits) > 1)


@given(st.lists(st.lists(st.integers(0, 30), min_size=4, max_size=4), min_size=2, max_size=3))
def test_precision_classes_admit_the_true_number(rows):
    "Confusion matrices of two or three classes, and a column for one or two labels that the data does not have."
    known = len(rows)
    matrix = np.array(rows)[:, :known + 1]
    sizes = matrix.sum(1)
    if (sizes == 0).any(): return
    exact = [(Fraction(int(matrix[i, i]), int(sizes[i])),)*2 for i in range(known)]
    columns = matrix.sum(0)
    total = sum(Fraction(int(matrix[i, i]), int(columns[i])) for i in range(known) if columns[i])
    for classes in (known, known + 1, known + 2): assert classes in precision_classes(exact, sizes.tolist(), (total/classes,)*2)
