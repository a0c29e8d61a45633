"""The published values against the papers: a second transcription finds every number of every table, and no number besides."""
import re
from pathlib import Path

import polars as pl
import pytest
from transcription import NUMBER, Row, block, caption, folded, numbers, paper_lines, says, section, tabbed, transcribed

from factlab.core.core import package_dir
from factlab.reports.published import published_values, read_published

PAPERS = ['facts', 'final', 'oasis']


# --- what can be said without the texts ---------------------------------------------------------------------------------


@pytest.mark.parametrize('paper', PAPERS)
def test_no_cell_stands_twice_and_each_row_names_its_paper(paper):
    frame = read_published(package_dir()/'studies'/paper/'published.csv')
    assert not frame.select('exhibit', 'row', 'column').is_duplicated().any()
    assert frame['paper'].unique().to_list() == [paper]
    assert frame['exhibit'].str.starts_with(f'{paper}/').all()
    for name in ('row', 'column', 'source', 'note'):  # a blank at an end makes two names of one
        texts = frame[name].drop_nulls()
        assert (texts == texts.str.strip_chars()).all(), name


# --- the tables ---------------------------------------------------------------------------------------------------------

def oasis_tables(lines: list[str]) -> dict[str, list[Row]]:
    "Tables stand below their captions; the second names a group before its rows, and the fourth has its rows as columns."
    def table(name: str) -> list[str]: return block(lines, caption(lines, name), 1)
    groups: list[Row] = []
    start = caption(lines, 'Table 2')
    for line in lines[start + 1:next(n for n, line in enumerate(lines) if line.startswith('4. ') and n > start)]:
        fields = line.split('\t')
        if len(fields) == 2 and fields[1]: groups[-1] = (groups[-1][0], groups[-1][1] + numbers(fields[1:]))
        elif len(fields) == 2: groups.append((folded(fields[0]), ()))
    head, *rest = [line.split('\t') for line in table('Table 4')]
    turned = [(folded(name), numbers(row[n] for row in rest)) for n, name in enumerate(head) if n]
    plain = {f'oasis/table{name.lower().replace(".", "")}': tabbed(table(f'Table {name}')) for name in ('3', '5', '6', '7', '8', 'C.1')}
    return {'oasis/table2': groups, 'oasis/table4': turned, **plain}


def final_tables(lines: list[str]) -> dict[str, list[Row]]:
    "Tables stand above their captions."
    return {f'final/table{n}': tabbed(block(lines, caption(lines, f'Table {n}'), -1)) for n in (3, 4, 6, 7, 8, 9, 10)}


def facts_tables(lines: list[str]) -> dict[str, list[Row]]:
    "Tables are HTML on one line below their captions; a judge is named once for all of its templates."
    tables = {}
    for n in (2, 4, 5, 6):
        rows, judge = [], ''
        for row in re.findall(r'<tr>(.*?)</tr>', block(lines, caption(lines, f'Table {n}'), 1, '<table')[0]):
            fields = [(kind, re.sub(r'<[^>]*>', '', text).strip()) for kind, text in re.findall(r'<td([^>]*)>(.*?)</td>', row)]
            if n < 5 and 'rowspan' in fields[0][0]: judge, fields = fields[0][1], fields[1:]
            texts = [text for _, text in fields]
            if len(texts) > 6 and re.match(NUMBER + r'( |$)', texts[1]): rows.append((folded(judge + texts[0]), numbers(texts[1:])))
        tables[f'facts/table{n}'] = rows
    examples = [re.search(r'\\sim ([\d.]+)k', line) for line in block(lines, caption(lines, 'Table 1'), 1, '|')]
    return tables | {'facts/table1': [(str(n), (match[1],)) for n, match in enumerate(filter(None, examples))]}


TABLES = {'facts': facts_tables, 'final': final_tables, 'oasis': oasis_tables}


@pytest.mark.parametrize('paper', PAPERS)
def test_every_number_of_every_table(paper):
    for exhibit, rows in TABLES[paper](paper_lines(paper)).items():
        ours = transcribed(exhibit)
        if exhibit == 'facts/table1': ours = [(str(n), row) for n, (_, row) in enumerate(ours)]  # its rows have no names in the paper
        if exhibit == 'oasis/table6': rows = [(name, row) for name, row in rows if row]  # its second head
        assert ours == rows, exhibit


