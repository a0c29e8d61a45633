"""FINAL with the paper's parameters: what arrives at a server is what §§ 4, 5 and Appendices C, D, F, G, H say."""
import json
import os
from functools import cache
from pathlib import Path

import pytest
from on_the_wire import check, on_the_wire

from factlab.data.datasets import load
from factlab.reports.redo import redo_entries
from factlab.studies.final.prompts import PRINTED
from factlab.studies.final.redo import PASTED_HINT, PASTED_MARK, small_files
from factlab.text.sentences import split_sentences

PUBLISHED = Path(os.environ.get('FACTLAB_DATA', 'nowhere'))/'final'/'prompts'
pytestmark = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the authors' prompts are not in $FACTLAB_DATA: factlab data get final")

ENTRIES = redo_entries('final')
TEST, DEV = 3, 2
VALUES = {'test': TEST, 'dev': DEV}
PASTED = [name.rpartition('/')[2] for name in PRINTED]  # prompts that are printed without a file
# two of each style on the development rows, the better one on the test rows (App. C.1): here the second of CoT, else the first
VARIANTS = {
    'zero_shot1': 'dev + test', 'zero_shot2': 'dev', 'few_shot1': 'dev + test', 'few_shot2': 'dev', 'cot1': 'dev', 'cot2': 'dev + test'}
ONLY_COT = {'cot1': 'dev', 'cot2': 'dev + test'}
METHODS = VARIANTS | {
    'decompose': 'sentences', 'detect': '3*sentences', 'merge': 'test',  # sentence by sentence, of three facts each (App. C.2)
    'binary': 'test', 'cot2_hint': 'test', 'cot1_hint': '0'}   # the hint is given to the chosen variant (App. C.3)
FIVE = {kind: formula.replace('test', '5*test').replace('sentences', '5*sentences') for kind, formula in METHODS.items()}  # App. F
ASKED = {  # by exhibit: how many models, and how often each is asked with each kind of prompt
    'final/table4': (4, METHODS), 'final/table7': (6, METHODS), 'final/table10': (4, METHODS), 'final/table9': (1, FIVE),
    'final/fig4': (4, ONLY_COT | {'binary': 'test'}), 'final/table8': (6, {'binary': 'test'}),
    'final/fig5': (4, ONLY_COT), 'final/fig7': (4, ONLY_COT),
    'final/fig6': (1, {'ptrue': 'test*(2*10 + 2)'}),  # ten samples of each order of the options (App. G.1), and both exactly
    'final/counterfactual': (1, {'cot1': 'dev'}),
    'final/judge': (1, {}),
    'final/table1': (1, {}), 'final/fig3': (1, {}), 'final/fig9': (1, {}), 'final/fig10': (1, {'match': '1'}), 'final/fig11': (1, {}),
}
ROWS = {'final/fig6': TEST, **dict.fromkeys(['final/table4', 'final/table7', 'final/table9', 'final/table10', 'final/fig4',
                                            'final/table8'], TEST)}
LENGTHS = {'zero_shot': 512, 'few_shot': 512, 'cot': 1024, 'binary': 768}


def say(kind: str, example: str, call) -> str|None:
    "An answer of the right form, another one to each question. The judge matches only what the second CoT prompt found."
    if kind == 'decompose': return '\n'.join(f'- Fact {at} of answer {call.number}.' for at in range(3))
    if kind == 'match': return json.dumps({'A': 'A' if 'by cot2' in call.prompt else None})
    found = f'A. Found by {kind} in answer {call.number}.'
    if kind.startswith('cot'): return f'The date is not in the text.\nFinal Output:\n{found}'
    if kind.startswith(('zero_shot', 'few_shot', 'merge')): return found
    return f'no\n- Found by {kind} in answer {call.number}.' if kind == 'detect' else 'A' if kind == 'ptrue' else None


