"""A real JupyterLab and a real Chromium, for tests that look at what a user sees.

    with running_lab(folder) as lab, chromium() as browser:
        opened = Opened(browser, lab, 'some/notebook.ipynb').run_all('name of a screenshot')"""
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from misbehaving_server import free_port

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
NEEDED = 'needs Chromium: apt-get install chromium'
FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
         '--disable-component-update', '--disable-sync']
SETTINGS = {'notebook-extension/tracker': {'windowingMode': 'none'},
            'apputils-extension/notification': {'fetchNews': 'false', 'checkForUpdates': False}}


@contextmanager
def running_lab(root: Path):
    "JupyterLab on a free port with its files below `root`, its settings beside it; gives its address and its token."
    port, token, surroundings = free_port(), secrets.token_hex(16), root.parent
    for name, content in SETTINGS.items():
        path = surroundings/'settings'/'@jupyterlab'/f'{name}.jupyterlab-settings'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    environment = os.environ | {'JUPYTERLAB_SETTINGS_DIR': str(surroundings/'settings'),
                                'JUPYTERLAB_WORKSPACES_DIR': str(surroundings/'workspaces'),
                                'JUPYTER_CONFIG_DIR': str(surroundings/'config'), 'JUPYTER_RUNTIME_DIR': str(surroundings/'runtime'),
                                'IPYTHONDIR': str(surroundings/'ipython'),
                                'FACTLAB_PROGRESS': '0'}  # a slow machine's bars would be taken for errors
    with (surroundings/'lab.log').open('w') as log:
        process = subprocess.Popen([sys.executable, '-m', 'jupyterlab', '--no-browser', '--allow-root', '--ip=127.0.0.1', f'--port={port}',
                                    '--ServerApp.port_retries=0',
                                    f'--ServerApp.root_dir={root}', f'--IdentityProvider.token={token}'], stdout=log, stderr=log,
                                    env=environment, cwd=surroundings)
    try:
        end = time.monotonic() + 60
        while True:
            try: urllib.request.urlopen(f'http://127.0.0.1:{port}/api?token={token}', timeout=2); break
            except OSError: assert time.monotonic() < end and process.poll() is None, (surroundings/'lab.log').read_text()[-2000:]
            time.sleep(0.2)
        yield f'http://127.0.0.1:{port}', token
    finally:
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        try: process.wait(30)  # it ends its kernels first, and waits for ever where one of them does not answer
        except subprocess.TimeoutExpired:
            for each in (process, *family):
                with suppress(psutil.NoSuchProcess): each.kill()
            process.wait(30)


@contextmanager
def trapped() -> Iterator[tuple[str, list[str]]]:
    "An address that nothing may ask, and the list of what asked for it all the same."
    from misbehaving_server import MisbehavingServer
    fetched: list[str] = []
    with MisbehavingServer() as trap:
        trap._server.RequestHandlerClass = type('Trap', (trap._server.RequestHandlerClass,),
                                                {'do_GET': lambda handler: fetched.append(handler.path) or handler.send_error(404)})
        yield f'http://127.0.0.1:{trap.port}', fetched


