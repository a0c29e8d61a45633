"""Tables: every number in view, whatever is missing; hostile names stay text in every form."""
import re
from html.parser import HTMLParser

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError
from factlab.reports.exhibits import Result, find_exhibits
from factlab.reports.published import published_values
from factlab.reports.tables import BEST_BASELINE, BEST_ROW, CELLS, UNITS, column_groups, marks_of, show_table, show_units, split_comparisons

HOSTILE = '</td></table><script>alert(1)</script>|`*_[x](javascript:alert(1)) \x00\n&"\''


LINK = re.compile(r'(?<!\\)\]\(')


def exhibit(*cells: dict) -> pl.DataFrame:
    blank = dict.fromkeys(CELLS.columns) | dict(exhibit='final/table4', row='CoT', column='tiny F1', metric='F1', kind='value',
                                             status='measured')
    return CELLS.frame([blank | cell for cell in cells])


def tags(text: str) -> set[str]:
    found = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.add(tag) or found.update(name for name, _ in attributes if name.startswith('on'))
    parser.feed(text)
    return found


def test_a_cell_shows_all_numbers_interval_n_and_unparsed():
    view = show_table(
        exhibit(dict(published=0.59, recomputed=0.586, measured=0.211, low=0.12, high=0.3, n=38, unparsed=2),
                dict(row='Zero-Shot', measured=0.5, n=40))
    )
    for form in (view.html.replace('&nbsp;', ' '), view.markdown.replace('\\', ''), view.text):
        assert all(said in form for said in ('○ 0.59', '◐ 0.59', '● 0.21', 'printed', 'recomputed', 'measured', '[0.12, 0.30]',
                                             'n = 38', 'n = 40', '‡2', 'could not be parsed'))


def test_forced_answers_and_the_difference_to_the_best_baseline_are_said_in_the_cell():
    over = dict(kind='difference', against=BEST_BASELINE, measured=.1, low=-.05, high=.24)
    view = show_table(exhibit(dict(measured=.3, n=38, forced=30), dict(row='Every sentence', measured=.2, n=38, status='baseline'),
                              over | dict(n=38)))
    for form in (view.html.replace('&nbsp;', ' '), view.markdown.replace('\\', ''), view.text):
        said = ('†30', 'replaced by the likelier label', 'Δ +0.10 [-0.05, 0.24]', 'best baseline of the column')
        assert all(each in form for each in said)
        assert re.search(r'0\.20.{0,20}baseline', form)
    alone = show_table(exhibit(over))
    assert 'Δ' not in alone.text and '0.10' in alone.text and BEST_BASELINE in alone.text  # its own cell is missing: it stays one
    assert '†' not in show_table(exhibit(dict(measured=.3, n=38, forced=0))).text


def test_one_n_is_said_once_under_the_table():
    assert show_table(exhibit(dict(measured=0.2, n=1265), dict(row='Zero-Shot', measured=0.5, n=1265))).text.count('n = 1,265') == 1


@pytest.mark.parametrize('status, published_value, number, marked', [
    ('exact', 0.40, 0.39, False), ('finding', 0.036, 0.037, True), ('finding', 0.46, 0.46, True), ('measured', 0.46, 0.2, False),
    ('exact', None, 0.2, False),
])
def test_a_finding_is_marked_and_an_exact_cell_is_not_whatever_its_digits(status, published_value, number, marked):
    kind = 'measured' if status == 'measured' else 'recomputed'
    view = show_table(exhibit({'status': status, 'published': published_value, kind: number}))
    assert ('≠◐' in view.text) == marked == ('≠◐' in view.html)


def test_the_largest_table_is_cut_into_blocks_that_keep_all_cells():
    frame = (
        published_values('final/table7')
        .select('exhibit', 'row', 'column', 'metric', 'kind', pl.col('value').alias('published'))
    )
    frame = frame.with_columns(pl.lit(None, kind).alias(name) for name, kind in CELLS.columns.items() if name not in frame.columns)
    view = show_table(CELLS.check(frame))
    assert (
        view.html.count('<table>') == 2 and view.text.count('Oracle + CoT&Hint') == 6 and view.markdown.count('Oracle + CoT&amp;Hint') == 3
    )
    assert view.html.count('○') == view.text.count('○') == 181  # one more under the table
    assert max(map(len, view.text.splitlines())) < 140


def test_a_block_lists_the_rows_that_have_a_cell_in_its_columns():
    named = [dict(row=row, column=f'{model} {measure}', measured=.5) for row, model in (('CoT', 'tiny'), ('Baseline: chance', 'large'))
             for measure in ('Recall', 'Precision', 'F1')]
    more = dict(row='Zero-Shot', column='large F1', unparsed=3), dict(row='Oracle', column='tiny F1', n=3)
    view = show_table(exhibit(*named, *more), width=3)
    rows = [re.findall('scope="row">(.*?)<', block) for block in view.html.split('<table>')[1:]]
    assert rows == [['CoT', 'Oracle'], ['Baseline: chance', 'Zero-Shot']]  # Oracle has no score, and is seen
    assert [view.text.count(row) for row in ('CoT', 'chance', 'Zero-Shot', 'Oracle')] == [1, 1, 1, 1]


def test_what_is_recomputed_on_any_data_stands_once(tmp_path):
    [table] = find_exhibits(['final/table4'])
    printed = dict(row='Zero-Shot', column='GPT-4o F1', published=.47, status='exact', low=.46, high=.47)
    own = exhibit(dict(printed, recomputed=.4667), dict(measured=.1, n=38))
    other = exhibit(dict(printed, recomputed=.466651), dict(measured=.2, n=300),
                    dict(row='Few-Shot', column='GPT-4o F1', recomputed=.5, status='finding'))
    folder = tmp_path/'final'
    folder.mkdir()
    other.write_csv(folder/'table4.final.csv')
    (folder/'table4.final.json').write_text('{}')
    shown = Result(table, own, (folder/'table4.csv',), {}).with_other_data()
    assert shown['row'].to_list() == ['Zero-Shot', 'CoT', 'CoT · on final', 'Few-Shot · on final'] and shown['n'].to_list()[2] == 300
    assert shown['data'].to_list() == [None, None, 'final', 'final']


