"""Reproducing exhibits: the same bytes however they are run, and what happens when notebooks, kernels, endpoints and runners die."""
import ast
import csv
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
import zlib
from collections import Counter
from pathlib import Path

import nbformat
import papermill
import psutil
import pytest
from commands import started
from conftest import with_weights
from localization.test_methods import tiny_t5  # noqa: F401  a fixture
from misbehaving_server import MisbehavingServer, answer, free_port, never, status, wait_until
from statsmodels.stats.proportion import proportion_confint

from factlab.cli.main import main
from factlab.cli.reproduce import _exit_code
from factlab.core.core import UsageError
from factlab.data.datasets import load
from factlab.localization.matching import MATCH
from factlab.localization.methods import BINARY, COT, DECOMPOSE, DETECT, FEW_SHOT, LIST_RETRY, MERGE, VERDICT_RETRY, ZERO_SHOT, cot_prompt
from factlab.models.prompts import format_lettered, letters
from factlab.probing.questions import ASK_QUESTIONS
from factlab.reports import reproduce as reproduce_module
from factlab.reports.exhibits import (
    Exhibit,
    agreement_of,
    catalog,
    find_exhibits,
    headline,
    make_cells,
    manifests_of,
    processor_family,
    summary_of,
    write_exhibit,
)
from factlab.reports.reproduce import (
    _NUMBERS,
    OLD_FORMAT,
    Outcome,
    SharedKernel,
    execute_whole,
    fitted,
    forget,
    notebook_of,
    outcome_table,
    parameters_of,
    plain_table,
    remaking,
    run_notebook,
    stale_results,
)
from factlab.reports.tables import BEST_BASELINE, BEST_ROW, CELLS
from factlab.reports.tour_page import write_page
from factlab.studies.final.study import METHODS
from factlab.verification.extraction import EXTRACT

BIN = Path(sys.executable).parent
NOTEBOOKS = Path(__file__).resolve().parents[2]/'nbs'/'papers'/'final'
EXHIBITS = {exhibit.id: exhibit for exhibit in catalog()}


@pytest.fixture(autouse=True, scope='module')
def no_key():
    with pytest.MonkeyPatch.context() as patch:
        for name in ('OPENAI_API_KEY', 'OPENAI_BASE_URL'): patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope='module')
def kernel():
    with SharedKernel() as kernel: yield kernel


# ---- helpers -----------------------------------------------------------------------------------------------------------------------

def start(home: Path, *arguments: str, cwd: Path|None = None) -> subprocess.Popen:
    "`factlab reproduce …` with a home of its own, in a process group of its own, as a terminal starts it."
    with_weights(home)
    return subprocess.Popen([str(BIN/'factlab'), 'reproduce', *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, start_new_session=True,
                            cwd=cwd or home.parent, env=os.environ | {'FACTLAB_HOME': str(home), 'FACTLAB_PROGRESS': '0'})

def finish(process: subprocess.Popen, timeout: float = 900) -> tuple[int, str, str]:
    try: output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, output, errors

def reproduce(home: Path, *arguments: str, cwd: Path|None = None) -> tuple[int, str, str]: return finish(start(home, *arguments, cwd=cwd))

def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob('*')) if path.is_file()}

def processes_of(home: Path) -> list[str]:
    "Every process that was started with this home."
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get('FACTLAB_HOME') == str(home) and process.pid != os.getpid()
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(' '.join(process.cmdline()))
        except psutil.Error: pass
    return found

def name_of(server, model: str = 'any', **options) -> str:
    options = {'timeout': '30'} | {k: str(v) for k, v in options.items()}
    return f'openai:{model}?base_url={server.url}' + ''.join(f'&{k}={v}' for k, v in options.items())

def cells_of(out: Path, id: str) -> list[dict]:
    with (out/f'{id}.csv').open(newline='') as file: return list(csv.DictReader(file))


# ---- a scripted world: models and a judge whose answers are functions of what they are asked ------------------------------------------

def pattern_of(prompt) -> re.Pattern:
    "What a prompt looks like, with a group for each field."
    message, = prompt.render(**{field: f'\0{field}\0' for field in prompt.fields})
    parts = re.split(r'\0(\w+)\0', message.content)
    return re.compile(''.join(f'(?P<{part}>.*)' if i % 2 else re.escape(part) for i, part in enumerate(parts)), re.DOTALL)

PATTERNS = {prompt.name: pattern_of(prompt) for prompt in (*ZERO_SHOT, *FEW_SHOT, *COT, cot_prompt(1, True), cot_prompt(2, True), DECOMPOSE,
                                                           DETECT, MERGE, BINARY, LIST_RETRY.prompt, VERDICT_RETRY,
                                                           ASK_QUESTIONS, MATCH, EXTRACT)}

def read_prompt(prompt: str) -> tuple[str, dict[str, str]]:
    "The name of a prompt, and the values of its fields."
    return next((name, found.groupdict()) for name, pattern in PATTERNS.items() if (found := pattern.fullmatch(prompt)))

def kind_of(call) -> str: return read_prompt(call.prompt)[0].removeprefix('final/')

def dice(*what) -> int: return zlib.crc32('\x1f'.join(map(str, what)).encode())

def said_list(model: str, kind: str, summary: str) -> list[str]|None:
    "What a model predicts for a summary; None stands for an answer that cannot be read."
    number = dice(model, kind, summary) % 9
    return None if number == 8 else [f'wrong {kind} {letter}' for letter in letters(number % 4)]

def flagged(model: str, summary: str) -> bool|None: return (True, True, False, None)[dice(model, 'binary', summary) % 4]

def verdict(model: str, summary: str) -> bool:
    "Whether a model calls a summary inconsistent: what it says, else what it finds likelier."
    said = flagged(model, summary)
    return scored(model, summary) if said is None else said

def found_in(summary: str, fact: int) -> list[str]: return [f'wrong fact {fact}{letter}' for letter in letters(dice(summary, fact) % 3)]

def judged(predicted: str, gold: int) -> str:
    "The judge's answer: good labels, null, labels that name nothing, keys that name nothing, or no object at all."
    number = dice(predicted)
    if number % 4 == 0: return 'I would rather not say.'
    choices = [*letters(gold), None, 'Z', 'none of them, I think']
    pairs = {letter: choices[dice(predicted, letter) % len(choices)] for letter in letters(len(predicted.splitlines()))}
    return json.dumps(pairs | ({'Y': 'A'} if number % 5 == 0 else {}))

def question_of(call) -> str:
    "All that a call asks, and of whom: equal for equal questions."
    return json.dumps([call.body['model'], call.body['messages']])

def scored(model: str, summary: str) -> bool: return dice(model, 'say', summary) % 2 == 0

def told(call) -> str:
    kind, model = kind_of(call), call.body['model']
    _, fields = read_prompt(call.body['messages'][0]['content'])
    summary = fields.get('summary', '').strip().splitlines()[:1]
    if kind == 'say': return 'no' if scored(model, *summary) else 'yes'
    if kind == 'again': return 'I still would not say.'
    if kind == EXTRACT.name: return f'- Claim {dice(fields["text"])} is one.\n- {fields["text"].strip().splitlines()[0]}'
    if kind == 'match': return judged(fields['predicted'], len(fields['gold'].splitlines()))
    if kind == 'decompose': return f'- {dice(*summary)} fact 1.\n- {dice(*summary)} fact 2.'
    if kind == 'detect':
        owner, number = re.match(r'(\d+) fact (\d)', fields['fact']).groups()
        found = found_in(owner, int(number))
        return 'no\n- ' + '\n- '.join(found) if found else 'yes'
    if kind == 'merge': return fields['descriptions'].strip().splitlines()[0]
    if kind == 'binary': return {True: 'Final answer: no', False: 'Final answer: yes', None: 'I cannot say.'}[flagged(model, *summary)]
    if kind == 'questions': return '- Who? They.'
    style = re.sub(r'[12]', '', kind)
    predicted = said_list(model, style, *summary)
    if predicted is None: return 'It is hard to say what is wrong, if anything is.'
    return ('So:\nFinal Output:\n' if style.startswith('cot') else '') + (format_lettered(predicted) or 'None')

def world(call):
    text = told(call)
    return answer(text, top={text: -0.1, {'yes': 'no', 'no': 'yes'}[text]: -3.0} if kind_of(call) == 'say' else None)


# ---- the same bytes ----------------------------------------------------------------------------------------------------------------

SOME = ('final/fig3', 'final/fig9', 'final/table8')

@pytest.fixture(scope='module')
def made(tmp_path_factory):
    "Three exhibits of two models with a judge, made once by `factlab reproduce`."
    home = tmp_path_factory.mktemp('made')/'home'
    with MisbehavingServer(world) as server:
        parameters = {'models': [name_of(server), name_of(server, 'other')], 'judge': name_of(server, 'judge'), 'limit': 4}
        options = ['--model', *parameters['models'], '--judge', parameters['judge'], '--limit', '4']
        out = home.parent/'out'
        code, output, errors = reproduce(home, *SOME, *options, '--out', out)
        assert code == 0, errors
        yield {'home': home, 'server': server, 'parameters': parameters, 'options': options, 'out': out, 'files': files_of(out),
               'calls': len(server.calls), 'output': output}


