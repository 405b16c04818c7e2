"""What a failure leaves of the running plan, and what it takes to get from there to another plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.feasible import allowed_pairs

if TYPE_CHECKING:
    from moeopt.placement.instance import PlacementInstance

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FLOW_PAIRS = 60_000
"""(expert, GPU) pairs up to which the flow with the fewest new pairs is solved, some tenths of a second a layer."""


@dataclass(frozen=True)
class Running:
    """What is left of the running plan of one layer.

    ``held`` (S,) experts that stay in their slots, -1 where something must come; ``known`` (E, G) pairs that are
    there; ``readable`` (E, G) where an expert can be copied from, retiring GPUs among them; ``lost`` experts that no
    GPU has.
    """

    held: Ints
    known: Flags
    readable: Flags
    lost: tuple[int, ...]


def running(instance: PlacementInstance, layer: int) -> Running:
    """Cut the GPUs that are gone out of the running plan; replicas beyond a GPU's slots and second ones are dropped."""
    assert instance.current is not None and instance.current_gpu is not None
    experts, gpus = instance.num_experts, instance.num_gpus
    plain = _plain(instance, layer)
    if plain is not None:
        return plain
    known, readable = np.zeros((experts, gpus), dtype=bool), np.zeros((experts, gpus), dtype=bool)
    held = np.full(instance.num_slots, -1, dtype=np.int64)
    allowed = allowed_pairs(instance)
    here: list[list[int]] = [[] for _ in range(gpus)]
    for expert, gpu in zip(instance.current[layer].tolist(), instance.current_gpu, strict=True):
        if gpu in instance.lost:
            continue
        if expert >= 0:
            readable[expert, gpu] = True
        here[gpu].append(expert)
    counts = readable.sum(axis=1)
    for gpu, row in enumerate(here):
        room = instance.slots[gpu]
        if not room:
            continue
        kept: list[int] = []
        for expert in row:
            double = instance.distinct and expert in kept
            kept.append(-1 if expert < 0 or double or not allowed[expert, gpu] else expert)
        while len(kept) > room:  # a smaller GPU: empty slots go first, then what has most replicas elsewhere
            gone = max(range(len(kept)), key=lambda at: (kept[at] < 0, counts[kept[at]] if kept[at] >= 0 else 0, at))
            del kept[gone]
        start = int(instance.slot_start[gpu])
        held[start : start + len(kept)] = kept
        known[[expert for expert in row if expert >= 0], gpu] = True
    lost = np.flatnonzero(~readable.any(axis=1))
    return Running(held, known, readable, tuple(lost.tolist()))


def _plain(instance: PlacementInstance, layer: int) -> Running | None:
    """The same at once, where slots are as before and nothing has to go but what lies on GPUs that are gone."""
    assert instance.current is not None and instance.current_gpu is not None
    at = np.array(instance.current_gpu)
    if len(at) != sum(instance.slots_before) or instance.constrained:
        return None
    if (at != np.repeat(np.arange(instance.num_gpus), instance.slots_before)).any():
        return None
    row = instance.current[layer].astype(np.int64)
    stays = np.array(instance.slots)[at] > 0
    readable = np.zeros((instance.num_experts, instance.num_gpus), dtype=bool)
    seen = (row >= 0) & ~np.isin(at, instance.lost)
    readable[row[seen], at[seen]] = True
    if instance.distinct and int(readable.sum()) < int(seen.sum()):
        return None  # a second replica on a GPU
    known = readable & (np.array(instance.slots) > 0)[None, :]
    lost = np.flatnonzero(~readable.any(axis=1))
    return Running(row[stays], known, readable, tuple(lost.tolist()))


def describe(
    instance: PlacementInstance, held: NDArray[np.integer], before: Sequence[Running] | None = None
) -> dict[str, Any]:
    """What it takes to get from the running plan to `held`: every load from storage, every copy and its source.

    Of a lost expert the first new replica (lowest slot) is loaded from storage, others are copied from it. Two replicas
    on one GPU come once.
    """
    if before is None:
        before = [running(instance, layer) for layer in range(instance.num_layers)]
    gpus: Ints = instance.gpu_of_slot
    layers: list[dict[str, Any]] = []
    loads = copies = 0
    for layer, state, row in zip(instance.layers, before, held, strict=True):
        from_storage: list[list[int]] = []
        copied: list[list[int]] = []
        loaded: dict[int, int] = {}
        came: set[tuple[int, int]] = set()
        fresh = (row >= 0) & ~state.known[np.maximum(row, 0), gpus]
        for slot in np.flatnonzero(fresh).tolist():
            expert, gpu = int(row[slot]), int(gpus[slot])
            if (expert, gpu) in came:
                continue
            came.add((expert, gpu))
            sources = np.flatnonzero(state.readable[expert])
            if len(sources):
                copied.append([expert, _nearest(instance, sources, gpu), gpu, slot])
            elif expert in loaded:
                copied.append([expert, loaded[expert], gpu, slot])
            else:
                loaded[expert] = gpu
                from_storage.append([expert, gpu, slot])
        layers.append({"layer": layer, "lost": list(state.lost), "from_storage": from_storage, "copied": copied})
        loads += len(from_storage)
        copies += len(copied)
    fewest = fewest_moves(instance, before)
    return {
        "lost_gpus": list(instance.lost),
        "retired_gpus": list(instance.retire),
        "storage_loads": loads,
        "storage_loads_fewest": sum(len(state.lost) for state in before),
        "moves": loads + copies,
        "moves_fewest": None if fewest is None else sum(fewest),
        "layers": layers,
    }


