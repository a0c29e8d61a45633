"Files of other tools: read as what they say, counted where something is missing, refused in our words where they are broken."
import io
import json
import math
import string
import struct
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from factlab.cli.main import main
from factlab.core.core import DataError, FactlabError, UsageError
from factlab.data import others_files
from factlab.data.others_files import others_form, read_others
from factlab.error_analysis.annotations import labels_frame, write_labels
from factlab.reports.own_files import read_noted
from factlab.reports.own_queue import given_labels
from factlab.verification.checking import read_texts

GOLD = ['yes', 'no', 'yes', 'no', 'yes', 'no']
SAID = ['yes', 'no', 'no', 'no', 'yes', 'yes']


def sample(id, said, gold, epoch=1, **more):
    graded = {'match': {'value': 'C' if said == gold else 'I', 'answer': said, 'explanation': 'so', 'history': []}}
    return {'id': id, 'epoch': epoch, 'input': f'question {id}', 'target': gold, 'messages': [], 'scores': graded,
            'output': {'model': 'm', 'choices': [{'message': {'role': 'assistant', 'content': said}, 'stop_reason': 'stop'}],
                       'completion': said}} | more


def inspect_log(samples, status='success'):
    return {'version': 2, 'status': status, 'plan': {}, 'results': None, 'stats': {},
            'eval': {'created': '2026-11-01T00:00:00+00:00', 'task': 'grounded', 'model': 'm/m', 'dataset': {}, 'config': {}},
            'samples': samples}


LOG = inspect_log([sample(at, said, gold) for at, (said, gold) in enumerate(zip(SAID, GOLD, strict=True))])


def lm_eval_rows(filters=('none',), choices=('no', 'yes')):
    rows = []
    for at, (said, gold) in enumerate(zip(SAID, GOLD, strict=True)):
        for name in filters:
            pairs = [[str(-1. - (each != said)), 'False'] for each in choices]
            rows.append({'doc_id': at, 'doc': {'question': f'question {at}'}, 'target': str(choices.index(gold)),
                         'arguments': {f'gen_args_{k}': {'arg_0': f'question {at}', 'arg_1': f' {each}'} for k, each in enumerate(choices)},
                         'resps': [[pair] for pair in pairs], 'filtered_resps': pairs, 'filter': name, 'metrics': ['acc'],
                         'doc_hash': 'a', 'prompt_hash': 'b', 'target_hash': 'c', 'acc': float(said == gold)})
    return rows


def instances(result_ids=(None,)):
    return [{'schema_version': '0.3.0', 'evaluation_id': 'grounded/m/1', 'model_id': 'm/m', 'evaluation_name': 'grounded',
             'sample_id': str(at), 'interaction_type': 'single_turn', 'input': {'raw': f'question {at}', 'reference': [gold]},
             'output': {'raw': [f'I say {said}']}, 'messages': None,
             'answer_attribution': [{'turn_idx': 0, 'source': 'output.raw', 'extracted_value': said, 'extraction_method': 'regex',
                                     'is_terminal': True}],
             'evaluation': {'score': float(said == gold), 'is_correct': said == gold}} | ({'evaluation_result_id': name} if name else {})
            for at, (said, gold) in enumerate(zip(SAID, GOLD, strict=True)) for name in result_ids]


def choice(name, control='verdict'):
    return {'from_name': control, 'to_name': 'text', 'type': 'choices', 'value': {'choices': [name]}}


def span(start, end, text, label='wrong'):
    return {'from_name': 'error', 'to_name': 'text', 'type': 'labels', 'value': {'start': start, 'end': end, 'text': text,
                                                                                'labels': [label]}}


def tasks():
    return [{'id': 100 + at, 'data': {'id': str(at), 'text': f'question {at}'}, 'annotations': [{'id': 1, 'result': [choice(gold)]}],
             'predictions': [{'model_version': 'm', 'result': [choice(said)]}]}
            for at, (said, gold) in enumerate(zip(SAID, GOLD, strict=True))]


def lines(rows) -> str: return ''.join(json.dumps(row) + '\n' for row in rows)


def write(path: Path, content) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding='utf-8')
    return path


