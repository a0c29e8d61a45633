"""FHSumBench's knowledge base by a model, by Wikidata, by file; one extractor of claims; decoding as the authors have it."""
from collections import Counter

import polars as pl
import pytest
from constant import Always
from misbehaving_server import MisbehavingServer, answer, status

from factlab.core.core import UsageError
from factlab.mixed_context.knowledge import KNOWLEDGE, name_key
from factlab.mixed_context.labels import traces_of
from factlab.models.interface import ScriptedModel
from factlab.models.prompt_folders import export_prompts
from factlab.reports.exhibits import find_exhibits
from factlab.reports.options import check_options
from factlab.runs.plan import estimate, execute
from factlab.studies.fhsum.cases import case_plan, example_plan
from factlab.studies.fhsum.measured import answers_of, table2_cells
from factlab.studies.fhsum.study import Settings, direct_judge, given_knowledge, read_lengths, retrieval_judge, scored_rows, table_plan
from factlab.text.fences import fenced_in

SAID = {'mixed_context/claims': 'The mill burnt down.', 'mixed_context/relation': 'Rationale: r\nRelevant: Yes\nRelation: Support',
        'mixed_context/knowledge': '{"Faithfulness": true, "Factuality": true}'}


MUTE = Always('mute', 0, 1, 0)


def models(revision: str, **more) -> dict:
    "A judge, and a writer who says of everything that it is a river; each is known by its revision."
    return {'judge': ScriptedModel('judge', lambda request: SAID.get(request.label, 'a query'), revision), 'mute': MUTE,
            'writer': ScriptedModel('writer', lambda request: f'{entity_of(request)} is a river of Europe. It is long.', revision), **more}


def entity_of(request) -> str: return fenced_in(request.messages[0].content, 'entity')


def asked(model, kind: str) -> list: return [request for request in model.asked if request.label == f'mixed_context/{kind}']


def table(exhibit: str, loaded: dict, **parameters):
    return table_plan(exhibit, **{'limit': 2, 'verifier': 'mute', 'knowledge': 'writer', 'loaded': loaded} | parameters)


@pytest.mark.parametrize('exhibit, parameters', [
    ('fhsum/table1', {'models': []}), ('fhsum/table2', {'models': ['judge']}), ('fhsum/table3', {'models': ['judge']}),
    ('fhsum/table6', {'models': [], 'retrieving': ['judge']}), ('fhsum/table7', {'models': [], 'retrieving': ['judge']}),
    ('fhsum/fig6', {'model': 'judge', 'printed': 'GPT-4o', 'families': ['retrieval'], 'retrieval': True})])
def test_a_model_writes_of_every_entity_once(exhibit, parameters):
    loaded = models(f'once {exhibit}')
    plan = table(exhibit, loaded, **parameters)
    told = estimate(plan, store=False).filter(label='mixed_context/entity')
    assert not loaded['writer'].asked
    execute(plan, store=False)
    names = [entity_of(request) for request in asked(loaded['writer'], 'entity')]
    assert names and len({name_key(name) for name in names}) == len(names) == told['calls'].sum() and told['model'].to_list() == ['writer']
    assert not asked(loaded['judge'], 'entity') and {request.label for request in loaded['writer'].asked} == {'mixed_context/entity'}
    again = models(f'once {exhibit}')
    execute(table(exhibit, again, **{**parameters, 'seed': 1}), store=False)
    assert not [*asked(again['writer'], 'entity')]  # the run is there, whatever the seed


def test_what_was_written_is_what_judges_are_shown_and_what_is_covered():
    loaded = models('shown')
    plan = table('fhsum/table2', loaded, models=['judge'])
    done = execute(plan, store=False)
    shown = traces_of(done[next(entry.step for entry in plan.entries if entry.method == 'Knowledge Retrieval')])['evidence'].drop_nulls()
    assert shown.len() and all(text.endswith(' is a river of Europe. It is long.') for text in shown)
    known = table2_cells(plan, done).filter(row='Knowledge base at hand')
    assert known['measured'].item() == 1 and known['n'].item() > 0
    assert 'words and knowledge' in answers_of(plan, done).baselines
    named = [request.messages[0].content for request in asked(loaded['judge'], 'relation')]
    assert any('is a river of Europe' in text for text in named)


def test_the_ablation_keeps_a_random_share_of_what_was_written_or_takes_another_base(tmp_path):
    def evidence(**parameters):
        said = SAID | {'mixed_context/relation': 'Rationale: r\nRelevant: No\nRelation: None'}  # the document leaves all claims open
        loaded = models('share', judge=ScriptedModel('judge', lambda request: said.get(request.label, 'a query'), 'share'))
        plan = table('fhsum/table3', loaded, models=['judge'], **parameters)
        done = execute(plan, store=False)
        traces = {entry.method: traces_of(done[entry.step]) for entry in plan.entries if entry.model == 'judge'}
        return {method: set(trace.filter(source='knowledge')['entity'].drop_nulls()) for method, trace in traces.items()}
    whole, none, *_ = evidence(kept=0.).items()
    assert whole[1] and none == ('Reflection Retrieval, a random 0% of the knowledge base', set())
    file = tmp_path/'mine.jsonl'
    KNOWLEDGE.frame([{'entity': 'Nobody', 'aliases': [], 'description': 'a man', 'text': None}]).write_ndjson(file)
    assert evidence(smaller=str(file))['Reflection Retrieval, knowledge base mine.jsonl'] == set()


