"""Knowledge bases, the entities of a text, rows of a name."""

import importlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.mixed_context import (
    KNOWLEDGE,
    KnowledgeIndex,
    knowledge_row,
    known_names,
    mentions,
    name_key,
    read_knowledge,
    wikidata_row,
    write_knowledge,
)
from factlab.store.answers import Store
from factlab.text.words import normal_text

knowledge = importlib.import_module('factlab.mixed_context.knowledge')

NAMES = st.text(st.characters(codec='utf-8', exclude_categories=['Cc', 'Cs']), min_size=1, max_size=12).map(normal_text).filter(str.strip)


@given(st.lists(st.tuples(NAMES, NAMES, st.lists(NAMES, max_size=3), st.none() | NAMES), max_size=6))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, rows):
    frame = KNOWLEDGE.frame(
        [
            row
            for row in (knowledge_row(name, said, others, text) for name, said, others, text in rows)
            if row['entity'] and row['description']
        ]
    ).unique(maintain_order=True)
    path = write_knowledge(frame, tmp_path_factory.mktemp('knowledge') / 'base.jsonl')
    again = read_knowledge(path)
    assert again.height == frame.height and again['entity'].to_list() == frame['entity'].to_list()
    index = KnowledgeIndex(again)
    for at, name in enumerate(again['entity']):
        if name_key(name):
            assert at in index.rows_of(name) and at in index.rows_of(f'The {name}'.upper().replace('THE', 'the'))


def test_bad_lines_are_named_with_their_number(tmp_path):
    path = tmp_path / 'base.jsonl'
    path.write_text(
        '\n'.join(
            [
                '{"entity": "Oslo", "description": "a town"}',
                '{"entity": "Lima"}',
                '[]',
                '{"entity": "Ki',
                '',
                '{"entity": "Bern", "description": "a town", "aliases": "Berne"}',
            ]
        ),
        encoding='utf-8',
    )
    with pytest.raises(DataError, match=r'line 2: description is None.*line 3: list instead.*line 4: no JSON.*1 more'):
        read_knowledge(path)


def test_empty_file_is_an_empty_base_and_says_so_where_it_matters(tmp_path):
    (tmp_path / 'base.jsonl').write_bytes(b'')
    empty = KnowledgeIndex(read_knowledge(tmp_path / 'base.jsonl'))
    assert empty.knowledge.is_empty() and empty.rows_of('Oslo') == []
    with pytest.raises(UsageError, match='knowledge base is empty'):
        empty.require('this')
    with pytest.raises(DataError, match='cannot read'):
        read_knowledge(tmp_path / 'missing.jsonl')


def test_dump_of_wikidata_is_read(tmp_path):
    item = {
        'labels': {'en': {'value': 'Oslo'}, 'de': {'value': 'Oslo'}},
        'aliases': {'en': [{'value': 'Christiania'}]},
        'descriptions': {'en': {'value': 'capital of Norway'}},
    }
    (tmp_path / 'dump.jsonl').write_text('[\n' + json.dumps(item) + ',\n' + json.dumps({**item, 'labels': {}}) + '\n]\n', encoding='utf-8')
    assert read_knowledge(tmp_path / 'dump.jsonl').to_dicts() == [knowledge_row('Oslo', 'capital of Norway', ['Christiania'])]
    assert wikidata_row(item, 'de') == knowledge_row('Oslo', '')
    with pytest.raises(DataError, match='not objects by language'):
        wikidata_row({'labels': ['Oslo']})


@pytest.mark.parametrize('name', ['Bank of England', 'the bank of england', "Bank of England's", 'Bank of England’s', 'BANK OF ENGLAND'])
def test_spellings_of_a_name(name):
    assert name_key(name) == ('bank', 'of', 'england')


def test_ambiguous_names_have_several_rows():
    index = KnowledgeIndex(
        KNOWLEDGE.frame(
            [
                knowledge_row('Georgia', 'a country'),
                knowledge_row('Georgia', 'a state', text='It has Atlanta.'),
                knowledge_row('James', 'a king', ['the Wise']),
            ]
        )
    )
    assert index.rows_of("Georgia's") == [0, 1] and [text for _, text in index.evidence('Georgia')] == [
        'Georgia is a country.',
        'Georgia is a state. It has Atlanta.',
    ]
    assert index.rows_of("James'") == [2] == index.rows_of('wise')


