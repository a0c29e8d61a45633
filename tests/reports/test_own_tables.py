"""Figures of `score`, `judge` and `compare` on 200 random tables beside other libraries' and plain counts, and the coverage of intervals.

Tables are small and uneven on purpose: constant answers, answers that are missing, classes that are rare, ties."""
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn import metrics
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from factlab.reports.own_comparison import compare_results
from factlab.reports.own_judge import agreement_table, judged_rows, powered_share, rogan_gladen_share
from factlab.reports.own_scores import score_labels, score_spans

TWO = {'resamples': 2}
MISSING = '(missing)'


def table(seed: int) -> tuple[list[str], list[list[str]], np.ndarray]:  # gold, what three systems say, and chance for probabilities
    generator = np.random.default_rng(seed)
    classes = ['no', 'yes'] if seed % 2 else ['maybe', 'no', 'yes']
    n = int(generator.integers(6, 60))
    gold = generator.choice(classes, n, p=generator.dirichlet(np.ones(len(classes))))
    gold[:len(classes)] = classes  # each is there
    said = [np.where(generator.random(n) < skill, gold, generator.choice(classes, n)).astype(object) for skill in generator.random(3)]
    if seed % 5 == 0: said[0][:] = 'yes'
    if seed % 7 == 0: said[1][generator.integers(0, n, 2)] = MISSING
    return gold.tolist(), [each.tolist() for each in said], generator.random(n)


def frames(gold, said, chance) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    ids = [f'r{at}' for at in range(len(gold))]
    def column(each): return [None if label == MISSING else label for label in each]
    return pl.DataFrame({'id': ids, 'gold': gold}), {
        f's{at}': pl.DataFrame({'id': ids, 'predicted': column(each), 'probability': of_yes(each, chance)}) for at, each in enumerate(said)}


def of_yes(said, chance) -> np.ndarray:
    "Higher where a system says 'yes', mostly."
    return .6*chance + .4*(np.array(said) == 'yes')


def alpha_by_pairs(gold, said) -> float:
    "Krippendorff's α of nominal labels: one less disagreement within rows over disagreement among all labels, counted pair by pair."
    labels = [*gold, *said]
    within = np.mean([a != b for a, b in zip(gold, said, strict=True)])
    among = sum(a != b for a, b in product(labels, repeat=2))/(len(labels)*(len(labels) - 1))
    return 1 - within/among


def calibration_gap(truth, probability) -> float:
    bins = np.minimum((probability*10).astype(int), 9)
    return sum(abs(probability[bins == at].mean() - truth[bins == at].mean())*(bins == at).mean() for at in set(bins.tolist()))


def mid_p(first, second) -> float:
    b, c = int((first & ~second).sum()), int((~first & second).sum())
    return 1. if b == c else mcnemar([[0, b], [c, 0]], exact=True).pvalue - stats.binom.pmf(min(b, c), b + c, .5)


@pytest.mark.parametrize('tens', range(20))
def test_figures_of_200_tables(tens):
    for seed in range(10*tens, 10*tens + 10):
        gold, said, chance = table(seed)
        classes, truth, probability = sorted(set(gold)), np.array(gold), of_yes(said[0], chance)
        rows, predictions = frames(gold, said, chance)
        scored = score_labels(rows, predictions, 'verdicts', positive='yes', **TWO).tables
        for name, each in zip(predictions, said, strict=True):
            row = scored['scores'].filter(system=name).row(0, named=True)
            assert row['accuracy'] == pytest.approx(metrics.accuracy_score(gold, each))
            assert row['balanced_accuracy'] == pytest.approx(metrics.recall_score(gold, each, labels=classes, average='macro'))
            assert row['macro_f1'] == pytest.approx(metrics.f1_score(gold, each, labels=classes, average='macro', zero_division=0))
            interval = proportion_confint(sum(a == b for a, b in zip(gold, each, strict=True)), len(gold), method='wilson')
            assert (row['accuracy_low'], row['accuracy_high']) == pytest.approx(interval)
            theirs = metrics.precision_recall_fscore_support(gold, each, labels=classes, zero_division=np.nan)
            ours = scored['by class'].filter(system=name).sort('class').select('precision', 'recall', 'f1', 'n')
            for column, values in zip(ours.columns, theirs, strict=True):
                assert ours[column].fill_null(np.nan).to_list() == pytest.approx(values.tolist(), nan_ok=True)
        calibration = dict(scored['calibration'].filter(system='s0').select('measure', 'value').rows())
        assert calibration['Brier score'] == pytest.approx(metrics.brier_score_loss(truth == 'yes', probability))
        assert calibration['expected calibration error'] == pytest.approx(calibration_gap(truth == 'yes', probability))
        assert calibration['AUROC'] == pytest.approx(metrics.roc_auc_score(truth == 'yes', probability))
        judge_is_right(rows, predictions['s2'], gold, said[2])
        comparison_is_right(rows, predictions, gold, said)


