"""Exhibits from published cells alone: each exact cell is as printed or a finding known by name; a wrong digit is noticed; ranks and rates by other means."""
import itertools
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from factlab.audit.checks import run_checks
from factlab.audit.recomputed import (
    DETERMINED,
    JUDGES,
    LABELS,
    OPERATIONS,
    RATES,
    SCORES,
    STATED,
    class_cells,
    class_sizes,
    compared,
    curve_cells,
    estimators,
    label_cells,
    label_shares,
    leaderboard,
    leaderboard_cells,
    operation_cells,
    operation_shares,
    operation_table,
    preference_cells,
    preference_marks,
    rank_grid,
    rate_cells,
    rates_of,
    reach,
    reaching,
    recomputed_cells,
    sheet_of,
    size_curves,
)
from factlab.core.core import DataError, UsageError
from factlab.reports.exhibits import catalog, find_exhibits, recomputed, write_exhibit
from factlab.reports.plots import CURVES, GRID, SHARES, curve_chart, rank_chart, share_chart
from factlab.reports.theme import save_chart
from factlab.reports.published import cell, parse_printed, published_values
from factlab.reports.reproduce import notebook_of

MAKERS = {
    'oasis/table2': recomputed_cells, 'oasis/table4': recomputed_cells, 'final/fig2': recomputed_cells, 'final/table6': recomputed_cells,
    'facts/table2': rate_cells, 'facts/table4': rate_cells, 'facts/table5': leaderboard_cells, 'facts/table6': leaderboard_cells,
    'facts/selfpreference': lambda _, frame=None: preference_cells(draws=500, frame=frame),
    'fhsum/fig2': lambda _, frame=None: label_cells(frame), 'fhsum/fig5': lambda _, frame=None: curve_cells(frame),
    'fhsum/table1': recomputed_cells, 'fhsum/table2': recomputed_cells, 'fhsum/table3': recomputed_cells, 'fhsum/table4': recomputed_cells,
    'fhsum/table5': lambda id, frame=None: recomputed_cells(id, ['the same number twice'], frame), 'fhsum/table6': class_cells, 'fhsum/table7': class_cells,
}
RETRIEVAL = [f'{model} + {how} Retrieval' for model in ('Llama3-8B', 'Qwen2.5-14B', 'GPT-4o') for how in ('Concurrent', 'Reflection')]
ABLATION = 'Llama3-8B + Reflection Retrieval'
KNOWN = {
    'final/fig2': {('Decomposition', 'Share'), ('Extraction', 'Share in § 3')},
    'facts/table2': {('All', 'N'), ('All', 'Class ratio, larger part'), ('All', 'Class ratio, smaller part')},
    'facts/selfpreference': {(STATED, 'Table 5 both')},
    'fhsum/table2': {(row, 'FHSumBench Recall') for row in RETRIEVAL},
    'fhsum/table3': {(ABLATION, 'FHSumBench Recall'), *((f'{ABLATION}, {what}', 'FHSumBench F1') for what in ('knowledge base Wikidata', 'reflection loop', 'top-k 3'))},
    'fhsum/table6': {*((row, 'FHSumBench macro recall') for row in RETRIEVAL), *(('GPT-4o + Reflection Retrieval', f'FHSumBench {label} accuracy') for label in LABELS)},
    'fhsum/table7': {('Qwen2.5-32B + ICL', 'FHSumBench F1')}, 'fhsum/fig5': {('Qwen2.5-32B + ICL', 'FHSumBench F1')},
}


@pytest.fixture(scope='module')
def made(): return {id: make(id) for id, make in MAKERS.items()}


def tampered(paper: str, exhibit: str, row: str, column: str, printed: str) -> pl.DataFrame:
    "The published values of a paper with one cell printed otherwise."
    frame = published_values(paper=paper)
    here = (pl.col('exhibit') == exhibit) & (pl.col('row') == row) & (pl.col('column') == column)
    assert len(frame.filter(here)) == 1 and frame.filter(here)['printed'][0] != printed
    value, half = parse_printed(printed)
    return frame.with_columns(value=pl.when(here).then(value).otherwise('value'), printed=pl.when(here).then(pl.lit(printed)).otherwise('printed'),
                              plus_minus=pl.when(here).then(pl.lit(half, pl.Float64)).otherwise('plus_minus'))


