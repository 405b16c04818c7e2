"""One configuration for each phase of each demand: what is easiest to run, and what that costs."""

from __future__ import annotations

import math
from fractions import Fraction

from moeopt.mesh.heuristics.per_price import Counts
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import Market, Offer, market_of

Pick = tuple[Fraction, int, int, int]
"""Cost, GPUs, place and replicas."""
FEW = 256
"""Values that are looked at one by one."""


def uniform(instance: MeshInstance) -> Counts | None:
    """Replicas by place; ``None`` where no such plan fits the stock."""
    market = market_of(instance).pruned
    if instance.objective != "goodput":
        counts = at_least(market, Fraction(1))
        return counts if counts is not None and within(market, counts) else None
    found: Counts | None = None
    thetas = _thetas(market)
    low, high = 0, len(thetas)  # what comes before low is possible, from high on it is not
    while low < high:
        middle = (low + high) // 2
        counts = at_least(market, thetas[middle])
        if counts is not None and within(market, counts):
            found, low = counts, middle + 1
        else:
            high = middle
    return found


def not_one_price(instance: MeshInstance) -> str | None:
    """Why it is not looked for."""
    if instance.objective == "time":
        return "it weighs replicas, not their speed; covering and exact find the fastest"
    if instance.objective == "goodput" and len(instance.gpus) > 1:
        return "with several types of GPU none of them is what all replicas cost; ask for a price"
    return None


def at_least(market: Market, theta: Fraction) -> Counts | None:
    """The cheapest replicas, one configuration a phase, that serve so much of what every demand wants."""
    counts: Counts = {}
    for demand in range(len(market.wanted)):
        mine = [offer for offer in market.offers if offer.demand == demand]
        whole = [offer for offer in mine if all(offer.rounded[phase] > 0 for phase in market.phases)]
        ways = [[_best(whole, market.phases[0], theta)]]
        alone = [offer for offer in mine if offer not in whole] if len(market.phases) > 1 else []
        if alone:
            ways.append([_best([o for o in alone if o.rounded[phase] > 0], phase, theta) for phase in market.phases])
        complete = [[pick for pick in way if pick is not None] for way in ways if None not in way]
        if not complete:
            return None
        way = min(complete, key=lambda picks: (sum(pick[0] for pick in picks), sum(pick[1] for pick in picks)))
        for _, _, place, times in way:
            counts[place] = counts.get(place, 0) + times
    return counts


def _best(offers: list[Offer], phase: int, theta: Fraction) -> Pick | None:
    picks = []
    for offer in offers:
        times = math.ceil(theta / offer.shares[phase])
        picks.append((offer.cost * times, offer.total_gpus * times, offer.place, times))
    return min(picks, default=None)


def within(market: Market, counts: Counts) -> bool:
    """Whether the stock holds them."""
    by_place = {offer.place: offer for offer in market.offers}
    for kind, most in enumerate(market.stock):
        used = sum(by_place[place].gpus[kind] * times for place, times in counts.items())
        if most is not None and used > most:
            return False
    return True


def _thetas(market: Market) -> list[Fraction]:
    """What whole replicas within the stock serve of a phase, rising, near the best: that is one of these."""
    rooms: dict[Fraction, int] = {}
    for offer in market.offers:
        sizes = [most // need for most, need in zip(market.stock, offer.gpus, strict=True) if need and most is not None]
        for share in filter(None, offer.shares):
            rooms[share] = max(rooms.get(share, 0), min(sizes, default=0))

    def between(low: Fraction, high: Fraction) -> list[tuple[Fraction, range]]:
        """Numbers of replicas that serve more than `low` and no more than `high`."""
        return [
            (share, range(math.floor(low / share) + 1, min(math.floor(high / share), room) + 1))
            for share, room in rooms.items()
        ]

    low, high = Fraction(0), max((share * room for share, room in rooms.items()), default=Fraction(0))
    while sum(len(times) for _, times in between(low, high)) > FEW:
        middle = (low + high) / 2
        counts = at_least(market, middle)
        if counts is not None and within(market, counts):
            low = middle
        else:
            high = middle
    return sorted({share * count for share, times in between(low, high) for count in times})
