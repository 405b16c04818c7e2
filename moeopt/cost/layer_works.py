"""What the attention of a layer does on one GPU, by its kind: heads or latents, all or selected; an index; a state.

Each function gives operators that run one after another. Symbols and sources are those of ``models/mesh_attention.md``.
"""

from __future__ import annotations

from moeopt.cost.attention_sizes import AttentionSizes, attention_sizes, kv_copies
from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, not_negative, whole
from moeopt.cost.linear import linear_decode, linear_prefill
from moeopt.cost.pairs import causal_pairs
from moeopt.cost.roofline import BF16, Numerics, Work
from moeopt.errors import Violations
from moeopt.llm.attention_counts import counted, index_parameters
from moeopt.llm.facts import LlmFacts
from moeopt.llm.layer_kinds import LayerKind, layer_kinds
from moeopt.llm.memory import index_bytes


@checked
def attended_by(facts: LlmFacts, kind: LayerKind, context_tokens: Number) -> float:
    """Entries that one query of a layer attends to, its own token among them; 0 where it keeps a state.

    `kind` is one of `layer_kinds`, `context_tokens` counts the own token of the query too. Sizes that are missing are
    refused (`InstanceError`).

    >>> from moeopt.llm import find
    >>> sparse = find("deepseek-v3.2")
    >>> [attended_by(sparse, layer_kinds(sparse)[0], tokens) for tokens in (1_000, 100_000)]
    [1000.0, 2048.0]
    """
    check = Violations()
    not_negative(check, context_tokens=context_tokens)
    check.raise_if_any()
    seen = float(context_tokens)
    if kind.linear:
        return 0.0
    near = seen if kind.window is None else min(seen, float(kind.window))
    if kind.ratio is None:
        return min(near, float(_top_k(facts))) if kind.indexed else near
    entries = seen / kind.ratio if kind.ratio else 0.0
    return near + (min(entries, float(_top_k(facts))) if kind.indexed else entries)


@checked
def attended(facts: LlmFacts, context_tokens: Number) -> list[float]:
    """Entries that a query attends to, layer by layer: the context, a window that is full, or what an index selects.

    `context_tokens` counts the own token of the query too.

    >>> from moeopt.llm import find
    >>> attended(find("qwen3.5-397b-a17b"), 4096.0)[:4]
    [0.0, 0.0, 0.0, 4096.0]
    """
    return [attended_by(facts, kind, context_tokens) for kind in layer_kinds(facts)]


def full_kind(facts: LlmFacts) -> LayerKind:
    """The kind of the layers that keep all tokens, each as an entry of its own, where there are any."""
    return next((kind for kind in layer_kinds(facts) if kind.whole), LayerKind())


@checked
def layer_weights(facts: LlmFacts, kind: LayerKind, *, tp: int = 1, out_tp: int | None = None) -> float:
    """Parameters of a layer's attention on one of `tp` GPUs, its index included.

    `kind` is one of `layer_kinds`; `out_tp` is the degree of the output matrix where it is another.

    >>> from moeopt.llm import find
    >>> layer_weights(find("deepseek-v3.2"), LayerKind(indexed=True)) - layer_weights(find("deepseek-v3"), LayerKind())
    13959168.0
    """
    index = 0
    if kind.indexed:
        facts.need("attention.index_heads", "attention.index_dim", why="for the weights of its index")
        index = index_parameters(facts)
    return _own_weights(facts, kind, tp, out_tp) + index


