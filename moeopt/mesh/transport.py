"""Memory that the all-to-all of experts takes on a GPU, by transport; affine in the tokens of a step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from moeopt.cost.buffers import (
    ALIGNMENT_BYTES,
    NODE_PEERS,
    SCALE_BLOCK,
    low_latency_buffer_bytes,
    normal_buffer_bytes,
    receive_tensor_bytes,
)
from moeopt.cost.dispatch import token_bytes
from moeopt.errors import Violations
from moeopt.llm.facts import LlmFacts
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.shape import Shape

TRANSPORTS = ("auto", "deepep-normal", "deepep-ll", "allgather", "nvl-domain", "none")
"""What an instance may name; ``none`` counts no buffers at all."""


@dataclass(frozen=True)
class Buffers:
    """Bytes on one GPU: ``base + tokens x slope + prompt_tokens x prompt_slope``, tokens of this GPU in one step.

    Decoding and prefill have slopes of their own, as one replica may send either in its own way.
    """

    transport: str
    base: float = 0.0
    slope: float = 0.0
    prompt_slope: float = 0.0

    def bytes(self, tokens: float, prompt_tokens: float = 0.0) -> float:
        """At so many decoded tokens, and prompt tokens."""
        return self.base + self.slope * tokens + self.prompt_slope * prompt_tokens


def transport_of(shape: Shape, gpu: GpuType, asked: str = "auto") -> str:
    """Which transport a shape uses; ``none`` where one GPU has all experts.

    ``auto``: ``allgather`` where experts are split (moe_tp > 1), ``nvl-domain`` within one scale-up domain, else
    ``deepep-ll`` for decoding, ``deepep-normal`` for prefill; both where one replica does both.

    Raises
    ------
    InstanceError
        A name that is none of `TRANSPORTS`.

    >>> h800 = GpuType.of("H800")
    >>> [transport_of(Shape(role, "H800", dp=n, ep=n), h800) for role in ("prefill", "decode") for n in (8, 16)]
    ['nvl-domain', 'deepep-normal', 'nvl-domain', 'deepep-ll']
    """
    if asked not in TRANSPORTS:
        check = Violations()
        check.add("transport", asked, rule=f"is not one of {', '.join(TRANSPORTS)}", fix="Use one of these")
        check.raise_if_any()
    spread = shape.ep * shape.moe_tp
    if spread == 1:
        return "none"
    if asked != "auto":
        return asked
    if shape.moe_tp > 1 or shape.ep == 1:
        return "allgather"
    if spread <= gpu.domain_gpus:
        return "nvl-domain"
    by_role = {"prefill": "deepep-normal", "colocated": "deepep-both"}
    return by_role.get(shape.role, "deepep-ll")


def buffers_of(shape: Shape, llm: LlmFacts, gpu: GpuType, asked: str = "auto", *, overlap: bool = False) -> Buffers:
    """What the transport reserves on each GPU.

    Parameters
    ----------
    shape, llm, gpu, asked
        As in `transport_of`.
    overlap
        Two micro-batches at once: what holds received tokens is there twice.

    Returns
    -------
    Buffers
        ``deepep-normal`` windows of a fixed size and received tokens; ``nvl-domain`` the same within one domain;
        ``deepep-ll`` both halves of the registered buffer and the tensor that takes received tokens, each with room
        for all tokens of all ranks at every expert; ``allgather`` the tokens of all GPUs, gathered and to be reduced.

    Notes
    -----
    Strength: exact for the layouts of `moeopt.cost.buffers`; received tokens of normal mode by even routing: ``top_k``
    copies a token at most, in BF16.

    >>> from moeopt.llm import find
    >>> decode = Shape("decode", "H800", dp=144, ep=144, redundant=32)
    >>> round(buffers_of(decode, find("deepseek-v3"), GpuType.of("H800")).bytes(128) / 1e9, 3)
    2.419
    """
    transport = transport_of(shape, gpu, asked)
    if transport == "none" or llm.dense:
        return Buffers("none")
    llm.need("dispatch_width", "experts", "top_k", why="for the buffers of the all-to-all")
    width, experts, top_k = int(llm.dispatch_width or 0), int(llm.experts or 0) + shape.redundant, int(llm.top_k or 1)
    twice = 2 if overlap else 1
    if transport == "allgather":
        gathered = 2 * 2.0 * width * shape.ep * shape.moe_tp * twice
        return Buffers(transport, 0.0, gathered, gathered)
    received = 2.0 * width * min(top_k, shape.ep) * twice
    if transport in ("nvl-domain", "deepep-normal"):
        return Buffers(transport, _normal(width, shape.ep, transport == "nvl-domain"), received, received)
    base, slope = _low_latency(experts, width)
    slope += experts * _received(width) * twice
    if transport == "deepep-both":
        base += _normal(width, shape.ep, inside=True)  # the network's part lies in the same registered buffer
        return Buffers(transport, base, slope, received)
    return Buffers(transport, base, slope, slope)


@lru_cache(maxsize=1024)
def _normal(width: int, ranks: int, inside: bool) -> int:
    return normal_buffer_bytes(hidden=width, ranks=min(ranks, NODE_PEERS) if inside else ranks)


@lru_cache(maxsize=1024)
def _low_latency(experts: int, hidden: int) -> tuple[float, float]:
    """Base and slope of the registered buffer: its formula is affine in tokens, up to one alignment.

    It knows ranks by the experts they bring only, so one rank stands for any number.
    """
    few, many = (
        low_latency_buffer_bytes(max_tokens=tokens, hidden=hidden, experts=experts, ranks=1)
        for tokens in (ALIGNMENT_BYTES, 2 * ALIGNMENT_BYTES)
    )
    slope = (many - few) / ALIGNMENT_BYTES
    return few - slope * ALIGNMENT_BYTES, slope


@lru_cache(maxsize=1024)
def _received(hidden: int) -> int:
    """Bytes of the tensor of received tokens, for each of a rank's tokens and each expert of the group."""
    copy = int(token_bytes(hidden, 1, scale_block=SCALE_BLOCK))
    return receive_tensor_bytes(local_experts=1, max_tokens=1, ranks=1, copy_bytes=copy)
