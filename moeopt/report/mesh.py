"""The sheet of a mesh: what every method buys, what it serves, and the bound that none gets below."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report import frame, words
from moeopt.report import mesh_words as said
from moeopt.report.block import Block
from moeopt.report.frame import Column
from moeopt.report.mesh_rows import COLUMNS, numbers, pools_said, record, slowest
from moeopt.report.rows import RowFigures
from moeopt.report.sheet import Head, Sheet

if TYPE_CHECKING:
    from moeopt.mesh import MeshInstance
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
        topic="Parallel mesh",
        verdict=said.verdict(instance, comparison, rows),
        facts=said.facts(instance),
        notes=[*bought(comparison), *frame.notes(comparison)],
        footnotes=said.FOOTNOTES,
        closing=said.closing(instance),
        figures=partial(_figures, rows),
        columns=COLUMNS,
        records=[record(instance, comparison, row) for row in rows],
        document=frame.document(instance, comparison, rows, numbers, instance.to_dict()),
    )


def columns_of(instance: MeshInstance, comparison: Comparison, rows: list[RowFigures]) -> list[Column]:
    """The columns; a price where every type of GPU has one, times where a plan has any."""
    floor = comparison.lower_bound
    results = [row.result for row in rows if row.result is not None]
    unit = next((result.unit for result in results), instance.objective)
    places = words.decimals_for([result.objective for result in results] + [floor])
    most = 1 / floor if floor and instance.objective == "goodput" else None
    solved = [row.solution for row in rows if row.solution is not None]

    def amount(value: float | None) -> str:
        return words.seconds(value) if instance.objective == "time" else words.amount(value, places)

    def of(key: str, shown: Callable[[Any], str]) -> Callable[[Any], str]:
        return lambda row: shown(row.solution[key])

    def tokens(row: RowFigures) -> str:
        assert row.solution is not None
        return said.per_second(sum(one["output_tokens_per_s"] for one in row.solution["demands"]))

    def time(key: str) -> Callable[[Any], str]:
        return lambda row: words.seconds(slowest(row.solution, key))

    bound = "" if most is None else said.per_second(most)
    found: list[Column] = [
        (Head(f"Objective ({unit})"), lambda row: amount(row.result.objective), amount(floor)),
        (Head("Requests/s"), of("rate_per_s", said.per_second), bound),
        (Head("Output tokens/s"), tokens, ""),
        (Head("GPUs", "used"), of("total_gpus", lambda value: f"{value:,}"), ""),
    ]
    if any(one["idle_gpus"] for one in solved):
        found.append((Head("GPUs", "idle"), of("idle_gpus", lambda value: f"{sum(value.values()):,}"), ""))
    if any(one["price"] is not None for one in solved):
        found.append((Head("Price"), of("price", lambda value: f"{value:,.6g}"), ""))
    for key, name in (("ttft_s", "TTFT"), ("tpot_s", "TPOT")):
        if any(slowest(one, key) is not None for one in solved):
            found.append((Head("In the mean", name), time(key), ""))
    found.append((Head("Pools"), of("pools", lambda value: f"{len(value):,}"), ""))
    found.append((Head("Gap to best bound"), lambda row: words.percent(row.gap), ""))
    found.append((Head("Time"), lambda row: words.seconds(row.result.runtime_s), ""))
    return found


def bought(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """What is bought, with the methods that do."""
    found: dict[str, list[str]] = {}
    for row in comparison.rows:
        if row.result is not None and row.result.solution is not None:
            found.setdefault(pools_said(row.result.solution), []).append(row.method)
    return list(found.items())


def _figures(rows: list[RowFigures], prefix: str) -> list[Plot]:
    from moeopt.report.plots.mesh import pareto_plot

    best = frame.best_of(rows)
    if best is None or best.solution is None or not best.solution["pareto"]:
        return []
    return [pareto_plot(best.solution, f"{prefix}p")]
