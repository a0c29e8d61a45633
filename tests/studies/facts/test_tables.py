"""FACTS' tables on a labelled file and with any judges: what is asked in which words, which prompts are chosen, what is refused."""
import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from conftest import written

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.core.core import DataError, UsageError
from factlab.grounding.judges import TEMPLATES
from factlab.models.interface import Request, ScriptedModel
from factlab.reports.published import published_values
from factlab.runs.plan import Done, Plan, execute, manifest
from factlab.studies.facts.judge_rates import rate_cells
from factlab.studies.facts.leaderboard import leaderboard_cells
from factlab.studies.facts.measured import UNREAD
from factlab.studies.facts.panel import (
    ELIGIBILITY_NAMES,
    TEMPLATE_NAMES,
    beside_printed,
    best_prompts,
    preference_plan,
    ranking_cells,
    ranking_plan,
    rates_cells,
    rates_plan,
    self_preference_cells,
)
from factlab.studies.facts.study import Settings, choices, judgements, labelled_rows, leaderboard_plan, paper_choice

SAID = {'good': 'It opened in 1901 ({}).', 'bad': 'It burned down in 1931 ({}).', 'evasive': 'It opened ({}).'}


@pytest.fixture()
def own(tmp_path):
    "Six documents of two splits, three kinds of responses to each."
    rows = [{'id': f'{split}{at}/{kind}', 'document_id': f'{split}{at}', 'split': split, 'request': 'When did it open?',
             'document': f'Mill {split}{at} opened in 1901.', 'kind': kind, 'response': text.format(f'{split}{at}'),
             'accurate': kind != 'bad', 'eligible': kind != 'evasive'}
            for split in ('dev', 'test') for at in range(3) for kind, text in SAID.items()]
    return written(tmp_path/'own.jsonl', *rows)


def rows_of(path: str) -> list[dict]: return [json.loads(line) for line in Path(path).read_text(encoding='utf-8').splitlines()]


def judge(name: str, salt: str, *, knows: str = 'json', eligible_by: str = 'eligible_by_document') -> ScriptedModel:
    "It is right with one template and one prompt of eligibility, calls everything accurate and eligible with others, and answers 'good'."
    def said(request: Request) -> str:
        text, label = request.messages[-1].content, request.label.rpartition('/')[2]
        accurate = 'burned' not in text or label != knows
        if label == 'respond': return SAID['good'].format(name)
        if label.startswith('eligible'):
            major = 'It opened (' in text.partition('The other response')[0] and label == eligible_by
            return json.dumps({'Instruction Following': 'Major Issue(s)' if major else 'No Issues'})
        if label == 'json': return json.dumps({'sentence': 'S.', 'label': 'supported' if accurate else 'unsupported', 'excerpt': ''})
        if label == 'simpleqa': return 'A' if accurate else 'B'
        return f'{"Final Answer" if label == "implicit_span" else "Verdict"}: {"Accurate" if accurate else "Inaccurate"}'
    return ScriptedModel(name, said, f'tables {salt}')


def done_of(plan: Plan) -> Done: return execute(plan, store=False)


def labels_of(model: ScriptedModel) -> Counter: return Counter(request.label for request in model.asked)


# ---- which prompt each judge is given -----------------------------------------------------------------------------------------------

def test_each_judge_is_given_what_is_best_on_the_files_own_development_rows(own):
    "Templates and eligibility. What is not chosen is asked about the nine development rows alone."
    models = {name: judge(name, 'choice', knows=knows) for name, knows in (('one', 'json'), ('two', 'response'))}
    plan = ranking_plan('facts/table6', data=own, judges=['one', 'two'], split='test', templates=['response', 'json'], draws=50,
                        eligibility=['request', 'request_and_document'], baselines=False, loaded=models)
    done = done_of(plan)
    assert choices(plan, done) == {'chosen': {'one': 'json', 'two': 'response'},
                                   'chosen_eligibility': dict.fromkeys(models, 'eligible_by_request_and_document')}
    asked = labels_of(models['one'])
    assert (asked['grounding/response'], asked['grounding/json']) == (9, 18)
    assert (asked['grounding/eligible_by_request'], asked['grounding/eligible_by_document']) == (9, 18)
    cells = ranking_cells(plan, done).filter(status='measured')
    average = dict(cells.filter(column='Average (%)', kind='value').select('row', 'measured').iter_rows())
    assert average == {'good': 100, 'bad': 0, 'evasive': 0}
    again = ranking_plan('facts/table6', **json.loads(json.dumps(dict(plan.parameters))), loaded=models)
    assert again.digest == plan.digest


