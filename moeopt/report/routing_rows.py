"""The numbers of a routing's comparison: a row a method, as records for CSV and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report import frame
from moeopt.report.rows import RowFigures

if TYPE_CHECKING:
    from moeopt.routing import RoutingInstance

OWN = ("imbalance_mean", "imbalance_worst", "worst_layer", "local_share")
"""What a split has numbers of, in order."""
COLUMNS = (
    *("instance", "sha256", "layers", "experts", "slots", "gpus", "nodes", "whole"),
    *("method", "status", "stop", "best", "objective", "unit", *OWN),
    *("lower_bound", "bound_kind", "best_bound", "best_bound_kind", "gap", "gap_worst", "gap_worst_layer"),
    *("runtime_s", "iterations", "remark", "reason"),
)
"""Names of the columns, in order; an empty cell means there is no such number."""


def record(instance: RoutingInstance, comparison: Comparison, row: RowFigures) -> dict[str, Any]:
    """One row of the CSV, but what is said of the whole report."""
    known = {
        "instance": instance.name,
        "sha256": instance.sha256,
        "layers": instance.num_layers,
        "experts": instance.num_experts,
        "slots": int(instance.slot_expert.shape[1]),
        "gpus": instance.num_gpus,
        "nodes": len(set(instance.node)),
        "whole": "true" if instance.whole else "false",
    }
    return frame.record(comparison, row, known | numbers(row), COLUMNS)


def numbers(row: RowFigures) -> dict[str, Any]:
    """What is known of one method, ``None`` where there is no such number."""
    own: dict[str, Any] = dict.fromkeys(OWN)
    if row.solution is not None:
        worst = max(row.solution["layers"], key=lambda layer: layer["imbalance"])
        own = {
            "imbalance_mean": row.solution["imbalance_mean"],
            "imbalance_worst": worst["imbalance"],
            "worst_layer": worst["layer"],
            "local_share": row.solution.get("local_share"),
        }
    return {**frame.numbers_of(row), **frame.worst_of(row), **own}
