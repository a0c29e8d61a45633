"Claims in people's own words: statements from questions, and summaries with their corrections."
import polars as pl
import pytest
from conftest import real_data
from hypothesis import given
from hypothesis import strategies as st

from factlab.data.corpora import CLAIM_EVIDENCE_PAIRS, QUESTIONS
from factlab.text.parsing import load_pipeline
from factlab.training.edited_pairs import STATEMENTS, make_pairs
from factlab.training.paraphrased_claims import (
    evidence_window,
    past_forms,
    question_phrase,
    question_statements,
    question_to_statement,
    summary_pairs,
    summary_statements,
    unseen_by_final,
)

PASSAGE = 'In 1987 the engineer Oda Brandt built the tidal mill near Horn. She sold it to the town in 1991.'


@pytest.mark.parametrize('question, answer, expected', [
    ('Who built the tidal mill?', 'Oda Brandt', 'Oda Brandt built the tidal mill.'),
    ('When was the tidal mill sold?', '1991', 'The tidal mill was sold in 1991.'),
    ('What did Oda Brandt build?', 'the tidal mill', 'Oda Brandt built the tidal mill.'),
    ('How many ships reached the harbour?', '12', '12 ships reached the harbour.'),
    ('Who was the mayor of Horn?', 'Ida Holt', 'The mayor of Horn was Ida Holt.'),
    ('Why was the tidal mill built?', 'for salt', None), ('Is the mill still there?', 'yes', None), ('', 'x', None), ('Who?', 'x', None)])
def test_questions_turn_into_statements(question, answer, expected):
    parser = load_pipeline()
    before = PASSAGE[:PASSAGE.index(answer)] if answer in PASSAGE else ''
    assert question_to_statement(parser(question), answer, before, past_forms(parser(PASSAGE))) == expected


def test_a_verb_whose_past_the_passage_lacks_gives_no_statement():
    parser = load_pipeline()
    assert question_to_statement(parser('What did Oda Brandt paint?'), 'the mill', '', past_forms(parser(PASSAGE))) is None
    assert question_phrase(parser('The mill was built when?')) is None


@given(st.text(max_size=80))
def test_any_text_is_a_question_or_none(text):
    found = question_to_statement(load_pipeline()(text), 'an answer', 'before it', {})
    assert found is None or (found.endswith('.') and 4 <= len(found.split()) <= 35)


def test_an_answer_keeps_the_sentence_that_holds_it():
    rows = [{'id': str(start), 'page': 'p', 'passage': PASSAGE, 'question': 'Who built the mill?', 'answer': 'x', 'start': start}
            for start in (0, 30, len(PASSAGE) - 5)]
    found = question_statements(QUESTIONS.frame(rows))
    assert found['sentence'].str.slice(0, 3).to_list() == ['In ', 'In ', 'She'] and found['after'].to_list()[2] == ''
    assert found['before'].to_list()[0] == ''


TEXT = ('Horn will rebuild its library. It burned down in March. Nobody was hurt. Ida Holt leads the work. It begins in autumn. '
        'Rain is expected.')


@given(st.integers(0, 5), st.integers(1, 60))
def test_evidence_is_of_the_text_in_order_and_holds_what_was_marked(at, words):
    parts = [part + '.' for part in TEXT.rstrip('.').split('. ')]
    found = evidence_window(TEXT, parts[at], words)
    kept = [part for part in parts if part in found]
    assert parts[at] in kept and found == ' '.join(kept)
    assert len(found.split()) <= max(words, len(parts[at].split()))


def test_evidence_for_a_mark_that_is_not_in_the_text_is_the_beginning():
    assert evidence_window(TEXT, 'A sentence from elsewhere.', 10) == 'Horn will rebuild its library. It burned down in March.'


def summary_row(**changes) -> dict:
    return {'id': 'a', 'text': TEXT, 'summary': 'Horn rebuilds a school.', 'inconsistent': True, 'intrinsic': False, 'extrinsic': True,
            'evidence': 'Nobody was hurt.',
            'edited_summary': 'Horn rebuilds a library.'} | changes


def test_labels_of_summaries():
    rows = pl.DataFrame([summary_row(), summary_row(id='b', summary='S b.', intrinsic=True, extrinsic=False, edited_summary=' '),
                         summary_row(id='c', summary='S c.', inconsistent=False),
                         summary_row(id='d', summary='S d.', intrinsic=True, edited_summary=None)])
    found = CLAIM_EVIDENCE_PAIRS.check(summary_pairs(rows))
    assert dict(found.select('id', 'label').rows()) == {'a#0': 'NEUT', 'b#0': 'CONTR', 'c#0': 'ENT', 'd#0': 'NEUT', 'a#1': 'ENT'}
    assert found['group'].n_unique() == 1  # one article, so one side of the split
    assert summary_statements(found)['claims'].to_list() == [['S c.'], ['Horn rebuilds a library.']]


def test_statements_of_both_kinds_make_pairs():
    corrected = pl.DataFrame([summary_row(edited_summary='Ida Holt rebuilds the library of Horn in March.')])
    asked = {'id': 'q', 'page': 'p', 'passage': PASSAGE, 'question': 'Who built the tidal mill?', 'answer': 'Oda Brandt', 'start': 21}
    statements = pl.concat([summary_statements(summary_pairs(corrected)), question_statements(QUESTIONS.frame([asked]))])
    assert len(STATEMENTS.check(statements)) == 2
    made = make_pairs(statements)
    assert set(made['label']) >= {'ENT', 'CONTR'} and {'defacto-edited', 'xquad-asked'} & set(made['source'])


def test_final_shares_no_article_with_what_trains():
    for name in ('defacto', 'final'): real_data(name)
    from factlab.data import datasets as data
    rows, final = unseen_by_final(download=False), data.load('final', download=False)
    squeezed = lambda frame: set(frame['text'].str.replace_all(r'\W', '').str.slice(0, 120))
    assert len(rows) == 1156 and not squeezed(rows) & squeezed(final)
