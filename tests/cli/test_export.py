"""Exports: what the tools' schemas ask for is there, no path leaves the machine, and what is read again gives the same score.

The facts of Every Eval Ever's schema (required fields, values that are allowed) are those of its version 0.3.0."""
import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from factlab.cli.main import main
from factlab.core.core import Schema
from factlab.data.others_files import read_others
from factlab.reports.exhibits import figures_dir
from factlab.reports.exports import model_info, public_text
from factlab.reports.published import published_values
from factlab.reports.tables import CELLS
from factlab.runs.runs import kept_run

DOCUMENT = {'schema_version': str, 'evaluation_id': str, 'retrieved_timestamp': str, 'source_metadata': dict, 'model_info': dict,
            'eval_library': dict, 'evaluation_results': list}
RESULT = {'evaluation_name': str, 'source_data': dict, 'metric_config': dict, 'score_details': dict}
INSTANCE = {'schema_version': str, 'evaluation_id': str, 'model_id': str, 'evaluation_name': str, 'sample_id': str, 'interaction_type': str,
            'input': dict, 'answer_attribution': list, 'evaluation': dict}
FILE = re.compile(r'data/[^/]+/[^/]+/[^/]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(\.json|_samples\.jsonl)')


def fits(value, fields) -> bool: return all(isinstance(value.get(name), kind) for name, kind in fields.items())


def texts(value) -> bool: return all(isinstance(each, str) for each in value.values())


def check_document(document) -> None:
    assert fits(document, DOCUMENT) and {*document} <= {*DOCUMENT, 'evaluation_timestamp', 'detailed_evaluation_results'}
    source, model = document['source_metadata'], document['model_info']
    assert source['source_type'] in ('documentation', 'evaluation_run') and source['source_organization_name']
    assert source['evaluator_relationship'] in ('first_party', 'third_party', 'collaborative', 'other')
    assert fits(document['eval_library'], {'name': str, 'version': str})
    assert fits(model, {'name': str, 'id': str, 'additional_details': dict})
    assert model['additional_details']['deployment_type'] in ('self_deployed', 'externally_managed', 'unknown')
    assert model['additional_details']['model_availability'] in ('open_weights', 'closed_weights', 'unknown')
    ids = [result['evaluation_result_id'] for result in document['evaluation_results']]
    assert len({*ids}) == len(ids)
    for result in document['evaluation_results']:
        assert fits(result, RESULT) and result['source_data']['source_type'] == 'other' and result['source_data']['dataset_name']
        metric, details = result['metric_config'], result['score_details']
        assert isinstance(metric['lower_is_better'], bool) and isinstance(details['score'], int|float)
        assert texts(metric.get('additional_details', {})) and texts(details.get('details', {}))
        if 'score_type' in metric:
            assert metric['score_type'] == 'continuous' and metric['min_score'] <= details['score'] <= metric['max_score']
        uncertain = details.get('uncertainty', {})
        if 'confidence_interval' in uncertain: assert fits(uncertain['confidence_interval'], {'lower': int|float, 'upper': int|float})
        assert isinstance(uncertain.get('num_samples', 1), int)


def check_instance(row, document) -> None:
    assert fits(row, INSTANCE) and row['evaluation_id'] == document['evaluation_id'] and row['model_id'] == document['model_info']['id']
    assert row['interaction_type'] == 'single_turn' and row['messages'] is None and isinstance(row['output']['raw'], list)
    assert isinstance(row['input']['raw'], str) and all(isinstance(each, str) for each in row['input']['reference'])
    assert isinstance(row['evaluation']['score'], float) and isinstance(row['evaluation']['is_correct'], bool)
    read = {'turn_idx': int, 'source': str, 'extracted_value': str, 'extraction_method': str, 'is_terminal': bool}
    assert all(fits(each, read) for each in row['answer_attribution'])


def documents(folder: Path) -> list[dict]: return [json.loads(path.read_text()) for path in sorted(folder.rglob('*.json'))]


