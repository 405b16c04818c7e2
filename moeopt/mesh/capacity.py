"""Capacity: the fewest GPUs and nodes that hold an LLM and a request, what binds them, and how much is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from moeopt.cost.checks import not_negative, whole
from moeopt.cost.memory import gpus_for_weights
from moeopt.cost.roofline import Numerics
from moeopt.errors import InstanceError, Violations
from moeopt.llm.counts import routed_parameters
from moeopt.llm.facts import LlmFacts
from moeopt.llm.memory import slot_bytes
from moeopt.mesh.clock import look
from moeopt.mesh.config import Binds, Memory
from moeopt.mesh.degrees import allowed_tp, divisors
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.holdings import bytes_outside, held_by
from moeopt.mesh.instance import Demand
from moeopt.mesh.memory import Room, most_sequences, room_of
from moeopt.mesh.rules import faults
from moeopt.mesh.shape import Role, Shape

MOST_GPUS = 1024
"""GPUs up to which shapes are looked at."""
PREFILL_CHUNK = 8192
"""Prompt tokens of a rank and step where nobody says."""


@dataclass(frozen=True)
class Capacity:
    """The fewest GPUs of one type for one phase of a demand.

    Parameters
    ----------
    llm, gpu, role
        What is asked about.
    weights_bytes
        Of one copy of all weights.
    usable_bytes
        Of one GPU.
    weights_gpus
        GPUs that would hold the weights if they could be cut anywhere: a lower bound.
    gpus, nodes, shape
        Fewest GPUs that hold the weights and one request as some shape does, their nodes, and the shape with the most
        requests; ``None`` where none was found.
    whole_nodes
        Fewest GPUs that do so in whole nodes.
    memory, sequences, binds
        Of the GPU that holds most at one request; most sequences of a data-parallel rank; what binds them.
    said
        What is missing and what would do, in words, where the GPUs that are asked about are too few.
    """

    llm: str
    gpu: str
    role: Role
    weights_bytes: float
    usable_bytes: float
    weights_gpus: int
    gpus: int | None
    nodes: int | None
    shape: Shape | None
    whole_nodes: int | None
    memory: Memory | None
    sequences: int
    binds: Binds
    said: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether it fits the GPUs that were asked about (any number, if none was)."""
        return not self.said


def gigabytes(size: float) -> str:
    """Bytes in GB of 1e9 as people write them.

    >>> gigabytes(671e9), gigabytes(253.8e9), gigabytes(5.6e12)
    ('671 GB', '253.8 GB', '5,600 GB')
    """
    return f"{size / 1e9:,.1f}".removesuffix(".0") + " GB"


def weights_bytes_of(llm: LlmFacts, numerics: Numerics | None = None) -> float:
    """Bytes of one copy of all weights, MTP layers aside.

    Where no source counts the weights of attention, what its makers publish as the total stands for the rest; where
    they do not either, routed experts alone: a floor.

    Raises
    ------
    InstanceError
        Sizes of experts or a format that are not known.

    >>> from moeopt.cost import BF16
    >>> from moeopt.llm import find
    >>> [gigabytes(weights_bytes_of(find(name), BF16)) for name in ("deepseek-v3", "kimi-k3")]
    ['1,342.1 GB', '5,559 GB']
    """
    try:
        held = held_by(Shape("decode", ""), llm, numerics, (llm.layers,), 0, "bf16", False)[0]
        return held.weights + held.experts
    except InstanceError:
        if llm.dense:
            raise
    one, routed = bytes_outside(llm, numerics), routed_parameters(llm)
    experts = routed * one if numerics is not None else float(slot_bytes(llm) * int(llm.experts or 0))
    return experts + max(0.0, (llm.published_total_b or 0.0) * 1e9 - routed) * one


