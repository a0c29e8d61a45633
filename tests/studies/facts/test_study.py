"""The leaderboard as a plan: who answers and judges, what an estimate counts, and that the sample's better responses come out better."""
import json
from collections import Counter
from dataclasses import dataclass

import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer

from factlab.core.core import FactlabError, UsageError
from factlab.data.datasets import load
from factlab.grounding.embedded_judge import offline_encoder
from factlab.grounding.judges import TEMPLATES
from factlab.grounding.scores import EVERY_JUDGE
from factlab.models.interface import Request, Response, ScriptedModel
from factlab.reports.exhibits import find_exhibits
from factlab.runs.plan import Done, Plan, estimate, execute, manifest
from factlab.runs.runs import list_runs, load_run
from factlab.studies.facts import study
from factlab.studies.facts.commands import board_table
from factlab.studies.facts.measured import board_cells
from factlab.studies.facts.panel import measured_preference, preference_plan, ranking_plan, rates_plan, self_preference_cells
from factlab.studies.facts.study import Settings, judgements, labels_of, leaderboard_plan, planted_order, templates_of
from factlab.text.fences import fenced_in


def knowing(name: str, share: float = 1.0) -> ScriptedModel:
    "A judge that knows the sample's labels, and is right about a share of the responses."
    known = {response: (accurate, eligible) for response, accurate, eligible in load('facts-sample').select('response', 'accurate',
        'eligible').iter_rows()}
    def answer(request: Request) -> str:
        text = request.messages[-1].content
        if 'Response:\n' not in text: return 'It is in the document.'
        shown = fenced_in(text, 'response')
        accurate, eligible = known.get(shown, (False, False))
        if 'Instruction Following' in text: return json.dumps({'Instruction Following': 'No Issues' if eligible else 'Major Issue(s)'})
        right = sum(map(ord, shown)) % 100 < 100*share
        return f'Verdict: {"Accurate" if accurate == right else "Inaccurate"}'
    return ScriptedModel(name, answer, f'{name}{share}')


@dataclass
class Judged:
    "A plan with what its steps gave."
    plan: Plan
    done: Done

    def __getattr__(self, name: str): return lambda **options: getattr(study, name)(self.plan, self.done, **options)


def judged(**settings) -> Judged:
    models = {each.name: each for each in (knowing('sage'), knowing('oracle', .9))}
    plan = leaderboard_plan(**({'judges': ['sage', 'oracle'], 'loaded': models} | settings))
    return Judged(plan, execute(plan, store=False))


def test_judges_that_know_find_the_planted_order():
    found = judged()
    order = planted_order(found.verdicts(), resamples=500)
    clear = order.filter(pl.col('worse').is_in(['one_error', 'several_errors', 'evasive']) & (pl.col('better') == 'grounded'))
    assert clear.height == 3 and clear['clear'].all()
    board = found.board_of(resamples=500)
    assert board['responder'][0] == 'grounded' and board['rank'][0] == 1 and board['first'][0] > .9
    scores = found.scores_of(resamples=100).filter(pl.col('judge') == 'sage', pl.col('responder') == 'evasive')
    assert dict(scores.select('score', 'value').rows()) == {'unadjusted': 1, 'final': 0}
    assert board.filter(pl.col('status') == 'baseline')['final'].max() == 0


def test_a_judge_is_asked_with_the_template_that_is_best_on_development_rows():
    found = judged(templates=['response', 'json'], limit=6, eligibility='none')
    assert found.choices() == {'chosen': {'sage': 'response', 'oracle': 'response'}} and found.eligibilities() is None
    assert found.judgements()['template'].unique().to_list() == ['response']
    asked = Counter(request.label.partition('@')[0] for request in found.plan.entries[0].step.model.asked)
    dev = found.plan.entries[0].step.inputs['dev'].frame
    assert asked['grounding/json'] == dev.height < asked['grounding/response']  # the other template was asked there alone
    assert set(found.judgements()['request_id']).isdisjoint(dev['request_id'])
    own = judged(templates=['response', 'json'], limit=2, responders=['sage'], eligibility='none')  # without labels: the sample's
    assert own.judgements()['template'].unique().to_list() == ['response']


