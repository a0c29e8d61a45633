"""Baselines of LLM-OASIS' tables: no page answers for itself, forced answers are counted, differences are those of the scores."""
import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from conftest import with_cache
from constant import Always
from sklearn.metrics import balanced_accuracy_score

from factlab.core.core import DataError, UsageError
from factlab.measures.comparison import mcnemar
from factlab.models.interface import Response, ScriptedModel
from factlab.reports.baseline_rows import BEST_BASELINE
from factlab.reports.exhibits import find_exhibits, headline
from factlab.retrieval import methods as retrieval_methods
from factlab.runs.plan import Rows, execute
from factlab.studies.oasis.baselines import READ_ONLY, answer_counts, baseline_cells, compared_answers, compared_where_read, read_only
from factlab.studies.oasis.retrieval import (
    claim_pages,
    is_baseline,
    recall_cells,
    recall_plan,
    study_task,
    system_name,
    system_recalls,
    with_distractors,
)
from factlab.studies.oasis.study import (
    BASELINES,
    TOLD,
    Settings,
    answers_of,
    baseline_entries,
    baseline_steps,
    comparison_plan,
    judge_entry,
    length_plan,
    retrieval_plan,
    setting_plan,
    step_answers,
    system_answers,
)
from factlab.studies.oasis.tables import PARTS, described_baselines, length_cells, pair_cells, prediction_cells, score_answers, table_cells
from factlab.text.fences import fenced_in
from factlab.verification.methods import answers_by_words, missing_words, word_overlap


@pytest.fixture
def home(monkeypatch, tmp_path):
    with_cache(tmp_path/'home')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))


@pytest.fixture
def texts(home) -> pl.DataFrame: return Settings(limit=40).rows('text').frame


def baseline_answers(settings, task) -> dict[str, pl.DataFrame]:
    steps = baseline_steps(settings, task)
    done = execute(*steps.values())
    return {name: step_answers(step, done, name) for name, step in steps.items()}


@pytest.fixture
def baselines(home) -> dict[str, pl.DataFrame]: return baseline_answers(Settings(limit=40), 'text')


# ---- baselines -----------------------------------------------------------------------------------------------------------------------

def test_a_page_does_not_answer_for_itself():
    "Turning all labels of a page changes nothing that is said of it."
    texts = [f'word{at % 7} word{at % 5} other' for at in range(40)]
    truth, pages = [at % 3 == 0 for at in range(40)], [f'p{at//2}' for at in range(40)]
    before = answers_by_words(texts, truth, pages)
    turned = [not label if page == 'p4' else label for label, page in zip(truth, pages, strict=True)]
    assert (answers_by_words(texts, turned, pages)[8:10] == before[8:10]).all()
    assert answers_by_words(['', ' '], [True, False], ['a', 'b']).tolist() == [False, True]  # no words at all: the other page's label


def test_words_by_hand():
    "Burned and burns have one stem, and a word that carries no meaning is not counted."
    both = pl.DataFrame({'text': ['A b, a!', '', 'x', 'The mill burned in 1913.'], 'evidence': ['b c', 'b', 'X', 'A mill burns.']})
    assert word_overlap(both).tolist() == [.5, 0, 1, .2] and missing_words(both).tolist() == [0, 0, 0, -1]


def test_baselines_of_each_task(texts, baselines):
    assert list(baselines) == ['majority', 'length', 'text words']
    for name, part in baselines.items():
        assert part['id'].equals(texts['id']) and part['system'][0] == name and not part['forced'].any()
    plan = setting_plan(models=['yes'], limit=40, loaded={'yes': ScriptedModel('yes', lambda request: 'Factual', revision='1')})
    assert set(described_baselines(plan)) == {'chance', *baselines} <= set(BASELINES)
    entries = baseline_entries(Settings(limit=40), 'RAG', 'rag', told=True)
    assert [entry.method for entry in entries] == ['majority', 'length', 'text words', 'evidence words', 'word overlap', 'cosine', TOLD]


