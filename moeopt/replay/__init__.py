"""Policies of re-planning over a history of load windows, scored on windows they have not seen; ``models/replay.md``.

>>> from moeopt import placement, replay
>>> windows = [[[8, 4, 2, 2]], [[8, 4, 2, 2]], [[2, 2, 4, 8]], [[2, 2, 4, 8]]]
>>> history = placement.PlacementInstance(windows, gpus=2, slots=4)
>>> found = replay.replay(history, ["keep", "search"], max_moves=2)
>>> [(row.policy, row.figures.imbalance_mean, row.figures.moves) for row in found.rows]
[('keep', 1.25, 0), ('search', 1.25, 0)]
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.replay.public import *  # noqa: F403

__all__ = [
    "KEEP",
    "SCHEMA",
    "Figures",
    "Period",
    "Policy",
    "Prices",
    "Replan",
    "Replay",
    "Row",
    "Score",
    "faults",
    "periods",
    "replay",
]

__getattr__ = exports(__name__, __all__)
