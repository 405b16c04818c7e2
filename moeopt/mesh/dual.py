"""Prices that prove a bound: duals of the linear relaxation, made to hold exactly over all offers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from moeopt.mesh.clock import OutOfTime, time_left
from moeopt.mesh.market import PHASES, Market, Offer

LEAST_S = 0.05
"""Seconds that the relaxation has at least: nearly all are solved in them."""
STOPPED = 1
"""Status of scipy's solver where it came to a limit."""
GRAIN = 2**44
"""Prices are whole multiples of its inverse: short fractions, and far finer than a solver's tolerance."""


@dataclass(frozen=True)
class Prices:
    """Weights of the rows of the programme.

    Parameters
    ----------
    served
        By (demand, phase): what serving all that is wanted is worth.
    gpus
        What one GPU of each type is worth beyond its cost (cost), or at all (goodput).
    value
        What they prove: a cost that no plan is below, or a `theta` that no plan is above.
    """

    served: Mapping[tuple[int, int], Fraction]
    gpus: tuple[Fraction, ...]
    value: Fraction

    def worth(self, offer: Offer) -> Fraction:
        """What one replica serves, at these prices."""
        return sum((offer.shares[phase] * price for (d, phase), price in self.served.items() if d == offer.demand), _0)

    def gpu_price(self, offer: Offer) -> Fraction:
        """What the GPUs of one replica are worth."""
        return sum((count * price for count, price in zip(offer.gpus, self.gpus, strict=True)), _0)

    def to_dict(self) -> dict[str, Any]:
        """For a certificate."""
        return {
            "served": [[d, PHASES[phase], str(price)] for (d, phase), price in sorted(self.served.items())],
            "gpus": [str(price) for price in self.gpus],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Prices:
        """Read what a certificate has."""
        served = {(int(d), PHASES.index(phase)): Fraction(price) for d, phase, price in document["served"]}
        return cls(served, tuple(Fraction(price) for price in document["gpus"]), Fraction(document["value"]))


_0 = Fraction(0)


def cost_prices(market: Market) -> Prices | None:
    """Prices that prove a least cost; ``None`` where the relaxation has no plan."""
    found = _duals(market, theta=False)
    if found is None:
        return None
    served, gpus = found
    gpus = tuple(_0 if most is None else price for price, most in zip(gpus, market.stock, strict=True))
    raw = Prices(served, gpus, _0)
    ratio = Fraction(1)
    for offer in market.pruned.offers:  # what is dominated costs no less and is worth no more
        worth, cost = raw.worth(offer), offer.cost + raw.gpu_price(offer)
        if worth > cost * ratio:
            if not cost:
                return Prices(dict.fromkeys(served, _0), tuple(_0 for _ in gpus), _0)
            ratio = worth / cost
    served = {row: price / ratio for row, price in served.items()}
    value = sum(served.values(), _0) - _stock_worth(market, gpus)
    return Prices(served, gpus, rounded_up(market.offers, max(value, _0)))


def theta_prices(market: Market) -> Prices | None:
    """Prices that prove how much the stock can serve at most; ``None`` without a whole stock."""
    if any(most is None for most in market.stock) or not market.rows:
        return None
    found = _duals(market, theta=True) if market.offers else None
    served, gpus = found or ({}, tuple(_0 for _ in market.stock))
    total = sum(served.values(), _0)
    if not total:  # an empty row: nothing can serve it, so it alone bounds theta by 0
        starved = [row for row in market.rows if not any(o.shares[row[1]] for o in market.offers if o.demand == row[0])]
        served, total = {(starved or market.rows)[0]: Fraction(1)}, Fraction(1)
    served = {row: price / total for row, price in served.items()}
    raw = Prices(served, gpus, _0)
    offers = market.pruned.offers  # what is dominated has no fewer GPUs and is worth no more
    short = max(((raw.worth(o) - raw.gpu_price(o)) / o.total_gpus for o in offers), default=_0)
    gpus = tuple(price + max(short, _0) for price in gpus)
    return Prices(served, gpus, _stock_worth(market, gpus))


def _stock_worth(market: Market, gpus: Sequence[Fraction]) -> Fraction:
    return sum((price * (most or 0) for price, most in zip(gpus, market.stock, strict=True)), _0)


def rounded_up(offers: Sequence[Offer], value: Fraction) -> Fraction:
    """The next value that whole replicas can cost: a multiple of what divides all costs."""
    costs = [offer.cost for offer in offers if offer.cost]
    if not costs:
        return value
    bottom = math.lcm(*(cost.denominator for cost in costs))
    step = Fraction(math.gcd(*(int(cost * bottom) for cost in costs)), bottom)
    return step * math.ceil(value / step)


def faults(market: Market, prices: Prices, *, theta: bool) -> list[str]:
    """What is wrong with prices as a proof of their value."""
    found = []
    if any(price < 0 for price in (*prices.served.values(), *prices.gpus)):
        found.append("a price is below 0")
    if set(prices.served) - set(market.rows):
        found.append("a price is for a row that nobody asks for")
    if any(price and most is None for price, most in zip(prices.gpus, market.stock, strict=True)):
        found.append("a type without a stock has a price")
    for offer in market.offers:
        most = prices.gpu_price(offer) + (0 if theta else offer.cost)
        if prices.worth(offer) > most:
            found.append(f"configuration {offer.place} serves what is worth more than its cost at these prices")
            break
    worth, total = _stock_worth(market, prices.gpus), sum(prices.served.values(), _0)
    if theta:
        if total != 1:
            found.append(f"prices of what is served add up to {float(total)}, not 1")
        if prices.value < worth:
            found.append(f"they prove {float(worth)}, not {float(prices.value)}")
    elif prices.value > rounded_up(market.offers, max(total - worth, _0)):
        found.append(f"they prove {float(total - worth)}, not {float(prices.value)}")
    return found


def _duals(market: Market, *, theta: bool) -> tuple[dict[tuple[int, int], Fraction], tuple[Fraction, ...]] | None:
    """Duals of the relaxation over offers that are not dominated, as floats say them."""
    if len(market.stock) == 1 or (not theta and not any(most is not None for most in market.stock)):
        return _closed(market, theta=theta)
    clock = time_left()
    if not clock.allows_import("scipy.optimize"):
        raise OutOfTime
    import numpy as np
    from scipy.optimize import linprog

    offers, rows = market.pruned.offers, market.rows
    kinds = [kind for kind, most in enumerate(market.stock) if most is not None]
    width = len(offers) + theta
    matrix = np.zeros((len(rows) + len(kinds), width))
    limit = np.zeros(len(rows) + len(kinds))
    goal = np.zeros(width)
    unit = max((float(offer.cost) for offer in offers), default=1.0) or 1.0
    for place, (demand, phase) in enumerate(rows):
        for column, offer in enumerate(offers):
            if offer.demand == demand:
                matrix[place, column] = -float(offer.shares[phase])
        if theta:
            matrix[place, -1] = 1.0
        else:
            limit[place] = -1.0
    for place, kind in enumerate(kinds, start=len(rows)):
        matrix[place, : len(offers)] = [offer.gpus[kind] for offer in offers]
        limit[place] = market.stock[kind]
    if theta:
        goal[-1] = -1.0
    else:
        goal[:] = [float(offer.cost) / unit for offer in offers]
    options = {"time_limit": max(clock.remaining_s(), LEAST_S)} if clock.limited else {}
    answer = linprog(goal, A_ub=matrix, b_ub=limit, method="highs", options=options)
    if answer.status == STOPPED:
        raise OutOfTime
    if answer.status != 0:
        return None
    weights = np.maximum(-answer.ineqlin.marginals, 0.0)
    scale = 1.0 if theta else unit
    served = {row: _short(weights[place] * scale) for place, row in enumerate(rows)}
    gpus = [_0] * len(market.stock)
    for place, kind in enumerate(kinds, start=len(rows)):
        gpus[kind] = _short(weights[place] * scale)
    return served, tuple(gpus)


def _closed(market: Market, *, theta: bool) -> tuple[dict[tuple[int, int], Fraction], tuple[Fraction, ...]] | None:
    """The duals where one thing is scarce, money or one type of GPU: each phase costs what its best offer asks.

    Where whole requests are cheaper than both phases, prices of phases are lowered alike until they are not.
    """
    served: dict[tuple[int, int], Fraction] = {}
    for demand in range(len(market.wanted)):
        best: dict[int, Fraction] = {}
        whole: list[Fraction] = []
        for offer in market.pruned.offers:
            if offer.demand != demand:
                continue
            cost = Fraction(offer.gpus[0]) if theta else offer.cost
            if all(offer.shares[phase] for phase in market.phases):
                whole.append(cost / min(offer.shares[phase] for phase in market.phases))
                continue
            for phase in market.phases:
                if offer.shares[phase]:
                    price = cost / offer.shares[phase]
                    best[phase] = min(best.get(phase, price), price)
        if len(best) < len(market.phases) and not whole:
            return None
        total = sum(best.values(), _0)
        if whole and len(best) < len(market.phases):  # one phase has no pool: the other one is worth at most its pool
            missing = next(phase for phase in market.phases if phase not in best)
            known = sum((min(price, min(whole)) for price in best.values()), _0)
            best = {phase: min(price, min(whole)) for phase, price in best.items()}
            best[missing] = min(whole) - known
        elif whole and total > min(whole):
            best = {phase: price * min(whole) / total for phase, price in best.items()}
        served |= {(demand, phase): price for phase, price in best.items()}
    if not theta:
        return served, tuple(_0 for _ in market.stock)
    scale = sum(served.values(), _0)
    if not scale:
        return None
    return {row: price / scale for row, price in served.items()}, (1 / scale,)


def _short(value: float) -> Fraction:
    """A fraction of few digits near a float."""
    size = 2 ** math.ceil(math.log2(value)) if value > 0 else 1
    return Fraction(round(value / size * GRAIN), GRAIN) * Fraction(size)
