"""The mesh room's frame: its methods, and how an outcome becomes a judged and bounded result."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from typing import Any

from moeopt.limits import Deadline
from moeopt.mesh import bounds, conflicts, describe, partial, verify
from moeopt.mesh.clock import OutOfTime, watching
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.late import sooner_notes
from moeopt.mesh.market import is_partial
from moeopt.mesh.plan import MeshPlan, Pool, as_plan
from moeopt.registry import Context, Method, Outcome, Problem
from moeopt.result import CERTIFIED_TOLERANCE, SOLVER_TOLERANCE, BoundKind, Result, Status, Stop, relative_gap

CLOSE = Fraction(1, 10**13)
"""Differences below this part are those of doubles."""


class MeshProblem(Problem[MeshInstance, MeshPlan]):
    """Which parallel degrees, which pools, which GPUs, how many."""

    name = "mesh"
    built_on = ("numpy", "scipy")

    def readied(self, instance: MeshInstance, method: str) -> AbstractContextManager[None]:
        """With the solver's process on its way, where it is likely to be needed."""
        from moeopt.mesh.exact import started_ahead

        return started_ahead(instance, method)

    def prepared(self, instance: MeshInstance, context: Context) -> MeshInstance:
        """The instance with its configurations, as far as there is time for them."""
        return partial.enumerated(instance, context.deadline)

    def conflicts(self, instance: MeshInstance) -> list[dict[str, Any]]:
        """Service levels, memory or stock that no plan keeps."""
        return [] if is_partial(instance) else partial.known_conflicts(instance)

    def as_plan(self, instance: MeshInstance, raw: Any) -> MeshPlan:
        """Take a `MeshPlan`, replicas by configuration, or the solution of a result."""
        return as_plan(instance, raw)

    def from_policy(self, instance: MeshInstance, raw: Any) -> MeshPlan:
        """A copy."""
        pools = as_plan(instance, raw).pools
        return MeshPlan(tuple(Pool(deepcopy(pool.config), int(pool.replicas)) for pool in pools))

    def evaluate(self, instance: MeshInstance, plan: Any, split: str | None = None) -> verify.Evaluation:
        """Judge a plan exactly; raises `PlanError` with every fault.

        `split` has no meaning here and stays ``None``.

        >>> from moeopt import mesh
        >>> from moeopt.llm import find
        >>> pool = mesh.Config(0, "decode", mesh.Shape("decode", "H100"), 1, {"H100": 2}, decode_per_s=10, name="D")
        >>> wanted = mesh.Demand(find("mixtral-8x7b"), mesh.Workload(1024, 256, rate_per_s=15))
        >>> h100 = mesh.GpuType.of("H100")
        >>> instance = mesh.MeshInstance([wanted], [h100], "gpus", families=("decode",), configs=[pool])
        >>> mesh.evaluate(instance, {"D": 2}).gpus
        {'H100': 4}
        """
        self.own(instance)
        return verify.evaluate(instance, as_plan(instance, plan))

    def reference(self, instance: MeshInstance) -> dict[str, Any]:
        """Name, digest and document."""
        return {"name": instance.name, "sha256": instance.sha256, "document": instance.to_dict()}

    def unit(self, instance: MeshInstance) -> str:
        """What the objective is counted in."""
        return describe.unit(instance)

    def result(self, instance: MeshInstance, method: str, outcome: Outcome[MeshPlan], context: Context) -> Result:
        """Judge the plan, take a warm start where that is no worse, bound it, and describe it."""
        plan = outcome.plan
        judged = None if plan is None else verify.evaluate(instance, plan)
        if context.warm_start is not None:
            warm = verify.evaluate(instance, context.warm_start)
            if judged is None or _order(warm) < _order(judged):
                plan, judged = context.warm_start, warm
        if plan is None or judged is None:
            return self._without_plan(instance, method, outcome, context)
        floor, solution, late = _described(instance, judged, context.deadline.rest(partial.GRACE_S))
        claim = max(outcome.bounds or [], default=None)
        low, kind, certificate = _floor(floor, claim, judged.objective)
        objective, below = float(judged.objective), min(float(low), float(judged.objective))
        gap = relative_gap(objective, below)
        optimal = gap <= _tolerance(kind)
        outcome.notes.extend(describe.notes(instance, judged, proved=optimal, short=is_partial(instance)))
        outcome.notes.extend(_nearly(instance, judged.objective, low, kind) if optimal else [])
        if late:
            outcome.notes.append(partial.LEFT_OUT[context.deadline.stopped()] + ", ".join(late))
        with suppress(OutOfTime), watching(context.deadline):
            outcome.notes.extend(sooner_notes(instance, judged, context.deadline))
        frame = self.frame(instance, method, outcome, context, proved=optimal)
        if late:
            frame["stop"] = Stop.INTERRUPTED if context.deadline.stopped() else Stop.TIME
        return Result(
            status=Status.OPTIMAL if optimal else Status.FEASIBLE,
            objective=objective,
            lower_bound=below,
            bound_kind=kind,
            certificate=certificate,
            gap_worst_layer=gap,
            solution=solution,
            incumbents=tuple(outcome.incumbents) or ((context.deadline.elapsed_s(), objective),),
            plan=plan,
            **frame,
        )

    def _without_plan(
        self, instance: MeshInstance, method: str, outcome: Outcome[MeshPlan], context: Context
    ) -> Result:
        """UNKNOWN, or where a solver says that there is none, INFEASIBLE."""
        frame = self.frame(instance, method, outcome, context)
        if outcome.details.get("claimed_infeasible"):
            return Result(status=Status.INFEASIBLE, conflicts=(conflicts.stock_conflict(instance),), **frame)
        return Result(status=Status.UNKNOWN, **frame)


