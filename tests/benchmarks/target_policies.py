"""The target on drop-in policies: on every row the shapes of the public rule, never a double, never a layer worse.

python -m tests.benchmarks.target_policies [--only dsv3_288_g32]
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

from moeopt import placement
from moeopt.engines import eplb
from tests.benchmarks.rows import all_rows, instance_of, loads_of
from tests.benchmarks.verdict import Verdict, markdown, say


def policies(only: str = "", seeds: tuple[int | None, ...] = (None,)) -> Verdict:
    """Every row through `eplb.rebalance_experts`, judged by the referee beside the method `eplb`."""
    eplb.warm_up()
    wrong: list[str] = []
    count, slowest, better, layers = 0, 0.0, 0, 0
    for seed in seeds:
        for row in all_rows(only):
            if seed is not None and "file" in row:
                continue  # recorded once
            loads = loads_of(row, seed)
            begin = time.perf_counter()
            answers = eplb.rebalance_experts(loads, row["slots"], row["groups"] or 1, row["nodes"], row["gpus"])
            spent = time.perf_counter() - begin
            found = fault(row, loads, answers)
            instance = instance_of(row, loads)
            theirs = placement.solve(instance, method="eplb").plan
            if not found:
                mine = placement.evaluate(instance, answers[0].tolist())  # refuses doubles
                other = placement.evaluate(instance, theirs)
                tops = list(zip(mine.max_load, other.max_load, strict=True))
                found = "; ".join(f"layer {n} worse" for n, (a, b) in enumerate(tops) if a > b * (1 + 1e-9))
                better += sum(a < b for a, b in tops)
                layers += len(tops)
                means = f"{mine.imbalance_mean:.5f} against {other.imbalance_mean:.5f}"
            count, slowest = count + 1, max(slowest, spent)
            say(f"{row['name']}: {found or means}, {1e3 * spent:.0f} ms")
            wrong.extend([f"{row['name']}: {found}"] if found else [])
    measured = f"{count} rows: {len(wrong)} wrong, {better} of {layers} layers better, slowest call {slowest:.2f} s"
    return Verdict("drop-in policies", "shapes, dtypes, no doubles, no layer worse", measured, "; ".join(wrong[:6]))


def memory(calls: int = 1000) -> Verdict:
    """Peak resident size over many calls, each from the map of the one before."""
    row = next(all_rows("gptoss_136_g8/lognormal"))
    loads = loads_of(row)[:4]
    rng = np.random.default_rng(0)
    held = None
    for turn in range(calls + 200):
        now = np.rint(loads * np.exp(rng.normal(0, 0.1, loads.shape)))
        held = eplb.rebalance_experts(now, row["slots"], 1, 1, row["gpus"], current=held)[0]
        if turn == 199:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    measured = f"{grown:.1f} MB more after {calls:,} calls on {loads.shape[0]} x {loads.shape[1]}"
    return Verdict("drop-in policies, memory", "flat", measured, "" if grown <= 5 else measured)


def fault(row: dict[str, Any], loads: Any, answers: Any) -> str:
    """What is wrong with the form of the three answers."""
    phy2log, log2phy, logcnt = answers
    num_layers, num_experts = loads.shape
    if phy2log.shape != (num_layers, row["slots"]) or logcnt.shape != (num_layers, num_experts):
        return f"shapes {phy2log.shape}, {logcnt.shape}"
    if log2phy.shape != (num_layers, num_experts, int(logcnt.max())):
        return f"shape of the reverse map {log2phy.shape}"
    if any(table.dtype != np.int64 for table in answers):
        return "dtypes"
    if not (np.sort(log2phy.reshape(num_layers, -1), axis=1)[:, -row["slots"] :] == np.arange(row["slots"])).all():
        return "the reverse map is not the reverse"
    return ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    print(markdown([policies(parser.parse_args().only), memory()]))
