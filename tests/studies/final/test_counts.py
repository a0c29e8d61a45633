"""FINAL's own counts: what agrees with a printed number, and what the cells are on data whose counts are known."""
import polars as pl
import pytest
from conftest import real_data

from factlab.core.core import DataError
from factlab.data.datasets import load_sample
from factlab.reports.published import published_values
from factlab.studies.final.counts import agrees, count_manifest, counted_cells, error_count_cells, error_count_chart, size_cells


@pytest.mark.parametrize('value, printed, roughly, right', [
    (284, '284', False, True), (285, '284', False, False), (.4549, '45%', False, True), (.4551, '45%', False, False),
    (.4749, '45%', True, True), (.4751, '45%', True, False), (.4251, '45%', True, True), (12, None, False, True)])
def test_what_agrees_with_print(value, printed, roughly, right): assert agrees(value, printed, roughly) == right


def test_error_counts_of_the_sample():
    errors = load_sample()['inconsistencies'].list.len()
    cells = {(cell['row'], cell['column']): cell for cell in error_count_cells('sample').to_dicts()}
    for count in range(7): assert cells[str(count), 'Summaries']['ours'] == (errors == count).sum()
    assert cells['All', 'Inconsistencies']['ours'] == errors.sum()
    assert cells['More than one', 'Share']['ours'] == pytest.approx((errors > 1).mean())
    assert {cell['status'] for cell in cells.values() if cell['ours'] is not None} == {'measured'}
    assert error_count_chart(error_count_cells('sample'), 'sample').to_dict()


def test_sizes_of_the_sample():
    cells = size_cells('sample')
    ours = {(cell['row'], cell['column']): cell['ours'] for cell in cells.drop_nulls('ours').to_dicts()}
    assert ours["Phase 2: Error's Enrichment", 'Total'] == 54
    assert (ours['Development split', 'Total'], ours['Test split', 'Total']) == (16, 38)
    assert count_manifest('sample')['data']['rows'] == 54


def test_on_final_itself_counts_are_exact_or_findings():
    real_data('final')
    for cells in (size_cells(), error_count_cells()):
        found = cells.drop_nulls('ours')
        assert set(found['status']) <= {'exact', 'finding'} and found.height
    assert error_count_cells().filter(row='All', column='Summaries')['ours'].item() == 1405


def test_a_count_that_is_not_what_is_printed_is_a_finding():
    row, column, value = published_values('final/fig8').filter(row='All', column='Summaries').select('row', 'column', 'value').row(0)
    for count, status in ((value, 'exact'), (value + 1, 'finding')):
        for data, expected in (('final', status), ('mine', 'measured')):
            cells = counted_cells('final/fig8', {(row, column): (count, 9)}, data)
            assert cells.filter(row=row, column=column)['status'].item() == expected
    more = counted_cells('final/fig8', {('7', 'Summaries'): (1, 9)}, 'final')
    assert more.filter(row='7')['published'].is_null().all() and more.filter(row='7')['ours'].to_list() == [1]


def test_rows_without_labels_are_no_counts(tmp_path):
    rows = pl.DataFrame({'text': ['a'], 'summary': ['b'], 'gold': pl.Series([None], dtype=pl.List(pl.String))})
    rows.write_parquet(tmp_path/'mine.parquet')
    with pytest.raises(DataError): error_count_cells(str(tmp_path/'mine.parquet'))
