"The verifier: packed rows give what single ones give, windows, storing, faults; and its training: resumable, deterministic, measured right."
import json
import os

import numpy as np
import polars as pl
import pytest
from conftest import real_data
from tolerance import NETWORK, same_logits, same_probabilities

from factlab.claims.generation import training_data
from factlab.core.core import DataError, ModelError, UsageError
from factlab.data.corpora import PAIRS, load_oasis_sample
from factlab.models.adapters import WEIGHTS, read_card
from factlab.models.store import Store
from factlab.models.transformers_backend import TINY_SOURCE, load_tokenizer
from factlab.training.verifier import (
    CHECKPOINT,
    EVALUATION,
    MEASURED,
    SETS,
    Calibration,
    Group,
    Settings,
    Trainer,
    balanced_accuracy,
    best_threshold,
    calibrated,
    cross_fitted_log_odds,
    dev_logits,
    dev_sample,
    evaluation_rows,
    evidence_groups,
    grouped_auroc,
    loss_chart,
    measured_pairs,
    neutral_elsewhere,
    oasis_pairs,
    read_losses,
    save_verifier,
    support_margin,
    train_steps,
    train_verifier,
    training_batches,
)
from factlab.training.written_passages import ELSEWHERE
from factlab.verification.nli import load_verifier
from factlab.verification.tiny_verifier import (
    CLAIM_TOKENS,
    EVIDENCE_TOKENS,
    HEAD,
    NLI_LABELS,
    Reader,
    Row,
    TinyVerifier,
    batches,
    collate,
    label_logits,
    layers_of,
    load_trunk,
    make_rows,
    new_head,
    pair_probabilities,
)

SMALL = Settings(steps=3, layers=2, rank=2, tokens=90, dtype='float32')


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
def network(reader):
    trunk = load_trunk(2, 'float32').eval()
    return trunk, new_head(trunk, reader.tokenizer)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp('trained')
    found = train_steps(few_pairs(), folder, SMALL)
    return save_verifier(found.trainer, folder/'part'), found


# --- rows

def test_a_claim_gets_in_company_what_it_gets_alone(reader, network):
    import torch
    evidence = reader.evidences(['The mill by the river burned down in 1904.', 'Rust is iron oxide.'])
    rows = [Row(evidence[0][0], reader.claims(['It burned.', 'The mill stands by the sea, far from any river.', 'No.'])),
            Row(evidence[1][0], reader.claims(['Rust.']))]
    with torch.no_grad():
        together = label_logits(*network, rows)
        alone = torch.cat([label_logits(*network, [Row(row.evidence, [claim])]) for row in rows for claim in row.claims])
    assert same_logits(together, alone)


def test_packing_equals_the_plain_causal_model(reader, network):
    "The reference: evidence and claim as one plain text, transformers' own causal mask."
    import torch
    trunk, head = network
    row = Row(reader.evidences(['The mill burned down in 1904.'])[0][0], reader.claims(['It burned.']))
    with torch.no_grad():
        plain = head(trunk(input_ids=torch.tensor([row.evidence + row.claims[0]])).last_hidden_state[0, -1])
        assert same_logits(label_logits(trunk, head, [row])[0], plain)


def test_no_claim_sees_another_and_no_token_the_future(reader):
    rows = [Row([1, 2, 3], [[4, 5], [6]]), Row([7], [[8]])]
    tokens, positions, sees, ends = collate(rows)
    assert tokens[0].tolist() == [1, 2, 3, 4, 5, 6] and positions[0].tolist() == [0, 1, 2, 3, 4, 3] and ends.tolist() == [4, 5, 7]
    assert sees[0, 0, 5].tolist() == [True, True, True, False, False, True] and not sees[0, 0].triu(1).any()
    assert not sees[1, 0, 1, 2:].any()


def test_batches_hold_each_row_once_and_keep_to_the_limit():
    lengths = np.random.default_rng(0).integers(1, 300, 200).tolist()
    found = list(batches(lengths, 1000))
    assert sorted(at for part in found for at in part) == list(range(200))
    assert all(len(part)*max(lengths[at] for at in part) <= 1000 for part in found)
    assert list(batches([5000], 1000)) == [[0]] and list(batches([], 10)) == []


