"""People check a data set: who reads what, forms out and back, marks with faults, votes, agreement, gold, submissions."""
import json
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as others_kappa

from factlab.core.core import DataError, UsageError
from factlab.data.corpora import OASIS, load_oasis_sample
from factlab.error_analysis import human_evaluation as he
from factlab.error_analysis.annotations import OASIS_FORMS as FORMS
from factlab.error_analysis.annotations import read_oasis as read_in_the_workbench
from factlab.measures.stats import proportion_interval
from factlab.reports.published import published_values

SAFE = st.text(st.characters(exclude_categories=('Cs', 'Cc')), min_size=1, max_size=20).filter(
    lambda text: text.strip() and text.strip().lower() not in {*he.HEADINGS,
        *(name for names in he.TEXT_LINES.values() for name in names)}).map(
    lambda text: ' '.join(text.split()))


def row(name, **others):
    return dict(id=name, page=name, split='test', passage=f'{name} is a grass. It grows.',
                claims=[f'{name} is a grass.', f'{name} grows.', f'{name} is green.'],
                altered=1, falsified=f'{name} shrinks.', factual=f'{name}, a green grass, grows.',
                unfactual=f'{name}, a green grass, shrinks.', page_passages=[]) | others


@pytest.fixture
def oasis(): return OASIS.frame([row(name) for name in 'ABCDEFGH'])


def marks(**given):
    "Marks of one unit by several annotators, as judgements."
    return he.HUMAN_MARKS.frame(dict(task='claims', instance=instance, unit='claim 1', question='claims', annotator=f'annotator {n}',
                                     mark=mark, context='', text='')
                           for instance, each in given.items() for n, mark in enumerate(each) if mark != ' ')


# ---------------------------------------------------------------- who reads what

@given(st.sets(st.text(max_size=4), max_size=30), st.integers(1, 5), st.integers(0, 30))
def test_everything_is_read(ids, number, shared):
    people = [f'p{i}' for i in range(number)]
    if shared > len(ids):
        with pytest.raises(UsageError, match='cannot be shared'): he.assign_rows(ids, people, shared)
        return
    dealt = he.assign_rows(ids, people, shared)
    often = Counter(one for part in dealt.values() for one in part)
    assert set(often) == ids and all(count in (1, number) for count in often.values())
    assert number == 1 or sum(count == number for count in often.values()) == shared
    sizes = [len(part) for part in dealt.values()]
    assert max(sizes) - min(sizes) <= 1 and he.assign_rows(reversed(sorted(ids)), people, shared) == dealt


def test_the_numbers_of_the_paper():
    dealt = he.assign_rows(map(str, range(1850)), list('ABCDE'), 100)
    assert {len(part) for part in dealt.values()} == {450} and len(set.intersection(*map(set, dealt.values()))) == 100
    with pytest.raises(UsageError, match='different names'): he.assign_rows(['1'], ['A', 'A'], 0)


def test_what_there_is_to_judge(oasis):
    items = he.evaluation_instances(oasis)
    assert Counter(items['task']) == {'claims': 24, 'falsification': 8, 'factual_text': 24, 'unfactual_text': 24}
    mine = items.filter(id='A')
    assert mine.filter(task='falsification').select('context', 'text').rows() == [('A grows.', 'A shrinks.')]
    assert mine.filter(task='unfactual_text')['text'].to_list() == ['A is a grass.', 'A shrinks.', 'A is green.']
    assert mine.filter(task='factual_text')['text'].to_list() == oasis['claims'][0].to_list()
    assert set(mine.filter(task='claims')['context']) == {'A is a grass. It grows.'}
    assert he.instance_key('claims', 'a  b', ['c']) == he.instance_key('claims', 'a b', [' c']) != he.instance_key('claims', 'a',
        ['b', 'c'])
    with pytest.raises(UsageError, match="no task 'claim'"): he.evaluation_instances(oasis, ['claim'])


# ---------------------------------------------------------------- forms out and back

