"`factlab judge`: its figures beside scikit-learn's, scipy's and statsmodels', its intervals' coverage, and what it refuses."
import json

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn import metrics
from statsmodels.stats.proportion import proportion_confint

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.core.core import DataError, UsageError
from factlab.measures.agreement import krippendorff_alpha
from factlab.reports.own_judge import (
    agreement_table,
    as_good_judges,
    calibration_table,
    corrected_table,
    effect_table,
    judge_report,
    judged_rows,
    labels_needed,
    order_by_probability,
    powered_share,
    rogan_gladen_share,
    trivial_judges,
    uneven_draw,
)
from factlab.reports.own_scores import score_labels

FEW = {'resamples': 300}


def judged_files(generator, n=400, labelled=80, share=.6, sensitivity=.9, specificity=.6) -> tuple[pl.DataFrame, pl.DataFrame]:
    truth = generator.random(n) < share
    said = generator.random(n) < np.where(truth, sensitivity, 1 - specificity)
    ids, names = [f'r{at}' for at in range(n)], np.array(['no', 'yes'])
    known = generator.choice(n, labelled, replace=False)
    labels = pl.DataFrame({'id': [ids[at] for at in known], 'gold': names[truth[known].astype(int)]})
    return pl.DataFrame({'id': ids, 'predicted': names[said.astype(int)]}), labels


def values(table: pl.DataFrame, *columns: str) -> dict: return {row[0]: row[1:] for row in table.select(*columns).rows()}


@pytest.mark.parametrize('seed', range(20))
def test_agreement_equals_other_libraries(seed):
    generator = np.random.default_rng(seed)
    verdicts, labels = judged_files(generator, 90, 60, *generator.uniform(.2, .9, 3))
    if seed % 4 == 0:
        verdicts = verdicts.with_columns(predicted=pl.when(pl.int_range(90) % 9 == 0).then(None).otherwise('predicted'))
    judged = judged_rows(verdicts, labels)
    gold, said = judged.labelled['gold'].to_list(), judged.labelled['said'].fill_null('unreadable').to_list()
    found = values(agreement_table(judged, **FEW), 'measure', 'value', 'value_low', 'value_high')
    assert found['agreement'][0] == pytest.approx(metrics.accuracy_score(gold, said))
    right = sum(a == b for a, b in zip(gold, said, strict=True))
    assert found['agreement'][1:] == pytest.approx(proportion_confint(right, 60, method='wilson'))
    assert found["Cohen's κ"][0] == pytest.approx(metrics.cohen_kappa_score(gold, said))
    both = pl.DataFrame({'item': [*range(60)]*2, 'annotator': ['a']*60 + ['b']*60, 'label': gold + said})
    assert found["Krippendorff's α"][0] == pytest.approx(krippendorff_alpha(both, resamples=2).estimate)
    yes = [name == 'yes' for name in said]
    truth = [name == 'yes' for name in gold]
    assert found['sensitivity'][0] == pytest.approx(metrics.recall_score(truth, yes))
    no = sum(g == s == 'no' for g, s in zip(gold, said, strict=True))
    assert found['specificity'][0] == pytest.approx(no/truth.count(False))
    assert found['precision'][0] == pytest.approx(metrics.precision_score(truth, yes))
    assert found['f1'][0] == pytest.approx(metrics.f1_score(truth, yes))


@pytest.mark.parametrize('seed', range(10))
def test_calibration_and_bias_equal_other_libraries(seed):
    generator = np.random.default_rng(seed)
    verdicts, labels = judged_files(generator)
    stated = np.clip((verdicts['predicted'] == 'yes').to_numpy()*.5 + generator.random(400)/2, 0, 1)
    verdicts = verdicts.with_columns(probability=pl.Series(stated), position=pl.Series(generator.choice(['first', 'second'], 400)),
                                     response=pl.Series(['word '*int(n) for n in generator.integers(1, 50, 400)]))
    judged = judged_rows(verdicts, labels)
    rows = judged.labelled
    truth, said = (rows['gold'] == 'yes').to_numpy(), (rows['said'] == 'yes').to_numpy()
    found = values(calibration_table(judged), 'measure', 'value')
    assert found['Brier score'][0] == pytest.approx(metrics.brier_score_loss(truth, rows['probability']))
    assert found['AUROC'][0] == pytest.approx(metrics.roc_auc_score(truth, rows['probability']))
    first = (rows['position'] == 'first').to_numpy()
    error = said.astype(int) - truth
    bias = effect_table(judged).filter(of='position')
    assert bias['bias'].to_list() == pytest.approx([error[first].mean(), error[~first].mean()])
    assert bias['p'][0] == pytest.approx(stats.ttest_ind(error[first], error[~first], equal_var=False).pvalue)
    assert bias['n'].sum() == effect_table(judged).filter(of='length')['n'].sum() == 80


