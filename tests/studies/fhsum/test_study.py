"""FHSumBench's study: which rows are scored, which thresholds come from, and what every method says on them."""
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score

from factlab.core.core import DataError, UsageError
from factlab.mixed_context.entity_features import read_entity_features
from factlab.mixed_context.labels import FACTUAL, LABELS, NON_FACTUAL, NONE, UNNAMED
from factlab.mixed_context.retrieval_judges import RetrievalJudge
from factlab.models.encoder import Encoder
from factlab.models.interface import ScriptedModel
from factlab.studies.fhsum.cases import case_methods
from factlab.studies.fhsum.study import (
    UNDECIDED,
    FhsumStudy,
    ablation_predictions,
    baseline_predictions,
    direct_predictions,
    entity_predictions,
    family_predictions,
    fitting_rows,
    load_knowledge,
    parts_of,
    retrieval_results,
)


def answers(faithful, factual): return f'{{"Faithfulness": {str(faithful).lower()}, "Factuality": {str(factual).lower()}}}'


def judge(answer): return ScriptedModel('judge', answer if callable(answer) else lambda request: answer, '1')


def study(model=None, **settings):
    return FhsumStudy(models=['judge'] if model else [], loaded={'judge': model} if model else {}, store=False, **settings)


@pytest.fixture
def mine(tmp_path):
    "Summaries without splits: three of each of twenty documents."
    rows = [{'id': f'{at}/{label}', 'document': f'Document {at} tells of a mill.', 'summary': f'A mill, {label}.', 'label': label}
            for at in range(20) for label in LABELS]
    path = tmp_path/'mine.jsonl'
    pl.DataFrame(rows).write_ndjson(path)
    return path


def test_thresholds_and_scores_stand_on_different_documents():
    one = study()
    assert set(one.rows()['split']) == {'test'} and set(one.development()['split']) == {'dev'}
    assert not set(one.rows()['document']) & set(one.development()['document'])
    assert study(limit=5).rows()['id'].to_list() == one.rows()['id'].to_list()[:5]
    assert study(limit=5).development().height == one.development().height


def test_data_without_splits_are_divided_by_document_and_always_alike(mine):
    one, again = study(data=str(mine)), study(data=str(mine))
    assert not set(one.rows()['document']) & set(one.development()['document'])
    assert one.rows().height + one.development().height == 60 and one.rows().height % 3 == 0
    assert one.rows().equals(again.rows()) and one.title == 'mine'


@pytest.mark.parametrize(('settings', 'error', 'said'), [
    ({'split': 'dev'}, UsageError, 'score another'), ({'split': 'train'}, UsageError, 'it has dev, test'),
    ({'data': 'nothing'}, UsageError, 'nothing'), ({'top_k': 0}, UsageError, 'top_k'), ({'limit': 0}, UsageError, 'limit')])
def test_what_cannot_be_scored_is_named(settings, error, said):
    with pytest.raises(error, match=said): study(**settings).rows()


def test_rows_without_labels_are_refused(mine):
    rows = pl.read_ndjson(mine).with_columns(label=pl.when(pl.col('id') != '3/' + NONE).then('label'))
    rows.write_ndjson(mine)
    with pytest.raises(DataError, match='1 rows of .* have no label'): study(data=str(mine)).rows()


def test_direct_judges_keep_every_combination_and_what_cannot_be_read():
    said = iter([answers(True, True), answers(False, True), answers(False, False), answers(True, False), 'I cannot say.'])
    script = {}
    model = judge(lambda request: script.setdefault(request.messages[-1].content, next(said, answers(True, True))))
    found = direct_predictions(study(model, limit=5))['judge + Vanilla Judge']
    assert found['label'].to_list() == [NONE, FACTUAL, NON_FACTUAL, UNNAMED, None]
    assert found['status'].to_list() == ['ok']*4 + ['unparsed']


def test_methods_of_one_study_answer_the_same_rows_once():
    asked = []
    model = judge(lambda request: asked.append(1) or answers(True, True))
    one = study(model, limit=4)
    for _ in range(2): found = direct_predictions(one)
    assert len(asked) == 12 and list(found) == ['judge + Vanilla Judge', 'judge + ICL', 'judge + CoT']
    assert all(frame['id'].to_list() == one.rows()['id'].to_list() for frame in (*found.values(), *baseline_predictions(one).values()))
    assert one.manifest(['judge'])['models'] and one.manifest()['data']['rows'] == 4


