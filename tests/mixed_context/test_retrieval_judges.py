"""Retrieval judges with scripted models: what they ask, how often, what they trace, and what an answer that is missing costs."""
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import Letters

from factlab.core.core import DataError, UsageError
from factlab.mixed_context.knowledge import KNOWLEDGE
from factlab.mixed_context.labels import FACTUAL, MIXED_PREDICTIONS, NON_FACTUAL, NONE, TRACES
from factlab.mixed_context.retrieval_judges import (
    CLAIMS_PROMPT,
    QUERY_PROMPT,
    REFLECTION_PROMPT,
    AskedClaims,
    Lengths,
    RetrievalJudge,
    Wording,
    parse_query,
    parse_summary_claims,
    silence_scores,
    verifier_judge,
)
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.interface import Response, ScriptedModel
from factlab.runs.plan import make_run
from factlab.text.fences import fenced_in
from factlab.verification.extraction import SentenceExtractor

BASE = KNOWLEDGE.frame([{'entity': 'Danube', 'aliases': [], 'description': 'a river of Europe', 'text': None},
                        {'entity': 'Lund', 'aliases': [], 'description': 'a city of Sweden', 'text': None},
                        {'entity': 'Lund', 'aliases': [], 'description': 'a village of Yorkshire', 'text': None}])
DOCUMENT = 'The mill on the Danube burnt down. Nobody in Lund saw it. It was old. The owner was away.'
ROWS = pl.DataFrame({'id': ['none', 'factual', 'wrong'], 'document': [DOCUMENT]*3, 'summary': [
    'A mill burnt down.', 'A mill burnt down. The Danube is a river of Europe.', 'A mill burnt down. The Danube is a river of Japan.']})
LABELS = [NONE, FACTUAL, NON_FACTUAL]


def says(relevant: str, relation: str) -> str: return f'Rationale: r\nRelevant: {relevant}\nRelation: {relation}'


def answer(request) -> str:
    text = request.messages[0].content
    match request.label.removeprefix('mixed_context/'):
        case 'claims': return fenced_in(text, 'text').replace('. ', '.\n')
        case 'query' | 'reflection': return fenced_in(text, 'claim').partition('\n')[0]
        case 'relation':
            evidence, claim = fenced_in(text, 'evidence'), fenced_in(text, 'claim')
            if 'mill' in claim.partition('\n')[0]: return says('Yes', 'Support')
            if not evidence.startswith('Danube is'): return says('No', 'None')
            return says('Yes', 'Contradict' if 'Japan' in claim else 'Support')
        case _:
            summary = text.partition('Summary of the document:\n')[2]
            return f'{{"Faithfulness": {str("river" not in summary).lower()}, "Factuality": {str("Japan" not in summary).lower()}}}'


def run(kind: str, script=answer, rows: pl.DataFrame = ROWS, base: pl.DataFrame = BASE, **settings):
    model = ScriptedModel('m', script, '1')
    predicted, traces = RetrievalJudge(kind, base, encoder=Letters(), **settings).trace(rows, model, False)
    return predicted, traces, Counter(request.label.removeprefix('mixed_context/') for request in model.asked), model


# --- what is asked ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('kind', ['knowledge', 'concurrent', 'reflection'])
def test_every_kind_labels_what_the_evidence_says(kind):
    predicted, traces, *_ = run(kind)
    assert predicted['label'].to_list() == LABELS and predicted['id'].to_list() == ROWS['id'].to_list()
    assert predicted.columns == list(MIXED_PREDICTIONS.columns) and traces.columns == list(TRACES.columns)
    assert set(traces['id']) == set(ROWS['id'])


def test_knowledge_retrieval_asks_once_a_row_and_shows_what_is_known_of_all_names():
    predicted, traces, counts, model = run('knowledge')
    assert counts == {'knowledge': 3} and predicted['calls'].to_list() == [1, 1, 1]
    shown = [request.messages[0].content for request in model.asked]
    assert ['Danube is a river of Europe' in text for text in shown] == [False, True, True] and '- nothing' in shown[0]
    assert traces.filter(id='none')['evidence'].to_list() == [None] and traces.filter(id='wrong')['entity'].to_list() == ['Danube']


