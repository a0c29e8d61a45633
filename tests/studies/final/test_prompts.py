"""FINAL's wordings: the authors' files, what is made from them, what is only printed, and a folder of one's own."""
import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from conftest import real_data

from factlab.core.core import DataError, UsageError
from factlab.localization.matching import MATCH
from factlab.localization.methods import COT, COT_HINT, DECOMPOSE, DETECT, FEW_SHOT, HINT, MERGE, ZERO_SHOT, FactScore
from factlab.models.interface import ScriptedModel
from factlab.models.prompt_folders import export_prompts, file_stem, folder_prompts
from factlab.probing.ptrue import PTRUE
from factlab.reports.reproduce import parameters_of
from factlab.runs.plan import estimate, execute
from factlab.studies.final import prompts as wording
from factlab.studies.final.consistency import consistency_cells, consistency_plan
from factlab.studies.final.enrichment import enrichment_plan
from factlab.studies.final.example import scripted_parts
from factlab.studies.final.exhibits import EXHIBITS
from factlab.studies.final.illustrations import illustration_plan
from factlab.studies.final.localization import localization_cells
from factlab.studies.final.probes import counterfactual_plan, example_text, ptrue_plan, question_example, question_plan
from factlab.studies.final.prompts import OWN, PRINTED, PROMPTS, PUBLISHED, factscore_prompt
from factlab.studies.final.redo import PUBLISHED_ROWS
from factlab.studies.final.repeats import noise_plan, repeats_cells, repeats_plan
from factlab.studies.final.study import HINT_NOTE, METHODS, Settings, localization_plan
from factlab.verification import factscore
from factlab.verification.extraction import BY_PASSAGE, BY_SENTENCE, EXTRACT

SAID = 'As it is printed. '


@pytest.fixture
def parts(home):
    return scripted_parts()


@pytest.fixture
def theirs(monkeypatch):
    "What the authors publish, in the test's own words."
    ours = {prompt.name: prompt for prompt in PROMPTS}
    made = {name: replace(ours[name], user='Published. ' + ours[name].user, source='paper') for name in PUBLISHED}
    monkeypatch.setattr(Settings, 'PUBLISHED', {name: lambda prompt=prompt: prompt for name, prompt in made.items()})


@pytest.fixture
def printed(tmp_path) -> str:
    "A folder as a reader makes it: every prompt exported, and another text put into each file."
    folder = tmp_path/'printed'
    for file in export_prompts(PROMPTS, folder, 'final'):
        if file.suffix == '.txt': file.write_text(SAID + file.read_text(encoding='utf-8'), encoding='utf-8')
    return str(folder)


# ---- what the authors publish ------------------------------------------------------------------------------------------------------

def authors_text(name: str) -> str:
    "What the authors' code shows: prompt.txt, filled in, and what stands in the other file behind it."
    from factlab.data.files import get
    folder, = {path.parent for path in Path(get('final')).rglob('prompt.txt') if path.parent.name == name}
    main, past = folder/'prompt.txt', folder/'past_text_prompt.txt'
    return main.read_text(encoding='utf-8') + ('\n\n' + past.read_text(encoding='utf-8') if past.exists() else '')


def filled(template: str, **values: str) -> str:
    template = template.replace('{{', '\0').replace('}}', '\1')
    for name, value in values.items(): template = template.replace(f'{{{name}}}', value)
    return template.replace('\0', '{').replace('\1', '}').strip()


@pytest.mark.parametrize('ours', [*ZERO_SHOT, *FEW_SHOT, *COT], ids=file_stem)
def test_the_authors_files_are_asked_verbatim(ours, final_data):
    theirs = PUBLISHED[ours.name]()
    message, = theirs.render(text='T-{x} {summary}', summary='S-{x}')
    expected = filled(authors_text(file_stem(ours)), summary='S-{x}', text='T-{x} {summary}')
    assert message.role == 'user' and message.content.strip() == expected
    assert (theirs.name, theirs.fields, theirs.source) == (ours.name, ours.fields, 'paper') and theirs.sha256 != ours.sha256


def test_the_authors_judge_is_asked_verbatim(final_data):
    theirs = PUBLISHED[MATCH.name]()
    message, = theirs.render(summary='S', gold='A. one', predicted='A. two')
    assert message.content.strip() == filled(authors_text('cot_judgement_prompt'), summary='S', gold='A. one', model_output='A. two')
    assert theirs.fields == MATCH.fields


