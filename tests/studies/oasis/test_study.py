"""The study of LLM-OASIS: its tasks, scores against scikit-learn and by hand, cells and figures from scripted judges and parts."""
import json

import numpy as np
import polars as pl
import pytest
from conftest import real_data, with_cache
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving_server import MisbehavingServer, answer
from sklearn.metrics import balanced_accuracy_score

from factlab.core.core import DataError, UsageError
from factlab.data import datasets as data
from factlab.data.corpora import LABELLED, load_oasis_sample
from factlab.models.interface import ScriptedModel
from factlab.reports.baseline_rows import BEST_BASELINE
from factlab.reports.tables import BEST_ROW
from factlab.runs.plan import estimate, execute, manifest
from factlab.studies.base import write_plan
from factlab.studies.oasis.retrieval import recall_plan, study_task
from factlab.studies.oasis.study import (
    SYSTEM_ANSWERS,
    Settings,
    answers_of,
    comparison_plan,
    evidence_step,
    extraction_plan,
    extraction_texts,
    length_plan,
    limited,
    load_tasks,
    pair_tasks,
    pipeline_step,
    retrieval_plan,
    setting_plan,
    step_answers,
    verifier_plan,
)
from factlab.studies.oasis.tables import (
    called_unfactual,
    first_runs,
    length_cells,
    score_answers,
    table_cells,
    verifier_aurocs,
    verifier_cells,
)
from factlab.text.fences import fenced_in


def by_cell(cells: pl.DataFrame) -> dict:
    "By row and column; comparisons with the best row or baseline with their kind and that behind them."
    def key(cell): return cell['row'], cell['column'], *[cell['kind'], cell['against']]*(cell['against'] in (BEST_ROW, BEST_BASELINE))
    return {key(cell): cell for cell in cells.iter_rows(named=True) if cell['measured'] is not None}


def answers(predicted, factual=None, system='a', run=0, group=2, forced=()) -> pl.DataFrame:
    factual = factual or [i % 2 == 0 for i in range(len(predicted))]
    return SYSTEM_ANSWERS.frame(
        {
            'system': [system] * len(predicted),
            'run': [run] * len(predicted),
            'id': [f't{i}' for i in range(len(predicted))],
            'group': [f'g{i // group}' for i in range(len(predicted))],
            'factual': factual,
            'predicted': predicted,
            'forced': [i in forced for i in range(len(predicted))],
        }
    )


# ---- tasks ------------------------------------------------------------------------------------------------------------------------

def test_the_sample_gives_two_texts_and_two_claims_of_every_page():
    sample, tasks = load_oasis_sample(), load_tasks('sample')
    assert (
        tasks.texts.height == tasks.claims.height == 2 * sample.height
        and tasks.texts['factual'].mean() == tasks.claims['factual'].mean() == 0.5
    )
    assert set(tasks.texts['text']) == set(sample['factual']) | set(sample['unfactual'])
    right = tasks.claims.filter('factual').join(sample, left_on='group', right_on='id')
    assert (right['text'] == right.select(pl.col('claims').list.get(pl.col('altered'))).to_series()).all() and (
        right['evidence'] == right['factual_right']
    ).all()
    assert not set(tasks.passages['text']) & set(tasks.texts['text'])  # a text is never evidence for itself
    assert set(sample['passage']) <= set(tasks.passages['text'])


def pairs(*rows) -> pl.DataFrame:
    return LABELLED.frame(
        [
            {
                'id': f'p{i}',
                'split': 'test',
                'claim': claim,
                'evidence': evidence,
                'label': label,
                'group': claim,
                'source': 'mine',
                'supported': None if label is None else label == 'ENT',
                'label_original': label,
            }
            for i, (claim, evidence, label) in enumerate(rows)
        ]
    )


