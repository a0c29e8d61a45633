"""FHSumBench: the number of categories behind each recall."""
from collections import Counter

import polars as pl

from factlab.studies.fhsum.categories import category_cells


def test_categories_behind_recalls():
    six, seven = (category_cells(f'fhsum/table{n}') for n in (6, 7))
    def classes(benchmark): return Counter(six.filter(pl.col('column') == f'{benchmark} categories')['recomputed'].to_list())
    assert classes('FHSumBench') == {4: 16, 3: 2} and classes('M-XSum') == {3: 18, 2: 6}
    assert set(seven.filter(pl.col('column') == 'FHSumBench categories')['recomputed']) == {4}
