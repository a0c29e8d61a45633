"The pairs that train a verifier: parts that stay apart, texts as people write them, sources in balance."
import random

import polars as pl
from conftest import real_data

from factlab.data.claim_sets import load_fm2, load_snli, load_summedits
from factlab.data.corpora import CLAIM_EVIDENCE_PAIRS
from factlab.training import mixed_pairs


def test_a_caption_is_written_as_people_write():
    for given, expected in (("A man , old , is n't here .", "A man, old, isn't here."),
                            ("The dog 's owner ( a boy ) left !", "The dog's owner (a boy) left!"),
                            ('It costs $ 5 .', 'It costs $5.'), ('  Two words ', 'Two words')):
        assert mixed_pairs._as_written(given) == expected


def test_what_trains_shares_no_page_no_caption_and_no_document_with_what_is_held_out():
    for name in ('snli', 'fm2', 'summedits'): real_data(name)
    captions = mixed_pairs.caption_pairs(False)
    fooling, summaries = mixed_pairs.fooling_pairs(random.Random(0), False), mixed_pairs.edited_summaries(False)
    for pairs in (captions, fooling, summaries):
        CLAIM_EVIDENCE_PAIRS.check(pairs.select(list(CLAIM_EVIDENCE_PAIRS.columns)))
        groups = {split: set(part['group']) for (split,), part in pairs.group_by('split')}
        assert set(groups) == {'train', 'dev'} and not groups['train'] & groups['dev'] and pairs['id'].is_unique().all()
    assert not set(captions['id']) & set(load_snli(False).filter(split='test')['id'])
    assert not set(fooling['group']) & set(load_fm2(False).filter(split='test')['group'])
    assert not set(summaries['group']) & set(load_summedits(False).filter(split='test')['group'])
    assert summaries['label'].is_null().all() and summaries['supported'].null_count() == 0
    gold = dict(load_fm2(False).select('id', 'evidence').rows())
    among = fooling.filter(kind='among others')
    assert among.height == fooling.height//2
    assert all(gold[one.removesuffix('-among')] in text for one, text in among.select('id', 'evidence').rows())
    again = mixed_pairs.fooling_pairs(random.Random(0), False)
    assert again.equals(fooling)


def test_made_pairs_come_evenly_over_kinds_and_a_teachers_are_not_of_held_out_pages(monkeypatch):
    for name in ('snli', 'fm2', 'summedits', 'factscore', 'wice', 'defacto', 'final'): real_data(name)
    row = lambda at, kind, split: dict(id=f'{kind}-{at}', split=split, claim=f'c{at}', evidence=f'e{at}', label='ENT', group='g',
                                       source='xquad', kind=kind)
    made = pl.DataFrame([row(at, 'rare', 'train') for at in range(30)] + [row(at, 'often', 'train') for at in range(900)]
                        + [row(at, 'held', 'dev') for at in range(300)])
    monkeypatch.setattr(mixed_pairs, 'verifier_pairs', lambda download=True: made)
    monkeypatch.setattr(mixed_pairs, 'MADE', {'xquad': 100})
    monkeypatch.setattr(mixed_pairs, 'AMONG', {})
    found = mixed_pairs.mixed_pairs(download=False)
    assert dict(found.filter(source='xquad', split='train')['kind'].value_counts().rows()) == {'rare': 30, 'often': 70}
    assert found.filter(source='xquad', split='dev').height == 250
    held_out = set(found.filter(source='fm2', split='dev')['group'])
    taught = found.filter(source='fm2-taught')
    assert held_out and taught.height > 1_500 and not held_out & set(taught['group']) and set(taught['split']) == {'train'}
    said = found.select(pl.col('label').is_not_null(), pl.col('supported').is_not_null())
    assert set(said.sum_horizontal()) == {0, 1}  # people and construction say one thing, or none
    assert found.filter(said.sum_horizontal() == 0)['log_odds'].null_count() == 0 and found['id'].is_unique().all()
    often = found.filter(source='summedits', split='train')
    assert often.height == 2*often['id'].str.strip_suffix('#1').n_unique()
    matching = found.filter(pl.col('source').is_in(['described', 'explained']))
    assert set(matching['split']) == {'train', 'dev'} and set(matching['label']) == {'ENT', 'NEUT'}


def test_evidence_among_others_is_whole_and_the_others_are_of_other_groups():
    row = lambda at: dict(id=f'p{at}', split='train', claim=f'the owl {at} hunts', evidence=f'An owl {at} hunts at night.', label='ENT',
                          group=f'g{at//2}', source='xquad', kind='plain')
    pairs = pl.DataFrame([row(at) for at in range(40)])
    of = dict(pairs.select('evidence', 'group').rows())
    found = mixed_pairs.among_others(pairs, pairs, random.Random(3), most=3)
    assert found.drop('evidence', 'id', 'kind').equals(pairs.drop('evidence', 'id', 'kind')) and found['id'].is_unique().all()
    counts, places = set(), set()
    for text, own, group in zip(found['evidence'], pairs['evidence'], pairs['group'], strict=True):
        parts = [part + '.' for part in text.split('.') if part]
        parts = [part.strip() for part in parts]
        counts.add(len(parts)), places.add(parts.index(own))
        assert all(of[part] != group for part in parts if part != own) and len(set(parts)) == len(parts)
    assert counts == {2, 3, 4} and len(places) > 1
    assert found.equals(mixed_pairs.among_others(pairs, pairs, random.Random(3), most=3))
