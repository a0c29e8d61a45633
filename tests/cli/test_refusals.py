"""What the system refuses, told by the file and the reason: real files, real limits, a user without rights."""
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import say

from factlab.core.core import DataError, cannot, remedy, write_text

BIN = Path(sys.executable).parent
LONG = 'x'*300


pytestmark = pytest.mark.usefixtures('home')


@pytest.mark.parametrize('words', [
    'score labels --data g.csv --predictions a.csv --out a.csv', 'score labels --data g.csv --predictions a.csv b.csv --out ./g.csv',
    'score labels --data g.csv --predictions a.csv b.csv --doubtful b.csv', 'judge a.csv --labels g.csv --queue g.csv',
    'compare a.csv b.csv --columns gold=gold --html a.csv', 'check t.csv --out t.csv', 'compare a.csv b.csv --out x.json --html x.json'])
def test_a_file_that_is_read_is_never_written(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    files = {'g.csv': 'id,gold\n1,yes\n2,no\n', 'a.csv': 'id,predicted\n1,yes\n2,no\n', 'b.csv': 'id,predicted\n1,no\n2,no\n',
             't.csv': 'text,summary\nThe mill closed.,The mill closed.\n'}
    for name, text in files.items(): (tmp_path/name).write_text(text)
    code, _, said = say(capsys, *words.split())
    assert code == 2 and ('one of the files that are read' in said or 'another option writes this file' in said), said
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix == '.csv'} == files


@pytest.mark.parametrize('number, words', [
    (errno.ENOSPC, 'free space'), (errno.EACCES, 'the right to'), (errno.EISDIR, 'folder'), (errno.ENOTDIR, 'part of that path'),
    (errno.ENAMETOOLONG, 'shorter name'), (errno.ENOENT, 'correct the path'), (errno.EROFS, 'can be written'), (errno.EMFILE, 'ulimit')])
def test_each_refusal_has_its_own_remedy(number, words):
    error = OSError(number, os.strerror(number))
    told = str(cannot('read', 'a.txt', error))
    assert words in remedy(error) and words in told and os.strerror(number) in told and 'a.txt' in told


@pytest.mark.parametrize('make, words', [
    (lambda folder: folder/'nothing.txt', 'No such file'), (lambda folder: folder, 'it is a folder'),
    (lambda folder: folder/f'{LONG}.txt', 'shorter name'), (lambda folder: folder/'file'/'below.txt', 'a part of that path is a file')])
def test_a_text_that_cannot_be_read(tmp_path, capsys, make, words):
    (tmp_path/'file').write_text('a')
    code, output, errors = say(capsys, 'verify', '--file', make(tmp_path), '--corpus', 'sample')
    assert (code, output) == (3, '') and f'cannot read {make(tmp_path)}' in errors and words in errors and errors.count('\n') == 1


@pytest.mark.parametrize('make, words', [
    (lambda folder: folder, 'it is a folder'), (lambda folder: folder/f'{LONG}.txt', 'shorter name'),
    (lambda folder: folder/'file'/'below.txt', 'where a folder is needed')])
def test_an_output_that_cannot_be_written(tmp_path, capsys, make, words):
    (tmp_path/'file').write_text('a')
    code, output, errors = say(capsys, 'list', 'verifiers', '--out', make(tmp_path))
    assert (code, output) == (3, '') and 'cannot write' in errors and words in errors and errors.count('\n') == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != 'home') == ['file'] and (tmp_path/'file').read_text() == 'a'


@pytest.mark.parametrize('option, words', [('--summaries', 'folder.csv holds no train.json'), ('--knowledge', 'folder.csv is a folder')])
def test_a_folder_for_a_file_is_called_a_folder(tmp_path, capsys, option, words):
    (tmp_path/'folder.csv').mkdir()
    code, _, errors = say(capsys, 'build', 'fhsum', option, tmp_path/'folder.csv', '--out', tmp_path/'a.jsonl')
    assert code == 3 and words in errors


@pytest.mark.parametrize('action', ['stats', 'verify', 'prune', 'export'])
def test_a_store_that_is_not_there_is_not_made(tmp_path, capsys, action):
    path = [tmp_path/'a.jsonl'] if action == 'export' else []
    code, output, errors = say(capsys, 'store', action, *path, '--store', tmp_path/'nothing.sqlite')
    assert (code, output) == (3, '') and f'there is no store {tmp_path/"nothing.sqlite"}' in errors
    assert not (tmp_path/'nothing.sqlite').exists()


@pytest.mark.parametrize('action', ['stats', 'verify', 'prune'])
def test_a_store_that_is_no_file_is_left_alone(tmp_path, capsys, action):
    os.mkfifo(pipe := tmp_path/'pipe')
    for path in (tmp_path, pipe):
        more = ['--model', 'tiny'] if action == 'prune' else []
        code, output, errors = say(capsys, 'store', action, *more, '--store', path)
        assert (code, output.strip()) in ((3, ''), (1, str(path))) and f'the store {path} is no file' in errors
    assert pipe.is_fifo() and sorted(path.name for path in tmp_path.iterdir() if path.name != 'home') == ['pipe']


def test_an_empty_name_is_not_the_folder_where_one_stands(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path/'a.txt').write_text('The mill closed.')
    code, output, errors = say(capsys, 'verify', 'The mill closed.', '--corpus', '')
    assert (code, output) == (2, '') and '--corpus is empty' in errors
    code, _, errors = say(capsys, 'list', 'verifiers', '--out', '')
    assert code == 3 and 'it is a folder: name a file' in errors


