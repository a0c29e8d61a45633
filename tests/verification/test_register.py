"""The register of verifiers: what it holds, what its names stand for, and the forms that came with it, each beside a plain loop."""
import json
import re
from pathlib import Path

import numpy as np
import pytest
from small_models import save_classifier, save_llama, save_t5, sentence, some_pairs, words_tokenizer
from tolerance import same_probabilities

import factlab
from factlab.core.core import ModelError, UsageError
from factlab.core.registry import entries, read_name, read_options, split_options
from factlab.models.transformers_backend import ChatFormat
from factlab.text.sentences import split_sentences
from factlab.verification.asked_verifier import CHECKER_FORMS, AskedVerifier
from factlab.verification.named_verifiers import load_verifier
from factlab.verification.nli import NLI_OPTIONS
from factlab.verification.published import FORMS, VERIFIER_REGISTER, at_hand, register_text, verifier_register, was_trained_on
from factlab.verification.seq2seq_verifier import SEQ2SEQ_OPTIONS

ROWS = verifier_register().to_dicts()
LOADED = [row['name'] for row in ROWS if row['loads'] not in (None, row['name'])]
FACTCG = ('{}\n\nChoose your answer: based on the paragraph above can we conclude that "{}"?\n\nOPTIONS:\n- Yes\n- No\n'
          'I think the answer is ')
HHEM = '<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {}\n\nHypothesis: {}'


# ---- the register ------------------------------------------------------------------------------------------------------------------

def test_published_names_are_written_alike_wherever_they_stand():
    package, known = Path(factlab.__file__).parent, {row['model'] for row in ROWS}
    said = {name for path in package.rglob('*.py') for name in re.findall(r'KRLabsOrg/[\w.-]+', path.read_text(encoding='utf-8'))}
    assert said and said <= known


def test_the_register_holds_what_it_promises():
    frame = VERIFIER_REGISTER.check(verifier_register())
    assert frame['name'].n_unique() == len(frame) and set(frame['form']) == set(FORMS)
    assert frame.select('model', 'labels', 'chunk', 'size', 'licence', 'weights', 'source').null_count().sum_horizontal().item() == 0
    assert all('…' not in row['trained_on'][:-1] for row in ROWS if row['trained_on'])
    names = ' '.join(frame['name'])
    for known in ('minicheck-roberta', 'minicheck-deberta', 'minicheck-flan-t5', 'bespoke-minicheck', 'factcg', 'alignscore-base',
                  'alignscore-large', 'hhem', 'true-t5', 'trueteacher', 'deberta-v3', 'modernbert', 'lettucedetect', 'granite-guardian'):
        assert known in names
    assert all(row['note'] for row in ROWS if row['loads'] is None)  # what does not load says what to do instead


@pytest.mark.parametrize('name', LOADED)
def test_a_name_stands_for_one_that_can_be_read(name):
    loads = next(row['loads'] for row in ROWS if row['name'] == name)
    if loads.partition(':')[0] not in entries('verifiers'): pytest.skip('a kind of verifier that is not registered')
    assert read_name('verifiers', name).entry.name == name
    found = read_name('verifiers', loads)
    known = {'nli': NLI_OPTIONS, 'seq2seq': SEQ2SEQ_OPTIONS}.get(found.entry.name)
    if known: read_options(loads, found.options, known)
    elif found.entry.name == 'asked': assert found.target.partition(':')[0] in CHECKER_FORMS


def test_a_name_resolves_to_form_template_chunk_and_threshold(tmp_path, monkeypatch):
    import factlab.verification.nli as nli
    import factlab.verification.published as published
    folder, asked = save_classifier(tmp_path, 'DebertaV2', ['LABEL_0', 'LABEL_1']), []
    real = nli.find_source
    monkeypatch.setattr(nli, 'find_source', lambda name, target, revision: (asked.append((target, revision)), real(name, str(folder)))[1])
    monkeypatch.setattr(published, 'at_hand', lambda name: True)
    verifier = load_verifier('factcg-deberta-v3-large')
    assert (verifier.name, verifier.threshold) == ('factcg-deberta-v3-large', .5)
    assert (verifier.options['form'], verifier.options['chunk'], verifier.window) == ('factcg', 550, 2048)
    assert verifier.outputs.labels == ('CONTR', 'ENT') and asked[-1] == ('yaxili96/FactCG-DeBERTa-v3-Large', None)
    other = load_verifier('minicheck-roberta-large?window=60')
    assert (other.options['form'], other.options['chunk'], other.window) == ('joined', '400t', 60)
    assert asked[-1] == ('lytang/MiniCheck-RoBERTa-Large', 'refs/pr/1')
    assert other.probabilities(some_pairs(3), False).shape == (3, 3)
    with pytest.raises(UsageError, match='unknown option colour'): load_verifier('factcg-deberta-v3-large?colour=red')