@pytest.fixture(scope='module')
def files(tmp_path_factory) -> dict[str, str]: return small_files(tmp_path_factory.mktemp('final'), TEST, DEV)


def test_every_exhibit_that_asks_a_model_is_checked():
    assert {id for id, entry in ENTRIES.items() if entry.models} == {*ASKED}


@pytest.mark.parametrize('id', ASKED)
def test_an_exhibit_as_the_paper_asks(id, files, tmp_path):
    models, expected = ASKED[id]
    outcome = on_the_wire(ENTRIES[id], files, tmp_path, say)
    rows = load(files['final']).filter(split='test')
    check(outcome, expected, VALUES | {'sentences': sum(len(split_sentences(summary)) for summary in rows['summary'])}, of=models)
    assert outcome.decoding() == ({0.0, 1.0} if id == 'final/fig6' else {0.0}), 'greedy (App. C, D); P(True) is sampled at 1 (App. G.1)'
    for kind, tokens in LENGTHS.items():
        for each in {each.kind for each in outcome.seen if each.kind.rstrip('12') == kind}: assert outcome.lengths(each) == {tokens}
    assert outcome.in_order('decompose', 'detect', 'merge')
    if ENTRIES[id].before and 'prompts export' in ENTRIES[id].before[-1]:  # what a person pasted arrives
        for kind in {*PASTED} & {*outcome.counts()}: assert all(prompt.startswith(PASTED_MARK[:10])
                                                    for prompt in outcome.prompts(kind)), kind
    measured = outcome.cells.filter(outcome.cells['status'] == 'measured')
    if id in ROWS: assert measured['n'].max() == ROWS[id] or measured['n'].drop_nulls().is_in([TEST, 20*TEST]).any()


@cache
def table4(folder: Path) -> tuple: return (on_the_wire(ENTRIES['final/table4'], small_files(folder, TEST, DEV), folder, say),
                                           load(str(folder/'final.jsonl')))


def as_published(kind: str, **values: str) -> str:
    "The authors' files, filled as their code fills them: the first one's fields, then the second one, as it is."
    folder = next(path for path in PUBLISHED.rglob(kind) if path.is_dir())
    text = (folder/'prompt.txt').read_text(encoding='utf-8')
    for name, value in values.items(): text = text.replace('{' + name + '}', value)
    past = folder/'past_text_prompt.txt'
    return text + '\n\n' + past.read_text(encoding='utf-8').strip() if past.is_file() else text


def test_the_authors_prompts_arrive_byte_for_byte(tmp_path_factory):
    outcome, rows = table4(tmp_path_factory.mktemp('wire'))
    for kind, formula in VARIANTS.items():
        part = rows if formula == 'dev + test' else rows.filter(rows['split'] == 'dev')
        assert outcome.prompts(kind) == {as_published(kind, text=row['text'], summary=row['summary']) for row in part.to_dicts()}, kind
    hinted = as_published('cot2', text='TEXT', summary='SUMMARY')  # H.2.4: a sentence more, and the line on None less
    lines = hinted.replace('a summary.', f'a summary. {PASTED_HINT}', 1).split('\n')
    wanted = '\n'.join(line for line in lines if 'None' not in line).rstrip('\n')
    assert outcome.prompts('cot2_hint') == {wanted.replace('TEXT', row['text']).replace('SUMMARY', row['summary'])
                                            for row in rows.filter(rows['split'] == 'test').to_dicts()}
    judged = [each.call for each in outcome.seen if each.kind == 'match' and 'Found by zero_shot' in each.call.prompt]
    assert {call.body['model'] for call in judged} == {'gpt-4o-2024-11-20'}, 'the judge is GPT-4o (§ 4.2)'
    gold = {split: rows.filter((rows['split'] == split) & (rows['gold'].list.len() > 0)).height for split in ('dev', 'test')}
    assert len(judged) == 4*(2*gold['dev'] + gold['test']), 'each list that has something to match, once'
