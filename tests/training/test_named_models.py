"""Training on bases of others: every architecture that is named, small and untrained; saved, loaded by name, killed and gone on with."""
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file

from factlab.building.training_views import training_data
from factlab.core.core import DataError, ModelError, UsageError
from factlab.data.corpora import CLAIM_EVIDENCE_PAIRS
from factlab.models.adapters import check_card
from factlab.models.encoder import Encoder
from factlab.models.interface import Message, Request
from factlab.retrieval.corpus import Prefixes, TextEncoder
from factlab.training import cross_encoder
from factlab.training.cross_encoder import CrossEncoderInTraining, cross_encoder_card, held_out_metrics, pair_inputs, train_cross_encoder
from factlab.training.extractor import ExtractionExample, own_examples
from factlab.training.loop import CHECKPOINT
from factlab.training.named_bases import BaseSettings, open_base, small_base, training_dtype
from factlab.training.named_extractor import (
    causal_loss,
    extractor_kind,
    named_extractor_card,
    passage_examples,
    seq2seq_loss,
    train_named_extractor,
)
from factlab.training.retriever import RETRIEVER_PAIRS, RetrieverInTraining, RetrieverSettings, train_retriever, training_card
from factlab.verification.extraction import load_extractor
from factlab.verification.named_extractors import PASSAGE
from factlab.verification.named_verifiers import load_verifier

WORDS = 'the otter heron owl eats hunts fish crabs at dawn in shallow water and rests by rivers never .'.split()
TRUE, FALSE = 'the otter eats fish', 'the owl never rests'
PAIRS = CLAIM_EVIDENCE_PAIRS.frame(
    [dict(id=f'{at}', split='train', claim=claim, evidence=f'{animal} hunts {food} at dawn .', label=label, group=f'{at}', source='sample')
     for at, (animal, food, (claim, label)) in enumerate(itertools.product(
         ('the otter', 'the heron', 'the owl'), ('fish', 'crabs'), ((TRUE, 'ENT'), (FALSE, 'CONTR'), ('in shallow water', 'NEUT'))))])
ASKED = [('the otter eats fish at dawn .', TRUE), ('the heron rests by rivers .', FALSE), ('water ' * 30, 'the owl eats crabs')]


@pytest.fixture(scope='module')
def bases(tmp_path_factory):
    "Small bases by kind, with the words of the pairs and of the sample's passages."
    own = training_data('sample')
    texts = [' '.join(WORDS), *PAIRS['claim'], *PAIRS['evidence'], *own.rows['passage'], *own.rows['claims'].explode()]
    folder = tmp_path_factory.mktemp('bases')
    return {kind: str(small_base(folder/kind, kind, texts, seed=1)) for kind in ('t5', 'llama', 'qwen2', 'bert', 'roberta', 'deberta-v2')}


def plan(base, full, **changes):
    return BaseSettings(base, **dict(full=full, steps=6, batch=6, rank=4, learning_rate=1e-2, warmup_share=.2, max_tokens=384,
                                     dtype='float32', device='cpu') | changes)


def stopping(step: int):
    def stop(at: int, loss: float) -> None:
        if at == step: raise KeyboardInterrupt
    return stop


def same_files(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in one.glob('*.safetensors'))
    files = [(load_file(one/name), load_file(other/name)) for name in names]
    return bool(names) and all(mine.keys() == its.keys() and all(torch.equal(mine[key], its[key]) for key in mine) for mine, its in files)


def stopped_and_whole(train, folder: Path):
    "A training without a stop, and one that is stopped after its fourth step, with a checkpoint after the third."
    whole = train(folder/'whole', keep_every=3)
    with pytest.raises(KeyboardInterrupt): train(folder/'parts', keep_every=3, on_step=stopping(4))
    parts = train(folder/'parts', keep_every=3)
    assert whole.losses == parts.losses and same_files(folder/'whole', folder/'parts')
    return whole


# ---- verifiers ---------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('kind, full', [('deberta-v2', True), ('deberta-v2', False), ('roberta', True), ('roberta', False), ('bert', True),
                                        ('bert', False), ('qwen2', False)])
