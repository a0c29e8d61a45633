"Labels and numbers as other tools write them: one spelling, a user's own words for ours, percent signs, decimal commas."
import json

import polars as pl
import pytest
from commands import say
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.reports.own_files import label_column, mapped_labels, number_column, read_same, same_labels


@pytest.mark.parametrize(('one', 'other'), [
    ('yes', 'Yes'), ('yes', 'Yes.'), ('yes', '"yes"'), ('not supported', 'not_supported'), ('not supported', 'Not-Supported'),
    ('no', 'no!'), ('1', '\u0661'), ('2', '\u0968'), ('2', '\uff12'), ('non-factual', 'non\u2011factual'), ('oui', 'OUI\u00a0.')])
def test_spellings_are_not_taken_for_classes(one, other):
    columns = {'gold': pl.Series([one, 'x']), 'a': pl.Series([other, 'x'])}
    with pytest.raises(DataError, match='differ in spelling alone .*--same-labels'): same_labels(columns)


@pytest.mark.parametrize('labels', [
    ('1', '-1'), ('+', '-'), ('.5', '5'), ('!', '?'), ('A', 'A+'), ('yes', 'yes?'), ('a b', 'ab'), (':)', ':(')])
def test_other_labels_are_not_taken_for_spellings(labels):
    columns = {'gold': pl.Series(labels), 'a': pl.Series(labels)}
    assert same_labels(columns)['a'].to_list() == [*labels]


def test_what_same_labels_reads():
    assert read_same(['SUPPORTS=supported,REFUTES=contradicted', '"yes, fully=supported"', 'p=1=yes']) == {
        'SUPPORTS': 'supported', 'REFUTES': 'contradicted', 'yes, fully': 'supported', 'p=1': 'yes'}
    for wrong in ('SUPPORTS', '=supported', 'SUPPORTS=', 'a=b,,c=d'):
        with pytest.raises(UsageError, match='maps no label'): read_same([wrong])
    with pytest.raises(UsageError, match="'a' is to be 'b' and 'c'"): read_same(['a=b', 'a=c'])


@given(st.lists(st.sampled_from(['a', 'b', 'c', None]), min_size=1, max_size=20),
       st.dictionaries(st.sampled_from(['a', 'b', 'c', 'd']), st.sampled_from('xyab')))
def test_labels_are_mapped_once_or_refused(labels, same):
    frames = {'file': pl.DataFrame({'predicted': pl.Series(labels, dtype=pl.String)})}
    if {*same} <= {*labels}:
        read, notes = mapped_labels(frames, same)
        assert read['file']['predicted'].to_list() == [same.get(label, label) for label in labels] and len(notes) == len(same)
        return
    with pytest.raises(UsageError, match='no file has a label') as refused: mapped_labels(frames, same)
    assert all(f'{label!r} ({labels.count(label)})' in str(refused.value) for label in {*labels} - {None})


@pytest.fixture
def files(tmp_path):
    (tmp_path/'gold.csv').write_text('id,gold\na,SUPPORTS\nb,REFUTES\nc,REFUTES\nd,SUPPORTS\n')
    (tmp_path/'one.csv').write_text('id,predicted\na,supported\nb,contradicted\nc,supported\nd,supported\n')
    (tmp_path/'two.csv').write_text('id,predicted\na,Yes.\nb,No.\nc,No.\nd,No.\n')
    return [tmp_path/name for name in ('gold.csv', 'one.csv', 'two.csv')]


SAME = ['--same-labels', 'SUPPORTS=supported,REFUTES=contradicted']


