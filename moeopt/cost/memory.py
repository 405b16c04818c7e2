"""What lies in a GPU's memory: weights by part, the cache of a sequence, how many sequences fit, GPUs for weights."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from moeopt.cost.attention_sizes import kv_copies
from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, fraction, not_negative, positive, whole
from moeopt.cost.layer_works import layer_weights
from moeopt.cost.roofline import BF16, Numerics
from moeopt.errors import Violations
from moeopt.llm.counts import parts_of
from moeopt.llm.facts import GROWING, LlmFacts
from moeopt.llm.layer_kinds import layer_kinds
from moeopt.llm.memory import kv_bytes, layer_caches


@dataclass(frozen=True)
class Weights:
    """Bytes of weights on one GPU, by part."""

    attention: float
    router: float
    routed: float
    shared: float
    dense: float
    embedding: float
    head: float
    latent: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        ffn = self.router + self.latent + self.routed + self.shared + self.dense
        return self.attention + ffn + self.embedding + self.head


@checked
def weights_per_gpu(
    facts: LlmFacts,
    *,
    tp: int = 1,
    out_tp: int | None = None,
    ffn_tp: int | None = None,
    ep: int = 1,
    expert_tp: int = 1,
    extra_slots: int = 0,
    vocab_tp: int | None = None,
    router: bool = True,
    numerics: Numerics = BF16,
) -> Weights:
    """Bytes of weights that one GPU holds.

    Parameters
    ----------
    facts
        Sizes; MTP layers are not counted.
    tp, out_tp
        GPUs over which attention heads, and its output projections (default `tp`), are split. KV heads are copied
        beyond their number; MLA's down-projections are copied always.
    ffn_tp, vocab_tp
        GPUs over which dense and shared FFNs, and both embeddings, are split; default `tp`.
    ep, expert_tp
        GPUs over which routed experts, and the inner width of each, are split.
    extra_slots
        Redundant experts of every MoE layer on this GPU.
    router
        Whether routers count (copied on every GPU); sources that leave them out are 0.02 % lower.
    numerics
        Stored format of all weights.

    Raises
    ------
    InstanceError
        A size not known, counts below 1, degrees that do not divide the heads.

    Notes
    -----
    Strength: exact for the counted parts; the scales of blocks and norms are left out. An EP that does not divide the
    experts gives the mean GPU.

    >>> from moeopt.llm import find
    >>> from moeopt.cost.roofline import FP8
    >>> w = weights_per_gpu(find("deepseek-v3"), ep=128, router=False, numerics=FP8)
    >>> round(w.routed / 1e9, 2), round((w.total - w.routed) / 1e9, 2)
    (5.11, 17.01)
    """
    ffn, vocab = (tp if value is None else value for value in (ffn_tp, vocab_tp))
    check = Violations()
    whole(check, ffn_tp=ffn, vocab_tp=vocab, ep=ep, expert_tp=expert_tp)
    whole(check, 0, extra_slots=extra_slots)
    attention = 0.0
    with check.within():
        kv_copies(facts, tp)
        kinds = Counter(layer_kinds(facts))
        attention = sum(n * layer_weights(facts, kind, tp=tp, out_tp=out_tp) for kind, n in kinds.items())
    check.raise_if_any()
    parts, one = parts_of(facts), numerics.weight_bytes
    held = parts.routed * (1 / ep + (extra_slots / int(facts.experts or 1) if extra_slots else 0.0))
    return Weights(
        attention=attention * one,
        router=parts.router * one if router else 0.0,
        routed=held / expert_tp * one,
        shared=parts.shared / ffn * one,
        dense=parts.dense / ffn * one,
        embedding=parts.embedding / vocab * one,
        head=parts.head / vocab * one,
        latent=parts.latent * one,
    )


@checked
def cache_shares(facts: LlmFacts, *, tp: int, tokens_over: int = 1) -> tuple[float, float, float]:
    """Parts of keys and values of heads, of what heads share, and of states that one of `tp` GPUs keeps.

    A GPU keeps at least one whole KV head, and the whole of what all heads share; tokens are dealt over `tokens_over`
    further GPUs, and states are no tokens.

    >>> from moeopt.llm import find
    >>> cache_shares(find("llama-3.1-405b"), tp=16), cache_shares(find("deepseek-v3"), tp=8, tokens_over=2)
    ((0.125, 1.0, 0.0625), (0.0625, 0.5, 0.125))
    """
    at = facts.attention
    heads = 1 / tp
    if at.kind in GROWING:
        facts.need("attention.kv_heads", why="to split its cache")
        heads = 1 / min(tp, int(at.kv_heads or 1))
    return heads / tokens_over, 1 / tokens_over, 1 / tp


@checked
def kv_bytes_per_gpu(facts: LlmFacts, *, context_tokens: int, tp: int = 1, kvp: int = 1, kv: str = "bf16") -> float:
    """Bytes that the cache of one sequence takes on one GPU: all layers, heads over `tp`, tokens over `kvp`.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Copies count: GQA keeps at least one whole KV head a GPU, MLA the whole latent (`kv_copies`); an index is whole,
    states are split by their heads. Strength: exact, up to one block of tokens under `kvp`. Source:
    `moeopt.llm.kv_bytes`; Helix (arXiv 2507.07120), section 2.

    >>> from moeopt.llm import find
    >>> per = [kv_bytes_per_gpu(find("llama-3.1-405b"), context_tokens=10**6, tp=t, kvp=k, kv="fp4") for t, k in
    ...        ((1, 1), (16, 1), (8, 2))]
    >>> [round(x / 1e9, 2) for x in per]
    [129.02, 16.13, 8.06]
    """
    check = Violations()
    whole(check, 0, context_tokens=context_tokens)
    whole(check, kvp=kvp)
    copies = 1
    with check.within():
        copies = kv_copies(facts, tp)
    check.raise_if_any()
    at = facts.attention
    if not (at.linear or at.index_layers or at.kind == "compressed"):
        return kv_bytes(facts, int(context_tokens), kv) * copies / tp / kvp
    shares = cache_shares(facts, tp=tp, tokens_over=kvp)
    layers = layer_caches(facts, int(context_tokens), kv)
    parts = [sum(getattr(layer, part) for layer in layers) for part in ("heads", "whole", "state")]
    return float(sum(part * share for part, share in zip(parts, shares, strict=True)))


@checked
def sequences_that_fit(
    *,
    memory_bytes: Number,
    weights_bytes: Number,
    kv_bytes_per_sequence: Number,
    usable: float = 0.9,
    reserve_bytes: Number = 0,
) -> int:
    """Sequences whose caches fit beside the weights: ``floor((usable M - reserve - weights) / kv)``; 0 if none does.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    memory_bytes, weights_bytes, kv_bytes_per_sequence
        Of one GPU (or of a group, all three).
    usable
        Part of the capacity that weights and caches may take, above 0 and at most 1.
    reserve_bytes
        Taken off besides: transport buffers, graphs, activations.

    Notes
    -----
    Strength: exact, in fractions; decimals count as they are written (0.9 is nine tenths).

    >>> sequences_that_fit(memory_bytes=80e9, weights_bytes=72e9 - 10, kv_bytes_per_sequence=4)
    2
    """
    check = Violations()
    positive(check, memory_bytes=memory_bytes, kv_bytes_per_sequence=kv_bytes_per_sequence)
    not_negative(check, weights_bytes=weights_bytes, reserve_bytes=reserve_bytes)
    fraction(check, usable=usable)
    check.raise_if_any()
    free = _exact(usable) * _exact(memory_bytes) - _exact(reserve_bytes) - _exact(weights_bytes)
    return max(0, math.floor(free / _exact(kv_bytes_per_sequence)))


@checked
def gpus_for_weights(*, params: Number, bytes_per_param: Number, memory_bytes: Number, usable: float = 0.9) -> int:
    """Fewest GPUs that hold these weights split evenly: ``ceil(params bytes / (usable memory))``.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    params, bytes_per_param
        Number of parameters (`moeopt.llm.parameters`) and bytes of each.
    memory_bytes
        Capacity of one GPU, bytes.
    usable
        Part of it for weights. State it: with 1.0 nothing is left for caches, activations or the driver.

    Notes
    -----
    Strength: exact, in fractions; a lower bound on what serving needs, which also keeps caches and whole experts.

    >>> [gpus_for_weights(params=671e9, bytes_per_param=b, memory_bytes=80e9) for b in (2, 1)]
    [19, 10]
    >>> gpus_for_weights(params=671e9, bytes_per_param=2, memory_bytes=80e9, usable=1.0)
    17
    """
    check = Violations()
    not_negative(check, params=params)
    positive(check, bytes_per_param=bytes_per_param, memory_bytes=memory_bytes)
    fraction(check, usable=usable)
    check.raise_if_any()
    return math.ceil(_exact(params) * _exact(bytes_per_param) / (_exact(usable) * _exact(memory_bytes)))


def _exact(value: Number) -> Fraction:
    """The number as it is written: 0.9 is 9/10, and not the nearest float."""
    return Fraction(value) if not isinstance(value, float) else Fraction(repr(float(value)))
