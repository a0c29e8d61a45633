"""The browser's three configurations, and any other run, in a real JupyterLab and a real Chromium: filter, open, label by keyboard, undo, reload,
restart, find the labels again, probe, export, hide; and hostile text stays text. Pages are shared where nothing hinders it: a kernel takes seconds."""
# ruff: noqa: E501  long lines inside texts

import json
from pathlib import Path

import nbformat
import polars as pl
import pytest
from hostile_texts import hostile
from in_browser import CHROMIUM, NEEDED, Opened, trapped

from factlab.error_analysis.annotations import LabelFile, read_labels
from factlab.mixed_context.labels import FACTUAL, NON_FACTUAL
from factlab.studies.fhsum.data_sets import load_mixed

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)

SETUP = '''
import json
import time
import polars as pl
from factlab.grounding.scores import JUDGEMENTS
from factlab.localization.methods import PREDICTIONS
from factlab.localization.matching import MATCHES
from factlab.mixed_context.labels import MIXED_PREDICTIONS, TRACES
from factlab.models.interface import ScriptedModel
from factlab.workbench import browse, browse_cases, browse_responses

cases = [json.loads(line) for line in open('cases.jsonl', encoding='utf-8')]
counts = dict.fromkeys(('n_gold', 'n_predicted', 'invalid', 'calls', 'prompt_tokens', 'completion_tokens'), 0) | {'status': 'ok', 'reason': '', 'answer': ''}
rows = pl.DataFrame(cases, schema={'id': pl.String, 'text': pl.String, 'summary': pl.String, 'gold': pl.List(pl.String), 'categories': pl.List(pl.String)}, strict=False)
predictions = PREDICTIONS.frame([{name: (counts | case)[name] for name in PREDICTIONS.columns} for case in cases])
matches = MATCHES.frame([{name: (counts | case)[name] for name in MATCHES.columns} for case in cases])
def p_true(case):
    time.sleep(2)
    return {'asked about': case.error.text, 'P(True)': 0.125}
'''
ERRORS = "browse(predictions, rows, matches, other=predictions, other_matches=matches, labels={labels!r}, annotator='Ann', encoder=None, p_true=p_true, models={{'scripted': ScriptedModel('scripted', lambda request: cases[0]['predicted'][-1])}})"
RESPONSES = '''
from factlab.workbench import browse_responses
from factlab.workbench.responses import sample_judged

browse_responses(sample_judged(12), labels={labels!r}, annotator='Ann', encoder=None)
'''
MIXED = '''
from factlab.workbench import browse_cases
from factlab.workbench.mixed_cases import example_cases

browse_cases(example_cases(), labels='mixed labels.jsonl', annotator='Ann')
'''
HOSTILE = ('''
texts = json.load(open('texts.json', encoding='utf-8'))
names = ('id', 'responder', 'request', 'document', 'response', 'system', 'status', 'reason')
said = [{{'sentence': text, 'label': 'supported', 'excerpt': text}} for text in texts]
judged = [{{'id': text, 'judge': texts[0], 'template': text, 'accurate': None, 'status': text, 'reason': text, 'sentences': said}} for text in texts]
browse_responses(pl.DataFrame({{name: texts for name in names}}), JUDGEMENTS.frame([dict.fromkeys(JUDGEMENTS.columns) | each for each in judged]),
                 labels={labels!r}, annotator='Ann', encoder=None)
''', '''
def filled(schema, **more): return schema.frame({{name: text if kind == pl.String else None for name, kind in schema.columns.items()}} | more for text in texts)
answers, trace = filled(MIXED_PREDICTIONS), filled(TRACES, claim_number=1, step=1)
known = pl.DataFrame({{'entity': texts, 'aliases': [[text] for text in texts], 'description': texts, 'text': texts}})
browse_cases(pl.DataFrame({{name: texts for name in ('id', 'split', 'document', 'summary')}}), {{text: answers for text in texts}},
             {{text: trace for text in texts}}, known, labels={labels!r}, annotator='Ann')
''', "browse(pl.DataFrame({{name: texts for name in ('id', 'status', *texts[:3])}}), rows.drop('gold'), labels={labels!r}, annotator='Ann')")


