"""What each trained part sees of data of LLM-OASIS' shape, against plain loops over the same rows."""
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from factlab.claims.training_views import (
    extraction_pairs,
    held_out_pages,
    mine_neutral,
    new_words,
    nli_triplets,
    resource_sizes,
    retriever_pairs,
    rule_cells,
    step_boxes,
    token_counts,
)
from factlab.core.core import DataError, ModelError
from factlab.data.corpora import OASIS, load_oasis_data


@pytest.fixture(scope='module')
def sample() -> pl.DataFrame:
    return load_oasis_data('sample')


def all_claims(row: dict) -> list[tuple[int | None, str]]:
    return [*enumerate(row['claims']), (None, row['falsified'])]


def test_extraction_pairs_are_passages_with_their_claims(sample):
    expected = {(row['id'], row['passage'], tuple(row['claims'])) for row in sample.iter_rows(named=True)}
    assert {(id, text, tuple(claims)) for id, _, _, text, claims in extraction_pairs(sample).iter_rows()} == expected


def test_retriever_pairs_are_all_claims_with_all_three_texts(sample):
    expected = []
    for row in sample.iter_rows(named=True):
        for at, claim in all_claims(row):
            for text in ('passage', 'factual', 'unfactual'):
                expected.append((row['id'], f'{"falsified" if at is None else "claim"}/{text}', claim, row[text]))
    found = retriever_pairs(sample).select('id', 'kind', 'claim', 'passage').rows()
    assert sorted(found) == sorted(expected)
    assert {kind for _, kind, _, _ in found} == {f'{c}/{t}' for c in ('claim', 'falsified') for t in ('passage', 'factual', 'unfactual')}


def test_triplets_say_what_each_text_says_of_each_claim(sample):
    expected = []
    for row in sample.iter_rows(named=True):
        for at, claim in all_claims(row):
            for text in ('passage', 'factual'):
                expected.append((claim, row[text], 'CONTR' if at is None else 'ENT'))
            if at is None: expected.append((claim, row['unfactual'], 'ENT'))
            elif at == row['altered']: expected.append((claim, row['unfactual'], 'CONTR'))
    found = nli_triplets(sample)
    assert sorted(found.select('claim', 'evidence', 'label').rows()) == sorted(expected)
    assert found['id'].n_unique() == found.height


class LettersOf:
    "Neutrality that anyone can compute: the share of the passage's letters that the claim lacks."
    def probabilities(self, pairs, store=None):
        shares = [len(set(evidence) - set(claim))/len(set(evidence)) for evidence, claim in pairs]
        return np.array([[1 - share, share, 0] for share in shares])


def test_neutral_evidence_is_the_page_s_passage_with_the_highest_probability(sample):
    few, verifier, expected = sample.head(12), LettersOf(), []
    for row in few.iter_rows(named=True):
        if not row['page_passages']: continue
        for claim in row['claims']:
            scores = verifier.probabilities([(passage, claim) for passage in row['page_passages']])[:, 1]
            expected.append((claim, row['page_passages'][int(scores.argmax())]))
    found = mine_neutral(few, verifier)
    assert expected and found.select('claim', 'evidence').rows() == expected
    assert found['label'].unique().to_list() == ['NEUT']
    assert nli_triplets(few, found).height == nli_triplets(few).height + found.height


@pytest.mark.parametrize('scores', [np.zeros((1, 3)), np.full((10_000, 3), np.nan)])
def test_scores_of_another_shape_or_not_numbers_are_refused(sample, scores):
    class Broken:
        def probabilities(self, pairs, store=None): return scores[:len(pairs)]
    with pytest.raises(ModelError, match='expected three probabilities'): mine_neutral(sample.head(12), Broken())


def test_views_of_nothing_are_empty(sample):
    nothing = sample.head(0)
    for view in (extraction_pairs(nothing), retriever_pairs(nothing), nli_triplets(nothing), mine_neutral(nothing, LettersOf())):
        assert view.is_empty()


def test_pages_are_held_out_whole(sample):
    rows = sample.with_columns(split=pl.lit('train'))
    cut = held_out_pages(rows)
    assert cut.group_by('page').agg(pl.col('split').n_unique())['split'].max() == 1
    assert set(cut['split']) == {'train', 'dev'} and cut.drop('split').equals(rows.drop('split'))


def test_one_page_cannot_be_held_out(sample):
    page = sample.filter(pl.col('page') == sample['page'][0]).with_columns(split=pl.lit('train'))
    with pytest.raises(DataError, match='give 3 or more'): held_out_pages(page)
    assert OASIS.check(page).height


# Engines of regular expressions differ on control characters and rare letters.
PRINTED = st.text(st.characters(min_codepoint=32, max_codepoint=591, exclude_categories=['C', 'No', 'Mn']), max_size=60)


@given(st.lists(PRINTED, min_size=1, max_size=8))
def test_tokens_are_those_of_re(texts):
    assert token_counts(pl.Series(texts)).tolist() == [len(re.findall(r'\w+|[^\w\s]', text)) for text in texts]


def test_sizes_are_counts_and_means_of_the_rows(sample):
    cells = {(cell['row'], cell['column']): cell for cell in resource_sizes(sample)}
    claims = [claim for row in sample['claims'] for claim in row]
    assert cells['Claim Extraction', 'Claims']['ours'] == len(claims)
    assert cells['Claim Extraction', 'Avg. Claims per Passage']['ours'] == pytest.approx(len(claims)/sample.height)
    words = [len(re.findall(r'\w+|[^\w\s]', claim)) for claim in claims]
    mean = cells['Claim Extraction', 'Avg. Tokens per Claim']
    assert mean['ours'] == pytest.approx(np.mean(words)) and mean['low'] < mean['ours'] < mean['high'] and mean['n'] == len(claims)


@given(st.integers(1, 200), st.data())
def test_shares_of_rules_have_wilson_intervals(n, data):
    kept = data.draw(st.integers(0, n))
    cell, = rule_cells(pl.DataFrame({'rule': ['json'], 'kept': [kept], 'n': [n], 'share': [kept/n]}), 'x')
    low, high = proportion_confint(kept, n, method='wilson')
    assert cell['low'] == pytest.approx(low, abs=1e-9) and cell['high'] == pytest.approx(high, abs=1e-9) and cell['ours'] == kept/n


@given(st.lists(st.sampled_from('abcdefgh'), max_size=12), st.lists(st.sampled_from('abcdefgh'), max_size=12))
def test_new_words_are_words_of_the_text(text, before):
    shown = new_words(' '.join(text), ' '.join(before)).removesuffix(' …').split()
    assert len(shown) <= 6 and all(word in text for word in shown)
    if text == before: assert shown == []
    if not set(text) & set(before): assert shown == text[:6]


def test_the_altered_claim_is_linked_to_the_three_later_steps(sample):
    item = sample.row(0, named=True)
    boxes, links = step_boxes(item)
    assert len(boxes) == len(item['claims']) + 3
    assert [(link['left'], link['right']) for link in links] == [(f'1.{item["altered"] + 1}', step) for step in '234']