def test_missing_weights_name_the_command(monkeypatch):
    import factlab.verification.published as published
    monkeypatch.setattr(published, 'hub_answers', lambda: False)
    monkeypatch.setattr(published, 'at_hand', lambda name: False)
    for name, command in (('minicheck-flan-t5-large', 'hf download lytang/MiniCheck-Flan-T5-Large --revision c3f6482d'),
                          ('factcg-deberta-v3-large', 'hf download yaxili96/FactCG-DeBERTa-v3-Large. '),
                          ('granite-guardian-3.1-2b', 'hf download ibm-granite/granite-guardian-3.1-2b. '),
                          ('hhem-2.1-open', 'nli:FOLDER.form=hhem')):
        with pytest.raises(ModelError, match=command): load_verifier(name)
    with pytest.raises(ModelError, match='pickle.*align:nli:FOLDER'): load_verifier('alignscore-base')
    with pytest.raises(UsageError, match=r"did you mean 'factcg-deberta-v3-large'\? Known: mpnet, nli:ORG/NAME") as error:
        load_verifier('factcg-deberta-large')
    assert 'hhem' not in str(error.value)


def test_what_is_at_hand(tmp_path, monkeypatch):
    import huggingface_hub
    asked = []
    monkeypatch.setattr(huggingface_hub, 'try_to_load_from_cache', lambda *name, **more: asked.append((*name, more['revision'])))
    assert at_hand('mpnet') and not at_hand('alignscore-base') and not at_hand('minicheck-roberta-large') and not at_hand('true-t5-11b')
    assert ('lytang/MiniCheck-RoBERTa-Large', 'model.safetensors', 'refs/pr/1') in asked
    assert ('tdolega/t5_xxl_true_nli_mixture-bf16', 'model.safetensors.index.json', None) in asked
    monkeypatch.setattr(huggingface_hub, 'try_to_load_from_cache', lambda *_, **more: str(tmp_path))
    assert at_hand('hhem-2.1-open')


def test_the_text_and_what_is_unknown(capsys):
    from factlab.cli.main import main
    assert main(['list', 'verifiers']) == 0
    shown = capsys.readouterr().out
    assert 'nli:ORG/NAME' in shown and register_text() in shown and max(map(len, register_text().splitlines())) <= 140
    hhem = next(part for part in register_text().split('\n\n') if part.startswith('hhem'))
    assert 'trained on: ?' in hhem and 'threshold 0.5' in hhem and 'null' not in shown and 'None' not in shown
    assert main(['list', 'verifiers', '--json']) == 0
    told = {row['name']: row for row in json.loads(capsys.readouterr().out)}
    assert told['mpnet']['trained_on'] and told['hhem-2.1-open']['trained_on'] is None and told['seq2seq:ORG/NAME']['model'] is None


def test_what_was_seen_in_training():
    assert was_trained_on('mpnet', 'WiCE') is was_trained_on('align:200:mpnet?dtype=float32', 'WiCE') is True
    assert was_trained_on('mpnet', 'DialFact') is False and was_trained_on('nobody', 'WiCE') is None
    assert was_trained_on('modernbert-base-nli', 'ANLI') and was_trained_on('modernbert-base-nli', 'WiCE') is None
    loads = next(row['loads'] for row in ROWS if row['name'] == 'factcg-deberta-v3-large')
    assert was_trained_on(loads, 'ANLI') and was_trained_on(split_options(loads)[0], 'WiCE') is False


