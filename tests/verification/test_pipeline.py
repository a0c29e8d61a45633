"""Algorithm 1 against its pseudo-code, waves against all pairs, and the verdict on a text, whatever the text is."""
import json
import random
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError, digest
from factlab.data.corpora import retrieval_task
from factlab.models.encoder import Encoder
from factlab.models.interface import ScriptedModel
from factlab.models.prompts import Parsed
from factlab.retrieval.corpus import Corpus
from factlab.retrieval.index import BM25, Fused
from factlab.retrieval.methods import NamedCorpus, first_passages
from factlab.text.fences import fenced_in
from factlab.text.language import language_warning
from factlab.text.sentences import split_sentences
from factlab.text.words import printable
from factlab.verification.asked_verifier import VERIFIER_ANSWERS, AskedVerifier
from factlab.verification.extraction import BY_SENTENCE, ModelExtractor
from factlab.verification.methods import CLAIMS_OF_TEXTS, Claims, TextVerdicts
from factlab.verification.pipeline import (
    CLAIM_VERDICTS,
    EVIDENCE,
    TEXT_VERDICTS,
    ClaimsInParts,
    TextClaims,
    evaluate_all,
    evaluate_incrementally,
    open_search,
    verify_claims,
    verify_text,
    verify_texts,
)
from factlab.verification.reporting import verdict_json, verdict_report
from factlab.verification.verdict_rules import MISSING, OUTCOMES, SURE, VERDICT_RULES, VERDICTS, algorithm1, decide, labels_of, read_method
from factlab.verification.verifier import NLI_LABELS, cached_probabilities

ENT, NEUT, CONTR = range(3)


class Drawn:
    "Probabilities that are a function of the pair; counts what it is asked."
    name, identity = 'drawn', {'verifier': 'drawn'}
    def __init__(self, weights=(1, 3, 1)): self.weights, self.asked = weights, []
    def probabilities(self, pairs, store=None):
        self.asked += pairs
        return np.array([np.random.default_rng(int(digest(list(pair))[:12], 16)).dirichlet(self.weights) for pair in pairs],
                        np.float32).reshape(-1, 3)


class ByRule:
    "A passage with all longer words of a claim supports it, and contradicts it when it says never."
    name, identity = 'by rule', {'verifier': 'by rule'}
    def probabilities(self, pairs, store=None):
        def row(evidence, claim):
            known = {*re.findall(r'\w{4,}', claim.lower())} <= {*re.findall(r'\w+', evidence.lower())}
            return [.005, .005, .99] if known and 'never' in evidence else [.99, .005, .005] if known else [.1, .8, .1]
        return np.array([row(*pair) for pair in pairs], np.float32).reshape(-1, 3)


WORLD = pl.DataFrame({'id': ['a', 'b', 'c', 'd'], 'page': ['Otters', 'Owls', 'Owls', 'Trams'], 'text': [
    'Otters live by rivers. They eat fish.', 'Owls hunt at night.', 'Owls never swim.', 'Trams cross the bridge every ten minutes.']})
BY_WORDS = dict(extractor='sentences', retriever='bm25', verifier=ByRule(), store=False)


# ---- Algorithm 1 -------------------------------------------------------------------------------------------------------------------

def pseudo_code(claim, passages, model):
    "Lines 1 to 10 of the paper's Algorithm 1, one after the other."
    for passage in passages:
        label = model(claim, passage)
        if label == 'ENT':
            return True
        elif label == 'CONTR':
            return False
        # neutral: go on with the next passage
    return True


@given(st.lists(st.lists(st.sampled_from(NLI_LABELS), max_size=8), max_size=12))
def test_algorithm1_is_the_pseudo_code(labels):
    width = max(map(len, labels), default=0)
    matrix = np.full((len(labels), width), MISSING)
    for row, found in enumerate(labels): matrix[row, :len(found)] = [NLI_LABELS.index(label) for label in found]
    verified, places = algorithm1(matrix)
    assert verified.tolist() == [pseudo_code('c', found, lambda claim, label: label) for found in labels]
    assert places.tolist() == [next((at for at, label in enumerate(found) if label != 'NEUT'), -1) for found in labels]


@given(st.lists(st.lists(st.tuples(*[st.integers(1, 100)]*3), max_size=6), max_size=10))
@settings(deadline=None)
def test_from_probabilities_to_verdicts_is_the_pseudo_code(weights):
    "Through the whole of `verify_claims`: eq. 7's argmax, the waves, and the rule."
    class Given:
        name, identity = 'given', {}
        def probabilities(self, pairs, store=None): return np.array([json.loads(evidence) for evidence, _ in pairs], np.float32)
    rows = [[[part/sum(triple) for part in triple] for triple in found] for found in weights]
    evidence = [[json.dumps(row) for row in found] for found in rows]
    found = verify_claims([f'claim {at}' for at in range(len(rows))], evidence, Given(), store=False)
    model = lambda claim, row: NLI_LABELS[int(np.argmax(np.array(row, np.float32)))]
    assert found.verified.tolist() == [pseudo_code('c', passages, model) for passages in rows]
    decided = [next((label for label in map(lambda row: model('c', row), passages) if label != 'NEUT'), 'NEUT') for passages in rows]
    for label, place, expected, passages in zip(found.labels, found.places, decided, rows, strict=True):
        tied = place >= 0 and max(passages[place][1:]) >= passages[place][0]
        assert NLI_LABELS[label] == ('NEUT' if expected == 'ENT' and tied else expected)


def test_labels_that_are_no_matrix():
    with pytest.raises(UsageError, match='claims, k'): algorithm1(np.array([ENT, NEUT]))


# ---- waves -------------------------------------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(0, 30), max_size=20)
WEIGHTS = st.sampled_from([(1, 3, 1), (1, 9, 1), (3, 1, 3), (.1, .1, .1), (.1, 9, .1)])

def drawn_lists(sizes, seed):
    return [f'claim {seed} {at}' for at in range(len(sizes))], [[f'passage {at} {rank}' for rank in range(size)]
        for at, size in enumerate(sizes)]


