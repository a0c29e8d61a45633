"""Agreement of two annotators on spans: against a count of characters, one by one, and scikit-learn's κ."""
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from factlab.core.core import DataError
from factlab.measures.agreement import span_agreement
from factlab.reports.own_scores import score_spans


def drawn(generator, lengths) -> pl.DataFrame:
    rows = []
    for item, length in lengths.items():
        starts = generator.integers(0, length, generator.integers(0, 4)).tolist()
        spans = [(item, start, int(generator.integers(start + 1, length + 1))) for start in starts]
        rows += spans or [(item, None, None)]
    return pl.DataFrame(rows, schema={'item': pl.String, 'start': pl.Int64, 'end': pl.Int64}, orient='row')


def labels(lengths, spans) -> list[int]:
    inside = {(item, at) for item, start, end in spans.drop_nulls().iter_rows() for at in range(start, end)}
    return [int((item, at) in inside) for item, length in lengths.items() for at in range(length)]


@pytest.mark.parametrize('seed', range(25))
def test_values_are_those_of_a_list_of_characters(seed):
    generator = np.random.default_rng(seed)
    lengths = {f't{at}': int(generator.integers(1, 40)) for at in range(8)}
    texts = pl.DataFrame({'item': [*lengths], 'length': [*lengths.values()]})
    first, second = (drawn(generator, lengths) for _ in range(2))
    found = dict(span_agreement(texts, first, second, resamples=50).select('coefficient', 'value').iter_rows())
    a, b = labels(lengths, first), labels(lengths, second)
    assert found["Cohen's κ of characters"] == pytest.approx(cohen_kappa_score(a, b))
    assert found['F1 of characters'] == pytest.approx(f1_score(a, b))
    one, other = ({*spans.drop_nulls().rows()} for spans in (first, second))
    assert found['F1 of exact spans'] == pytest.approx(2*len(one & other)/(len(one) + len(other)))
    again = span_agreement(texts, second, first, resamples=50)  # either way round
    assert dict(again.select('coefficient', 'value').iter_rows()) == pytest.approx(found)


def test_nothing_is_marked_or_everything_or_outside():
    texts = pl.DataFrame({'item': ['a', 'b'], 'length': [4, 6]})
    none = pl.DataFrame(schema={'item': pl.String, 'start': pl.Int64, 'end': pl.Int64})
    one = pl.DataFrame({'item': ['a'], 'start': [0], 'end': [4]})
    assert span_agreement(texts, none, none, resamples=20)['value'].to_list() == [None]*3
    assert span_agreement(texts, one, one, resamples=20)['value'].to_list() == [1]*3
    assert span_agreement(texts, one, none, resamples=20)['value'].to_list() == [0]*3
    for wrong in (('a', 0, 5), ('a', 3, 3), ('c', 0, 1)):
        with pytest.raises(DataError, match='1 of 1 spans of the second do not lie in a text'):
            span_agreement(texts, one, pl.DataFrame([wrong], schema=none.schema, orient='row'))


def test_score_spans_has_it_where_the_texts_are_at_hand():
    gold = pl.DataFrame({'id': ['a', 'b'], 'start': [0, None], 'end': [5, None], 'text': ['Cafe\u0301 \U0001F600', 'It rained.']})
    said = pl.DataFrame({'id': ['a', 'b'], 'start': [0, None], 'end': [6, None]})
    found = score_spans(gold, {'s': said}, resamples=20).tables['agreement, labels aside']
    texts = pl.DataFrame({'item': ['a', 'b'], 'length': [7, 10]})
    both = span_agreement(texts, *(each.rename({'id': 'item'}) for each in (gold, said)), resamples=20)
    kappa = both.filter(coefficient="Cohen's κ of characters")  # F1 stands in the table by characters
    assert found.select('coefficient', 'value', 'n').equals(kappa.select('coefficient', 'value', 'n'))
    assert 'agreement, labels aside' not in score_spans(gold.drop('text'), {'s': said}, resamples=20).tables
    with pytest.raises(DataError, match='1 of 1 spans of s do not lie in a text'):
        score_spans(gold, {'s': said.with_columns(end=pl.col('end') + 2)}, resamples=20)
