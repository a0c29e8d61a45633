"""Search and retrieval: against sorting, faiss, bm25s and ir-measures; corpora that are interrupted, damaged, of another encoder."""
import json
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from conftest import real_data
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.data.corpora import PASSAGES
from factlab.data.datasets import read_frame
from factlab.retrieval import corpus as retrieval
from factlab.retrieval import index as index_module
from factlab.retrieval.corpus import (
    Corpus,
    Prefixes,
    TextEncoder,
    cached_corpus,
    known_prefixes,
    load_text_search,
    measure,
    open_corpus,
    part_of,
    pieces,
    prefixes_of,
    prepare,
    recall_at_k,
)
from factlab.retrieval.index import BM25, ExactIndex, FaissIndex, Fused, Hits, MilvusIndex, fill_milvus, fuse, gather, load_index, top_k


class Letters:
    "An encoder of counts of letters: quick, and known by heart."
    name = 'letters'

    def __init__(self, revision=1): self.identity, self.asked = {'engine': 'letters', 'revision': revision}, []

    def encode(self, texts, store=None):
        self.asked += texts
        counts = np.array([[text.lower().count(letter) for letter in 'abcdefghijklmnopqrstuvwxyz'] for text in texts],
                          np.float32).reshape(-1, 26)
        return counts/np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


def passages_of(texts): return PASSAGES.frame([dict(id=f'p{i}', page=f'page {i//3}', text=text) for i, text in enumerate(texts)])


TEXTS = [f'{word} and {other}' for word in ('river', 'moon', 'tea', 'war', 'glass') for other in ('stone', 'king', 'boat', 'lamp')]


# search

def sorted_search(queries, vectors, k):
    "All scores, sorted; ties by number."
    scores = np.einsum('qd,nd->qn', queries, vectors).astype(np.float32)
    order = np.lexsort((np.broadcast_to(np.arange(len(vectors)), scores.shape), -scores), axis=1)[:, :k]
    return np.pad(order, ((0, 0), (0, max(0, k - len(vectors)))), constant_values=-1)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 50), st.integers(1, 9), st.integers(1, 5), st.integers(0, 10**6))
def test_exact_search_is_sorting_by_score_then_number(rows, n, k, step, queries_at_once, seed):
    generator = np.random.default_rng(seed)
    # whole numbers: many ties, no rounding
    vectors, queries = (generator.integers(-2, 3, (size, 4)).astype(np.float32) for size in (rows, n))
    index = ExactIndex(vectors)
    index.rows_at_once, index.queries_at_once = step, queries_at_once
    hits = index.search(queries, k)
    assert (hits.ids == sorted_search(queries, vectors, k)).all()
    assert (np.isneginf(hits.scores) == (hits.ids < 0)).all() and hits.ids.shape == hits.scores.shape == (n, k)


@settings(max_examples=60, deadline=None)
@given(st.integers(60, 500), st.integers(1, 4), st.integers(1, 6), st.integers(40, 500), st.sampled_from([1, 3, 1000]),
       st.integers(0, 10**6))
def test_blocks_much_wider_than_k_lose_no_hit(rows, n, k, step, values, seed):
    generator = np.random.default_rng(seed)
    vectors, queries = (generator.integers(-values, values + 1, (size, 2)).astype(np.float32) for size in (rows, n))
    index = ExactIndex(vectors)
    index.rows_at_once, index.spare = step, 0  # whole numbers: nothing needs to be settled later
    assert (index.search(queries, k).ids == sorted_search(queries, vectors, k)).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.integers(1, 5), st.integers(1, 12), st.sampled_from([np.float32, np.float64]), st.integers(0, 10**6))
def test_candidates_are_gathered_by_score_then_number(size, n, k, dtype, seed):
    generator = np.random.default_rng(seed)
    rows, ids = np.divmod(generator.choice(n*300, size, replace=False), 300)
    scores = generator.choice([-2., -1e-30, -0., 0., 1e-30, .5, .5 + 1e-12, 3e8, -np.inf], size).astype(dtype)
    hits = gather(rows, ids, scores, n, k)
    for row in range(n):
        expected = sorted((-score, id) for score, id in zip(scores[rows == row].tolist(), ids[rows == row].tolist(), strict=True))[:k]
        assert hits.ids[row].tolist() == [id for _, id in expected] + [-1]*(k - len(expected))


def test_scores_that_only_rise_and_corpora_of_one_text():
    rising = np.linspace(0, 1, 5000, dtype=np.float32)[:, None]
    index = ExactIndex(rising)
    index.rows_at_once = 64
    assert index.search(np.ones((3, 1), np.float32), 5).ids.tolist() == [[4999, 4998, 4997, 4996, 4995]]*3
    same = np.ones((5000, 3), np.float32)
    assert ExactIndex(same).search(same[:2], 4).ids.tolist() == [[0, 1, 2, 3]]*2


