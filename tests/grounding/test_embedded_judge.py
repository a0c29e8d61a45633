"""The offline judge: what it says of plain cases, that it shipped with what it was fitted on, and how good it is on the test split."""
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, ModelError, UsageError
from factlab.data.datasets import fingerprint, load
from factlab.grounding.eligibility import load_eligibility_judge
from factlab.grounding.embedded_judge import (
    ALWAYS,
    FIRST_FEATURES,
    MIN_COPIED_WORDS,
    SENTENCE_FEATURES,
    GroundingDecision,
    LabelledSentences,
    Nearness,
    copied_sentences,
    fit_first_round,
    fit_grounding_decision,
    fit_reader,
    labelled_sentences,
    needs_no_support,
    read_grounding_decision,
    read_sentences,
    response_baselines,
    sentence_baselines,
    to_be_read,
    write_grounding_decision,
)
from factlab.grounding.judges import GROUNDING
from factlab.grounding.offline_judges import load_grounding_judge
from factlab.grounding.parsing import accurate_by_labels
from factlab.measures.baselines import balanced_accuracy, class_counts
from factlab.text.sentences import split_sentences
from factlab.workbench.marks import find_quoted

DOCUMENT = 'The mill opened in 1901. It has two stones and a wooden wheel. The owner sells flour on Mondays. No bread is baked there.'


def rows(*texts: str) -> pl.DataFrame:
    return pl.DataFrame({'id': [str(at) for at in range(len(texts))], 'document': [DOCUMENT]*len(texts),
                         'request': ['Tell me about the mill.']*len(texts), 'response': list(texts)})


@pytest.fixture(scope='module')
def sample() -> tuple[pl.DataFrame, pl.DataFrame]:
    every = load('facts-sample')
    return tuple(every.filter(pl.col('split') == split) for split in ('dev', 'test'))


def test_a_verdict_follows_from_its_labels():
    judge = load_grounding_judge('embedded')
    found = judge.predict(rows('The mill opened in 1901. I hope this helps!', 'The mill never opened.', '', '***', 'Thanks!',
        'Was it old?\nYes: 1901.'))
    GROUNDING.check(found)
    for status, accurate, sentences in found.select('status', 'accurate', 'sentences').iter_rows():
        decided = accurate_by_labels([each['label'] for each in sentences])
        assert accurate == decided and status == ('unparsed' if decided is None else 'ok')
    assert found['status'][2] == 'unparsed' and found['accurate'][0] is True
    assert found['sentences'][0][0]['excerpt'] == 'The mill opened in 1901.'
    assert found['sentences'][0][1] == {'sentence': 'I hope this helps!', 'label': 'no_rad', 'excerpt': ''}


def test_a_supported_sentence_scores_above_one_that_is_contradicted():
    scored = load_grounding_judge().sentence_scores(rows('On Mondays the owner sells flour.', 'The owner sells bread on Fridays.'),
        store=False)
    assert scored['score'][0] > scored['score'][1]


def test_odd_rows():
    judge = load_grounding_judge()
    assert judge.predict(rows().cast(pl.String)).is_empty()
    long = judge.predict(rows('The mill opened in 1901, ' * 300 + 'it seems.', '\ud83d half \udc00'.encode('utf-8', 'replace').decode()),
        store=False)
    assert set(long['status']) == {'ok'}
    for wrong in (rows('x').drop('document'), pl.concat([rows('x'), rows('y')]), rows('x').with_columns(response=pl.lit(None, pl.String))):
        with pytest.raises(DataError): judge.predict(wrong)
    with pytest.raises(DataError, match='baseline'): load_eligibility_judge().predict(rows('x'))
    with pytest.raises(UsageError, match='no offline judge'): load_grounding_judge('tiny')


@pytest.mark.parametrize('sentence, quiet', [('Would you like more?', True), ('I am sorry, but I cannot help.', True), ('Hello!', True),
    ('', True),
    ('Is it 12 metres long?', False), ('Happy customers wrote letters.', False), ('The answer is in the cellar.', False)])
def test_what_needs_no_support(sentence, quiet): assert needs_no_support(sentence) is quiet


