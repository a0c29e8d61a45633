"""LLM-OASIS: quoted numbers against the tables, derived again by other means."""
import polars as pl
import pytest
from printed_tables import number

from factlab.reports.published import published_values


def test_again_quoted_accuracies():
    assert number('oasis/table6', 'GPT-4o', 'RAG (%)') - number('oasis/table6', 'GPT-4o', 'ZS (%)') == pytest.approx(7.2)
    phi = published_values(paper='oasis').filter((pl.col('row') == 'Phi-4') & pl.col('exhibit').is_in(['oasis/table5', 'oasis/table6']))
    assert phi.filter(pl.col('column').str.contains('%'))['value'].max() == 57.9
    assert number('oasis/section7.1', 'Phi-4', 'Highest accuracy') == 0.588