def test_a_limit_of_requests_takes_no_development_row_from_the_choice(own):
    "What is chosen, and by how many rows, is the same with one request as with all; of baselines what they are fitted on."
    def asked(limit: int|None) -> tuple:
        model = judge('j', f'limit {limit}', knows='json')
        given = {'templates': ['response', 'json'], 'eligibility': ['request', 'request_and_document'], 'loaded': {'j': model}}
        plan = ranking_plan('facts/table6', data=own, judges=['j'], split='test', limit=limit, draws=50, baselines=False, **given)
        chosen = choices(plan, done_of(plan))
        count = labels_of(model)['grounding/response'], labels_of(model)['grounding/eligible_by_request']
        entry, *_, counting = leaderboard_plan(data=own, judges=['j'], limit=limit, **given).entries
        steps = entry.step, entry.about['eligibility'], counting.step
        return chosen, count, [step.inputs['dev'].frame['id'].to_list() for step in steps], len(labelled_rows(Settings(own, limit)).frame)
    *every, rows = asked(None)
    *few, first = asked(1)
    assert every == few and every[1] == (9, 9) and {len(ids) for ids in every[2]} == {9} and first < rows


@pytest.mark.parametrize('lacks, given, said', [
    ('split', {'templates': ['response', 'json']}, "split 'dev' and accurate.*templates=paper"),
    ('accurate', {'templates': ['response', 'json']}, "split 'dev' and accurate"),
    ('eligible', {'eligibility': ['request', 'request_and_document']}, "split 'dev' and eligible.*chosen_eligibility"),
])
def test_a_choice_without_labelled_development_rows_is_refused(lacks, given, said, own, tmp_path):
    path = written(tmp_path/'few.jsonl', *({name: value for name, value in row.items() if name != lacks} for row in rows_of(own)))
    with pytest.raises(DataError, match=said):
        ranking_plan('facts/table6', data=path, judges=['j'], loaded={'j': judge('j', 'refused')}, **given)
    each = {'chosen': {'j': 'json'}, 'chosen_eligibility': {'j': 'request'}}
    assert ranking_plan('facts/table6', data=path, judges=['j'], loaded={'j': judge('j', 'refused')}, **given, **each).entries


def test_the_papers_choice_is_what_its_tables_print():
    "Bold in Tables 2 and 4: the best macro-F1 of each judge."
    for id, names, at in (('facts/table2', TEMPLATE_NAMES, 0), ('facts/table4', ELIGIBILITY_NAMES, 1)):
        printed = published_values(id).filter(pl.col('metric') == 'Macro-F1 (%)', pl.col('row') != 'All')
        for judge_name in ('Gemini 1.5 Pro', 'GPT-4o', 'Claude 3.5 Sonnet'):
            best = printed.filter(pl.col('row').str.starts_with(judge_name)).sort('value')['row'][-1]
            assert names[paper_choice(judge_name)[at]] == best.partition(', ')[2]


def test_templates_of_the_paper_are_asked_of_its_judges_alone(own):
    names = {'gpt-4o-2024-08-06': 'json', 'claude-3-5-sonnet-latest': 'implicit_span'}
    models = {name: judge(name, 'paper’s choice', knows=known) for name, known in names.items()}
    plan = ranking_plan('facts/table6', data=own, judges=[*names, 'words'], templates='paper', eligibility='paper', draws=50, loaded=models)
    done_of(plan)
    assert {name: {*labels_of(model)} for name, model in models.items()} == {
        name: {f'grounding/{known}', 'grounding/eligible_by_request'} for name, known in names.items()}
    for other in ('gpt-4o-mini', 'llama'):
        with pytest.raises(UsageError, match='names none of them'):
            ranking_plan(data=own, judges=[other], templates='paper', loaded={other: models['gpt-4o-2024-08-06']})
    with pytest.raises(UsageError, match='or paper alone'): ranking_plan(data=own, judges=['words'], templates=['paper', 'json'])