def test_concurrent_retrieval_asks_what_its_definition_needs_and_equal_questions_once():
    _, traces, counts, _ = run('concurrent')
    # three summaries; three different claims; each beside its chunk and beside what is known of the names of its summary, if there are any
    assert counts == {'claims': 3, 'query': 3, 'relation': 3 + 3}
    found = traces.drop_nulls('evidence').group_by('source').len().sort('source')
    assert found.rows() == [('document', 5), ('knowledge', 4)]


def test_the_pool_of_a_claim_is_all_that_is_known_of_its_summary_s_names_or_of_its_own():
    def pools(**settings):
        _, traces, *_ = run('concurrent', rows=ROWS.tail(1), top_k=9, **settings)
        found = traces.drop_nulls('evidence').filter(source='knowledge')
        return found.group_by('claim', maintain_order=True).agg('entity').rows()
    assert pools() == [('A mill burnt down.', ['Danube']), ('The Danube is a river of Japan.', ['Danube'])]
    assert pools(pool='claim') == [('The Danube is a river of Japan.', ['Danube'])]


def test_one_extractor_takes_the_summaries_of_all_judges_apart():
    one = ScriptedModel('one', answer, 'extractor')
    judges = {name: ScriptedModel(name, answer, '1') for name in 'ab'}
    for model in judges.values():
        predicted = RetrievalJudge('concurrent', BASE, encoder=Letters(), claims=AskedClaims(one)).predict(ROWS, model, False)
        assert predicted['label'].to_list() == LABELS and all(not each.label.endswith('claims') for each in model.asked)
    assert {request.label for request in one.asked} == {'mixed_context/claims'}
    offline = verifier_judge('concurrent', BASE, claims=AskedClaims(ScriptedModel('gone', lambda _: Response.failed('down'), '1')))
    assert offline.predict(ROWS, store=False)['status'].to_list() == ['failed']*3


def test_wording_lengths_and_knowledge_can_be_others():
    said = CLAIMS_PROMPT.user.partition('Text:')[0]
    mine = Wording(claims=replace(CLAIMS_PROMPT, user='Break the text into claims.\n' + CLAIMS_PROMPT.user.removeprefix(said)))
    judge = RetrievalJudge('concurrent', BASE.head(0), encoder=Letters(), wording=mine, lengths=Lengths(relation=80, query=30))
    model = ScriptedModel('m', answer, 'others')
    assert judge.prompts[0] == mine.claims and judge.max_tokens == 256
    predicted = judge.predict(ROWS, model, False, knowledge=BASE.with_columns(id=pl.col('entity'), status=pl.lit('ok')))
    assert predicted['label'].to_list() == LABELS
    limits = {request.label.removeprefix('mixed_context/'): request.max_tokens for request in model.asked}
    assert limits == {'claims': 256, 'query': 30, 'relation': 80}
    assert model.asked[0].messages[0].content.startswith('Break the text into claims.')


def test_reflection_retrieval_asks_again_only_for_claims_that_the_document_leaves_open():
    predicted, traces, counts, _ = run('reflection')
    assert counts == {'claims': 3, 'query': 3, 'relation': 3 + 2, 'reflection': 2}
    assert traces.filter(claim='A mill burnt down.')['source'].unique().to_list() == ['document']
    assert traces.filter(pl.col('source') == 'knowledge').select('step', 'relation').rows() == [(2, 'support'), (2, 'contradict')]
    assert predicted['calls'].to_list() == [1 + 1 + 1, 1 + 2 + 2 + 1 + 1, 1 + 2 + 2 + 1 + 1]


def test_a_summary_that_the_document_bears_out_costs_no_reflection():
    *_, counts, _ = run('reflection', rows=ROWS.head(1))
    assert counts == {'claims': 1, 'query': 1, 'relation': 1}


def test_more_evidence_and_smaller_chunks_are_asked_about_each():
    *_, counts, _ = run('concurrent', rows=ROWS.head(1), top_k=3, chunk_sentences=1)
    assert counts['relation'] == 3


