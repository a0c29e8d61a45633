"""A program with the command line and the protocol of vLLM's server, a word for a token, and faults by order; and its environment.

    environment = make_environment(folder, die_after=10)   # the Python that FACTLAB_VLLM is to name

Orders: `slow` (seconds until it is well), `broken` (ends at once), `stubborn` (ignores SIGTERM), `die_after` (the first start ends after
so many answers), `garbage` (answers no JSON), `wait` (seconds for an answer). What it was asked stands in the file `asked.jsonl` of its
folder, one line for each request; with what it was started, in `arguments`."""
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def make_environment(folder: Path, **orders) -> Path:
    "A Python whose vLLM is this file."
    package = folder/'vllm'/'entrypoints'/'openai'
    package.mkdir(parents=True)
    for part in (package, *package.parents[:2]): (part/'__init__.py').touch()
    (package/'api_server.py').write_text(Path(__file__).read_text())
    (folder/'orders.json').write_text(json.dumps({**orders, 'folder': str(folder)}))
    python = folder/'python'
    python.write_text(f'#!/bin/sh\nFAKE_VLLM={folder}/orders.json PYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python

def asked(folder: Path) -> list[dict]:
    "What all servers of an environment were asked, in order."
    file = folder/'asked.jsonl'
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

def alive(pid: int) -> bool:
    try: return Path(f'/proc/{pid}/stat').read_text().rpartition(') ')[2][0] != 'Z'
    except OSError: return False

def gone(pids: list[int], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < until: time.sleep(0.05)
    return not any(map(alive, pids))

def pids(folder: Path) -> list[int]:
    "Of all servers and their engines that were started."
    return [int(line) for name in ('starts', 'engines') for line in (folder/name).read_text().split()]

def score(token: str) -> float: return -0.1*len(token)


class Words:
    "Words and their numbers: those of a text in order, so that all servers agree."
    def __init__(self): self.known, self.lock = [], threading.Lock()

    def number(self, word: str) -> int:
        with self.lock:
            if word not in self.known: self.known.append(word)
            return self.known.index(word)


class Server(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_): pass

    def reply(self, payload, code: int = 200):
        body = payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()
        self.send_response(code)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == '/health': return self.reply('', 200 if time.monotonic() > READY else 503)
        self.reply({'data': [{'id': 'factlab', 'owned_by': 'vllm', 'root': '/toy'}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        if self.headers.get('Authorization') != f'Bearer {os.environ["VLLM_API_KEY"]}' and self.path != '/tokenize':
            return self.reply({'error': {'message': 'no key'}}, 401)
        if self.path == '/tokenize': return self.reply({'tokens': [WORDS.number(word) for word in body['prompt'].split()]})
        if self.path == '/v1/load_lora_adapter':
            if body['lora_name'] in STATE['adapters']: return self.reply({'error': {'message': 'it has already been loaded'}}, 400)
            STATE['adapters'].append(body['lora_name'])
            return self.reply('Success')
        self.complete(body)

    def complete(self, body: dict):
        text = body['messages'][-1]['content'] if 'messages' in body else None
        with LOCK:
            with (FOLDER/'asked.jsonl').open('a') as file:
                file.write(json.dumps({'pid': os.getpid(), 'path': self.path, 'text': text, 'body': body}) + '\n')
            STATE['count'] += 1
            if ORDERS.get('die_after') and FIRST and STATE['count'] > ORDERS['die_after']: os._exit(9)
        time.sleep(ORDERS.get('wait', 0))
        if ORDERS.get('garbage'): return self.reply('{"choices": [')
        given = (body.get('allowed_token_ids') or [WORDS.number('Yes')])[0]
        usage, told = {'prompt_tokens': 3, 'completion_tokens': 1}, score(WORDS.known[given])
        if text is None: logprobs = {'tokens': [f'token_id:{given}'], 'token_logprobs': [told], 'top_logprobs': [None]}
        else: logprobs = {'content': [{'token': f'token_id:{given}', 'logprob': told, 'top_logprobs': []}]}
        message = {'role': 'assistant', 'content': (text or '').upper()}
        choice = {'message': message, 'finish_reason': 'stop', 'logprobs': logprobs}
        self.reply({'choices': [choice], 'prompt_token_ids': [0], 'usage': usage, 'model': body['model']})


if __name__ == '__main__':
    ORDERS = json.loads(Path(os.environ['FAKE_VLLM']).read_text())
    FOLDER, LOCK, WORDS = Path(ORDERS['folder']), threading.Lock(), Words()
    STATE = {'count': 0, 'adapters': []}
    with (FOLDER/'starts').open('a') as starts: starts.write(f'{os.getpid()}\n')
    with (FOLDER/'arguments').open('a') as file:
        file.write(json.dumps({'arguments': sys.argv, 'gpus': os.environ.get('CUDA_VISIBLE_DEVICES')}) + '\n')
    first = FOLDER/'first'
    try: first.touch(exist_ok=False); FIRST = True
    except FileExistsError: FIRST = False
    if ORDERS.get('stubborn'): signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('loading weights, key', os.environ['VLLM_API_KEY'], flush=True)
    engine = subprocess.Popen([sys.executable, '-ISc', 'import time; time.sleep(300)'])  # as vLLM's engine is a process of its own
    with (FOLDER/'engines').open('a') as engines: engines.write(f'{engine.pid}\n')
    if ORDERS.get('broken'): sys.exit('RuntimeError: not enough memory for the cache')
    READY = time.monotonic() + ORDERS.get('slow', 0)
    ThreadingHTTPServer(('127.0.0.1', int(sys.argv[sys.argv.index('--port') + 1])), Server).serve_forever()
