"""The offline judge: what it says of plain cases, that it shipped with what it was fitted on, and how good it is on the test split."""
import json

import numpy as np
import polars as pl
import pytest

from factlab.core.core import DataError, ModelError, UsageError
from factlab.data.datasets import fingerprint, load
from factlab.grounding.eligibility import load_eligibility_judge
from factlab.grounding.embedded_judge import (
    ALWAYS,
    fit_grounding_decision,
    needs_no_support,
    read_grounding_decision,
    response_answers,
    sentence_answers,
)
from factlab.grounding.judges import GROUNDING
from factlab.grounding.offline_judges import load_grounding_judge
from factlab.grounding.parsing import accurate_by_labels
from factlab.measures.baselines import balanced_accuracy, class_counts

DOCUMENT = 'The mill opened in 1901. It has two stones and a wooden wheel. The owner sells flour on Mondays. No bread is baked there.'


def rows(*texts: str) -> pl.DataFrame:
    return pl.DataFrame({'id': [str(at) for at in range(len(texts))], 'document': [DOCUMENT]*len(texts),
                         'request': ['Tell me about the mill.']*len(texts), 'response': list(texts)})


@pytest.fixture(scope='module')
def sample() -> tuple[pl.DataFrame, pl.DataFrame]:
    every = load('facts-sample')
    return tuple(every.filter(pl.col('split') == split) for split in ('dev', 'test'))


def test_a_verdict_follows_from_its_labels():
    judge = load_grounding_judge('embedded')
    found = judge.predict(rows('The mill opened in 1901. I hope this helps!', 'The mill never opened.', '', '***', 'Thanks!',
        'Was it old?\nYes: 1901.'))
    GROUNDING.check(found)
    for status, accurate, sentences in found.select('status', 'accurate', 'sentences').iter_rows():
        decided = accurate_by_labels([each['label'] for each in sentences])
        assert accurate == decided and status == ('unparsed' if decided is None else 'ok')
    assert found['status'][2] == 'unparsed' and found['accurate'][0] is True
    assert found['sentences'][0][0]['excerpt'] == 'The mill opened in 1901.'
    assert found['sentences'][0][1] == {'sentence': 'I hope this helps!', 'label': 'no_rad', 'excerpt': ''}


def test_a_copied_sentence_scores_above_one_that_is_contradicted():
    scored = load_grounding_judge().sentence_scores(rows('The owner sells flour on Mondays.', 'The owner sells bread on Fridays.'),
        store=False)
    assert scored['score'][0] > scored['score'][1]


def test_odd_rows():
    judge = load_grounding_judge()
    assert judge.predict(rows().cast(pl.String)).is_empty()
    long = judge.predict(rows('The mill opened in 1901, ' * 300 + 'it seems.', '\ud83d half \udc00'.encode('utf-8', 'replace').decode()),
        store=False)
    assert set(long['status']) == {'ok'}
    for wrong in (rows('x').drop('document'), pl.concat([rows('x'), rows('y')]), rows('x').with_columns(response=pl.lit(None, pl.String))):
        with pytest.raises(DataError): judge.predict(wrong)
    with pytest.raises(DataError, match='baseline'): load_eligibility_judge().predict(rows('x'))
    with pytest.raises(UsageError, match='no offline judge'): load_grounding_judge('tiny')


@pytest.mark.parametrize('sentence, quiet', [('Would you like more?', True), ('I am sorry, but I cannot help.', True), ('Hello!', True),
    ('', True),
    ('Is it 12 metres long?', False), ('Happy customers wrote letters.', False), ('The answer is in the cellar.', False)])
def test_what_needs_no_support(sentence, quiet): assert needs_no_support(sentence) is quiet


def of_short_documents(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    "The rows about the first documents of fewer than 600 words."
    short = rows.filter(pl.col('document').str.count_matches(r'\S+') < 600)['document_id'].unique(maintain_order=True).head(most)
    return rows.filter(pl.col('document_id').is_in(short))


def test_the_decision_rests_on_the_development_split_alone(sample, tmp_path):
    development, _ = sample
    judge = load_grounding_judge()
    assert judge.decision.fitted_on['digest'] == fingerprint(development.select('id', 'document', 'response', 'sentences'))
    assert judge.decision.fitted_on['verifier']['adapter'] == judge.verifier.identity['adapter']
    few = of_short_documents(development, 3)
    again = fit_grounding_decision(few, judge.verifier, judge.encoder)  # of all of them: the chapter
    assert np.isfinite(again.weights).all() and again.fitted_on['digest'] != judge.decision.fitted_on['digest']
    assert fit_grounding_decision(few, judge.verifier, judge.encoder) == again
    (tmp_path/'x.json').write_text(json.dumps(judge.decision._asdict() | {'weights': [1]}))
    with pytest.raises(ModelError, match='numbers for 7 features'): read_grounding_decision(tmp_path/'x.json')
    (tmp_path/'y.json').write_text('{}')
    with pytest.raises(ModelError, match='holds no decision'): read_grounding_decision(tmp_path/'y.json')


def test_it_is_better_than_rivals_on_short_documents_of_the_test_split(sample):
    judge = load_grounding_judge()  # all documents: the chapter
    development, test = (of_short_documents(rows, most) for rows, most in zip(sample, (4, 6), strict=True))
    sentences, answers = sentence_answers(judge, development, test)
    counts = {name: class_counts(sentences['grounded'], pl.Series(said), [False, True]) for name, said in answers.items()}
    scores = {name: balanced_accuracy(each.sum(0)) for name, each in counts.items()}
    assert scores['embedded'] >= .70 and scores['embedded'] == max(scores.values())
    verdicts = response_answers(judge, development, test)
    assert (verdicts['embedded'] == test['accurate'].to_numpy()).mean() > (verdicts[ALWAYS] == test['accurate'].to_numpy()).mean()