def test_forms_come_back(oasis, tmp_path):
    he.write_forms(oasis, tmp_path, ['Ann', 'Ben'], shared=2)
    assert he.read_human_evaluation(tmp_path, partial=True).is_empty()
    with pytest.raises(DataError, match='Ann/claims.tsv: line 2: no mark in claims'): he.read_human_evaluation(tmp_path)
    for path in tmp_path.glob('*/*.tsv'):
        lines = [line.split('\t') for line in path.read_text().split('\n')]
        path.write_text('\n'.join('\t'.join([*cells[:2], *(['v']*len(cells[2:]) if any(cells) and cells[0] not in he.TEXT_LINES[path.stem]
            else cells[2:])]) for cells in lines))
    judged = he.read_human_evaluation(tmp_path)
    assert set(judged['mark']) == {'v'} and Counter(judged.filter(question='claims')['annotator']) == {'Ann': 15, 'Ben': 15}
    known, found = he.evaluation_instances(oasis), judged.select('task', 'instance', 'unit', 'text').unique()
    assert found.join(known, on=['task', 'instance', 'unit', 'text'], how='semi').height == found.height == known.height
    with pytest.raises(DataError, match='is there already and may hold marks'): he.write_forms(oasis, tmp_path, ['Ann'], shared=0)
    assert 'unfactual_text.tsv' in (tmp_path/'guidelines.md').read_text()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(he.EVALUATION_TASKS)), SAFE, st.lists(SAFE, min_size=1, max_size=4), st.data())
def test_any_text_survives_a_form(tmp_path_factory, task, context, texts, choice):
    "Written by the workbench's writer, read here and by the workbench's reader."
    folder = tmp_path_factory.mktemp('forms')
    frame = OASIS.frame([row('A', passage=context, factual=context, unfactual=context, claims=texts, altered=0, falsified=texts[-1])])
    he.write_forms(frame, folder, ['Ann'], shared=0, tasks=[task])
    content = (folder/'Ann'/f'{task}.tsv').read_text(encoding='utf-8')
    given = [choice.draw(st.sampled_from('vx')) for _ in FORMS[task].schemes]
    items = read_in_the_workbench(content, task)[0]
    filled = '\n'.join(line if line.split('\t')[0] in he.TEXT_LINES[task] or not line.strip()
                       else line.rstrip('\t') + '\t' + '\t'.join(given) for line in content.split('\n'))
    judged = he.read_form(filled, task, 'Ann')
    expected = he.evaluation_instances(frame, [task])
    assert judged.unique(['unit'], maintain_order=True).select('instance', 'unit', 'context', 'text').rows() == expected.select('instance',
        'unit', 'context', 'text').rows()
    assert judged['mark'].to_list() == given*expected.height and items['text'].to_list() == expected['text'].to_list()


FORM = 'original.text\tOne. Two.\t\nclaim 1\tOne.\tv\nclaim 2\tTwo.\tx\n'


@pytest.mark.parametrize('content', [FORM.replace('\n', '\r\n'), '\ufeff' + FORM, FORM.replace('\tv', '\tV '),
                                     FORM.replace('. Two.\t\t', '. Two.'), '\n\n' + FORM + '\t\t\n',
    'Identifier\tText\tAnnotation\n' + FORM, FORM.replace('original.text', 'text'), FORM.replace('original.text', 'ORIGINAL_TEXT'),
    FORM.replace('One. Two.\t\t', '"One. Two."')])
def test_ways_to_write_the_same(content):
    judged = he.read_form(content, 'claims', 'Ann')
    assert judged.select('unit', 'text', 'mark', 'context').rows() == [('claim 1', 'One.', 'v', 'One. Two.'),
        ('claim 2', 'Two.', 'x', 'One. Two.')]


def test_quotes_doubled_or_bare():
    bare = 'original.text\t"One" or two.\nclaim 1\tHe said "one.\tv\n'
    doubled = 'original.text\t"""One"" or two."\nclaim 1\t"He said ""one."\tv\n'
    for content in (bare, doubled):
        assert he.read_form(content, 'claims', 'Ann').select('context', 'text').row(0) == ('"One" or two.', 'He said "one.')
    # a line break in a quoted text: lines are those of the file
    broken = 'original.text\t"One\nand two."\nclaim 1\tOne.\tv\nclaim 2\tTwo.\ty\n'
    with pytest.raises(DataError, match="line 4: the mark 'y'"): he.read_form(broken, 'claims', 'Ann')


