"""Sentences, passages, languages, and the three extractors, on awkward input and against what others wrote."""
import json
import os
import re
import time
from pathlib import Path

import polars as pl
import pytest
from conftest import real_data
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving_server import MisbehavingServer, answer, status

from factlab.claims import extraction as claims
from factlab.claims.extraction import (
    BY_PASSAGE,
    BY_SENTENCE,
    ModelExtractor,
    distinct_claims,
    extractor_prompts,
    format_claims,
    joined_parts,
    load_extractor,
    parse_claims,
    parse_listed,
    window_starts,
    windows,
)
from factlab.core.core import DataError, UsageError
from factlab.data import datasets as data
from factlab.data.corpora import load_oasis_sample
from factlab.models.interface import Response, ScriptedModel, load_model
from factlab.models.prompts import Parsed
from factlab.text import sentences as splitter
from factlab.text.language import language_warning
from factlab.text.sentences import sentences, short_sentences

# ---- sentences ---------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('split', [
    ['Dr. Ada K. Byrne left.', 'She had 3.5 litres.'],
    ['The U.S. Senate met at 9 a.m. on Monday.', 'It rose at noon.'],
    ['He lives in the U.S.', 'The house is old.'],
    ['See fig. 3 and pp. 4 f. for this.', 'Brown v. Board came later.'],
    ['It cost approx. 40 kr.', 'That was No. 7 of them.'],
    ['Was the answer no?', 'No.', 'It was yes!'],
    ['"Stop!" she said.', '"I will not."', 'He left.'],
    ['It grew to 4,000 people (in 1998).', 'Then it shrank.[3]', 'Today it is small.'],
    ['東京は首都です。', '人口は多いですか？', 'はい。'],
    ['هل هذا صحيح؟', 'نعم هذا صحيح.'],
    ['यह एक वाक्य है।', 'यह दूसरा है।'],
    ['He waited...', 'Nothing came.'],
    ['The list is: 1. Milk, 2. bread.', 'That is all.'],
    ['Acme Inc. of Ohio closed.', 'Acme Inc. was old.'],
    ['Vitamin C. was wrong'],
])
def test_sentences_are_split_where_a_reader_splits(split):
    assert sentences(' '.join(split)) == split


@pytest.mark.parametrize('text', ['', ' ', '\n\n\t', '…', '?!', '— — —', '😀 😀'])
def test_a_text_without_words_has_no_sentences(text):
    assert sentences(text) == [] and short_sentences(text) == [] and extractor_prompts(text) == []


def test_lines_split_headings_and_lists_but_not_wrapped_text():
    assert sentences('History\nThe town is old.\n\nEconomy\n- fish\n- timber') == ['History', 'The town is old.', 'Economy', '- fish',
        '- timber']
    wrapped = 'The town is old and lies on the coast of the sea, where\nmany ships of Sweden and of other countries used to come. It\nis small.'
    assert len(sentences(wrapped)) == 2


@given(st.text(st.sampled_from('ab A.。!?"\'()\n 1…é[]')))
@settings(deadline=None)
def test_no_letter_is_lost_and_order_stays(text):
    kept = ''.join(sentences(text))
    assert [c for c in kept if c.isalnum()] == [c for c in text if c.isalnum()]


def test_a_hundred_thousand_words_give_every_sentence():
    text = ' '.join(f'Sentence {n} of Mr. Smith has nine words in it.' for n in range(10_000))
    assert len(text.split()) == 100_000 and len(found := sentences(text)) == 10_000
    assert found[-1] == 'Sentence 9999 of Mr. Smith has nine words in it.'


@pytest.mark.parametrize('piece', ['.', '!?', '…', '।', ' ', '\t', ' .', '\n ', '\r\n', '\n\x0b', '\u00a0', '."', '[1]', '.[1]', ')', '。"',
                                   'A. ', 'a. ', 'J.K. ', '1. ', '\n- ', 'x'])
