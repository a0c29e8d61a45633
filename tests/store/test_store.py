"The store under threads, processes, forks, kill -9, damage, and disks that refuse."
import inspect
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factlab.core.core import StoreError, UsageError
from factlab.store import answers as answers_module
from factlab.store.answers import EXPORT, FAULTS, STATS, Row, Store
from factlab.store.cached import from_store, leased, open_store, vectors_from_store
from factlab.store.file import DamagedStoreError, writing

posix = pytest.mark.skipif(os.name == 'nt', reason='signals and forks of POSIX')
PRELUDE = '''
import json, os, sys, time, random
from factlab.core.core import StoreError
from factlab.store.answers import Row, Store
from factlab.store.file import writing
def noise(size): return random.Random(0).randbytes(size//2).hex()
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


def noise(size, seed=0):
    "A text that cannot be compressed much."
    return random.Random(seed).randbytes(size//2).hex()


def fill(store, count=400, size=600):
    "Rows of some length, and what they hold."
    rows = [row(f'key-{n:05}', f'{n} ' + noise(size, n)) for n in range(count)]
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


def test_what_is_put_is_given_back_as_it_would_be_read(store):
    first, again = row('a', 'one'), row('a', 'two')
    store.put_many([row('b', 'stored before')])
    odd = row('c', 'x')._replace(response={'text': ('a', 'tuple'), 'of': {1: True}})  # JSON makes other things of these
    assert store.put_many([again._replace(response={'text': 'first'}), first, row('b', 'late'), odd]) \
        == {'a': {'text': 'first'}, **store.get_many(['b', 'c'])}
    assert store.get_many(['a', 'b', 'c'])['b']['text'] == 'stored before'


def test_a_large_response_and_a_strange_name(tmp_path):
    with Store(tmp_path/'späte Antworten? #1.sqlite') as store:
        assert len(store.put_many([row('k', 'x'*20_000_000)])['k']['text']) == 20_000_000


def test_the_default_place_and_a_missing_folder(home, tmp_path):
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
    paths = [tmp_path/f'{turn}.sqlite' for turn in range(8)]
    assert forks_at_once(8, *paths) == [[0]*8]*8
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
        choice = row(f'{me} {n} c', noise(9000))._replace(kind='choices')
        store.put_many([*(row(key, noise(random.randint(2, 5000))) for key in keys), choice])
        print(json.dumps(keys))
'''
    acknowledged = []
    for turn in range(4):
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
    for turn in range(5):
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
        monkeypatch.setattr(answers_module, '_host', lambda: 'elsewhere')
        monkeypatch.setattr(answers_module, '_runs', lambda pid: False)
        assert there.lease(['a', 'b'], 'other') == {'a', 'b'}
        monkeypatch.setattr(answers_module, '_host', lambda: 'here')
        assert here.lease(['a'], 'me') == set()
        for _ in range(4):
            time.sleep(0.3)
            assert there.renew('other') == 2 and here.lease(['a'], 'me') == set()
        there.put_many([row('b')])
        time.sleep(0.8)
        assert here.lease(['a', 'b'], 'me') == {'a'} and there.renew('other') == 0


def test_a_lease_of_a_clock_that_was_set_back_since_is_void(store, monkeypatch):
    "Its process has ended, and another has its number: this one."
    tomorrow = time.time() + 86_400
    with monkeypatch.context() as patch:
        patch.setattr(answers_module.time, 'time', lambda: tomorrow)
        assert store.lease(['a'], 'yesterday') == {'a'} and store.lease(['a'], 'me') == set()
    assert store.lease(['a'], 'me') == {'a'} and store.lease(['a'], 'another') == set()


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
    fill(store, 76)
    wanted = row('key-00077', 'seventy-seven')
    store.put_many([wanted])
    store.close()
    damage(store.path, store.path.read_bytes().index(answers_module._entry(wanted, 0).answer) + 30)
    faults = store.verify()
    assert faults.rows() == [('answers', 'key-00077', 'the checksum does not fit')]
    with pytest.raises(DamagedStoreError, match='key-00077.*verify'): store.get_many(['key-00001', 'key-00077'])
    with pytest.raises(DamagedStoreError): store.export(tmp_path/'out.jsonl')
    assert not (tmp_path/'out.jsonl').exists() and len(store.get_many(['key-00075'])) == 1
    assert store.verify(repair=True).height == 1 and store.verify().is_empty()
    assert store.put_many([row('key-00077', 'asked again')])['key-00077']['text'] == 'asked again'