def test_a_text_that_is_left_out_takes_its_claims_along():
    form = 'paraphrase\tOne.\td\nclaim 1\tOne.\t\t\nclaim 2\tTwo.\tv\tx\n'
    assert he.read_form(form, 'factual_text', 'Ann')['mark'].to_list() == ['d']*4
    assert he.read_form(form.replace('\td\n', '\n').replace('\t\t\n', '\td\t\n'), 'factual_text', 'Ann')['mark'].to_list() == ['d', 'd',
        'v', 'x']


def test_the_text_may_stand_last():  # as in Table E.3
    judged = he.read_form('claim 1\tOne.\tv\tx\nparaphrase\tA text.\n', 'factual_text', 'Ann')
    assert judged.select('question', 'mark').rows() == [('factual_text/meaning', 'v'), ('factual_text/wording', 'x')]


@pytest.mark.parametrize(('task', 'content', 'words'), [
    ('claims', FORM.replace('\tx', '\tmaybe'), "line 3: the mark 'maybe' in claims is none of v, x, d"),
    ('claims', FORM.replace('\tx', ''), 'line 3: no mark in claims'),
    ('claims', FORM.replace('\tx', '\tvx'), "line 3: the mark 'vx'"),
    ('claims', FORM.replace('\tx', '\tx\t\tsee below'), 'line 3: 5 columns, expected 3'),
    ('claims', FORM.replace('claim 2', 'claim 1'), "2 claims are called 'claim 1'"),
    ('claims', FORM.replace('claim 2\tTwo.', '\tTwo.'), 'line 3: expected the name of a claim'),
    ('claims', FORM.replace('Two.\tx', '\tx'), 'line 3: expected the name of a claim, the claim'),
    ('claims', FORM.split('claim')[0], '1 lines called .* and 0 claims'),
    ('claims', FORM + FORM, '2 lines called .* and 4 claims: expected one .* empty line between instances'),
    ('claims', FORM + '\n' + FORM, 'line 5: the instance of line 1 once more'),
    ('claims', FORM.replace('One. Two.\t\n', '\n'), 'line 1: original.text without a text'),
    ('claims', FORM.replace('Two.\t\n', 'Two.\tx\n'), 'only d is expected'),
    ('claims', '', 'holds no instances'), ('claims', 'Identifier\tText\n', 'holds no instances'),
    ('claims', 'just prose', '0 lines called'),
    ('falsification', 'One.\tUno.\tv\nTwo.\n', 'line 2: expected a claim, its falsified version'),
    ('falsification', 'One.\tUno.\tq\n', 'line 1: the mark'),
    ('falsification', 'One.\tUno.\tv\n\nOne.\tUno.\tx\n', 'line 3: the instance of line 1 once more'),
    ('factual_text', 'paraphrase\tOne.\nclaim 1\tOne.\tv\n', 'line 2: no mark in factual_text, wording'),
    ('unfactual_text', FORM, '0 lines called .unfactual.text')])
def test_faults_are_named_with_their_line(task, content, words):
    with pytest.raises(DataError, match='Ann.tsv.*' + words): he.read_form(content, task, 'Ann', 'Ann.tsv')


def test_many_faults_are_said_at_once():
    with pytest.raises(DataError, match='line 2: .*line 3: .*line 6: .*; and 27 more') as caught:
        he.read_form('\n'.join(f'original.text\tText {i}.\nclaim 1\tOne.\t?\nclaim 2\tTwo.\t\n' for i in range(16)), 'claims', 'Ann')
    assert len(str(caught.value)) < 600


def test_folders_that_are_none(tmp_path):
    with pytest.raises(DataError, match='there is no folder'): he.read_human_evaluation(tmp_path/'nowhere')
    with pytest.raises(DataError, match='holds no forms'): he.read_human_evaluation(tmp_path)
    (tmp_path/'Ann').mkdir()
    (tmp_path/'Ann'/'claim.tsv').write_text(FORM)
    with pytest.raises(DataError, match='form of no task: .*claims.tsv, falsification.tsv'): he.read_human_evaluation(tmp_path)
    (tmp_path/'Ann'/'claim.tsv').rename(tmp_path/'Ann'/'claims.tsv')
    (tmp_path/'Ann'/'claims.tsv').write_bytes(FORM.encode() + b'\xff')
    with pytest.raises(DataError, match='is not UTF-8'): he.read_human_evaluation(tmp_path)
    with pytest.raises(UsageError, match="no task 'claim'"): he.read_form(FORM, 'claim', 'Ann')