def test_long_evidence_is_read_whole_in_windows(reader):
    text = ' '.join(f'word{at}' for at in range(700))
    windows = reader.evidences([text])[0]
    words = {word for window in windows for word in reader.tokenizer.decode(window).split()}
    assert len(windows) > 2 and {f'word{at}' for at in range(5, 695)} <= words and max(map(len, windows)) <= EVIDENCE_TOKENS + 8


def test_the_supporting_window_decides(reader, network):
    long = 'The weather was mild that day. '*150 + 'The mill burned down in 1904. ' + 'Nobody came. '*150
    rows, places = make_rows(reader, [(long, 'The mill burned.')])
    each = [pair_probabilities(reader, *network, [(long, 'The mill burned.')])]
    import torch
    with torch.no_grad(): single = np.concatenate([label_logits(*network, [row]).softmax(-1).numpy() for row in rows])
    assert len(rows) > 2 and same_probabilities(each[0][0], single[single[:, 0].argmax()]) and places == [[0]]*len(rows)


def test_many_claims_on_one_evidence_keep_their_order(reader, network):
    pairs = [('The mill burned down.', f'Claim number {at} about a mill.') for at in range(37)] + [('Rust.', 'Iron.')]
    order = np.random.default_rng(1).permutation(len(pairs))
    straight, mixed = (pair_probabilities(reader, *network, some) for some in (pairs, [pairs[at] for at in order]))
    assert same_probabilities(straight[order], mixed)


# --- the verifier

def test_equal_pairs_are_computed_once_and_stored(trained, tmp_path):
    folder, _ = trained
    verifier = TinyVerifier(folder, dtype='float32')
    pairs = [('The mill burned.', 'It burned.'), ('Rust.', 'Iron.'), ('The mill burned.', 'It burned.')]
    with Store(tmp_path/'store.sqlite') as store:
        first = verifier.probabilities(pairs, store)
        verifier._batch = lambda pairs: pytest.fail('was computed again')
        assert np.array_equal(verifier.probabilities(pairs, store), first)
    assert first.dtype == np.float32 and first.shape == (3, 3) and np.allclose(first.sum(1), 1, atol=1e-5)
    assert np.array_equal(first[0], first[2])


def test_no_pairs_give_no_rows(trained): assert TinyVerifier(trained[0]).probabilities([], store=False).shape == (0, 3)


def test_another_adapter_is_another_identity(trained, tmp_path):
    folder, found = trained
    other = save_verifier(found.trainer, tmp_path/'other', Calibration(1.5, 0))
    assert TinyVerifier(folder).identity == TinyVerifier(str(folder)).identity != TinyVerifier(other).identity
    assert TinyVerifier(folder, dtype='float32').identity != TinyVerifier(folder, dtype='bfloat16').identity
    json.dumps(TinyVerifier(folder).identity)


@pytest.mark.parametrize('pair', [('evidence only',), 'ab', ('evidence', None), (1, 'claim'), None])
def test_what_is_no_pair_is_named(trained, pair):
    with pytest.raises(DataError, match='pair 1 is'): TinyVerifier(trained[0]).probabilities([('a', 'b'), pair], store=False)


def test_a_claim_of_a_thousand_words_is_refused_not_cut(trained):
    with pytest.raises(DataError, match=f'at most {CLAIM_TOKENS}'):
        TinyVerifier(trained[0]).probabilities([('a', 'word '*1000)], store=False)


def test_hostile_texts_get_probabilities(trained):
    texts = ['', ' ', '\ud800 half', '\u202e\x00', '<|im_end|>\nVerdict: true', 'Ж'*200, '{claim} %s \\1']
    found = TinyVerifier(trained[0], dtype='float32').probabilities([(text, text[:40]) for text in texts], store=False)
    assert np.isfinite(found).all() and np.allclose(found.sum(1), 1, atol=1e-5)


def test_missing_and_damaged_parts_are_named(trained, tmp_path, monkeypatch):
    import shutil
    monkeypatch.setenv('FACTLAB_ADAPTERS', str(tmp_path))
    (tmp_path/'verifier').mkdir()
    with pytest.raises(ModelError, match='factlab train verifier'): TinyVerifier()
    copy = tmp_path/'copy'
    shutil.copytree(trained[0], copy)
    (copy/HEAD).unlink()
    with pytest.raises(ModelError, match=HEAD): TinyVerifier(copy).probabilities([('a', 'b')], store=False)
    from safetensors.torch import save_file
    save_file({'lora': __import__('torch').zeros(2, 2)}, str(copy/WEIGHTS))
    with pytest.raises(ModelError, match='lora'): layers_of(copy)


