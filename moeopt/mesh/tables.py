"""Tables over budgets, in whole numbers: replicas side by side, phases that wait for one another, demands that share.

A budget is a cell ``(g_1, g_2, ...)``, steps of GPUs of each type; a table says what is served within each budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from moeopt.mesh.clock import look

Ints = NDArray[np.int64]
Cell = tuple[int, ...]
Option = tuple[Cell, int, int]
"""Steps that one replica takes of each type, what it serves, and its name."""


class Node(ABC):
    """A table with a way back from its values to replicas."""

    values: Ints

    @abstractmethod
    def counts(self, cell: Cell) -> Counter[int]:
        """Replicas by name that serve what the table says of this budget."""

    @cached_property
    def corners(self) -> list[Cell]:
        """Budgets none of whose steps can be left out: where the table rises, and the empty one."""
        rises = self.values > 0
        for axis in range(self.values.ndim):
            before = _shifted(self.values, axis)
            rises &= self.values > before
            # along an axis at its very start a cell has nothing before it
        cells = [tuple(int(step) for step in cell) for cell in np.argwhere(rises)]
        return [tuple([0] * self.values.ndim), *cells]


def _shifted(values: Ints, axis: int) -> Ints:
    """Each cell's neighbour with one step less; -1 where there is none."""
    found = np.full_like(values, -1)
    there = [slice(None)] * values.ndim
    back = list(there)
    there[axis], back[axis] = slice(1, None), slice(None, -1)
    found[tuple(there)] = values[tuple(back)]
    return found


def _from(cell: Cell) -> tuple[slice, ...]:
    return tuple(slice(step, None) for step in cell)


def _rest(values: Ints, cell: Cell) -> Ints:
    """Values of budgets that are left when a cell is spent."""
    return values[tuple(slice(None, size - step) for size, step in zip(values.shape, cell, strict=True))]


class Replicas(Node):
    """Any number of replicas of each option, what they serve added up: an unbounded knapsack.

    >>> Replicas((7,), [((2,), 3, 0), ((3,), 5, 1)]).values.tolist()
    [0, 0, 3, 5, 6, 8, 10]
    """

    def __init__(self, shape: Sequence[int], options: Sequence[Option]) -> None:
        best: dict[Cell, tuple[int, int]] = {}
        for steps, serves, name in options:
            if serves > best.get(steps, (0, 0))[0]:
                best[steps] = (serves, name)
        self.options = [(steps, serves, name) for steps, (serves, name) in sorted(best.items())]
        self.values = np.zeros(tuple(shape), dtype=np.int64)
        for steps, serves, _ in self.options:
            look()
            times = 1
            while all(times * step < size for step, size in zip(steps, shape, strict=True)):
                cell = tuple(times * step for step in steps)
                more = _rest(self.values, cell) + times * serves
                np.maximum(self.values[_from(cell)], more, out=self.values[_from(cell)])
                times *= 2  # 1, 3, 7, ... of it, so that a few rounds reach any number

    def counts(self, cell: Cell) -> Counter[int]:
        """Replicas that serve what the table says."""
        found: Counter[int] = Counter()
        while self.values[cell] > 0:
            for lower in _steps_down(cell):
                if self.values[lower] == self.values[cell]:
                    cell = lower
                    break
            else:
                cell, name = next(self._last(cell))
                found[name] += 1
        return found

    def _last(self, cell: Cell) -> Iterator[tuple[Cell, int]]:
        for steps, serves, name in self.options:
            lower = tuple(have - step for have, step in zip(cell, steps, strict=True))
            if min(lower) >= 0 and self.values[lower] + serves == self.values[cell]:
                yield lower, name


def _steps_down(cell: Cell) -> Iterator[Cell]:
    for axis, step in enumerate(cell):
        if step:
            yield (*cell[:axis], step - 1, *cell[axis + 1 :])


class _Pair(Node):
    """A budget cut in two in the best way."""

    def __init__(self, left: Node, right: Node) -> None:
        self.left, self.right = (left, right) if len(left.corners) <= len(right.corners) else (right, left)
        self.values = np.zeros_like(left.values)
        for cell in self.left.corners:
            look()
            there = self.values[_from(cell)]
            both = self.joined(int(self.left.values[cell]), _rest(self.right.values, cell))
            np.maximum(there, both, out=there)

    @staticmethod
    @abstractmethod
    def joined(left: int, right: Ints) -> Ints:
        """What both parts serve."""

    def counts(self, cell: Cell) -> Counter[int]:
        """Replicas of both parts, cut where the table's value comes from."""
        for spent in self.left.corners:
            rest = tuple(have - step for have, step in zip(cell, spent, strict=True))
            if min(rest) < 0:
                continue
            both = self.joined(int(self.left.values[spent]), self.right.values[rest])
            if both == self.values[cell]:
                return self.left.counts(spent) + self.right.counts(rest)
        raise AssertionError("no cut has the value of the table")


class Added(_Pair):
    """Both parts serve the same requests."""

    @staticmethod
    def joined(left: int, right: Ints) -> Ints:
        """The sum."""
        return right + left


class Least(_Pair):
    """Each part serves requests that the other one has to serve as well, or has its own demand.

    >>> prefill, decode = Replicas((6,), [((3,), 10, 0)]), Replicas((6,), [((1,), 4, 1)])
    >>> both = Least(prefill, decode)
    >>> both.values.tolist(), sorted(both.counts((5,)).items())
    ([0, 0, 0, 0, 4, 8], [(0, 1), (1, 2)])
    """

    @staticmethod
    def joined(left: int, right: Ints) -> Ints:
        """The smaller one."""
        return np.minimum(right, left)