@given(SIZES, WEIGHTS, st.sampled_from([0, .1, 1]), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_waves_decide_as_all_pairs_do(sizes, weights, max_unneeded_share, seed):
    claims, evidence = drawn_lists(sizes, seed)
    counted = Drawn(weights)
    waved, whole = evaluate_incrementally(claims, evidence, counted, False, max_unneeded_share), evaluate_all(claims, evidence,
        Drawn(weights), False)
    for one, other in zip(algorithm1(labels_of(waved.probabilities)), algorithm1(labels_of(whole.probabilities)), strict=True):
        assert (one == other).all()
    seen, places = ~np.isnan(waved.probabilities).any(-1), algorithm1(labels_of(whole.probabilities))[1]
    assert (waved.probabilities[seen] == whole.probabilities[seen]).all()
    assert waved.evaluated == seen.sum() == len(counted.asked) == len({*counted.asked}) <= whole.evaluated == waved.pairs == sum(sizes)
    for size, place, looked in zip(sizes, places.tolist(), seen.sum(1).tolist(), strict=True):
        needed = size if place < 0 else place + 1
        # with a share of 0 not one pair more than the algorithm looks at, never more than twice that
        assert needed <= looked <= (needed if max_unneeded_share == 0 else 2*needed)


@pytest.mark.parametrize('decided', [.01, .03, .1, .5])
def test_little_is_evaluated_in_vain(decided):
    weights = (.1*decided/2, .1*(1 - decided), .1*decided/2)  # so small that nearly all probability is on one label
    claims, evidence = drawn_lists([30]*150, 0)
    exact, wide = (evaluate_incrementally(claims, evidence, Drawn(weights), False, max_unneeded_share) for max_unneeded_share in (0, .1))
    assert exact.evaluated < wide.evaluated <= 1.15*exact.evaluated or decided == .5 and exact.evaluated == wide.evaluated


def test_a_wave_is_one_call():
    calls = []
    class Counting(Drawn):
        def probabilities(self, pairs, store=None): calls.append(len(pairs)); return super().probabilities(pairs, store)
    claims, evidence = drawn_lists([30]*20, 0)
    neutral = lambda: Counting((.1, 1000, .1))
    evaluate_incrementally(claims, evidence, neutral(), False, max_unneeded_share=0)
    assert calls == [20]*30
    calls.clear()
    evaluate_incrementally(claims, evidence, neutral(), False)
    assert calls == [20*width for width in (1, 2, 4, 8, 15)]  # twice as deep each time while nothing is decided
    calls.clear()
    evaluate_all(claims, evidence, neutral(), False)
    assert calls == [600]
    with pytest.raises(UsageError, match='max_unneeded_share'):
        evaluate_incrementally(claims, evidence, neutral(), False, max_unneeded_share=-.1)


def known_verdict(rows, verified, settled):
    "False where a claim is refuted, True where all are settled and verified, None where more must be known."
    if any(settled[row] and not verified[row] for row in rows): return False
    return True if all(settled[row] for row in rows) else None


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=12), WEIGHTS, st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_texts_alone_have_the_verdicts_of_all_their_claims(texts, weights, seed):
    claims, evidence = drawn_lists([8]*10, seed)
    text_claims = TextClaims(np.repeat(np.arange(len(texts)), list(map(len, texts))), np.concatenate(texts))
    brief, whole = evaluate_incrementally(claims, evidence, Drawn(weights), False, text_claims=text_claims), evaluate_incrementally(claims,
        evidence, Drawn(weights), False)
    known, verified = (algorithm1(labels_of(found.probabilities)) for found in (brief, whole))
    settled = (known[1] >= 0) | ~np.isnan(brief.probabilities).any((1, 2))
    for rows in texts: assert known_verdict(rows, known[0], settled) is all(verified[0][row] for row in rows)
    # wider waves are guesses, and one may guess worse
    by_rank = [evaluate_incrementally(claims, evidence, Drawn(weights), False, 0, of).evaluated for of in (text_claims, None)]
    assert by_rank[0] <= by_rank[1]


def test_verdicts_of_texts_alone():
    texts = pl.DataFrame({'id': ['both', 'false', 'true', 'none'],
                          'text': ['Owls hunt at night. Owls swim.', 'Owls swim. Zeppelins hover over otters.', 'Owls hunt at night.',
                                   '…']})
    for method in VERDICT_RULES:
        options = BY_WORDS | dict(retriever='tiny', method=method)
        brief, whole = (verify_texts(texts, WORLD, **options, stop_at_text_verdict=only) for only in (True, False))
        assert brief.texts['verdict'].to_list() == whole.texts['verdict'].to_list()
        assert brief.settings['evaluated'] <= whole.settings['evaluated']
        assert brief.texts['algorithm1'].to_list() == whole.texts['algorithm1'].to_list()
        assert whole.claims['outcome'].null_count() == 0 and whole.texts['score'].null_count() == 1
        TEXT_VERDICTS.check(brief.texts); CLAIM_VERDICTS.check(brief.claims); EVIDENCE.check(brief.evidence)
        assert verdict_json(brief)['texts'][3]['verdict'] == 'undecided' and verdict_report(brief)
    brief = verify_texts(texts, WORLD, **(BY_WORDS | dict(retriever='tiny')), stop_at_text_verdict=True)
    left = brief.claims.filter(pl.col('outcome').is_null())
    assert left['claim'].to_list() == ['Zeppelins hover over otters.'] and left['label'].item() is None and left['score'].item() is None
    assert '1 not looked at' in verdict_report(brief) and 'not looked at: the text' in verdict_report(brief)


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=12), WEIGHTS, st.integers(1, 10),
       st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_texts_have_the_same_verdicts_when_their_claims_come_in_parts(texts, weights, size, seed):
    claims, evidence = drawn_lists([0, 1, *[8]*8], seed)
    of = TextClaims(np.repeat(np.arange(len(texts)), list(map(len, texts))), np.concatenate(texts))
    verified = algorithm1(labels_of(evaluate_all(claims, evidence, Drawn(weights), False).probabilities))[0]
    needed, found = ClaimsInParts(of, 10), []
    for start in range(0, 10, size):
        needed.start = start
        found.append(verify_claims(claims[start:start + size], evidence[start:start + size], Drawn(weights), store=False,
                                   text_claims=needed))
    said, settled = (np.concatenate([getattr(part, name) for part in found]) for name in ('verified', 'settled'))
    assert (said[settled] == verified[settled]).all()
    for rows in texts: assert known_verdict(rows, said, settled) is all(verified[rows])


def test_claims_in_parts_give_the_same_frames(monkeypatch, tmp_path):
    from factlab.verification import pipeline
    generator = random.Random(0)
    words = ['owls', 'otters', 'rivers', 'night', 'bridge', 'swim', 'trams', 'fish', 'hunt']
    texts = pl.DataFrame({'id': [f't{at}' for at in range(12)], 'text': [' '.join(f'{" ".join(generator.choices(words, k=3)).capitalize()}.'
        for _ in range(4)) for _ in range(12)]})
    held = []
    class Looked(Drawn):
        def probabilities(self, pairs, store=None): held.append(len({claim for _, claim in pairs})); return super().probabilities(pairs)
    for method in ('three-way', 'net'):
        options = BY_WORDS | dict(method=method)
        whole, stopped = (verify_texts(texts, WORLD, **options | dict(verifier=Drawn()), stop_at_text_verdict=stop)
                          for stop in (False, True))
        held.clear()
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, 'CLAIMS_AT_ONCE', 7)
            parts = verify_texts(texts, WORLD, **options | dict(verifier=Looked()))
            none = verify_texts(texts, WORLD, **options | dict(verifier=Looked()), stop_at_text_verdict=True, evidence=False)
            disk = verify_texts(texts, WORLD, **options | dict(verifier=Looked()), evidence=tmp_path/method)
        assert max(held) <= 7 < whole.claims['claim'].n_unique()
        assert parts.texts.equals(whole.texts) and parts.claims.equals(whole.claims) and disk.claims.equals(whole.claims)
        same = ['text_id', 'number', 'claim', 'rank', 'passage_id', 'page', 'passage', 'score']
        assert parts.evidence.select(same).equals(whole.evidence.select(same))
        assert none.texts['verdict'].equals(stopped.texts['verdict']) and none.evidence.is_empty() and disk.evidence.is_empty()
        written = pl.read_parquet(tmp_path/method/'evidence-*.parquet')
        EVIDENCE.check(written)
        assert len(list((tmp_path/method).iterdir())) > 1 and written.sort(same).equals(parts.evidence.sort(same))


