"""The frontier of one layer: for every number of moves the best plan met so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class Frontier:
    """Plans of one layer that no other one found beats in both moves and value.

    A plan is kept as its difference from the layer's start, which is short: ``points`` gives for its moves the value,
    the slots that differ and the experts in them.
    """

    start: NDArray[np.int64]
    points: dict[int, tuple[float, NDArray[np.int32], NDArray[np.int32]]] = field(default_factory=dict)

    def add(self, moves: int, value: float, held: NDArray[np.integer]) -> bool:
        """Take a plan in unless one with no more moves is as good; plans it beats are dropped."""
        if any(other <= moves and point[0] <= value for other, point in self.points.items()):
            return False
        for other in [other for other, point in self.points.items() if other >= moves and point[0] >= value]:
            del self.points[other]
        slots = np.flatnonzero(held != self.start).astype(np.int32)
        self.points[moves] = (value, slots, held[slots].astype(np.int32))
        return True

    def plan(self, moves: int) -> NDArray[np.int64]:
        """(S,) the plan of a point."""
        held = self.start.copy()
        _, slots, experts = self.points[moves]
        held[slots] = experts
        return held

    def moves(self) -> NDArray[np.int64]:
        """Moves of the points, rising."""
        return np.array(sorted(self.points), dtype=np.int64)

    def values(self) -> NDArray[np.float64]:
        """Their values, falling."""
        return np.array([self.points[moves][0] for moves in sorted(self.points)])

    def within(self, budget: int) -> int:
        """Moves of the best point with at most `budget` moves."""
        return max(moves for moves in self.points if moves <= budget)

    def reach(self, most: int) -> NDArray[np.float64]:
        """(most + 1,) best value with at most so many moves; infinite where there is no plan."""
        out = np.full(most + 1, np.inf)
        for moves, point in self.points.items():
            if moves <= most:
                out[moves] = point[0]
        best: NDArray[np.float64] = np.minimum.accumulate(out)
        return best
