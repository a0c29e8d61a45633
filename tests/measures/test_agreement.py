"""Agreement coefficients equal scikit-learn's, statsmodels' and their literal definitions; edges and faults are defined."""
import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.measures.agreement import agreement_scores, cohen_kappa, fleiss_kappa, krippendorff_alpha, raw_agreement

FEW = {'resamples': 20}


def long(table: np.ndarray) -> pl.DataFrame:
    "Items in rows, annotators in columns, NaN or None for missing: as a long frame of whole numbers."
    rows = [(f'item {i}', f'annotator {a}', label) for i, row in enumerate(table) for a, label in enumerate(row)
            if label is not None and label == label]
    return pl.DataFrame(rows, schema={'item': pl.String, 'annotator': pl.String, 'label': pl.Int64}, orient='row').sample(
        fraction=1, shuffle=True, seed=1)


def same(ours: float|None, theirs: float) -> bool:
    return ours is None if math.isnan(theirs) else ours == pytest.approx(theirs, abs=1e-9)


def literal_alpha(table: list[list]) -> float:
    "Every pair of labels within an item against every pair of labels from anywhere (Krippendorff 2018, ch. 12)."
    units = [[label for label in row if label is not None] for row in table]
    units = [unit for unit in units if len(unit) > 1]
    everything = [label for unit in units for label in unit]
    n = len(everything)
    if not n: return math.nan
    observed = sum(sum(a != b for a, b in itertools.permutations(unit, 2))/(len(unit) - 1) for unit in units)/n
    by_chance = sum(a != b for a, b in itertools.permutations(everything, 2))/(n*(n - 1))
    return 1 - observed/by_chance if by_chance else math.nan


def tables(annotators, missing: bool, max_items: int = 12):
    label = st.sampled_from([1, 2, 3, 7]) | (st.none() if missing else st.nothing())
    return annotators.flatmap(lambda k: st.lists(st.lists(label, min_size=k, max_size=k), min_size=1, max_size=max_items))


@settings(deadline=None)
@given(tables(st.integers(2, 5), missing=True))
def test_alpha_is_its_literal_definition(table):
    result = krippendorff_alpha(long(table), **FEW)
    assert same(result.estimate, literal_alpha(table))
    assert result.n == sum(sum(label is not None for label in row) > 1 for row in table)


@settings(deadline=None)
@given(tables(st.just(2), missing=False, max_items=30))
def test_cohen_agrees_with_scikit_learn(table):
    from sklearn.metrics import cohen_kappa_score
    first, second = zip(*table, strict=True)
    if len({*first, *second}) == 1: expected = math.nan
    else: expected = cohen_kappa_score(first, second)
    assert same(cohen_kappa(long(table), **FEW).estimate, expected)
    assert raw_agreement(long(table), **FEW).estimate == pytest.approx(np.mean(np.equal(first, second)))


@settings(deadline=None)
@given(tables(st.integers(2, 6), missing=False, max_items=25))
def test_fleiss_agrees_with_statsmodels(table):
    from statsmodels.stats.inter_rater import aggregate_raters
    from statsmodels.stats.inter_rater import fleiss_kappa as theirs
    counts, _ = aggregate_raters(np.array(table))
    expected = math.nan if counts.shape[1] == 1 else theirs(counts)
    assert same(fleiss_kappa(long(table), **FEW).estimate, expected)


@settings(deadline=None)
@given(tables(st.integers(2, 5), missing=True))
def test_raw_agreement_by_pairs(table):
    shares = []
    for row in table:
        pairs = list(itertools.combinations([label for label in row if label is not None], 2))
        if pairs: shares.append(np.mean([a == b for a, b in pairs]))
    result = raw_agreement(long(table), **FEW)
    assert result.n == len(shares) and same(result.estimate, np.mean(shares) if shares else math.nan)


def annotated(n: int, seed: int, annotators: int = 3, accuracy: float = .7) -> np.ndarray:
    generator = np.random.default_rng(seed)
    truth = generator.integers(1, 4, n)[:, None]
    return np.where(generator.random((n, annotators)) < accuracy, truth, generator.integers(1, 4, (n, annotators)))


def test_interval_resamples_items():
    table = annotated(60, 3)
    ours = krippendorff_alpha(long(table), resamples=4000)
    generator = np.random.default_rng(8)
    resampled = [krippendorff_alpha(long(table[generator.integers(0, 60, 60)]), resamples=1).estimate for _ in range(400)]
    assert (ours.low, ours.high) == pytest.approx(np.quantile(resampled, [.025, .975]), abs=.05)


