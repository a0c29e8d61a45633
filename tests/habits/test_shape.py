"""The shape of a chapter: how long it is, how long its cells are, and how soon what it defines is shown."""
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CELL = STRETCH = 60  # lines
CHAPTER = 60  # cells
EXCEPTIONS: dict[str, str] = {}  # notebook: why it may; a list that is empty now


def notebooks(library: bool = True) -> list[Path]:
    every = [path for path in sorted((ROOT/'nbs').rglob('*.ipynb')) if '.ipynb_checkpoints' not in path.parts]
    return [path for path in every if not library or re.match(r'\d\d_', path.relative_to(ROOT/'nbs').parts[0])]

def cells(path: Path) -> list[tuple[str, str]]:
    "Kind and source of each cell."
    return [(cell['cell_type'], ''.join(cell['source']).strip()) for cell in json.loads(path.read_text(encoding='utf-8'))['cells']]

def length(text: str) -> int: return len(text.splitlines())

def exported(kind: str, text: str) -> bool: return kind == 'code' and bool(re.match(r'#\|\s*export', text))

def shown(kind: str, text: str) -> bool:
    "Whether a reader sees the cell and what it gives; one that `make test` leaves out for its length (notest) is on the page as any other."
    return kind == 'code' and (not text.startswith('#|') or bool(re.match(r'#\|\s*notest\b', text)))

def stretches(path: Path) -> list[tuple[int, int, int]]:
    "Exported code with no ordinary code cell between: first cell, last cell, lines without the directives and the imports' cell."
    found, first, last, lines = [], 0, 0, 0
    for number, (kind, text) in enumerate(cells(path)):
        if exported(kind, text):
            if not lines: first = number
            last, lines = number, lines + length(text) - 1
            if first == number and re.match(r'#\|\s*export\s*\n(from|import) ', text): lines = 0  # what the chapter imports
        elif shown(kind, text):
            found.append((first, last, lines))
            lines = 0
    return [*found, (first, last, lines)]

def report(faults: list[str]) -> str: return f'{len(faults)}:\n' + '\n'.join(faults)

def known(path: Path) -> bool: return str(path.relative_to(ROOT)) in EXCEPTIONS


def test_no_code_cell_is_too_long():
    faults = [f'{path.relative_to(ROOT)} cell {number}: {length(text)} lines' for path in notebooks(library=False) if not known(path)
              for number, (kind, text) in enumerate(cells(path)) if kind == 'code' and length(text) > CELL]
    assert not faults, report(faults)


def test_no_chapter_is_too_long():
    faults = [
        f'{path.relative_to(ROOT)}: {len(cells(path))} cells' for path in notebooks() if len(cells(path)) > CHAPTER and not known(path)
    ]
    assert not faults, report(faults)


def test_what_is_defined_is_soon_shown():
    faults = [
        f'{path.relative_to(ROOT)} cells {first}–{last}: {lines} lines'
        for path in notebooks()
        if not known(path)
        for first, last, lines in stretches(path)
        if lines > STRETCH
    ]
    assert not faults, report(faults)


def test_exceptions_are_still_needed():
    gone = [name for name in EXCEPTIONS if not (ROOT/name).is_file()]
    fine = [
        name
        for name in EXCEPTIONS
        if name not in gone
        and len(cells(ROOT / name)) <= CHAPTER
        and all(lines <= STRETCH for *_, lines in stretches(ROOT / name))
        and all(length(text) <= CELL for kind, text in cells(ROOT / name) if kind == 'code')
    ]
    assert not gone and not fine, f'take these from EXCEPTIONS: {gone + fine}'