def test_half_precision_and_memory_mapped_vectors(tmp_path):
    generator = np.random.default_rng(0)
    vectors, queries = generator.standard_normal((3000, 16), dtype=np.float32), generator.standard_normal((20, 16), dtype=np.float32)
    np.save(tmp_path/'v.npy', vectors.astype(np.float16))
    mapped = np.load(tmp_path/'v.npy', mmap_mode='r')
    assert (ExactIndex(mapped).search(queries, 10).ids == sorted_search(queries, vectors.astype(np.float16).astype(np.float32), 10)).all()


def test_faiss_flat_and_milvus_agree_with_exact_search(tmp_path):
    generator = np.random.default_rng(1)
    vectors, queries = generator.standard_normal((2500, 24), dtype=np.float32), generator.standard_normal((30, 24), dtype=np.float32)
    exact = ExactIndex(vectors).search(queries, 12)
    flat = FaissIndex(vectors, 'flat').search(queries, 12)
    assert (flat.ids == exact.ids).all() and np.allclose(flat.scores, exact.scores, atol=1e-4)
    for kind in ('ivf', 'hnsw'):
        near = load_index(f'faiss:{kind}', vectors).search(queries, 12)
        assert np.mean([len({*a} & {*b})/12 for a, b in zip(near.ids.tolist(), exact.ids.tolist(), strict=True)]) > .8
    pytest.importorskip('pymilvus')
    served = fill_milvus(str(tmp_path/'v.db'), 'vectors', vectors)
    assert (served.search(queries, 12).ids == exact.ids).all() and len(served) == 2500
    served.close()
    again = load_index(f'milvus:{tmp_path/"v.db"}', vectors, 'vectors')
    assert (again.search(queries[:2], 3000).ids >= 0).sum() == 5000, 'k beyond the collection'
    with pytest.raises(DataError, match='24'): fill_milvus(str(tmp_path/'v.db'), 'vectors', vectors[:, :8])
    with pytest.raises(DataError, match='nothing'): MilvusIndex(str(tmp_path/'v.db'), 'nothing')
    again.close()


@pytest.mark.parametrize('kind', ['flat', 'ivf', 'hnsw'])
def test_a_saved_faiss_index_is_read_back_and_not_made_anew(tmp_path, kind, monkeypatch):
    generator = np.random.default_rng(0)
    vectors, queries = generator.standard_normal((2000, 8), dtype=np.float32), generator.standard_normal((20, 8), dtype=np.float32)
    made = FaissIndex(vectors, kind, probes=3)
    path = made.save(tmp_path/'index.faiss')
    def filled(*arguments): raise AssertionError('trained anew')
    monkeypatch.setattr(FaissIndex, '_fill', filled)
    read = FaissIndex.load(path)
    assert read.kind == kind and len(read) == 2000 and (kind != 'ivf' or read.engine.nprobe == 3)
    assert (read.search(queries, 9).ids == made.search(queries, 9).ids).all()


def test_files_that_are_no_faiss_index_of_ours(tmp_path):
    import faiss
    (tmp_path/'junk').write_bytes(b'x'*64)
    (tmp_path/'empty').write_bytes(b'')
    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path/'l2'))
    faiss.write_index(faiss.IndexPQ(4, 2, 4), str(tmp_path/'pq'))
    for name in ('nowhere', 'junk', 'empty'):
        with pytest.raises(DataError, match=f'cannot read the index .*{name}'): FaissIndex.load(tmp_path/name)
    for name in ('l2', 'pq'):
        with pytest.raises(DataError, match='another kind'): FaissIndex.load(tmp_path/name)


@pytest.mark.parametrize('kind', ['exact', 'faiss:flat', 'faiss:ivf', 'faiss:hnsw'])
def test_every_index_refuses_nan_and_pads(kind):
    vectors = np.eye(6, dtype=np.float32)
    index = load_index(kind, vectors)
    assert index.search(vectors[:1], 9).ids[0].tolist()[6:] == [-1]*3
    assert sorted(index.search(vectors[:1], 9).ids[0].tolist()[:6]) == list(range(6))
    with pytest.raises(DataError, match='queries'): index.search(vectors[:1]*np.nan, 1)
    with pytest.raises(DataError, match='6'): index.search(vectors[:, :5], 1)
    with pytest.raises(UsageError): index.search(vectors, 0)
    damaged = vectors.copy()
    damaged[4, 1] = np.inf
    with pytest.raises(DataError, match='row 4'): load_index(kind, damaged).search(vectors, 1)


