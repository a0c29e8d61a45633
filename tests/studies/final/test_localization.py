"""The cells of FINAL's main table against a computation by hand, on a scripted detector whose faults are known."""
from dataclasses import replace

import polars as pl
import pytest
from sklearn.metrics import f1_score
from studies.final.tables import cells_of, counts_of

from factlab.data.datasets import load_sample
from factlab.localization.matching import match_predictions
from factlab.localization.methods import BINARY, COT, DETECT, PREDICTIONS, ZERO_SHOT
from factlab.localization.rejected_claims import as_clause
from factlab.measures.metrics import matching_counts, matching_scores
from factlab.models.asking import answers_frame
from factlab.models.interface import ScriptedModel
from factlab.reports.baseline_rows import BEST_BASELINE
from factlab.reports.exhibits import FEW
from factlab.runs.plan import Plan, execute
from factlab.studies.final import localization
from factlab.studies.final.consistency import FORCED_KIND, binarized_cells, consistency_cells, consistency_chart, consistency_plan
from factlab.studies.final.example import UNREADABLE, clauses, detector_answer, scripted_parts
from factlab.studies.final.localization import (
    METHOD_SCORES,
    PAPER_CONTRASTS,
    READ_ALONE,
    is_contrast,
    localization_cells,
    score_cells,
    unread_as_missed,
    unread_cells,
    wording_cells,
)
from factlab.studies.final.study import BASELINES, METHODS, Settings, localization_plan, table_entries


@pytest.fixture
def settings(home):
    return Settings(judge='judge', verifier='overlap', limit=6, loaded=scripted_parts())


def by_hand(method: str, leave_out: bool = False) -> tuple[dict[str, float|None], int, int, dict[str, int]]:
    """Recall, precision and F1 of a method that asks for lists; how many summaries were scored, and how many could not be read.
    These find nothing, or are left out. Last, of how many a recall and a precision are shares."""
    tp = predicted = gold = scored = unread = 0
    documents = load_sample().filter(split='test').head(6).to_dicts()
    for document in documents:
        errors = len(document['inconsistencies'])
        flagged = {'self': errors > 1, 'oracle': errors > 0}.get(method.split('_')[0], True)
        if not flagged: found, right = 0, 0
        elif method == 'factscore' or method.endswith('_hint'): found = right = errors
        elif 'cot' in method and document['id'] in UNREADABLE:
            found, right, unread = 0, 0, unread + 1
            if leave_out: continue
        else: found, right = errors + 1, errors
        tp, predicted, gold, scored = tp + right, predicted + found, gold + errors, scored + 1
    sizes = {'Recall': gold, 'Precision': predicted}
    return {'Recall': tp/gold, 'Precision': tp/predicted, 'F1': 2*tp/(predicted + gold)}, scored, unread, sizes


def scores_of(cells: pl.DataFrame) -> dict[tuple[str, str], dict]:  # by method and metric
    return {(cell['method'], cell['metric']): cell for cell in cells.to_dicts() if not cell['against'] and cell['published'] is None}


ASKED = ['zero_shot', 'few_shot', 'cot', 'factscore', 'self_cot', 'self_cot_hint', 'oracle_cot', 'oracle_cot_hint']  # told by the script

def test_the_cells_are_those_by_hand(settings):
    cells = scores_of(cells_of(settings, ['detector'], ASKED))
    for method in ASKED:
        expected, scored, unread, sizes = by_hand(method)
        for metric, value in expected.items():
            cell = cells[METHODS[method], metric]
            assert cell['measured'] == pytest.approx(value), (method, metric)
            assert (cell['n'], cell['unparsed'], cell['status']) == (scored, unread, 'measured') and scored == 6
            if sizes.get(metric, FEW) < FEW: assert cell['low'] is cell['high'] is None
            else: assert cell['low'] - 1e-9 <= value <= cell['high'] + 1e-9
            assert cell['forced'] == (0 if method.startswith('self') else None)
        assert cells[METHODS[method], 'predictions']['measured'] == sizes['Precision']
        expected, scored, unread, _ = by_hand(method, leave_out=True)
        if not unread: continue
        cell = cells[METHODS[method], READ_ALONE]
        assert cell['measured'] == pytest.approx(expected['F1']) and (cell['n'], cell['unparsed']) == (scored, unread)


