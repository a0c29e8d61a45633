"""Which of a server's tokens are the answer's, what its first token says of the choices, and what it calls the end of an answer."""
import json
import math
from pathlib import Path

import pytest

from factlab.models.endpoint_answers import Refused, read_answer
from factlab.models.endpoint_choices import read_single
from factlab.models.endpoint_requests import Dialect
from factlab.models.interface import Message, Request, Response

PAYLOADS = json.loads(Path(__file__).with_name('payloads.json').read_text(encoding='utf-8'))
ASKED = (Message(role='user', content='A or B?'),)


def answered(name): return read_answer(PAYLOADS[name], Request(messages=ASKED, top_logprobs=5), Dialect())


@pytest.mark.parametrize('name', [name for name in PAYLOADS if name.startswith('finish')])
def test_a_broken_answer_is_not_whole(name):
    response = answered(name)
    assert response.finish_reason in ('length', 'error') and response.text == 'The mill clo'
    assert response.finish_reason == 'length' or not response.ok and name.removeprefix('finish_') in response.error


@pytest.mark.parametrize('said', ['stop', 'STOP', 'end_turn', 'stop_sequence', 'eos_token', 'COMPLETE'])
def test_synonyms_of_stop_are_whole(said):
    choice = PAYLOADS['finish_error']['choices'][0] | {'finish_reason': said}
    response = read_answer(PAYLOADS['finish_error'] | {'choices': [choice]}, Request(messages=ASKED), Dialect())
    assert response.ok and response.finish_reason == 'stop'


@pytest.mark.parametrize('said', [None, 'network_error'])
def test_an_answer_that_no_server_calls_whole_is_not(said):
    choice = PAYLOADS['finish_error']['choices'][0] | {'finish_reason': said}
    response = read_answer(PAYLOADS['finish_error'] | {'choices': [choice]}, Request(messages=ASKED), Dialect())
    assert not response.ok and response.text == 'The mill clo' and repr(said) in response.error


@pytest.mark.parametrize('name', [name for name in PAYLOADS if name.startswith(('think', 'reasoning'))])
def test_the_first_token_of_the_answer_is_found_behind_thinking(name):
    response = answered(name)
    assert response.text == 'A' and dict(response.logprobs[0].top)['A'] == pytest.approx(math.log(.95))


def told(*tokens: str, **message: object) -> Response:
    "What is read where a server reports these tokens, each with its own likelihood, and the answer A."
    content = [{'token': token, 'logprob': math.log(.9), 'top_logprobs': [{'token': token, 'logprob': math.log(.9)}]} for token in tokens]
    choice = {'message': {'content': 'A'} | message, 'finish_reason': 'stop', 'logprobs': {'content': content}}
    return read_answer({'choices': [choice], 'usage': {}}, Request(messages=ASKED, top_logprobs=5), Dialect())


@pytest.mark.parametrize('message', [
    {}, {'reasoning_content': None}, {'thinking': 'B?'}, {'reasoning': {'text': 'B?'}}, {'reasoning_details': [{'text': 'B?'}]},
    {'content': [{'type': 'thinking', 'thinking': 'B?'}, {'type': 'text', 'text': 'A'}]}])
@pytest.mark.parametrize('tokens', [('B', '?', '</think>', 'A'), ('B', 'A'), ('B', '?', ' A'), ('A', '<|end|>'), (' A',)])
def test_the_answers_tokens_are_found_wherever_a_server_puts_its_thinking(message, tokens):
    response = told(*tokens, **message)
    assert response.text == 'A' and [each.token.strip() for each in response.logprobs] == ['A']


@pytest.mark.parametrize('name, mass', [('choices_space', .9201), ('choices_lower', .96)])
def test_spellings_of_a_choice_are_added(name, mass):
    response = read_single(PAYLOADS[name], Request(messages=ASKED, choices=('A', 'B')), Dialect())
    assert response.choice_logprobs[0] > response.choice_logprobs[1]
    assert response.meta['choice_mass'] == pytest.approx(mass, abs=1e-3)


@pytest.mark.parametrize('name', ['choices_bold', 'choices_think'])
def test_choices_with_little_mass_are_not_decided(name):
    with pytest.raises(Refused, match=r'of the first token, too little'):
        read_single(PAYLOADS[name], Request(messages=ASKED, choices=('A', 'B')), Dialect())
