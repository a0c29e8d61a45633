"""FHSumBench: curves over the size of the model."""
import polars as pl
import pytest

from factlab.core.core import DataError, UsageError
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import execute
from factlab.studies.fhsum.measured import size_cells, table6_cells
from factlab.studies.fhsum.size_curves import curve_cells, read_sizes, size_curves, size_of, table_curves
from factlab.studies.fhsum.study import sizes_plan, table_plan


def test_curves():
    curves = size_curves(curve_cells())
    assert len(curves) == 35 and curves['series'].n_unique() == 5
    assert curves['x'].unique().sort().to_list() == [.5, 1.5, 3, 7, 14, 32, 72]
    assert curves.filter(pl.col('recomputed').is_not_null()).select('series', 'x').rows() == [('ICL', 32.0)]
    with pytest.raises(DataError, match='does not say its size'): size_curves(curve_cells().with_columns(model=pl.lit('a model')))


def test_measured_models_of_given_sizes_stand_beside_the_printed_curves():
    said = '{"Faithfulness": true, "Factuality": true}'
    loaded = {name: ScriptedModel(name, lambda request: said, f'size {name}') for name in ('a', 'b')}
    plan = sizes_plan(sizes=['a=0.5', 'b=70'], limit=3, loaded=loaded)
    assert {entry.model for entry in plan.entries} == {'a', 'b'} and len(plan.entries) == 10
    cells = size_cells(plan, execute(plan, store=False))
    curves = size_curves(cells, read_sizes(['a=0.5', 'b=70']))
    measured = curves.filter(pl.col('measured').is_not_null())
    assert set(measured['x']) == {.5, 70} and set(measured['series']) == set(curve_cells()['method'])
    assert curves.drop('measured').filter(pl.col('published').is_not_null()).height == curve_cells().height
    nothing = sizes_plan()
    assert not nothing.entries and size_cells(nothing, execute(nothing)).equals(curve_cells())


@pytest.mark.parametrize('written', ['tiny', 'tiny=', '=3', 'tiny=0', 'tiny=B'])
def test_a_model_without_a_size_is_refused(written):
    with pytest.raises(UsageError, match='billions of parameters'): sizes_plan(sizes=[written])


def test_table_7_has_a_curve_of_each_method_and_models_whose_size_is_known():
    loaded = {name: ScriptedModel(name, lambda request: '{"Faithfulness": true, "Factuality": true}', f'table 7 {name}')
              for name in ('own-3B-chat', 'nameless')}
    plan = table_plan('fhsum/table7', models=[*loaded], families=['judges'], limit=3, loaded=loaded)
    curves = table_curves(table6_cells(plan, execute(plan, store=False)))
    printed, measured = (curves.filter(pl.col(name).is_not_null()) for name in ('published', 'measured'))
    assert printed.height == 42 and printed['series'].n_unique() == 6
    assert sorted(measured.select('series', 'x').rows()) == [('CoT', 3.), ('ICL', 3.), ('Vanilla Judge', 3.)]


@pytest.mark.parametrize('name, size', [
    ('vllm:Qwen/Qwen2.5-72B-Instruct?tensor_parallel_size=4', 72), ('openai:qwen2.5-0.5b?base_url=http://7B', .5), ('tiny', .135),
    ('meta-llama/Llama-3.3-70B-Instruct', 70), ('openai:gpt-4o', None), ('Verifier', None), ('openai:model-8bit', None)])
def test_a_size_is_read_off_a_name(name, size): assert size_of(name) == size
