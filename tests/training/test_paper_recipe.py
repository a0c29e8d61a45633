"""LLM-OASIS' recipe for training (§ 5.3, § 6.1): Adafactor, the step chosen by easiness-F1, neutral evidence of whole pages."""
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from commands import run
from conftest import with_weights
from safetensors.torch import load_file

from factlab.building.training_views import training_data, with_pages
from factlab.cli import train as train_command
from factlab.core.core import DataError, UsageError, project_dir
from factlab.data.corpora import PASSAGES, load_oasis_sample
from factlab.models.adapters import check_card, read_card
from factlab.training import named_extractor
from factlab.training.extractor import Extraction, claim_texts, own_examples
from factlab.training.loop import Learner
from factlab.training.named_bases import BaseSettings, kept_steps, small_base
from factlab.training.named_extractor import named_extractor_card, passage_examples, train_named_extractor
from factlab.training.verifier import mining_note, mining_options, oasis_pairs
from factlab.verification.extraction import load_extractor

OWN = training_data('sample')


@pytest.fixture(scope='module')
def t5(tmp_path_factory) -> str:
    texts = [*OWN.rows['passage'], *OWN.rows['claims'].explode()]
    return str(small_base(tmp_path_factory.mktemp('bases')/'t5', 't5', texts, seed=1))


def plan(base: str, **changes) -> BaseSettings:
    given = dict(full=True, steps=6, batch=4, learning_rate=3e-2, max_tokens=384, dtype='float32', device='cpu', optimizer='adafactor')
    return BaseSettings(base, **given | changes)


def weights(folder: Path) -> dict: return load_file(folder/'model.safetensors')


def equal(one: dict, other: dict) -> bool: return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# ---- Adafactor ---------------------------------------------------------------------------------------------------------------------

def test_adafactor_is_that_of_transformers_and_goes_on_where_it_was():
    from transformers.optimization import Adafactor
    generator = torch.Generator().manual_seed(0)
    gradients = [(torch.randn(4, 3, generator=generator), torch.randn(3, generator=generator)) for _ in range(6)]
    def fresh(): return {'matrix': torch.nn.Parameter(torch.ones(4, 3)), 'vector': torch.nn.Parameter(torch.ones(3))}
    plain, ours, again = fresh(), fresh(), fresh()
    peer = Adafactor(list(plain.values()), lr=.1, scale_parameter=False, relative_step=False)
    learner, later = (Learner(part, .1, optimizer='adafactor') for part in (ours, again))
    for at, found in enumerate(gradients):
        for part in (plain, ours, again):
            for weight, gradient in zip(part.values(), found, strict=True): weight.grad = gradient.clone()
        peer.step()
        learner.update(.1)
        if at == 2: later.restore({name: tensor.clone() for name, tensor in learner.tensors().items()}, 3)
        if at > 2: later.update(.1)
    for name in plain: assert torch.equal(plain[name], ours[name]) and torch.equal(plain[name], again[name])
    assert {name.split('/')[0] for name in learner.tensors()} == {'weight', 'exp_avg_sq_row', 'exp_avg_sq_col', 'exp_avg_sq'}


def test_settings_say_which_optimizer_and_keep_its_rate(t5):
    settings = plan(t5, learning_rate=1e-5)
    assert {settings.rate_at(step) for step in (0, 3, 5)} == {1e-5} and settings.recorded()['optimizer'] == 'adafactor'
    usual = BaseSettings(t5)
    assert not {'optimizer'} & {*usual.recorded()} and usual.rate_at(0) != usual.rate_at(500)
    with pytest.raises(UsageError, match='optimizer is adamw or adafactor'): plan(t5, optimizer='sgd')
    assert kept_steps(700) == 100 and kept_steps(1_000_000) == 5_000


# ---- the step that is kept ---------------------------------------------------------------------------------------------------------

TEXTS = claim_texts(OWN).head(3)
EXAMPLES = passage_examples(OWN)[:8]


