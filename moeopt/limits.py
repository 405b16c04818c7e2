"""When a solve has to stop, and how it says so."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module

from moeopt.errors import Violations
from moeopt.kinds import is_number


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a solve stops; ``None`` means no such limit.

    Parameters
    ----------
    time_s
        Wall-clock seconds, > 0, first call and start-up of solvers included; overrun by at most
        max(10 %, 100 ms), and the best plan so far comes back. Answers under a time limit depend on the machine.
    gap
        Stop a layer or part once ``(objective - lower_bound) / objective`` is at most this, in [0, 1).
        ``None``: 0.001 for ``auto`` and ``search``, 0 for ``exact``.
    iterations
        Rounds of a search per layer, >= 0.
    nodes
        Branch-and-bound nodes per MILP, >= 0.
    threads
        Threads a solver may use, >= 1.
    stop
        Asked again and again while a solve runs, such as ``threading.Event().is_set``; once it says yes, the best plan
        so far comes back, stopped by INTERRUPTED. No part of what limits are equal in, and in no document. A search
        that has to ask is cut into parts, and may end in another plan than one that has not, also where the answer is
        no. The first use of compiled code in a process is not cut short, which may take a minute where it was never
        compiled: call `moeopt.kernels.warmup` when the process starts.

    >>> Limits(time_s=-1, threads=0)
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: limits.time_s = -1: must be finite seconds > 0. Leave it out for no limit.
    limits.threads = 0: must be a whole number >= 1. Use 1.
    >>> from threading import Event
    >>> Limits(time_s=5, stop=Event().is_set) == Limits(time_s=5)
    True
    """

    time_s: float | None = None
    gap: float | None = None
    iterations: int | None = None
    nodes: int | None = None
    threads: int = 1
    stop: Callable[[], bool] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check = Violations()
        if self.time_s is not None and not (_is_number(self.time_s) and 0 < self.time_s < math.inf):
            check.refuse(
                "limits.time_s", self.time_s, rule="must be finite seconds > 0", fix="Leave it out for no limit"
            )
        if self.gap is not None and not (_is_number(self.gap) and 0 <= self.gap < 1):
            check.refuse("limits.gap", self.gap, rule="must be a fraction in [0, 1)", fix="0.001 means 0.1 %")
        for name in ("iterations", "nodes"):
            value = getattr(self, name)
            if value is not None and not (_is_whole(value) and value >= 0):
                check.refuse(
                    f"limits.{name}", value, rule="must be a whole number >= 0", fix="Leave it out for no limit"
                )
        if not (_is_whole(self.threads) and self.threads >= 1):
            check.refuse("limits.threads", self.threads, rule="must be a whole number >= 1", fix="Use 1")
        if self.stop is not None and not callable(self.stop):
            fix = "Give the is_set of a threading.Event"
            check.add("limits.stop", self.stop, rule="must be a function that says whether to stop", fix=fix)
        check.raise_if_any()


class Deadline:
    """A point in time, counted from its making; without a limit it never comes.

    Where `stop` says yes, it has come, and stays so for every share of it.

    >>> Deadline(None).remaining_s()
    inf
    >>> Deadline(1e-9).passed()
    True
    >>> Deadline(None, lambda: True).passed()
    True
    """

    def __init__(self, time_s: float | None, stop: Callable[[], bool] | None = None) -> None:
        self.start_s = time.perf_counter()
        self._since_s, self._worked_s = self.start_s, time.process_time()
        self.limited = time_s is not None
        self._end_s = self._last_s = math.inf if time_s is None else self.start_s + time_s
        self._stop = stop

    @property
    def watched(self) -> bool:
        """Whether it can come at all: work is then cut into parts, with a look at it after each."""
        return self.limited or self._stop is not None

    def stopped(self) -> bool:
        """Whether somebody has asked for an end."""
        return self._stop is not None and bool(self._stop())

    def elapsed_s(self) -> float:
        """Seconds since the deadline was set."""
        return time.perf_counter() - self.start_s

    def slowness(self) -> float:
        """Seconds of the clock for a second of work so far, 1 to 5: other programs may have the processors too.

        >>> Deadline(1.0).slowness()
        1.0
        """
        elapsed_s = time.perf_counter() - self._since_s
        if elapsed_s < 0.05:  # too short to tell
            return 1.0
        return min(max(elapsed_s / max(time.process_time() - self._worked_s, 1e-3), 1.0), 5.0)

    def remaining_s(self) -> float:
        """Seconds left, 0 or less once passed, ``inf`` without a limit."""
        if self.stopped():
            return 0.0
        return self._end_s - time.perf_counter()

    def share(self, parts: int) -> Deadline:
        """One of `parts` equal parts of the time that is left, from now on."""
        return self.within(max(self.remaining_s(), 1e-9) / parts if self.limited else None)

    def within(self, time_s: float | None) -> Deadline:
        """Another deadline from now on, stopped where this one is."""
        part = Deadline(time_s, self._stop)
        part._since_s, part._worked_s = self._since_s, self._worked_s
        return part

    def passed(self) -> bool:
        """Whether the time is up."""
        return self.watched and self.remaining_s() <= 0

    def close(self) -> None:
        """Let the time be up now: what is left of it goes to judging the answer."""
        self._end_s = min(self._end_s, time.perf_counter())

    def keep_back(self, seconds: float) -> None:
        """Let the time be up so much earlier, but at most half of what is left: what follows the search needs it."""
        if self.limited:
            self._end_s -= max(min(seconds, self.remaining_s() / 2), 0.0)

    def rest(self, grace_s: float = 0.0) -> Deadline:
        """Another deadline at the very end, with what was kept back; where somebody asks for an end, so much later.

        >>> deadline = Deadline(60.0)
        >>> deadline.keep_back(20.0)
        >>> deadline.remaining_s() < 40 < deadline.rest().remaining_s()
        True
        """
        left_s = max(self._last_s - time.perf_counter(), 1e-9) if self.limited else None
        return Deadline(left_s, self._stop if self._stop is None or not grace_s else _Later(self._stop, grace_s))

    def allows_import(self, module: str, load_s: float = 1.0) -> bool:
        """Whether a heavy module is loaded already, or there is time to load it.

        >>> soon = Deadline(0.1)
        >>> Deadline(None).allows_import("heavy"), soon.allows_import("heavy"), soon.allows_import("time")
        (True, False, True)
        """
        return module in sys.modules or self.remaining_s() > load_s

    def imports(self, module: str) -> bool:
        """Load a heavy module where `allows_import` lets it, once for shares that are too short to."""
        if self.allows_import(module):
            import_module(module)
        return module in sys.modules


class _Later:
    """A request to stop that is passed on when it is so old."""

    def __init__(self, stop: Callable[[], bool], seconds: float) -> None:
        self._stop, self._seconds = stop, seconds
        self._since_s: float | None = None

    def __call__(self) -> bool:
        if self._since_s is None and self._stop():
            self._since_s = time.perf_counter()
        return self._since_s is not None and time.perf_counter() - self._since_s >= self._seconds


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and is_number(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
