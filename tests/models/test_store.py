"The store under threads, processes, forks, kill -9, damage, and disks that refuse."
import hashlib
import inspect
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factlab.core.core import StoreError, UsageError
from factlab.models import store as store_module
from factlab.models import store_file, store_tables
from factlab.models.store import EXPORT, FAULTS, STATS, DamagedStoreError, Row, Store

posix = pytest.mark.skipif(os.name == 'nt', reason='signals and forks of POSIX')
PRELUDE = '''
import json, os, sys, time, random
from factlab.core.core import StoreError
from factlab.models.store import Row, Store
from factlab.core.core import FactlabError
def row(key, text): return Row(key, 'tiny', 'generate', {'question': key}, {'text': text, 'prompt_tokens': 2, 'completion_tokens': 1})
path = sys.argv[1]
'''


def row(key, text='an answer', model='tiny', kind='generate'):
    return Row(key, model, kind, {'question': key}, {'text': text, 'prompt_tokens': 2, 'completion_tokens': 1})


def start(script, *arguments):
    "A Python process of its own; its output can be read line by line."
    command = [sys.executable, '-u', '-c', PRELUDE + script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path/'store.sqlite', patience=5) as store: yield store


def fill(store, count=400, size=600):
    "Rows of some length, and what they hold."
    rows = [row(f'key-{n:05}', f'{n} ' + chr(97 + n % 26)*size) for n in range(count)]
    store.put_many(rows)
    return {one.key: one.response for one in rows}


# What goes in comes out

def text():
    return st.text(st.characters(codec=None, exclude_categories=()), max_size=30)  # all of Unicode, halves of surrogate pairs too


def of_json():
    leaves = st.none()|st.booleans()|st.integers()|st.floats(allow_nan=False, allow_infinity=False)|text()
    def grown(inner): return st.lists(inner, max_size=4)|st.dictionaries(text(), inner, max_size=4)
    return st.dictionaries(text(), st.recursive(leaves, grown, max_leaves=8), max_size=5)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(response=of_json(), request_=of_json())
def test_round_trip_of_whatever_json_can_hold(store, response, request_):
    key = f'k{time.monotonic_ns()}'
    expected = json.loads(json.dumps(response))  # JSON joins two halves of a surrogate pair that stand side by side
    assert store.put_many([Row(key, 'tiny', 'generate', request_, response)]) == {key: expected} == store.get_many([key])


def test_samples_of_one_question_are_rows_of_their_own(store):
    keys = [f'question repeat={n}' for n in range(5)]
    store.put_many([row(key, f'sample {n}') for n, key in enumerate(keys)])
    assert [answer['text'] for answer in store.get_many(keys).values()] == [f'sample {n}' for n in range(5)]
    assert [answer['text'] for answer in store.get_many(keys[::-1]).values()] == [f'sample {n}' for n in range(5)][::-1]


def test_the_first_write_wins_also_within_a_batch(store):
    assert store.put_many([row('a', '1'), row('a', '2'), row('b', '3')])['a']['text'] == '1'
    assert store.put_many([row('a', '4')])['a']['text'] == '1'
    assert store.stats()['responses'].to_list() == [2]


@pytest.mark.parametrize('wrong', [float('nan'), float('inf'), {1, 2}, b'bytes', object()])
def test_what_json_cannot_hold_is_refused_and_nothing_of_the_batch_is_stored(store, wrong):
    with pytest.raises(UsageError, match='cannot store'):
        store.put_many([row('good'), Row('bad', 'tiny', 'generate', {}, {'value': wrong})])
    assert store.get_many(['good']) == {}


@pytest.mark.parametrize('keys', ['one text', [''], [None], ['half \ud83d'], ['nul\0'], [3]])
def test_keys_that_are_none(store, keys):
    for call in (store.get_many, store.get_vectors, lambda keys: store.lease(keys, 'me')):
        with pytest.raises(UsageError): call(keys)


def test_token_counts_that_are_none_do_not_stop_the_statistics(store):
    for n, count in enumerate([None, 'many', -1, True, 2**70, 7]):
        store.put_many([Row(f'{n}', 'tiny', 'generate', {}, {'prompt_tokens': count})])
    assert store.stats()['prompt_tokens'].to_list() == [7] and store.get_many(['4']) == {'4': {'prompt_tokens': 2**70}}


def test_nothing_asked_nothing_given(store):
    assert store.get_many([]) == {} == store.put_many([]) == store.get_vectors([]) and store.lease([], 'me') == set()
    assert STATS.check(store.stats()).is_empty() and FAULTS.check(store.verify()).is_empty()
    store.release([], 'me')
    store.put_vectors('tiny', {})


def test_many_keys_at_once(store):
    held = fill(store, 20_000, 20)
    assert store.get_many(held) == held and list(store.get_many(list(held)[::-1])) == list(held)[::-1]


def test_keys_that_begin_alike_are_kept_apart(store):
    "The index holds the first 48 bits of a key."
    keys = ['0'*12 + f'{n:052x}' for n in range(50)]
    store.put_many([row(key, key) for key in keys[:40]])
    store.put_vectors('encoder', {key: [n] for n, key in enumerate(keys[:40])})
    assert {key: answer['text'] for key, answer in store.get_many(keys).items()} == {key: key for key in keys[:40]}
    assert {key: vector.item() for key, vector in store.get_vectors(keys).items()} == {key: n for n, key in enumerate(keys[:40])}
    assert store.lease(keys, 'me') == {*keys[40:]}
    strange = ['a text of twenty-six bytes', 'A'*64, keys[0].upper() + 'F', '0'*63, 'ü'*13]
    assert store.put_many([row(key, key) for key in strange]).keys() == {*strange} and store.verify().is_empty()


