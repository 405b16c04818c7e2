"""Bytes of experts, of slots, and of the cache that a sequence keeps: closed forms of an LLM's sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from moeopt import kinds
from moeopt.errors import Violations
from moeopt.llm.facts import GROWING, LlmFacts
from moeopt.llm.layer_kinds import LayerKind, layer_kinds
from moeopt.llm.precision import FORMATS

STATE_BYTES = 4
"""Bytes of one number in the state of a linear layer: engines keep it in fp32."""


def expert_bytes(facts: LlmFacts, dtype: str | None = None) -> int:
    """Bytes of one routed expert of one layer, with the scales of its blocks.

    `dtype` is the format of what is stored, by default that of the checkpoint.

    Three matrices, gate and up (inner width x dispatched width) and down (the other way round), in a format of
    `moeopt.llm.precision.FORMATS`, by default the one the configuration names; biases, where there are any, in bf16.

    Raises
    ------
    InstanceError
        A dense LLM, a size or the format that is not known, or a format that is not in the table.

    Examples
    --------
    >>> from moeopt.llm import find
    >>> expert_bytes(find("deepseek-v3")), expert_bytes(find("deepseek-v3"), "bf16")
    (44050944, 88080384)
    """
    facts.need_experts("bytes of an expert")
    facts.need("dispatch_width", "expert_width", why="for the bytes of an expert")
    wide, inner = int(facts.dispatch_width or 0), int(facts.expert_width or 0)
    form = FORMATS[_format(facts, dtype)]
    biases = 2 * (2 * inner + wide) if facts.expert_bias else 0
    return 2 * form.matrix_bytes(inner, wide) + form.matrix_bytes(wide, inner) + biases


def slot_bytes(facts: LlmFacts, dtype: str | None = None) -> int:
    """What one more slot costs on its GPU: one expert of every layer that has experts; MTP layers not counted.

    `dtype` is the format of what is stored, by default that of the checkpoint.

    >>> from moeopt.llm import find
    >>> round(slot_bytes(find("deepseek-v3")) / 2**30, 2)  # 58 layers
    2.38
    """
    return len(facts.moe_layers) * expert_bytes(facts, dtype)


def kv_bytes_per_token(facts: LlmFacts, dtype: str = "bf16") -> float:
    """Bytes that each further token of a long sequence adds to the cache, all layers together.

    `dtype` is the format of what is stored.

    By layer, with ``b`` bytes of an element:

    ============================ =====================================================================================
    mha, gqa, mqa                ``2 kv_heads head_dim b``: a key and a value of every KV head (Shazeer 2019, multi-
                                 query; Ainslie et al. 2023, grouped-query)
    mla                          ``(kv_rank + rope_dim) b``, whatever the number of heads (DeepSeek-V2 report, 2.1)
    index cache beside mla       ``index_dim + 4 ceil(index_dim / 128)``: FP8 with a 4-byte scale for 128 (DeepSeek-V3.2
                                 inference code); beside gqa ``index_dim b`` (MiniMax-M3)
    compressed, ratio r          ``head_dim b / r``; with r = 4 also ``index_dim b / 4`` (DeepSeek-V4; 9.6 GiB in BF16
                                 for 2**20 tokens of V4-Pro)
    sliding window, chunked      0 once the window is full
    linear                       0: a state of fixed size
    shared by s layers           counted in every s-th layer only (cross-layer attention, Brandon et al. 2024)
    ============================ =====================================================================================

    Tensor parallelism beyond the number of KV heads copies the cache, and MLA is copied always; MTP layers are not
    counted.

    Examples
    --------
    >>> from moeopt.llm import find
    >>> kv_bytes_per_token(find("deepseek-v3")), kv_bytes_per_token(find("gpt-oss-120b"))
    (70272.0, 36864.0)
    """
    return _per_token(facts, _element(facts, dtype))


@kinds.expects(facts="moeopt.llm.facts:LlmFacts", dtype=kinds.text)
def kv_bytes(facts: LlmFacts, tokens: int, dtype: str = "bf16") -> int:
    """Bytes of the cache of one sequence of so many tokens: what grows, windows as far as they are full, and states.

    `dtype` is the format of the cache. Fewer tokens than none, or sizes that are not known, are refused
    (`InstanceError`).

    A state is, by the kind of linear layer, in fp32: ``gated_delta`` heads x key width x value width (Qwen3-Next),
    ``kda`` heads x width x width (Kimi Linear), ``lightning`` heads x width x width (MiniMax-01); the first two also
    keep ``conv - 1`` inputs of their short convolutions. Compressed layers keep what the entry that is not full yet is
    made of (`compressing_bytes`).

    >>> from moeopt.llm import find
    >>> kv_bytes(find("gpt-oss-120b"), 1_000) == 18 * (1_000 + 128) * 2 * 8 * 64 * 2
    True
    """
    check = Violations()
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        check.refuse("tokens", tokens, rule="must be a whole number >= 0", fix="Give the length of a sequence")
    check.raise_if_any()
    size, at = _element(facts, dtype), facts.attention
    if at.kind == "compressed":
        whole = sum(tokens // ratio for ratio in at.ratios if ratio)
        keys = sum(tokens // at.ratios[layer] for layer in at.index_layers) * (at.index_dim or 0)
        slots = facts.layers * min(tokens, at.window or 0)
        open_entries = sum(compressing_bytes(facts, kind) for kind in layer_kinds(facts))
        return math.ceil(((whole + slots) * int(at.head_dim or 0) + keys) * size + open_entries)
    kept = min(tokens, at.window or 0) * len(_caching(facts, windowed=True)) * _one(facts, size)
    return math.ceil(tokens * _per_token(facts, size) + kept + len(at.linear) * state_bytes(facts, dtype))


@dataclass(frozen=True)
class LayerCache:
    """Bytes that one sequence keeps in one layer, by who shares them when heads are split over GPUs.

    Parameters
    ----------
    heads
        Keys and values of KV heads: split by heads.
    whole
        Latents, compressed entries and keys of an index: one for all heads, on every GPU whole.
    state
        States of linear layers: split by their heads, however long the sequence.
    """

    heads: float = 0.0
    whole: float = 0.0
    state: float = 0.0


def layer_caches(facts: LlmFacts, tokens: int, dtype: str = "bf16") -> list[LayerCache]:
    """The same as `kv_bytes`, layer by layer; together they are it, up to the last byte.

    >>> from moeopt.llm import find
    >>> layer_caches(find("gpt-oss-120b"), 1_000)[:2]
    [LayerCache(heads=262144.0, whole=0.0, state=0.0), LayerCache(heads=2048000.0, whole=0.0, state=0.0)]
    """
    kv_bytes(facts, tokens, dtype)  # refuses what is not known
    size, at = _element(facts, dtype), facts.attention
    kept = min(tokens, at.window or 0)
    if at.kind == "compressed":
        dim, keys = int(at.head_dim or 0), at.index_dim or 0
        found = []
        for kind in layer_kinds(facts):
            entries = tokens // kind.ratio if kind.ratio else 0
            index = entries * keys if kind.indexed else 0
            open_entry = compressing_bytes(facts, kind)
            found.append(LayerCache(whole=((entries + kept) * dim + index) * size + open_entry))
        return found
    one, state, index_one = _one(facts, size), state_bytes(facts, dtype), index_bytes(facts, dtype) * tokens
    index_layers = set(at.index_layers)
    full, window, linear = set(_caching(facts, windowed=False)), set(_caching(facts, windowed=True)), set(at.linear)
    found = []
    for layer in range(facts.layers):
        own = one * (tokens if layer in full else kept if layer in window else 0)
        beside = index_one if layer in index_layers else 0.0
        whole = at.kind == "mla"
        own_state = state if layer in linear else 0.0
        found.append(LayerCache(0.0 if whole else own, (own if whole else 0.0) + beside, own_state))
    return found


def _per_token(facts: LlmFacts, size: float) -> float:
    at = facts.attention
    if at.kind == "compressed":
        facts.need("attention.head_dim", why="for the bytes of the cache")
        entries = sum(1 / ratio for ratio in at.ratios if ratio)
        index = sum(1 / at.ratios[layer] for layer in at.index_layers) * (at.index_dim or 0)
        return (entries * int(at.head_dim or 0) + index) * size
    return len(_caching(facts, windowed=False)) * _one(facts, size) + len(at.index_layers) * _index(facts, size)


def _caching(facts: LlmFacts, *, windowed: bool) -> list[int]:
    """Layers with a cache of their own, within a window or without."""
    at = facts.attention
    linear, window = set(at.linear), set(at.windowed)
    own = [layer for layer in range(facts.layers) if layer not in linear and layer % at.share == 0]
    return [layer for layer in own if (layer in window) == windowed]


def _one(facts: LlmFacts, size: float) -> float:
    """Bytes of one token in one layer."""
    at = facts.attention
    if at.kind == "mla":
        facts.need("attention.kv_rank", "attention.rope_dim", why="for the bytes of the cache")
        return (int(at.kv_rank or 0) + int(at.rope_dim or 0)) * size
    if at.kind not in GROWING:
        check = Violations(facts.name)
        rule = "is not known, so neither are the bytes of the cache"
        check.add("attention", at.kind, rule=rule, fix="Give the model's own config.json (--hf-config)")
        check.raise_if_any()
    facts.need("attention.kv_heads", "attention.head_dim", why="for the bytes of the cache")
    return 2 * int(at.kv_heads or 0) * int(at.head_dim or 0) * size


def _index(facts: LlmFacts, size: float) -> float:
    dim = facts.attention.index_dim or 0
    return dim + 4 * math.ceil(dim / 128) if facts.attention.kind == "mla" else dim * size


def index_bytes(facts: LlmFacts, dtype: str = "bf16") -> float:
    """Bytes of the index key of one entry in one layer that has an index.

    >>> from moeopt.llm import find
    >>> index_bytes(find("deepseek-v3.2")), index_bytes(find("deepseek-v4-pro"))
    (132, 256.0)
    """
    return _index(facts, _element(facts, dtype))


def compressing_bytes(facts: LlmFacts, kind: LayerKind) -> int:
    """Bytes that one sequence keeps of an entry that is not full yet, in one layer.

    Values and scores in fp32 of the tokens that an entry is made of, ``ratio``, twice as many where entries overlap,
    which then have two parts in each; the same of the index (vLLM, DeepSeek-V4: CompressorStateCache).

    >>> from moeopt.llm import find
    >>> compressing_bytes(find("deepseek-v4-pro"), LayerKind(ratio=128)) == 128 * 2 * 512 * 4
    True
    """
    if not kind.ratio:
        return 0
    at = facts.attention
    dims = int(at.head_dim or 0) + (int(at.index_dim or 0) if kind.indexed else 0)
    return kind.ratio * kind.overlap * 2 * kind.overlap * dims * STATE_BYTES


def state_bytes(facts: LlmFacts, dtype: str = "bf16") -> float:
    """Bytes that one sequence keeps in one linear layer, as `kv_bytes` has them; 0 for LLMs without any."""
    return _state(facts, _element(facts, dtype))


def _state(facts: LlmFacts, size: float) -> float:
    at = facts.attention
    if not at.linear:
        return 0.0
    names = ("linear_heads", "linear_key_heads", "linear_key_dim", "linear_value_dim")
    facts.need(*(f"attention.{name}" for name in names), why="for the bytes of the state")
    heads, key, value = int(at.linear_heads or 0), int(at.linear_key_dim or 0), int(at.linear_value_dim or 0)
    inputs = 2 * int(at.linear_key_heads or 0) * key + heads * value
    return heads * key * value * STATE_BYTES + inputs * max((at.linear_conv or 1) - 1, 0) * size


def _element(facts: LlmFacts, dtype: str) -> float:
    """Bytes of one cached element, scales left aside."""
    return FORMATS[_format(facts, dtype)].bits / 8


def _format(facts: LlmFacts, dtype: str | None) -> str:
    check = Violations(facts.name)
    if dtype is None:
        dtype = facts.expert_format
        if dtype is None:
            rule = "is not known for its experts"
            check.add("expert_format", "not known", rule=rule, fix=f"Give one of {', '.join(FORMATS)}")
    elif dtype not in FORMATS:
        check.add("dtype", dtype, rule="is not a format this version knows", fix=f"Use one of {', '.join(FORMATS)}")
    check.raise_if_any()
    assert dtype is not None
    return dtype
