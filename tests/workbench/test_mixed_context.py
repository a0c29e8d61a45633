"""The view of mixed contexts without a browser: answers and filters against loops, hostile and damaged input, blindness, many rows."""
import re
import time

import polars as pl
import pytest
from hostile_texts import hostile
from hypothesis import given, settings
from hypothesis import strategies as st
from workbench.test_widgets import html_of, only_text

from factlab.cli.lab import lab_notebook
from factlab.core.core import DataError, UsageError
from factlab.data.datasets import load
from factlab.mixed_context.judges import DirectJudge, verdict_json
from factlab.mixed_context.labels import FACTUAL, LABELS, MIXED_PREDICTIONS, NON_FACTUAL, NONE, TRACES, UNNAMED
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import make_run
from factlab.runs.runs import Run
from factlab.workbench.mixed_cases import claims_of, entries_for, evidence_marks, example_cases, mixed_cases, run_cases
from factlab.workbench.mixed_context import (
    MAX_CLAIMS,
    SHOW_MIXED,
    SORT_MIXED,
    UNKNOWN,
    browse_cases,
    case_listing,
    legend_html,
    method_counts,
    totals_html,
)
from factlab.workbench.table import select_rows

KNOWLEDGE = {'entity': pl.String, 'aliases': pl.List(pl.String), 'description': pl.String, 'text': pl.String}


def rows_of(labels: list[str|None], **more: list) -> pl.DataFrame:
    texts = [f'The mill number {n} opened in 1901. It stood by the river.' for n in range(len(labels))]
    base = {'id': [str(n) for n in range(len(labels))], 'document': texts, 'summary': [text[:-1] for text in texts], 'label': labels}
    return pl.DataFrame(base | more, schema_overrides={name: pl.String for name in base})

def said(id: str, label: str|None, **more) -> dict:
    base = {'id': id, 'status': 'ok' if label else 'unparsed', 'reason': '', 'label': label, 'faithful': None, 'factual': None, 'calls': 1,
            'prompt_tokens': 1, 'completion_tokens': 1, 'answer': ''}
    return base | more

def step(id: str, number: int, **more) -> dict:
    base = {'id': id, 'claim_number': number, 'claim': f'Claim {number}.', 'step': 1, 'query': 'What?', 'source': 'document',
            'entity': None, 'rank': None, 'score': None, 'evidence': None, 'relevant': None, 'relation': None, 'reason': '',
            'claim_label': None}
    return base | more


ANSWER = st.one_of(st.just('missing'), st.none(), st.sampled_from([*LABELS, UNNAMED, 'nonsense']))
DRAWN = st.lists(st.tuples(st.one_of(st.none(), st.sampled_from(LABELS)), st.lists(ANSWER, min_size=3, max_size=3)), min_size=1, max_size=6)

