"""A dry run of every exhibit and command that can ask a model: it counts, and nothing is sent, loaded or kept."""
from pathlib import Path

import pytest
import transformers
from misbehaving_server import MisbehavingServer, answer

from factlab.cli.main import main
from factlab.core.core import home_dir
from factlab.reports.exhibits import catalog, find_exhibits
from factlab.reports.options import PARAMETERS
from factlab.reports.reproduce import carry_out, estimate, parameters_of, plan_of
from factlab.runs.plan import estimate as estimate_plan
from factlab.runs.plan import execute, manifest
from factlab.runs.runs import list_runs

ASKED = {**dict.fromkeys(PARAMETERS['models'], '{}'), 'judge': '{}', 'judges': '{}', 'verifier': 'prompt:{}', 'verifiers': 'prompt:{}',
         'extractor': 'prompt:{}', 'extractors': 'prompt:{}'}
OFFLINE_ALONE = {(f'facts/{name}', 'judges') for name in ('judges', 'table2', 'table4', 'selfpreference')}
PLANNED = [exhibit.id for exhibit in catalog() if exhibit.plan]


@pytest.fixture
def refusing(monkeypatch, tmp_path):
    "A model of a server that must not be asked, where no weights can be loaded."
    def loaded(*_, **__): raise AssertionError('weights were loaded')
    monkeypatch.setattr(transformers.PreTrainedModel, 'from_pretrained', loaded)
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    with MisbehavingServer() as server:
        yield f'openai:any?base_url={server.url}'
        assert not server.calls


def kept() -> list[Path]: return [path for path in home_dir().rglob('*') if path.is_file() and path.parts[-2] == 'runs']


@pytest.mark.parametrize('id', PLANNED)
def test_of_an_exhibit(refusing, id):
    exhibit, = find_exhibits([id])
    there = parameters_of(exhibit)
    given = {name: ASKED[name].format(refusing) for name in ASKED if name in there and (id, name) not in OFFLINE_ALONE}
    given = {name: [value] if there[name].startswith('[') else value for name, value in given.items()}
    if 'families' in there: given['families'] = ['judges']
    if there.get('data') == 'None': given['data'] = f'{exhibit.paper}-sample'
    found = estimate([id], parameters=given | ({'limit': 2} if 'limit' in there else {}))
    outcome, = found.outcomes
    assert outcome.status == 'estimated', outcome.error
    if {'models', 'model', 'asked'} & {*given}: assert found.questions.filter(model=refusing)['calls'].sum() > 0
    assert not kept()


def test_what_an_exhibit_has_no_plan_for_is_not_measured_by_a_model():
    for exhibit in catalog():
        if exhibit.plan is None: assert not {*ASKED} & {*parameters_of(exhibit)}, exhibit.id


@pytest.mark.parametrize('command, least', [
    (['verify', 'Owls hunt at night. Trams cross bridges.', '--corpus', 'owls', '--extractor', 'prompt:{}', '--verifier', 'prompt:{}'], 2),
    (['facts', '--responders', '{}', '--judges', '{}', 'embedded', '--limit', '2'], 4),
    (['oasis', 'submission', '--model', '{}', '--data', 'texts.csv'], 2),
    (['build', 'oasis', '--texts', 'owls', '--model', '{}', '--out', 'built'], 1),
    (['build', 'fhsum', '--summaries', 'summaries.csv', '--knowledge', '{}', '--out', 'built.jsonl'], 1)], ids=str)
def test_of_a_command(refusing, capsys, monkeypatch, tmp_path, command, least):
    (tmp_path/'owls').mkdir()
    (tmp_path/'owls'/'owls.txt').write_text('Owls hunt at night. They rest by day. They eat mice. They nest in trees. They fly silently.')
    (tmp_path/'texts.csv').write_text('id,text\na,Owls hunt at night.\nb,Trams cross bridges.\n')
    (tmp_path/'summaries.csv').write_text('id,document,summary\na,Ada Byron met Charles Babbage in London.,Ada Byron met Babbage.\n')
    monkeypatch.chdir(tmp_path)
    assert main([word.format(refusing) for word in [*command, '--dry-run']]) == 0
    calls = [int(line.split()[2].replace(',', '')) for line in capsys.readouterr().out.splitlines() if line.startswith(refusing)]
    assert sum(calls) >= least and not kept()


def test_plans_of_several_exhibits_ask_together_and_what_fails_is_left_to_its_notebook(home):
    with MisbehavingServer() as server:
        name = f'openai:any?base_url={server.url}&concurrency=4'
        given = {'models': [name], 'limit': 2, 'classifier': 'encoder', 'verifier': 'cosine', 'retry_unparsed': False}
        carry_out({'final/table4': given, 'final/table7': given | {'limit': 0}})
        asked = len(server.calls)
        plan = plan_of(find_exhibits(['final/table4'])[0], given)
        done = execute(plan)
        assert asked and len(server.calls) == asked and all(done[entry.step].height for entry in plan.entries)


@pytest.mark.parametrize('id, given', [
    ('final/table4', {'models': ['{}'], 'methods': ['classifier_cot'], 'judge': 'offline', 'retry_unparsed': False}),
    ('final/table4', {'models': ['{}'], 'methods': ['rejected_claims'], 'judge': 'offline', 'retry_unparsed': False}),
    ('fhsum/table2', {})], ids=str)
def test_a_model_that_a_verifier_asks_is_in_the_manifest_and_in_the_estimate(home, id, given):
    "Claims and passages have to be found first, so the estimate is at least what is sent."
    def says(call): return answer('A. The date is wrong.' if 'logprobs' not in call.body else 'Yes', top={'Yes': -.3, 'No': -1.5})
    with MisbehavingServer(says) as asked, MisbehavingServer(says) as other:
        name = f'openai:any?base_url={asked.url}'
        given = {key: [f'openai:other?base_url={other.url}'] if value == ['{}'] else value for key, value in given.items()}
        plan = plan_of(find_exhibits([id])[0], given | {'verifier': f'asked:yes-no:{name}', 'limit': 2})
        told = estimate_plan(plan).filter(model=name)['calls'].sum()
        assert told and not asked.calls and not other.calls
        about = manifest(plan, execute(plan))
        sent = len(asked.calls)
        assert 0 < sent <= told, (sent, told)
    assert about['models'][name] and set(about['asked']) >= {name, *given.get('models', [])}
    assert about['asked'][name]['calls'] >= sent and about['asked'][name]['prompt_tokens'] > sent
    runs = list_runs()
    assert runs['calls'].sum() == sum(taken['calls'] for taken in about['asked'].values())
    if given.get('methods') != ['rejected_claims']: assert name in runs['model']  # there a step of the other model asks it, too