def test_a_killed_verification_goes_on_from_the_store(store):
    computed = []
    class Kept(Drawn):
        stop = 30
        def probabilities(self, pairs, store=None):
            def compute(part):
                if len(computed) >= self.stop: raise KeyboardInterrupt
                computed.extend(part)
                return Drawn.probabilities(self, part)
            return cached_probabilities(pairs, 'kept', {'kept': 1}, compute, store)
    claims, evidence = [str(at) for at in range(20)], [[f'{at} {rank}' for rank in range(6)] for at in range(20)]
    with pytest.raises(KeyboardInterrupt): evaluate_incrementally(claims, evidence, Kept(), store)
    verifier = Kept()
    verifier.stop = 10**6
    before = len(computed)
    again = evaluate_incrementally(claims, evidence, verifier, store)
    assert before >= 20 and len(computed) == again.evaluated and len({*computed}) == len(computed)


@pytest.mark.parametrize('claims, evidence', [(['a'], []), (['a'], ['one text']), ([], [['b']])])
def test_lists_that_do_not_fit(claims, evidence):
    with pytest.raises(DataError): verify_claims(claims, evidence, Drawn(), store=False)


# ---- the other rules, against plain loops ------------------------------------------------------------------------------------------

@pytest.mark.parametrize('method', ['max-entailment', 'max-entailment?threshold=0.3', 'net', 'net?threshold=-0.2', 'net?threshold=0.4'])
def test_rules_are_what_they_say(method):
    generator = np.random.default_rng(1)
    evidence = [[f'{at} {rank}' for rank in range(generator.integers(0, 6))] for at in range(60)]
    found = verify_claims([str(at) for at in range(60)], evidence, Drawn(), method, store=False)
    rule = read_method(method)
    for at, passages in enumerate(evidence):
        rows = [Drawn().probabilities([(passage, str(at))])[0] for passage in passages]
        most = [max((float(row[label]) for row in rows), default=0.0) for label in range(3)]
        decisive = [row for row in rows if row.argmax() != NEUT]
        if method.startswith('net'):
            score, strongest = most[ENT] - most[CONTR], max(decisive, key=lambda row: max(row[ENT], row[CONTR]), default=None)
            label = NEUT if strongest is None else int(strongest.argmax())
            if label == ENT and score < rule.threshold or label == CONTR and score >= rule.threshold: label = NEUT
        else:
            score = most[ENT]
            against = any(row.argmax() == CONTR for row in rows)
            label = ENT if passages and score >= rule.threshold else CONTR if against else NEUT
        assert np.isclose(found.scores[at], score) and found.labels[at] == label and (found.places[at] == -1) == (label == NEUT)
    assert found.evaluated == found.pairs and len({*VERDICT_RULES}) == 4 and {*found.labels.tolist()} == {ENT, NEUT, CONTR}


@given(st.lists(st.lists(st.lists(st.integers(0, 10), min_size=3, max_size=3), max_size=5), min_size=1, max_size=8))
def test_no_rule_supports_what_no_passage_entails(claims):
    table = np.full((len(claims), max(map(len, claims)), 3), np.nan)
    for at, rows in enumerate(claims):
        for rank, row in enumerate(rows): table[at, rank] = np.array(row)/max(1, sum(row))
    for rule in VERDICT_RULES.values():
        found = decide(rule, table)
        for rows, label, place in zip(table, found.labels, found.places, strict=True):
            rows = rows[~np.isnan(rows).any(-1)]
            if label == ENT: assert place >= 0 and (rows[place, ENT] >= rows[place, 1:].sum() or rows[place, ENT] > rows[place, 1:].max())
            if label == CONTR: assert place >= 0 and rows[place, CONTR] >= rows[place].max()
            if not len(rows) or (rows[:, NEUT] > rows[:, [ENT, CONTR]].max(1)).all(): assert label == NEUT and place == -1


@pytest.mark.parametrize('method', ['best', '', 'algorithm1?threshold=.5', 'max-entailment?threshold=2',
                                    'max-entailment?threshold=nan', 'max-entailment?share=1', 'net?threshold=x', 'mean-entailment',
                                    'three-way?threshold=1'])
def test_methods_that_are_none(method):
    with pytest.raises(UsageError): read_method(method)


# ---- texts -------------------------------------------------------------------------------------------------------------------------

def one(text, **options): return verify_text(text, WORLD, **(BY_WORDS | options))


@pytest.mark.parametrize('text, outcomes, verdict, paper', [
    ('Owls hunt at night.', ['supported'], 'factual', True),
    ('Owls hunt at night. Owls swim.', ['supported', 'contradicted'], 'not factual', False),
    ('Otters drive lorries.', ['not in the evidence'], 'undecided', True),
    ('Owls hunt at night. Otters drive lorries.', ['supported', 'not in the evidence'], 'undecided', True),
    ('Otters drive lorries. Owls swim.', ['not in the evidence', 'contradicted'], 'not factual', False)])
def test_a_text_is_factual_when_all_of_its_claims_are_supported(text, outcomes, verdict, paper):
    found = one(text)
    assert found.claims['outcome'].to_list() == outcomes and found.texts['verdict'].item() == verdict
    assert found.claims['label'].replace_strict(OUTCOMES).to_list() == outcomes
    assert found.texts['algorithm1'].item() is paper and (found.texts['reason'].item() is not None) == (verdict == 'undecided')
    assert one(text, method='algorithm1').texts['verdict'].item() == ('factual' if paper else 'not factual')
    TEXT_VERDICTS.check(found.texts); CLAIM_VERDICTS.check(found.claims); EVIDENCE.check(found.evidence)


@pytest.mark.parametrize('text, why', [('', 'empty'), (' \n\t ', 'empty'), (None, 'empty'), ('… !? --', 'no claim'),
                                       ('\u200b\u202e', 'no claim')])
@pytest.mark.parametrize('method', list(VERDICT_RULES))
def test_a_text_without_a_claim_is_undecided(text, why, method):
    found = one(text, method=method)
    row = found.texts.row(0, named=True)
    assert (row['verdict'], row['algorithm1'], row['n_claims']) == ('undecided', None, 0) and why in row['reason']
    assert found.claims.is_empty() and found.evidence.is_empty() and verdict_report(found).startswith('UNDECIDED: ')
    CLAIM_VERDICTS.check(found.claims); EVIDENCE.check(found.evidence)


