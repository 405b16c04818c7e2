"""A written placement, doubted: against itself, the loads it was made for, the shape it has to have, and an LLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moeopt.engines.layers import LayerFacts, rows_of
from moeopt.errors import Violations
from moeopt.llm import LlmFacts, agreement
from moeopt.placement.load_plan import document_faults
from moeopt.placement.plan_document import ResultDocument

DIGEST = "instance.sha256 says"
"""How the fault begins that names other loads or other rules than the plan's; it explains all others."""


def check_plan(
    document: ResultDocument,
    loads: Any = None,
    layers: Sequence[int] | None = None,
    *,
    made_for: tuple[str, str] | None = None,
    experts: int | None = None,
    slots: int | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    llm: LlmFacts | None = None,
    facts: LayerFacts | None = None,
) -> list[str]:
    """Everything that is wrong with a plan, each fault once; one that explains the others first.

    Parameters
    ----------
    document
        From `moeopt.placement.load_plan.read_result`.
    loads, layers
        As `moeopt.placement.load_plan.document_faults` takes them.
    made_for
        Name and SHA-256 of the instance that the loads are from, where they are from one.
    experts, slots, gpus, nodes
        E, S, G and N that it has to have.
    llm, facts
        The LLM that it has to be for, or the layers that this has.

    >>> from moeopt import placement
    >>> from moeopt.placement.load_plan import read_result
    >>> result = placement.solve(placement.PlacementInstance([[3, 1, 2]], gpus=2, slots=4), method="lpt")
    >>> check_plan(read_result(result.to_dict()), [[3, 1, 2]], gpus=4)
    ['gpus: the plan has 2, --gpus says 4']
    """
    wanted = {"experts": experts, "slots": slots, "gpus": gpus, "nodes": nodes}
    faults = [*_size_faults(document, wanted), *_llm_faults(document, llm), *_layer_faults(document, facts)]
    if made_for is not None and made_for[1] != document.instance.sha256:
        faults.append(
            f"{DIGEST} {document.instance.sha256}, the instance {made_for[0]} is {made_for[1]}: the plan was made for "
            "another instance, or by other rules"
        )
    faults = list(dict.fromkeys([*faults, *document_faults(document, loads, layers)]))
    return sorted(faults, key=lambda fault: not fault.startswith(DIGEST))


def _layer_faults(document: ResultDocument, facts: LayerFacts | None) -> list[str]:
    """Layers of the plan that are none of the LLM's, and MoE layers without a row."""
    if document.solution is None or facts is None or facts.layers is None or facts.dense is None:
        return []
    check = Violations()
    rows_of([layer.layer for layer in document.solution.layers], facts, check)
    return [f"layers {one.value}: {one.rule}" for one in check.found]


def _llm_faults(document: ResultDocument, llm: LlmFacts | None) -> list[str]:
    """Where the plan and an LLM do not fit."""
    if llm is None or document.solution is None:
        return []
    layers = [layer.layer for layer in document.solution.layers]
    top_k = document.instance.document.model_dump().get("top_k")
    experts = len(document.solution.layers[0].replicas)
    return agreement(llm, layers, experts, top_k=top_k, llm=document.solution.llm)


def _size_faults(document: ResultDocument, wanted: dict[str, int | None]) -> list[str]:
    if document.solution is None:
        return []
    layer = document.solution.layers[0]
    nodes = document.instance.document.model_dump().get("nodes")
    sizes = {
        "experts": len(layer.replicas),
        "slots": len(layer.slot_expert),
        "gpus": document.solution.ep_size,
        "nodes": len(set(map(repr, nodes))) if isinstance(nodes, list) else None,
    }
    return [
        f"{name}: the plan has {sizes[name]}, --{name} says {number}"
        for name, number in wanted.items()
        if number is not None and sizes[name] != number
    ]
