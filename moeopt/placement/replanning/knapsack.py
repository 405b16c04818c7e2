"""The whole plan's budget over layers: from every layer's frontier one point, exactly the best choice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

EPSILON = 1e-12
"""Relative difference of values below which fewer moves win."""


def choose(moves: Sequence[NDArray[np.int64]], values: Sequence[NDArray[np.float64]], budget: int) -> list[int] | None:
    """Places of the points, one a layer, of least total value with at most `budget` moves; ``None`` if none fits.

    Parameters
    ----------
    moves, values
        Per layer the moves of its points, rising, and their values.
    budget
        Moves of all layers together.

    Notes
    -----
    Multiple-choice knapsack by dynamic programming over the moves beyond each layer's least, ``O(B * points)`` array
    elements; before that, points whose reduced cost at the best price of a move exceeds the gap between the price's
    lower bound and a plan at hand are left out, as no better choice has them. Exact for the floats given, up to
    1e-12 relative; among equal totals fewer moves win.

    >>> points = [np.array([0, 1, 3])] * 2
    >>> choose(points, [np.array([9.0, 5.0, 1.0]), np.array([9.0, 8.0, 2.0])], 4)
    [1, 2]
    """
    least = [int(row.min()) for row in moves]
    room = budget - sum(least)
    if room < 0:
        return None
    extra = [row - low for row, low in zip(moves, least, strict=True)]
    room = min(room, sum(int(row.max()) for row in extra))
    kept = _promising(extra, values, room)
    slack = EPSILON * max(1e-300, float(sum(abs(row).max() for row in values)))
    best = np.zeros(room + 1)
    picks: list[NDArray[np.int32]] = []
    for row, worth, keep in zip(extra, values, kept, strict=True):
        total = np.full(room + 1, np.inf)
        pick = np.zeros(room + 1, dtype=np.int32)
        for point in np.flatnonzero(keep & (row <= room)).tolist():
            shift = int(row[point])
            trial = best[: room + 1 - shift] + worth[point]
            better = trial < total[shift:] - slack
            total[shift:][better] = trial[better]
            pick[shift:][better] = point
        best = total
        picks.append(pick)
    left = int(np.flatnonzero(best <= best.min() + slack)[0])
    chosen: list[int] = []
    for row, choices in zip(reversed(extra), reversed(picks), strict=True):
        place = int(choices[left])
        chosen.append(place)
        left -= int(row[place])
    return chosen[::-1]


def _promising(
    extra: Sequence[NDArray[np.int64]], values: Sequence[NDArray[np.float64]], room: int
) -> list[NDArray[np.bool_]]:
    """Per layer which points the best choice may have, by the price of a move that bounds the total best."""
    width = max(len(row) for row in extra)
    used = np.zeros((len(extra), width), dtype=np.int64)
    worth = np.full((len(extra), width), np.inf)
    for at, (row, value) in enumerate(zip(extra, values, strict=True)):
        used[at, : len(row)], worth[at, : len(row)] = row, value
    layers = np.arange(len(extra))
    low, high = 0.0, max(2.0 * max(float(row.max() - row.min()) for row in values), 1e-300)
    bound, limit, price, trial = -np.inf, np.inf, 0.0, 0.0
    for _ in range(64):
        picks = np.argmin(worth + trial * used, axis=1)
        spent = int(used[layers, picks].sum())
        total = float(worth[layers, picks].sum())
        if total + trial * (spent - room) > bound:
            bound, price = total + trial * (spent - room), trial
        if spent <= room:
            limit, high = min(limit, total), trial
        else:
            low = trial
        if high - low <= 1e-12 * high:
            break
        trial = (low + high) / 2
    gap = limit - bound + 1e-9 * max(abs(limit), abs(bound), 1e-300) if limit < np.inf else np.inf
    priced = worth + price * used
    kept = priced <= priced.min(axis=1, keepdims=True) + gap
    return [kept[at, : len(row)] for at, row in enumerate(extra)]
