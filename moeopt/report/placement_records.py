"""The numbers of a placement as records: the columns of the CSV, and the block of the JSON."""

from __future__ import annotations

from typing import Any

from moeopt.report import words
from moeopt.report.summary import RowSummary, Summary

COLUMNS = (
    *("instance", "sha256", "layers", "experts", "slots", "gpus", "nodes", "groups"),
    *("method", "status", "stop", "best", "objective", "unit"),
    *("imbalance_mean", "imbalance_worst", "imbalance_worst_layer", "imbalance_total", "mean_over_max", "excess"),
    *("held_out_mean", "held_out_worst", "held_out_worst_layer", "held_out_worst_name"),
    *("lower_bound", "bound_kind", "best_bound", "best_bound_kind", "gap", "gap_mean", "gap_worst", "gap_worst_layer"),
    *(
        "layers_within_0_1_percent",
        "max_replicas",
        "redundant_slots",
        "moves",
        "runtime_s",
        "iterations",
        "remark",
        "reason",
    ),
)
"""Names of the columns, in order; an empty cell means there is no such number."""


def record(summary: Summary, row: RowSummary) -> dict[str, Any]:
    """One row of the CSV, but what is said of the whole report."""
    return {**shape(summary), **figures(summary, row)}


def shape(summary: Summary) -> dict[str, Any]:
    """Which instance it is, and its sizes."""
    instance = summary.instance
    return {
        "instance": instance.name,
        "sha256": instance.sha256,
        "layers": instance.num_layers,
        "experts": instance.num_experts,
        "slots": instance.num_slots,
        "gpus": instance.num_gpus,
        "nodes": len(instance.node_ids),
        "groups": None if instance.groups is None else len(set(instance.groups)),
    }


def figures(summary: Summary, row: RowSummary) -> dict[str, Any]:
    """What is known of one method, ``None`` where there is no such number."""
    result, layers = row.result, summary.instance.layers
    return {
        "method": row.method,
        "status": None if result is None else str(result.status),
        "stop": None if result is None else str(result.stop),
        "best": "true" if row.best else "false",
        "objective": row.objective,
        "unit": None if result is None else result.unit,
        "imbalance_mean": row.figure("imbalance_mean"),
        "imbalance_worst": row.imbalance_worst,
        "imbalance_worst_layer": None if row.imbalance is None else layers[int(row.imbalance.argmax())],
        "imbalance_total": row.figure("imbalance_total"),
        "mean_over_max": row.figure("mean_over_max"),
        "excess": row.figure("excess"),
        "held_out_mean": row.held_out_figure("mean"),
        "held_out_worst": row.held_out_figure("worst"),
        "held_out_worst_layer": None if row.held_out is None else row.held_out["worst_layer"],
        "held_out_worst_name": None if row.held_out is None else row.held_out["worst_name"],
        "lower_bound": row.lower_bound,
        "bound_kind": None if result is None else result.bound_kind,
        "best_bound": summary.comparison.lower_bound,
        "best_bound_kind": summary.bound_kind,
        "gap": row.gap,
        "gap_mean": row.gap_mean,
        "gap_worst": row.gap_worst,
        "gap_worst_layer": None if row.layer_gap is None else layers[int(row.layer_gap.argmax())],
        "layers_within_0_1_percent": row.layers_near,
        "max_replicas": row.max_replicas,
        "redundant_slots": row.redundant_slots,
        "moves": row.moves,
        "runtime_s": row.runtime_s,
        "iterations": None if result is None else result.iterations,
        "remark": row.remark,
        "reason": row.reason,
    }


def document(summary: Summary) -> dict[str, Any]:
    """The block in JSON: everything, so that one file is enough to judge and bound every plan again."""
    bounds = [None] * len(summary.ideal) if summary.layer_bound is None else summary.layer_bound.tolist()
    layers = zip(summary.instance.layers, summary.ideal.tolist(), bounds, strict=True)
    return {
        "problem": summary.comparison.problem,
        "instance": {
            "name": summary.instance.name,
            "sha256": summary.instance.sha256,
            "document": summary.instance.to_dict(),
        },
        "verdict": " ".join("".join(sentence) for sentence in words.verdict(summary)),
        "unit": summary.unit,
        "interrupted": summary.comparison.interrupted,
        "not_run": list(summary.comparison.not_run),
        "best": None if summary.best is None else summary.best.method,
        "lower_bound": summary.comparison.lower_bound,
        "bound_kind": summary.bound_kind,
        "layers": [{"layer": layer, "ideal": ideal, "lower_bound": bound} for layer, ideal, bound in layers],
        "rows": [_row(summary, row) for row in summary.rows],
    }


def _row(summary: Summary, row: RowSummary) -> dict[str, Any]:
    numbers = figures(summary, row)
    for name in ("best_bound", "best_bound_kind"):  # said once, of the block
        del numbers[name]
    result = None if row.result is None else row.result.to_dict()
    if result is not None and not row.remark:
        result["instance"] = {"name": summary.instance.name, "sha256": summary.instance.sha256}  # the document is above
    return {
        **numbers,
        "best": row.best,
        "held_out": None if row.held_out is None else dict(row.held_out),
        "gap_of_layer": None if row.layer_gap is None else row.layer_gap.tolist(),
        "result": result,
    }