def test_files_and_the_closing_table(made):
    names = {f'{id}.{kind}' for id in SOME for kind in ('csv', 'json')} | {f'final/{name}.{kind}' for name in ('fig3', 'fig9')
                                                                           for kind in ('svg', 'png')} | {'README.md'}
    assert set(made['files']) == names
    lines = made['output'].strip().splitlines()
    assert re.split(' {2,}', lines[0]) == ['exhibit', 'paper prints', 'recomputed or measured', 'agrees? over baseline?']
    assert [line.split()[0] for line in lines[2:5]] == list(SOME) and 'manifests: out (' in lines[-1]
    assert max(map(len, lines[:5])) <= 100
    header = made['files']['final/table8.csv'].decode().splitlines()[0]
    assert header.split(',') == list(CELLS.columns)


def test_nothing_volatile_is_in_the_results(made):
    text = b''.join(content for name, content in made['files'].items() if not name.endswith('.png')).decode()
    assert str(made['home'].parent) not in text and '/tmp/' not in text and str(NOTEBOOKS) not in text
    assert not re.search(r'\b20[23]\d-\d\d-\d\d|\d\d:\d\d:\d\d', text)


def test_models_stand_side_by_side(made):
    rows = {cell['row'] for cell in cells_of(made['out'], 'final/table8') if cell['status'] == 'measured'}
    assert rows == set(made['parameters']['models'])


def test_binary_scores_are_what_they_are_by_hand(made):
    rows = load('sample').filter(split='test').head(4)
    for model in made['parameters']['models']:
        said = [verdict(model.split(':')[1].split('?')[0], summary.strip().splitlines()[0]) for summary in rows['summary']]
        truth = [bool(gold) for gold in rows['gold'].to_list()]
        hits, called, due = sum(s and t for s, t in zip(said, truth, strict=True)), sum(said), sum(truth)
        cells = {cell['column']: cell for cell in cells_of(made['out'], 'final/table8') if cell['row'] == model and not cell['against']}
        for column, top, bottom in (('Precision', hits, called), ('Recall', hits, due), ('F1', 2*hits, called + due)):
            value = cells[column]['measured']
            assert value == '' if not bottom else float(value) == pytest.approx(top/bottom, abs=1e-5)
            assert int(cells[column]['n']) == 4 and int(cells[column]['unparsed']) == 0


def test_again_the_same_bytes_and_no_call(made, tmp_path):
    code, _, errors = reproduce(made['home'], *SOME, *made['options'], '--out', tmp_path/'out', '--jobs', '2')
    assert code == 0 and files_of(tmp_path/'out') == made['files'], errors
    assert len(made['server'].calls) == made['calls'] and not processes_of(made['home'])
    executed = [path.read_text(encoding='utf-8') for path in Path(made['home']).glob('executed/*/*/*.ipynb')]
    assert executed and not any('History' in text for text in executed)  # a kernel that counts anew complains of its history, if it has one


def test_plain_papermill_writes_the_same_bytes(made, tmp_path, monkeypatch):
    import papermill
    monkeypatch.setenv('FACTLAB_HOME', str(made['home']))
    monkeypatch.chdir(tmp_path)
    parameters = made['parameters'] | {'out': str(tmp_path/'out')}
    papermill.execute_notebook(NOTEBOOKS/'table8.ipynb', tmp_path/'table8.ipynb', parameters, progress_bar=False, kernel_name='python3')
    found = files_of(tmp_path/'out')
    assert found.pop('README.md') and found == {f'final/table8.{kind}': made['files'][f'final/table8.{kind}'] for kind in ('csv', 'json')}
    assert len(made['server'].calls) == made['calls']


# ---- the dry run, and the numbers of a judge that errs -----------------------------------------------------------------------------

@pytest.fixture(scope='module')
def table4(tmp_path_factory, tiny_t5):  # noqa: F811
    "What a dry run of table 4 says, and the table itself with what the server counted."
    home = tmp_path_factory.mktemp('table4')/'home'
    out = home.parent/'out'
    with MisbehavingServer(world) as server:
        options = ['final/table4', '--model', name_of(server, price='1,2'), '--judge', name_of(server, 'judge'), '--limit', '4',
                   '--classifier', f't5:{tiny_t5}', '-p', 'verifier=cosine', '--out', out]
        dry = reproduce(home, *options, '--dry-run')
        after_dry = {'calls': len(server.calls), 'out': out.exists(), 'home': files_of(home)}
        yield {'dry': dry, 'after_dry': after_dry, 'real': reproduce(home, *options), 'calls': list(server.calls), 'out': out,
               'home': home, 'name': options[2], 'options': options[1:], 'server': server}


def test_a_dry_run_calls_nothing_and_writes_nothing(table4):
    code, output, errors = table4['dry']
    assert code == 0 and 'Traceback' not in errors, errors
    assert table4['after_dry']['calls'] == 0 and not table4['after_dry']['out']
    left = [name for name in table4['after_dry']['home'] if name.startswith(('runs', 'executed', 'figures'))]
    assert not left, left


def test_a_dry_run_says_how_wide_the_interval_will_be(table4):
    exhibits = table4['dry'][1].split('\n\n')[0].splitlines()
    name, n, _, half_width, calls = exhibits[2].split()[:5]
    low, high = proportion_confint(int(n)/2, int(n), method='wilson')
    assert name == 'final/table4' and float(half_width) == pytest.approx((high - low)/2, abs=5e-4)
    assert int(calls) == sum(int(line.split()[2]) for line in table4['dry'][1].split('\n\n')[1].splitlines()[2:-1])


def test_a_dry_run_counts_the_build_that_is_shown(tmp_path):
    with MisbehavingServer(world) as server:
        code, output, errors = reproduce(tmp_path/'home', 'oasis/table1', '--model', name_of(server), '--limit', '2', '--dry-run',
                                         '--out', tmp_path/'out')
        assert code == 0 and not server.calls, errors
    assert [line.split()[1:4] for line in output.splitlines() if ' oasis/unified ' in line] == [['oasis/unified', '2', '0']]


def test_a_dry_run_counts_what_is_then_asked(table4):
    counted = {}
    for line in table4['dry'][1].splitlines()[2:]:
        if line.startswith('openai:'): counted[tuple(line.split()[:2])] = [int(number.replace(',', '')) for number in line.split()[2:6]]
    asked = Counter('final/' + kind_of(call) for call in table4['calls'])
    mine = {label: numbers for (model, label), numbers in counted.items() if model == table4['name']}
    for label in ('final/zero_shot1', 'final/zero_shot2', 'final/few_shot1', 'final/few_shot2', 'final/cot1', 'final/cot2',
                  'final/decompose', 'final/binary'):
        assert mine[label][0] == asked[label] and mine[label][1] == 0, label
    assert {'final/detect', 'final/merge', 'final/cot1_hint'} <= set(mine) and ('final/match' in {label for _, label in counted})
    assert sum(asked.values()) == len(table4['calls'])
    costs = {tuple(line.split()[:2]): line.split()[-2] for line in table4['dry'][1].splitlines()[2:] if line.startswith('openai:')}
    for label, numbers in mine.items():
        assert float(costs[table4['name'], label]) == pytest.approx((numbers[2] + 2*numbers[3])/1e6, abs=1e-4)
    others = [cost for (model, _), cost in costs.items() if model != table4['name']]
    assert others and set(others) == {'unknown'} and table4['dry'][1].split('\n\n')[1].splitlines()[-1].split()[-2] == 'unknown'


def by_hand(method: str, row: dict) -> list[str]|None:
    "What a method predicts for a row of the scripted world."
    summary = row['summary'].strip().splitlines()[0]
    if method in ('zero_shot', 'few_shot', 'cot', 'cot_hint'): return said_list('any', method, summary)
    if method == 'factscore':
        found = [text for fact in (1, 2) for text in found_in(str(dice(summary)), fact)]
        return found[:1] if len(found) > 1 else found
    step = verdict('any', summary) if method.startswith('self') else bool(row['gold'])
    return by_hand(method.partition('_')[2], row) if step else []


@pytest.mark.parametrize('method, title', [('zero_shot', 'Zero-Shot'), ('few_shot', 'Few-Shot'), ('cot', 'CoT'), ('factscore', 'FactScore'),
                                           ('self_cot', 'Self + CoT'),
                                           ('self_cot_hint', 'Self + CoT&Hint'), ('oracle_cot', 'Oracle + CoT'),
                                           ('oracle_cot_hint', 'Oracle + CoT&Hint')])
def test_scores_of_a_judge_that_errs_are_what_they_are_by_hand(table4, method, title):
    code, _, errors = table4['real']
    assert code == 0, errors
    hits = found = due = unread = invalid = 0
    for row in load('sample').filter(split='test').head(4).iter_rows(named=True):
        predicted = by_hand(method, row)
        if predicted is None: predicted, unread = [], unread + 1
        matched = set()
        if predicted and row['gold']:
            text = judged(format_lettered(predicted), len(row['gold']))
            if not text.startswith('{'): text, unread = '{}', unread + 1
            for key, value in json.loads(text).items():
                if key not in letters(len(predicted)): invalid += 1
                elif value is not None and value not in letters(len(row['gold'])): invalid += 1
                elif value is not None: matched.add(value)
        hits, found, due = hits + len(matched), found + len(predicted), due + len(row['gold'])
    cells = {cell['metric']: cell for cell in cells_of(table4['out'], 'final/table4')
             if (cell['row'], cell['model']) == (title, table4['name']) and not cell['against']}
    for column, top, bottom in (('Recall', hits, due), ('Precision', hits, found), ('F1', 2*hits, found + due)):
        assert cells[column]['measured'] == '' if not bottom else float(cells[column]['measured']) == pytest.approx(top/bottom,
                                                                                                                    abs=1e-5), column
        assert int(cells[column]['n']) == 4 and int(cells[column]['unparsed']) == unread
    assert float(cells['invalid judge labels']['measured']) == invalid if invalid else 'invalid judge labels' not in cells


