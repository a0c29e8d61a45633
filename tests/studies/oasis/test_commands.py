"""The commands of LLM-OASIS: what they take, what they print, and what they refuse."""
import argparse
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import polars as pl
import pytest
from conftest import with_weights
from verification.test_nli import save_model

from factlab.claims.generation import training_data
from factlab.core.core import DataError, FactlabError, ModelError, RunError, UsageError, project_dir
from factlab.data.corpora import load_oasis_sample
from factlab.models.adapters import read_card
from factlab.models.encoder import Encoder
from factlab.retrieval.corpus import Corpus, read_passages
from factlab.runs.runs import make_run
from factlab.studies.oasis import commands as cli_oasis
from factlab.studies.oasis.commands import given_texts, read_predictions
from factlab.training.extractor import oasis_examples

EMBEDDED = ('--extractor', 'sentences', '--retriever', 'bm25', '--verifier', 'cosine', '--method', 'max-entailment')
WORLD = {'owls.txt': 'Owls hunt at night. They rest in hollow trees by day.', 'otters.md': 'Otters live by rivers and eat fish.'}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog='factlab')
    commands = top.add_subparsers(required=True)
    for add in (cli_oasis.add_verify, cli_oasis.add_build, cli_oasis.add_train, cli_oasis.add_oasis): add(commands)
    return top


def run(*arguments) -> int:
    given = parser().parse_args([str(argument) for argument in arguments])
    return given.run(given)


@pytest.fixture
def corpus(tmp_path) -> Path:
    folder = tmp_path/'corpus'
    folder.mkdir()
    for name, text in WORLD.items(): (folder/name).write_text(text)
    return folder


# ---- verify ------------------------------------------------------------------------------------------------------------------------

def test_verify_prints_a_verdict_with_claims_and_evidence(corpus, capsys):
    assert run('verify', 'Owls hunt at night. Trams cross bridges.', '--corpus', corpus, *EMBEDDED) == 0
    shown = capsys.readouterr().out
    assert shown.startswith('NOT FACTUAL: 1 of 2') and 'Owls hunt at night. They rest' in shown and 'no evidence' in shown and 'owls.txt' in shown


def test_texts_from_arguments_files_and_a_pipe(corpus, capsys, monkeypatch, tmp_path):
    (tmp_path/'one.txt').write_bytes('\ufeffOtters live by rivers and eat fish.'.encode())
    monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(b'Owls rest in hollow trees.')))
    assert run('verify', '-', 'Trams cross bridges.', '--file', tmp_path/'one.txt', '--corpus', corpus, '--json', *EMBEDDED) == 0
    found = json.loads(capsys.readouterr().out)
    assert [text['id'] for text in found['texts']] == ['text 1', 'text 2', str(tmp_path/'one.txt')]
    assert [text['verdict'] for text in found['texts']] == [True, False, True]
    assert found['texts'][2]['claims'][0]['claim'] == 'Otters live by rivers and eat fish.' and found['settings']['verifier'] == 'cosine'
    assert found['texts'][0]['claims'][0]['evidence'][0]['page'] == 'owls.txt'


def test_a_text_without_claims_has_no_verdict(corpus, capsys):
    assert run('verify', ' ', '--corpus', corpus, *EMBEDDED) == 0
    assert capsys.readouterr().out.startswith('NO VERDICT: the text is empty.')


def test_hostile_text_in_the_terminal(corpus, capsys):
    (corpus/'evil.txt').write_text('Owls hunt at night\x1b[2J\x1b]0;x\x07.')
    for form in ((), ('--json',)):
        run('verify', 'Owls hunt \x1b[31mat night.', '--corpus', corpus, '--passages', 9, *form, *EMBEDDED)
        assert not {'\x1b', '\x07'} & {*capsys.readouterr().out}


def test_out_writes_a_file(corpus, capsys, tmp_path):
    run('verify', 'Owls hunt at night.', '--corpus', corpus, '--json', '--out', tmp_path/'found.json', *EMBEDDED)
    assert json.loads((tmp_path/'found.json').read_text())['texts'][0]['verdict'] is True and str(tmp_path/'found.json') in capsys.readouterr().out


