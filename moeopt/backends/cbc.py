"""CBC, the binary that PuLP 3 bundles or that PuLP 4 takes from cbcbox, run directly so that its whole story is read.

PuLP gives neither CBC's bound nor a status that tells a time-out from an optimum; the solution file and the log do.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from moeopt.backends.base import Claim, FloatArray, LinearModel
from moeopt.backends.mps import to_mps, to_start
from moeopt.backends.registry import OnIncumbent, unknown_name
from moeopt.errors import Violations
from moeopt.limits import Deadline, Limits
from moeopt.result import Stop

RESERVED = {
    "seconds": "limits.time_s",
    "maxnodes": "limits.nodes",
    "ratiogap": "limits.gap",
    "threads": "limits.threads",
    "randomcbcseed": "seed",
    "timemode": "nothing: wall-clock seconds always count",
}
"""Options, in small letters, that have a name of our own."""
COMPLAINT = r"valid range is.*|[Ii]llegal (for|parameter|keyword).*|Possible options for[^;>]*"
"""How versions of CBC say that they do not like a value."""
BOUND_DIGITS = 1e-7
"""CBC logs its bound with 8 significant digits while it searches; this much of it is given away to be safe."""
BOUND_STEP = 0.0005
"""In its last summary it rounds the bound to three decimals."""


@functools.cache
def binary() -> str | None:
    """Path of CBC: from cbcbox, from PuLP's own folder, or on the path."""
    if importlib.util.find_spec("cbcbox"):
        with contextlib.suppress(Exception):  # a broken wheel is as good as none
            path = str(importlib.import_module("cbcbox").cbc_bin_path())
            if os.access(path, os.X_OK):
                return path
    import pulp

    path = getattr(getattr(pulp, "PULP_CBC_CMD", None), "pulp_cbc_path", "")
    return path if path and os.access(path, os.X_OK) else shutil.which("cbc")


def why_not() -> str | None:
    """Say why it cannot be used."""
    return None if binary() else "neither PuLP's own CBC, nor cbcbox, nor a cbc on the path is there to run"


@functools.cache
def version() -> str:
    """Version that the binary prints."""
    found = re.search(r"^Version:\s*(\S+)", _talk("-quit"), re.MULTILINE)
    return found.group(1) if found else "of unknown version"


@functools.cache
def option_names() -> tuple[str, ...]:
    """Names of all parameters that the binary lists; CBC itself would accept any beginning of them."""
    names = {"threads"}  # CBC 2.10 leaves it out of its list
    wanted = False
    for line in _talk("-?").splitlines():
        if line.rstrip(" *").endswith(":"):
            wanted = "parameters" in line and "ction" not in line
        elif wanted:
            names.update(word.replace("(", "").replace(")", "") for word in line.split())
    return tuple(sorted(names))


def run(
    model: LinearModel,
    *,
    deadline: Deadline,
    limits: Limits,
    seed: int,
    start: FloatArray | None,
    floor: float | None,
    options: Mapping[str, Any],
    on_incumbent: OnIncumbent | None,
) -> Claim:
    """Solve with CBC; its files lie in a private folder that goes when it is done."""
    extra = _check_options(options)
    # 0 is CBC without threads; above 100 its threads take turns in a fixed order
    threads = 0 if limits.threads == 1 else 100 + limits.threads
    arguments = ["-threads", str(threads), "-timeMode", "elapsed", "-increment", "1e-9"]
    # 0 would mean the time of day to CBC
    arguments += ["-randomCbcSeed", str(seed + 1), "-ratioGap", repr(float(limits.gap or 0.0)), "-allowableGap", "0"]
    if limits.nodes is not None:
        arguments += ["-maxNodes", str(min(limits.nodes, 2**31 - 1))]
    claim = _run_once(model, deadline, [*arguments, *extra], start)
    if claim.outcome == "unbounded" or (claim.outcome == "infeasible" and "or unbounded" in " ".join(claim.notes)):
        # the same model without an objective is infeasible only if this one is
        flat = _run_once(replace(model, cost=np.zeros(model.num_columns)), deadline, [*arguments, *extra], None)
        if flat.outcome == "infeasible":
            return Claim(outcome="infeasible")
        if flat.outcome == "optimal":
            return Claim(outcome="unbounded")
        return Claim(outcome="stopped", stop=flat.stop, notes=("CBC says: unbounded or infeasible",))
    if claim.stop is Stop.ITERATIONS and limits.nodes is not None:
        return replace(claim, stop=Stop.NODES)  # "stopped on iterations" is what CBC calls its node limit
    return claim


