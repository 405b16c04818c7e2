"""Compile what is compiled, so that no later call has to."""

from __future__ import annotations

import numpy as np

from moeopt.kernels import enumerate, packing, settle
from moeopt.kernels._jit import KERNELS, has_numba
from moeopt.kernels.largest import largest


def warmup() -> list[str]:
    """Call every kernel once; what was done, one line each.

    The compiled code stays in numba's cache folder for later processes, where that folder can be written.
    """
    if not has_numba():
        return ["numba is not installed: the search is interpreted; pip install 'moeopt[fast]' makes it fast"]
    load_search()
    held = np.zeros(4, dtype=np.int64)
    left = np.array([100], dtype=np.int64)
    enumerate.any_below(np.array([3, 2, 1], dtype=np.int64), 0, 2, 2, 2, 6, True, held, left)
    where = "kept for later processes" if packing.improve.cached else "not kept: no folder for it can be written"
    return [f"{len(KERNELS)} kernels compiled, {where}"]


def load_search() -> None:
    """Compile both searches, or load them from the cache, by a search of three experts on two GPUs."""
    loads = np.array([3.0, 2.0, 1.0])
    layer = packing.Layer(
        loads,
        0.0,
        np.array([0, 0, 1, 1], dtype=np.int64),
        np.array([0, 2, 4], dtype=np.int64),
        np.ones(2),
        np.zeros((0, 0), dtype=np.int8),
        True,
        2,
        -1,
        np.zeros(2),
        np.ones(3, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        1,
    )
    held = np.array([0, 1, 0, 2], dtype=np.int64)
    one, order = np.ones((1, 3), dtype=np.int64), np.arange(3)[None, :]
    room, equal = np.array([2, 2]), np.zeros(0)
    largest(loads[None, :], order, one, room, equal, True, np.full((1, 4), -1, dtype=np.int32))
    rng = np.array([7], dtype=np.int64)
    packing.improve(layer, held, held.copy(), 0.0, 2, 1e3, packing.remember(2.5, 0.0), rng)
    ones = np.ones(3, dtype=np.int64)
    counts = np.array([2, 1, 1], dtype=np.int64)
    settle.settle(loads, 0.0, counts, counts.copy(), ones, 2, 2, 2, 0.0, 2, settle.forget(), rng)
