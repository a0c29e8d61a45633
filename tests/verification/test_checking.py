"""`factlab check`: sentences against their sources; places in the user's own text; files of every form; hostile texts; one command."""
import html
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hostile_texts import hostile
from hypothesis import given
from hypothesis import strategies as st

from factlab.cli.check import read_columns
from factlab.cli.lab import lab_notebook
from factlab.cli.main import main
from factlab.core.core import DataError, UsageError
from factlab.core.glossary import meaning
from factlab.models.prompts import Parsed
from factlab.reports.own_files import read_mapping
from factlab.runs.runs import load_run
from factlab.text.words import whole_text
from factlab.verification.check_report import check_report, known_accuracy
from factlab.verification.check_runs import check_run, read_check
from factlab.verification.checking import CHECKED_TEXTS, TEXTS, UNITS, check, read_texts, sentence_places
from factlab.workbench.check_page import check_html
from factlab.workbench.check_view import browse_check, check_listing
from factlab.workbench.table import select_rows

SOURCE = 'The bridge was built in 1887. It is old and it has a mill. A mill is beside it.\n\nThe mill was sold to the parish in 1952.'


class Says:
    "A verifier that has an opinion on each claim."
    name, identity, english_only = 'says', {'verifier': 'says', 'version': 1}, True

    def __init__(self, **opinions: tuple[float, float, float]): self.opinions, self.asked = opinions, []

    def probabilities(self, pairs, store=None):
        self.asked += pairs
        return np.array([self.opinions.get(claim.split()[0], (.99, .005, .005)) for _, claim in pairs], np.float32).reshape(-1, 3)


RIVALS = [('It is old and it has a mill.', text) for text in ('It is old.', 'It has a mill.', 'It is old.')] + [
    ('A mill is beside it.', 'It has a mill.'), ('The mill was sold to the parish in 1952.', 'It has a mill.')]  # sentences with its words


def texts(*rows: tuple[str, str, str]) -> pl.DataFrame: return TEXTS.frame(dict(zip(TEXTS.columns, row, strict=True)) for row in rows)


def test_each_sentence_is_one_pair_and_texts_have_three_outcomes():
    verifier = Says(Trains=(.1, .7, .2), Nobody=(.2, .2, .6), Mills=(.8, .1, .1), Even=(.4, .4, .2))
    rows = texts(('good', SOURCE, 'It is old. It has a mill.'), ('wrong', SOURCE, 'It is old. Nobody sold it in 1952.'),
                 ('open', SOURCE, 'Trains cross it.'), ('unsure', SOURCE, 'Mills can burn and decay.'), ('tie', SOURCE, 'Even so.'),
                 ('none', SOURCE, ' '))
    found = check(rows, verifier, store=False)
    UNITS.check(found.units)
    assert dict(CHECKED_TEXTS.check(found.texts).select('id', 'verdict').iter_rows()) == {
        'good': 'factual', 'wrong': 'not factual', 'open': 'undecided', 'unsure': 'undecided', 'tie': 'undecided', 'none': 'undecided'}
    asked = found.units.height
    assert verifier.asked[:asked] == [(SOURCE, text) for text in found.units['text']] and sorted(verifier.asked[asked:]) == sorted(RIVALS)
    assert found.texts.filter(id='wrong').row(0, named=True) | {'reason': None} == {
        'id': 'wrong', 'verdict': 'not factual', 'units': 2, 'supported': 1, 'contradicted': 1, 'missing': 0,
        'least_supported': pytest.approx(.2), 'reason': None}
    assert 'no sentence' in found.texts.filter(id='none')['reason'].item()
    assert '0.800 (0.984 is needed)' in found.texts.filter(id='unsure')['reason'].item()
    assert found.texts.filter(id='good')['reason'].item() is None
    assert check(rows, verifier, sure=.8, store=False).texts.filter(id='unsure')['verdict'].item() == 'factual'
    nearest = found.units.filter(id='wrong')['evidence'].to_list()[1]
    assert nearest == 'The mill was sold to the parish in 1952.'


def test_claims_come_from_an_extractor():
    found = check(texts(('a', SOURCE, 'It is old; trains cross it. It has a mill.')), Says(), 'claim', 'sentences', store=False)
    assert found.units['text'].to_list() == ['It is old; trains cross it.', 'It has a mill.'] and found.units['start'].null_count() == 2
    with pytest.raises(UsageError, match="by is 'word'"): check(texts(('a', 'b', 'c')), Says(), by='word')