def test_an_extra_that_is_missing_says_what_to_install(monkeypatch):
    for module, call in (('faiss', lambda: FaissIndex(np.eye(3, dtype=np.float32))), ('bm25s', lambda: BM25(['a'])),
                         ('pymilvus', lambda: MilvusIndex('x.db', 'y')),
                         ('pymilvus', lambda: fill_milvus('x.db', 'y', np.eye(3, dtype=np.float32)))):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(UsageError, match='pip install'): call()


class Refusing:
    "A client of Milvus that fails at one call."
    asked, at = [], ''
    def __init__(self, uri, **options): self.asked.append((uri, options))
    def __getattr__(self, name):
        def call(*values, **options):
            if name == self.at: raise RuntimeError('no permission\nand a trace')
            return False if name == 'has_collection' else self
        return call


@pytest.mark.parametrize('at', ['has_collection', 'create_collection'])
def test_the_token_is_sent_and_what_milvus_refuses_is_said(monkeypatch, at):
    pymilvus = pytest.importorskip('pymilvus')
    monkeypatch.setattr(pymilvus, 'MilvusClient', Refusing)
    monkeypatch.setattr(Refusing, 'at', at)
    monkeypatch.setattr(Refusing, 'asked', [])
    monkeypatch.setenv('MILVUS_TOKEN', 'root:secret')
    with pytest.raises(DataError, match=f'refused `{at}` .no permission') as refused:
        fill_milvus('http://host:1', 'vectors', np.eye(3, dtype=np.float32))
    assert Refusing.asked == [('http://host:1', {'token': 'root:secret'})] and 'secret' not in str(refused.value)
    assert 'trace' not in str(refused.value)
    monkeypatch.delenv('MILVUS_TOKEN')
    with pytest.raises(DataError): MilvusIndex('http://host:1', 'vectors')
    assert Refusing.asked[-1] == ('http://host:1', {})


def test_a_fusion_keeps_vectors_where_it_is_told_to(tmp_path):
    class Storing(Letters):
        stores = []
        def encode(self, texts, store=None): return self.stores.append(store) or super().encode(texts)
    corpus = Corpus.create(tmp_path, passages_of(TEXTS), Storing())
    Storing.stores.clear()
    one, two = (Fused([BM25(TEXTS), corpus]).search(['river'], 3, *store) for store in ((False,), ()))
    assert Storing.stores == [False, None] and (one.ids == two.ids).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 8), unique=True, max_size=6), min_size=1, max_size=3), st.integers(1, 10))
def test_fusion_is_the_sum_of_reciprocal_ranks(rankings, k):
    hits = [Hits(np.array([ids + [-1]*(6 - len(ids))]), np.zeros((1, 6), np.float32)) for ids in rankings]
    gains = {}
    for ids in rankings:
        for rank, id in enumerate(ids, 1): gains[id] = gains.get(id, 0) + 1/(60 + rank)
    fused = fuse(hits, k)
    expected = sorted(gains, key=lambda id: (-np.float32(gains[id]), id))[:k]
    assert fused.ids[0].tolist() == expected + [-1]*(k - len(expected))


# recall

@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_recall_agrees_with_ir_measures(seed):
    import ir_measures
    generator = np.random.default_rng(seed)
    ks, n = [1, 2, 5, 12], 6
    relevant = [set(generator.choice(30, generator.integers(1, 8), replace=False).tolist()) for _ in range(n)]
    hits = top_k(generator.random((n, 30)).astype(np.float32), 12)
    hits.ids[0, 5:] = -1
    truth = [ir_measures.Qrel(str(q), str(id), 1) for q, ids in enumerate(relevant) for id in ids]
    run = [ir_measures.ScoredDoc(str(q), str(id), float(-place)) for q, row in enumerate(hits.ids.tolist())
           for place, id in enumerate(row) if id >= 0]
    measures = [ir_measures.R@k for k in ks]
    theirs = ir_measures.calc_aggregate(measures, truth, run)
    ours = recall_at_k(hits, relevant, ks)
    assert np.allclose(ours.mean(0), [theirs[measure] for measure in measures])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 9), unique=True, max_size=5), st.sets(st.integers(0, 30), max_size=6)), max_size=6))
def test_recall_is_what_a_loop_counts(queries):
    ids = np.array([found + [-1]*(5 - len(found)) for found, _ in queries], np.int64).reshape(-1, 5)
    recalls = recall_at_k(Hits(ids, np.zeros(ids.shape)), [wanted for _, wanted in queries], [1, 3, 5])
    expected = [[len(set(found[:k]) & wanted)/len(wanted) if wanted else np.nan for k in (1, 3, 5)] for found, wanted in queries]
    assert np.array_equal(recalls, np.array(expected).reshape(-1, 3), equal_nan=True)


