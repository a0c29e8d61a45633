"""The workbench without a browser: counts against loops, hostile and damaged input, parts that follow each other."""
import re
import threading
import time
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from hostile_texts import hostile
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, ModelError, UsageError
from factlab.data import datasets as data
from factlab.error_analysis.annotations import ITEM_PROPOSALS, MISSED_SCHEME, REVIEW_SCHEME, LabelScheme
from factlab.localization.matching import DEFAULT_JUDGE, MATCHES
from factlab.localization.methods import PREDICTIONS, ZERO_SHOT, Localizer
from factlab.models.interface import ScriptedModel
from factlab.probing.questions import PTRUE_CAVEAT
from factlab.runs.plan import make_run
from factlab.runs.runs import Run
from factlab.workbench.annotator import FINAL_TABLE, Annotator, Proposals, annotate_form
from factlab.workbench.comparison import RunComparison
from factlab.workbench.errors import ERROR_DRAWING, SHOW, SORTS, error_card, error_listing
from factlab.workbench.examples import (
    ERROR_KINDS,
    Error,
    compare_examples,
    error_items,
    errors_of,
    find_span,
    read_examples,
    rows_of,
    sample_examples,
    sample_rows,
)
from factlab.workbench.marks import Mark, best_sentences, escaped, folded_html, pieces, word_scores
from factlab.workbench.page import browse, described_errors, run_errors
from factlab.workbench.probes import ProbedError, ProbePanel, counterfactual_probe, p_true_probe, result_html
from factlab.workbench.scratch import ScratchPad, VerificationPad
from factlab.workbench.table import Listing, Table, select_rows
from factlab.workbench.view import View
from factlab.workbench.widgets import STYLE, Column, PagedTable

COUNTS = dict.fromkeys(('n_gold', 'n_predicted', 'invalid', 'calls', 'prompt_tokens', 'completion_tokens'), 0) | {'status': 'ok',
    'reason': '', 'answer': ''}


def frames(cases: list[dict]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    "Predictions, rows and matches of cases with id, text, summary, gold, predicted, matched."
    cases = [COUNTS | {'id': str(n), 'text': 'A source.', 'summary': 'A summary.', 'gold': [], 'predicted': [], 'matched': []} | case
             for n, case in enumerate(cases)]
    rows = pl.DataFrame([{k: case[k] for k in ('id', 'text', 'summary', 'gold')} for case in cases],
                        schema={'id': pl.String, 'text': pl.String, 'summary': pl.String, 'gold': pl.List(pl.String)})
    return PREDICTIONS.frame([{k: case[k] for k in PREDICTIONS.columns}
                              for case in cases]), rows, MATCHES.frame([{k: case[k] for k in MATCHES.columns} for case in cases])


def examples_of(cases: list[dict]): return read_examples(*frames(cases))


CASES = st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(-1, 2), max_size=4), st.sampled_from(['ok', 'unparsed'])), min_size=1,
                 max_size=8)

@settings(max_examples=60, deadline=None)
@given(CASES)
def test_counts_items_and_filters_are_what_a_loop_finds(drawn):
    cases = []
    for gold, to, status in drawn:
        matched = [g if 0 <= g < gold else None for g in to]
        answer = {'predicted': [f'prediction {n}' for n in range(len(to))], 'matched': matched} if status == 'ok' else {'predicted': None,
            'matched': None}
        cases.append({'gold': [f'gold {n}' for n in range(gold)], 'status': status} | answer)
    examples = examples_of(cases)
    frame = examples.frame
    for row, case in zip(frame.to_dicts(), cases, strict=True):
        if case['matched'] is None: assert row['missed'] is row['false_alarms'] is row['found'] is None
        else:
            found = {g for g in case['matched'] if g is not None}
            assert (row['found'], row['missed'], row['false_alarms']) == (len(found), len(case['gold']) - len(found),
                case['matched'].count(None))
            kinds = [error.kind for error in errors_of(row)]
            assert (kinds.count('matched'), kinds.count('missed'), kinds.count('invented')) == (row['found'], row['missed'],
                row['false_alarms'])
    by_hand = [(row['id'], error.unit, error.kind, error.text) for row in frame.to_dicts() for error in errors_of(row)]
    assert error_items(examples, tuple(ERROR_KINDS)).select('row', 'unit', 'kind', 'text').rows() == by_hand
    listing = error_listing(examples)
    assert select_rows(listing, 'missed errors').tolist() == [n for n, row in enumerate(frame.to_dicts()) if (row['missed'] or 0) > 0]
    order = select_rows(listing, sort='most errors').tolist()
    assert order == sorted(range(len(cases)), key=lambda n: (frame['errors'][n] is None, -(frame['errors'][n] or 0)))
    for show in SHOW:
        for sort in SORTS: assert set(select_rows(listing, show, sort)) <= set(range(len(cases)))


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=60), st.lists(st.tuples(st.integers(-3, 70), st.integers(-3, 70), st.integers(0, 5)), max_size=6))
def test_pieces_are_the_text_and_know_their_marks(text, spans):
    marks = [Mark(*span) for span in spans]
    cuts = pieces(text, marks)
    assert ''.join(piece for piece, _ in cuts) == text
    by_character = [tuple(sorted({m.number for m in marks if 0 <= m.start < m.end <= len(text) and m.start <= i < m.end}))
                    for i in range(len(text))]
    assert [numbers for piece, numbers in cuts for _ in piece] == by_character


