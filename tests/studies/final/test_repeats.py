"""FINAL's tables of five runs and of a judge that errs, on scripted models whose answers are known, and against literal loops."""
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from reports.test_reproduce import judged, said_list, told
from scipy.stats import t
from studies.final.tables import cells_of, counts_of

from factlab.audit.checks import AVERAGE
from factlab.core import registry
from factlab.core.core import UsageError
from factlab.core.registry import Entry
from factlab.data.datasets import load
from factlab.localization import matching
from factlab.localization.matching import ModelJudge, load_judge
from factlab.measures.metrics import matching_scores
from factlab.measures.noise import Rate
from factlab.models.interface import ScriptedModel
from factlab.models.prompts import format_lettered, letters
from factlab.reports.published import published_values
from factlab.reports.tables import BEST_ROW
from factlab.runs.plan import execute, manifest
from factlab.studies import base
from factlab.studies.final.consistency import (
    VERDICT_KINDS,
    binarized_cells,
    consistency_cells,
    consistency_counts,
    consistency_plan,
    kind_differences,
    verdicts_of,
)
from factlab.studies.final.localization import unread_as_missed
from factlab.studies.final.repeats import (
    JUDGED,
    PAPER_RATES,
    expected_f1,
    implied_cells,
    noise_cells,
    noise_plan,
    noise_rates,
    noisy_cells,
    published_noise_cells,
    rates_of,
    repeat_counts,
    repeats_cells,
    repeats_itself,
    repeats_plan,
    run_cells,
)
from factlab.studies.final.study import Settings, check_methods, localization_plan

# ---- scripted models: each run of a model answers otherwise -----------------------------------------------------------------------

def speaker(name: str, varies: bool = True) -> ScriptedModel:
    "A model of test_reproduce's scripted world, another one in every run if it varies."
    def answer(request):
        body = {'model': f'{name}{request.repeat if varies else 0}', 'messages': [message.model_dump() for message in request.messages]}
        return told(SimpleNamespace(body=body, prompt=request.messages[-1].content))
    return ScriptedModel(name, answer, revision='1')


@pytest.fixture
def models(home, monkeypatch):
    "Two models and a judge, under their names."
    there = {name: speaker(name, name != 'steady') for name in ('steady', 'moody', 'judge')}
    for module in (base, matching): monkeypatch.setattr(module, 'load_model', lambda name: there[name])
    for name in there: monkeypatch.setitem(registry._entries['models'], name, Entry(name, print))
    return there


def counted_by_hand(model: str, style: str, run: int, row: dict) -> tuple[int|None, int, int]:
    "tp (None where model or judge could not be read), predictions and gold items of a summary in the scripted world."
    predicted = said_list(f'{model}{run}', style, row['summary'].strip().splitlines()[0])
    if predicted is None: return None, 0, len(row['gold'])
    if not predicted or not row['gold']: return 0, len(predicted), len(row['gold'])
    text = judged(format_lettered(predicted), len(row['gold']))
    if not text.startswith('{'): return None, len(predicted), len(row['gold'])
    found = {value for key, value in json.loads(text).items() if key in letters(len(predicted)) and value in letters(len(row['gold']))}
    return len(found), len(predicted), len(row['gold'])


# ---- Table 9 ----------------------------------------------------------------------------------------------------------------------

def runs_of(names: list[str], methods: list[str], runs: int, *, kept: bool = True, **chosen) -> pl.DataFrame:
    "Counts of methods, without the baselines beside them."
    plan = repeats_plan(models=names, methods=methods, runs=runs, **{'judge': 'judge', 'temperature': 0, 'verifier': 'cosine'} | chosen)
    counts = repeat_counts(plan, execute(plan, store=None if kept else False))
    return counts.filter(pl.col('method').is_in([entry.method for entry in plan.entries if not entry.baseline]))


