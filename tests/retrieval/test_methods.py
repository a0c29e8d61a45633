"""Steps that search passages: which evidence a text gets, and how well passages support it."""
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError
from factlab.data.corpora import PASSAGES
from factlab.models.dry_run import DryRun
from factlab.retrieval.corpus import TextEncoder, create_corpus
from factlab.retrieval.index import Hits
from factlab.retrieval.methods import Evidence, NamedCorpus, WordSupport, by_rank, first_passages
from factlab.text.words import content_overlaps


@given(st.lists(st.lists(st.integers(-1, 9), max_size=6), max_size=5), st.integers(1, 8))
def test_evidence_goes_by_rank(found, k):
    expected = []
    for rank in range(6):
        for row in found:
            if rank < len(row) and row[rank] >= 0 and row[rank] not in expected: expected.append(row[rank])
    assert by_rank(found, k) == expected[:k]


class InOrder:
    "In a corpus' place: the first passages, whatever is looked for."
    identity = {'in order': 1}

    def __init__(self, texts):
        self.passages = PASSAGES.frame({'id': [*map(str, range(len(texts)))], 'page': ['']*len(texts), 'text': texts})

    def search(self, texts, k, store=None) -> Hits: return first_passages(len(self.passages), len(texts), k)


def test_support_of_reference_claims_by_hand():
    "Of each text the claim that is least said by the best of its passages; of a text without claims the text itself."
    passages = ['Mills grind corn by water.', 'Sheep graze on hills.', 'Never found.']
    texts = pl.DataFrame({'id': list('abc'), 'text': ['Mills.', 'Sheep.', 'Mills grind slowly.']})
    stated = [['Mills grind corn.', 'Sheep graze on roofs.'], ['Mills grind corn.', 'Sheep sleep.'], []]
    claims = texts.select('id', claims=pl.Series(stated))
    found = WordSupport(InOrder(passages), 2).predict(texts, None, False, claims=claims)
    text = max(content_overlaps([('Mills grind slowly.', passage) for passage in passages[:2]]))
    assert found['support'].to_list() == pytest.approx([2/3, 1/2, text])


def test_a_corpus_is_known_before_it_is_searched(home, monkeypatch, tmp_path):
    "A frame, a file and an encoded folder; a dry run encodes nothing, and another encoder's folder is refused at once."
    passages = InOrder(['Owls hunt.', 'Otters swim.']).passages
    passages.write_parquet(tmp_path/'passages.parquet')
    create_corpus(tmp_path/'encoded', passages, 'tiny')
    frame, file, folder = (NamedCorpus(source, TextEncoder('tiny')) for source in (passages, str(tmp_path/'passages.parquet'),
                                                                                 str(tmp_path/'encoded')))
    assert frame.identity == file.identity != folder.identity and folder.identity['retriever'] == frame.identity['retriever']
    with monkeypatch.context() as no, DryRun():
        no.setattr('factlab.models.encoder._loaded', lambda *_: 1/0)
        assert all(corpus.search(['Otters'], 1).ids.tolist() == [[0]] for corpus in (frame, file, folder))
    assert all(corpus.search(['Otters'], 1, False).ids.tolist() == [[1]] for corpus in (frame, file, folder))
    with pytest.raises(DataError, match='was encoded by'): NamedCorpus(str(tmp_path/'encoded'), TextEncoder('retriever'))
    with pytest.raises(DataError, match='no passages'): NamedCorpus(passages.clear(), TextEncoder('tiny'))


def test_a_text_without_claims_is_looked_up_as_a_whole():
    texts = pl.DataFrame({'id': ['a', 'b'], 'text': ['One.', 'Two.']})
    claims = pl.DataFrame({'id': ['b', 'a'], 'claims': [None, ['One.', 'Uno.']]})
    found = Evidence(InOrder(['x', 'y', 'z']), 2).predict(texts, None, False, claims=claims)
    assert found['passages'].to_list() == [['0', '1'], ['0', '1']] and found['evidence'].to_list() == [['x', 'y']]*2
