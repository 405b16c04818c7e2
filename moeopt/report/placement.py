"""The sheet of a placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.report import table, words
from moeopt.report.block import Block
from moeopt.report.placement_records import COLUMNS, document, record
from moeopt.report.sheet import Head, Sheet
from moeopt.report.summary import NEAR_GAP, Summary, summarise

if TYPE_CHECKING:
    from moeopt.report.plots.canvas import Plot


def sheet(block: Block) -> Sheet:
    """All that is said of it."""
    summary = summarise(block)
    versions: dict[str, str] = {}
    for row in summary.rows:
        for package, version in row.result.versions.items() if row.result is not None else ():
            versions.setdefault(package, version)

    def figures(prefix: str) -> list[Plot]:
        return _figures(summary, prefix)

    spark = [(row.method, row.imbalance.tolist()) for row in summary.rows if row.imbalance is not None]
    low, high = 1.0, max((max(values) for _, values in spark), default=1.0)
    said = f"Imbalance of each layer in turn, from {words.ratio(low)} ({{low}}) to {words.ratio(high)} ({{high}}):"
    return Sheet(
        topic="Expert placement",
        name=summary.name,
        verdict=words.verdict(summary),
        facts=words.facts(summary.instance),
        heads=[Head(column.group, column.head, aside=column.aside) for column in table.columns(summary)],
        lines=table.lines(summary),
        notes=table.notes(summary),
        footnotes=table.FOOTNOTES,
        closing=table.LIKE_NAMED,
        figures=figures,
        spark_said=said,
        spark_low=low,
        spark=spark,
        versions=versions,
        columns=COLUMNS,
        records=[record(summary, row) for row in summary.rows],
        document=document(summary),
        common={"near_gap": NEAR_GAP},
    )


def _figures(summary: Summary, prefix: str) -> list[Plot]:
    from moeopt.report.plots.gaps import gap_plot
    from moeopt.report.plots.heat import heat_map
    from moeopt.report.plots.replicas import replica_plot

    drawn = [(draw(summary, f"{prefix}{key}")) for key, draw in (("h", heat_map), ("g", gap_plot), ("r", replica_plot))]
    return [plot for plot in drawn if plot is not None]
