"""What cannot be had: service levels, memory and stock that no plan keeps, with what comes closest."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from moeopt.mesh import bounds
from moeopt.mesh.config import Config
from moeopt.mesh.given import SERVES
from moeopt.mesh.heuristics.per_price import at_once
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import (
    PHASES,
    Market,
    above,
    as_written,
    configs_of,
    market_of,
    milliseconds,
    refusals,
)
from moeopt.mesh.shape import Role
from moeopt.mesh.verify import wanted_rate

Conflict = dict[str, Any]
SHOWN = 3
"""Reasons that a message has."""
LEVELS = ("tpot_s", "ttft_s")
OWN = {0: ("ttft_s",), 1: ("tpot_s",)}
"""The service level of a phase: TTFT is that of prefill, TPOT that of decoding."""


def conflicts(instance: MeshInstance) -> list[Conflict]:
    """Rules that no plan keeps, as far as that is proved."""
    market = market_of(instance)
    starved = {
        (demand, phase): tuple(place for place, one in enumerate(configs_of(instance)) if _could(one, demand, phase))
        for demand, phase in market.rows
        if not any(offer.rounded[phase] > 0 and market.fits(offer) for offer in market.offers if offer.demand == demand)
    }
    found: list[Conflict] = []
    for (demand, phase), mine in starved.items():
        whole = starved.get((demand, 1 - phase)) == mine and len(mine) > 0  # both phases fail by the same replicas
        if not (whole and phase):
            alone = _all_whole(instance, mine) and len(mine) > 0
            what = "requests" if whole else PHASES[phase] + (" (by colocated replicas alone)" if alone else "")
            where = f"{what} of demand {demand}: {instance.demands[demand].llm.name}"
            known = {one["message"] for one in found}
            levels = LEVELS if whole or alone else OWN[phase]
            listed = _nothing_serves(instance, mine, where, levels)
            found += [one for one in listed if one["message"] not in known]
    if found:
        return found
    if at_once(market, enough=instance.objective != "goodput") is not None:
        return []
    proof = _short(instance, market)
    return [] if proof is None else [stock_conflict(instance, proof)]


def _short(instance: MeshInstance, market: Market) -> Fraction | None:
    """What the stock serves at most, where that is proved to be too little."""
    if any(most is None for most in market.stock):
        return None
    theta, _ = bounds.most_served(market)
    too_little = theta < 1 if instance.objective != "goodput" else not theta
    return theta if too_little else None


def stock_conflict(instance: MeshInstance, theta: Fraction | None = None) -> Conflict:
    """The stock is too small: what it can serve, or that a solver says so."""
    stock = ", ".join(f"{gpu.stock} {gpu.name}" for gpu in instance.gpus if gpu.stock is not None)
    wanted = float(wanted_rate(instance))
    if theta is None:
        message = f"a solver finds no plan with {stock} that serves {wanted:.6g} requests/s"
        return {**_conflict("stock", "", message), "target": wanted}
    if not theta or instance.objective == "goodput":
        message = f"{stock} hold no replica of every phase of every demand at once"
        return {**_conflict("stock", "", message), "best": 0.0}
    best = float(theta) * wanted
    message = f"{stock} serve at most {best:.6g} requests/s, {wanted:.6g} are wanted"
    need = _needed(instance)
    if need is not None:
        message += f"; without the limit on stock {need} GPUs or more would be needed"
    return {**_conflict("stock", "", message), "target": wanted, "best": best, "shortfall": wanted - best}


def _needed(instance: MeshInstance) -> int | None:
    """Fewest GPUs without a stock, as a bound says."""
    market = market_of(instance)
    free = Market(
        market.offers,
        market.phases,
        market.wanted,
        tuple(None for _ in market.stock),
        tuple(Fraction(1) for _ in market.stock),
    )
    counted = free.among([_counted(offer) for offer in market.offers])
    value = bounds.cost_bound(counted, None).value
    return int(value) if value else None


def _counted(offer: Any) -> Any:
    from dataclasses import replace

    return replace(offer, cost=Fraction(offer.total_gpus))


def _could(config: Config, demand: int, phase: int) -> bool:
    return config.demand == demand and SERVES[config.family][phase]


def _all_whole(instance: MeshInstance, places: tuple[int, ...]) -> bool:
    """Whether only replicas of whole requests could serve: both levels bind them."""
    return all(configs_of(instance)[place].family == "colocated" for place in places)


def _nothing_serves(
    instance: MeshInstance, places: tuple[int, ...], where: str, levels: tuple[str, ...]
) -> list[Conflict]:
    """Why a demand, or one phase of it with its `levels`, has no usable configuration among these."""
    mine = [configs_of(instance)[place] for place in places]
    if not mine:
        message = f"no configuration serves the {where}"
        return [_conflict("configs", where, message)]
    found = []
    slo = instance.demands[mine[0].demand].slo
    for name in levels:
        target = getattr(slo, name)
        closest = _closest(instance, mine, name)
        if target is None or closest is None:
            continue
        value = getattr(closest, name)
        if above(value, target):
            message = (
                f"{name} = {milliseconds(target)} is below what any configuration of the {where} has: the closest, "
                f"{closest.label}, needs {milliseconds(value)}{_limits(instance, mine, closest, name)}. "
                "The target is left as it was given"
            )
            more = {"target": target, "best": value, "closest": closest.label, "shortfall": value - target}
            found.append({**_conflict(name, where, message), **more})
    if found:
        return found
    unfit = [configs_of(instance)[place] for place in places if not refusals(instance, place)]
    if unfit:
        least = min(unfit, key=lambda one: one.total_gpus)
        message = f"one replica for the {where} needs {_gpus(least)} ({least.label}), more than the stock"
        return [{**_conflict("stock", where, message), "best": float(least.total_gpus), "closest": least.label}]
    return [_refused(instance, places, where, levels)]


def _of_phase(reasons: Counter[str], levels: tuple[str, ...]) -> list[str]:
    """The most frequent ones, without those of another phase's level as long as there are others."""
    other = tuple(word for name in LEVELS if name not in levels for word in (name, name.removesuffix("_s").upper()))
    listed = [reason for reason, _ in reasons.most_common() if not other or not reason.startswith(other)]
    return (listed or [reason for reason, _ in reasons.most_common()])[:SHOWN]


