"""mypy over the exported modules: no module has more errors than `tests/type_errors.json` lists, a list that may only shrink.

Usage: python tests/type_errors.py            compare, and name what is new
       python tests/type_errors.py --update   write the list anew, after errors were mended"""
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KNOWN = ROOT/'tests'/'type_errors.json'


def found() -> tuple[Counter, list[str]]:
    "Errors by module and kind, and as mypy says them."
    made = subprocess.run([sys.executable, '-m', 'mypy'], cwd=ROOT, capture_output=True, text=True)
    lines = [line for line in made.stdout.splitlines() if ': error: ' in line]
    if made.returncode not in (0, 1) or made.returncode and not lines: sys.exit(made.stdout + made.stderr)
    return Counter(_key(line) for line in lines), lines


def _key(line: str) -> str:
    "As factlab/data/hub.py [arg-type]."
    kind = re.search(r'\[[a-z-]+\]$', line)
    return f'{line.partition(":")[0]} {kind[0] if kind else "[other]"}'


def main() -> None:
    errors, lines = found()
    if '--update' in sys.argv:
        KNOWN.write_text(json.dumps(dict(sorted(errors.items())), indent=0) + '\n', encoding='utf-8')
        return print(f'{errors.total()} errors are known')
    known = Counter(json.loads(KNOWN.read_text(encoding='utf-8')) if KNOWN.is_file() else {})
    new, mended = errors - known, known - errors
    for line in lines:
        if _key(line) in new: print(line)
    if new: sys.exit(f'{new.total()} new type errors, in {", ".join(sorted(new))} (all of one kind in a module are shown)')
    print(f'no new type errors; {errors.total()} are known')
    if mended: print(f'{mended.total()} were mended: run tests/type_errors.py --update')


if __name__ == '__main__': main()
