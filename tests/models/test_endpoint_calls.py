"""One gate for each host, and what ten thousand calls to a server that misbehaves come to."""
import sys
import threading
import time
from collections import Counter

import pytest
from asking import model_at, question, questions
from misbehaving_server import MisbehavingServer, answer, drop, half_json, html, no_choices, null_content, slow, status, wrong_length

from factlab.core.core import digest
from factlab.models.endpoint_answers import seconds_to_wait
from factlab.models.endpoint_calls import limiter_of
from factlab.models.interface import ask

pytestmark = pytest.mark.usefixtures('no_key')


# ---- how long to wait ----------------------------------------------------------------------------------------------------------------

def test_a_date_is_of_the_servers_clock():
    "Ours may have been set back by years."
    said = {'retry-after': 'Wed, 21 Oct 2015 07:28:00 GMT'}
    assert seconds_to_wait(said | {'date': 'Wed, 21 Oct 2015 07:27:57 GMT'}) == 3
    assert seconds_to_wait(said | {'date': 'Thu, 22 Oct 2015 07:28:00 GMT'}) == 0 == seconds_to_wait(said | {'date': 'today'})
    assert seconds_to_wait({'date': 'Wed, 21 Oct 2015 07:27:57 GMT', 'retry-after': 'soon'}) is None


# ---- the rate limiter --------------------------------------------------------------------------------------------------------------

class Limited:
    "A script: so many calls in each window of time, and 429 beyond them."
    def __init__(self, calls: int, window: float):
        self.calls, self.window, self.lock, self.started, self.used = calls, window, threading.Lock(), 0.0, 0

    def __call__(self, call):
        with self.lock:
            now = time.monotonic()
            if now - self.started >= self.window: self.started, self.used = now, 0
            self.used += 1
            return status(429, 'slow down') if self.used > self.calls else slow(0.002)


def test_few_calls_are_refused(monkeypatch):
    monkeypatch.setattr('factlab.models.endpoint_calls.FIRST_WAIT', 0.1)
    script = Limited(calls=200, window=1.0)
    with MisbehavingServer(script) as server:
        responses = ask(questions(600), model_at(server.url), store=False)
        assert all(response.ok for response in responses) and len(server.calls) <= 1.2*600


def test_all_workers_and_sessions_wait_together():
    shut = threading.Event()
    def script(call):
        if not shut.is_set() and not shut.set(): return status(429, retry_after=0.6)
        if call.number < 8: time.sleep(0.3)  # longer than a busy machine takes to see that the host is paused
        return answer()
    with MisbehavingServer(script) as server:
        models = [model_at(server.url, name, concurrency=4) for name in ('one', 'two')]
        threads = [threading.Thread(target=ask, args=(questions(20), model, False)) for model in models]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        first = server.calls[0].at
        on_way = [call for call in server.calls if call.at < first + 0.55]
        assert len(server.calls) == 41 and len(on_way) <= 8  # what was on its way when the host was paused, and nothing more


def test_waiting_for_the_host_does_not_count_against_the_retries():
    start = time.monotonic()
    def script(call): return status(429, retry_after=0.2) if call.number % 3 == 0 else answer()
    with MisbehavingServer(script) as server:
        responses = ask(questions(12), model_at(server.url, concurrency=2, retries=0), store=False)
        assert all(response.ok for response in responses) and time.monotonic() - start > 0.9 and len(server.calls) == 18


def test_a_host_that_answers_nobody_is_given_up(monkeypatch):
    monkeypatch.setattr('factlab.models.endpoint_calls.GIVE_UP', 3)
    with MisbehavingServer(lambda call: status(429, 'quota of the day', retry_after=0.1)) as server:
        from factlab.core.core import ModelError
        with pytest.raises(ModelError, match='quota of the day'):
            ask(questions(100), model_at(server.url, timeout=0.2, concurrency=8), store=False)
        assert len(server.calls) < 40


def test_a_request_that_is_too_large_for_the_limit_is_refused_once():
    said = 'Request too large for any on tokens per min (TPM): Limit 30000, Requested 40000'
    with MisbehavingServer(lambda call: status(429, said) if call.prompt == 'question 1' else answer()) as server:
        responses = ask(questions(4), model_at(server.url), store=False)
        assert said in responses[1].error and len(server.calls) == 4 and sum(response.ok for response in responses) == 3


