"""Files of anybody: every encoding with a mark, line end, blank line and spelling of an id reads to the same rows, or is refused."""
import json
import unicodedata

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.data.datasets import load, read_frame, read_rows
from factlab.data.folders import left_out_note, left_out_of, read_folder
from factlab.error_analysis.categories import read_table
from factlab.grounding.labelled_files import read_labelled_file
from factlab.grounding.responses import read_responses
from factlab.mixed_context.files import read_mixed
from factlab.mixed_context.knowledge import read_knowledge
from factlab.retrieval.corpus import open_corpus, read_passages
from factlab.studies.fhsum.commands import read_summaries
from factlab.studies.oasis.submissions import gold_rows

MARKED = ['utf-8', 'utf-8-sig', 'utf-16', 'utf-32']
ENDS = ['\n', '\r\n', '\r']
LETTERS = st.characters(exclude_categories=['Cs', 'Cc']) | st.sampled_from('é\u0301"\u2028, ')
TEXT = st.text(alphabet=LETTERS, min_size=1, max_size=12).filter(str.strip)
ROWS = st.lists(st.fixed_dictionaries({'text': TEXT, 'summary': TEXT}), min_size=1, max_size=4)
FILE = st.tuples(st.sampled_from(MARKED), st.sampled_from(ENDS), st.integers(0, 2), st.sampled_from(['NFC', 'NFD']))


def normal(rows): return [{name: unicodedata.normalize('NFC', text) for name, text in row.items()} for row in rows]


def as_lines(rows, escaped): return [json.dumps(row, ensure_ascii=escaped) for row in rows]


def as_csv(rows):
    def quoted(text): return '"' + text.replace('"', '""') + '"'
    return [','.join(rows[0]), *(','.join(quoted(row[name]) for name in rows[0]) for row in rows)]


@settings(deadline=None)
@given(ROWS, FILE, st.sampled_from(['csv', 'jsonl', 'escaped']))
def test_tables_and_lines_of_json_read_alike(tmp_path_factory, rows, file, kind):
    encoding, end, blanks, form = file
    path = tmp_path_factory.getbasetemp()/('own.csv' if kind == 'csv' else 'own.jsonl')
    written = as_csv(rows) if kind == 'csv' else as_lines(rows, kind == 'escaped')
    lines = [unicodedata.normalize(form, line) for line in written]
    path.write_bytes((end*blanks + (end*(1 + blanks)).join(lines) + end*blanks).encode(encoding))
    assert list(read_rows(path).rows) == normal(rows) == read_frame(path).to_dicts()


@settings(deadline=None)
@given(ROWS)
def test_parquet_and_a_list_of_objects_read_alike(tmp_path_factory, rows):
    folder = tmp_path_factory.getbasetemp()
    pl.DataFrame(rows).write_parquet(folder/'own.parquet')
    (folder/'own.json').write_text(json.dumps(rows), encoding='utf-8-sig')
    for name in ('own.parquet', 'own.json'): assert list(read_rows(folder/name).rows) == normal(rows) == read_frame(folder/name).to_dicts()


def test_cells_keep_their_own_line_ends(tmp_path):
    (tmp_path/'own.csv').write_bytes(b'id,text\r\n\r\n1,"One.\r\n\r\nTwo."\r\n')
    assert read_frame(tmp_path/'own.csv').rows() == [('1', 'One.\r\n\r\nTwo.')]


@pytest.mark.parametrize('text', ['id;text\n1;"Rain; snow"\n\n2;\n', 'id\ttext\n1\tRain; snow\n2\t\n',
                                  '\n"id";"text"\r\n1;"Rain; snow"\r\n2;\r\n'])
def test_a_table_with_the_separators_of_another_country(tmp_path, text):
    (tmp_path/'own.csv').write_text(text, newline='')
    assert read_frame(tmp_path/'own.csv').rows() == [('1', 'Rain; snow'), ('2', None)]


def test_a_comma_outside_quotes_names_its_line(tmp_path):
    (tmp_path/'own.csv').write_text('id,text,gold\n1,"Rain,\nsnow",yes\n\n2,Yes, it is,no\n3,No,no\n')
    with pytest.raises(DataError, match=r'own.csv: line 5 has 4 cells, and the first line names 3 columns: .* in quotes'):
        read_frame(tmp_path/'own.csv')



def test_an_encoding_is_refused_by_name_or_read_when_it_is_named(tmp_path):
    (tmp_path/'own.csv').write_bytes('id,text\n1,Café in Malmö.\n'.encode('latin-1'))
    with pytest.raises(DataError, match='line 2 is not UTF-8 .byte 0xe9.*encoding latin-1'): read_frame(tmp_path/'own.csv')
    assert read_frame(tmp_path/'own.csv', 'latin-1')['text'].item() == 'Café in Malmö.'
    with pytest.raises(UsageError, match="no encoding 'latin-x'"): read_frame(tmp_path/'own.csv', 'latin-x')


def test_columns_of_mixed_types_lose_nothing(tmp_path):
    path = tmp_path/'own.jsonl'
    path.write_text('{"id": 1, "text": "a"}\n{"id": "x", "text": "b"}\n{"id": null, "text": "c"}')
    assert read_frame(path)['id'].to_list() == ['1', 'x', None]
    path.write_text('{"id": 1}\n{"id": {"a": 1}}')
    with pytest.raises(DataError, match='mixed types'): read_frame(path)


# ---------------------------------------------------------------- small files that went wrong

