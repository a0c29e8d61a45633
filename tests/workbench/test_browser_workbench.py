"""The workbench in a real JupyterLab and a real browser: filter, open, label by keyboard, undo, reload, restart, find the labels again,
probe, export."""
# ruff: noqa: E501  long lines inside texts

import json
from pathlib import Path

import nbformat
import polars as pl
import pytest
from hostile_texts import hostile
from in_browser import CHROMIUM, NEEDED, Opened
from misbehaving_server import MisbehavingServer

from factlab.error_analysis.annotations import LabelFile, read_labels
from factlab.probing.questions import PTRUE_CAVEAT

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)

SETUP = '''
import json
import polars as pl
from factlab.localization.methods import PREDICTIONS
from factlab.localization.matching import MATCHES
from factlab.models.interface import ScriptedModel
from factlab.workbench import browse

cases = [json.loads(line) for line in open('cases.jsonl', encoding='utf-8')]
counts = dict.fromkeys(('n_gold', 'n_predicted', 'invalid', 'calls', 'prompt_tokens', 'completion_tokens'), 0) | {'status': 'ok', 'reason': '', 'answer': ''}
rows = pl.DataFrame(cases, schema={'id': pl.String, 'text': pl.String, 'summary': pl.String, 'gold': pl.List(pl.String), 'categories': pl.List(pl.String)}, strict=False)
predictions = PREDICTIONS.frame([{name: (counts | case)[name] for name in PREDICTIONS.columns} for case in cases])
matches = MATCHES.frame([{name: (counts | case)[name] for name in MATCHES.columns} for case in cases])
def p_true(case): return {'asked about': case.error.text, 'P(True)': 0.125}
'''
SHOW = "browse(predictions, rows, matches, other=predictions, other_matches=matches, labels={labels!r}, annotator='Ann', encoder=None, p_true=p_true, models={{'scripted': ScriptedModel('scripted', lambda request: cases[0]['predicted'][-1])}})"


def case(n: int) -> dict:
    "Two gold errors of which the first is found, and one false alarm; every third summary is sound and said to be."
    base = {'id': f'row {n:02}', 'text': f'The mill number {n} closed in 1931. It stood by the river. A miller lived there.',
            'summary': f'The old mill number {n} closed in 1913.'}
    if n % 3 == 0: return base | {'gold': [], 'categories': [], 'predicted': [], 'matched': []}
    return base | {'gold': ['The year "1913" is wrong.', f'Nothing says that mill {n} is old.'],
                   'categories': ['intrinsic_alteration', 'extrinsic_wrong'],
                   'predicted': ['It was "1931", not "1913".', 'The river is left out.'], 'matched': [0, None]}


