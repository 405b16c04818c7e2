"""MILP back ends: models in, checked answers out. PuLP and solvers live here and nowhere else."""

from moeopt.backends.base import LinearModel, SolverAnswer
from moeopt.backends.pulp_io import read_back, write_lp, write_mps
from moeopt.backends.registry import BACKENDS, Backend, available_backends
from moeopt.backends.solve import solve_model
from moeopt.backends.worker import Worker

__all__ = [
    "BACKENDS",
    "Backend",
    "LinearModel",
    "SolverAnswer",
    "Worker",
    "available_backends",
    "read_back",
    "solve_model",
    "write_lp",
    "write_mps",
]
