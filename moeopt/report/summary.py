"""The numbers of a report, computed once, so that every format says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.plan import Placement
from moeopt.registry import Comparison, Row
from moeopt.report.block import Block
from moeopt.result import Result, relative_gap

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance

NEAR_GAP = 0.001
"""Layers up to this gap to the best certified bound are counted: 0.1 %."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowSummary:
    """One method.

    Parameters
    ----------
    result
        ``None`` where the method gave none; then `reason` says why.
    gap
        Of the objective, to the best bound on the objective.
    layer_gap
        (L,) gaps to the best bound of any method on that layer; ``None`` without plan or bound, and for a plan that
        breaks a rule, to which the bounds do not apply.
    layers_near
        Layers with a gap of at most `NEAR_GAP` to a bound that was re-checked exactly.
    max_replicas, redundant_slots
        Most replicas of an expert in any layer; most replicas beyond the first of each expert in any layer.
    held_out
        What the plan is worth on loads it was not made for, where it was scored on some.
    reason, remark, said
        Why there is no plan; which rule the plan breaks; the same with what ended the method early.
    """

    method: str
    result: Result | None
    best: bool
    reason: str
    remark: str
    said: str
    gap: float | None = None
    layer_gap: Floats | None = None
    layers_near: int | None = None
    max_replicas: int | None = None
    redundant_slots: int | None = None
    held_out: Mapping[str, Any] | None = None

    def held_out_figure(self, name: str) -> float | None:
        """``mean`` or ``worst`` imbalance on loads that the plan was not made for."""
        return None if self.held_out is None else float(self.held_out[name])

    @property
    def solution(self) -> Mapping[str, Any] | None:
        """The plan as data, where there is one."""
        return None if self.result is None else self.result.solution

    @property
    def objective(self) -> float | None:
        """``sum_l max_g C_lg``."""
        return None if self.result is None else self.result.objective

    @property
    def lower_bound(self) -> float | None:
        """The bound this method proved."""
        return None if self.result is None else self.result.lower_bound

    @property
    def runtime_s(self) -> float | None:
        """Measured time."""
        return None if self.result is None else self.result.runtime_s

    def figure(self, name: str) -> float | None:
        """A figure over all layers that the referee computed, such as ``imbalance_mean``."""
        return None if self.solution is None else float(self.solution[name])

    @cached_property
    def imbalance(self) -> Floats | None:
        """(L,) imbalance of each layer."""
        return None if self.solution is None else per_layer(self.solution, "imbalance")

    @property
    def imbalance_worst(self) -> float | None:
        """Imbalance of the worst layer."""
        return None if self.imbalance is None else float(self.imbalance.max())

    @property
    def moves(self) -> int | None:
        """Copies to load into slots of the running plan; ``None`` where none runs."""
        return None if self.solution is None else self.solution.get("moves")

    @property
    def gap_mean(self) -> float | None:
        """Mean over layers of `layer_gap`."""
        return None if self.layer_gap is None else float(self.layer_gap.mean())

    @property
    def gap_worst(self) -> float | None:
        """Largest entry of `layer_gap`."""
        return None if self.layer_gap is None else float(self.layer_gap.max())


@dataclass(frozen=True, eq=False)
class Summary:
    """One block.

    Parameters
    ----------
    layer_bound
        (L,) largest bound on each layer of any method whose plan breaks no rule; ``None`` without any.
    bound_kind
        Kind of the bound on the objective: ``certified`` or ``solver``.
    certified
        Every bound here was re-checked exactly, those of the layers too.
    ideal
        (L,) cost of every GPU in perfect balance, tokens; 1 with windows.
    """

    instance: PlacementInstance
    comparison: Comparison
    rows: tuple[RowSummary, ...]
    layer_bound: Floats | None
    bound_kind: str | None
    certified: bool
    ideal: Floats

    @property
    def best(self) -> RowSummary | None:
        """The row with the least objective among plans that break no rule."""
        return next((row for row in self.rows if row.best), None)

    @property
    def name(self) -> str:
        """What to call the instance."""
        return self.instance.name.strip() or f"instance {self.instance.sha256[:8]}"

    @property
    def unit(self) -> str:
        """Unit of the objective."""
        return next((row.result.unit for row in self.rows if row.result is not None), "tokens")

    @cached_property
    def bound_imbalance(self) -> Floats | None:
        """(L,) the least imbalance that the bounds leave possible; 1.0 for an idle layer."""
        if self.layer_bound is None:
            return None
        return np.divide(self.layer_bound, self.ideal, out=np.ones_like(self.ideal), where=self.ideal > 0)

    @property
    def bound_total(self) -> float | None:
        """The bound on the objective over the sum of ideals; 1.0 when all layers are idle."""
        if self.comparison.lower_bound is None:
            return None
        total = float(self.ideal.sum())
        return self.comparison.lower_bound / total if total else 1.0

    @property
    def scored(self) -> bool:
        """Whether plans were scored on loads they were not made for."""
        return any(row.held_out is not None for row in self.rows)

    def legal(self, *methods: str) -> RowSummary | None:
        """The first of `methods` that has a plan and breaks no rule."""
        for method in methods:
            for row in self.rows:
                if row.method == method and row.solution is not None and not row.remark:
                    return row
        return None

    def gpu_cost(self, row: RowSummary) -> Floats:
        """(L, G) ``C_lg`` of a plan that breaks no rule, from the referee."""
        from moeopt.placement.verify import evaluate

        assert row.result is not None and row.solution is not None
        plan = row.result.plan
        if not isinstance(plan, Placement):  # the result was read from a document
            slots = [layer["slot_expert"] for layer in row.solution["layers"]]
            plan = Placement.of(slots, row.solution.get("shares"))
        return evaluate(self.instance, plan).gpu_cost


