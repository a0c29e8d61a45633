"""The training loop: one checkpoint, one answer to another training's, runs that are stopped, the loss log, and names that are written."""
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError, ModelError, UsageError
from factlab.data.registry import REGISTRY
from factlab.training.loop import (
    CHECKPOINT,
    LOSSES,
    Learner,
    Run,
    data_licence,
    identity_differences,
    load_checkpoint,
    loss_chart,
    read_losses,
    save_checkpoint,
    train,
    write_losses,
)

IDENTITY = {'part': 'verifier', 'settings': {'seed': 0, 'judged': 3}, 'data': 'ab', 'base': 'gguf:1'}


class Stopped(Exception): "Stands for a kill."


def learning(folder, steps=6, stop=None, keep_every=2, identity=IDENTITY, dtype=torch.float32, look=None, noise=True):
    "A weight of three numbers is drawn to the batches; with random noise, whose state belongs to the checkpoint."
    torch.manual_seed(1)
    weight, unused = (torch.nn.Parameter(torch.zeros(3, dtype=dtype)) for _ in range(2))
    learner = Learner({'w': weight, 'unused': unused}, .1, max_norm=1.0)
    def loss_of(batch): return ((weight + (torch.randn(3)*.1 if noise else 0) - batch)**2).mean()
    def on_step(step, loss):
        if step == stop: raise Stopped
    run = train(folder, learner, loss_of, (torch.full((3,), float(at % 3)) for at in range(1000)), steps, identity,
                lambda step: .1/(step + 1), keep_every=keep_every, on_step=on_step, look=look)
    return run, weight.detach().float().tolist()


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize('stop', [1, 3, 4, 6])
def test_a_stopped_run_ends_as_if_it_had_not_been(tmp_path, stop, dtype):
    whole = learning(tmp_path/'whole', dtype=dtype)
    with pytest.raises(Stopped): learning(tmp_path/'parts', stop=stop, dtype=dtype)
    assert learning(tmp_path/'parts', dtype=dtype) == whole
    assert [file.name for file in sorted((tmp_path/'parts').iterdir())] == sorted([CHECKPOINT, LOSSES])


def test_a_finished_run_returns_at_once_and_more_steps_go_on(tmp_path):
    whole = learning(tmp_path)
    seen = []
    again = train(tmp_path, Learner({'w': torch.nn.Parameter(torch.zeros(3)), 'unused': torch.nn.Parameter(torch.zeros(3))}, .1),
                  seen.append, iter([]), 6, IDENTITY, lambda step: .1)
    assert again.losses == whole[0].losses == pytest.approx(read_losses(tmp_path), abs=1e-4) and not seen
    longer, _ = learning(tmp_path, steps=8)
    assert longer.losses[:6] == whole[0].losses and len(longer.losses) == 8
    with pytest.raises(UsageError, match='8 steps, more than 6'): learning(tmp_path)


@pytest.mark.parametrize('change, expected', [
    ({'settings': {'seed': 1, 'judged': 3}}, 'seed is 0 there and 1 here'),
    ({'settings': {'seed': 0, 'judged': 2}}, 'judged is 3 there'),
    ({'data': 'cd'}, 'training data are others'), ({'base': 'gguf:2'}, 'base model has other weights'),
    ({'part': 'extractor'}, 'verifier there and the extractor here')])
def test_another_trainings_checkpoint_is_refused_kept_and_named(tmp_path, change, expected):
    learning(tmp_path)
    before = (tmp_path/CHECKPOINT).read_bytes()
    with pytest.raises(UsageError, match=expected) as raised: learning(tmp_path, identity=IDENTITY | change)
    assert 'delete the file' in str(raised.value) and (tmp_path/CHECKPOINT).read_bytes() == before


@pytest.mark.parametrize('content', [b'', b'half', b'\x10\0\0\0\0\0\0\0not a header'])
def test_a_damaged_checkpoint_says_what_to_do(tmp_path, content):
    (tmp_path/CHECKPOINT).write_bytes(content)
    with pytest.raises(DataError, match='delete it'): learning(tmp_path)


def test_a_checkpoint_that_is_none_of_ours_is_damaged(tmp_path):
    from safetensors.torch import save_file
    whole = {'format': 'factlab training checkpoint 1', 'identity': json.dumps(IDENTITY), 'step': '1', 'losses': '[1.0]', 'notes': '{}'}
    for header in ({}, {'format': 'another'}, whole | {'step': 'one'}, whole):  # the last one lacks the weights
        save_file({'x': torch.zeros(1)}, str(tmp_path/CHECKPOINT), metadata=header)
        with pytest.raises(DataError, match='delete it'): learning(tmp_path)


def test_a_loss_that_is_not_finite_stops_before_it_does_harm(tmp_path):
    weight = torch.nn.Parameter(torch.ones(1))
    batches = iter([torch.ones(1), torch.tensor([float('nan')])])
    with pytest.raises(DataError, match='at step 2'):
        train(tmp_path, Learner({'w': weight}, .1), lambda batch: (weight*batch).sum(), batches, 2, IDENTITY, lambda step: .1, keep_every=1)
    assert weight.isfinite().all() and load_checkpoint(tmp_path, Learner({'w': weight}, .1), IDENTITY).step == 1


def test_what_a_training_notes_is_kept(tmp_path):
    def look(run): run.notes.setdefault('seen', []).append(run.step)
    assert learning(tmp_path/'whole', steps=5, look=look)[0].notes == {'seen': [0, 2, 4, 5]}
    with pytest.raises(Stopped): learning(tmp_path/'parts', steps=5, stop=5, look=look)
    assert learning(tmp_path/'parts', steps=5, look=look)[0].notes == {'seen': [0, 2, 4, 5]}


def test_nothing_is_written_where_the_disk_refuses(tmp_path):
    (tmp_path/'file').write_text('')
    with pytest.raises(DataError, match='cannot write'):
        save_checkpoint(tmp_path/'file', Learner({'w': torch.nn.Parameter(torch.ones(1))}, .1), Run(), IDENTITY)


@given(st.dictionaries(st.sampled_from('abc'), st.integers(0, 2)), st.dictionaries(st.sampled_from('abc'), st.integers(0, 2)))
def test_identities_differ_exactly_where_their_settings_do(one, other):
    found = identity_differences({'settings': one}, {'settings': other})
    assert len(found) == sum(one.get(name) != other.get(name) for name in {*one, *other})



def test_licences_are_only_those_of_the_registry():
    assert data_licence('wice') == REGISTRY['wice'].licence
    with pytest.raises(UsageError, match='nowhere'): data_licence('nowhere')


@pytest.mark.parametrize('text', [None, 'no json', '[1]', '{"losses": 3}', '{"losses": [1, "2"]}', '{"losses": [1e999]}'])
def test_losses_that_are_none_are_refused(tmp_path, text):
    if text is not None: (tmp_path/LOSSES).write_text(text)
    with pytest.raises(ModelError, match='losses'): read_losses(tmp_path)


def test_losses_are_kept_to_four_digits(tmp_path):
    write_losses(tmp_path, [1.23456, 2])
    assert read_losses(tmp_path) == [1.2346, 2]


def test_losses_are_drawn_with_their_mean():
    points, line = loss_chart([2., 1., 3.], window=2).to_dict()['layer']
    assert (points['encoding']['y']['field'], line['encoding']['y']['field']) == ('loss', 'mean')
    drawn = next(iter(loss_chart([2., 1., 3.], window=2).to_dict()['datasets'].values()))
    assert [row['mean'] for row in drawn] == [2, 1.5, 2]
