"""A second transcription of the papers' tables, read off their plain text by rules, to hold against the published values.

Nothing here reads the CSV files' numbers: a table is found by its caption, and its rows are the lines beside it.
"""
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from factlab.reports.published import published_values

Row = tuple[str, tuple[str, ...]]  # a folded row name, and the row's numbers as printed, from left to right

NUMBER = r'[+-]?\d[\d,]*(?:\.\d+)?%?'
_CELL = re.compile(rf'({NUMBER})(?:\s*\(?±\s*({NUMBER})\)?)?B?')  # 0.67, 1,121, 54.4±0.4, 91.4 (±1.9), 7B
_SILENT = {'', 'N/A', '–', '-'}  # what a table prints where it has no number
_SPELLED = {'0.5': 'half', '1': 'one', '2': 'two', '3': 'three', '4': 'four', '5': 'five', '6': 'six', '7': 'seven',
            '0.00001': '1e^{-5}', '0.000001': r'1 \cdot 10^{-6}'}


# --- the texts ----------------------------------------------------------------------------------------------------------

def paper_text(paper: str) -> str:
    "One paper's text, its mark-up of numbers made plain. Skips, with the reason, where the papers are absent."
    folder = Path(os.environ.get('FACTLAB_PAPERS') or Path(__file__).resolve().parents[2]/'shared'/'papers')
    path = folder/f'{paper}.txt'
    if not path.is_file(): pytest.skip(f'needs the text of the paper: {path} is absent; set FACTLAB_PAPERS to a folder that holds it')
    text = path.read_text(encoding='utf-8')
    for mark, plain in ((r'\pm', '±'), (r'\%', '%'), ('**', ''), ('<u>', ''), ('</u>', ''), ('$', '')): text = text.replace(mark, plain)
    return text

def paper_lines(paper: str) -> list[str]:
    return paper_text(paper).splitlines()

def caption(lines: Sequence[str], name: str) -> int:
    "The line where the caption of a table, for example `Table 4`, begins."
    found = [n for n, line in enumerate(lines) if re.match(rf'{re.escape(name)}(:|\s*$)', line)]
    assert len(found) == 1, f'{name}: captions at lines {found}, expected one'
    return found[0]

def block(lines: Sequence[str], start: int, step: int, mark: str = '\t') -> list[str]:
    "The nearest run of lines that hold a mark, below (step 1) or above (step -1) a line, in the order of the page."
    n = start + step
    while mark not in lines[n]: n += step
    found = []
    while 0 <= n < len(lines) and mark in lines[n]:
        found.append(lines[n])
        n += step
    return found[::step]


# --- rows and numbers ---------------------------------------------------------------------------------------------------

def folded(name: str) -> str:
    "A row's name without mark-up, blanks, punctuation and case."
    return re.sub(r'[\W_]', '', name).casefold()

def number(field: str) -> str | None:
    "A field's number as printed, None where it prints none. Raises when it is neither a number nor a sign for its absence."
    field = field.strip()
    if field in _SILENT: return None
    match = _CELL.fullmatch(field)
    if not match: raise ValueError(f'{field!r} is not a number of a table')
    return ' ± '.join(part for part in match.groups() if part)

def is_number(field: str) -> bool:
    return _CELL.fullmatch(field.strip()) is not None

def numbers(fields: Iterable[str]) -> tuple[str, ...]:
    return tuple(found for field in fields if (found := number(field)) is not None)

def tabbed(lines: Iterable[str]) -> list[Row]:
    "The rows of a table of tab-separated fields: the name is the last field before the first number, lines without a number are heads."
    rows = []
    for line in lines:
        fields = [field.strip() for field in line.split('\t')]
        first = next((n for n, field in enumerate(fields) if n and (is_number(field) or field == 'N/A')), None)
        if first is not None: rows.append((folded(fields[first - 1]), numbers(fields[first:])))
    return rows


# --- the other side -----------------------------------------------------------------------------------------------------

def transcribed(exhibit: str, rows: Sequence[str] | None = None) -> list[Row]:
    "What the published values say of a table: each row's numbers, in order, without what stands under `All`."
    found: dict[str, list[str]] = {}
    for row, text in published_values(exhibit).select('row', 'printed').iter_rows():
        if row == 'All' or (rows is not None and row not in rows): continue
        found.setdefault(row, []).extend([text] if text else [])
    return [(folded(row), tuple(texts)) for row, texts in found.items()]


# --- numbers of the running text ----------------------------------------------------------------------------------------

_HEADING = re.compile(r'(?:#+ )?(?:Appendix )?([A-Z](?:\.\d)*|\d{1,2}(?:\.\d)*)\.? (?:[A-Z]|\d-)[^.?!]{2,90}$')

def section(lines: Sequence[str], name: str) -> str:
    "A section (`4.1`, `B.2`, `F`) with its subsections; `Abstract` is everything before section 1."
    heads = [(n, match[1]) for n, line in enumerate(lines) if (match := _HEADING.match(line))]
    first = next(n for n, key in heads if key == '1')
    if name == 'Abstract': return '\n'.join(lines[:first])
    start = next(n for n, key in heads if key == name)
    end = next((n for n, key in heads if n > start and not f'{key}.'.startswith(f'{name}.')), len(lines))
    return '\n'.join(lines[start:end])

def says(text: str, printed: str, spelled: bool = False) -> bool:
    "Does a text print this number? `spelled` looks for the word for it, or for the power of ten, and for nothing else."
    if spelled: return re.search(rf'(?<!\w){re.escape(_SPELLED[printed])}(?!\w)', text, re.IGNORECASE) is not None
    return re.search(rf'(?<![\d.,]){re.escape(printed)}(?!\d|[.,]\d)', text) is not None
