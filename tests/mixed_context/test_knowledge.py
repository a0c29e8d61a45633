"""Knowledge bases, the entities of a text, rows of a name."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.mixed_context import (
    KNOWLEDGE,
    KnowledgeIndex,
    knowledge_row,
    mentions,
    name_key,
    read_knowledge,
    wikidata_row,
    write_knowledge,
)

NAMES = st.text(st.characters(codec='utf-8', exclude_categories=['Cc', 'Cs']), min_size=1, max_size=12).filter(lambda text: text.strip())


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
    assert empty.knowledge.is_empty() and empty.rows_of('Oslo') == [] and empty.coverage(['Oslo']) == 0
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
    assert index.coverage([]) != index.coverage([])  # not a number


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
