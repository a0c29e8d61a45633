"""Made-up and altered published tables for the tests of the audit and of the exhibits that need no model."""
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import polars as pl

from factlab.reports.published import PUBLISHED, cell, parse_printed, published_values


def as_published(cells, paper='toy', words=None):
    "Cells {(exhibit, row, column): printed} as published values; `words` say what the cells of a column or a row are: data, model, …"
    rows, words = [], words or {}
    for (e, r, c), p in cells.items():
        value, half = parse_printed(p)
        row = {'exhibit': e, 'row': r, 'column': c, 'value': value, 'printed': p, 'plus_minus': half, 'metric': c, 'kind': 'value'}
        rows.append({'paper': paper, 'source': 'made'} | row | words.get(r, {}) | words.get(c, {}))
    return PUBLISHED.frame([dict.fromkeys(PUBLISHED.columns) | row for row in rows])


def with_metrics(metrics, **words):
    "Words of the columns '<data or model> <metric>', of which `words` name the one."
    first, = words.values()
    return {f'{first} {metric}': words | {'metric': metric} for metric in metrics}


def printed(value, digits, rounding=ROUND_HALF_UP):
    return str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=rounding))


ROUNDINGS = [ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN]


def rates(tp, p, tn, n):
    "The rates of a two-class confusion matrix, in percent."
    wrong = p - tp + n - tn
    f1 = [Fraction(2*hit, 2*hit + wrong) if hit + wrong else Fraction(0) for hit in (tp, tn)]
    return {'Accuracy (%)': Fraction(tp + tn, p + n)*100, 'FPR (%)': Fraction(n - tn, n)*100, 'FNR (%)': Fraction(p - tp, p)*100,
            'F1+ (%)': f1[0]*100, 'F1− (%)': f1[1]*100, 'Macro-F1 (%)': sum(f1)*50}


def exact_print(value, digits, rounding):
    with_more = Decimal(value.numerator)/Decimal(value.denominator)
    return str(with_more.quantize(Decimal(1).scaleb(-digits), rounding=rounding))


def number(*address): return cell(*address).value


def tampered(paper: str, exhibit: str, row: str, column: str, printed: str) -> pl.DataFrame:
    "The published values of a paper with one cell printed otherwise."
    frame = published_values(paper=paper)
    here = (pl.col('exhibit') == exhibit) & (pl.col('row') == row) & (pl.col('column') == column)
    assert len(frame.filter(here)) == 1 and frame.filter(here)['printed'][0] != printed
    value, half = parse_printed(printed)
    return frame.with_columns(value=pl.when(here).then(value).otherwise('value'),
                              printed=pl.when(here).then(pl.lit(printed)).otherwise('printed'),
                              plus_minus=pl.when(here).then(pl.lit(half, pl.Float64)).otherwise('plus_minus'))


def finding_cells(cells: pl.DataFrame) -> set:
    "Rows and columns of the cells that are findings."
    return set(cells.filter(pl.col('status') == 'finding').select('row', 'column').iter_rows())
