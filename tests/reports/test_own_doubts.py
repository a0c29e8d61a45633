"`factlab score --doubtful`: which labels are doubted, that people see nothing of it, and what their labels do to scores."
from collections import Counter
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from factlab.cli.main import main
from factlab.core.core import DataError, UsageError
from factlab.error_analysis.annotations import LabelFile, labels_frame
from factlab.error_analysis.queues import labels_beside, read_queue
from factlab.reports.own_doubts import (
    AGAINST,
    SPLIT,
    UNCLEAR,
    WITH,
    adjudicated_rows,
    doubted_rows,
    doubtful_queue,
    doubtful_report,
    drawn_beside,
    gains_of_random_rows,
    ruled,
    voted,
    votes_needed,
    weighted_draw,
)
from factlab.reports.own_scores import score_labels
from factlab.workbench import annotate_queue

FEW = {'resamples': 300}


def made(generator, n: int = 300, right=(.85, .8, .75), wrong: float = .1, classes=('no', 'yes')):
    "The truth, gold that is wrong in some rows, and systems that are right in some."
    truth = generator.integers(0, len(classes), n)
    def said(share: float) -> pl.Series:
        off = generator.integers(1, len(classes), n)
        return pl.Series([classes[at] for at in np.where(generator.random(n) < share, truth, (truth + off) % len(classes))])
    ids = [f'r{at}' for at in range(n)]
    gold = pl.DataFrame({'id': ids, 'gold': said(1 - wrong)})
    return {id: classes[at] for id, at in zip(ids, truth, strict=True)}, gold, {
        name: pl.DataFrame({'id': ids, 'predicted': said(share)}) for name, share in zip('ABCDE', right, strict=False)}


def looked_at(queue: pl.DataFrame, known: dict, path, people=('Ann', 'Bob')):
    path = labels_beside(path)
    LabelFile(path).add(labels_frame([item | {'label': known[item['row']], 'annotator': who, 'time': ''}
                                      for item in queue.to_dicts() for who in people]))
    return path


label = st.sampled_from(['a', 'b', 'c', None])


@settings(deadline=None)
@given(st.integers(2, 5).flatmap(lambda m: st.lists(st.tuples(st.sampled_from(['a', 'b']), *[label]*m), min_size=1, max_size=30)))
def test_rows_are_doubtful_where_more_than_half_agree_on_another_label(rows):
    patterns = pl.DataFrame(rows, schema=['gold', *(f'said {at}' for at in range(len(rows[0]) - 1))], orient='row')
    patterns = patterns.cast(pl.String)
    found = voted(patterns)
    for (gold, *said), agreed, votes, most in zip(rows, *found.iter_columns(), strict=True):
        counted = Counter(name for name in said if name is not None).most_common(1)
        name, number = counted[0] if counted else (None, 0)
        enough = number > len(said)/2 and number >= 2
        assert votes == number and agreed == (name if enough else None)
        assert most == (SPLIT if not enough else WITH if name == gold else AGAINST)


