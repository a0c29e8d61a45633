"`factlab compare`: its figures beside scipy's, statsmodels' and scikit-learn's, its intervals' coverage, and what it refuses."
import json

import numpy as np
import polars as pl
import pytest
from commands import run
from scipy import stats
from sklearn import metrics
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from factlab.core.core import DataError, UsageError
from factlab.reports.own_comparison import MEAN, compare_results, covariance, expanded_bounds, swap_p, units_of
from factlab.reports.own_files import read_own, report_page, shown_table, side_by_side

FEW = {'resamples': 300}


def labelled(generator, n, skills, classes=('no', 'yes')) -> dict[str, pl.DataFrame]:
    gold = generator.choice(classes, n)
    def said(skill): return np.where(generator.random(n) < skill, gold, generator.choice(classes, n))
    ids = [f'r{at}' for at in range(n)]
    return {f's{at}': pl.DataFrame({'id': ids, 'predicted': said(skill), 'gold': gold}) for at, skill in enumerate(skills)}


@pytest.mark.parametrize('seed', range(25))
def test_labels_equal_other_libraries(seed):
    generator = np.random.default_rng(seed)
    classes = ('a', 'b', 'c')[:generator.integers(2, 4)]
    files = labelled(generator, int(generator.integers(12, 90)), generator.random(3), classes)
    gold = files['s0']['gold'].to_list()
    found = compare_results(files, **FEW)
    right = {name: (frame['predicted'] == frame['gold']).to_numpy() for name, frame in files.items()}
    for name, score, low, high in found.tables['scores'].head(3).select('system', 'score', 'score_low', 'score_high').rows():
        assert score == pytest.approx(metrics.accuracy_score(gold, files[name]['predicted'].to_list()))
        assert (low, high) == pytest.approx(proportion_confint(right[name].sum(), len(gold), method='wilson'))
    pairs = found.tables['pairs']
    for row in pairs.iter_rows(named=True):
        first, second = right[row['first']], right[row['second']]
        b, c = int((first & ~second).sum()), int((~first & second).sum())
        assert (row['only_first'], row['only_second']) == (b, c)
        exact = mcnemar([[0, b], [c, 0]], exact=True).pvalue
        assert row['p'] == pytest.approx(1 if b == c else exact - stats.binom.pmf(min(b, c), b + c, .5))
    assert pairs['p_holm'].to_list() == pytest.approx(multipletests(pairs['p'], method='holm')[1].tolist())
    for metric, theirs in (('balanced accuracy', metrics.balanced_accuracy_score), ('macro f1', macro_f1)):
        scores = compare_results(files, metric=metric, **FEW).tables['scores']
        for name, frame in files.items():
            assert scores.filter(system=name)['score'].item() == pytest.approx(theirs(gold, frame['predicted'].to_list()))
        constant = [scores['system'][3].removeprefix('always ')]*len(gold)
        assert scores['score'][3] == pytest.approx(theirs(gold, constant))


def macro_f1(gold, said) -> float: return metrics.f1_score(gold, said, average='macro')


def scored(generator, n, shifts) -> dict[str, pl.DataFrame]:
    ids, hard = [f'r{at}' for at in range(n)], generator.normal(size=n)
    return {f's{at}': pl.DataFrame({'id': ids, 'score': hard + shift + generator.normal(size=n)}) for at, shift in enumerate(shifts)}


@pytest.mark.parametrize('seed', range(15))
def test_swaps_of_few_rows_equal_scipys_permutations(seed):
    generator = np.random.default_rng(seed)
    files = scored(generator, int(generator.integers(4, 12)), (0, generator.random()))
    row = compare_results(files, **FEW).tables['pairs'].row(0, named=True)
    first, second = (frame['score'].to_numpy() for frame in files.values())
    theirs = stats.permutation_test((first, second), lambda a, b: a.mean() - b.mean(), permutation_type='samples', n_resamples=10**5)
    assert row['difference'] == pytest.approx(theirs.statistic) and row['p'] == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize('n', [40, 25_000])
def test_many_rows_come_near_the_paired_t_test(n):
    files = scored(np.random.default_rng(n), n, (0, 1.5/np.sqrt(n)))
    row = compare_results(files, resamples=4000).tables['pairs'].row(0, named=True)
    first, second = (frame['score'].to_numpy() for frame in files.values())
    theirs = stats.ttest_rel(first, second)
    low, high = theirs.confidence_interval(.95)
    assert row['p'] == pytest.approx(theirs.pvalue, abs=.03)
    assert (row['difference_low'], row['difference_high']) == pytest.approx((low, high), abs=.08*(high - low))
    assert row['smallest'] == pytest.approx(2.802*stats.sem(first - second), rel=.06)