def findings(cells: pl.DataFrame) -> set: return set(cells.filter(pl.col('status') == 'finding').select('row', 'column').iter_rows())


# --- the cells --------------------------------------------------------------------------------------------------------------------

def test_every_exact_exhibit_is_tested_or_counts_data():
    counted = {'final/table3', 'final/fig8'}  # tests/test_reproduce.py
    assert set(MAKERS) == {exhibit.id for exhibit in find_exhibits(status='exact')} - counted


@pytest.mark.parametrize('id', MAKERS)
def test_cells_are_as_printed_or_known_findings(made, id):
    assert findings(made[id]) == KNOWN.get(id, set())
    printed = dict(published_values(paper=id.partition('/')[0]).filter(pl.col('exhibit') == id).select(pl.concat_list('row', 'column').list.join('|'), 'printed').iter_rows())
    both = made[id].filter((pl.col('status') == 'exact') & pl.col('published').is_not_null() & pl.col('ours').is_not_null())
    for row, column, value, ours in both.select('row', 'column', 'published', 'ours').iter_rows():
        text = (printed.get(f'{row}|{column}') or '0.0').partition('±')[0].strip()
        unit = 10.0**-len(text.rstrip('%').partition('.')[2])/(100 if text.endswith('%') else 1)
        assert abs(value - ours) <= unit/2 + 1e-9, (row, column)
        if column in ('N', 'Count', 'Fused rank', 'Samples', 'Test set size') or row == 'Data size': assert value == ours


@pytest.mark.parametrize('id', MAKERS)
def test_something_is_recomputed_and_every_printed_cell_is_shown(made, id):
    assert recomputed(next(e for e in catalog() if e.id == id), made[id])['recomputed']['cells'] > 0
    shown = set(made[id].select('row', 'column').iter_rows())
    there = published_values(paper=id.partition('/')[0]).filter((pl.col('exhibit') == id) & pl.col('value').is_not_null() & (pl.lit(id) != 'fhsum/fig2'))
    assert set(there.select('row', 'column').iter_rows()) <= shown and not made[id].select('row', 'column').is_duplicated().any()


def test_the_kinds_of_check_exist():
    kinds = set(run_checks()['check'])
    assert set(DETERMINED) < kinds and 'the same number twice' in kinds and 'rate from a count' in kinds


def test_findings_agree_with_the_audit(made):
    failed = run_checks().filter(~pl.col('holds') & pl.col('check').is_in([*DETERMINED, 'rate from a count']))
    for id in ('final/fig2', 'fhsum/table2', 'fhsum/table3', 'fhsum/table7'):
        assert findings(made[id]) == set(failed.filter(pl.col('exhibit') == id).select('row', 'column').iter_rows())
    for id in ('oasis/table2', 'oasis/table4', 'final/table6', 'fhsum/table1', 'fhsum/table4'): assert failed.filter(pl.col('exhibit') == id).is_empty()


