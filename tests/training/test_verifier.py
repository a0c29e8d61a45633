"""The verifier's training: resumable, deterministic, calibrated on other pages, with a card; what trains is not what is measured."""
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from conftest import real_data
from tolerance import NETWORK, same_logits

from factlab.building.training_views import MissingLabel, training_data
from factlab.core.core import DataError, UsageError
from factlab.data.corpora import CLAIM_EVIDENCE_PAIRS, load_oasis_sample
from factlab.models.adapters import read_card
from factlab.models.transformers_backend import TINY_SOURCE, load_tokenizer
from factlab.training.loop import CHECKPOINT, read_losses
from factlab.training.verifier import (
    HUMAN_LABELLED,
    Calibration,
    EvidenceGroup,
    VerifierInTraining,
    VerifierSettings,
    cross_fitted_log_odds,
    curriculum,
    dev_logits,
    dev_sample,
    evidence_groups,
    fit_calibration,
    judged_pairs,
    neutral_elsewhere,
    oasis_pairs,
    save_verifier,
    support_margin,
    train_steps,
    train_verifier,
    training_batches,
)
from factlab.training.verifier_evaluation import EVALUATION, measured_pairs
from factlab.training.written_passages import ELSEWHERE
from factlab.verification.named_verifiers import load_verifier
from factlab.verification.tiny_verifier import Reader, TinyVerifier
from factlab.verification.verifier import NLI_LABELS

SMALL = VerifierSettings(steps=3, layers=2, rank=2, batch_tokens=90, dtype='float32')


def few_pairs():
    rows = []
    for at, year in enumerate((1904, 1911, 1927, 1938, 1946, 1952)):
        for label, said in (('ENT', year), ('CONTR', year + 7)):
            rows.append({'id': f's{at}#{label}', 'split': 'dev' if at == 5 else 'train', 'claim': f'The mill burned in {said}.',
                         'label': label,
                         'evidence': f'After a storm the mill burned down in {year}.', 'group': f'g{at}', 'source': 'ours', 'kind': 'date'})
    return pl.DataFrame(rows)


@pytest.fixture(scope='module')
def reader(): return Reader(load_tokenizer('tiny', TINY_SOURCE))


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp('trained')
    found = train_steps(few_pairs(), folder, SMALL)
    return save_verifier(found.model, folder/'part'), found


def test_loss_falls_on_what_it_sees_again_and_again(tmp_path):
    losses = train_steps(few_pairs(), tmp_path, replace(SMALL, steps=45, learning_rate=3e-3, rank=4, batch_tokens=400)).losses
    assert np.mean(losses[-5:]) < .85*np.mean(losses[:5])


def test_the_seed_decides_and_a_finished_training_returns_at_once(trained, tmp_path):
    _, found = trained
    again = train_steps(few_pairs(), tmp_path/'again', SMALL)
    assert again.losses == pytest.approx(found.losses, rel=NETWORK)
    assert train_steps(few_pairs(), tmp_path/'again', SMALL).losses == again.losses
    longer = train_steps(few_pairs(), tmp_path/'again', replace(SMALL, steps=4)).losses
    assert longer[:3] == again.losses and len(longer) == 4
    assert train_steps(few_pairs(), tmp_path/'other', replace(SMALL, seed=1)).losses != pytest.approx(found.losses, rel=NETWORK)


def test_a_killed_training_goes_on_where_it_was(trained, tmp_path):
    def stop(step, loss):
        if step == 3: raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): train_steps(few_pairs(), tmp_path, SMALL, keep_every=1, on_step=stop)
    steps = []
    whole, parts = trained[1], train_steps(few_pairs(), tmp_path, SMALL, on_step=lambda step, loss: steps.append(step))
    assert steps == [3] and parts.losses == pytest.approx(whole.losses, rel=NETWORK)
    for name, full in parts.model.learner.full.items(): assert same_logits(full.detach(), whole.model.learner.full[name].detach())


def test_the_checkpoint_of_another_training_is_refused_and_says_what_differs(trained, tmp_path):
    train_steps(few_pairs(), tmp_path, replace(SMALL, steps=2))
    with pytest.raises(UsageError, match='seed is 0 there and 1 here'): train_steps(few_pairs(), tmp_path, replace(SMALL, seed=1))
    with pytest.raises(UsageError, match='human_oversampling is 3 there'):
        train_steps(few_pairs(), tmp_path, replace(SMALL, human_oversampling=2))
    with pytest.raises(UsageError, match='training data are others'): train_steps(few_pairs().head(4), tmp_path, SMALL)
    with pytest.raises(UsageError, match='2 steps, more than 1'): train_steps(few_pairs(), tmp_path, replace(SMALL, steps=1))
    (tmp_path/CHECKPOINT).write_bytes(b'short')
    with pytest.raises(DataError, match='cannot be read'): train_steps(few_pairs(), tmp_path, SMALL)


