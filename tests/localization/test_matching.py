"""The offline judge: what points at nothing matches nothing, and lists, order, batches and odd texts change no answer."""
import json

import numpy as np
import polars as pl
import pytest
from conftest import real_data
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from factlab.core.core import ModelError, UsageError, assets_dir, digest
from factlab.data.datasets import load_sample
from factlab.localization import offline_judge
from factlab.localization.matching import DEFAULT_JUDGE, EncoderJudge, ModelJudge, known_matchings, load_judge, matching_quality
from factlab.localization.offline_judge import (
    FEATURES,
    OfflineJudge,
    first_look,
    pair_features,
    pointing_words,
    read_matcher,
    residual_cosine,
)
from factlab.measures.noise import Rate
from factlab.store.answers import Store
from factlab.training import matcher
from factlab.training.matcher import (
    FINDINGS,
    as_claims,
    choose_threshold,
    claim_scores,
    constant_f1,
    explained_pairs,
    finding_counts,
    fit_reading,
    fit_regression,
    sample_findings,
    sample_pairs,
    triples_of,
)

SUMMARY = 'Scotland full-back Stuart Hogg says the memories of the defeat by Australia have returned ahead of the Six Nations.'
POSITION = ['The summary adds that Hogg is a full-back, which the source does not say.',
            'Remove the information about full-back from the summary.']
OPPONENT = 'The source text does not mention that the defeat was by Australia.'
SUMMARIES = load_sample()['summary'].to_list()
GOLD = [[error['description'] for error in errors] for errors in load_sample()['inconsistencies'].to_list()]

# Sentences that could be said of any summary.
SUBJECTS = ('The summary', 'This text', 'It', 'The original summary', 'A claim', 'Some information', 'The article')
VERBS = ('is not supported by', 'is inconsistent with', 'cannot be found in', 'is wrong according to',
         'was added to', 'misstates')
OBJECTS = ('the source text', 'the article', 'the original document', 'the passage', 'the information',
           'the source, which states it differently')
vague = st.builds(lambda subject, verb, thing: f'{subject} {verb} {thing}.', *map(st.sampled_from, (SUBJECTS, VERBS, OBJECTS)))
some = 'Porto river 1901 bridge Ada Lark opened seven red market lost from of the'.split()
words = st.lists(st.sampled_from(some), min_size=1, max_size=30)


@pytest.fixture(scope='module')
def store(tmp_path_factory):
    with Store(tmp_path_factory.mktemp('store')/'store.sqlite') as opened: yield opened


@settings(max_examples=25, deadline=None)
@given(vague, words.map(' '.join), st.lists(words.map(' '.join), min_size=1, max_size=3))
def test_vague_sentences_match_nothing(sentence, summary, gold):
    assert not pointing_words(sentence)
    assert OfflineJudge().match([summary], [gold], [[sentence]], False)[0]['matched'] == [None]


def test_constants_and_other_summaries_score_nothing(store):
    rows = pl.DataFrame({'summary': SUMMARIES, 'gold': GOLD}, schema_overrides={'gold': pl.List(pl.String)})
    found, before = (constant_f1(judge, rows, store) for judge in (OfflineJudge(), EncoderJudge()))
    others = found.pop("another summary's errors")
    assert max(one.estimate for one in found.values()) <= .01 and others.estimate <= .06, found  # .016 on FINAL, as the card says
    assert max(one.estimate for one in before.values()) > .2  # the judge before it was fooled by the same lists


def test_one_error_in_two_wordings_and_another_error_of_the_same_summary():
    judge = OfflineJudge()
    same, other, _ = judge.probabilities([(SUMMARY, *POSITION), (SUMMARY, POSITION[1], OPPONENT), (SUMMARY, POSITION[0], OPPONENT)], False)
    assert same >= judge.least > other
    assert judge.match([SUMMARY], [[OPPONENT, POSITION[0]]], [[POSITION[1], OPPONENT]], False)[0]['matched'] == [1, 0]


def test_what_else_is_listed_changes_nothing():
    judge = OfflineJudge()
    alone = [judge.match([SUMMARY], [[POSITION[0]]], [[text]], False)[0]['matched'][0] for text in (POSITION[1], OPPONENT)]
    assert judge.match([SUMMARY], [[POSITION[0]]], [[POSITION[1], OPPONENT]], False)[0]['matched'] == alone


def test_batches_give_what_single_calls_give_and_every_call_gives_the_same():
    known = known_matchings('dev').head(6)
    lists = [known[column].to_list() for column in ('summary', 'gold', 'predicted')]
    judge = OfflineJudge()
    together = judge.match(*lists, False)
    assert together == judge.match(*lists, False)
    assert together == [judge.match(*[[part] for part in row], False)[0] for row in zip(*lists, strict=True)]


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(SUMMARIES), st.text(max_size=80), st.text(max_size=80))
def test_order_does_not_matter(summary, first, second):
    forth, back = OfflineJudge().probabilities([(summary, first, second), (summary, second, first)], False)
    assert forth == back and 0 <= forth <= 1