def test_a_judge_has_the_template_that_is_named_for_it():
    found = judged(judges=['sage', 'words'], chosen={'sage': 'json', 'words': 'span'}, limit=2, eligibility='none')
    assert dict(found.judgements().select('judge', 'template').unique().rows()) == {'sage': 'json', 'words': 'words_by_sentences'}
    with pytest.raises(UsageError, match='who do not judge'): leaderboard_plan(chosen={'other': 'json'})
    with pytest.raises(UsageError, match="no template 'json'"): leaderboard_plan(judges=['words'], chosen={'words': 'json'})


def test_every_split_is_a_ranking_of_its_own():
    found = judged(split='all', judges=['oracle', 'words'], eligibility='none')
    scores = found.scores_of(resamples=50).filter(pl.col('responder') == 'grounded')
    assert scores['judge'].to_list() == ['test oracle', 'test words', 'dev oracle', 'dev words', EVERY_JUDGE]
    each = [judged(judges=['words'], eligibility='none', split=split).scores_of(resamples=50) for split in ('test', 'dev')]
    apart = [frame.filter(judge='words', responder='grounded')['value'].item() for frame in each]
    assert scores.filter(pl.col('judge').str.ends_with('words'))['value'].to_list() == apart
    assert abs(scores['value'][:-1].mean() - scores['value'][-1]) < 1e-12


def test_models_answer_and_judge_themselves():
    def said(request: Request) -> str|Response:
        if 'Instruction Following' in request.messages[-1].content: return '{"Instruction Following": "No Issues"}'
        if 'Verdict' in request.messages[-1].content: return 'Verdict: Accurate'
        return 'It says so.' if len(request.messages[-1].content) % 3 else Response.failed('down')
    both = {name: ScriptedModel(name, said, name) for name in ('one', 'two')}
    found = judged(responders=['one', 'two'], judges=['one', 'two'], limit=5, loaded=both)
    failed = found.all_responses_of().filter(pl.col('status') == 'failed').height
    scores, about = found.scores_of(resamples=50), manifest(found.plan, found.done)
    assert labels_of(found.plan) is None and scores.filter('own').height == 4
    one = scores.row(by_predicate=(pl.col('responder') == 'one') & (pl.col('judge') == EVERY_JUDGE) & (pl.col('score') == 'final'),
        named=True)
    assert one['value'] == pytest.approx(1 - failed/10) and one['unanswered'] == failed/2
    assert set(about['models']) == {'one', 'two'} and about['failed'] == failed > 0 and about['prompts']


PAPER_ANSWERS = {  # by the authors' names of their templates, each in the form that it asks for
    'response_level': 'All of it is there.\nAccurate', 'span_level': 'Accurate',
    'json': '{"sentence": "S.", "label": "supported", "excerpt": "E."}',
    'implicit_span_level': 'Sentence 1: S.\nSentence 1 label: Inaccurate\nFinal Answer: Inaccurate',
    'json_alt': '{"sentence": "S.", "label": "contradictory", "excerpt": "E."}', 'json_with_double_check': 'NO',
    'ineligible_responses_filter_no_context': '{"Instruction Following": "Major Issue(s)"}'}


def test_the_authors_templates_through_the_plan(published_templates):
    """The six that are published, and eligibility; the double check takes back what the first asking supported. The seventh is refused by
    name."""
    model = ScriptedModel('script', lambda request: PAPER_ANSWERS[request.label.partition('/')[2]], 'paper')
    each = {name: judged(prompts='paper', judges=['script'], templates=[name], limit=2, loaded={'script': model}, baselines=False)
            for name in TEMPLATES if name != 'simpleqa'}
    with pytest.raises(UsageError, match=r'Appendix A.*paste its text into simpleqa\.txt'):
        judged(prompts='paper', judges=['script'], templates=['simpleqa'], limit=2, loaded={'script': model})
    said = {name: found.judgements()['accurate'].unique().to_list() for name, found in each.items()}
    assert said == {'response': [True], 'span': [True], 'implicit_span': [False], 'json': [True], 'json_alt': [False],
                    'json_double_check': [False]}
    found = each['json_double_check'].eligibilities()
    assert found['template'].unique().to_list() == ['eligible_by_request_paper'] and not found['eligible'].any()
    prompts = manifest(each['json'].plan, each['json'].done)['prompts']
    assert len(prompts) == 2 and {prompt['source'] for prompt in prompts.values()} == {'paper'}


