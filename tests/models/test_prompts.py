"""Prompts pass any text through untouched; parsers give a typed value or a reason, whatever a model wrote."""
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.data import files
from factlab.models.prompts import (
    Matching,
    Prompt,
    format_lettered,
    letters,
    paper_prompt,
    parse_bullets,
    parse_final_output,
    parse_json_object,
    parse_lettered,
    parse_matching,
    read_template,
)
from factlab.models.verdicts import parse_yes_no

settings.register_profile('quick', max_examples=150, deadline=None, derandomize=True, database=None)
settings.load_profile('quick')

anything = st.text(max_size=300)
# pieces of what models write, so that random texts come near to lists, headings, verdicts and objects
pieces = st.sampled_from(['A. ', 'B) ', 'C: ', '(a) ', '**A.** ', '\n', '\n\n', '- ', '1. ', '```\n', 'None', 'none.', 'Description:',
                          'Final Output:', '**Final Output:**',
                          'final answer: ', 'yes', 'no', ' or ', '{', '}', '{"A": ', '"B"', "'", '"', ': ', ', ', 'null', 'NaN', '[', ']',
                          '\\', 'A. P. Møller', 'the year', ' ',
                          '\u2028', '\x00', '\ud800', 'No factual inconsistencies were found.', 'but'])
wild = st.lists(st.one_of(pieces, st.text(max_size=5)), max_size=40).map(''.join)
PARSERS = [parse_lettered, parse_bullets, parse_final_output, parse_yes_no, lambda text: parse_yes_no(text, marker=''), parse_json_object,
           lambda text: parse_matching(text, 3, 2)]


# ---- prompts

@given(anything, anything)
def test_values_are_inserted_as_they_are(text, summary):
    prompt = Prompt('p', 1, 'T {{x}} {text}|{summary} {other} }{', ('text', 'summary'), system='{summary} %s \\1')
    system, user = prompt.render(text=text, summary=summary)
    assert system.content == summary + ' %s \\1' and user.content == 'T {x} ' + text + '|' + summary + ' {other} }{'


@pytest.mark.parametrize('value',
                         ['{summary}', '{{text}}', '{0}', '%(text)s %d', '\\n\\g<0>', '```json\n{"a": {}}\n```', '<b>&amp;</b>',
                          '$text ${text}', ''])
def test_traps_of_formatting(value):
    prompt = Prompt('p', 1, '{text}{summary}{text}', ('text', 'summary'))
    assert prompt.render(text=value, summary='S')[0].content == value + 'S' + value


def test_prompt_faults_are_named():
    prompt = Prompt('p', 2, '{text}', ('text',))
    assert prompt.id == 'p@2' and [m.role for m in prompt.render(text='x')] == ['user']
    for values in ({}, {'text': 'x', 'summary': 'y'}, {'text': None}, {'text': 3}):
        with pytest.raises(UsageError): prompt.render(**values)
    for fields in (('text', 'gold'), ('text', '')):
        with pytest.raises(UsageError): Prompt('p', 1, '{text}', fields)


def test_digest_follows_the_words_only():
    one = Prompt('p', 1, '{a} {b}', ('a', 'b'))
    assert one.sha256 == Prompt('q', 7, '{a} {b}', ('b', 'a'), example_answer='x', source='paper').sha256
    assert len({one.sha256, Prompt('p', 1, '{a} {b}.', ('a', 'b')).sha256, Prompt('p', 1, '{a} {b}', ('a',)).sha256,
                Prompt('p', 1, '{a} {b}', ('a', 'b'), system='s').sha256}) == 4


# ---- the authors' files

def write_prompt(folder: Path, main: str, past: str|None = None):
    folder.mkdir(parents=True)
    (folder/'prompt.txt').write_text(main, encoding='utf-8')
    if past is not None: (folder/'past_text_prompt.txt').write_text(past, encoding='utf-8')


