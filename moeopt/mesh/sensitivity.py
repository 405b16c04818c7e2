"""How the answer would change: with other families, with more GPUs, with other rates."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from moeopt.mesh import bounds, covering
from moeopt.mesh.covering import Covering
from moeopt.mesh.given import SERVES
from moeopt.mesh.heuristics.per_price import per_price, theta_of
from moeopt.mesh.heuristics.uniform import not_one_price, uniform
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import Market, configs_of, is_partial, market_of
from moeopt.mesh.plan import plan_of
from moeopt.mesh.purchase import known_cost
from moeopt.mesh.ranking import shadow_prices
from moeopt.mesh.verify import Evaluation, evaluate, wanted_rate

WAYS = {
    "colocated": ("colocated",),
    "pools": ("prefill", "decode"),
    "apart": ("prefill", "apart"),
    "long": ("prefill", "long"),
}
"""Families that serve together, by what people call it."""
NO_SENSITIVITY: dict[str, Any] = {"gpu_worth": None, "curve": None, "next_gpus": None, "at_rates": None}
FACTORS = (Fraction(1, 2), Fraction(9, 10), Fraction(11, 10), Fraction(2))
MOST_POINTS = 100


def families(instance: MeshInstance, judged: Evaluation) -> dict[str, Any]:
    """The best objective with each way of serving alone, and ``best``: what is answered, mixtures included.

    ``exact`` says whether that is the optimum for it; else it is the baseline's.
    """
    if "families" not in instance.memo:
        instance.memo["families"] = {} if is_partial(instance) else _alone(instance)
    return no_families(judged) | {"alone": dict(instance.memo["families"])}


def no_families(judged: Evaluation) -> dict[str, Any]:
    """The same where no way of serving was looked at alone."""
    used = sorted({pool.config.family for pool in judged.pools})
    return {"used": used, "alone": {}, "best": float(judged.objective)}


def simplest(instance: MeshInstance) -> dict[str, Any] | None:
    """The best plan with one configuration for each phase of each demand; ``None`` where there is none."""
    if "simplest" not in instance.memo:
        counts = None if not_one_price(instance) is not None or is_partial(instance) else uniform(instance)
        found = None
        if counts is not None:
            judged = evaluate(instance, plan_of(instance, counts))
            pools = [[pool.config.label, pool.replicas] for pool in judged.pools]
            found = {"objective": float(judged.objective), "pools": pools}
        instance.memo["simplest"] = found
    known: dict[str, Any] | None = instance.memo["simplest"]
    return known


def _alone(instance: MeshInstance) -> dict[str, Any]:
    configs, market = configs_of(instance), market_of(instance)
    found: dict[str, Any] = {}
    for way, names in WAYS.items():
        asked = [name for name in names if name in instance.families]
        if not all(any(SERVES[name][phase] for name in asked) for phase in market.phases):
            continue
        some = market.among(offer for offer in market.offers if configs[offer.place].family in asked)
        found[way] = _value(instance, some)
    return found


def _value(instance: MeshInstance, market: Market) -> dict[str, Any] | None:
    """The best objective over a part of the offers; ``None`` where they are no plan."""
    market = market.pruned
    if instance.objective == "goodput":
        made = covering.most(market)
        if made is not None:
            theta, exact = made[0].theta(made[1]), True
        else:
            counts = per_price(market, enough=False)
            theta, exact = (Fraction(0) if counts is None else theta_of(market, counts)), False
        return {"objective": float(1 / (theta * wanted_rate(instance))), "exact": exact} if theta else None
    if instance.objective == "time":
        if not market.offers or bounds.too_little(market) is not None:
            return None
        return {"objective": float(bounds.time_bound(market).value), "exact": covering.most(market) is not None}
    cost, exact = least_cost(market)
    return None if cost is None else {"objective": float(cost), "exact": exact}


def least_cost(market: Market) -> tuple[Fraction | None, bool]:
    """The least cost of what is wanted, and whether it is the optimum."""
    known = known_cost(market)
    made = None
    limits = None if known is None else covering.limits_below(market, known)
    if limits is not None:
        made = covering.covering(market, limits)
    cell = None if made is None else made.cheapest(made.unit)
    if made is None or cell is None:
        return known, False
    return market.cost_of(made.gpus(cell)), True


def sensitivity(instance: MeshInstance, judged: Evaluation) -> dict[str, Any]:
    """What one more GPU is worth, what every number of GPUs serves, and what other rates would cost."""
    found: dict[str, Any] = NO_SENSITIVITY | {"gpu_worth": _worth(instance)}
    market = market_of(instance)
    if instance.objective == "time" or is_partial(instance):
        return found
    if instance.objective == "goodput":
        one_type = len(market.stock) == 1
        made = _beyond(market) if one_type else None
        if made is not None:
            found |= _curve(instance, made, judged)
        return found
    if "at_rates" not in instance.memo:
        instance.memo["at_rates"] = [_at_rate(market, factor) for factor in FACTORS]
    return found | {"at_rates": list(instance.memo["at_rates"])}


def _at_rate(market: Market, factor: Fraction) -> dict[str, Any]:
    cost, exact = least_cost(_scaled(market.pruned, factor))
    return {"factor": float(factor), "objective": None if cost is None else float(cost), "exact": exact}


def _worth(instance: MeshInstance) -> dict[str, float] | None:
    """What one more GPU of each type wins: requests a second, or cost; by the linear relaxation."""
    prices = shadow_prices(instance)
    if prices is None:
        return None
    unit = wanted_rate(instance) if instance.objective == "goodput" else Fraction(1)
    return {gpu.name: float(price * unit) for gpu, price in zip(instance.gpus, prices.gpus, strict=True)}


def _beyond(market: Market) -> Covering | None:
    """The table up to the stock and one replica of any configuration more."""
    most = market.stock[0]
    largest = max((offer.total_gpus for offer in market.pruned.offers), default=0)
    return None if most is None else covering.covering(market.pruned, [most + largest])


def _curve(instance: MeshInstance, made: Covering, judged: Evaluation) -> dict[str, Any]:
    stock = instance.gpus[0].stock or 0
    points = [(made.gpus(cell)[0], made.theta(cell) * wanted_rate(instance)) for cell in made.node.corners]
    better = [count for count, rate in points if count > stock and rate > judged.theta * wanted_rate(instance)]
    within = [[count, float(rate)] for count, rate in points if count <= stock and rate]
    return {"curve": within[-MOST_POINTS:], "next_gpus": min(better, default=None)}


def _scaled(market: Market, factor: Fraction) -> Market:
    """The same offers where so many times as much is wanted."""
    offers = [replace(one, shares=(one.shares[0] / factor, one.shares[1] / factor)) for one in market.offers]
    return market.among(offers).as_pruned()
