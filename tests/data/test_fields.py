"Fields of objects, named by dotted paths: in frames and rows alike, and in the commands that read anybody's files."
import json

import polars as pl
import pytest
from commands import say
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError
from factlab.data.datasets import field_names, field_of, frame_fields, read_frame, with_fields

NAMES = st.sampled_from(['a', 'b', 'c.d'])
ROWS = st.recursive(st.none() | st.integers(0, 9), lambda below: st.dictionaries(NAMES, below, min_size=1, max_size=3), max_leaves=6)
ROWS = ROWS.filter(lambda row: isinstance(row, dict))


@given(ROWS)
def test_frames_and_rows_have_the_same_fields(row):
    frame, paths = pl.DataFrame([row]), field_names(row)
    assert sorted(frame_fields(frame)) == sorted(paths)
    found = with_fields(frame, paths)
    for path in paths: assert found[path].to_list() == [field_of(row, path)]


def lines(path, rows):
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    return path


def test_a_column_that_is_called_so_comes_first(tmp_path):
    rows = [{'id': '1', 'a': {'b': 'within'}, 'a.b': 'beside'}, {'id': '2', 'a': {'b': 'within'}}]
    assert read_frame(lines(tmp_path/'a.jsonl', rows), fields=['a.b'])['a.b'].to_list() == ['beside', None]


def test_kinds_that_do_not_fit_are_not_lost(tmp_path):
    rows = [{'id': '1', 'a': {'b': 1}}, {'id': '2', 'a': {'b': [2]}}]
    with pytest.raises(DataError, match='values of one type'): read_frame(lines(tmp_path/'a.jsonl', rows), fields=['a.b'])


@pytest.mark.parametrize('ends', ['jsonl', 'json', 'parquet'])
def test_commands_read_fields(capsys, tmp_path, home, ends):
    gold = [{'key': {'id': str(at)}, 'labels': {'human': said, 'by': 'ann'}} for at, said in enumerate(['yes', 'no', 'yes', 'no'])]
    said = [{'key': {'id': str(at)}, 'output': {'label': said}} for at, said in enumerate(['yes', 'no', 'no', 'no'])]
    files = []
    for name, rows in (('gold', gold), ('said', said)):
        files.append(tmp_path/f'{name}.{ends}')
        if ends == 'parquet': pl.DataFrame(rows).write_parquet(files[-1])
        elif ends == 'json': files[-1].write_text(json.dumps(rows))
        else: lines(files[-1], rows)
    columns = ['--columns', 'id=key.id,gold=labels.human,predicted=output.label']
    code, output, errors = say(capsys, 'score', 'labels', '--data', files[0], '--predictions', files[1], *columns, '--json')
    assert code == 0 and json.loads(output)['scores'][0]['accuracy'] == .75, errors
    assert say(capsys, 'judge', files[1], '--labels', files[0], '--positive', 'yes', *columns)[0] == 0
    both = lines(tmp_path/'both.jsonl', [row | {'labels': {'human': 'yes'}} for row in said])
    assert say(capsys, 'compare', both, files[1], *columns)[0] == 0
    code, output, errors = say(capsys, 'score', 'labels', '--data', files[0], '--predictions', files[1], '--columns',
                               'id=key.id,gold=labels.humn,predicted=output.label')
    assert (code, output) == (3, '') and 'labels.human' in errors and 'labels.by' in errors
    code, output, errors = say(capsys, 'score', 'labels', '--data', files[0], '--predictions', files[1], '--columns',
                               'id=key.id,gold=labels,predicted=output.label')
    assert (code, output) == (3, '') and 'Name a field of it: --columns gold=COLUMN.human' in errors
    code, output, errors = say(capsys, 'compare', both, files[1], *columns[:1], columns[1] + ',score=output.score')
    assert (code, output) == (2, '') and "nearest is 'output.label'" in errors


def test_check_reads_fields(tmp_path):
    from factlab.core.core import UsageError
    from factlab.verification.checking import read_texts
    path = lines(tmp_path/'a.jsonl', [{'id': 'x', 'input': {'article': 'The mill closed.'}, 'output': {'text': 'It closed.'}}])
    found = read_texts(path, {'source': 'input.article', 'text': 'output.text'})
    assert found.rows() == [('x', 'The mill closed.', 'It closed.')]
    with pytest.raises(UsageError, match="did you mean 'input.article'"):
        read_texts(path, {'source': 'input.artcle', 'text': 'output.text'})


def test_one_column_may_stand_for_two(capsys, tmp_path, home):
    (tmp_path/'gold.csv').write_text('id,label\na,yes\nb,no\nc,no\n')
    (tmp_path/'said.csv').write_text('id,label\na,yes\nb,no\nc,yes\n')
    code, output, errors = say(capsys, 'score', 'labels', '--data', tmp_path/'gold.csv', '--predictions', tmp_path/'said.csv', '--columns',
                               'gold=label,predicted=label')
    assert code == 0 and 'labels: 1 file on 3 rows' in output, errors
