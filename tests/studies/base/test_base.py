"""The base of all papers' studies: checked settings, a memo that a study with other settings does not inherit, dry runs, the manifest."""
import json
from dataclasses import dataclass, replace

import polars as pl
import pytest

from factlab.core.core import UsageError
from factlab.data.datasets import load
from factlab.localization.methods import Binary
from factlab.models.dry_run import DryRun, estimate_of
from factlab.models.interface import ScriptedModel
from factlab.reports.exhibits import make_cells
from factlab.studies.base import Study, check_models, check_whole_number, write_study
from factlab.studies.final.study import Settings as FinalSettings
from factlab.studies.oasis.study import Study as OasisStudy


@dataclass
class Consistency(Study):
    "Which summaries are consistent, as a scripted model says?"
    strict: bool = False

    PARAMETERS = (*Study.PARAMETERS, 'strict')

    def verdicts(self, label='test/binary'):
        rows = load(self.data).head(self.limit)
        return self.once(('run', label), lambda: self.run(rows, Binary(), 'scripted', label, seed=self.seed)).predictions


@pytest.fixture
def study(monkeypatch, tmp_path):
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path))
    model = ScriptedModel('scripted', lambda request: 'Final answer: no', revision='1')
    return Consistency(limit=3, store=False, loaded={'scripted': model})


# ---- settings --------------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('kind', [Study, FinalSettings, OasisStudy])
@pytest.mark.parametrize('wrong', [{'limit': 0}, {'limit': True}, {'limit': 2.0}, {'limit': '3'}, {'seed': -1}, {'seed': None}])
def test_whole_numbers_of_all_studies(kind, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))): kind(**wrong)


@pytest.mark.parametrize('kind, wrong', [
    (FinalSettings, {'repeat': -1}), (FinalSettings, {'repeat': None}), (OasisStudy, {'k': 0}), (OasisStudy, {'k': None})])
def test_whole_numbers_of_one_study(kind, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))): kind(**wrong)


def test_what_a_check_lets_pass():
    assert check_whole_number('limit', None, 1, optional=True) is None and check_whole_number('seed', 0, 0) is None
    with pytest.raises(UsageError, match='1 or more, or None, not 0'): check_whole_number('limit', 0, 1, optional=True)
    assert check_models('tiny') == ['tiny'] and check_models(['a', 'b', 'a']) == ['a', 'b']
    for none in ([], ''.split()):
        with pytest.raises(UsageError, match='models is empty'): check_models(none)


# ---- the memo --------------------------------------------------------------------------------------------------------------------------

def test_a_study_computes_once(study):
    assert study.verdicts() is study.verdicts() and len(study.loaded['scripted'].asked) == 3


@pytest.mark.parametrize('changes', [{'limit': 5}, {'strict': True}, {}])
def test_a_study_with_other_settings_inherits_nothing(study, changes):
    kept = study.verdicts()
    other = replace(study, **changes)
    assert other.verdicts() is not kept and other.verdicts().height == changes.get('limit', 3)
    assert other.used is not study.used and study.verdicts() is kept and study.verdicts().height == 3


def test_a_study_shares_what_it_names(study):
    kept = study.verdicts()
    study.once(('other',), lambda: 1)
    shared = study.sharing(['run'], strict=True)
    assert shared.verdicts() is kept and shared.strict and not study.strict and shared.used is study.used
    assert shared.once(('other',), lambda: 2) == 2 and study.once(('other',), lambda: 3) == 1
    shared.once(('run', 'later'), lambda: 4)
    assert study.once(('run', 'later'), lambda: 5) == 5  # what comes later is each study's own


# ---- dry runs --------------------------------------------------------------------------------------------------------------------------

def test_a_dry_run_counts_once_and_asks_nothing(study, monkeypatch, tmp_path):
    monkeypatch.setenv('FACTLAB_DRY_RUN', str(tmp_path/'dry'))
    with DryRun() as dry:
        for again in (study, replace(study)): assert again.verdicts()['inconsistent'].all()  # as the example answer says
    assert not study.loaded['scripted'].asked
    assert estimate_of(dry).select('model', 'label', 'calls').rows() == [('scripted', 'final/binary', 3)]
    cells = make_cells('final/table8', [{'row': 'a', 'column': 'F1', 'measured': .5, 'n': 3, 'status': 'measured'}])
    assert write_study(study, 'final/table8', cells, out=tmp_path).files == ()
    size, = (tmp_path/'dry'/'sizes').iterdir()
    assert json.loads(size.read_text()) == {'exhibit': 'final/table8', 'n': 3}
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == []


# ---- the manifest ----------------------------------------------------------------------------------------------------------------------

def test_the_manifest_names_all_that_was_used(study):
    study.verdicts()
    manifest = study.manifest(['scripted'])
    assert list(manifest) == ['parameters', 'models', 'prompts', 'second_asking', 'failed']
    assert manifest['parameters'] == {
        'models': ['scripted'], 'data': 'sample', 'limit': 3, 'seed': 0, 'retry_unparsed': True, 'strict': False}
    assert manifest['models'] == {'scripted': study.loaded['scripted'].identity}
    assert list(manifest['prompts']) == ['final/binary@1', 'final/say@1']
    assert json.loads(json.dumps(manifest)) == manifest and 'loaded' not in json.dumps(manifest)


def test_failed_requests_and_second_answers_are_counted(study):
    study.note_failed(pl.Series(['ok', 'failed', 'unparsed', 'failed']))
    study.note_second('m', 'test/a', pl.Series(['read at the second asking; but', '', None]))
    study.note_second('m', 'test/b', pl.Series(['', None], dtype=pl.String))
    assert study.used['failed'] == 2 and study.used['second_asking'] == {'m': {'test/a': 1}}


def test_the_entries_of_the_papers_manifests():
    oasis = OasisStudy(limit=2).manifest(['m'])
    assert list(oasis) == ['parameters', 'data', 'models', 'parts', 'prompts', 'rows_are', 'second_asking', 'failed']
    assert list(oasis['parameters']) == [
        'models', 'data', 'limit', 'seed', 'temperature', 'k', 'extractor', 'retriever', 'verifier', 'retry_unparsed']
    assert list(oasis['data']) == ['split', 'texts', 'claims', 'passages', 'fingerprint'] and oasis['data']['texts'] == 2