def zipped(path: Path, log, method=zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, 'w', method) as file:
        for each in log['samples']: file.writestr(f'samples/{each["id"]}_epoch_{each["epoch"]}.json', json.dumps(each))
        file.writestr('summaries.json', '[]')
        file.writestr('header.json', json.dumps({name: value for name, value in log.items() if name != 'samples'}))
    return path


@pytest.fixture
def files(tmp_path):
    "The same predictions in every form."
    return {'inspect': write(tmp_path/'log.json', LOG), 'zip': zipped(tmp_path/'log.eval', LOG),
            'lm-eval': write(tmp_path/'samples_grounded_2026.jsonl', lines(lm_eval_rows())),
            'eee': write(tmp_path/'x_samples.jsonl', lines(instances())), 'label-studio': write(tmp_path/'export.json', tasks())}


@pytest.fixture
def gold(tmp_path):
    path = tmp_path/'gold.csv'
    pl.DataFrame({'id': [str(at) for at in range(len(GOLD))], 'gold': GOLD}).write_csv(path)
    return path


def scores(capsys, *arguments) -> dict:
    assert main([*map(str, arguments), '--json']) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_all_forms_say_the_same(files):
    for form, path in files.items():
        assert others_form(path) == {'zip': 'inspect'}.get(form, form)
        rows = read_others(path).rows
        assert rows['id'].to_list() == [str(at) for at in range(6)] and rows['predicted'].to_list() == SAID, form
        assert rows['gold'].to_list() == GOLD, form
        if form != 'label-studio': assert rows['score'].to_list() == [float(a == b) for a, b in zip(SAID, GOLD, strict=True)]


def test_score_judge_and_compare_read_them(files, gold, capsys, tmp_path):
    found = scores(capsys, 'score', 'labels', '--data', gold, '--predictions', *files.values(), '--metric', 'accuracy')
    assert [row['accuracy'] for row in found['scores'][:len(files)]] == [pytest.approx(4/6)]*len(files)
    compared = scores(capsys, 'compare', files['zip'], files['lm-eval'], files['eee'])
    assert [row['score'] for row in compared['scores'][:3]] == [pytest.approx(4/6)]*3
    right = pl.DataFrame({'id': [str(at) for at in range(6)], 'gold': ['C', 'I', 'I', 'C', 'C', 'I']})
    right.write_csv(tmp_path/'right.csv')
    judged = scores(capsys, 'judge', files['zip'], '--labels', tmp_path/'right.csv', '--positive', 'C')
    assert judged['title'].startswith('6 labels on 6 verdicts')
    assert given_labels([files['label-studio']]).labels['gold'].to_list() == GOLD


def test_what_failed_is_counted_and_epochs_are_put_together(tmp_path, capsys):
    failed = {'scores': {}, 'error': {'message': 'timeout', 'traceback': ''}}
    samples = [sample('a', 'yes', 'yes'), sample('a', 'no', 'yes', 2), sample('a', 'no', 'yes', 3), sample('b', 'no', 'no'),
               sample('b', 'no', 'no', 2, **failed), sample('c', 'no', 'no', **failed), sample('d', 'no', 'no', scores=None)]
    found = read_others(write(tmp_path/'log.json', inspect_log(samples, 'error')))
    assert found.rows.select('id', 'score', 'predicted').rows() == [('a', 1/3, 'no'), ('b', 1., 'no'), ('c', None, None), ('d', None, None)]
    told = '\n'.join(found.notes)
    assert all(part in told for part in ('2 of 7 samples failed', '1 of 7 samples were not scored', '2 samples have several attempts',
                                         "'error'"))
    assert main(['compare', str(tmp_path/'log.json'), str(zipped(tmp_path/'other.eval', inspect_log(samples))), '--unreadable',
                 'exclude']) == 0
    assert '2 of 7 samples failed' in capsys.readouterr().out


@pytest.mark.parametrize('value, score, verdict', [('C', 1., 'C'), ('I', 0., 'I'), ('P', .5, 'P'), ('N', 0., 'N'), (True, 1., 'true'),
                                                   (.25, .25, '0.25'), (3, 3., '3'), ('0.5', .5, '0.5'), ('grounded', None, 'grounded'),
                                                   ('yes', 1., 'yes'), (None, None, None), (math.nan, None, None), (10**400, None, None)])
