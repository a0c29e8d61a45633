"""The rules on items that break one each; builds that are answered well, badly, or killed."""
import json
import os
import re
import subprocess
import sys
import textwrap
import time

import numpy as np
import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer, slow, status, wait_until

from factlab.building.generation import (
    EXTRACT,
    FACTUAL,
    FALSIFY,
    UNFACTUAL,
    UNIFIED,
    OneAnswer,
    build,
    draw_passage,
    read_build,
    read_pages,
)
from factlab.building.rules import EVERY_RULE, GENERATION_RULES, changed_share, check_items, copied_share, quantities, rule_shares
from factlab.building.training_views import STATED_ELSEWHERE, built_shares, training_data
from factlab.core.core import DataError, RunError, UsageError
from factlab.data.corpora import OASIS, load_oasis_file, load_oasis_sample
from factlab.models.interface import Response, ScriptedModel
from factlab.studies.oasis.generation import generated_shares
from factlab.text.sentences import split_sentences

GOOD = {
    'id': 'Lund/0', 'page': 'Lund', 'split': 'train',
    'passage': 'Lund is a town in the south of Sweden. Its university was founded in 1666 and has about forty thousand students. The '
               'cathedral is built of sandstone.',
    'claims': ['Lund is a town in the south of Sweden.', 'The university of Lund was founded in 1666.',
               "Lund's university has about forty thousand students.",
               "Lund's cathedral is built of sandstone."],
    'altered': 3, 'falsified': "Lund's cathedral is built of brick.",
    'factual': 'In Southern Sweden lies Lund. Around 40,000 people study at its university, which dates from 1666. Sandstone was used '
               'for the cathedral.',
    'unfactual': 'In Southern Sweden lies Lund. Around 40,000 people study at its university, which dates from 1666. Brick was used for '
                 'the cathedral.',
    'page_passages': ['The botanical garden is open all year.', 'A tram runs to the east.', 'Sandstone comes from the hills.']}

ALONE = GOOD | {'id': 'Mora/0', 'page': 'Mora', 'split': 'validation', 'page_passages': []}
DATA = OASIS.frame([GOOD, ALONE])


def broken(**change) -> set[str]:
    "The rules that the good item breaks after a change."
    return set(check_items(OASIS.frame([GOOD | change]))['rule'])


# ---- rules -------------------------------------------------------------------------------------------------------------------------

def test_a_good_item_keeps_every_rule():
    assert check_items(DATA).is_empty() and check_items(DATA.head(0)).is_empty()


@pytest.mark.parametrize(('rule', 'change'), [
    ('claims', {'claims': [*GOOD['claims'], 'lund is a town  in the south of Sweden']}),
    ('claims', {'claims': [GOOD['claims'][3]], 'altered': 0}),
    ('words', {'claims': [*GOOD['claims'],
                          'Lund has streets and houses and shops and parks and schools and churches and cafés and trees.']}),
    ('words', {'falsified': "Lund's cathedral is built of brick and of stone and of wood and of glass and iron."}),
    ('subject', {'claims': ['It is a town in the south of Sweden.', *GOOD['claims'][1:]]}),
    ('subject', {'claims': [*GOOD['claims'], 'There are parks in Lund.']}),
    ('subject', {'falsified': 'They built the cathedral of brick in Lund.'}),
    ('dots', {'claims': [*GOOD['claims'], 'Lund has parks and...']}),
    ('original', {'altered': 9}),
    ('copy', {'falsified': "Lund's cathedral is built of  sandstone"}),
    ('negation', {'falsified': "Lund's cathedral is not built of sandstone."}),
    ('negation', {'falsified': "Lund's cathedral isn't built of sandstone."}),
    ('dates', {'altered': 1, 'falsified': 'The university of Lund was founded in 1668.'}),
    ('numbers', {'altered': 2, 'falsified': "Lund's university has about fifty thousand students."}),
    ('names', {'altered': 0, 'falsified': 'Lund is a town in the south of Norway.'}),
    ('names', {'falsified': 'The cathedral is built of brick.'}),
    ('paraphrase', {'factual': GOOD['passage'], 'unfactual': GOOD['passage'].replace('sandstone', 'brick')}),
    ('altered', {'unfactual': GOOD['factual']}),
    ('apart', {'unfactual': 'Lund is known for brick. Students came there early on. Nobody knows where it lies. It is old.'}),
])
def test_each_rule_finds_its_fault(rule, change):
    assert rule in GENERATION_RULES and rule in broken(**change)