def test_scores_and_ranks_are_those_of_the_rows_that_stay():
    generator = np.random.default_rng(1)
    for classes in (('no', 'yes'), ('a', 'b', 'c')):
        _, gold, systems = made(generator, 200, classes=classes)
        systems['B'] = systems['B'].with_columns(predicted=pl.when(pl.int_range(pl.len()) % 17 > 0).then('predicted'))
        for metric, score in (('balanced accuracy', metrics.balanced_accuracy_score), ('accuracy', metrics.accuracy_score)):
            report = doubtful_report(doubted_rows(gold, systems, metric=metric), **FEW)
            said = {name: frame['predicted'].fill_null('?').to_list() for name, frame in systems.items()}
            votes = [Counter(each).most_common(1)[0] for each in zip(*said.values(), strict=True)]
            stays = [not (n >= 2 and name not in (truth, '?')) for (name, n), truth in zip(votes, gold['gold'], strict=True)]
            table = report.tables['without the doubtful rows'].filter(pl.col('system').is_in([*systems]))
            before = [score(gold['gold'], each) for each in said.values()]
            after = [score([t for t, s in zip(gold['gold'], stays, strict=True) if s], [p for p, s in zip(each, stays, strict=True) if s])
                     for each in said.values()]
            assert table['gold'].to_list() == pytest.approx(before) and table['without'].to_list() == pytest.approx(after)
            assert table['gain'].to_list() == pytest.approx(np.subtract(after, before))
            assert table['rank_without'].to_list() == [1 + sum(other > one for other in after) for one in after]
            differences = report.tables['differences']
            for row in differences.to_dicts():
                first, second = ('ABC'.index(row[name]) for name in ('first', 'second'))
                assert row['without'] == pytest.approx(after[first] - after[second])
            shown = score_labels(gold, systems, metric=metric, resamples=300).tables['scores']
            assert table['gold'].to_list() == pytest.approx(shown[metric.replace(' ', '_')][:3].to_list())
            assert report.tables['rows']['rows'].sum() == 200 and report.tables['rows']['rows'][0] == stays.count(False)


def test_the_rule_on_answers_that_know_nothing_by_brute_force():
    _, gold, systems = made(np.random.default_rng(2), 150)
    doubts = doubted_rows(gold, systems, metric='accuracy')
    dealt = pl.DataFrame([doubts.gold, *(frame['predicted'].shuffle(7).alias(f'said {at}') for at, frame in
        enumerate(systems.values()))])
    left, (before, after, as_many) = ruled(dealt, doubts.found, 20)
    against = np.array([Counter(said).most_common(1)[0][0] != truth for truth, *said in dealt.rows()])
    assert left == against.sum() > 20
    for at, said in enumerate(dealt.columns[1:]):
        def score(weights, said=said): return metrics.accuracy_score(dealt['gold'], dealt[said], sample_weight=weights)
        assert (before[at], after[at]) == pytest.approx((score(None), score((~against).astype(float))))
        assert as_many[at] == pytest.approx(score(1 - against*20/left))
    copied = pl.DataFrame([doubts.gold, *(dealt['said 0'].alias(f'said {at}') for at in range(3))])
    assert ruled(copied, doubts.found, 20)[1][1, :3].tolist() == [1, 1, 1]  # one coin, three times: without a mistake


def test_random_rows_gain_nothing_and_answers_dealt_at_random_do():
    _, gold, systems = made(np.random.default_rng(3), 400)
    doubts = doubted_rows(gold, systems)
    random, moved = gains_of_random_rows(doubts)
    assert random['random_rows'].abs().max() < .003 and (random['random_rows_low'][:3] < 0).all() and 0 <= moved <= 1
    report = doubtful_report(doubts, **FEW)
    scores, rulers = report.tables['without the doubtful rows'].head(3), report.tables['what the same rule does to']
    assert (scores['dealt_answers_low'] > .02).all() and (scores['gain'] > scores['random_rows_high']).all()
    assert rulers['answers'].to_list() == ['these answers, dealt to rows at random', '3 times always ' + report.tables[
        'without the doubtful rows']['system'][3].removeprefix('always '), 'one coin, 3 times', '3 coins']
    assert rulers.filter(answers='one coin, 3 times')['without'].to_list() == [1] and (rulers['gain'].drop_nulls() > .2).all()
    assert 'flatters these systems' in report.text() and 'random rows' in report.text().replace('_', ' ')


