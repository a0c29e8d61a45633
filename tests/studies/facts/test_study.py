"""The study: who answers and judges, what a dry run counts, and that the sample's better responses come out better."""
import json
import os
from pathlib import Path

import polars as pl
import pytest

from factlab.core.core import UsageError
from factlab.grounding.embedded_judge import offline_encoder
from factlab.grounding.judges import TEMPLATES
from factlab.grounding.scores import EVERY_JUDGE
from factlab.models.interface import Request, Response, ScriptedModel
from factlab.studies.facts.study import (
    FactsStudy,
    all_judgements,
    development_of,
    estimate,
    gold,
    planted_order,
    template_scores,
    templates_of,
    without_errors,
)

LABELLED = ('grounded', 'evasive', 'refusal')


def knowing(name: str, share: float = 1.0) -> ScriptedModel:
    "A judge that knows the sample's labels, and is right about a share of the responses."
    from factlab.data.datasets import load
    known = {response: (accurate, eligible) for response, accurate, eligible in load('facts-sample').select('response', 'accurate',
        'eligible').iter_rows()}
    def answer(request: Request) -> str:
        text = request.messages[-1].content
        if 'Response:\n' not in text: return 'It is in the document.'
        shown = text.split('Response:\n', 1)[1].split('\n\n', 1)[0]
        accurate, eligible = known.get(shown, (False, False))
        if 'Instruction Following' in text: return json.dumps({'Instruction Following': 'No Issues' if eligible else 'Major Issue(s)'})
        right = sum(map(ord, shown)) % 100 < 100*share
        return f'Verdict: {"Accurate" if accurate == right else "Inaccurate"}'
    return ScriptedModel(name, answer, f'{name}{share}')


def study(**settings) -> FactsStudy:
    models = {each.name: each for each in (knowing('sage'), knowing('oracle', .9))}
    return FactsStudy(**({'store': False, 'judges': ['sage', 'oracle'], 'loaded': models} | settings))


def test_judges_that_know_find_the_planted_order():
    found = study()
    order = planted_order(found, resamples=500)
    clear = order.filter(pl.col('worse').is_in(['one_error', 'several_errors', 'evasive']) & (pl.col('better') == 'grounded'))
    assert clear.height == 3 and clear['clear'].all()
    board = found.leaderboard(resamples=500)
    assert board['responder'][0] == 'grounded' and board['rank'][0] == 1 and board['first'][0] > .9
    scores = found.scores(resamples=100).filter(pl.col('judge') == 'sage', pl.col('responder') == 'evasive')
    assert dict(scores.select('score', 'value').rows()) == {'unadjusted': 1, 'final': 0}
    assert board.filter(pl.col('status') == 'baseline')['final'].max() == 0


def test_one_template_is_chosen_for_each_judge():
    found = study(templates=['response', 'json'], limit=6, eligibility='none')
    assert all_judgements(found)['template'].n_unique() == 2
    chosen = template_scores(found).filter('chosen')
    assert chosen['template'].to_list() == ['response']*2 and found.judgements()['template'].unique().to_list() == ['response']
    assert found.used['chosen'] == {'oracle': 'response', 'sage': 'response'} and found.eligibilities() is None
    own = study(templates=['response', 'json'], limit=2, responders=['sage'], eligibility='none')  # without labels: the sample's
    assert own.judgements()['template'].unique().to_list() == ['response'] and gold(own) is None


def test_a_template_is_chosen_on_the_development_split_alone():
    "A judge that knows the test split alone must not be chosen for it."
    found = study(templates=['response', 'json'], limit=4, eligibility='none')
    assert set(found.judgements()['request_id']).isdisjoint(development_of(found).judgements()['request_id'])
    assert set(template_scores(found)['n']) == {gold(development_of(found)).height}


def test_a_judge_has_the_template_that_is_named_for_it():
    found = study(judges=['sage', 'words'], chosen={'sage': 'json', 'words': 'span'}, limit=2, eligibility='none')
    assert dict(found.judgements().select('judge', 'template').unique().rows()) == {'sage': 'json', 'words': 'words_by_sentences'}
    with pytest.raises(UsageError, match='who do not judge'): study(chosen={'other': 'json'})
    with pytest.raises(UsageError, match="no template 'json'"): study(judges=['words'], chosen={'words': 'json'}).judgements()


def test_every_split_is_a_ranking_of_its_own():
    found = study(split='all', judges=['oracle', 'words'], eligibility='none')
    scores = found.scores(resamples=50).filter(pl.col('responder') == 'grounded')
    assert scores['judge'].to_list() == ['test oracle', 'test words', 'dev oracle', 'dev words', EVERY_JUDGE]
    each = [FactsStudy(judges=['words'], eligibility='none', split=split).scores(resamples=50) for split in ('test', 'dev')]
    apart = [frame.filter(judge='words', responder='grounded')['value'].item() for frame in each]
    assert scores.filter(pl.col('judge').str.ends_with('words'))['value'].to_list() == apart
    assert abs(scores['value'][:-1].mean() - scores['value'][-1]) < 1e-12
    with pytest.raises(UsageError, match='no split'): study(split='open').leaderboard()


def test_errors_counted_on_one_split_are_taken_back_on_another():
    corrected = without_errors(study(judges=['oracle']), study(judges=['oracle'], split='dev'))
    assert corrected.filter(pl.col('responder') == 'grounded')['corrected'].item() > .9