@pytest.mark.parametrize('change', [
    {'altered': 1, 'falsified': 'The university of Lund was closed in 1666.'},
    {'altered': 2, 'falsified': "Lund's university has about 40 thousand teachers."},
    {'claims': [*GOOD['claims'], 'Swimming is allowed in Lund.', 'One of the parks of Lund is old.',
                'When it rains, the parks of Lund are empty.']},
    {'altered': 0, 'falsified': 'Sweden is a town in the south of Lund.'},
])
def test_what_the_rules_allow_is_not_a_fault(change):
    assert not broken(**change)


def test_do_support_does_not_hide_a_negation():
    items = OASIS.frame([GOOD | {'claims': [*GOOD['claims'], 'The team of Lund won the cup.'], 'altered': 4,
                                 'falsified': 'The team of Lund did not win the cup.'}])
    assert 'negation' in set(check_items(items)['rule'])


def test_shares_count_items_and_not_faults():
    frame = OASIS.frame([GOOD | {'id': str(n), 'falsified': 'They are not in Oslo in 1900.' if n < 2 else GOOD['falsified']}
                         for n in range(5)])
    shares = rule_shares(check_items(frame), 5)
    kept = dict(shares.select('rule', 'kept').iter_rows())
    assert kept['names'] == kept['subject'] == kept['dates'] == 3 and kept['words'] == 5 and set(shares['n']) == {5}
    assert kept[EVERY_RULE] == 3 and rule_shares(check_items(frame), 5, ['words'])['kept'].to_list() == [5, 5]


def test_parsed_claims_of_few_items_are_held_together(monkeypatch):
    from factlab.building import rules
    frame = OASIS.frame([GOOD | {'id': str(n), 'falsified': 'They are not in Oslo in 1900.' if n % 2 else GOOD['falsified']}
                         for n in range(5)])
    whole, read, sizes = check_items(frame), rules.read_all, []
    monkeypatch.setattr(rules, 'ITEMS_AT_ONCE', 2)
    monkeypatch.setattr(rules, 'read_all', lambda claims: sizes.append(len(found := read(claims))) or found)
    assert check_items(frame).equals(whole) and whole.height and len(sizes) == 3


def test_quantities_in_either_spelling_are_equal():
    assert quantities('nine of 21,000 in the 2nd') == quantities('9 of 21000 in the second')
    assert quantities('in May 1999') != quantities('it may 1999')


def test_copied_share_is_what_a_loop_counts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        text, source = (' '.join(rng.choice(list('abc'), rng.integers(0, 12))) for _ in range(2))
        words, known = text.split(), source.split()
        grams = [words[i:i + 4] for i in range(len(words) - 3)]
        hits = sum(any(gram == known[i:i + 4] for i in range(len(known))) for gram in grams)
        assert copied_share(text, source) == (hits/len(grams) if grams else 0)
        assert 0 <= changed_share(text, source) <= 1 and changed_share(text, text) == 0


# ---- texts -------------------------------------------------------------------------------------------------------------------------

