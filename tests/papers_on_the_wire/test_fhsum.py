"""FHSumBench with the paper's parameters: what arrives at a server is what §§ 4, 5.2 and Appendices A.3, C.3 say."""
import json
import re
from pathlib import Path

import numpy as np
import pytest
from on_the_wire import check, on_the_wire

from factlab.mixed_context.labels import NONE
from factlab.models.prompt_folders import folder_prompts
from factlab.reports.redo import redo_entries
from factlab.studies.fhsum.redo import DATA, FOLDER, PASTED_MARK, small_files
from factlab.studies.fhsum.study import Settings

ENTRIES = redo_entries('fhsum')
SUMMARIES, DEVELOPMENT = 3, 6
VALUES = {'summaries': SUMMARIES, 'dev': DEVELOPMENT, 'claims': 2*SUMMARIES}  # two claims of each, below
DIRECT = {'*vanilla': 'models*summaries', '*icl': 'models*summaries', '*cot': 'models*summaries'}  # § 4.1
TAKEN_APART = {'*claims': 'summaries + dev'}  # § A.3: once for all judges, the verifier's among them
KNOWING = {'*knowledge': 'models*summaries'}  # § 4.2
# a query for each claim; each beside the document and beside what is known, once for both judges
CHECKING = {'*query': 'models*claims', '*relation': '2*models*claims'}
REFLECTING = {'*reflection': 'models*summaries'}  # on the claim about which the document is silent
RETRIEVAL = TAKEN_APART | KNOWING | CHECKING | REFLECTING
FIGURE = DIRECT | RETRIEVAL
COT = {'*cot': 'summaries'}
# by exhibit: models that arrive, those that judge, and how often they are asked
ASKED = {
    'fhsum/table1': (3, 3, DIRECT), 'fhsum/table2': (3, 3, RETRIEVAL),
    'fhsum/table3': (3, 3, TAKEN_APART | {'*query': 'models*claims'} | REFLECTING),
    'fhsum/table6': (3, 3, FIGURE), 'fhsum/table7': (8, 7, FIGURE), 'fhsum/fig4': (1, 1, FIGURE),
    'fhsum/fig6': (2, 1, FIGURE), 'fhsum/fig7': (2, 1, FIGURE), 'fhsum/fig8': (2, 1, FIGURE),
    'fhsum/table8': (1, 1, {'vanilla': '1', 'icl': '1', 'cot': '1', 'claims': '1', 'knowledge': '1', 'query': '2', 'relation': '4',
                            'reflection': '1'}),
    'fhsum/casestudy': (1, 1, COT | {'claims': 'summaries'} | CHECKING | REFLECTING),
    # ours: three sets, and the sample's 60 development rows for all; a question in two orders on each hallucinated span
    'fhsum/transfer': (1, 1, {'vanilla': '3*summaries', 'icl': '3*summaries', 'cot': '3*summaries', 'knowledge': '3*summaries',
                              'claims': '3*summaries + 60', 'query': '3*claims', 'relation': '6*claims', 'reflection': '3*summaries'}),
    'fhsum/noticing': (1, 1, DIRECT | {'ptrue': '2*spans'}),
}
LENGTHS = {'vanilla': 30, 'icl': 30, 'knowledge': 30, 'relation': 80}  # of the authors' code


class Reading:
    "A verifier that counts common words, in the place of the trained one: what models are asked does not hang on it."
    name, identity = 'words in common', {'verifier': 'words in common'}

    def probabilities(self, pairs, store=None) -> np.ndarray:
        shares = [len({*claim.split()} & {*evidence.split()})/len({*claim.split()}) for evidence, claim in pairs]
        return np.float32([(.9*share + .05, .9*(1 - share), .05) for share in shares]).reshape(-1, 3)


@pytest.fixture(autouse=True)
def no_weights(monkeypatch): monkeypatch.setattr('factlab.studies.base.load_verifier', lambda name: Reading())


def filled(prompt: str) -> dict[str, str]:
    "The text, the claim and the evidence that a prompt ends with, behind its examples."
    return dict(re.findall(r'<(text|claim|evidence)>\n(.*?)\n</\1>', prompt, re.DOTALL))


KNOWN = 'A thing that is known.'


def say(kind: str, example: str, call) -> str|None:
    "Two claims of each summary; of the second the document says nothing, and knowledge contradicts it."
    last = filled(call.prompt)
    if kind == 'claims': return '{}.\nIt was said that {}.'.format(*(last['text'].rstrip('.'),)*2)
    if kind in ('query', 'reflection'): return 'what is known of these names'
    if kind == 'entity': return KNOWN
    if kind != 'relation': return None
    added, known = last['claim'].startswith('It was said'), KNOWN in last['evidence']
    relation = 'Support' if not added else 'Contradict' if known else 'None'
    return f'Rationale: none\nRelevant: {"No" if relation == "None" else "Yes"}\nRelation: {relation}'


@pytest.fixture(scope='module')
def files(tmp_path_factory) -> dict[str, str]: return small_files(tmp_path_factory.mktemp('fhsum'), SUMMARIES, DEVELOPMENT)


def test_every_exhibit_that_asks_a_model_is_checked():
    assert {id for id, entry in ENTRIES.items() if entry.models} == {*ASKED}


@pytest.mark.parametrize('id', ASKED)
def test_an_exhibit_as_the_paper_asks(id, files, tmp_path):
    arrive, judge, expected = ASKED[id]
    known = [*folder_prompts(files[FOLDER], Settings.PROMPTS).values()]
    outcome = on_the_wire(ENTRIES[id], files, tmp_path, say, known)
    rows = [json.loads(line) for line in Path(files[DATA]).read_text(encoding='utf-8').splitlines()]
    check(outcome, expected, VALUES | {'models': judge, 'spans': sum(row['label'] != NONE for row in rows)}, of=arrive)
    assert '?' not in outcome.counts() and outcome.decoding() == {.7}
    for kind, tokens in LENGTHS.items(): assert outcome.lengths(kind) <= {tokens}
    for each in outcome.seen: assert each.kind == 'ptrue' or PASTED_MARK in each.call.prompt, 'the printed words, pasted into the folder'
    writers = {each.model for each in outcome.seen if each.kind in ('claims', 'entity')}
    assert writers <= {'gpt-4o'}, 'claims by one model (§ A.3), knowledge by GPT-4o (§ C.3), whoever judges'
    assert outcome.in_order('entity', 'knowledge') and all(KNOWN in prompt for prompt in outcome.prompts('knowledge'))
    first = {(each.model, each.kind, filled(each.call.prompt).get('claim')): at for at, each in reversed([*enumerate(outcome.seen)])}
    for (model, kind, claim), at in first.items():  # § 4.2: a query, what is found, and only then a reflection
        if kind == 'reflection': assert first[model, 'query', claim] < first[model, 'relation', claim] < at