def test_recall_at_the_edges():
    hits = Hits(np.array([[0, 1], [1, -1]]), np.zeros((2, 2)))
    assert np.array_equal(recall_at_k(hits, [set(), {0}], [1, 2]), [[np.nan]*2, [0, 0]], equal_nan=True)
    with pytest.raises(UsageError, match='deep'): recall_at_k(hits, [set(), {0}], [3])
    with pytest.raises(UsageError, match='sets'): recall_at_k(hits, [set()], [1])


# corpora

def test_prefixes():
    assert known_prefixes('/models/e5-base-v2/') == known_prefixes('intfloat/e5-small') == ('query: ', 'passage: ')
    letters = Letters()
    wrapped = TextEncoder(letters, Prefixes('q: ', 'p: '))
    wrapped.queries(['x'], False), wrapped.passages(['y'])
    assert letters.asked == ['q: x', 'p: y'] and wrapped.identity != TextEncoder(letters).identity


def test_pieces_lose_nothing():
    text = 'one two  three\nfour '*400
    parts = pieces(text, 100)
    assert max(map(len, parts)) <= 100 and ' '.join(parts).split() == text.split()
    assert pieces('', 5) == [] and ''.join(pieces('x'*23, 5)) == 'x'*23


def test_a_passage_of_fifty_megabytes_is_split_and_said_so(tmp_path):
    huge = passages_of(['word '*10_000_000, 'a', '', 'a'])
    ready, counts = prepare(huge)
    assert counts == {'passages': 4, 'empty': 1, 'repeated': 1, 'split': 1, 'cut': 0} and len(ready) > 40_000
    assert ready['text'].str.len_chars().max() <= retrieval.LONGEST and ready['text'].str.count_matches('word').sum() == 10_000_000
    corpus = Corpus.create(tmp_path, huge, Letters(), long='cut')
    assert '1 cut' in corpus.notes and '1 empty' in corpus.notes and len(corpus) == 4


def test_equal_passages_have_equal_vectors_and_are_encoded_once(tmp_path):
    letters = Letters()
    corpus = Corpus.create(tmp_path, passages_of(TEXTS*3), letters, block=7)
    assert len(letters.asked) == len(TEXTS) + 1 and (corpus.vectors[:20] == corpus.vectors[40:]).all()  # the first text tells the dimension
    assert corpus.search(['river stone'], 3).ids.tolist() == [[0, 20, 40]]
    assert np.allclose(corpus.vectors, letters.encode(TEXTS*3))


@pytest.mark.parametrize('stop', [1, 3])
def test_an_interrupted_corpus_goes_on(tmp_path, stop, monkeypatch):
    whole, puts = retrieval._Writing.put, []
    def interrupted(self, start, block):
        puts.append(start)
        if len(puts) == stop: raise KeyboardInterrupt
        whole(self, start, block)
    monkeypatch.setattr(retrieval._Writing, 'put', interrupted)
    with pytest.raises(KeyboardInterrupt): Corpus.create(tmp_path, passages_of(TEXTS), Letters(), block=5)
    with pytest.raises(DataError, match='finished'): Corpus.open(tmp_path, Letters())
    corpus = Corpus.create(tmp_path, passages_of(TEXTS), Letters(), block=5)
    assert puts[stop:] == [start for start in (0, 5, 10, 15) if start >= 5*(stop - 1)]
    assert np.allclose(corpus.vectors, Letters().encode(TEXTS)) and not (tmp_path/retrieval.UNFINISHED).exists()


def test_what_was_begun_with_another_encoder_is_not_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setattr(retrieval._Writing, 'finish', lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt): Corpus.create(tmp_path, passages_of(TEXTS), Letters(1))
    monkeypatch.undo()
    second = Letters(2)
    Corpus.create(tmp_path, passages_of(TEXTS), second)
    assert len(second.asked) == len(TEXTS) + 1


def test_another_encoder_or_revision_is_refused_with_the_fix(tmp_path):
    Corpus.create(tmp_path, passages_of(TEXTS), Letters(1))
    with pytest.raises(DataError, match=r'(?s)revision.*encode the passages again'): Corpus.open(tmp_path, Letters(2))
    with pytest.raises(DataError, match='prefixes'): Corpus.open(tmp_path, TextEncoder(Letters(1), Prefixes('q ', 'p ')))
    with pytest.raises(DataError, match='another folder'): Corpus.create(tmp_path, passages_of(TEXTS[:3]), Letters(1))
    assert Corpus.create(tmp_path, passages_of(TEXTS), Letters(1)).folder == tmp_path