def test_only_entities_that_failed_are_asked_about_again(store):
    down = [True]
    def reply(call):
        return status(500) if down[0] and call.number == 1 else answer('It is a river of Europe.')
    with MisbehavingServer(reply) as server:
        step = given_knowledge(Settings(limit=2, knowledge=f'openai:any?base_url={server.url}&retries=0&concurrency=1'))['knowledge']
        first = execute(step, store=store)[step]
        assert first['status'].to_list().count('failed') == 1
        before, down[0] = len(server.calls), False
        again = execute(step, store=store)[step]
        assert set(again['status']) == {'ok'} and len(server.calls) == before + 1


def test_the_case_study_and_the_example_take_knowledge_and_extractor():
    loaded = models('cases', one=ScriptedModel('one', lambda request: SAID.get(request.label, '?'), 'cases'))
    execute(case_plan(models='judge', limit=2, verifier='mute', knowledge='writer', extractor='one', loaded=loaded), store=False)
    assert asked(loaded['writer'], 'entity') and asked(loaded['one'], 'claims') and not asked(loaded['judge'], 'claims')
    loaded = models('example')
    plan = example_plan(models='judge', knowledge='writer', verifier='mute', loaded=loaded)
    done = execute(plan, store=False)
    summary, names = done[plan.entries[0].step.rows]['summary'].item(), [entity_of(request) for request in loaded['writer'].asked]
    assert names and all(name in summary for name in names)  # of this one row alone


def test_one_extractor_for_all_judges():
    loaded = models('extractor', one=ScriptedModel('one', lambda request: SAID.get(request.label, '?'), 'extractor'))
    execute(table('fhsum/table2', loaded, models=['judge', 'writer'], knowledge='fhsum-knowledge', extractor='one'), store=False)
    assert not asked(loaded['judge'], 'claims') + asked(loaded['writer'], 'claims')
    texts = [request.messages[0].content for request in loaded['one'].asked]
    assert len(set(texts)) == len(texts) >= 2  # each summary once, for two models and the verifier
    other = table('fhsum/table2', models('extractor'), models=['judge'], knowledge='fhsum-knowledge', extractor='sentences')
    assert other.digest != table('fhsum/table2', models('extractor'), models=['judge'], knowledge='fhsum-knowledge').digest


def test_decoding_chunks_and_pool_are_parameters():
    loaded = models('decoding')
    plan = table('fhsum/table6', loaded, models=['judge'], retrieving=['judge'], knowledge='writer', temperature=.7, chunk=200,
                 pool='claim', lengths='verdicts=30, reasoning=300, relation=80, entity=99', retry_unparsed=False)
    execute(plan, store=False)
    said = loaded['judge'].asked + loaded['writer'].asked
    assert {request.temperature for request in said} == {.7}
    limits = Counter((request.label.removeprefix('mixed_context/'), request.max_tokens) for request in said)
    assert {('vanilla', 30), ('icl', 30), ('cot', 300), ('knowledge', 30), ('relation', 80), ('claims', 256), ('entity', 99)} <= set(limits)
    assert not any(request.json_schema for request in said)  # nothing is asked a second time
    judges = [entry.step.method for entry in plan.entries if entry.method == 'Concurrent Retrieval']
    assert {(judge.chunk_tokens, judge.chunk_overlap, judge.pool) for judge in judges if hasattr(judge, 'pool')} == {(200, 20, 'claim')}


@pytest.mark.parametrize('written', ['verdict=30', 'relation=', 'relation=-1', 'much', 'relation=3,x=4'])
def test_lengths_that_are_none_are_refused(written):
    with pytest.raises(UsageError, match='numbers of tokens'): read_lengths(written)
    assert set(read_lengths('all=80').values()) == {80} == set(read_lengths(80).values())