def test_hostile_names_stay_text():
    view = show_table(exhibit(dict(row=HOSTILE, column=HOSTILE, measured=1.0, status=HOSTILE)), HOSTILE, note=HOSTILE)
    allowed = {'style', 'div', 'table', 'caption', 'thead', 'tbody', 'tr', 'td', 'th', 'span', 'p', 'br', 'small'}
    assert tags(view.html) <= allowed and '\x00' not in view.html + view.markdown + view.text
    assert '<script' not in view.markdown and not LINK.search(view.markdown)
    units = show_units(UNITS.frame([dict(representation=HOSTILE, unit=HOSTILE, inconsistent=None, made_by=HOSTILE)]), HOSTILE)
    assert tags(units.html) <= allowed and '<script' not in units.markdown and not LINK.search(units.markdown)


@settings(max_examples=60)
@given(
    st.text(max_size=40), st.text(max_size=40), st.floats(allow_nan=True, allow_infinity=True), st.one_of(st.none(), st.floats(-1e9, 1e9))
)
def test_anything_that_the_schema_allows_is_shown(row, column, number, low):
    view = show_table(exhibit(dict(row=row, column=column, measured=number, low=low, high=low)))
    lines = view.markdown.splitlines()
    assert len({line.replace('\\|', '').count('|') for line in lines if line.startswith('|')}) == 1


def compared(row: str, difference: float, p: float|None, n: int = 38, column: str = 'tiny F1') -> list[dict]:
    "The cells of a comparison with the best row."
    cell = dict(row=row, column=column, against=BEST_ROW, n=n)
    cells = [cell | dict(kind='difference', measured=difference, low=difference - 0.1, high=difference + 0.1)]
    return cells + ([] if p is None else [cell | dict(kind='p', measured=p)])


def test_rows_behind_the_best_are_marked_and_the_footer_says_what_was_tested():
    scores = [dict(row=row, measured=score, n=40) for row, score in (('CoT', 0.6), ('Zero-Shot', 0.3), ('Few-Shot', 0.55),
                                                                     ('FactScore', 0.4))]
    marks = [*compared('CoT', 0.0, None, 40), *compared('Zero-Shot', -0.3, 0.001), *compared('Few-Shot', 0.2, 0.01, 36),
             *compared('FactScore', -0.2, 0.05)]
    view = show_table(exhibit(*scores, *marks))
    for form in (view.html.replace('&nbsp;', ' '), view.markdown.replace('\\', ''), view.text):
        assert '0.60▲' in form and '0.30*' in form and '0.55▲' not in form and '0.55*' not in form and '0.40*' not in form
        assert 'on the 36 to 38 examples that both rows could be scored on' in form and 'over the 3 other rows of the column' in form
        assert 'n = 40' in form


def test_no_comparison_no_word_of_it():
    for cells in ([dict(measured=0.5, n=40)], [dict(measured=0.5, n=40), *compared('CoT', 0.0, None)]):
        assert 'paired bootstrap' not in show_table(exhibit(*cells)).text
    assert '36 examples that both rows could be scored on' in show_table(
        exhibit(dict(measured=0.5), dict(row='Zero-Shot', measured=0.4), *compared('CoT', 0.0, None, 36),
                *compared('Zero-Shot', -0.1, 0.2, 36))).text


def test_marks_come_back_from_csv_and_strange_ones_stay_cells():
    import io
    frame = exhibit(dict(measured=0.5, n=40), dict(row='Zero-Shot', measured=0.4, n=40), *compared('CoT', 0.0, None),
                    *compared('Zero-Shot', -0.1, 0.001))
    again = pl.read_csv(io.StringIO(frame.write_csv()), schema=dict(CELLS.columns))
    assert show_table(again).text == show_table(frame).text and '0.40*' in show_table(again).text
    lone = exhibit(dict(measured=0.5), *compared('CoT', -0.1, 0.01, column='other F1'))
    shown, within = split_comparisons(lone)
    assert len(shown) == 3 and marks_of(within).is_empty()
    assert 'other F1, difference to the best row' in ' '.join(show_table(lone).text.split())


def test_columns_of_one_measure_have_the_same_decimals():
    view = show_table(exhibit(dict(column='GPT-4o ±F1', kind='plus_minus', published=0.0057),
                              dict(column='tiny ±F1', kind='plus_minus', measured=0.0123),
                              dict(column='tiny F1', measured=0.5)))
    assert '0.0057' in view.text and '0.0123' in view.text and '0.50' in view.text and '0.5000' not in view.text


def test_frames_that_cannot_be_shown():
    with pytest.raises(DataError, match='more than once'): show_table(exhibit({}, {}))
    with pytest.raises(DataError, match='missing'): show_table(pl.DataFrame({'row': ['a']}))
    assert 'no cells' in show_table(CELLS.frame()).html


def test_groups_need_several_measures():
    assert [group for group, _ in column_groups(['a Recall', 'a F1', 'b Recall', 'b F1'])] == ['a', 'b']
    alone = 'a F1, unreadable left out'
    assert column_groups(['a Recall', 'a F1', alone]) == [('a', [('a Recall', 'Recall'), ('a F1', 'F1')]), ('', [(alone, alone)])]
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
    assert show_units(UNITS.frame()).text == ''
