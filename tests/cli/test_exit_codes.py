"Every command ends alike: 2 where its words do not fit, 3 where it could not finish."
import os

import pytest
from commands import say

pytestmark = pytest.mark.usefixtures('home')
ROWS = 'id,predicted,gold\na,yes,yes\nb,no,no\nc,yes,no\nd,no,no\n'
COMMANDS = {  # FILE: what is at fault; GOOD: a file of labels
    'check': 'check FILE', 'verify': 'verify --corpus FILE Words.', 'score data': 'score labels --data FILE --predictions GOOD',
    'score predictions': 'score labels --data GOOD --predictions FILE', 'judge': 'judge FILE --labels GOOD',
    'judge labels': 'judge GOOD --labels FILE', 'compare': 'compare FILE GOOD',
    'reproduce': 'reproduce final/table4 --data FILE --dry-run --out out', 'facts data': 'facts --data FILE --judges words --dry-run',
    'facts responses': 'facts --responses FILE --judges words --dry-run', 'probe': 'probe injection --judge words --data FILE --dry-run',
    'build fhsum': 'build fhsum --summaries FILE --knowledge GOOD --out made.jsonl',
    'build oasis': 'build oasis --texts FILE --model tiny --out made --dry-run',
    'build passages': 'build passages --texts FILE --out made.parquet',
    'final candidates': 'final candidates made --data FILE --models tiny --dry-run', 'final enrich': 'final enrich FILE',
    'oasis submission': 'oasis submission --predictions FILE', 'store': 'store verify --store FILE'}
OASIS = {'oasis forms': 'oasis forms --data FILE --annotators ann --out made', 'train': 'train retriever --data FILE --steps 1 --out made',
         'lab': 'lab FILE --no-browser'}  # of .jsonl alone


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    "A folder with faulty files, in which one stands."
    monkeypatch.chdir(tmp_path)
    (tmp_path/'good.csv').write_text(ROWS)
    for ends in ('csv', 'jsonl'):
        (tmp_path/f'folder.{ends}').mkdir()
        (tmp_path/f'empty.{ends}').write_text('')
        os.symlink(f'circle.{ends}', tmp_path/f'circle.{ends}')
    (tmp_path/'columns.csv').write_text('x,y\n1,2\n')
    (tmp_path/'columns.jsonl').write_text('{"x": 1, "y": 2}\n')
    (tmp_path/'torn.jsonl').write_text('{"x": 1')
    return tmp_path


@pytest.mark.parametrize('fault', ['nothing.csv', 'folder.csv', 'good.csv/below.csv', 'circle.csv', 'empty.csv', 'columns.csv'])
@pytest.mark.parametrize('command', COMMANDS)
def test_a_file_that_fails_ends_every_command_with_3(capsys, faulty, command, fault):
    if (command, fault) == ('store', 'empty.csv'): return  # a store that nothing was kept in
    words = [{'FILE': fault, 'GOOD': 'good.csv'}.get(word, word) for word in COMMANDS[command].split()]
    code, output, errors = say(capsys, *words)
    assert code == (1 if (command, fault) == ('store', 'columns.csv') else 3), (output, errors)  # `store verify` found a fault
    assert errors.startswith('factlab: ') or command == 'store'


@pytest.mark.parametrize('fault', ['nothing.jsonl', 'good.csv/below.jsonl', 'circle.jsonl', 'empty.jsonl', 'columns.jsonl', 'torn.jsonl'])
@pytest.mark.parametrize('command', OASIS)
def test_files_of_one_kind_too(capsys, faulty, command, fault):
    code, _, errors = say(capsys, *OASIS[command].replace('FILE', fault).split())
    assert code == 3 and errors.startswith('factlab: '), errors


@pytest.mark.parametrize('command', [
    'check good.csv --columns source=none', 'score labels --data good.csv --predictions good.csv --columns gold=none',
    'score labels --data good.csv --predictions good.csv --cluster none', 'compare good.csv more.csv --cluster none',
    'compare good.csv more.csv --columns predicted=none', 'judge good.csv --labels good.csv --drawn stratified:none',
    'check good.csv --verifier none', 'verify Words. --corpus sample --verifier none', 'reproduce final/table4 --model none',
    'facts --judges none', 'probe injection --judge none', 'final candidates made --models none', 'models get none', 'data get none',
    'build oasis --texts . --model none --out made', 'reproduce none', 'runs show none', 'lab none', 'export none --to csv --out made.csv',
    'oasis forms --data none --annotators ann --out made', 'check good.pdf'])
def test_words_that_do_not_fit_end_with_2(capsys, faulty, command):
    for name in ('more.csv', 'good.pdf'): (faulty/name).write_text(ROWS)
    code, output, errors = say(capsys, *command.split())
    assert (code, output) == (2, '') and errors.startswith('factlab: '), errors


@pytest.mark.parametrize('command', [
    'list data --out good.csv/below.txt', 'published final/table4 --out folder.csv', 'prompts export final good.csv',
    'examples good.csv', 'export published --to csv --out folder.csv',
    'export published --to eee --out good.csv', 'export folder.csv --to csv --out made.csv'])
def test_what_cannot_be_written_ends_with_3(capsys, faulty, command):
    code, output, errors = say(capsys, *command.split())
    assert (code, output) == (3, '') and errors.startswith('factlab: '), errors
    assert (faulty/'good.csv').read_text() == ROWS


def test_a_run_whose_exhibit_fails_ends_with_3_and_the_help_says_so(capsys, faulty):
    code, _, errors = say(capsys, 'reproduce', 'oasis/table6', '--model', 'hf:nobody/nothing', '--limit', '1', '-p', 'runs=1', '--dry-run')
    assert code == 3 and 'nobody/nothing' in errors
    code, output, _ = say(capsys, '--help')
    assert code == 0 and 'exit codes: 0, done; 1, ' in output


@pytest.mark.parametrize('error', [RuntimeError('odd'), KeyError('odd'), RecursionError('odd')])
def test_what_nobody_foresaw_does_not_end_as_a_verdict(capsys, monkeypatch, error):
    def fails(*_): raise error
    monkeypatch.setattr('factlab.cli.main.run_given', fails)
    code, output, errors = say(capsys, 'list', 'data')
    assert (code, output) == (3, '') and 'Traceback' in errors and 'odd' in errors