def notebook(root: Path, name: str, cases: list[dict], labels: Path) -> str:
    "A notebook that opens the workbench over these cases."
    (root/'cases.jsonl').write_text('\n'.join(map(json.dumps, cases)))
    cells = [nbformat.v4.new_code_cell(SETUP), nbformat.v4.new_code_cell(SHOW.format(labels=str(labels)))]
    nbformat.write(nbformat.v4.new_notebook(cells=cells,
                                            metadata={'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}}),
                                            root/f'{name}.ipynb')
    return f'{name}.ipynb'


class Bench:
    "The workbench as a user meets it."

    def __init__(self, opened: Opened):
        self.opened, self.page = opened, opened.page
        self.out = self.page.locator('.jp-OutputArea-output .factlab').first

    def see(self, text: str) -> None:
        self.opened.wait_for(lambda: text in self.out.inner_text(), f'{text!r} in {self.out.inner_text()[:1500]!r}', 20)

    def gone(self, text: str) -> None: self.opened.wait_for(lambda: text not in self.out.inner_text(), f'{text!r} to go', 20)

    def tab(self, name: str) -> None: self.page.get_by_role('tab', name=name, exact=True).click()

    def button(self, name: str): return self.out.get_by_role('button', name=name, exact=True)

    def type(self, keys: str) -> None:
        self.out.get_by_label('Keys').click()
        self.page.keyboard.type(keys)


def test_filter_open_label_undo_reload_restart_export(browser, lab, root, tmp_path):
    labels = tmp_path/'labels.jsonl'
    opened = Opened(browser, lab, notebook(root, 'work', [case(n) for n in range(60)], labels), 1280, 1100).run_all('workbench')
    assert not opened.errors()
    bench = Bench(opened)
    bench.see('1–25 of 60 rows')
    bench.out.get_by_label('Show').first.select_option('missed errors')
    bench.see('1–25 of 40 rows')
    bench.out.get_by_label('Search').fill('number 17 ')
    bench.see('1–1 of 1 rows')
    bench.out.get_by_label('Search').fill('')
    bench.see('1–25 of 40 rows')

    rows, hits = bench.out.locator('.rows').first.locator('tbody tr'), bench.out.locator('.rows').first.locator('label:has(input)')
    for n in (0, 7):  # what is clicked lies over what is seen
        seen, hit = rows.nth(n).bounding_box(), hits.nth(n).bounding_box()
        assert abs(seen['y'] - hit['y']) < 2 and abs(seen['height'] - hit['height']) < 2 and hit['width'] > 700
    hits.nth(7).click()
    bench.see('The old mill number 11 closed')
    assert opened.page.locator('.factlab mark.c0 sup').first.inner_text() == '1'
    bench.page.get_by_role('button', name='2 ○ missed').click()
    bench.see('Nothing says that mill 11 is old.')

    opened.page.get_by_label('8. row 11', exact=False).first.focus()  # arrow keys go from row to row
    opened.page.keyboard.press('ArrowDown')
    bench.see('The old mill number 13 closed')
    opened.page.keyboard.press('ArrowUp')
    bench.see('The old mill number 11 closed')
    bench.page.get_by_role('button', name='2 ○ missed').click()

    bench.type('2')
    bench.see('Saved: extrinsic wrong for row 11')
    bench.type('3')  # the false alarm came next by itself
    bench.see('Saved: omission for row 11')
    saved = LabelFile(labels).labels()
    assert saved.select('row', 'unit', 'label', 'annotator').rows() == [('row 11', 'gold:1', 'extrinsic_wrong', 'Ann'),
        ('row 11', 'predicted:1', 'omission', 'Ann')]
    bench.type('u')
    bench.see('Taken back: row 11, predicted:1')
    bench.see('1 of 80 labelled')
    bench.type('dxadd')  # keys that cut and delete cells elsewhere in JupyterLab
    bench.see('No label has the key')
    assert opened.page.locator('.jp-Notebook .jp-CodeCell').count() == 2 and LabelFile(labels).labels().height == 1

    opened.page.locator('[data-jp-item-name="save"]').first.click()
    opened.wait_for(lambda: 'widget-view' in (root/'work.ipynb').read_text(), 'the notebook to be saved')
    opened.page.wait_for_timeout(500)
    opened.open()
    opened.wait_for(lambda: opened.page.locator('.factlab .catcher').count() > 0, 'the workbench after a reload')
    bench.see('1 of 80 labelled')
    bench.type('1')
    bench.see('2 of 80 labelled')

    opened.menu('Kernel', 'Restart Kernel and Run All Cells…')
    opened.page.locator('.jp-Dialog button.jp-mod-accept').click()
    opened.wait_for(lambda: not opened.done(), 'the restart')
    opened.wait_for(opened.done, 'the cells')
    bench.see('2 of 80 labelled')

    bench.tab('Probe')
    bench.button('P(True)').click()
    bench.see('0.125')
    bench.tab('Label')
    bench.page.get_by_text('Export and import').click()
    bench.out.get_by_label('File').fill(str(tmp_path/'mine'))
    bench.button('Export').click()
    bench.see('2 labels written')
    assert read_labels(tmp_path/'mine.csv').equals(LabelFile(labels).labels())
    opened.shoot('workbench-labelled')
    assert not opened.foreign() and opened.dialogs == []
    opened.page.close()


EMBEDDED = "browse(predictions, rows, matches, labels={labels!r}, annotator='Ann', encoder=None)"

def test_the_embedded_model_probes_while_the_page_stays_usable(browser, lab, root, tmp_path):
    path = notebook(root, 'embedded', [case(n) for n in range(1, 3)], tmp_path/'labels.jsonl')
    made = nbformat.read(root/path, 4)
    made.cells[1].source = EMBEDDED.format(labels=str(tmp_path/'labels.jsonl'))
    nbformat.write(made, root/path)
    opened = Opened(browser, lab, path, 1280, 1100).run_all('workbench-embedded')
    bench = Bench(opened)
    bench.tab('Probe')
    bench.out.get_by_label('Question').fill('When did the old mill number 1 close?')
    bench.out.get_by_label('Answer').fill('1913')
    bench.button('P(True)').click()
    bench.see('asking …')
    bench.out.get_by_label('Search').fill('number 2 ')  # the kernel answers while the model is asked
    bench.see('1–1 of 1 rows')
    opened.wait_for(lambda: PTRUE_CAVEAT in bench.out.inner_text(), 'P(True) of the embedded model', 240)
    bench.button('Counterfactual').click()
    opened.wait_for(lambda: any(said in bench.out.inner_text() for said in ('the model finds', 'nothing that can be swapped')),
                    'the counterfactual', 240)
    opened.shoot('workbench-embedded')
    assert not opened.foreign() and not opened.errors()
    opened.page.close()


def test_a_label_that_cannot_be_saved_stays_on_the_screen(browser, lab, root, tmp_path):
    (tmp_path/'in the way').write_text('')
    opened = Opened(browser, lab, notebook(root, 'full', [case(n) for n in range(3)], tmp_path/'in the way'/'labels.jsonl'), 1280,
                    1100).run_all('workbench-full')
    bench = Bench(opened)
    bench.type('2')
    bench.see('Not saved: extrinsic wrong for row 01')
    bench.see('2 extrinsic wrong (not saved)')
    opened.shoot('workbench-full')
    (tmp_path/'in the way').unlink()
    bench.button('Save again').click()
    bench.see('Saved: extrinsic wrong for row 01')
    assert LabelFile(tmp_path/'in the way'/'labels.jsonl').labels()['label'].to_list() == ['extrinsic_wrong']
    opened.page.close()


def test_hostile_text_is_shown_and_does_nothing(browser, lab, root, tmp_path):
    with MisbehavingServer() as trap:
        fetched = []
        trap._server.RequestHandlerClass = type('Trap', (trap._server.RequestHandlerClass,),
                                                {'do_GET': lambda handler: fetched.append(handler.path) or handler.send_error(404)})
        texts = [text.replace('\ud83d', '') for text in hostile(f'http://127.0.0.1:{trap.port}')]
        cases = [{'id': text, 'text': '\n'.join([text, *texts]), 'summary': f'{text} {texts[n - 1]}', 'gold': [f'"{text}"', text],
                  'categories': [text, text], 'status': 'ok' if n else texts[0],
                  'reason': text, 'predicted': [text, texts[n - 1]], 'matched': [1, None]} for n, text in enumerate(texts)]
        opened = Opened(browser, lab, notebook(root, 'hostile', cases, tmp_path/'labels.jsonl'), 1280, 2200).run_all('workbench-hostile')
        assert not opened.errors()
        bench, page = Bench(opened), opened.page
        bench.out.get_by_label('Annotator').fill(texts[1])
        for n in range(len(texts)):
            bench.out.locator('.rows').first.locator('label:has(input)').nth(n).click()
            bench.see(texts[0])
            page.wait_for_timeout(150)
        assert texts[0] in bench.out.inner_text() and texts[1] in bench.out.inner_text()
        bench.type('2')
        bench.see('Saved')
        bench.tab('Probe')
        bench.button('P(True)').click()
        bench.see('0.125')
        bench.tab('Scratch')
        for name in ('Source', 'Summary'): page.get_by_role('textbox', name=name, exact=True).last.fill(' '.join(texts))
        bench.button('Find errors').click()
        bench.see('What the model wrote')
        bench.tab('Compare')
        page.locator('.rows').last.locator('label:has(input)').first.click()
        page.wait_for_timeout(500)
        opened.shoot('workbench-hostile')
        page.mouse.move(400, 400)
        output = page.locator('.jp-OutputArea-output')
        assert output.locator('script, iframe, object, embed, link, svg[onload], img, a, [onerror], [onmouseover], [onfocus]').count() == 0
        assert page.evaluate('window.hacked') is None and opened.dialogs == [] and fetched == [] and not opened.foreign()
        page.close()


def test_nothing_is_wider_than_the_page_and_all_controls_have_names(browser, lab, root, tmp_path):
    cases = [case(n) | {'id': f'a very long id without any space {"x"*200} {n}', 'text': 'word'*50_000, 'summary': 'شمال ' + 'W'*3_000}
             for n in range(1, 3)]
    opened = Opened(browser, lab, notebook(root, 'wide', cases, tmp_path/'labels.jsonl'), 1280, 1100).run_all('workbench-wide')
    page = opened.page
    wide = page.evaluate(
        """() => [...document.querySelectorAll('.jp-OutputArea-output .factlab *')].filter(e => e.getBoundingClientRect().right > 1280 && getComputedStyle(e).visibility != 'hidden'
        && !e.closest('.rows')).map(e => e.className).slice(0, 5)"""
    )
    assert wide == []
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('.factlab input, .factlab select, .factlab textarea')].filter(e => e.offsetParent && !(e.labels && [...e.labels].some(l => l.textContent.trim()))
        && !e.getAttribute('aria-label') && !e.closest('label')).map(e => e.outerHTML.slice(0, 200))"""
    )
    assert nameless == []
    assert pl.Series(page.locator('.factlab .pane').all_inner_texts()).str.contains('more characters').any()
    page.close()