def test_a_user_who_is_not_here(capsys):
    code, _, errors = say(capsys, 'verify', '--file', '~nobody-of-that-name/a.txt', '--corpus', 'sample')
    assert code == 2 and '~NAME' in errors


def test_a_device_is_written_to_and_not_replaced(tmp_path, capsys):
    os.mkfifo(pipe := tmp_path/'pipe')
    with subprocess.Popen(['cat', pipe], stdout=subprocess.PIPE, text=True) as reader:
        write_text(pipe, 'through')
        assert reader.communicate()[0] == 'through'
    assert pipe.is_fifo()
    assert say(capsys, 'list', 'verifiers', '--out', os.devnull)[0] == 0 and Path(os.devnull).is_char_device()
    done = subprocess.run([BIN/'factlab', 'list', 'verifiers', '--out', '/dev/stdout'], capture_output=True, text=True)
    assert done.returncode == 0 and 'mpnet' in done.stdout and Path('/dev/stdout').is_symlink()
    assert 'mpnet' in say(capsys, 'list', 'verifiers', '--out', '-')[1] and not Path('-').exists()


@pytest.mark.skipif(not Path('/dev/full').exists(), reason='needs /dev/full, which this system does not have')
@pytest.mark.parametrize('unbuffered', ['', '1'])
def test_a_full_disk_is_named(unbuffered):
    with open('/dev/full', 'w') as full:
        done = subprocess.run([BIN/'factlab', 'list', 'data'], stdout=full, stderr=subprocess.PIPE, text=True,
                              env=os.environ | {'PYTHONUNBUFFERED': unbuffered})
    assert done.returncode == 3 and 'cannot write the output (No space left on device): free space' in done.stderr
    with pytest.raises(DataError, match='cannot write /dev/full .No space left.*free space'): write_text('/dev/full', 'x')


@pytest.mark.parametrize('closed, arguments, words', [
    ('<&-', 'verify - --corpus sample', 'standard input is closed'), ('>&-', 'list data', 'standard output is closed')])
def test_closed_streams_are_named(closed, arguments, words):
    done = subprocess.run(f'{BIN}/factlab {arguments} {closed}', shell=True, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3 and words in done.stderr and 'Traceback' not in done.stderr


def test_an_output_that_knows_few_letters():
    done = subprocess.run([BIN/'factlab', 'data', 'show', 'facts'], capture_output=True, text=True,
                          env=os.environ | {'PYTHONIOENCODING': 'ascii', 'PYTHONUTF8': '0'})
    assert done.returncode == 0 and 'Traceback' not in done.stderr


# ---- a user without rights ---------------------------------------------------------------------------------------------------------

def as_nobody(folder: Path, code: str) -> str:
    "What a piece of Python prints when nobody runs it."
    command = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] if os.geteuid() == 0 else []
    setup = f'import sys; sys.path[:0] = {sys.path!r}\n'
    done = subprocess.run([*command, sys.executable, '-c', setup + code], capture_output=True, text=True, cwd='/',
                          env={'FACTLAB_HOME': str(folder/'theirs'), 'PATH': os.environ['PATH']})
    return done.stdout + done.stderr


@pytest.fixture
def locked(tmp_path_factory):
    "A folder that all may enter, with a file and a folder that only their owner may read."
    if os.geteuid() == 0 and not shutil.which('setpriv'): pytest.skip('needs setpriv to become another user')
    folder = Path(tmp_path_factory.mktemp('locked'))
    for above in (folder, *folder.parents[:3]):
        if above != Path('/') and above.stat().st_uid == os.geteuid(): above.chmod(above.stat().st_mode | 0o055)
    (folder/'theirs').mkdir(mode=0o777)
    (folder/'theirs').chmod(0o777)
    (folder/'secret.jsonl').write_text('{"text": "a"}')
    (folder/'own').mkdir()
    shutil.copy(folder/'secret.jsonl', folder/'secret.parquet')
    for path in (folder/'secret.jsonl', folder/'secret.parquet', folder/'own'): path.chmod(0)
    if 'can' not in as_nobody(folder, 'import factlab.core.core; print("can")'): pytest.skip('another user cannot run this Python')
    yield folder
    (folder/'own').chmod(0o755)


def test_a_missing_right_is_named(locked):
    said = as_nobody(locked, f'''
from pathlib import Path
from factlab.core.core import FactlabError, write_text
from factlab.data.datasets import read_rows
from factlab.text.words import whole_text
folder = Path({str(locked)!r})
for act in (lambda: read_rows(folder/'secret.jsonl', whole_text), lambda: write_text(folder/'own'/'a.txt', 'x'),
            lambda: write_text(folder/'own.txt', 'x'), lambda: read_rows(folder/'secret.parquet')):
    try: act()
    except FactlabError as error: print(error)
''')
    lines = said.splitlines()
    assert len(lines) == 4 and all('Permission denied' in line and 'the right to' in line for line in lines), said
    assert 'cannot read' in lines[0] and 'cannot write' in lines[1] and 'cannot write' in lines[2]


def test_a_closed_folder_of_a_corpus_is_counted(locked):
    (locked/'texts').mkdir()
    (locked/'texts'/'a.txt').write_text('The mill closed.')
    (locked/'texts'/'closed').mkdir(mode=0)
    said = as_nobody(locked, f'''
from factlab.core.core import FactlabError
from factlab.data.folders import read_folder
found = read_folder({str(locked/'texts')!r})
print(list(found.texts), found.left_out)
try: read_folder({str(locked/'own')!r})
except FactlabError as error: print(error)
''')
    assert "['a.txt'] {'closed': 'cannot be read (Permission denied)'}" in said and 'holds no .txt' in said, said
    assert said.count('Permission') == 2
