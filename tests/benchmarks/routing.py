"""Routing over replicas: milliseconds a layer, beside the linear programme and networkx, and how far they agree.

``python -m tests.benchmarks.routing [--layers 58] [--agree 2000]``: plans for one load, judged under a drifted one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from moeopt import placement, routing
from moeopt.kernels.flows import max_flow
from moeopt.routing.fractional import optimum
from moeopt.routing.integral import whole_optimum

SIZES = ((256, 288, 32), (256, 288, 72), (256, 384, 128), (896, 1024, 128))
TOKENS = 524_288


def drifted(experts: int, slots: int, gpus: int, layers: int, seed: int = 0, **options: Any) -> routing.RoutingInstance:
    """A plan for Zipf loads, and the loads after every popularity has moved by 20 % (log-normal)."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, experts + 1)
    shares = np.array([rng.permutation(popularity) for _ in range(layers)])
    before = np.array([rng.multinomial(TOKENS, row / row.sum()) for row in shares])
    moved = shares * rng.lognormal(0.0, 0.2, shares.shape)
    after = np.array([rng.multinomial(TOKENS, row / row.sum()) for row in moved])
    plan = placement.solve(placement.PlacementInstance(before, gpus=gpus, slots=slots), method="lpt").plan
    return routing.RoutingInstance(after, plan.slot_expert, gpus=gpus, **options)


def linear(instance: routing.RoutingInstance, row: int) -> float:
    """The optimum by scipy's HiGHS, in units of the ideal."""
    from scipy import sparse
    from scipy.optimize import linprog

    hosting, loads = instance.hostings[row], instance.loads[row].astype(float)
    pairs, gpus = len(hosting.expert), instance.num_gpus
    size = loads.sum() / gpus or 1.0
    places = np.arange(pairs)
    columns = (np.concatenate([hosting.gpu, np.arange(gpus)]), np.concatenate([places, np.full(gpus, pairs)]))
    busy = sparse.csr_array((np.concatenate([np.ones(pairs), -np.array(instance.speed)]), columns))
    whole = sparse.csr_array((np.ones(pairs), (hosting.expert, places)), shape=(len(loads), pairs + 1))
    goal = np.zeros(pairs + 1)
    goal[-1] = 1.0
    fixed = -np.array(instance.base[row]) / size
    answer = linprog(goal, A_ub=busy, b_ub=fixed, A_eq=whole, b_eq=loads / size, method="highs")
    return float(answer.fun * size)


def checked(instance: routing.RoutingInstance, row: int, value: Fraction) -> bool:
    """Whether networkx finds a flow at this value, as one check of Newton's method would."""
    hosting = instance.hostings[row]
    edges = [("s", ("e", e), load) for e, load in enumerate(instance.loads[row].tolist())]
    pairs = zip(hosting.expert.tolist(), hosting.gpu.tolist(), strict=True)
    edges += [(("e", e), ("g", g), instance.loads[row, e].item()) for e, g in pairs]
    edges += [(("g", g), "t", value) for g in range(instance.num_gpus)]
    return max_flow(edges, "s", "t").value == int(instance.loads[row].sum())


def milliseconds(work: Callable[[], Any], parts: int, times: int = 7) -> float:
    """Median over some runs, for one part."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append((time.perf_counter() - start) / parts * 1e3)
    return statistics.median(found)


def measure(experts: int, slots: int, gpus: int, layers: int) -> str:
    """One line of the table."""
    instance = drifted(experts, slots, gpus, layers)
    layers_of = list(zip(instance.hostings, instance.tasks, strict=True))
    found = [optimum(*layer) for layer in layers_of]
    whole = [whole_optimum(*layer, near) for layer, near in zip(layers_of, found, strict=True)]
    fractional = milliseconds(lambda: [optimum(*layer) for layer in layers_of], layers)
    pairs = list(zip(layers_of, found, strict=True))
    integer = milliseconds(lambda: [whole_optimum(*layer, near) for layer, near in pairs], layers)

    def fresh(method: str) -> Callable[[], Any]:
        def run() -> Any:
            options = {"gpus": gpus, "whole": method == "integer"}
            again = routing.RoutingInstance(instance.loads, instance.slot_expert, **options)
            return routing.solve(again, method=method)

        return run

    solved, in_tokens = milliseconds(fresh("newton"), layers, 3), milliseconds(fresh("integer"), layers, 3)
    some = range(min(layers, 10))
    programme = milliseconds(lambda: [linear(instance, row) for row in some], len(some), 3)
    flow = milliseconds(lambda: [checked(instance, row, found[row].value) for row in some[:2]], 2, 1)
    off = max(abs(linear(instance, row) / float(found[row].value) - 1.0) for row in some)
    result = routing.solve(instance)
    even, best = result.solution["even_objective"], result.objective
    cuts = max(one.cuts for one in found)
    flows = max(one.flows for one in whole)
    return (
        f"{experts}/{slots}/{gpus}: newton {fractional:.3f} ms a layer (at most {cuts} cuts), whole tokens "
        f"{integer:.3f} more ({flows} flows); solve, referee and all: {solved:.3f} and {in_tokens:.3f}; "
        f"HiGHS {programme:.2f} ({programme / fractional:.0f}x), "
        f"networkx, one flow {flow:.1f} ({flow / fractional:.0f}x); "
        f"off the programme by {off:.1e}; even split {even / best - 1:.1%} above"
    )


def agree(count: int, seed: int = 0) -> str:
    """Random small instances of every kind against the programme."""
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(count):
        instance = random_instance(rng)
        value, other = float(optimum(instance.hostings[0], instance.tasks[0]).value), linear(instance, 0)
        worst = max(worst, abs(value - other) / max(value, 1e-300))
    return f"{count:,} random instances: off the programme by at most {worst:.1e}"


def random_instance(rng: np.random.Generator) -> routing.RoutingInstance:
    """One layer: any loads, speeds, bases and hosting."""
    gpus = int(rng.integers(1, 9))
    experts = int(rng.integers(1, 17))
    slots = -(-(experts + int(rng.integers(0, 20))) // gpus) * gpus
    row = np.concatenate([np.arange(experts), rng.integers(-1, experts, slots - experts)])
    rng.shuffle(row)
    loads = rng.integers(0, (4, 100, 10**6, 10**9)[rng.integers(4)], experts) + np.eye(experts, dtype=int)[0]
    if rng.integers(2):
        loads = loads * np.round(rng.random(experts) + 0.1, 3)
    speed = rng.choice([0.5, 1.0, 1.3, 2.0], gpus).tolist() if rng.integers(2) else None
    base = rng.integers(0, 50, gpus).tolist() if rng.integers(2) else None
    return routing.RoutingInstance([loads], [row], gpus=gpus, speed=speed, base=base)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=58)
    parser.add_argument("--agree", type=int, default=2000)
    given = parser.parse_args()
    for size in SIZES:
        print(measure(*size, given.layers), flush=True)
    print(agree(given.agree))


if __name__ == "__main__":
    main()