def test_authors_files_are_joined_as_their_code_does(tmp_path, monkeypatch):
    write_prompt(tmp_path/'prompts'/'inference_prompts'/'cot9', 'é {{}}\n{text}\n', '\nEnd with {"A": 1} {text}.\n\n')
    write_prompt(tmp_path/'prompts'/'inference_prompts'/'plain', 'One\nTwo {text}')
    monkeypatch.setattr(files, 'get', lambda name: tmp_path)
    prompt = paper_prompt('final/cot9', ['text'])
    assert prompt.source == 'paper' and prompt.render(text='{x}')[0].content == 'é {}\n{x}\n\n\nEnd with {"A": 1} {text}.'
    assert paper_prompt('final/plain', ('text',)).render(text='\\n')[0].content == 'One\nTwo \\n'
    with pytest.raises(DataError, match='cot9'): paper_prompt('final/nonesuch', ('text',))
    with pytest.raises(DataError, match='gold'): paper_prompt('final/plain', ('text', 'gold'))
    with pytest.raises(DataError): read_template(tmp_path)


@pytest.mark.parametrize('name', ['zero_shot1', 'zero_shot2', 'few_shot1', 'few_shot2', 'cot1', 'cot2', 'cot_judgement_prompt'])
def test_published_prompts_render_as_str_format(name):
    root = files.path('final')
    if root is None: pytest.skip('the published files are not at hand')
    values = {'text': 'T {summary} {{', 'summary': 'S}', 'gold': 'A. {x}', 'model_output': '{}'}
    folder = next(Path(root).rglob(f'{name}/prompt.txt')).parent
    expected = (folder/'prompt.txt').read_text(encoding='utf-8').format(**values)
    if (folder/'past_text_prompt.txt').exists(): expected += '\n\n' + (folder/'past_text_prompt.txt').read_text(encoding='utf-8').strip()
    fields = ('summary', 'gold', 'model_output') if 'judgement' in name else ('text', 'summary')
    assert paper_prompt(f'final/{name}', fields).render(**{f: values[f] for f in fields})[0].content == expected


# ---- lists

def sane(text: str) -> bool:
    "An item that says something: not None in any wording, not a label alone, no heading of its own."
    low = text.lower()
    openings = ('description', '*', '_', 'no ', 'there ', 'i ', 'the summary', 'all ', 'every ')
    return any(c.isalnum() for c in text) and 'none' not in low and not low.startswith(openings)


characters = st.characters(exclude_categories=('Cs',))
items = st.lists(st.text(characters, min_size=1, max_size=60).map(lambda text: ' '.join(text.split())).filter(sane), max_size=60)


@given(items)
def test_lettered_round_trip(texts):
    parsed = parse_lettered(format_lettered(texts))
    assert parsed.ok and parsed.value == texts


FORMS = ['{}. {}', '{}) {}', '({}) {}', '{}: {}', '{} - {}', '**{}.** {}', '**{}**: {}', '**{}. {}**', '- {}. {}', '### {}. {}',
         '[{}] {}', '  {}. {}', '{}.\nDescription:\n{}',
         '{}. Description: {}', '{}.\n{}', '**{}**\n{}', '{}. **Description:** {}', 'Inconsistency {}: {}', '{}.\n\nDescription:\n\n{}',
         '* **{}:** {}']


@pytest.mark.parametrize('gap', ['\n', '\n\n'])
@pytest.mark.parametrize('case', [str.upper, str.lower])
@pytest.mark.parametrize('form', FORMS)
def test_forms_of_lists(form, case, gap):
    texts = [f'The number {i} is not in the text.' for i in range(30)]
    if form == '**{}**\n{}' and case is str.lower: return  # a bare lower-case letter is a word, not a label
    listed = gap.join(form.format(case(label), text) for label, text in zip(letters(30), texts, strict=True))
    for answer in (listed, f'Here is what I found:\n\n{listed}\n\nLet me know if you need more.', f'```\n{listed}\n```'):
        assert parse_lettered(answer).value == texts


