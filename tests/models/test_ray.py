"The `ray:` backend without Ray: options, keys, rows for vLLM and what is read of its answers. `make test-ray` runs the real thing."
import json
import pickle
import subprocess
import sys

import pytest
from asking import question

from factlab.core.core import ModelError, UsageError
from factlab.models import ray as ray_backend
from factlab.models.interface import Response, ScriptedModel, ask, load_model
from factlab.models.ray import VllmRows, _Run, _telling, answer_each, engine_arguments, ray_options


class Letters:
    def encode(self, text, add_special_tokens=False): return [ord(letter) for letter in text]
    def decode(self, tokens): return ''.join(map(chr, tokens))

def told(tokens, text='', logprobs=None): return {'text': text, 'tokens': tokens, 'prompt_tokens': 2, 'logprobs': logprobs}


@pytest.mark.parametrize('options', [{'engine': 'sglang'}, {'replicas': '0'}, {'batch_size': 'many'}, {'trust_remote_code': 'true'},
                                     {'engine': 'transformers', 'tensor_parallel_size': '2'}, {'batch_tokens': '99'}])
def test_what_an_engine_does_not_know_is_refused(options):
    with pytest.raises(UsageError): ray_options('ray:x', options)

def test_answers_have_the_keys_of_the_other_ways_to_the_same_model():
    def identity(name): return load_model(name).identity
    assert identity('ray:tiny?dtype=float32&device=cpu') == identity('vllm:tiny?dtype=float32')
    assert identity('ray:tiny?dtype=float32&device=cpu&replicas=3&batch_size=7&address=1.2.3.4:5') == identity('vllm:tiny?dtype=float32')
    assert identity('ray:tiny?engine=transformers&dtype=float32&device=cpu') == identity('tiny?dtype=float32')
    assert load_model('ray:tiny?engine=transformers&dtype=float32&device=cpu').answer_limit == load_model('tiny?dtype=float32').answer_limit

def test_the_engine_gets_no_option_of_ray_and_never_runs_code_of_a_repository():
    model = load_model('ray:tiny?dtype=float32&device=cpu&replicas=3&max_model_len=99999&quantization=fp8&tensor_parallel_size=2')
    arguments = engine_arguments(model)
    assert arguments['trust_remote_code'] is False and arguments['load_format'] == 'safetensors'
    assert arguments['max_model_len'] == model.context == 8192 and arguments['quantization'] == 'fp8'
    assert not {'replicas', 'address', 'device', 'engine', 'batch_size', 'cpus', 'data_parallel_size', 'json_whitespace'} & set(arguments)
    assert arguments['structured_outputs_config']['disable_any_whitespace'] is True
    assert 'structured_outputs_config' not in engine_arguments(load_model('ray:tiny?dtype=float32&device=cpu&json_whitespace=any'))

def test_without_ray_a_question_says_what_to_install_and_a_name_alone_does_not():
    program = ("import sys; sys.modules['ray'] = None\nfrom factlab.models.interface import *\n"
               "model = load_model('ray:tiny?dtype=float32&device=cpu&engine=transformers'); print(model.identity['engine'])\n"
               "try: model.generate([Request(messages=[dict(role='user', content='?')])], print)\nexcept Exception as error: print(error)")
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith('transformers\n') and "pip install 'factlab[ray]'" in done.stdout, done.stdout + done.stderr


def test_the_places_of_choices_are_asked_once_and_summed_whatever_the_order():
    rows = VllmRows(Letters(), frozenset({0}), None).rows(question(choices=('no', 'nay', 'n')), [1, 2])
    assert sorted((tuple(row.tokens), tuple(row.fields['logprob_token_ids'])) for row in rows) == [
        ((1, 2), (110,)), ((1, 2, 110), (111, 97)), ((1, 2, 110, 97), (121,))]
    score = {110: -0.5, 111: -1.0, 97: -2.0, 121: -4.0}
    found = [row.read(told([9], logprobs=[[[token, score[token], 1, ''] for token in row.fields['logprob_token_ids']]]))
             for row in reversed(rows)]
    assert found[:-1] == [None, None] and found[-1].choice_logprobs == (-1.5, -6.5, -0.5)

@pytest.mark.parametrize('tokens, reason', [([104, 0], 'stop'), ([104, 105, 0], 'stop'), ([104, 105, 105], 'length'),
                                            ([104, 105, 33], 'stop'), ([104], 'stop')])