def test_commands_map_labels(capsys, home, files):
    gold, one, two = files
    more = [*SAME, '--same-labels', 'Yes.=supported,No.=contradicted']
    score = ['score', 'verdicts', '--data', gold, '--predictions']
    code, _, errors = say(capsys, *score, one)
    assert code == 3 and 'no label is one of gold' in errors and '--same-labels' in errors
    code, output, errors = say(capsys, *score, one, two, *more, '--json')
    found = json.loads(output)
    assert code == 0 and [row['accuracy'] for row in found['scores'][:2]] == [.75, .75], errors
    assert "'REFUTES' of 2 rows read as 'contradicted'" in found['notes']
    code, output, errors = say(capsys, 'judge', one, '--labels', gold, *SAME, '--json')
    assert code == 0 and json.loads(output)['agreement with people'][0]['value'] == .75, errors
    code, output, errors = say(capsys, 'compare', gold.with_name('both.csv'), one, *SAME)
    assert code == 3
    gold.with_name('both.csv').write_text('id,gold,predicted\na,SUPPORTS,No.\nb,REFUTES,No.\nc,REFUTES,No.\nd,SUPPORTS,Yes.\n')
    code, output, errors = say(capsys, 'compare', gold.with_name('both.csv'), one, *more, '--json')
    assert code == 0 and [row['score'] for row in json.loads(output)['scores'][:2]] == [.75, .75], errors


def test_a_label_that_is_not_there_is_refused_with_those_that_are(capsys, home, files):
    gold, one, _ = files
    code, output, errors = say(capsys, 'score', 'labels', '--data', gold, '--predictions', one, '--same-labels', 'SUPORTS=supported')
    assert (code, output) == (2, '') and "no file has a label 'SUPORTS'" in errors
    assert "'supported' (3)" in errors and "'SUPPORTS' (2)" in errors
    code, _, errors = say(capsys, 'score', 'errors', '--data', gold, '--predictions', one, *SAME)
    assert code == 2 and 'errors have none' in errors


def test_labels_of_spans_are_mapped(capsys, home, tmp_path):
    (tmp_path/'gold.csv').write_text('id,start,end,label\na,0,4,Baseless\nb,,,\n')
    (tmp_path/'said.csv').write_text('id,start,end,label\na,0,4,invented\nb,,,\n')
    score = ['score', 'spans', '--data', tmp_path/'gold.csv', '--predictions', tmp_path/'said.csv', '--json']
    assert json.loads(say(capsys, *score)[1])['by characters'][0]['f1'] == 0
    assert json.loads(say(capsys, *score, '--same-labels', 'Baseless=invented')[1])['by characters'][0]['f1'] == 1


@pytest.mark.parametrize(('texts', 'numbers'), [
    (['85 %', '7%', None], [.85, .07, None]), (['0,85', '1,0', '0'], [.85, 1, 0]), (['12,5 %', '100 %'], [.125, 1]),
    (['0.85', '1'], [.85, 1]), (['0,125', '0,5'], [.125, .5])])
def test_probabilities_of_whole_columns_are_read(texts, numbers):
    read = number_column(pl.Series('probability', texts), 'a', probability=True).to_list()
    assert [each if each is None else round(each, 12) for each in read] == numbers


@pytest.mark.parametrize('texts', [['85 %', '0.7'], ['0,85', '0.7'], ['1,000', '1,000'], ['85 %', 'high'], ['\u0660.\u0668'], ['0,8,5']])
def test_what_is_ambiguous_is_refused(texts):
    with pytest.raises(DataError, match='are no finite numbers|outside 0'):
        number_column(pl.Series('probability', texts), 'a', probability=True)


def test_scores_have_decimal_commas_but_no_percent():
    assert number_column(pl.Series('score', ['12,5', '3,25', '1,000']), 'a').to_list() == [12.5, 3.25, 1]
    for texts in (['1,000', '2,500'], ['85 %', '7 %']):
        with pytest.raises(DataError, match='no finite numbers'): number_column(pl.Series('score', texts), 'a')


@pytest.mark.parametrize('texts, labels', [
    (['1.0', '0.0', None], ['1', '0', None]), (['1', '0.0', ' 2. '], ['1', '0', '2']), (['-1.0', '+1'], ['-1', '+1']),
    (['1.0', 'high'], ['1.0', 'high']), (['1.5', '0.0'], ['1.5', '0.0']), (['3.0.0'], ['3.0.0'])])
def test_whole_numbers_with_a_point_are_labels_without(texts, labels):
    assert label_column(pl.Series('gold', texts, pl.String), 'a').to_list() == labels
