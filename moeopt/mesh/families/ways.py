"""All shapes that one replica can have: every divisor, and one line for each degree that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moeopt.cost.roofline import Numerics
from moeopt.llm.facts import LlmFacts
from moeopt.mesh.degrees import cp_reasons, dense_reasons, divisors, moe_tp_reasons, tp_reasons
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.instance import Demand, MeshInstance
from moeopt.mesh.shape import Role, Shape

MOST_REPLICA = 384
"""GPUs of one replica at most where the stock does not say: beyond EP320, what is published ends."""


LONG_PROMPT = 8192
"""Computed tokens of a prompt from which context parallelism is looked at: below, one GPU's steps are short enough."""


@dataclass(frozen=True)
class Refused:
    """A shape that stands for all with a degree that cannot be, and why."""

    shape: Shape
    reasons: tuple[str, ...]


def ways(instance: MeshInstance, demand: Demand, gpu: GpuType, role: Role) -> tuple[list[Shape], list[Refused]]:
    """Shapes of replicas that break no rule, and refused degrees.

    Stages have a divisor of a server's GPUs, or whole servers; any number where there are fewer GPUs than a server's.
    Attention has any TP that divides the heads, within a domain or server; experts any EP for which slots divide
    evenly, each expert whole, or split within a domain or server. Pipelines have stages within a server; long prompts
    are split over any number of GPUs within a domain or server. Strength: exact enumeration of these.
    """
    llm, numerics = demand.llm, demand.numerics
    long = role == "prefill" and demand.workload.computed_tokens >= LONG_PROMPT
    most = min(gpu.stock if gpu.stock is not None else MOST_REPLICA, MOST_REPLICA)
    if gpu.network is None:
        most = min(most, gpu.domain_gpus)
    sizes = [size for size in range(1, most + 1) if _fills(size, most, gpu)]
    shapes: list[Shape] = []
    for size in sizes:
        for one in _stage(instance, llm, gpu, role, size, numerics, long):
            shapes.append(one)
            if size > gpu.node_gpus:
                continue
            stages = range(2, min(instance.most_pp, llm.layers, most // size) + 1)
            shapes += [one.staged(pp) for pp in stages]
    return shapes, _refused(llm, gpu, role, numerics, most)


def near(gpu: GpuType) -> int:
    """GPUs that tensor groups may span: a domain, or a server whose GPUs reach each other by the network or PCIe."""
    return gpu.domain_gpus if gpu.network is None else max(gpu.domain_gpus, gpu.node_gpus)


def _fills(size: int, most: int, gpu: GpuType) -> bool:
    """Whether stages of so many GPUs leave none of a server over."""
    node = gpu.node_gpus
    return size % node == 0 or (size < node and (node % size == 0 or most < node))


def _stage(
    instance: MeshInstance, llm: LlmFacts, gpu: GpuType, role: Role, size: int, numerics: Numerics | None, long: bool
) -> Iterator[Shape]:
    for tp in divisors(size):
        if tp > near(gpu) or tp_reasons(llm, tp, numerics) or (llm.dense and tp < size and not long):
            continue
        split = [1, tp] if llm.dense_layers or llm.shared_experts else [tp]
        widths = [degree for degree in dict.fromkeys(split) if not dense_reasons(llm, degree, numerics)]
        if llm.dense:
            widths = [degree for degree in widths if degree == tp]
        for moe_tp in [1] if llm.dense else divisors(size):
            if moe_tp > 1 and (size > near(gpu) or moe_tp_reasons(llm, moe_tp, numerics)):
                continue
            ep = 1 if llm.dense else size // moe_tp
            splits = [cp for cp in divisors(size // tp) if not cp_reasons(llm, cp)] if long else [1]
            splits = [cp for cp in splits if not llm.dense or tp * cp == size]
            for extra in [0] if llm.dense else redundancies(instance, int(llm.experts or 0), ep):
                grid = [(dense_tp, cp) for dense_tp in widths for cp in splits]
                for dense_tp, cp in grid:
                    if tp * cp > near(gpu):
                        continue
                    yield Shape(
                        role,
                        gpu.name,
                        tp=tp,
                        dp=size // tp // cp,
                        cp=cp,
                        ep=ep,
                        moe_tp=moe_tp,
                        dense_tp=dense_tp,
                        redundant=extra,
                    )


def redundancies(instance: MeshInstance, experts: int, ep: int) -> list[int]:
    """Numbers of redundant experts to look at: those of the instance that divide, else the two smallest.

    >>> from moeopt.llm import find
    >>> from moeopt.mesh.instance import MeshInstance, demand_of
    >>> one = MeshInstance((demand_of(find("deepseek-v3"), (4096, 1024)),), (GpuType.of("H800", stock=8),), "goodput")
    >>> redundancies(one, 256, 144), redundancies(one, 256, 32), redundancies(one, 256, 1)
    ([32, 176], [0, 32], [0])
    """
    most = experts * (ep - 1)
    if instance.redundant is not None:
        return [extra for extra in instance.redundant if (experts + extra) % ep == 0 and extra <= most]
    least = -experts % ep
    return [extra for extra in (least, least + ep) if extra <= most]


def _refused(llm: LlmFacts, gpu: GpuType, role: Role, numerics: Numerics | None, most: int) -> list[Refused]:
    found = []
    for tp in range(2, min(near(gpu), most) + 1):
        reasons = tp_reasons(llm, tp, numerics)
        if reasons and _fills(tp, most, gpu):
            ep = 1 if llm.dense else tp
            shape = Shape(role, gpu.name, tp=tp, ep=ep, dense_tp=tp)
            found.append(Refused(shape, tuple(f"tp = {tp}: {reason}" for reason in reasons)))
    if llm.dense:
        return found
    for moe_tp in range(2, min(near(gpu), most) + 1):
        reasons = moe_tp_reasons(llm, moe_tp, numerics)
        if reasons and _fills(moe_tp, most, gpu):
            shape = Shape(role, gpu.name, dp=moe_tp, moe_tp=moe_tp)
            found.append(Refused(shape, tuple(f"moe_tp = {moe_tp}: {reason}" for reason in reasons)))
    return found
