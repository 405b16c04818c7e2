"""Micro-batch: 10,000 random cases of the four ways, in doubles and in fractions, and the time of a sweep.

``python -m tests.benchmarks.microbatch [--cases N] [--seed S]``; with 10,000 cases it takes some ten minutes.
"""

from __future__ import annotations

import argparse
import random
import time

from moeopt import microbatch
from moeopt.microbatch.heuristics import sweep
from tests.microbatch.ways import disagreement, draw, four_ways

COMPUTE = microbatch.Linear(180e-6, 0.35e-6)
ATTENTION = microbatch.Linear(60e-6, 1.1e-6)
OUT = microbatch.Transfer(5e-6, 7168, 40e9)
BACK = microbatch.Transfer(5e-6, 14336, 40e9)
STAGES = {
    "ping-pong": {"attention": ATTENTION, "dispatch": OUT, "experts": COMPUTE, "combine": BACK},
    "dual": {"attention": ATTENTION, "dispatch": OUT, "experts": COMPUTE, "combine": BACK},
    "chunks": {"dispatch": OUT, "experts": COMPUTE, "rest": ATTENTION},
    "waves": {"dispatch": OUT, "experts": COMPUTE, "combine": BACK, "rest": ATTENTION},
    "hop-b": {"attention": ATTENTION, "exchange": BACK, "rest": COMPUTE},
}
BATCHES = range(8, 8 * 65, 8)


def sweep_seconds(repeats: int = 5) -> tuple[int, float, float]:
    """Candidates of 5 builders, seconds of their sweeps, and seconds of five whole solves; the best of some runs."""
    swept, solved, count = [], [], 0
    for _ in range(repeats):
        swept.append(0.0)
        solved.append(0.0)
        count = 0
        for pattern, stages in STAGES.items():
            begin = time.perf_counter()
            instance = microbatch.MicrobatchInstance(
                stages, layers=58, pattern=pattern, m=(1, 2, 4, 8), batches=BATCHES
            )
            count += len(sweep.table(instance))
            swept[-1] += time.perf_counter() - begin
            begin = time.perf_counter()
            microbatch.solve(instance)
            solved[-1] += time.perf_counter() - begin
    return count, min(swept), min(solved)


def agree(cases: int, seed: int) -> tuple[float, int]:
    """Largest relative difference in doubles; cases in fractions that were not exactly equal."""
    chance, worst, unequal = random.Random(seed), 0.0, 0
    for _ in range(cases):
        worst = max(worst, disagreement(four_ways(draw(chance, exact=False))))
        exact = four_ways(draw(chance, exact=True, most_m=8, most_layers=16))
        unequal += len(set(exact.values())) != 1
    return worst, unequal


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    count, swept, solved = sweep_seconds()
    print(f"sweep of {count:,} candidates by 5 builders: {swept:.3f} s; with bounds, timeline and JSON: {solved:.3f} s")
    worst, unequal = agree(given.cases, given.seed)
    print(f"four ways, {given.cases:,} cases in doubles: largest relative difference {worst:.2e}")
    print(f"four ways, {given.cases:,} cases in fractions: {unequal} not exactly equal")


if __name__ == "__main__":
    main()
