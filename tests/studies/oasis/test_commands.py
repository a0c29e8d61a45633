"""What LLM-OASIS adds to the command line: what its commands take, what they print, and what they refuse."""
import json
from pathlib import Path

import polars as pl
import pytest

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.core.core import DataError, FactlabError, UsageError
from factlab.runs.runs import make_run
from factlab.studies.oasis.commands import read_predictions

WORLD = {'owls.txt': 'Owls hunt at night. They rest in hollow trees by day.', 'otters.md': 'Otters live by rivers and eat fish.'}


def run(*arguments) -> int:
    return run_command(parser(), [str(argument) for argument in arguments])


@pytest.fixture
def corpus(tmp_path) -> Path:
    folder = tmp_path/'corpus'
    folder.mkdir()
    for name, text in WORLD.items(): (folder/name).write_text(text)
    return folder


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


def test_submission_from_a_run(tmp_path, monkeypatch):
    from factlab.models.interface import ScriptedModel
    from factlab.studies.oasis.judges import FactualityJudge
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
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


def test_ids_are_compared_with_the_gold_set_that_is_at_hand(tmp_path, monkeypatch, capsys):
    (tmp_path/'data').mkdir()
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path/'data'))
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
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
