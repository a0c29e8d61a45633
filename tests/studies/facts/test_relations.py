"""FACTS: what its cells say about each other, derived again by other means."""
import numpy as np
import pytest
from printed_tables import number

from factlab.audit.checks import PublishedCells
from factlab.audit.counts import common_sizes
from factlab.audit.relations import paper_checks
from factlab.reports.published import published_values
from factlab.studies.facts.relations import LEADERBOARDS


def test_again_facts_n():
    rows = [row for row in published_values('facts/table2')['row'].unique(maintain_order=True) if row != 'All']
    def fits(n, rates): return all(any(abs(100*k/n - rate) <= 0.0101 for k in range(n + 1)) for rate in rates)
    rates = [[number('facts/table2', row, column) for row in rows] for column in ('FPR (%)', 'FNR (%)')]
    negative, positive = ([n for n in range(1, 402) if fits(n, column)] for column in rates)
    assert 402 not in {a + b for a in negative for b in positive} and 62 in negative and 344 in positive
    for row in rows:
        fn, fp = round(number('facts/table2', row, 'FNR (%)')*3.44), round(number('facts/table2', row, 'FPR (%)')*0.62)
        assert 100*(406 - fn - fp)/406 == pytest.approx(number('facts/table2', row, 'Accuracy (%)'), abs=0.0051)
    together, alone = common_sizes(PublishedCells(published_values('facts/table4')), 'facts/table4', [450])
    assert together == {(150, 300)} and all(alone.values())


def scores_of(table):
    "Scores by [system, split, judge], and where each judge stands among the systems."
    judges = ('Gemini 1.5 Pro', 'GPT-4o', 'Claude 3.5 Sonnet')
    systems = [row for row in published_values(table)['row'].unique(maintain_order=True) if row != 'All']
    scores = [[[number(table, system, f'{split} {judge} (%)') for judge in judges] for split in ('Open', 'Blind')] for system in systems]
    return np.array(scores), [systems.index(judge) for judge in judges]


def test_again_the_averages_of_facts():
    (before, own), (after, _) = (scores_of(table) for table in LEADERBOARDS)
    loss = (before - after).mean(2)
    assert (round(loss.min(), 1), round(loss.max(), 1)) == (0.4, 4.5)
    points, percent = [], []
    for scores in (before, after):
        mine = scores.mean(1)[own]
        others = [np.mean([mine[j, k] for k in range(3) if k != j]) for j in range(3)]
        points.append(np.mean([mine[j, j] - others[j] for j in range(3)]))
        percent.append(np.mean([100*(mine[j, j]/others[j] - 1) for j in range(3)]))
    assert np.round(points, 2).tolist() == [2.01, 2.69] and np.mean(percent) == pytest.approx(3.23, abs=0.13)
    assert not any(abs(value - 3.23) <= 0.14 for value in (*points, *percent, np.mean(points)))


def test_readings_of_the_averages_of_facts_allow_every_score_that_is_printed_so():
    book, rng = PublishedCells(published_values(paper='facts')), np.random.default_rng(5)
    kinds = ('loss between two tables', 'preference for one’s own answers')
    checks = [check for check in paper_checks('facts', book) if check.kind in kinds]
    assert len(checks) == 3
    for check in checks:
        for rule in check.readings.values():
            low, high = rule([book.bounds(address) for address in check.basis])
            for _ in range(5):
                drawn = [float(a) + rng.random()*float(b - a) for a, b in map(book.bounds, check.basis)]
                assert low <= rule([(score, score) for score in drawn])[0] <= high


def test_the_second_place_won_three_rankings():
    scores = published_values('facts/table6')
    ahead = sum(number('facts/table6', 'Gemini 1.5 Flash', c) > number('facts/table6', 'Gemini 2.0 Flash Experimental', c)
                for c in scores['column'].unique() if c.startswith(('Open ', 'Blind ')) and c.endswith('(%)'))
    assert ahead == 3
