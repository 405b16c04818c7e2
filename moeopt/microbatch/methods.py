"""The methods of the house."""

from __future__ import annotations

from moeopt.microbatch.heuristics import lpt, sweep
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.problem import house
from moeopt.registry import Context, Method, Outcome


def auto(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """The formula where there is one, else the simulator."""
    return sweep.outcome(instance, context, "auto")


METHODS = (
    Method("lpt", lpt.lpt, "the longest waiting item first, every candidate simulated", "baseline"),
    Method("simulate", sweep.simulate, "every candidate by the event simulator", "heuristic"),
    Method("closed_form", sweep.closed_form, "every candidate by its formula", "optimal where tight", sweep.no_formula),
    Method("auto", auto, "the formula where there is one, else the simulator", "as reached"),
)

for _method in METHODS:
    house(_method)
