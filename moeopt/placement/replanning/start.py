"""The plan to start from: the running one, with the fewest moves that make it legal for today's instance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.feasible import allowed_pairs, fill
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import EMPTY, new_pairs, running_pairs
from moeopt.placement.plan import Placement
from moeopt.placement.replanning.keep_slots import in_old_slots, old_slots
from moeopt.placement.replanning.parts import layer_alone
from moeopt.placement.verify import faults


def allowed_homes(instance: PlacementInstance, row: int, held: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """(E, G) pairs a re-planning may use: no prohibition, no GPU without slots, groups on the node most of them is on.

    Groups are dealt to nodes anew only where the running plan's deal is not legal or does not fit. With `held`, a plan
    (S,), they are where that one has them.
    """
    allowed = allowed_pairs(instance)
    allowed[:, [gpu for gpu, count in enumerate(instance.slots) if count == 0]] = False
    if instance.hierarchical:
        homes = _home_of_groups(instance, running_pairs(instance, row) if held is None else _pairs(instance, held))
        nodes = np.array([instance.node_ids.index(node) for node in instance.node])
        group = np.searchsorted(np.array(sorted(set(instance.groups or ()))), np.array(instance.groups))
        allowed &= homes[group][:, None] == nodes[None, :]
    return allowed


def _home_of_groups(instance: PlacementInstance, pairs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(Q,) node of each group, as many pairs kept as can be: an assignment of groups to equal shares of the nodes."""
    from scipy.optimize import linear_sum_assignment

    assert instance.groups is not None
    ids = sorted(set(instance.groups))
    each = len(ids) // len(instance.node_ids)
    nodes = np.array(instance.node)
    on_node = np.stack([pairs[:, nodes == node].sum(axis=1) for node in instance.node_ids], axis=1)
    group = np.array(instance.groups)
    kept = np.stack([on_node[group == one].sum(axis=0) for one in ids])
    places = np.repeat(np.arange(len(instance.node_ids)), each)
    groups, columns = linear_sum_assignment(kept[:, places], maximize=True)
    homes = np.empty(len(ids), dtype=np.int64)
    homes[groups] = places[columns]
    return homes


def _pairs(instance: PlacementInstance, held: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(E, G) whether a plan has an expert on a GPU."""
    pairs = np.zeros((instance.num_experts, instance.num_gpus), dtype=bool)
    filled = held != EMPTY
    pairs[held[filled], instance.gpu_of_slot[filled]] = True
    return pairs


def starting_plan(instance: PlacementInstance, row: int, allowed: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """(S,) the running plan of a layer, made legal; ``None`` where that was not achieved.

    A legal plan comes back as it is. Else what may stay stays, experts that lack replicas get empty slots, then slots
    of experts with replicas to spare; where that is not enough, or pins call for more, a linear programme whose
    corners are whole finds the legal plan with the fewest moves (but for the rule that nodes may fail).
    """
    before = old_slots(instance, row)
    if legal(instance, before, row):
        return before
    mended = _mended(instance, before, allowed, instance.weights[row])
    if mended is not None and not legal(instance, mended, row):
        mended = None
    if mended is not None and len(new_pairs(instance, mended, row)) <= forced_moves(instance, row):
        return mended
    held = fill(instance, cost=np.where(running_pairs(instance, row), 0.0, 1.0), allowed=allowed)
    if held is None or not legal(instance, held, row):
        return mended
    if mended is not None and len(new_pairs(instance, mended, row)) <= len(new_pairs(instance, held, row)):
        return mended
    return in_old_slots(instance, held, row)


def forced_moves(instance: PlacementInstance, row: int) -> int:
    """The least number of moves that any legal plan of a layer needs, or a bound below it.

    Every expert that has fewer homes left than it needs, and every slot that no expert of its GPU can fill.
    """
    usable = running_pairs(instance, row) & allowed_pairs(instance)
    usable[:, [gpu for gpu, count in enumerate(instance.slots) if count == 0]] = False
    needed = np.array(instance.min_replicas)
    if not instance.distinct:
        needed = np.minimum(needed, 1)
    missing = int(np.maximum(needed - usable.sum(axis=1), 0).sum())
    if instance.fill == "at_most" or not instance.distinct:
        return missing
    empty = int(np.maximum(np.array(instance.slots) - usable.sum(axis=0), 0).sum())
    return max(missing, empty)


def legal(instance: PlacementInstance, held: NDArray[np.int64], row: int) -> bool:
    """Whether one layer breaks no rule, budgets aside."""
    return not faults(layer_alone(instance, row), Placement.of(held))


def _mended(
    instance: PlacementInstance,
    before: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> NDArray[np.int64] | None:
    """Keep what may stay, then place what is missing where it costs nobody a last replica."""
    gpu = instance.gpu_of_slot
    held = before.copy()
    needed = np.array(instance.min_replicas)
    counts = np.zeros(instance.num_experts, dtype=np.int64)
    on = np.zeros((instance.num_experts, instance.num_gpus), dtype=np.int64)
    for slot, expert in enumerate(held.tolist()):
        if expert == EMPTY:
            continue
        if not allowed[expert, gpu[slot]] or (instance.distinct and on[expert, gpu[slot]]):
            held[slot] = EMPTY
            continue
        counts[expert] += 1
        on[expert, gpu[slot]] += 1

    def put(expert: int, slot: int) -> None:
        out = int(held[slot])
        if out != EMPTY:
            counts[out] -= 1
            on[out, gpu[slot]] -= 1
        held[slot] = expert
        counts[expert] += 1
        on[expert, gpu[slot]] += 1

    def fits(expert: int, slot: int) -> bool:
        return bool(allowed[expert, gpu[slot]]) and not (instance.distinct and on[expert, gpu[slot]])

    for expert in np.flatnonzero(counts < needed).tolist():
        while counts[expert] < needed[expert]:
            slots = [slot for slot in np.flatnonzero(held == EMPTY).tolist() if fits(expert, slot)]
            if not slots:
                spare = [slot for slot, out in enumerate(held.tolist()) if out != EMPTY and counts[out] > needed[out]]
                slots = [slot for slot in spare if fits(expert, slot)]
                slots.sort(key=lambda slot: (-counts[held[slot]], slot))
            if not slots:
                return None
            put(expert, slots[0])
    if instance.fill == "all":
        for slot in np.flatnonzero(held == EMPTY).tolist():
            experts = [expert for expert in range(instance.num_experts) if fits(expert, slot)]
            if not experts:
                return None
            put(max(experts, key=lambda expert: (weights[expert] / counts[expert], -expert)), slot)
    return held