def test_tables_9_and_10_beside_table_4(table4):
    "Table 10 asks nothing once Table 4 is there; Table 9 asks one method five times."
    home, out, server, options, name = (table4[key] for key in ('home', 'out', 'server', 'options', 'name'))
    assert table4['real'][0] == 0
    before = len(server.calls)
    code, _, errors = reproduce(home, 'final/table10', *options)
    assert code == 0 and len(server.calls) == before, errors
    code, _, errors = reproduce(home, 'final/table9', *options, '-p', 'temperature=0', '-p', 'methods=[zero_shot]')
    asked = [kind_of(call) for call in server.calls]  # Table 4's first run among them
    assert code == 0 and asked.count('zero_shot1') + asked.count('zero_shot2') == 8 + 5*4, errors  # both on dev, one in five runs
    def measured(id, metric, kind='value'):
        return {cell['row']: cell['measured'] for cell in cells_of(out, id)
                if (cell['model'], cell['metric'], cell['kind']) == (name, metric, kind)}
    judged_cells = measured('final/table10', 'Judged')
    assert judged_cells == measured('final/table4', 'F1')
    assert len([row for row in judged_cells if row in METHODS.values()]) == 11 and len(judged_cells) == 11 + 8  # methods and baselines
    halves = {row: float(half) for row, half in measured('final/table9', 'F1', 'plus_minus').items()}
    assert halves.pop('Zero-Shot') == 0 and len(halves) > 3, halves  # a server that answers alike; only baselines that draw differ by run
    fixed = ('nothing found', 'one vague sentence', 'every sentence', 'every name and number', 'names and numbers that the text lacks')
    assert all(half == 0 for row, half in halves.items() if row.partition(': ')[2] in fixed), halves
    assert any(cell['against'] == BEST_ROW for cell in cells_of(out, 'final/table4'))
    made = json.loads((out/'final'/'table9.json').read_text())['parameters']
    assert made['runs'] == 5 and made['methods'] == ['zero_shot'] and re.search('final/table9 +measured', errors)


# ---- notebooks that fail -----------------------------------------------------------------------------------------------------------

RESULT = '''
import json
from pathlib import Path
path = Path(out)/'{name}.csv'
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text('exhibit,row')
path.with_suffix('.json').write_text(json.dumps({{'status': 'exact', 'headline': None}}))
'''

def checkout(folder: Path, **notebooks: list[str]|str) -> Path:
    "A checkout whose notebooks have these cells after their parameters; 'write' stands for a cell that writes the result."
    folder.mkdir()
    (folder/'settings.ini').write_text('[DEFAULT]\n')
    for name, cells in notebooks.items():
        id = name if '/' in name else f'final/{name}'
        path = folder/'nbs'/'papers'/f'{id}.ipynb'
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(cells, str):
            path.write_text(cells)
            continue
        sources = [RESULT.format(name=id) if source == 'write' else source for source in cells]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('out = None\nlimit = None', metadata={'tags': ['parameters']}),
                                                   *map(nbformat.v4.new_code_cell, sources)],
                                            metadata={'kernelspec': {'name': 'python3', 'display_name': 'python3', 'language': 'python'}})
        nbformat.write(notebook, path)
    return folder


def test_failing_exhibits_are_reported_and_stop_no_other(tmp_path):
    cells = {'oasis/table2': ['left_over = 1', 'raise ValueError("{braces} %s <b>")'],
             'final/fig2': ['assert "left_over" not in globals()', 'write'], 'final/table3': ['import os; os.kill(os.getpid(), 9)'],
             'final/table6': ['write'], 'final/fig8': ['1'], 'fhsum/fig2': '{"cells": [', 'fhsum/table4': ['write'],
             'fhsum/table5': ['import sys; sys.exit(3)'], 'fhsum/fig5': ['write']}
    project = checkout(tmp_path/'project', **cells)
    code, _, errors = reproduce(tmp_path/'home', *cells, '--out', tmp_path/'out', cwd=project)
    status = {line.split()[0]: line.split()[1] for line in errors.splitlines() if re.match(r'\w+/\w+ +\w+ +[\d.]+ s$', line)}
    good = ('final/fig2', 'final/table6', 'fhsum/table4', 'fhsum/fig5')
    assert code == 3 and status == {name: 'exact' if name in good else 'error' for name in cells}
    assert set(files_of(tmp_path/'out')) == {f'{name}.{kind}' for name in good for kind in ('csv', 'json')}
    assert re.search(r'In \[\d\] of oasis/table2: ValueError: \{braces\} %s <b>', errors) and 'executed copy' in errors
    assert all(name in errors.partition('\nerror:')[2] for name in cells if name not in good)
    assert 'Traceback' not in errors and not processes_of(tmp_path/'home')


CLOSED_SOCKET = """import zmq
kernel = get_ipython().kernel
published = kernel._publish_status_and_flush
def publish(status, channel, stream):
    if (status, channel) == ('idle', 'control'): raise zmq.ZMQError(zmq.ENOTSOCK)
    published(status, channel, stream)
kernel._publish_status_and_flush = publish
"""


def test_a_kernel_that_answers_on_a_closed_socket_as_it_ends_prints_nothing(tmp_path):
    project = checkout(tmp_path/'project', table3=[CLOSED_SOCKET, 'write'])
    code, _, errors = reproduce(tmp_path/'home', 'final/table3', '--out', tmp_path/'out', cwd=project)
    assert code == 0 and 'Traceback' not in errors


@pytest.fixture
def short_folder():
    "For sockets, whose names may have a hundred letters: those under tmp_path may be too long."
    with tempfile.TemporaryDirectory(prefix='t') as folder: yield Path(folder)


def test_notebooks_leave_no_thread_and_no_file_behind(short_folder, tmp_path, monkeypatch, capfd):
    "Twenty of them, some of which raise or kill their kernel."
    dies = 'import os; os.kill(os.getpid(), 9)'
    monkeypatch.chdir(checkout(tmp_path/'project', table3=['write'], table7=['1/0'], table4=[dies]))
    monkeypatch.setattr(tempfile, 'tempdir', str(short_folder))
    me, seen, before = psutil.Process(), [], set(threading.enumerate())
    with SharedKernel() as kernel:
        for name in ['table3', 'table7', 'table4', 'table3', 'table3', *['table3', 'table7']*7, 'table4']:
            outcome = run_notebook(EXHIBITS[f'final/{name}'], {}, kernel, out=tmp_path/'out')
            assert outcome.done == (name == 'table3'), outcome
            assert set(threading.enumerate()) <= before
            assert list(short_folder.glob('*/socket-1')) or name == 'table4'
            seen.append(me.num_fds())
        time.sleep(1.5)  # a client looks for its kernel every second
    assert max(seen[5:]) <= max(seen[:5]) and me.num_fds() <= min(seen) and set(threading.enumerate()) <= before
    assert capfd.readouterr() == ('', '') and not list(short_folder.iterdir())


CYCLE = """import builtins, gc, weakref
class Ring: pass
ring = Ring()
ring.itself, builtins.seen = ring, weakref.ref(ring)"""


def test_a_kernel_forgets_what_a_notebook_held_and_keeps_modules_out_of_the_search(tmp_path, kernel, monkeypatch):
    after = 'import builtins, gc\nassert builtins.seen() is None and "ring" not in globals() and gc.get_freeze_count() > 50_000'
    monkeypatch.chdir(checkout(tmp_path/'project', table3=[CYCLE, 'write'], table7=[after, 'write']))
    outcomes = [run_notebook(EXHIBITS[f'final/{name}'], {}, kernel, out=tmp_path/'out') for name in ('table3', 'table7')]
    assert all(outcome.done for outcome in outcomes), outcomes


def test_what_was_kept_is_looked_through_again_when_memory_has_grown(monkeypatch):
    "A model that another one displaced may be part of a cycle."
    class Shell:
        execution_count = 7
        def run_line_magic(self, name, line): gc.collect()
    ring = type('Ring', (), {})()
    ring.itself, seen = ring, weakref.ref(ring)
    gc.freeze()
    del ring
    for before, there in ((2**50, True), (0, False)):
        monkeypatch.setattr(reproduce_module, '_looked_through', before)
        forget(shell := Shell())
        assert (seen() is not None) == there and shell.execution_count == 1