@settings(max_examples=60, deadline=None)
@given(DRAWN)
def test_outcomes_counts_and_filters_are_what_a_loop_finds(drawn):
    names = ('A', 'B', 'C')
    predictions = {name: MIXED_PREDICTIONS.frame(said(str(n), answers[at]) for n, (_, answers) in enumerate(drawn)
                                                 if answers[at] != 'missing') for at, name in enumerate(names)}
    cases = mixed_cases(rows_of([label for label, _ in drawn]), predictions)
    def outcome(gold, answer):
        if answer == 'missing': return 'missing'
        if answer in (None, 'nonsense'): return 'unread'
        return 'unlabelled' if gold is None else 'right' if answer == gold else 'wrong'
    expected = [[outcome(gold, answer) for answer in answers] for gold, answers in drawn]
    assert cases.answers['outcome'].to_list() == [each for row in expected for each in row]
    differ = [len({answer for answer in answers if answer in (*LABELS, UNNAMED)}) > 1 for _, answers in drawn]
    assert cases.frame['differ'].to_list() == differ
    listing = case_listing(cases)
    def chosen(*args, **more): return select_rows(listing, *args, **more).tolist()
    assert chosen('methods differ') == [n for n, each in enumerate(differ) if each]
    for show, wanted in (('an answer is wrong', 'wrong'), ('an answer is right', 'right'), ('an answer is unread', 'unread')):
        assert chosen(show) == [n for n, row in enumerate(expected) if wanted in row]
        assert chosen(show, method='B') == [n for n, row in enumerate(expected) if row[1] == wanted]
    assert chosen('answered by all methods') == [n for n, row in enumerate(expected) if 'missing' not in row]
    assert chosen(label=UNKNOWN) == [n for n, (gold, _) in enumerate(drawn) if gold is None]
    common = [n for n, row in enumerate(expected) if 'missing' not in row and drawn[n][0] is not None]
    counts = method_counts(cases)
    assert counts['common'].to_list() == [len(common)]*3
    assert counts['common_right'].to_list() == [sum(expected[n][at] == 'right' for n in common) for at in range(3)]
    assert counts['right'].to_list() == [sum(row[at] == 'right' for row in expected) for at in range(3)]
    for show in SHOW_MIXED:
        for sort in SORT_MIXED: assert set(chosen(show, sort=sort)) <= set(range(len(drawn)))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30), st.integers(-3, 40), st.integers(-3, 40))
def test_only_spans_that_lie_in_their_summary_are_marked(summary, start, end):
    cases = mixed_cases(rows_of([None], summary=[summary], start=[start], end=[end]))
    inside = 0 <= start < end <= len(summary)
    assert cases.frame['starts'].to_list() == [[start] if inside else []]
    assert any('do not lie' in note for note in cases.notes) is not inside
    shown = browse_cases(cases).view.summary.value
    assert ('class="evidence"' in shown) is inside


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 3))
def test_evidence_is_marked_where_it_stands(before, after, others):
    document = f'{before} The mill\nopened in 1901. {after}'
    rows = rows_of([NONE], document=[document])
    found = [step('0', 1, evidence='Mill: a building', source='knowledge', entity='Mill')]*others
    trace = TRACES.frame([*found, step('0', 1, evidence='the mill opened in 1901.'), step('0', 1, evidence='It is nowhere said @@.')])
    claim, = claims_of(mixed_cases(rows, {'A': MIXED_PREDICTIONS.frame()}, {'A': trace}), 0, 'A')
    marks, lost = evidence_marks(claim, document)
    assert {mark.number for mark in marks} == {others + 1} and lost == [others + 2]
    assert ' '.join(document[marks[0].start:marks[0].end].split()).lower() == 'the mill opened in 1901.'


def test_frames_that_do_not_fit_are_refused_by_name():
    rows, one = rows_of([NONE, None]), MIXED_PREDICTIONS.frame([said('0', NONE)])
    for wrong, message in (((rows.drop('summary'),), 'summary'), ((rows.with_columns(id=pl.lit('0')),), 'twice'),
                           ((rows.with_columns(label=pl.lit('odd')),), 'odd'), ((rows, {'A': one.drop('status')}), 'status'),
                           ((rows, {'A': pl.concat([one, one])}), 'two predictions'), ((rows, {'A': one}, {'B': TRACES.frame()}), "'B'"),
                           ((rows, {'A': one}, {'A': TRACES.frame().drop('query')}), 'query'),
                           ((rows, {'A': one}, None, pl.DataFrame({'entity': ['x']})), 'knowledge')):
        with pytest.raises(DataError, match=message): mixed_cases(*wrong)
    with pytest.raises(UsageError, match='no filter'): select_rows(case_listing(mixed_cases(rows)), 'nothing')


