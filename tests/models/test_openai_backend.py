"""The openai: backend against a real server that misbehaves, and against real signals."""
import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from asking import model_at, one, question, questions
from commands import started
from misbehaving_server import (
    MisbehavingServer,
    answer,
    beyond,
    completion,
    drop,
    free_port,
    half_json,
    html,
    in_turn,
    never,
    no_choices,
    null_content,
    raw,
    retry_at,
    slow,
    status,
    wait_until,
)

from factlab.core.core import ModelError, UsageError
from factlab.core.registry import split_options
from factlab.models.interface import Request, ask, load_model, unload_models
from factlab.models.openai_backend import ENDPOINT_OPTIONS, load_openai
from factlab.store.answers import Store

KEY = 'sk-very-secret-0123456789'


pytestmark = pytest.mark.usefixtures('no_key')


# ---- what passes -------------------------------------------------------------------------------------------------------------------

PASSING = {'429': status(429), '429 in seconds': status(429, retry_after=0.05), '429 at a date': retry_at(429, 0.4), '408': status(408),
           '409': status(409), '500': status(500), '502 as a page': html(502), '503': status(503, retry_after=0), 'drop': drop(),
           'drop within the body': drop(30),
           'page': html(), 'half': half_json(), 'no choices': no_choices(), 'null': null_content(), 'list': raw('[]'),
           'empty body': raw(''),
           'error in a 200': raw('{"error": {"message": "overloaded"}}'), 'not a choice': raw('{"choices": ["x"]}')}

@pytest.mark.parametrize('fault', PASSING)
def test_passing_faults_cost_a_call_and_no_answer(fault):
    with MisbehavingServer(in_turn(PASSING[fault], PASSING[fault])) as server:
        responses = ask(questions(5), model_at(server.url), store=False)
        assert [response.text for response in responses] == [f'QUESTION {i}' for i in range(5)]
        assert all(server.asked(f'question {i}') == 3 for i in range(5))


def test_429_for_a_while_does_not_use_up_the_retries():
    with MisbehavingServer(lambda call: status(429) if call.attempt < 3 else answer()) as server:
        responses = ask(questions(4), model_at(server.url, retries=0), store=False)
        assert all(response.ok for response in responses) and server.asked('question 0') == 4


@pytest.mark.parametrize('told', [status(429, retry_after=0.5), retry_at(429, 2.0)])
def test_retry_after_is_kept(told):
    with MisbehavingServer(in_turn(told)) as server:
        assert one(server).ok
        first, second = server.calls
        assert second.at - first.at >= 0.5


def test_retry_after_is_capped(monkeypatch):
    monkeypatch.setattr('factlab.models.endpoint_calls.LONGEST_WAIT', 0.1)
    with MisbehavingServer(in_turn(status(429, retry_after=3600))) as server:
        start = time.monotonic()
        assert one(server).ok and time.monotonic() - start < 3


def test_a_slow_answer_is_waited_for():
    with MisbehavingServer(in_turn(slow(0.5))) as server: assert one(server).ok and len(server.calls) == 1


@pytest.mark.parametrize('concurrency', [1, 8])
def test_what_a_server_sends_beyond_an_answer_is_no_answer(concurrency):
    def act(handler, call): beyond(completion(call, call.prompt.upper()), completion(call, 'of another question'))(handler, call)
    with MisbehavingServer(lambda call: act) as server:
        responses = ask(questions(40), model_at(server.url, concurrency=concurrency), store=False)
        assert [response.text for response in responses] == [f'QUESTION {i}' for i in range(40)] and len(server.calls) == 40


# ---- what fails for good -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('fault', ['500', 'page', 'half', 'no choices', 'null', 'drop within the body'])
def test_retries_are_bounded_and_the_others_live(fault):
    with MisbehavingServer(lambda call: PASSING[fault] if call.prompt == 'question 2' else answer()) as server:
        responses = ask(questions(5), model_at(server.url, retries=2), store=False)
        assert [response.ok for response in responses] == [True, True, False, True, True]
        assert server.asked('question 2') == 3 and 'gave up after 3' in responses[2].error


def test_a_slow_request_ends_and_no_other():
    with MisbehavingServer(lambda call: slow(30) if call.prompt == 'question 1' else answer()) as server:
        start = time.monotonic()
        responses = ask(questions(4), model_at(server.url, timeout=0.3, retries=1), store=False)
        assert [response.ok for response in responses] == [True, False, True, True] and time.monotonic() - start < 3
        assert 'no answer within' in responses[1].error