# ---- never factual without evidence ------------------------------------------------------------------------------------------------

BRIDGE = pl.DataFrame({'id': ['b1', 'b2'], 'page': ['Bridge']*2, 'text': ['The bridge at Marl opened in 1931.', 'It spans the river Ode.']})
NOTHING = 'Napoleon was born in Ohio. Penguins invented the telephone.'

class Says:
    "The same three probabilities for every pair, or for those whose evidence has a word."
    name, identity = 'says', {'verifier': 'says'}
    def __init__(self, row, word='', otherwise=(.1, .8, .1)): self.row, self.word, self.otherwise = row, word, otherwise
    def probabilities(self, pairs, store=None):
        return np.array([self.row if self.word in evidence else self.otherwise for evidence, _ in pairs], np.float32).reshape(-1, 3)


@pytest.mark.parametrize('retriever', ['bm25', 'tiny'])
@pytest.mark.parametrize('method', [*VERDICT_RULES, 'net?threshold=-1', 'max-entailment?threshold=0.2'])
def test_a_corpus_about_something_else_makes_no_text_factual(method, retriever):
    found = verify_text(NOTHING, BRIDGE, extractor='sentences', retriever=retriever, verifier=ByRule(), method=method, store=False)
    assert found.claims['outcome'].to_list() == ['not in the evidence']*2 and found.texts['algorithm1'].item() is True
    shown = verdict_report(found)
    counts = '2 claims, 0 supported, 0 contradicted, 2 not in the evidence.'
    if method != 'algorithm1': assert shown.startswith(f'UNDECIDED: {counts}') and 'FACTUAL' not in shown
    else: assert shown.startswith('FACTUAL by Algorithm 1, which counts what nothing decides as verified:') and '0 supported' in shown
    assert verdict_json(found)['texts'][0]['reason'] == (None if method == 'algorithm1' else '2 of 2 are not in the evidence')


@pytest.mark.parametrize('method', [method for method in VERDICT_RULES if method != 'algorithm1'])
def test_passages_that_repeat_the_subject_alone_make_no_text_factual(method):
    repeated = pl.DataFrame({'id': [str(at) for at in range(9)], 'page': ['Owls']*9, 'text': ['Owls. Owls! The owls.']*9})
    found = verify_text('Owls invented the telephone.', repeated, **BY_WORDS, method=method)
    assert found.claims['outcome'].item() == 'not in the evidence' and found.texts['verdict'].item() == 'undecided'
    assert found.claims['passages'].item() > 0


def test_a_corpus_that_contradicts_itself_leaves_a_claim_open_where_all_passages_are_read():
    both = pl.DataFrame({'id': ['a', 'b'], 'page': ['Owls']*2, 'text': ['Owls swim.', 'Owls never swim.']})
    assert verify_text('Owls swim.', both, **BY_WORDS).claims['outcome'].item() != 'not in the evidence'  # the first passage decides
    found = verify_text('Owls swim.', both, **BY_WORDS, method='net?threshold=0.5')
    assert found.claims['outcome'].item() == 'not in the evidence' and found.texts['verdict'].item() == 'undecided'
    assert verify_text('Owls swim.', both.head(1), **BY_WORDS, method='net?threshold=0.5').texts['verdict'].item() == 'factual'


@pytest.mark.parametrize('corpus', [WORLD.head(0), WORLD.with_columns(text=pl.lit(' '))])
def test_an_empty_corpus_is_refused_and_gives_no_verdict(corpus):
    for retriever in ('bm25', 'tiny'):
        with pytest.raises(DataError):
            verify_text(NOTHING, corpus, extractor='sentences', retriever=retriever, verifier=ByRule(), store=False)


@pytest.mark.parametrize('method', VERDICT_RULES)
def test_a_passage_about_something_else_contradicts_nothing(method):
    "The verifier says so of every passage, which scores low in the search; Algorithm 1 says it as the paper has it."
    against = Says((.1, .2, .7), word='1931')
    found = verify_text('Napoleon was born in Ohio.', BRIDGE, extractor='sentences', retriever='tiny', verifier=against, store=False,
                        method=method)
    claim, verdict, paper = found.claims.row(0, named=True), found.texts['verdict'].item(), method == 'algorithm1'
    assert (claim['outcome'], verdict) == (('contradicted', 'not factual') if paper else ('not in the evidence', 'undecided'))
    assert claim['algorithm1'] is False and (claim['rank'] is None) is not paper
    assert 'may not be about it' in found.texts['warning'].item()
    about = verify_text('The bridge at Marl opened in 1932.', BRIDGE, extractor='sentences', retriever='tiny', verifier=against,
                        store=False, method=method)
    claim = about.claims.row(0, named=True)
    assert (claim['outcome'], about.texts['verdict'].item(), about.texts['warning'].item()) == ('contradicted', 'not factual', None)
    shown = about.evidence.filter(rank=claim['rank']).row(0, named=True)
    assert shown['score'] == claim['search_score'] and '1931' in shown['passage'] and '1931' in verdict_report(about)


def test_a_low_search_score_is_warned_of():
    for text, warned in ((NOTHING, 'claims 1, 2: '), ('Owls hunt at night. Penguins invented the telephone.', 'claim 2: '),
                         ('Owls hunt at night.', None)):
        warning = one(text, retriever='tiny').texts['warning'].item()
        assert warning is None if warned is None else warning.startswith(warned) and '0.44' in warning
    assert one(NOTHING).texts['warning'].item() is None  # scores of bm25 have no scale of their own
    many = ' '.join(f'Penguin {at} invented the telephone.' for at in range(14))
    assert '10 and 4 more:' in one(many, retriever='tiny').texts['warning'].item()
    german = ('Die Eulen jagen in der Nacht und sie schlafen den ganzen Tag in einer Höhle, die nicht weit von dem Fluss ist.')
    told = one(german, retriever='tiny').texts['warning'].item()
    assert 'German' in told and (told.count('; ') == 1 + ('may not be about it' in told))


def test_a_claim_that_is_supported_unsurely_is_told():
    found = verify_text('The bridge at Marl opened.', BRIDGE, **(BY_WORDS | dict(retriever='tiny', verifier=Says((.6, .3, .1)))))
    assert found.claims['outcome'].to_list() == ['supported'] and found.texts['verdict'].item() == 'undecided'
    assert verdict_report(found, width=200).startswith(
        'UNDECIDED: 1 claim, 1 supported, 0 contradicted, 0 not in the evidence (supported with a probability below 0.984: 1 of 1).')
    assert one('Owls hunt at night.', method='three-way?sure=0.995').texts['verdict'].item() == 'undecided'
    assert one('Owls hunt at night.', method='three-way?sure=0.5').texts['verdict'].item() == 'factual'


