"""`vllm:` without vLLM: an engine that does as it is told. The real one is run by tests/vllm_check.py."""
import itertools
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from asking import answers

from factlab.core.core import ModelError, StoreError, UsageError
from factlab.models.interface import Message, Request, ask
from factlab.models.transformers_backend import Source
from factlab.models.vllm_backend import DeliveryThread, VllmModel, load_vllm
from factlab.models.vllm_requests import VLLM_OPTIONS, ChoiceTree, vllm_context, vllm_identity
from factlab.store.answers import Store

SOURCE = Source('/toy', None, 'folder:toy', {'max_position_embeddings': 4096})


class Engine:
    "Finishes one request at each step. A step may raise what it is given."
    model_config = SimpleNamespace(try_get_generation_config=lambda: {'eos_token_id': 2}, max_model_len=1234)
    vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=8))

    def __init__(self): self.waiting, self.aborted, self.most, self.raises, self.steps = {}, [], 0, None, 0

    def add_request(self, name, prompt, fields, **more):
        self.waiting[name] = (prompt['prompt_token_ids'], fields, more)
        self.most = max(self.most, len(self.waiting))

    def abort_request(self, names):
        self.aborted += names
        for name in names: self.waiting.pop(name)

    def step(self):
        self.steps += 1
        if self.raises: raise self.raises
        name = next(iter(self.waiting))
        prompt, fields, _ = self.waiting.pop(name)
        given = {token: SimpleNamespace(logprob=-0.25*token, decoded_token='x', rank=1) for token in fields.logprob_token_ids}
        answer = SimpleNamespace(text=f'{prompt[-1]}', token_ids=[7, 2], finish_reason='stop', logprobs=[given])
        return [SimpleNamespace(finished=True, request_id=name, prompt_token_ids=prompt, outputs=[answer])]


@pytest.fixture
def model(monkeypatch):
    "A model with an engine in it. What a text's last word says is its last token."
    def parameters(**fields): return SimpleNamespace(**{'logprob_token_ids': [], **fields})
    monkeypatch.setitem(sys.modules, 'vllm', SimpleNamespace(SamplingParams=parameters))
    made = VllmModel('vllm:toy', lambda: SOURCE, {name: option.default for name, option in VLLM_OPTIONS.items()} | {'dtype': 'float32'})
    tokenizer = SimpleNamespace(eos_token_id=2, encode=lambda text, add_special_tokens: [len(word) for word in text.split()])
    made.chat = SimpleNamespace(tokenizer=tokenizer, tokens=lambda texts: [[1, int(each[-1].content.split()[-1])] for each in texts])
    made._llm = SimpleNamespace(llm_engine=Engine())
    yield made
    made._llm = None

def question(number: int, **settings) -> Request: return Request(messages=(Message(role='user', content=f'question {number}'),), **settings)

def test_every_answer_reaches_its_question_and_few_wait_in_the_engine(model):
    requests = [question(number) for number in range(700)]
    requests[::7] = [question(number, choices=('a b', 'a ccc', 'dd')) for number in range(0, 700, 7)]
    found = answers(model, requests)
    assert all(found[number].text == str(number) for number in range(700) if number%7)
    assert all(found[number].choice_logprobs == (-0.5, -1.0, -0.5) for number in range(0, 700, 7))
    assert model._llm.llm_engine.most <= 4*8 + 256*2  # a chunk of scored questions gives several requests each

def test_the_engine_does_not_wait_for_the_store(model):
    "The first delivery lasts until the engine has made its hundred steps."
    engine, delivered = model._llm.llm_engine, []
    def slow(index, response):
        until = time.monotonic() + 30
        while engine.steps < 100 and time.monotonic() < until: time.sleep(0.01)
        delivered.append(engine.steps)
    model.generate([question(number) for number in range(100)], slow)
    assert delivered == [100]*100

