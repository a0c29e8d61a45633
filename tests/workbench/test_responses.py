"""The response view without a browser: verdicts laid over sentences, filters against loops, hostile and damaged input, gold by hand."""
import re

import polars as pl
import pytest
from hostile_texts import hostile
from hypothesis import given, settings
from hypothesis import strategies as st
from workbench.test_widgets import html_of, only_text

from factlab.core.core import DataError, UsageError
from factlab.grounding.parsing import LABELS, UNGROUNDED, accurate_by_labels
from factlab.workbench.marks import find_quoted
from factlab.workbench.response_view import SHOW_RESPONSES, SORT_RESPONSES, browse_responses, response_drawing, response_listing
from factlab.workbench.responses import judged_responses, like_sentences, sample_judged, sentence_places, sentences_of
from factlab.workbench.table import select_rows
from factlab.workbench.view import View

JUDGED_BY = {'id': pl.String, 'judge': pl.String, 'template': pl.String, 'accurate': pl.Boolean, 'status': pl.String, 'reason': pl.String,
             'sentences': pl.List(pl.Struct({'sentence': pl.String, 'label': pl.String, 'excerpt': pl.String}))}
GOLD = {'id': pl.String, 'sentences': pl.List(pl.Struct({'sentence': pl.String, 'label': pl.String, 'excerpts': pl.List(pl.String)}))}


def responses_of(texts: list[str], **more: list[str]) -> pl.DataFrame:
    base = {'id': [str(n) for n in range(len(texts))], 'responder': ['mine']*len(texts), 'request': ['When?']*len(texts),
            'document': ['The mill opened in 1901. It stood by the river.']*len(texts), 'response': texts}
    return pl.DataFrame(base | more)


def judgements_of(rows: list[dict]) -> pl.DataFrame:
    base = {'id': '0', 'judge': 'J', 'template': 'json', 'accurate': None, 'status': 'ok', 'reason': '', 'sentences': []}
    return pl.DataFrame([base | row for row in rows], schema=JUDGED_BY, orient='row')


WORDS = ('mill', 'river', 'miller', 'king')
VERDICT = st.one_of(st.none(), st.lists(st.sampled_from([*LABELS, None, 'nonsense']), min_size=1, max_size=4))

@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.lists(VERDICT, max_size=3)), min_size=1, max_size=5))
def test_counts_disputes_and_filters_are_what_a_loop_finds(drawn):
    texts = [' '.join(f'The {word} is number {n}.' for n, word in enumerate(WORDS[:size])) for size, _ in drawn]
    rows = []
    for place, (size, verdicts) in enumerate(drawn):
        for judge, labels in enumerate(verdicts):
            said = [{'sentence': f'The {word} is number {n}.', 'label': label, 'excerpt': ''}
                    for n, (word, label) in enumerate(zip(WORDS[:size], labels or [], strict=False))]
            rows.append({'id': str(place), 'judge': f'J{judge}', 'accurate': accurate_by_labels([each['label'] for each in said]),
                         'sentences': said})
    judged = judged_responses(responses_of(texts), judgements_of(rows))
    disputed, disagree = [], []
    for place, (size, _) in enumerate(drawn):
        mine = [row for row in rows if row['id'] == str(place)]
        given = [{each['label'] in UNGROUNDED for row in mine for each in row['sentences'][at:at + 1] if each['label'] in LABELS}
                 for at in range(size)]
        verdicts = {row['accurate'] for row in mine} - {None}
        disputed.append(sum(len(each) == 2 for each in given))
        if len(verdicts) == 2: disagree.append(place)
        row = judged.frame.row(place, named=True)
        assert (row['accurate'], row['inaccurate'], row['unread']) == tuple(sum(each['accurate'] is kind for each in mine)
                                                                            for kind in (True, False, None))
        kinds = [each.kind for each in sentences_of(row, judged.verdicts.filter(pl.col('id') == str(place)).to_dicts())]
        assert [kind == 'disputed' for kind in kinds] == [len(each) == 2 for each in given]
    assert judged.frame['disputed'].to_list() == disputed
    listing = response_listing(judged)
    assert select_rows(listing, 'judges disagree').tolist() == disagree
    assert select_rows(listing, 'a sentence is disputed').tolist() == [n for n, count in enumerate(disputed) if count]
    unread = {int(row['id']) for row in rows if row['accurate'] is None}
    assert select_rows(listing, 'a verdict is unparsed').tolist() == sorted(unread)
    for show in SHOW_RESPONSES:
        for sort in SORT_RESPONSES: assert set(select_rows(listing, show, sort)) <= set(range(len(drawn)))


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_a_quotation_is_found_where_it_stands_and_nothing_is_found_elsewhere(before, after):
    document = f'{before} The mill\n opened in 1901. {after}'
    start, end = find_quoted('the Mill opened in 1901', document)[0]
    assert re.sub(r'\s+', ' ', document[start:end]).lower() == 'the mill opened in 1901'
    assert all(0 <= a <= b <= len(document) for a, b in find_quoted(after, document))
    assert find_quoted('', document) == [] and find_quoted('No such thing was said', 'The mill opened.') == []

@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=40))
def test_any_sentences_have_places_in_any_text(sentences, text):
    places = sentence_places(sentences, text)
    assert len(places) == len(sentences) and all(place is None or 0 <= place[0] <= place[1] <= len(text) for place in places)
    assert all(0 <= at < len(sentences) for at in like_sentences(text.lower(), [each.lower() for each in sentences]))


