"""Files with a byte order mark, blank last lines and numbers for ids are read wherever users' files are taken."""
import codecs
import json
from pathlib import Path

import pytest

from factlab.building.wikidata import kept_names
from factlab.data.datasets import load
from factlab.grounding.responses import read_responses
from factlab.mixed_context.knowledge import read_knowledge
from factlab.models.endpoint_answers import listed_price
from factlab.models.endpoint_batches import read_lines
from factlab.studies.fhsum.commands import read_summaries
from factlab.verification.asked_verifier import read_form


def marked(path: Path, *lines: dict) -> Path:
    "A file of JSON lines, or of one object, with a mark and blank lines at its end."
    path.write_bytes(codecs.BOM_UTF8 + '\r\n'.join(map(json.dumps, lines)).encode() + b'\r\n\r\n\n')
    return path


def marked_table(path: Path, *lines: str) -> Path:
    path.write_bytes(codecs.BOM_UTF8 + '\r\n'.join(lines).encode() + b'\r\n\r\n  \r\n')
    return path


@pytest.mark.parametrize('table', [False, True])
def test_rows_with_marks_blank_ends_and_numbers_for_ids(tmp_path, table):
    def given(name: str, **row):
        if table: return marked_table(tmp_path/f'{name}.csv', ','.join(row), ','.join(map(str, row.values())))
        return marked(tmp_path/f'{name}.jsonl', row)
    assert read_summaries(given('summaries', id=7, document='A note.', summary='A sum.'))['id'].to_list() == ['7']
    found = read_responses(given('responses', request_id=7, responder='a', response='x', request='?', document='A note.'))
    assert found['request_id'].to_list() == ['7'] and found['response'].to_list() == ['x']
    assert load(str(given('final', id=7, text='A note.', summary='A sum.')))['id'].to_list() == ['7']


def test_other_files_with_marks(tmp_path, monkeypatch):
    assert read_knowledge(marked(tmp_path/'known.jsonl', {'entity': 'A', 'description': 'b'}))['entity'].to_list() == ['A']
    assert kept_names(marked(tmp_path/'a.wikidata.jsonl', {'name': 'A', 'rows': []})) == {'A'}
    form = {'user': '{evidence} {claim}', 'answers': {'Yes': 'ENT', 'No': 'CONTR'}}
    assert read_form(marked(tmp_path/'form.json', form)).name == 'form'
    price = {'host': 'https://host.example', 'model': 'm', 'from': '2026-01-01', 'prompt': 1, 'completion': 2}
    monkeypatch.setenv('FACTLAB_PRICES', str(marked(tmp_path/'prices.json', {'prices': [price]})))
    assert listed_price('m', 'https://host.example/v1') == (1, 2)


def test_the_output_of_a_batch_with_a_mark_and_blank_lines():
    line = json.dumps({'custom_id': 'k', 'response': {'status_code': 200, 'body': {}}}).encode()
    found, broken = read_lines([codecs.BOM_UTF8 + line + b'\r\n\r\n\n'])
    assert found['k'].status == 200 and broken == 0
