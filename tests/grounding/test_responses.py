"""Responses of models and of files: what is asked, what is refused, and what every fault of a file is called."""
import json
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving_server import MisbehavingServer, answer, status

from factlab.core.core import DataError, FactlabError, UsageError
from factlab.grounding.responses import (
    RESPONSES,
    Responder,
    baseline_responses,
    beginning,
    check_requests,
    quoted_sentences,
    quoting_responses,
    read_responses,
    with_other_response,
)
from factlab.models.interface import Request, Response, ScriptedModel, load_model
from factlab.store.answers import Store

REQUESTS = pl.DataFrame({'id': ['a', 'b', 'c'], 'system': ['Use the document.', '', ''], 'request': ['When did it open?', 'Who?', 'Why?'],
                         'document': ['The mill opened in 1901.', 'Anna runs it. ' * 40, 'For flour.']})


def write(folder: Path, *rows: dict|str, name: str = 'answers.jsonl') -> Path:
    (folder/name).write_text('\n'.join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding='utf-8')
    return folder/name


def row(request: str = 'a', responder: str = 'mine', response: str|None = 'In 1901.', **more) -> dict:
    return {'request_id': request, 'responder': responder, 'response': response} | more


# ---- asking ------------------------------------------------------------------------------------------------------------------------

def test_the_document_opens_the_users_message_and_the_request_ends_it():
    model = ScriptedModel('m', lambda request: 'Yes.', '1')
    Responder().predict(REQUESTS, model, store=False)
    first, second = model.asked[0].messages, model.asked[1].messages
    assert [message.role for message in first] == ['system', 'user'] and [message.role for message in second] == ['user']
    assert first[1].content == 'The mill opened in 1901.\n\nWhen did it open?'


def test_an_interrupted_round_goes_on_from_the_store(tmp_path):
    asked = []
    def answers(request: Request) -> str:
        asked.append(request)
        if len(asked) == 2: raise KeyboardInterrupt
        return 'Yes.'
    with Store(tmp_path/'store') as store:
        with pytest.raises(KeyboardInterrupt): Responder().predict(REQUESTS, ScriptedModel('m', answers, '1'), store)
        found = Responder().predict(REQUESTS, ScriptedModel('m', answers, '1'), store)
    assert len(asked) == 4 and (found['status'] == 'ok').all()  # the first is not asked again


def test_a_failing_row_costs_that_row():
    def answers(request): return Response.failed('no luck') if 'Who' in request.messages[-1].content else 'Yes.'
    found = Responder().predict(REQUESTS, ScriptedModel('m', answers, '1'), store=False)
    assert found['status'].to_list() == ['ok', 'failed', 'ok'] and found['reason'][1] == 'no luck' and found['response'][1] == ''


def test_a_server_that_fails_on_one_document_costs_that_row():
    with MisbehavingServer(lambda call: status(400) if 'Anna' in call.prompt else answer('In 1901.')) as server:
        found = Responder(responder='served').predict(REQUESTS, load_model(f'openai:any?base_url={server.url}'), store=False)
    assert found['status'].to_list() == ['ok', 'failed', 'ok'] and found['responder'].unique().to_list() == ['served']


class Short(ScriptedModel):
    context = 60


def test_a_document_that_is_too_long_is_refused_unless_it_may_be_cut():
    model = Short('m', lambda request: 'Yes.', '1')
    found = Responder(max_tokens=20).predict(REQUESTS, model, store=False)
    assert found['status'].to_list() == ['ok', 'too_long', 'ok'] and len(model.asked) == 2
    assert '121' not in found['reason'][0] and 'tokens' in found['reason'][1]
    cut = Responder(max_tokens=20, truncate=True).predict(REQUESTS, model, store=False)
    assert (cut['status'] == 'ok').all() and 'of 120 words' in cut['reason'][1] and cut['prompt_tokens'].max() <= 40
    assert cut['document'][1] == REQUESTS['document'][1]  # judges see the whole document
    with pytest.raises(UsageError, match='an answer of 60 tokens'): Responder(max_tokens=60).predict(REQUESTS, model, store=False)