def test_by_the_draw_is_the_score_by_the_truth_and_to_leave_out_or_mend_alone_is_not(tmp_path):
    generator, off, covered, times = np.random.default_rng(4), [], 0, 60
    for at in range(times):
        known, gold, systems = made(generator, 400, wrong=.25)
        doubts = doubted_rows(gold, systems, metric='accuracy')
        queue = doubtful_queue(doubts, 'gold', 400, seed=at)
        path = looked_at(queue, known, tmp_path/f'{at}.jsonl', ['Ann'])
        people = adjudicated_rows(doubts, [path])
        _, units, drawn = weighted_draw(doubts, people, 400, at)
        truth = np.mean([known[id] == said for id, said in systems['A'].iter_rows()])
        by_draw, (low, high) = doubts.found.statistic(units.totals)[0], np.quantile(drawn[:, 0], [.025, .975])
        mended = people.rows['label'].fill_null(doubts.gold)
        without = systems['A'].filter(doubts.rows['most'] != AGAINST).join(gold, on='id')
        off.append([by_draw - truth, (systems['A']['predicted'] == mended).mean() - truth, (without['predicted'] == without['gold']).mean()
                    - truth])
        covered += low <= truth <= high
    mean, error = np.mean(off, 0), np.std(off, 0)/np.sqrt(times)
    assert abs(mean[0]) < 3*error[0] and covered/times > .9, (mean, covered)
    assert mean[1] > 3*error[1] and mean[2] > 5*error[2], mean


def test_a_whole_draw_gives_the_score_by_peoples_labels(tmp_path):
    known, gold, systems = made(np.random.default_rng(5), 120)
    doubts = doubted_rows(gold, systems)
    queue = doubtful_queue(doubts, 'gold')
    every = doubts.rows.select(source=pl.lit('gold'), row='id', unit=pl.lit('row'), kind=pl.lit('row'), text='id',
                               scheme=pl.lit('doubtful labels'))
    people = adjudicated_rows(doubts, [looked_at(every, known, tmp_path/'all.jsonl')])
    found = doubts.found.statistic(weighted_draw(doubts, people, 200).units.totals)
    for at, frame in enumerate(systems.values()):
        assert found[at] == pytest.approx(metrics.balanced_accuracy_score([known[id] for id in frame['id']], frame['predicted']))
    some = adjudicated_rows(doubts, [looked_at(queue.head(5), known, tmp_path/'some.jsonl')])
    assert weighted_draw(doubts, some) is None
    assert 'doubtful rows have no label yet' in doubtful_report(doubts, some, **FEW).text()


@pytest.mark.parametrize('few', [True, False])
def test_a_score_by_few_labels_lies_between_0_and_1_or_is_not_told(tmp_path, few):
    told = 0
    for at in range(8):
        known, gold, systems = made(np.random.default_rng(at), 600, right=(.95, .95, .9), wrong=.01 if few else .25)
        doubts = doubted_rows(gold, systems, metric='balanced accuracy')
        queue = doubtful_queue(doubts, 'gold', 600, seed=at)
        said = {'yes': 'no', 'no': 'yes'}
        if few: known |= {id: said[label] for id, label in known.items() if int(id[1:]) % 3 == 0}  # people who differ from gold
        people = adjudicated_rows(doubts, [looked_at(queue, known, tmp_path/f'{at}.jsonl', ['Ann'])])
        report = doubtful_report(doubts, people, **FEW)
        shown = report.tables['by labels of people']
        if 'by_the_draw' not in shown.columns: assert 'have labels for a score by the draw' in report.text()
        else:
            told += 1
            assert shown.select(pl.col('^by_the_draw.*$').drop_nulls().is_between(0, 1).all()).row(0) == (True,)*3
    assert told < 8 if few else told == 8


