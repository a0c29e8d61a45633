"""From gold texts without labels to the file that LLM-OASIS' authors accept: by models, by the pipeline, killed and refused."""
import json
import os
import subprocess
import sys
import time

import polars as pl
import pytest
from commands import run
from misbehaving_server import MisbehavingServer, answer, raw, status, wait_until

from factlab.core.core import DataError, RunError, UsageError
from factlab.models.interface import ScriptedModel
from factlab.models.prompts import Parsed
from factlab.runs.plan import estimate, execute, manifest
from factlab.runs.runs import list_runs
from factlab.studies.oasis.study import answers_of, comparison_plan, retrieval_plan, setting_plan, verifier_plan
from factlab.studies.oasis.submissions import gold_rows, make_submission, submission_plan
from factlab.studies.oasis.tables import score_answers, table_cells, verifier_cells

TEXTS = {'a': 'Owls hunt at night.', 'b': 'Owls swim at night.', 'c': 'Otters eat fish.', 'd': 'Otters swim in soup.'}
PASSAGES = pl.DataFrame({'id': ['p', 'q'], 'page': ['owls', 'otters'], 'text': ['Owls hunt at night.', 'Otters eat fish.']})


@pytest.fixture
def gold(tmp_path, monkeypatch):
    "Both gold sets in the hub's own form, where $FACTLAB_DATA names them."
    sets = {('oasis-e2e', 'e2e_factuality_evaluation'): {'id': list(TEXTS), 'text': list(TEXTS.values())},
            ('oasis-verification', 'claim_verification'): {'id': ['v1', 'v2'], 'claim': ['Owls hunt.', 'Owls swim.'],
                                                           'evidence': ['Owls hunt at night.']*2}}
    for (data, name), columns in sets.items():
        place = tmp_path/'data'/data/name/'data'
        place.mkdir(parents=True)
        pl.DataFrame(columns).write_parquet(place/'test-00000-of-00001.parquet')
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path/'data'))
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    PASSAGES.write_parquet(tmp_path/'passages.parquet')
    return tmp_path


def says(request): return 'Not Factual' if 'swim' in request.messages[-1].content else 'Factual'


def lines(text: str) -> list[dict]: return [json.loads(line) for line in text.splitlines()]


class Fixed:
    "In a verifier's place: what is not in the evidence is refuted."
    name, identity = 'fixed', {'verifier': 'fixed'}

    def probabilities(self, pairs, store=None):
        import numpy as np
        return np.array([[.9, .05, .05] if claim.rstrip('.') in evidence else [.05, .05, .9] for evidence, claim in pairs], np.float32)


class Whole:
    "In an extractor's place: the text is its claim; of a short one there is none."
    name, identity = 'whole', {'extractor': 'whole'}

    def extract(self, texts, store=None): return [Parsed([text] if len(text) > 16 else []) for text in texts]


# ---- tables whose gold is withheld ---------------------------------------------------------------------------------------------------

def test_tables_show_what_systems_say_and_no_score(gold):
    models = {name: ScriptedModel(name, answers, '1') for name, answers in (('one', says), ('other', lambda request: 'Factual'))}
    loaded = models | {'whole': Whole(), 'fixed': Fixed()}
    parts = dict(data='oasis-e2e', extractor='whole', verifier='fixed', retriever='tiny', k=2, corpus=str(gold/'passages.parquet'))
    plans = (setting_plan(models=list(models), runs=2, data='oasis-e2e', loaded=loaded),
             retrieval_plan(models=list(models), runs=1, loaded=loaded, **parts))
    for plan, cells_of in zip(plans, (table_cells, table_cells), strict=True):
        cells = cells_of(plan, execute(plan))
        found = cells.filter(pl.col('measured').is_not_null())
        assert set(found['metric']) == {'called factual (%)', 'same verdict (%)'} and set(found['status']) == {'measured'}
        assert cells.filter(row='one', column='ZS: called factual (%)')['measured'].item() == 50
        assert cells.filter(row='other', column='ZS: same verdict as one (%)')['measured'].item() == 50
    piped = cells.filter(row='Pipeline', column='RAG: called factual (%)').select('measured', 'n', 'unparsed').row(0)
    assert piped == (pytest.approx(100/3), 3, 1)  # of one text there is no claim
    told = manifest(plan, execute(plan))
    assert 'with the authors' in told['notes'][-1] and told['data']['texts']['rows'] == 4
    with pytest.raises(DataError, match='withheld'): comparison_plan(models=['one'], loaded=loaded, **parts)
    with pytest.raises(DataError, match='no claims with evidence to judge'): verifier_plan(data='oasis-e2e')

    claims = dict(data='oasis-verification', loaded=loaded)
    plans = setting_plan('oasis/table7', models=['one'], runs=1, **claims), verifier_plan(verifiers=['fixed'], **claims)
    for plan, cells_of in zip(plans, (table_cells, verifier_cells), strict=True):
        assert set(cells_of(plan, execute(plan)).filter(pl.col('measured').is_not_null())['metric']) == {'called factual (%)'}
    with pytest.raises(DataError, match='no texts to judge, only claims'): setting_plan(models=['one'], **claims)


