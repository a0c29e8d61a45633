"""What the papers declare, found by folder: no generic module of the audit names a paper."""
import re

import pytest

from factlab.audit.checks import PublishedCells, recompute
from factlab.audit.relations import paper_checks, relations_of, run_checks, same_checks
from factlab.core.core import UsageError, package_dir
from factlab.core.papers import paper_folders
from factlab.reports.published import published_values


def test_table7_repeats_table4():
    assert len(checks := same_checks('final/table7', 'final/table4')) == 120
    assert recompute(checks)['holds'].all()


def test_no_generic_module_of_the_audit_names_a_paper():
    words = re.compile(rf'\b({"|".join(paper_folders())}|fhsumbench)\b', re.I)
    for path in sorted((package_dir()/'audit').glob('*.py')):
        lines = [line for line in path.read_text(encoding='utf-8').split('\n') if not line.startswith('# %%')]
        assert [line for line in lines if words.search(line)] == [], path.name


@pytest.mark.parametrize('paper', ['oasis', 'final', 'facts', 'fhsum'])
def test_declared_cells_are_published(paper):
    "A cell with a misspelt name would drop its relation without a word."
    cells, says = PublishedCells(published_values(paper=paper)), relations_of(paper)
    declared = [*says.relations(cells), *says.count_checks(cells)]
    assert declared and {a for check in declared for a in (check.target, *check.basis)} <= set(cells.printed)
    assert all(recompute(same_checks(*pair, cells), cells).height for pair in says.same_cells)


def test_an_unknown_paper_is_named():
    with pytest.raises(UsageError, match="did you mean 'facts'"): run_checks('fact')
    assert paper_checks('toy', PublishedCells(published_values('final/table3'))) == []
