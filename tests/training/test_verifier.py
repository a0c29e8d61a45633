"""What a verifier is trained on and measured by: pairs of open texts and of one's own, pages held out, nothing measured that trains."""
import random

import numpy as np
import polars as pl
import pytest
from conftest import real_data
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from factlab.building.training_views import MissingLabel, training_data
from factlab.core.core import DataError, UsageError
from factlab.data.claim_sets import load_fm2, load_summedits
from factlab.data.corpora import CLAIM_EVIDENCE_PAIRS, load_oasis_sample
from factlab.models.adapters import read_card
from factlab.training import cross_encoder, mixed_pairs
from factlab.training.cross_encoder import train_verifier
from factlab.training.loop import read_losses
from factlab.training.named_bases import BaseSettings, small_base
from factlab.training.verifier import dev_metrics, dev_sample, judged_pairs, oasis_pairs
from factlab.training.verifier_evaluation import EVALUATION, MEASURED_SETS, measured_pairs
from factlab.verification.named_verifiers import load_verifier


def few_pairs():
    rows = []
    for at, year in enumerate((1904, 1911, 1927, 1938, 1946, 1952)):
        for label, said in (('ENT', year), ('CONTR', year + 7)):
            rows.append({'id': f's{at}#{label}', 'split': 'dev' if at == 5 else 'train', 'claim': f'The mill burned in {said}.',
                         'label': label, 'evidence': f'After a storm the mill burned down in {year}.', 'group': f'g{at}',
                         'source': 'sample', 'kind': 'date'})
    return pl.DataFrame(rows)


@pytest.fixture(scope='module')
def small(tmp_path_factory):
    "Settings of a short training on a small base."
    texts = [*few_pairs()['claim'], *few_pairs()['evidence']]
    base = str(small_base(tmp_path_factory.mktemp('base')/'bert', 'bert', texts))
    return BaseSettings(base, steps=3, batch=4, rank=2, learning_rate=1e-3, max_tokens=64, dtype='float32', device='cpu')


def test_the_whole_training_leaves_a_part_with_a_card(small, tmp_path):
    measure = lambda verifier: EVALUATION.frame([{'set': 'own', 'system': verifier.name, 'metric': 'AUROC', 'n': 2, 'groups': 1,
                                                  'estimate': .5, 'low': .4, 'high': .6}])
    folder, losses = train_verifier(few_pairs(), tmp_path/'part', small, measure, notes=['Trained in a test.'], allow_missing_labels=True)
    card = read_card(folder)
    assert len(losses) == card['steps'] == 3 and card['metrics'][-1]['set'] == 'own' and card['limits'][-2] == 'Trained in a test.'
    assert card['metrics'][-1]['system'] == 'trained' and {row['use'] for row in card['data']} == {'trained', 'held out'}
    assert sum(row['rows'] for row in card['data']) == len(few_pairs())
    assert np.isfinite(load_verifier(card['use']).probabilities([('a', 'b')], store=False)).all()
    assert read_losses(folder) == pytest.approx(losses, abs=1e-4)


def test_an_oasis_shaped_file_trains_with_its_triplets_and_mined_neutral_ones(small, tmp_path, monkeypatch):
    load_oasis_sample().head(6).with_columns(split=pl.Series(['train']*4 + ['validation', 'test'])).write_parquet(tmp_path/'mine.parquet')
    own = training_data(tmp_path/'mine.parquet')
    train, held_out = (own.rows.filter(pl.col('split') == split) for split in ('train', 'dev'))
    pairs, seen = oasis_pairs(own, load_verifier('cosine'), store=False, related=None, min_neutral=0), []
    real = cross_encoder.target_rows
    monkeypatch.setattr(cross_encoder, 'target_rows', lambda some: seen.append(some) or real(some))
    folder, _ = train_verifier(pairs, tmp_path/'part', small, notes=['Mined by the cosine.'], own=own)
    used = seen[0]
    unseen = {*held_out['passage'], *held_out['factual'], *held_out['unfactual'], *held_out['page_passages'].explode()}
    assert {*used['group']} == {*train['page']} and not {*used['evidence']} & unseen
    loop = set()
    for row in train.to_dicts():
        true_texts, altered = ('passage', 'factual'), row['claims'][row['altered']]
        loop |= {(row[text], claim, 'ENT') for text in true_texts for claim in row['claims']}
        loop |= {(row['unfactual'], row['falsified'], 'ENT')}
        loop |= {(row[text], row['falsified'], 'CONTR') for text in true_texts} | {(row['unfactual'], altered, 'CONTR')}
    assert {*used.filter(pl.col('label') != 'NEUT').select('evidence', 'claim', 'label').iter_rows()} == loop
    others = {(row['page'], claim): row['page_passages'] for row in train.to_dicts() for claim in row['claims']}
    neutral = used.filter(pl.col('label') == 'NEUT').select('group', 'claim', 'evidence').rows()
    assert len(neutral) == sum(bool(texts) for texts in others.values()) > 0
    assert all(evidence in others[group, claim] for group, claim, evidence in neutral)
    card = read_card(folder)
    mine = ('mine.parquet (OASIS-shaped)', 'as stated by whoever made the data')
    assert [(row['name'], row['licence'], row['use']) for row in card['data']] == [(*mine, 'held out'), (*mine, 'trained')]
    assert sum(row['rows'] for row in card['data']) == len(pairs) and '--data mine.parquet' in card['command']
    assert card['limits'][-1] == 'Mined by the cosine.' and not any('DialFact' in limit for limit in card['limits'])
    assert {row['set'] for row in card['metrics']} == {'held out: mine.parquet (OASIS-shaped)'}