@pytest.mark.parametrize('method', list(VERDICT_RULES))
def test_what_a_two_way_verifier_does_not_support_is_not_contradicted(method):
    class TwoWay(Says): two_way = True
    supports, denies = (one('Owls hunt at night.', verifier=TwoWay(row), method=method) for row in ((.99, 0, .01), (.01, 0, .99)))
    assert supports.claims['outcome'].to_list() == ['supported'] and supports.texts['verdict'].item() == 'factual'
    paper = method == 'algorithm1'
    assert denies.claims['outcome'].to_list() == ['contradicted' if paper else 'not in the evidence']
    assert denies.texts['verdict'].item() == ('not factual' if paper else 'undecided')
    if method == 'three-way':  # the second passage supports it
        second = TwoWay((.99, 0, .01), 'Ode', (.01, 0, .99))
        found = verify_text('It opened.', BRIDGE, **(BY_WORDS | dict(retriever='tiny', verifier=second)))
        assert found.claims['outcome'].to_list() == ['supported'] and found.settings['evaluated'] <= 2


@pytest.mark.parametrize('text, words', [
    ('It is false that owls hunt at night.', '"false"'), ('Only on Mars, owls hunt at night.', '"Only", "Mars"'),
    ('Although penguins sing, owls hunt at night.', '"Although", "penguins", "sing"'),
    ('Owls hunt at night.\n\n| bird | song |\n|---|---|\n| Penguins | opera |\n', '"bird", "song", "Penguins", "opera"'),
    ('Owls hunt at night.\n```\nPenguins sing.\n```\n', '"Penguins", "sing"')])
def test_a_text_is_not_factual_where_a_word_is_in_no_claim(text, words):
    "An extractor may overlook what turns a sentence round."
    class Overlooks:
        name, identity = 'overlooks', {}
        def extract(self, texts, store=None): return [Parsed(['Owls hunt at night.']) for _ in texts]
    found = one(text, extractor=Overlooks())
    assert found.claims['outcome'].to_list() == ['supported'] and found.texts['verdict'].item() == 'undecided'
    assert found.texts['reason'].item() == f"no claim has the text's {words}" and f'{words})' in verdict_report(found)
    assert one('At night the owl hunts.', extractor=Overlooks()).texts['verdict'].item() == 'factual'
    assert one(text, extractor=Overlooks(), method='algorithm1').texts['verdict'].item() == 'factual'


CUP = ['The Dorvik football club won the national cup in 1951.', 'The Dorvik football club won the league title in 1960.']
CASTLE = ['Halden Castle was built by the Duke of Orm.', 'Mira Tolen was born in Vask.']


@pytest.mark.parametrize('text, claims, why', [
    ('Halden Castle was built by the Duke of Orm, so Mira Tolen was born in Vask.', CASTLE, '"so"'),
    ('The Dorvik football club won the national cup in 1951 to win the league title in 1960.', CUP, '"to win"'),
    ('The Dorvik football club won the league title in 1960, then the national cup in 1951.', CUP, '"then"'),
    ('The Dorvik football club, having won the league title in 1960, won the national cup in 1951.', CUP, '"having"'),
    ('Winning the league title in 1960, the Dorvik football club won the national cup in 1951.', CUP, '"Winning"'),
    ('If Mira Tolen was born in Vask, Halden Castle was built by the Duke of Orm.', CASTLE, '"If"'),
    ('Halden Castle may have been built by the Duke of Orm before Mira Tolen was born in Vask.', CASTLE, '"may", "before"')])
def test_a_text_is_not_factual_where_its_claims_lose_a_link(text, claims, why):
    "Each claim is borne out, what the text makes of them is not."
    class Splits:
        name, identity = 'splits', {}
        def extract(self, texts, store=None): return [Parsed(claims) for _ in texts]
    known = pl.DataFrame({'id': ['p'], 'page': ['p'], 'text': [' '.join(claims)]})
    found = verify_texts(pl.DataFrame({'id': ['t'], 'text': [text]}), known, Splits(), 'tiny', Says((.99, .005, .005)), store=False)
    assert found.claims['outcome'].to_list() == ['supported']*len(claims) and found.texts['verdict'].item() == 'undecided'
    assert why in found.texts['reason'].item()
    unsure = verify_texts(pl.DataFrame({'id': ['t'], 'text': [text]}), known, Splits(), 'tiny', Says((.9, .05, .05)), store=False)
    assert unsure.texts['reason'].item() == (f'supported with a probability below 0.984: {len(claims)} of {len(claims)}; '
                                             + found.texts['reason'].item())
    plain = verify_texts(pl.DataFrame({'id': ['t'], 'text': [' '.join(claims)]}), known, Splits(), 'tiny', Says((.99, .005, .005)),
                         store=False)
    assert plain.texts['verdict'].item() == 'factual'


DAM = 'The Ulvik dam was built in 1950.'

@pytest.mark.parametrize('passage, claim, word', [
    (f'The following sentences are all false. {CASTLE[0]}', CASTLE[0], 'false'),
    (f'Retraction. The article below was invented by its author and has been withdrawn.\n\n{DAM}', DAM, 'Retraction'),
    (f'Wrong statements for the exam. Mark each as wrong. 1. {DAM}', DAM, 'Wrong'),
    (f'This page lists hoaxes that were spread about Halden. {CASTLE[0]}', CASTLE[0], 'hoaxes'),
    (f'Test data, not real: {CUP[0]}', CUP[0], 'Test data'), (f'{CASTLE[0]} Everything above is invented.', CASTLE[0], 'invented')])
def test_a_text_is_not_factual_where_its_passage_calls_itself_untrue(passage, claim, word):
    known = pl.DataFrame({'id': ['p'], 'page': ['p'], 'text': [passage]})
    options = dict(extractor='sentences', retriever='tiny', verifier=Says((.99, .005, .005)), store=False)
    found = verify_text(claim, known, **options)
    assert found.claims['outcome'].to_list() == ['supported'] and found.texts['verdict'].item() == 'undecided'
    assert found.texts['reason'].item() == f'the passage that supports claim 1 speaks of "{word}": read it'
    assert f'speaks of "{word}": read it' in verdict_report(found, width=300) and 'read it' in verdict_json(found)['texts'][0]['reason']
    assert verify_text(claim, known, **options, method='algorithm1').texts.select('verdict', 'reason').row(0) == ('factual', None)
    assert verify_text(claim, known.with_columns(text=pl.lit(claim)), **options).texts['verdict'].item() == 'factual'


def test_a_correction_in_another_passage_is_a_doubt():
    told, correction = 'The Sella ferry carries 300 passengers.', 'Correction: a note on the Sella ferry gave the wrong figure.'
    options = dict(extractor='sentences', retriever='bm25', verifier=ByRule(), store=False)
    def verdict(*texts):
        known = pl.DataFrame({'id': [str(at) for at in range(len(texts))], 'page': ['p']*len(texts), 'text': list(texts)})
        return verify_text(told, known, **options).texts.select('verdict', 'reason').row(0)
    assert verdict(told, 'The Orm ferry: this note was wrong.') == ('factual', None)
    why = 'the passage that supports claim 1 is not alone: another with the same names speaks of "Correction": read it'
    assert verdict(told, correction) == ('undecided', why)


