"""Requests and their keys, asking through the store; with threads, processes and signals."""
import json
import signal
import threading
import time

import pytest
from asking import question
from commands import started
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import factlab.models.interface as models
from factlab.core import registry
from factlab.core.core import ModelError, StoreError, UsageError
from factlab.core.registry import Entry, Option, read_options
from factlab.models.interface import LOWEST, Message, Request, Response, ScriptedModel, ask, fold_system, load_model, unload_models
from factlab.store.answers import Row, Store

IDENTITY = {'backend': 'scripted', 'model': 'm'}


def texts(responses) -> list[str]: return [response.text for response in responses]

def echo(request: Request) -> str: return request.messages[-1].content.upper()


# ---- requests ----------------------------------------------------------------------------------------------------------------------

SAMPLED = dict(temperature=0.7, top_p=0.9, seed=1)

@pytest.mark.parametrize('change',
                         [{'max_tokens': 9}, {'temperature': 0.8}, {'top_p': 0.8}, {'seed': 2}, {'seed': 0}, {'seed': None}, {'repeat': 1},
                                    {'stop': ('x',)}, {'top_logprobs': 1}, {'choices': ('a',)}, {'json_schema': '{}'},
                                    {'messages': (Message(role='system', content='q'),)}])
def test_what_changes_the_answer_changes_the_key(change):
    request = question('q', **SAMPLED)
    assert Request(**{**request.model_dump(), **change}).key(IDENTITY) != request.key(IDENTITY) != request.key({**IDENTITY, 'model': 'n'})


@pytest.mark.parametrize('fields, change',
                         [(SAMPLED, {'label': 'other'}), ({}, {'seed': 4}), ({}, {'top_p': 0.5}), ({'choices': ('a', 'b')}, SAMPLED),
                                            ({'choices': ('a', 'b')}, {'max_tokens': 3, 'stop': ('x',), 'top_logprobs': 4})])
def test_what_changes_nothing_does_not(fields, change):
    assert question('q', **fields).key(IDENTITY) == question('q', **fields | change).key(IDENTITY)


def test_a_key_stays_what_it_was():
    "Answers that were paid for are found by these keys: if this fails, every store out there is worthless."
    assert question('q', **SAMPLED, json_schema={'type': 'object'}).key(IDENTITY)[:16] == 'eca52c9e3815e031'
    assert question('q', choices=('a', 'b')).key(IDENTITY)[:16] == '321342e4dc678740'


@given(st.text())
def test_any_text_can_be_asked_and_stored(text):
    request = question(text)
    request.messages[0].content.encode()
    assert Request.model_validate_json(request.model_dump_json()) == request and len(request.key(IDENTITY)) == 64


def test_json_schema_has_one_spelling():
    spellings = ['{"type": "object", "a": 1}', '{"a":1,"type":"object"}', {'type': 'object', 'a': 1}]
    assert {question('q', json_schema=schema).json_schema for schema in spellings} == {'{"a":1,"type":"object"}'}
    with pytest.raises(ValidationError, match='JSON schema'): question('q', json_schema='{')


@pytest.mark.parametrize('fields',
                         [{'temperature': -1}, {'temperature': float('nan')}, {'top_p': 0}, {'max_tokens': 0}, {'choices': ('a', 'a')},
                                    {'choices': ('',)}, {'top_logprobs': 21}, {'typo': 1}, {'messages': ()}])
def test_nonsense_is_refused(fields):
    with pytest.raises(ValidationError): Request(**{'messages': [dict(role='user', content='q')], **fields})


def test_log_probabilities_are_finite():
    assert Response(choice_logprobs=(float('-inf'), -1)).choice_logprobs == (LOWEST, -1)
    with pytest.raises(ValidationError): Response(choice_logprobs=(float('nan'),))


@given(st.lists(st.builds(Message, role=st.sampled_from(['system', 'user', 'assistant']), content=st.text(max_size=5)), max_size=6))
def test_folding_loses_no_text_and_leaves_no_system(messages):
    folded = fold_system(messages)
    assert all(message.role != 'system' for message in folded) and fold_system(folded) == folded
    assert sorted(''.join(m.content for m in messages)) == sorted(''.join(m.content for m in folded).replace('\n\n', '', _joints(messages)))


