"""Runs by the commands that users give, killed (-9) at moments drawn by chance, and given again until they end.

What they leave must be what an undisturbed run leaves, but for times, byte by byte. On the way no file may lie half-written under its own
name, no process may stay behind, and no question may be asked again whose answer was in the store."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl
import psutil
from misbehaving_server import Call, MisbehavingServer, answer
from safetensors import SafetensorError, safe_open
from trials import ROOT, Kinds, Trials

from factlab.core.core import cache_dir
from factlab.models.transformers_backend import tiny_folder
from factlab.store.answers import Store

RUNS = 20       # of a kind
PATIENCE = 900  # seconds that a run may take
TIMES = {'started', 'seconds', 'made', 'pid', 'created'}
SAMPLE = ROOT/'factlab'/'data'/'assets'/'sample'

# ---- answers -------------------------------------------------------------------------------------------------------------------------

ITEMS = ('A. The year is wrong.\nB. Nobody says that it is the largest.', 'A. The town is another.', 'None', 'I would rather not say.')
TEXTS = {  # what stands in a prompt, and answers to it
    '"ambiguous"': ('{"ambiguous": false, "known": true, "description": "a quiet harbour town of the north"}',
                    '{"ambiguous": false, "known": true, "description": "the second chemist of a large family"}',
                    '{"ambiguous": false, "known": true, "description": "a river that freezes in most winters"}',
                    '{"ambiguous": true, "known": true, "description": ""}', 'It is a place.'),
    'Two lists describe': ('{"A": "A"}', 'They differ.\n{"A": null}', '{"A": "A", "B": null}', 'Who knows?'),
    'Facts:': ('- The town has a port.\n- The port is old.', '- The river is long.'),
    'Claims:': ('- The Danube flows through Vienna.\n- Vienna has a port.', '- Otters live in rivers.', 'None'),
    '{"items"': ('{"items": ["The town has a port.", "The port is old."]}', '{"items": []}', 'The town has a port.'),
    'Final Output:': tuple(f'Step by step.\nFinal Output:\n{items}' for items in ITEMS),
    'Final answer:': ('So it is.\nFinal answer: yes', 'It is not.\nFinal answer: no', 'Hard to say.'),
    'Inconsistencies:': ITEMS, 'Answer:': ITEMS,
    'Instruction Following': ('{"Instruction Following": "No Issues"}', '{"Instruction Following": "Major Issue(s)"}', 'Fine.'),
    '': ('Accurate', 'Inaccurate', 'The response stays with its document.', 'Otters live in rivers. Vienna has a port.'),
}
FIRST_TOKENS = {
    'Supported': ({'Supported': -.2, 'Refuted': -2.5, 'Not': -3.}, {'Refuted': -.1, 'Supported': -3., 'Not': -4.}),
    'Not Factual': ({'Factual': -.2, 'Not Factual': -1.9}, {'Not Factual': -.3, 'Factual': -1.6}),
    '': ({'yes': -.2, 'no': -1.9}, {'no': -.3, 'yes': -1.6}),
}


def said(call: Call) -> Callable:
    "An answer of the kind that a prompt asks for, always the same to the same prompt. Some cannot be read."
    time.sleep(.02)
    chance = random.Random(call.prompt)
    if call.body.get('logprobs'):
        top = chance.choice(next(tops for mark, tops in FIRST_TOKENS.items() if mark in call.prompt))
        return answer(next(iter(top)), top=top)
    return answer(chance.choice(next(texts for mark, texts in TEXTS.items() if mark in call.prompt)))


# ---- a place to run in ---------------------------------------------------------------------------------------------------------------

@dataclass
class Place:
    "Where commands run, always the same folders, so that what they write can be compared."
    folder: Path
    server: MisbehavingServer
    more: dict[str, str] = field(default_factory=dict)  # environment
    words: list[bytes] = field(default_factory=list)    # that the last command has printed
    reader: threading.Thread|None = None

    @property
    def disk(self) -> Path: return self.folder/'disk'
    @property
    def home(self) -> Path: return self.disk/'home'
    @property
    def out(self) -> Path: return self.disk/'out'
    @property
    def model(self) -> str: return f'openai:any?base_url={self.server.url}&concurrency=4'
    @property
    def store(self) -> Path: return self.home/'store.sqlite'

    def clear(self) -> None:
        "An empty home; the embedded model's converted weights are there."
        for folder in (self.home, self.out): shutil.rmtree(folder, ignore_errors=True)
        (self.home/'cache').mkdir(parents=True)
        self.out.mkdir()
        (self.home/'cache'/tiny_folder().name).symlink_to(tiny_folder())

    def start(self, command: list[str]) -> subprocess.Popen:
        environment = os.environ | {'FACTLAB_HOME': str(self.home), 'FACTLAB_PROGRESS': '0', 'HF_HUB_OFFLINE': '1',
                                    'FACTLAB_WEIGHTS': os.environ.get('FACTLAB_WEIGHTS') or str(cache_dir()/'weights')} | self.more
        environment['PYTHONPATH'] = os.pathsep.join([*([first] if (first := self.more.get('PYTHONPATH')) else []), str(ROOT)])
        process = subprocess.Popen([sys.executable, '-c', 'from factlab.cli.main import main; raise SystemExit(main())', *command],
                                   cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        self.words = []
        self.reader = threading.Thread(target=lambda words: words.extend(process.stdout), args=(self.words,), daemon=True)
        self.reader.start()
        return process

    def run(self, command: list[str], patience: float = PATIENCE) -> int|None:
        "The exit code; None when it did not end."
        process = self.start(command)
        try: return process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill(process, whole=True)
            return None

    def said(self) -> str:
        self.reader.join(10)
        return b''.join(self.words).decode(errors='replace')

    def processes(self) -> list[psutil.Process]:
        "All that were started here: the kernels of notebooks have sessions of their own."
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get('FACTLAB_HOME') == str(self.home): found.append(process)
        return found

    def kill(self, process: subprocess.Popen, whole: bool) -> str:
        "Kill -9 the process group, or all that it started as well; the rest has to see that it is alone. What is wrong, in words."
        there = self.processes()
        with suppress(ProcessLookupError): os.killpg(process.pid, signal.SIGKILL)
        for each in there if whole else []:
            with suppress(psutil.Error): each.kill()
        process.wait()
        _, alive = psutil.wait_procs(self.processes(), timeout=30)
        for each in alive:
            with suppress(psutil.Error): each.kill()
        return f'{len(alive)} processes stayed behind: {[each.name() for each in alive]}' if alive else ''

    def stored(self) -> Counter:
        "How many answers to each prompt are in the store."
        if not self.store.exists(): return Counter()
        with Store(self.store) as store: store.export(self.folder/'rows.jsonl')
        return Counter(json.loads(line)['request']['messages'][-1]['content'] for line in (self.folder/'rows.jsonl').open())

    def left(self) -> dict[str, object]:
        "What a run leaves, without its times: the files of its results and of its runs, and its answers."
        found: dict[str, object] = {}
        for path in (*visible(self.out), *visible(self.home/'runs')): found[str(path.relative_to(self.disk))] = content(path)
        with Store(self.store) as store:
            faults = store.verify()
            if not faults.is_empty(): found['faults'] = faults.rows()
            store.export(self.folder/'rows.jsonl')
        for line in (self.folder/'rows.jsonl').open():
            row = json.loads(line)
            found[f'answer {row.pop("key")}'] = timeless(row)
        return found


@contextmanager
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix='factlab-campaign-') as folder, MisbehavingServer(said) as server:
        here = Place(Path(folder), server)
        try: yield here
        finally:  # also where the campaign itself is told to end
            for process in here.processes():
                with suppress(psutil.Error): process.kill()


def visible(folder: Path) -> Iterator[Path]:
    "Files under their own names: what is being written has a name that begins with a dot."
    for path in sorted(folder.rglob('*')):
        if path.is_file() and not any(part.startswith('.') for part in path.relative_to(folder).parts): yield path


def timeless(value: object) -> object:
    if isinstance(value, dict): return {key: timeless(each) for key, each in value.items() if key not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def content(path: Path) -> object: return timeless(json.loads(path.read_text())) if path.suffix == '.json' else path.read_bytes()


def half(path: Path) -> str:
    "Why a file is not whole; '' when it is."
    try:
        if path.suffix in ('.json', '.ipynb'): json.loads(path.read_text())
        elif path.suffix == '.jsonl': [json.loads(line) for line in path.read_text().splitlines()]
        elif path.suffix == '.parquet': pl.read_parquet(path)
        elif path.suffix in ('.safetensors', '.checkpoint'):
            with safe_open(str(path), 'pt') as tensors: [tensors.get_tensor(name) for name in tensors.keys()]  # noqa: SIM118
        elif path.suffix == '.svg' and not path.read_text().rstrip().endswith('</svg>'): return 'no end'
        elif path.suffix == '.png' and not path.read_bytes().endswith(b'IEND\xaeB`\x82'): return 'no end'
        elif path.suffix in ('.csv', '.md') and not path.read_bytes().endswith(b'\n'): return 'no end'
    except (ValueError, OSError, SafetensorError, pl.exceptions.PolarsError) as error: return f'{type(error).__name__}: {error}'
    return ''


def halves(here: Place) -> str:
    "Files that are half-written under their own names."
    files = (path for folder in (here.out, here.home) for path in visible(folder))
    found = [f'{path.relative_to(here.disk)} ({why})' for path in files if (why := half(path))]
    return f'half-written: {", ".join(found)}' if found else ''


def differences(mine: dict[str, object], whole: dict[str, object]) -> str:
    missing, more = sorted(whole.keys() - mine.keys()), sorted(mine.keys() - whole.keys())
    others = [name for name in sorted(whole.keys() & mine.keys()) if mine[name] != whole[name]]
    return '; '.join(f'{what} {len(names)}, as {names[0]}' for what, names in
                     (('missing', missing), ('too many', more), ('other than in an undisturbed run', others)) if names)


# ---- an undisturbed run, and killed ones ---------------------------------------------------------------------------------------------

@dataclass
class Undisturbed:
    "A command, and what it leaves when nothing happens to it."
    command: list[str]
    here: Place
    seconds: float = 0.
    left: dict[str, object] = field(default_factory=dict)
    asked: Counter = field(default_factory=Counter)
    stored: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.here.clear()
        before, start = len(self.here.server.calls), time.monotonic()
        if (code := self.here.run(self.command)) != 0: raise RuntimeError(f'{self.command} ended with {code}:\n{self.here.said()[-2000:]}')
        self.seconds = time.monotonic() - start
        self.asked = Counter(call.prompt for call in self.here.server.calls[before:])
        self.left, self.stored = self.here.left(), self.here.stored()

    def in_vain(self, since: int, stored: Counter) -> str:
        "Questions asked since then though their answers were stored."
        calls = Counter(call.prompt for call in self.here.server.calls[since:])
        most = {prompt: self.asked[prompt] - min(stored[prompt], self.asked[prompt]) for prompt in calls}
        over = sum(max(0, calls[prompt] - most[prompt]) for prompt in calls)
        return f'{over} questions asked that were answered and stored' if over else ''


def killed(whole: Undisturbed, draws: random.Random) -> str:
    "What goes wrong in a run that is killed once or more."
    here, wrong, kills, wanted = whole.here, [], 0, draws.randint(1, 3)
    here.clear()
    while kills < wanted:
        since, stored = len(here.server.calls), here.stored()
        process = here.start(whole.command)
        try: process.wait(draws.uniform(0, whole.seconds))
        except subprocess.TimeoutExpired:
            kills += 1
            wrong += [here.kill(process, draws.random() < .5), halves(here)]
        wrong.append(whole.in_vain(since, stored))
        if process.returncode == 0:  # done: the next one begins anew
            if kills: break
            here.clear()
        elif process.returncode != -signal.SIGKILL: return f'ended with {process.returncode}: {here.said()[-300:]}'
    since, stored = len(here.server.calls), here.stored()
    code = here.run(whole.command)
    if code != 0: return f'after {kills} kills it {"did not end" if code is None else f"ended with {code}"}: {here.said()[-300:]}'
    wrong += [whole.in_vain(since, stored), differences(here.left(), whole.left), halves(here)]
    return '; '.join(filter(None, wrong))


# ---- kinds ---------------------------------------------------------------------------------------------------------------------------

def localization(here: Place, draws: random.Random) -> list[str]:
    return ['reproduce', draws.choice(['final/fig4', 'final/table4']), '--model', here.model, '--judge', here.model, '--limit', '3',
            '--seed', str(draws.randrange(9)), '--out', str(here.out)]


def pipeline(here: Place, draws: random.Random) -> list[str]:
    corpus, lines = here.folder/'corpus', (SAMPLE/'documents_a.jsonl').read_text().splitlines()
    corpus.mkdir(exist_ok=True)
    rows = [json.loads(line) for line in draws.sample(lines, 8)]
    for n, row in enumerate(rows): (corpus/f'{n}.txt').write_text(row['text'])
    files = [here.folder/f'text{n}.txt' for n in range(4)]
    for file, row in zip(files, rows, strict=False): file.write_text(row['summary'])
    verifier = draws.choice(['mpnet', f'prompt:{here.model}'])
    return ['verify', *[word for file in files for word in ('--file', str(file))], '--corpus', str(corpus), '--k', '4', '--json',
            '--extractor', f'prompt:{here.model}', '--verifier', verifier, '--out', str(here.out/'verdicts.json')]


def grounding(here: Place, draws: random.Random) -> list[str]:
    judges = draws.choice([[here.model], ['embedded', here.model]])
    return ['reproduce', 'facts/leaderboard', '-p', f'responders={json.dumps([here.model])}', '-p', f'judges={json.dumps(judges)}',
            '--limit', str(draws.randint(4, 8)), '--seed', str(draws.randrange(9)), '--out', str(here.out)]


def build(here: Place, draws: random.Random) -> list[str]:
    paired = draws.choice([[], ['--paired']])
    return ['build', 'fhsum', '--knowledge', here.model, '--seed', str(draws.randrange(9)), *paired, '--out', str(here.out/'set.jsonl')]


def training(here: Place, draws: random.Random) -> list[str]:
    from factlab.building.training_views import training_data
    from factlab.training.named_bases import small_base
    own = training_data('sample').rows
    if not (base := here.folder/'base').exists(): small_base(base, 'bert', [*own['passage'], *own['claims'].explode()], seed=1)
    return ['train', 'retriever', '--base', str(base), '--data', 'sample', '--steps', '40', '--batch', '4',
            '--seed', str(draws.randrange(9)), *draws.choice([[], ['--full']]), '--out', str(here.out/'retriever')]


def trials(command: Callable[[Place, random.Random], list[str]], draws: random.Random) -> Trials:
    "Runs of a kind, of two commands that are drawn."
    with place() as here:
        wholes: list[Undisturbed] = []
        for number in range(RUNS):
            if number % (RUNS//2) == 0: wholes.append(Undisturbed(command(here, draws), here))
            yield killed(wholes[-1], draws)


KINDS: Kinds = {kind.__name__: partial(trials, kind) for kind in (localization, pipeline, grounding, build, training)}
