"""Somebody's policy as a method: imported by name, watched while it runs, and never trusted."""

from __future__ import annotations

import copy
import importlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from moeopt.documents import current_folder
from moeopt.errors import InstanceError, Violation, Violations, shortened
from moeopt.limits import Limits

Policy = Callable[[Any, Limits, int], Any]


def check_policy(name: object, policy: object) -> None:
    """Refuse a name that no list of names can hold, and a policy that cannot be called."""
    found = []
    if not (isinstance(name, str) and name and "," not in name and not any(sign.isspace() for sign in name)):
        rule = "must be a word without spaces and commas"
        found.append(Violation("name", "", shown(name), rule, "Use a name such as mine"))
    if not callable(policy):
        rule = "must be a function of instance, limits and seed"
        found.append(Violation("policy", "", shown(policy), rule, "Give the function itself"))
    if found:
        raise InstanceError(found)


def name_of(method: object, field: str = "method") -> str:
    """What a method goes by: itself, or the name of the function; `field` is what messages call it.

    >>> def dealt(instance, limits, seed): ...
    >>> name_of("search"), name_of(dealt), name_of(lambda instance, limits, seed: [])
    ('search', 'dealt', '<lambda>')
    """
    if isinstance(method, str):
        return method
    if not callable(method):
        rule = "must be the name of a method, or a function of instance, limits and seed"
        raise InstanceError(
            [Violation(field, "", shown(method), rule, "Use a name such as 'auto', or give a function")]
        )
    return str(getattr(method, "__name__", None) or type(method).__name__)


def listed(
    methods: Any, find: Callable[[Any], Any], field: str = "methods", example: str = "['eplb', 'search']"
) -> list[tuple[str, Any]]:
    """Name of each method and what was given for it, each once; what `find` refuses is said all together.

    >>> listed(["lpt", "lpt"], lambda method: method)
    [('lpt', 'lpt')]
    """
    wrong, fix = "", f"Write {example}"
    if isinstance(methods, str):
        wrong, fix = "must be a list of names, not one string", f"Write {[one.strip() for one in methods.split(',')]}"
    elif callable(methods):
        wrong, fix = "must be a list of names and functions, not one function", "Write [function]"
    elif not isinstance(methods, Iterable) or getattr(methods, "ndim", 1) == 0:
        wrong = "must be a list of names and functions"
    if wrong:
        raise InstanceError([Violation(field, "", shown(methods), wrong, fix)])
    check = Violations()
    found: dict[str, Any] = {}
    for method in methods:
        with check.within():
            name = name_of(method, field)
            if name in found and found[name] != method:
                rule = f"has the name of another one, {name!r}"
                fix = 'Rename it, or name it: register("mine", function)'
                check.found.append(Violation(field, "", shown(method), rule, fix))
            elif name not in found:
                find(method)
                found[name] = method
    check.raise_if_any()
    return list(found.items())


def call(policy: Policy, instance: Any, limits: Limits, seed: int) -> tuple[Any, float]:
    """What the policy answers and the seconds it took; an attempt to end the process is a failure like any other.

    The policy has a copy of the instance, in which it can write into no array, and files are where they were after it.
    """
    instance = _own_copy(instance)
    folder = current_folder()
    start_s = time.perf_counter()
    try:
        return policy(instance, replace(limits), seed), time.perf_counter() - start_s
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit and the like must not pass for the end of moeopt
        raise RuntimeError(f"it raised {type(error).__name__}({_text(error)})") from error
    finally:
        if folder is not None and folder != current_folder():
            os.chdir(folder)


def failure(error: BaseException) -> str:
    """What somebody's exception says of itself: its kind, and its text where it has one.

    >>> failure(MemoryError()), failure(ValueError("no room"))
    ('MemoryError', 'ValueError: no room')
    """
    text = _text(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # its own words may fail too
        return "its message cannot be shown"


def _own_copy(instance: Any) -> Any:
    """The instance again, with nothing in common; its arrays are read-only, so that a slip is told."""
    import numpy as np

    own = copy.deepcopy(instance)
    held = getattr(own, "__dict__", {})
    for name, value in list(held.items()):
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
            held[name] = value.view()
    return own


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
        rule = f"cannot be imported ({failure(error)})"
        raise InstanceError([Violation(field, "", repr(name), rule, fix)]) from error
    if not callable(found):
        raise InstanceError([Violation(field, "", repr(name), "is not a function", fix)])
    policy: Policy = found
    return policy


def shown(value: object) -> str:
    """A value for a message, in 80 characters."""
    return shortened(repr(value))
