"""FHSumBench's plans: which rows are scored, which thresholds come from, and what every method says on them."""
import ast
import json

import polars as pl
import pytest
from conftest import real_data
from constant import Always
from misbehaving_server import MisbehavingServer, answer

from factlab.core.core import DataError, UsageError
from factlab.mixed_context.labels import FACTUAL, LABELS, NON_FACTUAL, NONE, UNNAMED, traces_of
from factlab.models.encoder import Encoder
from factlab.models.interface import ScriptedModel
from factlab.reports.exhibits import catalog
from factlab.reports.tables import CELLS
from factlab.runs.plan import Plan, Rows, estimate, execute, manifest
from factlab.studies.fhsum.data_sets import title_of
from factlab.studies.fhsum.measured import answers_of, choices, row_of, table1_cells, table2_cells
from factlab.studies.fhsum.study import (
    UNDECIDED,
    Division,
    Settings,
    ablation_entries,
    baseline_entries,
    development_rows,
    direct_entries,
    entity_entries,
    family_entries,
    load_knowledge,
    offline_entries,
    scored_rows,
    table_plan,
    transfer_plan,
)


def verdicts(faithful, factual): return f'{{"Faithfulness": {str(faithful).lower()}, "Factuality": {str(factual).lower()}}}'


def judge(said): return {'judge': ScriptedModel('judge', said if callable(said) else lambda request: said, '1')}


def labels(entries):
    done = execute(*[entry.step for entry in entries], store=False)
    return {row_of(entry): done[entry.step] for entry in entries}


MUTE = Always('mute', 0, 1, 0)


def test_rows_on_which_the_shipped_classifier_was_fitted_are_named():
    real_data('entfa')
    def titles(**settings): return [entry.method for entry in entity_entries(Settings(data='xent', **settings))]
    assert titles(split='all') == ['Entity features (fitted on 460 of these rows)']
    assert titles() == ['Entity features']


@pytest.fixture
def mine(tmp_path):
    "Summaries without splits: three of each of twenty documents."
    rows = [{'id': f'{at}/{label}', 'document': f'Document {at} tells of a mill.', 'summary': f'A mill, {label}.', 'label': label}
            for at in range(20) for label in LABELS]
    path = tmp_path/'mine.jsonl'
    pl.DataFrame(rows).write_ndjson(path)
    return path


# ---- rows ------------------------------------------------------------------------------------------------------------------------------

def test_thresholds_and_scores_stand_on_different_documents():
    rows, known = scored_rows(Settings()).frame, development_rows(Settings()).frame
    assert set(rows['split']) == {'test'} and set(known['split']) == {'dev'} and not set(rows['document']) & set(known['document'])
    assert scored_rows(Settings(limit=5)).frame['id'].to_list() == rows['id'].to_list()[:5]
    assert development_rows(Settings(limit=5)).frame.height == known.height


@pytest.mark.parametrize('split', [None, 'test', 'all'])
def test_all_rows_of_data_in_one_split_are_scored(mine, split):
    "The paper scores all 1,336 summaries, and all 912 of M-XSum (App. A.1, Table 5)."
    settings = Settings(data=str(mine), split=split)
    if split == 'test': pl.read_ndjson(mine).with_columns(split=pl.lit('test')).write_ndjson(mine)
    rows, known = scored_rows(settings), development_rows(settings)
    assert rows.frame['id'].to_list() == pl.read_ndjson(mine)['id'].to_list() and title_of(str(mine)) == 'mine'
    assert known.name == 'sample' and known.frame.equals(development_rows(Settings()).frame)
    plan = table_plan('fhsum/table1', data=str(mine), split=split, models=['judge'], loaded=judge(verdicts(True, True)))
    cells = table1_cells(plan, execute(plan, store=False)).filter(column='mine F1', kind='value')
    assert set(cells['n']) == {60} and cells.filter(pl.col('row').str.starts_with('judge')).height == 3


def test_every_number_of_rows_of_the_paper_comes_out(tmp_path):
    for n in (1336, 912):
        rows = [{'doc': f'Document {at//3} tells of a mill.', 'summary': f'A mill, {at}.', 'label': LABELS[at % 3]} for at in range(n)]
        (tmp_path/f'{n}.json').write_text(json.dumps(rows))
        assert scored_rows(Settings(data=str(tmp_path/f'{n}.json'))).frame.height == n