def test_a_cross_encoder_of_any_architecture_learns_and_is_an_nli_model_by_name(bases, tmp_path, kind, full, monkeypatch):
    seen = []  # the model in memory when it is saved
    monkeypatch.setattr('factlab.training.cross_encoder.merged', lambda *given: seen.append(given[0]) or real(*given))
    monkeypatch.setattr('factlab.training.cross_encoder.save_adapted', lambda *given: (kept(*given), seen.append(given[0].model))[0])
    settings = plan(bases[kind], full, steps=24, batch=18, learning_rate=2e-2)
    made = stopped_and_whole(lambda folder, **how: train_cross_encoder(folder, PAIRS, settings, **how), tmp_path)
    assert np.mean(made.losses[-4:]) < made.losses[0] - .02
    files = {path.name for path in (tmp_path/'whole').iterdir()}
    assert ({'config.json'} if full else {'adapter_config.json', 'head.safetensors'}) <= files
    assert ('adapter_config.json' not in files) if full else ('config.json' not in files)
    verifier = load_verifier(made.name)
    assert verifier.outputs.labels == ('ENT', 'NEUT', 'CONTR') and not verifier.outputs.note
    found = verifier.probabilities(ASKED, False)
    inputs = pair_inputs(verifier.tokenizer, ASKED, settings.max_tokens)
    with torch.inference_mode(): expected = seen[0].eval()(**inputs).logits.softmax(1).numpy()
    assert np.allclose(found, expected, atol=1e-5 if full else 5e-3) and np.ptp(found[:, 0]) > 1e-4


real, kept = cross_encoder.merged, cross_encoder.save_adapted


def test_the_loss_is_that_of_labels_of_yes_or_no_and_of_a_teacher():
    logits = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = ['ENT', 'CONTR', 'NEUT', 'ENT', 'NEUT', 'CONTR', 'ENT']
    said = [(label, None, None, None) for label in labels]
    places = torch.tensor([('ENT', 'NEUT', 'CONTR').index(label) for label in labels])
    plain = torch.nn.functional.cross_entropy(logits, places)
    assert torch.isclose(cross_encoder.pair_loss(logits, said), plain)
    odds = logits[:, 0] - logits[:, 1:].logsumexp(1)
    yes = torch.tensor([1., 0, 0, 1, 0, 0, 1], dtype=torch.float64)
    binary = torch.nn.functional.binary_cross_entropy_with_logits
    assert torch.isclose(cross_encoder.pair_loss(logits, [(None, label == 'ENT', None, None) for label in labels]), binary(odds, yes))
    teacher = torch.linspace(-3, 3, 7, dtype=torch.float64)
    taught = cross_encoder.pair_loss(logits, [(None, None, float(each), None) for each in teacher])
    assert torch.isclose(taught, binary(odds, teacher.sigmoid()), atol=1e-6)
    both = cross_encoder.pair_loss(logits, [(label, None, float(each), None) for label, each in zip(labels, teacher, strict=True)])
    assert torch.isclose(both, (plain + taught)/2)
    mixed = cross_encoder.pair_loss(logits, [('ENT', None, None, None), *[(None, None, float(each), None) for each in teacher[1:]]])
    expected = (torch.nn.functional.cross_entropy(logits[:1], places[:1]) + 6*binary(odds[1:], teacher[1:].sigmoid()))/7
    assert torch.isclose(mixed, expected, atol=1e-6)
    three = torch.randn(7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).log_softmax(1)
    asked = [(None, None, float(each[0] - each[1:].logsumexp(0)), float(each[2] - each[1])) for each in three]
    assert torch.isclose(cross_encoder.pair_loss(logits, asked), torch.nn.functional.cross_entropy(logits, three.exp()), atol=1e-6)
    with pytest.raises(DataError, match='1 of 18 training pairs have no label'):
        cross_encoder.target_rows(PAIRS.with_columns(label=pl.when(pl.col('id') != '3').then('label')))


def test_an_adapter_of_another_base_is_refused(bases, tmp_path):
    made = train_cross_encoder(tmp_path/'made', PAIRS, plan(bases['bert'], False, steps=1))
    with pytest.raises(ModelError, match='head.safetensors does not fit'):
        load_verifier(made.name.replace(bases['bert'], bases['roberta'])).probabilities(ASKED, False)
    (tmp_path/'made'/'head.safetensors').unlink()
    with pytest.raises(ModelError, match='there is no .*head.safetensors'): load_verifier(made.name).probabilities(ASKED, False)


