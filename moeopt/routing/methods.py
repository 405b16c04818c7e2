"""The methods of the house."""

from __future__ import annotations

from moeopt.registry import Method
from moeopt.routing import optimal, programme
from moeopt.routing.heuristics import simple
from moeopt.routing.problem import house

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
    Method("newton", optimal.newton, "the fractional optimum by cuts and max-flows in whole numbers", "exact"),
    Method("integer", optimal.integer, "the optimum in whole tokens, by max-flows", "exact", optimal.not_whole),
    Method("lp", programme.lp, "the linear programme, by a back end", "exact when it ends", programme.whole),
    Method(
        "local_first",
        optimal.local_first,
        "among the optimal splits one that keeps most tokens on their node: a min-cost flow",
        "exact",
    ),
    Method("auto", optimal.auto, "integer, local_first with several nodes, or newton, as the instance asks", "exact"),
)

for _method in METHODS:
    house(_method)
