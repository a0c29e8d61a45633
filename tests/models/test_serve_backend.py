"""`serve:` with real processes: a program that speaks vLLM's protocol is started, asked, killed, and started again."""
import gc
import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest
from fake_vllm import asked, gone, make_environment, pids, score

from factlab.core.core import ModelError
from factlab.models.interface import Message, Request, ask, load_model
from factlab.models.serve_backend import ServeModel, load_serve, server_arguments
from factlab.models.server_fleet import Desk, Fleet, FleetBatch, Router
from factlab.models.transformers_backend import Source
from factlab.models.vllm_backend import load_vllm
from factlab.models.vllm_requests import sampling_fields
from factlab.store.answers import Store


class Chat:
    "Stands for the format of a model whose tokenizer has a template."
    template = system = True
    def tokens(self, conversations): return [[0]*sum(len(message.content.split()) for message in each) for each in conversations]


@pytest.fixture
def serve(tmp_path, monkeypatch):
    "Makes a model behind fake servers; all of them end with the test."
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    made = []
    def make(options: dict|None = None, name: str = 'serve:toy', **orders) -> ServeModel:
        if not (tmp_path/'env').exists(): monkeypatch.setenv('FACTLAB_VLLM', str(make_environment(tmp_path/'env', **orders)))
        model = load_serve(name, '/toy', {'dtype': 'float32', 'startup': '30', 'backoff': '0.05', **(options or {})})
        model._find, model.chat = lambda: Source('/toy', None, 'folder:toy', {'max_position_embeddings': 4096}), Chat()
        made.append(model)
        return model
    yield make
    for model in made: model.close()
    if (tmp_path/'env'/'starts').exists(): assert gone(pids(tmp_path/'env'))

def question(text: str, **settings) -> Request: return Request(messages=(Message(role='user', content=text),), **settings)

def documents(count: int, each: int) -> list[Request]:
    return [question(f'{number} ' + f'document {number} of many '*40 + f'question {n}?') for number in range(count) for n in range(each)]

def answers(model, requests: list[Request]) -> list:
    found = {}
    model.generate(requests, found.__setitem__)
    return [found[index] for index in range(len(requests))]


def test_questions_of_a_document_go_to_one_server(serve, tmp_path):
    model = serve({'replicas': '2', 'concurrency': '4'})
    requests = documents(12, 3)
    found = answers(model, requests)
    assert [response.text for response in found] == [request.messages[0].content.upper() for request in requests]
    servers = defaultdict(list)
    for line in asked(tmp_path/'env'): servers[line['text'].split()[0]].append(line['pid'])
    assert len({pid for each in servers.values() for pid in each}) == 2
    assert sum(len(set(each)) == 1 for each in servers.values()) >= 10  # the last in a long line may be helped with
    assert {line['body']['repetition_penalty'] for line in asked(tmp_path/'env')} == {1.0}

def test_nothing_starts_when_the_store_has_the_answers(serve, tmp_path, monkeypatch):
    model, store = serve(), Store(tmp_path/'store.sqlite')
    ask([question('one'), question('two')], model, store)
    model.close()
    starts = (tmp_path/'env'/'starts').read_text()
    monkeypatch.setenv('FACTLAB_VLLM', '/not/there')
    again = serve({'replicas': '3'})
    assert [response.text for response in ask([question('two'), question('one')], again, store)] == ['TWO', 'ONE']
    assert (tmp_path/'env'/'starts').read_text() == starts
    with pytest.raises(ModelError, match='FACTLAB_VLLM'): ask([question('three')], again, store)
    store.close()

def test_answers_are_kept_under_the_key_of_the_weights(serve):
    model, inside = serve(), load_vllm('vllm:toy', 'toy', {'dtype': 'float32'})
    inside._find = model._find
    assert model.identity == inside.identity and model.identity == serve({'replicas': '4', 'concurrency': '7'}).identity
    others = [serve({'engine': '{"block_size": 32}'}), serve({'template': '{"enable_thinking": false}'}), serve({'kv_cache_dtype': 'fp8'}),
              serve({'hf_overrides': '{"rope_theta": 1}'}), serve({'quantization': 'fp8'})]
    assert len({json.dumps(each.identity, sort_keys=True) for each in (model, *others)}) == 6

def test_one_dies_in_the_middle_and_nothing_is_lost(serve, tmp_path, caplog):
    model = serve({'replicas': '2', 'concurrency': '4'}, die_after=10, wait=0.02)
    requests = documents(60, 2)
    found = answers(model, requests)
    assert all(response.ok for response in found) and len(found) == 120
    times = defaultdict(int)
    for line in asked(tmp_path/'env'): times[line['text']] += 1
    assert set(times) == {request.messages[0].content for request in requests}
    assert max(times.values()) <= 2 and sum(times.values()) <= 120 + 8  # again only what was on its way
    assert len((tmp_path/'env'/'starts').read_text().split()) == 3
    gc.collect()
    assert 'never retrieved' not in caplog.text  # asyncio's complaint, which a notebook shows with its traceback

