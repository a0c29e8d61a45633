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
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from misbehaving_server import free_port

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
NEEDED = 'needs Chromium: apt-get install chromium'
FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
SETTINGS = {'notebook-extension/tracker': {'windowingMode': 'none'}, 'apputils-extension/notification': {'fetchNews': 'false', 'checkForUpdates': False}}


@contextmanager
def running_lab(root: Path):
    "JupyterLab on a free port with its files below `root`, its settings beside it; gives its address and its token."
    port, token, surroundings = free_port(), secrets.token_hex(16), root.parent
    for name, content in SETTINGS.items():
        path = surroundings/'settings'/'@jupyterlab'/f'{name}.jupyterlab-settings'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    environment = os.environ | {'JUPYTERLAB_SETTINGS_DIR': str(surroundings/'settings'), 'JUPYTERLAB_WORKSPACES_DIR': str(surroundings/'workspaces'),
                                'JUPYTER_CONFIG_DIR': str(surroundings/'config'), 'JUPYTER_RUNTIME_DIR': str(surroundings/'runtime'), 'IPYTHONDIR': str(surroundings/'ipython')}
    with (surroundings/'lab.log').open('w') as log:
        process = subprocess.Popen([sys.executable, '-m', 'jupyterlab', '--no-browser', '--allow-root', '--ip=127.0.0.1', f'--port={port}', '--ServerApp.port_retries=0',
                                    f'--ServerApp.root_dir={root}', f'--IdentityProvider.token={token}'], stdout=log, stderr=log, env=environment, cwd=surroundings)
    try:
        end = time.monotonic() + 60
        while True:
            try: urllib.request.urlopen(f'http://127.0.0.1:{port}/api?token={token}', timeout=2); break
            except OSError: assert time.monotonic() < end and process.poll() is None, (surroundings/'lab.log').read_text()[-2000:]
            time.sleep(0.2)
        yield f'http://127.0.0.1:{port}', token
    finally:
        process.terminate()
        process.wait(20)


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
        self.wait_for(self.done, 'the cells')
        self.page.wait_for_timeout(300)
        self.shoot(screenshot)
        return self

    def shoot(self, name: str) -> None:
        "A screenshot, where `$FACTLAB_SCREENSHOTS` names a folder."
        if folder := os.environ.get('FACTLAB_SCREENSHOTS'): self.page.screenshot(path=f'{folder}/{name}.png')

    def settle(self, seconds: float = 1.0) -> None:
        "Wait until the page has stayed the same for so long: what a kernel answers is drawn in pieces, and what is clicked meanwhile may be gone."
        seen = [time.monotonic(), '']
        def still() -> bool:
            now = self.page.locator('.jp-Notebook').first.inner_html()
            if now != seen[1]: seen[:] = time.monotonic(), now
            return time.monotonic() - seen[0] >= seconds
        self.wait_for(still, 'the page to stay as it is')

    def errors(self) -> list[str]:
        return self.page.locator('[data-mime-type="application/vnd.jupyter.error"], [data-mime-type="application/vnd.jupyter.stderr"]').all_inner_texts()

    def foreign(self) -> list[str]:
        "Addresses outside this JupyterLab."
        return [url for url in self.asked if not url.startswith((self.address, self.address.replace('http', 'ws'), 'data:', 'blob:'))]


# ---- the README's pictures: `python tests/in_browser.py [folder]` makes them again ---------------------------------------------------

def picture(part, name: str, folder: Path) -> Path:
    "What a part of the page shows now, in 256 colours, which keeps it small."
    from PIL import Image
    path = folder/f'{name}.png'
    part.screenshot(path=path)
    Image.open(path).convert('RGB').quantize(256).save(path, optimize=True)
    return path

def take_pictures(folder: Path) -> list[Path]:
    "The tutorial's workbench with labels given, and its comparison of two runs."
    import tempfile
    project = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as surroundings:
        root = Path(surroundings)/'root'
        root.mkdir()
        shutil.copy(project/'nbs'/'tutorials'/'workbench.ipynb', root)
        with running_lab(root) as lab, chromium() as browser:
            opened = Opened(browser, lab, 'workbench.ipynb', 1280, 2200).run_all('tutorial')
            bench = opened.page.locator('.jp-OutputArea-output .factlab').first
            bench.get_by_label('Show').first.select_option('missed errors')
            opened.settle()
            bench.locator('.rows').first.locator('label:has(input)').nth(3).click()
            opened.settle(5)  # the encoder's evidence comes some moments later
            bench.get_by_text('What the labels and keys mean').click()
            made = [picture(bench, 'workbench', folder)]
            opened.page.get_by_role('tab', name='Compare', exact=True).click()
            bench.get_by_label('Show').last.select_option(index=1)
            opened.settle()
            bench.locator('.rows').last.locator('label:has(input)').nth(3).click()
            opened.settle()
            return [*made, picture(bench.locator('.widget-tab-contents .factlab:visible').first, 'compare', folder)]


if __name__ == '__main__':
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent/'figures'/'workbench'
    for path in take_pictures(target): print(f'{path}: {path.stat().st_size:,} bytes')