def case(n: int) -> dict:
    "Two gold errors of which the first is found, and one false alarm; every third summary is sound and said to be."
    base = {'id': f'row {n:02}', 'text': f'The mill number {n} closed in 1931. It stood by the river. A miller lived there.',
            'summary': f'The old mill number {n} closed in 1913.'}
    if n % 3 == 0: return base | {'gold': [], 'categories': [], 'predicted': [], 'matched': []}
    return base | {'gold': ['The year "1913" is wrong.', f'Nothing says that mill {n} is old.'],
                   'categories': ['intrinsic_alteration', 'extrinsic_wrong'],
                   'predicted': ['It was "1931", not "1913".', 'The river is left out.'], 'matched': [0, None]}


def notebook(root: Path, name: str, labels: Path, cells: tuple[str, ...], cases: list[dict] = ()) -> str:
    "A notebook with these cells, over these cases."
    if cases:
        (root/'cases.jsonl').write_text('\n'.join(map(json.dumps, cases)))
        cells = (SETUP.replace('{', '{{').replace('}', '}}'), *cells)
    made = [nbformat.v4.new_code_cell(cell.format(labels=str(labels.with_stem(f'{labels.stem}{n}' if n > 1 else labels.stem))))
            for n, cell in enumerate(cells)]
    kernel = {'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}}
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=kernel), root/f'{name}.ipynb')
    return f'{name}.ipynb'


class Bench:
    "A browser of examples as a user meets it: the output of a cell."

    def __init__(self, opened: Opened, cell: int|None = None):
        self.opened, self.page = opened, opened.page
        outputs = self.page.locator('.jp-Notebook') if cell is None else self.page.locator('.jp-Notebook .jp-Cell').nth(cell)
        self.out = outputs.locator('.jp-OutputArea-output .factlab').first

    def see(self, text: str) -> None:
        self.opened.wait_for(lambda: text in self.out.inner_text(), f'{text!r} in {self.out.inner_text()[:1500]!r}', 20)

    def tab(self, name: str) -> None: self.out.get_by_role('tab', name=name, exact=True).click()

    def button(self, name: str): return self.out.get_by_role('button', name=name, exact=True)

    def rows(self): return self.out.locator('.rows').first.locator('label:has(input)')

    def show(self, option: str) -> None: self.out.get_by_label('Show').first.select_option(option)

    def type(self, keys: str) -> None:
        self.out.get_by_label('Keys').click()
        self.page.keyboard.type(keys)


def test_filter_open_label_undo_reload_restart_probe_export(browser, lab, root, tmp_path):
    labels = tmp_path/'labels.jsonl'
    opened = Opened(browser, lab, notebook(root, 'work', labels, (ERRORS,), [case(n) for n in range(60)]), 1280, 1100).run_all('workbench')
    assert not opened.errors()
    bench = Bench(opened)
    bench.see('1–25 of 60 rows')
    bench.show('missed errors')
    bench.see('1–25 of 40 rows')
    bench.out.get_by_label('Search').fill('number 17 ')
    bench.see('1–1 of 1 rows')
    bench.out.get_by_label('Search').fill('')
    bench.see('1–25 of 40 rows')

    rows, hits = bench.out.locator('.rows').first.locator('tbody tr'), bench.rows()
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
    opened.settle()

    bench.tab('Probe')
    bench.button('P(True)').click()
    bench.see('asking …')
    bench.out.get_by_label('Search').fill('number 17 ')  # the kernel answers while the probe works
    bench.see('1–1 of 1 rows')
    bench.out.get_by_label('Search').fill('')
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


