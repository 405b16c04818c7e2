"""What the package offers; see `moeopt.calibrate`."""

from moeopt.calibrate.collectives import CollectiveFit
from moeopt.calibrate.document import Calibration, read_calibration
from moeopt.calibrate.end_to_end import Replay, replay
from moeopt.calibrate.kernels import KernelFit
from moeopt.calibrate.run import calibrate
from moeopt.calibrate.steps import StepFit
from moeopt.calibrate.table import Table, read_table

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
