"""The base of all papers' plans: checked settings, what they share, and the manifest of a plan."""
import json
from dataclasses import dataclass, replace

import altair as alt
import pytest

from factlab.core.core import UsageError
from factlab.data.datasets import load
from factlab.localization.methods import Binary
from factlab.models.interface import ScriptedModel
from factlab.reports.exhibits import make_cells
from factlab.runs.plan import Entry, Plan, Rows, Step, execute
from factlab.studies.base import Settings, check_models, check_whole_number, write_plan
from factlab.studies.facts.study import Settings as Facts
from factlab.studies.fhsum.study import Settings as Fhsum
from factlab.studies.final.study import Settings as Final
from factlab.studies.oasis.study import Settings as Oasis

# ---- settings --------------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('kind', [Settings, Oasis, Final, Facts, Fhsum])
@pytest.mark.parametrize('wrong', [{'limit': 0}, {'limit': True}, {'limit': 2.0}, {'limit': '3'}, {'seed': -1}, {'seed': None}])
def test_whole_numbers_of_all_papers(kind, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))): kind(**wrong)


@pytest.mark.parametrize('kind, wrong', [
    (Final, {'repeat': -1}), (Final, {'repeat': None}), (Oasis, {'k': 0}), (Oasis, {'k': None})])
def test_whole_numbers_of_one_paper(kind, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))): kind(**wrong)


def test_what_a_check_lets_pass():
    assert check_whole_number('limit', None, 1, optional=True) is None and check_whole_number('seed', 0, 0) is None
    with pytest.raises(UsageError, match='1 or more, or None, not 0'): check_whole_number('limit', 0, 1, optional=True)
    assert check_models('tiny') == ['tiny'] and check_models(['a', 'b', 'a']) == ['a', 'b']
    for none in ([], ''.split()):
        with pytest.raises(UsageError, match='models is empty'): check_models(none)


def test_settings_are_a_value_and_share_what_they_loaded():
    settings = Settings(limit=3)
    other = replace(settings, limit=5)
    made = settings.hold(('part', 'a'), object)
    assert other.hold(('part', 'a'), object) is made and settings == Settings(limit=3) != other
    with pytest.raises(AttributeError): settings.limit = 4


# ---- the manifest ----------------------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Consistency(Settings):
    "Which summaries are consistent, as a scripted model says?"
    strict: bool = False

    @property
    def rows(self) -> Rows: return Rows(self.data, load(self.data).head(self.limit))


def test_a_model_that_a_path_names_is_written_by_its_folders_name(tmp_path):
    "On the user's screen its name is whole; what is written has no path, and tells two folders of one name apart."
    names = []
    for folder in ('mine/my model', 'yours/my model'):
        (tmp_path/folder).mkdir(parents=True)
        names.append(f'hf:{tmp_path/folder}?dtype=float32')
    models = {name: ScriptedModel(name, lambda request: 'yes', revision=name[-30:]) for name in names}
    rows = Consistency(limit=2).rows
    plan = Plan('final/table4', {'models': names, 'judge': f'{names[0]}&x={tmp_path}'},
                tuple(Entry('Binary', name, Step(Binary(), rows, models[name])) for name in names))
    done = execute(plan, store=False, folder=tmp_path/'runs')
    cells = make_cells('final/table4', [{'row': 'Binary', 'column': f'{name} F1', 'model': name, 'measured': 1., 'status': 'measured'}
                                        for name in names])
    chart = alt.Chart(cells.select('model', 'measured')).mark_bar().encode(x='measured:Q', y='model:N').properties(title=names[0])
    result = write_plan(plan, done, cells, chart=chart, out=tmp_path/'out')
    assert result.cells['model'].to_list() == names and plan.parameters['models'] == names
    written = [path for path in (tmp_path/'out').rglob('*') if path.suffix in ('.csv', '.json', '.svg', '.md')]
    assert len(written) == 4 and not [path for path in written if str(tmp_path) in path.read_text()]
    about = json.loads((tmp_path/'out'/'final'/'table4.json').read_text())
    assert {*about['models']} == {*about['parameters']['models']} == {'hf:my model?dtype=float32', 'hf:mine/my model?dtype=float32'}


def test_the_manifest_names_all_that_was_used_and_no_path(home, tmp_path):
    model = ScriptedModel('scripted', lambda request: 'Final answer: no', revision='1')
    settings = Consistency(limit=3, loaded={'scripted': model})
    step = Step(Binary(), settings.rows, settings.model('scripted'))
    files = {name: str(tmp_path/f'{name}.jsonl') for name in ('data', 'labels', 'known', 'questions', 'knowledge', 'responses', 'corpus')}
    parameters = {'models': ['scripted'], **files, 'limit': 3}
    plan = Plan('final/table8', parameters, (Entry('Binary', 'scripted', step),))
    done = execute(plan, store=False)
    cells = make_cells('final/table8', [{'row': 'a', 'column': 'F1', 'measured': .5, 'n': 3, 'status': 'measured'}])
    manifest = write_plan(plan, done, cells, out=tmp_path, chosen='x').manifest
    assert manifest['plan'] == plan.digest and manifest['chosen'] == 'x'
    assert manifest['parameters'] == parameters | {name: f'{name}.jsonl' for name in files}
    assert manifest['models'] == {'scripted': model.identity} and list(manifest['prompts']) == ['final/binary@2', 'final/say@1']
    assert manifest['failed'] == 0 and json.loads(json.dumps(manifest)) == manifest and str(tmp_path) not in json.dumps(manifest)
