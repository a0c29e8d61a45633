"Pairs made by program: four combinations, balance, determinism, and no text that tells its label alone."
import os
import random
import subprocess
import sys
from collections import Counter

import polars as pl
import pytest

from factlab.core.core import DataError, ModelError, UsageError
from factlab.data.corpora import PASSAGES
from factlab.text import units
from factlab.text.parsing import load_pipeline
from factlab.training.edited_pairs import (
    STATEMENTS,
    Edit,
    applied,
    balanced,
    bound_pairs,
    compatible_edits,
    content_overlap,
    content_words,
    cut_claims,
    edited,
    exclusive,
    factscore_statements,
    four_pairs,
    make_pairs,
    negated,
    number_between,
    other_number,
    passage_statements,
)

NAMES = ('Mara Lindt', 'Oda Brandt', 'Jonas Keller', 'Irina Petrova', 'Tomas Varga', 'Elif Demir', 'Hugo Martins', 'Nora Quist')
TOWNS = ('Chur', 'Trondheim', 'Basel', 'Kazan', 'Szeged', 'Izmir', 'Porto', 'Malmö')
TRADES = ('painter', 'engineer', 'singer', 'chemist', 'lawyer', 'architect', 'footballer', 'historian')


@pytest.fixture(scope='module')
def statements():
    rows = []
    for at, (name, town, trade) in enumerate(zip(NAMES, TOWNS, TRADES, strict=True)):
        year, prizes = 1901 + 11*at, 3 + at
        said = [(f'{name} is a {trade} who was born in {year} in {town}.',
                 [f'{name} is a {trade}.', f'{name} was born in {year}.', f'{name} was born in {town}.']),
                (f'{name} won {prizes} prizes and moved to Vienna in {year + 30}.',
                 [f'{name} won {prizes} prizes.', f'{name} moved to Vienna in {year + 30}.']),
                (f'In {year + 40} the old museum in {town} opened a large exhibition.',
                 [f'The old museum opened a large exhibition in {year + 40}.'])]
        for number, (sentence, claims) in enumerate(said):
            rows.append({'id': f'{at}-{number}', 'page': name, 'source': 'ours', 'sentence': sentence, 'claims': claims,
                         'before': said[number - 1][0] if number else '', 'after': said[number + 1][0] if number < 2 else ''})
    return STATEMENTS.frame(rows)


@pytest.fixture(scope='module')
def pairs(statements): return make_pairs(statements, seed=3)


def test_the_same_seed_makes_the_same_pairs_and_another_seed_others(statements, pairs):
    assert pairs.equals(make_pairs(statements, seed=3)) and not pairs.equals(make_pairs(statements, seed=4))


def test_what_is_made_of_a_statement_does_not_depend_on_its_place(statements):
    shuffled = statements.sort('page', 'id', descending=[True, False])
    def edits(frame):
        pairs = make_pairs(frame, seed=3).filter(pl.col('kind').is_in(['exclusive', 'date']))
        return pairs.select('claim', 'evidence', 'label').rows()
    ours, theirs = edits(statements), edits(shuffled)
    assert len(set(ours) & set(theirs)) > .8*len(set(ours))


def test_every_claim_is_supported_as_often_as_not(pairs):
    counts = pairs.group_by('claim').agg(supported=(pl.col('label') == 'ENT').sum(), n=pl.len())
    assert (counts['supported']*2 == counts['n']).all() and len(pairs) > 100


def test_ids_are_unique_and_no_pair_has_two_labels(pairs):
    assert pairs['id'].is_unique().all() and not pairs.select('claim', 'evidence').is_duplicated().any()


@pytest.mark.parametrize('column', ['claim', 'evidence'])
def test_neither_text_alone_tells_the_label(pairs, column):
    "A bag of words learns nothing of held-out pages from one text, though it could from leaning words."
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold, cross_val_predict
    supported = (pairs['label'] == 'ENT').to_numpy()
    words = CountVectorizer(binary=True).fit_transform(pairs[column])
    score = cross_val_predict(LogisticRegression(C=.1, max_iter=300), words, supported, groups=pairs['group'].to_list(), cv=GroupKFold(4),
                              method='predict_proba')
    assert .35 < roc_auc_score(supported, score[:, 1]) < .62


def test_minimal_pairs_come_in_all_four_combinations(pairs):
    edits = pairs.filter(pl.col('kind').is_in(['exclusive', 'date', 'number', 'bound']))
    by_evidence = edits.group_by('evidence').agg(pl.col('label').n_unique())['label']
    assert len(edits) > 30 and (by_evidence > 1).mean() > .8


