"""Published values: what ships is whole and says what it prints, damage is refused, and interval arithmetic is sound."""
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError, package_dir
from factlab.reports.published import PUBLISHED, cell, parse_printed, printed_bounds, published_values, read_published, rounding_interval

FINAL = package_dir()/'studies'/'final'/'published.csv'


# --- what ships ---------------------------------------------------------------------------------------------------------

def test_every_value_is_what_its_printed_form_says():
    frame = PUBLISHED.check(published_values())
    for row in frame.filter(pl.col('printed').is_not_null()).iter_rows(named=True):
        assert (row['value'], row['plus_minus']) == parse_printed(row['printed']), row
    silent = frame.filter(pl.col('printed').is_null())
    assert silent['value'].null_count() == len(silent) and silent['note'].null_count() == 0


@pytest.mark.parametrize('address, value', [
    (('final/table4', 'CoT', 'Claude-sonnet-3.5 F1'), 0.67), (('final/table4', 'Oracle + CoT&Hint', 'Average Recall'), 0.58),
    (('final/table7', 'FactScore', 'Ministral-3-14B Precision'), 0.30), (('final/table8', 'Gemma-3-12B', 'Recall'), 0.36),
    (('final/table6', 'Unsuited for span', 'Summaries P (%)'), 28.57), (('final/fig2', 'Extraction', 'Count'), 319),
    (('final/section3', 'Test', 'Summaries'), 1265), (('final/section3', 'Filtered out', 'Summaries'), 181),
    (('final/sectionb3', 'Annotators', 'Cohen κ'), 0.731), (('final/appendixf', 'Judge', 'Accuracy'), 0.934),
    (('final/section6', 'Counterfactual errors', 'Detected'), 0.881), (('final/fig6', 'Extrinsic Wrong', 'Questions'), 17),
])
def test_numbers_read_off_the_paper_by_eye(address, value):
    assert cell(*address).value == value


# --- asking -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(
    'ask, near',
    [
        (lambda: published_values('final/tabel4'), 'final/table4'),
        (lambda: published_values(paper='finale'), 'final'),
        (lambda: cell('final/table4', 'oracle+cot', 'GPT-4o F1'), 'Oracle + CoT'),
        (lambda: cell('final/table4', 'CoT', 'gpt4o f1'), 'GPT-4o F1'),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(ask, near):
    with pytest.raises(UsageError, match='did you mean') as caught: ask()
    assert repr(near) in str(caught.value)


def test_a_name_like_nothing_lists_what_there_is():
    with pytest.raises(UsageError, match='there is facts/table1, '): published_values('χ')


# --- damage -------------------------------------------------------------------------------------------------------------

HEADER = ','.join(PUBLISHED.columns)
WORDS = ',,,F1,value,,'  # data to against

@pytest.mark.parametrize('text, complaint', [
    ('', 'header'),
    ('a,b\n1,2\n', 'header'),
    (f'{HEADER}\nfinal,final/table4,CoT,F1,{WORDS}0.59,0.59,,Table 4\n', 'line 2: 14 fields'),
    (f'{HEADER}\nfinal,final/table4,CoT,F1,{WORDS}0.59,0.59,,Table 4,,\n', 'line 2: 16 fields'),
    (f'{HEADER}\nfinal,final/table4,CoT,F1,{WORDS}0.58,0.59,,Table 4,\n', 'line 2: the value'),
    (f'{HEADER}\nfinal,final/table4,CoT,F1,{WORDS}half,0.59,,Table 4,\n', 'not a number'),
    (f'{HEADER}\nfinal,final/table4,CoT,F1,{WORDS}nan,nan,,Table 4,\n', 'finite'),
    (f'{HEADER}\nfinal,final/table4,CoT,F1,{WORDS}0.59,0.59 ± 0.01,,Table 4,\n', 'line 2: the value'),
    (f'{HEADER}\nfinal,final/table4,,F1,{WORDS}0.59,0.59,,Table 4,\n', r"nothing in \['row'\]"),
    (f'{HEADER}\nfinal,final/table4,CoT,F1,{WORDS},,,Table 4,\n', 'no note'),
    (f'{HEADER}\nfinal,final/table4,CoT,F1,{WORDS}0.59,0.59,,Table 4,\n'
     f'final,final/table4,CoT,F1,{WORDS}0.60,0.60,,Table 4,\n', 'more than once'),
    (f'{HEADER}\nfinal,final/table4,"CoT,F1,{WORDS}0.59,0.59,,Table 4,\n', 'not a CSV file'),
])
def test_a_damaged_file_is_refused_with_its_line(tmp_path, text, complaint):
    path = tmp_path/'final.csv'
    path.write_text(text, encoding='utf-8')
    with pytest.raises(DataError, match=complaint): read_published(path)


def test_a_file_cut_anywhere_is_refused_or_a_shorter_whole(tmp_path):
    content, whole = FINAL.read_bytes(), len(published_values(paper='final'))
    for size in range(0, len(content), 997):
        path = tmp_path/'cut.csv'
        path.write_bytes(content[:size])
        try: assert len(read_published(path)) < whole
        except DataError: pass


def test_bytes_that_are_not_text_and_a_file_that_is_missing(tmp_path):
    (tmp_path/'latin.csv').write_bytes(HEADER.encode() + b'\nfinal,\xff\xfe')
    with pytest.raises(DataError, match='UTF-8'): read_published(tmp_path/'latin.csv')
    with pytest.raises(DataError, match='cannot read'): read_published(tmp_path/'none.csv')


# --- arithmetic ---------------------------------------------------------------------------------------------------------

@given(st.decimals(-1000, 1000, places=6), st.integers(0, 5), st.sampled_from([ROUND_HALF_UP, ROUND_HALF_DOWN]))
def test_a_number_lies_in_the_interval_of_its_rounding(number, digits, rounding):
    printed = number.quantize(Decimal(1).scaleb(-digits), rounding=rounding)
    low, high = rounding_interval(str(printed), exact=False)
    assert low - 1e-12 <= float(number) <= high + 1e-12
    assert high - low == pytest.approx(10.0**-digits)


@given(st.decimals(-1000, 1000, places=6), st.integers(0, 5))
def test_a_number_lies_within_the_bounds_of_its_cutting(number, digits):
    printed = number.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_DOWN)
    low, high = printed_bounds(str(abs(printed)), exact=False, cut=True)
    assert low <= Fraction(abs(number)) <= high and high - low == Fraction(1, 10**digits)


def test_bounds_are_exact_fractions():
    assert printed_bounds('88.1%') == (Fraction(8805, 10_000), Fraction(8815, 10_000)) and printed_bounds('1,121') == (1121, 1121)
    assert printed_bounds('-0.3', cut=True) == (Fraction(-4, 10), Fraction(-3, 10))
