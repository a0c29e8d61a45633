"""Misbehaving answers of a server, 10,000 and more: every question ends with its right answer, or with an error that names the cause.
Nothing wrong is stored, nothing is lost, and no more is asked than there are questions and answers that the server spoiled (and 5 %)."""
import json
import math
import os
import random
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack
from email.utils import formatdate
from functools import partial
from pathlib import Path
from time import time
from typing import NamedTuple
from unittest.mock import patch

from asking import model_at, question
from misbehaving_server import (
    Call,
    MisbehavingServer,
    answer,
    bad_line,
    beyond,
    completion,
    drip,
    drop,
    good_line,
    html,
    late_line,
    raw,
    redirect,
    send,
    slow,
    status,
)
from trials import Kinds, Trials

from factlab.core.core import ModelError
from factlab.models.interface import Request, Response, ask
from factlab.store.answers import Store

WRONG = 'never read'  # the words of every answer that may not be taken
TRIES, TIMEOUT = 6, 2  # of a request: calls, and seconds of one


class Spoilt(NamedTuple):
    "An answer that is no answer."
    act: Callable  # an action of the server
    words: tuple[str, ...]  # one of them stands in the error of what it ends
    ends: bool = False  # the request is not asked again


# ---- what a server may do --------------------------------------------------------------------------------------------------------

def junk(draws: random.Random) -> str:
    return ''.join(draws.choice('aZ09 {}[]",:\\\n\x00é東😀') for _ in range(draws.randint(0, 300)))


def changed(call: Call, change: Callable[[dict], object]) -> dict:
    "The body of an answer that is wrong in one place."
    body = completion(call, WRONG, top={'yes': -0.1, 'no': -3.0})
    change(body)
    return body


def instead(change: Callable[[dict], object]) -> Callable: return lambda handler, call: send(handler, changed(call, change))
def with_choice(**fields) -> Callable[[dict], object]: return lambda body: body['choices'][0].update(fields)
def with_message(**fields) -> Callable[[dict], object]: return lambda body: body['choices'][0]['message'].update(fields)
def with_field(**fields) -> Callable[[dict], object]: return lambda body: body.update(fields)


NOT_COUNTS = (['many', [3], {'n': 3}, -7, math.inf, math.nan, 1e300, '12 tokens', -1e9])
NOT_TEXTS = (None, 12, True, {'text': WRONG}, [], [WRONG], [{'type': 'text', 'text': 12}], [{'text': {'value': WRONG}}], [None])
NOT_OBJECTS = ('text', 12, True, [], [WRONG], [[]])
BROKEN_OFF = ('abort', 'error', 'cancelled', 'timeout', 'tool_calls', 'function_call', 'repetition', {'why': 'error'}, ['stop'])
NOT_LOGPROBS = ('text', 12, {'content': 'text'}, {'content': [None]}, {'content': [{'token': None, 'logprob': -1}]},
                {'content': [{'token': 'yes'}]}, {'content': [{'token': 'yes', 'logprob': 'likely'}]},
                {'content': [{'token': 'yes', 'logprob': math.nan, 'top_logprobs': [{'token': 'yes', 'logprob': math.nan}]}]},
                {'content': [{'token': 'yes', 'logprob': 3.0, 'top_logprobs': [{'token': 'yes', 'logprob': 3.0}]}]},
                {'content': [{'token': 'yes', 'logprob': -1, 'top_logprobs': [{'token': 7, 'logprob': -1}]}]},
                {'content': [{'token': 'yes', 'logprob': -1, 'top_logprobs': {'yes': -1}}]})


def wrong_json(draws: random.Random) -> Spoilt:
    "A 200 whose body is no answer."
    deep = draws.choice((3_000, 100_000))
    body = draws.choice((junk(draws), '', 'null', 'true', '3', '[]', '{}', '"' + WRONG + '"', '{"choices": []}', '{"choices": null}',
                         '{"choices": {"0": {}}}', '{"choices": ["x"]}', '{"choices": [null]}', '{"choices": [[]]}', '[' * deep,
                         '{"choices": ' * deep, '{"choices": ' + '9'*5_000 + '}', 'data: {"choices": []}\n\ndata: [DONE]\n\n',
                         '\ufeff' + '{"choices": [', '{"error": {"message": "overloaded"}}', '{"error": "overloaded"}',
                         '{"error": [{"code": 7}]}'))
    return Spoilt(raw(body), ('not JSON', 'not an object', 'no choices', 'holds an error', 'malformed', 'too deep'))


