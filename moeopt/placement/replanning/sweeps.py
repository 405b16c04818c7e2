"""Sweeps of one layer: the kernel, its state, and what it found, put into the layer's frontier."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import moving
from moeopt.limits import Deadline
from moeopt.placement.replanning.frontier import Frontier
from moeopt.placement.replanning.view import blank_state

SHARPEST, SOFTNESS, HEAT = 800.0, 15.0, 0.2
"""Largest sharpness; sharpness times height over the goal; heat in moves: found by trial on wobbles of 5 to 50 %."""

MOST_CELLS = 4_000_000
"""Entries of the buffer for plans found in a sweep; bounds the moves of a layer's frontier where slots are many."""

FIRST_RATE = {True: 5.0e6, False: 2.0e4}
"""Steps a second that are taken for granted, compiled or not, before any was timed."""


@dataclass
class Pace:
    """How fast the kernel runs here: what a time limit is divided by. Without a limit it changes nothing."""

    run: Callable[..., int]
    compiled: bool
    rate: float = field(init=False)

    def __post_init__(self) -> None:
        self.rate = FIRST_RATE[self.compiled]

    def steps(self, wanted: int, deadline: Deadline) -> int:
        """How many of the steps wanted the time allows."""
        if not deadline.limited:
            return wanted
        return max(0, min(wanted, int(0.9 * self.rate * deadline.remaining_s())))


@dataclass
class LayerSearch:
    """Everything about one layer's search; ``scale`` turns the kernel's values into the objective's.

    ``seen_from`` is the layer for a sweep from a given plan, where groups stay on the nodes that it has them on; the
    running plan may have them on others.
    """

    layer: moving.Layer
    scale: float
    goal: float
    frontier: Frontier
    most_moves: int
    rng: NDArray[np.int64]
    seen_from: Callable[[NDArray[np.int64]], moving.Layer] | None = None

    def sweep(self, moves: int, high: float, low: float, wanted: int, pace: Pace, deadline: Deadline) -> bool:
        """One sweep from the frontier's plan with so many moves; whether there was time for it.

        ``high`` and ``low`` are thresholds in units of the ideal.
        """
        steps = pace.steps(wanted, deadline)
        if steps < min(64, wanted):
            return False
        start = self.frontier.plan(moves)
        layer = self.layer if self.seen_from is None else self.seen_from(start)
        state = blank_state(layer)  # not kept: its tables are large where there are many GPUs
        held = np.where(start < 0, layer.empty, start).astype(np.int64)
        most = max(moves, min(self.most_moves, MOST_CELLS // max(len(held), 1)))
        reach = self.frontier.reach(most) / self.scale
        found = np.zeros((most + 1, len(held)), dtype=np.int32)
        rows = np.zeros(most + 1, dtype=np.bool_)
        how = moving.Sweep(high, low, self.goal, SHARPEST, SOFTNESS, HEAT, most, steps)
        chunk = steps if not deadline.watched else (4096 if pace.compiled else 64)
        begun = time.perf_counter()
        done = 0
        while done < steps:
            until = min(done + chunk, steps)
            pace.run(layer, state, how, held, done, until, reach, found, rows, self.rng)
            done = until
            if deadline.passed():
                break
        pace.rate = 0.5 * pace.rate + 0.5 * done / max(time.perf_counter() - begun, 1e-9)
        for count in np.flatnonzero(rows).tolist():
            plan = found[count].astype(np.int64)
            if layer.empty >= 0:
                plan[plan == layer.empty] = -1
            self.frontier.add(count, float(reach[count]) * self.scale, plan)
        return True