def test_a_failed_exhibit_leaves_its_earlier_result_alone(tmp_path, kernel, monkeypatch):
    monkeypatch.chdir(checkout(tmp_path/'project', table3=['write', 'if limit == 5: raise ValueError("later")'],
                               fig8=['if limit == 5: raise ValueError("sooner")', 'write']))
    for name in ('table3', 'fig8'):
        assert run_notebook(EXHIBITS[f'final/{name}'], {}, kernel, out=tmp_path/'out').done
        before = files_of(tmp_path/'out')
        assert run_notebook(EXHIBITS[f'final/{name}'], {'limit': 5}, kernel, out=tmp_path/'out').status == 'error'
        assert files_of(tmp_path/'out') == before


# ---- runners that meet, and runners that die ---------------------------------------------------------------------------------------

def test_a_second_runner_on_the_same_folder_is_refused(tmp_path):
    project = checkout(tmp_path/'project', table3=[f'import time\nfrom pathlib import Path\nPath({str(tmp_path/"started")!r}).touch()\n'
                                                   f'while not Path({str(tmp_path/"go")!r}).exists(): time.sleep(0.05)', 'write'])
    first = start(tmp_path/'home', 'final/table3', '--out', tmp_path/'out', cwd=project)
    try:
        wait_until((tmp_path/'started').exists)
        code, _, errors = reproduce(tmp_path/'home', 'final/table3', '--out', f'{tmp_path}/./out/', cwd=project)
        assert code == 3 and 'another factlab reproduce is writing to' in errors and '--out' in errors and 'Traceback' not in errors
    finally: (tmp_path/'go').touch()
    assert finish(first)[0] == 0
    assert reproduce(tmp_path/'home', 'final/table3', '--out', tmp_path/'out', cwd=project)[0] == 0


def running(tmp_path, server, answered: int) -> tuple[subprocess.Popen, list[str]]:
    "A runner of table 8 whose endpoint gives so many answers and then none."
    options = ['final/table8', '--model', name_of(server, concurrency=2), '--judge', name_of(server, 'judge'), '--limit', '8', '--out',
               tmp_path/'out']
    process = start(tmp_path/'home', *options)
    wait_until(lambda: len(server.calls) >= answered + 2 or process.poll() is not None, what='calls')
    assert process.poll() is None, finish(process)
    time.sleep(0.6)  # twice the time after which what arrived is in the store
    return process, options


def going_on(tmp_path, server, options, before: int) -> None:
    "A second runner asks what is missing and ends well."
    asked = set(map(question_of, server.calls))
    server.script = world
    code, _, errors = reproduce(tmp_path/'home', *options)
    assert code == 0, errors
    again = [call for call in server.calls[before:] if question_of(call) in asked]
    assert len(again) <= 2 and len(set(map(question_of, server.calls))) == len(server.calls) - len(again)
    assert not [name for name in (*files_of(tmp_path/'out'), *files_of(tmp_path/'home'/'runs')) if Path(name).name.startswith('.')]


@pytest.mark.parametrize('to_the_group', [True, False])
def test_ctrl_c(tmp_path, to_the_group):
    with MisbehavingServer(lambda call: world(call) if call.number < 5 else never()) as server:
        process, options = running(tmp_path, server, 5)
        started = time.monotonic()
        (os.killpg if to_the_group else os.kill)(process.pid, signal.SIGINT)
        code, _, errors = finish(process, 40)
        assert time.monotonic() - started < 15 and code == 130
        assert 'interrupted' in errors and 'Traceback' not in errors
        wait_until(lambda: not processes_of(tmp_path/'home'), 5, 'the end of its processes')
        if to_the_group: going_on(tmp_path, server, options, len(server.calls))


def test_sigterm_ends_everything(tmp_path):
    with MisbehavingServer(lambda call: never()) as server:
        process, _ = running(tmp_path, server, 0)
        process.terminate()
        assert process.wait(60) != 0
        try: wait_until(lambda: not processes_of(tmp_path/'home'), 15, f'the end of {processes_of(tmp_path/"home")}')
        finally: end_all(tmp_path/'home')


def test_kill_9_of_the_runner_takes_its_kernels_along(tmp_path):
    with MisbehavingServer(lambda call: world(call) if call.number < 5 else never()) as server:
        process, options = running(tmp_path, server, 5)
        process.kill()
        process.wait(60)
        calls = len(server.calls)
        try: wait_until(lambda: not processes_of(tmp_path/'home'), 15, f'the end of {processes_of(tmp_path/"home")}')
        finally: end_all(tmp_path/'home')
        going_on(tmp_path, server, options, calls)


def end_all(home: Path) -> None:
    "End what a failed test left behind: only processes that were started with this test's own home."
    for process in psutil.process_iter():
        try:
            if process.environ().get('FACTLAB_HOME') == str(home) and process.pid != os.getpid(): process.kill()
        except psutil.Error: pass


# ---- parameters, and the cell that stands for a result -----------------------------------------------------------------------------

@pytest.mark.parametrize('id', EXHIBITS)
def test_every_parameter_of_a_notebook_can_be_given(id):
    notebook = nbformat.read(notebook_of(EXHIBITS[id]), 4)
    cell, = (cell.source for cell in notebook.cells if 'parameters' in cell.metadata.get('tags', []))
    values = {line.targets[0].id: ast.literal_eval(line.value) for line in ast.parse(cell).body}
    assert values.pop('out') is None
    assert {name: ast.literal_eval(default) for name, default in parameters_of(EXHIBITS[id]).items()} == values
    assert values.keys() | {'out'} == papermill.inspect_notebook(str(notebook_of(EXHIBITS[id]))).keys()
    for name, default in values.items():
        first = next(iter(default or ['one'])) if isinstance(default, list) else default
        number = default is None and name in _NUMBERS
        one = 1 if number else 'one' if first is None else first
        taken = fitted({name: one}, parameters_of(EXHIBITS[id]))
        assert taken == fitted({name: [one]}, parameters_of(EXHIBITS[id])) == {name: [one] if isinstance(default, list) else one}
        with pytest.raises(UsageError, match=name): fitted({name: 1 if isinstance(one, str) else 'one'}, parameters_of(EXHIBITS[id]))


@pytest.mark.parametrize('own, given, taken', [
    ('True', 'no', False), ('False', 'On', True), ('True', 'Y', True), ('True', 0, False), ('True', False, False), ('True', 'nein', None),
    ('True', 2, None), ('2', 1e3, 1000), ('2', 2.5, None), ('2', 'no', None), ('2', True, None), ('2', '1:30', None), ('0.5', 1, 1.0),
    ('0.5', 'low', None), ("'a'", 10, None), ("'a'", True, None), ("'a'", 'no', 'no'), ('[1, 5]', [2, 'x'], None), ('[1, 5]', '1,5', None),
    ('[1, 5]', 3, [3]), ("['a']", 'on', ['on']), ("['a']", [1], None), ('None', 3, None), ('None', 'a', 'a')])
def test_values_are_of_the_type_of_the_notebooks_own(own, given, taken):
    if taken is not None: assert repr(fitted({'value': given}, {'value': own})) == repr({'value': taken})
    else:
        with pytest.raises(UsageError, match='value is .*found'): fitted({'value': given}, {'value': own})


@pytest.mark.parametrize('id, given, taken', [
    ('oasis/table8', {'verifier': 'nli:a', 'model': ['b']}, {'verifiers': ['nli:a']}),
    ('oasis/fig1', {'model': ['openai:a'], 'limit': 3}, {'model': 'openai:a'}),
    ('oasis/table5', {'model': ['a', 'b'], 'seed': 0}, {'models': ['a', 'b'], 'seed': 0}),
    ('oasis/tablec1', {'encoder': 'bm25', 'ks': [5]}, {'encoders': ['bm25'], 'ks': [5]}),
    ('oasis/table6', {'verifier': ['cosine'], 'retry_unparsed': False}, {'verifier': 'cosine', 'retry_unparsed': False}),
    ('facts/table2', {'models': ['a']}, {})])
def test_parameters_come_under_the_name_that_the_notebook_has(id, given, taken): assert fitted(given, parameters_of(EXHIBITS[id])) == taken


def test_a_notebook_gets_what_was_given(tmp_path, kernel, monkeypatch):
    monkeypatch.chdir(checkout(tmp_path/'project', table3=['assert limit == 5', 'write']))
    assert run_notebook(EXHIBITS['final/table3'], {'limit': [5], 'model': ['tiny']}, kernel, out=tmp_path/'out').done
    refused = run_notebook(EXHIBITS['final/table3'], {'limits': [5, 6]}, kernel, out=tmp_path/'out')
    assert refused.status == 'error' and 'limit is one value' in refused.error


def test_the_kernel_of_an_exhibit_builds_no_grammar_of_addresses(tmp_path, kernel, monkeypatch):
    pytest.importorskip('rfc3987_syntax')  # what jsonschema would import
    charts = ['import sys\nimport altair\nassert "jsonschema" in sys.modules and "rfc3987_syntax" not in sys.modules', 'write']
    monkeypatch.chdir(checkout(tmp_path/'project', table3=charts))
    outcome = run_notebook(EXHIBITS['final/table3'], {}, kernel, out=tmp_path/'out')
    assert outcome.done, outcome.error
    import rfc3987_syntax  # it can still be had
    assert rfc3987_syntax.is_valid_syntax('iri', 'https://example.org/ä')


