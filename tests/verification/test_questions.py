"What is only asked is no claim: neither a question nor a bare answer becomes one, and neither makes a text factual."
import numpy as np
import polars as pl
import pytest
from commands import say

from factlab.models.interface import Response, ScriptedModel
from factlab.verification.checking import TEXTS, check
from factlab.verification.extraction import (
    BY_PASSAGE,
    BY_SENTENCE,
    ModelExtractor,
    SentenceExtractor,
    claims_of,
    is_bare_answer,
    is_heading,
    is_question,
    load_extractor,
    of_statements,
)
from factlab.verification.pipeline import verify_texts

QUESTIONS = ['Did the bridge open in 1900?', '"Did it open?"', 'Did he say "no"?', 'Is it not clear that the bridge fell in 1930?',
             'It opened in 1900, did it not?', 'Really?!', '\u00bfQui\u00e9n lo construy\u00f3?', '\u4f55\u3067\u3059\u304b\uff1f',
             '(Who built it?)', 'Why?...', '\u201cWho knows?\u201d', 'Did the bridge (of 1900) fall?']
STATEMENTS = ['The mayor asked, "Did it open in 1900?"', '"Did it open?" asked the mayor.', 'It opened (or did it?) in 1900.',
              'It opened in 1900.', 'She wondered whether it had opened.', 'The play \u201cWho Is There?\u201d opened in 1900.',
              'It opened in 1900 (who knows why?)', 'The album is called "What?".']
BARE = ['No.', 'Yes!', 'no', 'Yes, it was.', "No, it didn\u2019t.", 'It did not.', 'Not at all.',
        '"No."', 'No, no.', 'Of course not.', 'Yes. ', 'It was.']
FULL = ['No, in 1911.', 'It did not fall.', 'Yes, the bridge opened.', 'No bridge opened.', 'Nobody knows.', 'It was long.',
        'True stories sell.', 'No one came.', 'Right turns are allowed.', 'Yes Minister is a series.']


@pytest.mark.parametrize('sentence', QUESTIONS)
def test_questions(sentence): assert is_question(sentence)


@pytest.mark.parametrize('sentence', STATEMENTS + FULL + BARE)
def test_no_questions(sentence): assert not is_question(sentence)


@pytest.mark.parametrize('sentence', BARE)
def test_bare_answers(sentence): assert is_bare_answer(sentence)


@pytest.mark.parametrize('sentence', STATEMENTS + FULL + QUESTIONS[:5])
def test_no_bare_answers(sentence): assert not is_bare_answer(sentence)


def asserting(request) -> str:
    "A small model that makes a statement of whatever it reads."
    sentence = str(request.messages[-1].content).rpartition('Sentence: ')[2]
    return 'The bridge opened in 1900.' if states(sentence) else sentence


def states(sentence: str) -> bool: return is_question(sentence) or is_bare_answer(sentence)


ASKING = 'Did the bridge open in 1900? No. The bridge is long.'


def small(name: str) -> ModelExtractor: return ModelExtractor(name, ScriptedModel(name, asserting, revision=name), BY_SENTENCE)


def test_the_small_extractor_asserts_no_question(home):
    extractor = small('asserting')
    [papers], [ours] = extractor.extract([ASKING], False), of_statements(extractor).extract([ASKING], False)
    assert papers.value == ['The bridge opened in 1900.', 'The bridge is long.'] and papers.reason == ''
    assert ours.value == ['The bridge is long.']
    assert ours.reason == '1 question left out, which states nothing; a bare answer is not checked: "No."'
    assert extractor.identity != of_statements(extractor).identity and 'questions' not in extractor.identity


def test_a_quoted_question_stands_in_its_statement(home):
    text = 'The mayor asked, "Did it open?" The bridge is long.'
    [found] = of_statements(small('quoted')).extract([text], False)
    assert found.value == ['The mayor asked, "Did it open?"', 'The bridge is long.'] and found.reason == ''


def test_what_is_said_of_a_question_need_not_be_readable():
    answers = [Response(text='```'), Response(text='The bridge is long.')]
    assert not claims_of('Who built it? The bridge is long.', answers, BY_SENTENCE).ok
    assert claims_of('Who built it? The bridge is long.', answers, BY_SENTENCE, questions=False).value == ['The bridge is long.']
    lost = [Response(error='closed'), answers[1]]
    assert claims_of('Who built it? The bridge is long.', lost, BY_SENTENCE, questions=False).status == 'failed'


def test_a_long_question_is_left_out_whole():
    text = 'Is it so that ' + 'long '*150 + 'bridges fall? The bridge is long.'
    answers = [Response(text='Bridges fall.'), Response(text='Long bridges fall.'), Response(text='The bridge is long.')]
    assert claims_of(text, answers, BY_SENTENCE, questions=False).value == ['The bridge is long.']


