"""Memory of a shape: what lies on the GPU that holds most, how many sequences fit beside it, and what binds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moeopt.cost.memory import cache_shares
from moeopt.cost.roofline import Numerics
from moeopt.errors import Violations
from moeopt.llm.facts import LlmFacts
from moeopt.mesh.config import Binds, Memory
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.holdings import Held, cache_sums, even_stages, held_by
from moeopt.mesh.instance import MOST_BATCH
from moeopt.mesh.shape import ApartShape, Shape
from moeopt.mesh.transport import Buffers, buffers_of


@dataclass(frozen=True)
class Room:
    """What a shape holds before a batch is chosen, stage by stage.

    Parameters
    ----------
    stages
        What each stage holds.
    buffers
        Of the all-to-all.
    tokens_per_sequence
        Tokens of one GPU and step for each sequence of its data-parallel rank.
    prompt_tokens
        Tokens of one GPU and step whatever the batch: a chunk of prefill.
    reserve, usable
        Bytes kept free, and bytes that may be used.
    """

    stages: tuple[Held, ...]
    buffers: Buffers
    tokens_per_sequence: float
    prompt_tokens: float
    reserve: float
    usable: float

    def at(self, sequences: int) -> Memory:
        """Memory of the GPU that holds most at so many sequences of a data-parallel rank."""
        return max((self._of(stage, sequences) for stage in self.stages), key=lambda memory: memory.used)

    def fits(self, sequences: int) -> bool:
        """Whether so many fit."""
        return self.at(sequences).free >= 0

    def most(self) -> int:
        """Most that fit, -1 where not even the weights do: memory is affine in the batch, on every stage."""
        slope = self.buffers.slope * self.tokens_per_sequence
        free = self.usable - self.reserve - self.buffer_bytes(0)
        found = MOST_BATCH * MOST_BATCH
        for weights, experts, redundant, kv in self.stages:
            left = free - weights - experts - redundant
            if left < 0:
                return -1
            if kv + slope > 0:
                found = min(found, int(left / (kv + slope)))
        while found > 0 and not self.fits(found):
            found -= 1
        return found + 1 if self.fits(found + 1) else found

    def buffer_bytes(self, sequences: int) -> float:
        """Buffers at so many sequences."""
        return self.buffers.bytes(self.tokens_per_sequence * sequences, self.prompt_tokens)

    def _of(self, stage: Held, sequences: int) -> Memory:
        weights, experts, redundant, kv = stage
        buffers = self.buffer_bytes(sequences)
        return Memory(weights, experts, redundant, kv * sequences, buffers, self.reserve, self.usable)


def memory_of(shape: Shape, llm: LlmFacts, gpu: GpuType, *, sequences: int, kept_tokens: int, **rest: Any) -> Memory:
    """Bytes of the GPU that holds most, by part, at a batch; `rest` as of `room_of`.

    >>> from moeopt.cost import FP8
    >>> from moeopt.llm import find
    >>> decode, h800 = Shape("decode", "H800", dp=144, ep=144, redundant=32), GpuType.of("H800")
    >>> memory = memory_of(decode, find("deepseek-v3"), h800, sequences=64, kept_tokens=5120, numerics=FP8)
    >>> [round(part / 1e9, 1) for part in (memory.weights, memory.experts, memory.redundant, memory.kv, memory.free)]
    [17.1, 4.5, 0.6, 23.0, 25.5]
    """
    return room_of(shape, llm, gpu, kept_tokens=kept_tokens, **rest).at(sequences)


def room_of(
    shape: Shape,
    llm: LlmFacts,
    gpu: GpuType,
    *,
    kept_tokens: int,
    chunk: int = 0,
    numerics: Numerics | None = None,
    kv: str | None = None,
    transport: str = "auto",
    draft: int = 0,
    overlap: bool = False,
    reserve_bytes: float = 0.0,
    stages: Sequence[int] | None = None,
) -> Room:
    """What a shape holds at any batch.

    Parameters
    ----------
    shape, llm, gpu
        A shape without `moeopt.mesh.rules.faults`.
    kept_tokens
        Tokens that a sequence keeps: its prompt and its answer.
    chunk
        Prompt tokens of a data-parallel rank in one step; 0 where nothing is prefilled.
    numerics, kv
        Formats of weights (``None``: as the checkpoint stores them, with scales) and of the cache (default: that of
        the numerics, else BF16).
    transport
        As in `moeopt.mesh.transport.transport_of`.
    draft
        Tokens drafted a step; above 0 the checkpoint's MTP layers are loaded and keep a cache of their own, and linear
        layers keep a state for each of them.
    overlap
        Two micro-batches at once.
    reserve_bytes
        Kept free besides.
    stages
        Layers of each pipeline stage; default as equal as can be. `moeopt.mesh.stages` gives better ones.

    Returns
    -------
    Room
        `Room.at` a batch is a `Memory`.

    Raises
    ------
    InstanceError
        A size that is not known, attention whose weights no source counts, stages that do not cover the layers.

    Notes
    -----
    Strength: exact for what is counted: weights of every part, MTP layers, redundant experts, caches with their
    copies, buffers of the transport. Norms are left out, and scales where numerics are given. Activations, graphs and
    fragments are in the unusable part and the reserve. With ``pp`` stages all sequences of a rank are in flight, a
    ``pp``-th of them in a step. An EP that does not divide gives the mean GPU.
    """
    own_kv = kv or (numerics.kv if numerics is not None else "bf16")
    counts = _stages(llm, shape.pp, stages)
    held = held_by(shape, llm, numerics, counts, kept_tokens, own_kv, draft > 0, 1 + draft)
    # A decoding rank's tokens are dealt over the GPUs that share its attention before they are dispatched.
    share = shape.tp * shape.cp * shape.kvp
    decoding = 0.0 if shape.role == "prefill" else (1 + draft) / shape.pp / share
    usable = gpu.machine.usable_bytes()
    buffers = buffers_of(shape, llm, gpu, transport, overlap=overlap)
    return Room(held, buffers, decoding, chunk / share, float(reserve_bytes), usable)


def most_sequences(room: Room, most: int = MOST_BATCH) -> tuple[int, Binds]:
    """Most sequences of a data-parallel rank that fit, at most `most`, and what binds; 0 if none does.

    ``kv`` or ``buffer``, whichever a further sequence takes more of; ``most`` where that many fit.

    Strength: exact.

    >>> from moeopt.cost import FP4
    >>> from moeopt.llm import find
    >>> helix = Shape("long", "GB200", tp=8, kvp=8, dense_tp=64)
    >>> room = room_of(helix, find("llama-3.1-405b"), GpuType.of("GB200"), kept_tokens=10**6, numerics=FP4)
    >>> most_sequences(room), most_sequences(room, most=50)
    ((80, 'kv'), (50, 'most'))
    """
    fit = room.most()
    if fit >= most:
        return most, "most"
    buffer = room.buffers.slope * room.tokens_per_sequence
    binds: Binds = "buffer" if buffer > max(stage.kv for stage in room.stages) else "kv"
    return max(fit, 0), binds


def cache_tokens(shape: Shape, llm: LlmFacts, *, free_bytes: float, kv: str = "bf16") -> int:
    """Tokens of long sequences that the GPUs of one stage keep together, each with so many bytes free.

    Strength: exact up to windows and states. Every rank of attention keeps tokens of its own; GPUs that split heads
    share them, or hold copies.

    >>> from moeopt.llm import find
    >>> deepseek = find("deepseek-v3")
    >>> ways = Shape("decode", "H200", tp=8), Shape("decode", "H200", dp=8)
    >>> [cache_tokens(way, deepseek, free_bytes=40 * 2**30) for way in ways]
    [611191, 4889528]
    """
    far = 1 << 30
    heads, whole, _ = (sums[-1] for sums in cache_sums(llm, far, kv))
    of_heads, of_whole, _ = cache_shares(llm, tp=shape.tp, tokens_over=shape.kvp * shape.cp)
    one = (heads * of_heads + whole * of_whole) / far
    return int(free_bytes // one) * shape.dp if one else 0


def memory_apart(
    shape: ApartShape,
    llm: LlmFacts,
    gpu: GpuType,
    expert_gpu: GpuType,
    *,
    sequences: int,
    kept_tokens: int,
    numerics: Numerics | None = None,
    kv: str | None = None,
    reserve_bytes: float = 0.0,
) -> tuple[Memory, Memory]:
    """Bytes of an attention GPU and of an expert GPU, where experts are apart.

    Parameters
    ----------
    shape, llm, gpu, expert_gpu
        The instance.
    sequences
        Of one attention node and micro-batch: a node keeps the caches of ``m`` times as many.
    kept_tokens, numerics, kv, reserve_bytes
        As in `room_of`.

    Notes
    -----
    Strength: exact for weights and caches, shared experts and dense layers on the attention side; what is sent has a
    place on both sides in BF16, there and back, for every micro-batch, at even routing.

    >>> from moeopt.cost import BF16
    >>> from moeopt.llm import find
    >>> shape = ApartShape("H20", "L40S", tp_a=4, n_a=4, tp_e=2, n_e=8, m=3)
    >>> sides = memory_apart(shape, find("mixtral-8x7b"), GpuType.of("H20"), GpuType.of("L40S"), sequences=32,
    ...                      kept_tokens=730, numerics=BF16)
    >>> [round(part / 1e9, 2) for side in sides for part in (side.weights, side.experts, side.kv)]
    [0.8, 0.0, 2.3, 0.0, 5.64, 0.0]
    """
    llm.need_experts("experts apart")
    llm.need("dispatch_width", "top_k", "experts", why="for what both sides exchange")
    own_kv = kv or (numerics.kv if numerics is not None else "bf16")
    inner = Shape("decode", shape.gpu, tp=shape.tp_a, dense_tp=shape.tp_a, ep=shape.n_e, moe_tp=shape.tp_e)
    held = held_by(inner, llm, numerics, (llm.layers,), kept_tokens, own_kv, False)[0]
    redundant = held.experts * shape.redundant / int(llm.experts or 1)
    copies = 2 * 2.0 * int(llm.dispatch_width or 0) * int(llm.top_k or 1) * sequences * shape.m
    attention = Memory(
        held.weights,
        0.0,
        0.0,
        held.kv * sequences * shape.m,
        copies / shape.tp_a,
        float(reserve_bytes),
        gpu.machine.usable_bytes(),
    )
    experts = Memory(
        0.0,
        held.experts,
        redundant,
        0.0,
        copies * shape.n_a / shape.n_e,
        float(reserve_bytes),
        expert_gpu.machine.usable_bytes(),
    )
    return attention, experts


def _stages(llm: LlmFacts, pp: int, stages: Sequence[int] | None) -> tuple[int, ...]:
    if stages is None:
        return even_stages(llm.layers, pp)
    counts = tuple(stages)
    if len(counts) != pp or sum(counts) != llm.layers or min(counts) < 0:
        check = Violations(llm.name)
        rule = f"must be {pp} numbers of layers that add up to {llm.layers}"
        check.add("stages", str(counts), rule=rule, fix=f"Use {even_stages(llm.layers, pp)}")
        check.raise_if_any()
    return counts
