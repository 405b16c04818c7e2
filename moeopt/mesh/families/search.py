"""The largest batch that keeps every limit, for many shapes at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from moeopt.mesh.step.table import Bools, Ints


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
