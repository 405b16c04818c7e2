"""Swaps judged by the referee's own seconds, where the search's view of links is too coarse.

The search counts what comes into a unit, over the most that can: it cannot tell a plan from the one that sends as much
the slow way, and sees no GPU within a unit. Here every swap is priced on the links themselves, which costs a full count
each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import verify
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.rows import rows_of
from moeopt.limits import Deadline

Ints = NDArray[np.int64]

MOST_TRIES = 400
"""Plans that are counted, a layer."""
CELLS = 1 << 27
"""Cells (row, expert of it, source) that are counted, a layer."""


def lopsided(instance: CollocationInstance) -> bool:
    """Whether some link has another bandwidth one way than back."""
    if instance.cluster is None or instance.objective != "time":
        return False
    graph = instance.cluster.graph
    return any(
        not graph.has_edge(dst, src) or graph[dst][src]["bytes_per_s"] != speed
        for src, dst, speed in graph.edges(data="bytes_per_s")
    )


def needed(instance: CollocationInstance, row: int, held: Ints) -> bool:
    """Whether swaps priced on the links may win what the search could not see."""
    if lopsided(instance):
        return True
    if instance.cluster is None or instance.objective != "time":
        return False
    from moeopt.collocation.seconds import within_binds

    return within_binds(instance, verify.count(instance, row, held))


def polished(instance: CollocationInstance, row: int, held: Ints, seed: int, deadline: Deadline) -> Ints:
    """(S,) the plan after swaps of slots that the referee finds better, in random order, until none is or tries end."""
    found = held.copy()
    rng = np.random.default_rng([seed, row, 101])
    cells = max(1, rows_of(instance, row).sets.size * instance.num_gpus)
    left = min(MOST_TRIES, CELLS // cells)
    best, better = _value(instance, row, found), True
    while better:
        better = False
        for one, other in rng.permutation(np.stack(np.triu_indices(len(found), 1), axis=1)):
            if not _allowed(instance, found, int(one), int(other)):
                continue
            if left <= 0 or deadline.passed():
                return found
            left -= 1
            found[[one, other]] = found[[other, one]]
            value = _value(instance, row, found)
            if value < best:
                best, better = value, True
            else:
                found[[one, other]] = found[[other, one]]
    return found


def _allowed(instance: CollocationInstance, held: Ints, one: int, other: int) -> bool:
    """Whether a swap changes anything and puts no expert twice on a GPU."""
    gpu = instance.gpu_of_slot
    if gpu[one] == gpu[other] or held[one] == held[other]:
        return False
    for slot, there in ((one, other), (other, one)):
        if held[slot] >= 0 and held[slot] in held[gpu == gpu[there]]:
            return False
    return True


def _value(instance: CollocationInstance, row: int, held: Ints) -> tuple[float, float, float]:
    """Tokens above the cap, seconds, copies."""
    layer = verify.value(instance, verify.count(instance, row, held))
    over = 0.0 if instance.max_imbalance is None else max(0.0, layer.imbalance - instance.max_imbalance)
    assert layer.seconds is not None
    return over, layer.seconds, float(layer.copies)
