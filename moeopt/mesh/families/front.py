"""Configurations that no other beats with no more GPUs of any type."""

from __future__ import annotations

import numpy as np

from moeopt.mesh.step.table import Bools, Floats, Ints


def front(rate: Floats, uses: Floats | Ints) -> Bools:
    """Rows with a rate above 0 that no row with at most as many GPUs of every type reaches; of equals the first.

    Parameters
    ----------
    rate
        (n,) what is wanted.
    uses
        (types, n) GPUs of each type, one or two.

    >>> front(np.array([3.0, 2.0, 2.0, 0.0]), np.array([[4.0, 4.0, 2.0, 1.0]])).tolist()
    [True, False, True, False]
    """
    order = np.lexsort((-rate, *uses[::-1])) if len(uses) == 1 else np.lexsort((-rate, uses[1], uses[0]))
    keep = np.zeros(len(rate), dtype=bool)
    if len(uses) == 1:
        best = 0.0
        for row in order.tolist():
            if rate[row] > best:
                best, keep[row] = float(rate[row]), True
        return keep
    reached: dict[int, float] = {}  # by GPUs of the second type: the best rate so far
    for row in order.tolist():
        second, value = int(uses[1][row]), float(rate[row])
        if value > 0 and all(value > best for other, best in reached.items() if other <= second):
            keep[row] = True
            reached[second] = value
    return keep
