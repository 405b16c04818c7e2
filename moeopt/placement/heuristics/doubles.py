"""Take the second copy of an expert off a GPU, at the least cost to the busiest GPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.instance import PlacementInstance


def doubled_rows(instance: PlacementInstance, slot_expert: NDArray[np.integer]) -> NDArray[np.int64]:
    """Layers in which a GPU holds an expert twice and may not."""
    if not instance.distinct:
        return np.zeros(0, dtype=np.int64)
    small = instance.num_gpus * instance.num_experts < 2**31  # sorts in half the time
    first = (instance.gpu_of_slot * instance.num_experts).astype(np.int32 if small else np.int64)
    keys = first + slot_expert.astype(first.dtype, copy=False)
    keys.sort(axis=1)
    return np.flatnonzero((keys[:, 1:] == keys[:, :-1]).any(axis=1))


def replace_doubles(
    instance: PlacementInstance, slot_expert: NDArray[np.integer], weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.int32], list[str]]:
    """Repair every GPU that holds an expert twice, where the instance asks for distinct replicas.

    A doubled copy is swapped with a replica on another GPU (of the same node where groups are kept), the swap that
    raises the busiest GPU least; where no swap is legal it gives its slot to the heaviest expert the GPU lacks, which
    changes the counts. `weights` (L, E) stand in for those of the instance.

    Returns
    -------
    (ndarray, list)
        (L, S) the repaired plan, and notes on what was done.
    """
    out = np.array(slot_expert, dtype=np.int32)
    bad = doubled_rows(instance, out)
    replaced = 0
    for row in bad:
        replaced += _repair(instance, out[row], (instance.weights if weights is None else weights)[row])
    if not bad.size:
        return out, []
    notes = [f"second copies on a GPU were swapped away in {len(bad)} layer{'s' * (len(bad) > 1)}"]
    if replaced:
        notes.append(f"{replaced} second copies gave their slot to another expert, as no swap was legal")
    return out, notes


def _repair(instance: PlacementInstance, row: NDArray[np.int32], loads: NDArray[np.float64]) -> int:
    replaced = 0
    gpu = instance.gpu_of_slot
    pace = 1.0 / np.array(instance.speed)
    node = np.array(instance.node)
    keys = row.astype(np.int64) * instance.num_gpus + gpu
    held = np.bincount(keys, minlength=instance.num_experts * instance.num_gpus)
    held = held.reshape(instance.num_experts, instance.num_gpus)
    while True:
        counts = np.bincount(row, minlength=instance.num_experts)
        size = loads / np.maximum(counts, 1)
        doubled = np.flatnonzero(held[row, gpu] > 1)
        if not len(doubled):
            return replaced
        slot = int(doubled[np.argmax(size[row[doubled]])])
        expert, home = int(row[slot]), int(gpu[slot])
        legal = (held[expert][gpu] == 0) & (held[row, home] == 0)
        if instance.hierarchical:
            legal &= node[gpu] == node[home]
        cost = np.bincount(gpu, weights=size[row], minlength=instance.num_gpus)
        shift = size[expert] - size[row]
        worst = np.maximum((cost[home] - shift) * pace[home], (cost[gpu] + shift) * pace[gpu])
        if legal.any():
            other = int(np.argmin(np.where(legal, worst, np.inf)))
            mate, there = int(row[other]), int(gpu[other])
            row[slot], row[other] = mate, expert
            held[expert, home] -= 1
            held[expert, there] += 1
            held[mate, there] -= 1
            held[mate, home] += 1
            continue
        lacking = held[:, home] == 0
        if instance.hierarchical:
            assert instance.groups is not None
            groups = np.array(instance.groups)
            lacking &= np.isin(groups, np.unique(groups[row[node[gpu] == node[home]]]))
        row[slot] = int(np.argmax(np.where(lacking, size, -1.0)))
        held[expert, home] -= 1
        held[row[slot], home] += 1
        replaced += 1