def beside_an_error(draws: random.Random) -> Spoilt:
    "A 200 that holds an error and an answer."
    error = draws.choice(('upstream died', {'message': 'upstream died', 'code': 502}, ['upstream died']))
    return Spoilt(instead(with_field(error=error)), ('upstream died',))


def twice(draws: random.Random) -> Spoilt:
    "Two bodies in one."
    def act(handler, call):
        body = json.dumps(completion(call, WRONG))
        send(handler, body + draws.choice(('', '\n', ',')) + body)
    return Spoilt(act, ('not JSON',))


def half_a_body(draws: random.Random) -> Spoilt:
    "A body whose rest is missing: its length says so, or it does not, or it comes slowly and ends."
    share, kind = draws.random()*.95, draws.randrange(4)
    def act(handler, call):
        body = json.dumps(completion(call, WRONG))
        if kind == 0: return send(handler, body[:int(share*len(body))])
        if kind == 1: return drop(1 + int(share*len(body)))(handler, call)
        if kind == 2: return drip(body, 0.2, 5, kept=1 + int(share*4))(handler, call)
        handler.send_response(200)
        handler.send_header('Transfer-Encoding', 'chunked')
        handler.end_headers()
        part = body[:1 + int(share*len(body))].encode()
        handler.wfile.write(f'{len(part):x}\r\n'.encode() + part + draws.choice((b'', b'\r\n', b'\r\nzz\r\n')))
        return drop()(handler, call)
    return Spoilt(act, ('not JSON', 'connection broke'))


def reset(draws: random.Random) -> Spoilt:
    "The connection is closed before anything is said, or after a line that is no HTTP."
    said = draws.choice((b'', b'', b'HTTP/1.1 ', b'HTTP/9.9 200 OK\r\n\r\n', b'\x15\x03\x01\x00\x02', b'HTTP/1.1 2000 Fine\r\n\r\n',
                         b'HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n', b'HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n'))
    def act(handler, call):
        handler.wfile.write(said)
        drop()(handler, call)
    return Spoilt(act, ('connection broke', 'no connection'))


def not_that_coding(draws: random.Random) -> Spoilt:
    "A body that is not coded as its head says."
    coding = draws.choice(('gzip', 'deflate'))
    return Spoilt(lambda handler, call: send(handler, completion(call, WRONG), Content_Encoding=coding), ('connection broke', 'not JSON'))


def told_to_wait(draws: random.Random) -> Spoilt:
    "A 429, and when to come again, as servers say it and as they should not."
    said = f'slow down {draws.randrange(1000)}'
    def act(handler, call):
        date = formatdate(time() + draws.choice((-3600, 0, .1, 3600, 10**9)), usegmt=draws.random() < .5)
        after = draws.choice((None, None, 0.02, '0', '-3', 'soon', '', '1e9999', 'nan', date, 'Wed, 99 Foo 2026 27:00:00 GMT',
                              'Fri, 31 Dec 99999 23:59:59 GMT', '2030-01-01'))
        millis = {'retry-after-ms': draws.choice(('10', 'x', '-5'))} if draws.random() < .2 else {}
        status(429, said, after, millis)(handler, call)
    return Spoilt(act, (said,))


def fails(draws: random.Random) -> Spoilt:
    "A status that may pass, with an error's words, a page or nothing."
    http, said = draws.choice((500, 502, 503, 504, 507, 520, 529, 599, 408, 409)), f'broken {draws.randrange(1000)}'
    act = draws.choice((status(http, said), html(http), status(http, said, 0.01),
                        lambda handler, call: send(handler, '', http), lambda handler, call: send(handler, '[' * 5_000, http),
                        lambda handler, call: send(handler, json.dumps({'error': [said]}), http),
                        lambda handler, call: send(handler, completion(call, WRONG), http)))
    return Spoilt(act, (f'status {http}',))


def refuses(draws: random.Random) -> Spoilt:
    "A status that does not pass."
    http, said = draws.choice((400, 413, 422)), f'this prompt has {draws.randrange(10**6)} tokens too many'
    return Spoilt(status(http, said), (said,), ends=True)


def too_slow(draws: random.Random) -> Spoilt:
    "Bytes that come in time, but not all of them."
    def act(handler, call):
        if draws.random() < .5: slow(TIMEOUT + .5, answer(WRONG))(handler, call)
        else: drip(completion(call, WRONG), TIMEOUT + 1.0, 20)(handler, call)
    return Spoilt(act, ('no answer within',))


