"""`factlab verify`: what it takes, what it prints, and what it refuses."""
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import WORLD, corpus_in, run
from verification.test_nli import save_model

from factlab.cli.main import main
from factlab.cli.verify import given_texts
from factlab.core.core import DataError, ModelError, UsageError
from factlab.models.encoder import Encoder
from factlab.models.interface import ScriptedModel
from factlab.models.prompts import Parsed
from factlab.retrieval.corpus import Corpus, read_passages
from factlab.verification.extraction import ModelExtractor
from factlab.verification.verdict_rules import SURE

EMBEDDED = ('--extractor', 'sentences', '--retriever', 'bm25', '--verifier', 'cosine', '--method', 'max-entailment')

@pytest.fixture
def corpus(tmp_path) -> Path: return corpus_in(tmp_path/'corpus')


def test_verify_prints_a_verdict_with_claims_and_evidence(corpus, capsys):
    assert run('verify', 'Owls hunt at night. Trams cross bridges.', '--corpus', corpus, *EMBEDDED) == 0
    shown = capsys.readouterr().out
    assert shown.startswith('UNDECIDED: 2 claims, 1 supported, 0 contradicted, 1 not in the evidence.')
    assert 'Owls hunt at night. They rest' in shown and 'no passage was found' in shown
    assert 'owls.txt' in shown


def test_texts_from_arguments_files_and_a_pipe(corpus, capsys, monkeypatch, tmp_path):
    (tmp_path/'one.txt').write_bytes('\ufeffOtters live by rivers and eat fish.'.encode())
    monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(b'Owls rest in hollow trees by day.')))
    assert run('verify', '-', 'Trams cross bridges.', '--file', tmp_path/'one.txt', '--corpus', corpus, '--json', *EMBEDDED) == 0
    found = json.loads(capsys.readouterr().out)
    assert [text['id'] for text in found['texts']] == ['text 1', 'text 2', str(tmp_path/'one.txt')]
    assert [text['verdict'] for text in found['texts']] == ['factual', 'undecided', 'factual']
    assert found['texts'][2]['claims'][0]['claim'] == 'Otters live by rivers and eat fish.' and found['settings']['verifier'] == 'cosine'
    assert found['texts'][0]['claims'][0]['evidence'][0]['page'] == 'owls.txt'


def test_a_text_without_claims_is_undecided(corpus, capsys):
    assert run('verify', ' ', '--corpus', corpus, *EMBEDDED) == 0
    assert capsys.readouterr().out.startswith('UNDECIDED: the text is empty.')


def test_hostile_text_in_the_terminal(corpus, capsys):
    (corpus/'evil.txt').write_text('Owls hunt at night\x1b[2J\x1b]0;x\x07.')
    for form in ((), ('--json',)):
        run('verify', 'Owls hunt \x1b[31mat night.', '--corpus', corpus, '--passages', 9, *form, *EMBEDDED)
        assert not {'\x1b', '\x07'} & {*capsys.readouterr().out}


def test_out_writes_a_file(corpus, capsys, tmp_path):
    run('verify', 'Owls hunt at night.', '--corpus', corpus, '--json', '--out', tmp_path/'found.json', *EMBEDDED)
    assert json.loads((tmp_path/'found.json').read_text())['texts'][0]['verdict'] == 'factual'
    assert str(tmp_path/'found.json') in capsys.readouterr().out


@pytest.mark.parametrize('arguments, error, match', [
    ((), UsageError, 'no text'), (('a', '--file', 'nowhere.txt'), DataError, 'nowhere.txt'),
    (('-', '--file', '-'), UsageError, 'read once'),
    (('a', '--k', '0'), UsageError, 'k is 0'), (('a', '--method', 'vote'), UsageError, 'algorithm1'),
    (('a', '--verifier', 'deberta'), UsageError, 'nli:'),
    (('a', '--extractor', 'magic'), UsageError, 'magic')])
def test_what_verify_refuses(corpus, arguments, error, match):
    with pytest.raises(error, match=match):
        run('verify', *arguments, '--corpus', corpus, *EMBEDDED[:2] if '--extractor' not in arguments else (), *EMBEDDED[2:4],
                                                *EMBEDDED[4:6] if '--verifier' not in arguments else ())


