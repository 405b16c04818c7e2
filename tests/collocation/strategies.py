"""Hypothesis strategies that build valid collocation instances over the whole domain, and brute force beside them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from moeopt.collocation import CollocationInstance


@st.composite
def traces(draw: st.DrawFn, *, experts: int, max_tokens: int = 12, max_layers: int = 2) -> Any:
    """(L, T, k) ids, some of them padding, every layer with a token."""
    top_k = draw(st.integers(1, min(experts, 4)))
    layers, tokens = draw(st.integers(1, max_layers)), draw(st.integers(1, max_tokens))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    weight = rng.random(experts) ** draw(st.sampled_from([0, 1, 4])) + 1e-3
    ids = np.empty((layers, tokens, top_k), dtype=np.int64)
    for layer in range(layers):
        for token in range(tokens):
            ids[layer, token] = rng.choice(experts, size=top_k, replace=False, p=weight / weight.sum())
    if draw(st.booleans()):
        ids[:, :, 1:][rng.random((layers, tokens, top_k - 1)) < 0.3] = -1
    return ids


@st.composite
def instances(draw: st.DrawFn, *, max_experts: int = 7, replicas: bool = True, transports: Any = None) -> Any:
    """Instances without a link graph."""
    experts = draw(st.integers(1, max_experts))
    nodes = draw(st.integers(1, 3))
    gpus = nodes * draw(st.integers(1, 2))
    each = -(-experts // gpus)
    more = draw(st.integers(0, 1)) if replicas and each < experts else 0
    ids = draw(traces(experts=experts))
    source = None
    if draw(st.booleans()):
        source = np.random.default_rng(draw(st.integers(0, 99))).integers(0, gpus, ids.shape[1])
    return CollocationInstance(
        ids,
        experts=experts,
        nodes=nodes,
        gpus=gpus,
        slots=(each + more) * gpus,
        fill=draw(st.sampled_from(["all", "at_most"]))
        if replicas and (each + more) * gpus <= experts * gpus
        else "at_most",
        transport=draw(st.sampled_from(transports or ["deepep-normal", "deepep-ll", "nvl-domain"])),
        replica_rule=draw(st.sampled_from(["nearest", "home_node", "even"])),
        source=source,
    )


def legal(instance: CollocationInstance) -> Iterator[list[int]]:
    """Every plan of a layer, in slots."""
    choices = range(-1 if instance.fill == "at_most" else 0, instance.num_experts)
    gpu = instance.gpu_of_slot
    for held in product(choices, repeat=instance.num_slots):
        used = [(int(g), e) for g, e in zip(gpu, held, strict=True) if e >= 0]
        if {e for _, e in used} == set(range(instance.num_experts)) and len(set(used)) == len(used):
            yield list(held)


def choose(instance: CollocationInstance, held: list[int], source: int, expert: int) -> int:
    """The GPU that a token of `source` uses of an expert: the rule, written again."""
    slots = [slot for slot, one in enumerate(held) if one == expert]
    gpus = [int(instance.gpu_of_slot[slot]) for slot in slots]
    nodes = [int(one) for one in instance.landing]
    if instance.replica_rule == "even":
        return gpus[source % len(gpus)]
    if instance.replica_rule == "nearest" and source in gpus:
        return source
    count = max(nodes) + 1
    best = min((nodes[gpu] - nodes[source]) % count for gpu in gpus)
    near = [gpu for gpu in gpus if (nodes[gpu] - nodes[source]) % count == best]
    place = sum(1 for gpu in range(source) if nodes[gpu] == nodes[source])
    return near[place % len(near)]


def objective(instance: CollocationInstance, row: int, held: list[int]) -> Fraction:
    """Copies or tokens of one layer, token by token."""
    total, work = Fraction(0), [Fraction(0)] * instance.num_gpus
    merge = instance.transport.merge
    for token in range(instance.num_tokens):
        sources = range(instance.num_gpus) if instance.source is None else [int(instance.source[token])]
        for source in sources:
            share = Fraction(1, len(sources))
            gpus = [choose(instance, held, source, int(e)) for e in instance.ids[row, token] if e >= 0]
            for gpu in gpus:
                work[gpu] += share
            if merge == "node":
                total += share * len({int(instance.node[g]) for g in gpus} - {int(instance.node[source])})
            elif merge == "gpu":
                total += share * len(set(gpus) - {source})
            else:
                total += share * sum(instance.node[g] != instance.node[source] for g in gpus)
    return max(work) if instance.objective == "tokens" else total
