"""The first short search of all layers in one call, where no clock has to be looked at between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.heuristics.count_first import countable, numbers_of
from moeopt.placement.heuristics.deep import Found, Part, deepen_layers
from moeopt.placement.heuristics.parts import costs_of, floor_of, part_of
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement

AT_ONCE = 5e7
"""Work of layers that are searched in one call, some half a second compiled: Ctrl-C is heard between calls."""


def common_part(instance: PlacementInstance, rule: NDArray[np.int8]) -> Part | None:
    """What the layers have in common; ``None`` where they are better searched one by one from the beginning."""
    if instance.hierarchical:
        return None
    every = np.arange(instance.num_experts)
    part = part_of(instance, 0, every, list(range(instance.num_gpus)), rule)
    return part if countable(part) and part.slots[0] > 4 else None


def first_searches(
    instance: PlacementInstance,
    part: Part,
    held: NDArray[np.int64],
    scale: NDArray[np.float64],
    goal: dict[int, tuple[float, float]],
    seed: Callable[[int], int],
    *,
    rounds: int,
    work: float,
    step: float,
) -> Iterator[dict[int, Found]]:
    """Search the layers that have a goal, except those whose counts keep them from it; some at a time.

    Parameters
    ----------
    part
        What the layers have in common.
    held, scale
        (L, S) where each layer begins, (L,) what its loads are divided by.
    goal
        By layer the scaled cost to get down to, and the one that is enough where more is hard.
    seed, rounds, work, step
        As for `deepen`, the seed by layer.
    """
    rows = np.array(list(goal), dtype=np.int64)
    at_once = max(int(AT_ONCE / work), 1)
    for begin in range(0, len(rows), at_once):
        some = rows[begin : begin + at_once]
        loads, floors = costs_of(instance)[some] / scale[some, None], floor_of(instance) / scale[some]
        goals, enough = np.array([goal[row] for row in some.tolist()]).T
        counts = Placement(held[some].astype(np.int32)).replicas(instance.num_experts)
        pieces = np.take_along_axis(np.maximum(loads / counts, floors[:, None]), held[some], axis=1)
        able = np.flatnonzero(numbers_of(pieces, len(part.slots)) / part.speed[0] <= enough)
        if len(able):
            seeds = [seed(row) for row in some[able].tolist()]
            own = loads[able], floors[able], held[some[able]], goals[able], enough[able]
            found = deepen_layers(part, *own, seeds, rounds=rounds, work=work, step=step)
            yield dict(zip(some[able].tolist(), found, strict=True))