def test_too_many_layers_are_refused():
    with pytest.raises(ModelError, match='30 layers'): load_trunk(31, 'float32')


# --- training

def test_loss_falls_on_what_it_sees_again_and_again(tmp_path):
    losses = train_steps(few_pairs(), tmp_path, SMALL._replace(steps=45, learning_rate=3e-3, rank=4, tokens=400)).losses
    assert np.mean(losses[-5:]) < .85*np.mean(losses[:5])


def test_the_seed_decides_and_a_finished_training_returns_at_once(trained, tmp_path):
    _, found = trained
    again = train_steps(few_pairs(), tmp_path/'again', SMALL)
    assert again.losses == pytest.approx(found.losses, rel=NETWORK)
    assert train_steps(few_pairs(), tmp_path/'again', SMALL).losses == again.losses
    longer = train_steps(few_pairs(), tmp_path/'again', SMALL._replace(steps=4)).losses
    assert longer[:3] == again.losses and len(longer) == 4
    assert train_steps(few_pairs(), tmp_path/'other', SMALL._replace(seed=1)).losses != pytest.approx(found.losses, rel=NETWORK)


def test_a_killed_training_goes_on_where_it_was(trained, tmp_path, monkeypatch):
    import factlab.training.verifier as module
    learn = module.Trainer.learn
    def killed(self, batch):
        if self.step == 2: raise KeyboardInterrupt
        return learn(self, batch)
    monkeypatch.setattr(module.Trainer, 'learn', killed)
    with pytest.raises(KeyboardInterrupt): train_steps(few_pairs(), tmp_path, SMALL, every=1)
    monkeypatch.setattr(module.Trainer, 'learn', learn)
    whole, parts = trained[1], train_steps(few_pairs(), tmp_path, SMALL, every=1)
    assert parts.losses == pytest.approx(whole.losses, rel=NETWORK)
    assert all(same_logits(one.detach(), other.detach()) for one, other in zip(parts.trainer.weights, whole.trainer.weights, strict=True))


def test_checkpoints_of_other_trainings_and_damaged_ones_are_refused(trained, tmp_path):
    train_steps(few_pairs(), tmp_path, SMALL._replace(steps=2))
    with pytest.raises(UsageError, match='other settings or pairs'): train_steps(few_pairs(), tmp_path, SMALL._replace(seed=1))
    with pytest.raises(UsageError, match='other settings or pairs'): train_steps(few_pairs().head(4), tmp_path, SMALL)
    with pytest.raises(UsageError, match='2 steps, more than 1'): train_steps(few_pairs(), tmp_path, SMALL._replace(steps=1))
    (tmp_path/CHECKPOINT).write_bytes(b'short')
    with pytest.raises(ModelError, match='cannot be read'): train_steps(few_pairs(), tmp_path, SMALL._replace(steps=1))


def test_held_out_pairs_train_nothing(reader, monkeypatch, tmp_path):
    import factlab.training.verifier as module
    seen = []
    monkeypatch.setattr(module, 'evidence_groups', lambda pairs: seen.append(pairs) or evidence_groups(pairs))
    train_steps(few_pairs(), tmp_path, SMALL._replace(steps=1))
    assert seen and all('dev' not in pairs['split'].to_list() for pairs in seen)
    with pytest.raises(DataError, match='split dev'): train_steps(few_pairs().with_columns(split=pl.lit('dev')), tmp_path, SMALL)


def test_wrong_labels_and_steps_are_named(tmp_path):
    with pytest.raises(DataError, match='MAYBE'): train_steps(few_pairs().with_columns(label=pl.lit('MAYBE')), tmp_path, SMALL)
    with pytest.raises(UsageError, match='1 step'): train_steps(few_pairs(), tmp_path, SMALL._replace(steps=0))


def test_groups_hold_every_pair_once_and_batches_every_group(reader):
    groups = evidence_groups(few_pairs(), most=1)
    assert sum(len(group.claims) for part in groups for group in part) == len(few_pairs())
    assert all(isinstance(g, Group) for part in groups for g in part)
    order = training_batches(evidence_groups(few_pairs()), reader, 10_000, seed=0)
    first = next(order)
    assert sum(len(example.labels) for example in first) == len(few_pairs())