@pytest.mark.parametrize('frame', ['Introduction{}3', 'Introduction.{}3. Next', 'One\n{}three'])
def test_no_run_of_anything_takes_more_than_linear_time(piece, frame):
    def seconds(n):
        text, spent = frame.format(piece*n), []
        for _ in range(4):
            start = time.process_time()
            distinct_claims(sentences(text))
            spent.append(time.process_time() - start)
        return min(spent)
    few, many = (seconds(n//len(piece)) for n in (6_000, 48_000))
    assert many < 30*few + .02, 'eight times the length; a quadratic search takes 64 times as long'


def test_tables_of_contents_and_long_gaps():
    assert sentences('Introduction' + '.'*500 + '3') == ['Introduction' + '.'*500 + '3']
    assert sentences('Introduction' + '.'*500 + ' The end.') == ['Introduction' + '.'*500, 'The end.']
    assert sentences('One.' + ' '*200_000 + 'Two') == ['One.', 'Two'] and sentences(' '*200_000) == []
    assert distinct_claims(['A' + '.'*50_000 + '3', 'a' + '.'*50_000 + '3 ...', 'B. . !…\n', 'b']) == ['A' + '.'*50_000 + '3', 'B. . !…\n']


# The splitter as it was before runs were looked at from their beginning only: slow, and the same.
_PLAIN = re.compile(r'(?P<wide>[。！？｡]+[”’」』）)"\']*)|(?P<stop>(?:[.!?…؟۔।॥])+)(?:\[\d{1,3}\])*[”’»"\')\]]*(?=\s|$)|(?P<gap>[ '
                    r'\t]*\n\s*\n\s*)|(?P<line>[ \t]*\n)')

@given(st.lists(st.sampled_from([*'.!?…।。”"\')] \t\n\x0b\u00a0aA1:', '...', '[1]', '\n\n', ' \n ', 'Dr', 'The', 'U.S', 'J. K. ']),
                max_size=25).map(''.join))
@settings(deadline=None, max_examples=300)
def test_the_ends_are_those_of_a_plain_search(text):
    plain, ours = ([(match.span(), match.lastgroup) for match in pattern.finditer(text)] for pattern in (_PLAIN, splitter._ENDING))
    assert plain == ours


def test_boundaries_agree_with_spacys_parser_on_wikipedia():
    real_data('xquad')
    from factlab.text.parsing import load_pipeline
    pages = json.loads((Path(os.environ['FACTLAB_DATA'])/'xquad'/'xquad.en.json').read_text())['data']
    texts = [' '.join(page['paragraphs'][0]['context'].split()) for page in pages]
    def ends(split):
        return {sum(len(sentence.replace(' ', '')) for sentence in split[:n + 1]) for n in range(len(split))}
    ours = [ends(sentences(text)) for text in texts]
    theirs = [ends([sent.text for sent in doc.sents]) for doc in load_pipeline().pipe(texts)]
    both = sum(len(a & b) for a, b in zip(ours, theirs, strict=True))
    assert both/sum(map(len, ours)) > .97 and both/sum(map(len, theirs)) > .9  # the parser splits at brackets and colons as well


# ---- passages ----------------------------------------------------------------------------------------------------------------------

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


# ---- languages ---------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(('text', 'said'), [
    ('Die Stadt liegt an der Küste und ist für ihren alten Hafen bekannt, der im Mittelalter entstanden ist.', 'German'),
    ('La ville est connue pour son port, qui est un des plus anciens du pays, et pour les fêtes de l’été.', 'French'),
    ('La ciudad es conocida por su puerto, que es uno de los más antiguos del país y de la región.', 'Spanish'),
    ('Kaupunki tunnetaan satamastaan, joka kuuluu maan vanhimpiin, sekä kesäisistä juhlistaan meren rannalla.', 'Finnish'),
    ('Ystad on kaupunki Etelä-Ruotsissa, ja siellä on suuri satama sekä vanha luostari.', 'Finnish'),
    ('Şehir, ülkenin en eski limanlarından biri olan limanı ve deniz kıyısında süren şenlikleri ile tanınır.', 'common English'),
    ('Город известен своим портом.', 'Cyrillic'), ('東京は日本の首都です。人口は多い。', 'Cjk'), ('المدينة معروفة بمينائها القديم.', 'Arabic'),
])
def test_other_languages_are_named(text, said):
    assert said in language_warning(text)


@pytest.mark.parametrize('text', ['', '12 345', 'Paris Hilton', 'The town has a port.',
                                  'St. Étienne and Łódź are towns that lie far from one another in Europe.'])
def test_english_and_short_texts_pass(text):
    assert language_warning(text) is None


def test_english_wikipedia_passes():
    real_data('xquad')
    pages = json.loads((Path(os.environ['FACTLAB_DATA'])/'xquad'/'xquad.en.json').read_text())['data']
    assert not [text for page in pages for paragraph in page['paragraphs'] if language_warning(text := paragraph['context'])]


def test_english_is_never_taken_for_another_language():
    sample = load_oasis_sample()
    texts = [*sample['passage'], *sample['factual'], *sample['unfactual'], *sample['page_passages'].explode().drop_nulls()]
    assert len(texts) > 100 and not [text for text in texts if language_warning(text)]


def test_english_biographies_pass():
    real_data('factscore')
    texts = data.load('factscore')['text'].unique().to_list()
    assert len(texts) > 300 and not [text for text in texts if 'looks like' in (language_warning(text) or '')]


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


# ---- extractors --------------------------------------------------------------------------------------------------------------------

def echo(request):
    "One claim for each sentence that was asked about."
    asked = request.messages[-1].content
    return (asked.rpartition('Sentence: ')[2] if 'Sentence: ' in asked else '- '
            + '\n- '.join(sentences(asked.rpartition('Text:\n')[2].removesuffix('Claims:\n'))))


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
    [parsed] = ModelExtractor('long', model, BY_SENTENCE).extract(['Some sentence is here.'], False)
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
        return status(400) if 'bad' in call.prompt else answer('- ' + call.prompt.rpartition('Text:\n')[2].removesuffix('\n\nClaims:\n'))
    with MisbehavingServer(script) as server:
        extractor = load_extractor(f'openai:any?base_url={server.url}&backoff=0.01')
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
    assert claims.EXTRACTOR_PROMPT.system and all(m[0].role == 'system' for m in messages)