def test_values_of_inspect(value, score, verdict, tmp_path):
    rows = read_others(write(tmp_path/'log.json', inspect_log([sample(1, 'x', 'y', scores={'s': {'value': value}}),
                                                               sample(2, 'x', 'y', scores={'s': {'value': 'C'}})]))).rows
    assert rows['score'][0] == score and (verdict is None or value == 10**400 or rows['verdict'][0] == verdict)


def test_parts_of_values_and_several_scorers_are_columns(tmp_path):
    graded = {'match': {'value': 'C', 'answer': 'yes'}, 'two': {'value': {'a': 'I', 'b': .5}, 'answer': 'yes'}}
    path = write(tmp_path/'log.json', inspect_log([sample(1, 'yes', 'yes', scores=graded), sample(2, 'no', 'no', scores=graded)]))
    found = read_others(path)
    assert found.rows.select('match', 'two.a', 'two.b').row(0) == (1., 0., .5) and 'score' not in found.rows.columns
    assert 'match, two.a, two.b' in found.notes[-1]
    assert read_noted(path, ['id', 'score'], {'score': 'two.b'}).rows['score'].to_list() == [.5, .5]
    with pytest.raises(DataError, match='--columns score=NAME'): read_noted(path, ['id', 'score'])


def test_long_texts_lie_beside_a_sample(tmp_path):
    held = sample(1, 'yes', 'yes', input='attachment://ab', attachments={'ab': 'a long question'})
    talk = sample(2, 'yes', 'no', input=[{'role': 'system', 'content': 'be short'},
                                         {'role': 'user', 'content': [{'type': 'text', 'text': 'which?'}, {'type': 'image', 'image': ''}]}])
    rows = read_others(write(tmp_path/'log.json', inspect_log([held, talk]))).rows
    assert rows['document'].to_list() == ['a long question', 'which?'] and rows['response'].to_list() == ['yes', 'yes']
    assert read_texts(tmp_path/'log.json').select('id', 'source', 'text').row(0) == ('1', 'a long question', 'yes')


def test_a_column_that_no_file_has_is_told_and_so_are_the_scores_that_there_are(tmp_path, capsys):
    two = [write(tmp_path/f'samples_{name}.jsonl', lines(lm_eval_rows(('strict', 'loose')))) for name in 'ab']
    assert main(['compare', *map(str, two), '--columns', 'score=strictly']) == 2
    assert "score=strictly: no file has a column 'strictly'; found" in capsys.readouterr().err
    gold = tmp_path/'gold.csv'
    gold.write_text('id,human\na,yes\nb,no\n')
    said = tmp_path/'said.csv'
    said.write_text('id,answer\na,yes\nb,no\n')
    command = ['score', 'labels', '--data', str(gold), '--predictions', str(said), '--columns']
    assert main([*command, 'gold=human,predicted=answer']) == 0
    capsys.readouterr()
    assert main([*command, 'gold=human,predicted=answer,probability=p']) == 2
    assert "no file has a column 'p'" in capsys.readouterr().err
    assert main(['judge', str(said), '--labels', str(gold), '--columns', 'gold=human,predicted=answer,length=n']) == 2
    assert "no file has a column 'n'" in capsys.readouterr().err


def test_another_metric_is_never_taken_for_the_one_that_was_named(tmp_path, capsys):
    both = [row | {'metrics': ['acc', 'acc_norm'], 'acc_norm': 1 - row['acc']} for row in lm_eval_rows()]
    one, two = write(tmp_path/'samples_a.jsonl', lines(lm_eval_rows())), write(tmp_path/'samples_b.jsonl', lines(both))
    assert main(['compare', str(one), str(two), '--columns', 'score=acc_norm']) == 2
    assert 'score=acc_norm: samples_a has no such score; found' in capsys.readouterr().err
    assert main(['compare', str(one), str(two), '--columns', 'score=acc']) == 0
    said = capsys.readouterr().out
    assert 'the score is acc' in said and 'choose one' not in said


