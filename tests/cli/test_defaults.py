"""The file of defaults, parameters from a file, completion, and removing what factlab keeps."""
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from factlab.cli.main import main, parser
from factlab.cli.output import fill_defaults, take_defaults
from factlab.core.core import UsageError
from factlab.localization.methods import localizers
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import make_run


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    for name in ('FACTLAB_WEIGHTS', 'FACTLAB_DATA'): monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path/'home').mkdir()
    return tmp_path/'home'


def read(path, text: str, *words: str):
    path.write_text(text)
    grammar = parser()
    take_defaults(grammar, path)
    given = grammar.parse_args(words)
    fill_defaults(given)
    return given


def test_the_command_line_goes_before_the_file(tmp_path):
    text = '[check]\nby = "claim"\nall = true\n[reproduce]\nmodel = ["a", "b"]\nlimit = 3\nno-retry = true\n'
    path = tmp_path/'factlab.toml'
    given = read(path, text, 'check', 'mine.csv')
    assert given.by == 'claim' and given.all and given.verifier == 'mpnet'
    assert read(path, text, 'check', 'mine.csv', '--by', 'sentence').by == 'sentence'
    given = read(path, text, 'reproduce', '--model', 'c')
    assert given.model == ['c'] and given.limit == 3 and given.retry_unparsed is False
    assert read(path, '[score]\ndata = "gold.csv"\npredictions = ["a.csv"]', 'score', 'labels').data == 'gold.csv'  # no longer needed
    assert read(path, '["store stats"]\njson = true', 'store', 'stats').json


@pytest.mark.parametrize('text, words', [
    ('[clear]\nyes = true', ('yes is no default',)), ('[build.oasis]\nseed = 1', ('build has commands of its own', '["build oasis"]')),
    ('[chek]\nby = "claim"', ("'chek'", 'check')), ('[check]\nverifyer = "x"', ("'verifyer'", 'verifier')),
    ('[check]\nby = "word"', ('[check]', 'sentence')), ('[check]\nall = 3', ('all', 'true or false')),
    ('[check]\nby = ["claim"]', ('one value',)),
    ('[reproduce]\nlimit = "few"', ('limit',)), ('[facts]\napi_key = "x"', ('api_key', 'environment')),
    ('[reproduce]\nmodel = "sk-0123456789abcdef0123"', ('model', 'environment')), ('check = 3', ('table',))])
def test_what_does_not_fit_is_refused(tmp_path, text, words):
    with pytest.raises(UsageError) as error: read(tmp_path/'factlab.toml', text, 'check', 'x.csv')
    assert all(word in str(error.value) for word in words) and '0123456789' not in str(error.value), error.value


def test_a_file_is_found_told_and_never_in_the_way_of_help(tmp_path, home, capsys):
    (home/'config.toml').write_text('[info]\njson = true\n')
    assert main(['info']) == 0 and f'"config": "{home/"config.toml"}"' in capsys.readouterr().out
    (tmp_path/'factlab.toml').write_text('[info\n')
    assert main(['info']) == 2 and 'factlab.toml is no TOML' in capsys.readouterr().err
    with pytest.raises(SystemExit) as end: main(['info', '--help'])
    assert end.value.code == 0


# ---- parameters from a file

@pytest.fixture
def started(monkeypatch) -> list:
    runs = []
    monkeypatch.setattr('factlab.reports.reproduce._run_all', lambda given, out, jobs: iter(runs.append(dict(given)) or ()))
    return runs


def test_parameters_of_several_exhibits_from_a_file(tmp_path, started, capsys):
    (tmp_path/'mine.yaml').write_text('facts: {seed: 3}\nfacts/judges:\n  judges: [words]\n  limit: 010\nfinal/table5: {}\n')
    assert main(['reproduce', '--parameters', 'mine.yaml', '--out', 'out']) == 0, capsys.readouterr().err
    assert started[0]['facts/judges'] == {'judges': ['words'], 'limit': 10, 'seed': 3} and started[0]['facts/table1'] == {}
    assert main(['reproduce', 'facts/judges', '--parameters', 'mine.yaml', '--limit', '2', '--out', 'out']) == 0
    assert started[1] == {'facts/judges': {'judges': ['words'], 'limit': 2, 'seed': 3}}