def test_two_people_in_the_workbench_see_neither_gold_nor_systems(tmp_path, capsys):
    known, gold, systems = made(np.random.default_rng(6), 90)
    gold = gold.with_columns(claim=pl.format('Claim {}.', 'id'), evidence=pl.lit('It is so.'), error_type=pl.lit('SECRET'))
    gold.rename({'gold': 'human'}).write_ndjson(tmp_path/'gold.jsonl')
    for name, frame in systems.items(): frame.with_columns(probability=.5 + pl.int_range(pl.len())/200).write_csv(tmp_path/f'{name}.csv')
    queue = tmp_path/'doubtful.jsonl'
    command = ['score', 'labels', '--data', str(tmp_path/'gold.jsonl'), '--predictions', *(str(tmp_path/f'{name}.csv') for name in systems),
               '--columns', 'gold=human', '--metric', 'accuracy']
    assert main([*command, '--doubtful', str(queue)]) == 0
    shown, (items, (scheme,), proposals) = capsys.readouterr().out, read_queue(queue)
    doubts = doubted_rows(gold, {name: frame.with_columns(probability=.5 + pl.int_range(pl.len())/200) for name, frame in systems.items()})
    doubtful = doubts.rows.filter(most=AGAINST)
    n = doubtful.height
    assert f'{n} doubtful rows, and {n} others between them (50 %)' in shown and 'without the doubtful rows' in shown
    assert proposals.is_empty() and items['kind'].unique().to_list() == items['unit'].unique().to_list() == ['row']
    assert [each.name for each in scheme.labels] == ['no', 'yes', UNCLEAR] and 'SECRET' not in queue.read_text()
    assert items['text'].to_list() == [f'Claim {id}.' for id in items['row']] and {*items['context']} == {'evidence: It is so.'}
    surest = doubtful.sort('votes', 'sure', descending=True, maintain_order=True)['id'].to_list()
    assert [id for id in items['row'] if id in surest] == surest and items['row'].to_list()[:n] != surest
    keys = {'no': '1', 'yes': '2'}
    for who in ('Ann', 'Bob'):
        bench = annotate_queue(queue, annotator=who)
        for at, id in enumerate(items['row']): bench.keyboard.value += '3' if who == 'Bob' and not at else keys[known[id]]
    assert main([*command, '--adjudicated', str(labels_beside(queue))]) == 0
    shown = capsys.readouterr().out
    agree = 1 - 1/(2*n)
    assert f'{agree:.2f}' in shown and 'by the draw' in shown.replace('_', ' ') and f'labels of Ann, Bob on {2*n} rows' in shown
    people = adjudicated_rows(doubts, [labels_beside(queue)])
    report = doubtful_report(doubts, people, **FEW)
    fell = sum(known[id] != label for id, label in doubtful.select('id', 'gold').iter_rows()) - (
        items['row'][0] in surest and known[items['row'][0]] != dict(gold.select('id', 'gold').iter_rows())[items['row'][0]])
    row = report.tables['rows'].row(0, named=True)
    assert row['looked'] == n and row['fell'] == fell and report.tables['rows']['undecided'].sum() == 1
    ann = [known[id] for id in items['row']]
    assert report.tables['people']['κ'][0] == pytest.approx(metrics.cohen_kappa_score(ann, [UNCLEAR, *ann[1:]]))
    assert report.tables['people']['n'].to_list() == [2*n, n, n]
    named = dict(gold.select('id', 'gold').iter_rows()) | {id: known[id] for id in items['row'][1:]}
    expected = [np.mean([named[id] == said for id, said in frame.iter_rows()]) for frame in systems.values()]
    report = doubtful_report(doubted_rows(gold, systems, metric='accuracy'), people, **FEW)
    assert report.tables['by labels of people']['adjudicated'].head(3).to_list() == pytest.approx(expected)


