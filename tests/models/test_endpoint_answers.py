"""What comes back: thinking, usage, JSON that is ignored, prices."""
import json
import re
from datetime import date

import pytest
from asking import model_at, one, question, questions
from hypothesis import given
from hypothesis import strategies as st
from misbehaving_server import MisbehavingServer, answer, in_turn, null_content, raw, status

from factlab.core.core import DataError, assets_dir
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.endpoint_answers import listed_price
from factlab.models.interface import ask
from factlab.models.prompts import split_thinking

pytestmark = pytest.mark.usefixtures('no_key')


def body(message, ended='stop', **usage):
    usage = {'prompt_tokens': 9, 'completion_tokens': 20} | usage
    return raw(json.dumps({'choices': [{'message': {'role': 'assistant'} | message, 'finish_reason': ended}], 'usage': usage}))


# ---- thinking ----------------------------------------------------------------------------------------------------------------------

TEXT = st.text(alphabet='ab <>/\n', max_size=30).filter(lambda text: 'think' not in text)

@given(TEXT, TEXT, st.sampled_from(['think', 'thinking', 'THINK']), st.booleans())
def test_what_is_between_the_marks_is_thinking(thought, said, tag, opened):
    close = '</think>' if not opened else f'</{tag}>'
    found = split_thinking((f'<{tag}>' if opened else '') + thought + close + said)
    assert found == (said.lstrip(), thought, False)


@given(TEXT)
def test_text_without_marks_stays_as_it_is(text): assert split_thinking(text) == (text, '', False)


@pytest.mark.parametrize('text', [
    '<seed:think>{}</seed:think>\n{}', '◁think▷{}◁/think▷{}', '<thinking type="deep">\n{}\n</thinking>\n\n{}', '[THINK]{}[/THINK]{}',
    '<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>', 'analysis{}assistantfinal{}',
    '<|channel|>analysis<|message|>{}<|channel|>final <|constrain|>text<|message|>{}', '<|begin_of_thought|>{}<|end_of_thought|>{}',
    '<|thinking|>{}<|/thinking|>{}',
    '<|START_THINKING|>{}<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>', '{}\n</think>\n\n{}<|im_end|>',
    '<think>It quotes "</think> Inaccurate". {}</think>{}'])
def test_every_kind_of_thinking_is_taken_out(text):
    thought, said = 'Final verdict: accurate. Or is it?', 'Final verdict: Inaccurate'
    answer, thinking, open_ = split_thinking(text.format(thought, said))
    assert answer == said and thought in thinking and not open_
    begun = text.format(thought, said).partition(thought)[0]
    assert not begun or split_thinking(begun + thought)[::2] == ('', True)


@pytest.mark.parametrize('said', ['It holds "</think> Final verdict: accurate".', 'It ends in `</think>`.', '```\na</think>\n```'])
def test_a_mark_that_is_quoted_ends_no_thought(said):
    said = 'Final verdict: Inaccurate\n' + said
    assert split_thinking(said) == (said, '', False)


def test_thinking_is_taken_out_and_counted():
    with MisbehavingServer(lambda call: answer('<think>so it is yes\n</think>\n\nyes')) as server:
        response = one(server)
        assert response.text == 'yes' and response.meta['reasoning'] == 'estimated' and 0 < response.meta['reasoning_tokens'] <= 8
    with MisbehavingServer(lambda call: body({'content': 'yes', 'reasoning_content': 'so it is'})) as server:
        assert one(server).text == 'yes' and one(server).meta['reasoning_tokens'] > 0
    with MisbehavingServer(lambda call: body({'content': 'yes'}, completion_tokens_details={'reasoning_tokens': 15})) as server:
        assert one(server).meta == {'reasoning_tokens': 15} and one(server).completion_tokens == 20


def test_vendors_that_count_reasoning_beside_are_priced_with_it():
    usage = dict(total_tokens=44, completion_tokens_details={'reasoning_tokens': 15}, prompt_tokens_details={'cached_tokens': 4})
    with MisbehavingServer(lambda call: body({'content': 'yes'}, **usage)) as server:
        response = one(server)
    assert response.completion_tokens == 35 and response.meta == {'reasoning_tokens': 15, 'cached_tokens': 4}


