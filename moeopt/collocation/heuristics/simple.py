"""Plans that look at no token: experts in order, and loads alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import EMPTY, Collocation
from moeopt.collocation.rows import loads_of
from moeopt.kernels.counts import greedy_counts
from moeopt.kernels.lpt import pack
from moeopt.registry import Context, Outcome

Ints = NDArray[np.int64]


def id_order(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
    """Experts in order, slot after slot, spare slots from expert 0 on: what engines load before anything is planned.

    Where slots may stay empty each GPU has as many experts as its share of the slots, and no replicas.
    """
    held = in_order(instance)
    return Outcome(Collocation.of(np.tile(held, (instance.num_layers, 1))))


def in_order(instance: CollocationInstance) -> Ints:
    """(S,) the slots of a layer as in `id_order`."""
    if instance.fill == "all":
        held = without_doubles(instance, np.arange(instance.num_slots) % instance.num_experts)
    else:
        gpu = dealt(instance.slots, np.arange(instance.num_experts))
        first = np.cumsum(instance.slots) - instance.slots
        held = np.full(instance.num_slots, EMPTY, dtype=np.int64)
        held[first[gpu] + np.arange(len(gpu)) - np.searchsorted(gpu, gpu)] = np.arange(len(gpu))
    return held


def dealt(room: Ints, order: Ints) -> Ints:
    """(E,) experts in that order into places one after the other, each as full as its share of the slots in `room`.

    >>> dealt(np.array([4, 2, 2]), np.arange(4)).tolist()
    [0, 0, 1, 2]
    """
    ends = np.floor(np.cumsum(room) * len(order) / room.sum() + 1e-9).astype(np.int64)
    place = np.zeros(len(order), dtype=np.int64)
    place[order] = np.searchsorted(ends, np.arange(len(order)), side="right")
    return place


def load_only(instance: CollocationInstance, context: Context) -> Outcome[Collocation]:
    """Replicas by load, heaviest first to the lightest GPU: what balancers do that know no pairs of experts."""
    return Outcome(Collocation.of(np.stack([by_load(instance, row) for row in range(instance.num_layers)])))


def by_load(instance: CollocationInstance, row: int) -> Ints:
    """(S,) experts in slots."""
    loads = loads_of(instance, row).astype(np.float64)[None]
    slots = instance.num_slots if instance.fill == "all" else instance.num_experts
    counts = greedy_counts(loads, slots, int((instance.slots > 0).sum()))
    held = pack(loads / counts, counts, [int(one) for one in instance.slots], distinct=True)
    return without_doubles(instance, held[0].astype(np.int64))


def without_doubles(instance: CollocationInstance, held: Ints) -> Ints:
    """The same with second copies on a GPU swapped for experts that it lacks."""
    held, gpu_of = held.copy(), instance.gpu_of_slot
    for slot in range(len(held)):
        expert, gpu = held[slot], gpu_of[slot]
        if expert < 0 or expert not in held[:slot][gpu_of[:slot] == gpu]:
            continue
        for other in range(len(held)):
            there, theirs = held[other], held[gpu_of == gpu_of[other]]
            if gpu_of[other] != gpu and there not in held[gpu_of == gpu] and expert not in theirs:
                held[slot], held[other] = there, expert
                break
    return held