def test_wide_texts_fit_controls_have_names_and_a_label_that_cannot_be_saved_stays(browser, lab, root, tmp_path):
    cases = [case(n) | {'id': f'row {n} {"x"*200}', 'text': 'word'*50_000, 'summary': 'شمال ' + 'W'*3_000} for n in range(1, 3)]
    (tmp_path/'in the way').write_text('')
    opened = Opened(browser, lab, notebook(root, 'wide', tmp_path/'in the way'/'labels.jsonl', (ERRORS,), cases), 1280, 1100)
    bench, page = Bench(opened.run_all('workbench-wide')), opened.page
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
    bench.type('2')
    bench.see('Not saved: extrinsic wrong for row 1')
    bench.see('2 extrinsic wrong (not saved)')
    opened.shoot('workbench-full')
    (tmp_path/'in the way').unlink()
    bench.button('Save again').click()
    bench.see('Saved: extrinsic wrong for row 1')
    assert LabelFile(tmp_path/'in the way'/'labels.jsonl').labels()['label'].to_list() == ['extrinsic_wrong']
    page.close()


def test_responses_and_mixed_contexts_are_filtered_read_labelled_and_hidden(browser, lab, root, tmp_path):
    opened = Opened(browser, lab, notebook(root, 'both', tmp_path/'labels.jsonl', (RESPONSES, MIXED)), 1280, 3200).run_all('both')
    assert not opened.errors()
    read_responses(Bench(opened, 0), opened, tmp_path/'labels.jsonl')
    read_mixed_contexts(Bench(opened, 1), opened, root)
    assert not opened.foreign() and opened.dialogs == []
    opened.page.close()


def read_responses(bench: Bench, opened: Opened, labels: Path) -> None:
    "Filter by disagreement, open a response, read its passages, label sentences, hide what judges say."
    bench.see('2 judges')
    total = bench.rows().count()
    bench.show('judges disagree')
    bench.out.get_by_label('Responder').first.select_option('one_error')
    opened.wait_for(lambda: bench.rows().count() < total, 'fewer rows')
    bench.rows().nth(0).click()
    bench.see('/one_error')
    opened.settle()
    card = bench.out.locator('.card.on').first  # it opens where the judges differ
    assert '≠ judges differ' in card.inner_text() and 'not in the evidence: 1 strict · words' in card.inner_text()
    passages = bench.out.locator('.passages')
    assert 'Passages for sentence' in passages.inner_text() and passages.locator('mark').count() >= 1
    assert bench.out.locator('mark.c4.e2.on').count() >= 1  # the sentence in the response, as one that judges dispute
    chosen = passages.inner_text()
    bench.out.locator('.card').last.click()
    opened.wait_for(lambda: passages.inner_text() != chosen, 'the passages of another sentence')
    bench.type('3')
    bench.see('Saved: contradicted for')
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