def _refused(instance: MeshInstance, places: tuple[int, ...], where: str, levels: tuple[str, ...]) -> Conflict:
    """Every configuration has a reason against it: memory first, else the most frequent ones."""
    mine = [configs_of(instance)[place] for place in places]
    unfit = [
        (memory.used / memory.usable, name, memory, one)
        for one in mine
        for name, memory in one.memory.items()
        if memory.free < 0 and memory.usable > 0
    ]
    if instance.configs is None:
        told = _capacity(instance, mine)
        if told:
            return _conflict("memory", where, f"{instance.demands[mine[0].demand].llm.name}: " + "; ".join(told))
    reasons = Counter(reason for place in places for reason in refusals(instance, place) or ["serves nothing"])
    shown = "; ".join(_of_phase(reasons, levels))
    if unfit:
        _, name, memory, closest = min(unfit, key=lambda one: one[:2])
        message = (
            f"no configuration of the {where} fits into memory: the closest, {closest.label}, needs "
            f"{memory.used / 1e9:.4g} GB on a {name}, {memory.usable / 1e9:.4g} GB are usable. {shown}"
        )
        more = {"target": memory.usable, "best": memory.used, "closest": closest.label}
        return {**_conflict("memory", where, message), **more, "shortfall": -memory.free}
    message = f"every one of {len(mine)} configurations of the {where} is refused: {shown}"
    return _conflict("configs", where, message)


def _capacity(instance: MeshInstance, mine: list[Config]) -> list[str]:
    """How many GPUs of each type would hold what is asked, where the stock of none does."""
    from moeopt.mesh.capacity import fewest_gpus

    roles: dict[str, Role] = {"prefill": "prefill", "colocated": "colocated", "long": "long"}
    found: list[str] = []
    for gpu in instance.gpus:
        asked = {roles.get(one.family, "decode") for one in mine if gpu.name in one.gpus}
        if not asked:  # no role of theirs is for it
            continue
        if gpu.stock is None:
            return []
        answers = [
            fewest_gpus(
                instance.demands[mine[0].demand],
                gpu,
                role=role,
                most_pp=instance.most_pp,
                transport=instance.transport,
                reserve_bytes=instance.reserve_bytes,
            )
            for role in sorted(asked)
        ]
        if any(answer.fits for answer in answers):
            return []
        found += min(answers, key=lambda one: (one.gpus is None, one.gpus)).said
    return found


def _closest(instance: MeshInstance, mine: list[Config], name: str) -> Config | None:
    """The one with the least time among those that nothing but service levels rules out."""
    fitting = [
        one
        for one in mine
        if getattr(one, name) is not None and all(memory.free >= 0 for memory in one.memory.values())
    ]
    return min(fitting, key=lambda one: (as_written(getattr(one, name)), one.total_gpus, one.label), default=None)


def _limits(instance: MeshInstance, mine: list[Config], closest: Config, name: str) -> str:
    """Least times of the families, and what sets that of the closest configuration; nothing where figures are given."""
    if instance.configs is not None or closest.batch:
        return ""
    from moeopt.mesh.least import least_parts, said

    least = {}
    for family in dict.fromkeys(one.family for one in mine):
        found = _closest(instance, [one for one in mine if one.family == family], name)
        if found is not None:
            least[family] = f"{family} {milliseconds(float(f'{getattr(found, name):.3g}'))}"
    families = f" (least: {', '.join(least.values())})" if len(least) > 1 else ""
    return f" with one request{families}: {said(least_parts(instance, closest, name))}"


def _conflict(rule: str, where: str, message: str) -> Conflict:
    return {
        "rule": rule,
        "where": where,
        "message": message,
        "target": None,
        "best": None,
        "closest": None,
        "shortfall": None,
    }


def _gpus(config: Config) -> str:
    return ", ".join(f"{count} {name}" for name, count in config.gpus.items())
