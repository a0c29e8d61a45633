"""Half a character in an answer ends no batch and poisons no store."""
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.models.interface import Message, Request, Response, ScriptedModel, TokenLogprob, ask
from factlab.store.answers import Row, Store

HALF = 'Not Factual \ud83d'
REQUESTS = [Request(messages=[Message(role='user', content=f'Question {n}')]) for n in range(3)]


def test_a_batch_with_half_a_character_is_answered_and_read_again(tmp_path):
    model = ScriptedModel('half', lambda request: HALF if request.messages[0].content.endswith('1') else 'Factual', revision='1')
    with Store(tmp_path/'store.db') as store:
        for _ in range(2):
            assert [response.text for response in ask(REQUESTS, model, store)] == ['Factual', 'Not Factual �', 'Factual']
    assert len(model.asked) == 3


def test_a_stored_half_is_cleaned_when_it_is_read(tmp_path):
    model = ScriptedModel('half', lambda request: pytest.fail('asked again'), revision='1')
    raw = {'text': HALF, 'finish_reason': 'stop', 'prompt_tokens': 1, 'completion_tokens': 1, 'meta': {'reasoning': ['so \udc00']},
           'logprobs': [{'token': '\ud83d', 'logprob': -1.0, 'top': [['\ud83d', -1.0]]}]}
    with Store(tmp_path/'store.db') as store:
        store.put_many([Row(request.key(model.identity), 'half', 'generate', {'messages': []}, raw) for request in REQUESTS])
        for response in ask(REQUESTS, model, store):
            assert response.text == 'Not Factual �' and response.meta == {'reasoning': ['so �']}
            assert response.logprobs[0].token == '�' and response.logprobs[0].top == (('�', -1.0),)


@settings(deadline=None)
@given(st.text(max_size=8), st.dictionaries(st.text(max_size=3), st.recursive(st.text(max_size=5), st.lists, max_leaves=4), max_size=3))
def test_every_text_of_an_answer_can_be_written(text, meta):
    response = Response(text=text + '\ud83d', meta=meta | {'more': ['\udc00']}, error='half \ud800',
                        logprobs=[TokenLogprob(token=text + '\udfff', logprob=0, top=[('\ud83d', 0)])])
    response.model_dump_json().encode()
    assert response.text[-1] == '�' and response.meta['more'] == ['�'] and response.error == 'half �'
