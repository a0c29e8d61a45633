"""One store under many processes, damage, clocks that are wrong and disks that are full: right answers, or none and a word on what to do.

What several processes are promised: a question that one of them is asking is waited for, so each is asked once."""
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from email.utils import formatdate
from pathlib import Path

import numpy as np
import psutil
from kills import Place, Undisturbed, build, differences, grounding, halves, pipeline, place, said
from misbehaving_server import Call, status
from trials import Kinds, Trials

from factlab.core.core import StoreError, digest
from factlab.core.papers import paper_folders
from factlab.models.interface import Request, ScriptedModel, ask
from factlab.reports.exhibits import find_exhibits
from factlab.reports.reproduce import plan_of
from factlab.runs.plan import Plan, execute
from factlab.store.answers import Store

FRESH = multiprocessing.get_context('forkserver')  # of a process that has no threads
FRESH.set_forkserver_preload(['stores', 'torch', 'openai', *(f'factlab.studies.{name}.study' for name in paper_folders())])
os.environ['PYTHONPATH'] = os.pathsep.join(sys.path)  # where that process looks for these
PATIENCE = 120  # seconds

# ---- many processes on one store -----------------------------------------------------------------------------------------------------

PROCESSES, TURNS = 8, 30
EXHIBITS = ('final/fig4', 'final/table8', 'facts/leaderboard', 'fhsum/table1', 'oasis/table5')


def plans_of(model: str, drawn: Sequence[tuple[str, int]]) -> list[Plan]:
    "Plans of exhibits that ask this model alone, on so many rows: those on fewer rows ask a part of what those on more do."
    asked = {'models': [model], 'responders': [model], 'judges': [model], 'judge': model}
    names = {'final': ('models', 'judge'), 'facts': ('responders', 'judges')}
    given = [{name: asked[name] for name in names.get(id.partition('/')[0], ('models',))} | {'limit': limit} for id, limit in drawn]
    return [plan for (id, _), each in zip(drawn, given, strict=True) if (plan := plan_of(find_exhibits([id])[0], each))]


def carried_out(home: str, model: str, drawn: Sequence[tuple[str, int]], start, results) -> None:
    "In a process of its own: the digests of all frames, or what was raised."
    os.environ['FACTLAB_HOME'] = home
    try:
        plans = plans_of(model, drawn)
        if start: start.wait()
        done = execute(*plans)
        results.put({step.id: digest(run.predictions.write_json()) for step, run in done.runs.items()})
    except BaseException as error: results.put(f'{type(error).__name__}: {error}')  # noqa: BLE001  told by the parent


def at_once(home: Path, model: str, drawn: Sequence[Sequence[tuple[str, int]]]) -> list[dict|str]:
    "What processes give that begin at the same moment, one for each list of plans."
    start, results = FRESH.Barrier(len(drawn)), FRESH.Queue()
    processes = [FRESH.Process(target=carried_out, args=(str(home), model, each, start, results)) for each in drawn]
    for process in processes: process.start()
    try: return [results.get(timeout=PATIENCE) for _ in processes]
    except Exception as error: return [f'not all came to an end ({type(error).__name__})']  # noqa: BLE001  of a queue that stays empty
    finally:
        for process in processes: process.join(10); process.kill()


def processes(draws: random.Random) -> Trials:
    "Eight processes with plans that overlap."
    with place() as here:
        for _ in range(TURNS):
            drawn = [[(id, draws.randint(2, 6)) for id in draws.sample(EXHIBITS, draws.randint(1, 3))] for _ in range(PROCESSES)]
            counts, found = [], []
            for each in ([[pair for part in drawn for pair in part]], drawn):
                here.clear()
                before = len(here.server.calls)
                found.append(at_once(here.home, here.model, each))
                counts.append(Counter(call.prompt for call in here.server.calls[before:]))
                left = here.left()
            yield '; '.join(filter(None, [together(found[0][0], found[1]), asked_more(counts[1], counts[0]), faults(left)]))


