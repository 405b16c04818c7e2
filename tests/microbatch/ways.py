"""Random cases of every pattern that has a formula, and the four independent ways to compute its time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

from moeopt.microbatch import closed_forms
from moeopt.microbatch.builders import PATTERNS
from moeopt.microbatch.cycle_ratio import time_by_cycle
from moeopt.microbatch.graph import Number, StageGraph
from moeopt.microbatch.longest_path import longest_path
from moeopt.microbatch.simulate import simulate

WITH_FORMULA = ("ping-pong", "dual", "chunks", "waves", "hop-b")


@dataclass(frozen=True)
class Case:
    """A pattern, m, L and the seconds of each stage."""

    pattern: str
    m: int
    layers: int
    times: dict[str, Number]

    def graph(self) -> StageGraph:
        """Its stage graph."""
        rows = {stage: [time] * (1 if stage == "rest" else self.m) for stage, time in self.times.items()}
        return StageGraph(PATTERNS[self.pattern].build(rows), self.layers)


def draw(chance: random.Random, *, exact: bool, most_m: int = 16, most_layers: int = 128) -> Case:
    """Times in {0} and [1e-7, 1], log-uniform; m 1..16 (1..2 for two resources), L 1..128."""
    pattern = chance.choice(WITH_FORMULA)
    m = chance.randint(1, 2 if pattern == "dual" else most_m)
    few = [Fraction(chance.randint(1, 9), chance.randint(1, 9)) for _ in range(2)]

    def time() -> Number:
        if chance.random() < 0.15:
            return Fraction(0) if exact else 0.0
        if chance.random() < 0.3:  # ties
            return chance.choice(few) if exact else float(chance.choice(few)) / 9
        return Fraction(chance.randint(1, 10**7), 10**7) if exact else 10 ** chance.uniform(-7, 0)

    times = {stage: time() for stage in PATTERNS[pattern].stages}
    return Case(pattern, m, chance.randint(1, most_layers), times)


def four_ways(case: Case) -> dict[str, Number]:
    """The time of a case by simulation, longest path, cycle ratio and formula."""
    graph = case.graph()
    form = closed_forms.form_of_times(case.pattern, case.m, case.layers, case.times)  # type: ignore[arg-type]
    assert form is not None
    return {
        "simulate": simulate(graph).makespan,
        "longest_path": longest_path(graph).length,
        "cycle_ratio": time_by_cycle(graph.lap, case.layers),
        "closed_form": form.time,
    }


def disagreement(found: dict[str, Number]) -> float:
    """Largest relative difference between any two; 0 where all are 0."""
    low, high = min(found.values()), max(found.values())
    return float((high - low) / high) if high else 0.0
