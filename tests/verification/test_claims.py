"""Answers of models that are read as claims, and claims that add something to their text."""
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.models.interface import Response
from factlab.models.prompts import Parsed
from factlab.text.sentences import split_sentences
from factlab.verification.extraction import (
    BY_PASSAGE,
    BY_SENTENCE,
    as_the_text_has_it,
    claims_of,
    distinct_claims,
    guarded,
    parse_claims,
    parse_listed,
    without_repeats,
)

# ---- reading answers ---------------------------------------------------------------------------------------------------------------

READERS = [parse_claims, parse_listed]
INITIALS = ['E. coli is a bacterium.', 'C. elegans has 302 neurons.', 'V. Lenin died in 1924.', 'A. Smith died in 1900.\nB. Jones lived.',
            'The town is old.\nA. Smith lived there.', '3. 5 million people live there.', '1. FC Köln won the cup.',
            'J. Smith died.\nK. Jones lived.',
            '1. FC Köln won.\n1. FC Nürnberg lost.', '19. January was cold.\nThe mill closed.']
LISTS = {'A. The mill closed.\nB. The mill burned.': ['The mill closed.', 'The mill burned.'],
    '- E. coli is a bacterium.': ['E. coli is a bacterium.'],
         '1. Ystad has a port.\n2) Ystad is old.': ['Ystad has a port.', 'Ystad is old.'],
         '(a) Ystad is old.\n(b) Lund is new.': ['Ystad is old.', 'Lund is new.'],
         '1. E. coli grows.\n2. C. elegans moves.': ['E. coli grows.', 'C. elegans moves.'],
         '**1.** One is old.\n**2.** Two is new.': ['One is old.', 'Two is new.'],
         'A. Ystad is old.\nB. Ystad is new.': ['Ystad is old.', 'Ystad is new.'], 'A. Lund is old.\nB. Ystad is new.\nC. Kivik is red.':
         ['Lund is old.', 'Ystad is new.', 'Kivik is red.'], '1. It is old.\n2. It is new.\n2. It is new.': ['It is old.', 'It is new.']}


@pytest.mark.parametrize('read', READERS)
def test_labels_are_cut_off_only_where_the_lines_are_a_list(read):
    for written in INITIALS: assert read(written).value == written.split('\n'), written
    for written, claims in LISTS.items(): assert read(written).value == claims, written


@settings(deadline=None)
@given(st.sampled_from('ABCDEFGHIJKLMNOPQRSTUVWXYZ'), st.sampled_from('.:'), st.sampled_from('coli Smith Jones elegans Müller'.split()))
def test_a_lone_letter_is_part_of_a_name(letter, mark, name):
    for read in READERS: assert read(f'{letter}{mark} {name} was here.').value == [f'{letter}{mark} {name} was here.']


@pytest.mark.parametrize('read', READERS)
@pytest.mark.parametrize('answer, claims', [
    ('A. niger is a fungus.\nB. cereus is a bacterium.', ['A. niger is a fungus.', 'B. cereus is a bacterium.']),
    ('- "The mill closed.",\n- "It burned."', ['The mill closed.', 'It burned.']),
    ('Sure! Here are the claims:\n- The mill closed.', ['The mill closed.']),
    ('- "Stop," said Anna.\n- Ben stopped.', ['"Stop," said Anna.', 'Ben stopped.'])])
def test_names_quotes_and_announcements(read, answer, claims): assert read(answer).value == claims


@pytest.mark.parametrize('read', READERS)
@pytest.mark.parametrize('answer', [
    'None', 'N/A', 'n/a.', 'No claims.', '(none)', 'There are no claims in this text.',
    'There are no factual claims in the given sentence.', '[]', '{"claims": []}',
    'The text does not make any claims.', 'The sentence contains no verifiable facts.', 'No factual claims were found.',
    'I could not find any claims.', '- None', 'It contains no factual statements.', '0 claims',
    'No claims can be extracted from the text because it is a question.',
    'There are no claims in this text. It asks a question.', 'None\n\nExplanation: the sentence is a question.', '["None"]'])
def test_no_claim_is_no_claim(read, answer):
    assert read(answer) == Parsed([]), answer


@pytest.mark.parametrize('read', READERS)
@pytest.mark.parametrize('answer', [
    "I'm sorry, but I can't help with that.", 'I cannot assist with that request.', 'I’m unable to extract claims from this text.',
    "Sorry, I can't do that.",
    'As an AI language model, I cannot judge this.', 'I must decline to answer.', 'Unfortunately, I am not able to process this text.',
    'My apologies, but I cannot comply.', "I won't be able to help with this.", 'I must refuse.',
    'I do not feel comfortable extracting claims from this.',
    "I'm sorry, but I can't help with that.\nThe mill closed."])
