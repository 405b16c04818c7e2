"""Solving for the verbs: plug-ins found from the current folder, their failures told apart from ours."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from moeopt.cli.ask import After, ask
from moeopt.cli.options import Solving
from moeopt.cli.say import Say
from moeopt.documents import current_folder
from moeopt.errors import MoeoptError, NotApplicable, PlanError
from moeopt.percent import total
from moeopt.plugins import failure

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.registry import Problem
    from moeopt.result import Result

WORSE = 1 + 1e-9
"""How much an objective may exceed another and count as no worse."""


class PolicyFailed(MoeoptError):
    """Somebody's policy raised an exception."""


def find_plugins(methods: list[str]) -> None:
    """Let ``package.module:function`` name a file of the current folder, as ``python -m`` does."""
    here = current_folder()
    if here is not None and any(":" in name for name in methods) and str(here) not in sys.path:
        sys.path.insert(0, str(here))


@contextmanager
def guarded_output(methods: Sequence[str]) -> Iterator[None]:
    """Send to standard error what plug-ins print, by Python or below it: standard output is for the answer."""
    if not any(":" in name for name in methods):
        yield
        return
    sys.stdout.flush()
    with redirect_stdout(sys.stderr), _descriptor_to_stderr():
        yield


@contextmanager
def _descriptor_to_stderr() -> Iterator[None]:
    try:
        kept = os.dup(1)
    except OSError:  # standard output is closed
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def named(problem: Problem[Any, Any], method: str, everything: bool) -> Iterator[None]:
    """Run a method; what a policy raises or returns is told as its fault and not as ours."""
    try:
        yield
    except PlanError as error:
        shown = error.faults if everything else _a_line_a_kind(error.faults)
        raise PlanError([f"method {method}: {fault}" for fault in shown]) from error
    except MoeoptError:
        raise
    except (Exception, SystemExit) as error:
        known = problem.methods.get(method)
        if known is None or known.claim != "plug-in":
            raise
        raise PolicyFailed(f"method {method} failed: {failure(error)}") from error


def solve(
    instance: PlacementInstance,
    method: str,
    solving: Solving,
    say: Say,
    after: After = After(),
    executor: Callable[[], Executor] | None = None,
) -> Result:
    """One method on one instance, with a progress bar; with an executor layer beside layer.

    `after` is what the verb adds to the result.
    """
    from moeopt.kernels._jit import unkept_note
    from moeopt.placement import PROBLEM, solve_layers

    find_plugins([method])
    _say_if_compiling(instance, solving, say)
    ours = named(PROBLEM, method, say.verbose)
    with say.progress(f"{instance.name}: {method}") as listener, guarded_output([method]), ours:
        how: dict[str, Any] = {"method": method, "limits": solving.limits(), "seed": solving.seed}
        if executor is not None:
            how["executor"] = executor
        work = PROBLEM.solve if executor is None else solve_layers
        found = ask(work, instance, **how, on_progress=listener, after=after)
    unkept = unkept_note()
    if unkept is not None:
        say.note(unkept)
    return found


def _a_line_a_kind(faults: Sequence[str]) -> list[str]:
    """The first fault of each kind, and how many more there are.

    >>> _a_line_a_kind(["layer 0: expert 3 is missing", "layer 1: expert 4 is missing", "bad"])
    ['layer 0: expert 3 is missing (and 1 more of this kind)', 'bad']
    """
    kinds: dict[str, list[str]] = {}
    for fault in faults:
        kinds.setdefault(re.sub(r"\d+(, \d+)*", "0", fault), []).append(fault)
    return [
        found[0] if len(found) == 1 else f"{found[0]} (and {len(found) - 1:,} more of this kind)"
        for found in kinds.values()
    ]


def _say_if_compiling(instance: PlacementInstance, solving: Solving, say: Say) -> None:
    """The first search of a kind on a machine compiles for up to a minute, which looks like a hang."""
    from moeopt.kernels import dispatch, moving, packing, windows
    from moeopt.kernels._jit import Kernel, has_numba

    used: list[tuple[str, Kernel[Any, Any]]] = [("new plans", packing.improve)]
    used += [("dispatch rules", dispatch.improve)] if instance.engine_split else []
    used += [("moves", moving.sweep)] if instance.current is not None else []
    used += [("windows", windows.improve_windows)] if instance.windows else []
    if solving.time_limit is not None or not has_numba():
        return
    missing = [what for what, kernel in used if not (kernel.ready() or kernel.on_disk())]
    if missing:
        say.note(
            f"compiling the search for {' and for '.join(missing)}, once on this machine: up to a minute; "
            "moeopt warmup does it for all kinds beforehand"
        )


def worse_than_rival(instance: PlacementInstance, result: Result, say: Say) -> bool:
    """Whether the running plan, or without one the public rule, does better; says so, also when it cannot be asked."""
    from moeopt.placement import PROBLEM

    if result.objective is None:
        return False
    if instance.current is not None and result.solution is not None:
        now, after = result.solution["imbalance_now"], result.solution["imbalance_total"]
        if now is None or after <= now * WORSE:
            return False
        say.refused(f"worse than the running plan: imbalance of all layers together {after:.4f} against {now:.4f}")
        return True
    try:
        rival = PROBLEM.solve(instance, method="eplb").objective
    except NotApplicable as error:
        say.note(f"--fail-if-worse has nothing to compare with: {error}")
        return False
    assert rival is not None
    if result.objective <= rival * WORSE:
        return False
    what = "imbalance summed over layers" if result.unit == "imbalance" else "objective"
    ratios = result.unit == "imbalance"
    say.refused(f"worse than eplb: {what} {total(result.objective, ratios)} against {total(rival, ratios)}")
    return True
