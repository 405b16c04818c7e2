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
        lines.append(Line(kind, row, tuple(words.NONE if text == "-" else text + after for text, after in cells)))
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
        notes=[(f"{words.count(times, 'cell')}: {reason}", []) for reason, times in pivot.reasons],
        footnotes=[(pivot.metric, pivot.said), ("(n)", "cells that the mean is over, where others are over more")],
        closing="Means hide what single cells show: --metric gap_worst and the file of each cell have that.",
        figures=partial(_figures, pivot),
        versions={},
        columns=(),
        records=(),
        document=pivot.to_dict(),
    )


def _cells(pivot: Pivot) -> str:
    there = sum(map(sum, pivot.counts))
    return f"{there:,} of {there + pivot.missing:,} have it"


def _verdict(pivot: Pivot) -> list[Text]:
    """Which policy is least where, if policies are compared by something that is better the less it is."""
    best = written.best(pivot)
    names = pivot.row_names if pivot.rows == "policy" else pivot.column_names
    if not best:
        return [[f"{pivot.metric} of ", words.count(sum(map(sum, pivot.counts)), "cell"), "."]]
    place = 0 if pivot.rows == "policy" else 1
    settings = len({pair[1 - place] for pair in best})
    wins = [(sum(pair[place] == at for pair in best), name) for at, name in enumerate(names)]
    most = max(wins)[0]
    leaders = words.listed([name for won, name in wins if won == most])
    where = f" in {most} of {settings} columns" if place == 0 else f" in {most} of {settings} rows"
    said = f"{'has' if len(leaders) == 1 else 'have'} the least {pivot.metric}{where if settings > 1 else ''}"
    return [[*leaders, f" {said}."]]


def _figures(pivot: Pivot, prefix: str) -> list[Plot]:
    from moeopt.report.plots.grid import grid_plot

    return [grid_plot(pivot, f"{prefix}g")] if any(map(sum, pivot.counts)) else []
