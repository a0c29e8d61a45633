"""Scores against brute force and statsmodels, and what judges can do wrong: each counted, none of it taken for accurate."""
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from factlab.core.core import DataError, UsageError
from factlab.grounding.judge_quality import choose_templates, compare_judges, self_preference
from factlab.grounding.judges import TEMPLATES, EligibilityJudge, GroundingJudge
from factlab.grounding.responses import RESPONSES, check_responses, with_other_response
from factlab.grounding.scores import (
    ELIGIBILITIES,
    EVERY_JUDGE,
    JUDGEMENTS,
    eligibilities_of,
    eligibility_consensus,
    judgements_of,
    leaderboard,
    paper_half_width,
    score_responses,
)
from factlab.models.interface import Response, ScriptedModel

NO_SENTENCES = pl.lit([], JUDGEMENTS.columns['sentences'])


def verdicts(table: dict[str, dict[str, list[bool|None]]], column: str = 'accurate') -> pl.DataFrame:
    "Judgements from judge → responder → a verdict for each request; None: could not be read."
    rows = [{'id': f'{at}/{responder}', 'request_id': f'q{at}', 'responder': responder, 'judge': judge, 'template': 't', 'reason': '',
             column: said, 'status': 'unparsed' if said is None else 'ok'}
            for judge, by in table.items() for responder, all_said in by.items() for at, said in enumerate(all_said)]
    frame = pl.DataFrame(rows, schema_overrides={column: pl.Boolean})
    if column == 'accurate': return JUDGEMENTS.check(frame.with_columns(sentences=NO_SENTENCES))
    return ELIGIBILITIES.check(frame.with_columns(verdict=pl.lit('')))


def of(scores: pl.DataFrame, responder: str, judge: str = EVERY_JUDGE, score: str = 'unadjusted') -> dict:
    return scores.row(by_predicate=(pl.col('responder') == responder) & (pl.col('judge') == judge) & (pl.col('score') == score), named=True)


_SAID = st.sampled_from([True, False, None])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_scores_are_what_counting_gives(data):
    n, judges, responders = data.draw(st.integers(1, 5)), ['j', 'k'], ['x', 'y']
    said = {judge: {r: data.draw(st.lists(_SAID, min_size=n, max_size=n)) for r in responders} for judge in judges}
    may = {judge: {r: data.draw(st.lists(_SAID, min_size=n, max_size=n)) for r in responders} for judge in judges}
    scores = score_responses(verdicts(said), verdicts(may, 'eligible'), resamples=20)
    for r in responders:
        out = [all(may[j][r][at] is False for j in judges) for at in range(n)]
        by_judge = {'unadjusted': [], 'final': []}
        for j in judges:
            for score in by_judge:
                known = [False if score == 'final' and gone else v for v, gone in zip(said[j][r], out, strict=True)]
                read = [v for v in known if v is not None]
                row = of(scores, r, j, score)
                assert row['value'] == (pytest.approx(sum(read)/len(read)) if read else None)
                assert row['lowest'] == pytest.approx(sum(v is True for v in known)/n)
                assert row['highest'] == pytest.approx(sum(v is not False for v in known)/n)
                by_judge[score].append(row['value'])
            assert of(scores, r, j)['unread'] == said[j][r].count(None)
        for score, values in by_judge.items():
            assert of(scores, r, score=score)['value'] == (None if None in values else pytest.approx(np.mean(values)))
        assert of(scores, r)['ineligible'] == sum(out)
        assert of(scores, r)['undecided'] == sum(
            not gone and all(may[j][r][at] is not True for j in judges) and any(may[j][r][at] is False for j in judges)
            for at, gone in enumerate(out))


def test_the_papers_interval_is_the_normal_one():
    for hits, n in ((786, 860), (430, 859), (30, 70)):
        low, high = proportion_confint(hits, n, method='normal')
        assert float(paper_half_width(hits/n, n)) == pytest.approx((high - low)/2)
    assert np.isnan(paper_half_width(.5, 0))


def test_resampling_draws_requests_and_pairs_responders():
    generator = np.random.default_rng(0)
    said = {'j': {'x': (generator.random(200) < .6).tolist()}}
    said['j']['y'] = said['j']['x']
    board = leaderboard(verdicts(said | {'j': said['j'] | {'Baseline: none': [False]*200}}), resamples=4000)
    x = board.row(by_predicate=pl.col('responder') == 'x', named=True)
    low, high = proportion_confint(sum(said['j']['x']), 200, method='normal')
    assert x['low'] == pytest.approx(low, abs=.012) and x['high'] == pytest.approx(high, abs=.012)
    assert x['tied_with'] == 'y' and x['rank'] == 1 and x['rank_high'] == 1  # the same answers are level in every resample
    assert x['difference'] == pytest.approx(x['final']) and x['best_baseline'] == 'none' and x['common'] == 200


