"""Runs against a real server and real signals: killed, shared, damaged, and on a full disk."""
import json
import os
import resource
import signal
import textwrap
import time
from collections import Counter

import polars as pl
import pytest
from commands import started
from misbehaving_server import MisbehavingServer, answer, free_port, never, slow, status, wait_until

from factlab.core.core import DataError, FactlabError, ModelError, RunError, UsageError
from factlab.localization.methods import PREDICTIONS, Binary, FactScore, localizers
from factlab.models.asking import VERDICTS, answer_schema, answers_frame, ask_prompt
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.interface import ScriptedModel
from factlab.models.openai_backend import load_openai
from factlab.models.prompts import Prompt
from factlab.runs.plan import Rows, Step, make_run
from factlab.runs.runs import MANIFEST_FORMAT, RUNS, list_runs, load_run, read_manifest, remove_run
from factlab.store.answers import Store

ZERO = localizers('zero_shot', retry_unparsed=False)[0]


def rows_of(count: int) -> pl.DataFrame:
    return pl.DataFrame({'id': [f'r{i}' for i in range(count)], 'text': [f'source text {i}' for i in range(count)],
                         'summary': [f'summary number {i} of them' for i in range(count)], 'gold': [['one error']]*count})


def number_of(call) -> int:
    "Which row a call is about."
    return int(call.prompt.rpartition('summary number ')[2].split()[0])


def model_at(url: str, **options):
    return load_openai('openai:any', 'any',
                       {'base_url': url, 'timeout': '5'} | {k: str(v) for k, v in options.items()})



@pytest.fixture
def make(tmp_path, store):
    "make_run on a folder and a store of this test's own."
    def make(model, rows=None, method=ZERO, **options):
        return make_run(rows_of(6) if rows is None else rows, method, model,
                        **({'dataset': 'mine.jsonl', 'store': store, 'folder': tmp_path/'runs'} | options))
    return make


def scripted(text: str = 'A. wrong') -> ScriptedModel: return ScriptedModel('scripted', lambda request: text, revision=f'says {text}')


def files_of(folder) -> list[str]: return sorted(path.name for path in folder.rglob('*') if path.is_file())


# ---- killed and shared -------------------------------------------------------------------------------------------------------------

CHILD = '''
    import resource, sys
    sys.path.insert(0, {tests!r})
    from pathlib import Path
    from factlab.runs.plan import make_run
    from factlab.store.answers import Store
    from runs.test_runs import ZERO, model_at, rows_of
    url, folder, count, limit = sys.argv[1:]
    folder, limit = Path(folder), int(limit)
    model = model_at(url, concurrency=4)
    if limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    store = Store(folder/'store.sqlite') if limit != 20_000 else False
    run = make_run(rows_of(int(count)), ZERO, model, dataset='mine.jsonl', store=store, folder=folder/'runs')
    print(run.id, run.manifest['counts'].get('ok'), run.manifest['sha256'])
'''

def start_child(url: str, folder, count: int = 60, limit: int = 0):
    return started(textwrap.dedent(CHILD).format(tests=os.path.dirname(os.path.dirname(__file__))), url, folder, count, limit)


