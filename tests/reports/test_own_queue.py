"`factlab judge --queue`: what is drawn, what is shown, and that labels of the draw correct the score while disagreements do not."
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports.test_own_judge import FEW, judged_files, values
from sklearn import metrics

from factlab.cli.main import main
from factlab.core.core import DataError
from factlab.error_analysis.queues import labels_beside, read_queue
from factlab.reports.own_judge import agreement_table, judge_report, judged_rows, powered_share
from factlab.reports.own_queue import allocated, disagreements, drawn_rows, given_labels, judge_queue
from factlab.workbench import annotate_queue


@given(st.lists(st.tuples(st.integers(0, 400), st.floats(0, .5)), min_size=1, max_size=6), st.integers(0, 500))
def test_what_is_allocated_fits(strata, n):
    sizes, spreads = np.array([size for size, _ in strata]), np.array([spread for _, spread in strata])
    found = allocated(sizes, spreads, n, np.full(len(sizes), 2))
    assert (found <= sizes).all() and (found >= np.minimum(2, sizes)).all()
    assert found.sum() == min(max(n, np.minimum(2, sizes).sum()), sizes.sum())


def test_the_allocation_is_neymans_where_nothing_bounds_it():
    sizes, spreads = np.array([5000, 3000, 2000]), np.array([.5, .2, .4])
    assert allocated(sizes, spreads, 390, np.full(3, 2)).tolist() == [*np.round(390*sizes*spreads/(sizes*spreads).sum()).astype(int)]


def test_a_draw_adds_to_labels_that_were_drawn_and_else_stands_alone():
    verdicts, labels = judged_files(np.random.default_rng(0))
    draw = drawn_rows(judged_rows(verdicts, labels, drawn='random'), 40, seed=3)
    assert draw.adds and draw.rows.height == 40 and not {*draw.rows['id']} & {*labels['id']}
    assert draw.rows.equals(drawn_rows(judged_rows(verdicts, labels, drawn='random'), 40, seed=3).rows)
    alone = drawn_rows(judged_rows(verdicts, labels), 400)
    assert not alone.adds and alone.rows.height == 400 and {*labels['id']} <= {*alone.rows['id']}
    by_topic = verdicts.with_columns(topic=pl.Series(['rare']*3 + ['common']*397))
    few = drawn_rows(judged_rows(by_topic, labels), 20, 'topic')
    assert few.rows['topic'].value_counts().filter(topic='rare')['count'].to_list() == [2] and few.column == 'topic'


def test_disagreements_that_the_judge_is_surest_of_come_first():
    verdicts = pl.DataFrame({'id': list('abcde'), 'predicted': ['yes', 'yes', 'no', 'yes', None], 'probability': [.6, .9, .05, .8, None]})
    labels = pl.DataFrame({'id': list('abcde'), 'gold': ['no', 'no', 'yes', 'yes', 'yes']})
    assert disagreements(judged_rows(verdicts, labels), 9)['id'].to_list() == ['c', 'b', 'a']
    assert disagreements(judged_rows(verdicts, labels), 2)['id'].to_list() == ['c', 'b']


def test_a_person_is_shown_the_texts_and_not_what_the_judge_said_of_a_drawn_row(tmp_path):
    verdicts, labels = judged_files(np.random.default_rng(1))
    shown = verdicts.with_columns(claim=pl.format('Claim {}.', 'id'), evidence=pl.lit('It {says} so.'), reasoning=pl.lit('SECRET'))
    judged = judged_rows(shown, labels)
    queue = judge_queue(judged, drawn_rows(judged, 5), disagreements(judged, 5), 'mine')
    assert queue.group_by('kind', maintain_order=True).len().rows() == [('drawn', 5), ('disagreement', 5)]
    row = queue.row(0, named=True)
    assert row['text'] == f'Claim {row["row"]}.' and row['context'] == 'evidence: It {says} so.' and row['choices'] == ['no', 'yes']
    assert not row['proposed'] and {each['by'] for each in queue.row(9, named=True)['proposed']} == {'the judge', 'the labels'}


def truth_of(verdicts: pl.DataFrame, generator, right: float = .85) -> dict[str, str]:
    flipped = generator.random(verdicts.height) > right
    other = {'yes': 'no', 'no': 'yes'}
    said = verdicts.select('id', 'predicted').iter_rows()
    return {id: other[name] if flip else name for (id, name), flip in zip(said, flipped, strict=True)}