def test_filters_and_metrics_of_lm_eval(tmp_path):
    found = read_others(write(tmp_path/'samples_a.jsonl', lines(lm_eval_rows(('strict', 'loose')))))
    assert found.rows.columns[-2:] == ['acc@strict', 'acc@loose'] and found.rows['predicted'].to_list() == SAID
    free = [{'doc_id': at, 'doc': {}, 'target': 'so it is #### 7', 'arguments': [['what is it?', {'until': ['\n']}]],
             'resps': [['7 or so']], 'filtered_resps': ['7'], 'exact_match': 1.0, 'f1': [1, 1]} for at in range(3)]
    found = read_others(write(tmp_path/'samples_b.json', free))
    assert found.form == 'lm-eval' and found.rows['predicted'].to_list() == ['7']*3 and 'gold' not in found.rows.columns
    assert found.rows['target'][0] == 'so it is #### 7' and found.rows['document'][0] == 'what is it?' and found.rows['score'][0] == 1.
    with pytest.raises(DataError, match='comes twice'): read_others(write(tmp_path/'samples_c.jsonl', lines(lm_eval_rows()*2)))
    same = [row | {'arguments': {f'gen_args_{k}': {'arg_0': '', 'arg_1': 'same'} for k in range(2)}} for row in lm_eval_rows()]
    assert {*read_others(write(tmp_path/'samples_d.jsonl', lines(same))).rows['predicted']} == {'0', '1'}


def test_metrics_and_failures_of_instances(tmp_path):
    rows = instances(('accuracy', 'f1'))
    assert read_others(write(tmp_path/'a.jsonl', lines(rows))).rows.columns[-2:] == ['accuracy', 'f1']
    rows = instances()
    rows[0] |= {'error': 'timeout', 'answer_attribution': []}
    found = read_others(write(tmp_path/'b.jsonl', lines(rows)))
    assert found.rows['score'].null_count() == 1 and '1 of 6 instances failed' in found.notes[0]
    rows[1] |= {'model_id': 'another'}
    with pytest.raises(DataError, match='2 models'): read_others(write(tmp_path/'c.jsonl', lines(rows)))
    for aggregate in ({'evaluation_results': [], 'model_info': {}}, {'results': {}, 'configs': {}}):
        with pytest.raises(DataError, match='no rows'): read_others(write(tmp_path/'d.json', aggregate))


def test_annotators_of_label_studio(tmp_path):
    said = [[['yes'], ['yes'], ['no']], [['yes'], ['no']], [['no']], []]
    made = [{'id': at, 'data': {'text': 'x'}, 'annotations': [{'result': [choice(*each)]} for each in given]}
            for at, given in enumerate(said)]
    made[2]['annotations'] += [{'was_cancelled': True, 'result': [choice('yes')]}]*2
    made[3]['annotations'] = [{'ground_truth': True, 'result': [choice('no')]}, {'result': [choice('yes')]}, {'result': [choice('yes')]}]
    made.append({'id': 4, 'data': {'text': 'x'}, 'annotations': []})
    found = read_others(write(tmp_path/'a.json', made))
    assert found.rows['gold'].to_list() == ['yes', None, 'no', 'no', None]
    told = '\n'.join(found.notes)
    assert 'do not count: 4' in told and '1 of 5 tasks have no annotation' in told
    assert "1 task without a gold: no more than half of their annotators agree, as '1'" in told
    made[0]['annotations'][0]['result'].append(choice('much', 'how'))
    found = read_others(write(tmp_path/'b.json', made))
    assert {'gold:verdict', 'gold:how'} <= {*found.rows.columns} and 'gold=gold:NAME' in found.notes[-1]


