"""The command line: what it loads, what it prints, and how it ends."""
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from commands import say

from factlab.core.core import home_dir
from factlab.localization.methods import localizers
from factlab.models.interface import ScriptedModel
from factlab.reports.exhibits import find_exhibits
from factlab.runs.plan import make_run

BIN = Path(sys.executable).parent
HEAVY = ('torch', 'transformers', 'sentence_transformers', 'altair', 'vl_convert', 'openai', 'sklearn', 'scipy', 'papermill',
         'jupyter_client', 'nbformat', 'pydantic', 'IPython', 'matplotlib')


@pytest.fixture
def run(home):
    "A run and its answers in the store, in a home of this test's own."
    rows = pl.DataFrame({'id': ['a', 'b'], 'text': ['one', 'two'], 'summary': ['three', 'four']})
    return make_run(rows, localizers('zero_shot')[0], ScriptedModel('scripted', lambda request: 'A. wrong', revision='1'),
                    dataset='mine.jsonl')


# ---- what is loaded ----------------------------------------------------------------------------------------------------------------

def loaded_by(code: str) -> set[str]:
    "Names of the modules in memory once this code has run in a fresh interpreter."
    done = subprocess.run([sys.executable, '-c', f'import sys\n{code}\nprint("\\n" + " ".join(sys.modules))'], capture_output=True,
                          text=True, check=True)
    return set(done.stdout.strip().splitlines()[-1].split())


def test_import_factlab_loads_nothing_heavy():
    found = loaded_by('import factlab')
    assert 'factlab' in found and not found & {*HEAVY, 'polars', 'numpy', 'sqlite3'}


@pytest.mark.parametrize('commands, heavy', [
    ([['--help'], ['--version'], ['reproduce', '--help'], ['store', 'prune', '--help'], ['reproduce', '--jobs', 'x'], ['data']], HEAVY),
    ([['list', 'data'], ['list', 'models'], ['models', 'where', 'small'], ['runs', 'list'], ['store', 'stats']],
     ('torch', 'transformers', 'sentence_transformers', 'altair', 'openai', 'sklearn'))])
def test_what_says_how_to_ask_and_what_lists_load_nothing_heavy(tmp_path, commands, heavy):
    code = (f'import os\nos.environ["FACTLAB_HOME"] = {str(tmp_path)!r}\nfrom factlab.cli.main import main\n'
            f'for arguments in {commands!r}:\n    try: main(arguments)\n    except SystemExit: pass')
    assert not loaded_by(code) & {*heavy}


def test_every_help_ends_with_an_example_that_is_understood():
    from factlab.cli.main import leaves, parser
    told = {command.prog: (command.epilog or '').rpartition('xample: ')[2].strip() for command in leaves(parser())}
    told['factlab check'] = told['factlab check'].strip().splitlines()[-1].strip()  # with a line before it
    assert not (lacking := [name for name, said in told.items() if not said.startswith(name)]), f'no example in EXAMPLES: {lacking}'
    for said in told.values():  # perhaps several, one after the other
        for each in re.split(r'\s*[;,·]?\s+(?=factlab )', said): parser().parse_args(shlex.split(each.splitlines()[0])[1:])


def test_info_tells_names_of_keys_and_no_key(capsys, home, monkeypatch):
    for name in ('FACTLAB_WEIGHTS', 'FACTLAB_DATA'): monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('OPENAI_API_KEY', 'sk-secret')
    home.mkdir()
    (home/'store.db').write_bytes(bytes(3_000_000))
    code, text, _ = say(capsys, 'info')
    assert code == 0 and 'OPENAI_API_KEY' in text and 'secret' not in text
    assert re.search(rf'answers and runs +3 MB +{re.escape(str(home))}$', text, re.MULTILINE)
    assert re.search(r'^  mpnet +439 MB', text, re.MULTILINE)
    code, text, _ = say(capsys, 'info', '--json')
    found = json.loads(text)
    assert found['folders']['answers and runs'] == {'path': str(home), 'bytes': 3_000_000} and found['keys'] == ['OPENAI_API_KEY']


