"""FINAL's study on a scripted detector with known faults: choices, first steps, every method, matches, replaced studies and dry runs."""
from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl
import pytest
from studies.final.tables import cells_of

from factlab.core.core import DataError, Schema, UsageError
from factlab.data.datasets import load, load_sample
from factlab.localization.methods import PREDICTIONS
from factlab.models.asking import answers_frame
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import estimate
from factlab.studies.final.example import UNREADABLE, OverlapVerifier, clauses, detector_answer, scripted_parts
from factlab.studies.final.repeats import another_run
from factlab.studies.final.study import (
    TABLE_ROWS,
    Study,
    TableRow,
    asked_prompts,
    asking,
    chosen_step,
    claims_step,
    entry_of,
    load_labelled,
    localization_plan,
    matches,
    predictions,
    select_variant,
    verdicts,
)

STYLES = ('zero_shot', 'few_shot', 'cot')
METHODS = (*STYLES, 'factscore', 'self_cot', 'self_cot_hint', 'classifier_cot', 'classifier_cot_hint', 'oracle_cot', 'oracle_cot_hint',
           'rejected_claims')  # which the script answers; a row more is no concern of these tests


@pytest.fixture
def parts(monkeypatch, tmp_path):
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    return scripted_parts()


@pytest.fixture
def study(parts): return Study(judge='judge', verifier='overlap', limit=4, store=False, loaded=parts)


def documents(split: str, limit: int = 4) -> list[dict]: return load_sample().filter(split=split).head(limit).to_dicts()


def listed(document: dict, style: str, variant: int) -> int|None:
    "How many errors the script lists, as its chapter says; None where it cannot be read."
    if style == 'cot' and variant == 2 and document['id'] in UNREADABLE: return None
    errors = len(document['inconsistencies'])
    return min(errors, 1) if variant == 1 else errors + 1


# ---- data ------------------------------------------------------------------------------------------------------------------------------

def test_rows_are_the_first_of_each_split(study):
    assert study.rows('dev')['id'].to_list() == [document['id'] for document in documents('dev')]
    assert study.rows('test').height == 4 and study.rows('train').is_empty() and study.rows('dev') is study.rows('dev')
    assert Study(loaded=study.loaded, judge='judge').rows('test').height == load('sample').filter(split='test').height


def test_rows_without_labels_are_refused(tmp_path):
    path = tmp_path/'mine.jsonl'
    path.write_text('{"text": "a", "summary": "b", "gold": []}\n{"text": "a", "summary": "b", "gold": null}\n')
    with pytest.raises(DataError, match='1 of 2 rows'): load_labelled(str(path))
    with pytest.raises((UsageError, DataError)): load_labelled(str(_pairs(tmp_path)))


def _pairs(folder):
    path = folder/'pairs.jsonl'
    path.write_text('{"text": "a", "summary": "b"}\n')
    return path


# ---- the choice of a variant -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('style', STYLES)
def test_the_variant_with_the_higher_f1_on_dev_is_chosen(study, style):
    dev, scores = documents('dev'), []
    for variant in (1, 2):
        tp = predicted = 0
        for document in dev:
            count = listed(document, style, variant)
            predicted += count or 0
            tp += 0 if count is None else min(count, len(document['inconsistencies']))  # the false alarm comes last
        scores.append(2*tp/(predicted + sum(len(document['inconsistencies']) for document in dev)))
    assert select_variant(study, style, 'detector').name == f'{style}2' and scores[1] > scores[0]
    assert study.used['selected']['detector'][style] == {'variant': 2, 'dev_f1': [round(score, 4) for score in scores]}


def test_variants_are_chosen_on_dev_alone(study, parts):
    for style in STYLES: select_variant(study, style, 'detector')
    test = [document['summary'] for document in documents('test')]
    prompts = [request.messages[0].content for request in parts['detector'].asked]
    assert prompts and not any(summary in prompt for prompt in prompts for summary in test)


def test_of_equal_variants_the_first(study, parts):
    same = ScriptedModel('same', lambda request: 'None', revision='1')
    equal = replace(study, loaded=parts | {'same': same})
    assert select_variant(equal, 'zero_shot', 'same').name == 'zero_shot1'
    assert equal.used['selected']['same']['zero_shot'] == {'variant': 1, 'dev_f1': [0, 0]}


def test_without_a_dev_split_the_first_variant(parts, tmp_path):
    path = tmp_path/'mine.jsonl'
    path.write_text('{"text": "The bridge opened on Friday.", "summary": "It opened on Monday.", "gold": ["The day is wrong."]}')
    study = Study(data=str(path), judge='judge', loaded=parts)
    assert select_variant(study, 'cot', 'detector').name == 'cot1' and not parts['detector'].asked and study.used['selected'] == {}
    with pytest.raises(UsageError, match='no dev split'): verdicts(study, 'classifier', 'detector')


