"""What the layers of a stage put on one of the GPUs that share it: weights by part, and one sequence's cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from moeopt.cost.layer_works import layer_weights
from moeopt.cost.memory import cache_shares
from moeopt.cost.roofline import Numerics
from moeopt.errors import Violations
from moeopt.llm.counts import Parts, parts_of
from moeopt.llm.facts import LlmFacts
from moeopt.llm.layer_kinds import LayerKind, draft_kind, layer_kinds
from moeopt.llm.memory import LayerCache, expert_bytes, layer_caches
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
def attention_weights(llm: LlmFacts, kind: LayerKind, tp: int, out_tp: int) -> float:
    """`moeopt.cost.layer_weights`, kept."""
    return layer_weights(llm, kind, tp=tp, out_tp=out_tp)


@lru_cache(maxsize=256)
def layer_counts(llm: LlmFacts) -> tuple[tuple[int, ...], ...]:
    """For dense and MoE layers: how many lie before each layer, and in all."""
    named = (set(llm.dense_layers), set(llm.moe_layers))
    return tuple(_before([layer in ids for layer in range(llm.layers)]) for ids in named)


@lru_cache(maxsize=256)
def kind_counts(llm: LlmFacts) -> dict[LayerKind, tuple[int, ...]]:
    """For every kind of attention: how many layers of it lie before each layer, and in all."""
    kinds = layer_kinds(llm)
    return {kind: _before([one == kind for one in kinds]) for kind in dict.fromkeys(kinds)}


def _before(marks: Sequence[bool]) -> tuple[int, ...]:
    return tuple(accumulate(marks, initial=0))


@lru_cache(maxsize=1024)
def draft_cache(llm: LlmFacts, tokens: int, kv: str) -> LayerCache:
    """What one sequence keeps in one layer of multi-token prediction."""
    kind, kinds = draft_kind(llm), layer_kinds(llm)
    if kind in kinds:
        return layer_caches(llm, tokens, kv)[max(layer for layer, one in enumerate(kinds) if one == kind)]
    own = replace(llm.attention, ratios=(kind.ratio or 0,), index_layers=(), windowed=(0,))
    one_layer = replace(llm, layers=1, dense_layers=(), moe_layers=(0,), attention=own)
    return layer_caches(one_layer, tokens, kv)[0]


@lru_cache(maxsize=1024)
def cache_sums(llm: LlmFacts, tokens: int, kv: str) -> tuple[tuple[float, ...], ...]:
    """Bytes of one sequence's cache before each layer, and in all: split by heads, whole on every GPU, states."""
    caches = layer_caches(llm, tokens, kv)
    return tuple(
        tuple(accumulate((getattr(cache, part) for cache in caches), initial=0.0))
        for part in ("heads", "whole", "state")
    )


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
    states: int = 1,
) -> tuple[Held, ...]:
    """What each stage, of so many layers each, holds on one of its GPUs; MTP layers on the last one where `mtp`.

    A sequence keeps `states` states of every linear layer: one, and one more for each drafted token.
    """
    one, counted = bytes_of(llm, numerics), parts(llm)
    ffn = shape.ffn_gpus if shape.ffn_gpus is not None else shape.stage_gpus
    long = shape.role == "long"
    out_tp, vocab_tp = (ffn, shape.stage_gpus) if long else (shape.tp, shape.tp)
    kinds = [(before, attention_weights(llm, kind, shape.tp, out_tp)) for kind, before in kind_counts(llm).items()]
    denses, moes = layer_counts(llm)
    caches = cache_sums(llm, kept_tokens, kv)
    of_heads, of_whole, of_states = cache_shares(llm, tp=shape.tp, tokens_over=shape.kvp * shape.cp)
    shares = (of_heads, of_whole, of_states * states)
    dense = counted.dense / max(len(llm.dense_layers), 1) / shape.dense_tp
    beside = (counted.router + counted.latent + counted.shared / shape.dense_tp) / max(len(llm.moe_layers), 1)
    slot = one.expert / shape.ep / shape.moe_tp
    experts, redundant = int(llm.experts or 0) * slot, shape.redundant * slot
    embedding, head = counted.embedding / vocab_tp, (counted.head or counted.embedding) / vocab_tp
    found = []
    for start, end in runs(counts):
        moe = moes[end] - moes[start]
        weights = sum((before[end] - before[start]) * one_layer for before, one_layer in kinds)
        weights += (denses[end] - denses[start]) * dense + moe * beside
        held_kv = sum((part[end] - part[start]) * share for part, share in zip(caches, shares, strict=True))
        vocabulary = embedding if start == 0 else 0.0
        if end == llm.layers and (counted.head or start > 0):
            vocabulary += head  # one matrix does for both ends where they are tied and share a stage
        if mtp and end == llm.layers and llm.mtp_layers:
            own = attention_weights(llm, draft_kind(llm), shape.tp, out_tp)
            weights += llm.mtp_layers * (own + beside + 2 * int(llm.hidden or 0) ** 2)
            moe += llm.mtp_layers
            drafts = draft_cache(llm, kept_tokens, kv)
            held_kv += llm.mtp_layers * (drafts.heads * of_heads + drafts.whole * of_whole)
        found.append(Held(weights * one.outside + vocabulary * one.embedding, moe * experts, moe * redundant, held_kv))
    return tuple(found)
