"""`serve:` with real processes: a program that speaks vLLM's protocol is started, asked, killed, and started by the next run."""
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from asking import answers, question
from fake_vllm import asked, gone, make_environment, pids, score

from factlab.core.core import ModelError, UsageError
from factlab.core.registry import entries, loader
from factlab.models.interface import Message, Request, ask, load_model
from factlab.models.serve_backend import ServeModel, endpoint_of, load_serve, server_arguments
from factlab.models.transformers_backend import Source
from factlab.models.vllm_backend import load_vllm
from factlab.models.vllm_requests import sampling_fields
from factlab.store.answers import Store


class Chat:
    "Stands for the format of a model whose tokenizer has a template."
    template = system = True
    def tokens(self, conversations): return [[0]*sum(len(message.content.split()) for message in each) for each in conversations]


@pytest.fixture
def serve(home, tmp_path, monkeypatch):
    "Makes a model behind fake servers; all of them end with the test."
    made = []
    def make(options: dict|None = None, name: str = 'serve:toy', **orders) -> ServeModel:
        if not (tmp_path/'env').exists(): monkeypatch.setenv('FACTLAB_VLLM', str(make_environment(tmp_path/'env', **orders)))
        model = load_serve(name, '/toy', {'dtype': 'float32', 'startup': '30', **(options or {})})
        model._find, model.chat = lambda: Source('/toy', None, 'folder:toy', {'max_position_embeddings': 4096}), Chat()
        made.append(model)
        return model
    yield make
    for model in made: model.close()
    if (tmp_path/'env'/'starts').exists(): assert gone(pids(tmp_path/'env'))

def test_one_server_with_vllms_own_data_parallelism(serve, tmp_path, monkeypatch):
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '2,3,5,7')
    model = serve({'data_parallel_size': '2', 'tensor_parallel_size': '2'})
    requests = [question(f'question {n}') for n in range(150)]
    found = answers(model, requests)
    assert [response.text for response in found] == [request.messages[0].content.upper() for request in requests]
    start, = (json.loads(line) for line in (tmp_path/'env'/'arguments').read_text().splitlines())
    told = dict(zip(start['arguments'], start['arguments'][1:], strict=False))
    assert told['--data-parallel-size'] == told['--tensor-parallel-size'] == '2' and start['gpus'] == '2,3,5,7'
    assert endpoint_of(model, model.shared.server).settings.concurrency == 128
    assert {line['body']['repetition_penalty'] for line in asked(tmp_path/'env')} == {1.0}
    with pytest.raises(UsageError, match='needs 5 GPUs, and this machine shows 4'):
        answers(serve({'data_parallel_size': '5'}), [question('one')])

def test_a_server_that_ends_while_it_is_asked_says_so_and_the_next_run_goes_on(serve, tmp_path):
    model, store = serve({'concurrency': '4'}, die_after=10, wait=0.02), Store(tmp_path/'store.sqlite')
    requests = [question(f'question {n}') for n in range(40)]
    with pytest.raises(ModelError, match=r'ended with code 9 while it was asked; run again(.*\n)*.*loading weights, key \*\*\*'):
        ask(requests, model, store)
    kept = store.stats()['responses'].sum()
    assert 6 <= kept <= 10
    assert all(response.ok for response in ask(requests, model, store))
    texts = [line['text'] for line in asked(tmp_path/'env')]
    assert set(texts) == {f'question {n}' for n in range(40)} and len(texts) <= 40 + 2*4  # again only what was on its way
    assert len((tmp_path/'env'/'starts').read_text().split()) == 2
    store.close()

def test_nothing_starts_when_the_store_has_the_answers(serve, tmp_path, monkeypatch):
    model, store = serve(), Store(tmp_path/'store.sqlite')
    ask([question('one'), question('two')], model, store)
    model.close()
    starts = (tmp_path/'env'/'starts').read_text()
    monkeypatch.setenv('FACTLAB_VLLM', '/not/there')
    again = serve({'data_parallel_size': '3'})
    assert [response.text for response in ask([question('two'), question('one')], again, store)] == ['TWO', 'ONE']
    assert (tmp_path/'env'/'starts').read_text() == starts
    with pytest.raises(ModelError, match='FACTLAB_VLLM'): ask([question('three')], again, store)
    store.close()

