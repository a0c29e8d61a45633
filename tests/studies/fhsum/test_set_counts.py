"""Counts of mixed-context sets beside the paper's."""
import polars as pl
import pytest
from conftest import real_data

from factlab.audit.recomputed import recomputed_cells
from factlab.core.core import DataError, UsageError
from factlab.mixed_context.labels import FACTUAL, LABELS, MIXED, NON_FACTUAL, NONE
from factlab.reports.exhibits import make_cells
from factlab.studies.fhsum.labels import MARKED, label_cells
from factlab.studies.fhsum.set_counts import hallucinated_texts, load_sets, set_names, share_rows, with_lengths, with_shares, with_sizes


def rows(*labels, **columns):
    return MIXED.frame([{'id': str(i), 'split': 'test', 'document': f'{i} It rained.', 'summary': 'It rained in old Rome.', 'label': label}
                        for i, label in enumerate(labels)]).with_columns(**{name: pl.Series(values) for name, values in columns.items()})


def cell(cells, row, column): return cells.filter(row=row, column=column).row(0, named=True)


def test_names_of_sets():
    assert set_names('sample,xent , sample') == set_names(['sample', 'xent']) == ['sample', 'xent']
    for nothing in ('', ' , ', []):
        with pytest.raises(UsageError, match='name one of'): set_names(nothing)
    with pytest.raises(UsageError, match='nonesuch'): load_sets('nonesuch')
    with pytest.raises(DataError, match='no file'): load_sets('nonesuch.jsonl')


def test_several_sets_are_taken_by_the_command_line_s_check():
    from factlab.reports.exhibits import find_exhibits
    from factlab.reports.options import check_options
    real_data('xsumfaith')
    check_options(find_exhibits(['fhsum/fig2', 'fhsum/table4', 'fhsum/table5']), {'data': 'sample,mxsum'})
    with pytest.raises(UsageError, match='nonesuch'): check_options(find_exhibits(['fhsum/fig2']), {'data': 'sample,nonesuch'})


def test_the_sample_s_counts_are_those_of_a_loop():
    sample = load_sets('sample')['Sample']
    cells = with_lengths(recomputed_cells('fhsum/table4'), {'Sample': sample})
    for label in LABELS[:2]:
        part = [row for row in sample.filter(label=label, kind='injected').to_dicts()]
        sizes = [len(row['summary'][row['start']:row['end']].strip(', ').split()) for row in part]
        found = cell(cells, 'Sample: words per injected fact', label)
        assert found['measured'] == pytest.approx(sum(sizes)/len(sizes)) and found['n'] == len(part)
    assert cell(cells, 'Sample: words per summary', 'overall')['measured'] == pytest.approx(
        sum(len(text.split()) for text in sample['summary'])/sample.height)


def test_what_was_counted_stands_beside_what_is_printed():
    real = rows(*[NON_FACTUAL]*842, *[FACTUAL]*70)
    cells = with_shares(label_cells(), {'M-XSum': real})
    size, share = cell(cells, 'M-XSum', 'Samples'), cell(cells, 'M-XSum', f'{NON_FACTUAL} share')
    assert (size['published'], size['recomputed'], size['status']) == (912, 912, 'exact')
    assert share['status'] == 'exact' and share['published'] == .92
    assert cells.filter(column='other share').is_empty()
    wrong = with_shares(label_cells(), {'M-XSum': real.head(911)})
    assert cell(wrong, 'M-XSum', 'Samples')['status'] == 'finding'
    assert cell(with_sizes(recomputed_cells('fhsum/table5'), {'M-XSum': real.head(911)}), 'M-XSum', 'Test set size')['status'] == 'finding'


def test_only_the_test_split_of_xent_is_counted():
    both = rows(NONE, FACTUAL, NON_FACTUAL).with_columns(split=pl.Series(['test', 'train', 'train']))
    cells = with_sizes(recomputed_cells('fhsum/table5'), {'XEnt': both})
    assert [cell(cells, 'XEnt', column)['recomputed'] for column in ('Test set size', 'Other rows', 'Labels')] == [1, 2, 1]
    assert cell(with_shares(label_cells(), {'XEnt': both}), 'XEnt', f'{NONE} share')['recomputed'] == 1


def test_the_share_of_entities_that_section_3_prints_is_counted():
    marks = ['Factual Hallucination', 'Non-factual Hallucination', 'Intrinsic Hallucination', 'Non-hallucinated']
    labels = [marks[0]]*118 + [marks[1]]*134 + [marks[2]]*8 + [marks[3]]*583
    made = rows(NONE, FACTUAL).with_columns(entities=pl.Series([[{'text': 'Rome', 'label': label} for label in labels], []]))
    cells = with_shares(label_cells(), {'XEnt': made})
    share = cell(cells, 'XEnt', MARKED)
    assert cell(cells, 'XEnt', 'Entities')['recomputed'] == share['n'] == 843 and share['published'] == .29
    assert share['recomputed'] == pytest.approx(252/843) and share['status'] == 'finding'  # 29.9 %
    assert cells.filter(metric=MARKED).height == 1 and cell(label_cells(), 'XEnt', MARKED)['status'] == 'published'


def test_xent_has_252_of_843():
    real_data('entfa')
    cells = with_shares(label_cells(), load_sets('xent'))
    assert cell(cells, 'XEnt', 'Entities')['recomputed'] == 843 and cell(cells, 'XEnt', MARKED)['recomputed']*843 == pytest.approx(252)


def test_no_cell_of_the_paper_is_lost():
    sets = {'Sample': rows(NONE, FACTUAL), 'mine': rows(NON_FACTUAL)}
    for exhibit, before, count in (('fhsum/table4', recomputed_cells('fhsum/table4'), with_lengths),
                                   ('fhsum/fig2', label_cells(), with_shares),
                                   ('fhsum/table5', recomputed_cells('fhsum/table5'), with_sizes)):
        after = count(before, sets)
        assert after.head(before.height).equals(before) and after['exhibit'].unique().to_list() == [exhibit]
        assert not after.select('row', 'column').is_duplicated().any()


def test_hallucinated_pieces_of_every_kind_of_set():
    offsets = rows(FACTUAL, NONE, start=[10, None], end=[21, None])
    assert hallucinated_texts(offsets)['marked'].to_list() == [['in old Rome'], []]
    spans = rows(FACTUAL).with_columns(spans=pl.Series([[{'text': 'Rome'}, {'text': 'old Rome'}]]))
    assert hallucinated_texts(spans)['marked'].to_list() == [['Rome', 'old Rome']]
    marked = [{'text': 'Rome', 'label': 'Factual Hallucination'}, {'text': 'It', 'label': 'Non-hallucinated'}]
    entities = rows(FACTUAL).with_columns(entities=pl.Series([marked]))
    assert hallucinated_texts(entities)['marked'].to_list() == [['Rome']]
    assert hallucinated_texts(rows(NONE))['marked'].to_list() == [[]]


def test_shares_are_drawn_in_the_order_of_the_labels():
    cells = make_cells('fhsum/fig2', [{'row': 'A', 'column': 'Samples', 'measured': 10.},
                                      {'row': 'A', 'column': f'{NONE} share', 'measured': .5},
        {'row': 'A', 'column': f'{FACTUAL} share', 'measured': .5}, {'row': 'A', 'column': f'{NON_FACTUAL} share', 'measured': 0.}])
    assert share_rows(label_cells()).group_by('row').agg(pl.col('share').sum())['share'].to_list() == pytest.approx([1, 1])
    assert share_rows(cells).rows() == [('A (10)', FACTUAL, .5), ('A (10)', NONE, .5)]