def test_empty_responses_copies_and_other_languages_are_named():
    texts = iter([' \n', REQUESTS['document'][1] + ' ', 'Ja.'])
    rows = REQUESTS.with_columns(request=pl.Series([
        'Wann?', 'Wer?', 'Warum wurde die Mühle an der Brücke über den Fluss so früh gebaut und von wem?']))
    found = Responder().predict(rows, ScriptedModel('m', lambda request: next(texts), '1'), store=False)
    assert found['status'].to_list() == ['empty', 'copy', 'ok'] and 'German' in found['reason'][2]


@pytest.mark.parametrize('rows, message', [
    (REQUESTS.drop('document'), 'document missing'), (pl.concat([REQUESTS, REQUESTS]), 'there twice'),
    (REQUESTS.with_columns(request=pl.lit(' ')), 'blank'), (REQUESTS.with_columns(id=pl.Series([1, 2, 3])),
    'id missing or of another type')])
def test_rows_that_are_no_requests(rows, message):
    with pytest.raises(DataError, match=message): check_requests(rows)


# ---- files -------------------------------------------------------------------------------------------------------------------------

def test_a_file_with_its_own_documents_and_one_that_is_joined(tmp_path):
    alone = read_responses(write(tmp_path, row(document='The mill opened in 1901.') | {'request': 'When?'}))
    assert alone.schema == pl.Schema(RESPONSES.columns) and alone['id'].to_list() == ['a/mine'] and alone['system'].to_list() == ['']
    joined = read_responses(write(tmp_path, {'id': 'b', 'model': 'm', 'response': 'Anna.'}), REQUESTS)
    assert joined['status'].to_list() == ['ok', 'missing', 'missing'] and joined['document'][0] == REQUESTS['document'][1]
    assert set(joined['request_id']) == {'a', 'b', 'c'}
    unsigned = read_responses(write(tmp_path, {'id': 'b', 'response': 'Anna.'}), REQUESTS, responder='me')
    assert unsigned['responder'].unique().to_list() == ['me']


def test_null_and_empty_responses_stay_in_view(tmp_path):
    found = read_responses(write(tmp_path, row(response=None), row('b', response='  ')), REQUESTS)
    assert found['status'].to_list() == ['missing', 'empty', 'missing'] and (found['response'].str.strip_chars() == '').all()


@pytest.mark.parametrize('rows, message', [
    ((row(), '{"request_id": "b", "respon'), 'line 2 is not whole JSON'),
    ((row(), '[1, 2]'), 'line 2: list instead of a JSON object'),
    ((row(verdict='good'),), r"unknown columns \['verdict'\]"),
    ((row(), row('b'), row()), "line 3: the response 'a/mine' is there already, in line 1"),
    ((row('z'),), "does not have, the first is 'z'"),
    (({'request_id': 'a', 'response': 'x'},), 'no column responder'),
    (({'responder': 'a', 'response': 'x'},), 'no column request_id'),
    (({'request_id': 'a', 'responder': 'm'},), 'no column response'),
    ((row(response=5),), 'line 1: response is int'),
    ((row(' '),), 'request_id is missing or blank'),
    ((row(), row('b', responder=None)), 'line 2: responder is missing'),
    ((row(model='m'),), 'responder and model: keep one'),
    ((row(document='Another text.'),), 'is not that of the data set')])
def test_what_is_wrong_with_a_file_is_named(tmp_path, rows, message):
    with pytest.raises(DataError, match=message): read_responses(write(tmp_path, *rows), REQUESTS)


def test_files_that_are_none(tmp_path):
    with pytest.raises(DataError, match='no file'): read_responses(tmp_path/'nowhere.jsonl')
    with pytest.raises(DataError, match='empty'): read_responses(write(tmp_path, ''))
    with pytest.raises(UsageError, match='ends in'): read_responses(write(tmp_path, row(), name='a.txt'))
    with pytest.raises(DataError, match='no document or no request'): read_responses(write(tmp_path, row()))


