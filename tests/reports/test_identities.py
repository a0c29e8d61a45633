"""What committed results rest on: the weights that ship, in which precision they were run, and on what kind of processor."""
import json
from collections.abc import Iterator

import pytest

from factlab.core.core import project_dir
from factlab.models.adapters import TRAINED_PARTS, find_adapter
from factlab.models.weights import weights_of
from factlab.reports.exhibits import computed_here
from factlab.reports.reproduce import stale_results

FOLDER = project_dir()/'figures'
MEASURED = {path.relative_to(FOLDER).with_suffix('').as_posix(): manifest for path in sorted(FOLDER.glob('*/*.json'))
            if path.parent.name != 'tour' and (manifest := json.loads(path.read_text(encoding='utf-8')))['status'] == 'measured'}
NO_MODEL = {  # measured, and by whom
    'facts/fig1': 'requests of the sample, counted', 'fhsum/fig8': 'a classifier of how entities are written',
    'fhsum/table1.xent': 'the same classifier'}


def entries(part, name: str) -> Iterator:
    "Every entry of that name, but for what a part was fitted on."
    if isinstance(part, dict):
        if name in part: yield part[name]
        for key, value in part.items():
            if key != 'fitted_on': yield from entries(value, name)
    elif isinstance(part, list):
        for each in part: yield from entries(each, name)


@pytest.mark.parametrize('result', MEASURED)
def test_a_result_that_a_model_computed_says_in_which_precision_and_on_which_processor(result):
    manifest = MEASURED[result]
    computed = set(entries(manifest, 'dtype')) & {'float32', 'bfloat16', 'float16'}
    assert bool(computed) == ('processor' in manifest) == (result not in NO_MODEL), f'{computed}, {manifest.get("processor")}'


def test_results_rest_on_the_weights_that_ship_or_that_are_fetched_by_name():
    "But for those of another plan than today's, which `factlab reproduce --stale` names."
    stale = {f'{id}.{data}' if data else id for id, data, _ in stale_results()}
    adapters = {find_adapter(name).digest for name in TRAINED_PARTS}
    known = {f'gguf:{digest}' for digest in (weights_of('tiny').sha256, *(file.sha256 for file in weights_of('small').files))}
    for result, manifest in MEASURED.items():
        assert result in stale or set(entries(manifest, 'adapter')) <= adapters, result
        assert {each for each in entries(manifest, 'weights') if each.startswith('gguf:')} <= known, result


def test_where_a_part_was_fitted_is_not_where_a_result_was_computed():
    fitted = {'fitted_on': {'verifier': {'backend': 'nli', 'dtype': 'bfloat16'}}}
    assert not computed_here({'offline': {'embedded': fitted}})
    assert computed_here({'offline': {'embedded': fitted | {'verifier': {'backend': 'nli', 'dtype': 'float32'}}}})
