"""All targets of placement in one table: what was asked, what was measured, and what is short; about 25 minutes.

    python -m tests.benchmarks.targets [--parts speed,online,small,offline72,offline144,memory,replan,sweep,engine]
        [--layers N] [--write]

Run nothing else beside it. ``--layers``: how many layers of a row the engine part looks at, 8 unless said otherwise.
``--write`` keeps the table in ``reports/placement-bench.md``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from moeopt.kernels import warmup
from moeopt.versions import versions
from tests.benchmarks import replanning, speed, target_cost, target_engine, target_policies, target_quality
from tests.benchmarks.verdict import Verdict, markdown, say

REPORT = Path(__file__).resolve().parents[2] / "reports" / "placement-bench.md"
CLOSE_72 = {
    "zipf0.6": (0.005, 1.0),
    "zipf1.2": (0.005, 1.0),
    "lognormal": (0.005, 1.0),
    "zipf1.0": (0.005, 0.9),
    "topic": (0.005, 0.9),
    "uniform": (0.005, 0.9),
}
LAYERS = 8
CLOSE_144 = {"zipf0.6": (0.01, 1.0), "zipf1.0": (0.01, 1.0), "lognormal": (0.01, 1.0)}


def parts(layers: int) -> dict[str, Callable[[], Iterable[Verdict]]]:
    """The parts by name, in their order: first those that take times."""
    return {
        "speed": speed.verdicts,
        "online": lambda: [target_quality.two_slots_online()],
        "small": lambda: [target_quality.small()],
        "offline72": lambda: [target_quality.offline("dsv3_288_g72", CLOSE_72, 10.0)],
        "offline144": lambda: [target_quality.offline("dsv3_288_g144", CLOSE_144, 15.0)],
        "memory": lambda: [target_cost.memory()],
        "replan": lambda: [replanning.verdict()],
        "sweep": target_quality.sweep,
        "engine": lambda: target_engine.engine_rules(layers=layers),
        "policies": lambda: [target_policies.policies(), target_policies.memory()],
    }


def main() -> None:
    """Run the parts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(parts(LAYERS)))
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warmup()
    begin = time.perf_counter()
    found: list[Verdict] = []
    known = parts(given.layers)
    for name in given.parts.split(","):
        say(f"part {name}")
        found.extend(known[name]())
    used = ", ".join(f"{name} {version}" for name, version in versions("numpy", "scipy", "highspy", "numba").items())
    table = markdown(found)
    print(table)
    if given.write:
        command = f"python -m tests.benchmarks.targets {' '.join(sys.argv[1:])}"
        head = f"# Targets of placement\n\n`{command}`: {(time.perf_counter() - begin) / 60:.0f} minutes, {used}.\n"
        scope = f"all layers, in the engine rows the first {given.layers} and all of Mixtral"
        REPORT.write_text(f"{head}Loads: `instances/published/shapes.json`, {scope}.\n\n{table}")


if __name__ == "__main__":
    main()