def test_a_paper_stands_for_its_exhibits(capsys, home):
    code, text, _ = say(capsys, 'published', 'final')
    assert code == 0 and 'final/table4' in text and 'oasis/' not in text
    assert [each.id for each in find_exhibits(['final', 'oasis/fig1'])][0] == 'oasis/fig1' and len(find_exhibits(['final'])) == 24
    code, _, errors = say(capsys, 'reproduce', 'finale')
    assert code == 2 and 'final' in errors


def test_no_module_loads_the_heavy_libraries_until_they_are_needed():
    names = ('data.datasets', 'store.answers', 'models.interface', 'models.prompts', 'models.openai_backend', 'measures.metrics',
             'measures.stats', 'localization.methods', 'localization.matching', 'runs.runs', 'reports.published', 'reports.plots',
             'reports.tables', 'reports.exhibits', 'studies.final.study', 'reports.reproduce', 'models.encoder', 'audit.report')
    assert not loaded_by('import ' + ', '.join(f'factlab.{name}' for name in names)) & (set(HEAVY) - {'pydantic'})


@pytest.mark.parametrize('arguments', [[], ['nothing'], ['data'], ['store'], ['runs'], ['data', 'get'], ['runs', 'show'],
                                       ['store', 'export'], ['reproduce', '--limit', '1.5']])
def test_a_command_that_is_none_ends_with_2(capsys, arguments):
    code, output, errors = say(capsys, *arguments)
    assert code == 2 and not output and 'usage: factlab' in errors


def test_data(capsys, home, monkeypatch, tmp_path):
    code, output, _ = say(capsys, 'list', 'data')
    assert code == 0 and all(name in output for name in ('final', 'defacto', 'xsumfaith', 'entfa'))
    code, output, _ = say(capsys, 'data', 'show', 'final')
    assert code == 0 and 'icen' in output and 'http' in output
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path))
    code, output, errors = say(capsys, 'data', 'path', 'final')
    assert (code, output) == (3, '') and 'factlab data get final' in errors
    for action in ('show', 'get', 'path'):
        code, output, errors = say(capsys, 'data', action, 'finall')
        assert (code, output) == (2, '') and 'final' in errors and errors.startswith('factlab: ')


def test_data_path_and_get_of_what_is_there(capsys, home, final_data):
    for action in ('path', 'get'):
        code, output, _ = say(capsys, 'data', action, 'final')
        assert code == 0 and (Path(output.strip())/'data.jsonl').is_file()


def test_models(capsys, home, monkeypatch, tmp_path):
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_CACHE', str(tmp_path))
    monkeypatch.delenv('FACTLAB_WEIGHTS', raising=False)
    code, output, _ = say(capsys, 'list', 'models')
    row = next(line for line in output.splitlines() if line.startswith('small '))
    assert code == 0 and all(part in row for part in ('1.1 GB', 'Apache-2.0', 'factlab models get small')) and 'openai:MODEL' in output
    code, output, _ = say(capsys, 'list', 'models', '--json')
    assert {row['name']: row['where'] for row in json.loads(output)}['tiny'] == 'installed'
    for kind, name, weights in (('extractors', 'tiny', 'tiny'), ('retrievers', 'retriever', 'minilm'), ('judges', 'quick', 'mpnet')):
        code, output, _ = say(capsys, 'list', kind, '--json')
        row = next(row for row in json.loads(output) if row['name'] == name)
        assert row['licence'] == 'Apache-2.0' and row['size'].endswith('MB') and row['needs'].startswith(f'weights {weights}: ')
        assert {row['needs'] for row in json.loads(output)} > {'nothing'}
    for action in ('where', 'get'):
        code, output, _ = say(capsys, 'models', action, 'tiny')
        assert code == 0 and output.endswith('.gguf\n')
        code, output, errors = say(capsys, 'models', action, 'tinny')
        assert (code, output) == (2, '') and "did you mean 'tiny'" in errors
    code, output, errors = say(capsys, 'models', 'where', 'small')
    assert (code, output) == (3, '') and 'run `factlab models get small`' in errors