# ---- tables ------------------------------------------------------------------------------------------------------------------------

def test_printed_tables_are_documentation(tmp_path, capsys):
    assert main(['export', 'published', '--to', 'eee', '--out', str(tmp_path/'eee')]) == 0
    told, found = capsys.readouterr().out, documents(tmp_path/'eee')
    for document in found: check_document(document)
    assert {document['source_metadata']['source_type'] for document in found} == {'documentation'}
    printed = published_values()
    assert sum(len(document['evaluation_results']) for document in found) == printed['value'].count()
    assert f'{printed["value"].null_count()} cells are left out' in told
    scores = {result['evaluation_result_id']: result for document in found for result in document['evaluation_results']}
    cell = scores['final/table9/Oracle + CoT/GPT-4o Precision']['score_details']
    assert cell['score'] == .76 and cell['uncertainty']['confidence_interval']['confidence_level'] == .95
    assert cell['details']['printed'] == '0.76 ± 0.0109'
    paths = [path.relative_to(tmp_path/'eee').as_posix() for path in (tmp_path/'eee').rglob('*.json')]
    assert all(FILE.fullmatch(path) for path in paths)
    assert main(['export', 'published', '--to', 'eee', '--out', str(tmp_path/'eee')]) == 0  # the same scores are the same files
    assert {*paths} == {path.relative_to(tmp_path/'eee').as_posix() for path in (tmp_path/'eee').rglob('*.json')}


@pytest.mark.parametrize('name, id, weights', [('GPT-4o', 'openai/GPT-4o', 'closed_weights'),
                                               ('hf:Qwen/Qwen2.5-7B', 'Qwen/Qwen2.5-7B', 'open_weights'),
                                               ('Llama-3.1-405B', 'meta-llama/Llama-3.1-405B', 'open_weights'),
                                               ('openai:gpt-4o?temperature=0', 'openai/gpt-4o', 'closed_weights'),
                                               ('Our Model (Fine-tuned)', 'unknown/Our-Model-Fine-tuned', 'unknown'),
                                               ('hf:/home/ann/tiny', 'unknown/tiny', 'unknown'), (None, 'unknown/no-model', 'unknown')])
def test_models(name, id, weights):
    found = model_info(name)
    assert found['id'] == id and found['additional_details']['model_availability'] == weights and 'ann' not in json.dumps(found)


@pytest.mark.parametrize('text, shown', [('cannot read /home/ann/a.jsonl (denied)', 'cannot read a.jsonl (denied)'),
                                         ('no answer from https://me:secret@host:8000/v1/chat', 'no answer from chat'),
                                         ('openai:m?api_key=secret', 'openai:m'), ('~/x/y.csv', 'y.csv'), ('../data/y.csv', 'y.csv'),
                                         ('1/2 of org/name and a / b', '1/2 of org/name and a / b'), ('https://me:secret@host', 'host')])
def test_paths_and_addresses_stay_here(text, shown): assert public_text(text) == shown


@pytest.fixture
def exhibit(tmp_path) -> Path:
    "An exhibit with printed, measured and trivial numbers, made with a model in a folder."
    printed = {'exhibit': 'final/table4', 'row': 'CoT', 'column': 'F1', 'model': 'tiny', 'method': 'CoT', 'metric': 'F1', 'kind': 'value'}
    rows = [printed | {'published': .5, 'status': 'published'},
            printed | {'measured': .25, 'low': .125, 'high': .5, 'n': 30, 'status': 'measured', 'unparsed': 2, 'data': 'mine'},
            printed | {'row': 'nothing', 'model': None, 'measured': 0., 'status': 'baseline', 'n': 30}]
    path = tmp_path/'results'/'final'/'table4.csv'
    path.parent.mkdir(parents=True)
    CELLS.frame([dict.fromkeys(CELLS.columns) | row for row in rows]).write_csv(path)
    path.with_suffix('.json').write_text(json.dumps({'exhibit': 'final/table4', 'title': 'Errors found', 'parameters': {
        'models': ['hf:/home/ann/models/tiny?dtype=float32']}}))
    return path