def test_429_for_ever_ends():
    with MisbehavingServer(lambda call: status(429, 'slow down', retry_after=0.02) if call.prompt == 'question 0' else answer()) as server:
        failed, fine = ask(questions(2), model_at(server.url, timeout=0.2), store=False)
        assert fine.ok and 'slow down' in failed.error


def test_a_bad_request_is_its_own_affair_and_is_not_repeated():
    with MisbehavingServer(lambda call: status(400, 'prompt too long') if call.prompt == 'question 7' else answer()) as server:
        responses = ask(questions(20), model_at(server.url), store=False)
        assert [i for i, response in enumerate(responses) if not response.ok] == [7] and 'prompt too long' in responses[7].error
        assert server.asked('question 7') == 1


def test_content_filter_is_an_error_with_its_reason():
    with MisbehavingServer(lambda call: answer('', 'content_filter')) as server: assert 'content_filter' in one(server).error


def test_length_and_refusal_are_answers():
    with MisbehavingServer(lambda call: answer(None, 'length')) as server: assert one(server).finish_reason == 'length'
    refusal = '{"choices": [{"message": {"content": null, "refusal": "I cannot"}, "finish_reason": "stop"}]}'
    with MisbehavingServer(lambda call: raw(refusal)) as server:
        response = one(server)
        assert response.ok and response.text == 'I cannot' and response.meta['refusal']


def test_a_failed_request_is_not_stored_and_is_asked_again(tmp_path):
    with MisbehavingServer(in_turn(status(400))) as server, Store(tmp_path/'s.sqlite') as store:
        model = model_at(server.url)
        assert not ask([question('a')], model, store)[0].ok
        assert ask([question('a')], model, store)[0].text == 'A' == ask([question('a')], model, store)[0].text
        assert server.asked('a') == 2


# ---- when nothing can go on --------------------------------------------------------------------------------------------------------

def test_down_endpoint_stops_early_and_says_where():
    url = f'http://127.0.0.1:{free_port()}/v1'
    start = time.monotonic()
    with pytest.raises(ModelError, match='cannot be reached') as error: ask(questions(3000), model_at(url), store=False)
    assert url in str(error.value) and 'base_url' in str(error.value) and time.monotonic() - start < 5


def test_a_silent_endpoint_stops_early():
    with MisbehavingServer(lambda call: never()) as server:
        start = time.monotonic()
        with pytest.raises(ModelError, match='no answer within 0.2 s'):
            ask(questions(500), model_at(server.url, timeout=0.2, concurrency=4), store=False)
        assert time.monotonic() - start < 3 and len(server.calls) <= 12


def test_an_endpoint_that_fails_everything_stops_early(monkeypatch):
    monkeypatch.setattr('factlab.models.endpoint_calls.GIVE_UP', 5)
    with MisbehavingServer(lambda call: status(500, 'out of memory')) as server:
        with pytest.raises(ModelError, match='out of memory'):
            ask(questions(500), model_at(server.url, retries=1, concurrency=4), store=False)
        assert len(server.calls) < 30


def test_wrong_model_names_the_right_ones():
    with MisbehavingServer(lambda call: status(404, 'The model `any` does not exist'), models=('right-7b',)) as server:
        with pytest.raises(ModelError, match="no model 'any'.*right-7b"):
            ask(questions(500), model_at(server.url, concurrency=4), store=False)
        assert len(server.calls) <= 4


@pytest.mark.parametrize('fault, words', [(status(401), 'OPENAI_API_KEY'), (status(403), 'OPENAI_API_KEY'), (status(402), 'quota'),
                                          (status(429, code='insufficient_quota'), 'quota')])
def test_refused_access_stops_at_once(fault, words):
    with MisbehavingServer(lambda call: fault) as server:
        with pytest.raises(ModelError, match=words): ask(questions(500), model_at(server.url, concurrency=4), store=False)
        assert len(server.calls) <= 4


def test_what_came_before_the_end_is_kept(tmp_path):
    with Store(tmp_path/'s.sqlite') as store:
        with MisbehavingServer(lambda call: answer() if call.number < 10 else status(401)) as server:
            with pytest.raises(ModelError, match='10 of 40 answers'): ask(questions(40), model_at(server.url, concurrency=1), store)
        assert store.stats()['responses'].sum() == 10


