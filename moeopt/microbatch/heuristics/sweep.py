"""The sweep: the time of every candidate, by formula or by simulation, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from moeopt.limits import Deadline
from moeopt.microbatch import verify
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.checks import MOST_ITEMS
from moeopt.microbatch.closed_forms import Form, form_of
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.periodic import TooLong, fcfs_time
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.simulate import OutOfTime, Rule
from moeopt.microbatch.times import exact
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

How = Literal["auto", "closed_form", "simulate"]
JUDGING_S, BOUND_S = 2e-5, 1e-4
"""Time kept back for an item of the plan, which is judged and listed, and for a bound."""
LONG = "was not looked at: its schedule is too long, and does not repeat itself"
"""Why a candidate has no row though there was time."""


HOW: dict[str, How] = {"simulate": "simulate", "closed_form": "closed_form"}
"""How methods of the house time their candidates; ``auto`` everywhere else."""


@dataclass(frozen=True)
class SweepRow:
    """A candidate, the least exact seconds known, and why it may not be taken (empty if it may).

    `form` is the formula's word where there is one; `how` says what gave the time. `sequences` are those of an order
    that is faster than first come, first served.
    """

    candidate: Candidate
    time: Fraction
    how: str
    form: Form | None
    why_not: str = ""
    sequences: tuple[tuple[int, ...], ...] | None = None

    @property
    def plan(self) -> MicrobatchPlan:
        """The candidate in its order."""
        return MicrobatchPlan(self.candidate.m, self.candidate.batch, self.sequences)


def table(
    instance: MicrobatchInstance,
    how: How = "auto",
    context: Context | None = None,
    rule: Rule = "fcfs",
    notes: list[str] | None = None,
) -> list[SweepRow]:
    """Every candidate's time; those that a deadline or an interrupt leaves no time for are missing.

    ``auto`` takes the formula where there is one, else where layers are alike a simulation that jumps over those that
    repeat. ``closed_form`` alone is for instances where all have one. Candidates with too many items that do not
    repeat themselves are missing too, with a note.
    """
    rows: list[SweepRow] = []
    deadline = None if context is None else context.deadline
    try:
        for place, candidate in enumerate(instance.candidates):
            if deadline is not None and rows and deadline.passed():
                break
            try:
                rows.append(row(instance, candidate, how, rule, deadline if rows else None))
            except TooLong:
                if notes is not None:
                    layers = MOST_ITEMS // (candidate.m * len(instance.kind.stages))
                    told = f"{LONG}; at this m, {layers:,} layers are gone through one by one"
                    notes.append(f"m = {candidate.m}, batch {candidate.batch} {told}")
            if context is not None:
                context.report(place + 1, len(instance.candidates))
    except OutOfTime:
        pass
    except KeyboardInterrupt:
        if not rows:
            raise  # there is nothing to keep
    return rows


def row(
    instance: MicrobatchInstance,
    candidate: Candidate,
    how: How = "auto",
    rule: Rule = "fcfs",
    deadline: Deadline | None = None,
) -> SweepRow:
    """One candidate without an order of its own."""
    form = form_of(instance, candidate)
    if form is not None and how != "simulate" and rule == "fcfs":
        time, said = Fraction(form.time), "closed_form"
    elif rule == "fcfs" and instance.layer_scale is None and (how == "auto" or verify.long(instance, candidate)):
        time, said = fcfs_time(instance, candidate, deadline), "periodic"
    else:
        done, ticks = verify.schedule(instance, MicrobatchPlan(candidate.m, candidate.batch), rule, deadline)
        time, said = Fraction(done.makespan) / ticks, "simulate"
    return SweepRow(candidate, time, said, form, why_not(instance, candidate, time))


def why_not(instance: MicrobatchInstance, candidate: Candidate, time: Fraction) -> str:
    """The limit that a candidate breaks, if it does."""
    if not verify.fits_memory(instance, candidate):
        return "memory"
    return "tbt" if instance.tbt_slo_s is not None and time > exact(instance.tbt_slo_s) else ""


def ordered(
    instance: MicrobatchInstance, known: SweepRow, time: Fraction, sequences: tuple[tuple[int, ...], ...] | None
) -> SweepRow:
    """The row with an order of its own where that is faster."""
    if sequences is None or time >= known.time:
        return known
    barred = why_not(instance, known.candidate, time)
    return replace(known, time=time, how="order", sequences=sequences, why_not=barred)


def with_plan(
    instance: MicrobatchInstance, rows: Sequence[SweepRow], plan: MicrobatchPlan, time: Fraction, how: How
) -> list[SweepRow]:
    """The rows, with the plan as one of them, in the order of the candidates."""
    taken = Candidate(plan.m, plan.batch)
    found = {one.candidate: one for one in rows}
    known = found[taken] if taken in found else row(instance, taken, how)
    found[taken] = ordered(instance, known, time, plan.sequences)
    return [found[one] for one in instance.candidates if one in found]


def ended(
    instance: MicrobatchInstance, rows: Sequence[SweepRow], context: Context, said: Sequence[str] = ()
) -> tuple[Stop, list[str]]:
    """Why a sweep ended, and a note where that was early."""
    if len(rows) == len(instance.candidates):
        return Stop.FINISHED, []
    if not context.deadline.passed() and any(LONG in note for note in said):
        return Stop.FINISHED, list(said)
    stop = Stop.TIME if context.deadline.passed() and not context.deadline.stopped() else Stop.INTERRUPTED
    what = "the time was up" if stop is Stop.TIME else "interrupted"
    return stop, [*said, f"{what} after {len(rows)} of {len(instance.candidates)} candidates"]


def ranked(instance: MicrobatchInstance, rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Rows that may be taken, the best first.

    Ties: the other objective, then fewer micro-batches.
    """

    def key(row: SweepRow) -> tuple[float, Fraction, Fraction, int]:
        per_token = row.time / row.candidate.batch
        if instance.objective == "throughput":
            return float(per_token), per_token, row.time, row.candidate.m
        return float(row.time), row.time, per_token, row.candidate.m  # the double decides, but for ties

    return sorted((row for row in rows if not row.why_not), key=key)


