"""Scores of three labels against scikit-learn, a printed row of the paper, and what must hold for every table."""
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from factlab.core.core import DataError, UsageError
from factlab.mixed_context.labels import FACTUAL, LABELS, MIXED_PREDICTIONS, NON_FACTUAL, NONE, UNNAMED
from factlab.mixed_context.scores import (
    ANSWERS,
    BASELINES,
    UNPARSED,
    Baseline,
    fitted_labels,
    inserted_words,
    label_contrasts,
    label_scores,
    label_shares,
    over_baselines,
    surface_counts,
)

FEW = {'resamples': 50}


def rows_of(labels, **columns):
    return pl.DataFrame({'id': [f'r{at}' for at in range(len(labels))], 'document': ['d']*len(labels), 'summary': ['s']*len(labels),
                         'label': pl.Series(labels, dtype=pl.String), **columns})


def said(answers, status='unparsed'):
    return MIXED_PREDICTIONS.frame([{'id': f'r{at}', 'status': status if answer == UNPARSED else 'ok',
                                     'label': None if answer == UNPARSED else answer} for at, answer in enumerate(answers)])


def value(scores, metric, label=None, method='m'):
    there = pl.col('label').is_null() if label is None else pl.col('label') == label
    return scores.filter((pl.col('method') == method) & (pl.col('metric') == metric) & there)['value'].item()


pairs = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(ANSWERS)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_scores_are_those_of_scikit_learn(drawn):
    truth, answers = map(list, zip(*drawn, strict=True))
    scores = label_scores(rows_of(truth), {'m': said(answers)}, **FEW)
    there = [label for label in LABELS if label in truth]
    macro = precision_recall_fscore_support(truth, answers, labels=there, average='macro', zero_division=0)
    assert np.allclose([value(scores, f'macro {name}') for name in ('precision', 'recall', 'f1')], macro[:3])
    assert np.isclose(value(scores, 'accuracy'), accuracy_score(truth, answers))
    each = precision_recall_fscore_support(truth, answers, labels=there, zero_division=0)
    assert np.allclose([[value(scores, name, label) for label in there] for name in ('precision', 'accuracy of label', 'f1')], each[:3])
    assert [scores.filter((pl.col('metric') == 'f1') & (pl.col('label') == label))['n'].item() for label in there] == each[3].tolist()


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_the_papers_averages_are_over_all_that_was_answered(drawn):
    truth, answers = map(list, zip(*drawn, strict=True))
    scores = label_scores(rows_of(truth), {'m': said(answers)}, **FEW)
    as_one = ['other' if answer in (UNNAMED, UNPARSED) else answer for answer in answers]
    precision, recall, _, _ = precision_recall_fscore_support(truth, as_one, average='macro', zero_division=0)  # labels: those that occur
    assert np.isclose(value(scores, 'paper precision'), precision) and np.isclose(value(scores, 'paper recall'), recall)
    assert np.isclose(value(scores, 'paper f'), 2*precision*recall/(precision + recall) if precision + recall else 0)
    assert len(scores.filter(pl.col('metric') == 'paper f')['averaged_over'].item()) == len({*truth, *as_one})


@settings(max_examples=30, deadline=None)
@given(pairs, st.randoms())
def test_order_of_rows_and_names_of_methods_change_nothing(drawn, random):
    truth, answers = map(list, zip(*drawn, strict=True))
    rows, predictions = rows_of(truth), said(answers)
    order = list(range(len(truth)))
    random.shuffle(order)
    once, again = label_scores(rows, {'m': predictions}, **FEW), label_scores(rows[order], {'x': predictions, 'm': predictions}, **FEW)
    assert np.allclose(once['value'], again.filter(pl.col('method') == 'm')['value'])
    assert ((once['value'] >= 0) & (once['value'] <= 1)).all()
    inside = once.drop_nulls('low')
    assert (inside['low'] <= inside['high']).all()


