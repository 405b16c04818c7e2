"""What `moeopt.placement` offers, with every method registered."""

from __future__ import annotations

from collections.abc import Callable

from moeopt.limits import Limits
from moeopt.placement import methods as _methods  # noqa: F401  (registers them)
from moeopt.placement.budgets import memory_budget
from moeopt.placement.curve import slots_curve
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.lasting import lost_if, survival
from moeopt.placement.layers import solve_layers
from moeopt.placement.plan import Placement
from moeopt.placement.problem import PROBLEM
from moeopt.placement.replanning.decide import Decision, decide
from moeopt.placement.replanning.run import replan
from moeopt.placement.replanning.steps import Step, Transfer, steps
from moeopt.placement.verify import Evaluation, faults
from moeopt.registry import Progress
from moeopt.result import Result

METHODS = PROBLEM.methods
solve = PROBLEM.solve
compare = PROBLEM.compare
register = PROBLEM.register
evaluate = PROBLEM.evaluate


def repair(
    instance: PlacementInstance,
    *,
    limits: Limits | None = None,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Restore every expert of the running plan after GPUs were lost or retired: ``solve`` with method ``repair``.

    The fewest loads from storage (proved), then the fewest moves, then balance with what `max_moves` leaves. What was
    lost, what is loaded and copied, and from where, stands in ``solution["repair"]``.

    >>> instance = PlacementInstance([[4, 3, 2, 1]], gpus=3, slots=6, current=[[0, 1, 2, 0, 3, 1]], lost=[1])
    >>> repair(instance).solution["repair"]["layers"][0]["from_storage"]
    [[2, 0, 1]]
    """
    return solve(instance, method="repair", limits=limits, seed=seed, on_progress=on_progress)


__all__ = [
    "METHODS",
    "PROBLEM",
    "Decision",
    "Evaluation",
    "Placement",
    "PlacementInstance",
    "Step",
    "Transfer",
    "compare",
    "decide",
    "evaluate",
    "faults",
    "lost_if",
    "memory_budget",
    "register",
    "repair",
    "replan",
    "slots_curve",
    "solve",
    "solve_layers",
    "steps",
    "survival",
]