def test_clusters_widen_the_interval_and_are_swapped_whole():
    generator = np.random.default_rng(1)
    shared = np.repeat(generator.normal(size=30), 10)
    ids, documents = [f'r{at}' for at in range(300)], [f'd{at//10}' for at in range(300)]
    files = {'a': pl.DataFrame({'id': ids, 'score': shared + generator.normal(size=300)/5, 'document': documents}),
             'b': pl.DataFrame({'id': ids, 'score': generator.normal(size=300)/5})}
    alone, within = (compare_results(files, cluster=cluster, resamples=2000) for cluster in (None, 'document'))
    width = [found.tables['pairs'].select(pl.col('difference_high') - pl.col('difference_low')).item() for found in (alone, within)]
    assert width[1] > 2*width[0] and '30 clusters' in within.title
    apart = (files['a']['score'] - files['b']['score']).to_numpy().reshape(30, 10).mean(1)
    low, high = stats.ttest_1samp(apart, 0).confidence_interval()
    assert within.tables['pairs'].select('difference_low', 'difference_high').row(0) == pytest.approx((low, high), abs=.1*(high - low))


def test_intervals_cover_what_they_say():
    generator, inside, n = np.random.default_rng(0), 0, 25
    for _ in range(600):
        apart = generator.exponential(size=n) - generator.exponential(size=n)
        low, high = expanded_bounds(apart[generator.integers(0, n, (400, n))].mean(1), n)
        inside += low <= 0 <= high
    assert .93 <= inside/600 <= .97


def test_the_normal_approximation_agrees_with_swaps():
    generator = np.random.default_rng(5)
    scores = pl.DataFrame(generator.normal(size=(400, 2)) + [0, .12], schema=['a', 'b'])
    units = units_of(scores, lambda p: np.stack([p.to_numpy(), np.ones((p.height, 2))], -1))
    spread = covariance(units, MEAN)
    assert np.sqrt(np.diag(spread)) == pytest.approx(stats.sem(scores.to_numpy()), rel=1e-4)
    z = np.diff(MEAN(units.totals))[0]/np.sqrt([1, -1] @ spread @ [1, -1])
    assert swap_p(units, MEAN) == pytest.approx(2*stats.norm.sf(abs(z)), abs=.02)


def test_what_varies_not_is_said():
    same = {name: pl.DataFrame({'id': ['x', 'y', 'z'], 'score': [.5]*3}) for name in 'ab'}
    found = compare_results(same, **FEW)
    row = found.tables['pairs'].row(0, named=True)
    assert row['difference'] == 0 and row['difference_low'] is None and row['p'] == 1
    assert any('the same score on each row' in note for note in found.notes)
    one = labelled(np.random.default_rng(0), 9, (.5, .9), ('yes',))
    assert any("all gold is 'yes'" in note for note in compare_results(one, **FEW).notes)


@pytest.mark.parametrize('metric', ['balanced accuracy', 'macro f1'])
def test_one_class_has_no_mean_over_classes(metric):
    one = labelled(np.random.default_rng(0), 9, (.5, .9), ('yes',))
    mixed = one | {'s0': one['s0'].with_columns(predicted=pl.when(pl.int_range(9) < 3).then(pl.lit('no')).otherwise('predicted'))}
    for files in (one, mixed):
        with pytest.raises(DataError, match=f"gold is 'yes' in all 9 rows, and {metric} is a mean.*--metric accuracy"):
            compare_results(files, metric=metric, **FEW)
    assert compare_results(mixed, metric='accuracy', **FEW).tables['scores']['score'][0] == pytest.approx(6/9)
    lost = {name: frame.with_columns(predicted=pl.lit(None, pl.String)) for name, frame in mixed.items()}
    with pytest.raises(DataError, match='no row is left of 9'): compare_results(lost, metric=metric, unreadable='exclude', **FEW)


def test_one_class_is_left_when_rows_are_left_out():
    files = labelled(np.random.default_rng(0), 30, (.5, .9))
    files['s0'] = files['s0'].with_columns(predicted=pl.when(pl.col('gold') == 'yes').then('predicted'))
    assert compare_results(files, metric='macro f1', **FEW).tables['scores'].height == 4
    with pytest.raises(DataError, match="gold is 'yes' in all"): compare_results(files, metric='macro f1', unreadable='exclude', **FEW)


