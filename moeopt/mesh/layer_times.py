"""Seconds of each layer by the roofline, for cutting an LLM into pipeline stages."""

from __future__ import annotations

from moeopt.cost.layer_works import layer_decode
from moeopt.cost.operators import dense_ffn, lm_head, moe_ffn
from moeopt.cost.roofline import BF16, Machine, Numerics, operators_s
from moeopt.llm.facts import LlmFacts
from moeopt.llm.layer_kinds import LayerKind, layer_kinds
from moeopt.mesh.stages import Layers


def decode_layers(
    llm: LlmFacts,
    machine: Machine,
    *,
    sequences: float,
    context_tokens: float,
    tp: int = 1,
    ep: int = 1,
    moe_tp: int = 1,
    dense_tp: int = 1,
    group_tokens: float | None = None,
    numerics: Numerics = BF16,
) -> Layers:
    """Seconds of each layer in decoding, by the roofline: attention by its kind, dense FFN or experts; the head.

    Parameters
    ----------
    llm, machine, numerics
        What runs on what.
    sequences, context_tokens
        Of one data-parallel rank in one micro-batch.
    tp, ep, moe_tp, dense_tp
        Degrees of the shape; an EP beyond the experts stands for one expert a GPU.
    group_tokens
        Tokens of all ranks that share the experts (default: ``sequences x ep``).

    Notes
    -----
    Strength: model, a floor; communication is the same on all MoE layers and left out. Reading a row of the embedding
    costs nothing.

    >>> from moeopt.llm import find
    >>> deepseek = decode_layers(find("deepseek-v3"), Machine.of("H800"), sequences=64, context_tokens=4096, ep=32)
    >>> len(set(deepseek.costs)), deepseek.costs[2] < deepseek.costs[3], deepseek.last > 0
    (2, True, True)
    """
    tokens = group_tokens if group_tokens is not None else sequences * ep
    times: dict[tuple[LayerKind, bool], float] = {}
    dense, costs = set(llm.dense_layers), []
    own = {"sequences": sequences, "context_tokens": context_tokens, "tp": tp}
    for layer, attention in enumerate(layer_kinds(llm)):
        kind = (attention, layer in dense)
        if kind not in times:
            works = layer_decode(llm, attention, numerics=numerics, **own)  # type: ignore[arg-type]
            if kind[1]:
                llm.need("hidden", "dense_width", why="for the roofline of a dense layer")
                sizes = {"hidden": int(llm.hidden or 0), "width": int(llm.dense_width or 0)}
                ffn = dense_ffn(tokens=sequences, tp=dense_tp, numerics=numerics, **sizes)
            else:
                ranks = min(ep, int(llm.experts or 1))
                ffn = moe_ffn(llm, tokens=tokens * ranks / ep, ep=ranks, tp=moe_tp, numerics=numerics)
            times[kind] = operators_s(machine, works) + machine.time_s(ffn)
        costs.append(times[kind])
    head = machine.time_s(lm_head(llm, tokens=sequences, tp=tp, numerics=numerics))
    return Layers(tuple(costs), last=head)
