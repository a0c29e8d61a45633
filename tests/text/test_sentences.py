"The sentence splitter on awkward input, and against what others split."
import json
import os
import re
import time
from pathlib import Path

import pytest
from conftest import real_data
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.text import sentences as splitter
from factlab.text.sentences import short_sentences, split_sentences
from factlab.verification.extraction import distinct_claims, extractor_prompts


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
    assert split_sentences(' '.join(split)) == split


@pytest.mark.parametrize('text', ['', ' ', '\n\n\t', '…', '?!', '— — —', '😀 😀'])
def test_a_text_without_words_has_no_sentences(text):
    assert split_sentences(text) == [] and short_sentences(text) == [] and extractor_prompts(text) == []


def test_lines_split_headings_and_lists_but_not_wrapped_text():
    assert split_sentences('History\nThe town is old.\n\nEconomy\n- fish\n- timber') == ['History', 'The town is old.', 'Economy', '- fish',
        '- timber']
    wrapped = (
        'The town is old and lies on the coast of the sea, where\nmany ships of Sweden and of other countries used to come. It\nis small.'
    )
    assert len(split_sentences(wrapped)) == 2


@given(st.text(st.sampled_from('ab A.。!?"\'()\n 1…é[]')))
@settings(deadline=None)
def test_no_letter_is_lost_and_order_stays(text):
    kept = ''.join(split_sentences(text))
    assert [c for c in kept if c.isalnum()] == [c for c in text if c.isalnum()]


def test_a_hundred_thousand_words_give_every_sentence():
    text = ' '.join(f'Sentence {n} of Mr. Smith has nine words in it.' for n in range(10_000))
    assert len(text.split()) == 100_000 and len(found := split_sentences(text)) == 10_000
    assert found[-1] == 'Sentence 9999 of Mr. Smith has nine words in it.'


@pytest.mark.parametrize('piece', ['.', '!?', '…', '।', ' ', '\t', ' .', '\n ', '\r\n', '\n\x0b', '\u00a0', '."', '[1]', '.[1]', ')', '。"',
                                   'A. ', 'a. ', 'J.K. ', '1. ', '\n- ', 'x', '.\u200b', '.\u200b(', '\u200b\n', '\n|'])
@pytest.mark.parametrize('frame', ['Introduction{}3', 'Introduction.{}3. Next', 'One\n{}three'])
def test_no_run_of_anything_takes_more_than_linear_time(piece, frame):
    def seconds(n):
        text, spent = frame.format(piece*n), []
        for _ in range(4):
            start = time.process_time()
            distinct_claims(split_sentences(text))
            spent.append(time.process_time() - start)
        return min(spent)
    few, many = (seconds(n//len(piece)) for n in (6_000, 48_000))
    assert many < 30*few + .02, 'eight times the length; a quadratic search takes 64 times as long'


def test_a_line_of_invisible_characters_is_blank():
    assert split_sentences('a title\n\u200b\nand a text in small letters') == ['a title', 'and a text in small letters']
    assert split_sentences(' '*20_000 + 'x|') == ['x|']


def test_tables_of_contents_and_long_gaps():
    assert split_sentences('Introduction' + '.'*500 + '3') == ['Introduction' + '.'*500 + '3']
    assert split_sentences('Introduction' + '.'*500 + ' The end.') == ['Introduction' + '.'*500, 'The end.']
    assert split_sentences('One.' + ' '*200_000 + 'Two') == ['One.', 'Two'] and split_sentences(' '*200_000) == []
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
    ours = [ends(split_sentences(text)) for text in texts]
    theirs = [ends([sent.text for sent in doc.sents]) for doc in load_pipeline().pipe(texts)]
    both = sum(len(a & b) for a, b in zip(ours, theirs, strict=True))
    assert both/sum(map(len, ours)) > .97 and both/sum(map(len, theirs)) > .9  # the parser splits at brackets and colons as well


def test_lower_cased_and_tokenized_text_is_split():
    tokenized = ('the mill , built in 1871 , burned down . mr. voss , of acme inc. of ohio , paid ! '
                 'it stands at no. 5 , high st. in the u.s. today .')
    assert len(split_sentences(tokenized)) == 3
    assert split_sentences('the mill burned. it was rebuilt, e.g. with steel. j. k. smith paid.') == [
        'the mill burned.', 'it was rebuilt, e.g. with steel.', 'j. k. smith paid.']
    assert len(split_sentences('she waited . . . and waited . then it came .')) == 2


@pytest.mark.parametrize('text', ['He wrote to e. e. cummings. It was late.', 'The firm, acme.com, is gone. So is its site.',
                                  'He said . . . nothing. It costs 3.5 euros.', '"Was it worth it?" he asked. It was.'])
def test_plain_english_is_split_as_before(text):
    "A small letter after a stop that touches its word begins no sentence where the text has capitals."
    assert all(not sentence[0].islower() for sentence in split_sentences(text)[1:])


@pytest.mark.parametrize('split', [
    ['iPhone sales rose.', 'iPad sales fell.', 'eBay closed.'], ['It is acid.', 'pH is low.', 'mRNA was found.'],
    ['The mill closed.', 'iOS came, i.e. iPhone software.']])
def test_names_that_begin_small_begin_sentences(split):
    assert split_sentences(' '.join(split)) == split


@given(st.lists(st.sampled_from(['The mill closed.', 'It burned!', 'iPad sales fell.', 'Was it late?']), min_size=1, max_size=6),
       st.sampled_from(['\u200b', '\u200b ', ' \u200b', '\ufeff', '\u2060 ', '\u200e\n']))
def test_invisible_characters_after_a_stop_are_a_gap(sentences, gap):
    assert split_sentences(gap.join(sentences)) == sentences


FENCES = ['```\nThe code. It runs.\n```', '~~~ python\nprint("Done.")\n~~~', '````\n```\nThe inner.\n````']
TABLES = ['| Year | Mill |\n|---|---|\n| 1931 | It closed. |', 'Year | Mill\n--- | ---\n1931 | It closed.', '|a|b|\n| c. | D |']

@given(st.lists(st.sampled_from([*FENCES, *TABLES, 'The mill closed.', 'It burned.']), max_size=6), st.sampled_from(['\n', '\n\n']))
def test_fences_and_tables_are_no_sentences(parts, end):
    assert split_sentences('\n\n'.join(parts).replace('\n\n', '\n' + end)) == [part for part in parts if part not in FENCES + TABLES]


@pytest.mark.parametrize('text', ['Bars | are used. So it is.', '|x| is positive. So is |y|.', '```\nNever closed. It goes on.',
                                  'One `a|b` here.'])
def test_what_is_no_fence_and_no_table_stays(text):
    assert re.findall(r'\w', ''.join(split_sentences(text))) == re.findall(r'\w', text)


def test_evidence_keeps_its_tables():
    assert split_sentences(TABLES[0], blocks=True) and split_sentences(FENCES[0], blocks=True)
    assert not split_sentences(TABLES[0] + '\n' + FENCES[0])


@pytest.mark.parametrize('line', ['```a\n', '~~~\n```\n', '|', '| a | b |\n', '|---|---|\n', '--- | ---\n', '|-', ' | ', '`'])
def test_blocks_take_linear_time(line):
    def seconds(n):
        spent = []
        for _ in range(3):
            start = time.process_time()
            split_sentences('Text | here\n' + line*(n//len(line)) + '\nThe end.')
            spent.append(time.process_time() - start)
        return min(spent)
    few, many = seconds(6_000), seconds(48_000)
    assert many < 30*few + .02