def read_mixed_contexts(bench: Bench, opened: Opened, root: Path) -> None:
    "Filter, read a claim's trace beside the document, go by keyboard, hide what is known, label, write gold."
    bench.see('3 summaries')
    trace = bench.out.locator('.trace')
    bench.show('an answer is wrong')
    bench.out.get_by_label('Method').first.select_option('knowledge')
    bench.see('1–1 of 1 rows')
    bench.show('all summaries')
    bench.see('1–3 of 3 rows')
    bench.rows().nth(0).click()
    bench.see('gold: factual hallucination')
    assert bench.out.locator('.columns mark.evidence').inner_text() == ', a wrought-iron tower in Paris,'  # the annotated span
    bench.out.get_by_label('Claims of').select_option('reflection')
    bench.see('2 no hallucination · 2 pieces of evidence')
    opened.settle()
    bench.out.locator('.card').nth(1).click()
    bench.see('Trace of claim 2')
    opened.settle()
    marks = bench.out.get_by_role('region', name='Document').locator('mark')
    assert marks.count() == 2 and 'walked out' in marks.nth(0).inner_text() and 'turned away' in marks.nth(1).inner_text()
    assert '✓ supports: The staff walked out.' in trace.inner_text() and '○ not relevant' in trace.inner_text()
    green = marks.nth(0).evaluate('mark => getComputedStyle(mark).borderBottomColor')
    assert green == 'rgb(0, 158, 115)' and marks.nth(1).evaluate('mark => getComputedStyle(mark).borderBottomStyle') == 'dotted'

    bench.type('n.')  # the next summary, and its second claim
    bench.see('gold: non-factual hallucination')
    bench.see('The notebooks of Marie Curie are shown in Warsaw.')
    bench.see('‡ unread')
    bench.out.get_by_text('raw answer, 43 characters').click()
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

    bench.rows().nth(0).click()
    for key, said in (('1', 'Saved: factual hallucination for tower'), ('2', 'Saved: non-factual hallucination for curie'),
                      ('4', 'Saved: unclear for ferry'), ('u', 'Taken back: ferry'), ('4', '3 of 3')):  # the next summary opens by itself
        bench.type(key)
        bench.see(said)
    bench.out.get_by_text('Export and import').click()
    bench.out.get_by_label('Format').select_option('gold labels (jsonl)')
    bench.out.get_by_label('File').fill('gold of Ann')
    opened.page.keyboard.press('Tab')
    bench.button('Export').click()
    bench.see('2 gold labels written to gold of Ann.jsonl; left out: 1 unclear')
    rows = load_mixed(str(root/'gold of Ann.jsonl'))  # as a study reads its data
    assert rows.select('id', 'label').rows() == [('tower', FACTUAL), ('curie', NON_FACTUAL)]


def hostile_cases(texts: list[str]) -> list[dict]:
    "Errors whose every field is one of these texts."
    return [{'id': text, 'text': '\n'.join([text, *texts]), 'summary': f'{text} {texts[n - 1]}', 'gold': [f'"{text}"', text],
             'categories': [text, text], 'status': 'ok' if n else texts[0],
             'reason': text, 'predicted': [text, texts[n - 1]], 'matched': [1, None]} for n, text in enumerate(texts)]


def label_probe_and_find(errors: Bench, others: list[Bench], texts: list[str]) -> None:
    "Label by key in three browsers, probe an error, and look for errors in these texts."
    errors.out.get_by_label('Annotator').fill(texts[1])
    errors.type('2')
    errors.see('Saved')
    others[1].type('m,n')
    others[2].type('1')
    others[2].see('Saved')
    errors.tab('Probe')
    errors.button('P(True)').click()
    errors.see('0.125')
    errors.tab('Scratch')
    for name in ('Source', 'Summary'): errors.out.get_by_role('textbox', name=name, exact=True).last.fill(' '.join(texts))
    errors.button('Find errors').click()
    errors.see('What the model wrote')


def test_hostile_text_is_shown_and_does_nothing(browser, lab, root, tmp_path):
    with trapped() as (there, fetched):
        texts = [text.replace('\ud83d', '') for text in hostile(there)]
        (root/'texts.json').write_text(json.dumps(texts))
        path = notebook(root, 'hostile', tmp_path/'labels.jsonl', (ERRORS, *HOSTILE), hostile_cases(texts))
        opened = Opened(browser, lab, path, 1280, 5200).run_all('hostile')
        assert not opened.errors(), opened.errors()
        page, errors, *others = opened.page, *[Bench(opened, cell) for cell in range(1, 5)]
        for bench in (errors, *others):
            for n in range(len(texts)):
                bench.rows().nth(n).click()
                page.wait_for_timeout(150)
            bench.see(texts[0])
        label_probe_and_find(errors, others, texts)
        errors.tab('Compare')
        errors.out.locator('.rows').last.locator('label:has(input)').first.click()
        opened.settle()
        opened.shoot('hostile')
        page.mouse.move(400, 400)
        output = page.locator('.jp-OutputArea-output')
        assert output.locator('script, iframe, object, embed, link, svg[onload], img, a, [onerror], [onmouseover], [onfocus]').count() == 0
        assert page.evaluate('window.hacked') is None and opened.dialogs == [] and fetched == [] and not opened.foreign()
        page.close()
