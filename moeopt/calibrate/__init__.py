"""Constants of the cost models from measurements: kernels, collectives, steps; with residuals, range and source."""

from __future__ import annotations

# ruff: noqa: F405
from typing import TYPE_CHECKING

from moeopt.lazy import exports

if TYPE_CHECKING:
    from moeopt.calibrate.public import *  # noqa: F403

__all__ = [
    "Calibration",
    "CollectiveFit",
    "KernelFit",
    "Replay",
    "StepFit",
    "Table",
    "calibrate",
    "read_calibration",
    "read_table",
    "replay",
]

__getattr__ = exports(__name__, __all__)
