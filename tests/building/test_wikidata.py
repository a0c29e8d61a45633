"""Descriptions over the network, from a server that misbehaves, and from a model that contradicts itself."""

import json
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest

from factlab.building import EntityDescriptions, Patience, look_up_wikidata
from factlab.building.wikidata import describe_requests, described_knowledge, kept_names
from factlab.core.core import DataError, UsageError
from factlab.models.interface import ScriptedModel

QUICK = Patience(timeout=5, attempts=3, backoff=0.01, max_wait=0.05, parallel=2, give_up=3)
ITEMS = {
    'Oslo': [('Oslo', 'capital of Norway')],
    'Georgia': [('Georgia', 'country'), ('Georgia', 'state'), ('Georgia Tech', 'university')],
    'Nowhere': [],
}


def found(name: str) -> bytes:
    hits = [{'id': f'Q{at}', 'label': label, 'description': text, 'match': {'text': label}} for at, (label, text) in enumerate(ITEMS[name])]
    return json.dumps({'search': hits, 'success': 1}).encode()


@contextmanager
def serving(script):
    "A server whose answers a script gives: (name, how often it was asked before) → status, body, headers."
    asked = Counter()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            name = parse_qs(urlsplit(self.path).query)['search'][0]
            asked[name] += 1
            status, body, headers = script(name, asked[name] - 1)
            self.send_response(status)
            for key, value in {'Content-Length': len(body), **headers}.items():
                self.send_header(key, str(value))
            self.end_headers()
            self.wfile.write(body[: len(body) if 'cut' not in headers else len(body) // 2])

    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/w/api.php', asked
    finally:
        server.shutdown()
        server.server_close()


def test_names_are_looked_up_once_and_kept(tmp_path):
    path = tmp_path / 'kept.jsonl'
    with serving(lambda name, before: (200, found(name), {})) as (url, asked):
        first = look_up_wikidata(['Oslo', 'Georgia', 'Nowhere', ' Oslo '], path, endpoint=url, patience=QUICK)
        assert first.calls == 3 and first.knowledge['entity'].to_list() == ['Oslo', 'Georgia', 'Georgia'] and first.failed.is_empty()
        again = look_up_wikidata(['Nowhere', 'Georgia'], path, endpoint=url, patience=QUICK)
        assert again.calls == 0 and again.knowledge.height == 2 and asked.total() == 3
    assert kept_names(path) == {'Oslo', 'Georgia', 'Nowhere'}


def test_a_lookup_that_was_cut_goes_on(tmp_path):
    path = tmp_path / 'kept.jsonl'
    with serving(lambda name, before: (200, found(name), {})) as (url, asked):
        look_up_wikidata(['Oslo', 'Georgia'], path, endpoint=url, patience=QUICK)
        text = path.read_text()
        path.write_text(text[:-20])  # the last line was being written
        assert look_up_wikidata(['Oslo', 'Georgia'], path, endpoint=url, patience=QUICK).knowledge.height == 3 and asked.total() == 3
    path.write_text('{"name": 3}\n' + text)
    with pytest.raises(DataError, match='line 1 is no lookup'):
        look_up_wikidata(['Oslo'], path, patience=QUICK)


@pytest.mark.parametrize(
    ('trouble', 'headers'),
    [
        ((429, b'slow down'), {'Retry-After': '0'}),
        ((503, b''), {}),
        ((200, b'{"search": [{'), {}),
        ((200, b'{"error": {"code": "ratelimited", "info": "too fast"}}'), {}),
        ((200, b'{"search": []}' * 9), {'cut': '1'}),
    ],
)
def test_what_may_pass_is_asked_again(trouble, headers):
    with serving(lambda name, before: (*trouble, headers) if not before else (200, found(name), {})) as (url, asked):
        assert look_up_wikidata(['Oslo'], endpoint=url, patience=QUICK).knowledge['description'].to_list() == ['capital of Norway']
        assert asked['Oslo'] == 2


@pytest.mark.parametrize(
    ('answer', 'reason', 'calls'),
    [
        ((200, b'<!DOCTYPE html><html>Log in</html>'), 'web page', 1),
        ((404, b'no'), 'HTTP 404', 1),
        ((429, b''), 'HTTP 429.*3 times', 3),
        ((200, b'{"query": {}}'), 'no list "search"', 1),
        ((200, b'[]'), 'list, expected an object', 3),
        ((200, b'{"error": {"code": "bad", "info": "no such action"}}'), 'no such action', 1),
    ],
)
def test_what_does_not_pass_is_named_and_not_kept(tmp_path, answer, reason, calls):
    path = tmp_path / 'kept.jsonl'
    with serving(lambda name, before: (200, found(name), {}) if name == 'Oslo' else (*answer, {})) as (url, asked):
        got = look_up_wikidata(['Nowhere', 'Oslo'], path, endpoint=url, patience=QUICK)
    assert got.knowledge['entity'].to_list() == ['Oslo'] and got.failed['entity'].to_list() == ['Nowhere']
    assert got.failed.select(ok=got.failed['reason'].str.contains(reason))['ok'].all() and asked['Nowhere'] == calls
    assert kept_names(path) == {'Oslo'}


def test_a_server_that_is_away_stops_the_lookup(tmp_path):
    with serving(lambda name, before: (500, b'', {})) as (url, asked):
        with pytest.raises(DataError, match='3 names in a row.*HTTP 500'):
            look_up_wikidata([f'Name {at}' for at in range(20)], tmp_path / 'kept.jsonl', endpoint=url, patience=QUICK)
        assert len(asked) <= 4
    with pytest.raises(UsageError, match='no endpoint'):
        look_up_wikidata(['Oslo'], endpoint='wikidata')


def test_a_server_that_is_silent_is_asked_again_and_then_named():
    released = threading.Event()

    def silent(name, before):
        if name == 'Oslo' and before:
            return 200, found(name), {}
        released.wait(10)
        return 200, found(name), {}

    with serving(silent) as (url, asked):
        try:
            got = look_up_wikidata(['Oslo', 'Nowhere'], endpoint=url, patience=QUICK._replace(timeout=0.2, attempts=2))
        finally:
            released.set()
    assert got.knowledge['entity'].to_list() == ['Oslo'] and asked == {'Oslo': 2, 'Nowhere': 2}
    assert 'timed out' in got.failed['reason'].item() and got.failed['entity'].to_list() == ['Nowhere']


def test_redirects_are_followed_unless_they_lead_nowhere():
    with serving(lambda name, before: (200, found(name), {})) as (home, _):
        def moved(name, before):
            to = {'Oslo': f'{home}?search=Oslo', 'Nowhere': f'{url}?search=Nowhere', 'Georgia': 'file:///etc/hostname'}[name]
            return 301, b'', {'Location': to}

        with serving(moved) as (url, asked):
            got = look_up_wikidata(ITEMS, endpoint=url, patience=QUICK)
    assert got.knowledge['entity'].to_list() == ['Oslo'] and asked['Oslo'] == 1 and asked['Georgia'] == 1
    reasons = dict(got.failed.select('entity', 'reason').iter_rows())
    assert set(reasons) == {'Nowhere', 'Georgia'} and all('HTTP 301' in reason for reason in reasons.values())


def answering(said):
    def answer(request):
        return said[next(name for name in said if name in request.messages[-1].content)][request.repeat]

    return ScriptedModel('scripted', answer, revision='1')


def says(text, ambiguous=False, known=True):
    return json.dumps({'ambiguous': ambiguous, 'known': known, 'description': text})


def test_two_askings_must_agree():
    said = {
        'Oslo': [says('capital of Norway'), says('the capital city of Norway.')],
        'Ann Li': [says('tennis player'), says('founder of a bank')],
        'Georgia': [says('a state', ambiguous=True), says('a state')],
        'Xyz': [says('', known=False)] * 2,
        'Lima': ['I am not sure', says('a city')],
    }
    model = answering(said)
    got = EntityDescriptions().predict(pl.DataFrame({'id': list(said)}), model, store=False)
    assert described_knowledge(got).select('entity', 'description').rows() == [('Oslo', 'capital of Norway')]
    reasons = dict(got.select('id', 'reason').iter_rows())
    assert reasons['Ann Li'] == 'two askings disagree' and 'ambiguous' in reasons['Georgia'] and 'not known' in reasons['Xyz']
    assert reasons['Lima'] not in ('', 'two askings disagree') and len(model.asked) == 10


def test_the_store_answers_the_second_time(tmp_path):
    from factlab.store.answers import Store

    model = answering({'Oslo': [says('capital of Norway')] * 2})
    with Store(tmp_path / 'store') as store:
        for _ in range(2):
            found = EntityDescriptions().predict(pl.DataFrame({'id': ['Oslo']}), model, store)
            assert found['description'].to_list() == ['capital of Norway']
    assert len(model.asked) == 2
    assert {request.seed for request in describe_requests(['Oslo'])} == {0, 1}


def test_another_language_is_no_description():
    "Wikidata falls back to a language that it has; English words behind a German name would look like a hallucination."

    def script(name, before):
        fallen = {'description': {'value': 'capital of Norway', 'language': 'en'}}
        hit = {'label': 'Oslo', 'description': 'capital of Norway', 'match': {'text': 'Oslo'}, 'display': fallen}
        return 200, json.dumps({'search': [hit], 'success': 1}).encode(), {}

    with serving(script) as (url, _):
        assert look_up_wikidata(['Oslo'], endpoint=url, patience=QUICK, language='de').knowledge['description'].to_list() == ['']
        assert look_up_wikidata(['Oslo'], endpoint=url, patience=QUICK).knowledge['description'].to_list() == ['capital of Norway']


def test_lookups_of_another_language_are_not_mixed(tmp_path):
    path = tmp_path / 'kept.jsonl'
    with serving(lambda name, before: (200, found(name), {})) as (url, asked):
        look_up_wikidata(['Oslo'], path, endpoint=url, patience=QUICK, language='de')
        assert look_up_wikidata(['Oslo'], path, endpoint=url, patience=QUICK, language='de').calls == 0
        with pytest.raises(UsageError, match="lookups in 'de', and 'en' is asked for"):
            look_up_wikidata(['Oslo'], path, endpoint=url, patience=QUICK)
    assert asked.total() == 1