def test_runs(capsys, run):
    code, output, _ = say(capsys, 'runs', 'list')
    assert code == 0 and run.id in output and 'scripted' in output
    code, output, _ = say(capsys, 'runs', 'show', run.id[:-3])
    manifest, _, rest = output.rpartition('}\n')
    assert code == 0 and json.loads(manifest + '}') == run.manifest and '2 rows' in rest
    code, output, errors = say(capsys, 'runs', 'show', 'nothing')
    assert (code, output) == (2, '') and 'no run' in errors
    (run.folder/run.manifest['file']).write_bytes(b'damaged')
    code, output, errors = say(capsys, 'runs', 'show', run.id)
    assert code == 3 and 'checksum' in errors and 'Traceback' not in errors
    assert say(capsys, 'runs', 'rm', run.id)[0] == 0 and not run.folder.exists()
    assert say(capsys, 'runs', 'rm', run.id)[0] == 2
    code, output, _ = say(capsys, 'runs', 'list')
    assert code == 0 and 'no runs in' in output


def test_store(capsys, run, tmp_path):
    code, output, _ = say(capsys, 'store', 'stats')
    assert code == 0 and 'scripted' in output and str(home_dir()/'store.sqlite') in output
    assert say(capsys, 'store', 'verify')[:2] == (0, 'sound\n')
    for name in ('answers.jsonl', 'answers.parquet'):
        code, output, _ = say(capsys, 'store', 'export', str(tmp_path/name))
        assert code == 0 and output.startswith('2 responses') and (tmp_path/name).is_file()
    assert len((tmp_path/'answers.jsonl').read_text().splitlines()) == 2
    code, _, errors = say(capsys, 'store', 'export', str(tmp_path/'answers.pdf'))
    assert code == 2 and '.jsonl' in errors
    code, output, _ = say(capsys, 'store', 'prune', '--model', 'scripted', '--dry-run')
    assert code == 0 and output == '2 responses would be removed\n'
    code, _, errors = say(capsys, 'store', 'prune', '--before', 'yesterday')
    assert code == 2 and 'yesterday' in errors
    code, output, _ = say(capsys, 'store', 'prune', '--model', 'scripted')
    assert code == 0 and output == '2 responses removed\n'
    assert say(capsys, 'store', 'prune', '--model', 'scripted', '--dry-run')[1].startswith('0 ')


def test_a_damaged_store_is_said(capsys, run):
    path = home_dir()/'store.sqlite'
    with closing(sqlite3.connect(path)) as connection, connection: connection.execute("UPDATE answers SET answer = '{}' WHERE id = 1")
    code, output, errors = say(capsys, 'store', 'verify')
    assert code == 1 and 'sound' not in output and 'Traceback' not in errors
    path.write_bytes(b'not a database at all' * 500)
    for action, ends in (('stats', 3), ('verify', 1)):
        code, output, errors = say(capsys, 'store', action)
        assert code == ends and str(path) in output + errors and 'Traceback' not in errors and 'sound' not in output


def test_a_home_that_cannot_be_made_is_said(capsys, tmp_path, monkeypatch):
    (tmp_path/'file').write_text('')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'file'))
    for arguments in (['runs', 'list'], ['store', 'stats'], ['reproduce', 'final/table8', '--dry-run']):
        code, _, errors = say(capsys, *arguments)
        assert code == 3 and 'FACTLAB_HOME' in errors, arguments


def test_a_dry_run_that_stops_does_not_say_that_nothing_is_asked(capsys, home):
    given = ['reproduce', 'oasis/table6', '--model', 'hf:nobody/nothing', '--limit', '1', '-p', 'runs=1', '--dry-run']
    code, output, errors = say(capsys, *given)
    assert code == 3 and errors.count('nobody/nothing') == 1
    assert 'nothing to ask' not in output and 'executed copy' not in errors


# ---- what reproduce gives to notebooks ---------------------------------------------------------------------------------------------

