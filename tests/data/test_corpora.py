"""Claims, evidence and passages: the public sets with their published counts, data of OASIS' shape, tasks of retrieval."""
import json
import subprocess
import sys
from collections import Counter

import polars as pl
import pytest
from conftest import real_data
from hypothesis import given
from hypothesis import strategies as st

from factlab.core import registry
from factlab.core.core import DataError, UsageError
from factlab.data import claim_sets, corpora, files
from factlab.data import datasets as data
from factlab.data.datasets import Rows
from factlab.text.words import normal_text

ROW = dict(page='Bamboo', passage='Bamboo is a grass. It grows fast.', claims=['Bamboo is a grass.', 'Bamboo grows fast.'], altered=0,
           falsified='Bamboo is a tree.', factual='Bamboo belongs to the grasses.', unfactual='Bamboo belongs to the trees.')


def read(*rows): return Rows('own.jsonl', rows, [f'line {number}' for number in range(1, len(rows) + 1)])


def lines_of(name, file):
    "A published file, read without the library's help."
    return [json.loads(line) for line in files.get(name, file, download=False).read_text(encoding='utf-8').splitlines()]


# ---------------------------------------------------------------- public sets: as published, and as counted without polars

def test_climate_fever():
    real_data('climate-fever')
    pairs = data.load('climate-fever')
    assert (pairs.height, pairs['group'].n_unique(), pairs['evidence'].n_unique()) == (7675, 1535, 5240)
    assert pairs['id'].is_unique().all() and corpora.LABELLED.check(pairs).height == 7675
    flat = [(claim['claim'], one['evidence'], one['evidence_label'], claim['claim_label'])
            for claim in lines_of('climate-fever', 'climate-fever.jsonl') for one in claim['evidences']]
    assert pairs.select('claim', 'evidence', 'label_original', 'claim_label').rows() == flat
    assert Counter(pairs['label']) == {'NEUT': 4930, 'ENT': 1943, 'CONTR': 802}
    assert set(pairs.filter(claim_label='DISPUTED')['label']) == {'ENT', 'CONTR', 'NEUT'}


def test_wice():
    real_data('wice')
    pairs = data.load('wice')
    assert (pairs.height, pairs['group'].n_unique()) == (2113, 707) and pairs['id'].is_unique().all()
    assert Counter(pairs['split']) == {'dev': 1043, 'test': 1070}
    published = [row for split in ('dev', 'test') for row in lines_of('wice', f'oracle_chunks_claim_{split}.jsonl')]
    assert pairs.select('claim', 'evidence', 'label_original').rows() == [
        (row['claim'], normal_text(' '.join(row['evidence'])), row['label']) for row in published]  # a few are not composed as published
    assert dict(pairs.select('label_original', 'label').unique().rows()) == corpora.WICE_LABELS


def test_dialfact():
    real_data('dialfact')
    pairs = data.load('dialfact')
    assert pairs.height == 8689 and Counter(pairs['supported']) == {False: 5348, True: 3341}
    assert pairs.select((pl.col('label') == 'ENT').fill_null(False).eq(pl.col('supported')).all()).item()
    assert pairs.group_by('evidence').agg(pl.col('group').n_unique())['group'].max() == 1
    assert data.load('dialfact', split='test', limit=3).equals(pairs.head(3))


def test_fm2():
    real_data('fm2')
    pairs = data.load('fm2')
    assert Counter(pairs['split']) == {'dev': 1169, 'test': 1380} and pairs['id'].is_unique().all()
    published = [row for split in ('dev', 'test') for row in lines_of('fm2', f'{split}.jsonl')]
    assert pairs.select('claim', 'evidence', 'label_original', 'group').rows() == [
        (row['text'], ' '.join(one['text'] for one in row['gold_evidence']), row['label'], row['wikipedia_page']) for row in published]
    assert pairs['retrieved'].list.len().sum() == sum(len(row['retrieved_evidence']) for row in published)
    pages = pairs.group_by('split').agg('group')['group'].to_list()
    assert not set(pages[0]) & set(pages[1])  # no page trains and measures


def test_snli():
    real_data('snli')
    pairs = data.load('snli')
    assert Counter(pairs['split']) == {'dev': 9842, 'test': 9824} and pairs['id'].is_unique().all()
    dev = pairs.filter(split='dev')
    for column, file in (('evidence', 's1'), ('claim', 's2'), ('label_original', 'labels')):
        assert dev[column].to_list() == [line.strip() for line in files.get('snli', f'{file}.dev').read_text(encoding='utf-8').splitlines()]
    assert dict(pairs.select('label_original', 'label').unique().rows()) == claim_sets.SNLI_LABELS
    assert pairs.group_by('evidence').agg(pl.col('group').n_unique())['group'].max() == 1


