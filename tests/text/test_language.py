"Languages that the embedded parts do not know are named, English is not."
import json
import os
from pathlib import Path

import pytest
from conftest import real_data

from factlab.data import datasets as data
from factlab.data.corpora import load_oasis_sample
from factlab.text.language import language_warning


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('Die Stadt liegt an der Küste und ist für ihren alten Hafen bekannt, der im Mittelalter entstanden ist.', 'German'),
        ('La ville est connue pour son port, qui est un des plus anciens du pays, et pour les fêtes de l’été.', 'French'),
        ('La ciudad es conocida por su puerto, que es uno de los más antiguos del país y de la región.', 'Spanish'),
        ('Kaupunki tunnetaan satamastaan, joka kuuluu maan vanhimpiin, sekä kesäisistä juhlistaan meren rannalla.', 'Finnish'),
        ('Ystad on kaupunki Etelä-Ruotsissa, ja siellä on suuri satama sekä vanha luostari.', 'Finnish'),
        ('Şehir, ülkenin en eski limanlarından biri olan limanı ve deniz kıyısında süren şenlikleri ile tanınır.', 'common English'),
        ('Город известен своим портом.', 'Cyrillic'),
        ('東京は日本の首都です。人口は多い。', 'Chinese or Japanese'),
        ('المدينة معروفة بمينائها القديم.', 'Arabic'),
    ],
)
def test_other_languages_are_named(text, said):
    assert said in language_warning(text)


@pytest.mark.parametrize('text', ['', '12 345', 'Paris Hilton', 'The town has a port.',
                                  'St. Étienne and Łódź are towns that lie far from one another in Europe.'])
def test_english_and_short_texts_pass(text):
    assert language_warning(text) is None


def test_english_wikipedia_passes():
    real_data('xquad')
    pages = json.loads((Path(os.environ['FACTLAB_DATA'])/'xquad'/'xquad.en.json').read_text())['data']
    assert not [text for page in pages for paragraph in page['paragraphs'] if language_warning(text := paragraph['context'])]


def test_english_is_never_taken_for_another_language():
    sample = load_oasis_sample()
    texts = [*sample['passage'], *sample['factual'], *sample['unfactual'], *sample['page_passages'].explode().drop_nulls()]
    assert len(texts) > 100 and not [text for text in texts if language_warning(text)]


def test_english_biographies_pass():
    real_data('factscore')
    texts = data.load('factscore')['text'].unique().to_list()
    assert len(texts) > 300 and not [text for text in texts if 'looks like' in (language_warning(text) or '')]


ENGLISH = ('The bridge was opened in 1902 and carries two lanes of traffic across the river. It was designed by an engineer from '
           'the north. ')


@pytest.mark.parametrize(('part', 'said'), [
    ('Die Brücke wurde nach dem Krieg wieder aufgebaut, und sie verbindet seitdem die beiden Ufer des Flusses, an dem auch das alte '
     'Rathaus steht, das von der Stadt gekauft wurde und nicht mehr als Amt dient.', 'a part of the text looks like German'),
    ('Le pont a été construit après la guerre par des ouvriers qui venaient de la région, et il relie les deux rives du fleuve, sur lequel '
     'on ne voit plus de bateaux depuis que le port est fermé.', 'a part of the text looks like French'),
    ('桥于一九〇二年通车，横跨河流，有两条车道。它由一位来自北方的工程师设计，'
     '他还建造了车站和市场大厅，如今桥已关闭，人们只能乘船过河。', 'Chinese or Japanese'),
])
def test_a_part_in_another_language_is_named(part, said):
    assert language_warning(ENGLISH) is None
    for text in (ENGLISH*3 + part, part + ENGLISH*3): assert said in language_warning(text)


def test_a_name_in_another_script_is_no_part():
    assert language_warning('Pyotr Tchaikovsky (Пётр Ильич Чайковский) was a composer of the romantic period.') is None


def test_english_sets_have_no_part_in_another_language():
    real_data('fm2')
    from factlab.training.verifier_bench import bench_pairs
    pairs = [bench_pairs(name, 3000, 0).select('evidence', 'claim') for name in ('fm2', 'climate-fever')]
    texts = {text for frame in pairs for row in frame.iter_rows() for text in row}
    assert len(texts) > 5000 and not [text for text in texts if 'a part' in (said := language_warning(text) or '') or 'letters' in said]