# ---- tables 2 and 4 -----------------------------------------------------------------------------------------------------------------

def test_table_4_asks_with_both_prompts_and_says_which_is_better(own):
    model = judge('j', 'table 4')
    plan = rates_plan('facts/table4', data=own, asked=['j'], few=None, judges=[], loaded={'j': model})
    cells = rates_cells(plan, done_of(plan))
    found = dict(cells.filter(model='j', metric='Macro-F1 (%)', kind='value').select('method', 'measured').iter_rows())
    assert found['User request and context document'] == 100 > found['User request only']
    assert best_prompts(plan, cells) == {'best by macro-F1': {'j': 'User request and context document'}}
    assert set(cells.filter(model='j')['n']) <= {9, 6, 3} and labels_of(model).total() == 18  # test rows alone
    one = rates_plan('facts/table4', data=own, asked=['j'], judges=[], eligibility='request', loaded={'j': model})
    assert [entry.method for entry in one.entries] == ['User request only']
    with pytest.raises(UsageError, match='name models in asked'): rates_plan(data=own, judges=['j'])


def test_table_2_asks_with_all_seven_templates_in_the_authors_words_from_a_folder(own, tmp_path, published_templates):
    """The six published ones as `factlab prompts export --published` writes them, and the seventh pasted beside them. A file without
    eligibility or splits is enough."""
    assert run_command(parser(), ['prompts', 'export', 'facts', str(tmp_path/'words'), '--published']) == 0
    (tmp_path/'words'/'simpleqa.txt').write_text('{document}{request}{response} A, B or C, one letter?', encoding='utf-8')
    (tmp_path/'words'/'simpleqa.system.txt').write_text('You grade.', encoding='utf-8')
    rows = [{name: value for name, value in row.items() if name not in ('eligible', 'split')} for row in rows_of(own)]
    model = judge('script', 'all seven', knows='json')
    plan = rates_plan(data=written(tmp_path/'bare.jsonl', *rows), asked=['script'], few=2, templates=list(TEMPLATES), judge_tokens=900,
                      prompts=str(tmp_path/'words'), loaded={'script': model})
    entries = [entry for entry in plan.entries if entry.model == 'script']
    assert [entry.method for entry in entries] == [TEMPLATE_NAMES[name] for name in TEMPLATES] and len(entries) == 7
    done = execute(*[entry.step for entry in entries], store=False, folder=tmp_path)
    assert {done[entry.step].height for entry in entries} == {6} and {request.max_tokens for request in model.asked} == {900, 16}
    theirs = pl.read_csv(published_templates).filter(evaluation_method='span_level')['evaluation_prompt'].item()
    sent = next(request.messages[-1].content for request in model.asked if request.label == 'grounding/span')
    assert sent.startswith(theirs[:60]) and '{' not in sent[:200]
    told = manifest(Plan('facts/table2', {}, tuple(entries)), done)['prompts']
    assert {each['source'] for each in told.values()} == {'yours'} and 'grounding/simpleqa@2' in told
    with pytest.raises(DataError, match='no labels eligible'): rates_plan('facts/table4', data=str(tmp_path/'bare.jsonl'))


