"""P(True) of injected descriptions against what a judge notices, compared with scikit-learn."""
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from factlab.core.core import DataError
from factlab.mixed_context.labels import FACTUAL, NON_FACTUAL, NONE
from factlab.mixed_context.scores import label_predictions
from factlab.models.interface import Response, ScriptedModel
from factlab.probing.ptrue import ptrue_exact
from factlab.reports.baseline_rows import BASELINE_ROW
from factlab.runs.plan import execute
from factlab.studies.fhsum.noticing import description_questions, judges_noticing, noticing_cells, noticing_plan

GENERATOR = np.random.default_rng(3)
BELIEF = {f'a thing of kind {at}': float(GENERATOR.random()) for at in range(40)}


@pytest.fixture(scope='module')
def rows():
    told = [{'id': str(at), 'label': (FACTUAL, NON_FACTUAL, NONE)[at % 3], 'entity': 'Oslo', 'summary': f'In Oslo, {said}, it rained.',
             'start': 7, 'end': 9 + len(said)} for at, said in enumerate(BELIEF)]
    return pl.DataFrame(told).with_columns(start=pl.when(pl.col('label') != NONE).then('start'))


@pytest.fixture(scope='module')
def judged(rows): return label_predictions(rows, [NONE if GENERATOR.random() < .5 else NON_FACTUAL for _ in range(rows.height)])


def believer():
    def answer(request):
        text = request.messages[-1].content
        p = next(value for said, value in BELIEF.items() if f'{said}\n' in text)
        first = p if 'A: CORRECT' in text else 1 - p
        return Response(finish_reason='choices', choice_logprobs=tuple(np.log([first/2, first/2, (1 - first)/2, (1 - first)/2]).tolist()))
    return ScriptedModel('believer', answer, '1')


def believed(rows): return ptrue_exact(description_questions(rows), believer(), False)


def test_questions_are_of_hallucinated_spans_alone(rows):
    asked = description_questions(rows)
    assert asked['id'].to_list() == rows.filter(pl.col('label') != NONE)['id'].to_list()
    assert asked['answer'][0] == 'a thing of kind 0' and asked['question'][0] == 'What is said of Oslo?'
    assert asked['truth'].to_list() == (asked['category'] == FACTUAL).to_list()


def test_areas_are_those_of_scikit_learn(rows, judged):
    cells = noticing_cells(rows, judged, believed(rows), 'judge')
    asked = description_questions(rows).join(judged.select('id', 'label'), on='id', maintain_order='left')
    score = [BELIEF[said] for said in asked['answer']]
    for column, truth in (('missed', asked['label'] == NONE), ('true', asked['truth'])):
        found = cells.filter(row='judge: P(True)', column=f'AUROC of what is {column}', kind='value')
        assert found['measured'].item() == pytest.approx(roc_auc_score(truth.to_numpy(), score))
        constant = cells.filter((pl.col('row') == f'{BASELINE_ROW}a constant') & (pl.col('column') == f'AUROC of what is {column}'))
        assert constant['measured'].item() == .5 and constant['status'].item() == 'baseline'


def test_what_the_judge_left_unread_is_counted(rows, judged):
    half = judged.with_columns(status=pl.when(pl.col('id').cast(pl.Int64) < 20).then(pl.lit('unparsed')).otherwise('status'))
    cells = noticing_cells(rows, half, believed(rows), 'judge')
    first = cells.filter(pl.col('column') == 'Hallucinated summaries').row(0, named=True)
    lost = rows.filter((pl.col('label') != NONE) & (pl.col('id').cast(pl.Int64) < 20)).height
    assert first['unparsed'] == lost and first['measured'] == description_questions(rows).height


def test_a_judge_that_notices_all_has_no_area(rows):
    cells = noticing_cells(rows, label_predictions(rows, [FACTUAL]*rows.height), believed(rows), 'judge')
    assert not cells.filter(pl.col('column') == 'AUROC of what is missed').height
    assert cells.filter(pl.col('column') == 'AUROC of what is true').height


@pytest.mark.parametrize('noticed', [4, 5])
def test_an_area_needs_five_of_each_kind(rows, noticed):
    hallucinated = [at for at, label in enumerate(rows['label']) if label != NONE]
    said = [FACTUAL if at in hallucinated[:noticed] else NONE for at in range(rows.height)]
    cells = noticing_cells(rows, label_predictions(rows, said), believed(rows), 'judge')
    assert bool(cells.filter(pl.col('column') == 'AUROC of what is missed').height) == (noticed == 5)


@pytest.mark.parametrize('drop', ['entity', 'start', 'end'])
def test_rows_without_spans_are_refused(rows, drop):
    with pytest.raises(DataError, match=drop): description_questions(rows.drop(drop))
    with pytest.raises(DataError, match='no row'): description_questions(rows.with_columns(label=pl.lit(NONE)))


def test_each_way_of_asking_stands_beside_one_probe():
    def said(request):
        if request.choices: return Response(finish_reason='choices', choice_logprobs=(-1., -1., -2., -2.))
        return '{"Faithfulness": false, "Factuality": true}'
    loaded = {'judge': ScriptedModel('judge', said, '1')}
    plan = noticing_plan(model='judge', limit=6, loaded=loaded)
    assert len(plan.steps) == 4 and plan.digest == noticing_plan(**plan.parameters, loaded=loaded).digest
    cells = judges_noticing(plan, execute(plan, store=False))
    assert cells.filter(pl.col('row') == 'judge + CoT', column='Hallucinated summaries')['unparsed'].item() == 0
    assert cells.select('row', 'column', 'kind', 'against').is_unique().all()