def test_a_refusal_is_unread_and_says_so(read, answer):
    assert read(answer).status == 'unparsed' and 'refused' in read(answer).reason


@pytest.mark.parametrize('read', READERS)
@pytest.mark.parametrize('claim', ['There are no claims against the firm.', 'Nothing happened in May.', 'I cannot swim.',
    'I am afraid of dogs.', 'No. 5 is a perfume.',
                                   'Unfortunately, the mill burned.', 'None of the mills closed.', 'The text of the law is long.',
                                   '[1] The mill closed.'])
def test_what_only_looks_like_no_claim_is_one(read, claim):
    assert read(claim).value == [claim]
    assert read(f'The mill is old.\n{claim}').value == ['The mill is old.', claim]


@settings(deadline=None)
@given(st.lists(st.text('abc "\'{}[]é:,').filter(lambda text: sum(map(str.isalpha, text)) > 2), min_size=1, max_size=4),
    st.sampled_from(range(6)))
def test_a_json_list_is_read_as_claims(claims, form):
    claims = distinct_claims(f'The {" ".join(claim.split())}' for claim in claims)
    answer = [json.dumps(claims), f'```json\n{json.dumps({"claims": claims}, indent=1)}\n```',
        json.dumps([{'claim': claim} for claim in claims]),
              '\n'.join(json.dumps({'claim': claim}) for claim in claims),
              f'Here are the claims:\n{json.dumps(claims, ensure_ascii=False)}', repr(claims)][form]
    for read in READERS: assert read(answer).value == claims


@pytest.mark.parametrize('answer', ['["A is old.", "B', '{"claims": 3}', '[1, 2]', '{"a": "b"}', '["A"' + ']'*3, '[' + '['*5_000])
def test_json_that_cannot_be_read_is_no_claim(answer):
    for read in READERS: assert not read(answer).value or read(answer).value == ['A'], answer


@settings(deadline=None)
@given(st.sampled_from(['<think>{}</think>', '<thinking>{}</thinking>', '[THINK]{}[/THINK]', '<reasoning>{}</reasoning>',
    '[think]{}[/think]', '<Thought>{}</Thought>',
                        '{}</think>', '{}[/THINK]', '<analysis>{}</analysis>']), st.text('ab -\n.1[', max_size=20))
def test_thinking_is_no_claim(tag, thought):
    for read in READERS:
        assert read(f'{tag.format(thought)}\n- The mill closed in 1931.').value == ['The mill closed in 1931.']
        assert not read(tag.partition('{')[0] + thought).ok if not tag.startswith('{') else True


# ---- the guard ---------------------------------------------------------------------------------------------------------------------

TOLD = ('Edith Marlow, a Swedish engineer, founded the mill in 1931. It was sold for 3.5 million kronor. '
        'She never saw its twenty-five workers again.')


@pytest.mark.parametrize('claim, added', [
    ('Eddie Marlow founded the mill.', ['Eddie']), ('Marlow founded the mill.', []),
    ('Edith Marlow never saw the workers of the mill again.', []),
    ('Edith Marlow is from Sweden.', []), ('Edith Marlow was the founder of the mill.', []), ('The mill was founded in 1932.', ['1932']),
    ('The mill was sold for 3,500,000 kronor.', []), ('The mill was sold for 3.6 million kronor.', ['3.6']), ('The mill had 25 workers.',
    []),
    ('The mill had thirty workers.', ['thirty']), ('The mill is located in Ystad.', ['Ystad']), ('Marlowe founded the mill.',
    ['Marlowe']),
    ('The mill burned.', ['burned']), ('The sentence is a factual statement about a mill.', ['sentence', 'factual', 'statement'])])
def test_what_a_claim_adds_to_its_text(claim, added):
    kept, found = guarded(TOLD, 'A sentence.', claim)
    assert found == added and kept == ('A sentence.' if added else claim)


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_a_text_adds_nothing_to_itself(text, more):
    for claim in (text, more, text.upper() if text.isascii() else text, *split_sentences(text)): assert guarded(f'{text} {more}', 's',
        claim)[1] == []


def test_claims_that_add_something_give_way_to_their_sentence_once():
    sentences = split_sentences(TOLD)
    by_sentence = [Response(text='Eddie Marlow founded the mill.\nThe mill was founded in 1932.'),
        Response(text='It was sold for 3.5 million.'), Response(text='None')]
    found = claims_of(TOLD, by_sentence, BY_SENTENCE)
    assert found.value == [sentences[0], 'It was sold for 3.5 million.'] and found.reason.startswith('2 claims added "Eddie", "1932": ')
    by_passage = [Response(text='- Eddie Marlow founded the mill.\n- The mill was sold for 4 million kronor.')]
    assert claims_of(TOLD, by_passage, BY_PASSAGE).value == sentences[:2]
    assert claims_of(TOLD, [Response.failed('late'), *by_sentence[1:]], BY_SENTENCE).status == 'failed'


