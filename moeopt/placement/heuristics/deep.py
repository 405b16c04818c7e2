"""The deep search of one flat part: a layer, or the experts of one node in one layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import packing
from moeopt.kernels._jit import Kernel
from moeopt.kernels.warmup import load_search
from moeopt.limits import Deadline

WORK = 3.0e6
"""Slots looked at before a part is given up, some 40 ms compiled; with `ROUNDS` the default iteration limit."""
WORK_OF_FEW = 2.0e6
"""The same with four slots a GPU or less, where a look costs more: many GPUs are hot, and transfers are tried."""
ROUNDS = 2000
"""Rounds before a part is given up: what ends the search of small parts."""

SLICE = 3.0e5
"""Slots looked at between two looks at the clock, some 4 ms compiled."""
CHUNK_COMPILED, CHUNK_INTERPRETED = 32, 1
"""Rounds between two looks at the clock."""


@dataclass(frozen=True)
class Part:
    """One flat problem in its own ids: loads, GPUs and rules, as floats divided by one scale.

    ``loads`` (E,), ``floor`` least cost of a replica, ``slots`` and ``speed`` per GPU, ``rule`` (E, G) or (0, 0);
    where there are such rules, ``base`` (G,) constant load of each GPU, ``least`` (E,) replicas at least, ``node`` of
    each GPU and ``spread`` nodes that every expert lies on.
    """

    loads: NDArray[np.float64]
    floor: float
    slots: tuple[int, ...]
    speed: tuple[float, ...]
    rule: NDArray[np.int8]
    distinct: bool
    may_be_empty: bool
    base: tuple[float, ...] = ()
    least: tuple[int, ...] = ()
    node: tuple[int, ...] = ()
    spread: int = 1

    @property
    def work(self) -> float:
        """Slots to look at before the part is given up: a fixed number, or ten scans of every GPU if that is more."""
        return max(WORK if max(self.slots) > 4 else WORK_OF_FEW, 10.0 * len(self.slots) * sum(self.slots))

    @property
    def most(self) -> int:
        """Largest number of replicas of an expert."""
        usable, num_slots = sum(count > 0 for count in self.slots), sum(self.slots)
        return max(min(usable, num_slots) if self.distinct else num_slots - len(self.loads) + 1, 1)

    @property
    def smallest(self) -> NDArray[np.int64]:
        """(E,) replicas of each expert at least."""
        least = np.array(self.least or (1,) * len(self.loads), dtype=np.int64)
        return np.maximum(least, self.spread)

    def layer(self) -> packing.Layer:
        """The kernel's view."""
        slots = np.array(self.slots, dtype=np.int64)
        num_experts = len(self.loads)
        loads, rule, empty = self.loads, self.rule, -1
        if self.may_be_empty:
            loads, empty = np.append(loads, -1.0), num_experts
            if rule.size:
                rule = np.vstack([rule, np.zeros((1, len(slots)), dtype=np.int8)])
        gpu = np.repeat(np.arange(len(slots)), slots)
        start = np.concatenate([[0], np.cumsum(slots)])
        pace = 1.0 / np.array(self.speed)
        base = np.array(self.base or (0.0,) * len(slots))
        least = np.append(self.smallest, 0) if self.may_be_empty else self.smallest
        home = np.zeros(len(slots), dtype=np.int64)
        if self.node:
            home = np.unique(self.node, return_inverse=True)[1].astype(np.int64)
        return packing.Layer(
            loads, self.floor, gpu, start, pace, rule, self.distinct, self.most, empty, base, least, home, self.spread
        )

    def cost(self, held: NDArray[np.int64]) -> float:
        """Largest cost of a GPU when `held` (S,) sits in the slots."""
        gpu = np.repeat(np.arange(len(self.slots)), self.slots)
        filled = held >= 0
        counts = np.bincount(held[filled], minlength=len(self.loads))
        pieces = np.maximum(self.loads / np.maximum(counts, 1), self.floor)
        totals = np.bincount(gpu[filled], weights=pieces[held[filled]], minlength=len(self.slots))
        totals = totals + np.array(self.base or 0.0)
        return float((totals / np.array(self.speed)).max())


