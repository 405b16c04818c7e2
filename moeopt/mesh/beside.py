"""A plan under roles beside the best that replicas serving whole requests could do for the money."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from moeopt.limits import Deadline
from moeopt.mesh import bounds, purchase
from moeopt.mesh.clock import ENDS
from moeopt.mesh.heuristics.per_price import per_price
from moeopt.mesh.heuristics.uniform import not_one_price, uniform
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import Market, Offer, as_written, configs_of, is_partial, market_of
from moeopt.mesh.plan import plan_of
from moeopt.mesh.verify import Evaluation, evaluate

PART = 0.5
"""Of the time that is left, what colocated configurations may take."""
KEY, WHY = "colocated", "not compared"
NOT_COMPARED, STOPPED = (f"{end} before the best colocated replicas were known" for end in ENDS)
"""The note of an answer under roles that stands alone, by how it ended."""


def prepare(instance: MeshInstance, deadline: Deadline, rest_s: float) -> None:
    """Enumerate colocated configurations in what is left beside `rest_s`; what is not finished is not compared."""
    if not instance.sides or KEY in instance.memo:
        return
    from moeopt.mesh.families import within

    one = _colocated(instance)
    left = deadline
    if deadline.limited:
        left = deadline.within(max((deadline.remaining_s() - rest_s) * PART, 1e-9))
    found, whole = within(one, left)
    if whole:
        one.memo["configs"] = tuple(found)
    instance.memo[KEY] = one if whole else None
    instance.memo[WHY] = STOPPED if deadline.stopped() else NOT_COMPARED


def not_compared(instance: MeshInstance) -> list[str]:
    """A note where there was no time to compare."""
    return [instance.memo.get(WHY, NOT_COMPARED)] if instance.memo.get(KEY, instance) is None else []


def _colocated(instance: MeshInstance) -> MeshInstance:
    """The same question to colocated replicas alone, on any GPU unless a role says otherwise."""
    only = {role: gpu for role, gpu in instance.sides.items() if role == "colocated"}
    given = instance.configs
    cost = instance.objective in ("gpus", "price")
    return replace(
        instance,
        sides=only,
        families=("colocated",),
        objective="price" if cost and _priced(instance) else instance.objective,
        configs=None if given is None else tuple(one for one in given if one.family == "colocated"),
    )


def _priced(instance: MeshInstance) -> bool:
    return all(gpu.price is not None and gpu.price > 0 for gpu in instance.gpus)


def beside_colocated(instance: MeshInstance, judged: Evaluation) -> dict[str, Any] | None:
    """Output tokens a second of each unit that is paid: of a plan under roles, and of the best colocated one.

    Where a rate has to be served, both are bought for it and only tokens that are wanted count; so it is with the time
    of a token. With the stock as a limit it is the replicas that give most for the money, as many as there may be:
    a part of one counts as that part. Without prices a GPU is the unit.

    ``None`` without roles, and where there was no time.
    """
    if not instance.sides or is_partial(instance):
        return None
    if KEY not in instance.memo:
        instance.memo[KEY] = _colocated(instance)
    one = instance.memo[KEY]
    if one is None:
        return None
    if "beside" not in instance.memo:
        instance.memo["beside"] = _dense(one) if instance.objective == "goodput" else _bought(one)
    known = instance.memo["beside"]
    if instance.objective == "goodput" and known is not None:
        known = _at_rates(one, known, judged)
    tokens, paid = _tokens(instance, judged), _paid(instance, judged.gpus)
    best = None if known is None else _shown(*known)
    mine = _per(tokens, paid)
    return {
        "unit": "price" if _priced(instance) else "GPU",
        "tokens_per_s": float(tokens),
        "paid": float(paid),
        "per_unit": mine,
        "colocated": best,
        "ratio": mine / best["per_unit"] if best is not None and best["per_unit"] else None,
    }


def _shown(
    pools: list[list[str | int]], gpus: dict[str, int], tokens: Fraction, paid: Fraction, least: Fraction | None
) -> dict[str, Any]:
    found = {"pools": pools, "gpus": gpus, "tokens_per_s": float(tokens), "paid": float(paid)}
    most = _per(tokens, least) if least else None
    return {**found, "per_unit": _per(tokens, paid), "most_per_unit": most}


def _per(tokens: Fraction, paid: Fraction) -> float:
    return float(tokens / paid)


def _paid(instance: MeshInstance, gpus: Any) -> Fraction:
    priced = _priced(instance)
    each = {gpu.name: as_written(gpu.price or 0) if priced else Fraction(1) for gpu in instance.gpus}
    return sum((count * each[name] for name, count in gpus.items()), Fraction(0))


def _tokens(instance: MeshInstance, judged: Evaluation) -> Fraction:
    """Output tokens a second: those that are wanted, or where the most is asked, those that are served."""
    total = Fraction(0)
    for place, demand in enumerate(instance.demands):
        rate, served = demand.workload.rate_per_s, judged.rate(place)
        wanted = served if rate is None or instance.objective == "goodput" else as_written(rate)
        total += wanted * demand.workload.output_tokens
    return total


Bought = tuple[list[list[str | int]], dict[str, int], Fraction, Fraction, Fraction | None]
"""Pools, their GPUs, tokens a second, what is paid, and the least that could be paid; ``None``: not known."""


def _bought(one: MeshInstance) -> Bought | None:
    """The colocated plan for what is asked: the best by tables where there are some, else the better baseline."""
    market = market_of(one)
    if not market.offers:
        return None
    if purchase.no_table(one) is None:
        listed = [purchase.by_tables(one)]
    else:
        listed = [per_price(market.pruned, enough=True)]
        listed += [] if not_one_price(one) is not None else [uniform(one)]
    plans = [evaluate(one, plan_of(one, counts)) for counts in listed if counts is not None]
    if not plans:
        return None
    best = min(plans, key=lambda judged: (judged.objective, sum(judged.gpus.values())))
    pools: list[list[str | int]] = [[pool.config.label, pool.replicas] for pool in best.pools]
    gpus = {name: count for name, count in best.gpus.items() if count}
    paid = _paid(one, best.gpus)
    least = None if one.objective == "time" else min(bounds.bound(one, best.objective).value, paid)
    return pools, gpus, _tokens(one, best), paid, least


def _dense(one: MeshInstance) -> list[tuple[Offer, Fraction]] | None:
    """For each demand the replica that serves a request for least, and what a request a second costs with it."""
    market = market_of(one)
    found = [_least(one, market, demand) for demand in range(len(one.demands))]
    return None if None in found else [pair for pair in found if pair is not None]


def _least(one: MeshInstance, market: Market, demand: int) -> tuple[Offer, Fraction] | None:
    priced = _priced(one)
    names = [(gpu.name, float(gpu.price or 0) if priced else 1.0) for gpu in one.gpus]

    def price(offer: Offer) -> tuple[float, int]:
        paid = sum(count * each for count, (_, each) in zip(offer.gpus, names, strict=True))
        return paid / offer.rounded[0], offer.place

    mine = [offer for offer in market.offers if offer.demand == demand and market.fits(offer)]
    best = min(mine, key=price, default=None)
    if best is None:
        return None
    config = configs_of(one)[best.place]
    return best, _paid(one, config.gpus) / as_written(config.decode_per_s)


def _at_rates(one: MeshInstance, known: list[tuple[Offer, Fraction]], judged: Evaluation) -> Bought:
    """One replica of each, and what they take for the rates that a plan serves."""
    pools: list[list[str | int]] = []
    gpus: dict[str, int] = {}
    tokens, paid = Fraction(0), Fraction(0)
    for place, (offer, each) in enumerate(known):
        config = configs_of(one)[offer.place]
        pools.append([config.label, 1])
        rate = as_written(config.decode_per_s) if len(known) == 1 else judged.rate(place)
        tokens += rate * one.demands[place].workload.output_tokens
        paid += rate * each
        for name, count in config.gpus.items():
            gpus[name] = gpus.get(name, 0) + count
    return pools, gpus, tokens, paid, paid
