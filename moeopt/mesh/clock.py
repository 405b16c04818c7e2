"""The clock of a solve, for loops deep within it: the purchase, bounds and descriptions look at it as they go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from moeopt.limits import Deadline

NEVER = Deadline(None)
"""For whoever has all the time."""
ENDS = ("time ran out", "it was interrupted")
"""How a note begins that says why something is missing."""
_DEADLINE: ContextVar[Deadline] = ContextVar("_DEADLINE", default=NEVER)


class OutOfTime(Exception):
    """The deadline passed before a part of the work was finished."""


@contextmanager
def watching(deadline: Deadline) -> Iterator[None]:
    """Let `look` raise within, once this deadline has passed.

    >>> with watching(Deadline(None, lambda: True)):
    ...     look()
    Traceback (most recent call last):
    ...
    moeopt.mesh.clock.OutOfTime
    >>> look()
    """
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def ended(deadline: Deadline) -> str:
    """Why there is no time left, one of `ENDS`.

    >>> ended(Deadline(1e-9)), ended(Deadline(60.0, lambda: True))
    ('time ran out', 'it was interrupted')
    """
    return ENDS[deadline.stopped()]


def look() -> None:
    """At the clock: raises `OutOfTime` once the time is up."""
    if _DEADLINE.get().passed():
        raise OutOfTime


def time_left() -> Deadline:
    """The deadline that is watched, for solvers that have a limit of their own."""
    return _DEADLINE.get()