@pytest.mark.parametrize('text, words', [
    ('facts/judge: {limit: 1}', ('facts/judges',)), ('facts/judges: {limits: 1.5}', ('limit',)),
    ('facts/judges: {models: x}', ("'models'",)),
    ('facts/judges: {limit: few}', ('number',)), ('facts/judges: {judges: [wrods]}', ('wrods',)), ('[a]', ('expected exhibits',)),
    ('facts/judges: 3', ('expected exhibits',)), ('facts/judges: {limit: 1, limit: 2}', ('more than once',)), ('a: {', ('YAML',)),
    ('facts/judges: {out: x}', ('--out',))])
def test_a_file_of_parameters_is_checked_as_options_are(tmp_path, started, capsys, text, words):
    (tmp_path/'mine.yaml').write_text(text)
    assert main(['reproduce', '--parameters', 'mine.yaml', '--out', 'out']) == 2 and not started
    errors = capsys.readouterr().err
    assert all(word in errors for word in words), errors


def test_what_will_be_asked_is_told_before(started, capsys):
    assert main(['reproduce', 'final/table4', '--limit', '1', '-p', 'methods=[zero_shot]', '--out', 'out']) == 0
    errors = capsys.readouterr().err
    assert 'final/table4: ' in errors and 'questions on 1 rows' in errors and 'not known yet' in errors and '--limit N' in errors
    assert main(['reproduce', 'final/table3', '--out', 'out']) == 0
    assert 'questions' not in capsys.readouterr().err


def test_an_exhibit_that_these_rows_cannot_make_is_left_to_say_so_itself(started, tmp_path, capsys):
    (tmp_path/'one.jsonl').write_text('{"document": "The mill closed in 1931.", "summary": "It closed.", "label": "NFH"}\n')
    assert main(['reproduce', 'fhsum/table7', '--data', 'one.jsonl', '--out', 'out']) == 0 and len(started) == 1
    assert 'questions' not in capsys.readouterr().err


def test_progress_in_a_log_is_a_line_a_minute():
    code = ('import os, time\nos.environ.pop("FACTLAB_PROGRESS", None)\nfrom factlab.core.core import progress\n'
            'bar = progress(range(3), label="x")\nprint(bar.mininterval, bar.delay, list(bar))')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout == '60 60 [0, 1, 2]\n' and done.stderr == ''


# ---- completion

@pytest.mark.parametrize('shell', ['bash', 'zsh'])
def test_completion_knows_commands_and_options(shell, capsys):
    assert main(['completion', shell]) == 0
    script = capsys.readouterr().out
    assert 'reproduce' in script and '--fail-on' in script and 'injection' in script
    if shell == 'bash': subprocess.run(['bash', '-n'], input=script, text=True, check=True)


# ---- clear

class Terminal(io.StringIO):
    def isatty(self) -> bool: return True


def test_clear_says_asks_and_removes(home, capsys, monkeypatch):
    import polars as pl
    rows = pl.DataFrame({'id': ['a'], 'text': ['one'], 'summary': ['three']})
    model = ScriptedModel('scripted', lambda request: 'A. wrong', revision='clear')
    run = make_run(rows, localizers('zero_shot')[0], model, dataset='mine.jsonl')
    assert main(['clear']) == 0
    told = capsys.readouterr().out
    assert 'scripted: 1 responses' in told and 'Nothing was removed' in told and run.folder.exists()
    assert main(['clear', 'runs']) == 2 and '--yes' in capsys.readouterr().err and run.folder.exists()
    monkeypatch.setattr('sys.stdin', Terminal('n\n'))
    assert main(['clear', 'runs']) == 0 and capsys.readouterr().out == 'nothing was removed\n' and run.folder.exists()
    monkeypatch.setattr('sys.stdin', Terminal('y\n'))
    assert main(['clear', 'runs']) == 0 and not run.folder.exists() and '[y/N]' in capsys.readouterr().err
    assert main(['clear', 'answers', '--yes']) == 0 and 'scripted: 1 responses' in capsys.readouterr().err
    assert main(['clear', '--json']) == 0 and 'scripted' not in capsys.readouterr().out
    assert main(['clear', 'caches']) == 2 and 'cache' in capsys.readouterr().err


