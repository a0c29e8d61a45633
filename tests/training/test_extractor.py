"""Training the extractor: what is learned from, the loss against transformers' own, runs that are stopped, what ships."""
import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from conftest import real_data
from tolerance import NETWORK

from factlab.claims.extraction import extractor_prompts, load_extractor, parse_claims
from factlab.claims.training_views import training_data
from factlab.core.core import DataError, ModelError, UsageError
from factlab.data.corpora import load_factscore, load_oasis_sample
from factlab.data.registry import REGISTRY
from factlab.models.adapters import WEIGHTS, adapter_place, put_part, read_card
from factlab.models.prompts import Parsed
from factlab.models.transformers_backend import TINY_SOURCE, ChatFormat, load_tokenizer
from factlab.text.sentences import split_sentences
from factlab.training import extractor as training
from factlab.training.extractor import (
    ExtractorSettings,
    biography_examples,
    claim_texts,
    example_tokens,
    form_digest,
    length_batches,
    nearest_sentences,
    oasis_examples,
    own_examples,
    text_examples,
    train_extractor,
    training_identity,
    with_name,
)
from factlab.training.loop import CHECKPOINT


@pytest.fixture(scope='module')
def chat(): return ChatFormat(load_tokenizer('tiny', TINY_SOURCE))


@pytest.fixture(scope='module')
def short():
    "The three shortest examples."
    return sorted(own_examples(), key=lambda example: sum(len(message.content) for message in example.messages))[:3]


def test_our_own_sentences_keep_the_rules_that_they_teach():
    examples = own_examples()
    claims = [claim for example in examples for claim in example.claims]
    assert len(examples) >= 2000 and all(len(claim.split()) <= 15 and claim.endswith('.') for claim in claims)
    assert not [claim for claim in claims if claim.split()[0] in ('He', 'She', 'It', 'They', 'His', 'Her', 'Its', 'Their', 'This')]
    assert sum(not example.claims for example in examples) >= 10


def test_our_own_sentences_are_sentences_to_the_splitter():
    for line in (training.assets_dir('training')/'extraction.jsonl').read_text().splitlines():
        page = json.loads(line)
        assert split_sentences(' '.join(page['sentences'])) == page['sentences']


def test_nothing_of_the_sample_is_trained_on():
    pages = {page.casefold() for page in load_oasis_sample()['page']}
    told = {claim.casefold() for claims in load_oasis_sample()['claims'] for claim in claims}
    assert not pages & {example.group.casefold() for example in own_examples()}
    assert not told & {claim.casefold() for example in own_examples() for claim in example.claims}


def test_people_held_out_are_not_trained_on():
    real_data('factscore')
    factscore = load_factscore()
    trained = {example.group for example in biography_examples(factscore.filter(pl.col('split') == 'train'))}
    held_out = claim_texts('factscore')
    ours = ' '.join(text for example in own_examples()
                    for text in (example.group, *(message.content for message in example.messages), *example.claims))
    assert not [person for person in factscore['topic'].unique() if person in ours]
    assert not trained & set(held_out['group']) and len(held_out) >= 60 and held_out['group'].n_unique() >= 30


@pytest.mark.parametrize(('claim', 'expected'),
                         [('He sang.', 'Ann Ek sang.'), ('His voice is low.', "Ann Ek's voice is low."), ('Hers is low.', 'Hers is low.'),
                                                 ('The choir saw her.', 'The choir saw her.'), ('', ''), ('He', 'Ann Ek')])
def test_a_name_takes_the_place_of_a_pronoun_at_the_beginning(claim, expected): assert with_name(claim, 'Ann Ek') == expected


def test_what_is_trained_is_what_is_asked(chat):
    split = ['Graz has a tower.', 'It has a clock.', 'People like it.']
    examples = text_examples('own', 'Graz', split, [['Graz has a tower.'], ['The tower has a clock.'], []])
    assert [example.messages for example in examples] == extractor_prompts(' '.join(split))
    tokens = example_tokens(examples, chat)
    assert [one.prompt for one in tokens] == chat.tokens(extractor_prompts(split))
    answers = [chat.tokenizer.decode(one.answer[:-1]) for one in tokens]
    assert [parse_claims(answer).value for answer in answers] == [['Graz has a tower.'], ['The tower has a clock.'], []]
    assert all(one.answer[-1] == chat.tokenizer.eos_token_id for one in tokens)
    assert example_tokens(examples, chat, max_tokens=3) == []


def test_every_row_comes_once_in_a_pass():
    batches = length_batches([7*n % 50 for n in range(23)], 5, seed=3)
    for _ in range(3): assert sorted(row for _ in range(5) for row in next(batches)) == list(range(23))


