"""Micro-batches: into how many parts a step is cut so that computing hides communication; see ``models/microbatch.md``.

>>> from moeopt import microbatch
>>> times = {"attention": 0.4e-3, "dispatch": 0.3e-3, "experts": 0.5e-3}  # seconds; combine takes as long as dispatch
>>> result = microbatch.solve(microbatch.MicrobatchInstance(times, layers=40, m=[2, 3, 4]))
>>> [row["time_s"] for row in result.solution["sweep"]], result.solution["fewest_m"]["ours"], str(result.status)
([0.0605, 0.061, 0.081], 3, 'OPTIMAL')
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.microbatch.public import *  # noqa: F403

__all__ = [
    "METHODS",
    "PATTERNS",
    "PROBLEM",
    "Candidate",
    "Constant",
    "Evaluation",
    "Linear",
    "MicrobatchInstance",
    "MicrobatchPlan",
    "Table",
    "Transfer",
    "compare",
    "evaluate",
    "faults",
    "register",
    "solve",
]


__getattr__ = exports(__name__, __all__)
