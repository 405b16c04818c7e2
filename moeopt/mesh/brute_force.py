"""Every purchase, one after another: slow, short, and nothing in it is clever; what others are held against."""

from __future__ import annotations

import math
from fractions import Fraction

from moeopt.mesh.covering import Counts
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import Market, Offer, market_of

MOST_PLANS = 100_000
"""Purchases that are tried at most."""
Value = tuple[Fraction, int]
"""What is minimised, and GPUs."""


def too_many(instance: MeshInstance) -> str | None:
    """Why it is not tried."""
    market = market_of(instance)
    plans = 1
    for offer in market.offers:
        most = _most(instance, market, offer)
        if most is None:
            return "neither a rate nor a stock limits the replicas"
        plans *= most + 1
        if plans > MOST_PLANS:
            return f"there are more than {MOST_PLANS:,} purchases to try; exact needs not try them"
    return None


def brute_force(instance: MeshInstance) -> Counts | None:
    """Replicas of the best purchase by trying all, of equals one with the fewest GPUs; ``None`` where none serves."""
    market = market_of(instance)
    limits = [_most(instance, market, offer) or 0 for offer in market.offers]
    rows = market.rows
    best: tuple[Value, Counts] | None = None

    def go(place: int, counts: list[int], left: list[int | None], served: list[Fraction]) -> None:
        nonlocal best
        if place == len(limits):
            value = _value(instance, market, counts, served)
            if value is not None and (best is None or value < best[0]):
                taken = zip(market.offers, counts, strict=True)
                best = value, {offer.place: count for offer, count in taken if count}
            return
        offer = market.offers[place]
        for count in range(limits[place] + 1):
            rest = [None if have is None else have - count * need for have, need in zip(left, offer.gpus, strict=True)]
            if any(have is not None and have < 0 for have in rest):
                break
            more = [
                have + count * offer.shares[phase] if demand == offer.demand else have
                for (demand, phase), have in zip(rows, served, strict=True)
            ]
            go(place + 1, [*counts, count], rest, more)

    go(0, [], list(market.stock), [Fraction(0)] * len(rows))
    return None if best is None else best[1]


def _value(instance: MeshInstance, market: Market, counts: list[int], served: list[Fraction]) -> Value | None:
    theta = min(served)
    if not theta or (instance.objective != "goodput" and theta < 1):
        return None
    taken = [(offer, count) for offer, count in zip(market.offers, counts, strict=True) if count]
    gpus = sum(offer.total_gpus * count for offer, count in taken)
    if instance.objective == "goodput":
        return 1 / theta, gpus
    if instance.objective == "time":
        return max(offer.tpot for offer, _ in taken), gpus
    return sum((offer.cost * count for offer, count in taken), Fraction(0)), gpus


def _most(instance: MeshInstance, market: Market, offer: Offer) -> int | None:
    """Replicas that can be of use: what serves all by itself, and what the stock holds; ``None``: no limit."""
    limits = [have // need for have, need in zip(market.stock, offer.gpus, strict=True) if have is not None and need]
    if instance.objective != "goodput":
        limits.append(max(math.ceil(1 / offer.shares[phase]) for phase in market.phases if offer.shares[phase]))
    return min(limits, default=None)
