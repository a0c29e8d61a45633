"""A file of what is to be labelled: written, opened in the annotator by two people, and read again with the labels that stand."""
import json
import subprocess
import sys

import nbformat
import polars as pl
import pytest

from factlab.cli.lab import lab_notebook, write_notebook
from factlab.core.core import DataError, UsageError
from factlab.error_analysis.annotations import ITEM_PROPOSALS, ITEMS, RESERVED
from factlab.error_analysis.queues import class_scheme, labels_beside, queue_frame, read_people, read_queue, write_queue
from factlab.error_analysis.schemes import CANDIDATE_SCHEME
from factlab.workbench import annotate_queue

HOSTILE = '</mark><script>alert(1)</script> "; import os #'
ITEMS_OF_TWO = ITEMS.frame([{'source': 'verdicts', 'row': row, 'unit': 'verdict', 'kind': kind, 'text': text}
                            for row, kind, text in (('a', 'drawn', 'Owls hunt.'), (HOSTILE, 'disagreement', HOSTILE))])
PROPOSED = ITEM_PROPOSALS.frame([{'source': 'verdicts', 'row': HOSTILE, 'unit': 'verdict', 'scheme': 'mine', 'label': label, 'by': by,
                                  'reason': ''} for label, by in (('yes', 'the judge'), ('no', 'the labels'))])


@pytest.fixture
def path(tmp_path):
    return write_queue(queue_frame(ITEMS_OF_TWO, class_scheme('mine', ['yes', 'no']), PROPOSED), tmp_path/'it\'s "one".jsonl')


def test_what_is_written_is_read(path):
    items, (scheme,), proposals = read_queue(path)
    assert items.select(*ITEMS.columns).equals(ITEMS_OF_TWO) and proposals.equals(PROPOSED)
    assert [label[:2] for label in scheme.labels] == [('1', 'yes'), ('2', 'no')] and set(scheme.on) == {'drawn', 'disagreement'}


def test_a_scheme_that_is_known_keeps_its_definitions(tmp_path):
    items = ITEMS_OF_TWO.with_columns(kind=pl.lit('candidate'))
    _, (scheme,), proposals = read_queue(write_queue(queue_frame(items, CANDIDATE_SCHEME), tmp_path/'q.jsonl'))
    assert scheme == CANDIDATE_SCHEME and proposals.is_empty()


def test_classes_have_keys_that_the_workbench_does_not_need():
    many = class_scheme('many', [f'class {at}' for at in range(20)])
    assert not {label.key for label in many.labels} & {*RESERVED} and many.labels[0].key == '1'
    with pytest.raises(UsageError, match='60 classes'): class_scheme('more', [str(at) for at in range(60)])


def test_two_people_label_a_file_and_the_labels_that_stand_are_read(path, tmp_path):
    for who, keys in (('Ann', '12u1'), ('Ben', ' 2')):
        bench = annotate_queue(path, annotator=who)
        if who == 'Ben': bench.step(1)
        for key in keys: bench.keyboard.value += key
    labels = read_people([labels_beside(path)])
    assert labels.filter(annotator='Ann').select('row', 'label').sort('row').rows() == [(HOSTILE, 'yes'), ('a', 'yes')]
    assert labels.filter(annotator='Ben', row=HOSTILE)['proposed_by'].to_list() == ['the judge']
    bench.exchange.format.value, bench.exchange.target.value = 'csv', str(tmp_path/'export')
    bench.exchange.write()
    assert read_people([tmp_path/'export.csv']).drop('time').equals(labels.drop('time'))
    with pytest.raises(DataError, match='twice'): read_people([labels_beside(path), tmp_path/'export.csv'])
    with pytest.raises(DataError, match='no labels'): read_people([tmp_path/'none.jsonl'])


def test_other_items_do_not_take_the_place_of_labelled_ones(path):
    bench = annotate_queue(path, annotator='Ann')
    bench.keyboard.value += '1'
    frame = queue_frame(ITEMS_OF_TWO, class_scheme('mine', ['yes', 'no']), PROPOSED)
    assert write_queue(frame, path) == path  # the same again
    with pytest.raises(UsageError, match='labels of other items'): write_queue(frame.head(1), path)
    with pytest.raises(UsageError, match='nothing to label'): write_queue(frame.head(0), path.with_name('other.jsonl'))
    with pytest.raises(UsageError, match='as .jsonl'): write_queue(frame, path.with_suffix('.csv'))


@pytest.mark.parametrize('change, said', [
    ({'choices': None}, 'lacks its address'), ({'choices': 'yes'}, 'is no queue'), ({'row': None}, 'lacks its address'),
    ({'scheme': ...}, 'a line lacks scheme'), ({}, 'stands there twice'), ({'proposed': None}, 'lacks its address')])
def test_what_is_no_queue_is_refused(change, said, path, tmp_path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1] = {name: value for name, value in ((lines[0] if not change else lines[1]) | change).items() if value is not ...}
    (tmp_path/'wrong.jsonl').write_text('\n'.join(map(json.dumps, lines)))
    with pytest.raises(DataError, match=said): read_queue(tmp_path/'wrong.jsonl')
    with pytest.raises(DataError, match=said): lab_notebook(str(tmp_path/'wrong.jsonl'))


def test_the_labs_notebook_opens_it_whatever_its_name(path, tmp_path):
    name, cells = lab_notebook(str(path))
    made = write_notebook(str(path), to=tmp_path/'notebooks')
    assert made.stem.startswith('it-s--one-') and path.stem in name and labels_beside(path).name in cells[0][1]
    code = nbformat.read(made, 4).cells[1].source
    ran = subprocess.run([sys.executable, '-c', code], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
