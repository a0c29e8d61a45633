"What a claim adds to its text: forms of words, numbers in words and digits, parts of names, and nothing that a text says itself."
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.text.sentences import split_sentences
from factlab.text.units import number_value
from factlab.text.word_forms import added_words, lost_links, number_readings, word_stem, written_words
from factlab.text.words import COUNT_WORDS, TENS


@pytest.mark.parametrize('forms', [
    'founded founding founder foundation', 'write wrote written writer writing',
    'produce produced production', 'carry carried carries',
    'stop stopped stopping', 'live lived living lives', 'refuse refused refusal', 'cover covers covered covering',
    'not never', 'km kilometres'])
def test_forms_of_a_word_are_one_word(forms):
    assert len({word_stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize('one, other', [('edith', 'eddie'), ('mill', 'mile'), ('king', 'kind'), ('found', 'founded'),
                                        ('port', 'portrait'), ('owl', 'owner')])
def test_other_words_are_other_words(one, other):
    assert word_stem(one) != word_stem(other)


@settings(deadline=None)
@given(st.sampled_from([*COUNT_WORDS, *TENS]), st.sampled_from(['', *COUNT_WORDS[1:10]]))
def test_a_number_in_words_is_the_number_in_digits(tens, ones):
    if ones and tens not in TENS: return
    words = f'{tens}-{ones}'.rstrip('-')
    value = f'{number_value(words):.0f}'
    one, other = f'It has {words} rooms.', f'It has {value} rooms.'
    assert added_words(one, other) == added_words(other, one) == []
    assert added_words(f'It has {words} rooms.', f'It has {value}7 rooms.') == [f'{value}7']


@pytest.mark.parametrize('text, claim, added', [
    ('It cost 3.5 million.', 'It cost 3,500,000.', []), ('It cost 3,500,000.', 'It cost 3.5 million.', []),
    ('It cost 3 million.', 'It cost 3 billion.', ['billion']),
    ('It cost $1.2bn.', 'It cost 1.2 billion dollars.', []), ('It cost 1.2 billion dollars.', 'It cost $1.2bn.', []),
    ('It cost £3m.', 'It cost 3 million pounds.', []), ('It is 3m long.', 'It is 3 million long.', ['million']),
    ('It has 12k members.', 'It has 12,000 members.', []), ('It cost £3m.', 'It cost £3bn.', ['billion']),
    ('It cost €2 tn.', 'It cost 2,000 billion euros.', []), ('Bn 7 and 3 kings', '3 kings', []),
    ('A Swedish town.', 'The town lies in Sweden.', []), ('A town in the Netherlands.', 'A Dutch town.', []),
    ('A Swedish town.', 'A Danish town.', ['Danish']),
    ('It lost 12%.', 'It lost 12 percent.', []), ('On 3 Dec 1931.', 'In December 1931.', []),
    ('The U.S. won.', 'The US won.', []),
    ("It didn't burn.", 'It never burned.', []), ('It burned.', 'It did not burn.', ['not']),
    ('Only mills burned.', 'All mills burned.', ['All']),
    ('Edith Marlow ran it.', 'Marlow’s mill.', ['mill']), ('Marlow ran it.', 'Edith Marlow ran it.', ['Edith']),
    ('京都は古い。', '京都は古い', []),
    ('ﬁve mills', 'five mills', []), ('A founder.', 'It was founded.', []), ('', 'It is there.', [])])
def test_what_is_added(text, claim, added):
    assert added_words(text, claim) == added


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
def test_more_text_adds_nothing_and_what_is_added_stands_in_the_claim(text, claim, more):
    added = added_words(text, claim)
    assert set(added_words(f'{text} {more}', claim)) <= {*added, *written_words(claim)} and set(added) <= {*written_words(claim)}
    assert added_words(f'{text} {claim}', claim) == [] and len({*added}) == len(added)


def test_numbers_have_every_reading():
    assert number_readings(['twenty', 'five', 'million']) == {0: {20.: 1, 25.: 2}, 1: {5.: 1, 5e6: 2}}


# ---- links and negations -----------------------------------------------------------------------------------------------------------

WON = ['The club won the cup.', 'The club won the title in 1960.']

@pytest.mark.parametrize('text, lost', [
    ('The club won the cup, so it won the title in 1960.', ['so']), ('The club won the cup and then the title in 1960.', ['then']),
    ('Since the club won the cup, it won the title in 1960.', ['Since']), ('The club won the cup to win the title in 1960.', ['to win']),
    ('The club, having won the cup, won the title in 1960.', ['having']), ('Winning the cup, the club won the title in 1960.', ['Winning']),
    ('The club would win the cup if it won the title in 1960.', ['would', 'if']), ('The club won the cup and the title in 1960.', []),
    ('The club won the cup. It won the title in 1960.', []), ('Nobody won the cup without the title in 1960.', ['Nobody', 'without']),
    ('', [])])
def test_links_that_claims_lose(text, lost):
    assert lost_links(text, WON) == lost


@pytest.mark.parametrize('text, claims, lost', [
    ('He did not win. He did not lose.', ['He did not win.', 'He lost.'], ['not']),
    ('He never won, nor lost.', ['He did not win.', 'He did not lose.'], []), ("He won't come.", ['He will not come.'], []),
    ('He neither won nor lost. He did not leave.', ['He did not win.', 'He did not lose.', 'He left.'], ['not']),
    ('He left for Oslo to sing.', ['He left for Oslo to sing.'], []), ('He left for Oslo to sing.', ['He left for Oslo.', 'He sang.'],
                                                                       ['to sing']),
    ('He moved to Oslo and to Bergen.', ['He moved to Oslo.', 'He moved to Bergen.'], []),
    ('In May 1960 and May 1961.', ['In May 1960.', 'In May 1961.'], []), ('He did not win.', ['He won.'], ['not'])])
def test_links_are_counted_by_sentence(text, claims, lost):
    assert lost_links(text, claims) == lost


LINKED = st.sampled_from(['The mill did not burn', 'No mill stood there before 1900', 'Then it rained', 'If so, it closed',
                          'Having sung, he left', 'It may rain', 'Nothing is left'])

@settings(deadline=None)
@given(st.lists(LINKED, min_size=1, max_size=6), st.data())
def test_sentences_lose_no_link_and_each_that_is_left_out_loses_its_own(parts, data):
    text = ' '.join(f'{part}.' for part in parts)
    claims = split_sentences(text)
    assert lost_links(text, claims) == lost_links(text, list(dict.fromkeys(claims))) == []
    gone = data.draw(st.sampled_from(claims))
    assert lost_links(text, [claim for claim in claims if claim != gone])
