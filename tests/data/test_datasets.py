"""Data sets: files and downloads that go wrong, rows of one's own, the published sets, the shipped sample."""
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest
from conftest import real_data

from factlab.core import registry as names
from factlab.core.core import DataError, UsageError, digest
from factlab.data import datasets as data
from factlab.data import files, summaries
from factlab.data import registry as registry_module

BODY = b''.join(json.dumps(dict(text=f'Text {i}.', summary=f'Summary {i}.')).encode() + b'\n' for i in range(400))


# ---------------------------------------------------------------- a server that misbehaves

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        {'hang': self.hang, 'drop': self.drop, 'trickle': self.trickle}.get(self.server.mood, self.answer)()

    def answer(self):
        mood = self.server.mood
        status = {'error': 500, 'busy': 503, 'absent': 404}.get(mood, 200)
        body = {'wrong': BODY.replace(b'Text 1.', b'Text X.'), 'html': b'\n<!DOCTYPE html><html><body>Log in</body></html>',
                'empty': b'', 'long': BODY*5}.get(mood, BODY)
        if mood == 'half absent' and self.path.endswith('b.jsonl'): status = 404
        self.send_response(status)
        if mood not in ('unannounced', 'unannounced cut'): self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body)//2] if mood in ('cut', 'unannounced cut') else body)

    def hang(self):
        self.send_response(200)
        self.send_header('Content-Length', str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY[:1000])
        self.wfile.flush()
        self.server.released.wait(20)

    def trickle(self):
        self.send_response(200)
        self.end_headers()
        try:
            while not self.server.released.wait(0.02): self.wfile.write(b'x')
        except OSError: pass

    def drop(self): self.connection.close()
    def log_message(self, *arguments): pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    server.mood, server.asked, server.released = 'well', [], threading.Event()
    server.url = f'http://127.0.0.1:{server.server_address[1]}'
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def toy(home, server, monkeypatch):
    "A data set of two files with the same bytes; nothing of it at hand."
    monkeypatch.delenv('FACTLAB_DATA', raising=False)
    files = tuple(registry_module.File(name, len(BODY), digest(BODY), f'{server.url}/{name}') for name in ('a.jsonl', 'deep/er/b.jsonl'))
    entry = registry_module.Entry('toy', 'testing', '400 rows', 'Toy Licence 1.0', 'none', 'here', '1', files)
    monkeypatch.setitem(registry_module.REGISTRY, 'toy', entry)
    return entry


def leftovers(folder):
    return [path for path in Path(folder).rglob('*') if path.is_file()]


# ---------------------------------------------------------------- downloads

def test_a_download_is_verified_and_found_again(toy, server, capsys, tmp_path):
    assert files.path('toy') is None
    folder = files.get('toy')
    assert folder == files.path('toy') == tmp_path/'home'/'cache'/'data'/'toy'
    assert files.get('toy', 'deep/er/b.jsonl').read_bytes() == BODY and len(leftovers(tmp_path/'home')) == 2
    assert server.asked == ['/a.jsonl', '/deep/er/b.jsonl']
    assert capsys.readouterr().err.count('Toy Licence 1.0') == 1
    server.mood = 'error'
    assert files.get('toy') == folder and len(server.asked) == 2
    assert files.registry().filter(name='toy')['where'].item() == 'in the cache'


@pytest.mark.parametrize('mood, words', [
    ('wrong', 'does not hold the file that is meant'), ('cut', 'was cut short'), ('unannounced cut', 'does not hold'),
    ('error', 'HTTP 500'), ('busy', 'HTTP 503'), ('absent', 'HTTP 404'), ('html', 'web page'),
    ('empty', 'found 0 bytes'), ('long', 'does not hold'),
    ('hang', 'broke off'), ('drop', 'cannot reach')])
def test_what_a_server_does_wrong_is_said_and_leaves_nothing(toy, server, tmp_path, mood, words):
    server.mood = mood
    start = time.monotonic()
    with pytest.raises(DataError, match=words) as caught: files.get('toy', 'a.jsonl', timeout=0.3)
    assert 'FACTLAB_DATA' in str(caught.value) and time.monotonic() - start < 5
    assert not leftovers(tmp_path/'home') and files.path('toy') is None
    server.mood = 'well'
    assert files.get('toy', 'a.jsonl').read_bytes() == BODY


