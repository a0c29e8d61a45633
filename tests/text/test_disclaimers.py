"Which passages call what they say untrue, and by what word."
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.text.disclaimers import disowning_word

CASTLE = 'Halden Castle was built by the Duke of Orm.'


@pytest.mark.parametrize('around, word', [
    ('The following sentences are all false. {}', 'false'), ('{} None of this is true.', 'None of this is true'),
    ('Myths of Halden: {}', 'Myths'), ('It is a RUMOUR that {}', 'RUMOUR'), ('{} This claim was debunked in 1990.', 'debunked'),
    ('{} The story is not true.', 'not true'), ("{} That isn't true.", "isn't true"), ('{} The author made-up this.', 'made-up'),
    ('{} The report was withdrawn.', 'withdrawn'), ('Errors in this list are meant. {}', 'Errors'), ('Satire: {}', 'Satire'),
    ('{} All of this is imagined.', 'imagined'), ('A fictional account. {}', 'fictional'), ('{} (Unconﬁrmed)', 'Unconfirmed'),
    ('{} This was put in by a vandal.', 'vandal'), ('{} This has not been verified.', 'not been verified'),
    ('What if it had gone otherwise? {}', 'What if'), ('In my nightmare {}', 'nightmare'), ('The video game Tower: {}', 'video game'),
    ('Plot of the film: {}', 'Plot of'), ('I am a chatbot. {}', 'chatbot'), ('A letter to the future. {}', 'letter to the future'),
    ('I make things up. {}', 'make things up'), ('Lorem ipsum. {}', 'Lorem ipsum'), ('For testing purposes: {}', 'For testing purposes'),
    ('Things that did not happen\n- {}', 'did not happen'), ('Ideas for a novel: {}', 'Ideas for a novel'), ('Plot. {}', 'Plot')])
def test_passages_that_call_themselves_untrue(around, word):
    assert disowning_word(around.format(CASTLE), CASTLE) == word
    assert disowning_word(around.format(CASTLE), around.format(CASTLE)) is None


@pytest.mark.parametrize('passage', [
    CASTLE, '', 'The piano was invented around 1700.', 'The privilege was withdrawn in 1876. The text survives.', 'Orm lies in the north.',
    'The mirror had the wrong shape.', 'Parts were prefabricated.', 'It had never happened before.',
    'The merger may not happen this year.', 'The Duke bought a plot. It was old.'])
def test_passages_that_do_not(passage):
    assert disowning_word(passage, CASTLE) is None


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_a_passage_that_is_the_claim_disowns_nothing(passage, more):
    assert disowning_word(passage, passage) is None
    word = disowning_word(passage, more)
    assert word is None or disowning_word(f'{passage} {more}', f'{more} {word}') != word
