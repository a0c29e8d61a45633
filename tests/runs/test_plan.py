"""Plans: what a step is, how steps are carried out together, and that a dry run sends nothing and counts what is sent later."""
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving_server import MisbehavingServer, answer

from factlab.core.core import ModelError, RunError, Schema
from factlab.models.asking import VERDICTS, answers_frame, ask_prompt, read_response
from factlab.models.interface import Request, Response, ScriptedModel, load_model
from factlab.models.prompts import Prompt
from factlab.models.verdicts import parse_yes_no
from factlab.runs.plan import Derived, Done, Entry, Plan, Rows, Step, estimate, execute, in_order, manifest
from factlab.runs.runs import Run, list_runs
from factlab.store.answers import Store


def read(text: str): return parse_yes_no(text, marker='')


@dataclass(frozen=True)
class Asks:
    "Asks whether a claim is right, `rounds` times one after the other."
    name: str = 'asks'
    rounds: int = 1
    version: int = 1
    max_tokens: int = 4
    prompt: Prompt = Prompt('test/asks', 1, '{claim} ({turn})', ('claim', 'turn'), example_answer='yes')
    schema = VERDICTS

    @property
    def prompts(self): return (self.prompt,)

    def predict(self, rows, model, store=None, **sampling):
        inputs = {name: sampling.pop(name) for name in list(sampling) if name not in ('seed', 'repeat')}
        said = ''.join(str(value) for frame in inputs.values() for value in frame['inconsistent'].to_list())
        for turn in range(self.rounds):
            values = [{'claim': claim + said, 'turn': str(turn)} for claim in rows['claim']]
            responses = ask_prompt(self.prompt, values, model, store, max_tokens=self.max_tokens, **sampling)
        return answers_frame(VERDICTS, rows, [read_response(each, read) for each in responses], [[each] for each in responses])


@dataclass(frozen=True)
class Share:
    "The share of rows of several steps that are inconsistent."
    name: str = 'share'
    prompts: tuple = ()
    max_tokens: int = 0
    schema: Any = field(default=Schema('share', {'share': pl.Float64}), repr=False, metadata={'changes_predictions': False})

    def predict(self, rows, model, store=None, *, seed=0, repeat=0, **inputs):
        return pl.DataFrame({'share': [pl.concat([rows, *inputs.values()])['inconsistent'].mean()]})


def rows_of(*claims: str) -> Rows:
    return Rows('claims', pl.DataFrame({'id': [str(i) for i in range(len(claims))], 'claim': list(claims)}))


class Batches(ScriptedModel):
    "Notes how many questions came at once."
    def __init__(self, name='m', says='yes'):
        super().__init__(name, lambda request: says, revision=says)
        self.batches: list[int] = []

    def generate(self, requests, deliver):
        self.batches.append(len(requests))
        super().generate(requests, deliver)


CLAIMS = rows_of('a', 'b', 'c')


@pytest.fixture
def run(tmp_path):
    with Store(tmp_path/'store.sqlite') as store:
        yield lambda *wanted, **more: execute(*wanted, **({'store': store, 'folder': tmp_path/'runs'} | more))


# ---- values ----------------------------------------------------------------------------------------------------------------------------

def test_a_step_is_what_decides_its_rows():
    model = Batches()
    one = Step(Asks(), CLAIMS, model)
    others = [Step(Asks(rounds=2), CLAIMS, model), Step(Asks(version=2), CLAIMS, model), Step(Asks(), rows_of('a', 'b'), model),
              Step(Asks(), CLAIMS, Batches(says='no')), Step(Asks(), CLAIMS, model, seed=1), Step(Asks(), CLAIMS, model, repeat=1),
              Step(Asks(), CLAIMS, model, {'said': one}), Step(Asks(), CLAIMS, model, {'told': one})]
    assert len({one, *others}) == 1 + len(others) and Step(Asks(), rows_of('a', 'b', 'c'), Batches()) == one
    assert Step(Asks(), replace(CLAIMS, name='/elsewhere/claims.csv'), model) == one, 'a path is no part of it'


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
@settings(deadline=None, max_examples=50)
def test_every_step_stands_behind_what_it_waits_for(edges):
    steps = [Step(Asks('asks0'), CLAIMS)]
    for at in range(1, 7):
        before = {f'i{b}': steps[b] for a, b in edges if a == at and b < at}
        steps.append(Step(Asks(f'asks{at}'), CLAIMS, None, before))
    order = in_order(reversed(steps))
    assert len(order) == 7 and all(order.index(before) < order.index(step) for step in order for before in step.before)


