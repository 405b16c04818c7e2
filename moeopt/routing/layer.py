"""One layer in whole numbers: what must be done where, and what may be split; see ``models/routing.md``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels.splitting import Pairs

Ints = NDArray[np.int64]

LARGEST = 2**62
"""Products of loads and speeds below it are exact in 64 bits, with room for one sum."""


@dataclass(frozen=True, eq=False)
class Hosting:
    """Where the experts of a layer lie.

    Parameters
    ----------
    expert, gpu, copies
        (Q,) the distinct (expert, GPU) pairs, in that order, and how many slots each of them has.
    first
        (E + 1,) first pair of each expert.
    """

    expert: Ints
    gpu: Ints
    copies: Ints
    first: Ints
    num_gpus: int

    @classmethod
    def of(cls, row: NDArray[np.integer], gpu_of_slot: Ints, num_experts: int, num_gpus: int) -> Hosting:
        """From the experts in the slots of a layer."""
        keys = row.astype(np.int64) * num_gpus + gpu_of_slot
        keys.sort()
        if keys[0] < 0:
            keys = keys[np.searchsorted(keys, 0) :]  # without the empty slots
        new = np.flatnonzero(keys[1:] != keys[:-1]) + 1
        copies = np.ones(len(keys), np.int64)
        if len(new) + 1 < len(keys):
            starts = np.concatenate([[0], new])
            keys, copies = keys[starts], np.diff(starts, append=len(keys))
        expert = keys // num_gpus
        first = np.zeros(num_experts + 1, np.int64)
        np.cumsum(np.bincount(expert, minlength=num_experts), out=first[1:])
        return cls(expert, keys - expert * num_gpus, copies, first, num_gpus)

    @cached_property
    def hosts(self) -> Ints:
        """(E,) distinct GPUs of each expert."""
        counts: Ints = np.diff(self.first)
        return counts

    @cached_property
    def replicas(self) -> Ints:
        """(E,) slots of each expert."""
        return np.bincount(self.expert, weights=self.copies, minlength=len(self.hosts)).astype(np.int64)

    @cached_property
    def filled(self) -> Ints:
        """(G,) slots that hold a replica."""
        return np.bincount(self.gpu, weights=self.copies, minlength=self.num_gpus).astype(np.int64)

    @cached_property
    def shared(self) -> Ints:
        """(M,) experts on two GPUs or more."""
        found: Ints = np.flatnonzero(self.hosts > 1)
        return found

    @cached_property
    def on_shared(self) -> Ints:
        """(P,) places of their pairs."""
        found: Ints = np.flatnonzero(self.hosts[self.expert] > 1)
        return found

    @cached_property
    def alone(self) -> Ints:
        """Places of the pairs of experts on one GPU only."""
        found: Ints = np.flatnonzero(self.hosts[self.expert] == 1)
        return found

    @cached_property
    def pairs(self) -> Pairs:
        """The shared experts and their GPUs, for the kernels."""
        gpu, hosts = self.gpu[self.on_shared], self.hosts[self.shared]
        expert = np.repeat(np.arange(len(hosts)), hosts)
        first, start = np.zeros(len(hosts) + 1, np.int64), np.zeros(self.num_gpus + 1, np.int64)
        np.cumsum(hosts, out=first[1:])
        np.cumsum(np.bincount(gpu, minlength=self.num_gpus), out=start[1:])
        return Pairs(first, gpu, expert, start, np.argsort(gpu, kind="stable"))


@dataclass(frozen=True, eq=False)
class Task:
    """A layer with the floor taken out, in whole units.

    Parameters
    ----------
    weight, base, speed
        (E,) and (G,) whole numbers in `unit` tokens, and (G,) speeds in `pace`: load of an expert that counts, what a
        GPU has to do whatever the split, speed.
    amount, floor
        (E,) what shares are parts of, and a replica's floor, in the same unit; 0 where the floor is the expert's,
        which is in `amount` then.
    unit, pace
        What one of these is worth; a cost of ``p / q`` is ``p / q * unit / pace`` tokens at speed 1.
    """

    weight: NDArray[Any]
    base: NDArray[Any]
    speed: NDArray[Any]
    amount: NDArray[Any]
    floor: int
    unit: Fraction
    pace: Fraction

    @property
    def worth(self) -> Fraction:
        """Tokens at speed 1 that a cost of 1 stands for."""
        return self.unit / self.pace

    @cached_property
    def fits(self) -> bool:
        """Whether 64 bits hold every product of a load and a speed."""
        amount = int(self.weight.sum()) + int(self.base.sum())
        return self.weight.dtype != object and 2 * (amount + 1) * (int(self.speed.sum()) + 1) < LARGEST


def exact_sum(values: NDArray[Any]) -> int:
    """The sum of whole numbers, none negative: in 64 bits where it fits."""
    if values.dtype != object and len(values) and int(values.max()) < LARGEST // len(values):
        return int(values.sum())
    return int(values.sum(dtype=object))


def whole_numbers(values: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """Whole multiples of one unit, and the unit.

    >>> whole_numbers([Fraction(1, 2), Fraction(2, 3)])
    ([3, 4], Fraction(1, 6))
    """
    bottom = math.lcm(*{value.denominator for value in values}) if values else 1
    return [value.numerator * (bottom // value.denominator) for value in values], Fraction(1, bottom)