_VALUES = st.one_of(st.none(), st.text(max_size=12), st.integers(), st.booleans(), st.lists(st.text(max_size=3), max_size=2),
                    st.sampled_from(['a', 'b', 'mine']))
_NAMES = st.sampled_from(['id', 'request_id', 'responder', 'model', 'response', 'document', 'request', 'system', 'other'])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.dictionaries(_NAMES, _VALUES, max_size=6).map(json.dumps), st.text(max_size=20),
                          st.builds(row, st.sampled_from(['a', 'b', 'c']), st.sampled_from(['m', 'n'])).map(json.dumps)), max_size=6),
       st.booleans())
def test_any_file_is_read_or_refused_by_name(lines, joined):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)/'x.jsonl'
        path.write_bytes('\n'.join(lines).encode('utf-8', 'surrogatepass'))
        try: found = read_responses(path, REQUESTS if joined else None)
        except FactlabError as error:
            assert str(error)
            return
    RESPONSES.check(found)
    assert found['id'].is_unique().all() and set(found['status']) <= {'ok', 'empty', 'copy', 'failed', 'too_long', 'missing'}
    assert (found.filter(pl.col('status') == 'ok')['response'].str.strip_chars() != '').all()
    if joined: assert (found.group_by('responder').agg(pl.col('request_id').n_unique())['request_id'] == REQUESTS.height).all()


# ---- baselines, and the response beside ---------------------------------------------------------------------------------------------

def test_baselines_read_nothing_and_the_beginning_is_whole_sentences():
    found = baseline_responses(REQUESTS)
    assert dict(found.group_by('status').len().rows()) == {'copy': 1, 'empty': 3, 'ok': 8}  # one sentence may be the answer
    assert beginning('One two. Three four. Five six.', 3) == 'One two. Three four.' and beginning('', 3) == ''


def test_quotes_are_sentences_of_the_document_that_share_words_with_the_request():
    document = 'The mill opened in 1901. Sheep graze nearby. It was closed by a storm. A storm also took its sails.'
    assert quoted_sentences(document, 'Which storm closed the mill?', 7) == 'The mill opened in 1901. It was closed by a storm.'
    assert quoted_sentences(document, 'What took the sails of the mill in a storm?', 1) == 'A storm also took its sails.'
    assert quoted_sentences('', 'Why?') == '' and quoted_sentences('One two. Three.', '') == 'One two. Three.'
    found = quoting_responses(REQUESTS)
    assert found['responder'].unique().to_list() == ['Baseline: the sentences nearest the request'] and found.height == REQUESTS.height
    assert found['id'].is_unique().all() and not {*found['id']} & {*baseline_responses(REQUESTS)['id']}


def test_the_other_response_is_another_ones_of_the_same_request(tmp_path):
    rows = [row(request, responder, f'{request} by {responder}') for request in 'ab' for responder in ('x', 'y', 'z')]
    found = with_other_response(read_responses(write(tmp_path, *rows), REQUESTS))
    known = found.filter(pl.col('status') == 'ok')
    assert (known['baseline'] != known['response']).all()
    assert (known['baseline'].str.head(1) == known['request_id']).all()
    assert found.filter(pl.col('request_id') == 'c')['baseline'].unique().to_list() == ['For flour.']


def test_a_published_prompt_is_cut_where_its_document_stands():
    class Short(ScriptedModel): context = 60
    model = Short('m', lambda request: 'Yes.', '1')
    rows = REQUESTS.filter(id='b').with_columns(full_prompt=pl.format('Read: {} Then say: {}', 'document', 'request'))
    assert Responder(max_tokens=5).predict(rows, model, store=False)['status'].item() == 'too_long' and not model.asked
    assert Responder(max_tokens=5, truncate=True).predict(rows, model, store=False)['status'].item() == 'ok'
    text = model.asked[0].messages[0].content
    assert text.startswith('Read: Anna runs it.') and text.endswith('Then say: Who?') and len(text.split()) <= 55
    elsewhere = rows.with_columns(full_prompt=pl.lit('word '*90))
    assert Responder(max_tokens=5, truncate=True).predict(elsewhere, model, store=False)['status'].item() == 'too_long'
