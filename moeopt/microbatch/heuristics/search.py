"""Other orders than first come, first served, for the candidates that could still win by them.

On a resource with two stages, first come, first served ends up with all micro-batches in one stage, then all in the
other. It can be better to wait: to let each micro-batch go on from its later stage straight into the next layer, or
from its first stage into the second. Orders that no rule without waiting would find are written down and simulated,
next to the longest and the shortest item first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product

from moeopt.errors import PlanError
from moeopt.limits import Deadline
from moeopt.microbatch import bounds, verify
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.graph import StageGraph
from moeopt.microbatch.heuristics import sweep
from moeopt.microbatch.heuristics.sweep import SweepRow
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.simulate import OutOfTime, Schedule, simulate
from moeopt.microbatch.times import exact
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

MOST = 8
"""Candidates whose order is looked at, those with the least bound first."""


def search(instance: MicrobatchInstance, context: Context) -> Outcome[MicrobatchPlan]:
    """First come, first served by formula or simulation; where bounds leave a gap, other orders of a few candidates."""
    outcome = sweep.outcome(instance, context, "auto")
    if outcome.stop is not Stop.FINISHED:
        return outcome
    rows: list[SweepRow] = outcome.details["rows"]
    at = {row.candidate: place for place, row in enumerate(rows)}
    stop, tried, long = Stop.FINISHED, 0, 0
    try:
        for candidate in promising(instance, rows)[:MOST]:
            if verify.long(instance, candidate):
                long += 1
                continue
            graph, ticks = verify.in_ticks(instance.graph(candidate))
            for done in orders(graph, context.deadline):
                tried += 1
                place, time = at[candidate], Fraction(done.makespan) / ticks
                rows[place] = sweep.ordered(instance, rows[place], time, done.sequences)
                if context.deadline.passed():
                    raise OutOfTime
    except OutOfTime:
        stop = Stop.INTERRUPTED if context.deadline.stopped() else Stop.TIME
    except KeyboardInterrupt:
        stop = Stop.INTERRUPTED
    return chosen(instance, replace(outcome, stop=stop, iterations=outcome.iterations + tried), rows, long)


def chosen(
    instance: MicrobatchInstance, outcome: Outcome[MicrobatchPlan], rows: list[SweepRow], long: int = 0
) -> Outcome[MicrobatchPlan]:
    """The outcome with the best of the rows as its plan."""
    best = next(iter(sweep.ranked(instance, rows)), None)
    notes = [note for note in outcome.notes if best is None or not note.startswith("no candidate")]
    if long:
        many = f"{long} {'candidate has' if long == 1 else 'candidates have'}"
        notes.append(f"{many} too many items for other orders than first come, first served")
    return replace(outcome, plan=None if best is None else best.plan, notes=notes, details={"rows": rows})


def promising(instance: MicrobatchInstance, rows: Sequence[SweepRow]) -> list[Candidate]:
    """Candidates whose bound is below their own time, below the best value and in the limits, the least first."""
    best = next(iter(sweep.ranked(instance, rows)), None)
    value = None if best is None else verify.worth(instance, best.candidate, best.time)
    limit = None if instance.tbt_slo_s is None else exact(instance.tbt_slo_s)
    found = []
    for row in rows:
        seconds = bounds.bound(instance, row.candidate).seconds
        least = verify.worth(instance, row.candidate, seconds)
        open_still = row.why_not != "memory" and (limit is None or seconds <= limit) and seconds < row.time
        if open_still and (value is None or least < value):
            found.append((least, row.candidate.m, row.candidate.batch, row.candidate))
    return [one[-1] for one in sorted(found, key=lambda one: one[:3])]


def orders(graph: StageGraph, deadline: Deadline | None = None) -> Iterator[Schedule]:
    """The longest and the shortest item first, then orders by lap: every way of every shared resource."""
    yield simulate(graph, rule="lpt", deadline=deadline)
    yield simulate(graph, rule="spt", deadline=deadline)
    ways = [_ways(graph, resource) for resource in range(len(graph.lap.resources))]
    for sequences in islice(product(*ways), 1, None):  # the first is that of the lap
        try:
            yield simulate(graph, sequences=sequences, deadline=deadline)
        except PlanError:  # the ways of two resources can wait for each other
            continue


def _ways(graph: StageGraph, resource: int) -> list[tuple[int, ...]]:
    """Orders of one resource: the lap's; of two stages also pairs of a layer, and pairs across two layers."""
    lap, size = graph.lap, len(graph.lap.items)
    found = [graph.turns[resource]]
    stages = sorted({lap.items[item][0] for item in lap.turns[resource]})
    if len(stages) != 2 or lap.num_micro_batches == 1:
        return found
    first, second = ([item for item in lap.turns[resource] if lap.items[item][0] == stage] for stage in stages)
    starts = range(0, graph.num_items, size)
    pairs = list(zip(first, second, strict=True))
    found.append(tuple(start + item for start in starts for pair in pairs for item in pair))
    across = list(first)
    for start in starts:
        for one, two in pairs:
            across.append(start + two)
            if start + size < graph.num_items:
                across.append(start + size + one)
    return [*found, tuple(across)]
