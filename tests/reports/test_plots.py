"""Charts: hostile and awkward data draw or are refused with a clear word, files are whole and the same each time."""
import re
from xml.etree import ElementTree

import polars as pl
import pytest

from factlab.core.core import DataError, UsageError
from factlab.reports.plots import BOXES, COMPARISON, COUNTS, GRID, LINKS, SOURCES, comparison_chart, count_chart, link_chart, rank_chart
from factlab.reports.theme import PALETTE, save_chart, text_width, theme

HOSTILE = '</text><script>alert(1)</script><img src=x onerror=alert(1)> "\'&amp; ]]> \x00\x1b[31m\u202e ${datum} {{x}} 漢字🙂 \\n %s'

PADDING = theme()['config']['padding']


def comparison(**more) -> pl.DataFrame:
    row = dict(panel='F1', row='tiny', series='Binary', published=0.5, measured=0.4, low=0.3, high=0.5, n=40)
    return COMPARISON.frame([row | more])


def boxes(*texts: tuple[str, str, str]) -> pl.DataFrame:
    return BOXES.frame([dict(side=side, label=label, text=text, tag=None) for side, label, text in texts])


def svg_of(chart, folder) -> ElementTree.Element:
    svg, png = save_chart(chart, folder/'chart')
    assert png.read_bytes()[:8] == b'\x89PNG\r\n\x1a\n' and len(png.read_bytes()) > 2_000
    return ElementTree.parse(svg).getroot()


def words(root: ElementTree.Element) -> str:
    return ' '.join(' '.join(element.itertext()) for element in root.iter() if element.tag.endswith('}text'))


# --- counts -------------------------------------------------------------------------------------------------------------

def test_counts_show_their_numbers_and_n(tmp_path):
    root = svg_of(
        count_chart(COUNTS.frame([{'category': 0, 'measured': 1284.0, 'published': 1284.0}, {'category': 3, 'measured': 7.0}]), 'How many?',
                    'errors', 'summaries'),
        tmp_path,
    )
    assert all(said in words(root) for said in ('1,284', '7', 'n = 1,291 summaries', 'How many?', 'printed: outlined', '2'))
    titles = [element.text for element in root.iter() if element.tag.endswith('}title')]
    assert '0 errors: 1284' in titles


@pytest.mark.parametrize(
    'frame, complaint',
    [
        (COUNTS.frame(), 'empty'),
        (pl.DataFrame({'measured': [1.0]}), 'missing'),
        (pl.DataFrame({'category': ['a'], 'measured': [1.0], 'published': [1.0]}), 'not Int64'),
    ],
)
def test_counts_that_cannot_be_drawn(frame, complaint):
    with pytest.raises(DataError, match=complaint): count_chart(frame, 't', 'x', 'y')


def test_many_categories_and_one(tmp_path):
    for n in (1, 200):
        counts = COUNTS.frame([{'category': i, 'measured': i + 1.0} for i in range(n)])
        svg_of(count_chart(counts, 't', 'x', 'y'), tmp_path)


# --- comparison ---------------------------------------------------------------------------------------------------------

def test_what_is_printed_is_hollow_and_the_rest_filled(tmp_path):
    root = svg_of(comparison_chart(comparison(recomputed=.45), 'Which?', interval='95 % interval', of='summaries'), tmp_path)
    points = [element.attrib for element in root.iter() if element.get('aria-roledescription') == 'point']
    by_source = {source: point for point in points for source in SOURCES.values() if source in point['aria-label']}
    assert by_source['printed'].get('fill') in (None, 'none', 'transparent') and by_source['printed']['stroke'] == PALETTE[0]
    assert by_source['measured']['fill'] == by_source['recomputed']['fill'] == PALETTE[0]
    assert ['[0.300, 0.500], n = 40' in by_source[source]['aria-label'] for source in SOURCES.values()] == [False, False, True]
    assert all(said in words(root) for said in ('○ printed ● recomputed ● measured · n = 40 summaries', '95 % interval'))