def test_an_exhibit(exhibit, tmp_path, capsys):
    for to in ('csv', 'parquet', 'eee', 'hub-card'):
        assert main(['export', str(exhibit), '--to', to, '--out', str(tmp_path/f'out.{to}')]) == 0, capsys.readouterr().err
    assert pl.read_parquet(tmp_path/'out.parquet').equals(pl.read_csv(tmp_path/'out.csv', schema=dict(CELLS.columns)))
    found = documents(tmp_path/'out.eee')
    for document in found: check_document(document)
    assert sorted(document['source_metadata']['source_type'] for document in found) == ['documentation', 'evaluation_run', 'evaluation_run']
    measured = next(result for document in found for result in document['evaluation_results']
                    if result['evaluation_result_id'] == 'final/table4/CoT/F1/mine')
    assert measured['score_details']['uncertainty'] == {'confidence_interval': {'lower': .125, 'upper': .5, 'confidence_level': .95},
                                                        'num_samples': 30}
    written = ''.join(path.read_text() for path in tmp_path.rglob('out*/**/*') if path.suffix in ('.json', '.md'))
    assert 'home' not in written and 'dtype' not in written and 'tiny' in written


def test_a_card_is_read_by_the_hub(exhibit, tmp_path):
    hub = pytest.importorskip('huggingface_hub')
    assert main(['export', str(exhibit), '--to', 'hub-card', '--out', str(tmp_path/'card')]) == 0
    text = (tmp_path/'card'/'README.md').read_text()
    card = hub.DatasetCard(text)
    assert card.data.configs[0]['data_files'] == 'cells.parquet' and (tmp_path/'card'/'cells.parquet').is_file()
    assert card.data.pretty_name == 'Errors found' and card.data.size_categories == ['n<1K']
    results = hub.ModelCard(text).data.eval_results
    assert [(each.metric_type, each.metric_value, each.dataset_name) for each in results] == [('f1', .25, 'mine')]
    assert yaml.safe_load(text.split('---')[1])['model-index'][0]['name'] == 'tiny'


def test_all_exhibits_of_the_gallery_can_be_exported(tmp_path, capsys):
    files = sorted(figures_dir().glob('*/table4*.csv'))
    for at, path in enumerate(files):
        assert main(['export', str(path), '--to', 'eee', '--out', str(tmp_path/str(at))]) == 0, capsys.readouterr().err
        for document in documents(tmp_path/str(at)): check_document(document)


# ---- runs --------------------------------------------------------------------------------------------------------------------------

class Labels:
    name, version = 'judge', 1
    schema = Schema('labels', {'id': pl.String, 'status': pl.String, 'reason': pl.String, 'accurate': pl.Boolean, 'answer': pl.String})


ROWS = [(f'r{at}', 'ok', None, said, 'It is so.' if said else 'It is not.') for at, said in enumerate([True, False, True, True, False])]
ROWS += [('r5', 'failed', 'cannot reach http://me:secret@host/v1 (/home/ann/key)', None, None)]
GOLD = [True, False, False, True, True, False]


@pytest.fixture
def run(home):
    spec = {'dataset': {'name': '/home/ann/mine.jsonl', 'fingerprint': 'f', 'rows': 6},
            'method': {'name': 'judge', 'version': 1, 'fields': {}, 'prompts': []},
            'model': {'name': 'hf:/home/ann/tiny?dtype=float32', 'identity': {'model': 'tiny'}}, 'seed': 0, 'repeat': 0}
    return kept_run(spec, Labels(), lambda: Labels.schema.frame(dict(zip(Labels.schema.columns, row, strict=True)) for row in ROWS))


