"""Largest first, compiled: the same bytes as `moeopt.kernels.lpt.pack`, which uses it once this process has it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels._jit import jit


@jit
def largest(
    pieces: NDArray[np.float64],
    order: NDArray[np.int64],
    counts: NDArray[np.int64],
    capacity: NDArray[np.int64],
    pace: NDArray[np.float64],
    distinct: bool,
    out: NDArray[np.int32],
) -> None:
    """Fill ``out`` (L, S), -1 throughout, as `pack` does.

    ``pieces``, ``counts`` (L, E); ``order`` (L, E) experts by falling piece; ``capacity`` (G,); ``pace`` (G,)
    reciprocal speeds, or (0,) where they are equal.
    """
    num_gpus = capacity.shape[0]
    start = np.zeros(num_gpus, np.int64)
    for gpu in range(1, num_gpus):
        start[gpu] = start[gpu - 1] + capacity[gpu - 1]
    cost = np.zeros(num_gpus)
    left = np.zeros(num_gpus, np.int64)
    host = np.zeros(num_gpus, np.int64)
    for row in range(order.shape[0]):
        for gpu in range(num_gpus):
            cost[gpu] = 0.0
            left[gpu] = capacity[gpu]
            host[gpu] = -1
        for at in range(order.shape[1]):
            expert = order[row, at]
            size = pieces[row, expert]
            for _ in range(counts[row, expert]):
                best, rival = -1, -1
                best_key, rival_key = np.inf, np.inf
                for gpu in range(num_gpus):
                    if left[gpu] == 0:
                        continue
                    key = cost[gpu] if pace.shape[0] == 0 else cost[gpu] + size * pace[gpu]
                    if rival < 0 or key < rival_key:
                        rival = gpu
                        rival_key = key
                    if (not distinct or host[gpu] != expert) and (best < 0 or key < best_key):
                        best = gpu
                        best_key = key
                if best < 0:
                    best = rival
                left[best] -= 1
                out[row, start[best] + capacity[best] - 1 - left[best]] = expert
                host[best] = expert
                cost[best] = (size if pace.shape[0] == 0 else size * pace[best]) + cost[best]
