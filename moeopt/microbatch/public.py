"""What `moeopt.microbatch` offers, with every method registered."""

from __future__ import annotations

from moeopt.microbatch import methods as _methods  # noqa: F401  (registers them)
from moeopt.microbatch.builders import PATTERNS
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.problem import PROBLEM
from moeopt.microbatch.times import Constant, Linear, Table, Transfer
from moeopt.microbatch.verify import Evaluation, faults

METHODS = PROBLEM.methods
solve = PROBLEM.solve
compare = PROBLEM.compare
register = PROBLEM.register
evaluate = PROBLEM.evaluate

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
