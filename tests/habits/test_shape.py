"The shape of a chapter: one idea in a cell, and few enough cells for a sitting."
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CELL = CHAPTER = 60  # lines of code, cells


def test_no_cell_and_no_chapter_is_too_long():
    faults = []
    for path in sorted((ROOT/'nbs').rglob('*.ipynb')):
        if '.ipynb_checkpoints' in path.parts: continue
        cells = json.loads(path.read_text(encoding='utf-8'))['cells']
        long = [number for number, cell in enumerate(cells)
                if cell['cell_type'] == 'code' and len(''.join(cell['source']).splitlines()) > CELL]
        if long or len(cells) > CHAPTER: faults.append(f'{path.relative_to(ROOT)}: {len(cells)} cells, too long: {long}')
    assert not faults, '\n'.join(faults)