@pytest.fixture
def started(home, monkeypatch) -> list:
    "What would have been run: exhibits, parameters. Nothing is."
    runs = []
    monkeypatch.setattr('factlab.reports.reproduce._run_all',
                        lambda given, out, jobs: iter(runs.append((list(given), dict(next(iter(given.values()))))) or ()))
    return runs


@pytest.mark.parametrize('arguments, words', [
    (['oasis/table4', '--model', 'tiny'], ('oasis/table4', "'model'", 'extractors, data, encoder')),
    (['oasis/tablec1', '--verifier', 'cosine'], ("'verifier'", 'encoders')),
    (['final/table4', 'oasis/table8', '--model', 'tiny'], ('oasis/table8', "'model'", 'verifiers')),
    (['facts/table2', '--limit', '3'], ('facts/table2', "'limit'", 'asked')),
    (['oasis/fig1', '--model', 'tiny', 'hf:b', '--dry-run'], ('oasis/fig1', 'model is one value', '2')),
    (['oasis/fig1', '-p', 'items=[1, 2]'], ('oasis/fig1', 'item is one value')),
    (['oasis/table8', '--no-retry'], ("'retry_unparsed'",)),
    (['oasis/fig5', '-p', 'length=3', '-p', 'nothing=1'], ("'nothing'", 'lengths')), (['oasis/table5', '-p', 'out=there'], ('--out',)),
    (['oasis/table5', '--model', 'a', '-p', 'models=b'], ('model: given more than once',)),
    (['oasis/table5', '-p', 'runs=1', '-p', 'runs=2'], ('given more than once',)),
    (['oasis/table5', '-p', 'runs'], ('NAME=VALUE', "'runs'")), (['oasis/table5', '-p', '=1'], ('NAME=VALUE',)),
    (['oasis/table5', '-p', 'runs=[1'], ('runs', 'YAML')), (['oasis/table5', '-p', 'runs={a: 1}'], ('runs', '{a: 1}')),
    (['oasis/table5', '-p', 'runs='], ('runs has no value',)),
    (['oasis/table5', '-p', 'runs=no'], ('oasis/table5', 'whole number', "'no'")),
    (['oasis/table5', '-p', 'runs=1:30'], ('whole number', "'1:30'")), (['oasis/table5', '-p', 'temperature=low'], ('a number', "'low'")),
    (['oasis/table5', '-p', 'retry_unparsed=maybe'], ('true or false', "'maybe'")),
    (['oasis/table5', '-p', 'models=[010]'], ('text', '10')),
    (['--paper', 'facts', '--model', 'tiny'], ("'model'", 'none of these')), (['-p', 'modles=tiny'], ("'modles'", 'none of these'))])
def test_an_option_that_does_not_fit_is_refused_before_anything_runs(capsys, started, tmp_path, arguments, words):
    code, _, errors = say(capsys, 'reproduce', *arguments, '--out', str(tmp_path/'out'))
    assert code == 2 and not started and all(word in errors for word in words) and 'Traceback' not in errors, errors


def test_parameters_of_a_paper_go_to_those_that_have_them(capsys, started, tmp_path, monkeypatch):
    monkeypatch.setattr('factlab.reports.options.check_options', lambda *_, **__: None)  # nothing that is named here is there
    (tmp_path/'mine.jsonl').write_text('')
    monkeypatch.chdir(tmp_path)
    options = ['--model', 'tiny', 'hf:a/b', '--limit', '2', '--no-retry', '-p', 'retriever=tiny', '-p', 'lengths=[250, 500]',
               '-p', 'temperature=0.5', '-p', 'data=mine.jsonl', '-p', 'labels=[./there.csv]', '-p', 'annotations=None', '--parameter',
               'keep=known.parquet']
    code, _, errors = say(capsys, 'reproduce', '--paper', 'oasis', *options, '--out', str(tmp_path/'out'))
    assert code == 2 and "'labels'" in errors
    code, _, errors = say(capsys, 'reproduce', *options, '--out', str(tmp_path/'out'))
    assert code == 0, errors
    ((ids, given),) = started
    assert len(ids) > 40
    assert given == {'model': ['tiny', 'hf:a/b'], 'limit': 2, 'retry_unparsed': False, 'retriever': 'tiny', 'lengths': [250, 500],
                     'temperature': .5, 'data': str(tmp_path/'mine.jsonl'), 'labels': [str(tmp_path/'there.csv')], 'annotations': None,
                     'keep': str(tmp_path/'known.parquet')}


