"Reports on files in Markdown and LaTeX: what is written is the table that a terminal shows, whatever signs names hold."
import html
import re

import mistune
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports.test_own_judge import FEW, judged_files

from factlab.cli.main import main
from factlab.reports.own_files import OwnReport, latex_report, latex_text, markdown_report, shown_table
from factlab.reports.own_judge import judge_report
from factlab.reports.tables import markdown_text

SIGNS = st.text(st.sampled_from('ab &%$#_{}~^\\|<>[]*`"−–κ.1'), min_size=1)


def told(text: str) -> OwnReport:
    frame = pl.DataFrame({'system': [text, 'plain'], 'score': [.5, .25], 'score_low': [.4, .2], 'score_high': [.6, .3], 'n': [10, 10]})
    return OwnReport(text, {text: frame, 'empty': frame.head(0)}, (text,))


def cells_of(node) -> list[str]:
    "The cells of all tables, as they are read."
    def text(node) -> str: return node.get('raw', '') + ''.join(map(text, node.get('children', ())))
    if node['type'] == 'table_cell': return [html.unescape(text(node))]
    return [cell for child in node.get('children', ()) for cell in cells_of(child)]


@given(SIGNS)
def test_markdown_shows_names_as_they_are(text):
    shown = shown_table(told(text).tables[text])
    expected = [each for row in (shown.columns, *shown.rows()) for each in row]
    read = mistune.create_markdown(renderer='ast', plugins=['table'])(markdown_report(told(text)))
    assert [each.strip() for each in cells_of({'type': 'page', 'children': read})] == [each.strip() for each in expected]


@given(SIGNS)
def test_latex_has_no_sign_of_a_name_that_means_something(text):
    written = latex_text(text)
    plain = re.sub(r'\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|textquotedbl|ldots|S)\{\}', '', written)
    plain = re.sub(r'\$(-|\\[a-z]+)\$', '', plain)
    assert not re.search(r'[&%$#_{}~^\\]', re.sub(r'\\[&%$#_{}]', '', plain)) and written.isascii()
    page = latex_report(told(text))
    rows = page.split(r'\midrule')[1].split(r'\bottomrule')[0].strip().splitlines()
    assert len(rows) == 2 and all(len(re.findall(r'(?<!\\)&', row)) == 2 and row.endswith(r' \\') for row in rows)
    assert page.count(r'\begin{table}') == 1 and not rows[0].startswith('[')


def test_the_table_is_that_of_the_terminal():
    report = judge_report(*judged_files(np.random.default_rng(0)), drawn='random', **FEW)
    markdown, latex = markdown_report(report), latex_report(report)
    for heading, frame in report.tables.items():
        for row in shown_table(frame).rows():
            assert ' | '.join(map(markdown_text, row)) in markdown and ' & '.join(map(latex_text, row)) in latex, heading
    assert latex.isascii() and latex.count(r'\begin{tabular}') == sum(frame.height > 0 for frame in report.tables.values())


@pytest.mark.parametrize('more, form', [((), OwnReport.text), (('--json',), OwnReport.json), (('--format', 'markdown'), markdown_report),
                                        (('--format', 'latex'), latex_report)])
def test_the_commands_write_it(more, form, tmp_path, capsys):
    verdicts, labels = judged_files(np.random.default_rng(1))
    verdicts.write_csv(tmp_path/'verdicts.csv')
    labels.write_csv(tmp_path/'labels.csv')
    command, expected = ['judge', str(tmp_path/'verdicts.csv'), '--labels', str(tmp_path/'labels.csv')], judge_report(verdicts, labels)
    assert main([*command, *more]) == 0 and capsys.readouterr().out == form(expected)
    ending = {markdown_report: '.md', latex_report: '.tex', OwnReport.json: '.json'}.get(form, '.txt')
    assert main([*command, '--out', str(tmp_path/f'page{ending}')]) == 0 and (tmp_path/f'page{ending}').read_text() == form(expected)
