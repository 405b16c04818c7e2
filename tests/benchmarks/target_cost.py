"""Targets on memory: one large plan, and ten thousand small ones."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.benchmarks.verdict import Verdict, say

LARGE = """
import json, resource, time
from moeopt import placement
from moeopt.workload import generate
loads = generate("zipf", layers=92, experts=896, top_k=16, tokens=65536, seed=0, alpha=1.0).loads
begin = time.perf_counter()
result = placement.solve(placement.PlacementInstance(loads, gpus=128, slots=1024))
result.to_json()
print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter() - begin]))
"""

MANY = """
import json
import numpy as np
from moeopt import placement
def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * 4096 / 2**20
random = np.random.default_rng(0)
seen = []
for call in range(10_000):
    placement.solve(placement.PlacementInstance(random.integers(0, 1000, (1, 16)), gpus=4, slots=24))
    if call + 1 in (1_000, 10_000):
        seen.append(resident())
print(json.dumps(seen))
"""


def memory() -> Verdict:
    """Peak of a 92 x 896 plan in a process of its own; growth of one process over ten thousand calls."""
    say("memory: 92 x 896")
    peak, seconds = json.loads(_fresh(LARGE))
    say("memory: 10,000 calls")
    first, last = json.loads(_fresh(MANY))
    good = peak < 400 and last <= first + 5
    return Verdict(
        "memory",
        "92 x 896 < 400 MB; 10,000 calls <= 1,000 calls + 5 MB",
        f"{peak:.0f} MB in {seconds:.1f} s; {first:.1f} MB, then {last:.1f} MB",
        "" if good else "see measured",
    )


def _fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