def about(number, document):
    content = f'Is the claim right?\n\nText:\n{document}\n\nClaim:\nThe claim number {number}.\n\nAnswer:\n'
    return Row(f'{hash(document)} {number}', 'tiny', 'generate', {'messages': [{'content': content, 'role': 'user'}]}, {'text': 'yes'})


@pytest.mark.parametrize('separator', ['\n\n', '\n', '. '])
def test_a_document_is_there_once_however_many_claims_are_asked_about_it(store, separator):
    chance, words = random.Random(1), 'river mill tower bridge year town wall gate'.split()
    lines = [' '.join(chance.choices(words, k=12)) + f' {n}' for n in range(400)]
    documents = [separator.join(lines[start:start + 200]) for start in (0, 200)]
    rows = [about(n, document) for document in documents for n in range(100)]
    store.put_many(rows)
    with store.connections.reading() as connection:
        texts = connection.execute('SELECT sum(length(content)) FROM texts_3').fetchone()[0]
        requests = connection.execute('SELECT sum(length(request)) FROM responses_3').fetchone()[0]
    whole = sum(len(json.dumps(one.request)) for one in rows)
    assert texts < sum(map(len, documents)) and requests + texts < whole/20
    assert store.verify().is_empty()


_AS_EVER = re.compile(rb'(?P<end>","role":)|(?P<hard>\\n(?:\\n)+|"content":")|\\n|[.!?] ')

def cut_as_ever(body: bytes) -> list[bytes]:
    "Where the first version of this format cut; slow."
    pieces, start, unit = [], 0, 0
    for place in _AS_EVER.finditer(body):
        if place['end'] is not None:
            if place.start() > start: pieces.append(body[start:place.start()])
            start, unit = place.start(), place.end()
            continue
        stop = place.end()
        if stop - start >= 160 and (place['hard'] is not None or not zlib.crc32(body[unit:stop]) & 3):
            pieces.append(body[start:stop])
            start = stop
        unit = stop
    return [*pieces, body[start:]] if start < len(body) else pieces

@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([b'","role":', b'"content":"', b'\\n', b'\\n\\n', b'. ', b'! ', b'? ', b'"', b'\\', b'n', b'mill ',
                                 b'x'*70])))
def test_texts_are_cut_where_they_always_were(parts):
    "A document of an older answer and of one of today is the same pieces."
    assert store_file.cut(b''.join(parts)) == cut_as_ever(b''.join(parts))

def test_what_is_put_is_given_back_as_it_would_be_read(store):
    first, again = row('a', 'one'), row('a', 'two')
    store.put_many([row('b', 'stored before')])
    odd = row('c', 'x')._replace(response={'text': ('a', 'tuple'), 'of': {1: True}})  # JSON makes other things of these
    assert store.put_many([again._replace(response={'text': 'first'}), first, row('b', 'late'), odd]) \
        == {'a': {'text': 'first'}, **store.get_many(['b', 'c'])}
    assert store.get_many(['a', 'b', 'c'])['b']['text'] == 'stored before'

def test_a_piece_never_gets_the_number_of_one_that_was_pruned(store):
    def pieces():
        with store.connections.reading() as connection: return {number for number, in connection.execute('SELECT id FROM texts_3')}
    store.put_many([about(1, 'the first document '*30)])
    before = pieces()
    assert store.prune(before=date.today() + timedelta(days=2)) == 1 and not pieces()
    store.put_many([about(2, 'the second document '*30)])
    assert before and min(pieces()) > max(before) and store.verify().is_empty()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(['. ', '\\n', '\\n\\n', '","role":', '"content":"', 'x'*200]), text()), max_size=40))
def test_pieces_joined_are_the_text(parts):
    body = ''.join(parts).encode('utf-8', 'surrogatepass')
    pieces = store_file.cut(body)
    assert b''.join(pieces) == body and all(pieces)
    ids = {piece: n*1000 for n, piece in enumerate(pieces) if store_file.is_shared(piece)}
    read = store_file.read_references(store_file.to_references(pieces, ids))
    assert store_file.join_pieces(read, {number: piece for piece, number in ids.items()}) == body


def test_a_large_response_and_a_strange_name(tmp_path):
    with Store(tmp_path/'späte Antworten? #1.sqlite') as store:
        assert len(store.put_many([row('k', 'x'*20_000_000)])['k']['text']) == 20_000_000


def test_the_default_place_and_a_missing_folder(tmp_path, monkeypatch):
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    with Store() as store: store.put_many([row('k')])
    assert (tmp_path/'home'/'store.sqlite').exists()
    with Store(tmp_path/'a'/'b'/'c.sqlite') as store: assert store.stats().is_empty()


# Threads and forks

def test_threads(store):
    def work(number):
        for n in range(25): store.put_many([row(f'shared {n}', str(number)), row(f'own {number} {n}')])
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert store.stats()['responses'].sum() == 25 + 8*25 and store.verify().is_empty()


@posix
def test_connections_do_not_live_through_a_fork(store):
    "The child goes on after the parent has closed, while threads of the parent are busy; nothing of either is lost."
    store.put_many([row('before')])
    busy = [threading.Thread(target=lambda m=m: [store.put_many([row(f'thread {m} {n}')]) for n in range(30)]) for m in range(3)]
    for thread in busy: thread.start()
    context = multiprocessing.get_context('fork')
    children = [context.Process(target=lambda m=m: [store.put_many([row(f'child {m} {n}')]) for n in range(30)]) for m in range(3)]
    for child in children: child.start()
    for thread in busy: thread.join()
    store.put_many([row('after')])
    store.close()
    for child in children: child.join()
    assert [child.exitcode for child in children] == [0]*3
    assert store.stats()['responses'].sum() == 2 + 6*30 and store.verify().is_empty()


def test_a_file_that_was_removed_is_made_anew(store):
    fill(store, 10)
    store.path.unlink()
    assert store.get_many(['key-00003']) == {}
    store.put_many([row('new')])
    store.close()
    shutil.rmtree(store.path.parent)
    store.put_many([row('newer')])
    assert store.get_many(['new', 'newer']).keys() == {'newer'} and store.verify().is_empty()