def test_every_row_of_a_column_stands_on_all_summaries(settings):
    cells = cells_of(settings, ['detector'])
    own = cells.filter(pl.col('n').is_not_null(), model='detector')
    assert set(own.filter(pl.col('metric') != READ_ALONE)['n']) == {6}
    f1 = own.filter(metric='F1', kind='value')
    assert f1.height == len(METHODS) + len(BASELINES)
    assert set(f1.filter(status='baseline')['method']) == set(BASELINES.values())
    assert f1.filter(status='baseline')['row'].to_list() == [f'Baseline: {name}' for name in f1.filter(status='baseline')['method']]


def test_the_reading_that_leaves_out_is_the_score_of_what_was_read(settings):
    cells = cells_of(settings, ['detector'])
    counts = counts_of(settings, 'detector', METHODS | BASELINES)
    read = matching_scores(counts, ['method']).filter(pl.col('unparsed') > 0)
    alone = cells.filter(metric=READ_ALONE)
    shown = alone.filter(kind='value').select('method', 'measured', 'n', 'unparsed')
    assert shown.rows() == read.select('method', pl.col('f1').cast(pl.Float64), 'n', 'unparsed').rows() and read.height
    for method, f1, n, _ in shown.iter_rows():  # the baselines on these very rows, each scored by itself
        ids = counts.filter(pl.col('tp').is_not_null(), method=method)['id'].implode()
        baselines = matching_scores(counts.filter(pl.col('id').is_in(ids), pl.col('method').is_in(list(BASELINES.values()))), ['method'])
        over = alone.filter(method=method, against=BEST_BASELINE).row(0, named=True)
        assert over['measured'] == pytest.approx(f1 - baselines['f1'].max()) and over['n'] == n
    whole = unread_as_missed(counts)
    assert whole['tp'].null_count() == 0 and whole.drop('tp').equals(counts.drop('tp')) and whole['tp'].sum() == counts['tp'].sum()


def f1_of(cells: pl.DataFrame) -> dict[str, float]:
    return dict(cells.filter(model='detector', metric='F1', kind='value').select('method', 'measured').iter_rows())


def test_baselines_are_what_the_judge_says_of_them(settings):
    cells = cells_of(settings, ['detector'])
    f1 = f1_of(cells)
    rows, judge = settings.rows().frame, settings.matcher
    def scored(lists) -> float:
        given = answers_frame(PREDICTIONS, rows, [('ok', '', found) for found in lists], [[]]*rows.height)
        plain = given.select('id', 'predicted')  # as of any tool
        assert match_predictions(rows, plain, judge, False).equals(match_predictions(rows, given, judge, False))
        return matching_scores(matching_counts(match_predictions(rows, given, judge, False)))['f1'][0]
    assert f1['nothing found'] == 0
    claims = [[f'The text does not say that {as_clause(claim)}.' for claim in clauses(summary)] for summary in rows['summary']]
    assert f1['every claim'] == pytest.approx(scored(claims)) and scored(claims) > 0
    assert f1['one vague sentence'] == pytest.approx(scored([['The text is inconsistent.']]*6))
    over = {cell['method']: cell for cell in cells.filter(metric='F1', against=BEST_BASELINE).to_dicts()}
    best = max(f1[name] for name in BASELINES.values())
    assert over.keys() == set(METHODS.values()) and all(cell['status'] == 'measured' for cell in over.values())
    for name, cell in over.items(): assert cell['measured'] == pytest.approx(f1[name] - best) and cell['n'] == 6


