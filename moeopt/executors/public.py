"""What `moeopt.executors` offers."""

from __future__ import annotations

from moeopt.executors.many import solve_many
from moeopt.executors.run import Lost, run_all
from moeopt.executors.spoken import make_executor

__all__ = [
    "Lost",
    "make_executor",
    "run_all",
    "solve_many",
]