def test_summedits():
    real_data('summedits')
    pairs = data.load('summedits')
    assert pairs.height == 4681 and pairs['id'].is_unique().all() and pairs['group'].n_unique() == 162
    news = json.loads(files.get('summedits', 'summedits_news.json').read_text(encoding='utf-8'))
    assert pairs.filter(domain='news').select('evidence', 'claim', pl.col('supported').cast(pl.Int64)).rows() == [
        (row['doc'], row['summary'], row['label']) for row in news]
    assert pairs.group_by('group').agg(pl.col('split').n_unique())['split'].max() == 1  # a document is in one part
    documents = Counter(pairs.unique('group')['split'])
    assert documents == {'train': 97, 'test': 65}


def test_factscore():
    real_data('factscore')
    facts = data.load('factscore')
    assert facts['facts'].list.len().sum() == facts['labels'].list.len().sum() == 16040
    assert facts['topic'].n_unique() == 183 and facts['id'].is_unique().all() and facts['facts'].is_null().sum() == 232
    assert Counter(facts['labels'].explode().drop_nulls()) == {'S': 10106, 'NS': 4419, 'IR': 1515}
    splits = facts.select('topic', 'split').unique()
    assert splits.height == 183 and Counter(splits['split']) == {'train': 146, 'test': 37}
    rows = [(bio['topic'], one['text'], bio['output'], one['human-atomic-facts'] and [fact['text'] for fact in one['human-atomic-facts']])
            for system in corpora.FACTSCORE_SYSTEMS for bio in lines_of('factscore', f'labeled_{system}.jsonl')
            for one in bio['annotations'] or ()]
    assert facts.select('topic', 'sentence', 'text', 'facts').rows() == rows


def test_xquad():
    real_data('xquad')
    passages = data.load('xquad')
    assert corpora.PASSAGES.check(passages).height == 240 and passages['page'].n_unique() == 48 and passages['id'].is_unique().all()
    assert not passages['page'].str.contains('_').any() and passages['text'].is_unique().all()


# ---------------------------------------------------------------- tasks of retrieval

def test_retrieval_of_climate_fever():
    real_data('climate-fever')
    task = corpora.retrieval_task('climate-fever')
    assert task.passages.height == 5240 and task.passages['text'].is_unique().all()
    texts = task.passages['text'].to_list()
    expected = {claim['claim']: {one['evidence'] for one in claim['evidences'] if one['evidence_label'] != 'NOT_ENOUGH_INFO'}
                for claim in lines_of('climate-fever', 'climate-fever.jsonl')}
    found = {text: {texts[i] for i in rows} for text, rows in zip(task.claims['text'], task.relevant(), strict=True)}
    assert found == {claim: sentences for claim, sentences in expected.items() if sentences}
    assert task.relevance.height == 5*task.claims.height  # what was judged and decides nothing has relevance 0


def test_retrieval_of_wice():
    real_data('wice')
    task = corpora.retrieval_task('wice')
    claims = [row for split in ('dev', 'test') for row in lines_of('wice', f'entailment_retrieval_claim_{split}.jsonl')]
    for row in claims: row['evidence'] = [*map(normal_text, row['evidence'])]
    assert len(claims) == 707 and sum(len(row['evidence']) for row in claims) == 86853
    assert set(task.passages['text']) == {text for row in claims for text in row['evidence'] if text.strip()}
    texts = task.passages['text'].to_list()
    expected = {row['meta']['id']: {row['evidence'][i] for i in {i for one in row['supporting_sentences'] for i in one}} for row in claims}
    found = {one: {texts[i] for i in rows} for one, rows in zip(task.claims['id'], task.relevant(), strict=True)}
    assert found == {one: sentences for one, sentences in expected.items() if sentences}


def test_retrieval_of_own_rows():
    frame = corpora.oasis_frame(read(ROW | {'page_passages': ['Pandas eat bamboo.', 'Rice is a grass.']},
                                     ROW | {'page': 'Rice', 'passage': 'Rice is a grass.'}))
    task = corpora.oasis_retrieval(frame)
    assert task.passages.select('page', 'text').rows() == [('Bamboo', ROW['passage']), ('Rice', 'Rice is a grass.'),
                                                           ('Bamboo', 'Pandas eat bamboo.')]
    assert dict(zip(task.claims['id'], task.relevant(), strict=True)) == {
        'oasis-0001-c0': {0}, 'oasis-0001-c1': {0}, 'oasis-0001-falsified': {0}, 'oasis-0002-c0': {1}, 'oasis-0002-c1': {1},
                                                                          'oasis-0002-falsified': {1}}
    assert corpora.oasis_retrieval(frame.clear()).passages.is_empty()


