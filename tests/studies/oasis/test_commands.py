"""What LLM-OASIS adds to the command line: what its commands take, what they print, and what they refuse."""
import json
from pathlib import Path

import polars as pl
import pytest
from commands import corpus_in, run

from factlab.core.core import DataError, FactlabError, UsageError
from factlab.error_analysis.human_evaluation import read_form
from factlab.runs.plan import make_run
from factlab.studies.oasis.commands import read_predictions


@pytest.fixture
def corpus(tmp_path) -> Path: return corpus_in(tmp_path/'corpus')


# ---- build -------------------------------------------------------------------------------------------------------------------------

def test_build_counts_without_asking(corpus, capsys, tmp_path):
    model = 'openai:some-model?base_url=http://127.0.0.1:9/v1'  # nobody answers there
    assert run('build', 'oasis', '--texts', corpus, '--model', model, '--out', tmp_path/'built', '--dry-run') == 0
    shown = capsys.readouterr().out
    assert 'calls' in shown and not (tmp_path/'built').exists()
    with pytest.raises(DataError): run('build', 'oasis', '--texts', tmp_path/'nowhere', '--model', model, '--out', tmp_path/'built')
    with pytest.raises(UsageError): run('build', 'oasis', '--texts', corpus, '--model', 'nothing', '--out', tmp_path/'built')


# ---- submission --------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('name, frame', [
    ('a.parquet', pl.DataFrame({'id': ['x', 'y'], 'verdict': [True, False], 'other': [1, 2]})),
    ('a.jsonl', pl.DataFrame({'id': ['x', 'y'], 'factual': [True, False]})),
    ('a.csv', pl.DataFrame({'id': ['x', 'y'], 'predicted': ['Factual', 'unfactual']}))])
def test_submission_from_a_file(tmp_path, capsys, name, frame):
    {'parquet': frame.write_parquet, 'jsonl': frame.write_ndjson, 'csv': frame.write_csv}[name[2:]](tmp_path/name)
    assert run('oasis', 'submission', '--predictions', tmp_path/name, '--out', tmp_path/'out.jsonl') == 0
    assert [json.loads(line) for line in (tmp_path/'out.jsonl').read_text().splitlines()] == [{'id': 'x', 'factual': True},
                                                                                              {'id': 'y', 'factual': False}]
    run('oasis', 'submission', '--predictions', tmp_path/name)
    assert capsys.readouterr().out.endswith((tmp_path/'out.jsonl').read_text())


def test_ids_and_answers_of_a_file_are_read_as_they_stand(tmp_path):
    (tmp_path/'said.csv').write_text('id,factual\n007,true\n7,Not Factual\n8,\n', encoding='utf-8')
    assert read_predictions(str(tmp_path/'said.csv')).rows() == [('007', True), ('7', False), ('8', None)]
    (tmp_path/'odd.csv').write_text('id,factual\n1,true\n2,perhaps\n', encoding='utf-8')
    with pytest.raises(DataError, match="says 'perhaps': expected one of true, factual"): read_predictions(str(tmp_path/'odd.csv'))
    late = [*({'id': str(at), 'factual': None} for at in range(150)), {'id': 'Q', 'factual': True}]
    (tmp_path/'late.jsonl').write_text('\n'.join(map(json.dumps, late)), encoding='utf-8')
    assert read_predictions(str(tmp_path/'late.jsonl')).row(-1) == ('Q', True)


def test_submission_from_a_run(home, tmp_path):
    from factlab.models.interface import ScriptedModel
    from factlab.studies.oasis.judges import FactualityJudge
    rows = pl.DataFrame({'id': ['x', 'y'], 'text': ['Owls hunt.', 'Owls swim.']})
    answers = ScriptedModel('s', lambda request: 'Not Factual' if 'swim' in request.messages[-1].content else 'Factual', revision='1')
    run('oasis', 'submission', '--run', make_run(rows, FactualityJudge(), answers, dataset='mine').id, '--out', tmp_path/'out.jsonl')
    assert [json.loads(line) for line in (tmp_path/'out.jsonl').read_text().splitlines()] == [{'id': 'x', 'factual': True},
                                                                                              {'id': 'y', 'factual': False}]


def gold(folder: Path, name: str, ids: list[str]) -> None:
    "A gold set as the hub has it."
    place = folder/name/{'oasis-e2e': 'e2e_factuality_evaluation', 'oasis-verification': 'claim_verification'}[name]/'data'
    place.mkdir(parents=True)
    pl.DataFrame({'id': ids, 'text': ['t']*len(ids), 'claim': ['c']*len(ids),
                  'evidence': ['e']*len(ids)}).write_parquet(place/'test-00000-of-00001.parquet')