def judge_is_right(rows, verdicts, gold, said) -> None:
    judged = judged_rows(verdicts, rows, 'yes')
    found = {name: ends for name, *ends in agreement_table(judged, **TWO).select('measure', 'value', 'value_low', 'value_high').rows()}
    assert found['agreement'][0] == pytest.approx(metrics.accuracy_score(gold, said))
    assert found["Cohen's κ"][0] == pytest.approx(metrics.cohen_kappa_score(gold, said))
    assert found["Krippendorff's α"][0] == pytest.approx(alpha_by_pairs(gold, said))
    truth, called = np.array(gold) == 'yes', np.array(said) == 'yes'
    for name, k, n in (('sensitivity', (truth & called).sum(), truth.sum()), ('specificity', (~truth & ~called).sum(), (~truth).sum()),
                       ('precision', (truth & called).sum(), called.sum())):
        if n: assert found[name] == pytest.approx([k/n, *proportion_confint(k, n, method='wilson')])
        else: assert found[name] == [None]*3
    assert found['f1'][0] == pytest.approx(metrics.f1_score(truth, called))


def comparison_is_right(rows, predictions, gold, said) -> None:
    found = compare_results({name: frame.drop('probability').join(rows, on='id') for name, frame in predictions.items()}, **TWO).tables
    right = {name: np.array([a == b for a, b in zip(gold, each, strict=True)]) for name, each in zip(predictions, said, strict=True)}
    for pair in found['pairs'].iter_rows(named=True):
        first, second = right[pair['first']], right[pair['second']]
        assert pair['difference'] == pytest.approx(first.mean() - second.mean())
        assert pair['p'] == pytest.approx(mid_p(first, second))
    assert found['pairs']['p_holm'].to_list() == pytest.approx(multipletests(found['pairs']['p'], method='holm')[1].tolist())


@pytest.mark.parametrize('tens', range(20))
def test_spans_of_200_tables(tens):
    for seed in range(10*tens, 10*tens + 10):
        generator, sets = np.random.default_rng(seed), []
        for _ in range(2):
            drawn = generator.integers(0, [6, 30, 8], (generator.integers(0, 12), 3)).tolist()
            spans = [(f't{text}', start, start + length + 1) for text, start, length in drawn]
            sets.append(spans + [(f't{text}', None, None) for text in range(6) if f't{text}' not in {id for id, *_ in spans}])
        gold, said = (pl.DataFrame(spans, schema={'id': pl.String, 'start': pl.Int64, 'end': pl.Int64}, orient='row') for spans in sets)
        found = score_spans(gold, {'s': said}, **TWO).tables
        characters = [{(id, at) for id, start, end in spans if start is not None for at in range(start, end)} for spans in sets]
        whole = [{span for span in spans if span[1] is not None} for spans in sets]
        for name, (a, b) in (('by characters', characters), ('exact spans', whole)):
            if a or b: assert found[name].row(0, named=True)['f1'] == pytest.approx(2*len(a & b)/(len(a) + len(b)))


# ---- intervals hold what they say, within two points of 95 %, and what a simulation itself is unsure of

def covers(found, times: int) -> bool: return abs(found/times - .95) <= .02 + 2*(.95*.05/times)**.5


def test_the_difference_of_two_systems_is_covered():
    generator, inside, times = np.random.default_rng(0), 0, 400
    gold, ids = ['yes']*120, [f'r{at}' for at in range(120)]
    for _ in range(times):
        hard = generator.random(120)
        said = {name: np.where(.6*hard + .4*generator.random(120) < skill, 'yes', 'no') for name, skill in (('a', .65), ('b', .55))}
        files = {name: pl.DataFrame({'id': ids, 'predicted': each, 'gold': gold}) for name, each in said.items()}
        pair = compare_results(files, **TWO).tables['pairs'].row(0, named=True)
        inside += pair['difference_low'] <= TRUE_DIFFERENCE <= pair['difference_high']
    assert covers(inside, times), inside/times


def _share_below(limit: float) -> float:
    "P(.6 u + .4 v < limit), u and v uniform."
    grid = (np.arange(4000) + .5)/4000
    return float(np.clip((limit - .6*grid)/.4, 0, 1).mean())


TRUE_DIFFERENCE = _share_below(.65) - _share_below(.55)


def test_corrected_scores_are_covered():
    generator, times, share, found = np.random.default_rng(1), 400, .6, {'powered': 0, 'rogan-gladen': 0, 'rogan-gladen in strata': 0}
    ids = [f'r{at}' for at in range(900)]
    for _ in range(times):
        truth = generator.random(900) < share
        called = generator.random(900) < np.where(truth, .85, .25)
        known = generator.choice(900, 150, replace=False)
        verdicts = pl.DataFrame({'id': ids, 'predicted': np.where(called, 'yes', 'no')})
        labels = pl.DataFrame({'id': [ids[at] for at in known], 'gold': np.where(truth[known], 'yes', 'no')})
        judged = judged_rows(verdicts, labels, drawn='random')
        for name, (_, low, high, _) in (('powered', powered_share(judged)), ('rogan-gladen', rogan_gladen_share(judged, resamples=300))):
            found[name] += low <= share <= high
        each = np.concatenate([generator.choice(np.flatnonzero(called == side), 120, replace=False) for side in (False, True)])
        labels = pl.DataFrame({'id': [ids[at] for at in each], 'gold': np.where(truth[each], 'yes', 'no')})
        _, low, high, _ = rogan_gladen_share(judged_rows(verdicts, labels, drawn='stratified:predicted'), resamples=300)
        found['rogan-gladen in strata'] += low <= share <= high
    assert all(covers(count, times) for count in found.values()), {name: count/times for name, count in found.items()}