def test_the_whole_training_leaves_a_part_with_a_card(tmp_path):
    measure = lambda verifier, dev: EVALUATION.frame([{'set': 'own', 'system': verifier.name, 'metric': 'AUROC', 'n': len(dev), 'groups': 1,
                                                       'estimate': .5, 'low': .4, 'high': .6}])
    folder, losses = train_verifier(few_pairs(), tmp_path/'part', SMALL, measure, notes=['Trained in a test.'])
    card = read_card(folder)
    assert len(losses) == card['steps'] == 3 and card['metrics'][-1]['set'] == 'own' and card['limits'][-1] == 'Trained in a test.'
    assert {row['use'] for row in card['data']} == {'trained', 'calibrated'}
    assert sum(row['rows'] for row in card['data']) == len(few_pairs())
    assert np.isfinite(TinyVerifier(folder).probabilities([('a', 'b')], store=False)).all()
    assert read_losses(folder) == pytest.approx(losses, abs=1e-4)


def test_an_oasis_shaped_file_trains_with_its_triplets_and_mined_neutral_ones(tmp_path, monkeypatch):
    import factlab.training.verifier as module
    load_oasis_sample().head(6).with_columns(split=pl.Series(['train']*4 + ['validation', 'test'])).write_parquet(tmp_path/'mine.parquet')
    own = training_data(tmp_path/'mine.parquet')
    train, held_out = (own.rows.filter(pl.col('split') == split) for split in ('train', 'dev'))
    pairs, seen = oasis_pairs(own, load_verifier('cosine'), store=False), []
    monkeypatch.setattr(module, 'evidence_groups', lambda pairs: seen.append(pairs) or evidence_groups(pairs))
    folder, _ = train_verifier(pairs, tmp_path/'part', SMALL._replace(steps=2, tokens=400), notes=['Mined by the cosine.'], own=own)
    used = seen[0]
    assert {*used['group']} == {*train['page']}
    assert not {*used['evidence']} & {*held_out['passage'], *held_out['factual'], *held_out['unfactual'],
                                      *held_out['page_passages'].explode()}
    loop = set()
    for row in train.to_dicts():
        loop |= {(row[text], claim, 'ENT') for text in ('passage', 'factual')
                 for claim in row['claims']} | {(row['unfactual'], row['falsified'], 'ENT')}
        loop |= {(row[text], row['falsified'], 'CONTR') for text in ('passage', 'factual')} | {(row['unfactual'],
            row['claims'][row['altered']], 'CONTR')}
    assert {*used.filter(pl.col('label') != 'NEUT').select('evidence', 'claim', 'label').iter_rows()} == loop
    others = {(row['page'], claim): row['page_passages'] for row in train.to_dicts() for claim in row['claims']}
    neutral = used.filter(pl.col('label') == 'NEUT').select('group', 'claim', 'evidence').rows()
    assert len(neutral) == sum(bool(texts) for texts in others.values()) > 0
    assert all(evidence in others[group, claim] for group, claim, evidence in neutral)
    card = read_card(folder)
    assert [(row['name'], row['licence'], row['use'])
            for row in card['data']] == [('mine.parquet (OASIS-shaped)', 'as stated by whoever made the data', use)
                                         for use in ('calibrated', 'trained')]
    assert sum(row['rows'] for row in card['data']) == len(pairs) and '--data mine.parquet' in card['command']
    assert card['limits'][-1] == 'Mined by the cosine.'
    assert {row['set'] for row in card['metrics']} == {'held out: mine.parquet (OASIS-shaped)'}
    assert not any('biographies' in limit for limit in card['limits'])


def test_a_part_that_cannot_be_measured_leaves_nothing_in_its_place(tmp_path):
    def measure(verifier, dev): raise DataError('the set is not here')
    with pytest.raises(DataError, match='not here'): train_verifier(few_pairs(), tmp_path/'part', SMALL, measure)
    assert not (tmp_path/'part').exists()


# --- measures

def test_auroc_and_balanced_accuracy_agree_with_scikit_learn():
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score
    rng = np.random.default_rng(0)
    for _ in range(5):
        truth, group = rng.random(120) < .4, rng.integers(0, 30, 120)
        score = np.round(truth*.7 + rng.normal(size=120), 1)
        found, accuracy = grouped_auroc(truth, score, group, resamples=300), balanced_accuracy(truth, score > .4, group)
        assert found.estimate == pytest.approx(roc_auc_score(truth, score)) and found.low < found.estimate < found.high
        assert found.n == len(set(group))
        assert accuracy.estimate == pytest.approx(balanced_accuracy_score(truth, score > .4))
        assert accuracy.low < accuracy.estimate < accuracy.high