def test_a_folder_words_responders_and_eligibility_and_the_rest_stays_ours(own, tmp_path):
    words = tmp_path/'words'
    words.mkdir()
    (words/'respond.txt').write_text('ASK {request} OF {document}', encoding='utf-8')
    (words/'respond.system.txt').write_text('BE {system} TRUE', encoding='utf-8')
    (words/'eligible_by_request.txt').write_text('{request} {response} {baseline} JSON', encoding='utf-8')
    model = judge('j', 'folder')
    plan = ranking_plan('facts/table6', data=own, judges=['j'], responders=['j'], prompts=str(words), baselines=False, draws=50,
                        loaded={'j': model})
    done = done_of(plan)
    shown = {request.label: [message.content for message in request.messages] for request in model.asked}
    assert shown['grounding/respond'] == ['BE  TRUE', 'ASK When did it open? OF Mill test2 opened in 1901.']
    assert shown['grounding/eligible_by_request'][-1].endswith('JSON')
    told = {id: each['source'] for id, each in manifest(plan, done)['prompts'].items()}
    assert told == {'grounding/respond@1': 'yours', 'grounding/eligible_by_request@2': 'yours', 'grounding/response@2': 'ours'}
    (words/'respond.txt').write_text('ASK {request}', encoding='utf-8')
    with pytest.raises(UsageError, match=r'respond\.txt lacks the placeholder \{document\}'): ranking_plan(data=own, prompts=str(words))


# ---- tables 5 and 6 -----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('id', ['facts/table5', 'facts/table6'])
def test_unread_verdicts_as_not_grounded_beside_scores_that_leave_them_out(id, own):
    "Of the three good responses of each split one verdict cannot be read: 100 % of what was read, two thirds by the starter's reading."
    def said(request: Request) -> str:
        text = request.messages[-1].content
        if 'Instruction Following' in text: return '{"Instruction Following": "No Issues"}'
        return 'Hm.' if 'test0' in text or 'dev0' in text else 'Verdict: Accurate'
    plans = [ranking_plan(id, data=own, judges=['half'], unread_as_ungrounded=shown, baselines=False, draws=50,
                          loaded={'half': ScriptedModel('half', said, f'half of {id}')}) for shown in (False, True)]
    without, cells = (ranking_cells(plan, done_of(plan)).filter(status='measured') for plan in plans)
    assert without['column'].str.contains(UNREAD).sum() == 0
    for column in ('test half', 'dev half', 'Average'):
        def cell(name: str) -> dict: return cells.filter(row='good', column=name, kind='value').row(0, named=True)
        ours, theirs = cell(f'{column} (%)'), cell(f'{column} (%), {UNREAD}')
        assert ours['measured'] == 100 and theirs['measured'] == pytest.approx(200/3) and ours['unparsed'] == theirs['unparsed'] > 0


def test_answers_of_models_and_of_a_file_are_ranked(own, tmp_path):
    models = {name: judge(name, 'ranked') for name in ('a', 'b')}
    plan = ranking_plan(data=own, judges=['a'], responders=['a', 'b'], templates='json', baselines=False, draws=50, loaded=models)
    assert {*judgements(plan, done_of(plan))['responder']} == {'a', 'b'}
    answers = [{'request_id': row['document_id'], 'responder': 'mine', 'response': row['response']} for row in rows_of(own)
               if row['kind'] == 'bad']
    plan = ranking_plan(data=own, judges=['a'], responses=written(tmp_path/'answers.jsonl', *answers), templates='json', baselines=False,
                        draws=50, loaded=models)
    scores = ranking_cells(plan, done_of(plan)).filter(status='measured', kind='value', row='mine')
    assert dict(scores.select('column', 'measured').iter_rows()) == {'test a (%)': 0, 'dev a (%)': 0, 'Average (%)': 0, 'Fused rank': 1}


def test_requests_without_responses_labels_or_splits_are_enough_where_models_answer(tmp_path):
    "As FACTS' own public file has them, under its names of the columns."
    rows = [{'id': f'q{at}', 'system_instruction': 'Use it.', 'user_request': 'When?', 'context_document': f'Mill {at} opened in 1901.'}
            for at in range(3)]
    data, models = written(tmp_path/'requests.jsonl', *rows), {name: judge(name, 'requests') for name in ('a', 'b')}
    plan = ranking_plan('facts/table6', data=data, judges=['a', 'words'], responders=['a', 'b'], draws=50, baselines=False, loaded=models)
    scores = ranking_cells(plan, done_of(plan)).filter(status='measured', column='a (%)')
    assert dict(scores.select('row', 'n').iter_rows()) == {'a': 3, 'b': 3} and 'beside the responses of a' in plan.notes[0]
    plan = preference_plan(data=data, asked=['a', 'b'], judges=[], few=None, draws=50, loaded=models)
    assert 'a and b (few)' in self_preference_cells(plan, done_of(plan))['row']
    for make in (ranking_plan, rates_plan):
        with pytest.raises(DataError, match='Name responders'): make(data=data)