@pytest.mark.parametrize('arguments, error, match', [
    ((), UsageError, 'no text'), (('a', '--file', 'nowhere.txt'), DataError, 'nowhere.txt'), (('-', '--file', '-'), UsageError, 'read once'),
    (('a', '--k', '0'), UsageError, 'k is 0'), (('a', '--method', 'vote'), UsageError, 'algorithm1'), (('a', '--verifier', 'deberta'), UsageError, 'nli:'),
    (('a', '--extractor', 'magic'), UsageError, 'magic')])
def test_what_verify_refuses(corpus, arguments, error, match):
    with pytest.raises(error, match=match): run('verify', *arguments, '--corpus', corpus, *EMBEDDED[:2] if '--extractor' not in arguments else (), *EMBEDDED[2:4],
                                                *EMBEDDED[4:6] if '--verifier' not in arguments else ())


def test_corpora_and_texts_that_are_none(corpus, tmp_path):
    with pytest.raises(DataError, match='no corpus'): run('verify', 'a', '--corpus', tmp_path/'nowhere', *EMBEDDED)
    (tmp_path/'empty').mkdir()
    with pytest.raises(DataError): run('verify', 'a', '--corpus', tmp_path/'empty', *EMBEDDED)
    (tmp_path/'latin.txt').write_bytes('Eulen fliegen über Flüsse'.encode('latin-1'))
    with pytest.raises(DataError, match='UTF-8'): run('verify', '--file', tmp_path/'latin.txt', '--corpus', corpus, *EMBEDDED)


# ---- bad input ---------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('text, said', [('', 'NO VERDICT: the text is empty.'), (' \n\t', 'NO VERDICT: the text is empty.'), ('… !? — 😀', 'NO VERDICT: no claim was found'),
                                        ('Die Eulen jagen in der Nacht und sie schlafen den ganzen Tag in einer Höhle, die nicht weit von dem Fluss ist.', 'looks like German'),
                                        ('Совы охотятся ночью, а днём спят в дупле.', 'Cyrillic')])
def test_texts_that_say_nothing_or_say_it_in_another_language(corpus, capsys, text, said):
    assert run('verify', text, '--corpus', corpus, *EMBEDDED) == 0
    assert said in ' '.join(capsys.readouterr().out.split())


def test_a_text_of_a_hundred_thousand_words(corpus, capsys, tmp_path):
    words = ['owls', 'otters', 'rivers', 'night', 'trees', 'swim', 'fish', 'hunt']
    (tmp_path/'long.txt').write_text(' '.join(f'Owls {" ".join(words[(at + step) % 8] for step in range(18))} {at % 500}.' for at in range(5_000)))  # each ten times: encoded once
    assert run('verify', '--file', tmp_path/'long.txt', '--corpus', corpus, '--texts-only', *EMBEDDED[:4], '--verifier', 'cosine') == 0
    assert 'of 1000 claims' in capsys.readouterr().out


def test_passages_that_are_empty_or_equal_and_k_beyond_them(corpus, capsys):
    (corpus/'empty.txt').touch()
    (corpus/'blank.md').write_text(' \n\n ')
    (corpus/'twin.txt').write_text(WORLD['owls.txt'])
    for retriever in ('bm25', 'tiny'):
        assert run('verify', 'Owls hunt at night.', '--corpus', corpus, '--k', 1_000, '--json', '--extractor', 'sentences', '--retriever', retriever, '--verifier', 'cosine') == 0
        found = json.loads(capsys.readouterr().out)
        assert found['settings']['passages'] == 3 and [row['page'] for row in found['texts'][0]['claims'][0]['evidence']][:2] == ['owls.txt', 'twin.txt']
    for name in ('owls.txt', 'twin.txt', 'otters.md'): (corpus/name).unlink()
    with pytest.raises(DataError, match='nothing'): run('verify', 'Owls hunt.', '--corpus', corpus, *EMBEDDED)


