"""Rows of a comparison as reports take them: a method's result, whether it is best, its gap, who vouches for bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moeopt.registry import Comparison
from moeopt.result import Result


@dataclass(frozen=True, eq=False)
class RowFigures:
    """One method.

    Parameters
    ----------
    result
        ``None`` where the method gave none; then `reason` says why.
    gap, gap_worst, worst_layer
        To the best bound of all methods, of the sum and of the layer where it is largest; that layer's id.
    """

    method: str
    result: Result | None
    best: bool
    reason: str
    remark: str
    said: str
    gap: float | None = None
    gap_worst: float | None = None
    worst_layer: int | None = None

    @property
    def solution(self) -> Mapping[str, Any] | None:
        """The plan as data, where there is one."""
        return None if self.result is None else self.result.solution


def best_place(comparison: Comparison) -> int | None:
    """Which row the name in ``best`` means: a ready-made plan may bear the name of a method."""
    solved = [
        (row.result.objective, place)
        for place, row in enumerate(comparison.rows)
        if row.method == comparison.best and row.result is not None and not row.remark
        if row.result.objective is not None
    ]
    return min(solved)[1] if solved else None


def conflicts_said(result: Result | None) -> str:
    """Why there is no plan: status, and the rules in conflict or what ended the search."""
    if result is None:
        return ""
    told = "; ".join(str(conflict.get("message", conflict)) for conflict in result.conflicts)
    return f"{result.status}: {told}" if told else f"{result.status}, stopped by {result.stop}"


def bound_kind(comparison: Comparison) -> str | None:
    """Who vouches for the best bound: ``certified`` if any that proved it can be re-checked."""
    kinds = {
        str(row.result.bound_kind)
        for row in comparison.rows
        if row.result is not None and not row.remark and row.result.lower_bound == comparison.lower_bound
    }
    return min(kinds, default=None)