# ---- runs ----------------------------------------------------------------------------------------------------------------------------

def test_judgements_are_runs_as_any_other(tmp_path):
    plan = leaderboard_plan(judges=['sage', 'words'], responders=['sage'], limit=2, loaded={'sage': knowing('sage')})
    execute(plan, store=False, folder=tmp_path)
    listed = list_runs(tmp_path)
    assert set(listed['method']) == {'respond', 'trivial_responders', 'all_responses', 'beside_responder', 'response',
                                     'eligible_by_request', 'words', 'eligible_by_words'}
    run = load_run(listed.filter(method='response')['id'].item(), tmp_path)
    assert run.predictions['calls'].sum() == run.manifest['calls'] == 8 and 'answer' in run.predictions.columns


def test_a_plan_is_a_function_of_its_parameters(tmp_path):
    "As `factlab reproduce --stale` makes it again."
    for id in ('leaderboard', 'judges', 'table2', 'table3', 'table4', 'table5', 'table6', 'selfpreference'):
        make = find_exhibits([f'facts/{id}'])[0].plan
        plan = make(**{name: value for name, value in {'data': 'sample', 'few': 1}.items() if name == 'data' or id in ('table2', 'table4')})
        again = make(**json.loads(json.dumps(dict(plan.parameters))))
        assert again.digest == plan.digest and again.exhibit == f'facts/{id}' and plan.entries
        if id in ('table2', 'table4', 'table5', 'table6', 'selfpreference'): assert make(data=None).entries == ()
    def digest(**more): return leaderboard_plan(**({'judges': ['sage'], 'loaded': {'sage': knowing('sage')}} | more)).digest
    others = [digest(), digest(limit=3), digest(seed=1), digest(judges=['words']), digest(templates=['json']), digest(responders=['sage']),
              digest(templates=['json', 'response']), digest(eligibility='none'), digest(baselines=False), digest(judge_tokens=9)]
    assert len(set(others)) == len(others) and digest() == digest()


@pytest.mark.parametrize('settings', [{'split': 'blind'}, {'data': 'nothing'}, {'judges': ['none:x']}, {'limit': 0}, {'max_tokens': 0},
                                      {'responders': ['a'], 'responses': 'b'}, {'templates': []}, {'prompts': 'theirs'},
                                      {'responses': 'no/such.jsonl'}])
def test_settings_that_do_not_fit_are_refused_while_the_plan_is_made(settings):
    with pytest.raises(FactlabError): leaderboard_plan(**settings)


# ---- estimates -----------------------------------------------------------------------------------------------------------------------

def served(call):
    "A responder whose answers differ, and a judge that labels every sentence supported."
    asked_to_judge = 'Response:\n' in call.prompt or 'Excerpt:\n' in call.prompt
    if not asked_to_judge: return answer(f'{call.body["model"]} says it of {call.number}.')
    if 'YES or NO' in call.prompt: return answer('YES')
    if 'Instruction Following' in call.prompt: return answer('{"Instruction Following": "No Issues"}')
    if 'one letter' in call.prompt: return answer('A')
    said = call.prompt.split('Response:\n', 1)[1].split('\n\n', 1)[0]
    if 'JSON object a line' in call.prompt: return answer(json.dumps({'sentence': said, 'label': 'supported', 'excerpt': said[:30]}))
    return answer('Verdict: Accurate')


def calls_by_model(told: pl.DataFrame) -> dict[str, int]:
    counted = told.with_columns(pl.col('model').str.extract(r'openai:(\w+)')).group_by('model').agg(pl.col('calls').sum())
    return {model: calls for model, calls in counted.iter_rows() if calls}


@pytest.mark.parametrize('responders', [1, 2, 3])
@pytest.mark.parametrize('template', ['response', 'json_double_check'])
def test_an_estimate_is_what_a_run_sends(responders, template, tmp_path):
    "One, two and three responders, two judges, a second look of the JSON template."
    with MisbehavingServer(served) as server:
        def name(model: str) -> str: return f'openai:{model}?base_url={server.url}'
        plan = leaderboard_plan(responders=[name(f'r{at}') for at in range(responders)], judges=[name('j'), name('k'), 'words'], limit=2,
                                templates=[template])
        told = estimate(plan, store=False)
        assert not server.calls and (told['in_store'] == 0).all()
        execute(plan, store=False, folder=tmp_path)
        sent = Counter(call.body['model'] for call in server.calls)
    counted = calls_by_model(told)
    assert counted.keys() == sent.keys() and sent['r0'] == 2
    if template == 'response': assert counted == dict(sent)
    else: assert all(counted[model] >= sent[model] for model in sent) and sent['j'] > 2*2*responders  # a baseline's sentences are few


