"""Enrichment: candidates of several models, deduplicated by a judge, reviewed by people in the workbench, to gold that loads again."""
import json

import polars as pl
import pytest

from factlab.building.enrichment import HIGH_RECALL, enrich, find_candidates, high_recall, outcomes, write_data
from factlab.core.core import DataError, UsageError
from factlab.data.datasets import LOCALIZATION_DATA, load
from factlab.error_analysis.schemes import CANDIDATE_SCHEME
from factlab.localization.matching import ModelJudge
from factlab.models.interface import ScriptedModel
from factlab.models.prompt_folders import folder_prompts
from factlab.runs.plan import Rows, Step, estimate, execute
from factlab.studies.final.commands import write_candidates
from factlab.studies.final.enrichment import enrichment_plan
from factlab.studies.final.errors import agreement_cells, read_annotations
from factlab.workbench import annotate_queue

GOLD = {'tram': ['year: 1901 is not in the text.'], 'bus': [], 'ship': ['port: Cadiz is not in the text.', 'crew: nobody counted it.']}
ROWS = LOCALIZATION_DATA.frame([
    {'id': id, 'split': 'test', 'text': f'The {id} went.', 'summary': f'The {id} went far.', 'gold': gold, 'doc_id': None,
     'origin_label': 'inconsistent' if gold else 'consistent'} for id, gold in GOLD.items()])
# what two models find; two descriptions match where their first words are the same
FOUND = {'one': {'tram': ['year: it was not 1901.', 'colour: it was not red.'], 'bus': ['speed: nothing says fast.'], 'ship': []},
         'two': {'tram': ['colour: the text knows no red.', 'driver: who?'], 'bus': ['speed: how fast?'],
                 'ship': ['crew: twelve?', 'sail: none.']}}


def matches(request) -> str:
    "A judge's answer: the first reference item that begins with the same word."
    gold, predicted = (dict(line.split('. ', 1) for line in part.strip().splitlines() if '. ' in line) for part in (
        request.messages[-1].content.split(f'<{tag}>')[1].split(f'</{tag}>')[0] for tag in ('reference', 'predicted')))
    def named(text: str): return next((label for label, other in gold.items() if other.partition(':')[0] == text.partition(':')[0]), None)
    return json.dumps({label: named(text) for label, text in predicted.items()})


JUDGE = ModelJudge(ScriptedModel('first-word', matches, revision='enrichment'))


def lists(found: dict) -> pl.DataFrame:
    return pl.DataFrame({'id': list(found), 'predicted': list(found.values())}, schema_overrides={'predicted': pl.List(pl.String)})


@pytest.fixture
def candidates(): return find_candidates(ROWS, {model: lists(found) for model, found in FOUND.items()}, JUDGE, False)


def test_each_error_is_a_candidate_once(candidates):
    assert candidates.select('id', 'unit', 'text', 'known').rows() == [
        ('tram', 'candidate:0', 'year: it was not 1901.', GOLD['tram'][0]), ('tram', 'candidate:1', 'colour: it was not red.', None),
        ('tram', 'candidate:2', 'driver: who?', None), ('bus', 'candidate:0', 'speed: nothing says fast.', None),
        ('ship', 'candidate:0', 'crew: twelve?', GOLD['ship'][1]), ('ship', 'candidate:1', 'sail: none.', None)]
    assert candidates['models'].to_list() == [['one'], ['one', 'two'], ['two'], ['one', 'two'], ['two'], ['two']]


def finder(name: str, beginning: str = '') -> ScriptedModel:
    "Finds what FOUND says of it."
    def answer(request) -> str:
        assert request.messages[-1].content.startswith(beginning)
        id = next(id for id in GOLD if f'The {id} went.' in request.messages[-1].content)
        return '\n'.join(f'{label}. {text}' for label, text in zip('ABC', FOUND[name][id], strict=False)) or 'None'
    return ScriptedModel(name, answer, revision=f'enrichment {beginning}')


def test_a_model_is_asked_for_as_much_as_it_can_find(tmp_path):
    step = Step(high_recall(), Rows('mine', ROWS), finder('two'))
    found = execute(step, store=False, folder=tmp_path)[step]
    assert found['predicted'].to_list() == [FOUND['two'][id] for id in GOLD]
    (tmp_path/'own').mkdir()
    (tmp_path/'own'/'high_recall.txt').write_text('Text: {text}\nSummary: {summary}\nList the inconsistent facts.')
    own, = folder_prompts(tmp_path/'own', (HIGH_RECALL,)).values()
    assert own.source == 'yours' and high_recall(own).prompt.user.endswith('inconsistent facts.')


