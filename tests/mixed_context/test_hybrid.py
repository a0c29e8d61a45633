"""Hybrids: claims by rule, aggregation against brute force, thresholds against a full search, and what evidence leaves behind."""
from functools import cache

import numpy as np
import polars as pl
import pytest
from constant import Flat
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from factlab.core.core import DataError, UsageError
from factlab.mixed_context.evidence import summary_claims
from factlab.mixed_context.hybrid import (
    NO_EVIDENCE,
    AlignedScorer,
    ConstantScorer,
    DocumentScorer,
    Hybrid,
    KnowledgeScorer,
    OverlapScorer,
    SupportedShareScorer,
    WholeScorer,
    best_thresholds,
    fit_hybrid,
    hybrid_predictions,
    word_baselines,
)
from factlab.mixed_context.knowledge import KNOWLEDGE, KnowledgeIndex, Mention, known_names
from factlab.mixed_context.labels import FACTUAL, LABELS, MIXED_PREDICTIONS, NON_FACTUAL, NONE
from factlab.runs.identity import method_spec
from factlab.text.sentences import sentence_chunks

FIRE = 'The old mill on the Danube burnt down on Monday. Nobody was hurt. Police in Ulm are looking for witnesses.'
BASE = KNOWLEDGE.frame([{'entity': 'Danube', 'aliases': ['Donau'], 'description': 'a river of Europe', 'text': None},
                        {'entity': 'Victoria', 'aliases': [], 'description': 'a state of Australia', 'text': None},
                        {'entity': 'Victoria', 'aliases': [], 'description': 'a queen of Britain', 'text': 'She reigned for 63 years.'}])


class Words:
    "A verifier by words: ENT where the evidence has all words of the claim, CONTR where it has `not`."
    name, identity = 'words', {'verifier': 'words'}
    def __init__(self): self.batches = []
    def probabilities(self, pairs, store=None):
        self.batches.append(len(pairs))
        said = [set(claim.lower().strip('.').split()) <= set(evidence.lower().replace(':', ' ').replace('.', ' ').split()) | {'is'}
                for evidence, claim in pairs]
        return np.array([[.8, .1, .1] if each else [.1, .6, .3] for each in said], np.float32).reshape(-1, 3)


def rows_of(*summaries, labels=None):
    frame = pl.DataFrame({'id': [f'r{at}' for at in range(len(summaries))], 'document': [FIRE]*len(summaries), 'summary': list(summaries)},
                         schema_overrides={'summary': pl.String, 'document': pl.String, 'id': pl.String})
    return frame if labels is None else frame.with_columns(label=pl.Series(labels, dtype=pl.String))


def named(text, *names): return [Mention(text.index(name), text.index(name) + len(name), name, 'GPE') for name in names]


@pytest.mark.parametrize(('summary', 'names', 'said'), [
    ('The Danube, a river of Europe, rose.', ['Danube'], ['Danube is a river of Europe.', 'The Danube rose.']),
    ('It fell into the Danube, a river of Europe.', ['Danube'], ['Danube is a river of Europe.', 'It fell into the Danube.']),
    ('Ann (the mayor of Ulm) spoke.', ['Ann'], ['Ann is the mayor of Ulm.', 'Ann spoke.']),
    ('In Ulm, police said that it burnt.', [], ['In Ulm, police said that it burnt.']),
    ('Ann, who is ill, spoke.', ['Ann'], ['Ann, who is ill, spoke.']),
    ('Ann, 23, spoke.', ['Ann'], ['Ann, 23, spoke.']),
    ('', [], []), ('…', [], [])])
def test_claims_by_rule(summary, names, said):
    claims, = summary_claims([summary], [named(summary, *names)])
    assert [claim.text for claim in claims] == said
    assert [claim.described for claim in claims][:1] == ([len(said) > 1] if said else [])


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet='AbÜא ,.()–!\n', max_size=60), st.integers(0, 50), st.integers(1, 8))
def test_claims_of_any_text(summary, start, length):
    found = [Mention(start, start + length, summary[start:start + length], 'ORG')] if summary[start:start + length].strip() else []
    claims, = summary_claims([summary], [found])
    assert all(any(letter.isalnum() for letter in claim.text) for claim in claims)


def test_aligned_is_the_mean_of_the_best_chunks():
    rows = rows_of('Nobody was hurt. The tower fell.')
    read_all = AlignedScorer(Words(), words=8, chunks=None)
    brute = np.mean([max(Words().probabilities([(chunk, sentence)])[0, 0] for chunk in sentence_chunks(FIRE, 8))
                     for sentence in ('Nobody was hurt.', 'The tower fell.')])
    assert np.isclose(read_all.scores(rows)[0], brute) and np.isclose(brute, .45)
    verifier = Words()
    assert np.isclose(AlignedScorer(verifier, words=8, chunks=1).scores(rows)[0], brute)
    assert verifier.batches == [2]  # one chunk for each sentence
    assert (AlignedScorer(verifier).words, AlignedScorer(verifier).chunks) == (350, None)  # as published
    whole = WholeScorer(Words())
    assert np.isclose(whole.scores(rows)[0], Words().probabilities(rows.select('document', 'summary').rows())[0, 0])
    assert AlignedScorer(Words()).scores(rows_of('')).tolist() == [NO_EVIDENCE]


