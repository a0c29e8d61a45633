"""FHSumBench's measured cells against scikit-learn and scipy, and the printed ones on one footing."""
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import precision_recall_fscore_support

from factlab.mixed_context.labels import FACTUAL, LABELS, NON_FACTUAL, NONE
from factlab.mixed_context.scores import ANSWERS, UNPARSED, label_predictions
from factlab.reports.baseline_rows import BASELINE_ROW, BEST_BASELINE
from factlab.reports.published import published_values
from factlab.studies.fhsum.measured import (
    ONE_FOOTING,
    TAU,
    Answers,
    accuracy_cells,
    between_sets,
    footing_cells,
    half_scores,
    printed_shares,
    rank_agreement,
    score_cells,
    several_cells,
    share_cells,
    share_marks,
    transfer_marks,
)
from factlab.studies.fhsum.study import UNDECIDED, Settings, development_rows, scored_rows


@pytest.fixture(scope='module')
def rows(): return scored_rows(Settings()).frame


def drawn(rows, seed, wrong=.5):
    "Labels, some of them drawn at random, and one in twelve unread."
    generator = np.random.default_rng(seed)
    labels = [label if generator.random() > wrong else LABELS[generator.integers(3)] for label in rows['label']]
    found = label_predictions(rows, labels)
    unread = pl.Series(generator.random(rows.height) < 1/12)
    return found.with_columns(label=pl.when(~unread).then('label'), status=pl.when(unread).then(pl.lit('unparsed')).otherwise('status'))


@pytest.fixture(scope='module')
def methods(rows):
    wrong = {'good': .2, 'fair': .5, 'bad': .9}
    return {name: drawn(rows, at, share) for at, (name, share) in enumerate(wrong.items())}


def constant(rows): return {'majority': label_predictions(rows, [NONE]*rows.height)}


@pytest.fixture(scope='module')
def majority(rows): return constant(rows)


def cell(cells, row, column, against=None):
    return cells.filter((pl.col('row') == row) & (pl.col('column') == column) & pl.col('against').eq_missing(against)).row(0, named=True)


def test_scores_are_those_of_scikit_learn(rows, methods, majority):
    cells = score_cells('fhsum/table1', Answers('Sample', rows, methods, majority))
    for name, found in methods.items():
        truth, said = rows['label'].to_list(), found['label'].fill_null(UNPARSED).to_list()
        expected = precision_recall_fscore_support(truth, said, labels=LABELS, average='macro', zero_division=0)
        for column, value in zip(('Precision', 'Recall', 'F1'), expected, strict=False):
            assert cell(cells, name, f'Sample {column}')['measured'] == pytest.approx(value)
        assert cell(cells, name, 'Sample F1')['unparsed'] == found['label'].null_count()
        assert cell(cells, name, 'Sample F1')['low'] <= cell(cells, name, 'Sample F1')['measured'] <= cell(cells, name, 'Sample F1')['high']


def test_precision_and_recall_as_the_paper_averages_are_shown(rows, methods, majority):
    "In print the judges' recall is the sum of three accuracies over four (Tables 1 and 6): what is outside the scheme is one more class."
    cells = score_cells('fhsum/table1', Answers('Sample', rows, methods, majority))
    for name, found in methods.items():
        said = found['label'].fill_null(UNPARSED).to_list()
        precision, recall, *_ = precision_recall_fscore_support(rows['label'].to_list(), said, labels=[*LABELS, UNPARSED], average='macro',
                                                                zero_division=0)
        assert found['label'].null_count()
        shown = {column: cell(cells, name, f'Sample {column} as the paper averages')['measured']
                 for column in ('Precision', 'Recall', 'F1')}
        assert shown == pytest.approx({'Precision': precision, 'Recall': recall, 'F1': 2*precision*recall/(precision + recall)})
        assert shown['Recall'] == pytest.approx(cell(cells, name, 'Sample Recall')['measured']*3/4)


def test_each_method_stands_beside_the_best_baseline(rows, methods, majority):
    cells = score_cells('fhsum/table1', Answers('Sample', rows, methods, majority))
    base = cell(cells, f'{BASELINE_ROW}majority', 'Sample F1')
    assert base['status'] == 'baseline' and base['measured'] == pytest.approx(1/6)
    for name in methods:
        over = cell(cells, name, 'Sample F1', BEST_BASELINE)
        assert over['measured'] == pytest.approx(cell(cells, name, 'Sample F1')['measured'] - base['measured'])
    assert cell(cells, 'good', 'Sample F1', BEST_BASELINE)['low'] > 0


