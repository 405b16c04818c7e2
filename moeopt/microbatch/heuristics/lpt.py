"""The baseline: of the items that wait for a resource, the longest goes first."""

from __future__ import annotations

from fractions import Fraction

from moeopt.microbatch import verify
from moeopt.microbatch.heuristics import sweep
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.registry import Context, Outcome


def lpt(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """The best candidate when every resource serves the longest waiting item first.

    Where each stage has a resource of its own and micro-batches are alike this is first come, first served.
    """
    rows = sweep.table(instance, "simulate", context, rule="lpt")
    stop, notes = sweep.ended(instance, rows, context)
    best = next(iter(sweep.ranked(instance, rows)), None)
    if best is None:
        notes.append("no candidate keeps the limits with the longest item first; that no order does is not proved")
        return Outcome(None, stop, iterations=len(rows), notes=notes)
    done, ticks = verify.schedule(instance, best.plan, "lpt")
    assert Fraction(done.makespan) / ticks == best.time
    plan = MicrobatchPlan(best.candidate.m, best.candidate.batch, done.sequences)
    return Outcome(plan, stop, iterations=len(rows), notes=notes)
