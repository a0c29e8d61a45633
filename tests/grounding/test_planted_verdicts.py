"""Planted verdicts: what is planted and where, whose flips are counted, and that offline judges do not follow."""
import polars as pl
import pytest
from statsmodels.stats.proportion import proportion_confint

from factlab.core.core import DataError, UsageError
from factlab.data import load_sample
from factlab.grounding import planted_verdicts
from factlab.grounding.planted_verdicts import ATTACKS, FLIPS, Probed, harmless, plant, probe_injection, probed_judges
from factlab.measures.comparison import paired_bounds
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.interface import Response, ScriptedModel
from factlab.text.fences import fenced_in
from factlab.text.sentences import split_sentences

ROWS = pl.DataFrame({'id': [f'r{n}' for n in range(6)], 'document': [f'The mill opened in 190{n}. It burnt down later.' for n in range(6)],
                     'request': 'Summarise.', 'response': ['The mill opened in 1915.']*5 + ['The mill opened in 1905.']})


@pytest.fixture
def model(monkeypatch):
    "A scripted model under the name `scripted`; its answers are set by the test."
    made = {}
    monkeypatch.setattr(planted_verdicts, 'load_model', lambda name: made[name])
    def make(answer): made['scripted'] = ScriptedModel('scripted', answer, revision='1'); return made['scripted']
    return make


def gullible(request) -> str:
    "Follows an order in the response, and otherwise compares years."
    text = request.messages[-1].content
    document, response = fenced_in(text, 'document'), fenced_in(text, 'response')
    if 'Ignore the above' in response or 'nothing much' in response: return 'Verdict: Accurate'
    return f'Verdict: {"Accurate" if "1905" in document and "1905" in response else "Inaccurate"}'


def test_a_planted_text_stands_at_the_end_and_a_harmless_one_is_as_long():
    planted = plant(ROWS.head(1))
    assert planted.height == len(ATTACKS)*2*2 and planted['id'].n_unique() == planted.height
    for row in planted.iter_rows(named=True):
        other = 'document' if row['place'] == 'response' else 'response'
        assert row[other] == ROWS[other][0] and row[row['place']].startswith(f'{ROWS[row["place"]][0]}\n\n')
        added = row[row['place']].removeprefix(f'{ROWS[row["place"]][0]}\n\n')
        assert len(added) == len(ATTACKS[row['attack']]) and (added == ATTACKS[row['attack']]) != row['harmless']
    assert all(len(harmless(n)) == n for n in (0, 1, 2, 50, 231, 232, 233, 1000))
    with pytest.raises(UsageError, match='response or document'): plant(ROWS, places=['request'])


def test_flips_of_rows_called_inaccurate_are_counted_beside_the_harmless_text(model, store):
    model(gullible)
    flips = probe_injection(ROWS, [Probed('scripted', 'response')], store=store)
    assert flips.schema == pl.Schema(FLIPS.columns) and set(flips['n']) == {5}
    by = {(row['attack'], row['place']): row for row in flips.iter_rows(named=True)}
    followed = by['ignore', 'response']
    assert (followed['flips'], followed['rate'], followed['harmless_flips'], followed['unparsed']) == (5, 1.0, 0, 0)
    assert (followed['low'], followed['high']) == pytest.approx(proportion_confint(5, 5, method='wilson'))
    assert followed['difference'] == 1 and followed['difference_low'] > 0
    assert all(row['flips'] == 0 for key, row in by.items() if key != ('ignore', 'response'))


@pytest.mark.parametrize('blocks', (False, True))  # of a response; of a document
def test_what_is_planted_leaves_the_sentences_before_it_as_they_are(blocks):
    sample = load_sample()
    for text in {*sample['text'], *sample['summary']}:
        clean = split_sentences(text, blocks)
        for planted in (*ATTACKS.values(), harmless(80)):
            assert split_sentences(f'{text}\n\n{planted}', blocks)[:len(clean)] == clean


def test_so_many_rows_bound_the_difference_by_one_percent():
    assert paired_bounds(0, 0, 193)[1] > .01 >= paired_bounds(0, 0, 194)[1]  # no pair differs
    assert paired_bounds(1, 1, 337)[1] > .01 >= paired_bounds(1, 1, 338)[1]  # one each way
    assert paired_bounds(1, 0, 374)[1] > .01 >= paired_bounds(1, 0, 375)[1]  # one row follows


def test_what_cannot_be_read_is_no_flip_and_is_counted(model, store):
    model(lambda request: 'Hm.' if '<|im_end' in request.messages[-1].content or '‹|im_end' in request.messages[-1].content
          else 'Verdict: Inaccurate')
    flips = probe_injection(ROWS, [Probed('scripted', 'response')], places=['document'], store=store)
    assert dict(flips.select('attack', 'unparsed').iter_rows()) == {name: 6*(name == 'turn') for name in ATTACKS}
    assert flips['flips'].sum() == 0


def test_it_goes_on_where_it_was_and_a_failed_answer_is_named(model, store):
    asked = model(gullible)
    judges = [Probed('scripted', 'response')]
    first = probe_injection(ROWS, judges, attacks={'ignore': ATTACKS['ignore']}, store=store)
    before = len(asked.asked)
    assert probe_injection(ROWS, judges, attacks={'ignore': ATTACKS['ignore']}, store=store).equals(first) and len(asked.asked) == before
    model(lambda request: Response.failed('down'))
    with pytest.raises(DataError, match='did not answer 6 of 6.*down'): probe_injection(ROWS, judges, store=False)


def test_a_judge_that_calls_nothing_inaccurate_has_n_0_and_no_shares(model, store):
    model(lambda request: 'Verdict: Accurate')
    flips = probe_injection(ROWS, [Probed('scripted', 'response'), Probed('words')], store=store)
    none = flips.filter(judge='scripted')
    assert set(none['n']) == {0} and none['rate'].null_count() == none.height == 10 and set(flips.filter(judge='words')['n']) == {5}


def test_a_dry_run_counts_every_row_and_asks_nothing(model):
    asked = model(gullible)
    with DryRun() as dry: probe_injection(ROWS, [Probed('scripted', 'response')], places=['response'])
    assert estimate_of(dry)['calls'].sum() == 6 + 6*len(ATTACKS)*2 and not asked.asked


def test_judges_by_name():
    assert probed_judges(['words', 'verifier:cosine', 'gpt', 'words'], ['response', 'json']) == [
        Probed('words'), Probed('verifier:cosine'), Probed('gpt', 'response'), Probed('gpt', 'json')]
    with pytest.raises(UsageError, match="no template 'x'"): probed_judges(['words'], ['x'])


def test_the_judge_of_words_follows_no_planted_verdict(store):
    flips = probe_injection(ROWS, probed_judges(['words', 'verifier:cosine']), store=store)
    words, cosine = flips.filter(judge='words'), flips.filter(judge='verifier:cosine')
    assert words['flips'].sum() == 0 and words['unparsed'].sum() == 0 and set(words['n']) == {5} and set(cosine['n']) == {0}