def test_methods_stand_beside_one_of_them_too(rows, methods, majority):
    cells = score_cells('fhsum/table1', Answers('Sample', rows, methods, majority), beside=['bad'])
    apart = cells.filter(against='bad')
    assert set(apart['column']) == {'Sample F1 over bad'} and set(apart['kind']) == {'difference'}
    assert apart['row'].to_list() == ['good', 'fair'] and apart['low'][0] > 0
    assert apart['measured'][0] == pytest.approx(cell(cells, 'good', 'Sample F1')['measured'] - cell(cells, 'bad', 'Sample F1')['measured'])


def test_accuracies_are_recalls_of_their_label(rows, methods, majority):
    cells = accuracy_cells('fhsum/table6', Answers('Sample', rows, methods, majority))
    for label in LABELS:
        right = (methods['fair']['label'] == label).fill_null(False) & (rows['label'] == label)
        assert cell(cells, 'fair', f'Sample {label} accuracy')['measured'] == pytest.approx(right.sum()/(rows['label'] == label).sum())
    assert cell(cells, f'{BASELINE_ROW}majority', f'Sample {NONE} accuracy')['measured'] == 1


def test_shares_of_a_label_add_up(rows, methods):
    cells = share_cells('fhsum/fig4', Answers('Sample', rows, methods))
    for label in (FACTUAL, NON_FACTUAL, NONE):
        of = cells.filter(pl.col('metric').is_in([f'{label} predicted {answer} share' for answer in ANSWERS]), row='bad')
        assert of['measured'].sum() == pytest.approx(1) and of['n'].unique().to_list() == [28]
    both = share_cells('fhsum/fig4', Answers('Sample', rows, methods, constant(rows)))
    assert cell(both, f'{BASELINE_ROW}majority', f'Sample {NONE} predicted {NONE} share')['status'] == 'baseline'
    assert cell(both, f'{BASELINE_ROW}majority', 'Sample F1')['measured'] == pytest.approx(1/6)
    marks = share_marks(cells)
    baselines = share_marks(both).filter(status='baseline')
    assert set(baselines['row']) == {f'{BASELINE_ROW}majority'} and not share_marks(both, shown=()).filter(status='baseline').height
    assert marks.group_by('panel', 'row').agg(pl.col('share').sum())['share'].to_list() == pytest.approx([1]*9)
    assert marks['panel'].unique(maintain_order=True).to_list() == list(LABELS)
    assert marks.filter('right').select('panel', 'part').unique().height == 3
    assert marks.filter(pl.col('panel') == NONE, row='fair', right=True)['share'].item() == pytest.approx(
        cell(cells, 'fair', f'Sample {NONE} predicted {NONE} share')['measured'])
    name = 'Verifier + Reflection Retrieval'
    named = Answers('Sample', rows, {name: methods['fair'], name + UNDECIDED: methods['bad']})
    assert set(share_marks(share_cells('fhsum/fig4', named))['row']) == {name, 'Verifier + Reflection (may abstain)'}


def test_printed_accuracies_of_a_model_are_table_6():
    shown, printed = printed_shares('fhsum/fig6', 'Llama3-8B'), published_values('fhsum/table6')
    printed = printed.filter(pl.col('value').is_not_null(), model='Llama3-8B')
    assert set(shown['row']) == set(printed['row']) and set(shown['exhibit']) == {'fhsum/fig6'}


def test_one_footing_takes_four_classes_back_to_three():
    cells = footing_cells('fhsum/table1')
    printed = cell(cells, 'Llama3-8B + Vanilla Judge', 'FHSumBench F1')['published']
    assert cell(cells, 'Llama3-8B + Vanilla Judge',
                f'FHSumBench {ONE_FOOTING.format("F1")}')['recomputed'] == pytest.approx(printed*4/3, abs=1e-3)
    random = cell(cells, 'Random', 'FHSumBench F1')['published']
    assert cell(cells, 'Random', f'FHSumBench {ONE_FOOTING.format("F1")}')['recomputed'] == pytest.approx(random, abs=1e-3)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9))