@pytest.mark.parametrize(
    'change',
    [
        dict(published=None),
        dict(measured=None, low=None, high=None, n=None),
        dict(low=None, high=None),
        dict(series=None),
        dict(measured=float('nan')),
    ],
)
def test_cells_that_are_not_there(tmp_path, change):
    svg_of(comparison_chart(comparison(**change), 't'), tmp_path)


def test_comparisons_that_cannot_be_drawn():
    with pytest.raises(DataError, match='nothing to compare'): comparison_chart(COMPARISON.frame(), 't')
    with pytest.raises(DataError, match='nothing to compare'): comparison_chart(comparison(published=None, measured=None), 't')
    with pytest.raises(DataError, match='missing'): comparison_chart(comparison().drop('row'), 't')
    with pytest.raises(UsageError, match='colours'): comparison_chart(pl.concat([comparison(series=str(i)) for i in range(8)]), 't')


def test_a_comparison_keeps_the_frames_order(tmp_path):
    frame = pl.concat(
        [
            comparison(row=row, series=series, panel=panel)
            for panel in ('Recall', 'F1')
            for row in ('zeta', 'alpha')
            for series in ('Binary', 'Binarized')
        ]
    )
    said = words(svg_of(comparison_chart(frame, 't'), tmp_path))
    assert (
        said.index('Recall') < said.index('F1')
        and said.index('zeta') < said.index('alpha')
        and said.index('Binary') < said.index('Binarized')
    )


# --- diagrams -----------------------------------------------------------------------------------------------------------

