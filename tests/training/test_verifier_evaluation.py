"""The verifier's measures: against scikit-learn, over groups, paired; and the sets that it is measured on."""
import numpy as np
import pytest
from conftest import real_data

from factlab.training.verifier_evaluation import (
    EVALUATION,
    MEASURED_PAIRS,
    MEASURED_SETS,
    beside_baselines,
    evaluation_rows,
    grouped_auroc,
    grouped_balanced_accuracy,
    measured_pairs,
)


def test_auroc_and_balanced_accuracy_agree_with_scikit_learn():
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score
    rng = np.random.default_rng(0)
    for _ in range(5):
        truth, group = rng.random(120) < .4, rng.integers(0, 30, 120)
        score = np.round(truth*.7 + rng.normal(size=120), 1)
        found, accuracy = grouped_auroc(truth, score, group, resamples=300), grouped_balanced_accuracy(truth, score > .4, group)
        assert found.estimate == pytest.approx(roc_auc_score(truth, score)) and found.low < found.estimate < found.high
        assert found.n == len(set(group))
        assert accuracy.estimate == pytest.approx(balanced_accuracy_score(truth, score > .4))
        assert accuracy.low < accuracy.estimate < accuracy.high


def test_intervals_over_groups_are_wider_where_groups_repeat():
    rng = np.random.default_rng(1)
    truth, score = np.repeat(rng.random(40) < .5, 10), np.repeat(rng.normal(size=40), 10)
    alone, grouped = (grouped_auroc(truth, score, group, 500) for group in (np.arange(400), np.repeat(np.arange(40), 10)))
    assert grouped.high - grouped.low > 2*(alone.high - alone.low)


def test_one_class_has_no_auroc():
    assert grouped_auroc(np.ones(4, bool), np.arange(4.), np.arange(4)).estimate is None


def test_differences_are_paired():
    pairs = MEASURED_PAIRS.frame([{'id': str(at), 'set': 'own', 'claim': 'c', 'evidence': 'e', 'supported': at % 2 == 0, 'group': str(at)}
                                  for at in range(60)])
    truth = pairs['supported'].to_numpy()
    rows = evaluation_rows(pairs, {'ours': truth*.8, 'same': truth*.8, 'wrong': ~truth*.8}, {'ours': .5, 'same': .5, 'wrong': .5})
    found = {row['system']: row for row in rows if row['metric'] == 'balanced accuracy'}
    assert found['ours − same']['low'] == found['ours − same']['high'] == 0 and found['ours − wrong']['estimate'] == 1
    assert EVALUATION.frame(rows).height == 10
    orders = {row['system']: row for row in rows if row['metric'] == 'AUROC'}
    assert orders['ours − same']['low'] == orders['ours − same']['high'] == 0 and orders['ours − wrong']['estimate'] == 1


def test_a_baseline_has_a_threshold_of_the_set_itself():
    pairs = MEASURED_PAIRS.frame([{'id': str(at), 'set': 'own', 'claim': 'c', 'evidence': 'e', 'supported': at % 3 == 0,
                                   'group': str(at//2)} for at in range(120)])
    truth = pairs['supported'].to_numpy()
    scores = {'ours': truth*.8, 'low': .001 + truth*.001, 'luck': np.random.default_rng(0).random(120)}  # one half says no to every 'low'
    rows = evaluation_rows(pairs, scores, {'ours': .5, 'low': None, 'luck': None})
    found = {row['system']: row['estimate'] for row in rows if row['metric'] == 'balanced accuracy'}
    assert found['ours'] == found['low'] == 1 and found['ours − low'] == 0 and abs(found['luck'] - .5) < .15


@pytest.mark.parametrize('name', MEASURED_SETS)
def test_measured_sets_have_both_answers_and_whole_groups(name):
    for needed in {'xsumfaith': ('defacto', name)}.get(name, (name,)*(not name.startswith('sample'))): real_data(needed)
    pairs = measured_pairs(name, 100)
    assert pairs['supported'].n_unique() == 2 and len(pairs) == 100 and pairs.equals(measured_pairs(name, 100))


def test_a_reader_sees_the_best_baseline_and_whether_the_difference_is_beyond_chance():
    pairs = MEASURED_PAIRS.frame([{'id': str(at), 'set': 'fm2', 'claim': 'c', 'evidence': 'e', 'supported': at % 2 == 0, 'group': str(at)}
                                  for at in range(80)])
    truth, luck = pairs['supported'].to_numpy(), np.random.default_rng(0).random(80)
    good, poor = truth + luck, truth*.3 + luck
    def told(scores): return beside_baselines(EVALUATION.frame(evaluation_rows(pairs, scores, {'trained': .5}))).row(0, named=True)
    ahead = told({'trained': good, 'poor': poor, 'luck': luck})
    assert (ahead['better'], ahead['n']) == ('yes', 80) and ahead['best baseline'].startswith('poor: 0.')
    behind = told({'trained': poor, 'good': good, 'luck': luck})
    assert behind['better'] == 'no' and behind['best baseline'] == 'good: 1.00' and behind['difference'].startswith('-0.')