def test_five_runs_are_what_they_are_by_hand(models):
    counts = runs_of(['moody', 'steady'], ['zero_shot', 'cot'], 5, limit=12)
    rows = load('sample').filter(split='test').head(12).to_dicts()
    cells = {(cell['row'], cell['column']): cell for cell in run_cells(counts).iter_rows(named=True) if not cell['against']}
    for style, title in (('zero_shot', 'Zero-Shot'), ('cot', 'CoT')):
        runs = [[counted_by_hand('moody', style, run, row) for row in rows] for run in range(5)]
        totals = [np.sum([[tp or 0, found, gold] for tp, found, gold in run], axis=0) for run in runs]
        for metric, value in (
            ('Recall', lambda tp, found, gold: tp / gold),
            ('Precision', lambda tp, found, gold: tp / found),
            ('F1', lambda tp, found, gold: 2 * tp / (found + gold)),
        ):
            values = [value(*total) for total in totals]
            low, high = t.interval(.95, 4, np.mean(values), np.std(values, ddof=1)/5**.5)
            cell = cells[title, f'moody {metric}']
            assert (cell['measured'], cell['low'], cell['high']) == pytest.approx((np.mean(values), low, high))
            assert cells[title, f'moody ±{metric}']['measured'] == pytest.approx((high - low)/2) and len(set(values)) > 1
            assert cell['n'] == 12 and cell['unparsed'] == sum(tp is None for run in runs for tp, _, _ in run) > 0
            assert cells[title, f'steady ±{metric}']['measured'] == pytest.approx(0)
    assert cells['All', 'moody Runs']['measured'] == 5 and cells['All', 'steady Runs']['measured'] == 5


def test_every_run_asks_anew_and_chooses_nothing(models):
    plan = repeats_plan(models=['moody'], methods=['zero_shot', 'self_cot', 'factscore'], runs=3, temperature=0, judge='judge', limit=5)
    done = execute(plan)
    dev = {row['summary'].strip() for row in load('sample').filter(split='dev').to_dicts()}
    for name in ('moody', 'judge'):
        repeats = [request.repeat for request in models[name].asked]
        assert set(repeats) == {0, 1, 2}
    later = [request.messages[0].content for request in models['moody'].asked if request.repeat]
    assert later and not any(summary in prompt for prompt in later for summary in dev)
    asked = [(request.repeat, request.messages, request.choices) for model in models.values() for request in model.asked]
    assert len(set(asked)) == len(asked)
    before = len(asked)
    execute(plan)
    assert sum(len(model.asked) for model in models.values()) == before  # all of it is in the store
    about = manifest(plan, done)
    assert set(about['models']) == {'moody', 'judge'} and any('of run 3' in name for name in about['second_asking']['moody'])
    assert repeats_cells(plan, done).filter(row='All', column='moody Runs')['measured'].item() == 3


def test_the_first_run_is_the_table_itself(models):
    counts, settings = runs_of(['moody'], ['cot'], 2, limit=6), Settings(judge='judge', limit=6)
    assert counts.filter(run=1).drop('run', 'forced').equals(counts_of(settings, 'moody', ['cot']))
    assert counts.filter(run=2).drop('run', 'forced').equals(counts_of(replace(settings, repeat=1), 'moody', ['cot']))


def test_sampled_runs_choose_greedily_and_keep_apart(models):
    plan = repeats_plan(models=['moody'], methods=['cot', 'self_cot', 'rejected_claims'], runs=3, judge='judge', limit=4, verifier='cosine')
    done = execute(plan)
    asked = [(request.temperature, request.repeat, request.messages[0].content) for request in models['moody'].asked if not request.choices]
    dev, test = ({row['summary'].strip() for row in load('sample').filter(split=split).head(4).to_dicts()} for split in ('dev', 'test'))
    def about(summaries, prompt): return any(summary in prompt for summary in summaries)
    assert {(t, r) for t, r, prompt in asked if about(dev, prompt)} == {(0, 0)}
    assert {(t, r) for t, r, prompt in asked if about(test, prompt)} == {(.7, 0), (.7, 1), (.7, 2)}
    assert {request.temperature for request in models['judge'].asked} == {0}
    named = manifest(plan, done)['models']
    assert set(named) == {'moody', 'moody at temperature 0.7', 'judge'}
    assert named['moody at temperature 0.7'] == named['moody'] | {'temperature': .7}
    counts = repeat_counts(plan, done)
    assert counts['run'].unique().to_list() == [1, 2, 3]
    assert {'CoT', 'Self + CoT', 'Rejected claims', 'every sentence'} <= {*counts['method']}
    before = len(models['moody'].asked)
    runs_of(['moody'], ['cot'], 1, limit=4)
    greedy = [request for request in models['moody'].asked[before:] if request.label.startswith('final/cot')]
    assert len(greedy) == 4 and {request.temperature for request in greedy} == {0}  # sampled answers are no greedy ones


