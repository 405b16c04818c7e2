"""Somebody's policy as a method: imported by name, watched while it runs, and never trusted."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from moeopt.errors import InstanceError, Violation
from moeopt.limits import Limits

Policy = Callable[[Any, Limits, int], Any]


def check_policy(name: object, policy: object) -> None:
    """Refuse a name that no list of names can hold, and a policy that cannot be called."""
    found = []
    if not (isinstance(name, str) and name and "," not in name and not any(sign.isspace() for sign in name)):
        rule = "must be a word without spaces and commas"
        found.append(Violation("name", "", _shown(name), rule, "Use a name such as mine"))
    if not callable(policy):
        rule = "must be a function of instance, limits and seed"
        found.append(Violation("policy", "", _shown(policy), rule, "Give the function itself"))
    if found:
        raise InstanceError(found)


def call(policy: Policy, instance: Any, limits: Limits, seed: int) -> tuple[Any, float]:
    """What the policy answers and the seconds it took; an attempt to end the process is a failure like any other."""
    start_s = time.perf_counter()
    try:
        return policy(instance, limits, seed), time.perf_counter() - start_s
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit and the like must not pass for the end of moeopt
        raise RuntimeError(f"it raised {type(error).__name__}({error})") from error


def overrun(limits: Limits, elapsed_s: float) -> tuple[bool, list[str]]:
    """Whether the time was used up, and a note where it was exceeded by more than max(10 %, 100 ms)."""
    if limits.time_s is None or elapsed_s < limits.time_s:
        return False, []
    if elapsed_s <= limits.time_s + max(0.1 * limits.time_s, 0.1):
        return True, []
    return True, [f"the policy took {elapsed_s:.1f} s of {limits.time_s:.1f} s allowed"]


def import_policy(name: str, field: str = "method") -> Policy:
    """The function that ``package.module:function`` names; `field` is what messages call it."""
    module_name, _, attribute = name.partition(":")
    fix = "Give package.module:function, importable from here"
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the module is somebody's: anything can go wrong while it runs, even sys.exit
        rule = f"cannot be imported ({type(error).__name__}: {error})"
        raise InstanceError([Violation(field, "", repr(name), rule, fix)]) from error
    if not callable(found):
        raise InstanceError([Violation(field, "", repr(name), "is not a function", fix)])
    policy: Policy = found
    return policy


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
