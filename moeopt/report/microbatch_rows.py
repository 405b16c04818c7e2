"""The numbers of a micro-batch comparison: a row a method, as records for CSV and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report import frame
from moeopt.report.rows import RowFigures

if TYPE_CHECKING:
    from moeopt.microbatch import MicrobatchInstance

OWN = ("m", "batch", "time_s", "throughput", "cycle_s")
"""What a step has numbers of, in order."""
COLUMNS = (
    *("instance", "sha256", "pattern", "layers", "candidates", "minimises"),
    *("method", "status", "stop", "best", "objective", "unit", *OWN),
    *("lower_bound", "bound_kind", "best_bound", "best_bound_kind", "gap", "runtime_s", "iterations"),
    *("remark", "reason"),
)
"""Names of the columns, in order; an empty cell means there is no such number."""


def record(instance: MicrobatchInstance, comparison: Comparison, row: RowFigures) -> dict[str, Any]:
    """One row of the CSV, but what is said of the whole report."""
    known = {
        "instance": instance.name,
        "sha256": instance.sha256,
        "pattern": instance.pattern,
        "layers": instance.layers,
        "candidates": len(instance.candidates),
        "minimises": instance.objective,
    }
    return frame.record(comparison, row, known | numbers(row), COLUMNS)


def numbers(row: RowFigures) -> dict[str, Any]:
    """What is known of one method, ``None`` where there is no such number."""
    solution = row.solution or {}
    conflicts = [] if row.result is None else [dict(one) for one in row.result.conflicts]
    return {**frame.numbers_of(row), **{key: solution.get(key) for key in OWN}, "conflicts": conflicts}