def _joints(messages) -> int:
    system = sum(message.role == 'system' for message in messages)
    return system - (system > 0 and all(message.role != 'user' for message in messages))


# ---- asking ------------------------------------------------------------------------------------------------------------------------

def test_order_duplicates_and_the_second_time(store):
    model, requests = ScriptedModel('m', echo), [question(text) for text in 'abcab']
    assert texts(ask(requests, model, store)) == list('ABCAB') and len(model.asked) == 3
    assert texts(ask(requests[::-1], model, store)) == list('BACBA') and len(model.asked) == 3
    assert ask([], model, store) == []


def test_without_a_store_everything_is_asked_anew():
    model = ScriptedModel('m', echo)
    for _ in range(2): assert texts(ask([question('a'), question('a')], model, store=False)) == ['A', 'A']
    assert len(model.asked) == 2


def test_the_default_store_is_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    for _ in range(2): ask([question('a')], model := ScriptedModel('m', echo))
    assert (tmp_path/'store.sqlite').is_file() and model.asked == []


def test_repeats_are_asked_each_and_replayed_in_order(store):
    counter = iter(range(100))
    requests = [question('a', temperature=1.0, repeat=i) for i in range(5)]
    first = texts(ask(requests, ScriptedModel('m', lambda request: str(next(counter)), revision='1'), store))
    assert first == list('01234') == texts(ask(requests, ScriptedModel('m', echo, revision='1'), store))


def test_everything_in_a_response_comes_back(store):
    full = Response(text='x', finish_reason='length', prompt_tokens=3, completion_tokens=2, json_mode='native', meta={'a': [1]},
                    logprobs=({'token': 'x', 'logprob': -1.5, 'top': (('x', -1.5), ('y', float('-inf')))},))
    ask([question('a')], ScriptedModel('m', lambda request: full, revision='1'), store)
    assert ask([question('a')], ScriptedModel('m', echo, revision='1'), store) == [full]
    assert store.stats().row(0, named=True)['prompt_tokens'] == 3


class Odd(ScriptedModel):
    "Delivers backwards and twice, leaves out 'silent', and scores too few choices."
    def generate(self, requests, deliver):
        for index in reversed(range(len(requests))):
            if requests[index].messages[0].content == 'silent': continue
            for word in ('first', 'second'): deliver(index, Response(text=word, choice_logprobs=(-1.0,)*bool(requests[index].choices)))

def test_an_odd_backend_is_held_to_its_word(store):
    responses = ask([question('a'), question('silent'), question('b', choices=('x', 'y')), question('c')], Odd('odd', echo), store)
    assert [response.ok for response in responses] == [True, False, False, True] and responses[0].text == 'first'
    assert 'no answer' in responses[1].error and '1 of 2 choices' in responses[2].error
    assert store.stats()['responses'].sum() == 2


def test_errors_are_not_stored_and_reach_every_duplicate(store):
    model = ScriptedModel('m', lambda request: Response.failed('too long'))
    assert [response.error for response in ask([question('a')]*3, model, store)] == ['too long']*3
    ask([question('a')], model, store)
    assert len(model.asked) == 2 and store.stats().is_empty()


@pytest.mark.parametrize('error', [RuntimeError('bug'), ModelError('gone'), KeyboardInterrupt()])
def test_whatever_ends_a_batch_what_came_is_kept_and_leases_are_free(store, error):
    def answer(request):
        if request.messages[0].content == '50': raise error
        return echo(request)
    requests = [question(str(i)) for i in range(100)]
    with pytest.raises(type(error)) as caught: ask(requests, ScriptedModel('m', answer, revision='1'), store)
    if isinstance(error, ModelError): assert str(caught.value).startswith('gone. 50 of 100 answers')
    assert store.stats()['responses'].sum() == 50
    model, start = ScriptedModel('m', echo, revision='1'), time.monotonic()
    assert texts(ask(requests, model, store)) == [str(i) for i in range(100)] and len(model.asked) == 50 and time.monotonic() - start < 5