def test_without_passages_the_pipeline_says_what_it_needs(gold):
    with pytest.raises(DataError, match='no passages to look for evidence in'): submission_plan('oasis-e2e')
    plan = submission_plan('oasis-e2e', model='m', loaded={'m': ScriptedModel('m', says, '1')})
    answers = answers_of(plan.entries[0], execute(plan))
    with pytest.raises(DataError, match='nothing can be scored'):
        score_answers(answers)


# ---- the file ------------------------------------------------------------------------------------------------------------------------

def made(plan, unread=None): return make_submission(plan, execute(plan), unread)


def test_a_model_and_the_pipeline_make_the_file(gold):
    loaded = {'m': ScriptedModel('m', says, '1'), 'whole': Whole(), 'fixed': Fixed()}
    text, counts = made(submission_plan('oasis-e2e', model='m', loaded=loaded))
    assert lines(text) == [{'id': id, 'factual': 'swim' not in said} for id, said in TEXTS.items()]
    assert counts == {'texts': 4, 'forced': 0, 'without a verdict': 0}
    piped = submission_plan('oasis-e2e', extractor='whole', verifier='fixed', retriever='tiny', k=2, corpus=str(gold/'passages.parquet'),
                            loaded=loaded)
    with pytest.raises(DataError, match='1 of 4 texts have no verdict'): made(piped)
    text, counts = made(piped, unread=True)
    assert [row['factual'] for row in lines(text)] == [True, False, True, False] and counts['without a verdict'] == 1
    claims = submission_plan('oasis-verification', verifier='fixed', loaded=loaded)
    assert [row['factual'] for row in lines(made(claims)[0])] == [True, False] and estimate(claims).is_empty()
    with pytest.raises(UsageError, match='leave the limit out'): submission_plan('oasis-e2e', limit=2)
    with pytest.raises(UsageError, match='leave evidence out'): submission_plan('oasis-verification', model='m', evidence=True)


def test_a_model_with_evidence_is_counted_as_it_is_then_asked(gold):
    model = ScriptedModel('m', says, '1')
    model.count_tokens = lambda requests: [9 for _ in requests]
    plan = submission_plan('oasis-e2e', model='m', evidence=True, extractor='sentences', retriever='tiny', k=1,
                           corpus=str(gold/'passages.parquet'), loaded={'m': model})
    assert estimate(plan)['calls'].sum() == 4 and not model.asked
    text, _ = made(plan)
    assert len(model.asked) == 4 and 'Evidence:' in model.asked[0].messages[-1].content and len(lines(text)) == 4