def test_an_interrupted_batch_gives_its_permits_back():
    def deliver(index, response): raise RuntimeError('enough')
    with MisbehavingServer(lambda call: slow(0.02)) as server:
        model = model_at(server.url, concurrency=4)
        with pytest.raises(RuntimeError): model.generate(questions(40), deliver)
        assert limiter_of(server.url).on_way == 0
        assert all(response.ok for response in ask(questions(8), model, store=False))


# ---- ten thousand --------------------------------------------------------------------------------------------------------------------

ONCE = {1: status(429, retry_after=0.02), 2: status(429), 3: status(500), 4: drop(), 5: drop(30), 6: half_json(), 7: no_choices(),
        8: null_content(), 9: wrong_length(), 10: html(), 11: status(503, retry_after=0.01), 12: slow(1.5), 13: status(529)}
TEACH = ('max_tokens', 'temperature', 'seed', 'stop', 'top_p', 'logprobs', 'response_format', 'system')
KINDS = (dict(temperature=0.7, seed=3), dict(stop=('END',)), dict(temperature=0.7, top_p=0.9), dict(top_logprobs=2),
         dict(json_schema='{"type": "object"}'), {}, {})

DENSITY = [100]  # faults 98 and 99 last for ever; a number below 98 leaves only those that pass

def fault(prompt: str) -> int: return int(digest(prompt.rpartition('\n')[2])[:8], 16) % DENSITY[0]  # with or without a folded system text

def stress(call):
    """Refuses each parameter always; each seventh prompt or so once, in one of thirteen ways; one in a hundred for ever as too long,
    and one in a hundred fails for ever."""
    refused = next((field for field in TEACH if field in call.body or field == call.body['messages'][0]['role']), None)
    if refused: return status(400, f"Unsupported parameter: '{refused}' role is not supported" if refused == 'system' else
                              f"Unsupported parameter: '{refused}' is not supported with this model")
    number = fault(call.prompt)
    if number == 98: return status(400, f'{call.prompt} is too long')
    if number == 99: return status(500, 'broken')
    return answer('{}') if met(call) or number not in ONCE else ONCE[number]

_met: Counter = Counter()

def met(call) -> bool:
    "Whether this prompt has been met in a form that is taken."
    _met[call.prompt] += 1
    return _met[call.prompt] > 1

def figures(count: int) -> dict[str, float]:
    """Answered, reported, calls sent, and calls needed: one for each different request, one more for each fault that meets it once,
    `tries` for those that it never answers, and one for each refusal of a parameter (two for a schema, which has two forms)."""
    _met.clear()
    turn = dict(role='system', content='Be brief.')
    each = [question(f'question {i}', **KINDS[i % len(KINDS)]) for i in range(count)]
    each = [request.model_copy(update={'messages': (type(request.messages[0])(**turn), *request.messages)}) if i % 11 == 0 else request
            for i, request in enumerate(each)]
    numbers = [fault(request.messages[-1].content) for request in each]
    tries = 3
    needed = sum(tries if number == 99 else 1 + (number in ONCE) for number in numbers) + len(TEACH) + 1
    with MisbehavingServer(stress) as server:
        start = time.monotonic()
        model = model_at(server.url, retries=tries - 1, timeout=1, concurrency=16)
        responses = ask(each + each[:count//20], model, store=False)  # one in twenty is asked twice
        found = Counter('answered' if response.ok else 'reported' for response in responses[:count])
        assert all(response.ok == (number < 98) for response, number in zip(responses, numbers, strict=False))
        sent = len(server.calls)
        return {**found, 'sent': sent, 'needed': needed, 'ratio': sent/needed, 'seconds': time.monotonic() - start}


def test_a_server_that_misbehaves_costs_little_more_than_it_must():
    found = figures(400)
    assert found['answered'] + found['reported'] == 400 and found['ratio'] <= 1.2, found


if __name__ == '__main__':
    DENSITY[0] = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    print(figures(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