def cell(row: str, status: str, number: float|None = None, printed: float|None = None, column: str = 'F1', **more) -> dict:
    kind = 'measured' if status == 'measured' else 'recomputed'
    return {'row': row, 'column': column, kind: number, 'published': printed, 'status': status,
            'n': 5 if status == 'measured' else None} | more

def shown(exhibit: Exhibit, *rows: dict) -> tuple[str, str, str]:
    found = summary_of({'status': exhibit.status, 'headline': headline(exhibit, make_cells(exhibit.id, rows))})
    return found['printed'], found['recomputed'], found['measured']


def test_a_printed_number_is_of_the_same_cell_or_says_whose_it_is():
    others = [cell('A', 'published', printed=.9), cell('B', 'published', printed=.7)]
    alone, beside = (Exhibit('x/table1', 'x', 'measured', {'metric': 'F1'}, counterpart) for counterpart in (None, ('B', 'F1')))
    assert shown(alone, *others, cell('tiny', 'measured', .25)) == ('–', '–', '0.25 (tiny F1)')
    assert shown(beside, *others, cell('tiny', 'measured', .25)) == ('0.70 (B)', '–', '0.25 (tiny F1)')
    assert shown(beside, *others, cell('tiny', 'measured', .25, .5)) == ('0.50', '–', '0.25 (tiny F1)')
    assert shown(beside, cell('tiny', 'measured', .25)) == ('–', '–', '0.25 (tiny F1)')
    recomputed = [cell('A', 'exact', .901, .9), cell('tiny', 'measured', .25)]
    assert shown(beside, *recomputed, others[1]) == ('0.70 (B)', '–', '0.25 (tiny F1)') and headline(beside,
                                                                                                     make_cells('x/table1',
                                                                                                                [])) is None


def test_a_headline_is_of_that_very_name():
    rows = [cell('Ours untrained', 'measured', .1), cell('Ours', 'measured', .2), cell('Ours', 'published', printed=.9, column='Recall')]
    exhibit = Exhibit('x/table1', 'x', 'measured', {'row': 'Ours', 'metric': 'F1'}, ('Ours', 'Recall'))
    assert shown(exhibit, *rows) == ('0.90 (Recall)', '–', '0.20 (Ours F1)')


def test_a_method_that_was_not_asked_for_gives_way_to_one_that_was():
    exhibit = Exhibit('x/table1', 'x', 'measured', {'method': 'A', 'metric': 'F1'}, ('A', 'F1'), wider={'method': 'C', 'metric': 'F1'})
    rows = [cell('A', 'exact', .9, .9, method='A'), cell('none', 'baseline', method='none') | {'measured': .1},
            cell('B', 'measured', .2, method='B')]
    assert shown(exhibit, *rows) == ('–', '–', '0.20 (B F1)')  # and no printed number of another method beside it
    assert shown(exhibit, *rows, cell('A', 'measured', .3, column='tiny F1', metric='F1', method='A'))[2] == '0.30 (A tiny F1)'


def test_a_row_that_was_read_on_twice_as_many_rows_stands_for_the_whole():
    exhibit = Exhibit('x/table1', 'x', 'measured', {'row': 'Asked'}, wider={'row': 'Rule'})
    def shows(unread: int, n: int = 40) -> str:
        rows = [cell('Asked', 'measured', .2) | {'n': n, 'unparsed': unread}, cell('Rule', 'measured', .1) | {'n': 40, 'unparsed': 0}]
        return headline(exhibit, make_cells('x/table1', rows))['row']
    assert [shows(0), shows(19), shows(20), shows(40), shows(0, 8)] == ['Asked', 'Asked', 'Rule', 'Rule', 'Rule']


def test_an_exact_exhibit_shows_its_exact_cell():
    exact = Exhibit('x/table1', 'x', 'exact', {'method': 'A', 'metric': 'F1'})
    rows = [cell('A (tiny)', 'measured', .25, method='A'), cell('A', 'exact', .904, .9, method='A')]
    assert shown(exact, *rows) == ('0.90', '0.90 (A F1)', '0.25 (A (tiny)), n = 5')
    assert shown(exact, rows[0]) == ('–', '–', '0.25 (A (tiny) F1)')
    wrong = cell('A', 'finding', .8, .9, column='Macro F1', method='A', metric='F1')
    assert shown(exact, *rows, wrong) == ('0.90', '0.80 (A Macro F1)', '0.25 (A (tiny) F1), n = 5')
    both = cell('A', 'exact', .904, .9, method='A', measured=.3)
    assert shown(exact, both) == ('0.90', '0.90 (A F1)', '0.30 (A F1)')


@pytest.mark.parametrize('id', [exhibit.id for exhibit in catalog() if exhibit.counterpart])
def test_counterparts_are_printed(id):
    paper, name = id.split('/')
    with (Path(__file__).parents[2]/'figures'/paper/f'{name}.csv').open(encoding='utf-8') as file:
        assert EXHIBITS[id].counterpart in [(row['row'], row['column']) for row in csv.DictReader(file) if row['published']]


# ---- parameters that cannot be -----------------------------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def good():
    with MisbehavingServer(world) as server: yield server


def rows_in(path: Path, *rows: dict) -> str:
    path.write_text('\n'.join(json.dumps(row) for row in rows))
    return str(path)

ROW = {'text': 'The bridge opened on Friday.', 'summary': 'The bridge opened on Monday.'}
GOLD = ROW | {'gold': ['The day is wrong.']}
CLEAR = re.compile(r'(In \[\d\] of )?final/\w+: (Usage|Data|Model|Run)Error: .{20}', re.DOTALL)

WRONG = {
    'unknown backend': ('table8', {'models': ['nonsense:x']}, 'nonsense'), 'no models': ('table8', {'models': []}, 'models is empty'),
    'unknown option': ('table8', {'models': ['openai:any?wrong=1']}, 'wrong'), 'unknown data': ('table8', {'data': 'finale'}, 'final'),
    'missing file': ('table8', {'data': '/nowhere/mine.jsonl'}, '/nowhere/mine.jsonl'), 'limit 0': ('table8', {'limit': 0}, 'limit'),
    'limit -1': ('table8', {'limit': -1}, 'limit'),
    'limit 2.5': ('table8', {'limit': 2.5}, 'limit'), 'limit true': ('table8', {'limit': True}, 'limit'),
    'limit as text': ('table8', {'limit': 'x'}, 'limit'), 'unknown prompts': ('table8', {'prompts': 'theirs'}, 'theirs'),
    'unknown judge': ('table8', {'judge': 'nobody'}, 'nobody'), 'threshold': ('table8', {'judge': 'encoder?threshold=x'}, 'threshold'),
    'seed': ('table8', {'seed': 'x'}, 'seed'),
    'unknown example': ('table1', {'example': 'nothing'}, 'nothing'), 'unknown data, counted': ('table3', {'data': 'finale'}, 'final'),
    'another kind of data': ('fig8', {'data': '/nowhere.pdf'}, 'nowhere'),
    'unknown classifier': ('table4', {'classifier': 'nobody'}, 'nobody')}

@pytest.fixture
def tried(kernel, good, tmp_path):
    "An exhibit's outcome with these parameters; an error says clearly what is wrong, and leaves nothing."
    def run(name: str, **parameters):
        given = {'models': [name_of(good)], 'judge': name_of(good, 'judge')} | parameters
        outcome = run_notebook(EXHIBITS[f'final/{name}'], given, kernel, out=tmp_path/'out')
        if outcome.status == 'error': assert CLEAR.search(outcome.error) and not (tmp_path/'out').exists(), outcome.error
        return outcome
    return run


@pytest.mark.parametrize('case', WRONG)
def test_parameters_that_cannot_be_are_named(case, tried):
    name, wrong, word = WRONG[case]
    outcome = tried(name, **{'limit': 3, 'data': 'sample'} | wrong)
    assert outcome.status == 'error' and word in outcome.error, outcome.error


FILES = {
    'no rows': ([], 'empty'), 'no summary': ([{'text': 'x'}], 'summary'), 'blank text': ([GOLD | {'text': ' '}], 'line 1'),
    'unknown column': ([GOLD | {'gild': []}], 'gild'),
    'no gold': ([ROW, ROW], 'gold'), 'some gold': ([GOLD, ROW | {'gold': None}], 'gold'), 'only dev': ([GOLD | {'split': 'dev'}], ' rows'),
    'split': ([GOLD | {'split': 'train'}], 'train')}

@pytest.mark.parametrize('case, name', [(case, 'table8') for case in FILES] + [('no rows', 'fig8'), ('no gold', 'fig8')])
def test_a_file_of_ones_own_that_does_not_fit_is_named(case, name, tried, tmp_path):
    rows, word = FILES[case]
    outcome = tried(name, data=rows_in(tmp_path/'mine.jsonl', *rows))
    assert outcome.status == 'error' and word in outcome.error, outcome.error


@pytest.mark.parametrize('name', ['fig3', 'fig9'])
def test_a_file_without_an_inconsistent_summary_has_no_example(name, tried, tmp_path):
    assert tried(name, data=rows_in(tmp_path/'mine.jsonl', ROW | {'gold': []})).status == 'error'


@pytest.mark.parametrize('rows, limit', [([GOLD], 10**9), ([GOLD, ROW | {'gold': []}], None),
                                         ([GOLD | {'split': 'dev'}, GOLD | {'split': 'test', 'summary': 'One.'}], 1)])
