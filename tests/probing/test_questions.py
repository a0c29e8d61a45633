"""Questions about facts that nobody has asked about: by a model, and as gaps in the summary's sentence."""
import json
import re

import polars as pl
import pytest
from hostile_texts import hostile
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.data.datasets import load_sample
from factlab.models.interface import ScriptedModel
from factlab.probing.added_facts import added_facts, sample_facts
from factlab.probing.ptrue import QUESTIONS, ptrue_exact, sample_questions
from factlab.probing.questions import DRAFTS, GAP, draft_questions, foreign_words, gap_question, gap_questions, read_question
from factlab.text.words import plain_words

TEXTS = [*(text.replace('\ud83d', '') for text in hostile()), 'x'*200_000, 'מי בנה את הגשר? \u202eabc', '', ' ', GAP]


def test_drafts_are_reviewable():
    errors = pl.DataFrame({'id': ['a', 'b', 'c'], 'text': ['The probe left in 1997.', 'x', None],
                           'summary': ['The probe left Kourou in 1997.', 'x', 'x'], 'description': ['Kourou is new.', 'y', 'z'],
                           'category': ['k', None, None]})
    model = ScriptedModel('w', lambda request: '{"question": "Which Kourou harbour did the probe leave?", "answer": "the Kourou"}'
                          if 'Kourou' in request.messages[0].content else 'no')
    drafts = draft_questions(errors, model, False)
    assert drafts['status'].to_list() == ['ok', 'unparsed', 'unparsed']
    assert drafts.select('in_summary', 'gives_away', 'review', 'category').row(0) == (True, True, 'open', 'k')
    assert 'harbour' in drafts['foreign'][0] and 'probe' not in drafts['foreign'][0]
    assert foreign_words('Who?', '') == [] and not read_question('{"question": "  ", "answer": "x"}').ok


@pytest.mark.parametrize('text', TEXTS, ids=range(len(TEXTS)))
def test_hostile_errors_give_a_draft_or_a_reason(text):
    writer = ScriptedModel('w', lambda _: json.dumps({'question': text + '?', 'answer': text}))
    errors = pl.DataFrame({'id': ['a', 'b'], 'text': [text, 'The mill closed.'], 'summary': [text, f'The mill in Lund closed. {text}'],
                           'description': [text, f'Lund is new. {text}'], 'span': [text, None]})
    for drafts in (draft_questions(errors, writer, False), gap_questions(added_facts(errors))):
        assert drafts.schema == pl.Schema(DRAFTS.columns) and drafts['id'].to_list() == ['a', 'b']
        assert all((row['status'] == 'ok') == (row['question'] is not None) and (row['status'] == 'ok' or row['reason'])
                   for row in drafts.to_dicts())
        QUESTIONS.check(drafts)


def test_a_gap_is_in_the_place_of_the_piece_and_of_nothing_else():
    summary = 'Mr. Berg of Lund left in 1913. "Lund is old," he said in Lund, "and Lundgren is young!" Lund sleeps.'
    second = summary.index('Lund is')
    assert gap_question(summary, second, second + 4).endswith(f'? "{GAP} is old," he said in {GAP}, "and Lundgren is young!"')
    first = summary.index('Lund left')
    assert gap_question(summary, first, first + 4).endswith(f'Berg of {GAP} left in 1913.')
    long = 'word '*2_000 + 'Lund' + ' word'*2_000
    assert len(gap_question(long, 10_000, 10_004)) < 800


@settings(max_examples=80, deadline=None)
@given(st.text(st.characters(categories=('L', 'N', 'P', 'Zs')), max_size=80), st.text('abcABC019', min_size=1, max_size=6),
       st.text(max_size=80))
def test_a_gap_question_never_gives_its_answer_away(before, piece, after):
    summary = f'{before} {piece} {after}'
    start = len(before) + 1
    asked = gap_question(summary, start, start + len(piece))
    sentence = asked.partition('of this sentence? ')[2]
    assert GAP in sentence and not re.search(rf'(?<!\w){piece}(?!\w)', sentence)


def test_gaps_of_the_sample_ask_for_what_its_authors_asked():
    facts, asked = sample_facts(load_sample(), None), sample_questions(load_sample())
    gaps = gap_questions(facts)
    both = asked.select('id', wanted='answer').join(gaps.filter(pl.col('status') == 'ok'), on='id')
    agree = sum(' '.join(plain_words(said)) in ' '.join(plain_words(wanted)) or ' '.join(plain_words(wanted)) in ' '.join(plain_words(said))
                for said, wanted in both.select('answer', 'wanted').iter_rows())
    assert both.height == asked.height and agree > .95*both.height
    by_description = gap_questions(facts.with_columns(span=pl.lit(None, pl.String), start=pl.lit(None, pl.Int64)))
    assert set(by_description.filter(pl.col('status') != 'ok')['reason'].str.slice(0, 19)) == {'no gap can be made:'}
    assert .3*facts.height < by_description['question'].count() < facts.height
    # nothing to swap, but a span
    assert gap_questions(facts.head(1).with_columns(span=pl.lit('orbit around'), start=None))['answer'].item() == 'orbit around'
    model = ScriptedModel('m', lambda request: request.choices[0])
    assert ptrue_exact(gaps, model, False)['status'].to_list().count('unparsed') == gaps['question'].null_count()