def no_text(draws: random.Random) -> Spoilt:
    "An answer that has no text where its text should be."
    change = draws.choice((with_message(content=draws.choice(NOT_TEXTS)), with_choice(message=draws.choice((None, *NOT_OBJECTS)))))
    return Spoilt(instead(change), ('no content', 'malformed'))


def wrong_counts(draws: random.Random) -> Spoilt:
    "An answer that says of its tokens what cannot be."
    field, count = draws.choice(('prompt_tokens', 'completion_tokens')), draws.choice(NOT_COUNTS)
    details = draws.choice(('text', 5, {'reasoning_tokens': count}))
    change = draws.choice((lambda body: body['usage'].update({field: count}), with_field(usage=draws.choice(('text', 12, [3], [[]]))),
                           lambda body: body['usage'].update(completion_tokens_details=details)))
    return Spoilt(instead(change), ('malformed',))


def broken_off(draws: random.Random) -> Spoilt:
    "An answer that ends for a reason that is no end."
    ended = draws.choice(BROKEN_OFF)
    return Spoilt(instead(with_choice(finish_reason=ended)), ('broke the answer off',), ends=True)


def withheld(draws: random.Random) -> Spoilt:
    "An answer that the server keeps to itself."
    return Spoilt(instead(with_choice(finish_reason='content_filter')), ('content_filter',), ends=True)


def wrong_logprobs(draws: random.Random) -> Spoilt:
    "Log-probabilities that are none."
    told = draws.choice(NOT_LOGPROBS)
    return Spoilt(instead(with_choice(logprobs=told)), ('malformed',))


def no_logprobs(draws: random.Random) -> Spoilt:
    told = draws.choice(([], None, {}, {'content': []}, {'content': None}))
    return Spoilt(instead(with_choice(logprobs=told)), ('no log-probabilities',), ends=True)


EVERY = (wrong_json, beside_an_error, twice, half_a_body, reset, not_that_coding, told_to_wait, fails)
SPOILS = {'text': (*EVERY, no_text, wrong_counts), 'choices': (*EVERY, wrong_counts, wrong_logprobs)}
SPOILS['log-probabilities'] = (*SPOILS['text'], wrong_logprobs)
ENDS = {'text': (refuses, broken_off, withheld), 'choices': (refuses, no_logprobs), 'log-probabilities': (refuses, broken_off, withheld)}


# ---- what is asked, and what is right --------------------------------------------------------------------------------------------

def right(prompt: str) -> str:
    "The right answer: of many lengths and scripts, and other for each prompt."
    draws = random.Random(f'right {prompt}')
    return f'{prompt}: ' + ' '.join(draws.choice(('yes', 'no', 'Größe', '東京', '😀', '{"a": 1}', '</b>', 'x'*300, '\\n'))
                                    for _ in range(draws.randint(0, 12))).strip()


def scores(prompt: str) -> dict[str, float]:
    share = random.Random(f'scores {prompt}').uniform(.1, .9)
    return {'yes': math.log(share*.98), 'no': math.log((1 - share)*.98)}


def well(kind: str, draws: random.Random) -> Callable:
    "The right answer: slowly, with more behind it than belongs there, or as it should be."
    seconds, pieces, chance = draws.uniform(.1, .4), draws.choice((2, 7, 40)), draws.random()
    def act(handler, call):
        text = 'yes' if kind == 'choices' else right(call.prompt)
        body = completion(call, text, top=scores(call.prompt))
        if chance < .02: drip(body, seconds, pieces)(handler, call)
        elif chance < .1: beyond(body, completion(call, WRONG, top={'yes': -.1, 'no': -3.0}))(handler, call)  # and another answer
        elif chance < .12: beyond(body, WRONG)(handler, call)
        else: send(handler, body)
    return act


def asked(kind: str, prompt: str) -> Request:
    return question(prompt, **{'text': {}, 'choices': {'choices': ('yes', 'no')}, 'log-probabilities': {'top_logprobs': 2}}[kind])


def is_right(kind: str, prompt: str, response: Response) -> str:
    "What is wrong with a response that says it is an answer."
    counts = response.prompt_tokens, response.completion_tokens
    if not all(isinstance(count, int) and 0 <= count < 10**6 for count in counts): return f'tokens that cannot be: {counts}'
    if kind == 'choices':
        found, wanted = response.choice_logprobs, tuple(scores(prompt).values())
        return '' if found and all(abs(a - b) < 1e-9 for a, b in zip(found, wanted, strict=True)) else f'scores {found} for {wanted}'
    if response.text != right(prompt): return f'another answer: {response.text[:60]!r} for {right(prompt)[:60]!r}'
    if kind == 'text': return ''
    told = [each.token for each in response.logprobs]
    return '' if told == right(prompt).split() else f'tokens {told[:5]}'


