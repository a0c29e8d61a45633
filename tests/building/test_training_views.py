"""What each trained part sees of data of LLM-OASIS' shape, against plain loops over the same rows."""
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from letters import Letters
from statsmodels.stats.proportion import proportion_confint

from factlab.building.training_views import (
    MissingLabel,
    TrainingData,
    check_labels,
    extraction_pairs,
    held_out_pages,
    mine_neutral,
    new_words,
    nli_triplets,
    related_passages,
    resource_sizes,
    retriever_pairs,
    rule_cells,
    step_boxes,
    token_counts,
    without_neighbours,
)
from factlab.core.core import DataError, ModelError, UsageError
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


def test_without_a_limit_neutral_evidence_is_the_page_s_passage_with_the_highest_probability(sample):
    few, verifier, expected = sample.head(12), LettersOf(), []
    for row in few.iter_rows(named=True):
        if not row['page_passages']: continue
        for claim in row['claims']:
            scores = verifier.probabilities([(passage, claim) for passage in row['page_passages']])[:, 1]
            expected.append((claim, row['page_passages'][int(scores.argmax())]))
    found = mine_neutral(few, verifier, related=None, min_neutral=0)
    assert expected and found.select('claim', 'evidence').rows() == expected
    assert found['label'].unique().to_list() == ['NEUT']
    assert nli_triplets(few, found).height == nli_triplets(few).height + found.height


def cosine(one: str, other: str) -> float:
    return float(np.dot(*Letters().encode([one, other])))


def test_candidates_are_the_nearest_passages_of_the_page(sample):
    few = sample.head(12)
    found = related_passages(few, 2, Letters())
    for row in few.iter_rows(named=True):
        for at, claim in enumerate(row['claims']):
            likeness = sorted((cosine(claim, passage) for passage in row['page_passages']), reverse=True)[:2]
            mine = found.filter(id=row['id'], at=at)
            assert np.allclose(mine['likeness'], likeness, atol=1e-5) and set(mine['evidence']) <= set(row['page_passages'])


def test_candidates_from_elsewhere_are_nearest_of_other_pages_of_the_split(sample):
    cut = held_out_pages(sample)
    found = related_passages(cut, 3, Letters(), elsewhere=True)
    assert found.group_by('id', 'at').len()['len'].unique().to_list() == [3]
    home = {row['passage']: (row['page'], row['split']) for row in cut.iter_rows(named=True)}
    assert all(home[row['evidence']][0] != row['page'] and home[row['evidence']][1] == row['split'] for row in found.iter_rows(named=True))
    for row in found.head(30).iter_rows(named=True):
        others = [cosine(row['claim'], text) for text, (page, split) in home.items() if page != row['page'] and split == row['split']]
        assert row['likeness'] >= sorted(others)[-3] - 1e-5


class NeutralWhen:
    "P(NEUT) is .8 for evidence that holds a word, .3 for other evidence."
    name, identity = 'scripted', {'backend': 'scripted'}
    def __init__(self, word): self.word = word
    def probabilities(self, pairs, store=None):
        neutral = np.array([.8 if self.word in evidence else .3 for evidence, _ in pairs])
        return np.stack([(1 - neutral)/2, neutral, (1 - neutral)/2], 1)


def test_only_what_the_verifier_calls_neutral_is_kept_and_of_equals_the_nearest(sample):
    few, candidates = sample.head(12), related_passages(sample.head(12), 3, Letters())
    found = mine_neutral(few, NeutralWhen(' in '), related=3, encoder=Letters())
    kept = candidates.filter(pl.col('evidence').str.contains(' in ', literal=True)).unique(['id', 'at'], keep='first', maintain_order=True)
    assert 0 < found.height and found.select('claim', 'evidence').rows() == kept.select('claim', 'evidence').rows()
    assert (found['neutrality'] == .8).all() and mine_neutral(few, NeutralWhen('no such word'), encoder=Letters()).is_empty()


