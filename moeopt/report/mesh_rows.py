"""The numbers of a mesh's comparison: a row a method, as records for CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report.rows import RowFigures, best_place, bound_kind, conflicts_said

if TYPE_CHECKING:
    from moeopt.mesh import MeshInstance

COLUMNS = (
    *("instance", "sha256", "llms", "gpu_types", "stock", "minimises"),
    *("method", "status", "stop", "best", "objective", "unit", "rate_per_s", "output_tokens_per_s"),
    *("gpus", "idle_gpus", "price", "ttft_s", "tpot_s", "pools"),
    *("lower_bound", "bound_kind", "best_bound", "best_bound_kind", "gap", "runtime_s", "iterations"),
    *("remark", "reason"),
)
"""Names of the columns, in order; an empty cell means there is no such number."""


def figures_of(comparison: Comparison) -> list[RowFigures]:
    """All rows in the order given."""
    best = best_place(comparison)
    found = []
    for place, row in enumerate(comparison.rows):
        reason = row.reason
        if row.result is not None and row.result.solution is None:
            told = "" if row.result.conflicts else "; ".join(row.result.notes)
            reason = reason or told or conflicts_said(row.result)
        gap = comparison.gap(row)
        found.append(RowFigures(row.method, row.result, place == best, reason, row.remark, row.said, gap, gap))
    return found


def pools_said(solution: Mapping[str, Any]) -> str:
    """What is bought, in one line.

    >>> pools_said({"pools": [{"replicas": 3, "label": "P"}, {"replicas": 1, "label": "D"}]})
    '3 x P + 1 x D'
    """
    return " + ".join(f"{pool['replicas']:,} x {pool['label']}" for pool in solution["pools"])


def slowest(solution: Mapping[str, Any], key: str) -> float | None:
    """The largest of a time over demands."""
    return max((one[key] for one in solution["demands"] if one[key] is not None), default=None)


def record(instance: MeshInstance, comparison: Comparison, row: RowFigures) -> dict[str, Any]:
    """One row of the CSV, but what is said of the whole report."""
    stock = [gpu.stock for gpu in instance.gpus if gpu.stock is not None]
    known = {
        "instance": instance.name,
        "sha256": instance.sha256,
        "llms": "; ".join(demand.llm.name for demand in instance.demands),
        "gpu_types": "; ".join(gpu.name for gpu in instance.gpus),
        "stock": sum(stock) if len(stock) == len(instance.gpus) else None,
        "minimises": instance.objective,
    }
    best = {"best_bound": comparison.lower_bound, "best_bound_kind": bound_kind(comparison)}
    return {**known, **numbers(row), **best, "best": "true" if row.best else "false"}


def numbers(row: RowFigures) -> dict[str, Any]:
    """What is known of one method, ``None`` where there is no such number."""
    result, solution = row.result, row.solution
    known: dict[str, Any] = dict.fromkeys(COLUMNS[COLUMNS.index("method") : COLUMNS.index("best_bound")])
    del known["best"]
    if result is not None:
        same = ("objective", "unit", "lower_bound", "bound_kind", "runtime_s", "iterations")
        known |= {"status": str(result.status), "stop": str(result.stop)}
        known |= {key: getattr(result, key) for key in same}
    if solution is not None:
        known |= {
            "rate_per_s": solution["rate_per_s"],
            "output_tokens_per_s": sum(one["output_tokens_per_s"] for one in solution["demands"]),
            "gpus": solution["total_gpus"],
            "idle_gpus": sum(solution["idle_gpus"].values()),
            "price": solution["price"],
            "ttft_s": slowest(solution, "ttft_s"),
            "tpot_s": slowest(solution, "tpot_s"),
            "pools": pools_said(solution),
        }
    return {**known, "method": row.method, "gap": row.gap, "remark": row.remark, "reason": row.reason}


def document(instance: MeshInstance, comparison: Comparison, rows: list[RowFigures]) -> dict[str, Any]:
    """The block in JSON."""
    made = []
    for row in rows:
        result = None if row.result is None else row.result.to_dict()
        if result is not None:
            result["instance"] = {"name": instance.name, "sha256": instance.sha256}  # the document is above
        made.append({**numbers(row), "best": row.best, "result": result})
    return {
        "problem": "mesh",
        "instance": {"name": instance.name, "sha256": instance.sha256, "document": instance.to_dict()},
        "interrupted": comparison.interrupted,
        "not_run": list(comparison.not_run),
        "best": comparison.best,
        "lower_bound": comparison.lower_bound,
        "bound_kind": bound_kind(comparison),
        "rows": made,
    }