@pytest.mark.parametrize('kind, strange', [('threshold', False), ('threshold .9', False), ('noisy', False), ('confidence', True),
                                           ('of the other class', True)])
def test_probabilities_that_go_against_their_verdicts_are_told(kind, strange):
    generator = np.random.default_rng(3)
    gold = generator.random(300) < .5
    stated = np.clip(np.where(gold, .65, .35) + generator.normal(0, .2, 300), .01, .99)
    said = stated > (.9 if kind == 'threshold .9' else .5)
    if kind == 'noisy': stated = np.clip(stated + generator.normal(0, .15, 300), 0, 1)
    if kind == 'confidence': stated = np.where(said, stated, 1 - stated)
    if kind == 'of the other class': stated = 1 - stated
    ids = [f'r{at}' for at in range(300)]
    verdicts = pl.DataFrame({'id': ids, 'predicted': np.where(said, 'yes', 'no'), 'probability': stated})
    labels = pl.DataFrame({'id': ids, 'gold': np.where(gold, 'yes', 'no')})
    order = order_by_probability(judged_rows(verdicts, labels))
    assert order == pytest.approx(metrics.roc_auc_score(said, stated))
    report, scored = judge_report(verdicts, labels), score_labels(labels, {'A': verdicts, 'B': verdicts.drop('probability')}, resamples=200)
    assert bool(report.tables['calibration'].height) is ('calibration' in scored.tables) is not strange
    for told in (report.notes, scored.notes): assert any('do not fit the verdicts' in note for note in told) is strange
    if strange: assert any('A: probabilities do not fit' in note and '--positive' in note for note in scored.notes)


def test_trivial_judges_are_told():
    generator = np.random.default_rng(0)
    names = ['the judge', 'always no', 'always yes', 'at random, as often as labels']
    useless = trivial_judges(judged_rows(*judged_files(generator, 600, 400, .8, .8, .2)))
    assert useless['judge'].to_list() == names and 'always yes' in as_good_judges(useless)
    good = trivial_judges(judged_rows(*judged_files(generator, 600, 400, .6, .95, .9)))
    assert not as_good_judges(good) and not as_good_judges(good, 'balanced_above')
    verdicts, labels = judged_files(generator, 600, 400)
    gold = verdicts.join(labels, on='id', how='left')['gold'].eq_missing('yes').to_numpy()
    by_length = trivial_judges(judged_rows(verdicts.with_columns(length=pl.Series(20 + 10*gold + generator.integers(0, 5, 600))), labels))
    assert by_length.select('judge', 'agreement').row(-1) == ('by length alone', 1) and 'by length alone' in as_good_judges(by_length)


def test_without_a_judge_people_are_a_share_with_wilsons_interval():
    verdicts, labels = judged_files(np.random.default_rng(2), 200, 70)
    share, *bounds, _ = powered_share(judged_rows(verdicts, labels, drawn='random'), False)
    yes = int((labels['gold'] == 'yes').sum())
    assert share == pytest.approx(yes/70) and bounds == pytest.approx(proportion_confint(yes, 70, method='wilson'))
    share, *bounds, fixed = powered_share(judged_rows(*judged_files(np.random.default_rng(2), 2000, 2000), drawn='random'))
    assert fixed == 0 and bounds == pytest.approx(proportion_confint(share*2000, 2000, method='normal'), abs=1e-3)


