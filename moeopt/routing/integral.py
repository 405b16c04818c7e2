"""The optimum in whole tokens: the least cost at which every cut has room, by max-flows from the fractional optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import splitting
from moeopt.routing.bounds import least_level
from moeopt.routing.fractional import Optimum, settled
from moeopt.routing.layer import Hosting, Task

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WholeOptimum:
    """What was found for a layer.

    Parameters
    ----------
    value
        The cost of the busiest GPU, tokens at speed 1; exact.
    part
        (P,) whole tokens of each pair of a shared expert, without those that a floor is paid for.
    gpus, by_tokens
        The cut that proves the value, and whether it does so by whole tokens only.
    flows
        How many max-flows it took.
    """

    value: Fraction
    part: NDArray[Any]
    gpus: tuple[int, ...]
    by_tokens: bool
    flows: int


def whole_optimum(hosting: Hosting, task: Task, near: Optimum, *, compiled: bool = True) -> WholeOptimum:
    """Solve one layer of whole tokens, from its fractional optimum."""
    pairs, unit = hosting.pairs, int(1 / task.unit)  # a token is `unit` whole numbers; more than 1 only with odd bases
    base = settled(hosting, task)
    weight = task.weight[hosting.shared]
    first = pairs.first
    part = _rounded(near.part, near.of * unit, [int(one) // unit for one in weight.tolist()], first)
    load = np.zeros(len(base), dtype=part.dtype)
    np.add.at(load, pairs.gpu, part)
    run = splitting.balance if compiled and part.dtype != object else splitting.balance.plain()
    inside = np.zeros(len(base), dtype=np.bool_)
    levels = _Levels(base, weight, first, pairs.gpu, unit, task)
    value, gpus, flows = levels.least(near.value, near.gpus), near.gpus, 0
    while True:
        flows += 1
        target = levels.room(value).astype(part.dtype)
        if run(first, pairs.gpu, pairs.expert, pairs.start, pairs.pair, part, load, target, inside):
            return WholeOptimum(value, part, gpus, value > near.value, flows)
        gpus = tuple(np.flatnonzero(inside).tolist())
        value = levels.least(value, gpus)


class _Levels:
    """How many tokens fit at a cost, and at which cost a number of them fits."""

    def __init__(self, base: NDArray[Any], weight: NDArray[Any], first: Ints, gpu: Ints, unit: int, task: Task) -> None:
        self.base, self.weight, self.first, self.gpu, self.unit, self.task = base, weight, first, gpu, unit, task
        speeds = task.speed.tolist()
        self.pace: Fraction | None = speeds[0] * task.pace if unit == 1 and min(speeds) == max(speeds) else None
        if self.pace is None:
            self.fixed = [Fraction(int(one), unit) for one in base.tolist()]
            self.speeds = [int(one) * task.pace for one in speeds]

    def room(self, value: Fraction) -> NDArray[Any]:
        """(G,) tokens that each GPU can take."""
        if self.pace is not None:
            return int(value * self.pace // 1) - self.base
        room = [int((value * pace - more) // 1) for more, pace in zip(self.fixed, self.speeds, strict=True)]
        return np.array(room, dtype=self.base.dtype)

    def least(self, value: Fraction, gpus: Sequence[int]) -> Fraction:
        """The least cost from `value` on at which these GPUs have room for what they must do."""
        inside = np.zeros(len(self.base), dtype=np.bool_)
        inside[list(gpus)] = True
        tokens = 0
        if len(self.weight):
            within = np.logical_and.reduceat(inside[self.gpu], self.first[:-1])
            tokens = sum(self.weight[within].tolist()) // self.unit
        if self.pace is None:
            return least_level(value, [self.fixed[g] for g in gpus], [self.speeds[g] for g in gpus], tokens)
        level = -(-(sum(self.base[inside].tolist()) + tokens) // len(gpus))
        return Fraction(max(level, -int(-value * self.pace // 1))) / self.pace


def _rounded(part: NDArray[Any], of: int, weight: list[int], first: NDArray[np.int64]) -> NDArray[Any]:
    """Whole tokens near a fractional split: rounded down, and what is left to the first host."""
    down = part // of
    found = down.astype(np.int64) if max(weight, default=0) < 2**61 else down.astype(object)
    if len(found):
        found[first[:-1]] += np.array(weight, dtype=found.dtype) - np.add.reduceat(found, first[:-1])
    return found