def test_a_body_without_a_length_is_taken_when_its_checksum_is_right(toy, server):
    server.mood = 'unannounced'
    assert files.get('toy', 'a.jsonl').read_bytes() == BODY


def test_a_server_that_trickles_is_given_up(toy, server, tmp_path):
    server.mood = 'trickle'
    with pytest.raises(DataError, match='too slowly'): files.get('toy', 'a.jsonl', timeout=0.5)
    assert not leftovers(tmp_path/'home')


def test_one_missing_file_does_not_stop_the_others(toy, server):
    server.mood = 'half absent'
    with pytest.raises(DataError, match='1 of 2 files could not be had'): files.get('toy')
    assert files.path('toy', 'a.jsonl') and files.path('toy', 'deep/er/b.jsonl') is None


def test_no_network_is_said_once(toy, server):
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match='nothing listens') as caught: files.get('toy')
    assert 'a.jsonl' in str(caught.value) and 'b.jsonl' not in str(caught.value)


def test_a_mirror_replaces_every_address(toy, server, monkeypatch):
    monkeypatch.setenv('FACTLAB_DATA_MIRROR', server.url + '/mirror/')
    files.get('toy')
    assert server.asked == ['/mirror/toy/a.jsonl', '/mirror/toy/deep/er/b.jsonl']
    monkeypatch.setenv('FACTLAB_DATA_MIRROR', 'file:///etc')
    with pytest.raises(UsageError, match='http'): files.get('xsumfaith')


def test_a_full_disk(toy, tmp_path):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(BODY)//2, limit[1]))
    try:
        with pytest.raises(DataError, match='cannot write .* free space'): files.get('toy', 'a.jsonl')
    finally: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not leftovers(tmp_path/'home')


def test_a_cache_that_cannot_be_written(toy, tmp_path):
    (tmp_path/'home'/'cache').mkdir(parents=True)
    (tmp_path/'home'/'cache'/'data').write_text('a file where a folder should be')
    with pytest.raises(DataError, match='cannot write'): files.get('toy', 'a.jsonl')


@pytest.mark.parametrize('sent', [signal.SIGINT, signal.SIGKILL])
def test_a_download_that_is_killed(toy, server, tmp_path, sent):
    server.mood = 'hang'
    code = ('from factlab.data.registry import Entry, File, register; from factlab.data.files import get; '
            f'register({toy!r}); get("toy", "a.jsonl")')
    process = subprocess.Popen([sys.executable, '-c', code], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not server.asked and time.monotonic() < deadline: time.sleep(0.02)
    time.sleep(0.1)
    process.send_signal(sent)
    assert process.wait(60) != 0 and files.path('toy') is None
    if sent == signal.SIGINT: assert not leftovers(tmp_path/'home')
    server.mood = 'well'
    assert files.get('toy', 'a.jsonl').read_bytes() == BODY


def test_two_downloads_at_once(toy, server, tmp_path):
    threads = [threading.Thread(target=files.get, args=('toy',)) for _ in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert files.get('toy', 'a.jsonl').read_bytes() == BODY and len(leftovers(tmp_path/'home')) == 2


# ---------------------------------------------------------------- local files

def test_the_local_folder_comes_first_and_is_verified(toy, server, tmp_path, monkeypatch):
    (tmp_path/'local'/'toy').mkdir(parents=True)
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path/'local'))
    place = tmp_path/'local'/'toy'/'a.jsonl'
    place.write_bytes(BODY)
    assert files.get('toy', 'a.jsonl') == place and not server.asked
    assert files.get('toy') == tmp_path/'local'/'toy' and server.asked == ['/deep/er/b.jsonl']
    assert files.registry().filter(name='toy')['where'].item() == 'in FACTLAB_DATA'
    place.write_bytes(BODY.replace(b'Text 1.', b'Text X.'))  # same size
    os.utime(place, ns=(1, 1))
    for call in (files.get, files.path):
        with pytest.raises(DataError, match='is not the file') as caught: call('toy', 'a.jsonl')
        assert digest(BODY) in str(caught.value) and digest(place.read_bytes()) in str(caught.value)
    place.write_bytes(BODY[:-1])
    assert 'differ' in files.registry().filter(name='toy')['where'].item()


def test_a_checksum_is_computed_once(tmp_path, monkeypatch):
    place = tmp_path/'file'
    place.write_bytes(b'one')
    first = files.checksum(place)
    monkeypatch.setattr(files.hashlib, 'file_digest', lambda *_: pytest.fail('read again'))
    assert files.checksum(place) == first == digest(b'one')