@pytest.mark.parametrize('answer, value', [
    ('A. A. P. Møller is not named.\nB. J. K. Rowling is.', ['A. P. Møller is not named.', 'J. K. Rowling is.']),
    ('A.\nJ. K. Rowling is not named.\nB.\nA. A. Milne is not either.', ['J. K. Rowling is not named.', 'A. A. Milne is not either.']),
    ('A. It names\nJ. K. Rowling and\nA. P. Møller.\nB. The year.', ['It names J. K. Rowling and A. P. Møller.', 'The year.']),
    ('A. It names\nC. Smith.\nB. The year.\nC. The place.', ['It names C. Smith.', 'The year.', 'The place.']),
    ('A. one\nA. one\nB. two', ['one', 'one', 'two']),              # repeated items stay: the paper penalizes them
    ('A. one\nB. two\nA. three\nB. four', ['one', 'two', 'three', 'four']),
    ('A. one\nC. three\nD. four', ['one', 'three', 'four']),
    ('B. two\nC. three', ['two', 'three']),
    ('A. one\n   a. detail\n   b. detail\nB. two', ['one a. detail b. detail', 'two']),
    ('A. one\n- detail\n- detail\nB. two', ['one - detail - detail', 'two']),
    ('1. first\n   a) detail\n   b) detail\n2. second', ['first a) detail b) detail', 'second']),
    ('A. None of the dates match.\nB. No errors are named, but the year is wrong.',
     ['None of the dates match.', 'No errors are named, but the year is wrong.']),
    ('A. one\nB. None', ['one']),
    ('A. None', []),
    ('A. First part.\n\nSecond part.\n\nB. two\n\nThat is all.', ['First part. Second part.', 'two']),
    ('- one\n- two', ['one', 'two']),
    ('• one\n• two', ['one', 'two']),
    ('1) one\n2) two', ['one', 'two']),
    ('Here:\n1. one\n2. two\n\nDone', ['one', 'two']),
    ('A.The year is wrong.', ['The year is wrong.']),
    ('A. one\r\nB. two\r\n', ['one', 'two']),
    ('A. one\nB.\nC. three', ['one', 'C. three']),                  # text under a bare label is its text
])
def test_lists_met_in_the_wild(answer, value):
    assert parse_lettered(answer).value == value


@pytest.mark.parametrize('answer', [
    'None', 'none', 'None.', '**None**', '"None"', '`None`', '```\nNone\n```', 'Output: None', 'Inconsistencies:\nNone',
    'All of it is in the text.\n\nNone', 'None\n\nAll is supported.',
    'None. The summary agrees with the text.', 'No factual inconsistencies found.',
    'There are no factual inconsistencies in the summary.', 'No inconsistencies were identified.',
    'All facts in the summary can be verified using the text.', 'The summary is factually consistent with the source text.',
    'The summary does not contain any factual inconsistencies.',
    'There are no unverifiable facts.', 'I compared each fact.\nThere are no factual inconsistencies in the summary.'])
def test_none_is_the_empty_list(answer):
    assert parse_lettered(answer).value == [] and parse_bullets(answer).value == []


@pytest.mark.parametrize('answer', [
    '', ' \n\t', '```\n```', 'The year is wrong.', 'None of the dates match.',
    'The summary is consistent. However, the year is not in the text.', 'All facts in the summary are supported except the year.',
    'The summary is mostly consistent with the text.', 'All facts in the summary are partially supported by the text.',
    'No factual inconsistencies were found, but the year is wrong.',
    'No factual inconsistencies were found. However, the year is not in the text.', 'A. one\nB. two\n\nNone', 'None\n\nA. one',
    'A.\nB.\nC.', 'J. K. Rowling is not named.', 'A', '42'])
def test_what_cannot_be_read_is_unparsed(answer):
    parsed = parse_lettered(answer)
    assert parsed.status == 'unparsed' and parsed.value is None and parsed.reason


def test_another_kind_of_list_is_noted():
    assert 'numbered' in parse_lettered('1. one').reason and 'bulleted' in parse_lettered('- one').reason
    assert 'lettered' in parse_bullets('A. one').reason and parse_bullets('- one\n- two').reason == ''
    assert parse_bullets('- one\n  - inner\n- two').value == ['one - inner', 'two']
    assert 'out of order' in parse_lettered('A. one\nA. one').reason and 'left out' in parse_lettered('A. one\n\nBye').reason


def test_items_cannot_add_items():
    assert parse_lettered(format_lettered(['one\nB. smuggled', 'two'])).value == ['one B. smuggled', 'two']
    assert parse_lettered(format_lettered([])).value == []
    assert letters(0) == [] and letters(703)[-1] == 'AAA' and len(set(letters(2000))) == 2000


# ---- headings, verdicts

