"""Which windows a plan is made from, and which it serves."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt import kinds
from moeopt.errors import Violations
from moeopt.placement import checks


@dataclass(frozen=True, slots=True)
class Period:
    """One plan's time.

    Parameters
    ----------
    seen
        Windows that its plan is made from, all of them over when it begins.
    scored
        Windows that it serves.
    """

    seen: range
    scored: range


@kinds.expects(windows=kinds.whole)
def periods(windows: int, every: int = 1, lookback: int | None = None) -> tuple[Period, ...]:
    """The periods of a history: after `lookback` windows that are only looked at, one after every `every` windows.

    Raises
    ------
    InstanceError
        A number is not whole and >= 1, or no window is left to score.

    >>> for period in periods(6, every=2, lookback=3):
    ...     print(list(period.seen), list(period.scored))
    [0, 1, 2] [3, 4]
    [2, 3, 4] [5]
    """
    check = Violations()
    checks.whole("every", every, 1, check)
    if lookback is not None:
        checks.whole("lookback", lookback, 1, check)
    check.raise_if_any()
    back = every if lookback is None else lookback
    if windows <= back:
        rule = f"a history needs more windows than the {back} that its first plan is made from"
        fix = "Record more windows, or look back less"
        check.add("history", f"{windows} window{'s' * (windows != 1)}", rule=rule, fix=fix)
        check.raise_if_any()
    starts = range(back, windows, every)
    return tuple(Period(range(start - back, start), range(start, min(start + every, windows))) for start in starts)