@given(st.lists(st.text(max_size=60), max_size=4))
@settings(max_examples=40, deadline=None)
def test_mentions_are_pieces_of_the_text_and_apart(texts):
    for text, found in zip(texts, mentions(texts), strict=True):
        readable = text.encode('utf-8', 'replace').decode()
        assert all(readable[mention.start : mention.end] == mention.text for mention in found)
        assert all(first.end <= second.start for first, second in zip(found, found[1:], strict=False))


def test_mentions_have_no_article_and_no_possessive():
    text = "The Guardian reported on the United Kingdom's vote and on Merkel’s visit to Washington, D.C."
    names = {mention.text for mention in mentions([text])[0]}
    assert 'United Kingdom' in names and not any(name.startswith(('the ', 'The ')) or name.endswith(("'s", '’s')) for name in names)
    with pytest.raises(DataError, match='1,000,001 characters'):
        mentions(['x' * 1_000_001])


# --- names in a text --------------------------------------------------------------------------------------------------------

PARTS = st.sampled_from(
    ['Oslo', "Oslo's", 'the', 'A', 'Bank', 'of', 'England', 'U.S.', 'Be\u0301al', 'Béal', 'Feirste', '«Oslo»', 'Oslo-Bergen', 'OSLO',
     'a-the', 'ﬁn', 'Łódź', 'ירושלים', 'Jones’', '—', 'x', "d'Or", '1914']
)


@given(
    st.lists(st.lists(PARTS, min_size=1, max_size=3), max_size=5),
    st.lists(st.tuples(PARTS, st.sampled_from(' ,-\u0301_\xa0')), max_size=9),
)
@settings(max_examples=150, deadline=None)
def test_known_names_are_those_of_a_search_at_every_place(names, words):
    rows = [knowledge_row(' '.join(parts), 'something') for parts in names]
    index = KnowledgeIndex(KNOWLEDGE.frame(rows))
    text = ''.join(word + mark for word, mark in words)
    spans, found, at = list(re.finditer(r"[^\W_]+(?:[’'-][^\W_]+)*", text)), [], 0
    while at < len(spans):  # every span of up to six words is looked up
        ends = [end for end in range(min(at + 6, len(spans)), at, -1)
                if not {spans[at][0].lower(), spans[end - 1][0].lower()} & {'the', 'a', 'an'}
                and index.rows_of(text[spans[at].start() : spans[end - 1].end()])]
        if ends:
            found.append(text[spans[at].start() : spans[ends[0] - 1].end()])
        at = ends[0] if ends else at + 1
    assert known_names(text, index) == list(dict.fromkeys(found))


# --- what the parser said is kept -------------------------------------------------------------------------------------------


def test_a_text_is_parsed_once_and_then_without_spacy(store, monkeypatch):
    texts = ['Ann Lee met Bob Ray in Oslo.', '', 'Half a pair: \ud83d.', 'Ann Lee met Bob Ray in Oslo.']
    plain = mentions(texts)
    monkeypatch.setattr(knowledge, '_PARSED', {})
    assert mentions(texts, store=store) == plain and plain[0][0].text == 'Ann Lee'
    assert store.stats().filter(kind='parse')['responses'].item() == 3
    monkeypatch.setattr(knowledge, '_PARSED', {})  # as a new process has it
    monkeypatch.setattr(knowledge, 'load_tagger', lambda: pytest.fail('spaCy was loaded'))
    assert mentions(texts, store=store) == plain
    with pytest.raises(pytest.fail.Exception, match='loaded'):
        mentions(texts, ['PERSON'], store)  # another question
    assert store.verify().is_empty()


def test_another_parser_reads_again(tmp_path, monkeypatch):
    asked = []

    def read(texts):
        asked.extend(texts)
        return [[len(text)] for text in texts]

    with Store(tmp_path / 'store.sqlite') as store:
        for version in ('1', '2', '2'):
            monkeypatch.setattr(knowledge, '_PARSED', {})
            monkeypatch.setattr(knowledge, 'parser_identity', lambda version=version: {'parser': 'own', 'version': version})
            assert knowledge.parsed_texts('length', ['abc', 'abc'], read, store) == [[3], [3]]
    assert asked == ['abc', 'abc']