def outcome(instance: MicrobatchInstance, context: Context, how: How) -> Outcome[MicrobatchPlan]:
    """The best candidate first come first served."""
    said: list[str] = []
    top = max(instance.candidates, key=lambda one: one.m)
    items = min(top.m * instance.layers * len(instance.kind.stages), MOST_ITEMS)
    context.deadline.keep_back(items * JUDGING_S + len(instance.candidates) * BOUND_S)
    rows = table(instance, how, context, notes=said)
    stop, notes = ended(instance, rows, context, said)
    best = next(iter(ranked(instance, rows)), None)
    plan = None if best is None else best.plan
    if plan is None and rows:
        notes.append("no candidate keeps the limits first come first served; that no order does is not proved")
    return Outcome(plan, stop, iterations=len(rows), notes=notes, details={"rows": rows})


def simulate(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """Every candidate by the event simulator."""
    return outcome(instance, context, "simulate")


def closed_form(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """Every candidate by its formula."""
    return outcome(instance, context, "closed_form")


def too_long(instance: MicrobatchInstance) -> str | None:
    """Why `lpt` does not apply."""
    top = max(instance.candidates, key=lambda one: one.m)
    if not verify.long(instance, top):
        return None
    items = f"{top.m * instance.layers * len(instance.kind.stages):,}"
    return f"it goes through every item, and m = {top.m} in {instance.layers:,} layers has {items}; use search"


def no_formula(instance: MicrobatchInstance) -> str | None:
    """Why `closed_form` does not apply."""
    if instance.pattern == "shared-link":
        return "one link for both directions has no formula; use simulate"
    if instance.pattern == "dual" and max(instance.m) > 2:
        return "two resources have a formula for m = 1 and 2 only; use simulate"
    if not instance.even:
        return "uneven micro-batches or layers have no formula; use simulate"
    return None
