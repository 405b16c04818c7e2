"""Results of many cells as one table: an axis down, an axis across, the mean over the others."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from moeopt import kinds
from moeopt.errors import Violations

AXES = ("policy", "shape", "loads", "seed")
METRICS = {
    "imbalance_mean": "max over mean GPU load, mean over layers",
    "imbalance_worst": "max over mean GPU load of the worst layer",
    "objective": "the objective",
    "lower_bound": "the bound that the policy proved itself",
    "gap": "gap to its own bound",
    "gap_worst": "gap of the worst layer to its own bound",
    "runtime_s": "seconds, as measured where it was run",
}
"""What cells can be compared by."""


@dataclass(frozen=True)
class Pivot:
    """A table of means; where one is over fewer cells than others, their number stands behind it.

    Parameters
    ----------
    rows, columns
        Axes, the second with ``""`` where all is one column.
    row_names, column_names
        In the order in which they were met.
    means, counts, spreads
        By row and column: the mean over cells that have the metric (None: none has), how many they are, and their
        standard deviation (None below two).
    missing
        Cells without the metric: what does not apply, does not fit or has no plan.
    """

    metric: str
    rows: str
    columns: str
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    means: tuple[tuple[float | None, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    spreads: tuple[tuple[float | None, ...], ...]
    missing: int

    def _lines(self) -> list[list[str]]:
        heads = [self.rows, *(name or self.metric for name in self.column_names)]
        most = max((count for row in self.counts for count in row), default=0)
        cells = [
            ["-" if mean is None else f"{mean:.6g}" + (f" ({count})" if count < most else "")
             for mean, count in zip(*pair, strict=True)]
            for pair in zip(self.means, self.counts, strict=True)
        ]  # fmt: skip
        return [heads, *([name, *row] for name, row in zip(self.row_names, cells, strict=True))]

    def as_text(self) -> str:
        """Columns for a terminal."""
        lines = self._lines()
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        made = []
        for line in lines:
            numbers = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
            made.append("  ".join([line[0].ljust(widths[0]), *numbers]).rstrip())
        return "\n".join(made)

    def as_markdown(self) -> str:
        """A table with what it shows above it."""
        heads, *rows = [[cell.replace("|", "\\|") for cell in line] for line in self._lines()]
        ruled = ["---", *["---:"] * (len(heads) - 1)]
        return "\n".join([self._said(), "", *("| " + " | ".join(line) + " |" for line in [heads, ruled, *rows]), ""])

    def as_tex(self) -> str:
        """A table for a paper."""
        from moeopt.report.as_tex import plain

        heads, *rows = [[plain(cell) for cell in line] for line in self._lines()]
        body = [" & ".join(row) + r" \\" for row in rows]
        begin = [f"% {self._said()}", f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\hline"]
        return "\n".join([*begin, " & ".join(heads) + r" \\", r"\hline", *body, r"\hline", r"\end{tabular}", ""])

    def as_csv(self) -> str:
        """A row a pair of values, in full precision."""
        buffer = StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow([self.rows, self.columns or "all", "metric", "mean", "standard_deviation", "cells"])
        for at, row in enumerate(self.row_names):
            for over, column in enumerate(self.column_names):
                figures = (self.means[at][over], self.spreads[at][over], self.counts[at][over])
                writer.writerow([row, column, self.metric, *figures])
        return buffer.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "metric": self.metric,
            "rows": {"axis": self.rows, "names": list(self.row_names)},
            "columns": {"axis": self.columns or None, "names": list(self.column_names)},
            "means": [list(row) for row in self.means],
            "standard_deviations": [list(row) for row in self.spreads],
            "cells": [list(row) for row in self.counts],
            "missing": self.missing,
        }

    def _said(self) -> str:
        without = f"; {self.missing} cells have none" if self.missing else ""
        return f"{self.metric}: {METRICS[self.metric]}; means over all other axes{without}."


@kinds.expects(documents=kinds.some, axes=kinds.some, metric=kinds.text)
def pivot(documents: Iterable[Mapping[str, Any]], axes: Sequence[str], metric: str) -> Pivot:
    """Means of a metric by one or two axes of `AXES`.

    `documents` are results of cells, as `read_cells` gives them; `metric` is a key of `METRICS`.

    Raises
    ------
    InstanceError
        No such axis or metric; no axis, more than two, or the same twice.

    >>> cells = [{"cell": {"policy": name, "seed": seed}, "gap": gap} for name, seed, gap in
    ...          [("lpt", 0, 0.2), ("lpt", 1, 0.4), ("search", 0, 0.1), ("search", 1, None)]]
    >>> found = pivot(cells, ["policy"], "gap")
    >>> [mean for (mean,) in found.means], found.counts, found.missing
    ([0.30000000000000004, 0.1], ((2,), (1,)), 1)
    """
    check = Violations()
    for axis in axes:
        if axis not in AXES:
            check.add("pivot", axis, rule="is no axis of a grid", fix=f"Known are {', '.join(AXES)}")
    if not 1 <= len(axes) <= 2 or len(set(axes)) < len(axes):
        check.add("pivot", ",".join(axes) or "''", rule="must be one axis or two", fix="Use policy,shape")
    if metric not in METRICS:
        check.add("metric", metric, rule="is no metric of a cell", fix=f"Known are {', '.join(METRICS)}")
    check.raise_if_any()
    rows, columns = axes[0], axes[1] if len(axes) == 2 else ""
    values: dict[tuple[str, str], list[float]] = {}
    missing = 0
    for document in documents:
        cell = document["cell"]
        held = values.setdefault((str(cell[rows]), str(cell[columns]) if columns else ""), [])
        value = document.get(metric)
        if value is None or document.get("remark"):
            missing += 1  # a plan that breaks a rule is none
        else:
            held.append(value)
    down, across = (tuple(dict.fromkeys(pair[at] for pair in values)) for at in (0, 1))
    table = [[values.get((row, column), []) for column in across] for row in down]
    return Pivot(
        metric, rows, columns, down, across,
        tuple(tuple(statistics.fmean(cell) if cell else None for cell in row) for row in table),
        tuple(tuple(len(cell) for cell in row) for row in table),
        tuple(tuple(statistics.stdev(cell) if len(cell) > 1 else None for cell in row) for row in table),
        missing,
    )  # fmt: skip
