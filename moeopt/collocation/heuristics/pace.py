"""Kernels in slices, so that a deadline is kept: what a round takes is measured, what comes before it estimated."""

from __future__ import annotations

import time
from collections.abc import Callable

from moeopt.kernels.connectivity import Net
from moeopt.kernels.replicas import Field
from moeopt.limits import Deadline

SLICE = 500
"""Rounds between two looks at the clock, at most."""
INTERPRETED = 20
"""How many times fewer where they are interpreted."""
LOOK_S = 0.5
"""Seconds between two looks, about, however much time is left: somebody may have asked for an end."""
CELL_S, COMPILED_CELL_S = 3e-6, 2e-8
"""Seconds for a (member, unit) pair when a kernel counts everything, which it does once a call."""


def paced(run: Callable[[int], object], rounds: int, net: Net | Field, compiled: bool, deadline: Deadline) -> int:
    """Call `run` with a number of rounds until they are done or the time is up; the rounds done.

    The first slice is one round, and none is begun that cannot be expected to end in time.
    """
    if not deadline.watched:
        run(rounds)
        return rounds
    if not deadline.limited:  # the same slices on every machine, since a slice begins with the best of the one before
        size = SLICE if compiled else SLICE // INTERPRETED
        for done in range(0, rounds, size):
            if deadline.passed():
                return done
            run(min(size, rounds - done))
        return rounds
    setup_s = len(net.member) * len(net.price) * (COMPILED_CELL_S if compiled else CELL_S)
    done, size = 0, 1
    while done < rounds and deadline.remaining_s() > setup_s:
        now, start_s = min(size, rounds - done), time.perf_counter()
        run(now)
        done += now
        round_s = max(time.perf_counter() - start_s - setup_s, 1e-9) / now
        left_s = min(deadline.remaining_s(), LOOK_S + setup_s)
        size = int(min(SLICE, 10 * size, max(1.0, (left_s - setup_s) / (2 * round_s))))
    return done