def _described(
    instance: MeshInstance, judged: verify.Evaluation, deadline: Deadline
) -> tuple[bounds.Bound, dict[str, Any], list[str]]:
    """A bound and a description of a plan, and what of them there was no time for."""
    floor, late = bounds.TRIVIAL, []
    if not is_partial(instance):
        try:
            with watching(deadline.share(2)):
                floor = bounds.bound(instance, judged.objective)
        except OutOfTime:
            late.append(partial.BOUND)
    with watching(deadline):
        solution, parts = describe.in_time(instance, judged)
    return floor, solution, late + parts


def _tolerance(kind: BoundKind) -> float:
    """The largest gap of an OPTIMAL answer."""
    return CERTIFIED_TOLERANCE if kind == "certified" else SOLVER_TOLERANCE


def _nearly(instance: MeshInstance, objective: Fraction, low: Fraction, kind: BoundKind) -> list[str]:
    """A note where what is counted differs from its bound, though by less than OPTIMAL allows."""
    more = objective - low
    if instance.objective not in ("gpus", "price") or more <= objective * CLOSE:
        return []
    apart = f"{float(more):,.6g} {describe.unit(instance)} ({float(more / objective):.2g} of it)"
    return [f"OPTIMAL allows a gap of {_tolerance(kind):g}: the plan is {apart} above its bound"]


def _order(judged: verify.Evaluation) -> tuple[Fraction, int]:
    return judged.objective, sum(judged.gpus.values())


def _floor(
    floor: bounds.Bound, claim: Fraction | None, objective: Fraction
) -> tuple[Fraction, BoundKind, dict[str, Any]]:
    """The bound, its kind and its certificate; a solver's claim only where it says clearly more."""
    certified = dict(floor.certificate)
    value = min(floor.value, objective)
    close = relative_gap(float(objective), min(float(value), float(objective))) <= CERTIFIED_TOLERANCE
    if claim is None or close or claim <= value:
        return value, "certified", certified
    claim = min(claim, objective)
    if objective - claim <= objective * Fraction(SOLVER_TOLERANCE):
        claim = objective
    return claim, "solver", {"kind": "solver", "claim": float(claim), "certified": certified}


PROBLEM = MeshProblem()


def house(method: Method[MeshInstance, MeshPlan]) -> None:
    """Add a method of the house."""
    run, applies = partial.in_time(method.run), partial.applies(method.applies)
    PROBLEM.methods[method.name] = replace(method, run=run, applies=applies)