@pytest.mark.parametrize('hint, plain', list(zip(COT_HINT, COT, strict=True)), ids=['1', '2'])
def test_the_hint_is_the_authors_chain_of_thought_with_a_sentence_of_ours_more_and_a_line_less(hint, plain, final_data):
    lines = [line for line in authors_text(file_stem(plain)).rstrip().splitlines() if 'return None' not in line]
    first, end, rest = lines[0].partition('a summary.')
    assert first and HINT not in '\n'.join(lines)
    expected = '\n'.join([f'{first}{end} {HINT}{rest}', *lines[1:]])
    found = PUBLISHED[hint.name]()
    assert found.user.strip() == expected.strip() and found.name == hint.name and found.source == 'paper' and 'None' not in found.user


def test_a_published_file_of_another_form_is_not_given_a_hint(monkeypatch):
    monkeypatch.setattr(wording, 'paper_prompt', lambda name, fields: replace(COT[0], user='Read it. {text} {summary}'))
    with pytest.raises(DataError, match='cot1 differs from what was expected'): PUBLISHED[COT_HINT[0].name]()


def test_prompts_whose_files_cannot_be_had_say_what_to_do(monkeypatch, tmp_path):
    (tmp_path/'final').mkdir()
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path))
    monkeypatch.setenv('FACTLAB_DATA_MIRROR', 'http://127.0.0.1:9')
    with pytest.raises(DataError, match='FACTLAB_DATA|final'): Settings(prompts='paper').localizers('cot')


def test_factscores_demonstrations_come_before_the_summary(monkeypatch, tmp_path):
    solved = {f'Sentence {number} in {{braces}}.': [f'Fact {number}a.', f'Fact {number}b.'] for number in range(8)}
    solved |= {'The mill burned.': ['A mill burned.'], 'Ada was born.': ['Ada lives.']}
    (tmp_path/'demons.json').write_text(json.dumps(solved), encoding='utf-8')
    monkeypatch.setattr(factscore, 'get', lambda data, file: tmp_path/file)
    model = ScriptedModel('facts', lambda request: '- A fact.', revision='prompts')
    rows = pl.DataFrame({'summary': ['The mill closed in 1931.', 'Ada was born in London. The mill burned down.']})
    states, responses = FactScore(decomposition=factscore_prompt(), retry_unparsed=False).facts(rows, model, False)
    assert [state[2] for state in states] == [['A fact.'], ['A fact.', 'A fact.']] and [len(each) for each in responses] == [1, 2]
    nearest = ('The mill burned.\n- A mill burned.', 'Ada was born.\n- Ada lives.', 'The mill burned.\n- A mill burned.')
    sentences = ('The mill closed in 1931.', 'Ada was born in London.', 'The mill burned down.')  # FActScore asks about one at a time
    for request, near, summary in zip(model.asked, nearest, sentences, strict=True):
        blocks = request.messages[0].content.split('\n\n')
        assert len(blocks) == 9 and 'Sentence 6 in {braces}.\n- Fact 6a.\n- Fact 6b.' in blocks[6]
        assert blocks[7].endswith(f': {near}') and blocks[8].endswith(f': {summary}\n')
        assert {block.partition(':')[0] for block in blocks} == {'Please breakdown the following sentence into independent facts'}
    lost = ScriptedModel('lost', lambda request: 'None.' if 'down.' in request.messages[0].content else '- A fact.', revision='prompts')
    states, _ = FactScore(decomposition=factscore_prompt(), retry_unparsed=False).facts(rows, lost, False)
    assert [state[0] for state in states] == ['ok', 'unparsed'], 'the sentence that is lost may be the wrong one'
    (tmp_path/'demons.json').write_text('[1]', encoding='utf-8')
    with pytest.raises(DataError, match='demonstrations'): factscore_prompt()


def test_the_real_demonstrations_are_shown_as_they_are():
    real_data('factscore')
    known = factscore.demonstrations()
    for sentence in known: assert factscore.most_similar(sentence, list(known)) == sentence
    shown = factscore_prompt().render(summary='He was born in York.', nearest=factscore.nearest_solved(['He was born in York.'])[0])
    assert len(known) == 21 and shown[0].content.count('Please breakdown') == 9
    for sentence in list(known)[:7]: assert factscore.solved(sentence, known[sentence]) in shown[0].content
    assert factscore.nearest_solved(['He was born in York.'])[0] in shown[0].content


def test_what_is_published_can_be_written_into_a_folder_and_read(final_data, tmp_path):
    export_prompts([PUBLISHED[each.name]() if each.name in PUBLISHED else each for each in PROMPTS], tmp_path/'new', 'final')
    read, page = folder_prompts(tmp_path/'new', PROMPTS, Settings.OPTIONAL), (tmp_path/'new'/'README.md').read_text(encoding='utf-8')
    for name, prompt in read.items():
        if name in PUBLISHED: assert prompt.sha256 == PUBLISHED[name]().sha256
    assert page.count('A usual answer:') == len(PROMPTS) and {each.name for each in PROMPTS} == read.keys()