class Script:
    "What each prompt meets: its spoilt answers in turn, then its right one. Counts what was spoilt."

    def __init__(self, kind: str, plan: dict[str, list[Spoilt]], draws: random.Random):
        self.plan, self.spoilt, self.lock, self.met = plan, 0, threading.Lock(), Counter[str]()
        self.well = {prompt: well(kind, draws) for prompt in plan}

    def __call__(self, call: Call) -> Callable:
        with self.lock:
            at, spoils = self.met[call.prompt], self.plan[call.prompt]
            self.met[call.prompt] += 1
            if at >= len(spoils): return self.well[call.prompt]
            self.spoilt += 1
            return spoils[at].act


def planned(kind: str, draws: random.Random) -> list[Spoilt]:
    "What one question meets: mostly one to three spoilt answers, sometimes none, sometimes only such."
    number = draws.choices((0, 1, 2, 3, TRIES, -1), (10, 60, 20, 6, 1, 3))[0]
    kinds = SPOILS[kind] if number < TRIES else tuple(each for each in SPOILS[kind] if each is not told_to_wait)
    made = [draws.choice(kinds) for _ in range(number)] if number >= 0 else [draws.choice(ENDS[kind])]
    if number >= 0 and draws.random() < .005: made = [too_slow]
    return [each(random.Random(draws.getrandbits(64))) for each in made]  # of its own: the server acts in many threads


# ---- trials ----------------------------------------------------------------------------------------------------------------------

def judged(kind: str, prompt: str, spoils: list[Spoilt], response: Response) -> str:
    "What is wrong with the end of a question."
    last = spoils[-1] if spoils else None
    may_fail = last is not None and (last.ends or len(spoils) >= TRIES)
    if response.ok: return f'answered, though it met only faults: {response.text[:40]!r}' if may_fail else is_right(kind, prompt, response)
    if last is None or not may_fail: return f'no answer, though it could be had: {response.error}'
    if any(word in response.error for word in last.words): return ''
    return f'the error names another cause: {response.error!r}, not {last.words}'


def conversation(kind: str, prompts: list[str], draws: random.Random, folder: Path) -> Generator[str, None, int]:
    "Ask, judge each end, then ask again of a server that is well: nothing wrong is stored, nothing lost."
    plan = {prompt: planned(kind, draws) for prompt in prompts}
    script, requests = Script(kind, plan, draws), [asked(kind, prompt) for prompt in prompts]
    with MisbehavingServer(script) as server, Store(folder/f'{draws.randrange(10**9)}.sqlite') as store:
        model = model_at(server.url, retries=TRIES - 1, timeout=TIMEOUT, concurrency=draws.choice((4, 16, 32)))
        responses = ask(requests, model, store)
        most, sent = 1.05*(len(prompts) + script.spoilt), len(server.calls)
        judgements = [judged(kind, prompt, plan[prompt], response) for prompt, response in zip(prompts, responses, strict=True)]
        script.plan = dict.fromkeys(prompts, [])
        failed, before = {prompt for prompt, response in zip(prompts, responses, strict=True) if not response.ok}, len(server.calls)
        second = ask(requests, model, store)
        again = {call.prompt for call in server.calls[before:]}
        for prompt, said, response in zip(prompts, judgements, second, strict=True):
            stored = is_right(kind, prompt, response) if response.ok else f'no answer at the second asking: {response.error}'
            lost = 'asked again, though it was answered' if prompt in again - failed else ''
            if said or stored or lost: yield f'{prompt}: {said or stored or lost}'
            else: yield ''
        yield '' if sent <= most else f'{sent} requests for {len(prompts)} questions and {script.spoilt} spoilt answers'
        return script.spoilt


def surroundings(folder: str) -> list:
    "Short waits, a home of its own, no key."
    environment = {'FACTLAB_HOME': folder, 'FACTLAB_PROGRESS': '0', 'OPENAI_API_KEY': '', 'OPENAI_BASE_URL': '', 'FACTLAB_BATCH': ''}
    return [patch.dict(os.environ, environment), patch('factlab.models.endpoint_calls.FIRST_WAIT', .01),
            patch('factlab.models.endpoint_calls.LONGEST_WAIT', .2), patch('factlab.models.endpoint_batches.POLL', .01),
            patch('openai._base_client.INITIAL_RETRY_DELAY', .01)]


