"""Compile what is compiled, so that no later call has to."""

from __future__ import annotations

import numpy as np

from moeopt.kernels import dispatch, enumerate, packing
from moeopt.kernels._jit import KERNELS, has_numba


def warmup() -> list[str]:
    """Call every kernel once; what was done, one line each.

    The compiled code stays in numba's cache folder for later processes, where that folder can be written.
    """
    if not has_numba():
        return ["numba is not installed: the search is interpreted; pip install 'moeopt[fast]' makes it fast"]
    load_search()
    load_dispatch()
    held = np.zeros(4, dtype=np.int64)
    left = np.array([100], dtype=np.int64)
    enumerate.any_below(np.array([3, 2, 1], dtype=np.int64), 0, 2, 2, 2, 6, True, held, left)
    where = "kept for later processes" if packing.improve.cached else "not kept: no folder for it can be written"
    return [f"{len(KERNELS)} kernels compiled, {where}"]


def load_search() -> None:
    """Compile the deep search, or load it from the cache, by a search of three experts on two GPUs."""
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
    )
    held = np.array([0, 1, 0, 2], dtype=np.int64)
    packing.improve(layer, held, held.copy(), 0.0, 2, 1e3, packing.remember(2.5, 0.0), np.array([7], dtype=np.int64))


def load_dispatch() -> None:
    """The same for the search under an engine's dispatch rule."""
    ints, ones = np.arange, np.ones(2)
    layer = dispatch.Layer(
        np.array([3.0, 2.0, 1.0]),
        0.0,
        np.array([0, 0, 1, 1], dtype=np.int64),
        np.array([0, 2, 4], dtype=np.int64),
        ones,
        np.zeros(2),
        np.zeros(2, dtype=np.int64),
        np.array([2], dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.zeros((0, 0), dtype=np.int8),
        True,
        2,
        -1,
        np.ones(4, dtype=np.bool_),
        False,
        2,
    )
    held = ints(4) % 3
    memory, rng = dispatch.remember(2.5, 0.0), np.array([7], dtype=np.int64)
    dispatch.improve(layer, held, held.copy(), 0.0, 3.0, 2, 1e3, memory, rng)
