"""The retriever's training: the loss of eq. 6, batches without false negatives, a run that is killed, and the part that ships."""
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from conftest import real_data
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.building.training_views import training_data
from factlab.core.core import DataError, ModelError, UsageError
from factlab.data import corpora
from factlab.models import adapters
from factlab.models.encoder import Encoder
from factlab.training.loop import CHECKPOINT
from factlab.training.retriever import (
    BEFORE_AND_AFTER,
    RETRIEVER_PAIRS,
    SCALES,
    TRAINING_CURVE,
    RetrieverInTraining,
    RetrieverSettings,
    batches,
    before_and_after,
    dev_set,
    held_out_task,
    oasis_pairs,
    publish,
    ranking_loss,
    task_pairs,
    train_retriever,
    training_card,
    training_pairs,
)

SMALL = RetrieverSettings(steps=3, batch=3, rank=2, max_tokens=24, evaluate_every=2)


def pairs_of(rows):
    return RETRIEVER_PAIRS.frame([dict(claim=f'claim {c}', passage=f'passage {p}', group=f'g{c}', source='sample') for c, p in rows])


PAIRS = pairs_of([(i, i//2) for i in range(8)]).with_columns(split=pl.Series(['dev'] + ['train']*7))


class Fixed(torch.nn.Module):
    "Stands for an encoder: its vectors are parameters, looked up by the number of the text."
    def __init__(self, vectors):
        super().__init__()
        self.vectors = torch.nn.Parameter(torch.tensor(vectors))

    def forward(self, features): return {'sentence_embedding': self.vectors[features['input_ids'][:, 0]]}
    def get_embedding_dimension(self): return self.vectors.shape[1]
    def __getitem__(self, index): return self  # its own first module, as losses look at it


def equation6(claims, passages, scale):
    "LLM-OASIS eq. 6, term by term."
    total = 0.
    for i, claim in enumerate(claims):
        right = math.exp(scale*sum(a*b for a, b in zip(claim, passages[i], strict=True)))
        wrong = sum(math.exp(scale*sum(a*b for a, b in zip(claim, passages[j], strict=True))) for j in range(len(passages)) if j != i)
        total -= math.log(right/(right + wrong))
    return total


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.integers(0, 10**6), st.sampled_from([None, 2]))
def test_the_loss_is_equation_6(n, seed, mini_batch):
    vectors = np.random.default_rng(seed).normal(size=(2*n, 4)).astype(np.float32)
    unit = vectors/np.linalg.norm(vectors, axis=1, keepdims=True)
    features = [{'input_ids': torch.arange(start, start + n)[:, None], 'attention_mask': torch.ones(n, 1)} for start in (0, n)]
    for similarity, scale, used in (('dot', 1., vectors), ('cosine', 20., unit)):
        model = Fixed(vectors)
        loss = ranking_loss(model, RetrieverSettings(similarity=similarity, scale=scale, mini_batch=mini_batch))(features, torch.arange(n))
        assert n*loss.item() == pytest.approx(equation6(used[:n].tolist(), used[n:].tolist(), scale), rel=1e-4, abs=1e-5)


def test_cached_gradients_are_the_plain_ones():
    vectors = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    features = [{'input_ids': torch.arange(start, start + 6)[:, None], 'attention_mask': torch.ones(6, 1)} for start in (0, 6)]
    gradients = []
    for mini_batch in (None, 2):
        model = Fixed(vectors)
        ranking_loss(model, RetrieverSettings(mini_batch=mini_batch))(features, torch.arange(6)).backward()
        gradients.append(model.vectors.grad)
    assert torch.allclose(*gradients, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=4, max_size=40), st.integers(2, 4), st.integers(0, 100))
def test_no_batch_holds_a_false_negative(rows, size, seed):
    pairs, bearing = pairs_of(rows), set(pairs_of(rows).select('claim', 'passage').iter_rows())
    try: drawn = [batch for batch, _ in zip(batches(pairs, size, seed), range(6), strict=False)]
    except DataError: return
    for batch in drawn:
        assert len(batch) == size == len({claim for claim, _ in batch}) == len({passage for _, passage in batch})
        assert all((claim, passage) not in bearing for i, (claim, _) in enumerate(batch) for j, (_, passage) in enumerate(batch) if i != j)
    assert drawn == [batch for batch, _ in zip(batches(pairs, size, seed), range(6), strict=False)]


def test_every_pair_gets_its_turn():
    pairs = pairs_of([(i, i//2) for i in range(20)])
    stream = batches(pairs, 4)
    seen = [pair for _ in range(10) for pair in next(stream)]
    assert set(seen) == set(pairs.select('claim', 'passage').iter_rows()) and max(seen.count(pair) for pair in seen) <= 3
    with pytest.raises(DataError, match='smaller batch'): next(batches(pairs_of([(0, 0), (1, 0), (2, 0)]), 2))


def test_the_rate_warms_up_over_a_fifth_and_falls_to_nothing():
    plan = RetrieverSettings(steps=200, learning_rate=1.)
    rates = [plan.rate_at(step) for step in range(200)]
    assert max(rates) == rates[39] == 1 and rates[0] == 1/40 and 0 < rates[199] < .01
    assert (np.diff(rates[:40]) > 0).all() and (np.diff(rates[40:]) < 0).all()


@pytest.mark.parametrize('stop', [2, 3])
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path, stop):
    whole = train_retriever(tmp_path/'whole', PAIRS, SMALL)
    def killed(step, loss):
        if step == stop: raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): train_retriever(tmp_path/'parts', PAIRS, SMALL, on_step=killed)
    steps = []
    parts = train_retriever(tmp_path/'parts', PAIRS, SMALL, on_step=lambda step, loss: steps.append(step))
    assert steps == ([1, 2, 3] if stop == 2 else [3]), 'goes on from the last checkpoint'
    assert parts.equals(whole) and TRAINING_CURVE.check(parts)['step'].to_list() == [0, 2, 3]
    assert adapters.adapter_digest(tmp_path/'parts') == adapters.adapter_digest(tmp_path/'whole')
    with pytest.raises(UsageError, match='seed is 0 there and 1 here'): train_retriever(tmp_path/'whole', PAIRS, replace(SMALL, seed=1))
    with pytest.raises(UsageError, match='max_tokens is 24 there'): train_retriever(tmp_path/'whole', PAIRS, replace(SMALL, max_tokens=30))
    (tmp_path/'whole'/CHECKPOINT).write_bytes(b'half')
    with pytest.raises(DataError, match='delete it'): train_retriever(tmp_path/'whole', PAIRS, SMALL)


def test_training_brings_a_claim_near_its_passage(tmp_path):
    rows = [('Which animal guards the gate?', 'A bronze lion stands before the door.'),
            ('Who baked it?', 'The loaf came out of the oven of Anna Lind.'),
            ('How high is it?', 'From foot to top one counts 412 steps.'),
            ('When did it end?', 'The last train left in the spring of 1961.')]
    pairs = RETRIEVER_PAIRS.frame([dict(claim=claim, passage=passage, group=claim, source='sample') for claim, passage in rows])
    curve = train_retriever(tmp_path, pairs, RetrieverSettings(steps=12, batch=4, learning_rate=1e-3, max_tokens=32, evaluate_every=6))
    before, after = Encoder('tiny'), Encoder(f'tiny?adapter={tmp_path}')
    def near(encoder):
        claims, passages = (encoder.encode(list(texts), store=False) for texts in zip(*rows, strict=True))
        return np.trace(claims @ passages.T)/4 - (claims @ passages.T).mean()
    assert near(after) > near(before) + .05 and curve['loss'][2] < curve['loss'][1]


def test_pairs_and_the_set_aside():
    sample = training_pairs(['sample'])
    assert sample.group_by('group').agg(pl.col('split').n_unique())['split'].max() == 1 and {'train', 'dev'} == {*sample['split']}
    dev = dev_set(sample, max_claims=10, others=5)
    bearing = set(sample.select('claim', 'passage').iter_rows())
    assert len(dev.claims) == 10
    assert all((claim, dev.pool[row]) in bearing for claim, rows in zip(dev.claims, dev.relevant, strict=True) for row in rows)
    with pytest.raises(UsageError, match='nowhere'): training_pairs(['nowhere'])
    with pytest.raises(UsageError): training_pairs([])


def test_an_oasis_shaped_file_trains_with_all_six_kinds_of_pairs(tmp_path, monkeypatch):
    split = pl.Series(['train']*4 + ['validation', 'test'])
    corpora.load_oasis_sample().head(6).with_columns(split=split).write_parquet(tmp_path/'mine.parquet')
    own = training_data(tmp_path/'mine.parquet')
    pairs, seen, loss = oasis_pairs(own), [], RetrieverInTraining.loss
    monkeypatch.setattr(RetrieverInTraining, 'loss', lambda self, batch: seen.extend(batch) or loss(self, batch))
    train, held_out = own.rows.filter(pl.col('split') == 'train'), own.rows.filter(pl.col('split') == 'dev')
    small = replace(SMALL, steps=2, batch=4)
    curve = train_retriever(tmp_path/'work', pairs, small)
    loop = {(claim, row[text], f'{kind}/{text}') for row in train.to_dicts() for text in ('passage', 'factual', 'unfactual')
            for kind, claims in (('claim', row['claims']), ('falsified', [row['falsified']])) for claim in claims}
    assert {*pairs.filter(pl.col('split') == 'train').select('claim', 'passage', 'kind').iter_rows()} == loop
    assert len({kind for *_, kind in loop}) == 6
    assert len(seen) == 8 and {*seen} <= {(claim, passage) for claim, passage, _ in loop}
    assert not {passage for _, passage in seen} & {*held_out['passage'], *held_out['factual'], *held_out['unfactual']}
    task = held_out_task(own)
    assert {*task.claims['text']} == {*held_out['falsified'], *held_out['claims'].explode()}
    assert {*train['passage']} < {*task.passages['text']}
    measured = before_and_after('tiny', f'tiny?adapter={tmp_path/"work"}', [task], [1])
    part = publish(tmp_path/'work', tmp_path/'part', small, pairs, measured, curve, '2026-01-01', own)
    card = adapters.read_card(part)
    assert card['data'][0] == {'name': 'mine.parquet (OASIS-shaped)', 'licence': 'as stated by whoever made the data', 'rows': len(loop),
                               'use': 'trained'}
    assert '--data mine.parquet' in card['command'] and card['metrics'][0]['set'] == 'mine.parquet (OASIS-shaped), held out'
    assert not any('Climate' in limit for limit in card['limits'])
    with pytest.raises(UsageError, match='no licence'):
        publish(tmp_path/'work', tmp_path/'half', small, pairs, measured, curve, '2026-01-01')
    assert not (tmp_path/'half').exists(), 'no weights without a card'
    with pytest.raises(UsageError, match='oasis_pairs'): training_pairs([str(tmp_path/'mine.parquet')])


def test_the_papers_training_is_named_by_the_card_and_sends_plain_inner_products(monkeypatch):
    "Eq. 6 and § 6.1: dot products, scale 1, batch 20, rate 1e-6, 300,000 steps, every weight."
    paper = RetrieverSettings('intfloat/e5-base-v2', 300_000, 20, 1e-6, similarity='dot', scale=SCALES['dot'], max_tokens=512, full=True,
                              prefixes=('query: ', 'passage: '))
    curve = TRAINING_CURVE.frame([{'step': 0, 'loss': None, 'dev_recall': .1}, {'step': 100, 'loss': 1., 'dev_recall': .2}])
    card = training_card(paper, PAIRS, BEFORE_AND_AFTER.frame(), curve, '2026-01-01')
    assert card['command'] == ('factlab train retriever --base intfloat/e5-base-v2 --full --rate 1e-06 --similarity dot --scale 1 '
                               '--max-tokens 512 --steps 300000 --seed 0')
    assert {'similarity': 'dot', 'scale': 1., 'max_tokens': 512}.items() <= card['settings'].items()
    vectors = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    features = [{'input_ids': torch.tensor([[at] for at in part])} for part in (range(3), range(3, 6))]
    found = ranking_loss(Fixed(vectors), paper)(features, torch.arange(3)).item()
    scores = vectors[:3] @ vectors[3:].T
    by_hand = -sum(math.log(math.exp(scores[i, i])/sum(math.exp(score) for score in scores[i])) for i in range(3))
    assert found == pytest.approx(by_hand/3, rel=1e-5)
    for wrong in ({'similarity': 'euclid'}, {'scale': 0.}, {'max_tokens': 1}):
        with pytest.raises(UsageError): RetrieverSettings(**wrong)


def test_what_ships_is_trained_on_nothing_that_it_is_measured_on():
    for name in ('wice', 'xquad', 'factscore', 'climate-fever'): real_data(name)
    pairs = training_pairs()
    texts = {*pairs['claim'], *pairs['passage']}
    climate, wice = corpora.retrieval_task('climate-fever'), corpora.retrieval_task('wice')
    assert not texts & {*climate.claims['text']} and not texts & {*wice.claims.filter(pl.col('split') == 'test')['text']}
    shared = {*climate.passages['text']} & texts  # an article of XQuAD is in Climate-FEVER's Wikipedia, too; the card says so
    assert len(shared) == 3 and any('3 of Climate-FEVER' in limit for limit in adapters.read_card(adapters.shipped('retriever'))['limits'])
    people = corpora.load_factscore().filter(pl.col('split') == 'test')['topic'].unique().to_list()
    assert not {f'factscore/{name}' for name in people} & {*pairs['group']}
    assert set(task_pairs(climate)['source']) == {'climate-fever'}


def test_no_licence_no_card():
    curve = TRAINING_CURVE.frame([dict(step=0, loss=None, dev_recall=.1), dict(step=2, loss=1., dev_recall=.2)])
    train = PAIRS.with_columns(source=pl.lit('climate-fever'))
    with pytest.raises(UsageError, match='licence'): training_card(SMALL, train, BEFORE_AND_AFTER.frame(), curve, '2026-01-01')
    assert training_card(SMALL, PAIRS, BEFORE_AND_AFTER.frame(), curve, '2026-01-01')['settings']['step_kept'] == 2


def test_before_and_after_is_paired():
    task = corpora.retrieval_task('sample')
    small = corpora.RetrievalTask('sample', task.passages, task.claims.head(40), task.relevance)
    same = before_and_after('bm25', 'bm25', [small], [1])
    assert same['difference_low'].to_list() == same['difference_high'].to_list() == [0] and same['n'].to_list() == [40]


def test_an_adapter_elsewhere_takes_the_place_of_what_ships(tmp_path, monkeypatch):
    train_retriever(tmp_path/'retriever', PAIRS, SMALL)
    monkeypatch.setenv('FACTLAB_ADAPTERS', str(tmp_path))
    assert Encoder('retriever').identity['adapter'] == adapters.adapter_digest(tmp_path/'retriever')
    with pytest.raises(ModelError): Encoder(f'tiny?adapter={tmp_path}').encode(['a'], store=False)
