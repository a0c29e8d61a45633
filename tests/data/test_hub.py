"""LLM-OASIS on the hub: its own client against a server that imitates the hub; what goes wrong; the join of the four sets."""
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import polars as pl
import pytest

from factlab.core.core import DataError
from factlab.data import datasets as data
from factlab.data import files, hub
from factlab.studies.oasis import data_sets

PAGES = ['Bamboo', 'Rice', 'Rye']
COMMIT = 'c0ffee'.ljust(40, '0')


def parquet(**columns) -> bytes:
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


def sets() -> dict[str, dict[str, bytes]]:
    "The six repositories, each file by its path."
    def both(**columns): return {f'data/{split}-00000-of-00001.parquet': parquet(**{name: values[part] for name, values in columns.items()})
                                 for split, part in (('train', slice(0, 2)), ('validation', slice(2, 3)))}
    texts, claims = [f'{page} is a grass. It grows.' for page in PAGES], [[f'{page} is a grass.', f'{page} grows.'] for page in PAGES]
    steps = {'claim_extraction': both(title=PAGES, text=texts, claims=claims),
             'claim_falsification': both(title=PAGES, text=texts, factual_claim=[[one[0]] for one in claims],
                                         unfactual_claim=[[f'{page} is a tree.'] for page in PAGES]),
             'paraphrase_generation': both(title=PAGES, claims=claims, paraphrase=[f'{page}, a grass, grows.' for page in PAGES]),
             'unfactual_text_generation': both(title=PAGES, unfactual_text=[f'{page}, a tree, grows.' for page in PAGES])}
    gold = {'e2e_factuality_evaluation': {'data/gold-00000-of-00001.parquet': parquet(text=['One.', 'Two.'], id=['7', '8'])},
            'claim_verification': {'data/gold-00000-of-00001.parquet': parquet(id=['a', 'b'], claim=['One.', 'Two.'],
                                                                               evidence=['Both.', 'Both.'])}}
    return {f'Babelscape/LLM-Oasis_{name}': files | {'README.md': b'a card'} for name, files in (steps | gold).items()}


class FakeHub(BaseHTTPRequestHandler):
    "The three kinds of addresses that the client asks for: a repository's files, the head of a file, its bytes."
    protocol_version = 'HTTP/1.1'

    def answer(self, body: bytes, status: int = 200, **headers):
        self.send_response(status)
        for name, value in {'Content-Length': str(len(body)), **headers}.items(): self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        if self.command == 'GET': self.wfile.write(body)

    def do_GET(self):
        self.server.asked.append((self.command, self.path))
        repositories, mood = self.server.repositories, self.server.mood
        if found := re.fullmatch(r'/api/datasets/(.+?/.+?)/revision/([^/?]+)(\?.*)?', self.path):
            name, revision, _ = found.groups()
            if mood == 'gone' or name not in repositories:
                return self.answer(b'{"error": "Repository not found"}', 404, X_Error_Code='RepoNotFound')
            if mood == 'no revision': return self.answer(b'{"error": "Invalid rev"}', 404, X_Error_Code='RevisionNotFound')
            listed = [{'rfilename': path, 'size': len(body), 'blobId': 'b',
                       **({'lfs': {'sha256': hashlib.sha256(body).hexdigest(), 'size': len(body), 'pointerSize': 9}}
                       if path.endswith('parquet') else {})} for path, body in repositories[name].items() if mood != 'no data'
                      or not path.startswith('data/')]
            commit = revision if len(revision) == 40 else COMMIT
            return self.answer(json.dumps({'id': name, 'sha': commit, 'siblings': listed}).encode(), Content_Type='application/json')
        if found := re.fullmatch(r'/datasets/(.+?/.+?)/resolve/([^/]+)/(.+)', self.path):
            name, revision, path = found.groups()
            if mood == 'busy' and 'validation' in path: return self.answer(b'busy', 500)
            body = repositories[name][path]
            if mood == 'other bytes': body = body[:-9] + b'.'*9
            return self.answer(body, X_Repo_Commit=revision, ETag=f'"{hashlib.sha256(repositories[name][path]).hexdigest()}"',
                               Accept_Ranges='bytes')
        return self.answer(b'', 404)

    do_HEAD = do_GET
    def log_message(self, *arguments): pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(('127.0.0.1', 0), FakeHub)
    server.repositories, server.asked, server.mood = sets(), [], ''
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def run(server, tmp_path, code: str, **others) -> subprocess.CompletedProcess:
    "The client reads its settings when it is imported, so each try has a process of its own."
    environment = {name: value for name, value in os.environ.items() if not name.startswith(('HF_', 'FACTLAB_'))} | {
        'FACTLAB_HOME': str(tmp_path/'home'), 'HF_HOME': str(tmp_path/'hf'), 'HF_ENDPOINT': f'http://127.0.0.1:{server.server_address[1]}',
        'HF_HUB_DISABLE_TELEMETRY': '1', 'FACTLAB_PROGRESS': '0', **others}
    return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env=environment, timeout=100)


