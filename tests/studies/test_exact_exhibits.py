"""Exhibits from published cells alone: each exact cell is as printed or a finding known by name; a wrong digit is noticed."""
from dataclasses import replace

import polars as pl
import pytest
from printed_tables import finding_cells, tampered

from factlab.audit.recomputed import DETERMINING_KINDS, recomputed_cells
from factlab.audit.relations import run_checks
from factlab.reports.exhibits import find_exhibits, recomputed, write_exhibit
from factlab.reports.published import published_values
from factlab.studies.facts.judge_rates import rate_cells
from factlab.studies.facts.leaderboard import leaderboard_cells
from factlab.studies.facts.self_preference import preference_cells
from factlab.studies.fhsum.categories import category_cells
from factlab.studies.fhsum.labels import label_cells
from factlab.studies.fhsum.relations import CATEGORIES
from factlab.studies.fhsum.size_curves import curve_cells

MAKERS = {
    'oasis/table2': recomputed_cells, 'oasis/table4': recomputed_cells, 'final/fig2': recomputed_cells, 'final/table6': recomputed_cells,
    'facts/table2': rate_cells, 'facts/table4': rate_cells, 'facts/table5': leaderboard_cells, 'facts/table6': leaderboard_cells,
    'facts/selfpreference': lambda _, frame=None: preference_cells(draws=500, frame=frame),
    'fhsum/fig2': lambda _, frame=None: label_cells(frame), 'fhsum/fig5': lambda _, frame=None: curve_cells(frame),
    'fhsum/table1': recomputed_cells, 'fhsum/table2': recomputed_cells, 'fhsum/table3': recomputed_cells, 'fhsum/table4': recomputed_cells,
    'fhsum/table5': lambda id, frame=None: recomputed_cells(id, ['the same number twice'], frame),
    'fhsum/table6': category_cells, 'fhsum/table7': category_cells,
}


RETRIEVAL = [f'{model} + {how} Retrieval' for model in ('Llama3-8B', 'Qwen2.5-14B', 'GPT-4o') for how in ('Concurrent', 'Reflection')]


ABLATION = 'Llama3-8B + Reflection Retrieval'


KNOWN = {
    'final/fig2': {('Decomposition', 'Share'), ('Extraction', 'Share in § 3')},
    'facts/table2': {('All', 'N'), ('All', 'Class ratio, larger part'), ('All', 'Class ratio, smaller part')},
    'fhsum/table2': {(row, 'FHSumBench Recall') for row in RETRIEVAL},
    'fhsum/table3': {(ABLATION, 'FHSumBench Recall'), *((f'{ABLATION}, {what}', 'FHSumBench F1')
                                                        for what in ('knowledge base Wikidata', 'reflection loop', 'top-k 3'))},
    'fhsum/table6': {*((row, 'FHSumBench macro recall') for row in RETRIEVAL),
                     *(('GPT-4o + Reflection Retrieval', f'FHSumBench {label} accuracy') for label in CATEGORIES)},
    'fhsum/table7': {('Qwen2.5-32B + ICL', 'FHSumBench F1')}, 'fhsum/fig5': {('Qwen2.5-32B + ICL', 'FHSumBench F1')},
}


@pytest.fixture(scope='module')
def made(): return {id: make(id) for id, make in MAKERS.items()}


@pytest.mark.parametrize('id', MAKERS)
def test_cells_are_as_printed_or_known_findings(made, id):
    assert finding_cells(made[id]) == KNOWN.get(id, set())
    there = published_values(paper=id.partition('/')[0]).filter(pl.col('exhibit') == id)
    printed = dict(there.select(pl.concat_list('row', 'column').list.join('|'), 'printed').iter_rows())
    both = made[id].filter((pl.col('status') == 'exact') & pl.col('published').is_not_null() & pl.col('recomputed').is_not_null())
    for row, column, value, number, low, high in both.select('row', 'column', 'published', 'recomputed', 'low', 'high').iter_rows():
        text = (printed.get(f'{row}|{column}') or '0.0').partition('±')[0].strip()
        unit = 10.0**-len(text.rstrip('%').partition('.')[2])/(100 if text.endswith('%') else 1)
        low, high = (number, number) if low is None else (low, high)
        assert low - 1e-9 <= number <= high + 1e-9
        assert low - unit/2 - 1e-9 <= value <= high + unit/2 + 1e-9, (row, column)  # what rounding allows is printed so
        if column in ('N', 'Count', 'Fused rank', 'Samples', 'Test set size') or row == 'Data size': assert value == number


@pytest.mark.parametrize('id', MAKERS)
def test_something_is_recomputed_and_every_printed_cell_is_shown(made, id):
    drawn = made[id].drop_nulls('measured')
    assert set(drawn['status']) <= {'simulated'} and (made[id]['status'] == 'simulated').sum() == len(drawn)
    exact = replace(next(e for e in find_exhibits() if e.id == id), status='exact')
    unnamed = id == 'facts/selfpreference'  # the paper does not say how its figure was computed
    assert unnamed and not recomputed(exact, made[id]) or recomputed(exact, made[id])['recomputed']['cells'] > 0
    shown = set(made[id].select('row', 'column').iter_rows())
    known = (pl.col('exhibit') == id) & pl.col('value').is_not_null() & (pl.lit(id) != 'fhsum/fig2')
    there = published_values(paper=id.partition('/')[0]).filter(known)
    assert set(there.select('row', 'column').iter_rows()) <= shown and not made[id].select('row', 'column').is_duplicated().any()


