"""Proof by listing every plan of a small layer, in whole numbers; a bound that running it again re-checks.

For even split, equal GPUs, all slots filled, no groups and no pins. Where it applies it is much faster than the
mixed-integer programme: a layer of 8 experts on 4 GPUs of 3 slots takes about a millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import enumerate as listing
from moeopt.placement.instance import PlacementInstance

BUDGET = 1_000_000
"""Steps per question before giving up: half a second at most when compiled, some seconds interpreted."""
MOST_PAIRS = 64
"""Layers with more (expert, GPU) pairs are not listed."""


def applies(instance: PlacementInstance, most: int) -> bool:
    """Whether the layers of an instance can be listed; `most` replicas of an expert at most."""
    return (
        instance.num_experts * instance.num_gpus <= MOST_PAIRS
        and instance.split == "even"
        and not instance.windows
        and instance.exact_base is None
        and instance.fill == "all"
        and instance.uniform
        and not instance.hierarchical
        and not instance.constrained
        and max(instance.min_replicas) == 1
        and not instance.survive_nodes
        and most <= 16
    )


def refutes(instance: PlacementInstance, row: int, most: int, value: Fraction, budget: int = BUDGET) -> bool:
    """Whether no plan of the layer costs less than `value`, tokens; exact.

    >>> tiny = PlacementInstance([[3, 3, 2, 2, 2, 0]], gpus=2, slots=6)
    >>> refutes(tiny, 0, 1, Fraction(6)), refutes(tiny, 0, 1, Fraction(7))
    (True, False)
    """
    question = _Question.of(instance, row, most)
    return question is not None and question.below(value, budget)[0] == listing.NONE


def optimum(
    instance: PlacementInstance, row: int, most: int, value: Fraction, *, may_compile: bool = True
) -> tuple[Fraction, NDArray[np.int64] | None] | None:
    """Least cost of a layer, given a plan that costs `value`; ``None`` when the budget ran out.

    With `may_compile` off it runs interpreted, on a tenth of the budget, unless compiled code is at hand.

    Returns
    -------
    (Fraction, ndarray or None)
        The optimum in tokens, and (S,) a plan that attains it, ``None`` when the given one does.
    """
    question = _Question.of(instance, row, most)
    if question is None:
        return None
    best: NDArray[np.int64] | None = None
    while True:
        answer, held = question.below(value, BUDGET, may_compile)
        if answer == listing.GAVE_UP:
            return None
        if answer == listing.NONE:
            return value, best
        best, value = held, question.cost(held)


class _Question:
    """One layer in whole numbers: loads times a common multiple of all counts."""

    def __init__(self, instance: PlacementInstance, loads: list[int], floor: int, scale: int, most: int) -> None:
        self.instance, self.most, self.scale = instance, most, scale
        self.loads = np.array(loads, dtype=np.int64)
        self.floor = floor
        self.speed = Fraction(instance.speed[0])

    @classmethod
    def of(cls, instance: PlacementInstance, row: int, most: int) -> _Question | None:
        """The layer, unless its numbers do not fit 64 bits."""
        if not applies(instance, most):
            return None
        whole, floor, denominator = instance.exact_loads
        common = math.lcm(*range(1, most + 1))
        loads = [int(a) * common for a in whole[row].tolist()]
        floor *= common
        if instance.floor_rule == "per_expert":
            loads, floor = [max(load, floor) for load in loads], 0
        if (max(loads) + floor) * instance.num_slots >= 2**62:
            return None
        return cls(instance, loads, floor, denominator * common, most)

    def below(self, value: Fraction, budget: int, may_compile: bool = True) -> tuple[int, NDArray[np.int64]]:
        """Is there a plan that costs less than `value`?"""
        run: Callable[..., int] = listing.any_below
        if not may_compile and not listing.any_below.ready():
            run, budget = listing.any_below.plain(), budget // 10
        most = (int(self.loads.max()) + self.floor) * self.instance.slots[0]  # no GPU costs more: all fits 64 bits
        limit = min(max(math.ceil(value * self.speed * self.scale) - 1, -1), most)
        held = np.zeros(self.instance.num_slots, dtype=np.int64)
        left = np.array([budget], dtype=np.int64)
        answer = run(
            self.loads,
            self.floor,
            self.instance.num_gpus,
            self.instance.slots[0],
            self.most,
            limit,
            self.instance.distinct,
            held,
            left,
        )
        return int(answer), held

    def cost(self, held: NDArray[np.int64]) -> Fraction:
        """Cost of a plan, tokens."""
        counts = np.bincount(held, minlength=len(self.loads))
        pieces = np.maximum(self.loads // np.maximum(counts, 1), self.floor)
        top = int(pieces[held].reshape(self.instance.num_gpus, -1).sum(axis=1).max())
        return Fraction(top, self.scale) / self.speed