def together(alone: dict|str, shared: list[dict|str]) -> str:
    if isinstance(alone, str): return f'alone: {alone}'
    if failed := [each for each in shared if isinstance(each, str)]: return f'{len(failed)} of {PROCESSES} failed: {failed[0]}'
    others = {id for each in shared for id, frame in each.items() if alone[id] != frame}
    return f'other frames than one process makes: {sorted(others)[:3]}' if others else ''


def asked_more(calls: Counter, needed: Counter) -> str:
    found = {'questions asked twice': calls - needed, 'questions never asked': needed - calls}
    return '; '.join(f'{count.total()} {what}' for what, count in found.items() if count)


def faults(left: dict[str, object]) -> str: return f'the store is damaged: {left["faults"]}' if 'faults' in left else ''


# ---- damaged bytes -------------------------------------------------------------------------------------------------------------------

DAMAGES, BATCH = 1000, 50
ADVICE = re.compile('store verify|a copy|move (it|the file) away|choose another path|set FACTLAB_HOME|change the permissions', re.I)
REQUESTS = [Request(messages=[{'role': 'user', 'content': f'question {n} ' + 'and so on '*(n % 40)}]) for n in range(150)]
VECTORS = {f'text {n}': np.random.default_rng(n).normal(size=48).astype('<f4') for n in range(60)}


def truth(request: Request) -> str:
    question = request.messages[-1].content
    return f'the answer to {digest(question)} ' + 'is long '*(len(question) % 50)


def model_of_truth() -> ScriptedModel: return ScriptedModel('truth', truth, '1')


def filled(path: str) -> None:
    "A store that was killed while it was open: half of it lies in its write-ahead log."
    with Store(path) as store:
        ask(REQUESTS[:100], model_of_truth(), store)
        store.put_vectors('encoder', dict(list(VECTORS.items())[:40]))
    store = Store(path)
    ask(REQUESTS[100:], model_of_truth(), store)
    store.put_vectors('encoder', dict(list(VECTORS.items())[40:]))
    os._exit(0)


def unlike_the_truth(path: Path) -> str:
    "Whether a store gives wrong answers; '' when it gives the right ones, or none with advice."
    with Store(path, patience=5) as store:
        try:
            answers = zip(ask(REQUESTS, model_of_truth(), store), REQUESTS, strict=True)
            wrong = [answer.text for answer, request in answers if answer.text != truth(request)]
            vectors = store.get_vectors(VECTORS)
            wrong += [key for key, vector in vectors.items() if not np.array_equal(vector, VECTORS[key])]
            return f'{len(wrong)} wrong answers, as {wrong[0]!r:.80}' if wrong else ''
        except StoreError as error: return '' if ADVICE.search(str(error)) else f'no advice: {error}'


def tried(folder: Path, damage: tuple[str, int, int]) -> str:
    "What is wrong about a store that has one other byte: read, verified, repaired, and asked again."
    name, offset, byte = damage
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for file in folder.glob('sound.sqlite*'): shutil.copy(file, place)
        with (Path(place)/name).open('r+b') as file:
            file.seek(offset)
            file.write(bytes([byte]))
        path = Path(place)/'sound.sqlite'
        try:
            wrong = [unlike_the_truth(path)]
            with Store(path, patience=5) as store:
                with suppress(StoreError): store.verify(repair=True)
            wrong.append(unlike_the_truth(path))
        except Exception as error: wrong = [f'{type(error).__name__}: {error}']  # noqa: BLE001  any but a `StoreError` is a fault
    return ''.join(f'{name}, byte {offset} as {byte}: {each}' for each in list(dict.fromkeys(filter(None, wrong)))[:1])


def tried_all(folder: Path, damages: Sequence[tuple[str, int, int]], results) -> None:
    for damage in damages: results.put(tried(folder, damage))