def test_the_least_supported_claim_speaks_for_the_document():
    verifier = Words()
    found = DocumentScorer(verifier, Flat(), sentences=9).scores(rows_of('Nobody was hurt.', 'Nobody was hurt. All fled.'))
    assert np.allclose(found, [.8, .1]) and len(verifier.batches) == 1


def test_every_entry_of_an_ambiguous_name_is_read_and_the_best_counts():
    rows = rows_of('Police met Victoria, a queen of Britain, there.', 'Police met Victoria, a tram of Perth, there.', 'Nobody was hurt.')
    verifier = Words()
    scorer = KnowledgeScorer(BASE, verifier)
    readings, _ = scorer.read(rows)
    assert [each.row for each in readings] == [0, 0, 1, 1] and len({each.evidence for each in readings}) == 2 and len(verifier.batches) == 1
    queen = KNOWLEDGE.frame([{'entity': 'Victoria', 'aliases': [], 'description': 'a queen of Britain', 'text': None}])
    share = SupportedShareScorer(queen, Words())
    assert share.scores(rows).tolist() == [1, 0, NO_EVIDENCE]
    assert scorer.scores(rows)[2] == NO_EVIDENCE
    assert KnowledgeScorer(KNOWLEDGE.frame(), Words()).scores(rows).tolist() == [NO_EVIDENCE]*3


def test_names_are_found_without_a_tagger():
    index = KnowledgeIndex(BASE)
    assert known_names("On the Donau's bank, Victoria met the Danube.", index) == ["Donau's", 'Victoria', 'Danube']
    assert known_names('', index) == []
    assert [text for _, text in index.evidence('Victoria')] == ['Victoria is a state of Australia.',
                                                                'Victoria is a queen of Britain. She reigned for 63 years.']


def test_baselines_that_compare_words_tell_three_labels_apart_and_see_no_sense():
    rows = rows_of('The mill burnt.', 'The mill on the Danube, a river, burnt.', 'The mill on the Danube, a tram, burnt.',
                   labels=[NONE, FACTUAL, NON_FACTUAL])
    fitted = {name: fit_hybrid(each, rows, store=False) for name, each in word_baselines(BASE).items()}
    assert fitted['words and knowledge'].predict(rows, store=False)['label'].equals(rows['label'])
    assert len(set(fitted['words of the document'].predict(rows, store=False)['label'][1:])) == 1  # it has no word on the world
    unlike = rows.with_columns(pl.lit('Danube, burnt on a river, the mill.').alias('summary'))  # the words are there, the sense is not
    assert set(fitted['words and knowledge'].predict(unlike, store=False)['label']) == {FACTUAL}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(LABELS), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=15))
def test_thresholds_are_the_best_of_a_full_search(drawn):
    labels, first, second = ([row[at] for row in drawn] for at in range(3))
    first, second = np.array(first)/4, np.array(second)/4
    cuts, reached = best_thresholds(labels, first, second)
    def score(one, other):
        return f1(tuple(NONE if a >= one else FACTUAL if b >= other else NON_FACTUAL for a, b in zip(first, second, strict=True)))
    @cache  # most cuts say the same
    def f1(said):
        return f1_score(labels, said, labels=sorted(set(labels)), average='macro', zero_division=0)
    grid = np.arange(-1, 5)/4 + 1/8  # below, between and above the five values that there are
    assert np.isclose(reached, max(score(one, other) for one in grid for other in grid))
    assert np.isclose(score(*cuts), reached)


def test_a_faithful_summary_asks_nothing_of_the_world():
    found = hybrid_predictions(rows_of('a', 'b', 'c'), np.array([.5, .4, .4]), np.array([0, .5, .4]), (.5, .5))
    assert found['label'].to_list() == [NONE, FACTUAL, NON_FACTUAL] and found['factual'].to_list() == [None, True, False]
    assert 'no evidence' in found['reason'][1] and MIXED_PREDICTIONS.check(found).height == 3


def test_a_hybrid_is_fitted_and_recorded():
    rows = rows_of('Nobody was hurt.', 'The Danube, a river of Europe, burnt.', 'The Danube, a tram of Perth, burnt.',
                   labels=[NONE, FACTUAL, NON_FACTUAL])
    hybrid = fit_hybrid(Hybrid(OverlapScorer(), SupportedShareScorer(BASE, Words())), rows)
    assert hybrid.predict(rows)['label'].to_list() == rows['label'].to_list()
    again = Hybrid(OverlapScorer(), SupportedShareScorer(BASE.head(1), Words()), hybrid.thresholds)
    assert method_spec(hybrid) != method_spec(again)  # another knowledge base is another method
    assert hybrid.predict(rows.clear()).is_empty()


def test_bad_input_is_named():
    hybrid = Hybrid(OverlapScorer(), ConstantScorer())
    with pytest.raises(UsageError, match='labelled rows'): fit_hybrid(hybrid, rows_of('a'))
    with pytest.raises(DataError, match='no row to choose'): best_thresholds([], np.zeros(0), np.zeros(0))
    with pytest.raises(DataError, match='there twice'): hybrid.predict(pl.concat([rows_of('a')]*2))
