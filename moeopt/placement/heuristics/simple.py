"""Placements that look at no packing: experts in order, dealt round, or dealt to and fro by load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.heuristics.doubles import replace_doubles
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.registry import Context, Outcome


def _one_each_and_first(instance: PlacementInstance) -> NDArray[np.int64]:
    """(S,) every expert once, then experts 0, 1, ... again for the redundant slots."""
    return np.arange(instance.num_slots) % instance.num_experts


def contiguous(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Experts in order, slot after slot: what engines load before anything is balanced."""
    row = _one_each_and_first(instance)
    return _finish(instance, np.tile(row, (instance.num_layers, 1)))


def round_robin(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Experts in order, dealt to one GPU after another."""
    row = np.empty(instance.num_slots, dtype=np.int64)
    row[_deal(instance, snake=False)] = _one_each_and_first(instance)
    return _finish(instance, np.tile(row, (instance.num_layers, 1)))


def snake(instance: PlacementInstance, context: Context) -> Outcome[Placement]:
    """Replicas by falling load, dealt to the GPUs to and fro."""
    order = _one_each_and_first(instance)
    counts = np.bincount(order, minlength=instance.num_experts)
    pieces = (instance.weights / counts)[:, order]
    ranked = order[np.argsort(-pieces, axis=1, kind="stable")]
    out = np.empty((instance.num_layers, instance.num_slots), dtype=np.int64)
    out[:, _deal(instance, snake=True)] = ranked
    return _finish(instance, out)


def _deal(instance: PlacementInstance, *, snake: bool) -> NDArray[np.int64]:
    """(S,) slots in the order in which a dealer fills them."""
    start, slots = instance.slot_start, np.array(instance.slots)
    order = []
    for turn in range(int(slots.max())):
        gpus = np.flatnonzero(slots > turn)
        order.append(start[gpus[:: -1 if snake and turn % 2 else 1]] + turn)
    return np.concatenate(order)


def _finish(instance: PlacementInstance, slot_expert: NDArray[np.int64]) -> Outcome[Placement]:
    fixed, notes = replace_doubles(instance, slot_expert)
    return Outcome(Placement.of(fixed), notes=notes)