def in_surroundings(trials: Callable[[random.Random, Path], Trials], draws: random.Random) -> Trials:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack, warnings.catch_warnings():
        for each in surroundings(folder): stack.enter_context(each)
        warnings.simplefilter('ignore')
        return (yield from trials(draws, Path(folder)))


def many(kind: str, count: int, draws: random.Random, folder: Path) -> Trials:
    spoilt = 0
    for start in range(0, count, 500):
        prompts = [f'question {at}' for at in range(start, min(count, start + 500))]
        spoilt += yield from conversation(kind, prompts, draws, folder)
    return f'{spoilt:,} spoilt answers'


# ---- what ends a batch of questions ------------------------------------------------------------------------------------------------

FATAL = {  # from some call on: an action, and a word of the error
    'a key that no longer counts': (status(401, 'the key has expired'), 'the key has expired'),
    'no quota': (status(429, 'pay first', code='insufficient_quota'), 'no quota left'),
    'no money': (status(402, 'pay first'), 'no quota left'),
    'moved': (redirect('https://elsewhere.example/v1', 308), 'elsewhere.example'),
    'moved for now': (redirect('/login', 302), '/login'),
    'out of order': (status(500, 'out of memory'), 'out of memory'),
    'the same refusal': (status(400, 'no prompts today'), 'no prompts today'),
    'junk for ever': (raw('<junk>'), 'not JSON'),
    'resets for ever': (drop(), 'connection'),
}


def stopped(count: int, draws: random.Random, folder: Path) -> Trials:
    "A server that stops to answer: the error names the cause, what came is kept, and the rest is asked when the server is well."
    for trial in range(count):
        name, at, width = draws.choice(list(FATAL)), draws.randint(0, 20), draws.choice((1, 1, 4))
        act, words = FATAL[name]
        prompts, gone = [f'question {trial} {number}' for number in range(at + draws.randint(30, 40))], [True]
        def script(call: Call, act=act, at=at, gone=gone) -> Callable:
            return act if gone[0] and call.number >= at else answer(right(call.prompt))
        with MisbehavingServer(script) as server, Store(folder/f'stopped {trial}.sqlite') as store:
            yield one_stop(f'{name} at {at} of {len(prompts)}', words, prompts, at, width, server, gone, store)


def one_stop(name: str, words: str, prompts: list[str], at: int, width: int, server: MisbehavingServer, gone: list[bool],
             store: Store) -> str:
    requests, model = [asked('text', prompt) for prompt in prompts], model_at(server.url, retries=1, timeout=TIMEOUT, concurrency=width)
    try: ask(requests, model, store)
    except ModelError as error: said = str(error)
    else: return f'{name}: no error'
    if words not in said: return f'{name}: the error names another cause: {said!r}'
    gone[0], before = False, len(server.calls)
    responses = ask(requests, model, store)
    if wrong := next(filter(None, (is_right('text', prompt, each) for prompt, each in zip(prompts, responses, strict=True))), ''):
        return f'{name}: {wrong}'
    again = len(server.calls) - before
    return '' if again <= len(prompts) - at + width - 1 else f'{name}: {again} asked again of {len(prompts)}, {at} had been answered'


# ---- files of batches --------------------------------------------------------------------------------------------------------------

def answered_line(line: dict, change: Callable[[dict], object] = lambda body: None) -> dict:
    "The line that answers a request, with a change of its body."
    found, prompt = good_line(line), line['body']['messages'][-1]['content']
    found['response']['body']['choices'][0]['message']['content'] = right(prompt)
    change(found['response']['body'])
    return found