@pytest.mark.parametrize('pause', [0.0, 0.8])
def test_kill_9_in_the_middle_of_a_run_costs_what_was_on_its_way(tmp_path, pause):
    "Without a pause, answers of the last quarter of a second may be lost as well as the four on their way; with it, nothing else is."
    with MisbehavingServer(lambda call: answer('A. wrong') if call.number < 20 else never()) as server:
        child = start_child(server.url, tmp_path)
        wait_until(lambda: len(server.calls) == 24)
        time.sleep(pause)
        child.kill()
        child.communicate(timeout=30)
        folder, = (tmp_path/'runs').iterdir()
        assert files_of(folder) == ['manifest.json'] and json.loads((folder/'manifest.json').read_text())['state'] == 'unfinished'
        assert list_runs(tmp_path/'runs')['state'].to_list() == ['unfinished']
        with pytest.raises(RunError, match='unfinished.*goes on'): load_run(folder.name, tmp_path/'runs')
        answered_first = Counter(map(number_of, server.calls[:20]))
        server.script, before = lambda call: answer('A. wrong'), len(server.calls)
        child = start_child(server.url, tmp_path)
        output, errors = child.communicate(timeout=60)
        assert child.returncode == 0 and output.split()[1] == '60', errors
        again = Counter(map(number_of, server.calls[before:]))
    assert set(again.values()) == {1} and len(Counter(map(number_of, server.calls))) == 60
    if pause: assert not set(again) & set(answered_first) and len(again) == 40
    assert len(again) <= 60
    run = load_run(output.split()[0], tmp_path/'runs')
    assert run.predictions.height == 60 and len(files_of(run.folder)) == 2
    with Store(tmp_path/'store.sqlite') as store: assert store.verify().is_empty() and store.stats()['responses'].sum() == 60


@pytest.mark.parametrize('how, code', [(signal.SIGINT, None), (signal.SIGTERM, -signal.SIGTERM)])
def test_other_signals_leave_a_run_to_go_on_with(tmp_path, how, code):
    with MisbehavingServer(lambda call: answer('A. wrong') if call.number < 20 else never()) as server:
        child = start_child(server.url, tmp_path)
        wait_until(lambda: len(server.calls) == 24)
        time.sleep(0.6)
        start = time.monotonic()
        child.send_signal(how)
        child.communicate(timeout=30)
        assert child.returncode != 0 and code in (None, child.returncode) and time.monotonic() - start < 10
        server.script, before = lambda call: answer('A. wrong'), len(server.calls)
        assert start_child(server.url, tmp_path).communicate(timeout=60)[0].split()[1] == '60'
        assert len(server.calls) - before == 40


def test_two_processes_making_the_same_run_pay_once(tmp_path):
    with MisbehavingServer(lambda call: slow(0.02, answer('A. wrong'))) as server:
        outputs = [child.communicate(timeout=60) for child in [start_child(server.url, tmp_path) for _ in range(2)]]
        assert len(server.calls) == 60
    (first, _), (second, errors) = outputs
    assert first == second and first.split()[1] == '60', errors
    assert len(files_of(tmp_path/'runs')) == 2 and load_run(first.split()[0], tmp_path/'runs').predictions.height == 60


# ---- what is asked again -----------------------------------------------------------------------------------------------------------

def test_failed_rows_are_asked_again_and_unparsed_are_not(make):
    faults = {2: status(400, 'content policy'), 4: answer('I would rather not say.')}
    with MisbehavingServer(lambda call: faults.get(number_of(call), answer('A. wrong'))) as server:
        model = model_at(server.url)
        first = make(model)
        assert first.predictions['status'].to_list() == ['ok', 'ok', 'failed', 'ok', 'unparsed', 'ok']
        assert 'content policy' in first.predictions['reason'][2]
        assert first.manifest['counts'] == {'ok': 4, 'failed': 1, 'unparsed': 1} and len(server.calls) == 6
        again = make(model)
        assert len(server.calls) == 7 and again.manifest['counts']['failed'] == 1
        del faults[2]
        last = make(model)
        assert [number_of(call) for call in server.calls[6:]] == [2, 2] and last.manifest['counts'] == {'ok': 5, 'unparsed': 1}
        assert make(model).manifest == last.manifest and len(server.calls) == 8
    assert last.id == first.id and files_of(last.folder) == sorted(['manifest.json', last.manifest['file']])


def test_a_run_with_failed_rows_stays_readable_while_the_endpoint_is_down(make, tmp_path):
    with MisbehavingServer(lambda call: status(400, 'no') if number_of(call) == 2 else answer('A. wrong')) as server:
        url, run = server.url, make(model_at(server.url))
    with pytest.raises(ModelError): make(model_at(url, retries=0))
    assert load_run(run.id, tmp_path/'runs').predictions.equals(run.predictions)