def test_the_outputs_while_training_are_those_of_the_saved_model(bases, tmp_path):
    settings, before = plan(bases['roberta'], False), {}
    class Watched(CrossEncoderInTraining):
        def __init__(self, *given):
            super().__init__(*given)
            before['model'] = self
    plain, cross_encoder.CrossEncoderInTraining = cross_encoder.CrossEncoderInTraining, Watched
    outputs = []
    def look(step, loss):
        if step == settings.steps:
            model = before['model']
            with torch.inference_mode(): outputs.append(model.logits(ASKED).softmax(1).numpy())
    try: made = train_cross_encoder(tmp_path/'made', PAIRS, settings, on_step=look)
    finally: cross_encoder.CrossEncoderInTraining = plain
    assert np.allclose(load_verifier(made.name).probabilities(ASKED, False), outputs[0], atol=2e-3)


def test_a_published_nli_model_keeps_its_order_of_labels(tmp_path, bases):
    labels = ['contradiction', 'entailment', 'neutral']
    base = open_base('classifier', plan(bases['bert'], True), num_labels=3, id2label=dict(enumerate(labels)),
                     label2id={label: at for at, label in enumerate(labels)})
    base.model.save_pretrained(tmp_path/'nli')
    base.tokenizer.save_pretrained(tmp_path/'nli')
    before = load_verifier(f'nli:{tmp_path/"nli"}').probabilities(ASKED, False)
    model = CrossEncoderInTraining(plan(str(tmp_path/'nli'), True))
    model.model.eval()
    with torch.inference_mode(): assert np.allclose(model.logits(ASKED).softmax(1).numpy(), before, atol=1e-5)
    made = train_cross_encoder(tmp_path/'made', PAIRS, plan(str(tmp_path/'nli'), True, steps=60, batch=18))
    assert load_verifier(made.name).outputs.labels == ('CONTR', 'ENT', 'NEUT')
    said = load_verifier(made.name).probabilities(PAIRS.select('evidence', 'claim').rows(), False).argmax(1)
    assert np.mean(np.array(['ENT', 'NEUT', 'CONTR'])[said] == PAIRS['label'].to_numpy()) > .9


def test_what_cannot_train_a_verifier_is_refused(bases, tmp_path):
    with pytest.raises(DataError, match='all have the split dev'):
        train_cross_encoder(tmp_path, PAIRS.with_columns(split=pl.lit('dev')), plan(bases['bert'], True))
    with pytest.raises(DataError, match="labels \\['MAYBE'\\]"):
        train_cross_encoder(tmp_path, PAIRS.with_columns(label=pl.lit('MAYBE')), plan(bases['bert'], True))
    with pytest.raises(ModelError, match='no model in the folder'): train_cross_encoder(tmp_path, PAIRS, plan(str(tmp_path), True))
    train_cross_encoder(tmp_path/'one', PAIRS, plan(bases['bert'], True, steps=1))
    with pytest.raises(UsageError, match="trained is 'every weight' there and 'LoRA' here"):
        train_cross_encoder(tmp_path/'one', PAIRS, plan(bases['bert'], False, steps=1))


def test_the_card_of_a_verifier_says_what_was_trained(bases, tmp_path):
    split = pl.Series(['dev']*9 + ['train']*(PAIRS.height - 9))
    pairs = PAIRS.with_columns(kind=pl.lit('pair'), split=split)
    settings = plan(bases['bert'], False, steps=2)
    made = train_cross_encoder(tmp_path, pairs, settings)
    metrics = held_out_metrics(load_verifier(made.name), pairs, store=False)
    assert {row['system'] for row in metrics} == {'trained', 'cosine'} and all(row['n'] == 9 for row in metrics)
    card = check_card(cross_encoder_card(made, pairs, settings, metrics))
    assert 'LoRA of rank 4' in card['summary'] and '--base' in card['command'] and '--full' not in card['command']
    assert {row['use'] for row in card['data']} == {'trained', 'held out'} and any('not calibrated' in limit for limit in card['limits'])