def test_what_is_no_sentence_is_not_read_and_keeps_a_text_from_being_factual():
    found = check(texts(('fence', SOURCE, 'It is old.\n```\nIt is on the Moon.\n```'),
                        ('table', SOURCE, 'It is old.\n\n| a | b |\n|---|---|\n| c | Moon |'),
                        ('list', SOURCE, '## Key points\n1. It is old.\n- It has a mill.\n> It is old.')), Says(), store=False)
    assert found.texts['verdict'].to_list() == ['undecided', 'undecided', 'factual'] and 'Moon' in found.texts['reason'][0]
    assert 'not with the probability' not in check_report(found)


@pytest.mark.parametrize(('source', 'text', 'why'), [
    ('In 1945 troops blew up the eastern span, but the western span survived.',
     'In 1945 troops blew up the western span, but the eastern span survived.', 'has "eastern" before "western"'),
    ('The shop opens at 10 a.m. on Saturdays.', 'The shop opens at 10 p.m. on Saturdays.', 'lacks "pm" of the claim'),
    ('The mill burned down in 1901.', 'The mill burned down in 1901. The owner set the fire, didn\'t he?',
     'it ends with a question, which is not checked: The owner set the fire'),
    ('Almost all of the passengers survived.', 'All of the passengers survived.', 'has "Almost", which the claim leaves out'),
    ('The mill burned down in 1901.', 'Who would deny that the owner set the fire? The mill burned down in 1901.', 'deny, owner'),
    ('The mill burned down in 1901.', 'The mill burned down in 1901.', None), ('It rained.', 'Did it rain? It rained.', None),
    ('It rained.', 'It rained. Did it?', 'ends with a question'),
    ('It began in 1902.', 'When did construction begin? It began in 1902.', None),
    ('A fire destroyed the mill in 1901.', 'Flames took the mill.', 'lacks "Flames" of the claim'),
    ('Fire took all in 1901.', 'All was lost.', None),
    ('A fire destroyed the mill in 1901.', 'A fire took the mill at Arle.', 'lacks "Arle" of the claim'),
    ('A fire destroyed the mill in 1901.', 'The fire took two of the mills.', None),
    ('A fire destroyed the mill in 1901.', '2. Fire took 14 mills.', 'lacks "14" of the claim'),
    ('In the second half of the century Dahl founded the mill.', 'Dahl founded the mill.', None),
    ('In mice the drug lowers blood pressure.', 'The drug lowers blood pressure.', 'has "In mice", which the claim leaves out'),
    ('The club of Varn was sued by the bank.', 'The club of Varn sued the bank.', 'has "by bank"'),
    ('Anna was a nurse in Lund. Clara was a judge. She was tried in 1944.', 'Anna was a nurse in Lund. She was tried in 1944.',
     'has another sentence before this one, so "She"'),
    ('Anna sold boats. Clara was a judge. In 1944 she was tried.', 'Anna sold boats. In 1944 she was tried.', 'so "she" may be'),
    ('Varn makes pumps. Lund makes boats. The company was fined.', 'Varn makes pumps. The company was fined.', 'so "The company"'),
    ('The mill is old. Anna sold it. The mill was burned.', 'The mill is old. The mill was burned.', None),
    ('Varn is a firm. Lund is a firm. The firm was fined.', 'Varn is a firm. The firm was fined.', 'so "The firm"'),
    ('Varn is old. It rained. There are two mills.', 'Varn is old. There are two mills.', None),
    ('Varn is old. It rained. The oldest mill is there.', 'Varn is old. The oldest mill is there.', None),
    ('It was built in 1888. It was sold in 1921. Two years later it fell.', 'It was built in 1888. Two years later it fell.', 'Two years'),
    ('Anna ran home. It was hot. Bob swam. It was hot.', 'Anna ran home. It was hot. Bob swam. It was hot.', None),
    ('Sales rose in May. That was the largest rise of all.', 'Sales rose in May. That was the largest rise of all.', None),
    ('- The hoard is of silver.\n- It was -5 degrees cold.', 'The hoard is of silver. It was -5 degrees cold.', None),
    ('It was 20 degrees warm.', 'It was 20 degrees warm ●', None),
    ('The mill burned.', 'The mill burned.\nMain results: 95%', 'lacks "Main"'),
    ('The mill burned down in 1901. That was the plan, at least.', 'The mill burned down in 1901.', 'has "That was the plan'),
    ('Clara was a judge. She was tried in 1944.', 'Clara was a judge. She was tried in 1944.', None),
    ('Myths of Varn\n\nThe mill burned down in 1901.', 'The mill burned down in 1901.', 'speaks of "Myths"'),
    ('The mill burned down in 1901.', 'The mill burned down in 1901 🙃.', 'signs that the source lacks: 🙃'),
    ('What the forger wrote:\n\nThe mill burned down in 1901.', 'The mill burned down in 1901.', 'has "What the forger wrote:" above it'),
    ('The church has a nave. Beside it a hall was sold to a bank.', 'The church was sold to a bank.', 'no sentence with all of them'),
    ('The mill burned down in 1901.', '**Summary:**\n\n- The mill burned down in 1901.[1]', None)])
