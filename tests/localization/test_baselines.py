"""Localizers that know nothing, against literal loops; as methods of runs; and what they score by hand."""
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from localization.test_methods import NASTY
from localization.test_rejected_claims import Dice, claims_of, extractor

from factlab.localization.baselines import (
    ABSENT_NAMES,
    EVERY_NAME,
    EVERY_SENTENCE,
    NOTHING_FOUND,
    VAGUE_CONSTANT,
    VAGUE_SENTENCE,
    EveryClaim,
    OtherGold,
    RandomClaims,
    describe_unsupported,
)
from factlab.localization.classifiers import claim_support
from factlab.localization.methods import PREDICTIONS
from factlab.localization.rejected_claims import RejectedClaims, as_clause
from factlab.runs.plan import make_run
from factlab.text.sentences import split_sentences
from factlab.verification.extraction import BY_PASSAGE


def frame(summaries, gold=None) -> pl.DataFrame:
    summaries = list(summaries)
    texts = [f'Text {i}. It is short.' for i in range(len(summaries))]
    return pl.DataFrame({'id': [f'r{i}' for i in range(len(summaries))], 'text': texts,
                         'summary': summaries, 'gold': gold if gold is not None else [[f'error {i}'] for i in range(len(summaries))]},
                        schema={'id': pl.String, 'text': pl.String, 'summary': pl.String, 'gold': pl.List(pl.String)})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=5))
def test_rules_on_any_summary(summaries):
    rows = frame(summaries)
    def sentences(summary): return [f'The text does not say that {as_clause(sentence)}.' for sentence in split_sentences(summary)]
    for baseline, expected in ((NOTHING_FOUND, lambda s: []), (VAGUE_CONSTANT, lambda s: [VAGUE_SENTENCE]), (EVERY_SENTENCE, sentences)):
        found = PREDICTIONS.check(baseline.predict(rows, None))
        assert found['predicted'].to_list() == [expected(summary) for summary in rows['summary']]
        assert found['id'].equals(rows['id']) and set(found['status']) <= {'ok'} and found['calls'].sum() == 0


def named(rows, method=EVERY_NAME) -> list[list[str]]:
    lists = PREDICTIONS.check(method.predict(rows, None))['predicted'].to_list()
    assert all(each.startswith('The text does not mention ') and each.endswith('.') for found in lists for each in found)
    return [[each.removeprefix('The text does not mention ')[:-1] for each in found] for found in lists]


def test_names_and_numbers_by_hand():
    rows = frame(['Anna Berg of Sweden won 12 medals. Anna Berg lost twelve.', 'Nothing to see here.', ''])
    rows = rows.with_columns(text=pl.Series(['In Norway Anna Berg won a dozen medals, 12 in all.', 'Nothing.', 'Nothing.']))
    assert named(rows) == [['Anna Berg', 'Sweden', '12', 'twelve'], [], []]
    assert named(rows, ABSENT_NAMES) == [['Sweden'], [], []]  # 12 is there, and so is the value of twelve


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=60), st.text(max_size=60)), max_size=4))
def test_names_that_the_text_lacks_are_some_of_all_names(pairs):
    rows = frame([summary for _, summary in pairs]).with_columns(text=pl.Series([text for text, _ in pairs], dtype=pl.String))
    for (text, summary), every, absent in zip(pairs, named(rows), named(rows, ABSENT_NAMES), strict=True):
        assert [name for name in every if name in absent] == absent and len(set(every)) == len(every)
        assert not any(f' {name.lower()} ' in f' {text.lower()} ' for name in absent if name.isalpha() and name.isascii()), (text, summary)


def test_a_summary_of_a_million_characters_has_names_too():
    rows = frame([' '.join(['a'*10_000]*101) + ' in Paris.'])  # few words, or the parser takes most of a minute
    assert named(rows) == [['Paris']]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), st.integers(0, 99), st.integers(0, 3))
def test_every_row_gets_the_gold_of_another(n, seed, repeat):
    rows = frame([f's{i}' for i in range(n)])
    given_to = OtherGold().predict(rows, None, seed=seed, repeat=repeat)['predicted'].to_list()
    if n < 2: assert given_to == [[]]*n; return
    assert Counter(map(tuple, given_to)) == Counter(map(tuple, rows['gold'].to_list()))
    assert all(found != own for found, own in zip(given_to, rows['gold'].to_list(), strict=True))
    assert given_to == OtherGold().predict(rows, None, seed=seed, repeat=repeat)['predicted'].to_list()