# Processes

def test_processes_that_write_the_same_and_different_keys_agree(tmp_path):
    "All begin at one moment with a store that does not exist yet."
    script = '''
me, go = sys.argv[2], float(sys.argv[3])
time.sleep(max(0, go - time.time()))
stands = {}
with Store(path) as store:
    for n in range(40):
        stands |= store.put_many([row(f'shared {n}', me), row(f'shared {n + 1}', me), row(f'own {me} {n}', me)])
print(json.dumps(stands))
'''
    path, go = tmp_path/'store.sqlite', time.time() + 3
    processes = [start(script, path, n, go) for n in range(5)]
    seen = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    with Store(path) as store:
        assert store.stats()['responses'].sum() == 41 + 5*40 and store.verify().is_empty()
        for stands in seen: assert store.get_many(stands) == stands


def test_five_who_ask_the_same_at_the_same_time_pay_once(tmp_path):
    script = '''
me, go, paid = sys.argv[2], float(sys.argv[3]), []
keys = [f'q{n}' for n in range(60)]
time.sleep(max(0, go - time.time()))
with Store(path) as store:
    while len(have := store.get_many(keys)) < len(keys):
        mine = store.lease([key for key in keys if key not in have], me)
        for key in sorted(mine)[:7]:
            paid.append(key)
            store.put_many([row(key, me)])
        if mine: store.release(mine, me)
        else: time.sleep(0.01)
print(json.dumps([paid, have]))
'''
    go = time.time() + 3
    processes = [start(script, tmp_path/'store.sqlite', n, go) for n in range(5)]
    results = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert sorted(key for paid, _ in results for key in paid) == sorted(f'q{n}' for n in range(60))
    assert all(have == results[0][1] for _, have in results)


def begin_at_once(path, barrier, me):
    with Store(path, patience=20) as store:
        barrier.wait()
        mine = store.lease(['a', 'b', 'c'], me)
        store.put_many([row(key, me) for key in mine])
        assert not mine or {answer['text'] for answer in store.get_many(mine).values()} == {me}


def forks_at_once(many, *paths):
    "Exit codes of so many who begin at once, for each path. Forks of a small process: to copy what this one has in memory takes longest."
    script = inspect.getsource(begin_at_once) + '''
from multiprocessing import get_context
context, many = get_context('fork'), int(path)
for path in sys.argv[2:]:
    barrier = context.Barrier(many)
    processes = [context.Process(target=begin_at_once, args=(path, barrier, f'{n}')) for n in range(many)]
    for process in processes: process.start()
    for process in processes: process.join()
    print(json.dumps([process.exitcode for process in processes]))
'''
    return [json.loads(line) for line in start(script, many, *paths).communicate(timeout=200)[0].splitlines()]


@posix
def test_many_who_make_a_store_at_the_same_instant(tmp_path):
    paths = [tmp_path/f'{turn}.sqlite' for turn in range(25)]
    assert forks_at_once(8, *paths) == [[0]*8]*25
    for path in paths:
        with Store(path) as store: assert store.stats()['responses'].sum() == 3 and store.verify().is_empty()


@posix
def test_kill_9_in_the_middle_of_writing_loses_nothing_that_was_acknowledged(tmp_path):
    script = '''
me = sys.argv[2]
with Store(path) as store:
    for n in range(100_000):
        keys = [f'{me} {n} {m}' for m in range(random.randint(1, 40))]
        if n % 10 == 9: store.prune(kind='choices')
        store.put_many([row(key, 'x'*random.randint(1, 5000)) for key in keys] + [row(f'{me} {n} c', 'y'*9000)._replace(kind='choices')])
        print(json.dumps(keys))
'''
    acknowledged = []
    for turn in range(6):
        two = [start(script, tmp_path/'store.sqlite', f'{turn}{which}') for which in 'ab']
        for process in two: acknowledged += json.loads(process.stdout.readline())
        time.sleep(random.uniform(0, 0.25))
        for process in two: process.send_signal(signal.SIGKILL)
        for process in two:
            acknowledged += [key for line in process.communicate()[0].splitlines() if line.endswith(']') for key in json.loads(line)]
        with Store(tmp_path/'store.sqlite') as store:
            assert store.verify().is_empty()
            assert store.get_many(acknowledged).keys() == set(acknowledged)
    assert len(acknowledged) > 100


@posix
def test_kill_9_while_a_store_is_being_made(tmp_path):
    for turn in range(8):
        path = tmp_path/f'{turn}.sqlite'
        process = start("print('ready')\nStore(path).put_many([row('k', 'v')])\nprint('done')\ntime.sleep(60)", path)
        process.stdout.readline()
        time.sleep(turn*0.004)
        process.kill()
        done = 'done' in process.communicate()[0]
        with Store(path) as store:
            assert len(store.get_many(['k'])) >= done and store.verify().is_empty()
            store.put_many([row('k2')])


# Leases

@posix
def test_leases_of_a_killed_process_are_taken_over_at_once(store):
    process = start("print(sorted(Store(path).lease(['a', 'b'], 'other')))\ntime.sleep(60)", store.path)
    assert process.stdout.readline() == "['a', 'b']\n"
    assert store.lease(['a', 'b', 'c'], 'me') == {'c'}
    process.kill()
    process.wait()
    assert store.lease(['a', 'b', 'c'], 'me') == {'a', 'b', 'c'} and store.renew('me') == 3 and store.renew('other') == 0