def test_near_copies_and_what_is_only_asked_keep_a_text_from_being_factual(source, text, why):
    found = check(texts(('a', source, text)), Says(), store=False).texts.row(0, named=True)
    assert found['verdict'] == ('undecided' if why else 'factual') and (why or '') in (found['reason'] or '')


def test_a_source_that_contradicts_itself_bears_nothing_out():
    class Rival(Says):
        "The hall burned but once."
        def probabilities(self, pairs, store=None):
            said = super().probabilities(pairs)
            said[[source.count('.') == 1 and '1950' in source and '1944' in claim for source, claim in pairs]] = (.1, 0, .9)
            return said
    source = 'The hall of Varn burned in 1944. It was of brick.\n\nThe hall of Varn burned in 1950.'
    found = check(texts(('a', source, 'The hall of Varn burned in 1944.'), ('b', source, 'It was of brick.')), Rival(), store=False)
    assert found.units['doubt'].to_list() == ['the source also says "The hall of Varn burned in 1950.", which may contradict it', None]
    assert found.texts['verdict'].to_list() == ['undecided', 'factual']


@pytest.mark.parametrize(('two_way', 'text', 'asked'), [(False, 'The mill of Varn is old.', 20), (True, 'The mill of Varn is old.', 0),
                                                        (False, 'It was so.', 0)])
def test_other_sentences_are_asked_about_within_bounds(two_way, text, asked):
    verifier = Says()
    verifier.two_way = two_way
    source = ' '.join([text, *(f'The mill of Varn is old in year {at}.' for at in range(1, 60))])
    check(texts(('a', source, text)), verifier, store=False)
    assert len(verifier.asked) == 1 + asked


def test_a_doubt_stands_beside_its_sentence_and_in_the_report():
    found = check(texts(('a', 'Almost all of the mill is old. It was sold.', 'All of the mill is old. It was sold. Trains cross it.')),
                  Says(Trains=(.1, .1, .8)), store=False)
    UNITS.check(found.units)
    assert found.units['doubt'].to_list() == ['the source has "Almost", which the claim leaves out', None, None]
    assert found.texts['verdict'].item() == 'not factual' and found.texts['reason'].item() is None
    said = check_report(found)
    assert 'All of the mill is old.' in said and 'doubtful: the source has "Almost"' in said and 'It was sold.' not in said
    assert 'doubtful: the source has &quot;Almost&quot;' in check_html(found)
    assert '1 is doubtful: the source has "Almost"' in browse_check(found, labels=None, encoder=None).judged.verdicts['reason'].item()


def test_places_of_a_sentence_that_stands_in_a_block_as_well():
    for block in ('```\nThe mill is old.\n```\n', '| The mill is old. | x |\n\n', '~~~py\nprint("The mill is old.")\n~~~\n'):
        assert sentence_places(block + 'The mill is old.') == [('The mill is old.', len(block), len(block) + 16)]


def test_a_check_by_claims_is_kept_as_a_run():
    run = check_run(texts(('a', SOURCE, 'It is old. It has a mill.')), 'claims', Says(), 'claim', 'sentences')
    assert read_check(run).units['text'].to_list() == ['It is old.', 'It has a mill.']


