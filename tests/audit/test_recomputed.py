"""Cells beside what the others give: intervals that touch, and the kinds of check that determine a cell."""
import subprocess
import sys
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from printed_tables import finding_cells, tampered

from factlab.audit.recomputed import DETERMINING_KINDS, compared, recomputed_cells
from factlab.audit.relations import run_checks
from factlab.reports.published import cell


def test_the_kinds_of_check_exist():
    kinds = set(run_checks()['check'])
    assert set(DETERMINING_KINDS) < kinds and 'the same number twice' in kinds and 'rate from a count' in kinds


@given(st.fractions(0, 1), st.fractions(0, 1), st.fractions(0, 1), st.fractions(0, 1))
def test_compared_is_exact_when_the_intervals_touch(a, b, c, d):
    printed, allowed = tuple(sorted((a, b))), tuple(sorted((c, d)))
    found = compared(printed, allowed)
    touch = max(printed[0], allowed[0]) <= min(printed[1], allowed[1])
    assert (found['status'] == 'exact') == touch
    close = Fraction(1, 10**9)
    if touch: assert max(printed[0], allowed[0]) - close <= Fraction(found['ours']) <= min(printed[1], allowed[1]) + close


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_any_other_f1_than_the_printed_one_is_a_finding(value):
    printed = f'{value/10_000:.4f}'
    if printed == cell('oasis/table4', 'ROUGE-1', 'Easiness F1').printed: return
    precision, recall = (cell('oasis/table4', 'ROUGE-1', f'Easiness {name}').value for name in ('Precision', 'Recall'))
    fits = abs(2*precision*recall/(precision + recall) - value/10_000) < .0001
    found = finding_cells(recomputed_cells('oasis/table4', frame=tampered('oasis', 'oasis/table4', 'ROUGE-1', 'Easiness F1', printed)))
    assert fits or found == {('ROUGE-1', 'Easiness F1')}


def test_no_model_library_is_loaded():
    heavy = ('torch', 'transformers', 'openai', 'sentence_transformers')
    code = ('import sys, factlab.audit.recomputed, factlab.audit.report; factlab.audit.report.audit("final"); '
            f'print([m for m in {heavy} if m in sys.modules])')
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout.strip() == '[]'