def test_a_run_is_read_back_at_another_port_and_when_the_server_is_off(make):
    def serving(root): return {'id': 'any', 'owned_by': 'vllm', 'root': root}
    with MisbehavingServer(lambda call: answer('A. wrong'), (serving('org/model'),)) as server: first = make(model_at(server.url))
    assert make(model_at(server.url)).manifest == first.manifest and len(server.calls) == 6  # off
    with MisbehavingServer(models=(serving('org/model'),)) as moved:
        assert make(model_at(moved.url)).manifest == first.manifest and not moved.calls
    with MisbehavingServer(lambda call: answer('None'), (serving('org/other'),)) as other:
        assert make(model_at(other.url)).predictions['predicted'].to_list() == [[]]*6 and len(other.calls) == 6


def test_an_endpoint_that_is_down_says_so_and_leaves_nothing(make, tmp_path):
    with pytest.raises(ModelError) as error: make(model_at(f'http://127.0.0.1:{free_port()}/v1', retries=0))
    assert '127.0.0.1' in str(error.value) and files_of(tmp_path/'runs') == []


def test_a_finished_run_is_read_without_a_call_and_without_a_store(make, tmp_path):
    model = scripted()
    made = make(model)
    read = make(model, store=False)
    assert len(model.asked) == 6 and read.predictions.equals(made.predictions) and read.manifest == made.manifest
    assert PREDICTIONS.check(read.predictions)['id'].to_list() == [f'r{i}' for i in range(6)] and '6 rows, 6 ok' in repr(read)
    other = make(model, folder=tmp_path/'elsewhere')
    assert len(model.asked) == 6 and other.id == made.id  # a new run from the answers in the store


def test_what_changes_answers_changes_the_run_and_what_does_not_does_not():
    rows, model = rows_of(3), scripted()
    def id_of(rows=rows, method=ZERO, model=model, dataset='a/mine.jsonl', **options):
        return Step(method, Rows(dataset, rows), model, **options).id
    different = [id_of(), id_of(rows_of(4)), id_of(rows.reverse()), id_of(method=Binary()),
                 id_of(method=localizers('zero_shot', retry_unparsed=False)[1]),
                 id_of(method=localizers('zero_shot')[0]), id_of(method=FactScore()),
                 id_of(model=scripted('other')), id_of(seed=1), id_of(repeat=1)]
    assert len(set(different)) == len(different) and len({name[-10:] for name in different}) == len(different)
    assert id_of() == id_of(dataset='/home/me/mine.jsonl') and id_of(dataset='other.jsonl')[-10:] == id_of()[-10:]


@pytest.mark.parametrize('dataset', ['../../etc/passwd', 'a b\n<script>', '..', '.', '/', '', 'x'*300, 'ü漢', '-rf'])
def test_a_runs_folder_stays_among_the_runs(make, tmp_path, dataset):
    run = make(scripted(), dataset=dataset)
    assert run.folder.parent == tmp_path/'runs' and run.folder.name == run.id and not run.id.startswith(('-', '.')) and len(run.id) < 80
    assert load_run(run.id, tmp_path/'runs').manifest['dataset']['name'] == dataset