class Splits:
    "An extractor that drops what links its claims."
    name, identity = 'splits', {'extractor': 'splits', 'version': 1}

    def extract(self, texts, store=None): return [Parsed([f'{part}.' for part in text.strip('.').split(', so ')]) for text in texts]


def test_claims_that_lost_a_link_or_a_negation_make_no_text_factual():
    rows = texts(('so', SOURCE, 'It is old, so it has a mill.'), ('whole', SOURCE, 'It is old.'))
    found = check(rows, Says(), 'claim', Splits(), store=False).texts
    assert found['verdict'].to_list() == ['undecided', 'factual'] and '"so"' in found['reason'][0]


PIECES = ['It opened in 1899. ', 'Dr. Smith\tcame  late.\n', 'é\u0301 is odd! ', '- an item\n', '\u200b', '  \n\n', 'No end', '。终']

@given(st.lists(st.sampled_from(PIECES), max_size=12).map(''.join))
def test_places_are_of_the_text_as_it_was_given(text):
    found, last = sentence_places(text), 0
    for sentence, start, end in found:
        assert last <= start < end <= len(text) and ' '.join(text[start:end].split()) == sentence
        last = end


def test_offsets_are_in_the_users_own_characters(tmp_path):
    row = {'text': 'Cafe\u0301 Müller opened. \U0001F600 It closed.', 'summary': 'Cafe\u0301 opened.  \U0001F600 It closed.'}
    (tmp_path/'a.jsonl').write_text(json.dumps(row), encoding='utf-8')
    found = check(read_texts(tmp_path/'a.jsonl'), Says(), store=False).units
    for unit in found.iter_rows(named=True):
        assert row['summary'][unit['start']:unit['end']].split() == unit['text'].split()
        assert row['text'][unit['evidence_start']:unit['evidence_end']].split() == unit['evidence'].split()


@pytest.mark.parametrize('heads', [('text', 'summary'), ('document', 'response'), ('evidence', 'claim'), ('source', 'text')])
@pytest.mark.parametrize('kind', ['csv', 'jsonl', 'json', 'parquet'])
def test_files_of_every_form(tmp_path, heads, kind):
    frame = pl.DataFrame({'id': [7, 8], heads[0]: ['A mill.', 'A "quoted"\nline.'], heads[1]: ['It mills.', ''], 'more': [1.5, None]})
    path = tmp_path/f'rows.{kind}'
    {'csv': frame.write_csv, 'jsonl': frame.write_ndjson, 'json': frame.write_json, 'parquet': frame.write_parquet}[kind](path)
    if kind == 'csv': path.write_bytes(b'\xef\xbb\xbf' + path.read_bytes())  # as spreadsheets save it
    assert read_texts(path).rows() == [('7', 'A mill.', 'It mills.'), ('8', 'A "quoted"\nline.', '')]


@pytest.mark.parametrize('rows, columns, said', [
    ([{'text': 'a', 'summary': 'b', 'document': 'c'}], {}, 'several pairs'),
    ([{'article': 'a', 'abstract': 'b'}], {}, '--columns source=article,text=abstract'),
    ([{'article': 'a', 'abstract': 'b'}], {'source': 'articel', 'text': 'abstract'}, "did you mean 'article'"),
    ([{'article': 'a', 'abstract': 'b'}], {'sauce': 'article', 'text': 'abstract'}, "did you mean 'source'"),
    ([{'text': None, 'summary': 'b'}], {}, 'line 1: text is empty'),
    ([{'text': 'a', 'summary': 7}], {}, 'line 1: summary is int'),
    ([{'text': ' ', 'summary': 'b'}], {}, 'line 1: text is blank'),
    ([{'text': 'a', 'summary': 'b'}, {'text': ['a'], 'summary': 'b'}], {}, 'line 2: text is list'),
    ([{'id': 1, 'text': 'a', 'summary': 'b'}, {'id': '1', 'text': 'a', 'summary': 'c'}], {}, "id '1' is already that of line 1")])
def test_what_cannot_be_read_is_said(tmp_path, rows, columns, said):
    (tmp_path/'a.jsonl').write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
    with pytest.raises((DataError, UsageError), match=re.escape(said)): read_texts(tmp_path/'a.jsonl', columns)


