"""Replica rules: which slot a token of each source GPU is sent to, expert by expert."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from moeopt.collocation.instance import CollocationInstance

Ints = NDArray[np.int64]


def dispatch_table(instance: CollocationInstance, held: Ints) -> Ints:
    """(G, E) the slot that tokens of each source GPU use of each expert.

    Parameters
    ----------
    held
        (S,) expert in each slot, every expert in one at least.

    >>> from moeopt.collocation import CollocationInstance
    >>> two = CollocationInstance([[0, 1]], experts=3, nodes=2, gpus=2, slots=4)
    >>> dispatch_table(two, np.array([0, 1, 0, 2])).tolist()  # expert 0 is on both nodes, each uses its own
    [[0, 1, 3], [2, 1, 3]]
    """
    order = np.argsort(held, kind="stable")
    start = np.searchsorted(held[order], np.arange(instance.num_experts + 1))
    table = np.zeros((instance.num_gpus, instance.num_experts), dtype=np.int64)
    for expert in range(instance.num_experts):
        slots = order[start[expert] : start[expert + 1]]
        table[:, expert] = slots if len(slots) == 1 else _chosen(instance, slots, instance.gpu_of_slot[slots])
    return table


def _chosen(instance: CollocationInstance, slots: Ints, gpus: Ints) -> Ints:
    """(G,) for every source GPU one of the slots of an expert, on `gpus`."""
    if instance.replica_rule == "even":
        even: Ints = slots[np.arange(instance.num_gpus) % len(slots)]
        return even
    group = instance.landing
    ahead = (group[gpus] - group[:, None]) % (int(group.max()) + 1)  # (G, slots); 0 is its own node
    near = ahead == ahead.min(axis=1, keepdims=True)
    place = instance.place_in_node % near.sum(axis=1)
    found: Ints = slots[(near.cumsum(axis=1) > place[:, None]).argmax(axis=1)]
    if instance.replica_rule == "nearest":
        found[gpus[::-1]] = slots[::-1]  # its own, and the first of them
    return found