def test_a_local_model_that_decodes_greedily_is_run_once(models):
    models['steady'].identity = models['steady'].identity | {'engine': 'transformers'}
    settings = Settings(judge='encoder', limit=4)  # a judge that asks no model, and sees matches in these scripted answers
    assert repeats_itself(settings, 'steady') and not repeats_itself(settings, 'moody')
    for change in ({'temperature': .7}, {'judge': 'judge'}): assert not repeats_itself(replace(settings, **change), 'steady')
    cells = run_cells(runs_of(['steady', 'moody'], ['zero_shot'], 3, judge='encoder', limit=4))
    runs = dict(cells.filter(row='All').select('column', 'measured').iter_rows())
    assert runs == {'steady Runs': 1, 'moody Runs': 3}
    assert cells.filter(column='steady ±F1')['measured'].to_list() == [None]  # one run has no spread
    assert cells.filter(column='moody ±F1')['measured'][0] > 0 and {request.repeat for request in models['steady'].asked} == {0}


def test_forced_verdicts_of_all_runs_are_counted():
    counts = pl.DataFrame({'run': [1, 1, 2, 2], 'model': 'm', 'method': 'Self + CoT', 'id': ['a', 'b']*2, 'tp': 1, 'n_predicted': 1,
                           'n_gold': 1, 'forced': [True, False, True, True]})
    cells = run_cells(pl.concat([counts, counts.with_columns(method=pl.lit('CoT'), forced=None)]))
    forced = dict(cells.filter(metric='F1', kind='value').select('method', 'forced').iter_rows())
    assert forced == {'Self + CoT': 3, 'CoT': None}
    lost = counts.with_columns(tp=pl.when(pl.col('id') == 'b').then(None).otherwise('tp'))
    assert run_cells(lost).filter(column='m F1', kind='value').select('measured', 'n', 'unparsed').row(0) == (.5, 2, 2)


def test_runs_that_lack_a_score():
    def run(number: int, found: int) -> pl.DataFrame:
        return pl.DataFrame(
            {
                'run': number,
                'model': 'm',
                'method': 'CoT',
                'id': ['a', 'b'],
                'tp': [min(found, 1), 0],
                'n_predicted': [found, 0],
                'n_gold': [1, 1],
                'forced': None,
            }
        )

    cells = {
        column: cell
        for cell in run_cells(pl.concat([run(1, 2), run(2, 0), run(3, 1)])).iter_rows(named=True)
        for column in [cell['column'] + '/' + cell['row']] if not cell['against']
    }
    assert (
        cells['m Precision/CoT']['measured'] == 0.75
        and cells['m Recall/CoT']['measured'] == pytest.approx(1 / 3)
        and cells['m Runs/All']['measured'] == 3
    )
    silent = run_cells(pl.concat([run(1, 0), run(2, 0)])).filter(column='m Precision')
    assert silent['measured'].to_list() == [None] and silent['low'].to_list() == [None]
    assert 'm Runs' in run_cells(pl.concat([run(1, 2), run(2, 0)])).filter(row='CoT')['column'].to_list()


@pytest.mark.parametrize(
    'wrong, said', [({'runs': 0}, 'runs'), ({'runs': True}, 'runs'), ({'methods': []}, 'methods'), ({'methods': ['zeroshot']}, 'zeroshot')]
)
def test_parameters_that_make_no_sense(models, wrong, said):
    given = {'models': ['moody'], 'judge': 'judge', 'limit': 2, 'methods': 'cot'}
    with pytest.raises(UsageError, match=said): repeats_plan(**given | wrong)
    for name, rate in (('draws', 0), ('sensitivity', 1.5)):
        with pytest.raises(UsageError, match=name): noise_plan(models=['moody'], judge='judge', limit=2, **{name: rate})
    assert not models['moody'].asked and check_methods('cot') == ['cot']


# ---- Table 10 ---------------------------------------------------------------------------------------------------------------------

def made(n: int = 60, methods: tuple = (('Zero-Shot', .4), ('CoT', .62), ('Few-Shot', .6))) -> pl.DataFrame:
    generator = np.random.default_rng(3)
    gold, parts = generator.integers(1, 5, n), []
    for method, chance in methods:
        found = generator.integers(1, 6, n)
        parts.append(
            pl.DataFrame(
                {
                    'model': 'm',
                    'method': method,
                    'id': range(n),
                    'tp': np.minimum(generator.binomial(gold, chance), found),
                    'n_predicted': found,
                    'n_gold': gold,
                }
            )
        )
    return pl.concat(parts).with_columns(tp=pl.when((pl.col('id') != 7) | (pl.col('method') != 'CoT')).then('tp'))