@pytest.mark.parametrize('scores, said', [([.9, .0, .1], 'gives no probability to NEUT'), ([.4, .6, .0], 'least similar')])
def test_what_cannot_tell_neutral_is_refused_by_name(sample, scores, said):
    class Scorer:
        name, identity = 'a scorer', {'backend': 'cosine' if 'least' in said else 'seq2seq'}
        def probabilities(self, pairs, store=None): return np.tile(scores, (len(pairs), 1))
    with pytest.raises(UsageError, match=said): mine_neutral(sample.head(2), Scorer(), encoder=Letters())
    assert mine_neutral(sample.head(2), Scorer(), encoder=Letters(), min_neutral=0).height  # the old way, when asked for


def test_a_missing_label_is_an_error_that_names_it(sample):
    alone = sample.with_columns(page_passages=pl.lit([], pl.List(pl.String)))
    pairs = nli_triplets(alone, mine_neutral(alone, LettersOf(), encoder=Letters()))
    with pytest.raises(MissingLabel, match='label NEUT .*neutral_from=corpus'): check_labels(pairs)
    assert 'NEUT' in check_labels(pairs, allow_missing=True)[0]
    mined = mine_neutral(alone, NeutralWhen(' '), encoder=Letters(), elsewhere=True)
    assert not check_labels(nli_triplets(alone, mined)) and mined['id'][0].partition('|')[2].startswith('elsewhere ')
    only_dev = pairs.with_columns(split=pl.when(pl.col('label') == 'CONTR').then(pl.lit('dev')).otherwise(pl.lit('train')))
    with pytest.raises(MissingLabel, match='NEUT or CONTR'): check_labels(only_dev)


def test_data_with_one_passage_a_page_says_so_on_cards(sample):
    alone = sample.with_columns(page_passages=pl.lit([], pl.List(pl.String)))
    assert not without_neighbours(sample) and not any('one passage a page' in limit for limit in TrainingData('x', sample).limits)
    assert any('one passage a page' in limit for limit in TrainingData('x', alone).limits)


@pytest.mark.parametrize('scores', [np.zeros((1, 3)), np.full((10_000, 3), np.nan)])
def test_scores_of_another_shape_or_not_numbers_are_refused(sample, scores):
    class Broken:
        def probabilities(self, pairs, store=None): return scores[:len(pairs)]
    with pytest.raises(ModelError, match='expected three probabilities'): mine_neutral(sample.head(12), Broken(), encoder=Letters())


def test_views_of_nothing_are_empty(sample):
    nothing = sample.head(0)
    mined = [mine_neutral(nothing, LettersOf(), encoder=Letters(), elsewhere=elsewhere) for elsewhere in (False, True)]
    for view in (extraction_pairs(nothing), retriever_pairs(nothing), nli_triplets(nothing), *mined):
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
    assert cells['Claim Extraction', 'Claims']['measured'] == len(claims)
    assert cells['Claim Extraction', 'Avg. Claims per Passage']['measured'] == pytest.approx(len(claims)/sample.height)
    words = [len(re.findall(r'\w+|[^\w\s]', claim)) for claim in claims]
    mean = cells['Claim Extraction', 'Avg. Tokens per Claim']
    assert mean['measured'] == pytest.approx(np.mean(words)) and mean['low'] < mean['measured'] < mean['high'] and mean['n'] == len(claims)


@given(st.integers(1, 200), st.data())
def test_shares_of_rules_have_wilson_intervals(n, data):
    kept = data.draw(st.integers(0, n))
    cell, = rule_cells(pl.DataFrame({'rule': ['json'], 'kept': [kept], 'n': [n], 'share': [kept/n]}), 'x')
    low, high = proportion_confint(kept, n, method='wilson')
    assert cell['low'] == pytest.approx(low, abs=1e-9) and cell['high'] == pytest.approx(high, abs=1e-9) and cell['measured'] == kept/n


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