@dataclass
class Found:
    """What a deep search came to: the experts in slots, their cost, rounds done, and why it ended."""

    held: NDArray[np.int64]
    cost: float
    rounds: int
    out_of_time: bool


@dataclass(frozen=True)
class Engine:
    """How the kernel is run: compiled, or interpreted with a look at the clock after every scan."""

    improve: Callable[..., int]
    compiled: bool


def engine(deadline: Deadline) -> Engine:
    """Compiled code where this process has it or there is time to get it, else the same kernel interpreted.

    Loading code that an earlier process compiled takes about a second, compiling it about 15.
    """
    kernel: Kernel[..., int] = packing.improve
    if kernel.in_time(deadline):
        if not kernel.ready() and not deadline.stopped():  # who has asked for an end waits for no code
            load_search()  # now, or the first layer would pay for it with its share of the time
        return Engine(kernel, compiled=True)
    return Engine(kernel.plain(), compiled=False)


def deepen(
    part: Part,
    start: NDArray[np.int64],
    goal: float,
    seed: int,
    *,
    rounds: int | None = None,
    deadline: Deadline,
    work: float = WORK,
    by: Engine | None = None,
    step: float = packing.FIRST_STEP,
) -> Found:
    """Search on from `start` until the cost is at most `goal`, or rounds, work or time are up.

    At first the threshold lies a `step` below the cost of the start.
    """
    by = engine(deadline) if by is None else by
    layer = part.layer()
    base = np.where(start < 0, layer.empty, start).astype(np.int64)
    best = base.copy()
    memory, rng = packing.remember(step), _generator(seed)
    chunk = CHUNK_COMPILED if by.compiled else CHUNK_INTERPRETED
    rounds = ROUNDS if rounds is None else rounds
    done = 0
    out_of_time = False
    while memory[packing.BEST] > goal and memory[packing.WORK] < work and done < rounds:
        if deadline.passed():
            out_of_time = True
            break
        todo, until = min(chunk, rounds - done), work
        if deadline.watched:
            todo = min(todo, 4)
            # a descent can take seconds
            slice_ = max(SLICE, len(base)) if by.compiled else len(base)
            until = min(work, memory[packing.WORK] + slice_)
        done += by.improve(layer, base, best, goal, goal, todo, until, memory, rng)
    held = np.where(best == layer.empty, -1, best) if layer.empty >= 0 else best
    cost = float(memory[packing.BEST])
    return Found(held, cost if cost < np.inf else part.cost(start), done, out_of_time)


def deepen_layers(
    part: Part,
    loads: NDArray[np.float64],
    floors: NDArray[np.float64],
    starts: NDArray[np.int64],
    goals: NDArray[np.float64],
    enough: NDArray[np.float64],
    seeds: list[int],
    *,
    rounds: int,
    work: float,
    step: float,
) -> list[Found]:
    """`deepen` of many layers in one call of the compiled kernel, to the same plans.

    ``loads`` (R, E), ``floors``, ``goals`` (R,) and ``starts`` (R, S) are what each layer has of its own, scaled;
    everything else is as in `part`, which has no empty slots. A layer that has come down to ``enough`` (R,) goes on
    to its goal only while that is easy; equal to the goals, the plans are those of `deepen`.
    """
    held = np.array(starts, dtype=np.int64, order="C")
    memory = np.tile(packing.remember(step), (len(held), 1))
    rng = np.array([_generator(seed) for seed in seeds])
    done = np.zeros(len(held), dtype=np.int64)
    packing.improve_layers(part.layer(), loads, floors, held, goals, enough, rounds, work, memory, rng, done)
    tops = memory[:, packing.BEST].tolist()
    return [Found(*found, False) for found in zip(held, tops, done.tolist(), strict=True)]


def _generator(seed: int) -> NDArray[np.int64]:
    """State of the kernel's random numbers."""
    return np.array([1 + (seed * 2654435761 + 12345) % 2147483645], dtype=np.int64)