# ---- extractors --------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('kind, full', [('t5', True), ('t5', False), ('llama', True), ('llama', False), ('qwen2', True), ('qwen2', False)])
def test_an_extractor_of_any_architecture_learns_and_is_loaded_by_name(bases, tmp_path, kind, full):
    examples = passage_examples(training_data('sample'))[:12] if kind == 't5' else own_examples()[:12]
    settings = plan(bases[kind], full)
    made = stopped_and_whole(lambda folder, **how: train_named_extractor(folder, examples, settings, **how), tmp_path)
    assert np.mean(made.losses[-2:]) < made.losses[0] and made.examples == 12
    extractor = load_extractor(made.name)
    [parsed] = extractor.extract(['the otter eats fish .'], store=False)
    assert parsed.status in ('ok', 'unparsed') and made.kind == extractor_kind(bases[kind]) == ('seq2seq' if kind == 't5' else 'causal')
    card = check_card(named_extractor_card(made, examples, settings, [], '2026-01-01', training_data('sample') if kind == 't5' else None))
    assert ('--full' in card['command']) == full == ('Every weight' in card['summary'])


def test_the_seq2seq_loss_is_the_models_own_and_what_it_learns_it_writes(bases, tmp_path):
    from factlab.models.transformers_backend import ChatFormat
    from factlab.training.named_extractor import seq2seq_tokens
    said = {'the otter eats fish at dawn .': ('the otter eats', 'fish at dawn'),
            'the owl rests by rivers .': ('the owl rests', 'it rests by rivers')}
    examples = [ExtractionExample('own', text, PASSAGE.render(text=text), claims) for text, claims in said.items()]
    opened = open_base('seq2seq', plan(bases['t5'], True))
    chat = ChatFormat(opened.tokenizer)
    rows = seq2seq_tokens(examples, chat, ' | ', 512)
    losses = []
    for row in rows:
        labels = torch.tensor([row.answer])
        losses.append((opened.model(input_ids=torch.tensor([row.prompt]), labels=labels).loss.item(), len(row.answer)))
    mean = sum(loss*n for loss, n in losses)/sum(n for _, n in losses)
    assert seq2seq_loss(opened.model, rows, 'cpu').item() == pytest.approx(mean, abs=1e-4)
    made = train_named_extractor(tmp_path, examples, plan(bases['t5'], True, steps=150, batch=2, learning_rate=3e-2))
    assert json.loads((tmp_path/'extractor.json').read_text()) == {'unit': 'passage', 'separator': ' | '}
    texts = [one.messages[-1].content for one in examples]
    assert made.losses[-1] < .1
    found = load_extractor(f'{made.name}?device=cpu&dtype=float32').extract(texts, store=False)
    assert [parsed.value for parsed in found] == [list(one.claims) for one in examples]


def test_the_causal_loss_is_that_of_plain_calls_where_prompts_differ_in_length(bases):
    from factlab.training.extractor import Tokens
    rows = [Tokens([5, 6, 7], [8, 9]), Tokens([5], [6, 7, 8]), Tokens([9, 8, 7, 6, 5], [4])]
    for kind in ('llama', 'qwen2'):
        model = open_base('causal', plan(bases[kind], True)).model
        plain = [(model(input_ids=torch.tensor([row.prompt + row.answer]),
                        labels=torch.tensor([[-100]*len(row.prompt) + row.answer])).loss, len(row.answer)) for row in rows]
        expected = sum(loss*n for loss, n in plain)/sum(n for _, n in plain)
        found = causal_loss(model, rows, 'cpu')
        assert found.item() == pytest.approx(expected.item(), abs=1e-5)
        gradients = [torch.autograd.grad(loss, [model.get_input_embeddings().weight])[0] for loss in (found, expected)]
        assert torch.allclose(*gradients, atol=1e-6)


def test_an_encoder_decoder_answers_alone_what_it_answers_in_a_batch(bases):
    extractor = load_extractor(f'seq2seq:{bases["t5"]}?dtype=float32&device=cpu&batch_tokens=64')
    requests = [Request(messages=(Message(role='user', content=' '.join(WORDS[:n])),), max_tokens=limit)
                for n, limit in ((3, 8), (9, 8), (1, 4), (17, 8))]
    def answers(asked):
        found = {}
        extractor.model.generate(asked, lambda at, response: found.update({at: response}))
        return [found[at] for at in range(len(asked))]
    together, alone = answers(requests), [answers([request])[0] for request in requests]
    assert [one.text for one in together] == [one.text for one in alone]
    assert all(one.completion_tokens <= request.max_tokens for one, request in zip(together, requests, strict=True))
    [refused] = answers([requests[0].model_copy(update={'choices': ('a', 'b')})])
    assert not refused.ok and 'writes greedily' in refused.error
    with pytest.raises(UsageError, match='unknown option'): load_extractor(f'seq2seq:{bases["t5"]}?beams=4')
    with pytest.raises(ModelError, match='no folder'): load_extractor('seq2seq:/nowhere')
    with pytest.raises(ModelError): load_extractor(f'seq2seq:{bases["bert"]}').extract(['the otter .'], store=False)


