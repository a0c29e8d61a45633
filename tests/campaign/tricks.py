"""Texts against a source each, by `factlab check`, written to trip it: one not borne out is wrong where it is FACTUAL, a true one where
it is NOT FACTUAL.

Most copy their source and leave out, exchange or move what matters. `trick_texts.jsonl` was in view when rules were mended; the other file
was written afterwards, without knowing them.
"""
import json
import random
from functools import cache, partial
from pathlib import Path

import polars as pl
from trials import Kinds, Trials

from factlab.text.word_forms import added_words
from factlab.verification.checking import check


@cache
def checked(name: str) -> pl.DataFrame:
    "The texts of a file as the command's default sees them: source, text, true, verdict, and whether the source has all their words."
    sources = map(json.loads, Path(__file__).with_name(name).read_text(encoding='utf-8').splitlines())
    rows = pl.DataFrame([
        {'source': one['source'], 'text': text, 'true': truth == 'true'}
        for one in sources for truth in ('false', 'true') for text in one.get(truth, ())
    ]).with_columns(id=pl.int_range(pl.len()).cast(pl.String))
    verdicts = check(rows.select('id', 'source', 'text')).texts.select('id', 'verdict')
    copied = [not added_words(source, text) for source, text in rows.select('source', 'text').iter_rows()]
    return rows.join(verdicts, on='id', maintain_order='left').with_columns(copied=pl.Series(copied))


def tried(name: str, true: bool, _: random.Random) -> Trials:
    rows, wrong = checked(name).filter(true=true), 'not factual' if true else 'factual'
    for text, verdict in rows.select('text', 'verdict').iter_rows(): yield repr(text)*(verdict == wrong)
    told = {verdict: rows['verdict'].eq(verdict).sum() for verdict in ('factual', 'undecided', 'not factual')}
    said = ', '.join(f'{verdict.upper()} {count}' for verdict, count in told.items())
    return f'{said}; all words stand in the source: {rows["copied"].sum()}'


KINDS: Kinds = {f'{kind}, {"borne out" if true else "not borne out"}': partial(tried, f'{name}.jsonl', true)
                for kind, name in (('seen', 'trick_texts'), ('unseen', 'unseen_tricks')) for true in (False, True)}
