"""FACTS on the sample: what is counted of it, how judges and rivals are compared, and what stands in the leaderboard's cells."""
import numpy as np
import polars as pl
import pytest

from factlab.core.core import DataError
from factlab.reports.exhibits import make_cells
from factlab.studies.facts import measured
from factlab.studies.facts.illustrations import composition, composition_cells, example_requests, load_rows
from factlab.studies.facts.judge_rates import rate_cells, rate_grid


def test_domains_and_tasks_are_counted_by_request():
    rows = load_rows()
    composed = composition(rows)
    requests = rows.unique('document_id')
    for kind in ('Domain', 'Task'):
        part = composed.filter(kind=kind)
        assert part['requests'].sum() == requests.height and part['share'].sum() == pytest.approx(1)
        assert sorted(part['requests']) == sorted(requests[kind.lower()].value_counts()['count'])
    assert composition_cells(composed)['published'].is_null().all()
    assert example_requests(rows)['domain'].n_unique() == 5
    with pytest.raises(DataError): composition(rows.drop('task'))


def test_a_judge_and_its_rivals_stand_on_the_same_rows():
    truth, documents = pl.Series([True, False]*20), pl.Series([str(n//4) for n in range(40)])
    answers = {'embedded': np.array([True, False]*15 + [True, True]*5), 'always grounded': np.ones(40, bool)}
    cells = make_cells('facts/judges', measured._compared_cells('Responses', truth, answers, documents, {'accuracy': 'accuracy'},
                                                                measured.NAMES, 0))
    def cell(row, column): return cells.filter(row=row, column=f'Responses: {column}').row(0, named=True)
    assert cell('Embedded judge', 'accuracy (%)')['ours'] == 87.5 and cell('Baseline: always yes', 'accuracy (%)')['ours'] == 50
    over = cell('Embedded judge', 'accuracy (%) over best baseline')
    assert over['ours'] == pytest.approx(37.5) and over['low'] > 0
    assert cell('Embedded judge', 'FPR (%)')['ours'] == 25 and cell('Embedded judge', 'FNR (%)')['ours'] == 0
    assert cell('Baseline: always yes', 'FPR (%)')['ours'] == 100
    assert set(cells.filter(pl.col('row').str.starts_with('Baseline'))['status']) == {'baseline'}
    with pytest.raises(DataError): measured.judge_cells(None, load_rows().filter(pl.col('split') == 'test'))


def test_each_judges_best_prompt_is_marked():
    grid = rate_grid(rate_cells('facts/table2'))
    assert grid.group_by('column').agg(pl.col('marked').sum())['marked'].to_list() == [1, 1, 1]
    assert grid.filter('marked')['score'].min() > 69