def test_pages_come_from_folders_files_and_frames(tmp_path):
    frame = pl.DataFrame({'page': ['a', 'sub/b'], 'text': ['One é.', 'Two.']})
    (tmp_path/'texts'/'sub').mkdir(parents=True)
    (tmp_path/'texts'/'a.txt').write_text('One é.', encoding='utf-8')
    (tmp_path/'texts'/'sub'/'b.md').write_text('Two.')
    (tmp_path/'texts'/'c.pdf').write_bytes(b'%PDF')
    frame.write_ndjson(tmp_path/'t.jsonl'); frame.write_parquet(tmp_path/'t.parquet')
    frame.rename({'page': 'title'}).write_csv(tmp_path/'t.csv')
    for texts in (frame, tmp_path/'texts', tmp_path/'t.jsonl', tmp_path/'t.parquet', str(tmp_path/'t.csv')):
        assert read_pages(texts).rows() == frame.rows()


def test_texts_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path/'empty').mkdir(); (tmp_path/'bad').mkdir()
    (tmp_path/'bad'/'a.txt').write_bytes(b'\xff\xfe\x00'); (tmp_path/'x.jsonl').write_text('{"a": 1}\n{')
    (tmp_path/'y.parquet').write_bytes(b'no')
    for texts in (tmp_path/'empty', tmp_path/'bad', tmp_path/'x.jsonl', tmp_path/'y.parquet', tmp_path/'none.csv',
                  pl.DataFrame({'text': ['a']}),
                  pl.DataFrame({'page': [], 'text': []})):
        with pytest.raises(DataError): read_pages(texts)


def test_other_passages_of_the_page_share_no_sentence():
    text = ' '.join(f'Sentence {n} is here.' for n in range(200))
    for seed in range(20):
        _, passage, others = draw_passage('page', text, seed)
        assert len(split_sentences(passage)) == 5 and len(others) == 30
        assert not {*split_sentences(passage)} & {sentence for other in others for sentence in split_sentences(other)}
    assert len({draw_passage('page', text, seed)[0] for seed in range(20)}) > 10


# ---- builds ------------------------------------------------------------------------------------------------------------------------

def page(number: int) -> dict:
    return {'page': f'Town {number:02}', 'text': GOOD['passage'].replace('Lund', f'Lund{number:02}')}


PAGES = pl.DataFrame([page(number) for number in range(10)])


def number_in(prompt: str) -> str: return prompt.rpartition('Lund')[2][:2]


def written(prompt: str, change: dict = {}) -> dict:  # noqa: B006
    "The steps for the passage in a prompt, as a good model gives them."
    item = {name: json.loads(json.dumps(GOOD[name]).replace('Lund', 'Lund' + number_in(prompt)))
            for name in ('claims', 'falsified', 'factual', 'unfactual')} | change
    return {'step.1': item['claims'], 'step.2': [item.get('original', item['claims'][3]), item['falsified']], 'step.3': item['factual'],
            'step.4': item['unfactual']}


def well(call):
    "A server's script: every prompt of both variants is answered well."
    steps = written(call.prompt)
    if call.prompt.startswith('You are given a text.'): return answer(json.dumps(steps))
    if call.prompt.startswith('List all claims'): return answer('\n'.join(f'- {claim}' for claim in steps['step.1']))
    if '"step.2"' in call.prompt: return answer(json.dumps({'step.2': steps['step.2']}))
    return answer(steps['step.4'] if 'New claim:' in call.prompt else steps['step.3'])


def model_at(server) -> str: return f'openai:any?base_url={server.url}'


@pytest.mark.parametrize(('variant', 'calls'), [('unified', 10), ('four', 40)])
def test_a_server_that_answers_well_gives_a_data_set(tmp_path, variant, calls):
    with MisbehavingServer(well) as server:
        estimate = build(PAGES, model_at(server), tmp_path/'out', variant=variant, dry_run=True).estimate
        assert not server.calls and not (tmp_path/'out').exists() and estimate['calls'].sum() == calls
        built = build(PAGES, model_at(server), tmp_path/'out', variant=variant)
        assert len(server.calls) == calls
        assert built.manifest['counts'] == {'pages': 10, 'asked': 10, 'accepted': 10, 'marked': 0, 'rejected': 0, 'failed': 0}
        again = build(PAGES, model_at(server), tmp_path/'out', variant=variant)
        assert len(server.calls) == calls and again.manifest == built.manifest and again.data.equals(built.data)
    assert OASIS.check(built.data.drop('broken'))['split'].value_counts().sort('split').rows() == [('train', 8), ('validation', 2)]
    assert set(built.data['altered']) == {3} and check_items(built.data).is_empty() and read_build(tmp_path/'out').data.equals(built.data)
    assert built.data['passage'].to_list() == PAGES['text'].to_list() and built.manifest['splits'] == {'train': 8, 'validation': 2}