def test_leases_of_another_machine_last_as_long_as_their_lease(tmp_path, monkeypatch):
    with Store(tmp_path/'store.sqlite', lease_seconds=0.6) as there, Store(tmp_path/'store.sqlite') as here:
        monkeypatch.setattr(store_tables, '_host', lambda: 'elsewhere')
        monkeypatch.setattr(store_tables, '_runs', lambda pid: False)
        assert there.lease(['a', 'b'], 'other') == {'a', 'b'}
        monkeypatch.setattr(store_tables, '_host', lambda: 'here')
        assert here.lease(['a'], 'me') == set()
        for _ in range(4):
            time.sleep(0.3)
            assert there.renew('other') == 2 and here.lease(['a'], 'me') == set()
        there.put_many([row('b')])
        time.sleep(0.8)
        assert here.lease(['a', 'b'], 'me') == {'a'} and there.renew('other') == 0


def test_leases_are_given_back(store):
    assert store.lease(['a', 'b', 'c'], 'me') == {'a', 'b', 'c'} == store.lease(['a', 'b', 'c'], 'me')
    store.release(['a'], 'another')
    assert store.lease(['a', 'b', 'c'], 'another') == set()
    store.release(['a'], 'me')
    assert store.lease(['a', 'b', 'c'], 'another') == {'a'}
    store.put_many([row('b')])
    store.release(None, 'me')
    assert store.lease(['a', 'b', 'c'], 'another') == {'a', 'c'}
    assert store.lease(['b'], 'third') == set()


# Damage

def damage(path, offset, length=1):
    content = bytearray(path.read_bytes())
    for n in range(offset, min(offset + length, len(content))): content[n] ^= 0xFF
    path.write_bytes(content)


def answers_rightly_or_not_at_all(path, held, header=False):
    "True when everything was answered. A changed header may say anything: that the file is newer, read-only, another program's."
    with Store(path, patience=1) as store:
        try: found = store.get_many(held)
        except StoreError as error:
            assert header or isinstance(error, DamagedStoreError), error
            return False
        assert all(found[key] == held[key] for key in found), 'answered wrongly'
        return found == held


def test_flipped_bytes_never_give_a_wrong_answer(tmp_path):
    with Store(tmp_path/'sound.sqlite') as store: held = fill(store, 150, 300)
    size, chance, noticed = (tmp_path/'sound.sqlite').stat().st_size, random.Random(7), 0
    offsets = [*range(0, 100, 4), *(chance.randrange(size) for _ in range(120))]
    for offset in offsets:
        path = tmp_path/'damaged.sqlite'
        shutil.copy(tmp_path/'sound.sqlite', path)
        damage(path, offset, chance.choice([1, 1, 8, 700]))
        if not answers_rightly_or_not_at_all(path, held, header=offset < 100):
            noticed += 1
            with Store(path, patience=1) as store:
                try: assert not store.verify().is_empty(), offset
                except StoreError: assert offset < 100
        for beside in tmp_path.glob('damaged.sqlite*'): beside.unlink()
    assert noticed > 60


def test_a_letter_changed_in_the_middle_is_named(store, tmp_path):
    fill(store, 200)
    store.close()
    place = store.path.read_bytes().index(b'77 zzzzz')  # responses stand in the file as they are
    damage(store.path, place + 20)
    faults = store.verify()
    assert faults.rows() == [('responses', 'key-00077', 'the checksum of the response does not fit')]
    with pytest.raises(DamagedStoreError, match='key-00077.*verify'): store.get_many(['key-00001', 'key-00077'])
    with pytest.raises(DamagedStoreError): store.export(tmp_path/'out.jsonl')
    assert not (tmp_path/'out.jsonl').exists() and len(store.get_many(['key-00076'])) == 1
    assert store.verify(repair=True).height == 1 and store.verify().is_empty()
    assert store.put_many([row('key-00077', 'asked again')])['key-00077']['text'] == 'asked again'