def test_a_restart_is_waited_for():
    with MisbehavingServer() as server:
        model, port = model_at(server.url, retries=10, concurrency=1), server.port
        def restart(call):
            if call.number == 3: server._server.server_close()  # no new connections
            return drop() if call.number == 3 else answer()
        server.script = restart
        import threading
        def come_back():
            import misbehaving_server as module
            while len(server.calls) < 4: time.sleep(0.01)
            time.sleep(0.5)
            again = module._Server(('127.0.0.1', port), module._Handler)
            again.owner = server
            threading.Thread(target=again.serve_forever, daemon=True).start()
            server.again = again
        threading.Thread(target=come_back, daemon=True).start()
        try: assert [r.text for r in ask(questions(8), model, store=False)] == [f'QUESTION {i}' for i in range(8)]
        finally:
            server.again.shutdown()
            server.again.server_close()


# ---- order, concurrency, loops -----------------------------------------------------------------------------------------------------

def test_order_is_kept_whatever_comes_first():
    with MisbehavingServer(lambda call: slow(0.2 if call.number % 3 == 0 else 0)) as server:
        responses = ask(questions(60), model_at(server.url, concurrency=16), store=False)
        assert [response.text for response in responses] == [f'QUESTION {i}' for i in range(60)]


@pytest.mark.parametrize('concurrency', [1, 5])
def test_concurrency_is_bounded_and_used(concurrency):
    with MisbehavingServer(lambda call: slow(0.03)) as server:
        ask(questions(30), model_at(server.url, concurrency=concurrency), store=False)
        assert server.most_at_once == concurrency


def test_inside_a_running_event_loop():
    async def notebook(model): return ask(questions(5), model, store=False)
    with MisbehavingServer() as server:
        model = model_at(server.url)
        with ThreadPoolExecutor(1) as fresh:  # in this thread a browser's loop may run already
            assert all(response.ok for response in fresh.submit(asyncio.run, notebook(model)).result())
        assert all(response.ok for response in ask(questions(5), model, store=False))  # and again, in another loop


def test_answers_are_delivered_as_they_come():
    with MisbehavingServer(lambda call: slow(1.0) if call.prompt == 'question 0' else answer()) as server:
        start, seen = time.monotonic(), []
        model_at(server.url).generate(questions(5), lambda index, response: seen.append((index, time.monotonic() - start)))
        assert [index for index, _ in seen][-1] == 0 and seen[-2][1] < 0.9 <= seen[-1][1]


def test_a_failing_delivery_ends_the_batch_and_the_calls():
    def deliver(index, response): raise RuntimeError('the disk is full')
    with MisbehavingServer(lambda call: slow(0.02)) as server:
        with pytest.raises(RuntimeError, match='disk'): model_at(server.url, concurrency=2).generate(questions(200), deliver)
        count = len(server.calls)
        time.sleep(0.2)
        assert len(server.calls) <= count + 2 < 20


def test_empty_batch_calls_nothing():
    model_at(f'http://127.0.0.1:{free_port()}/v1').generate([], lambda index, response: None)


# ---- dialects ----------------------------------------------------------------------------------------------------------------------

def test_fields_of_a_request_reach_the_server():
    request = question('x', max_tokens=7, temperature=0.5, top_p=0.9, seed=3, stop=('END',), top_logprobs=2)
    with MisbehavingServer() as server:
        response = one(server, request=request, extra='{"reasoning_effort": "low"}')
        body = server.calls[0].body
    assert body == {'model': 'any', 'messages': [{'role': 'user', 'content': 'x'}], 'max_tokens': 7, 'temperature': 0.5, 'top_p': 0.9,
                    'seed': 3, 'stop': ['END'], 'logprobs': True, 'top_logprobs': 2, 'reasoning_effort': 'low'}
    assert response.logprobs[0].top == (('X', -0.1), ('other', -3.0)) and response.prompt_tokens == 4 and response.completion_tokens == 1


def test_greedy_sends_no_seed_and_repeats_have_seeds_of_their_own():
    with MisbehavingServer() as server:
        ask([question('x', seed=3)] + [question('y', seed=3, temperature=1, repeat=i) for i in range(3)], model_at(server.url), store=False)
        seeds = [call.body.get('seed') for call in server.calls]
    assert seeds.count(None) == 1 and len(set(seeds)) == 4 and 3 in seeds


