"""Passages and the three extractors, on awkward input and against what others wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from misbehaving_server import MisbehavingServer, answer, status

from factlab.core.core import UsageError
from factlab.models.interface import Response, ScriptedModel, load_model
from factlab.models.prompts import Parsed
from factlab.text.fences import fenced_in
from factlab.text.sentences import short_sentences, split_sentences
from factlab.verification.extraction import (
    BY_PASSAGE,
    BY_SENTENCE,
    EXTRACTOR_PROMPT,
    ModelExtractor,
    distinct_claims,
    extractor_prompts,
    format_claims,
    joined_parts,
    load_extractor,
    parse_claims,
    parse_listed,
)

# ---- reading answers ---------------------------------------------------------------------------------------------------------------

@given(st.lists(st.text(st.sampled_from('abc ABC12é-,'),
                        min_size=3).filter(lambda text: any(map(str.isalpha, text)) and text.strip()[:1].isalpha())))
def test_what_is_written_for_training_is_read_back(written):
    plain = [' '.join(claim.split()) for claim in written]
    if [claim.casefold() for claim in plain] == ['none'] or any(len(claim.split()[0]) == 1 for claim in plain): return
    assert parse_claims(format_claims(written)).value == distinct_claims(plain)


@pytest.mark.parametrize('text', ['', ' \n ', '---', '* * *'])
def test_an_empty_answer_is_unread_and_none_is_no_claim(text):
    assert not parse_claims(text).ok and not parse_listed(text).ok
    assert parse_claims('None.').value == parse_listed('None').value == []


def test_lists_in_other_forms_are_read():
    for listed in ('- A is old.\n- B is new.', '1. A is old.\n2. B is new.', 'A. A is old.\nB. B is new.', 'Claims:\nA is old.\nB is new.',
                   '• A is old.\n• B is new.\n• a is OLD'):
        assert parse_listed(listed).value == ['A is old.', 'B is new.'], listed


@pytest.mark.parametrize('form', ['[{}]', '[{}].', 'Claim {}:', '**Claim {}:**', 'Fact #{} -', '{roman}.', '({roman})', '{Roman}.'])
def test_labels_of_lists_in_every_form_are_dropped(form):
    labels = [form.format(n, roman='i'*n, Roman='I'*n) for n in (1, 2, 3)]
    claims = ['The mill is old.', 'I. Newton was born in 1642.', '[5] is a prime.']
    listed = '\n'.join(f'{label} {claim}' for label, claim in zip(labels, claims, strict=True))
    assert parse_claims(listed).value == parse_listed(listed).value == claims


@pytest.mark.parametrize('lines', [['I. Newton was English.', 'V. Lenin was Russian.'], ['[3] says so.', '[7] does not.'], ['[1] says so.'],
                                   ['V. Putin rules.', 'X. Jinping rules.'], ['i. e. is Latin.', 'e. g. is Latin.']])
def test_what_only_looks_like_a_label_stays(lines):
    assert parse_claims('\n'.join(lines)).value == parse_listed('\n'.join(lines)).value == lines


# ---- extractors --------------------------------------------------------------------------------------------------------------------

def echo(request):
    "One claim for each sentence that was asked about."
    asked = request.messages[-1].content
    return (asked.rpartition('Sentence: ')[2] if 'Sentence: ' in asked else '- '
            + '\n- '.join(split_sentences(fenced_in(asked, 'text'))))


@pytest.mark.parametrize('form', [BY_PASSAGE, BY_SENTENCE])
def test_claims_come_in_the_order_of_the_text_each_once(form):
    text = ' '.join(f'Fact number {n} is here.' for n in [*range(12), *range(5), *range(12, 20)])
    [parsed] = ModelExtractor('echo', ScriptedModel('echo', echo), form).extract([text], False)
    assert parsed.value == [f'Fact number {n} is here.' for n in range(20)]


def test_many_texts_are_asked_at_once_and_equal_parts_once():
    model = ScriptedModel('echo', echo)
    found = ModelExtractor('echo', model, BY_SENTENCE).extract(['A is old.', 'B is new. C is red.', 'A is old.', '', '?'], False)
    assert [parsed.value for parsed in found] == [['A is old.'], ['B is new.', 'C is red.'], ['A is old.'], [], []]
    assert len(model.asked) == 3


def test_a_part_that_cannot_be_read_makes_the_text_unread():
    model = ScriptedModel('half', lambda request: '' if 'bad' in request.messages[-1].content.rpartition('Sentence: ')[2]
                          else echo(request))
    bad, good = ModelExtractor('half', model, BY_SENTENCE).extract(['A is old. B is bad.', 'C is red.'], False)
    assert not bad.ok and '1 of 2 parts' in bad.reason and good.value == ['C is red.']


def test_an_answer_that_was_cut_off_loses_its_last_claim_and_says_so():
    model = ScriptedModel('long', lambda request: Response(text='A is old.\nB is ne', finish_reason='length', completion_tokens=5))
    [parsed] = ModelExtractor('long', model, BY_SENTENCE).extract(['A is old, and so is B.'], False)
    assert parsed.value == ['A is old.'] and 'cut off after 5 tokens' in parsed.reason
    assert joined_parts([parsed, parsed]).reason == '2 of 2 parts: cut off after 5 tokens'


def test_a_language_that_the_parts_do_not_know_is_said():
    extractor = ModelExtractor('echo', ScriptedModel('echo', echo), BY_SENTENCE, english_only=True)
    foreign, english = extractor.extract(['Город известен своим портом.', 'The town has a port.'], False)
    assert 'Cyrillic' in foreign.reason and foreign.ok and english == Parsed(['The town has a port.'])


def test_one_endless_sentence_is_asked_in_pieces():
    model = ScriptedModel('echo', echo)
    [parsed] = ModelExtractor('echo', model, BY_SENTENCE).extract(['word '*1_000 + 'x'*3_000], False)
    assert parsed.ok and max(len(request.messages[-1].content) for request in model.asked) < 3*800 + 100
    assert {len(piece.split()) <= 100 and len(piece) <= 800 for piece in short_sentences('word '*1_000 + 'x'*3_000)} == {True}


def test_a_server_is_asked_by_prompt_and_its_failures_are_told(tmp_path):
    def script(call):
        return status(400) if 'bad' in call.prompt else answer('- ' + fenced_in(call.prompt, 'text'))
    with MisbehavingServer(script) as server:
        extractor = load_extractor(f'openai:any?base_url={server.url}')
        good, bad = extractor.extract(['The town is old.', 'The town is bad.'], False)
    assert good.value == ['The town is old.'] and not bad.ok and 'no answer' in bad.reason and extractor.form is BY_PASSAGE


def test_names_of_extractors():
    assert load_extractor('sentences').extract(['A is old. A is old! B.', ''])[0].value == ['A is old.', 'B.']
    assert load_extractor('prompt:tiny').model is load_model('tiny') and load_extractor('prompt:tiny').english_only
    assert load_extractor('trained:hf:some/model').form is BY_SENTENCE
    with pytest.raises(UsageError): load_extractor('no such thing')


def test_the_prompt_shows_what_training_will_see():
    messages = extractor_prompts('A is old. B is new. C is red.')
    assert [m[-1].content for m in messages] == ['Before: -\nSentence: A is old.', 'Before: A is old.\nSentence: B is new.',
                                                 'Before: A is old. B is new.\nSentence: C is red.']
    assert EXTRACTOR_PROMPT.system and all(m[0].role == 'system' for m in messages)


@pytest.mark.parametrize('answer, claims', [
    ('There is nothing to extract.', []), ('Nothing to report', []), ("There aren't any claims.", []), ('Claims: None', []),
    ('Claims:\nNone', []), ('**Claims:**\n- The mill closed.', ['The mill closed.']),
    ('Extracted facts:\nThe mill closed.', ['The mill closed.']),
    ('Nothing is known of the mill.', ['Nothing is known of the mill.']), ('Claims: three were paid.', ['Claims: three were paid.'])])
def test_headings_and_other_words_for_no_claim(answer, claims):
    for parse in (parse_claims, parse_listed): assert parse(answer).value == claims