def test_a_data_folder_that_does_not_exist(monkeypatch, tmp_path):
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path/'nowhere'))
    with pytest.raises(UsageError, match='not a folder'): files.path('final')


def test_a_relative_data_folder(monkeypatch, tmp_path):
    (tmp_path/'here').mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('FACTLAB_DATA', 'here')
    assert files.data_dir() == tmp_path/'here'


def test_unknown_names(toy):
    with pytest.raises(UsageError, match="did you mean 'final'"): files.get('finall')
    with pytest.raises(UsageError, match="did you mean 'a.jsonl'"): files.get('toy', 'a.json')
    with pytest.raises(UsageError, match="did you mean 'sample'"): data.load('smaple')
    for call in (files.path, data.load, files.describe):
        with pytest.raises(UsageError, match="data set '': Known: "): call('')
    with pytest.raises(DataError, match='is not at hand .* Run `factlab data get toy`'):
        files.get('toy', 'a.jsonl', download=False)


def test_every_entry_is_pinned():
    for entry in registry_module.entries().values():
        assert entry.licence and entry.citation and entry.purpose and entry.revision and entry.rows
        assert not (entry.files and entry.hub)
        for hub in entry.hub: assert hub.repository.count('/') == 1 and (len(hub.revision) == 40 or hub.revision == 'main')
        assert len({file.path for file in entry.files}) == len(entry.files)
        for file in entry.files:
            assert len(file.sha256) == 64 and file.size > 0 and (file.url or file.note)
            assert file.url is None or file.url.startswith(('https://raw.githubusercontent.com/', 'https://huggingface.co/datasets/'))
            assert file.url is None or len(file.url.split('/')[5]) == 40 or 'could not be tried' in file.note
    assert set(files.registry().columns) == set(files.REGISTRY_FRAME.columns) and files.registry()['name'].is_unique().all()
    assert all(name in files.listing() for name in registry_module.entries()) and 'no official download' in files.describe('xsumfaith')


# ---------------------------------------------------------------- rows of one's own

GOOD = [dict(text='One.', summary='Uno.', gold=['A', 'B']), dict(text='Two {x} %s.', summary='Dos\u2028.', gold=[]),
        dict(text='3', summary='Tres.', gold=None)]


def write(path, rows):
    path.write_text(''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows), encoding='utf-8')
    return path


def test_every_kind_of_file_gives_the_same_frame(tmp_path):
    expected = data.load(write(tmp_path/'own.jsonl', GOOD))
    assert expected['id'].to_list() == ['own-0001', 'own-0002', 'own-0003'] and expected['split'].to_list() == ['test']*3
    assert expected['gold'].to_list() == [['A', 'B'], [], None] and expected.schema == pl.Schema(data.LOCALIZATION_DATA.columns)
    (tmp_path/'own.json').write_text(json.dumps(GOOD))
    pl.DataFrame(GOOD, schema_overrides={'gold': pl.List(pl.String)}).write_parquet(tmp_path/'own.parquet')
    cells = pl.DataFrame([row | dict(gold=None if row['gold'] is None else json.dumps(row['gold'])) for row in GOOD])
    cells.write_csv(tmp_path/'own.csv')
    for suffix in ('json', 'parquet', 'csv'): assert data.load(tmp_path/f'own.{suffix}').equals(expected), suffix
    assert data.load(str(tmp_path/'own.csv')).equals(expected)


def test_a_file_with_a_byte_order_mark_and_windows_lines(tmp_path):
    place = tmp_path/'own.jsonl'
    place.write_bytes(b'\xef\xbb\xbf' + b'\r\n\r\n'.join(json.dumps(row).encode() for row in GOOD) + b'\r\n')
    assert data.load(place).height == 3


def test_unlabelled_rows_ids_and_splits(tmp_path):
    rows = [dict(id=7, split='dev', text='a', summary='b'), dict(id='x', text='c', summary='d', split='test')]
    frame = data.load(write(tmp_path/'own.jsonl', rows))
    assert frame['id'].to_list() == ['7', 'x'] and frame['gold'].null_count() == 2 and frame['split'].to_list() == ['dev', 'test']
    assert data.load(tmp_path/'own.jsonl', split='dev')['id'].to_list() == ['7']
    as_published = dict(text='a', summary='b', human_descriptions=['c'], DeFacto_label='consistent', doc_id=3)
    named = data.load(write(tmp_path/'named.jsonl', [as_published]))
    assert named.row(0)[4:] == (['c'], 'consistent', 3)


