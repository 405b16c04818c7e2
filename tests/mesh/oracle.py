"""The best purchase by trying all of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from moeopt.mesh import MeshInstance
from moeopt.mesh.plan import MeshPlan, plan_of
from moeopt.mesh.verify import evaluate, faults


def number(value: float) -> Fraction:
    return Fraction(str(value))


def best(instance: MeshInstance, most: int) -> tuple[Fraction, int] | None:
    """Least objective and, of equals, fewest GPUs, over plans of up to `most` replicas of each usable configuration."""
    configs = instance.configs or ()
    usable = [place for place, one in enumerate(configs) if not faults_alone(instance, place)]
    found: list[tuple[Fraction, int]] = []
    for counts in product(*(range(limit(instance, place, most) + 1) for place in usable)):
        plan = plan_of(instance, dict(zip(usable, counts, strict=True)))
        if plan.pools and not faults(instance, plan):
            judged = evaluate(instance, plan)
            found.append((judged.objective, sum(judged.gpus.values())))
    return min(found, default=None)


def limit(instance: MeshInstance, place: int, most: int) -> int:
    """Replicas beyond which the stock ends, or everything is served by it alone."""
    config = (instance.configs or ())[place]
    rooms = [
        (instance.gpu(name).stock or 0) // count
        for name, count in config.gpus.items()
        if instance.gpu(name).stock is not None
    ]
    rate = max(number(config.prefill_per_s), number(config.decode_per_s))
    wanted = instance.demands[config.demand].workload.rate_per_s
    if instance.objective != "goodput":
        alone = 1 if wanted is None else -(-number(wanted) // rate)
        rooms.append(int(alone))
    return min([*rooms, most])


def faults_alone(instance: MeshInstance, place: int) -> bool:
    """Whether a configuration is refused whatever it is bought with."""
    config = (instance.configs or ())[place]
    slo = instance.demands[config.demand].slo
    late = slo.tpot_s is not None and config.tpot_s is not None and config.tpot_s > slo.tpot_s
    return bool(config.reasons) or late


def empty() -> MeshPlan:
    return MeshPlan(())
