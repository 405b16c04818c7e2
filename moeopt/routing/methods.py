"""The methods of the house."""

from __future__ import annotations

from moeopt.registry import Context, Method, Outcome
from moeopt.result import Stop
from moeopt.routing import bounds, splits
from moeopt.routing.bounds import Cut
from moeopt.routing.fractional import compiled_in_time, optimum
from moeopt.routing.heuristics import simple
from moeopt.routing.instance import RoutingInstance
from moeopt.routing.plan import Routing
from moeopt.routing.problem import house


def newton(instance: RoutingInstance, context: Context) -> Outcome[Routing]:
    """Water-filling, then Newton's method on cuts with max-flows in whole numbers."""
    compiled = compiled_in_time(context.deadline)
    shares, cuts, steps = [], [], 0
    stop = Stop.FINISHED
    for row, (hosting, task) in enumerate(zip(instance.hostings, instance.tasks, strict=True)):
        if stop is not Stop.FINISHED or context.deadline.passed():
            stop = Stop.TIME
            shares.append(splits.even(hosting))
            cuts.append(bounds.mean(instance, row))
            continue
        found = optimum(hosting, task, compiled=compiled)
        shares.append(splits.from_parts(hosting, task, found.part, found.of))
        cuts.append(Cut(found.gpus, found.value))
        steps += found.cuts
        if context.on_progress is not None:
            context.report(row + 1, instance.num_layers)
    return Outcome(splits.plan_of(instance, shares), stop, steps, bounds=cuts)


METHODS = (
    Method("even", simple.even, "every replica of an expert gets the same part", "baseline"),
    Method("waterfill", simple.waterfill, "heaviest expert first, each filled into its GPUs once", "baseline"),
    Method(
        "sglang_static",
        simple.engine_rule(False),
        "each source GPU uses one replica: its own, else dealt in turn",
        "baseline",
        simple.evenly_spread,
    ),
    Method(
        "sglang_static_node",
        simple.engine_rule(True),
        "the same, with replicas on the source's node before others",
        "baseline",
        simple.evenly_spread,
    ),
    Method("newton", newton, "the fractional optimum by cuts and max-flows in whole numbers", "exact"),
    Method("auto", newton, "newton", "exact"),
)

for _method in METHODS:
    house(_method)