def test_empty_lists():
    judge = OfflineJudge()
    assert judge.match([], [], [], False) == []
    found = judge.match([SUMMARY]*3, [[], [OPPONENT], []], [[OPPONENT], [], []], False)
    assert [each['matched'] for each in found] == [[None], [], []]
    assert [(each['n_gold'], each['n_predicted']) for each in found] == [(0, 1), (1, 0), (0, 0)]


ODD = ['Storm.', '1901', 'the', '', ' ', '\ud800', '🜚🜚', '<script>alert(1)</script>', 'ß'*5_000, 'river '*400]


@pytest.mark.parametrize('summary', ODD)
def test_odd_summaries_and_descriptions(summary):
    long = 'river '*(400 if summary == 'Storm.' else 20)
    odd = ['', 'x', '\x00', '\ud800', '“', '"" “”', '中文文本', "''''", 'a"b"c', long, '‮abc', SUMMARY]
    found, = OfflineJudge().match([summary], [odd], [odd], False)
    assert found['status'] == 'ok' and len(found['matched']) == len(odd)
    assert all(m is None or 0 <= m < len(odd) for m in found['matched'])
    assert [found['matched'][i] for i in (0, 2, 4, 5)] == [None]*4


def test_one_word_summary_can_be_matched():
    gold, predicted = ['There was no storm in the source.'], ['The storm is not mentioned.', 'Nothing is mentioned.']
    found, = OfflineJudge().match(['Storm.'], [gold], [predicted], False)
    assert found['matched'] == [0, None]


def test_sample_matchings_keep_their_precision(store):
    known = known_matchings('test')
    lists = [known[column].to_list() for column in ('summary', 'gold', 'predicted')]
    said = [each['matched'] for each in OfflineJudge().match(*lists, store)]
    quality = matching_quality(said, known['right'].to_list())
    rows = [row for row in read_matcher()['metrics'] if row['set'] == 'sample test' and row['system'] == 'offline']
    card = {row['measure']: row['estimate'] for row in rows}
    assert quality['precision'] == pytest.approx(card['precision'], abs=.03)
    assert quality['recall'] == pytest.approx(card['recall'], abs=.03)


def test_regression_is_that_of_scikit_learn(store):
    pairs = sample_pairs('dev')
    found, features = fit_regression(pairs, .5, store), pair_features(triples_of(pairs), store)
    same = pairs['same'].to_numpy()
    scaled = (features - features.mean(0))/np.maximum(features.std(0), 1e-6)
    theirs = LogisticRegression(C=.5).fit(scaled, same, sample_weight=len(same)/4/np.where(same, same.sum(), (~same).sum()))
    assert np.allclose(found['weights'], theirs.coef_[0], atol=1e-3)
    assert roc_auc_score(same, features[:, FEATURES.index('meaning')]) > .85


def test_the_verifier_reads_pairs_that_the_features_leave_open_and_decides_with_them(store, monkeypatch):
    pairs, card = sample_pairs('dev'), read_matcher()
    asked = []
    class Reader:
        identity = {'reader': 1}
        def probabilities(self, pairs, store=None):
            asked.extend(pairs)
            return np.array([[len(claim) % 10/10, 0, 0] for _, claim in pairs])
    monkeypatch.setattr(offline_judge, 'load_verifier', lambda name: Reader())
    triples = [*triples_of(pairs), ('A storm.', 'The text is wrong.', 'It is wrong.')]
    first, said = first_look(triples, card['regression'], store), OfflineJudge().probabilities(triples, store)
    open_ = first >= card['reading']['least']
    assert 0 < open_.sum() < len(triples) and len(asked) == open_.sum() and not said[~open_].any()
    assert all(len(claim) <= len(evidence.rpartition('\n')[2]) for evidence, claim in asked)  # the longer one is evidence
    swapped = [(summary, two, one) for summary, one, two in triples]
    assert np.array_equal(OfflineJudge().probabilities(swapped, store), said)
    features, verifier = card['reading']['weights']
    likely = np.array([len(claim) % 10/10 for _, claim in asked[:open_.sum()]]).clip(.001, .999)
    theirs = expit(features*logit(first[open_]) + verifier*logit(likely) + card['reading']['bias'])
    assert np.allclose(said[open_], theirs, atol=1e-4)