def test_corpora_and_texts_that_are_none(corpus, tmp_path):
    with pytest.raises(DataError, match='no corpus'): run('verify', 'a', '--corpus', tmp_path/'nowhere', *EMBEDDED)
    (tmp_path/'empty').mkdir()
    with pytest.raises(DataError): run('verify', 'a', '--corpus', tmp_path/'empty', *EMBEDDED)
    (tmp_path/'latin.txt').write_bytes('Eulen fliegen über Flüsse'.encode('latin-1'))
    with pytest.raises(DataError, match='UTF-8'): run('verify', '--file', tmp_path/'latin.txt', '--corpus', corpus, *EMBEDDED)


def test_a_text_that_is_not_utf_8_is_said():
    with pytest.raises(DataError, match='text 1 is not UTF-8'): given_texts(['caf\udce9 is open.'], [])


# ---- bad input ---------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('text, said', [('', 'UNDECIDED: the text is empty.'), (' \n\t', 'UNDECIDED: the text is empty.'),
                                        ('… !? — 😀', 'UNDECIDED: no claim was found'),
                                        ('Die Eulen jagen in der Nacht und sie schlafen den ganzen Tag in einer Höhle, die nicht weit von '
                                         'dem Fluss ist.', 'looks like German'),
                                        ('Совы охотятся ночью, а днём спят в дупле.', 'Cyrillic')])
def test_texts_that_say_nothing_or_say_it_in_another_language(corpus, capsys, text, said):
    assert run('verify', text, '--corpus', corpus, *EMBEDDED) == 0
    assert said in ' '.join(capsys.readouterr().out.split())


def test_a_text_of_a_hundred_thousand_words(corpus, capsys, tmp_path):
    words = ['owls', 'otters', 'rivers', 'night', 'trees', 'swim', 'fish', 'hunt']
    # each ten times: encoded once
    (tmp_path/'long.txt').write_text(' '.join(f'Owls {" ".join(words[(at + step) % 8] for step in range(18))} {at % 500}.'
                                              for at in range(5_000)))
    assert run('verify', '--file', tmp_path/'long.txt', '--corpus', corpus, '--texts-only', *EMBEDDED[:4], '--verifier', 'cosine') == 0
    assert '1000 claims, ' in capsys.readouterr().out


def test_passages_that_are_empty_or_equal_and_k_beyond_them(corpus, capsys):
    (corpus/'empty.txt').touch()
    (corpus/'blank.md').write_text(' \n\n ')
    (corpus/'twin.txt').write_text(WORLD['owls.txt'])
    for retriever in ('bm25', 'tiny'):
        assert run('verify', 'Owls hunt at night.', '--corpus', corpus, '--k', 1_000, '--json', '--extractor', 'sentences', '--retriever',
                   retriever, '--verifier', 'cosine') == 0
        found = json.loads(capsys.readouterr().out)
        assert found['settings']['passages'] == 3
        assert [row['page'] for row in found['texts'][0]['claims'][0]['evidence']][:2] == ['owls.txt', 'twin.txt']
    for name in ('owls.txt', 'twin.txt', 'otters.md'): (corpus/name).unlink()
    with pytest.raises(DataError, match=r'empty\.txt \(empty\)'): run('verify', 'Owls hunt.', '--corpus', corpus, *EMBEDDED)


@pytest.mark.skipif(not os.path.exists('/proc/self/status'), reason='needs /proc/self/status, which tells a process its peak memory')
def test_a_passage_of_fifty_megabytes(corpus, tmp_path):
    "In a process of its own, which tells how much memory it took; half a gigabyte are the embedded encoder and its library."
    (corpus/'huge.txt').write_text(''.join(f'{word}{at % 9973} ' for at in range(1_200_000)
                                           for word in ('river', 'stone', 'moss', 'lamp', 'coal')))
    assert (corpus/'huge.txt').stat().st_size > 50_000_000
    # of this process; ru_maxrss would count the one that started it
    peak = 'int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])//1024'
    command = [sys.executable, '-c',
               f'import re, sys; from factlab.cli.main import main; sys.argv[0] = "factlab"; code = main(); print({peak}, '
               f'file=sys.stderr); sys.exit(code)',
               'verify', 'Owls hunt at night.', '--corpus', str(corpus), '--json', *EMBEDDED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500,
                          env=os.environ | {'FACTLAB_HOME': str(tmp_path/'home'), 'FACTLAB_PROGRESS': '0'})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found['texts'][0]['verdict'] == 'factual' and found['settings']['passages'] > 40_000 and int(done.stderr.split()[-1]) < 1_600