@pytest.mark.parametrize('part', [0.03, 0.3, 0.5, 0.77, 0.999])
@pytest.mark.parametrize('whole_pages', [True, False])
def test_a_file_that_was_cut_short(store, part, whole_pages):
    held = fill(store, 300)
    store.close()
    size = int(store.path.stat().st_size*part)
    os.truncate(store.path, size // 4096 * 4096 if whole_pages else size)
    assert not answers_rightly_or_not_at_all(store.path, held)
    faults = store.verify()
    assert not faults.is_empty()
    if whole_pages or part < 0.9:  # SQLite reads the missing rest of a last page as zeros: that damages rows, not the structure
        assert faults['table'][0] == 'file'
        with pytest.raises(DamagedStoreError, match='rescue|copy'): store.verify(repair=True)
        with pytest.raises(DamagedStoreError): store.put_many([row('more')])


def test_a_damaged_header(store):
    fill(store, 10)
    store.close()
    damage(store.path, 0, 16)
    with pytest.raises(DamagedStoreError, match='first bytes'): store.get_many(['key-00001'])
    assert store.verify()['table'].to_list() == ['file']


def test_rescue_saves_what_is_sound(store, tmp_path):
    held = fill(store, 400)
    store.put_vectors('encoder', {f'v{n}': np.full(8, n) for n in range(20)})
    store.close()
    pages = store.path.stat().st_size // 4096
    damage(store.path, 4096*(pages // 2), 4096)
    assert not store.verify().is_empty()
    saved = store.rescue(tmp_path/'rescued.sqlite')
    with Store(tmp_path/'rescued.sqlite') as rescued:
        assert rescued.verify().is_empty()
        found, vectors = rescued.get_many(held), rescued.get_vectors([f'v{n}' for n in range(20)])
        assert 300 < len(found) < 400 and len(found) + len(vectors) == saved and all(found[key] == held[key] for key in found)
    with pytest.raises(UsageError, match='exists already'): store.rescue(tmp_path/'rescued.sqlite')


# Files that are something else

def test_a_newer_store_is_refused_and_left_alone(store):
    fill(store, 3)
    store.close()
    with sqlite3.connect(store.path) as connection: connection.execute(f'PRAGMA user_version = {store_file.format_version() + 1}')
    connection.close()
    before = store.path.read_bytes()
    for call in (lambda: store.get_many(['key-00001']), lambda: store.put_many([row('k')]), store.stats, store.verify):
        with pytest.raises(StoreError, match='newer factlab.*upgrade'): call()
    store.close()
    assert store.path.read_bytes() == before


OLD_FORMAT = """
    CREATE TABLE responses (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, model TEXT NOT NULL, kind TEXT NOT NULL, created TEXT NOT NULL,
        prompt_tokens INTEGER, completion_tokens INTEGER, bytes INTEGER NOT NULL,
        request_sha256 BLOB NOT NULL, sha256 BLOB NOT NULL, response TEXT NOT NULL, request TEXT NOT NULL);
    CREATE TABLE vectors (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, model TEXT NOT NULL, created TEXT NOT NULL,
        dimensions INTEGER NOT NULL, sha256 BLOB NOT NULL, vector BLOB NOT NULL);
    CREATE TABLE owners (owner TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
    CREATE TABLE leases (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX leases_by_owner ON leases (owner);
    PRAGMA application_id = 1718378850"""
PARAGRAPHS = [f'Paragraph {n} of a text that many questions share. ' + 'It goes on. '*30 for n in range(4)]


def old_row(key, text='an answer'):
    "A row as factlab wrote it until version 2."
    request = {'messages': [{'content': '\n\n'.join([*PARAGRAPHS, key]), 'role': 'user'}]}
    response = {'text': text, 'prompt_tokens': 2, 'completion_tokens': 1}
    request, response = (json.dumps(value, sort_keys=True, separators=(',', ':')).encode() for value in (request, response))
    head = (key.encode(), b'tiny', b'generate', b'2025-03-01T10:00:00.250000+00:00', 2, 1, len(request) + len(response),
            hashlib.sha256(request).digest())
    checksum = hashlib.sha256(repr(head).encode() + response).digest()
    return (*(value.decode() if n < 4 else value for n, value in enumerate(head)), checksum, response.decode(), request.decode())


def make_old(path, count=30, version=2):
    "A store as an older factlab wrote it; what it answers."
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute('PRAGMA auto_vacuum = INCREMENTAL')
        connection.execute('PRAGMA journal_mode = WAL')
        for statement in OLD_FORMAT.split(';'): connection.execute(statement)
        connection.execute('BEGIN')
        rows = [old_row(f'key-{n:05}', f'answer {n}') for n in range(count)]
        connection.executemany('INSERT INTO responses (key, model, kind, created, prompt_tokens, completion_tokens, bytes, request_sha256, '
                               'sha256, response, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', rows)
        head, content = (b'v', b'encoder', b'2025-03-01T10:00:00.250000+00:00', 2), np.array([1, .5], '<f4').tobytes()
        connection.execute('INSERT INTO vectors (key, model, created, dimensions, sha256, vector) VALUES (?, ?, ?, ?, ?, ?)',
                           ('v', 'encoder', head[2].decode(), 2, hashlib.sha256(repr(head).encode() + content).digest(), content))
        connection.execute("INSERT INTO owners VALUES ('other', 'elsewhere', 1, ?)", (time.time() + 60,))
        connection.execute("INSERT INTO leases VALUES ('asked now', 'other')")
        connection.execute('COMMIT')
        if version == 1:
            connection.execute('ALTER TABLE leases RENAME TO claims')
            connection.execute('DROP INDEX leases_by_owner')
            connection.execute('CREATE INDEX claims_by_owner ON claims (owner)')
        connection.execute(f'PRAGMA user_version = {version}')
    connection.close()
    return {row[0]: json.loads(row[-2]) for row in rows}


@pytest.mark.parametrize('version', [1, 2])
def test_an_older_store_keeps_its_answers_its_requests_and_its_leases(tmp_path, version):
    path = tmp_path/'store.sqlite'
    held = make_old(path, 300, version)
    before = path.stat().st_size
    with Store(path) as store:
        assert store.get_many(held) == held and store.get_vectors(['v'])['v'].tolist() == [1, .5]
        assert store.lease(['asked now', 'new', 'key-00003'], 'me') == {'new'}
        assert store.verify().is_empty() and store.put_many([row('new')])
        assert store.stats().select('model', 'kind', 'responses', 'prompt_tokens').rows() == [
            ('encoder', 'vector', 1, 0), ('tiny', 'generate', 301, 602)]
        assert store.stats()['first'].min() == datetime(2025, 3, 1, 10, 0, 0, 250_000, tzinfo=UTC)
        store.export(tmp_path/'all.jsonl')
        with store.connections.reading() as connection: assert connection.execute('PRAGMA user_version').fetchone() == (3,)
    lines = [json.loads(line) for line in (tmp_path/'all.jsonl').read_text().splitlines()]
    assert [line['request'] for line in lines[:300]] == [json.loads(old_row(key)[-1]) for key in held]
    assert path.stat().st_size < before/4


def test_what_was_damaged_before_an_upgrade_is_put_aside_and_named(tmp_path):
    path = tmp_path/'store.sqlite'
    held = make_old(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE responses SET response = replace(response, 'answer', 'ANSWER') WHERE id = 5")
        connection.execute("UPDATE responses SET request = '{}' WHERE id = 9")
    connection.close()
    with Store(path) as store, pytest.warns(UserWarning, match='2 rows of the older store were damaged.*verify'):
        assert store.get_many(held).keys() == held.keys() - {'key-00004', 'key-00008'}
    with Store(path) as store:
        assert store.verify()['key'].to_list() == ['key-00004', 'key-00008']
        assert store.verify(repair=True).height == 2 and store.verify().is_empty()


@posix
def test_kill_9_while_an_older_store_is_brought_up_to_date(tmp_path):
    "Killed between any two statements, and once in each step; in the end every answer is there, once."
    path = tmp_path/'store.sqlite'
    held, killed = make_old(path, 900, 1), 0
    script = """
from factlab.models import store as store_module, store_file
store_file.PAUSE = store_file.STEP = 0.001
step, ends, left = store_module._step, sys.argv[2], int(sys.argv[3])
def dies(*values):
    global left
    left -= 1
    if ends == 'before' and not left: os.kill(os.getpid(), 9)
    found = step(*values)
    if ends == 'after' and not left: os.kill(os.getpid(), 9)  # nothing of this step is committed
    return found
store_module._step = dies
print(len(Store(path).get_many([f'key-{n:05}' for n in range(900)])))
"""
    for turn in range(12):
        process = start(script, path, 'before' if turn % 2 else 'after', 1 + turn % 3)
        killed += process.wait() == -signal.SIGKILL
        process.stdout.close()
        with sqlite3.connect(path, isolation_level=None) as connection:  # each answer is in one of the two tables
            tables = {name for name, in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if 'responses_3' in tables:
                count = sum(connection.execute(f'SELECT count(*) FROM {table}').fetchone()[0]
                            for table in ('responses_2', 'responses_3') if table in tables)
                assert count == 900
        connection.close()
    assert killed > 2
    with Store(path) as store: assert store.get_many(held) == held and store.verify().is_empty()


@posix
def test_kill_9_at_any_moment_of_an_upgrade(tmp_path):
    for turn in range(6):
        path = tmp_path/f'{turn}.sqlite'
        held = make_old(path, 400)
        process = start("print('ready')\nStore(path).get_many(['k'])\nprint('done')\ntime.sleep(60)", path)
        process.stdout.readline()
        time.sleep(turn*0.03)
        process.kill()
        process.communicate()
        with Store(path) as store: assert store.get_many(held) == held and store.verify().is_empty()


def test_a_program_of_the_older_factlab_that_is_running_gets_an_error_and_not_an_empty_store(tmp_path):
    path = tmp_path/'store.sqlite'
    held = make_old(path)
    running = sqlite3.connect(path, isolation_level=None)
    assert running.execute('SELECT count(*) FROM responses').fetchone() == (30,)
    with Store(path) as store: assert store.get_many(held) == held
    for statement in ("SELECT response FROM responses WHERE key = 'key-00003'", 'SELECT vector FROM vectors',
                      "INSERT INTO responses (key) VALUES ('x') ON CONFLICT (key) DO NOTHING"):
        with pytest.raises(sqlite3.Error, match='upgraded_by_a_newer_factlab|it is a view|UPSERT|view'): running.execute(statement)
    running.close()


@posix
@pytest.mark.parametrize('version', [1, 2])
def test_many_who_open_an_older_store_at_once(tmp_path, version):
    path = tmp_path/'store.sqlite'
    make_old(path, 500, version)
    assert forks_at_once(6, path) == [[0]*6]
    with Store(path) as store: assert store.stats()['responses'].sum() == 504 and store.verify().is_empty()


@pytest.mark.parametrize('version', [1, 2])
def test_a_damaged_older_store_is_rescued_as_it_is(tmp_path, version):
    path = tmp_path/'store.sqlite'
    held = make_old(path, 20, version)
    before = path.read_bytes()
    assert Store(path).rescue(tmp_path/'rescued.sqlite') == 21 and path.read_bytes() == before
    with Store(tmp_path/'rescued.sqlite') as rescued: assert rescued.get_many(held) == held and rescued.verify().is_empty()


def test_an_upgrade_that_fails_changes_nothing(store, monkeypatch):
    held, version = fill(store, 3), store_file.format_version()
    store.close()
    upgrades = (*store_file._UPGRADES, 'CREATE TABLE later (x); CREATE INDEX i ON later (x)')
    monkeypatch.setattr(store_file, '_UPGRADES', upgrades)
    assert store.get_many(held) == held
    with store.connections.reading() as connection: assert connection.execute('PRAGMA user_version').fetchone() == (version + 1,)
    monkeypatch.setattr(store_file, '_UPGRADES', (*upgrades, 'CREATE TABLE last (x); CREATE TABLE last (x)'))
    store.close()
    with pytest.raises(StoreError): store.get_many(held)
    with sqlite3.connect(store.path) as connection:
        assert connection.execute('PRAGMA user_version').fetchone() == (version + 1,)
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'last'").fetchall()
    connection.close()


def test_other_files_are_refused_and_left_alone(tmp_path):
    (tmp_path/'text.sqlite').write_text('a line of text\n'*500)
    with sqlite3.connect(tmp_path/'other.sqlite') as connection: connection.execute('CREATE TABLE responses (x)')
    connection.close()
    (tmp_path/'folder.sqlite').mkdir()
    for name in ('text', 'other'):
        path = tmp_path/f'{name}.sqlite'
        before = path.read_bytes()
        with pytest.raises(StoreError, match='another program|not an SQLite'): Store(path).put_many([row('k')])
        assert path.read_bytes() == before
    with pytest.raises(StoreError, match='cannot be opened'): Store(tmp_path/'folder.sqlite').stats()
    (tmp_path/'empty.sqlite').touch()
    with Store(tmp_path/'empty.sqlite') as store: assert store.put_many([row('k')])


# A disk that refuses

def held_after(store, held):
    assert store.verify().is_empty() and store.get_many(held) == held


def test_a_full_file(store, monkeypatch):
    held = fill(store, 20)
    store.close()
    connect = store_file._Handle._connect
    def small(handle):
        connection = connect(handle)
        connection.execute('PRAGMA max_page_count = 20')
        return connection
    monkeypatch.setattr(store_file._Handle, '_connect', small)
    with pytest.raises(StoreError, match='full.*safe.*Free space'): store.put_many([row(f'more {n}', 'x'*3000) for n in range(100)])
    held_after(store, held)
    monkeypatch.undo()
    store.close()
    store.put_many([row('more 1')])
    held_after(store, held)


@posix
def test_a_limit_on_the_size_of_files(store):
    held = fill(store, 20)
    store.close()
    process = start('''
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
store = Store(path)
for n in range(1000):
    try: store.put_many([row(f'{n} {m}', 'x'*3000) for m in range(5)])
    except StoreError as error: print(n, error); break
print(len(store.get_many([f'{n} 0'])), len(store.get_many(['key-00001'])))
''', store.path)
    said, left = process.communicate(timeout=60)[0].splitlines()
    assert 'safe' in said and left == '0 1'
    held_after(store, held | {f'{m} 0': row('', 'x'*3000).response for m in range(int(said.split()[0]))})


@pytest.mark.skipif(not hasattr(os, 'geteuid') or os.geteuid() != 0 or sys.platform != 'linux', reason='needs the right to mount')
def test_a_disk_that_is_really_full(tmp_path):
    mount = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', tmp_path], capture_output=True)
    if mount.returncode: pytest.skip('cannot mount here')
    try:
        with Store(tmp_path/'store.sqlite') as store:
            held = {}
            with pytest.raises(StoreError, match='safe.*ree space|safe.*full disk'):
                for n in range(1000):
                    held |= store.put_many([row(f'{n} {m}', 'x'*3000) for m in range(5)])
            held_after(store, held)
            store.close()
            held_after(store, held)
        (tmp_path/'rest').write_bytes(b'')
        with open(tmp_path/'rest', 'wb', buffering=0) as rest:
            try:
                while rest.write(b'x'*1000): pass
            except OSError: pass
        with pytest.raises(StoreError, match='space|disk'): Store(tmp_path/'new'/'store.sqlite').put_many([row('k')])
    finally: subprocess.run(['umount', '-l', tmp_path], check=True)


@posix
def test_a_folder_that_may_not_be_written():
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        with Store(folder/'store.sqlite') as store: fill(store, 3)
        (folder/'store.sqlite').chmod(0o444)
        folder.chmod(0o555)
        process = start('''
if os.getuid() == 0: os.setuid(65534)
for name in ('store', 'new'):
    try: Store(path + f'/{name}.sqlite').put_many([row('k', 'v')])
    except StoreError as error: print(error)
''', folder)
        said = process.communicate(timeout=60)[0].splitlines()
        assert len(said) == 2 and all('FACTLAB_HOME' in line for line in said)
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_store_that_others_hold(store):
    held = fill(store, 3)
    impatient = Store(store.path, patience=0.2)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute('BEGIN IMMEDIATE')
    assert impatient.get_many(held) == held  # reading goes on
    with pytest.raises(StoreError, match='another program holds it.*safe.*Wait'): impatient.put_many([row('k')])
    other.execute('ROLLBACK')
    other.close()
    process = start("with Store(path).connections.writing():\n    print('holding')\n    time.sleep(60)", store.path)
    process.stdout.readline()
    with pytest.raises(StoreError, match='0.2 s.*Wait'): impatient.put_many([row('k')])
    process.kill()
    process.wait()
    assert impatient.put_many([row('k')])  # the lock of a dead process is free
    impatient.close()


# Vectors, statistics, export, prune

def test_vectors(store):
    numbers = np.random.default_rng(0).normal(size=(300, 384)).astype(np.float32)
    store.put_vectors('encoder', {f't{n}': vector for n, vector in enumerate(numbers)})
    store.put_vectors('encoder', {'t0': np.zeros(384)})
    found = store.get_vectors([f't{n}' for n in range(301)])
    assert len(found) == 300 and np.array_equal(np.stack(list(found.values())), numbers)
    found['t0'][0] = 1  # a copy that may be changed
    for wrong in (np.zeros((2, 2)), [], [np.nan], 3.0):
        with pytest.raises(UsageError): store.put_vectors('encoder', {'bad': wrong})
    with store.connections.writing() as connection: connection.execute("UPDATE vectors_3 SET vector = zeroblob(1536) WHERE id = 6")
    with pytest.raises(DamagedStoreError, match='t5'): store.get_vectors(['t5'])
    assert store.verify().rows() == [('vectors', 't5', 'the checksum of the vector does not fit')]


def test_statistics(store):
    store.put_many([row('a'), row('b'), row('c', kind='choices'), row('d', model='other')])
    store.put_vectors('encoder', {'v': [1.0, 2.0]})
    stats = STATS.check(store.stats())
    assert stats.select('model', 'kind', 'responses', 'prompt_tokens').rows() == [
        ('encoder', 'vector', 1, 0), ('other', 'generate', 1, 2), ('tiny', 'choices', 1, 2), ('tiny', 'generate', 2, 4)]
    assert (stats['first'] <= stats['last']).all() and (stats['bytes'] > 0).all()


def test_statistics_of_damaged_rows_say_so(store):
    store.put_many([row('a')])
    with store.connections.writing() as connection: connection.execute("UPDATE groups SET first = 'soon'")
    with pytest.raises(DamagedStoreError, match='verify'): store.stats()


def test_export(store, tmp_path):
    hard = 'half \ud83d ünd {"x"}\u2028'
    rows = [Row(f'k{n}', 'a' if n % 3 else 'b', 'generate', {'q': f'"{n}"\n'}, {'text': f'{n}' if n != 1 else hard}) for n in range(2500)]
    store.put_many(rows)
    assert store.export(tmp_path/'all.jsonl') == 2500 == store.export(tmp_path/'all.parquet')
    lines = [json.loads(line) for line in (tmp_path/'all.jsonl').read_text(encoding='utf-8').split('\n')[:-1]]
    frame = EXPORT.check(pl.read_parquet(tmp_path/'all.parquet'))
    for one, line, (request, response) in zip(rows, lines, frame.select('request', 'response').iter_rows(), strict=True):
        assert (line['key'], line['request'], line['response']) == (one.key, one.request, one.response)
        assert (json.loads(request), json.loads(response)) == (one.request, one.response)
    assert store.export(tmp_path/'b.parquet', model='b') == 834 and set(pl.read_parquet(tmp_path/'b.parquet')['model']) == {'b'}
    assert store.export(tmp_path/'none.jsonl', model='none') == 0 == store.export(tmp_path/'none.parquet', model='none')
    with pytest.raises(UsageError, match='jsonl or .parquet'): store.export(tmp_path/'all.csv')
    assert {path.suffix for path in tmp_path.iterdir()} <= {'.jsonl', '.parquet', '.sqlite', '.lock', '.sqlite-wal', '.sqlite-shm'}


def test_prune(store):
    kinds = ('generate', 'choices')
    store.put_many([row(f'{model} {kind} {n}', 'x'*2000, model, kind) for model in 'ab' for kind in kinds for n in range(200)])
    store.put_vectors('a', {'v': [1.0]})
    store.close()
    size = store.path.stat().st_size
    assert store.prune(model='a', dry_run=True) == 401 and store.stats()['responses'].sum() == 801
    assert store.prune(before='2020-01-01') == 0 and store.prune(model='a', kind='vector') == 1
    assert store.prune(model='a', kind='generate') == 200 and store.prune(kind='choices') == 400
    store.close()
    assert store.path.stat().st_size < size/3 and store.verify().is_empty()
    tomorrow = date.today() + timedelta(days=2)
    assert store.prune(before=tomorrow, dry_run=True) == 200 == store.prune(before=tomorrow.isoformat(), model='b', dry_run=True)
    assert store.prune(before=datetime.now() + timedelta(days=2)) == 200 and store.stats().is_empty()
    for wrong in ({}, {'before': 'soon'}, {'before': 2024}):
        with pytest.raises(UsageError): store.prune(**wrong)


@pytest.mark.parametrize('part', ['prompt', 'all'])
def test_pieces_that_nothing_refers_to_are_removed_and_no_others(store, part):
    document = '\n\n'.join(f'Paragraph {n}. ' + 'word '*60 for n in range(9))
    store.put_many([about(n, document)._replace(model='a') for n in range(20)])
    store.put_many([about(n, document + ' And more. '*40)._replace(model='b', key=f'b{n}') for n in range(20)])
    def pieces():
        with store.connections.reading() as connection: return connection.execute('SELECT count(*) FROM texts_3').fetchone()[0]
    before = pieces()
    assert store.prune(model='b') == 20 and 0 < pieces() < before and store.verify().is_empty()
    if part == 'all': assert store.prune(model='a') == 20 and pieces() == 0
    assert store.put_many([about(3, document)._replace(key='again')]) and store.verify().is_empty()


def test_a_piece_that_comes_into_use_while_unused_ones_are_looked_for_stays(store, monkeypatch):
    document = 'The same words in each. '*40
    store.put_many([about(1, document), row('other')])
    assert store.prune(model='tiny', before='2020-01-01') == 0
    with store.connections.writing() as connection: connection.execute('DELETE FROM responses_3 WHERE id = 1')  # its pieces are unused
    class Late(store_module.Pace):
        def __enter__(self):
            store.put_many([about(2, document)])
            return super().__enter__()
    monkeypatch.setattr(store_module, 'Pace', Late)
    store_module.remove_unused_texts(store.connections)
    faults = store.verify()
    assert faults.is_empty(), faults


def test_a_lost_piece_costs_requests_and_no_answers(store, tmp_path):
    document = 'The same words in each. '*40
    rows = [about(n, document) for n in range(10)]
    held = store.put_many(rows)
    with store.connections.writing() as connection: connection.execute('DELETE FROM texts_3 WHERE id = 1')
    assert {fault for _, _, fault in store.verify().rows()} == {'the checksum of the request does not fit'}
    assert store.get_many(held) == held
    with pytest.raises(DamagedStoreError): store.export(tmp_path/'all.jsonl')
    assert store.rescue(tmp_path/'rescued.sqlite') == 10
    store.verify(repair=True)
    assert store.verify().is_empty() and store.get_many(held) == held and store.export(tmp_path/'all.jsonl') == 10
    assert {json.loads(line)['request'] for line in (tmp_path/'all.jsonl').read_text().splitlines()} == {None}


@posix
def test_pruning_goes_in_steps_that_others_see(store, monkeypatch):
    store.put_many([row(f'{n}', 'x', 'old') for n in range(4000)])
    there, sleep = [4000], time.sleep
    def look(seconds):
        with sqlite3.connect(store.path) as connection: there.append(connection.execute('SELECT count(*) FROM responses_3').fetchone()[0])
        sleep(seconds)
    monkeypatch.setattr(store_file.time, 'sleep', look)
    assert store.prune(model='old') == 4000
    assert there[1] == 3500 and len(set(there)) >= 4 and there[-1] == 0, there


def test_pruning_keeps_nobody_waiting(tmp_path):
    "Another process writes all the time; none of its writes may wait for a second."
    path = tmp_path/'store.sqlite'
    with Store(path) as store:
        store.put_many([row(f'old {n}', f'{n}')._replace(model='old') for n in range(30_000)])
        process = start("""
slowest, n = 0, 0
store = Store(path)
store.get_many(['x'])
print('ready')
end = time.time() + float(sys.argv[2])
while time.time() < end:
    begin, n = time.monotonic(), n + 1
    store.put_many([row(f'new {n}', 'x')])
    slowest = max(slowest, time.monotonic() - begin)
print(json.dumps([n, slowest]))
""", path, 4)
        process.stdout.readline()
        assert store.prune(model='old') == 30_000
        n, slowest = json.loads(process.communicate()[0])
        assert n > 5 and slowest < 1, (n, slowest)
        assert store.stats()['responses'].to_list() == [n] and store.verify().is_empty()