def test_what_cannot_be_read_is_an_error_of_its_class():
    truth = [FACTUAL, FACTUAL, NON_FACTUAL, NONE]
    for lost in (UNPARSED, UNNAMED):
        scores = label_scores(rows_of(truth), {'m': said([FACTUAL, lost, NON_FACTUAL, NONE])}, **FEW)
        assert value(scores, 'accuracy of label', FACTUAL) == .5 and value(scores, 'precision', FACTUAL) == 1
        assert scores['n_unparsed'].unique().to_list() == [int(lost == UNPARSED)]
        assert scores['n_unnamed'].unique().to_list() == [int(lost == UNNAMED)]
    failed = label_scores(rows_of(truth), {'m': said([FACTUAL, UNPARSED, NON_FACTUAL, NONE], status='failed')}, **FEW)
    assert failed['n_unparsed'].unique().to_list() == [1]


def test_resampling_keeps_documents_together():
    truth, answers = [FACTUAL, NONE]*30, [FACTUAL, NONE]*15 + [NONE, FACTUAL]*15
    alone = label_scores(rows_of(truth), {'m': said(answers)}, resamples=2000)
    together = label_scores(rows_of(truth, document_id=[f'd{at//10}' for at in range(60)]), {'m': said(answers)}, resamples=2000)
    def width(scores):
        row = scores.filter(pl.col('metric') == 'macro f1')
        return (row['high'] - row['low']).item()
    assert together['clusters'][0] == 6 and alone['clusters'][0] == 60 and width(together) > 1.5*width(alone)


def test_contrasts_and_differences_from_baselines_agree():
    generator = np.random.default_rng(0)
    truth = generator.choice(LABELS, 150).tolist()
    answers = [label if generator.random() < .6 else generator.choice(ANSWERS) for label in truth]
    predictions = {'m': said(answers), 'majority': said([NONE]*150)}
    contrast = label_contrasts(rows_of(truth), predictions, [('m', 'majority')], resamples=4000).row(0, named=True)
    compared = over_baselines(rows_of(truth), predictions, ['majority'], resamples=4000).row(0, named=True)
    assert np.isclose(contrast['difference'], compared['difference']) and contrast['low'] > 0
    assert abs(contrast['low'] - compared['difference_low']) < .02 and abs(contrast['high'] - compared['difference_high']) < .02
    mirrored = label_contrasts(rows_of(truth), predictions, [('majority', 'm')], resamples=4000).row(0, named=True)
    assert np.isclose(mirrored['difference'], -contrast['difference']) and np.isclose(mirrored['low'], -contrast['high'])


def test_shares_add_up():
    truth = [FACTUAL]*3 + [NONE]*2
    shares = label_shares(rows_of(truth), {'m': said([FACTUAL, UNNAMED, UNPARSED, NONE, NONE])})
    assert shares.height == 15 and shares.filter(pl.col('label') == NON_FACTUAL)['share'].null_count() == 5
    sums = shares.drop_nulls('share').group_by('label').agg(pl.col('share').sum())
    assert np.allclose(sums['share'], 1)


@pytest.mark.parametrize(('summary', 'words'), [
    ('The mill on the Danube, a river of Europe, burnt down.', 4),
    ('It stands in Ulm, a town on the Danube.', 5),
    ('Ann (a judge) spoke.', 2),
    ('Ann — a judge in Ulm — spoke.', 4), ('Well-known Ann spoke.', 0), ('', 0),
    ('Population 1,000,000 in 2010.', 0), ('”Ulm”, a town, is old.', 2)])
def test_insertions(summary, words): assert inserted_words(summary) == words