# --- one digit --------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('exhibit, row, column, printed', [
    ('oasis/table2', 'Claim Extraction', 'Avg. Claims per Passage', '8.382'), ('oasis/table2', 'Claim Extraction', 'Claims', '681,301'),
    ('oasis/table4', 'BERTScore', 'Easiness F1', '0.9376'), ('final/table6', 'Subjective span', 'Summaries P (%)', '25.01'),
    ('final/fig2', 'Fabricated', 'Share', '3.6%'), ('final/fig2', 'Missing Explanation', 'Count', '18'),
    ('facts/table2', 'GPT-4o, JSON', 'Accuracy (%)', '80.55'), ('facts/table2', 'GPT-4o, JSON', 'F1− (%)', '51.63'), ('facts/table2', 'GPT-4o, JSON', 'FPR (%)', '32.36'),
    ('facts/table4', 'All', 'N', '451'), ('facts/table4', 'GPT-4o, User request only', 'Macro-F1 (%)', '55.17'),
    ('facts/table5', 'GPT-4o', 'Average (%)', '80.0 ± 1.9'), ('facts/table5', 'GPT-4o', 'Open GPT-4o (%)', '71.7 ± 3.2'), ('facts/table6', 'GPT-4o', 'Fused rank', '6'),
    ('facts/table6', 'Claude 3.5 Sonnet', 'Open GPT-4o (%)', '73.7 ± 3.0'),
    ('fhsum/table1', 'GPT-4o + CoT', 'FHSumBench F1', '0.4638'), ('fhsum/table1', 'GPT-4o + CoT', 'M-XSum Recall', '0.3866'),
    ('fhsum/table2', 'GPT-4o + Knowledge Retrieval', 'M-XSum F1', '0.3912'), ('fhsum/table3', ABLATION, 'FHSumBench F1', '0.4650'),
    ('fhsum/table4', 'Data size', 'factual hallucination', '502'), ('fhsum/table4', 'Words per summary', 'overall', '28'), ('fhsum/table5', 'FHSumBench', 'Test set size', '1336.5'),
    ('fhsum/table6', 'GPT-4o + CoT', 'FHSumBench no hallucination accuracy', '0.7351'), ('fhsum/table7', 'Qwen2.5-72B + CoT', 'FHSumBench F1', '0.4999'),
    ('fhsum/fig5', 'Qwen2.5-72B + CoT', 'FHSumBench F1', '0.4999'), ('fhsum/fig2', 'FHSumBench', 'Samples', '1,337'), ('fhsum/fig2', 'M-XSum', 'share', '95%'),
])
def test_a_wrong_digit_becomes_a_finding(exhibit, row, column, printed):
    paper = exhibit.partition('/')[0]
    where = {'fhsum/fig5': ('fhsum/table7', row, column), 'fhsum/fig2': ('fhsum/table5', 'FHSumBench', 'Test set size') if column == 'Samples' else
             ('fhsum/section3', 'M-XSum', 'non-factual hallucination share')}.get(exhibit, (exhibit, row, column))
    new = findings(MAKERS[exhibit](exhibit, frame=tampered(paper, *where, printed))) - KNOWN.get(exhibit, set())
    assert any(place[0] in (row, 'All', 'Simple Changes', 'Challenging Changes') or exhibit == 'fhsum/table4' for place in new), new


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_any_other_f1_than_the_printed_one_is_a_finding(value):
    printed = f'{value/10_000:.4f}'
    if printed == cell('oasis/table4', 'ROUGE-1', 'Easiness F1').printed: return
    precision, recall = (cell('oasis/table4', 'ROUGE-1', f'Easiness {name}').value for name in ('Precision', 'Recall'))
    fits = abs(2*precision*recall/(precision + recall) - value/10_000) < .0001
    found = findings(recomputed_cells('oasis/table4', frame=tampered('oasis', 'oasis/table4', 'ROUGE-1', 'Easiness F1', printed)))
    assert fits or found == {('ROUGE-1', 'Easiness F1')}


# --- rates ------------------------------------------------------------------------------------------------------------------------

@given(*[st.integers(0, 60)]*4)
def test_rates_are_those_of_scikit_learn(tp, fn, fp, tn):
    if tp + fn == 0 or fp + tn == 0: return
    truth, said = [1]*(tp + fn) + [0]*(fp + tn), [1]*tp + [0]*fn + [1]*fp + [0]*tn
    rates = {name: float(value)/100 for name, value in rates_of(tp, fn, fp, tn).items()}
    assert rates['Accuracy (%)'] == pytest.approx(accuracy_score(truth, said))
    for column, options in (('F1+ (%)', {}), ('F1− (%)', {'pos_label': 0}), ('Macro-F1 (%)', {'average': 'macro'})):
        assert rates[column] == pytest.approx(f1_score(truth, said, zero_division=0, **options))
    assert (rates['FNR (%)'], rates['FPR (%)']) == pytest.approx((fn/(tp + fn), fp/(fp + tn)))
    assert tuple(rates) == RATES


def test_class_sizes_and_a_table_that_no_sizes_fit():
    assert class_sizes('facts/table2', sheet_of('facts/table2')) == (344, 62) and class_sizes('facts/table4', sheet_of('facts/table4')) == (150, 300)
    frame = published_values(paper='facts').with_columns(value=pl.when(pl.col('column') == 'Accuracy (%)').then(1.23).otherwise('value'),
                                                  printed=pl.when(pl.col('column') == 'Accuracy (%)').then(pl.lit('1.23')).otherwise('printed'))
    with pytest.raises(DataError, match='no class sizes up to 900'): class_sizes('facts/table4', sheet_of('facts/table4', frame))