@pytest.mark.parametrize('file', ['vectors.npy', 'passages.parquet', 'manifest.json'])
@pytest.mark.parametrize('content', [b'', b'\x93NUMPY\x01\x00', b'{"a": 1}'])
def test_damage_is_named(tmp_path, file, content):
    Corpus.create(tmp_path, passages_of(TEXTS), Letters())
    (tmp_path/file).write_bytes(content)
    with pytest.raises(DataError, match='again'): Corpus.open(tmp_path, Letters())


def test_a_pickle_is_not_opened(tmp_path):
    Corpus.create(tmp_path, passages_of(TEXTS), Letters())
    np.save(tmp_path/'vectors.npy', np.array([{'a': 1}], object), allow_pickle=True)
    with pytest.raises(DataError, match='damaged'): Corpus.open(tmp_path, Letters())


def test_nan_embeddings_name_their_passage(tmp_path):
    class Broken(Letters):
        def encode(self, texts, store=None):
            return np.where(np.array(['tea and king' in t for t in texts])[:, None], np.nan, super().encode(texts))
    with pytest.raises(DataError, match="passage 9.*tea and king"): Corpus.create(tmp_path, passages_of(TEXTS), Broken())
    assert not (tmp_path/'manifest.json').exists()
    class Loud(Letters):
        def encode(self, texts, store=None): return 1e6*super().encode(texts)
    with pytest.raises(DataError, match='passage 0'): Corpus.create(tmp_path/'half', passages_of(TEXTS), Loud(), dtype='float16')


def test_half_the_size_finds_the_same(tmp_path):
    whole, half = (Corpus.create(tmp_path/dtype, passages_of(TEXTS), Letters(), dtype=dtype) for dtype in ('float32', 'float16'))
    assert half.vectors.dtype == np.float16
    assert (half.search(TEXTS, 1).ids == whole.search(TEXTS, 1).ids).all()


@pytest.mark.parametrize('index', ['faiss:flat', 'faiss:hnsw'])
def test_a_corpus_with_another_index(tmp_path, index):
    plain = Corpus.create(tmp_path, passages_of(TEXTS), Letters())
    other = Corpus.open(tmp_path, Letters(), index)
    assert np.allclose(other.search(TEXTS, 3).scores, plain.search(TEXTS, 3).scores, atol=1e-5)


def test_corpora_from_files(tmp_path):
    frame = passages_of(TEXTS)
    frame.write_parquet(tmp_path/'a.parquet')
    frame.select('text').write_ndjson(tmp_path/'b.jsonl')
    one, other = open_corpus(tmp_path/'a.parquet', Letters()), open_corpus(tmp_path/'b.jsonl', Letters())
    assert (one.vectors == other.vectors).all() and one.passages['id'][0] == 'p0' and other.passages['id'][0] == '0'
    assert one.texts(one.search(['tea boat'], 1)) == [['tea and boat']]
    assert open_corpus(one.folder, Letters()).folder == one.folder
    letters = Letters()
    assert cached_corpus(frame, letters).folder == one.folder and not letters.asked
    (tmp_path/'c.jsonl').write_text('{"claim": "x"}\n')
    with pytest.raises(DataError, match='text'): open_corpus(tmp_path/'c.jsonl', Letters())
    (tmp_path/'d.jsonl').write_text('{"text": \n')
    with pytest.raises(DataError, match='line 1 is not whole JSON'): open_corpus(tmp_path/'d.jsonl', Letters())
    (tmp_path/'empty').mkdir()
    with pytest.raises(DataError, match='no .txt'): open_corpus(tmp_path/'empty', Letters())
    (tmp_path/'e.jsonl').write_text(json.dumps({'text': ''}) + '\n')
    with pytest.raises(DataError, match='nothing to encode'): open_corpus(tmp_path/'e.jsonl', Letters())


def test_ids_of_files_are_text(tmp_path):
    (tmp_path/'a.csv').write_text('id,text,page\n007,one,1\n7,two,2\n1e3,three,3\n')
    assert retrieval.read_passages(tmp_path/'a.csv').rows() == [('007', '1', 'one'), ('7', '2', 'two'), ('1e3', '3', 'three')]
    assert open_corpus(tmp_path/'a.csv', Letters()).passages['id'].to_list() == ['007', '7', '1e3']
    (tmp_path/'B.CSV').write_text('text\n12\n')
    (tmp_path/'[c].JSONL').write_text('{"text": "one"}\n'*150 + '{"text": "two", "id": "x"}\n')
    passages_of(TEXTS).write_parquet(tmp_path/'[d]*.Parquet')
    assert retrieval.read_passages(tmp_path/'B.CSV').rows() == [('0', '0', '12')]
    assert retrieval.read_passages(tmp_path/'[c].JSONL')['id'][-1] == 'x'
    assert retrieval.read_passages(tmp_path/'[d]*.Parquet')['id'].to_list() == passages_of(TEXTS)['id'].to_list()
    pl.DataFrame({'text': [['a', 'b']]}).write_parquet(tmp_path/'e.parquet')
    with pytest.raises(DataError, match='lists or objects'): retrieval.read_passages(tmp_path/'e.parquet')


