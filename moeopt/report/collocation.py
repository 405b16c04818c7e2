"""The sheet of a collocation: lambda on the tokens planned for and on those held out, copies, seconds, gaps, plots."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report import collocation_words as said
from moeopt.report import frame, words
from moeopt.report.block import Block
from moeopt.report.collocation_rows import COLUMNS, numbers, record
from moeopt.report.frame import Column
from moeopt.report.rows import RowFigures
from moeopt.report.sheet import Head, Sheet

if TYPE_CHECKING:
    from moeopt.collocation import CollocationInstance
    from moeopt.report.plots.canvas import Plot


def sheet(block: Block) -> Sheet:
    """All that is said of it."""
    instance: Any = block.instance
    comparison = block.comparison
    rows = frame.layered(comparison, "objective")
    columns = columns_of(instance, comparison, rows)
    spark = [
        (row.method, [layer["lambda"] for layer in row.solution["layers"]]) for row in rows if row.solution is not None
    ]
    drawn = [value for _, values in spark for value in values]
    low, high = min(drawn, default=0.0), max(drawn, default=0.0)
    shown = f"Lambda of each layer in turn, from {words.ratio(low)} ({{low}}) to {words.ratio(high)} ({{high}}):"
    return frame.sheet_of(
        block,
        rows,
        columns,
        topic="Expert collocation",
        verdict=said.verdict(instance, comparison, rows),
        facts=said.facts(instance),
        footnotes=said.footnotes(instance),
        figures=partial(_figures, instance, rows),
        spark_said=shown,
        spark_low=low,
        spark=spark,
        columns=COLUMNS,
        records=[record(instance, comparison, row) for row in rows],
        document=frame.document(
            instance,
            comparison,
            rows,
            numbers,
            instance.to_dict(bulk=False),
            layers=frame.by_layer(instance, comparison),
        ),
    )


def columns_of(instance: CollocationInstance, comparison: Comparison, rows: list[RowFigures]) -> list[Column]:
    """Head, the cell of a row, and the cell of the bound."""
    from moeopt.collocation import describe

    unit = describe.unit(instance)
    floor = comparison.lower_bound
    solved = [row.solution for row in rows if row.solution is not None]
    merged = any(one["lambda_lower_bound"] is not None for one in solved)
    scored = any(one["lambda_held_out"] is not None for one in solved)
    linked = any("critical_path" in one for one in solved)
    least = max((one["lambda_lower_bound"] for one in solved if one["lambda_lower_bound"] is not None), default=None)
    places = words.decimals_for([row.result.objective for row in rows if row.result is not None] + [floor])

    def amount(value: float | None) -> str:
        return words.seconds(value) if unit == "s" else words.amount(value, places)

    def of(key: str) -> Any:
        return lambda row: words.ratio(row.solution[key])

    def worst_scored(row: RowFigures) -> str:
        assert row.solution is not None
        return words.ratio(max(layer["imbalance_held_out"] for layer in row.solution["layers"]))

    def path(key: str) -> Any:
        return lambda row: words.seconds(row.solution["critical_path"][key])

    found: list[Column] = [
        (
            Head("Objective" if unit == "s" else f"Objective ({unit})"),
            lambda row: amount(row.result.objective),
            amount(floor),
        )
    ]
    if merged:
        found.append((Head("Lambda", "fitted"), of("lambda"), words.ratio(least)))
        if scored:
            found.append((Head("Lambda", "held out"), of("lambda_held_out"), ""))
    found.append((Head("Copies a token" if instance.pairs is None else "Copies a pair"), of("copies_per_token"), ""))
    found.append((Head("Imbalance", "fitted" if scored else "worst"), of("imbalance"), ""))
    if scored:
        found.append((Head("Imbalance", "held out"), worst_scored, ""))
    if linked:
        found.append((Head("On the critical path", "no overlap"), path("no_overlap_s"), ""))
        found.append((Head("On the critical path", "overlap"), path("overlap_s"), ""))
    found.append((Head("Gap to best bound", "all"), lambda row: words.percent(row.gap), ""))
    found.append((Head("Gap to best bound", "worst layer"), lambda row: words.percent(row.gap_worst), ""))
    found.append((Head("Time"), lambda row: words.seconds(row.result.runtime_s), ""))
    return found


def _figures(instance: CollocationInstance, rows: list[RowFigures], prefix: str) -> list[Plot]:
    from moeopt.report.plots.collocation import traffic_plot
    from moeopt.report.plots.lambdas import lambda_plot

    best = frame.best_of(rows)
    drawn = [lambda_plot(rows, f"{prefix}l")]
    if best is not None and best.result is not None:
        drawn.append(traffic_plot(instance, best.result, f"{prefix}t"))
    return [plot for plot in drawn if plot is not None]