def test_the_second_phase_has_what_was_written_and_what_people_judged():
    made = few_pairs().with_columns(id=pl.format('made-{}', 'id'))
    judged = made.head(2).with_columns(source=pl.lit('defacto'), evidence=pl.lit('Judged.'))
    written = made.head(2).with_columns(source=pl.lit('written'), evidence=pl.lit('Written.'))
    first, second = (Counter(group.evidence for groups in phase for group in groups)
                     for phase in curriculum(pl.concat([made, judged, written]), 3))
    assert first['Judged.'] == second['Judged.'] == 3 and 'Written.' not in first and second['Written.'] == 1
    assert sum(first.values()) == 6 + 3 and sum(second.values()) == 2 + 3 + 1
    alone = curriculum(made, 3)
    assert alone[0] == alone[1]
    with pytest.raises(UsageError, match='human_oversampling'): curriculum(made, 0)


def test_held_out_pairs_train_nothing(reader, monkeypatch, tmp_path):
    import factlab.training.verifier as module
    seen = []
    monkeypatch.setattr(module, 'evidence_groups', lambda pairs: seen.append(pairs) or evidence_groups(pairs))
    train_steps(few_pairs(), tmp_path, replace(SMALL, steps=1))
    assert seen and all('dev' not in pairs['split'].to_list() for pairs in seen)
    with pytest.raises(DataError, match='split dev'): train_steps(few_pairs().with_columns(split=pl.lit('dev')), tmp_path, SMALL)


def test_wrong_labels_and_steps_are_named(tmp_path):
    with pytest.raises(DataError, match='MAYBE'): train_steps(few_pairs().with_columns(label=pl.lit('MAYBE')), tmp_path, SMALL)
    with pytest.raises(UsageError, match='1 step'): train_steps(few_pairs(), tmp_path, replace(SMALL, steps=0))


def test_groups_hold_every_pair_once_and_batches_every_group(reader):
    groups = evidence_groups(few_pairs(), max_claims=1)
    assert sum(len(group.claims) for part in groups for group in part) == len(few_pairs())
    assert all(isinstance(group, EvidenceGroup) for part in groups for group in part)
    order = training_batches(evidence_groups(few_pairs()), reader, 10_000, seed=0)
    first = next(order)
    assert sum(len(example.labels) for example in first) == len(few_pairs())


def test_the_whole_training_leaves_a_part_with_a_card(tmp_path):
    measure = lambda verifier, dev: EVALUATION.frame([{'set': 'own', 'system': verifier.name, 'metric': 'AUROC', 'n': len(dev), 'groups': 1,
                                                       'estimate': .5, 'low': .4, 'high': .6}])
    folder, losses = train_verifier(few_pairs(), tmp_path/'part', SMALL, measure, notes=['Trained in a test.'], allow_missing_labels=True)
    card = read_card(folder)
    assert len(losses) == card['steps'] == 3 and card['metrics'][-1]['set'] == 'own' and card['limits'][-2] == 'Trained in a test.'
    assert {row['use'] for row in card['data']} == {'trained', 'calibrated'}
    assert sum(row['rows'] for row in card['data']) == len(few_pairs())
    assert np.isfinite(TinyVerifier(folder).probabilities([('a', 'b')], store=False)).all()
    assert read_losses(folder) == pytest.approx(losses, abs=1e-4)


def test_an_oasis_shaped_file_trains_with_its_triplets_and_mined_neutral_ones(tmp_path, monkeypatch):
    import factlab.training.verifier as module
    load_oasis_sample().head(6).with_columns(split=pl.Series(['train']*4 + ['validation', 'test'])).write_parquet(tmp_path/'mine.parquet')
    own = training_data(tmp_path/'mine.parquet')
    train, held_out = (own.rows.filter(pl.col('split') == split) for split in ('train', 'dev'))
    pairs, seen = oasis_pairs(own, load_verifier('cosine'), store=False, related=None, min_neutral=0), []
    monkeypatch.setattr(module, 'evidence_groups', lambda pairs: seen.append(pairs) or evidence_groups(pairs))
    folder, _ = train_verifier(pairs, tmp_path/'part', replace(SMALL, steps=2, batch_tokens=400), notes=['Mined by the cosine.'], own=own)
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
    assert [(row['name'], row['licence'], row['use']) for row in card['data']] == [(*mine, 'calibrated'), (*mine, 'trained')]
    assert sum(row['rows'] for row in card['data']) == len(pairs) and '--data mine.parquet' in card['command']
    assert card['limits'][-1] == 'Mined by the cosine.' and not any('biographies' in limit for limit in card['limits'])
    assert {row['set'] for row in card['metrics']} == {'held out: mine.parquet (OASIS-shaped)'}