def test_the_labels_of_a_queue_are_one_sample_with_those_before(tmp_path, capsys):
    generator = np.random.default_rng(2)
    verdicts, _ = judged_files(generator, 300)
    truth = truth_of(verdicts, generator)
    first = pl.DataFrame({'id': verdicts['id'][:40], 'gold': [truth[id] for id in verdicts['id'][:40]]})
    verdicts = verdicts.sample(fraction=1, shuffle=True, seed=0)
    verdicts.write_ndjson(tmp_path/'verdicts.jsonl')
    first.write_csv(tmp_path/'labels.csv')
    queue, command = tmp_path/'next.jsonl', ['judge', str(tmp_path/'verdicts.jsonl'), '--labels', str(tmp_path/'labels.csv')]
    assert main([*command, '--drawn', 'random', '--queue', str(queue), '--queue-size', '30']) == 0
    shown = capsys.readouterr().out
    assert '30 rows drawn within predicted' in shown and f'--drawn stratified:predicted --labels LABELS {labels_beside(queue)}' in shown
    items = read_queue(queue)[0]
    bench, keys = annotate_queue(queue, annotator='Ann'), {'no': '1', 'yes': '2'}
    for id, kind in items.select('row', 'kind').iter_rows():  # on looking again, the judge was right
        bench.keyboard.value += keys[truth[id] if kind == 'drawn' else {'yes': 'no', 'no': 'yes'}[truth[id]]]
    assert main([*command, str(labels_beside(queue)), '--drawn', 'stratified:predicted']) == 0
    shown, again = capsys.readouterr().out, items.filter(kind='disagreement').height
    assert shown.startswith('70 labels on 300 verdicts')
    assert f'of {again} disagreements that people looked at again, they side with the judge in {again};' in shown
    both = pl.concat([first, pl.DataFrame([{'id': id, 'gold': truth[id]} for id in items.filter(kind='drawn')['row']])])
    assert shown.startswith(judge_report(verdicts, both, drawn='stratified:predicted').text().rstrip('\n'))
    judged = judged_rows(verdicts, both, drawn='stratified:predicted')
    rows, sizes = judged.labelled, dict(verdicts.group_by('predicted').len().iter_rows())
    labelled = dict(rows.group_by('predicted').len().iter_rows())
    weight = [sizes[said]/labelled[said] for said in rows['predicted']]
    found = values(agreement_table(judged, **FEW), 'measure', 'value')
    yes = [[each == 'yes' for each in rows[name]] for name in ('gold', 'said')]
    assert found['agreement'][0] == pytest.approx(metrics.accuracy_score(rows['gold'], rows['said'], sample_weight=weight))
    assert found['sensitivity'][0] == pytest.approx(metrics.recall_score(*yes, sample_weight=weight))
    assert found["Cohen's κ"][0] == pytest.approx(metrics.cohen_kappa_score(rows['gold'], rows['said'], sample_weight=weight))


def test_the_draw_covers_the_truth_and_disagreements_would_not():
    generator, covered, times = np.random.default_rng(0), {'drawn': 0, 'disagreements': 0}, 200
    for seed in range(times):
        verdicts, labels = judged_files(generator, 1500, 60)
        chances = np.where(verdicts['predicted'] == 'yes', .9*.6/.7, .1*.6/.3)  # by the rates that made the verdicts
        gold = verdicts.select('id', gold=pl.when(pl.Series(generator.random(1500) < chances)).then(pl.lit('yes')).otherwise(pl.lit('no')))
        known = gold.join(labels, on='id', how='semi')
        judged = judged_rows(verdicts, known, drawn='random')
        wrong = verdicts.join(gold, on='id').filter(pl.col('predicted') != pl.col('gold')).head(80)
        for name, rows in (('drawn', drawn_rows(judged, 80, seed=seed).rows), ('disagreements', wrong)):
            both = gold.join(pl.concat([known.select('id'), rows.select('id')]).unique(), on='id', how='semi')
            _, low, high, _ = powered_share(judged_rows(verdicts, both, drawn='stratified:predicted'))
            covered[name] += low <= .6 <= high
    assert covered['drawn']/times >= .91 and covered['disagreements']/times < .5, covered


def test_people_who_differ_and_files_that_do_not_fit(tmp_path, capsys):
    verdicts, labels = judged_files(np.random.default_rng(3))
    verdicts.write_csv(tmp_path/'verdicts.csv')
    labels.write_csv(tmp_path/'labels.csv')
    command = ['judge', str(tmp_path/'verdicts.csv'), '--labels']
    assert main([*command, str(tmp_path/'labels.csv'), '--queue', str(tmp_path/'q.jsonl'), '--queue-size', '4']) == 0
    shown = capsys.readouterr().out
    assert 'alone, since nobody says how the other labels were chosen' in shown and '4 rows drawn within predicted' in shown
    count = read_queue(tmp_path/'q.jsonl')[0].height
    for who, keys in (('Ann', '1'*count), ('Ben', '1' + '2'*(count - 1))):
        bench = annotate_queue(tmp_path/'q.jsonl', annotator=who)
        for key in keys: bench.keyboard.value += key
    said = given_labels([labels_beside(tmp_path/'q.jsonl')])
    assert said.labels['gold'].null_count() + said.again['gold'].null_count() == count - 1
    assert main([*command, str(tmp_path/'labels.csv'), str(tmp_path/'labels.csv')]) == 3
    assert 'ids come more than once' in capsys.readouterr().err
    with pytest.raises(DataError, match="no column 'gold'"): given_labels([tmp_path/'verdicts.csv'])
