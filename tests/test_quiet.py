"""A quiet guest: importing prints nothing, loads nothing heavy and leaves the process as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("numba", "scipy.optimize", "matplotlib", "pulp", "highspy")

PROBE = """
import signal, sys, warnings, threading, os, logging
def state():
    numbers = [n for n in signal.valid_signals() if n not in (signal.SIGKILL, signal.SIGSTOP)]
    return (
        {n: signal.getsignal(n) for n in numbers}, list(warnings.filters), threading.active_count(), dict(os.environ),
        logging.root.handlers[:], sys.excepthook, sys.getrecursionlimit(), os.getcwd(),
    )
before = state()
import numpy
filters = list(warnings.filters)
import MODULE
after = state()
assert before[0] == after[0], "signal handlers"
assert filters == after[1], "warning filters"
assert before[2:] == after[2:], "process state"
loaded = [name for name in HEAVY if name in sys.modules]
assert not loaded, loaded
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


ROOMS = ("placement", "routing", "microbatch", "registry", "workload", "llm", "calibrate")
MODULES = ["moeopt", *(f"moeopt.{room}" for room in ROOMS)]


@pytest.mark.parametrize("module", MODULES)
def test_importing_prints_loads_and_configures_nothing(module: str) -> None:
    done = run(f"HEAVY = {HEAVY!r}\n{PROBE.replace('MODULE', module)}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


SOLVE = """
import signal
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
from moeopt import placement
instance = placement.PlacementInstance([[5, 3, 2, 2, 1, 1]], gpus=3, slots=9, split=SPLIT)
for method in placement.METHODS:
    if placement.METHODS[method].applies(instance) is None:
        placement.solve(instance, method=method)
assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
"""


@pytest.mark.parametrize("split", ["even", "free"])
def test_solving_prints_nothing_and_leaves_no_handlers_and_no_files(split: str, tmp_path: Path) -> None:
    code = f"import os; os.chdir({str(tmp_path)!r})\n" + SOLVE.replace("SPLIT", repr(split))
    done = run(code, PYTHONPATH=str(ROOT))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
