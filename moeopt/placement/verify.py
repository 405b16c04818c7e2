"""The referee: judges any plan from the instance alone, in whole numbers and fractions, and imports no solver."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InstanceError, PlanError, Violation
from moeopt.kernels.fractions import quotient, total
from moeopt.kernels.loads import gpu_loads
from moeopt.placement import engine_rule
from moeopt.placement.broken_rules import copies_on, faults
from moeopt.placement.combined import combine, ratio, tail_of
from moeopt.placement.instance import SPLITS, PlacementInstance
from moeopt.placement.plan import Placement

FITTING = 40
"""Every common multiple of numbers up to this one fits into int64."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a plan is worth.

    Parameters
    ----------
    max_load, ideal
        L exact values each: ``max_g C_g`` and the cost of every GPU in perfect balance, tokens. With windows: the
        combined ratio, and 1.
    gpu_cost
        (L, G) ``C_g`` in floating point, for tables and plots. With windows: in parts of each window's ideal, the
        largest of all windows where the worst counts, else their mean.
    windows
        With windows, per layer the W exact ratios ``max_g C_gw / ideal_w``.
    """

    max_load: tuple[Fraction, ...]
    ideal: tuple[Fraction, ...]
    gpu_cost: NDArray[np.float64]
    windows: tuple[tuple[Fraction, ...], ...] = ()

    @cached_property
    def objective(self) -> Fraction:
        """``sum_l max_g C_lg``, exact."""
        return total(self.max_load)

    @cached_property
    def imbalance(self) -> tuple[float, ...]:
        """L values of max / ideal, 1.0 for an idle layer."""
        return tuple(quotient(top, even) if even else 1.0 for top, even in zip(self.max_load, self.ideal, strict=True))

    @property
    def imbalance_mean(self) -> float:
        """Mean over layers of the imbalance."""
        return float(np.mean(self.imbalance))

    @property
    def imbalance_total(self) -> float:
        """``sum_l max / sum_l ideal``: layers run one after another, so their maxima add up."""
        ideal = total(self.ideal)
        return float(self.objective / ideal) if ideal else 1.0

    @property
    def mean_over_max(self) -> float:
        """The reciprocal figure some engines log as balancedness, mean over layers."""
        return float(np.mean([1.0 / value for value in self.imbalance]))

    @property
    def excess(self) -> float:
        """``imbalance_mean - 1``."""
        return self.imbalance_mean - 1.0


def evaluate(instance: PlacementInstance, plan: Placement, split: str | None = None) -> Evaluation:
    """Compute every GPU's cost exactly, under the instance's split or another; without shares, parts are even.

    Under ``random`` the costs are expectations, equal to those of even parts.

    Raises
    ------
    InstanceError
        `split` is not known.
    PlanError
        The plan breaks a rule; every fault is listed.

    >>> instance = PlacementInstance([[3, 1]], gpus=2, slots=2)
    >>> evaluate(instance, Placement.of([[0, 1]])).objective
    Fraction(3, 1)
    """
    if split is not None and (not isinstance(split, str) or split not in SPLITS):
        rule = f"must be one of {', '.join(SPLITS)}"
        raise InstanceError([Violation("split", "", repr(split), rule, "Use even")])
    found = faults(instance, plan)
    if found:
        raise PlanError(found)
    return _evaluate_windows(instance, plan, split) if instance.windows else _evaluate(instance, plan, split)


def _evaluate_windows(instance: PlacementInstance, plan: Placement, split: str | None) -> Evaluation:
    """Every window alone, then one figure a layer."""
    judged = [_evaluate(window, plan, split) for window in instance.windows]
    counted = tail_of(instance)
    ratios = [tuple(ratio(one.max_load[row], one.ideal[row]) for one in judged) for row in range(instance.num_layers)]
    tops = tuple(combine(row, counted) for row in ratios)
    ideals = np.array([[float(even) or 1.0 for even in one.ideal] for one in judged])[:, :, None]
    costs = np.array([one.gpu_cost for one in judged]) / ideals
    shown = costs.max(axis=0) if instance.combine == "worst" else costs.mean(axis=0)
    return Evaluation(tops, instance.par, shown, tuple(ratios))


def _evaluate(instance: PlacementInstance, plan: Placement, split: str | None) -> Evaluation:
    """One window."""
    rule = split or instance.split
    if rule == "free" and plan.shares is not None:
        return _evaluate_shares(instance, plan)
    if rule in engine_rule.FIXED_RULES:
        return _judge_totals(instance, *_with_base(instance, *engine_rule.totals(instance, plan, rule)))
    return _evaluate_even(instance, plan)


def _evaluate_even(instance: PlacementInstance, plan: Placement) -> Evaluation:
    """Pieces over one denominator per layer: whole numbers throughout, int64 where they are sure to fit."""
    loads, floor, denominator = instance.exact_loads
    replicas = plan.replicas(instance.num_experts)
    common = _common_multiples(replicas)
    biggest = max(int(loads.max()), floor) * max(common) * instance.num_slots
    kind = np.int64 if biggest < 2**62 else object
    loads = loads.astype(kind)
    if instance.floor_rule == "per_expert" and floor:
        loads, floor = np.maximum(loads, floor), 0
    scale = np.array(common, dtype=kind)[:, None]
    pieces = loads * (scale // replicas.astype(kind))
    if floor:
        pieces = np.maximum(pieces, floor * scale)
    totals = gpu_loads(pieces, plan.slot_expert, instance.slot_start)
    return _judge_totals(instance, *_with_base(instance, totals, [scale * denominator for scale in common]))


def _common_multiples(replicas: NDArray[np.int64]) -> list[int]:
    """Per layer the least common multiple of its counts, of any size."""
    if int(replicas.max()) <= FITTING:
        fitting: list[int] = np.lcm.reduce(replicas, axis=1).tolist()
        return fitting
    return [math.lcm(*set(row)) for row in replicas.tolist()]


def _with_base(
    instance: PlacementInstance, totals: NDArray[Any], denominators: list[int]
) -> tuple[NDArray[Any], list[int]]:
    """Add what every GPU with slots carries anyhow; whole numbers over a finer denominator a layer."""
    if instance.exact_base is None:
        return totals, denominators
    carriers = [count > 0 for count in instance.slots]
    found = []
    finer = []
    for row, bottom, base in zip(totals.tolist(), denominators, instance.exact_base, strict=True):
        common = math.lcm(bottom, base.denominator)
        more = int(base * common)
        found.append(
            [total * (common // bottom) + more * carries for total, carries in zip(row, carriers, strict=True)]
        )
        finer.append(common)
    return np.array(found, dtype=object), finer


def _judge_totals(instance: PlacementInstance, totals: NDArray[Any], denominators: list[int]) -> Evaluation:
    if len(set(instance.speed)) == 1:
        speed = Fraction(instance.speed[0])
        tops = [Fraction(int(top), bottom) for top, bottom in zip(totals.max(axis=1), denominators, strict=True)]
        if speed != 1:
            tops = [top / speed for top in tops]
    else:
        speeds = [Fraction(value) for value in instance.speed]
        tops = [
            max(Fraction(int(total), bottom) / pace for total, pace in zip(row.tolist(), speeds, strict=True))
            for row, bottom in zip(totals, denominators, strict=True)
        ]
    if (
        totals.dtype == object or max(denominators) >= 2**1023
    ):  # the whole numbers may lie beyond the range of a double where their ratio does not
        rows = zip(totals.tolist(), denominators, strict=True)
        ratios = np.array([[total / bottom for total in row] for row, bottom in rows])  # whole numbers: rounded once
    else:
        ratios = totals / np.array([float(bottom) for bottom in denominators])[:, None]
    return Evaluation(tuple(tops), instance.ideal, ratios / np.array(instance.speed))


def _evaluate_shares(instance: PlacementInstance, plan: Placement) -> Evaluation:
    """Free split: shares are taken as the exact fractions the floats are, scaled so that each expert sums to 1."""
    assert plan.shares is not None
    loads, floor, denominator = instance.exact_loads
    speeds = [Fraction(value) for value in instance.speed]
    tops: list[Fraction] = []
    cost = np.zeros((instance.num_layers, instance.num_gpus))
    for index, (row, triples) in enumerate(zip(loads.tolist(), plan.shares, strict=True)):
        ratios = [share.as_integer_ratio() for _, _, share in triples]
        unit = max((bottom for _, bottom in ratios), default=1)  # powers of two
        counts = [top * (unit // bottom) for top, bottom in ratios]
        sums: dict[int, int] = defaultdict(int)
        for (expert, _, _), count in zip(triples, counts, strict=True):
            sums[expert] += count
        base = Fraction(0) if instance.exact_base is None else instance.exact_base[index] * denominator
        totals = [base * (count > 0) for count in instance.slots]
        if instance.floor_rule == "per_replica" and floor:  # every hosted copy costs the floor even without a share
            parts = {(e, g): Fraction(count, sums[e]) for (e, g, _), count in zip(triples, counts, strict=True)}
            for (expert, gpu), copies in copies_on(instance, plan, index).items():
                part = parts.get((expert, gpu), Fraction(0))
                totals[gpu] += max(part * row[expert], Fraction(floor * copies))
        else:
            units = [0] * instance.num_gpus  # tokens of experts whose shares sum to 1, and few are others
            for (expert, gpu, _), count in zip(triples, counts, strict=True):
                tokens = count * max(row[expert], floor)
                if sums[expert] == unit:
                    units[gpu] += tokens
                else:
                    totals[gpu] += Fraction(tokens, sums[expert])
            totals = [total + Fraction(more, unit) for total, more in zip(totals, units, strict=True)]
        costs = [total / denominator / speed for total, speed in zip(totals, speeds, strict=True)]
        tops.append(max(costs))
        cost[index] = [float(value) for value in costs]
    return Evaluation(tuple(tops), instance.ideal, cost)


__all__ = ["Evaluation", "evaluate", "faults"]
