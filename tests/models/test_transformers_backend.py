"""Models in this process: the embedded weights, batches against single answers, memory that runs out, signals, odd models."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tolerance import NETWORK

from factlab.core.core import ModelError, UsageError
from factlab.models.interface import Message, Request, ask, load_model

TEXTS = ['What is the capital of France?', 'Name three colours.', 'Write one sentence about rivers and the towns that stand on them.',
         'Is the following text about sport or about music? "The orchestra played for two hours."', 'Say hello to Anna.', 'Count to five.',
         'What does a bridge do?', 'Translate "good morning" into Spanish, and then explain when people say it.']


def question(text: str, **settings) -> Request:
    return Request(messages=(Message(role='user', content=text),), **{'max_tokens': 16, **settings})


def answers(model, requests):
    found = {}
    def deliver(index, response):
        assert index not in found, 'delivered twice'
        found[index] = response
    model.generate(requests, deliver)
    return [found[index] for index in range(len(requests))]


@pytest.fixture(scope='module')
def tiny():
    return load_model('tiny?dtype=float32')


@pytest.fixture(scope='module')
def weights(tiny):
    "transformers' own model and tokenizer, untouched."
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from factlab.models.transformers_backend import tiny_folder
    return AutoModelForCausalLM.from_pretrained(tiny_folder()).eval(), AutoTokenizer.from_pretrained(tiny_folder())


SAID: dict[tuple[str, int], str] = {}  # what transformers answered with the embedded weights

def plainly(weights, text: str, new: int = 10, known: dict|None = None) -> str:
    "What `model.generate` answers to one prompt."
    if known is not None and (text, new) in known: return known[text, new]
    model, tokenizer = weights
    inputs = tokenizer.apply_chat_template([{'role': 'user', 'content': text}], add_generation_prompt=True, return_tensors='pt',
                                           return_dict=True)
    tokens = model.generate(**inputs, max_new_tokens=new, do_sample=False)[0, inputs['input_ids'].shape[1]:]
    said = tokenizer.decode(tokens, skip_special_tokens=True)
    if known is not None: known[text, new] = said
    return said


# ---- against transformers

def test_a_batch_answers_as_transformers_does_one_by_one(tiny, weights):
    found = [response.text for response in answers(tiny, [question(text, max_tokens=10) for text in TEXTS])]
    assert found == [plainly(weights, text, known=SAID) for text in TEXTS]
    assert found[:3] == [answers(tiny, [question(text, max_tokens=10)])[0].text for text in TEXTS[:3]]


def test_shared_documents_are_read_once_and_change_nothing(tiny, weights):
    document = 'Read this text. ' + ' '.join(f'Sentence number {i} tells of a bridge.' for i in range(12))
    texts = [f'{document} {question}' for question in ('How many are there?', 'What is told?', 'Is it long? Explain.')] + TEXTS[:2]
    found = [response.text for response in answers(tiny, [question(text, max_tokens=10) for text in texts])]
    assert found == [plainly(weights, text, known=SAID) for text in texts]


def test_log_probabilities(tiny, weights):
    import torch
    response = answers(tiny, [question(TEXTS[0], top_logprobs=3, max_tokens=5), *map(question, TEXTS[1:])])[0]
    model, tokenizer = weights
    prompt = tiny.chat.tokens([question(TEXTS[0]).messages])[0]
    expected = model(torch.tensor([prompt])).logits[0, -1].log_softmax(0)
    best = expected.topk(3)
    close = NETWORK*expected.abs().max().item()
    assert response.logprobs[0].logprob == pytest.approx(best.values[0].item(), abs=close)
    assert [token for token, _ in response.logprobs[0].top] == [tokenizer.decode([token]) for token in best.indices.tolist()]
    assert [value for _, value in response.logprobs[0].top] == pytest.approx(best.values.tolist(), abs=close)
    assert len(response.logprobs) == 5 and response.finish_reason == 'length' and response.prompt_tokens == len(prompt)


def test_choices_are_scored_as_the_sum_over_their_tokens(tiny, weights):
    import torch
    model, tokenizer = weights
    choices = ('A', 'Paris', 'the city of London', 'Antananarivo in Madagascar')
    requests = [question(text, choices=choices[:n]) for text, n in zip(TEXTS, (4, 2, 3, 4, 1, 2, 4, 4), strict=True)]
    for request, response in zip(requests, answers(tiny, requests), strict=True):
        prompt = tiny.chat.tokens([request.messages])[0]
        for choice, found in zip(request.choices, response.choice_logprobs, strict=True):
            tokens = tokenizer.encode(choice, add_special_tokens=False)
            with torch.no_grad(): logprobs = model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1:-1].log_softmax(1)
            assert found == pytest.approx(
                logprobs[range(len(tokens)), tokens].sum().item(), rel=NETWORK, abs=NETWORK * logprobs.abs().max().item()
            )
        assert response.finish_reason == 'choices'


# ---- sampling, stops, schemas

def test_a_sample_depends_on_seed_and_repeat_and_not_on_company(tiny):
    request = question('Tell me about a town.', temperature=1.0, top_p=0.95, seed=3)
    other = request.model_copy(update={'repeat': 1})
    alone = [answers(tiny, [r])[0].text for r in (request, other)]
    together = [response.text for response in answers(tiny, [question(TEXTS[1]), other, request, *map(question, TEXTS[2:5])])]
    assert together[2] == alone[0] and together[1] == alone[1] and alone[0] != alone[1]
    assert answers(tiny, [request.model_copy(update={'seed': 4})])[0].text != alone[0]


def test_stop_texts_end_an_answer_and_are_not_part_of_it(tiny):
    whole = answers(tiny, [question(TEXTS[0])])[0]
    cut = answers(tiny, [question(TEXTS[0], stop=(' of F', 'zzz'))])[0]
    assert cut.text == whole.text[:whole.text.index(' of F')] and cut.finish_reason == 'stop'
    assert cut.completion_tokens < whole.completion_tokens


SCHEMA = {'type': 'object', 'required': ['label', 'spans'], 'additionalProperties': False, 'properties': {
    'label': {'enum': ['supported', 'unsupported']}, 'spans': {'type': 'array', 'maxItems': 2,
                                                               'items': {'type': 'string', 'maxLength': 12}}}}


@pytest.mark.parametrize('settings', [{}, {'temperature': 1.5, 'seed': 1}])
def test_a_schema_is_kept_to(tiny, settings):
    requests = [question(text, json_schema=SCHEMA, max_tokens=80, **settings) for text in TEXTS[:4]]
    for response in answers(tiny, [*requests, question(TEXTS[4])])[:4]:
        assert response.json_mode == 'grammar' and response.finish_reason == 'stop'
        found = json.loads(response.text)
        assert found['label'] in ('supported', 'unsupported') and len(found['spans']) <= 2


def test_a_schema_that_cannot_be_a_grammar_is_lenient(tiny):
    response = answers(tiny, [question('Hello.', json_schema='{"type": 7}')])[0]
    assert response.ok and response.json_mode == 'lenient'


# ---- what does not fit

def test_a_prompt_beyond_the_context_fails_alone_and_with_its_numbers(tiny):
    found = answers(tiny, [question('word '*9000), question(TEXTS[0]), question('x', max_tokens=8192),
                           question('word '*9000, choices=('A',))])
    assert [response.ok for response in found] == [False, True, False, False]
    assert '9,031' in found[0].error and '8,192' in found[0].error and 'max_tokens 16' in found[0].error


@pytest.mark.parametrize('text', ['', ' ', '\n', 'é', '你好，世界', '\U0001f600', '{braces} %s <b>', '<|im_end|>', 'a'*3000])
def test_odd_texts_are_answered(tiny, text):
    assert answers(tiny, [question(text, max_tokens=2), question(text, choices=('A', 'B'))])[0].ok


@pytest.mark.parametrize('error', ['cuda', 'cpu'])
def test_memory_that_runs_out_halves_the_batch_and_loses_nothing(tiny, monkeypatch, error):
    import torch

    from factlab.models.decoding import BlockCache
    raised = {'cuda': torch.OutOfMemoryError('CUDA out of memory'),
              'cpu': RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes")}[error]
    texts = TEXTS[:4]
    few = [question(text, max_tokens=4) for text in texts]
    expected = [response.text for response in answers(tiny, few)]
    whole, refused = {name: getattr(BlockCache, name) for name in ('extend', 'step')}, []
    def cramped(name, limit):
        def method(self, tokens, *rest, **options):
            if len(tokens) > limit: refused.append(name); raise raised
            return whole[name](self, tokens, *rest, **options)
        monkeypatch.setattr(BlockCache, name, method)
    monkeypatch.setattr(tiny.decoder, 'rows', 256); monkeypatch.setattr(tiny.decoder, 'batch_tokens', tiny.decoder.batch_tokens)
    cramped('extend', 3); cramped('step', 1)
    found = answers(tiny, few)
    assert [response.text for response in found] == expected and {'extend', 'step'} <= set(refused)
    choices = [question(text, choices=('A', 'no colour')) for text in texts]
    assert all(response.ok for response in answers(tiny, choices))
    cramped('step', 0)
    found = answers(tiny, [question(TEXTS[0]), question(TEXTS[1], max_tokens=1)])
    assert 'out of memory' in found[0].error and found[1].ok


def test_other_errors_are_not_taken_for_memory(tiny, monkeypatch):
    from factlab.models.decoding import BlockCache
    def broken(self, tokens): raise RuntimeError('shapes do not match')
    monkeypatch.setattr(BlockCache, 'step', broken)
    with pytest.raises(RuntimeError, match='shapes'): answers(tiny, [question(TEXTS[0])])


def test_an_interrupted_batch_has_delivered_what_was_done(tiny):
    found = {}
    def deliver(index, response):
        found[index] = response
        if len(found) == 3: raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): tiny.generate([question(text, max_tokens=2 + 3*i) for i, text in enumerate(TEXTS)], deliver)
    assert sorted(found) == [0, 1, 2]
    assert answers(tiny, [question(TEXTS[0])])[0].ok  # and can be asked again


# ---- names, identities, other models

@pytest.mark.parametrize('name', ['tiny:other', 'tiny?speed=9', 'tiny?dtype=int3', 'tiny?batch_tokens=0', 'tiny?device=abacus', 'hf:',
                                  'tiny?revision=x'])
def test_a_wrong_name_or_option_is_a_usage_error(name):
    with pytest.raises(UsageError): load_model(name)


@pytest.mark.parametrize(('name', 'words'),
                         [('hf:no/such-model', 'no/such-model'), ('hf:./nowhere', './nowhere'), ('hf:tests', 'config.json')])
def test_a_model_that_does_not_exist_is_named_quickly(name, words, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    start = time.monotonic()
    with pytest.raises(ModelError, match=words): ask([question('?')], load_model(name), False)
    assert time.monotonic() - start < 10


def test_a_hub_that_cannot_be_reached_is_said_quickly(tmp_path):
    code = ('import time; from factlab.core.core import ModelError; from factlab.models.interface import load_model; start = '
            'time.monotonic()\n'
            'try: load_model("hf:no/such-model").identity\n'
            'except ModelError as error: print(error, "SLOW" if time.monotonic() - start > 8 else "")')
    environment = os.environ | {'HF_HUB_OFFLINE': '0', 'HF_ENDPOINT': 'http://127.0.0.1:9', 'HF_HOME': str(tmp_path)}
    shown = subprocess.run([sys.executable, '-c', code], env=environment, capture_output=True, text=True, check=True).stdout
    assert 'no/such-model' in shown and 'cannot be reached' in shown and 'SLOW' not in shown


def test_the_identity_says_what_changes_an_answer_and_needs_no_weights():
    code = ('import sys; from factlab.models.interface import load_model; '
            'print(sorted(load_model("tiny?dtype=float32&batch_tokens=99").identity.items())); '
            'assert not {"torch", "transformers"} & set(sys.modules)')
    shown = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout
    assert 'b179c9523d0e' in shown and 'float32' in shown and '99' not in shown.replace('b179c9523d0e', '')
    assert load_model('tiny?dtype=bfloat16').identity != load_model('tiny?dtype=float32').identity


def test_missing_weights_say_what_to_run(monkeypatch, tmp_path):
    from factlab.models import transformers_backend as local
    from factlab.models import weights
    monkeypatch.setattr(weights, '_installed', lambda _: None)
    monkeypatch.delenv('FACTLAB_WEIGHTS', raising=False)
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    with pytest.raises(ModelError, match=r'98 MB.*run `factlab models get tiny`'): local.tiny_folder()


def test_changed_weights_are_refused(monkeypatch, tmp_path):
    from factlab.models import transformers_backend as local
    from factlab.models.weights import find_weights
    (changed := tmp_path/'changed').mkdir()
    content = bytearray((original := find_weights('tiny')).read_bytes())
    content[len(content)//2] ^= 1
    (changed/original.name).write_bytes(content)
    monkeypatch.setenv('FACTLAB_WEIGHTS', str(changed))
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    with pytest.raises(ModelError, match='SHA-256'): local.tiny_folder()
    assert not list((tmp_path/'cache').glob('*tiny-*'))


def odd_folder(tmp_path: Path, config_class: str, **settings) -> Path:
    "A model with random weights and the embedded tokenizer, saved as a user would."
    import torch
    import transformers

    from factlab.models.transformers_backend import tiny_folder
    shape = dict(vocab_size=49152, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 max_position_embeddings=512, eos_token_id=2, pad_token_id=2)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, config_class)(**{**shape, **settings}))
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(tiny_folder()).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(('config', 'settings'), [('Qwen3Config', {'head_dim': 12}), ('MistralConfig', {'sliding_window': 16}),
                                                  ('Gemma2Config', {'sliding_window': 16, 'head_dim': 12}),
                                                  ('FalconConfig', {'num_kv_heads': 2, 'new_decoder_architecture': True}),
                                                  ('MambaConfig', {'state_size': 4})])
def test_other_architectures_answer_as_transformers_does(tmp_path, config, settings):
    folder = odd_folder(tmp_path, config, **settings)
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = load_model(f'hf:{folder}?dtype=float32')
    found = answers(model, [question(text, max_tokens=6) for text in TEXTS[:3]])
    whole = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    assert [response.text for response in found] == [plainly(whole, text, 6) for text in TEXTS[:3]]
    scored = answers(model, [question(text, choices=('A', 'two words')) for text in TEXTS[:3]])
    assert all(response.ok and min(response.choice_logprobs) < 0 for response in scored)


def test_a_folder_is_known_by_its_weights_not_by_its_place(tmp_path):
    import shutil
    first = odd_folder(tmp_path/'a', 'LlamaConfig')
    identity = load_model(f'hf:{first}').identity
    shutil.copytree(first, tmp_path/'b')
    assert load_model(f'hf:{tmp_path/"b"}').identity == identity
    (tmp_path/'b'/'chat_template.jinja').write_text('{{ messages[0]["content"] }}')
    assert load_model(f'hf:{tmp_path/"b"}?device=cpu').identity != identity
    (tmp_path/'b'/'model.safetensors').unlink()
    with pytest.raises(ModelError, match='safetensors'): load_model(f'hf:{tmp_path/"b"}?batch_tokens=9').identity  # noqa: B018


def test_a_damaged_folder_is_a_model_error(tmp_path):
    folder = odd_folder(tmp_path, 'LlamaConfig')
    with (folder/'model.safetensors').open('r+b') as file: file.truncate(1000)
    with pytest.raises(ModelError, match='cannot be loaded'): answers(load_model(f'hf:{folder}'), [question('?')])


# ---- several processes

CONVERT = 'from factlab.models.transformers_backend import tiny_folder; print(tiny_folder())'


def test_processes_that_convert_at_once_get_one_whole_folder(tmp_path):
    environment = os.environ | {'FACTLAB_HOME': str(tmp_path)}
    killed = subprocess.Popen([sys.executable, '-c', CONVERT], env=environment, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob('cache/.tiny-*')) and time.monotonic() < deadline: time.sleep(0.05)
    os.kill(killed.pid, signal.SIGKILL); killed.communicate()
    assert not list(tmp_path.glob('cache/tiny-*'))
    both = [subprocess.Popen([sys.executable, '-c', CONVERT], env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    shown = {process.communicate(timeout=250)[0].strip() for process in both}
    assert len(shown) == 1 and not list(tmp_path.glob('cache/.tiny-*')) and Path(shown.pop(), 'model.safetensors').stat().st_size > 5e8


# ---- adapters

@pytest.fixture(scope='module')
def adapter(tmp_path_factory):
    "A LoRA adapter of random numbers, and peft's own model with it."
    import torch
    from transformers import AutoModelForCausalLM

    from factlab.models.adapters import attach_lora, save_adapter
    from factlab.models.transformers_backend import tiny_folder
    model = attach_lora(AutoModelForCausalLM.from_pretrained(tiny_folder()), rank=2, seed=3)
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.requires_grad: parameter.data.normal_(std=.05)
    return save_adapter(model, tmp_path_factory.mktemp('adapter'), 'tiny', dtype='float32'), model.eval()


def test_an_adapter_answers_as_peft_does(tiny, adapter):
    import torch
    folder, model = adapter
    adapted = load_model(f'tiny?dtype=float32&adapter={folder}')
    requests = [question(text, choices=('Paris', 'the city of London')) for text in TEXTS[:3]]
    for request, found, before in zip(requests, answers(adapted, requests), answers(tiny, requests), strict=True):
        prompt = adapted.chat.tokens([request.messages])[0]
        choice = adapted.chat.tokenizer.encode(request.choices[0], add_special_tokens=False)
        with torch.no_grad(): logprobs = model(input_ids=torch.tensor([[*prompt, *choice]])).logits[0, len(prompt) - 1:-1].log_softmax(1)
        by_peft = logprobs[range(len(choice)), choice].sum().item()
        assert found.choice_logprobs[0] == pytest.approx(by_peft, rel=NETWORK, abs=NETWORK*logprobs.abs().max().item())
        assert abs(found.choice_logprobs[0] - before.choice_logprobs[0]) > 4*abs(found.choice_logprobs[0] - by_peft)


def test_an_adapter_is_part_of_the_identity_by_what_it_holds(tiny, adapter, tmp_path):
    import shutil
    folder, _ = adapter
    copy = Path(shutil.copytree(folder, tmp_path/'copy'))
    first, second = (load_model(f'tiny?dtype=float32&adapter={place}').identity for place in (folder, copy))
    assert first == second and {k: v for k, v in first.items() if k != 'adapter'} == tiny.identity
    config = json.loads((copy/'adapter_config.json').read_text())
    (copy/'adapter_config.json').write_text(json.dumps(config | {'lora_alpha': 9}))
    assert load_model(f'tiny?dtype=float32&adapter={copy}&device=cpu').identity != first


def test_an_adapter_lifts_the_limit_of_answers(tiny, adapter):
    assert (tiny.answer_limit, load_model(f'tiny?adapter={adapter[0]}').answer_limit) == (64, None)
    assert load_model(f'tiny?adapter={adapter[0]}&answer_limit=9').answer_limit == 9


def test_an_adapter_that_is_none_is_refused(tmp_path):
    with pytest.raises(ModelError, match='adapter_config.json'): load_model(f'tiny?adapter={tmp_path}')
    (tmp_path/'adapter_config.json').write_text('{"peft_type": "IA3"}')
    with pytest.raises(ModelError, match='only LORA'): load_model(f'tiny?adapter={tmp_path}&device=cpu')


def test_a_model_may_be_spread_by_accelerate(tiny, weights):
    "On one device it answers as ever; layers on several devices get transformers' own cache, which knows of devices."
    from factlab.models.decoding import PlainCache, choose_cache
    spread = load_model('tiny?dtype=float32&device_map=auto')
    requests = [question(text, max_tokens=8) for text in TEXTS[:2]]
    assert [response.text for response in answers(spread, requests)] == [response.text for response in answers(tiny, requests)]
    spread.close()
    model = weights[0]
    model.hf_device_map = {'model.embed_tokens': 0, 'model.layers.0': 1}
    try: assert choose_cache(model, range(3, 19)) is PlainCache
    finally: del model.hf_device_map
    with pytest.raises(UsageError, match='device_map'): load_model('tiny?device_map=everywhere')


def test_a_torch_for_processors_alone_is_known_without_loading_it(monkeypatch):
    import sys

    import torch

    from factlab.models.transformers_backend import _for_processors_alone, pick_device
    assert _for_processors_alone() == (torch.version.cuda is None and torch.version.hip is None and sys.platform != 'darwin')
    asked = pick_device('auto')
    monkeypatch.delitem(sys.modules, 'torch')
    if _for_processors_alone(): assert pick_device('auto') == asked == 'cpu' and 'torch' not in sys.modules


@pytest.mark.parametrize('device, free, expected', [('cuda', 2**36, 2**35//1440), ('cuda', 0, 1024), ('cpu', 2**36, 65536)])
def test_a_batch_on_a_gpu_has_what_is_free_there(monkeypatch, device, free, expected):
    "65,536 tokens are the most for a processor alone."
    from types import SimpleNamespace

    import torch

    from factlab.models.decoding import memory_budget
    config = SimpleNamespace(num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=4, hidden_size=36)
    config.get_text_config = lambda: config
    monkeypatch.setattr(torch.cuda, 'mem_get_info', lambda device: (free, 2**37))
    model = SimpleNamespace(config=config, dtype=torch.bfloat16, device=SimpleNamespace(type=device))
    assert memory_budget(model) == expected
