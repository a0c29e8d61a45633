"""Baselines against scikit-learn, scipy's paired bootstrap, and brute force over thresholds and resamples."""
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from factlab.core.core import DataError, UsageError
from factlab.measures.baselines import (
    accuracy,
    balanced_accuracy,
    best_cut,
    chance_counts,
    class_counts,
    compare_with_baselines,
    constant_counts,
    crossed_thresholds,
    length_scores,
    macro_f1,
    majority_class,
    resampled_scores,
    weighted_auroc,
)
from factlab.measures.stats import F1
from factlab.reports.baseline_rows import BASELINE_ROW, BEST_BASELINE, baseline_rows


def drawn(seed=0, n=90):
    generator = np.random.default_rng(seed)
    truth = generator.choice(['a', 'b', 'c'], n, p=[.5, .3, .2])
    said = np.where(generator.random(n) < .6, truth, generator.choice(['a', 'b', 'c'], n))
    return generator, truth, said


@pytest.mark.parametrize('seed', range(5))
def test_scores_of_counts_are_those_of_scikit_learn(seed):
    _, truth, said = drawn(seed)
    totals = class_counts(truth, said).sum(0)
    assert accuracy(totals) == pytest.approx(metrics.accuracy_score(truth, said))
    assert balanced_accuracy(totals) == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    assert macro_f1(totals) == pytest.approx(metrics.f1_score(truth, said, average='macro'))
    one = class_counts(truth, said, ['b'])
    assert one.shape == (90, 3) and F1(one.sum(0)) == pytest.approx(metrics.f1_score(truth == 'b', said == 'b'))


def test_published_rates_come_out():
    "FACTS Table 2, Claude 3.5 Sonnet, span-level: a split of 344 accurate and 62 inaccurate responses that gives the printed numbers."
    cells = {(True, True): 267, (True, False): 77, (False, True): 13, (False, False): 49}
    truth, said = zip(*(pair for pair, n in cells.items() for _ in range(n)), strict=True)
    totals = class_counts(truth, said).sum(0)
    assert (round(100*float(macro_f1(totals)), 2), round(100*float(accuracy(totals)), 2)) == (68.85, 77.83)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=25))
@settings(max_examples=80, deadline=None)
def test_weighted_auroc_counts_every_drawn_row(rows):
    truth, score, often = (np.array(column, float) for column in zip(*rows, strict=True))
    repeated = np.repeat(truth, often.astype(int)), np.repeat(score, often.astype(int))
    area = weighted_auroc(np.stack([truth, score], 1), often[None])[0]
    if len(set(repeated[0].tolist())) < 2: assert np.isnan(area)
    else: assert area == pytest.approx(metrics.roc_auc_score(*repeated))


def test_paired_interval_is_that_of_scipy():
    generator, truth, said = drawn(1, 150)
    other = np.where(generator.random(150) < .4, truth, generator.choice(['a', 'b', 'c'], 150))
    table = compare_with_baselines({'ours': class_counts(truth, said), 'coin': class_counts(truth, other)}, ['coin'], 'accuracy',
                                   resamples=20_000)
    right = (said == truth).astype(float), (other == truth).astype(float)
    wanted = stats.bootstrap(right, lambda a, b, axis: a.mean(axis) - b.mean(axis), paired=True, vectorized=True, method='percentile',
                             n_resamples=20_000, rng=np.random.default_rng(1)).confidence_interval
    ours = table.row(0, named=True)
    assert ours['difference'] == pytest.approx(right[0].mean() - right[1].mean())
    assert (ours['difference_low'], ours['difference_high']) == pytest.approx((wanted.low, wanted.high), abs=.008)


def test_auroc_interval_is_that_of_scipy():
    generator = np.random.default_rng(5)
    truth = generator.random(140) < .4
    good, poor = truth + generator.normal(0, 1, 140), truth*.2 + generator.normal(0, 1, 140)
    outcomes = {name: np.stack([truth, score], 1) for name, score in (('good', good), ('poor', poor))}
    table = compare_with_baselines(outcomes, ['poor'], 'auroc', resamples=4_000)
    def auroc(truth, score): return (stats.rankdata(score)[truth].sum()/truth.sum() - (truth.sum() + 1)/2)/(~truth).sum()  # Mann–Whitney
    def apart(at): return auroc(truth[at], good[at]) - auroc(truth[at], poor[at])
    wanted = stats.bootstrap((np.arange(140),), apart, vectorized=False, method='percentile', n_resamples=2_000,
                             rng=np.random.default_rng(3)).confidence_interval
    theirs = [metrics.roc_auc_score(truth, score) for score in (good, poor)]  # its thousands of calls would take seconds
    assert table['score'][0] == pytest.approx(theirs[0])
    assert table['difference'][0] == pytest.approx(theirs[0] - theirs[1]) == pytest.approx(apart(np.arange(140)))
    assert table.select('difference_low', 'difference_high').row(0) == pytest.approx((wanted.low, wanted.high), abs=.02)