def test_a_file_of_ones_own_without_a_dev_split_or_smaller_than_the_limit_works(rows, limit, tried, tmp_path):
    outcome = tried('table8', data=rows_in(tmp_path/'mine.jsonl', *rows), limit=limit)
    assert outcome.status == 'measured', outcome.error
    manifest = json.loads((tmp_path/'out'/'final'/'table8.mine.json').read_text())
    assert manifest['data']['test']['rows'] == sum(row.get('split', 'test') == 'test' for row in rows)
    assert str(tmp_path) not in json.dumps(manifest)


@pytest.mark.parametrize('name', ['fig3', 'fig9', 'fig4'])
def test_results_of_a_file_of_ones_own_do_not_name_its_folder(name, tried, tmp_path):
    outcome = tried(name, data=rows_in(tmp_path/'mine.jsonl', GOLD, GOLD | {'summary': 'It opened in May.'}))
    assert outcome.done, outcome.error
    assert not [file for file, content in files_of(tmp_path/'out').items() if str(tmp_path).encode() in content]


def test_the_classifier_wants_a_dev_split(tried, tmp_path):
    outcome = tried('table4', data=rows_in(tmp_path/'mine.jsonl', GOLD), classifier='t5:/nowhere')
    assert outcome.status == 'measured', outcome.error
    manifest = (tmp_path/'out'/'final'/'table4.mine.json').read_text()
    assert 'no dev split' in manifest and 'TrueTeacher + CoT' in manifest


def test_a_folder_of_results_that_cannot_be_written_is_named(kernel, tmp_path):
    (tmp_path/'out').write_text('')
    outcome = run_notebook(EXHIBITS['final/table3'], {'data': 'sample'}, kernel, out=tmp_path/'out')
    assert outcome.status == 'error' and CLEAR.search(outcome.error) and str(tmp_path/'out') in outcome.error, outcome.error


def test_a_clock_that_is_ahead_of_that_of_the_disk(kernel, tmp_path, monkeypatch):
    "As after it was set back in the middle: what the notebook wrote seems to be older than its start."
    ahead = time.time_ns() + 3600*10**9
    monkeypatch.setattr(time, 'time_ns', lambda: ahead)
    for _ in range(2): assert run_notebook(EXHIBITS['final/table3'], {}, kernel, out=tmp_path).error == ''


@pytest.mark.parametrize('last', ['{"cells": []}', '{"cells": [1'])
def test_an_executed_copy_is_whole_or_as_it_was(tmp_path, monkeypatch, last):
    "Papermill writes its copy anew after every cell, may be killed while it does, and ends in the middle where the disk is full."
    executed = tmp_path/'copy.ipynb'
    def fails(source, target, *_, **__):
        for text in ('{"cells": [', last):
            Path(target).write_text(text)
            assert executed.read_text() == 'as it was'
        raise ValueError('of a cell')
    monkeypatch.setattr('papermill.execute_notebook', fails)
    executed.write_text('as it was')
    with pytest.raises(ValueError, match='of a cell'): execute_whole(tmp_path/'x.ipynb', executed, {})
    assert executed.read_text() == (last if last.endswith('}') else 'as it was') and list(tmp_path.iterdir()) == [executed]


def test_an_endpoint_that_is_down(tmp_path):
    name = f'openai:any?base_url=http://127.0.0.1:{free_port()}/v1&retries=0'
    code, output, errors = reproduce(tmp_path/'home', 'final/table8', '--model', name, '--judge', name, '--limit', '2', '--out',
                                     tmp_path/'out')
    assert code == 3 and 'ModelError' in errors and '127.0.0.1' in errors and 'Traceback' not in errors and 'error' in output
    assert not (tmp_path/'out').exists()


def test_requests_that_failed_for_good_are_counted_and_asked_again(kernel, tmp_path, capsys):
    with MisbehavingServer(lambda call: status(400, 'content policy') if kind_of(call) == 'binary'
                           and call.number % 2 else world(call)) as server:
        def make():
            return run_notebook(EXHIBITS['final/table8'], {'models': [name_of(server)], 'judge': name_of(server, 'judge'), 'limit': 4},
                                kernel, out=tmp_path/'out')
        first = make()
        assert first.status == 'measured' and first.failed > 0 and not first.done and (tmp_path/'out'/'final'/'table8.csv').is_file()
        assert _exit_code([first]) == 3 and f'error: {first.failed} requests failed for good' in capsys.readouterr().err
        server.script, before = world, len(server.calls)
        second = make()
        assert second.done and _exit_code([second]) == 0
        assert len([call for call in server.calls[before:] if kind_of(call) == 'binary']) == first.failed


def test_an_exhibit_or_an_option_that_does_not_exist(tmp_path):
    for arguments, word in ((['final/tabel4'], 'did you mean final/table'), (['--paper', 'nobody'], 'final'),
                            (['--status', 'great'], 'measured'), (['--jobs', '0'], 'jobs'), (['--dry-run', '--jobs', '-1'], 'jobs'),
                            (['--limit', 'x'], 'limit'), (['--prompts', 'theirs'], 'ours')):
        code, _, errors = reproduce(tmp_path/'home', *arguments)
        assert code == 2 and word in errors and 'Traceback' not in errors


# ---- results that stay -------------------------------------------------------------------------------------------------------------

def test_results_of_two_data_sets_are_two_files_and_one_table(tmp_path):
    def write(data, *rows): return write_exhibit('final/table8', make_cells('final/table8', rows), about={'parameters': {'data': data}},
                                                 out=tmp_path)
    printed = {'row': 'GPT-4o', 'column': 'F1', 'published': .7, 'status': 'published'}
    write('final', printed, {'row': 'tiny', 'column': 'F1', 'measured': .3, 'n': 1000, 'status': 'measured'})
    result = write('sample', printed, {'row': 'tiny', 'column': 'F1', 'measured': .2, 'n': 38, 'status': 'measured'})
    names = {f'table8{data}.{kind}' for data in ('', '.final') for kind in ('csv', 'json')}
    assert {path.name for path in (tmp_path/'final').iterdir()} == names
    table = result.table().text
    assert re.search(r'^tiny +● 0.20', table, re.MULTILINE) and re.search(r'^tiny · on final +● 0.30', table, re.MULTILINE)
    assert table.count('○ 0.70') == 1
    gallery = (tmp_path/'README.md').read_text()
    assert gallery.count('** Binary consistency [csv](final/table8.csv) [json](final/table8.json) | – | 38 | tiny, F1: ● 0.20') == 1
    assert gallery.count('** Binary consistency · on final [csv](final/table8.final.csv) [json](final/table8.final.json) | – | 1000 |') == 1


def test_a_result_may_have_a_title_of_its_own(tmp_path):
    "Where other data answer another question than the exhibit's."
    cells = make_cells('final/table8', [{'row': 'tiny', 'column': 'F1', 'measured': .2, 'n': 38, 'status': 'measured'}])
    for data, title in (('sample', {}), ('final', {'title': 'How often do they agree?'})):
        write_exhibit('final/table8', cells, about={'parameters': {'data': data}, **title}, out=tmp_path)
    gallery = (tmp_path/'README.md').read_text()
    assert '** Binary consistency [csv]' in gallery and '** How often do they agree? · on final [csv]' in gallery


def test_what_does_not_change_is_not_written(tmp_path):
    import altair as alt
    chart = alt.Chart(load('sample').select('id').head(3)).mark_bar().encode(x='count()')
    cell = {'row': 'tiny', 'column': 'Binarized F1', 'method': 'Binarized', 'metric': 'F1', 'status': 'measured', 'n': 3}
    def write(number): return write_exhibit('final/fig4', make_cells('final/fig4', [cell | {'measured': number}]), chart=chart,
                                            out=tmp_path)
    result = write(.2)
    inodes = {path: path.stat().st_ino for path in (*result.files, tmp_path/'README.md')}
    write(.2 + 1e-9)  # below what a file holds
    assert {path: path.stat().st_ino for path in inodes} == inodes
    write(.3)
    assert {path.name for path in inodes if path.stat().st_ino != inodes[path]} == {'fig4.csv', 'fig4.json', 'README.md'}


def test_a_result_without_a_chart_leaves_no_picture_of_an_older_one(tmp_path):
    import altair as alt
    chart = alt.Chart(load('sample').select('id').head(3)).mark_bar().encode(x='count()')
    def write(id, chart, **parameters): return {path.name for path in write_exhibit(
        id, make_cells(id, [{'row': 'tiny', 'column': 'F1', 'measured': .2, 'status': 'measured'}]), chart=chart, out=tmp_path,
        about={'parameters': parameters}).files}
    assert {'fig4.svg', 'fig4.png'} < write('final/fig4', chart) and {'fig4.final.svg'} < write('final/fig4', chart, data='final')
    assert write('final/fig4', None) == {'fig4.csv', 'fig4.json'}
    assert {path.name for path in (tmp_path/'final').glob('*.[sp][vn]g')} == {'fig4.final.svg', 'fig4.final.png'}
    (tmp_path/'final/table8.svg').write_text('somebody\'s own')
    write('final/table8', None)
    assert (tmp_path/'final/table8.svg').is_file()