def test_an_estimate_of_several_templates_is_a_bound(tmp_path):
    with MisbehavingServer(served) as server:
        model = f'openai:j?base_url={server.url}'
        plan = leaderboard_plan(judges=[model], templates=['response', 'simpleqa'], limit=1, baselines=False)
        told = estimate(plan, store=False)
        execute(plan, store=False, folder=tmp_path)
        sent = len(server.calls)
    assert told['calls'].sum() == sent and 'one that asks most' in plan.notes[0]


@pytest.mark.parametrize('make', [
    lambda model: preference_plan(data='sample', asked=model, few=1), lambda model: rates_plan(data='sample', asked=[model], few=1),
    lambda model: rates_plan('facts/table4', data='sample', asked=[model], few=1),
    *[lambda model, id=id, more=more: ranking_plan(id, judges=[model.replace(':j', ':k'), model], limit=2, split='test', draws=50,
                                                   baselines=False, responders=[model.replace(':j', f':r{at}') for at in range(more)])
      for id in ('facts/table5', 'facts/table6') for more in (0, 1, 2, 3)]])
def test_dry_runs_of_exhibits_send_nothing_and_count_what_is_sent(make, tmp_path):
    with MisbehavingServer(served) as server:
        plan = make(f'openai:j?base_url={server.url}')
        told = estimate(plan, store=False)
        assert not server.calls and told['calls'].sum() > 0
        asked = [step for step in plan.steps if step.model is not None]
        execute(*asked, store=False, folder=tmp_path)
        assert len(server.calls) == told['calls'].sum()


def test_own_answers_that_cannot_be_judged_are_no_preference(tmp_path):
    def said(request: Request) -> str: return 'Who knows?'
    plan = preference_plan(data='sample', asked='mute', few=1, draws=50, loaded={'mute': ScriptedModel('mute', said, '1')})
    kept = [entry for entry in plan.entries if not entry.label and entry.model != 'embedded']
    small = Plan(plan.exhibit, plan.parameters, tuple(kept))
    few = judgements(small, execute(small, store=False, folder=tmp_path))
    assert measured_preference(few, 'mute') == [] and self_preference_cells(preference_plan(draws=50), Done()).height


# ---- a file of one's own -------------------------------------------------------------------------------------------------------------