def test_ranks_and_lower_scores():
    files = scored(np.random.default_rng(2), 60, (3, 0, -3))
    ranks = compare_results(files, **FEW).tables['scores']
    assert ranks['rank'].to_list() == [1, 2, 3] and ranks['rank_low'].to_list() == ranks['rank_high'].to_list() == [1, 2, 3]
    assert compare_results(files, lower=True, **FEW).tables['scores']['rank'].to_list() == [3, 2, 1]


def test_order_does_not_matter_and_other_rows_are_counted():
    files = labelled(np.random.default_rng(7), 50, (.9, .6))
    turned = files | {'s1': files['s1'].reverse()}
    assert compare_results(turned, **FEW).tables['pairs'].equals(compare_results(files, **FEW).tables['pairs'])
    fewer = files | {'s1': files['s1'].head(47).vstack(files['s1'].tail(1).with_columns(id=pl.lit('new')))}
    with pytest.raises(DataError, match=r"s0 50, s1 48\). All have 47; s0 has 3 others, as 'r47', 'r48', 'r49'; s1 has 1 others, as 'new'"):
        compare_results(fewer, **FEW)
    found = compare_results(fewer, shared=True, **FEW)
    assert '47 rows' in found.title and 'left out, since not all files have them: 3 rows of s0, 1 row of s1' in found.notes
    strange = files | {'s1': files['s1'].with_columns(id='q' + pl.col('id'))}
    with pytest.raises(DataError, match='no row in common'): side_by_side(strange, shared=True)


def told(frame, label) -> pl.DataFrame:
    "One row with another label."
    return frame.with_columns(predicted=pl.when(pl.col('id') == 'r3').then(pl.lit(label)).otherwise('predicted'))


def test_labels_and_scores_that_do_not_fit():
    files = labelled(np.random.default_rng(8), 20, (.9, .6))
    with pytest.raises(DataError, match=r"'Yes' and 'yes' differ in spelling alone \('Yes' in 1 row of s1"):
        compare_results(files | {'s1': told(files['s1'], 'Yes')})
    with pytest.raises(DataError, match='no label is one of gold'):
        compare_results(files | {'s1': files['s1'].with_columns(predicted=pl.lit('supported'))})
    with pytest.raises(DataError, match='s0 and s1 differ in gold in 20 of 20 rows'):
        compare_results(files | {'s1': files['s1'].with_columns(pl.col('gold').replace({'yes': 'no', 'no': 'yes'}))})
    lost = files | {'s1': told(files['s1'], None)}
    assert any('missing count as wrong: s1 1' in note for note in compare_results(lost, **FEW).notes)
    assert '19 rows' in compare_results(lost, unreadable='exclude', **FEW).title
    with pytest.raises(UsageError, match='no file has the column'): compare_results(files, cluster='page')
    with pytest.raises(UsageError, match='two systems'): compare_results({'s0': files['s0']})


def test_tables_fit_the_line(monkeypatch):
    found = labelled(np.random.default_rng(8), 60, (.9, .6, .7))
    files = {f'a-system-with-a-long-name-{name}': frame for name, frame in found.items()}
    report = compare_results(files, **FEW)
    for columns in (80, 100, 120):
        monkeypatch.setenv('COLUMNS', str(columns))
        tables = report.text().split('\n- ')[0]
        assert max(map(len, tables.splitlines())) <= columns
        shown = {word for line in tables.splitlines() for word in line.split()}
        assert {name for table in report.tables.values() for name in shown_table(table).columns} <= shown


def test_only_frames_of_polars_are_taken_in_python():
    import pandas as pd
    files = labelled(np.random.default_rng(8), 20, (.9, .6))
    for other in (pd.DataFrame(files['s0'].to_dict(as_series=False)), files['s0'].to_dicts()):
        with pytest.raises(DataError, match='s0 is a .*polars.from_pandas'): compare_results({**files, 's0': other})


def test_ids_as_numbers_and_as_text_meet_in_python():
    files = labelled(np.random.default_rng(8), 20, (.9, .6))
    numbered = {name: frame.with_columns(id=pl.int_range(frame.height)) for name, frame in files.items()}
    text = {'s0': numbered['s0'].with_columns(pl.col('id').cast(pl.String)), 's1': numbered['s1']}
    assert compare_results(text, **FEW).tables['scores'].equals(compare_results(numbered, **FEW).tables['scores'])


