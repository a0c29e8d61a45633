"""`factlab lab` is ended by signals, with its JupyterLab and all kernels: real processes."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

FACTLAB = Path(sys.executable).parent/'factlab'


def ask(address: str, token: str, path: str, method: str = 'GET') -> object:
    request = urllib.request.Request(f'{address}/api/{path}', b'{}' if method == 'POST' else None, method=method,
                                     headers={'Authorization': f'token {token}', 'Content-Type': 'application/json'})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer: return json.load(answer)


def lines_until(stream, word: str) -> str:
    "What a process has said when a line with this word has come."
    said = ''
    while word not in said:
        line = stream.readline()
        assert line, said
        said += line
    return said


def heard() -> None:
    "Signals that whoever runs the tests ignores, as nohup does, are not ignored."
    for number in (signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def lab(tmp_path):
    "A running `factlab lab`, in a session of its own."
    log = (tmp_path/'errors').open('w')
    process = subprocess.Popen([FACTLAB, 'lab', '--no-browser'], stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                               preexec_fn=heard, env=os.environ | {'FACTLAB_HOME': str(tmp_path/'home')})
    yield process
    for each in [process, *psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []: each.kill()
    process.stdout.close()
    log.close()


def gone(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    "Those that are still there after so many seconds."
    return psutil.wait_procs(processes, seconds)[1]


@pytest.mark.timeout(180)
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_lab_and_its_kernels(lab, number, tmp_path):
    address, token = re.search(r'(http://\S+?)/lab/tree/\S*token=(\w+)', lines_until(lab.stdout, 'is ready')).groups()
    ask(address, token, 'kernels', 'POST')  # beside that of the notebook
    while len(ask(address, token, 'kernels')) < 2: time.sleep(.1)
    started = psutil.Process(lab.pid).children(recursive=True)
    assert sum('ipykernel' in ' '.join(each.cmdline()) for each in started) == 2
    lab.send_signal(number)
    assert lab.wait(20) == 0, (tmp_path/'errors').read_text()
    assert gone(started, 2) == [] and 'Traceback' not in (tmp_path/'errors').read_text()


@pytest.mark.timeout(120)
def test_a_signal_while_it_starts(lab):
    lines_until(lab.stdout, 'starting')
    while not (started := psutil.Process(lab.pid).children(recursive=True)): pass  # so soon that it is still being started
    lab.send_signal(signal.SIGTERM)
    assert lab.wait(20) == 130 and gone(started, 2) == []


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_waits_while_a_program_is_being_started(number):
    from factlab.cli.lab import _interrupted_by_all, _interrupts_wait
    before, process = signal.signal(number, signal.default_int_handler), None  # whoever runs the tests may ignore it
    try:
        with pytest.raises(KeyboardInterrupt), _interrupted_by_all(), _interrupts_wait():
            signal.raise_signal(number)
            process = 'started'
        assert process == 'started' and signal.getsignal(number) is signal.default_int_handler
    finally: signal.signal(number, before)


def test_what_does_not_end_is_killed():
    from factlab.cli.lab import _end
    stubborn = 'import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN); '
    child = f'subprocess.Popen([sys.executable, "-c", {stubborn + "time.sleep(60)"!r}], start_new_session=True); '
    process = subprocess.Popen([sys.executable, '-c', stubborn + child + 'print(1, flush=True); time.sleep(60)'], stdout=subprocess.PIPE)
    process.stdout.readline()
    started = psutil.Process(process.pid).children(recursive=True)
    _end(process, .5)
    assert process.poll() is not None and len(started) == 1 and gone(started, 2) == []
    process.stdout.close()


@pytest.mark.timeout(120)
def test_judge_opens_the_annotator_at_a_terminal(tmp_path):
    (tmp_path/'verdicts.csv').write_text('id,predicted\n' + ''.join(f'r{at},{"yes" if at % 3 else "no"}\n' for at in range(30)))
    (tmp_path/'labels.csv').write_text('id,gold\n' + ''.join(f'r{at},{"yes" if at % 2 else "no"}\n' for at in range(12)))
    command = [FACTLAB, 'judge', 'verdicts.csv', '--labels', 'labels.csv', '--drawn', 'random', '--queue', 'next.jsonl']
    environment = os.environ | {'FACTLAB_HOME': str(tmp_path/'home'), 'BROWSER': 'true'}
    piped = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert piped.returncode == 0 and 'label them: factlab lab next.jsonl' in piped.stdout and 'JupyterLab' not in piped.stdout
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.STDOUT,
                               start_new_session=True, preexec_fn=heard)
    os.close(theirs)
    try:
        with os.fdopen(ours, errors='replace') as terminal:
            address, token = re.search(r'(http://\S+?)/lab/tree/\S*token=(\w+)', said := lines_until(terminal, 'is ready')).groups()
            assert said.index('with people') < said.index('starting JupyterLab')
            notebook, = (each for each in ask(address, token, 'contents')['content'] if each['name'].startswith('next-'))
            cells = ask(address, token, f'contents/{notebook["path"]}')['content']['cells']
            assert 'annotate_queue' in cells[-1]['source'] and cells[-1]['outputs'][-1]['data']['application/vnd.jupyter.widget-view+json']
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
    finally:
        for each in [process, *psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []: each.kill()
