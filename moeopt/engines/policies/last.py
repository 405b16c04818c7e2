"""The outermost guard: around everything a policy does, reading its arguments included."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from moeopt.engines.policies.arrays import as_given
from moeopt.engines.policies.options import LOGGER, Options

T = TypeVar("T")
MOST = 2**27
"""Entries of the largest table that is given back, 1 GiB."""


class NoRoom(ValueError):
    """The only exception of the policies: the map asked for is too large for the memory, and none runs."""


def why(error: BaseException) -> str:
    """An error in words, also where it cannot say so itself."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def guarded(engine: str, options: Any, work: Callable[[Options], T], other: Callable[[Options], T]) -> T:
    """What `work` gives; where it fails, one warning and what `other` gives, which needs less.

    Raises
    ------
    NoRoom
        Neither had the memory, or one of them says so.
    """
    chosen = usable(options)
    try:
        return work(chosen)
    except NoRoom:
        raise
    except Exception as error:
        reason = why(error)
    warn(chosen, "moeopt %s: experts in order or what runs: %s", engine, reason)
    try:
        return other(chosen)
    except NoRoom:
        raise
    except Exception as error:
        raise NoRoom(f"no map can be given: {reason}; {why(error)}") from error


def usable(options: Any) -> Options:
    """The options, or the usual ones where there are none or they are something else."""
    return options if issubclass(type(options), Options) else Options()


def warn(options: Options, text: str, *values: object) -> None:
    """A line in the log; a broken handler costs no map."""
    log: logging.Logger = LOGGER
    with suppress(Exception):
        log = options.log
        log.warning(text, *values)


def size(value: Any) -> int:
    """A whole number >= 0 of whatever was given; 0 where it is none."""
    try:
        return max(int(value), 0)
    except Exception:
        return 0


def alike(form: Any, given: Any) -> Any:
    """`as_given`, or numpy where the kind of what was given is not known."""
    try:
        return as_given(form, given)
    except Exception:
        return form


def fits(*sizes: int) -> bool:
    """Whether a table of these sizes can be given back.

    >>> fits(58, 288), fits(1, 10**13)
    (True, False)
    """
    entries = 1
    for one in sizes:
        entries *= max(one, 1)
    return entries <= MOST
