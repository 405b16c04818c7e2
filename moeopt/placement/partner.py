"""The partner bound: a GPU with a piece larger than T - x has only pieces of at most x beside it, for any x < T/2.

As prices: s for pieces larger than T - x, 1 for those between, 0 up to x. No GPU of s slots then holds more than s, so
T is refuted when all pieces come to more than G s over all counts. What a further replica may save is bounded with a
price on the spare slots; `fillings.proves` has the last word.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.fillings import FULL

Floats = NDArray[np.float64]

FEW = (0, 1, 2, 3)
MANY = (0, 1, 2, 3, 4, 6, 9, 14, 24)
"""Further replicas that are looked at: of an expert that one GPU can hold, and of the others. In between, the lower
number is paid for and the larger one makes the pieces small; beyond the last, pieces cost nothing."""
SLOT_PRICES = (1.0, 1.5, 0.5, 2.0)
"""Prices of a spare slot that are tried."""
STEPS = 10
"""Halvings of the interval."""


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
    first = lower + (upper - lower) * 1e-3
    if not lower < first < upper or _best(weights, num_gpus, slots, first) is None:
        return None
    nearly = upper * (1 - 1e-10)  # what proves a plan optimal
    cut = _best(weights, num_gpus, slots, nearly)
    best = None if cut is None else (nearly, cut)
    low, high = first, upper
    for _ in range(STEPS if best is None else 0):
        middle = (low + high) / 2
        cut = _best(weights, num_gpus, slots, middle)
        if cut is None:
            high = middle
        else:
            best, low = (middle, cut), middle
    if best is None:
        return None
    threshold, cut = best
    at = int(cut / threshold * FULL)
    return threshold, [at + 1, FULL - at + 1], [1, slots]


def _best(weights: Floats, num_gpus: int, slots: int, threshold: float) -> float | None:
    """An x that refutes the threshold."""
    least = np.maximum(np.ceil(weights / threshold * (1 - 1e-12)), 1.0)
    spare = num_gpus * slots - float(least.sum())
    if spare < 0:
        return threshold / 4
    groups = [
        _Steps(weights[mine], least[mine], more, slots, threshold)
        for mine, more in ((least == 1, FEW), (least > 1, MANY))
        if mine.any()
    ]
    everywhere = np.concatenate([group.at.ravel() for group in groups])
    line = np.argsort(everywhere, kind="stable")
    place = everywhere[line]
    last = int(np.searchsorted(place, threshold / 2 * (1 - 1e-9)))
    if last < 2:
        return None
    between = (place[1:last] - place[: last - 1]) > 1e-9 * threshold  # an x strictly between two places
    for slot_price in SLOT_PRICES:
        starts, changes = zip(*(group.changes(slot_price) for group in groups), strict=True)
        total = sum(starts) + np.cumsum(np.concatenate(changes)[line])[: last - 1] - slot_price * spare
        total[~between] = 0.0
        found = int(total.argmax())
        if total[found] > num_gpus * slots * (1 + 1e-12) + 1e-9:
            return float(place[found] + place[found + 1]) / 2
    return None


class _Steps:
    """What some experts cost as x grows: steps at the places ``at`` (n, options), sorted."""

    def __init__(self, weights: Floats, least: Floats, more: tuple[int, ...], slots: int, threshold: float) -> None:
        self.more = np.array(more, dtype=np.float64)
        self.least = least
        smallest = least[:, None] + np.append(self.more[1:] - 1, self.more[-1])[None, :]
        size = weights[:, None] / smallest
        big = size > threshold / 2
        place = np.where(big, threshold - size, size)  # where the price changes, from 1 to s or to 0
        self.at = np.sort(place, axis=1)
        passed = place[:, None, :] <= self.at[:, :, None]  # which have changed once x is past each of these places
        price = np.where(passed, np.where(big, float(slots), 0.0)[:, None, :], 1.0)
        self.cost = price * (least[:, None] + self.more)[:, None, :]

    def changes(self, slot_price: float) -> tuple[float, Floats]:
        """What all cost together before the first place, and by how much that changes at each one."""
        beyond = slot_price * (self.more[-1] + 1)
        value = np.minimum((self.cost + slot_price * self.more).min(axis=2), beyond)
        start = np.minimum(self.least, beyond)  # at x = 0 every price is 1
        return float(start.sum()), np.diff(value, axis=1, prepend=start[:, None]).ravel()
