"""Every command that prints a table prints it as JSON, too."""
import json

import pytest

from factlab.cli.main import leaves, main, parser

# what they print is a path, a line or a file, or they open something
WITHOUT = {'data show', 'data get', 'data path', 'models get', 'models where', 'prompts export', 'build passages', 'train', 'oasis forms',
           'runs rm', 'export', 'lab', 'store export', 'store prune', 'examples', 'completion'}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    monkeypatch.chdir(tmp_path)
    return tmp_path/'home'


def test_all_commands_but_those_without_a_table_have_json():
    found = {each.prog.partition(' ')[2]: {name for action in each._actions for name in action.option_strings} for each in leaves(parser())}
    assert {name for name, options in found.items() if '--json' not in options} == WITHOUT


@pytest.mark.parametrize('words', [
    'list exhibits', 'list models', 'list runs', 'runs list', 'store stats', 'store verify', 'published', 'published final/table4',
    'audit --paper final', 'clear', 'info', 'check {0}/summaries.csv --dry-run', 'reproduce final/table3 --dry-run'])
def test_it_is_json_alone(words, tmp_path, capsys):
    assert main(['examples', str(tmp_path)]) == 0
    capsys.readouterr()
    assert main([*words.format(tmp_path).split(), '--json']) == 0
    json.loads(capsys.readouterr().out)


def test_exhibits_say_what_they_need_and_how_long_they_took_here(home, capsys):
    (home/'logs').mkdir(parents=True)
    lines = [{'exhibit': 'final/table4', 'status': 'measured', 'seconds': seconds} for seconds in (90, 30)]
    lines.append({'exhibit': 'final/table7', 'status': 'error', 'seconds': 9})
    (home/'logs'/'reproduce.jsonl').write_text('\n'.join(map(json.dumps, lines)))
    assert main(['list', 'exhibits', '--json']) == 0
    found = {row['name']: row for row in json.loads(capsys.readouterr().out)}
    assert found['final/table4']['minutes'] == 1.5 and found['final/table7']['minutes'] is None
    assert found['final/table4']['needs'] == 'tiny, mpnet, verifier' and found['fhsum/fig2']['needs'] == 'nothing'
    assert found['fhsum/transfer']['needs'].endswith('data xent, data mxsum')