def test_claims_with_evidence_become_texts_when_their_evidence_agrees():
    tasks = pair_tasks(
        pairs(('a', 'x', 'ENT'), ('a', 'y', 'NEUT'), ('b', 'x', 'CONTR'), ('c', 'x', 'ENT'), ('c', 'z', 'CONTR'), ('d', 'w', 'NEUT'))
    )
    assert dict(tasks.texts.select('text', 'factual').iter_rows()) == {'a': True, 'b': False}
    assert tasks.claims.height == 4 and tasks.passages['text'].to_list() == ['x', 'y', 'z', 'w']
    tasks = pair_tasks(pairs(('a', 'x', 'ENT'), ('b', 'y', 'NEUT')))  # nothing is contradicted: supported against not
    assert dict(tasks.texts.select('text', 'factual').iter_rows()) == {'a': True, 'b': False}


def test_of_wice_the_half_that_trained_nothing():
    real_data('wice')
    tasks, rows = load_tasks('wice'), data.load('wice')
    trained = set(rows.filter(split='dev')['group'])
    assert tasks.split == 'test' and set(tasks.texts['split']) == set(tasks.claims['split']) == {'test'}
    assert (
        tasks.texts.height == rows.filter(split='test')['group'].n_unique()
        and not trained & set(tasks.claims['group'])
        and not trained & set(tasks.texts['group'])
    )
    assert study_task('wice', 5).split == 'test' and set(study_task('wice').claims['split']) == {'test'}


def test_of_a_file_the_rows_that_train_nothing(tmp_path):
    sample = load_oasis_sample()
    sample.write_parquet(tmp_path/'oasis.parquet')
    asked = set(sample.filter(pl.col('split') != 'train')['id'])
    for place in (tmp_path/'oasis.parquet', tmp_path):  # a file, and the folder of a build
        tasks, task = load_tasks(str(place)), study_task(str(place))
        assert set(tasks.texts['group']) == set(tasks.claims['group']) == asked and tasks.split == task.split == 'test, validation'
        assert set(task.claims['split']) == {'test', 'validation'} and set(tasks.references['id']) == set(tasks.texts['id'])
        assert (
            set(tasks.passages['text']) == set(task.passages['text']) == set(load_tasks('sample').passages['text'])
        )  # the corpus is whole
        assert extraction_texts(str(place))[0]['id'].to_list() == sample.filter(pl.col('id').is_in(asked))['id'].to_list()
    sample.filter(split='train').write_parquet(tmp_path/'train.parquet')
    tasks = load_tasks(str(tmp_path/'train.parquet'))
    assert tasks.texts.height == 2*sample.filter(split='train').height and tasks.split == 'train: there is no other'


def test_data_with_one_passage_a_page_say_so_in_tables_and_recalls(tmp_path):
    from factlab.building.training_views import NO_NEIGHBOURS
    alone = load_oasis_sample().head(6).with_columns(page_passages=pl.lit([], pl.List(pl.String)))
    alone.write_parquet(tmp_path/'alone.parquet')
    for place, said in ((str(tmp_path/'alone.parquet'), True), ('sample', False)):
        assert (NO_NEIGHBOURS in setting_plan(data=place, limit=2).notes) is said
        assert (NO_NEIGHBOURS in recall_plan(data=place, encoders=['bm25']).notes) is said


def test_what_texts_state():
    "The claims of a factual text, and of its counterpart, by a loop over rows."
    tasks = load_tasks('sample')
    expected = [claims for row in load_oasis_sample().iter_rows(named=True) for claims in (
        row['claims'], [row['falsified'] if at == row['altered'] else claim for at, claim in enumerate(row['claims'])])]
    assert tasks.references['claims'].to_list() == expected and tasks.references['id'].equals(tasks.texts['id'])


def test_data_of_no_known_shape(tmp_path):
    with pytest.raises(UsageError, match='wice, dialfact, oasis-e2e, oasis-verification, a file'): load_tasks('no-such-set')
    with pytest.raises(UsageError, match='take sample, oasis, factscore, a file'): extraction_texts('wice')
    for wrong in ({'k': 0}, {'seed': -1}, {'limit': True}, {'limit': 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))): Settings(**wrong)


