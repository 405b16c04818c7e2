"""The collocation room's frame: its methods, and how an outcome becomes a judged and bounded result."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from moeopt.collocation import bounds, describe, verify
from moeopt.collocation.bounds import LayerBound
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.plan import Collocation, as_collocation
from moeopt.plugins import Policy
from moeopt.registry import Comparison, Context, Method, Outcome, Problem
from moeopt.result import CERTIFIED_TOLERANCE, Result, Status, relative_gap


class CollocationProblem(Problem[CollocationInstance, Collocation]):
    """Which experts share a GPU or a node, for the least traffic."""

    name = "collocation"
    built_on = ("numpy", "networkx")

    def conflicts(self, instance: CollocationInstance) -> list[dict[str, Any]]:
        """A load cap that no plan keeps: one expert alone is above it."""
        return describe.cap_conflicts(instance)

    def as_plan(self, instance: CollocationInstance, raw: Any) -> Collocation:
        """Take a `Collocation`, an array, or nested lists."""
        return as_collocation(instance, raw)

    def from_policy(self, instance: CollocationInstance, raw: Any) -> Collocation:
        """A copy."""
        return Collocation.of(as_collocation(instance, raw).slot_expert)

    def evaluate(self, instance: CollocationInstance, plan: Any, split: str | None = None) -> verify.Evaluation:
        """Judge a plan exactly; raises `PlanError` with every fault.

        `split` has no meaning here and stays ``None``.

        >>> from moeopt import collocation
        >>> instance = collocation.CollocationInstance([[0, 2], [1, 3]] * 8, experts=4, nodes=2, gpus=2)
        >>> int(collocation.evaluate(instance, [[0, 2, 1, 3]]).objective)
        8
        """
        self.own(instance)
        return verify.evaluate(instance, plan)

    def reference(self, instance: CollocationInstance) -> dict[str, Any]:
        """Name, digest and document."""
        document = instance.to_dict(bulk=False)
        return {"name": instance.name, "sha256": instance.sha256, "document": document}

    def unit(self, instance: CollocationInstance) -> str:
        """What the objective is counted in."""
        return describe.unit(instance)

    def compare(self, instance: CollocationInstance, methods: Iterable[str | Policy], **given: Any) -> Comparison:
        """See `Problem.compare`; bounds, which are the same for every method, are in nobody's time.

        `methods` are run on `instance`; `given` are the other arguments: plans, limits, seed, on_progress, executor.

        >>> from moeopt import collocation
        >>> instance = collocation.CollocationInstance([[0, 2], [1, 3]] * 8, experts=4, nodes=2, gpus=2)
        >>> collocation.compare(instance, ["id_order", "greedy"]).best
        'greedy'
        """
        if isinstance(instance, CollocationInstance):
            _floors(instance)
        return super().compare(instance, methods, **given)

    def result(
        self, instance: CollocationInstance, method: str, outcome: Outcome[Collocation], context: Context
    ) -> Result:
        """Judge the plan, take a warm start where that is better, and bound every layer."""
        plan = outcome.plan
        if plan is None:
            return Result(status=Status.UNKNOWN, **self.frame(instance, method, outcome, context))
        judged = verify.evaluate(instance, plan)
        if context.warm_start is not None:
            warm = verify.evaluate(instance, context.warm_start)
            if warm.objective < judged.objective:
                plan, judged = context.warm_start, warm
        floors: list[LayerBound] = list(outcome.bounds) if outcome.bounds is not None else []
        floors = floors or _within(instance, context, outcome.notes)
        claimed = any(floor.certificate["kind"] == "solver" for floor in floors)
        lows = [min(floor.value, value) for floor, value in zip(floors, judged.values, strict=True)]
        gaps = [relative_gap(float(value), float(low)) for value, low in zip(judged.values, lows, strict=True)]
        solution = describe.solution(instance, plan, judged, floors, gaps)
        outcome.notes.extend(describe.notes(instance, solution))
        worst = max(gaps)
        optimal = worst <= CERTIFIED_TOLERANCE
        objective, below = float(judged.objective), float(sum(lows, Fraction(0)))
        return Result(
            status=Status.OPTIMAL if optimal else Status.FEASIBLE,
            objective=objective,
            lower_bound=min(below, objective),
            bound_kind="solver" if claimed else "certified",
            certificate={"layers": [dict(floor.certificate) for floor in floors]},
            gap_worst_layer=max(worst, relative_gap(objective, min(below, objective))),
            solution=solution | outcome.details,
            incumbents=tuple(outcome.incumbents) or ((context.deadline.elapsed_s(), objective),),
            plan=plan,
            **self.frame(instance, method, outcome, context, proved=optimal),
        )


def _within(instance: CollocationInstance, context: Context, notes: list[str]) -> list[LayerBound]:
    """The bound of every layer, as good as it gets in what is left of the time."""
    if "_floors" in instance.__dict__ or not context.deadline.watched:
        return _floors(instance)
    deadline, count = context.deadline.rest(), instance.num_layers
    deadline.imports("scipy.optimize")
    found = [bounds.bound(instance, row, deadline.share(count - row)) for row in range(count)]
    if deadline.passed():
        notes.append("time was up before the bounds were done: with more of it they may be larger")
    return found


def _floors(instance: CollocationInstance) -> list[LayerBound]:
    """The bound of every layer, worked out once for all methods that are compared on an instance."""
    if "_floors" not in instance.__dict__:
        instance.__dict__["_floors"] = [bounds.bound(instance, row) for row in range(instance.num_layers)]
    return list(instance.__dict__["_floors"])


PROBLEM = CollocationProblem()


def house(method: Method[CollocationInstance, Collocation]) -> None:
    """Add a method of the house."""
    PROBLEM.methods[method.name] = method
