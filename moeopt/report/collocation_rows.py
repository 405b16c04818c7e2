"""The numbers of a collocation's comparison: a row a method, as records for CSV and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison, Row
from moeopt.report.rows import RowFigures, best_place, conflicts_said
from moeopt.result import relative_gap

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


def floors_of(comparison: Comparison) -> list[float]:
    """The best bound of each layer that any row proved."""
    rows = [
        [layer["lower_bound"] for layer in row.result.solution["layers"]]
        for row in comparison.rows
        if row.result is not None and row.result.solution is not None and not row.remark
    ]
    return [max(column) for column in zip(*rows, strict=True)]


def figures_of(comparison: Comparison) -> list[RowFigures]:
    """All rows in the order given."""
    floors = floors_of(comparison)
    best = best_place(comparison)
    return [_figures(row, comparison, floors, place == best) for place, row in enumerate(comparison.rows)]


def _figures(row: Row, comparison: Comparison, floors: list[float], best: bool) -> RowFigures:
    result = row.result
    if result is None or result.solution is None:
        return RowFigures(row.method, result, False, row.reason or conflicts_said(result), row.remark, row.said)
    if row.remark:
        return RowFigures(row.method, result, best, row.reason, row.remark, row.said)
    layers = result.solution["layers"]
    gaps = [
        max(relative_gap(layer["objective"], floor), 0.0) if layer["objective"] else 0.0
        for layer, floor in zip(layers, floors, strict=True)
    ]
    worst = max(range(len(gaps)), key=gaps.__getitem__)
    numbers = {"gap": comparison.gap(row), "gap_worst": gaps[worst], "worst_layer": layers[worst]["layer"]}
    return RowFigures(row.method, result, best, row.reason, row.remark, row.said, **numbers)


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
    return {**known, **numbers(comparison, row), "best": "true" if row.best else "false"}


def numbers(comparison: Comparison, row: RowFigures) -> dict[str, Any]:
    """What is known of one method, ``None`` where there is no such number."""
    result, solution = row.result, row.solution or {}
    path = solution.get("critical_path") or {}
    held = [layer.get("imbalance_held_out") for layer in solution.get("layers", ())]
    keys = ("lambda", "lambda_held_out", "lambda_lower_bound", "copies_per_token", "imbalance", "busiest_link_s")
    return {
        "method": row.method,
        "status": None if result is None else str(result.status),
        "stop": None if result is None else str(result.stop),
        "objective": None if result is None else result.objective,
        "unit": None if result is None else result.unit,
        **{key: solution.get(key) for key in keys},
        "imbalance_held_out": max(held) if held and None not in held else None,
        "no_overlap_s": path.get("no_overlap_s"),
        "overlap_s": path.get("overlap_s"),
        "lower_bound": None if result is None else result.lower_bound,
        "bound_kind": None if result is None else result.bound_kind,
        "best_bound": comparison.lower_bound,
        "gap": row.gap,
        "gap_worst": row.gap_worst,
        "gap_worst_layer": row.worst_layer,
        "runtime_s": None if result is None else result.runtime_s,
        "iterations": None if result is None else result.iterations,
        "remark": row.remark,
        "reason": row.reason,
    }


def document(instance: CollocationInstance, comparison: Comparison, rows: list[RowFigures]) -> dict[str, Any]:
    """The block in JSON; the trace is named by its digest."""
    made = []
    for row in rows:
        found = numbers(comparison, row)
        del found["best_bound"]  # said once, of the block
        result = None if row.result is None else row.result.to_dict()
        if result is not None:
            result["instance"] = {"name": instance.name, "sha256": instance.sha256}  # the document is above
        made.append({**found, "best": row.best, "result": result})
    return {
        "problem": "collocation",
        "instance": {"name": instance.name, "sha256": instance.sha256, "document": instance.to_dict(bulk=False)},
        "interrupted": comparison.interrupted,
        "not_run": list(comparison.not_run),
        "best": comparison.best,
        "lower_bound": comparison.lower_bound,
        "layers": [
            {"layer": layer, "lower_bound": floor}
            for layer, floor in zip(instance.layers, floors_of(comparison), strict=False)
        ],
        "rows": made,
    }
