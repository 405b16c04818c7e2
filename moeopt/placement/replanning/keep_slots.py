"""Slots inside a GPU: engines copy by slot, so an expert that stays keeps its slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import EMPTY, running_gpus


def old_slots(instance: PlacementInstance, row: int) -> NDArray[np.int64]:
    """(S,) expert that the running plan has in each slot of today's shape; -1 for none.

    A GPU that had more slots than it has now shows the first ones; what lay on a lost GPU does not show.
    """
    assert instance.current is not None
    held: NDArray[np.int64] = np.asarray(instance.current)[row].astype(np.int64)
    gpu = running_gpus(instance)
    if np.array_equal(gpu, instance.gpu_of_slot):
        return held
    out = np.full(instance.num_slots, EMPTY, dtype=np.int64)
    order = np.argsort(gpu, kind="stable")
    home = gpu[order]
    place = np.arange(len(order)) - np.searchsorted(home, home)  # in its GPU
    stays = place < np.array(instance.slots)[home]
    out[instance.slot_start[home[stays]] + place[stays]] = held[order[stays]]
    return out


def in_old_slots(instance: PlacementInstance, held: NDArray[np.integer], row: int) -> NDArray[np.int64]:
    """(S,) the same experts on every GPU, those that stay in the slot they have now, the others in the rest by id.

    >>> instance = PlacementInstance([[1, 1, 1, 1]], gpus=2, slots=4, current=[[2, 1, 0, 3]])
    >>> in_old_slots(instance, np.array([1, 2, 0, 3]), 0).tolist()
    [2, 1, 0, 3]
    """
    before = old_slots(instance, row)
    out = np.array(held, dtype=np.int64)
    for gpu in np.unique(instance.gpu_of_slot[out != before]).tolist():
        slots = range(int(instance.slot_start[gpu]), int(instance.slot_start[gpu + 1]))
        left = sorted(int(held[slot]) for slot in slots if held[slot] != EMPTY)
        out[slots.start : slots.stop] = EMPTY
        for slot in slots:
            expert = int(before[slot])
            if expert in left:
                out[slot] = expert
                left.remove(expert)
        for slot in slots:
            if out[slot] == EMPTY and left:
                out[slot] = left.pop(0)
    return out
