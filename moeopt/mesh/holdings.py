"""What the layers of a stage put on one of the GPUs that share it: weights by part, and one sequence's cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from moeopt.cost.attention_sizes import attention_sizes
from moeopt.cost.roofline import Numerics
from moeopt.errors import Violations
from moeopt.llm.counts import Parts, parts_of
from moeopt.llm.facts import GROWING, LlmFacts
from moeopt.llm.memory import expert_bytes, layer_caches
from moeopt.llm.precision import FORMATS
from moeopt.mesh.shape import Shape

BF16_BYTES = 2.0


class Held(NamedTuple):
    """Bytes on one GPU of one stage: weights besides routed experts, those, redundant ones, one sequence's cache."""

    weights: float
    experts: float
    redundant: float
    kv: float


@dataclass(frozen=True)
class Bytes:
    """Bytes of one parameter by part, and of one routed expert of one layer."""

    outside: float
    embedding: float
    expert: float


@lru_cache(maxsize=256)
def bytes_of(llm: LlmFacts, numerics: Numerics | None) -> Bytes:
    """Bytes by numerics (all weights alike, no scales), or, for ``None``, as the checkpoint stores them.

    A checkpoint keeps embeddings in BF16 and experts with the scales of their blocks.

    Raises
    ------
    InstanceError
        A format or a size that is not known.

    >>> from moeopt.cost import FP8
    >>> from moeopt.llm import find
    >>> bytes_of(find("deepseek-v3"), FP8), bytes_of(find("deepseek-v3"), None)
    (Bytes(outside=1.0, embedding=1.0, expert=44040192.0), Bytes(outside=1.0, embedding=2.0, expert=44050944.0))
    """
    one = bytes_outside(llm, numerics)
    if numerics is not None:
        size = 0.0 if llm.dense else parts(llm).routed / (len(llm.moe_layers) * int(llm.experts or 1)) * one
        return Bytes(one, one, size)
    return Bytes(one, max(one, BF16_BYTES), 0.0 if llm.dense else float(expert_bytes(llm)))


def bytes_outside(llm: LlmFacts, numerics: Numerics | None) -> float:
    """Bytes of one parameter outside routed experts and embeddings; errors as of `bytes_of`.

    >>> from moeopt.llm import find
    >>> bytes_outside(find("gpt-oss-120b"), None), bytes_outside(find("gpt-oss-120b"), Numerics("fp8"))
    (2.0, 1.0)
    """
    if numerics is not None:
        return numerics.weight_bytes
    if llm.weight_format is None or llm.weight_format not in FORMATS:
        check = Violations(llm.name)
        rule = "is needed for the bytes of weights, and no source confirms it"
        check.add("weight_format", llm.weight_format or "not known", rule=rule, fix="Say how weights are stored")
        check.raise_if_any()
    return FORMATS[str(llm.weight_format)].bits / 8


@lru_cache(maxsize=256)
def parts(llm: LlmFacts) -> Parts:
    """`moeopt.llm.counts.parts_of`, kept."""
    return parts_of(llm)


@lru_cache(maxsize=4096)
def attention_weights(llm: LlmFacts, tp: int, out_tp: int) -> tuple[float, float, float]:
    """Parameters on one GPU of a full layer's attention, a linear layer's, and an index beside it.

    KV heads are copied beyond their number, MLA's down-projections and an index always.

    Raises
    ------
    InstanceError
        Sizes that are not known, attention whose weights no source counts, degrees that do not divide.
    """
    counted = parts(llm)
    at = llm.attention
    plain = replace(llm, attention=replace(at, linear=(), linear_kind=None, index_layers=()))
    full = attention_sizes(plain, tp=tp, out_tp=out_tp).weights
    if not at.linear:
        linear = 0.0
    else:
        of_full = (llm.layers - len(at.linear)) * attention_sizes(plain).weights
        linear = (counted.attention - of_full) / len(at.linear) / tp
    return full, linear, counted.index / len(at.index_layers) if at.index_layers else 0.0


@lru_cache(maxsize=256)
def layer_counts(llm: LlmFacts) -> tuple[tuple[int, ...], ...]:
    """For linear, index, dense and MoE layers: how many lie before each layer, and in all."""
    named = (llm.attention.linear, llm.attention.index_layers, llm.dense_layers, llm.moe_layers)
    return tuple(
        tuple(accumulate((layer in set_ for layer in range(llm.layers)), initial=0)) for set_ in map(frozenset, named)
    )


