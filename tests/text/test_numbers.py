"""Numbers as people write them: where they are found, what they stand for, and what is no number."""
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.text.units import Source, number_units, number_value
from factlab.text.word_forms import added_words


def values(text): return sorted(value for unit in number_units(text) if (value := number_value(unit.text)) is not None)


@pytest.mark.parametrize(('text', 'found'), [
    ('F(1,210) = 4.3', [1, 4.3, 210]), ('t(1, 210) was 2', [1, 2, 210]), ('χ²(2,100)=3', [2, 3, 100]), ('1,210 men', [1210]),
    ('the mill (1,210 men)', [1210]), ('1 000 men', [1000]), ('1\u202f000\u00a0men', [1000]), ('12\u2009345.5 kg', [12345.5]),
    ('1 234 567 people', [1234567]), ('10 100 metre races', [10, 100]), ('½ of it', [.5]), ('3½ years', [3.5]), ('2 ¾ miles', [2.75]),
    ('−5 °C', [-5]), ('at -5 °C', [-5]), ('3.5 million people', [3.5e6]), ('Two hundred men', [200]), ('½ million', [.5e6]),
    ('3-million', [3e6]), ('12:30', []), ('2015-16', []), ('A-5', [])])
def test_numbers_as_people_write_them(text, found):
    assert values(text) == found


@settings(deadline=None)
@given(st.text(alphabet='0123456789.,- −½¾()F\u202fa million', max_size=24))
def test_offsets_slice_the_own_text(text):
    for unit in number_units(text): assert text[unit.start:unit.end] == unit.text


@settings(deadline=None)
@given(st.integers(0, 10**9))
def test_groups_of_thousands_are_one_number(number):
    for mark in (',', '\u202f', '\u00a0', '\u2009'):
        written = f'{number:,}'.replace(',', mark)
        assert values(f'It has {written} trams.') == [number] == [number_value(written)]
    assert number_value(f'−{number}') == -number and Source.of(f'It has {number:,} trams.').has(f'{number:,}'.replace(',', '\u202f'))


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(100, 999))
def test_arguments_are_no_thousands(first, second):
    assert values(f'F({first},{second})') == sorted([first, second]) and not Source.of(f'F({first},{second})').has(f'{first}{second}')
    assert added_words(f'F({first},{second})', f'{first},{second}') and not added_words(f'{first},{second} men', f'{first}{second} men')


def test_a_source_has_a_number_in_any_spelling():
    source = Source.of('The town has 3,500,000 people, 1 000 mills and half a bridge of 0.5 km at −5 °C.')
    assert all(map(source.has, ['3.5 million', '1,000', '½', '-5', '−5'])) and not source.has('5 million') and not source.has('1/3')
    assert number_value('1/0') is None and number_value('million') is None and number_value('') is None
