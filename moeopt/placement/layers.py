"""Layers planned apart, each as an instance of its own, beside each other through an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from moeopt.errors import MoeoptError, NotApplicable
from moeopt.executors.run import Lost, run_all
from moeopt.executors.spoken import Given, made_of
from moeopt.limits import Deadline, Limits
from moeopt.placement import methods as _methods  # noqa: F401  (registers them, in a worker too)
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.plan import Placement
from moeopt.placement.problem import PROBLEM
from moeopt.plugins import Policy
from moeopt.registry import Context, Outcome, Progress
from moeopt.result import Result, Stop

LATER = (Stop.FINISHED, Stop.GAP, Stop.ITERATIONS, Stop.NODES, Stop.TIME, Stop.INTERRUPTED)
"""Of several reasons to stop, the last one here is told."""
Task = tuple[PlacementInstance, str | Policy, Limits, int, int]


def solve_layers(
    instance: PlacementInstance,
    *,
    method: str | Policy = "auto",
    limits: Limits | None = None,
    seed: int = 0,
    executor: Given = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Plan every layer by itself; without a time limit the answer is the one of `solve`.

    Layers share no rule but a budget of moves, so nothing is lost by planning them apart. It is for methods that take
    long, such as ``exact`` with many layers: they run beside each other, on other machines too.

    Parameters
    ----------
    method, seed
        As in `solve`.
    limits
        Of each layer, `time_s` too. Workers that are processes cannot ask ``limits.stop``.
    executor
        As `moeopt.executors.run_all` takes it; without one, layer after layer with the same answer.
    on_progress
        Called after every layer.

    Raises
    ------
    InstanceError, PlanError
        As `solve` does.
    NotApplicable
        The method cannot work on this instance, or a plan runs, whose moves are one budget.
    MoeoptError
        A layer ended its worker again and again.

    >>> instance = PlacementInstance([[8, 4, 2, 2], [1, 1, 1, 5]], gpus=2, slots=6)
    >>> solve_layers(instance, method="exact").objective == solve_layers(instance, method="search").objective
    True
    """
    limits, seed = PROBLEM.checked(instance, limits, seed, on_progress)
    executor = made_of(executor)
    if instance.current is not None:
        raise NotApplicable("layers are not planned apart where a plan runs: its moves are counted over all of them")
    context = Context(limits, seed, Deadline(None))
    chosen = PROBLEM.method(method)
    conflicts = PROBLEM.conflicts(instance)
    if conflicts:
        return PROBLEM.impossible(instance, chosen.name, conflicts, context)
    reason = chosen.applies(instance)
    if reason:
        raise NotApplicable(f"{chosen.name} does not apply: {reason}")
    sent = limits if executor is None else replace(limits, stop=None)
    tasks: list[Task] = [(one, method, sent, seed, row) for row, one in enumerate(cut(instance))]
    found: dict[int, Outcome[Placement]] = {}
    with closing(run_all(_outcome, tasks, executor)) as made:
        for row, outcome in made:
            if isinstance(outcome, Lost):
                raise MoeoptError(f"layer {instance.layers[row]} ended its worker: {outcome.reason}")
            found[row] = outcome
            if on_progress is not None:
                on_progress(Progress(len(found), len(tasks), f"layer {instance.layers[row]}"))
    joined = _joined(instance.layers, [found[row] for row in range(len(tasks))])
    bounded = replace(context, limits=replace(limits, gap=max(limits.gap or 0.0, _PROVED)))
    return PROBLEM.result(instance, chosen.name, joined, bounded)


_PROVED = 1 - 2**-53
"""A gap below which no layer is bounded once more: each has been, where it was planned."""


def cut(instance: PlacementInstance) -> list[PlacementInstance]:
    """L instances of one layer each.

    >>> [one.layers for one in cut(PlacementInstance([[2, 1], [1, 1]], gpus=2, slots=2, layers=[3, 5]))]
    [(3,), (5,)]
    """
    found = []
    for row, layer in enumerate(instance.layers):
        loads = np.ascontiguousarray(instance.loads[row : row + 1])
        windows = instance.window_loads
        apart = None if windows is None else np.ascontiguousarray(windows[:, row : row + 1])
        for table in (loads, apart):
            if table is not None:
                table.flags.writeable = False
        found.append(instance.changed(loads=loads, window_loads=apart, layers=(layer,)))
    return found


def _outcome(task: Task) -> Outcome[Placement]:
    """One layer, in a worker: its plan, its parts and its bound."""
    instance, method, limits, seed, row = task
    context = Context(limits, seed, Deadline(limits.time_s, limits.stop), first_row=row)
    outcome = PROBLEM.method(method).run(instance, context)
    return PROBLEM.finished(instance, outcome, context)


def _joined(layers: Sequence[int], outcomes: Sequence[Outcome[Placement]]) -> Outcome[Placement]:
    """One outcome of all layers; without a plan where one of them has none."""
    stop = max((one.stop for one in outcomes), key=LATER.index)
    common = set(outcomes[0].notes).intersection(*(one.notes for one in outcomes))
    notes = [
        note if note in common else f"layer {layer}: {note}"
        for layer, one in zip(layers, outcomes, strict=True)
        for note in one.notes
    ]
    iterations = sum(one.iterations for one in outcomes)
    versions = {name: version for one in outcomes for name, version in one.versions.items()}
    plans = [one.plan for one in outcomes if one.plan is not None]
    if len(plans) < len(outcomes):
        return Outcome(None, stop, iterations, notes=notes, versions=versions)
    shares = [plan.shares for plan in plans if plan.shares is not None]
    return Outcome(
        Placement.of(
            np.concatenate([plan.slot_expert for plan in plans]),
            tuple(row for one in shares for row in one) if len(shares) == len(plans) else None,
        ),
        stop,
        iterations,
        bounds=[bound for one in outcomes for bound in one.bounds or ()],
        notes=notes,
        versions=versions,
        details=_merged([one.details for one in outcomes]),
    )


def _merged(found: Sequence[Any]) -> Any:
    """What methods tell of single layers as they tell it of several: lists one after the other.

    >>> _merged([{"copies": [1]}, {"copies": [2]}])
    {'copies': [1, 2]}
    """
    if isinstance(found[0], dict):
        return {name: _merged([one[name] for one in found]) for name in found[0]}
    return [row for one in found for row in one]