# --- leaderboards -----------------------------------------------------------------------------------------------------------------

def by_hand(scores: np.ndarray) -> list[int]:
    "The one order in which every earlier system beats every later one by majority, or ties with it and has the larger mean."
    def ahead(a, b):
        wins, losses = (scores[a] > scores[b]).sum(), (scores[a] < scores[b]).sum()
        return wins > losses or wins == losses and scores[a].mean() > scores[b].mean()
    return [1 + sum(ahead(other, system) for other in range(len(scores)) if other != system) for system in range(len(scores))]


@pytest.mark.parametrize('id', ['facts/table5', 'facts/table6'])
def test_fused_ranks_are_the_printed_ones_and_those_by_hand(made, id):
    board = leaderboard(id)
    ranks = made[id].filter(pl.col('column') == 'Fused rank')
    assert ranks['ours'].to_list() == ranks['published'].to_list() == by_hand(board.scores) == list(range(1, 10))
    assert (ranks['low'] <= ranks['ours']).all() and (ranks['ours'] <= ranks['high']).all()
    average = made[id].filter(pl.col('column') == 'Average (%)')
    assert np.allclose(average['ours'], board.scores.mean(1), atol=.05)


@pytest.mark.parametrize('id', ['facts/table5', 'facts/table6'])
def test_rank_probabilities_sum_to_one_both_ways_and_do_not_hang_on_the_seed(made, id):
    grid = rank_grid(made[id])
    for way in ('row', 'column'): assert np.allclose(grid.group_by(way).agg(pl.col('probability').sum())['probability'], 1)
    assert len(grid) == 81 and grid['marked'].sum() == 9
    other = rank_grid(leaderboard_cells(id, seed=7))
    assert np.abs(grid['probability'].to_numpy() - other['probability'].to_numpy()).max() < .03
    assert leaderboard_cells(id, seed=7, draws=200).equals(leaderboard_cells(id, seed=7, draws=200))


def test_half_widths_are_the_normal_ones(made):
    for row, column, ours in made['facts/table5'].filter(pl.col('column').str.ends_with('±')).select('row', 'column', 'ours').iter_rows():
        p, n = cell('facts/table5', row, column.replace('±', '(%)')).value, {'Open': 860, 'Blind': 859, 'Average': 1719}[column.split()[0]]
        assert abs(ours - 1.96*(p*(100 - p)/n)**.5) < .03


def test_a_leaderboard_without_a_score_says_which():
    frame = published_values(paper='facts').filter(~((pl.col('exhibit') == 'facts/table5') & (pl.col('row') == 'GPT-4o') & (pl.col('column') == SCORES[2])))
    with pytest.raises(DataError, match='GPT-4o, Open Claude 3.5 Sonnet'): leaderboard('facts/table5', frame)
    with pytest.raises(UsageError): recomputed_cells('nobody/table1')


# --- self-preference --------------------------------------------------------------------------------------------------------------

def test_the_stated_estimate_by_hand(made):
    def leads(split):
        for judge in JUDGES:
            scores = {other: cell('facts/table5', judge, f'{split} {other} (%)').value for other in JUDGES}
            yield scores[judge] - sum(value for other, value in scores.items() if other != judge)/2
    expected = np.mean([lead for split in ('Open', 'Blind') for lead in leads(split)])
    cells = made['facts/selfpreference']
    ours = cells.filter((pl.col('row') == STATED) & (pl.col('column') == 'Table 5 both')).row(0, named=True)
    assert ours['ours'] == pytest.approx(expected) and ours['published'] == 3.23 and ours['high'] < 3.225
    assert {row for row in reaching(cells)['row']} <= set(estimators(list(JUDGES))) and len(preference_marks(cells)) == 10


