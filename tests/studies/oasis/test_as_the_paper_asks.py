"""What is sent with the paper's parameters, as a server sees it: the order of § 6.3, and the passages of § 6.1."""
import json

import polars as pl
import pytest
from constant import Always
from misbehaving_server import MisbehavingServer, answer

from factlab.building.generation import build, make_drafts, read_pages
from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.core.core import DataError, UsageError
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import execute
from factlab.studies.oasis.retrieval import plan_task, recall_plan
from factlab.studies.oasis.study import comparison_plan, length_plan, retrieval_plan
from factlab.studies.oasis.submissions import submission_plan
from factlab.text.fences import fenced_in

PARTS = dict(k=2, extractor='sentences', retriever='tiny')
PLANS = {
    'table6': lambda name, parts, **more: retrieval_plan(models=[name], runs=1, limit=2, verifier='agreeing', loaded=parts, **PARTS,
                                                         **more),
    'fig3': lambda name, parts, **more: comparison_plan('oasis/fig3', models=[name], limit=2, verifier='agreeing', loaded=parts, **PARTS,
                                                        **more),
    'fig4': lambda name, parts, **more: comparison_plan('oasis/fig4', models=[name], limit=2, verifier='agreeing', loaded=parts, **PARTS,
                                                        **more),
    'fig5': lambda name, parts, **more: length_plan(models=[name], lengths=[4000], limit=2, loaded=parts, **PARTS, **more)}


@pytest.mark.parametrize('exhibit', PLANS)
def test_evidence_follows_the_text_and_a_separator(exhibit):
    with MisbehavingServer(lambda call: answer('Factual')) as server:
        plan = PLANS[exhibit](f'openai:m?base_url={server.url}/v1', {'agreeing': Always('agreeing', .9, .05, .05)})
        execute(plan, store=False)
    shown = [call.prompt for call in server.calls if '<evidence>' in call.prompt]
    texts = {*plan.entries[0].step.rows.frame['text']}
    assert len(shown) == 2 and {fenced_in(prompt, 'text') for prompt in shown} == texts
    for prompt in shown:
        before, after = prompt.split('\n---\n')
        assert '<text>' in before and '<evidence>' not in before and '<text>' not in after and fenced_in(after, 'evidence')


def test_evidence_of_a_submission_follows_the_text_too(tmp_path):
    pl.DataFrame({'id': ['a'], 'text': ['Owls hunt at night.']}).write_parquet(tmp_path/'texts.parquet')
    pl.DataFrame({'id': ['p'], 'page': ['owls'], 'text': ['Owls are birds.']}).write_parquet(tmp_path/'passages.parquet')
    model = ScriptedModel('m', lambda request: 'Factual', revision='1')
    execute(submission_plan(str(tmp_path/'texts.parquet'), model='m', evidence=True, corpus=str(tmp_path/'passages.parquet'),
                            loaded={'m': model}, **PARTS), store=False)
    prompt = model.asked[-1].messages[-1].content
    assert prompt.index('Owls hunt at night.') < prompt.index('\n---\n') < prompt.index('Owls are birds.')


# ---- passages of a dump's pages ----------------------------------------------------------------------------------------------------

SENTENCES = [f'Owl number {word} hunts at night.' for word in ('one', 'two', 'three', 'four', 'five', 'six', 'seven')]


@pytest.fixture
def passages(tmp_path) -> str:
    "Two pages in the lines of a dump's extractor, cut by the command."
    pages = [{'id': '12', 'title': 'Owls', 'text': ' '.join(SENTENCES)}, {'id': '13', 'title': 'Otters', 'text': 'Otters eat fish.'}]
    (tmp_path/'pages.jsonl').write_text(''.join(json.dumps(page) + '\n' for page in pages))
    command = ['build', 'passages', '--texts', str(tmp_path/'pages.jsonl'), '--out', str(tmp_path/'passages.parquet')]
    assert run_command(parser(), command) == 0
    return str(tmp_path/'passages.parquet')


def test_passages_of_pages_are_windows_of_five_that_move_on_by_one(passages, tmp_path):
    found = pl.read_parquet(passages)
    windows = [' '.join(SENTENCES[start:start + 5]) for start in range(3)]
    assert found.rows() == [*((f'Owls/{at}', 'Owls', text) for at, text in enumerate(windows)), ('Otters/0', 'Otters', 'Otters eat fish.')]
    for out, error in ((tmp_path/'out.csv', UsageError), (tmp_path/'out.parquet', DataError)):
        (tmp_path/'none.jsonl').write_text(json.dumps({'title': 'a', 'text': ' '}) + '\n')
        with pytest.raises(error): run_command(parser(), ['build', 'passages', '--texts', str(tmp_path/'none.jsonl'), '--out', str(out)])
        assert not out.exists()


@pytest.mark.parametrize('exhibit', PLANS)
def test_evidence_comes_from_the_corpus_that_is_named(exhibit, passages):
    model = ScriptedModel('m', lambda request: 'Factual', revision=f'corpus {exhibit}')
    plan = PLANS[exhibit]('m', {'m': model, 'agreeing': Always('agreeing', .9, .05, .05)}, corpus=passages)
    execute(plan, store=False)
    shown = [fenced_in(request.messages[-1].content, 'evidence') for request in model.asked if '<evidence>' in request.messages[-1].content]
    assert len(shown) == 2 and all('hunts at night' in evidence or 'eat fish' in evidence for evidence in shown)
    assert plan.parameters['corpus'] == passages


@pytest.mark.parametrize('exhibit', ['oasis/fig2', 'oasis/tablec1'])
def test_recall_is_among_the_passages_of_the_corpus_too(exhibit, passages):
    alone, beside = (plan_task(recall_plan(exhibit, encoders=['bm25'], ks=[1], limit=4, corpus=corpus)) for corpus in (None, passages))
    assert beside.passages.height == alone.passages.height + 4 and beside.relevant() == alone.relevant()
    plan = recall_plan(exhibit, encoders=['bm25'], ks=[1], limit=4, corpus=passages)
    assert execute(plan, store=False)[plan.entries[0].step]['recall'].len() == 4
    with pytest.raises(DataError, match='no corpus'): recall_plan(exhibit, encoders=['bm25'], corpus='nowhere.csv')


def test_a_build_keeps_every_other_passage_of_its_pages(tmp_path, capsys):
    (tmp_path/'pages').mkdir()
    (tmp_path/'pages'/'owls.txt').write_text(' '.join(SENTENCES))
    kept = {every: make_drafts(read_pages(tmp_path/'pages'), every=every)[0] for every in (False, True)}
    assert kept[False].page_passages == [] and len(kept[True].page_passages) == 2 and kept[True].passage not in kept[True].page_passages
    spec = [build(tmp_path/'pages', 'tiny', tmp_path/'out', every=every, dry_run=True).manifest['spec'] for every in (False, True)]
    assert spec[1] == spec[0] | {'page_passages': 'all'}
    command = ['build', 'oasis', '--texts', str(tmp_path/'pages'), '--model', 'tiny', '--out', str(tmp_path/'out'), '--all-passages']
    assert run_command(parser(), [*command, '--dry-run']) == 0 and 'calls' in capsys.readouterr().out
