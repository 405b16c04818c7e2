"""What `moeopt.mesh` offers, with every method registered."""

from __future__ import annotations

from moeopt.mesh import methods as _methods  # noqa: F401  (registers them)
from moeopt.mesh.bounds import bound, recheck
from moeopt.mesh.config import Config, Memory
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.imbalance import Imbalance
from moeopt.mesh.instance import Demand, MeshInstance, demand_of
from moeopt.mesh.other_levels import SloPoint, slo_curve
from moeopt.mesh.plan import MeshPlan, Pool
from moeopt.mesh.problem import PROBLEM
from moeopt.mesh.shape import ApartShape, Shape
from moeopt.mesh.verify import Evaluation, faults
from moeopt.mesh.workload import Slo, Workload

METHODS = PROBLEM.methods
solve = PROBLEM.solve
compare = PROBLEM.compare
register = PROBLEM.register
evaluate = PROBLEM.evaluate

__all__ = [
    "METHODS",
    "PROBLEM",
    "ApartShape",
    "Config",
    "Demand",
    "Evaluation",
    "GpuType",
    "Imbalance",
    "Memory",
    "MeshInstance",
    "MeshPlan",
    "Pool",
    "Shape",
    "Slo",
    "SloPoint",
    "Workload",
    "bound",
    "compare",
    "demand_of",
    "evaluate",
    "faults",
    "recheck",
    "register",
    "slo_curve",
    "solve",
]
