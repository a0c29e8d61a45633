"""What judges answer, well and badly: every verdict must be one that the text states."""
import json
import re
from itertools import product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.grounding.parsing import (
    GRADES,
    ISSUES,
    LABELS,
    UNGROUNDED,
    accurate_by_labels,
    parse_accurate,
    parse_entailed,
    parse_grade,
    parse_issues,
    parse_json_labels,
    parse_label,
    parse_labelled_lines,
)

PARSERS = (parse_accurate, parse_labelled_lines, parse_json_labels, parse_entailed, parse_grade, parse_issues)


# ---- verdicts ----------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(('answer', 'verdict'), [
    ('Accurate', True), ('inaccurate', False), ('**Accurate**', True), ("'Inaccurate'", False), ('ACCURATE.', True),
    ('Reasons.\n\nFinal Answer: Accurate', True), ('Reasons.\n**Final answer**: **Inaccurate**', False), ('Verdict: Not accurate', False),
    ('The response is inaccurate because the year differs.', False), ('Therefore, the response is accurate.', True),
    ('The Span is accurate when verified; span 2 is accurate.', True),
    ('The claim about cost is accurate. Final answer: inaccurate', False),
    ('The response is accurate.\n\nOn reflection, the response is inaccurate.', False), ('Label - Inaccurate', False),
    ('Step 1: the date is accurate.\nStep 2: the name is inaccurate.\n\nInaccurate', False), ('In-accurate', False),
])
def test_verdicts_that_are_stated(answer, verdict):
    assert parse_accurate(answer).value is verdict


@pytest.mark.parametrize('answer', [
    '', '   \n', 'I cannot judge this.', 'Accurate or Inaccurate', "Generate 'Accurate' or 'Inaccurate'", 
    'Final Answer: Accurate/Inaccurate (choose 1)', 'The response is mostly accurate.', 'Sentence 1 is accurate. Sentence 2 is inaccurate.',
    'accuracy matters', 'The accurately measured length',
    'Say whether the response is accurate.', 'Generate one word if the Response is inaccurate, another if the Response is accurate',
])
def test_no_verdict_is_read_into_an_answer(answer):
    found = parse_accurate(answer)
    assert found.status == 'unparsed' and found.reason


def test_final_answers_that_differ_are_noted():
    found = parse_accurate('Final answer: accurate. Wait. Final answer: inaccurate')
    assert found.value is False and 'differ' in found.reason


# ---- sentences ---------------------------------------------------------------------------------------------------------------------

@given(st.lists(st.booleans(), min_size=1, max_size=12), st.sampled_from(['{}', '**{}**', '{}.', '{} (it is in the text)']),
       st.sampled_from([str, str.upper, str.lower]))
def test_labelled_lines_are_read_back(labels, form, case):
    words = [form.format(case('Accurate' if label else 'Inaccurate')) for label in labels]
    lines = [line for at, word in enumerate(words, 1) for line in (f'Sentence {at}: S{at}.', f'Sentence {at} label: {word}')]
    found = parse_labelled_lines('\n'.join([*lines, f'Final Answer: {case("Accurate" if all(labels) else "Inaccurate")}']))
    assert found.value.accurate is all(labels) and not found.reason
    assert [(each.sentence, each.label) for each in found.value.sentences] == [
        (f'S{at}.', 'supported' if label else 'unsupported') for at, label in enumerate(labels, 1)]
    assert parse_labelled_lines('\n'.join(lines)).value.accurate is all(labels), 'without a final answer the labels decide'


@given(st.lists(st.sampled_from([*LABELS, None]), max_size=6))
def test_the_binary_rule(labels):
    bad = any(label in UNGROUNDED for label in labels)
    expected = False if bad else None if not labels or None in labels else True
    assert accurate_by_labels(labels) is expected


OBJECTS = st.lists(st.tuples(st.text(max_size=30), st.sampled_from(LABELS), st.text(max_size=30)), min_size=1, max_size=8)
FENCES = ('{}', '```json\n{}\n```', '```\n{}\n```', '~~~jsonl\n{}\n~~~', 'Here is my analysis:\n\n```JSON\n{}\n```\nI hope this helps.')


@given(OBJECTS, st.sampled_from(FENCES), st.sampled_from(['lines', 'list', 'trailing', 'spread']))
def test_json_is_read_back_in_every_dress(rows, fence, dress):
    objects = [{'sentence': sentence, 'label': label, 'rationale': 'r', 'excerpt': excerpt} for sentence, label, excerpt in rows]
    texts = [json.dumps(each, ensure_ascii=False, indent=1 if dress == 'spread' else None) for each in objects]
    body = {'lines': '\n'.join(texts), 'spread': '\n'.join(texts), 'list': f'[{", ".join(texts)}]',
            'trailing': '[' + ', '.join(text[:-1] + ',}' for text in texts) + ',]'}[dress]
    found = parse_json_labels(fence.replace('{}', body))
    assert found.value.accurate is not any(label in UNGROUNDED for _, label, _ in rows)
    assert [(each.sentence, each.label, each.excerpt) for each in found.value.sentences] == rows


