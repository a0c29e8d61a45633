"""FHSumBench's case study from frames of predictions: causes, corrections, coverage, and one example."""
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from factlab.core.core import DataError, UsageError
from factlab.mixed_context.fitted import KnownNames, first_difference
from factlab.mixed_context.knowledge import KNOWLEDGE
from factlab.mixed_context.labels import FACTUAL, LABELS, NON_FACTUAL, NONE, UNNAMED
from factlab.models.interface import ScriptedModel
from factlab.reports.baseline_rows import BASELINE_ROW, BEST_BASELINE
from factlab.reports.exhibits import make_cells
from factlab.reports.published import published_values
from factlab.runs.plan import execute
from factlab.studies.fhsum.cases import (
    CAUSES,
    CORRECTED,
    case_cells,
    case_plan,
    case_text,
    chance_causes,
    corrected,
    correction_cells,
    error_causes,
    error_cells,
    example_of,
    example_plan,
    judged,
    table8_cells,
)

BASE = KNOWLEDGE.frame([{'entity': 'Danube', 'aliases': [], 'description': 'a river of Europe', 'text': None}])
ANSWERS = (*LABELS, UNNAMED, None)


def frame(labels: list, name: str = 'label') -> pl.DataFrame:
    return pl.DataFrame({'id': [f'r{at}' for at in range(len(labels))], name: labels}, schema={'id': pl.String, name: pl.String})


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(ANSWERS), st.sampled_from(ANSWERS)), max_size=25))
@settings(max_examples=100, deadline=None)
def test_shares_are_those_of_a_count_by_hand(three):
    rows, judge, other = (frame([each[at] for each in three]) for at in range(3))
    causes = error_causes(rows, judge)
    errors = [said for label, said, _ in three if said != label]
    kinds = Counter('Judged no hallucination' if said == NONE else 'Judged non-factual hallucination' if said == NON_FACTUAL
                    else 'Another answer or none' for said in errors)
    assert [cell['measured'] for cell in causes] == [kinds[cause]/len(errors) if errors else None for cause in CAUSES]
    wrong = [(label, after) for label, said, after in three if said == NONE != label]
    fixed = sum(label == after for label, after in wrong)
    cell = corrected(rows, judge, other)
    assert (cell['measured'], cell['n']) == (fixed/len(wrong) if wrong else None, len(wrong))
    if wrong: assert (cell['low'], cell['high']) == pytest.approx(proportion_confint(fixed, len(wrong), method='wilson'))


def test_the_papers_shares_are_counts_of_its_thirty_errors():
    "§ 6: 63.3 %, 30 % and 6.7 % of 30 errors are 19, 9 and 2; 47.3 % and 57.9 % of 19 are 9 and 11."
    rows = frame([FACTUAL]*30)
    judge = frame([NONE]*19 + [NON_FACTUAL]*9 + [None]*2)
    shares = [round(100*cell['measured'], 1) for cell in error_causes(rows, judge)]
    assert shares == [63.3, 30.0, 6.7]
    found = [corrected(rows, judge, frame([FACTUAL]*fixed + [NONE]*(30 - fixed)))['measured'] for fixed in (9, 11)]
    printed = published_values('fhsum/section6').filter(column=CORRECTED)['value'].to_list()
    assert found == pytest.approx(printed, abs=.001)


@pytest.mark.parametrize('counts', [(5, 5, 5), (9, 3, 0), (1, 0, 0)])
def test_chance_is_what_many_random_judges_give(counts):
    labels = np.repeat(LABELS, counts)
    said = np.random.default_rng(0).choice(LABELS, (20_000, len(labels)))
    wrong = said != labels
    expected = {cell['column']: cell['measured'] for cell in chance_causes(frame(labels.tolist()))}
    for cause, label in CAUSES.items():
        hits = (said == (label or FACTUAL)) & wrong
        assert hits.sum()/wrong.sum() == pytest.approx(expected[cause], abs=.01)
    assert expected[CORRECTED] == 1/3


def test_names_that_are_known_are_counted():
    rows = pl.DataFrame({'id': ['a', 'b', 'c'], 'summary': ['The Danube flows through Hungary.', 'The Danube is long.', 'Nothing here.']})
    assert KnownNames(BASE).predict(rows, store=False).rows() == [('a', 2, 1), ('b', 1, 1), ('c', 0, 0)]
    assert KnownNames(KNOWLEDGE.frame()).predict(rows, store=False)['known'].sum() == 0


def test_rows_and_predictions_must_match():
    with pytest.raises(DataError, match='no label'): judged(frame([None]), frame([NONE]))
    with pytest.raises(DataError, match='no prediction'): judged(frame([NONE, NONE]), frame([NONE]))


