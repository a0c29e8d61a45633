"""Passages of pages, on awkward input and against a loop."""
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.retrieval.passages import window_starts, windows


@given(st.integers(0, 30), st.integers(1, 8), st.integers(1, 8))
def test_windows_hold_every_sentence_and_are_what_a_loop_gives(n, size, stride):
    if stride > size:
        with pytest.raises(UsageError): window_starts(n, size, stride)
        return
    starts = window_starts(n, size, stride)
    assert {i for start in starts for i in range(start, min(start + size, n))} == set(range(n))
    if stride == 1: assert starts == [start for start in range(n) if start + size <= n or start == 0]


def test_passages_are_the_sentences_of_their_window():
    texts = {'long': [f'Sentence {n} is here.' for n in range(9)], 'short': ['One only.'], 'empty': []}
    frame = windows(pl.DataFrame({'page': list(texts), 'text': [' '.join(text) for text in texts.values()]}), size=4, stride=2)
    expected = [(f'{page}/{number}', page, ' '.join(split[start:start + 4]))
                for page, split in texts.items() for number, start in enumerate(window_starts(len(split), 4, 2))]
    assert frame.rows() == expected and len(expected) == 5


@pytest.mark.parametrize('pages', [{'page': ['a', 'a'], 'text': ['x', 'y']}, {'page': ['a', None], 'text': ['x', 'y']}, {'page': ['a']}])
def test_pages_need_names_of_their_own_and_texts(pages):
    with pytest.raises(DataError): windows(pl.DataFrame(pages))


def test_a_page_without_a_text_has_no_passages():
    assert windows(pl.DataFrame({'page': ['a'], 'text': [None]})).is_empty()
