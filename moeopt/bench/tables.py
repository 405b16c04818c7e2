"""Results of many cells as one table: an axis down, an axis across, the mean over the others."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moeopt import kinds
from moeopt.bench import written
from moeopt.errors import Violations, did_you_mean
from moeopt.result import relative_gap

AXES = ("policy", "shape", "loads", "seed")
METRICS = {
    "imbalance_mean": "max over mean GPU load, mean over layers",
    "imbalance_worst": "max over mean GPU load of the worst layer",
    "objective": "the objective",
    "lower_bound": "the bound that the policy proved itself",
    "gap": "gap to the best bound that any policy proved for the same instance",
    "gap_worst": "gap of the worst layer to the policy's own bound",
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
    reasons
        Why cells have no result at all, each with how many, the most frequent first.
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
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def said(self) -> str:
        """What the metric is."""
        return METRICS[self.metric]

    def as_text(self) -> str:
        """Columns for a terminal."""
        return written.as_text(self)

    def as_markdown(self) -> str:
        """A table with what it shows above it."""
        return written.as_markdown(self)

    def as_tex(self) -> str:
        """A table for a paper."""
        return written.as_tex(self)

    def as_csv(self) -> str:
        """A row a pair of values, in full precision."""
        return written.as_csv(self)

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "metric": self.metric,
            "description": self.said,
            "rows": {"axis": self.rows, "names": list(self.row_names)},
            "columns": {"axis": self.columns or None, "names": list(self.column_names)},
            "means": [list(row) for row in self.means],
            "standard_deviations": [list(row) for row in self.spreads],
            "cells": [list(row) for row in self.counts],
            "missing": self.missing,
        }


def axes_of(text: str) -> list[str]:
    """Axes with commas between them, each by its name or by the key of a grid that has its values.

    >>> axes_of("policies, loads"), axes_of("policy,shape")
    (['policy', 'loads'], ['policy', 'shape'])
    """
    keys = {"policies": "policy", "shapes": "shape", "seeds": "seed"}
    return [keys.get(one.strip(), one.strip()) for one in text.split(",")]


@kinds.expects(documents=kinds.some, axes=kinds.some, metric=kinds.text)
def pivot(documents: Iterable[Mapping[str, Any]], axes: Sequence[str], metric: str) -> Pivot:
    """Means of a metric by one or two axes of `AXES`.

    `documents` are results of cells, as `read_cells` gives them; `metric` is a key of `METRICS`.

    Raises
    ------
    InstanceError
        No such axis or metric; no axis, more than two, or the same twice.

    Gaps are to the best bound of all `documents` of the same shape, loads and seed, as a comparison has them.

    >>> cells = [
    ...     {"cell": {"policy": name, "shape": "g", "loads": "z", "seed": seed}, "objective": top, "lower_bound": low}
    ...     for name, seed, top, low in [("lpt", 0, 10, 6), ("lpt", 1, 10, 5), ("search", 0, 8, 7.5)]
    ... ]
    >>> found = pivot(cells, ["policy"], "gap")
    >>> [mean for (mean,) in found.means], found.counts, found.missing
    ([0.375, 0.0625], ((2,), (1,)), 0)
    """
    check = Violations()
    for axis in axes:
        if axis not in AXES:
            fix = f"{did_you_mean(axis, AXES, most=1)} Known are {', '.join(AXES)}".lstrip()
            check.add("pivot", axis, rule="is no axis of a grid", fix=fix)
    if not 1 <= len(axes) <= 2 or len(set(axes)) < len(axes):
        check.add("pivot", ",".join(axes) or "''", rule="must be one axis or two", fix="Use policy,shape")
    if metric not in METRICS:
        check.add("metric", metric, rule="is no metric of a cell", fix=f"Known are {', '.join(METRICS)}")
    check.raise_if_any()
    rows, columns = axes[0], axes[1] if len(axes) == 2 else ""
    values: dict[tuple[str, str], list[float]] = {}
    missing = 0
    documents = list(documents)
    bounds = _bounds(documents)
    for document in documents:
        cell = document["cell"]
        held = values.setdefault((str(cell[rows]), str(cell[columns]) if columns else ""), [])
        value = _gap(document, bounds) if metric == "gap" else document.get(metric)
        if value is None or document.get("remark") or document.get("reason"):
            missing += 1  # a plan that breaks a rule is none, and what gave none has no time
        else:
            held.append(value)
    down, across = (tuple(dict.fromkeys(pair[at] for pair in values)) for at in (0, 1))
    table = [[values.get((row, column), []) for column in across] for row in down]
    return Pivot(
        metric, rows, columns, down, across,
        tuple(tuple(_mean(cell) if cell else None for cell in row) for row in table),
        tuple(tuple(len(cell) for cell in row) for row in table),
        tuple(tuple(_deviation(cell) if len(cell) > 1 else None for cell in row) for row in table),
        missing,
        tuple(Counter(str(one["reason"]) for one in documents if one.get("reason")).most_common()),
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    """The mean, of numbers too whose sum no double holds."""
    return statistics.fmean(values) if max(map(abs, values)) < 1e290 else math.fsum(one / len(values) for one in values)


def _deviation(values: Sequence[float]) -> float | None:
    """The standard deviation; None where no double holds it."""
    unit = max(max(map(abs, values)), 1e-290)
    found = statistics.stdev([one / unit for one in values]) * unit
    return found if math.isfinite(found) else None


def _bounds(documents: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], float]:
    """The largest bound of each instance that a policy proved under all its rules."""
    found: dict[tuple[Any, ...], float] = {}
    for document in documents:
        bound = document.get("lower_bound")
        if bound is not None and not document.get("remark"):
            found[_instance(document)] = max(bound, found.get(_instance(document), bound))
    return found


def _gap(document: Mapping[str, Any], bounds: Mapping[tuple[Any, ...], float]) -> float | None:
    bound, objective = bounds.get(_instance(document)), document.get("objective")
    return None if bound is None or objective is None else max(relative_gap(objective, bound), 0.0)


def _instance(document: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(document["cell"].get(axis) for axis in AXES[1:])