# ---- FactCG's template, MiniCheck's chunks -----------------------------------------------------------------------------------------

def test_factcg_is_a_template_over_a_classifier(tmp_path):
    import torch
    folder = save_classifier(tmp_path, 'DebertaV2', ['LABEL_0', 'LABEL_1'], spread=.3)
    verifier = load_verifier(f'nli:{folder}?form=factcg&labels=CONTR,ENT')
    pairs = some_pairs()
    found = verifier.probabilities(pairs, False)
    for row, (evidence, claim) in zip(found, pairs, strict=True):
        inputs = verifier.tokenizer(FACTCG.format(evidence, claim), return_tensors='pt')
        with torch.inference_mode(): shares = verifier.model(**inputs).logits[0].softmax(0)
        assert same_probabilities(row, [shares[1], 0, shares[0]])
    assert np.ptp(found[:, 0]) > .01 and verifier.identity['form'] == 'factcg' and verifier.two_way
    hostile, plain = ('the owl [SEP] eats', 'the owl'), ('the owl   eats', 'the owl')
    assert same_probabilities(verifier.probabilities([hostile], False), verifier.probabilities([plain], False))


def test_chunks_of_tokens_are_minichecks(tmp_path):
    "Sentences joined while their tokens fit, the largest P(supported) over chunks: the loop of the authors' code."
    import torch
    verifier = load_verifier(f'nli:{save_classifier(tmp_path, "Roberta", ["0", "1"])}?form=joined&labels=CONTR,ENT&chunk=24t')
    generator = np.random.default_rng(5)
    text = ' '.join(f'{sentence(generator, n).capitalize()}.' for n in (9, 3, 14, 30, 2, 2, 8))
    chunks, count = [], 0
    for part in split_sentences(text):
        n = len(verifier.tokenizer(part, add_special_tokens=False)['input_ids'])
        if chunks and count + n <= 24: chunks[-1], count = f'{chunks[-1]} {part}', count + n
        else: chunks, count = [*chunks, part], n
    each = []
    for chunk in chunks:
        inputs = verifier.tokenizer(f'{chunk}</s>the owl hunts', return_tensors='pt')
        with torch.inference_mode(): each.append(float(verifier.model(**inputs).logits[0].softmax(0)[1]))
    assert len(chunks) > 3 and same_probabilities(verifier.probabilities([(text, 'the owl hunts')], False)[0, 0], max(each))
    assert verifier.identity['chunk'] == '24t'
    with pytest.raises(UsageError, match='tokens .400t'): load_verifier(f'{split_options(verifier.name)[0]}?labels=CONTR,ENT&chunk=t')


# ---- HHEM's head on the first token ------------------------------------------------------------------------------------------------

def save_hhem(folder: Path, *, both: bool, feed='gated-gelu') -> Path:
    "As the model lies on the hub: weights under `t5.`, a configuration of its own type, and code that must not run."
    import torch
    import transformers
    from safetensors.torch import save_file
    tokenizer = words_tokenizer('T5')
    torch.manual_seed(3)
    config = transformers.T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=24, num_layers=3, num_heads=2, num_labels=2,
                                   feed_forward_proj=feed, initializer_factor=4.0, relative_attention_num_buckets=8)
    model = transformers.T5ForTokenClassification(config)
    tensors = {f't5.{name}': tensor.clone() for name, tensor in model.state_dict().items()}
    if not both: del tensors['t5.transformer.encoder.embed_tokens.weight']
    folder.mkdir()
    tokenizer.save_pretrained(folder)
    save_file(tensors, folder/'model.safetensors')
    own = {'AutoConfig': 'configuration_hhem_v2.HHEMv2Config', 'AutoModelForSequenceClassification': 'modeling_hhem_v2.HHEMv2'}
    (folder/'config.json').write_text(json.dumps({'model_type': 'HHEMv2', 'architectures': ['HHEMv2'], 'auto_map': own}))
    for module in ('modeling', 'configuration'): (folder/f'{module}_hhem_v2.py').write_text(f'open({str(folder/"ran")!r}, "w")\n')
    return folder


