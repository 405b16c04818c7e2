"""What `moeopt.collocation` offers, with every method registered."""

from __future__ import annotations

from moeopt.collocation import methods as _methods  # noqa: F401  (registers them)
from moeopt.collocation.bounds import bound, recheck
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation
from moeopt.collocation.problem import PROBLEM
from moeopt.collocation.reasons import explain
from moeopt.collocation.transports import TRANSPORTS, Transport
from moeopt.collocation.verify import Evaluation, faults

METHODS = PROBLEM.methods
solve = PROBLEM.solve
compare = PROBLEM.compare
register = PROBLEM.register
evaluate = PROBLEM.evaluate

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
