"""Speed of library calls against a plain NumPy version of the public rule, in one run; nothing else beside it.

    python -m tests.benchmarks.speed [--repeats 7]

58 layers x 256 experts, 288 slots on 32 GPUs. The peer gives what the engines' default policy gives, written anew in
its style: one argmax over all layers for each spare slot, then layer by layer and replica by replica one argmin over
GPUs, full ones masked with infinity. It plans only; ours check the instance, plan, judge exactly and bound.
Printed are medians of warm calls and their ratio to the peer, then the first call of a fresh process with a deadline.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from moeopt import placement
from moeopt.kernels import warmup
from moeopt.versions import versions
from moeopt.workload import generate
from tests.benchmarks.verdict import Verdict, markdown, say

GPUS, SLOTS = 32, 288
FIRST = (
    "import time; begin = time.perf_counter()\n"
    "import numpy as np\n"
    "from moeopt import placement\n"
    "from moeopt.limits import Limits\n"
    "loads = np.random.default_rng(0).zipf(1.5, (58, 256)).clip(max=65536)\n"
    "instance = placement.PlacementInstance(loads, gpus=32, slots=288)\n"
    "begin = time.perf_counter()\n"
    "result = placement.solve(instance, limits=Limits(time_s={limit}))\n"
    "print(time.perf_counter() - begin, result.solution['imbalance_mean'])"
)


def numpy_rule(loads: NDArray[np.float64], num_slots: int, num_gpus: int) -> NDArray[np.int64]:
    """(L, S) the public rule, flat, as engines write it in NumPy."""
    num_layers, num_experts = loads.shape
    rows = np.arange(num_layers)
    expert_of = np.tile(np.arange(num_slots), (num_layers, 1))
    counts = np.ones(loads.shape, dtype=np.int64)
    for slot in range(num_experts, num_slots):
        heaviest = np.argmax(loads / counts, axis=1)
        expert_of[:, slot] = heaviest
        counts[rows, heaviest] += 1
    pieces = np.take_along_axis(loads / counts, expert_of, axis=1)
    order = np.argsort(-pieces, axis=1)
    room = num_slots // num_gpus
    out = np.empty((num_layers, num_slots), dtype=np.int64)
    for layer in range(num_layers):
        total = np.zeros(num_gpus)
        left = [room] * num_gpus
        weights = pieces[layer].tolist()
        gpus = []
        for item in order[layer].tolist():
            gpu = int(total.argmin())
            gpus.append(gpu * room + room - left[gpu])
            left[gpu] -= 1
            total[gpu] = total[gpu] + weights[item] if left[gpu] else np.inf
        out[layer, gpus] = expert_of[layer, order[layer]]
    return out


def medians_s(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of warm calls, in turns: a machine that is slow for a while is slow for all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            if turn:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in times.items()}


def solve(loads: NDArray[np.generic], method: str) -> object:
    """A library call from the loads to the result."""
    return placement.solve(placement.PlacementInstance(loads, gpus=GPUS, slots=SLOTS), method=method)


def verdicts(repeats: int = 7) -> list[Verdict]:
    """Ratios to the peer, and first calls within their deadlines."""
    methods = ("auto", "eplb", "lpt")
    ratios: dict[str, list[float]] = {method: [] for method in methods}
    for kind in ("zipf", "lognormal"):
        loads = generate(kind, layers=58, experts=256, top_k=8, tokens=65536, seed=0).loads
        calls: dict[str, Callable[[], object]] = {method: partial(solve, loads, method) for method in methods}
        calls["peer"] = partial(numpy_rule, loads.astype(np.float64), SLOTS, GPUS)
        taken = medians_s(calls, repeats)
        say(f"{kind} public rule, plain NumPy: {1e3 * taken['peer']:.1f} ms")
        for method in methods:
            ratios[method].append(taken[method] / taken["peer"])
            say(f"{kind} {method}: {1e3 * taken[method]:.1f} ms, ratio {ratios[method][-1]:.2f}")
    found = []
    for method, most in (("auto", 1.0), ("lpt", 0.25)):
        worst = max(ratios[method])
        measured = ", ".join(f"{ratio:.2f}" for ratio in ratios[method])
        short = "" if worst <= most else "see measured; the peer plans only, ours checks, judges and bounds too"
        target = f"library call <= {most:g} of plain-NumPy public rule, 58 x 256, 288/32"
        found.append(Verdict(f"speed of {method}", target, f"{measured} (zipf, lognormal)", short))
    late, shown = [], []
    for limit in (0.2, 1.0, 5.0):
        code = FIRST.format(limit=limit)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        took, mean = map(float, ran.stdout.split())
        shown.append(f"{limit:g} s: {took:.2f} s ({mean:.3f})")
        if took > limit + max(0.1, 0.1 * limit):
            late.append(shown[-1])
    target = "first call of a process within its deadline + max(10 %, 100 ms)"
    return [*found, Verdict("deadline", target, ", ".join(shown), ", ".join(late))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    warmup()
    used = ", ".join(f"{name} {version}" for name, version in versions("numpy", "numba").items())
    print(f"58 x 256, {SLOTS} slots on {GPUS} GPUs, seed 0; {used}")
    print(markdown(verdicts(parser.parse_args().repeats)))


if __name__ == "__main__":
    main()
