"""The methods of the house."""

from __future__ import annotations

from dataclasses import replace

from moeopt.microbatch import bounds, exact, verify
from moeopt.microbatch.heuristics import lpt, sweep
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.problem import house
from moeopt.registry import Context, Method, Outcome
from moeopt.result import Stop


def auto(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """The formula where there is one, else the simulator; where a gap is left, the better of it and `lpt`."""
    outcome = sweep.outcome(instance, context, "auto")
    best = next(iter(sweep.ranked(instance, outcome.details["rows"])), None)
    met = best is not None and best.time == bounds.bound(instance, best.candidate).seconds
    if met or outcome.stop is not Stop.FINISHED:  # where its bound is met, no other order is better
        return outcome
    other = lpt.lpt(instance, context).plan
    if other is None:
        return outcome
    if outcome.plan is not None:
        ours, theirs = (verify.evaluate(instance, plan).objective for plan in (outcome.plan, other))
        if ours <= theirs:
            return outcome
    return replace(outcome, plan=other, notes=[note for note in outcome.notes if not note.startswith("no candidate")])


METHODS = (
    Method("lpt", lpt.lpt, "the longest waiting item first, every candidate simulated", "baseline"),
    Method("simulate", sweep.simulate, "every candidate by the event simulator", "heuristic"),
    Method(
        "closed_form",
        sweep.closed_form,
        "every candidate by its formula",
        "optimal where its bound is met",
        sweep.no_formula,
    ),
    Method("exact", exact.solve_exact, "the programme; on small sizes the order too", "exact when it ends"),
    Method(
        "auto", auto, "the formula where there is one, else the simulator, or lpt where that is better", "as reached"
    ),
)

for _method in METHODS:
    house(_method)