def damage(draws: random.Random) -> Trials:
    "One byte of the store's file, or of its write-ahead log, is another."
    with tempfile.TemporaryDirectory(prefix='factlab-campaign-') as name:
        folder = Path(name)
        process = FRESH.Process(target=filled, args=(str(folder/'sound.sqlite'),))
        process.start(); process.join()
        for other in ('shm', 'lock'): (folder/f'sound.sqlite-{other}').unlink(missing_ok=True)
        sound = {file.name: file.read_bytes() for file in sorted(folder.glob('sound.sqlite*')) if file.stat().st_size}
        drawn = []
        for _ in range(DAMAGES):
            file, = draws.choices([*sound], [len(content) for content in sound.values()])
            offset = draws.randrange(len(sound[file]))
            drawn.append((file, offset, (sound[file][offset] + draws.randrange(1, 256)) % 256))
        for start in range(0, DAMAGES, BATCH): yield from in_a_process(folder, drawn[start:start + BATCH])


def in_a_process(folder: Path, damages: Sequence[tuple[str, int, int]]) -> Trials:
    "The trials in a process of their own, which may crash or hang."
    results = FRESH.Queue()
    process = FRESH.Process(target=tried_all, args=(folder, damages, results))
    process.start()
    for each in damages:
        try: yield results.get(timeout=PATIENCE)
        except Exception:  # noqa: BLE001  of a queue that stays empty
            yield f'{each}: crashed or hung ({process.exitcode})'
            break
    process.join(10); process.kill()


# ---- clocks --------------------------------------------------------------------------------------------------------------------------

CLOCKS = 20
CLOCK = '''
"A clock that is wrong, and set back at a moment: that of the module `time`, and that by which factlab reads dates of servers."
import datetime, importlib.machinery, json, os, time
real, real_ns = time.time, time.time_ns
before, moment, after = json.loads(os.environ['CAMPAIGN_CLOCK'])
def shift(): return before if real() < moment else after
time.time, time.time_ns = lambda: real() + shift(), lambda: real_ns() + int(shift()*1e9)
class Shifted(datetime.datetime):
    __slots__ = ()
    @classmethod
    def now(cls, tz=None): return datetime.datetime.fromtimestamp(time.time(), tz)
load = importlib.machinery.SourceFileLoader.exec_module
def loaded(self, module):
    load(self, module)
    if module.__name__.startswith('factlab.') and getattr(module, 'datetime', None) is datetime.datetime: module.datetime = Shifted
importlib.machinery.SourceFileLoader.exec_module = loaded
'''
SET_BACK = (30, 3_700, 86_400, 10*365*86_400)  # seconds


def told_to_wait(draws: random.Random) -> tuple[Callable[[Call], Callable], Callable[[], int]]:
    "Some calls are told to come back: in a second, at a date, or some time. And how many were."
    seed, seen, told = draws.random(), set(), []
    def script(call: Call) -> Callable:
        chance, first = random.Random(f'{seed} {call.prompt}'), call.prompt not in seen
        seen.add(call.prompt)
        if not first or chance.random() > .08: return said(call)
        told.append(call)
        return status(429, retry_after=chance.choice([None, 1, formatdate(time.time() + 2, usegmt=True)]))
    return script, lambda: len(told)


