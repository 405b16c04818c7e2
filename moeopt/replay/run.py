"""Play a history: every period, every policy plans from what is over and is scored on what comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from moeopt import kinds
from moeopt.errors import InstanceError, Violation, Violations, shortened
from moeopt.executors.run import Pools
from moeopt.executors.spoken import Given, made_of
from moeopt.limits import Limits
from moeopt.placement import verify
from moeopt.placement.instance import PlacementInstance
from moeopt.placement.public import PROBLEM
from moeopt.placement.replanning.report import running_plan
from moeopt.plugins import Policy as MethodPolicy
from moeopt.plugins import name_of
from moeopt.registry import Progress
from moeopt.replay.answer import Replay
from moeopt.replay.over import budget_notes
from moeopt.replay.playing import Playing
from moeopt.replay.policies import COMBINES, KEEP, SUM, policies
from moeopt.replay.prices import Prices
from moeopt.replay.schedule import periods
from moeopt.versions import versions

FIRST = "search"
"""The method of the first placement where none is named."""
GIVEN = "current"


def replay(
    history: PlacementInstance,
    names: Sequence[str | MethodPolicy],
    *,
    every: int = 1,
    lookback: int | None = None,
    combine: str = SUM,
    first: str | MethodPolicy | None = None,
    max_moves: int | str | None = None,
    max_moves_per_layer: int | None = None,
    prices: Prices | None = None,
    if_it_pays: bool = False,
    windows: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    prepared: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
    executor: Given = None,
) -> Replay:
    """Play policies over a history; each is scored on windows that it has not seen.

    Parameters
    ----------
    history
        A placement instance whose windows are in the order of time; with `current`, all policies begin with that plan.
    names
        ``keep``, methods of placement, ``package.module:function``, or functions of your own as `solve` takes them;
        ``search@5%`` has a budget of its own.
    every, lookback
        Windows between two plans; windows that a plan is made from (as `every`).
    combine
        ``sum``: windows seen together are added up; ``worst``, ``mean``, ``cvar``: they stay windows.
    first
        Method of the first placement (``search``), the same for all policies; not beside `current`.
    max_moves, max_moves_per_layer
        The budget of every re-plan; ``"10%"`` is of all slots. A policy that moves more is scored, but never best.
    prices
        Tell seconds, stall and break-even too.
    if_it_pays
        Move only where `decide` says so, from what was seen.
    windows, notes, prepared
        Names of the windows; what was done to the loads, in words and for whoever reads them again.
    limits, seed
        As in `solve`, for every plan; ``limits.time_s`` is for all together. Where time or an interrupt ends it, the
        periods played so far stay.
    on_progress
        Called after every plan.
    executor
        As `moeopt.executors.run_all` takes it: the policies of a period plan beside each other, and the answer is the
        same. `limits.stop` is asked between periods alone.

    Raises
    ------
    InstanceError
        An argument is impossible, a policy unknown, or the given plan breaks a rule; all of them at once.

    Notes
    -----
    The comparison is a fact about this history and claims nothing about the next one.

    Examples
    --------
    >>> history = PlacementInstance([[[8, 4, 2, 2]], [[8, 4, 2, 2]], [[2, 2, 4, 8]], [[2, 2, 8, 4]]], gpus=2, slots=6)
    >>> found = replay(history, ["keep", "eplb", "search@1"])
    >>> [(row.policy, [round(score.imbalance_mean, 3) for score in row.scores]) for row in found.rows]
    [('keep', [1.0, 1.25, 1.25]), ('eplb', [1.0, 1.25, 1.0]), ('search@1', [1.0, 1.25, 1.375])]
    """
    _check(history, combine, first, windows)
    limits, seed = PROBLEM.checked(history, limits, seed, on_progress)
    executor = made_of(executor)
    plan_of = policies(names, history, max_moves, max_moves_per_layer)
    times = periods(len(history.windows), every, lookback)
    check = Violations()
    kinds.is_a(check, "prices", prices, Prices, none=True)
    notes = kinds.listed(check, "notes", notes, str)
    if prepared is not None:
        kinds.mapping(check, "prepared", prepared, '{"slices": 4}')
    if not isinstance(if_it_pays, bool):
        check.refuse("if_it_pays", if_it_pays, rule="must be true or false", fix="Use False")
    check.raise_if_any()
    if prices is not None:
        prices.check(history)
    elif if_it_pays:
        check.add("prices", "missing", rule="are needed to say whether a move pays", fix="Give times of step and stall")
    if first is not None:
        with check.within():
            PROBLEM.method(first)
    check.raise_if_any()
    common = policies([KEEP], history, max_moves, max_moves_per_layer)[0]
    run = Playing(history, plan_of, times, combine, prices, if_it_pays, limits, seed, on_progress)
    if executor is None:
        run.play(first or FIRST)
    else:
        with closing(Pools(executor)) as run.pools:
            run.play(first or FIRST)
    rows = run.rows()
    return Replay(
        history,
        tuple(windows) if windows is not None else tuple(map(str, range(len(history.windows)))),
        every,
        len(times[0].seen),
        combine,
        times,
        run.played,
        run.first,
        GIVEN if history.current is not None else name_of(first or FIRST),
        tuple(run.bound),
        rows,
        common.max_moves,
        max_moves_per_layer,
        prices,
        if_it_pays,
        run.stop,
        seed,
        tuple(
            dict.fromkeys(
                (*notes, *history.notes, *run.all_notes(), *budget_notes(rows, run.budgetless, max_moves_per_layer))
            )
        ),
        versions("numpy"),
        run.deadline.elapsed_s(),
        run.conflicts,
        dict(prepared or {}),
    )


def _check(
    history: PlacementInstance, combine: str, first: str | MethodPolicy | None, windows: Sequence[str] | None
) -> None:
    check = Violations()
    if not isinstance(history, PlacementInstance):
        fix = "Build one with (W, L, E) loads"
        raise InstanceError([Violation("history", "", shortened(repr(history)), "must be a PlacementInstance", fix)])
    if history.window_loads is None:
        rule = "must have windows, in the order of time"
        check.add("history", "1 window", rule=rule, fix="Give (W, L, E) loads")
    if not isinstance(combine, str) or combine not in COMBINES:
        check.add("combine", combine, rule=f"must be one of {', '.join(COMBINES)}", fix=f"Use {SUM}")
    for name in ("max_moves", "max_moves_per_layer"):
        if getattr(history, name) is not None:
            rule = "is a budget of every re-plan"
            check.add(f"history.{name}", getattr(history, name), rule=rule, fix="Give it to the replay")
    if history.current is not None and history.gone:
        rule = "have no meaning in a replay of a running plan"
        check.add("history.lost, history.retire", "...", rule=rule, fix="Repair the plan first")
    elif history.current is not None:
        if first is not None:
            check.add("first", first, rule="is said by current already", fix="Give one of them")
        for fault in verify.faults(history, running_plan(history)):
            check.add("history.current", "...", rule=fault, fix="Give a plan that keeps the rules of the history")
    if windows is not None:
        windows = kinds.listed(check, "windows", windows, str)
        check.raise_if_any()
    if windows is not None and history.window_loads is not None and len(windows) != len(history.window_loads):
        rule = f"must be one for each of the {len(history.window_loads)} windows"
        check.add("windows", f"{len(windows)} names", rule=rule, fix="Leave them out")
    check.raise_if_any()
