"""Stage one of the search: whole plans from the baselines, or from largest first under the rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.lpt import pack
from moeopt.limits import Deadline
from moeopt.placement.feasible import fill
from moeopt.placement.heuristics import eplb, fold
from moeopt.placement.heuristics.deep import Part
from moeopt.placement.heuristics.doubles import doubled_rows, replace_doubles
from moeopt.placement.heuristics.parts import deal_of, part_of
from moeopt.placement.heuristics.ruled import packed
from moeopt.placement.instance import PlacementInstance


def ruled(instance: PlacementInstance) -> bool:
    """Whether rules hold that the baselines do not look at."""
    several = max(instance.min_replicas) > 1 or instance.survive_nodes > 0
    return instance.constrained or several or instance.base is not None


def starts(instance: PlacementInstance, deadline: Deadline) -> list[NDArray[np.int64]]:
    """(L, S) plans that keep every rule, at least one; more while there is time."""
    if ruled(instance):
        return [_within_rules(instance, deadline)]
    rule = eplb.balanced(instance, avoid_doubles=False)
    found = [_repaired(instance, rule)]
    in_time = not deadline.passed()
    doubled = doubled_rows(instance, rule)
    if len(doubled) and in_time:  # elsewhere there is nothing to avoid
        avoiding = rule.copy()
        avoiding[doubled] = eplb.balanced(instance, avoid_doubles=True, rows=doubled)
        found.append(_repaired(instance, avoiding))
    if instance.fill == "at_most" and not instance.hierarchical and in_time:
        ones = np.ones(instance.weights.shape, dtype=np.int64)
        alone = pack(instance.weights, ones, instance.slots, instance.speed, distinct=False)
        found.append(alone.astype(np.int64))
    if fold.applies(instance) is None and in_time:
        found.append(_repaired(instance, fold.folded(instance)))
    return found


def _repaired(instance: PlacementInstance, slot_expert: NDArray[np.integer]) -> NDArray[np.int64]:
    return replace_doubles(instance, slot_expert)[0].astype(np.int64)


def _within_rules(instance: PlacementInstance, deadline: Deadline) -> NDArray[np.int64]:
    """Largest first layer by layer; where it gets stuck, or time is up, the one plan that fits every layer."""
    fallback: NDArray[np.int64] | None = None
    dealt: list[tuple[NDArray[np.int64], list[int]]] | None = None
    if instance.hierarchical:
        fallback = fill(instance)
        assert fallback is not None  # `conflicts` has looked
        dealt = deal_of(instance, fallback)
    out = np.empty((instance.num_layers, instance.num_slots), dtype=np.int64)
    for row in range(instance.num_layers):
        held = None
        if not deadline.passed():
            held = _by_nodes(instance, row, dealt) if dealt is not None else packed(whole(instance, row))
        if held is None:
            if fallback is None:
                fallback = fill(instance)
                assert fallback is not None  # `conflicts` has looked
            held = fallback
        out[row] = held
    return out


def whole(instance: PlacementInstance, row: int) -> Part:
    """A layer as one part, scaled by its ideal."""
    return part_of(instance, row, np.arange(instance.num_experts), list(range(instance.num_gpus)))


def _by_nodes(
    instance: PlacementInstance, row: int, dealt: list[tuple[NDArray[np.int64], list[int]]]
) -> NDArray[np.int64] | None:
    out = np.empty(instance.num_slots, dtype=np.int64)
    for experts, gpus in dealt:
        held = packed(part_of(instance, row, experts, gpus))
        if held is None:
            return None
        out[eplb.slots_of(instance, gpus)] = np.append(experts, -1)[held]
    return out