@pytest.mark.skipif(not os.path.exists('/proc/self/status'), reason='needs /proc/self/status, which tells a process its peak memory')
def test_a_passage_of_fifty_megabytes(corpus, tmp_path):
    "In a process of its own, which tells how much memory it took; half a gigabyte are the embedded encoder and its library."
    (corpus/'huge.txt').write_text(''.join(f'{word}{at % 9973} ' for at in range(1_200_000) for word in ('river', 'stone', 'moss', 'lamp', 'coal')))
    assert (corpus/'huge.txt').stat().st_size > 50_000_000
    peak = 'int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])//1024'  # of this process; ru_maxrss would count the one that started it
    command = [sys.executable, '-c', f'import re, sys; from factlab.cli.main import main; sys.argv[0] = "factlab"; code = main(); print({peak}, file=sys.stderr); sys.exit(code)',
               'verify', 'Owls hunt at night.', '--corpus', str(corpus), '--json', *EMBEDDED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=os.environ | {'FACTLAB_HOME': str(tmp_path/'home'), 'FACTLAB_PROGRESS': '0'})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found['texts'][0]['verdict'] is True and found['settings']['passages'] > 40_000 and int(done.stderr.split()[-1]) < 1_600


def test_a_corpus_of_another_encoder_or_revision(corpus, tmp_path):
    encoded = Corpus.create(tmp_path/'encoded', read_passages(corpus), 'tiny').folder
    asked = ('verify', 'Owls hunt at night.', '--corpus', encoded, '--extractor', 'sentences', '--verifier', 'cosine', '--retriever')
    assert run(*asked, 'tiny') == 0
    with pytest.raises(DataError, match=r"encoded by 'tiny'.*open it with that encoder, or encode the passages again"): run(*asked, 'tiny?dtype=bfloat16')
    manifest = json.loads((encoded/'manifest.json').read_text())
    (encoded/'manifest.json').write_text(json.dumps(manifest | {'identity': manifest['identity'] | {'weights': 'an older revision'}}))
    with pytest.raises(DataError, match=r'other weights\).*encode the passages again'): run(*asked, 'tiny')


def test_embeddings_that_are_no_numbers(corpus, tmp_path, monkeypatch):
    encoded = Corpus.create(tmp_path/'encoded', read_passages(corpus), 'tiny').folder
    vectors = np.load(encoded/'vectors.npy')
    vectors[0] = np.nan
    np.save(encoded/'vectors.npy', vectors)
    asked = ('verify', 'Owls hunt at night.', '--extractor', 'sentences', '--verifier', 'cosine', '--retriever', 'tiny', '--corpus')
    with pytest.raises(DataError, match='(?i)nan'): run(*asked, encoded)
    monkeypatch.setattr(Encoder, 'encode', lambda self, texts, store=None: np.full((len(texts), 384), np.nan, np.float32))
    (corpus/'new.txt').write_text('Trams cross bridges.')
    with pytest.raises(DataError, match='NaN or infinity for passage 0'): run(*asked, corpus)


@pytest.mark.parametrize('labels', [['LABEL_0', 'LABEL_1', 'LABEL_2'], ['positive', 'negative']])
def test_an_nli_model_with_unknown_labels(corpus, tmp_path, labels):
    save_model(tmp_path/'model', labels)
    with pytest.raises(ModelError, match='labels=ENT,NEUT,CONTR'):
        run('verify', 'Owls hunt at night.', '--corpus', corpus, *EMBEDDED[:4], '--verifier', f'nli:{tmp_path/"model"}')


# ---- build -------------------------------------------------------------------------------------------------------------------------

def test_build_counts_without_asking(corpus, capsys, tmp_path):
    model = 'openai:some-model?base_url=http://127.0.0.1:9/v1'  # nobody answers there
    assert run('build', 'oasis', '--texts', corpus, '--model', model, '--out', tmp_path/'built', '--dry-run') == 0
    shown = capsys.readouterr().out
    assert 'calls' in shown and not (tmp_path/'built').exists()
    with pytest.raises(DataError): run('build', 'oasis', '--texts', tmp_path/'nowhere', '--model', model, '--out', tmp_path/'built')
    with pytest.raises(UsageError): run('build', 'oasis', '--texts', corpus, '--model', 'nothing', '--out', tmp_path/'built')


# ---- train -------------------------------------------------------------------------------------------------------------------------