def test_models_answer_and_judge_themselves():
    def answer(request: Request) -> str|Response:
        if 'Instruction Following' in request.messages[-1].content: return '{"Instruction Following": "No Issues"}'
        if 'Verdict' in request.messages[-1].content: return 'Verdict: Accurate'
        return 'It says so.' if len(request.messages[-1].content) % 2 else Response.failed('down')
    both = {name: ScriptedModel(name, answer, name) for name in ('one', 'two')}
    found = FactsStudy(responders=['one', 'two'], judges=['one', 'two'], limit=5, store=False, loaded=both)
    failed = found.responses().filter(pl.col('status') == 'failed').height
    scores = found.scores(resamples=50)
    assert gold(found) is None and failed == found.used['failed'] and scores.filter('own').height == 4
    one = scores.row(by_predicate=(pl.col('responder') == 'one') & (pl.col('judge') == EVERY_JUDGE) & (pl.col('score') == 'final'),
        named=True)
    assert one['value'] == pytest.approx(1 - failed/10) and one['unanswered'] == failed/2
    assert set(found.manifest()) >= {'parameters', 'data', 'models', 'prompts'} and 'store' not in json.dumps(found.manifest())


PAPER_ANSWERS = {  # by the authors' names of their templates, each in the form that it asks for
    'response_level': 'All of it is there.\nAccurate', 'span_level': 'Accurate',
    'json': '{"sentence": "S.", "label": "supported", "excerpt": "E."}',
    'implicit_span_level': 'Sentence 1: S.\nSentence 1 label: Inaccurate\nFinal Answer: Inaccurate',
    'json_alt': '{"sentence": "S.", "label": "contradictory", "excerpt": "E."}', 'json_with_double_check': 'NO', 'simpleqa': 'A',
    'ineligible_responses_filter_no_context': '{"Instruction Following": "Major Issue(s)"}'}


def test_the_authors_templates_through_the_study():
    "All seven, and eligibility, in the published wording; the double check takes back what the first asking supported."
    path = Path(os.environ.get('FACTLAB_DATA', 'nowhere'))/'facts'/'evaluation_prompts.csv'
    if not path.is_file(): pytest.skip(f'the published templates are not at hand: {path}')
    model = ScriptedModel('script', lambda request: PAPER_ANSWERS[request.label.partition('/')[2]], 'paper')
    found = FactsStudy(prompts='paper', judges=['script'], templates=list(TEMPLATES), limit=2, store=False, loaded={'script': model},
                       baselines=False)
    judged = all_judgements(found)
    assert (judged['status'] == 'ok').all() and judged['template'].n_unique() == len(TEMPLATES) == 7
    said = dict(judged.group_by('template').agg(pl.col('accurate').unique().sort()).rows())
    assert said == {'response_paper': [True], 'span_paper': [True], 'implicit_span_paper': [False], 'json_paper': [True],
                    'json_alt_paper': [False], 'json_double_check_paper': [False], 'simpleqa': [True]}
    verdicts = found.eligibilities()
    assert verdicts['template'].unique().to_list() == ['eligible_by_request_paper'] and not verdicts['eligible'].any()
    sources = {name.partition('/')[2].partition('@')[0]: each['source'] for name, each in found.manifest()['prompts'].items()}
    assert sources and {source for name, source in sources.items() if not name.startswith('simpleqa')} == {'paper'}, sources


def test_a_dry_run_asks_nothing():
    model = knowing('sage')
    found = FactsStudy(responders=['sage'], judges=['sage', 'embedded'], limit=3, store=False, loaded={'sage': model})
    told = estimate(found)
    assert not model.asked and told.filter(pl.col('label') == 'grounding/respond')['calls'].item() == 3
    assert told['label'].n_unique() == 3


@pytest.mark.parametrize('settings', [{'split': 'blind'}, {'data': 'nothing'}, {'judges': ['none:x']}, {'limit': 0}, {'max_tokens': 0},
                                      {'responders': ['a'], 'responses_file': 'b'}, {'templates': []}, {'prompts': 'theirs'}])
def test_settings_that_do_not_fit(settings):
    with pytest.raises(UsageError): FactsStudy(**({'store': False} | settings)).judgements()


def test_the_quick_judge_judges_a_file_with_the_eligibility_of_the_embedded_one(tmp_path):
    mill = 'The mill opened in 1901. A flood took its wheel in 1931. Since 1954 the parish has used the building as a library.'
    said = {'right': 'The mill opened in 1901. A flood took its wheel.', 'wrong': 'It has been a library since 1945.'}
    lines = [{'request_id': 'm', 'responder': name, 'request': 'What became of the mill?', 'document': mill, 'response': text}
             for name, text in said.items()]
    (tmp_path/'own.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    boards = [FactsStudy(responses_file=tmp_path/'own.jsonl', judges=[name], baselines=False) for name in ('quick', 'embedded')]
    told = [each.judgements().select('id', 'accurate') for each in boards]
    assert told[0].equals(told[1]) and dict(told[0].iter_rows()) == {'m/right': True, 'm/wrong': False}
    eligible = [each.eligibilities().drop('judge') for each in boards]
    assert eligible[0].equals(eligible[1])
    offline = boards[0].manifest()['offline']
    assert list(offline) == ['quick', 'quick, eligibility'] and offline['quick'].keys() == {'fitted_on', 'verifier', 'encoder'}
    assert offline['quick, eligibility']['encoder'] == offline_encoder().identity
    counted = FactsStudy(responses_file=tmp_path/'own.jsonl', judges=['words'], eligibility='none', baselines=False)
    assert counted.judgements().height == 2 and counted.manifest()['offline']['words'].keys() == {'fitted_on'}
    assert [templates_of(FactsStudy(judges=['quick'], templates=[name]), 'quick') for name in ('json', 'span')] == [['response'], ['span']]
