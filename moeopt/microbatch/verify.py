"""The referee: judges a plan from the instance alone, in whole numbers, by letting the schedule happen."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from moeopt import kinds
from moeopt.errors import PlanError
from moeopt.limits import Deadline
from moeopt.microbatch import bounds
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.checks import MOST_ITEMS
from moeopt.microbatch.closed_forms import form_of
from moeopt.microbatch.graph import StageGraph
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.periodic import Laps, TooLong, fcfs_laps
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.simulate import Rule, Schedule, simulate
from moeopt.microbatch.times import exact


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a plan is worth.

    Parameters
    ----------
    candidate, schedule, ticks
        The choice; when every item starts and ends, in whole ticks, of some layers only where there are too many
        items; ticks per second.
    objective
        Seconds, or seconds per token where throughput is wanted; exact.
    """

    candidate: Candidate
    schedule: Schedule | Laps
    ticks: int
    objective: Fraction

    @cached_property
    def time(self) -> Fraction:
        """Exact seconds of the step."""
        return Fraction(self.schedule.makespan) / self.ticks

    @property
    def throughput(self) -> float:
        """Tokens a second; infinite where a step takes no time."""
        return float(self.candidate.batch / self.time) if self.time else math.inf

    def seconds(self, ticks: Any) -> float:
        """Ticks as seconds, rounded once."""
        return float(ticks / self.ticks)

    @property
    def utilisation(self) -> dict[str, float]:
        """Part of the step in which each resource is busy."""
        span = self.schedule.makespan
        names = self.schedule.graph.lap.resources
        return {
            name: float(busy / span) if span else 0.0 for name, busy in zip(names, self.schedule.busy(), strict=True)
        }


def in_ticks(graph: StageGraph) -> tuple[StageGraph, int]:
    """The same graph with whole durations, and how many of their unit make a second."""
    scales = [Fraction(factor) for row in graph.scale or () for factor in row]
    fine = math.lcm(*(Fraction(time).denominator for time in graph.lap.durations))
    finer = math.lcm(*(factor.denominator for factor in scales))
    lap = replace(graph.lap, durations=tuple(int(time * fine) for time in graph.lap.durations))
    scale = None if graph.scale is None else tuple(tuple(int(factor * finer) for factor in row) for row in graph.scale)
    return StageGraph(lap, graph.layers, scale), fine * finer


def schedule(
    instance: MicrobatchInstance, plan: MicrobatchPlan, rule: Rule = "fcfs", deadline: Deadline | None = None
) -> tuple[Schedule, int]:
    """The schedule of a plan in ticks, and the ticks per second."""
    graph, ticks = in_ticks(instance.graph(Candidate(plan.m, plan.batch)))
    return simulate(graph, rule=rule, sequences=plan.sequences, deadline=deadline), ticks


def long(instance: MicrobatchInstance, candidate: Candidate) -> bool:
    """Whether a schedule has too many items to be gone through one by one."""
    return instance.layers * candidate.m * len(instance.kind.stages) > MOST_ITEMS


def happen(instance: MicrobatchInstance, plan: MicrobatchPlan) -> tuple[Schedule | Laps, int]:
    """The schedule of a plan, or where it is long some layers of it; raises `PlanError` where that cannot be."""
    candidate = Candidate(plan.m, plan.batch)
    if not long(instance, candidate):
        return schedule(instance, plan)
    what = f"m = {plan.m} in {instance.layers:,} layers is more than {MOST_ITEMS:,} items"
    if plan.sequences is not None or instance.layer_scale is not None:
        raise PlanError([f"{what}, which are gone through only first come, first served in layers that are alike"])
    graph, ticks = in_ticks(instance.graph(candidate))
    try:
        return fcfs_laps(graph), ticks
    except TooLong:
        form = form_of(instance, candidate)
        if form is not None:  # exact, with no layer to show
            return Laps(graph, int(form.time * ticks), (), ()), ticks
        raise PlanError([f"{what}, and they do not repeat themselves"]) from None