@pytest.mark.parametrize('answer, value', [
    ('thought\nFinal Output:\nA. one', 'A. one'),
    ('thought\n**Final Output:**\n\nNone', 'None'),
    ('thought\n### FINAL OUTPUT\nA. one', 'A. one'),
    ('"Final Output": None', 'None'),
    ('5. **Final output**: None', 'None'),
    ('I will write a list under "Final Output:" at the end.\nThe year.\nFinal Output:\nA. one', 'A. one'),
    ('Final Output:\nA. draft\n\nOn reflection:\n\nFinal Output:\nA. one', 'A. one'),
    ('Under Final Output: I list them. \nFinal Output:\nA. Final Output: is named', 'A. Final Output: is named'),
    ('So there is nothing. Final Output: None', 'None'),
    ('### Final Output of the check:\nA. one', 'A. one'),
    ('thought\nFinal Output\uff1aNone', 'None'),
])
def test_final_output(answer, value):
    assert parse_final_output(answer).value == value


@pytest.mark.parametrize('answer',
                         ['', 'A. one', 'I end with "Final Output:"', 'Final Output:', 'Final Output:\nA. one\nFinal Output:\n\n',
                          'The final output of this work is good.'])
def test_no_final_output(answer):
    assert parse_final_output(answer).status == 'unparsed'


@pytest.mark.parametrize('answer, value', [
    ('Is it? Yes. Is that? No.\nFinal answer: yes', True), ('**Final Answer:** No.', False), ('Final answer: **no**', False),
    ('### Final Answer\n\nYes', True),
    ('Final answer is: no, the year is wrong', False), ('final answer: \\boxed{yes}', True),
    ('Final answer: no\nWait.\nFinal answer: yes', True), ('Yes', True), ('no.', False),
    ('It is fine.\n\n**Yes**', True), ('So the answer is no.', False), ('Final answer (yes or no): no', False),
    ('Final answer: Yes. No inconsistencies were found.', True),
    ('I must end with "final answer: yes or no only".\nFinal answer: no', False)])
def test_yes_no(answer, value):
    assert parse_yes_no(answer).value is value


@pytest.mark.parametrize('answer',
                         ['', 'final answer: yes or no only', 'Final answer: yes/no', 'Final answer: the summary is consistent',
                          'Yes, it is; no, it is not.', 'Final answer: not consistent',
                          'Final answer: no inconsistencies', 'final answer: "yes" or "no"', 'Yes or no', 'yesterday', 'maybe'])
def test_no_verdict(answer):
    assert parse_yes_no(answer).status == 'unparsed'


def test_leading_yes_no():
    assert parse_yes_no('no\n- The year.', marker='').value is False and parse_yes_no(' **Yes.** It is.', marker='').value is True
    for answer in ('', 'yes or no', 'nothing', 'I say yes'): assert parse_yes_no(answer, marker='').status == 'unparsed'


# ---- objects and matchings

plain = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20),
                     lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
                     max_leaves=10)


@given(st.dictionaries(st.text(max_size=8), plain, min_size=1, max_size=6),
       st.sampled_from(['{}', '```json\n{}\n```', 'I think {{"A": "B"}}, so:\n{}\nas {{}} is wrong.', 'First { then }: {}']))
def test_json_round_trip(value, around):
    text = json.dumps(value, indent=1, ensure_ascii=False)
    assert parse_json_object(around.replace('{{', '{').replace('}}', '}').replace('{}', text, 1)).value == value


@pytest.mark.parametrize('answer, value', [
    ("{'A': 'C', 'B': None}", {'A': 'C', 'B': None}), ('{"A" : None, "B" : "D" }', {'A': None, 'B': 'D'}),
    ('{"A": true, \'B\': null,}', {'A': True, 'B': None}),
    ("{'A': 'it''s'}", {'A': 'its'}), ('{"A": "B", "A": "B"}', {'A': 'B'}), ('{}', {}), ('{"A": "}{"}', {'A': '}{'}),
    ('an empty {} or\n{"A": "B"}', {'A': 'B'}),
    ('{"A": "B"}\n{"A": "C"}', {'A': 'C'}), ('{{"A": "B"}}', {'A': 'B'}), ('{"A": "line\nbreak"}', {'A': 'line\nbreak'}),
    ("{\"A\": \"isn't\", \"B\": null}", {'A': "isn't", 'B': None}),
    ('{\n# comment\n}{"A": null, # why\n}', {'A': None}), ('{"A": -1, \'B\': -1.5}', {'A': -1, 'B': -1.5})])
def test_objects(answer, value):
    assert parse_json_object(answer).value == value


