"""The judge held against people's matchings: read from a file, counted by hand, and handed to Table 10 without typing."""
import json

import polars as pl
import pytest

from factlab.core import registry
from factlab.core.core import DataError
from factlab.core.registry import Entry
from factlab.data.datasets import load
from factlab.error_analysis.judge_validation import (
    ALWAYS,
    NO_MATCH,
    OVERLAP,
    baseline_matchings,
    counted_rates,
    decisions,
    judge_scores,
    matching_form,
    read_matchings,
    write_form,
)
from factlab.localization import matching
from factlab.measures.noise import Rate
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import estimate, execute
from factlab.studies import base
from factlab.studies.final.judge import IMPLIED, MATCHED_SHARE, implied_precision, judge_cells, judge_plan
from factlab.studies.final.repeats import noise_plan, noisy_cells, rates_of

ROWS = load('sample').filter(pl.col('gold').list.len() > 1).head(3)
# of three summaries and two runs: what people say, and what the judge answers; None: it cannot be read
PEOPLE = {'zero-shot': [['A', 'B', 'none'], ['none', 'A'], ['B']], 'cot': [['B', 'A', 'none'], ['A', 'none'], ['none']]}
JUDGE = {'zero-shot': [['A', 'A', None], [None, 'A'], 'what?'], 'cot': [['B', None, 'A'], ['A', None], [None]]}


def text_of(run: str, at: int, place: int) -> str: return f'={run} {at} {place}: a detail of the summary is wrong.'


def table(**columns) -> pl.DataFrame:
    "The file that people filled in."
    rows = [{'run': run, 'id': ROWS['id'][at], 'predicted': text_of(run, at, place), 'matched': label}
            for run, lists in PEOPLE.items() for at, labels in enumerate(lists) for place, label in enumerate(labels)]
    return pl.DataFrame(rows).with_columns(**columns)


@pytest.fixture
def file(tmp_path):
    path = tmp_path/'people.csv'
    write_form(table(), path)
    return path


@pytest.fixture
def judge(home, monkeypatch):
    "A judge whose answers are known, under its name."
    def answer(request) -> str:
        shown = request.messages[-1].content
        run, at = next((run, at) for run, lists in JUDGE.items() for at in range(len(lists)) if text_of(run, at, 0)[:-30] in shown)
        said = JUDGE[run][at]
        return said if isinstance(said, str) else json.dumps(dict(zip('ABC', said, strict=False)))
    model = ScriptedModel('people-judge', answer, revision='validated')
    for module in (base, matching): monkeypatch.setattr(module, 'load_model', lambda name: model)
    monkeypatch.setitem(registry._entries['models'], 'people-judge', Entry('people-judge', print))
    return model


def test_the_judge_is_counted_as_by_hand(file, judge):
    plan = judge_plan(matchings=file, judge='people-judge')
    cells = judge_cells(plan, execute(plan))
    assert len(judge.asked) == 6
    found = {(cell['row'], cell['column']): cell for cell in cells.filter(kind='value').iter_rows(named=True)}
    # read: zero-shot A A·B=A none=none | none A ; cot B, A=none, none=A | A none | none; the list that cannot be read is left out
    mine = {column: found['people-judge', column]['measured']
            for column in ('Precision', 'Recall', 'Accuracy', 'Sensitivity', 'Specificity')}
    assert mine == pytest.approx({'Precision': (2/3 + 2/3)/2, 'Recall': (2/3 + 2/3)/2, 'Accuracy': 8/11, 'Sensitivity': 4/6,
                                  'Specificity': 4/5})
    assert found['people-judge', 'Accuracy']['n'] == 11 and found['people-judge', 'Accuracy']['unparsed'] == 1
    assert found['people-judge', MATCHED_SHARE]['measured'] == pytest.approx(6/11)
    assert found['people-judge on zero-shot', 'Precision']['measured'] == pytest.approx(2/3)
    assert found['people-judge on cot', 'Specificity']['measured'] == pytest.approx(2/3)
    assert found[f'Baseline: {NO_MATCH}', 'Accuracy']['measured'] == pytest.approx(5/11)
    over = cells.filter(row='people-judge', column='Accuracy', kind='difference')
    assert over['measured'].item() == pytest.approx(8/11 - 5/11)


def test_printed_numbers_stand_beside_and_fit_together():
    plan = judge_plan(data='final')  # no file: nothing is measured on other data, and none is read
    cells = judge_cells(plan, execute(plan))
    printed = dict(cells.filter(row='Judge').select('column', 'published').iter_rows())
    assert printed == {'Precision': .95, 'Recall': .92, 'Accuracy': .934, 'Sensitivity': .95, 'Specificity': .90}
    assert 'no matchings of final' in plan.notes[0] and cells['measured'].null_count() == cells.height
    share, precision = implied_precision(.934, .95, .90)
    assert share == pytest.approx(.68) and precision == pytest.approx(.95*.68/(.95*.68 + .1*.32))
    implied = cells.filter(row=IMPLIED, column='Precision').row(0, named=True)
    assert implied['low'] < .95 < implied['high'] and implied['recomputed'] == pytest.approx(precision)


