"""Many instances of one problem, solved by one method through an executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moeopt.errors import Violations
from moeopt.executors.run import Lost, run_all
from moeopt.executors.spoken import Given
from moeopt.limits import Limits
from moeopt.plugins import Policy
from moeopt.result import Result

Task = tuple[str, Any, str | Policy, Limits | None, int]


def solve_many(
    problem: str,
    instances: Sequence[Any],
    *,
    method: str | Policy = "auto",
    limits: Limits | None = None,
    seed: int = 0,
    executor: Given = None,
) -> list[Result | Lost]:
    """A result for each instance, in their order, equal to what one after the other gives.

    `instances` are all of that problem.

    Parameters
    ----------
    problem
        Its name: placement, routing, collocation, microbatch or mesh.
    method, limits, seed
        As every problem's ``solve`` takes them; limits are of each instance. In workers that are processes, methods of
        your own go by ``package.module:function``, and ``limits.stop`` cannot be asked.
    executor
        As `run_all` takes it; ``"processes:2"`` is two processes.

    Raises
    ------
    InstanceError, NotApplicable, PlanError
        As ``solve`` does, for the first instance that is done and fails.

    >>> from moeopt.placement import PlacementInstance
    >>> halves = [PlacementInstance([[load, 1, 1, 1]], gpus=2, slots=4) for load in (1, 3)]
    >>> [result.objective for result in solve_many("placement", halves, method="lpt")]
    [2.0, 4.0]
    """
    check = Violations()
    if isinstance(instances, str | bytes) or not isinstance(instances, Sequence):
        check.refuse("instances", instances, rule="must be a list of instances", fix="Write [instance]")
    check.raise_if_any()
    tasks: list[Task] = [(problem, instance, method, limits, seed) for instance in instances]
    found = dict(run_all(_solve, tasks, executor))
    return [found[place] for place in range(len(tasks))]


def _solve(task: Task) -> Result:
    from moeopt.registry import problem as room

    name, instance, method, limits, seed = task
    return room(name).solve(instance, method=method, limits=limits, seed=seed)
