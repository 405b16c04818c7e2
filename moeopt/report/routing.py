"""The sheet of a routing: what every split costs, the bound that no dispatch rule gets below, and the plots."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report import frame, words
from moeopt.report import routing_words as said
from moeopt.report.block import Block
from moeopt.report.frame import Column
from moeopt.report.routing_rows import COLUMNS, numbers, record
from moeopt.report.rows import RowFigures
from moeopt.report.sheet import Head, Sheet

if TYPE_CHECKING:
    from moeopt.report.plots.canvas import Plot
    from moeopt.routing import RoutingInstance


def sheet(block: Block) -> Sheet:
    """All that is said of it."""
    instance: Any = block.instance
    comparison = block.comparison
    rows = frame.layered(comparison, "max_load")
    columns = columns_of(instance, comparison, rows)
    spark = [
        (row.method, [layer["imbalance"] for layer in row.solution["layers"]])
        for row in rows
        if row.solution is not None
    ]
    high = max((value for _, values in spark for value in values), default=1.0)
    return frame.sheet_of(
        block,
        rows,
        columns,
        topic="Routing",
        verdict=said.verdict(instance, comparison, rows),
        facts=said.facts(instance),
        footnotes=said.footnotes(instance),
        figures=partial(_figures, instance, rows),
        spark_said=f"Imbalance of each layer in turn, from 1.0000 ({{low}}) to {words.ratio(high)} ({{high}}):",
        spark_low=1.0,
        spark=spark,
        columns=COLUMNS,
        records=[record(instance, comparison, row) for row in rows],
        document=frame.document(
            instance,
            comparison,
            rows,
            numbers,
            instance.to_dict(),
            layers=frame.by_layer(instance, comparison),
        ),
    )


def columns_of(instance: RoutingInstance, comparison: Comparison, rows: list[RowFigures]) -> list[Column]:
    """The columns; tokens that stay on their node where there are several."""
    floor = comparison.lower_bound
    places = words.decimals_for([row.result.objective for row in rows if row.result is not None] + [floor])
    least = _least(comparison, rows)
    found: list[Column] = [
        (
            Head("Objective (tokens)"),
            lambda row: words.amount(row.result.objective, places),
            words.amount(floor, places),
        ),
        (
            Head("Imbalance", "mean"),
            lambda row: words.ratio(row.solution["imbalance_mean"]),
            words.ratio(sum(least) / len(least)) if least else "",
        ),
        (
            Head("Imbalance", "worst"),
            lambda row: words.ratio(max(layer["imbalance"] for layer in row.solution["layers"])),
            words.ratio(max(least)) if least else "",
        ),
    ]
    if len(set(instance.node)) > 1:
        found.append((Head("Stay on their node"), lambda row: words.percent(row.solution["local_share"]), ""))
    found.append((Head("Gap to best bound", "all"), lambda row: words.percent(row.gap), ""))
    found.append((Head("Gap to best bound", "worst layer"), lambda row: words.percent(row.gap_worst), ""))
    found.append((Head("Time"), lambda row: words.seconds(row.result.runtime_s), ""))
    return found


def _least(comparison: Comparison, rows: list[RowFigures]) -> list[float]:
    """The imbalance of each layer that no split gets below."""
    solution = next((row.solution for row in rows if row.solution is not None), None)
    if solution is None:
        return []
    pairs = zip(frame.floors_of(comparison), solution["layers"], strict=True)
    return [floor / layer["ideal"] if layer["ideal"] else 1.0 for floor, layer in pairs]


def _figures(instance: RoutingInstance, rows: list[RowFigures], prefix: str) -> list[Plot]:
    from moeopt.report.plots.routing import layers_plot, loads_plot

    if frame.best_of(rows) is None:
        return []
    drawn = [loads_plot(instance, rows, f"{prefix}g"), layers_plot(instance, rows, f"{prefix}l")]
    return [plot for plot in drawn if plot is not None]
