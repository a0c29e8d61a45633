"""What leaves the machine: keys, forms that are learnt from refusals, and sampling values."""
import re
import uuid
from pathlib import Path

import pytest
from asking import model_at, one, question, questions
from misbehaving_server import MisbehavingServer, answer, in_turn, raw, redirect, status

from factlab.core.core import ModelError, UsageError
from factlab.models.endpoint_requests import NEUTRAL, VENDOR, Dialect, host_of, key_of, learn, refuse_secrets
from factlab.models.interface import Request, ask, load_model
from factlab.models.openai_backend import load_openai
from factlab.store.answers import Store

KEY, OTHER = 'sk-very-secret-0123456789', 'sk-another-one-987654321'


pytestmark = pytest.mark.usefixtures('no_key')


def heads(server) -> set[str]: return {call.headers['authorization'] for call in server.calls}


LESSON = Path(__file__).resolve().parents[2]/'nbs'/'tutorials'/'paper_scale.ipynb'


def test_the_lessons_names_of_vendors_go_to_their_addresses_with_their_own_keys(monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    names = set(re.findall(r"openai:MODEL[^`' ]*env=\w+", LESSON.read_text(encoding='utf-8')))
    models = {model.base_url: model.settings.env for model in map(load_model, names)}
    assert models == {'https://api.anthropic.com/v1': 'ANTHROPIC_API_KEY',
                      'https://generativelanguage.googleapis.com/v1beta/openai': 'GEMINI_API_KEY'}
    for address, variable in models.items():
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(ModelError, match=f'{variable} is not set'): key_of(address, variable)
        monkeypatch.setenv(variable, OTHER)
        assert key_of(address, variable) == OTHER and key_of(address, None) is None  # never the key of another vendor


# ---- keys --------------------------------------------------------------------------------------------------------------------------

def test_the_default_key_goes_to_no_other_host(monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    monkeypatch.setenv('OPENAI_ORG_ID', 'org-secret')
    monkeypatch.setenv('OPENAI_PROJECT_ID', 'proj-secret')
    monkeypatch.setenv('OPENAI_ADMIN_KEY', 'admin-secret')
    monkeypatch.setenv('OPENAI_CUSTOM_HEADERS', f'X-Own: {KEY}')
    with MisbehavingServer() as server:
        assert one(server).ok
        seen = str([server.calls[0].headers, *server.gets])
    assert KEY not in seen and 'secret' not in seen and server.gets


def test_it_goes_to_the_host_that_the_user_has_set(monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    with MisbehavingServer() as server, MisbehavingServer() as other:
        monkeypatch.setenv('OPENAI_BASE_URL', server.url)
        assert ask([question('x')], load_openai('openai:any', 'any', {}), store=False)[0].ok and one(server).ok and one(other).ok
        assert heads(server) == {f'Bearer {KEY}'} and heads(other) == {'Bearer none'}
    assert key_of(VENDOR, None) == KEY and key_of('http://api.openai.com/v1', None) is None
    assert key_of('https://api.openai.com.evil.example/v1', None) is None


def test_two_models_with_keys_of_their_own(monkeypatch):
    monkeypatch.setenv('FIRST_KEY', KEY)
    monkeypatch.setenv('SECOND_KEY', OTHER)
    with MisbehavingServer() as first, MisbehavingServer(lambda call: status(401, f'bad key {OTHER} {KEY}')) as second:
        models = model_at(first.url, env='FIRST_KEY'), model_at(second.url, env='SECOND_KEY')
        assert ask(questions(3), models[0], store=False)[0].ok
        with pytest.raises(ModelError, match='set SECOND_KEY') as error: ask(questions(3), models[1], store=False)
        assert heads(first) == {f'Bearer {KEY}'} and heads(second) == {f'Bearer {OTHER}'} and OTHER not in str(error.value)
        assert KEY not in str(vars(models[0])) and models[0].identity == model_at(first.url).identity


def test_a_missing_variable_is_named_before_anything_is_sent():
    with MisbehavingServer() as server:
        with pytest.raises(ModelError, match='JUDGE_API_KEY is not set'): one(server, env='JUDGE_API_KEY')
        assert not server.calls and model_at(server.url, env='JUDGE_API_KEY').identity['base_url'] == server.url


@pytest.mark.parametrize('value', [KEY, 'gsk_abcDEF0123456789', 'hf_abc', 'AKIAIOSFODNN7EXAMPLE', '', ' ', 'a b', 'X'*80])
def test_env_takes_a_name_and_never_a_key(value):
    with pytest.raises(UsageError) as error: load_openai(f'openai:any?env={value}', 'any', {'env': value})
    assert 'MY_API_KEY' in str(error.value) and (not value.strip() or value not in str(error.value))


def test_env_takes_any_variable_that_is_set(monkeypatch):
    monkeypatch.setenv('openrouter', KEY)
    refuse_secrets({'env': 'openrouter', 'thinking_tokens': '5'})
    with pytest.raises(UsageError): refuse_secrets({'my_token': '5'})
    with pytest.raises(UsageError): refuse_secrets({'extra': '{"chat_template_kwargs": {"api_key": "x"}}'})


@pytest.mark.parametrize('http', [301, 302, 307, 308])
def test_a_redirect_is_not_followed(monkeypatch, http):
    monkeypatch.setenv('JUDGE_KEY', KEY)
    with MisbehavingServer() as elsewhere, MisbehavingServer(lambda call: redirect(f'{elsewhere.url}/chat/completions', http)) as server:
        model = model_at(server.url, env='JUDGE_KEY', concurrency=2)
        with pytest.raises(ModelError, match='another address') as error: ask(questions(50), model, store=False)
        assert elsewhere.url in str(error.value) and not elsewhere.calls and not elsewhere.gets and len(server.calls) <= 2


def test_keys_of_answers_stay_as_they_were(monkeypatch, tmp_path):
    monkeypatch.setenv('JUDGE_KEY', KEY)
    with MisbehavingServer() as server, Store(tmp_path/'s.sqlite') as store:
        for options in ({}, {'env': 'JUDGE_KEY'}, {'retries': 9}, {'price': '1,2'}):
            assert ask(questions(2), model_at(server.url, **options), store)[0].ok
        assert len(server.calls) == 2
        for options in ({'extra': '{"enable_thinking": false}'}, {'thinking_tokens': 9}):
            assert model_at(server.url, **options).identity != model_at(server.url).identity


# ---- refusals ----------------------------------------------------------------------------------------------------------------------

WORDS = ("Unsupported parameter: '{}' is not supported with this model.", 'Unrecognized request argument supplied: {}',
         '{}: Extra inputs are not permitted', "Unsupported value: '{}' does not support this with this model. Only the default is.",
         "`{}` is deprecated for this model.")
ASKED = dict(temperature=0.5, top_p=0.9, seed=3, stop=('END',), top_logprobs=3, json_schema='{"type": "object"}')

def refusing(*fields: str, words: str = WORDS[0], http: int = 400, then=None, param: bool = False):
    "A script: refuses each of these fields, one at a time."
    def script(call):
        field = next((field for field in fields if field in call.body), None)
        if field is None: return then or answer('{}')
        return status(http, 'Unsupported parameter', param=field) if param else status(http, words.format(field))
    return script


@pytest.mark.parametrize('words', WORDS)
@pytest.mark.parametrize('field', ['temperature', 'top_p', 'seed', 'stop', 'top_logprobs', 'logprobs', 'max_tokens', 'response_format'])
def test_a_refused_parameter_is_learnt_once(field, words):
    with MisbehavingServer(refusing(field, words=words)) as server:
        model = model_at(server.url, concurrency=1)
        responses = ask(questions(20, **ASKED), model, store=False)
        assert all(response.ok for response in responses) and len(server.calls) - 20 <= 2  # a JSON schema goes down in two steps
        assert all(field not in call.body for call in server.calls[2:])
        sent = [str(call.body) for call in server.calls]
        assert len(sent) == len(set(sent))  # nothing was sent again as it was
        changes = field in ('temperature', 'top_p', 'seed')
        assert responses[0].meta.get('omitted') == ([field] if changes else None)
        assert (responses[0].meta.get('logprobs') == 'missing') == ('logprobs' in field)


def test_all_parameters_refused_one_after_the_other_and_at_once():
    fields = ('temperature', 'top_p', 'seed', 'stop', 'logprobs', 'max_tokens', 'response_format')
    with MisbehavingServer(refusing(*fields, param=True, http=422)) as server:
        assert all(response.ok for response in ask(questions(20, **ASKED), model_at(server.url, concurrency=1), store=False))
        assert len(server.calls) == 20 + len(fields) + 1
    with MisbehavingServer(refusing(*fields)) as server:
        assert all(response.ok for response in ask(questions(200, **ASKED), model_at(server.url, concurrency=8), store=False))
        assert len(server.calls) <= 200 + 8*(len(fields) + 1)  # what was on its way when it was learnt


def test_learnt_once_for_the_life_of_the_model():
    with MisbehavingServer(refusing('temperature')) as server:
        model = model_at(server.url, concurrency=1)
        for _ in range(3): ask(questions(4), model, store=False)
        assert len(server.calls) == 13


def test_a_refused_stop_is_kept_here():
    def script(call): return status(400, 'Unknown parameter: stop') if 'stop' in call.body else answer('one two END three')
    with MisbehavingServer(script) as server:
        response = one(server, request=question('x', stop=('END', 'never'), top_logprobs=2))
    assert response.text == 'one two ' and response.finish_reason == 'stop' and len(response.logprobs) == 3


@pytest.mark.parametrize('request_', [question('x', top_logprobs=20, max_tokens=1), question('x', choices=('A', 'B'))])
def test_top_logprobs_that_are_always_refused_fail_once_with_the_servers_words(request_):
    said = 'logprobs are not supported by this model'
    def script(call): return status(400, said) if 'logprobs' in call.body or 'prompt_logprobs' in call.body else answer('A')
    with MisbehavingServer(script) as server:
        model = model_at(server.url)
        responses = [ask([request_], model, store=False)[0] for _ in range(5)]
        assert len(server.calls) <= 3 + 5
        assert responses[0].meta.get('logprobs') == 'missing' or said in responses[-1].error


def test_the_number_of_alternatives_that_is_allowed_is_taken():
    def script(call):
        return status(400, 'top_logprobs must be less than or equal to 8') if call.body.get('top_logprobs', 0) > 8 else answer('A')
    with MisbehavingServer(script) as server:
        assert one(server, request=question('x', top_logprobs=20)).ok and [call.body['top_logprobs'] for call in server.calls] == [20, 8]


@pytest.mark.parametrize('said', ['temperature must be between 0 and 1', 'seed is out of range', 'the prompt holds too many tokens',
                                  "max_tokens is too large: 500", 'content policy', 'top_p and temperature: value error'])
def test_a_refused_value_fails_once_with_the_servers_words(said):
    with MisbehavingServer(lambda call: status(400, said)) as server:
        assert said in one(server, request=question('x', **ASKED)).error and len(server.calls) == 1


def test_a_field_that_is_refused_in_every_form_fails_in_the_servers_words():
    def script(call): return status(400, "Unsupported parameter: 'max_tokens' and 'max_completion_tokens' are not supported")
    with MisbehavingServer(script) as server:
        assert 'are not supported' in one(server).error and len(server.calls) == 2


def test_of_two_that_exclude_each_other_the_temperature_stays():
    def script(call):
        both = 'temperature' in call.body and 'top_p' in call.body
        return status(400, '`temperature` and `top_p` cannot both be specified for this model.') if both else answer()
    with MisbehavingServer(script) as server:
        response = one(server, request=question('x', temperature=0.5, top_p=0.9))
        assert response.meta['omitted'] == ['top_p'] and server.calls[1].body['temperature'] == 0.5


def test_a_batch_stops_after_equal_refusals_and_keeps_what_came(tmp_path):
    def script(call):
        return answer() if call.number < 10 else status(400, f'This model is gone (request id: req_{call.number}, {uuid.uuid4()})')
    with MisbehavingServer(script) as server, Store(tmp_path/'s.sqlite') as store:
        model = model_at(server.url, concurrency=4)
        with pytest.raises(ModelError, match='20 requests in a row.*This model is gone'): ask(questions(200), model, store)
        assert len(server.calls) <= 10 + 20 + 2*4 and store.stats()['responses'].sum() == 10


def test_different_refusals_and_answers_between_stop_nothing():
    def script(call): return status(400, f'prompt {call.prompt} is too long') if call.number % 2 else answer()
    with MisbehavingServer(script) as server:
        assert sum(not response.ok for response in ask(questions(120), model_at(server.url), store=False)) == 60
    with MisbehavingServer(lambda call: status(400, f'prompt {call.prompt} is too long')) as server:
        assert not any(response.ok for response in ask(questions(60), model_at(server.url), store=False)) and len(server.calls) == 60


def test_a_refusal_within_a_200_is_learnt_as_well():
    def script(call):
        if 'seed' not in call.body: return answer()
        return raw('{"error": {"code": 400, "message": "seed is not supported"}}')
    with MisbehavingServer(script) as server:
        assert one(server, request=question('x', temperature=1, seed=3)).meta['omitted'] == ['seed'] and len(server.calls) == 2


def test_a_system_role_that_is_refused_by_param():
    request = Request(messages=[dict(role='system', content='Be brief.'), dict(role='user', content='x')])
    def script(call):
        said = "Unsupported value: 'messages[0].role' does not support 'system' with this model."
        return status(400, said, param='messages[0].role') if call.body['messages'][0]['role'] == 'system' else answer()
    with MisbehavingServer(script) as server: assert one(server, request=request).ok and len(server.calls) == 2


def test_what_was_learnt_is_never_unlearnt():
    dialect = Dialect()
    body = {'messages': [], 'max_tokens': 5, 'temperature': 0, 'logprobs': True, 'top_logprobs': 20}
    for said in ('max_tokens is not supported', 'temperature is not supported', 'logprobs not supported', 'logprobs not supported'):
        assert learn(dialect, body, said) or said.startswith('logprobs')
    assert not learn(dialect, body, 'temperature is not supported') and not learn(dialect, body, 'max_tokens is not supported')


# ---- neutral sampling values -------------------------------------------------------------------------------------------------------

def served_by(owner): return ({'id': 'any', 'object': 'model', 'owned_by': owner, 'root': 'org/model'},)

@pytest.mark.parametrize('owner, options, sent', [('vllm', {}, True), ('sglang', {}, True), ('llamacpp', {}, True), ('a vendor', {}, False),
                                                  ('vllm', {'revision': 'v2'}, True)])
def test_neutral_values_go_to_servers_that_fill_in_their_own(owner, options, sent):
    with MisbehavingServer(models=served_by(owner)) as server:
        ask([question('x'), question('y', temperature=0.7, top_p=0.9)], model_at(server.url, concurrency=1, **options), store=False)
        greedy, sampled = (call.body for call in server.calls)
    assert all(greedy.get(name) == (value if sent else None) for name, value in NEUTRAL.items())
    assert sampled['top_p'] == 0.9 and sampled['temperature'] == 0.7 and ('top_k' in sampled) == sent


def test_a_neutral_value_that_is_refused_is_left_out_without_a_word():
    with MisbehavingServer(refusing('top_k', 'min_p', then=answer()), served_by('vllm')) as server:
        responses = ask(questions(5), model_at(server.url, concurrency=1), store=False)
        assert all(response.ok and 'omitted' not in response.meta for response in responses) and len(server.calls) == 7


def test_extra_wins_over_neutral():
    with MisbehavingServer(models=served_by('vllm')) as server:
        one(server, extra='{"repetition_penalty": 1.1}')
        assert server.calls[0].body['repetition_penalty'] == 1.1


def test_a_passing_fault_does_not_teach():
    with MisbehavingServer(in_turn(status(500, 'temperature is not supported'))) as server:
        model = model_at(server.url)
        assert ask([question('x')], model, store=False)[0].ok and not model.dialect.dropped and host_of(server.url) in server.url