A, B = '{"text": "a", "summary": "b"}\n', '{"text": "c", "summary": "d"'

@pytest.mark.parametrize('name, content, words', [
    ('own.jsonl', '', 'is empty'),
    ('own.jsonl', ' \n\n', 'is empty'),
    ('own.jsonl', A + '\n' + B, 'line 3 is not whole JSON'),
    ('own.jsonl', A + '["text"]', 'line 2: list instead of a JSON object'),
    ('own.jsonl', A + '[' * 100_000, 'line 2 is'),
    ('own.jsonl', A.encode() + b'{"text": "\xff"}', 'line 2 is not UTF-8'),
    ('own.jsonl', A.encode('utf-16-le'), 'zero bytes'),
    ('own.jsonl', A + '{"text": "a", "text": "b", "summary": "c"}', "line 2 cannot be read as JSON .the key 'text' comes twice"),
    ('own.csv', 'text,summary,text\na,b,c\n', "has the column 'text' twice"),
    ('own.jsonl', '{"txt": "a", "summary": "b"}', r"no column 'text'; found \['txt', 'summary'\]"),
    ('own.jsonl', '{"txt": "a"}', "no column 'text' and no column 'summary'"),
    ('own.jsonl', A + '{"text": "c"}', 'line 2: summary is null'),
    ('own.jsonl', A + '{"text": null, "summary": "b"}', 'line 2: text is null'),
    ('own.jsonl', A + '{"text": "c", "summary": "\\t "}', 'line 2: summary is blank'),
    ('own.jsonl', A + '{"text": NaN, "summary": "b"}', 'line 2: text is float'),
    ('own.jsonl', A + B + ', "gold": ["x", 3]}', 'line 2: gold, description 2, is int'),
    ('own.jsonl', A + B + ', "gold": [" "]}', 'line 2: gold, description 1, is blank'),
    ('own.jsonl', A + B + ', "gold": "x"}', 'line 2: gold is str, expected a list'),
    ('own.jsonl', A + B + ', "gold": [], "descriptions": []}', 'several columns of gold'),
    ('own.jsonl', A + B + ', "split": "train"}', "line 2: split is 'train'"),
    ('own.jsonl', A + B + ', "split": null}', 'line 2: split is None'),
    ('own.jsonl', A + B + ', "extra": 1}', r"unknown columns \['extra'\]"),
    ('own.jsonl', A + B + ', "doc_id": "7"}', "line 2: doc_id is '7'"),
    ('own.jsonl', A + B + f', "doc_id": {2**70}}}', 'line 2: doc_id'),
    ('own.jsonl', A + B + ', "id": "x"}', 'line 1: id is null'),
    ('own.jsonl', (B + ', "id": "x"}\n') * 2, "line 2: id 'x' is already that of line 1"),
    ('own.jsonl', (B + ', "id": 1}\n') + (B + ', "id": "1"}\n'), "id '1' is already"),
    ('own.jsonl', ('{"text": "", "summary": "b"}\n') * 9, 'and 6 more'),
    ('own.json', '{"rows": []}', 'holds a JSON dict, expected a list'),
    ('own.json', '[]', 'has no rows'),
    ('own.json', '[{"text": "a",\n"summary"', 'not whole JSON .*line 2'),
    ('own.csv', 'text,summary\n', 'has no rows'),
    ('own.csv', 'text,summary\na,b\n,d\n', 'row 2: text is null'),
    ('own.csv', 'text,summary,gold\na,b,\nc,d,none\n', "row 2: gold is 'none', expected a list"),
    ('own.csv', 'text,summary\na,b,c,d\n', 'line 2 has 4 cells'),
    ('own.csv', b'text,summary\na,b\n\xe9,d\n', 'line 3 is not UTF-8'),
    ('own.parquet', b'PAR1 and then nothing', 'cannot be read as parquet'),
    ('own.parquet', b'', 'cannot be read as parquet')])
def test_a_wrong_file_names_row_and_column(tmp_path, name, content, words):
    (tmp_path/name).write_bytes(content if isinstance(content, bytes) else content.encode('utf-8', 'surrogatepass'))
    with pytest.raises(DataError, match=words) as caught: data.load(tmp_path/name)
    assert str(tmp_path/name) in str(caught.value)