def test_agreement_is_that_of_scipy(pairs):
    first, second = np.array(pairs, float).T
    assert rank_agreement(first, second) == pytest.approx(kendalltau(first, second).statistic, nan_ok=True)


def test_halves_are_of_documents_and_scored_apart(rows, methods):
    first, second = half_scores(rows, methods, splits=40)
    assert first.shape == second.shape == (40, 3) and len(np.unique(first[:, 0])) > 5
    one = rows.head(2).with_columns(document_id=pl.Series(['a', 'b']))
    found = half_scores(one, {'right': label_predictions(one, one['label'].to_list())}, splits=5)
    assert set((found[0] + found[1]).ravel().round(6)) == {1.0 if one['label'].n_unique() > 1 else 2.0}  # one document in each half


def test_transfer_compares_the_order_of_methods(rows, methods, majority):
    other = development_rows(Settings()).frame
    again = {name: drawn(other, 10 + at, wrong) for at, (name, wrong) in enumerate({'good': .9, 'fair': .5, 'bad': .1}.items())}
    twice = {**methods, f'good{UNDECIDED}': methods['good']}  # a method counts once in an order
    more = {**again, f'good{UNDECIDED}': again['good']}
    cells = several_cells('fhsum/transfer', [Answers('Sample', rows, twice, majority),
                                             Answers('other', other, more, constant(other))])
    scores = [[cell(cells, name, f'{title} F1')['measured'] for name in methods] for title in ('Sample', 'other')]
    tau = cell(cells, 'Sample and other', TAU)
    assert tau['measured'] == pytest.approx(kendalltau(*scores).statistic) == -1 and tau['n'] == rows.height + other.height
    assert tau['low'] == -1 and tau['high'] < 1 and cell(cells, 'Sample and other', TAU, BEST_BASELINE)['high'] == tau['high']
    chance = cell(cells, f'{BASELINE_ROW}an order of 3 methods at random', TAU)
    assert (chance['measured'], chance['low'], chance['high'], chance['status']) == (0, -1, 1, 'baseline')  # three methods say nothing
    assert cell(cells, 'Sample, one half and the other', TAU)['measured'] > .8
    marks, best = transfer_marks(cells), f'{BASELINE_ROW}the best on each set'
    assert set(marks['place']) == {f'Sample (n = {rows.height})', f'other (n = {other.height})'}
    assert set(marks['series']) == {*methods, best} and marks.filter(status='baseline')['series'].to_list() == [best]*2
    assert between_sets(cells) == ['τ = −1.00'] and between_sets(cells.filter(data='Sample')) == []


def test_what_a_default_decides_is_counted_and_left_out_beside(rows, methods, majority):
    found = methods['good']
    defaulted = pl.Series(np.arange(rows.height) < 23)
    undecided = found.with_columns(label=pl.when(~defaulted).then('label'), status=pl.when(defaulted).then(pl.lit('unparsed')).otherwise(
        'status'))
    both = {'good': found, f'good{UNDECIDED}': undecided}
    cells = score_cells('fhsum/table2', Answers('Sample', rows, both, majority))
    already = found['label'].head(23).null_count()  # unread in both
    assert cell(cells, 'good', 'Sample F1')['forced'] == 23 - already and cell(cells, f'good{UNDECIDED}', 'Sample F1')['forced'] is None
    assert cell(cells, f'good{UNDECIDED}', 'Sample F1')['unparsed'] == undecided['label'].null_count()
    assert cell(cells, f'good{UNDECIDED}', 'Sample F1')['measured'] < cell(cells, 'good', 'Sample F1')['measured']
    assert cell(cells, f'good{UNDECIDED}', 'Sample F1', BEST_BASELINE)['low'] is not None
    by_label = accuracy_cells('fhsum/table6', Answers('Sample', rows, both, majority))
    counts = [cell(by_label, 'good', f'Sample {label} accuracy')['forced'] or 0 for label in LABELS]
    assert sum(counts) == 23 - already and max(counts) < 23
    plain = score_cells('fhsum/table1', Answers('Sample', rows, methods, majority))
    assert plain['forced'].null_count() == plain.height