def test_order_of_rows_and_names_of_ids_do_not_matter():
    frame = long(annotated(30, 2))
    for function in (raw_agreement, fleiss_kappa, krippendorff_alpha):
        assert function(frame) == function(frame.reverse()) == function(frame.with_columns(pl.col('item').hash()))
        assert function(frame.rename({'item': 'i', 'label': 'l'}), item='i', label='l') == function(frame)


def test_edges():
    frame = long([[1, 1], [2, 2], [1, 1]])
    for function in (raw_agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha):
        perfect, one, none = function(frame), function(frame.filter(item='item 0')), function(frame.clear())
        assert (perfect.estimate, perfect.low, perfect.high, perfect.n) == (1, None, None, 3)
        assert one.estimate == (1 if function is raw_agreement else None) and one.low is None and one.n == 1
        assert (none.estimate, none.low, none.n) == (None, None, 0)
        constant = function(frame.with_columns(label=5))
        assert constant.estimate == (1 if function is raw_agreement else None)
    for function in (raw_agreement, fleiss_kappa, krippendorff_alpha):  # nobody to agree with
        assert function(frame.filter(annotator='annotator 0')).estimate is None
    assert cohen_kappa(long([[1, None], [None, 2]]), **FEW).n == 0
    untyped = pl.DataFrame({'item': [], 'annotator': [], 'label': []})
    assert krippendorff_alpha(untyped).estimate is None


def test_opposite_annotators():
    assert cohen_kappa(long([[1, 2], [2, 1]]*4), **FEW).estimate == -1


def test_faults_are_named():
    frame = long([[1, 2], [2, 2]])
    twice = pl.concat([frame, frame.head(1)])
    for bad in (twice, frame.drop('item'), frame.with_columns(item=pl.lit(None, pl.String)), frame.with_columns(label=pl.lit(float('nan'))),
                frame.with_columns(label=pl.concat_list('label'))):
        for function in (raw_agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha, agreement_scores):
            with pytest.raises(DataError): function(bad)
    with pytest.raises(UsageError, match='two annotators'): cohen_kappa(long([[1, 2, 3]]))
    with pytest.raises(DataError, match='krippendorff_alpha'): fleiss_kappa(long([[1, 2, 1], [1, None, 2]]))
    for call in (lambda: raw_agreement(frame, level=2), lambda: agreement_scores(frame, level=2),
                 lambda: agreement_scores(frame, by=['label'])):
        with pytest.raises(UsageError): call()
    with pytest.raises(DataError): agreement_scores(frame, by=['who'])


def test_annotators_that_were_filtered_out_do_not_count():
    frame = long([[1, 2, 1], [2, 2, 1], [1, 1, 1]])
    two = frame.filter(pl.col('annotator') != 'annotator 1')
    kinds = frame.with_columns(pl.col(c).cast(pl.Enum(frame[c].unique().to_list())) for c in ('item', 'annotator'))
    assert cohen_kappa(kinds.filter(pl.col('annotator') != 'annotator 1')) == cohen_kappa(two)
    assert cohen_kappa(kinds.filter((pl.col('annotator') != 'annotator 1') & (pl.col('item') != 'item 0'))).n == 2


def test_table_says_why_a_value_is_missing():
    tables = {'complete': annotated(20, 1), 'gaps': [[1, None, 2], [1, 1, 1]], 'constant': [[1, 1]]*3}
    frame = pl.concat([long(table).with_columns(task=pl.lit(task)) for task, table in tables.items()])
    table = agreement_scores(frame, by=['task'], **FEW)
    assert len(table) == 12 and table.filter(pl.col('value').is_null() != pl.col('note').is_not_null()).is_empty()
    notes = dict(table.filter(coefficient="Fleiss' κ").select('task', 'note').iter_rows())
    assert notes['complete'] is None and '2 and 3' in notes['gaps'] and 'all labels are equal' in notes['constant']
    assert table.filter(task='complete', coefficient="Krippendorff's α")['value'][0] == \
        krippendorff_alpha(frame.filter(task='complete')).estimate
    assert agreement_scores(frame.clear(), by=['task']).is_empty() and agreement_scores(frame.clear()).height == 4