COMMAND = 'import sys; from factlab.cli.main import main; sys.exit(main(["data", "get", "{}"]))'
# the client waits 1 to 8 s between tries
IMPATIENT = 'import time\nwait = time.sleep\ntime.sleep = lambda seconds: wait(min(seconds, .05))\n'
FAILS = 'from factlab.data import datasets as data, files\ntry: files.get("oasis")\nexcept files.DataError as error: print(error)'


def test_the_way_to_the_four_sets_and_back(server, tmp_path):
    done = run(server, tmp_path, COMMAND.format('oasis'))
    assert done.returncode == 0, done.stderr
    assert 'licence: CC BY-NC-SA 4.0' in done.stderr and done.stdout.strip() == str(tmp_path/'home/cache/data/oasis')
    about = json.loads((tmp_path/'home/cache/data/oasis/claim_extraction/hub.json').read_text())
    pinned = files.entry_of('oasis').hub[0]
    assert about['commit'] == about['asked'] == pinned.revision and set(about['files']) == {f'data/{s}-00000-of-00001.parquet'
                                                                                            for s in ('train', 'validation')}
    assert json.loads((tmp_path/'home/cache/data/oasis/claim_falsification/hub.json').read_text())['commit'] == COMMIT
    assert not any('README' in path for _, path in server.asked)  # only what is needed
    asked = len(server.asked)
    show = ('from factlab.data import datasets as data, files; f = data.load("oasis"); print(f.write_ndjson()); '
            'print(files._where(files.entry_of("oasis")), files.path("oasis").name)')
    done = run(server, tmp_path, show, HF_HUB_OFFLINE='1')
    rows = [json.loads(line) for line in done.stdout.strip().splitlines() if line.startswith('{')]
    assert [(row['page'], row['split'], row['altered']) for row in rows] == [('Bamboo', 'train', 0), ('Rice', 'train', 0),
                                                                             ('Rye', 'validation', 0)]
    assert rows[2]['falsified'] == 'Rye is a tree.'
    assert rows[2]['factual'] == 'Rye, a grass, grows.'
    assert rows[2]['unfactual'] == 'Rye, a tree, grows.'
    assert done.stdout.strip().endswith('in the cache oasis') and len(server.asked) == asked and 'licence' not in done.stderr


def test_the_gold_sets_have_no_labels(server, tmp_path):
    code = ('from factlab.data import datasets as data, files; a, b = data.load("oasis-e2e"), data.load("oasis-verification"); '
            'print(a["id"].to_list(), a["factual"].null_count(), b["claim"].to_list(), b["label"].null_count(), b["group"].n_unique())')
    done = run(server, tmp_path, code)
    assert done.stdout.strip() == "['7', '8'] 2 ['One.', 'Two.'] 2 1", done.stderr


def test_an_interrupted_fetch_goes_on(server, tmp_path):
    server.mood = 'busy'
    done = run(server, tmp_path, IMPATIENT + FAILS)
    assert 'LLM-Oasis_claim_extraction at a95c930' in done.stdout and 'cannot be had' in done.stdout and '500' in done.stdout
    state = 'from factlab.data import datasets as data, files; print(files._where(files.entry_of("oasis")))'
    assert run(server, tmp_path, state).stdout.strip() == 'to download'  # one of its two files is there: that is not the set
    server.mood, server.asked = '', []
    assert run(server, tmp_path, COMMAND.format('oasis')).returncode == 0
    fetched = [path for command, path in server.asked if command == 'GET' and 'resolve' in path]
    assert not any('claim_extraction' in path and 'train' in path for path in fetched) and len(fetched) == 7


