"""The sheet of a micro-batch instance: what every method cuts a step into, how long it takes, the bound, the plots."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report import frame, words
from moeopt.report import microbatch_words as said
from moeopt.report.block import Block
from moeopt.report.frame import Column
from moeopt.report.microbatch_rows import COLUMNS, numbers, record
from moeopt.report.rows import RowFigures
from moeopt.report.sheet import Head, Sheet
from moeopt.report.timeline import plural

if TYPE_CHECKING:
    from moeopt.microbatch import MicrobatchInstance
    from moeopt.report.plots.canvas import Plot


def sheet(block: Block) -> Sheet:
    """All that is said of it."""
    instance: Any = block.instance
    comparison = block.comparison
    rows = frame.figures_of(comparison)
    columns = columns_of(instance, comparison, rows)
    return frame.sheet_of(
        block,
        rows,
        columns,
        topic="Micro-batches",
        verdict=said.verdict(instance, comparison, rows),
        facts=said.facts(instance),
        footnotes=said.footnotes(instance),
        figures=partial(_figures, instance, rows),
        columns=COLUMNS,
        records=[record(instance, comparison, row) for row in rows],
        document=frame.document(instance, comparison, rows, numbers, instance.to_dict()),
    )


def columns_of(instance: MicrobatchInstance, comparison: Comparison, rows: list[RowFigures]) -> list[Column]:
    """The columns; times in one unit."""
    floor, noun = comparison.lower_bound, said.noun(instance)
    by_time = instance.objective == "time"
    solved = [row.solution for row in rows if row.solution is not None]
    unit = said.unit_for([one["time_s"] for one in solved])
    found: list[Column] = [
        (Head("m"), lambda row: f"{row.solution['m']:,}", ""),
        (Head("Batch"), lambda row: f"{row.solution['batch']:,}", ""),
        (
            Head(f"Step, {said.SHOWN.get(unit, unit)}"),
            lambda row: said.step(row.solution["time_s"], unit),
            _bound(floor, unit, by_time),
        ),
    ]
    if not by_time:
        small = said.unit_for([row.result.objective for row in rows if row.result is not None])
        cell = _bound(floor, small, True)
        found.append(
            (Head(f"{said.SHOWN.get(small, small)} a {noun}"), lambda row: said.step(row.result.objective, small), cell)
        )
    most = said.per_second(1 / floor) if floor and not by_time else ""
    found.append(
        (Head(f"{plural(noun, 2).capitalize()}/s"), lambda row: said.per_second(row.solution["throughput"]), most)
    )
    found.append((Head("Gap to best bound"), lambda row: words.percent(row.gap), ""))
    found.append((Head("Time"), lambda row: words.seconds(row.result.runtime_s), ""))
    return found


def _bound(floor: float | None, unit: str, shown: bool) -> str:
    return said.step(floor, unit) if shown and floor is not None else ""


def _figures(instance: MicrobatchInstance, rows: list[RowFigures], prefix: str) -> list[Plot]:
    from moeopt.report.plots.sweep import sweep_plot
    from moeopt.report.plots.timeline import timeline_plot

    best = frame.best_of(rows)
    if best is None or best.solution is None:
        return []
    drawn = [timeline_plot(best.solution, f"{prefix}t", said.unit_for([best.solution["time_s"]]))]
    sweep = sweep_plot(instance, best.solution, f"{prefix}s")
    return drawn if sweep is None else [*drawn, sweep]