@pytest.mark.parametrize('name, content', [('a.csv', b''), ('a.parquet', b'PAR1'), ('a.jsonl', b'{"a": '), ('a.txt', b'a'),
                                           ('none.csv', None), ('a.csv', b'a,b\n\xff\xfe,1\n')])
def test_files_that_are_no_table(tmp_path, name, content):
    if content is not None: (tmp_path/name).write_bytes(content)
    with pytest.raises(UsageError if name == 'a.txt' else DataError, match=name): read_frame(tmp_path/name)


def test_the_pieces_of_a_passage_may_not_be_called_as_another_one():
    passages = PASSAGES.frame([dict(id=id, page='p', text=text) for id, text in (('a', 'word '*1000), ('a#2', 'short'))])
    with pytest.raises(DataError, match="2 passages .* comes twice, as 'a#2'"): prepare(passages)
    assert prepare(passages, 'cut')[0]['id'].to_list() == ['a', 'a#2']
    assert prepare(passages.with_columns(text=pl.lit('short')))[0]['id'].to_list() == ['a', 'a#2']


def test_no_queries_and_k_beyond_the_corpus(tmp_path):
    corpus = Corpus.create(tmp_path, passages_of(TEXTS[:3]), Letters())
    assert corpus.search([], 5).ids.shape == (0, 5)
    hits = corpus.search(['river'], 5)
    assert (hits.ids[0] >= 0).sum() == 3 and len(corpus.texts(hits)[0]) == 3
    assert Fused([corpus, BM25(TEXTS[:3])]).search(['river'], 5).ids[0].tolist()[3:] == [-1, -1]


def test_systems_by_name_on_real_claims():
    real_data('climate-fever')
    from factlab.data import corpora
    task = corpora.retrieval_task('climate-fever')
    passages = task.passages.head(300)
    relevance = task.relevance.join(passages, left_on='passage_id', right_on='id', how='semi').filter(pl.col('relevance') > 0)
    small = corpora.RetrievalTask('small', passages, task.claims.join(relevance, left_on='id', right_on='claim_id', how='semi'), relevance)
    recalls = measure('bm25', small, [1, 10, 100])
    assert len(recalls) > 30 and (np.diff(recalls, axis=1) >= 0).all() and recalls[:, 2].mean() > .5
    with pytest.raises(UsageError, match='split'): part_of(task, 'nowhere')
    assert isinstance(load_text_search('bm25', task.passages), BM25)


def test_part_of_a_task_keeps_its_own_pages():
    real_data('wice')
    from factlab.data import corpora
    task = corpora.retrieval_task('wice')
    test, dev = part_of(task, 'test'), part_of(task, 'dev')
    assert set(test.claims['split']) == {'test'} and len(test.passages) < len(task.passages) > len(dev.passages)
    text = dict(zip(task.passages['id'], task.passages['text'], strict=True))
    assert all(test.passages['text'][row] in text.values() for rows in test.relevant()[:20] for row in rows) and all(test.relevant())
    assert pl.concat([test.claims, dev.claims]).height == task.claims.height


# kept indexes

def words_of(n, seed=0):
    "Texts whose words are rare and common, as in language."
    generator = np.random.default_rng(seed)
    ranks = np.minimum(generator.zipf(1.3, (n, 14)), 3000)
    return [' '.join(f'w{rank}x' for rank in row[:generator.integers(1, 15)]) for row in ranks]


