"""Attention and experts on GPUs of their own, as MegaScale-Infer has them: stage times and bytes between.

An instance has `n_a` attention nodes of `tp_a` GPUs, which are data-parallel copies, and one expert node of `tp_e` GPUs
for every expert. A micro-batch of b sequences an attention node brings ``b n_a k / E`` tokens to an expert node.
Source throughout: R. Zhu et al., MegaScale-Infer, arXiv 2504.02263, sections 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, is_number, not_negative, positive, top_k_of, whole
from moeopt.cost.collectives import collective_s
from moeopt.cost.constants import OVERHEAD_S
from moeopt.cost.decode import ACTIVATION_BYTES
from moeopt.cost.layer_works import full_kind, layer_decode
from moeopt.cost.links import Link
from moeopt.cost.roofline import BF16, Machine, Numerics, Work, operators_s
from moeopt.cost.touched import tokens_per_expert
from moeopt.errors import Violations
from moeopt.llm.facts import LlmFacts


@dataclass(frozen=True)
class StageTimes:
    """Seconds of one micro-batch in one layer: T_a, T_d, T_e, T_b; a ping-pong pipeline takes these four."""

    attention_s: float
    dispatch_s: float
    expert_s: float
    combine_s: float

    @property
    def round_trip_s(self) -> float:
        """R: one micro-batch through one layer, nothing else in the way."""
        return self.attention_s + self.dispatch_s + self.expert_s + self.combine_s

    @property
    def busiest_s(self) -> float:
        """M: the stage that sets the pace once the pipeline is full."""
        return max(self.attention_s, self.dispatch_s, self.expert_s, self.combine_s)


@checked
def attention_side_s(
    facts: LlmFacts,
    machine: Machine,
    *,
    sequences: Number,
    context_tokens: Number,
    tp_a: int = 1,
    link: Link | None = None,
    numerics: Numerics = BF16,
    overhead_s: float = OVERHEAD_S,
) -> float:
    """T_a: seconds of one layer's attention for the sequences of one attention node.

    Parameters
    ----------
    facts, machine, numerics
        Sizes of the LLM, a GPU of the attention node, formats.
    sequences, context_tokens
        Of one micro-batch on one node.
    tp_a, link
        GPUs of the node, and what joins them; one ring all-reduce a layer.
    overhead_s
        Seconds of launches.

    Notes
    -----
    Strength: model, a roofline with efficiencies; nearly linear in the sequences, the ``k1 b + k2`` of section 4.3.
    The router runs here and is left aside. The layer is one that keeps all tokens, with its index where it has one;
    raises `InstanceError` as `layer_decode` does.

    >>> from moeopt.llm import find
    >>> round(attention_side_s(find("dbrx"), Machine.of("A800"), sequences=428, context_tokens=651, tp_a=2,
    ...                        link=Link(2e-6, 160e9)) * 1e6)
    451
    """
    check = Violations()
    not_negative(check, overhead_s=overhead_s)
    with check.within():
        own = {"sequences": sequences, "context_tokens": context_tokens, "tp": tp_a}
        works = layer_decode(facts, full_kind(facts), numerics=numerics, **own)  # type: ignore[arg-type]
    _needs_link(check, "tp_a", tp_a, link)
    check.raise_if_any()
    size = float(sequences) * int(facts.hidden or 0) * ACTIVATION_BYTES
    reduced = collective_s("all_reduce", size, ranks=tp_a, link=link) if link is not None else 0.0
    return operators_s(machine, works) + reduced + float(overhead_s)


@checked
def expert_side_s(
    facts: LlmFacts,
    machine: Machine,
    *,
    tokens: Number,
    tp_e: int = 1,
    link: Link | None = None,
    numerics: Numerics = BF16,
    overhead_s: float = OVERHEAD_S,
) -> float:
    """T_e: seconds of one layer of one expert for so many tokens, on an expert node of `tp_e` GPUs.

    `overhead_s` are the seconds of launches.

    Parameters as in `attention_side_s`; `tokens` are those of the expert: ``b n_a k / E`` on average.

    Strength: model, a roofline with efficiencies, ``max(6 n h w / tp_e / F, 3 h w bytes / tp_e / B)``: linear once
    compute-bound, flat below. Raises `InstanceError` for a dense LLM, sizes not known, negative numbers.

    >>> from moeopt.llm import find
    >>> round(expert_side_s(find("dbrx"), Machine.of("A800"), tokens=321) * 1e6)
    593
    """
    facts.need_experts("seconds of an expert")
    facts.need("dispatch_width", "expert_width", why="for the roofline of an expert")
    check = Violations()
    not_negative(check, tokens=tokens, overhead_s=overhead_s)
    whole(check, tp_e=tp_e)
    _needs_link(check, "tp_e", tp_e, link)
    check.raise_if_any()
    wide = int(facts.dispatch_width or 0)
    weights = 3 * wide * int(facts.expert_width or 0) / tp_e
    work = Work(2 * float(tokens) * weights, weights * numerics.weight_bytes, numerics.ffn)
    size = float(tokens) * wide * ACTIVATION_BYTES
    reduced = collective_s("all_reduce", size, ranks=tp_e, link=link) if link is not None else 0.0
    return machine.time_s(work) + reduced + float(overhead_s)


@checked
def m2n_bytes(
    *, sequences: Number, experts: int, top_k: int, hidden: int, tp_a: int = 1, element_bytes: float = 2.0
) -> float:
    """Mean bytes that one attention GPU sends to one expert node a micro-batch and layer: ``b k / E h s / tp_a``.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    sequences, tp_a
        b sequences of the attention node, whose GPUs send equal parts.
    experts, top_k, hidden, element_bytes
        E, k, and elements of a token with the bytes of each.

    Notes
    -----
    Strength: exact mean for balanced experts. Source: section 5, 196,608 bytes for Mixtral 8x22B.

    >>> m2n_bytes(sequences=128, experts=8, top_k=2, hidden=6144, tp_a=2)
    196608.0
    """
    check = Violations()
    not_negative(check, sequences=sequences)
    top_k_of(check, experts=experts, top_k=top_k)
    whole(check, hidden=hidden, tp_a=tp_a)
    positive(check, element_bytes=element_bytes)
    check.raise_if_any()
    return float(sequences) * top_k / experts * hidden * float(element_bytes) / tp_a


@checked
def m2n_s(
    *,
    sequences: Number,
    nodes: int,
    experts: int,
    top_k: int,
    hidden: int,
    tp_a: int,
    tp_e: int,
    attention_port: Link,
    expert_port: Link | None = None,
    element_bytes: float = 2.0,
) -> float:
    """T_c: seconds of sending a micro-batch to the experts: the slower of one GPU's sending and one GPU's receiving.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    sequences, nodes
        b sequences of each of `nodes` attention nodes.
    tp_a, tp_e, attention_port, expert_port
        GPUs of a node of each kind, and the port of one GPU of each (the same unless given).
    experts, top_k, hidden, element_bytes
        As in `m2n_bytes`.

    Notes
    -----
    Strength: model of balanced experts, both directions alike (sending back moves the same bytes the other way).
    Source: section 4.2, equation 6: ``max(b k h s / tp_a / W_a, n_a b k / E h s / tp_e / W_e)``.

    >>> port = Link(alpha_s=0.0, bytes_per_s=20e9)
    >>> dbrx = {"experts": 16, "top_k": 4, "hidden": 6144}
    >>> round(m2n_s(sequences=428, nodes=3, **dbrx, tp_a=2, tp_e=1, attention_port=port) * 1e6)
    526
    """
    check = Violations()
    whole(check, nodes=nodes, tp_e=tp_e)
    one = 0.0
    with check.within():
        one = m2n_bytes(
            sequences=sequences, experts=experts, top_k=top_k, hidden=hidden, tp_a=tp_a, element_bytes=element_bytes
        )
    check.raise_if_any()
    received = one * tp_a * nodes / tp_e
    return max(attention_port.time_s(one * experts), (expert_port or attention_port).time_s(received))


@checked
def stage_times(
    facts: LlmFacts,
    *,
    attention: Machine,
    experts: Machine,
    sequences: Number,
    context_tokens: Number,
    nodes: int,
    tp_a: int,
    tp_e: int,
    attention_port: Link,
    expert_port: Link | None = None,
    attention_link: Link | None = None,
    expert_link: Link | None = None,
    numerics: Numerics = BF16,
    overhead_s: float = OVERHEAD_S,
) -> StageTimes:
    """All four stages of one micro-batch of `sequences` on each of `nodes` attention nodes; parameters as above.

    `overhead_s` are the seconds of launches of either side.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    `attention` and `experts` are GPUs of either side. Full-attention layers with routed experts only: windows take the
    window as `context_tokens`, dense layers and shared experts are not modelled.

    >>> from moeopt.llm import find
    >>> a800, port, nvlink = Machine.of("A800"), Link(0.0, 20e9), Link(2e-6, 160e9)
    >>> times = stage_times(find("dbrx"), attention=a800, experts=a800, sequences=428, context_tokens=651, nodes=2,
    ...                     tp_a=2, tp_e=1, attention_port=port, attention_link=nvlink)
    >>> round(times.attention_s * 1e6), round(times.expert_s * 1e6)
    (451, 398)
    """
    facts.need_experts("experts on GPUs of their own")
    facts.need("experts", "top_k", "dispatch_width", why="for experts on GPUs of their own")
    total, top_k, hidden = int(facts.experts or 0), int(facts.top_k or 0), int(facts.dispatch_width or 0)
    check = Violations()
    if facts.shared_experts or facts.dense_layers:
        rule = "dense layers and shared experts have no node here"
        check.add("facts", facts.name, rule=rule, fix="Use an LLM without them")
    sent = tokens = 0.0
    with check.within():
        sent = m2n_s(
            sequences=sequences,
            nodes=nodes,
            experts=total,
            top_k=top_k,
            hidden=hidden,
            tp_a=tp_a,
            tp_e=tp_e,
            attention_port=attention_port,
            expert_port=expert_port,
        )
        tokens = float(tokens_per_expert(experts=total, top_k=top_k, tokens=float(sequences) * nodes))
    check.raise_if_any()
    first = attention_side_s(
        facts,
        attention,
        sequences=sequences,
        context_tokens=context_tokens,
        tp_a=tp_a,
        link=attention_link,
        numerics=numerics,
        overhead_s=overhead_s,
    )
    second = expert_side_s(
        facts, experts, tokens=tokens, tp_e=tp_e, link=expert_link, numerics=numerics, overhead_s=overhead_s
    )
    return StageTimes(first, sent, second, sent)


def _needs_link(check: Violations, name: str, degree: int, link: Link | None) -> None:
    if is_number(degree) and degree > 1 and link is None:
        check.add(name, degree, rule="needs the link between these GPUs", fix="Give a Link, or 1")
