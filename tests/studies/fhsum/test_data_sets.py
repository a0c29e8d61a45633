"""FHSumBench's data sets: the sample is what it says of itself, the real sets follow from their annotations by the stated rules."""
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from factlab.core.core import DataError
from factlab.data.datasets import load
from factlab.data.summaries import ENTFA, XSUM_FACTUALITY, XSUM_SPANS, load_entfa, load_xsumfaith
from factlab.mixed_context.files import read_mixed
from factlab.mixed_context.knowledge import KnowledgeIndex, name_key
from factlab.mixed_context.labels import FACTUAL, LABELS, MIXED, NON_FACTUAL, NONE
from factlab.studies.fhsum.data_sets import (
    annotated_summaries,
    derive_mxsum,
    derive_mxsum_majority,
    derive_xent,
    keep_steps,
    load_fhsum_sample,
)

STOP = set('a an the of in on at by for to from with and or his her its that who whose which was were is are be been has have had as it '
           'one between near through off into up out all into within both where two'.split())


def words(text): return re.findall(r"[\w'’-]+", text.lower())


@pytest.fixture(scope='module')
def sample(): return load('fhsum-sample')


@pytest.fixture(scope='module')
def knowledge(): return load('fhsum-knowledge')


@pytest.fixture(scope='module')
def hallucinated(sample):
    rows = sample.filter(pl.col('entity').is_not_null()).to_dicts()
    return [row | {'span': row['summary'][row['start']:row['end']]} for row in rows]


def test_looks_do_not_tell_the_label(sample):
    y, groups = sample['label'].to_numpy(), sample['document_id'].to_numpy()
    looks = sample.select(pl.col('summary').str.count_matches(','), words=pl.col('summary').str.count_matches(r'\S+')).to_numpy()
    said = cross_val_predict(LogisticRegression(max_iter=1000), looks, y, groups=groups, cv=LeaveOneGroupOut())
    assert f1_score(y, said, average='macro') < .45
    order = sample.group_by('document_id', maintain_order=True).agg('label')['label'].to_list()
    assert max(Counter(labels[0] for labels in order).values()) < len(order)/2  # the order within a document says nothing either


def test_spans_are_of_the_entity_and_not_in_the_document(hallucinated):
    for row in hallucinated:
        assert 0 <= row['start'] < row['end'] <= len(row['summary']) and row['entity'].lower() in row['summary'].lower(), row
        told = set(words(row['span'])) - STOP - set(words(row['entity']))
        assert told and not told & set(words(row['document'])), (row['id'], told & set(words(row['document'])))
        rest = row['summary'][:row['start']] + row['summary'][row['end']:]
        assert set(re.findall(r'\b\d[\d,.]*\b', rest)) - {'200'} <= set(re.findall(r'\b\d[\d,.]*\b', row['document'])), row


def test_injected_descriptions_are_the_entity_s_own_or_another_s(hallucinated, knowledge):
    of = {}
    for entity, description in knowledge.select('entity', 'description').iter_rows(): of.setdefault(description, set()).add(entity)
    known = set(knowledge['entity'])
    for row in (row for row in hallucinated if row['kind'] == 'injected' and row['entity'] in known):
        described = of[row['span'].strip(', ')]
        assert (row['entity'] in described) == (row['label'] == FACTUAL), row
        assert row['span'].startswith(', ') and row['span'].endswith(',') == (row['end'] < len(row['summary'].rstrip('.'))), row


def test_the_knowledge_base_is_what_the_sample_needs(hallucinated, knowledge):
    index = KnowledgeIndex(knowledge)
    assert knowledge.height >= 170 and knowledge['text'].null_count() == 0
    names = knowledge.select(pl.concat_list('entity', 'aliases')).to_series().to_list()
    keys = Counter(key for each in names for key in {name_key(name) for name in each})
    assert sum(count > 1 for count in keys.values()) >= 20
    assert .9 < np.mean([bool(index.rows_of(row['entity'])) for row in hallucinated]) < 1
    for entity, description, text in knowledge.select('entity', 'description', 'text').iter_rows():
        assert description not in text and not description.endswith('.') and name_key(description) != name_key(entity)
        assert len(set(words(description)) - STOP - set(words(text))) > 0, entity  # evidence is no copy of what is injected