@pytest.mark.parametrize('answer',
                         ['', 'none', '[1]', '{"A": "B"', '{"A": "B"} then {"A": "C', '{"A": "B", "A": "C"}', "{'A': 1, 'A': 2}",
                          '{"a": {"b": 1, "b": 2}}', '{"A": 1, "A": true}',
                          '{"A": NaN}', '{"A": Infinity}', '{"A": 1e999}', "{'A': 1e999}", '{"A": open("f")}',
                          '{"A": __import__("os")}', '{"A": f"{1}"}', '{"A", "B"}', '{"A": 1 + 1}',
                          '{"a":' * 2000 + '1' + '}' * 2000, '{"a":' + '[' * 100_000,
                          '{"a":' + '[' * 100_000 + ']' * 100_000 + '}', "{'a':" + '-' * 100_000 + '1}',
                          "{'a':" + '1+' * 50_000 + '1}', '{"a": ' + '9' * 5000 + '}', '{"A": "\x00}',
                          "{'A': '\x00', 'B': None}", '{"A": \ud800}'])
def test_unreadable_objects(answer):
    parsed = parse_json_object(answer)
    assert parsed.status == 'unparsed' and parsed.reason


@pytest.mark.parametrize('answer, matching', [
    ('{"A": "B", "B": "C", "C": None}', Matching({0: 1, 1: 2, 2: None})),
    ('{"a": " b.", "(B)": "**A**", "C": "none"}', Matching({0: 1, 1: 0, 2: None})),
    ('{"A": "D", "B": null, "C": "NULL"}', Matching({0: None, 1: None, 2: None}, ['"A" → "D": no such gold item'])),
    ('{"A": ["B"], "B": "A, B", "C": {"match": "A"}}',
     Matching({0: None, 1: None, 2: None}, ['"A" → ["B"]: no such gold item', '"B" → "A, B": no such gold item',
                                                                                        '"C" → {"match": "A"}: no such gold item'])),
    ('{"D": "A", "A": "A"}', Matching({0: 0, 1: None, 2: None}, ['"D": no such prediction'], [1, 2])),
    ('{"A": "A", "a.": "B", "B": true, "C": ""}',
     Matching({0: None, 1: None, 2: None}, ['"a." → "B": answered twice', '"B" → true: no such gold item', '"C" → "": no such gold item'])),
    ('{"A": "B", "a": "B", "B": "B", "C": "B"}', Matching({0: 1, 1: 1, 2: 1})),
    ('{"matching": {"A": "B", "B": null, "C": null}}', Matching({0: 1, 1: None, 2: None})),
    ('{}', Matching({0: None, 1: None, 2: None}, [], [0, 1, 2])),
    ('{"x1": 3, "The year": "A"}',
     Matching({0: None, 1: None, 2: None}, ['"x1": no such prediction', '"The year": no such prediction'], [0, 1, 2])),
])
def test_matching(answer, matching):
    parsed = parse_matching('So the matching is\n' + answer, predicted=3, gold=3)
    assert parsed.ok and parsed.value == matching


def test_matching_edges():
    assert parse_matching('{"AA": "AB"}', 27, 28).value.matches[26] == 27
    assert parse_matching('{"A": "A"}', 1, 0).value == Matching({0: None}, ['"A" → "A": no such gold item'])
    assert parse_matching('{"A": "A"}', 0, 1).value == Matching({}, ['"A": no such prediction'])
    assert parse_matching('I match A with B.', 2, 2).status == parse_matching('{"A": "B", "A": "C"}', 2, 3).status == 'unparsed'
    with pytest.raises(UsageError): parse_matching('{}', -1, 0)


# ---- any text at all

@given(st.one_of(anything, wild))
def test_no_text_raises(text):
    for parse in PARSERS:
        parsed = parse(text)
        assert (parsed.status == 'ok') == (parsed.value is not None) and (parsed.ok or parsed.reason)


@pytest.mark.parametrize('unit',
                         ['A\n', 'A. x\nC. y\n', ' ', '*', '{', '{"a":', '"', "'", '\\"', '[', 'Final Output:\n',
                          'final answer: yes or no ', 'no factual ', '- ', '#', 'None\n', '}', '{"A":"B"}'])
def test_hostile_length_costs_linear_time(unit):
    for before, after in (('', ''), ('{"A": "', '"}')):
        text = before + unit * (60_000 // len(unit)) + after
        for parse in PARSERS:
            start = time.process_time()
            parse(text)
            assert time.process_time() - start < 2  # a tenth of a second here; quadratic time would be many seconds