def test_what_the_files_lack_is_named():
    files = labelled(np.random.default_rng(8), 20, (.9, .6))
    apart = {name: frame.drop('gold', strict=False) for name, frame in files.items()}
    with pytest.raises(DataError, match='g has gold alone: say factlab score labels'):
        compare_results(apart | {'g': files['s0'].select('id', 'gold')})
    scores = scored(np.random.default_rng(2), 20, (0, 1))
    with pytest.raises(DataError, match='macro f1 is of labels'): compare_results(scores, metric='macro f1')


def test_a_remedy_can_be_pasted():
    import shlex
    files = labelled(np.random.default_rng(8), 20, (.9, .6), ('not supported', 'supported'))
    other = pl.col('predicted').replace('not supported', 'Not Supported')
    odd = {name: frame.with_columns(predicted=other) for name, frame in files.items()}
    with pytest.raises(DataError) as told: compare_results(odd)
    words = shlex.split(str(told.value).partition('--same-labels ')[2])
    assert words[0] in ('Not Supported=not supported', 'not supported=Not Supported')


def test_lower_is_better_is_told_and_is_for_scores_alone():
    numbers = scored(np.random.default_rng(2), 20, (0, 1))
    found = compare_results(numbers, lower=True, **FEW)
    assert 'the lower score is the better one (--lower-is-better)' in found.notes
    with pytest.raises(UsageError, match='of accuracy the higher one is better'):
        compare_results(labelled(np.random.default_rng(8), 20, (.9, .6)), lower=True)


@pytest.mark.parametrize('word', ['NaN', 'None', 'null', '<NA>'])
def test_words_for_nothing_are_missing_where_gold_has_no_such_class(word):
    files = labelled(np.random.default_rng(8), 20, (.9, .6))
    lost, empty = (compare_results(files | {'s1': told(files['s1'], label)}, **FEW) for label in (word, None))
    assert lost.tables['scores']['missing'].to_list()[:2] == [0, 1] and lost.tables['scores'].equals(empty.tables['scores'])
    assert f's1: {word!r} of 1 row read as missing, since gold has no such class' in lost.notes
    own = {name: frame.with_columns(pl.col('gold').replace('no', word), pl.col('predicted').replace('no', word))
           for name, frame in files.items()}
    found = compare_results(own, **FEW)
    assert 'missing' not in found.tables['scores'].columns and found.tables['pairs'].equals(compare_results(files, **FEW).tables['pairs'])


def test_files_that_say_the_same_are_named():
    files = labelled(np.random.default_rng(8), 20, (.9, .6))
    same = 's1 and copy say the same in every row'
    assert same in compare_results(files | {'copy': files['s1'].reverse()}, **FEW).notes
    right = files['s0'].with_columns(predicted='gold')
    assert 's0, gold and the labels of gold say the same in every row' in compare_results(files | {'gold': right}, **FEW).notes
    numbers = scored(np.random.default_rng(2), 20, (0, 1))
    assert same in compare_results(numbers | {'copy': numbers['s1']}, **FEW).notes
    assert not any('the same in' in note for note in compare_results(numbers, **FEW).notes)


@pytest.mark.parametrize(('times', 'warned'), [(19, True), (100, True), (-3, True), (1, False), (1.2, False)])
def test_scores_on_another_scale_are_asked_about_first(times, warned):
    share = pl.DataFrame({'id': [f'r{at}' for at in range(20)], 'score': [at/19 for at in range(20)]})
    first = compare_results({'a': share, 'b': share.with_columns(pl.col('score')*times)}, **FEW).notes[0]
    assert ('those of a lie within 0 to 1: the same measure on another scale' in first) == warned
    assert not warned or f'values of b go from {min(0, times)} to {max(0, times)}' in first.replace('-0', '0')


def test_scores_that_do_not_fit():
    gap = scored(np.random.default_rng(0), 9, (0, 1))
    lost = gap['s0'].with_columns(score=pl.when(pl.col('id') == 'r0').then(None).otherwise('score'))
    with pytest.raises(DataError, match='a score is missing'): compare_results(gap | {'s0': lost})
    words = gap['s0'].with_columns(score=pl.when(pl.col('id') == 'r2').then(pl.lit('n/a')).otherwise(pl.col('score').cast(pl.String)))
    with pytest.raises(DataError, match="1 of 9 values of score are no finite numbers, the first is 'n/a' in row 3"):
        compare_results(gap | {'s0': words})
    with pytest.raises(DataError, match='needs a column score'):
        compare_results({'a': gap['s0'], 'b': labelled(np.random.default_rng(8), 9, (.9,))['s0']} | {'c': gap['s1']}, shared=True)