def test_a_missing_sample_is_named(tmp_path):
    with pytest.raises(DataError, match='Install factlab again'): load_fhsum_sample(folder=tmp_path)


def annotate(*workers, factual=(), text='It rained.', summary='it rained in rome'):
    "One summary of XSumFaith: what each worker marked (pairs of category and span; None is nothing), and what each said of the world."
    marks = [(f'w{i}', *(mark or (None, None))) for i, worker in enumerate(workers) for mark in (worker or [None])]
    base = dict(bbcid='1', system='A', summary=summary, text=text)
    spans = XSUM_SPANS.frame([base | dict(id=str(i), category=category, span=span, start=summary.find(span) if span else None,
        end=summary.find(span) + len(span) if span else None, occurrences=summary.count(span) if span else 0, published_start=None,
        published_end=None, worker=worker) for i, (worker, category, span) in enumerate(marks)])
    judged = XSUM_FACTUALITY.frame([base | dict(id=str(i), factual=said, worker=f'w{i}') for i, said in enumerate(factual)])
    return annotated_summaries(spans, judged)


E, INTRINSIC = [('extrinsic', 'rome')], [('intrinsic', 'rained')]


@pytest.mark.parametrize(('workers', 'factual', 'strict', 'majority'), [
    ((E, E, E), (False, False, False), [NON_FACTUAL], [NON_FACTUAL]), ((E, E, E), (True, True, True), [FACTUAL], [FACTUAL]),
    ((E, E, E), (True, True, False), [], [FACTUAL]), ((E, E, E), (True, False), [], []),
    ((E, E, E), (False, None, None), [NON_FACTUAL], [NON_FACTUAL]),
    ((E, E, INTRINSIC), (False, False, False), [], [NON_FACTUAL]), ((INTRINSIC,)*3, (False, False, False), [], [NON_FACTUAL]),
    ((E, E, None), (True, True, True), [], [FACTUAL]), ((E, None, None), (True, True, False), [], [NONE]),
    ((E, None, None), (False, False, False), [], []), ((None, None, None), (), [], [NONE]), ((E, E, E), (), [], []),
    ((E, None), (True,), [], []),
    ((E, E, [*E, None]), (False,)*3, [], [NON_FACTUAL])])
def test_annotators_who_disagree(workers, factual, strict, majority):
    annotated = annotate(*workers, factual=factual)
    assert derive_mxsum(annotated).rows['label'].to_list() == strict
    assert derive_mxsum_majority(annotated).rows['label'].to_list() == majority


def test_a_summary_without_its_article_is_dropped_and_counted():
    annotated = annotate(E, E, E, factual=(False,)*3, text=None)
    for derive in (derive_mxsum, derive_mxsum_majority):
        found = derive(annotated)
        assert found.rows.is_empty() and found.steps.row(1) == ('the article is at hand', 1, 0)


def test_a_span_that_is_not_in_the_summary_is_no_span():
    annotated = annotate([('extrinsic', 'paris'), *E], E, E, factual=(False,)*3)
    assert [span['text'] for span in annotated['spans'][0]] == ['rome']*3 and annotated['marked'].to_list() == [3]


def test_steps_count_what_they_drop():
    found = keep_steps(pl.DataFrame({'a': [1, 2, 3, None]}), {'more than 1': pl.col('a') > 1, 'odd': pl.col('a') % 2 == 1})
    assert found.rows['a'].to_list() == [3] and found.steps.rows() == [('all', 0, 4), ('more than 1', 2, 2), ('odd', 1, 1)]


def entfa(*labels, text='It rained.'):
    entities = [dict(start=0, end=2, text='It', type='GPE', label=label) for label in labels]
    return ENTFA.frame([dict(id='a', split='test', text=text, summary='It rained', reference='r', entities=entities)])


F, N, WRONG_ROLE, RIGHT = 'Factual Hallucination', 'Non-factual Hallucination', 'Intrinsic Hallucination', 'Non-hallucinated'