def test_gaps_are_shown_and_counted():
    rows = rows_of([FACTUAL, None, NONE], document=['The mill opened.', None, ''])
    failed = said('0', None, status='failed', reason='the server said 500')
    answers = {'A': MIXED_PREDICTIONS.frame([failed, said('1', NONE), said('9', NONE)]),
               'B': MIXED_PREDICTIONS.frame()}
    trace = TRACES.frame([step('0', 1), step('0', 2, evidence='The mill opened.', rank=1, score=.5), step('7', 1)])
    bench = browse_cases(rows, answers, {'A': trace, 'B': TRACES.frame()})
    notes = ' '.join(bench.cases.notes)
    assert '1 of 3 rows have no document' in notes and "'9'" in notes and "'7'" in notes and '1 of 3 summaries have no label' in notes
    assert all(words in bench.view.head.value for words in ('failed', 'the server said 500', '· not answered'))
    assert 'no evidence found' in bench.view.cards.children[0].description and 'no evidence for claim 1' in bench.view.source.value
    assert '0 answered by all' in totals_html(bench.cases) and method_counts(bench.cases)['common'].to_list() == [0, 0]
    bench.table.selected = 1
    assert 'it is empty' in bench.view.source.value and 'traced none' in bench.view.note.value and '– not compared' in bench.view.head.value
    bare = browse_cases(rows.drop('label'), answers)
    assert 'No method came with a trace' in bare.view.note.value and bare.view.whose.layout.display == 'none'
    for empty in (browse_cases(rows[:0], answers), browse_cases(rows[:0])):
        assert 'no rows fit' in empty.table.paged.count.value and empty.view.example is None
    assert 'No method was asked' in browse_cases(rows).view.head.value


def test_hostile_text_in_every_field_is_escaped_in_every_part():
    texts = [text.replace('\ud83d', '') for text in hostile()]
    rows = pl.DataFrame({name: texts for name in ('id', 'split', 'document', 'summary')})
    answers = MIXED_PREDICTIONS.frame(said(text, None, status=text, reason=text, answer=text) for text in texts)
    trace = TRACES.frame(step(text, n, claim=text, query=text, source=source, entity=text, evidence=text, relation=text, reason=text,
                              claim_label=text) for text in texts for n, source in enumerate((text, 'document', 'knowledge'), 1))
    known = pl.DataFrame([{'entity': text, 'aliases': [text], 'description': text, 'text': text} for text in texts], KNOWLEDGE)
    bench = browse_cases(rows, {text: answers for text in texts}, {text: trace for text in texts}, known)
    seen = ''
    for place in range(len(texts)):
        bench.table.selected = place
        seen += html_of(bench)
    bench.annotator.blind.value = True
    only_text(seen + html_of(bench))


def test_blind_tells_nothing_that_methods_or_annotators_concluded():
    bench = browse_cases(example_cases(), blind=True)
    kept = 'Trace of claim'
    for place in range(3):
        bench.table.selected = place
        for name in ('knowledge', 'reflection'):
            bench.view.whose.value = name
            for number in range(1, len(bench.view.found) + 1):
                bench.view.number = number
                cards = ' '.join(f'{card.description} {card.tooltip}' for card in bench.view.cards.children)
                shown = html_of(bench.view) + cards + bench.table.paged.table.value + str(bench.table.paged.radios.options)
                assert kept in shown and 'query:' in shown
                for hidden in (*LABELS, UNNAMED, 'supports', 'contradicts', 'not relevant', 'right', 'wrong', 'unparsed', 'A physicist',
                               'class="evidence"', bench.view.example['id'] + '<'):
                    assert hidden not in shown, (hidden, place, name)
                assert not re.search(r'mark class="c\d', shown)
    bench.annotator.blind.value = False
    assert NONE in html_of(bench.view) and '✗ factual' not in bench.table.paged.table.value