def test_parquet_of_another_shape(tmp_path):
    pl.DataFrame({'text': [1], 'summary': ['b']}).write_parquet(tmp_path/'own.parquet')
    with pytest.raises(DataError, match='row 1: text is int'): data.load(tmp_path/'own.parquet')
    pl.DataFrame(schema=data.LOCALIZATION_DATA.columns).write_parquet(tmp_path/'none.parquet')
    with pytest.raises(DataError, match='has no rows'): data.load(tmp_path/'none.parquet')


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(DataError, match='there is no file'): data.load(tmp_path/'own.jsonl')
    with pytest.raises(DataError, match='there is no file'): data.load('own.csv')
    (tmp_path/'own.xlsx').write_bytes(b'PK')
    with pytest.raises(UsageError, match='ends in'): data.load(tmp_path/'own.xlsx')
    (tmp_path/'folder.parquet').mkdir()
    with pytest.raises(DataError, match='is a folder'): data.load(tmp_path/'folder.parquet')


def test_limits_are_prefixes(tmp_path):
    place = write(tmp_path/'own.jsonl', [dict(text=str(i), summary='s', split='dev' if i % 3 else 'test') for i in range(30)])
    for split in (None, 'dev'):
        full = data.load(place, split=split)
        for limit in (1, 5, full.height): assert data.load(place, split=split, limit=limit).equals(full.head(limit))
        assert data.load(place, split=split, limit=10**9).equals(full)
    for limit in (0, -1, 2.0, True, '3'):
        with pytest.raises(UsageError, match='limit'): data.load(place, limit=limit)
    with pytest.raises(UsageError, match='has no split .* it has test, dev'): data.load(place, split='train')


def test_a_text_of_a_million_words(tmp_path):
    long = 'word ' * 10**6
    assert data.load(write(tmp_path/'own.jsonl', [dict(text=long, summary='w')]))['text'].item() == long


def test_fingerprint(tmp_path):
    frame = data.load('sample')
    frame.write_parquet(tmp_path/'a.parquet', row_group_size=3)
    pl.concat([frame.head(1), frame.slice(1)], rechunk=False).write_parquet(tmp_path/'b.parquet', compression='uncompressed')
    fingerprints = {data.fingerprint(one) for one in (frame, pl.read_parquet(tmp_path/'a.parquet'), pl.read_parquet(tmp_path/'b.parquet'))}
    assert len(fingerprints) == 1
    changed = [frame.reverse(), frame.head(-1), frame.drop('doc_id'), frame.with_columns(summary=pl.col('summary') + ' '),
               frame.with_columns(gold=pl.col('gold').list.reverse()), frame.rename({'gold': 'old'})]
    assert len({data.fingerprint(one) for one in changed} | fingerprints) == 1 + len(changed)
    nested = data.load_sample()
    assert data.fingerprint(nested) == data.fingerprint(pl.concat([nested.head(3), nested.slice(3)], rechunk=False))


# ---------------------------------------------------------------- the published sets

def test_final_counts(final_data):
    assert final_data.height == 1405 and final_data['gold'].list.len().sum() == 2131
    assert dict(final_data['split'].value_counts().iter_rows()) == {'dev': 140, 'test': 1265}
    assert (final_data['gold'].list.len() > 0).sum() == 1121 and (final_data['gold'].list.len() == 0).sum() == 284
    assert final_data['id'].is_unique().all() and final_data['id'][0] == 'final-0001' and final_data['doc_id'].n_unique() == 1324
    assert final_data.null_count().sum_horizontal().item() == 0
    assert data.load('final', limit=40).equals(final_data.head(40))
    assert data.load(files.get('final', 'data.jsonl')).drop('id').equals(final_data.drop('id'))


@pytest.mark.parametrize('name', ['final', 'defacto', 'xsumfaith', 'entfa'])
def test_local_files_have_the_registered_size_and_checksum(name):
    real_data(name)
    for file in registry_module.entries()[name].files:
        assert files.get(name, file.path, download=False).stat().st_size == file.size
    assert files.get(name) == files.path(name) == Path(os.environ['FACTLAB_DATA'])/name


