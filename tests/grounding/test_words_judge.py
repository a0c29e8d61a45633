"""The judge of words: what it counts, that it loads no model, and that it is above a constant on the test split."""
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from factlab.core.core import ModelError, UsageError
from factlab.data.datasets import fingerprint, load
from factlab.grounding.embedded_judge import labelled_sentences, read_grounding_decision
from factlab.grounding.offline_judges import DECIDED_BY, load_grounding_judge
from factlab.grounding.words_judge import WORD_FEATURES, fit_words_decision, read_words
from factlab.measures.baselines import balanced_accuracy, class_counts

DOCUMENT = 'The mill opened in 1901. It has two stones and a wooden wheel. The owner sells flour on Mondays. No bread is baked there.'


def features(sentence: str) -> dict: return dict(zip(WORD_FEATURES, read_words([(DOCUMENT, sentence)]).features[0], strict=True))


@pytest.mark.parametrize('sentence, lacking', [('It opened in 1901.', 0), ('It opened in 1950.', 1), ('It has 2 stones.', 0),
    ('It has nine stones and 14 wheels.', 2)])
def test_numbers_are_looked_for_in_digits_and_words(sentence, lacking): assert features(sentence)['numbers_not_in_document'] == lacking


def test_words_of_two_sentences_are_found_near_each_other_only():
    near, far = features('It has stones, and flour is sold.'), features('It opened, and no bread is baked.')
    assert near['in_three_sentences'] > near['in_one_sentence'] and far['in_document'] > far['in_three_sentences']


def test_odd_sentences_and_documents():
    seen = read_words([('', ''), (DOCUMENT, ''), ('', 'The mill opened.'), ('x'*10000, '½ % — 7'), (DOCUMENT, '水車は1901年に開いた。')])
    assert np.isfinite(seen.features).all() and seen.features.shape == (5, len(WORD_FEATURES)) and read_words([]).features.shape[0] == 0


def test_it_loads_no_model():
    "A judge that is only asked for words must not make a user wait for weights."
    code = ("import sys; from factlab.grounding.offline_judges import load_grounding_judge; import polars as pl; "
            "row = pl.DataFrame({'id': ['a'], 'document': ['The mill opened.'], 'request': ['When?'], 'response': ['It opened.']}); "
            "load_grounding_judge('words').predict(row); assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules), "
            "[name for name in sys.modules if 'torch' in name][:3]")
    subprocess.run([sys.executable, '-c', code], check=True)


def test_the_decision_is_that_of_the_development_split_and_no_feature_has_the_wrong_sign(tmp_path):
    development = load('facts-sample', split='dev')
    judge = load_grounding_judge('words')
    assert judge.decision == fit_words_decision(development)
    assert judge.decision.fitted_on['digest'] == fingerprint(development.select('id', 'document', 'response', 'sentences'))
    weights = dict(zip(WORD_FEATURES, judge.decision.weights, strict=True))
    assert weights['in_document'] > 0 > weights['numbers_not_in_document']
    with pytest.raises(ModelError, match='for 7 features'): read_grounding_decision(_shipped())  # those of the other judge


def _shipped():
    from factlab.core.core import assets_dir
    from factlab.grounding.words_judge import WORDS_FILE
    return assets_dir('grounding')/WORDS_FILE


def test_its_two_ways_to_decide_differ_and_others_are_refused():
    test = load('facts-sample', split='test')
    said = {template: load_grounding_judge('words', template).predict(test) for template in DECIDED_BY}
    accurate = [said[template]['accurate'].sum() for template in ('span', 'response')]
    assert accurate[0] < accurate[1]  # the threshold of sentences is the stricter one
    for wrong in (('nobody', 'response'), ('words', 'json')):
        with pytest.raises(UsageError): load_grounding_judge(*wrong)


def test_it_is_above_a_constant_on_the_test_split():
    sentences = labelled_sentences(load('facts-sample', split='test'))
    judge = load_grounding_judge('words')
    scores = judge.decision.scores(judge.read(sentences.select('document', 'sentence').rows()).features)
    said = (scores >= judge.decision.sentences) | ~sentences['open'].to_numpy()
    assert balanced_accuracy(class_counts(sentences['grounded'], pl.Series(said), [False, True]).sum(0)) > .55
