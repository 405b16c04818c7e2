"""The report as CSV: a row for each instance and method, full precision, names of columns that stay."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

from moeopt.report.block import Block, Header
from moeopt.report.head import all_versions
from moeopt.report.summary import RowSummary, Summary, summarise

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
    *("seed", "command", "versions"),
)
"""Names of the columns, in order; an empty cell means there is no such number."""


def render_csv(blocks: Sequence[Block], header: Header) -> str:
    """The whole file."""
    summaries = [summarise(block) for block in blocks]
    versions = "; ".join(f"{name} {version}" for name, version in all_versions(summaries, header).items())
    made = {"seed": header.seed, "command": header.command, "versions": versions}
    buffer = StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for summary in summaries:
        for row in summary.rows:
            writer.writerow({**shape(summary), **figures(summary, row), **made})
    return buffer.getvalue()


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
