"""`replan`: the library call."""

from __future__ import annotations

from collections.abc import Callable

from moeopt.limits import Limits
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.problem import PROBLEM
from moeopt.registry import Progress
from moeopt.result import Result


def replan(
    instance: PlacementInstance,
    *,
    limits: Limits | None = None,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Re-plan from the running plan ``instance.current``: `solve` with the method ``replan``.

    Under ``max_moves`` (the whole plan), ``max_moves_per_layer`` or ``move_cost`` (tokens a moved replica) the best
    plan found; without any of them a plan as good as a fresh one that moves little. ``solution`` then has ``moves``,
    ``imbalance_now`` and ``frontier``, and every layer ``moves`` and ``moved``.

    Raises
    ------
    NotApplicable
        The instance has no running plan.

    Examples
    --------
    >>> instance = PlacementInstance([[10, 9, 5, 4, 2, 1]], gpus=3, slots=6, current=[[0, 1, 2, 3, 4, 5]], max_moves=2)
    >>> result = replan(instance)
    >>> result.objective, result.solution["moves"], result.solution["layers"][0]["moved"]
    (11.0, 2, [[5, 2, 0, 1], [1, 0, 2, 5]])
    """
    return PROBLEM.solve(instance, method="replan", limits=limits, seed=seed, on_progress=on_progress)
