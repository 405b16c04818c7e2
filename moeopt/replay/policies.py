"""A policy: its name, its budget, and the plan it makes from what it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moeopt import plugins
from moeopt.errors import MoeoptError, NotApplicable, Violation, Violations
from moeopt.limits import Limits
from moeopt.placement import checks
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.move_budget import Budget, budget, moves_of
from moeopt.placement.plan import Placement
from moeopt.placement.public import PROBLEM
from moeopt.plugins import failure
from moeopt.result import Result

KEEP = "keep"
SUM = "sum"
EXAMPLE = "['keep', 'eplb', 'search']"
COMBINES = (SUM, "worst", "mean", "cvar")


@dataclass(frozen=True, slots=True)
class Policy:
    """A method with a budget of its own.

    Parameters
    ----------
    name
        As it was given, such as ``search@5%``.
    method
        `KEEP`, or a method of placement.
    max_moves, max_moves_per_layer
        Moves allowed at a re-plan.
    function
        Where it is a function and no method by name.
    """

    name: str
    method: str
    max_moves: int | None
    max_moves_per_layer: int | None
    function: plugins.Policy | None = field(default=None, compare=False, repr=False)

    @property
    def asked(self) -> str | plugins.Policy:
        """What answers: the function where one was given, or the method's name."""
        return self.function or self.method


Task = tuple[Policy, PlacementInstance, Limits, int]
"""A policy, what it is shown, and the limits and the seed of its plan."""
Answer = tuple[Result, bool] | str
"""As `make_plan` says it, or why there is none."""


def check_names(names: Any, max_moves: object, check: Violations) -> list[tuple[str, str | plugins.Policy, Budget]]:
    """Name, method and budget of each policy; notes what cannot be understood.

    >>> check_names(["keep", "eplb@5%"], 64, Violations())
    [('keep', 'keep', 64), ('eplb@5%', 'eplb', Fraction(1, 20))]
    """
    common = budget(max_moves, check=check)
    found = []

    def understand(name: Any) -> None:
        method, at, own = name.rpartition("@") if isinstance(name, str) else ("", "", name)
        method = method if at else own
        if method != KEEP:
            with check.within():
                if PROBLEM.method(method).name == KEEP:
                    rule, fix = f"has the name of keeping every plan, {KEEP!r}", "Rename it"
                    check.found.append(Violation("policies", "", plugins.shown(method), rule, fix))
        elif at:
            check.add("policies", name, rule="keeps every plan: it has no budget", fix=f"Write {KEEP}")
        found.append((plugins.name_of(name), method, budget(own, "policies", check) if at else common))

    with check.within():
        if not plugins.listed(names, understand, "policies", EXAMPLE):
            check.refuse("policies", names, rule="must be at least one", fix=f"Write {EXAMPLE}")
    return found


def policies(names: Any, history: PlacementInstance, max_moves: object, per_layer: int | None) -> tuple[Policy, ...]:
    """Policies by name, each once; what cannot be understood is said before any work.

    Raises
    ------
    InstanceError
        No name, an unknown method, a budget that is none.
    """
    check = Violations()
    if per_layer is not None:
        checks.whole("max_moves_per_layer", per_layer, 0, check)
    found = check_names(names, max_moves, check)
    check.raise_if_any()
    return tuple(
        Policy(
            name,
            plugins.name_of(method),
            moves_of(given, history),
            per_layer,
            None if isinstance(method, str) else method,
        )
        for name, method, given in found
    )


def seen(
    history: PlacementInstance, windows: range, combine: str = SUM, current: Placement | None = None
) -> PlacementInstance:
    """What a policy is shown: the windows that are over, and the running plan; nothing that comes later."""
    assert history.window_loads is not None
    table = np.ascontiguousarray(history.window_loads[windows.start : windows.stop])
    loads = np.ascontiguousarray(table.sum(axis=0))
    steps = history.window_steps[windows.start : windows.stop]
    for array in (table, loads):
        array.flags.writeable = False
    apart = combine != SUM and len(windows) > 1
    fields: dict[str, Any] = {
        "loads": loads,
        "window_loads": table if apart else None,
        "steps": sum(steps),
        "window_steps": steps if apart else (sum(steps),),
        "combine": combine if apart else "worst",
        "name": f"{history.name or 'history'}, windows {windows.start}-{windows.stop - 1}",
        "current": None if current is None else current.slot_expert,
        "current_gpu": None if current is None else tuple(history.gpu_of_slot.tolist()),
    }
    return history.changed(**fields)


def make_plan(policy: Policy, shown: PlacementInstance, limits: Limits, seed: int) -> tuple[Result, bool]:
    """The policy's answer, and whether it was asked to hold the budget.

    A method that knows no budgets is asked without one; the caller says so. Whoever moves more than the budget is
    judged like all others: a policy of somebody's is shown the budget, but no plan of it is refused for that.
    """
    method = PROBLEM.method(policy.asked)
    limited = shown.changed(max_moves=policy.max_moves, max_moves_per_layer=policy.max_moves_per_layer)
    held = True
    if "moves" in limited.extras and method.applies(limited) is not None:
        limited, held = shown.changed(move_cost=0.0), False
    reason = method.applies(limited)
    if reason is not None:
        raise NotApplicable(f"{policy.method} does not apply: {reason}")
    if method.claim == "plug-in":
        return PROBLEM.answer(limited, shown, method=policy.asked, limits=limits, seed=seed), held
    return PROBLEM.solve(limited, method=policy.asked, limits=limits, seed=seed), held


def answered(task: Task) -> Answer:
    """What a policy makes of what it is shown, here or in a worker."""
    policy, shown, limits, seed = task
    try:
        return make_plan(policy, shown, limits, seed)
    except MoeoptError as error:
        return str(error)
    except Exception as error:
        if PROBLEM.method(policy.asked).claim != "plug-in":
            raise
        return f"the policy failed: {failure(error)}"


def first_plan(
    history: PlacementInstance, method: str | plugins.Policy, shown: range, combine: str, limits: Limits, seed: int
) -> Result:
    """The first placement, from the first windows; nothing runs yet, and no move has a price."""
    return PROBLEM.solve(seen(history, shown, combine).changed(move_cost=0.0), method=method, limits=limits, seed=seed)
