"""`factlab train`: what it takes, what it runs, and what it refuses."""
import shutil
from pathlib import Path

import nbformat
import polars as pl
import pytest
from commands import run
from conftest import with_weights

from factlab.building.training_views import training_data
from factlab.cli import train as train_command
from factlab.core.core import DataError, RunError, UsageError, project_dir
from factlab.data.corpora import load_oasis_sample
from factlab.models.adapters import read_card
from factlab.training.extractor import oasis_examples


@pytest.fixture
def checkout(home, tmp_path, monkeypatch) -> Path:
    "A checkout with a notebook that trains nothing: it writes its parameters down."
    (tmp_path/'nbs'/'papers').mkdir(parents=True)
    (tmp_path/'nbs'/'train').mkdir()
    (tmp_path/'settings.ini').touch()
    cells = [nbformat.v4.new_code_cell("train = False\nsteps = 10\nseed = 0\nout = ''", metadata={'tags': ['parameters']}),
             nbformat.v4.new_code_cell("assert steps < 100, 'too many steps'\nfrom pathlib import Path\nif out: "
                                       "Path(out).write_text(f'{steps} {seed}')\nprint('trained', steps)")]
    metadata = {'kernelspec': {'name': 'python3', 'display_name': 'python3', 'language': 'python'}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), tmp_path/'nbs'/'train'/'verifier.ipynb')
    monkeypatch.setattr(train_command, 'notebooks_dir', lambda: tmp_path/'nbs')
    return tmp_path


def test_train_runs_the_notebook_with_what_is_given(checkout, monkeypatch, capfd):
    monkeypatch.chdir(checkout)
    assert run('train', 'verifier', '--steps', 20, '--out', 'here.txt') == 0
    assert (checkout/'here.txt').read_text() == '20 0'
    shown = capfd.readouterr().out
    assert 'trained 20' in shown and str(checkout/'home'/'executed'/'train'/'verifier.ipynb') in shown
    with pytest.raises(RunError, match='too many steps'): run('train', 'verifier', '--steps', 200)
    with pytest.raises(RunError, match='missing'): run('train', 'retriever')
    with pytest.raises(SystemExit): run('train', 'judge')


def test_a_notebook_that_shows_what_ships_is_told_to_train(checkout, monkeypatch):
    monkeypatch.chdir(checkout)
    cells = [nbformat.v4.new_code_cell("train = False\nsteps = None\nout = None", metadata={'tags': ['parameters']}),
             nbformat.v4.new_code_cell("from pathlib import Path\nPath(out).write_text(f'{train} {steps}')")]
    metadata = {'kernelspec': {'name': 'python3', 'display_name': 'python3', 'language': 'python'}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), checkout/'nbs'/'train'/'retriever.ipynb')
    assert run('train', 'retriever', '--out', 'told.txt') == 0 and (checkout/'told.txt').read_text() == 'True None'


@pytest.mark.parametrize('part', train_command.PARTS)
def test_every_part_is_written_to_factlabs_home_and_put_to_use_by_one_line(checkout, part, monkeypatch, capfd):
    own = checkout/'my home'
    shutil.copy(checkout/'nbs'/'train'/'verifier.ipynb', checkout/'nbs'/'train'/f'{part}.ipynb') if part != 'verifier' else None
    (checkout/'home'/'adapters').mkdir(parents=True)
    assert run('train', part) == 0 and (checkout/'home'/'adapters'/part).read_text() == '10 0'
    assert f'\n  export FACTLAB_ADAPTERS={checkout/"home"/"adapters"}\n' in capfd.readouterr().out
    own.mkdir()
    monkeypatch.setattr(train_command, 'run_training', lambda notebook, parameters: notebook)  # it ran above: what is said is the same
    run('train', part, '--out', own/part)
    assert f"\n  export FACTLAB_ADAPTERS='{own}'\n" in capfd.readouterr().out
    run('train', part, '--out', own/'trial')
    assert f"?adapter='{own/'trial'}'; or name the folder {part}" in capfd.readouterr().out


def test_a_parameter_that_the_notebook_does_not_have(checkout):
    with pytest.raises(UsageError, match='no parameter speed: there are train, steps, seed, out'):
        train_command.run_training(checkout/'nbs'/'train'/'verifier.ipynb', {'speed': 1})


def test_a_notebook_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(train_command, 'notebooks_dir', lambda: tmp_path)
    with pytest.raises(RunError, match='extractor is missing: expected'): run('train', 'extractor')


