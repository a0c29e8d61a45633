"""Entity features: log-probabilities against sums by hand, labels of spans, classifiers against scikit-learn, JSON that comes back."""
import json

import numpy as np
import polars as pl
import pytest
from constant import Flat
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from factlab.core.core import DataError, ModelError, UsageError
from factlab.mixed_context.entity_features import (
    CHOSEN,
    ENTITIES,
    LIKELIHOODS,
    SURFACE,
    check_annotated,
    entities_of,
    entity_features,
    fit_classifier,
    fitted_classifiers,
    likelihood_features,
    read_entity_features,
    summary_scores,
    surface_features,
    text_cuts,
    write_entity_features,
)
from factlab.mixed_context.labels import FACTUAL, NON_FACTUAL, NONE
from factlab.models.interface import Response

FIRE = 'The old mill on the Danube burnt down on Monday. Nobody was hurt. Police in Ulm are looking for witnesses.'


class Letters:
    "A model that gives every letter of a text the log-probability -1, and -0.5 where a document is in the prompt."
    name, identity, context, price = 'letters', {'backend': 'letters'}, None, None
    def __init__(self): self.requests = []
    def generate(self, requests, deliver):
        for at, request in enumerate(requests):
            self.requests.append(request)
            each = -.5 if 'Danube' in request.messages[-1].content else -1.0
            deliver(at, Response(finish_reason='choices', choice_logprobs=tuple(each*len(choice) for choice in request.choices)))
    def count_tokens(self, requests): return [1 for _ in requests]
    def close(self): pass


def entities(*found): return ENTITIES.frame([dict(zip(ENTITIES.columns, each, strict=True)) for each in found])

def rows_of(*summaries):
    return pl.DataFrame({'id': [f'r{at}' for at in range(len(summaries))], 'document': [FIRE]*len(summaries), 'summary': list(summaries)})


def test_likelihoods_are_differences_of_the_texts_before_and_through():
    rows = rows_of('In Perth a mill in Ulm burnt.', 'A mill burnt.')
    found = entities((0, 3, 8, 'Perth', 'GPE', None, None), (0, 19, 22, 'Ulm', 'GPE', None, None))
    model = Letters()
    values = likelihood_features(found, rows, model, Flat(), store=False)
    assert np.allclose(values, [[-6, -3, 3], [0, 0, 0]])  # ' Perth' has six letters; Ulm is in the document
    assert len(model.requests) == 2 and model.requests[0].choices == ('In', 'In Perth')
    assert text_cuts('Perth burnt', [(0, 5)]) == ('Perth',)


def test_surface_features():
    found = surface_features(entities((0, 0, 3, 'ulm', 'GPE', None, None), (0, 0, 9, 'Ulm Perth', 'PERSON', None, None),
                                      (0, 0, 8, '12 March', 'DATE', None, None)), [FIRE])
    assert dict(zip(SURFACE, found.T.tolist(), strict=True)) == {'missing': [0, .5, 1], 'verbatim': [1, 0, 0], 'quantity': [0, 0, 1],
                                                                 'person': [0, 1, 0]}


def test_annotations_lend_their_worst_label():
    span = lambda start, end, label: {'start': start, 'end': end, 'label': label}
    rows = rows_of('Angela Merkel visited Berlin on Monday.').with_columns(entities=pl.Series([[
        span(0, 6, 'Non-hallucinated'), span(7, 13, 'Factual Hallucination'), span(22, 28, 'Intrinsic Hallucination')]]))
    said = {text: (faithful, factual) for text, faithful, factual in entities_of(rows).select('text', 'faithful', 'factual').rows()}
    assert said['Angela Merkel'] == (False, True) and said['Berlin'] == (False, False) and said['Monday'] == (None, None)


def test_classifiers_are_scikit_learns():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 3))*[1, 5, .1]
    truth = features[:, 0] + features[:, 1]/5 + generator.normal(size=200)/2 > 0
    standard = (features - features.mean(0))/features.std(0)
    logistic = LogisticRegression(C=.1).fit(standard, truth).predict_proba(standard)[:, 1]
    assert np.allclose(fit_classifier(features, truth).probabilities(features), logistic, atol=1e-3)
    shares = KNeighborsClassifier(9).fit(standard, truth).predict_proba(standard)[:, 1]
    assert np.allclose(fit_classifier(features, truth, 'neighbours', 9).probabilities(features), (9*shares + 1)/11)
    flat = np.c_[features[:, 0], np.zeros(200)]
    assert np.isfinite(fit_classifier(flat, truth).probabilities(flat + [0, 1])).all()  # a feature that never varied


