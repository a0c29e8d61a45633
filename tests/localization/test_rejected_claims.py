"""Rejected claims: against a loop by hand, through runs and studies, and with claims that cannot be read."""
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from localization.test_methods import NASTY, frame

from factlab.core import registry
from factlab.core.core import UsageError
from factlab.core.registry import Entry
from factlab.data.datasets import load
from factlab.localization import matching
from factlab.localization.classifiers import best_f1_threshold, claim_probabilities, claim_support, support_scores, text_windows
from factlab.localization.fitted import claim_threshold
from factlab.localization.matching import MATCH
from factlab.localization.methods import PREDICTIONS
from factlab.localization.rejected_claims import (
    RejectedClaims,
    as_clause,
    best_claim_threshold,
    claim_supports,
    describe_rejection,
    stated_claims,
)
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.interface import Response, ScriptedModel
from factlab.runs.plan import estimate, execute, make_run, manifest
from factlab.studies import base
from factlab.studies.final.study import METHODS, Settings, choices, claims_step, localization_plan, verdict_step
from factlab.text.fences import fenced_in
from factlab.text.sentences import split_sentences
from factlab.verification.asked_verifier import AskedVerifier
from factlab.verification.extraction import BY_PASSAGE, BY_SENTENCE, EXTRACT
from factlab.verification.named_verifiers import load_verifier


class Dice:
    "A verifier whose probabilities are a function of the pair, and that counts what it is asked."
    def __init__(self, salt: str = ''): self.name, self.identity, self.asked = 'dice', {'verifier': 'dice', 'salt': salt}, []

    def probabilities(self, pairs, store=None):
        self.asked += pairs
        return np.array([self.row(*pair) for pair in pairs], np.float32).reshape(-1, 3)

    def row(self, evidence: str, claim: str) -> np.ndarray:
        numbers = np.array([1 + zlib.crc32(f'{self.identity["salt"]}{evidence}\x1f{claim}\x1f{label}'.encode('utf-8', 'replace')) % 97
                            for label in range(3)], float)
        return numbers/numbers.sum()


def claims_of(summary: str) -> list[str]:
    "Up to three claims that add nothing to the summary."
    return [f'{" ".join(summary.split()).rstrip(".")} was{" there"*number}.' for number in range(zlib.crc32(summary.encode()) % 4)]

def extractor(otherwise=None) -> ScriptedModel:
    "Writes the claims of `claims_of`, in the passage form."
    def answer(request):
        if request.label == MATCH.name: return '{"A": "A"}'
        text = fenced_in(request.messages[-1].content, 'text')
        return otherwise if otherwise is not None else '\n'.join(f'- {claim}' for claim in claims_of(text)) or 'None'
    return ScriptedModel('extractor', answer, revision='1')


# ---- windows and support -----------------------------------------------------------------------------------------------------------

@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40))
def test_windows_hold_every_sentence_of_the_text(n):
    text = ' '.join(f'Sentence number {i} ends here.' for i in range(n))
    joined = ' '.join(text_windows(text))
    assert all(sentence in joined for sentence in split_sentences(text)) and len(text_windows(text)) >= 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 17), st.integers(0, 4)), max_size=5))
def test_all_pairs_at_once_are_what_they_are_one_by_one(sizes):
    texts = [' '.join(f'Text {t} has sentence {i}.' for i in range(n)) for t, (n, _) in enumerate(sizes)]
    claims = [[f'Claim {i} of {t}.' for i in range(m)] for t, (_, m) in enumerate(sizes)]
    dice = Dice()
    found = claim_probabilities(texts, claims, dice, False)
    for text, stated, part in zip(texts, claims, found, strict=True):
        windows = text_windows(text)
        assert part.shape == (len(stated), len(windows), 3)
        for i, claim in enumerate(stated):
            assert np.allclose(part[i], [dice.row(window, claim) for window in windows])
            assert claim_support(part)[i] == pytest.approx(max(dice.row(window, claim)[0] for window in windows))
    if sizes: assert len(found) == len(sizes)


def test_a_verifier_as_classifier_goes_by_the_least_supported_sentence():
    text = ' '.join(f'Sentence {i} is here.' for i in range(12))
    rows, dice = frame((text, 'One thing. Another thing. A third thing.'), (text, '…'), ('Short.', 'Short.')), Dice()
    by_hand = [min(max(dice.row(window, claim)[0] for window in text_windows(text)) for claim in claims)
               for text, claims in ((text, ['One thing.', 'Another thing.', 'A third thing.']), (text, ['…']), ('Short.', ['Short.']))]
    assert support_scores(rows, dice, False) == pytest.approx(by_hand)
    assert support_scores(frame(), dice, False).shape == (0,)


