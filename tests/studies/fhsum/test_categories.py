"""FHSumBench: the number of categories behind each recall."""
from collections import Counter

import polars as pl

from factlab.audit.class_averages import one_footing
from factlab.studies.fhsum.categories import category_cells


def test_categories_behind_recalls():
    six, seven = (category_cells(f'fhsum/table{n}') for n in (6, 7))
    def classes(benchmark): return Counter(six.filter(pl.col('column') == f'{benchmark} categories')['recomputed'].to_list())
    assert classes('FHSumBench') == {4: 16, 3: 2} and classes('M-XSum') == {3: 18, 2: 6}
    found = seven.filter(pl.col('column') == 'FHSumBench categories')
    three = found.filter(recomputed=3)['row'].to_list()  # their lost accuracies would be 1.351, 1.341 and 1.337 over four
    assert len(three) == 3 and all(one.endswith(('Vanilla Judge', 'Knowledge Retrieval', 'Concurrent Retrieval')) for one in three)
    assert ['3b', '3b', '1.5b'] == [next(size for size in ('1.5b', '3b') if size in row.lower()) for row in three]
    assert found.filter(recomputed=4).height == found.height - 3 == 9


def test_the_exhibit_and_the_audit_name_the_same_classes():
    footing = one_footing('fhsum')
    for number in (6, 7):
        cells = category_cells(f'fhsum/table{number}').filter(metric='categories')
        for row, data, found in cells.select('row', 'data', 'recomputed').iter_rows():
            assert footing.filter(row=row, benchmark=data)['classes'].to_list() == [found]