# ---- paper: refused where it is only printed ---------------------------------------------------------------------------------------

@pytest.mark.parametrize('planned, file, where', [
    (lambda: localization_plan(methods=['factscore'], **PAPER), 'detect.txt', 'Appendix H.2.5'),
    (lambda: localization_plan(methods=['self_cot_hint'], **PAPER), 'binary.txt', 'Appendix H.3'),
    (lambda: illustration_plan('final/fig9', **PAPER), 'detect.txt', 'Appendix H.2.5'),
    (lambda: consistency_plan('final/fig4', **PAPER), 'binary.txt', 'Appendix H.3'),
    (lambda: consistency_plan('final/table8', **PAPER), 'binary.txt', 'Appendix H.3'),
    (lambda: ptrue_plan(**PAPER), 'ptrue.txt', 'Appendix G.1'),
    (lambda: question_plan(prompts='paper'), 'ptrue.txt', 'Appendix G.1'),
    (lambda: counterfactual_plan(made='tiny', **PAPER), 'counterfactual.txt', 'the authors publish no file'),
])
def test_paper_refuses_what_is_only_printed_by_its_file(planned, file, where, theirs, parts):
    with pytest.raises(UsageError) as raised: planned()
    assert file in str(raised.value) and where in str(raised.value)


PAPER = {'prompts': 'paper', 'limit': 2, 'retry_unparsed': False}


def test_paper_asks_what_is_published_and_nothing_of_ours(theirs, parts):
    methods = [name for name in PUBLISHED_ROWS if not name.startswith('classifier')]
    plan = localization_plan(models=['detector'], methods=methods, judge='judge', loaded=parts, **PAPER)
    done = execute(plan, store=False)
    asked = [request for name in ('detector', 'judge') for request in parts[name].asked if request.label != 'claims']
    published = {request.label for request in asked if request.messages[0].content.startswith('Published. ')}
    assert published >= {*(f'final/{style}{at}' for style in ('zero_shot', 'few_shot', 'cot') for at in (1, 2)), MATCH.name}
    assert any(label.endswith('_hint') for label in published)
    assert not {request.label for request in asked if request.label.startswith('final/')} - published
    cells = localization_cells(plan, done)
    assert cells.filter(metric='prompts of factlab')['measured'].to_list() == [0]*len(methods)


@pytest.mark.parametrize('planned', [localization_plan, noise_plan])
def test_rows_whose_prompts_are_published_are_planned_with_paper_alone(planned, theirs, parts):
    def plan(methods): return planned(models=['detector'], methods=methods, judge='judge', verifier='overlap', loaded=parts, **PAPER)
    assert estimate(plan(PUBLISHED_ROWS), store=False)['calls'].sum()
    assert HINT_NOTE in plan(['oracle_cot_hint']).notes and HINT_NOTE not in plan(['cot']).notes, 'not in silence'
    for name in METHODS.keys() - {*PUBLISHED_ROWS, 'rejected_claims'}:
        with pytest.raises(UsageError, match='publish no file'): plan([name])


def test_exhibits_without_a_prompt_of_the_paper_run_with_paper(theirs, parts):
    for plan in (illustration_plan('final/fig10', **PAPER), counterfactual_plan(models=['detector'], loaded=parts, **PAPER)):
        assert estimate(plan) is not None


# ---- a folder ----------------------------------------------------------------------------------------------------------------------

def reworded(parts: dict) -> dict[str, bool]:  # by label: was it asked in the folder's words?
    return {request.label: any(message.content.startswith(SAID) for message in request.messages)
            for name in ('detector', 'judge') for request in parts[name].asked if request.label.startswith(('final/', 'oasis/'))}


def test_every_row_of_table_4_and_7_in_the_words_of_a_folder(printed, parts):
    for exhibit in ('final/table4', 'final/table7'):
        plan = localization_plan(exhibit, models=['detector'], judge='judge', verifier='overlap', prompts=printed, limit=4, loaded=parts,
                                 retry_unparsed=False)
        cells = localization_cells(plan, execute(plan, store=False)).filter(metric='F1', status='measured', kind='value')
        for row in ('FactScore', 'Self + CoT', 'Self + CoT&Hint', 'Zero-Shot', 'Few-Shot', 'CoT', 'Oracle + CoT&Hint'):
            assert cells.filter(row=row)['measured'].drop_nulls().len(), row
    found = reworded(parts)
    assert found.keys() >= {DECOMPOSE.name, DETECT.name, MERGE.name, 'final/binary', MATCH.name, EXTRACT.name} and all(found.values())
    assert any(label.endswith('_hint') for label in found)