def test_columns_of_other_names(tmp_path):
    (tmp_path/'a.jsonl').write_text(json.dumps({'nr': 3, 'article': 'a', 'summary': 'b', 'text': 'c'}), encoding='utf-8')
    assert read_texts(tmp_path/'a.jsonl', {'source': 'article', 'text': 'summary', 'id': 'nr'}).rows() == [('3', 'a', 'b')]


@pytest.mark.parametrize('text', hostile())
def test_hostile_texts_are_shown_and_do_nothing(text):
    text = whole_text(text)  # as files are read
    rows = texts((text, f'{text} A mill.', f'{text} It mills.'))
    found = check(rows, Says(It=(.1, .1, .8)), store=False)
    page, report = check_html(found), check_report(found, everything=True)
    page = re.sub(r'<a href="#words" title="[^"<>]*">(<mark class="o\d">[a-z ]+</mark>)</a>', r'\1', page)  # the key's links to its words
    assert not re.search(r'<(?!/?(?:html|head|meta|title|style|body|h[123]|p|mark|div|table|thead|tbody|tr|th|td|sup)\b|!doctype)', page)
    assert not re.search(r'<[^>]*\son\w+=', page) and '\x1b' not in report and '\u202e' not in report
    assert page.count('<html') == 1 and 'http' not in page.partition('</style>')[0]


def test_words_of_a_page_are_explained_on_it():
    page = check_html(check(texts(('a', SOURCE, 'Trains cross it.')), Says(Trains=(.1, .7, .2)), store=False))
    said = meaning('contradicted').said
    assert page.count('href="#words"') == 3 and page.count('id="words"') == 1 and f'<p>{said}</p>' in page
    assert f'title="{html.escape(meaning("contradicted").tip)}"><mark class="o1">contradicted</mark>' in page


def test_what_the_default_is_worth_stands_below():
    assert 'balanced accuracy' in known_accuracy({'verifier': 'mpnet', 'by': 'sentence'})
    assert 'was not measured' in known_accuracy({'verifier': 'cosine', 'by': 'sentence'})
    report = check_report(check(texts(('a', SOURCE, 'Trains cross it.')), Says(Trains=(.1, .7, .2)), store=False))
    assert report.startswith('a: UNDECIDED (1 not in the evidence)') and 'nearest in the source' not in report.split('\n')[2]
    assert 'undecided text' not in report
    rows = texts(('a', SOURCE, 'Mills can burn and decay.'), ('b', SOURCE, 'It is old.'))
    unsure = check_report(check(rows, Says(Mills=(.8, .1, .1)), store=False))
    assert 'In 1 undecided text every sentence is supported' in ' '.join(unsure.split())


# ---- the command

@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path/'summaries.csv'
    summaries = ['The bridge was built in 1887.', 'Trains cross it. It is closed.']
    pl.DataFrame({'id': ['a', 'b'], 'text': [SOURCE, SOURCE], 'summary': summaries}).write_csv(path)
    return path


