"""The numbers of a mesh's comparison: a row a method, as records for CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.registry import Comparison
from moeopt.report import frame
from moeopt.report.rows import RowFigures

if TYPE_CHECKING:
    from moeopt.mesh import MeshInstance

OWN = ("rate_per_s", "output_tokens_per_s", "gpus", "idle_gpus", "price", "ttft_s", "tpot_s", "pools")
"""What a mesh has numbers of, in order."""
COLUMNS = (
    *("instance", "sha256", "llms", "gpu_types", "stock", "minimises"),
    *("method", "status", "stop", "best", "objective", "unit", *OWN),
    *("lower_bound", "bound_kind", "best_bound", "best_bound_kind", "gap", "runtime_s", "iterations"),
    *("remark", "reason"),
)
"""Names of the columns, in order; an empty cell means there is no such number."""


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
    return frame.record(comparison, row, known | numbers(row), COLUMNS)


def numbers(row: RowFigures) -> dict[str, Any]:
    """What is known of one method, ``None`` where there is no such number."""
    solution = row.solution
    if solution is None:
        return {**frame.numbers_of(row), **dict.fromkeys(OWN)}
    own = (
        solution["rate_per_s"],
        sum(one["output_tokens_per_s"] for one in solution["demands"]),
        solution["total_gpus"],
        sum(solution["idle_gpus"].values()),
        solution["price"],
        slowest(solution, "ttft_s"),
        slowest(solution, "tpot_s"),
        pools_said(solution),
    )
    return {**frame.numbers_of(row), **dict(zip(OWN, own, strict=True))}