@lru_cache(maxsize=1024)
def cache_sums(llm: LlmFacts, tokens: int, kv: str) -> tuple[tuple[float, ...], ...]:
    """Bytes of one sequence's cache before each layer, and in all: split by heads, whole on every GPU, states."""
    caches = layer_caches(llm, tokens, kv)
    return tuple(
        tuple(accumulate((getattr(cache, part) for cache in caches), initial=0.0))
        for part in ("heads", "whole", "state")
    )


def cache_shares(llm: LlmFacts, *, tp: int, tokens_over: int = 1) -> tuple[float, float, float]:
    """Parts of those three that one of `tp` GPUs keeps, when tokens are dealt over `tokens_over` further ones.

    A GPU keeps at least one whole KV head, and the whole of what all heads share; states are no tokens.

    >>> from moeopt.llm import find
    >>> cache_shares(find("llama-3.1-405b"), tp=16), cache_shares(find("deepseek-v3"), tp=8, tokens_over=2)
    ((0.125, 1.0, 0.0625), (0.0625, 0.5, 0.125))
    """
    at = llm.attention
    heads = 1 / tp
    if at.kind in GROWING:
        llm.need("attention.kv_heads", why="to split its cache")
        heads = 1 / min(tp, int(at.kv_heads or 1))
    return heads / tokens_over, 1 / tokens_over, 1 / tp


def even_stages(layers: int, pp: int) -> tuple[int, ...]:
    """Layers of each stage, as equal as can be, larger ones first.

    >>> even_stages(61, 4)
    (16, 15, 15, 15)
    """
    each, rest = divmod(layers, pp)
    return tuple(each + (stage < rest) for stage in range(pp))


def runs(layers_of_stage: Sequence[int]) -> list[tuple[int, int]]:
    """First layer of each stage, and the first of the next.

    >>> runs((2, 1))
    [(0, 2), (2, 3)]
    """
    ends = list(accumulate(layers_of_stage))
    return list(zip([0, *ends], ends, strict=False))


@lru_cache(maxsize=8192)
def held_by(
    shape: Shape,
    llm: LlmFacts,
    numerics: Numerics | None,
    counts: tuple[int, ...],
    kept_tokens: int,
    kv: str,
    mtp: bool,
) -> tuple[Held, ...]:
    """What each stage, of so many layers each, holds on one of its GPUs; MTP layers on the last one where `mtp`."""
    one, counted = bytes_of(llm, numerics), parts(llm)
    ffn = shape.ffn_gpus if shape.ffn_gpus is not None else shape.stage_gpus
    long = shape.role == "long"
    out_tp, vocab_tp = (ffn, shape.stage_gpus) if long else (shape.tp, shape.tp)
    full, linear, index = attention_weights(llm, shape.tp, out_tp)
    linears, indexes, denses, moes = layer_counts(llm)
    caches = cache_sums(llm, kept_tokens, kv)
    shares = cache_shares(llm, tp=shape.tp, tokens_over=shape.kvp * shape.cp)
    dense = counted.dense / max(len(llm.dense_layers), 1) / shape.dense_tp
    beside = (counted.router + counted.shared / shape.dense_tp) / max(len(llm.moe_layers), 1)
    slot = one.expert / shape.ep / shape.moe_tp
    experts, redundant = int(llm.experts or 0) * slot, shape.redundant * slot
    embedding, head = counted.embedding / vocab_tp, (counted.head or counted.embedding) / vocab_tp
    found = []
    for start, end in runs(counts):
        layers, moe = end - start, moes[end] - moes[start]
        of_linear = linears[end] - linears[start]
        weights = (layers - of_linear) * full + of_linear * linear + (indexes[end] - indexes[start]) * index
        weights += (denses[end] - denses[start]) * dense + moe * beside
        held_kv = sum((part[end] - part[start]) * share for part, share in zip(caches, shares, strict=True))
        vocabulary = embedding if start == 0 else 0.0
        if end == llm.layers and (counted.head or start > 0):
            vocabulary += head  # one matrix does for both ends where they are tied and share a stage
        if mtp and end == llm.layers and llm.mtp_layers:
            weights += llm.mtp_layers * (full + beside + 2 * int(llm.hidden or 0) ** 2)
            moe += llm.mtp_layers
            last = sum((part[end] - part[end - 1]) * share for part, share in zip(caches, shares, strict=True))
            held_kv += llm.mtp_layers * last
        found.append(Held(weights * one.outside + vocabulary * one.embedding, moe * experts, moe * redundant, held_kv))
    return tuple(found)