def test_the_pipeline_that_is_told_the_claims_has_a_baseline_that_is_told_them(home, monkeypatch):
    "A baseline that knows the answer from the claims is the best one for that pipeline, and for no other system."
    def supports(value):
        def predict(self, rows, model, store=None, **given): return rows.select('id', support=value.cast(pl.Float64))
        return predict
    monkeypatch.setattr(retrieval_methods.WordSupport, 'predict', supports(pl.col('factual')))
    monkeypatch.setattr(retrieval_methods.LeastSupport, 'predict', supports(pl.lit(0)))
    loaded = {'agreeing': Always('agreeing', .8, .1, .1), 'yes': ScriptedModel('yes', lambda request: 'Factual', revision='1')}
    plan = retrieval_plan(models=['yes'], runs=2, limit=20, k=2, extractor='sentences', retriever='tiny', verifier='agreeing',
                          loaded=loaded)
    every = table_cells(plan, execute(plan)).drop_nulls('measured')
    cells = {(cell['row'], cell['column']): cell for cell in every.filter(kind='value').to_dicts()}
    over = dict(every.filter(column='RAG (%)', against=BEST_BASELINE).select('row', 'measured').iter_rows())
    baseline = cells[f'Baseline: {TOLD}', 'RAG (%)']
    assert baseline['measured'] == 100 and baseline['status'] == 'baseline' and (f'Baseline: {TOLD}', 'ZS (%)') not in cells
    assert over['Pipeline, reference claims'] == 50 - 100
    known = [cell for (_, column), cell in cells.items() if cell['status'] == 'baseline' and column == 'RAG (%)' and cell['method'] != TOLD]
    others = max(cell['measured'] for cell in known)
    assert over['Pipeline'] == over['yes'] == 50 - others
    assert others < 100 and described_baselines(plan)[TOLD] == BASELINES[TOLD]
    assert every.filter(kind='plus_minus').is_empty()  # two runs of a greedy judge are one
    rows = [row for row, column in cells if column == 'RAG (%)']
    assert len(rows) == len({*rows})


class Guesser:
    "A verifier whose probabilities hang on the letters."
    name, identity = 'guesser', {'verifier': 'guesser'}

    def probabilities(self, pairs, store=None):
        return np.array([[len(evidence + claim) % 7/10, .1, .2] for evidence, claim in pairs], np.float32)


def test_the_label_does_not_reach_its_own_threshold(home):
    "The labels of a page turned: its own answers stay as they are."
    settings = Settings(limit=40, loaded={'tiny': Guesser(), 'cosine': Guesser()})
    other = replace(settings, held={})
    claims = settings.rows('claim').frame
    page = claims['group'][0]
    turned = claims.with_columns(factual=pl.when(pl.col('group') == page).then(~pl.col('factual')).otherwise('factual'))
    other.hold(('claims', 'sample', 40), lambda: Rows('sample', turned, 'claims'))
    before, after = baseline_answers(settings, 'claim'), baseline_answers(other, 'claim')
    for name in ('length', 'word overlap', 'cosine', 'claim words', 'evidence words', 'verifier without evidence'):
        same = before[name].filter(group=page)['predicted'].equals(after[name].filter(group=page)['predicted'])
        assert same, name


# ---- differences ------------------------------------------------------------------------------------------------------------------

def made(texts, predicted, system='made', run=0, forced=None) -> pl.DataFrame:
    rows = texts.with_columns(predicted=pl.Series(predicted, dtype=pl.Boolean))
    return system_answers(rows if forced is None else rows.with_columns(forced=pl.Series(forced)), system, run)


