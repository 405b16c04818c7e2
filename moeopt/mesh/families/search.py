"""The largest batch that keeps every limit, for many shapes at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np

from moeopt.mesh.step.table import Bools, Floats, Ints


def largest(fits: Callable[[Ints], Bools], most: Ints) -> Ints:
    """Largest batch of each row, at most `most`, that fits; 0 where one sequence does not.

    Exact where every smaller batch of one that fits does too, which holds for times that never fall with the batch.
    The most is looked at first: where no limit binds it is the answer of all rows at once.

    >>> largest(lambda batch: batch <= np.array([5, 0, 99]), np.array([64, 64, 64])).tolist()
    [5, 0, 64]
    """
    good = fits(np.maximum(most, 1)) & (most >= 1)
    low, high = np.where(good, most, 0), np.where(good, most, np.maximum(most - 1, 0))
    while np.any(low < high):
        middle = (low + high + 1) // 2
        good = fits(np.maximum(middle, 1)) & (middle >= 1)
        low, high = np.where(good, middle, low), np.where(good, high, np.maximum(middle - 1, low))
    return low


def crossing(over: Callable[[Ints], tuple[Bools, Floats]], most: Ints, above: Floats, guess: Ints) -> Ints:
    """The same where the most does not fit: `over` says what fits, and by which part of a limit it is off.

    Steps go where a line through the last two looks crosses the limit, and to the middle of what is left where that is
    elsewhere, and every third time: times are nearly lines, and few steps reach both neighbours of the limit.

    Parameters
    ----------
    above
        By which part the most is off.
    guess
        Where to begin.

    >>> limit = np.array([5, 0, 98])
    >>> crossing(lambda b: (b <= limit, b / (limit + 0.5) - 1), np.array([64, 64, 99]), np.ones(3), limit).tolist()
    [5, 0, 98]
    """
    low, high = np.zeros_like(most), most
    last, step = most, guess
    for turn in count(1):
        if not (left := high - low > 1).any():
            return low
        step = np.clip(step, low + 1, np.maximum(high - 1, 1))
        good, off = over(step)
        low, high = np.where(left & good, step, low), np.where(left & ~good, step, high)
        middle = (low + high) // 2
        with np.errstate(divide="ignore", invalid="ignore"):
            line = np.floor(step - off * (step - last) / (off - above))
        near = (line >= low) & (line < high) & (turn % 3 > 0)  # nothing is near what is no number
        last, above = step, off
        step = np.where(near, np.where(near, line, 0).astype(np.int64), middle)
    raise AssertionError("unreachable")
