"""What an engine's own dispatch rule makes of a plan, exactly; see "Dispatch rules of engines" in the model's page."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.sources import sources_per_slot

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance
    from moeopt.placement.plan import Placement

FIXED_RULES = ("sglang-static", "sglang-static-node")
"""Rules under which every source GPU sends all its tokens of an expert to one replica."""


def fixed(instance: PlacementInstance) -> bool:
    """Whether the instance's split is a rule of whole sources."""
    return instance.split in FIXED_RULES


def source_gpus(instance: PlacementInstance) -> NDArray[np.bool_]:
    """(G,) GPUs that hold tokens: all but those lost or retired."""
    held = np.ones(instance.num_gpus, dtype=np.bool_)
    held[[*instance.lost, *instance.retire]] = False
    return held


def nodes_and_sources(instance: PlacementInstance, split: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(G,) node of each GPU as the rule sees them, 0..N-1, and (N,) sources on each; one node without preference."""
    if split == "sglang-static-node":
        node = np.searchsorted(np.array(instance.node_ids), np.array(instance.node)).astype(np.int64)
    else:
        node = np.zeros(instance.num_gpus, dtype=np.int64)
    return node, np.bincount(node[source_gpus(instance)], minlength=int(node.max()) + 1).astype(np.int64)


def totals(instance: PlacementInstance, plan: Placement, split: str) -> tuple[NDArray[Any], list[int]]:
    """(L, G) load of every GPU under a fixed rule in whole numbers, and their L denominators; tokens, speed 1."""
    loads, floor, denominator = instance.exact_loads
    node, sources = nodes_and_sources(instance, split)
    number = sources_per_slot(plan.slot_expert, instance.gpu_of_slot, node, sources)
    everyone = int(sources.sum())
    biggest = max(int(loads.max()), floor) * everyone * instance.num_slots
    kind = np.int64 if biggest < 2**62 else object
    loads = loads.astype(kind)
    if instance.floor_rule == "per_expert" and floor:
        loads, floor = np.maximum(loads, floor), 0
    filled = plan.slot_expert >= 0
    parts = np.take_along_axis(loads, np.maximum(plan.slot_expert, 0), axis=1) * number.astype(kind)
    if floor:
        parts = np.maximum(parts, floor * everyone)
    parts = np.where(filled, parts, 0).astype(kind)
    sums = np.concatenate([np.zeros((len(parts), 1), dtype=kind), np.cumsum(parts, axis=1, dtype=kind)], axis=1)
    return sums[:, instance.slot_start[1:]] - sums[:, instance.slot_start[:-1]], [denominator * everyone] * len(parts)


def draw_deviation(instance: PlacementInstance, plan: Placement, gpu_cost: NDArray[np.float64]) -> list[float]:
    """L standard deviations of the busiest GPU's cost when every token draws one replica uniformly, in tokens.

    >>> from moeopt.placement import Placement, PlacementInstance
    >>> instance = PlacementInstance([[100, 0]], gpus=2, slots=3, split="random", uneven_slots=True)
    >>> draw_deviation(instance, Placement.of([[0, 1, 0]]), np.array([[50.0, 50.0]]))
    [5.0]
    """
    found = []
    replicas = plan.replicas(instance.num_experts)
    for row, busiest in enumerate(gpu_cost.argmax(axis=1).tolist()):
        held = plan.slot_expert[row, instance.slot_start[busiest] : instance.slot_start[busiest + 1]]
        experts, copies = np.unique(held[held >= 0], return_counts=True)
        part = copies / replicas[row, experts]
        tokens = float((instance.loads[row, experts] * part * (1.0 - part)).sum())
        found.append(math.sqrt(tokens) / instance.speed[busiest])
    return found


def whole_source_bound(instance: PlacementInstance, row: int, most: int) -> Fraction:
    """``min over counts of max_e w_e ceil(G'/r_e) / (G' v_max)``: replicas get whole sources; at most `most` each."""
    import heapq

    whole, floor, denominator = instance.exact_loads
    per_replica = instance.floor_rule == "per_replica"
    loads = [int(a) if per_replica else max(int(a), floor) for a in whole[row].tolist()]
    everyone = int(source_gpus(instance).sum())
    counts = [1] * len(loads)
    heap = [(-load * everyone, expert) for expert, load in enumerate(loads)]
    heapq.heapify(heap)
    spare = instance.num_slots - len(loads)
    while True:
        expert = heap[0][1]
        most_sources = -(-everyone // counts[expert])
        if most_sources == 1:
            break
        needed = -(-everyone // (most_sources - 1))  # the least count at which the most sources of a replica fall
        if needed > most or needed - counts[expert] > spare:
            break
        spare -= needed - counts[expert]
        counts[expert] = needed
        heapq.heapreplace(heap, (-loads[expert] * -(-everyone // needed), expert))
    top = max(-heap[0][0], floor * everyone if per_replica else 0)
    return Fraction(top, denominator * everyone) / Fraction(max(instance.speed))
