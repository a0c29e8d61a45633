"""The cells of FINAL's main table against a computation by hand, on a scripted detector whose faults are known."""
import polars as pl
import pytest

from factlab.data.datasets import load_sample
from factlab.reports.published import published_values
from factlab.studies.final.example import UNREADABLE, scripted_parts
from factlab.studies.final.localization import METHOD_SCORES, localization_cells, localization_counts, score_cells
from factlab.studies.final.study import METHODS, Study


@pytest.fixture
def study(monkeypatch, tmp_path):
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    return Study(judge='judge', verifier='overlap', limit=6, store=False, loaded=scripted_parts())


def by_hand(method: str) -> tuple[dict[str, float|None], int, int]:
    "Recall, precision and F1 of a method that asks for lists; how many summaries could be read, and how many could not."
    tp = predicted = gold = read = 0
    documents = load_sample().filter(split='test').head(6).to_dicts()
    for document in documents:
        errors = len(document['inconsistencies'])
        flagged = {'self': errors > 1, 'oracle': errors > 0}.get(method.split('_')[0], True)
        if not flagged: found, right = 0, 0
        elif method == 'factscore' or method.endswith('_hint'): found = right = errors
        elif 'cot' in method and document['id'] in UNREADABLE: continue
        else: found, right = errors + 1, errors
        tp, predicted, gold, read = tp + right, predicted + found, gold + errors, read + 1
    return {'Recall': tp/gold, 'Precision': tp/predicted, 'F1': 2*tp/(predicted + gold)}, read, len(documents) - read


ASKED = [method for method in METHODS if method != 'rejected_claims' and not method.startswith('classifier')]

def test_the_cells_are_those_by_hand(study):
    cells = {(cell['row'], cell['column']): cell for cell in localization_cells('final/table4', study, ['detector'], ASKED).to_dicts()}
    for method in ASKED:
        expected, read, unread = by_hand(method)
        for metric, value in expected.items():
            cell = cells[METHODS[method], f'detector {metric}']
            assert cell['ours'] == pytest.approx(value), (method, metric)
            assert (cell['n'], cell['unparsed'], cell['status']) == (read, unread, 'measured')
            assert cell['low'] - 1e-9 <= value <= cell['high'] + 1e-9


def test_printed_cells_stand_beside_ours(study):
    cells = localization_cells('final/table4', study, ['detector'], ['zero_shot'])
    printed = published_values('final/table4').drop_nulls('value')
    both = printed.join(cells.drop_nulls('published'), on=['row', 'column'])
    assert both.height == printed.height and (both['value'] == both['published']).all()
    assert not cells.filter(pl.col('column').str.starts_with('detector'))['published'].is_not_null().any()


def test_counts_name_what_could_not_be_read(study):
    counts = localization_counts(study, 'detector', ['cot', 'zero_shot'])
    assert counts.filter(pl.col('tp').is_null()).select('method', 'id').rows() == [('CoT', id) for id in UNREADABLE if id == 's12']
    assert counts.group_by('method', maintain_order=True).len().rows() == [('CoT', 6), ('Zero-Shot', 6)]


def test_labels_that_name_nothing_have_a_column():
    row = {'model': 'm', 'method': 'CoT', 'value': .2, 'low': .1, 'high': .3, 'n': 38, 'unparsed': 2, 'failed': 1}
    scores = METHOD_SCORES.frame([row | {'metric': metric, 'invalid': invalid} for metric, invalid in (('Recall', 3), ('F1', 3))])
    cells = score_cells('final/table4', scores)
    assert cells['column'].to_list() == ['m Recall', 'm F1', 'm invalid judge labels'] and cells['ours'].to_list() == [.2, .2, 3]
    assert cells['unparsed'].to_list() == [3, 3, None]
    assert score_cells('final/table4', scores.with_columns(invalid=pl.lit(0, pl.Int64))).height == 2
