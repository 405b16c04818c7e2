"""Dearest fillings of a GPU under given prices: which pieces of known sizes, at most so many, fit and are worth most?

Two halves meet in the middle. The sums of all sets of half as many pieces are sorted once; under new prices a running
maximum gives the dearest set below every sum, and each set finds its best partner where the room left for one ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_SETS = 300_000
"""Larger lists of sets are not made."""
SLACK = 1 + 1e-12


@dataclass(frozen=True)
class Sets:
    """(n, k) all sets of k sizes with repetition, by rising sum, and the (n,) sums."""

    members: Ints
    total: Floats

    @classmethod
    def of(cls, sizes: Floats, pieces: int, limit: float) -> Sets | None:
        """The sets that fit under a limit; ``None`` when there are too many."""
        members = np.arange(len(sizes), dtype=np.int64)[:, None]
        total = sizes.copy()
        for _ in range(pieces - 1):
            # each set is extended by sizes from its last one on, as far as the sum fits
            last = members[:, -1]
            ends = np.searchsorted(sizes, (limit - total) * SLACK, side="right")
            room = np.maximum(ends - last, 0)
            if room.sum() > MOST_SETS:
                return None
            owner = np.repeat(np.arange(len(members)), room)
            offset = np.arange(len(owner)) - np.repeat(np.cumsum(room) - room, room)
            added = last[owner] + offset
            members = np.concatenate([members[owner], added[:, None]], axis=1)
            total = total[owner] + sizes[added]
        order = np.argsort(total, kind="stable")
        return cls(members[order], total[order])


class Fillings:
    """All fillings with at most `slots` pieces of some sizes, for one limit, under changing prices."""

    def __init__(self, sizes: Floats, slots: int, limit: float, halves: tuple[Sets, Sets]) -> None:
        self.slots = slots
        self.left, self.right = halves
        fits = self.left.total <= limit * SLACK
        self.members = self.left.members[fits]
        room = (limit - self.left.total[fits]) * SLACK
        self.partner = np.searchsorted(self.right.total, room, side="right") - 1

    def dearest(self, price: Floats, budget: float, count: int) -> tuple[float, list[list[int]]]:
        """Largest worth of a filling, and up to `count` fillings worth more than `budget`, different ones first."""
        if not len(self.members):
            return 0.0, []
        worth = price[self.members].sum(axis=1)
        other = price[self.right.members].sum(axis=1)
        top = np.maximum.accumulate(other)
        at = np.maximum.accumulate(np.where(other >= top, np.arange(len(other)), 0))
        total = worth + np.where(self.partner >= 0, top[self.partner], 0.0)
        best = float(total.max())
        if best <= budget + 1e-9:
            return best, []
        hopeful = np.flatnonzero(total > budget + 0.1 * (best - budget))
        hopeful = hopeful[np.argsort(-total[hopeful], kind="stable")]
        firsts = [np.unique(self.members[hopeful, column], return_index=True)[1] for column in (0, -1)]
        chosen = np.unique(hopeful[np.concatenate(firsts)])
        chosen = chosen[np.argsort(-total[chosen], kind="stable")][:count]
        found = set()
        for place in chosen:
            partner = self.partner[place]
            rest = self.right.members[at[partner]].tolist() if partner >= 0 else []
            found.add(tuple(sorted([*self.members[place].tolist(), *rest])))
        return best, [list(filling) for filling in sorted(found)]


def halves_of(sizes: Floats, slots: int, limit: float) -> tuple[Sets, Sets] | None:
    """Sets of the larger half of the slots, and of the smaller one (the same where both are equal)."""
    left = Sets.of(sizes, slots - slots // 2, limit)
    if left is None:
        return None
    if slots % 2 == 0:
        return left, left
    if slots == 1:
        return left, Sets(np.zeros((1, 0), dtype=np.int64), np.zeros(1))
    right = Sets.of(sizes, slots // 2, limit)
    return None if right is None else (left, right)


class ByCells:
    """All fillings with at most `slots` pieces whose sizes are whole numbers of cells: a walk over pieces and cells."""

    def __init__(self, cells: Ints, slots: int, room: int) -> None:
        self.cells, self.slots, self.room = cells, slots, room
        before = np.arange(room + 1)[None, :] - cells[:, None]
        self.before = np.where(before >= 0, before, room + 1)

    def dearest(self, price: Floats, budget: float, count: int) -> tuple[float, list[list[int]]]:
        """As `Fillings.dearest`."""
        best = np.zeros(self.room + 2)
        best[-1] = -np.inf
        last, tables = [], [best]
        for _ in range(self.slots):
            worth = tables[-1][self.before] + price[:, None]
            last.append(worth.argmax(axis=0))
            tables.append(np.append(worth.max(axis=0), -np.inf))
        with_each = tables[-2][self.before[:, self.room]] + price
        most = float(with_each.max())
        if most <= budget + 1e-9:
            return most, []
        hopeful = np.flatnonzero(with_each > budget + 0.1 * (most - budget))
        hopeful = hopeful[np.argsort(-with_each[hopeful], kind="stable")][:count]
        found = set()
        for first in hopeful.tolist():
            filling, room = [first], self.room - int(self.cells[first])
            for level in range(self.slots - 2, -1, -1):
                filling.append(int(last[level][room]))
                room -= int(self.cells[filling[-1]])
            found.add(tuple(sorted(filling)))
        return most, [list(filling) for filling in sorted(found)]