def test_what_breaks_a_rule_is_kept_and_marked_where_it_can_be_used(tmp_path):
    faulty = {0: 'Sorry.', 1: {'falsified': "Lund01's cathedral is not built of sandstone."},
              2: {'claims': ['It is old.', *GOOD['claims'][1:]]},
              3: {'unfactual': 'Other. Words. Only. Here.'}, 4: {'unfactual': GOOD['factual'], 'factual': GOOD['factual']},
              5: {'original': 'Nothing of the kind was ever said.'}, 6: {'original': "Lund06's old cathedral is built of sandstone."}}
    def script(call):
        change = faulty.get(int(number_in(call.prompt)), {})
        return answer(change if isinstance(change, str) else json.dumps(written(call.prompt, change)))
    with MisbehavingServer(script) as server:
        built, again = (build(PAGES, model_at(server), tmp_path, store=False) for _ in range(2))
    assert len(server.calls) == 10 and again.data.equals(built.data)  # the second is read back
    assert built.manifest['counts'] == {'pages': 10, 'asked': 10, 'accepted': 7, 'marked': 4, 'rejected': 3, 'failed': 0}
    assert sorted(built.rejected['page']) == ['Town 00', 'Town 04', 'Town 05']
    marks = dict(built.data.select('page', 'broken').iter_rows())
    assert marks['Town 01'] == ['negation'] and 'subject' in marks['Town 02']
    assert 'apart' in marks['Town 03'] and 'original' in marks['Town 06']
    assert [marks[f'Town 0{at}'] for at in (7, 8, 9)] == [[]]*3
    assert built.data.filter(page='Town 06')['altered'].item() == GOOD['altered']
    assert load_oasis_file(tmp_path).equals(built.data.drop('broken'))  # what trains and tests reads it as any other
    with pytest.raises(UsageError, match='differs in model, strict'):
        build(PAGES, ScriptedModel('x', lambda _: '', '1'), tmp_path, strict=True)


def printed_examples() -> list[dict]:
    "The items of the paper's Appendix A, read from its text."
    text = next((real_data_folder().parent/'papers').glob('oasis.txt')).read_text(encoding='utf-8')
    items = []
    for part in re.split(r'Appendix A\.\d Example \d', text)[1:]:
        part = part.partition('These examples show')[0].replace('*', '')
        names = 'Original Text|Extracted Claims|Factual Text|Falsified Claim|Unfactual Text'
        found = dict(re.findall(rf'({names}):\s*\n(.*?)(?=\n\n[A-Z][a-z]+ (?:Text|Claims?):|\Z)', part, re.DOTALL))
        claims = re.findall(r'(?m)^\d+\. (.*)$', found['Extracted Claims'])
        falsified = found['Falsified Claim'].strip()
        original = max(claims, key=lambda claim: len({*claim.split()} & {*falsified.split()}))
        items.append({'page': claims[0], 'text': found['Original Text'].strip(), 'answer': {
            'step.1': claims, 'step.2': [original, falsified], 'step.3': found['Factual Text'].strip(),
            'step.4': found['Unfactual Text'].strip()}})
    return items


def real_data_folder():
    from pathlib import Path
    return Path(os.environ.get('FACTLAB_DATA') or '/nowhere')