def test_what_cannot_train_an_extractor_is_refused(bases, tmp_path):
    examples = passage_examples(training_data('sample'))[:3]
    with pytest.raises(UsageError, match='asked by sentence'): train_named_extractor(tmp_path, examples, plan(bases['llama'], True))
    with pytest.raises(DataError, match='no examples'): train_named_extractor(tmp_path, [], plan(bases['t5'], True))
    with pytest.raises(DataError, match='no example fits'): train_named_extractor(tmp_path, examples, plan(bases['t5'], True, max_tokens=8))
    with pytest.raises(ModelError, match='cannot be opened as a causal|no causal model'): open_base('causal', plan(bases['t5'], True))
    for bad in ({'steps': 0}, {'dtype': 'float16'}, {'warmup_share': 1.}, {'learning_rate': -1.}):
        with pytest.raises(UsageError): plan(bases['t5'], True, **bad)


# ---- retrievers --------------------------------------------------------------------------------------------------------------------

RETRIEVED = RETRIEVER_PAIRS.frame(
    [dict(claim=f'the {animal} eats {food}', passage=f'{animal} hunts {food} at dawn .', group=f'{animal}{food}', source='sample')
     for animal in ('otter', 'heron', 'owl') for food in ('fish', 'crabs')])
RETRIEVED = RETRIEVED.with_columns(split=pl.lit('train'))


@pytest.mark.parametrize('kind, full', [('bert', True), ('bert', False), ('roberta', True)])
def test_an_encoder_is_trained_with_the_prefixes_that_it_is_measured_with(bases, tmp_path, kind, full):
    import shutil
    base = shutil.copytree(bases[kind], tmp_path/'e5-base-v2')  # its name is what tells the prefixes
    settings = RetrieverSettings(base=str(base), steps=12, batch=3, rank=4, max_tokens=32, evaluate_every=3, full=full, half=False,
                                 learning_rate=3e-2, warmup_share=.1)
    assert settings.used_prefixes == TextEncoder(str(base)).prefixes == ('query: ', 'passage: ')
    retriever, read = RetrieverInTraining(settings), []
    plain = retriever.model.preprocess
    retriever.model.preprocess = lambda texts, *more, **others: read.append(list(texts)) or plain(texts, *more, **others)
    retriever.loss([('the otter', 'fish at dawn'), ('the owl', 'crabs')])
    assert read == [['query: the otter', 'query: the owl'], ['passage: fish at dawn', 'passage: crabs']]

    whole = train_retriever(tmp_path/'whole', RETRIEVED, settings)
    with pytest.raises(KeyboardInterrupt): train_retriever(tmp_path/'parts', RETRIEVED, settings, on_step=stopping(4))
    assert train_retriever(tmp_path/'parts', RETRIEVED, settings).equals(whole) and same_files(tmp_path/'whole', tmp_path/'parts')
    losses = json.loads((tmp_path/'whole'/'training.json').read_text())['losses']
    assert np.mean(losses[-3:]) < np.mean(losses[:3])

    name = str(tmp_path/'whole') if full else f'{base}?adapter={tmp_path/"whole"}'
    trained, untrained = TextEncoder(name, Prefixes('query: ', 'passage: ')), TextEncoder(str(base))
    vectors = trained.queries(['the otter eats fish'], store=False)
    assert not np.allclose(vectors, untrained.queries(['the otter eats fish'], store=False), atol=1e-4)
    if full:
        prompts = json.loads((tmp_path/'whole'/'config_sentence_transformers.json').read_text())['prompts']
        assert prompts['query'] == 'query: ' and prompts['document'] == prompts['passage'] == 'passage: '
        assert Encoder(name).model.max_seq_length == Encoder(str(base)).model.max_seq_length  # not the length that training cut at
    card = check_card(training_card(settings, RETRIEVED, pl.DataFrame(), whole, '2026-01-01'))
    assert "'query: ' and 'passage: '" in card['summary'] and ('--full' in card['command']) == full


