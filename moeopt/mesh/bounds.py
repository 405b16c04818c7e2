"""Lower bounds of the purchase, each with a certificate that `recheck` holds against all offers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from moeopt.mesh import covering, dual
from moeopt.mesh.clock import OutOfTime
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import Market, market_of
from moeopt.mesh.verify import wanted_rate


@dataclass(frozen=True)
class Bound:
    """A floor of the objective, exact, and what proves it."""

    value: Fraction
    certificate: Mapping[str, Any]


TRIVIAL = Bound(Fraction(0), {"kind": "trivial", "value": "0"})
"""What holds without any argument."""


def bound(instance: MeshInstance, known: Fraction | None = None) -> Bound:
    """The best floor there is; `known` is the objective of a plan, beyond which no budget needs to be looked at.

    Where the clock says that there is no time for tables it is that of prices.

    Raises
    ------
    OutOfTime
        Nor is there time for these.

    >>> from moeopt import mesh
    >>> from moeopt.llm import find
    >>> pool = mesh.Config(0, "decode", mesh.Shape("decode", "H100"), 1, {"H100": 2}, decode_per_s=10, name="D")
    >>> wanted = mesh.Demand(find("mixtral-8x7b"), mesh.Workload(1024, 256, rate_per_s=15))
    >>> h100 = mesh.GpuType.of("H100")
    >>> instance = mesh.MeshInstance([wanted], [h100], "gpus", families=("decode",), configs=[pool])
    >>> float(bound(instance).value)
    4.0
    """
    market = market_of(instance)
    if instance.objective in ("gpus", "price"):
        return cost_bound(market, known)
    if instance.objective == "goodput":
        theta, certificate = most_served(market)
        return Bound(1 / (theta * wanted_rate(instance)) if theta else Fraction(0), certificate)
    return time_bound(market)


def cost_bound(market: Market, known: Fraction | None) -> Bound:
    """By tables where the budgets below a known plan are few enough, else by prices."""
    limits = None if known is None else covering.limits_below(market, known)
    if limits is not None:
        with suppress(OutOfTime):
            made = covering.covering(market.pruned, limits)
            cell = None if made is None else made.cheapest(made.unit)
            if made is not None and cell is not None:
                value = market.cost_of(made.gpus(cell))
                return Bound(value, {"kind": "covering", "value": str(value)})
    prices = dual.cost_prices(market)
    if prices is None:
        return Bound(Fraction(0), {"kind": "dual", "value": "0", "served": [], "gpus": ["0"] * len(market.stock)})
    return Bound(prices.value, {"kind": "dual", "value": str(prices.value), **prices.to_dict()})


def most_served(market: Market) -> tuple[Fraction, dict[str, Any]]:
    """What the stock serves at most, as a part of what is wanted, and its certificate."""
    with suppress(OutOfTime):
        found = covering.most(market.pruned)
        if found is not None:
            made, _ = found
            theta = made.theta(made.full)
            return theta, {"kind": "covering", "value": str(theta)}
    prices = dual.theta_prices(market)
    assert prices is not None, "goodput and time have a stock"
    return prices.value, {"kind": "dual", "value": str(prices.value), **prices.to_dict()}


def time_bound(market: Market) -> Bound:
    """The least time per token up to which offers might be enough, or as much of it as there is time to prove."""
    market = market.pruned  # what is dominated is no faster
    taus = market.taus
    low, high, below = 0, len(taus) - 1, None
    with suppress(OutOfTime):
        while low < high:
            middle = (low + high) // 2
            proof = too_little(market.up_to(taus[middle]))
            if proof is None:
                high = middle
            else:
                low, below = middle + 1, proof
    tau = taus[low] if taus else Fraction(0)
    return Bound(tau, {"kind": "faster", "value": str(tau), "below": below})


def too_little(market: Market) -> dict[str, Any] | None:
    """A proof that the stock does not serve what is wanted, or ``None``."""
    if any(most is None for most in market.stock):
        starved = [row for row in market.rows if not _served_at_all(market, row)]
        return {"kind": "starved", "row": list(starved[0])} if starved else None
    theta, certificate = most_served(market)
    return certificate if theta < 1 else None


def _served_at_all(market: Market, row: tuple[int, int]) -> bool:
    return any(offer.rounded[row[1]] > 0 for offer in market.offers if offer.demand == row[0] and market.fits(offer))


def floor_of(instance: MeshInstance, certificate: Mapping[str, Any]) -> Fraction:
    """The floor of the objective that a certificate claims."""
    value = Fraction(certificate["value"])
    if instance.objective != "goodput":
        return value
    return 1 / (value * wanted_rate(instance)) if value else Fraction(0)


def recheck(instance: MeshInstance, certificate: Mapping[str, Any]) -> list[str]:
    """What is wrong with a certificate: tables are made anew, prices held against every usable configuration.

    A solver's claim comes with nothing that could be held against anything, which is said.

    >>> from moeopt import mesh
    >>> from moeopt.llm import find
    >>> pool = mesh.Config(0, "decode", mesh.Shape("decode", "H100"), 1, {"H100": 2}, decode_per_s=10, name="D")
    >>> wanted = mesh.Demand(find("mixtral-8x7b"), mesh.Workload(1024, 256, rate_per_s=15))
    >>> h100 = mesh.GpuType.of("H100")
    >>> instance = mesh.MeshInstance([wanted], [h100], "gpus", families=("decode",), configs=[pool])
    >>> recheck(instance, bound(instance).certificate)
    []
    """
    if certificate["kind"] == "solver":
        return ["a solver's claim proves nothing by itself"]
    market = market_of(instance)
    value = Fraction(certificate["value"])
    if certificate["kind"] == "trivial":
        return ["no more than 0 is proved without an argument"] if value else []
    if instance.objective in ("gpus", "price"):
        return _recheck_cost(market, certificate, value)
    if instance.objective == "goodput":
        return recheck_theta(market, certificate)
    return _recheck_time(market, certificate, value)


def _recheck_cost(market: Market, certificate: Mapping[str, Any], value: Fraction) -> list[str]:
    if certificate["kind"] == "dual":
        return dual.faults(market, dual.Prices.from_dict(certificate), theta=False)
    limits = covering.limits_below(market, value)
    made = None if limits is None else covering.covering(market.pruned, limits)
    if made is None:
        return ["there are too many budgets for a table"]
    cell = made.cheapest(made.unit)
    if cell is not None and market.cost_of(made.gpus(cell)) < value:
        return [f"a budget that costs {float(market.cost_of(made.gpus(cell)))} may be enough, less than {float(value)}"]
    return []


def recheck_theta(market: Market, certificate: Mapping[str, Any]) -> list[str]:
    """What is wrong with a proof that the stock serves no more than its value."""
    if certificate["kind"] == "starved":
        row = (int(certificate["row"][0]), int(certificate["row"][1]))
        return [f"row {row} can be served"] if row not in market.rows or _served_at_all(market, row) else []
    if certificate["kind"] == "dual":
        return dual.faults(market, dual.Prices.from_dict(certificate), theta=True)
    found = covering.most(market.pruned)
    if found is None:
        return ["there are too many budgets for a table"]
    made, _ = found
    if made.theta(made.full) > Fraction(certificate["value"]):
        return [f"the table says {float(made.theta(made.full))}, more than {float(Fraction(certificate['value']))}"]
    return []


def _recheck_time(market: Market, certificate: Mapping[str, Any], value: Fraction) -> list[str]:
    below = certificate["below"]
    faster = market.up_to(value, below=True)
    if below is None:
        if any(offer.rounded[1] > 0 for offer in faster.offers):
            return [f"there are configurations faster than {float(value)} s, and no argument against them"]
        return []
    if below["kind"] != "starved" and Fraction(below["value"]) >= 1:
        return ["the argument does not say that faster configurations are too little"]
    return recheck_theta(faster, below)