# ---- asking together -------------------------------------------------------------------------------------------------------------------

def test_steps_ask_together_and_each_question_once(run):
    model, other = Batches(), Batches('other', 'no')
    same = [Step(Asks(f'same{i}'), CLAIMS, model) for i in range(3)]  # three methods that ask the very same
    further, away = Step(Asks('further'), rows_of('d', 'e'), model), Step(Asks('away'), CLAIMS, other)
    plan = Plan('test/table1', {}, tuple(Entry(step.method.name, 'm', step) for step in (*same, further, away)))
    done = run(plan)
    assert model.batches == [5] and other.batches == [3]
    assert [done[step]['inconsistent'].to_list() for step in same] == [[True]*3]*3 and not done[away]['inconsistent'].any()


def test_rounds_go_on_together(run):
    model = Batches()
    run(*[Step(Asks(f'asks{rounds}', rounds), rows_of(f'claim {rounds}'), model) for rounds in (1, 2, 3)])
    assert model.batches == [3, 2, 1]


def test_more_steps_than_may_wait_at_once(run):
    model = Batches()
    steps = [Step(Asks(f'asks{i}'), rows_of(f'claim {i}'), model) for i in range(150)]
    done = run(*steps)
    assert len(done.runs) == 150 and sum(model.batches) == 150 and len(model.batches) == 3


def test_a_step_gets_what_others_gave(run):
    no, yes = (Step(Asks(f'says {says}'), CLAIMS, Batches(says, says)) for says in ('no', 'yes'))
    share = Step(Share(), no, None, {'other': yes})
    done = run(share)
    assert done[share]['share'].to_list() == [.5]
    assert set(list_runs(done.runs[share].folder.parent)['id']) == {step.id for step in (no, yes, share)}, 'each is a run to open'


def test_what_is_there_is_read_back(run):
    model = Batches()
    step = Step(Asks(), CLAIMS, model)
    share = Step(Share(), step)
    assert run(share)[share].equals(run(share)[share]) and model.batches == [3]
    assert run(Step(Share(), Step(Asks(), CLAIMS, model))).runs[share].id == share.id and model.batches == [3]


def test_answers_do_not_depend_on_what_is_asked_beside(tmp_path):
    claims = [rows_of(*(f'{i}{j}' for j in range(i + 1))) for i in range(5)]
    def says(request): return 'yes' if int(request.messages[0].content[0]) % 2 else 'no'
    steps = [Step(Asks(f'asks{i}', 1 + i % 3), rows, ScriptedModel('m', says, revision='1')) for i, rows in enumerate(claims)]
    together = execute(*steps, store=False, folder=tmp_path/'together')
    for step in steps: assert execute(step, store=False, folder=tmp_path/'alone')[step].equals(together[step])


# ---- what goes wrong -------------------------------------------------------------------------------------------------------------------

def test_a_step_that_fails_takes_only_what_waits_for_it(run, tmp_path):
    def boom(request): raise ModelError('the server is down')
    good, bad = Step(Asks('good'), CLAIMS, Batches()), Step(Asks('bad'), CLAIMS, ScriptedModel('down', boom, revision='1'))
    behind, beside = Step(Share(), bad), Step(Share('beside'), good)
    with pytest.raises(ModelError, match='the server is down'): run(behind, beside)
    assert set(list_runs(tmp_path/'runs')['id']) == {good.id, beside.id}, 'and what never began is not there'


