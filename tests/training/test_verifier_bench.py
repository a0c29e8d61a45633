"""The verifier bench: what is kept as it ends, what is left out, what is marked, and its chart."""
import json

import numpy as np
import polars as pl
import pytest

import factlab.training.verifier_bench as verifier_bench
from factlab.core.core import DataError, UsageError
from factlab.training.verifier_bench import (
    BENCH,
    BENCH_SETS,
    KEPT_AT_ONCE,
    PUBLISHED_AS,
    baseline_scores,
    bench_pairs,
    bench_table,
    cross_matrix,
    kept_scores,
    run_bench,
    verifiers_at_hand,
)
from factlab.training.verifier_evaluation import MEASURED_PAIRS
from factlab.verification.published import verifier_register


class Killed(Exception): pass


class Words:
    "P(ENT) by shared words; is killed after so many pairs."
    def __init__(self, name='words', most=None): self.name, self.identity, self.most, self.read = name, {'name': 'words'}, most, 0
    def probabilities(self, pairs, store=None):
        assert store is False
        if pairs[0] == verifier_bench._FIRST[0]: return np.zeros((1, 3), np.float32)
        if self.most is not None and self.read >= self.most: raise Killed
        self.read += len(pairs)
        share = [len({*claim.split()} & {*text.split()})/len(claim.split()) for text, claim in pairs]
        return np.array([[each, 0, 1 - each] for each in share], np.float32)


def invented(n=50):
    rng = np.random.default_rng(0)
    rows = []
    for at in range(n):
        words = rng.choice(['owl', 'otter', 'heron', 'mill', 'river', 'hill', 'dawn', 'fish'], 6)
        supported = bool(at % 2)
        claim = ' '.join(words[:3]) if supported or at % 6 == 0 else ' '.join([words[0], 'burned', 'down'])
        rows.append({'id': str(at), 'set': 'invented', 'claim': claim, 'evidence': ' '.join(words), 'supported': supported,
                     'group': str(at//2)})
    return MEASURED_PAIRS.frame(rows)


@pytest.fixture
def two_sets(monkeypatch):
    "Two sets at hand of which one was trained on, one that is not, one of one kind alone."
    def pairs(name, most=None, seed=0):
        if name == 'dialfact': raise DataError('fetch it')
        found = invented().with_columns(set=pl.lit(name))
        return (found.filter('supported') if name == 'fm2' else found).head(most or 50)
    monkeypatch.setattr(verifier_bench, 'bench_pairs', pairs)
    monkeypatch.setattr(verifier_bench, 'load_verifier', lambda name: Words(name))
    return ['wice', 'sample', 'dialfact', 'fm2']


def test_a_killed_cell_goes_on_where_it_was(tmp_path):
    rows = invented().select('evidence', 'claim').rows()
    with pytest.raises(Killed): kept_scores(Words(most=2*KEPT_AT_ONCE), rows, tmp_path)
    file, = tmp_path.iterdir()
    assert len(json.loads(file.read_text())['probabilities']) == 2*KEPT_AT_ONCE
    second = Words()
    found, took = kept_scores(second, rows, tmp_path)
    assert second.read == len(rows) - 2*KEPT_AT_ONCE and took > 0
    assert np.array_equal(found, Words().probabilities(rows, False)[:, 0].astype(float))
    third = Words()
    assert np.array_equal(kept_scores(third, rows, tmp_path)[0], found) and third.read == 0
    kept_scores(third, rows[1:], tmp_path)
    assert third.read == len(rows) - 1 and len(list(tmp_path.iterdir())) == 2  # other pairs, another file


def test_a_run_and_its_marks(two_sets, tmp_path):
    bench = run_bench(['mpnet', 'hhem-2.1-open', 'cosine'], two_sets, 40, 50, folder=tmp_path)
    assert [*bench.pairs] == ['wice', 'sample'] and {*bench.left_out} == {'dialfact', 'fm2'}
    assert 'not at hand' in bench.left_out['dialfact'] and 'one kind' in bench.left_out['fm2']
    table = BENCH.check(bench_table(bench, 100))
    seen = {(row['system'], row['set']): row['trained on'] for row in table.iter_rows(named=True)}
    assert seen['mpnet', 'wice'] is True and seen['mpnet', 'sample'] is seen['cosine', 'wice'] is seen['constant', 'wice'] is False
    assert seen['hhem-2.1-open', 'wice'] is None
    assert table.filter(system='constant')['AUROC'].to_list() == [.5, .5] and table['n'].unique().to_list() == [40]
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score
    truth, score = bench.pairs['wice']['supported'].to_numpy(), bench.scores['mpnet', 'wice']
    row = table.row(by_predicate=(pl.col('system') == 'mpnet') & (pl.col('set') == 'wice'), named=True)
    assert row['AUROC'] == pytest.approx(roc_auc_score(truth, score)) and row['AUROC low'] <= row['AUROC'] <= row['AUROC high']
    assert row['balanced accuracy'] == pytest.approx(balanced_accuracy_score(truth, score >= .5))
    again = run_bench(['mpnet', 'hhem-2.1-open', 'cosine'], two_sets, 40, 50, folder=tmp_path)
    assert again.seconds == bench.seconds and len(list(tmp_path.iterdir())) == 1  # all have one identity and the same texts here


def test_the_cross_matrix(two_sets, tmp_path):
    bench = run_bench(['mpnet', 'hhem-2.1-open'], two_sets[:2], 40, 50, folder=tmp_path)
    spec = cross_matrix(bench_table(bench, 100), ['hhem-2.1-open', 'mpnet', 'word overlap']).to_dict()
    data = next(iter(spec['datasets'].values()))
    assert len(data) == 6 and [row['column'] for row in data[:3]] == ['hhem-2.1-open', 'hhem-2.1-open', 'mpnet']
    assert {(row['row'], row['column']) for row in data if row['marked']} == {('wice', 'mpnet')}
    assert 'Not all that trained hhem-2.1-open is known' in ' '.join(spec['title']['subtitle'])


def test_baselines_ask_nothing_and_learn_from_other_groups():
    pairs = invented()
    found = baseline_scores(pairs.head(30), pairs)
    assert [*found] == ['constant', 'claim words', 'evidence words', 'number of claim words', 'number of evidence words',
                        'number of claim sentences', 'word overlap']
    assert all(len(score) == len(said) == 30 and np.isfinite(score).all() for score, said in found.values())


def test_sets_and_their_published_names():
    assert {*PUBLISHED_AS} == {*BENCH_SETS}
    known = {name for row in verifier_register()['trained_on'].drop_nulls() for name in row}
    assert {'WiCE', 'Fool Me Twice', 'SummEdits'} <= known & {*PUBLISHED_AS.values()}
    with pytest.raises(UsageError, match="did you mean 'wice'"): bench_pairs('wicee')
    assert len(bench_pairs('final-sample', 10)) == 10 and bench_pairs('sample', 6)['set'].unique().to_list() == ['sample']


def test_what_is_at_hand(monkeypatch):
    monkeypatch.setattr(verifier_bench, 'at_hand', lambda name: name.startswith('factcg'))
    assert verifiers_at_hand() == ['mpnet', 'factcg-deberta-v3-large', 'cosine']
