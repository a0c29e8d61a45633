"FINAL's tables of localization methods, made of a study that a test holds."
import polars as pl

from factlab.runs.plan import Plan
from factlab.studies.final.localization import localization_cells
from factlab.studies.final.study import METHODS, Study, table_entries


def cells_of(study: Study, models: list[str], methods=tuple(METHODS), few: int|None = None) -> pl.DataFrame:
    entries, notes = table_entries(study, models, methods, few)
    plan = Plan('final/table4', {'prompts': study.prompts, 'seed': study.seed}, entries, notes)
    return localization_cells(plan, study.done(plan.steps))
