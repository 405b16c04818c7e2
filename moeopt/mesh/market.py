"""What can be bought: usable configurations as offers in exact numbers, and what has to be served with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from moeopt.mesh.clock import look
from moeopt.mesh.config import Config
from moeopt.mesh.given import SERVES
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.roles import breaches

PHASES = ("prefill", "decode")
SLACK = Fraction(1, 10**9)
"""Part by which a time may be above its service level: rounding of a rate that was chosen to meet it."""


def as_written(value: float | Fraction) -> Fraction:
    """The number as it is written.

    >>> as_written(0.1)
    Fraction(1, 10)
    """
    return Fraction(*_decimal(value)) if isinstance(value, float) else Fraction(value)


def _decimal(value: float) -> tuple[int, int]:
    """Numerator and denominator of a finite float as it is written, not in lowest terms."""
    mantissa, _, power = float.__repr__(value).partition("e")
    ahead, _, after = mantissa.partition(".")
    exponent = int(power or 0) - len(after)
    digits = int(ahead + after)
    return (digits * 10**exponent, 1) if exponent >= 0 else (digits, 10**-exponent)


@dataclass(frozen=True)
class Offer:
    """A configuration as the purchase sees it.

    Parameters
    ----------
    place
        In the list of configurations.
    demand
        Which demand it serves.
    gpus
        Of one replica, by type in the order of the instance.
    shares
        Part of what the demand wants that one replica serves, by phase.
    tpot
        Seconds per output token where that is what is minimised; 0 where it is not, or nothing is decoded.
    cost
        Of one replica, in what is minimised (GPUs where that is no cost).
    """

    place: int
    demand: int
    gpus: tuple[int, ...]
    shares: tuple[Fraction, Fraction]
    tpot: Fraction
    cost: Fraction

    @property
    def total_gpus(self) -> int:
        """Of all types."""
        return sum(self.gpus)

    @cached_property
    def rounded(self) -> tuple[float, float]:
        """Shares as floats: to look first, and exactly only where these are close."""
        return float(self.shares[0]), float(self.shares[1])

    @property
    def serves(self) -> tuple[bool, bool]:
        """Phases that it serves."""
        return self.rounded[0] > 0, self.rounded[1] > 0


class Written(Offer):
    """An offer whose shares become fractions when somebody asks for them: thousands are looked at as floats alone."""

    _parts: tuple[tuple[int, int], tuple[int, int]]

    @classmethod
    def of(cls, rates: tuple[float, float], wanted: Fraction, **known: Any) -> Written:
        """With rates as parts of what is wanted; both floats are rounded correctly."""
        parts = [(0, 1), (0, 1)]
        for phase, rate in enumerate(rates):
            if rate:
                top, bottom = _decimal(float(rate))
                parts[phase] = top * wanted.denominator, bottom * wanted.numerator
        (top, bottom), (top_2, bottom_2) = parts
        made = object.__new__(cls)
        made.__dict__.update(known, _parts=tuple(parts), rounded=(top / bottom, top_2 / bottom_2))
        return made

    @cached_property
    def shares(self) -> tuple[Fraction, Fraction]:
        """Exactly."""
        return Fraction(*self._parts[0]), Fraction(*self._parts[1])


@dataclass(frozen=True)
class Market:
    """Offers and what limits them.

    Parameters
    ----------
    offers
        Usable configurations, in their order.
    phases
        Places in `PHASES` that have to be served.
    wanted
        Requests a second by demand: what shares are parts of.
    stock, unit_costs
        GPUs there are (``None``: any number) and the cost of one, by type.
    """

    offers: tuple[Offer, ...]
    phases: tuple[int, ...]
    wanted: tuple[Fraction, ...]
    stock: tuple[int | None, ...]
    unit_costs: tuple[Fraction, ...]

    @property
    def rows(self) -> list[tuple[int, int]]:
        """(demand, phase) that have to be served."""
        return [(demand, phase) for demand in range(len(self.wanted)) for phase in self.phases]

    @cached_property
    def taus(self) -> tuple[Fraction, ...]:
        """Times per token that offers have, rising."""
        return tuple(sorted({offer.tpot for offer in self.offers if offer.rounded[1] > 0}))

    @cached_property
    def pruned(self) -> Market:
        """Without what no purchase needs."""
        from moeopt.mesh.dominance import undominated

        return replace(self, offers=undominated(self.offers)).as_pruned()

    def as_pruned(self) -> Market:
        """This market, known to hold nothing that is not needed."""
        self.__dict__["pruned"] = self
        return self

    def among(self, offers: Iterable[Offer]) -> Market:
        """The same with these offers alone."""
        return replace(self, offers=tuple(offers))

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What has been computed from it once."""
        return {}

    def up_to(self, tau: Fraction, *, below: bool = False) -> Market:
        """With offers that take at most this long per token, or strictly less.

        What dominates an offer is no slower: nothing that is not needed comes back.
        """
        some = self.among(offer for offer in self.offers if offer.tpot < tau or (offer.tpot == tau and not below))
        return some.as_pruned() if self.__dict__.get("pruned") is self else some

    def cost_of(self, gpus: Sequence[int]) -> Fraction:
        """Cost of so many GPUs."""
        return sum((count * cost for count, cost in zip(gpus, self.unit_costs, strict=True)), Fraction(0))

    def fits(self, offer: Offer) -> bool:
        """Whether one replica is within the stock."""
        return all(most is None or need <= most for need, most in zip(offer.gpus, self.stock, strict=True))


