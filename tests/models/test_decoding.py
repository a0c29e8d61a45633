"""Prompts are read as each by itself, whatever prefixes they share and however they are grouped."""
import random

import pytest
import torch

from factlab.models.decoding import Job, Reader, choose_cache


@pytest.fixture(scope='module')
def toy():
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                        num_key_value_heads=2, max_position_embeddings=512)).eval()


@pytest.mark.parametrize('seed', range(12))
def test_prompts_in_families_and_alone_are_read_as_each_by_itself(toy, seed):
    draws = random.Random(seed)
    def words(least: int, most: int) -> list[int]: return [draws.randrange(3, 97) for _ in range(draws.randint(least, most))]
    documents = [words(40, 200) for _ in range(3)]
    prompts = [[1]*9 + (draws.choice(documents) if draws.random() < .7 else []) + words(1, 90) for _ in range(draws.randint(2, 12))]
    reader = Reader(toy, choose_cache(toy, range(3, 19)), draws.choice([64, 512, 4096]))
    with torch.inference_mode():
        reader.open([Job(prompt) for prompt in prompts])
        groups = reader.groups(prompts)
        assert sorted(row for group in groups for row in group) == list(range(len(prompts)))
        for group in groups:
            _, logits = reader.read([prompts[row] for row in group])
            alone = torch.stack([toy(torch.tensor([prompts[row]])).logits[0, -1] for row in group])
            assert torch.allclose(logits, alone, rtol=1e-3, atol=1e-3), group
