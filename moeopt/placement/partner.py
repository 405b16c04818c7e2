"""Two simple prices of pieces that refute a threshold T; `fillings.proves` has the last word.

*Crowd*: a GPU holds at most k - 1 pieces larger than T/k. Price 1 for those, so that they may be (k - 1) G at most;
spare slots make them fewest where a piece's replicas all come under T/k for the fewest further slots.
*Partner*, two slots: a GPU with a piece larger than T - x has only one of at most x beside it, for any x < T/2. Price 2
for pieces larger than T - x, 1 for those between, 0 up to x, so that a GPU holds 2 at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.kernels import pricing
from moeopt.placement.fillings import FULL

Floats = NDArray[np.float64]

FEW = (0.0, 1.0, 2.0)
MANY = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 9.0)
"""Further replicas that are looked at: of an expert that one GPU can hold, and of the others. In between, the lower
number is paid for and the larger one makes the pieces small; beyond the last, pieces cost nothing."""
SLOT_PRICES = (1.0, 2.0)
"""Prices of a spare slot that are tried; others raise the bound by 0.01 % on average (288 slots, 144 GPUs)."""
MOST_SLOTS = 4
"""With more slots they say no more than the mean does."""
STEPS, NEAR = 10, 3e-4
"""Halvings of the interval, which end at such a part of the threshold."""


Step = tuple[list[int], list[int]]
"""Sizes and prices as of `fillings.proves`."""


def search(
    weights: Floats, num_gpus: int, slots: int, lower: float, upper: float
) -> tuple[float, list[int], list[int]] | None:
    """Largest refuted threshold in ``(lower, upper)`` with sizes and prices as of `fillings.proves`, or ``None``.

    Parameters
    ----------
    weights
        (E,) tokens of each expert, shared evenly by its replicas.

    Heuristic in floating point: `fillings.proves` decides.

    >>> threshold, sizes, prices = search(np.array([10.0, 9.0, 8.0, 3.0, 2.0, 2.0]), 3, 2, 11.4, 13.0)
    >>> round(threshold, 1), prices
    (12.0, [1, 2])
    """
    if slots < 2:
        return None

    ready = pricing.lonely.ready()
    crowded = pricing.crowded if ready else pricing.crowded.plain()
    lonely = pricing.lonely if ready else pricing.lonely.plain()
    few, many, slot_prices = np.array(FEW), np.array(MANY), np.array(SLOT_PRICES)

    def test(threshold: float) -> Step | None:
        """Sizes and prices that refute a threshold."""
        pieces = crowded(weights, num_gpus, slots, threshold)
        if pieces:
            return [FULL // pieces + 1], [1]
        if slots > 2:
            return None
        beside = lonely(weights, num_gpus, slots, threshold, few, many, slot_prices)
        at = beside / threshold if beside >= 0 else -1.0
        if not 0.0 <= at < 1.0:  # a threshold that is next to nothing overflows
            return None
        whole = int(at * FULL)
        return [whole + 1, FULL - whole + 1], [1, slots]

    first = lower + (upper - lower) * 1e-2
    if not lower < first < upper or (found := test(first)) is None:
        return None
    best, low, high = (first, *found), first, upper
    nearly = upper * (1 - 1e-10)  # what proves a plan optimal
    if (found := test(nearly)) is not None:
        return (nearly, *found)
    for _ in range(STEPS):
        if high - low < NEAR * high:
            break
        middle = (low + high) / 2
        found = test(middle)
        if found is None:
            high = middle
        else:
            best, low = (middle, *found), middle
    return best
