"""Answers that time ran out for, or that were interrupted: what there is, and what can be said of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from moeopt.limits import Deadline
from moeopt.mesh.beside import prepare
from moeopt.mesh.clock import ENDS, OutOfTime, ended, watching
from moeopt.mesh.conflicts import Conflict, conflicts
from moeopt.mesh.heuristics.per_price import at_once
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import configs_of, is_partial, market_of
from moeopt.mesh.plan import MeshPlan, plan_of
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

REST = 0.75
"""What everything else takes at most, as a part of the time that enumerating has taken."""
LITTLE = 0.2
"""The same where nothing would be served otherwise."""
TELLING = 0.4
"""What judging and describing an answer takes of it."""
LEAST = 0.05
"""Part of the time that is left which these have, where enumerating took none."""
GRACE_S = 1.0
"""Seconds that they have after an interrupt."""
OUT_OF_TIME = tuple(f"{end} before all families were enumerated" for end in ENDS)
"""How the note of an answer begins that lacks configurations, by how it ended."""
LEFT_OUT = tuple(f"{end}, so these are left out: " for end in ENDS)
"""How the note of an answer begins that lacks a bound, or parts of its description."""
BOUND = "bound"
"""The bound among these."""
NOT_RECHECKED = ("families", "beside_colocated", "simplest", "ranking", "ranking_left_out", "pareto", "sensitivity")
"""Parts of a solution that say something about the configurations there were."""

Run = Callable[[MeshInstance, Context], Outcome[MeshPlan]]


def enumerated(instance: MeshInstance, deadline: Deadline) -> MeshInstance:
    """The instance with its configurations and conflicts, or another one with as many as there was time for."""
    if not deadline.watched:
        return instance
    start_s, whole = deadline.elapsed_s(), True
    if instance.configs is None and "configs" not in instance.memo:
        from moeopt.mesh.families import within

        left_s = deadline.remaining_s()
        shares = [deadline.within(left_s / (1 + rest) if deadline.limited else None) for rest in (REST, LITTLE)]
        found, whole = within(instance, *shares)
        if not whole:
            return _cut(instance, {"configs": tuple(found)})
        instance.memo["configs"] = tuple(found)
    took_s = deadline.elapsed_s() - start_s
    prepare(instance, deadline, REST * took_s)
    deadline.keep_back(max(TELLING * took_s, LEAST * max(deadline.remaining_s(), 0.0)) if deadline.limited else 0.0)
    try:
        with watching(deadline):
            known_conflicts(instance)
    except OutOfTime:
        return _cut(instance, {key: instance.memo[key] for key in SHARED if key in instance.memo})
    return instance


SHARED = ("configs", "refusals", "market")
"""What does not change where time runs out."""


def _cut(instance: MeshInstance, memo: dict[str, Any]) -> MeshInstance:
    found = copy.copy(instance)
    found.__dict__["memo"] = {**memo, "partial": True}
    return found


def known_conflicts(instance: MeshInstance) -> list[Conflict]:
    """Rules that no plan keeps, found once."""
    if "conflicts" not in instance.memo:
        instance.memo["conflicts"] = conflicts(instance)
    return [dict(one) for one in instance.memo["conflicts"]]


def in_time(run: Run) -> Run:
    """A method that, where time runs out before it has a plan, takes the most requests per price first."""

    def found(instance: MeshInstance, context: Context) -> Outcome[MeshPlan]:
        if is_partial(instance):
            plan = _quickly(instance)
            finished = _finished(instance)
            what = ", which serve nothing by themselves" if finished and plan is None else ""
            what = what if plan is None else "; the plan has the most requests per price of these"
            why = OUT_OF_TIME[context.deadline.stopped()]
            return Outcome(plan, Stop.TIME, notes=[f"{why}: finished are {finished or 'none'}{what}"])
        try:
            with watching(context.deadline):
                outcome = run(instance, context)
        except OutOfTime:
            outcome = Outcome(None, Stop.TIME)
        if outcome.plan is None and outcome.stop in (Stop.TIME, Stop.INTERRUPTED):
            outcome.plan = _quickly(instance)
            if outcome.plan is not None:
                why = ended(context.deadline)
                outcome.notes.append(f"{why} before there was a better plan than that of per_price")
        return outcome

    return found


def _finished(instance: MeshInstance) -> str:
    """Families that there are, for people."""
    demands: dict[str, set[int]] = {}
    for config in configs_of(instance):
        demands.setdefault(config.family, set()).add(config.demand)
    every = len(instance.demands)
    named = [name if len(of) == every else f"{name} of {len(of)} of {every} demands" for name, of in demands.items()]
    return ", ".join(named)


def _quickly(instance: MeshInstance) -> MeshPlan | None:
    market = market_of(instance)
    counts = at_once(market, enough=instance.objective != "goodput") if market.offers else None
    return None if counts is None else plan_of(instance, counts)


def applies(check: Callable[[MeshInstance], str | None]) -> Callable[[MeshInstance], str | None]:
    """Whether a method works on an instance; on a partial one `in_time` does."""
    return lambda instance: None if is_partial(instance) else check(instance)


def cut_short(document: Mapping[str, Any]) -> bool:
    """Whether a document says that its configurations were not all there."""
    return _ended(document) and any(one.startswith(OUT_OF_TIME) for one in document["notes"])


def left_out(document: Mapping[str, Any]) -> list[str]:
    """Parts that a document says there was no time for."""
    notes = [one.partition(": ")[2] for one in document["notes"] if one.startswith(LEFT_OUT)]
    return [name for note in notes for name in note.split(", ")] if _ended(document) else []


def _ended(document: Mapping[str, Any]) -> bool:
    return document["stop"] in ("TIME", "INTERRUPTED")
