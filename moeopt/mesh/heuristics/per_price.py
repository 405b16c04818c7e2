"""Most requests per price first, for whoever is furthest behind."""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Mapping
from fractions import Fraction

from moeopt.mesh.clock import look
from moeopt.mesh.market import Market, Offer

Counts = dict[int, int]
ROUNDS = 256
"""Changes of row after which a mix is repeated instead of found again."""


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


def at_once(market: Market, *, enough: bool) -> Counts | None:
    """The same of what is not dominated, found once for whoever asks: a plan to begin with, and to fall back on."""
    key = f"per_price, enough: {enough}"
    if key not in market.pruned.memo:
        market.pruned.memo[key] = per_price(market.pruned, enough=enough)
    found: Counts | None = market.pruned.memo[key]
    return None if found is None else dict(found)


def theta_of(market: Market, counts: Counts) -> Fraction:
    """Least part of what is wanted that a row gets."""
    return min(_served(market, counts).values(), default=Fraction(0))


def _served(market: Market, counts: Mapping[int, int]) -> dict[tuple[int, int], Fraction]:
    """Part of what is wanted that each row gets."""
    served = dict.fromkeys(market.rows, Fraction(0))
    for offer in market.offers:
        if offer.place in counts:
            for phase in market.phases:
                served[offer.demand, phase] += offer.shares[phase] * counts[offer.place]
    return served


def greedy(market: Market, *, enough: bool) -> Counts | None:
    """One replica after another for the row that is furthest behind, most served per cost first, within the stock.

    Where the stock lasts for more than `ROUNDS` changes of row, the mix of these is taken as often as it fits.
    """
    counts: Counter[int] = Counter()
    served = dict.fromkeys(market.rows, Fraction(0))
    left = list(market.stock)
    ranked = {row: _ranked(market, row) for row in market.rows}
    before, before_left = dict(counts), list(left)  # at the last repeat
    for rounds in itertools.count(1):
        look()
        if rounds % ROUNDS == 0 and not enough:
            again = _repeats(before_left, left)
            counts += Counter({place: (count - before.get(place, 0)) * again for place, count in counts.items()})
            served, left = _served(market, counts), _left(counts, market)
            before, before_left = dict(counts), list(left)
        row = min(served, key=lambda one: (served[one], one))
        missing = 1 - served[row]
        if enough and missing <= 0:
            break
        while ranked[row] and not _times(ranked[row][0], left):
            ranked[row].popleft()  # what does not fit never will again: the stock only shrinks
        offer = ranked[row][0] if ranked[row] else None
        if offer is None:
            if enough:
                return None
            break
        times = 1
        if not enough:
            times = _in_a_row(offer, row, served)
        else:
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


def _ranked(market: Market, row: tuple[int, int]) -> deque[Offer]:
    demand, phase = row
    mine = [offer for offer in market.offers if offer.demand == demand and offer.shares[phase] > 0]

    def worth(offer: Offer) -> tuple[bool, Fraction, int, int]:
        served = sum((offer.shares[one] for one in market.phases), Fraction(0))
        return bool(offer.cost), -served / (offer.cost or 1), offer.total_gpus, offer.place

    return deque(sorted(mine, key=worth))


def _times(offer: Offer, left: list[int | None]) -> int:
    """How often a replica fits into what is left."""
    rooms = [most // need for most, need in zip(left, offer.gpus, strict=True) if need and most is not None]
    return min(rooms, default=2**62)


def _in_a_row(offer: Offer, row: tuple[int, int], served: dict[tuple[int, int], Fraction]) -> int:
    """Replicas until another row is behind this one."""
    found = 2**62
    for other, value in served.items():
        gain = offer.shares[row[1]] - (offer.shares[other[1]] if other[0] == row[0] else 0)
        if other != row and gain > 0:
            steps = (value - served[row]) / gain
            found = min(found, math.floor(steps) + 1 if row < other else math.ceil(steps))
    return max(found, 1)


def _left(counts: Counter[int], market: Market) -> list[int | None]:
    used = [0] * len(market.stock)
    for offer in market.offers:
        if offer.place in counts:
            used = [have + counts[offer.place] * need for have, need in zip(used, offer.gpus, strict=True)]
    return [None if most is None else most - spent for most, spent in zip(market.stock, used, strict=True)]


def _repeats(before: list[int | None], left: list[int | None]) -> int:
    """How often all that was bought between these two fits into what is left."""
    pairs = [(most, have) for most, have in zip(before, left, strict=True) if most is not None and have is not None]
    return min((have // (most - have) for most, have in pairs if most > have), default=0)


def _trimmed(market: Market, counts: Counter[int], enough: bool) -> Counts:
    """Without replicas that serve nothing more, the most expensive first."""
    by_place = {offer.place: offer for offer in market.offers}
    least = Fraction(1) if enough else theta_of(market, dict(counts))
    for place in sorted(counts, key=lambda one: (-by_place[one].cost, -by_place[one].total_gpus, one)):
        low, high = 0, counts[place]  # replicas that can go, and no more than these
        while low < high:
            middle = (low + high + 1) // 2
            if theta_of(market, {**counts, place: counts[place] - middle}) < least:
                high = middle - 1
            else:
                low = middle
        counts[place] -= low
    return {place: count for place, count in sorted(counts.items()) if count}
