"""FACTS' data sets: the shipped sample is what it says of itself; the published files are read as they are."""
import json
import os
import re
from pathlib import Path

import polars as pl
import pytest
from conftest import written
from sklearn.metrics import roc_auc_score

from factlab.core.core import DataError
from factlab.data.datasets import load
from factlab.grounding.parsing import LABELS
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import execute
from factlab.studies.facts.data_sets import FACTS_COLUMNS, FACTS_SAMPLE, TRANSCRIBED, load_facts, load_facts_sample
from factlab.studies.facts.illustrations import composition, evasion_plan, example_evasions, example_requests, length_cells, request_lengths
from factlab.studies.facts.measured import judge_cells, judges_plan
from factlab.studies.facts.study import load_data
from factlab.studies.fhsum.cases import example_of, example_plan

WRONG = {'unsupported', 'contradictory'}
ERRORS = {'grounded': (0, 0), 'one_error': (1, 1), 'copying': (1, 1), 'several_errors': (2, 99), 'evasive': (0, 0), 'refusal': (0, 0)}


@pytest.fixture(scope='module')
def sample(): return load('facts-sample')


@pytest.fixture(scope='module')
def transcribed():
    place = Path(os.environ.get('FACTLAB_DATA', '/nowhere'))/'facts'/TRANSCRIBED
    if not place.is_file(): pytest.skip('the transcribed examples are not at hand')
    return load('facts-examples')


def words(text: str) -> list[str]: return re.findall(r'\w+', text.lower())


# ---- the sample ----------------------------------------------------------------------------------------------------------------------


def test_ids_are_unique_and_splits_are_disjoint_by_document(sample):
    assert FACTS_SAMPLE.check(sample).equals(sample) and sample['id'].is_unique().all() and sample.null_count().sum_horizontal().item() == 0
    same = sample.group_by('document_id').agg(pl.col('split', 'document', 'request', 'system').n_unique())
    assert same.drop('document_id').max().row(0) == (1, 1, 1, 1)
    assert sample['document'].n_unique() == sample['document_id'].n_unique() == sample['request'].n_unique()
    assert all(id.startswith(f'{document}/{kind}') for id, document, kind in sample.select('id', 'document_id', 'kind').iter_rows())


def test_labels_are_those_of_the_kind(sample):
    for row in sample.iter_rows(named=True):
        labels = [sentence['label'] for sentence in row['sentences']]
        errors = sum(label in WRONG for label in labels)
        low, high = ERRORS[row['kind']]
        assert set(labels) <= set(LABELS) and low <= errors <= high, row['id']
        assert row['accurate'] == (errors == 0) and row['eligible'] == (row['kind'] not in ('evasive', 'refusal')), row['id']
        if row['kind'] == 'refusal': assert set(labels) == {'no_rad'}, row['id']
        assert row['response'] == ' '.join(sentence['sentence'] for sentence in row['sentences']), row['id']


def test_every_excerpt_is_verbatim_in_its_document(sample):
    for row in sample.iter_rows(named=True):
        for sentence in row['sentences']:
            assert bool(sentence['excerpts']) == (sentence['label'] in ('supported', 'contradictory')), (row['id'], sentence)
            for excerpt in sentence['excerpts']: assert excerpt.strip() == excerpt and excerpt in row['document'], (row['id'], excerpt)


def test_numbers_of_supported_sentences_are_in_the_document(sample):
    "Figures written as digits in a supported sentence occur in the document, save for the few that are worked out from it."
    worked_out = {('fin-03/grounded', '35'), ('fin-03/grounded', '145'), ('ret-02/evasive', '26'), ('leg-05/grounded', '690'),
                  ('med-05/grounded', '302'),  # in words there
                  ('leg-05/grounded', '660'), ('leg-05/one_error', '660'), ('leg-05/grounded', '180')}
    numbers = lambda text: set(re.findall(r'\d+(?:[.,:]\d+)*', text))
    found = {(row['id'], number) for row in sample.iter_rows(named=True)
             for sentence in row['sentences'] if sentence['label'] == 'supported'
             for number in numbers(sentence['sentence']) - numbers(row['document'] + row['request'])}
    assert found <= worked_out


def test_neither_length_nor_shared_words_give_the_label_away(sample):
    lengths = [len(words(response)) for response in sample['response']]
    known = [set(words(document)) for document in sample['document']]
    pairs = zip(sample['response'], known, strict=True)
    shared = [sum(word in have for word in words(response))/len(words(response)) for response, have in pairs]
    accurate = sample['accurate'].to_list()
    for guess in (lengths, shared): assert .3 < roc_auc_score(accurate, guess) < .7
    eligible = sample.with_columns(words=pl.Series(lengths)).filter('eligible')
    assert .3 < roc_auc_score(eligible['accurate'], eligible['words']) < .7
    longest = sample.with_columns(words=pl.Series(lengths)).sort('words', descending=True).unique('document_id', keep='first')
    assert .2 < (longest['kind'] == 'grounded').mean() < .8


def test_nothing_of_the_sample_is_in_the_public_examples(sample, transcribed):
    runs = lambda text: {tuple(words(text)[i:i + 8]) for i in range(len(words(text)) - 7)}
    public = set().union(*map(runs, transcribed['document'])) | set().union(*map(runs, transcribed['request']))
    ours = set().union(*map(runs, sample['document'].unique())) | set().union(*map(runs, sample['request'].unique()))
    assert len(public) > 1000 and not ours & public


def test_the_sample_says_when_it_is_missing(tmp_path):
    with pytest.raises(DataError, match='Install factlab again'): load_facts_sample(folder=tmp_path)


# ---- the published files --------------------------------------------------------------------------------------------------------------


