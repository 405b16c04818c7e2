"""Every rule that a plan breaks, from the instance alone: the part of the referee that comes before any cost."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt import kinds
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import move_faults
from moeopt.placement.plan import EMPTY, Placement, as_placement

MAX_FAULTS = 200


def copies_on(instance: PlacementInstance, plan: Placement, index: int) -> Counter[tuple[int, int]]:
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
        hosted = copies_on(instance, plan, index)
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
        hosted = copies_on(instance, plan, index)
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
