"""The referee: judges a purchase from the instance alone, in fractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from moeopt import kinds
from moeopt.errors import PlanError
from moeopt.mesh.config import Config
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import PHASES, as_written, configs_of, phases_of, refusals
from moeopt.mesh.plan import MeshPlan, Pool
from moeopt.mesh.roles import breaches

TOLERANCE = 1e-9
"""Relative difference up to which a stated figure and the recomputed one are the same."""


@dataclass(frozen=True)
class Evaluation:
    """What a plan is worth.

    Parameters
    ----------
    pools
        With figures as the instance says them.
    served
        Requests a second by (demand, phase), exact.
    gpus
        GPUs used by type.
    objective
        In what is minimised, exact.
    theta
        Least part of what is wanted that a demand gets.
    """

    pools: tuple[Pool, ...]
    served: Mapping[tuple[int, int], Fraction]
    gpus: Mapping[str, int]
    price: Fraction | None
    objective: Fraction
    theta: Fraction

    def rate(self, demand: int) -> Fraction:
        """Requests a second of a demand: what its slowest phase serves."""
        return min(value for (d, _), value in self.served.items() if d == demand)


def evaluate(instance: MeshInstance, plan: MeshPlan) -> Evaluation:
    """Recompute the figures of every pool and hold stock, service levels, memory and rates against them.

    Raises
    ------
    PlanError
        Every fault: configurations that the instance does not have or refuses, figures that are not theirs, more GPUs
        than there are, rates that are not served.
    """
    found: list[str] = []
    pools = [pool for pool in (_known(instance, pool, found) for pool in plan.pools) if pool is not None]
    if found:
        raise PlanError(found)
    served = {(demand, phase): Fraction(0) for demand in range(len(instance.demands)) for phase in phases_of(instance)}
    gpus = {gpu.name: 0 for gpu in instance.gpus}
    for pool in pools:
        rates = (pool.config.prefill_per_s, pool.config.decode_per_s)
        for phase in phases_of(instance):
            served[pool.config.demand, phase] += as_written(rates[phase]) * pool.replicas
        for name, count in pool.config.gpus.items():
            gpus[name] += count * pool.replicas
    for gpu in instance.gpus:
        if gpu.stock is not None and gpus[gpu.name] > gpu.stock:
            found.append(f"{gpus[gpu.name]} {gpu.name} are used, the stock is {gpu.stock}")
    wanted = [demand.workload.rate_per_s for demand in instance.demands]
    theta = min(value / as_written(wanted[d] or 1) for (d, _), value in served.items())
    for (d, phase), value in served.items():
        want = wanted[d]
        if not value:
            found.append(f"nothing serves the {PHASES[phase]} of demand {d}: {instance.demands[d].llm.name}")
        elif instance.objective != "goodput" and want is not None and value < as_written(want):
            found.append(f"{PHASES[phase]} of demand {d}: {float(value):.9g} requests/s of {want:.9g} are served")
    if found:
        raise PlanError(found)
    prices = [gpu.price for gpu in instance.gpus]
    price = None
    if all(one is not None for one in prices):
        price = sum((gpus[gpu.name] * as_written(gpu.price or 0) for gpu in instance.gpus), Fraction(0))
    objective = _objective(instance, pools, gpus, price, theta)
    return Evaluation(tuple(pools), served, gpus, price, objective, theta)


def _objective(
    instance: MeshInstance, pools: list[Pool], gpus: Mapping[str, int], price: Fraction | None, theta: Fraction
) -> Fraction:
    if instance.objective == "gpus":
        return Fraction(sum(gpus.values()))
    if instance.objective == "price":
        assert price is not None
        return price
    if instance.objective == "time":
        slowest = [as_written(pool.config.tpot_s or 0) for pool in pools if pool.config.decode_per_s > 0]
        return max(slowest, default=Fraction(0))
    return 1 / (theta * wanted_rate(instance))


def wanted_rate(instance: MeshInstance) -> Fraction:
    """Requests a second of all demands together, to which `theta` refers."""
    return sum((as_written(demand.workload.rate_per_s or 1) for demand in instance.demands), Fraction(0))


@kinds.expects(instance="moeopt.mesh.instance:MeshInstance", plan="moeopt.mesh.plan:MeshPlan")
def faults(instance: MeshInstance, plan: MeshPlan) -> list[str]:
    """Everything wrong with a plan; empty if nothing is.

    >>> from moeopt import mesh
    >>> from moeopt.llm import find
    >>> pool = mesh.Config(0, "decode", mesh.Shape("decode", "H100"), 1, {"H100": 2}, decode_per_s=10, name="D")
    >>> wanted = mesh.Demand(find("mixtral-8x7b"), mesh.Workload(1024, 256, rate_per_s=15))
    >>> h100 = mesh.GpuType.of("H100")
    >>> instance = mesh.MeshInstance([wanted], [h100], "gpus", families=("decode",), configs=[pool])
    >>> faults(instance, mesh.MeshPlan((mesh.Pool(pool, 2),)))
    []
    """
    try:
        evaluate(instance, plan)
    except PlanError as error:
        return list(error.faults)
    return []


def _by_key(instance: MeshInstance) -> dict[tuple[Any, ...], int]:
    if "by_key" not in instance.memo:
        instance.memo["by_key"] = {config.key: place for place, config in enumerate(configs_of(instance))}
    found: dict[tuple[Any, ...], int] = instance.memo["by_key"]
    return found


def _known(instance: MeshInstance, pool: Pool, found: list[str]) -> Pool | None:
    """The pool with the figures of the instance; what is wrong with it goes to `found`."""
    config = pool.config
    if pool.replicas < 1:
        found.append(f"{config.label}: {pool.replicas} replicas, must be at least 1")
    place = _by_key(instance).get(config.key)
    if place is None:
        found.append(f"{config.label} with batch {config.batch} is no configuration of this instance")
        found += [f"{config.label}: {reason}" for reason in breaches(instance, config)]
        return None
    ours = configs_of(instance)[place]
    for field in fields(Config):
        theirs, known = getattr(config, field.name), getattr(ours, field.name)
        if config is not ours and not same(theirs, known):
            found.append(f"{config.label}: {field.name} = {theirs!r}, the instance says {known!r}")
    found += [f"{ours.label}: {reason}" for reason in refusals(instance, place)]
    return Pool(ours, pool.replicas)


def same(theirs: Any, ours: Any) -> bool:
    """Whether two figures are the same but for rounding."""
    if isinstance(ours, float) and isinstance(theirs, int | float) and not isinstance(theirs, bool):
        return abs(theirs - ours) <= TOLERANCE * max(abs(theirs), abs(ours))
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return set(ours) == set(theirs) and all(same(theirs[key], ours[key]) for key in ours)
    if hasattr(ours, "__dataclass_fields__") and type(ours) is type(theirs):
        return all(same(getattr(theirs, one.name), getattr(ours, one.name)) for one in fields(ours))
    return bool(theirs == ours)