@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    "A checkout with a notebook that trains nothing: it writes its parameters down."
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    (tmp_path/'nbs'/'papers').mkdir(parents=True)
    (tmp_path/'nbs'/'train').mkdir()
    (tmp_path/'settings.ini').touch()
    cells = [nbformat.v4.new_code_cell("train = False\nsteps = 10\nseed = 0\nout = ''", metadata={'tags': ['parameters']}),
             nbformat.v4.new_code_cell("assert steps < 100, 'too many steps'\nfrom pathlib import Path\nif out: Path(out).write_text(f'{steps} {seed}')\nprint('trained', steps)")]
    metadata = {'kernelspec': {'name': 'python3', 'display_name': 'python3', 'language': 'python'}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), tmp_path/'nbs'/'train'/'verifier.ipynb')
    monkeypatch.setattr(cli_oasis, 'project_dir', lambda: tmp_path)
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


@pytest.mark.parametrize('part', cli_oasis.PARTS)
def test_every_part_is_written_to_factlabs_home_and_put_to_use_by_one_line(checkout, part, capfd):
    own = checkout/'my home'
    shutil.copy(checkout/'nbs'/'train'/'verifier.ipynb', checkout/'nbs'/'train'/f'{part}.ipynb') if part != 'verifier' else None
    (checkout/'home'/'adapters').mkdir(parents=True)
    assert run('train', part) == 0 and (checkout/'home'/'adapters'/part).read_text() == '10 0'
    assert f'\n  export FACTLAB_ADAPTERS={checkout/"home"/"adapters"}\n' in capfd.readouterr().out
    own.mkdir()
    run('train', part, '--out', own/part)
    assert f"\n  export FACTLAB_ADAPTERS='{own}'\n" in capfd.readouterr().out
    run('train', part, '--out', own/'trial')
    assert f"tiny?adapter='{own/'trial'}'; or name the folder {part}" in capfd.readouterr().out


def test_a_parameter_that_the_notebook_does_not_have(checkout):
    with pytest.raises(UsageError, match='no parameter speed: there are train, steps, seed, out'):
        cli_oasis.run_training(checkout/'nbs'/'train'/'verifier.ipynb', {'speed': 1})


def test_no_training_outside_a_checkout(monkeypatch):
    monkeypatch.setattr(cli_oasis, 'project_dir', lambda: None)
    with pytest.raises(RunError, match='checkout'): run('train', 'extractor')


@pytest.mark.parametrize('part', cli_oasis.PARTS)
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


@pytest.mark.parametrize('part, small', [('extractor', {'measured_on': 2, 'batch': 2}), ('retriever', {}), ('verifier', {'layers': 2, 'rank': 2})])
def test_every_part_is_trained_on_an_oasis_shaped_file(part, small, few_rows, tmp_path, monkeypatch):
    "The notebooks as the command runs them, but smaller."
    with_weights(tmp_path/'home')
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    monkeypatch.chdir(tmp_path)
    run_training = cli_oasis.run_training
    monkeypatch.setattr(cli_oasis, 'run_training', lambda notebook, parameters: run_training(notebook, parameters | small))
    assert run('train', part, '--steps', 2, '--data', few_rows.name, '--out', part) == 0
    card, own = read_card(tmp_path/part), training_data(few_rows)
    train = own.rows.filter(pl.col('split') == 'train')
    claims = train['claims'].list.len()
    [trained] = [row for row in card['data'] if row['use'] == 'trained']
    assert trained['name'] == 'mine.parquet (OASIS-shaped)' and trained['licence'] == 'as stated by whoever made the data'
    expected = {'extractor': len(oasis_examples(own)), 'retriever': (3*claims + 3).sum(), 'verifier': (2*claims + 4 + claims*(train['page_passages'].list.len() > 0)).sum()}
    assert trained['rows'] == expected[part] and card['steps'] == 2 and card['command'].endswith('--data mine.parquet')
    assert any('mine.parquet' in row['set'] and 'held out' in row['set'] for row in card['metrics'])


@pytest.mark.parametrize('data, error, match', [('everything', UsageError, "'everything' cannot serve here: take sample, oasis, open"), ('.', DataError, 'build oasis'),
                                                ('bad.jsonl', DataError, 'bad.jsonl')])
def test_data_that_cannot_be_trained_on_are_refused_before_anything_starts(checkout, monkeypatch, data, error, match):
    monkeypatch.chdir(checkout)
    (checkout/'bad.jsonl').write_text('{"page": "A"}\n')
    with pytest.raises(error, match=match): run('train', 'verifier', '--data', data, '--out', 'here.txt')
    assert not (checkout/'here.txt').exists() and not (checkout/'home'/'executed').exists()


