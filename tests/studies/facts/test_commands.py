"""`factlab facts`: what it prints on the sample, of a user's file, and what it refuses."""
import json

import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.core.core import DataError, UsageError


def run(*arguments) -> int: return run_command(parser(), ['facts', *map(str, arguments)])


def test_the_demonstration_prints_the_planted_order(capsys):
    assert run('--limit', 1) == 0
    shown = capsys.readouterr().out
    assert 'grounded' in shown and 'Planted order by the unadjusted score' in shown and 'Planted order by the final score' in shown
    assert shown.count('by counting sentences and words: ') == 2


def test_what_can_be_had_by_counting_and_who_has_no_rank_is_said(capsys):
    assert run('--judges', 'words') == 0
    shown = capsys.readouterr().out
    assert '(by counting sentences and words: 6 of 6 are found, ' in shown
    assert 'no rank for copying, refusal: they lack requests' in shown


def test_a_file_of_ones_own(tmp_path, capsys):
    document = 'The mill opened in 1901. It has two stones and a wooden wheel.'
    rows = [{'request_id': request, 'responder': name, 'document': document, 'request': 'When did it open?', 'response': text}
            for request, name, text in (('a', 'mine', 'The mill opened in 1901.'), ('b', 'mine', ''), ('a', 'copier', document))]
    (tmp_path/'mine.jsonl').write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
    assert run('--responses', tmp_path/'mine.jsonl', '--no-baselines') == 0
    shown = capsys.readouterr().out
    for status in ('empty', 'the document itself', 'missing'): assert f'1 response cannot be judged ({status})' in shown
    assert shown.startswith(str(tmp_path)) and 'mine' in shown and '50.0' in shown
    run('--responses', tmp_path/'mine.jsonl', '--out', tmp_path/'board.csv')
    assert pl.read_csv(tmp_path/'board.csv').filter(pl.col('responder') == 'mine')['final'].item() == .5


def test_a_dry_run_counts_what_is_then_sent(capsys):
    "Three responders, two judges, and the judges' errors counted on the sample."
    def served(call):
        if 'Instruction Following' in call.prompt: return answer('{"Instruction Following": "No Issues"}')
        return answer('Verdict: Accurate' if 'Verdict' in call.prompt else f'{call.body["model"]} says {call.number}.')
    with MisbehavingServer(served) as server:
        def named(*names): return [f'openai:{name}?base_url={server.url}' for name in names]
        given = ['--responders', *named('a', 'b', 'c'), '--judges', *named('j', 'k'), '--limit', 2, '--corrected']
        assert run(*given, '--dry-run') == 0 and not server.calls
        lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith('openai:')]
        assert run(*given) == 0 and 'corrected for each judge' in capsys.readouterr().out
        assert sum(int(line[2]) for line in lines) == len(server.calls)
    assert {line[1] for line in lines} == {'grounding/respond', 'grounding/response', 'grounding/eligible_by_request'}


def test_what_it_refuses(tmp_path):
    (tmp_path/'half.jsonl').write_text('{"request_id": "a", "resp', encoding='utf-8')
    with pytest.raises(DataError, match='line 1 is not whole JSON'): run('--responses', tmp_path/'half.jsonl')
    with pytest.raises(DataError, match='no file'): run('--responses', tmp_path/'none.jsonl')
    with pytest.raises(UsageError): run('--judges', 'nobody', '--limit', 1)
    with pytest.raises(UsageError): run('--templates', 'poem')
    with pytest.raises(UsageError, match='names none of them'): run('--judges', 'tiny', '--templates', 'paper', '--limit', 1)
    with pytest.raises(UsageError, match='chosen_eligibility.*expected JUDGE=PROMPT'): run('--chosen-eligibility', 'x')
    with pytest.raises(UsageError, match='there is no folder'): run('--prompts', tmp_path/'none')
    with pytest.raises(UsageError, match='temperature'): run('--temperature', -1)


def test_judges_of_the_paper_are_asked_with_its_choice(capsys):
    "Both prompts of eligibility for one of them by hand; a dry run sends nothing."
    with MisbehavingServer(lambda call: answer('?')) as server:
        judges = [f'openai:{name}?base_url={server.url}' for name in ('gpt-4o', 'claude-3-5-sonnet')]
        given = ['--judges', *judges, '--templates', 'paper', '--eligibility', 'paper', '--limit', 1,
                 '--chosen-eligibility', f'{judges[0]}=request_and_document', '--no-baselines', '--judge-tokens', 99, '--retry']
        assert run(*given, '--dry-run') == 0 and not server.calls
        asked = {line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith('openai:')}
        assert run(*given, '--temperature', '.5') == 0 and {call.body['temperature'] for call in server.calls} == {.5}
    assert asked == {'grounding/json', 'grounding/implicit_span', 'grounding/eligible_by_document', 'grounding/eligible_by_request'}
    assert {call.body.get('max_tokens') or call.body.get('max_completion_tokens') for call in server.calls} == {99}


def test_a_file_that_cannot_be_read_is_said_to_be_so_once(tmp_path):
    (tmp_path/'mine.jsonl').write_text('{"request_id": "a", "responder"\n', encoding='utf-8')
    with pytest.raises(DataError) as refused: run('--responses', tmp_path/'mine.jsonl', '--no-baselines')
    assert str(refused.value).count('line 1 is not whole JSON') == 1 and 'Without the data set' not in str(refused.value)