@pytest.mark.parametrize('share, labelled', [(.9, 5), (.9, 15), (.98, 30), (.5, 15)])
def test_a_few_labels_that_agree_make_no_narrow_interval(share, labelled):
    generator, inside, times = np.random.default_rng(1), {'by people': 0, 'powered': 0}, 150
    for _ in range(times):
        judged = judged_rows(*judged_files(generator, 200, labelled, share, .9, .9), drawn='random')
        for name, with_judge in (('by people', False), ('powered', True)):
            _, low, high, _ = powered_share(judged, with_judge)
            inside[name] += low <= share <= high
    assert all(count/times >= .91 for count in inside.values()), inside


def test_corrections_cover_the_truth():
    generator, inside, times = np.random.default_rng(0), {'powered': 0, 'rogan-gladen': 0, 'strata': 0, 'strata rg': 0}, 150
    for _ in range(times):
        verdicts, labels = judged_files(generator, 1500, 150)
        judged = judged_rows(verdicts, labels, drawn='random')
        said = (judged.rows['said'] == 'yes').to_numpy()
        truth = generator.random(1500) < np.where(said, .9*.6/.7, .1*.6/.3)  # anew for all, by the rates that made them
        known = np.concatenate([generator.choice(np.flatnonzero(said == side), 75, replace=False) for side in (False, True)])
        gold = pl.DataFrame({'id': verdicts['id'][known], 'gold': np.where(truth[known], 'yes', 'no')})
        within = judged_rows(verdicts, gold, drawn='stratified:predicted')
        found = {'powered': powered_share(judged), 'rogan-gladen': rogan_gladen_share(judged, **FEW), 'strata': powered_share(within),
                 'strata rg': rogan_gladen_share(within, **FEW)}
        for name, (_, low, high, _) in found.items(): inside[name] += low <= .6 <= high
    assert all(count/times >= .91 for count in inside.values()), inside


def test_strata_undo_the_draw():
    generator = np.random.default_rng(4)
    verdicts, _ = judged_files(generator, 5000, 2)
    truth = np.where(generator.random(5000) < .9, verdicts['predicted'], 'yes')
    chosen = np.r_[np.flatnonzero(verdicts['predicted'] == 'yes')[:50], np.flatnonzero(verdicts['predicted'] == 'no')[:1500]]
    labels = pl.DataFrame({'id': verdicts['id'][chosen], 'gold': truth[chosen]})
    raw, weighted = (values(agreement_table(judged_rows(verdicts, labels, drawn=drawn), **FEW), 'measure', 'value')['sensitivity'][0]
                     for drawn in ('random', 'stratified:predicted'))
    real = ((truth == 'yes') & (verdicts['predicted'] == 'yes').to_numpy()).sum()/(truth == 'yes').sum()
    assert abs(weighted - real) < .02 < abs(raw - real)


@pytest.mark.parametrize('column', ['said', 'gold', 'topic'])
def test_strata_are_the_verdicts_own_column_whatever_its_name(column):
    generator = np.random.default_rng(7)
    verdicts, labels = judged_files(generator, 240, 120)
    strata = pl.Series(column, generator.choice(['a', 'b'], 240, p=[.3, .7]))
    given = verdicts.with_columns(strata)
    table, _ = corrected_table(judged_rows(given, labels, drawn=f'stratified:{column}'), **FEW)
    both = verdicts.with_columns(strata.alias('stratum')).join(labels, on='id', how='left', maintain_order='left')
    parts = both.group_by('stratum').agg(n=pl.len(), yes=(pl.col('gold') == 'yes').mean())
    assert table['share'][1] == pytest.approx((parts['n']*parts['yes']).sum()/240)
    with pytest.raises(UsageError, match="no column 'nope' .*; found id, predicted, " + column):
        judged_rows(given, labels, drawn='stratified:nope')
    counts = agreement_table(judged_rows(given, labels, drawn=f'stratified:{column}'), **FEW)
    assert values(counts, 'measure', 'n')['sensitivity'][0] == (labels['gold'] == 'yes').sum()  # labels, not weights


