"""Configurations by what a request costs with them, each with the reason why it was not bought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moeopt.mesh import dual
from moeopt.mesh.clock import look
from moeopt.mesh.config import Config
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import Market, Offer, configs_of, is_partial, market_of, milliseconds, refusals
from moeopt.mesh.shape import Shape
from moeopt.mesh.verify import Evaluation
from moeopt.percent import percent

MOST_ROWS = 400
"""Usable configurations that are listed at most; of refused ones as many again."""
Requests = dict[tuple[int, int], tuple[float, int]]
"""Least price of what is wanted, and the configuration that has it, by demand and phase."""


def shadow_prices(instance: MeshInstance) -> dual.Prices | None:
    """Prices of the programme's rows: what one more GPU, and one more request, is worth."""
    if is_partial(instance):
        return None
    if "prices" not in instance.memo:
        market = market_of(instance)
        costs = instance.objective in ("gpus", "price")
        instance.memo["prices"] = dual.cost_prices(market) if costs else dual.theta_prices(market)
    found: dual.Prices | None = instance.memo["prices"]
    return found


def ranking(instance: MeshInstance, judged: Evaluation) -> list[dict[str, Any]]:
    """Rows from the cheapest on; refused configurations follow, those that come closest first."""
    market, configs = market_of(instance), configs_of(instance)
    prices = _prices_of_offers(instance, market)
    partners = _partners(market, prices)
    bests = [_best(market, demand, partners) for demand in range(len(market.wanted))]
    labels = [" and ".join(configs[place].label for place in places) for _, places in bests]
    listed = []
    for offer in market.offers:
        look()
        total, best = _request(market, offer, prices[offer.place], partners), bests[offer.demand][0]
        behind = None if total is None or not best else max(total / best - 1, 0.0)
        key = (behind is None, behind or 0.0, offer.tpot, offer.total_gpus, offer.place)
        late: tuple[Any, ...] = (
            (offer.rounded[1] <= 0, offer.tpot) if instance.objective == "time" else ()
        )  # who decodes, quickest first
        listed.append(((*late, *key), offer, behind))
    listed.sort(key=lambda one: one[0])
    rows = []
    pools = {id(pool.config) for pool in judged.pools}
    bought = {place for place, config in enumerate(configs) if id(config) in pools}
    for offer, behind in _kept([(offer, behind) for _, offer, behind in listed], configs, bought):
        row = _row(instance, offer.place, configs[offer.place])
        row["behind"], row["bought"], row["why_not"] = behind, offer.place in bought, ""
        if not row["bought"]:
            row["why_not"] = _why_not(instance, market, offer, behind, labels[offer.demand], judged)
        rows.append(row)
    return rows + _refused(instance, {offer.place for offer in market.offers})


def _kept(
    listed: list[tuple[Offer, float | None]], configs: Sequence[Config], bought: set[int]
) -> list[tuple[Offer, float | None]]:
    """The best of every way to cut up so many GPUs, as far as there is room, and what was bought."""
    seen, found, left = set(), [], MOST_ROWS
    for offer, behind in listed:
        kind = _kind(configs[offer.place])
        if offer.place not in bought:
            if kind in seen or not left:
                continue
            left -= 1
        seen.add(kind)
        found.append((offer, behind))
    return found


def _kind(config: Config) -> tuple[Any, ...]:
    """What is told apart in a list of shapes: not how many stages, redundant experts or micro-batches."""
    shape, gpus = config.shape, tuple(sorted(config.gpus.items()))
    if isinstance(shape, Shape):
        return (config.demand, config.family, gpus, shape.tp, shape.ep, shape.kvp, config.name)
    return (config.demand, config.family, gpus, config.name)


def _prices_of_offers(instance: MeshInstance, market: Market) -> dict[int, float]:
    """What one replica costs: its price, and its GPUs at their shadow prices; GPUs where these say nothing."""
    shadow = shadow_prices(instance)
    costs = instance.objective in ("gpus", "price")
    gpus = [0.0] * len(market.stock) if shadow is None else [float(price) for price in shadow.gpus]
    found = {}
    for offer in market.offers:
        price = float(offer.cost) if costs else 0.0
        found[offer.place] = price + sum(need * one for need, one in zip(offer.gpus, gpus, strict=True))
    if not any(found.values()):
        return {offer.place: float(offer.total_gpus) for offer in market.offers}
    return found


