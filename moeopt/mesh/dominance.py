"""Offers that no purchase needs, as another one, taken once or several times, does all they do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.mesh.clock import look
from moeopt.mesh.market import Offer

NEAR = 1 - 1e-12
"""Floats that differ by less are compared exactly."""
BLOCK = 256
"""Offers that are looked at together."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Kind = tuple[int, tuple[int, ...], bool, bool, int, int]


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
        kind = (offer.demand, offer.gpus, *offer.serves, offer.tpot.numerator, offer.tpot.denominator)
        known = most.get(kind)
        if known is None or _more(offer, known):
            most[kind] = offer
    kept: list[Offer] = []
    for demand in sorted({offer.demand for offer in most.values()}):
        kept += _of_demand([offer for offer in most.values() if offer.demand == demand])
    return tuple(sorted(kept, key=lambda one: one.place))


def _more(offer: Offer, known: Offer) -> bool:
    """Whether it serves more, exactly only where floats do not tell."""
    ours, theirs = max(offer.rounded), max(known.rounded)
    return ours > theirs or (ours == theirs and max(offer.shares) > max(known.shares))


class _Exactly:
    """An offer among those whose shares add up to the same float: what serves more comes first."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer

    def __lt__(self, other: _Exactly) -> bool:
        one, two = self.offer, other.offer
        return (-sum(one.shares), one.tpot, one.place) < (-sum(two.shares), two.tpot, two.place)


def _of_demand(offers: list[Offer]) -> list[Offer]:
    """In order of size: what dominates an offer is no larger, so it comes before.

    Dominance is transitive, so that nobody has to know whether what dominates is kept itself.
    """
    order = sorted(offers, key=lambda one: (one.total_gpus, -sum(one.rounded), float(one.tpot), _Exactly(one)))
    gpus = np.array([offer.gpus for offer in order], dtype=np.int64)
    shares = np.array([offer.rounded for offer in order])
    taus = np.array([float(offer.tpot) for offer in order])
    kept: list[int] = []
    for start in range(0, len(order), BLOCK):
        look()
        block = np.arange(start, min(start + BLOCK, len(order)))
        rows = np.concatenate([np.array(kept, dtype=np.int64), block])
        clear, close = _able(gpus[rows], shares[rows], taus[rows], gpus[block], shares[block], taus[block])
        before = rows[:, None] < block
        left = np.flatnonzero(~(clear & before).any(axis=0))
        for column in left.tolist():
            able = rows[np.flatnonzero(close[:, column] & before[:, column])].tolist()
            if not any(_does(order[row], order[start + column]) for row in able):
                kept.append(start + column)
    return [order[place] for place in kept]


def _able(
    gpus: Ints, shares: Floats, taus: Floats, need: Ints, wanted: Floats, limit: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which of the first dominate which of the second, for certain, and as far as floats see: (first, second)."""
    times = np.full((len(gpus), len(need)), np.iinfo(np.int64).max)
    for kind in range(gpus.shape[1]):
        have = gpus[:, kind, None]
        np.minimum(times, np.where(have > 0, need[:, kind] // np.maximum(have, 1), times), out=times)
    clear, close = (times > 0) & (taus[:, None] <= limit * NEAR), (times > 0) & (taus[:, None] * NEAR <= limit)
    if not taus.any():
        clear = close.copy()
    for phase in range(shares.shape[1]):
        served = times * shares[:, phase, None]
        close &= served >= wanted[:, phase] * NEAR
        clear &= served * NEAR >= wanted[:, phase]
    return clear, close


def _does(other: Offer, offer: Offer) -> bool:
    """Whether so many of `other` as fit into the GPUs of `offer` serve as much, exactly."""
    times = min(need // has for need, has in zip(offer.gpus, other.gpus, strict=True) if has)
    if other.tpot > offer.tpot:
        return False
    return all(times * has >= need for has, need in zip(other.shares, offer.shares, strict=True))
