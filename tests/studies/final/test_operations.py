"""FINAL’s annotation operations: the names are the paper’s, the examples ours."""
import pytest

from factlab.audit.recomputed import recomputed_cells
from factlab.reports.published import published_values
from factlab.studies.final.operations import OPERATIONS, operation_cells, operation_shares, operation_table


def test_the_operations_are_the_papers_and_their_examples_ours():
    rows = published_values('final/fig2')['row'].unique().to_list()
    assert {operation.name for operation in OPERATIONS} <= set(rows)
    assert operation_cells()['measured'].to_list() == [len(operation.descriptions) for operation in OPERATIONS]
    assert all(line.count(' | ') == 4 for line in operation_table().splitlines())


def test_shares_add_up_and_two_are_cut_off():
    assert operation_shares(recomputed_cells('final/fig2'))['share'].sum() == pytest.approx(1, abs=.001)
    assert int(1000*24/655) == 36 and round(1000*24/655) == 37 and int(100*319/655) == 48 and round(100*319/655) == 49