def _partners(market: Market, prices: Mapping[int, float]) -> Requests:
    found: Requests = {}
    for offer in market.offers:
        rows = [(-1, market.phases[0])] if _whole(market, offer) else [(phase, phase) for phase in market.phases]
        for row, phase in rows:
            if offer.rounded[phase] > 0:
                price = prices[offer.place] / offer.rounded[phase]
                known = found.get((offer.demand, row))
                if known is None or price < known[0]:
                    found[offer.demand, row] = (price, offer.place)
    return found


def _whole(market: Market, offer: Offer) -> bool:
    """Whether it serves every phase that is asked for."""
    rounded, phases = offer.rounded, market.phases
    return rounded[phases[0]] > 0 and rounded[phases[-1]] > 0


def _request(market: Market, offer: Offer, price: float, partners: Requests) -> float | None:
    """Price of all that the demand wants where this offer serves what it can, with the best partner for the rest."""
    if _whole(market, offer):
        return price / offer.rounded[market.phases[0]]
    total = 0.0
    for phase in market.phases:
        if offer.rounded[phase] > 0:
            total += price / offer.rounded[phase]
        elif (offer.demand, phase) in partners:
            total += partners[offer.demand, phase][0]
        else:
            return None
    return total


def _best(market: Market, demand: int, partners: Requests) -> tuple[float, tuple[int, ...]]:
    """The least price of what a demand wants, and the configurations that serve it so."""
    ways: list[tuple[float, tuple[int, ...]]] = []
    if (demand, -1) in partners:
        price, place = partners[demand, -1]
        ways.append((price, (place,)))
    if all((demand, phase) in partners for phase in market.phases):
        parts = [partners[demand, phase] for phase in market.phases]
        ways.append((sum(price for price, _ in parts), tuple(place for _, place in parts)))
    return min(ways, default=(0.0, ()))


def _why_not(
    instance: MeshInstance, market: Market, offer: Offer, behind: float | None, best: str, judged: Evaluation
) -> str:
    if not market.fits(offer):
        needs = ", ".join(
            f"{need} {gpu.name}" for need, gpu in zip(offer.gpus, instance.gpus, strict=True) if need
        )  # fmt: skip
        return f"one replica needs {needs}, more than the stock"
    if behind is None:
        return "nothing serves the other phase"
    if instance.objective == "time":
        if offer.tpot > judged.objective:
            more = percent(float(offer.tpot / judged.objective) - 1)
            return f"{milliseconds(float(f'{float(offer.tpot):.3g}'))} a token, {more} more"
        if offer.rounded[1] > 0 and offer.tpot < judged.objective:
            return "fast enough, but with it the stock does not serve what is wanted"
        return "as quick, but not needed" if offer.rounded[1] > 0 else "serves prefill, which sets no time a token"
    if behind > 1e-9:
        return f"a request costs {percent(behind)} more than with {best}"
    return f"as cheap a request where there are many; whole replicas of {offer.total_gpus} GPUs fit less well here"


def _row(instance: MeshInstance, place: int, config: Config) -> dict[str, Any]:
    used = {name: memory.used for name, memory in config.memory.items()}
    ep = config.shape.ep if isinstance(config.shape, Shape) else config.shape.n_e
    return {
        "config": place,
        "demand": config.demand,
        "family": config.family,
        "label": config.label,
        "gpus": dict(config.gpus),
        "redundant": config.shape.redundant,
        "batch": config.batch,
        "chunk": config.chunk,
        "draft": config.draft,
        "overlap": config.overlap,
        "kv": config.kv,
        "ttft_s": config.ttft_s,
        "tpot_s": config.tpot_s,
        "prefill_per_s": config.prefill_per_s,
        "decode_per_s": config.decode_per_s,
        "tokens_per_s_gpu": config.tokens_per_s / config.total_gpus if config.total_gpus else None,
        "memory_bytes": used,
        "binds": config.binds,
        "parts_s": dict(config.parts_s),
        "imbalance": instance.imbalance.at(ep, config.shape.redundant, instance.demands[config.demand].llm.experts),
        "legal_in": list(config.legal_in),
    }


def _refused(instance: MeshInstance, usable: set[int]) -> list[dict[str, Any]]:
    rows, seen = [], set()
    for place, config in enumerate(configs_of(instance)):
        if place in usable or _kind(config) in seen:
            continue
        seen.add(_kind(config))
        reasons = list(refusals(instance, place)) or ["it serves no phase that is asked for"]
        rows.append(((config.demand, config.tpot_s or float("inf"), config.total_gpus, place), reasons))
    rows.sort()
    configs = configs_of(instance)
    return [
        _row(instance, key[-1], configs[key[-1]]) | {"behind": None, "bought": False, "why_not": "; ".join(reasons)}
        for key, reasons in rows[:MOST_ROWS]
    ]
