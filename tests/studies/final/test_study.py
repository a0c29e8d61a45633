"""FINAL's study on a scripted detector with known faults: choices, first steps, every method, matches, replaced settings and dry runs."""
import ast
import json
from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer, free_port
from studies.final.tables import cells_of, chosen, predictions, verdicts

from factlab.core.core import DataError, ModelError, Schema, UsageError
from factlab.data.datasets import load, load_sample
from factlab.localization.methods import PREDICTIONS
from factlab.models.asking import answers_frame
from factlab.models.interface import ScriptedModel
from factlab.reports.exhibits import notebook_of
from factlab.reports.reproduce import parameters_of as defaults_of
from factlab.runs.plan import estimate, execute, manifest
from factlab.studies.final.example import UNREADABLE, OverlapVerifier, clauses, detector_answer, scripted_parts
from factlab.studies.final.exhibits import EXHIBITS
from factlab.studies.final.study import (
    TABLE_ROWS,
    Settings,
    TableRow,
    asked_prompts,
    asking,
    chosen_step,
    claims_step,
    entry_of,
    load_labelled,
    localization_plan,
    verdict_step,
)
from factlab.verification.extraction import EXTRACT

STYLES = ('zero_shot', 'few_shot', 'cot')
METHODS = (*STYLES, 'factscore', 'self_cot', 'self_cot_hint', 'classifier_cot', 'classifier_cot_hint', 'oracle_cot', 'oracle_cot_hint',
           'rejected_claims')  # which the script answers; a row more is no concern of these tests


@pytest.fixture
def parts(home):
    return scripted_parts()


@pytest.fixture
def settings(parts): return Settings(judge='judge', verifier='overlap', limit=4, loaded=parts)


def documents(split: str, limit: int = 4) -> list[dict]: return load_sample().filter(split=split).head(limit).to_dicts()


def listed(document: dict, style: str, variant: int) -> int|None:
    "How many errors the script lists, as its chapter says; None where it cannot be read."
    if style == 'cot' and variant == 2 and document['id'] in UNREADABLE: return None
    errors = len(document['inconsistencies'])
    return min(errors, 1) if variant == 1 else errors + 1


# ---- data ------------------------------------------------------------------------------------------------------------------------------

def test_rows_are_the_first_of_each_split(settings):
    assert settings.rows('dev').frame['id'].to_list() == [document['id'] for document in documents('dev')]
    assert settings.rows().frame.height == 4 and settings.rows('train').frame.is_empty() and settings.rows('dev') is settings.rows('dev')
    fewer = replace(settings, limit=2)
    assert fewer.rows().frame.height == 2 and settings.rows().frame.height == 4 and fewer.held is settings.held
    assert replace(settings, limit=None).rows().frame.height == load('sample').filter(split='test').height


def test_rows_without_labels_are_refused(tmp_path):
    path = tmp_path/'mine.jsonl'
    path.write_text('{"text": "a", "summary": "b", "gold": []}\n{"text": "a", "summary": "b", "gold": null}\n')
    with pytest.raises(DataError, match='1 of 2 rows'): load_labelled(str(path))


# ---- the choice of a variant -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('style', STYLES)
def test_the_variant_with_the_higher_f1_on_dev_is_chosen(settings, style):
    dev, scores = documents('dev'), []
    for variant in (1, 2):
        tp = predicted = 0
        for document in dev:
            count = listed(document, style, variant)
            predicted += count or 0
            tp += 0 if count is None else min(count, len(document['inconsistencies']))  # the false alarm comes last
        scores.append(2*tp/(predicted + sum(len(document['inconsistencies']) for document in dev)))
    assert scores[1] > scores[0]
    found = chosen(chosen_step(settings, style, 'detector'))['selected']['detector'][style]
    assert found == {'variant': 2, 'dev_f1': [round(score, 4) for score in scores]}


def test_variants_are_chosen_on_dev_alone(settings, parts):
    steps = [each for style in STYLES for each in chosen_step(settings, style, 'detector').inputs.values()]
    execute(*steps, store=False)
    test = [document['summary'] for document in documents('test')]
    prompts = [request.messages[0].content for request in parts['detector'].asked]
    assert prompts and not any(summary in prompt for prompt in prompts for summary in test)