def test_errors_stand_beside_chance():
    rows = frame([FACTUAL, NON_FACTUAL, NONE]).with_columns(summary=pl.lit('The Danube is long.'))
    judge, other = frame([NONE, NONE, NONE]), frame([FACTUAL, None, NONE])
    cells = make_cells('fhsum/casestudy', error_cells(rows, {'judge': judge, 'other': other}, {}))
    own = cells.filter(status='measured')
    found = {(row, column): value for row, column, value in own.filter(kind='value').select('row', 'column', 'measured').iter_rows()}
    assert found['Errors of judge', 'Judged no hallucination'] == 1 and found['other', CORRECTED] == .5
    trivial = dict(cells.filter(status='baseline', column=CORRECTED).select('row', 'measured').iter_rows())
    assert trivial == {f'{BASELINE_ROW}random label': 1/3, f'{BASELINE_ROW}always {FACTUAL}': .5, f'{BASELINE_ROW}always {NON_FACTUAL}': .5}
    assert own.filter(row='other', against=BEST_BASELINE)['measured'].item() == 0  # a constant corrects as much
    assert cells.filter(row='other')['unparsed'].to_list() == [1, None]


@pytest.mark.parametrize('models', [[], ['m']])
def test_the_case_study_holds_the_papers_numbers_and_ours(models):
    loaded = {'m': ScriptedModel('m', lambda request: '{"Faithfulness": true, "Factuality": true}', '1')}
    plan = case_plan(models=models, limit=6, loaded=loaded)
    cells = case_cells(plan, execute(plan, store=False))
    printed = {cell['column']: cell['published'] for cell in cells.filter(status='published').to_dicts()}
    assert printed['Judged no hallucination'] == .633 and printed[CORRECTED] == .579 and printed['M-XSum entities found'] == .45
    judge = 'CoT' if models else 'Verifier on whole sentences'
    assert cells.filter(row=f'Errors of {judge}').height == len(CAUSES) and set(cells['status']) == {'published', 'measured', 'baseline'}
    assert cells.filter(row='Knowledge base at hand', column='sample entities found')['n'].item() > 0


def test_a_correction_counts_over_the_best_baseline_on_the_same_rows():
    rows = frame([FACTUAL]*30 + [NON_FACTUAL]*10 + [NONE]*10)
    good, baseline = frame(rows['label'].to_list()), frame([NON_FACTUAL]*50)
    cells = {(cell['row'], cell.get('against')): cell for cell in correction_cells(rows, frame([NONE]*50), {'good': good},
                                                                                   {'baseline': baseline})}
    over = cells['good', BEST_BASELINE]
    assert over['measured'] == pytest.approx(1 - .75) and over['n'] == 40 and 0 < over['low'] < .25 < over['high']  # always factual has .75
    assert cells[f'{BASELINE_ROW}baseline', None]['measured'] == .25
    assert correction_cells(rows, good, {'good': good}, {})[0]['measured'] is None  # a judge without such errors


def test_the_example_is_the_first_on_which_methods_differ_whoever_is_right():
    rows = frame([FACTUAL, NONE, NONE]).with_columns(document=pl.lit('d'), summary=pl.lit('s'))
    one = frame([NONE, NONE, NONE])
    def shown(other, rows=rows): return first_difference(rows.reverse(), one=one, other=frame(other))['id'].item()
    assert shown([NONE, None, FACTUAL]) == 'r1' and shown([NONE, NONE, FACTUAL]) == 'r2' and shown([NONE]*3) == 'r0'
    assert shown([NONE, None, FACTUAL], rows.with_columns(label=pl.lit(NON_FACTUAL))) == 'r1'


def test_one_summary_through_every_method():
    with pytest.raises(DataError, match='no row of sample'): example_plan(split='train')
    with pytest.raises(UsageError, match='models is empty'): example_plan(models=[])
    model = ScriptedModel('m', lambda request: 'I do not know.', '1')
    plan = example_plan(models='m', loaded={'m': model})
    case, answers = example_of(plan, execute(plan, store=False))
    text, cells = case_text(case, answers), table8_cells(case, answers)
    asked = ['Vanilla Judge', 'ICL', 'CoT', 'Knowledge Retrieval', 'Concurrent Retrieval', 'Reflection Retrieval']
    assert list(answers) == [*asked, 'Concurrent Retrieval (verifier)', 'Reflection Retrieval (verifier)'] and case.height == 1
    assert 'I do not know.' in text and all(f'{name}: unparsed' in text for name in asked)
    right = cells.filter(pl.col('row').is_in(asked), column='Right')
    assert right['measured'].to_list() == [0]*6 and right['unparsed'].to_list() == [1]*6
    offline = {answers[f'{kind} Retrieval (verifier)'][0]['label'] for kind in ('Concurrent', 'Reflection')}
    assert len(offline) == 2  # the example is one on which they differ
    assert cells.filter(pl.col('row').is_in(asked), column='Faithfulness')['measured'].null_count() == 6
    assert set(cells.filter(column='Claims')['row']) == {*asked[-2:], *list(answers)[-2:]}