def failing_once(*claims: str) -> ScriptedModel:
    "A model that says yes, but at first has no answer to the questions about these claims."
    left = {*claims}
    def says(request):
        claim = request.messages[0].content.split()[0]
        if claim not in left: return 'yes'
        left.remove(claim)
        return Response(error='busy')
    return ScriptedModel('m', says, revision='1')


def test_a_step_is_made_again_when_what_it_is_made_from_was(run):
    "A share that was counted while some answers were missing is not read back once they are there."
    asked = Step(Asks(), CLAIMS, failing_once('b'))
    share, behind = Step(Share(), asked), Step(Derived('counted', len_of, LENGTHS), asked)
    first = run(share, behind)
    assert first[asked]['status'].to_list() == ['ok', 'failed', 'ok'] and first[behind]['read'].to_list() == [2]
    again = run(share, behind)
    assert again[asked]['status'].to_list() == ['ok']*3 and again[behind]['read'].to_list() == [3]
    assert run(behind).runs[behind].manifest == again.runs[behind].manifest, 'and then it is read back'


LENGTHS = Schema('lengths', {'read': pl.Int64})

def len_of(rows: pl.DataFrame) -> pl.DataFrame: return pl.DataFrame({'read': [rows['inconsistent'].count()]}, LENGTHS.columns)


@dataclass(frozen=True)
class Counts(Asks):
    "How many claims the model answered, without a word of which it did not."
    schema = LENGTHS

    def predict(self, rows, model, store=None, **sampling): return len_of(super().predict(rows, model, store, **sampling))


def test_a_step_whose_questions_failed_is_made_again_whatever_its_rows_say(run):
    step = Step(Counts(), CLAIMS, failing_once('b'))
    first = run(step)
    assert first[step]['read'].to_list() == [2] and manifest(Plan('test/t', {}, (Entry('Counts', 'm', step),)), first)['failed'] == 1
    assert run(step)[step]['read'].to_list() == [3]
    again = run(step)
    assert again[step]['read'].to_list() == [3] and manifest(Plan('test/t', {}, (Entry('Counts', 'm', step),)), again)['failed'] == 0


def test_no_rows_are_said_before_anything_is_asked(run):
    model = Batches()
    with pytest.raises(RunError, match="'nothing' has no rows for asks"): run(Step(Asks(), Rows('nothing', CLAIMS.frame.head(0)), model))
    assert not model.batches


LATE = """
import _thread, time
from test_plan import CLAIMS, Asks, Batches, Step, execute

class Late(Asks):
    def predict(self, *given, **more):
        _thread.interrupt_main()
        time.sleep(.3)  # the interrupt comes before the question
        return super().predict(*given, **more)

try: execute(*[Step(Late(name=f'late{at}'), CLAIMS, Batches()) for at in range(3)], store=False)
except KeyboardInterrupt: print('ended')
"""


def test_a_step_that_asks_after_an_interrupt_ends(tmp_path):
    here = Path(__file__).parent
    found = subprocess.run([sys.executable, '-c', LATE], capture_output=True, text=True, timeout=120, check=False,
                           env=os.environ | {'FACTLAB_HOME': str(tmp_path), 'PYTHONPATH': f'{here}:{here.parent}'})
    assert found.stdout == 'ended\n', found.stderr


COMPUTING = """
import os, signal, time
from factlab.core.core import end_if_interrupted
from test_plan import CLAIMS, Asks, Batches, Step, execute

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it

class Computes(Asks):
    def predict(self, *given, **more):
        for _ in range(2): os.kill(os.getpid(), signal.SIGINT)  # impatient
        for _ in range(600):
            end_if_interrupted()
            time.sleep(.1)

try: execute(Step(Computes(name='computes'), CLAIMS, Batches()), store=False)
except KeyboardInterrupt: print('ended')
"""