@pytest.mark.parametrize('width', [.12, .15, .2, .3])
def test_labels_more_are_the_fewest_by_wilson_and_none_where_all_rows_do_not_do(width):
    verdicts, labels = judged_files(np.random.default_rng(5), 400, 60)
    found, notes = corrected_table(judged_rows(verdicts, labels, drawn='random'), width, **FEW)
    more, share = found['labels_more'][1], found['share'][1]
    def wide(n): return np.ptp(proportion_confint(share*n, n, method='wilson'))
    assert wide(60 + more) <= width and (more == 0 or wide(60 + more - 1) > width)
    tight, _ = corrected_table(judged_rows(verdicts, labels, drawn='random'), .02, **FEW)
    assert tight['labels_more'].is_null().all() and wide(400) > .02


def test_labels_needed_give_the_width():
    assert labels_needed(.4, .6, 100, 0, .1) == 400 and labels_needed(.4, .6, 100, 1., .1) is None
    verdicts, labels = judged_files(np.random.default_rng(5), 20_000, 100)
    found, _ = corrected_table(judged_rows(verdicts, labels, drawn='random'), .05, **FEW)
    more = dict(found.select('score', 'labels_more').rows())
    enough = judged_files(np.random.default_rng(6), 20_000, 100 + more['prediction-powered'])
    again, _ = corrected_table(judged_rows(*enough, drawn='random'), **FEW)
    low, high = again.filter(score='prediction-powered').select('share_low', 'share_high').row(0)
    assert high - low == pytest.approx(.05, rel=.15)
    assert 0 < more['prediction-powered'] < more['by people, labelled rows']


def test_without_a_word_on_the_draw_nothing_is_corrected():
    verdicts, labels = judged_files(np.random.default_rng(0))
    report = judge_report(verdicts, labels, **FEW)
    assert 'share of yes' not in report.tables and any('--drawn random' in note for note in report.notes)
    several = labels.with_columns(gold=pl.when(pl.int_range(80) < 5).then(pl.lit('unclear')).otherwise('gold'))
    report = judge_report(verdicts, several, drawn='random', **FEW)
    assert any('--positive NAME' in note for note in report.notes)
    assert 'sensitivity to unclear' in report.tables['agreement with people']['measure'].to_list()


def test_labels_that_no_draw_would_choose_correct_nothing():
    generator = np.random.default_rng(3)
    told = [uneven_draw(judged_rows(*judged_files(generator, n=60, labelled=25), drawn='random')) for _ in range(1000)]
    assert sum(each is not None for each in told) <= 5  # one in a thousand is expected at the most
    verdicts, _ = judged_files(np.random.default_rng(0), n=60, labelled=2)
    gold = pl.when(pl.int_range(25) % 4 > 0).then(pl.lit('yes')).otherwise(pl.lit('no'))
    chosen = verdicts.filter(predicted='yes').head(25).select('id', gold=gold)
    report = judge_report(verdicts, chosen, drawn='random', **FEW)
    assert 'share of yes' not in report.tables and 'said yes of 25 of the 25 labelled rows' in report.notes[0]
    within = verdicts.with_columns(half=pl.int_range(60) % 2)
    others = verdicts.filter(predicted='no').head(4).select('id', gold=pl.lit('no'))
    both = judge_report(within, pl.concat([chosen, others]), drawn='stratified:half', **FEW)
    assert 'share of yes' not in both.tables and 'labelled rows of the stratum' in both.notes[0]


def test_words_for_nothing_are_missing_verdicts():
    verdicts, labels = judged_files(np.random.default_rng(0))
    some = verdicts.with_columns(predicted=pl.when(pl.int_range(400) < 40).then(pl.lit('NaN')).otherwise('predicted'))
    judged = judged_rows(some, labels, drawn='random')
    assert judged.classes == ('no', 'yes') and judged.rows['said'].null_count() == 40
    notes = judge_report(some, labels, drawn='random', **FEW).notes
    assert "'NaN' among the verdicts: read as missing, since no label says so" in notes
    assert any(note.startswith('verdicts that are missing: 40 of 400') for note in notes)


def test_labels_copied_from_the_verdicts_are_told():
    verdicts, labels = judged_files(np.random.default_rng(0))
    copied = labels.select('id').join(verdicts.rename({'predicted': 'gold'}), on='id', how='left')
    assert any('were they copied from it?' in note for note in judge_report(verdicts, copied, drawn='random', **FEW).notes)
    assert not any('copied' in note for note in judge_report(verdicts, labels, drawn='random', **FEW).notes)