def test_gold_that_is_missing_is_named_with_its_reason(tmp_path, capsys):
    def task(at, *labels, cancelled=False):
        said = {'was_cancelled': cancelled, 'result': [{'from_name': 'v', 'type': 'choices', 'value': {'choices': [*labels]}}]}
        return {'id': at, 'data': {'text': 'x'}, 'annotations': [said] if labels else []}
    tasks = [task(0, 'yes'), task(1, 'no'), task(2, 'yes', 'no'), task(3, 'yes', cancelled=True), task(4)]
    gold, said = write(tmp_path/'gold.json', tasks), tmp_path/'said.csv'
    said.write_text('id,predicted\n' + ''.join(f'{at},yes\n' for at in range(5)))
    assert main(['score', 'labels', '--data', str(gold), '--predictions', str(said)]) != 0
    error = capsys.readouterr().err
    assert "gold.json: 3 of 5 rows have no gold, as '2', '3', '4'" in error and 'said' not in error
    assert "2 of 5 tasks have no annotation, as '3', '4'; those of '3' were cancelled" in error
    assert "1 task without a gold: several choices where one is expected, as '2' (no; yes)" in error


def test_an_error_lists_the_columns_that_a_file_has(tmp_path):
    table = tmp_path/'gold.csv'
    table.write_text('id,gold\n1,yes\n2,no\n')
    with pytest.raises(DataError, match="no column 'id'; found id, gold"): read_noted(table, ['id', 'gold'], {'gold': 'id'})