def test_findings_agree_with_the_audit(made):
    failed = run_checks().filter(~pl.col('holds') & pl.col('check').is_in([*DETERMINING_KINDS, 'rate from a count']))
    for id in ('final/fig2', 'fhsum/table2', 'fhsum/table3', 'fhsum/table7'):
        assert finding_cells(made[id]) == set(failed.filter(pl.col('exhibit') == id).select('row', 'column').iter_rows())
    for id in ('oasis/table2', 'oasis/table4', 'final/table6', 'fhsum/table1', 'fhsum/table4'):
        assert failed.filter(pl.col('exhibit') == id).is_empty()


@pytest.mark.parametrize('exhibit, row, column, printed', [
    ('oasis/table2', 'Claim Extraction', 'Avg. Claims per Passage', '8.382'), ('oasis/table2', 'Claim Extraction', 'Claims', '681,301'),
    ('oasis/table4', 'BERTScore', 'Easiness F1', '0.9376'), ('final/table6', 'Subjective span', 'Summaries P (%)', '25.01'),
    ('final/fig2', 'Fabricated', 'Share', '3.6%'), ('final/fig2', 'Missing Explanation', 'Count', '18'),
    ('facts/table2', 'GPT-4o, JSON', 'Accuracy (%)', '80.55'), ('facts/table2', 'GPT-4o, JSON', 'F1− (%)', '51.63'),
    ('facts/table2', 'GPT-4o, JSON', 'FPR (%)', '32.36'),
    ('facts/table4', 'All', 'N', '451'), ('facts/table4', 'GPT-4o, User request only', 'Macro-F1 (%)', '55.17'),
    ('facts/table5', 'GPT-4o', 'Average (%)', '80.0 ± 1.9'), ('facts/table5', 'GPT-4o', 'Open GPT-4o (%)', '71.7 ± 3.2'),
    ('facts/table6', 'GPT-4o', 'Fused rank', '6'),
    ('facts/table6', 'Claude 3.5 Sonnet', 'Open GPT-4o (%)', '73.7 ± 3.0'),
    ('fhsum/table1', 'GPT-4o + CoT', 'FHSumBench F1', '0.4638'), ('fhsum/table1', 'GPT-4o + CoT', 'M-XSum Recall', '0.3866'),
    ('fhsum/table2', 'GPT-4o + Knowledge Retrieval', 'M-XSum F1', '0.3912'), ('fhsum/table3', ABLATION, 'FHSumBench F1', '0.4650'),
    ('fhsum/table4', 'Data size', 'factual hallucination', '502'), ('fhsum/table4', 'Words per summary', 'overall', '28'),
    ('fhsum/table5', 'FHSumBench', 'Test set size', '1336.5'),
    ('fhsum/table6', 'GPT-4o + CoT', 'FHSumBench no hallucination accuracy', '0.7351'),
    ('fhsum/table7', 'Qwen2.5-72B + CoT', 'FHSumBench F1', '0.4999'),
    ('fhsum/fig5', 'Qwen2.5-72B + CoT', 'FHSumBench F1', '0.4999'), ('fhsum/fig2', 'FHSumBench', 'Samples', '1,337'),
    ('fhsum/fig2', 'M-XSum', 'share', '95%'),
])
def test_a_wrong_digit_becomes_a_finding(exhibit, row, column, printed):
    paper = exhibit.partition('/')[0]
    sources = {'fhsum/fig5': ('fhsum/table7', row, column),  # figures whose numbers stand in another exhibit
               'fhsum/fig2': ('fhsum/section3', 'M-XSum', 'non-factual hallucination share')}
    if column == 'Samples': sources['fhsum/fig2'] = ('fhsum/table5', 'FHSumBench', 'Test set size')
    where = sources.get(exhibit, (exhibit, row, column))
    new = finding_cells(MAKERS[exhibit](exhibit, frame=tampered(paper, *where, printed))) - KNOWN.get(exhibit, set())
    assert any(place[0] in (row, 'All', 'Simple Changes', 'Challenging Changes') or exhibit == 'fhsum/table4' for place in new), new


def test_manifest_and_gallery_say_what_holds(made, tmp_path):
    result = write_exhibit('fhsum/fig5', made['fhsum/fig5'], out=tmp_path)
    assert result.manifest['status'] == 'finding' and result.manifest['recomputed']['findings'] == ['Qwen2.5-32B + ICL · FHSumBench F1']
    counts = result.manifest['recomputed']
    assert counts['as_printed'] == counts['cells'] - 1
    words = f'≠ {counts["as_printed"]} of {counts["cells"]} as printed'
    assert words in (tmp_path/'README.md').read_text()
    assert 'n = 860' in write_exhibit('facts/table5', made['facts/table5'], out=tmp_path).table().text