def test_m_xsum_is_scored_whole():
    real_data('xsumfaith')
    assert scored_rows(Settings(data='mxsum')).frame.height == scored_rows(Settings(data='mxsum', split='test')).frame.height == 912


def test_a_split_says_which_rows_are_scored(mine):
    three = pl.read_ndjson(mine).with_columns(split=pl.Series(['train']*15 + ['test']*30 + ['hard']*15))
    three.write_ndjson(mine)
    def ids(split): return scored_rows(Settings(data=str(mine), split=split)).frame['id'].to_list()
    every = three['id'].to_list()
    assert (ids(None), ids('test'), ids('hard'), ids('all')) == (every[15:45], every[15:45], every[45:], every)
    own = development_rows(Settings(data=str(mine), split='hard'))
    assert (own.name, own.frame['id'].to_list()) == (str(mine), every[:15])
    assert development_rows(Settings(data=str(mine), split='all')).name == 'sample'


def test_thresholds_come_from_the_rows_that_are_named(mine, tmp_path):
    other = tmp_path/'other.jsonl'
    pl.read_ndjson(mine).with_columns(document=pl.format('{} Too.', 'document')).vstack(pl.read_ndjson(mine).head(3)).with_columns(
        id=pl.int_range(pl.len()).cast(pl.String)).write_ndjson(other)
    settings = Settings(data=str(mine), development=str(other))
    assert development_rows(settings).frame['id'].to_list() == [str(at) for at in range(60)]  # none of a scored document
    assert all(entry.step.inputs['dev'] is development_rows(settings) for entry in baseline_entries(settings))
    with pytest.raises(UsageError, match='development='): scored_rows(Settings(data=str(mine), development=str(mine)))


@pytest.mark.parametrize(('settings', 'error', 'said'), [
    ({'split': 'dev'}, UsageError, 'score another'), ({'split': 'train'}, UsageError, 'it has dev, test'),
    ({'data': 'nothing'}, UsageError, 'nothing'), ({'limit': 0}, UsageError, 'limit')])
def test_what_cannot_be_scored_is_named(settings, error, said):
    with pytest.raises(error, match=said): scored_rows(Settings(**settings))


def test_rows_without_labels_are_refused(mine):
    rows = pl.read_ndjson(mine).with_columns(label=pl.when(pl.col('id') != '3/' + NONE).then('label'))
    rows.write_ndjson(mine)
    with pytest.raises(DataError, match='1 rows of .* have no label'): table_plan('fhsum/table1', data=str(mine), models=[])


# ---- methods ---------------------------------------------------------------------------------------------------------------------------

def test_direct_judges_keep_every_combination_and_what_cannot_be_read():
    said = iter([verdicts(True, True), verdicts(False, True), verdicts(False, False), verdicts(True, False), 'I cannot say.'])
    script: dict = {}
    loaded = judge(lambda request: script.setdefault(request.messages[-1].content, next(said, verdicts(True, True))))
    found = labels(direct_entries(Settings(limit=5, loaded=loaded), ['judge'], ['Vanilla Judge']))['judge + Vanilla Judge']
    assert found['label'].to_list() == [NONE, FACTUAL, NON_FACTUAL, UNNAMED, None]
    assert found['status'].to_list() == ['ok']*4 + ['unparsed']


def test_a_baseline_learns_nothing_from_the_scored_rows(tmp_path):
    path = tmp_path/'mine.jsonl'
    rows = pl.DataFrame([{'id': f'{at}/{label}', 'split': 'dev' if at < 8 else 'test', 'document': f'Document {at} tells of a mill.',
                          'summary': f'A mill, {label}.', 'label': label} for at in range(20) for label in LABELS])
    rows.write_ndjson(path)
    whole = labels(baseline_entries(Settings(data=str(path))))
    rows.with_columns(label=pl.when(split='test').then(pl.lit(NONE)).otherwise('label')).write_ndjson(path)
    again = labels(baseline_entries(Settings(data=str(path))))
    assert {'majority', 'random', 'words of the summary', 'counts', 'words of the document', 'words and knowledge'} <= set(whole)
    assert all(whole[name]['label'].equals(again[name]['label']) for name in whole)