def test_a_question_that_kills_its_server_fails_alone(serve, tmp_path):
    model = serve({'concurrency': '8'}, die_on='poison')
    requests = [question(f'question {n}') for n in range(20)]
    requests[3] = question('the poison')
    found = answers(model, requests)
    assert [index for index, response in enumerate(found) if not response.ok] == [3]
    assert 'ended each time that it was asked this' in found[3].error
    # thrice without an answer between, and once for each start before in which others were answered
    assert 3 <= sum(line['text'] == 'the poison' for line in asked(tmp_path/'env')) <= 3 + 19

def test_one_that_hangs_is_ended_and_started_again(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(Fleet, 'unwell', 0.6)
    monkeypatch.setattr(FleetBatch, 'every', 0.2)
    monkeypatch.setattr(FleetBatch, 'health', 0.3)
    model = serve({'concurrency': '2'}, hang_after=3)
    found = answers(model, [question(f'question {n}') for n in range(8)])
    assert all(response.ok for response in found) and len((tmp_path/'env'/'starts').read_text().split()) == 2

def test_servers_that_do_not_start_say_why_and_leave_nothing(serve, tmp_path):
    model = serve({'replicas': '2'}, broken=True)
    with pytest.raises(ModelError, match='not enough memory for the cache'): answers(model, [question('one')])
    assert gone(pids(tmp_path/'env')) and model.group.fleet is None

def test_garbage_is_never_an_answer(serve):
    model = serve({'attempts': '2'}, garbage=True)
    found = answers(model, [question(f'question {n}') for n in range(3)])
    assert not any(response.ok for response in found) and 'not JSON' in found[0].error
    with pytest.raises(ModelError, match=r'failed \d+ requests in a row') as failed:
        answers(serve({'attempts': '2', 'give_up': '5'}), [question(f'question {n}') for n in range(30)])
    assert 5 <= int(str(failed.value).split(' failed ')[1].split()[0]) < 30  # those on their way may fail before it is said

def test_choices_are_scored_token_by_token(serve, tmp_path):
    found = answers(serve(), [question('Is it so?', choices=('Yes', 'No way', 'No doubt about it'))])
    expected = [score('Yes'), score('No') + score('way'), sum(map(score, ('No', 'doubt', 'about', 'it')))]
    assert found[0].choice_logprobs == pytest.approx(expected) and found[0].meta['scored'] == 'tokens'
    paths = [line['path'] for line in asked(tmp_path/'env')]
    assert paths.count('/v1/chat/completions') == 1 and paths.count('/v1/completions') == 6  # once to verify

@pytest.mark.parametrize('named', ['', '&server=mine', '&revision=of-june', '&neutral=send'])
def test_a_vllm_server_that_the_user_has_named_scores_choices_by_tokens_too(serve, tmp_path, monkeypatch, named):
    "Its prompts' log-probabilities would be whole prefills, and end the engine of vLLM's CPU build where adapters are allowed."
    own = serve()
    answers(own, [question('Hello')])
    monkeypatch.setenv('KEY_OF_THE_SERVER', own.group.fleet.servers[0].key)
    other = load_model(f'openai:factlab?base_url={own.group.fleet.servers[0].url}/v1&env=KEY_OF_THE_SERVER{named}')
    found = answers(other, [question('Is it so?', choices=('Yes', 'No way'))])
    assert found[0].meta['scored'] == 'tokens' and found[0].choice_logprobs == pytest.approx([score('Yes'), score('No') + score('way')])
    assert not [line for line in asked(tmp_path/'env') if 'prompt_logprobs' in line['body']]

def test_models_that_differ_in_their_adapter_share_servers(serve, tmp_path):
    one, two = serve({'adapter': 'extractor'}, name='serve:one'), serve({'adapter': 'extractor', 'concurrency': '3'}, name='serve:two')
    assert answers(one, [question('one')])[0].ok and answers(two, [question('two')])[0].ok
    assert len((tmp_path/'env'/'starts').read_text().split()) == 1
    assert {line['body']['model'] for line in asked(tmp_path/'env')} == {one.adapter.digest[:12]}
    assert one.identity['adapter'] == one.adapter.digest and one.identity != serve().identity

def test_what_is_sent_is_what_the_engine_would_be_told(serve, tmp_path):
    sampled = question('one', temperature=0.7, seed=3, repeat=2)
    open_turn = Request(messages=(*question('two').messages, Message(role='assistant', content='It')))
    answers(serve(), [sampled, open_turn])
    bodies = {line['text']: line['body'] for line in asked(tmp_path/'env')}
    assert bodies['one']['seed'] == sampling_fields(sampled)['seed']
    assert bodies['It']['continue_final_message'] is True and bodies['It']['add_generation_prompt'] is False

def test_servers_write_json_without_white_space_unless_they_are_told(serve):
    def told(**options):
        arguments = server_arguments(serve(options).options, 'float32')
        at = arguments.index('--structured-outputs-config') if '--structured-outputs-config' in arguments else None
        assert not any('whitespace' in argument for argument in arguments if at is None or argument != arguments[at + 1])
        return None if at is None else json.loads(arguments[at + 1])
    assert told() == {'backend': 'guidance', 'disable_any_whitespace': True}
    assert told(json_whitespace='any') is None
    assert told(engine='{"structured-outputs-config": {"backend": "xgrammar"}}') == {'backend': 'xgrammar'}  # the user's own goes first
    assert serve().group is not serve({'json_whitespace': 'any'}).group and serve().identity != serve({'json_whitespace': 'any'}).identity

def test_the_next_model_ends_the_servers_of_the_one_before(serve, tmp_path):
    one, two = serve(), serve({'max_model_len': '100'})
    answers(one, [question('one')])
    before = pids(tmp_path/'env')
    answers(two, [question('two')])
    assert gone(before) and one.group.fleet is None
    assert answers(one, [question('again')])[0].text == 'AGAIN'

def test_an_interrupt_leaves_the_servers_and_the_next_question_is_answered(serve, tmp_path):
    model = serve({'concurrency': '2'}, wait=0.05)
    def stop(index, response): raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): model.generate([question(f'question {n}') for n in range(40)], stop)
    assert len(asked(tmp_path/'env')) < 40
    assert answers(model, [question('after')])[0].text == 'AFTER'
    assert len((tmp_path/'env'/'starts').read_text().split()) == 1

