"Which claims copy a sentence and say something else."
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.data.corpora import retrieval_task
from factlab.text.copies import changed_measure, changed_order, copied_sentence, dropped_doubt, left_out
from factlab.text.sentences import split_sentences

FINAL = 'In the final of 1934 Clara Venn beat Otto Brandt in forty moves.'
DEAL = 'The company Orbex bought its rival Fenwick for two million pounds in 1988.'
GIFT = 'The king gave the castle to his brother and the forest to the bishop.'
TRADE = 'Norway exports salmon to Japan and imports rice from Vietnam.'
BRIDGE = 'The bridge, which crosses the Tarn, was opened in 2004 and is 343 metres high.'


@pytest.mark.parametrize('sentence, claim', [
    (FINAL, 'In the final of 1934 Otto Brandt beat Clara Venn in forty moves.'), (FINAL, 'Otto Brandt beat Clara Venn.'),
    (DEAL, 'Fenwick bought its rival Orbex for two million pounds in 1988.'),
    (GIFT, 'The king gave the forest to his brother and the castle to the bishop.'), (TRADE, 'Japan exports salmon to Norway.'),
    (BRIDGE, 'The bridge was opened in 343 and is 2004 metres high.'),
    ('The church was built between 532 and 537 by order of Justin.', 'The church was built between 537 and 532 by order of Justin.'),
    ('In the vote the Greens won 31 seats and the Liberals 18.', 'In the vote the Liberals won 31 seats and the Greens 18.')])
def test_exchanged_words_are_seen(sentence, claim):
    assert copied_sentence(f'Owls hunt at night. {sentence} It rained.', claim) == sentence and changed_order(sentence, claim)


@pytest.mark.parametrize('sentence, claim', [
    (FINAL, FINAL), (FINAL, 'Clara Venn beat Otto Brandt in the final of 1934.'), (FINAL, 'In forty moves Clara Venn beat Otto Brandt.'),
    (DEAL, 'In 1988 Orbex bought its rival Fenwick for two million pounds.'),
    (TRADE, 'Norway imports rice from Vietnam and exports salmon to Japan.'),
    (BRIDGE, 'The bridge is 343 metres high and was opened in 2004.'),
    (BRIDGE, 'The bridge crosses the Tarn.'), ('The wolf and the bear sleep.', 'The wolf sleeps.')])
def test_parts_that_are_moved_whole_are_not(sentence, claim):
    assert copied_sentence(sentence, claim) == sentence and changed_order(sentence, claim) is None


@pytest.mark.parametrize('sentence, claim, part', [
    ('A replica of the hall burned in 1944.', 'The hall burned in 1944.', 'A replica of'),
    ('A part of the hall burned.', 'The hall burned.', 'A part of'),
    ('The hall burned in 1944 or 1945.', 'The hall burned in 1944.', 'or 1945'),
    ('The soldiers who surrendered were shot.', 'The soldiers were shot.', 'who surrendered'),
    ('The Orr is the longest river that no ship uses.', 'The Orr is the longest river.', 'that no ship uses'),
    ('The lion was sold by a Dane to a Swede.', 'The lion was sold to a Dane by a Swede.', 'by Dane'),
    ('The city was taken by the army.', 'The city took the army.', 'by army'),
    ('The hall, a brick building, burned in May 1944.', 'The hall burned.', None),
    ('The hall, which had a roof, burned.', 'The hall burned.', None),
    ('Dahl built the hall and Berg built the tower.', 'Berg built the tower.', None),
    ('Dahl built the hall and Berg built the tower.', 'Dahl built the hall.', None),
    ('In May 1944 the hall burned.', 'The hall burned in May 1944.', None),
    ('12 of the 30 guests fell ill.', 'The 30 guests fell ill.', '12 of'),
    ('A third of the guests fell ill.', 'The guests fell ill.', 'A third of'),
    ('The minister, critics wrote, took bribes.', 'The minister took bribes.', 'critics wrote'),
    ('Before the mill burned, it was sold.', 'After the mill burned, it was sold.', 'before mill'),
    ('The hall was sold by the mayor, and the tower burned in May 1944.', 'The tower burned in May 1944.', None),
    ('On Monday the hall burned.', 'The hall burned.', None), ('A guest was hurt in 1944.', 'A guest was hurt.', None),
    ('Varn was the richest town in the 15th century.', 'Varn was the richest town.', 'in the 15th century'),
    ('Varn was the wealthiest town in 1904.', 'Varn was the wealthiest town.', 'in 1904'),
    ('It was the worst flood of the century.', 'It was the worst flood.', 'of the century'),
    ('Budapest was besieged in 1944.', 'Budapest was besieged.', None), ('The priest was hurt in May.', 'The priest was hurt.', None)])
def test_parts_without_which_a_sentence_says_something_else(sentence, claim, part):
    assert left_out(sentence, claim) == part and left_out(sentence, sentence) is None


@given(st.lists(st.sampled_from(['blue', 'hall', 'burned', 'sold', 'old', 'bank', 'tower', 'roof']), min_size=3, unique=True), st.data())
def test_a_word_left_out_between_others_is_seen(words, data):
    at = data.draw(st.integers(1, len(words) - 2))
    sentence, claim = ' '.join(words), ' '.join(words[:at] + words[at + 1:])
    assert left_out(sentence, sentence) is None and left_out(sentence, claim) == words[at]
    assert left_out(' '.join([*words[:at], ', which', words[at], ',', *words[at + 1:]]), claim) is None


