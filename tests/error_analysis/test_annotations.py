"""Labels survive: two annotators at once, a killed process, a full disk, a torn line; and every format brings them back."""
# ruff: noqa: E501  long lines inside texts
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import polars as pl
import pytest
from hostile_texts import hostile
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.error_analysis.annotations import (
    FALSE_ALARM_SCHEME,
    MISSED_SCHEME,
    OASIS_FORMS,
    REVIEW_SCHEME,
    LabelFile,
    LabelScheme,
    category_proposals,
    error_labels,
    from_error_labels,
    labels_frame,
    read_final,
    read_labels,
    read_oasis,
    read_oasis_file,
    write_final,
    write_labels,
    write_oasis,
)
from factlab.error_analysis.categories import PROPOSALS
from factlab.text.words import normal_text


def item(n: int, kind: str = 'missed', text: str = 'The year is wrong.') -> dict:
    return {'source': 'run', 'row': f'row {n}', 'unit': 'gold:0', 'kind': kind, 'text': text}


WRITER = """
import sys
from factlab.error_analysis.annotations import LabelFile, MISSED_SCHEME
file, who = LabelFile(sys.argv[1]), sys.argv[2]
for n in range(int(sys.argv[3])):
    file.put({'source': 'run', 'row': f'row {n}', 'unit': 'gold:0', 'kind': 'missed', 'text': 'x'*500}, MISSED_SCHEME, MISSED_SCHEME.labels[n % 4].name, who)
    print(n, flush=True)
"""


def test_annotators_in_several_processes_lose_nothing(tmp_path):
    path = tmp_path/'labels.jsonl'
    processes = [subprocess.Popen([sys.executable, '-c', WRITER, path, who, '40'], stdout=subprocess.DEVNULL)
                 for who in ('Ann', 'Ben', 'Cleo')]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    file = LabelFile(path)
    labels = file.labels()
    assert file.faults == 0 and labels.group_by('annotator').len().sort('annotator')['len'].to_list() == [40, 40, 40]
    assert labels.filter(pl.col('row') == 'row 6')['label'].unique().to_list() == [MISSED_SCHEME.labels[2].name]


def test_threads_with_one_file_each_see_each_others_labels(tmp_path):
    files = [LabelFile(tmp_path/'labels.jsonl') for _ in range(3)]
    def work(n): [files[n].put(item(k), REVIEW_SCHEME, 'right', f'annotator {n}') for k in range(20)]
    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert all(file.labels().equals(files[0].labels()) for file in files) and files[0].labels().height == 60