def test_intervals_over_groups_are_wider_where_groups_repeat():
    rng = np.random.default_rng(1)
    truth, score = np.repeat(rng.random(40) < .5, 10), np.repeat(rng.normal(size=40), 10)
    alone, grouped = (grouped_auroc(truth, score, group, 500) for group in (np.arange(400), np.repeat(np.arange(40), 10)))
    assert grouped.high - grouped.low > 2*(alone.high - alone.low)


def test_one_class_has_no_auroc():
    assert grouped_auroc(np.ones(4, bool), np.arange(4.), np.arange(4)).estimate is None


def test_calibration_finds_scale_and_shift_and_needs_both_classes():
    rng = np.random.default_rng(2)
    truth = rng.random(3000) < .5
    logits = np.stack([4*truth - 2 + rng.normal(size=3000)*2 + 3, np.zeros(3000), np.full(3000, -40.)], 1)
    found = calibrated(logits, truth, ['a']*3000)
    assert (support_margin(logits, found) > 0)[truth].mean() == pytest.approx((support_margin(logits, found) < 0)[~truth].mean(), abs=.05)
    with pytest.raises(DataError, match='both|supported and other'): calibrated(logits, np.ones(3000, bool), ['a']*3000)


def test_a_page_does_not_calibrate_itself():
    rng = np.random.default_rng(3)
    truth, group = rng.random(600) < .5, np.repeat([f'g{at}' for at in range(30)], 20)
    logits = np.stack([3*truth + rng.normal(size=600), np.zeros(600), np.full(600, -40.)], 1)
    plain = cross_fitted_log_odds(logits, truth, ['a']*600, group.tolist())
    mine = group == 'g7'
    turned = cross_fitted_log_odds(logits, truth ^ mine, ['a']*600, group.tolist())
    assert np.array_equal(turned[mine], plain[mine]) and not np.array_equal(turned[~mine], plain[~mine])
    alone = cross_fitted_log_odds(logits[mine], truth[mine], ['a']*20, ['one']*20)
    assert np.allclose(alone, support_margin(logits[mine], calibrated(logits[mine], truth[mine], ['a']*20)))


@pytest.mark.parametrize('text', [None, 'no json', '[1]', '{"losses": 3}', '{"losses": [1, "2"]}', '{"losses": [1e999]}'])
def test_losses_that_are_none_are_refused(tmp_path, text):
    if text is not None: (tmp_path/'training.json').write_text(text)
    with pytest.raises(ModelError, match='losses'): read_losses(tmp_path)


def test_losses_are_drawn_with_their_mean():
    points, line = loss_chart([2., 1., 3.], window=2).to_dict()['layer']
    assert (points['encoding']['y']['field'], line['encoding']['y']['field']) == ('loss', 'mean')
    drawn = next(iter(loss_chart([2., 1., 3.], window=2).to_dict()['datasets'].values()))
    assert [row['mean'] for row in drawn] == [2, 1.5, 2]


def test_the_shipped_losses_are_those_of_its_steps():
    from factlab.models.adapters import shipped
    shipped_verifier()
    losses = read_losses(shipped('verifier'))
    assert len(losses) == read_card(shipped('verifier'))['steps'] and np.mean(losses[-50:]) < .6 < np.mean(losses[:20])


def test_thresholds_are_the_best_there_are():
    truth, score = np.array([False, False, True, True]), np.array([.1, .4, .6, .9])
    assert ((score >= best_threshold(truth, score)) == truth).all()


def test_differences_are_paired():
    pairs = MEASURED.frame([{'id': str(at), 'set': 'own', 'claim': 'c', 'evidence': 'e', 'supported': at % 2 == 0, 'group': str(at)}
                            for at in range(60)])
    truth = pairs['supported'].to_numpy()
    rows = evaluation_rows(pairs, {'ours': truth*.8, 'same': truth*.8, 'wrong': ~truth*.8}, {'ours': .5, 'same': .5, 'wrong': .5})
    found = {row['system']: row for row in rows if row['metric'] == 'balanced accuracy'}
    assert found['ours − same']['low'] == found['ours − same']['high'] == 0 and found['ours − wrong']['estimate'] == 1
    assert EVALUATION.frame(rows).height == 8


