"Large frames in parts, without Ray: what there is to do, what is there, and what a killed process leaves."
import signal
import subprocess
import sys

import polars as pl
import pytest

from factlab.core.core import DataError
from factlab.models.ray import PartWorker, missing_parts, over_ray, parts_of


def load_lengths(unit=1):
    return lambda frame: frame.select('id', length=pl.col('text').str.len_chars()//unit)

def load_fewer(): return lambda frame: frame.head(1)

@pytest.fixture
def texts(tmp_path):
    folder = tmp_path/'texts'
    folder.mkdir()
    for name, numbers in (('b', range(5, 12)), ('a', range(5))):
        pl.DataFrame({'id': list(numbers), 'text': ['x'*number for number in numbers]}).write_parquet(folder/f'{name}.parquet')
    return folder

def worker(out, load=load_lengths): return PartWorker(str(out), load, ['id', 'text'])


@pytest.mark.parametrize('rows', [1, 3, 5, 100])
def test_parts_cover_every_row_once_and_in_order(texts, tmp_path, rows):
    parts, out = parts_of(texts, rows, ['id', 'text']), tmp_path/'out'
    assert missing_parts(parts, out, {}) == parts and len({part.name for part in parts}) == len(parts)
    assert all(part.rows <= rows for part in parts)
    for part in reversed(parts): worker(out).write(part)
    made = pl.read_parquet(out/'part-*.parquet')
    assert made['id'].to_list() == made['length'].to_list() == list(range(12))
    assert missing_parts(parts, out, {}) == []

def test_what_is_there_is_not_done_again_and_needs_no_ray(texts, tmp_path):
    parts, out = parts_of(texts, 5), tmp_path/'out'
    missing_parts(parts, out, {'unit': 1})
    assert [worker(out).write(part) for part in parts] == [5, 5, 2]
    stamps = [(out/part.name).stat().st_mtime_ns for part in parts]
    assert [worker(out, lambda: load_lengths(9)).write(part) for part in parts] == [0, 0, 0]
    assert over_ray(texts, out, load_fewer, about={'unit': 1}, columns=['id', 'text'], rows=5) == out
    assert [(out/part.name).stat().st_mtime_ns for part in parts] == stamps

def test_parts_of_something_else_are_not_mixed_in(texts, tmp_path):
    out = tmp_path/'out'
    missing_parts(parts_of(texts, 5), out, {'encoder': 'a'})
    for parts, about in ((parts_of(texts, 5), {'encoder': 'b'}), (parts_of(texts, 4), {'encoder': 'a'}),
                         (parts_of(texts/'a.parquet', 5), {'encoder': 'a'})):
        with pytest.raises(DataError, match='another'): missing_parts(parts, out, about)
    pl.DataFrame({'id': [5], 'text': ['other']}).write_parquet(texts/'b.parquet')
    with pytest.raises(DataError, match='another'): missing_parts(parts_of(texts, 5), out, {'encoder': 'a'})

def test_faults_are_told(texts, tmp_path):
    with pytest.raises(DataError, match='no .parquet files'): parts_of(tmp_path)
    with pytest.raises(DataError, match='no column claim'): parts_of(texts, columns=['claim'])
    (texts/'c.parquet').write_bytes(b'PAR1 and no more')
    with pytest.raises(DataError, match='c.parquet cannot be read'): parts_of(texts)

def test_a_part_with_rows_missing_is_not_written(texts, tmp_path):
    part = parts_of(texts, 5)[0]
    missing_parts([part], tmp_path/'out', {})
    with pytest.raises(DataError, match='1 rows were made of 5'): worker(tmp_path/'out', load_fewer).write(part)
    assert not (tmp_path/'out'/part.name).exists()

def test_a_killed_process_leaves_no_half_part(texts, tmp_path):
    "It is killed between the writing and the renaming."
    program = (
        'import os, signal, sys\nfrom pathlib import Path\nfrom factlab.models.ray import PartWorker, parts_of\n'
        'Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n'
        'out, texts = sys.argv[1:]\n'
        'PartWorker(out, lambda: lambda frame: frame, ["id", "text"]).write(parts_of(texts, 5)[0])')
    parts, out = parts_of(texts, 5), tmp_path/'out'
    missing_parts(parts, out, {})
    done = subprocess.run([sys.executable, '-c', program, str(out), str(texts)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert missing_parts(parts, out, {}) == parts and not list(out.glob('part-*'))
    for part in parts: worker(out).write(part)
    assert pl.read_parquet(out/'part-*.parquet').height == 12
