"""Builds the documentation into `_docs`, to be opened from the folder: `python nbs/_site/build.py [--out FOLDER]`.

The pages are collected into `build/docs` first; nothing runs, and nothing is fetched."""
import argparse
import json
import re
import shutil
import sys
import time
from pathlib import Path

from collect import HERE, ROOT, Collection
from sphinx.cmd.build import main as sphinx

TEXT_LENGTH = 12_000  # characters of a page that the search shows its words in


def written_texts(out: Path) -> int:
    "One script with what each page says, for the search page; gives the number of pages."
    texts = {}
    for path in out.rglob('*.html'):
        found = re.search(r'<article role="main"[^>]*>(.*?)</article>', path.read_text(encoding='utf-8'), re.DOTALL)
        if not found: continue
        text = re.sub(
            r'<(script|style|svg)\b.*?</\1>|<a class="headerlink".*?</a>|</?(?:span|code|a|em|strong)\b[^>]*>',
            '',
            found[1],
            flags=re.DOTALL,
        )
        text = re.sub(r'<[^>]+>', ' ', text)
        texts[str(path.relative_to(out))] = f'<div role="main">{" ".join(text.split())[:TEXT_LENGTH]}</div>'
    (out/'_static'/'texts.js').write_text(f'const PAGE_TEXTS = {json.dumps(texts)}\n', encoding='utf-8')
    return len(texts)


def build(out: Path, folder: Path, jobs: int = 2) -> tuple[list[str], int]:
    "Collect and build. Gives the links that lead nowhere, and Sphinx's exit code."
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    folder.mkdir(parents=True)
    collection = Collection(folder)
    collection.pages()
    shutil.copy(HERE/'conf.py', folder)
    shutil.copytree(HERE/'static', folder/'_static')
    shutil.copytree(HERE/'templates', folder/'_templates')
    code = sphinx(['-q', '-j', str(jobs), '-d', str(folder/'.doctrees'), '-b', 'html', str(folder), str(out)])
    return collection.broken, code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--out', type=Path, default=ROOT/'_docs')
    parser.add_argument('--pages', type=Path, default=ROOT/'build'/'docs', help='where the pages are collected')
    given, started = parser.parse_args(), time.monotonic()
    broken, code = build(given.out.resolve(), given.pages.resolve())
    for link in broken: print(f'leads nowhere: {link}', file=sys.stderr)
    if code: sys.exit(code)
    print(f'{written_texts(given.out)} pages in {time.monotonic() - started:.0f} s: open {given.out/"index.html"}')
    sys.exit(bool(broken))


if __name__ == '__main__': main()