@pytest.mark.parametrize('score', [accuracy, weighted_auroc])
def test_clusters_are_drawn_whole(score):
    """Ten copies of each row, each a cluster, must give the interval of the single rows, not a narrower one."""
    generator = np.random.default_rng(6)
    truth, said = generator.random(40) < .5, generator.random(40) < .6
    rows = class_counts(truth, said) if score is accuracy else np.stack([truth, said + generator.random(40)], 1)
    single = compare_with_baselines({'a': rows, 'b': rows[::-1]}, ['b'], score)
    copied = {'a': np.repeat(rows, 10, 0), 'b': np.repeat(rows[::-1], 10, 0)}
    clustered = compare_with_baselines(copied, ['b'], score, clusters=[f'page {at}' for at in np.repeat(np.arange(40), 10)])
    alone = compare_with_baselines(copied, ['b'], score)
    def width(table): return table['high'][0] - table['low'][0]
    assert width(clustered) == pytest.approx(width(single), rel=.06) and width(alone) < .45*width(single)
    assert clustered['clusters'].to_list() == [40, 40] and clustered['n'].to_list() == [400, 400]


def test_resampled_scores_are_those_of_drawn_rows():
    generator = np.random.default_rng(7)
    rows = np.stack([class_counts(generator.random(6) < .5, generator.random(6) < .5, [False, True]) for _ in range(2)])
    _, values = resampled_scores(rows, accuracy, np.arange(6), 40_000, 0)
    drawn = generator.integers(0, 6, (40_000, 6))
    brute = np.stack([accuracy(one[drawn].sum(1)) for one in rows], 1)
    assert values.mean(0) == pytest.approx(brute.mean(0), abs=.005) and np.cov(values.T) == pytest.approx(np.cov(brute.T), abs=.002)


def test_best_baseline_is_the_highest_on_the_rows():
    _, truth, said = drawn(2)
    outcomes = {'ours': class_counts(truth, said)} | {f'always {name}': constant_counts(truth, name) for name in 'cab'}
    table = compare_with_baselines(outcomes, ['always c', 'always a', 'always b'], 'accuracy')
    best = table.filter(pl.col('baseline')).sort('score')['name'][-1]
    assert table['best'][0] == best == f'always {majority_class(truth)}'
    assert table['difference'][0] == pytest.approx(table['score'][0] - table['score'].filter(table['baseline']).max())


def test_p_follows_the_interval():
    truth = np.tile([True, False], 100)
    perfect, copy = class_counts(truth, truth), class_counts(truth, truth)
    same = compare_with_baselines({'ours': perfect, 'base': copy}, ['base']).row(0, named=True)
    assert same['difference'] == 0 and same['p'] == 1 and same['difference_low'] is None
    outcomes = {'ours': perfect, 'base': constant_counts(truth, True)}
    far = compare_with_baselines(outcomes, ['base'], 'accuracy', resamples=999).row(0, named=True)
    assert far['p'] == pytest.approx(.002) and far['difference_low'] > .4


def test_p_values_of_equal_systems_are_even():
    """Two coins on one set of rows: five in a hundred p values lie below .05, within the error of so many draws."""
    below = 0
    for seed in range(300):
        generator = np.random.default_rng(seed)
        truth, first, second = generator.random((3, 120)) < .5
        table = compare_with_baselines({'a': class_counts(truth, first), 'b': class_counts(truth, second)}, ['b'], resamples=400, seed=seed)
        below += table['p'][0] <= .05
    assert 4 <= below <= 30


def test_chance_is_the_mean_of_many_coins():
    _, truth, _ = drawn(3, 60)
    share = pl.Series(truth).value_counts(normalize=True).sort('')['proportion'].to_numpy()
    coins = np.random.default_rng(0).choice(['a', 'b', 'c'], (1_500, 60), p=share)
    expected = chance_counts(truth).sum(0)
    totals = np.stack([class_counts(truth, coin).sum(0) for coin in coins])
    assert accuracy(expected) == pytest.approx(accuracy(totals).mean(), abs=.005)
    assert balanced_accuracy(expected) == pytest.approx(1/3) == pytest.approx(balanced_accuracy(totals).mean(), abs=.005)
    with pytest.raises(UsageError, match='rates are shares'): chance_counts(truth, [.5, .6])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=20),
       st.sampled_from(['balanced accuracy', 'accuracy', 'f1']))
