"""LLM-OASIS: quoted numbers against the tables, derived again by other means."""
import polars as pl
import pytest
from printed_tables import number

from factlab.audit.report import audit
from factlab.reports.published import published_values


def test_again_quoted_accuracies():
    assert number('oasis/table6', 'GPT-4o', 'RAG (%)') - number('oasis/table6', 'GPT-4o', 'ZS (%)') == pytest.approx(7.2)
    phi = published_values(paper='oasis').filter((pl.col('row') == 'Phi-4') & pl.col('exhibit').is_in(['oasis/table5', 'oasis/table6']))
    assert phi.filter(pl.col('column').str.contains('%'))['value'].max() == 57.9
    assert number('oasis/section7.1', 'Phi-4', 'Highest accuracy') == 0.588


def test_again_the_sizes_of_the_training_sets():
    claims, falsified = 681_201, 81_275
    assert [number('oasis/table2', *place) for place in (('Claim Extraction', 'Claims'), ('Claim Falsification', 'Unfactual Claims'))] == [
        claims, falsified]
    triplets = 2*claims + falsified + 3*falsified + claims  # § 5.3: entailed by t and F, and by U; contradicted; neutral
    found = audit('oasis').findings
    by_hand = {name.rpartition(', ')[2]: text for name, text in found.select('name', 'by_hand').rows()}
    assert f'{triplets/1e6:.3f}; printed 3.5' in by_hand['Triplets (M)']
    assert f'{3*(claims + falsified)/1e6:.3f}; printed 3.2' in by_hand['Training pairs (M)']
    assert f'{100*(67_000 + 4_000)/81_275:.2f}; printed 80' in by_hand['Train (%)']
