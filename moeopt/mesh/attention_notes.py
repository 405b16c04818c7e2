"""What is said of linear, sparse and compressed attention: what a sequence keeps, and what is assumed of it."""

from __future__ import annotations

from moeopt.llm.facts import LlmFacts
from moeopt.llm.layer_kinds import layer_kinds
from moeopt.llm.memory import index_bytes, layer_caches
from moeopt.mesh.instance import MeshInstance


def attention_notes(instance: MeshInstance) -> list[str]:
    """A note for every LLM whose layers do not all read all that they keep; none for configurations that are given."""
    if instance.configs is not None:
        return []
    said = {demand.llm.name: kept_said(demand.llm, demand.workload.kept_tokens) for demand in instance.demands}
    return [f"{name}: {text}" for name, text in said.items() if text]


def kept_said(llm: LlmFacts, tokens: int) -> str:
    """Bytes of one sequence by what they are, in BF16, and what is assumed of them; empty for plain attention.

    >>> from moeopt.llm import find
    >>> print(kept_said(find("qwen3.5-397b-a17b"), 5_000))
    a sequence of 5,000 tokens keeps 154 MB of keys and values and 192 MB of states of 45 linear layers, whatever its length (BF16, states in fp32; read and written in each step)
    >>> print(kept_said(find("deepseek-v3.2"), 5_000))
    a sequence of 5,000 tokens keeps 351 MB of keys and values and 40.3 MB of keys of an index (BF16; the index scores all of them on every GPU of a tensor group, and 2,048 entries are read)
    >>> kept_said(find("deepseek-v3"), 5_000)
    ''
    """  # noqa: E501
    at, kinds, caches = llm.attention, layer_kinds(llm), layer_caches(llm, tokens)
    states, keys = sum(cache.state for cache in caches), 0.0
    for kind in kinds:
        if kind.indexed:
            keys += tokens // (kind.ratio or 1) * index_bytes(llm)
    if not states and not keys and at.kind != "compressed":
        return ""
    rest = sum(cache.heads + cache.whole for cache in caches) - keys
    parts = [f"{_size(rest)} of {'compressed entries and windows' if at.kind == 'compressed' else 'keys and values'}"]
    assumed = ["BF16"]
    if states:
        linear = sum(kind.linear for kind in kinds)
        parts.append(f"{_size(states)} of states of {linear} linear layers, whatever its length")
        assumed = ["BF16, states in fp32; read and written in each step"]
    if keys:
        parts.append(f"{_size(keys)} of keys of an index")
        assumed.append(
            f"the index scores all of them on every GPU of a tensor group, and {at.index_top_k:,} entries are read"
        )
    return f"a sequence of {tokens:,} tokens keeps {' and '.join(parts)} ({'; '.join(assumed)})"


def _size(value: float) -> str:
    """Bytes as people read them.

    >>> _size(40_260_000), _size(1.5e9)
    ('40.3 MB', '1.5 GB')
    """
    return f"{value / 1e9:.3g} GB" if value >= 0.9995e9 else f"{value / 1e6:.3g} MB"