def test_an_answer_that_came_alone_is_soon_in_the_store(store):
    seen = []
    def answer(request):
        if request.messages[0].content == 'b':
            time.sleep(1)
            seen.append(store.stats()['responses'].sum())
        return echo(request)
    ask([question('a'), question('b')], ScriptedModel('m', answer), store)
    assert seen == [1]


class FullDisk(Store):
    "Refuses to write as long as `full` is set."
    full = True
    def put_many(self, rows):
        if self.full: raise StoreError('the disk is full')
        return super().put_many(rows)

def test_a_store_that_refuses_stops_the_spending(tmp_path):
    with FullDisk(tmp_path/'s.sqlite') as store:
        model = ScriptedModel('m', echo)
        with pytest.raises(StoreError, match='full'): ask([question(str(i)) for i in range(1000)], model, store)
        assert len(model.asked) <= 33


@pytest.mark.parametrize('pause', [0, 1])  # seconds; in one, the thread beside the backend meets the full disk first
def test_what_the_store_refused_is_tried_again_at_the_end(tmp_path, pause):
    with FullDisk(tmp_path/'s.sqlite') as store:
        def answer(request):
            if len(model.asked) == 10: time.sleep(pause)
            if len(model.asked) == 40: store.full = False
            return echo(request)
        model = ScriptedModel('m', answer, revision='1')
        model.generate = lambda requests, deliver: _stubborn(model, requests, deliver)
        with pytest.raises(StoreError): ask([question(str(i)) for i in range(50)], model, store)
        assert store.stats()['responses'].sum() == 50

def _stubborn(model, requests, deliver):
    "A backend that has more on its way when a delivery fails, and delivers that too."
    failure = None
    for index, request in enumerate(requests):
        model.asked.append(request)
        try: deliver(index, Response(text=model.answer(request)))
        except StoreError as error: failure = error
    if failure: raise failure


def test_the_answer_that_was_first_stands(store):
    def answer(request):  # somebody else answers while we do
        store.put_many([Row(request.key(model.identity), 'm', 'generate', {}, {'text': 'theirs'})])
        return 'ours'
    model = ScriptedModel('m', answer)
    assert texts(ask([question('a')], model, store)) == ['theirs']


def test_a_stored_response_of_another_form_is_refused(store):
    model = ScriptedModel('m', echo)
    store.put_many([Row(question('a').key(model.identity), 'm', 'generate', {}, {'finish_reason': 'telepathy'})])
    with pytest.raises(StoreError, match='upgrade'): ask([question('a')], model, store)


def test_a_row_of_the_store_tells_what_was_asked(store, tmp_path):
    model = ScriptedModel('m?x=1', echo)
    ask([question('a', label='demo/a')], model, store)
    store.export(tmp_path/'e.jsonl')
    row = json.loads((tmp_path/'e.jsonl').read_text())
    assert row['model'] == 'm' and row['request']['label'] == 'demo/a' and row['request']['identity'] == model.identity
    assert row['request']['messages'] == [{'role': 'user', 'content': 'a'}]


# ---- with others -------------------------------------------------------------------------------------------------------------------