# ---- runs and methods ------------------------------------------------------------------------------------------------------------------

def test_first_steps(study):
    truth = [len(document['inconsistencies']) for document in documents('test')]
    assert verdicts(study, 'self', 'detector')['inconsistent'].to_list() == [count > 1 for count in truth]
    assert verdicts(study, 'oracle', 'detector')['inconsistent'].to_list() == [count > 0 for count in truth]
    assert study.used.get('classifier') is None
    verdicts(study, 'classifier', 'detector')
    assert study.used['classifier']['verifier'] == OverlapVerifier.identity and 0 < study.used['classifier']['threshold'] < 1


@pytest.mark.parametrize('method', METHODS)
def test_every_method_lists_what_the_script_says(study, method):
    found = predictions(study, method, 'detector')
    test = documents('test')
    assert found['id'].to_list() == [document['id'] for document in test]
    counts = found['predicted'].list.len().to_list()
    if method == 'rejected_claims':
        step, chosen = claims_step(study, 'detector'), study.used['rejected_claims']['detector']
        assert step.model.name == 'detector' and counts == [sum(
            max(float(OverlapVerifier().probabilities([(part, claim)])[0, 0]) for part in windows(document['text'])) < chosen['threshold']
            for claim in clauses(document['summary'])) for document in test]
        return
    errors = [len(document['inconsistencies']) for document in test]
    if method == 'factscore': assert counts == errors
    elif method in STYLES: assert counts == [listed(document, method, 2) for document in test]
    else:
        passed = verdicts(study, method.split('_')[0], 'detector')['inconsistent'].to_list()
        whole = errors if method.endswith('_hint') else [listed(document, 'cot', 2) for document in test]
        assert counts == [count if flagged else 0 for flagged, count in zip(passed, whole, strict=True)]


def windows(text: str) -> list[str]:
    from factlab.localization.classifiers import text_windows
    return text_windows(text)


@dataclass(frozen=True)
class Opening:
    "Reports the first word of the summary, under the name of a baseline."
    name: str = 'every_sentence'
    prompts: tuple = ()
    max_tokens: int = 1
    schema: ClassVar[Schema] = PREDICTIONS

    def predict(self, rows, model, store=None, *, seed=0, repeat=0):
        return answers_frame(PREDICTIONS, rows, [('ok', '', [summary.split()[0]]) for summary in rows['summary']], [[]]*rows.height)


def test_one_entry_is_a_row(study, parts, monkeypatch):
    row = TableRow('Opening', lambda study, model: asking(study, Opening(), None), asks_for_errors=False)
    monkeypatch.setitem(TABLE_ROWS, 'opening', row)
    baseline, found = predictions(study, 'every_sentence', 'detector'), predictions(study, 'opening', 'detector')
    assert found['predicted'].to_list() == [[document['summary'].split()[0]] for document in documents('test')]
    assert not baseline.equals(found)  # equal names, two methods
    assert asked_prompts(entry_of(study, 'opening', 'detector')) == ()
    assert not parts['detector'].asked
    cells = cells_of(study, ['detector'], ['rejected_claims', 'opening', 'zero_shot'], few=2)
    scored = dict(cells.filter(method='Opening', metric='F1', kind='value').select('column', 'n').iter_rows())
    assert scored['detector F1'] == 4 and scored['detector on 2 rows F1'] == 2  # it is cheap, so it has all rows too
    assert cells.filter(column='detector F1', row='Zero-Shot').is_empty()


def test_an_unknown_method_is_named(study):
    with pytest.raises(UsageError, match="no method 'zeroshot'"): predictions(study, 'zeroshot', 'detector')


def test_what_could_not_be_read_is_counted(study):
    found = matches(study, 'cot', 'detector')
    assert found.filter(id='s12').select('status', 'matched').row(0) == ('unparsed', None) and (found['status'] == 'ok').sum() == 3
    assert study.used['failed'] == 0


def test_answers_of_the_second_asking_are_noted(study, parts):
    def answer(request):
        said = detector_answer(load_sample().to_dicts(), request)
        return 'None' if said.startswith('I still') else said
    second = replace(study, loaded=parts | {'yields': ScriptedModel('yields', answer, revision='1')})
    assert predictions(second, 'cot', 'yields')['status'].to_list() == ['ok']*4
    assert second.used['second_asking'] == {'yields': {'dev/cot2': 1, 'test/cot': 1}}


def test_hinted_prompts_are_asked_of_flagged_rows_alone(study, parts):
    for method in ('self_cot_hint', 'oracle_cot_hint'): predictions(study, method, 'detector')
    first_steps = [verdicts(study, step, 'detector').filter('inconsistent') for step in ('self', 'classifier', 'oracle')]
    flagged = set(pl.concat([found.select('id') for found in first_steps])['id'])
    hinted = [request for request in parts['detector'].asked if request.label.endswith('_hint')]
    assert len(hinted) == len(flagged)


