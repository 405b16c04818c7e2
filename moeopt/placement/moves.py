"""Moves: the (expert, GPU) pairs of a plan that the running plan lacks, counted exactly; part of the referee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance

STORAGE = -1
"""The source of a replica that no GPU of the running plan can give."""

EMPTY = -1


@dataclass(frozen=True, slots=True)
class Move:
    """One replica that a GPU must receive: the expert, the GPU it can be copied from, the GPU and slot it comes to."""

    expert: int
    source: int
    gpu: int
    slot: int


def running_pairs(instance: PlacementInstance, row: int) -> NDArray[np.bool_]:
    """(E, G) whether the running plan of a layer has an expert on a GPU; a lost GPU has nothing.

    >>> from moeopt.placement import PlacementInstance
    >>> instance = PlacementInstance([[2, 1]], gpus=2, slots=2, current=[[1, 0]])
    >>> running_pairs(instance, 0).tolist()
    [[False, True], [True, False]]
    """
    assert instance.current is not None
    held = np.asarray(instance.current)[row]
    gpu = running_gpus(instance)
    pairs = np.zeros((instance.num_experts, instance.num_gpus), dtype=bool)
    filled = held != EMPTY
    pairs[held[filled], gpu[filled]] = True
    pairs[:, list(instance.lost)] = False
    return pairs


def running_gpus(instance: PlacementInstance) -> NDArray[np.int64]:
    """(S0,) GPU of each slot of the running plan."""
    return np.asarray(instance.current_gpu, dtype=np.int64)


def new_pairs(instance: PlacementInstance, slot_expert: NDArray[np.integer], row: int) -> NDArray[np.int64]:
    """(M, 3) expert, GPU and slot of every pair of a layer's plan that the running plan lacks, by slot.

    Two replicas of an expert on one GPU are one pair: its weights come once.
    """
    gpu = instance.gpu_of_slot
    slots = np.flatnonzero(slot_expert != EMPTY)
    experts, gpus = slot_expert[slots].astype(np.int64), gpu[slots]
    _, first = np.unique(experts * instance.num_gpus + gpus, return_index=True)
    first = np.sort(first)
    experts, gpus, slots = experts[first], gpus[first], slots[first]
    lacking = ~running_pairs(instance, row)[experts, gpus]
    return np.stack([experts[lacking], gpus[lacking], slots[lacking]], axis=1)


def count_moves(instance: PlacementInstance, slot_expert: NDArray[np.integer]) -> tuple[int, ...]:
    """L counts of moves.

    >>> from moeopt.placement import PlacementInstance
    >>> instance = PlacementInstance([[2, 1]], gpus=2, slots=2, current=[[1, 0]])
    >>> count_moves(instance, np.array([[0, 1]])), count_moves(instance, np.array([[1, 0]]))
    ((2,), (0,))
    """
    return tuple(len(new_pairs(instance, held, row)) for row, held in enumerate(slot_expert))


def move_faults(instance: PlacementInstance, slot_expert: NDArray[np.integer]) -> list[str]:
    """What a plan moves beyond the budgets."""
    if instance.current is None or (instance.max_moves is None and instance.max_moves_per_layer is None):
        return []
    counts = count_moves(instance, slot_expert)
    found = []
    if instance.max_moves_per_layer is not None:
        for layer, count in zip(instance.layers, counts, strict=True):
            if count > instance.max_moves_per_layer:
                allowed = f"allowed {instance.max_moves_per_layer} a layer"
                found.append(f"layer {layer}: {_replicas(count)} new on their GPU, {allowed}")
    if instance.max_moves is not None and sum(counts) > instance.max_moves:
        found.append(f"{_replicas(sum(counts))} new on their GPU, allowed {instance.max_moves} in all")
    return found


def list_moves(instance: PlacementInstance, slot_expert: NDArray[np.integer], row: int) -> list[Move]:
    """The moves of a layer by slot, each with a source: on the same node if there is one, then the one asked least."""
    node = np.array(instance.node)
    pairs = running_pairs(instance, row)
    asked = np.zeros(instance.num_gpus, dtype=np.int64)
    found = []
    for expert, gpu, slot in new_pairs(instance, slot_expert, row).tolist():
        sources = np.flatnonzero(pairs[expert])
        source = STORAGE
        if len(sources):
            order = np.lexsort((sources, asked[sources], node[sources] != node[gpu]))
            source = int(sources[order[0]])
            asked[source] += 1
        found.append(Move(expert, source, gpu, slot))
    return found


def _replicas(count: int) -> str:
    return "1 replica is" if count == 1 else f"{count:,} replicas are"
