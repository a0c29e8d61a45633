"The written passages: what ships is sound, damaged lines are named, and no label can be told from the evidence alone."
import json
import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.data.corpora import load_oasis_sample
from factlab.training.edited_pairs import content_words
from factlab.training.written_passages import (
    ELSEWHERE,
    FORMS,
    WRITTEN,
    known_passages,
    known_texts,
    load_written,
    with_changes,
    written_pairs,
)

MILL = {'topic': 'Tidal mill', 'style': 'encyclopedia',
        'sentences': ['The tidal mill at Horn was built by monks.', 'It ground barley until a storm broke its wheel.',
                      'A baker owns it today.'],
        'facts': [{'at': 0, 'old': 'monks', 'new': 'sailors', 'claim': 'Monks put up the mill of Horn.',
                   'altered': 'Sailors put up the mill of Horn.'},
                  {'at': 1, 'old': 'a storm', 'new': 'a flood', 'claim': "Wind ruined the wheel of Horn's mill.",
                   'altered': "High water ruined the wheel of Horn's mill."},
                  {'at': 1, 'old': 'barley', 'new': 'maize', 'claim': 'The mill at Horn worked barley.',
                   'altered': 'The mill at Horn worked maize.'}]}


def frame(*rows): return WRITTEN.frame([{'id': f'w{at}', **row} for at, row in enumerate(rows)])


def test_labels_follow_from_whether_the_evidence_tells_the_claim():
    "Worked out anew from the words alone: which of the two forms stands in the evidence, or neither."
    pairs = written_pairs(frame(MILL))
    assert len(pairs) >= 16
    for row in pairs.iter_rows(named=True):
        fact = next(fact for fact in MILL['facts'] if row['claim'] in (fact['claim'], fact['altered']))
        told = {fact['claim']: fact['old'], fact['altered']: fact['new']}
        mine, other = told.pop(row['claim']), *told.values()
        assert row['label'] == ('ENT' if mine in row['evidence'] else 'CONTR' if other in row['evidence'] else 'NEUT'), row
    assert set(pairs['label']) == {'ENT', 'CONTR', 'NEUT'} and set(pairs['kind']) == {'written', 'part', 'silent'}


def test_no_evidence_gives_its_label_away_and_the_seed_decides():
    written = load_written().head(40)
    pairs = written_pairs(written)
    own, supported = pairs.filter(pl.col('kind') != ELSEWHERE), pl.col('label') == 'ENT'
    counts = own.group_by('evidence').agg(ent=supported.sum(), rest=(~supported).sum())
    assert (counts['ent'] == counts['rest']).all() and pairs['id'].is_unique().all()
    assert pairs.equals(written_pairs(written)) and not pairs.equals(written_pairs(written, seed=1))
    assert pairs.group_by('claim', 'evidence').len()['len'].max() == 1


def test_both_claims_of_a_fact_meet_one_passage_on_something_else():
    written = load_written().head(40)
    pairs = written_pairs(written)
    own = {claim: row['id'] for row in written.iter_rows(named=True) for fact in row['facts'] for claim in (fact['claim'], fact['altered'])}
    far, near = pairs.filter(kind=ELSEWHERE), pairs.filter(pl.col('kind') != ELSEWHERE)
    assert set(far['label']) == {'NEUT'} and sorted(far['claim']) == sorted(own)
    assert (near['claim'].replace_strict(own) == near['id'].str.slice(0, 12)).all()  # a pair is named after the passage of its evidence
    assert (far['claim'].replace_strict(own) != far['id'].str.slice(0, 12)).all() and set(far['evidence']) <= set(near['evidence'])
    met = dict(far.select('claim', 'evidence').iter_rows())
    assert all(met[fact['claim']] == met[fact['altered']] for row in written.iter_rows(named=True) for fact in row['facts'])
    both = far.select('evidence', 'group').unique().join(near.select('evidence', own='group').unique(), on='evidence')
    assert both.filter(pl.col('group') != pl.col('own')).is_empty()


def test_the_nearest_passage_on_something_else_is_that_of_the_same_words():
    inn = {'topic': 'Inn', 'style': 'encyclopedia', 'sentences': ['An inn by the ford served travellers.', 'Its cellar flooded.'],
           'facts': [{'at': 0, 'old': 'the ford', 'new': 'the lock', 'claim': 'Travellers ate at an inn beside a ford.',
                      'altered': 'Travellers ate at an inn beside a lock.'}]}
    bakery = inn | {'topic': 'Bakery', 'sentences': ['A baker of Horn sold barley bread.', 'He closed early.'],
                    'facts': [{'at': 0, 'old': 'barley', 'new': 'maize', 'claim': 'Barley bread was sold in Horn.',
                               'altered': 'Maize bread was sold in Horn.'}]}
    far = written_pairs(frame(MILL, inn, bakery), near=1).filter(kind=ELSEWHERE)
    barley = far.filter(pl.col('claim') == 'The mill at Horn worked barley.')
    assert barley['group'].to_list() == ['written/Bakery']
    with pytest.raises(UsageError, match='1 or more'): written_pairs(frame(MILL, inn), near=0)