@given(st.integers(0, 2**32 - 1), st.floats(-5, 5))
@settings(max_examples=50)
def test_quality_and_leniency_drop_out_and_a_bonus_stays(seed, bonus):
    rng = np.random.default_rng(seed)
    systems = [*JUDGES, 'a', 'b']
    scores = rng.uniform(40, 60, 5)[:, None] + rng.uniform(-10, 10, 3)[None]
    scores[:3] += bonus*np.eye(3)
    ways = estimators(systems)
    assert ways[STATED](scores) == pytest.approx(bonus, abs=1e-9)
    assert ways['Double difference, three systems'](scores) == pytest.approx(1.5*bonus, abs=1e-9)


def test_reach_holds_all_corners():
    rng = np.random.default_rng(3)
    scores = rng.uniform(60, 90, (3, 3))
    for way in estimators(list(JUDGES)).values():
        low, high = reach(way, scores, .1)
        corners = [float(way(scores + .05*np.array(signs).reshape(3, 3))) for signs in itertools.product((-1, 1), repeat=9)]
        assert (min(corners), max(corners)) == pytest.approx((low, high))


# --- the rest ---------------------------------------------------------------------------------------------------------------------

@given(st.fractions(0, 1), st.fractions(0, 1), st.fractions(0, 1), st.fractions(0, 1))
def test_compared_is_exact_when_the_intervals_touch(a, b, c, d):
    printed, allowed = tuple(sorted((a, b))), tuple(sorted((c, d)))
    found = compared(printed, allowed)
    touch = max(printed[0], allowed[0]) <= min(printed[1], allowed[1])
    assert (found['status'] == 'exact') == touch
    if touch: assert max(printed[0], allowed[0]) - Fraction(1, 10**9) <= Fraction(found['ours']) <= min(printed[1], allowed[1]) + Fraction(1, 10**9)


def test_categories_behind_recalls(made):
    def classes(benchmark): return Counter(made['fhsum/table6'].filter(pl.col('column') == f'{benchmark} categories')['ours'].to_list())
    assert classes('FHSumBench') == {4: 16, 3: 2} and classes('M-XSum') == {3: 18, 2: 6}
    assert set(made['fhsum/table7'].filter(pl.col('column') == 'FHSumBench categories')['ours']) == {4}


def test_curves_and_shares(made):
    curves = size_curves(made['fhsum/fig5'])
    assert len(curves) == 35 and curves['series'].n_unique() == 5 and curves['x'].unique().sort().to_list() == [.5, 1.5, 3, 7, 14, 32, 72]
    assert curves.filter(pl.col('ours').is_not_null()).select('series', 'x').rows() == [('ICL', 32.0)]
    with pytest.raises(DataError, match='does not say its size'): size_curves(made['fhsum/fig5'].with_columns(row=pl.lit('a model')))
    assert np.allclose(label_shares(made['fhsum/fig2']).group_by('row').agg(pl.col('share').sum())['share'], 1)
    assert operation_shares(made['final/fig2'])['share'].sum() == pytest.approx(1, abs=.001)


def test_the_operations_are_the_papers_and_their_examples_ours():
    rows = published_values('final/fig2')['row'].unique().to_list()
    assert {operation.name for operation in OPERATIONS} <= set(rows) and operation_cells()['ours'].to_list() == [len(operation.descriptions) for operation in OPERATIONS]
    assert all(line.count(' | ') == 4 for line in operation_table().splitlines())


# --- the chart forms --------------------------------------------------------------------------------------------------------------

HOSTILE = '</text><script>alert(1)</script> & "\' ]]> \x00\u202e ${datum} 漢字'

def curves(**more): return CURVES.frame([dict(series='CoT', x=1.0, published=.2, ours=.3) | more, dict(series='CoT', x=2.0, published=.25, ours=None)])
def shares(*values): return SHARES.frame([dict(row='set', part=str(i), share=value) for i, value in enumerate(values)])
def grid(p=.5): return GRID.frame([dict(panel='', row='system', column=rank, probability=p, marked=rank == 1) for rank in (1, 2)])


def test_new_forms_draw_hostile_text_as_text_and_the_same_each_time(tmp_path):
    charts = {'curve': curve_chart(curves(series=HOSTILE), HOSTILE, HOSTILE, HOSTILE), 'share': share_chart(shares(.5, .2).with_columns(part=pl.lit(HOSTILE), row=pl.lit(HOSTILE)), HOSTILE, HOSTILE),
              'rank': rank_chart(grid().with_columns(row=pl.lit(HOSTILE)), HOSTILE, HOSTILE),
              'panels': rank_chart(pl.concat([grid(), grid().with_columns(panel=pl.lit(HOSTILE))]), 'Two panels?')}
    for name, chart in charts.items():
        files = save_chart(chart, tmp_path/name)
        first = [path.read_bytes() for path in files]
        assert b'<script' not in first[0] and len(first[1]) > 2_000
        save_chart(chart, tmp_path/name)
        assert first == [path.read_bytes() for path in files]