def configs_of(instance: MeshInstance) -> tuple[Config, ...]:
    """Every configuration, usable or not: those that are given, else those of the families."""
    if instance.configs is not None:
        return instance.configs
    if "configs" not in instance.memo:
        from moeopt.mesh import families

        instance.memo["configs"] = tuple(families.configs(instance))
    return tuple(instance.memo["configs"])


def is_partial(instance: MeshInstance) -> bool:
    """Whether time ran out, so that configurations may be missing (`moeopt.mesh.partial`)."""
    return bool(instance.memo.get("partial"))


def refusals(instance: MeshInstance, place: int) -> tuple[str, ...]:
    """Why the configuration at this place in the list cannot be bought; empty if it can."""
    return _every_refusal(instance)[place]


def _every_refusal(instance: MeshInstance) -> list[tuple[str, ...]]:
    if "refusals" not in instance.memo:
        instance.memo["refusals"] = [tuple(_refusals(instance, config)) for config in configs_of(instance)]
    found: list[tuple[str, ...]] = instance.memo["refusals"]
    return found


def _refusals(instance: MeshInstance, config: Config) -> list[str]:
    found = [*config.reasons, *breaches(instance, config)]
    for gpu, memory in {} if config.fits else config.memory.items():
        if memory.free < 0 and not found:
            found.append(f"memory: {memory.used / 1e9:.4g} GB on a {gpu}, {memory.usable / 1e9:.4g} GB are usable")
    if instance.engine is not None and instance.engine not in config.legal_in and not found:
        what = ": attention and experts on GPUs of their own" if config.family == "apart" else ""
        found.append(f"{instance.engine} does not launch it{what}")
    if instance.objective == "time" and config.decode_per_s > 0 and config.tpot_s is None:
        found.append("tpot_s is not known")
    slo = instance.demands[config.demand].slo
    for name in ("ttft_s", "tpot_s"):
        target, value = getattr(slo, name), getattr(config, name)
        if target is not None and value is not None and above(value, target):
            found.append(f"{name} = {milliseconds(value)} is above {milliseconds(target)}")
    return found


def above(value: float, target: float) -> bool:
    """Whether a time breaks its service level."""
    return value > target and as_written(value) > as_written(target) * (1 + SLACK)


def milliseconds(seconds: float) -> str:
    """A time for messages.

    >>> milliseconds(0.005), milliseconds(1.5)
    ('5 ms', '1500 ms')
    """
    return f"{float(f'{seconds * 1e3:.6g}'):g} ms"


def phases_of(instance: MeshInstance) -> tuple[int, ...]:
    """Phases that the instance's families serve: those have to be bought."""
    return tuple(phase for phase in (0, 1) if any(SERVES[family][phase] for family in instance.families))


def market_of(instance: MeshInstance) -> Market:
    """The market of an instance, made once."""
    if "market" not in instance.memo:
        instance.memo["market"] = _market(instance)
    found: Market = instance.memo["market"]
    return found


def _market(instance: MeshInstance) -> Market:
    types = [gpu.name for gpu in instance.gpus]
    ones = tuple(Fraction(1) for _ in types)
    costs = tuple(as_written(gpu.price or 0) for gpu in instance.gpus) if instance.objective == "price" else ones
    rates = [demand.workload.rate_per_s for demand in instance.demands]
    wanted = tuple(Fraction(1) if rate is None else as_written(rate) for rate in rates)
    offers: list[Offer] = []
    phases, nothing = phases_of(instance), Fraction(0)
    priced: dict[tuple[int, ...], Fraction] = {}
    refused = _every_refusal(instance)
    for place, config in enumerate(configs_of(instance)):
        look()
        given = (config.prefill_per_s, config.decode_per_s)
        if not max([given[phase] for phase in phases], default=0.0) > 0 or refused[place]:
            continue
        gpus = tuple([config.gpus.get(name, 0) for name in types])
        if gpus not in priced:
            priced[gpus] = sum((count * one for count, one in zip(gpus, costs, strict=True)), nothing)
        timed = instance.objective == "time" and given[1] > 0
        tpot = as_written(config.tpot_s or 0) if timed else nothing
        known = {"place": place, "demand": config.demand, "gpus": gpus, "tpot": tpot, "cost": priced[gpus]}
        count_only = instance.objective == "time" and rates[config.demand] is None
        if count_only:
            given = (float(given[0] > 0), float(given[1] > 0))
        offers.append(Written.of(given, wanted[config.demand], **known))
    stock = tuple(gpu.stock for gpu in instance.gpus)
    return Market(tuple(offers), phases, wanted, stock, costs)