def evaluate(instance: MicrobatchInstance, plan: MicrobatchPlan) -> Evaluation:
    """Let the plan happen and hold every limit against it.

    Raises
    ------
    PlanError
        It is no candidate, its order is impossible, or it breaks a limit; every fault is listed.

    >>> instance = MicrobatchInstance({"attention": 10, "dispatch": 4, "experts": 10}, layers=32, m=[1, 3])
    >>> evaluate(instance, MicrobatchPlan(3, 3)).time
    Fraction(978, 1)
    """
    candidate = Candidate(plan.m, plan.batch)
    if candidate not in instance.known:
        raise PlanError([f"m = {plan.m} with a batch of {plan.batch} is not among the candidates"])
    found = [] if fits_memory(instance, candidate) else [f"a batch of {plan.batch} does not fit into the memory"]
    done, ticks = happen(instance, plan)
    time = Fraction(done.makespan) / ticks
    if instance.tbt_slo_s is not None and time > exact(instance.tbt_slo_s):
        found.append(f"the step takes {float(time):.6g} s, tbt_slo_s allows {instance.tbt_slo_s:.6g}")
    if found:
        raise PlanError(found)
    return Evaluation(candidate, done, ticks, worth(instance, candidate, time))


@kinds.expects(instance="moeopt.microbatch.instance:MicrobatchInstance", plan="moeopt.microbatch.plan:MicrobatchPlan")
def faults(instance: MicrobatchInstance, plan: MicrobatchPlan) -> list[str]:
    """Everything wrong with a plan; empty if nothing is.

    >>> from moeopt import microbatch
    >>> times = {"attention": 1, "dispatch": 0.5, "experts": 1}
    >>> instance = microbatch.MicrobatchInstance(times, layers=2, m=[2, 4])
    >>> faults(instance, microbatch.MicrobatchPlan(4, 4)), len(faults(instance, microbatch.MicrobatchPlan(3, 3)))
    ([], 1)
    """
    try:
        evaluate(instance, plan)
    except PlanError as error:
        return list(error.faults)
    return []


def worth(instance: MicrobatchInstance, candidate: Candidate, time: Fraction) -> Fraction:
    """Seconds as the objective counts them."""
    return time / candidate.batch if instance.objective == "throughput" else time


def fits_memory(instance: MicrobatchInstance, candidate: Candidate) -> bool:
    """Whether all sequences of the step find room."""
    if instance.bytes_per_sequence is None or instance.memory_bytes is None:
        return True
    return candidate.batch * exact(instance.bytes_per_sequence) <= exact(instance.memory_bytes)


def recheck(instance: MicrobatchInstance, certificate: Any) -> list[str]:
    """What is wrong with a certificate of a lower bound: every candidate is argued anew from its stage graph.

    A row is ``[m, batch, kind, where, seconds]``; ``memory`` and ``tbt`` rows leave a candidate out for good.
    """
    rows = {(row[0], row[1]): row for row in certificate["candidates"]}
    value = Fraction(certificate["value"])
    found = []
    for candidate in instance.candidates:
        row = rows.get((candidate.m, candidate.batch))
        named = f"m = {candidate.m}, batch {candidate.batch}"
        if row is None:
            if value:  # a bound of 0 needs none
                found.append(f"{named}: no argument")
            continue
        kind, where, claim = row[2], row[3], Fraction(row[4])
        if kind == "memory":
            if fits_memory(instance, candidate):
                found.append(f"{named}: it fits into the memory")
            continue
        known = {(one.kind, one.where): one.seconds for one in bounds.arguments(instance.graph(candidate))}
        proved = max(known.values()) if kind == "tbt" else known.get((kind, where))
        if kind == "layers":
            proved = known[kind, ""]
        if proved is None or proved < claim:
            found.append(f"{named}: {kind} {where} proves {proved}, not {claim}")
        elif kind == "tbt":
            if instance.tbt_slo_s is None or claim <= exact(instance.tbt_slo_s):
                found.append(f"{named}: {float(claim):.6g} s are within the limit")
        elif worth(instance, candidate, claim) < value:
            found.append(f"{named}: {claim} s is less than the bound says")
    return found