def test_a_file_a_set_and_a_model_are_told_apart(tmp_path):
    def made(name, **more): return given_knowledge(Settings(limit=2, knowledge=name, **more))
    file = tmp_path/'openai.jsonl'
    KNOWLEDGE.frame([{'entity': 'Oslo', 'aliases': [], 'description': 'a city', 'text': None}]).write_ndjson(file)
    assert not made('fhsum-knowledge') and not made(str(file))
    assert made('openai:gpt-4.1')['knowledge'].method.name == 'written knowledge'
    assert made('wikidata')['knowledge'].method.name == 'Wikidata'
    assert made('wikidata:http://localhost/w/api.php')['knowledge'].method.endpoint == 'http://localhost/w/api.php'
    check_options(find_exhibits(['fhsum/table2']), {'knowledge': str(file)}, asking=False)
    check_options(find_exhibits(['fhsum/table2']), {'knowledge': 'openai:gpt-4.1', 'extractor': 'openai:gpt-4.1'}, asking=False)
    with pytest.raises(UsageError, match='nonesuch'): check_options(find_exhibits(['fhsum/table2']), {'knowledge': 'nonesuch'})


def test_names_come_from_scored_and_fitted_summaries_alone():
    settings = Settings(limit=1, knowledge='writer', loaded=models('names'))
    step = given_knowledge(settings)['knowledge']
    names = execute(step.rows, store=False)[step.rows]['id'].to_list()
    assert any(name in scored_rows(settings).frame['summary'].item() for name in names)
    assert isinstance(names[0], str) and len(names) < pl.DataFrame(scored_rows(Settings()).frame).height


def test_a_folder_words_every_question_and_paper_names_the_file_that_is_missing(tmp_path):
    export_prompts(Settings.PROMPTS, tmp_path/'mine', 'fhsum')
    for file in (tmp_path/'mine').glob('*.txt'): file.write_text('As printed. ' + file.read_text())
    loaded = models('worded', one=ScriptedModel('one', lambda request: SAID.get(request.label, '?'), 'worded'))
    plan = table('fhsum/table6', loaded, models=['judge'], retrieving=['judge'], extractor='one', prompts=str(tmp_path/'mine'))
    execute(plan, store=False)
    asked_for = [request for name in ('judge', 'writer', 'one') for request in loaded[name].asked if not request.json_schema]
    assert {request.label for request in asked_for} >= {f'mixed_context/{name}' for name in (
        'vanilla', 'icl', 'cot', 'knowledge', 'claims', 'query', 'relation', 'entity')}
    assert all(request.messages[-1].content.startswith('As printed. ') for request in asked_for)
    ours = {'models': [], 'knowledge': 'fhsum-knowledge'}
    for settings, file in ((ours | {'models': ['judge']}, 'vanilla.txt'), (ours | {'retrieving': ['judge']}, 'knowledge.txt'),
                           (ours | {'extractor': 'one'}, 'claims.txt'), ({'models': []}, 'entity.txt')):
        with pytest.raises(UsageError, match=file): table('fhsum/table6', models('paper', one=loaded['one']), prompts='paper', **settings)
    assert table('fhsum/table6', loaded, models=[], prompts='paper', knowledge='fhsum-knowledge')  # nothing is asked


def test_the_printed_prompts_of_evidence_and_verdicts_are_read_as_ours(tmp_path):
    "A person pastes Appendix D and gives its placeholders our names."
    folder = tmp_path/'theirs'
    folder.mkdir()
    relation = ('Rationale: …\nRelevant: Yes / No\nRelation: Support / Contradict\n'
                'Claim: {claim}\nEvidence: {evidence}\nAnswer:')
    (folder/'relation.txt').write_text(relation)
    (folder/'vanilla.txt').write_text('{\n"Faithfulness": true/false,\n"Factuality": true/false\n}\n'
                                       'Document:{document}\nSummary: {summary}')
    settings = Settings(prompts=str(folder))
    assert [prompt.source for prompt in retrieval_judge(settings, 'Concurrent Retrieval').prompts] == ['ours', 'ours', 'yours']
    said = direct_judge(settings, 'Vanilla Judge').prompts[0].render(document='d', summary='s')[0].content
    assert said.startswith('{\n"Faithfulness": true/false') and said.endswith('Document:d\nSummary: s')
    (folder/'vanilla.txt').write_text('Document: {doc}\nSummary: {summary}')
    with pytest.raises(UsageError, match='doc'): Settings(prompts=str(folder))


def test_verifiers_stand_for_the_paper_s_metrics_and_rows_say_which():
    loaded = models('standing', one=ScriptedModel('one', lambda request: SAID.get(request.label, '?'), 'standing'), other=MUTE)
    plan = table('fhsum/table2', loaded, models=[], knowledge='writer', extractor='one', factscore='mute', wecheck='other',
                 alignscore='mute')
    names = [entry.method for entry in plan.entries if entry.method.startswith('Hybrid FactScore')]
    assert names == ['Hybrid FactScore + WeCheck: mute + other', 'Hybrid FactScore + AlignScore: mute + mute']
    done = execute(plan, store=False)
    assert all(len(done[entry.step]) == 2 for entry in plan.entries if entry.method in names)
    assert asked(loaded['one'], 'claims')  # FactScore's claims, too, are those of the one extractor
    assert not [entry for entry in table('fhsum/table2', loaded, wecheck='other').entries if 'WeCheck' in entry.method]