def test_the_second_regression_is_that_of_scikit_learn(store, monkeypatch):
    pairs, regression = sample_pairs('dev'), read_matcher()['regression']
    same, drawn = pairs['same'].to_numpy(), np.random.default_rng(0).normal(size=len(pairs))
    monkeypatch.setattr(matcher, 'reader_log_odds', lambda triples, store: drawn + 2*same)
    found = fit_reading(pairs, regression, store)
    both = np.column_stack([logit(first_look(triples_of(pairs), regression, store).clip(.01)), drawn + 2*same])
    theirs = LogisticRegression(C=1).fit(both, same, sample_weight=len(same)/4/np.where(same, same.sum(), (~same).sum()))
    assert np.allclose(found['weights'], theirs.coef_[0], atol=1e-3) and found['weights'][1] > .5
    lowest = first_look(triples_of(pairs.filter('same')), regression, store).min()
    assert found['least'] < lowest  # no development pair of one error goes unread


def test_explained_pairs_are_of_other_summaries_than_finals_and_one_form_has_both_answers(monkeypatch):
    told = pl.DataFrame([
        (1, 'Text a.', 'Ada opened it.', 'Ada is not in the text.', ['Remove Ada.']),
        (1, 'Text a.', 'It opened in May.', 'May is not said.', ['Replace May with June.']),
        (2, 'Text b.', 'Nine owls flew west.', 'Owls and west are wrong.', ['Remove nine.', 'Replace west with east.', 'Rewrite it.']),
        (3, 'Text c.', 'The bridge is red.', 'Its colour is not told.', ['Modify red.']),
        (4, 'Text d.', 'The market is old.', 'Its age is not told.', ['Rewrite the summary.']),
        (5, 'Text e.', 'Of FINAL.', 'Not to be seen.', ['Remove FINAL.']),
        (6, 'Text f.', 'Nothing is wrong.', '', None)], orient='row',
        schema=['doc_id', 'text', 'summary', 'explanation', 'instructions'])
    monkeypatch.setattr(matcher, 'load_defacto', lambda download=True: pl.concat([told, told.head(1)]))
    monkeypatch.setattr(matcher.datasets, 'load', lambda name: told.filter(doc_id=5))
    pairs = explained_pairs()
    assert pairs.filter(kind='two instructions').select('id', 'first', 'second', 'same').rows() == [
        ('defacto-2', 'Remove nine.', 'Replace west with east.', False)]
    assert pairs.filter(kind='explained').select('first', 'second', 'same').rows() == [
        ('Remove Ada.', 'Ada is not in the text.', True), ('Remove Ada.', 'Its colour is not told.', False),  # not that of the same article
        ('Replace May with June.', 'May is not said.', True), ('Replace May with June.', 'Its colour is not told.', False),
        ('Modify red.', 'Its colour is not told.', True), ('Modify red.', 'Ada is not in the text.', False)]


def test_real_explained_pairs_share_no_summary_with_final():
    for name in ('final', 'defacto'): real_data(name)
    pairs, final = explained_pairs(), matcher.datasets.load('final')
    assert not set(pairs['summary']) & set(final['summary'])
    counts = dict(((kind, same), n) for kind, same, n in pairs.group_by('kind', 'same').len().rows())
    assert counts == {('two instructions', False): 421, ('explained', True): 414, ('explained', False): 414}


def test_a_verifier_reads_a_pair_in_both_orders():
    pairs = pl.DataFrame([('a', 'k', 'S one.', 'x', 'yy', True), ('b', 'k', 'S two.', 'zzz', 'w', False)], orient='row',
                         schema=['id', 'kind', 'summary', 'first', 'second', 'same'])
    claims = as_claims(pairs)
    assert claims.select('evidence', 'claim', 'label').rows() == [('S one.\nx', 'yy', 'ENT'), ('S two.\nzzz', 'w', 'NEUT'),
                                                                  ('S one.\nyy', 'x', 'ENT'), ('S two.\nw', 'zzz', 'NEUT')]
    assert claims['id'].n_unique() == 4 and claims['group'].to_list() == ['a', 'b']*2
    class Lengths:
        def probabilities(self, asked, store=None): return np.array([[len(claim)/10, 0, 0] for _, claim in asked])
    assert np.allclose(claim_scores(pairs, Lengths()), [.15, .2]) and np.allclose(claim_scores(pairs, Lengths()), claim_scores(
        pairs.with_columns(first='second', second='first'), Lengths()))


def test_threshold_is_chosen_by_balanced_accuracy_where_precision_is_kept():
    values, same = np.array([.1, .2, .3, .8, .9]), np.array([False, False, False, True, True])
    assert choose_threshold(values, same, [np.array([[.9]])], [[0]]) == .31
    assert choose_threshold(values, same, [np.array([[.5]]), np.array([[.9]])], [[None], [0]]) == .51  # a wrong match at 0.5 counts
    assert choose_threshold(values, same, [np.array([[.999]])], [[None]]) == .99
    assert choose_threshold(values, same, [np.array([[.9]])], [[0]], [[np.array([[.6]])]]) == .61  # a constant must not be matched