def test_what_does_not_fit_is_refused_or_noted():
    responses, one = responses_of(['The mill opened in 1901.', '']), judgements_of([{'accurate': True}])
    for wrong in ((responses.drop('document'), one), (pl.concat([responses, responses]), one), (responses, pl.concat([one, one])),
                  (responses, one.drop('accurate')), (responses, one, pl.DataFrame({'id': ['0'], 'sentences': [['a']]}))):
        with pytest.raises(DataError): judged_responses(*wrong)
    with pytest.raises(UsageError): select_rows(response_listing(judged_responses(responses, one)), 'nonsense')
    judged = judged_responses(responses, judgements_of([{'accurate': True}, {'id': 'gone'}]))
    assert len(judged.notes) == 2 and 'gone' in judged.notes[0]
    assert judged.frame['sentences'].to_list() == [['The mill opened in 1901.'], []]
    assert judged_responses(responses.clear()).frame.is_empty() and judged_responses(responses).judges == ()
    nulls = responses.with_columns(document=pl.lit(None, pl.String), response=pl.lit(None))
    assert judged_responses(nulls, one).frame['response'].to_list() == ['', '']

def test_gold_marks_verdicts_that_differ_from_it():
    labelled = {'sentence': 'The mill opened in 1902.', 'label': 'contradictory', 'excerpts': ['opened in 1901']}
    gold = pl.DataFrame([{'id': '0', 'sentences': [labelled]}], schema=GOLD)
    verdicts = judgements_of([{'accurate': True}, {'judge': 'K', 'accurate': False}])
    judged = judged_responses(responses_of([labelled['sentence']]), verdicts, gold)
    assert judged.frame['gold_accurate'].to_list() == [False] and judged.verdicts['against_gold'].to_list() == [True, False]
    assert select_rows(response_listing(judged), 'against gold', judge='K · json').tolist() == []
    view = View(response_drawing(judged), encoder=None)
    view.show(judged.frame.row(0, named=True))
    assert 'quoted by gold' in view.source.value and '<mark class="evidence">opened in 1901' in view.source.value

def test_what_a_judge_invents_is_counted():
    odd = {'accurate': False, 'sentences': [{'sentence': 'The king spoke.', 'label': 'unsupported', 'excerpt': 'The king'},
                                            {'sentence': 'The mill opened in 1901.', 'label': 'supported', 'excerpt': 'The queen said so'}]}
    judged = judged_responses(responses_of(['The mill opened in 1901.']), judgements_of([odd]))
    view = View(response_drawing(judged), encoder=None)
    view.show(judged.frame.row(0, named=True))
    assert '1 quotations not in the document' in view.head.value and 'The king spoke.' in view.head.value
    assert 'not in the document: a quotation of 1' in view.source.value


def test_hostile_text_in_every_field_is_escaped_in_every_part(tmp_path):
    texts = [text.replace('\ud83d', '') for text in hostile()]
    said = [{'sentence': text, 'label': label, 'excerpt': text} for text in texts for label in ('supported', text)]
    responses = pl.DataFrame({name: texts for name in ('id', 'responder', 'request', 'document', 'response', 'system', 'status', 'reason')})
    rows = [{'id': text, 'judge': other, 'template': text, 'status': text, 'reason': text, 'sentences': said, 'accurate': n%2 == 0 or None}
            for text in texts for n, other in enumerate(texts[:3])]
    gold = pl.DataFrame([{'id': text, 'sentences': [{'sentence': text, 'label': text, 'excerpts': [text]}]} for text in texts], schema=GOLD)
    bench = browse_responses(responses, judgements_of(rows), gold, texts[2], labels=tmp_path/'labels.jsonl', annotator=texts[1],
                             encoder=None)
    seen = ''
    for place in range(len(texts)):
        bench.table.selected = place
        bench.annotator.label('1')
        seen += html_of(bench)
    bench.annotator.blind.value = True
    only_text(seen + html_of(bench))


def test_parts_follow_and_labels_make_gold(tmp_path):
    bench = browse_responses(sample_judged(6), labels=tmp_path/'labels.jsonl', annotator='Ann', encoder=None)
    bench.table.selected = None
    bench.table.show_.value = 'a sentence is disputed'
    bench.table.selected = place = int(bench.table.places[-1])
    assert bench.view.part.kind == 'disputed' and bench.annotator.queue.item['unit'] == bench.view.part.unit
    bench.annotator.label('3')
    row = bench.judged.frame.row(place, named=True)
    assert bench.gold().select('id', 'accurate').rows() == [(row['id'], False)]
    bench.annotator.undo()
    assert bench.gold().is_empty()
    bench.annotator.blind.value = True
    assert row['id'] not in html_of(bench.table) + html_of(bench.view) and 'strict' not in html_of(bench.view)
    again = browse_responses(sample_judged(6), labels=tmp_path/'labels.jsonl', annotator='Ben', encoder=None)
    assert again.annotator.mine == set()

def test_a_long_response_and_a_long_document_are_shown(tmp_path):
    text = ' '.join(f'The mill number {n} closed in {1500 + n}.' for n in range(400))
    judged = judged_responses(responses_of([text], document=[text*40]), judgements_of([{'accurate': True}]))
    bench = browse_responses(judged, labels=tmp_path/'labels.jsonl', annotator='Ann', encoder=None)
    assert len(bench.view.cards.children) == 120 and 'of 400 sentences' in bench.view.summary.value
    bench.annotator.at = 399
    assert bench.view.part.number == 400 and 'class="plain on"' in bench.view.summary.value
