"""Findings: planted faults are found with their smallest explanation."""

import numpy as np
from printed_tables import as_published, printed, with_metrics

from factlab.audit.checks import AVERAGE, PublishedCells, f1_checks, judge, macro_recall_checks, rank_checks, recompute
from factlab.audit.findings import one_digit_changes, order_changes, repeated_rows, sizes_for, swapped_pairs
from factlab.audit.report import audit
from factlab.reports.published import printed_bounds, published_values


def test_a_planted_f1_is_found_with_the_digit_that_corrects_it():
    rng = np.random.default_rng(1)
    for _ in range(50):
        p, r = rng.uniform(0.3, 0.9, 2)
        right = printed(2*p*r/(p + r), 4)
        wrong = right[:3] + str((int(right[3]) + 3) % 10) + right[4:]
        cells = {'Precision': printed(p, 4), 'Recall': printed(r, 4), 'F1': wrong}
        book = as_published({('toy/t', 's', column): text for column, text in cells.items()})
        found = audit(frame=book).findings
        assert found['name'].to_list() == ['toy/t F1'] and found['sure'].item() == 'certain'
        assert f'F1 is {right} instead of {wrong}' in found['explanation'].item()


def test_a_planted_average_share_and_rank_are_found():
    cells = {('toy/t', 's', 'A F1'): '0.50', ('toy/t', 's', 'B F1'): '0.60', ('toy/t', 's', 'Average F1'): '0.57'}
    words = with_metrics(['F1'], model='A') | with_metrics(['F1'], model='B') | with_metrics(['F1'], model=AVERAGE)
    found = audit(frame=as_published(cells, words=words)).findings
    assert found['implied'].to_list() == ['0.545 to 0.555'] and found['sure'].to_list() == ['certain']
    ranks = {('toy/t', m, c): p for m, (a, b, rank) in {'x': ('90.0', '80.0', '2'), 'y': ('70.0', '60.0', '1')}.items()
             for c, p in (('A (%)', a), ('B (%)', b), ('Average (%)', printed((float(a) + float(b))/2, 1)), ('Fused rank', rank))}
    score = {'metric': 'Score (%)'}
    book = as_published(ranks, words={'A (%)': score, 'B (%)': score, 'Average (%)': score | {'model': AVERAGE}})
    assert recompute(rank_checks(PublishedCells(book)), book)['outcome'].to_list() == ['contradiction']*2


def swapped_table(rows):
    "Class accuracies in one exhibit and recalls, over three classes, in another; `rows` gives whose recall stands in each row."
    accuracies = {'a + X': (0.2, 0.5, 0.9), 'b + X': (0.3, 0.7, 0.8), 'c + X': (0.4, 0.4, 0.4)}
    cells = {('toy/acc', s, f'Set {name} accuracy'): printed(v, 4)
             for s, values in accuracies.items() for name, v in zip('uvw', values, strict=True)}
    for s, source in rows.items():
        recall = sum(accuracies[source])/3
        cells |= {('toy/t', s, f'Set {measure}'): printed(recall, 4) for measure in ('Precision', 'Recall', 'F1')}
    measures = ('u accuracy', 'v accuracy', 'w accuracy', 'Precision', 'Recall', 'F1')
    rows = {row: dict(zip(('model', 'method'), row.split(' + '), strict=True)) for row in accuracies}
    return as_published(cells, words=rows | with_metrics(measures, data='Set'))


def test_swapped_rows_are_found_and_unswapped_ones_are_not():
    straight = {s: s for s in ('a + X', 'b + X', 'c + X')}
    assert audit(frame=swapped_table(straight)).findings.is_empty()
    found = audit(frame=swapped_table({**straight, 'a + X': 'b + X', 'b + X': 'a + X'})).findings
    assert found['name'].to_list() == ['toy/t rows'] and 'changed places' in found['explanation'].item()
    book = PublishedCells(swapped_table({**straight, 'a + X': 'b + X', 'b + X': 'a + X'}))
    failing = [c for c in macro_recall_checks(book) if judge(c, book)[0] == 'contradiction']
    assert len(swapped_pairs(failing, book)) == 1


def test_repeated_rows_need_many_digits():
    def rows(*values): return PublishedCells(as_published({('toy/t', r, f'c{i}'): v for r in 'ab' for i, v in enumerate(values)}))
    assert repeated_rows(rows('0.1234', '0.5678', '0.9012')) == [('toy/t', 'a', 'b')]
    assert repeated_rows(rows('0.12', '0.56')) == []


def test_helpers():
    assert sizes_for([printed_bounds('0.500')], 4) == [2, 4]
    assert order_changes({'a': 2, 'b': 1}, {'a': 1, 'b': 2}) == [('a', 'b')]
    check = f1_checks(PublishedCells(published_values('final/table8')))[0]
    assert one_digit_changes(check, PublishedCells()) != [] or recompute([check])['holds'].all()
