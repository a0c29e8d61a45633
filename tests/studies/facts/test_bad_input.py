"""Bad input to `factlab facts` and to the response view, as a stranger would give it: each is named, counted, never scored as accurate."""
import json

import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer, status

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.data.datasets import load
from factlab.runs.plan import execute
from factlab.studies.facts.study import leaderboard_plan
from factlab.workbench.response_view import browse_responses, judged_plan
from factlab.workbench.table import select_rows

DOCUMENT = 'The mill opened in 1901. It has two stones and a wooden wheel. The owner sells flour on Mondays.'
REQUEST = 'When did the mill open?'
GOOD = 'The mill opened in 1901.'


def row(of: str = 'a', responder: str = 'mine', response: str|None = GOOD, **more) -> dict:
    return {'request_id': of, 'responder': responder, 'document': DOCUMENT, 'request': REQUEST, 'response': response} | more


@pytest.fixture
def facts(tmp_path, capsys):
    "What the command prints on rows of responses, and its table with all columns."
    def run(rows: list[dict], *arguments, judges: tuple = ('words',), eligibility: str = 'none') -> tuple[str, pl.DataFrame]:
        file = tmp_path/'answers.jsonl'
        file.write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
        given = ['facts', '--responses', file, '--no-baselines', '--judges', *judges, '--eligibility', eligibility, *arguments]
        assert run_command(parser(), [*map(str, given)]) == 0
        shown = capsys.readouterr().out
        assert run_command(parser(), [*map(str, given), '--board', str(tmp_path/'board.csv')]) == 0
        capsys.readouterr()
        return shown, pl.read_csv(tmp_path/'board.csv', schema_overrides={'final': pl.Float64})
    return run


def score(board: pl.DataFrame, responder: str = 'mine') -> float|None: return board.filter(pl.col('responder') == responder)['final'].item()


class Judges:
    "A server of judges that each have one bad habit."
    habits = {'yes': 'Verdict: Accurate', 'no': 'Verdict: Inaccurate', 'prose': 'What a lovely mill, I should like to visit it one day.',
              'silent': ''}

    def __enter__(self):
        self.server = MisbehavingServer(self.said).__enter__()
        return self

    def __exit__(self, *error): return self.server.__exit__(*error)

    def said(self, call):
        model = call.body['model']
        if model == 'small': return status(400, "This model's maximum context length is 8192 tokens", code='context_length_exceeded')
        return answer(call.prompt if model == 'echo' else self.habits[model])

    def name(self, model: str, more: str = '') -> str: return f'openai:{model}?base_url={self.server.url}{more}'


@pytest.mark.parametrize('response, said', [('', 'empty'), (' \n\t ', 'empty'), (DOCUMENT, 'the document itself'),
                                            (DOCUMENT.replace(' ', '  \n') + '\n', 'the document itself'), (None, 'missing')])
def test_a_response_without_an_answer_counts_as_inaccurate(facts, response, said):
    shown, board = facts([row(response=response), row('b')])
    assert f'1 response cannot be judged ({said}): it counts as inaccurate' in shown
    assert score(board) == .5 and board['unanswered'].item() == 1 and board['n'].item() == 2


def test_a_request_in_another_language_is_named_and_judged(facts):
    german = 'Wann wurde die Mühle eröffnet, und wie viele Steine hat die Mühle, die der Müller an dem Fluss gebaut hat?'
    shown, board = facts([row(request=german), row('b')], '--limit', 5)
    assert '1 row: the request: the text looks like German; the embedded parts know English only' in shown
    assert board['n'].item() == 2


def test_a_document_of_40k_tokens_for_a_model_of_8k(tmp_path, capsys):
    "It is refused by name before anything is asked, or cut where that was wanted; a judge that cannot read it gives no verdict."
    long = DOCUMENT + ' The wheel turns in the river all day and all night.'*4_000
    requests = [{'id': 'short', 'request': REQUEST, 'document': DOCUMENT}, {'id': 'long', 'request': REQUEST, 'document': long}]
    (tmp_path/'requests.jsonl').write_text('\n'.join(map(json.dumps, requests)), encoding='utf-8')
    def run(*arguments) -> str:
        given = ['facts', '--data', tmp_path/'requests.jsonl', '--no-baselines', '--eligibility', 'none', '--max-tokens', 64, *arguments]
        assert run_command(parser(), [*map(str, given)]) == 0
        return capsys.readouterr().out
    with Judges() as judges:
        Judges.habits['mill'] = GOOD
        model = judges.name('mill', '&context=8192')
        shown = run('--responders', model, '--judges', 'words')
        assert '1 response cannot be judged (too long a prompt): it counts as inaccurate' in shown and '50.0' in shown
        assert [len(call.prompt) < 1_000 for call in judges.server.calls] == [True]
        shown = run('--responders', model, '--judges', 'words', '--truncate')
        assert 'cannot be judged' not in shown and '100.0' in shown
        assert 1_000 < len(judges.server.calls[-1].prompt) < len(long)
        unread = run('--responders', model, '--truncate', '--judges', judges.name('small'))
        assert 'could not be read (failed): they are left out, and the bounds say what they may hide' in unread and 'no rank' in unread