def test_the_loss_is_that_of_transformers(chat, short):
    "Labels of -100 where nothing is to be learned, as every trainer of transformers has them."
    import torch
    model = training._trainable(ExtractorSettings(dtype='float32', rank=1))
    batch = example_tokens(short, chat)
    width = max(one.length for one in batch)
    ids = torch.tensor([[*one.prompt, *one.answer] + [0]*(width - one.length) for one in batch])
    labels = torch.tensor([[-100]*len(one.prompt) + one.answer + [-100]*(width - one.length) for one in batch])
    mask = torch.tensor([[1]*one.length + [0]*(width - one.length) for one in batch])
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask, labels=labels).loss.item()
        assert training.answer_loss(model, batch).item() == pytest.approx(expected, rel=NETWORK)


def test_training_lowers_the_loss_and_goes_on_where_it_was_stopped(tmp_path, short):
    settings = ExtractorSettings(steps=4, batch=3, rank=2, warmup_steps=1, learning_rate=3e-3, dtype='float32')
    whole = train_extractor(tmp_path/'whole', short, settings)
    assert whole.losses[-1] < whole.losses[0] - .2

    class Stopped(Exception): pass
    def stop(step, loss):
        if step == 3: raise Stopped
    with pytest.raises(Stopped): train_extractor(tmp_path/'parts', short, settings, keep_every=1, on_step=stop)
    steps = []
    parts = train_extractor(tmp_path/'parts', short, settings, on_step=lambda step, loss: steps.append(step))
    assert steps == [3, 4] and parts.losses == whole.losses
    assert (tmp_path/'parts'/WEIGHTS).read_bytes() == (tmp_path/'whole'/WEIGHTS).read_bytes()
    again = train_extractor(tmp_path/'parts', short, settings, on_step=stop)
    assert again.losses == whole.losses, 'a finished training returns at once'
    assert load_extractor(f'trained:tiny?adapter={tmp_path/"whole"}').identity['model']['adapter']


def test_what_another_training_left_is_refused(tmp_path, short):
    little = ExtractorSettings(steps=1, batch=1, rank=1, dtype='float32')
    train_extractor(tmp_path, short, little)
    before = (tmp_path/WEIGHTS).read_bytes()
    for change, expected in ((dict(seed=1), 'seed is 0 there'), (dict(steps=2), 'steps is 1 there'), (dict(dtype='bfloat16'), 'dtype is')):
        with pytest.raises(UsageError, match=expected): train_extractor(tmp_path, short, replace(little, **change))
    with pytest.raises(UsageError, match='training data are others'): train_extractor(tmp_path, short[:2], little)
    assert (tmp_path/WEIGHTS).read_bytes() == before


def test_the_arithmetic_is_chosen_by_the_processor_and_recorded(monkeypatch):
    from factlab.models import transformers_backend
    for native, expected in ((True, 'bfloat16'), (False, 'float32')):
        monkeypatch.setattr(transformers_backend, 'native_bfloat16', lambda native=native: native)
        assert ExtractorSettings().used_dtype == ExtractorSettings().recorded()['dtype'] == expected
    assert training_identity([], ExtractorSettings()) == training_identity([], ExtractorSettings(dtype='float32'))
    assert ExtractorSettings(dtype='bfloat16').recorded()['dtype'] == 'bfloat16'


def test_a_damaged_state_says_what_to_do(tmp_path, short):
    (tmp_path/CHECKPOINT).write_bytes(b'\x10\0\0\0\0\0\0\0not a header')
    little = ExtractorSettings(steps=1, batch=1, rank=1, dtype='float32')
    with pytest.raises(DataError, match='delete it'): train_extractor(tmp_path, short, little)


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(DataError, match='nothing to train on'): train_extractor(tmp_path, [])
    with pytest.raises(UsageError, match='above 0'): ExtractorSettings(steps=0)
    with pytest.raises(UsageError, match='dtype'): ExtractorSettings(dtype='int8')
    with pytest.raises(UsageError, match='sample or factscore'): claim_texts('wikipedia')
    with pytest.raises(DataError, match='as many'): text_examples('own', 'x', ['One.'], [])


# ---- an OASIS-shaped data set

def test_a_claim_goes_to_the_sentence_that_it_was_taken_from():
    split = ['Lund is a town in Sweden.', 'Its university was founded in 1666.', 'The cathedral is built of sandstone.']
    claims = ['The university of Lund was founded in 1666.', "Lund's cathedral is of sandstone.", 'Lund is a town.', 'Lund lies in Sweden.',
              'Ystad.']
    assert nearest_sentences(claims, split) == [1, 2, 0, 0, None] and nearest_sentences(claims, []) == [None]*5


