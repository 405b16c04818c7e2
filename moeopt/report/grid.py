"""The sheet of a grid: one metric of its cells as a table and a picture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from moeopt.bench import written
from moeopt.bench.tables import Pivot
from moeopt.report import words
from moeopt.report.sheet import Head, Line, Sheet, Text

if TYPE_CHECKING:
    from moeopt.report.plots.canvas import Plot

TOPICS = {"policy": "Policies", "shape": "Shapes", "loads": "Loads", "seed": "Seeds"}


def sheet(pivot: Pivot, name: str) -> Sheet:
    """All that is said of it."""
    best = written.best(pivot)
    lines = []
    for at, (row, cells) in enumerate(zip(pivot.row_names, written.cells(pivot), strict=True)):
        known = {(at, over) for over, mean in enumerate(pivot.means[at]) if mean is not None}
        if not known:
            lines.append(Line("none", row, (), "no cell of it has this metric"))
            continue
        kind = "best" if pivot.rows == "policy" and known <= best and len(known) == len(cells) else "plan"
        marks = ["" if kind == "best" else " *" * ((at, over) in best) for over in range(len(cells))]
        shown = [
            words.NONE if text == "-" else text + after + mark for (text, after), mark in zip(cells, marks, strict=True)
        ]
        lines.append(Line(kind, row, tuple(shown)))
    over = " and ".join(axis for axis in (pivot.rows, pivot.columns) if axis)
    return Sheet(
        topic=TOPICS[pivot.rows],
        name=name,
        first=pivot.rows,
        caption=f"{pivot.metric} by {over}, means over all else",
        verdict=_verdict(pivot),
        facts=[("Metric", f"{pivot.metric}: {pivot.said}"), ("Cells", _cells(pivot))],
        heads=[Head(pivot.columns, head) if pivot.columns else Head(head) for head in written.heads(pivot)[1:]],
        lines=lines,
        notes=[(reason, []) for reason in written.reasons(pivot)],
        footnotes=_footnotes(pivot, starred=any(cell.endswith(" *") for line in lines for cell in line.cells)),
        closing="Means hide what single cells show: --metric gap_worst and the file of each cell have that.",
        figures=partial(_figures, pivot),
        versions={},
        columns=(),
        records=(),
        document=pivot.to_dict(),
    )


def _footnotes(pivot: Pivot, *, starred: bool) -> list[tuple[str, str]]:
    most = max((count for row in pivot.counts for count in row), default=0)
    found = [(pivot.metric, pivot.said)]
    if any(0 < count < most for row in pivot.counts for count in row):
        found.append(("(n)", "cells that the mean is over, where others are over more: it is not compared with those"))
    if starred:
        setting = "column" if pivot.rows == "policy" else "row"
        found.append(("*", f"the least of its {setting}, of those that are over all its cells"))
    return found


def _cells(pivot: Pivot) -> str:
    there = sum(map(sum, pivot.counts))
    return f"{there:,} of {there + pivot.missing:,} have it"


def _verdict(pivot: Pivot) -> list[Text]:
    """Which policy is least where, if policies are compared by something that is better the less it is."""
    best = written.best(pivot)
    down = pivot.rows == "policy"
    names, settings = pivot.row_names, pivot.column_names
    if not down:
        names, settings = settings, names
    cells = sum(map(sum, pivot.counts))
    if not best:
        return [[f"{words.count(cells, 'cell')} of {cells + pivot.missing:,} have {pivot.metric}."]]
    wins = [(sum(pair[0 if down else 1] == at for pair in best), name) for at, name in enumerate(names)]
    most = max(wins)[0]
    leaders = [name for won, name in wins if won == most]
    several = len(leaders) > 1
    where = f" in {most} of {words.count(len(settings), 'column' if down else 'row')}" if len(settings) > 1 else ""
    said = f" {'have' if several else 'has'} the least {pivot.metric}{where}{' each' if several and where else ''}."
    return [[*words.listed(leaders), said]]


def _figures(pivot: Pivot, prefix: str) -> list[Plot]:
    from moeopt.report.plots.grid import grid_plot

    return [grid_plot(pivot, f"{prefix}g")] if any(map(sum, pivot.counts)) else []
