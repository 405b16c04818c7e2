"""Expert placement with replicas: how many copies of each expert, and the GPU of each; see ``models/placement.md``.

>>> from moeopt import placement
>>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=8, slots=8)
>>> result = placement.solve(instance, method="lpt")
>>> result.objective, str(result.status), result.solution["layers"][0]["replicas"]
(2.0, 'OPTIMAL', [4, 2, 1, 1])
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.placement.public import *  # noqa: F403

__all__ = [
    "METHODS",
    "PROBLEM",
    "Decision",
    "Evaluation",
    "Placement",
    "PlacementInstance",
    "Step",
    "Transfer",
    "compare",
    "decide",
    "evaluate",
    "faults",
    "lost_if",
    "memory_budget",
    "register",
    "repair",
    "replan",
    "slots_curve",
    "solve",
    "solve_layers",
    "steps",
    "survival",
]


__getattr__ = exports(__name__, __all__)