def flipped(frame: pl.DataFrame, sensitivity: float, specificity: float, draws: int, generator) -> np.ndarray:
    "F1 of each draw, every single decision flipped by itself."
    rows = unread_as_missed(frame).select('tp', 'n_predicted', 'n_gold').rows()
    decisions = np.concatenate([[True]*tp + [False]*(found - tp) for tp, found, _ in rows])
    whole = sum(found + gold for _, found, gold in rows)
    chance = np.where(decisions, sensitivity, 1 - specificity)
    return 2*(generator.random((draws, len(decisions))) < chance).sum(1)/whole


@pytest.mark.parametrize('rates', [(.95, .9), (.8, .99)])
def test_judge_noise_is_that_of_flipping_every_decision(rates):
    frame, generator = made(), np.random.default_rng(5)
    cells = {
        (cell['row'], cell['column']): cell
        for cell in noise_cells(frame, sensitivity=rates[0], specificity=rates[1], draws=4000).iter_rows(named=True) if not cell['against']
    }
    drawn = {}
    for (method,), part in frame.group_by('method', maintain_order=True):
        drawn[method] = values = flipped(part, *rates, 4000, generator)
        cell, judged_f1 = cells[method, 'm F1'], matching_scores(part, unparsed='wrong')['f1'][0]
        assert cell['measured'] == pytest.approx(values.mean(), abs=0.002) and (cell['low'], cell['high']) == pytest.approx(
            tuple(np.quantile(values, [0.025, 0.975])), abs=0.0085
        )  # one decision is .0065
        assert cells[method, 'm ±F1']['measured'] == pytest.approx((cell['high'] - cell['low']) / 2) and cells[method, 'm Judged'][
            'measured'
        ] == pytest.approx(judged_f1)
        totals = unread_as_missed(part).select('tp', 'n_predicted', 'n_gold').sum().row(0)
        expected = 2*(totals[0]*rates[0] + (totals[1] - totals[0])*(1 - rates[1]))/(totals[1] + totals[2])
        corrected = 2*np.clip((totals[0] - (1 - rates[1])*totals[1])/(sum(rates) - 1), 0, min(totals[1:]))/(totals[1] + totals[2])
        assert cells[method, 'm Expected']['measured'] == pytest.approx(expected) and cells[method,
                                                                                            'm Corrected']['measured'] == pytest.approx(
            corrected
        )
        assert cells[method, 'm Corrected']['low'] < corrected < cells[method, 'm Corrected']['high'] and cell['n'] == part.height
    table = np.array(list(drawn.values()))
    ranks = 1 + (table[None] > table[:, None]).sum(1)  # [methods, draws]
    for method, rank in zip(drawn, ranks, strict=True):
        assert cells[method, 'm First']['measured'] == pytest.approx((rank == 1).mean(), abs=.04)
        low, high = np.quantile(rank, [.025, .975], method='inverted_cdf')
        assert abs(cells[method, 'm Rank']['low'] - low) <= 1 and abs(cells[method, 'm Rank']['high'] - high) <= 1
    order = sorted(drawn, key=lambda method: -cells[method, 'm Judged']['measured'])
    assert [cells[method, 'm Rank']['measured'] for method in order] == [1, 2, 3]


def test_baselines_are_ranked_with_the_methods_and_stay_baselines():
    frame = made()
    name = 'every claim'
    all_found = frame.filter(method='CoT').with_columns(method=pl.lit(name), tp=pl.min_horizontal('n_predicted', 'n_gold'))
    rates = {'sensitivity': .95, 'specificity': .9, 'draws': 200}
    alone, beside = noise_cells(frame, **rates), noise_cells(frame, all_found, **rates)
    def ranks(cells): return dict(cells.filter(metric='Rank').select('method', 'measured').iter_rows())
    assert min(ranks(alone).values()) == 1
    assert {row: rank + 1 for row, rank in ranks(alone).items()} | {name: 1} == ranks(beside)
    assert set(beside.filter(method=name)['status']) == {'baseline'} and set(beside.filter(method=name)['row']) == {f'Baseline: {name}'}
    first = dict(beside.filter(metric='First').select('method', 'measured').iter_rows())
    assert sum(first[row] for row in ranks(alone)) < .5 < first[name]