def test_a_manifest_names_what_the_numbers_rest_on_and_no_secret(make, monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', 'sk-secret-0123456789')
    with MisbehavingServer(lambda call: answer('A. wrong')) as server:
        run = make(model_at(server.url, price='1,2'), seed=7)
    found = run.manifest
    assert found['format'] == MANIFEST_FORMAT and found['state'] == 'complete' and found['seed'] == 7 and found['calls'] == 6
    assert found['method']['prompts'] == [{'id': ZERO.prompt.id, 'source': 'ours', 'sha256': ZERO.prompt.sha256}]
    assert found['tokens'] == {name: run.predictions[f'{name}_tokens'].sum() for name in ('prompt', 'completion')}
    assert found['cost'] == pytest.approx((found['tokens']['prompt'] + 2*found['tokens']['completion'])/1e6)
    assert found['versions']['factlab']
    assert 'secret' not in (run.folder/'manifest.json').read_text()


def test_a_manifest_says_in_how_many_texts_the_form_of_the_prompt_was_imitated(make):
    imitating = pl.Series('text', ['Rain.\n\nSummary:\nNone', 'Rain.', 'Rain.\n\nSummary:\nNone', 'Text:', 'Rain.', 'Rain.'])
    asked = []
    model = ScriptedModel('scripted', lambda request: asked.append(request.messages[0].content) or 'None', revision='none')
    assert make(model, rows_of(6).with_columns(imitating)).manifest['neutralised'] == 2
    assert all(content.count('\nSummary:\n') == 1 for content in asked)
    assert 'neutralised' not in make(scripted()).manifest


def test_no_rows_is_said_and_leaves_nothing(make, tmp_path):
    with pytest.raises(RunError, match="'mine.jsonl' has no rows"): make(scripted(), rows=rows_of(0))
    assert not (tmp_path/'runs').exists()


def test_a_dry_run_makes_no_folder(make, tmp_path):
    model = scripted()
    with DryRun(lambda request: 'A. placeholder') as dry: run = make(model)
    assert run.folder is None
    assert run.predictions['predicted'].to_list() == [['placeholder']]*6
    assert not model.asked
    assert not (tmp_path/'runs').exists()
    assert estimate_of(dry)['calls'].to_list() == [6]


def test_verdicts_are_a_run_too(make, tmp_path):
    run = make(scripted('Final answer: no'), method=Binary())
    assert VERDICTS.check(load_run(run.id, tmp_path/'runs').predictions)['inconsistent'].to_list() == [True]*6


def is_neutral(text: str) -> bool: return text == 'NEUT'
def one_half(text: str) -> list[float]: return [.5]


class Settled:
    "A method of a schema of its own."
    name, max_tokens = 'settled', 4
    prompts = (Prompt(name='test/settled', version=1, fields=('text', 'summary'), user='{text} {summary}'),)

    def __init__(self, column='label', dtype=pl.String, read=str.strip, schema='entailments'):
        self.schema, self.read = answer_schema(schema, column, dtype), read

    def predict(self, rows, model, store=None, **sampling):
        values = rows.select('text', 'summary').to_dicts()
        asked = [[one] for one in ask_prompt(self.prompts[0], values, model, store, max_tokens=4, **sampling)]
        return answers_frame(self.schema, rows, [('ok', '', self.read(one.text)) for one, in asked], asked)


@pytest.mark.parametrize('column, dtype, read, schema', [
    ('label', pl.String, str.strip, 'entailments'),                        # one of three classes
    ('eligible', pl.Boolean, is_neutral, 'eligibility'),  # of a long answer
    ('scores', pl.List(pl.Float64), one_half, 'scores of sentences')])
def test_answers_of_any_schema_are_a_run(make, tmp_path, column, dtype, read, schema):
    method, model = Settled(column, dtype, read, schema), scripted('NEUT')
    run = make(model, method=method)
    found = load_run(run.id, tmp_path/'runs')
    assert method.schema.check(found.predictions).equals(run.predictions) and found.manifest['schema'] == schema
    assert found.manifest['file'].startswith(schema.replace(' ', '_') + '-')
    assert list(found.manifest['columns']) == found.predictions.columns
    assert make(model, method=method).manifest == run.manifest and len(model.asked) == 6


class Wrong(Settled):
    "Gives another frame than its schema says."
    def __init__(self, dtype, changed):
        super().__init__(dtype=dtype, read=len)
        self._changed = changed
    def predict(self, *given, **sampling): return self._changed(super().predict(*given, **sampling))


def test_a_method_whose_answers_are_not_of_its_schema_is_refused(make):
    floats = Wrong(pl.Int64, lambda frame: frame.with_columns(label=pl.lit(1.5)))
    with pytest.raises(DataError, match='settled predicted.*label is Float64'): make(scripted(), method=floats)
    few = Wrong(pl.Int64, lambda frame: frame.select('id'))
    with pytest.raises(DataError, match="settled predicted.*missing.*'status'"): make(scripted(), method=few)


def test_columns_other_than_the_manifest_names_are_refused(make, tmp_path):
    run = make(scripted())
    path = run.folder/'manifest.json'
    path.write_text(json.dumps(run.manifest | {'columns': {'id': 'String'}}))
    with pytest.raises(DataError, match='its manifest names'): _ = load_run(run.id, tmp_path/'runs').predictions


# ---- damaged, newer, missing -------------------------------------------------------------------------------------------------------

def test_a_newer_run_is_refused_with_a_clear_word(make, tmp_path):
    model = scripted()
    run = make(model)
    newer = run.manifest | {'format': MANIFEST_FORMAT + 1, 'versions': {'factlab': '9.9'}}
    (run.folder/'manifest.json').write_text(json.dumps(newer))
    for use in (lambda: load_run(run.id, tmp_path/'runs'), lambda: make(model), lambda: read_manifest(run.folder)):
        with pytest.raises(RunError, match=r'format 2.*reads up to 1.*factlab 9\.9: upgrade'): use()
    assert 'upgrade' in list_runs(tmp_path/'runs')['state'][0]
    assert json.loads((run.folder/'manifest.json').read_text()) == newer


BROKEN = {'cut': '{"format": 1, "id"', 'empty': '', 'list': '[]', 'null': 'null', 'text': '"x"', 'not ours': '{"a": 1}',
          'no keys': '{"format": 1}',
          'format is text': '{"format": "1"}', 'format is true': '{"format": true}', 'binary': b'\xff\xfe\x00', 'no state': None,
          'null parts': json.dumps({'format': 1, 'state': 'complete'} | dict.fromkeys(('id', 'dataset', 'method', 'model', 'counts',
                                                                                       'file', 'sha256', 'schema', 'calls', 'tokens')))}

@pytest.mark.parametrize('fault', BROKEN)
def test_a_damaged_manifest_is_named_and_hides_no_other_run(make, tmp_path, fault):
    model = scripted()
    run, other = make(model), make(model, seed=1)
    content = BROKEN[fault]
    if content is None: content = json.dumps({k: v for k, v in run.manifest.items() if k != 'state'})
    (run.folder/'manifest.json').write_bytes(content if isinstance(content, bytes) else content.encode())
    for use in (lambda: load_run(run.id, tmp_path/'runs').predictions, lambda: make(model).predictions):
        with pytest.raises(RunError): use()
    listed = list_runs(tmp_path/'runs')
    assert RUNS.check(listed)['id'].to_list().count(other.id) == 1 and run.id in listed['id'].to_list() and listed.height == 2
    assert load_run(other.id, tmp_path/'runs').predictions.height == 6
    assert not remove_run(run.id, tmp_path/'runs').exists() and make(model).predictions.equals(run.predictions) and len(model.asked) == 6


@pytest.mark.parametrize('damage', ['cut', 'changed', 'replaced'])
def test_damaged_rows_are_refused(make, tmp_path, damage):
    model = scripted()
    run = make(model)
    path = run.folder/run.manifest['file']
    content = path.read_bytes()
    if damage == 'cut': path.write_bytes(content[:-30])
    elif damage == 'changed': path.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    else: pl.DataFrame({'x': [1]}).write_parquet(path)
    with pytest.raises(RunError, match='checksum.*factlab runs rm'): _ = load_run(run.id, tmp_path/'runs').predictions
    assert make(model).predictions.equals(run.predictions) and len(model.asked) == 6


def test_missing_rows_are_made_again_from_the_store(make, tmp_path):
    model = scripted()
    run = make(model)
    (run.folder/run.manifest['file']).unlink()
    with pytest.raises(RunError, match='lost its rows'): _ = load_run(run.id, tmp_path/'runs').predictions
    assert make(model).predictions.equals(run.predictions) and len(model.asked) == 6


def test_finding_a_run_by_the_beginning_of_its_id(make, tmp_path):
    first, second = make(scripted()), make(scripted(), seed=1)
    folder = tmp_path/'runs'
    assert load_run(first.id, folder).id == load_run(first.id[:-1], folder).id == first.id
    with pytest.raises(UsageError, match='fits 2 runs'): load_run('mine', folder)
    with pytest.raises(UsageError, match='did you mean'): load_run(first.id + 'x', folder)
    for wrong in ('', 'nothing', '..', '.', '../runs', '*', second.id + '/..'):
        with pytest.raises(UsageError): load_run(wrong, folder)
        with pytest.raises(UsageError): remove_run(wrong, folder)
    assert remove_run(second.id, folder) == folder/second.id and list_runs(folder)['id'].to_list() == [first.id]
    with pytest.raises(UsageError, match='no run'): load_run('x', tmp_path/'nowhere')
    assert list_runs(tmp_path/'nowhere').is_empty()


def test_runs_are_listed_newest_first(make, tmp_path):
    made = [make(scripted(), seed=seed) for seed in range(3)]
    for i, run in enumerate(made):
        (run.folder/'manifest.json').write_text(json.dumps(run.manifest | {'started': f'2026-01-0{i + 1}T00:00:00+00:00'}))
    assert list_runs(tmp_path/'runs')['id'].to_list() == [run.id for run in reversed(made)]
    assert list_runs(tmp_path/'runs')['ok'].to_list() == [6]*3


# ---- a full disk -------------------------------------------------------------------------------------------------------------------

def run_full(tmp_path, limit: int):
    "A run of 60 rows with long answers in a process that can write files of at most so many bytes."
    import random
    words = random.Random(0)
    def script(call): return answer('A. ' + ' '.join(f'{words.getrandbits(60):x}' for _ in range(200)))
    with MisbehavingServer(script) as server:
        child = start_child(server.url, tmp_path, limit=limit)
        output, errors = child.communicate(timeout=60)
        assert child.returncode != 0, output
        kept = files_of(tmp_path)
        server.script, before = lambda call: answer('A. wrong'), len(server.calls)
        second = start_child(server.url, tmp_path)
        output, more = second.communicate(timeout=60)
        assert output.split()[1] == '60', more
        return errors, kept, before, len(server.calls)


def test_a_full_disk_leaves_no_rows_half_written(tmp_path):
    errors, kept, _, _ = run_full(tmp_path, 20_000)  # without a store: the manifest fits, the rows do not
    assert kept == ['manifest.json'] and f'{DataError.__name__}: cannot write' in errors and 'free space' in errors


def test_a_full_disk_loses_no_answer_that_the_store_took(tmp_path):
    errors, kept, before, after = run_full(tmp_path, 150_000)
    assert 'StoreError' in errors and not [name for name in kept if name.endswith('.parquet') or name.startswith('.')]
    with Store(tmp_path/'store.sqlite') as store:
        assert store.verify().is_empty() and store.stats()['responses'].sum() == 60
    assert before >= 4 and after >= 60


def test_a_folder_that_cannot_be_made_is_named(make, tmp_path):
    (tmp_path/'file').write_text('')
    with pytest.raises(FactlabError, match='file'): make(scripted(), folder=tmp_path/'file')
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] in (-1, resource.RLIM_INFINITY)


def test_a_file_in_place_of_the_folder_of_runs_is_said(tmp_path):
    (tmp_path/'runs').write_text('mine')
    with pytest.raises(RunError, match='is a file'): list_runs(tmp_path/'runs')
    assert list_runs(tmp_path/'none').is_empty()