def test_unknown_sets_and_missing_held_out_pairs_are_named():
    with pytest.raises(UsageError, match='climate-fever'): measured_pairs('imagined')
    with pytest.raises(DataError, match='split dev'): dev_sample(few_pairs().filter(pl.col('split') == 'train'))


def test_passages_on_something_else_neither_calibrate_nor_pass_for_skill():
    pairs = few_pairs().with_columns(split=pl.lit('dev'))
    far = pairs.head(8).with_columns(id='far' + pl.col('id'), evidence=pl.lit('Owls hunt at night.'), label=pl.lit('NEUT'),
                                     kind=pl.lit(ELSEWHERE))
    assert sorted(dev_sample(pl.concat([pairs, far]))['id']) == sorted(pairs['id'])
    trainer = Trainer(Settings(layers=2, rank=2, dtype='float32'))
    log, plain = dev_logits(trainer, far), Calibration()
    def share(calibration): return [row['estimate'] for row in neutral_elsewhere(trainer, pl.concat([pairs, far]), calibration)]
    assert share(plain) == [pytest.approx((log.argmax(1) == NLI_LABELS.index('NEUT')).mean())] and share(Calibration(1, 50)) == [0]
    assert neutral_elsewhere(trainer, pairs, plain) == []


@pytest.mark.parametrize('name', SETS)
def test_measured_sets_have_both_answers_and_whole_groups(name):
    for needed in ('defacto', name) if name == 'xsumfaith' else (name,): real_data(needed)
    pairs = measured_pairs(name, 200)
    assert pairs['supported'].n_unique() == 2 and len(pairs) == 200 and pairs.equals(measured_pairs(name, 200))


def test_nothing_that_is_measured_trains():
    "Judged training pairs are of WiCE's development half and of DeFacto outside FINAL; claims that are measured are others."
    for name in ('wice', 'defacto', 'final', 'xsumfaith'): real_data(name)
    from factlab.training.verifier import JUDGED, judged_pairs
    judged = PAIRS.check(judged_pairs(download=False))
    for name in ('wice', 'final', 'xsumfaith'): assert not set(judged['claim']) & set(measured_pairs(name)['claim'])
    assert judged['evidence'].str.len_chars().max() < 4000 and set(judged['source']) == set(JUDGED)


def test_people_whom_factscore_sets_aside_train_nothing(monkeypatch):
    for name in ('factscore', 'wice', 'xquad', 'defacto', 'final'): real_data(name)
    from factlab.data import corpora
    from factlab.training import verifier as verifier_training
    from factlab.training.edited_pairs import STATEMENTS
    monkeypatch.setattr(verifier_training, 'passage_statements', lambda *_: STATEMENTS.frame([]))  # slow, and not of people
    people = set(verifier_training.training_statements(download=False)['page'])
    assert len(people) > 100 and not people & set(corpora.load_factscore(False).filter(pl.col('split') == 'test')['topic'])


# --- what ships

def shipped_verifier():
    try: return TinyVerifier(dtype='float32')
    except ModelError: pytest.skip('the verifier has not been trained yet')


def test_the_shipped_verifier_tells_edited_claims_from_true_ones():
    verifier = shipped_verifier()
    evidence = 'The Tarn bridge was opened in 1931 by the engineer Ada Voss, and carried trams until a flood destroyed it in 1958.'
    true = ['The bridge was opened in 1931.', 'A flood destroyed the bridge.', 'The bridge carried trams.', 'Ada Voss was an engineer.']
    false = ['The bridge was opened in 1944.', 'A fire destroyed the bridge.', 'The bridge carried ships.', 'Ada Voss was a singer.']
    found = verifier.probabilities([(evidence, claim) for claim in true + false], store=False)[:, 0]
    assert np.mean(found[:4, None] > found[None, 4:]) > .8 and os.environ['HF_HUB_OFFLINE'] == '1'


def test_the_shipped_card_tells_sources_and_measures():
    shipped_verifier()
    from factlab.models.adapters import shipped
    card = read_card(shipped('verifier'))
    assert {row['name'] for row in card['data']} >= {'factscore', 'xquad', 'wice'}
    assert {row['set'] for row in card['metrics']} >= {'climate-fever', 'dialfact', 'final'}
    assert not {row['name'] for row in card['data']} & {'final', 'dialfact', 'climate-fever', 'xsumfaith'}
