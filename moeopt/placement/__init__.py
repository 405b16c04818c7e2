"""Expert placement with replicas: how many copies of each expert, and the GPU of each; see ``models/placement.md``.

>>> from moeopt import placement
>>> instance = placement.PlacementInstance([[8, 4, 2, 2]], gpus=8, slots=8)
>>> result = placement.solve(instance, method="lpt")
>>> result.objective, str(result.status), result.solution["layers"][0]["replicas"]
(2.0, 'OPTIMAL', [4, 2, 1, 1])
"""

from __future__ import annotations

# ruff: noqa: F405
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moeopt.placement.public import *  # noqa: F403  (at run time: see `__getattr__`)

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
    "steps",
    "survival",
]


def __getattr__(name: str) -> Any:
    """Names above, once one is used: who reads or converts a plan need not wait for solvers."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module("moeopt.placement.public"), name)
    globals()[name] = found
    return found