def test_any_verifier_may_be_the_classifier():
    rows = frame(('The mill closed in 1931. It was old.', 'The mill closed.'), ('The mill closed.', 'Bananas are rich in potassium.'))
    named = support_scores(rows, 'cosine', False)
    assert named[0] > named[1] and np.allclose(named, support_scores(rows, load_verifier('cosine'), False))
    with pytest.raises(UsageError, match='(?s)encoder.*t5.*nli:'): support_scores(rows, 'nobody', False)


# ---- the method --------------------------------------------------------------------------------------------------------------------

@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.text('ab c.', min_size=1, max_size=20).filter(str.strip), st.text('xyz', min_size=1, max_size=20)),
                max_size=5), st.floats(0, 1))
def test_predictions_are_those_of_a_loop(rows, threshold):
    rows, dice = frame(*rows), Dice()
    found = RejectedClaims(dice, threshold, BY_PASSAGE).predict(rows, extractor(), False)
    PREDICTIONS.check(found)
    for row, got in zip(rows.iter_rows(named=True), found.iter_rows(named=True), strict=True):
        stated, expected = claims_of(row['summary']), []
        for claim in stated:
            table = [dice.row(window, claim) for window in text_windows(row['text'])]
            if np.float32(max(entailed for entailed, _, _ in table)) >= threshold: continue
            _, neutral, contradicted = min(table, key=lambda each: each[1])
            expected.append((contradicted > neutral, claim))
        assert [('contradicts' in text.split(' that ')[0], text) for text in got['predicted']] == [
            (against, f'The text {"contradicts" if against else "does not say"} that {as_clause(claim)}.') for against, claim in expected]
        assert got['status'] == 'ok' and len(got['answer'].splitlines()) == len(stated)


@pytest.mark.parametrize('answer, status', [('', 'unparsed'), (Response.failed('429 for a minute'), 'failed')])
def test_claims_that_cannot_be_read_are_never_an_empty_list(answer, status):
    found = RejectedClaims(Dice(), form=BY_PASSAGE).predict(frame(('text', 'A summary.')), extractor(answer), False)
    assert found['status'].to_list() == [status] and found['predicted'].to_list() == [None] and found['reason'][0]
    assert found['calls'].to_list() == [1]
    assert claim_supports(RejectedClaims(Dice(), form=BY_PASSAGE), frame(('text', 'A summary.')), extractor(answer), False) == [None]


def test_a_summary_without_a_claim_is_read_and_says_so():
    found = RejectedClaims(Dice(), form=BY_PASSAGE).predict(frame(('text', 'A summary.'), ('text', '…')), extractor('None'), False)
    assert found['predicted'].to_list() == [[], []] and found['status'].to_list() == ['ok', 'ok'] and 'no claim' in found['reason'][0]
    assert found['calls'].to_list() == [1, 0]
    assert claim_supports(RejectedClaims(Dice(), form=BY_PASSAGE), frame(('text', 'A summary.')), extractor('None'),
                          False)[0].tolist() == []


@pytest.mark.parametrize('form', [BY_PASSAGE, BY_SENTENCE, None], ids=['passage', 'sentence', 'none'])
def test_hostile_texts_go_through(form):
    dice = Dice()
    model = ScriptedModel('any', lambda request: '- {claim} %s <script>\n- other', revision='1')
    found = RejectedClaims(dice, 1.0, form).predict(frame((NASTY, NASTY), ('A text.', 'word '*400)), model, False)
    assert found['status'].to_list() == ['ok', 'ok'] and all(len(found['predicted'][i]) for i in (0, 1))
    assert any('<script>' in evidence for evidence, _ in dice.asked) and max(len(claim.split()) for _, claim in dice.asked) <= 100


@pytest.mark.parametrize('claim, clause', [('The mill is old.', 'the mill is old'), ('NASA left.', 'NASA left'), ('It', 'it'), ('A.', 'A'),
                                           ('In 1990 he won...', 'in 1990 he won'), ('', '')])
def test_a_claim_as_a_clause(claim, clause):
    assert as_clause(claim) == clause and describe_rejection(claim, np.array([[.1, .2, .7]])) == f'The text contradicts that {clause}.'