def test_a_label_that_is_missing_stops_the_training_or_stands_on_the_card(tmp_path):
    with pytest.raises(MissingLabel, match='label NEUT'): train_verifier(few_pairs(), tmp_path/'part', SMALL)
    assert not (tmp_path/'part').exists()
    folder, _ = train_verifier(few_pairs(), tmp_path/'part', SMALL, allow_missing_labels=True)
    assert 'It never saw a pair labelled NEUT' in read_card(folder)['limits'][-1]


def test_a_part_that_cannot_be_measured_leaves_nothing_in_its_place(tmp_path):
    def measure(verifier, dev): raise DataError('the set is not here')
    with pytest.raises(DataError, match='not here'): train_verifier(few_pairs(), tmp_path/'part', SMALL, measure, allow_missing_labels=True)
    assert not (tmp_path/'part').exists()


def test_calibration_finds_scale_and_shift_and_needs_both_classes():
    rng = np.random.default_rng(2)
    truth = rng.random(3000) < .5
    logits = np.stack([4*truth - 2 + rng.normal(size=3000)*2 + 3, np.zeros(3000), np.full(3000, -40.)], 1)
    found = fit_calibration(logits, truth, ['a']*3000)
    assert (support_margin(logits, found) > 0)[truth].mean() == pytest.approx((support_margin(logits, found) < 0)[~truth].mean(), abs=.05)
    with pytest.raises(DataError, match='both|supported and other'): fit_calibration(logits, np.ones(3000, bool), ['a']*3000)


def test_a_page_does_not_calibrate_itself():
    rng = np.random.default_rng(3)
    truth, group = rng.random(600) < .5, np.repeat([f'g{at}' for at in range(30)], 20)
    logits = np.stack([3*truth + rng.normal(size=600), np.zeros(600), np.full(600, -40.)], 1)
    plain = cross_fitted_log_odds(logits, truth, ['a']*600, group.tolist())
    mine = group == 'g7'
    turned = cross_fitted_log_odds(logits, truth ^ mine, ['a']*600, group.tolist())
    assert np.array_equal(turned[mine], plain[mine]) and not np.array_equal(turned[~mine], plain[~mine])
    alone = cross_fitted_log_odds(logits[mine], truth[mine], ['a']*20, ['one']*20)
    assert np.allclose(alone, support_margin(logits[mine], fit_calibration(logits[mine], truth[mine], ['a']*20)))


def test_unknown_sets_and_missing_held_out_pairs_are_named():
    with pytest.raises(UsageError, match='climate-fever'): measured_pairs('imagined')
    with pytest.raises(DataError, match='split dev'): dev_sample(few_pairs().filter(pl.col('split') == 'train'))


def test_passages_on_something_else_neither_calibrate_nor_pass_for_skill():
    pairs = few_pairs().with_columns(split=pl.lit('dev'))
    far = pairs.head(8).with_columns(id='far' + pl.col('id'), evidence=pl.lit('Owls hunt at night.'), label=pl.lit('NEUT'),
                                     kind=pl.lit(ELSEWHERE))
    assert sorted(dev_sample(pl.concat([pairs, far]))['id']) == sorted(pairs['id'])
    model = VerifierInTraining(VerifierSettings(layers=2, rank=2, dtype='float32'))
    log, plain = dev_logits(model, far), Calibration()
    def share(calibration): return [row['estimate'] for row in neutral_elsewhere(model, pl.concat([pairs, far]), calibration)]
    assert share(plain) == [pytest.approx((log.argmax(1) == NLI_LABELS.index('NEUT')).mean())] and share(Calibration(1, 50)) == [0]
    assert neutral_elsewhere(model, pairs, plain) == []


def test_nothing_that_is_measured_trains():
    "Judged training pairs are of WiCE's development half and of DeFacto outside FINAL; claims that are measured are others."
    for name in ('wice', 'defacto', 'final', 'xsumfaith'): real_data(name)
    judged = CLAIM_EVIDENCE_PAIRS.check(judged_pairs(download=False))
    for name in ('wice', 'final', 'xsumfaith'): assert not set(judged['claim']) & set(measured_pairs(name)['claim'])
    assert judged['evidence'].str.len_chars().max() < 4000 and set(judged['source']) == set(HUMAN_LABELLED)


def test_people_whom_factscore_sets_aside_train_nothing(monkeypatch):
    for name in ('factscore', 'wice', 'xquad', 'defacto', 'final'): real_data(name)
    from factlab.data import corpora
    from factlab.training import verifier as verifier_training
    from factlab.training.edited_pairs import STATEMENTS
    monkeypatch.setattr(verifier_training, 'passage_statements', lambda *_: STATEMENTS.frame([]))  # slow, and not of people
    people = set(verifier_training.training_statements(download=False)['page'])
    assert len(people) > 100 and not people & set(corpora.load_factscore(False).filter(pl.col('split') == 'test')['topic'])
