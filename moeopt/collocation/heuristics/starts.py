"""Where the search starts: experts in order, by load, by pairs, and at random."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation.heuristics import nets
from moeopt.collocation.heuristics.simple import dealt
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.rows import loads_of
from moeopt.limits import Deadline

Ints = NDArray[np.int64]

RANDOM = 2


def rooms(instance: CollocationInstance) -> Ints:
    """(U,) slots of each unit of the search."""
    return np.bincount(nets.search_units(instance), weights=instance.slots).astype(np.int64)


def completed(instance: CollocationInstance, unit: Ints) -> Ints:
    """(S,) the units of experts, and after them of the slots that are left."""
    room = rooms(instance) - np.bincount(unit, minlength=len(rooms(instance)))
    return np.concatenate([unit, np.repeat(np.arange(len(room)), room)]).astype(np.int64)


def by_load(instance: CollocationInstance, loads: Ints) -> Ints:
    """(E,) heaviest first to the unit with least load a slot that has room."""
    room, total = rooms(instance), np.zeros(len(rooms(instance)))
    left, unit = room.copy(), np.zeros(len(loads), dtype=np.int64)
    for expert in np.argsort(-loads, kind="stable"):
        open_units = np.flatnonzero(left > 0)
        best = open_units[np.argmin(total[open_units] / room[open_units])]
        unit[expert] = best
        left[best] -= 1
        total[best] += loads[expert]
    return unit


def in_order(instance: CollocationInstance) -> Ints:
    """(E,) experts in order, spread evenly where there is room to spare."""
    return dealt(rooms(instance), np.arange(instance.num_experts))


def starts(instance: CollocationInstance, row: int, seed: int, deadline: Deadline) -> Iterator[Ints]:
    """(S,) units of experts and empty slots, one start after the other; none that there is no time to load code for."""
    from moeopt.collocation.heuristics.kernighan_lin import halves, least_s
    from moeopt.collocation.heuristics.spectral import embedded

    loads = loads_of(instance, row)
    yield completed(instance, by_load(instance, loads))
    if instance.objective != "tokens" and instance.transport.merges:
        if deadline.allows_import("scipy.optimize"):
            yield completed(instance, embedded(instance, row))
        if not deadline.limited or deadline.remaining_s() > least_s(instance, row):
            yield completed(instance, halves(instance, row, seed, deadline))
    for turn in range(RANDOM):
        rng = np.random.default_rng([seed, row, turn])
        yield completed(instance, dealt(rooms(instance), rng.permutation(instance.num_experts)))
