"""Words of a text: what is kept, spellings that are one word, and that taking many texts apart at once changes nothing."""
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.text.word_forms import added_words, written_words
from factlab.text.words import (
    _FUNCTION_WORDS,
    content_overlap,
    content_overlaps,
    content_words,
    normal_offset,
    normal_text,
    plain_text,
    plain_words,
    whole_text,
)

WORDS = ['the ', 'Mills ', 'mill ', 'burning', 'burned. ', 'goes ', 's ', 'ed, ', 'ΟΔΟΣ ', '_', '\n', 'és ', '12s ']
TEXT = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=12).map(''.join)


@settings(deadline=None)
@given(TEXT)
def test_content_words_are_those_of_a_plain_rule(text):
    words = [word for word in re.findall(r'\w+', plain_text(text).lower()) if word not in _FUNCTION_WORDS]
    cut = [next((word[:-len(end)] for end in ('ing', 'ed', 'es', 's') if word.endswith(end)), word) for word in words]
    assert content_words(text) == set(cut)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_many_overlaps_are_the_overlaps_of_each(pairs):
    assert content_overlaps(iter(pairs)) == [content_overlap(*pair) for pair in pairs]
    for (claim, evidence), share in zip(pairs, content_overlaps(pairs), strict=True):
        words = content_words(claim)
        assert share == (pytest.approx(sum(word in content_words(evidence) for word in words)/len(words)) if words else 1)


# ---------------------------------------------------------------- one normal form

WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | {0x20: 0x3000}
INVISIBLE = ['\u200b', '\u200d', '\u2060', '\ufeff', '\u00ad', '\ufe0f', '\u202e', '\U000e0041']
HARD = st.text(alphabet=st.characters(exclude_categories=['Cs']) | st.sampled_from('éÅ가½²ﬁ\u0301\u0323‑–’“1 3 aA.'), max_size=30)


@settings(deadline=None)
@given(HARD, st.sampled_from(['NFC', 'NFD']))
def test_composed_and_decomposed_texts_are_alike(text, form):
    other = unicodedata.normalize(form, text)
    assert plain_text(other) == plain_text(text) and plain_words(other) == plain_words(text)
    assert content_words(other) == content_words(text) and written_words(other) == written_words(text)
    assert normal_text(other) == normal_text(text) == unicodedata.normalize('NFC', text)


@settings(deadline=None)
@given(HARD)
def test_full_width_is_no_other_word(text):
    assert plain_words(text.translate(WIDE)) == plain_words(text)


@settings(deadline=None)
@given(HARD, st.sampled_from(INVISIBLE), st.integers(0, 30))
def test_what_cannot_be_seen_makes_no_difference(text, mark, at):
    text = unicodedata.normalize('NFC', text)
    assert plain_words(text[:at] + mark + text[at:]) == plain_words(text)


@pytest.mark.parametrize(('one', 'other'), [
    ('non‑fiction', 'non-fiction'), ('1914–1918', '1914-1918'), ('the mill’s “end”', 'the mill\'s "end"'), ('ﬁve oﬃces', 'five offices'),
    ('Ｚｏë', 'Zoë'), ('１９３１', '1931'), ('in\u00adaccurate', 'inaccurate'), ('−5', '-5'), ('CO₂', 'CO2'), ('½', '1/2')])
def test_spellings_that_are_compared_alike(one, other):
    assert plain_text(one) == other and plain_words(one) == plain_words(other) and content_words(one) == content_words(other)
    assert not added_words(other, one) and not added_words(one, other)


def test_powers_and_fractions_are_no_other_numbers():
    assert plain_text('10² and 3½ and 10⁻³') == '10^2 and 3 1/2 and 10^-3' and plain_words('10²') != plain_words('102')


@settings(deadline=None)
@given(st.text(max_size=20))
def test_half_a_character_is_marked_and_whole_ones_stay(text):
    assert whole_text(text) == text if text.isascii() else True
    whole_text(text + '\ud83d').encode(); normal_text('\udc00' + text).encode()
    assert whole_text('\ud83d\ude00') == '😀' and whole_text('\ud83d!') == '�!'
    assert plain_text(plain_text(text)) == plain_text(text) or not text.isascii()


@settings(deadline=None)
@given(st.lists(st.sampled_from(['Zoë', 'Malmö', 'mill', '가다', 'naïve', 'ệ']), min_size=1, max_size=8))
def test_a_place_stays_where_it_was(words):
    composed, decomposed = ' '.join(words), unicodedata.normalize('NFD', ' '.join(words))
    for match in re.finditer(r'\S+', decomposed):
        start, end = (normal_offset(decomposed, at) for at in match.span())
        assert composed[start:end] == normal_text(match[0])
