"""FACTS Grounding's rules against a second transcription, on 300 random sets of answers: what the paper (§ 3) and its starter code count.

A verdict in JSON is grounded if no label is anything but *supported* or *no_rad*; in lines, if the final answer says so; what cannot be
read is not grounded. A response is ineligible if all three judges see major issues; what cannot be read disqualifies nobody."""
import json
import random

import polars as pl
import pytest
from grounding.test_scores import of, verdicts

from factlab.grounding.parsing import ISSUES, LABELS, parse_issues, parse_json_labels, parse_labelled_lines
from factlab.grounding.scores import EVERY_JUDGE, score_responses

JUDGES = {'gemini': parse_json_labels, 'gpt': parse_json_labels, 'claude': parse_labelled_lines}
RESPONDERS = ('one', 'two')


def in_json(generator: random.Random) -> tuple[str, bool]:
    "An answer, and whether the starter calls it grounded."
    if generator.random() < .15: return generator.choice(['', 'I cannot say.', '{"sentence": "Half of']), False
    weights = [8 if label in ('supported', 'no_rad') else 1 for label in LABELS]
    said = generator.choices(LABELS, weights, k=generator.randint(1, 6))
    text = '\n'.join(json.dumps({'sentence': f'Sentence {at}.', 'label': label, 'rationale': 'Said so.', 'excerpt': None})
                     for at, label in enumerate(said))
    return (f'```json\n{text}\n```' if generator.random() < .3 else text), all(label in ('supported', 'no_rad') for label in said)


def in_lines(generator: random.Random) -> tuple[str, bool]:
    if generator.random() < .15: return generator.choice(['', 'I cannot say.', 'Final Answer:']), False
    final = generator.random() < .6
    labels = [True]*generator.randint(0, 3) + [final]
    lines = [f'Sentence {at}: It says {at}.\nSentence {at} label: {"Accurate" if label else "Inaccurate"}'
             for at, label in enumerate(labels, 1)]
    return '\n'.join([*lines, f'Final Answer: {"Accurate" if final else "Inaccurate"}']), final


def issues(generator: random.Random) -> tuple[str, bool]:
    "An answer on eligibility, and whether the starter lets the response pass."
    if generator.random() < .15: return 'Analysis: none.', True
    said = generator.choice(ISSUES)
    text = json.dumps({'Instruction Following': said}, indent=generator.choice([None, 2]))
    return f'Analysis\nThe request asks for one thing.\n\n```json\n{text}\n```', said != 'Major Issue(s)'


@pytest.mark.parametrize('seed', range(300))
def test_scores_are_those_of_the_starters_rules(seed):
    generator = random.Random(seed)
    requests = generator.randint(2, 6)
    ours: dict[str, dict] = {judge: {} for judge in JUDGES}
    theirs, passes, eligible = {}, {}, {judge: {} for judge in JUDGES}
    for judge, read in JUDGES.items():
        for who in RESPONDERS:
            told = [(in_lines if read is parse_labelled_lines else in_json)(generator) for _ in range(requests)]
            found = [read(text) for text, _ in told]
            ours[judge][who] = [each.value.accurate if each.ok else None for each in found]
            theirs[judge, who] = [grounded for _, grounded in told]
            asked = [issues(generator) for _ in range(requests)]
            verdict = [parse_issues(text) for text, _ in asked]
            eligible[judge][who] = [each.value != 'Major Issue(s)' if each.ok else None for each in verdict]
            passes[judge, who] = [passed for _, passed in asked]
    scores = score_responses(verdicts(ours), verdicts(eligible, 'eligible'), resamples=2)
    for who in RESPONDERS:
        out = [not any(passes[judge, who][at] for judge in JUDGES) for at in range(requests)]
        of_judges: dict[str, list[float]] = {'unadjusted': [], 'final': []}
        for judge in JUDGES:
            grounded = theirs[judge, who]
            of_judges['unadjusted'].append(sum(grounded)/requests)
            of_judges['final'].append(sum(each and not gone for each, gone in zip(grounded, out, strict=True))/requests)
            for score, values in of_judges.items(): assert of(scores, who, judge, score)['lowest'] == pytest.approx(values[-1])
        for score, values in of_judges.items():
            every = scores.filter(pl.col('responder') == who, judge=EVERY_JUDGE, score=score)['lowest'].item()
            assert every == pytest.approx(sum(values)/len(values))
