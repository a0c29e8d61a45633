"""Dry runs: what is counted without asking, what stands for an answer, and what it would cost."""
import pytest
from asking import question
from models.test_interface import echo, texts

from factlab.models.dry_run import DryRun, cost, estimate_of
from factlab.models.interface import ScriptedModel, ask, is_dry_run
from factlab.models.prompts import EXAMPLE_ANSWERS


def test_a_dry_run_counts_and_touches_nothing(store, monkeypatch):
    monkeypatch.setitem(EXAMPLE_ANSWERS, 'b', 'placeholder')
    model = ScriptedModel('m', echo, revision='1')
    model.price = (1.0, 10.0)
    ask([question('in store', max_tokens=5)], model, store)
    before = store.stats()
    with DryRun() as dry:
        first = ask([question('in store', max_tokens=5), question('new one', max_tokens=5), question('new one', max_tokens=5)], model,
                    store, label='a')
        assert texts(first) == ['IN STORE', '', '']
        for _ in range(2): assert texts(ask([question('three more words', max_tokens=7)], model, store, label='b')) == ['placeholder']
        scored, = ask([question('x', choices=('a', 'b'))], model, store, label='b')
        assert scored.choice_logprobs[0] == scored.choice_logprobs[1] < 0
    assert estimate_of(dry).rows() == [('m', 'a', 1, 1, 2, 5, pytest.approx(52e-6), None),
                                       ('m', 'b', 2, 0, 4, 7, pytest.approx(74e-6), None)]
    assert len(model.asked) == 1 and store.stats().equals(before)


def test_a_dry_run_without_a_store_and_with_a_function():
    with DryRun(lambda request: request.label + '!') as dry:
        assert texts(ask([question('x')], ScriptedModel('m', echo), store=False, label='a')) == ['a!'] and is_dry_run()
    assert not is_dry_run() and texts(ask([question('x')], ScriptedModel('m', echo), store=False)) == ['X']
    assert estimate_of(DryRun()).is_empty() and estimate_of(dry)['cost'].to_list() == [0.0]
    assert cost(None, 5, 5) == 0 and cost((0.15, 0.60), 10**6, 10**6) == pytest.approx(0.75)


def test_a_rough_count_loads_no_tokenizer(monkeypatch):
    model = ScriptedModel('m', echo)
    monkeypatch.setattr(ScriptedModel, 'count_tokens', lambda self, requests: pytest.fail('counted by its tokenizer'))
    with DryRun(roughly=True) as dry: ask([question('eight bytes a word')], model, store=False)
    assert estimate_of(dry)['prompt_tokens'].item() == 3 + 4 + 5 and estimate_of(dry)['calls'].item() == 1


def test_an_example_may_hold_the_model_and_the_question_apart(monkeypatch):
    "What two texts are taken apart into is not the same: what is asked next is asked about each."
    monkeypatch.setitem(EXAMPLE_ANSWERS, 'test/apart', '‹model› says ‹question›.')
    with DryRun() as dry:
        given = [question(text) for text in ('one', 'two', 'one')]
        first, second, again = texts(ask(given, ScriptedModel('m', echo), store=False, label='test/apart'))
        other, = texts(ask(given[:1], ScriptedModel('other', echo), store=False, label='test/apart'))
    assert first == again != second and first.startswith('m says ') and other.startswith('other says ') and '‹' not in first
    assert estimate_of(dry)['calls'].to_list() == [2, 1]
