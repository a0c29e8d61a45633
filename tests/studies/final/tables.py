"What a test wants to know of FINAL's steps and tables, carried out without a store."
from collections.abc import Iterable

import polars as pl

from factlab.runs.plan import Plan, Step, execute
from factlab.studies.final.localization import localization_cells, localization_counts
from factlab.studies.final.study import METHODS, TABLE_ROWS, Settings, choices, entry_of, matching, table_entries, verdict_step


def frame(step: Step) -> pl.DataFrame: return execute(step, store=False)[step]


def chosen(step: Step) -> dict: return choices(execute(step, store=False))


def predictions(settings: Settings, method: str, model: str) -> pl.DataFrame: return frame(TABLE_ROWS[method].step(settings, model))


def matches(settings: Settings, method: str, model: str) -> pl.DataFrame:
    return frame(matching(settings, TABLE_ROWS[method].step(settings, model)))


def verdicts(settings: Settings, first: str, model: str) -> pl.DataFrame: return frame(verdict_step(settings, first, model))


def counts_of(settings: Settings, model: str, methods: Iterable[str] = tuple(METHODS)) -> pl.DataFrame:
    entries = [entry_of(settings, method, model) for method in methods]
    return localization_counts(entries, execute(*[entry.step for entry in entries], store=False))


def cells_of(settings: Settings, models: list[str], methods=tuple(METHODS), few: int|None = None) -> pl.DataFrame:
    entries, notes = table_entries(settings, models, methods, few)
    plan = Plan('final/table4', {'prompts': settings.prompts, 'seed': settings.seed}, entries, notes)
    return localization_cells(plan, execute(plan, store=False))