@pytest.mark.parametrize(('labels', 'expected'), [((RIGHT,), NONE), ((RIGHT, F), FACTUAL), ((F, N, RIGHT), NON_FACTUAL),
    ((WRONG_ROLE, F), NON_FACTUAL), ((RIGHT, RIGHT, F, F), FACTUAL)])
def test_the_worst_entity_labels_the_summary(labels, expected):
    assert derive_xent(entfa(*labels)).rows['label'].to_list() == [expected]
    assert derive_xent(entfa(*reversed(labels))).rows['label'].to_list() == [expected]


def test_summaries_without_entities_or_articles_are_dropped_and_counted():
    assert derive_xent(entfa()).steps['left'].to_list() == [1, 1, 0]
    assert derive_xent(entfa(RIGHT, text=' ')).steps['left'].to_list() == [1, 0, 0]


def test_an_unknown_entity_label_is_refused():
    with pytest.raises(DataError, match="has the label 'Perhaps'"): derive_xent(entfa('Perhaps', RIGHT))


def test_what_is_built_is_read_again(tmp_path, sample):
    path = tmp_path/'built.jsonl'
    sample.write_ndjson(path)
    found = read_mixed(path)
    assert found.equals(sample.select(found.columns)) and list(found.columns[:5]) == list(MIXED.columns)


REAL = Path(os.environ.get('FACTLAB_DATA', '/nowhere'))
needs = {name: pytest.mark.skipif(not (REAL/name).is_dir(), reason=f'{name} is not at hand') for name in ('xsumfaith', 'entfa')}


@needs['xsumfaith']
def test_mxsum_has_the_paper_s_size_and_classes():
    rows = load('mxsum', download=False)
    assert Counter(rows['label']) == {NON_FACTUAL: 842, FACTUAL: 70} and round(842/912, 2) == .92
    for summary, spans in rows.select('summary', 'spans').iter_rows():
        assert len({span['annotator'] for span in spans}) == 3 and all(summary[span['start']:span['end']] == span['text'] for span in spans)


@needs['xsumfaith']
def test_mxsum_is_what_a_loop_over_the_annotations_gives():
    spans, factuality = load_xsumfaith(download=False)
    types, judged, texts = {}, {}, {}
    for row in spans.iter_rows(named=True):
        types.setdefault((row['bbcid'], row['system']), set()).add(row['category'])
        texts[row['bbcid'], row['system']] = row['text']
    for row in factuality.iter_rows(named=True): judged.setdefault((row['bbcid'], row['system']), set()).add(row['factual'])
    expected = {f'mxsum-{bbcid}-{system}': FACTUAL if said == {True} else NON_FACTUAL for (bbcid, system), seen in types.items()
                if seen == {'extrinsic'} and len(said := judged.get((bbcid, system), set()) - {None}) == 1 and texts[bbcid, system]}
    assert dict(load('mxsum', download=False).select('id', 'label').iter_rows()) == expected


@needs['xsumfaith']
def test_mxsum_by_majority_has_three_labels():
    rows = load('mxsum-majority', download=False)
    assert set(rows['label']) == set(LABELS) and rows.select('document', 'summary').is_unique().all()
    assert dict(Counter(rows['label'])) == {NON_FACTUAL: 1628, NONE: 207, FACTUAL: 172}


@needs['entfa']
def test_xent_has_the_paper_s_size_and_its_labels_follow_from_the_entities():
    rows = load('xent', download=False)
    assert rows.filter(split='test').height == 240 and rows.height == load_entfa(download=False).height
    for label, entities in rows.select('label', 'entities').iter_rows():
        seen = {entity['label'] for entity in entities}
        assert label == (NON_FACTUAL if seen & {N, WRONG_ROLE} else FACTUAL if F in seen else NONE)
    counts = rows.filter(split='test')['label'].value_counts()
    assert dict(counts.iter_rows()) == {FACTUAL: 58, NON_FACTUAL: 102, NONE: 80}
    assert np.isclose(rows.filter(split='test')['entities'].list.len().sum(), 843)
