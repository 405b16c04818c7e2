"""What is wrong with a table of experts in slots, whoever wrote it: ids, cover, doubles, empty slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_FAULTS = 200
"""How many faults of one kind are listed."""


def map_faults(
    slot_expert: NDArray[np.int32],
    layers: Sequence[int],
    num_experts: int,
    slots: Sequence[int] | None,
    *,
    doubles: bool = False,
    empty: bool = False,
    most: int = MAX_FAULTS,
) -> list[str]:
    """Every fault of a map, each naming its place; of one kind the first `most` and the number of the rest.

    Parameters
    ----------
    slot_expert
        (L, S) experts, GPU-major, -1 empty.
    layers
        L layer ids.
    num_experts
        E: ids run from 0 to E - 1, and every layer has to hold each of them.
    slots
        Slots of each GPU; ``None``: not known, doubles are then not looked for.
    doubles, empty
        Two replicas of an expert on one GPU, and empty slots, are fine.
    most
        How many faults of a kind are named.

    >>> map_faults(np.array([[0, 1]], np.int32), [3], 9, None, most=2)[:-1]
    ['layer 3: expert 2 is in no slot', 'layer 3: expert 3 is in no slot']
    >>> map_faults(np.array([[0, 1]], np.int32), [3], 9, None, most=2)[-1]
    '... and 5 more experts that are in no slot of a layer: 7 in all'
    >>> map_faults(np.array([[0, 0, 2, 1]], np.int32), [3], 4, (2, 2))
    ['layer 3: expert 3 is in no slot', 'layer 3: expert 0 lies twice on GPU 0 (slots 0, 1)']
    """
    found: list[str] = []
    table = np.asarray(slot_expert)
    bad = (table >= num_experts) | (table < (-1 if empty else 0))
    hollow = bad & (table == -1)
    found += _listed(
        [f"layer {layers[row]}: slot {slot} is empty, every slot has to hold an expert" for row, slot in _of(hollow)],
        most,
        "empty slots",
    )
    found += _listed(
        [
            f"layer {layers[row]}: slot {slot} holds expert {table[row, slot]}, ids run from 0 to {num_experts - 1}"
            for row, slot in _of(bad & ~hollow)
        ],
        most,
        "slots with such an id",
    )
    known = np.where(bad | (table < 0), num_experts, table)  # what is no expert is counted aside
    keys = known + np.arange(len(table))[:, None] * (num_experts + 1)
    held = np.bincount(keys.ravel(), minlength=len(table) * (num_experts + 1)).reshape(len(table), num_experts + 1)
    found += _listed(
        [f"layer {layers[row]}: expert {expert} is in no slot" for row, expert in _of(held[:, :num_experts] == 0)],
        most,
        "experts that are in no slot of a layer",
    )
    if slots is not None and not doubles and sum(slots) == table.shape[1]:
        found += _listed(double_slots(known, layers, num_experts, slots), most, "doubles")
    return found


def double_slots(table: NDArray[np.int32], layers: Sequence[int], num_experts: int, slots: Sequence[int]) -> list[str]:
    """A line for each expert that lies more than once on a GPU; ids beyond E - 1 and empty slots are left aside."""
    gpu = np.repeat(np.arange(len(slots)), slots)
    known = (table >= 0) & (table < num_experts)
    keys = np.where(known, gpu * num_experts + table, -1)
    ordered = np.sort(keys, axis=1)
    rows = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)).tolist()
    found = []
    for row in rows:
        values, counts = np.unique(keys[row][keys[row] >= 0], return_counts=True)
        for key in values[counts > 1]:
            where = np.flatnonzero(keys[row] == key)
            times = "twice" if len(where) == 2 else f"{len(where)} times"
            found.append(
                f"layer {layers[row]}: expert {key % num_experts} lies {times} on GPU {key // num_experts} "
                f"(slots {', '.join(map(str, where.tolist()))})"
            )
    return found


def _of(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    return [(int(row), int(column)) for row, column in np.argwhere(mask)]


def _listed(faults: list[str], most: int, what: str) -> list[str]:
    if len(faults) <= most + 1:
        return faults
    return [*faults[:most], f"... and {len(faults) - most:,} more {what}: {len(faults):,} in all"]