def test_rules_and_claims_as_queries_save_the_questions_that_they_replace():
    predicted, _, counts, _ = run('reflection', claims='split', queries='claim', reflection='claim')
    assert counts == {'relation': 5} and predicted['label'].to_list() == LABELS


def test_the_loop_goes_on_with_new_evidence_until_one_decides():
    def unsure(request):
        if request.label.endswith('relation'):
            evidence = fenced_in(request.messages[0].content, 'evidence')
            return says('Yes', 'Contradict') if evidence.startswith('Lund is a village') else says('No', 'None')
        if request.label.endswith('claims'): return 'Visitors came to Lund in Sweden.'
        return 'Lund, a city of Sweden' if request.label.endswith('reflection') else 'Lund'
    rows = ROWS.head(1).with_columns(summary=pl.lit('Visitors came to Lund in Sweden.'))
    once, *_, first = run('reflection', unsure, rows)
    again, traces, counts, _ = run('reflection', unsure, rows, max_steps=5)
    assert once['label'].to_list() == [None] and once['status'].to_list() == ['unparsed']
    assert again['label'].to_list() == [NON_FACTUAL] and counts['reflection'] == 2 and traces['step'].to_list() == [1, 2, 3]
    assert traces['evidence'].to_list()[1:] == ['Lund is a city of Sweden.', 'Lund is a village of Yorkshire.']
    assert len(first.asked) == 5
    *_, counts, _ = run('reflection', unsure, rows, base=BASE.head(2), max_steps=5)  # two reflections: the second finds nothing new
    assert counts['reflection'] == 2


# --- what is missing --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('kind', ['knowledge', 'concurrent', 'reflection'])
def test_a_request_that_fails_costs_its_row_alone(kind):
    def down(request):
        return Response.failed('down') if 'Japan' in request.messages[0].content else answer(request)
    predicted, *_ = run(kind, down)
    assert predicted['status'].to_list() == ['ok', 'ok', 'failed'] and predicted['label'].to_list() == [NONE, FACTUAL, None]
    assert predicted['reason'][2] == 'down'


@pytest.mark.parametrize('step, open', [('claims', 3), ('query', 3), ('relation', 3), ('reflection', 2)])
def test_answers_that_cannot_be_read_leave_the_summary_open(step, open):
    def silent(request): return '' if request.label.endswith(step) else answer(request)
    predicted, traces, *_ = run('reflection', silent)
    assert (predicted['status'] == 'unparsed').sum() == open == predicted['label'].null_count()
    assert predicted.filter(status='unparsed')['reason'].str.len_chars().min() > 0
    assert set(traces['id']) == set(ROWS['id'])


def test_nothing_known_leaves_a_claim_open_unless_silence_has_a_label():
    predicted, traces, *_ = run('concurrent', base=KNOWLEDGE.frame())
    assert predicted['label'].to_list() == [NONE, None, None] and 'silent' in predicted['reason'][1]
    assert traces.filter(source='knowledge')['evidence'].null_count() == 5
    assert run('concurrent', base=KNOWLEDGE.frame(), silence=NON_FACTUAL)[0]['label'].to_list() == [NONE, NON_FACTUAL, NON_FACTUAL]


def test_summaries_without_words_are_traced_and_not_asked_about():
    rows = pl.DataFrame({'id': ['a', 'b'], 'document': ['A mill.', ''], 'summary': ['…', 'A mill.']})
    for kind in ('knowledge', 'concurrent', 'reflection'):
        predicted, traces, counts, _ = run(kind, rows=rows)
        assert (predicted['status'] == 'unparsed').all() and not counts and traces.height == 2
        assert traces['reason'].to_list() == predicted['reason'].to_list()


# --- settings ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('wrong', [{'kind': 'reflexion'}, {'queries': 'none'}, {'silence': 'false'}, {'top_k': 0}, {'max_steps': 0},
                                      {'chunk_sentences': 0}, {'claims': 'sentences'}, {'claims': 3}, {'relation': 'nobody'}])
def test_impossible_settings(wrong):
    with pytest.raises(UsageError): RetrievalJudge(**({'kind': 'concurrent', 'knowledge': BASE} | wrong))


