"""FACTS on the sample: what is counted of it, how judges and baselines are compared, and what stands in the leaderboard's cells."""
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from factlab.core.core import DataError, UsageError
from factlab.grounding.embedded_judge import labelled_sentences
from factlab.grounding.offline_judges import load_grounding_judge
from factlab.grounding.scores import JUDGEMENTS, leaderboard
from factlab.measures.baselines import class_counts
from factlab.models.dry_run import DryRun
from factlab.reports.baseline_rows import BEST_BASELINE
from factlab.reports.exhibits import find_exhibits, headline, make_cells
from factlab.reports.tables import show_table
from factlab.runs.plan import execute
from factlab.studies.facts import measured, panel
from factlab.studies.facts.illustrations import composition, composition_cells, example_requests
from factlab.studies.facts.judge_rates import RATE_SCORES, rate_cells, rate_grid, rates_of
from factlab.studies.facts.study import counting_verdicts, leaderboard_plan, load_data
from factlab.text.sentences import split_sentences
from factlab.verification.nli import NLI


def test_domains_and_tasks_are_counted_by_request():
    rows = load_data('sample')
    composed = composition(rows)
    requests = rows.unique('document_id')
    for kind in ('Domain', 'Task'):
        part = composed.filter(kind=kind)
        assert part['requests'].sum() == requests.height and part['share'].sum() == pytest.approx(1)
        assert sorted(part['requests']) == sorted(requests[kind.lower()].value_counts()['count'])
    assert composition_cells(composed)['published'].is_null().all()
    assert example_requests(rows)['domain'].n_unique() == 5
    with pytest.raises(DataError): composition(rows.drop('task'))


