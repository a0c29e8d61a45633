"""An OpenAI-compatible server that does what a script tells it: a real one, on a free port of this machine, with one thread a connection.

    with MisbehavingServer(lambda call: status(503) if call.attempt == 0 else answer('hello')) as server:
        model = load_model(f'openai:any?base_url={server.url}')

A script takes a `Call` and gives an action; an action is a function that writes to the connection. `server.calls` holds what was asked,
`server.most_at_once` how many calls that were `slow` to be answered waited at the same time."""
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Call:
    "One call that reached the server."
    body: dict
    headers: dict  # names in lower case
    prompt: str    # the last user message
    attempt: int   # how often this prompt has been asked before
    number: int    # how many calls came before
    at: float      # time.monotonic()


def tokens_of(messages: list[dict]) -> list[str]:
    "A toy chat template with words for tokens. An assistant message at the end is left open; else the assistant's turn is opened."
    tokens = ['<start>']
    for message in messages: tokens += [f'<{message["role"]}>', *message['content'].split()]
    return tokens if messages[-1]['role'] == 'assistant' else [*tokens, '<assistant>']


def send(handler, body: bytes|str|dict, code: int = 200, kind: str = 'application/json', **headers) -> None:
    if isinstance(body, dict): body = json.dumps(body)
    if isinstance(body, str): body = body.encode()
    handler.send_response(code)
    handler.send_header('Content-Type', kind)
    handler.send_header('Content-Length', str(len(body)))
    for name, value in headers.items(): handler.send_header(name.replace('_', '-'), value)
    handler.end_headers()
    handler.wfile.write(body)


def completion(call: Call, text: str|None, finish_reason: str = 'stop', top: dict[str, float]|None = None, **more) -> dict:
    "The body of an answer, with usage, and with log-probabilities where they were asked for."
    choice = {'index': 0, 'message': {'role': 'assistant', 'content': text}, 'finish_reason': finish_reason}
    words = (text or '').split()
    if call.body.get('logprobs') and words:
        alternatives = [{'token': token, 'logprob': logprob} for token, logprob in (top or {words[0]: -0.1, 'other': -3.0}).items()]
        choice['logprobs'] = {'content': [{'token': word, 'logprob': -0.1, 'top_logprobs': alternatives} for word in words]}
    usage = {'prompt_tokens': len(tokens_of(call.body['messages'])), 'completion_tokens': len(words)}
    return {'id': 'x', 'object': 'chat.completion', 'model': call.body.get('model'), 'choices': [choice], 'usage': usage} | more


# ---- actions -----------------------------------------------------------------------------------------------------------------------

def answer(text: str|None = None, finish_reason: str = 'stop', top: dict[str, float]|None = None, **more) -> Callable:
    "A good answer; the prompt in capitals when no text is given."
    return lambda handler, call: send(handler, completion(call, call.prompt.upper() if text is None else text, finish_reason, top, **more))

def status(http: int, message: str = 'no', retry_after: float|str|None = None, headers: dict[str, str]|None = None, **detail) -> Callable:
    "An error as OpenAI's API words it."
    headers = (headers or {}) | ({} if retry_after is None else {'Retry_After': str(retry_after)})
    return lambda handler, call: send(handler, {'error': {'message': message, **detail}}, http, **headers)

def retry_at(code: int, seconds: float) -> Callable:
    "An error with Retry-After as an HTTP date."
    return lambda handler, call: status(code, retry_after=formatdate(time.time() + seconds, usegmt=True))(handler, call)

def html(code: int = 200) -> Callable:
    "A proxy's web page."
    return lambda handler, call: send(handler, '<html><body><h1>Welcome</h1></body></html>', code, 'text/html')

def raw(body: str) -> Callable:
    "Whatever is given, as a 200."
    return lambda handler, call: send(handler, body)

def half_json() -> Callable:
    "A body whose second half is missing, though the length is right."
    return lambda handler, call: send(handler, json.dumps(completion(call, 'never read'))[:40])

def redirect(target: str, http: int = 307) -> Callable:
    "Sends the client elsewhere."
    return lambda handler, call: send(handler, '', http, Location=target)

def wrong_length() -> Callable:
    "A body that is shorter than its length says."
    return drop(after=60)

def no_choices() -> Callable: return raw('{"choices": []}')

def null_content() -> Callable:
    "An answer without content."
    def act(handler, call): send(handler, completion(call, None))
    return act

def drop(after: int = 0) -> Callable:
    "Close the connection without an answer, or within its body when `after` bytes of it have been sent."
    def act(handler, call):
        if after:
            body = json.dumps(completion(call, 'never read')).encode()
            handler.send_response(200)
            handler.send_header('Content-Length', str(len(body)))
            handler.end_headers()
            handler.wfile.write(body[:after])
            handler.wfile.flush()
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
    return act

