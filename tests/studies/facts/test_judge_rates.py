"""FACTS’ tables of rates: class sizes and rates by other means."""
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from factlab.audit.recomputed import paper_cells
from factlab.core.core import DataError
from factlab.reports.published import published_values
from factlab.studies.facts.judge_rates import RATE_COLUMNS, class_sizes, rates_of


@given(*[st.integers(0, 60)]*4)
def test_rates_are_those_of_scikit_learn(tp, fn, fp, tn):
    if tp + fn == 0 or fp + tn == 0: return
    truth, said = [1]*(tp + fn) + [0]*(fp + tn), [1]*tp + [0]*fn + [1]*fp + [0]*tn
    rates = {name: float(value)/100 for name, value in rates_of(tp, fn, fp, tn).items()}
    assert rates['Accuracy (%)'] == pytest.approx(accuracy_score(truth, said))
    for column, options in (('F1+ (%)', {}), ('F1− (%)', {'pos_label': 0}), ('Macro-F1 (%)', {'average': 'macro'})):
        assert rates[column] == pytest.approx(f1_score(truth, said, zero_division=0, **options))
    assert (rates['FNR (%)'], rates['FPR (%)']) == pytest.approx((fn/(tp + fn), fp/(fp + tn)))
    assert tuple(rates) == RATE_COLUMNS


def test_class_sizes_and_a_table_that_no_sizes_fit():
    assert class_sizes('facts/table2', paper_cells('facts/table2')) == (344, 62)
    assert class_sizes('facts/table4', paper_cells('facts/table4')) == (150, 300)
    accuracy = pl.col('column') == 'Accuracy (%)'
    frame = published_values(paper='facts').with_columns(value=pl.when(accuracy).then(1.23).otherwise('value'),
                                                  printed=pl.when(accuracy).then(pl.lit('1.23')).otherwise('printed'))
    with pytest.raises(DataError, match='no class sizes up to 900'): class_sizes('facts/table4', paper_cells('facts/table4', frame))