def test_what_cannot_run():
    with pytest.raises(UsageError, match='asks a model'): RetrievalJudge('concurrent', BASE).predict(ROWS)
    with pytest.raises(UsageError, match='question to a model'): verifier_judge('knowledge', BASE)
    with pytest.raises(DataError): RetrievalJudge('concurrent', BASE.drop('aliases'))
    with pytest.raises(DataError): run('concurrent', rows=ROWS.with_columns(document=pl.lit(None, pl.String)))


def test_names_and_prompts_say_what_is_done():
    assert RetrievalJudge('reflection', BASE, max_steps=2, top_k=3, label='other').name == 'reflection, top-k 3, loop, other'
    assert [len(RetrievalJudge(kind, BASE).prompts) for kind in ('knowledge', 'concurrent', 'reflection')] == [1, 3, 4]
    assert verifier_judge('concurrent', BASE).name == 'concurrent (verifier)' and not verifier_judge('reflection', BASE).prompts


def test_a_judge_makes_a_run_of_its_settings(home):
    model = ScriptedModel('m', answer, '1')
    judges = [RetrievalJudge('reflection', BASE), RetrievalJudge('reflection', BASE.head(1)), RetrievalJudge('reflection', BASE, top_k=2)]
    runs = [make_run(ROWS, judge, model, dataset='three') for judge in judges]
    assert len({run.id for run in runs}) == 3 and runs[0].predictions['label'].to_list() == LABELS
    asked = len(model.asked)
    assert make_run(ROWS, RetrievalJudge('reflection', BASE), model, dataset='three').id == runs[0].id and len(model.asked) == asked


def test_a_dry_run_counts_every_step():
    judge = RetrievalJudge('reflection', BASE, encoder=Letters())
    with DryRun() as dry: judge.predict(ROWS, ScriptedModel('m', answer, '1'), False)
    assert set(estimate_of(dry)['label']) >= {'mixed_context/claims', 'mixed_context/query', 'mixed_context/relation'}


# --- the verifier -----------------------------------------------------------------------------------------------------------

class Reads:
    "A verifier that looks for words."
    name, identity = 'reads', {'verifier': 'reads'}

    def probabilities(self, pairs, store=None):
        def one(evidence, claim):
            if 'mill' in claim: return [1, 0, 0]
            return [0, 1, 0] if not evidence.startswith('Danube is') else [0, 0, 1] if 'Japan' in claim else [1, 0, 0]
        return np.array([one(*pair) for pair in pairs], np.float32).reshape(-1, 3)


@pytest.mark.parametrize('kind', ['concurrent', 'reflection'])
def test_without_a_model(kind):
    judge = verifier_judge(kind, BASE, Reads(), encoder=Letters())
    predicted, traces = judge.trace(ROWS, None, False)
    assert predicted['label'].to_list() == LABELS and predicted['calls'].sum() == 0 and judge.name == f'{kind} (reads)'
    assert traces['reason'].drop_nulls().str.contains(r'^(supported|contradicted|not in the evidence) [01]\.').any()


# --- reflection by rule ------------------------------------------------------------------------------------------------------

RIVER = KNOWLEDGE.frame([{'entity': 'Danube', 'aliases': [], 'description': 'a river of Europe', 'text': 'It ends in the Black Sea.'},
                         {'entity': 'Ulm', 'aliases': [], 'description': 'a city of Germany', 'text': 'Its minster is of stone.'}])
MILLS = pl.DataFrame({'id': ['true', 'false', 'same'], 'document': ['A mill on the Danube burnt down. Nobody saw it.']*3, 'summary': [
    'A mill on the Danube, which runs to the Black Sea, burnt down.', 'A mill on the Danube, which runs to the North Sea, burnt down.',
    'A mill on the Danube burnt down.']})


class Lenient(Reads):
    "It supports every sentence about a mill by evidence about a mill, whatever else the sentence says."
    def probabilities(self, pairs, store=None):
        return np.array([[1, 0, 0] if 'mill' in evidence and 'mill' in claim else [0, 1, 0] for evidence, claim in pairs],
                        np.float32).reshape(-1, 3)


