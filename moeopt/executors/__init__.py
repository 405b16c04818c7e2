"""Work on many things at once, here or on a cluster: any executor of ``concurrent.futures``, answers as one by one.

>>> from moeopt.executors import run_all
>>> dict(run_all(len, ["a", "bc"]))
{0: 1, 1: 2}
"""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.executors.public import *  # noqa: F403

__all__ = [
    "Lost",
    "make_executor",
    "run_all",
    "solve_many",
]


__getattr__ = exports(__name__, __all__)