def brute_force_ranks(scores: np.ndarray) -> list[int]:
    "Ranks by majority, where it is an order without ties."
    wins = [[sum(a > b for a, b in zip(one, other, strict=True)) > len(one)/2 for other in scores] for one in scores]
    return [1 + sum(wins[k][i] for k in range(len(scores))) for i in range(len(scores))]


@pytest.mark.parametrize('judges', [1, 3, 5])
def test_the_fused_rank_with_any_number_of_judges(judges):
    generator = np.random.default_rng(judges)
    shares = [.9, .6, .3]
    said = {f'j{j}': {r: (generator.random(60) < share).tolist() for r, share in zip('xyz', shares, strict=True)} for j in range(judges)}
    board = leaderboard(verdicts(said), resamples=200).sort('responder')
    values = np.array([[np.mean(said[f'j{j}'][r]) for j in range(judges)] for r in 'xyz'])
    assert board['rank'].to_list() == brute_force_ranks(values) == [1, 2, 3] and board['tied_with'].to_list() == ['', '', '']


def test_a_circle_of_majorities_is_a_tie_with_names():
    table = {j: dict(zip(order, ([True]*3, [True]*2 + [False], [False]*3), strict=True)) for j,
        order in zip('jkl', ('xyz', 'yzx', 'zxy'), strict=True)}
    table = {j: {r: by[r] for r in 'xyz'} for j, by in table.items()}
    board = leaderboard(verdicts(table), resamples=50)
    assert board['rank'].to_list() == [1, 1, 1] and dict(board.select('responder', 'tied_with').rows())['x'] == 'y, z'


def test_ineligible_only_if_all_judges_say_so():
    for votes in itertools.product([True, False, None], repeat=3):
        found = eligibility_consensus(verdicts({f'j{at}': {'x': [vote]} for at, vote in enumerate(votes)}, 'eligible')).row(0, named=True)
        assert found['eligible'] == (votes != (False,)*3)
        assert found['undecided'] == (True not in votes and None in votes and False in votes)


# ---- bad input ---------------------------------------------------------------------------------------------------------------------

def responses(*texts: tuple[str, str], status: str = 'ok') -> pl.DataFrame:
    return check_responses(RESPONSES.frame([{'id': f'{at}', 'request_id': f'q{at}', 'responder': 'x', 'system': '', 'request': 'When?',
                                             'document': document, 'response': text, 'status': status, 'reason': ''}
                                            for at, (document, text) in enumerate(texts)]))


def judged(rows: pl.DataFrame, judge: ScriptedModel, template: str = 'response') -> pl.DataFrame:
    return judgements_of(rows, GroundingJudge(TEMPLATES[template]).predict(rows, judge, False), judge.name, template)


def test_what_cannot_be_judged_is_never_accurate_and_asks_nobody():
    judge = ScriptedModel('j', lambda request: 'Verdict: Accurate', '1')
    rows = responses(('The mill.', ''), ('The mill. It turns.', 'The  mill. It turns.'), ('The mill.', 'It is one.'))
    found = judged(rows, judge)
    assert found['status'].to_list() == ['unanswered', 'unanswered', 'ok'] and len(judge.asked) == 1
    assert found['accurate'].to_list() == [None, None, True] and 'copy' in found['reason'][1]
    row = of(score_responses(found, resamples=10), 'x')
    assert row['value'] == pytest.approx(1/3) == row['highest'] and row['unanswered'] == 2


def test_a_judge_that_fails_is_counted():
    rows = responses(('The mill.', 'It is one.'), ('Tea.', 'No.'))
    judge = ScriptedModel('j', lambda request: Response.failed('down') if 'Tea' in request.messages[-1].content else 'Verdict: Accurate',
        '1')
    row = of(score_responses(judged(rows, judge), resamples=10), 'x')
    assert row['value'] == 1 and row['lowest'] == .5 and row['unread'] == 1
    found = eligibilities_of(rows, EligibilityJudge().predict(with_other_response(rows), judge, False), 'j')
    assert found['status'].to_list() == ['unparsed', 'failed'] and eligibility_consensus(found)['eligible'].all()


def test_judges_that_disagree_on_everything():
    said = [True, False]*10
    found = compare_judges(verdicts({'j': {'x': said}, 'k': {'x': [not each for each in said]}}), resamples=100).row(0, named=True)
    assert found['agreement'] == 0 and found['kappa'] == pytest.approx(-1) and 'chance' in found['note']


def test_a_responder_as_its_own_judge_is_marked():
    table = {'x': {'x': [True]*10, 'y': [False, True]*5}, 'y': {'x': [False, True]*5, 'y': [True]*10}}
    scores = score_responses(verdicts(table), resamples=10)
    assert of(scores, 'x', 'x')['own'] and not of(scores, 'x', 'y')['own'] and not of(scores, 'x')['own']
    found = self_preference(verdicts(table), resamples=200)
    assert found['difference'].to_list() == [.5, .5, .5] and found['beyond_leniency'].to_list() == [1, 1, 1]
    with pytest.raises(UsageError, match='not among'): self_preference(verdicts(table), {'x': 'z'})
    with pytest.raises(UsageError, match='two judges'): self_preference(verdicts({'x': table['x']}))
    assert self_preference(verdicts({'j': table['x'], 'k': table['y']})).is_empty()