@checked
def layer_decode(
    facts: LlmFacts,
    kind: LayerKind,
    *,
    sequences: Number,
    context_tokens: Number,
    queries: Number = 1,
    tp: int = 1,
    kvp: int = 1,
    out_tp: int | None = None,
    numerics: Numerics = BF16,
) -> tuple[Work, ...]:
    """Attention of one layer for the next tokens of each sequence.

    Parameters
    ----------
    facts, kind
        The LLM, and the layer's kind (`moeopt.llm.layer_kinds`).
    sequences, context_tokens, queries
        Sequences of this group of GPUs, tokens of context of each, and queries of each: one, and one more for each
        drafted token.
    tp, kvp, out_tp, numerics
        As in `moeopt.cost.attention_decode`.

    Returns
    -------
    tuple of Work
        Of one GPU: attention, and after it the index where there is one. A linear layer is one operator, whose state is
        read once and written once a query. A cache that is read whole is read once a sequence; where an index leaves
        entries out, each query reads a selection of its own.

    Raises
    ------
    InstanceError
        A size that is not known, degrees that do not divide, a cache that is split over GPUs where an index or
        compressed entries need all of it.

    Notes
    -----
    Strength: model, a floor.

    >>> from moeopt.llm import find
    >>> dense, sparse = find("deepseek-v3"), find("deepseek-v3.2")
    >>> short = {"sequences": 4, "context_tokens": 2048}
    >>> plain = layer_decode(dense, LayerKind(), **short)[0]
    >>> layer_decode(sparse, LayerKind(indexed=True), **short)[0] == plain
    True
    """
    check = Violations()
    not_negative(check, sequences=sequences, context_tokens=context_tokens, queries=queries)
    whole(check, kvp=kvp)
    if not check.found and kvp > 1 and (kind.indexed or kind.ratio is not None):
        what = "an index selects among all tokens" if kind.indexed else "compressed entries are not dealt out"
        check.add("kvp", kvp, rule=f"{what}: the cache is whole on every GPU", fix="Use 1")
    with check.within():
        kv_copies(facts, tp)
    check.raise_if_any()
    count, each, context = float(sequences), float(queries), float(context_tokens)
    if kind.linear:
        return (linear_decode(facts, sequences=count, queries=each, tp=tp, numerics=numerics),)
    seen = attended_by(facts, kind, context) / kvp
    picked = 0.0  # entries that each query reads for itself
    if kind.indexed and _scored(kind, context) > _top_k(facts):
        picked = float(_top_k(facts))
    sizes = _sizes(facts, kind, tp, out_tp)
    flops = count * each * (2 * sizes.weights + sizes.decode_flops_a_pair * seen)
    reads = count * (seen - picked) + count * each * picked
    moved = sizes.weights * numerics.weight_bytes + reads * sizes.kv_elements * numerics.kv_bytes
    first = Work(flops, moved, numerics.attention)
    if not kind.indexed:
        return (first,)
    entries, weights = _scored(kind, context), index_parameters(facts)
    scores = count * each * (2 * weights + entries * _flops_a_score(facts))
    keys = count * entries * index_bytes(facts, numerics.kv)
    return first, Work(scores, weights * numerics.weight_bytes + keys, numerics.index)


