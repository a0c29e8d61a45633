"""Judges' answers, mutated: no parser raises, and none gives a verdict that the text does not contain.

`FACTLAB_FUZZ=100000 pytest tests/grounding/test_fuzz.py` makes as many of them; by default it is two thousand."""
import os
import random
import re

from factlab.grounding.parsing import (
    GRADES,
    ISSUES,
    LABELS,
    parse_accurate,
    parse_entailed,
    parse_grade,
    parse_issues,
    parse_json_labels,
    parse_labelled_lines,
)
from factlab.models.prompts import Parsed

MUTATIONS = int(os.environ.get('FACTLAB_FUZZ', 2000))
SEEDS = (
    'The date is in the document.\nVerdict: Accurate', '**Final Answer: Inaccurate**', 'The response is therefore NOT ACCURATE.',
    'accurate',
    'Sentence 1: The mill opened.\nSentence 1 label: Accurate\n'
    'Sentence 2: It closed.\nSentence 2 label: Inaccurate\nFinal Answer: Inaccurate',
    '```json\n{"sentence": "The mill opened.", "label": "supported", "rationale": "r", "excerpt": "It opened."}\n```',
    '{"sentence": "a", "label": "contradictory", "excerpt": null}\n{"sentence": "b", "label": "no_rad", "excerpt": null},\n',
    '[{"sentence": "a", "label": "UNSUPPORTED",}, {"sentence": "b", "label": "supported"}]', 'YES', 'No, it does not.', 'B: INCORRECT',
    'The grade is C.', 'NOT_ATTEMPTED', '{"Instruction Following": "Minor Issue(s)"}',
    'x\n```\n{"Instruction Following": "Major Issue(s)"}```',
    'Verdict: Accurate, or Verdict: Inaccurate', 'mostly accurate', 'If the response is accurate, say so.')
PIECES = (*SEEDS, '\n', '```', '{', '}', '[', ']', '"', ',', ':', '*', 'not ', 'in', '“', '\u200b', '\ud800', '\x00', 'Ünïcödé',
    '{"label": ', 'null',
          '\\n', '\\u00', '9'*40, ' '*50, 'Sentence 99999999 label: ', 'accurate/inaccurate')


def mutated(generator: random.Random) -> str:
    "A judge's answer with pieces cut out, doubled, swapped, changed in case, or put in."
    text = generator.choice(SEEDS)
    for _ in range(generator.randint(1, 6)):
        start, end = sorted(generator.randint(0, len(text)) for _ in 'ab')
        kind = generator.randrange(6)
        if kind == 0: text = text[:start] + text[end:]
        elif kind == 1: text = text[:end] + text[start:end] + text[end:]
        elif kind == 2: text = text[:start] + generator.choice(PIECES) + text[start:]
        elif kind == 3: text = text[:start] + text[start:end].swapcase() + text[end:]
        elif kind == 4: text = text[end:] + text[:start] + text[start:end]
        else: text = text[:start] + text[start:end][::-1] + text[end:]
    return text


def contains(text: str, pattern: str) -> bool: return re.search(pattern, text, re.IGNORECASE) is not None


def letters(text: str) -> str:
    "The text's letters alone, with JSON's escapes read: what a label in any dress still has."
    plain = re.sub(r'\\[nrtbf]', ' ', re.sub(r'\\u([0-9a-fA-F]{4})', lambda found: chr(int(found[1], 16)), text))
    return re.sub(r'[\W_]', '', plain).lower()


def check_labels(text: str, found: Parsed) -> None:
    for each in found.value.sentences:
        assert each.label in (*LABELS, None)
        said = {'supported': 'supported', 'unsupported': 'supported', 'contradictory': 'contradict', 'no_rad': 'norad'}
        if each.label: assert said[each.label] in letters(text) or contains(text, 'accurate')
    if found.value.accurate and found.value.sentences and not contains(text, 'accurate'):
        assert all(each.label in ('supported', 'no_rad') for each in found.value.sentences)


def test_no_mutation_raises_or_gives_a_verdict_that_is_not_there():
    generator = random.Random(0)
    for _ in range(MUTATIONS):
        text = mutated(generator)
        for parse, pattern in ((parse_accurate, 'accurate'), (parse_entailed, 'yes|no|true|false'),
                               (parse_grade, '[abc]|correct|attempted'), (parse_issues, 'issue')):
            found = parse(text)
            assert found.ok or found.value is None and found.reason
            if found.ok: assert contains(text, pattern), (parse.__name__, text)
            if found.ok and parse is parse_grade: assert found.value in GRADES.values()
            if found.ok and parse is parse_issues: assert found.value in ISSUES and contains(text, found.value.split()[0])
        for parse in (parse_json_labels, parse_labelled_lines):
            found = parse(text)
            assert found.ok or found.value is None and found.reason
            if found.ok: check_labels(text, found)