def test_descriptions_of_one_piece_in_other_words_are_aligned(store):
    summary = 'Cassini, launched from Cape Canaveral in 1997, entered orbit around Saturn in 2004.'
    base, cape, year = ('It is not said where the spacecraft took off; the Florida base was added.',
                        'Cape Canaveral appears only in the summary.', 'The arrival at Saturn is dated wrongly.')
    at = FEATURES.index('aligned')
    features = pair_features([(summary, base, cape), (summary, cape, base), (summary, base, year), (summary, 'Two people sing.', base),
                              ('', base, cape)], store)
    assert features[0, at] == pytest.approx(features[1, at]) and features[0, at] > .1 > max(features[2, at], features[3, at])
    assert features[4, at] == 0  # one piece alone aligns nothing


def test_judges_by_name():
    offline, encoder = load_judge(DEFAULT_JUDGE), load_judge('encoder')
    assert (offline.name, encoder.name) == ('offline', 'encoder') and load_judge().name == 'offline'
    assert encoder == EncoderJudge() and encoder.identity['matcher'] == 'residual cosine'
    fitted = [read_matcher()[name] for name in ('regression', 'reading')]
    assert offline.identity['weights'] == digest(fitted) and json.dumps(offline.identity)
    assert load_judge('offline?threshold=0.9').least == .9 and load_judge('encoder?threshold=0.3').threshold == .3
    assert isinstance(load_judge('tiny'), ModelJudge)
    for wrong in ('offline?threshold=x', 'offline?weights=a', 'encoder?threshold=x'):
        with pytest.raises(UsageError): load_judge(wrong)


def test_error_rates_are_counts_and_belong_to_the_shipped_threshold():
    final, sample, other = (OfflineJudge().error_rates(data) for data in ('final', 'sample', 'files/mine.jsonl'))
    assert all(isinstance(rate, Rate) and 0 < rate.right < rate.n for found in (final, sample) for rate in found[:2])
    assert other[:2] == final[:2] != sample[:2] and 'no matchings of mine.jsonl are known' in other.source
    assert 'test' in final.source and 'development' in sample.source
    assert OfflineJudge(threshold=.2).error_rates() is None


def test_error_rates_of_the_sample_are_not_counted_on_the_rows_that_exhibits_score(store):
    found = finding_counts(OfflineJudge(), sample_findings('dev'), store)
    rates = OfflineJudge().error_rates('sample')
    assert [rate.n for rate in rates[:2]] == [counts[1] for counts in found.values()]  # each finding once
    assert all(abs(rate.right - counts[0]) <= 4 for rate, counts in zip(rates, found.values(), strict=False))  # held out against fitted


def test_finding_counts_on_matchings_made_up():
    class Scripted:
        def match(self, summaries, gold, predicted, store=None):
            return [{'matched': [0 if one == ['b'] else None]} for one in predicted]
    findings = FINDINGS.frame([{'summary': 's', 'gold': ['x', 'y'], 'finding': finding, 'right': right}
                               for finding, right in (('b', 0), ('b', 1), ('c', 0), ('b', None), ('c', None), ('c', None))])
    assert finding_counts(Scripted(), findings) == {'sensitivity': [1, 3], 'specificity': [2, 3]}


def test_damaged_files(tmp_path):
    unread = json.dumps({key: value for key, value in read_matcher().items() if key != 'reading'})
    for content in ('{', '[]', '{}', '{"regression": {"mean": [0]}}', unread):
        file = tmp_path/f'{len(content)}.json'
        file.write_text(content)
        with pytest.raises(ModelError): read_matcher(str(file))
    with pytest.raises(ModelError, match='there is no'): OfflineJudge(str(tmp_path/'none.json')).match(['a'], [['b']], [['c']], False)
    assert (assets_dir('localization')/'matcher.json').stat().st_size < 50_000


def test_residual_cosine_against_its_definition():
    generator = np.random.default_rng(0)
    unit = lambda x: x/np.linalg.norm(x, axis=-1, keepdims=True)
    topic, first, second = unit(generator.normal(size=8)), unit(generator.normal(size=(3, 8))), unit(generator.normal(size=(2, 8)))
    for i, one in enumerate(first):
        for j, two in enumerate(second):
            a, b = one - one@topic*topic, two - two@topic*topic
            assert residual_cosine(topic, first, second)[i, j] == pytest.approx(a@b/np.linalg.norm(a)/np.linalg.norm(b))