def clock(draws: random.Random) -> Trials:
    "The clock is set back in the middle of a run; servers, files and other processes keep theirs."
    with place() as here:
        (here.folder/'clock').mkdir()
        (here.folder/'clock'/'sitecustomize.py').write_text(CLOCK)
        wholes = [Undisturbed(kind(here, draws), here) for kind in (grounding, build)]
        for _ in range(CLOCKS):
            whole, back = draws.choice(wholes), draws.choice(SET_BACK)
            before = draws.choice([0, back, back/2])
            here.clear()
            since, start = len(here.server.calls), time.monotonic()
            here.server.script, told = told_to_wait(draws)
            moment = time.time() + draws.uniform(0, whole.seconds)
            here.more = {'PYTHONPATH': str(here.folder/'clock'), 'CAMPAIGN_CLOCK': json.dumps([before, moment, before - back])}
            code, seconds = here.run(whole.command), time.monotonic() - start
            here.more, here.server.script = {}, said
            calls = len(here.server.calls) - since
            if code != 0: yield f'set back by {back} s, ended with {code}: {here.said()[-300:]}'; continue
            most = whole.asked.total() + told()
            yield '; '.join(filter(None, [f'{calls} calls, {most} needed' if calls > most else '',
                                          f'{seconds:.0f} s instead of {whole.seconds:.0f}' if seconds > 3*whole.seconds + 20 else '',
                                          differences(here.left(), whole.left), halves(here)]))


# ---- full disks ----------------------------------------------------------------------------------------------------------------------

FULL = 50
CAUSE = re.compile('space|full|too large|quota', re.I)
SIZE = 256  # MB


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    "A file system of its own in a folder, where one may be mounted."
    folder.mkdir(parents=True, exist_ok=True)
    mounted = sys.platform == 'linux' and shutil.which('mount') is not None and os.geteuid() == 0 and subprocess.run(
        ['mount', '-t', 'tmpfs', '-o', f'size={SIZE}m', 'tmpfs', str(folder)], capture_output=True, check=False).returncode == 0
    try: yield mounted
    finally:
        if mounted: subprocess.run(['umount', '-l', str(folder)], check=True)


def fill(disk: Path, left: int) -> None:
    "Take all of a disk's space but for some bytes."
    with suppress(OSError), (disk/'ballast').open('wb', buffering=0) as file:
        while file.write(b'x'*2**20) == 2**20: pass
    with suppress(OSError), (disk/'ballast').open('ab', buffering=0) as file:
        while file.write(b'x'*4096): pass
    with (disk/'ballast').open('ab') as file: file.truncate(max(0, (disk/'ballast').stat().st_size - left))


def limit_files(here: Place, size: int) -> None:
    "No process may write beyond so many bytes of a file."
    for process in here.processes():
        with suppress(psutil.Error): process.rlimit(psutil.RLIMIT_FSIZE, (size, size))


def full(whole: Undisturbed, draws: random.Random, mounted: bool) -> str:
    "What goes wrong in a run whose disk is full from some moment on; and after there is space again."
    here = whole.here
    here.clear()
    process = here.start(whole.command)
    with suppress(subprocess.TimeoutExpired): process.wait(draws.uniform(0, whole.seconds))
    size = draws.choice([0, draws.randrange(2**12, 2**18)])
    if mounted: fill(here.disk, size)
    else: limit_files(here, size)
    try:
        code = process.wait(whole.seconds*2 + 60)
        words, wrong = here.said(), [halves(here)]
    except subprocess.TimeoutExpired: return f'hangs {here.kill(process, whole=True)}'
    finally: (here.disk/'ballast').unlink(missing_ok=True)
    if code == 0: wrong.append(differences(here.left(), whole.left))
    elif 'Traceback' in words or not CAUSE.search(words): wrong.append(f'ended with {code} and did not name the cause: {words[-400:]}')
    if (code := here.run(whole.command)) != 0: return '; '.join(filter(None, [*wrong, f'with space again: {code}: {here.said()[-300:]}']))
    return '; '.join(filter(None, [*wrong, differences(here.left(), whole.left), halves(here)]))


def disk(draws: random.Random) -> Trials:
    "The disk is full, or no file may grow, from a moment on."
    with place() as here, small_disk(here.disk) as mounted:
        wholes = [Undisturbed(kind(here, draws), here) for kind in (grounding, build, pipeline)]
        for number in range(FULL): yield full(draws.choice(wholes), draws, mounted and number % 2 == 0)


KINDS: Kinds = {kind.__name__: kind for kind in (processes, damage, clock, disk)}