@pytest.mark.parametrize('sentence, claim, word', [
    ('In the film, the bridge collapses during a storm.', 'The bridge collapses during a storm.', 'film'),
    ('The council planned to build a tunnel.', 'The council built a tunnel.', 'planned'),
    ('If the dam breaks, the valley is flooded.', 'The valley is flooded.', 'If'),
    ('Almost all of the 120 passengers survived.', 'All of the 120 passengers survived.', 'Almost'),
    ('Until 1920 the dialect had no written form.', 'The dialect has no written form.', 'had'),
    ('Until 1920 the dialect had no written form.', 'The dialect had no written form.', 'Until'),
    ('Petra Noll was the champion in 2003.', 'Petra Noll is the champion.', 'was'),
    ('The mill was built in 1870 and is a museum.', 'The mill is a museum.', None),
    ('Rubisco is often described as the most abundant protein.', 'Rubisco is the most abundant protein.', 'often'),
    ('Inspector Dale, who lives in Bath, is the hero of six stories.', 'Inspector Dale lives in Bath.', 'hero'),
    ('Critics claimed that the minister took bribes.', 'The minister took bribes.', 'claimed'),
    ('The council planned to build a tunnel.', 'The council had a plan of a tunnel.', None),
    ('The line is scheduled to open in 2031.', 'The line opens in 2031.', 'scheduled'),
    ('Half of the teachers went on strike.', 'The teachers went on strike.', 'Half'),
    ('All rooms except the kitchen have a balcony.', 'All rooms have a balcony.', 'except'),
    ('The flood of May ruined it.', 'It was ruined.', None)])
def test_dropped_doubts(sentence, claim, word):
    assert dropped_doubt(sentence, claim) == word


def test_another_sentence_is_no_copy():
    assert copied_sentence(FINAL, 'Venn was a master of chess.') is copied_sentence('', 'Owls.') is copied_sentence(FINAL, '') is None
    assert copied_sentence(FINAL, 'The of it.') is None


_NAME = re.compile(r'(?<=[a-z,] )(?:[A-Z][a-z]+(?: [A-Z][a-z]+)*|\d[\d,.]*\d)')

def test_names_exchanged_in_the_sentences_of_the_sample():
    draws, seen = random.Random(0), []
    for sentence in (one for text in retrieval_task('sample').passages['text'] for one in split_sentences(text)):
        assert changed_order(sentence, sentence) is None and dropped_doubt(sentence, sentence) is None
        names = list({found[0]: found for found in _NAME.finditer(sentence)}.values())
        if len(names) < 2: continue
        one, other = sorted(draws.sample(names, 2), key=re.Match.start)
        if one[0][0].isdigit() != other[0][0].isdigit() or sentence.count(one[0]) + sentence.count(other[0]) > 2: continue
        false = sentence[:one.start()] + other[0] + sentence[one.end():other.start()] + one[0] + sentence[other.end():]
        seen.append(bool((copied := copied_sentence(sentence, false)) and changed_order(copied, false)))
    assert len(seen) > 200 and sum(seen)/len(seen) > .9, (sum(seen), len(seen))


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_read(passage, claim):
    sentence = copied_sentence(passage, claim)
    assert sentence is None or sentence in split_sentences(passage)
    assert changed_order(passage, passage) is None and dropped_doubt(passage, passage) is None
    order = changed_order(passage, claim)
    assert order is None or all(word in passage or word for word in order)


@pytest.mark.parametrize('sentence, claim', [
    ('The temperature fell to -41 degrees on 6 January 1987.', 'The temperature fell to 41 degrees on 6 January 1987.'),
    ('The temperature fell to 41 degrees.', 'The temperature fell to −41 degrees.'),
    ('The rate rose by 3 percentage points in 2013.', 'The rate rose by 3 percent in 2013.'),
    ('The rate rose by 3 percentage points in 2013.', 'The rate rose to 3 percent in 2013.'),
    ('The budget was cut by 40 million dollars in 2014.', 'The budget was cut to 40 million dollars in 2014.'),
    ('The temple was built in the 9th century BC.', 'The temple was built in the 9th century.'),
    ('The quake struck at 3:15 p.m. on 7 June.', 'The quake struck at 3:15 on 7 June.'),
    ('The town has 12 million people.', 'The town has 12 people.'), ('The mill worked until 1931.', 'The mill worked in 1931.'),
    ('Up to 40,000 people came.', '40,000 people came.')])
def test_another_measure_is_seen(sentence, claim):
    assert changed_measure(sentence, claim) and changed_measure(claim, sentence)


@pytest.mark.parametrize('sentence, claim', [
    ('The rate rose by 3 percent to 9 percent in 2013.', 'In 2013 the rate rose to 9 % by 3 per cent.'),
    ('The temple was built in the 9th century BC.', 'In the 9th century BC the temple was built.'),
    ('It cost $1,200,000 in 1995–96.', 'In 1995–96 it cost $1200000.'), ('Flight 12 left at 3:15 p.m.', 'At 3:15 pm flight 12 left.'),
    ('It fell to −41 degrees.', 'To -41 degrees it fell.'), ('The war of 1914-1918 began.', 'The war of 1914-1918 began.'),
    ('The mill burned in 1931.', 'It was in 1931 that the mill burned.'), ('A mill.', 'A mill of 1931.')])
def test_a_measure_in_other_words_is_the_same(sentence, claim):
    assert changed_measure(sentence, claim) is None


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_a_text_has_its_own_measures(text): assert changed_measure(text, text) is None
