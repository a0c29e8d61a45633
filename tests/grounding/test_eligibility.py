"""Offline judges of eligibility: refusals and beginnings are disqualified, answers are not, and the development split alone is fitted."""
import json

import numpy as np
import polars as pl
import pytest

from factlab.core.core import DataError, ModelError, UsageError
from factlab.data.datasets import fingerprint, load
from factlab.grounding.eligibility import (
    ELIGIBILITY_FEATURES,
    eligibility_features,
    eligibility_rows,
    fit_eligibility,
    load_eligibility_judge,
    read_eligibility,
    request_clauses,
    word_vectors,
)
from factlab.grounding.parsing import ISSUES
from factlab.grounding.responses import REFUSAL, beginning
from factlab.measures.baselines import balanced_accuracy, class_counts

TEST = load('facts-sample', split='test')


def judged(responses: dict[str, str], name: str = 'words') -> dict[str, bool]:
    "Which responses to the first request of the test split are eligible; the grounded one stands beside each."
    first = TEST.filter(pl.col('document_id') == TEST['document_id'][0])
    grounded = first.filter(kind='grounded')['response'][0]
    rows = pl.DataFrame({'id': list(responses), 'response': list(responses.values())}).with_columns(
        document=pl.lit(first['document'][0]), request=pl.lit(first['request'][0]), baseline=pl.lit(grounded))
    told = load_eligibility_judge(name).predict(rows, store=False)
    return dict(zip(told['id'], told['issues'] != ISSUES[2], strict=True))


@pytest.mark.parametrize('name', ['words', 'embedded'])
def test_who_only_copies_the_beginning_or_refuses_is_disqualified(name):
    first = TEST.filter(pl.col('document_id') == TEST['document_id'][0])
    answer = first.filter(kind='grounded')['response'][0]
    said = judged({'answer': answer, 'refusal': REFUSAL, 'opening': beginning(first['document'][0])}, name)
    assert said == {'answer': True, 'refusal': False, 'opening': False}


def test_one_sentence_quoted_from_the_opening_may_be_the_answer():
    "Copying counts from the second copied sentence on."
    document = ' '.join(f'Room {at} is painted in colour {at + 7}.' for at in range(40))
    def copied(text: str) -> float:
        row = pl.DataFrame({'id': ['a'], 'document': [document], 'request': ['What colour is room 1?'], 'response': [text],
                            'baseline': ['It is colour 8.']})
        return float(eligibility_features(row, word_vectors)[0, ELIGIBILITY_FEATURES.index('opening_copied')])
    sentences = document.split('. ')
    assert copied(sentences[1] + '.') == 0 and 0 < copied('. '.join(sentences[:2]) + '.') < copied('. '.join(sentences[:5]) + '.') == 1
    assert copied('. '.join(sentences[20:25]) + '.') == 0  # far from the beginning


def test_request_clauses():
    assert request_clauses('When can I buy flour, and what does it cost?') == ['When can I buy flour', 'what does it cost?']


@pytest.mark.parametrize('response', ['', '***', '水車は1901年に開いた。', 'x'*50000, '\n'*9 + 'Yes.'])
def test_odd_responses_get_a_verdict(response): assert set(judged({'odd': response}).values()) <= {True, False}


def test_no_rows_and_rows_without_another_response():
    judge, row = load_eligibility_judge('words'), TEST.select('id', 'document', 'request', 'response').head(1)
    assert judge.predict(row.with_columns(baseline=pl.lit('x')).clear()).is_empty()
    with pytest.raises(DataError, match='baseline'): judge.predict(row)
    with pytest.raises(UsageError, match='no eligibility judge'): load_eligibility_judge('tiny')


def test_nothing_but_the_development_split_is_fitted(tmp_path):
    development = load('facts-sample', split='dev')
    again, shipped = fit_eligibility(development, word_vectors, {'vectors': 'words'}), read_eligibility('words')
    assert again.fitted_on == shipped.fitted_on
    for part in ('mean', 'scale', 'weights', 'bias'):  # of sentences equally near the last bit decides, and processors round it differently
        assert getattr(again, part) == pytest.approx(getattr(shipped, part), abs=1e-3), part
    digest = fingerprint(development.select('id', 'document', 'request', 'response', 'eligible'))
    assert {read_eligibility(name).fitted_on['digest'] for name in ('embedded', 'words')} == {digest}
    for text, fault in (('{}', 'no decision'), (json.dumps({'words': again._asdict() | {'weights': [1]}}), 'other numbers')):
        (tmp_path/'x.json').write_text(text)
        with pytest.raises(ModelError, match=fault): read_eligibility('words', tmp_path/'x.json')


def test_trivial_responses_are_known_to_be_ineligible():
    rows = eligibility_rows(TEST)
    trivial = rows['responder'].str.starts_with('Baseline')
    assert trivial.sum() == 2*TEST['document_id'].n_unique() and not rows['eligible'].filter(trivial).any()
    assert rows.filter(~trivial)['id'].to_list() == TEST['id'].to_list()


def test_words_alone_are_above_a_constant_on_the_test_split():
    rows = eligibility_rows(TEST).filter(~pl.col('responder').str.starts_with('Baseline'))
    said = load_eligibility_judge('words').scores(rows) >= 0
    assert np.isfinite(said).all() and balanced_accuracy(class_counts(rows['eligible'], pl.Series(said), [False, True]).sum(0)) > .6