def test_a_baseline_learns_nothing_from_the_scored_rows(mine):
    whole = baseline_predictions(study(data=str(mine)))
    scored = set(study(data=str(mine)).rows()['id'])
    rows = pl.read_ndjson(mine).with_columns(label=pl.when(pl.col('id').is_in(list(scored))).then(pl.lit(NONE)).otherwise('label'))
    rows.write_ndjson(mine)
    again = baseline_predictions(study(data=str(mine)))
    assert all(whole[name]['label'].equals(again[name]['label']) for name in whole)


def test_words_are_among_the_baselines_and_headlines_have_scores_on_development_rows_alone():
    one = study(limit=6)
    rivals = {'majority', 'random', 'words of the summary', 'counts', 'words of the document', 'words and knowledge'}
    assert rivals <= set(baseline_predictions(one))
    entity_predictions(one)
    known = fitting_rows(one)
    expected = f1_score(known['label'], read_entity_features().predict(known, store=False)['label'], average='macro')
    assert one.manifest()['development_f1'] == {'Entity features': pytest.approx(expected, abs=1e-6)}


def test_ablations_change_one_thing_each():
    model = judge(answers(True, True))
    with pytest.raises(UsageError, match='kept'): ablation_predictions(study(model), kept=2)
    one = study(limit=2)
    rows = [row for row in ablation_predictions(one, kept=0) if not row.endswith(UNDECIDED)]
    assert rows == ['Verifier + Reflection Retrieval', 'Verifier + Reflection Retrieval, 0% of the knowledge base',
                    'Verifier + Reflection Retrieval, reflection loop', 'Verifier + Reflection Retrieval, top-k 3']
    _, traces = retrieval_results(one, ['Reflection Retrieval'], label='0% of the knowledge base',
                                  knowledge=load_knowledge(one).head(0))['Verifier + Reflection Retrieval, 0% of the knowledge base']
    assert not traces.filter(pl.col('source') == 'knowledge')['evidence'].drop_nulls().len()


def test_silence_is_chosen_on_development_rows_and_told(mine):
    one = study(data=str(mine), verifier='mute', knowledge='fhsum-knowledge')
    class Mute:
        name, identity = 'mute', {'verifier': 'mute'}
        def probabilities(self, pairs, store=None): return np.tile(np.array([[0, 1, 0]], np.float32), (len(pairs), 1))
    one.loaded = {'mute': Mute()}
    results = retrieval_results(one, ['Concurrent Retrieval'])
    found, undecided = (results[f'Verifier + Concurrent Retrieval{way}'][0] for way in ('', UNDECIDED))
    chosen = one.manifest()['silence']['concurrent']
    assert chosen in LABELS and set(found['label']) == {chosen}  # all are silent: any label is better than none
    assert undecided['label'].null_count() == undecided.height and set(undecided['status']) == {'unparsed'}
    assert f'Verifier + Concurrent Retrieval{UNDECIDED}' not in one.manifest()['development_f1']  # no headline
    assert one.manifest()['parts'] == {'retriever': Encoder('retriever').identity, 'verifier': Mute.identity}


def test_a_judge_that_is_asked_for_all_names_no_part_and_one_that_searches_names_its_encoder():
    one = study(judge(answers(True, True)), limit=1, verifier='mute')
    direct_predictions(one)
    assert 'parts' not in one.manifest()
    methods = case_methods(load_knowledge(one), None)
    assert [[*parts_of(method)] for method in methods.values()] == [[], ['retriever'], ['retriever']]
    assert parts_of(RetrievalJudge('knowledge', load_knowledge(one))) == {}


def test_ways_of_asking_and_families_are_checked():
    with pytest.raises(UsageError, match='no way of asking'): direct_predictions(study(judge(answers(True, True)), limit=1), ['Guess'])
    with pytest.raises(UsageError, match='no family'): family_predictions(study(limit=1), ['guesses'])
    asked = direct_predictions(study(judge(answers(True, True)), limit=1), ['CoT'])
    assert list(asked) == ['judge + CoT']
