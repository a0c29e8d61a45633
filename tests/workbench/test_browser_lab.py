"""`factlab lab RUN` as a user meets it: the workbench is there when the page has loaded; proposals are accepted by the space bar; a text is
verified live, and stopped; all in one page of one browser."""
import os
import re
import subprocess
import sys
import time

import pytest
from hostile_texts import hostile
from in_browser import CHROMIUM, NEEDED, Opened
from workbench.test_browser_workbench import Bench

from factlab.error_analysis.annotations import LabelFile
from factlab.localization.methods import localizers
from factlab.models.interface import ScriptedModel
from factlab.models.prompts import format_lettered
from factlab.runs.plan import make_run
from factlab.workbench.examples import sample_rows

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)


@pytest.fixture
def opened(browser, tmp_path):
    "A run on four documents of the sample, and the page that `factlab lab` opens on it."
    home, rows = tmp_path/'home', sample_rows().head(4)
    said = {row['summary']: format_lettered([*row['gold'][:1], 'The river is left out.']) for row in rows.to_dicts()}
    model = ScriptedModel('scripted', lambda request: next(said[key] for key in said if key in request.messages[-1].content), revision='1')
    run = make_run(rows, localizers('zero_shot')[0], model, dataset='sample', store=False, folder=home/'runs')
    surroundings = {'FACTLAB_HOME': str(home), 'PYTHONUNBUFFERED': '1', **{name: str(tmp_path/name.lower()) for name in
                    ('JUPYTER_CONFIG_DIR', 'JUPYTER_RUNTIME_DIR', 'JUPYTERLAB_WORKSPACES_DIR', 'JUPYTERLAB_SETTINGS_DIR', 'IPYTHONDIR')}}
    process = subprocess.Popen([sys.executable, '-c', 'import sys; from factlab.cli.main import main; sys.exit(main(sys.argv[1:]))',
                                'lab', run.id[:-4], '--no-browser'], text=True,
                               stdout=subprocess.PIPE, env=os.environ | surroundings, cwd=tmp_path)
    try:
        printed = [process.stdout.readline() for _ in range(2)]
        found = re.search(r'(http://\S+)/lab/tree/(\S+)\?token=(\S+)', printed[1])
        assert found, printed
        page = Opened(browser, (found[1], found[3]), found[2], 1280, 2200)
        page.home, page.run = home, run
        yield page
        page.page.close()
    finally:
        process.send_signal(2)
        assert process.wait(60) == 0, 'an interrupt ends it as it should'


def test_a_run_is_opened_labelled_from_proposals_and_a_text_is_verified(opened, tmp_path):
    assert [path.name for path in tmp_path.iterdir() if path.suffix == '.ipynb'] == [] and (opened.home/'notebooks').is_dir()
    opened.wait_for(lambda: opened.page.locator('.factlab .catcher').count() > 0, 'the workbench, without a cell run by hand')
    bench, page = Bench(opened), opened.page
    bench.see(f'Run {opened.run.id}')
    labels = LabelFile(opened.home/'labels'/f'{opened.run.id}.jsonl')

    bench.out.get_by_label('Proposals of').select_option(label='decision questions')
    bench.button('Propose').click()
    opened.wait_for(lambda: 'none counts until you accept it' in bench.out.inner_text(), 'proposals', 120)
    assert labels.labels().is_empty()
    bench.see('Proposed by decision questions')
    opened.settle()
    opened.shoot('lab-proposals')
    bench.type(' ')
    bench.see('as proposed by decision questions')
    bench.see('accepted from proposals')
    accepted = labels.labels().row(0, named=True)
    assert accepted['proposed_by'] == 'decision questions' and accepted['annotator'] and labels.labels().height == 1
    bench.type('1')
    bench.see('2 of')
    assert labels.labels()['proposed_by'].to_list().count('') == 1

    bench.tab('Scratch')
    text = page.get_by_role('textbox', name='Text', exact=True)
    attack = hostile('http://127.0.0.1:9')[0].replace('\ud83d', '')
    text.fill(f'The Atacama Desert lies in Chile. The Atacama Desert lies in Norway. {attack}')
    for label, name in (('Extractor', 'sentences'), ('Retriever', 'bm25'), ('Verifier', 'mpnet')):
        page.get_by_label(label, exact=True).fill(name)
        page.keyboard.press('Tab')
    bench.button('Verify').click()
    bench.button('Stop').click()
    bench.see('Stopped.')
    started = time.monotonic()
    page.get_by_label('Verifier', exact=True).fill('cosine')
    page.keyboard.press('Tab')
    bench.button('Verify').click()
    opened.wait_for(lambda: ' supported, ' in bench.out.inner_text(), 'the verdict', 180)
    print(f'a verdict after {time.monotonic() - started:.1f} s')
    assert page.locator('.factlab .claim').count() >= 3 and page.locator('.factlab .claim details[open]').count() == 1
    assert attack.strip()[:20] in bench.out.inner_text()
    opened.settle()
    opened.shoot('lab-verified')
    output = page.locator('.jp-OutputArea-output')
    assert output.locator('script, iframe, object, embed, link, img, a, [onerror], [onmouseover], [onfocus]').count() == 0
    assert page.evaluate('window.hacked') is None and opened.dialogs == [] and not opened.foreign()
    wide = page.evaluate("""() => [...document.querySelectorAll('.jp-OutputArea-output .factlab *')]
        .filter(e => e.getBoundingClientRect().right > 1280 && getComputedStyle(e).visibility != 'hidden' && !e.closest('.rows'))
        .map(e => e.className).slice(0, 5)""")
    assert wide == [] and not opened.errors()