def test_threads_that_compute_end_at_their_next_batch(tmp_path):
    here = Path(__file__).parent
    found = subprocess.run([sys.executable, '-c', COMPUTING], capture_output=True, text=True, timeout=40, check=False,
                           env=os.environ | {'FACTLAB_HOME': str(tmp_path), 'PYTHONPATH': f'{here}:{here.parent}'})
    assert found.stdout == 'ended\n', found.stderr


def test_an_interrupt_keeps_what_arrived_and_ends_every_thread(run, tmp_path):
    class Interrupted(Batches):
        def generate(self, requests, deliver):
            deliver(0, Response(text='yes'))
            raise KeyboardInterrupt
    before, stopped = threading.active_count(), Interrupted()
    steps = [Step(Asks(f'asks{i}'), CLAIMS, stopped) for i in range(4)]
    with pytest.raises(KeyboardInterrupt): run(*steps)
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline: time.sleep(.01)
    assert threading.active_count() <= before
    model = Batches()
    run(*(replace(step, model=model) for step in steps))
    assert model.batches == [2], 'one of three answers was kept'


KILLED = '''
import sys
from pathlib import Path
from factlab.models.interface import load_model
from factlab.store.answers import Store
from factlab.runs.plan import Step, execute
from test_plan import Asks, Share, rows_of
model, folder = load_model(sys.argv[1]), Path(sys.argv[2])
steps = [Step(Asks(f'asks{i}'), rows_of(*(f'{i}-{j}' for j in range(20))), model) for i in range(3)]
with Store(folder/'store.sqlite') as store:
    done = execute(Step(Share(), steps[0], None, {'b': steps[1], 'c': steps[2]}), store=store, folder=folder/'runs')
print('done')
'''


def test_kill_9_costs_what_was_on_its_way_and_two_processes_pay_once(tmp_path):
    from pathlib import Path
    def slow(call):
        time.sleep(.02)
        return answer('yes')
    with MisbehavingServer(slow) as server:
        name = f'openai:m?base_url={server.url}&concurrency=4'
        def start():
            import os
            here = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2])])
            return subprocess.Popen([sys.executable, '-c', KILLED, name, str(tmp_path)], stdout=subprocess.PIPE, text=True,
                                    env=os.environ | {'PYTHONPATH': here})
        first = start()
        while len(server.calls) < 15: time.sleep(.01)
        first.kill()
        first.wait()
        both = [start(), start()]
        assert [each.communicate(timeout=120)[0].split() for each in both] == [['done'], ['done']]
        asked = len([call for call in server.calls if 'messages' in call.body])
    assert 60 <= asked <= 60 + 32 + 8, 'what was in flight or not yet stored is asked again, nothing else'


# ---- dry runs --------------------------------------------------------------------------------------------------------------------------

def asked_of(server) -> int: return len([call for call in server.calls if 'messages' in call.body])


@pytest.mark.parametrize('responders, judges', [(1, 1), (2, 1), (3, 2)])
def test_an_estimate_sends_nothing_and_counts_what_is_sent_then(tmp_path, responders, judges):
    "Judges read what responders said, so their questions are not known yet: two responders are two, whatever the examples say."
    with MisbehavingServer(lambda call: answer('yes')) as server:
        answering = [Step(Asks(f'answers {i}'), CLAIMS, load_model(f'openai:r{i}?base_url={server.url}')) for i in range(responders)]
        judging = [Step(Asks(f'judges {j}'), CLAIMS, load_model(f'openai:j{j}?base_url={server.url}'), {'said': step})
                   for j in range(judges) for step in answering]
        plan = Plan('test/table1', {}, tuple(Entry(step.method.name, '', step) for step in judging))
        with Store(tmp_path/'store.sqlite') as store:
            counted = estimate(plan, store=store)
            assert not server.calls and counted['calls'].sum() == 3*responders + 3*responders*judges
            assert counted['cost'].null_count() == counted.height, 'at an unknown price'
            assert not (tmp_path/'runs').exists()
            execute(plan, store=store, folder=tmp_path/'runs')
        assert 3*responders + 3*judges <= asked_of(server) <= counted['calls'].sum()  # equal answers made equal questions


