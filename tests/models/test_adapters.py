"Trained parts: what is read is checked, what is refused says why, and merging is what peft does."
import json

import pytest
from tolerance import same_logits

from factlab.core.core import ModelError, UsageError
from factlab.models.adapters import (
    CONFIG,
    TRAINED_PARTS,
    WEIGHTS,
    adapter_digest,
    attach_lora,
    card_text,
    check_card,
    lora_pairs,
    merge_adapter,
    read_card,
    read_config,
    read_tensors,
    save_adapter,
    shipped,
    write_card,
)

CARD = {'part': 'verifier', 'base': 'tiny', 'made': '2026-01-01', 'seed': 0, 'steps': 2, 'command': 'factlab train verifier',
        'data': [{'name': 'a', 'licence': 'CC0', 'rows': 3, 'use': 'trained'}], 'metrics': [], 'limits': ['all']}


def model(width=32):
    import torch
    from transformers import LlamaConfig, LlamaModel
    torch.manual_seed(0)
    return LlamaModel(LlamaConfig(hidden_size=width, intermediate_size=2*width, num_hidden_layers=2, num_attention_heads=2,
                                  num_key_value_heads=1, vocab_size=40)).eval()


@pytest.fixture
def adapter(tmp_path):
    import torch
    trained = attach_lora(model(), rank=3, seed=5)
    with torch.no_grad():
        for name, parameter in trained.named_parameters():
            if 'lora_B' in name: parameter.normal_(std=.1)
    return trained, save_adapter(trained, tmp_path/'adapter', 'tiny', dtype='float32')


def test_merging_is_what_peft_does_to_every_weight(adapter):
    import torch
    trained, folder = adapter
    ours, theirs = merge_adapter(model(), folder).state_dict(), trained.merge_and_unload().state_dict()
    assert ours.keys() == theirs.keys() and all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in ours)


def test_peft_itself_can_read_the_folder(adapter):
    import torch
    from peft import PeftModel
    trained, folder = adapter
    tokens = torch.arange(8).reshape(1, 8)
    with torch.no_grad():
        ours, theirs = (
            found(tokens).last_hidden_state
            for found in (merge_adapter(model(), folder), PeftModel.from_pretrained(model(), str(folder)).eval())
        )
    assert same_logits(ours, theirs)


def test_a_fresh_adapter_changes_nothing_and_its_seed_decides(tmp_path):
    import torch
    fresh = [attach_lora(model(), rank=2, seed=seed) for seed in (1, 1, 2)]
    folders = [save_adapter(one, tmp_path/str(at), 'tiny') for at, one in enumerate(fresh)]
    assert adapter_digest(folders[0]) == adapter_digest(folders[1]) != adapter_digest(folders[2])
    merged, plain = merge_adapter(model(), folders[0]).state_dict(), model().state_dict()
    assert all(torch.equal(merged[name], plain[name]) for name in plain)


def test_no_path_of_the_training_machine_is_written(adapter):
    assert json.loads((adapter[1]/CONFIG).read_text())['base_model_name_or_path'] == 'tiny'


def test_the_digest_follows_weights_and_scale_but_not_the_card(adapter):
    _, folder = adapter
    first = adapter_digest(folder)
    write_card(folder, CARD)
    assert adapter_digest(folder) == first
    config = json.loads((folder/CONFIG).read_text())
    (folder/CONFIG).write_text(json.dumps(config | {'lora_alpha': 1}))
    assert adapter_digest(folder) != first


@pytest.mark.parametrize('change, words', [
    ({'peft_type': 'IA3'}, 'only LORA'), ({'use_dora': True}, 'use_dora'), ({'rank_pattern': {'q_proj': 4}}, 'rank_pattern'),
    ({'r': 0}, 'rank of 1'), ({'r': '3'}, 'rank of 1'), ({'bias': 'all'}, 'bias'), ({'r': 4}, 'expected rank 4')])
def test_configurations_that_are_not_plain_lora_are_refused(adapter, change, words):
    _, folder = adapter
    (folder/CONFIG).write_text(json.dumps(json.loads((folder/CONFIG).read_text()) | change))
    with pytest.raises(ModelError, match=words): list(lora_pairs(folder))


@pytest.mark.parametrize('text, words', [('{', 'not JSON'), ('[]', 'expected an object'), (None, 'holds no')])
def test_damaged_configurations_are_refused(adapter, text, words):
    _, folder = adapter
    (folder/CONFIG).unlink()
    if text is not None: (folder/CONFIG).write_text(text)
    with pytest.raises(ModelError, match=words): read_config(folder)


