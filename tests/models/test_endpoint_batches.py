"""Batches of the openai: backend against a real server that misbehaves, and against real kills."""
import signal
import sqlite3

import pytest
from asking import QUICK, question, questions
from commands import started
from misbehaving_server import MisbehavingServer, bad_line, drop, good_line, html, late_line, status, wait_until

from factlab.core.core import ModelError
from factlab.models import endpoint_batches
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.interface import ask
from factlab.models.openai_backend import Endpoint, load_openai

VICTIM = '''
    import sys
    from factlab.models import endpoint_batches
    from factlab.models.openai_backend import load_openai
    from factlab.models.interface import Request, ask
    from factlab.store.answers import Store
    endpoint_batches.POLL = 0.02
    options = {'base_url': sys.argv[1], 'batch': 'on'}
    requests = [Request(messages=[dict(role='user', content=f'question {i}')]) for i in range(6)]
    with Store(sys.argv[2]) as store: answers = ask(requests, load_openai('openai:any', 'any', options), store)
    print(*[answer.text for answer in answers], sep=',')
'''
ALL = ','.join(f'QUESTION {i}' for i in range(6))


def model_at(server, **options) -> Endpoint:
    given = QUICK | {'batch': 'on'} | options
    return load_openai('openai:any', 'any', {'base_url': server.url, **given})


def start(server, path): return started(VICTIM, server.url, path)


def submitted(server) -> list[str]: return [line['custom_id'] for lines in server.batches.inputs for line in lines]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(endpoint_batches, 'POLL', 0.01)
    monkeypatch.setattr('openai._base_client.INITIAL_RETRY_DELAY', 0.01)


@pytest.fixture
def server():
    with MisbehavingServer() as server: yield server


def test_a_batch_and_direct_calls_share_their_answers(server, store):
    direct = ask(questions(3), model_at(server, batch='off'), store)
    batched = ask(questions(7), model_at(server), store)
    assert [answer.text for answer in batched] == [f'QUESTION {i}' for i in range(7)]
    assert [answer.text for answer in direct] == [answer.text for answer in batched[:3]]
    assert len(server.calls) == 3 and len(submitted(server)) == 4  # only what the store lacked
    assert ask(questions(7), model_at(server, batch='off'), store) == batched and len(server.calls) == 3
    sent = {line['body']['messages'][0]['content']: line['body'] for lines in server.batches.inputs for line in lines}
    assert set(sent['question 5']) == set(server.calls[0].body)
    assert {line['custom_id'] for lines in server.batches.inputs for line in lines} == \
        {request.key(model_at(server).identity) for request in questions(7)[3:]}


def test_faults_of_the_server_cost_time_and_not_a_second_batch(server, store):
    server.batches.faults = {'upload': [status(500), html(502)],
                             'created': [status(500)], 'look': [status(503), drop()], 'read': [status(500)]}
    answers = ask(questions(5), model_at(server), store)
    assert [answer.ok for answer in answers] == [True]*5
    assert len(server.batches.made) == 1  # made, though the server said 500


def test_a_clock_that_is_ahead_hides_no_batch(server, store, monkeypatch):
    "Others have made batches since, which are older than our clock says that ours is."
    def overtaken(handler, call):
        server.batches.made.append(server.batches.made[0] | {'id': 'of another', 'metadata': {}, 'created_at': 1_700_000_000})
        status(500)(handler, call)
    server.batches.faults = {'created': [overtaken]}
    monkeypatch.setattr(endpoint_batches.time, 'time', lambda: 4e9)
    assert all(answer.ok for answer in ask(questions(5), model_at(server), store)) and len(server.batches.inputs) == 1


def test_an_upload_that_never_works_says_so_and_the_next_start_submits(server, store):
    server.batches.faults = {'upload': [status(500)]*6}
    with pytest.raises(ModelError, match='the upload failed .status 500'): ask(questions(3), model_at(server), store)
    assert all(answer.ok for answer in ask(questions(3), model_at(server), store)) and len(server.batches.made) == 1


def test_broken_doubled_unknown_and_missing_lines(server, store):
    def work(requests, number):
        lines = [good_line(request) for request in requests]
        stranger = {**lines[0], 'custom_id': 'nobody asked this'}
        return [lines[0], lines[0], stranger, '{"custom_id": "' + requests[1]['custom_id'], 'null', *lines[3:]], \
            [bad_line(requests[0], 500, 'too late, it is answered')]
    server.batches.work = work
    with pytest.warns(UserWarning, match='2 lines of the batch batch-0 cannot be read'):
        answers = ask(questions(6), model_at(server), store)
    assert [answer.ok for answer in answers] == [True, False, False, True, True, True]
    assert 'without an answer to this request, 2 of its lines cannot be read' in answers[1].error
    server.batches.work = lambda requests, number: ([good_line(request) for request in requests], [])
    assert all(answer.ok for answer in ask(questions(6), model_at(server), store))
    assert len(submitted(server)) == 8  # of the second batch two: what had no answer


@pytest.mark.parametrize('order', [1, -1])
def test_two_answers_to_one_request_are_none(server, store, order):
    def work(requests, number):
        lines = [good_line(request) for request in requests]
        under_another = {**lines[1], 'custom_id': lines[0]['custom_id']}
        return [*[lines[0], under_another][::order], lines[2], {**lines[2], 'id': 'y'}, '['*100_000], []
    server.batches.work = work
    with pytest.warns(UserWarning, match='1 lines'): answers = ask(questions(3), model_at(server), store)
    assert 'different answers' in answers[0].error and 'without an answer' in answers[1].error and answers[2].text == 'QUESTION 2'
    server.batches.work = lambda requests, number: ([good_line(request) for request in requests], [])
    assert [answer.text for answer in ask(questions(3), model_at(server), store)] == [f'QUESTION {i}' for i in range(3)]


