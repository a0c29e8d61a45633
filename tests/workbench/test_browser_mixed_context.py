"""The view of mixed contexts in a real JupyterLab and a real browser: filter, open a summary, read a claim's trace beside the document,
go by keyboard, hide what is known; and hostile text stays text."""
import json
from pathlib import Path

import nbformat
import pytest
from hostile_texts import hostile
from in_browser import CHROMIUM, NEEDED, Opened
from misbehaving_server import MisbehavingServer
from workbench.test_browser_workbench import Bench

from factlab.mixed_context.labels import FACTUAL, NON_FACTUAL
from factlab.studies.fhsum.study import load_mixed

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)

EXAMPLES = '''
from factlab.workbench import browse_cases
from factlab.workbench.mixed_cases import example_cases

browse_cases(example_cases(), labels='mixed labels.jsonl', annotator='Ann')
'''
HOSTILE = '''
import json
import polars as pl
from factlab.mixed_context.labels import MIXED_PREDICTIONS, TRACES
from factlab.workbench import browse_cases

texts = json.load(open('texts.json', encoding='utf-8'))
rows = pl.DataFrame({name: texts for name in ('id', 'split', 'document', 'summary')})
def filled(schema, **more): return schema.frame({name: text if kind == pl.String else None for name, kind in schema.columns.items()} | more
                                                for text in texts)
answers, trace = filled(MIXED_PREDICTIONS), filled(TRACES, claim_number=1, step=1)
known = pl.DataFrame({'entity': texts, 'aliases': [[text] for text in texts], 'description': texts, 'text': texts})
browse_cases(rows, {text: answers for text in texts}, {text: trace for text in texts}, known)
'''


def notebook(root: Path, name: str, code: str) -> str:
    kernel = {'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}}
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)], metadata=kernel), root/f'{name}.ipynb')
    return f'{name}.ipynb'


def test_filter_open_read_a_trace_and_hide(browser, lab, root):
    opened = Opened(browser, lab, notebook(root, 'examples', EXAMPLES), 1280, 1700).run_all('mixed')
    assert not opened.errors()
    bench, page = Bench(opened), opened.page
    bench.see('3 summaries')
    hits, trace = bench.out.locator('.rows').first.locator('label:has(input)'), bench.out.locator('.trace')
    bench.out.get_by_label('Show').first.select_option('an answer is wrong')
    bench.out.get_by_label('Method').first.select_option('knowledge')
    bench.see('1–1 of 1 rows')
    bench.out.get_by_label('Show').first.select_option('all summaries')
    bench.see('1–3 of 3 rows')
    hits.nth(0).click()
    bench.see('gold: factual hallucination')
    assert bench.out.locator('.columns mark.evidence').inner_text() == ', a wrought-iron tower in Paris,'  # the annotated span
    bench.out.get_by_label('Claims of').select_option('reflection')
    bench.see('2 no hallucination · 2 pieces of evidence')
    opened.settle()
    bench.out.locator('.card').nth(1).click()
    bench.see('Trace of claim 2')
    opened.settle()
    document = bench.out.get_by_role('region', name='Document')
    marks = document.locator('mark')
    assert marks.count() == 2 and 'walked out' in marks.nth(0).inner_text() and 'turned away' in marks.nth(1).inner_text()
    assert '✓ supports: The staff walked out.' in trace.inner_text() and '○ not relevant' in trace.inner_text()
    green = marks.nth(0).evaluate('mark => getComputedStyle(mark).borderBottomColor')
    assert green == 'rgb(0, 158, 115)' and marks.nth(1).evaluate('mark => getComputedStyle(mark).borderBottomStyle') == 'dotted'
    bench.out.get_by_text('What the colours and signs mean').click()
    bench.see('the annotated hallucination')
    opened.shoot('mixed-trace')
    bench.out.get_by_text('What the colours and signs mean').click()

    bench.type('n.')  # the next summary, and its second claim
    bench.see('gold: non-factual hallucination')
    bench.see('The notebooks of Marie Curie are shown in Warsaw.')
    bench.see('‡ unread')
    answer = bench.out.get_by_text('raw answer, 43 characters')
    answer.click()
    bench.see('seems <b>mostly</b> fine')
    bench.see('city in Indiana')  # the other entry of a name
    bench.type('n.')
    bench.see('no evidence was found')
    bench.see('no evidence for claim 2 in it')
    opened.settle()
    opened.shoot('mixed-bare')

    bench.type('b')
    bench.see('A summary, blind')
    opened.settle()
    assert bench.out.get_by_label('Blind').is_checked()
    for hidden in ('gold:', 'no hallucination', '✗', 'supports'): assert hidden not in bench.out.locator('.columns').inner_text()
    assert '✗' not in bench.out.locator('.rows').first.inner_text() and bench.out.locator('.columns mark.c2').count() == 0
    opened.shoot('mixed-blind')

    bench.out.locator('.rows').first.locator('label:has(input)').nth(0).click()
    bench.type('1')  # gold labels, blind; the next summary opens by itself
    bench.see('Saved: factual hallucination for tower')
    bench.type('2')
    bench.see('Saved: non-factual hallucination for curie')
    bench.type('4')
    bench.see('Saved: unclear for ferry')
    bench.type('u')
    bench.see('Taken back: ferry')
    bench.type('4')
    bench.see('3 of 3')
    page.get_by_text('Export and import').click()
    bench.out.get_by_label('Format').select_option('gold labels (jsonl)')
    bench.out.get_by_label('File').fill('gold of Ann')
    page.keyboard.press('Tab')
    bench.button('Export').click()
    bench.see('2 gold labels written to gold of Ann.jsonl; left out: 1 unclear')
    opened.settle()
    opened.shoot('mixed-gold')
    rows = load_mixed(str(root/'gold of Ann.jsonl'))  # as a study reads its data
    assert rows.select('id', 'label').rows() == [('tower', FACTUAL), ('curie', NON_FACTUAL)]
    assert not opened.foreign() and opened.dialogs == []
    page.close()


def test_hostile_cases_are_shown_and_do_nothing(browser, lab, root):
    with MisbehavingServer() as trap:
        fetched = []
        trap._server.RequestHandlerClass = type('Trap', (trap._server.RequestHandlerClass,),
                                                {'do_GET': lambda handler: fetched.append(handler.path) or handler.send_error(404)})
        texts = [text.replace('\ud83d', '') for text in hostile(f'http://127.0.0.1:{trap.port}')]
        (root/'texts.json').write_text(json.dumps(texts))
        opened = Opened(browser, lab, notebook(root, 'hostile', HOSTILE), 1280, 2200).run_all('mixed-hostile')
        assert not opened.errors()
        bench, page = Bench(opened), opened.page
        for n in range(len(texts)):
            bench.out.locator('.rows').first.locator('label:has(input)').nth(n).click()
            page.wait_for_timeout(200)
        bench.see(texts[0])
        bench.type('m,n')
        opened.settle()
        opened.shoot('mixed-hostile')
        outputs = page.locator('.jp-OutputArea-output')
        assert outputs.locator('script, iframe, a[href^="javascript"], img[onerror], svg[onload]').count() == 0
        assert page.evaluate('window.hacked') is None and opened.dialogs == [] and fetched == [] and not opened.foreign()
        page.close()