class Reader(HTMLParser):
    "Tags, attributes and text of a piece of HTML."
    def __init__(self, content: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text = set(), set(), ''
        self.feed(content)
        self.close()
    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
    def handle_data(self, data): self.text += data


ALLOWED = {'p', 'b', 'bdi', 'br', 'div', 'h4', 'span', 'mark', 'sup', 'details', 'summary', 'style', 'table', 'thead', 'tbody', 'tr', 'td',
           'th', 'progress'}
ATTRIBUTES = {'class', 'style', 'role', 'dir', 'scope', 'aria-label', 'aria-live', 'aria-hidden', 'value', 'max'}

def html_of(widget) -> str:
    "All HTML of a widget and its children."
    import ipywidgets
    if isinstance(widget, ipywidgets.HTML): return widget.value.replace(STYLE, '')
    return ''.join(html_of(child) for child in getattr(widget, 'children', ()))


def only_text(html: str) -> None:
    "Hostile texts are there, as text, and nothing else is."
    read = Reader(html.replace(STYLE, ''))
    assert read.tags <= ALLOWED and read.attributes <= ATTRIBUTES and '<script>window.hacked = 1; alert(1)</script> said so' in read.text
    assert not re.search(r'[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]', html)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_shown_text_holds_no_markup(text):
    read = Reader(escaped(text))
    assert not read.tags and not any(c in read.text for c in '\x00\x1b\u202e\u2066')
    assert read.text.count('\n') >= text.replace('\r\n', '\n').count('\n')

def test_hostile_text_in_every_field_is_escaped_in_every_part(tmp_path):
    texts = [text.replace('\ud83d', '') for text in hostile()]
    cases = [{'id': text, 'text': text, 'summary': text, 'gold': [text, *texts], 'predicted': [text, f'"{text}"'], 'matched': [0, None],
              'status': 'ok', 'reason': text} for text in texts]
    predictions, rows, matches = frames(cases)
    scheme = LabelScheme(texts[0], [(str(n), text, text) for n, text in enumerate(texts[:8])])
    bench = browse(predictions, rows.with_columns(categories=pl.col('gold'), spans=pl.col('gold')), matches, other=predictions,
                      other_matches=matches, labels=tmp_path/'labels.jsonl', annotator=texts[1],
                      encoder=None, schemes=[scheme], p_true=lambda case: {texts[0]: texts[1]},
                      models={'scripted': ScriptedModel('scripted', lambda request: texts[0])})
    seen = ''
    for place in range(len(texts)):
        bench.table.selected = place
        bench.annotator.label('1')
        bench.probe.run('P(True)')
        bench.probe.wait()
        bench.compare.paged.selected = place
        seen += html_of(bench)
    bench.scratch.source.value, bench.scratch.summary.value, bench.scratch.store = texts[0], texts[1], False
    bench.scratch.run()
    bench.scratch.wait()
    only_text(seen + html_of(bench))


def test_any_other_run_is_browsed_by_its_columns(tmp_path):
    texts = [text.replace('\ud83d', '') for text in hostile()]
    odd = pl.DataFrame({'id': texts, 'status': texts, '<b>': texts, 'listen': [[text, None] for text in texts],
                        'struct': [{texts[0]: n} for n, _ in enumerate(texts)], 'sort': ['a', 'b']*(len(texts)//2)})
    bench = browse(odd, odd.rename({'status': 'place'}), labels=tmp_path/'labels.jsonl', annotator=texts[0])
    seen = ''
    for place in range(len(texts)):
        bench.table.selected = place
        bench.annotator.label('1')
        seen += html_of(bench)
    only_text(seen)
    bench.table.sort_.value = 'b'  # `sort` is a control of every table
    assert bench.table.places.tolist() == list(range(1, len(texts), 2)) and bench.annotator.file.labels().height == len(texts)
    bench.annotator.keyboard.value = 'b'
    assert 'struct' not in bench.view.summary.value and 'struct' in bench.view.source.value
    for wrong in (odd.drop('id'), odd.with_columns(id=pl.lit(1))):
        with pytest.raises(DataError, match='id'): browse(wrong)
    assert browse(odd.clear(), labels=tmp_path/'none.jsonl').view.example is None


def test_a_million_rows_open_and_are_filtered():
    size = 1_000_000
    many = pl.select(id=pl.int_range(size).cast(pl.String), status=pl.lit('ok'), text=pl.format('mill {}', pl.int_range(size)),
                     haystack=pl.format('mill {}', pl.int_range(size)))
    listing = Listing('many', many, [Column('id', '50%'), Column('text', '50%')], lambda places: many[places].select('id', 'text').rows())
    table = Table(listing)
    table.search.value = 'MILL 99999'
    assert table.places.tolist() == [99_999, *range(999_990, 1_000_000)] and '999,990' not in table.paged.table.value
    table.search.value = ''
    table.selected = size - 1
    assert 'mill 999999' in table.paged.table.value and len(table.paged.table.value) < 10_000


def test_a_run_made_here_finds_its_own_rows(tmp_path):
    sample = sample_rows().head(3)
    run = make_run(data.load('sample').head(3), Localizer('zero_shot1', ZERO_SHOT[0]),
                   ScriptedModel('scripted', lambda request: 'A. The year is wrong.'),
                   dataset='sample', store=False, folder=tmp_path)
    rows, notes = rows_of(run)
    assert notes == []
    changed = Run(run.manifest | {'dataset': run.manifest['dataset'] | {'fingerprint': '0'}}, run.folder, run.predictions)
    assert 'not exactly those' in rows_of(changed)[1][0]
    with pytest.raises(DataError, match='rows='):
        rows_of(Run(run.manifest | {'dataset': {'name': 'gone.jsonl'}}, run.folder, run.predictions))
    examples = read_examples(run, judge=DEFAULT_JUDGE)
    assert rows['id'].to_list() == sample['id'].to_list() and examples.model == 'scripted' and examples.frame['matched'].null_count() == 0
    assert examples.frame['categories'].to_list() == sample['categories'].to_list()


def test_bad_input_is_said_and_shown(tmp_path):
    predictions, rows, matches = frames([{'gold': ['a'], 'predicted': ['b'], 'matched': [0]},
                                         {'status': 'failed', 'reason': 'server gone', 'predicted': None, 'matched': None}])
    bare = read_examples(predictions, rows.drop('gold'), matches)
    reviewed = browse(bare, labels=tmp_path/'bare.jsonl', annotator='Ann', encoder=None).annotator
    reviewed.label('1')
    assert reviewed.file.labels().select('scheme', 'kind', 'label').rows() == [('review', 'predicted', 'right')]
    assert any('no gold' in note for note in bare.notes)
    assert [error.kind for error in errors_of(bare.frame.row(0, named=True))] == ['predicted']
    with pytest.raises(DataError, match='reason'): read_examples(predictions.drop('reason'), rows, matches)
    lost = read_examples(predictions.with_columns(id=pl.Series(['0', 'gone'])), rows, matches)
    assert any('1 rows' in note for note in lost.notes) and lost.frame['summary'][1] == ''
    foreign = read_examples(predictions, rows, matches.with_columns(matched=pl.Series([[5], None], dtype=pl.List(pl.Int64))))
    assert any('do not fit' in note for note in foreign.notes) and foreign.frame['matched'].null_count() == 2
    assert any('judge' in note for note in read_examples(predictions, rows).notes)
    for examples in (bare, lost, foreign, read_examples(predictions.head(0), rows, matches)):
        bench = browse(examples, labels=tmp_path/'labels.jsonl', annotator='Ann', encoder=None)
        bench.annotator.keyboard.value = 'np.,1u'
        for place in range(examples.frame.height): bench.table.selected = place
    with pytest.raises(DataError, match='unique|two rows'): read_examples(predictions, pl.concat([rows, rows]))
    with pytest.raises(DataError, match='lack'): read_examples(predictions, rows.drop('summary'))
    with pytest.raises(UsageError, match='rows='): read_examples(predictions)


def test_long_texts_stay_whole_and_small_enough():
    text = ''.join(f'Sentence {n} is about the number {n}. ' for n in range(6_000))[:200_000]
    view = View(ERROR_DRAWING, encoder=None)
    view.show(examples_of([{'text': text, 'summary': text, 'gold': ['The number 2500 is wrong: "number 2500" is not there.']}]).frame.row(0,
        named=True))
    for part in (view.source, view.summary):
        read = Reader(re.sub(r'<h4>.*?</h4>|<sup>.*?</sup>|<summary>.*?</summary>', '', part.value))
        assert read.text == text and len(part.value) < 1.3*len(text)
    assert '>number 2500<' in view.summary.value and 'evidence' in view.source.value
    beyond = 'x'*1_000_000
    assert 'remaining 600,000 characters' in folded_html(beyond) and len(folded_html(beyond)) < 410_000


def test_spans_are_found_where_they_can_be():
    summary, source = 'The old mill of Lund closed in 1913, said Mr. "X".', 'The mill closed in 1931.'
    def found(**parts): return [summary[a:b] for a, b in find_span(Error(1, 'missed', 'gold:0', **parts), summary, source)]
    assert found(gold='Wrong.', span='Lund') == ['Lund'] and found(gold='The word "old mill" is added.') == ['old mill']
    assert found(gold='Lund is not mentioned, nor is 1913.') == ['1913', 'Lund'] and found(gold='It is all wrong.') == []
    assert found(gold='Span elsewhere', span='nowhere') == []
    assert found(gold='“1931”, not “1913”') == ['1913'] and found(gold='It was 191.') == ['191']
    assert find_span(Error(1, 'missed', 'gold:0', gold='x'*300_000), summary, source) == []
    # the source lacks one, and has the other
    assert found(gold='Nothing says that it is old.') == ['old'] and found(gold='That it closed is wrong.') == []


def test_evidence_by_words_prefers_rare_words_and_finds_nothing_in_nothing():
    source = 'The mill closed in 1931. The mill stood by the river. The miller of the mill was old.'
    assert [source[a:b] for a, b in best_sentences(source, 'Nothing says that the mill stood by a river',
                                                   1)] == ['The mill stood by the river.']
    assert best_sentences(source, 'zebra') == [] and best_sentences('', 'mill') == [] and word_scores('', ['a']).tolist() == [0]


def test_evidence_goes_on_without_an_encoder(monkeypatch):
    def broken(*_, **__): raise ModelError('no weights here')
    monkeypatch.setattr('factlab.workbench.marks.Encoder', broken)
    view = View(ERROR_DRAWING)
    view.show(examples_of([{'text': 'The mill closed. The king spoke of ships.', 'gold': ['Nothing is said of the mill.']}]).frame.row(0,
        named=True))
    view.wait()
    assert 'evidence' in view.source.value and 'no weights here' in view.failure.value and view.evidence.encoder is None


def test_the_encoder_looks_once_for_each_error(monkeypatch):
    asked = []
    class Fake:
        def __init__(self, name): pass
        def encode(self, texts):
            asked.append(texts[0])
            return np.array([[1, 0], *[[1, 0] if 'ships' in text else [0, 1] for text in texts[1:]]], np.float32)
    monkeypatch.setattr('factlab.workbench.marks.Encoder', Fake)
    view = View(ERROR_DRAWING)
    row = examples_of([{'text': 'The mill closed. The king spoke of ships. Rain fell.',
                        'gold': ['The mill is not there.', 'Boats?']}]).frame.row(0, named=True)
    view.show(row)
    for _ in range(3):
        view.step(1)
        view.wait()
        assert re.search(r'<mark class="evidence">The king spoke of ships', view.source.value)
        view.step(-1)
        view.wait()
    assert sorted(asked) == ['Boats?', 'The mill is not there.']


def test_a_table_of_any_size_shows_one_page():
    drawn = []
    table = PagedTable([Column('n', '100%')], lambda places: drawn.append(len(places)) or [([str(p)], str(p)) for p in places], size=25)
    table.show(np.arange(100_000))
    for _ in range(3): table.turn(1)
    table.selected = 99_999
    assert table.page == 3_999 and max(drawn) == 25 and table.radios.index == 24
    table.show(np.arange(10))
    assert table.position() is None and table.radios.index is None and table.selected == 99_999
    table.show(np.zeros(0, np.int64))
    table.step(1)
    assert 'no rows' in table.count.value


def test_duplicate_rows_and_odd_categories_do_not_confuse_the_table():
    examples = examples_of([{'id': f'row {n}', 'summary': 'same', 'gold': ['g']} for n in range(30)])
    table = Table(error_listing(examples._replace(frame=examples.frame.with_columns(categories=pl.lit(['', 'any', '\x1b[31m'])))))
    labels = [label for label, _ in table.paged.radios.options]
    assert len(set(labels)) == 25 and '\x1b' not in str(table.category.options)
    for _, value in table.category.options: table.category.value = value


def test_two_annotators_and_schemes_on_one_file(tmp_path):
    items = error_items(examples_of([{'gold': ['a', 'b'], 'predicted': ['c'], 'matched': [None]}]))
    wording = LabelScheme('wording', (('7', 'clear'), ('8', 'vague')), on=('missed',))
    ann, ben = (Annotator(items, (MISSED_SCHEME, wording), tmp_path/'labels.jsonl', who) for who in ('Ann', 'Ben'))
    ann.keyboard.value = '17'  # both schemes for the first item, then on to the second
    assert ann.at == 1 and ann.queue.count(ann.mine) == (1, 2)
    ben.label('2')
    ben.label('8')
    assert ben.file.labels().select('annotator', 'scheme', 'label').rows() == [('Ann', 'final/missed', 'extrinsic_correct'),
        ('Ben', 'final/missed', 'extrinsic_wrong'), ('Ann', 'wording', 'clear'), ('Ben', 'wording', 'vague')]
    ann.file.refresh()
    ann.at = 0
    assert 'Ben' in ann.buttons.children[1].description
    ann.blind.value = True
    assert not any('Ben' in button.description for button in ann.buttons.children)
    ann.at = 2
    ann.label('1')
    assert 'No label scheme' in ann.status.value and not ann.buttons.children
    ann.who.value = ''
    ann.at = 0
    ann.label('1')
    assert 'who is labelling' in ann.status.value and ann.unsaved is not None


def test_export_and_import(tmp_path):
    items = error_items(examples_of([{'gold': ['a', 'b']}]))
    ann = Annotator(items, (REVIEW_SCHEME,), tmp_path/'a.jsonl', 'Ann')
    ann.keyboard.value = '12'
    for name in ann.exchange.format.options:
        ann.exchange.format.value = name
        ann.exchange.write()
        written = 0 if name == FINAL_TABLE else 2  # reviews are no categories of FINAL's
        assert f'{written} labels written' in ann.status.value, name
    ben = Annotator(items, (REVIEW_SCHEME,), tmp_path/'b.jsonl', 'Ben')
    ben.exchange.target.value, ben.exchange.format.value = str(tmp_path/'a-labels'), 'parquet'
    ben.exchange.read()
    assert '2 labels taken in' in ben.status.value and ben.file.labels().equals(ann.file.labels())
    ben.exchange.target.value = str(tmp_path/'nothing')
    ben.exchange.read()
    assert 'there is no' in ben.status.value and 'bad' in ben.status.value


def test_an_annotator_follows_the_filter_of_the_table(tmp_path):
    bench = browse(examples_of([{'id': f'{n}', 'gold': ['a']*(n % 2), 'predicted': ['b'], 'matched': [None]} for n in range(10)]),
                      labels=tmp_path/'l.jsonl', annotator='Ann', encoder=None)
    bench.table.show_.value = 'missed errors'
    assert bench.annotator.queue.count(set()) == (0, 10)
    assert bench.annotator.queue.items['row'].gather(bench.annotator.queue.order).unique().sort().to_list() == ['1', '3', '5', '7', '9']
    bench.annotator.to_next_open()
    while bench.annotator.queue.count(bench.annotator.mine)[0] < 10: bench.annotator.label('1')
    assert set(bench.annotator.file.labels()['row']) == {'1', '3', '5', '7', '9'}
    bench.table.search.value = 'nothing has this'
    bench.annotator.keyboard.value = '1'
    assert bench.annotator.queue.count(bench.annotator.mine) == (0, 0)


def test_a_row_opens_at_what_one_came_for(tmp_path):
    case = {'gold': ['a', 'b', 'c'], 'predicted': ['p', 'q'], 'matched': [0, None]}
    bench = browse(examples_of([case | {'id': f'{n}'} for n in range(3)] + [{'id': 'sound'}]), labels=tmp_path/'l.jsonl',
                      annotator='Ann', encoder=None)
    def opened(place, show='all rows'):
        bench.table.selected = None
        bench.table.show_.value = show
        bench.table.selected = place
        return bench.view.part and bench.view.part.unit
    assert opened(1) == 'gold:1' and opened(1, 'found errors') == 'gold:0' and opened(1, 'false alarms') == 'predicted:1'
    assert opened(1, 'missed errors') == 'gold:1'
    assert bench.annotator.queue.item['unit'] == 'gold:1'
    bench.annotator.label('1')
    assert opened(1, 'missed errors') == 'gold:2' and opened(1) == 'gold:2'
    bench.annotator.label('1')
    assert opened(1) == 'predicted:1' and opened(1, 'missed errors') == 'gold:1'  # all of that kind are done: the first of them
    assert opened(3) is None and bench.probe.case is None


def test_the_probe_shows_what_goes_wrong():
    def broken(case): raise ValueError('<b>no</b>')
    def refused(case): raise ModelError('no such model')
    probe = ProbePanel(broken, refused)
    probe.case = ProbedError({}, Error(1, 'missed', 'gold:0', 'text'), None)
    for name, said in (('P(True)', 'ValueError: &lt;b&gt;no'), ('Counterfactual', 'no such model')):
        probe.run(name)
        probe.wait()
        assert said in probe.task.value and 'class="bad"' in probe.task.value and not probe.result.value
        assert not probe.buttons[name].disabled
    assert Reader(result_html(pl.DataFrame({'<i>': ['<b>', None], 'x': [.5, 1.]}))).tags == {'table', 'thead', 'tbody', 'tr', 'th', 'td'}


def test_a_probe_leaves_the_kernel_free_and_tells_that_it_is_at_work():
    began, may_end, asked = threading.Event(), threading.Event(), []
    def slow(case):
        asked.append(case.error.number)
        began.set()
        assert may_end.wait(30)
        return {'P(True)': .5}
    probe, cases = ProbePanel(slow), [ProbedError({'id': 'row'}, Error(n, 'missed', f'gold:{n}', 'text'), None) for n in (1, 2)]
    probe.case = cases[0]
    probe.run('P(True)')
    assert began.wait(30) and 'asking' in probe.task.value and probe.buttons['P(True)'].disabled
    probe.run('P(True)')  # a second click begins nothing
    probe.case = cases[1]  # the kernel takes other work meanwhile
    may_end.set()
    probe.wait()
    assert asked == [1] and 'error 1 of row is done' in probe.task.value and not probe.result.value
    assert not probe.buttons['P(True)'].disabled
    probe.run('P(True)')
    probe.wait()
    assert asked == [1, 2] and '0.500' in probe.result.value and not probe.task.value


def test_the_default_probes_on_the_embedded_model():
    row = {'id': 'a', 'text': 'The mill in Lund closed.', 'summary': 'The mill in Lund closed in 1913.'}
    probe = ProbePanel(p_true_probe(store=False), counterfactual_probe(store=False))
    probe.case = ProbedError(row, Error(1, 'missed', 'gold:0', 'The year 1913 is not in the text.'), '1913')
    probe.question.value, probe.answer.value = 'When did the mill in Lund close?', '1913'
    probe.run('P(True)')
    probe.wait()
    assert PTRUE_CAVEAT in probe.result.value and re.search(r'<td[^>]*>0\.\d{3}</td>', probe.result.value) and not probe.task.value
    probe.run('Counterfactual')
    probe.wait()
    assert 'swapped' in probe.result.value and not probe.task.value
    probe.case = ProbedError(row, Error(1, 'missed', 'gold:0', 'Nothing fits.'), None)
    probe.run('Counterfactual')
    probe.wait()
    assert 'no place in the summary' in probe.result.value


def test_scratch_says_what_it_needs_and_what_failed():
    scratch = ScratchPad({'silent': ScriptedModel('silent', lambda request: '')}, store=False)
    scratch.run()
    assert 'needed' in scratch.task.value
    scratch.source.value = scratch.summary.value = 'a'
    scratch.run()
    scratch.wait()
    assert 'unparsed' in scratch.status.value
    scratch.model.value = 'no-such-backend:x'
    scratch.run()
    scratch.wait()
    assert 'bad' in scratch.task.value and not scratch.status.value and not scratch.start.disabled


def test_every_card_can_be_told_from_the_others_and_keys_move_rows(tmp_path):
    bench = browse(examples_of([{'id': f'{n}', 'gold': [f'error {m}' for m in range(28)]} for n in range(3)]), labels=tmp_path/'l.jsonl',
                      annotator='Ann', encoder=None)
    looks = [tuple(sorted(set(button._dom_classes) - {'card', 'on'})) for button in bench.view.cards.children]
    assert len(set(looks)) == 28 and all(f'.card.{name} {{' in STYLE for look in looks for name in look)
    rows = []
    for key in 'jjkn':
        bench.annotator.keyboard.value += key
        rows.append(bench.table.selected)
    assert rows == [1, 2, 1, 2]


def test_comparison_counts_every_error_once_and_says_what_is_left_out():
    cases = [{'gold': ['a', 'b', 'c', 'd'], 'predicted': ['p']*4, 'matched': [0, 1, None, None]}, {'gold': ['e']},
             {'gold': ['f'], 'text': 'other'}, {}]
    first = examples_of([*cases, {'id': 'alone', 'gold': ['z']}])
    other = [cases[0] | {'matched': [0, 2, None, None]}, {'gold': ['e'], 'status': 'unparsed', 'predicted': None, 'matched': None},
             {'gold': ['f']}, {}]
    frame, notes = compare_examples(first, examples_of(other))
    assert frame['outcome'].to_list() == ['both', 'won', 'lost', 'neither'] and len(notes) == 3
    assert [notes[0][:6], notes[1][:6], notes[2][:13]] == ['1 rows', '1 rows', '1 shared rows']
    compare = RunComparison(first, examples_of(other), blind=True)
    compare.outcome.value = 'lost'
    compare.paged.step(1)
    assert compare.views[0].number == 3 and compare.views[1].part.kind == 'matched'
    bare, notes = compare_examples(*[examples._replace(frame=examples.frame.with_columns(matched=pl.lit(None, pl.List(pl.Int64))))
                                     for examples in (first, first)])
    assert bare['unit'].unique().to_list() == ['summary'] and 'said to have an error' in notes[0]


def test_wrong_matches_are_called_wrong_where_the_right_one_is_known():
    row = data.load_sample().filter(pl.col('inconsistencies').list.len() > 1).row(0, named=True)
    first, second = ({key: error[key] for key in ('description', 'paraphrase')} for error in row['inconsistencies'][:2])
    example = {'summary': row['summary'], 'gold': [first['description'], second['description']], 'spans': None, 'categories': None,
               'evidence': None, 'predicted': [first['paraphrase'], second['paraphrase'], row['false_alarm']['description'], 'Of our own.']}
    def doubts(matched, **changes): return [(error.kind, error.doubts) for error in errors_of(example | {'matched': matched} | changes)]
    assert doubts([0, 1, None, None]) == [('matched', ('',)), ('matched', ('',)), ('invented', ('',)), ('invented', ('',))]
    assert doubts([1, None, 0, 0])[:2] == [('matched', ('wrong match', '')), ('matched', ('wrong match',))]
    assert doubts([1, None, 0, 0])[2] == ('invented', ('match not seen',))
    assert doubts([None, 0, None, None], gold=[second['description']])[1] == ('invented', ('',))  # its error is not on the list
    assert doubts(None)[-1] == ('predicted', ())
    first, _, third, *_ = errors_of(example | {'matched': [1, None, 0, 0]})
    assert 'Model (✗ wrong match): ' in error_card(first, False).text and '(✗ match not seen)' in error_card(third, False).text
    assert '✗ wrong' not in error_card(first, True).text and 'not seen' not in error_card(third, True).text


def test_finals_table_and_a_form_of_oasis_go_out_and_come_in(tmp_path):
    items = error_items(examples_of([{'gold': ['a', '=b']}]))
    ann = Annotator(items, (MISSED_SCHEME,), tmp_path/'a.jsonl', 'Ann')
    ann.keyboard.value = '12'
    ben = Annotator(items, (MISSED_SCHEME,), tmp_path/'b.jsonl', 'Ben')
    for each in (ann, ben): each.exchange.format.value, each.exchange.target.value = FINAL_TABLE, str(tmp_path/'final')
    ann.exchange.write()
    ben.exchange.read()
    assert '2 labels taken in' in ben.status.value
    assert ben.file.labels().drop('time').equals(ann.file.labels().drop('time'))
    (tmp_path/'final.csv').write_text('run,id\n1,2\n')
    ben.exchange.read()
    assert 'final.csv' in ben.status.value and 'bad' in ben.status.value

    sheet = 'paraphrase\tThe ferry is white.\t\t\nclaim 1\tIt sails.\tx\t\nclaim 2\tIt is white.\t\t\n'
    for name in ('mine', 'other'): (tmp_path/f'{name}.tsv').write_text(sheet.replace('It sails', 'It sinks') if name == 'other' else sheet)
    form = annotate_form(tmp_path/'mine.tsv', annotator='Ann')
    assert form.queue.count(form.mine) == (0, 2) and form.file.labels()['label'].to_list() == ['x']
    form.keyboard.value = 'dvx'  # the wording of claim 1, meaning and wording of claim 2
    form.exchange.write()
    filled = 'paraphrase\tThe ferry is white.\t\t\nclaim 1\tIt sails.\tx\td\nclaim 2\tIt is white.\tv\tx\n'
    assert (tmp_path/'mine-Ann.tsv').read_text() == filled
    assert annotate_form(tmp_path/'mine-Ann.tsv', annotator='Cy').file.labels().height == 4
    form.exchange.target.value = str(tmp_path/'mine-Ann')
    form.exchange.read()
    assert '0 labels taken in' in form.status.value  # they stand there already
    form.exchange.target.value = str(tmp_path/'other')
    form.exchange.read()
    assert 'other.tsv' in form.status.value and 'other texts' in form.status.value


def test_proposals_are_hidden_when_blind_and_are_whose_they_are(tmp_path):
    items = error_items(examples_of([{'gold': ['a', 'b']}]))
    def proposed(unit, label, by): return {'source': items['source'][0], 'row': items['row'][0], 'unit': unit, 'scheme': MISSED_SCHEME.name,
                                           'label': label, 'by': by, 'reason': '<b>why</b>'}
    frame = ITEM_PROPOSALS.frame([proposed('gold:0', 'extrinsic_wrong', '<i>one'), proposed('gold:0', 'extrinsic_correct', 'two'),
                                  proposed('gold:1', 'no such label', 'one')])
    ann = Annotator(items, (MISSED_SCHEME,), tmp_path/'a.jsonl', 'Ann', proposals=frame, sources={'broken': lambda: 1/0})
    lines = ann.proposed.children
    assert [line.children[0].description for line in lines] == ['space  Accept: extrinsic wrong', 'Accept: extrinsic correct']
    assert '&lt;b&gt;why' in lines[0].children[1].value and '&lt;i&gt;one' in lines[0].children[1].value
    assert '(proposed)' in ann.buttons.children[1].description and not ann.mine
    ann.blind.value = True
    ann.keyboard.value = ' '
    assert not ann.proposed.children and not ann.mine and 'blind' in ann.status.value
    assert not any('(proposed)' in button.description for button in ann.buttons.children)
    ann.blind.value = False
    ann.proposed.children[1].children[0].click()
    assert ann.file.labels().select('label', 'proposed_by').rows() == [('extrinsic_correct', 'two')] and ann.at == 1
    ann.keyboard.value += ' '
    assert 'Nothing is proposed' in ann.status.value  # a label that the scheme lacks is no proposal
    ann.ask.run()
    ann.ask.wait()
    assert 'ZeroDivisionError' in ann.ask.task.value and ann.file.labels().height == 1
    ann.at = 0
    assert ann.proposed.children[1].children[0].disabled and 'Accepted' in ann.proposed.children[1].children[0].description
    with pytest.raises(DataError, match='who makes it'): Proposals(ITEM_PROPOSALS.frame([proposed('gold:0', 'extrinsic_wrong', ' ')]))


class Slow:
    "A verifier that waits for leave before each batch."
    name, identity = 'slow', {}

    def __init__(self): self.asked, self.may = [], threading.Semaphore(0)

    def probabilities(self, pairs, store=None):
        assert self.may.acquire(timeout=30)
        self.asked.append(len(pairs))
        return np.tile(np.array([[.1, .8, .1]], np.float32), (len(pairs), 1))


def test_a_text_is_verified_in_steps_and_stopped_between_them(monkeypatch):
    verifier, pad = Slow(), VerificationPad(store=False)
    monkeypatch.setattr('factlab.workbench.scratch.load_verifier', lambda name: verifier)
    monkeypatch.setattr('factlab.workbench.scratch.PAIRS_AT_ONCE', 2)
    pad.run()
    assert 'text is needed' in pad.task.value
    pad.text.value = 'The mill closed in 1931. The <b>mill</b> stood by the river. A miller lived there.'
    pad.extractor.value, pad.retriever.value, pad.k.value = 'sentences', 'bm25', 3
    pad.start.click()
    verifier.may.release()
    deadline = time.monotonic() + 60
    while not verifier.asked and time.monotonic() < deadline: time.sleep(.01)
    assert '3 claims' in pad.result.value and '&lt;b&gt;mill' in pad.result.value and 'looking' in pad.result.value
    pad.halt.click()
    assert not pad.task.busy and 'Stopped' in pad.task.value and not pad.start.disabled
    for _ in range(2): verifier.may.release()
    pad.wait()
    assert len(verifier.asked) <= 2 and pad.verdicts is None and 'Stopped' in pad.task.value  # the batch that was begun, and none after it
    verifier.may = threading.Semaphore(1_000)
    pad.start.click()
    pad.wait()
    assert pad.verdicts.claims.height == 3 and max(verifier.asked) == 2 and pad.result.value.count('○ not in the evidence') == 3
    assert Reader(pad.result.value).tags <= {'p', 'b', 'br', 'bdi', 'div', 'span', 'mark', 'details', 'summary'}
    pad.verifier.value, pad.corpus.value = 'x', 'no/such/corpus'
    pad.start.click()
    pad.wait()
    assert 'no/such/corpus' in pad.task.value and 'bad' in pad.task.value


def test_what_can_be_proposed_comes_with_reasons_and_the_legend_counts_wrong_links():
    examples = sample_examples('dev')
    assert described_errors(examples)['label'].unique().to_list() == ['right']
    assert run_errors(examples).height == examples.frame['errors'].sum()
    row = next(row for row in examples.frame.to_dicts() if row['found'] and len(row['gold']) > 1)
    view = View(ERROR_DRAWING, encoder=None)
    view.show(row | {'matched': [len(row['gold']) - 1 - (to or 0) if to is not None else None for to in row['matched']]})
    assert 'the judge linked wrongly' in view.note.value and 'hatched' in view.note.value
    view.blind = True
    assert 'wrong' not in view.note.value
    view.blind = False
    view.show(row)
    assert 'hatched' not in view.note.value