def test_another_seed_gives_another_gold():
    rows = frame([f's{i}' for i in range(30)])
    given_to = {str(OtherGold().predict(rows, None, seed=seed, repeat=repeat)['predicted'].to_list())
                for seed in range(5) for repeat in range(2)}
    assert len(given_to) == 10


def test_every_claim_is_what_rejected_claims_reports_when_it_rejects_everything():
    rows = frame(['Alpha wins.', 'Beta loses.', 'Gamma draws.', NASTY])
    model = extractor()
    found = EveryClaim(BY_PASSAGE).predict(rows, model, False)
    rejecting = RejectedClaims(Dice(), threshold=2., form=BY_PASSAGE).predict(rows, model, False)
    expected = [[describe_unsupported(claim) for claim in claims_of(summary)] for summary in rows['summary'].to_list()[:3]]
    assert found['predicted'].to_list()[:3] == expected and sum(map(len, expected)) > 2
    lengths = [part['predicted'].list.len().to_list() for part in (found, rejecting)]
    assert lengths[0] == lengths[1] and found['status'].equals(rejecting['status']) and found['calls'].equals(rejecting['calls'])


def test_claims_that_cannot_be_read_are_unparsed_here_too():
    rows, model = frame(['Alpha wins.', 'Beta loses.']), extractor('')
    for method in (EveryClaim(BY_PASSAGE), RandomClaims(RejectedClaims(Dice(), form=BY_PASSAGE))):
        found = method.predict(rows, model, False)
        assert found['status'].to_list() == ['unparsed']*2 and found['predicted'].null_count() == 2


@pytest.mark.parametrize('threshold', [0., .35, .5, 2.])
@pytest.mark.parametrize('seed', [0, 7])
def test_as_many_claims_are_drawn_as_are_rejected(threshold, seed):
    rows, model = frame([f'Summary number {i} of many.' for i in range(25)]), extractor()
    method = RejectedClaims(Dice(), threshold=threshold, form=BY_PASSAGE)
    rejected, drawn = method.predict(rows, model, False), RandomClaims(method).predict(rows, model, False, seed=seed)
    claims = [claims_of(summary) for summary in rows['summary']]
    support = [claim_support(windows) for windows in method.verify(rows, claims, False)]
    mask = np.concatenate([part < threshold for part in support])
    lot, at = np.random.default_rng([seed, 0]).permutation(mask), 0
    for found, stated in zip(drawn['predicted'].to_list(), claims, strict=True):
        assert found == [describe_unsupported(claim) for claim in stated if (at := at + 1) and lot[at - 1]]
    assert drawn['predicted'].list.len().sum() == rejected['predicted'].list.len().sum() == mask.sum()
    assert (0 < mask.sum() < len(mask)) == (threshold in (.35, .5))


def test_chance_rejects_every_claim_alike():
    rows, model = frame([f'{i:02d} is the number.' for i in range(12)]), extractor()
    method = RejectedClaims(Dice(), threshold=.4, form=BY_PASSAGE)
    everything = EveryClaim(BY_PASSAGE).predict(rows, model, False)['predicted'].list.explode().drop_nulls().to_list()
    drawn = Counter(claim for seed in range(300) for found in RandomClaims(method).predict(rows, model, False, seed=seed)['predicted']
                    for claim in found)
    rate = method.predict(rows, model, False)['predicted'].list.len().sum()/len(everything)
    assert .1 < rate < .9 and all(abs(drawn[claim]/300 - rate) < 4*(rate*(1 - rate)/300)**.5 for claim in everything)


def test_they_make_runs_like_other_methods(home):
    rows, model = frame(['Alpha wins.', 'Beta loses.']), extractor()
    rejecting = RejectedClaims(Dice(), form=BY_PASSAGE)
    methods = [NOTHING_FOUND, VAGUE_CONSTANT, EVERY_SENTENCE, EVERY_NAME, ABSENT_NAMES, OtherGold(), EveryClaim(BY_PASSAGE),
               RandomClaims(rejecting), RandomClaims(RejectedClaims(Dice(), threshold=.1, form=BY_PASSAGE)), rejecting]
    runs = [make_run(rows, method, model, dataset='mine') for method in methods]
    assert len({run.id for run in runs}) == len(methods) and all(run.manifest['schema'] == 'predictions' for run in runs)
    asked = len(model.asked)
    again = [make_run(rows, method, model, dataset='mine') for method in methods]
    assert [run.id for run in again] == [run.id for run in runs] and len(model.asked) == asked
    assert make_run(rows, OtherGold(), model, dataset='mine', seed=1).id != runs[5].id
