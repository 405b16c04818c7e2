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
from moeopt.microbatch import bounds, verify
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.graph import StageGraph
from moeopt.microbatch.heuristics import sweep
from moeopt.microbatch.heuristics.sweep import SweepRow
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.simulate import Schedule, simulate
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
    best = next(iter(sweep.ranked(instance, rows)), None)
    value = None if best is None else verify.worth(instance, best.candidate, best.time)
    plan, tried = outcome.plan, 0
    limit = None if instance.tbt_slo_s is None else exact(instance.tbt_slo_s)
    for candidate in promising(instance, rows, value)[:MOST]:
        graph, ticks = verify.in_ticks(instance.graph(candidate))
        for done in orders(graph):
            tried += 1
            time = Fraction(done.makespan) / ticks
            worth = verify.worth(instance, candidate, time)
            if (limit is None or time <= limit) and (value is None or worth < value):
                value, plan = worth, MicrobatchPlan(candidate.m, candidate.batch, done.sequences)
            if context.deadline.passed():
                stop = Stop.INTERRUPTED if context.deadline.stopped() else Stop.TIME
                return replace(outcome, plan=plan, stop=stop, iterations=outcome.iterations + tried)
    notes = [note for note in outcome.notes if plan is None or not note.startswith("no candidate")]
    return replace(outcome, plan=plan, iterations=outcome.iterations + tried, notes=notes)


def promising(instance: MicrobatchInstance, rows: Sequence[SweepRow], value: Fraction | None) -> list[Candidate]:
    """Candidates whose bound is below their own time and below the best value so far, the least bound first."""
    found = []
    for row in rows:
        argument = bounds.bound(instance, row.candidate)
        least = verify.worth(instance, row.candidate, argument.seconds)
        if row.why_not != "memory" and argument.seconds < row.time and (value is None or least < value):
            found.append((least, row.candidate.m, row.candidate.batch, row.candidate))
    return [one[-1] for one in sorted(found, key=lambda one: one[:3])]


def orders(graph: StageGraph) -> Iterator[Schedule]:
    """The longest and the shortest item first, then orders by lap: every way of every shared resource."""
    yield simulate(graph, rule="lpt")
    yield simulate(graph, rule="spt")
    ways = [_ways(graph, resource) for resource in range(len(graph.lap.resources))]
    for sequences in islice(product(*ways), 1, None):  # the first is that of the lap
        try:
            yield simulate(graph, sequences=sequences)
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
