"""The target on dispatch rules of engines: near the even split's value, which is not given up for it.

python -m tests.benchmarks.target_engine [--only dsv3_288_g32] [--layers 8]
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from moeopt import placement
from tests.benchmarks.rows import all_rows, instance_of, loads_of
from tests.benchmarks.verdict import Verdict, markdown, say

MOST_GPUS = 128
RULES = {"sglang-static": 1.01, "sglang-static-node": 1.05}
TINY = 8
"""Rows with no more experts are looked at in full: there one layer decides a mean of few."""
KEPT = 1.001
"""The even split is certified to 0.1 %: within that, one value is as good as another."""


def engine_rules(only: str = "", layers: int | None = None) -> list[Verdict]:
    """Every flat row up to 128 GPUs, under each rule; one line a row on standard error."""
    far: dict[str, list[str]] = {rule: [] for rule in RULES}
    given_up: dict[str, list[str]] = {rule: [] for rule in RULES}
    worst = dict.fromkeys(RULES, 0.0)
    count = 0
    for row in all_rows(only):
        if row["groups"] is not None or row["gpus"] > MOST_GPUS:
            continue
        count += 1
        loads = loads_of(row) if row["experts"] <= TINY else loads_of(row)[:layers]
        even = placement.solve(instance_of(row, loads), method="search")
        before = _mean(even.solution, "max_load")
        for rule, factor in RULES.items():
            instance = instance_of(row, loads, split=rule)
            unsearched = placement.evaluate(instance, even.plan).imbalance_mean
            found = placement.solve(instance, method="search").solution
            value, kept = _mean(found, "max_load"), _mean(found, "max_load_even")
            say(
                f"{row['name']} {rule}: even {before:.5f}, its plan {unsearched:.5f}, "
                f"searched {value:.5f}, with even parts {kept:.5f}"
            )
            worst[rule] = max(worst[rule], value / before)
            if value > factor * before:
                far[rule].append(f"{row['name']} {value:.4f} against {before:.4f}")
            if kept > KEPT * before:
                given_up[rule].append(f"{row['name']} {kept:.4f} against {before:.4f}")
    verdicts = []
    for rule, factor in RULES.items():
        short = "; ".join(far[rule])
        if given_up[rule]:
            short += f"{'; ' if short else ''}even value given up: {'; '.join(given_up[rule])}"
        target = f"within {factor - 1:.0%} of the even split, which is kept"
        measured = f"{count} rows: worst {worst[rule] - 1:+.2%}, even value given up on {len(given_up[rule])}"
        verdicts.append(Verdict(rule, target, measured, short))
    return verdicts


def _mean(solution: Any, field: str) -> float:
    """Mean over layers of a cost, in ideals."""
    ratios = [layer[field] / layer["ideal"] if layer["ideal"] else 1.0 for layer in solution["layers"]]
    return statistics.fmean(ratios)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--layers", type=int, help="the first layers only")
    given = parser.parse_args()
    print(markdown(engine_rules(given.only, given.layers)))
