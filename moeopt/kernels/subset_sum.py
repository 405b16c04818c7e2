"""Some of many whole numbers with exactly a given sum: a set near it, mended by exchanging up to two for two."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FEW = 22
"""Up to so many numbers, all subsets are looked at: the two halves' sums against each other."""
ROUNDS = 16
"""Sets tried before a target counts as missed."""
SHOWN = 160
"""Numbers outside that take part in exchanges of pairs."""


def subset(values: Ints, target: int, sizes: tuple[int, int], seed: int = 0) -> list[int] | None:
    """Places of some numbers that sum to `target`, the first number among them.

    Parameters
    ----------
    values
        (n,) whole numbers > 0, falling; twice their sum must fit 64 bits.
    sizes
        Least and most numbers to take.
    seed
        Which sets are tried first where there are too many for all.

    Returns
    -------
    list or None
        Rising places; ``None``: none was found, which proves that there is none only for n <= `FEW`.

    >>> subset(np.array([7, 5, 4, 3, 1]), 12, (1, 5))
    [0, 1]
    >>> subset(np.array([7, 5, 4, 3, 1]), 12, (3, 5))
    [0, 2, 4]
    """
    low, high = max(sizes[0], 1), min(sizes[1], len(values))
    if low > high or target < int(values[0]) or target > int(values.sum()):
        return None
    if len(values) <= FEW:
        return _of_few(values, target, low, high)
    rng = np.random.default_rng(seed)
    mean = max(round(target * len(values) / max(int(values.sum()), 1)), 1)
    for attempt in range(ROUNDS):
        size = int(np.clip(mean + (attempt + 1) // 2 * (-1) ** attempt % 3, low, high))
        inside = _near(values, target, size, rng, attempt)
        found = _mended(values, inside, target - int(values[inside].sum()), low, high, rng)
        if found is not None:
            return sorted(found)
    return None


def _of_few(values: Ints, target: int, low: int, high: int) -> list[int] | None:
    """Every subset: those of the first half sorted by sum, searched for what those of the second half lack."""
    rest = values[1:]
    half = len(rest) // 2
    left, left_size = _sums(rest[:half])
    right, right_size = _sums(rest[half:])
    order = np.argsort(left, kind="stable")
    ordered = left[order]
    wanted = target - int(values[0]) - right
    first, last = np.searchsorted(ordered, wanted), np.searchsorted(ordered, wanted, side="right")
    for mask in np.flatnonzero(last > first).tolist():
        for other in order[first[mask] : last[mask]].tolist():
            if low <= 1 + left_size[other] + right_size[mask] <= high:
                picked = [1 + bit for bit in range(half) if other >> bit & 1]
                return [0, *picked, *(1 + half + bit for bit in range(len(rest) - half) if mask >> bit & 1)]
    return None


def _sums(values: Ints) -> tuple[Ints, Ints]:
    """Sums and sizes of all subsets, the subset as bits."""
    sums, sizes = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for value in values.tolist():
        sums, sizes = np.concatenate([sums, sums + value]), np.concatenate([sizes, sizes + 1])
    return sums, sizes


def _near(values: Ints, target: int, size: int, rng: np.random.Generator, attempt: int) -> Ints:
    """The first number, and others each near the mean of what is left; shaken from the second attempt on."""
    picked = [0]
    left = target - int(values[0])
    free = np.ones(len(values), dtype=bool)
    free[0] = False
    for more in range(size - 1, 0, -1):
        off = np.abs(values - left / more)
        if attempt:
            off = off + rng.random(len(values)) * max(abs(left) / more, 1.0)
        off[~free] = np.inf
        place = int(np.argmin(off))
        picked.append(place)
        free[place] = False
        left -= int(values[place])
    return np.array(picked)


def _mended(values: Ints, inside: Ints, lack: int, low: int, high: int, rng: np.random.Generator) -> list[int] | None:
    """Exchange up to two numbers for up to two so that the sum grows by `lack`; the first number stays."""
    if lack == 0:
        return [int(place) for place in inside]
    mine = inside[1:]
    others = np.setdiff1d(np.arange(len(values)), inside)
    if len(others) > SHOWN:
        others = rng.choice(others, SHOWN, replace=False)
    if len(mine) > SHOWN:
        mine = rng.choice(mine, SHOWN, replace=False)
    outs = [_picks(values, mine, count) for count in range(3)]
    ins = [_picks(values, others, count) for count in range(3)]
    for many in ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2), (0, 2), (2, 0)):
        size = len(inside) - many[0] + many[1]
        if not low <= size <= high:
            continue
        (given, given_at), (taken, taken_at) = outs[many[0]], ins[many[1]]
        if not len(given) or not len(taken):
            continue
        order = np.argsort(taken, kind="stable")
        ordered = taken[order]
        place = np.searchsorted(ordered, given + lack)
        hit = np.flatnonzero(ordered[np.minimum(place, len(ordered) - 1)] == given + lack)
        if len(hit):
            gone = set(given_at[hit[0]].tolist())
            come = taken_at[order[place[hit[0]]]].tolist()
            return [int(at) for at in inside if int(at) not in gone] + [int(at) for at in come]
    return None


def _picks(values: Ints, places: Ints, count: int) -> tuple[Ints, Ints]:
    """Sums and places of every choice of `count` numbers out of `places`."""
    if count == 0:
        return np.zeros(1, dtype=np.int64), np.zeros((1, 0), dtype=np.int64)
    if count == 1:
        return values[places], places[:, None]
    first, second = np.triu_indices(len(places), 1)
    return values[places[first]] + values[places[second]], np.stack([places[first], places[second]], axis=1)
