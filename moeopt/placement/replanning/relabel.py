"""Which GPU plays which part: names that keep as many (expert, GPU) pairs of the running plan as can be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.instance import PlacementInstance
from moeopt.placement.moves import running_pairs


def relabelled(instance: PlacementInstance, held: NDArray[np.integer], row: int) -> NDArray[np.int64]:
    """(S,) the same sets of experts on GPUs named anew, for the fewest moves; the value stays the same.

    GPUs change names only with GPUs that are alike: equal slots, speed, constant load, pins and prohibitions; on one
    node where nodes count, and there nodes that are alike change names as a whole as well. An assignment of largest
    overlap (Hungarian method), so no other naming of this kind moves less; ties keep the name.

    Parameters
    ----------
    held
        (S,) expert in each slot of one layer.
    row
        Row of the layer.
    """
    num_gpus = instance.num_gpus
    start = instance.slot_start
    here = np.zeros((instance.num_experts, num_gpus), dtype=bool)
    filled = held >= 0
    here[held[filled], instance.gpu_of_slot[filled]] = True
    overlap = _overlap(here, running_pairs(instance, row))
    kinds = _kinds(instance, row)
    part_of = np.arange(num_gpus)
    if _nodes_count(instance):
        _deal_nodes(instance, overlap, kinds, part_of)
    else:
        _assign(overlap, kinds, np.arange(num_gpus), np.arange(num_gpus), part_of)
    out = np.empty(instance.num_slots, dtype=np.int64)
    for gpu in range(num_gpus):
        part = part_of[gpu]
        out[start[gpu] : start[gpu + 1]] = held[start[part] : start[part + 1]]
    return out


def _overlap(here: NDArray[np.bool_], before: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(G, G) experts that part g has and GPU h had, from two (E, G) tables.

    >>> _overlap(np.array([[True, False], [True, True]]), np.array([[False, True], [True, True]])).tolist()
    [[1, 2], [1, 1]]
    """
    num_gpus = here.shape[1]
    counts = before.sum(axis=1)
    experts, parts = np.nonzero(here)
    times = counts[experts]
    if times.sum() > here.size:  # many replicas: a product of tables, exact in float32, takes less
        return (here.T.astype(np.float32) @ before.astype(np.float32)).astype(np.int64)
    gpus = np.nonzero(before)[1]  # by expert
    first = np.cumsum(counts) - counts
    inside = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    pairs = np.repeat(parts, times) * num_gpus + gpus[np.repeat(first[experts], times) + inside]
    return np.bincount(pairs, minlength=num_gpus * num_gpus).reshape(num_gpus, num_gpus).astype(np.int64)


def _kinds(instance: PlacementInstance, row: int) -> NDArray[np.int64]:
    """(G,) the same number for GPUs that are alike."""
    rules: list[tuple[object, ...]] = [()] * instance.num_gpus
    for expert, gpu in instance.pin:
        rules[gpu] = (*rules[gpu], ("pin", expert))
    for banned, gpu in instance.forbid:
        rules[gpu] = (*rules[gpu], ("forbid", banned))
    base = [0.0] * instance.num_gpus if instance.base is None else instance.base[row].tolist()
    seen: dict[object, int] = {}
    return np.array(
        [seen.setdefault(kind, len(seen)) for kind in zip(instance.slots, instance.speed, rules, base, strict=True)]
    )


def _nodes_count(instance: PlacementInstance) -> bool:
    """Whether it matters which GPUs share a node."""
    return len(instance.node_ids) > 1 and bool(
        instance.hierarchical or instance.survive_nodes or instance.split == "sglang-static-node"
    )


def _assign(
    overlap: NDArray[np.int64],
    kinds: NDArray[np.int64],
    parts: NDArray[np.int64],
    gpus: NDArray[np.int64],
    part_of: NDArray[np.int64],
) -> int | None:
    """Give every GPU one of the parts, of its own kind; the overlap, or ``None`` when the kinds do not match."""
    from scipy.optimize import linear_sum_assignment

    if sorted(kinds[parts].tolist()) != sorted(kinds[gpus].tolist()):
        return None
    total = 0
    for kind in np.unique(kinds[gpus]):
        these, those = parts[kinds[parts] == kind], gpus[kinds[gpus] == kind]
        gain = overlap[np.ix_(these, those)]
        prefer = (these[:, None] == those[None, :]).astype(np.int64)
        rows, columns = linear_sum_assignment(gain * (len(those) + 1) + prefer, maximize=True)
        part_of[those[columns]] = these[rows]
        total += int(gain[rows, columns].sum())
    return total


def _deal_nodes(
    instance: PlacementInstance, overlap: NDArray[np.int64], kinds: NDArray[np.int64], part_of: NDArray[np.int64]
) -> None:
    """First the best names within every pair of nodes, then the best pairs of nodes."""
    from scipy.optimize import linear_sum_assignment

    nodes = np.array(instance.node)
    members = [np.flatnonzero(nodes == node) for node in instance.node_ids]
    count = len(members)
    gain = np.full((count, count), -(10**9), dtype=np.int64)
    inside = {}
    for part, parts in enumerate(members):
        for node, gpus in enumerate(members):
            trial = part_of.copy()
            total = _assign(overlap, kinds, parts, gpus, trial)
            if total is not None:
                gain[part, node] = total * (count + 1) + (part == node)
                inside[part, node] = trial[gpus]
    for part, node in zip(*linear_sum_assignment(gain, maximize=True), strict=True):
        part_of[members[node]] = inside[part, node]