def test_missing_logprobs_are_marked():
    with MisbehavingServer(lambda call: raw('{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}')) as server:
        assert one(server, request=question('x', top_logprobs=2)).meta['logprobs'] == 'missing'


def test_max_completion_tokens_is_learnt_once():
    def script(call): return answer() if 'max_completion_tokens' in call.body else \
        status(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    with MisbehavingServer(script) as server:
        model = model_at(server.url, concurrency=1)
        assert all(response.ok for response in ask(questions(5), model, store=False)) and len(server.calls) == 6


def test_a_prompt_that_is_too_long_teaches_nothing():
    said = "'max_tokens' or 'max_completion_tokens' is too large: 500. This model's maximum context length is 4096 tokens"
    with MisbehavingServer(lambda call: status(400, said)) as server:
        assert 'too large' in one(server).error and len(server.calls) == 1


def test_system_role_is_folded_when_it_is_refused():
    request = Request(messages=[dict(role='system', content='Be brief.'), dict(role='user', content='x')])
    def script(call): return status(400, 'System role not supported') if call.body['messages'][0]['role'] == 'system' else answer()
    with MisbehavingServer(script) as server:
        assert one(server, request=request).meta['system'] == 'folded'
        assert server.calls[-1].body['messages'] == [{'role': 'user', 'content': 'Be brief.\n\nx'}]


@pytest.mark.parametrize('knows, mode, calls',
                         [(('json_schema', 'json_object'), 'native', 1), (('json_object',), 'lenient', 2), ((), 'lenient', 3)])
def test_json_schema_goes_down_by_steps(knows, mode, calls):
    def script(call):
        form = call.body.get('response_format', {}).get('type')
        return answer('{}') if form is None or form in knows else status(400, f'response_format type {form} is not supported')
    with MisbehavingServer(script) as server:
        model = model_at(server.url, concurrency=1)
        responses = ask(questions(3, json_schema='{"type": "object"}'), model, store=False)
        assert {response.json_mode for response in responses} == {mode} and len(server.calls) == calls + 2


def test_a_field_that_is_left_out_by_option_is_not_sent():
    with MisbehavingServer() as server:
        assert one(server, extra='{"temperature": null}').ok and 'temperature' not in server.calls[0].body
    assert model_at(server.url, extra='{"temperature": null}').identity != model_at(server.url).identity


# ---- what a model behind a server is called in the store -----------------------------------------------------------------------------

def weights(root, name='any', **more):
    "One entry of vLLM's list of models."
    return {'id': name, 'object': 'model', 'created': int(time.time()*1e6), 'owned_by': 'vllm', 'root': root, 'parent': None,
            'max_model_len': 4096} | more


def at_base_url(url, name='any'): return {'backend': 'openai', 'model': name, 'base_url': url}


def test_the_same_weights_at_another_port_are_not_paid_for_again(tmp_path):
    with Store(tmp_path/'store.sqlite') as store:
        for calls in (3, 0):
            with MisbehavingServer(models=(weights('org/model', max_model_len=calls),)) as server:
                model = model_at(server.url)
                assert [response.text for response in ask(questions(3), model, store)] == ['QUESTION 0', 'QUESTION 1', 'QUESTION 2']
                assert len(server.calls) == calls
    assert model.identity == {'backend': 'openai', 'model': 'any', 'root': 'org/model'}


def test_other_weights_under_the_same_name_and_address_answer_for_themselves(tmp_path):
    with Store(tmp_path/'store.sqlite') as store, MisbehavingServer(lambda call: answer('first'), (weights('org/first'),)) as server:
        assert ask(questions(1), model_at(server.url), store)[0].text == 'first'
        server.models, server.script = (weights('org/second'),), lambda call: answer('second')
        assert ask(questions(1), model_at(server.url), store)[0].text == 'second'
        server.models, server.script = (weights('adapter', parent='org/first'),), lambda call: answer('third')
        assert ask(questions(1), model_at(server.url), store)[0].text == 'third'
        server.models = (weights('org/first'),)
        assert ask(questions(1), model_at(server.url), store)[0].text == 'first' and len(server.calls) == 3


def test_a_server_that_is_off_keeps_its_name_and_its_answers(tmp_path):
    with Store(tmp_path/'store.sqlite') as store:
        with MisbehavingServer(models=(weights('org/model'),)) as server:
            first = model_at(server.url)
            ask(questions(2), first, store)
        later = model_at(server.url)
        assert later.identity == first.identity
        assert [response.text for response in ask(questions(2), later, store)] == ['QUESTION 0', 'QUESTION 1']
    assert 'base_url' in model_at(f'http://127.0.0.1:{free_port()}/v1').identity  # never heard of


@pytest.mark.parametrize('models', [('any',), (weights('org/model', name='other'),), (weights('any', owned_by='a vendor'),),
                                    (weights(None),), (weights(''),), ('any', 7, None)])
def test_a_server_that_does_not_name_its_weights_is_known_by_its_address(models):
    with MisbehavingServer(models=models) as server:
        assert model_at(server.url).identity == at_base_url(server.url)


def test_what_the_user_calls_it_takes_the_place_of_the_address():
    with MisbehavingServer(models=(weights('org/model'),)) as server:
        model = model_at(server.url, revision='v2')
        assert model.identity == {'backend': 'openai', 'model': 'any', 'revision': 'v2'} and not server.gets
        assert model.identity == model_at('http://elsewhere:1/v1', revision='v2').identity
    with pytest.raises(UsageError, match='revision'): model_at(server.url, revision=' ')


def test_the_list_of_models_is_asked_with_the_key_and_keeps_it_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv('LIST_KEY', 'sk-secret-0123456789')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    with MisbehavingServer(models=(weights('org/model'),)) as server:
        assert model_at(server.url, env='LIST_KEY').identity['root'] == 'org/model'
        assert server.gets[0]['authorization'] == 'Bearer sk-secret-0123456789'
    kept = [path.read_text() for path in tmp_path.rglob('*') if path.is_file()]
    assert kept == ['{"root":"org/model"}']


# ---- choices -----------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('refuses', [False, True])
def test_choices_by_the_first_token(refuses):
    def script(call):
        if refuses and call.body['top_logprobs'] > 5: return status(400, 'top_logprobs must be at most 5')
        return answer('B', top={'B': -0.1, ' A': -2.5, 'The': -4.0})
    with MisbehavingServer(script) as server:
        model = model_at(server.url, concurrency=1)
        responses = ask(questions(3, choices=('A', 'B', 'C')), model, store=False)
        assert len(server.calls) == 3 + refuses
    assert all(response.choice_logprobs == (-2.5, -0.1, -4.0) and response.meta['bounds'] == ['C'] for response in responses)


def test_choices_that_cannot_be_scored_say_so():
    with MisbehavingServer(lambda call: answer('Un', top={'Un': -0.1, 'Sup': -3.0})) as server:
        assert 'do not decide' in one(server, request=question('x', choices=('Supported', 'Unsupported'))).error
    with MisbehavingServer(lambda call: raw('{"choices": [{"message": {"content": "x"}}]}')) as server:
        assert 'no log-probabilities' in one(server, request=question('x', choices=('A', 'B'))).error


# ---- names and keys ----------------------------------------------------------------------------------------------------------------

def test_loading_by_name():
    with MisbehavingServer() as server:
        name = f'openai:org/any?base_url={server.url}/&price=0.15,0.60&concurrency=2&context=4096'
        model = load_model(name)
        try:
            assert model is load_model(name) and model.name == name and model.price == (0.15, 0.60) and model.context == 4096
            assert model.identity == {'backend': 'openai', 'model': 'org/any', 'base_url': server.url}
            assert ask([question('x')], model, store=False)[0].text == 'X' and server.calls[0].body['model'] == 'org/any'
        finally: unload_models(name)


def test_base_url_from_the_environment(monkeypatch):
    with MisbehavingServer() as server:
        monkeypatch.setenv('OPENAI_BASE_URL', server.url)
        assert ask([question('x')], load_openai('openai:any', 'any', {}), store=False)[0].ok


@pytest.mark.parametrize('options', ['patience=3', 'concurrency=0', 'retries=-1', 'concurrency=1001', 'concurrency=x',
                                     'price=1', 'price=-1,2',
                                     'price=1,2,3', 'timeout=nan', 'batch=yes', 'extra=[]', 'base_url=ftp://x', 'base_url=http://'])
def test_bad_options_are_named(options):
    with pytest.raises(UsageError) as error: load_openai(f'openai:any?{options}', 'any', split_options(f'openai:any?{options}')[1])
    assert options.split('=')[0] in str(error.value)
    if options == 'patience=3': assert all(name in str(error.value) for name in ENDPOINT_OPTIONS)


@pytest.mark.parametrize('options', [{'api_key': KEY}, {'OPENAI_API_KEY': KEY}, {'token': KEY}, {'base_url': f'http://me:{KEY}@host/v1'},
                                     {'base_url': f'http://host/v1?k={KEY}'}, {'extra': f'{{"api_key": "{KEY}"}}'},
                                     {'base_url': f'http://me:{KEY}@host:port/v1'}, {'base_url': f'http://{KEY}@host/v1', 'wrong': '1'}])
def test_a_key_in_the_name_is_refused_and_not_repeated(options):
    with pytest.raises(UsageError) as error: load_openai('openai:any?' + '&'.join(f'{k}={v}' for k, v in options.items()), 'any', options)
    assert KEY not in str(error.value)


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv('JUDGE_KEY', KEY)
    faults = {'a': status(400, f'bad header Bearer {KEY}'), 'b': html(), 'c': raw(f'{{"error": "{KEY}"}}')}
    with MisbehavingServer(lambda call: faults.get(call.prompt, answer())) as server, Store(tmp_path/'s.sqlite') as store:
        model = model_at(server.url, retries=1, env='JUDGE_KEY')
        responses = ask([question(text) for text in 'abcde'], model, store)
        assert server.calls[0].headers['authorization'] == f'Bearer {KEY}'
        server.script = lambda call: status(401, f'Incorrect API key provided: {KEY}')
        with pytest.raises(ModelError) as error: ask([question('x')], model, store)
        import traceback
        shown = ''.join(traceback.format_exception(error.value)) + repr(responses) + repr(model) + str(vars(model)) + str(model.identity)
    assert [response.ok for response in responses] == [False, False, False, True, True]
    assert KEY not in shown and KEY not in ''.join(capfd.readouterr())
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_without_a_key_a_server_of_ones_own_works_and_the_vendor_does_not():
    with MisbehavingServer() as server: assert one(server).ok
    with pytest.raises(ModelError, match='OPENAI_API_KEY'): ask([question('x')], load_openai('openai:gpt', 'gpt', {}), store=False)


# ---- signals -----------------------------------------------------------------------------------------------------------------------

CHILD = '''
    import sys
    from factlab.models.openai_backend import load_openai
    from factlab.models.interface import Request, ask
    from factlab.store.answers import Store
    url, path = sys.argv[1:]
    model = load_openai('openai:any', 'any', {'base_url': url, 'concurrency': '4'})
    requests = [Request(messages=[dict(role='user', content=f'question {i}')]) for i in range(60)]
    with Store(path) as store: responses = ask(requests, model, store)
    print(sum(response.ok for response in responses))
'''

def held_back(number: int):
    "A script: the first answers come at once, the others never."
    return lambda call: answer() if call.number < number else never()


@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGINT])
def test_what_was_killed_goes_on_where_it_was(tmp_path, how):
    with MisbehavingServer(held_back(20)) as server:
        child = started(CHILD, server.url, tmp_path/'s.sqlite')
        wait_until(lambda: len(server.calls) == 24)
        time.sleep(0.6)  # twice the time after which what arrived is in the store
        child.send_signal(how)
        _, errors = child.communicate(timeout=30)
        assert child.returncode != 0 and ('KeyboardInterrupt' in errors) == (how == signal.SIGINT)
        server.script, asked = in_turn(*[answer()]*9), len(server.calls)
        child = started(CHILD, server.url, tmp_path/'s.sqlite')
        output, errors = child.communicate(timeout=60)
        assert output.strip() == '60', errors
        assert len(server.calls) - asked == 40


def test_two_processes_share_the_work_and_pay_once(tmp_path):
    with MisbehavingServer(lambda call: slow(0.02)) as server:
        children = [started(CHILD, server.url, tmp_path/'s.sqlite') for _ in range(2)]
        assert [child.communicate(timeout=60)[0].strip() for child in children] == ['60', '60']
        assert len(server.calls) == 60
