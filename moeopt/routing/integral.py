"""The optimum in whole tokens: the least cost at which every cut has room, by max-flows from the fractional optimum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import splitting
from moeopt.routing.bounds import least_level
from moeopt.routing.fractional import Optimum, settled
from moeopt.routing.layer import Hosting, Task

Level = tuple[int, int]
"""A cost as numerator and denominator, in units of the task."""


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
    fixed = [Fraction(int(one), unit) for one in base.tolist()]
    speeds = [int(one) * task.pace for one in task.speed.tolist()]
    value, gpus, by_tokens, flows = near.value, near.gpus, False, 0
    equal = len(set(speeds)) == 1 and unit == 1
    while True:
        flows += 1
        room = _room(value, fixed, speeds, base if equal else None)
        target = np.array(room, dtype=part.dtype)
        if run(first, pairs.gpu, pairs.expert, pairs.start, pairs.pair, part, load, target, inside):
            return WholeOptimum(value, part, gpus, by_tokens, flows)
        found = np.flatnonzero(inside).tolist()
        within = np.add.reduceat(inside[pairs.gpu], first[:-1]) == np.diff(first)
        tokens = sum(weight[within].tolist()) // unit
        value = least_level(value, [fixed[gpu] for gpu in found], [speeds[gpu] for gpu in found], tokens)
        gpus, by_tokens = tuple(found), True


def _room(value: Fraction, fixed: list[Fraction], speeds: list[Fraction], base: NDArray[Any] | None) -> Any:
    """Tokens that each GPU can take at a cost."""
    if base is not None:
        return int(value * speeds[0] // 1) - base
    return [int((value * pace - more) // 1) for more, pace in zip(fixed, speeds, strict=True)]


def _rounded(part: NDArray[Any], of: int, weight: list[int], first: NDArray[np.int64]) -> NDArray[Any]:
    """Whole tokens near a fractional split: rounded down, and what is left to the first host."""
    down = part // of
    found = down.astype(np.int64) if max(weight, default=0) < 2**61 else down.astype(object)
    if len(found):
        found[first[:-1]] += np.array(weight, dtype=found.dtype) - np.add.reduceat(found, first[:-1])
    return found