def spoilt_lines(line: dict, other: dict, draws: random.Random) -> tuple[list[dict|str], list[dict|str], tuple[str, ...]]:
    "Lines of output and of errors for a request, and the words of its error; no words where it is answered all the same."
    name, own, text = line['custom_id'], answered_line(line), json.dumps(answered_line(line))
    lost, kind = ('without an answer to this request',), draws.randrange(16)
    if kind == 0: return [], [], lost
    if kind == 1: return [text[:draws.randint(1, len(text) - 2)]], [], lost
    if kind == 2:
        return [draws.choice(('null', '3', '[]', '[' * 100_000, '{"custom_id": 7}', junk(draws).replace('\n', ' ') + '{'))], [], lost
    if kind == 3: return [own]*draws.randint(2, 4), [], ()
    if kind == 4: return [own, {**answered_line(other), 'custom_id': name}][::draws.choice((1, -1))], [], ('different answers',)
    if kind == 5: return [{**own, 'custom_id': f'{name}0'}], [], lost
    if kind == 6: return [own], [bad_line(line, 500, 'too late, it is answered')], ()
    if kind == 7: return [], [bad_line(line, draws.choice((500, 503)), 'the node died')], ('the node died',)
    if kind == 8: return [], [late_line(line)], ('batch_expired',)
    if kind == 9: return [], [bad_line(line, 400, 'too many tokens here')], ('too many tokens here',)
    if kind == 10: return [{**own, 'response': draws.choice((None, 'text', {}, [], {'status_code': '200'}))}], [], lost
    if kind == 11: return [{**own, 'response': {'status_code': 200, 'body': draws.choice((None, 'text', [], {}, {'choices': []}))}}], [], \
        ('not an object', 'no choices', 'without an answer')
    if kind == 12: return [answered_line(line, with_choice(finish_reason='abort'))], [], ('broke the answer off',)
    if kind == 13: return [answered_line(line, with_field(usage={'prompt_tokens': draws.choice(NOT_COUNTS)}))], [], ('malformed',)
    if kind == 14: return [answered_line(line, with_message(content=draws.choice(NOT_TEXTS)))], [], ('no content', 'malformed')
    return [text + '\r', '', ' '], [], ()


def as_files(requests: list[dict], number: int, draws: random.Random, ends: dict[str, tuple[str, ...]]) -> tuple[list, list]:
    "The files of a batch in which every second request is spoilt; notes in `ends` the words of each error."
    output: list[dict|str] = []
    errors: list[dict|str] = []
    for at, line in enumerate(requests):
        good, bad, words = ([answered_line(line)], [], ()) if draws.random() < .5 else spoilt_lines(line, requests[at - 1], draws)
        output, errors = [*output, *good], [*errors, *bad]
        if good != [answered_line(line)]: ends[line['body']['messages'][-1]['content']] = words
    draws.shuffle(output)
    draws.shuffle(errors)
    return output, errors


def in_batches(count: int, draws: random.Random, folder: Path) -> Trials:
    "Batches whose files are damaged, on a server whose calls fail now and then."
    for start in range(0, count, 50):
        prompts, ends = [f'question {at}' for at in range(start, min(count, start + 50))], dict[str, tuple[str, ...]]()
        with MisbehavingServer() as server, Store(folder/f'batches {start}.sqlite') as store:
            steps = ('upload', 'create', 'created', 'look', 'read')
            server.batches.faults = {step: [fails(draws).act for _ in range(draws.randint(0, 2))] for step in steps}
            server.batches.work = lambda requests, number, ends=ends: as_files(requests, number, draws, ends)
            yield from one_batch(prompts, ends, server, store)


def one_batch(prompts: list[str], ends: dict[str, tuple[str, ...]], server: MisbehavingServer, store: Store) -> Trials:
    requests, model = [asked('text', prompt) for prompt in prompts], model_at(server.url, batch='on', retries=TRIES)
    responses = ask(requests, model, store)
    server.batches.work = lambda requests, number: ([answered_line(line) for line in requests], [])
    second, submitted = ask(requests, model, store), [len(lines) for lines in server.batches.inputs]
    for prompt, first, response in zip(prompts, responses, second, strict=True):
        words, stored = ends.get(prompt, ()), is_right('text', prompt, response) if response.ok else response.error
        said = is_right('text', prompt, first) if first.ok else '' if any(word in first.error for word in words) else \
            f'the error names another cause: {first.error!r}, not {words}'
        yield f'{prompt}: {said or stored}' if said or stored or (first.ok and words) else ''
    wanted = len(prompts) + sum(not each.ok for each in responses)
    yield '' if sum(submitted) == wanted else f'{submitted} lines for {len(prompts)} questions, not {wanted}'


KINDS: Kinds = {**{kind: partial(in_surroundings, partial(many, kind, count))
                   for kind, count in (('text', 4_000), ('choices', 3_000), ('log-probabilities', 3_000))},
                'stops': partial(in_surroundings, partial(stopped, 100)),
                'batches': partial(in_surroundings, partial(in_batches, 3_000))}