def slow(seconds: float, then: Callable|None = None) -> Callable:
    "Wait, then act. Ends early when the server is closed."
    def act(handler, call):
        with handler.server.owner.waiting(): handler.server.owner.closing.wait(seconds)
        (then or answer())(handler, call)
    return act

def never() -> Callable: return slow(3600)

def drip(body: str|dict, seconds: float, pieces: int = 5, kept: int|None = None) -> Callable:
    "A body in pieces, over so many seconds; only the first `kept` of them, and then the connection is closed."
    def act(handler, call):
        content = (json.dumps(body) if isinstance(body, dict) else body).encode()
        handler.send_response(200)
        handler.send_header('Content-Type', 'application/json')
        handler.send_header('Content-Length', str(len(content)))
        handler.end_headers()
        size = -(-len(content)//pieces)
        for at in range(0, len(content) if kept is None else kept*size, size):
            handler.wfile.write(content[at:at + size])
            handler.wfile.flush()
            handler.server.owner.closing.wait(seconds/pieces)
        if kept is not None: drop()(handler, call)
    return act

def beyond(body: dict, more: bytes|str|dict) -> Callable:
    "A body, and more than its length says: another answer where `more` is an object."
    def act(handler, call):
        send(handler, body)
        if isinstance(more, dict): send(handler, more)
        else: handler.wfile.write(more.encode() if isinstance(more, str) else more)
    return act

def in_turn(*actions: Callable) -> Callable[[Call], Callable]:
    "A script: each prompt meets these actions in turn, and then good answers."
    return lambda call: actions[call.attempt] if call.attempt < len(actions) else answer()


# ---- batches -----------------------------------------------------------------------------------------------------------------------

def good_line(request: dict) -> dict:
    "The line of an output file that answers a line of an input file: the prompt in capitals."
    body = request['body']
    call = Call(body, {}, body['messages'][-1]['content'], 0, 0, 0.0)
    return {'id': 'x', 'custom_id': request['custom_id'], 'response': {'status_code': 200, 'body': completion(call, call.prompt.upper())},
            'error': None}

def bad_line(request: dict, http: int, message: str, **detail) -> dict:
    "The line of an error file that refuses a line of an input file."
    body = {'error': {'message': message, **detail}}
    return {'id': 'x', 'custom_id': request['custom_id'], 'response': {'status_code': http, 'body': body}, 'error': None}

def late_line(request: dict) -> dict:
    "The line of an error file for a request that a batch had no time for."
    return {'id': 'x', 'custom_id': request['custom_id'], 'response': None,
            'error': {'code': 'batch_expired', 'message': 'This request could not be executed before the completion window expired.'}}

def as_lines(lines: list[dict|str]) -> bytes:
    "The text of a file; what is no object stands as it is."
    return ''.join((line if isinstance(line, str) else json.dumps(line)) + '\n' for line in lines).encode()


class Batches:
    "Files and batches of a server. Tests set what goes wrong."

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.made: list[dict] = []          # batches, in order
        self.inputs: list[list[dict]] = []  # their requests
        self.looks = 2                      # before a batch ends
        self.status = 'completed'           # as which it ends
        self.work: Callable = lambda requests, number: ([good_line(request) for request in requests], [])  # output and error lines
        self.faults: dict[str, list[Callable]] = {}  # actions by step: upload, create (before it is made), created (after), look, read

    def fault(self, step: str) -> Callable|None: return self.faults[step].pop(0) if self.faults.get(step) else None

    def upload(self, content: bytes) -> dict:
        boundary = content.partition(b'\r\n')[0]
        part = next(part for part in content.split(boundary) if b'filename=' in part.partition(b'\r\n\r\n')[0])
        data = part.partition(b'\r\n\r\n')[2].removesuffix(b'\r\n')
        name = f'file-{len(self.files)}'
        self.files[name] = data
        return {'id': name, 'object': 'file', 'bytes': len(data), 'created_at': int(time.time()), 'filename': 'x', 'purpose': 'batch'}

    def create(self, body: dict) -> dict:
        requests = [json.loads(line) for line in self.files[body['input_file_id']].splitlines()]
        self.inputs.append(requests)
        self.made.append({'id': f'batch-{len(self.made)}', 'object': 'batch', 'status': 'in_progress', 'created_at': int(time.time()),
                          'endpoint': body['endpoint'], 'completion_window': '24h', 'input_file_id': body['input_file_id'],
                          'metadata': body.get('metadata'), 'looks': 0,
                          'request_counts': {'total': len(requests), 'completed': 0, 'failed': 0}})
        return self.made[-1]

    def look(self, name: str) -> dict|None:
        batch = next((batch for batch in self.made if batch['id'] == name), None)
        if batch is None: return None
        batch['looks'] += 1
        if batch['looks'] > self.looks and batch['status'] == 'in_progress':
            number = self.made.index(batch)
            output, errors = self.work(self.inputs[number], number)
            batch['status'] = self.status
            for field, lines in (('output_file_id', output), ('error_file_id', errors)):
                if lines: self.files[f'{field}-{number}'] = as_lines(lines); batch[field] = f'{field}-{number}'
        return batch

    def handle(self, handler, method: str, content: bytes) -> None:
        path = handler.path.partition('?')[0].removeprefix('/v1/').split('/')
        step = {'POST files': 'upload', 'POST batches': 'create', 'GET batches': 'look', 'GET files': 'read'}.get(f'{method} {path[0]}', '')
        if fault := self.fault(step): return fault(handler, None)
        found: dict|None = None
        if step == 'upload': found = self.upload(content)
        elif step == 'create':
            found = self.create(json.loads(content))
            if fault := self.fault('created'): return fault(handler, None)
        elif step == 'look' and len(path) == 1: found = {'object': 'list', 'data': self.made[::-1], 'has_more': False}
        elif step == 'look': found = self.look(path[1])
        elif step == 'read' and path[1] in self.files: return send(handler, self.files[path[1]], kind='application/octet-stream')
        elif method == 'DELETE' and self.files.pop(path[1], None) is not None:
            found = {'id': path[1], 'object': 'file', 'deleted': True}
        if found is None: return status(404, 'not there')(handler, None)
        send(handler, found)
        return None


# ---- the server --------------------------------------------------------------------------------------------------------------------

class _Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True  # head and body are written apart: the body would wait 40 ms for the head's receipt
    def log_message(self, *_): pass

    def on_batches(self, method: str, content: bytes = b'') -> bool:
        "Whether this was a call about files or batches; it is answered then."
        if self.path.partition('?')[0].split('/')[2] not in ('files', 'batches'): return False
        owner = self.server.owner
        with owner.batching:
            try: owner.batches.handle(self, method, content)
            except (BrokenPipeError, ConnectionResetError): self.close_connection = True
        return True

    def do_DELETE(self): self.on_batches('DELETE')

    def do_GET(self):
        if self.on_batches('GET'): return
        self.server.owner.gets.append({name.lower(): value for name, value in self.headers.items()})
        entries = [{'id': model, 'object': 'model'} if isinstance(model, str) else model for model in self.server.owner.models]
        send(self, {'object': 'list', 'data': entries})

    def do_POST(self):
        owner = self.server.owner
        content = self.rfile.read(int(self.headers['Content-Length'] or 0))
        if self.on_batches('POST', content): return
        body = json.loads(content)
        call = owner.note(body, {name.lower(): value for name, value in self.headers.items()})
        try: owner.script(call)(self, call)
        except (BrokenPipeError, ConnectionResetError): self.close_connection = True


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    def handle_error(self, request, client_address): pass


class MisbehavingServer:
    "The server, from entering the `with` block to leaving it."

    def __init__(self, script: Callable[[Call], Callable] = lambda call: answer(), models: tuple[str|dict, ...] = ('any',)):
        self.script, self.models = script, models
        self.calls: list[Call] = []
        self.gets: list[dict] = []  # headers of what asked for the list of models
        self.now, self.most_at_once = 0, 0
        self.batches, self.batching = Batches(), threading.RLock()
        self.closing, self._lock, self._asked = threading.Event(), threading.Lock(), Counter()
        self._server = _Server(('127.0.0.1', 0), _Handler)
        self._server.owner = self

    @property
    def port(self) -> int: return self._server.server_port
    @property
    def url(self) -> str: return f'http://127.0.0.1:{self.port}/v1'

    def note(self, body: dict, headers: dict) -> Call:
        prompt = next((message['content'] for message in reversed(body['messages']) if message['role'] == 'user'), '')
        with self._lock:
            call = Call(body, headers, prompt, self._asked[prompt], len(self.calls), time.monotonic())
            self._asked[prompt] += 1
            self.calls.append(call)
        return call

    @contextmanager
    def waiting(self):
        """One more call that waits to be answered. Its end is counted before its answer is sent: a client that has an answer may ask again
        before a count that came after it."""
        with self._lock:
            self.now += 1
            self.most_at_once = max(self.most_at_once, self.now)
        yield
        with self._lock: self.now -= 1

    def asked(self, prompt: str) -> int:
        "How often a prompt was asked."
        return self._asked[prompt]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def free_port() -> int:
    "A port on which nothing listens just now."
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def wait_until(condition, seconds: float = 60, what: str = 'it to happen') -> None:
    "Wait for a condition that another process or thread brings about."
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f'waited in vain for {what}'
        time.sleep(0.02)
