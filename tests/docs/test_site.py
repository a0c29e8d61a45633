"""The site, built once and opened from its folder: every internal link and anchor leads somewhere, nothing is fetched, the search finds."""

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from in_browser import CHROMIUM, NEEDED, chromium

ROOT = Path(__file__).resolve().parents[2]
BUILD = [sys.executable, str(ROOT/'nbs'/'_site'/'build.py')]
LOOK = """() => ({links: [...document.querySelectorAll('a[href]')].map(link => link.href),
    unseen: [...document.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src),
    cut: [...document.querySelectorAll('.cell_output')].filter(output => output.querySelector('table, img, svg')
        && output.scrollHeight > output.clientHeight + 20).map(output => output.innerText.slice(0, 80))})"""

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason=NEEDED), pytest.mark.timeout(1800)]


@pytest.fixture(scope='module')
def built(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    "The site's folder, and what the build said."
    pytest.importorskip('sphinx', reason='needs the documentation generator: pip install -e .[dev]')
    folder = tmp_path_factory.mktemp('docs')
    site = Path(os.environ.get('FACTLAB_SITE') or folder/'site')  # `.ci/run` names _docs: what is tested is what is published
    made = subprocess.run(
        [*BUILD, '--anew', '--out', str(site), '--pages', str(folder / 'pages')],
        capture_output=True,
        text=True,
    )
    return site, made


@pytest.fixture(scope='module')
def page(built):
    "A page in Chromium, with what it asked for and what its console said."
    with chromium() as browser:
        page = browser.new_page(viewport={'width': 1280, 'height': 900})
        page.asked, page.said = [], []
        page.on('request', lambda request: page.asked.append(request.url))
        page.on('console', lambda message: page.said.append(f'{page.url}: {message.text}') if message.type == 'error' else None)
        page.on('pageerror', lambda error: page.said.append(f'{page.url}: {error}'))
        yield page


def test_it_builds_and_every_written_link_has_a_target(built):
    folder, made = built
    assert made.returncode == 0, made.stderr[-4000:]
    warnings = [line for line in made.stderr.splitlines() if 'WARNING' in line or 'ERROR' in line]
    assert not warnings, '\n'.join(warnings)
    assert (folder/'index.html').is_file() and not (ROOT/'nbs'/'_site'/'_docs').exists()


def test_what_was_built_from_the_same_files_is_not_built_again(built, tmp_path):
    folder, _ = built
    again = subprocess.run([*BUILD, '--out', str(folder), '--pages', str(tmp_path/'pages')], capture_output=True, text=True, check=True)
    assert 'built from the present files before' in again.stdout and not (tmp_path/'pages').exists()


NO_TAGS = re.compile(r'<!--.*?-->|(<(script|style)\b[^>]*>).*?</\2\s*>', re.DOTALL)
NAMED = re.compile(r'''([^\s"'>/=]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))''')
TAG = re.compile(r'''<([a-zA-Z][\w-]*)((?:\s+[^\s"'>/=]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?)*)\s*/?>''')


class Page:
    "What a page names: its anchors, where its links go, and what a browser loads with it. As Python's parser, in a quarter of its time."

    def __init__(self, text: str):
        self.ids, self.links, self.loaded = set(), [], []
        for tag, attributes in TAG.findall(NO_TAGS.sub(r'\1', text)): self.note(tag, attributes)

    def note(self, tag: str, attributes: str) -> None:
        given = {name: unescape(''.join(values)) for name, *values in NAMED.findall(attributes)}
        if given.get('id'): self.ids.add(given['id'])
        if tag == 'a' and given.get('href'): self.links.append(given['href'])
        if given.get('src'): self.loaded.append(given['src'])
        if tag == 'link' and given.get('rel') in ('stylesheet', 'icon', 'preload'): self.loaded.append(given['href'])


class Parsed(HTMLParser):
    "How often a page has each attribute that `Page` reads, by Python's parser."

    def __init__(self, text: str):
        super().__init__()
        self.found = Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.found['id', given.get('id')] += 1
        if tag == 'a': self.found['link', given.get('href')] += 1


def test_pages_are_read_as_by_pythons_parser(built):
    folder, _ = built
    for name in ('index.html', 'nbs/03_store/01_answers.html', 'nbs/tutorials/judge_your_answers.html', 'figures/README.html'):
        text = (folder/name).read_text(encoding='utf-8')
        page, parsed = Page(text), Parsed(text).found
        assert page.ids == {value for kind, value in parsed if kind == 'id' and value} and len(page.ids) > 5
        assert Counter(page.links) == {value: n for (kind, value), n in parsed.items() if kind == 'link' and value}


@cache
def leading_to(folder: str, link: str) -> tuple[str, str, bool]:
    "The file below a folder that a link leads to, '' for the page itself; its anchor; and whether the link leads out of the site."
    parts = urlsplit(link)
    if parts.scheme or parts.netloc: return parts.scheme, '', True
    return os.path.normpath(os.path.join(folder, unquote(parts.path))) if parts.path else '', unquote(parts.fragment), False


def test_every_internal_link_and_anchor_leads_somewhere(built):
    folder = built[0].resolve()
    files = {str(path) for path in folder.rglob('*') if path.is_file() and path.stat().st_size}
    pages: dict[str, Page] = {}
    links: dict[tuple[str, str], str] = {}  # file and anchor, and a link that leads there
    waiting, fetched = [str(folder/'index.html')], []
    while waiting:  # from the start page on: what no link leads to is not found
        if (path := waiting.pop()) in pages: continue
        page = pages[path] = Page(Path(path).read_text(encoding='utf-8'))
        for link in {*page.links, *page.loaded}:
            target, anchor, outside = leading_to(os.path.dirname(path), link)
            if outside:
                if link in page.loaded and target != 'data': fetched.append(f'{path}: {link[:80]}')
                continue
            links[target := target or path, anchor] = f'{path}: {link}'
            if target.endswith('.html') and target in files: waiting.append(target)
    lost = [
        said
        for (target, anchor), said in links.items()
        if target not in files or anchor and target.endswith('.html') and anchor not in pages[target].ids
    ]
    assert not lost, f'{len(lost)} links lead nowhere:\n' + '\n'.join(lost[:50])
    assert not fetched, fetched[:20]
    chapters = {
        str(folder/path.relative_to(ROOT).with_suffix('.html'))
        for path in (ROOT / 'nbs').rglob('*.ipynb')
        if '.ipynb_checkpoints' not in path.parts and path.name != 'index.ipynb'
    }
    assert not (missing := sorted(chapters - pages.keys())), f'no way from the start page to {missing}'


@pytest.mark.parametrize('name', ('index.html', 'figures/README.html', 'nbs/00_core/00_core.html', 'nbs/papers/final/table4.html'))
def test_a_browser_shows_a_page_and_asks_nobody(built, page, name):
    folder, _ = built
    page.asked.clear(), page.said.clear()
    page.goto((folder/name).as_uri(), wait_until='load')
    seen = page.evaluate(LOOK)
    assert seen['links'] and not seen['unseen'] and not page.said, (seen['unseen'], page.said)
    assert not seen['cut'], f'rows of tables or parts of charts are out of sight: {seen["cut"]}'
    assert not (fetched := [url for url in page.asked if not url.startswith((folder.as_uri(), 'data:', 'blob:'))]), fetched


def test_the_search_finds_a_function_by_its_name(built, page):
    folder, _ = built
    page.asked.clear(), page.said.clear()
    page.set_default_timeout(120_000)  # a busy machine
    page.goto((folder/'index.html').as_uri())
    field = page.locator('input[name="q"]').first
    field.fill('verify_texts')
    field.press('Enter')
    page.wait_for_selector('#search-results li a')
    page.wait_for_function("document.querySelector('#search-results').innerText.includes('found')")
    first = page.locator('#search-results li').first
    assert 'verify_texts' in first.inner_text() and 'Python function' in first.inner_text()
    page.wait_for_function("document.querySelector('#search-results p.context')?.innerText.trim()")
    first.locator('a').click()
    page.wait_for_url('**#*verify_texts')
    page.locator('dt[id$=".verify_texts"]').first.wait_for(state='visible')
    assert not page.said and all(url.startswith(folder.as_uri()) for url in page.asked if not url.startswith('data:'))


@pytest.mark.parametrize('name', ['index.html', 'nbs/tutorials/check_your_summaries.html', 'nbs/papers/final/table4.html'])
def test_on_a_phone_nothing_lies_over_the_text(built, page, name):
    page.set_viewport_size({'width': 390, 'height': 844})
    page.goto((built[0]/name).as_uri(), wait_until='load')
    page.wait_for_function("document.querySelector('.sidebar-drawer').getBoundingClientRect().right <= 0")
    assert page.evaluate('document.documentElement.scrollWidth') <= 390
    page.set_viewport_size({'width': 1280, 'height': 900})