def test_one_class_and_a_judge_that_tells_nothing():
    verdicts, labels = judged_files(np.random.default_rng(0))
    report = judge_report(verdicts, labels.with_columns(gold=pl.lit('yes')), drawn='random', **FEW)
    assert any("only one class among the labels: people said 'yes' of all labelled rows" in note for note in report.notes)
    assert not any('higher balanced accuracy' in note for note in report.notes)
    agree, trivial = report.tables['agreement with people'], report.tables['beside baselines']
    assert agree.filter(measure='balanced accuracy')['value'].to_list() in ([None], [])
    assert trivial['balanced_accuracy'].null_count() == trivial['balanced_above'].null_count() == trivial.height
    assert any(note.startswith('no Rogan–Gladen') for note in report.notes)
    report = judge_report(verdicts.with_columns(predicted=pl.lit('yes')), labels, drawn='random', **FEW)
    assert any('the judge said the same' in note for note in report.notes)
    assert any(note.startswith('no Rogan–Gladen') for note in report.notes)


def test_what_does_not_fit_is_refused():
    verdicts, labels = judged_files(np.random.default_rng(0))
    with pytest.raises(DataError, match="2 of 82 labels are of rows that have no verdict, as 'x', 'y'"):
        judge_report(verdicts, labels.vstack(pl.DataFrame({'id': ['x', 'y'], 'gold': ['yes', 'no']})))
    with pytest.raises(DataError, match='ids come more than once'): judge_report(verdicts, labels.vstack(labels.head(1)))
    spelled = labels.with_columns(pl.col('gold').replace('yes', 'Yes'))
    with pytest.raises(DataError, match='differ in spelling'): judge_report(verdicts, spelled)
    with pytest.raises(DataError, match='no label is one of gold'): judge_report(verdicts, labels.with_columns(gold='is ' + pl.col('gold')))
    with pytest.raises(UsageError, match="Say --positive 'good thing'"):
        new = {'yes': 'good thing', 'no': 'other'}
        judge_report(verdicts.with_columns(pl.col('predicted').replace(new)), labels.with_columns(pl.col('gold').replace(new)))
    with pytest.raises(UsageError, match="no class 'maybe'"): judge_report(verdicts, labels, positive='maybe')
    for drawn in ('stratified', 'random:id', 'by hand'):
        with pytest.raises(UsageError, match='--drawn is random'): judge_report(verdicts, labels, drawn=drawn)
    with pytest.raises(UsageError, match="no column 'topic'"): judge_report(verdicts, labels, drawn='stratified:topic')
    with pytest.raises(DataError, match='strata of id have fewer than two labels'): judge_report(verdicts, labels, drawn='stratified:id')
    with pytest.raises(DataError, match='400 of 400 values of probability lie outside 0 … 1'):
        judge_report(verdicts.with_columns(probability=pl.lit(2.5)), labels)


def test_the_command(tmp_path, capsys):
    verdicts, labels = judged_files(np.random.default_rng(9))
    verdicts.rename({'predicted': 'said <b>'}).write_ndjson(tmp_path/'verdicts.jsonl')
    labels.rename({'gold': 'human'}).write_csv(tmp_path/'labels.csv')
    given = ['judge', str(tmp_path/'verdicts.jsonl'), '--labels', str(tmp_path/'labels.csv'), '--columns', 'predicted=said <b>,gold=human',
             '--drawn', 'random', '--width', '0.1']
    assert run_command(parser(), given) == 0
    shown = capsys.readouterr().out
    assert shown == judge_report(verdicts, labels, drawn='random', width=.1).text() and 'prediction-powered' in shown
    assert run_command(parser(), [*given, '--json', '--html', str(tmp_path/'page.html'), '--out', str(tmp_path/'out.json')]) == 0
    assert json.loads((tmp_path/'out.json').read_text())['share of yes'][0]['score'] == 'as judged, all rows'
    assert '<script' not in (tmp_path/'page.html').read_text()