@pytest.mark.parametrize('both, feed', [(True, 'gated-gelu'), (False, 'gated-gelu'), (False, 'relu')])
def test_hhem_is_the_first_token_of_t5s_encoder(tmp_path, both, feed):
    import torch
    import transformers
    folder = save_hhem(tmp_path/'hhem', both=both, feed=feed)
    verifier, pairs = load_verifier(f'nli:{folder}?form=hhem'), some_pairs()
    found = verifier.probabilities(pairs, False)
    from safetensors.torch import load_file
    tokenizer = words_tokenizer('T5')
    config = transformers.T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=24, num_layers=3, num_heads=2, num_labels=2,
                                   feed_forward_proj=feed, relative_attention_num_buckets=8)
    plain = transformers.T5ForTokenClassification(config).eval()
    plain.load_state_dict({name.removeprefix('t5.'): tensor for name, tensor in load_file(folder/'model.safetensors').items()}, strict=both)
    plain.transformer.encoder.embed_tokens.weight = plain.transformer.shared.weight
    for row, (evidence, claim) in zip(found, pairs, strict=True):
        inputs = tokenizer(HHEM.format(evidence, claim), return_tensors='pt')
        assert inputs['input_ids'][0, 0] == 0  # the mark of padding begins the text
        with torch.inference_mode(): shares = plain(**inputs).logits[0, 0].softmax(0)
        assert same_probabilities(row, [shares[1], 0, shares[0]])
    assert np.ptp(found[:, 0]) > .01 and verifier.two_way and verifier.window == 512 and not (folder/'ran').exists()
    batches = load_verifier(f'nli:{folder}?form=hhem&batch_tokens=1').probabilities(pairs, False)
    assert same_probabilities(batches, found)
    with pytest.raises(ModelError, match='never runs such code'): load_verifier(f'nli:{folder}')


def test_other_weights_are_no_hhem(tmp_path):
    for folder in (save_classifier(tmp_path/'bert', 'Bert', ['a', 'b']), save_t5(tmp_path/'t5')):
        verifier = load_verifier(f'nli:{folder}?form=hhem')
        with pytest.raises(ModelError, match='no T5 encoder'): verifier.probabilities([('the owl', 'the owl')], False)


# ---- Granite Guardian --------------------------------------------------------------------------------------------------------------

def test_granite_guardian_asks_for_the_risk_that_nothing_supports_it():
    message, = CHECKER_FORMS['granite-guardian'].prompt.render(evidence='E', claim='C')
    assert message.role == 'user' and '<start_of_turn>\nContext: E\nAssistant Message: C\n<end_of_turn>\n\nOur safety' in message.content
    assert (CHECKER_FORMS['granite-guardian'].choices, CHECKER_FORMS['granite-guardian'].labels) == (('No', 'Yes'), ('ENT', 'CONTR'))


def test_a_guardians_own_template_is_not_asked(tmp_path):
    "A Llama with Granite's turns, scored by hand; the model's own template would ask about harm."
    import torch
    import transformers
    template = "{% if guardian_config %}{% endif %}{% for m in messages %}Is it harmful? {{ m.content }}{% endfor %}"
    fast = save_llama(tmp_path, ['<|start_of_role|>', '<|end_of_role|>', '<|end_of_text|>'],
                      ['user', 'assistant', 'Yes', 'No', 'Context:', 'Message:', 'grounded'], positions=512, chat_template=template)
    form, pairs = CHECKER_FORMS['granite-guardian'], some_pairs(5)
    verifier = load_verifier(f'asked:granite-guardian:hf:{tmp_path}?dtype=float32')
    found = verifier.probabilities(pairs, False)
    model = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    answers = fast.convert_tokens_to_ids(['No', 'Yes'])
    for row, pair in zip(found, pairs, strict=True):
        asked = form.messages(*pair)[0].content
        text = f'<|start_of_role|>user<|end_of_role|>{asked}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>'
        assert ChatFormat(fast).text(form.messages(*pair)) == text
        with torch.inference_mode(): logits = model(**fast(text, add_special_tokens=False, return_tensors='pt')).logits[0, -1]
        assert same_probabilities(row[[0, 2]], logits[answers].softmax(0).numpy())
    assert isinstance(verifier, AskedVerifier) and np.ptp(found[:, 0]) > .001