def test_equation_6_is_reached_by_command(monkeypatch, tmp_path, capfd):
    "Dot products; their scale is 1 where none is named, and the line printed says how such a retriever is used."
    seen = {}
    monkeypatch.setattr(train_command, 'run_training', lambda notebook, parameters: seen.update(parameters) or notebook)
    assert run('train', 'retriever', '--similarity', 'dot', '--max-tokens', 512, '--out', tmp_path/'mine') == 0
    assert seen['similarity'] == 'dot' and seen['max_tokens'] == 512 and 'scale' not in seen
    run('train', 'retriever', '--scale', 2, '--out', tmp_path/'mine')
    assert seen['scale'] == 2
    import papermill
    given = papermill.inspect_notebook(str(project_dir()/'nbs'/'train'/'retriever.ipynb'))
    assert {name: given[name]['default'] for name in ('similarity', 'scale', 'max_tokens')} == {
        'similarity': "'cosine'", 'scale': 'None', 'max_tokens': '96'}


@pytest.mark.parametrize('part', train_command.PARTS)
def test_the_shipped_notebooks_take_what_the_command_gives(part):
    import papermill
    path = project_dir()/'nbs'/'train'/f'{part}.ipynb'
    given = papermill.inspect_notebook(str(path))
    assert {name: given[name]['default'] for name in ('train', 'steps', 'seed', 'data', 'out')} == {
        'train': 'False', 'steps': 'None', 'seed': '0', 'data': "'open'", 'out': 'None'}


@pytest.fixture
def few_rows(tmp_path) -> Path:
    "An OASIS-shaped file of six pages, two of them held out."
    load_oasis_sample().head(6).with_columns(split=pl.Series(['train']*4 + ['validation', 'test'])).write_parquet(tmp_path/'mine.parquet')
    return tmp_path/'mine.parquet'


@pytest.mark.timeout(1200)  # a training, a measurement and a card: minutes on a processor without bfloat16
@pytest.mark.parametrize('part, small', [('extractor', {'measured_on': 1, 'batch': 2}), ('retriever', {}),
                                         ('retriever', {'similarity': 'dot', 'max_tokens': 32}),
                                         ('verifier', {'batch': 4, 'rank': 2, 'min_neutral': 0})])
def test_every_part_is_trained_on_an_oasis_shaped_file(part, small, few_rows, tmp_path, monkeypatch):
    "The notebooks as the command runs them, but smaller."
    with_weights(tmp_path/'home')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    monkeypatch.chdir(tmp_path)
    run_training = train_command.run_training
    monkeypatch.setattr(train_command, 'run_training', lambda notebook, parameters: run_training(notebook, parameters | small))
    assert run('train', part, '--steps', 2, '--data', few_rows.name, '--out', part) == 0
    files = {'adapter_model.safetensors', 'adapter_config.json', 'card.json', 'README.md'}
    assert files <= {path.name for path in (tmp_path/part).iterdir()}
    card, own = read_card(tmp_path/part), training_data(few_rows)
    train = own.rows.filter(pl.col('split') == 'train')
    claims = train['claims'].list.len()
    [trained] = [row for row in card['data'] if row['use'] == 'trained']
    assert trained['name'] == 'mine.parquet (OASIS-shaped)' and trained['licence'] == 'as stated by whoever made the data'
    expected = {'extractor': len(oasis_examples(own)), 'retriever': (3*claims + 3).sum(),
                'verifier': (2*claims + 4 + claims*(train['page_passages'].list.len() > 0)).sum()}
    assert trained['rows'] == expected[part] and card['steps'] == 2 and card['command'].endswith('--data mine.parquet')
    assert any('mine.parquet' in row['set'] and 'held out' in row['set'] for row in card['metrics'])
    if 'similarity' in small:
        assert card['settings']['scale'] == 1 and '--similarity dot --scale 1 --max-tokens 32' in card['command']
        assert card['use'].endswith('&similarity=dot')


@pytest.mark.parametrize('data, error, match', [('everything', UsageError, "'everything' cannot serve here: take sample, oasis, open"),
                                                ('.', DataError, 'build oasis'),
                                                ('bad.jsonl', DataError, 'bad.jsonl')])
def test_data_that_cannot_be_trained_on_are_refused_before_anything_starts(checkout, monkeypatch, data, error, match):
    monkeypatch.chdir(checkout)
    (checkout/'bad.jsonl').write_text('{"page": "A"}\n')
    with pytest.raises(error, match=match): run('train', 'verifier', '--data', data, '--out', 'here.txt')
    assert not (checkout/'here.txt').exists() and not (checkout/'home'/'executed').exists()
