"""Transfers that belong together: chains and rings of slots, each giving its expert on to the next.

A slot that is overwritten loses an expert; where that expert is wanted elsewhere, the two slots are linked. Linked up,
the transfers of a layer fall into chains, which may be carried out from their end in any portions, and rings, where no
expert need have a copy to spare if all change places at once. Whatever is linked keeps its number of replicas, and the
ends of chains only take away what the new plan has less of: so chains and rings are safe in any order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InstanceError, Violation
from moeopt.placement.moves import EMPTY

Unit = list[tuple[int, int]]
"""(slot, expert written into it); in a chain each slot's former expert goes into the next one."""


def units(held: NDArray[np.int64], goal: NDArray[np.int64]) -> list[Unit]:
    """Chains and rings that turn `held` (S,) into `goal` (S,); rings close on themselves.

    >>> units(np.array([0, 1, 2]), np.array([1, 0, 0]))
    [[(2, 0)], [(0, 1), (1, 0)]]
    """
    slots = np.flatnonzero(held != goal).tolist()
    wanted: defaultdict[int, list[int]] = defaultdict(list)
    for slot in slots:
        if goal[slot] != EMPTY:
            wanted[int(goal[slot])].append(slot)
    after: dict[int, int] = {}
    for slot in slots:
        out = int(held[slot])
        if out != EMPTY and wanted[out]:
            after[slot] = wanted[out].pop(0)
    firsts = sorted(set(slots) - set(after.values()))
    found: list[Unit] = []
    seen: set[int] = set()
    for first in [*firsts, *slots]:
        unit: Unit = []
        at: int | None = first
        while at is not None and at not in seen:
            seen.add(at)
            unit.append((at, int(goal[at])))
            at = after.get(at)
        if unit:
            found.append(unit)
    return found


def fitting(
    unit: Unit,
    held: NDArray[np.int64],
    needed: NDArray[np.int64],
    gpu: NDArray[np.int64],
    most: int,
    per_gpu: int,
) -> Iterator[Unit]:
    """The unit in parts that each fit a step, in an order that is safe; a part is carried out at once.

    Raises
    ------
    InstanceError
        A ring has no copy to spare and not even an exchange of two fits.
    """
    if _fits(unit, gpu, most, per_gpu):
        yield unit
        return
    counts = Counter(held[held >= 0].tolist())
    last_out = int(held[unit[-1][0]])
    if last_out == unit[0][1]:  # a ring: open it where the expert overwritten first has a copy to spare
        for turn in range(len(unit)):
            out = int(held[unit[turn][0]])
            if counts[out] > needed[out]:
                yield from _from_the_end([*unit[turn + 1 :], *unit[: turn + 1]], gpu, most, per_gpu)
                return
        for turn in range(len(unit)):
            parts = list(_portions([*unit[turn:], *unit[:turn]], held, gpu, most, per_gpu))
            if all(_fits(part, gpu, most, per_gpu) for part in parts):
                yield from parts
                return
        name, limit = ("max_transfers", most) if most < 2 else ("max_per_gpu", per_gpu)
        rule = "experts with one copy each can only change places at once, with 2 transfers or more in a step"
        raise InstanceError([Violation(name, "", str(limit), rule, "Use 2 or more")])
    yield from _from_the_end(unit, gpu, most, per_gpu)


def _fits(unit: Unit, gpu: NDArray[np.int64], most: int, per_gpu: int) -> bool:
    crowd = Counter(int(gpu[slot]) for slot, _ in unit)
    return len(unit) <= most and max(crowd.values()) <= per_gpu


def _from_the_end(unit: Unit, gpu: NDArray[np.int64], most: int, per_gpu: int) -> Iterator[Unit]:
    """A chain in portions, its end first: what a later portion overwrites has been written on already."""
    part: Unit = []
    for one in reversed(unit):
        if part and not _fits([one, *part], gpu, most, per_gpu):
            yield part
            part = []
        part.insert(0, one)
    if part:
        yield part


def _portions(unit: Unit, held: NDArray[np.int64], gpu: NDArray[np.int64], most: int, per_gpu: int) -> Iterator[Unit]:
    """A ring in portions: in each all but one expert come to where they belong, and one waits in the first slot."""
    first = unit[0][0]
    part: Unit = []
    for one in unit[1:]:
        if part and not _fits([*part, one, (first, EMPTY)], gpu, most, per_gpu):
            yield [*part, (first, int(held[part[-1][0]]))]
            part = []
        part.append(one)
    yield [*part, (first, int(held[part[-1][0]]))]
