"""An exhibit with the paper's parameters, as a server sees it.

`on_the_wire(entry, files,
             kinds)` runs the notebook of an entry of `factlab.reports.redo` with its models at a server that records what it is
asked, and gives the calls, each with the kind of its prompt, and the cells that came out."""
import builtins
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from misbehaving_server import Call, MisbehavingServer, answer

from factlab.models.prompts import EXAMPLE_ANSWERS, Prompt
from factlab.reports.exhibits import find_exhibits, notebook_of
from factlab.reports.redo import Redo, on_files
from factlab.reports.reproduce import estimate, fitted, parameters_of, plan_of

ASKED = re.compile(r'(prompt:)?(?:openai|vllm|serve|ray|hf):([^?]+)')


def at_server(value: object, url: str) -> object:
    "Parameters with their models at a server: of each name what the vendor knows it as."
    if isinstance(value, Mapping): return {name: at_server(each, url) for name, each in value.items()}
    if isinstance(value, list|tuple): return [at_server(each, url) for each in value]
    found = ASKED.match(value) if isinstance(value, str) else None
    return f'{found[1] or ""}openai:{found[2]}?base_url={url}' if found else value


class Kinds:
    "Which prompt a message is, by the templates of those that a plan may ask."

    def __init__(self, prompts: list[Prompt]):
        self.known = {prompt.name.rpartition('/')[2]: re.compile(self.form(prompt.system, prompt.fields) + '\0' + self.form(prompt.user,
                                                    prompt.fields),
                                                                 re.DOTALL) for prompt in prompts}

    @staticmethod
    def form(template: str, fields) -> str:
        parts = re.split('(' + '|'.join([r'\{\{', r'\}\}', *(r'\{' + field + r'\}' for field in fields)]) + ')', template)
        return ''.join('.*' if part[1:-1] in fields and part.startswith('{') else re.escape({'{{': '{', '}}': '}'}.get(part, part))
                       for part in parts)

    def of(self, call: Call) -> str:
        said = {message['role']: message['content'] for message in call.body['messages']}
        text = f'{said.get("system", "")}\0{said.get("user", "")}'
        found = [kind for kind, form in self.known.items() if form.fullmatch(text)]
        return min(found, key=lambda kind: -len(self.known[kind].pattern), default='?')


@dataclass(frozen=True)
class Seen:
    "A call that arrived."
    kind: str
    call: Call

    @property
    def model(self) -> str: return self.call.body['model']


@dataclass(frozen=True)
class Outcome:
    "What a run sent and what came of it."
    seen: list[Seen]
    cells: pl.DataFrame
    counted: int  # calls, by a dry run before

    def counts(self, model: str|None = None) -> dict[str, int]:
        return dict(Counter(each.kind for each in self.seen if model in (None, each.model)))

    def prompts(self, kind: str) -> set[str]: return {each.call.prompt for each in self.seen if each.kind == kind}

    def in_order(self, *kinds: str) -> bool:
        "Whether of each kind everything arrived before the first of the next."
        places = [[at for at, each in enumerate(self.seen) if each.kind == kind] for kind in kinds]
        return all(before[-1] < after[0] for before, after in zip(places, places[1:], strict=False) if before and after)

    def decoding(self) -> set[float]: return {each.call.body.get('temperature') for each in self.seen}

    def lengths(self, kind: str) -> set[int]:
        return {each.call.body.get('max_tokens', each.call.body.get('max_completion_tokens')) for each in self.seen if each.kind == kind}


def check(outcome: Outcome, expected: Mapping[str, str], values: Mapping[str, int], of: int = 1) -> None:
    """Whether each of so many models was asked as often as expected with each kind of prompt: formulas of values, such as 'dev + test'.
    A kind that is not named is not looked at; where the name begins with a *, all models together."""
    models = sorted({each.model for each in outcome.seen})
    assert len(models) == of, models
    wanted = {kind.lstrip('*'): eval(formula, {}, dict(values)) for kind, formula in expected.items()}  # noqa: S307
    together = {kind.lstrip('*') for kind in expected if kind.startswith('*')}
    for model in models:
        found = outcome.counts(model)
        assert {kind: found.get(kind, 0) for kind in wanted if kind not in together} == {
            kind: count for kind, count in wanted.items() if kind not in together}, (model, found)
    assert {kind: outcome.counts().get(kind, 0) for kind in together} == {kind: wanted[kind] for kind in together}, outcome.counts()
    assert len(outcome.seen) <= outcome.counted, 'a dry run counts all that is sent'


def run_notebook(path: Path, parameters: Mapping) -> None:
    "The code of a paper's notebook with these parameters, in this process."
    names: dict = {'__name__': 'notebook', 'display': lambda *_, **__: None}
    for cell in json.loads(path.read_text(encoding='utf-8'))['cells']:
        if cell['cell_type'] != 'code': continue
        builtins.exec(compile(''.join(cell['source']), str(path), 'exec'), names)
        if 'parameters' in cell['metadata'].get('tags', ()): names |= parameters


def on_the_wire(entry: Redo, files: Mapping[str, str], out: Path, say=None, prompts: list[Prompt]|None = None) -> Outcome:
    """Run the entry. `say(kind, example, call)` gives an answer, the prompt's example where it gives None. `prompts`: what may be asked
    beyond the prompts of the plan's own steps."""
    exhibit, = find_exhibits([entry.exhibit])
    kinds, known = Kinds([]), {}

    def script(call: Call):
        kind = kinds.of(call)
        example = EXAMPLE_ANSWERS.get(known[kind].name, '') if kind in known else ''
        text = say(kind, example, call) if say else None
        return answer(example if text is None else text, top={'A': -.1, 'B': -2.4} if call.body.get('logprobs') else None)

    with MisbehavingServer(script) as server:
        given = fitted(at_server(on_files(entry.parameters, files), server.url), parameters_of(exhibit))
        plan = plan_of(exhibit, given)
        found = [prompt for step in plan.steps for prompt in getattr(step.method, 'prompts', ())] + (prompts or [])
        kinds = Kinds(found)
        known = {prompt.name.rpartition('/')[2]: prompt for prompt in found}
        dry = estimate([entry.exhibit], parameters=given)
        assert not [outcome.error for outcome in dry.outcomes if outcome.error], dry.outcomes
        assert not server.calls, 'a dry run sends nothing'
        run_notebook(notebook_of(exhibit), given | {'out': str(out)})
        seen = [Seen(kinds.of(call), call) for call in server.calls]
    table, = [path for path in (out/exhibit.paper).glob(f'{exhibit.name}*.csv') if 'calibration' not in path.name]
    return Outcome(seen, pl.read_csv(table, infer_schema_length=None), int(dry.questions['calls'].sum()))
