"""FHSumBench: what its cells say about each other, derived again by other means."""
import polars as pl
import pytest
from printed_tables import number, printed

from factlab.audit.checks import PublishedCells
from factlab.audit.class_averages import one_footing
from factlab.audit.counts import split_sizes
from factlab.reports.published import published_values
from factlab.studies.fhsum.findings import FINDINGS
from factlab.studies.fhsum.relations import RELATIONS

ACCURACIES = [f'{{}} {name} hallucination accuracy' for name in ('factual', 'non-factual', 'no')]


def accuracies(row, benchmark, table='fhsum/table6'):
    values = [number(table, row, column.format(benchmark)) for column in ACCURACIES]
    return [v for v in values if v is not None]


def test_again_classes():
    for row in published_values('fhsum/table1')['row'].unique():
        for benchmark, classes in (('FHSumBench', 3 if row in ('Random', 'EntFA') else 4), ('M-XSum', 3)):
            assert sum(accuracies(row, benchmark))/classes == pytest.approx(number('fhsum/table1', row, f'{benchmark} Recall'), abs=1.2e-4)
    for model in ('Llama3-8B', 'Qwen2.5-14B', 'GPT-4o'):
        for method, classes in (('Knowledge', 3), ('Concurrent', 2), ('Reflection', 2)):
            row = f'{model} + {method} Retrieval'
            assert sum(accuracies(row, 'M-XSum'))/classes == pytest.approx(number('fhsum/table2', row, 'M-XSum Recall'), abs=1.2e-4)


def test_again_swapped_rows_and_recalls():
    concurrent, reflection = (f'Qwen2.5-14B + {method} Retrieval' for method in ('Concurrent', 'Reflection'))
    for a, b in ((concurrent, reflection), (reflection, concurrent)):
        assert sum(accuracies(a, 'FHSumBench'))/4 == pytest.approx(number('fhsum/table2', b, 'FHSumBench Recall'), abs=1e-4)
        for measure in ('Precision', 'Recall', 'F1'):
            assert number('fhsum/table7', a, f'FHSumBench {measure}') == number('fhsum/table2', b, f'FHSumBench {measure}')
    for model in ('Llama3-8B', 'GPT-4o'):
        for method in ('Concurrent', 'Reflection'):
            row = f'{model} + {method} Retrieval'
            gaps = [abs(sum(accuracies(row, 'FHSumBench'))/n - number('fhsum/table2', row, 'FHSumBench Recall')) for n in range(1, 10)]
            assert min(gaps) > 0.001


def test_again_f1():
    for exhibit, rows in (('fhsum/table3', [', knowledge base Wikidata', ', reflection loop', ', top-k 3']), ('fhsum/table7', [None])):
        for row in rows:
            row = f'Llama3-8B + Reflection Retrieval{row}' if row else 'Qwen2.5-32B + ICL'
            p, r, f = (number(exhibit, row, f'FHSumBench {m}') for m in ('Precision', 'Recall', 'F1'))
            assert 2*p*r/(p + r) - f > 0.002


def test_again_counts():
    row = 'GPT-4o + Reflection Retrieval'
    for rate, n in zip(accuracies(row, 'FHSumBench'), (501, 410, 425), strict=True):
        for runs in range(1, 6): assert min(abs(k/(n*runs) - rate) for k in range(n*runs + 1)) > 5e-5
    failing = ['EntFA', 'Llama3-8B + Vanilla Judge', 'Qwen2.5-14B + CoT', 'Qwen2.5-14B + Concurrent Retrieval',
               'Llama3-8B + Reflection Retrieval', row]
    def near(rate, n): return abs(round(rate*n)/n - rate) <= 5.01e-5
    for name in failing:
        a, b = accuracies(name, 'M-XSum')
        assert not any(near(a, (912 - n)*m) and near(b, n*m) for n in range(835, 849) for m in range(1, 6))
    p = (1/(1 + 25) + 222/(222 + 41))/2
    assert (printed(1/42, 4), printed(222/247, 4), printed(p, 4)) == ('0.0238', '0.8988', '0.4413')


def test_again_systems_below_random():
    below = {name: set() for name in ('printed recall', 'recall')}
    footing = one_footing('fhsum').filter((pl.col('benchmark') == 'FHSumBench') & ~pl.col('exhibit').str.contains('table7'))
    for name in below:
        random = footing.filter(pl.col('row') == 'Random')[name].item()
        below[name] = set(footing.filter(pl.col(name) < random)['row'])
    assert len(below['printed recall']) == 5 and below['recall'] == {'EntFA'}


def test_precision_over_other_classes_is_excluded():
    book = PublishedCells(published_values(paper='fhsum'))
    split, = RELATIONS.splits
    assert (70, 842) in split_sizes(book, split)
    footing = one_footing('fhsum').filter(pl.col('benchmark') == 'M-XSum')
    over = dict(footing.select('row', 'precision over').iter_rows())
    assert 2 not in over['GPT-4o + Vanilla Judge'] and 3 in over['GPT-4o + Vanilla Judge'] and over['GPT-4o + Reflection Retrieval'] is None


def test_footing_of_the_shipped_tables():
    footing = one_footing('fhsum').filter(pl.col('benchmark') == 'M-XSum')
    best = {name: footing.sort(name, descending=True)['row'][0] for name in ('printed F1', 'F1')}
    assert best == {'printed F1': 'Llama3-8B + Reflection Retrieval', 'F1': 'Qwen2.5-14B + Knowledge Retrieval'}


def test_a_lost_accuracy_shows_three_classes():
    lost = {'Qwen2.5-3B + Vanilla Judge': (.3512, .0419 + .0118), 'Qwen2.5-3B + Concurrent Retrieval': (.3518, .4870 + .1765)}
    found = dict(one_footing('fhsum').filter(benchmark='FHSumBench').select('row', 'classes').rows())
    for row, (recall, known) in lost.items():
        fits = [n for n in (3, 4, 5) if 0 <= n*recall - known <= 1]
        assert found.get(row) == (fits[0] if len(fits) == 1 else None)
    assert found['Qwen2.5-3B + Vanilla Judge'] == 3


def test_two_rows_agree_in_every_digit():
    rows = published_values('fhsum/table7').filter(pl.col('row').is_in(['Qwen2.5-1.5B + CoT', 'Qwen2.5-3B + CoT']))
    assert rows.group_by('column').agg(pl.col('printed').n_unique()).select(pl.col('printed').max()).item() == 1


def test_every_stake_is_of_a_finding():
    from factlab.audit.report import audit
    assert set(FINDINGS.stakes) <= set(audit('fhsum').findings['name'])