def test_an_unknown_task():
    with pytest.raises(UsageError, match="'wise' cannot serve here: take sample, oasis, climate-fever, wice, a file"):
        corpora.retrieval_task('wise')


# ---------------------------------------------------------------- splits

@given(st.lists(st.text(max_size=5)), st.sampled_from([{'train': 1.}, {'a': .8, 'b': .2}, {'a': .8, 'b': .1, 'c': .1}]), st.randoms())
def test_splits_follow_the_key_alone(keys, shares, random):
    parts = corpora.split_by(pl.Series(keys, dtype=pl.String), shares).to_list()
    shuffled = list(zip(keys, parts, strict=True))
    random.shuffle(shuffled)
    again = corpora.split_by(pl.Series([key for key, _ in shuffled], dtype=pl.String), shares).to_list()
    assert again == [part for _, part in shuffled]
    sizes, different = Counter(dict(zip(keys, parts, strict=True)).values()), len(set(keys))
    assert sum(sizes.values()) == different
    for part, share in shares.items(): assert abs(sizes[part] - share*different) <= 1


def test_shares_that_do_not_sum_to_one():
    with pytest.raises(UsageError, match='sum to 0.9'): corpora.split_by(pl.Series(['a']), {'train': .7, 'test': .2})


def test_what_trains_is_not_reported_on():
    rows = pl.DataFrame({'n': [1, 2, 3, 4], 'split': ['train', 'test', 'dev', 'train']})
    for name, kept, told in (('mine', [2, 3], 'dev, test'), ('wice', [1, 2, 4], 'test, train'), ('sample', [1, 2, 3, 4], 'all')):
        left, split = corpora.held_out(rows, name)
        assert (left['n'].to_list(), split) == (kept, told)
    left, split = corpora.held_out(rows.filter(split='train'), 'mine')
    assert left['n'].to_list() == [1, 4] and split == 'train: there is no other'


# ---------------------------------------------------------------- data of OASIS' shape

@pytest.mark.parametrize(('wrong', 'words'), [
    ({'altered': -1}, 'altered is -1, expected the place of a claim, 0 to 1'), ({'altered': '0'}, "altered is '0'"),
                                              ({'altered': None}, 'altered is None'),
    ({'altered': 0.0}, 'altered is 0.0'), ({'claims': []}, 'claims is empty'), ({'claims': None}, 'claims is None'),
                                              ({'claims': ['One.', 2]}, 'expected a list of texts'),
    ({'page': ''}, "page is ''"), ({'passage': None}, 'passage is None'), ({'falsified': ' BAMBOO  is a grass.'}, 'same as claim 0'),
    ({'unfactual': 'Bamboo  belongs to the grasses.'}, 'unfactual text is the same'),
                                              ({'page_passages': 'One.'}, "page_passages is 'One.'"),
    ({'page_passages': ['\n']}, 'page_passages is'),
    ({'split': 'dev'}, "split is 'dev', expected train, validation, test"),
                                              ({'id': 'oasis-0001'}, "id 'oasis-0001' is already that of line 1")])
def test_a_wrong_row_is_named(wrong, words):
    with pytest.raises(DataError, match='line 2: .*' + words.replace('.', r'\.')): corpora.oasis_frame(read(ROW, ROW | wrong))


def test_half_a_character_becomes_a_mark():
    frame = corpora.oasis_frame(read(ROW, ROW | {'page': 'Reed', 'factual': 'half \ud800', 'claims': ['Bamboo is a grass.', '\udfff']}))
    assert frame['factual'][1] == 'half �' and frame['claims'][1].to_list() == ['Bamboo is a grass.', '�']


def test_missing_columns_and_no_rows():
    for name in corpora.OASIS_NEEDED:
        with pytest.raises(DataError, match=f'line 1: {name}'):
            corpora.oasis_frame(read({key: value for key, value in ROW.items() if key != name}))
    with pytest.raises(DataError, match='has no rows: expected page, passage'): corpora.oasis_frame(read())


@pytest.mark.parametrize('suffix', ['jsonl', 'json', 'parquet'])
def test_a_file_comes_back_as_it_was(tmp_path, suffix):
    frame = corpora.oasis_frame(read(ROW,
                                     ROW | {'page': 'Rice {x} %s', 'passage': 'Ünïcode\u2028 "quoted"\ttab.', 'page_passages': ['One.']}))
    path = tmp_path/f'own.{suffix}'
    {'jsonl': frame.write_ndjson, 'json': frame.write_json, 'parquet': frame.write_parquet}[suffix](path)
    assert corpora.load_oasis_file(path).equals(frame)
    assert corpora.retrieval_task(path).passages.height == 3