@pytest.mark.parametrize('end', ['expired', 'cancelled'])
def test_a_batch_that_ends_early_keeps_what_it_answered(server, store, end):
    server.batches.status = end
    server.batches.work = lambda requests, number: ([good_line(request) for request in requests[:2]],
                                                    [late_line(request) for request in requests[2:4]])
    answers = ask(questions(5), model_at(server), store)
    assert [answer.ok for answer in answers] == [True, True, False, False, False]
    assert answers[2].error.startswith('batch_expired: ') and answers[4].error.startswith(f'the batch {end} without an answer')
    assert store.stats()['responses'].sum() == 2


def test_refused_fields_are_learnt_and_only_their_requests_sent_again(server, store):
    def work(requests, number):
        refused = [request for request in requests if 'seed' in request['body']]
        return [good_line(request) for request in requests if request not in refused], \
            [bad_line(request, 400, "Unsupported parameter: 'seed' is not supported", param='seed') for request in refused]
    server.batches.work = work
    requests = [*questions(3), *[question(f'sampled {i}', temperature=1.0, seed=5) for i in range(2)]]
    answers = ask(requests, model_at(server), store)
    assert all(answer.ok for answer in answers) and [len(lines) for lines in server.batches.inputs] == [5, 2]
    assert answers[4].meta['omitted'] == ['seed'] and 'omitted' not in answers[0].meta


def test_refusals_for_good_are_reported(server, store):
    server.batches.work = lambda requests, number: ([], [bad_line(request, 400, 'the prompt is too long') for request in requests])
    assert [answer.error for answer in ask(questions(2), model_at(server), store)] == ['status 400: the prompt is too long']*2
    assert len(server.batches.made) == 1


def test_limits_split_batches(server, store, monkeypatch):
    monkeypatch.setattr(endpoint_batches, 'MOST_REQUESTS', 3)
    assert all(answer.ok for answer in ask(questions(8), model_at(server), store))
    assert [len(lines) for lines in server.batches.inputs] == [3, 3, 2]
    monkeypatch.setattr(endpoint_batches, 'MOST_BYTES', 1000)
    assert all(answer.ok for answer in ask([question('x'*600 + str(i)) for i in range(3)], model_at(server), store))
    assert [len(lines) for lines in server.batches.inputs[3:]] == [1, 1, 1]


def test_a_server_without_batches_says_what_to_do(server, store):
    server.batches.faults = {'upload': [status(404)]}
    with pytest.raises(ModelError, match='has no batches: run without --batch'): ask(questions(1), model_at(server), store)


@pytest.mark.parametrize('where', ['upload', 'create', 'created', 'polling', 'read'])
def test_a_killed_client_never_pays_twice(server, tmp_path, where):
    if where == 'polling': server.batches.looks = 10**9
    else: server.batches.faults = {where: [never_in_lock(server)]}
    child = start(server, tmp_path/'store.sqlite')
    wait_until(lambda: server.batches.made and server.batches.made[0]['looks'] > 2 if where == 'polling' else server.reached.is_set())
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=30)
    server.batches.looks = 2
    if where != 'polling': server.let_go.set()
    child = start(server, tmp_path/'store.sqlite')
    output, errors = child.communicate(timeout=60)
    assert output.strip() == ALL, errors
    assert len(submitted(server)) == len(set(submitted(server))) == 6
    with sqlite3.connect(tmp_path/'store.batches.sqlite') as record:
        assert [record.execute(f'SELECT count(*) FROM {table}').fetchone() for table in ('requests', 'batches')] == [(0,), (0,)]


def never_in_lock(server):
    "An action that says that it was reached, and answers nobody until it is let go."
    import threading
    server.reached, server.let_go = threading.Event(), threading.Event()
    def act(handler, call):
        server.batching.release()
        server.reached.set()
        server.let_go.wait(60)
        server.batching.acquire()
        status(500)(handler, call)
    return act


def test_part_of_a_living_batch_is_asked_and_the_rest_stays_paid_for(server, store):
    server.batches.faults = {'read': [status(500)]*6}
    with pytest.raises(ModelError): ask(questions(6), model_at(server), store)
    assert all(answer.ok for answer in ask(questions(2), model_at(server), store))
    assert all(answer.ok for answer in ask(questions(8), model_at(server), store))
    assert [len(lines) for lines in server.batches.inputs] == [6, 2]


def test_choices_are_scored_by_their_first_token(server, store):
    def work(requests, number):
        lines = [good_line(request) for request in requests]
        for line in lines:
            top = [{'token': 'A', 'logprob': -0.2}, {'token': 'B', 'logprob': -2.0}]
            line['response']['body']['choices'][0]['logprobs'] = {'content': [{'token': 'A', 'logprob': -0.2, 'top_logprobs': top}]}
        return lines, []
    server.batches.work = work
    answer, = ask([question('which?', choices=('A', 'B'))], model_at(server), store)
    assert answer.choice_logprobs == (-0.2, -2.0)


def test_the_price_is_that_of_batches_and_unknown_where_nobody_says_it(server, monkeypatch):
    def cost(**options):
        with DryRun() as dry: ask(questions(2), model_at(server, **options), store=False)
        return estimate_of(dry).select('cost', 'batch_cost').row(0)
    plain, in_batch = cost(batch='off', price='2,4')
    assert plain > 0 and in_batch is None and cost(price='2,4') == (plain, None)
    assert cost(price='2,4,1,2') == (plain, plain/2)
    monkeypatch.setenv('FACTLAB_BATCH', '1')
    assert load_openai('openai:any', 'any', {'base_url': server.url, 'price': '2,4'}).price is None