def test_the_step_with_the_highest_easiness_is_kept(t5, tmp_path, monkeypatch):
    found = iter([.1, .5, .3, .5, .2, .4])
    monkeypatch.setattr(named_extractor, 'written_easiness', lambda *given: next(found))
    made = train_named_extractor(tmp_path/'six', EXAMPLES, plan(t5), keep_every=1, select=TEXTS, looks=6)
    assert made.looks == [(1, .1), (2, .5), (3, .3), (4, .5), (5, .2), (6, .4)] and made.chosen == (2, .5)  # of equals the first
    two = train_named_extractor(tmp_path/'two', EXAMPLES, plan(t5, steps=2))
    last = train_named_extractor(tmp_path/'last', EXAMPLES, plan(t5))
    assert equal(weights(tmp_path/'six'), weights(tmp_path/'two')) and not equal(weights(tmp_path/'six'), weights(tmp_path/'last'))
    assert made.losses == last.losses and not two.looks and last.chosen is None
    card = check_card(named_extractor_card(made, EXAMPLES, plan(t5), [], '2026-01-01', OWN))
    assert card['settings']['selected_step'] == 2 and card['settings']['optimizer'] == 'adafactor' and 'Adafactor' in card['summary']
    assert 'after step 2' in card['how'] and '--optimizer adafactor --rate 0.03 --select' in card['command']
    with pytest.raises(UsageError, match="another training|select differs"):
        train_named_extractor(tmp_path/'last', EXAMPLES, plan(t5), select=TEXTS)


def test_a_selection_that_was_stopped_chooses_as_one_that_was_not(t5, tmp_path):
    def train(folder, **how): return train_named_extractor(folder, EXAMPLES, plan(t5, steps=8), keep_every=2, select=TEXTS, looks=4, **how)
    whole = train(tmp_path/'whole')
    def stop(step, loss):
        if step == 5: raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): train(tmp_path/'parts', on_step=stop)
    parts = train(tmp_path/'parts')
    assert parts.looks == whole.looks and len(whole.looks) == 4 and equal(weights(tmp_path/'whole'), weights(tmp_path/'parts'))


def test_what_is_measured_is_the_easiness_of_the_model_as_it_is(t5, tmp_path):
    made = train_named_extractor(tmp_path, EXAMPLES, plan(t5, steps=4), keep_every=4, select=TEXTS, looks=1)
    extractor = load_extractor(f'{made.name}?device=cpu&dtype=float32')
    written = Extraction('saved', TEXTS, extractor.extract(TEXTS['text'].to_list(), store=False)).means(resamples=10)
    assert made.chosen == (4, pytest.approx(written.filter(metric='f1')['value'].item(), abs=1e-5))


def test_a_causal_model_is_not_selected(tmp_path):
    base = small_base(tmp_path/'llama', 'llama', ['a b c'])
    with pytest.raises(UsageError, match='of an encoder-decoder'):
        train_named_extractor(tmp_path/'made', own_examples()[:4], plan(str(base)), select=TEXTS)


# ---- neutral evidence --------------------------------------------------------------------------------------------------------------

class ByLength:
    "The longer a passage, the likelier it is neutral; nothing is above .5."
    name, identity = 'by length', {'verifier': 'by length'}

    def probabilities(self, pairs, store=None):
        neutral = np.array([len(evidence)/1e5 for evidence, _ in pairs])
        return np.stack([1 - neutral, neutral, 0*neutral], 1)


def test_neutral_evidence_is_the_likeliest_of_all_passages_of_the_page_without_a_threshold():
    pages = pl.concat([PASSAGES.frame([dict(id=f'{page}/{at}', page=page, text=f'{page} ' + 'is described elsewhere '*(1 + at % 7))
                                       for at in range(12)]) for page in OWN.rows['page'].unique()])
    own = OWN._replace(rows=with_pages(OWN.rows, pages))
    pairs = oasis_pairs(own, ByLength(), related=None, min_neutral=0)
    neutral, claims = pairs.filter(label='NEUT'), int(own.rows['claims'].list.len().sum())
    assert neutral.height == claims and set(neutral['evidence'].str.count_matches('elsewhere')) == {7}
    assert oasis_pairs(own, ByLength(), related=None, min_neutral=.5).filter(label='NEUT').is_empty()
    note = mining_note(own, pairs, 'nli:V', related=None, min_neutral=0)
    assert "all passages of the claim's page, the likeliest to be neutral, however likely that is" in note
    assert f'{claims:,} of {claims:,}' in note
    assert mining_options('nli:V', None, 0, '/x/pages.parquet') == ' --neutral nli:V --whole-pages --pages pages.parquet'


