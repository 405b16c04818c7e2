"""The numbers of a collocation's comparison: a row a method, as records for CSV and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report import frame
from moeopt.report.rows import RowFigures

if TYPE_CHECKING:
    from moeopt.collocation import CollocationInstance

COLUMNS = (
    *("instance", "sha256", "layers", "experts", "slots", "gpus", "nodes", "transport", "replica_rule"),
    *("method", "status", "stop", "best", "objective", "unit"),
    *("lambda", "lambda_held_out", "lambda_lower_bound", "copies_per_token", "imbalance", "imbalance_held_out"),
    *("busiest_link_s", "no_overlap_s", "overlap_s", "lower_bound", "bound_kind", "best_bound"),
    *("gap", "gap_worst", "gap_worst_layer", "runtime_s", "iterations", "remark", "reason"),
)
"""Names of the columns, in order; an empty cell means there is no such number."""


def record(instance: CollocationInstance, comparison: Comparison, row: RowFigures) -> dict[str, Any]:
    """One row of the CSV, but what is said of the whole report."""
    known = {
        "instance": instance.name,
        "sha256": instance.sha256,
        "layers": instance.num_layers,
        "experts": instance.num_experts,
        "slots": instance.num_slots,
        "gpus": instance.num_gpus,
        "nodes": int(instance.node.max()) + 1,
        "transport": instance.transport.name,
        "replica_rule": instance.replica_rule,
    }
    return frame.record(comparison, row, known | numbers(row), COLUMNS)


def numbers(row: RowFigures) -> dict[str, Any]:
    """What is known of one method, ``None`` where there is no such number."""
    solution = row.solution or {}
    path = solution.get("critical_path") or {}
    held = [layer.get("imbalance_held_out") for layer in solution.get("layers", ())]
    keys = ("lambda", "lambda_held_out", "lambda_lower_bound", "copies_per_token", "imbalance", "busiest_link_s")
    return {
        **frame.numbers_of(row),
        **frame.worst_of(row),
        **{key: solution.get(key) for key in keys},
        "imbalance_held_out": max(held) if held and None not in held else None,
        "no_overlap_s": path.get("no_overlap_s"),
        "overlap_s": path.get("overlap_s"),
    }