def test_the_saved_encoder_gives_the_vectors_of_the_training(bases, tmp_path):
    settings = RetrieverSettings(base=bases['bert'], steps=2, batch=3, max_tokens=64, evaluate_every=2, full=True, half=False,
                                 learning_rate=1e-2, prefixes=('query: ', 'passage: '))
    retriever = RetrieverInTraining(settings)
    learner = retriever.learner()
    for _ in range(3):
        retriever.loss([('the otter', 'fish at dawn'), ('the owl', 'crabs')]).backward()
        learner.update(1e-2)
    retriever.save(tmp_path/'saved')
    texts = ['the otter eats fish', 'the heron never rests']
    saved = TextEncoder(str(tmp_path/'saved'), Prefixes('query: ', 'passage: '))
    assert np.allclose(saved.queries(texts, store=False), retriever.encode(texts, 'query: '), atol=1e-5)


def test_without_prefixes_the_recipe_of_the_part_that_ships_is_recorded_as_before():
    assert not {'full', 'prefixes'} & {*RetrieverSettings().recorded()} and RetrieverSettings(full=True).recorded()['full'] is True
    assert 'rank' not in RetrieverSettings(full=True).recorded()


# ---- devices, and a real kill ------------------------------------------------------------------------------------------------------

def test_bfloat16_is_taken_where_the_device_has_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_bf16_supported', lambda including_emulation=True: including_emulation)
    assert training_dtype('auto', 'cuda') == training_dtype('auto', 'cuda:1') == 'float32'
    monkeypatch.setattr(torch.cuda, 'is_bf16_supported', lambda including_emulation=True: True)
    assert training_dtype('auto', 'cuda') == 'bfloat16' and training_dtype('float32', 'cuda') == 'float32'
    for native in (True, False):
        monkeypatch.setattr('factlab.training.named_bases.native_bfloat16', lambda: native)  # noqa: B023
        assert training_dtype('auto', 'cpu') == ('bfloat16' if native else 'float32')


def test_training_in_bfloat16_keeps_float32_weights(bases, tmp_path):
    made = train_cross_encoder(tmp_path, PAIRS, plan(bases['bert'], True, dtype='bfloat16', steps=2, learning_rate=1e-5))
    saved, base = load_file(tmp_path/'model.safetensors'), load_file(Path(bases['bert'])/'model.safetensors')
    moved = {name: (saved[f'bert.{name}'] - tensor).abs().max().item() for name, tensor in base.items() if 'query.weight' in name}
    assert all(0 < change < 5e-3 for change in moved.values()) and all(tensor.dtype == torch.float32 for tensor in saved.values())
    assert len(made.losses) == 2


KILLED = '''
import sys, polars as pl
from factlab.training.cross_encoder import train_cross_encoder
from factlab.training.named_bases import BaseSettings
base, out, pairs = sys.argv[1:]
settings = BaseSettings(base, full=True, steps=6, batch=6, learning_rate=1e-2, warmup_share=.2, max_tokens=384, dtype='float32',
                        device='cpu')
def told(step, loss):
    print(step, flush=True)
    if step == 5: sys.stdin.read()
train_cross_encoder(out, pl.read_parquet(pairs), settings, keep_every=2, on_step=told)
'''


def test_a_killed_process_goes_on_with_equal_weights(bases, tmp_path):
    PAIRS.write_parquet(tmp_path/'pairs.parquet')
    arguments = [sys.executable, '-c', KILLED, bases['bert'], str(tmp_path/'killed'), str(tmp_path/'pairs.parquet')]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ})
    assert [int(next(process.stdout)) for _ in range(5)] == [1, 2, 3, 4, 5]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close(), process.stdout.close()
    assert (tmp_path/'killed'/CHECKPOINT).is_file() and not (tmp_path/'killed'/'model.safetensors').exists()
    settings, steps = plan(bases['bert'], True), []
    train_cross_encoder(tmp_path/'killed', PAIRS, settings, on_step=lambda step, loss: steps.append(step))
    train_cross_encoder(tmp_path/'whole', PAIRS, settings)
    assert steps == [5, 6] and same_files(tmp_path/'killed', tmp_path/'whole')
