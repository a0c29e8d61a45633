"""FHSumBench: shares of labels."""
import numpy as np
import polars as pl

from factlab.studies.fhsum.labels import label_cells, label_shares


def test_shares_add_up_to_one():
    assert np.allclose(label_shares(label_cells()).group_by('row').agg(pl.col('share').sum())['share'], 1)
