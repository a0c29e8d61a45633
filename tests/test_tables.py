"""Tables: every number in view, whatever is missing; hostile names stay text in every form."""
import re
from html.parser import HTMLParser

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core import DataError
from factlab.published import published
from factlab.tables import CELLS, UNITS, column_groups, show_table, show_units

HOSTILE = '</td></table><script>alert(1)</script>|`*_[x](javascript:alert(1)) \x00\n&"\''


LINK = re.compile(r'(?<!\\)\]\(')


def exhibit(*cells: dict) -> pl.DataFrame:
    blank = dict.fromkeys(CELLS.columns) | dict(exhibit='final/table4', row='CoT', column='tiny F1', status='measured')
    return CELLS.frame([blank | cell for cell in cells])


def tags(text: str) -> set[str]:
    found = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.add(tag) or found.update(name for name, _ in attributes if name.startswith('on'))
    parser.feed(text)
    return found


def test_a_cell_shows_published_ours_interval_n_and_unparsed():
    view = show_table(
        exhibit(dict(published=0.59, ours=0.211, low=0.12, high=0.3, n=38, unparsed=2), dict(row='Zero-Shot', ours=0.5, n=40))
    )
    for form in (view.html.replace('&nbsp;', ' '), view.markdown.replace('\\', ''), view.text):
        assert all(said in form for said in ('0.59', '0.21', '[0.12, 0.30]', 'n = 38', 'n = 40', '‡2', 'could not be parsed'))


def test_one_n_is_said_once_under_the_table():
    assert show_table(exhibit(dict(ours=0.2, n=1265), dict(row='Zero-Shot', ours=0.5, n=1265))).text.count('n = 1,265') == 1


@pytest.mark.parametrize('status, published_value, ours, marked', [
    ('exact', 0.46, 0.465, False), ('exact', 0.46, 0.4651, True), ('exact', 1405, 1404, True), ('exact', 0.036, 0.037, True),
    ('finding', 0.46, 0.46, True), ('measured', 0.46, 0.2, False), ('exact', None, 0.2, False),
])
def test_an_exact_cell_that_differs_is_marked(status, published_value, ours, marked):
    view = show_table(exhibit(dict(status=status, published=published_value, ours=ours)))
    assert ('≠●' in view.text) == marked == ('≠●' in view.html)


def test_the_largest_table_is_cut_into_blocks_that_keep_all_cells():
    frame = (
        published('final/table7')
        .select('exhibit', 'row', 'column', pl.col('value').alias('published'))
        .with_columns(
            *(
                pl.lit(None).cast(kind).alias(name)
                for name, kind in CELLS.columns.items()
                if name not in ('exhibit', 'row', 'column', 'published')
            )
        )
    )
    view = show_table(CELLS.check(frame))
    assert (
        view.html.count('<table>') == 2 and view.text.count('Oracle + CoT&Hint') == 6 and view.markdown.count('Oracle + CoT&amp;Hint') == 3
    )
    assert view.html.count('○') == view.text.count('○') == 181  # one more under the table
    assert max(map(len, view.text.splitlines())) < 140


def test_hostile_names_stay_text():
    view = show_table(exhibit(dict(row=HOSTILE, column=HOSTILE, ours=1.0, status=HOSTILE)), HOSTILE, note=HOSTILE)
    allowed = {'style', 'div', 'table', 'caption', 'thead', 'tbody', 'tr', 'td', 'th', 'span', 'p', 'br', 'small'}
    assert tags(view.html) <= allowed and '\x00' not in view.html + view.markdown + view.text
    assert '<script' not in view.markdown and not LINK.search(view.markdown)
    units = show_units(UNITS.frame([dict(representation=HOSTILE, unit=HOSTILE, inconsistent=None, made_by=HOSTILE)]), HOSTILE)
    assert tags(units.html) <= allowed and '<script' not in units.markdown and not LINK.search(units.markdown)


@settings(max_examples=60)
@given(
    st.text(max_size=40), st.text(max_size=40), st.floats(allow_nan=True, allow_infinity=True), st.one_of(st.none(), st.floats(-1e9, 1e9))
)
def test_anything_that_the_schema_allows_is_shown(row, column, ours, low):
    view = show_table(exhibit(dict(row=row, column=column, ours=ours, low=low, high=low)))
    lines = view.markdown.splitlines()
    assert len({line.replace('\\|', '').count('|') for line in lines if line.startswith('|')}) == 1


def test_frames_that_cannot_be_shown():
    with pytest.raises(DataError, match='more than once'): show_table(exhibit({}, {}))
    with pytest.raises(DataError, match='missing'): show_table(pl.DataFrame({'row': ['a']}))
    assert 'no cells' in show_table(CELLS.frame()).html


def test_groups_need_several_measures():
    assert [group for group, _ in column_groups(['a Recall', 'a F1', 'b Recall', 'b F1'])] == ['a', 'b']
    assert (
        column_groups(['GPT-4o F1', 'Average F1'])[0][0] == ''
        and column_groups(['Count', 'Share in § 3'])[0][0] == ''
        and column_groups([])[0] == ('', [])
    )


def test_units_say_what_is_inconsistent_and_what_could_not_be_read():
    rows = [
        ('Spans', 'a record', True, 'sample'),
        ('Atomic facts', 'It was 1913.', False, 'tiny'),
        ('Atomic facts', 'It rained.', None, 'tiny'),
    ]
    view = show_units(pl.DataFrame(rows, schema=dict(UNITS.columns), orient='row'), 'One error')
    assert (
        all(said in view.text for said in ('✗ a record', '✓ It was 1913.', '‡ It rained.', 'could not be parsed'))
        and view.text.count('Atomic facts') == 1
    )
    assert show_units(UNITS.frame()).text == '\n'
