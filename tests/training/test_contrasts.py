"Contrasts: the file that ships fits, pairs are those of its lines, a claim alone does not tell its label, bad lines are named."
import re

import polars as pl
import pytest
from conftest import written
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from factlab.core.core import DataError
from factlab.data.corpora import CLAIM_EVIDENCE_PAIRS
from factlab.training.contrasts import contrast_pairs, load_contrasts

LINE = {'topic': 'mill', 'kind': 'roles', 'evidence': ['A sold it to B.', 'B sold it to A.'],
        'claims': [['B bought it.', 'E', 'C'], ['It is old.', 'N', 'N']]}


def test_each_claim_meets_both_evidences(tmp_path):
    pairs = contrast_pairs(load_contrasts(written(tmp_path/'own.jsonl', LINE)))
    assert pairs.select('claim', 'evidence', 'label').rows() == [
        ('B bought it.', 'A sold it to B.', 'ENT'), ('B bought it.', 'B sold it to A.', 'CONTR'),
        ('It is old.', 'A sold it to B.', 'NEUT'), ('It is old.', 'B sold it to A.', 'NEUT')]
    CLAIM_EVIDENCE_PAIRS.check(pairs.drop('kind'))


def test_a_claim_alone_does_not_tell_its_label():
    pairs = contrast_pairs()
    assert pairs.height > 10_000 and pairs['id'].is_unique().all()
    shares = dict(pairs.group_by('label').len().rows())
    assert all(.2 < shares[label]/pairs.height < .5 for label in ('ENT', 'NEUT', 'CONTR'))
    best = pairs.group_by('claim', 'label').len().group_by('claim').agg(pl.col('len').max())['len'].sum()/pairs.height
    assert best < .65  # a reader of the claim alone, who knows its two labels
    some = pairs.sample(4_000, seed=0)
    words = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), min_df=3), LogisticRegression(C=.3, max_iter=200))
    truth = (some['label'] == 'ENT').to_numpy()
    said = cross_val_predict(words, some['claim'].to_list(), truth, groups=some['group'].to_numpy(), cv=GroupKFold(5),
                             method='predict_proba')
    assert roc_auc_score(truth, said[:, 1]) < .6  # a coin has one half


@pytest.mark.parametrize(('change', 'message'), [
    ({'kind': ''}, 'a text is missing or empty'), ({'evidence': ['one']}, 'two different texts'),
    ({'evidence': ['one', 'one']}, 'two different texts'),
    ({'claims': []}, 'claims must be a list'), ({'claims': [['B bought it.', 'E', 'X']]}, 'a claim is [text, label, label]'),
    ({'claims': [['', 'E', 'C']]}, 'a text is missing or empty'), ({'more': 1}, 'expected the fields')])
def test_a_line_that_does_not_fit_is_named(tmp_path, change, message):
    with pytest.raises(DataError, match=re.escape(message)) as error: load_contrasts(written(tmp_path/'own.jsonl', LINE, LINE | change))
    assert '2' in str(error.value)
