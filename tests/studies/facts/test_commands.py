"""`factlab facts`: what it prints on the sample, of a user's file, and what it refuses."""
import json
import re

import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer
from sklearn import metrics

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.core.core import DataError, UsageError
from factlab.data.datasets import load
from factlab.runs.plan import execute
from factlab.runs.runs import load_run
from factlab.studies.facts.study import judgements, leaderboard_plan, people_of
from factlab.verification.check_runs import read_check
from factlab.verification.checking import UNITS
from factlab.verification.named_verifiers import load_verifier


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


@pytest.fixture
def by_words(monkeypatch):
    "Sentences are held against documents by words, not by the trained verifier."
    monkeypatch.setattr('factlab.verification.check_runs.load_verifier', lambda name: load_verifier('cosine'))


def test_a_file_of_ones_own(tmp_path, capsys, by_words):
    document = 'The mill opened in 1901. It has two stones and a wooden wheel.'
    rows = [{'request_id': request, 'responder': name, 'document': document, 'request': 'When did it open?', 'response': text}
            for request, name, text in (('a', 'mine', 'The mill opened in 1901.'), ('b', 'mine', ''), ('a', 'copier', document))]
    (tmp_path/'mine.jsonl').write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
    assert run('--responses', tmp_path/'mine.jsonl', '--no-baselines') == 0
    shown = capsys.readouterr().out
    for status in ('empty', 'the document itself', 'missing'): assert f'1 response cannot be judged ({status})' in shown
    sentences, board = shown.split(str(tmp_path))
    assert 'a/mine: UNDECIDED (1 supported)' in sentences and 'Verifier: cosine' in ' '.join(sentences.split())
    assert 'mine' in board and '50.0' in board
    run('--responses', tmp_path/'mine.jsonl', '--board', tmp_path/'board.csv')
    assert pl.read_csv(tmp_path/'board.csv').filter(pl.col('responder') == 'mine')['final'].item() == .5


def test_sentences_stand_first_and_a_ranking_only_where_there_are_two(tmp_path, capsys, by_words):
    told = {'request_id': 'a', 'request': 'When?', 'document': 'Cafe\u0301 Noir opened. It closed.\n\nIt is old.'}
    rows = [told | {'responder': 'mine', 'response': 'The cafe\u0301 opened. It is red.'}]
    path = tmp_path/'mine.jsonl'
    def written(*rows) -> None: path.write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
    written(*rows)
    given = ['--responses', path, '--judges', 'words', '--eligibility', 'none']
    assert run(*given, '--out', tmp_path/'verdicts.jsonl') == 0
    shown = capsys.readouterr().out
    assert 'mine: ' in shown and 'over the best responder that reads nothing' in shown and 'rank_range' not in shown
    units = UNITS.check(pl.read_ndjson(tmp_path/'verdicts.jsonl').drop('text_verdict', 'text_reason'))
    assert [rows[0]['response'][start:end] for start, end in units.select('start', 'end').iter_rows()] == units['text'].to_list()
    seen = units.drop_nulls('evidence')
    places = seen.select('evidence_start', 'evidence_end').iter_rows()
    assert [told['document'][start:end] for start, end in places] == seen['evidence'].to_list() != []
    run_id = re.search(r'Kept as the run (\S+):', shown)[1]
    assert read_check(load_run(run_id)).units.equals(units)
    written(*rows, told | {'responder': 'other', 'response': None})
    assert run(*given, '--json') == 0
    found = json.loads(capsys.readouterr().out)
    assert [unit['id'] for unit in found['units']] == ['a/mine', 'a/mine']
    assert {row['responder'] for row in found['leaderboard']} >= {'mine', 'other'}
    assert run(*given) == 0 and 'rank_range' in capsys.readouterr().out
    written(told | {'responder': 'other', 'response': ''})
    assert run(*given) == 0 and capsys.readouterr().out.startswith('a/other: UNDECIDED (nothing to check): the text has no ')
    assert run(*given, '--out', tmp_path/'none.parquet') == 0 and pl.read_parquet(tmp_path/'none.parquet')['unit'].to_list() == [None]
    capsys.readouterr()
    assert run(*given, '--json') == 0 and json.loads(capsys.readouterr().out)['units'] == []
    given_one = told | {'responder': 'other', 'response': 'The mill is old.'}
    written(given_one, given_one | {'request_id': 'b'})
    with pytest.raises(UsageError, match='all of its responses are judged'): run(*given, '--limit', 1)
    written(given_one | {'responder': 'Baseline: mine'})
    with pytest.raises(DataError, match='names that begin with Baseline'): run(*given)
    written(given_one | {'responder': 'a\x1b[31m\u202eb\n'}, given_one)
    assert run(*given) == 0 and not {'\x1b', '\u202e'} & {*(shown := capsys.readouterr().out)} and 'a/ab: ' in shown
    with pytest.raises(UsageError, match='the name says the form'): run(*given, '--out', tmp_path/'board.pdf')
    assert run('--judges', 'words', '--limit', 1, '--json') == 0 and 'leaderboard' in json.loads(capsys.readouterr().out)