def test_one_edit_makes_four_pairs():
    claim, evidence = 'Ann won in 1990.', 'Ann, who won in 1990, retired.'
    made = four_pairs(claim, evidence, [Edit('date', '1990', '1985', 'CONTR')])
    assert Counter(draft.label for draft in made) == {'ENT': 2, 'CONTR': 2}
    assert {(draft.claim, draft.evidence) for draft in made if draft.label == 'ENT'} == {
        (claim, evidence), ('Ann won in 1985.', 'Ann, who won in 1985, retired.')}


def test_an_edit_that_misses_one_of_both_makes_nothing():
    assert four_pairs('Ann won.', 'Ann won in 1990.', [Edit('date', '1990', '1985', 'CONTR')]) == []
    assert four_pairs('Ann won in 1990.', 'Ann won.', [Edit('date', '1990', '1985', 'CONTR')]) == []


def test_words_are_replaced_whole_and_patterns_in_them_mean_nothing():
    assert applied('Art and Artist', 'Art', 'Craft') == 'Craft and Artist'
    assert applied('C++ (2011) is old', 'C++ (2011)', r'\1 D') == r'\1 D is old'
    assert applied('none here', 'some', 'all') is None
    assert edited('Ann met Bo.', [Edit('swap', 'Ann', 'Bo', 'CONTR')]) == 'Bo met Ann.'


def test_edits_that_get_into_each_others_way_are_not_joined():
    edits = [Edit('exclusive', 'won', 'lost', 'CONTR'), Edit('exclusive', 'lost', 'won', 'CONTR'),
             Edit('entity:person', 'Ann', 'Bo', 'CONTR'),
             Edit('word', 'cup', 'race', 'NEUT'), Edit('word', 'missing', 'x', 'NEUT')]
    joint, swaps = compatible_edits(edits, 'Ann won the cup that Bo had wanted.', 3)
    assert [edit.old for edit in joint] == ['won', 'cup'] and [edit.kind for edit in swaps] == ['swap']


@pytest.mark.parametrize('text', ['1998', '1,250', '3.5', 'seven', 'Two', '12', '7', '240000', '0.4', '1'])
def test_another_number_is_another_and_written_alike(text):
    rng = random.Random(0)
    for _ in range(200):
        new = other_number(text, rng)
        assert new is None or (new != text and (',' in new) >= (',' in text and len(new) > 3) and ('.' in new) == ('.' in text)
                               and new[0].isupper() == text[0].isupper())
    assert any(other_number(text, rng) for _ in range(20))


def test_what_is_no_number_stays():
    assert [other_number(text, random.Random(0)) for text in ('IV', '12a', 'hundredfold', '', '1/2')] == [None]*5


def test_bounds_hold_on_one_side_and_fail_on_the_other():
    for old, new in (('52', '31'), ('31', '52'), ('1,200', '4,800')):
        made = bound_pairs(f'The choir has {old} members.', f'It has {old} members.', [Edit('number', old, new, 'CONTR')], random.Random(2))
        assert len(made) == 4
        for draft in made:
            value, bound = (float(next(word for word in text.split() if word[0].isdigit()).replace(',', ''))
                            for text in (draft.evidence, draft.claim))
            above = any(word in draft.claim for word in ('more', 'over', 'at least'))
            assert (value > bound) == above if draft.label == 'ENT' else (value > bound) != above
    assert number_between(Edit('number', '5', '6', 'CONTR')) is None and number_between(Edit('number', 'five', 'nine', 'CONTR')) is None


def test_exclusive_words_exclude_each_other_mutually():
    assert all(word in exclusive()[other] for word, others in exclusive().items() for other in others)
    assert all(word not in others for word, others in exclusive().items())


@pytest.mark.parametrize('sentence, expected', [
    ('The bridge was opened in 1931.', 'The bridge was not opened in 1931.'), ('They sing.', 'They do not sing .'),
    ('She is a doctor.', 'She is not a doctor.'), ('He did not come.', None), ('Rain.', None)])
def test_negations(sentence, expected):
    found = negated(load_pipeline()(sentence))
    assert (found or '').replace(' .', '.') == (expected or '').replace(' .', '.')


@pytest.mark.parametrize('sentence',
                         ['Only a few of the ships reached the harbour in June 1901.', 'Ada Voss did not build the bridge in Rome.',
                                      'Most of the houses in the town were, without a doubt, old.'])
