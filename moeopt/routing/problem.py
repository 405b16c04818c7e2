"""The routing room's frame: its methods, and how an outcome becomes a judged and bounded result."""

from __future__ import annotations

from typing import Any

from moeopt.kernels.fractions import total
from moeopt.registry import Context, Method, Outcome, Problem
from moeopt.result import CERTIFIED_TOLERANCE, Result, Status, relative_gap
from moeopt.routing import bounds, describe, verify
from moeopt.routing.bounds import Cut
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.plan import Routing, as_plan


class RoutingProblem(Problem[RoutingInstance, Routing]):
    """The split of every expert's tokens over its replicas that makes the busiest GPU cheapest."""

    name = "routing"

    def conflicts(self, instance: RoutingInstance) -> list[dict[str, Any]]:
        """Experts that have tokens and lie nowhere."""
        found = []
        for row, layer in enumerate(instance.layers):
            for expert in (instance.hostings[row].hosts == 0).nonzero()[0].tolist():
                load = instance.loads[row, expert]
                if load > 0:
                    message = f"layer {layer}: expert {expert} has {load:,g} tokens and no replica"
                    place = {"layer": layer, "expert": expert, "shortfall": float(load)}
                    found.append({"rule": "slot_expert", "message": message, **place})
        return found

    def as_plan(self, instance: RoutingInstance, raw: Any) -> Routing:
        """Take a `Routing`, triples, or a mapping with ``shares``."""
        return as_plan(raw)

    def from_policy(self, instance: RoutingInstance, raw: Any) -> Routing:
        """A copy."""
        plan = as_plan(raw)
        return Routing.of(plan.shares, bool(plan.in_tokens))

    def evaluate(self, instance: RoutingInstance, plan: Any, split: str | None = None) -> verify.Evaluation:
        """Judge a plan exactly; raises `PlanError` with every fault.

        `split` has no meaning here and stays ``None``.

        >>> from moeopt import routing
        >>> instance = routing.RoutingInstance([[9, 4, 2]], [[0, 1, 0, 2]], gpus=2)
        >>> float(routing.evaluate(instance, routing.solve(instance).plan).objective)
        7.5
        """
        self.own(instance)
        return verify.evaluate(instance, as_plan(plan))

    def reference(self, instance: RoutingInstance) -> dict[str, Any]:
        """Name, digest and document."""
        document = instance.to_dict(with_loads=False)
        return {"name": instance.name, "sha256": instance.sha256, "document": document}

    def unit(self, instance: RoutingInstance) -> str:
        """What the objective is counted in."""
        return "tokens"

    def result(self, instance: RoutingInstance, method: str, outcome: Outcome[Routing], context: Context) -> Result:
        """Judge the plan, take the better of it and a warm start, and bound every layer."""
        plan = outcome.plan
        if plan is None:
            return Result(status=Status.UNKNOWN, **self.frame(instance, method, outcome, context))
        judged = verify.evaluate(instance, plan)
        if context.warm_start is not None:
            warm = verify.evaluate(instance, context.warm_start)
            if warm.objective <= judged.objective:
                plan, judged = context.warm_start, warm
        cuts: list[Cut] = list(outcome.bounds) if outcome.bounds else self._cuts(instance, plan, context)
        proved = [cut.value for cut in cuts]
        if plan is context.warm_start or not instance.whole:
            proved = [min(one, top) for one, top in zip(proved, judged.max_load, strict=True)]
        gaps = [
            relative_gap(float(top), min(float(low), float(top)))
            for top, low in zip(judged.max_load, proved, strict=True)
        ]
        dual = [bounds.prices(instance, row, cut.gpus) for row, cut in enumerate(cuts)]
        objective = float(judged.objective)
        below = min(float(total(proved)), objective)
        worst = max(*gaps, relative_gap(objective, below))
        optimal = worst <= CERTIFIED_TOLERANCE
        return Result(
            status=Status.OPTIMAL if optimal else Status.FEASIBLE,
            objective=objective,
            lower_bound=below,
            bound_kind="certified",
            certificate=describe.certificate(instance, cuts, dual),
            gap_worst_layer=worst,
            solution=describe.solution(instance, plan, judged, cuts, dual, gaps) | outcome.details,
            incumbents=tuple(outcome.incumbents) or ((context.deadline.elapsed_s(), objective),),
            plan=plan,
            **self.frame(instance, method, outcome, context, proved=optimal),
        )

    def _cuts(self, instance: RoutingInstance, plan: Routing, context: Context) -> list[Cut]:
        """The best cuts, for a plan that came without; those of all GPUs once the time is up."""
        from moeopt.routing.fractional import compiled_in_time, optimum

        compiled = compiled_in_time(context.deadline)
        found = []
        for row, (hosting, task) in enumerate(zip(instance.hostings, instance.tasks, strict=True)):
            if context.deadline.passed():
                found.append(bounds.mean(instance, row))
                continue
            gpus = optimum(hosting, task, compiled=compiled).gpus
            kind: Any = "whole-cut" if instance.whole else "cut"
            found.append(Cut(gpus, bounds.cut_value(instance, row, gpus, whole=instance.whole), kind))
        return found


PROBLEM = RoutingProblem()


def house(method: Method[RoutingInstance, Routing]) -> None:
    """Add a method of the house."""
    PROBLEM.methods[method.name] = method
