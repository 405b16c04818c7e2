"""The fractional optimum of a layer, exactly, with the cut that proves it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import mincost, splitting
from moeopt.limits import Deadline
from moeopt.routing.layer import Hosting, Task


@dataclass(frozen=True, eq=False)
class Optimum:
    """What `newton` found for a layer.

    Parameters
    ----------
    value
        The cost of the busiest GPU, tokens at speed 1; exact.
    part, of
        (P,) load of each pair of a shared expert, in units of ``unit / of`` tokens.
    gpus
        The cut that proves the value.
    cuts, rounds
        How many cuts were tried, and rounds of water-filling before.
    """

    value: Fraction
    part: NDArray[Any]
    of: int
    gpus: tuple[int, ...]
    cuts: int
    rounds: int


def optimum(hosting: Hosting, task: Task, *, compiled: bool = True) -> Optimum:
    """Solve one layer; the same in 64 bits where the numbers fit, in Python's whole numbers where they do not."""
    pairs, base, weight = hosting.pairs, settled(hosting, task), task.weight[hosting.shared]
    speed, kind = task.speed, np.int64 if task.fits else object
    if not task.fits:
        weight, base, speed = (np.array([int(one) for one in row], dtype=object) for row in (weight, base, speed))
    rough = [row.astype(np.float64) for row in (weight, base, speed)]
    near, part = np.zeros(len(pairs.gpu)), np.zeros(len(pairs.gpu), dtype=kind)
    inside, out = np.zeros(len(base), dtype=np.bool_), np.zeros(4, dtype=kind)
    run = splitting.newton if task.fits and compiled else splitting.newton.plain()
    run(weight, base, speed, rough[0], rough[1], rough[2], *pairs, near, part, inside, out)
    value = Fraction(int(out[0]), int(out[1])) * task.worth
    return Optimum(value, part, int(out[1]), tuple(np.flatnonzero(inside).tolist()), int(out[2]), int(out[3]))


def settled(hosting: Hosting, task: Task) -> NDArray[Any]:
    """(G,) what each GPU has to do whatever the split: its base, and experts that lie on no other GPU."""
    base = task.base.copy()
    np.add.at(base, hosting.gpu[hosting.alone], task.weight[hosting.expert[hosting.alone]])
    return base


def compiled_in_time(deadline: Deadline) -> bool:
    """Whether the compiled kernels can be had before the time is up."""
    kernels = (splitting.newton, splitting.balance, splitting.fill, mincost.min_cost_flow)
    return all(kernel.in_time(deadline) for kernel in kernels)