@pytest.mark.parametrize('part', [0.03, 0.5, 0.999])
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
        with pytest.raises(DamagedStoreError, match='recover'): store.verify(repair=True)
        with pytest.raises(DamagedStoreError): store.put_many([row('more')])


def test_a_damaged_header(store):
    fill(store, 10)
    store.close()
    damage(store.path, 0, 16)
    with pytest.raises(DamagedStoreError, match='first bytes'): store.get_many(['key-00001'])
    assert store.verify()['table'].to_list() == ['file']


# Files that are something else


def test_a_store_of_another_format_is_refused_and_left_alone(store):
    fill(store, 3)
    store.close()
    with sqlite3.connect(store.path) as connection: connection.execute('PRAGMA user_version = 3')
    connection.close()
    before = store.path.read_bytes()
    for call in (lambda: store.get_many(['key-00001']), lambda: store.put_many([row('k')]), store.stats, store.verify):
        with pytest.raises(StoreError, match='format 3.*reads format 4.*move the file away'): call()
    store.close()
    assert store.path.read_bytes() == before


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
    with pytest.raises(StoreError, match='is no file'): Store(tmp_path/'folder.sqlite').stats()
    (tmp_path/'empty.sqlite').touch()
    with Store(tmp_path/'empty.sqlite') as store: assert store.put_many([row('k')])


# A disk that refuses


def held_after(store, held):
    assert store.verify().is_empty() and store.get_many(held) == held


@posix
def test_a_limit_on_the_size_of_files(store):
    held = fill(store, 20)
    store.close()
    process = start('''
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
store = Store(path)
for n in range(1000):
    try: store.put_many([row(f'{n} {m}', noise(3000)) for m in range(5)])
    except StoreError as error: print(n, error); break
print(len(store.get_many([f'{n} 0'])), len(store.get_many(['key-00001'])))
''', store.path)
    said, left = process.communicate(timeout=60)[0].splitlines()
    assert 'safe' in said and left == '0 1'
    held_after(store, held | {f'{m} 0': row('', noise(3000)).response for m in range(int(said.split()[0]))})


@pytest.mark.skipif(not hasattr(os, 'geteuid') or os.geteuid() != 0 or sys.platform != 'linux', reason='needs the right to mount')
def test_a_disk_that_is_really_full(tmp_path):
    mount = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', tmp_path], capture_output=True)
    if mount.returncode: pytest.skip('cannot mount here')
    try:
        with Store(tmp_path/'store.sqlite') as store:
            held = {}
            with pytest.raises(StoreError, match='safe.*ree space|safe.*full disk'):
                for n in range(1000):
                    held |= store.put_many([row(f'{n} {m}', noise(3000)) for m in range(5)])
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
    process = start("with writing(Store(path).file):\n    print('holding')\n    time.sleep(60)", store.path)
    process.stdout.readline()
    with pytest.raises(StoreError, match='0.2 s.*Wait'): impatient.put_many([row('k')])
    process.kill()
    process.wait()
    assert impatient.put_many([row('k')])  # the lock of a dead process is free
    impatient.close()


def test_a_network_drive(tmp_path, monkeypatch):
    "Write-ahead logging needs memory that processes share; a file system without it is refused before anything is stored."
    connect = sqlite3.connect
    def without_shared_memory(path, **options):
        name = path if str(path).startswith('file:') else Path(path).as_uri() + '?mode=rwc'
        return connect(f'{name}&vfs=unix-dotfile', **options | {'uri': True})
    monkeypatch.setattr(sqlite3, 'connect', without_shared_memory)
    with pytest.raises(StoreError, match='without shared memory.*FACTLAB_HOME'): Store(tmp_path/'store.sqlite').put_many([row('k')])
    assert not (tmp_path/'store.sqlite').exists()


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
    with writing(store.file) as connection: connection.execute("UPDATE answers SET answer = zeroblob(1536) WHERE key = 't5'")
    with pytest.raises(DamagedStoreError, match='t5'): store.get_vectors(['t5'])
    assert store.verify().rows() == [('answers', 't5', 'the checksum does not fit')]