def test_truth_is_read_in_any_spelling():
    gold = pl.DataFrame({'id': [*'abcd'], 'gold': [True, False, True, False], 'predicted': [True, False, False, False]})
    words = pl.DataFrame({'id': [*'abcd'], 'predicted': ['True', 'False', 'True', 'False']})
    numbers = pl.DataFrame({'id': [*'abcd'], 'predicted': [1., 0., 1., 1.]})
    scores = compare_results({'a': gold, 'b': words, 'c': numbers}, **FEW).tables['scores']['score'].to_list()
    assert scores[:3] == [.75, 1, .75]


def test_files_of_all_kinds_meet(tmp_path, capsys):
    files = labelled(np.random.default_rng(4), 40, (.95, .7, .5))
    a, b, c = files.values()
    a.rename({'gold': 'label'}).with_columns(id=pl.int_range(40)).write_csv(tmp_path/'a.csv')
    (tmp_path/'a.csv').write_bytes(b'\xef\xbb\xbf' + (tmp_path/'a.csv').read_bytes())
    b.select(id=pl.int_range(40), predicted='predicted').write_ndjson(tmp_path/'b.jsonl')
    c.select(id=pl.int_range(40).cast(pl.Float64), predicted='predicted').write_parquet(tmp_path/'<c>.parquet')
    paths = [tmp_path/name for name in ('a.csv', 'b.jsonl', '<c>.parquet')]
    page, out = tmp_path/'page.html', tmp_path/'out.json'
    assert run('compare', *paths, '--columns', 'gold=label', '--json', '--html', page, '--out', out) == 0
    found = json.loads(out.read_text())
    wanted = compare_results({'a': a, 'b': b, '<c>': c})
    assert [row['score'] for row in found['scores']] == wanted.tables['scores']['score'].to_list() and len(found['pairs']) == 3
    shown = page.read_text()
    assert '&lt;c&gt;' in shown and '<c>' not in shown and 'http' not in shown and shown == report_page(wanted)
    capsys.readouterr()
    assert run('compare', *paths, '--columns', 'gold=label') == 0
    assert capsys.readouterr().out == wanted.text()


def test_bad_files_are_named_with_counts(tmp_path):
    twice, unnamed = tmp_path/'a.csv', tmp_path/'b.csv'
    twice.write_text('id,score\n1,0.5\n1,0.25\n2,1\n')
    unnamed.write_text('id,score\n1,0.5\n,0.25\n2,1\n')
    with pytest.raises(DataError, match=r"a\.csv: 1 ids come more than once, in 2 of 3 rows; the first is id '1'"): read_own(twice, ['id'])
    with pytest.raises(DataError, match=r'b\.csv: 1 of 3 rows have no id, the first is row 2'): read_own(unnamed, ['id'])
    with pytest.raises(DataError, match='has no column \'gold\'.*--columns gold=NAME'): read_own(twice, ['id', 'gold'])
    with pytest.raises(UsageError, match='given twice'): run('compare', twice, twice)
    with pytest.raises(UsageError, match='there is no column'): run('compare', twice, unnamed, '--columns', 'truth=x')


@pytest.mark.parametrize('rows', [2, 3, 5, 6, 12])
def test_fewer_rows_than_a_test_needs_have_no_interval(rows):
    frames = {name: pl.DataFrame({'id': [str(at) for at in range(rows)], 'score': [shift + at**.5 for at in range(rows)]})
              for name, shift in (('A', .1), ('B', 0.))}
    frames['A'] = frames['A'].with_columns(pl.col('score') + pl.Series([.01*(at % 2) for at in range(rows)]))
    report = compare_results(frames, resamples=500)
    pair, enough = report.tables['pairs'].row(0, named=True), rows >= 6
    assert [pair[name] is not None for name in ('difference_low', 'difference_high', 'smallest')] == [enough]*3
    assert report.tables['scores'].select('rank_low', 'rank_high').rows() == ([(1, 1), (2, 2)] if enough else [(1, 2), (1, 2)])
    assert (pair['p'] < .05) is enough and any('too few' in note for note in report.notes) is not enough