# ---- what is sent -------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('make', [
    lambda model, **more: rates_plan(data='sample', asked=['j'], few=1, templates='response', loaded={'j': model}, **more),
    lambda model, **more: rates_plan('facts/table4', data='sample', asked=['j'], few=1, loaded={'j': model}, **more),
    lambda model, **more: ranking_plan('facts/table6', judges=['j'], responders=['j'], limit=1, split='test', draws=50, max_tokens=33,
                                       loaded={'j': model}, **more),
    lambda model, **more: preference_plan(data='sample', asked='j', judges='words', few=1, draws=50, max_tokens=33, loaded={'j': model},
                                          **more),
])
def test_lengths_temperature_and_a_second_asking_reach_the_model(make):
    "The first answer cannot be read, the second, in the same conversation, can."
    def said(request: Request) -> str:
        if request.label == 'grounding/respond': return 'It says so.'
        if len(request.messages) < 3: return 'Hm.'
        return '{"Instruction Following": "No Issues"}' if 'Instruction' in request.messages[-1].content else 'Verdict: Accurate'
    models = [ScriptedModel('j', said, f'second asking {again}') for again in (False, True)]
    for again, model in zip((False, True), models, strict=True):
        plan = make(model, judge_tokens=77, temperature=.5, retry_unparsed=again)
        done = execute(*[step for step in plan.steps if step.model is not None], store=False)
        status = pl.concat([done[step].select('status', 'reason') for step in plan.steps if step.model and 'answer' in done[step].columns])
        assert set(status['status']) == {'ok' if again else 'unparsed'}
        assert status['reason'].str.contains('second asking').all() == again
        assert {request.temperature for request in model.asked} == {.5}
        assert {request.max_tokens for request in model.asked if request.label != 'grounding/respond'} == {77}
        assert {request.max_tokens for request in model.asked if request.label == 'grounding/respond'} <= {33}
    first, second = (labels_of(model) for model in models)
    assert sum(count for label, count in second.items() if label.endswith('_again')) == first.total() - first['grounding/respond']
    with pytest.raises(UsageError, match='temperature'): make(models[0], temperature=-1)


def test_several_models_answer_and_judge_each_other(own):
    models = {name: judge(name, 'each other') for name in ('a', 'b')}
    plan = preference_plan(data=own, asked=['a', 'b'], judges='words', few=None, templates='json', draws=50, loaded=models)
    cells = self_preference_cells(plan, done_of(plan))
    assert {'a, own answers', 'b, own answers', 'a and b (few)'} <= {*cells['row']}
    assert not cells.select('row', 'column', 'kind').is_duplicated().any()


# ---- as they stand ------------------------------------------------------------------------------------------------------------------

def test_as_they_stand_printed_recomputed_and_measured_cells_stand_side_by_side():
    "The exact cells are those of print alone; what the judge of words measures is marked, and asks no model."
    rates = (rates_plan, rates_cells, rate_cells)
    ranking = (ranking_plan, ranking_cells, lambda id: leaderboard_cells(id, 0, 50))
    for at, (make, cells_of, exact) in {2: rates, 4: rates, 5: ranking, 6: ranking}.items():
        id = f'facts/table{at}'
        plan = make(id, **({'draws': 50} if cells_of is ranking_cells else {}))
        cells, printed = cells_of(plan, done_of(plan)), exact(id)
        assert cells.head(printed.height).equals(printed) and not [step for step in plan.steps if step.models]
        more = cells.slice(printed.height)
        assert set(more['status']) == {'measured', 'baseline'} and more['published'].is_null().all() and more['recomputed'].is_null().all()
        assert 'status' not in beside_printed(plan, cells) and not plan.notes
