"""Counts before packing: a start whose replica counts leave room for a good packing, where slots on a GPU are few.

With few slots a heavy piece needs light companions, and greedy counts, which only make the largest piece small, leave
too few of them. `moeopt.kernels.settle` searches counts by a number that no packing of them can beat; what it finds is
packed largest first (two slots a GPU: heaviest with lightest, which attains the number but for repaired doubles).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import settle
from moeopt.kernels.counts import greedy_counts
from moeopt.kernels.lpt import pack
from moeopt.limits import Deadline
from moeopt.placement.heuristics.deep import Engine, Part
from moeopt.placement.heuristics.doubles import replace_doubles
from moeopt.placement.instance import PlacementInstance

TRIES, TRIES_OF_TWO = 8_000, 4_000
"""Exchanges tried before counts are given up, 2 ms compiled for 288 slots in pairs; the default iteration limit."""
CHUNK_COMPILED, CHUNK_INTERPRETED = 256, 4
"""Exchanges between two looks at the clock."""


@dataclass(frozen=True)
class CountFirst:
    """A start (S,) and the number that no packing of its counts can beat."""

    held: NDArray[np.int64]
    number: float


def countable(part: Part) -> bool:
    """Equal GPUs with two slots or more, all filled, and no rule that a packing of given counts might break."""
    alike = len(set(part.slots)) == 1 and part.slots[0] > 1 and len(set(part.speed)) == 1
    return alike and not (part.may_be_empty or part.rule.size or part.base or part.spread > 1)


def number_of(part: Part, counts: NDArray[np.int64]) -> float:
    """The number that no packing of these counts can beat, at the speed of the GPUs.

    >>> empty = np.zeros((0, 0), np.int8)
    >>> part = Part(np.array([6.0, 2.0, 1.0]), 0.0, (2, 2), (1.0, 1.0), empty, True, False)
    >>> number_of(part, np.array([2, 1, 1]))
    5.0
    """
    pieces = np.repeat(np.maximum(part.loads / counts, part.floor), counts)
    return float(numbers_of(pieces[None, :], len(part.slots))[0]) / part.speed[0]


def numbers_of(pieces: NDArray[np.float64], num_gpus: int) -> NDArray[np.float64]:
    """(L,) the same for the pieces (L, S) of many layers on equal GPUs of speed 1."""
    num_layers, num_slots = pieces.shape
    rising = np.sort(pieces, axis=1)
    heavy = rising[:, : -num_gpus - 1 : -1]
    light = rising[:, : num_slots - num_gpus].reshape(num_layers, num_gpus, -1).sum(axis=2)
    together: NDArray[np.float64] = heavy + light
    if num_slots > 2 * num_gpus:
        together = np.cumsum(together, axis=1) / np.arange(1, num_gpus + 1)
    top: NDArray[np.float64] = together.max(axis=1)
    return top


def count_first(
    part: Part, goal: float, seed: int, *, tries: int | None, deadline: Deadline, by: Engine
) -> list[CountFirst]:
    """Starts by rising number, none where the search is interpreted under a deadline, for which it is too slow.

    Counts are searched from the greedy ones until their number is at most `goal` or `tries` are up. With three slots
    or more the lowest number may be out of reach of any packing: what was best on the way there comes too.
    """
    if deadline.limited and not by.compiled:
        return []
    slots, num_gpus, speed = part.slots[0], len(part.slots), part.speed[0]
    counts = greedy_counts(part.loads[None, :], slots * num_gpus, part.most, part.smallest)[0]
    best = counts.copy()
    memory = settle.forget()
    rng = np.array([1 + (seed * 2654435761 + 54321) % 2147483645], dtype=np.int64)
    run = settle.settle if by.compiled else settle.settle.plain()
    chunk = CHUNK_COMPILED if by.compiled else CHUNK_INTERPRETED
    if tries is None:
        tries = TRIES if slots > 2 else TRIES_OF_TWO
    found: list[CountFirst] = []
    done = 0
    for until in (tries // 8, tries // 2, tries) if slots > 2 else (tries,):
        while True:
            todo = min(chunk, until - done) if deadline.watched else until - done
            run(
                *(part.loads, part.floor, counts, best, part.smallest, part.most),
                *(slots, num_gpus, goal * speed, todo, memory, rng),
            )
            done += todo
            if done >= until or memory[0] <= goal * speed or deadline.passed():
                break
        if not found or memory[0] < found[-1].number * speed:
            found.append(CountFirst(_packed(part, best), float(memory[0]) / speed))
    return found[::-1]


def _packed(part: Part, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(S,) heaviest with lightest where that is best, else largest first; doubles repaired."""
    num_gpus = len(part.slots)
    size = np.maximum(part.loads / counts, part.floor)
    if part.slots[0] == 2:
        order = np.argsort(-size, kind="stable")
        pieces = np.repeat(order, counts[order])
        held: NDArray[np.integer] = np.stack([pieces[:num_gpus], pieces[: num_gpus - 1 : -1]], axis=1).reshape(1, -1)
    else:
        held = pack(size[None, :], counts[None, :], part.slots, part.speed, distinct=part.distinct)
    fixed = replace_doubles(_alone(len(part.loads), part.slots, part.distinct), held, part.loads[None, :])[0]
    return np.array(fixed[0], dtype=np.int64)


@lru_cache(maxsize=16)
def _alone(num_experts: int, slots: tuple[int, ...], distinct: bool) -> PlacementInstance:
    """GPUs and experts of a part, with no loads to speak of: built once for all layers."""
    return PlacementInstance(np.ones((1, num_experts)), slots=list(slots), distinct=distinct)