@pytest.fixture
def data(tmp_path) -> Path:
    rows = {'id': [f'r{at}' for at in range(6)], 'claim': [f'Claim 😀 {at}.' for at in range(6)], 'gold': GOLD}
    pl.DataFrame(rows).write_csv(tmp_path/'gold.csv')
    return tmp_path/'gold.csv'


def scored(path: Path, data: Path, capsys) -> dict:
    assert main(['score', 'labels', '--data', str(data), '--predictions', str(path), '--json']) == 0, capsys.readouterr().err
    row = json.loads(capsys.readouterr().out)['scores'][0]
    return {name: value for name, value in row.items() if name != 'system'}


def test_labels_of_another_spelling_are_mapped(run, data, tmp_path, capsys):
    gold = pl.read_csv(data).with_columns(pl.col('gold').cast(pl.String).replace({'true': 'faithful', 'false': 'unfaithful'}))
    gold.write_csv(tmp_path/'spelled.csv')
    given = ['export', run.id[:-2], '--to', 'inspect', '--data', str(tmp_path/'spelled.csv'), '--out', str(tmp_path/'log.json')]
    assert main([*given, '--same-labels', 'faithful=true,unfaithful=false']) == 0, capsys.readouterr().err
    assert "'faithful' of" in capsys.readouterr().out
    assert main(['export', run.id[:-2], '--to', 'inspect', '--out', str(tmp_path/'l.json'), '--same-labels', 'a=b']) == 2


def test_what_is_read_again_has_the_same_score(run, data, tmp_path, capsys):
    pl.DataFrame({'id': [row[0] for row in ROWS], 'predicted': [row[3] for row in ROWS]}).write_csv(tmp_path/'own.csv')
    own = scored(tmp_path/'own.csv', data, capsys)
    for to, name in (('inspect', 'log.json'), ('labelstudio', 'tasks.json'), ('eee', 'eee')):
        assert main(['export', run.id[:-2], '--to', to, '--data', str(data), '--out', str(tmp_path/name)]) == 0, capsys.readouterr().err
        told = capsys.readouterr().out
        path = next((tmp_path/name).rglob('*_samples.jsonl')) if to == 'eee' else tmp_path/name
        assert scored(path, data, capsys) == own, to
        written = path.read_text() + ''.join(map(json.dumps, documents(tmp_path/name) if to == 'eee' else []))
        assert not re.search('home|secret|dtype', written), to
        if to == 'labelstudio': assert '<Choice value="true"/>' in told and '$claim' in told
    (document,) = documents(tmp_path/'eee')
    check_document(document)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows: check_instance(row, document)
    beside = document['detailed_evaluation_results']
    assert beside['total_rows'] == len(rows) == 6 and FILE.fullmatch(beside['file_path']) and (tmp_path/'eee'/beside['file_path']).is_file()
    assert document['evaluation_results'][0]['score_details']['score'] == own['accuracy'] == .5


def test_without_gold_a_log_has_predictions(run, tmp_path, capsys):
    assert main(['export', run.id, '--to', 'inspect', '--out', str(tmp_path/'log.json')]) == 0
    assert dict(read_others(tmp_path/'log.json').rows.select('id', 'predicted').rows()) == {
        row[0]: None if row[3] is None else str(row[3]).lower() for row in ROWS}


def test_inspect_reads_the_log(run, data, tmp_path):
    log = pytest.importorskip('inspect_ai.log')
    assert main(['export', run.id, '--to', 'inspect', '--data', str(data), '--out', str(tmp_path/'log.json')]) == 0
    found = log.read_eval_log(str(tmp_path/'log.json'))
    assert found.status == 'success' and len(found.samples) == 6 and found.results.scores[0].metrics['accuracy'].value == .6
    assert [sample.scores['match'].value for sample in found.samples if not sample.error] == ['C', 'C', 'I', 'C', 'I']


