"""What `moeopt.routing` offers, with every method registered."""

from __future__ import annotations

from moeopt.routing import methods as _methods  # noqa: F401  (registers them)
from moeopt.routing.bounds import Cut
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.plan import Routing
from moeopt.routing.problem import PROBLEM
from moeopt.routing.verify import Evaluation, faults

METHODS = PROBLEM.methods
solve = PROBLEM.solve
compare = PROBLEM.compare
register = PROBLEM.register
evaluate = PROBLEM.evaluate

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
