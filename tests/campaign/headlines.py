"""Texts against a corpus, by `factlab verify`: one not borne out is wrong where it is FACTUAL, a true one where it is NOT FACTUAL.

The parts are those of the command's default.
"""
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import polars as pl
from trials import Kinds, Trials

from factlab.data.corpora import load_oasis_sample
from factlab.text.word_forms import added_words
from factlab.verification.pipeline import open_search, verify_texts

SUBJECTS = ('Penguins', 'Napoleon', 'The moons of Jupiter', 'Two Finnish plumbers', 'Most umbrellas', 'My aunt', 'The Aztecs')
DEEDS = ('invented the telephone', 'sleep under the Kremlin', 'won the war of 1977', 'eat granite', 'were sold for 12 dollars',
         'sing in Latin')
Form = Callable[[str, str], str]  # of a claim that is borne out, and of one that nothing says, both without their full stop

def inner(claim: str) -> str:
    "A sentence as it stands within another."
    return claim if re.match(r'\w*[A-Z]\w*[A-Z]|[A-Z]\b', claim) else claim[0].lower() + claim[1:]

ADDED: dict[str, Form] = {
    'behind': lambda claim, other: f'{claim}. {other}.', 'before': lambda claim, other: f'{other}. {claim}.',
    'bracketed': lambda claim, other: f'{claim} ({inner(other)}).', 'joined': lambda claim, other: f'{claim}, and {inner(other)}.',
    'conceded': lambda claim, other: f'Although {inner(other)}, {inner(claim)}.',
    'semicolon': lambda claim, other: f'{claim}; {inner(other)}.',
    'as a reason': lambda claim, other: f'{claim} because {inner(other)}.',
    'asked': lambda claim, other: f'{claim}. Did you know that {inner(other)}?',
    'quoted': lambda claim, other: f'{claim}. "{other}," said Anna.', 'shouted': lambda claim, other: f'{claim}. {other.upper()}!!!',
    'listed': lambda claim, other: f'- {claim}.\n- {other}.\n', 'heading': lambda claim, other: f'# {other}\n\n{claim}.',
    'tabled': lambda claim, other: f'{claim}.\n\n| who | what |\n|---|---|\n| {other.split()[0]} | {" ".join(other.split()[1:])} |\n',
    'code': lambda claim, other: f'{claim}.\n```\n{other}.\n```\n', 'marked up': lambda claim, other: f'{claim}. <b>{other}.</b>',
    'last line': lambda claim, other: f'{claim}.\n{other}', 'hidden': lambda claim, other: f'{claim}.\u200b{other}.',
    'footnote': lambda claim, other: f'{claim}.[1]\n\n[1] {other}.', 'reported': lambda claim, other: f'{claim}, as {inner(other)} proved.'}
TURNED: dict[str, Form] = {
    'false that': lambda claim, _: f'It is false that {inner(claim)}.', 'nobody': lambda claim, _: f'Nobody believes that {inner(claim)}.',
    'until': lambda claim, _: f'{claim} until 1990, when this ended.', 'elsewhere': lambda claim, _: f'Only on Mars, {inner(claim)}.',
    'never': lambda claim, _: f'{claim}, but never on Earth.', 'myth': lambda claim, _: f'It is a myth that {inner(claim)}.',
    'denied': lambda claim, _: f'{claim}? No.', 'disproved': lambda claim, _: f'The idea that {inner(claim)} has been disproved.'}


OPPOSITES = dict((pair, turn) for both in (
    'first last', 'before after', 'largest smallest', 'most few', 'higher lower', 'hot cold', 'north south', 'east west', 'above below',
    'rich poor', 'wet dry', 'always never', 'only also', 'all none', 'public private', 'left right', 'outside inside', 'old new',
    'more less', 'demanded forbade', 'red blue', 'gold tin', 'liquid solid', 'day night', 'evaporation rain', 'arms head', 'new full')
    for pair, turn in (both.split(), both.split()[::-1]))
NAMES = ('Napoleon', 'Bolivia', 'Cromwell', 'Saturn', 'Lisbon', 'Edison')


def negated(claim: str, _: random.Random) -> str:
    return re.sub(r'\b(is|are|was|were|has|have|had|can|could|may|must)\b(?! not)', r'\1 not', claim, count=1)

def another_number(claim: str, draws: random.Random) -> str:
    return re.sub(r'\d+', lambda found: str(int(found[0]) + draws.randint(1, 40)), claim, count=1)

