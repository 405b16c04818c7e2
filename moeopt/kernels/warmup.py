"""Compile what is compiled, so that no later call has to."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from moeopt.kernels import (
    connectivity,
    dispatch,
    enumerate,
    mincost,
    moving,
    packing,
    pricing,
    replicas,
    settle,
    splitting,
    windows,
)
from moeopt.kernels._jit import KERNELS, Kernel, has_numba
from moeopt.kernels.largest import largest


def warmup(*, plain: bool = False, processes: int = 1) -> list[str]:
    """Call every kernel once; what was done, one line each.

    The compiled code stays in numba's cache folder for later processes, where that folder can be written. With `plain`
    only the search of a new plan for one window and even parts, which takes a third of the time. With more `processes`
    than one, what is not in that folder yet is first compiled by so many other Python processes beside each other.

    >>> len(warmup(plain=True)) > 0
    True
    """
    if not plain:
        importlib.import_module("scipy.optimize")  # heavy too, and needed for shares of a free split and for moves
    if not has_numba():
        return ["numba is not installed: the search is interpreted; pip install 'moeopt[fast]' makes it fast"]
    loads = [load for load in LOADS if not plain or load in PLAIN]
    packing.improve.load()
    elsewhere: set[str] = set()
    missing = [load for load in loads if not LOADS[load].on_disk()]
    if processes > 1 and len(missing) > 1 and packing.improve.cached:
        elsewhere = _compiled_beside(missing, processes)
    for load in loads:
        load()
    where = "kept for later processes" if packing.improve.cached else "not kept: no folder for it can be written"
    ready = [kernel for kernel in KERNELS if kernel.ready()]
    here = {_name(kernel) for kernel in ready if not kernel.loaded()}
    loaded = sum(kernel.loaded() and _name(kernel) not in elsewhere for kernel in ready)
    made = len(here | elsewhere)
    if not made:
        return [f"{loaded} kernels loaded, nothing had to be compiled"]
    return [f"{made} kernels compiled, {where}" + (f"; {loaded} loaded" if loaded else "")]


def _compiled_beside(loads: list[Callable[[], None]], processes: int) -> set[str]:
    """The names of the kernels that other processes compiled; where one fails, its kernels are left to this one."""

    def compiled(load: Callable[[], None]) -> list[str]:
        words = [sys.executable, "-c", f"from moeopt.kernels.warmup import said; said({load.__name__!r})"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()

    with ThreadPoolExecutor(processes) as pool:
        return {name for names in pool.map(compiled, loads) for name in names}


def _name(kernel: Kernel[Any, Any]) -> str:
    return f"{kernel.__module__}.{kernel.__name__}"


def said(load: str) -> None:
    """Run one of `LOADS` by its name and print what had to be compiled: the work of one process of several."""
    next(one for one in LOADS if one.__name__ == load)()
    print(*(_name(kernel) for kernel in KERNELS if kernel.ready() and not kernel.loaded()))


def load_search() -> None:
    """Compile the search of new plans, or load it from the cache, by one of three experts on two GPUs."""
    load_descents()
    load_counts()


LOADS_OF_SEARCH = np.array([3.0, 2.0, 1.0])


def load_descents() -> None:
    """Of the search of new plans, the descents."""
    loads = LOADS_OF_SEARCH
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
    rng = np.array([7], dtype=np.int64)
    packing.improve(layer, held, held.copy(), 0.0, 0.0, 2, 1e3, packing.remember(), rng)
    rows, each = held[None, :].copy(), np.zeros(1)
    packing.improve_layers(
        layer,
        loads[None, :],
        each,
        rows,
        each,
        each,
        2,
        1e3,
        packing.remember()[None, :],
        rng[None, :],
        np.zeros(1, np.int64),
    )


def load_counts() -> None:
    """Of the search of new plans, largest first, the bounds, and the search that settles counts first."""
    loads, rng = LOADS_OF_SEARCH, np.array([7], dtype=np.int64)
    one, order = np.ones((1, 3), dtype=np.int64), np.arange(3)[None, :].copy()
    room, equal = np.array([2, 2]), np.zeros(0)
    largest(loads[None, :], order, one, room, equal, True, np.full((1, 4), -1, dtype=np.int32))
    pricing.crowded(loads, 2, 2, 3.0)
    some = np.arange(3.0)
    pricing.lonely(loads, 2, 2, 3.0, some, some, some)
    ones = np.ones(3, dtype=np.int64)
    counts = np.array([2, 1, 1], dtype=np.int64)
    settle.settle(loads, 0.0, counts, counts.copy(), ones, 2, 2, 2, 0.0, 2, settle.forget(), rng)


def load_windows() -> None:
    """The same for the search over several windows."""
    field = windows.Field(
        np.array([[1.0, 0.5], [0.5, 1.0], [0.5, 0.5]]),
        np.zeros(2),
        np.zeros((2, 2)),
        np.ones(2),
        np.array([0, 0, 1, 1], dtype=np.int64),
        np.array([0, 2, 4], dtype=np.int64),
        np.ones(2),
        np.zeros((0, 0), dtype=np.int8),
        True,
        2,
        -1,
        1.0,
        np.ones(3, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        1,
    )
    held = np.array([0, 1, 0, 2], dtype=np.int64)
    rng = np.array([7], dtype=np.int64)
    windows.improve_windows(field, held, held.copy(), 1.0, 2, 1e3, windows.remember_windows(1.25), rng)


def load_moving() -> None:
    """Compile the re-planning, or load it from the cache, by one of three experts on two GPUs."""
    gpu = np.array([0, 0, 1, 1], dtype=np.int64)
    held = np.array([0, 1, 0, 2], dtype=np.int64)
    ids = np.arange(3, dtype=np.int64)
    layer = moving.Layer(
        np.array([[3.0, 2.0, 1.0]]),
        np.zeros(1),
        np.zeros((1, 2)),
        gpu,
        np.array([0, 2, 4], dtype=np.int64),
        np.ones(2),
        np.zeros((0, 0), dtype=np.int8),
        np.ones(3, dtype=np.int64),
        2,
        np.zeros(2, dtype=np.int64),
        1,
        True,
        -1,
        np.array([[True, True], [True, False], [False, True]]),
        held,
        ids,
        ids,
        4,
        moving.WORST,
        np.zeros(1),
        np.ones(1024),
    )
    state = moving.State(
        held.copy(),
        np.zeros(3, np.int64),
        np.zeros((1, 3)),
        np.zeros((3, 2), np.int32),
        np.zeros((3, 3), np.int32),
        np.zeros(4, np.int64),
        np.zeros((3, 1), np.int32),
        np.zeros((1, 2)),
        np.zeros(2),
        np.zeros(1),
        np.zeros(1, np.int64),
    )
    how = moving.Sweep(1.5, 1.0, 1.0, 800.0, 15.0, 0.2, 4, 32)
    rows = np.zeros(5, dtype=np.bool_)
    rng = np.array([7], dtype=np.int64)
    moving.sweep(layer, state, how, held, 0, 32, np.full(5, np.inf), np.zeros((5, 4), dtype=np.int32), rows, rng)


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


def load_splitting() -> None:
    """The same for the split of tokens over replicas: one expert on two GPUs."""
    ints = np.zeros(2, dtype=np.int64)
    weight, base, speed = np.array([3]), ints.copy(), np.ones(2, dtype=np.int64)
    rough = (weight.astype(np.float64), base.astype(np.float64), np.ones(2))
    first, gpu, start = np.array([0, 2]), np.arange(2), np.arange(3)
    part, out, inside = ints.copy(), np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.bool_)
    near = np.zeros(2)
    splitting.newton(weight, base, speed, *rough, first, gpu, ints, start, gpu, near, part, inside, out)
    splitting.fill(rough[0], first, gpu, rough[1], rough[2], near, rough[1], 1)
    splitting.balance(first, gpu, ints, start, gpu, part, part.copy(), part.copy(), inside)
    mincost.cheapest(2, [(0, 1, 1, 0)], 0, 1)


def load_connectivity() -> None:
    """Compile the search for few copies, or load it from the cache, by two pairs of experts on two GPUs."""
    pairs, ends = np.array([0, 1, 2, 3], dtype=np.int64), np.array([0, 2, 4], dtype=np.int64)
    ones, rows = np.ones(2, dtype=np.int64), np.array([0, 0, 1, 1], dtype=np.int64)
    none, first, flat = np.full(2, -1, dtype=np.int64), np.arange(5, dtype=np.int64), np.ones(2)
    net = connectivity.Net(ends, pairs, ones, none, first, rows, np.ones(4), flat, np.zeros(2), np.full(2, np.inf),
        none[:0], none[:1], np.full(1, np.inf))  # fmt: skip
    unit, rng = np.array([0, 1, 0, 1], dtype=np.int64), np.array([7], dtype=np.int64)
    connectivity.improve(net, unit, False, 2, 4, 0.0, rng)
    zero, two = np.zeros(1, dtype=np.int64), np.arange(2, dtype=np.int64)
    where = connectivity.Hosting(np.array([0, 0, 1, 1], dtype=np.int64), two, zero, zero, zero, 0, False)
    connectivity.grow(net, where, pairs.copy(), 4, False, 0.5, False, 2)
    bits = np.array([[1]], dtype=np.int64)
    field = replicas.Field(ends, pairs, ones, none, first, rows, np.ones((1, 4)), np.ones((2, 1), dtype=np.int64), bits,
        bits[0], flat, np.zeros(2), np.full(2, np.inf), none[:0], none[:1], np.full(1, np.inf))  # fmt: skip
    replicas.replicate(field, where, pairs.copy(), False, 2, 0.0, rng)


def load_enumeration() -> None:
    """The search through all plans of small sizes."""
    held, left = np.zeros(4, dtype=np.int64), np.array([100], dtype=np.int64)
    enumerate.any_below(np.array([3, 2, 1], dtype=np.int64), 0, 2, 2, 2, 6, True, held, left)


PLAIN = (load_descents, load_counts)
LOADS: dict[Callable[[], None], Kernel[Any, Any]] = {
    load_moving: moving.sweep,
    load_dispatch: dispatch.improve,
    load_windows: windows.improve_windows,
    load_connectivity: connectivity.improve,
    load_descents: packing.improve,
    load_counts: settle.settle,
    load_splitting: splitting.newton,
    load_enumeration: enumerate.any_below,
}
"""What compiles all kernels, the longest work first, and the kernel that tells whether it was done."""