def test_a_corpus_of_another_encoder_or_revision(corpus, tmp_path):
    encoded = Corpus.create(tmp_path/'encoded', read_passages(corpus), 'tiny').folder
    asked = ('verify', 'Owls hunt at night.', '--corpus', encoded, '--extractor', 'sentences', '--verifier', 'cosine', '--retriever')
    assert run(*asked, 'tiny') == 0
    with pytest.raises(DataError, match=r"encoded by 'tiny'.*open it with that encoder, or encode the passages again"):
        run(*asked, 'tiny?dtype=bfloat16')
    manifest = json.loads((encoded/'manifest.json').read_text())
    (encoded/'manifest.json').write_text(json.dumps(manifest | {'identity': manifest['identity'] | {'weights': 'an older revision'}}))
    with pytest.raises(DataError, match=r'other weights\).*encode the passages again'): run(*asked, 'tiny')


def test_embeddings_that_are_no_numbers(corpus, tmp_path, monkeypatch):
    encoded = Corpus.create(tmp_path/'encoded', read_passages(corpus), 'tiny').folder
    vectors = np.load(encoded/'vectors.npy')
    vectors[0] = np.nan
    np.save(encoded/'vectors.npy', vectors)
    asked = ('verify', 'Owls hunt at night.', '--extractor', 'sentences', '--verifier', 'cosine', '--retriever', 'tiny', '--corpus')
    with pytest.raises(DataError, match='(?i)nan'): run(*asked, encoded)
    monkeypatch.setattr(Encoder, 'encode', lambda self, texts, store=None: np.full((len(texts), 384), np.nan, np.float32))
    (corpus/'new.txt').write_text('Trams cross bridges.')
    with pytest.raises(DataError, match='NaN or infinity for passage 0'): run(*asked, corpus)


@pytest.mark.parametrize('labels', [['LABEL_0', 'LABEL_1', 'LABEL_2'], ['positive', 'negative']])
def test_an_nli_model_with_unknown_labels(corpus, tmp_path, labels):
    save_model(tmp_path/'model', labels)
    with pytest.raises(ModelError, match='labels=ENT,NEUT,CONTR'):
        run('verify', 'Owls hunt at night.', '--corpus', corpus, *EMBEDDED[:4], '--verifier', f'nli:{tmp_path/"model"}')


@pytest.mark.parametrize('part, name', [('--extractor', 'tiny'), ('--verifier', 'mpnet')])
def test_weights_that_are_not_there_are_told_before_anything_is_encoded(corpus, monkeypatch, part, name):
    def forbidden(*_, **__): raise AssertionError('it encodes')
    monkeypatch.setattr('factlab.models.weights._find', lambda weights, repair=False: None)
    monkeypatch.setattr('factlab.verification.pipeline.open_search', forbidden)
    given = {'--extractor': 'sentences', '--verifier': 'cosine', part: name}
    with pytest.raises(ModelError, match=f'factlab models get {name}'):
        run('verify', 'Owls hunt.', '--corpus', corpus, *(each for pair in given.items() for each in pair))



def test_an_empty_text_is_said_to_be_empty_before_anything_is_encoded(corpus, capsys, monkeypatch):
    def encoded(*arguments, **options): raise AssertionError('the corpus was opened')
    monkeypatch.setattr('factlab.verification.pipeline.open_search', encoded)
    monkeypatch.setattr('factlab.verification.nli.load_adapted', encoded)
    assert run('verify', '', ' \n', '--corpus', corpus) == 0
    assert capsys.readouterr().out.count('UNDECIDED: the text is empty.') == 2
    with pytest.raises(AssertionError, match='opened'): run('verify', '', 'Owls hunt.', '--corpus', corpus, *EMBEDDED)