def test_a_mark_before_a_corpus(tmp_path):
    (tmp_path/'own.jsonl').write_bytes(b'\xef\xbb\xbf{"page": "Mill", "text": "The mill closed in 1931."}\n')
    assert read_passages(tmp_path/'own.jsonl').rows() == [('0', 'Mill', 'The mill closed in 1931.')]


def test_a_blank_line_is_no_row(tmp_path):
    (tmp_path/'own.csv').write_text('text,summary\nThe mill closed in 1931.,It closed.\n\n')
    assert load(tmp_path/'own.csv').height == 1


HALF = '"It closed in 1931 \\ud83d"'

def test_half_a_character_becomes_a_mark_in_every_file(tmp_path):
    path = tmp_path/'own.jsonl'
    path.write_text(f'{{"request_id": 1, "responder": "A", "response": {HALF}, "request": "When?", "document": "The mill closed."}}\n')
    assert read_responses(path).select('request_id', 'response').rows() == [('1', 'It closed in 1931 �')]
    path.write_text(f'{{"document": {HALF}, "summary": "It closed.", "label": "NFH"}}\n')
    assert read_mixed(path)['document'].item() == read_summaries(path)['document'].item() == 'It closed in 1931 �'
    path.write_text(f'{{"text": {HALF}, "summary": "It closed."}}\n')
    assert load(path)['text'].item() == read_table(path)['text'].item() == 'It closed in 1931 �'
    path.write_text(f'{{"entity": "Mill", "description": {HALF}}}\n')
    assert read_knowledge(path)['description'].item() == 'It closed in 1931 �'
    path.write_text(f'{{"id": 7, "text": {HALF}}}\n')
    assert gold_rows(path).select('id', 'text').rows() == [('7', 'It closed in 1931 �')]
    path.write_text(f'{{"id": 7, "request": "When?", "document": {HALF}}}\n')
    assert read_labelled_file(path).select('id', 'document').rows() == [('7', 'It closed in 1931 �')]


def test_places_in_a_summary_stay_where_they_were(tmp_path):
    summary = unicodedata.normalize('NFD', 'Zoë opened the café in Malmö.')
    at = summary.index('in Malmo')
    row = {'document': 'It opened.', 'summary': summary, 'label': 'NFH', 'start': at, 'end': at + 2}
    (tmp_path/'own.jsonl').write_text(json.dumps(row))
    read = read_mixed(tmp_path/'own.jsonl').row(0, named=True)
    assert read['summary'][read['start']:read['end']] == 'in' and read['summary'] == unicodedata.normalize('NFC', summary)
    row = {'document': 'It opened.', 'summary': summary, 'wrong_spans': [{'start': at, 'end': at + 2, 'text': 'in'}]}
    (tmp_path/'own.jsonl').write_text(json.dumps(row))
    read = read_summaries(tmp_path/'own.jsonl').row(0, named=True)
    span = read['wrong_spans'][0]
    assert read['summary'][span['start']:span['end']] == 'in'


# ---------------------------------------------------------------- folders

@pytest.fixture
def folder(tmp_path):
    place = tmp_path/'texts'
    (place/'.ipynb_checkpoints').mkdir(parents=True)
    (place/'.ipynb_checkpoints'/'mill-checkpoint.txt').write_text('The mill closed in 1913. It burned.')
    (place/'._mill.txt').write_bytes(b'\0\5\x16\7\0\2\0\0Mac OS X        \0\2\0\0\0\tATTR\xff com.apple')
    (place/'mill.txt').write_text('The mill closed in 1931. It burned.')
    (place/'tide.txt').write_bytes('The tide rises twice a day.'.encode('utf-16'))
    (place/'cafe.txt').write_bytes('Café in Malmö.'.encode('latin-1'))
    (place/'photo.md').write_bytes(b'GIF89a\0\0\1')
    (place/'notes.pdf').write_bytes(b'%PDF')
    return place


def test_a_folder_names_what_it_leaves_out(folder):
    found = read_folder(folder)
    assert found.texts == {'mill.txt': 'The mill closed in 1931. It burned.', 'tide.txt': 'The tide rises twice a day.'}
    assert {name: why.split(' (')[0] for name, why in found.left_out.items()} == {
        '._mill.txt': 'hidden', '.ipynb_checkpoints/mill-checkpoint.txt': 'hidden', 'cafe.txt': 'line 1 is not UTF-8',
        'notes.pdf': 'no .txt or .md', 'photo.md': 'has zero bytes: it is binary'}
    assert left_out_note(found.left_out).startswith('5 files were left out: ') and 'cafe.txt' in left_out_note(found.left_out)
    assert read_folder(folder, 'latin-1').texts['cafe.txt'] == 'Café in Malmö.'
    assert read_passages(folder)['page'].to_list() == ['mill.txt', 'tide.txt'] and left_out_of(folder) == found.left_out
    assert left_out_of('sample') == left_out_of(folder/'mill.txt') == {}


def test_a_folder_of_empty_files_says_so(tmp_path):
    for name in ('a.txt', 'b.md'): (tmp_path/name).write_text(' \n')
    with pytest.raises(DataError, match=r'2 files were left out: a.txt \(empty\); b.md \(empty\)'): read_folder(tmp_path)
    (tmp_path/'c.txt').write_text('The mill closed.')
    assert read_folder(tmp_path).left_out == {'a.txt': 'empty', 'b.md': 'empty'}


def test_a_folder_of_nothing_to_read_says_what_it_holds(folder):
    for name in ('mill.txt', 'tide.txt'): (folder/name).unlink()
    with pytest.raises(DataError, match='no .txt or .md files that can be read .5 files were left out: .*name their encoding'):
        open_corpus(folder)