@pytest.mark.skipif(not (real_data_folder().parent/'papers'/'oasis.txt').is_file(), reason="the paper's text is not beside $FACTLAB_DATA")
def test_both_examples_that_the_paper_prints_pass_and_are_marked(tmp_path):
    items = printed_examples()
    assert len(items) == 2 and all(len(item['answer']['step.1']) == 6 for item in items)
    by_text = {' '.join(item['text'].split()): json.dumps(item['answer']) for item in items}
    def said(request): return next(answer for text, answer in by_text.items() if text[:60] in request.messages[-1].content)
    model = ScriptedModel('the paper', said, '1')
    pages = pl.DataFrame([{'page': item['page'], 'text': item['text']} for item in items])
    built = build(pages, model, tmp_path/'kept', store=False)
    assert built.data.height == 2 and built.rejected.is_empty()
    assert all('subject' in rules for rules in built.data['broken']) and 'names' in built.data['broken'].explode().to_list()
    assert build(pages, model, tmp_path/'strict', store=False, strict=True).data.is_empty()


def test_items_of_the_form_of_the_printed_examples_pass(tmp_path):
    "Pronouns as subjects, a place in the place of another, a claim that says nearly what another says: our own words, the same faults."
    item = {'step.1': ['The Vierwaldstätter Lake is also called Lake Lucerne.', 'It is a long lake in the Alps.',
                       'Most of the shore belongs to Uri.', 'Uri has 40% of the shore.'],
            'step.2': ['Most of the shore belongs to Uri.', 'Most of the shore belongs to Bern.'],
            'step.3': 'Lake Lucerne, known as well by the name Vierwaldstätter, stretches through the Alps. Uri owns 40% of its banks.',
            'step.4': 'Lake Lucerne, known as well by the name Vierwaldstätter, stretches through the Alps. Bern owns 40% of its banks.'}
    text = 'The Vierwaldstätter Lake, also called Lake Lucerne, is a long lake in the Alps. Most of the shore belongs to Uri.'
    pages = pl.DataFrame({'page': ['Lake'], 'text': [text]})
    model = ScriptedModel('lake', lambda request: json.dumps(item), '1')
    built, strict = (build(pages, model, tmp_path/str(strict), store=False, strict=strict) for strict in (False, True))
    assert {'subject', 'names'} <= {*built.data['broken'].item()} and built.data['altered'].item() == 2
    assert strict.data.is_empty() and strict.rejected['rules'].item().to_list().count('names') == 1


def test_everything_rejected_is_kept_with_its_reasons(tmp_path):
    faulty = {0: 'Sorry.', 1: {'falsified': "Lund01's cathedral is not built of sandstone."},
              2: {'claims': ['It is old.', *GOOD['claims'][1:]]},
              3: {'unfactual': 'Other. Words. Only. Here.'}, 4: '{"step.1": ["a"]}'}
    def script(call):
        change = faulty.get(int(number_in(call.prompt)), {})
        return answer(change if isinstance(change, str) else json.dumps(written(call.prompt, change)))
    pages = pl.concat([PAGES, pl.DataFrame({'page': ['empty', 'twice', 'long'], 'text': ['', PAGES['text'][0], 'word '*700 + '.']})])
    with MisbehavingServer(script) as server: built = build(pages, model_at(server), tmp_path, store=False, strict=True)
    assert len(server.calls) == 10 and built.data.height == 5 and built.rejected.height == 8
    assert built.manifest['counts'] == {'pages': 13, 'asked': 10, 'accepted': 5, 'rejected': 8, 'failed': 0}
    rules = dict(built.rejected.select('page', 'rules').iter_rows())
    assert rules['Town 00'] == rules['Town 04'] == ['json'] and rules['Town 01'] == ['negation']
    assert rules['empty'] == rules['twice'] == rules['long'] == ['passage']
    assert 'subject' in rules['Town 02'] and 'apart' in rules['Town 03']
    assert built.rejected.filter(pl.col('page') == 'Town 00')['answers'].item().to_list() == ['Sorry.']
    assert built.shares()['items'].sum() == sum(len(set(found)) for found in rules.values())


