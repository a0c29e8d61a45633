"""Property tests with examples that `make test` does not draw."""
import random
import re
import subprocess
import sys
from functools import partial

from trials import ROOT, Kinds, Trials

USING = [path for path in (ROOT/'tests').rglob('test_*.py') if '@given' in path.read_text(encoding='utf-8')]
FOLDERS = sorted({path.relative_to(ROOT/'tests').parts[0] for path in USING})


def properties(folder: str, draws: random.Random) -> Trials:
    "The files of a folder that use hypothesis, five times."
    files = [str(path) for path in sorted(USING) if path.relative_to(ROOT/'tests').parts[0] == folder]
    for _ in range(5):
        seed = draws.randrange(2**31)
        call = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', f'--hypothesis-seed={seed}', *files]
        done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
        failed = re.findall(r'^FAILED (\S+)', done.stdout, re.M)
        yield f'--hypothesis-seed={seed}: {" ".join(failed) or done.stdout[-200:]}' if done.returncode else ''


KINDS: Kinds = {folder: partial(properties, folder) for folder in FOLDERS}