def test_answers_are_kept_under_the_key_of_the_weights(serve):
    model, inside = serve(), load_vllm('vllm:toy', 'toy', {'dtype': 'float32'})
    inside._find = model._find
    assert model.identity == inside.identity and model.identity == serve({'data_parallel_size': '4', 'concurrency': '7'}).identity
    others = [serve({'engine': '{"block_size": 32}'}), serve({'extra': '{"chat_template_kwargs": {"enable_thinking": false}}'}),
              serve({'kv_cache_dtype': 'fp8'}),
              serve({'hf_overrides': '{"rope_theta": 1}'}), serve({'quantization': 'fp8'})]
    assert len({json.dumps(each.identity, sort_keys=True) for each in (model, *others)}) == 6

def test_a_server_that_does_not_start_says_why_and_leaves_nothing(serve, tmp_path):
    model = serve(broken=True)
    with pytest.raises(ModelError, match='not enough memory for the cache'): answers(model, [question('one')])
    assert gone(pids(tmp_path/'env')) and model.shared.server is None

def test_garbage_is_never_an_answer(serve):
    model = serve({'retries': '1'}, garbage=True)
    found = answers(model, [question(f'question {n}') for n in range(3)])
    assert not any(response.ok for response in found) and 'not JSON' in found[0].error
    with pytest.raises(ModelError, match='failed 20 requests in a row'):
        answers(model, [question(f'question {n}') for n in range(30)])

def test_choices_are_scored_token_by_token(serve, tmp_path):
    found = answers(serve(), [question('Is it so?', choices=('Yes', 'No way', 'No doubt about it'))])
    expected = [score('Yes'), score('No') + score('way'), sum(map(score, ('No', 'doubt', 'about', 'it')))]
    assert found[0].choice_logprobs == pytest.approx(expected) and found[0].meta['scored'] == 'tokens'
    paths = [line['path'] for line in asked(tmp_path/'env')]
    assert paths.count('/v1/chat/completions') == 1 and paths.count('/v1/completions') == 6  # once to verify

@pytest.mark.parametrize('named', ['', '&revision=of-june'])
def test_a_vllm_server_that_the_user_has_named_scores_choices_by_tokens_too(serve, tmp_path, monkeypatch, named):
    "Its prompts' log-probabilities would be whole prefills, and end the engine of vLLM's CPU build where adapters are allowed."
    own = serve()
    answers(own, [question('Hello')])
    monkeypatch.setenv('KEY_OF_THE_SERVER', own.shared.server.key)
    other = load_model(f'openai:factlab?base_url={own.shared.server.url}/v1&env=KEY_OF_THE_SERVER{named}')
    found = answers(other, [question('Is it so?', choices=('Yes', 'No way'))])
    assert found[0].meta['scored'] == 'tokens' and found[0].choice_logprobs == pytest.approx([score('Yes'), score('No') + score('way')])
    assert not [line for line in asked(tmp_path/'env') if 'prompt_logprobs' in line['body']]

def test_models_that_differ_in_their_adapter_share_a_server(serve, tmp_path):
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
    assert serve().shared is not serve({'json_whitespace': 'any'}).shared and serve().identity != serve({'json_whitespace': 'any'}).identity

def test_the_next_model_ends_the_server_of_the_one_before(serve, tmp_path):
    one, two = serve(), serve({'max_model_len': '100'})
    answers(one, [question('one')])
    before = pids(tmp_path/'env')
    answers(two, [question('two')])
    assert gone(before) and one.shared.server is None
    assert answers(one, [question('again')])[0].text == 'AGAIN'

def test_an_interrupt_leaves_the_server_and_the_next_question_is_answered(serve, tmp_path):
    model = serve({'concurrency': '2'}, wait=0.05)
    def stop(index, response): raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): model.generate([question(f'question {n}') for n in range(40)], stop)
    assert len(asked(tmp_path/'env')) < 40
    assert answers(model, [question('after')])[0].text == 'AFTER'
    assert len((tmp_path/'env'/'starts').read_text().split()) == 1

def test_two_threads_ask_one_model(serve):
    model, found = serve(), {}
    def work(name): found[name] = answers(model, [question(f'{name} {n}') for n in range(20)])
    threads = [threading.Thread(target=work, args=(name,)) for name in 'ab']
    for thread in threads: thread.start()
    for thread in threads: thread.join(30)
    assert [response.text for name in 'ab' for response in found[name]] == [f'{name.upper()} {n}' for name in 'ab' for n in range(20)]

def test_it_is_a_backend_by_name():
    assert loader(entries('models')['serve']) is load_serve
    assert isinstance(load_model('serve:tiny?data_parallel_size=2'), ServeModel)
    code = ('import sys\nfrom factlab.models.interface import load_model\n'
            'for kind in ("serve", "vllm"): load_model(f"{kind}:tiny").identity\nprint("torch" in sys.modules)')
    ran = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert ran.stdout.strip() == 'False'  # CUDA was not touched before vLLM

