"""The micro-batch room's frame: its methods, and how an outcome becomes a judged and bounded result."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from moeopt.microbatch import bounds, conflicts, describe, verify
from moeopt.microbatch.bounds import Argument
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.heuristics import sweep
from moeopt.microbatch.heuristics.sweep import SweepRow
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan, as_plan
from moeopt.microbatch.times import exact
from moeopt.registry import Context, Method, Outcome, Problem
from moeopt.result import CERTIFIED_TOLERANCE, SOLVER_TOLERANCE, BoundKind, Result, Status, Stop, relative_gap

Arguments = dict[Candidate, Argument]
LOOK = 64
"""Bounds between two looks at the time."""
TOLD_S = 1e-4
"""Time kept back for telling of a candidate."""


class MicrobatchProblem(Problem[MicrobatchInstance, MicrobatchPlan]):
    """How many micro-batches and how many tokens, for the shortest step or the most tokens a second."""

    name = "microbatch"

    def conflicts(self, instance: MicrobatchInstance) -> list[dict[str, Any]]:
        """Limits that no candidate keeps in any order of service."""
        return conflicts.conflicts(instance)

    def as_plan(self, instance: MicrobatchInstance, raw: Any) -> MicrobatchPlan:
        """Take a `MicrobatchPlan`, ``(m, batch)`` or a mapping."""
        return as_plan(raw)

    def from_policy(self, instance: MicrobatchInstance, raw: Any) -> MicrobatchPlan:
        """A copy."""
        plan = as_plan(raw)
        return as_plan((plan.m, plan.batch, plan.sequences))

    def evaluate(self, instance: MicrobatchInstance, plan: Any, split: str | None = None) -> verify.Evaluation:
        """Judge a plan exactly; raises `PlanError` with every fault.

        `split` has no meaning here and stays ``None``.

        >>> from moeopt import microbatch
        >>> times = {"attention": 1, "dispatch": 0.5, "experts": 1}
        >>> instance = microbatch.MicrobatchInstance(times, layers=2, m=[2, 4])
        >>> float(microbatch.evaluate(instance, (4, 4)).time)
        10.0
        """
        self.own(instance)
        return verify.evaluate(instance, as_plan(plan))

    def _without_plan(
        self, instance: MicrobatchInstance, method: str, outcome: Outcome[MicrobatchPlan], context: Context
    ) -> Result:
        """UNKNOWN, or where a solver says of every candidate that no order keeps the limit, INFEASIBLE."""
        claims: dict[Candidate, Fraction] = {} if outcome.bounds is None else dict(outcome.bounds)
        frame = self.frame(instance, method, outcome, context)
        if instance.tbt_slo_s is None or not claims or not _ruled_out(instance, claims):
            return Result(status=Status.UNKNOWN, **frame)
        frame["notes"] = tuple(note for note in frame["notes"] if not note.startswith("no candidate"))
        proved = {one: bounds.bound(instance, one) for one in instance.candidates}
        floor, kind, certificate = lower_bound(instance, proved, claims, None)
        return Result(
            status=Status.INFEASIBLE,
            conflicts=(conflicts.tbt_conflict(instance, claims),),
            lower_bound=float(floor),
            bound_kind=kind,
            certificate=certificate,
            **frame,
        )

    def reference(self, instance: MicrobatchInstance) -> dict[str, Any]:
        """Name, digest and document."""
        document = instance.to_dict()
        return {"name": instance.name, "sha256": instance.sha256, "document": document}

    def unit(self, instance: MicrobatchInstance) -> str:
        """What the objective is counted in."""
        return describe.unit(instance)

    def result(
        self, instance: MicrobatchInstance, method: str, outcome: Outcome[MicrobatchPlan], context: Context
    ) -> Result:
        """Judge the plan, take the better of it and a warm start, and bound every candidate.

        An interrupt meanwhile is kept, and does not cost the plan; a second one ends it at once.
        """
        try:
            return self._judged_result(instance, method, replace(outcome, notes=list(outcome.notes)), context)
        except KeyboardInterrupt:
            return self._judged_result(instance, method, replace(outcome, stop=Stop.INTERRUPTED), context)

    def _judged_result(
        self, instance: MicrobatchInstance, method: str, outcome: Outcome[MicrobatchPlan], context: Context
    ) -> Result:
        plan = outcome.plan
        if plan is None:
            return self._without_plan(instance, method, outcome, context)
        judged = verify.evaluate(instance, plan)
        if context.warm_start is not None:
            warm = verify.evaluate(instance, context.warm_start)
            if warm.objective <= judged.objective:
                plan, judged = context.warm_start, warm
        how, stop, notes = sweep.HOW.get(method, "auto"), outcome.stop, list(outcome.notes)
        rows: list[SweepRow] = outcome.details.get("rows") or []
        try:
            if not rows:
                said: list[str] = []
                rows = sweep.table(instance, how, context, notes=said)
                early, more = sweep.ended(instance, rows, context, said)
                notes += more
                stop = early if stop is Stop.FINISHED else stop
        except KeyboardInterrupt:
            stop = Stop.INTERRUPTED
            notes.append(f"interrupted after 0 of {len(instance.candidates)} candidates")
        rows = sweep.with_plan(instance, rows, plan, judged.time, how)
        proved, why = _proved(instance, judged.candidate, context)
        if why is not None:
            what = "interrupted" if why is Stop.INTERRUPTED else "the time was up"
            notes.append(f"{what} before every candidate had a bound: the lower bound is 0")
            stop = why if stop is Stop.FINISHED else stop
        outcome = replace(outcome, stop=stop, notes=notes)
        claims: dict[Candidate, Fraction] = {} if outcome.bounds is None else dict(outcome.bounds)
        floor, kind, certificate = lower_bound(instance, proved, claims, judged.objective)
        outcome.notes.extend(describe.notes(instance, judged, rows))
        objective = float(judged.objective)
        below = min(float(floor), objective)
        gap = relative_gap(objective, below)
        optimal = gap <= (CERTIFIED_TOLERANCE if kind == "certified" else SOLVER_TOLERANCE)
        return Result(
            status=Status.OPTIMAL if optimal else Status.FEASIBLE,
            objective=objective,
            lower_bound=below,
            bound_kind=kind,
            certificate=certificate,
            gap_worst_layer=gap,
            solution=describe.solution(instance, plan, judged, rows, proved),
            incumbents=tuple(outcome.incumbents) or ((context.deadline.elapsed_s(), objective),),
            plan=plan,
            **self.frame(instance, method, outcome, context, proved=optimal),
        )


def _ruled_out(instance: MicrobatchInstance, claims: dict[Candidate, Fraction]) -> bool:
    """Whether every candidate is above the limit on its time or on memory, by what is proved or clearly claimed."""
    limit = exact(instance.tbt_slo_s or 0.0)
    clearly = limit * (1 + exact(SOLVER_TOLERANCE))
    return all(
        not verify.fits_memory(instance, one)
        or bounds.bound(instance, one).seconds > limit
        or claims.get(one, Fraction(0)) > clearly
        for one in instance.candidates
    )


def _proved(instance: MicrobatchInstance, first: Candidate, context: Context) -> tuple[Arguments, Stop | None]:
    """A bound of every candidate, that of the plan first; and why some have none."""
    proved: Arguments = {first: bounds.bound(instance, first)}
    most = context.limits.time_s
    if most is not None:
        most -= min(most / 4, len(instance.candidates) * TOLD_S)
    try:
        for place, one in enumerate(instance.candidates):
            if place % LOOK == LOOK - 1:
                if context.deadline.stopped():
                    return proved, Stop.INTERRUPTED
                if most is not None and context.deadline.elapsed_s() > most:
                    return proved, Stop.TIME
            proved[one] = bounds.bound(instance, one)
    except KeyboardInterrupt:
        return proved, Stop.INTERRUPTED
    return proved, None


def lower_bound(
    instance: MicrobatchInstance, proved: Arguments, claims: dict[Candidate, Fraction], objective: Fraction | None
) -> tuple[Fraction, BoundKind, dict[str, Any]]:
    """The least over the candidates that are left, its kind, and the certificate that `verify.recheck` reads.

    `objective` is the plan's, ``None`` without one. A solver's claim about a candidate counts where it is above what is
    proved; the bound is then of kind ``solver``.
    """
    limit = None if instance.tbt_slo_s is None else exact(instance.tbt_slo_s)
    certified: list[Fraction] = []
    claimed: list[Fraction] = []
    rows = []
    for candidate, argument in proved.items():
        kind, where = argument.kind, argument.where
        if not verify.fits_memory(instance, candidate):
            kind, where = "memory", ""
        elif limit is not None and argument.seconds > limit:
            kind, where = "tbt", ""
        else:
            value = verify.worth(instance, candidate, argument.seconds)
            certified.append(value)
            claim = verify.worth(instance, candidate, claims.get(candidate, Fraction(0)))
            claimed.append(max(value, claim))
        rows.append([candidate.m, candidate.batch, kind, where, str(argument.seconds)])
    floor = min(certified) if len(proved) == len(instance.candidates) else Fraction(0)
    if not floor:
        claimed = [floor]
    certificate = {"kind": "candidates", "value": str(floor), "candidates": rows}
    best = min(claimed) if objective is None else min(min(claimed), objective)
    if best > floor:
        return best, "solver", {"kind": "solver", "claim": float(best), "certified": certificate}
    return floor if objective is None else min(floor, objective), "certified", certificate


PROBLEM = MicrobatchProblem()


def house(method: Method[MicrobatchInstance, MicrobatchPlan]) -> None:
    """Add a method of the house."""
    PROBLEM.methods[method.name] = method