@checked
def layer_prefill(
    facts: LlmFacts,
    kind: LayerKind,
    *,
    new_tokens: Number,
    cached_tokens: Number = 0,
    sequences: int = 1,
    tp: int = 1,
    numerics: Numerics = BF16,
) -> tuple[Work, ...]:
    """Attention of one layer over a prompt, or over a chunk of one behind cached tokens.

    What is no such number, or a size that is missing, is refused (`InstanceError`), all of it at once.

    Parameters
    ----------
    facts, kind
        As in `layer_decode`.
    new_tokens, cached_tokens, sequences, tp, numerics
        As in `moeopt.cost.attention_prefill`.

    Returns
    -------
    tuple of Work
        Of one GPU, as in `layer_decode`. Latents under an index are attended to as dense ones where nothing is left
        out; beyond, as dense ones with a mask or as selected ones, whichever takes fewer operations.

    Notes
    -----
    Strength: model, a floor: everything kept is read once and written once.

    >>> from moeopt.llm import find
    >>> v3, sparse = find("deepseek-v3"), find("deepseek-v3.2")
    >>> flops = [layer_prefill(one, layer_kinds(one)[0], new_tokens=65_536)[0].flops for one in (v3, sparse)]
    >>> flops[1] < flops[0] / 3
    True
    """
    check = Violations()
    not_negative(check, new_tokens=new_tokens, cached_tokens=cached_tokens)
    whole(check, sequences=sequences)
    with check.within():
        kv_copies(facts, tp)
    check.raise_if_any()
    new, cached = float(new_tokens), float(cached_tokens)
    if kind.linear:
        return (linear_prefill(facts, new_tokens=new, sequences=sequences, tp=tp, numerics=numerics),)
    sizes = _sizes(facts, kind, tp, None)
    flops, kept = _prefill(facts, kind, sizes, new, cached)
    moved = sizes.weights * numerics.weight_bytes + sequences * kept * sizes.kv_elements * numerics.kv_bytes
    first = Work(sequences * (2 * sizes.weights * new + flops), moved, numerics.attention)
    if not kind.indexed:
        return (first,)
    ratio, weights = kind.ratio or 1, index_parameters(facts)
    scores = 2 * weights * new + causal_pairs(new, cached) / ratio * _flops_a_score(facts)
    keys = sequences * (cached + new) / ratio * index_bytes(facts, numerics.kv)
    return first, Work(sequences * scores, weights * numerics.weight_bytes + keys, numerics.index)


def _prefill(facts: LlmFacts, kind: LayerKind, sizes: AttentionSizes, new: float, cached: float) -> tuple[float, float]:
    """Operations on pairs of one sequence, and entries that are read or written."""
    window = None if kind.window is None else float(kind.window)
    near = cached if window is None else min(cached, window)
    if kind.ratio is not None:
        pairs = causal_pairs(new, cached, window)
        entries = 0.0
        if kind.ratio:
            most = float(kind.ratio * _top_k(facts)) if kind.indexed else None
            pairs += causal_pairs(new, cached, most) / kind.ratio
            entries = (cached + new) / kind.ratio
        return sizes.prefill_flops_a_pair * pairs, near + new + entries
    flops = sizes.prefill_flops_a_pair * causal_pairs(new, cached, window) + sizes.expand_flops * near
    if kind.indexed and cached + new > _top_k(facts):
        flops = min(flops, sizes.decode_flops_a_pair * causal_pairs(new, cached, float(_top_k(facts))))
    return flops, near + new


def _own_weights(facts: LlmFacts, kind: LayerKind, tp: int, out_tp: int | None) -> float:
    if not kind.linear and kind.ratio is None:
        return attention_sizes(facts, tp=tp, out_tp=out_tp).weights
    kv_copies(facts, tp)
    found = counted(facts, kind)
    return found.split / tp + found.copied


def _sizes(facts: LlmFacts, kind: LayerKind, tp: int, out_tp: int | None) -> AttentionSizes:
    if kind.ratio is None:
        return attention_sizes(facts, tp=tp, out_tp=out_tp)
    at = facts.attention
    pair = 4 * int(at.heads or 0) / tp * int(at.head_dim or 0)
    out = counted(facts, kind).out / tp
    return AttentionSizes(_own_weights(facts, kind, tp, None), out, int(at.head_dim or 0), pair, pair)


def _scored(kind: LayerKind, context: float) -> float:
    """Entries that an index scores."""
    return context / (kind.ratio or 1)


def _flops_a_score(facts: LlmFacts) -> float:
    """Products with the key by every head of the index, and their weighted sum."""
    facts.need("attention.index_heads", "attention.index_dim", why="for the roofline of its index")
    return 2.0 * int(facts.attention.index_heads or 0) * (int(facts.attention.index_dim or 0) + 1)


def _top_k(facts: LlmFacts) -> int:
    facts.need("attention.index_top_k", why="for what a query reads (index_topk)")
    return int(facts.attention.index_top_k or 0)