def test_claims_of_one_text_and_clusters(tmp_path):
    known, gold, systems = made(np.random.default_rng(7), 80)
    def by_claim(frame): return frame.with_columns(id=pl.format('t{}', pl.int_range(pl.len()) // 2), claim_id=pl.int_range(pl.len()) % 2)
    truth = dict(zip(by_claim(gold).select(pl.format('{} {}', 'id', 'claim_id')).to_series(), known.values(), strict=True))
    doubts = doubted_rows(by_claim(gold), {name: by_claim(frame) for name, frame in systems.items()}, 'verdicts')
    queue = doubtful_queue(doubts, 'gold')
    assert {*queue['unit']} == {'0', '1'} and not queue.select('row', 'unit').is_duplicated().any()
    items = [item | {'label': truth[f'{item["row"]} {item["unit"]}'], 'annotator': who, 'time': ''}
             for item in queue.to_dicts() for who in 'ab']
    LabelFile(tmp_path/'labels.jsonl').add(labels_frame(items))
    people = adjudicated_rows(doubts, [tmp_path/'labels.jsonl'])
    assert people.rows['looked'].sum() == queue.height and (people.rows.filter('looked')['label'].is_not_null()).all()
    report = doubtful_report(doubts, people, cluster='id', **FEW)
    alone = doubtful_report(doubts, people, **FEW)
    assert report.tables['differences']['gold'].to_list() == alone.tables['differences']['gold'].to_list()
    assert report.tables['differences'].equals(alone.tables['differences']) and any('by text' in note for note in alone.notes)
    with pytest.raises(UsageError, match="no column 'topic'"): doubtful_report(doubts, cluster='topic')


def test_what_is_drawn_beside_is_of_both_kinds_and_as_many():
    _, gold, systems = made(np.random.default_rng(8), 400, right=(.8, .8, .7, .7))
    doubts = doubted_rows(gold, systems)
    kinds = dict(doubts.rows['most'].value_counts().iter_rows())
    rows = drawn_beside(doubts, 40, 1)
    assert rows.height == 40 and not (rows['most'] == AGAINST).any() and rows.equals(drawn_beside(doubts, 40, 1))
    share = kinds[SPLIT]/(kinds[SPLIT] + kinds[WITH])
    assert abs(rows.filter(most=SPLIT).height - 40*share) < 1
    assert drawn_beside(doubts, 1000).height == kinds[SPLIT] + kinds[WITH] and [votes_needed(n) for n in (2, 3, 4, 5, 6)] == [2, 2, 3, 3, 4]


def test_one_system_spans_foreign_labels_and_nothing_to_doubt(tmp_path, capsys):
    known, gold, systems = made(np.random.default_rng(9), 60)
    with pytest.raises(UsageError, match='two or more'): doubted_rows(gold, {'A': systems['A']})
    with pytest.raises(UsageError, match='labels, verdicts or sentences'): doubted_rows(gold, systems, 'spans')
    doubts = doubted_rows(gold, systems)
    queue = doubtful_queue(doubts, 'gold')
    other = {id.replace('r', 'x'): label for id, label in known.items()}
    strange = looked_at(queue.with_columns(row=pl.col('row').str.replace('r', 'x')), other, tmp_path/'strange.jsonl')
    with pytest.raises(DataError, match='of rows that gold lacks'): adjudicated_rows(doubts, [strange])
    wrong = looked_at(queue, dict.fromkeys(known, 'maybe'), tmp_path/'wrong.jsonl')
    with pytest.raises(DataError, match="none of no, yes, unclear, as 'maybe'"): adjudicated_rows(doubts, [wrong])
    scheme = looked_at(queue.with_columns(scheme=pl.lit('verdict')), known, tmp_path/'scheme.jsonl')
    with pytest.raises(DataError, match="no label is of the scheme 'doubtful labels'"): adjudicated_rows(doubts, [scheme])
    alone = doubtful_report(doubts, adjudicated_rows(doubts, [looked_at(queue, known, tmp_path/'alone.jsonl', ['Ann'])]), **FEW)
    assert alone.tables['people'].is_empty() and 'κ' not in alone.text()
    gold.write_csv(tmp_path/'gold.csv')
    for name in 'AB': gold.rename({'gold': 'predicted'}).write_csv(tmp_path/f'{name}.csv')
    command = ['score', 'labels', '--data', str(tmp_path/'gold.csv'), '--predictions', str(tmp_path/'A.csv'), str(tmp_path/'B.csv')]
    assert main([*command, '--doubtful', str(tmp_path/'none.jsonl')]) == 0
    assert 'no row is doubtful: no queue was written' in capsys.readouterr().out and not (tmp_path/'none.jsonl').exists()
    assert main(['score', 'spans', *command[2:], '--doubtful', str(tmp_path/'none.jsonl')]) == 2
    assert 'spans have no label to agree on' in capsys.readouterr().err
    for pair in combinations(systems, 2): assert doubted_rows(gold, {name: systems[name] for name in pair}).rows['votes'].max() == 2