@contextmanager
def chromium():
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(headless=True, executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


STATE = """() => ({
    prompts: [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputArea-prompt')].map(prompt => prompt.textContent.trim()),
    errors: document.querySelectorAll('[data-mime-type="application/vnd.jupyter.error"]').length})"""

class Opened:
    "A notebook in the browser. `asked` holds every address that the page asked for, `dialogs` what it tried to say."

    def __init__(self, browser, lab: tuple[str, str], notebook: str, width: int = 1500, height: int = 2600):
        (self.address, self.token), self.notebook = lab, notebook
        self.page = browser.new_page(viewport={'width': width, 'height': height})
        self.asked, self.dialogs = [], []
        self.page.on('request', lambda request: self.asked.append(request.url))
        self.page.on('dialog', self._answer)
        self.open()

    def _answer(self, dialog) -> None:
        if dialog.type == 'beforeunload': return dialog.accept()
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def open(self) -> 'Opened':
        "Open the notebook, or open it again."
        self.page.goto(f'{self.address}/doc/tree/{self.notebook}?token={self.token}&reset', timeout=60_000)
        self.page.wait_for_selector('.jp-Notebook .jp-CodeCell', timeout=60_000)
        self.wait_for(lambda: any(kernel['connections'] and kernel['execution_state'] == 'idle' for kernel in self.kernels()), 'its kernel')
        return self

    def kernels(self) -> list[dict]:
        "The kernels of this notebook, as the server tells."
        with urllib.request.urlopen(f'{self.address}/api/sessions?token={self.token}', timeout=5) as answer: sessions = json.load(answer)
        return [session['kernel'] for session in sessions if session['path'].endswith(self.notebook)]

    def wait_for(self, condition, what: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f'waited in vain for {what}: {self.page.evaluate(STATE)}'
            self.page.wait_for_timeout(100)

    def done(self) -> bool:
        "All cells have run, or one of them raised."
        state = self.page.evaluate(STATE)
        return state['errors'] > 0 or bool(state['prompts']) and all(re.fullmatch(r'\[\d+\]:?', text) for text in state['prompts'])

    def menu(self, name: str, item: str) -> None:
        self.page.locator('#jp-MainMenu').get_by_text(name, exact=True).click()
        self.page.get_by_role('menuitem', name=item, exact=True).click()

    def run_all(self, screenshot: str) -> 'Opened':
        self.menu('Run', 'Run All Cells')
        self.wait_for(self.done, 'the cells', 300)
        self.page.wait_for_timeout(300)
        self.shoot(screenshot)
        return self

    def shoot(self, name: str) -> None:
        "A screenshot, where `$FACTLAB_SCREENSHOTS` names a folder."
        if folder := os.environ.get('FACTLAB_SCREENSHOTS'): self.page.screenshot(path=f'{folder}/{name}.png')

    def settle(self, seconds: float = 1.0) -> None:
        "Wait until the page has stayed the same for so long: what a kernel answers is drawn in pieces, and what is clicked meanwhile may be gone."  # noqa: E501
        seen = [time.monotonic(), '']
        def still() -> bool:
            now = self.page.locator('.jp-Notebook').first.inner_html()
            if now != seen[1]: seen[:] = time.monotonic(), now
            return time.monotonic() - seen[0] >= seconds
        self.wait_for(still, 'the page to stay as it is')

    def errors(self) -> list[str]:
        return self.page.locator(
            '[data-mime-type="application/vnd.jupyter.error"], [data-mime-type="application/vnd.jupyter.stderr"]').all_inner_texts()

    def foreign(self) -> list[str]:
        "Addresses outside this JupyterLab."
        return [url for url in self.asked if not url.startswith((self.address, self.address.replace('http', 'ws'), 'data:', 'blob:'))]


# ---- the notebooks' screenshots: `python tests/in_browser.py [name …]` takes them again ---------------------------------------------

PROJECT = Path(__file__).resolve().parent.parent
PICTURED = re.compile(r"live_or_picture\([\w.]+, '(\w+)'\)")  # in a cell: the widget that is its output, and the name of its screenshot

def pictured() -> dict[Path, dict[str, int]]:
    "The notebooks that show widgets: name of the screenshot → number of the cell."
    found = {}
    for path in [path for folder in ('20_workbench', 'tutorials') for path in sorted((PROJECT/'nbs'/folder).glob('*.ipynb'))]:
        sources = [''.join(cell['source']) for cell in json.loads(path.read_text(encoding='utf-8'))['cells']]
        names = {match[1]: number for number, source in enumerate(sources) for match in PICTURED.finditer(source)}
        if names: found[path] = names
    return found

def picture(part, path: Path) -> Path:
    "What a part of the page shows now, in as few colours as keep it below 150 kB."
    from PIL import Image
    part.screenshot(path=path)
    image = Image.open(path).convert('RGB')
    for colours in (256, 128, 64, 32):
        image.quantize(colours).save(path, optimize=True)
        if path.stat().st_size < 150_000: break
    return path

def open_a_missed_error(opened: Opened, part) -> None:
    "The tutorial's workbench, filtered for missed errors, with a row open in which the judge did not see a match."
    part.get_by_label('Show').first.select_option('missed errors')
    opened.settle()
    part.locator('.rows').first.locator('label:has(input)').nth(5).click()
    opened.settle(5)  # the encoder's evidence comes some moments later
    part.get_by_text('What the labels and keys mean').click()

def open_a_difference(opened: Opened, part) -> None:
    "The tutorial's comparison, at an error that only the first run finds."
    part.get_by_label('Show').first.select_option(index=1)
    opened.settle()
    part.locator('.rows').first.locator('label:has(input)').nth(4).click()

def open_a_proposal(opened: Opened, part) -> None:
    "The tutorial's annotator, at an error without a label for which the decision questions propose one."
    part.get_by_role('button', name='Propose', exact=True).click()
    opened.settle()
    for _ in range(20):
        if part.get_by_text('(proposed)').count(): break
        part.get_by_role('button', name='. ›').click()
        opened.settle()

BEFORE = {  # what to click before the screenshot is taken
    'workbench': open_a_missed_error,
    'compare': open_a_difference,
    'proposals': open_a_proposal,
}

def take_pictures(folder: Path, wanted: Sequence[str] = ()) -> Iterator[Path]:
    "Run the notebooks that show widgets in JupyterLab, and take a screenshot of each widget; of those that are named, or of all."
    with tempfile.TemporaryDirectory() as surroundings:
        root = Path(surroundings)/'root'
        root.mkdir()
        with running_lab(root) as lab, chromium() as browser:
            for path, names in pictured().items():
                if wanted and not {*wanted} & {*names}: continue
                shutil.copy(path, root)
                opened = Opened(browser, lab, path.name, 1280, 2200).run_all(path.stem)
                assert not opened.errors(), opened.errors()
                for name, number in names.items():
                    if wanted and name not in wanted: continue
                    part = opened.page.locator('.jp-Notebook .jp-Cell').nth(number).locator('.jp-OutputArea-output .factlab').first
                    opened.settle()
                    if name in BEFORE: BEFORE[name](opened, part)
                    opened.page.mouse.move(0, 0)  # nothing is lit by the pointer
                    part.scroll_into_view_if_needed()  # before it is measured: what comes into view may still be laid out
                    opened.settle()
                    yield picture(part, folder/f'{name}.png')
                opened.page.close()


if __name__ == '__main__':
    for path in take_pictures(PROJECT/'figures'/'workbench', sys.argv[1:]): print(f'{path.name}: {path.stat().st_size:,} bytes')
