"""The response view in a real JupyterLab and a real browser: filter by disagreement, open a response, read its passages, label gold by
keyboard, hide what judges say, reload; and hostile text stays text."""
import json
from pathlib import Path

import nbformat
import pytest
from hostile_texts import hostile
from in_browser import CHROMIUM, NEEDED, Opened
from misbehaving_server import MisbehavingServer
from workbench.test_browser_workbench import Bench

from factlab.error_analysis.annotations import LabelFile

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)

SAMPLE = '''
from factlab.workbench import browse_responses
from factlab.workbench.responses import sample_judged

browse_responses(sample_judged(12), labels={labels!r}, annotator='Ann', encoder=None)
'''
HOSTILE = '''
import json
import polars as pl
from factlab.workbench import browse_responses
from factlab.workbench.responses import _JUDGED_BY

texts = json.load(open('texts.json', encoding='utf-8'))
names = ('id', 'responder', 'request', 'document', 'response', 'system', 'status', 'reason')
responses = pl.DataFrame({{name: texts for name in names}})
said = [{{'sentence': text, 'label': 'supported', 'excerpt': text}} for text in texts]
judgements = _JUDGED_BY.frame({{'id': text, 'judge': texts[0], 'template': text, 'accurate': None, 'status': text, 'reason': text,
                               'sentences': said}} for text in texts)
browse_responses(responses, judgements, labels={labels!r}, annotator='Ann', encoder=None)
'''


def notebook(root: Path, name: str, code: str, labels: Path) -> str:
    kernel = {'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}}
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code.format(labels=str(labels)))], metadata=kernel)
    nbformat.write(made, root/f'{name}.ipynb')
    return f'{name}.ipynb'


def test_filter_open_read_label_hide_and_reload(browser, lab, root, tmp_path):
    labels = tmp_path/'labels.jsonl'
    opened = Opened(browser, lab, notebook(root, 'sample', SAMPLE, labels), 1280, 1600).run_all('responses')
    assert not opened.errors()
    bench, page = Bench(opened), opened.page
    bench.see('2 judges')
    total = bench.out.locator('.rows').first.locator('tbody tr').count()
    bench.out.get_by_label('Show').first.select_option('judges disagree')
    bench.out.get_by_label('Responder').first.select_option('one_error')
    opened.wait_for(lambda: bench.out.locator('.rows').first.locator('tbody tr').count() < total, 'fewer rows')
    hits = bench.out.locator('.rows').first.locator('label:has(input)')
    hits.nth(0).click()
    bench.see('/one_error')
    opened.settle()
    card = bench.out.locator('.card.on').first  # it opens where the judges differ
    assert '≠ judges differ' in card.inner_text() and 'unsupported: 1 strict · words' in card.inner_text()
    passages = bench.out.locator('.passages')
    assert 'Passages for sentence' in passages.inner_text() and passages.locator('mark').count() >= 1
    assert bench.out.locator('mark.c4.e2.on').count() >= 1  # the sentence in the response, as one that judges dispute
    chosen = passages.inner_text()
    bench.out.locator('.card').last.click()
    opened.wait_for(lambda: passages.inner_text() != chosen, 'the passages of another sentence')

    bench.type('3')
    bench.see('Saved: contradictory for')
    bench.type('1')
    bench.see('Saved: supported for')
    assert LabelFile(labels).labels()['label'].to_list().count('contradictory') == 1
    bench.type('u')
    bench.see('Taken back')
    opened.shoot('responses-labelled')

    bench.out.get_by_label('Blind').click()
    bench.see('A response, blind')
    opened.settle()
    assert 'strict' not in bench.out.locator('.columns').inner_text() and bench.out.locator('mark.c4.e2').count() == 0
    opened.shoot('responses-blind')
    opened.menu('Kernel', 'Restart Kernel and Run All Cells…')
    page.locator('.jp-Dialog button.jp-mod-accept').click()
    opened.wait_for(lambda: not opened.done(), 'the restart')
    opened.wait_for(opened.done, 'the cells')
    bench.see('1 of ')
    assert not opened.foreign() and opened.dialogs == []
    page.close()


def test_hostile_responses_are_shown_and_do_nothing(browser, lab, root, tmp_path):
    with MisbehavingServer() as trap:
        fetched = []
        trap._server.RequestHandlerClass = type('Trap', (trap._server.RequestHandlerClass,),
                                                {'do_GET': lambda handler: fetched.append(handler.path) or handler.send_error(404)})
        texts = [text.replace('\ud83d', '') for text in hostile(f'http://127.0.0.1:{trap.port}')]
        (root/'texts.json').write_text(json.dumps(texts))
        opened = Opened(browser, lab, notebook(root, 'hostile', HOSTILE, tmp_path/'labels.jsonl'), 1280, 2200).run_all('responses-hostile')
        assert not opened.errors()
        bench, page = Bench(opened), opened.page
        for n in range(len(texts)):
            bench.out.locator('.rows').first.locator('label:has(input)').nth(n).click()
            page.wait_for_timeout(200)
        bench.see(texts[0])
        bench.type('2')
        bench.see('Saved')
        opened.shoot('responses-hostile')
        outputs = page.locator('.jp-OutputArea-output')
        assert outputs.locator('script, iframe, a[href^="javascript"], img[onerror], svg[onload]').count() == 0
        assert page.evaluate('window.hacked') is None and opened.dialogs == [] and fetched == [] and not opened.foreign()
        page.close()