@pytest.mark.parametrize(('said', 'label'), [
    ('SUPPORTED', 'supported'), ('No Rad', 'no_rad'), ('`no_rad`', 'no_rad'), ('not supported', 'unsupported'),
    ('maybe', None), (None, None), (3, None), ('', None), ('supported/unsupported', None)])
def test_spellings_of_a_label(said, label): assert parse_label(said) == label


def test_what_is_cut_off_decides_nothing_but_an_ungrounded_sentence_does():
    grounded, bad = '{"sentence": "a", "label": "supported"}', '{"sentence": "b", "label": "contradictory"}'
    assert parse_json_labels(grounded + '\n{"sentence": "b", "lab').status == 'unparsed'
    assert parse_json_labels(bad + '\n{"sentence": "b", "lab').value.accurate is False
    assert parse_json_labels('{"sentence": "a", "label": "perhaps"}' + bad).value.accurate is False
    assert parse_json_labels('{"sentence": "a"}').status == 'unparsed' and parse_json_labels('[]').status == 'unparsed'


# ---- grades, yes and no, issues ----------------------------------------------------------------------------------------------------

def test_grades():
    for letter, word in GRADES.items():
        for form in ('{l}', '({l})', 'Because.\n{l}', '**{l}**', 'Grade: {l}', 'Final answer: {w}', '{l}: {w}', '{w}', 'The grade is {l}'):
            assert parse_grade(form.format(l=letter, w=word)).value == word, form
    for other in ('', 'D', 'AB', 'A B C', 'A or B', 'A dog', 'A: INCORRECT', 'none'): assert parse_grade(other).status == 'unparsed', other


def test_issues():
    for issue, spelt in product(ISSUES, (str, str.upper, str.lower)):
        assert parse_issues(f'Analysis\n```json\n{{\n "Instruction Following": "{spelt(issue)}"\n}}\n```').value == issue
    both = '{"Instruction Following": "No Issues"} … {"Instruction Following": "Major Issue(s)"}'
    assert parse_issues(both).value == 'Major Issue(s)' and 'last' in parse_issues(both).reason
    unclear = ('"some"', 'null', '"No', '["No Issues"]')
    for nothing in ('', '{}', 'Major Issue(s)', *(f'{{"Instruction Following": {value}}}' for value in unclear)):
        assert parse_issues(nothing).status == 'unparsed', nothing


def test_a_judge_that_repeats_the_published_instructions_says_nothing(published_templates):
    "The templates themselves, as answers."
    for method, template in pl.read_csv(published_templates).iter_rows():
        for parse in (parse_accurate, parse_labelled_lines, parse_issues, parse_grade):
            assert parse(template).status == 'unparsed', (method, parse.__name__)


# ---- fuzz --------------------------------------------------------------------------------------------------------------------------

PIECES = ['Accurate', 'Inaccurate', 'not ', 'in', '/', ' or ', 'Final Answer:', 'Sentence 1 label:', 'Sentence 1:', '\n', ' ', '**',
          '```json', '```', '{', '}', '"label"', ':', '"supported"', '"contradictory"', '"no_rad"', '"sentence"', ',', '[', ']', '"', "'",
          'Final Answer: Inaccurate', 'The response is therefore NOT ACCURATE.', 'Verdict: Accurate, or Verdict: Inaccurate',
          '{"sentence": "a", "label": "contradictory", "excerpt": null}', '[{"sentence": "a", "label": "UNSUPPORTED",}]', 'B: INCORRECT',
          '"Instruction Following"', '"No Issues"', '"Major Issue(s)"', 'YES', 'NO', 'A', 'B', 'C', 'null', '\\', '\u2028', '\x00', '🙂',
          'the response is ', 'mostly ', 'x' * 200, '(choose 1)']


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40).map(''.join))
def test_no_answer_raises_and_no_verdict_is_invented(answer):
    for parse in PARSERS: assert parse(answer).ok is (parse(answer).value is not None)
    low = answer.lower()
    if (verdict := parse_accurate(answer).value) is not None:
        stated = r'(?<!in)(?<![a-z])accurate' if verdict else r'in\W*accurate|(?:not|isn.t)[\s-]+(?:in)?accurate'
        assert re.search(stated, low) or 'inaccurate' in low and 'not' in low
    if (found := parse_json_labels(answer).value) is not None:
        assert all(each.label is None or each.label.replace('_', '') in re.sub(r'[\W_]', '', low).replace('contradicted', 'contradictory')
                   .replace('notsupported', 'unsupported') for each in found.sentences)
    if (issue := parse_issues(answer).value) is not None: assert issue.split()[0].lower() in low
    if (yes := parse_entailed(answer).value) is not None: assert ('yes' if yes else 'no') in low
