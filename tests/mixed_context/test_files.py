"""Labelled summaries from files of several makers, and files that cannot be read."""
import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.mixed_context.files import DOCUMENT_COLUMNS, LABEL_COLUMNS, SPELLINGS, SUMMARY_COLUMNS, find_columns, read_label, read_mixed
from factlab.mixed_context.labels import FACTUAL, LABELS, NON_FACTUAL, NONE

ROW = {'document': 'It rained.', 'summary': 'It rained in Paris.', 'label': 'NFH'}


def written(folder, rows, name='file.json'):
    path = folder/name
    if path.suffix == '.json': path.write_text(json.dumps(rows), encoding='utf-8')
    elif path.suffix == '.jsonl': path.write_text(''.join(json.dumps(row) + '\n' for row in rows), encoding='utf-8')
    else: getattr(pl.DataFrame(rows), {'.csv': 'write_csv', '.parquet': 'write_parquet'}[path.suffix])(path)
    return path


@pytest.mark.parametrize('document', DOCUMENT_COLUMNS)
@pytest.mark.parametrize('summary', SUMMARY_COLUMNS)
def test_every_name_of_a_column_is_found(document, summary):
    for label in LABEL_COLUMNS:
        found = find_columns(['id', label.upper(), f' {summary} ', document.title()])
        assert found == {'document': document.title(), 'summary': f' {summary} ', 'label': label.upper()}


def test_text_is_what_is_missing():
    assert find_columns(['text', 'summary'])['document'] == 'text'
    assert find_columns(['article', 'text'])['summary'] == 'text'
    assert find_columns(['article', 'text', 'claim'])['summary'] == 'claim'


@pytest.mark.parametrize('columns', [[], ['text'], ['document'], ['summary', 'label'], ['source_id', 'sum']])
def test_a_file_without_document_or_summary_is_refused(columns):
    with pytest.raises(DataError, match='has no column of the'): find_columns(columns)


@given(st.sampled_from(LABELS), st.data())
def test_labels_are_read_in_any_case_and_with_any_joint(label, data):
    spelling = data.draw(st.sampled_from([label, *SPELLINGS[label]]))
    joint = data.draw(st.sampled_from([' ', '-', '_', '  ']))
    changed = ''.join(data.draw(st.sampled_from([letter.lower(), letter.upper()])) for letter in spelling.replace(' ', joint))
    assert read_label(f' {changed} ') == label


@pytest.mark.parametrize('value', [1, 0, 2.0, '1', True, 'factual', 'nonfactual', 'non-factual', 'yes', 'hallucination', ['FH']])
def test_a_label_that_says_two_things_is_refused(value):
    with pytest.raises(DataError, match='the label is'): read_label(value)


def test_numbers_are_read_with_a_map_alone():
    labels = {0: NONE, '1': FACTUAL, 2: NON_FACTUAL, 'Factual': FACTUAL}
    assert [read_label(value, labels) for value in ('0', 1, 2, 'factual', 'NoH')] == [NONE, FACTUAL, NON_FACTUAL, FACTUAL, NONE]
    with pytest.raises(DataError, match="labels={3: 'factual hallucination'"): read_label(3, labels)
    with pytest.raises(UsageError, match="maps to 'FH'"): read_label(1, {1: 'FH'})


@pytest.mark.parametrize('name', ['file.json', 'file.jsonl', 'file.csv', 'file.parquet'])
def test_every_kind_of_file_reads_the_same(tmp_path, name):
    rows = [{'id': '7', 'article': 'It rained.', 'claim': 'It rained, in Paris.', 'type': 'NFH', 'start': 9, 'end': 19, 'who': 'x'},
            {'id': '8', 'article': 'It «rained».', 'claim': 'It rained.', 'type': 'NoH', 'start': None, 'end': None, 'who': 'y'}]
    found = read_mixed(written(tmp_path, rows, name))
    assert found['label'].to_list() == [NON_FACTUAL, NONE] and found['id'].to_list() == ['7', '8'] and set(found['split']) == {'test'}
    assert found['document'].to_list() == [row['article'] for row in rows] and found['who'].to_list() == ['x', 'y']
    start, end = found.select('start', 'end').row(0)
    assert found['summary'][0][start:end] == ', in Paris' and found['start'][1] is None and found['start'].dtype == pl.Int64


def test_rows_without_an_id_are_numbered_and_numbers_are_ids(tmp_path):
    assert read_mixed(written(tmp_path, [ROW, ROW]))['id'].to_list() == ['file-0001', 'file-0002']
    assert read_mixed(written(tmp_path, [{**ROW, 'id': 12}]))['id'].to_list() == ['12']


def test_a_file_without_labels_has_null_labels(tmp_path):
    assert read_mixed(written(tmp_path, [{'text': 'a b', 'summary': 'a'}]))['label'].to_list() == [None]


@pytest.mark.parametrize(('rows', 'message'), [
    ([], 'no rows'), ([3], 'int instead of'), ({'rows': []}, 'expected a list'), ([ROW, {**ROW, 'document': None}], 'row 2: the document'),
    ([{**ROW, 'document': ' '}], 'row 1: the document'), ([{**ROW, 'summary': 5}], 'row 1: the summary'),
    ([ROW, {'summary': 'x', 'label': 'FH'}], r'row 2: the document \(document\) is missing'),
    ([{**ROW, 'label': 'true'}], 'row 1: the label'), ([{**ROW, 'label': 1}], 'row 1: the label is 1, say what it means'),
    ([{**ROW, 'id': 'a'}]*2, "id 'a' is there twice"), ([{'a': 1}], 'no column of the document')])
def test_bad_rows_are_refused_and_named(tmp_path, rows, message):
    with pytest.raises(DataError, match=message): read_mixed(written(tmp_path, rows))


@pytest.mark.parametrize(('name', 'content', 'error'), [('file.txt', b'x', UsageError), ('file.jsonl', b'', DataError),
    ('file.jsonl', b'{"document": "a"', DataError), ('file.csv', b'\xff\xfe\x00', DataError), ('file.json', b'<html>429</html>', DataError),
    ('file.parquet', b'PAR1', DataError)])
def test_bad_files_are_refused(tmp_path, name, content, error):
    (tmp_path/name).write_bytes(content)
    with pytest.raises(error, match=name.rpartition('/')[2]): read_mixed(tmp_path/name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match='there is no file'): read_mixed(tmp_path/'none.jsonl')


TEXT = st.text(st.characters(exclude_categories=['Cs']), min_size=1).filter(lambda text: text.strip() != '')


ROWS = st.fixed_dictionaries({'document': TEXT, 'summary': TEXT, 'label': st.sampled_from([*LABELS, None])})


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_what_is_written_is_read_again(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp('files')
    found = read_mixed(written(folder, rows))
    assert found.select('document', 'summary', 'label').to_dicts() == rows
    found.write_ndjson(folder/'again.jsonl')
    assert read_mixed(folder/'again.jsonl').equals(found)
