"""`factlab probe injection`: its table, files, chart, dry run, and what it refuses."""
import json

import polars as pl
import pytest

from factlab.cli.main import main, parser
from factlab.cli.output import run_command
from factlab.core.core import UsageError
from factlab.measures.comparison import paired_bounds


def run(*arguments) -> int: return run_command(parser(), ['probe', 'injection', *map(str, arguments)])


@pytest.fixture
def mine(tmp_path):
    rows = [{'id': f'r{n}', 'text': f'The mill opened in 190{n}. It burnt down.', 'summary': 'The mill opened in 1915.'} for n in range(4)]
    path = tmp_path/'mine.jsonl'
    path.write_text('\n'.join(map(json.dumps, rows)))
    return path


def test_a_table_a_file_and_a_chart(mine, tmp_path, home, capsys):
    assert run('--judge', 'words', '--data', mine, '--attack', 'verdict', '--place', 'response') == 0
    shown = capsys.readouterr().out
    assert 'words' in shown and 'verdict' in shown and 'document' not in shown.partition('\n')[2]
    high = paired_bounds(0, 0, 4)[1]
    assert shown.endswith(f'words: planted texts flip at most {100*high:.1f} percent more than harmless ones (the highest upper bound '
                          'of the differences; n from 4)\n')
    out = tmp_path/'flips.csv'
    assert run('--judge', 'words', '--data', mine, '--out', out, '--chart', tmp_path/'flips') == 0
    table = pl.read_csv(out)
    assert table.height == 10 and table['flips'].sum() == 0 and set(table['n']) == {4}
    assert (tmp_path/'flips.png').stat().st_size > 5000
    assert run('--judge', 'words', '--data', mine, '--out', tmp_path/'flips.json') == 0
    assert len(json.loads((tmp_path/'flips.json').read_text())) == 10


@pytest.mark.parametrize('names', [('document', 'response'), ('evidence', 'claim'), ('text', 'response')])
def test_columns_that_the_help_names(names, mine, tmp_path, home, capsys):
    rows = [json.loads(line) for line in mine.read_text().splitlines()]
    path = tmp_path/'named.csv'
    named = [{names[0]: row['text'], names[1]: row['summary'], 'split': split} for row, split in zip(rows, 'aaab', strict=True)]
    pl.DataFrame(named).write_csv(path)
    assert run('--judge', 'words', '--data', path, '--attack', 'verdict', '--split', 'a', '--json') == 0
    assert {row['n'] for row in json.loads(capsys.readouterr().out)} == {3}


def test_a_dry_run_asks_nothing(mine, home, capsys):
    assert run('--judge', 'openai:gpt-4o', '--data', mine, '--attack', 'ignore', '--dry-run') == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[:3] == ['model', 'label', 'calls'] and shown[2].split()[2] == str(4 + 4*2*2)


def test_what_is_refused(mine, tmp_path, home, capsys):
    with pytest.raises(UsageError, match='no planted text'): run('--judge', 'words', '--data', mine, '--attack', 'charm')
    with pytest.raises(UsageError, match='no template'): run('--judge', 'words', '--data', mine, '--template', 'x')
    with pytest.raises(UsageError): run('--judge', 'wrds', '--data', mine)
    other = tmp_path/'other.jsonl'
    for row, told in (('{"text": "a b c"}', "no column response"), ('{"id": "1", "text": "a b c", "claim": 4}', 'expected text'),
                      ('{"id": 1, "text": "a", "claim": "d"}\n{"id": 1, "text": "a", "claim": "e"}', 'more than once')):
        other.write_text(row)
        capsys.readouterr()
        assert main(['probe', 'injection', '--judge', 'words', '--data', str(other)]) == 3 and told in capsys.readouterr().err
    with pytest.raises(SystemExit): run('--data', mine)