def of_short_documents(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    "The rows about the first documents of fewer than 600 words."
    short = rows.filter(pl.col('document').str.count_matches(r'\S+') < 600)['document_id'].unique(maintain_order=True).head(most)
    return rows.filter(pl.col('document_id').is_in(short))


def test_the_decision_rests_on_the_development_split_alone(sample, tmp_path):
    development, _ = sample
    judge = load_grounding_judge()
    assert judge.decision.fitted_on['digest'] == fingerprint(development.select('id', 'document', 'response', 'sentences'))
    assert judge.decision.fitted_on['verifier']['adapter'] == judge.verifier.identity['adapter']
    few = of_short_documents(development, 3)
    again = fit_grounding_decision(few, Counting(), judge.encoder)  # with the verifier and all of them: the chapter
    assert np.isfinite(again.weights).all() and again.fitted_on['digest'] != judge.decision.fitted_on['digest']
    assert fit_grounding_decision(few, Counting(), judge.encoder) == again
    write_grounding_decision(judge.decision._replace(weights=(1.,)), tmp_path/'x.json')
    with pytest.raises(ModelError, match='numbers for 7 features'): read_grounding_decision(tmp_path/'x.json')
    (tmp_path/'y.json').write_text('{}')
    with pytest.raises(ModelError, match='holds no decision'): read_grounding_decision(tmp_path/'y.json')


def test_it_is_better_than_baselines_on_short_documents_of_the_test_split(sample):
    judge = load_grounding_judge()  # all documents: the chapter
    development, test = (of_short_documents(rows, most) for rows, most in zip(sample, (4, 6), strict=True))
    near = {labelled: [Nearness(judge.encoder, labelled).predict(part) for part in (development, test)] for labelled in (True, False)}
    answers = {'embedded': LabelledSentences(judge).predict(test)['grounded']} | sentence_baselines(development, test, near[True])
    truth = labelled_sentences(test)['grounded']
    counts = {name: class_counts(truth, pl.Series(said), [False, True]) for name, said in answers.items()}
    scores = {name: balanced_accuracy(each.sum(0)) for name, each in counts.items()}
    assert scores['embedded'] >= .70 and scores['embedded'] == max(scores.values())
    always = response_baselines(development, test, near[False])[ALWAYS]
    assert (judge.predict(test)['accurate'] == test['accurate']).mean() > (always == test['accurate'].to_numpy()).mean()


class Counting:
    "A verifier that answers by the length of its texts, and keeps what it was asked."
    name, identity = 'counting', {'verifier': 'counting'}

    def __init__(self): self.asked = []

    def probabilities(self, pairs, store=None):
        self.asked += pairs
        support = np.array([(len(evidence) + 7*len(claim)) % 10/10 for evidence, claim in pairs])
        return np.stack([support, (1 - support)/3, (1 - support)*2/3], 1).reshape(-1, 3)


LONG = ' '.join(f'Mill number {at} opened in {1900 + at} beside the river{" and the old road"*(at % 3)}.' for at in range(12))
SAID = ('Mill number 3 opened in 1903.', 'Mill number 4 closed.', 'I hope this helps!', 'Nobody knows the road.',
        'Mill 9 is beside the river.')


def test_a_quick_judge_reads_further_only_what_its_first_round_left_open():
    quick, whole = load_grounding_judge('quick'), load_grounding_judge('embedded')
    pairs = [(LONG, sentence) for sentence in SAID]
    ask = {name: replace(each, verifier=Counting()) for name, each in {'quick': quick, 'whole': whole}.items()}
    seen = {name: each.read(pairs, False) for name, each in ask.items()}
    silent = np.array([needs_no_support(sentence) for sentence in SAID])
    assert silent.sum() == 1 and len(ask['whole'].verifier.asked) == 3*(~silent).sum()
    decision = quick.decision
    left_open = decision.stays_open(seen['whole'].features) & ~silent
    assert 0 < left_open.sum() < (~silent).sum()  # or this test shows nothing
    assert len(ask['quick'].verifier.asked) == (~silent).sum() + 2*left_open.sum()
    read = ~np.isnan(seen['quick'].features[:, 0])
    assert np.array_equal(read, left_open)
    np.testing.assert_array_equal(seen['quick'].features[read], seen['whole'].features[read])
    scores = [decision.scores(each.features) for each in seen.values()]
    np.testing.assert_array_equal(scores[0][read], scores[1][read])
    decided = ~read & ~silent
    first = seen['whole'].features[:, [SENTENCE_FEATURES.index(name) for name in FIRST_FEATURES]]
    by_hand = (first - decision.first.mean)/decision.first.scale @ np.array(decision.first.weights) + decision.first.bias
    np.testing.assert_allclose(scores[0][decided], by_hand[decided])
    assert np.isnan(scores[0][silent]).all()


def test_a_first_round_never_decides_between_the_thresholds():
    decision = load_grounding_judge('quick').decision
    features = np.random.default_rng(0).normal(size=(2000, len(SENTENCE_FEATURES)))*3
    first, left_open = decision.first.scores(features), decision.stays_open(features)
    between = (first >= decision.responses) & (first < decision.sentences)
    assert between.any() and left_open[between].all() and not left_open[np.abs(first) > 1].any()


def test_the_margin_keeps_development_verdicts(sample):
    few = of_short_documents(sample[0], 3)
    judge = replace(load_grounding_judge(), verifier=Counting())
    features = read_sentences(labelled_sentences(few).select('document', 'sentence').rows(), judge.verifier, judge.encoder, False).features
    first = fit_first_round(few, features, judge.decision)
    assert first.margin >= 0 and np.isfinite([*first.mean, *first.scale, *first.weights, first.bias]).all()
    assert fit_first_round(few, features, judge.decision) == first


def test_a_first_round_is_kept_in_the_file(tmp_path):
    decision = read_grounding_decision()
    assert read_grounding_decision(write_grounding_decision(decision, tmp_path/'same.json')) == decision
    assert read_grounding_decision(write_grounding_decision(decision._replace(first=None), tmp_path/'none.json')).first is None
    broken = decision._replace(first=decision.first._replace(weights=(1., 2.)))
    with pytest.raises(ModelError, match='first round'): read_grounding_decision(write_grounding_decision(broken, tmp_path/'broken.json'))


def test_a_judge_of_labelled_sentences_reads_these_alone(sample):
    _, test = (of_short_documents(rows, 1) for rows in sample)
    judge = replace(load_grounding_judge(), verifier=Counting())
    LabelledSentences(judge).predict(test, None, False)
    asked = {claim for _, claim in judge.verifier.asked}
    assert asked and asked <= set(labelled_sentences(test)['sentence']) and len(judge.verifier.asked) == 3*len(asked)
    judge.predict(test, None, False)
    assert {claim for _, claim in judge.verifier.asked} <= {each for text in test['response'] for each in split_sentences(text)}


COPIED, NEAR = 'The owner sells flour on Mondays.', 'The owner sells flour on Sundays.'
RULES = """The club's rules

Members pay nothing if they book before May. The pool was “opened” in 1987 by the mayor. Bikes are fine. It has two lanes. Is there a bar?
No, there is none.

What you should know
Dogs are welcome in the garden.

You may not:
Park on the lawn overnight.

Light a fire in the garden.

1. Bring your own towel along.
The key hangs beside the door.

The chair said: "Fees will rise soon. Nobody likes higher fees. We shall see." Nothing was decided that evening."""


def asked_of(judge, texts: dict[str, str]) -> tuple[set[str], pl.DataFrame]:
    "What the verifier is asked about a response to each document, and what the judge says of the sentences."
    counting = Counting()
    request = 'Does the owner sell flour on Sundays? The shop opens at nine in the morning.'
    asked = pl.DataFrame({'id': [str(at) for at in range(len(texts))], 'document': list(texts), 'response': list(texts.values()),
                          'request': [request]*len(texts)})
    found = replace(judge, verifier=counting).sentence_scores(asked, False)
    return {claim for _, claim in counting.asked}, found


@pytest.mark.parametrize('name', ['embedded', 'quick'])
def test_a_copied_sentence_is_never_asked_of_the_verifier_and_its_place_is_shown(name):
    asked, found = asked_of(load_grounding_judge(name), {DOCUMENT: f'{COPIED} {NEAR} Thanks!'})
    assert asked == {NEAR}
    copied, near, thanks = found.select('sentence', 'label', 'score', 'excerpt').rows(named=True)
    assert copied == {'sentence': COPIED, 'label': 'supported', 'score': None, 'excerpt': COPIED}
    assert near['score'] is not None and thanks['label'] == 'no_rad'


def test_all_that_a_run_of_sentences_repeats_is_shown():
    run = "The club's rules Members pay nothing if they book before May."
    asked, found = asked_of(load_grounding_judge(), {RULES: run.replace("'", '’')})
    assert not asked and found.select('label', 'excerpt').row(0) == ('supported', run)


def test_a_document_that_is_split_otherwise_by_paragraphs_has_no_copies():
    "Without a capital a small letter begins a sentence, and a part of one would be taken for it."
    document = 'members pay nothing now. unless they are late.\n\nThe End.'
    assert split_sentences(document)[0] != 'members pay nothing now.' and not copied_sentences([(document, 'members pay nothing now.')])[0]


@pytest.mark.parametrize('sentence', ['Members pay nothing if they book before May.', 'The pool was "opened" in 1987 by the mayor.',
    'The pool  was “opened”\tin 1987 by the mayor.', 'Nothing was decided that evening.',
    "The club's rules Members pay nothing if they book before May.", 'You may not: Park on the lawn overnight.'])
def test_a_whole_statement_is_copied(sentence):
    assert find_quoted(copied_sentences([(RULES, sentence)])[0], RULES) and not to_be_read([(RULES, sentence)])[0]


@pytest.mark.parametrize('sentence', [
    'Members pay nothing.', 'they book before May.', 'Bikes are fine.', 'Members pay nothing if they book before June.',
    'members pay nothing if they book before May.', 'Members pay nothing if they book before May', 'It has two lanes.',
    'The pool was “opened” in 1978 by the mayor.', 'Is there a bar with 20 seats?', 'No, there is none.', "The club's rules",
    'Dogs are welcome in the garden.', 'Park on the lawn overnight.', 'Light a fire in the garden.',
    '1. Bring your own towel along.', 'Bring your own towel along.', 'The chair said: "Fees will rise soon.', 'Fees will rise soon.',
    'Nobody likes higher fees.', 'We shall see."', '- Members pay nothing if they book before May.',
    'Park on the lawn overnight. Light a fire in the garden.', 'You may not: Light a fire in the garden.', 'You may not:',
    'It is not true that Members pay nothing if they book before May.'])
def test_what_may_mean_something_else_elsewhere_is_read(sentence):
    assert copied_sentences([(RULES, sentence)]) == [''] and to_be_read([(RULES, sentence)])[0]


def test_a_copy_of_anything_but_the_document_is_read():
    told = 'The shop opens at nine in the morning.'  # in the request alone
    asked, found = asked_of(load_grounding_judge(), {DOCUMENT: told, 'Another text about a shop.': COPIED})
    assert asked == {told, COPIED} and found['score'].is_not_null().all()
    assert not copied_sentences([('', COPIED), (' \n\n ', ''), (COPIED + ' ' + COPIED, '')])[0]


def test_a_response_equal_to_its_document_asks_only_about_what_leans():
    asked, found = asked_of(load_grounding_judge(), {DOCUMENT: DOCUMENT})
    assert asked == {'It has two stones and a wooden wheel.'} and found.height == 4


WORD = st.sampled_from('Members pay nothing if they book before May 1987 not the a river "flood" “mill” It and :'.split())
TEXT = st.lists(st.tuples(st.lists(WORD, min_size=1, max_size=7), st.sampled_from(['. ', '.\n', ':\n', '? ', '.\n\n', '\n\n'])),
                min_size=1, max_size=6)

@settings(max_examples=300, deadline=None)
@given(TEXT, st.data())
def test_no_cut_or_change_of_a_sentence_is_a_copy(drawn, data):
    document = ''.join(' '.join(words) + end for words, end in drawn)
    whole = {plain: said for said in split_sentences(document) for plain in [' '.join(said.split()).translate(str.maketrans('“”', '""'))]}
    for sentence in [plain for plain in whole if copied_sentences([(document, plain)])[0]]:
        words = sentence.split()
        assert len(words) >= MIN_COPIED_WORDS and sentence[-1] in '.!"' and words[0] != 'It' and sentence.count('"') % 2 == 0
        at = data.draw(st.integers(0, len(words) - 1))
        for changed in (words[:at] + words[at + 1:], words[:at] + ['never'] + words[at:], words[:at] + ['2041'] + words[at + 1:]):
            said = ' '.join(changed)
            place = copied_sentences([(document, said)])[0].translate(str.maketrans('“”', '""'))
            assert place in ('', said) and (not place or all(part in whole for part in split_sentences(place)))


def test_only_what_must_be_read_is_fitted_and_the_file_says_how_many_were_copied(sample):
    development, _ = sample
    sentences = labelled_sentences(development)
    fitted, by_words = (load_grounding_judge(name).decision.fitted_on for name in ('embedded', 'words'))
    assert fitted['copied'] == sentences['copied'].sum() > 0 and fitted['sentences'] == sentences['open'].sum()
    assert by_words['sentences'] == fitted['sentences'] + fitted['copied']  # words are read of every sentence
    assert not sentences.filter('open', 'copied').height
    seen = load_grounding_judge('words').read(sentences.select('document', 'sentence').rows())
    def fitted_with(value: float) -> GroundingDecision:
        features = np.where(sentences['copied'].to_numpy()[:, None], value, seen.features)
        return fit_reader(development, lambda pairs: seen._replace(features=features), {})
    assert fitted_with(np.nan).fitted_on['sentences'] == fitted['sentences'] and fitted_with(np.nan) != fitted_with(99)


def test_no_copied_sentence_of_the_sample_is_ungrounded(sample):
    "The ruler of the rule: people's labels."
    for rows_of in sample:
        copied = labelled_sentences(rows_of).filter('copied')
        assert copied.height >= 8 and copied['grounded'].all()
