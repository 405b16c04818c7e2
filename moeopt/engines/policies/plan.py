"""A map under way, and the figures of it that the log gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.policies.shape import Ints

Floats = NDArray[np.float64]


@dataclass
class Plan:
    """A map under way: ``held`` (L, S), its costs ``top``, and what they are measured by, tokens; L each.

    ``before`` is the cost of what runs, made full where experts or slots were missing.
    """

    held: Ints
    top: Floats
    bound: Floats
    ideal: Floats
    before: Floats | None = None
    open: int = 0
    """Layers that were worth planning."""
    searched: int = 0
    """Those that the deep search, or the re-planning, went through."""
    stuck: int = 0
    """Layers whose groups or doubles break the rules, and stay so within the budget."""
    notes: list[str] = field(default_factory=list)

    def figures(self) -> tuple[float | None, float, float]:
        """Mean imbalance before (``None``: no running map), after, and of the bound, of layers that have loads."""
        busy = self.ideal > 0

        def mean(cost: Floats) -> float:
            return float((cost[busy] / self.ideal[busy]).mean()) if busy.any() else 1.0

        return None if self.before is None else mean(self.before), mean(self.top), mean(self.bound)