def _columns(exhibit: str) -> list[str]:
    "The columns of an exhibit, in order, without the unit behind them."
    columns = published_values(exhibit).filter(pl.col('row') != 'All')['column'].unique(maintain_order=True)
    return [folded(re.sub(r' \((%|B)\)$', '', column)) for column in columns]


@pytest.mark.parametrize('paper, name, side', [
    ('oasis', '3', 1), ('oasis', '5', 1), ('oasis', '7', 1), ('oasis', '8', 1), ('oasis', 'C.1', 1), ('final', '3', -1), ('final', '8', -1),
    ('final', '9', -1), ('final', '10', -1),
])
def test_columns_are_those_of_the_head(paper, name, side):
    lines = paper_lines(paper)
    head = [field for field in block(lines, caption(lines, f'Table {name}'), side)[0].split('\t') if field.strip()]
    if name != '10': head = head[1:]  # what stands over the names of the rows
    model = 'GPT-4o ' if (paper, name) == ('final', '9') else ''  # named in the caption
    assert _columns(f'{paper}/table{name.lower().replace(".", "")}') == [folded(model + re.sub(r' \(%\)$', '', field)) for field in head]


def test_columns_under_two_heads():
    oasis, final, facts = (paper_lines(name) for name in ('oasis', 'final', 'facts'))
    upper, lower = (line.split('\t') for line in block(oasis, caption(oasis, 'Table 6'), 1)[:2])
    assert _columns('oasis/table6') == [folded(field) for field in [upper[1], *lower] if field]
    words = {'Rec.': 'Recall', 'Prec.': 'Precision', 'F1': 'F1'}
    for n in (4, 7):
        upper, lower = ([field for field in line.split('\t') if field] for line in block(final, caption(final, f'Table {n}'), -1)[:2])
        assert _columns(f'final/table{n}') == [folded(upper[at//3] + words[field]) for at, field in enumerate(lower)]
    for n in (5, 6):
        html = block(facts, caption(facts, f'Table {n}'), 1, '<table')[0]
        cells = [re.findall(r'<td[^>]*>(.*?)</td>', row) for row in html.split('</tr>')[:4]]
        rows = [[re.sub(r'<[^>]*>', '', text).strip() for text in row] for row in cells]
        assert rows[1][:2] == ['Open (N=860)', 'Blind (N=859)']
        judges = [f'{first} {second}' for first, second in zip(rows[2], rows[3], strict=True)]
        heads = [f'{split} {judge}' for split, judge in zip(['Open']*3 + ['Blind']*3, judges, strict=True)]
        assert _columns(f'facts/table{n}') == [folded(head) for head in [*heads, rows[0][2], rows[0][3] + rows[1][2]]]


def _spelled(row: dict) -> bool:
    return (row['note'] or '').startswith(('printed as a word', 'printed as 1 ·', 'printed as 1e'))


@pytest.mark.parametrize('paper, table', [
    ('facts', 'Table 2'), ('facts', 'Table 4'), ('facts', 'Table 5'), ('facts', 'Table 6'), ('final', 'Table 6'), ('final', 'Table 9'),
])
def test_sizes_behind_a_table_stand_in_its_caption_or_head(paper, table):
    lines = paper_lines(paper)
    start = caption(lines, table)
    text = '\n'.join(lines[start:start + 3])
    found = published_values(f'{paper}/table{table[-1]}').filter(pl.col('row') == 'All')
    assert len(found)
    for row in found.iter_rows(named=True): assert says(text, row['printed'], _spelled(row)), row


# --- the running text ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('paper', PAPERS)
def test_every_other_number_stands_in_its_section(paper):
    lines = paper_lines(paper)
    tables = set(TABLES[paper](lines))
    known = {name for name in published_values(paper=paper)['exhibit'] if re.search(r'/table(?!1$)', name)}
    assert known <= tables, 'a table that no second transcription covers'
    frame = published_values(paper=paper).filter(pl.col('printed').is_not_null() & ~pl.col('exhibit').is_in(tables))
    assert len(frame) > 15
    for row in frame.iter_rows(named=True):
        name = re.sub(r'^(§|App\.) |,.*$', '', row['source'])
        assert says(section(lines, name), row['printed'].split(' ±')[0], _spelled(row)), row


def test_a_paper_that_is_absent_is_a_skip_with_a_reason(monkeypatch, tmp_path: Path):
    monkeypatch.setenv('FACTLAB_PAPERS', str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match='FACTLAB_PAPERS'): paper_lines('oasis')