def test_clear_leaves_folders_that_are_the_users_own(home, tmp_path, monkeypatch):
    monkeypatch.setenv('FACTLAB_WEIGHTS', str(home/'cache'/'mine'/'weights'))
    for name in ('mine/weights/x.gguf', 'corpora/p.npy'):
        (home/'cache'/name).parent.mkdir(parents=True)
        (home/'cache'/name).write_text('x')
    (tmp_path/'elsewhere').mkdir()
    (tmp_path/'elsewhere'/'y').write_text('y')
    (home/'cache'/'data').symlink_to(tmp_path/'elsewhere')
    assert main(['clear', 'cache', '--yes']) == 0
    assert (home/'cache'/'mine'/'weights'/'x.gguf').exists() and (tmp_path/'elsewhere'/'y').exists()
    assert sorted(path.name for path in (home/'cache').iterdir()) == ['mine']


def test_clear_leaves_what_factlab_did_not_write(home, capsys):
    for name in ('runs/project/results.csv', 'notebooks/thesis.ipynb', 'executed/mine/a.txt', 'logs/mine.txt', 'logs/reproduce.jsonl',
                 'executed/0123abcd/a.ipynb', 'cache/thesis.tex', 'cache/small-0123456789ab/w.bin'):
        (home/name).parent.mkdir(parents=True, exist_ok=True)
        (home/name).write_text('mine')
    assert main(['clear', 'runs', '--yes']) == 0 and capsys.readouterr().out == 'there was nothing to remove\n'
    (home/'notebooks'/'thesis.ipynb').write_text('from factlab.workbench import browse')
    assert main(['clear', 'notebooks', 'logs', 'cache', '--yes']) == 0
    said = capsys.readouterr()
    assert said.out == 'removed: cache, notebooks, logs\n' and f'in {home/"logs"}' in said.err
    assert str(home/'notebooks'/'thesis.ipynb') in said.err
    assert sorted(path.name for path in home.rglob('*') if path.is_file()) == [
        'a.txt', 'mine.txt', 'results.csv', 'thesis.ipynb', 'thesis.tex']


@pytest.mark.parametrize('words, code', [
    ('list data --out {}/d.csv', 2), ('info --out {}/i.parquet', 2), ('published oasis/table2 --out {}/p.parquet', 2),
    ('audit --paper oasis --out {}/a.csv', 2), ('info --out {}/i.json', 0), ('list data --out {}/d.txt', 0),
    ('published oasis/table2 --out {}/p.csv', 0)])
def test_a_file_is_what_its_name_says_or_refused(tmp_path, home, words, code):
    arguments = words.format(tmp_path).split()
    try: ended = main(arguments)
    except SystemExit as end: ended = end.code
    assert ended == code and Path(arguments[-1]).is_file() == (code == 0)
    if arguments[-1].endswith('.json'): assert json.loads(Path(arguments[-1]).read_text())


@pytest.mark.parametrize('words, near', [('chek mine.csv', "COMMAND: there is no 'chek': did you mean check?"),
                                         ('list exhibit', "there is no 'exhibit': did you mean exhibits?"),
                                         ('build oasi', "KIND: there is no 'oasi': did you mean oasis?")])
def test_a_misspelt_word_brings_the_nearest(capsys, words, near):
    with pytest.raises(SystemExit) as end: main(words.split())
    assert end.value.code == 2 and near in capsys.readouterr().err
