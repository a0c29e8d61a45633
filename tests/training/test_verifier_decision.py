"The decision on top of the verifier: its pairs, its regression against scikit-learn, what it does to claims of several sentences."
import random

import numpy as np
import pytest
from conftest import real_data
from sklearn.linear_model import LogisticRegression

from factlab.core.core import DataError
from factlab.training.verifier_decision import (
    ClaimFeatures,
    balancing_weights,
    copied_news,
    decision_pairs,
    fit_decision,
    held_out_log_odds,
    held_out_passages,
    rising_regression,
    with_replaced_name,
    write_decision,
    written_lengths,
)
from factlab.verification.tiny_verifier import DECISION_FEATURES, read_decision


def drawn(n=400, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < .3
    return rng.normal(size=(n, len(DECISION_FEATURES))) + np.linspace(0, 1.5, len(DECISION_FEATURES))*truth[:, None], truth


def test_the_regression_is_that_of_scikit_learn_where_all_slopes_rise():
    table, truth = drawn()
    weights = np.random.default_rng(1).random(400) + .5
    slopes, intercept = rising_regression(table[:, 2:], truth, weights, penalty=2.0)
    centre, scale = table[:, 2:].mean(0), table[:, 2:].std(0)
    library = LogisticRegression(C=.5, tol=1e-10, max_iter=10_000).fit((table[:, 2:] - centre)/scale, truth, weights)
    assert np.allclose(slopes*scale, library.coef_[0], atol=1e-3)
    assert intercept + slopes @ centre == pytest.approx(library.intercept_[0], abs=1e-3)


def test_a_falling_slope_is_held_at_zero():
    table, truth = drawn()
    assert (rising_regression(-table[:, 2:], truth, np.ones(400))[0] == 0).all()
    with pytest.raises(DataError, match='supported'): rising_regression(table, truth | True, np.ones(400))


def test_every_kind_and_label_counts_the_same():
    kind, truth = ['a']*10 + ['b']*2, np.array([True]*3 + [False]*7 + [True, False])
    weights = balancing_weights(kind, truth)
    sums = [weights[[one == wanted and label == said for one, label in zip(kind, truth, strict=True)]].sum()
            for wanted in 'ab' for said in (True, False)]
    assert np.allclose(sums, 3)


def test_one_wrong_sentence_decides_on_summaries():
    "Summaries of three sentences, of which one is wrong in half of them: the lowest counts, not the mean alone."
    table, truth = drawn(1200)
    rng = np.random.default_rng(2)
    good, bad = table[truth], table[~truth]
    labels, parts = rng.random(300) < .5, []
    for label in labels:
        three = good[rng.integers(len(good), size=3)].copy()
        if not label: three[rng.integers(3)] = bad[rng.integers(len(bad))] - 2
        parts.append(three)
    features = ClaimFeatures(np.concatenate([table, *parts]), np.concatenate([np.arange(1200), np.repeat(np.arange(1200, 1500), 3)]))
    said = np.concatenate([truth, labels])
    fitted = fit_decision(features, said, ['one']*1200 + ['summary']*300)
    found = features.log_odds(fitted)[1200:] > 0
    assert fitted.several['lowest'] > 0 and (found == labels).mean() > .7


def test_a_source_is_judged_by_what_others_taught():
    "The labels of one source are turned round: its own decision cannot have seen them."
    table, truth = drawn(900)
    source = np.repeat(['a', 'b', 'c'], 300)
    said = np.where(source == 'c', ~truth, truth)
    found = held_out_log_odds(ClaimFeatures(table, np.arange(900)), said, source, source)
    assert ((found > 0) == said)[source == 'c'].mean() < .4


def test_written_and_read_again(tmp_path):
    table, truth = drawn()
    fitted = fit_decision(ClaimFeatures(table, np.arange(400)), truth, ['a']*400)
    write_decision(fitted, tmp_path, {'a': 400})
    assert np.allclose(read_decision(tmp_path).log_odds(table), fitted.log_odds(table), atol=.01)


def test_written_pairs_are_of_held_out_pages_and_hide_nothing_in_their_length():
    written = held_out_passages()
    pairs = written_lengths(written, 200)
    assert set(pairs['group']) <= {f'written/{topic}' for topic in written['topic']} and 10 < len(written) < 300
    lengths, truth = pairs['evidence'].str.len_chars().to_numpy(), pairs['supported'].to_numpy()
    assert abs(np.median(lengths[truth])/np.median(lengths[~truth]) - 1) < .35 and .35 < truth.mean() < .65


def test_a_copied_summary_is_altered_in_one_place():
    text = ' '.join(f'On {day} May the mayor of Bremen met {name} for a long talk about trams.' for day, name in
                    enumerate(('Ann Voss', 'Otto Lund', 'Ida Berg', 'Karl Moe', 'Eva Holm', 'Per Dahl', 'Ulf Aas'), 11))
    found = copied_news({f'g{at}': text for at in range(30)}, 30)
    assert {True, False} == set(found['supported'])
    from factlab.text.sentences import split_sentences
    for claim, supported in found.select('claim', 'supported').iter_rows():
        assert sum(sentence not in text for sentence in split_sentences(claim)) == (0 if supported else 1)
    assert with_replaced_name('Nothing here.', [text], random.Random(0)) is None


def test_no_measured_pair_is_fitted_on():
    for name in ('defacto', 'final', 'xsumfaith', 'entfa', 'dialfact', 'climate-fever', 'wice'): real_data(name)
    import polars as pl

    from factlab.training.verifier import judged_pairs
    from factlab.training.verifier_evaluation import measured_pairs
    judged = judged_pairs().with_columns(split=pl.lit('dev'))
    others = judged.head(40).with_columns(source=pl.lit('written'), kind=pl.lit('part'))
    made = [judged, others, others.with_columns(kind=pl.lit('elsewhere')), others.with_columns(source=pl.lit('xquad'))]
    pairs = decision_pairs(pl.concat(made), 30)
    for name, first in (('final', None), ('xsumfaith', None), ('dialfact', 1_600), ('climate-fever', 1_600)):
        measured = measured_pairs(name, first)
        assert not set(pairs['evidence']) & set(measured['evidence']) or name in ('dialfact', 'climate-fever')
        assert not set(pairs.select('claim', 'evidence').rows()) & set(measured.select('claim', 'evidence').rows())


def test_a_further_feature_can_be_tried_beside_those_that_ship():
    "A feature that says the truth takes the weight; without it, or in another order of the columns, nothing else is lost."
    table, truth = drawn()
    told = np.column_stack([4.0*truth, table])
    names = ('told', *DECISION_FEATURES)
    wide = ClaimFeatures(told, np.arange(400), names)
    fitted = fit_decision(wide, truth, ['a']*400)
    assert tuple(fitted.weights) == names and max(fitted.weights, key=fitted.weights.get) == 'told'
    assert ((wide.log_odds(fitted) > 0) == truth).all()
    turned = ClaimFeatures(told[:, ::-1], np.arange(400), names[::-1])
    assert np.allclose(turned.log_odds(fitted), wide.log_odds(fitted)) and turned.some(truth).names == names[::-1]
    plain = ClaimFeatures(table, np.arange(400))
    assert np.allclose(plain.log_odds(fit_decision(plain, truth, ['a']*400)), fit_decision(plain, truth, ['a']*400).log_odds(table))