def test_several_models_are_asked_by_a_plan(home, tmp_path):
    "FINAL's plan, with the wording of a folder; a dry run sends nothing."
    ROWS.write_ndjson(tmp_path/'mine.jsonl')
    (tmp_path/'own').mkdir()
    (tmp_path/'own'/'high_recall.txt').write_text('As printed. Text: {text} Summary: {summary}')
    loaded = {name: finder(name, 'As printed.') for name in FOUND} | {'first-word': JUDGE.model}
    chosen = {'data': str(tmp_path/'mine.jsonl'), 'judge': 'first-word', 'prompts': str(tmp_path/'own')}
    plan = enrichment_plan(models=['one', 'two'], loaded=loaded, **chosen)
    assert estimate(plan)['calls'].sum() == 6 and not loaded['one'].asked
    done = execute(plan, store=False)
    assert {entry.model: done[entry.step]['predicted'].to_list() for entry in plan.entries} == {
        name: [FOUND[name][id] for id in GOLD] for name in FOUND}
    with pytest.raises(UsageError, match='Appendix H.1'): enrichment_plan(loaded=loaded, **chosen | {'prompts': 'paper'})


def test_people_in_the_workbench_make_gold_and_agree(candidates, tmp_path):
    typed = {'Ann': (' ', '1', '3', '1', ' ', '4'), 'Ben': ('2', '1', '1', '1', '3', '4')}
    path = write_candidates(tmp_path, ROWS, candidates)
    for who, keys in typed.items():
        bench = annotate_queue(path, annotator=who)
        for key in keys: bench.keyboard.value += key
    bench.exchange.target.value = str(tmp_path/'mine')
    bench.exchange.write()
    labels = read_annotations([bench.exchange.path()])
    alone = enrich(ROWS, candidates, labels.filter(annotator='Ann'))
    assert dict(alone.data.select('id', 'gold').iter_rows()) == {
        'tram': [*GOLD['tram'], 'colour: it was not red.'], 'bus': ['speed: nothing says fast.']}
    assert (alone.before, alone.after, alone.turned, alone.left_out) == (1, 3, 1, ['ship'])
    assert alone.models.rows() == [('one', 3, 0, 2, 1, 0, 0), ('two', 5, 0, 2, 1, 1, 1)]
    path = write_data(alone.data, tmp_path/'enriched.jsonl')
    assert load(path).equals(alone.data)
    both = enrich(ROWS, candidates, labels)  # they differ on the driver and on the crew: nobody can decide
    assert both.left_out == ['tram', 'ship'] and both.data['id'].to_list() == ['bus']
    cells, notes = agreement_cells(labels)
    found = {row['column']: row['measured'] for row in cells.filter(row='Annotators').iter_rows(named=True)}
    # of five items that nobody found unclear they agree on three: yes, yes, no|yes, yes, yes|no
    assert found['Raw agreement'] == pytest.approx(3/5) and found['Cohen κ'] == pytest.approx((3/5 - 17/25)/(1 - 17/25))
    assert 'unclear' in notes[-1]


def test_what_the_judge_knows_need_not_be_read(candidates, tmp_path):
    bench = annotate_queue(write_candidates(tmp_path, ROWS, candidates, known=False), annotator='Ann')
    assert len(bench.queue.items) == 4 and [scheme.name for scheme in bench.queue.schemes()] == [CANDIDATE_SCHEME.name]
    for key in '1133': bench.keyboard.value += key
    made = enrich(ROWS, candidates, bench.file.labels())
    assert made.models.filter(model='two').select('known', 'new', 'no_error').row(0) == (1, 2, 2) and not made.left_out
    with pytest.raises(UsageError, match='nothing to label'): write_candidates(tmp_path, ROWS, candidates.drop_nulls('known'), known=False)


def test_what_cannot_be(candidates, tmp_path):
    labels = pl.DataFrame({'row': candidates['id'], 'unit': candidates['unit'], 'label': 'new', 'annotator': 'Ann'})
    with pytest.raises(DataError, match='1 of 6 candidates have no label, the first is candidate:1'): outcomes(candidates, labels.filter(
        (pl.col('row') != 'ship') | (pl.col('unit') != 'candidate:1')))
    with pytest.raises(DataError, match="the label 'right'"): outcomes(candidates, labels.with_columns(label=pl.lit('right')))
    with pytest.raises(DataError, match='another text'): outcomes(candidates, labels.with_columns(text=pl.lit('Something else.')))
    with pytest.raises(DataError, match="two predicts for 'plane'"): find_candidates(ROWS, {'two': lists({'plane': ['x']})}, JUDGE, False)
    with pytest.raises(UsageError, match='jsonl'): write_data(ROWS, tmp_path/'data.csv')


def test_an_answer_of_the_judge_that_cannot_be_read_leaves_it_to_people():
    silent = ModelJudge(ScriptedModel('silent', lambda _: 'Perhaps.', revision='enrichment'))
    found = find_candidates(ROWS, {'one': lists(FOUND['one'])}, silent, False)
    assert found.height == 3 and found['known'].null_count() == 3
