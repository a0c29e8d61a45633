"""The committed results of FHSumBench: what the gallery says of each has n, an interval, the best baseline, and was chosen by a rule."""
import json

import polars as pl
import pytest

from factlab.core.core import project_dir

RESULTS = sorted(path for path in (project_dir()/'figures'/'fhsum').glob('*.json') if json.loads(path.read_text())['status'] == 'measured')
FIRST = ('fig4', 'table7', 'noticing')  # these ask a model alone, and show the paper's first way of asking


@pytest.mark.parametrize('path', RESULTS, ids=lambda path: path.stem)
def test_a_headline_has_the_best_baseline_of_its_rows_and_a_rule(path):
    told = json.loads(path.read_text())
    shown, cells = told['headline'], pl.read_csv(path.with_suffix('.csv'), infer_schema_length=None)
    assert shown['n'] >= 10 and shown['low'] <= shown['measured'] <= shown['high']
    if path.stem == 'construction':  # it counts what was made; what guesses get from it is no success
        assert set(cells.filter(pl.col('column').is_in(['Macro-F1', 'Balanced accuracy of hallucinated']))['status']) == {'baseline'}
        return
    rivals = cells.filter(status='baseline', column=shown['column'])
    assert shown['baseline']['measured'] == pytest.approx(rivals['measured'].max(), abs=1e-6)
    over = shown['over_baseline']
    assert over['measured'] == pytest.approx(shown['measured'] - rivals['measured'].max(), abs=2e-6) and over['low'] < over['high']
    assert 'headline_rule' in told or path.stem in FIRST and shown['row'].startswith('tiny + Vanilla Judge')


@pytest.mark.parametrize('path', RESULTS, ids=lambda path: path.stem)
def test_a_column_holds_scores_of_the_same_rows(path):
    cells = pl.read_csv(path.with_suffix('.csv'), infer_schema_length=None)
    scores = cells.filter(pl.col('status').is_in(['measured', 'baseline']),
                          pl.col('against').is_null() | (pl.col('against') == 'best baseline'),
                          metric='F1')
    assert scores.group_by('column').agg(pl.col('n').n_unique())['n'].to_list() == [1]*scores['column'].n_unique()
    named = scores.filter(status='baseline')['method'].unique().to_list()
    if named: assert {'majority', 'random', 'words and knowledge'} <= set(named)