@settings(max_examples=120, deadline=None)
def test_best_cut_is_the_best_of_all_cuts(rows, objective):
    truth, score = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], float)
    def quality(cut):
        said = score >= cut
        if objective == 'f1': return metrics.f1_score(truth, said, zero_division=0)
        if objective == 'accuracy': return (said == truth).mean()
        return np.mean([(said == truth)[truth == side].mean() for side in set(truth.tolist())])
    cut, value = best_cut(truth, score, objective)
    brute = max(quality(edge) for edge in [-np.inf, *(score + .5), np.inf])
    assert value == pytest.approx(brute) and quality(cut) == pytest.approx(brute)


@given(st.integers(0, 1000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_label_influences_its_own_threshold(seed, either):
    """All labels of a cluster may turn, and nothing that is said of that cluster changes."""
    generator = np.random.default_rng(seed)
    truth, score, pages = generator.random(24) < .5, generator.normal(size=24), generator.integers(0, 8, 24)
    before = crossed_thresholds(truth, score, clusters=pages, either_sign=either, seed=seed)
    page = pages[0]
    turned = np.where(pages == page, ~truth, truth)
    after = crossed_thresholds(turned, score, clusters=pages, either_sign=either, seed=seed)
    assert (after.half == before.half).all() and (after.predicted[pages == page] == before.predicted[pages == page]).all()
    assert all(len(set(before.half[pages == page].tolist())) == 1 for page in set(pages.tolist()))
    side = before.half[0]
    assert after.thresholds[side] == before.thresholds[side]


def test_a_score_is_turned_where_that_is_allowed():
    truth = np.tile([True, False], 30)
    low = np.where(truth, 0., 1.)
    assert (crossed_thresholds(truth, low, either_sign=True).predicted == truth).all()
    assert balanced_accuracy(class_counts(truth, crossed_thresholds(truth, low).predicted).sum(0)) <= .5


def test_rows_for_a_table():
    truth = [True, True, False, False]
    table = compare_with_baselines({'m': class_counts(truth, truth), 'majority': constant_counts(truth, True)}, ['majority'])
    cells = baseline_rows(table, 'FS (%)', 100, {'m': 'tiny'}, metric='accuracy')
    assert [(cell['row'], cell['column'], cell['method'], cell.get('against'), cell['measured'], cell['status'],
             cell['n']) for cell in cells] == [
        ('tiny', 'FS (%)', 'm', BEST_BASELINE, 50, 'measured', 4), (BASELINE_ROW + 'majority', 'FS (%)', 'majority', None, 50,
                                                                    'baseline', 4)]
    assert {cell['metric'] for cell in cells} == {'accuracy'} and cells[0]['kind'] == 'difference'


def test_errors_say_what_to_do():
    rows = class_counts([True, False], [True, True])
    with pytest.raises(UsageError, match='of one shape'): compare_with_baselines({'a': rows, 'b': rows[:1]}, ['b'])
    with pytest.raises(UsageError, match='no outcomes of the baselines'): compare_with_baselines({'a': rows}, ['b'])
    with pytest.raises(UsageError, match='name one baseline'): compare_with_baselines({'a': rows}, [])
    with pytest.raises(UsageError, match='unknown score'): compare_with_baselines({'a': rows}, ['a'], 'bleu')
    with pytest.raises(UsageError, match='NaN'): compare_with_baselines({'a': rows*np.nan}, ['a'])
    with pytest.raises(UsageError, match='give each row its cluster'): compare_with_baselines({'a': rows}, ['a'], clusters=[1])
    with pytest.raises(DataError, match='no rows'): compare_with_baselines({'a': rows[:0]}, ['a'])
    with pytest.raises(DataError, match='labelled'): class_counts([True, None], [True, True])
    with pytest.raises(UsageError, match='join them by id'): class_counts([True], [True, True])
    with pytest.raises(UsageError, match='two clusters'): crossed_thresholds([True, False], [1, 2], clusters=['p', 'p'])
    with pytest.raises(UsageError, match='unknown objective'): crossed_thresholds([True, False], [1, 2], 'recall')
    with pytest.raises(UsageError, match='NaN'): crossed_thresholds([True, False], [1, float('nan')])
    assert length_scores(['a b', ' ']).tolist() == [2, 0]