def test_statistics(store):
    store.put_many([row('a'), row('b'), row('c', kind='choices'), row('d', model='other')])
    store.put_vectors('encoder', {'v': [1.0, 2.0]})
    stats = STATS.check(store.stats())
    assert stats.select('model', 'kind', 'responses', 'prompt_tokens').rows() == [
        ('encoder', 'vector', 1, 0), ('other', 'generate', 1, 2), ('tiny', 'choices', 1, 2), ('tiny', 'generate', 2, 4)]
    assert (stats['first'] <= stats['last']).all() and (stats['bytes'] > 0).all()


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
    store.put_many([row(f'{model} {kind} {n}', noise(2000), model, kind) for model in 'ab' for kind in kinds for n in range(200)])
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


# Look up, compute the rest

def test_only_what_is_not_stored_is_computed(store):
    asked = []
    def answer(rest, place):
        asked.append(list(rest))
        found = {key: text.upper() for key, text in rest.items()}
        if place: place.put_many([row(key, text) for key, text in found.items()])
        return found
    def read(place, keys): return {key: answer['text'] for key, answer in place.get_many(keys).items()}
    wanted = {'k1': 'one', 'k2': 'two'}
    for once in (False, True): assert from_store(wanted, store, read, answer, once) == {'k1': 'ONE', 'k2': 'TWO'}
    assert from_store(wanted | {'k3': 'three'}, store, read, answer, once=True)['k3'] == 'THREE'
    assert from_store(wanted, False, read, answer, once=True) == {'k1': 'ONE', 'k2': 'TWO'}
    assert asked == [['k1', 'k2'], ['k3'], ['k1', 'k2']] and from_store({}, store, read, answer) == {}


def test_what_another_is_asking_is_waited_for(store):
    def never(rest, place): raise AssertionError(rest)
    with leased(store, ['k']) as mine:
        assert mine == {'k'}
        threading.Timer(.3, lambda: store.put_many([row('k', 'by another')])).start()
        assert from_store({'k': None}, store, Store.get_many, never, once=True)['k']['text'] == 'by another'
    def ours(rest, place): return {key: 'ours' for key in rest}
    with leased(store, ['l']): threading.Timer(.2, store.release, (None, 'nobody')).start()
    assert from_store({'l': None}, store, Store.get_many, ours, once=True) == {'l': 'ours'}  # given back without an answer


def test_a_lease_lasts_as_long_as_its_block_and_is_given_back_after_an_error(tmp_path):
    with Store(tmp_path/'store.sqlite', lease_seconds=.6) as store:
        with pytest.raises(KeyboardInterrupt), leased(store, ['k']):
            time.sleep(1.2)
            assert store.lease(['k'], 'another') == set()
            raise KeyboardInterrupt
        assert store.lease(['k'], 'another') == {'k'}


def test_vectors_are_computed_in_shares_that_are_kept(store, tmp_path, monkeypatch):
    seen = []
    def lengths(texts):
        if len(seen) == 2: raise KeyboardInterrupt
        seen.append(texts)
        return [[len(text), 1] for text in texts]
    wanted = {f'k{n}': 'x'*n for n in range(1, 6)}
    with pytest.raises(KeyboardInterrupt): vectors_from_store(wanted, lengths, 'lengths', store, share=2)
    seen[:] = [None]
    assert [vector.tolist() for vector in vectors_from_store(wanted, lengths, 'lengths', store).values()] == [[n, 1] for n in range(1, 6)]
    assert seen[1:] == [['xxxxx']] and store.stats()['responses'].to_list() == [5]
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    with open_store() as own: assert own.path == tmp_path/'home'/'store.sqlite'
    with open_store(False) as none, open_store(store) as same: assert none is False and same is store