def test_pages_are_found_by_their_names():
    rows = OWN.rows.head(2)
    page, other = rows['page'].to_list()
    passages = PASSAGES.frame([dict(id='1', page=page, text=rows['passage'][0]), dict(id='2', page=page, text='More of it.'),
                               dict(id='3', page=page, text='More of it.')])
    assert with_pages(rows, passages)['page_passages'].to_list() == [['More of it.'], []]
    with pytest.raises(DataError, match='compare the names'): with_pages(rows, passages.with_columns(page=pl.lit('Nowhere')))
    assert page != other


# ---- by one command ----------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('part, told', [
    ('extractor', {'base': 'google-t5/t5-base', 'full': True, 'optimizer': 'adafactor', 'rate': 1e-5, 'steps': 1_000_000, 'select': True}),
    ('retriever', {'base': 'intfloat/e5-base', 'full': True, 'similarity': 'dot', 'batch': 20, 'rate': 1e-6, 'steps': 300_000}),
    ('verifier', {'base': 'microsoft/deberta-v3-large', 'full': True, 'optimizer': 'adafactor', 'steps': 1_000_000, 'related': None,
                  'min_neutral': 0, 'neutral': 'nli:MoritzLaurer/DeBERTa-v3-large-mnli-fever-anli-ling-wanli'})])
def test_the_papers_recipe_is_one_option(part, told, monkeypatch, tmp_path):
    import papermill
    seen = {}
    monkeypatch.setattr(train_command, 'run_training', lambda notebook, parameters: seen.update(parameters) or notebook)
    monkeypatch.setattr(train_command, 'given_base', lambda base: base)
    assert run('train', part, '--paper', '--data', 'sample', '--out', tmp_path/'out') == 0
    assert told.items() <= seen.items() and seen['data'] == 'sample' and seen['train'] is True
    assert {*seen} <= {*papermill.inspect_notebook(str(project_dir()/'nbs'/'train'/f'{part}.ipynb'))}
    run('train', part, '--paper', '--data', 'sample', '--steps', 3, '--base', 'mine/base', '--out', tmp_path/'out')
    assert (seen['steps'], seen['base'], seen['full']) == (3, 'mine/base', True)
    with pytest.raises(UsageError, match='name them with --data'): run('train', part, '--paper', '--out', tmp_path/'out')


@pytest.mark.timeout(1200)
def test_the_recipe_runs_on_small_bases(t5, tmp_path, monkeypatch):
    "As the command runs it, with a few pages, a T5 and a BERT of some thousand weights."
    with_weights(tmp_path/'home')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    monkeypatch.chdir(tmp_path)
    sample = load_oasis_sample().head(6).with_columns(split=pl.Series(['train']*4 + ['validation']*2))
    sample.with_columns(page_passages=pl.lit([], pl.List(pl.String))).write_parquet('mine.parquet')
    pages = [dict(id=f'{page}/{at}', page=page, text=f'{page} is old. It has {at} gates.') for page in sample['page'] for at in range(3)]
    PASSAGES.frame(pages).write_parquet('pages.parquet')
    small_base(tmp_path/'bert', 'bert', [*sample['passage'], *sample['claims'].explode()])
    run_training = train_command.run_training
    small = {'extractor': {'batch': 2, 'measured_on': 1}, 'verifier': {'batch': 2}}
    monkeypatch.setattr(train_command, 'run_training',
                        lambda notebook, parameters: run_training(notebook, parameters | small[notebook.stem]))
    given = ('--paper', '--data', 'mine.parquet', '--steps', 2)
    assert run('train', 'extractor', *given, '--base', t5, '--out', 'extractor') == 0
    card = read_card(tmp_path/'extractor')
    assert card['settings']['optimizer'] == 'adafactor' and card['settings']['selected_step'] == 2 and '--select' in card['command']
    mined = ('--neutral', 'cosine', '--pages', 'pages.parquet')
    assert run('train', 'verifier', *given, '--base', tmp_path/'bert', *mined, '--out', 'verifier') == 0
    card = read_card(tmp_path/'verifier')
    assert card['settings']['optimizer'] == 'adafactor' and '--neutral cosine --whole-pages --pages pages.parquet' in card['command']
    assert any('all passages of the claim' in limit for limit in card['limits'])
    shutil.rmtree(tmp_path/'home')