def test_summary_scores_take_the_worst_entity():
    found = entities(*((row, 0, 1, 'x', 'GPE', None, None) for row in (0, 0, 2)))
    faithfulness, factuality = summary_scores(found, np.array([.9, .4, .1]), np.array([0, .9, .2]), 3)
    assert faithfulness.tolist() == [.4, 1, .1] and np.allclose(factuality, [min(1 - .1, 1 - .6*.1), 1, 1 - .9*.8])


@pytest.fixture(scope='module')
def annotated():
    kinds = [('A mill in Ulm burnt down.', (10, 13, 'Non-hallucinated'), NONE),
             ('A mill in Germany burnt down.', (10, 17, 'Factual Hallucination'), FACTUAL),
             ('A mill burnt down on 12 March.', (21, 29, 'Non-factual Hallucination'), NON_FACTUAL)]
    return pl.DataFrame([{'id': f'{at}/{copy}', 'document': FIRE, 'summary': summary, 'label': label,
                          'entities': [{'start': span[0], 'end': span[1], 'label': span[2]}]}
                         for copy in range(12) for at, (summary, span, label) in enumerate(kinds)])


def fit_entities(rows, **how):
    named = entities_of(check_annotated(rows))
    return fitted_classifiers(rows, named, entity_features(named, rows, CHOSEN), **how)


def test_fitted_predicted_stored(annotated, tmp_path):
    fitted, reached = fit_entities(annotated)
    assert reached == 1 and fitted.features == CHOSEN
    predicted = fitted.predict(annotated)
    assert predicted['label'].to_list() == annotated['label'].to_list()
    again = read_entity_features(write_entity_features(fitted, tmp_path/'fitted.json'))
    assert again.predict(annotated).equals(predicted) and 'Germany' not in (tmp_path/'fitted.json').read_text()
    none = fitted.predict(rows_of('it burnt.'))
    assert none['label'].to_list() == [NONE] and none['reason'].to_list() == ['no entity']
    near, _ = fit_entities(annotated, kind='neighbours', k=5)
    assert near.predict(annotated)['label'].to_list() == annotated['label'].to_list()
    with pytest.raises(UsageError, match='hold the entities'): write_entity_features(near, tmp_path/'near.json')


def test_labels_of_the_rows_are_not_read(annotated):
    fitted, _ = fit_entities(annotated)
    assert fitted.predict(annotated.drop('label', 'entities')).equals(fitted.predict(annotated))


def test_likelihoods_need_a_model(annotated):
    with pytest.raises(UsageError, match='need a model'): entity_features(entities(), annotated, LIKELIHOODS)
    with pytest.raises(UsageError, match='no features are called'): entity_features(entities(), annotated, ['length'])


def test_bad_files_and_data_are_named(annotated, tmp_path):
    fitted, _ = fit_entities(annotated)
    good = json.loads(write_entity_features(fitted, tmp_path/'good.json').read_text())
    for name, damaged in {'empty': {}, 'short': good | {'features': ['missing']}, 'strange': good | {'features': ['a', 'b', 'c']},
                          'infinite': good | {'thresholds': [float('nan'), 1]}}.items():
        (tmp_path/f'{name}.json').write_text(json.dumps(damaged))
        with pytest.raises(ModelError, match='entity features|fit them anew'): read_entity_features(tmp_path/f'{name}.json')
    with pytest.raises(ModelError, match='holds no entity features'): read_entity_features(tmp_path/'absent.json')
    with pytest.raises(DataError, match='take XEnt'): fit_entities(annotated.drop('entities'))
    with pytest.raises(DataError, match='all of one class'): fit_classifier(np.zeros((3, 1)), np.ones(3, bool))
    with pytest.raises(UsageError, match='no classifier'): fit_classifier(np.zeros((2, 1)), np.array([True, False]), 'forest')
