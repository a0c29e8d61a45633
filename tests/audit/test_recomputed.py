"""Cells beside what the others give: intervals that touch, and the kinds of check that determine a cell."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from printed_tables import finding_cells, tampered

from factlab.audit.checks import AVERAGE
from factlab.audit.recomputed import TESTING_KINDS, compared, recomputed_cells
from factlab.reports.published import cell, published_values
from factlab.studies.fhsum.relations import CATEGORIES


@given(st.fractions(0, 1), st.fractions(0, 1), st.fractions(0, 1), st.fractions(0, 1), st.fractions(0, 1))
def test_compared_is_exact_when_the_intervals_touch_and_ours_does_not_move_towards_what_is_printed(a, b, c, d, ours):
    printed, allowed = tuple(sorted((a, b))), tuple(sorted((c, d)))
    found = compared(printed, allowed, ours)
    touch = max(printed[0], allowed[0]) <= min(printed[1], allowed[1])
    assert (found['status'] == 'exact') == touch and found['recomputed'] == float(ours)
    assert compared(printed, allowed)['recomputed'] == compared(None, allowed)['recomputed'] == float(sum(allowed)/2)
    ends = (None, None) if allowed[0] == allowed[1] else tuple(map(float, allowed))
    assert (found['low'], found['high']) == ends


F1_OF = ('F1', 'ROUGE-1 easiness F1', 'BERTScore easiness F1')  # metrics
F1_TABLES = ('oasis/table4', 'final/table4', 'final/table7', 'final/table8', 'fhsum/table1', 'fhsum/table2', 'fhsum/table3', 'fhsum/table7')

@pytest.mark.parametrize('exhibit', F1_TABLES)
def test_every_f1_is_that_of_the_printed_precision_and_recall_and_its_interval_that_of_their_rounding(exhibit):
    cells = recomputed_cells(exhibit)
    printed = dict(published_values(exhibit).select(pl.concat_list('row', 'column').list.join('|'), 'printed').iter_rows())
    found = cells.filter(pl.col('metric').is_in(list(F1_OF)) & pl.col('recomputed').is_not_null() & (pl.col('model').ne_missing(AVERAGE)))
    assert len(found)
    for row, column, value, low, high in found.select('row', 'column', 'recomputed', 'low', 'high').iter_rows():
        texts = [printed[f'{row}|{column.removesuffix("F1")}{name}'] for name in ('Precision', 'Recall')]
        p, r = map(float, texts)
        half = [.5*10.0**-len(text.partition('.')[2]) for text in texts]
        assert value == pytest.approx(2*p*r/(p + r), abs=1e-12)
        ends = [2*a*b/(a + b) for a, b in ((p - half[0], r - half[1]), (p + half[0], r + half[1]))]
        assert (low, high) == pytest.approx(ends, abs=1e-12)


def test_a_rate_that_some_count_gives_is_not_recomputed_from_itself():
    tested = recomputed_cells('fhsum/table6', TESTING_KINDS).filter(pl.col('metric').is_in([f'{label} accuracy' for label in CATEGORIES]))
    assert set(tested['status']) == {'published', 'finding'}
    assert (tested['recomputed'].is_null() == (tested['status'] == 'published')).all()


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_any_other_f1_than_the_printed_one_is_a_finding(value):
    printed = f'{value/10_000:.4f}'
    if printed == cell('oasis/table4', 'ROUGE-1', 'Easiness F1').printed: return
    precision, recall = (cell('oasis/table4', 'ROUGE-1', f'Easiness {name}').value for name in ('Precision', 'Recall'))
    fits = abs(2*precision*recall/(precision + recall) - value/10_000) < .0001
    found = finding_cells(recomputed_cells('oasis/table4', frame=tampered('oasis', 'oasis/table4', 'ROUGE-1', 'Easiness F1', printed)))
    assert fits or found == {('ROUGE-1', 'Easiness F1')}