def test_what_ships_is_sound_and_about_nothing_that_is_measured():
    written, sample = load_written(), load_oasis_sample()
    assert len(written) >= 500 and written['topic'].str.to_lowercase().is_unique().all()
    assert not set(written['topic'].str.to_lowercase()) & set(sample['page'].str.to_lowercase())
    measured = [content_words(text) for row in sample.iter_rows(named=True) for text in (*row['claims'], row['falsified'])]
    for row in written.iter_rows(named=True):
        for fact in row['facts']:
            words = content_words(fact['claim'])
            assert not any(len(words & other) > .8*len(words | other) for other in measured), fact
    facts = written.explode('facts', empty_as_null=False).unnest('facts')
    negated = [facts[name].str.contains(r"(?i)\bnot?\b|n't\b|\bnever\b").mean() for name in ('claim', 'altered')]
    assert abs(negated[0] - negated[1]) < .05
    assert abs(facts['claim'].str.len_chars().mean()/facts['altered'].str.len_chars().mean() - 1) < .05


FACT = MILL['facts'][0]


@pytest.mark.parametrize('change, expected', [
    ({'topic': ''}, 'missing or empty'), ({'more': 1}, 'expected the fields'), ({'sentences': 'The mill.'}, 'must be lists'),
                                              ({'facts': []}, 'must be lists'),
    ({'facts': [FACT | {'at': 7}]}, 'sentence 7'), ({'facts': [FACT | {'at': '0'}]}, 'the number of its sentence'),
                                              ({'facts': [FACT | {'at': -1}]}, 'sentence -1'),
    ({'facts': [FACT | {'old': 'nuns'}]}, 'stands 0 times'), ({'facts': [FACT | {'old': 'm'}]}, 'times in sentence 0'),
                                              ({'facts': [FACT | {'altered': FACT['claim']}]}, 'the same'),
    ({'facts': [FACT, FACT | {'claim': 'x'}]}, 'stands 0 times'), ({'facts': [FACT | {'new': None}]}, 'missing or empty'),
                                              ({'facts': ['x']}, 'the number of its sentence')])
def test_a_damaged_line_is_named(tmp_path, change, expected):
    file = tmp_path/'passages.jsonl'
    file.write_text('\n'.join(json.dumps(row) for row in (MILL, MILL | change)), encoding='utf-8')
    with pytest.raises(DataError, match=re.escape(expected)) as raised: load_written(file)
    assert 'line 2' in str(raised.value)


words = st.text('abcdefgh', min_size=3, max_size=6)


@given(st.lists(words, min_size=4, max_size=12, unique=True), st.data())
def test_changes_touch_nothing_else(tokens, data):
    at = data.draw(st.integers(0, len(tokens) - 1))
    sentence = ' '.join(tokens)
    fact = {'at': 0, 'old': tokens[at], 'new': 'ZZ'}
    if sentence.count(tokens[at]) > 1:
        with pytest.raises(DataError, match='times'): with_changes([sentence], [fact])
    else: assert with_changes([sentence, sentence], [fact]) == [' '.join([*tokens[:at], 'ZZ', *tokens[at + 1:]]), sentence]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 50))
def test_texts_of_known_truth_differ_from_their_twin_in_one_fact_alone(seed):
    texts, at = known_texts(frame(MILL), seed), {}
    assert texts['id'].n_unique() == 4 and texts['group'].unique().to_list() == ['Tidal mill']
    for form in FORMS:
        true, false = (texts.filter(form=form, factual=factual)['text'].item() for factual in (True, False))
        told, changed = ('claim', 'altered') if form == 'reworded' else ('old', 'new')
        at[form], = (number for number, fact in enumerate(MILL['facts']) if true.replace(fact[told], fact[changed]) == false != true)
        assert known_passages(frame(MILL), form)['text'].item() == texts.filter(pl.col('form') != form, factual=True)['text'].item()
    assert at[FORMS[0]] == at[FORMS[1]] and known_texts(frame(MILL), seed).equals(texts)
    with pytest.raises(UsageError, match='own words'): known_passages(frame(MILL), 'claims')
