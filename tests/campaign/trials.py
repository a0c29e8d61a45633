"""The campaign: what factlab must bear in the long run, tried at random and counted. `make campaign`, or `make campaign PART=kills SEED=7`.

Every file beside this one is a part of it, of at most an hour, and names what it tries (`KINDS`): a function of a random generator, which
yields for each trial whether what came out is right, or in words what is wrong, and may give back a note. A seed repeats a failure. The
figures go into figures/campaign.md: a line for each kind and seed, so that runs add up, and above them a part's sum.
"""
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT/'figures'/'campaign.md'
PARTS = sorted(path.stem for path in Path(__file__).parent.glob('*.py') if path.stem != 'trials')
COLUMNS = ('part', 'kind', 'seed', 'trials', 'wrong', 'seconds', 'note')
Trials = Iterator[str]  # for each trial '' where all is right, else what is wrong
Kinds = dict[str, Callable[[random.Random], Trials]]


def cells(line: str) -> list[str]:
    "The cells of a line of a table in Markdown."
    return [cell.strip() for cell in line.strip().strip('|').split('|')]


def kept() -> dict[tuple[str, str, str], list[str]]:
    "The lines of the report by part, kind and seed."
    if not REPORT.is_file(): return {}
    rows = (cells(line) for line in REPORT.read_text(encoding='utf-8').splitlines() if line.startswith('|'))
    return {(row[0], row[1], row[2]): row for row in rows if len(row) == len(COLUMNS) and row[2].isdigit()}


def table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    return '\n'.join('| ' + ' | '.join(row) + ' |' for row in ([*columns], ['---']*len(columns), *rows))


def write(rows: dict[tuple[str, str, str], list[str]]) -> None:
    "The report, written beside and renamed."
    sums: dict[str, list[int]] = {}
    for part, _, _, trials, wrong, *_ in rows.values():
        sums[part] = [a + b for a, b in zip(sums.get(part, [0, 0]), (int(trials), int(wrong)), strict=True)]
    said = {part: ' '.join(importlib.import_module(part).__doc__.partition('\n\n')[0].split()) for part in sums}
    text = '\n\n'.join((
        '# The campaign',
        'Made by `make campaign`: each part tries many kinds of trouble at random and counts what came out wrong.',
        table(('part', 'what is tried, and what must hold', 'trials', 'wrong'),
              [[part, said[part], *map(str, total)] for part, total in sorted(sums.items())]),
        '## By kind',
        'The note quotes one failure; the same seed makes it again: `make campaign PART=headlines SEED=1`.',
        table(COLUMNS, [row for _, row in sorted(rows.items())]),
    ))
    beside = REPORT.with_suffix('.part')
    beside.write_text(text + '\n', encoding='utf-8')
    beside.replace(REPORT)


def noted(trials: Trials, notes: list[str]) -> Trials:
    "The trials, with the note that they give back at their end, where there is one."
    if note := (yield from trials): notes.append(note)


def campaign(part: str, seed: int, only: str = '') -> int:
    "Run the kinds of a part, write a line for each, and give back how many trials went wrong."
    kinds: Kinds = importlib.import_module(part).KINDS
    total = 0
    for kind, trials in kinds.items():
        if only and kind != only: continue
        start, count, wrong, notes = time.monotonic(), 0, [], []
        for said in noted(trials(random.Random(f'{part} {kind} {seed}')), notes):
            count += 1
            if said:
                wrong.append(said)
                print(f'  wrong, {kind} {count}: {said}', flush=True)
            if sys.stderr.isatty(): print(f'\r{part}: {kind} {count}', end='', file=sys.stderr, flush=True)
        seconds = time.monotonic() - start
        print(f'\r{part}: {kind}: {count} trials, {len(wrong)} wrong, {seconds:.0f} s', *notes, flush=True)
        note = '; '.join([*notes, *wrong[:1]]).replace('|', '/').replace('\n', ' ')[:160]
        rows = kept()
        rows[part, kind, str(seed)] = [part, kind, str(seed), str(count), str(len(wrong)), f'{seconds:.0f}', note]
        write(rows)
        total += len(wrong)
    return total


def main(parts: list[str], seed: int, only: str) -> int:
    from factlab.core.core import cache_dir
    if (fetched := cache_dir()/'weights').is_dir(): os.environ.setdefault('FACTLAB_WEIGHTS', str(fetched))  # parts have homes of their own
    unknown = [part for part in parts if part not in PARTS]
    if unknown: raise SystemExit(f'the campaign has no part {unknown[0]!r}; its parts: {", ".join(PARTS)}')
    return int(sum(campaign(part, seed, only) for part in parts) > 0)


if __name__ == '__main__':
    sys.path += [str(ROOT), str(ROOT/'tests')]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what a part has mounted and started goes with it
    raise SystemExit(main(os.environ.get('PART', '').split() or PARTS, int(os.environ.get('SEED') or 1), os.environ.get('KIND', '')))
