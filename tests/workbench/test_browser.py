"""Notebooks in a real JupyterLab and a real browser: they run, tables and charts are seen, and hostile text stays text."""
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from hostile_texts import hostile
from in_browser import CHROMIUM, NEEDED, Opened, trapped
from misbehaving_server import MisbehavingServer, answer
from reports.test_reproduce import kind_of

ROOT = Path(__file__).resolve().parents[2]
FINAL = 'checkout/nbs/papers/final'

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)


@pytest.fixture(scope='module')
def checkout(root) -> Path:
    "A copy of the notebooks in the shape of a checkout, so that results are not written into the real one."
    folder = root/'checkout'
    shutil.copytree(ROOT/'nbs', folder/'nbs', ignore=shutil.ignore_patterns('.ipynb_checkpoints'))
    shutil.copy(ROOT/'settings.ini', folder)
    return folder


def seen_charts(page) -> list[dict]:
    "Width and height in pixels of each chart that is drawn."
    images = page.locator('.jp-OutputArea [data-mime-type="image/svg+xml"]').locator('img, svg')
    assert all(images.nth(i).is_visible() for i in range(images.count()))
    return [images.nth(i).bounding_box() for i in range(images.count())]


def test_figure_8_runs_from_top_to_bottom(browser, lab, checkout):
    before = {path: path.stat().st_mtime_ns for path in (ROOT/'figures').rglob('*')}
    opened = Opened(browser, lab, f'{FINAL}/fig8.ipynb').run_all('fig8')
    assert not opened.errors() and not opened.foreign()
    chart, = seen_charts(opened.page)
    assert chart['width'] > 200 and chart['height'] > 100
    assert opened.page.evaluate("[...document.querySelectorAll('[data-mime-type=\"image/svg+xml\"] img')].every(image => image.complete "
                                "&& image.naturalWidth > 100)")
    table = opened.page.locator('.factlab-table table').first
    assert table.is_visible() and 'Inconsistencies' in table.inner_text() and '◐' in table.inner_text()
    assert (checkout/'figures'/'final'/'fig8.final.csv').is_file() and (checkout/'figures'/'final'/'fig8.final.svg').is_file()
    assert before == {path: path.stat().st_mtime_ns for path in (ROOT/'figures').rglob('*')}


def with_parameters(checkout: Path, name: str, copy: str, **parameters) -> str:
    "A copy of a notebook with other values in its parameters cell."
    folder = checkout/'nbs'/'papers'/'final'
    notebook = nbformat.read(folder/f'{name}.ipynb', 4)
    cell = next(cell for cell in notebook.cells if 'parameters' in cell.metadata.get('tags', []))
    cell.source += '\n' + '\n'.join(f'{key} = {value!r}' for key, value in parameters.items())
    nbformat.write(notebook, folder/copy)
    return f'{FINAL}/{copy}'


def answers_of(texts: list[str]):
    "A model that repeats hostile texts in whatever form is asked for."
    answers = {'match': '{"A": "A", "B": null, "C": "C"}', 'detect': f'no\n- {texts[0]}'} | dict.fromkeys(('decompose', 'questions'),
        '\n'.join(f'- {text}' for text in texts))
    return lambda call: answer(answers.get(kind_of(call),
                                           '\n'.join(f'{letter}. {text}' for letter, text in zip('ABCDE', texts, strict=False))))


@pytest.mark.parametrize('name', ['fig3', 'table1', 'fig9'])
def test_hostile_rows_and_answers_are_shown_as_text(browser, lab, checkout, tmp_path, name):
    with trapped() as (there, fetched), MisbehavingServer() as server:
        texts = hostile(there)[:7]
        server.script = answers_of(texts)
        mine = tmp_path/'mine.jsonl'
        mine.write_text('\n'.join(json.dumps({'id': text, 'text': text*3, 'summary': ' '.join(texts[:3]), 'gold': texts[:4]})
                                  for text in texts))
        model = f'openai:<img src=x onerror="window.hacked=6">?base_url={server.url}'
        how = {'method': 'zero_shot'} if name == 'fig3' else {}  # whose predictions are the model's own words
        opened = Opened(browser, lab, with_parameters(checkout, name, f'hostile-{name}.ipynb', models=[model],
                                                      judge=f'openai:judge?base_url={server.url}', data=str(mine), limit=3, **how))
        opened.run_all(f'hostile-{name}')
        page = opened.page
        assert not opened.errors()
        if name == 'table1':
            shown = page.locator('.factlab-table').first.inner_text()
            assert not [text for text in texts if text not in shown]
        else: assert seen_charts(page)[0]['height'] > 100
        outputs = page.locator('.jp-OutputArea-output')
        assert outputs.locator('script, iframe, a[href^="javascript"], img[onerror], svg[onload]').count() == 0
        assert page.evaluate('window.hacked') is None and opened.dialogs == [] and fetched == [] and not opened.foreign()
        saved = checkout/'figures'/'final'/f'{name}.svg'
        for element in ElementTree.parse(saved).iter() if saved.is_file() else ():
            assert element.tag.rpartition('}')[2] in ('svg', 'g', 'path', 'rect', 'text', 'tspan', 'line', 'defs', 'clipPath', 'style',
                                                      'title'), element.tag
            assert not [key for key in element.attrib if key.startswith('on') or key.endswith('href')], element.attrib
        page.close()