def test_a_baseline_of_data_without_development_rows_knows_their_rates_and_never_its_own_document(mine):
    rows = pl.read_ndjson(mine).with_columns(label=pl.when(pl.col('id').str.starts_with('1')).then('label').otherwise(pl.lit(NONE)))
    rows.write_ndjson(mine)
    settings = Settings(data=str(mine))
    before = labels(baseline_entries(settings))
    assert set(before['majority']['label']) == {NONE} and all(found['id'].to_list() == rows['id'].to_list() for found in before.values())
    other = pl.when(document='Document 7 tells of a mill.').then(pl.lit(FACTUAL)).otherwise('label')
    rows.with_columns(label=other).write_ndjson(mine)
    after = labels(baseline_entries(Settings(data=str(mine))))
    at = [f'7/{label}' for label in LABELS]
    assert all(before[name].filter(pl.col('id').is_in(at))['label'].equals(after[name].filter(pl.col('id').is_in(at))['label'])
               for name in before)
    first = labels(baseline_entries(Settings(data=str(mine), limit=7)))
    assert all(first[name]['label'].equals(after[name]['label'].head(7)) for name in first if name != 'random')


def test_ablations_change_one_thing_each():
    with pytest.raises(UsageError, match='kept'): table_plan('fhsum/table3', kept=2)
    entries = ablation_entries(Settings(limit=2), [], kept=0)
    rows = [row_of(entry) for entry in entries if not entry.method.endswith(UNDECIDED)]
    assert rows == ['Verifier + Reflection Retrieval', 'Verifier + Reflection Retrieval, a random 0% of the knowledge base',
                    'Verifier + Reflection Retrieval, reflection loop', 'Verifier + Reflection Retrieval, top-k 3']
    settings = Settings(limit=2)
    without = offline_entries(settings, 'Reflection Retrieval', knowledge=load_knowledge(settings).head(0), label='none')
    traces = traces_of(labels(without)['Verifier + Reflection Retrieval'])
    assert traces.height and not traces.filter(pl.col('source') == 'knowledge')['evidence'].drop_nulls().len()


def test_silence_is_chosen_on_development_rows_and_told(mine):
    settings = Settings(data=str(mine), verifier='mute', loaded={'mute': MUTE})
    plan = Plan('fhsum/table2', {'data': str(settings.data), 'seed': 0}, tuple(offline_entries(settings, 'Concurrent Retrieval')))
    done = execute(plan, store=False)
    found, name = answers_of(plan, done), 'Verifier + Concurrent Retrieval'
    chosen, undecided = choices(plan, done, CELLS.frame()), found.methods[name + UNDECIDED]
    label = chosen['silence']['concurrent']
    assert label in LABELS and set(found.methods[name]['label']) == {label}  # all are silent: any label is better than none
    assert undecided['label'].null_count() == undecided.height and set(undecided['status']) == {'unparsed'}
    assert [*chosen['development_f1']] == [name]  # no headline without the default
    told = manifest(plan, done)['methods']['concurrent (mute)']
    assert told['relation'] == MUTE.identity and told['encoder'] == Encoder('retriever').identity


def test_where_no_label_of_silence_is_better_there_is_one_row():
    settings = Settings(limit=3, verifier='sure', loaded={'sure': Always('sure', 1, 0, 0)})
    plan = Plan('fhsum/table2', {'data': str(settings.data), 'seed': 0}, tuple(offline_entries(settings, 'Concurrent Retrieval')))
    found = answers_of(plan, execute(plan, store=False))
    (name, said), = found.methods.items()
    assert name == 'Verifier + Concurrent Retrieval' and set(said['label']) == {NONE}


def test_entities_are_classified_as_development_rows_allow(mine):
    rows = pl.read_ndjson(mine).with_columns(summary=pl.format('A mill burnt in {}.', pl.when(pl.col('label') == NONE).then(
        pl.lit('Oslo')).when(pl.col('label') == FACTUAL).then(pl.lit('Lima, Peru')).otherwise(pl.lit('1999'))), entities=pl.lit([]))
    mark = {NONE: 'Non-hallucinated', FACTUAL: 'Factual Hallucination', NON_FACTUAL: 'Non-factual Hallucination'}
    spans = [[{'start': 16, 'end': 40, 'label': mark[label]}] for label in rows['label']]
    annotated = rows.with_columns(entities=pl.Series(spans))
    annotated = annotated.with_columns(document=pl.format('{} It burnt in Oslo.', 'document'))
    settings = Settings(data='own')
    half = annotated.height//2
    settings.held[('rows', 'own', None, None, None)] = Division(Rows('own', annotated.head(half), 'test'),
                                                                Rows('own', annotated.tail(half), 'development'), None)
    (entry,) = family_entries(settings, ['entities'])
    done = execute(entry.step, store=False)
    reached = entry.step.method.fit(**{name: done[each] for name, each in entry.step.inputs.items()})[1]
    assert done[entry.step].height == half and 0 < reached <= 1