def test_differences_are_those_of_the_scores(texts, baselines):
    truth = texts['factual']
    right = [t if at % 4 else not t for at, t in enumerate(truth)]
    runs = pl.concat([made(texts, right), made(texts, truth.to_list(), run=1)])
    table = compared_answers(baselines, {'made': runs})
    ours = table.row(0, named=True)
    assert ours['score'] == pytest.approx(score_answers(runs).value/100) == pytest.approx(.875)
    assert (ours['low'], ours['high']) == pytest.approx((score_answers(runs).low/100, score_answers(runs).high/100), abs=.02)
    assert table.filter(name='chance')['score'].item() == .5 and table['clusters'][0] == 20
    scores = {name: score_answers(part).value for name, part in baselines.items()}
    assert ours['difference'] == pytest.approx(.875 - max([50, *scores.values()])/100)


def test_what_was_not_read_is_wrong_and_what_never_came_is_not_compared(texts, baselines):
    truth = texts['factual'].to_list()
    half = made(texts, [t if at < 20 else None for at, t in enumerate(truth)])
    assert compared_answers(baselines, {'half': half})['score'][0] == .5
    nothing = made(texts, [None]*40, 'down')
    cells = baseline_cells('oasis/table5', 'ZS (%)', baselines, {'down': nothing, 'half': half})
    assert cells.filter(row='down').is_empty() and cells.filter(row='half').select('column', 'against').rows() == [('ZS (%)',
                                                                                                                    BEST_BASELINE)]
    with pytest.raises(DataError, match='of the baselines'): answer_counts(half.head(3), texts['id'])


def test_a_text_that_was_read_in_one_run_of_two_counts_for_half(texts, baselines):
    "The difference is that of the printed score from a baseline's on the same readings."
    truth, alone = texts['factual'].to_list(), [at % 2 == 0 for at in range(40)]
    runs = pl.concat([made(texts, truth, forced=[at >= 20 for at in range(40)]),
                      made(texts, alone, run=1, forced=[at < 10 or at >= 30 for at in range(40)])])
    table = compared_where_read(baselines, 'made', runs)
    assert table['n'][0] == 30 and table['score'][0] == pytest.approx(score_answers(read_only(runs)).value/100)
    weight = np.repeat([.5, 1, .5], 10)
    for name, part in baselines.items():
        score = balanced_accuracy_score(part['factual'][:30], part['predicted'][:30], sample_weight=weight)
        assert table.filter(name=name)['score'].item() == pytest.approx(score)
    one = made(texts, truth, forced=[not (label and at < 9) for at, label in enumerate(truth)])
    assert compared_where_read(baselines, 'made', one).is_empty()  # texts of one label
    assert compared_where_read(baselines, 'made', made(texts, truth, forced=[True]*40)).is_empty()
    cells = baseline_cells('oasis/table5', 'ZS (%)', baselines, {'made': one})
    assert READ_ONLY not in set(cells['metric'])


# ---- forced answers ---------------------------------------------------------------------------------------------------------------

def test_a_judge_that_mumbles(home):
    "Every second answer names no label, so the likelier label is taken: by the choices' probabilities, which say Factual."
    def mumble(request):
        if request.choices: return Response(text='Factual', choice_logprobs=(-.1, -2.0))
        return 'Hard to say.' if fenced_in(request.messages[-1].content, 'text') in odd else 'Not Factual'
    settings = Settings(limit=8, loaded={'mumbler': ScriptedModel('mumbler', mumble, revision='1')})
    odd = settings.rows('text').frame['text'].to_list()[1::2]
    plan = setting_plan(models=['mumbler'], runs=1, limit=8, loaded=settings.loaded)
    done = execute(plan)
    found = answers_of(plan.entries[0], done)
    assert found['forced'].to_list() == [False, True]*4 and found['predicted'].to_list() == [False, True]*4
    cells = table_cells(plan, done)
    cell = cells.filter(row='mumbler', column='ZS (%)', kind='value').row(0, named=True)
    assert (cell['n'], cell['forced'], cell['unparsed']) == (8, 4, 0)
    assert cells.filter(row='mumbler', metric=READ_ONLY, kind='value').select('n', 'unparsed').row(0) == (4, 4)
    assert cells.filter(row='mumbler', column='ZS (%)', against=BEST_BASELINE)['forced'].item() == 4
    silent = judge_entry(replace(settings, retry_unparsed=False), 'ZS', 'text', 'mumbler')
    assert answers_of(silent, execute(silent.step))['forced'].any() is False