@pytest.mark.parametrize('draw, error, word', [
    (lambda: curve_chart(curves(x=0.0), 't', 'x', 'y'), DataError, 'logarithmic'), (lambda: curve_chart(CURVES.frame(), 't', 'x', 'y'), DataError, 'nothing to draw'),
    (lambda: curve_chart(pl.concat([curves(series=name) for name in 'abcdefgh']), 't', 'x', 'y'), UsageError, 'colours'),
    (lambda: share_chart(shares(.7, .4), 't'), DataError, 'add up'), (lambda: share_chart(shares(-.1), 't'), DataError, 'between 0 and 1'),
    (lambda: share_chart(shares(None), 't'), DataError, 'between'), (lambda: share_chart(shares(), 't'), DataError, 'empty'), (lambda: share_chart(shares(*[.1]*8), 't'), UsageError, 'colours'),
    (lambda: rank_chart(grid(1.2), 't'), DataError, 'outside 0 to 1'), (lambda: rank_chart(grid(None), 't'), DataError, 'or none'), (lambda: rank_chart(GRID.frame(), 't'), DataError, 'empty'),
    (lambda: rank_chart(shares(.5), 't'), DataError, 'grid'),
])
def test_new_forms_refuse_what_they_cannot_draw(draw, error, word):
    with pytest.raises(error, match=word): draw()


def test_curves_and_ranks_show_every_point(made):
    spec = curve_chart(size_curves(made['fhsum/fig5']), 't', 'x', 'y').to_dict()
    points = {(row['series'], row['x'], row['source']) for part in spec['datasets'].values() for row in part}
    assert len(points) == 36 and [point for point in points if point[2] == 'ours'] == [('ICL', 32.0, 'ours')]
    (data,) = rank_chart(rank_grid(made['facts/table5']), 't').to_dict()['datasets'].values()
    assert len(data) == 81 and sum(row['marked'] for row in data) == 9


# --- the catalog and the notebooks ------------------------------------------------------------------------------------------------

def test_order_of_the_catalog():
    papers = [exhibit.paper for exhibit in catalog()]
    assert list(dict.fromkeys(papers)) == ['oasis', 'final', 'facts', 'fhsum'] and papers == sorted(papers, key=['oasis', 'final', 'facts', 'fhsum'].index)
    assert len({exhibit.id for exhibit in catalog()}) == len(catalog())


def test_manifest_and_gallery_say_what_holds(made, tmp_path):
    result = write_exhibit('fhsum/table7', made['fhsum/table7'], out=tmp_path)
    assert result.manifest['status'] == 'finding' and result.manifest['recomputed']['findings'] == ['Qwen2.5-32B + ICL · FHSumBench F1']
    counts = result.manifest['recomputed']
    assert counts['as_printed'] == counts['cells'] - 1 and f'finding ({counts["as_printed"]} of {counts["cells"]} cells as printed)' in (tmp_path/'README.md').read_text()
    assert 'n = 860' in write_exhibit('facts/table5', made['facts/table5'], out=tmp_path).table().text


@pytest.mark.parametrize('id', [*MAKERS, 'final/table2'])
def test_notebooks_are_short_and_have_one_cell_of_parameters(id):
    import nbformat
    notebook = nbformat.read(notebook_of(next(e for e in catalog() if e.id == id)), 4)
    tagged = [c for c in notebook.cells if 'parameters' in c.metadata.get('tags', [])]
    assert len(notebook.cells) <= 12 and len(tagged) == 1 and 'out = None' in tagged[0].source


def test_no_model_library_is_loaded():
    code = 'import sys, factlab.audit.recomputed, factlab.reports.plots; print([m for m in ("torch", "transformers", "openai", "sentence_transformers") if m in sys.modules])'
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout.strip() == '[]'
