"""Words of a text: what is kept, and that taking many texts apart at once changes nothing."""
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlab.text.words import _FUNCTION_WORDS, content_overlap, content_overlaps, content_words

WORDS = ['the ', 'Mills ', 'mill ', 'burning', 'burned. ', 'goes ', 's ', 'ed, ', 'ΟΔΟΣ ', '_', '\n', 'és ', '12s ']
TEXT = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=12).map(''.join)


@given(TEXT)
def test_content_words_are_those_of_a_plain_rule(text):
    words = [word for word in re.findall(r'\w+', text.lower()) if word not in _FUNCTION_WORDS]
    cut = [next((word[:-len(end)] for end in ('ing', 'ed', 'es', 's') if word.endswith(end)), word) for word in words]
    assert content_words(text) == set(cut)


@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_many_overlaps_are_the_overlaps_of_each(pairs):
    assert content_overlaps(iter(pairs)) == [content_overlap(*pair) for pair in pairs]
    for (claim, evidence), share in zip(pairs, content_overlaps(pairs), strict=True):
        words = content_words(claim)
        assert share == (pytest.approx(sum(word in content_words(evidence) for word in words)/len(words)) if words else 1)
