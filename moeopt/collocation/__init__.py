"""Collocation: which experts share a GPU or a node, so that least travels; see ``models/collocation.md``.

>>> from moeopt import collocation
>>> tokens = [[0, 2], [1, 3]] * 8
>>> result = collocation.solve(collocation.CollocationInstance(tokens, experts=4, nodes=2, gpus=2))
>>> result.solution["lambda"], result.objective, str(result.status)
(1.0, 8.0, 'OPTIMAL')
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.collocation.public import *  # noqa: F403

__all__ = [
    "METHODS",
    "PROBLEM",
    "TRANSPORTS",
    "Collocation",
    "CollocationInstance",
    "Evaluation",
    "Transport",
    "bound",
    "compare",
    "evaluate",
    "explain",
    "faults",
    "recheck",
    "register",
    "solve",
]


__getattr__ = exports(__name__, __all__)