def test_passages_to_train_on_train_and_held_out_ones_measure(tmp_path, monkeypatch):
    load_oasis_sample().head(6).with_columns(split=pl.Series(['train']*4 + ['validation', 'test'])).write_parquet(tmp_path/'mine.parquet')
    own = training_data(tmp_path/'mine.parquet')
    examples, seen = oasis_examples(own), []
    monkeypatch.setattr(training, 'example_tokens', lambda examples, *rest: seen.extend(examples) or example_tokens(examples, *rest))
    trained = train_extractor(tmp_path/'work', examples, ExtractorSettings(steps=2, batch=2, rank=1, dtype='float32'))
    train, held_out = (own.rows.filter(pl.col('split') == split) for split in ('train', 'dev'))
    assert len(trained.losses) == 2 and {example.group for example in seen} == {*train['page']}
    assert not {*train['page']} & {*held_out['page']}
    told = [claim for example in seen for claim in example.claims]
    assert sorted(told) == sorted(claim for claims in train['claims'] for claim in claims), 'every claim of these passages has a sentence'
    prompts = {messages for text in train['passage'] for messages in extractor_prompts(text)}
    assert {example.messages for example in seen} <= prompts, 'in the form that is asked'
    assert claim_texts(own).select('group', 'text', 'claims').rows() == held_out.select('page', 'passage', 'claims').rows()
    card = training.extractor_card(trained, examples, ExtractorSettings(steps=2), [], '2026-01-01', own)
    assert [(row['name'], row['rows']) for row in card['data']] == [('mine.parquet (OASIS-shaped)', len(examples))]
    assert '--data mine.parquet' in card['command']
    assert not any('biographies' in limit for limit in card['limits'])
    silent = training.Extraction('silent', claim_texts(own, 1), [Parsed([])])
    assert [row['low'] for row in training.metric_rows('one page', silent.means(resamples=50))] == [None]*3
    part = put_part(trained.folder, tmp_path/'part', card)
    assert read_card(part)['data'][0]['licence'] == 'as stated by whoever made the data'
    assert (part/WEIGHTS).read_bytes() == (trained.folder/WEIGHTS).read_bytes()
    with pytest.raises(ModelError, match='data is empty'): put_part(trained.folder, tmp_path/'half', card | {'data': []})
    assert not (tmp_path/'half').exists()


# ---- what ships

@pytest.fixture
def card():
    if not (adapter_place('extractor')/WEIGHTS).is_file(): pytest.skip('the trained extractor is not installed: `factlab train extractor`')
    return read_card(adapter_place('extractor'))


def test_what_ships_is_small_and_was_trained_in_the_form_that_is_asked(card):
    assert (adapter_place('extractor')/WEIGHTS).stat().st_size <= 6e6
    assert card['settings']['form'] == form_digest(), 'the prompt of the extractor changed: train it again'
    assert [row['licence'] for row in card['data']] == [REGISTRY[name].licence for name in ('factscore', 'sample')]


def test_the_identity_on_the_shipped_card_is_that_of_its_examples_and_settings(card):
    real_data('factscore')
    examples = biography_examples(load_factscore().filter(pl.col('split') == 'train')) + own_examples()
    assert training_identity(examples, ExtractorSettings(dtype='bfloat16'))[:16] == card['settings']['training']


def test_what_ships_was_better_than_the_splitter_and_the_untrained_model(card):
    rows = {(row['set'], row['metric']): row for row in card['metrics']}
    held_out = 'FActScore, people held out'
    ours = rows[held_out, 'easiness f1 (ROUGE-1), trained']
    for other in ('sentences', 'untrained, 4 examples'): assert ours['low'] > rows[held_out, f'easiness f1 (ROUGE-1), {other}']['high']


def test_the_card_has_the_better_splitter_of_table4(card):
    cells = pl.read_csv(Path(__file__).parents[2]/'figures'/'oasis'/'table4.csv', infer_schema_length=None)
    there = {(row['row'], row['kind']): row for row in cells.filter(column='Easiness F1').to_dicts()}
    rows = {row['metric']: row for row in card['metrics'] if row['set'] == 'shipped sample'}
    for similarity in ('ROUGE-1', 'BERTScore'):
        pairs = {'trained': f'{similarity} (tiny)', 'sentences': f'Baseline: {similarity} (sentences)',
                 'sentences and clauses': f'Baseline: {similarity} (sentences and clauses)'}
        found = [(rows[f'easiness f1 ({similarity}), {ours}'], there[row, 'value']) for ours, row in pairs.items()]
        found.append((rows[f'easiness f1 ({similarity}), trained − best splitter'],
                      there[f'{similarity} (tiny)', 'difference']))
        for ours, row in found:
            assert [ours[key] for key in ('estimate', 'low', 'high')] == pytest.approx([row['measured'], row['low'], row['high']], abs=.003)
    best = max(rows[f'easiness f1 (ROUGE-1), {name}']['estimate'] for name in ('sentences', 'sentences and clauses'))
    difference = rows['easiness f1 (ROUGE-1), trained − best splitter']['estimate']
    assert difference == pytest.approx(rows['easiness f1 (ROUGE-1), trained']['estimate'] - best, abs=2e-4)


def test_what_ships_takes_a_sentence_apart(card):
    text = 'Ada Ek, a Swedish botanist, was born in Ystad in 1871. She founded a garden, and wrote two books about mosses.'
    [found] = load_extractor('tiny').extract([text], False)
    assert found.ok and len(found.value) >= 4 and all(len(claim.split()) <= 15 for claim in found.value)
    assert any('Ystad' in claim for claim in found.value) and any('1871' in claim for claim in found.value)