def test_one_row_has_a_table_without_contrasts(settings):
    cells = cells_of(replace(settings, limit=1), ['detector'])
    assert cells.filter(metric='F1', status='measured').height and cells.filter(is_contrast()).is_empty()
    assert cells.filter(~is_contrast()).height == cells.height  # what is compared with nothing is shown, too


def test_contrasts_are_differences_of_the_table(settings):
    cells = cells_of(settings, ['detector'])
    f1 = f1_of(cells)
    found = {(cell['method'], cell['against']): cell for cell in cells.filter(is_contrast(), kind='difference').to_dicts()}
    assert list(found) == [(METHODS[first], METHODS[second]) for first, second in PAPER_CONTRASTS]
    for (first, second), cell in found.items():
        assert cell['row'] == f'{first} – {second}' and cell['column'] == 'detector F1 contrast'
        assert cell['measured'] == pytest.approx(f1[first] - f1[second]) and cell['low'] <= cell['measured'] + 1e-9 and cell['n'] == 6
    p = cells.filter(is_contrast(), kind='p')
    assert p.height == len(found) and p['measured'].is_between(0, 1).all()
    fewer = cells_of(settings, ['detector'], ['cot', 'factscore'])
    assert fewer.filter(is_contrast())['row'].unique().to_list() == ['CoT – FactScore']


class Undecided:
    "The scripted detector, which never says whether a summary is consistent; *no* is the likelier word for the first three."
    def __init__(self, parts):
        first = set(load_sample().filter(split='test').head(3)['summary'])
        def answer(request):
            if request.choices: return 'no' if any(summary in request.messages[0].content for summary in first) else 'yes'
            return 'Hard to say.' if request.label == 'final/binary' else detector_answer(load_sample().to_dicts(), request)
        self.parts = parts | {'undecided': ScriptedModel('undecided', answer, revision='1')}


def test_forced_verdicts_are_counted_and_scored_apart(settings):
    parts = Undecided(settings.loaded).parts
    unsure = replace(settings, loaded=parts)
    cells = scores_of(cells_of(unsure, ['undecided'], ASKED))
    assert {cells[METHODS[method], 'F1']['forced'] for method in ('self_cot', 'self_cot_hint')} == {6}
    assert cells['CoT', 'F1']['forced'] is None
    def verdicts(exhibit: str, *models: str, **more):
        plan = consistency_plan(exhibit, models=models, judge='judge', limit=6, loaded=parts, **more)
        return plan, execute(plan, store=False)
    both = consistency_cells(*verdicts('final/table8', 'undecided', 'detector'))
    teacher = both.filter(row='TrueTeacher, development split')  # § C.3
    assert dict(teacher.select('column', 'published').iter_rows()) == {'Precision': .92, 'Recall': .84, 'F1': .88}
    assert teacher.filter(column='F1')['status'].item() == 'exact'
    table8 = {(cell['row'], cell['column'], cell['against']): cell for cell in both.to_dicts()}
    truth = [len(document['inconsistencies']) > 0 for document in load_sample().filter(split='test').head(6).to_dicts()]
    forced = f1_score(truth, [True]*3 + [False]*3)
    said, taken = table8['undecided', 'F1', None], table8['undecided', 'F1, forced', None]
    assert taken['model'] == 'undecided' and taken['method'] == FORCED_KIND
    assert (said['measured'], said['n'], said['unparsed'], said['forced']) == (0, 6, 6, 0)
    assert taken['measured'] == pytest.approx(forced) and (taken['n'], taken['unparsed'], taken['forced']) == (6, 0, 6)
    assert table8['undecided', 'F1, unreadable left out', None]['n'] == 0 and ('detector', 'F1, forced', None) not in table8
    always = f1_score(truth, [True]*6)
    assert table8['Baseline: always inconsistent', 'F1', None]['measured'] == pytest.approx(always)
    assert table8['undecided', 'F1, forced', BEST_BASELINE]['measured'] == pytest.approx(forced - always)
    off = verdicts('final/table8', 'undecided', retry_unparsed=False)
    assert FORCED_KIND not in set(consistency_cells(*off)['method'])
    said = ' '.join(consistency_chart(binarized_cells(*verdicts('final/fig4', 'undecided'))).to_dict()['title']['subtitle'])
    assert 'undecided Binary: 6 unread' in said and 'undecided Binary, forced: 6 taken by likelihood' in said