def test_table_8_and_9_and_figure_4_in_the_words_of_a_folder(printed, parts):
    how = {'models': ['detector'], 'judge': 'judge', 'prompts': printed, 'limit': 4, 'loaded': parts, 'retry_unparsed': False}
    for exhibit in ('final/table8', 'final/fig4'):
        plan = consistency_plan(exhibit, **how)
        done = execute(plan, store=False)
    assert consistency_cells(consistency_plan('final/table8', **how), execute(consistency_plan('final/table8', **how), store=False)).filter(
        row='detector', column='F1')['measured'].drop_nulls().len()
    plan = repeats_plan(verifier='overlap', methods=['factscore', 'self_cot'], runs=2, temperature=.5, **how)
    done = execute(plan, store=False)
    means = repeats_cells(plan, done).filter(metric='F1', kind='value', status='measured')
    assert {*means.filter(model='detector')['method'].unique()} >= {METHODS['factscore'], METHODS['self_cot']}
    found = reworded(parts)
    assert {DETECT.name, 'final/binary', MATCH.name} <= found.keys() and all(found.values())


def test_figure_11_shows_the_folders_question(printed, parts):
    parts['letters'] = ScriptedModel('letters', lambda request: 'A', revision='prompts')
    plan = question_plan(models=['letters'], prompts=printed, loaded=parts)
    example = question_example(plan, execute(plan, store=False))
    assert example['prompt'].source == 'yours' and f'[user]\n{SAID}' in example_text(example)
    assert plan.parameters['prompts'] == printed and PTRUE.name == example['prompt'].name


def test_a_prompt_without_a_file_stays_ours_and_is_counted(printed, parts):
    for file in Path(printed).glob('*.txt'):
        if file.stem != 'detect': file.unlink()
    plan = localization_plan(models=['detector'], methods=['factscore'], prompts=printed, limit=2, loaded=parts, retry_unparsed=False)
    cells = localization_cells(plan, execute(plan, store=False)).filter(metric='prompts of factlab')
    assert cells.select('row', 'measured').row(0) == ('FactScore', 2)
    assert {label: said for label, said in reworded(parts).items() if label in (DETECT.name, MERGE.name, DECOMPOSE.name)} == {
        DETECT.name: True, MERGE.name: False, DECOMPOSE.name: False}


def test_every_prompt_is_ours_published_or_printed_or_people_wrote_it():
    names = {prompt.name for prompt in PROMPTS}
    people = {'final/ask_question', 'final/questions', 'final/counterfactual'}
    assert names - {*PUBLISHED, *PRINTED} == people | {each.name for each in OWN}
    assert len(names) == len(PROMPTS) and all(prompt.example_answer for prompt in PROMPTS)


# ---- the export --------------------------------------------------------------------------------------------------------------------

SERVER = 'openai:any?base_url=http://127.0.0.1:9/v1'


@pytest.mark.parametrize('exhibit', [exhibit for exhibit in EXHIBITS if exhibit.plan], ids=lambda exhibit: exhibit.name)
def test_every_prompt_that_an_exhibit_asks_is_in_the_export(home, exhibit):
    how = {'models': [SERVER], 'judge': SERVER, 'verifier': f'prompt:{SERVER}', 'made': SERVER, 'limit': 2, 'retry_unparsed': False}
    there = parameters_of(exhibit)
    labels = estimate(exhibit.plan(**{name: value for name, value in how.items() if name in there}), store=False)['label']
    asked = {label.removesuffix('/sampled') for label in labels}
    assert asked <= {prompt.name for prompt in PROMPTS}
    if 'methods' in there and exhibit.name != 'table9': assert {each.name for each in OWN} <= asked


def test_enrichment_asks_what_is_in_the_export(home):
    assert set(estimate(enrichment_plan(models=[SERVER], judge=SERVER, limit=2), store=False)['label']) <= {each.name for each in PROMPTS}


def test_rows_of_ours_ask_in_the_words_of_a_folder_and_else_in_ours(printed, parts):
    for prompts, source in (('ours', 'ours'), ('paper', 'ours'), (printed, 'yours')):
        settings = Settings(prompts=prompts, loaded=parts)
        assert settings.claim_form(BY_PASSAGE).prompt.source == settings.load_verifier('prompt:tiny').form.prompt.source == source
        assert settings.claim_form(BY_SENTENCE) == BY_SENTENCE and settings.load_verifier('overlap') is parts['overlap']
    divided = Settings(prompts=printed).claim_form(BY_PASSAGE).divide('Owls hunt.')
    assert divided[0][0].content.startswith(SAID) and 'Owls hunt.' in divided[0][0].content