@pytest.mark.parametrize('form', ['mid-p', 'exact', 'corrected'])
def test_the_form_of_mcnemars_test_is_a_parameter_of_figure_3(texts, baselines, form):
    both = pl.concat([made(texts, [True]*40, 'yes · RAG'), made(texts, texts['factual'].to_list(), 'Pipeline')])
    cells, tests = pair_cells(both, baselines, form)
    expected = pytest.approx(mcnemar([0], [20], form)[0])
    assert cells.filter(row='yes · RAG', column='p against Pipeline')['measured'].item() == tests['p'].item() == expected
    given = dict(models=['yes'], limit=2, k=2, extractor='sentences', retriever='tiny', verifier='cosine',
                 loaded={'yes': ScriptedModel('yes', lambda request: 'Factual', revision=form)})
    assert comparison_plan('oasis/fig3', test=form, **given).parameters['test'] == form
    assert 'test' not in comparison_plan('oasis/fig4', **given).parameters
    with pytest.raises(UsageError, match='choose one of mid-p, exact, corrected'): comparison_plan('oasis/fig3', test='chi', **given)


def test_figures_3_and_4_have_both_counts(texts, baselines):
    truth = texts['factual'].to_list()
    first = made(texts, [True]*40, 'yes · RAG', forced=[at % 4 != 0 for at in range(40)])
    both = pl.concat([first, made(texts, truth, 'Pipeline')])
    cells, tests = pair_cells(both, baselines)
    assert tests.height == 1 and cells.filter(pl.col('measured').is_not_null())['row'][0] == 'yes · RAG'
    cell = cells.filter(row='yes · RAG', column='p against Pipeline').row(0, named=True)
    assert (cell['n'], cell['forced']) == (40, 30) and cell['measured'] == pytest.approx(mcnemar([0], [20])[0])
    assert cells.filter(row='yes · RAG', column='p against Pipeline read only')['n'].item() == 10
    against = cells.filter(row='Baseline: majority', column='p against Pipeline').row(0, named=True)
    assert against['measured'] == pytest.approx(mcnemar([0], [20])[0]) and against['status'] == 'baseline' and against['forced'] == 0
    assert not set(cells['against']) & set(baselines)
    counted, _ = prediction_cells(both, baselines)
    assert counted.filter(row='yes · RAG', column='Factual, wrong')['measured'].item() == 20
    only = counted.filter(pl.col('metric').is_in([f'{", ".join(part)} read only' for part in PARTS]), row='yes · RAG')
    assert only['measured'].sum() == 10 and only['unparsed'].to_list() == [30]*4
    assert counted.filter(row='Baseline: majority')['measured'].to_list() == [0, 0, 20, 20]
    assert counted.filter(column='Factual, correct', status='baseline')['measured'].max() == 20  # a constant has all of them right
    assert counted.filter(row='Baseline: always Factual')['measured'].to_list() == [20, 20, 0, 0]
    assert 'baseline' not in headline(find_exhibits(['oasis/fig4'])[0], counted)  # a count has no best
    assert 'Baseline: always Not Factual' not in counted['row']  # the majority says so
    more = {'majority': baselines['majority'].with_columns(predicted=pl.lit(True))}
    assert prediction_cells(both, more)[0].filter(row='Baseline: always Not Factual')['measured'].to_list() == [0, 0, 20, 20]


def test_one_page_has_the_majority_alone(home):
    yes = ScriptedModel('yes', lambda request: 'Factual', revision='1')
    plan = length_plan(models=['yes'], lengths=[190], limit=2, k=2, extractor='sentences', retriever='tiny', loaded={'yes': yes})
    cells, curves = length_cells(plan, execute(plan))
    baselines = cells.filter(pl.col('status') == 'baseline')
    assert sorted(baselines['row']) == ['Baseline: chance', 'Baseline: majority'] and baselines['measured'].to_list() == [50, 50]
    assert curves.height == 2