def test_what_failed_is_asked_again_and_nothing_else(tmp_path):
    down = {'now': True}
    def script(call): return status(400) if down['now'] and number_in(call.prompt) in ('03', '07') else well(call)
    with MisbehavingServer(script) as server:
        first = build(PAGES, model_at(server), tmp_path/'out', seed=1)
        assert first.manifest['counts']['failed'] == 2 and set(first.rejected['page']) == {'Town 03', 'Town 07'}
        down['now'], before = False, len(server.calls)
        second = build(PAGES, model_at(server), tmp_path/'out', seed=1)
        assert len(server.calls) - before == 2 and second.manifest['counts']['accepted'] == 10 and second.rejected.is_empty()


def test_a_killed_build_goes_on(tmp_path):
    "Killed by the system in the middle of its questions; started again it asks only what was not answered."
    held = {'from': 6}
    def script(call): return slow(3_600) if call.number >= held['from'] else well(call)
    PAGES.write_parquet(tmp_path/'pages.parquet')
    with MisbehavingServer(script) as server:
        code = f'''
            from factlab.building.generation import build
            print(build({str(tmp_path/"pages.parquet")!r}, {model_at(server) + "&concurrency=1"!r}, {str(tmp_path/"out")!r}))'''
        environment = os.environ | {'FACTLAB_HOME': str(tmp_path/'home'), 'FACTLAB_PROGRESS': '0'}
        # noqa: E731
        start = lambda: subprocess.Popen([sys.executable, '-c', textwrap.dedent(code)], env=environment, stdout=subprocess.PIPE, text=True)
        process = start()
        wait_until(lambda: len(server.calls) > 6 or process.poll() is not None, what='the seventh call')
        process.kill(); process.wait()
        assert not (tmp_path/'out'/'manifest.json').exists()
        held['from'], before = 10_000, len(server.calls)
        said, _ = start().communicate(timeout=120)
        asked = len(server.calls) - before
    assert 'accepted' in said and read_build(tmp_path/'out').data.height == 10
    assert 4 <= asked <= 10 and sum(server.asked(call.prompt) for call in server.calls[:1]) <= 2


def test_a_build_killed_at_any_moment_ends_as_one_that_was_not(tmp_path):
    "Killed again and again, by the command that users give, at moments drawn by chance: while it starts, reads, asks or writes."
    faulty = {1: {'falsified': "Lund01's cathedral is not built of sandstone."}, 4: {'unfactual': 'Other. Words. Only. Here.'}}
    def script(call):
        time.sleep(.15)
        return answer(json.dumps(written(call.prompt, faulty.get(int(number_in(call.prompt)), {}))))
    PAGES.write_parquet(tmp_path/'pages.parquet')
    random, killed = np.random.default_rng(0), 0
    with MisbehavingServer(script) as server:
        whole = build(PAGES, model_at(server), tmp_path/'whole', store=False, strict=True)
        environment = os.environ | {'FACTLAB_HOME': str(tmp_path/'home'), 'FACTLAB_PROGRESS': '0'}
        command = [sys.executable, '-c', 'from factlab.cli.main import main; raise SystemExit(main())', 'build', 'oasis', '--texts',
                   str(tmp_path/'pages.parquet'), '--model', f'{model_at(server)}&concurrency=1', '--out', str(tmp_path/'out'), '--strict']
        def run(lifetime=None):
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try: return process.communicate(timeout=lifetime)[0]
            except subprocess.TimeoutExpired: process.kill()
            process.wait()
        for lifetime in random.uniform(.05, 4, 5): killed += run(lifetime) is None
        said, before = run(), len(server.calls)
        assert killed and '8 accepted' in said and 'negation' in said, said
        again = run()
        assert len(server.calls) == before and again == said
    found = read_build(tmp_path/'out')
    assert found.data.equals(whole.data) and found.rejected.equals(whole.rejected) and found.manifest['counts'] == whole.manifest['counts']
    assert [file.name for file in sorted((tmp_path/'out').iterdir())] == [file.name for file in sorted((tmp_path/'whole').iterdir())]