# ---- plans -----------------------------------------------------------------------------------------------------------------------------

def test_wrong_options_are_named_while_the_plan_is_made():
    with pytest.raises(UsageError, match='no way of asking'): table_plan('fhsum/table1', direct=['Guess'], limit=1)
    with pytest.raises(UsageError, match='no family'): table_plan('fhsum/fig4', printed='GPT-4o', families=['guesses'], limit=1)
    with pytest.raises(UsageError, match='prints nothing'): table_plan('fhsum/fig4', printed='GPT-5', limit=1)
    with pytest.raises(UsageError, match='nothing'): table_plan('fhsum/table2', verifier='nothing', limit=1)
    with pytest.raises(UsageError): table_plan('fhsum/table2', models=['nothing'], limit=1)
    with pytest.raises(UsageError, match='no set is at hand'): transfer_plan(sets=[])


def test_every_exhibit_that_computes_has_a_plan_of_its_notebooks_parameters():
    from factlab.reports.reproduce import parameters_of
    for exhibit in catalog():
        if exhibit.paper != 'fhsum' or exhibit.status == 'exact': continue
        given = {name: ast.literal_eval(value) for name, value in parameters_of(exhibit).items() if name != 'out'}
        given |= {name: value for name, value in {'limit': 2, 'sets': ['sample']}.items() if name in given}
        plan = exhibit.plan(**given)
        assert plan.parameters == given and plan.exhibit == exhibit.id and exhibit.plan(**plan.parameters).digest == plan.digest


def test_a_plan_is_a_function_of_its_parameters():
    def digest(**more): return table_plan('fhsum/table6', **({'models': ['judge'], 'limit': 2, 'loaded': judge('')} | more)).digest
    others = [digest(), digest(limit=3), digest(seed=1), digest(models=[]), digest(retrieving=['judge'])]
    assert len(set(others)) == len(others) and digest() == digest()


def test_a_dry_run_counts_what_is_then_sent():
    with MisbehavingServer(lambda call: answer(verdicts(False, True))) as server:
        model = f'openai:any?base_url={server.url}'
        plan = table_plan('fhsum/table1', models=[model], limit=4)
        told = estimate(plan, store=False)
        assert not server.calls
        execute(plan, store=False)
        assert told['calls'].sum() == len(server.calls) == 12


def test_answers_decide_how_many_questions_of_retrieval_follow():
    "A dry run takes the example answers of the prompts: claims of one summary are as many as those of the example."
    said = {'mixed_context/claims': 'The mill burnt down.', 'mixed_context/relation': 'Rationale: r\nRelevant: Yes\nRelation: Support'}
    loaded = judge(lambda request: said.get(request.label, 'a query'))
    plan = table_plan('fhsum/table2', models=['judge'], limit=2, verifier='mute', loaded=loaded | {'mute': MUTE})
    told = dict(estimate(plan, store=False).select('label', 'calls').iter_rows())
    assert not loaded['judge'].asked
    execute(plan, store=False)
    really = pl.Series([request.label for request in loaded['judge'].asked]).value_counts()
    assert {label for label, calls in told.items() if calls} >= set(really.to_series()) and told['mixed_context/knowledge'] == 2
    # the claims of the one summary are not those of the other, and a document may be silent about each
    assert told['mixed_context/query'] == told['mixed_context/reflection'] == 2*3 and told['mixed_context/relation'] >= 2*2*3


def test_table_2_says_what_the_knowledge_base_has():
    plan = table_plan('fhsum/table2', limit=2, verifier='mute', loaded={'mute': MUTE})
    cells = table2_cells(plan, execute(plan, store=False))
    known = cells.filter(row='Knowledge base at hand')
    assert known['column'].item() == 'Sample entities found' and 0 <= known['measured'].item() <= 1 and known['n'].item() > 0