# ---- retrieval --------------------------------------------------------------------------------------------------------------------

def test_recalls_against_the_best_baseline(home):
    task = study_task('sample', 60)
    with pytest.raises(UsageError, match='ks is empty'): recall_plan(encoders=['bm25'], ks=[])
    plan = recall_plan(encoders=['bm25', 'fusion:tiny'], limit=60, ks=[1, 5])
    recalls = system_recalls(plan, execute(plan))
    assert recalls['name'].to_list() == ['BM25 + MiniLM without fine-tuning']*2 + ['BM25']*2 + ['random']*2
    for k in (1, 5):
        part = {row['name']: row for row in recalls.filter(k=k).to_dicts()}
        assert part['random']['score'] == pytest.approx(k/task.passages.height)
        ours = part['BM25 + MiniLM without fine-tuning']
        assert ours['best'] == 'BM25' and ours['difference'] == pytest.approx(ours['score'] - part['BM25']['score'])
        assert ours['clusters'] == len(set(claim_pages(task))) < ours['n'] == 60
    cells = recall_cells('oasis/tablec1', recalls, task.passages.height)
    assert cells.filter(row='Passages', column='count')['measured'].item() == 388
    assert cells.filter(method='BM25')['status'].to_list() == ['baseline']*2
    assert [is_baseline(name) for name in ('bm25', 'tiny', 'retriever', 'fusion', 'intfloat/e5-base-v2', 'tiny?adapter=/a')] == [
        True, True, False, False, True, False]


def test_an_encoder_whose_every_weight_was_trained_is_no_baseline(tmp_path):
    "As `factlab train retriever --base intfloat/e5-base-v2 --full --out FOLDER` leaves it: the paper's way (§ 6.1)."
    card = {'part': 'retriever', 'base': 'intfloat/e5-base-v2', 'made': '2026-01-01', 'seed': 0, 'steps': 3, 'command': 'c',
            'metrics': [], 'data': [{'name': 'd', 'licence': 'l', 'rows': 1, 'use': 'trained'}], 'limits': ['English only']}
    (tmp_path/'mine').mkdir()
    (tmp_path/'mine'/'card.json').write_text(json.dumps(card))
    for name in (f'{tmp_path}/mine', f'{tmp_path}/mine/', f'{tmp_path}/mine?similarity=dot'):
        assert system_name(name) == 'E5-base' and not is_baseline(name)
    assert system_name(f'fusion:{tmp_path}/mine') == 'BM25 + E5-base'
    (tmp_path/'e5-base-v2').mkdir()  # a copy of the hub's
    assert system_name(f'{tmp_path}/e5-base-v2') == 'E5-base without fine-tuning' and is_baseline(f'{tmp_path}/e5-base-v2')


def test_further_passages_come_from_what_is_at_hand(monkeypatch, tmp_path):
    task = study_task('sample', 5)
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path))
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    assert with_distractors(task, 100).passages.height == task.passages.height
    from factlab.studies.oasis import retrieval
    own = pl.Series([f'This is passage {at} of another source, and it has more than twelve words.' for at in range(30)])
    both = pl.concat([own, task.passages['text'].head(3)])
    monkeypatch.setattr(retrieval, '_texts_of', lambda source: both if source == 'wice' else own[:0])
    larger = with_distractors(task, 20)
    assert larger.passages.height == task.passages.height + 20 and larger.passages['id'].n_unique() == larger.passages.height
    assert larger.passages.equals(with_distractors(task, 20).passages) and not larger.passages['text'].is_duplicated().any()
    assert with_distractors(task, 99).passages.height == task.passages.height + 30
    with pytest.raises(UsageError, match='distractors'): with_distractors(task, -1)
