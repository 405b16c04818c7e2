"""Placement on the published shapes: quality, proven gap and time of `eplb`, `lpt` and `search`.

    python -m tests.benchmarks.placement [--only TEXT] [--methods eplb,lpt,search] [--write]

One line a shape and method: imbalance (mean and worst layer), lower bound over ideal, gap (mean and worst layer),
layers within 0.1 %, milliseconds a layer and the ratio to `eplb` within this run. Run nothing else beside it.
``--write`` keeps the best imbalance and bound ever found in ``instances/published/shapes.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from moeopt import placement
from moeopt.kernels import warmup
from moeopt.result import Result
from moeopt.versions import versions
from tests.benchmarks.rows import SHAPES, instance_of, loads_of

REPEATS = 3
LONG_S = 2.0  # a solve that takes longer is timed once


def timed(row: dict[str, Any], loads: Any, method: str) -> tuple[Result, float]:
    """Answer and median seconds of a library call: instance, plan, referee and bounds."""
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < LONG_S:
        begin = time.perf_counter()
        instance = instance_of(row, loads)
        result = placement.solve(instance, method=method)
        times.append(time.perf_counter() - begin)
    return result, statistics.median(times)


def main() -> None:
    """Run the rows and print the table and the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--methods", default="eplb,lpt,search")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    used = ", ".join(f"{name} {version}" for name, version in versions("numpy", "numba").items())
    print(f"python -m tests.benchmarks.placement {' '.join(sys.argv[1:])}\nseed 0; {used}")
    print("loads: instances/published/shapes.json has the digest of every table\n", flush=True)
    warmup()
    document = json.loads(SHAPES.read_text())
    header = f"{'instance':<44}{'method':<8}{'mean':>9}{'worst':>9}{'bound':>9}{'gap %':>8}{'worst %':>9}"
    print(f"{header}{'near %':>8}{'ms/layer':>10}{'time/eplb':>11}", flush=True)
    summary = _Summary()
    for row in [*document["instances"], *document["recorded"]]:
        if arguments.only not in row["name"]:
            continue
        loads = loads_of(row)
        seconds: dict[str, float] = {}
        found: dict[str, list[dict[str, Any]]] = {}
        for method in arguments.methods.split(","):
            result, seconds[method] = timed(row, loads, method)
            assert result.solution is not None
            layers = found[method] = result.solution["layers"]
            bound = statistics.fmean(layer["lower_bound"] / layer["ideal"] for layer in layers)
            gaps = [layer["gap"] for layer in layers]
            certified = sum(gap <= 0.001 for gap in gaps)
            ratio = seconds[method] / seconds["eplb"] if "eplb" in seconds else float("nan")
            print(
                f"{row['name']:<44}{method:<8}{result.solution['imbalance_mean']:>9.4f}"
                f"{max(layer['imbalance'] for layer in layers):>9.4f}{bound:>9.4f}{100 * statistics.fmean(gaps):>8.3f}"
                f"{100 * max(gaps):>9.3f}{100 * certified / len(layers):>8.1f}"
                f"{1e3 * seconds[method] / len(layers):>10.3f}{ratio:>11.2f}",
                flush=True,
            )
            if method == "search":
                mean, known = round(result.solution["imbalance_mean"], 6), row.get("best_known_imbalance_mean")
                row["best_known_imbalance_mean"] = mean if known is None else min(known, mean)
                row["lower_bound_over_mean"] = max(round(bound, 6), row.get("lower_bound_over_mean") or 0.0)
        summary.add(row, found, seconds)
    summary.show()
    if arguments.write:
        SHAPES.write_text(json.dumps(document, indent=2) + "\n")


class _Summary:
    """What the numbers come to over all rows."""

    def __init__(self) -> None:
        self.worse: list[str] = []
        self.certified = {"synthetic": [0, 0], "recorded": [0, 0]}
        self.slow: list[str] = []

    def add(self, row: dict[str, Any], found: dict[str, list[dict[str, Any]]], seconds: dict[str, float]) -> None:
        """Take one row in."""
        if "search" not in found:
            return
        ours = found["search"]
        for other in ("eplb", "lpt"):
            for mine, theirs in zip(ours, found.get(other, ours), strict=True):
                if mine["max_load"] > theirs["max_load"] * (1 + 1e-9):
                    self.worse.append(f"{row['name']} layer {mine['layer']} ({other})")
        if row["slots"] >= 5 * row["gpus"] and row["groups"] is None:
            tally = self.certified["recorded" if "file" in row else "synthetic"]
            tally[0] += sum(layer["gap"] <= 0.001 for layer in ours)
            tally[1] += len(ours)
            if seconds["search"] / len(ours) > 0.008:
                self.slow.append(f"{row['name']} {1e3 * seconds['search'] / len(ours):.1f} ms")

    def show(self) -> None:
        """Print it."""
        print(f"\nlayers where search is worse than eplb or lpt: {len(self.worse)} {self.worse[:5]}")
        for kind, (good, count) in self.certified.items():
            if count:
                share = 100 * good / count
                print(f"{kind}, flat, >= 5 slots a GPU: {good} of {count} layers within 0.1 % ({share:.2f} %)")
        print(f"of these rows slower than 8 ms a layer: {self.slow or 'none'}")


if __name__ == "__main__":
    main()
