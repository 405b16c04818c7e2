"""How much work fits into the limit, told by sizes alone, so that every rank does the same."""

from __future__ import annotations

import sys

from moeopt.engines.policies.options import Options
from moeopt.engines.policies.shape import Shape
from moeopt.kernels import moving, packing
from moeopt.limits import Deadline, Limits
from moeopt.placement.heuristics.deep import Engine, engine

ROOM = 0.4
"""Part of the limit that the work may take by these estimates; the rest is for slower machines."""
TINY = 256
"""Slots times GPUs up to which the search is worth it interpreted."""
FEW_ROUNDS = 60
"""Rounds of the search there."""
INTERPRETED_S = 0.15
"""What they take for one layer."""
RULE_S, GROUPED = 1.5e-6, 2.5
"""Seconds of the public rule a slot of a layer, and so many times that with groups on nodes."""
RULE_INTERPRETED_S = 30e-6
"""The first where nothing is compiled."""
FILL_S = 25e-6
"""Seconds to fill a slot of a running map that has lost some."""
LOOK_S = 60e-9
"""Seconds to look at one pair of slots that may be swapped."""
FEWEST_SWAPS = 10
"""Swaps that a layer gets at least, if it gets any."""
LOAD_S = 3.0
"""A limit from which on libraries are loaded within a call."""
NAMING = 0.5
"""Part of the limit for what cannot be cut and names of GPUs for the public rule."""
NAME_S, NAME_PAIR_S = 0.5e-3, 90e-9
"""Seconds to name the GPUs of a layer, and more for each pair of them."""
WHOLE_S = 1.0
"""A layer whose search takes longer than this and than the limit is left out, whoever decides."""
PIECE = 0.1
"""Part of the limit between two looks at the clock."""


class Pace:
    """What one call can do in its time.

    The estimates are seconds of one core for a layer that is searched to the end, rounded up; ``filled`` slots were
    filled before.
    """

    def __init__(self, shape: Shape, options: Options, deadline: Deadline, filled: int = 0) -> None:
        self.shape, self.options, self.deadline, self.filled = shape, options, deadline, filled
        self.engine: Engine = engine(Deadline(options.time_limit_s))  # whatever this call has spent so far
        self.compiled = self.engine.compiled and packing.improve.ready()
        self.moves_compiled = self.compiled and moving.sweep.ready()
        self.tiny = shape.num_slots * shape.num_gpus <= TINY

    def limits(self, sweeps: int | None = None) -> Limits:
        """Limits of one search, or of so many sweeps of re-planning; compiled it is short and needs no clock."""
        if self.compiled if sweeps is None else self.moves_compiled:
            return Limits(iterations=sweeps)
        left = max(self.deadline.remaining_s(), 1e-3)
        return Limits(time_s=left, iterations=FEW_ROUNDS if sweeps is None else sweeps)

    def swaps(self, layers: int, most: int, total: int) -> tuple[int, int]:
        """How many layers, and how many swaps in each: rather few in all of the `total` layers than all in few."""
        if self.options.split != "even" or not layers or not most:
            return 0, 0
        if self.options.by_clock:
            return layers, most
        fit = int(self._work_s / (LOOK_S * self.shape.per_gpu * self.shape.num_slots))
        each = min(most, max(fit // total, FEWEST_SWAPS))
        return min(layers, fit // each), each

    @property
    def fixed_s(self) -> float:
        """Seconds that cannot be cut: of the public rule, and of making full what runs."""
        each = RULE_S if self.shape.groups is None else RULE_S * GROUPED
        return each * self.shape.num_layers * self.shape.num_slots + FILL_S * self.filled

    @property
    def rule_s(self) -> float:
        """Seconds of the public rule alone, interpreted or compiled."""
        each = (RULE_S if self.compiled else RULE_INTERPRETED_S) * (1 if self.shape.groups is None else GROUPED)
        return each * self.shape.num_layers * self.shape.num_slots

    @property
    def _work_s(self) -> float:
        """Seconds for swaps and search."""
        return max(ROOM * self.options.time_limit_s - self.fixed_s, 0.0)

    def names(self) -> int:
        """In how many layers GPUs can be named for few moves."""
        each = NAME_S + NAME_PAIR_S * self.shape.num_gpus**2
        if self.shape.groups is not None:
            each *= 1 + self.shape.num_nodes / 3
        if self.options.by_clock:
            return self.shape.num_layers if each <= self.options.time_limit_s else 0
        return int(max(NAMING * self.options.time_limit_s - self.fixed_s, 0.0) / each)

    @property
    def may_load(self) -> bool:
        """Whether there is time to load what names GPUs for few moves, or it is there."""
        return "scipy.optimize" in sys.modules or self.options.time_limit_s >= LOAD_S

    def chunks(self, layers: int, *, searching: bool) -> list[tuple[int, int]]:
        """Ranges of layers, worst first, to search one after another: all that fit, or all if the clock decides."""
        compiled = self.compiled if searching else self.moves_compiled
        if not compiled and not self.tiny:
            return []
        each = self._search_s() if searching else self._replan_s()
        if not compiled:
            each = INTERPRETED_S if searching else 4 * INTERPRETED_S
        if each > max(self.options.time_limit_s, WHOLE_S):
            return []
        if not self.options.by_clock:
            layers = min(layers, int(self._work_s / each))
        at_once = max(int(PIECE * self.options.time_limit_s / each), 1)
        return [(begin, min(begin + at_once, layers)) for begin in range(0, layers, at_once)]

    def _search_s(self) -> float:
        size, gpus, each = self.shape.num_slots / 288, self.shape.num_gpus, self.shape.per_gpu
        if self.options.split != "even":
            return 0.15 * max(size, 1.0)
        if self.shape.groups is not None:
            return 0.04 * max(size, 0.5)
        if each == 1:
            return 0.001
        if each == 2:
            return 0.015 * max(size * gpus / 144, 0.3)
        if each <= 4:
            return 0.02 + 0.12 * size * max(gpus / 72, 1.0)
        return 0.006 * max(size, 0.5)

    def _replan_s(self) -> float:
        return max(0.04 * self.shape.num_slots / 288 * max(self.shape.num_gpus / 110, 1.0), 0.01)