def test_of_equal_variants_the_first(settings, parts):
    same = ScriptedModel('same', lambda request: 'None', revision='1')
    equal = replace(settings, loaded=parts | {'same': same})
    assert chosen(chosen_step(equal, 'zero_shot', 'same'))['selected']['same']['zero_shot'] == {'variant': 1, 'dev_f1': [0, 0]}


def test_without_a_dev_split_the_first_variant(parts, tmp_path):
    path = tmp_path/'mine.jsonl'
    path.write_text('{"text": "The bridge opened on Friday.", "summary": "It opened on Monday.", "gold": ["The day is wrong."]}')
    mine = Settings(data=str(path), judge='judge', loaded=parts)
    step = chosen_step(mine, 'cot', 'detector')
    assert step.method.choose([]).name == 'cot1' and not step.inputs and not parts['detector'].asked
    with pytest.raises(UsageError, match='no dev split'): verdict_step(mine, 'classifier', 'detector')


def test_a_wrong_classifier_is_refused_before_anything_is_asked(parts):
    for wrong, error in (('nobody', UsageError), ('encoder?wrong=1', UsageError), ('t5:/nowhere', ModelError)):
        with pytest.raises(error, match='nobody|wrong|nowhere'):
            localization_plan(models=['detector'], judge='judge', methods=['classifier_cot'], classifier=wrong, loaded=parts)


# ---- runs and methods ------------------------------------------------------------------------------------------------------------------

def test_first_steps(settings):
    truth = [len(document['inconsistencies']) for document in documents('test')]
    assert verdicts(settings, 'self', 'detector')['inconsistent'].to_list() == [count > 1 for count in truth]
    assert verdicts(settings, 'oracle', 'detector')['inconsistent'].to_list() == [count > 0 for count in truth]
    found = chosen(verdict_step(settings, 'classifier', 'detector'))['classifier']
    assert found['verifier'] == OverlapVerifier.identity and 0 < found['threshold'] < 1


@pytest.mark.parametrize('method', METHODS)
def test_every_method_lists_what_the_script_says(settings, method):
    found = predictions(settings, method, 'detector')
    test = documents('test')
    assert found['id'].to_list() == [document['id'] for document in test]
    counts = found['predicted'].list.len().to_list()
    if method == 'rejected_claims':
        step = claims_step(settings, 'detector')
        threshold = chosen(step)['rejected_claims']['detector']['threshold']
        assert step.model.name == 'detector' and counts == [sum(
            max(float(OverlapVerifier().probabilities([(part, claim)])[0, 0]) for part in windows(document['text'])) < threshold
            for claim in clauses(document['summary'])) for document in test]
        return
    errors = [len(document['inconsistencies']) for document in test]
    if method == 'factscore': assert counts == errors
    elif method in STYLES: assert counts == [listed(document, method, 2) for document in test]
    else:
        passed = verdicts(settings, method.split('_')[0], 'detector')['inconsistent'].to_list()
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


def test_one_entry_is_a_row(settings, parts, monkeypatch):
    row = TableRow('Opening', lambda settings, model: asking(settings, Opening(), None), asks_for_errors=False)
    monkeypatch.setitem(TABLE_ROWS, 'opening', row)
    baseline, found = predictions(settings, 'every_sentence', 'detector'), predictions(settings, 'opening', 'detector')
    assert found['predicted'].to_list() == [[document['summary'].split()[0]] for document in documents('test')]
    assert not baseline.equals(found)  # equal names, two methods
    assert asked_prompts(entry_of(settings, 'opening', 'detector')) == ()
    assert not parts['detector'].asked
    cells = cells_of(settings, ['detector'], ['rejected_claims', 'opening', 'zero_shot'], few=2)
    scored = dict(cells.filter(method='Opening', metric='F1', kind='value').select('column', 'n').iter_rows())
    assert scored['detector F1'] == 4 and scored['detector on 2 rows F1'] == 2  # it is cheap, so it has all rows too
    assert cells.filter(column='detector F1', row='Zero-Shot').is_empty()