@given(st.text(st.characters(exclude_categories=['Cs']), min_size=1, max_size=30), st.data())
def test_spans_in_characters_and_in_units_of_16_bits(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    units = lambda at: len(text[:at].encode('utf-16-le'))//2
    value = {'start': start, 'end': end, 'text': text[start:end]}
    assert others_files._place(value, [text]) == (start, end)
    wide = value | {'start': units(start), 'end': units(end)}
    found = others_files._place(wide, [text])
    assert found is not None and text[slice(*found)] == text[start:end]
    assert others_files._place(value | {'text': text + '!'}, [text]) is None


def test_spans_of_several_annotators(tmp_path, capsys):
    text = '🔥 The mill burned in 1931.'
    said = [{'result': [span(18, 25, 'in 1931')]}, {'result': [span(22, 26, '1931')]}, {'result': []}]
    made = [{'id': 1, 'data': {'id': 'a', 'text': text}, 'annotations': said, 'predictions': [{'result': [span(21, 25, '1931')]}]},
            {'id': 2, 'data': {'id': 'b', 'text': 'The tide rises.'}, 'annotations': [{'result': []}], 'predictions': [{'result': []}]},
            {'id': 3, 'data': {'id': 'c', 'text': 'Nobody read this.'}, 'annotations': []}]
    path = write(tmp_path/'a.json', made)
    found = read_others(path, 'annotations')
    assert found.rows.select('id', 'start', 'end', 'label').rows() == [('a', 21, 25, 'wrong'), ('b', None, None, None)]
    assert any('several annotators' in note for note in found.notes) and any('1 of 3 tasks have no annotation' in note
                                                                              for note in found.notes)
    scored = scores(capsys, 'score', 'spans', '--data', path, '--predictions', path)
    assert scored['by characters'][0]['f1'] == 1.
    made[0]['annotations'][0]['result'][0]['value']['text'] = 'of 1931'
    with pytest.raises(DataError, match='do not stand where they say'): read_others(write(tmp_path/'b.json', made), 'annotations')


def test_annotators_of_one_export_are_compared(tmp_path, capsys):
    texts = {f't{at}': 'The mill burned in 1931, and nobody saw it.' for at in range(12)}
    def by(who, start, end, at): return {'completed_by': who, 'result': [span(start, end, texts[f't{at}'][start:end])]}
    made = [{'id': at, 'data': {'id': name, 'text': text}, 'predictions': [{'result': []}],
             'annotations': [by({'id': 7, 'email': 'ann@x.org'}, 19, 23, at), by(4, 16 if at < 6 else 19, 23, at)]
             + [{'completed_by': 5, 'result': []}]*(at == 0)}
            for at, (name, text) in enumerate(texts.items())]
    path = write(tmp_path/'a.json', made)
    marked = others_files.annotators_spans(path)
    assert [*marked] == ['annotator 4', 'annotator 5', 'annotator ann@x.org']
    assert marked['annotator 5'].rows() == [('t0', None, None)]
    table = scores(capsys, 'score', 'spans', '--data', path, '--predictions', path)['annotators of gold, labels aside']
    ours, theirs = (np.concatenate([np.isin(np.arange(len(text)), range(start(at), 23)) for at, text in enumerate(texts.values())])
                    for start in (lambda at: 16 if at < 6 else 19, lambda at: 19))
    of = {(row['first'], row['second']): row for row in table}
    assert of['annotator 4', 'annotator ann@x.org']['value'] == pytest.approx(cohen_kappa_score(ours, theirs), abs=1e-4)
    assert [of[key]['n'] for key in of] == [1, 12, 1] and of['annotator 4', 'annotator 5']['value'] == 0


def test_labels_of_the_workbench_are_gold(tmp_path, capsys):
    records = [{'source': 'texts', 'row': str(at), 'unit': 'text', 'kind': 'text', 'text': 'x', 'scheme': 'verdict', 'label': label,
                'annotator': who, 'time': ''} for at, gold in enumerate(GOLD) for who, label in (('ann', gold), ('bob', gold))]
    records[1]['label'] = 'no' if GOLD[0] == 'yes' else 'yes'
    write_labels(labels_frame(records), tmp_path/'labels.csv')
    pl.DataFrame({'id': [str(at) for at in range(6)], 'predicted': SAID}).write_csv(tmp_path/'said.csv')
    found = read_noted(tmp_path/'labels.csv', ['id', 'gold'])
    assert dict(found.rows.select('id', 'gold').rows()) == {str(at): gold if at else None for at, gold in enumerate(GOLD)}
    assert '1 of 6 rows without gold' in found.notes[0]


def test_tables_of_ones_own_are_not_taken_for_others(tmp_path):
    rows = [{'id': 1, 'data': 'x', 'predictions': 'a', 'score': 1}, {'id': 2, 'data': 'y', 'predictions': 'b', 'score': 0}]
    for path in (write(tmp_path/'a.json', rows), write(tmp_path/'a.jsonl', lines(rows))):
        assert others_form(path) is None and read_noted(path, ['id', 'score']).rows.height == 2
    assert others_form(tmp_path/'none.json') is None and others_form(write(tmp_path/'b.json', '{"eval": 1, "stat')) is None
    with pytest.raises(UsageError, match='not recognised'): read_others(tmp_path/'a.json')


def test_hostile_zips_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    path = zipped(tmp_path/'a.eval', LOG)
    raw = bytearray(path.read_bytes())
    at = raw.index(b'PK\x01\x02') + 24
    raw[at:at + 4] = struct.pack('<I', 2**31)
    path.write_bytes(raw)
    with pytest.raises(DataError, match='more than'): read_others(path)
    monkeypatch.setattr(others_files, 'ALL', 1000)
    with pytest.raises(DataError, match='members would be'): read_others(zipped(tmp_path/'b.eval', LOG))
    with zipfile.ZipFile(tmp_path/'c.eval', 'w') as file: file.writestr('../../out.json', '{}')
    with pytest.raises(DataError, match='without header.json'): read_others(tmp_path/'c.eval')
    with pytest.raises(DataError, match='zip'): read_others(write(tmp_path/'d.eval', 'no zip'))
    with pytest.raises(DataError, match='cannot read'): read_others(tmp_path/'none.eval')


# a frame of Zstandard that holds {"id":1,"epoch":1,"scores":{}} in one raw block, and one that states blocks of 128 KB of one byte
def frame_of(blocks: list[tuple[int, bytes, int]]) -> bytes:
    heads = [(size << 3 | kind << 1 | (at == len(blocks) - 1)).to_bytes(3, 'little') + content
             for at, (kind, content, size) in enumerate(blocks)]
    return b'(\xb5/\xfd' + b'\x00\x58' + b''.join(heads)


def with_zstandard(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, 'w') as file:
        for name, packed in members.items(): file.writestr(name, packed)
    raw = bytearray(path.read_bytes())
    for mark, offset in ((b'PK\x03\x04', 8), (b'PK\x01\x02', 10)):
        at = raw.find(mark)
        while at >= 0:
            raw[at + offset:at + offset + 2] = struct.pack('<H', 93)
            at = raw.find(mark, at + 1)
    path.write_bytes(raw)
    return path


def test_members_compressed_with_zstandard(tmp_path, monkeypatch):
    packed = {f'samples/{each["id"]}_epoch_1.json': frame_of([(0, content, len(content))])
              for each in LOG['samples'] for content in [json.dumps(each, indent=1).encode()]}
    path = with_zstandard(tmp_path/'a.eval', packed | {'header.json': frame_of([(0, b'{"status":"success"}', 20)])})
    found = read_others(path)
    assert found.rows['predicted'].to_list() == SAID and found.notes == ('a.eval, an Inspect log: the score is match',)
    bomb = frame_of([(1, b' ', 2**17)]*2100)
    with pytest.raises(DataError, match='would be up to'): read_others(with_zstandard(tmp_path/'b.eval', {'samples/1_epoch_1.json': bomb}))
    for broken in (bomb[:50], b'nothing', frame_of([(2, b'\0'*8, 8)])):
        with pytest.raises(DataError, match='cannot be unpacked'):
            read_others(with_zstandard(tmp_path/'c.eval', {'samples/1_epoch_1.json': broken}))


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=8),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('abc', max_size=3), inner, max_size=3),
                      max_leaves=6)


