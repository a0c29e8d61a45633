"A teacher's log-odds: kept with a digest that other texts do not have."
import polars as pl
import pytest
from conftest import real_data

from factlab.core.core import DataError
from factlab.training import soft_labels
from factlab.training.soft_labels import LOG_ODDS, soft_labelled, unlabelled_pairs

EVIDENCE = ('Otters eat fish and crabs. They live by rivers.', 'Owls hunt at night, and rest by day.')
CLAIMS = ('Otters eat fish.', 'Owls eat crabs.', 'Owls hunt by day.', 'Yes.')
PAIRS = [(evidence, claim) for evidence in EVIDENCE for claim in CLAIMS]


def frame():
    rows = [dict(id=f'{at}', split='train', claim=claim, evidence=evidence, label=None, group='a', source='own')
            for at, (evidence, claim) in enumerate(PAIRS)]
    return soft_labels.CLAIM_EVIDENCE_PAIRS.frame(rows)


def test_a_label_meets_only_the_texts_that_were_labelled(tmp_path):
    pairs = frame()
    answers = LOG_ODDS.frame([dict(pair=pair, log_odds=1.5, contradicted=None) for pair in soft_labels._digests(pairs)])
    answers.head(5).write_parquet(tmp_path/soft_labels.SHIPPED)
    assert soft_labelled(pairs, tmp_path)['log_odds'].to_list() == [1.5]*5 + [None]*3
    changed = pairs.with_columns(claim=pl.when(pl.col('id') == '2').then(pl.lit('Another.')).otherwise('claim'))
    assert soft_labelled(changed, tmp_path)['log_odds'].null_count() == 4
    others = pairs.with_columns(claim=pl.format('{} {}', 'claim', pl.lit('Another.')))
    with pytest.raises(DataError, match='8 of 8 pairs have other texts'): soft_labelled(others, tmp_path)


def test_the_labels_that_ship_are_of_todays_pairs():
    for name in soft_labels.UNLABELLED: real_data(name)
    pairs = unlabelled_pairs(download=False)
    taught = soft_labelled(pairs).drop_nulls('log_odds')
    assert taught.height > 15_000 and taught['log_odds'].is_finite().all() and taught['id'].is_unique().all()
    assert taught['contradicted'].is_finite().all()
    assert set(taught['source']) == set(soft_labels.UNLABELLED) and set(taught['split']) == {'train'}
    from factlab.data.claim_sets import load_fm2, load_summedits
    assert not set(pairs['claim']) & set(load_fm2(False).filter(split='test')['claim'])
    assert not set(pairs['evidence']) & set(load_summedits(False).filter(split='test')['evidence'])