@pytest.mark.parametrize('message, reason', [({'content': None, 'reasoning_content': 'so'}, True), ({'content': '<think>so it'}, True),
                                             ({'content': ''}, False), ({'content': None}, False)])
def test_an_answer_that_was_all_thinking_is_paid_for_once(message, reason):
    with MisbehavingServer(lambda call: body(message, 'length')) as server:
        response = one(server)
        assert response.ok and response.text == '' and response.finish_reason == 'length' and len(server.calls) == 1
        assert ('thinking_tokens' in response.meta.get('reason', '')) == reason


USAGE = {'prompt_tokens': 9, 'completion_tokens': 2}
MALFORMED = {
    'no end of brackets': raw('['*100_000), 'a list for a message': raw('{"choices": [{"message": ["yes"]}]}'),
    'a text for a message': raw('{"choices": [{"message": "yes", "finish_reason": "stop"}]}'),
    'parts without a text': body({'content': ['yes']}), 'a number for a text': body({'content': [{'type': 'text', 'text': 12}]}),
    **{f'{count} tokens': body({'content': 'yes'}, prompt_tokens=count) for count in (-7, float('inf'), 1e300, 'many')},
    **{f'a log-probability of {value}': raw(json.dumps({'choices': [{'message': {'content': 'yes'}, 'finish_reason': 'stop', 'logprobs': {
        'content': [{'token': 'yes', 'logprob': value}]}}], 'usage': USAGE})) for value in (3.0, float('nan'), 'likely')}}

@pytest.mark.parametrize('fault', MALFORMED)
def test_an_answer_of_other_kinds_than_it_should_be_is_asked_again(fault):
    with MisbehavingServer(in_turn(MALFORMED[fault])) as server: assert one(server).text == 'HELLO' and len(server.calls) == 2
    with MisbehavingServer(lambda call: MALFORMED[fault]) as server:
        assert re.search('gave up after 2 failed calls: the answer (is|has)', one(server, retries=1).error)


def test_nothing_said_after_thinking_is_an_answer_and_no_content_is_not():
    with MisbehavingServer(lambda call: body({'content': None, 'reasoning_content': 'so'})) as server:
        assert one(server).text == '' and len(server.calls) == 1
    with MisbehavingServer(in_turn(null_content())) as server: assert one(server).ok and len(server.calls) == 2


def test_template_and_budget_are_sent():
    with MisbehavingServer() as server:
        model = model_at(server.url, extra='{"chat_template_kwargs": {"enable_thinking": false}}', thinking_tokens=100)
        ask([question('x', max_tokens=7)], model, store=False)
        assert server.calls[0].body['chat_template_kwargs'] == {'enable_thinking': False} and server.calls[0].body['max_tokens'] == 107
        with DryRun() as dry: ask([question('y', max_tokens=7)], model, store=False)
        assert estimate_of(dry)['completion_tokens'].to_list() == [107]


def test_a_template_that_is_refused_fails_in_the_servers_words():
    with MisbehavingServer(lambda call: status(400, 'Unknown parameter: chat_template_kwargs')) as server:
        extra = '{"chat_template_kwargs": {"enable_thinking": false}}'
        assert 'chat_template_kwargs' in one(server, extra=extra).error and len(server.calls) == 1


def test_log_probabilities_are_of_the_answer():
    def script(call):
        tokens = ['<think>', 'hm', '</think>', 'yes']
        places = [{'token': token, 'logprob': -0.1, 'top_logprobs': []} for token in tokens]
        choice = {'message': {'content': ''.join(tokens)}, 'finish_reason': 'stop', 'logprobs': {'content': places}}
        return raw(json.dumps({'choices': [choice]}))
    with MisbehavingServer(script) as server:
        assert [each.token for each in one(server, request=question('x', top_logprobs=1)).logprobs] == ['yes']