def test_questions_differ_by_repeat_and_not_otherwise():
    model = extractor()
    stated_claims(['Same.', 'Same.', 'Other.'], BY_PASSAGE, model, False, seed=0, repeat=0)
    stated_claims(['Same.'], BY_PASSAGE, model, False, seed=0, repeat=1)
    assert sorted(request.repeat for request in model.asked) == [0, 0, 1] and {request.label for request in model.asked} == {EXTRACT.name}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.none(), st.tuples(st.lists(st.tuples(st.sampled_from([0, .1, .25, .5, .7, 1]),
    st.one_of(st.none(), st.integers(0, 2))), max_size=4), st.integers(3, 4))), max_size=6))
def test_the_threshold_of_a_list_is_the_best_of_all(rows):
    supports = [None if row is None else np.array([support for support, _ in row[0]]) for row in rows]
    matched = [None if row is None else [item for _, item in row[0]] for row in rows]
    chosen = best_claim_threshold(supports, matched, [3 if row is None else row[1] for row in rows])
    known = [row for row in rows if row is not None]
    if not any(claims for claims, _ in known):
        assert chosen is None
        return
    def f1(cut):
        hits = sum(len({item for support, item in claims if support < cut} - {None}) for claims, _ in known)
        return 2*hits/(sum(support < cut for claims, _ in known for support, _ in claims) + sum(gold for _, gold in known))
    assert f1(chosen) == pytest.approx(max(f1(cut) for cut in (.05, .2, .3, .6, .8, 2)))


# ---- runs --------------------------------------------------------------------------------------------------------------------------

def test_a_run_is_named_after_the_verifier_and_the_threshold(tmp_path):
    rows, model = frame(('The text.', 'A summary.')), extractor()
    methods = [RejectedClaims(Dice()), RejectedClaims(Dice('b')), RejectedClaims(Dice(), .4), RejectedClaims(Dice(), form=BY_PASSAGE),
               RejectedClaims(Dice(), form=None)]
    runs = [make_run(rows, method, model, dataset='x', store=False, folder=tmp_path) for method in methods]
    assert len({run.id for run in runs}) == 5
    assert runs[1].manifest['method']['fields']['verifier'] == {'verifier': 'dice', 'salt': 'b'}
    again = RejectedClaims(Dice())
    assert make_run(rows, again, model, dataset='x', store=False, folder=tmp_path).predictions.equals(runs[0].predictions)
    assert not again.verifier.asked


# ---- settings ---------------------------------------------------------------------------------------------------------------------

@pytest.fixture
def settings(home, monkeypatch):
    "Settings of a scripted extractor and a verifier of dice."
    model, dice = extractor(), Dice()
    for module in (base, matching): monkeypatch.setattr(module, 'load_model', lambda name: model)
    monkeypatch.setitem(registry._entries['models'], 'extractor', Entry('extractor', print))
    monkeypatch.setattr(base, 'load_verifier', lambda name: dice)
    return Settings(verifier='dice', judge='extractor', loaded={'extractor': model, 'dice': dice})


def chosen_claims(settings) -> dict: return choices(execute(claims_step(settings, 'extractor')))['rejected_claims']['extractor']


def at_threshold(settings) -> RejectedClaims:
    "The method at the threshold that was chosen."
    step = claims_step(settings, 'extractor')
    done = execute(step)
    chosen = claim_threshold(*(done[step.inputs[name]] for name in ('supports', 'matches')))
    assert choices(done)['rejected_claims']['extractor']['threshold'] == round(chosen, 4)
    return replace(step.method.method, threshold=chosen)


def test_the_threshold_comes_from_the_development_split(settings):
    rows, best = [], (0.0, None)
    for row in load('sample').filter(split='dev').to_dicts():
        claims = claims_of(row['summary'].strip())
        rows.append(([max(float(np.float32(settings.loaded['dice'].row(window, claim)[0])) for window in text_windows(row['text']))
                      for claim in claims], len(row['gold'])))
    for cut in sorted({support for supports, _ in rows for support in supports} | {2.0}):
        # the judge matches the first description with the first error
        hits = sum(bool(gold and supports and supports[0] < cut) for supports, gold in rows)
        f1 = 2*hits/(sum(support < cut for supports, _ in rows for support in supports) + sum(gold for _, gold in rows))
        if f1 > best[0] + 1e-12: best = f1, cut
    method = at_threshold(settings)
    rejected = [[support < method.threshold for support in supports] for supports, _ in rows]
    assert rejected == [[support < best[1] for support in supports] for supports, _ in rows] and 0 < sum(map(sum, rejected))
    assert claims_step(settings, 'extractor').model.name == 'extractor' and method.form is BY_PASSAGE
    assert chosen_claims(settings)['dev_read'] == 16