def test_without_people_the_judge_is_held_against_what_is_right_by_construction():
    plan = judge_plan()
    assert not judge_plan(judge='tiny').digest == plan.digest
    lists = plan.entries[0].about['lists'].frame
    assert lists['summary_id'].n_unique() < lists.height and lists['right'].explode().null_count()


def test_the_judges_own_matchings_may_stand_in_the_file(tmp_path, judge):
    path = tmp_path/'both.jsonl'
    table(judge=pl.col('matched').replace({'B': 'none'})).write_ndjson(path)
    plan = judge_plan(matchings=path)
    row = judge_cells(plan, execute(plan)).filter(row='as in the file', kind='value')
    assert dict(row.select('column', 'measured').iter_rows())['Sensitivity'] == pytest.approx(4/7) and not judge.asked
    assert row.filter(column='Specificity')['measured'].item() == 1


def test_table_10_has_its_rates_from_there(file, judge):
    given = {'models': ['people-judge'], 'judge': 'people-judge', 'limit': 2, 'methods': ['zero_shot'], 'draws': 20}
    plan, without = (noise_plan(**given, matchings=path) for path in (file, None))
    assert plan.digest != without.digest and noise_plan(**plan.parameters).digest == plan.digest
    assert estimate(plan)['calls'].sum() and not judge.asked  # a dry run counts the judge's questions and sends none
    lists = plan.entries[0].about['people']
    done = execute(plan.entries[0].about['judged'])
    rates = rates_of(plan, done)
    assert rates[:2] == (Rate(4, 6), Rate(4, 5)) and 'people.csv' in rates.source and lists.frame.height == 6
    typed = noise_plan(**given, matchings=file, specificity=.9)
    assert rates_of(typed, done)[:2] == (Rate(4, 6), .9)


def test_table_10_is_simulated_with_them(tmp_path, monkeypatch):
    "The offline judge, whose own rates are known: people's take their place."
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    path = tmp_path/'people.csv'
    rows = load('sample').filter(pl.col('gold').list.len() > 0).head(4)
    form = matching_form(rows, rows.select('id', predicted=pl.col('gold').list.concat(pl.lit(['The moon is made of cheese.']))), 'copies')
    last = pl.int_range(pl.len()).over('id') == pl.len().over('id') - 1
    letters = pl.int_range(pl.len()).over('id').cast(pl.String).replace_strict(dict(zip('01234', 'ABCDE', strict=True)), default='')
    write_form(form.with_columns(matched=pl.when(last).then(pl.lit('None')).otherwise(letters)), path)
    silent = ScriptedModel('silent', lambda _: 'None', revision='judge-test')
    plan = noise_plan(models=['silent'], methods=['zero_shot'], loaded={'silent': silent}, limit=2, draws=20, matchings=path,
                      verifier='cosine', classifier='encoder')
    done = execute(plan)
    rates = rates_of(plan, done)
    assert rates.sensitivity == Rate(form.height - 4, form.height - 4) and rates.specificity == Rate(4, 4)
    assert noisy_cells(plan, done).filter(model='silent', metric='F1', status='simulated').height


@pytest.mark.parametrize('change, said', [
    ({'id': pl.lit('nobody')}, "row 1: the data set has no labelled row with the id 'nobody'"),
    ({'matched': pl.lit('Z')}, "row 1: matched is 'Z', expected a letter from A to"), ({'matched': pl.lit('')}, "row 1: matched is ''"),
    ({'predicted': pl.lit(' ')}, 'row 1: there is no predicted'), ({'gold': pl.lit('A. Something else.')}, 'not the annotated errors'),
    ({'judge': pl.lit('A, B')}, "judge is 'A, B'")])
def test_a_file_that_is_none_is_refused_before_anything_is_asked(tmp_path, change, said):
    table(**change).write_csv(path := tmp_path/'wrong.csv')
    with pytest.raises(DataError, match=said): judge_plan(matchings=path)
    with pytest.raises(DataError, match=said): noise_plan(models=['tiny'], limit=1, matchings=path)


def test_files_without_what_is_needed(tmp_path):
    table().drop('matched').write_csv(path := tmp_path/'less.csv')
    with pytest.raises(DataError, match='no columns'): read_matchings(path, ROWS)
    table().head(0).write_csv(path)
    with pytest.raises(DataError, match='no rows'): read_matchings(path, ROWS)
    table().filter(pl.col('matched') != 'none').write_csv(path)
    lists = read_matchings(path, ROWS)
    with pytest.raises(DataError, match='name none'): counted_rates(decisions(lists, lists.select('id', matched='right')))


def test_baselines_answer_the_same_predictions(file):
    lists = read_matchings(file, ROWS)
    baselines = baseline_matchings(lists)
    assert set(baselines) == {NO_MATCH, ALWAYS, OVERLAP}
    for matched in baselines.values(): assert decisions(lists, matched).height == 12
    perfect = judge_scores(decisions(lists, lists.select('id', matched='right')))
    assert {interval.estimate for interval in perfect.values()} == {1}
    one = lists.filter(pl.col('summary_id') == lists['summary_id'][0])
    assert OVERLAP not in baseline_matchings(one)  # one summary has no other half
