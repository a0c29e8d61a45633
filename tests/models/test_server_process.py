"""Servers that factlab starts: none outlives who started it, however that ends; what went wrong at the start is shown."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_vllm import gone, make_environment, pids

from factlab.core.core import ModelError
from factlab.models.server_process import ServerProcess, find_vllm, is_healthy, log_tail, wait_until_healthy

linux = pytest.mark.skipif(not sys.platform.startswith('linux'), reason='reads /proc')


def server_of(folder: Path, **orders) -> ServerProcess:
    make_environment(folder, **orders)
    return ServerProcess(lambda port: [folder/'python', '-m', 'vllm.entrypoints.openai.api_server', '--port', port], 'a server')

pytestmark = pytest.mark.usefixtures('home')


PARENT = '''
import os, sys, time
from pathlib import Path
from factlab.models.server_process import ServerProcess, wait_until_healthy
folder = Path(sys.argv[1])
server = ServerProcess(lambda port: [folder/'python', '-m', 'vllm.entrypoints.openai.api_server', '--port', port], 'a server')
server.start()
wait_until_healthy(server, 30)
print('ready', flush=True)
if sys.argv[2] != 'end': time.sleep(300)
'''

@linux
@pytest.mark.parametrize('how', ['end', 'SIGTERM', 'SIGKILL', 'SIGINT'])
def test_no_server_outlives_its_parent(tmp_path, how):
    make_environment(tmp_path/'env')
    parent = subprocess.Popen([sys.executable, '-c', PARENT, str(tmp_path/'env'), how], stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == 'ready\n'
    started = pids(tmp_path/'env')
    assert len(started) == 2
    if how != 'end': parent.send_signal(getattr(signal, how))
    parent.wait(60)
    assert gone(started)

@linux
def test_a_killed_guard_takes_its_server_with_it(tmp_path):
    server = server_of(tmp_path/'env')
    server.start()
    wait_until_healthy(server, 30)
    os.kill(server._guard.pid, signal.SIGKILL)
    started = pids(tmp_path/'env')
    assert gone(started[:1]) and not server.alive
    os.kill(started[1], signal.SIGKILL)  # vLLM's engines look for themselves whether their server is there
    server.stop()

@linux
def test_one_that_ignores_the_polite_signal_is_killed(tmp_path):
    server = server_of(tmp_path/'env', stubborn=True)
    server.grace = 0.5
    server.start()
    wait_until_healthy(server, 30)
    server.stop()
    assert gone(pids(tmp_path/'env')) and not is_healthy(server) and server.code is None

@linux
def test_a_server_that_dies_takes_its_engine_with_it(tmp_path):
    server = server_of(tmp_path/'env')
    server.start()
    wait_until_healthy(server, 30)
    started = pids(tmp_path/'env')
    os.kill(started[0], signal.SIGKILL)
    assert gone(started)
    server._guard.wait(10)
    assert server.code == 137 and not server.alive
    server.start()  # and it can be started again
    wait_until_healthy(server, 30)
    assert server.starts == 2
    server.stop()

def test_one_that_does_not_start_shows_the_end_of_its_log(tmp_path):
    server = server_of(tmp_path/'env', broken=True)
    server.start()
    with pytest.raises(ModelError, match='ended with code 1 before it was ready.*\n(.*\n)*.*not enough memory for the cache') as caught:
        wait_until_healthy(server, 30)
    assert server.key not in str(caught.value) and '***' in str(caught.value)
    assert 'start 1' not in log_tail(server) and server.key not in log_tail(server)

def test_one_that_is_slow_is_waited_for_and_one_that_is_too_slow_is_ended(tmp_path):
    server = server_of(tmp_path/'env', slow=1.5)
    server.start()
    looks = []
    wait_until_healthy(server, 30, lambda: looks.append(1))
    assert looks and time.monotonic() - server.started >= 1.4
    server.stop()
    server.start()
    with pytest.raises(ModelError, match='not ready after 0.5 s: raise startup='): wait_until_healthy(server, 0.5)
    assert not server.alive

def test_vllm_is_found_where_it_is_said_to_be(tmp_path, monkeypatch):
    python = make_environment(tmp_path/'env')
    monkeypatch.setenv('FACTLAB_VLLM', str(python))
    found = find_vllm()
    assert found.python == str(python) and not found.serves
    assert found.command('m', ['--x'])[1:] == ['-m', 'vllm.entrypoints.openai.api_server', '--model', 'm', '--x']
    assert found._replace(serves=True).command('m', [])[1:] == ['-m', 'vllm.entrypoints.cli.main', 'serve', 'm']
    (tmp_path/'env'/'bin').mkdir()
    (tmp_path/'env'/'bin'/'python').symlink_to(python)
    monkeypatch.setenv('FACTLAB_VLLM', str(tmp_path/'env'))
    assert find_vllm().python == str(tmp_path/'env'/'bin'/'python')
    monkeypatch.setenv('FACTLAB_VLLM', str(tmp_path/'not there'))
    with pytest.raises(ModelError, match='does not run.*set FACTLAB_VLLM'): find_vllm()

def test_old_logs_are_removed(tmp_path):
    server = server_of(tmp_path/'env', broken=True)
    folder = server.log.parent
    folder.mkdir(parents=True)
    for number in range(60): (folder/f'{number}.log').write_text(json.dumps(number))
    server.start()
    server.stop()
    assert len(list(folder.glob('*.log'))) == 41
