"""The sweep: the time of every candidate, by formula or by simulation, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from moeopt.microbatch import verify
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.closed_forms import Form, form_of
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.periodic import fcfs_time
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.simulate import Rule
from moeopt.microbatch.times import exact
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

How = Literal["auto", "closed_form", "simulate"]


@dataclass(frozen=True)
class SweepRow:
    """A candidate, its exact seconds first come first served, and why it may not be taken (empty if it may).

    `form` is the formula's word where there is one; `how` says what gave the time.
    """

    candidate: Candidate
    time: Fraction
    how: str
    form: Form | None
    why_not: str = ""


def table(
    instance: MicrobatchInstance, how: How = "auto", context: Context | None = None, rule: Rule = "fcfs"
) -> list[SweepRow]:
    """Every candidate's time; those that a deadline or an interrupt leaves no time for are missing.

    ``auto`` takes the formula where there is one, else where layers are alike a simulation that jumps over those that
    repeat. ``closed_form`` alone is for instances where all have one.
    """
    rows: list[SweepRow] = []
    limit = None if instance.tbt_slo_s is None else exact(instance.tbt_slo_s)
    try:
        for place, candidate in enumerate(instance.candidates):
            if context is not None and rows and context.deadline.passed():
                break
            rows.append(_row(instance, candidate, how, rule, limit))
            if context is not None:
                context.report(place + 1, len(instance.candidates))
    except KeyboardInterrupt:
        if not rows:
            raise  # there is nothing to keep
    return rows


def _row(instance: MicrobatchInstance, candidate: Candidate, how: How, rule: Rule, limit: Fraction | None) -> SweepRow:
    form = form_of(instance, candidate)
    if form is not None and how != "simulate" and rule == "fcfs":
        time, said = Fraction(form.time), "closed_form"
    elif how == "auto" and rule == "fcfs" and instance.layer_scale is None:
        time, said = fcfs_time(instance, candidate), "periodic"
    else:
        done, ticks = verify.schedule(instance, MicrobatchPlan(candidate.m, candidate.batch), rule)
        time, said = Fraction(done.makespan) / ticks, "simulate"
    why_not = ""
    if not verify.fits_memory(instance, candidate):
        why_not = "memory"
    elif limit is not None and time > limit:
        why_not = "tbt"
    return SweepRow(candidate, time, said, form, why_not)


def ended(instance: MicrobatchInstance, rows: Sequence[SweepRow], context: Context) -> tuple[Stop, list[str]]:
    """Why a sweep ended, and a note where that was early."""
    if len(rows) == len(instance.candidates):
        return Stop.FINISHED, []
    stop = Stop.TIME if context.deadline.passed() else Stop.INTERRUPTED
    what = "the time was up" if stop is Stop.TIME else "interrupted"
    return stop, [f"{what} after {len(rows)} of {len(instance.candidates)} candidates"]


def ranked(instance: MicrobatchInstance, rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Rows that may be taken, the best first.

    Ties: the other objective, then fewer micro-batches.
    """

    def key(row: SweepRow) -> tuple[Fraction, Fraction, int]:
        per_token = row.time / row.candidate.batch
        if instance.objective == "throughput":
            return per_token, row.time, row.candidate.m
        return row.time, per_token, row.candidate.m

    return sorted((row for row in rows if not row.why_not), key=key)


def outcome(instance: MicrobatchInstance, context: Context, how: How) -> Outcome[MicrobatchPlan]:
    """The best candidate first come first served."""
    rows = table(instance, how, context)
    stop, notes = ended(instance, rows, context)
    best = next(iter(ranked(instance, rows)), None)
    plan = None if best is None else MicrobatchPlan(best.candidate.m, best.candidate.batch)
    if plan is None:
        notes.append("no candidate keeps the limits first come first served; that no order does is not proved")
    return Outcome(plan, stop, iterations=len(rows), notes=notes, details={"rows": rows})


def simulate(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """Every candidate by the event simulator."""
    return outcome(instance, context, "simulate")


def closed_form(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """Every candidate by its formula."""
    return outcome(instance, context, "closed_form")


def no_formula(instance: MicrobatchInstance) -> str | None:
    """Why `closed_form` does not apply."""
    if instance.pattern == "shared-link":
        return "one link for both directions has no formula; use simulate"
    if instance.pattern == "dual" and max(instance.m) > 2:
        return "two resources have a formula for m = 1 and 2 only; use simulate"
    if not instance.even:
        return "uneven micro-batches or layers have no formula; use simulate"
    return None