# ---- submission --------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('name, frame', [
    ('a.parquet', pl.DataFrame({'id': ['x', 'y'], 'verdict': [True, False], 'other': [1, 2]})), ('a.jsonl', pl.DataFrame({'id': ['x', 'y'], 'factual': [True, False]})),
    ('a.csv', pl.DataFrame({'id': ['x', 'y'], 'predicted': ['Factual', 'unfactual']}))])
def test_submission_from_a_file(tmp_path, capsys, name, frame):
    {'parquet': frame.write_parquet, 'jsonl': frame.write_ndjson, 'csv': frame.write_csv}[name[2:]](tmp_path/name)
    assert run('oasis', 'submission', '--predictions', tmp_path/name, '--out', tmp_path/'out.jsonl') == 0
    assert [json.loads(line) for line in (tmp_path/'out.jsonl').read_text().splitlines()] == [{'id': 'x', 'factual': True}, {'id': 'y', 'factual': False}]
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


def test_a_text_that_is_not_utf_8_is_said():
    with pytest.raises(DataError, match='text 1 is not UTF-8'): given_texts(['caf\udce9 is open.'], [])


def test_submission_from_a_run(tmp_path, monkeypatch):
    from factlab.models.interface import ScriptedModel
    from factlab.verification.judges import FactualityJudge
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    rows = pl.DataFrame({'id': ['x', 'y'], 'text': ['Owls hunt.', 'Owls swim.']})
    answers = ScriptedModel('s', lambda request: 'Not Factual' if 'swim' in request.messages[-1].content else 'Factual', revision='1')
    run('oasis', 'submission', '--run', make_run(rows, FactualityJudge(), answers, dataset='mine').id, '--out', tmp_path/'out.jsonl')
    assert [json.loads(line) for line in (tmp_path/'out.jsonl').read_text().splitlines()] == [{'id': 'x', 'factual': True}, {'id': 'y', 'factual': False}]


def gold(folder: Path, name: str, ids: list[str]) -> None:
    "A gold set as the hub has it."
    place = folder/name/{'oasis-e2e': 'e2e_factuality_evaluation', 'oasis-verification': 'claim_verification'}[name]/'data'
    place.mkdir(parents=True)
    pl.DataFrame({'id': ids, 'text': ['t']*len(ids), 'claim': ['c']*len(ids), 'evidence': ['e']*len(ids)}).write_parquet(place/'test-00000-of-00001.parquet')


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
    assert 'those of oasis-e2e (3)' in submit('a', 'b', 'c') and 'not compared' in submit('v1', 'v2')  # of the other task, which is not here
    with pytest.raises(DataError, match='1 of 3 ids of the gold set are missing'): submit('a', 'b')
    with pytest.raises(DataError, match='1 ids are not in the gold set'): submit('a', 'b', 'c', 'd')
    gold(tmp_path/'data', 'oasis-verification', ['v1', 'v2'])
    assert 'those of oasis-verification (2)' in submit('v1', 'v2')
    with pytest.raises(DataError, match='not in the gold set'): submit('x', 'y')


@pytest.mark.parametrize('frame', [pl.DataFrame({'id': ['x'], 'verdict': [None]}, schema={'id': pl.String, 'verdict': pl.Boolean}), pl.DataFrame({'id': ['x', 'x'], 'verdict': [True, True]}),
                                   pl.DataFrame({'id': ['x'], 'label': [True]}), pl.DataFrame({'id': ['x'], 'verdict': [0.7]}), pl.DataFrame({'id': ['x'], 'verdict': ['perhaps']})])
def test_predictions_that_are_none(tmp_path, frame):
    frame.write_parquet(tmp_path/'a.parquet')
    with pytest.raises(FactlabError): run('oasis', 'submission', '--predictions', tmp_path/'a.parquet', '--out', tmp_path/'out.jsonl')
    assert not (tmp_path/'out.jsonl').exists()
    with pytest.raises(DataError): run('oasis', 'submission', '--predictions', tmp_path/'nowhere.parquet')
