"""FACTS on the sample: what is counted of it, how judges and rivals are compared, and what stands in the leaderboard's cells."""
import numpy as np
import polars as pl
import pytest

from factlab.core.core import DataError
from factlab.grounding.embedded_judge import labelled_sentences
from factlab.grounding.offline_judges import load_grounding_judge
from factlab.reports.exhibits import make_cells
from factlab.studies.facts import measured
from factlab.studies.facts.illustrations import composition, composition_cells, example_requests, load_rows
from factlab.studies.facts.judge_rates import rate_cells, rate_grid
from factlab.studies.facts.study import FactsStudy, offline_judge


def test_domains_and_tasks_are_counted_by_request():
    rows = load_rows()
    composed = composition(rows)
    requests = rows.unique('document_id')
    for kind in ('Domain', 'Task'):
        part = composed.filter(kind=kind)
        assert part['requests'].sum() == requests.height and part['share'].sum() == pytest.approx(1)
        assert sorted(part['requests']) == sorted(requests[kind.lower()].value_counts()['count'])
    assert composition_cells(composed)['published'].is_null().all()
    assert example_requests(rows)['domain'].n_unique() == 5
    with pytest.raises(DataError): composition(rows.drop('task'))


def test_a_judge_and_its_rivals_stand_on_the_same_rows():
    truth, documents = pl.Series([True, False]*20), pl.Series([str(n//4) for n in range(40)])
    answers = {'embedded': np.array([True, False]*15 + [True, True]*5), 'always grounded': np.ones(40, bool)}
    cells = make_cells('facts/judges', measured._compared_cells('Responses', truth, answers, documents, {'accuracy': 'accuracy'},
                                                                measured.NAMES, 0))
    def cell(row, column): return cells.filter(row=row, column=f'Responses: {column}').row(0, named=True)
    assert cell('Embedded judge', 'accuracy (%)')['ours'] == 87.5 and cell('Baseline: always yes', 'accuracy (%)')['ours'] == 50
    over = cell('Embedded judge', 'accuracy (%) over best baseline')
    assert over['ours'] == pytest.approx(37.5) and over['low'] > 0
    assert cell('Embedded judge', 'FPR (%)')['ours'] == 25 and cell('Embedded judge', 'FNR (%)')['ours'] == 0
    assert cell('Baseline: always yes', 'FPR (%)')['ours'] == 100
    assert set(cells.filter(pl.col('row').str.starts_with('Baseline'))['status']) == {'baseline'}
    with pytest.raises(DataError): measured.judge_cells(None, load_rows().filter(pl.col('split') == 'test'))


def test_each_judges_best_prompt_is_marked():
    grid = rate_grid(rate_cells('facts/table2'))
    assert grid.group_by('column').agg(pl.col('marked').sum())['marked'].to_list() == [1, 1, 1]
    assert grid.filter('marked')['score'].min() > 69


def test_a_limit_takes_few_documents_of_both_splits_and_makes_one_longer(monkeypatch):
    "Seen at what is read: a judge that counts, and rivals' documents."
    from factlab.grounding.embedded_judge import SentenceReading
    rows, read, fitted = load_rows(), [], []
    class Counting:
        title = 'embedded'
        class decision:
            sentences = 0
            scores = staticmethod(lambda features: features[:, 0])
        def read(self, pairs, store=None):
            read.append({document for document, _ in pairs})
            n = len(pairs)
            return SentenceReading(np.array([[at % 3 - 1.] for at in range(n)]), np.zeros(n, bool), np.ones(n), ['']*n)
    def said(judge, development, test, store, others):
        fitted.append((development['document_id'].n_unique(), test['document_id'].n_unique()))
        return {'embedded': np.ones(test.height, bool)}
    monkeypatch.setattr(measured, 'response_answers', said)
    monkeypatch.setattr(measured, 'sentence_answers', lambda *given: (given[2].with_columns(grounded='accurate'), said(*given)))
    monkeypatch.setattr(measured, 'eligibility_answers', lambda development, test, store: {'embedded': np.ones(test.height, bool)})
    for limit in (1, 2):
        cells = measured.judge_cells([Counting()], rows, limit=limit)
        assert fitted[-2:] == [(limit, limit)]*2
        long, own = read[-2:]
        assert len(long) == len(own) == 1 and len(next(iter(long)).split()) >= 3000 > len(next(iter(own)).split())
        assert next(iter(own)) in next(iter(long))
        assert cells.filter(pl.col('column').str.ends_with('less own'))['ours'].is_not_null().all()


def test_a_dry_run_reads_nothing_with_the_verifier_and_counts_the_same_examples(monkeypatch, tmp_path):
    rows, limit = load_rows(), 2
    def refuse(self, pairs, store=None): raise AssertionError('a dry run computes nothing')
    monkeypatch.setattr(type(load_grounding_judge().verifier), 'probabilities', refuse)
    with pytest.raises(AssertionError, match='computes nothing'): offline_judge('quick').verifier.probabilities([])  # when it is none
    monkeypatch.setenv('FACTLAB_DRY_RUN', str(tmp_path/'dry'))
    cells = measured.judge_cells([offline_judge(name) for name in ('embedded', 'quick', 'words')], rows, limit=limit)
    test = rows.filter(pl.col('split') == 'test')
    first = test['document_id'].unique(maintain_order=True)[:limit]
    labelled = labelled_sentences(test.filter(pl.col('document_id').is_in(first.implode())))
    assert cells.filter(row='Quick judge', column='Sentences: balanced accuracy (%)')['n'].to_list() == [labelled.height]
    board = measured.board_cells(FactsStudy(limit=limit, store=False))
    assert board.filter(row='grounded', column='Final score (%)')['n'].to_list() == [limit]