@given(st.integers(1, 12))
def test_a_limit_keeps_twins_together(limit):
    rows = pl.DataFrame({'id': range(8), 'group': [i//2 for i in range(8)]})
    kept = limited(rows, limit)
    assert 1 <= kept.height <= min(limit, 8)
    if limit > 1: assert kept['group'].value_counts()['count'].to_list() == [2]*(kept.height//2)


# ---- scores -----------------------------------------------------------------------------------------------------------------------

@given(st.lists(st.tuples(st.booleans(), st.sampled_from([True, False, None])), min_size=4, max_size=40))
@settings(deadline=None)
def test_balanced_accuracy_is_that_of_scikit_learn(rows):
    truth, said = zip(*rows, strict=True)
    score = score_answers(answers(list(said), list(truth)))
    read = [(t, s) for t, s in rows if s is not None]
    assert score.unparsed == len(rows) - len(read) and score.n == len(read)
    if len({t for t, _ in read}) < 2: assert score.value is None
    else:
        assert score.value == pytest.approx(100*balanced_accuracy_score(*zip(*read, strict=True)))
        if score.low is not None: assert score.low <= score.value + 1e-9 and score.value <= score.high + 1e-9


def test_runs_are_averaged_and_their_deviation_is_the_sample_deviation():
    rng = np.random.default_rng(1)
    runs = [answers((rng.random(40) < .6).tolist(), run=run) for run in range(5)]
    each = [100*balanced_accuracy_score(part['factual'], part['predicted']) for part in runs]
    score = score_answers(pl.concat(runs))
    assert score.value == pytest.approx(np.mean(each)) and score.deviation == pytest.approx(np.std(each, ddof=1)) and score.n == 40
    assert score_answers(runs[0]).deviation is None


def test_what_was_read_is_counted_in_texts():
    "A text that was read in one of two runs was read; one that was read in neither is counted once."
    runs = pl.concat([answers([True, None, None, False]), answers([True, False, None, None], run=1)])
    assert score_answers(runs)[-3:] == (3, 1, 0)


def test_pages_are_resampled_whole():
    "Twins that stand or fall together leave half as many independent examples: the interval is wider than that of single texts."
    said = [bool(i % 4 < 2) == (i % 2 == 0) for i in range(400)]  # a page's texts are both right or both wrong
    whole, single = score_answers(answers(said)), score_answers(answers(said, group=1))
    assert whole.high - whole.low > 1.2*(single.high - single.low)


# ---- scripted judges and parts ----------------------------------------------------------------------------------------------------

@pytest.fixture
def models(monkeypatch, tmp_path):
    "A judge that knows the sample's unfactual texts and false claims, and one that says Factual to everything."
    with_cache(tmp_path/'home')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    sample = load_oasis_sample()
    wrong = [*sample['unfactual'], *sample['falsified']]
    def knows(request):
        item = fenced_in(request.messages[-1].content, 'text' if '<text>' in request.messages[-1].content else 'claim')
        return 'LABEL: Not Factual' if item in wrong else 'LABEL: Factual'
    there = {'knower': ScriptedModel('knower', knows, revision='1'), 'yes': ScriptedModel('yes', lambda request: 'Factual', revision='1')}
    return there


def cells_of(plan, cells) -> dict: return by_cell(cells(plan, execute(plan)))


def test_tables_5_and_7_of_judges_that_are_known(models):
    for exhibit in ('oasis/table5', 'oasis/table7'):
        cells = cells_of(setting_plan(exhibit, models=['knower', 'yes'], runs=2, limit=20, loaded=models), table_cells)
        for setting in ('ZS', 'ZS+EX', 'FS', 'FS+EX'):
            knower, yes = (cells[model, f'{setting} (%)'] for model in ('knower', 'yes'))
            assert (knower['measured'], yes['measured'], yes['n']) == (100, 50, 20)
            # greedy and without examples the runs are one run: a deviation of 0 would say nothing
            assert ('yes', f'±{setting} (%)') not in cells if 'FS' not in setting else cells['yes', f'±{setting} (%)']['measured'] == 0
            assert cells['yes', f'{setting} (%)', 'difference', BEST_ROW]['measured'] == -50
            assert cells['yes', f'{setting} (%)', 'p', BEST_ROW]['measured'] < .01
        asked = {request.messages for request in models['yes'].asked}
        assert len(asked) == len(models['yes'].asked)  # no question twice, although two runs were counted
        for model in models.values(): model.asked.clear()


def test_deviations_where_the_runs_can_differ(models):
    plan = setting_plan(models=['yes'], runs=2, limit=4, temperature=.7, loaded=models)
    cells = cells_of(plan, table_cells)
    assert all(cells['yes', f'±{setting} (%)']['measured'] == 0 for setting in ('ZS', 'ZS+EX', 'FS', 'FS+EX'))


class Parts:
    "A verifier that refutes what the sample falsified."
    name, identity = 'script', {'script': 1}

    def __init__(self): self.wrong = set(load_oasis_sample()['falsified'])

    def probabilities(self, pairs, store=None):
        return np.array([[.1, .1, .8] if claim in self.wrong else [.8, .1, .1] for _, claim in pairs], np.float32)


class Agreeing(Parts):
    name, identity = 'agreeing', {'script': 2}

    def probabilities(self, pairs, store=None): return np.tile(np.array([.8, .1, .1], np.float32), (len(pairs), 1))


def test_the_verifier_alone(models):
    verifiers = {name: Parts() for name in ('mpnet', 'cosine')}
    plan = verifier_plan(verifiers=list(verifiers), limit=30, loaded=verifiers)
    done = execute(plan)
    cells = by_cell(verifier_cells(plan, done))
    for name in verifiers:
        score = cells[f'Verifier ({name})', 'B-Accuracy (%)']
        assert score['measured'] == 100 and score['n'] == 30
    assert ('Verifier (mpnet)', 'B-Accuracy (%)', 'difference', BEST_BASELINE) in cells
    assert ('Baseline: claim words', 'B-Accuracy (%)') in cells
    assert answers_of(plan.entries[0], done)['predicted'].to_list() == [True, False]*15
    assert verifier_aurocs(plan, done).select('verifier', 'auroc').rows() == [('mpnet', 1), ('cosine', 1)]
    assert manifest(plan, done)['methods']['claims by script']['verifier'] == {'script': 1}


def test_a_manifest_tells_parts_with_their_weights(models):
    plan = comparison_plan(models=['yes'], limit=2, loaded=models)
    specs = {step.method.name: step.spec['method']['fields'] for step in plan.steps}
    assert len(specs['texts by mpnet']['verifier']['adapter']) == 64
    assert len(specs['evidence']['corpus']['retriever']['adapter']) == 64
    assert len(specs['claims by tiny']['extractor']['model']['adapter']) == 64


def test_judges_with_evidence_and_the_pipeline(models):
    "The whole chain on the sample with the plain splitter, the untrained encoder and a verifier that refutes nothing."
    given = dict(limit=4, k=3, extractor='sentences', retriever='tiny', verifier='agreeing', loaded=models | {'agreeing': Agreeing()})
    plan = retrieval_plan(models=['knower', 'yes'], runs=1, **given)
    done = execute(plan)
    found = done[evidence_step(Settings(**given))]
    assert found['evidence'].list.len().to_list() == [3]*4 and all(len(set(e)) == 3 for e in found['evidence'])
    passages = load_tasks('sample').passages
    assert set(found['evidence'].explode()) <= set(passages['text']) and set(found['passages'].explode()) <= set(passages['id'])
    assert called_unfactual(plan, done)['called'].to_list() == [0, 0, 0]
    cells = by_cell(table_cells(plan, done))
    assert cells['Pipeline', 'RAG (%)']['measured'] == cells['Pipeline, reference claims', 'RAG (%)']['measured'] == 50
    assert cells['knower', 'RAG (%)']['measured'] == cells['knower', 'ZS (%)']['measured'] == 100
    rag = [request for request in models['knower'].asked if 'Evidence:' in request.messages[-1].content]
    assert len(rag) == 4 and all(passage in rag[0].messages[-1].content for passage in found['evidence'][0])
    assert ('Pipeline, reference claims', 'RAG (%)', 'difference', BEST_ROW) not in cells
    figure = comparison_plan(models=['yes'], **given)
    only, baselines = first_runs(figure, execute(figure))
    assert only['system'].unique(maintain_order=True).to_list() == ['yes · RAG', 'Pipeline'] and 'cosine' in baselines


def test_a_pipeline_that_is_told_the_claims(models, tmp_path):
    "With a verifier that knows which claims are false, only claims that were not extracted can go wrong."
    load_oasis_sample().head(3).with_columns(split=pl.lit('test')).write_parquet(tmp_path/'three.parquet')
    chosen = Settings(str(tmp_path/'three.parquet'), k=1, extractor='sentences', retriever='tiny', verifier='script',
                      loaded={'script': Parts()})
    steps = [pipeline_step(chosen, reference) for reference in (True, False)]
    done = execute(*steps)
    assert step_answers(steps[0], done, 'told')['predicted'].to_list() == [True, False]*3
    assert step_answers(steps[1], done, 'own')['predicted'].to_list() == [True]*6  # no sentence of the texts is worded as a claim


def test_figure_5_cuts_the_whole_input_at_each_length(models):
    "As § 7.1: instructions, text, separator and evidence together."
    given = dict(limit=4, k=3, extractor='sentences', retriever='tiny', loaded=models)
    plan = length_plan(models=['yes'], lengths=[220, 180], **given)
    cells, curves = length_cells(plan, execute(plan))
    columns = [column for row, column, *against in by_cell(cells) if row == 'yes' and not against]
    assert columns == ['At 180 tokens (%)', 'At 220 tokens (%)']
    best = max(cell['measured'] for cell in by_cell(cells).values() if cell['status'] == 'baseline')
    assert curves['x'].to_list() == [180, 220]*2 and curves['series'].n_unique() == 2 and curves['measured'].to_list()[2:] == [best]*2
    known = curves.drop_nulls('low')
    assert (known['low'] <= known['measured']).all() and (known['measured'] <= known['high']).all()
    sent, texts = models['yes'].asked, plan.entries[0].step.rows.frame['text'].to_list()
    sizes = models['yes'].count_tokens(sent)
    assert len(sent) == 8 and sum(size <= 180 for size in sizes) == 4 and max(sizes) == 220
    assert {fenced_in(request.messages[-1].content, 'text') for request in sent} == {*texts}  # the evidence goes first
    short, long = (sorted(fenced_in(request.messages[-1].content, 'evidence') for request, size in zip(sent, sizes, strict=True)
                          if (size <= 180) == cut) for cut in (True, False))
    assert all(any(whole.startswith(part) for whole in long) for part in short) and max(map(len, short)) > 0
    plan = length_plan(models=['yes'], lengths=[20], **given)
    with pytest.raises(UsageError, match='instructions alone take'): execute(plan)
    with pytest.raises(UsageError, match='lengths'): length_plan(models=['yes'], lengths=[0], **given)


# ---- plans ------------------------------------------------------------------------------------------------------------------------

PLANS = {
    'oasis/table4': lambda **given: extraction_plan(limit=2, **given), 'oasis/table5': lambda **given: setting_plan(limit=2, **given),
    'oasis/table6': lambda **given: retrieval_plan(limit=2, **given), 'oasis/table8': lambda **given: verifier_plan(limit=2, **given),
    'oasis/fig3': lambda **given: comparison_plan(limit=2, **given), 'oasis/fig5': lambda **given: length_plan(limit=2, **given)}


@pytest.mark.parametrize('exhibit', PLANS)
def test_a_plan_is_made_again_from_its_parameters_and_loads_no_weights(exhibit, monkeypatch):
    from factlab.reports.exhibits import find_exhibits
    def no(*_, **__): raise AssertionError('weights are loaded')
    for place in ('factlab.models.encoder._loaded', 'factlab.verification.nli.load_adapted'): monkeypatch.setattr(place, no)
    plan = PLANS[exhibit]()
    again = find_exhibits([exhibit])[0].plan(**json.loads(json.dumps(plan.parameters)))
    assert again.digest == plan.digest and again.parameters == plan.parameters
    estimate(plan)


@pytest.mark.parametrize('exhibit, wrong', [
    ('oasis/table5', {'models': []}), ('oasis/table5', {'runs': 0}), ('oasis/table6', {'retriever': 'nothing'}),
    ('oasis/table6', {'extractor': 'nothing'}), ('oasis/table6', {'verifier': 'nothing'}), ('oasis/table6', {'corpus': 'nowhere.csv'}),
    ('oasis/table8', {'verifiers': []}), ('oasis/table8', {'verifiers': ['nothing']}), ('oasis/table4', {'extractors': ['nothing']}),
    ('oasis/table4', {'encoder': 'nothing?x=1'}), ('oasis/table5', {'data': 'final'}), ('oasis/fig3', {'data': 'wice', 'k': 0})])
def test_what_a_plan_refuses(exhibit, wrong):
    with pytest.raises((UsageError, DataError)): PLANS[exhibit](**wrong)


def test_an_estimate_is_what_is_then_sent(models):
    "Judges without and with evidence, two runs; claims by a model that is asked: as many calls, or a bound where its claims decide."
    def reply(call): return answer('1. Owls hunt.' if 'claims' in call.prompt.lower() else 'Factual')
    with MisbehavingServer(reply) as server:
        name = f'openai:m?base_url={server.url}/v1'
        plan = retrieval_plan(models=[name], runs=2, limit=4, k=2, extractor='sentences', retriever='tiny', verifier='agreeing',
                              loaded={'agreeing': Agreeing()})
        counted = dict(estimate(plan).select('label', 'calls').iter_rows())
        assert not server.calls and counted == {'oasis/text_zs': 4, 'oasis/rag_zs': 4}
        execute(plan)
        assert len(server.calls) == 8 and estimate(plan)['in_store'].sum() == 8
        asked = retrieval_plan(models=[name], runs=1, limit=2, k=2, extractor=f'prompt:{name}', retriever='tiny', verifier='agreeing',
                               loaded={'agreeing': Agreeing()})
        counted = estimate(asked)
        before, expected = len(server.calls), counted['calls'].sum()
        execute(asked)
        assert len(server.calls) - before == expected > 2


# ---- writing ----------------------------------------------------------------------------------------------------------------------

def test_the_manifest_says_what_the_numbers_rest_on(models, tmp_path):
    load_oasis_sample().head(3).with_columns(split=pl.lit('test')).write_parquet(tmp_path/'three.parquet')
    plan = setting_plan(models=['yes'], data=str(tmp_path/'three.parquet'), runs=1, limit=4, loaded=models)
    done = execute(plan)
    result = write_plan(plan, done, table_cells(plan, done), out=tmp_path)
    written = json.loads((tmp_path/'oasis'/'table5.three.json').read_text())
    assert written['data']['texts']['rows'] == 4 and written['parameters']['runs'] == 1 and written['notes'] == ['asked about: test']
    assert 'oasis/text_fs@2' in result.manifest['prompts'] and str(tmp_path) not in json.dumps(written)
