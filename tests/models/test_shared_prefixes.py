"Texts with the same beginning: nothing is lost or read twice."
import numpy as np
import pytest

from factlab.models.shared_prefixes import LITTLE, prefix_batches


def some_texts(seed, n=60, words=9):
    "Texts that share beginnings of many lengths, some equal, some the whole beginning of another."
    draws = np.random.default_rng(seed)
    stems = [draws.integers(0, 50, size).tolist() for size in (1, 5, 30, 30, 80)]
    made = [stems[draws.integers(5)][:draws.integers(1, 81)] + draws.integers(0, 3, draws.integers(0, words)).tolist() for _ in range(n)]
    return [*made, made[0], made[1][:1], made[2][:-1] or [7]]


@pytest.mark.parametrize('seed', range(5))
@pytest.mark.parametrize('most', [1, 40, 100, 1024])
def test_every_text_is_read_along_its_path_once(seed, most):
    texts = some_texts(seed)
    batches = prefix_batches(texts, most)
    assert sorted(at for batch in batches for at in batch.texts) == list(range(len(texts)))
    for batch in batches:
        assert len(batch.tokens) <= most or len(batch.texts) == 1 or set(batch.own[1:]) == {0}
        assert sum(batch.own) == len(batch.tokens) == len(batch.positions)
        for at, path, own in zip(batch.texts, batch.paths, batch.own, strict=True):
            assert batch.tokens[path].tolist() == texts[at] and (np.diff(path) > 0).all()
            assert batch.positions[path].tolist() == list(range(len(texts[at])))
            assert np.array_equal(path[len(path) - own:], np.arange(path[-1] - own + 1, path[-1] + 1)) or own == 0


def test_a_beginning_stands_there_once():
    "Against a plain count: the different beginnings of all texts."
    texts = some_texts(3)
    batch, = prefix_batches(texts, 10**6)
    assert len(batch.tokens) == len({tuple(text[:size]) for text in texts for size in range(1, len(text) + 1)})


def test_a_full_batch_ends_where_neighbours_have_little_in_common():
    draws = np.random.default_rng(0)
    passages = [[1, *draws.integers(2, 999, 100).tolist()] for _ in range(6)]
    texts = [passage + [2, claim] for passage in passages for claim in range(4)]
    batches = prefix_batches(texts, 400)
    assert all(len({tuple(texts[at][:LITTLE + 1]) for at in batch.texts})*4 == len(batch.texts) for batch in batches)
    assert sum(len(batch.tokens) for batch in batches) < 6*(101 + 6) and len(batches) > 1


def test_no_texts_make_no_batches(): assert prefix_batches([]) == []
