"""What an LLM has besides its layers with experts: time of dense layers, weights and caches in a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.cost import Machine
    from moeopt.llm import LlmFacts
    from moeopt.microbatch import MicrobatchInstance

LEAST_S = 1e-12
"""Stands for a limit that dense layers alone use up: no modelled time is as short."""


@dataclass(frozen=True)
class Dense:
    """Layers without experts, which take the whole batch at once, outside the pipeline.

    Parameters
    ----------
    layers, moe
        How many there are, and how many have experts.
    seconds
        What all dense layers take together, by the tokens of a step.
    """

    layers: int
    moe: int
    seconds: Callable[[int], float]

    @property
    def said(self) -> str:
        """The dense layers, counted."""
        return f"{self.layers} dense layer{'' if self.layers == 1 else 's'}"


@dataclass(frozen=True)
class Room:
    """Memory for sequences beside the weights, as far as an LLM and its GPUs say it.

    Parameters
    ----------
    bytes_per_sequence, memory_bytes
        What one sequence keeps, and what there is for all; on one GPU, or on all attention nodes together.
    beside, kept
        What was assumed of weights, and of caches.
    """

    bytes_per_sequence: float
    memory_bytes: float
    beside: str
    kept: str

    @property
    def note(self) -> str:
        """All that was assumed, and the largest batch that fits."""
        most = int(self.memory_bytes // self.bytes_per_sequence) if self.bytes_per_sequence else None
        fits = "any batch fits" if most is None else f"a batch of at most {most:,} fits"
        return f"{self.beside}; {self.kept}: {fits}; --memory and --kv-bytes say otherwise"

    @property
    def note_without_cache(self) -> str:
        """What was assumed where --kv-bytes says what a sequence keeps."""
        return f"{self.beside}; --memory says otherwise"


def dense_of(facts: LlmFacts, machine: Machine, numerics: Any, *, context: int) -> Dense | None:
    """The dense layers of one GPU, as `moeopt.cost.ep_decode` counts them; ``None`` for an LLM without any."""
    from moeopt.cost import OVERHEAD_S, layer_decode, operators_s
    from moeopt.cost.decode import ffn_s, layers_of

    kinds = {kind: count for (kind, moe), count in layers_of(facts).items() if not moe}
    if not kinds:
        return None

    def seconds(batch: int) -> float:
        ffn = ffn_s(facts, machine, moe=False, tokens=batch, numerics=numerics)
        total = 0.0
        for kind, count in kinds.items():
            works = layer_decode(facts, kind, sequences=batch, context_tokens=context, numerics=numerics)
            total += count * (operators_s(machine, works) + ffn + OVERHEAD_S)
        return total

    seconds(1)  # a size that is not known is said before anything else
    return Dense(sum(kinds.values()), len(facts.moe_layers), seconds)


def room_together(facts: LlmFacts, machine: Machine, numerics: Any, *, context: int, ep: int) -> Room:
    """One GPU that has attention, dense layers and its part of the experts."""
    from moeopt.cost import kv_bytes_per_gpu, weights_per_gpu

    weights = weights_per_gpu(facts, ep=ep, numerics=numerics).total
    kv = kv_bytes_per_gpu(facts, context_tokens=context)
    return _room(machine, weights, kv, gpus=1, context=context, what="weights and caches of a GPU")


def room_apart(
    facts: LlmFacts,
    machine: Machine,
    experts: Machine,
    numerics: Any,
    *,
    context: int,
    nodes: int,
    tp_a: int,
    tp_e: int,
) -> Room:
    """All attention nodes together; experts, one on a node of its own, must fit there."""
    from moeopt.cost import kv_bytes_per_gpu, weights_per_gpu

    held = weights_per_gpu(facts, tp=tp_a, ep=int(facts.experts or 1), expert_tp=tp_e, numerics=numerics)
    if held.routed > experts.usable_bytes():
        rule = f"an expert of all layers has {held.routed / 1e9:.4g} GB a GPU, {_usable(experts)}"
        raise InstanceError([Violation("--tp-e", "", str(tp_e), rule, "Share it over more GPUs")])
    kv = kv_bytes_per_gpu(facts, context_tokens=context, tp=tp_a) * tp_a
    what = "weights without routed experts, and caches, of the attention nodes"
    return _room(machine, held.total - held.routed, kv, gpus=nodes * tp_a, context=context, what=what)


def _room(machine: Machine, weights: float, kv: float, *, gpus: int, context: int, what: str) -> Room:
    free = machine.usable_bytes() - weights
    if free <= 0:
        rule = f"its weights take {weights / 1e9:.4g} GB of a GPU, {_usable(machine)}"
        raise InstanceError([Violation("--gpu", "", machine.name, rule, "Use more GPUs, or --weights fp8")])
    on = "" if gpus == 1 else f" on each of {gpus} GPUs"
    beside = f"memory: {what}; {_usable(machine)}, weights take {weights / 1e9:.4g} GB of it{on}"
    return Room(kv, free * gpus, beside, f"a sequence of {context:,} tokens keeps {kv / 1e9:.4g} GB in BF16")


def _usable(machine: Machine) -> str:
    part = machine.efficiency.usable_memory
    return f"{machine.name} has {part:g} x {machine.memory_bytes / 1e9:.4g} GB"


def limited(
    build: Callable[..., MicrobatchInstance], dense: Dense, tbt_s: float
) -> tuple[MicrobatchInstance, list[str]]:
    """The instance whose limit is what dense layers leave of the TBT, and notes.

    An instance has one limit, and dense layers take longer with larger batches. The limit is that of the largest batch
    which fits, by memory and by its lower bound; larger ones are left out, as too slow with their own dense layers.
    """
    from moeopt.microbatch.bounds import bound
    from moeopt.microbatch.verify import fits_memory

    free = build()
    sizes = sorted({one.batch for one in free.candidates})

    def reachable(size: int) -> bool:
        left = tbt_s - dense.seconds(size)
        mine = [one for one in free.candidates if one.batch == size and fits_memory(free, one)]
        return any(float(bound(free, one).seconds) <= left for one in mine)

    largest = next((size for size in reversed(sizes) if reachable(size)), sizes[0])
    slow = [one for one in free.candidates if one.batch > largest and fits_memory(free, one)]
    changed: dict[str, Any] = {"tbt_slo_s": max(tbt_s - dense.seconds(largest), LEAST_S)}
    notes = []
    if slow and free.batches is not None:
        changed["batches"] = [size for size in free.batches if size <= largest or size not in {s.batch for s in slow}]
        least = min(one.batch for one in slow)
        notes.append(f"batches from {least:,} on are left out: with their {dense.said} no m keeps --tbt")
    elif slow:
        changed["m"] = [count for count in free.m if count not in {one.m for one in slow}]
        notes.append(
            f"m from {min(one.m for one in slow)} on is left out: with the {dense.said} it does not keep --tbt"
        )
    notes.append(
        f"--tbt is held with the {dense.said}: tbt_slo_s is what they leave of it with a batch of {largest:,}, "
        f"{changed['tbt_slo_s']:.6g} s"
    )
    return build(**changed), notes
