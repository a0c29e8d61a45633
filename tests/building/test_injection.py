"""Construction: spans that go, places of descriptions, balanced rows, and the round trip."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.building import INJECTED, build_mixed, correct_summaries, find_place, insert_description, locate_span, moved_span
from factlab.building.injection import description_kinds, span_cuts, without_cuts
from factlab.core.core import DataError, UsageError
from factlab.mixed_context import FACTUAL, KNOWLEDGE, LABELS, NON_FACTUAL, NONE, Mention, knowledge_row

TEXT = st.text(min_size=1, max_size=60)


@given(TEXT, TEXT.filter(str.strip), st.data())
@settings(max_examples=400, deadline=None)
def test_taking_a_description_out_gives_the_text_back(text, description, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    place = find_place(text, Mention(start, end, text[start:end], data.draw(st.sampled_from(['GPE', 'PERSON', 'ORG']))))
    if place.reason:
        return
    made, first, last = insert_description(text, place, description)
    assert made[:first] + made[last:] == text and end <= first < last
    a = data.draw(st.integers(0, len(text) - 1))
    b = data.draw(st.integers(a + 1, len(text)))
    left, right = moved_span((a, b), first, last - first)
    assert made[left:right].replace(made[first:last], '', 1) == text[a:b] if a < first < b else made[left:right] == text[a:b]


@given(TEXT, st.data())
@settings(max_examples=300, deadline=None)
def test_removal_only_takes_away(text, data):
    starts = data.draw(st.lists(st.integers(0, len(text) - 1), max_size=3))
    spans = [(start, data.draw(st.integers(start + 1, len(text)))) for start in starts]
    cuts = span_cuts(text, spans)
    left = without_cuts(text, cuts)
    assert len(left) == len(text) - sum(end - start for start, end in cuts)
    assert all(any(a <= start and end <= b for a, b in cuts) for start, end in spans)
    kept = [char for at, char in enumerate(text) if not any(a <= at < b for a, b in cuts)]
    assert all(new in (old, old.upper()) for new, old in zip(left, kept, strict=True))


@given(st.text(st.characters(codec='utf-8'), min_size=1, max_size=30), st.data())
@settings(max_examples=200, deadline=None)
def test_spans_are_found_in_bytes_and_utf16(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    said = text[start:end]
    if text.count(said) > 1:
        return  # another convention may meet another place
    for encoding, width in (('utf-8', 1), ('utf-16-le', 2)):
        a, b = (len(text[:at].encode(encoding)) // width for at in (start, end))
        assert locate_span(text, a, b, said) == (start, end)


@pytest.mark.parametrize(
    ('text', 'span', 'left'),
    [
        ('A man from Belfast has died.', 'Belfast', 'A man has died.'),
        ('He died, in Lyon, on Monday.', 'Lyon', 'He died, on Monday.'),
        ('The fire (in Belfast) is out.', 'Belfast', 'The fire is out.'),
        ('Fire, the Sun says, in May.', 'May', 'Fire, the Sun says.'),
        ('She saw “Carmen” twice.', 'Carmen', 'She saw twice.'),
        ('It rained. In Rome, it snowed.', 'Rome', 'It rained. It snowed.'),
    ],
)
def test_removal_mends(text, span, left):
    at = text.index(span)
    assert without_cuts(text, span_cuts(text, [(at, at + len(span))])) == left


def test_removal_refuses_spans_outside():
    for span in ((-1, 2), (3, 3), (2, 9)):
        with pytest.raises(DataError, match='does not lie'):
            span_cuts('short', [span])
    with pytest.raises(DataError, match='has it 2 times'):
        locate_span('Ann met Ann.', 20, 23, 'Ann')


@pytest.mark.parametrize(
    ('text', 'name', 'made'),
    [
        ('A mill in Belfast burnt.', 'Belfast', 'A mill in Belfast, X, burnt.'),
        ('It burnt in Belfast.', 'Belfast', 'It burnt in Belfast, X.'),
        ('In Belfast, mills burn', 'Belfast', 'In Belfast, X, mills burn'),
        ('It lies (near Belfast) there', 'Belfast', 'It lies (near Belfast, X) there'),
        ('"Belfast" is a film', 'Belfast', '"Belfast", X, is a film'),
        ('“In Belfast” he said', 'Belfast', '“In Belfast, X” he said'),
        ('Belfast: a city', 'Belfast', 'Belfast, X: a city'),
        ('The UN (United Nations) met', 'UN', 'The UN (United Nations), X, met'),
        ('Belfast', 'Belfast', 'Belfast, X'),
        ('in Belfast – again', 'Belfast', 'in Belfast, X – again'),
        ('sold to Apple Inc. in May', 'Apple Inc', 'sold to Apple Inc., X, in May'),
        ('He is in the U.S.', 'U.S.', 'He is in the U.S., X.'),
    ],
)
def test_punctuation(text, name, made):
    at = text.index(name)
    assert insert_description(text, find_place(text, Mention(at, at + len(name), name, 'ORG')), 'X')[0] == made


def test_right_to_left_text_keeps_its_comma():
    text = 'زار الوزير بلفاست أمس'
    at = text.index('بلفاست')
    made, start, end = insert_description(text, find_place(text, Mention(at, at + 6, 'بلفاست', 'GPE')), 'عاصمة')
    assert made == 'زار الوزير بلفاست، عاصمة، أمس' and made[:start] + made[end:] == text


def test_no_place_no_insertion():
    text = "Belfast's mayor"
    place = find_place(text, Mention(0, 7, 'Belfast', 'GPE'))
    assert place.reason == 'possessive'
    with pytest.raises(UsageError, match='possessive'):
        insert_description(text, place, 'X')
    with pytest.raises(UsageError, match='blank'):
        insert_description('Oslo', find_place('Oslo', Mention(0, 4, 'Oslo', 'GPE')), ' ')


KNOWN = KNOWLEDGE.frame(
    [
        knowledge_row('Marie Curie', 'a physicist who discovered radium'),
        knowledge_row('Alfred Nobel', 'the inventor of dynamite'),
        knowledge_row('Clara Schumann', 'a German pianist'),
        knowledge_row('Belfast', 'the capital of Northern Ireland'),
        knowledge_row('Porto', 'a harbour on the Douro'),
        knowledge_row('Georgia', 'a country'),
        knowledge_row('Georgia', 'a state'),
        knowledge_row('Lyon', 'The Lyon'),
        knowledge_row('Angela Merkel', 'the first woman to lead Germany'),
    ]
)


def summaries(n=12, **more):
    people = ('Marie Curie', 'Angela Merkel', 'Clara Schumann')
    return pl.DataFrame(
        [
            {'id': f's{at}', 'document': f'A note on item {at}.', 'summary': f'{people[at % 3]} spoke about item {at} in Belfast.'} | more
            for at in range(n)
        ]
    )


@pytest.mark.parametrize('paired', [False, True])
def test_rows_are_balanced_and_round_trip(paired):
    rows = summaries(13)
    built = build_mixed(rows, KNOWN, paired=paired, store=False)
    INJECTED.check(built.rows)
    assert set(built.rows['label'].value_counts()['count']) == {13 if paired else 4} and built.rows['id'].is_unique().all()
    texts = dict(rows.select('id', 'summary').iter_rows())
    for row in built.rows.iter_rows(named=True):
        if row['label'] == NONE:
            assert row['start'] is None and row['summary'] == texts[row['source_id']]
        else:
            assert row['summary'][: row['start']] + row['summary'][row['end'] :] == texts[row['source_id']]
        if row['label'] == FACTUAL:
            assert row['described'] == row['entity']
        if row['label'] == NON_FACTUAL:
            assert row['described'] != row['entity'] and row['description'] in row['summary']
    if not paired:
        assert built.drops.filter(reason='left over')['id'].len() == 1 and built.rows['source_id'].is_unique().all()


def test_a_seed_is_repeated_and_another_differs():
    first, same, other = (
        build_mixed(rows, KNOWN, seed=seed, store=False).rows.sort('id')
        for rows, seed in ((summaries(), 1), (summaries().sample(12, shuffle=True, seed=3), 1), (summaries(), 2))
    )
    assert first.equals(same) and not first.equals(other)


def test_everything_left_out_has_a_reason():
    rows = pl.DataFrame(
        [
            {'id': 'none', 'document': 'd', 'summary': 'It rained all day.'},
            {'id': 'two', 'document': 'd', 'summary': 'They sang in Georgia.'},
            {'id': 'same', 'document': 'd', 'summary': 'He lives in Lyon.'},
            {'id': 'stated', 'document': 'Belfast, the capital of Northern Ireland.', 'summary': 'A fire in Belfast.'},
            {'id': 'blank', 'document': 'd', 'summary': ' '},
            {'id': 'nothing', 'document': None, 'summary': 'x'},
            {'id': 'again', 'document': 'd', 'summary': 'It rained  all day.'},
            {'id': 'owner', 'document': 'd', 'summary': "They met Belfast's mayor."},
        ]
    )
    built = build_mixed(rows, KNOWN, store=False)
    reasons = dict(
        built.drops.filter(pl.col('entity').is_not_null() | ~pl.col('reason').str.contains('describe')).select('id', 'reason').iter_rows()
    )
    assert reasons == {
        'none': 'no entity',
        'two': 'ambiguous name',
        'same': 'description equals the entity',
        'stated': 'the document states it',
        'blank': 'no summary',
        'nothing': 'no document',
        'again': 'the same as another summary',
        'owner': 'possessive',
    }
    assert built.rows.is_empty() and set(built.drops['id']) == set(rows['id'])


def test_summaries_that_are_alike_without_their_wrong_spans_are_one():
    text, cut = 'Clara lives in Oslo, {}, with Marie.', ('a port', 'a farm in the hills')
    spans = [[{'start': 19, 'end': 19 + len(each) + 2}] for each in cut]
    rows = pl.DataFrame({'id': ['a', 'b'], 'document': 'd', 'summary': [text.format(each) for each in cut], 'wrong_spans': spans})
    kept, drops = correct_summaries(rows)
    assert kept['id'].to_list() == ['a'] and drops.rows() == [('b', None, 'the same as another summary')]


def test_an_entity_twice_in_a_sentence_is_described_once():
    rows = pl.DataFrame(
        [
            {'id': f's{at}', 'document': 'd', 'summary': f"Belfast's trains left Belfast on day {at} and came to Belfast again."}
            for at in range(3)
        ]
    )
    built = build_mixed(rows, KNOWN, paired=True, store=False).rows.filter(label=FACTUAL)
    assert (
        built.height == 3 and built['summary'].str.starts_with("Belfast's trains left Belfast, the capital of Northern Ireland, on").all()
    )
    assert (built['summary'].str.count_matches('capital') == 1).all()


def test_carried_spans_move_and_wrong_ones_go():
    rows = summaries(3).with_columns(
        wrong_spans=pl.Series([[{'start': 0, 'end': 0}][:0]] * 3, dtype=pl.List(pl.Struct({'start': pl.Int64, 'end': pl.Int64}))),
        spans=pl.col('summary').map_elements(
            lambda text: [{'start': text.index('item'), 'end': len(text)}],
            return_dtype=pl.List(pl.Struct({'start': pl.Int64, 'end': pl.Int64})),
        ),
    )
    built = build_mixed(rows, KNOWN, paired=True, store=False).rows
    assert all(
        row['summary'][span['start'] :].startswith('item')
        and span['end'] == len(row['summary']) - (row['start'] == span['end'])
        or row['end'] == len(row['summary']) - 1
        for row in built.iter_rows(named=True)
        for span in row['spans']
    )
    lines = pl.DataFrame(
        {'id': ['a'], 'document': ['d'], 'summary': ['A mill in Oslo has burnt down.'], 'wrong_spans': [[{'start': 10, 'end': 14}]]}
    )
    assert correct_summaries(lines)[0]['summary'].to_list() == ['A mill has burnt down.']
    with pytest.raises(DataError, match="summary 'a': the span 10–90"):
        correct_summaries(lines.with_columns(wrong_spans=pl.Series([[{'start': 10, 'end': 90}]])))


def test_refusals():
    with pytest.raises(UsageError, match='knowledge base is empty'):
        build_mixed(summaries(), KNOWLEDGE.frame(), store=False)
    with pytest.raises(UsageError, match='three rows'):
        build_mixed(summaries(), KNOWN, size=2, store=False)
    with pytest.raises(UsageError, match='types is'):
        build_mixed(summaries(), KNOWN, types='any', store=False)
    with pytest.raises(DataError, match='text columns'):
        build_mixed(summaries().drop('document'), KNOWN, store=False)
    with pytest.raises(DataError, match="the id 's0' names 2 summaries"):
        build_mixed(pl.concat([summaries(1)] * 2), KNOWN, store=False)
    assert build_mixed(summaries(1).head(0), KNOWN, store=False).rows.is_empty()


def test_wrong_descriptions_are_of_the_same_kind_when_required():
    built = build_mixed(summaries(24), KNOWN, types='require', paired=True, store=False).rows.filter(label=NON_FACTUAL)
    kinds = dict(zip(KNOWN['entity'], description_kinds(KNOWN['description'].to_list(), store=False), strict=True))
    assert built.height and all(kinds[row['entity']] == kinds[row['described']] for row in built.iter_rows(named=True))
    assert set(LABELS) >= set(built['label'])