def test_what_cannot_be_scored_is_refused():
    good = verdicts({'j': {'x': [True, False]}, 'k': {'x': [True, True]}})
    for wrong, message in ((good.head(0), 'no verdicts'), (pl.concat([good, good]), 'two verdicts on'), (good.head(3), 'not every judge'),
                           (good.with_columns(status=pl.lit('unparsed')), 'does not fit'),
                           (good.with_columns(status=pl.lit('odd')), 'unknown statuses'),
                           (good.drop('reason'), 'missing')):
        with pytest.raises(DataError, match=message): score_responses(wrong, resamples=10)
    with pytest.raises(DataError, match='no verdict of eligibility'):
        score_responses(good, verdicts({'j': {'x': [True]}}, 'eligible'), resamples=10)
    may = verdicts({'j': {'x': [True, False]}}, 'eligible')
    with pytest.raises(DataError, match='two verdicts of eligibility'): score_responses(good, pl.concat([may, may]), resamples=10)


# ---- judges against labels ---------------------------------------------------------------------------------------------------------

def test_template_scores_are_those_of_scikit_learn():
    from sklearn.metrics import accuracy_score, f1_score
    generator = np.random.default_rng(3)
    truth = generator.random(80) < .7
    first, second = (np.where(generator.random(80) < right, truth, ~truth) for right in (.9, .6))
    both = pl.concat([verdicts({'j': {'x': said.tolist()}}).with_columns(template=pl.lit(name)) for name,
        said in (('a', first), ('b', second))])
    gold = pl.DataFrame({'id': [f'{at}/x' for at in range(80)], 'accurate': truth})
    found = choose_templates(both, gold, resamples=300)
    for row, said in zip(found.iter_rows(named=True), (first, second), strict=True):
        assert row['macro_f1'] == pytest.approx(f1_score(truth, said, average='macro'))
        assert row['accuracy'] == pytest.approx(accuracy_score(truth, said))
        assert row['fpr'] == pytest.approx(said[~truth].mean()) and row['fnr'] == pytest.approx((~said[truth]).mean())
        assert row['f1_positive'] == pytest.approx(f1_score(truth, said)) and row['f1_negative'] == pytest.approx(f1_score(~truth, ~said))
    assert found['chosen'].to_list() == [True, False]
    assert found['share_of_draws'].sum() == pytest.approx(1) and found['share_of_draws'][0] > .95
    same = choose_templates(both.with_columns(accurate=pl.lit(True)), gold, resamples=50)
    assert same['share_of_draws'].to_list() == [.5, .5]
    with pytest.raises(DataError, match='same responses'): choose_templates(both.head(100), gold)
    with pytest.raises(DataError, match='none of the labelled'): choose_templates(both, gold.with_columns(id=pl.lit('z')))


@pytest.mark.parametrize('value', [0.0, 1.0])
@pytest.mark.parametrize('requests', [2, 26, 860])
def test_a_score_without_spread_has_wilsons_interval(value, requests):
    import numpy as np

    from factlab.grounding.scores import _bounds
    from factlab.measures.stats import proportion_bounds
    low, high = proportion_bounds([round(value)*requests], [requests], .95)
    assert _bounds(np.full(9, value), value, requests, .95) == pytest.approx((low[0], high[0]), abs=1e-12)


def test_splits_weigh_the_same_and_a_request_without_one_is_named():
    responders = ['a', 'b']
    rows = [{'id': f'{request}/{name}', 'request_id': request, 'responder': name, 'judge': 'j', 'template': 't', 'status': 'ok',
             'reason': '', 'accurate': good if name == 'a' else not good, 'sentences': []}
            for name in responders for request, good in (('1', True), ('2', True), ('3', True), ('4', False))]
    judgements = JUDGEMENTS.frame(rows)
    splits = {'1': 'open', '2': 'open', '3': 'open', '4': 'blind'}
    scores = score_responses(judgements, splits=splits, resamples=50).filter(responder='a')
    assert dict(scores.select('judge', 'value').rows()) == {'open j': 1, 'blind j': 0, EVERY_JUDGE: .5}
    assert scores['n'].to_list() == [3, 1, 4]
    assert set(leaderboard(judgements, splits=splits, resamples=50)['rank']) == {1}  # each wins one ranking
    assert leaderboard(judgements, resamples=50)['responder'][0] == 'a'
    with pytest.raises(DataError, match='in no split'): score_responses(judgements, splits={'1': 'open'}, resamples=50)