# ---- JSON --------------------------------------------------------------------------------------------------------------------------

SCHEMA = '{"type": "object", "properties": {"verdict": {"enum": ["yes", "no"]}}, "required": ["verdict"]}'

@pytest.mark.parametrize('text, mode', [('{"verdict": "yes"}', 'native'), ('{"verdict": "maybe"}', 'ignored'), ('[]', 'ignored'),
                                        ('```json\n{"verdict": "yes"}\n```', 'ignored'), ('Yes.', 'ignored'),
                                        ('<think>yes?</think>{"verdict": "yes"}', 'native')])
def test_a_layer_that_ignores_the_schema_is_told(text, mode):
    with MisbehavingServer(lambda call: answer(text)) as server:
        assert one(server, request=question('x', json_schema=SCHEMA)).json_mode == mode
    with MisbehavingServer(lambda call: answer('{"verdict"', 'length')) as server:  # cut off: nothing can be said
        assert one(server, request=question('x', json_schema=SCHEMA)).json_mode == 'native'


# ---- prices ------------------------------------------------------------------------------------------------------------------------

def priced(tmp_path, monkeypatch, *entries):
    path = tmp_path/'prices.json'
    path.write_text(json.dumps({'prices': entries}))
    monkeypatch.setenv('FACTLAB_PRICES', str(path))


def test_an_unknown_price_is_unknown(tmp_path, monkeypatch):
    with MisbehavingServer() as server:
        for options, cost in (({}, None), ({'price': '1,2'}, pytest.approx((4*12 + 2*4*512)/1e6, rel=0.1)), ({'price': '0,0'}, 0.0)):
            with DryRun() as dry: ask(questions(4), model_at(server.url, **options), store=False)
            assert estimate_of(dry)['cost'].to_list() == [cost]
        entry = {'host': server.url.removesuffix('/v1'), 'model': 'any', 'prompt': 1, 'completion': 2, 'from': '2020-01-01'}
        priced(tmp_path, monkeypatch, entry, entry | {'from': '2999-01-01', 'prompt': 9}, entry | {'model': 'other', 'prompt': 7})
        assert model_at(server.url).price == (1, 2) and model_at(server.url, price='3,4').price == (3, 4)
        assert listed_price('any', server.url, date(2019, 1, 1)) is None and model_at(server.url, 'unlisted').price is None
        assert model_at(server.url).identity == {'backend': 'openai', 'model': 'any', 'base_url': server.url}


def test_listed_prices_have_a_source_and_those_of_the_papers_models_are_known(monkeypatch):
    monkeypatch.delenv('FACTLAB_PRICES', raising=False)
    told = json.loads((assets_dir('models')/'prices.json').read_text(encoding='utf-8'))['prices']
    assert all(each['source'].startswith('https://') and each['completion'] > each['prompt'] > 0 for each in told)
    assert len({(each['host'], each['model'], each['from']) for each in told}) == len(told)
    assert listed_price('gpt-4o-2024-11-20', 'https://api.openai.com/v1') == (2.5, 10)
    assert listed_price('gpt-4o-2024-11-20', 'https://api.openai.com/v1', batch=True) == (1.25, 5)
    assert listed_price('claude-3-5-sonnet-20241022', 'https://api.anthropic.com/v1', batch=True) is None  # no such batches here
    assert listed_price('gpt-4o', 'http://localhost:8000/v1') is None


@pytest.mark.parametrize('text', ['', '[]', '{}', '{"prices": [{"model": "x"}]}', '{"prices": [{"host": "h", "model": "m", "from": "soon", '
                                  '"prompt": 1, "completion": 1}]}'])
def test_a_file_of_prices_that_cannot_be_read_is_named(tmp_path, monkeypatch, text):
    (tmp_path/'p.json').write_text(text)
    monkeypatch.setenv('FACTLAB_PRICES', str(tmp_path/'p.json'))
    with pytest.raises(DataError, match='p.json.*expected'): model_at('http://host/v1')
