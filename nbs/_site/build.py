"""Builds the documentation into `_docs`, to be opened from the folder: `python nbs/_site/build.py [--out FOLDER]`.

The pages are collected into `build/docs` first; nothing runs, and nothing is fetched. What was built from the same files is not built
again, except with `--anew`."""
import argparse
import gc
import hashlib
import json
import os
import re
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path

from collect import HERE, ROOT, Collection
from sphinx.cmd.build import main as sphinx

TEXT_LENGTH = 12_000  # characters of a page that the search shows its words in
MADE_OF = '.made_of'  # in the folder of the site: the digest of what it was built from
# names in the checkout that no page depends on; notebooks that run beside the build leave kernels' files, the generator its own folder
NOT_READ = re.compile(r'\.(?!github$|ci$).*|__pycache__|build|dist|_docs|_proc|jupyter_execute|kernel-ipc-.*|.*\.(?:egg-info|log)')


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


def digest_of_sources() -> str:
    "One digest of the checkout's files, which pages show or link to, and of the generator's version."
    found = hashlib.sha256(' '.join(version(name) for name in ('sphinx', 'myst-nb', 'furo')).encode())
    for at, folders, files in os.walk(ROOT):
        folder = Path(at)
        folders[:] = sorted(name for name in folders if not NOT_READ.fullmatch(name))
        for name in sorted(name for name in files if not NOT_READ.fullmatch(name)):
            found.update(f'{(folder/name).relative_to(ROOT)}\0'.encode() + hashlib.sha256((folder/name).read_bytes()).digest())
    return found.hexdigest()


def build(out: Path, folder: Path, jobs: int) -> tuple[list[str], int]:
    "Collect and build. Gives the links that lead nowhere, and Sphinx's exit code."
    gc.disable()  # a third of the time goes into looking through trees that are all in use; a gigabyte is enough without
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
    parser.add_argument('--anew', action='store_true', help='also where the site is of the present files')
    parser.add_argument('--jobs', type=int, default=2, help='processes that read and write pages')
    given, started = parser.parse_args(), time.monotonic()
    out, sources = given.out.resolve(), digest_of_sources()
    if not given.anew and (out/MADE_OF).is_file() and (out/MADE_OF).read_text() == sources:
        return print(f'built from the present files before: open {given.out/"index.html"}')
    broken, code = build(out, given.pages.resolve(), given.jobs)
    for link in broken: print(f'leads nowhere: {link}', file=sys.stderr)
    if code: sys.exit(code)
    print(f'{written_texts(given.out)} pages in {time.monotonic() - started:.0f} s: open {given.out/"index.html"}')
    if broken: sys.exit(1)
    (out/MADE_OF).write_text(sources)  # last: a build that was broken off has none


if __name__ == '__main__': main()