def test_a_label_that_is_missing_stops_the_training_or_stands_on_the_card(small, tmp_path):
    with pytest.raises(MissingLabel, match='label NEUT'): train_verifier(few_pairs(), tmp_path/'part', small)
    assert not (tmp_path/'part').exists()
    folder, _ = train_verifier(few_pairs(), tmp_path/'part', small, allow_missing_labels=True)
    assert 'It never saw a pair labelled NEUT' in read_card(folder)['limits'][-1]


def test_a_part_that_cannot_be_measured_leaves_nothing_in_its_place(small, tmp_path):
    def measure(verifier): raise DataError('the set is not here')
    with pytest.raises(DataError, match='not here'): train_verifier(few_pairs(), tmp_path/'part', small, measure, allow_missing_labels=True)
    assert not (tmp_path/'part').exists()


def test_held_out_measures_are_those_of_scikit_learn_by_source():
    rng = np.random.default_rng(0)
    held = pl.concat([few_pairs().with_columns(split=pl.lit('dev'), id=pl.format('{}-{}', 'id', pl.lit(at)),
                                               source=pl.lit('wice' if at % 2 else 'written')) for at in range(8)])
    told = held.with_columns(supported=pl.when(source='wice').then(pl.col('label') == 'ENT'), label=pl.when(source='written').then('label'))
    dev, score = dev_sample(told), rng.random(len(held)).round(2)
    assert dev['supported'].null_count() == 0 and sorted(dev['id']) == sorted(held['id'])
    found = {(row['set'], row['metric']): row['estimate'] for row in dev_metrics(dev, score)}
    for source in ('wice', 'written'):
        of = (dev['source'] == source).to_numpy()
        truth, mine = dev['supported'].to_numpy().astype(bool)[of], score[of]
        assert found[f'held out: {source}', 'AUROC'] == pytest.approx(roc_auc_score(truth, mine))
        assert found[f'held out: {source}', 'balanced accuracy'] == pytest.approx(balanced_accuracy_score(truth, mine > .5))


def test_unknown_sets_and_missing_held_out_pairs_are_named():
    with pytest.raises(UsageError, match='climate-fever'): measured_pairs('imagined')
    with pytest.raises(DataError, match='split dev'): dev_sample(few_pairs().filter(pl.col('split') == 'train'))


def test_the_sample_among_others_has_each_claim_before_and_behind_them():
    alone, among = measured_pairs('sample'), measured_pairs('sample among others')
    assert len(among) == 2*len(alone) == 272 and set(among['group']) == set(alone['group'])
    of = dict(alone.select('id', 'evidence').rows())
    for name, evidence in among.select('id', 'evidence').rows():
        own = of[name.rpartition('-')[0]]
        assert (evidence.startswith(own) if name.endswith('behind') else evidence.endswith(own)) and len(evidence) > 1.3*len(own)


def test_nothing_that_is_measured_trains():
    "Judged training pairs are of WiCE's development half and of DeFacto outside FINAL; claims that are measured are others."
    for name in ('wice', 'defacto', 'final', 'xsumfaith', 'fm2', 'summedits', 'snli'): real_data(name)
    judged = CLAIM_EVIDENCE_PAIRS.check(judged_pairs(download=False))
    for name in ('wice', 'final', 'xsumfaith'): assert not set(judged['claim']) & set(measured_pairs(name)['claim'])
    assert judged['evidence'].str.len_chars().max() < 4000 and set(judged['source']) == {'wice-judged', 'defacto'}
    assert not set(measured_pairs('summedits')['group']) & set(mixed_pairs.edited_summaries(False)['group'])
    assert not set(measured_pairs('fm2')['group']) & set(mixed_pairs.fooling_pairs(random.Random(0), False)['group'])
    assert len(measured_pairs('fm2')) == load_fm2(False).filter(split='test').height and 'summedits' in MEASURED_SETS
    assert len(measured_pairs('summedits')) == load_summedits(False).filter(split='test').height


def test_people_whom_factscore_sets_aside_train_nothing(monkeypatch):
    for name in ('factscore', 'wice', 'xquad', 'defacto', 'final'): real_data(name)
    from factlab.data import corpora
    from factlab.training import verifier as verifier_training
    from factlab.training.edited_pairs import STATEMENTS
    monkeypatch.setattr(verifier_training, 'passage_statements', lambda *_: STATEMENTS.frame([]))  # slow, and not of people
    people = set(verifier_training.training_statements(download=False)['page'])
    assert len(people) > 100 and not people & set(corpora.load_factscore(False).filter(pl.col('split') == 'test')['topic'])