def open_judge(kind='reflection', **settings):
    return verifier_judge(kind, RIVER, Lenient(), encoder=Letters(), **({'claims': SentenceExtractor()} | settings))


def test_reflection_finds_what_a_verifier_of_whole_sentences_overlooks():
    for silence in (None, NON_FACTUAL):
        assert open_judge('concurrent', silence=silence).predict(MILLS)['label'].to_list() == [NONE]*3
        assert open_judge(silence=silence).predict(MILLS)['label'].to_list() == [FACTUAL, silence, NONE]


def test_the_second_query_is_the_name_and_what_the_document_lacks():
    _, traces = open_judge().trace(MILLS)
    second = dict(traces.filter(step=2).select('id', 'query').iter_rows())
    assert second == {'true': 'Danube Black Sea', 'false': 'Danube North Sea'}  # of the last claim nothing is open: nothing is looked for
    assert 'Black Sea' in traces.filter(id='true', step=2)['reason'].item()


def test_the_loop_asks_for_what_is_still_open():
    rows = pl.DataFrame({'id': ['a'], 'document': ['A mill burnt.'], 'summary': ['A mill of stone in Ulm at the Danube in Asia burnt.']})
    _, traces = open_judge(max_steps=3).trace(rows)
    queries = traces.filter(source='knowledge').sort('step')['query'].to_list()
    assert len(queries) == 3 and len(set(queries)) > 1 and 'stone' in queries[0] and 'Asia' in queries[-1]
    assert traces.filter(source='knowledge').drop_nulls('evidence')['evidence'].n_unique() == 2


def test_silence_is_what_scores_best_on_development_rows():
    labelled = MILLS.with_columns(label=pl.Series([FACTUAL, NON_FACTUAL, NONE]))
    said = open_judge().predict(labelled)
    scores = silence_scores(labelled, said)
    assert max(scores, key=scores.get) == NON_FACTUAL
    assert len(set(silence_scores(labelled.filter(id='same'), said.filter(id='same')).values())) == 1  # no claim is open
    with pytest.raises(UsageError, match='labelled rows'): silence_scores(MILLS, said)


TEXTS = ('A mill burnt down.', 'The Danube is a river of Europe.', 'The Danube is a river of Japan.', 'Lund burnt.')


@given(st.lists(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3), min_size=1, max_size=4), st.integers(1, 2))
@settings(max_examples=12, deadline=None)
def test_reflection_costs_at_most_the_calls_of_its_definition(summaries, steps):
    "A summary's claims, a query a claim, a relation a piece of evidence; and a reflection where the document does not support. Each once."
    rows = pl.DataFrame({'id': [str(at) for at in range(len(summaries))], 'document': [DOCUMENT]*len(summaries),
                         'summary': [' '.join(claims) for claims in summaries]})
    _, traces, counts, model = run('reflection', rows=rows, max_steps=steps)
    assert len({request.messages for request in model.asked}) == len(model.asked)
    claims = {claim for some in summaries for claim in some}
    left = claims - {TEXTS[0]}  # what the document does not support
    assert counts['claims'] == rows['summary'].n_unique() and counts['query'] == len(claims)
    assert counts['reflection'] <= len(left)*steps and counts['reflection'] >= len(left)
    assert counts['relation'] == traces.drop_nulls('evidence').select('claim', 'evidence').unique().height <= len(claims) + len(left)*steps


# --- reading ----------------------------------------------------------------------------------------------------------------

def test_claims_and_queries_are_read_as_models_write_them():
    assert parse_summary_claims('Claims:\n1. A.\n2. B.\n2. B.').value == ['A.', 'B.']
    assert parse_summary_claims('').status == parse_summary_claims('None.').status == 'unparsed'
    assert [parse_query(text).value for text in ('Query: x y', '"x y"', '\n- x y\nmore', '**Search query:** `x y`')] == ['x y']*4
    assert parse_query('Missing persons of Lund').value == 'Missing persons of Lund' and not parse_query('"').ok
    for prompt, parse in ((CLAIMS_PROMPT, parse_summary_claims), (QUERY_PROMPT, parse_query), (REFLECTION_PROMPT, parse_query)):
        assert parse(prompt.example_answer).ok
