"""`factlab final candidates` and `enrich`: models and other tools, two people in the workbench, enriched gold with their agreement."""
import json

import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer

from factlab.cli.main import main
from factlab.data.datasets import load
from factlab.workbench import annotate_queue

ROWS = {'tram': ['year: 1901 is not in the text.'], 'bus': []}
FOUND = {'tram': ['year: 1901 is not in the text.', 'colour: nothing says that the tram was red.'], 'bus': ['speed: nothing is fast.']}


@pytest.fixture
def data(home, tmp_path):
    lines = [{'id': id, 'text': f'The {id} went.', 'summary': f'The {id} went far.', 'gold': gold, 'split': 'test'}
             for id, gold in ROWS.items()]
    (tmp_path/'mine.jsonl').write_text('\n'.join(map(json.dumps, lines)))
    pl.DataFrame([{'id': id, 'description': text} for id, texts in FOUND.items() for text in texts]).write_csv(tmp_path/'tool.csv')
    return str(tmp_path/'mine.jsonl')


def found(call) -> object:
    id = next(id for id in ROWS if f'The {id} went.' in call.prompt)
    return answer('\n'.join(f'{label}. {text}' for label, text in zip('AB', FOUND[id], strict=False)))


def label(folder, **typed: str) -> None:
    for who, keys in typed.items():
        bench = annotate_queue(folder/'queue.jsonl', annotator=who)
        for key in keys: bench.keyboard.value += key


def test_candidates_of_a_model_and_a_tool_become_gold_by_two_people(data, tmp_path, capsys):
    with MisbehavingServer(found) as server:
        model = f'openai:finder?base_url={server.url}'
        given = ['final', 'candidates', str(tmp_path/'new'), '--data', data, '--models', model, '--predictions', str(tmp_path/'tool.csv')]
        assert main([*given, '--dry-run']) == 0 and not server.calls
        shown = capsys.readouterr().out
        assert 'final/high_recall' in shown and 'the judge (offline) matches at the most 4 lists' in shown and not (tmp_path/'new').exists()
        assert main(given) == 0 and len(server.calls) == 2
        assert '4 candidates on 2 summaries; the judge finds 2 of them in the data' in capsys.readouterr().out
        assert main(given) == 0 and len(server.calls) == 2, 'answers are kept'
    kept = pl.read_ndjson(tmp_path/'new'/'candidates.jsonl')
    assert kept['models'].list.len().to_list() == [1, 2, 1, 2] and 'finder' in kept['models'][0][0]
    assert main(['final', 'enrich', str(tmp_path/'new')]) == 3 and 'has no labels' in capsys.readouterr().err
    label(tmp_path/'new', Ann=' 1 1', Ben='2121')
    assert main(['final', 'enrich', str(tmp_path/'new'), '--to', str(tmp_path/'enriched.jsonl')]) == 0
    shown = capsys.readouterr().out
    assert dict(load(str(tmp_path/'enriched.jsonl')).select('id', 'gold').iter_rows()) == {
        'tram': [*ROWS['tram'], FOUND['tram'][1]], 'bus': FOUND['bus']}
    assert 'described errors of these: 1 before, 3 now; 1 summaries had none before' in shown and 'labels of Ann, Ben' in shown
    assert any(line.split()[:3] == ['Raw', 'agreement', '1.0'] for line in shown.splitlines())


def test_people_who_differ_take_a_summary_out_and_one_is_told_of_a_second(data, tmp_path, capsys):
    assert main(['final', 'candidates', str(tmp_path/'new'), '--data', data, '--predictions', str(tmp_path/'tool.csv'), '--new-only']) == 0
    label(tmp_path/'new', Ann='11')
    assert main(['final', 'enrich', str(tmp_path/'new')]) == 0 and 'a second person' in capsys.readouterr().out
    label(tmp_path/'new', Ben='13')
    assert main(['final', 'enrich', str(tmp_path/'new')]) == 0
    shown = capsys.readouterr().out
    assert '1 of 2 summaries; 1 are left out' in shown and load(str(tmp_path/'new'/'enriched.jsonl'))['id'].to_list() == ['tram']
    assert any(line.split()[:3] == ['Raw', 'agreement', '0.5'] for line in shown.splitlines())


def test_what_cannot_be_is_refused(data, tmp_path, capsys):
    given = ['final', 'candidates', str(tmp_path/'new'), '--data', data]
    def said(*more: str) -> str: return (main([*given, *more]), capsys.readouterr().err)[1]
    assert 'name models to ask' in said()
    pl.DataFrame({'id': ['plane'], 'description': ['x']}).write_csv(tmp_path/'other.csv')
    assert "1 rows that the data do not have, as 'plane'" in said('--predictions', str(tmp_path/'other.csv'))
    assert 'Appendix H.1' in said('--models', 'tiny', '--prompts', 'paper', '--dry-run')
    pl.DataFrame({'id': ['tram'], 'description': [None]}, schema_overrides={'description': pl.String}).write_csv(tmp_path/'none.csv')
    assert 'nothing to label' in said('--predictions', str(tmp_path/'none.csv'))
    assert main(['final', 'enrich', str(tmp_path/'nowhere')]) == 3 and 'factlab final candidates' in capsys.readouterr().err
    assert main([*given, '--predictions', str(tmp_path/'tool.csv')]) == 0
    label(tmp_path/'new', Ann=' ')
    assert 'labels of other items' in said('--predictions', str(tmp_path/'tool.csv'), '--limit', '1')
    assert main(['final', 'enrich', str(tmp_path/'new')]) == 3 and 'candidates have no label' in capsys.readouterr().err