def test_other_extractors():
    [papers], [ours] = SentenceExtractor().extract([ASKING]), of_statements(SentenceExtractor()).extract([ASKING])
    assert len(papers.value) == 3 and ours.value == ['The bridge is long.'] and 'a bare answer' in ours.reason
    assert SentenceExtractor().identity == {'extractor': 'sentences', 'version': 1}
    answers = [Response(text='- Did the bridge open in 1900?\n- The bridge is long.')]
    assert claims_of(ASKING, answers, BY_PASSAGE, questions=False).value == ['The bridge is long.']
    assert load_extractor(SentenceExtractor()) == SentenceExtractor()


class Agrees:
    "A verifier that finds support for everything."
    name, identity = 'agrees', {'verifier': 'agrees'}

    def probabilities(self, pairs, store=None): return np.tile(np.array([.99, .005, .005], np.float32), (len(pairs), 1))


def texts(*each: str) -> pl.DataFrame: return pl.DataFrame({'id': [f't{at}' for at in range(len(each))], 'text': each})


def test_verify_calls_no_answer_factual(home):
    from factlab.retrieval.passages import PASSAGES
    corpus = PASSAGES.frame([{'id': 'p', 'page': 'bridge', 'text': 'The bridge is long.'}])
    given = texts(ASKING, 'The bridge is long.', 'Did it open? No.')
    found = verify_texts(given, corpus, 'sentences', 'bm25', Agrees(), store=False)
    assert found.texts['verdict'].to_list() == ['undecided', 'factual', 'undecided']
    assert found.texts['reason'].to_list() == ['a bare answer is not checked: "No."', None, 'no claim was found in the text']
    assert '1 question left out' in found.texts['warning'][0] and '"No."' in found.texts['warning'][2]
    assert found.claims['claim'].to_list() == ['The bridge is long.']*2
    papers = verify_texts(given, corpus, 'sentences', 'bm25', Agrees(), method='algorithm1', store=False)
    assert papers.texts['n_claims'].to_list() == [3, 1, 2]


def test_check_by_claim_calls_no_answer_factual(home):
    given = [ASKING, 'The bridge is long.', 'Did it open? No.', 'How long is it? The bridge is long.']
    rows = TEXTS.frame([{'id': f't{at}', 'source': 'The bridge is long.', 'text': text} for at, text in enumerate(given)])
    found = check(rows, Agrees(), 'claim', SentenceExtractor(), store=False)
    assert found.texts['verdict'].to_list() == ['undecided', 'factual', 'undecided', 'factual']
    assert [('"No."' in (reason or ''), 'question left out' in (reason or '')) for reason in found.texts['reason']] == [
        (True, True), (False, False), (True, True), (False, True)]


def test_check_by_sentence_calls_no_answer_factual(home):
    given = [ASKING, 'The bridge is long.', 'Did it open? No.', 'How long is it? The bridge is long.', '']
    rows = TEXTS.frame([{'id': f't{at}', 'source': 'The bridge is long.', 'text': text} for at, text in enumerate(given)])
    found = check(rows, Agrees(), store=False)
    assert found.texts['verdict'].to_list() == ['undecided', 'factual', 'undecided', 'factual', 'undecided']
    assert found.texts['reason'].to_list() == [
        '1 question left out, which states nothing; a bare answer is not checked: "No."', None,
        '1 question left out, which states nothing; a bare answer is not checked: "No."', '1 question left out, which states nothing',
        'the text has no sentence']
    assert found.units.select('id', 'text').rows() == [(f't{at}', 'The bridge is long.') for at in (0, 1, 3)]
    assert all(given[int(id[1:])][start:end] == text for id, text, start, end in found.units.select('id', 'text', 'start', 'end').rows())


def test_the_command_checks_by_claim(capsys, tmp_path, home):
    (tmp_path/'a.csv').write_text('text,summary\nThe mill closed in 1900.,Did the mill close? No.\n')
    code, output, errors = say(capsys, 'check', tmp_path/'a.csv', '--by', 'claim', '--extractor', 'sentences', '--verifier', 'cosine')
    assert code == 0 and 'UNDECIDED' in output and '"No."' in output, (output, errors)


@pytest.mark.parametrize(('line', 'heading'), [
    ('## Key points', True), ('**Summary**', True), ('Here is a summary of the article:', True), ('1. Overview', True), ('Sure!', True),
    ('Sure, here are the main points in brief:', True), ('## The mill burned', False), ('Summary: The mill burned.', False),
    ('The article is short.', False), ('The main story is not important', False), ('Results: 95%', False),
    ('Main results: 14 of 20', False),
    ('No key facts:', False), ('', False), ('---', False)])
def test_what_only_announces_is_no_unit(line, heading): assert is_heading(line) == heading