# ---- replaced studies ------------------------------------------------------------------------------------------------------------------

def test_a_study_with_another_limit_has_rows_of_its_own(study):
    assert matches(study, 'zero_shot', 'detector').height == 4 and study.rows('test').height == 4
    other = replace(study, limit=2)
    assert other.rows('test').height == 2 and matches(other, 'zero_shot', 'detector').height == 2
    assert other.used['selected'] != {} and other.used is not study.used


def test_a_study_with_other_settings_has_choices_of_its_own(study):
    assert select_variant(study, 'cot', 'detector').retry_unparsed
    assert not select_variant(replace(study, retry_unparsed=False), 'cot', 'detector').retry_unparsed


def test_another_run_shares_choices_and_no_answers(study, parts):
    first = predictions(study, 'zero_shot', 'detector')
    verdicts(study, 'classifier', 'detector')
    before = len(parts['detector'].asked)
    again = another_run(study, 1)
    assert predictions(again, 'zero_shot', 'detector').equals(first) and predictions(again, 'zero_shot', 'detector') is not first
    assert select_variant(again, 'zero_shot', 'detector') == select_variant(study, 'zero_shot', 'detector')
    assert verdicts(again, 'classifier', 'detector').equals(verdicts(study, 'classifier', 'detector'))
    assert [request.repeat for request in parts['detector'].asked[before:]] == [1]*4 and again.used is study.used


# ---- dry runs --------------------------------------------------------------------------------------------------------------------------

def test_a_dry_run_counts_the_questions_of_the_real_one(study, parts):
    with DryRun() as dry: matches(replace(study), 'zero_shot', 'detector')
    assert not parts['detector'].asked and not parts['judge'].asked
    calls = {name: dict(estimate_of(dry).filter(model=name).select('label', 'calls').iter_rows()) for name in ('detector', 'judge')}
    matches(study, 'zero_shot', 'detector')
    assert calls['detector'] == {'final/zero_shot1': 4 + 4, 'final/zero_shot2': 4}  # no variant has won yet: the first is taken
    asked = pl.Series([request.label for request in parts['detector'].asked]).value_counts()
    assert sum(calls['detector'].values()) == asked['count'].sum() == 12
    assert calls['judge']['final/match'] > 0 and parts['judge'].asked  # equal example answers are one question to the judge


@pytest.mark.parametrize('method', METHODS)
def test_every_method_runs_dry(study, parts, method):
    with DryRun() as dry: assert matches(replace(study), method, 'detector').height == 4
    assert not parts['detector'].asked and not parts['judge'].asked and estimate_of(dry).filter(model='detector')['calls'].sum() > 0


def test_a_run_is_read_back(study, parts):
    step = chosen_step(study, 'zero_shot', 'detector')
    first, asked = study.frame(step), len(parts['detector'].asked)
    again = replace(study)
    assert again.frame(chosen_step(again, 'zero_shot', 'detector')).equals(first) and len(parts['detector'].asked) == asked


def test_without_a_dev_split_rows_that_need_a_threshold_are_left_out_with_a_line(parts, tmp_path):
    path = tmp_path/'mine.jsonl'
    path.write_text('{"text": "The bridge opened on Friday.", "summary": "It opened on Monday.", "gold": ["The day is wrong."]}')
    plan = localization_plan(data=str(path), models=['detector'], judge='offline', verifier='overlap', loaded=parts)
    kept = [entry.about['key'] for entry in plan.entries if not entry.baseline]
    assert kept == [name for name in METHODS if not name.startswith('classifier') and name != 'rejected_claims']
    note, = plan.notes
    assert 'left out: TrueTeacher + CoT, TrueTeacher + CoT&Hint, Rejected claims' in note and 'label some rows "dev"' in note
    assert estimate(plan, store=False)['calls'].sum() > 0 and not parts['detector'].asked
    with pytest.raises(UsageError, match='no dev split'): localization_plan(data=str(path), methods=['rejected_claims'], loaded=parts)


def test_a_plan_is_a_function_of_its_parameters(parts):
    def digest(**more): return localization_plan(**({'models': ['detector'], 'judge': 'judge', 'verifier': 'overlap', 'limit': 2,
                                                     'loaded': parts} | more)).digest
    others = [digest(), digest(limit=3), digest(seed=1), digest(judge='offline'), digest(retry_unparsed=False), digest(few=1),
              digest(methods=['cot']), digest(classifier='encoder')]
    assert len(set(others)) == len(others) and digest() == digest() and not parts['detector'].asked