def test_the_quick_judge_judges_a_file_with_the_eligibility_of_the_embedded_one(tmp_path):
    mill = 'The mill opened in 1901. A flood took its wheel in 1931. Since 1954 the parish has used the building as a library.'
    said = {'right': 'The mill opened in 1901. A flood took its wheel.', 'wrong': 'It has been a library since 1945.'}
    lines = [{'request_id': 'm', 'responder': name, 'request': 'What became of the mill?', 'document': mill, 'response': text}
             for name, text in said.items()]
    (tmp_path/'own.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    boards = [judged(responses=tmp_path/'own.jsonl', judges=[name], baselines=False) for name in ('quick', 'embedded')]
    told = [each.judgements().select('id', 'accurate') for each in boards]
    assert told[0].equals(told[1]) and dict(told[0].iter_rows()) == {'m/right': True, 'm/wrong': False}
    eligible = [each.eligibilities().drop('judge') for each in boards]
    assert eligible[0].equals(eligible[1])
    methods = manifest(boards[0].plan, boards[0].done)['methods']
    assert methods['quick'].keys() >= {'decision', 'verifier', 'encoder'}
    assert methods['eligible_by_encoder']['encoder'] == offline_encoder().identity
    assert all(entry.about['responses'].rows.name == str(tmp_path/'own.jsonl') for entry in boards[0].plan.entries)
    asked = [templates_of(Settings(judges=['quick'], templates=[name]), 'quick') for name in ('json', 'span')]
    assert asked == [['response'], ['span']]


# ---- what a judge of eligibility sees ------------------------------------------------------------------------------------------------

def eligible_by(name: str) -> ScriptedModel:
    "It answers with its name, and judges everything accurate and eligible."
    def said(request: Request) -> str:
        text = request.messages[-1].content
        if 'Instruction Following' in text: return '{"Instruction Following": "No Issues"}'
        return 'Verdict: Accurate' if 'Verdict' in text or 'Evidence' in text else f'{name} says so.'
    return ScriptedModel(name, said, name)


def baselines_shown(models: dict[str, ScriptedModel], **settings) -> dict[str, set[str]]:
    "By judge: the other responses that it saw."
    judged(responders=['b', 'c'], judges=list(models), limit=2, baselines=False, loaded=models, **settings)
    asked = {name: [request.messages[-1].content for request in model.asked] for name, model in models.items()}
    return {name: {fenced_in(text, 'other_response') for text in texts if 'Instruction Following' in text} for name, texts in asked.items()}


def test_a_model_that_answers_judges_eligibility_beside_its_own_response():
    "As the starter code shows it; who does not answer sees who is named, else the next responder in the alphabet."
    models = {name: eligible_by(name) for name in ('a', 'b', 'c')}
    assert baselines_shown(models) == {'a': {'b says so.', 'c says so.'}, 'b': {'b says so.'}, 'c': {'c says so.'}}
    models = {name: eligible_by(name) for name in ('a', 'b', 'c')}
    assert baselines_shown(models, eligibility_baseline='b', seed=1) == {'a': {'b says so.'}, 'b': {'b says so.'}, 'c': {'c says so.'}}
    with pytest.raises(UsageError, match='who does not answer: choose one of b, c'):
        baselines_shown(models, eligibility_baseline='d', seed=1)
    notes = leaderboard_plan(responders=['b'], judges=['a', 'b'], limit=1, loaded=models).notes
    assert 'a does not answer' in notes[0] and notes[1] == 'eligibility: b judges beside the responses of b'


def test_the_published_prompt_is_what_responders_and_the_judge_with_context_see(tmp_path, published_templates):
    row = {'id': 'r', 'system_instruction': 'Use the text.', 'user_request': 'When?', 'context_document': 'In 1901.'}
    shown = {}
    for name, more in (('with', {'full_prompt': 'Use the text. In 1901. When?'}), ('without', {})):
        (tmp_path/f'{name}.jsonl').write_text(json.dumps(row | more))
        model = eligible_by('m')
        judged(data=str(tmp_path/f'{name}.jsonl'), responders=['m'], judges=['m'], prompts='paper', eligibility='request_and_document',
               baselines=False, loaded={'m': model})
        respond, = ([message.content for message in request.messages] for request in model.asked if request.label == 'grounding/respond')
        seen, = (request.messages[-1].content for request in model.asked if 'begin_of_query' in request.messages[-1].content)
        shown[name] = respond, seen.split('<|begin_of_query|>\n')[1].split('\n<|end_of_query|>')[0]
    assert shown['with'] == (['Use the text. In 1901. When?'], 'Use the text. In 1901. When?')
    assert shown['without'] == (['Use the text.', 'In 1901.\n\nWhen?'], 'Use the text.\n\nIn 1901.\n\nWhen?')


def test_unread_verdicts_count_as_not_grounded_beside_ours():
    "The starter code's reading, by hand: half of the verdicts cannot be read, the others say accurate."
    def said(request: Request) -> str: return 'Verdict: Accurate' if len(fenced_in(request.messages[-1].content, 'response')) % 2 else 'Hm.'
    found = judged(judges=['half'], eligibility='none', baselines=False, loaded={'half': ScriptedModel('half', said, 'half')},
                   unread_as_ungrounded=True)
    cells, told = board_cells(found.plan, found.done), found.judgements().filter(responder='grounded')
    def cell(column: str) -> float: return cells.filter(row='grounded', column=column, kind='value')['measured'].item()
    assert 0 < told['accurate'].null_count() < told.height
    assert cell('Unadjusted score (%)') == 100
    assert cell('Unadjusted score (%), unread verdicts as not grounded') == pytest.approx(100*told['accurate'].sum()/told.height)
    ours = board_table(found.board_of())
    assert 'unread_as_ungrounded' not in ours.columns and 'unread_as_ungrounded' in board_table(found.board_of(), True).columns
