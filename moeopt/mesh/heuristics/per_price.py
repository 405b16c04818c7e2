"""Most requests per price first, for whoever is furthest behind."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from moeopt.mesh.market import Market, Offer

Counts = dict[int, int]


def per_price(market: Market, *, enough: bool) -> Counts | None:
    """Replicas by place: pools, colocated and both are tried; ``None`` where none of them gets there.

    `enough`: stop once all that is wanted is served; else go on while the stock allows.
    """
    single = len(market.phases) == 1
    whole = [offer for offer in market.offers if single or all(offer.shares)]
    pools = [offer for offer in market.offers if not all(offer.shares)]
    tries = [greedy(market.among(offers), enough=enough) for offers in (market.offers, whole, pools) if offers]
    found = [counts for counts in tries if counts is not None]
    if not found:
        return None
    by_place = {offer.place: offer for offer in market.offers}

    def worth(counts: Counts) -> tuple[Fraction, int]:
        gpus = sum(by_place[place].total_gpus * count for place, count in counts.items())
        if not enough:
            return -theta_of(market, counts), gpus
        return sum((by_place[place].cost * count for place, count in counts.items()), Fraction(0)), gpus

    return min(found, key=worth)


def theta_of(market: Market, counts: Counts) -> Fraction:
    """Least part of what is wanted that a row gets."""
    served = dict.fromkeys(market.rows, Fraction(0))
    for offer in market.offers:
        if offer.place in counts:
            for phase in market.phases:
                served[offer.demand, phase] += offer.shares[phase] * counts[offer.place]
    return min(served.values(), default=Fraction(0))


def greedy(market: Market, *, enough: bool) -> Counts | None:
    """One replica after another for the row that is furthest behind, most served per cost first, within the stock."""
    counts: Counter[int] = Counter()
    served = dict.fromkeys(market.rows, Fraction(0))
    left = list(market.stock)
    ranked = {row: _ranked(market, row) for row in market.rows}
    while True:
        row = min(served, key=lambda one: (served[one], one))
        missing = 1 - served[row]
        if enough and missing <= 0:
            break
        fitting = (offer for offer in ranked[row] if _times(offer, left) > 0)
        offer = next(fitting, None)
        if offer is None:
            if enough:
                return None
            break
        times = 1
        if enough:
            times = max(math.floor(missing / offer.shares[row[1]]), 1)
            if offer.shares[row[1]] >= missing:  # the last replica: the cheapest that is enough
                last = [one for one in ranked[row] if one.shares[row[1]] >= missing and _times(one, left) > 0]
                offer = min(last, key=lambda one: (one.cost, one.total_gpus, one.place))
        times = min(times, _times(offer, left))
        counts[offer.place] += times
        for phase in market.phases:
            served[offer.demand, phase] += offer.shares[phase] * times
        left = [None if most is None else most - times * need for most, need in zip(left, offer.gpus, strict=True)]
    if not min(served.values()):
        return None
    return _trimmed(market, counts, enough)


def _ranked(market: Market, row: tuple[int, int]) -> list[Offer]:
    demand, phase = row
    mine = [offer for offer in market.offers if offer.demand == demand and offer.shares[phase] > 0]

    def worth(offer: Offer) -> tuple[bool, Fraction, int, int]:
        served = sum((offer.shares[one] for one in market.phases), Fraction(0))
        return bool(offer.cost), -served / (offer.cost or 1), offer.total_gpus, offer.place

    return sorted(mine, key=worth)


def _times(offer: Offer, left: list[int | None]) -> int:
    """How often a replica fits into what is left."""
    rooms = [most // need for most, need in zip(left, offer.gpus, strict=True) if need and most is not None]
    return min(rooms, default=2**62)


def _trimmed(market: Market, counts: Counter[int], enough: bool) -> Counts:
    """Without replicas that serve nothing more, the most expensive first."""
    by_place = {offer.place: offer for offer in market.offers}
    least = Fraction(1) if enough else theta_of(market, dict(counts))
    for place in sorted(counts, key=lambda one: (-by_place[one].cost, -by_place[one].total_gpus, one)):
        while counts[place] > 0:
            counts[place] -= 1
            if theta_of(market, dict(counts)) < least:
                counts[place] += 1
                break
    return {place: count for place, count in sorted(counts.items()) if count}