def test_a_build_that_died_while_writing_is_written_again(tmp_path):
    model = ScriptedModel('well', lambda request: json.dumps(written(request.messages[-1].content)), 'v1')
    built = build(PAGES, model, tmp_path)
    for damage in (lambda: (tmp_path/'manifest.json').unlink(), lambda: (tmp_path/'oasis.parquet').write_bytes(b'half'),
                   lambda: (tmp_path/'rejected.parquet').unlink()):
        damage()
        with pytest.raises(RunError): read_build(tmp_path)
        model.asked.clear()
        assert build(PAGES, model, tmp_path).data.equals(built.data) and not model.asked
        assert read_build(tmp_path).rejected.equals(built.rejected)


def test_a_folder_with_another_build_is_left_alone(tmp_path):
    model = ScriptedModel('well', lambda request: json.dumps(written(request.messages[-1].content)), 'v1')
    build(PAGES, model, tmp_path, limit=2)
    for other in ({'limit': 3}, {'limit': 2, 'seed': 1}, {'limit': 2, 'variant': 'four'}):
        with pytest.raises(UsageError, match='another build'): build(PAGES, model, tmp_path, **other)
    with pytest.raises(UsageError): build(PAGES, model, tmp_path/'new', variant='five')
    with pytest.raises(UsageError): build(PAGES, model, tmp_path/'new', limit=0)


def test_our_prompts_say_every_rule_that_is_checked():
    for prompt in (UNIFIED, EXTRACT, FALSIFY): assert '15 words' in prompt.user
    for said in ('date', 'number', 'name', 'negate', 'noun', 'JSON', 'step.1', 'step.4'): assert said in UNIFIED.user
    assert {*UNFACTUAL.fields} > {'falsified', 'factual'} and FACTUAL.fields == ('claims', 'text')


# ---- views -------------------------------------------------------------------------------------------------------------------------

def test_rules_are_asked_of_what_could_be_read(tmp_path):
    bad = {'00': Response(text='{"step.1"', finish_reason='length'), '01': Response(finish_reason='error', error='down'), '02': 'Sorry.',
           '03': {'falsified': "Lund03's cathedral is not built of sandstone."}}
    def script(request):
        prompt = request.messages[-1].content
        found = bad.get(number_in(prompt), {})
        return json.dumps(written(prompt, found)) if isinstance(found, dict) else found
    found = build(PAGES, ScriptedModel('cut', script, 'v1'), tmp_path, store=False).manifest
    whole = found['counts']['accepted'] - found['counts']['marked']
    shares = {rule: (kept, n) for rule, kept, n, _ in built_shares(found['rules_broken'], found['counts']['asked'], whole).iter_rows()}
    assert shares['answer'] == (8, 10) and shares['json'] == (7, 8) and shares['negation'] == (6, 7) and shares['claims'] == (7, 7)
    assert shares[EVERY_RULE] == (6, 10)


@pytest.mark.parametrize('variant', ['unified', 'four'])
def test_one_answer_for_every_passage_keeps_all_rules_but_that_which_ties_it_to_its_passage(variant):
    sample = load_oasis_sample()
    made = OneAnswer(variant).predict(sample, None)
    assert set(made['status']) == {'ok'} and made['rules'].list.contains('source').all()
    kept = {rule: count for rule, count, _, _ in generated_shares(made).iter_rows()}
    assert kept['source'] == kept[EVERY_RULE] == 0 and kept['subject'] == kept['apart'] == sample.height


def test_claims_of_another_page_break_the_rule_of_the_source():
    sample = load_oasis_sample()
    moved = sample.with_columns(passage=pl.concat([sample['passage'][1:], sample['passage'][:1]]))
    assert 'source' not in check_items(sample)['rule'] and check_items(moved).filter(rule='source').height == sample.height


# ---- data to train a part on -------------------------------------------------------------------------------------------------------

def pages_of(*splits) -> pl.DataFrame:
    return OASIS.frame([GOOD | {'id': f'p{at}', 'page': page, 'split': split} for at, (page, split) in enumerate(splits)])