def test_ids_are_compared_with_the_gold_set_that_is_at_hand(home, tmp_path, monkeypatch, capsys):
    (tmp_path/'data').mkdir()
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path/'data'))
    def submit(*ids):
        pl.DataFrame({'id': list(ids), 'factual': [True]*len(ids)}).write_parquet(tmp_path/'a.parquet')
        assert run('oasis', 'submission', '--predictions', tmp_path/'a.parquet') == 0
        return capsys.readouterr().err
    assert 'not compared' in submit('a', 'b')
    gold(tmp_path/'data', 'oasis-e2e', ['a', 'b', 'c'])
    # of the other task, which is not here
    assert 'those of oasis-e2e (3)' in submit('a', 'b', 'c') and 'not compared' in submit('v1', 'v2')
    with pytest.raises(DataError, match='1 of 3 ids of the gold set are missing'): submit('a', 'b')
    with pytest.raises(DataError, match='1 ids are not in the gold set'): submit('a', 'b', 'c', 'd')
    gold(tmp_path/'data', 'oasis-verification', ['v1', 'v2'])
    assert 'those of oasis-verification (2)' in submit('v1', 'v2')
    with pytest.raises(DataError, match='not in the gold set'): submit('x', 'y')


@pytest.mark.parametrize('frame', [pl.DataFrame({'id': ['x'], 'verdict': [None]}, schema={'id': pl.String, 'verdict': pl.Boolean}),
                                   pl.DataFrame({'id': ['x', 'x'], 'verdict': [True, True]}),
                                   pl.DataFrame({'id': ['x'], 'label': [True]}), pl.DataFrame({'id': ['x'], 'verdict': [0.7]}),
                                   pl.DataFrame({'id': ['x'], 'verdict': ['perhaps']})])
def test_predictions_that_are_none(tmp_path, frame):
    frame.write_parquet(tmp_path/'a.parquet')
    with pytest.raises(FactlabError): run('oasis', 'submission', '--predictions', tmp_path/'a.parquet', '--out', tmp_path/'out.jsonl')
    assert not (tmp_path/'out.jsonl').exists()
    with pytest.raises(DataError): run('oasis', 'submission', '--predictions', tmp_path/'nowhere.parquet')


# ---- forms -------------------------------------------------------------------------------------------------------------------------

def test_forms_are_those_of_appendix_e_and_are_read_again(tmp_path, capsys):
    import csv
    shared = ('--annotators', 'ada', 'ben', 'cy', '--instances', 9, '--shared', 2)
    assert run('oasis', 'forms', *shared, '--out', tmp_path/'forms') == 0
    assert '12 forms for 3 annotators, 11 instances' in capsys.readouterr().out and (tmp_path/'forms'/'guidelines.md').is_file()
    read = {name: read_human_evaluation_of(tmp_path/'forms'/name) for name in ('ada', 'ben', 'cy')}
    assert all(len(found) == 5 for found in read.values()) and len(set.intersection(*read.values())) == 2  # N/M + K each
    assert len(set.union(*read.values())) == 11
    lines = {task: list(csv.reader((tmp_path/'forms'/'ada'/f'{task}.tsv').open(newline=''), delimiter='\t'))
             for task in ('claims', 'falsification', 'factual_text', 'unfactual_text')}
    assert {task: {len(cells) for cells in found if cells} for task, found in lines.items()} == {
        'claims': {3}, 'falsification': {3}, 'factual_text': {4}, 'unfactual_text': {3}}
    assert {cells[2] for cells in lines['claims'] if cells} == {''} and lines['claims'][0][0] == 'original.text'
    with pytest.raises(DataError, match='may hold marks'): run('oasis', 'forms', *shared, '--out', tmp_path/'forms')
    for wrong in (('--instances', 1000), ('--shared', 1000)):
        with pytest.raises(UsageError): run('oasis', 'forms', *shared, *wrong, '--out', tmp_path/'other')
    assert run('oasis', 'forms', '--annotators', 'ada', '--shared', 0, '--task', 'claims', '--out', tmp_path/'one') == 0
    assert [file.name for file in (tmp_path/'one'/'ada').iterdir()] == ['claims.tsv']


def read_human_evaluation_of(folder) -> set:
    "The instances of one annotator's form on claims, as the reader names them once it is filled in."
    filled = '\n'.join('\t'.join([*line.split('\t')[:2], '' if line.startswith('original') else 'v']) if line.strip() else ''
                       for line in (folder/'claims.tsv').read_text().splitlines())
    return set(read_form(filled, 'claims', folder.name)['instance'])