def test_a_manifest_says_which_processor(tmp_path):
    cells = make_cells('final/table8', [{'row': 'tiny', 'column': 'F1', 'measured': .2, 'n': 38, 'status': 'measured'}])
    here, far = ({'models': {'m': {'backend': backend, **more}}} for backend, more in (('local', {'dtype': 'float32'}), ('openai', {})))
    local, remote = (write_exhibit('final/table8', cells, about=about, out=tmp_path).manifest for about in (here, far))
    assert local['processor'] == processor_family() and 'processor' not in remote
    assert remaking([('final/table8', '', ''), ('final/fig4', 'final', '')]) == ['factlab reproduce final/table8',
                                                                                 'factlab reproduce final/fig4 --data final']


def test_results_of_another_plan_are_stale_and_no_model_is_taken(tmp_path, monkeypatch):
    def taken(*_, **__): raise AssertionError('a model was loaded or asked')
    for name in ('transformers_backend._decoder', 'transformers_backend._loaded', 'openai_backend.Endpoint.generate',
                 'interface.ask'): monkeypatch.setattr(f'factlab.models.{name}', taken)
    exhibit, server = EXHIBITS['final/table4'], f'openai:any?base_url=http://127.0.0.1:{free_port()}/v1'
    plan = exhibit.plan(models=['tiny', server], judge=server, limit=2, few=1)
    cells = make_cells('final/table4', [{'row': 'CoT', 'column': 'tiny F1', 'measured': .2, 'n': 2, 'status': 'measured'}])
    def listed(parameters=plan.parameters, **made) -> list[str]:
        write_exhibit('final/table4', cells, about={'parameters': dict(parameters), **made}, out=tmp_path)
        return [wrong for id, data, wrong in stale_results(tmp_path) if (id, data) == ('final/table4', '')]
    assert listed(plan=plan.digest) == []
    assert listed(plan='0'*16) == [f'of plan {"0"*16}, now {plan.digest}']
    [limited] = listed({**plan.parameters, 'limit': 3}, plan=plan.digest)
    assert limited.startswith(f'of plan {plan.digest}, now ')
    assert listed() == [OLD_FORMAT]
    [lost] = listed({**plan.parameters, 'verifier': 'nobody'}, plan=plan.digest)
    assert 'cannot be made here' in lost and 'nobody' in lost
    assert ('final/table7', '', 'no result') in stale_results(tmp_path)


def test_a_result_of_the_other_arithmetic_is_not_stale(tmp_path):
    "bfloat16 is another identity of `tiny` than float32, and no other plan."
    code = """
    from factlab.models.transformers_backend import native_bfloat16, on_the_other_processor
    from factlab.reports.exhibits import find_exhibits
    here = native_bfloat16()
    with on_the_other_processor():
        [exhibit] = find_exhibits(['final/table4'])
        print(exhibit.plan(models=['tiny'], limit=2, few=1).digest, here != native_bfloat16())
    """
    told, _ = started(code).communicate()
    elsewhere, other = told.split()
    plan = EXHIBITS['final/table4'].plan(models=['tiny'], limit=2, few=1)
    assert other == 'True' and plan.digest != elsewhere
    cells = make_cells('final/table4', [{'row': 'CoT', 'column': 'tiny F1', 'measured': .2, 'n': 2, 'status': 'measured'}])
    for digest, stale in ((elsewhere, False), (elsewhere[::-1], True)):
        write_exhibit('final/table4', cells, about={'parameters': dict(plan.parameters), 'plan': digest}, out=tmp_path)
        assert stale == any(id == 'final/table4' for id, _, _ in stale_results(tmp_path))


def test_what_an_old_format_means_is_said_once(monkeypatch, capsys):
    "Two lines for all such results, whatever their number; others a line each."
    old = [('final/table4', 'final', OLD_FORMAT), *((f'final/fig{at}', '', OLD_FORMAT) for at in (3, 4))]
    known = {'stale_results': [('facts/judges', '', 'of plan a, now b'), *old], 'remaking': ['the command'], 'without_plan': 0}
    for name, given in known.items():
        monkeypatch.setattr(f'factlab.reports.reproduce.{name}', lambda *_, given=given: given)
    assert main(['reproduce', '--stale']) == 1
    first, names, meaning, again, command = filter(None, capsys.readouterr().out.splitlines())
    assert first.split() == ['facts/judges', *'of plan a, now b'.split()] and command.strip() == 'the command'
    assert names.endswith('(3): final/table4 on final, final/fig3, final/fig4') and again == 'make them again:'
    assert 'stand as they were made' in meaning


def test_stale_results_are_made_again_as_they_were_made(tmp_path):
    cells = make_cells('final/table4', [{'row': 'CoT', 'column': 'tiny F1', 'measured': .2, 'n': 4, 'status': 'measured'}])
    made = {'models': ['tiny?dtype=float32'], 'data': 'final', 'judge': 'offline', 'limit': 4, 'seed': 0, 'retry_unparsed': False}
    write_exhibit('final/table4', cells, about={'parameters': made, 'few': 2, 'failed': 0}, out=tmp_path)
    [(data, _)] = manifests_of(tmp_path, EXHIBITS['final/table4']).items()
    [command] = remaking([('final/table4', data, '')], tmp_path)
    given = command.removeprefix('factlab reproduce final/table4 ').split()
    assert {*zip(given[::2], given[1::2], strict=True)} == {('--data', 'final'), ('--limit', '4'), ('-p', 'few=2'),
                                                            ('-p', 'retry_unparsed=False')}
    whole = make_cells('oasis/table6', [{'row': 'tiny', 'column': 'ZS (%)', 'measured': .5, 'n': 4, 'status': 'measured'}])
    write_exhibit('oasis/table6', whole, about={'parameters': {'limit': None, 'max_tokens': None}}, out=tmp_path)
    assert remaking([('oasis/table6', '', '')], tmp_path) == ['factlab reproduce oasis/table6 -p limit=null']  # the notebook takes 60
    write_exhibit('final/table4', cells, about={'parameters': made | {'models': []}, 'few': 2}, out=tmp_path)
    assert "-p 'models=[]'" in remaking([('final/table4', data, '')], tmp_path)[0]  # no model was asked: none is to be
    write_exhibit('final/table4', cells, about={'parameters': {'models': {}, 'seed': 3}}, out=tmp_path)
    assert remaking([('final/table4', '', '')], tmp_path) == ['factlab reproduce final/table4 --seed 3']  # an older form took a dict
    swapped = make_cells('final/counterfactual', [{'row': 'All facts, true', 'column': 'Detected', 'measured': .2, 'n': 4}])
    about = {'parameters': {'data': 'sample', 'facts': 'entfa', 'limit': 4}}
    assert write_exhibit('final/counterfactual', swapped, about=about, out=tmp_path).files[0].stem == 'counterfactual.entfa'
    [command] = remaking([('final/counterfactual', 'entfa', '')], tmp_path)
    assert command == 'factlab reproduce final/counterfactual -p facts=entfa --limit 4'


def test_the_best_baseline_stands_beside_ours():
    def row(name, number, status='measured', column='tiny F1', **more):
        return {'row': name, 'column': column, 'method': name, 'metric': 'F1', 'measured': number, 'status': status, 'n': 38} | more
    over = {'kind': 'difference', 'against': BEST_BASELINE}
    rows = [row('CoT', .24, forced=3), row('Every sentence', .2, 'baseline'), row('Chance', .1, 'baseline'),
            row('Other', .9, 'baseline', 'other F1'), row('CoT', .04, low=-.05, high=.12, **over)]
    exhibit = EXHIBITS['final/table4']
    said = summary_of({'status': 'measured', 'headline': headline(exhibit, make_cells(exhibit.id, rows))})
    assert (said['baseline'], said['difference'], said['n']) == ('0.20 (Every sentence)', '+0.04 [-0.05, +0.12]', '38, 3 of 38 forced')
    alone = summary_of({'status': 'measured', 'headline': headline(exhibit, make_cells(exhibit.id, rows[:1]))})
    assert (alone['baseline'], alone['difference']) == ('–', '–')
    assert headline(exhibit, make_cells(exhibit.id, rows[1:4])) is None  # a baseline is nobody's headline
    other = rows[:3] + [row('Every sentence, by another measure', .7, 'baseline', metric='another F1')] + rows[4:]
    assert headline(exhibit, make_cells(exhibit.id, other))['baseline'] == {'row': 'Every sentence', 'measured': .2}
    many = [row('Rejected claims', .34, column='all F1') | {'n': 300}, row('Every claim', .32, 'baseline', 'all F1') | {'n': 300}]
    wide = headline(exhibit, make_cells(exhibit.id, rows + many))
    assert (wide['row'], wide['n'], wide['baseline']['row']) == ('Rejected claims', 300, 'Every claim')  # the other rows stand on few
    assert headline(exhibit, make_cells(exhibit.id, rows + [many[0] | {'n': 38}, many[1]]))['row'] == 'CoT'


