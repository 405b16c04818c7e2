"""The multiple-choice knapsack: one option from every list, the least total cost within a weight limit; exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Number = int | float | Fraction


def choose(costs: Sequence[Sequence[Number]], weights: Sequence[Sequence[int]], limit: int) -> list[int] | None:
    """One option of every list.

    Parameters
    ----------
    costs, weights
        For every list its options: finite costs, taken as the exact fractions they are, and whole weights >= 0.
    limit
        The most the weights of the chosen options may sum to.

    Returns
    -------
    list or None
        The place of the chosen option in every list, least total cost, then least total weight, then lower places in
        the later lists; ``None`` where even the lightest options weigh too much.

    Notes
    -----
    Dynamic programming over the frontier of (weight, cost) pairs that no other pair beats in both: exact, with at most
    `limit` / gcd(weights) pairs a list (K. Dudzinski and S. Walukiewicz, European J. of OR 28, 1987).

    >>> choose([[9, 4], [5, 3]], [[1, 2], [1, 2]], 3)
    [1, 0]
    >>> choose([[9]], [[4]], 3) is None
    True
    """
    whole = _whole(costs)
    kind = _kind(whole)
    options = [
        _frontier(np.array(own, dtype=kind), np.array(weighs, dtype=np.int64))
        for own, weighs in zip(whole, weights, strict=True)
    ]
    lightest = [int(min(w)) for w in weights]
    after = [sum(lightest[place + 1 :]) for place in range(len(lightest))]
    cost, weight = np.zeros(1, dtype=kind), np.zeros(1, dtype=np.int64)
    trail: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # per list, option and predecessor of every pair
    for (own, places), weighs, rest in zip(options, weights, after, strict=True):
        mine = np.array(weighs, dtype=np.int64)[places]
        all_weight = (weight[:, None] + mine[None, :]).ravel()
        all_cost = (cost[:, None] + own[None, :]).ravel()
        fits = np.flatnonzero(all_weight <= limit - rest)
        if not len(fits):
            return None
        _, kept = _frontier(all_cost[fits], all_weight[fits])
        kept = fits[kept]
        cost, weight = all_cost[kept], all_weight[kept]
        trail.append((places[kept % len(places)], kept // len(places)))
    at = len(cost) - 1  # the frontier falls in cost: the last pair is the cheapest
    chosen = []
    for places, before in reversed(trail):
        chosen.append(int(places[at]))
        at = int(before[at])
    return chosen[::-1]


def _frontier(cost: NDArray[Any], weight: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Costs and places of the pairs that no other beats, by rising weight and strictly falling cost."""
    if cost.dtype == object:
        order = np.array(sorted(range(len(cost)), key=lambda at: (weight[at], cost[at], at)))
    else:
        order = np.lexsort((cost, weight))
    ordered = cost[order]
    least = np.minimum.accumulate(ordered)
    kept = np.ones(len(order), dtype=bool)
    kept[1:] = ordered[1:] < least[:-1]
    return ordered[kept], order[kept]


def _whole(costs: Sequence[Sequence[Number]]) -> list[list[int]]:
    """All costs as whole multiples of one unit, which leaves their order and sums as they are."""
    exact = [[Fraction(value) for value in row] for row in costs]
    unit = math.lcm(1, *(value.denominator for row in exact for value in row))
    return [[int(value * unit) for value in row] for row in exact]


def _kind(rows: Sequence[Sequence[int]]) -> Any:
    """int64 where the largest sum is sure to fit, else Python's own integers."""
    largest = sum(max((abs(value) for value in row), default=0) for row in rows)
    return np.int64 if largest < 2**62 else object