def test_rejected_claims_are_a_row_of_the_table(settings):
    plan = localization_plan(models=['extractor'], methods=['rejected_claims'], verifier='dice', judge='extractor', loaded=settings.loaded)
    done, test = execute(plan), load('sample').filter(split='test')
    found = done[plan.entries[0].about['predictions']]
    assert found['id'].to_list() == test['id'].to_list() and METHODS['rejected_claims'] == 'Rejected claims'
    assert found.equals(at_threshold(settings).predict(test, settings.loaded['extractor'], False))
    about = manifest(plan, done)
    assert about['models'].keys() == {'extractor'} and any('oasis/extract' in id for id in about['prompts'])
    assert choices(done)['rejected_claims']['extractor']['verifier'] == Dice().identity and about['parameters']['verifier'] == 'dice'


def test_the_classifier_is_the_verifier(settings):
    rows, dev = (load('sample').filter(split=split) for split in ('test', 'dev'))
    support = support_scores(rows, settings.loaded['dice'], False)
    threshold = best_f1_threshold(support_scores(dev, settings.loaded['dice'], False), (dev['gold'].list.len() > 0).to_numpy())
    step = verdict_step(settings, 'classifier', 'extractor')
    done = execute(step)
    assert done[step]['inconsistent'].to_list() == (support < threshold).tolist()
    assert choices(done)['classifier'] == {'name': 'verifier', 'threshold': round(threshold, 4), 'verifier': Dice().identity}


def test_another_run_asks_for_claims_anew_and_keeps_the_threshold(settings):
    known, model = at_threshold(settings).threshold, settings.loaded['extractor']
    before, again = len(model.asked), replace(settings, repeat=1)
    execute(claims_step(again, 'extractor'))
    new = model.asked[before:]
    assert new and {request.repeat for request in new} == {1} and at_threshold(again).threshold == known
    dev = {row['summary'].strip() for row in load('sample').filter(split='dev').to_dicts()}
    assert not any(summary in request.messages[-1].content for request in new for summary in dev)


def test_claims_that_no_summary_yields_leave_the_threshold_at_one_half(settings):
    silent = replace(settings, loaded={**settings.loaded, 'extractor': extractor('')})
    step = claims_step(silent, 'extractor')
    assert set(execute(step)[step]['status']) == {'unparsed'}
    chosen = chosen_claims(silent)
    assert chosen['threshold'] == .5 and chosen['dev_read'] == 0


def test_without_a_dev_split_it_is_said_what_the_threshold_needs(settings, tmp_path):
    path = tmp_path/'mine.jsonl'
    path.write_text('{"text": "The bridge opened on Friday.", "summary": "It opened on Monday.", "gold": ["The day is wrong."]}')
    with pytest.raises(UsageError, match='rejected claims.*no dev split'):
        claims_step(replace(settings, data=str(path)), 'extractor')


# ---- dry runs ----------------------------------------------------------------------------------------------------------------------

def test_a_dry_run_counts_the_extractors_questions(settings):
    counted = estimate(claims_step(settings, 'extractor'))
    assert not settings.loaded['extractor'].asked
    assert dict(counted.select('label', 'calls').iter_rows())[EXTRACT.name] == 54


def test_a_language_model_as_verifier_is_counted_in_a_dry_run():
    model = ScriptedModel('judge', lambda request: pytest.fail('a dry run asked'), revision='1')
    with DryRun() as dry: rows = AskedVerifier(model).probabilities([('Owls hunt.', 'Owls hunt.'), ('Owls hunt.', 'Owls swim.')], False)
    assert np.allclose(rows, 1/3) and estimate_of(dry)['calls'].sum() == 2


# ---- the shipped parts -------------------------------------------------------------------------------------------------------------

def test_the_shipped_parts_at_work():
    rows = frame(('Ystad is a town in the south of Sweden. It has a port.', 'Ystad is a town in Sweden.'),
                 ('Ystad is a town in the south of Sweden. It has a port.', 'Ystad is a town in Brazil.'))
    supported, wrong = support_scores(rows, 'verifier', False)
    assert 1 >= supported > wrong >= 0