def test_defacto_holds_final(final_data):
    real_data('defacto')
    defacto = data.load('defacto')
    assert dict(defacto['split'].value_counts().iter_rows()) == {'train': 1000, 'val': 486, 'test': 1075}
    assert summaries.outside(defacto, final_data).height == 1156 and final_data.join(defacto, on=['text', 'summary'],
                                                                                     how='semi').height == 1405
    assert defacto['id'].is_unique().all() and defacto['inconsistent'].sum() == 1821
    assert defacto.filter('inconsistent')['instruction'].null_count() == 0 and data.load('defacto', split='val').height == 486


def test_xsumfaith_spans_are_where_they_say():
    real_data('xsumfaith')
    spans, factuality = summaries.load_xsumfaith()
    assert spans.height == 11185 and factuality.height == 5597 and spans.select('bbcid', 'system').n_unique() == 2500
    cut = pl.col('summary').str.slice(pl.col('start'), pl.col('end') - pl.col('start'))
    assert spans.filter(pl.col('span').is_not_null()).select((cut == pl.col('span')).all()).item()
    assert spans['category'].drop_nulls().value_counts().sort('count')['count'].to_list() == [2537, 7860]
    assert spans.filter(pl.col('category').is_not_null())['occurrences'].min() == 1
    assert dict(factuality['factual'].value_counts().iter_rows()) == {True: 582, False: 4982, None: 33}
    assert spans.filter(pl.col('text').is_null())['bbcid'].n_unique() == 1 and data.load('xsumfaith').equals(spans)
    assert data.load('xsumfaith/factuality', limit=3).equals(factuality.head(3))
    with pytest.raises(UsageError, match='no splits'): data.load('xsumfaith', split='dev')


def test_xsumfaith_without_articles(tmp_path, monkeypatch):
    real_data('xsumfaith')
    (tmp_path/'xsumfaith').mkdir()
    for file in Path(os.environ['FACTLAB_DATA'], 'xsumfaith').glob('*.csv'): (tmp_path/'xsumfaith'/file.name).symlink_to(file)
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path))
    with pytest.warns(UserWarning, match='load_xsumfaith'): spans, factuality = summaries.load_xsumfaith()
    assert spans['text'].null_count() == 11185 and factuality['text'].null_count() == 5597
    assert files.get('xsumfaith') == tmp_path/'xsumfaith'  # what was never published is not waited for
    own = tmp_path/'own.json'
    own.write_text(json.dumps({spans['bbcid'][0]: 'The article.'}))
    assert summaries.load_xsumfaith(own).spans['text'][0] == 'The article.'
    own.write_text('[]')
    with pytest.raises(DataError, match='JSON object'): summaries.load_xsumfaith(own)
    (tmp_path/'xsumfaith'/registry_module.ARTICLES).write_text('{}')
    with pytest.raises(DataError, match='is not the file'): summaries.load_xsumfaith()


def test_entfa_entities():
    real_data('entfa')
    entfa = data.load('entfa')
    assert dict(entfa['split'].value_counts().iter_rows()) == {'train': 460, 'test': 240}
    entities = entfa.explode('entities').with_columns(pl.col('entities').struct.unnest().name.prefix('entity_'))
    cut = pl.col('summary').str.slice(pl.col('entity_start'), pl.col('entity_end') - pl.col('entity_start'))
    assert entities.height == 2475 and entities['entity_type'].null_count() == 0
    assert entities.select((cut == pl.col('entity_text')).all()).item()


# ---------------------------------------------------------------- the shipped sample

@pytest.fixture(scope='module')
def sample(): return data.load_sample()


@pytest.fixture(scope='module')
def errors(sample):
    return [(row, one) for row in sample.iter_rows(named=True) for one in row['inconsistencies']]


def test_sample_spans_stand_once_and_in_order(sample):
    for row in sample.iter_rows(named=True):
        spans = [one['span'] for one in row['inconsistencies']]
        assert len(spans) <= 4 and all(row['summary'].count(span) == 1 for span in spans), row['id']
        starts = [row['summary'].index(span) for span in spans]
        assert starts == sorted(set(starts)), row['id']
        ends = [start + len(span) for start, span in zip(starts, spans, strict=True)]
        assert all(end <= start for end, start in zip(ends, starts[1:], strict=False)), row['id']  # none inside another