def another_name(claim: str, draws: random.Random) -> str:
    return re.sub(r'(?<=[a-z,] )[A-Z][a-z]+', draws.choice(NAMES), claim, count=1)

def opposite(claim: str, _: random.Random) -> str:
    return re.sub(r'\b(' + '|'.join(OPPOSITES) + r')\b', lambda found: OPPOSITES[found[0]], claim, count=1)

def exchanged(claim: str, draws: random.Random) -> str:
    "Two names or two numbers of a claim, each in the other's place."
    for pattern in draws.sample((r'(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*', r'\d[\d,.]*\d'), 2):
        found = [one for one in re.finditer(pattern, claim) if claim.count(one[0]) == 1]
        if len(found) < 2: continue
        one, other = sorted(draws.sample(found, 2), key=re.Match.start)
        return claim[:one.start()] + other[0] + claim[one.end():other.start()] + one[0] + claim[other.end():]
    return claim

def verified(texts: list[str], wrong: str = 'factual') -> Generator[str, None, str]:
    "Texts by the command's default, each on its own; the note says what came of them, and of a rule that asks for their words alone."
    rows = pl.DataFrame({'id': [str(at) for at in range(len(texts))], 'text': texts})
    found = verify_texts(rows, 'sample')
    for text, verdict in zip(texts, found.texts['verdict'], strict=True): yield repr(text) if verdict == wrong else ''
    passages, search = open_search('sample')
    firsts = passages['text'].gather(search.search(texts, 1).ids[:, 0])
    by_words = sum(not added_words(passage, text) for passage, text in zip(firsts, texts, strict=True))
    return f'FACTUAL {found.texts["verdict"].eq("factual").sum()}; all words stand in the first passage: {by_words}'


def true_claims(_: random.Random) -> Trials:
    "True claims of the sample: wrong where one is NOT FACTUAL."
    return (yield from verified([claim for own in load_oasis_sample()['claims'] for claim in own], 'not factual'))


def altered(change: Callable[[str, random.Random], str], draws: random.Random) -> Trials:
    "True claims of the sample with one thing changed."
    claims = [claim for own in load_oasis_sample()['claims'] for claim in own]
    return (yield from verified([text for claim in claims if (text := change(claim, draws)) != claim]))


def written(name: str, wrong: str, _: random.Random) -> Trials:
    "Texts of many kinds that were written without knowing what is looked at, against the sample or passages of their own."
    rows = [json.loads(line) for line in Path(__file__).with_name(name).read_text(encoding='utf-8').splitlines()]
    told: Counter[str] = Counter()
    for corpus, own in groupby(rows, key=itemgetter('corpus')):
        texts = [row['text'] for row in own]
        known = 'sample' if corpus is None else pl.DataFrame({'id': [str(at) for at in range(len(corpus))], 'page': 'p', 'text': corpus})
        found = verify_texts(pl.DataFrame({'id': [str(at) for at in range(len(texts))], 'text': texts}), known).texts['verdict']
        told.update(found)
        yield from (repr(text)*(verdict == wrong) for text, verdict in zip(texts, found, strict=True))
    return f'FACTUAL {told["factual"]}, UNDECIDED {told["undecided"]}, NOT FACTUAL {told["not factual"]}'


def borne_out() -> list[str]:
    "True claims of the sample that are FACTUAL alone, without their full stop."
    claims = load_oasis_sample().select(id='id', text=pl.col('claims').list.get(pl.col('altered')))
    found = verify_texts(claims, 'sample')
    return claims.join(found.texts.filter(verdict='factual'), on='id')['text'].str.strip_chars_end('.').to_list()


def around(forms: dict[str, Form], draws: random.Random) -> Trials:
    claims = borne_out()
    other = lambda: f'{draws.choice(SUBJECTS)} {draws.choice(DEEDS)}'
    return (yield from verified([form(claim, other()) for form in forms.values() for claim in claims]))


CHANGES = (negated, another_number, another_name, opposite, exchanged)
KINDS: Kinds = {'true claims': true_claims, 'something added': partial(around, ADDED), 'turned round': partial(around, TURNED),
                'written by hand': partial(written, 'written_texts.jsonl', 'factual'),
                'true, written by hand': partial(written, 'true_texts.jsonl', 'not factual')} | {
                    change.__name__.replace('_', ' '): partial(altered, change) for change in CHANGES}
