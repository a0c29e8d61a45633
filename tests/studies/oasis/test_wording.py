"""Prompts in words of one's own, lengths of answers, temperatures: what is sent is what was asked for, and what is missing is named."""
import polars as pl
import pytest

from factlab.building.generation import STEPS, build
from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.core.core import UsageError
from factlab.data.corpora import load_oasis_sample
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import execute, manifest
from factlab.studies.oasis.generation import generation_plan, steps_plan
from factlab.studies.oasis.judges import LABEL_RETRY
from factlab.studies.oasis.study import Settings, extraction_plan, retrieval_plan, setting_plan, verifier_plan
from factlab.studies.oasis.submissions import submission_plan

PARTS = dict(k=2, extractor='sentences', retriever='tiny', verifier='cosine')


def scripted(name: str, answer: str = 'Factual') -> ScriptedModel: return ScriptedModel('m', lambda request: answer, revision=name)


@pytest.fixture
def folder(tmp_path):
    "The prompts as the command writes them, two of them with a printed prompt's frame."
    assert run_command(parser(), ['prompts', 'export', 'oasis', str(tmp_path/'words')]) == 0
    folder = tmp_path/'words'
    for name in ('text_zs', 'rag_zs'): (folder/f'{name}.system.txt').write_text(f'The printed instructions of {name}: 1. Read.\n')
    (folder/'unified.txt').write_text("Input: {text}\nOutput: {'step.1': List[str]}\n")
    (folder/'extract.txt').write_text('Which claims? {text}\n')
    (folder/'ask_verifier.txt').write_text('{claim}? {evidence} {options}\n')
    return folder


def test_every_prompt_of_the_study_has_a_file(folder):
    files = {file.name.removesuffix('.txt') for file in folder.glob('*.txt') if not file.name.endswith('.system.txt')}
    assert files == {prompt.name.removeprefix('oasis/') for prompt in Settings.PROMPTS} and len(Settings.PROMPTS) == len(files) == 19


def test_judges_are_asked_in_the_words_of_the_folder(folder):
    model = scripted('words')
    plan = retrieval_plan(models=['m'], runs=1, limit=2, prompts=str(folder), loaded={'m': model}, **PARTS)
    done = execute(plan, store=False)
    first = [request.messages[0].content for request in model.asked]
    assert {text for text in first} == {f'The printed instructions of {name}: 1. Read.\n' for name in ('text_zs', 'rag_zs')}
    whose = {id: prompt['source'] for id, prompt in manifest(plan, done)['prompts'].items()}
    assert whose['oasis/text_zs@2'] == whose['oasis/rag_zs@3'] == 'yours'
    submitted = scripted('submitted')
    pl.DataFrame({'id': ['a'], 'text': ['Owls hunt.']}).write_parquet(folder/'texts.parquet')
    execute(submission_plan(str(folder/'texts.parquet'), model='m', prompts=str(folder), loaded={'m': submitted}), store=False)
    assert submitted.asked[0].messages[0].content == 'The printed instructions of text_zs: 1. Read.\n'


def test_what_has_no_file_stays_ours(folder):
    for file in folder.glob('text_zs*.txt'): file.unlink()
    plan = setting_plan(prompts=str(folder), limit=2, loaded={'tiny': scripted('left')})
    ours, yours = (entry.step.method.prompt for entry in plan.entries if entry.model and entry.label in ('ZS', 'FS'))
    assert (ours.source, yours.source) == ('ours', 'yours')