def places(value, path=()):
    "All places within a JSON value."
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner: yield from places(each, (*path, key))


def replaced(value, path, new):
    if not path: return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def read_or_refuse(path, spans=None):
    try: found = read_others(path, spans)
    except FactlabError as error: assert str(error)
    else: assert found.rows.height and 'id' in found.rows.columns


SPANS = [{'id': 1, 'data': {'id': 'a', 'text': 'The mill burned.'}, 'annotations': [{'result': [span(4, 8, 'mill')]}, {'result': []}],
          'predictions': [{'result': [span(4, 8, 'mill')]}]}]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_garbled_files_are_refused_in_our_words(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp('garbled')
    form = data.draw(st.sampled_from(['log.json', 'samples.jsonl', 'instances.jsonl', 'export.json', 'spans.json', 'log.eval']))
    whole = {'log.json': LOG, 'log.eval': LOG['samples'], 'samples.jsonl': lm_eval_rows()[:2], 'instances.jsonl': instances()[:2],
             'export.json': tasks()[:2], 'spans.json': SPANS}[form]
    where = data.draw(st.sampled_from(list(places(whole))[1:]))
    new = replaced(whole, where, data.draw(VALUES))
    if form == 'log.eval':
        with zipfile.ZipFile(folder/form, 'w') as file:
            for at, each in enumerate(new): file.writestr(f'samples/{at}_epoch_1.json', json.dumps(each))
    else: write(folder/form, lines(new) if form.endswith('l') else new)
    read_or_refuse(folder/form, data.draw(st.sampled_from(['annotations', 'predictions'])) if form == 'spans.json' else None)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_cut_and_damaged_files_are_refused_in_our_words(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp('damaged')
    made = io.BytesIO()
    with zipfile.ZipFile(made, 'w', zipfile.ZIP_DEFLATED) as file:
        for each in LOG['samples']: file.writestr(f'samples/{each["id"]}_epoch_1.json', json.dumps(each))
    form = data.draw(st.sampled_from(['log.json', 'samples.jsonl', 'log.eval']))
    content = bytearray({'log.json': json.dumps(LOG).encode(), 'samples.jsonl': lines(lm_eval_rows()).encode(),
                         'log.eval': made.getvalue()}[form])
    if data.draw(st.booleans()): content = content[:data.draw(st.integers(0, len(content)))]
    else:
        for _ in range(data.draw(st.integers(1, 5))): content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder/form).write_bytes(content)
    read_or_refuse(folder/form)


def test_inspects_own_reader_says_the_same(tmp_path):
    log = pytest.importorskip('inspect_ai.log')
    for path in (write(tmp_path/'log.json', LOG), zipped(tmp_path/'log.eval', LOG)):
        told = {str(each.id): each.scores['match'].value for each in log.read_eval_log(str(path)).samples}
        assert dict(read_others(path).rows.select('id', 'verdict').rows()) == told