def test_rows_in_our_wording_are_named(settings, monkeypatch):
    prompts = {name: replace(prompt, source='paper') for name, prompt in (('cot', COT[0]), ('zero_shot', ZERO_SHOT[0]))}
    asked = {'cot': (prompts['cot'],), 'zero_shot': (prompts['zero_shot'],), 'self_cot': (BINARY, prompts['cot']), 'factscore': (DETECT,)*3}
    monkeypatch.setattr(localization, 'asked_prompts', lambda entry: asked[entry.about['key']])
    methods, wording = ['cot', 'zero_shot', 'self_cot', 'factscore'], 'prompts of factlab'
    assert cells_of(settings, ['detector'], methods).filter(metric=wording).is_empty()
    plan = Plan('final/table4', {'prompts': 'paper', 'seed': 0}, table_entries(settings, ['detector'], methods)[0])
    found = wording_cells('final/table4', plan.entries)
    assert localization.localization_cells(plan, execute(plan, store=False)).filter(metric=wording).equals(found)
    assert found.select('row', 'measured').rows() == [('CoT', 0), ('Zero-Shot', 0), ('Self + CoT', 1), ('FactScore', 3)]
    assert set(found['column']) == {'detector prompts of factlab'}


def test_labels_that_name_nothing_have_a_column():
    row = {'model': 'm', 'method': 'CoT', 'value': .2, 'low': .1, 'high': .3, 'n': 38, 'unparsed': 2, 'failed': 1, 'forced': None}
    scores = METHOD_SCORES.frame([row | {'metric': metric, 'invalid': invalid} for metric, invalid in (('Recall', 3), ('F1', 3))])
    cells = score_cells('final/table4', scores)
    assert cells['column'].to_list() == ['m Recall', 'm F1', 'm invalid judge labels'] and cells['measured'].to_list() == [.2, .2, 3]
    assert cells['unparsed'].to_list() == [3, 3, None]
    assert score_cells('final/table4', scores.with_columns(invalid=pl.lit(0, pl.Int64))).height == 2


# ---- facts that could not be read ------------------------------------------------------------------------------------------------------

def test_facts_that_cannot_be_read_are_counted_beside_the_scores(home):
    parts = scripted_parts()

    def mumbles(request):
        said = parts['detector'].answer(request)
        some = len(request.messages[0].content) % 3 == 0
        return 'hard to say' if some and request.label == 'final/detect' and said == 'yes' else said
    parts['mumbles'] = ScriptedModel('mumbles', mumbles, revision='facts')
    plan = localization_plan(models=['mumbles', 'detector'], methods=['factscore'], judge='judge', limit=4, retry_unparsed=False,
                             loaded=parts)
    done = execute(plan, store=False)
    found = {entry.model: done[entry.about['predictions']] for entry in plan.entries if not entry.baseline}
    told = found['mumbles'].filter(pl.col('status') == 'ok')['reason'].str.extract(r'^(\d+) of').cast(pl.Int64).fill_null(0)
    cells = localization_cells(plan, done).filter(metric='facts unread')
    assert cells.select('row', 'column', 'measured').rows() == [('FactScore', 'mumbles facts unread', told.sum())] and told.sum() > 0
    assert unread_cells('final/table4', [entry for entry in plan.entries if entry.model == 'detector'], done).is_empty()