def test_methods_without_a_score_and_judges_that_know_nothing():
    frame = pl.concat([made(), made(methods=(('FactScore', .5),)).with_columns(tp=pl.lit(None, pl.Int64), n_predicted=pl.lit(0, pl.Int64))])
    cells = noise_cells(frame, draws=50)
    silent, size = cells.filter(row='FactScore'), frame.filter(method='FactScore').height
    assert silent.filter(column='m F1').select('measured', 'low', 'n', 'unparsed').row(0) == (0, 0, size,
                                                                                              size)  # finds nothing, as in Table 4
    assert cells.filter(column='m Rank')['row'].to_list()[-1] == 'FactScore' and cells.filter(column='m Rank').height == 4
    perfect = noise_cells(frame, sensitivity=1, specificity=1, draws=20).filter(row='CoT', kind='value')
    values = dict(perfect.filter(pl.col('metric').is_in(['F1', JUDGED, 'Expected', 'Corrected'])).select('metric', 'measured').iter_rows())
    assert len(values) == 4 and max(values.values()) == pytest.approx(min(values.values()))
    with pytest.raises(UsageError, match='sum to 1'): noise_cells(frame, sensitivity=.5, specificity=.5)
    unknown = noise_cells(frame, sensitivity=None)
    assert unknown.filter(column='m Judged')['measured'].to_list() == cells.filter(column='m Judged')['measured'].to_list()
    assert set(unknown['metric']) == {JUDGED}


def test_table_10_stands_on_the_rows_of_table_4(models):
    plan = noise_plan(models=['moody'], judge='judge', limit=4, verifier='cosine', classifier='encoder', sensitivity=.9, specificity=.9,
                      draws=20)
    cells = noisy_cells(plan, execute(plan)).filter(model='moody')
    assert rates_of(plan, execute(plan))[:2] == (.9, .9) and noise_plan(**plan.parameters).digest == plan.digest
    assert {entry.method for entry in plan.entries} == set(cells.filter(metric=JUDGED, kind='value')['method'])


def test_a_plan_knows_the_error_rates_that_were_counted(monkeypatch):
    "Rates that were counted anew make Table 10 stale, and no other table."
    def digests(): return noise_plan(models=['tiny'], limit=2).digest, localization_plan(models=['tiny'], limit=2).digest
    before, rates = digests(), load_judge().error_rates('sample')
    monkeypatch.setattr(type(load_judge()), 'error_rates', lambda self, data: rates._replace(sensitivity=Rate(1, 2)))
    after = digests()
    assert before[0] != after[0] and before[1] == after[1]


def test_error_rates_are_those_of_the_judge_on_such_data():
    offline = load_judge()
    assert noise_rates(offline, 'sample')[:2] == offline.error_rates('sample')[:2] != noise_rates(offline, 'final')[:2]
    assert 'no matchings of mine.csv' in noise_rates(offline, 'mine.csv').source
    for name, known in (('openai:gpt-4o', True), ('openai:gpt-4o-2024-11-20?base_url=http://h/v1', True), ('openai:openai/gpt-4o', True),
                        ('openai:gpt-4o-mini', False), ('openai:gpt-4.1', False), ('tiny', False)):
        rates = noise_rates(ModelJudge(ScriptedModel(name, lambda _: '{}')), 'final')
        assert (rates == PAPER_RATES) is known and (rates.sensitivity is None) is not known
    given = noise_rates(load_judge('encoder'), 'sample', sensitivity=.8)
    assert given[:2] == (.8, None) and 'sensitivity' in given.source and 'nobody' in given.source
    assert noise_rates(offline, 'final', .8, .9) == (.8, .9, 'given: sensitivity, specificity')


