"""One layer as the kernel of `moeopt.kernels.moving` sees it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import moving
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import running_pairs
from moeopt.placement.replanning.keep_slots import old_slots

NEIGHBOURS = 0.3
"""Part of the experts, by size of a replica, among which swaps are sought."""
CHANCES = 1024


def scale_of(instance: PlacementInstance, row: int) -> float:
    """What a value of the kernel is multiplied by to be the objective's: the ideal in tokens, 1 with windows."""
    return 1.0 if instance.windows else float(instance.ideal[row]) or 1.0


def as_layer(
    instance: PlacementInstance, row: int, allowed: NDArray[np.bool_], start: NDArray[np.int64]
) -> moving.Layer:
    """The layer with the running plan; experts stand in the order of their replicas in `start` (S,)."""
    loads, floor, base = _window_loads(instance, row)
    num_experts, num_gpus = instance.num_experts, instance.num_gpus
    old = running_pairs(instance, row)
    rule = np.where(allowed, 0, moving.FORBIDDEN).astype(np.int8)
    for expert, gpu in instance.pin:
        rule[expert, gpu] = moving.PINNED
    if not rule.any():
        rule = np.zeros((0, 0), dtype=np.int8)
    least = np.array(instance.min_replicas, dtype=np.int64)
    empty = -1
    home = old_slots(instance, row)
    if instance.fill == "at_most":
        empty = num_experts
        loads = np.concatenate([loads, np.full((len(loads), 1), -1.0)], axis=1)
        old = np.concatenate([old, np.ones((1, num_gpus), dtype=bool)])
        least = np.append(least, 0)
        if rule.size:
            rule = np.concatenate([rule, np.zeros((1, num_gpus), dtype=np.int8)])
    counts = np.bincount(start[start >= 0], minlength=num_experts)
    order = np.argsort((loads.sum(axis=0)[:num_experts]) / np.maximum(counts, 1), kind="stable").astype(np.int64)
    place = np.empty(num_experts, dtype=np.int64)
    place[order] = np.arange(num_experts)
    usable = sum(count > 0 for count in instance.slots)
    most = instance.num_slots - num_experts + 1
    if instance.distinct:
        most = min(most, usable)
    combine, tail = _combined(instance)
    return moving.Layer(
        np.ascontiguousarray(loads),
        floor,
        base,
        instance.gpu_of_slot.astype(np.int64),
        instance.slot_start,
        1.0 / np.array(instance.speed, dtype=np.float64),
        rule,
        least,
        max(most, 1),
        np.searchsorted(np.array(instance.node_ids), np.array(instance.node)).astype(np.int64),
        instance.survive_nodes + 1,
        bool(instance.distinct),
        empty,
        old,
        home,
        order,
        place,
        max(4, int(NEIGHBOURS * num_experts)),
        combine,
        tail,
        -np.log((np.arange(CHANCES) + 0.5) / CHANCES),
    )


def blank_state(layer: moving.Layer) -> moving.State:
    """A state of the right sizes, for `moving.begin`."""
    windows, num_experts = layer.loads.shape
    num_gpus, num_slots = len(layer.pace), len(layer.gpu)
    return moving.State(
        np.zeros(num_slots, np.int64),
        np.zeros(num_experts, np.int64),
        np.zeros((windows, num_experts)),
        np.zeros((num_experts, num_gpus), np.int32),
        np.zeros((num_experts, layer.most + 1), np.int32),
        np.zeros(num_slots, np.int64),
        np.zeros((num_experts, int(layer.node.max()) + 1), np.int32),
        np.zeros((windows, num_gpus)),
        np.zeros(num_gpus),
        np.zeros(windows),
        np.zeros(1, np.int64),
    )


def _window_loads(
    instance: PlacementInstance, row: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(W, E) loads, (W,) floors and (W, G) constant loads, all over the window's ideal."""
    per_replica = instance.floor_rule == "per_replica"
    loads, floors, bases = [], [], []
    for window in instance.windows or (instance,):
        scale = float(window.ideal[row]) or 1.0
        loads.append((window.loads[row].astype(np.float64) if per_replica else window.weights[row]) / scale)
        floors.append(float(window.floor) / scale if per_replica else 0.0)
        base = np.zeros(instance.num_gpus) if window.base is None else window.base[row] / scale
        if instance.windows and not window.ideal[row]:
            base = np.array(instance.speed)  # an idle window is balanced: 1 on every GPU
        bases.append(base)
    return np.array(loads), np.array(floors), np.array(bases)


def _combined(instance: PlacementInstance) -> tuple[int, NDArray[np.float64]]:
    """How windows become one value, and the weights of their values in falling order."""
    count = max(len(instance.windows), 1)
    if count == 1 or instance.combine == "worst":
        return moving.WORST, np.zeros(count)
    if instance.combine == "mean":
        return moving.MEAN, np.full(count, 1.0 / count)
    part = max((1.0 - instance.alpha) * count, 1.0)
    weights = np.clip(part - np.arange(count), 0.0, 1.0) / part
    return moving.TAIL, weights
