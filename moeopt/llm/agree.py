"""Whether a plan or a map fits an LLM: its layers, their numbering, experts, and what it says of the LLM itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moeopt import kinds
from moeopt.llm.facts import LlmFacts

WORDS = {"layers": "layers", "dense_layers": "dense layers", "experts": "experts", "top_k": "top-k"}
"""What `LlmFacts.brief` says that must agree; names and MTP layers may differ."""


@kinds.expects(facts="moeopt.llm.facts:LlmFacts", layers=kinds.some, llm=kinds.as_mapping)
def agreement(
    facts: LlmFacts,
    layers: Sequence[int],
    experts: int | None,
    *,
    top_k: int | None = None,
    llm: Mapping[str, Any] | None = None,
) -> list[str]:
    """Every way in which a plan and an LLM do not fit, in words; none if they do.

    Parameters
    ----------
    layers
        Layer ids of the plan's rows. Beside all layers that have experts, there may be rows of dense layers, as SGLang
        has them, and of MTP layers, numbered on from the last.
    experts, top_k
        Experts of a layer, and how many a token selects, where the plan says it.
    llm
        What the plan says of its LLM, as `LlmFacts.brief` has it.

    >>> from moeopt.llm import find
    >>> agreement(find("deepseek-v3"), range(58), 256)
    ['layers: the plan has 0-57, deepseek-v3 has experts in 3-60; the plan may number MoE layers from 0']
    >>> agreement(find("deepseek-v3"), range(3, 61), 256)
    []
    """
    name, faults = facts.name or "the configuration", []
    if facts.dense:
        return [f"experts: {name} has none, it is dense"]
    mtp = range(facts.layers, facts.layers + facts.mtp_layers)
    wrong = sorted({*layers} - {*facts.moe_layers, *mtp})
    missing = sorted({*facts.moe_layers} - {*layers})
    if not missing:  # engines that number all layers have idle rows for dense ones
        wrong = [layer for layer in wrong if layer not in facts.dense_layers]
    if wrong or missing:
        said = f"layers: the plan has {_ranges(layers)}, {name} has experts in {_ranges(facts.moe_layers)}"
        if len(layers) == len(facts.moe_layers) and list(layers) == list(range(len(layers))):
            said += "; the plan may number MoE layers from 0"
        elif wrong and not missing:
            said += f"; {_ranges(wrong)} {'is' if len(wrong) == 1 else 'are'} none of them"
        elif missing and not wrong:
            said += f"; {_ranges(missing)} {'has' if len(missing) == 1 else 'have'} no plan"
        faults.append(said)
    if experts is not None and facts.experts is not None and experts != facts.experts:
        faults.append(f"experts: the plan has {experts}, {name} has {facts.experts}")
    if top_k is not None and facts.top_k is not None and top_k != facts.top_k:
        faults.append(f"top_k: the plan has {top_k}, {name} has {facts.top_k}")
    own = facts.brief()
    for key, word in WORDS.items():
        if llm is not None and llm.get(key) is not None and own[key] is not None and llm[key] != own[key]:
            faults.append(f"llm.{key}: the plan was made for {llm[key]} {word}, {name} has {own[key]}")
    return faults


def _ranges(ids: Sequence[int]) -> str:
    """Ids as ranges.

    >>> _ranges([1, 2, 3, 7])
    '1-3, 7'
    """
    parts: list[list[int]] = []
    for number in sorted(ids):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    said = [str(low) if low == high else f"{low}-{high}" for low, high in parts[:8]]
    return ", ".join(said) + (", ..." if len(parts) > 8 else "")