def test_baselines_are_fitted_on_what_they_are_given():
    labels = [FACTUAL]*10 + [NON_FACTUAL]*20 + [NONE]*25
    texts = [f'Ann, a judge of Ulm, number {at}, spoke at length.' if label == FACTUAL else f'A speech {at} of some length was held.'
             if label == NON_FACTUAL else f'Talk {at}.' for at, label in enumerate(labels)]
    rows = rows_of(labels).with_columns(summary=pl.Series(texts))
    predicted = {name: Baseline(name).predict(rows, dev=rows) for name in BASELINES}
    assert predicted['majority']['label'].unique().to_list() == [NONE]
    assert predicted['length']['label'].to_list() == [NON_FACTUAL]*30 + [NONE]*25  # all longer ones get the more frequent hallucination
    assert predicted['punctuation'].filter(rows['label'] == FACTUAL)['label'].unique().to_list() == [FACTUAL]
    assert all(MIXED_PREDICTIONS.check(each).height == 55 for each in predicted.values())
    only = rows.filter(pl.col('label') != NONE)  # M-XSum has no summary without hallucination
    assert set(Baseline('length').predict(rows, dev=only)['label']) == {NON_FACTUAL}


def test_bad_input_is_named():
    rows = rows_of([FACTUAL, NONE])
    with pytest.raises(DataError, match='leave rows without one out'): label_scores(rows.with_columns(label=None), {'m': said([NONE]*2)})
    with pytest.raises(DataError, match='only in one of them'): label_scores(rows, {'m': said([NONE])})
    with pytest.raises(DataError, match='two predictions'): label_scores(rows, {'m': pl.concat([said([NONE]*2)]*2)})
    with pytest.raises(DataError, match="answers 'true'"): label_scores(rows, {'m': said(['true', NONE])})
    with pytest.raises(DataError, match='no rows'): label_scores(rows.clear(), {'m': said([])})
    with pytest.raises(UsageError, match='no predictions of'): label_contrasts(rows, {'m': said([NONE]*2)}, [('m', 'other')])
    with pytest.raises(DataError, match='no row has a label'): Baseline('random').predict(rows, dev=rows.with_columns(label=None))


def test_two_baselines_are_fitted_and_one_of_them_reads_no_document():
    labels = [FACTUAL, NON_FACTUAL, NONE]*12
    topics = dict(zip(LABELS, ('A judge of Ulm spoke.', 'The mill burnt down.', 'Trains were late again.'), strict=True))
    rows = rows_of(labels).with_columns(summary=pl.Series([topics[label] for label in labels]))
    other = rows.with_columns(document=pl.lit('Another document altogether.'))
    assert fitted_labels('words of the summary', rows, other) == labels
    assert fitted_labels('words of the summary', rows, rows.head(0)) == []
    assert len(set(fitted_labels('words of the summary', rows.with_columns(summary=pl.lit('…')), rows))) == 1
    with pytest.raises(UsageError, match='no fitted baseline'): fitted_labels('topics', rows, rows)


def test_counts_tell_what_the_document_lacks():
    rows = rows_of([FACTUAL, NONE]*15).with_columns(document=pl.lit('Ann Lee spoke in Ulm of 12 mills.'))
    rows = rows.with_columns(summary=pl.when(pl.col('label') == NONE).then(pl.lit('Ann spoke of 12 mills.')).otherwise(
        pl.lit('Bo spoke of 13 mills.')))
    assert surface_counts(rows)[:2, 2:].tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert fitted_labels('counts', rows, rows) == rows['label'].to_list()
    both = rows.with_columns(document=pl.lit('Bo spoke of 13 mills.'))
    assert fitted_labels('counts', rows, both) != rows['label'].to_list()  # unlike the words of the summary


def test_an_id_and_a_prediction_of_any_tool_are_enough():
    truth, answers = [FACTUAL, NON_FACTUAL, NONE, NONE], [FACTUAL, NONE, NONE, UNPARSED]
    rows = rows_of(truth)
    plain = {'m': pl.DataFrame({'id': rows['id'], 'predicted': [None if answer == UNPARSED else answer for answer in answers]})}
    assert label_scores(rows.select('id', gold='label'), plain, **FEW).equals(label_scores(rows, {'m': said(answers)}, **FEW))
    with pytest.raises(DataError, match='no column label or predicted'): label_scores(rows, {'m': rows.select('id')}, **FEW)