def test_hostile_texts_stay_texts():
    text = '<script>alert(1)</script> {x} %s \\n $(rm) =1+1 ' + 'long '*60_000  # a cell beyond what the CSV reader takes
    judged = he.read_form(f'original.text\t{text}\nclaim 1\t{text}\tv\n', 'claims', 'Ann')
    assert judged['context'].item() == judged['text'].item() == text.strip()


# ---------------------------------------------------------------- votes, accuracy, agreement

@given(st.lists(st.sampled_from('vxd'), min_size=1, max_size=7))
def test_the_majority_decides(each):
    counts = Counter(each)
    expected = 'd' if counts['d'] > len(each)/2 else 'v' if counts['v'] > counts['x'] else 'x' if counts['x'] > counts['v'] else None
    found = he.majority_marks(marks(one=each)).row(0, named=True)
    assert found['verdict'] == expected and (found['v'], found['x'], found['d']) == (counts['v'], counts['x'], counts['d'])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from('vxd'), min_size=3, max_size=3), min_size=1, max_size=20))
def test_kappa_is_that_of_statsmodels(rows):
    judged = marks(**{f'i{n}': each for n, each in enumerate(rows)})
    cells = {cell['column']: cell for cell in he.evaluation_cells(judged)[0]}
    with np.errstate(all='ignore'): theirs = others_kappa(aggregate_raters(np.array(rows))[0])
    if 'Fleiss κ' in cells: assert np.isclose(cells['Fleiss κ']['measured'], theirs) and cells['Fleiss κ']['n'] == len(rows)
    else: assert not np.isfinite(theirs) and 'κ has no value' in he.evaluation_cells(judged)[1][0]


def test_accuracy_and_what_is_not_decided():
    judged = marks(a='vvv', b='vxx', c='vx', d='ddd', e='v', f='vvx')
    cells, notes = he.evaluation_cells(judged)
    by_column = {cell['column']: cell for cell in cells}
    assert by_column['Accuracy (%)']['measured'] == pytest.approx(100*3/4) and by_column['Accuracy (%)']['n'] == 4
    assert by_column['Instances']['measured'] == 6 and by_column['Shared by all']['measured'] == 4  # c and e were not read by all three
    assert by_column['Fleiss κ']['n'] == 4 and notes == ['Claim Extraction: 2 undecided or left out, and not among the n']
    low, high = by_column['Accuracy (%)']['low'], by_column['Accuracy (%)']['high']
    assert low < 75 < high


def test_one_annotator_and_no_overlap():
    assert he.evaluation_cells(marks(a='v', b='x'))[1] == ['Claim Extraction: κ has no value (one annotator)']
    assert he.evaluation_cells(marks(a='v ', b=' x'))[1] == ['Claim Extraction: κ has no value (nothing was marked by all)']
    assert he.evaluation_cells(marks(a='vv',
                                     b='vv'))[1] == ['Claim Extraction: κ has no value (all 4 marks on 2 shared items are the same)']
    assert he.evaluation_cells(he.HUMAN_MARKS.frame()) == ([], [])


