"""The authors' sets, each by itself: files of their form, of which the four know different numbers of pages."""
import warnings

import polars as pl
import pytest

from factlab.building.training_views import training_data
from factlab.data import datasets as data
from factlab.data.corpora import EXTRACTION, load_oasis_data, load_oasis_sample
from factlab.studies.oasis.data_sets import load_oasis_sets, measured_sizes
from factlab.studies.oasis.study import extraction_plan, extraction_texts
from factlab.training.extractor import claim_texts
from factlab.training.named_extractor import passage_examples

PAGES = [f'Grass {number}' for number in range(10)]
CLAIMS = [[f'{page} is a grass.', f'{page} grows.', f'{page} is old.'][:2 + at % 2] for at, page in enumerate(PAGES)]


@pytest.fixture
def published(tmp_path, monkeypatch):
    "Ten pages with claims, eight of them to train on; a falsified claim of six, a factual text of nine, an unfactual one of seven."
    columns = {'claim_extraction': {'text': [f'{page} is a grass. It grows.' for page in PAGES], 'claims': CLAIMS},
               'claim_falsification': {'factual_claim': [[one[0]] for one in CLAIMS[:6]],
                                       'unfactual_claim': [[f'{page} is a tree.'] for page in PAGES[:6]]},
               'paraphrase_generation': {'paraphrase': [f'{page}, a grass, grows.' for page in PAGES[:9]]},
               'unfactual_text_generation': {'unfactual_text': [f'{page}, a tree, grows.' for page in PAGES[:7]]}}
    for name, found in columns.items():
        frame = pl.DataFrame({'title': PAGES[:len(next(iter(found.values())))], **found}).with_row_index('at')
        folder = tmp_path/'oasis'/name/'data'
        folder.mkdir(parents=True)
        validation = pl.col('at').is_in([5, 9])
        frame.filter(~validation).drop('at').write_parquet(folder/'train-00000-of-00001.parquet')
        frame.filter(validation).drop('at').write_parquet(folder/'validation-00000-of-00001.parquet')
    monkeypatch.setenv('FACTLAB_DATA', str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of what the join drops
        yield tmp_path


def test_the_lines_of_table_2_are_counted_in_the_set_that_has_them(published):
    cells, about = measured_sizes('oasis')
    found = {(cell['row'], cell['column']): cell for cell in cells}
    counts = {place: cell['measured'] for place, cell in found.items() if not place[1].startswith('Avg.')}
    assert counts == {('Claim Extraction', 'Pages'): 10, ('Claim Extraction', 'Passages'): 10, ('Claim Extraction', 'Claims'): 25,
                      ('Claim Falsification', 'Unfactual Claims'): 6, ('Factual Text Generation', 'Factual Texts'): 9,
                      ('Unfactual Text Generation', 'Unfactual Texts'): 7}
    assert found['Claim Extraction', 'Avg. Claims per Passage']['measured'] == 2.5
    assert {place[0]: cell['n'] for place, cell in found.items() if place[0] != 'Claim Extraction'} == {
        'Claim Falsification': 6, 'Factual Text Generation': 9, 'Unfactual Text Generation': 7}
    assert {name: one['rows'] for name, one in about.items()} == {name: frame.height for name, frame in load_oasis_sets().items()}
    assert load_oasis_data('oasis').height == 6  # what the four have in common
    sample, about = measured_sizes('sample')
    assert {cell['column']: cell['measured'] for cell in sample}['Passages'] == load_oasis_sample().height == about['rows']


def test_the_extractor_learns_from_all_passages_with_claims(published):
    own = training_data('oasis')
    assert own.rows.height == 6 and EXTRACTION.check(own.extraction).height == 10
    assert own.extraction.group_by('split').len().sort('split').rows() == [('dev', 2), ('train', 8)]
    assert len(passage_examples(own)) == 8 and claim_texts(own).height == 2
    assert {example.group for example in passage_examples(own)} == {page for at, page in enumerate(PAGES) if at not in (5, 9)}
    assert training_data('sample').claims is None and training_data('sample').extraction.height == load_oasis_sample().height


def test_the_extractor_is_measured_on_the_held_out_passages_of_that_set(published):
    texts, split = extraction_texts('oasis')
    assert texts['group'].to_list() == [PAGES[5], PAGES[9]] and split == 'validation'
    assert extraction_plan(data='oasis', extractors=['sentences'], encoder=None).entries[0].step.rows.frame.height == 2
    assert data.load('oasis/claims', split='validation')['claims'].to_list() == [CLAIMS[5], CLAIMS[9]]