def test_what_the_papers_table_4_implies_for_its_table_10():
    cells, printed = implied_cells(), published_values('final/table10').filter(pl.col('model') != AVERAGE)
    values = {tuple(place): value for *place, value in published_values('final/table4').select('row', 'model', 'metric',
                                                                                               'value').iter_rows()}
    gaps: dict[str, list] = {}
    for row, model, mean in printed.select('row', 'model', 'value').iter_rows():
        precision, recall = values[row, model, 'Precision'], values[row, model, 'Recall']
        found = recall/precision  # for one gold item
        expected = 2*(.95*recall + .1*(found - recall))/(1 + found)
        cell = cells.filter(row=row, model=model, metric='Expected').row(0, named=True)
        assert (
            cell['recomputed'] == pytest.approx(expected) == pytest.approx(expected_f1(precision, recall))
            and cell['low'] < expected < cell['high']
        )
        grid = [
            expected_f1(p, r)
            for p in np.linspace(precision - 0.005, precision + 0.005, 7)
            for r in np.linspace(recall - 0.005, recall + 0.005, 7)
        ]
        assert cell['low'] == pytest.approx(min(grid)) and cell['high'] == pytest.approx(max(grid))
        gaps.setdefault(model, []).append(mean - expected)
    for model, each in gaps.items():
        shown = dict(cells.filter(model=model, kind='difference').select('row', 'recomputed').iter_rows())
        assert shown['Mean gap'] == pytest.approx(np.mean(each)) and abs(shown['Largest gap to what Table 4 implies']) == pytest.approx(
            np.abs(each).max()
        )
        assert np.abs(each).max() < .015
    assert sum(map(len, gaps.values())) == 40 and published_noise_cells().filter(status='finding').is_empty()


# ---- marks in the tables, and verdicts --------------------------------------------------------------------------------------------

def test_tables_of_methods_mark_what_is_behind_their_best(models):
    settings = Settings(judge='judge')
    methods = ['zero_shot', 'few_shot', 'cot']
    cells = cells_of(settings, ['moody', 'steady'], methods)
    for model in ('moody', 'steady'):
        counts = counts_of(settings, model, methods)
        scores = {method: matching_scores(part, unparsed='wrong')['f1'][0]
                  for (method,), part in counts.group_by('method', maintain_order=True)}
        best = max(scores, key=scores.get)
        own = cells.filter(model=model, metric='F1')
        found = {cell['row']: cell for cell in own.filter(kind='difference', against=BEST_ROW).iter_rows(named=True)}
        assert set(found) == set(scores) and found[best]['measured'] == 0 and found[best]['low'] is None
        shown = own.filter(kind='value', status='measured').select('method', 'measured')
        assert dict(shown.iter_rows()) == pytest.approx(scores)
        for method in set(scores) - {best}:
            assert (found[method]['measured'], found[method]['n']) == (pytest.approx(scores[method] - scores[best]), 38)
            assert own.filter(method=method, kind='p', against=BEST_ROW)['measured'].count() == 1


def test_verdicts_of_two_models_and_of_one(models):
    def verdicts(exhibit: str, *names: str):
        plan = consistency_plan(exhibit, models=names, judge='judge')
        return plan, execute(plan)
    two, one = consistency_cells(*verdicts('final/table8', 'moody', 'steady')), consistency_cells(*verdicts('final/table8', 'moody'))
    marked = two.filter(column='F1', kind='difference', against=BEST_ROW)
    assert (
        set(marked['row']) == {'moody', 'steady'}
        and marked['measured'].min() < 0 == marked['measured'].max()
        and two.filter(column='F1', kind='p', against=BEST_ROW).height == 1
    )
    assert one.filter(against=BEST_ROW).is_empty()
    plan, done = verdicts('final/fig4', 'moody', 'steady')
    said = verdicts_of(plan, done)['moody']
    counts = consistency_counts({kind: said[kind] for kind in VERDICT_KINDS}, done[plan.entries[0].step.rows], 'moody')
    apart = kind_differences(counts).row(0, named=True)
    both = counts.filter(method='Binary').join(counts.filter(method='Binarized'), on='id', suffix='_listed').drop_nulls(['tp', 'tp_listed'])
    listed, asked = (
        matching_scores(both.select(tp=f'tp{end}', n_predicted=f'n_predicted{end}', n_gold=f'n_gold{end}'))['f1'][0]
        for end in ('_listed', '')
    )
    assert (apart['measured'], apart['n']) == (pytest.approx(listed - asked),
                                               len(both)) and apart['low'] < apart['measured'] < apart['high']
    baseline, gold = kind_differences(counts).row(1, named=True), both['n_gold'].sum()
    assert baseline['status'] == 'baseline' and baseline['measured'] == pytest.approx(2*gold/(len(both) + gold) - asked)
    figure = binarized_cells(plan, done)
    assert set(figure.filter(against=BEST_ROW)['method']) >= {'Binary', 'Binarized'}
    assert figure.filter(metric='F1', kind='difference', against='Binary', method='Binarized')['model'].to_list() == ['moody', 'steady']