# ---- how it ends -------------------------------------------------------------------------------------------------------------------

TRUE, UNKNOWN = 'Owls hunt at night.', 'Trams cross bridges.'

@pytest.mark.parametrize('texts, fail_on, code', [
    ((TRUE,), (), 0), ((UNKNOWN,), (), 0), (('',), (), 0), ((TRUE,), ('not-factual',), 0), ((TRUE,), ('factual',), 1),
    ((UNKNOWN,), ('not-factual',), 0), ((UNKNOWN,), ('not-factual,undecided',), 1), ((UNKNOWN,), ('Not Factual', 'UNDECIDED'), 1),
    (('',), ('undecided',), 1), ((TRUE, UNKNOWN), ('undecided',), 1), ((TRUE, UNKNOWN), ('not_factual',), 0)])
def test_fail_on(corpus, capsys, texts, fail_on, code):
    asked = [part for verdict in fail_on for part in ('--fail-on', verdict)]
    for form in ((), ('--json',)): assert run('verify', *texts, '--corpus', corpus, *asked, *form, *EMBEDDED) == code
    assert capsys.readouterr().out


def test_codes_of_what_cannot_be(corpus, capsys, tmp_path):
    (tmp_path/'empty').mkdir()
    for arguments, code in ((('a', '--fail-on', 'wrong'), 2), (('a', '--k', '0'), 2), (('a', '--method', 'vote'), 2),
                            (('--file', 'nowhere.txt'), 3), (('a', '--out', str(tmp_path/'no'/'such'/'folder')), 0)):
        try: ended = main(['verify', *arguments, '--corpus', str(corpus), *EMBEDDED[:6]])
        except SystemExit as end: ended = end.code
        said = capsys.readouterr()
        assert ended in (code, 3*(code == 0)), (arguments, said.err)
    for path in ('nowhere', 'empty'): assert main(['verify', 'a', '--corpus', str(tmp_path/path), *EMBEDDED]) == 3
    assert 'FACTUAL' not in capsys.readouterr().out
    assert main(['verify', 'a', '--corpus', str(corpus), '--fail-on', 'undecided', '--dry-run', *EMBEDDED]) == 0


def test_a_model_that_does_not_answer_is_not_finished(corpus, capsys, monkeypatch):
    class Down:
        name, identity = 'down', {}
        def extract(self, texts, store=None): return [Parsed(None, 'failed', 'the server is down') for _ in texts]
    monkeypatch.setattr('factlab.verification.pipeline.load_extractor', lambda name: Down())
    asked = ['verify', TRUE, '--corpus', str(corpus), *EMBEDDED]
    assert main(asked) == 3 and 'UNDECIDED: no claims came: the server is down.' in capsys.readouterr().out
    assert main([*asked, '--fail-on', 'undecided']) == 1


@pytest.mark.parametrize('answer, why', [("I'm sorry, but I can't help with that.", 'refused'), ('None', 'no claim'), ('', 'empty'),
                                         ('There are no claims in this text.', 'no claim')])
def test_a_refusal_or_no_claim_is_undecided_with_its_reason(corpus, capsys, monkeypatch, answer, why):
    extractor = ModelExtractor('scripted', ScriptedModel('scripted', lambda request: answer))
    monkeypatch.setattr('factlab.verification.pipeline.load_extractor', lambda name: extractor)
    for method in ('three-way', 'algorithm1'):
        assert main(['verify', TRUE, '--corpus', str(corpus), *EMBEDDED[:-1], method, '--fail-on', 'factual,not-factual']) == 0
        shown = capsys.readouterr().out
        assert shown.startswith('UNDECIDED: ') and why in ' '.join(shown.partition('\n\n')[0].split())


def test_the_help_names_the_probability_that_factual_takes(capsys):
    with pytest.raises(SystemExit): main(['verify', '--help'])
    assert f'{SURE:g} where none is given' in ' '.join(capsys.readouterr().out.split())
