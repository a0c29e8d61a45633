"""Labels on described errors: read from anybody's table or the workbench, decided by majority, and counted beside what FINAL prints."""
import polars as pl
import pytest

from factlab.core.core import DataError
from factlab.error_analysis.schemes import ENTITY_SCHEME, OPERATION_SCHEME, SPAN_SCHEME, decide, described_items, read_scheme_labels
from factlab.reports.exhibits import find_exhibits
from factlab.reports.options import check_options
from factlab.runs.plan import execute
from factlab.studies.final.operations import OPERATIONS, labels_plan, operation_cells, operation_chart, validity_cells
from factlab.workbench.described import annotate_described

SPANS = {('a', 0): 'subjective', ('a', 1): 'impossible', ('b', 0): 'possible', ('c', 0): 'subjective', ('c', 1): 'subjective'}
ENTITIES = {('a', 0): 'entity', ('a', 1): 'not_an_entity', ('b', 0): 'not_an_entity', ('c', 0): 'entity'}


def lines(labels: dict, scheme: str, annotator: str = 'Ann') -> list[dict]:
    return [{'row': row, 'unit': f'gold:{at}', 'scheme': scheme, 'label': label, 'annotator': annotator}
            for (row, at), label in labels.items()]


def counted(cells: pl.DataFrame) -> dict:
    return {(row, column): value for row, column, value in cells.select('row', 'column', 'measured').iter_rows()}


def test_table_6_counts_inconsistencies_and_summaries(tmp_path):
    path = tmp_path/'labels.csv'
    disputed = lines({('d', 0): 'possible'}, 'final/span') + lines({('d', 0): 'impossible'}, 'final/span', 'Ben')
    pl.DataFrame(lines(SPANS, 'final/span') + lines(ENTITIES, 'final/entity') + disputed).write_csv(path)
    plan = labels_plan('final/table6', labels=path)
    cells = validity_cells(plan, execute(plan, store=False))
    made = counted(cells)
    c, p = 'Inconsistencies C, measured', 'Inconsistencies P (%), measured'
    assert made['Subjective span', c] == 3 and made['Impossible to mark', c] == 1 and made['Unsuited for span', c] == 4
    assert made['Subjective span', p] == pytest.approx(60) and made['Inconsistency not an entity', p] == pytest.approx(50)
    assert made['Subjective span', 'Summaries C, measured'] == 2
    assert made['Unsuited for span', 'Summaries P (%), measured'] == pytest.approx(200/3)
    assert made['All', c] == 5 and made['All', 'Summaries C, measured'] == 3 and made['Undecided', c] == 1
    printed = cells.filter(row='Subjective span', column='Inconsistencies C')
    assert printed['published'].item() == 30 and printed['measured'].item() is None  # a count of other data never stands in its place
    one = cells.filter(row='Unsuited for span', column=p).row(0, named=True)
    assert one['n'] == 5 and one['low'] <= one['measured'] <= one['high']


def test_figure_2_and_table_2_count_operations(tmp_path):
    path = tmp_path/'labels.jsonl'
    names = ['none', 'extraction', 'extraction', 'decomposition']
    given = [{'row': f'{at//2}', 'unit': f'gold:{at}', 'label': name, 'annotator': 'Ann'} for at, name in enumerate(names)]
    pl.DataFrame([*given, given[0] | {'unit': 'explanation', 'label': 'fabricated'}]).write_ndjson(path)  # no column scheme: there is one
    for exhibit in ('final/fig2', 'final/table2'):
        plan = labels_plan(exhibit, labels=path)
        cells = operation_cells(plan, execute(plan, store=False))
        made = counted(cells)
        assert made['Extraction', 'Count, measured'] == 2 and made['Extraction', 'Share, measured'] == pytest.approx(.4)
        assert made['Simple Changes', 'Count, measured'] == 3 and made['Challenging Changes', 'Share, measured'] == pytest.approx(.4)
        assert made['All', 'Count, measured'] == 5 and made['All', 'Summaries, measured'] == 2
        assert made['Fabricated', 'Count, measured'] == 1
        assert {operation.name for operation in OPERATIONS} <= {row for row, column in made if column == 'Share, measured'}
        if exhibit == 'final/fig2':
            assert cells.filter(row='Extraction', column='Share')['published'].item() == .487
            assert 'facet' in operation_chart(cells).to_dict()
    plan = labels_plan('final/fig2')
    assert not plan.steps and 'facet' not in operation_chart(operation_cells(plan, execute(plan))).to_dict()


@pytest.mark.parametrize('change, said', [
    ({'label': pl.lit('vague')}, "row 1: final/span has no label 'vague', it has possible"),
    ({'scheme': pl.lit('final/spam')}, 'has no labels'),
    ({'unit': pl.lit('gold:0'), 'row': pl.lit('a')}, 'twice'), ({'annotator': pl.lit(None, pl.String)}, 'lacks')])
def test_labels_that_are_none_are_refused_before_anything_runs(tmp_path, change, said):
    pl.DataFrame(lines(SPANS, 'final/span')).with_columns(**change).write_csv(path := tmp_path/'wrong.csv')
    with pytest.raises(DataError, match=said): check_options(find_exhibits(['final/table6']), {'labels': str(path)})


def test_what_else_is_wrong_with_a_file(tmp_path):
    pl.DataFrame(lines(SPANS, 'final/span')).drop('scheme').write_csv(path := tmp_path/'less.csv')
    with pytest.raises(DataError, match="no columns \\['scheme'\\]"): labels_plan('final/table6', labels=path)
    with pytest.raises(DataError, match='there is no file'): check_options(find_exhibits(['final/fig2']), {'labels': 'nowhere.csv'})
    assert decide(read_scheme_labels(path, (SPAN_SCHEME,)))['label'].null_count() == 0


def test_the_workbench_offers_the_schemes_and_exports_what_the_tables_read(tmp_path):
    rows = pl.DataFrame({'id': ['tram', 'bus'], 'text': ['Eight to three.', 'The bus was late.'],
                         'summary': ['All voted for it.', 'It burnt.'], 'explanation': ['The vote is not right.', 'Nothing of it.'],
                         'gold': [['Eight to three.', 'A tram.'], []]},
                        schema_overrides={'gold': pl.List(pl.String)})
    items = described_items(rows, 'mine')
    assert items.select('row', 'unit').rows() == [('tram', 'explanation'), ('tram', 'gold:0'), ('tram', 'gold:1'), ('bus', 'explanation')]
    assert 'Explanation: The vote' in items['context'][1] and 'Eight to three.' in items['context'][1]
    ann = annotate_described(rows, (OPERATION_SCHEME,), labels=tmp_path/'live.jsonl', annotator='Ann')
    for key in '7338': ann.keyboard.value += key
    ann.exchange.target.value = str(tmp_path/'mine')
    ann.exchange.write()
    plan = labels_plan('final/fig2', labels=ann.exchange.path())
    made = counted(operation_cells(plan, execute(plan, store=False)))
    assert [made[name, 'Count, measured'] for name in ('Decomposition', 'Fabricated', 'Wrong Annotation')] == [2, 1, 1]
    plain = annotate_described('sample', split='dev', labels=tmp_path/'other.jsonl', annotator='Ann')
    assert [scheme.name for scheme in plain.queue.schemes()] == [ENTITY_SCHEME.name, SPAN_SCHEME.name]
    with pytest.raises(DataError, match='no described errors'): annotate_described('sample', split='train', labels=tmp_path/'x.jsonl')
