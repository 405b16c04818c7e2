"""What both searches for few copies do with a unit (a GPU or a node): cost of its inflow, its replicas, its height."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@jit
def over(inflow: float, rate: float) -> float:
    """What the time of a unit counts: the eighth power, so that the longest rules and the others still matter."""
    x = inflow * rate
    x = x * x
    x = x * x
    return x * x


@jit
def put(hosts: Ints, e: int, u: int, change: int) -> None:
    """One replica more or less; the empty expert has none."""
    if e >= 0:
        hosts[e, u] += change


@jit
def packed(seat: Ints, room: Ints, u: int, items: Floats) -> float:
    """Load of the busiest GPU of a unit that has experts of these loads: heaviest first to the GPU that has least.

    The GPUs of unit u are ``seat[u]..seat[u + 1]``, with `room` for so many experts each.
    """
    first = seat[u]
    size = seat[u + 1] - first
    order = np.sort(items)
    filled = np.zeros(size, np.int64)
    total = np.zeros(size, np.float64)
    for i in range(order.shape[0] - 1, -1, -1):
        best = -1
        for g in range(size):
            if filled[g] < room[first + g] and (
                best < 0 or total[g] < total[best] or (total[g] == total[best] and filled[g] < filled[best])
            ):
                best = g
        if best < 0:
            return float(np.inf)
        filled[best] += 1
        total[best] += order[i]
    return float(total.max())
