"""Marked spans as a localizer: a row of FINAL's table, and a measured baseline in Table 6."""
import re

import polars as pl
import pytest

from factlab.core.core import UsageError
from factlab.localization.methods import PREDICTIONS
from factlab.localization.spans import MarkedSpans, describe_span
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import execute
from factlab.studies.final.localization import localization_cells
from factlab.studies.final.operations import marked_headline, unmarked_items, validity_cells, validity_plan
from factlab.studies.final.study import localization_plan
from factlab.verification.named_verifiers import load_verifier
from factlab.verification.spans import Span
from factlab.workbench.examples import Error, find_span


class NewWords:
    "Marks words that the text lacks."
    name, identity, two_way = 'new', {'verifier': 'new words', 'version': 2}, True

    def spans(self, pairs, store=None):
        return [[Span(*word.span(), .9) for word in re.finditer(r'\w+', summary) if word[0] not in text] for text, summary in pairs]


class NoWords(NewWords):
    name, identity = 'none', {'verifier': 'no words', 'version': 1}

    def spans(self, pairs, store=None): return [[] for _ in pairs]


ROWS = pl.DataFrame({'id': ['a', 'b', 'c'], 'text': ['The mill closed in 1931.']*3,
                     'summary': ['The mi\u0301ll \U0001F600 closed in 1913.', 'The mill closed.', ' ']})


def test_each_marked_span_is_a_description_that_quotes_it():
    found = PREDICTIONS.check(MarkedSpans(NewWords()).predict(ROWS))
    assert found['predicted'][0][-1] == describe_span('1913') and found['predicted'].to_list()[1:] == [[], []]
    assert found['calls'].to_list() == [0]*3
    for line in found['answer'][0].splitlines():
        start, end, words = re.fullmatch(r'(\d+)–(\d+) 0.90 (.*)', line).groups()
        assert ROWS['summary'][0][int(start):int(end)] == words
    with pytest.raises(UsageError, match='marks no spans'): MarkedSpans(load_verifier('cosine')).predict(ROWS)


def test_the_workbench_marks_what_a_description_quotes():
    summary = ROWS['summary'][0]
    places = find_span(Error(1, 'invented', 'predicted:0', '', (describe_span('1913'),)), summary, ROWS['text'][0])
    assert [summary[a:b] for a, b in places] == ['1913']


def test_marked_spans_are_a_row_of_the_table_that_names_them():
    model = ScriptedModel('m', lambda request: '- A claim.', revision='marked spans')  # asked for claims by a baseline alone
    def plan(verifier): return localization_plan(models=['m'], methods=['marked_spans'], verifier=verifier, limit=6,
                                                 loaded={'m': model, 'new': NewWords()})
    cells = localization_cells(made := plan('new'), execute(made))
    assert cells.filter(row='Marked spans', metric='F1')['measured'].is_not_null().any()
    with pytest.raises(UsageError, match='marks no spans'): plan('cosine')


def test_table_6_has_a_measured_baseline():
    loaded = {'new': NewWords(), 'none': NoWords()}
    shares = {}
    for name in loaded:
        plan = validity_plan(spans=name, loaded=loaded)
        cells = validity_cells(plan, done := execute(plan)).filter(pl.col('measured').is_not_null())
        matches = done[plan.entries[0].step]
        brute = [(row['id'], item not in (row['matched'] or [])) for row in matches.to_dicts() for item in range(row['n_gold'])]
        assert unmarked_items(matches).rows() == brute and {row['n_gold'] for row in matches.to_dicts()} - {0}
        of = {(row['row'], row['metric']): row for row in cells.to_dicts()}
        own, baseline = (of[row, 'Inconsistencies P (%)'] for row in ('Marked by no span', 'Baseline: in no sentence that is marked whole'))
        shares[name] = own['measured']
        assert own['n'] == len(brute) and own['measured'] == pytest.approx(100*sum(hit for _, hit in brute)/len(brute))
        whole = {id: any(hit for other, hit in brute if other == id) for id, _ in brute}
        assert of['Marked by no span', 'Summaries P (%)']['measured'] == pytest.approx(100*sum(whole.values())/len(whole))
        assert baseline['measured'] < 100 and own['model'] == name
    assert shares['none'] == 100 > shares['new']
    with pytest.raises(UsageError, match='marks no spans'): validity_plan(spans='cosine')
    assert validity_plan().entries == ()


def test_table_6_by_names_alone():
    "A row that needs no weights: what no name or number that the text lacks stands for."
    plan = validity_plan(spans='names')
    done = execute(plan)
    own = validity_cells(plan, done).filter(row='Marked by no name or number', metric='Inconsistencies P (%)')
    predicted, named = done[plan.entries[0].step], {row['id']: row['n_predicted'] for row in done[plan.entries[0].step].to_dicts()}
    assert own['model'].item() == 'names' and 0 < own['measured'].item() < 100 and own['n'].item() == predicted['n_gold'].sum()
    shown = marked_headline(plan, validity_cells(plan, done))['headline']
    assert shown['measured'] == own['measured'].item() and 'in no sentence' in shown['baseline']['row']
    empty = validity_plan()
    assert marked_headline(empty, validity_cells(empty, execute(empty))) == {}
    hits = unmarked_items(predicted)
    assert all(hits.filter(id=id)['hit'].all() for id, count in named.items() if count == 0)
