"""Routing: how the tokens of each expert are split over its replicas, for a fixed hosting; see ``models/routing.md``.

>>> from moeopt import routing
>>> instance = routing.RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)  # expert 0 lies on both GPUs
>>> result = routing.solve(instance)
>>> result.objective, str(result.status), result.solution["even_objective"]
(7.5, 'OPTIMAL', 8.5)
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.routing.public import *  # noqa: F403

__all__ = [
    "METHODS",
    "PROBLEM",
    "Cut",
    "Evaluation",
    "Routing",
    "RoutingInstance",
    "compare",
    "evaluate",
    "faults",
    "register",
    "solve",
]


__getattr__ = exports(__name__, __all__)