def _nearest(instance: PlacementInstance, sources: Ints, gpu: int) -> int:
    """A source on the same node where there is one, else the lowest id."""
    near = [int(source) for source in sources if instance.node[source] == instance.node[gpu]]
    return near[0] if near else int(sources[0])


def said(report: dict[str, Any]) -> list[str]:
    """The repair in a sentence."""
    moves, loads, least = report["moves"], report["storage_loads"], report["storage_loads_fewest"]
    copies = moves - loads
    copied = f"{copies:,} copies from GPUs that are left"
    found = [
        f"repair: {least:,} (layer, expert) pairs were lost with their last replica; {loads:,} loads from storage "
        f"(fewest possible: {least:,}), {copied}"
        if report["lost_gpus"] or loads
        else f"repair: no expert has to come from storage; {copied}"
    ]
    if moves == report["moves_fewest"]:
        found.append("repair: nothing moves that need not; the bound is that of any plan, and max_moves allows more")
    return found


def fewest_moves(instance: PlacementInstance, before: Sequence[Running] | None = None) -> list[int] | None:
    """The least number of new pairs of each layer that restores every expert; ``None`` where no closed form tells.

    Every expert without a replica on a GPU that stays needs one, and so does every slot that is empty and must be
    filled; a spare replica anywhere can give its slot to an expert that is nowhere. Where a GPU may hold an expert
    twice, a slot is filled by what is there, and only a GPU that has nothing needs one.

    >>> from moeopt.placement.instance import PlacementInstance
    >>> running = [[0, 1, 2, 2, 3, 0]]
    >>> fewest_moves(PlacementInstance([[1, 1, 1, 1]], gpus=3, slots=6, current=running, lost=[0]))
    [1]
    """
    simple = not instance.constrained and max(instance.min_replicas) == 1 and not instance.survive_nodes
    if instance.current is None or not simple or instance.hierarchical:
        return None
    assert instance.current_gpu is not None
    held = np.bincount(np.array(instance.current_gpu), minlength=instance.num_gpus)
    if (held > np.array(instance.slots_before)).any():
        return None  # which replicas leave a GPU that shrinks is a choice
    found = []
    for layer in range(instance.num_layers):
        state = running(instance, layer) if before is None else before[layer]
        there = np.zeros(instance.num_experts, dtype=bool)
        there[state.held[state.held >= 0]] = True
        empty = 0
        if instance.fill == "all":
            empty = int((state.held < 0).sum() if instance.distinct else bare_gpus(instance, state.known).sum())
        found.append(max(int((~there).sum()), empty))
    return found


def bare_gpus(instance: PlacementInstance, there: Flags) -> Flags:
    """(G,) GPUs that have slots and none of the pairs `there` (E, G)."""
    bare: Flags = (np.array(instance.slots) > 0) & ~there.any(axis=0)
    return bare


def homes(instance: PlacementInstance, before: Running) -> Ints:
    """(E,) place in `node_ids` of each expert's group: where most of it is, every node with equally many groups."""
    assert instance.groups is not None
    ids = sorted(set(instance.groups))
    each = len(ids) // len(instance.node_ids)
    group = np.searchsorted(np.array(ids), np.array(instance.groups))
    votes = np.zeros((len(ids), len(instance.node_ids)), dtype=np.int64)
    for place, node in enumerate(instance.node_ids):
        on = before.known[:, np.array(instance.node) == node].any(axis=1)
        np.add.at(votes[:, place], group[on], 1)
    home = np.full(len(ids), -1)
    room = [each] * len(instance.node_ids)
    for flat in np.argsort(-votes, axis=None, kind="stable").tolist():
        one, place = divmod(flat, len(instance.node_ids))
        if home[one] < 0 and room[place]:
            home[one] = place
            room[place] -= 1
    return np.asarray(home[group])