@pytest.mark.parametrize('k', [1, 400])
def test_bm25_finds_what_bm25s_finds(k):
    import bm25s
    import Stemmer
    texts, queries = words_of(3000), [*words_of(60, 1), 'w1x w1x w2x w3x', 'w1x', 'nothing known', '']
    found = BM25(texts).search(queries, k)
    stemmer = Stemmer.Stemmer('english')
    plain = bm25s.BM25()
    plain.index(bm25s.tokenize(texts, stopwords='en', stemmer=stemmer, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(queries, stopwords='en', stemmer=stemmer, show_progress=False, return_ids=False)
    scores = [plain.get_scores(known) if (known := [word for word in words if word in plain.vocab_dict]) else np.zeros(3000, np.float32)
              for words in tokens]
    expected = top_k(np.where(np.array(scores) > 0, scores, -np.inf).astype(np.float32), k)
    assert (found.ids == expected.ids).all() and (found.scores == expected.scores).all()


def test_a_saved_bm25_is_read_back(tmp_path):
    texts, queries = words_of(800), words_of(20, 1)
    for made in (BM25(texts), BM25(['', ' '])):
        folder = tmp_path/f'{len(made)}'
        folder.mkdir()
        made.save(folder)
        read = BM25.load(folder)
        assert len(read) == len(made) and all((a == b).all() for a, b in zip(read.search(queries, 9), made.search(queries, 9), strict=True))
    with pytest.raises(DataError, match='no BM25 index'): BM25.load(tmp_path)


def test_bm25_of_many_passages_is_kept_and_of_others_is_not_taken(home, monkeypatch):
    monkeypatch.setattr(retrieval, 'KEPT_FROM', 10)
    passages = passages_of(words_of(50))
    first = load_text_search('bm25', passages).search(['w1x w2x'], 5)
    made = []
    monkeypatch.setattr(index_module, '_word_ids', lambda *values: made.append(1) or ([[0]], {'a': 0}))
    assert (load_text_search('bm25', passages).search(['w1x w2x'], 5).ids == first.ids).all() and not made
    load_text_search('bm25', passages.head(49))
    assert made == [1]


@pytest.mark.parametrize('kind', ['ivf', 'hnsw'])
def test_an_index_of_a_corpus_is_trained_once_and_never_taken_for_another(tmp_path, kind, monkeypatch):
    made = []
    fill = FaissIndex._fill
    monkeypatch.setattr(FaissIndex, '_fill', lambda self, vectors: made.append(kind) or fill(self, vectors))
    texts = [f'{a} {b}' for a in TEXTS for b in TEXTS]
    def search(): return Corpus.open(tmp_path/'c', Letters(), index=f'faiss:{kind}').search(TEXTS[:3], 5).ids.tolist()
    Corpus.create(tmp_path/'c', passages_of(texts), Letters())
    first = search()
    assert search() == first and made == [kind]
    place = tmp_path/'c'/'indexes'/f'faiss-{kind}'
    content = bytearray((place/'index.faiss').read_bytes())
    content[-7] ^= 255
    (place/'index.faiss').write_bytes(content)
    with pytest.warns(UserWarning, match='damaged .index.faiss.*made anew'): assert search() == first
    other = Corpus.create(tmp_path/'other', passages_of(texts[::-1]), Letters())
    shutil.rmtree(place)
    monkeypatch.setattr(other, 'index_name', f'faiss:{kind}')
    other.search(TEXTS[:3], 5)
    shutil.copytree(tmp_path/'other'/'indexes'/f'faiss-{kind}', place)
    with pytest.warns(UserWarning, match='something else .other vectors'): assert search() == first
    assert len(made) == 4 and not [file for file in (tmp_path/'c'/'indexes').iterdir() if file.name.startswith('.')]


def test_an_index_that_cannot_be_kept_is_used_and_said_so(tmp_path):
    (tmp_path/'file').write_text('not a folder')
    def kept(folder, save): return index_module.kept_index(folder, {}, lambda: 'made', save, lambda place: 'read')
    with pytest.warns(UserWarning, match='may not be written'): assert kept(tmp_path/'file'/'index', lambda index, place: None) == 'made'
    def full(index, place): raise OSError(28, 'No space left on device')
    with pytest.warns(UserWarning, match='No space left.*free space'): assert kept(tmp_path/'index', full) == 'made'
    assert [file.name for file in tmp_path.iterdir() if file.is_dir()] == []
    assert kept(tmp_path/'index', lambda index, place: (place/'a').write_text('')) == 'made' and kept(tmp_path/'index', full) == 'read'


def test_a_kept_index_is_whole_or_not_there(tmp_path):
    script = '''
import os, sys
from pathlib import Path
from factlab.retrieval.index import save_folder
def write(folder):
    (folder/'a').write_bytes(b'x'*1000)
    if sys.argv[2] == 'die': os.kill(os.getpid(), 9)
save_folder(Path(sys.argv[1]), {'n': sys.argv[3]}, write)'''
    def run(*arguments): return subprocess.run([sys.executable, '-c', script, tmp_path/'index', *arguments]).returncode
    assert run('die', '1') == -9 and not (tmp_path/'index').exists()
    assert run('live', '1') == 0 and run('die', '2') == -9
    index_module.check_folder(tmp_path/'index', {'n': '1'})
    with pytest.raises(DataError, match='other n'): index_module.check_folder(tmp_path/'index', {'n': '2'})


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 50), st.integers(1, 9), st.integers(0, 10**6))
def test_exact_search_by_torch_is_sorting_too(rows, n, k, step, seed):
    "The way over a device, taken with the processor as the device."
    pytest.importorskip('torch')
    generator = np.random.default_rng(seed)
    vectors, queries = (generator.integers(-2, 3, (size, 4)).astype(np.float32) for size in (rows, n))
    index = ExactIndex(vectors)
    index.device, index.rows_on_device = 'cpu', step
    hits = index.search(queries, k)
    assert (hits.ids == sorted_search(queries, vectors, k)).all() and (np.isneginf(hits.scores) == (hits.ids < 0)).all()
    if rows:
        vectors[rows//2, 1] = np.nan
        with pytest.raises(DataError, match=f'row {rows//2}'): index.search(queries, k)


def test_milvus_goes_on_and_sends_only_what_is_missing(tmp_path, monkeypatch):
    pytest.importorskip('pymilvus')
    vectors = np.random.default_rng(0).standard_normal((2300, 8), dtype=np.float32)
    place, sent = str(tmp_path/'v.db'), []
    call = MilvusIndex._call
    def noted(self, name, *values, **options):
        if name == 'upsert': sent.append(len(values[1]))
        return call(self, name, *values, **options)
    monkeypatch.setattr(MilvusIndex, '_call', noted)
    half = fill_milvus(place, 'v', vectors[:1200])
    assert len(half) == 1200 and sent == [1000, 200]
    half._call('delete', 'v', ids=[5, 17])
    assert len(half) == 1198
    half.close()
    sent.clear()
    whole = load_index(f'milvus:{place}', vectors, 'v')
    assert len(whole) == 2300 and sent == [2, 800, 300]
    whole.close()
    sent.clear()
    again = fill_milvus(place, 'v', vectors)
    assert not sent and len(again) == 2300
    again.close()
    with pytest.raises(DataError, match='2300 rows, these are 9'): fill_milvus(place, 'v', vectors[:9])
    with pytest.raises(DataError, match='another vector as row 0'): fill_milvus(place, 'v', vectors[::-1])
    with pytest.raises(UsageError, match='option `index`'): load_index(f'milvus:{place}?speed=1', vectors, 'v')


def test_milvus_takes_its_index_by_name(tmp_path, kind='HNSW'):
    pytest.importorskip('pymilvus')
    vectors = np.random.default_rng(0).standard_normal((1500, 8), dtype=np.float32)
    index = load_index(f'milvus:{tmp_path/"v.db"}?index={kind}', vectors, 'v')
    assert {index._call('describe_index', 'v', name)['index_type'] for name in index._call('list_indexes', 'v')} == {kind}
    near, exact = index.search(vectors[:40], 10), ExactIndex(vectors).search(vectors[:40], 10)
    assert np.mean([len({*a} & {*b})/10 for a, b in zip(near.ids.tolist(), exact.ids.tolist(), strict=True)]) > .7
    index.close()


# prompts of encoders

@pytest.mark.parametrize(('prompts', 'expected'), [
    ({'query': 'Represent: '}, ('Represent: ', '')), ({'query': 'query: ', 'passage': 'passage: '}, ('query: ', 'passage: ')),
    ({'search_query': 'sq: ', 'search_document': 'sd: ', 'clustering': 'c'}, ('sq: ', 'sd: ')),
    ({'query': '', 'document': ''}, None), ({'STS': 'x'}, None), ({}, None)])
def test_prefixes_come_from_the_encoder_s_own_prompts(prompts, expected):
    assert prefixes_of(prompts) == expected
    class Prompted(Letters):
        def __init__(self): super().__init__(); self.prompts = prompts
    encoder = Prompted()
    TextEncoder(encoder).queries(['a claim'])
    assert encoder.asked == [(expected or ('', ''))[0] + 'a claim']
    assert TextEncoder(encoder, Prefixes('mine: ')).prefixes == ('mine: ', '')


# size

def test_blocks_of_claims_are_searched_as_all_at_once(tmp_path):
    corpus = Corpus.create(tmp_path/'c', passages_of(TEXTS), Letters())
    claims = [text[::-1] for text in TEXTS]
    whole = corpus.search(claims, 4)
    parts = list(corpus.searches(pl.Series(claims), 4, block=7))
    assert [start for start, _ in parts] == [0, 7, 14] and (np.concatenate([hits.ids for _, hits in parts]) == whole.ids).all()


def test_a_cached_corpus_is_digested_once(home, monkeypatch):
    digested = []
    whole = retrieval.content_digest
    monkeypatch.setattr(retrieval, 'content_digest', lambda frame: digested.append(1) or whole(frame))
    first = cached_corpus(passages_of(TEXTS), Letters())
    assert len(digested) == 1
    encoder = Letters()
    again = cached_corpus(passages_of(TEXTS), encoder)
    assert len(digested) == 2 and again.folder == first.folder and encoder.asked == []
    assert cached_corpus(passages_of(TEXTS[1:]), encoder).folder != first.folder
