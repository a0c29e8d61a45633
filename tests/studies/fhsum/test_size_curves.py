"""FHSumBench: curves over the size of the model."""
import polars as pl
import pytest

from factlab.core.core import DataError
from factlab.reports.plots import curve_chart
from factlab.studies.fhsum.size_curves import curve_cells, size_curves


def test_curves():
    curves = size_curves(curve_cells())
    assert len(curves) == 35 and curves['series'].n_unique() == 5
    assert curves['x'].unique().sort().to_list() == [.5, 1.5, 3, 7, 14, 32, 72]
    assert curves.filter(pl.col('recomputed').is_not_null()).select('series', 'x').rows() == [('ICL', 32.0)]
    with pytest.raises(DataError, match='does not say its size'): size_curves(curve_cells().with_columns(model=pl.lit('a model')))


def test_the_chart_shows_every_point():
    spec = curve_chart(size_curves(curve_cells()), 't', 'x', 'y').to_dict()
    points = {(row['series'], row['x'], row['source']) for part in spec['datasets'].values() for row in part}
    assert len(points) == 36 and [point for point in points if point[2] == 'recomputed'] == [('ICL', 32.0, 'recomputed')]
