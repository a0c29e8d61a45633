"""FHSumBench: curves over the size of the model."""
import polars as pl
import pytest

from factlab.core.core import DataError
from factlab.studies.fhsum.size_curves import curve_cells, size_curves


def test_curves():
    curves = size_curves(curve_cells())
    assert len(curves) == 35 and curves['series'].n_unique() == 5
    assert curves['x'].unique().sort().to_list() == [.5, 1.5, 3, 7, 14, 32, 72]
    assert curves.filter(pl.col('recomputed').is_not_null()).select('series', 'x').rows() == [('ICL', 32.0)]
    with pytest.raises(DataError, match='does not say its size'): size_curves(curve_cells().with_columns(model=pl.lit('a model')))