def test_a_headline_claims_nothing_on_few_examples_of_p_values_or_over_an_easy_baseline_alone():
    "What looks like a lead: two rows, a p-value above that of a baseline, a method that a simple one comes near."
    def row(name, number, status='measured', column='tiny F1', n=2, metric='F1', **more):
        return {'row': name, 'column': column, 'method': name, 'metric': metric, 'measured': number, 'status': status, 'n': n} | more
    over = {'kind': 'difference', 'against': BEST_BASELINE}
    def said(id, rows): return summary_of({'status': 'measured', 'headline': headline(EXHIBITS[id], make_cells(id, rows))})
    def table4(n): return [row('CoT', .95, n=n, low=.9, high=1.), row('Chance', .67, 'baseline', n=n),
                           row('CoT', .33, n=n, low=.2, high=.33, **over)]
    few, enough = said('final/table4', table4(2)), said('final/table4', table4(10))
    assert (few['difference'], few['n'], few['measured']) == ('–', '2: too few', '0.95 (CoT tiny F1)')
    assert (enough['difference'], enough['n']) == ('+0.33 [+0.20, +0.33]', '10')
    p = {'column': 'p against Pipeline', 'metric': 'Accuracy', 'kind': 'p', 'against': 'Pipeline', 'n': 60}
    p = said('oasis/fig3', [row('tiny · RAG', .9, **p), row('Baseline: words', .85, 'baseline', **p)])
    assert (p['baseline'], p['difference']) == ('–', '–')
    own = {'metric': 'Share', 'n': 58, 'column': 'tiny Share'}
    share = said('final/fig5', [row('Extrinsic Correct', .33, **own),
                                row('Extrinsic Correct', .31, 'baseline', **own | {'column': 'tiny Share when overlooking at random',
                                                                                   'method': 'overlooking at random'}),
                                row('Extrinsic Correct', .02, low=0., high=.05, **own, **over)])
    assert share['baseline'] == '0.31 (overlooking at random)' and share['difference'].startswith('+0.02')
    words = said('fhsum/table2', [row('Verifier + Reflection Retrieval', .8, column='Sample F1', n=84, low=.72, high=.87),
                                  row('random', .35, 'baseline', 'Sample F1', 84),
                                  row('words and knowledge', .7, 'baseline', 'Sample F1', 84)])
    assert words['baseline'] == '0.70 (words and knowledge)'  # the best of them, not the first


# ---- the tour ----------------------------------------------------------------------------------------------------------------------

def test_the_tour_has_all_that_is_exact_and_parts_of_every_paper_that_measures():
    tour = {exhibit.id: exhibit for exhibit in find_exhibits(tour=True)}
    assert {exhibit.id for exhibit in find_exhibits(status='exact')} <= set(tour)
    named = [exhibit for exhibit in tour.values() if exhibit.tour is not None]
    assert {'oasis', 'final'} <= {exhibit.paper for exhibit in named} and {exhibit.paper for exhibit in tour.values()} >= {'facts', 'fhsum'}
    for exhibit in named:
        assert not [name for name in exhibit.tour if name not in parameters_of(exhibit)], exhibit.id


def test_a_tour_passes_its_parameters_and_keeps_its_results_apart(tmp_path):
    "Parameters given by hand come before those of the tour."
    asked = [f'assert limit == {EXHIBITS["oasis/table8"].tour["limit"]}, limit', 'write']
    project = checkout(tmp_path/'project', **{'oasis/table8': asked}, table6=['write'])  # one that asks no language model
    code, output, errors = reproduce(tmp_path/'home', '--tour', 'oasis/table8', 'final/table6', cwd=project)
    assert code == 0, errors
    made = {f'tour/{name}.{kind}' for name in ('oasis/table8', 'final/table6') for kind in ('csv', 'json')}
    assert set(files_of(project/'figures')) == made | {'tour/index.html'}
    assert 'figures/tour (index.html' in output and 'factlab reproduce' in output.splitlines()[-1]
    code, _, errors = reproduce(tmp_path/'home', '--tour', 'oasis/table8', '--limit', '31', '--out', tmp_path/'out', cwd=project)
    assert code == 3 and 'AssertionError: 31' in errors
    assert reproduce(tmp_path/'home', '--tour', 'final/table9', cwd=project)[0] == 2


def test_the_closing_table_fits_a_terminal_and_names_what_it_cuts():
    cell = {'row': 'A method with a name that no terminal has room for', 'column': 'and a measure as long as that', 'measured': .3, 'n': 38}
    measured = {'status': 'measured', 'headline': cell | {'published': .7, 'counterpart': 'GPT-4o'}}
    exact = {'status': 'finding', 'recomputed': {'cells': 1600, 'as_printed': 1599},
             'headline': {'row': 'All', 'column': 'N', 'published': 402., 'recomputed': 406., 'low': 405., 'high': 407.}}
    table = outcome_table([Outcome('final/counterfactual', 'measured', 1, measured), Outcome('facts/table2', 'finding', 1, exact),
                           Outcome('final/fig8', 'error', 1, error='In [4]: DataError')])
    first, second, third = table.rows()
    assert first[1] == '○ 0.70' and first[2].startswith('● 0.30 A method') and first[2].endswith('…')
    assert second == ('facts/table2', '○ 402', '◐ 406 All N', '≠ 1599 of 1600 as printed')
    assert third == ('final/fig8', '–', 'stopped with an error', '–')
    assert 95 < max(map(len, plain_table(table).splitlines())) <= 100 and outcome_table([]).is_empty()


def of_baseline(low: float, high: float, n: int = 38, status: str = 'measured') -> str:
    over = {'measured': (low + high)/2, 'low': low, 'high': high, 'n': n}
    return agreement_of({'status': status, 'headline': {'row': 'a', 'column': 'b', 'measured': .5, 'n': n, 'over_baseline': over}})


def test_above_a_baseline_is_said_beyond_chance_alone():
    assert (of_baseline(.1, .3), of_baseline(-.3, -.1), of_baseline(-.1, .3)) == ('yes, +0.20', 'no, −0.20', 'not shown, +0.10')
    assert of_baseline(.1, .3, n=9) == 'too few' and of_baseline(.1, .3, status='illustrated') == 'an example'


def test_the_page_of_a_tour(tmp_path):
    "Exact exhibits as they are made, one of them with a chart, and names that are markup."
    code, _, errors = reproduce(tmp_path/'home', '--tour', 'fhsum/table5', 'final/fig2', '--out', tmp_path/'out')
    assert code == 0, errors
    out = tmp_path/'out'
    page = (out/'index.html').read_text(encoding='utf-8')
    assert page.count('<tr>') == 4 and '<img src="final/fig2.svg"' in page and '15 of 17' in page and '≠ 14 of 16 as printed' in page
    links = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert links and all((out/link).is_file() for link in links) and 'color-scheme:light dark' in page and '<script' not in page
    hostile = {'row': '<img src=x onerror=alert(1)>', 'column': '"F1"', 'metric': 'F1', 'measured': .2, 'n': 38, 'status': 'measured'}
    write_exhibit('final/table8', make_cells('final/table8', [hostile]), about={'title': '</title><b>'}, out=out)
    page = write_page(out, {'final/fig8': 'In [4]: <u>no</u>'}).read_text(encoding='utf-8')
    assert '<b>' not in re.sub(r'<b>(?=[\w/]+</b>|\d+ of \d+</b>)', '', page) and 'src=x' not in page.replace('&lt;img src=x', '')
    assert '<u>no' not in page and '&lt;u&gt;no' in page
    gallery = (out/'README.md').read_text(encoding='utf-8')
    assert '<a href="final/fig2.svg"><img src="final/fig2.svg"' in gallery and '<img src=x' not in gallery


def test_exact_exhibits_load_no_model(tmp_path):
    "Their notebooks run without the libraries that models need."
    scripts = []
    for exhibit in find_exhibits(status='exact'):
        cells = [cell.source for cell in nbformat.read(notebook_of(exhibit), 4).cells if cell.cell_type == 'code']
        scripts.append(tmp_path/f'{exhibit.id.replace("/", "_")}.py')
        scripts[-1].write_text('\n'.join(cells).replace('out = None ', f'out = {str(tmp_path)!r} '))
    code = ("import os, runpy, sys\nfor name in ('torch', 'transformers', 'openai', 'sentence_transformers'): sys.modules[name] = None\n"
            "for path in sys.argv[1:]: print(path); runpy.run_path(path)")
    done = subprocess.run([sys.executable, '-c', code, *scripts], cwd=NOTEBOOKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-500:])


def test_a_log_gets_lines_that_name_the_exhibit(tmp_path):
    slow = ['import time\nimport tqdm.std\nfrom factlab.core.core import progress\nbegin = time.time()\n'
            'tqdm.std.time = lambda: begin + 64*(time.time() - begin)  # a clock that goes fast\n'
            'for _ in progress(range(24), label="asking", unit="row"): time.sleep(.5/8)', 'write']
    project, home = checkout(tmp_path/'project', table4=slow), tmp_path/'home'
    with_weights(home)
    environment = {name: value for name, value in os.environ.items() if name != 'FACTLAB_PROGRESS'} | {'FACTLAB_HOME': str(home)}
    done = subprocess.run([str(BIN/'factlab'), 'reproduce', 'final/table4', '--out', str(tmp_path/'out')], cwd=project, env=environment,
                          capture_output=True, text=True, check=True)
    assert re.search(r'^final/table4: asking: \d+ of 24 rows, 01:\d\d so far, 00:\d\d left$', done.stderr, re.MULTILINE), done.stderr
    assert '\r' not in done.stderr