def weights_shortfall(weights_bytes: float, gpu: GpuType, gpus: int) -> tuple[str, ...]:
    """What is missing where weights alone do not fit so many GPUs, and how many would hold them; empty if they fit.

    Strength: exact; a lower bound on what serving needs.

    >>> for words in weights_shortfall(671e9, GpuType.of("H200"), 2):
    ...     print(words)
    671 GB of weights do not fit 253.8 GB (2 x H200 of 141 GB, 90 % usable): 417.2 GB are missing
    at least 6 such GPUs for the weights alone, 1 node of 8
    """
    check = Violations()
    not_negative(check, weights_bytes=weights_bytes)
    whole(check, gpus=gpus)
    check.raise_if_any()
    usable = gpu.machine.usable_bytes() * gpus
    if weights_bytes <= usable:
        return ()
    part = f"{100 * gpu.machine.efficiency.usable_memory:g} % usable"
    missing = f"{gigabytes(weights_bytes - usable)} are missing"
    there = f"{gigabytes(usable)} ({gpus} x {gpu.name} of {gigabytes(gpu.machine.memory_bytes)}, {part})"
    enough = weights_gpus(weights_bytes, gpu)
    return (
        f"{gigabytes(weights_bytes)} of weights do not fit {there}: {missing}",
        f"at least {enough} such GPUs for the weights alone, {_nodes(enough, gpu)}",
    )


def weights_gpus(weights_bytes: float, gpu: GpuType) -> int:
    """Fewest GPUs that hold so many bytes if they could be cut anywhere.

    >>> weights_gpus(2.8e12 * 2, GpuType.of("H200"))
    45
    """
    usable = gpu.machine.efficiency.usable_memory
    machine = gpu.machine.memory_bytes
    return max(1, gpus_for_weights(params=weights_bytes, bytes_per_param=1, memory_bytes=machine, usable=usable))


