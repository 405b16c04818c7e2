"""The best purchase by trying all of them, from the figures of the configurations alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from moeopt.mesh import Config, MeshInstance

Answer = tuple[Fraction, int]


@dataclass
class Choice:
    """A configuration in whole numbers: what it serves of each (demand, phase), its GPUs by type, its speed."""

    serves: list[int]
    gpus: list[int]
    tpot: Fraction
    most: int


def number(value: float) -> Fraction:
    return Fraction(str(value))


def best(instance: MeshInstance, most: int) -> Answer | None:
    """Least objective and, of equals, fewest GPUs, over up to `most` replicas of each usable configuration."""
    usable = [one for one in instance.configs or () if not refused(instance, one)]
    phases = asked(instance)
    rates = {place: [number(one.prefill_per_s), number(one.decode_per_s)] for place, one in enumerate(usable)}
    wanted = [number(one.workload.rate_per_s or 1) for one in instance.demands]
    scale = lcm(*(rate.denominator for row in rates.values() for rate in row), *(want.denominator for want in wanted))
    choices = []
    for place, config in enumerate(usable):
        serves = [int(rates[place][f] * scale) * (d == config.demand) for d in range(len(wanted)) for f in phases]
        gpus = [config.gpus.get(gpu.name, 0) for gpu in instance.gpus]
        decodes = config.decode_per_s > 0
        tpot = number(config.tpot_s or 0) if decodes else Fraction(0)
        choices.append(Choice(serves, gpus, tpot, limit(instance, config, most)))
    need = [int(want * scale) for want in wanted for _ in phases]
    prices = [number(gpu.price or 0) for gpu in instance.gpus]
    found: Answer | None = None
    for counts in within_stock(instance, choices):
        served = [sum(n * one.serves[row] for n, one in zip(counts, choices, strict=True)) for row in range(len(need))]
        if not all(served):
            continue
        rated = [instance.demands[row // len(phases)].workload.rate_per_s is not None for row in range(len(need))]
        if instance.objective != "goodput" and any(
            have < want for have, want, counts_ in zip(served, need, rated, strict=True) if counts_
        ):
            continue
        gpus = [sum(n * one.gpus[kind] for n, one in zip(counts, choices, strict=True)) for kind in range(len(prices))]
        if instance.objective == "gpus":
            value = Fraction(sum(gpus))
        elif instance.objective == "price":
            value = sum((price * count for price, count in zip(prices, gpus, strict=True)), Fraction(0))
        elif instance.objective == "time":
            value = max(one.tpot for n, one in zip(counts, choices, strict=True) if n)
        else:
            theta = min(Fraction(have, want) for have, want in zip(served, need, strict=True))
            value = 1 / (theta * sum(wanted))
        found = min(found or (value, sum(gpus)), (value, sum(gpus)))
    return found


def asked(instance: MeshInstance) -> list[int]:
    """Phases that some family serves."""
    prefills = {"colocated", "prefill"} & set(instance.families)
    decodes = {"colocated", "decode", "apart", "long"} & set(instance.families)
    return [0] * bool(prefills) + [1] * bool(decodes)


def within_stock(instance: MeshInstance, choices: list[Choice]) -> Iterator[list[int]]:
    """Every number of replicas of each that the stock can hold."""
    left = [10**9 if gpu.stock is None else gpu.stock for gpu in instance.gpus]

    def go(place: int, counts: list[int]) -> Iterator[list[int]]:
        if place == len(choices):
            yield counts
            return
        one, taken = choices[place], 0
        while True:
            yield from go(place + 1, [*counts, taken])
            if taken == one.most or any(have < need for have, need in zip(left, one.gpus, strict=True)):
                break
            taken += 1
            left[:] = [have - need for have, need in zip(left, one.gpus, strict=True)]
        left[:] = [have + taken * need for have, need in zip(left, one.gpus, strict=True)]

    return go(0, [])


def limit(instance: MeshInstance, config: Config, most: int) -> int:
    """Replicas beyond which everything is served by it alone."""
    wanted = instance.demands[config.demand].workload.rate_per_s
    rate = max(number(config.prefill_per_s), number(config.decode_per_s))
    if instance.objective == "goodput" or not rate:
        return most
    return min(most, 1 if wanted is None else int(-(-number(wanted) // rate)))


def refused(instance: MeshInstance, config: Config) -> bool:
    """Whether a configuration cannot be bought whatever else is."""
    slo = instance.demands[config.demand].slo
    late = slo.tpot_s is not None and config.tpot_s is not None and config.tpot_s > slo.tpot_s
    unknown = instance.objective == "time" and config.decode_per_s > 0 and config.tpot_s is None
    return bool(config.reasons) or late or unknown