def test_what_put_returned_from_outlives_kill_9(tmp_path):
    path = tmp_path/'labels.jsonl'
    process = subprocess.Popen([sys.executable, '-c', WRITER, path, 'Ann', '100000'], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.strip() == '25': break
    process.kill()
    process.wait()
    labels = LabelFile(path).labels()
    assert {f'row {n}' for n in range(26)} <= set(labels['row'])
    LabelFile(path).put(item(7), MISSED_SCHEME, 'extrinsic_wrong', 'Ben')  # the lock of the dead is free
    assert LabelFile(path).labels().height == labels.height + 1


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from factlab.error_analysis.annotations import LabelFile, MISSED_SCHEME
from factlab.core.core import DataError
file = LabelFile(sys.argv[1])
for n in range(20):
    try: file.put({'source': 'run', 'row': f'row {n}', 'unit': 'gold:0', 'kind': 'missed', 'text': 'x'*100}, MISSED_SCHEME, 'extrinsic_wrong', 'Ann')
    except DataError as error:
        print(n, error)
        break
"""


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='needs limits on file sizes')
def test_a_label_that_does_not_fit_on_the_disk_is_refused_whole(tmp_path):
    path = tmp_path/'labels.jsonl'
    said = subprocess.run([sys.executable, '-c', FULL, path], capture_output=True, text=True, check=True).stdout
    failed = int(said.split()[0])
    assert 0 < failed < 20 and 'could not be saved' in said
    file = LabelFile(path)
    assert file.labels().height == failed and file.faults == 0 and path.read_bytes().endswith(b'\n')


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(['Ann', 'Ben']), st.integers(0, 2), st.sampled_from([None, 'right', 'wrong', 'undo'])),
                max_size=25))
def test_undo_is_what_a_history_of_states_says(actions):
    with tempfile.TemporaryDirectory() as folder:
        file, state, history = LabelFile(Path(folder)/'labels.jsonl'), {}, {'Ann': [], 'Ben': []}
        for who, n, action in actions:
            if action == 'undo':
                record = file.undo(who)
                assert (record is None) == (not history[who])
                if history[who]:
                    key, before = history[who].pop()
                    state[key] = before
            else:
                history[who].append(((who, f'row {n}'), state.get((who, f'row {n}'))))
                state[who, f'row {n}'] = action
                file.put(item(n), REVIEW_SCHEME, action, who)
        expected = {key: label for key, label in state.items() if label is not None}
        for read in (file, LabelFile(file.path)):
            assert {(row['annotator'], row['row']): row['label'] for row in read.labels().iter_rows(named=True)} == expected


@pytest.mark.parametrize('line', [b'{"annotator": "Ann"', b'[]', b'null', b'\xff\xfe\x00',
                                  b'{"annotator": 1, "scheme": 2, "source": 3, "row": 4, "unit": 5, "label": []}', b'{}', b'9'*5000])
def test_a_damaged_line_costs_that_line(tmp_path, line):
    file = LabelFile(tmp_path/'labels.jsonl')
    file.put(item(0), MISSED_SCHEME, 'extrinsic_wrong', 'Ann')
    with file.path.open('ab') as handle: handle.write(line + b'\n')
    file.put(item(1), MISSED_SCHEME, 'extrinsic_wrong', 'Ann')
    assert file.faults == 1 and LabelFile(file.path).labels().height == 2


def test_a_file_that_was_replaced_or_removed_is_read_anew(tmp_path):
    file, other = LabelFile(tmp_path/'a.jsonl'), LabelFile(tmp_path/'b.jsonl')
    file.put(item(0), MISSED_SCHEME, 'extrinsic_wrong', 'Ann')
    for n in range(3): other.put(item(n), MISSED_SCHEME, 'extrinsic_correct', 'Ben')
    other.path.replace(file.path)
    assert file.labels()['annotator'].to_list() == ['Ben']*3
    file.path.unlink()
    assert file.labels().is_empty() and file.put(item(0), MISSED_SCHEME, 'extrinsic_wrong', 'Ann')['label'] == 'extrinsic_wrong'


def test_wrong_labels_and_nameless_annotators_are_refused(tmp_path):
    file = LabelFile(tmp_path/'labels.jsonl')
    with pytest.raises(UsageError, match='no label'): file.put(item(0), MISSED_SCHEME, 'omission', 'Ann')
    with pytest.raises(UsageError, match='who is labelling'): file.put(item(0), MISSED_SCHEME, 'extrinsic_wrong', '  ')
    with pytest.raises(UsageError, match="'n'"): LabelScheme('mine', (('N', 'no'),))
    assert not file.path.exists()


@pytest.mark.parametrize('ending', ['.jsonl', '.csv', '.tsv', '.parquet'])
def test_every_format_brings_hostile_labels_back(tmp_path, ending):
    file = LabelFile(tmp_path/'labels.jsonl')
    for n, text in enumerate([*hostile(), '', '=1+1', '"', '\t', 'a\r\nb', 'NULL', '1e5', '🌍'*10]):
        file.put(item(n, text=text.replace('\ud83d', '')) | {'row': f'{n} {text}'.replace('\ud83d', '')}, REVIEW_SCHEME, 'unclear',
                 f'Ann "{text[:9]}"')
    labels = file.labels()
    assert read_labels(write_labels(labels, tmp_path/f'out{ending}')).equals(labels)
    assert LabelFile(file.path).labels().equals(labels)


def test_tables_with_other_columns_are_refused(tmp_path):
    (tmp_path/'labels.csv').write_text('a,b\n1,2\n')
    with pytest.raises(DataError, match='schema'): read_labels(tmp_path/'labels.csv')
    with pytest.raises(DataError, match='there is no'): read_labels(tmp_path/'none.parquet')
    (tmp_path/'labels.xlsx').write_text('a')
    with pytest.raises(UsageError, match='end'): read_labels(tmp_path/'labels.xlsx')


def test_error_labels_are_counted_as_they_were_given(tmp_path):
    file = LabelFile(tmp_path/'labels.jsonl')
    for n in range(12): file.put(item(n), MISSED_SCHEME, MISSED_SCHEME.labels[n % 3].name, 'Ann')
    for n in range(5): file.put(item(n, 'invented') | {'unit': 'predicted:0'}, FALSE_ALARM_SCHEME, 'omission', 'Ann')
    file.put(item(0), REVIEW_SCHEME, 'right', 'Ann')
    table = error_labels(file.labels())
    assert dict(table.group_by('category').len().iter_rows()) == {'extrinsic_correct': 4, 'extrinsic_wrong': 4, 'intrinsic_alteration': 4,
        'omission': 5}
    back = LabelFile(tmp_path/'back.jsonl')
    assert back.add(from_error_labels(table, time='2026-01-01T00:00:00+00:00')) == 17 and error_labels(back.labels()).equals(table)
    for column, value in (('side', 'found'), ('category', 'omission')):
        with pytest.raises(DataError): from_error_labels(table.filter(pl.col('side') == 'missed').with_columns(pl.lit(value).alias(column)))


TEXT = st.text(st.characters(exclude_categories=('Cs', 'Cc')), min_size=1, max_size=30).filter(lambda text: text.strip())

@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(OASIS_FORMS)), st.lists(st.tuples(TEXT,
    st.lists(st.tuples(TEXT, TEXT, st.sampled_from('vxd '), st.sampled_from('vx ')), min_size=1, max_size=4)), min_size=1, max_size=3))
def test_oasis_forms_come_back_as_they_were(task, instances):
    form, lines = OASIS_FORMS[task], []
    for text, claims in instances:
        block = [[form.identifier, text.strip(), *['']*len(form.schemes)]] if form.identifier else []
        for n, (first, second, *marks) in enumerate(claims):
            block.append([f'claim {n}' if form.identifier else 'first: ' + first.strip(), second.strip(),
                          *[mark.strip() for mark in marks[:len(form.schemes)]]])
        lines.append(block)
    out = io.StringIO(newline='')
    for k, block in enumerate(lines):
        if k: out.write('\n')
        csv.writer(out, delimiter='\t', lineterminator='\n').writerows(block)
    items, labels = read_oasis(out.getvalue(), task)
    if not form.identifier: assert items.height == sum(len(block) for block in lines)
    again, labels_again = read_oasis(write_oasis(items, labels, task, 'imported'), task)
    assert again.drop('unit').equals(items.drop('unit')) if form.identifier else again.select('text',
        'context').equals(items.select('text', 'context'))
    assert labels_again['label'].to_list() == labels['label'].to_list()


def test_the_file_is_ascii_lines_of_json(tmp_path):
    file = LabelFile(tmp_path/'labels.jsonl')
    file.put(item(0, text='half a pair \ud83d, 🌍'), REVIEW_SCHEME, 'right', 'Ann')
    assert json.loads(file.path.read_bytes().decode('ascii'))['text'] == 'half a pair \ud83d, 🌍'
    assert file.labels()['text'].to_list() == ['half a pair �, 🌍']


ANY = st.text(st.characters(exclude_categories=('Cs',)), max_size=25).map(normal_text)  # as texts are kept

@settings(max_examples=80, deadline=None)
@given(st.sampled_from(list(OASIS_FORMS)), st.lists(st.tuples(ANY, st.lists(st.tuples(ANY, ANY, st.sampled_from(['v', 'x', 'd', '']),
    st.sampled_from(['v', 'x', ''])), min_size=1, max_size=3)), min_size=1, max_size=3), st.booleans())
def test_whatever_a_form_says_comes_back_from_its_file(task, instances, heading):
    "Items and labels → file → items and labels; tabs, quotes, line ends of all kinds, cells that look like a heading or like nothing."
    form, items, labels, place = OASIS_FORMS[task], [], [], 1
    for row, (context, claims) in enumerate(instances):
        for n, (first, text, *marks) in enumerate(claims):
            unit, above = (f'claim {n}', context) if form.identifier else (f'pair {place}', first)
            if not (form.identifier or first.strip() or text.strip()): text = 'x'
            items.append({'source': 'form.tsv', 'row': str(row), 'unit': unit, 'kind': task, 'text': text, 'context': above})
            labels += [items[-1] | {'scheme': scheme.name, 'label': mark, 'annotator': 'Ann', 'time': ''}
                       for scheme, mark in zip(form.schemes, marks, strict=False) if mark]
            place += 1
        place += 1
    frame = pl.DataFrame(items, schema={name: pl.String for name in ('source', 'row', 'unit', 'kind', 'text', 'context')})
    content = write_oasis(frame, labels_frame(labels), task, 'Ann')
    if heading and not content.lower().startswith('original claim'): content = 'Identifier\tText\tAnnotation\n\n' + content
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)/'form.tsv'
        path.write_bytes(content.encode())
        read, marked = read_oasis_file(path, task, 'Ann')
    assert read.equals(frame) and marked.drop('time').equals(labels_frame(labels).drop('time'))


@pytest.mark.parametrize('task, content, words', [
    ('claims', b'original.text\tA text.\t\nclaim 1\tOne.\tyes\n', 'line 2'), ('claims', b'claim 1\tOne.\tv\n', 'instance 1'),
    ('claims', b'original.text\tA text.\t\n', 'no claims'), ('claims', b'', 'is empty'), ('claims', b'\xff\xfe', 'is empty'), ('claims', b'claim \xe9', 'UTF-8'),
    ('falsification', b'one\ttwo\tv\tx\n', '4 columns'), ('falsification', b'one\n', 'line 1'),
    ('falsification', b'one\t' + b'w'*200_000 + b'\tv\n', 'line 1'),
    ('unfactual_text', b'unfactual.text\tA text.\tv\nclaim 1\tOne.\tv\n', 'only d')])
def test_bad_forms_are_named(tmp_path, task, content, words):
    (tmp_path/'their form.tsv').write_bytes(content)
    with pytest.raises(DataError, match='their form.tsv') as raised: read_oasis_file(tmp_path/'their form.tsv', task)
    assert words in str(raised.value)


def test_a_text_that_is_left_out_leaves_out_its_claims_and_printed_names_are_read():
    items, labels = read_oasis('claim 1\tOne.\nclaim 2\tTwo.\tx\noriginal_text\tA text.\td\n', 'unfactual_text')
    assert items['context'].to_list() == ['A text.']*2 and labels['label'].to_list() == ['d', 'd']


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(ANY.filter(bool), st.integers(0, 3), ANY, st.sampled_from(['missed', 'invented']), st.integers(0, 3),
                          st.sampled_from(['', 'decision questions', '=tiny'])), min_size=1, max_size=6,
                unique_by=lambda row: row[:2]))
def test_finals_table_comes_back_from_its_file(given_labels):
    schemes = {'missed': MISSED_SCHEME, 'invented': FALSE_ALARM_SCHEME}
    records = [{'source': 'run', 'row': row, 'unit': f'gold:{n}', 'kind': side, 'text': text, 'scheme': schemes[side].name,
                'label': schemes[side].labels[label].name, 'annotator': 'Ann', 'time': '', 'proposed_by': by}
               for row, n, text, side, label, by in given_labels]
    with tempfile.TemporaryDirectory() as folder:
        assert write_final(labels_frame(records), Path(folder)/'final.csv') == len(records)
        back = read_final(Path(folder)/'final.csv')
    assert labels_frame(back.to_dicts()).drop('time').equals(labels_frame(records).drop('time'))


@pytest.mark.parametrize('content', ['', 'a,b\n1,2\n', 'run,id,unit,side,description,category,annotator\nr,1,gold:0,missed,x,omission,Ann\n',
                                     '{"not": "a table"}', 'run,id,unit,side,description,category,annotator\n'])
def test_a_table_that_is_none_of_finals_is_named(tmp_path, content):
    (tmp_path/'bad.csv').write_text(content)
    with pytest.raises(DataError, match='bad.csv'): read_final(tmp_path/'bad.csv')
    with pytest.raises(DataError, match='none.csv'): read_final(tmp_path/'none.csv')


def test_a_proposal_is_no_label_until_it_is_accepted_and_its_source_stays(tmp_path):
    base = {'run': 'run', 'unit': 'gold:0', 'side': 'missed', 'description': 'x', 'annotator': 'tiny', 'reason': 'why', 'evidence': ''}
    proposals = category_proposals(PROPOSALS.frame([base | {'id': 'row 0', 'category': 'extrinsic_wrong', 'status': 'ok'},
        base | {'id': 'row 1', 'category': None, 'status': 'unparsed'}, base | {'id': 'row 2', 'category': 'undecided', 'status': 'undecided'}]))
    assert proposals.select('row', 'label', 'by', 'reason').rows() == [('row 0', 'extrinsic_wrong', 'tiny', 'why')]
    file = LabelFile(tmp_path/'labels.jsonl')
    old = {'annotator': 'Ann', 'scheme': MISSED_SCHEME.name, 'label': 'extrinsic_correct', 'time': '', **item(0)}  # a line of an earlier factlab
    file.path.write_text(json.dumps(old) + '\n')
    assert file.labels()['proposed_by'].to_list() == [''] and file.faults == 0
    file.put(item(0), MISSED_SCHEME, 'extrinsic_wrong', 'Ann', 'tiny')
    for ending in ('.csv', '.jsonl', '.parquet'):
        assert read_labels(write_labels(file.labels(), tmp_path/f'out{ending}'))['proposed_by'].to_list() == ['tiny']
    file.put(item(0), MISSED_SCHEME, 'extrinsic_correct', 'Ann')
    assert file.labels()['proposed_by'].to_list() == ['']
    file.undo('Ann')
    assert file.labels().select('label', 'proposed_by').row(0) == ('extrinsic_wrong', 'tiny')
    older = file.labels().drop('proposed_by')
    assert LabelFile(tmp_path/'other.jsonl').add(older) == 1
    older.write_csv(tmp_path/'older.csv')
    assert read_labels(tmp_path/'older.csv')['proposed_by'].to_list() == ['']
