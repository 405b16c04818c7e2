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
    gpu = instance.gpu_of_slot
    table = np.zeros((instance.num_gpus, instance.num_experts), dtype=np.int64)
    for expert in range(instance.num_experts):
        slots = np.flatnonzero(held == expert)
        if len(slots) == 1:
            table[:, expert] = slots[0]
            continue
        table[:, expert] = [_choose(instance, slots, gpu[slots], source) for source in range(instance.num_gpus)]
    return table


def _choose(instance: CollocationInstance, slots: Ints, gpus: Ints, source: int) -> int:
    if instance.replica_rule == "even":
        return int(slots[source % len(slots)])
    if instance.replica_rule == "nearest" and (gpus == source).any():
        return int(slots[gpus == source][0])
    group = instance.landing
    count = int(group.max()) + 1
    ahead = (group[gpus] - group[source]) % count  # 0 is its own node
    near = slots[ahead == ahead.min()]
    return int(near[instance.place_in_node[source] % len(near)])
