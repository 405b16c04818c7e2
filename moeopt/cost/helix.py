"""Helix: attention split over heads and over the cache, the FFN over all GPUs; pure TP and Medha are special cases.

``N = tpa kvp`` GPUs hold the cache (`tpa` splits heads, `kvp` the tokens). Pure TP is ``kvp = 1``; Medha gathers the
FFN on `ffn_gpus` of them. Source: N. Bhatia et al., arXiv 2507.07120, sections 2 and 3 and appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.attention_sizes import kv_copies
from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, divides, not_negative, positive, whole
from moeopt.cost.collectives import collective_bytes
from moeopt.cost.constants import NVL72_COLLECTIVE_S
from moeopt.cost.decode import ACTIVATION_BYTES, StepTime, layers_of
from moeopt.cost.layer_works import layer_decode
from moeopt.cost.links import Link
from moeopt.cost.memory import kv_bytes_per_gpu, sequences_that_fit, weights_per_gpu
from moeopt.cost.operators import dense_ffn, lm_head, moe_ffn
from moeopt.cost.roofline import FP4, Machine, Numerics, operators_s
from moeopt.errors import Violations
from moeopt.llm.facts import LlmFacts

NVL72 = Link(NVL72_COLLECTIVE_S, 720e9)
"""What a GPU of an NVL72 rack reaches: 3 us a collective whatever the GPUs, 0.8 of 900 GB/s in one direction."""


@dataclass(frozen=True)
class Split:
    """How N GPUs are split in both phases of a layer.

    Parameters
    ----------
    tpa, kvp
        GPUs over heads and over tokens of the cache; N is their product.
    ffn_gpus
        GPUs of output projection and FFN, a divisor of N; ``None`` takes all (Helix).
    ep
        GPUs over which experts are spread, a divisor of `ffn_gpus`; the rest splits each expert. 1 for dense LLMs.

    Raises
    ------
    InstanceError
        Degrees below 1 or that do not divide.

    >>> Split(8, 8).gpus, Split(8, 8, ffn_gpus=8).ffn
    (64, 8)
    """

    tpa: int
    kvp: int = 1
    ffn_gpus: int | None = None
    ep: int = 1

    def __post_init__(self) -> None:
        check = Violations()
        whole(check, tpa=self.tpa, kvp=self.kvp, ep=self.ep)
        if self.ffn_gpus is not None:
            whole(check, ffn_gpus=self.ffn_gpus)
        if not check.found:
            divides(check, "ffn_gpus", self.ffn, "tpa x kvp", self.gpus)
            divides(check, "ep", self.ep, "ffn_gpus", self.ffn)
        check.raise_if_any()

    @property
    def gpus(self) -> int:
        """N."""
        return self.tpa * self.kvp

    @property
    def ffn(self) -> int:
        """GPUs of the FFN."""
        return self.gpus if self.ffn_gpus is None else self.ffn_gpus


@checked
def interleaved_tokens(*, context_tokens: int, ranks: int, block: int = 16) -> list[int]:
    """Tokens of one sequence's cache on every KVP rank when blocks are dealt out in turn.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Strength: exact; no two ranks differ by more than one block. Source: section 2.3, blocks of 16.

    >>> interleaved_tokens(context_tokens=1000, ranks=4)
    [256, 256, 248, 240]
    """
    check = Violations()
    whole(check, 0, context_tokens=context_tokens)
    whole(check, ranks=ranks, block=block)
    check.raise_if_any()
    rounds, rest = divmod(context_tokens, ranks * block)
    return [rounds * block + min(max(rest - rank * block, 0), block) for rank in range(ranks)]


@checked
def merge_bytes(*, sequences: Number, width: int, tpa: int, kvp: int, element_bytes: float = 2.0) -> float:
    """Bytes a GPU sends a layer to merge partial attention, whatever the context: ``B width / tpa (kvp - 1) / kvp s``.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    sequences, width
        Batch, and elements of the attention output of one token, all heads (16,384 of Llama 405B).
    tpa, kvp
        The grid; each GPU keeps ``1 / kvp`` of its heads' partial outputs.
    element_bytes
        Of one element. The log-sum-exps, one number a head and token, are left out: below 1 % for heads of 128.

    Notes
    -----
    Strength: exact for the outputs. Source: section 2.1.2.

    >>> merge_bytes(sequences=16, width=16384, tpa=8, kvp=2)
    32768.0
    """
    check = Violations()
    not_negative(check, sequences=sequences)
    whole(check, width=width, tpa=tpa, kvp=kvp)
    positive(check, element_bytes=element_bytes)
    check.raise_if_any()
    return float(sequences) * width / tpa * (kvp - 1) / kvp * float(element_bytes)


@checked
def merge_s(facts: LlmFacts, split: Split, *, sequences: Number, link: Link = NVL72) -> float:
    """Seconds that the all-to-alls of all layers with a cache take in one step; 0 without KV parallelism.

    >>> from moeopt.llm import find
    >>> round(merge_s(find("llama-3.1-405b"), Split(8, 8), sequences=1) * 1e6, 1)  # 126 times 3 us and a little
    378.6
    """
    facts.need("attention.heads", why="for the all-to-all of partial attention")
    at = facts.attention
    dim = at.v_dim if at.kind == "mla" else at.head_dim
    width = int(at.heads or 0) * int(dim or 0)
    size = merge_bytes(sequences=sequences, width=width, tpa=split.tpa, kvp=split.kvp)
    return (facts.layers - len(at.linear)) * link.time_s(size) if split.kvp > 1 else 0.0


@checked
def helix_decode(
    facts: LlmFacts,
    machine: Machine,
    split: Split,
    *,
    sequences: Number,
    context_tokens: Number,
    link: Link = NVL72,
    numerics: Numerics = FP4,
    overhead_s: float = 0.0,
    head: bool = True,
    hop_b: bool = False,
) -> StepTime:
    """One decode step (the TTL of the paper) of long contexts on N GPUs.

    Parameters
    ----------
    facts, machine, split
        Sizes of the LLM, one of the GPUs, and how they are split.
    sequences, context_tokens
        Batch of all N GPUs, and tokens of context of each.
    link
        Within the domain: a fixed time a collective, and the bandwidth reached.
    numerics, overhead_s, head
        Formats (FP4), launches a layer, and whether the projection onto the vocabulary is read.
    hop_b
        Overlap the all-to-all of one sequence with the attention of the next, one latency serving the whole batch: all
        but one part in B of the shorter of both is hidden. Needs a whole number of sequences. With a latency for every
        message nothing may be gained: see the pipeline in `moeopt.microbatch`.

    Returns
    -------
    StepTime
        Per layer: attention (projections and cache in one roofline), FFN, one all-to-all if ``kvp > 1``, and two
        all-reduces of ``2 (n-1)/n B h 2`` bytes over the FFN's GPUs.

    Raises
    ------
    InstanceError
        Sizes not known; `tpa` that does not divide the heads; a link or machine without what is needed.

    Notes
    -----
    Strength: model. ``tpa`` beyond the KV heads copies them, which is why pure TP stops gaining. On fabrics whose
    latency grows with the GPUs (a ring) wide splits lose: give a `Link` whose latency says so.
    Source: appendix A for reads; lecture notes on MoE inference, section 5.5, for the constants.

    >>> from moeopt.llm import find
    >>> llama, gb200 = find("llama-3.1-405b"), Machine.of("GB200")
    >>> for split in (Split(8, 8), Split(8, 8, ffn_gpus=8), Split(64)):  # Helix, Medha, pure TP
    ...     print(round(helix_decode(llama, gb200, split, sequences=1, context_tokens=1e6).total_s * 1e3, 2))
    2.29
    5.39
    3.83
    """
    check = Violations()
    not_negative(check, sequences=sequences, context_tokens=context_tokens, overhead_s=overhead_s)
    if hop_b:
        whole(check, sequences=sequences)
    with check.within():
        kv_copies(facts, split.tpa)
    check.raise_if_any()
    facts.need("hidden", why="for the bytes of its collectives")
    attention = ffn = 0.0
    wide = int(facts.hidden or 0)
    for (kind, moe), layers in layers_of(facts).items():
        works = layer_decode(
            facts,
            kind,
            sequences=sequences,
            context_tokens=context_tokens,
            tp=split.tpa,
            kvp=split.kvp,
            out_tp=split.ffn,
            numerics=numerics,
        )
        attention += layers * operators_s(machine, works)
        if moe:
            inner = split.ffn // split.ep
            work = moe_ffn(facts, tokens=sequences, ep=split.ep, tp=inner, numerics=numerics)
        else:
            facts.need("dense_width", why="for the roofline of its dense layers")
            width = int(facts.dense_width or 0)
            work = dense_ffn(tokens=sequences, hidden=wide, width=width, tp=split.ffn, numerics=numerics)
        ffn += layers * machine.time_s(work)
    size = float(collective_bytes("all_reduce", float(sequences) * wide * ACTIVATION_BYTES, ranks=split.ffn))
    reduced = 2 * facts.layers * link.time_s(size) if split.ffn > 1 else 0.0
    sent = merge_s(facts, split, sequences=sequences, link=link)
    vocabulary = lm_head(facts, tokens=sequences, tp=split.gpus, numerics=numerics)
    last = machine.time_s(vocabulary) if head else 0.0
    hidden = (int(sequences) - 1) * min(attention, sent) / int(sequences) if hop_b else 0.0
    overhead = facts.layers * float(overhead_s)
    return StepTime(float(sequences), attention, ffn, sent + reduced, overhead, last, hidden)


@checked
def helix_sequences(
    facts: LlmFacts, machine: Machine, split: Split, *, context_tokens: int, numerics: Numerics = FP4
) -> int:
    """Largest batch whose caches fit beside the weights on the GPU that holds most, under the machine's usable part.

    Strength: exact for counted weights (no scales, no norms), up to one block of tokens. 0 if the weights do not fit.

    >>> from moeopt.llm import find
    >>> llama, gb200 = find("llama-3.1-405b"), Machine.of("GB200")
    >>> splits = Split(8, 8), Split(8, 8, ffn_gpus=8), Split(64)
    >>> [helix_sequences(llama, gb200, split, context_tokens=10**6) for split in splits]
    [80, 70, 10]
    """
    weights = weights_per_gpu(
        facts,
        tp=split.tpa,
        out_tp=split.ffn,
        ffn_tp=split.ffn,
        ep=split.ep,
        expert_tp=split.ffn // split.ep,
        vocab_tp=split.gpus,
        numerics=numerics,
    )
    one = kv_bytes_per_gpu(facts, context_tokens=context_tokens, tp=split.tpa, kvp=split.kvp, kv=numerics.kv)
    return sequences_that_fit(
        memory_bytes=machine.memory_bytes,
        weights_bytes=weights.total,
        kv_bytes_per_sequence=one,
        usable=machine.efficiency.usable_memory,
    )