def test_why_an_answer_ended(tokens, reason):
    row, = VllmRows(Letters(), frozenset({0}), None).rows(question(max_tokens=3, stop=('!',)), [1, 2])
    response = row.read(told(tokens, 'hi'))
    assert (response.finish_reason, response.completion_tokens, response.prompt_tokens) == (reason, len(tokens), 2)

def test_what_cannot_be_asked_fails_before_it_is_sent():
    maker = VllmRows(Letters(), frozenset(), 10)
    assert 'together more than the 10' in maker.rows(question(max_tokens=9), [1, 2]).error
    assert len(maker.rows(question(max_tokens=8), [1, 2])) == 1

def test_a_failed_row_fails_its_request_once_and_no_other():
    model, delivered = load_model('ray:tiny?dtype=float32&device=cpu'), []
    maker = VllmRows(Letters(), frozenset({0}), None)
    run = _Run(model, maker, lambda index, response: delivered.append((index, response)))
    for index, request in ((5, question(choices=('a', 'bc'))), (6, question())):
        for row in maker.rows(request, [1]): run._numbered(index, row)
    assert len(run.readers) == 3
    for row in (0, 1): run.take({'row': row, 'answer': None, '__inference_error__': 'ValueError: no\n such  token'})
    run.take({'row': 2, 'answer': json.dumps(told([104, 0], 'h')), '__inference_error__': ''})
    assert [(index, response.ok) for index, response in delivered] == [(5, False), (6, True)]
    assert 'ValueError: no such token' in delivered[0][1].error

def test_rows_of_one_form_have_the_same_fields():
    "A field that some rows of a table lack is a float in the others, and vLLM's engine ends at `logprobs=3.0`."
    asked = [question(), question(max_tokens=3), question(top_logprobs=3), question(temperature=1.0), question(temperature=1.0, seed=1),
             question(stop=('x',)), question(json_schema='{}'), question(choices=('a', 'b')), question(choices=('ab', 'ac', 'd'))]
    fields: dict[tuple, set] = {}
    for request in asked:
        for row in VllmRows(Letters(), frozenset(), None).rows(request, [1]):
            fields.setdefault(ray_backend._form(request), set()).add(frozenset(row.fields))
    assert len(fields) == 6 and all(len(names) == 1 for names in fields.values()), fields

def test_what_the_nodes_run_needs_no_factlab():
    "Ray sends it by value: the functions stand on nothing of their module."
    for function in (ray_backend._preparing(), ray_backend._telling()):
        assert '<locals>' in function.__qualname__ and not function.__closure__
        assert not set(function.__code__.co_names) & set(vars(ray_backend)) - {'json'}
    with pytest.raises((pickle.PicklingError, AttributeError)): pickle.dumps(_telling())  # or it would go by name

def test_one_request_that_breaks_the_model_costs_itself_alone():
    asked = []
    def answer(request):
        asked.append(request.messages[-1].content)
        if 'bomb' in asked[-1]: raise MemoryError('no room')
        return 'yes'
    answers = answer_each(ScriptedModel('x', answer), [question('a'), question('bomb'), question('b'), question('c')])
    assert [each.ok for each in answers] == [True, False, True, True] and 'no room' in answers[1].error
    assert asked.count('a') == 1  # what came before the fault is kept


class FromAfar(ray_backend.RayModel):
    "Answers what a cluster would, and dies after some rows."
    dies_after = None
    def generate(self, requests, deliver):
        for index, _ in enumerate(requests):
            if index == self.dies_after: raise ModelError('the copies stopped')
            deliver(index, Response(text=str(index)))

def test_what_arrived_before_the_cluster_died_is_kept(tmp_path):
    from factlab.store.answers import Store
    plain = load_model('ray:tiny?dtype=float32&device=cpu')
    model = FromAfar(plain.name, lambda: plain.source, plain.options)
    model.dies_after, store = 3, Store(tmp_path/'store.sqlite')
    wanted = [question(str(number)) for number in range(5)]
    with pytest.raises(ModelError, match='3 of 5 answers had arrived and are kept'): ask(wanted, model, store)
    model.dies_after = None
    assert [each.text for each in ask(wanted, model, store)] == ['0', '1', '2', '0', '1']  # two were asked, not five

def test_ray_itself():
    pytest.importorskip('ray', reason='Ray is not installed here: `make test-ray` makes an environment with it and runs the backend')
    from factlab.models.ray import import_ray
    assert hasattr(import_ray().data, 'ActorPoolStrategy')