@pytest.mark.parametrize(('mood', 'words'),
                         [('gone', 'cannot be had .RepositoryNotFoundError'), ('no revision', 'cannot be had .RevisionNotFoundError'),
    ('no data', 'holds no Parquet files'), ('other bytes', 'differs from the checksum that the hub states')])
def test_what_goes_wrong_is_said(server, tmp_path, mood, words):
    server.mood = mood
    done = run(server, tmp_path, FAILS)
    assert re.search(words, done.stdout), done.stdout + done.stderr
    assert not list((tmp_path/'home'/'cache').rglob('hub.json'))
    if mood == 'other bytes': assert not list((tmp_path/'home'/'cache').rglob('data/*.parquet'))


def test_no_server_and_no_leave(server, tmp_path):
    done = run(server, tmp_path, FAILS, HF_ENDPOINT='http://127.0.0.1:9')
    assert 'cannot be had (' in done.stdout and '$FACTLAB_DATA/oasis/claim_extraction/data/' in done.stdout, done.stderr
    done = run(server, tmp_path, FAILS.replace('"oasis"', '"oasis", download=False'))
    assert 'is not at hand' in done.stdout and 'factlab data get oasis' in done.stdout and not server.asked


# ---------------------------------------------------------------- files of one's own, and the join

def place(folder, repository, files):
    for path, body in files.items():
        (folder/repository/path).parent.mkdir(parents=True, exist_ok=True)
        (folder/repository/path).write_bytes(body)


@pytest.fixture
def shared(tmp_path, monkeypatch):
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path))
    for name, held in sets().items(): place(tmp_path/'oasis', name.partition('Oasis_')[2], held)
    return tmp_path/'oasis'


def test_a_shared_folder(shared):
    assert files.path('oasis') == shared == files.get('oasis') and files._where(files.entry_of('oasis')) == 'in FACTLAB_DATA'
    assert data.load('oasis').height == 3 and data.load('oasis', split='validation')['page'].item() == 'Rye'


def test_a_damaged_file_and_other_columns(shared):
    file = shared/'paraphrase_generation/data/train-00000-of-00001.parquet'
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    with pytest.raises(DataError, match='cannot be read as Parquet .* run `factlab data get oasis`'): data_sets.load_oasis()
    file.write_bytes(parquet(title=PAGES, wording=PAGES))
    (shared/'paraphrase_generation/data/validation-00000-of-00001.parquet').unlink()
    with pytest.raises(DataError, match=r"has no column paraphrase or factual_text .*found \['title', 'wording'"): data_sets.load_oasis()


def test_what_the_join_drops_is_counted(shared):
    sets = {one.name: data_sets._renamed(hub.hub_frame(files.entry_of('oasis'), one, False), one.name)
            for one in files.entry_of('oasis').hub}
    whole, dropped = data_sets.join_oasis(sets)
    assert whole.height == 3 and dropped == {}
    twice = sets | {'claim_extraction': pl.concat([sets['claim_extraction'], sets['claim_extraction'].head(1)])}
    fewer = sets | {'claim_falsification': sets['claim_falsification'].head(1),
                    'unfactual_text_generation': sets['unfactual_text_generation'].clear()}
    other = sets | {'claim_falsification': sets['claim_falsification'].with_columns(altered_claim=pl.lit(['Else.']))}
    assert data_sets.join_oasis(twice)[1] == {'page given twice': 2} and data_sets.join_oasis(twice)[0].height == 2
    assert data_sets.join_oasis(fewer)[1] == {'no falsified claim': 2, 'no unfactual text': 1} and data_sets.join_oasis(fewer)[0].is_empty()
    assert data_sets.join_oasis(other)[1] == {'the altered claim is none of the claims': 3}
    place(shared, 'claim_falsification',
          {f'data/{split}-00000-of-00001.parquet': parquet(title=['Rye'], factual_claim=[['Rye grows.']], unfactual_claim=[['Rye rests.']])
                                          for split in ('train',)})
    (shared/'claim_falsification/data/validation-00000-of-00001.parquet').unlink()
    with pytest.warns(UserWarning, match='dropped 2 .no falsified claim'): assert data_sets.load_oasis()['altered'].to_list() == [1]