def test_weights_that_are_cut_short_pickled_or_not_finite_are_refused(adapter):
    import torch
    from safetensors.torch import load_file, save_file
    _, folder = adapter
    file = folder/WEIGHTS
    tensors = load_file(str(file))
    save_file({name: tensor*torch.nan for name, tensor in tensors.items()}, str(file))
    with pytest.raises(ModelError, match='not finite'): read_tensors(file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ModelError, match='cannot be read'): read_tensors(file)
    file.unlink()
    (folder/'adapter_model.bin').write_bytes(b'pickle')
    with pytest.raises(ModelError, match='only safetensors'): merge_adapter(model(), folder)


def test_half_of_a_pair_is_refused(adapter):
    from safetensors.torch import load_file, save_file
    _, folder = adapter
    tensors = load_file(str(folder/WEIGHTS))
    tensors.pop(next(name for name in tensors if 'lora_B' in name))
    save_file(tensors, str(folder/WEIGHTS))
    with pytest.raises(ModelError, match='no pair'): list(lora_pairs(folder))


def test_another_model_is_refused_and_left_as_it_was(adapter):
    import torch
    other, before = model(48), model(48).state_dict()
    with pytest.raises(ModelError, match='made for tiny'): merge_adapter(other, adapter[1])
    assert all(torch.equal(before[name], tensor) for name, tensor in other.state_dict().items())


def test_an_own_folder_comes_before_the_shipped_one(tmp_path, monkeypatch):
    monkeypatch.setenv('FACTLAB_ADAPTERS', str(tmp_path))
    (tmp_path/'verifier').mkdir()
    with pytest.raises(ModelError, match='factlab train verifier'): shipped('verifier')
    (tmp_path/'verifier'/WEIGHTS).write_bytes(b'')
    assert shipped('verifier') == tmp_path/'verifier'
    with pytest.raises(UsageError, match='no trained part'): shipped('../verifier')


def test_a_card_is_whole_or_not_written(tmp_path):
    for fault in ({'limits': []}, {'steps': None}, {'data': [{'name': 'a', 'licence': '', 'rows': 1, 'use': 'x'}]},
                  {'metrics': [{'set': 'a', 'metric': 'AUROC', 'n': 3, 'estimate': .5}]}):
        with pytest.raises(ModelError, match='not complete'): write_card(tmp_path/'part', CARD | fault)
    assert not (tmp_path/'part').exists()
    assert read_card(write_card(tmp_path/'part', CARD)) == CARD


@pytest.mark.parametrize('part', TRAINED_PARTS)
def test_what_ships_is_whole_and_small(part, monkeypatch):
    monkeypatch.delenv('FACTLAB_ADAPTERS', raising=False)
    try: folder = shipped(part)
    except ModelError: pytest.skip(f'the {part} has not been trained yet')
    assert check_card(read_card(folder))['part'] == part
    assert list(lora_pairs(folder)) and sum(file.stat().st_size for file in folder.iterdir()) < 8e6
    assert (folder/'README.md').read_text(encoding='utf-8') == card_text(read_card(folder)), 'people read another card than programs'


def test_the_card_shows_every_number_that_a_metric_has():
    alone = {'set': 'a', 'metric': 'R@10', 'n': 3, 'estimate': .5, 'low': .25, 'high': .75}
    before = {'before': .4, 'before_low': .2, 'before_high': .6, 'difference': .1, 'difference_low': -.125, 'difference_high': .3}

    def table(*metrics):
        return [line for line in card_text(CARD | {'metrics': list(metrics)}).splitlines() if line.startswith('| set') or 'R@10' in line]

    assert table(alone) == ['| set | metric | n | estimate | low | high |', '| a | R@10 | 3 | 0.500 | 0.250 | 0.750 |']
    header, first, second = table(alone, alone | before)
    assert header.split(' | ')[3:6] == ['before', 'before low', 'before high'] and header.endswith(
        '| high | difference | difference low | difference high |'
    )
    assert first == '| a | R@10 | 3 |  |  |  | 0.500 | 0.250 | 0.750 |  |  |  |'
    assert second == '| a | R@10 | 3 | 0.400 | 0.200 | 0.600 | 0.500 | 0.250 | 0.750 | 0.100 | -0.125 | 0.300 |'
