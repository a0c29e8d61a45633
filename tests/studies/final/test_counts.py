"""FINAL's own counts: what agrees with a printed number, and what the cells are on data whose counts are known."""
import polars as pl
import pytest
from conftest import real_data

from factlab.core.core import DataError
from factlab.data.datasets import load_sample
from factlab.reports.exhibits import find_exhibits, headline
from factlab.reports.published import published_values
from factlab.studies.final.counts import agrees, counted_cells, error_count_cells, error_count_chart, own_cells, size_cells


@pytest.mark.parametrize('value, printed, right', [
    (284, '284', True), (285, '284', False), (.4549, '45%', True), (.4551, '45%', False), (.464, '45%', False), (12, None, True)])
def test_what_agrees_with_print(value, printed, right): assert agrees(value, printed) == right


def test_error_counts_of_the_sample():
    errors = load_sample()['inconsistencies'].list.len()
    cells = {(cell['row'], cell['column']): cell for cell in error_count_cells('sample').to_dicts()}
    for count in range(7): assert cells[str(count), 'Summaries of the sample']['measured'] == (errors == count).sum()
    assert cells['All, the sample', 'Inconsistencies of the sample']['measured'] == errors.sum()
    assert cells['More than one, the sample', 'Share of the sample']['measured'] == pytest.approx((errors > 1).mean())
    assert {cell['status'] for cell in cells.values() if cell['measured'] is not None} == {'measured'}
    assert error_count_chart(error_count_cells('sample'), 'sample').to_dict()


def test_other_data_never_stand_beside_what_is_printed():
    for id, cells in (('final/table3', size_cells('sample')), ('final/fig8', error_count_cells('sample'))):
        assert cells.filter(pl.col('published').is_not_null() & pl.col('measured').is_not_null()).is_empty()
        assert cells['published'].drop_nulls().to_list() == published_values(id)['value'].drop_nulls().to_list()
        exhibit, = find_exhibits([id])
        assert headline(exhibit, cells) is None  # the gallery shows no count of the sample in the paper's place
    with pytest.raises(DataError, match='a cell of the paper'): own_cells('final/fig8', {('All', 'Summaries'): (54, 54)})


def test_on_final_itself_counts_are_exact_or_findings():
    real_data('final')
    for cells in (size_cells(), error_count_cells()):
        found = cells.drop_nulls('recomputed')
        assert cells['measured'].null_count() == cells.height
        assert set(found['status']) <= {'exact', 'finding'} and found.height
    assert error_count_cells().filter(row='All', column='Summaries')['recomputed'].item() == 1405


def test_what_the_text_counts_is_counted():
    "§ 3: 128 summaries that DeFacto calls consistent. App. A: 112 inconsistent summaries of the development split, 214 inconsistencies."
    real_data('final')
    found = {(row, column): counts for row, column, *counts in size_cells().select('row', 'column', 'published', 'recomputed').iter_rows()}
    assert found['Consistent in DeFacto, inconsistent in FINAL', 'Inconsistent'] == [128, 128]
    assert found['Development split', 'Inconsistent'] == [112, 112] and found['Development split', 'Inconsistencies'] == [214, 214]
    assert found['Development split', 'Total'] == [140, 140] and found['Test split', 'Total'] == [1265, 1265]
    assert not size_cells().select('row', 'column').is_duplicated().any()


def test_a_count_that_is_not_what_is_printed_is_a_finding():
    row, column, value = published_values('final/fig8').filter(row='All', column='Summaries').select('row', 'column', 'value').row(0)
    for count, status in ((value, 'exact'), (value + 1, 'finding')):
        cells = counted_cells('final/fig8', {(row, column): (count, 9)})
        assert cells.filter(row=row, column=column)['status'].item() == status
    more = counted_cells('final/fig8', {('7', 'Summaries'): (1, 9)})
    assert more.filter(row='7')['published'].is_null().all() and more.filter(row='7')['recomputed'].to_list() == [1]