def test_a_hostile_text_stays_text(tmp_path):
    frame = BOXES.frame([dict(side=side, label=HOSTILE, text=HOSTILE, tag=HOSTILE) for side in ('left', 'right')])
    chart = link_chart(frame, LINKS.frame([dict(left=HOSTILE, right=HOSTILE)]), HOSTILE, (HOSTILE, HOSTILE), [(HOSTILE, HOSTILE)], HOSTILE)
    more = comparison_chart(comparison(panel=HOSTILE, row=HOSTILE, series=HOSTILE), HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    for drawn in (
        chart,
        more,
        count_chart(COUNTS.frame([{'category': 1, 'measured': 1.0}]), HOSTILE, HOSTILE, HOSTILE, HOSTILE),
    ):
        root = svg_of(drawn, tmp_path)
        tags = {element.tag.rpartition('}')[2] for element in root.iter()}
        assert tags <= {'svg', 'rect', 'g', 'path', 'text', 'tspan', 'line', 'title', 'defs', 'clipPath'}
        assert not any(name.startswith('on') or name.endswith('href') for element in root.iter() for name in element.attrib)
        assert '<script' not in (tmp_path/'chart.svg').read_text(encoding='utf-8') and '<script>' in words(root)


def test_long_texts_are_cut_and_say_so(tmp_path):
    root = svg_of(
        link_chart(
            boxes(('left', 'A', 'word ' * 200_000), ('right', 'A', 'x' * 1_000_000)), LINKS.frame(), 't', context=[('Text', 'y ' * 100_000)]
        ),
        tmp_path,
    )
    assert words(root).count('…') >= 3 and (tmp_path/'chart.svg').stat().st_size < 100_000


@pytest.mark.parametrize('frame', [boxes(), boxes(('right', 'A', 'only gold')), boxes(('left', 'A', ''), ('right', 'A', ' '))])
def test_a_column_may_be_empty(tmp_path, frame):
    said = words(svg_of(link_chart(frame, LINKS.frame(), 't'), tmp_path))
    assert ('none' in said) == (frame['side'].n_unique() < 2)


def test_links_must_have_their_ends():
    with pytest.raises(DataError, match="left box 'B'"):
        link_chart(boxes(('left', 'A', 'x'), ('right', 'A', 'y')), LINKS.frame([dict(left='B', right='A')]), 't')
    with pytest.raises(DataError, match='same label'): link_chart(boxes(('left', 'A', 'x'), ('left', 'A', 'y')), LINKS.frame(), 't')
    with pytest.raises(DataError, match="side 'middle'"): link_chart(boxes(('middle', 'A', 'x')), LINKS.frame(), 't')


def test_many_boxes_and_many_links(tmp_path):
    frame = boxes(*[(side, str(i), f'text {i}') for side in ('left', 'right') for i in range(40)])
    svg_of(link_chart(frame, LINKS.frame([dict(left=str(i), right=str(39 - i)) for i in range(40)]), 't'), tmp_path)


def lines_of(root: ElementTree.Element, *words: str) -> list[str]:
    """Lines of text that hold one of the words."""
    found = [element.text or '' for element in root.iter() if element.tag.endswith(('}text', '}tspan'))]
    return [line for line in found if any(word in line for word in words)]


def test_a_chart_of_ranks_has_room_for_a_wider_font(tmp_path):
    "The longest label and the subtitle fit where a viewer draws them a seventh wider."
    rows = ['Gemini 2.0 Flash Experimental', 'GPT-4o']
    grid = GRID.frame([dict(panel='', row=row, column=rank, probability=.5, marked=True) for row in rows for rank in range(1, 10)])
    chart = rank_chart(grid, 'How sure is the order?', note='in % of 10,000 draws around the printed scores · printed rank framed')
    root = svg_of(chart, tmp_path)
    group = next(element for element in root.iter() if element.tag.endswith('}g'))
    left = float(group.get('transform').removeprefix('translate(').partition(',')[0])
    assert left >= 1.15*text_width(rows[0])
    lines = lines_of(root, 'draws', 'framed')
    assert lines and all(PADDING + 1.15*text_width(line) <= float(root.get('width')) for line in lines)


@pytest.mark.parametrize('rows', [['CoT'], ['a method with a rather long name', 'another one whose name is even longer than that']])
@pytest.mark.parametrize('panels', [1, 3])
def test_a_long_subtitle_takes_lines_and_not_width(tmp_path, rows, panels):
    "A picture is as wide with a long subtitle as without one, and no part of the subtitle is lost."
    from factlab.reports.plots import SHARES, share_chart
    note = 'judged by the verifier that ships · sorted by the fused rank, last those that lack requests · '
    note += 'a third part, long too · and a fourth one, which says nothing'
    def both(note):
        frame = pl.concat([comparison(row=row, panel=str(panel)) for row in rows for panel in range(panels)])
        shares = SHARES.frame([dict(row=row, part='right', share=.5) for row in rows for _ in range(panels)])
        shares = shares.with_columns(panel=pl.Series(list(map(str, range(panels)))*len(rows)))
        return [svg_of(comparison_chart(frame, 'Which?', note=note), tmp_path), svg_of(share_chart(shares, 'Which?', note=note), tmp_path)]
    for plain, long in zip(both(None), both(note), strict=True):
        assert long.get('width') == plain.get('width') and float(long.get('height')) > float(plain.get('height'))
        assert all(part in ' '.join(words(long).split()) for part in note.split(' · '))


def test_what_is_right_is_outlined_in_each_panel(tmp_path):
    from factlab.reports.plots import SHARES, share_chart
    frame = SHARES.frame([dict(row='judge', part=part, share=share) for _ in range(2) for part, share in (('yes', .7), ('no', .3))])
    frame = frame.with_columns(panel=pl.Series(['true', 'true', 'false', 'false']), right=pl.Series([True, False, False, True]))
    root = svg_of(share_chart(frame, 'What is said?', note='made up'), tmp_path)
    assert 'made up · in % · outlined: the right answer' in words(root)
    outlines = [element for element in root.iter() if element.get('stroke') == '#1A1A1A' and element.get('stroke-width') == '2.2']
    widths = [float(element.get('d').split('h')[1].partition('v')[0]) for element in outlines]
    assert len(widths) == 2 and max(widths)/min(widths) == pytest.approx(7/3)
    assert {'70', '30'} <= set(words(root).split())
    assert 'true · judge · yes: 70.0 %' in {element.get('aria-label') for element in root.iter()}


def test_curves_are_named_at_their_ends(tmp_path):
    """Names of curves that end at one height stand one under the other, in the order of the ends, and there is no legend."""
    from factlab.reports.plots import CURVES, curve_chart
    ends = {'second': .99, 'first': 1., 'far below': .1, 'third': .98}
    curves = CURVES.frame([dict(series=name, x=x, measured=end*x/2) for name, end in ends.items() for x in (1., 2.)]
                          + [dict(series='early', x=1., published=.5)])
    root = svg_of(curve_chart(curves, 'Where?', 'x', 'y', domain=(0, 1), ends=True), tmp_path)
    texts = [element for element in root.iter() if element.tag.endswith('}text') and element.text in {*ends, 'early'}]
    at = {text.text: float(text.get('transform').rpartition(',')[2].rstrip(')')) for text in texts}
    assert len(texts) == 5 and at['second'] - at['first'] >= 14 and at['third'] - at['second'] >= 14 and at['far below'] > 250
    assert 'role-legend' not in (tmp_path/'chart.svg').read_text()


def test_baselines_stand_back(tmp_path):
    """A baseline has no colour of a method, in every form that draws one, and the subtitle says what its look means."""
    from factlab.reports.plots import CURVES, SHARES, curve_chart, share_chart
    names = ['CoT', 'Baseline: majority', 'FactScore']
    def drawn(chart, name):
        svg = save_chart(chart, tmp_path/name)[0].read_text()
        assert ': baselines' in svg, name
        return {who: re.findall(r'(?:fill|stroke)="(#\w{6})"|(opacity="0?\.4")', ''.join(
            re.findall(rf'<path aria-label="{who} ·[^>]*>', svg))) for who in names}
    one = COMPARISON.frame([dict(panel='', row=name, series='', published=None, measured=.5, low=.4, high=.6, n=9) for name in names])
    one = one.with_columns(status=pl.when(pl.col('row') == names[1]).then(pl.lit('baseline')))
    several = pl.concat([one.with_columns(series=pl.lit(name)) for name in ('Binary', 'Binarized')])
    curves = CURVES.frame([dict(series=name, x=x, published=None, measured=x*.1) for name in names for x in (1., 2.)])
    curves = curves.with_columns(status=pl.when(pl.col('series') == names[1]).then(pl.lit('baseline')))
    shares = SHARES.frame([dict(row=name, part=part, share=.5) for name in names for part in ('right', 'wrong')])
    shares = shares.with_columns(status=pl.when(pl.col('row') == names[1]).then(pl.lit('baseline')))
    for form, chart in {'one': comparison_chart(one, '?'), 'several': comparison_chart(several, '?'),
                        'curves': curve_chart(curves, '?', 'x', 'y'), 'shares': share_chart(shares, '?')}.items():
        looks = drawn(chart, form)
        assert all(looks.values()), form
        colours = {who: {colour for colour, _ in found if colour} for who, found in looks.items()}
        pale = {who for who, found in looks.items() if any(opacity for _, opacity in found)}
        if form in ('one', 'curves'): assert not colours['Baseline: majority'] & set(PALETTE) and colours['CoT'] <= set(PALETTE), form
        else: assert pale == {'Baseline: majority'}, form
    plain = save_chart(comparison_chart(one.filter(row='CoT'), '?'), tmp_path/'plain')[0].read_text()
    assert 'baselines' not in plain


def test_marks_stand_beside_the_middle_of_their_row(tmp_path):
    """A series that is alone in its row stands in the row's middle, whichever it is; two stand above and below it."""
    both = [comparison(row='two', series=name, published=None) for name in ('Binary', 'Binarized')]
    root = svg_of(comparison_chart(pl.concat([*both, comparison(row='one', series='Binarized', published=None)]), '?'), tmp_path)
    points = {element.get('aria-label').partition(' · F1 · ')[::2]: element.get('transform') for element in root.iter()
              if element.get('aria-roledescription') == 'point'}
    at = {(row, said.partition(' ')[0]): float(place.rpartition(',')[2].rstrip(')')) for (row, said), place in points.items()}
    middle = (at['two', 'Binary'] + at['two', 'Binarized'])/2
    labels = {element.text: float(element.get('transform').rpartition(',')[2].rstrip(')')) for element in root.iter()
              if element.tag.endswith('}text') and element.text in ('one', 'two')}
    assert at['two', 'Binarized'] - at['two', 'Binary'] == pytest.approx(17)
    assert at['one', 'Binarized'] - middle == pytest.approx(labels['one'] - labels['two'], abs=1)