def test_the_command_asks_a_server_once_and_goes_on_after_a_kill(gold, capsys):
    def slowly(call):
        time.sleep(.4)
        return answer('Not Factual' if 'swim' in call.prompt else 'Factual')
    with MisbehavingServer(slowly) as server:
        name, out = f'openai:m?base_url={server.url}/v1&concurrency=1', gold/'submission.jsonl'
        arguments = ['oasis', 'submission', '--model', name, '--data', 'oasis-e2e', '--out', str(out)]
        assert run(*arguments, '--dry-run') == 0
        assert '4 texts' in (said := capsys.readouterr().out) and 'calls' in said and not server.calls and not out.exists()
        command = [sys.executable, '-c', 'from factlab.cli.main import main; raise SystemExit(main())', *arguments]
        process = subprocess.Popen(command, env={**os.environ, 'FACTLAB_PROGRESS': '0'}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        wait_until(lambda: len(server.calls) >= 3, 60)
        process.kill()
        process.wait()
        assert not out.exists()
        asked = len(server.calls)
        assert run(*arguments) == 0 and lines(out.read_text()) == [{'id': id, 'factual': 'swim' not in said} for id, said in TEXTS.items()]
        assert len(server.calls) - asked < 4  # what had been answered and kept is not asked again
        again = len(server.calls)
        assert run(*arguments) == 0 and len(server.calls) == again


def test_a_failed_request_is_no_unreadable_answer(gold, capsys):
    "A text whose answer cannot be read is called as one likes; a text that was not answered is asked again."
    def replies(call):
        if 'Otters eat' in call.prompt and down: return status(400, 'content policy')
        if call.body.get('logprobs'): return raw('{"choices": [{"message": {"content": "x"}}]}')  # nothing to compare the labels by
        return answer('Who knows?' if 'swim in soup' in call.prompt else 'Factual')
    with MisbehavingServer(replies) as server:
        down, out = True, gold/'submission.jsonl'
        arguments = ['oasis', 'submission', '--model', f'openai:m?base_url={server.url}', '--data', 'oasis-e2e', '--out', str(out)]
        for more in ([], ['--unread', 'unfactual']):
            with pytest.raises(RunError, match='of 1 of 4 texts a request failed, as .*content policy.*only these'): run(*arguments, *more)
        assert not out.exists() and list_runs()['failed'].to_list() == [1]
        down, asked = False, len(server.calls)
        with pytest.raises(DataError, match='1 of 4 texts have no verdict'): run(*arguments)
        assert not any('Owls' in call.prompt for call in server.calls[asked:])
        assert run(*arguments, '--unread', 'unfactual') == 0
        assert lines(out.read_text()) == [{'id': id, 'factual': id != 'd'} for id in TEXTS]
        assert '1 without a verdict' in capsys.readouterr().err


def test_texts_whose_claims_never_came_are_asked_again(gold):
    class Down(Whole):
        def extract(self, texts, store=None): return [Parsed(None, 'failed' if 'soup' in text else 'unparsed', 'so') for text in texts]
    piped = submission_plan('oasis-e2e', extractor='down', verifier='fixed', retriever='tiny', k=2, corpus=str(gold/'passages.parquet'),
                            loaded={'down': Down(), 'fixed': Fixed()})
    with pytest.raises(RunError, match='of 1 of 4 texts'): made(piped, unread=True)


@pytest.mark.parametrize('arguments, said', [
    (('--predictions', 'x.csv', '--corpus', 'y'), 'need --model or --pipeline'), (('--model', 'tiny', '--setting', 'XX'), 'no setting'),
    (('--pipeline', '--rag'), 'leave evidence out'), (('--model', 'nothing'), 'no model')])
def test_what_the_command_refuses(gold, arguments, said):
    with pytest.raises(UsageError, match=said): run('oasis', 'submission', *arguments)


@pytest.mark.parametrize('columns, said', [
    ({'id': ['a', 'a'], 'text': ['x', 'y']}, '2 rows with an id that comes twice'), ({'id': ['a'], 'text': [' ']}, '1 rows without text'),
    ({'id': [None], 'text': ['x']}, '1 rows without id'), ({'name': ['a'], 'text': ['x']}, 'not id'), ({'id': [], 'text': []}, 'no rows'),
    ({'id': ['a'], 'claim': ['x'], 'evidence': ['']}, '1 rows without evidence')])
def test_texts_that_cannot_be_judged_are_refused(tmp_path, columns, said):
    pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)).write_parquet(tmp_path/'gold.parquet')
    with pytest.raises(DataError, match=said): gold_rows(tmp_path/'gold.parquet')