def test_a_store_that_refuses_ends_the_batch_and_leaves_the_engine_empty(model):
    def refuse(index, response): raise StoreError('the disk is full')
    with pytest.raises(StoreError, match='disk is full'): model.generate([question(number) for number in range(5000)], refuse)
    assert not model._llm.llm_engine.waiting and model._llm.llm_engine.steps < 5000
    assert answers(model, [question(3)])[0].text == '3'

def test_what_had_arrived_is_kept_when_the_engine_stops(model, tmp_path):
    engine, store = model._llm.llm_engine, Store(tmp_path/'store.sqlite')
    step = engine.step
    def stopping():
        if engine.steps == 40: engine.raises = ConnectionError('a worker has died')
        return step()
    engine.step = stopping
    with pytest.raises(ModelError, match='stopped: a worker has died.*40 of 100 answers had arrived and are kept'):
        ask([question(number) for number in range(100)], model, store)
    assert model._llm is None and not engine.aborted  # a dead engine is not asked for anything, and not kept
    model._llm = SimpleNamespace(llm_engine=Engine())
    assert [response.text for response in ask([question(number) for number in range(100)], model, store)] == [str(n) for n in range(100)]
    assert model._llm.llm_engine.steps == 60
    store.close()

@pytest.mark.parametrize(('workers', 'kept'), [(1, True), (2, False)])
def test_an_interrupt_keeps_an_engine_without_workers_only(model, workers, kept):
    model.options['tensor_parallel_size'] = workers
    model._llm.llm_engine.raises = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt): answers(model, [question(1), question(2)])
    assert (model._llm is not None) == kept

def test_responses_are_delivered_in_order_by_one_thread():
    order, threads = [], set()
    def deliver(index, response): order.append(index); threads.add(threading.get_ident())
    with DeliveryThread(deliver) as delivery:
        for index in range(500): delivery(index, None)
    assert order == list(range(500)) and len(threads) == 1 and threads != {threading.get_ident()}

def test_a_tree_asks_for_each_place_once():
    "Against a sum over each choice by itself, for all sets of three choices of up to three tokens."
    sequences = [tokens for length in (1, 2, 3) for tokens in itertools.product((1, 2), repeat=length)]
    for choices in itertools.combinations(sequences, 3):
        tree = ChoiceTree(choices)
        asked = tree.missing()
        assert len(asked) == len(set(asked)) == len({choice[:at + 1] for choice in choices for at in range(len(choice))})
        tree.found = {(before, token): 10*len(before) + token for before, token in asked}
        assert tree.scores() == tuple(sum(10*at + token for at, token in enumerate(choice)) for choice in choices)

def test_options_that_change_answers_are_in_the_identity_and_no_others():
    def identity(**options): return vllm_identity(SOURCE, 'float32', options)
    plain = identity(tensor_parallel_size=8, max_num_seqs=4, gpu_memory_utilization=0.5, enforce_eager=True, max_model_len=100)
    assert plain == identity() == identity(kv_cache_dtype='auto') == {'backend': 'vllm', 'engine': 'vllm', 'weights': 'folder:toy',
                                                                      'dtype': 'float32', 'answer_version': 2}
    assert len({str(identity(**{name: 'x'})) for name in ('quantization', 'kv_cache_dtype', 'hf_overrides')} | {str(plain)}) == 4
    assert identity(json_whitespace='any') == plain | {'answer_version': 1}

def test_the_identity_leaves_cuda_alone(monkeypatch):
    "vLLM's workers cannot be forked from a process that has started CUDA."
    import torch
    def touched(*_): raise AssertionError('CUDA was touched')
    for name in ('is_available', 'device_count', 'init', 'get_device_capability', 'is_bf16_supported', 'current_device'):
        monkeypatch.setattr(torch.cuda, name, touched)
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '0')
    made = load_vllm('vllm:toy', 'toy', {})
    made._find = lambda: SOURCE._replace(config={'dtype': 'float16'})
    assert made.identity['dtype'] == 'float16'  # as on a GPU; no processor gives this