def test_a_dry_run_counts_what_is_then_sent(capsys):
    "Three responders and two judges."
    def served(call):
        if 'Instruction Following' in call.prompt: return answer('{"Instruction Following": "No Issues"}')
        return answer('Verdict: Accurate' if 'Verdict' in call.prompt else f'{call.body["model"]} says {call.number}.')
    with MisbehavingServer(served) as server:
        def named(*names): return [f'openai:{name}?base_url={server.url}' for name in names]
        given = ['--responders', *named('a', 'b', 'c'), '--judges', *named('j', 'k'), '--limit', 2]
        assert run(*given, '--dry-run') == 0 and not server.calls
        lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith('openai:')]
        assert run(*given) == 0
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


def labelled_file(path, name: str = 'accurate', **more) -> pl.DataFrame:
    "The sample's responses as a file of one's own, with what is known of them."
    rows = load('facts-sample').filter(split='test').head(24)
    rows = rows.select('id', 'document', 'request', 'response', request_id='document_id', responder='kind', **{name: 'accurate'})
    rows = rows.with_columns(**more)
    rows.write_ndjson(path)
    return rows


def test_labels_in_a_file_of_responses_are_what_judges_are_held_against(tmp_path, capsys, by_words):
    rows = labelled_file(tmp_path/'mine.jsonl')
    assert run('--responses', tmp_path/'mine.jsonl', '--judges', 'words', '--no-baselines', '--eligibility', 'none') == 0
    shown = capsys.readouterr().out
    how = {'judges': ['words'], 'baselines': False, 'eligibility': 'none', 'data': 'facts-sample'}
    plan = leaderboard_plan(responses=str(tmp_path/'mine.jsonl'), **how)
    told = judgements(plan, execute(plan)).join(people_of(plan), on='id', suffix='_people').filter(pl.col('status') != 'unanswered')
    truth, said = told['accurate_people'].to_list(), told['accurate'].to_list()
    assert f'words beside what people say of {len(truth)} responses' in shown and 12 < len(truth) <= rows.height
    for measure, found in (('agreement', metrics.accuracy_score(truth, said)), ('sensitivity', metrics.recall_score(truth, said)),
                           ('precision', metrics.precision_score(truth, said)), ("Cohen's κ", metrics.cohen_kappa_score(truth, said)),
                           ('specificity', metrics.recall_score(truth, said, pos_label=False)), ('f1', metrics.f1_score(truth, said))):
        line = next(line for line in shown.splitlines() if line.startswith(f'{measure} '))
        assert f'{found:.2f}' in line.replace('−', '-'), (measure, found, line)
    assert 'always accurate' in shown and 'by length alone' in shown and 'agrees more often than' in shown


def test_labels_of_some_responses_in_words_or_none(tmp_path, capsys, by_words):
    some = pl.when(pl.int_range(pl.len()) < 6).then(pl.when('gold').then(pl.lit('Grounded')).otherwise(pl.lit('not grounded')))
    labelled_file(tmp_path/'mine.jsonl', 'gold', gold=some)
    given = ['--judges', 'words', '--no-baselines', '--eligibility', 'none']
    assert run('--responses', tmp_path/'mine.jsonl', *given) == 0
    assert 'words beside what people say of ' in capsys.readouterr().out
    labelled_file(tmp_path/'mine.jsonl', accurate=pl.when(pl.int_range(pl.len()) < 1).then('accurate'))
    assert run('--responses', tmp_path/'mine.jsonl', *given) == 0 and 'two are needed to compare' in capsys.readouterr().out
    labelled_file(tmp_path/'mine.jsonl', accurate=pl.lit('perhaps'))
    with pytest.raises(DataError, match="accurate is 'perhaps', expected true or false"): run('--responses', tmp_path/'mine.jsonl', *given)