def test_two_threads_ask_one_model(serve):
    model, found = serve({'replicas': '2'}), {}
    def work(name): found[name] = answers(model, [question(f'{name} {n}') for n in range(20)])
    threads = [threading.Thread(target=work, args=(name,)) for name in 'ab']
    for thread in threads: thread.start()
    for thread in threads: thread.join(30)
    assert [response.text for name in 'ab' for response in found[name]] == [f'{name.upper()} {n}' for name in 'ab' for n in range(20)]

def test_it_is_a_backend_by_name():
    assert isinstance(load_model('serve:tiny?replicas=2'), ServeModel)
    code = ('import sys\nfrom factlab.models.interface import load_model\n'
            'for kind in ("serve", "vllm"): load_model(f"{kind}:tiny").identity\nprint("torch" in sys.modules)')
    ran = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert ran.stdout.strip() == 'False'  # CUDA was not touched before vLLM

@pytest.mark.parametrize(('replicas', 'told', 'expected'), [
    ('2', None, [{'VLLM_CPU_OMP_THREADS_BIND': part, 'OMP_PLACES': f'{{{part}}}', 'OMP_NUM_THREADS': '2', 'OMP_PROC_BIND': 'true',
                  'VLLM_ENABLE_V1_MULTIPROCESSING': '0'} for part in ('0,1', '2,3')]),
    ('2', '4-9', [{'VLLM_CPU_OMP_THREADS_BIND': '4-9'}]*2),
    ('1', None, [{}])])
def test_without_gpus_servers_keep_to_their_cores_and_no_engine_waits_on_them(serve, monkeypatch, replicas, told, expected):
    monkeypatch.setattr('os.sched_getaffinity', lambda _: {0, 1, 2, 3})
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '')
    if told: monkeypatch.setenv('VLLM_CPU_OMP_THREADS_BIND', told)
    else: monkeypatch.delenv('VLLM_CPU_OMP_THREADS_BIND', raising=False)
    model = serve({'replicas': replicas})
    assert answers(model, [question('two')])[0].text == 'TWO'
    of_cores = lambda each: {name: value for name, value in each.items() if name.startswith('OMP') or name in (
        'VLLM_CPU_OMP_THREADS_BIND', 'VLLM_ENABLE_V1_MULTIPROCESSING')}
    assert [of_cores(server.environment) for server in model.group.fleet.servers] == expected

def test_routing_is_even_and_the_same_in_every_process():
    texts = [f'{number} ' + f'document {number} '*100 for number in range(400)]
    router, loads = Router(4), [0]*4
    started = time.perf_counter()
    first = []
    for text in texts: first.append(router.pick(text, loads)); loads[first[-1]] += 1
    assert max(loads) - min(loads) <= 1 and time.perf_counter() - started < 5
    code = ('from factlab.models.server_fleet import Router\n'
            'print([Router(4).pick(f"{n} " + f"document {n} "*100, [0]*4) for n in range(50)])')
    ran = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert json.loads(ran.stdout) == [Router(4).pick(text, [0]*4) for text in texts[:50]]
    router.forget(2)
    assert all(router.pick(text, [None, 0, 0, 0]) != 0 for text in texts[:20])


def test_who_begins_first_leaves_the_others_their_share():
    desk = Desk([[*range(6)], [*range(6, 12)]])
    assert [desk.take(0) for _ in range(7)] == [*range(6), None]
    assert [desk.take(1) for _ in range(2)] == [6, 7] and desk.take(0) is None  # four are left: no more than the other can soon take
    desk = Desk([[0], [*range(1, 9)]])
    assert desk.take(1) == 1 and [desk.take(0) for _ in range(3)] == [0, 8, 7]
    desk.gone.add(1)
    desk.put_back(1)
    assert desk.take(0) == 6  # of one that is not there all is taken