def test_threads_with_the_same_questions_pay_once(store):
    asked, requests = [], [question(str(i)) for i in range(20)]
    def answer(request):
        asked.append(request)
        time.sleep(0.01)
        return echo(request)
    results = []
    threads = [threading.Thread(target=lambda: results.append(texts(ask(requests, ScriptedModel('m', answer, revision='1'), store))))
               for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert results == [[str(i) for i in range(20)]]*4 and len(asked) == 20


def test_what_another_gives_up_is_taken_over(store):
    model = ScriptedModel('m', echo)
    key = question('a').key(model.identity)
    assert store.lease([key], 'another')
    threading.Timer(0.5, store.release, ([key], 'another')).start()
    assert texts(ask([question('b'), question('a')], model, store)) == ['B', 'A']
    assert texts([Response(text=request.messages[0].content) for request in model.asked]) == ['b', 'a']


def test_a_lease_that_nobody_renews_is_taken_over(tmp_path):
    with Store(tmp_path/'s.sqlite', lease_seconds=0.5) as store:
        model = ScriptedModel('m', echo)
        store.lease([question('a').key(model.identity)], 'another')
        assert texts(ask([question('a')], model, store)) == ['A']


CHILD = '''
    import os, sys, time
    from factlab.models.interface import Request, ScriptedModel, ask
    from factlab.store.answers import Store
    path, log, until = sys.argv[1], sys.argv[2], int(sys.argv[3])
    def answer(request):
        number = int(request.messages[0].content)
        if number >= until: time.sleep(600)
        with open(log, 'a') as file: file.write(f'{number}\\n')
        return str(number)
    requests = [Request(messages=[dict(role='user', content=str(i))]) for i in range(50)]
    with Store(path) as store: print(len(ask(requests, ScriptedModel('m', answer, revision='1'), store)))
'''

@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGINT])
def test_killed_and_resumed(tmp_path, how):
    log = tmp_path/'log'
    def start(until): return started(CHILD, tmp_path/'s.sqlite', log, until)
    child, end = start(until=20), time.monotonic() + 60
    while not log.is_file() or len(log.read_text().split()) < 20:
        assert time.monotonic() < end and child.poll() is None
        time.sleep(0.02)
    if how == signal.SIGKILL: time.sleep(0.6)
    child.send_signal(how)
    assert child.wait(30) != 0
    output, errors = start(until=50).communicate(timeout=60)
    assert output.strip() == '50', errors
    assert sorted(map(int, log.read_text().split())) == list(range(50))


# ---- loading -----------------------------------------------------------------------------------------------------------------------

@pytest.fixture
def backend(monkeypatch):
    made = []
    def load(name, target, options):
        read_options(name, options, {'size': Option(int, 1, 'how large')})
        time.sleep(0.05)
        made.append(model := ScriptedModel(name, echo))
        model.close = lambda: made.remove(model)
        return model
    monkeypatch.setitem(registry._entries['models'], 'demo', Entry('demo', load, target='[NAME]'))
    yield made
    unload_models(*[name for name in models._loaded if name.startswith('demo')])


def test_a_model_is_loaded_once_even_by_many_threads(backend):
    threads = [threading.Thread(target=load_model, args=('demo:x',)) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert len(backend) == 1 and load_model('demo:x') is backend[0] is load_model(backend[0])
    load_model('demo:x?size=2')
    unload_models('demo:x')
    assert [model.name for model in backend] == ['demo:x?size=2']


def test_bad_names_are_answered_with_what_there_is(backend, monkeypatch):
    with pytest.raises(UsageError, match="did you mean 'openai:gpt-4o'.*tiny, small, hf:ORG/NAME, .*demo"): load_model('gpt-4o')
    with pytest.raises(UsageError, match='size .how large.'): load_model('demo:x?sise=2')
    with pytest.raises(UsageError, match='size'): load_model('demo:x?size=two')
    monkeypatch.setitem(registry._entries['models'], 'gone', Entry('gone', 'factlab_no_such_module:load'))
    with pytest.raises(ModelError, match='no_such_module'): load_model('gone')


def test_a_scripted_model_changes_its_identity_with_its_code():
    def saying(word): return lambda request: word
    identities = [ScriptedModel('m', function).identity
                  for function in (echo, lambda request: 'a', lambda request: 'b', saying('x'), saying('y'))]
    assert len({str(identity) for identity in identities}) == 5 and ScriptedModel('m', echo).identity == identities[0]
    assert not ask([question('x', choices=('a', 'b'))], ScriptedModel('m', echo), store=False)[0].ok
    best = ask([question('a', choices=('A', 'B'))], ScriptedModel('m', echo), store=False)[0].choice_logprobs
    assert best[0] > best[1]


def test_reading_back_thousands_asks_nothing(store):
    model, requests = ScriptedModel('m', echo), [question(f'{i} ' + 'word '*300) for i in range(3000)]
    ask(requests, model, store)
    assert len(ask(requests, model, store)) == 3000 == len(model.asked)
