"""Offers that no purchase needs, as another one, taken once or several times, does all they do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.mesh.market import Offer

NEAR = 1 - 1e-12
"""Floats that differ by less are compared exactly."""
Kind = tuple[int, tuple[int, ...], bool, bool, object]


def undominated(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Offers without those that another one does for no more GPUs of any type, no slower.

    >>> from fractions import Fraction
    >>> one, two = Fraction(1), Fraction(2)
    >>> small, large = Offer(0, 0, (1,), (one, one), one, one), Offer(1, 0, (3,), (two, two), one, one)
    >>> [offer.place for offer in undominated([small, large])]
    [0]
    """
    most: dict[Kind, Offer] = {}
    for offer in offers:
        # of one size, phase and speed only what serves most can matter
        kind = (offer.demand, offer.gpus, *offer.serves, offer.tpot)
        known = most.get(kind)
        if known is None or (max(offer.rounded) >= max(known.rounded) and max(offer.shares) > max(known.shares)):
            most[kind] = offer
    kept: list[Offer] = []
    for demand in sorted({offer.demand for offer in most.values()}):
        kept += _of_demand([offer for offer in most.values() if offer.demand == demand])
    return tuple(sorted(kept, key=lambda one: one.place))


def _of_demand(offers: list[Offer]) -> list[Offer]:
    """One after another by size: what dominates an offer is no larger, so it is there before."""
    order = sorted(offers, key=lambda one: (one.total_gpus, -sum(one.shares), one.tpot, one.place))
    gpus = np.array([offer.gpus for offer in order], dtype=np.int64)
    shares = np.array([offer.rounded for offer in order])
    kept: list[int] = []
    for place, offer in enumerate(order):
        rows = np.array(kept, dtype=np.int64)
        able = _able(gpus[rows], shares[rows], gpus[place], shares[place]) if kept else ()
        if not any(_does(order[kept[row]], offer) for row in able):
            kept.append(place)
    return [order[place] for place in kept]


def _able(
    gpus: NDArray[np.int64], shares: NDArray[np.float64], need: NDArray[np.int64], wanted: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Rows that may dominate, as floats see it."""
    times = np.where(gpus > 0, need // np.maximum(gpus, 1), np.iinfo(np.int64).max).min(axis=1)
    enough = (times[:, None] * shares >= wanted * NEAR).all(axis=1)
    found: NDArray[np.int64] = np.flatnonzero((times > 0) & enough)
    return found


def _does(other: Offer, offer: Offer) -> bool:
    """Whether so many of `other` as fit into the GPUs of `offer` serve as much, exactly."""
    times = min(need // has for need, has in zip(offer.gpus, other.gpus, strict=True) if has)
    if other.tpot > offer.tpot:
        return False
    return all(times * has >= need for has, need in zip(other.shares, offer.shares, strict=True))