def test_files_builds_and_the_sample_train_and_nothing_else(tmp_path):
    rows = pages_of(('A', 'train'), ('B', 'validation'), ('C', 'test'), ('D', 'train'))
    rows.write_parquet(tmp_path/'mine.parquet')
    rows.write_ndjson(tmp_path/'mine.jsonl')
    for name in ('mine.parquet', 'mine.jsonl'):
        own = training_data(tmp_path/name)
        assert own.rows.select('page', 'split').rows() == [('A', 'train'), ('B', 'dev'), ('C', 'dev'), ('D', 'train')]
        assert own.source == f'{name} (OASIS-shaped)' and own.licence == STATED_ELSEWHERE and own.option == f' --data {name}'
    model = ScriptedModel('well', lambda request: json.dumps(written(request.messages[-1].content)), 'v1')
    built = build(PAGES, model, tmp_path/'sample')
    own = training_data(str(tmp_path/'sample'))
    assert set(own.rows['id']) == set(built.data['id']) and {*own.rows['split']} == {'train', 'dev'}
    assert own.source == 'sample/ (OASIS-shaped)'
    assert own.licence == STATED_ELSEWHERE, 'a folder is not the set of its name'
    assert training_data('open') is None and training_data('sample').source == 'sample'
    with pytest.raises(UsageError, match='take sample, oasis, open, a file .* or a folder that `factlab build oasis` wrote'):
        training_data('closed')
    for none in (tmp_path/'nowhere.parquet', tmp_path/'nowhere'):
        with pytest.raises(DataError, match='there is no file .* or a folder that `factlab build oasis` wrote'): training_data(none)
    (tmp_path/'empty').mkdir()
    with pytest.raises(DataError, match='build oasis'): training_data(tmp_path/'empty')
    (tmp_path/'sample'/'oasis.parquet').write_bytes(b'half')
    with pytest.raises(DataError, match='oasis.parquet'): training_data(tmp_path/'sample')
    rows.drop('falsified').write_parquet(tmp_path/'bad.parquet')
    with pytest.raises(DataError, match='falsified'): training_data(tmp_path/'bad.parquet')


def test_a_page_with_a_row_that_is_held_out_trains_nothing(tmp_path):
    def splits(*rows):
        pages_of(*rows).write_parquet(tmp_path/'a.parquet')
        return training_data(tmp_path/'a.parquet').rows.select('page', 'split').rows()
    assert splits(('A', 'train'), ('B', 'train'), ('A', 'test')) == [('A', 'dev'), ('B', 'train'), ('A', 'dev')]
    cut = splits(*[(f'page {at//2}', 'train') for at in range(20)])
    assert [split for _, split in cut].count('dev') == 4 and len({page for page, split in cut if split == 'dev'}) == 2
    for rows in ([('A', 'train'), ('B', 'train')], [('A', 'test'), ('B', 'validation')], [('A', 'train'), ('A', 'test')]):
        with pytest.raises(DataError, match='3 or more'): splits(*rows)


def test_shares_are_of_what_could_break_the_rule(tmp_path):
    "Eight of nine pages have no passage: they are eight of nine pages, not eight times what was asked."
    pages = pl.DataFrame({'page': [f'Blank {at}' for at in range(8)] + PAGES['page'].head(1).to_list(),
                          'text': [' ']*8 + PAGES['text'].head(1).to_list()})
    model = ScriptedModel('well', lambda request: json.dumps(written(request.messages[-1].content)), 'v1')
    shares = build(pages, model, tmp_path/'out', store=False).shares()
    assert shares.filter(pl.col('rule') == 'passage').row(0) == ('passage', 8, 8/9) and shares['share'].max() <= 1


def test_names_in_a_table_are_read_as_they_stand(tmp_path):
    (tmp_path/'pages.CSV').write_text('page,text\n007,One.\n7,Two.\n', encoding='utf-8')
    assert read_pages(tmp_path/'pages.CSV')['page'].to_list() == ['007', '7']