def test_sample_probes_belong_to_extrinsic_errors(errors):
    for row, one in errors:
        extrinsic = one['category'].startswith('extrinsic')
        assert all((one[field] is not None) == extrinsic for field in ('question', 'answer', 'counterfactual')), row['id']
        if not extrinsic: continue
        assert one['question'].endswith('?') and 1 <= len(one['answer'].split()) <= 6, row['id']
        assert one['answer'].lower() not in one['question'].lower(), row['id']
        other = one['counterfactual']
        assert other['span'] != one['span'], row['id']
        assert other['summary'] == row['summary'].replace(one['span'], other['span']), (row['id'], one['span'])
        assert other['span'] not in row['text'] and one['span'] not in row['text'], (row['id'], one['span'])


def test_sample_evidence_stands_in_the_text(errors):
    for row, one in errors: assert one['evidence'] is None or one['evidence'] in row['text'], row['id']


def test_sample_descriptions_are_all_different(sample, errors):
    texts = [text for _, one in errors for text in (one['description'], one['paraphrase'])]
    texts += [one['counterfactual']['description'] for _, one in errors if one['counterfactual']]
    texts += [alarm['description'] for alarm in sample['false_alarm']]
    assert len(set(texts)) == len(texts)


def test_sample_as_localization(sample):
    frame = data.load('sample')
    assert frame.schema == pl.Schema(data.LOCALIZATION_DATA.columns) and frame['id'].equals(sample['id'])
    assert frame['gold'].list.len().sum() == sample['inconsistencies'].list.len().sum() and frame['gold'].null_count() == 0
    assert ((frame['origin_label'] == 'consistent') == (frame['gold'].list.len() == 0)).all()


def test_a_sample_that_is_missing(tmp_path):
    with pytest.raises(DataError, match='Install factlab again'): data.load_sample(folder=tmp_path)


# ---- what papers bring -------------------------------------------------------------------------------------------------------------

def test_papers_bring_their_data_sets():
    "Generic entries and those of the papers are one registry, in the order of their topics; a registered entry replaces a paper's."
    found = registry_module.entries()
    of_papers = {'final', 'oasis-sample', 'facts-sample'}
    assert of_papers <= set(found) and not of_papers & set(registry_module.REGISTRY)
    topics = [registry_module.TOPICS.index(entry.topic) for entry in found.values()]
    assert topics == sorted(topics)
    named = names.entries('data')
    assert set(named) >= set(found) and named['xsumfaith'].load == named['xsumfaith/spans'].load


def test_a_registered_entry_with_a_loader_is_loaded_by_name(monkeypatch):
    entry = registry_module.Entry('mine', 'showing', '1 pair', 'ours', 'none', 'here', '1')
    monkeypatch.setitem(registry_module.REGISTRY, 'mine', entry)
    monkeypatch.setitem(names._entries['data'], 'mine', names.Entry('mine', data.load_sample_pairs))
    assert data.load('mine', limit=1).equals(data.load('sample', limit=1)) and list(registry_module.entries())[-1] == 'mine'
    with pytest.raises(UsageError, match='take one of localization'): registry_module.register(registry_module.replace(entry, topic='odd'))


def test_a_set_that_was_never_published_says_so(monkeypatch, tmp_path):
    "Its files have no address: they are in the shared folder, or they are not at hand."
    content = b'{"text": "A.", "summary": "A.", "gold": []}\n'
    file = registry_module.File('own.jsonl', len(content), hashlib.sha256(content).hexdigest(), note='Ask a colleague for it.')
    entry = registry_module.Entry('own', 'of ours', '1 pair', 'CC0', 'our own', 'https://example.org', '1', files=(file,), topic='own')
    monkeypatch.setitem(registry_module.REGISTRY, 'own', entry)
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path))
    def where(): return files.registry().filter(name='own')['where'].item()
    assert where() == 'not at hand' and files.path('own') is None
    with pytest.raises(DataError, match='own.jsonl is not at hand.*Ask a colleague'): files.get('own')
    (tmp_path/'own').mkdir()
    (tmp_path/'own'/'own.jsonl').write_bytes(content)
    assert where() == 'in FACTLAB_DATA' and files.get('own') == files.path('own') == tmp_path/'own'


def test_a_path_in_the_repository_may_hold_spaces():
    file, = registry_module.github('somebody/data', 'abc123', 'test.jsonl 40 11ee held out/test.jsonl', 'data/')
    assert file.path == 'test.jsonl' and file.url.endswith('/abc123/data/held%20out/test.jsonl')