def test_the_length_that_fits_is_known_when_the_engine_runs(model):
    assert vllm_context(SOURCE, {'max_model_len': -1}) == 4096
    model.options['max_model_len'] = -1
    assert model.context == 1234
    assert load_vllm('vllm:tiny?max_model_len=auto', 'tiny', {'max_model_len': 'auto'}).options['max_model_len'] == -1
    with pytest.raises(UsageError, match='serve:tiny.data_parallel_size=2'): load_vllm('vllm:tiny', 'tiny', {'data_parallel_size': '2'})
    with pytest.raises(UsageError, match='hf_overrides'): load_vllm('vllm:tiny', 'tiny', {'hf_overrides': '[1]'})

@pytest.fixture
def started(monkeypatch):
    "What engines were started with, in order, and those that were shut down."
    known = SimpleNamespace(options=[], ended=[])
    class LLM:
        def __init__(self, **options):
            known.options.append(options)
            core = SimpleNamespace(shutdown=lambda: known.ended.append(options['model']))
            self.llm_engine = SimpleNamespace(engine_core=core)
    monkeypatch.setitem(sys.modules, 'vllm', SimpleNamespace(LLM=LLM))
    made = []
    def load(name, **options):
        model = load_vllm(f'vllm:{name}', name, {'dtype': 'float32', **options})
        model._find = lambda: Source(f'/{name}', None, f'folder:{name}', {'max_position_embeddings': 4096})
        made.append(model)
        return model
    known.load = load
    yield known
    for model in made: model.close()

def test_the_next_engine_ends_the_one_before_unless_both_have_their_part(started):
    one, two = started.load('one'), started.load('two')
    first = one.llm
    assert one.llm is first and two.llm is not first and started.ended == ['/one']  # a list of models needs memory for one
    halves = [started.load(name, gpu_memory_utilization='0.4') for name in ('three', 'four')]
    engines = [model.llm for model in halves]
    assert started.ended == ['/one', '/two'] and [model.llm for model in halves] == engines
    assert one.llm is not first and started.ended == ['/one', '/two', '/three', '/four']  # closed, it may be asked again

def test_options_reach_the_engine(started):
    given = {'max_model_len': 'auto', 'kv_cache_dtype': 'fp8', 'hf_overrides': '{"rope_theta": 5}', 'tensor_parallel_size': '2'}
    _ = started.load('one', adapter='extractor', **given).llm
    told = started.options[0]
    assert told['enable_lora'] and told['max_lora_rank'] >= 8 and told['trust_remote_code'] is False
    assert (told['max_model_len'], told['kv_cache_dtype']) == (-1, 'fp8')
    assert (told['hf_overrides'], told['tensor_parallel_size']) == ({'rope_theta': 5}, 2)
    assert told['structured_outputs_config'] == {'backend': 'guidance', 'disable_any_whitespace': True} and 'json_whitespace' not in told
    _ = started.load('two', json_whitespace='any').llm
    assert not {'structured_outputs_config', 'json_whitespace'} & set(started.options[1])
    with pytest.raises(UsageError, match='json_whitespace'): started.load('three', json_whitespace='some')

def test_json_with_any_white_space_is_another_answer(model):
    before = model.identity
    model.options['json_whitespace'] = 'any'
    del model.identity
    assert model.identity == {**before, 'answer_version': 1}

def test_an_engine_is_asked_for_whole_answers_only(model, monkeypatch):
    kinds = SimpleNamespace(RequestOutputKind=SimpleNamespace(FINAL_ONLY='final only'))
    monkeypatch.setitem(sys.modules, 'vllm.sampling_params', kinds)
    seen, add = [], model._llm.llm_engine.add_request
    def add_request(name, prompt, fields, **more): seen.append(fields); add(name, prompt, fields, **more)
    model._llm.llm_engine.add_request = add_request
    answers(model, [question(number) for number in range(3)])
    assert [fields.output_kind for fields in seen] == ['final only']*3