def test_tables_and_cards_of_runs(run, tmp_path, capsys):
    for to in ('csv', 'parquet', 'hub-card'):
        assert main(['export', run.id, '--to', to, '--out', str(tmp_path/f'out.{to}')]) == 0, capsys.readouterr().err
    assert pl.read_csv(tmp_path/'out.csv').height == pl.read_parquet(tmp_path/'out.parquet').height == 6
    for path in (tmp_path/'out.csv', tmp_path/'out.hub-card'/'README.md'): assert not re.search('home|secret', path.read_text())
    for path in (tmp_path/'out.parquet', tmp_path/'out.hub-card'/'rows.parquet'):
        assert 'secret' not in str(pl.read_parquet(path)['reason'].to_list())


def test_gold_in_other_words_is_refused(run, data, tmp_path, capsys):
    "Or every answer would count as wrong, in silence."
    gold = pl.read_ndjson(data) if data.suffix == '.jsonl' else pl.read_csv(data)
    gold.select(pl.col('id'), gold=pl.lit('faithful')).write_ndjson(tmp_path/'other.jsonl')
    for form in ('eee', 'inspect'):
        code = main(['export', run.id, '--to', form, '--data', str(tmp_path/'other.jsonl'), '--out', str(tmp_path/f'out-{form}')])
        assert code != 0 and 'is one of gold (faithful): write them alike' in capsys.readouterr().err
        assert not (tmp_path/f'out-{form}').exists()


@pytest.mark.parametrize('what, more, words', [
    ('RUN', ['--to', 'eee'], ('--data', 'gold')),
    ('RUN', ['--to', 'inspect', '--columns', 'predicted=nothing'], ('predicted=NAME', 'accurate')),
    ('RUN', ['--to', 'inspect', '--data', 'OTHER'], ('no row of run', "'z'")), ('nothing', ['--to', 'csv'], ('no run',)),
    ('published', ['--to', 'inspect'], ('has rows',)), ('published', ['--to', 'csv', '--data', 'OTHER'], ('--data',)),
    ('published/nobody', ['--to', 'csv'], ('nobody',)), ('none.csv', ['--to', 'csv'], ('there is no file',)),
    ('OTHER', ['--to', 'csv'], ('no cells of an exhibit',)), ('published', ['--to', 'eee', '--out', 'OTHER'], ('is a file',))])
def test_refusals(what, more, words, run, tmp_path, capsys):
    (tmp_path/'other.csv').write_text('id,gold\nz,yes\n')
    named = {'RUN': run.id, 'OTHER': str(tmp_path/'other.csv')}
    given = [named.get(each, each) for each in (what, *more)]
    if '--out' not in more: given += ['--out', str(tmp_path/'out')]
    assert main(['export', *given]) in (2, 3)
    said = capsys.readouterr().err
    assert all(word in said for word in words), said
    assert not (tmp_path/'out').exists()


def test_an_exhibit_with_several_results_asks_which(monkeypatch, exhibit, capsys):
    monkeypatch.setattr('factlab.reports.exhibits.figures_dir', lambda out=None: exhibit.parents[1])
    assert main(['export', 'final/table4', '--to', 'csv', '--out', str(exhibit.with_name('out.csv'))]) == 0
    exhibit.with_name('table4.mine.json').write_text('{"parameters": {"data": "mine"}}')
    assert main(['export', 'final/table4', '--to', 'csv', '--out', str(exhibit.with_name('out.csv'))]) == 0
    assert 'on the data by default; others have' in (told := capsys.readouterr().out) and 'table4.mine.csv' in told
    exhibit.with_suffix('.json').rename(exhibit.with_name('table4.other.json'))
    assert main(['export', 'final/table4', '--to', 'csv', '--out', str(exhibit.with_name('out.csv'))]) == 2
    assert 'table4.mine.csv' in (told := capsys.readouterr().err) and 'table4.other.csv' in told
    assert main(['export', 'final/table8', '--to', 'csv', '--out', str(exhibit.with_name('out.csv'))]) == 2
    assert 'factlab reproduce final/table8' in capsys.readouterr().err