def test_an_estimate_knows_what_the_store_holds(run, tmp_path):
    model = Batches()
    run(Step(Asks(), rows_of('a'), model))
    with Store(tmp_path/'store.sqlite') as store: counted = estimate(Step(Asks(), CLAIMS, model), store=store)
    assert counted['calls'].to_list() == [2] and counted['in_store'].to_list() == [1] and model.batches == [1]


def test_a_manifest_names_all_that_numbers_rest_on(run):
    step = Step(Asks(), CLAIMS, Batches())
    plan = Plan('test/table1', {'limit': 3}, (Entry('Asks', 'm', Step(Share(), step)),))
    found = manifest(plan, run(plan))
    assert found['plan'] == plan.digest and found['parameters'] == {'limit': 3} and found['data']['claims']['rows'] == 3
    assert found['models'] == {'m': step.model.identity} and set(found['methods']) == {'asks', 'share'}
    assert found['prompts'] == {'test/asks@1': {'source': 'ours', 'sha256': Asks().prompt.sha256}} and found['failed'] == 0
    renamed = replace(plan, entries=(replace(plan.entries[0], step=Step(Share(), Step(Asks(version=2), CLAIMS, step.model))),))
    assert renamed.digest != plan.digest


def test_a_manifest_says_in_how_many_texts_a_prompt_was_imitated(run):
    plan = Plan('test/table1', {}, (Entry('Asks', 'm', Step(Asks(), rows_of('a', 'b <|im_end|>', 'c'), Batches())),))
    assert manifest(plan, run(plan))['neutralised'] == {'asks': 1}


def test_requests_in_a_step_are_answered_in_order(run):
    assert Request(messages=[{'role': 'user', 'content': 'x'}])
    model = ScriptedModel('m', lambda request: 'yes' if 'b' in request.messages[0].content else 'no', revision='1')
    step = Step(Asks(), CLAIMS, model)
    assert run(step)[step]['inconsistent'].to_list() == [False, True, False]


def test_a_manifest_keeps_every_setting_of_a_name_that_several_steps_have():
    few, many = (Rows('mine', pl.DataFrame({'id': ['a', 'b'][:n]}), 'test') for n in (1, 2))
    steps = [Step(Derived('same', pl.DataFrame.clone, Schema('any', {}), version), rows) for rows in (few, many) for version in (1, 2)]
    plan = Plan('final/table4', {}, tuple(Entry(f'row {at}', '', step) for at, step in enumerate(steps)))
    told = manifest(plan, Done({step: Run({'id': step.id}, None, step.rows.frame) for step in steps}))
    assert {name: each['rows'] for name, each in told['data'].items()} == {'test': 1, 'test 2': 2}
    assert {name: each['version'] for name, each in told['methods'].items()} == {'same': 1, 'same 2': 2}


def test_rows_that_the_exhibit_alone_looks_at_are_in_digest_and_manifest():
    step = Step(Derived('same', pl.DataFrame.clone, Schema('any', {})), CLAIMS)
    def plan(truth: bool) -> Plan:
        labels = Rows('claims', pl.DataFrame({'id': ['0', '1', '2'], 'label': [truth]*3}), 'labels')
        return Plan('facts/x', {}, (Entry('A judge', '', step, about={'labels': labels}),))
    assert plan(True).digest == plan(True).digest != plan(False).digest
    assert set(manifest(plan(True), Done({step: Run({'id': step.id}, None, CLAIMS.frame)}))['data']) == {'claims', 'labels'}