def test_judges_that_disagree_on_everything_are_named(facts):
    with Judges() as judges:
        shown, board = facts([row(name) for name in 'abcd'], judges=(judges.name('yes'), judges.name('no')))
    assert 'agree on 0 of 4 verdicts' in shown and score(board) == .5
    assert 'agree on' not in facts([row(name) for name in 'abcd'])[0]


@pytest.mark.parametrize('habit', ['prose', 'echo', 'silent'])
@pytest.mark.parametrize('template', ['response', 'json', 'simpleqa', 'span', 'implicit_span'])
def test_a_judge_without_a_verdict_gives_none(facts, habit, template):
    "An answer in prose, the instructions repeated, nothing: unread, counted, never accurate; the bounds hold what it may hide."
    with Judges() as judges:
        shown, board = facts([row(), row('b')], '--templates', template, judges=(judges.name(habit),))
    assert '2 verdicts of' in shown and 'could not be read' in shown and 'no rank' in shown
    assert score(board) is None and board['unread'].item() == 2 and (board['lowest'].item(), board['highest'].item()) == (0, 1)


def test_a_judge_of_eligibility_without_a_verdict_disqualifies_nobody(facts):
    with Judges() as judges:
        shown, board = facts([row(), row('b')], judges=(judges.name('echo'),), eligibility='request')
    assert board['ineligible'].item() == 0 and score(board) is None and 'could not be read' in shown


def test_a_responder_that_judges_itself_is_named(tmp_path, capsys):
    with Judges() as judges:
        Judges.habits['vain'] = f'{GOOD}\nVerdict: Accurate'
        (tmp_path/'requests.jsonl').write_text(json.dumps({'id': 'a', 'request': REQUEST, 'document': DOCUMENT}), encoding='utf-8')
        name = judges.name('vain')
        given = ['--data', tmp_path/'requests.jsonl', '--responders', name, '--judges', name, 'words', '--eligibility', 'none']
        assert run_command(parser(), ['facts', *map(str, given)]) == 0
    assert f'{name} judged own answers: compare `self_preference`' in capsys.readouterr().out


def test_missing_rows_are_counted_for_who_left_them_out(tmp_path, capsys):
    first, second = load('facts-sample', split='test')['document_id'].unique(maintain_order=True)[:2]
    given = (('all', first), ('all', second), ('some', second))
    rows = [{'request_id': id, 'responder': name, 'response': 'It is so.'} for name, id in given]
    (tmp_path/'answers.jsonl').write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
    given = ['facts', '--responses', tmp_path/'answers.jsonl', '--limit', 2, '--judges', 'words', '--no-baselines']
    assert run_command(parser(), [*map(str, given)]) == 0
    assert '1 response cannot be judged (missing)' in capsys.readouterr().out
    run_command(parser(), [*map(str, given), '--board', str(tmp_path/'board.csv')])
    board = pl.read_csv(tmp_path/'board.csv')
    assert dict(board.select('responder', 'unanswered').rows()) == {'all': 0, 'some': 1} and board['n'].to_list() == [2, 2]


def test_the_response_view_shows_what_could_not_be_judged(tmp_path):
    "In the workbench: each such response has its reason, a judge without a verdict is unread, and none counts as accurate."
    rows = [row('a', response=''), row('b', response=DOCUMENT), row('c', response=None), row('d')]
    (tmp_path/'answers.jsonl').write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
    with Judges() as judges:
        plan = leaderboard_plan(responses=tmp_path/'answers.jsonl', judges=[judges.name(habit) for habit in ('yes', 'no', 'echo')],
                                eligibility='none', baselines=False)
        judged = judged_plan(plan, execute(plan))
        bench = browse_responses(judged, labels=tmp_path/'labels.jsonl', annotator='Ann', encoder=None)
    frame = bench.judged.frame
    assert dict(frame.select('request_id', 'status').rows()) == {'a': 'empty', 'b': 'copy', 'c': 'missing', 'd': 'ok'}
    assert dict(frame.select('request_id', 'accurate').rows()) == {'a': 0, 'b': 0, 'c': 0, 'd': 1}
    assert frame['unread'].to_list() == [3, 3, 3, 1]
    assert frame['reason'].to_list()[:3] == ['the response is empty', 'the response is the document', 'the file has null for the response']
    disputed = select_rows(bench.configuration.listing, 'judges disagree')
    assert frame['request_id'].gather(disputed.tolist()).to_list() == ['d']