# ---- names that take each other's place --------------------------------------------------------------------------------------------

LOST = 'Pavel Dorn lost to Milan Reck, who had lost to Ida Frost.'

@pytest.mark.parametrize('text, claims, kept', [
    (LOST, ['Pavel Dorn lost to Milan Reck.', 'Ida Frost had lost to Ida Frost.'], ['Pavel Dorn lost to Milan Reck.', LOST]),
    (f'Ida Frost is from Vask. {LOST}', ['Ida Frost had lost to Ida Frost.'], [LOST]),
    ('Arlen lies north of Borlen, which lies north of Corlen.', ['Corlen lies north of Corlen.', 'Borlen lies north of Borlen.'],
     ['Arlen lies north of Borlen, which lies north of Corlen.']),
    ('Owls eat. Owls eat owls.', ['Owls eat owls.', 'Owls eat.'], ['Owls eat owls.', 'Owls eat.']),
    ('She sold it to him.', ['She sold it to him.'], ['She sold it to him.']), ('', ['Orm beat Orm.'], ['']), ('Orm won.', [], [])])
def test_a_claim_that_repeats_a_name_gives_way_to_its_sentence(text, claims, kept):
    found = without_repeats(text, Parsed(claims, 'ok', 'a note'))
    assert found.value == [claim for claim in kept if claim] and found.reason.startswith('a note')
    changed = [claim for claim in claims if claim not in kept]
    assert ('repeated' in found.reason) == bool(changed)


@pytest.mark.parametrize('text, claims, kept', [
    ('Owls never hunt at night. They sing to us.', ['Owls hunt at night.', 'They sing to us.'],
     ['Owls never hunt at night.', 'They sing to us.']),
    ('Halden was not built by Orm. Mira was not born in Vask.', ['Halden was not built by Orm.', 'Mira was born in Vask.'],
     ['Halden was not built by Orm.', 'Mira was not born in Vask.']),
    ('Owls never hunt.', ['Owls do not hunt.'], ['Owls do not hunt.']), ("Owls don't hunt, nor do they sing.", [
        'Owls do not hunt.', 'Owls do not sing.'], ['Owls do not hunt.', 'Owls do not sing.']),
    ('Do owls not sing? No. They hunt.', ['Owls hunt.'], ['Owls hunt.']),
    ('Owls hunt. They do not sing.', ['Owls hunt.'], ['Owls hunt.', 'They do not sing.']),
    ('Owls hunt. They do not sing.', ['Owls hunt.', 'Owls sing.'], ['Owls hunt.', 'They do not sing.']), ('Owls hunt.', [], [])])
def test_a_sentence_stands_for_claims_that_lost_its_negation(text, claims, kept):
    found = as_the_text_has_it(text, Parsed(claims, 'ok', 'a note'))
    assert found.value == kept and found.reason.startswith('a note') and ('negation' in found.reason) == (kept != claims)


@pytest.mark.timeout(60)
def test_a_long_text_whose_claims_lost_every_negation_ends_soon():
    text = ' '.join(f'Person{at} did not visit town{at} because it rained.' for at in range(2000))
    found = as_the_text_has_it(text, Parsed([f'Person{at} visited town{at}.' for at in range(2000)]))
    assert found.value == split_sentences(text) and '2000 sentences' in found.reason


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(['Ida', 'Orm', 'lost', 'to', 'and', '9']), min_size=1, max_size=7), min_size=1, max_size=4))
def test_sentences_and_unread_claims_stay(words):
    text = ' '.join(f'{" ".join(each)}.' for each in words)
    sentences = distinct_claims(split_sentences(text))
    assert without_repeats(text, Parsed(sentences)) == Parsed(sentences)
    assert without_repeats(text, Parsed(None, 'failed', 'late')) == Parsed(None, 'failed', 'late')


@pytest.mark.parametrize('answer, claims', [
    ('| # | Claim |\n|---|---|\n| 1 | The dam was built in 1931. |\n| 2 | It fell. |', ['The dam was built in 1931.', 'It fell.']),
    ('Here they are:\n\n| Claim |\n| :-- |\n| The dam fell. |\n| It is 40 m high. |', ['The dam fell.', 'It is 40 m high.']),
    ('| Claim | Source |\n|---|---|\n| The dam was built. | sentence one |', None),
    ('| Claim |\n|---|\n| The dam | fell. |\n| It burned. |', None)])
def test_claims_in_a_table_are_read_where_one_column_has_them(answer, claims):
    for parse in (parse_claims, parse_listed):
        parsed = parse(answer)
        assert parsed.value == claims if claims else parsed.status == 'unparsed' and 'table' in parsed.reason
