"""How many source GPUs use the replica in each slot, under an engine's fixed dispatch rule; batched over layers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def sources_per_slot(slot_expert: NDArray[np.integer], gpu: Ints, node: Ints, sources: Ints) -> Ints:
    """(L, S) source GPUs that use the replica in each slot; 0 for an empty slot (-1).

    A source with a replica uses the first one on it; the other sources of a node take turns over the node's replicas;
    those of nodes without any take turns over all replicas, in slot order. Without preference for the node, put all
    GPUs on one.

    Parameters
    ----------
    slot_expert, gpu
        (L, S) expert in each slot, slots in GPU-major order; (S,) GPU of each slot.
    node, sources
        (G,) node of each GPU, 0..N-1; (N,) its GPUs that hold tokens, all GPUs with slots among them.

    >>> two_nodes = np.array([0, 0, 1, 1]), np.array([2, 2])
    >>> sources_per_slot(np.array([[0, 1, 0, 0]]), np.arange(4), *two_nodes).tolist()
    [[2, 4, 1, 1]]
    >>> sources_per_slot(np.array([[0, 1, 0, 0]]), np.arange(4), np.zeros(4, int), np.array([4])).tolist()
    [[2, 4, 1, 1]]
    """
    num_layers, num_slots = slot_expert.shape
    num_nodes = len(sources)
    width = int(slot_expert.max(initial=0)) + 1
    at = np.flatnonzero(slot_expert.ravel() >= 0)  # filled slots, layer by layer
    out = np.zeros(num_layers * num_slots, dtype=np.int64)
    if not len(at):
        return out.reshape(num_layers, num_slots)
    home = gpu[at % num_slots]
    key = slot_expert.ravel()[at].astype(np.int64) + (at // num_slots) * width  # (layer, expert)
    place, count, group = _ranks(key)
    near = key * num_nodes + node[home]
    near_place, near_count, near_group = _ranks(near)
    first = _ranks(key * len(node) + home)[0] == 0
    served = np.bincount(near_group, weights=first).astype(np.int64)[near_group]  # GPUs of the node with a replica
    reached = np.bincount(group, weights=(near_place == 0) * sources[node[home]]).astype(np.int64)[group]
    left, rest = sources[node[home]] - served, sources.sum() - reached
    out[at] = first + _turns(left, near_count, near_place) + _turns(rest, count, place)
    return out.reshape(num_layers, num_slots)


def _turns(dealt: Ints, takers: Ints, place: Ints) -> Ints:
    """How often each of `takers` is hit when `dealt` sources go over them in turn."""
    turns: Ints = dealt // takers + (place < dealt % takers)
    return turns


def _ranks(key: Ints) -> tuple[Ints, Ints, Ints]:
    """Of every entry: its place among the entries of its key, their number, and the number of the key."""
    _, group, count = np.unique(key, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    place = np.empty(len(key), dtype=np.int64)
    place[order] = np.arange(len(key)) - np.repeat(np.cumsum(count) - count, count)
    return place, count[group], group