@pytest.mark.parametrize('kind', ['html', 'csv', 'jsonl', 'parquet', 'txt'])
def test_results_as_files(file, tmp_path, capsys, kind):
    out = tmp_path/f'out.{kind}'
    assert main(['check', str(file), '--verifier', 'cosine', '--out', str(out)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(str(out)) and out.stat().st_size
    if kind in ('csv', 'jsonl', 'parquet'):
        frame = {'csv': pl.read_csv, 'jsonl': pl.read_ndjson, 'parquet': pl.read_parquet}[kind](out)
        assert frame.height == 3 and frame.columns == [*UNITS.columns, 'text_verdict', 'text_reason']
        assert frame['text_verdict'].n_unique() <= 2 and frame['text_verdict'].null_count() == 0


def test_a_text_without_a_sentence_has_a_row(tmp_path, capsys):
    pl.DataFrame({'id': ['a', 'b'], 'text': [SOURCE]*2, 'summary': ['The bridge was built in 1887.', '']}).write_csv(tmp_path/'two.csv')
    assert main(['check', str(tmp_path/'two.csv'), '--verifier', 'cosine', '--out', str(tmp_path/'out.csv')]) == 0
    found = {row['id']: row for row in pl.read_csv(tmp_path/'out.csv').to_dicts()}
    assert found['b']['text'] is None and found['b']['text_verdict'] == 'undecided' and found['b']['text_reason']


def test_exit_codes_and_json(file, capsys):
    assert main(['check', str(file), '--verifier', 'cosine', '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert [text['id'] for text in found['texts']] == ['a', 'b'] and len(found['units']) == 3 and found['settings']['verifier'] == 'cosine'
    verdicts = {text['verdict'] for text in found['texts']}
    assert main(['check', str(file), '--verifier', 'cosine', '--fail-on', 'undecided']) == ('undecided' in verdicts)
    for wrong, word in ((['no.csv'], 'there is no file'), ([str(file), '--columns', 'source'], 'NAME=THEIRS'),
                        ([str(file), '--out', 'x.pdf'], '.html'), ([str(file), '--verifier', 'tiny'], 'prompt:tiny'),
                        ([str(file), '--verifier', 'cosin'], "did you mean 'cosine'")):
        assert main(['check', *wrong]) in (2, 3) and word in capsys.readouterr().err


def test_a_check_is_kept_as_a_run_that_needs_no_file(file, capsys):
    assert main(['check', str(file), '--verifier', 'cosine']) == 0
    id = re.search(r'Kept as the run (\S+): factlab lab \1 opens it', capsys.readouterr().out)[1]
    assert main(['runs', 'show', id]) == 0 and '2 rows' in capsys.readouterr().out
    given = read_texts(file)
    file.unlink()
    found, once = read_check(load_run(id)), check(given, 'cosine')
    assert all(getattr(found, name).equals(getattr(once, name)) for name in ('units', 'texts', 'given')) and found.settings == once.settings
    name, ((_, head), (_, code)) = lab_notebook(id)
    assert name == id and 'browse_check' in code and 'workbench' in head
    with pytest.raises(UsageError, match="by is 'word'"): check_run(given, 'x', by='word')


def test_the_workbench_shows_what_a_check_says():
    verifier = Says(Trains=(.1, .7, .2), Nobody=(.2, .2, .6))
    rows = texts(('good', SOURCE, 'It is old. It has a mill.'), ('wrong', SOURCE, 'It is old. Nobody sold it in 1952.'),
                 ('open', SOURCE, 'Trains cross it.'), ('none', SOURCE, ' '))
    browser = browse_check(check(rows, verifier, store=False), labels=None, encoder=None)
    judged = browser.judged
    assert judged.judges == ('says',) and judged.frame['id'].to_list() == rows['id'].to_list()
    assert judged.verdicts.select('id', 'accurate', 'status', 'labels').rows() == [
        ('good', True, 'ok', ['supported', 'supported']), ('wrong', False, 'ok', ['supported', 'contradictory']),
        ('open', None, 'undecided', ['unsupported']), ('none', None, 'undecided', [])]
    assert check_listing(judged).cells([1, 2]) == [('wrong', 'not factual', 'It is old. Nobody sold it in 1952.'),
                                                  ('open', 'undecided', 'Trains cross it.')]
    listing = check_listing(judged)
    assert [select_rows(listing, show).tolist() for show in ('all texts', 'not factual', 'undecided', 'factual')] == [
        [0, 1, 2, 3], [1], [2, 3], [0]]
    assert select_rows(listing, sort='not factual first').tolist()[0] == 1


def test_a_dry_run_asks_nothing(file, capsys):
    assert main(['check', str(file), '--dry-run']) == 0 and 'no language model is asked' in capsys.readouterr().out
    assert main(['check', str(file), '--verifier', 'prompt:tiny', '--dry-run']) == 0
    counted = capsys.readouterr().out.splitlines()
    assert next(line for line in counted if line.startswith('tiny')).split()[2] == '3'


def test_a_source_in_another_language_is_told_and_columns_stand_once(tmp_path):
    german = 'Die Stadt liegt an der Küste und ist für ihren alten Hafen bekannt, der im Mittelalter entstanden ist.'
    rows = texts(('a', german, 'The town is known for its old harbour, which is from the Middle Ages.'), ('b', SOURCE, 'It is old.'))
    found = check(rows, Says(), store=False).texts
    assert found['reason'][0].startswith('the source: the text looks like German') and found['reason'][1] is None
    with pytest.raises(UsageError, match='names a column twice'): read_columns('source=a,source=b')
    with pytest.raises(UsageError, match='names a column twice'): read_mapping('id=a,id=b', ['id'])