def test_claims_of_one_text_are_resampled_together():
    "Ten claims in one instance say less than ten claims in ten."
    def one(instance, unit, mark):
        return dict(task='claims', instance=instance, unit=unit, question='claims', annotator='A', mark=mark, context='', text='')
    together = he.HUMAN_MARKS.frame(one(f'i{n//10}', f'claim {n%10}', 'v' if n//10 % 4 else 'x') for n in range(200))
    apart = he.HUMAN_MARKS.frame(one(f'i{n}', 'claim 1', 'v' if n % 4 else 'x') for n in range(200))
    wide, narrow = (he.accuracy(he.majority_marks(judged)) for judged in (together, apart))
    assert wide.estimate == narrow.estimate == .75 and wide.n == narrow.n == 200 and wide.high - wide.low > 2*(narrow.high - narrow.low)


def test_where_all_is_right_the_interval_is_that_of_the_instances():
    "Resamples do not differ, so Wilson's interval stands in: of 20 instances, not of their 40 claims, which are not independent."
    def one(at, mark): return dict(task='claims', instance=f'i{at//2}', unit=f'claim {at%2}', question='claims', annotator='A', mark=mark,
                                   context='', text='')
    for mark, low, high in (('v', proportion_interval(20, 20).low, 1), ('x', 0, proportion_interval(0, 20).high)):
        found = he.accuracy(he.majority_marks(he.HUMAN_MARKS.frame(one(at, mark) for at in range(40))))
        assert (found.low, found.high, found.n) == (pytest.approx(low), pytest.approx(high), 40)
    cell = he.evaluation_cells(he.HUMAN_MARKS.frame(one(at, 'v') for at in range(40)))[0][0]
    assert (cell['measured'], cell['n']) == (100, 40) and cell['low'] == pytest.approx(83.887, abs=.001) and cell['high'] == 100


# ---------------------------------------------------------------- the sample's two readings, and submissions

def test_the_readings_that_ship():
    judged = he.read_human_evaluation()
    assert set(judged['annotator']) == {'first-reading', 'second-reading'} and set(judged['task']) == set(he.EVALUATION_TASKS)
    known = he.evaluation_instances(load_oasis_sample())
    keys = ['task', 'instance', 'unit']
    assert judged.join(known, on=keys, how='anti').is_empty()  # forms and sample hold the same texts
    named, _ = he.evaluation_cells(judged, readers=he.SAMPLE_READERS)
    assert {cell['status'] for cell in named} == {'illustrated'}  # language models read them: never in the annotators' rows
    assert not {cell['row'] for cell in named} & set(published_values('oasis/table3')['row'])
    cells, _ = he.evaluation_cells(judged)
    printed = set(published_values('oasis/table3').select('row', 'column').rows())
    ours = {(cell['row'], cell['column']) for cell in cells}
    assert {(row, 'Accuracy (%)') for row in he.EVALUATION_TASKS.values()} <= ours & printed
    assert {cell['column']: cell['measured'] for cell in cells if cell['row'] == 'Claim Extraction'}['Instances'] == 20


def test_submissions():
    frame = pl.DataFrame({'id': ['b', 'a"\u2028'], 'factual': [False, True], 'probability': [.2, .8]})
    assert [json.loads(line) for line in he.submission(frame, ['a"\u2028', 'b']).split('\n')[:-1]] == [{'id': 'b', 'factual': False},
        {'id': 'a"\u2028', 'factual': True}]


@pytest.mark.parametrize(('columns', 'words'), [
    ({'id': ['a'], 'factual': [True]}, "1 of 2 ids of the gold set are missing: .'b'"),
    ({'id': ['a', 'b', 'c'], 'factual': [True]*3}, "1 ids are not in the gold set: .'c'"),
    ({'id': ['a', 'a', 'b'], 'factual': [True]*3}, "1 ids with several verdicts: .'a'"),
    ({'id': ['a', 'b'], 'factual': [True, None]}, "1 ids without a verdict: .'b'"),
    ({'id': ['a', 'b', ' '], 'factual': [True]*3}, '1 rows without an id'),
    ({'id': ['a', 'b', None], 'factual': [True]*3}, '1 rows without an id'),
    ({'id': [1, 2], 'factual': [True]*2}, 'needs the columns id .text.'),
    ({'id': ['a', 'b'], 'factual': ['True', 'False']}, 'needs the columns'),
    ({'id': ['a', 'b']}, 'needs the columns')])
def test_submissions_that_do_not_fit(columns, words):
    with pytest.raises(DataError, match=words): he.submission(pl.DataFrame(columns), ['a', 'b'])
    with pytest.raises(DataError, match='no rows'): he.submission(pl.DataFrame(schema={'id': pl.String, 'factual': pl.Boolean}))
