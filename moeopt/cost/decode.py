"""Seconds of one decode step: rooflines of all layers, collectives and launches, under TP or under EP."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, positive, whole
from moeopt.cost.collectives import collective_s
from moeopt.cost.constants import OVERHEAD_S
from moeopt.cost.layer_works import layer_decode
from moeopt.cost.links import Link
from moeopt.cost.operators import dense_ffn, lm_head, moe_ffn
from moeopt.cost.roofline import BF16, FP8, Machine, Numerics, operators_s
from moeopt.cost.touched import touched_experts
from moeopt.errors import Violations
from moeopt.llm.facts import LlmFacts
from moeopt.llm.layer_kinds import LayerKind, layer_kinds

ACTIVATION_BYTES = 2
"""Bytes of one activation in an all-reduce: BF16."""


@dataclass(frozen=True)
class StepTime:
    """Where one decode step goes, seconds of all layers together.

    Parameters
    ----------
    sequences
        Sequences that get a token, of the group (TP) or of one GPU (EP).
    attention_s, ffn_s, communication_s, overhead_s, head_s
        Parts as if nothing overlapped.
    hidden_s
        What overlapping takes off their sum.
    """

    sequences: float
    attention_s: float
    ffn_s: float
    communication_s: float
    overhead_s: float
    head_s: float = 0.0
    hidden_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds of the step: also the time between two tokens of one sequence."""
        parts = self.attention_s + self.ffn_s + self.communication_s + self.overhead_s + self.head_s
        return parts - self.hidden_s

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second of all `sequences`."""
        return self.sequences / self.total_s if self.total_s else 0.0


@checked
def tp_decode(
    facts: LlmFacts,
    machine: Machine,
    *,
    sequences: Number,
    context_tokens: Number,
    tp: int,
    link: Link | None = None,
    numerics: Numerics = BF16,
    overhead_s: float = OVERHEAD_S,
    router: bool = True,
    head: bool = False,
) -> StepTime:
    """One decode step of an LLM on `tp` GPUs: per layer attention, FFN, two ring all-reduces and a fixed overhead.

    Parameters
    ----------
    facts, machine
        Sizes of the LLM (dense or MoE), and one of the GPUs.
    sequences, context_tokens
        Batch of the group, and tokens of context of each.
    tp, link
        GPUs of the group, and what joins them, with its latency and the bandwidth that it reaches.
    numerics, overhead_s
        Formats, and seconds of launches a layer.
    router, head
        Whether routers and the projection onto the vocabulary count.

    Raises
    ------
    InstanceError
        Sizes not known, degrees that do not divide heads, `tp` above 1 without a `link`, negative numbers.

    Notes
    -----
    Strength: model. ``L (max_attention + max_ffn + 2 (2 (p-1) alpha + 2 (p-1)/p B h 2 / beta) + o)``, every maximum
    over computing and reading of one operator. Source: lecture notes on MoE inference, sections 2.2 and 2.3; with
    `Efficiency`, 2 us, 10 us and no routers it gives their 30,144 and 18,624 tokens/s.

    >>> from moeopt.llm import find
    >>> nvlink = Link(alpha_s=2e-6, bytes_per_s=0.8 * 450e9)
    >>> llama, h100 = find("llama-3-70b"), Machine.of("H100")
    >>> round(tp_decode(llama, h100, sequences=1296, context_tokens=1024, tp=8, link=nvlink).tokens_per_s)
    18624
    """
    check = Violations()
    not_negative(check, sequences=sequences, context_tokens=context_tokens, overhead_s=overhead_s)
    whole(check, tp=tp)
    if not check.found and tp > 1 and link is None:
        check.add("link", None, rule=f"is needed between {tp} GPUs", fix="Give a Link")
    check.raise_if_any()
    facts.need("hidden", why="for the bytes of its collectives")
    attention = ffn = 0.0
    own = {"sequences": sequences, "context_tokens": context_tokens, "tp": tp}
    for (kind, moe), layers in layers_of(facts).items():
        attention += layers * operators_s(machine, layer_decode(facts, kind, numerics=numerics, **own))  # type: ignore[arg-type]
        ffn += layers * ffn_s(facts, machine, moe=moe, tokens=sequences, tp=tp, numerics=numerics, router=router)
    size = float(sequences) * int(facts.hidden or 0) * ACTIVATION_BYTES
    once = collective_s("all_reduce", size, ranks=tp, link=link) if link is not None else 0.0
    vocabulary = lm_head(facts, tokens=sequences, tp=tp, numerics=numerics) if head else None
    return StepTime(
        float(sequences),
        attention,
        ffn,
        2 * facts.layers * once,
        facts.layers * float(overhead_s),
        machine.time_s(vocabulary) if vocabulary is not None else 0.0,
    )


@checked
def ep_decode(
    facts: LlmFacts,
    machine: Machine,
    *,
    sequences: Number,
    context_tokens: Number,
    ep: int,
    link: Link,
    numerics: Numerics = FP8,
    dispatch_bytes: float = 1.0,
    combine_bytes: float = 2.0,
    copies: float | None = None,
    slots: int | None = None,
    load: float = 1.0,
    overhead_s: float = OVERHEAD_S,
    dual: bool = False,
) -> StepTime:
    """One decode step with data-parallel attention on each GPU and experts over `ep` of them.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    facts, machine
        An MoE model, and one of the GPUs.
    sequences, context_tokens
        Sequences of one GPU, and tokens of context of each.
    ep, link
        GPUs of the group; the port of one of them, with its latency once an all-to-all and the bandwidth it reaches.
    numerics, dispatch_bytes, combine_bytes
        Formats; bytes of an element sent to experts (FP8) and sent back (BF16).
    copies
        Vectors that a token sends to other GPUs; ``None`` counts every (token, expert) pair, ``k (D-1)/D``. Where a
        token is sent once a GPU, ``touched_units(...) (D-1)/D``: 4 % (EP64) to 23 % (EP16) less for DeepSeek-V3.
    slots
        Experts that each GPU holds, redundant ones included; needed where GPUs outnumber experts. Every replica is
        taken as equally likely. ``None``: ``E / ep``.
    load
        Selections of the busiest GPU over the mean: it computes more, and its port receives more.
    overhead_s
        Seconds of launches a layer and micro-batch.
    dual
        Two micro-batches of half the sequences: one computes while the other communicates. Weights are read twice.

    Notes
    -----
    Strength: model. Plain, an MoE layer takes ``attention + experts + 2 all-to-alls + o``; dual,
    ``max(2 computing(n/2), 2 communicating(n/2)) + 2 o``. One all-to-all sends ``n copies load`` vectors. Dense
    layers do not communicate. No head. Source: lecture notes on MoE inference, section 3.2; the overlap is that of the
    DeepSeek-V3 report, section 3.4.

    >>> from moeopt.llm import find
    >>> port = Link(alpha_s=5e-6, bytes_per_s=40e9)
    >>> v3, h800 = find("deepseek-v3"), Machine.of("H800", bytes_per_s=3.35e12)
    >>> [round(ep_decode(v3, h800, sequences=155, context_tokens=4096, ep=64, link=port, dual=d).tokens_per_s)
    ...  for d in (False, True)]
    [2357, 3701]
    """
    check = Violations()
    not_negative(check, sequences=sequences, context_tokens=context_tokens, overhead_s=overhead_s)
    not_negative(check, dispatch_bytes=dispatch_bytes, combine_bytes=combine_bytes)
    positive(check, load=load)
    whole(check, ep=ep)
    if copies is not None:
        not_negative(check, copies=copies)
    if slots is not None:
        whole(check, slots=slots)
        if not check.found and slots * ep < int(facts.experts or 0):
            near = -(-int(facts.experts or 0) // ep)
            rule = f"on {ep} GPUs are fewer than {facts.experts} experts"
            check.add("slots", slots, rule=rule, fix=f"Use at least {near}")
    facts.need_experts("decoding under expert parallelism")
    check.raise_if_any()
    facts.need("top_k", "dispatch_width", why="for the bytes of its all-to-alls")
    parts, own = 2 if dual else 1, float(sequences)
    each = own / parts
    attention = ffn = communication = overhead = hidden = 0.0
    for (kind, moe), layers in layers_of(facts).items():
        count = each if moe else own  # dense layers run on the whole batch
        works = layer_decode(facts, kind, sequences=count, context_tokens=context_tokens, numerics=numerics)
        one = operators_s(machine, works)
        read = None
        if slots is not None:
            held = slots * ep
            read = touched_experts(experts=held, top_k=int(facts.top_k or 0), tokens=float(count) * ep) / ep
        two = ffn_s(facts, machine, moe=moe, tokens=count, ep=ep, load=load, touched=read, numerics=numerics)
        times = layers * (parts if moe else 1)
        attention, ffn, overhead = attention + times * one, ffn + times * two, overhead + times * float(overhead_s)
        if moe and ep > 1:
            pairs = int(facts.top_k or 0) * (ep - 1) / ep
            vectors = each * (pairs if copies is None else copies) * load
            size = vectors * int(facts.dispatch_width or 0) * (dispatch_bytes + combine_bytes)
            sent = link.time_s(size, steps=2)
            communication += times * sent
            hidden += times * min(one + two, sent) if dual else 0.0
    return StepTime(own, attention, ffn, communication, overhead, hidden_s=hidden)


def layers_of(facts: LlmFacts) -> Counter[tuple[LayerKind, bool]]:
    """How many layers have this kind of attention, with experts or without: layers of one kind take equally long.

    >>> from moeopt.llm import find
    >>> [(moe, layers) for (_, moe), layers in layers_of(find("deepseek-v3")).items()]
    [(False, 3), (True, 58)]
    """
    moe = set(facts.moe_layers)
    return Counter((kind, layer in moe) for layer, kind in enumerate(layer_kinds(facts)))


def ffn_s(
    facts: LlmFacts,
    machine: Machine,
    *,
    moe: bool,
    tokens: Number,
    tp: int = 1,
    ep: int = 1,
    load: float = 1.0,
    touched: float | None = None,
    router: bool = True,
    numerics: Numerics = BF16,
) -> float:
    """Seconds of the FFN of one layer for so many tokens of this GPU: experts over `ep`, or a dense one."""
    if moe:
        everybody = float(tokens) * ep
        work = moe_ffn(
            facts, tokens=everybody, ep=ep, tp=tp, load=load, touched=touched, router=router, numerics=numerics
        )
        return machine.time_s(work)
    facts.need("hidden", "dense_width", why="for the roofline of its dense layers")
    hidden, width = int(facts.hidden or 0), int(facts.dense_width or 0)
    return machine.time_s(dense_ffn(tokens=tokens, hidden=hidden, width=width, tp=tp, numerics=numerics))