@pytest.mark.parametrize('written, value', [
    ('3', 3), ('010', 10), ('+7', 7), ('-2', -2), ('−2', -2), ('1_000', 1000), ('1__0', '1__0'), ('1,000', '1,000'),
    ('1e-3', .001), ('1E3', 1000.0),
    ('.5', .5), ('1.', 1.0), ('1e999', '1e999'), ('.nan', '.nan'), ('0x1F', '0x1F'), ('1:30', '1:30'), ('2024-01-01', '2024-01-01'),
    ('no', 'no'), ('on', 'on'), ('y', 'y'), ('yes', 'yes'), ('true', True), ('FALSE', False), ('~', None), ('None', None), ("'3'", '3'),
    ('"no"', 'no'), ('my #1.csv', 'my #1.csv'), ('*a', '*a'), ('=', '='),
    ('[a, 010, no, "1", 1e1]', ['a', 10, 'no', '1', 10.0]), ('[]', [])])
def test_values_are_read_as_people_write_them(written, value):
    from factlab.cli.reproduce import _parameter
    assert repr(_parameter(f'name={written}')) == repr(('name', value))


# ---- the ends of a pipe ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('unbuffered', ['', '1'])
@pytest.mark.parametrize('arguments', [['list', 'data'], ['store', 'stats'], ['--help']])
def test_a_reader_that_went_away(home, arguments, unbuffered):
    "As `| head` does; here the reader is gone before the first line."
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([BIN/'factlab', *arguments], stdout=writing, stderr=subprocess.PIPE, text=True,
                          env=os.environ | {'FACTLAB_HOME': str(home), 'PYTHONUNBUFFERED': unbuffered})
    os.close(writing)
    assert 'Traceback' not in done.stderr and 'BrokenPipeError' not in done.stderr and done.returncode in (0, 141), done


def test_head(home):
    done = subprocess.run(f'{BIN}/factlab list data | head -1', shell=True, capture_output=True, text=True,
                          env=os.environ | {'FACTLAB_HOME': str(home)})
    assert done.stdout.count('\n') == 1 and done.stderr == ''


@pytest.mark.skipif(not Path('/dev/full').exists(), reason='needs /dev/full, which this system does not have')
def test_output_that_cannot_be_written_is_no_success(home):
    with open('/dev/full', 'w') as full:
        done = subprocess.run([BIN/'factlab', 'list', 'data'], stdout=full, stderr=subprocess.PIPE, text=True,
                              env=os.environ | {'FACTLAB_HOME': str(home)})
    assert done.returncode != 0 and 'Traceback' not in done.stderr and 'space' in done.stderr


def test_ctrl_c_is_130(monkeypatch, capsys):
    def interrupted(*_): raise KeyboardInterrupt
    monkeypatch.setattr('factlab.data.files.listing', interrupted)
    code, _, errors = say(capsys, 'list', 'data')
    assert code == 130 and 'interrupted' in errors


def test_a_folder_of_a_build_is_found_from_other_folders(tmp_path, monkeypatch):
    from factlab.cli.reproduce import _absolute_path
    monkeypatch.chdir(tmp_path)
    for name in ('mine', 'prompts', 'sample'): (tmp_path/name).mkdir()
    (tmp_path/'mine'/'oasis.parquet').touch()
    (tmp_path/'prompts'/'README.md').touch()
    assert _absolute_path('mine') == str(tmp_path/'mine') and _absolute_path('sample') == 'sample'
    assert _absolute_path('prompts') == str(tmp_path/'prompts')
    assert _absolute_path('not-there.jsonl') == str(tmp_path/'not-there.jsonl')
    assert _absolute_path('sample, mine,a.jsonl') == f'sample,{tmp_path/"mine"},{tmp_path/"a.jsonl"}'
