"""The referee: judges any plan from the instance alone, in whole numbers and fractions, and imports no solver."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt import kinds
from moeopt.errors import InstanceError, PlanError, Violation
from moeopt.kernels.fractions import quotient, total
from moeopt.kernels.loads import gpu_loads
from moeopt.placement import engine_rule
from moeopt.placement.combined import combine, ratio, tail_of
from moeopt.placement.instance import SPLITS, PlacementInstance
from moeopt.placement.moves import move_faults
from moeopt.placement.plan import EMPTY, Placement, as_placement

MAX_FAULTS = 200
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
            for (expert, gpu), copies in _hosted(instance, plan, index).items():
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


def _hosted(instance: PlacementInstance, plan: Placement, index: int) -> Counter[tuple[int, int]]:
    """(expert, GPU) and how many copies lie there."""
    row = plan.slot_expert[index].tolist()
    return Counter((e, g) for e, g in zip(row, instance.gpu_of_slot.tolist(), strict=True) if e != EMPTY)


@kinds.expects(instance="moeopt.placement.instance:PlacementInstance")
def faults(instance: PlacementInstance, plan: Any) -> list[str]:
    """Every rule the plan breaks, each naming layer, slot, GPU or expert; empty for a good plan.

    The plan is a `Placement`, an (L, S) array or nested lists; what is no table is a `PlanError`.

    >>> instance = PlacementInstance([[3, 1]], gpus=2, slots=2)
    >>> faults(instance, Placement.of([[0, 0]]))
    ['layer 0: expert 1 has no replica']
    """
    plan = as_placement(instance, plan)
    slots = plan.slot_expert
    if slots.shape != (instance.num_layers, instance.num_slots):
        return _shape_faults(instance, slots)
    found: list[str] = []
    lowest = EMPTY if instance.fill == "at_most" else 0
    for row, slot in _places((slots < lowest) | (slots >= instance.num_experts)):
        expert = int(slots[row, slot])
        where = f"layer {instance.layers[row]}: slot {slot} (GPU {instance.gpu_of_slot[slot]})"
        if expert == EMPTY:
            found.append(f"{where} is empty, but fill is 'all'")
        else:
            found.append(f"{where} holds expert {expert}, ids run from 0 to {instance.num_experts - 1}")
    if found:
        return found
    for row, expert in _places(plan.replicas(instance.num_experts) == 0):
        found.append(f"layer {instance.layers[row]}: expert {expert} has no replica")
    if instance.distinct:
        found.extend(_doubles(instance, slots))
    if instance.hierarchical:
        found.extend(_scattered_groups(instance, slots))
    if max(instance.min_replicas) > 1:
        found.extend(_too_few(instance, plan))
    if instance.survive_nodes:
        found.extend(_too_close(instance, slots))
    if instance.constrained:
        found.extend(_pin_faults(instance, plan))
    if plan.shares is not None:
        found.extend(_share_faults(instance, plan))
    found.extend(move_faults(instance, slots))
    return found


def _places(wrong: NDArray[np.bool_]) -> list[list[int]]:
    """(row, column) of the first that are true; a table without any is the rule, and soon seen."""
    found: list[list[int]] = np.argwhere(wrong)[:MAX_FAULTS].tolist() if wrong.any() else []
    return found


def _shape_faults(instance: PlacementInstance, slots: NDArray[np.int32]) -> list[str]:
    found = []
    if len(slots) != instance.num_layers:
        found.append(f"the plan has {len(slots)} layers, the instance {instance.num_layers}")
    if slots.shape[1] != instance.num_slots:
        layer = instance.layers[0]
        found.append(f"layer {layer}: the plan has {slots.shape[1]} slots, the instance {instance.num_slots}")
    return found


def _doubles(instance: PlacementInstance, slots: NDArray[np.int32]) -> list[str]:
    keys = instance.gpu_of_slot * (instance.num_experts + 1) + slots + 1
    ordered = np.sort(keys, axis=1)
    twice = ordered[:, 1:] == ordered[:, :-1]
    if not twice.any():
        return []
    twice &= ordered[:, 1:] % (instance.num_experts + 1) != 0
    pairs = Counter((row, int(ordered[row, place])) for row, place in _places(twice))
    found = []
    for (row, key), more in pairs.items():
        gpu, expert = divmod(key, instance.num_experts + 1)
        times = "twice" if more == 1 else f"{more + 1} times"
        found.append(f"layer {instance.layers[row]}: GPU {gpu} holds expert {expert - 1} {times}")
    return found


def _scattered_groups(instance: PlacementInstance, slots: NDArray[np.int32]) -> list[str]:
    assert instance.groups is not None
    group_of, nodes = np.array(instance.groups), np.array(instance.node)
    per_node = len(set(instance.groups)) // len(instance.node_ids)
    found = []
    for row, layer in zip(slots, instance.layers, strict=True):
        filled = row != EMPTY
        pairs = set(zip(group_of[row[filled]].tolist(), nodes[instance.gpu_of_slot[filled]].tolist(), strict=True))
        for group, times in sorted(Counter(group for group, _ in pairs).items()):
            if times > 1:
                homes = sorted(node for home, node in pairs if home == group)
                found.append(f"layer {layer}: group {group} lies on nodes {homes}, a group stays on one")
        for node, times in sorted(Counter(node for _, node in pairs).items()):
            if times > per_node:
                found.append(f"layer {layer}: node {node} holds {times} groups, allowed {per_node}")
    return found[:MAX_FAULTS]


def _too_few(instance: PlacementInstance, plan: Placement) -> list[str]:
    counts, least = plan.replicas(instance.num_experts), np.array(instance.min_replicas)
    return [
        f"layer {instance.layers[row]}: expert {expert} has {counts[row, expert]} "
        f"replica{'' if counts[row, expert] == 1 else 's'}, min_replicas asks for "
        f"{least[expert]}"
        for row, expert in np.argwhere((counts > 0) & (counts < least))[:MAX_FAULTS]
    ]


def _too_close(instance: PlacementInstance, slots: NDArray[np.int32]) -> list[str]:
    """Experts on fewer nodes than must be able to fail, and one more."""
    node = np.array(instance.node)[instance.gpu_of_slot]
    found = []
    for row, layer in zip(slots, instance.layers, strict=True):
        filled = row != EMPTY
        pairs = set(zip(row[filled].tolist(), node[filled].tolist(), strict=True))
        seen = Counter(expert for expert, _ in pairs)
        for expert, times in sorted(seen.items()):
            if times <= instance.survive_nodes:
                word = "node" if times == 1 else "nodes"
                wish = f"survive_nodes = {instance.survive_nodes} asks for {instance.survive_nodes + 1}"
                found.append(f"layer {layer}: expert {expert} lies on {times} {word}, {wish}")
    return found[:MAX_FAULTS]


def _pin_faults(instance: PlacementInstance, plan: Placement) -> list[str]:
    found = []
    for index, layer in enumerate(instance.layers):
        hosted = _hosted(instance, plan, index)
        for expert, gpu in instance.pin:
            if (expert, gpu) not in hosted:
                found.append(f"layer {layer}: expert {expert} is pinned to GPU {gpu} and not there")
        for banned, gpu in instance.forbid:
            for expert, home in sorted(hosted):
                if home == gpu and banned in (None, expert):
                    found.append(f"layer {layer}: expert {expert} is forbidden on GPU {gpu} and is there")
    return found[:MAX_FAULTS]


def _share_faults(instance: PlacementInstance, plan: Placement) -> list[str]:
    assert plan.shares is not None
    if instance.split != "free":
        return [f"the plan has shares, but split is {instance.split!r}"]
    if len(plan.shares) != instance.num_layers:
        return [f"shares cover {len(plan.shares)} layers of {instance.num_layers}"]
    found = []
    for index, (layer, triples) in enumerate(zip(instance.layers, plan.shares, strict=True)):
        hosted = _hosted(instance, plan, index)
        total: dict[int, float] = defaultdict(float)
        seen: set[tuple[int, int]] = set()
        for expert, gpu, share in triples:
            if (expert, gpu) not in hosted:
                found.append(f"layer {layer}: a share of expert {expert} goes to GPU {gpu}, which has no replica")
            if (expert, gpu) in seen:
                found.append(f"layer {layer}: expert {expert} has two shares on GPU {gpu}")
            if not (math.isfinite(share) and 0 <= share <= 1 + 1e-9):
                found.append(f"layer {layer}: expert {expert} has share {share} on GPU {gpu}, outside [0, 1]")
            seen.add((expert, gpu))
            total[expert] += share
        for expert in range(instance.num_experts):
            if not abs(total[expert] - 1.0) <= 1e-9:
                found.append(f"layer {layer}: shares of expert {expert} sum to {total[expert]}, not 1")
    return found[:MAX_FAULTS]