def test_keys_and_rows_move_the_view_and_the_legend_has_words():
    bench = browse_cases(example_cases())
    typed = ''
    for key, place, number in (('n', 1, 1), ('m', 1, 1), ('.', 1, 2), ('.', 1, 2), (',', 1, 1), ('j', 2, 1), ('p', 1, 1), ('x', 1, 1)):
        typed += key
        bench.annotator.keyboard.value = typed
        assert (bench.table.selected, bench.view.example['place'], bench.view.number) == (place, place, number)
    assert all(word in legend_html() for word in ('supports', 'contradicts', 'not relevant', NON_FACTUAL))
    bench.table.search.value = 'nobel'  # only what methods and rows say is searched
    assert bench.table.places.tolist() == []
    bench.table.search.value = 'BRAZILIAN FOOT'
    assert bench.table.places.tolist() == [1]


def test_a_name_with_several_entries_shows_all_and_parts_of_words_show_none():
    known = pl.DataFrame([('Mill', ['The Mill'], 'a building', None), ('Mill', None, 'a philosopher', 'He wrote.'),
                          ('C++ (language)', [], 'a language', None), ('', [''], 'nothing', None)], KNOWLEDGE, orient='row')
    cases = mixed_cases(rows_of([NONE]), knowledge=known)
    assert [entry['description'] for entry in entries_for(cases, 'The mill turns.')] == ['a building', 'a philosopher']
    assert entries_for(cases, 'The miller sleeps.') == [] and len(entries_for(cases, 'Of C++ (language), no more')) == 1
    assert 'the mill' in cases.names['name'].to_list() and entries_for(cases, 'x', ['', 'mill'])[0]['entity'] == 'Mill'


def test_many_summaries_methods_and_claims_open_quickly():
    size = 1_300
    rows = rows_of([LABELS[n%3] for n in range(size)])
    answers = {f'method {m}': MIXED_PREDICTIONS.frame(said(str(n), LABELS[(n + m)%3]) for n in range(size)) for m in range(10)}
    trace = TRACES.frame(step(str(n), c, evidence=rows['document'][n], rank=1, score=.5) for n in range(size) for c in range(1, 5))
    started = time.perf_counter()
    bench = browse_cases(rows, answers, {'method 0': trace, 'method 1': trace})
    made = time.perf_counter() - started
    started = time.perf_counter()
    for _ in range(30): bench.table.step(1)
    bench.table.show_.value = 'methods differ'
    bench.table.paged.turn(40)
    stepped = time.perf_counter() - started
    assert '1–25 of' not in bench.table.paged.count.value and bench.table.places.shape == (size,)
    assert made < 10 and stepped < 10, f'{made:.1f} s to open, {stepped:.1f} s for 30 rows and a filter'
    many = TRACES.frame(step('0', c, evidence=f'It is {c}.') for c in range(1, 400))
    long = browse_cases(rows[:1], {'A': MIXED_PREDICTIONS.frame()}, {'A': many})
    assert len(long.view.cards.children) == MAX_CLAIMS and 'of 399 claims' in long.view.summary.value


def test_a_run_is_shown_beside_the_others_on_its_rows(tmp_path):
    "Of a method that answered twice the newer run; none on other rows, and none that is no judge of mixed contexts."
    sample = load('fhsum-sample')
    def judged(name: str, faithful: bool, split: str = 'test') -> Run:
        rows = sample.filter(split=split).head(5)
        model = ScriptedModel(name, lambda request: verdict_json(faithful, True))
        return make_run(rows, DirectJudge('vanilla'), model, dataset='sample', store=False, folder=tmp_path/'runs')
    run = judged('one', False)
    judged('two', True), judged('three', True, 'dev')
    cases = run_cases(run)
    assert cases.methods == ('vanilla · one', 'vanilla · two') and not cases.notes and cases.run == 'sample'
    assert cases.frame.height == 5 and cases.frame['document'].str.len_chars().min() > 100
    assert cases.answers.filter(method='vanilla · two')['label'].to_list() == [NONE]*5
    code = lab_notebook(run.id, run.folder.parent)[1][1][1]
    assert 'browse_cases(run_cases(load_run(' in code