def test_public_examples_are_read_and_other_files_refused(home, tmp_path, monkeypatch):
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path))
    with pytest.raises(DataError, match=r'facts/examples.csv is not at hand .* Put the file at'): load_facts(download=False)
    (tmp_path/'facts').mkdir()
    rows = [dict(system='Use the text, "only".', request='What, then?', document='One.\n\nTwo, three.'),
            dict(system='Be brief.', request='Who?', document='Nobody.')]
    theirs = pl.DataFrame(rows).rename(FACTS_COLUMNS)
    theirs.write_csv(tmp_path/'facts'/'examples.csv')
    assert load('facts').rows(named=True) == [{'id': f'facts-00{number}', **row} for number, row in enumerate(rows, 1)]
    more = {'full_prompt': 'all of it', 'domain': 'Legal', 'type': 'Q&A', 'high_level_type': 'other'}
    theirs.with_columns(pl.lit(value).alias(name) for name, value in more.items()).write_csv(tmp_path/'facts'/'examples.csv')
    kept = {'domain': 'Legal', 'task': 'Q&A', 'full_prompt': 'all of it'}
    assert load('facts').rows(named=True) == [{'id': f'facts-00{number}', **row, **kept} for number, row in enumerate(rows, 1)]
    assert composition(load('facts'))['name'].to_list() == ['Legal', 'Q&A'] and example_requests(load('facts')).height == 1
    theirs.drop('user_request').write_csv(tmp_path/'facts'/'examples.csv')
    with pytest.raises(DataError, match='has no column user_request'): load('facts')


# ---- a file of the same shape, which the notebooks promise to take --------------------------------------------------------------------


def test_a_file_of_the_samples_shape_gives_what_the_sample_gives(sample, tmp_path):
    own = written(tmp_path/'own.jsonl', *sample.to_dicts())
    assert composition(load_data(own)).equals(composition(sample)) and example_requests(load_data(own)).equals(example_requests(sample))
    plans = evasion_plan(data=own), evasion_plan()
    assert len({example_evasions(plan, execute(plan)).drop('reason').rows().__repr__() for plan in plans}) == 1
    plans = [judges_plan(data=data, judges=['words'], padded_to=0, limit=4) for data in (own, 'sample')]
    done = execute(*plans)
    first, second = (judge_cells(plan, done) for plan in plans)
    assert first.equals(second) and first.height > 20


def test_a_file_without_kinds_or_splits_shows_its_ineligible_responses(sample, tmp_path):
    rows = sample.head(10).with_columns(kind=pl.lit('mine')).drop('split', 'sentences').rename({'kind': 'responder'})
    own = written(tmp_path/'own.jsonl', *rows.to_dicts())
    plan = evasion_plan(data=own)
    assert example_evasions(plan, execute(plan))['id'].to_list() == rows.filter(~pl.col('eligible'))['id'].head(3).to_list()
    assert example_requests(load_data(own)).height == 1


@pytest.mark.parametrize(('make', 'dropped', 'said'), [
    (lambda own: composition(load_data(own)), ['task'], 'does not say task'),
    (lambda own: example_requests(load_data(own)), ['domain'], 'does not say domain'),
    (lambda own: evasion_plan(data=own), ['eligible'], 'no labels eligible'),
    (lambda own: evasion_plan(data=own), ['response'], r"\['kind', 'response'\]|\['document_id', 'response'\]"),
    (lambda own: judges_plan(data=own, judges=['words']), ['sentences'], r"\['sentences'\] missing"),
    (lambda own: judges_plan(data=own, judges=['words'], limit=4), ['domain'], r"\['domain'\] missing. Add the columns, or set padded_to"),
    (lambda own: judges_plan(data=own, judges=['words'], padded_to=0, limit=4), ['accurate'], 'no labels accurate')])
def test_what_a_file_lacks_is_named(sample, make, dropped, said, tmp_path):
    with pytest.raises(DataError, match=said): make(written(tmp_path/'own.jsonl', *sample.drop(dropped).to_dicts()))


def test_a_row_with_a_fault_is_named_by_its_line(sample, tmp_path):
    for more, said in (({'accurate': 'perhaps'}, "line 2: accurate is 'perhaps', expected true or false"),
                       ({'request': None}, 'line 2: request is NoneType, expected text')):
        rows = [sample.row(0, named=True), sample.row(1, named=True) | more]
        (tmp_path/'own.jsonl').write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
        with pytest.raises(DataError, match=said): load_data(str(tmp_path/'own.jsonl'))


def test_table8_of_fhsum_takes_a_file_without_splits(tmp_path):
    rows = load('fhsum-sample').filter(split='dev').select('id', 'document', 'summary', 'label')
    model = ScriptedModel('silent', lambda request: 'no idea', '1')
    plans = [example_plan(models=['silent'], data=data, loaded={'silent': model})
             for data in (written(tmp_path/'own.jsonl', *rows.to_dicts()), 'sample')]
    done = execute(*plans)
    assert len({example_of(plan, done)[0]['id'].item() for plan in plans}) == 1


def test_lengths_are_those_of_each_request_once_beside_the_papers(sample):
    documents = sample.unique('document_id')['document']
    words = [len(document.split()) for document in documents]
    first = request_lengths(sample).row(0, named=True)
    assert first['part'] == 'Context document' and first['requests'] == 42
    assert first['mean'] == pytest.approx(sum(words)/42) and first['longest'] == max(words)
    cells = length_cells(request_lengths(sample, 'tiny'))
    assert cells.filter(row='Context document').drop_nulls('published').select('column', 'published').rows() == [
        ('Mean tokens (k)', 2.5), ('Tokens at most (k)', 32)]