def test_nothing_is_cut_out_of_sentences_in_which_leaving_out_is_not_safe(sentence):
    assert cut_claims(load_pipeline()(sentence), random.Random(1)) == []


def test_cut_claims_use_the_words_of_the_sentence():
    doc = load_pipeline()('In 1987 Oda Brandt, a Norwegian engineer, built the first tidal mill and sold it to the town in June.')
    claims = cut_claims(doc, random.Random(2))
    assert claims and all(content_words(claim) <= content_words(doc.text) | {'i'} for claim in claims)


def test_coverage_is_a_share():
    assert content_overlap('Ann won a prize', 'Ann won') == pytest.approx(2/3) and content_overlap('the', 'anything') == 1.0


def test_balancing_drops_what_has_no_counterpart(pairs):
    lone = pairs.head(1).with_columns(claim=pl.lit('alone'), id=pl.lit('alone'))
    assert 'alone' not in balanced(pl.concat([pairs, lone]))['claim'].to_list()


def test_statements_of_passages_know_their_neighbours():
    text = ('The mill was built in 1820 by a large company. It burned down in 1904 after a storm. '
            'A museum now stands in its place near the river.')
    found = passage_statements(PASSAGES.frame([{'id': 'm', 'page': 'Mill', 'text': text}]), 'ours')
    middle = found.filter(pl.col('sentence').str.starts_with('It burned')).row(0, named=True)
    assert middle['before'].startswith('The mill') and middle['after'].startswith('A museum') and middle['claims']


def test_hostile_and_empty_texts_make_no_trouble():
    texts = ['', '   ', '\u202e\x00' * 30, '=' * 3000, '<script>alert(1)</script> {claim} \\1 %s ' * 5, 'Ж' * 50 + '.', 'A ' * 500]
    frame = PASSAGES.frame([{'id': str(at), 'page': 'p', 'text': text} for at, text in enumerate(texts)])
    made = make_pairs(passage_statements(frame, 'hostile'), seed=0)
    assert set(made['label'].unique()) <= {'ENT', 'NEUT', 'CONTR'}


def test_an_empty_set_of_statements_makes_an_empty_set_of_pairs():
    assert make_pairs(STATEMENTS.frame([]), seed=0).is_empty()


def test_wrong_input_is_named(statements):
    with pytest.raises(UsageError, match='1 or more'): make_pairs(statements, max_edits=0)
    with pytest.raises(DataError, match='claims'): make_pairs(statements.drop('claims'))


def test_facts_become_statements_without_their_truth():
    frame = pl.DataFrame({'id': ['a'], 'topic': ['T'], 'system': ['s'], 'sentence': [' A bee flew. '], 'facts': [['A bee flew.', '', 'ok']],
                          'labels': [['NS', 'S', 'S']]})
    row = factscore_statements(frame).row(0, named=True)
    assert row['sentence'] == 'A bee flew.' and row['claims'] == ['A bee flew.'] and 'labels' not in row


MAKING = '''
import polars as pl
from factlab.core.core import digest
from factlab.data.corpora import PASSAGES, load_oasis_sample, split_by
from factlab.training.edited_pairs import make_pairs, passage_statements
passages = load_oasis_sample().select('id', 'page', text='passage').head(3)
pairs = make_pairs(passage_statements(PASSAGES.check(passages), 'sample', seed=2), seed=2)
print(len(pairs), digest([pairs.rows(), split_by(pairs['group'], {'train': .7, 'dev': .3}).to_list()]))
'''


def test_neither_the_order_of_sets_nor_threads_change_the_pairs():
    "The order of a set's members differs between processes with other hash seeds, that of polars' groups between numbers of threads."
    running = [subprocess.Popen([sys.executable, '-c', MAKING], stdout=subprocess.PIPE, text=True,
                                env=os.environ | {'PYTHONHASHSEED': seed, 'POLARS_MAX_THREADS': threads})
               for seed, threads in (('1', '1'), ('20', '2'))]
    told = [process.communicate()[0].split() for process in running]
    assert told[0] == told[1] and int(told[0][0]) > 20


def test_there_is_one_pipeline_for_all():
    assert load_pipeline() is load_pipeline()
    tagger = units.load_tagger()
    assert set(load_pipeline().pipe_names) - set(tagger.pipe_names) == {'lemmatizer'} and tagger is units.load_tagger()
    with pytest.raises(ModelError, match='pip install spacy'): load_pipeline(names=('no_such_pipeline',))