def test_claims_whose_passages_call_themselves_untrue_are_named():
    known = pl.DataFrame({'id': ['a', 'b', 'c'], 'page': ['p']*3, 'text': [f'A myth: {CUP[0]}', DAM, f'A hoax and no myth: {CASTLE[0]}']})
    rows = pl.DataFrame({'id': ['x', 'y', 'z'], 'text': [f'{CUP[0]} {DAM} {CASTLE[0]}', DAM, f'{CUP[0]} Owls sing.']})
    for parts in (10, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr('factlab.verification.pipeline.CLAIMS_AT_ONCE', parts)
            found = verify_texts(rows, known, 'sentences', 'bm25', ByRule(), store=False).texts
        assert found['verdict'].to_list() == ['undecided', 'factual', 'undecided']
        assert found['reason'].to_list() == ['the passage that supports claim 1 speaks of "myth"; the passage that supports claim 3 '
                                             'speaks of "hoax": read them', None, '1 of 2 are not in the evidence']


@pytest.mark.parametrize('passage, claim, why', [
    ('In the film, the bridge over the Tarn collapses during a storm.', 'The bridge over the Tarn collapses during a storm.',
     'has "film", which the claim leaves out'),
    ('The mill burned. The council planned to build a tower.', 'The council built a tower.', 'has "planned", which the claim leaves out'),
    ('The dam broke in 1911. In 1934 Clara Venn beat Otto Brandt.', 'In 1934 Otto Brandt beat Clara Venn.',
     'has "beat" before "Brandt", which the claim turns round'),
    ('The tunnel is 3.4 kilometres long and was dug by hand.', 'The tunnel is 3.4 miles long.', 'lacks "miles" of the claim'),
    ('Because rivers were diverted, the Dead Sea has sunk since the 1960s.', 'Diverted water has lowered the Bolivia Sea.',
     'lacks "Bolivia" of the claim'),
    ('Because rivers were diverted, the Dead Sea has sunk since the 1960s.', 'Diverted water has lowered the Dead Sea since the 1970s.',
     'lacks "1970" of the claim')])
def test_a_text_is_not_factual_where_a_claim_says_another_thing_than_its_passage(passage, claim, why):
    known = pl.DataFrame({'id': ['p'], 'page': ['p'], 'text': [passage]})
    options = dict(extractor='sentences', retriever='tiny', verifier=Says((.99, .005, .005)), store=False)
    found = verify_text(claim, known, **options)
    assert found.claims['outcome'].to_list() == ['supported'] and found.texts['verdict'].item() == 'undecided'
    assert found.texts['reason'].item() == f'the passage that supports claim 1 {why}: read it'
    assert verify_text(claim, known, **options, method='algorithm1').texts.select('verdict', 'reason').row(0) == ('factual', None)
    assert verify_text(passage, known, **options).texts['verdict'].item() == 'factual'


def test_a_claim_that_repeats_a_name_is_not_verified():
    class Repeats:
        name, identity = 'repeats', {}
        def extract(self, texts, store=None): return [Parsed(['Reck had lost to Frost.', 'Frost had lost to Frost.']) for _ in texts]
    text, known = 'Dorn beat Reck, who had lost to Frost.', pl.DataFrame({'id': ['p'], 'page': ['p'], 'text': ['Reck had lost to Frost.']})
    options = dict(extractor=Repeats(), retriever='tiny', verifier=ByRule(), store=False)
    found = verify_text(text, known, **options)
    assert found.claims.select('claim', 'outcome').rows() == [('Reck had lost to Frost.', 'supported'), (text, 'not in the evidence')]
    assert found.texts['warning'].item().startswith('1 claim repeated "Frost": its sentence stands in its place')
    paper = verify_text(text, known, **options, method='algorithm1')
    assert paper.claims['claim'].to_list() == ['Reck had lost to Frost.', 'Frost had lost to Frost.']


@given(st.lists(st.lists(st.sampled_from([0, 1, 2]), max_size=3), min_size=1, max_size=4), st.sampled_from(list(VERDICT_RULES)),
       st.sampled_from([.5, .9, .99]))
@settings(deadline=None, max_examples=60)
def test_the_verdict_is_what_the_outcomes_are(labels, method, chance):
    "Any labels of the passages: factual needs sure support for every claim, except by the paper's rule."
    names = ('amber', 'birch', 'cedar', 'denim', 'ember', 'fern')
    class Labelled:
        name, identity = 'labelled', {}
        def extract(self, texts, store=None): return [Parsed([f'claim {names[at]}' for at in range(len(labels))])]
        def probabilities(self, pairs, store=None):
            row = [chance, (1 - chance)/2, (1 - chance)/2]
            return np.array([np.roll(row, int(evidence.split()[-1])) for evidence, _ in pairs], np.float32).reshape(-1, 3)
    passages = pl.DataFrame([dict(id=f'{at}/{rank}', page='p', text=f'claim {names[at]}. {label}') for at, found in enumerate(labels)
                             for rank, label in enumerate(found)] or [dict(id='x', page='p', text='nothing 1')])
    parts = Labelled()
    found = verify_texts(pl.DataFrame({'id': ['t'], 'text': ['claim']}), passages, parts, 'bm25', parts, method=method, store=False)
    outcomes, verdict = found.claims['outcome'].to_list(), found.texts['verdict'].item()
    assert verdict in VERDICTS and len(outcomes) == len(labels)
    if method == 'algorithm1': assert verdict == ('factual' if found.texts['algorithm1'].item() else 'not factual')
    else:
        sure = {*outcomes} == {'supported'} and (chance > SURE or method != 'three-way')
        assert verdict == ('not factual' if 'contradicted' in outcomes else 'factual' if sure else 'undecided')
        assert (found.texts['reason'].item() is None) == (verdict != 'undecided')
    counts = found.texts.row(0, named=True)
    assert [counts['n_supported'], counts['n_contradicted'], counts['n_missing']] == [outcomes.count(each) for each in (
        'supported', 'contradicted', 'not in the evidence')]


@pytest.mark.parametrize('text', ['\ud800', 'Owls hunt \udc00 at night.', '\ud83d\ude00'])
def test_half_a_surrogate_pair_is_replaced(text):
    found = verify_text(text, WORLD, **BY_WORDS)
    assert found.texts.height == 1 and json.dumps(verdict_json(found), ensure_ascii=False).encode('utf-8')
    class Halves:
        name, identity = 'halves', {}
        def extract(self, texts, store=None): return [Parsed([f'Owls {text} hunt.']), Parsed(None, 'unparsed', f'found {text}')]
    texts = pl.DataFrame({'id': ['a', 'b'], 'text': ['x', 'y']})
    found = verify_texts(texts, WORLD, **{**BY_WORDS, 'extractor': Halves()})
    assert found.claims.height == 1 and found.texts['reason'][1].startswith('no claims could be read: found')


@pytest.mark.parametrize('name', ['bm25', 'fusion:tiny'])
def test_the_sample_is_a_corpus_for_search_by_words(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path/'sample').mkdir()  # a folder of that name is not what is asked for
    monkeypatch.setattr('factlab.retrieval.corpus.cached_corpus', lambda passages, encoder, **options: BM25(passages['text'].to_list()))
    passages, search = open_search('sample', name)
    expected = retrieval_task('sample').passages
    assert passages['id'].to_list() == expected['id'].to_list()
    assert search.search([expected['text'][3]], 1, False).ids.tolist() == [[3]]
    found = verify_text(split_sentences(expected['text'][3])[0], 'sample', **{**BY_WORDS, 'retriever': name}, k=3)
    assert found.settings['passages'] == expected.height and found.evidence['passage_id'][0] == expected['id'][3]


def test_store_false_reaches_every_search(monkeypatch):
    asked = []
    class Asked(BM25):
        def search(self, texts, k, store=None): return asked.append(store) or super().search(texts, k)
    fused = Fused([Asked(WORLD['text'].to_list()), Asked(WORLD['text'].to_list())])
    monkeypatch.setattr('factlab.verification.pipeline.load_text_search', lambda name, passages: fused)
    verify_text('Owls hunt at night.', WORLD, **{**BY_WORDS, 'retriever': 'fusion'})
    assert asked == [False, False]


def test_no_texts():
    found = verify_texts(pl.DataFrame(schema={'id': pl.String, 'text': pl.String}), WORLD, **BY_WORDS)
    assert found.texts.is_empty() and found.claims.is_empty() and found.settings['pairs'] == 0


def test_an_extractor_that_cannot_be_read_gives_no_verdict():
    class Mute:
        name, identity = 'mute', {}
        def extract(self, texts, store=None):
            return [Parsed(None, 'unparsed', 'the answer is empty') if 'swim' in text else Parsed([text], 'ok', 'cut off')
                    for text in texts]
    found = verify_texts(pl.DataFrame({'id': ['a', 'b'], 'text': ['Owls swim.', 'Owls hunt at night.']}), WORLD,
                         **(BY_WORDS | dict(extractor=Mute())))
    assert found.texts['verdict'].to_list() == ['undecided', 'factual']
    assert 'the answer is empty' in found.texts['reason'][0] and found.texts['warning'].to_list() == [None, 'cut off']


def test_a_step_says_why_a_text_has_no_claims(monkeypatch):
    texts = pl.DataFrame({'id': list('abcd'), 'text': ['One.', 'Two.', 'Three.', 'Four.']})
    claims = CLAIMS_OF_TEXTS.frame({'id': list('abcd'), 'status': ['ok', 'ok', 'unparsed', 'failed'], 'reason': ['', '', 'no list', 'down'],
                                    'claims': [['One.'], [], None, None]})
    world = NamedCorpus(WORLD, Encoder())
    monkeypatch.setattr(NamedCorpus, 'search', lambda self, texts, k, store=None: first_passages(WORLD.height, len(texts), k))
    found = TextVerdicts(ByRule(), world).predict(texts, None, False, claims=claims)
    assert found['reason'].to_list() == [None, 'no claim was found in the text', 'no claims could be read: no list', 'no claims came: down']
    assert found['algorithm1'].to_list() == [True, None, None, None]
    known = TextVerdicts(ByRule(), world).predict(texts, None, False, claims=claims.select('id', 'claims'))
    assert known['algorithm1'].equals(found['algorithm1'])


def test_a_claim_of_several_texts_is_verified_once():
    verifier = Drawn((.1, 100, .1))
    texts = pl.DataFrame({'id': [f't{at}' for at in range(5)], 'text': ['Owls hunt at night. Otters live by rivers.']*5})
    found = verify_texts(texts, WORLD, **(BY_WORDS | dict(verifier=verifier, retriever='tiny')))
    assert len(verifier.asked) == 2*4 and found.claims.height == 10 and found.evidence.height == 40
    assert found.texts['n_claims'].to_list() == [2]*5 and found.evidence['text_id'].to_list() == sorted(found.evidence['text_id'])


def test_k_beyond_the_corpus():
    found = one('Owls hunt at night.', retriever='tiny', k=1000, verifier=Drawn((.1, 100, .1)))
    assert found.evidence['rank'].to_list() == [1, 2, 3, 4] and found.claims['passages'].item() == 4
    assert found.evidence['score'].is_sorted(descending=True)
    for k in (0, -1, 2.5):
        with pytest.raises(UsageError, match='k is'): one('Owls hunt.', k=k)


@pytest.mark.parametrize('rule', list(VERDICT_RULES))
def test_what_the_corpus_never_mentions(rule):
    found = one('Zeppelins hover.', method=rule)
    assert found.claims['passages'].item() == 0 and found.claims['label'].item() == 'NEUT' and found.claims['rank'].item() is None
    assert found.claims['outcome'].item() == 'not in the evidence' and found.claims['search_score'].item() is None
    assert found.texts['verdict'].item() == ('factual' if rule == 'algorithm1' else 'undecided')
    assert 'no passage was found' in verdict_report(found)


def test_probabilities_stand_beside_their_passage():
    found = one('Owls swim. Trams cross the bridge.', retriever='tiny', verifier=Drawn())
    for row in found.evidence.iter_rows(named=True):
        expected = Drawn().probabilities([(row['passage'], row['claim'])])[0]
        evaluated = [row[f'p_{label.lower()}'] for label in NLI_LABELS]
        assert evaluated == [None]*3 or np.allclose(evaluated, expected)
        assert row['passage'] == WORLD.filter(id=row['passage_id'])['text'].item()
        assert row['page'] == WORLD.filter(id=row['passage_id'])['page'].item()
    for claim in found.claims.iter_rows(named=True):
        shown = found.evidence.filter(number=claim['number'], rank=claim['rank']).row(0, named=True) if claim['rank'] else None
        if shown: assert [claim[f'p_{label.lower()}'] for label in NLI_LABELS] == [shown[f'p_{label.lower()}'] for label in NLI_LABELS]
        assert claim['label'] == (NLI_LABELS[int(np.argmax([claim[f'p_{label.lower()}'] for label in NLI_LABELS]))] if shown else 'NEUT')


@pytest.mark.parametrize('frame, match', [
    (pl.DataFrame({'id': ['a', 'a'], 'text': ['x', 'y']}), 'come twice'),
    (pl.DataFrame({'id': ['a', None], 'text': ['x', 'y']}), 'missing'),
    (pl.DataFrame({'id': ['a'], 'words': ['x']}), 'text'), (pl.DataFrame({'id': [1], 'text': ['x']}), 'Int64')])
def test_frames_that_are_none(frame, match):
    with pytest.raises(DataError, match=match): verify_texts(frame, WORLD, **BY_WORDS)


@pytest.mark.parametrize('retriever', ['bm25', 'tiny'])
def test_corpora_of_every_form(tmp_path, retriever):
    (tmp_path/'texts').mkdir()
    for row in WORLD.iter_rows(named=True): (tmp_path/'texts'/f'{row["id"]}.txt').write_text(row['text'])
    WORLD.write_parquet(tmp_path/'world.parquet')
    WORLD.write_ndjson(tmp_path/'world.jsonl')
    encoded = Corpus.create(tmp_path/'encoded', WORLD, 'tiny')
    for corpus in (WORLD, tmp_path/'texts', str(tmp_path/'world.parquet'), tmp_path/'world.jsonl', encoded, tmp_path/'encoded'):
        found = verify_text('Owls swim.', corpus, **(BY_WORDS | dict(retriever=retriever)))
        assert found.texts['verdict'].item() == 'not factual' and found.settings['passages'] == 4
    for corpus in (tmp_path/'nowhere', WORLD.head(0), WORLD.with_columns(text=pl.lit(' '))):
        with pytest.raises(DataError): verify_text('Owls swim.', corpus, **(BY_WORDS | dict(retriever=retriever)))


def test_a_corpus_of_another_encoder_is_refused(tmp_path):
    Corpus.create(tmp_path/'encoded', WORLD, 'tiny?dtype=bfloat16')
    with pytest.raises(DataError, match='encoded by'): verify_text('Owls swim.', tmp_path/'encoded', **(BY_WORDS | dict(retriever='tiny')))


def test_a_language_that_the_parts_do_not_know():
    text = 'Die Eulen jagen in der Nacht und sie schlafen den ganzen Tag in einer Höhle, die nicht weit von dem Fluss ist.'
    assert 'German' in one(text, retriever='tiny').texts['warning'].item()
    assert one('Owls hunt at night.', retriever='tiny').texts['warning'].item() is None
    assert one(text).texts['warning'].item() is None  # none of these parts is embedded
    class Noting:
        name, identity, english_only = 'noting', {}, True
        def extract(self, texts, store=None):
            return [Parsed(split_sentences(text), 'ok', f'{language_warning(text)}; cut off') for text in texts]
    told = one(text, extractor=Noting(), verifier='cosine').texts['warning'].item()
    assert told.count('German') == 1 and told.endswith('cut off')


def test_a_hundred_thousand_words():
    generator = random.Random(0)
    words = ['owls', 'otters', 'rivers', 'night', 'bridge', 'swim', 'trams', 'fish', 'hunt']
    text = ' '.join(f'{" ".join(generator.choices(words, k=19)).capitalize()} {at}.' for at in range(5_000))
    found = one(text, verifier=Drawn((1, 1, 1)), k=3)
    assert found.texts['n_claims'].item() == found.claims.height == 5_000 and found.evidence.height == 15_000
    endless = one('owls '*100_000, verifier=Drawn())
    assert endless.texts['n_claims'].item() == 1


# ---- what is shown -----------------------------------------------------------------------------------------------------------------

HOSTILE = 'Owls \x1b[2J\x1b[31mswim\x1b]0;pwned\x07\x1b]8;;http://x\x1b\\link\x1bPq\x1b\\\r\b\x9b2K\u202eevil\u2066 \x00ok'

def test_nothing_hostile_reaches_the_terminal():
    shown = printable(HOSTILE)
    assert shown.startswith('Owls swim') and shown.isprintable() and 'pwned' not in shown
    world = WORLD.with_columns(text=pl.col('text') + HOSTILE, page=pl.col('page') + HOSTILE, id=pl.col('id') + HOSTILE)
    texts = pl.DataFrame({'id': ['one' + HOSTILE, 'two'], 'text': [f'Owls {HOSTILE} swim.', HOSTILE]})
    report = verdict_report(verify_texts(texts, world, **(BY_WORDS | dict(verifier=Drawn()))), passages=9)
    assert all(line.isprintable() for line in report.split('\n'))
    json.dumps(verdict_json(verify_texts(texts, world, **BY_WORDS)), allow_nan=False).encode('ascii')


@given(st.text(max_size=80))
def test_printable_is_printable(text):
    shown = printable(text)
    assert shown == printable(shown) and not any(letter in shown for letter in '\x1b\n\r\x9b\u202e\u2028')
    assert all(letter == ' ' or not letter.isspace() for letter in shown)


def test_the_report_shows_what_decided():
    text = 'Owls hunt at night. Owls swim.'
    report = verdict_report(one(text, retriever='tiny'))
    assert report.startswith('NOT FACTUAL: 2 claims, 1 supported, 1 contradicted, 0 not in the evidence.')
    assert '| Owls never swim.' in report and max(map(len, report.split('\n'))) < 110
    assert not re.search('ENT|NEUT|CONTR|verified', report)
    assert max(map(len, verdict_report(one(text + ' Owls ' + 'hunt '*200), width=60).split('\n'))) <= 90
    whole = verdict_json(one(text))
    assert [claim['outcome'] for claim in whole['texts'][0]['claims']] == ['supported', 'contradicted']


def test_a_language_model_as_verifier():
    def stand(request):
        evidence, claim = (fenced_in(request.messages[-1].content, name) for name in ('evidence', 'claim'))
        return VERIFIER_ANSWERS[ByRule().probabilities([(evidence, claim)])[0].argmax()]
    found = one('Owls hunt at night. Owls swim.', verifier=AskedVerifier(ScriptedModel('scripted', stand)))
    assert found.claims['outcome'].to_list() == ['supported', 'contradicted'] and found.settings['verifier'] == 'prompt:scripted'


def test_a_claim_that_adds_to_its_text_is_told_wherever_claims_are_read():
    invents = ModelExtractor('invents', ScriptedModel('invents', lambda request: 'Eddie Marlow owned the mill.'
                             if 'Marlow' in request.messages[-1].content else "I'm sorry, but I can't help with that."), BY_SENTENCE)
    rows = pl.DataFrame({'id': ['a', 'b'], 'text': ['Edith Marlow owned the mill.', 'It burned.']})
    known = pl.DataFrame({'id': ['p'], 'page': ['p'], 'text': ['Edith Marlow owned the mill.']})
    found = verify_texts(rows, known, invents, 'bm25', ByRule(), store=False)
    note = '1 claim added "Eddie": its sentence stands in its place'
    assert found.claims['claim'].to_list() == ['Edith Marlow owned the mill.']
    assert found.texts['verdict'].to_list() == ['factual', 'undecided']
    assert found.texts['warning'].to_list() == [note, None] and 'the model refused' in found.texts['reason'][1]
    assert f'Note: {note}' in verdict_report(found) and verdict_json(found)['texts'][0]['warning'] == note
    claims = Claims(invents).predict(rows, None, False)
    assert claims['reason'][0] == note and claims['status'].to_list() == ['ok', 'unparsed']
    verdicts = TextVerdicts(ByRule(), known, 1).predict(rows, None, False, claims=claims)
    assert verdicts['warning'].to_list() == [note, None] and 'the model refused' in verdicts['reason'][1]
    assert TextVerdicts(ByRule(), known, 1).predict(rows, None, False, claims=claims.select('id', 'claims'))['warning'][0] is None