def _run_once(model: LinearModel, deadline: Deadline, arguments: list[str], start: FloatArray | None) -> Claim:
    with tempfile.TemporaryDirectory(prefix="moeopt-cbc-") as name:
        folder = Path(name)
        (folder / "model.mps").write_text(to_mps(model) + "\n")
        command = [str(binary()), "model.mps", *arguments]
        if start is not None:
            (folder / "start.sol").write_text(to_start(model, start))
            command += ["-mips", "start.sol"]
        remaining_s = deadline.remaining_s()
        if remaining_s <= 0:
            return Claim(outcome="stopped", stop=Stop.TIME, notes=("time was up before CBC had begun",))
        if deadline.limited:
            command += ["-seconds", f"{remaining_s:.3f}"]
        command += ["-solve", "-solution", "answer.sol"]
        with (folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
            try:
                code = process.wait(timeout=remaining_s * 1.05 + 0.05 if deadline.limited else None)
            except subprocess.TimeoutExpired:
                return Claim(outcome="stopped", stop=Stop.TIME, notes=("CBC overran its time limit and was ended",))
            finally:
                process.kill()
                process.wait()
        story, answer = (folder / "log.txt").read_text(errors="replace"), folder / "answer.sol"
        if code != 0 or not answer.exists():
            last = (story.strip().splitlines() or ["nothing"])[-1]
            return Claim(
                outcome="failed", notes=(f"CBC ended with exit code {code} and no answer; it last said: {last}",)
            )
        return _read(model, answer.read_text(), story)


def _read(model: LinearModel, answer: str, story: str) -> Claim:
    """Judge by the first line of the solution file, such as ``Stopped on time - objective value 17``."""
    head, _, rest = answer.partition("\n")
    found = re.search(r"^Enumerated nodes:\s*(\d+)", story, re.MULTILINE)
    nodes = int(found.group(1)) if found else None if model.has_integers else 0
    if head.startswith(("Infeasible", "Integer infeasible")) or "infeasibility proved" in story:
        doubt = "infeasible or unbounded" in story.lower()
        return Claim(outcome="infeasible", nodes=nodes, notes=("infeasible or unbounded",) if doubt else ())
    if head.startswith("Unbounded"):
        return Claim(outcome="unbounded", nodes=nodes)
    values = None if "no integer solution" in head else _values(model, rest)
    if head.startswith("Optimal"):
        within = "gap tolerance" in head
        bound = _bound(model, story) if within else None if values is None else model.objective_of(values)
        return Claim(outcome="optimal", values=values, bound=bound, nodes=nodes)
    stops = {"time": Stop.TIME, "iterations": Stop.ITERATIONS, "nodes": Stop.NODES}
    word = re.match(r"Stopped on (\w+)", head)
    stop = stops.get(word.group(1), Stop.FINISHED) if word else Stop.FINISHED
    notes = () if word else (f"CBC says: {head}",)
    return Claim(outcome="stopped", stop=stop, values=values, bound=_bound(model, story), nodes=nodes, notes=notes)


def _values(model: LinearModel, lines: str) -> FloatArray:
    values = np.zeros(model.num_columns)  # a column that CBC does not list is 0 in its solution
    for line in lines.splitlines():
        fields = line.replace("**", " ").split()
        if len(fields) >= 3 and fields[1].startswith("x"):
            values[int(fields[1][1:])] = float(fields[2])
    return values


def _bound(model: LinearModel, story: str) -> float | None:
    """Last bound that the log gives, lowered by what its printing may have rounded up; the smallest if two disagree."""
    if not model.has_integers:
        return None
    fine = [float(text) for text in re.findall(r"best possible ([-+.\de]+)", story)[-1:]]
    coarse = [float(text) for text in re.findall(r"^Lower bound:\s*([-+.\de]+)", story, re.MULTILINE)[-1:]]
    if fine and coarse and abs(fine[0] - coarse[0]) <= BOUND_STEP + BOUND_DIGITS * abs(fine[0]):
        coarse = []  # the same bound with fewer digits
    low = [bound - BOUND_DIGITS * abs(bound) for bound in fine] + [bound - BOUND_STEP for bound in coarse]
    low = [bound for bound in low if abs(bound) < 1e30]  # CBC's infinity is 1e50
    return min(low) + model.offset if low else None


def _check_options(options: Mapping[str, Any]) -> list[str]:
    check, arguments = Violations(), []
    names = {name.lower(): name for name in option_names()} if options else {}
    for name, value in options.items():
        if name.lower() in RESERVED:
            check.add("options", value, where=name, rule="is not set here", fix=f"Use {RESERVED[name.lower()]}")
        elif name.lower() not in names:
            check.found.append(unknown_name("options", "cbc", name, list(names.values())))
        else:
            pair = [f"-{name}", str(value)]
            said = re.search(COMPLAINT, _talk(*pair, "-quit"))
            if said:
                check.add("options", value, where=name, rule=f"CBC refuses this value: {said.group(0)}")
            arguments += pair
    check.raise_if_any()
    return arguments


def _talk(*arguments: str) -> str:
    command = [str(binary()), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    return done.stdout
