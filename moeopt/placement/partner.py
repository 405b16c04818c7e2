"""Two simple prices of pieces that refute a threshold T; `fillings.proves` has the last word.

*Crowd*: a GPU holds at most k - 1 pieces larger than T/k. Price 1 for those, so that they may be (k - 1) G at most;
spare slots make them fewest where a piece's replicas all come under T/k for the fewest further slots.
*Partner*, two slots: a GPU with a piece larger than T - x has only one of at most x beside it, for any x < T/2. Price 2
for pieces larger than T - x, 1 for those between, 0 up to x, so that a GPU holds 2 at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moeopt.placement.fillings import FULL

Floats = NDArray[np.float64]

FEW = (0, 1, 2)
MANY = (0, 1, 2, 3, 4, 6, 9)
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

    def test(threshold: float) -> Step | None:
        return _crowd(weights, num_gpus, slots, threshold) or (
            _partner(weights, num_gpus, threshold) if slots == 2 else None
        )

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


def _crowd(weights: Floats, num_gpus: int, slots: int, threshold: float) -> Step | None:
    """A k that refutes the threshold."""
    least = np.maximum(np.ceil(weights / threshold * (1 - 1e-12)), 1.0)
    spare = num_gpus * slots - float(least.sum())
    for pieces in range(2, slots + 1):
        large = weights / least * pieces > threshold * (1 + 1e-9)
        many = least[large]
        further = np.ceil(weights[large] * pieces / threshold * (1 - 1e-9)) - many
        order = np.argsort(further / many, kind="stable")  # a fractional knapsack saves at least as many
        room = np.clip(spare - np.cumsum(further[order]) + further[order], 0.0, further[order])
        left = many.sum() - (many[order] * room / further[order]).sum()
        if spare < 0 or left > num_gpus * (pieces - 1) + 1e-6:
            return [FULL // pieces + 1], [1]
    return None


def _partner(weights: Floats, num_gpus: int, threshold: float) -> Step | None:
    """An x that refutes the threshold."""
    slots = 2
    least = np.maximum(np.ceil(weights / threshold * (1 - 1e-12)), 1.0)
    spare = num_gpus * slots - float(least.sum())
    if spare < 0:
        return [FULL // 2], [1]
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
            at = int((place[found] + place[found + 1]) / 2 / threshold * FULL)
            return [at + 1, FULL - at + 1], [1, slots]
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