def test_data_by_every_name_that_it_has(tmp_path, monkeypatch):
    frame = corpora.oasis_frame(read(ROW, ROW | {'page': 'Rice'}))
    (tmp_path/'build').mkdir()
    for place in (tmp_path/'own.parquet', tmp_path/'build'/'oasis.parquet'): frame.write_parquet(place)
    monkeypatch.setattr(corpora, 'load', lambda name: {'oasis': frame}[name])
    for name in ('oasis', tmp_path/'own.parquet', str(tmp_path/'build'), f'{tmp_path}/build/'):
        assert corpora.load_oasis_data(name).equals(frame)
        assert corpora.retrieval_task(name).claims.height == 6
    assert corpora.load_oasis_file(tmp_path/'build').equals(frame) and corpora.load_oasis_data('sample').equals(corpora.load_oasis_sample())
    with pytest.raises(UsageError, match="'climate-fever' cannot serve here: take sample, oasis, factscore, a file of OASIS' shape that "
                                         "ends in .*, or a folder"):
        corpora.load_oasis_data('climate-fever', ['factscore'])
    with pytest.raises(UsageError, match='expected a file .* or a folder .*, or by name sample or oasis'):
        corpora.load_oasis_file('climate-fever')
    (tmp_path/'empty').mkdir()
    with pytest.raises(DataError, match=r'there is no file .*empty/oasis\.parquet: expected'): corpora.load_oasis_data(tmp_path/'empty')


def test_files_that_are_none(tmp_path):
    with pytest.raises(DataError, match='there is no file'): corpora.load_oasis_file(tmp_path/'own.jsonl')
    with pytest.raises(UsageError, match='ends in .jsonl'): corpora.load_oasis_file(tmp_path/'own.csv')
    (tmp_path/'own.jsonl').write_bytes(b'{"page": "Bam\xff"}')
    with pytest.raises(DataError, match='line 1 is not UTF-8'): corpora.load_oasis_file(tmp_path/'own.jsonl')
    (tmp_path/'own.jsonl').write_text(json.dumps(ROW) + '\n' + json.dumps(ROW)[:-9])
    with pytest.raises(DataError, match='line 2 is not whole JSON'): corpora.load_oasis_file(tmp_path/'own.jsonl')


def test_the_two_tasks():
    frame = corpora.oasis_frame(read(ROW, ROW | {'altered': 1, 'falsified': 'Bamboo grows slowly.'}))
    texts, pairs = corpora.end_to_end_texts(frame), corpora.verification_pairs(frame)
    assert texts.select('id', 'factual', 'group').rows() == [('oasis-0001-factual', True, 'oasis-0001'),
                                                             ('oasis-0001-unfactual', False, 'oasis-0001'),
                                                             ('oasis-0002-factual', True, 'oasis-0002'),
                                                             ('oasis-0002-unfactual', False, 'oasis-0002')]
    assert pairs.select('claim', 'label', 'supported').rows() == [('Bamboo is a grass.', 'ENT', True),
                                                                  ('Bamboo is a tree.', 'CONTR', False),
                                                                  ('Bamboo grows fast.', 'ENT', True),
                                                                  ('Bamboo grows slowly.', 'CONTR', False)]
    assert set(pairs['evidence']) == {ROW['factual']}


# ---------------------------------------------------------------- the sample

def test_the_sample():
    sample = data.load('oasis-sample')
    assert corpora.OASIS.check(sample).height >= 60 and sample['id'].is_unique().all() and sample['page'].is_unique().all()
    assert sample.select((pl.col('claims').list.len() >= 5).all()).item()
    assert sample.select((pl.col('page_passages').list.len() >= 2).all()).item()
    shares = {name: count/sample.height for name, count in Counter(sample['split']).items()}
    assert abs(shares['train'] - .8) < .02 and abs(shares['validation'] - .1) < .02 and abs(shares['test'] - .1) < .02
    task = corpora.retrieval_task('sample')
    assert task.claims.height == sample['claims'].list.len().sum() + sample.height and all(len(rows) == 1 for rows in task.relevant())
    words = sample.select(pl.col('claims').explode()).to_series().str.split(' ').list.len()
    assert words.max() <= 15


def test_a_short_passage_in_the_sample(tmp_path):
    (tmp_path/'oasis_a.jsonl').write_text(json.dumps(ROW) + '\n')
    with pytest.raises(DataError, match='oasis_a.jsonl, line 1: the passage has 2 sentences, expected 5'):
        corpora.load_oasis_sample(tmp_path)
    with pytest.raises(DataError, match=r'there is no oasis_\*'): corpora.load_oasis_sample(tmp_path/'nowhere')


def test_data_finds_loaders_that_it_does_not_import():
    code = 'import sys, factlab.data.datasets; print({"factlab.data.corpora", "factlab.data.hub"} & set(sys.modules) or "none")'
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout.strip() == 'none'
    assert all(callable(registry.loader(entry)) for entry in registry.entries('data').values())
