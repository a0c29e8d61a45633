"""The audit as a whole: the known findings, the page, JSON and the command line."""
import json

import polars as pl
import pytest

from factlab.audit.checks import CHECKED
from factlab.audit.class_averages import FOOTING
from factlab.audit.findings import CONFIDENCE, FINDING_FRAME
from factlab.audit.relations import papers_of
from factlab.audit.report import audit, audit_json, audit_page, summary, write_audit
from factlab.cli.main import main
from factlab.core.core import UsageError
from factlab.reports.published import PUBLISHED, published_values


@pytest.fixture(scope='module')
def everything(): return audit()


NAMES = {
    'certain': {'facts/table2 N', 'fhsum/FHSumBench classes', 'fhsum/M-XSum classes', 'fhsum/M-XSum sizes', 'fhsum/table2 rows',
                'fhsum/recall', 'fhsum/table3 F1', 'fhsum/table6 GPT-4o + Reflection Retrieval',
                'oasis/section7.1 GPT-4o, Gain of RAG over ZS (points)'},
    'likely': {'fhsum/table7 Qwen2.5-3B + CoT'},
    'question': {'oasis/section9 Resource, Most visited pages (k)', 'oasis/section7.1 Phi-4, Highest accuracy',
                 'final/appendixf Judge, Sensitivity', 'fhsum/table7 F1', 'oasis/section6 Split, Train (%)',
                 'oasis/section6.1 Claim verifier, Triplets (M)', 'oasis/section6.1 Evidence retriever, Training pairs (M)'},
    'remark': {'facts/ties', 'facts/intervals of averages', 'facts/table2 GPT-4o, Response-level', 'facts/section4 Disqualification',
               'facts/section4 Judges', 'final/digits cut off', 'fhsum/digits cut off', 'oasis/digits cut off'},
}


def test_the_findings_are_the_known_ones(everything):
    for sure in CONFIDENCE: assert set(everything.findings.filter(pl.col('sure') == sure)['name']) == NAMES[sure]
    FINDING_FRAME.check(everything.findings), CHECKED.check(everything.checks), FOOTING.check(everything.footing)
    assert everything.findings.select(pl.all_horizontal(pl.col(pl.String).str.len_chars() > 0)).to_series().all()


def test_every_contradiction_belongs_to_one_finding(everything):
    gathered = everything.findings.filter(pl.col('sure').is_in(['certain', 'question']) & ~pl.col('name').str.ends_with(' classes'))
    assert gathered['checks'].sum() == (everything.checks['outcome'] == 'contradiction').sum()
    assert len(everything.checks) > 1000 and (everything.checks['outcome'] == 'holds').sum() > 1000


def test_one_paper_is_its_part_of_all(everything):
    for paper in papers_of(everything.findings): assert audit(paper).findings.equals(everything.findings.filter(pl.col('paper') == paper))
    with pytest.raises(UsageError, match="did you mean 'fhsum'"): audit('fhsun')


def test_the_page_says_everything_and_json_is_json(everything, tmp_path):
    page = audit_page(everything)
    for row in everything.findings.rows(named=True):
        assert row['title'] in page and row['by_hand'].split('\n')[0] in page and f'`{row["name"]}`' in page
    assert page.count('| FINAL |') > 5 and page == write_audit(tmp_path/'audit.md', everything).read_text(encoding='utf-8')
    held = json.loads(audit_json(everything))
    assert len(held['checks']) == len(everything.checks) and held['summary'] == summary(everything).to_dicts()


def test_an_audit_of_nothing():
    empty = audit(frame=PUBLISHED.frame())
    assert empty.checks.is_empty() and empty.findings.is_empty() and summary(empty).is_empty() and 'Checks made' in audit_page(empty)


# --- the command line --------------------------------------------------------------------------------------------------------

def test_published_on_the_command_line(capsys, tmp_path):
    assert main(['published', 'final/table3']) == 0
    shown = capsys.readouterr().out
    assert '1,121' in shown and 'Original DeFacto' in shown and 'final/table4' not in shown
    assert main(['published', '--paper', 'oasis', '--format', 'csv']) == 0
    assert capsys.readouterr().out == published_values(paper='oasis').write_csv()
    assert main(['published', 'facts/table2', '--out', str(tmp_path/'table2.csv')]) == 0
    assert pl.read_csv(tmp_path/'table2.csv', schema=dict(PUBLISHED.columns)).equals(published_values('facts/table2'))


def test_audit_on_the_command_line(everything, capsys, tmp_path):
    assert main(['audit', '--paper', 'facts']) == 0
    assert 'facts/table2 N' in capsys.readouterr().out
    assert main(['audit', '--format', 'json', '--out', str(tmp_path/'audit.txt')]) == 0
    assert json.loads((tmp_path/'audit.txt').read_text(encoding='utf-8'))['findings'] == everything.findings.to_dicts()
    assert main(['audit', '--out', str(tmp_path/'audit.md')]) == 0
    assert (tmp_path/'audit.md').read_text(encoding='utf-8') == audit_page(everything)


@pytest.mark.parametrize('words, message', [
    (['audit', '--paper', 'fcats'], "did you mean 'facts'"), (['published', '--paper', 'oassis'], "did you mean 'oasis'"),
    (['published', 'final/tabel4'], "did you mean 'final/table4'"), (['published', 'facts/table2', '--paper', 'final'], 'did you mean'),
])
def test_unknown_names_on_the_command_line(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_an_output_that_cannot_be_written(tmp_path, capsys):
    (tmp_path/'file').write_text('')
    assert main(['audit', '--paper', 'oasis', '--out', str(tmp_path/'file'/'audit.md')]) == 3
    assert capsys.readouterr().err.startswith('factlab: ')