def test_a_build_asks_in_the_words_of_the_folder(folder, tmp_path):
    answer, passage = STEPS['unified'][0].prompt.example_answer, load_oasis_sample()['passage'][0]
    model = scripted('unified', answer)
    plan = generation_plan(models=['m'], limit=1, prompts=str(folder), temperature=.7, max_tokens=900, loaded={'m': model})
    execute(plan, store=False)
    request, = model.asked
    assert request.messages[0].content == f"Input: {passage}\nOutput: {{'step.1': List[str]}}\n"
    assert (request.temperature, request.max_tokens) == (.7, 900) and plan.parameters['prompts'] == str(folder)
    drawn = steps_plan(model='m', prompts=str(folder), max_tokens=900, loaded={'m': model}).entries[0].step.method
    assert drawn.prompts[0].source == 'yours' and drawn.how.max_tokens == 900
    four = generation_plan(models=['m'], variant='four', limit=1, loaded={'m': model}).entries[1].step.method
    assert [step.max_tokens for step in four.how.steps('four')] == [512, 256, 512, 512] and four.prompts[0].source == 'ours'
    (tmp_path/'pages').mkdir()
    (tmp_path/'pages'/'owls.txt').write_text('Owls hunt at night. They rest by day.')
    plain = build(tmp_path/'pages', model, tmp_path/'out', dry_run=True).manifest['spec']
    assert 'max_tokens' not in plain
    command = ['build', 'oasis', '--texts', str(tmp_path/'pages'), '--model', 'tiny', '--out', str(tmp_path/'out'), '--dry-run']
    assert run_command(parser(), [*command, '--prompts', str(folder), '--max-tokens', '900', '--temperature', '0.7']) == 0
    with pytest.raises(UsageError, match='no folder'): run_command(parser(), [*command, '--prompts', str(tmp_path/'nowhere')])


def test_extractors_and_verifiers_that_prompt_a_model_are_asked_so_too(folder):
    settings = Settings(prompts=str(folder), max_tokens=77)
    form = settings.load_extractor('prompt:tiny').form
    assert form.divide('Owls hunt. Owls rest.')[0][0].content == 'Which claims? Owls hunt. Owls rest.\n' and form.max_tokens == 77
    assert settings.load_extractor('tiny').form.max_tokens == 160  # trained in a form of its own
    assert settings.load_verifier('prompt:tiny').form.prompt.source == 'yours' and settings.load_verifier('cosine').name == 'cosine'
    table = extraction_plan(extractors=['prompt:tiny'], limit=2, encoder=None, prompts=str(folder), max_tokens=77)
    assert table.entries[0].step.inputs['claims'].method.max_tokens == 77
    assert verifier_plan(verifiers=['prompt:tiny'], prompts=str(folder), limit=2).parameters['prompts'] == str(folder)


@pytest.mark.parametrize('given, lengths', [({}, {12, 256}), ({'max_tokens': 40}, {40})])
def test_answers_are_as_long_as_is_said(given, lengths):
    model = scripted(f'lengths {given}')
    plan = setting_plan(models=['m'], runs=1, limit=2, temperature=.5, retry_unparsed=False, loaded={'m': model}, **given)
    execute(plan, store=False)
    assert {request.max_tokens for request in model.asked} == lengths and {request.temperature for request in model.asked} == {.5}
    assert plan.parameters['max_tokens'] == given.get('max_tokens')
    with pytest.raises(UsageError, match='max_tokens'): setting_plan(models=['m'], loaded={'m': model}, max_tokens=0)


@pytest.mark.parametrize('ask, file, place', [
    (lambda: setting_plan(prompts='paper', limit=2), 'text_zs.txt', 'Table B.1'), (lambda: setting_plan(
        'oasis/table7', prompts='paper', limit=2), 'claim_zs.txt', None),
    (lambda: generation_plan(prompts='paper'), 'unified.txt', 'Table 1'),
    (lambda: steps_plan(model='tiny', prompts='paper'), 'unified.txt', ''),
    (lambda: Settings(prompts='paper').worded(LABEL_RETRY), 'say.txt', None)])
def test_printed_prompts_are_asked_for_by_file(ask, file, place):
    with pytest.raises(UsageError) as refused: ask()
    said = str(refused.value)
    assert file in said and ('the paper prints it' in said) is (place is not None) and (place or '') in said


def test_a_folder_without_a_placeholder_is_refused_before_anything_is_asked(folder):
    (folder/'rag_zs.txt').write_text('Text: {text}')
    with pytest.raises(UsageError, match=r'rag_zs\.txt lacks the placeholder \{evidence\}'): setting_plan(prompts=str(folder), limit=2)