def test_answers_of_the_second_asking_are_noted(settings, parts):
    def answer(request):
        said = detector_answer(load_sample().to_dicts(), request)
        return 'None' if said.startswith('I still') else said
    plan = localization_plan(models=['yields'], methods=['cot'], judge='judge', limit=4,
                             loaded=parts | {'yields': ScriptedModel('yields', answer, revision='1')})
    done = execute(plan, store=False)
    assert done[plan.entries[0].about['predictions']]['status'].to_list() == ['ok']*4
    assert manifest(plan, done)['second_asking'] == {'yields': {'dev/cot2': 1, 'test/cot': 1}}


def test_hinted_prompts_are_asked_of_flagged_rows_alone(settings, parts):
    for method in ('self_cot_hint', 'oracle_cot_hint'): predictions(settings, method, 'detector')
    first_steps = [verdicts(settings, step, 'detector').filter('inconsistent') for step in ('self', 'oracle')]
    flagged = set(pl.concat([found.select('id') for found in first_steps])['id'])
    hinted = [request for request in parts['detector'].asked if request.label.endswith('_hint')]
    assert len({request.messages for request in hinted}) == len(flagged)


# ---- other settings --------------------------------------------------------------------------------------------------------------------

def test_settings_are_checked(parts):
    for wrong in (-1, float('nan'), float('inf'), True, 'warm'):
        with pytest.raises(UsageError, match='temperature'): Settings(temperature=wrong)
    for name, wrong in (('repeat', -1), ('repeat', None), ('limit', 0), ('limit', '3'), ('seed', -1), ('max_tokens', 0),
                        ('max_tokens', '512'), ('max_tokens', True), ('max_tokens', 1.5)):
        with pytest.raises(UsageError, match=name): Settings(**{name: wrong})
    for wrong in ({'judge': 'nobody'}, {'prompts': 'theirs'}):
        with pytest.raises(UsageError, match='nobody|theirs'): Settings(**wrong, loaded=parts)


def test_one_length_of_answers_is_that_of_everything_that_lists_judges_or_matches(parts):
    methods = ['zero_shot', 'cot', 'factscore', 'self_cot_hint']
    def lengths(**more) -> dict[str, set[int]]:
        asked = scripted_parts()
        plan = localization_plan(models=['detector'], judge='judge', methods=methods, limit=2, verifier='overlap', loaded=asked, **more)
        execute(plan, store=False)
        found: dict[str, set[int]] = {}
        for request in [*asked['detector'].asked, *asked['judge'].asked]: found.setdefault(request.label, set()).add(request.max_tokens)
        assert plan.parameters['max_tokens'] == more.get('max_tokens')
        return {label: each for label, each in found.items() if label != EXTRACT.name}  # claims of a baseline: as long as its form says
    usual, long = lengths(), lengths(max_tokens=2000)
    assert usual['final/zero_shot1'] == {512} and usual['final/cot1'] == usual['final/match'] == usual['final/cot2_hint'] == {1024}
    assert usual['final/detect'] == {256} and usual['final/binary'] == {768} and usual['final/decompose'] == {512}
    assert long.keys() == usual.keys() and all(each == {2000} for each in long.values())


def test_a_length_of_answers_is_checked_before_anything_is_asked(parts):
    with pytest.raises(UsageError, match='max_tokens must be a whole number, 1 or more, or None, not 0'):
        localization_plan(models=['detector'], judge='judge', max_tokens=0, loaded=parts)
    assert not parts['detector'].asked


# ---- plans and dry runs ----------------------------------------------------------------------------------------------------------------

def test_an_estimate_is_what_a_server_then_gets(home):
    with MisbehavingServer(lambda call: answer('A. The date is wrong.')) as server:
        plan = localization_plan(models=[f'openai:any?base_url={server.url}'], methods=['zero_shot', 'self_cot'], limit=2,
                                 retry_unparsed=False)
        counted = estimate(plan)
        assert not server.calls
        execute(plan)
        assert counted['calls'].sum() == len(server.calls) >= 2*2*2 + 3*2  # variants of two styles on dev; both and the verdicts on test
        assert estimate(plan)['calls'].sum() == 0