def test_a_judge_and_its_baselines_stand_on_the_same_rows():
    truth, documents = pl.Series([True, False]*20), pl.Series([str(n//4) for n in range(40)])
    answers = {'embedded': np.array([True, False]*15 + [True, True]*5), 'always grounded': np.ones(40, bool)}
    cells = make_cells('facts/judges', measured._compared_cells('Responses', truth, answers, documents, {'accuracy': 'accuracy'},
                                                                measured.NAMES, 0))
    def cell(row, column): return cells.filter(row=row, column=f'Responses: {column}').row(0, named=True)
    assert cell('Embedded judge', 'accuracy (%)')['measured'] == 87.5 and cell('Baseline: always yes', 'accuracy (%)')['measured'] == 50
    over = cells.filter(row='Embedded judge', against=BEST_BASELINE).row(0, named=True)
    assert over['column'] == 'Responses: accuracy (%)'
    assert over['measured'] == pytest.approx(37.5) and over['low'] > 0
    passing = cell('Embedded judge', 'inaccurate that pass (%)')
    assert passing['measured'] == 25 and passing['low'] < 25 < passing['high'] and passing['n'] == 20
    assert cell('Embedded judge', 'accurate that do not pass (%)')['measured'] == 0
    assert cell('Baseline: always yes', 'inaccurate that pass (%)')['measured'] == 100
    assert set(cells.filter(status='baseline')['method']) == {'always yes', 'majority'}


def test_each_judges_best_prompt_is_marked():
    grid = rate_grid(rate_cells('facts/table2'))
    assert grid.group_by('column').agg(pl.col('marked').sum())['marked'].to_list() == [1, 1, 1]
    assert grid.filter('marked')['score'].min() > 69


def test_a_limit_takes_few_documents_of_both_splits_and_makes_one_longer():
    "Seen at the rows of the plan's steps."
    for limit in (1, 2):
        plan = measured.judges_plan(judges=['words'], limit=limit)
        counts = {entry.label: entry.about['rows'] for entry in plan.entries if entry.baseline}
        sizes = {block: [rows[split].frame['document_id'].n_unique() for split in ('dev', 'test')] for block, rows in counts.items()}
        assert sizes == {'Sentences': [limit]*2, 'Responses': [limit]*2, measured.LONG: [limit, 1]}
        (long,), own = (counts[block]['test'].frame['document'].unique().to_list() for block in (measured.LONG, 'Sentences'))
        assert len(long.split()) >= 3000 > min(len(text.split()) for text in own if text in long)
    with pytest.raises(UsageError, match='no split'): measured.judges_plan(data='facts-examples')


def test_a_dry_run_reads_nothing_with_the_verifier_and_counts_the_same_examples(monkeypatch):
    rows, limit = load_data('sample'), 2
    def refuse(*given): raise AssertionError('a dry run computes nothing')
    monkeypatch.setattr(NLI, '_scores', refuse)
    with pytest.raises(AssertionError, match='computes nothing'): load_grounding_judge('quick').verifier.probabilities([('a', 'b')], False)
    judges, leaders = measured.judges_plan(limit=limit), leaderboard_plan(limit=limit)
    with DryRun(): cells, board = measured.judge_cells(judges, execute(judges)), measured.board_cells(leaders, execute(leaders))
    test = rows.filter(pl.col('split') == 'test')
    first = test['document_id'].unique(maintain_order=True)[:limit]
    labelled = labelled_sentences(test.filter(pl.col('document_id').is_in(first.implode())))
    assert cells.filter(row='Quick judge', column='Sentences: balanced accuracy (%)', kind='value')['n'].to_list() == [labelled.height]
    assert board.filter(row='grounded', column='Final score (%)', kind='value')['n'].to_list() == [limit]


# ---- no score for nothing ----------------------------------------------------------------------------------------------------------

def test_long_documents_and_other_judges_stand_beside_baselines(monkeypatch):
    "Scores on padded documents have an interval and a difference from the best baseline; a second judge is set beside the first."
    words = load_grounding_judge('words')
    moved = replace(words, decision=words.decision._replace(sentences=words.decision.sentences + .5))
    monkeypatch.setattr(measured, 'load_grounding_judge', lambda name: {'embedded': words, 'quick': moved}[name])
    plan = measured.judges_plan(judges=['embedded', 'quick'], limit=4)
    cells = measured.judge_cells(plan, execute(plan))
    def one(row, column, against=None):
        found = cells.filter(pl.col('against').eq_missing(against), row=row, column=f'Sentences: balanced accuracy (%){column}')
        return found.row(0, named=True)
    long = ', documents of 3,000 words'
    for column in ('', long):
        own, over, baseline = one('Embedded judge', column), one('Embedded judge', column, BEST_BASELINE), cells.filter(
            status='baseline', column=f'Sentences: balanced accuracy (%){column}')
        assert over['measured'] == pytest.approx(own['measured'] - baseline['measured'].max())
        beside = one('Quick judge', f'{column} less the embedded judge’s', 'Embedded judge')
        assert beside['measured'] == pytest.approx(one('Quick judge', column)['measured'] - own['measured'])
        assert column or own['low'] < own['measured'] < own['high'] and over['low'] < over['high'] and beside['low'] is not None


def test_planted_differences_stand_beside_those_that_counting_finds():
    plan = leaderboard_plan(judges=['words'])
    done = execute(plan)
    cells = make_cells('facts/leaderboard', measured._order_cells(plan, done))
    rows, known = load_data('sample').filter(split='test'), load_data('sample').filter(split='dev')
    lengths = known['response'].str.count_matches(r'\S+')
    cuts = {cut: (((lengths >= cut) == known['eligible']) & known['eligible']).sum()/known['eligible'].sum()
            + (((lengths >= cut) == known['eligible']) & ~known['eligible']).sum()/(~known['eligible']).sum() for cut in lengths.unique()}
    best = [cut for cut, value in cuts.items() if value == max(cuts.values())]
    told = counting_verdicts(plan, done)
    said = rows.join(told[0].select('id', said='accurate'), on='id').join(told[1].select('id', may='eligible'), on='id')
    sizes = pl.Series([len(split_sentences(text)) for text in said['response']])
    assert sizes.filter(said['said']).max() < sizes.filter(~said['said']).min()  # one cut
    longer = said['response'].str.count_matches(r'\S+')
    assert longer.filter(said['may']).min() >= min(best) and longer.filter(~said['may']).max() < max(best)
    def share(kind): return said.filter(kind=kind).select((pl.col('said') & pl.col('may')).mean()).item()
    def one(row, against): return cells.filter(row=row, column='Final score (%)', against=against).row(0, named=True)
    pair, score = 'one_error over several_errors', 'Final score (%)'
    baseline = one(f'Baseline: {pair}, by counting', 'several_errors')
    assert baseline['measured'] == pytest.approx(100*(share('one_error') - share('several_errors'))) and baseline['status'] == 'baseline'
    over = one(pair, BEST_BASELINE)
    assert over['measured'] == pytest.approx(one(pair, 'several_errors')['measured'] - baseline['measured'])
    assert over['low'] < over['measured'] < over['high']
    p = cells.filter(pl.col('against') != BEST_BASELINE, metric=score, kind='p', status='measured')
    assert set(p['column']) == {f'{score}, p after Holm'}
    assert p.height == 6 and p['measured'].max() <= 1 and p.filter(row='grounded over refusal')['measured'].item() >= .125  # four requests
    every = leaderboard_plan(judges=['words'], split='all', limit=3)
    assert measured._order_cells(every, execute(every))


def test_a_rate_is_of_what_was_read_of_its_class():
    truth, documents = pl.Series([True]*6 + [False]*4), pl.Series(list('aabbccddee'))
    partly = pl.Series([True, True, False, None, None, True, True, False, None, False])
    cells = panel.rate_cells_of({('partly', 'x'): partly, ('unread', 'x'): pl.Series([None]*10, dtype=pl.Boolean)},
                                {'always': pl.Series([True]*10)}, truth, documents)
    shown = make_cells('facts/table2', cells)
    def one(name, column): return shown.filter(pl.coalesce('model', 'method') == name, column=column, kind='value').row(0, named=True)
    assert (one('partly', 'FPR (%)')['measured'], one('partly', 'FPR (%)')['n']) == (pytest.approx(100/3), 3)
    assert (one('partly', 'FNR (%)')['measured'], one('partly', 'FNR (%)')['n']) == (25, 4)
    assert one('partly', 'Accuracy (%)')['measured'] == 50 and one('partly', 'F1+ (%)')['measured'] == pytest.approx(100*2*3/(4 + 6))
    for column in ('Macro-F1 (%)', 'Accuracy (%)', 'FNR (%)', 'FPR (%)', 'F1+ (%)', 'F1− (%)'):
        assert one('partly', column)['low'] < one('partly', column)['high'], column
    for column in ('FPR (%)', 'FNR (%)'): assert (one('unread', column)['measured'], one('unread', column)['n']) == (None, 0)
    assert one('unread', 'Accuracy (%)')['measured'] == one('unread', 'Macro-F1 (%)')['measured'] == 0
    assert one('unread', 'F1+ (%)')['unparsed'] == 10
    assert (one('always', 'FPR (%)')['measured'], one('always', 'FPR (%)')['n']) == (100, 4)
    assert 'unread' in show_table(shown).text and panel.rate_marks(shown).filter(row='unread, x')['measured'].to_list() == [0]
    assert headline(replace(find_exhibits(['facts/table2'])[0], status='measured', headline={'model': 'unread',
                                                                                             'metric': 'FPR (%)'}), shown) is None


def test_the_rates_of_whole_verdicts_are_those_of_the_printed_tables():
    truth, said = pl.Series([True]*6 + [False]*4), pl.Series([True]*4 + [False]*2 + [True] + [False]*3)
    counts = class_counts(truth, said, [False, True]).sum(0)
    by_hand = {name: float(value) for name, value in rates_of(4, 2, 1, 3).items()}
    assert {name: pytest.approx(100*float(score(counts))) for name, score in RATE_SCORES.items()} == by_hand


def test_ranks_are_fused_as_said_and_of_who_answered_everything():
    "Ties by the mean. On the sample `copying` was first, from nine responses of 42."
    table = {'j': {'x': [1, 1, 1, 1], 'y': [1, 1, 1, 0], 'few': [1, 1]}, 'k': {'x': [1, 0, 0, 0], 'y': [1, 1, 1, 0], 'few': [1, 1]}}
    rows = [{'id': f'{at}/{name}', 'request_id': f'q{at}', 'responder': name, 'judge': judge, 'template': 't', 'accurate': bool(one),
             'status': 'ok', 'reason': '', 'sentences': []} for judge, said in table.items() for name, all_ in said.items()
            for at, one in enumerate(all_)]
    by_mean = leaderboard(JUDGEMENTS.frame(rows), ties='mean')
    assert dict(by_mean.select('responder', 'rank').iter_rows()) == {'y': 1, 'x': 2, 'few': None}
    found = leaderboard(JUDGEMENTS.frame(rows))
    assert dict(found.select('responder', 'rank').iter_rows()) == {'x': 1, 'y': 1, 'few': None}  # which shares
    plan = panel.ranking_plan('facts/table5', data='sample', judges=['words'], draws=50)
    cells = panel.ranking_cells(plan, execute(plan)).filter(status='measured')
    assert cells.filter(column='Fused rank', row='copying')['measured'].item() is None
    assert cells.filter(column='Average (%)', row='copying', kind='value')['measured'].item() > 50