def per_layer(solution: Mapping[str, Any], key: str) -> Floats:
    """(L,) one number of every layer of a solution."""
    return np.array([layer[key] for layer in solution["layers"]], dtype=np.float64)


def summarise(block: Block) -> Summary:
    """Compute all numbers of a block."""
    comparison = block.comparison
    bound = _layer_bound(comparison, certified_only=False)
    certified = _layer_bound(comparison, certified_only=True)
    best = _best(comparison)
    rows = tuple(_row(row, comparison, bound, certified, row is best) for row in comparison.rows)
    kind = _bound_kind(comparison)
    checked = kind == "certified" and bound is not None and certified is not None and bool((certified >= bound).all())
    instance = cast("PlacementInstance", block.instance)
    ideal = np.array([float(value) for value in instance.par])
    return Summary(instance, comparison, rows, bound, kind, checked, ideal)


def _legal(comparison: Comparison) -> list[Result]:
    return [row.result for row in comparison.rows if row.result is not None and not row.remark]


def _layer_bound(comparison: Comparison, *, certified_only: bool) -> Floats | None:
    bounds = [
        per_layer(result.solution, "lower_bound")
        for result in _legal(comparison)
        if result.solution is not None and (result.bound_kind == "certified" or not certified_only)
    ]
    largest: Floats | None = np.max(bounds, axis=0) if bounds else None
    return largest


def _bound_kind(comparison: Comparison) -> str | None:
    kinds = {str(r.bound_kind) for r in _legal(comparison) if r.lower_bound == comparison.lower_bound and r.bound_kind}
    return min(kinds, default=None)  # certified, where one of equal bounds is


def _best(comparison: Comparison) -> Row | None:
    """The row that the name in `best` means: a ready-made plan may bear the name of a method."""
    solved = [
        (row.result.objective, index)
        for index, row in enumerate(comparison.rows)
        if row.method == comparison.best and row.result is not None and not row.remark
        if row.result.objective is not None
    ]
    return comparison.rows[min(solved)[1]] if solved else None


def _row(row: Row, comparison: Comparison, bound: Floats | None, certified: Floats | None, best: bool) -> RowSummary:
    result = row.result
    if result is None or result.solution is None:
        return RowSummary(row.method, result, False, row.reason or _conflicts(result), row.remark, row.said)
    replicas = [layer["replicas"] for layer in result.solution["layers"]]
    numbers: dict[str, Any] = {
        "max_replicas": max(max(layer) for layer in replicas),
        "redundant_slots": max(sum(layer) - len(layer) for layer in replicas),
        "held_out": row.held_out,
    }
    if not row.remark:
        tops = per_layer(result.solution, "max_load")
        numbers["gap"] = comparison.gap(row)
        numbers["layer_gap"] = None if bound is None else gaps(tops, bound)
        if certified is not None:
            numbers["layers_near"] = int((gaps(tops, certified) <= NEAR_GAP).sum())
    return RowSummary(row.method, result, best, row.reason, row.remark, row.said, **numbers)


def gaps(tops: Floats, bounds: Floats) -> Floats:
    """(L,) gaps as `relative_gap` has them; what rounding puts below zero is zero.

    >>> gaps(np.array([4.0, 0.0]), np.array([3.0, 0.0])).tolist()
    [0.25, 0.0]
    """
    pairs = zip(tops.tolist(), bounds.tolist(), strict=True)
    return np.array([max(relative_gap(top, bound), 0.0) for top, bound in pairs])


def _conflicts(result: Result | None) -> str:
    if result is None:
        return ""
    said = "; ".join(str(conflict.get("message", conflict)) for conflict in result.conflicts)
    return f"{result.status}: {said}" if said else f"{result.status}, stopped by {result.stop}"