@pytest.mark.parametrize('classifier', ['t5:{}', 'seq2seq:{}?form=trueteacher'])
def test_a_dry_run_loads_no_classifier_of_eleven_billion_parameters(classifier, parts, tmp_path):
    (tmp_path/'config.json').write_text('{"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}')
    (tmp_path/'model.safetensors').write_bytes(b'no weights: whoever loads them fails')
    as_verifier = {} if classifier.startswith('t5') else {'classifier': 'verifier', 'verifier': classifier.format(tmp_path)}
    plan = localization_plan(models=['detector'], judge='offline', methods=['classifier_cot'], limit=2, loaded=parts,
                             **{'classifier': classifier.format(tmp_path)} | as_verifier)
    assert estimate(plan, store=False)['calls'].sum() > 0 and not parts['detector'].asked
    with pytest.raises(ModelError): execute(plan, store=False)


def parameters_of(exhibit) -> set[str]:
    "Names in the notebook's parameter cell, but for where it writes."
    cells = json.loads(notebook_of(exhibit).read_text())['cells']
    cell = next(cell for cell in cells if 'parameters' in cell['metadata'].get('tags', ()))
    return {node.targets[0].id for node in ast.parse(''.join(cell['source'])).body} - {'out', 'keep'}


@pytest.mark.parametrize('exhibit', [exhibit for exhibit in EXHIBITS if exhibit.plan], ids=lambda exhibit: exhibit.name)
def test_the_plan_of_every_exhibit_is_its_notebooks_and_is_estimated_without_weights(home, exhibit, monkeypatch):
    def never(*_, **__): raise AssertionError('a model was loaded or asked')
    for name in ('transformers_backend._decoder', 'transformers_backend._loaded', 'openai_backend.Endpoint.generate'):
        monkeypatch.setattr(f'factlab.models.{name}', never)
    names, server = parameters_of(exhibit), f'openai:any?base_url=http://127.0.0.1:{free_port()}/v1'
    some = {'models': [server], 'judge': server, 'limit': 2}
    plan = exhibit.plan(**{name: value for name, value in some.items() if name in names})
    assert set(plan.parameters) == names and exhibit.plan(**plan.parameters).digest == plan.digest
    counted = estimate(plan)
    judged = names - {'spans', 'judge'} if 'spans' in names else names  # table 6 judges only what a model of spans marks
    assert (counted['calls'].sum() > 0) == ({'models', 'judge'}.intersection(judged) != set())
    assert ('max_tokens' in names) == ('judge' in judged)  # what describes errors, and what matches them


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
              digest(methods=['cot']), digest(classifier='encoder'), digest(max_tokens=2000)]
    assert len(set(others)) == len(others) and digest() == digest() and not parts['detector'].asked
    assert digest(methods='cot') == digest(methods=['cot', 'cot'])


@pytest.mark.parametrize('name', ['table4', 'table7', 'table10'])
def test_tables_of_methods_take_some_of_them_by_name(name, parts):
    exhibit = next(exhibit for exhibit in EXHIBITS if exhibit.name == name)
    some = {'models': ['detector'], 'judge': 'judge', 'verifier': 'overlap', 'limit': 2, 'loaded': parts}
    assert ast.literal_eval(defaults_of(exhibit)['methods']) == [*METHODS]
    plan = exhibit.plan(**some, methods=['cot', 'oracle_cot'])
    assert [entry.about['key'] for entry in plan.entries if not entry.baseline] == plan.parameters['methods'] == ['cot', 'oracle_cot']
    for wrong, said in (('cotton', "no method 'cotton': there are zero_shot, few_shot"), ([], 'methods is empty')):
        with pytest.raises(UsageError, match=said): exhibit.plan(**some, methods=wrong)
    assert not parts['detector'].asked