def fewest_gpus(
    demand: Demand,
    gpu: GpuType,
    *,
    role: Role = "decode",
    gpus: int | None = None,
    most_pp: int = 8,
    kv: str | None = None,
    transport: str = "auto",
    draft: int = 0,
    reserve_bytes: float = 0.0,
) -> Capacity:
    """The fewest GPUs of a type that hold the weights and one request, over all shapes without a fault.

    Parameters
    ----------
    demand, gpu
        What is served, on what.
    role
        Phase: ``prefill`` keeps the prompt only; ``long`` may split a cache over tokens.
    gpus
        GPUs there are (default: the stock); fewer than needed is said in `Capacity.said`.
    most_pp, kv, transport, draft, reserve_bytes
        As in an instance and in `moeopt.mesh.memory.room_of`.

    Returns
    -------
    Capacity
        Found or not; never an error for what is only too large.

    Notes
    -----
    Strength: exact over PP, TP x DP (x KVP), EP x MoE-TP with stages of equal layers; redundant experts only where EP
    does not divide the experts.

    >>> from moeopt.cost import FP8
    >>> from moeopt.llm import find
    >>> from moeopt.mesh.workload import Workload
    >>> found = fewest_gpus(Demand(find("deepseek-v3"), Workload(4096, 1024), numerics=FP8), GpuType.of("H200"), gpus=2)
    >>> found.weights_gpus, found.gpus, found.whole_nodes, found.shape.label
    (6, 6, 8, 'PP6 x TP1')
    """
    there = gpu.stock if gpus is None else gpus
    if gpus is not None:
        check = Violations()
        whole(check, 0, gpus=gpus)
        check.raise_if_any()
    llm, numerics = demand.llm, demand.numerics
    size = weights_bytes_of(llm, numerics)
    least = weights_gpus(size, gpu)
    kept = demand.workload.input_tokens if role == "prefill" else demand.workload.kept_tokens
    chunk = 0 if role in ("decode", "long") else min(demand.workload.input_tokens, PREFILL_CHUNK)
    free = replace(gpu, stock=None)
    rest: dict[str, Any] = {"numerics": numerics, "kv": kv, "transport": transport, "draft": draft}
    rest["reserve_bytes"] = reserve_bytes

    def fitting(number: int) -> list[tuple[Shape, Room]]:
        shapes = _shapes(llm, free, role, number, most_pp, numerics)
        rooms = ((shape, room_of(shape, llm, free, kept_tokens=kept, chunk=chunk, **rest)) for shape in shapes)
        return [(shape, room) for shape, room in rooms if room.most() >= 1]

    said: list[str] = []
    best, in_nodes = None, None
    try:
        best, in_nodes = _search(fitting, least, gpu.node_gpus)
    except InstanceError as error:
        said.append(str(error))
    found = best[0].gpus if best else None
    if found is None and not said:
        looked = f"no shape of up to {_most(least):,} GPUs holds the weights and one request of {kept:,} tokens"
        said.append(looked if least <= MOST_GPUS else f"shapes of more than {MOST_GPUS:,} GPUs are not looked at")
    if there is not None and (found is None or found > there):
        said = [*(weights_shortfall(size, gpu, there) if there else (f"there are no GPUs of {gpu.name}",)), *said]
        if best is not None and found is not None:
            request = f"weights and one request of {kept:,} tokens"
            said.append(f"{found} such GPUs hold {request}, {_nodes(found, gpu)}, as {best[0].label}")
    sequences, binds = most_sequences(best[1]) if best else (0, "none")
    return Capacity(
        llm=llm.name,
        gpu=gpu.name,
        role=role,
        weights_bytes=size,
        usable_bytes=gpu.machine.usable_bytes(),
        weights_gpus=least,
        gpus=found,
        nodes=-(-found // gpu.node_gpus) if found else None,
        shape=best[0] if best else None,
        whole_nodes=in_nodes,
        memory=best[1].at(1) if best else None,
        sequences=sequences,
        binds=binds,
        said=tuple(said),
    )


def _most(least: int) -> int:
    """Where the search gives up."""
    return min(max(4 * least, least + 64), MOST_GPUS)


def _search(
    fitting: Callable[[int], list[tuple[Shape, Room]]], least: int, node_gpus: int
) -> tuple[tuple[Shape, Room] | None, int | None]:
    """The shape with the most requests on the fewest GPUs, and the fewest GPUs in whole nodes."""
    best: tuple[Shape, Room] | None = None
    for number in range(least, _most(least) + 1):
        look()
        if best is not None and number % node_gpus:
            continue
        found = fitting(number)
        if found and best is None:
            best = max(found, key=lambda one: (one[0].dp * one[1].most(), -one[0].pp, one[0].ep))
        if found and number % node_gpus == 0:
            return best, number
    return best, None


def _shapes(
    llm: LlmFacts, gpu: GpuType, role: Role, number: int, most_pp: int, numerics: Numerics | None
) -> Iterator[Shape]:
    """All shapes of so many GPUs without a fault; the FFN outside experts is cut as attention, or over the stage."""
    for pp in divisors(number):
        if pp > most_pp:
            break
        stage = number // pp
        for tp in allowed_tp(llm, gpus=stage, numerics=numerics).allowed:
            for kvp in divisors(stage // tp) if role == "long" else (1,):
                dp = stage // tp // kvp
                if dp > 1 and (llm.dense or role == "long"):
                    continue  # another replica, which needs more and holds no more
                for ep in (1,) if llm.dense else divisors(stage):
                    moe_tp = 1 if llm.dense else stage // ep
                    redundant = -int(llm.experts or 0) % ep
                    for dense_tp in sorted({tp, stage}):
                        shape = Shape(role, gpu.name, pp, tp, dp, 1, kvp, ep, moe_tp, dense_tp, redundant)
                        if not faults(shape, llm, gpu, numerics):
                            yield shape


def _nodes(gpus: int, gpu: GpuType) -> str:
    nodes = -(-gpus // gpu.node_gpus)
    return f"{nodes} node{'s' if nodes > 1 else ''} of {gpu.node_gpus}"
