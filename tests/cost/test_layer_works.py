"""Attention by kind of layer: figures by hand, and what must hold whatever the sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.cost import (
    BF16,
    FP8,
    Machine,
    attended,
    attention_decode,
    attention_prefill,
    attention_side_s,
    cache_shares,
    ep_decode,
    helix_decode,
    kv_bytes_per_gpu,
    kv_copies,
    layer_decode,
    layer_prefill,
    layer_weights,
    linear_decode,
    linear_prefill,
    merge_s,
    moe_ffn,
    operators_s,
    tp_decode,
    weights_per_gpu,
)
from moeopt.cost.helix import Split
from moeopt.cost.links import Link
from moeopt.cost.pairs import causal_pairs
from moeopt.errors import InstanceError
from moeopt.llm import Attention, LlmFacts, catalogue, find, kv_bytes, parameters
from moeopt.llm.counts import parts_of
from moeopt.llm.layer_kinds import LayerKind, layer_kinds

SPARSE, GLM, QWEN, K3, PRO, FLASH = (
    find(name)
    for name in ("deepseek-v3.2", "glm-5", "qwen3.5-397b-a17b", "kimi-k3", "deepseek-v4-pro", "deepseek-v4-flash")
)
ALL = (SPARSE, GLM, QWEN, K3, PRO, FLASH)
INDEXED, LINEAR = LayerKind(indexed=True), LayerKind(linear=True)
NAMED = pytest.mark.parametrize("llm", ALL, ids=lambda llm: llm.name)
TOKENS = st.integers(0, 300_000)
H200 = Machine.of("H200")


def dense_twin(llm: LlmFacts) -> LlmFacts:
    """The same LLM with neither index nor linear layers."""
    at = replace(llm.attention, index_layers=(), linear=(), linear_kind=None)
    return replace(llm, attention=at)


# --- decoding ---------------------------------------------------------------------------------------------------------


def test_a_sparse_layer_by_hand() -> None:
    """DeepSeek-V3.2, three sequences of 10,000 tokens: 2,048 latents of 576 are read, all keys of 132 bytes."""
    first, index = layer_decode(SPARSE, INDEXED, sequences=3, context_tokens=10_000, numerics=FP8)
    own = 7_168 * 1_536 + 1_536 * 128 * 192 + 7_168 * 576 + 512 * 128 * 256 + 128 * 128 * 7_168
    assert first.flops == 3 * (2 * own + 2 * 128 * (2 * 512 + 64) * 2_048)
    assert first.bytes == own + 3 * 2_048 * 576 * 2
    beside = 1_536 * 64 * 128 + 7_168 * 128 + 7_168 * 64
    assert index.flops == 3 * (2 * beside + 2 * 64 * 129 * 10_000)
    assert index.bytes == beside + 3 * 10_000 * 132
    assert (first.dtype, index.dtype) == ("bf16", "fp8")


def test_a_linear_layer_by_hand() -> None:
    """Qwen3.5 on two of its GPUs, five sequences: 64 heads keep 128 x 128 numbers of 4 bytes, read and written."""
    work = linear_decode(QWEN, sequences=5, tp=2)
    weights = (4_096 * (4_096 + 8_192 + 8_192 + 128) + 4 * 12_288 + 8_192 * 4_096) / 2
    state = 64 * 128 * 128 * 4 + 3 * 12_288 * 2
    assert work.flops == 5 * (2 * weights + 7 * 32 * 128 * 128)
    assert work.bytes == weights * 2 + 5 * 2 * state / 2
    assert layer_decode(QWEN, LINEAR, sequences=5, context_tokens=10**6, tp=2) == (work,)


def test_compressed_layers_by_hand() -> None:
    """DeepSeek-V4-Pro at 8,192 tokens: window 128 and 64 entries of 128, or 1,024 of the 2,048 entries of 4."""
    kinds = {kind.ratio: kind for kind in layer_kinds(PRO)}
    heavy = layer_decode(PRO, kinds[128], sequences=2, context_tokens=8_192)
    sparse = layer_decode(PRO, kinds[4], sequences=2, context_tokens=8_192)
    assert len(heavy) == 1 and len(sparse) == 2
    for works, seen in ((heavy, 128 + 64), (sparse, 128 + 1_024)):
        weights = layer_weights(PRO, kinds[128] if works is heavy else replace(kinds[4], indexed=False))
        assert works[0].flops == 2 * (2 * weights + 4 * 128 * 512 * seen)
        assert works[0].bytes == weights * 2 + 2 * seen * 512 * 2
    beside = 1_536 * 64 * 128 + 7_168 * 64 + 4 * 7_168 * 128
    assert sparse[1].flops == 2 * (2 * beside + 2 * 64 * 129 * 2_048)
    assert sparse[1].bytes == beside * 2 + 2 * 2_048 * 256


@given(tokens=st.integers(0, 2_048), queries=st.integers(1, 5), name=st.sampled_from(["deepseek-v3.2", "glm-5"]))
def test_an_index_that_leaves_nothing_out_adds_itself_to_dense_attention(tokens: int, queries: int, name: str) -> None:
    llm = find(name)
    sizes = {"sequences": 7, "context_tokens": tokens, "queries": queries, "tp": 4}
    first, index = layer_decode(llm, INDEXED, **sizes)  # type: ignore[arg-type]
    (dense,) = layer_decode(dense_twin(llm), LayerKind(), **sizes)  # type: ignore[arg-type]
    assert first == dense and index.flops > 0
    new = {"new_tokens": tokens // 2, "cached_tokens": tokens - tokens // 2, "tp": 4}
    assert layer_prefill(llm, INDEXED, **new)[0] == layer_prefill(dense_twin(llm), LayerKind(), **new)[0]  # type: ignore[arg-type]


@given(tokens=TOKENS, more=TOKENS, sequences=st.integers(1, 100))
@NAMED
def test_a_longer_context_never_does_or_reads_less(llm: LlmFacts, tokens: int, more: int, sequences: int) -> None:
    for kind in set(layer_kinds(llm)):
        short, long = (
            layer_decode(llm, kind, sequences=sequences, context_tokens=context) for context in (tokens, tokens + more)
        )
        for one, other in zip(short, long, strict=True):
            assert one.flops <= other.flops * (1 + 1e-12) and one.bytes <= other.bytes * (1 + 1e-12)
    assert kv_bytes(llm, tokens) <= kv_bytes(llm, tokens + more)
    assert kv_bytes_per_gpu(llm, context_tokens=tokens) <= kv_bytes_per_gpu(llm, context_tokens=tokens + more) + 1


@NAMED
def test_without_linear_layers_and_index_every_form_is_the_old_one(llm: LlmFacts) -> None:
    if llm.attention.kind == "compressed":
        return
    plain = dense_twin(llm)
    assert set(layer_kinds(plain)) == {LayerKind()}
    one = attention_decode(plain, sequences=3, context_tokens=5_000, tp=2)
    assert layer_decode(plain, LayerKind(), sequences=3, context_tokens=5_000, tp=2) == (one,)
    chunk = attention_prefill(plain, new_tokens=700, cached_tokens=300, sequences=2, tp=2)
    assert layer_prefill(plain, LayerKind(), new_tokens=700, cached_tokens=300, sequences=2, tp=2) == (chunk,)
    copies = kv_copies(plain, 2)
    assert kv_bytes_per_gpu(plain, context_tokens=999, tp=2) == kv_bytes(plain, 999) * copies / 2


def test_drafts_read_selections_of_their_own_and_keep_states() -> None:
    for context, times in ((2_048, 1), (2_049, 4)):
        one, four = (
            layer_decode(SPARSE, INDEXED, sequences=1, context_tokens=context, queries=q)[0].bytes for q in (1, 4)
        )
        weights = layer_decode(SPARSE, INDEXED, sequences=0, context_tokens=context)[0].bytes
        assert four - weights == times * (one - weights)
    none, one, four = (linear_decode(K3, sequences=1, queries=q).bytes for q in (0, 1, 4))
    assert four - one == 3 * (one - none) > 0


def test_what_queries_attend_to() -> None:
    assert set(attended(SPARSE, 1_000)) == {1_000.0} and set(attended(SPARSE, 10**6)) == {2_048.0}
    assert attended(K3, 5_000)[:4] == [0.0, 0.0, 0.0, 5_000.0]
    assert attended(FLASH, 10_240)[:4] == [128.0, 128.0, 128.0 + 512, 128.0 + 80]


# --- prefill ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 60) | st.none())
def test_pairs_are_counted_one_by_one(new: int, cached: int, most: int | None) -> None:
    seen = [cached + query + 1 for query in range(new)]
    assert causal_pairs(new, cached, most) == sum(one if most is None else min(one, most) for one in seen)


def test_selected_prefill_by_hand() -> None:
    """8,192 new tokens of DeepSeek-V3.2: 14.7 million selected pairs on latents, 33.6 million scored ones."""
    first, index = layer_prefill(SPARSE, INDEXED, new_tokens=8_192, numerics=FP8)
    own = layer_weights(find("deepseek-v3"), LayerKind())
    masked = 2 * 128 * (128 + 64 + 128) * (8_192 * 8_193 / 2)
    selected = 2 * 128 * (2 * 512 + 64) * (2_048 * 2_049 / 2 + 6_144 * 2_048)
    assert first.flops == 2 * own * 8_192 + min(masked, selected) == 2 * own * 8_192 + masked
    assert index.flops == 2 * (layer_weights(SPARSE, INDEXED) - own) * 8_192 + 2 * 64 * 129 * (8_192 * 8_193 / 2)
    assert first.bytes == own + 8_192 * 576 * 2
    long = layer_prefill(SPARSE, INDEXED, new_tokens=65_536)[0].flops - 2 * own * 65_536
    assert long == 2 * 128 * (2 * 512 + 64) * (2_048 * 2_049 / 2 + 63_488 * 2_048)


def test_a_linear_prompt_by_hand() -> None:
    """Kimi K3, chunks of 64: products with the state, within the chunk, a triangular solve, for each of 96 heads."""
    weights = layer_weights(K3, LINEAR)
    one = 6 * 128 * 128 + 2 * 64 * (3 + 2) * 128 + 2 * 64**2 / 3
    assert linear_prefill(K3, new_tokens=1_000).flops == pytest.approx(1_000 * (2 * weights + 96 * one), rel=1e-12)
    lightning = replace(
        K3, attention=replace(K3.attention, linear_kind="lightning", linear_conv=None, linear_gate_rank=None)
    )
    simple = 4 * 128 * 128 + 2 * 256 * 256
    own = layer_weights(lightning, LINEAR)
    assert linear_prefill(lightning, new_tokens=1_000).flops == pytest.approx(1_000 * (2 * own + 96 * simple))


@given(new=st.integers(1, 50_000), cached=st.integers(0, 100_000), cut=st.floats(0, 1))
@NAMED
def test_chunks_of_a_prompt_together_are_the_prompt(llm: LlmFacts, new: int, cached: int, cut: float) -> None:
    """But for latents: dense or selected is decided chunk by chunk, and what is cached is expanded again."""
    first = int(new * cut)
    for kind in set(layer_kinds(llm)):
        if kind.whole and llm.attention.kind == "mla":
            continue
        whole = layer_prefill(llm, kind, new_tokens=new, cached_tokens=cached)
        parts = [
            layer_prefill(llm, kind, new_tokens=first, cached_tokens=cached),
            layer_prefill(llm, kind, new_tokens=new - first, cached_tokens=cached + first),
        ]
        for place, one in enumerate(whole):
            assert parts[0][place].flops + parts[1][place].flops == pytest.approx(one.flops, rel=1e-9)


def test_linear_layers_do_not_feel_what_is_cached() -> None:
    near, far = (layer_prefill(QWEN, LINEAR, new_tokens=100, cached_tokens=cached) for cached in (0, 10**6))
    assert near == far


# --- memory and whole steps -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("llm", [llm for llm in catalogue().values() if llm.name != "minimax-m1"], ids=lambda m: m.name)
def test_weights_of_one_gpu_are_all_parameters(llm: LlmFacts) -> None:
    held = weights_per_gpu(llm, numerics=BF16)
    parts = parts_of(llm)
    assert held.total == pytest.approx(2 * (parameters(llm)[0] + parts.index), rel=1e-12)
    assert held.attention == 2 * (parts.attention + parts.index)


@NAMED
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_degrees_split_what_heads_split_and_copy_the_rest(llm: LlmFacts, tp: int) -> None:
    whole, one = weights_per_gpu(llm), weights_per_gpu(llm, tp=tp)
    assert whole.attention / tp <= one.attention < whole.attention
    kept = kv_bytes_per_gpu(llm, context_tokens=20_000, tp=tp)
    assert kv_bytes(llm, 20_000) / tp - 1 <= kept <= kv_bytes(llm, 20_000) + 1
    if llm.attention.index_layers:
        assert kept >= kv_bytes(llm, 20_000) - 1  # latents, entries and keys of an index are whole everywhere


def test_states_are_split_by_heads_and_latents_are_not() -> None:
    latents = 24 * 576 * 2 * 1_000
    states = 69 * (96 * 128 * 128 * 4 + 3 * 3 * 96 * 128 * 2)
    assert kv_bytes_per_gpu(K3, context_tokens=1_000, tp=8) == latents + states / 8
    assert cache_shares(K3, tp=8, tokens_over=2) == (1 / 16, 0.5, 1 / 8)


@pytest.mark.parametrize(("llm", "tp"), [(SPARSE, 8), (QWEN, 2), (K3, 8), (FLASH, 4)])
def test_steps_add_up_the_operators_of_their_layers(llm: LlmFacts, tp: int) -> None:
    link = Link(2e-6, 360e9)
    step = tp_decode(llm, H200, sequences=8, context_tokens=30_000, tp=tp, link=link)
    sizes = {"sequences": 8, "context_tokens": 30_000, "tp": tp}
    wanted = sum(operators_s(H200, layer_decode(llm, kind, **sizes)) for kind in layer_kinds(llm))  # type: ignore[arg-type]
    assert step.attention_s == pytest.approx(wanted, rel=1e-12)
    apart = ep_decode(llm, H200, sequences=8, context_tokens=30_000, ep=8, link=link)
    alone = sum(
        operators_s(H200, layer_decode(llm, kind, sequences=8, context_tokens=30_000, numerics=FP8))
        for kind in layer_kinds(llm)
    )
    assert apart.attention_s == pytest.approx(alone, rel=1e-12)


def test_linear_layers_merge_nothing_where_a_cache_is_split() -> None:
    link = Link(3e-6, 720e9)
    assert merge_s(QWEN, Split(2, 4), sequences=1, link=link) == pytest.approx(
        15 * link.time_s(32 * 256 / 2 * 3 / 4 * 2), rel=1e-12
    )
    found = helix_decode(QWEN, Machine.of("GB200"), Split(2, 4, ep=8), sequences=4, context_tokens=200_000)
    whole = helix_decode(QWEN, Machine.of("GB200"), Split(2, 1, ep=2), sequences=4, context_tokens=200_000)
    assert found.attention_s < whole.attention_s


def test_projections_into_the_space_of_experts_count_with_the_router() -> None:
    with_them, without = moe_ffn(K3, tokens=10, ep=1), moe_ffn(K3, tokens=10, router=False)
    gate = 896 * 7_168 + 2 * 7_168 * 3_584
    assert with_them.flops - without.flops == pytest.approx(2 * 10 * gate)
    assert with_them.bytes - without.bytes == pytest.approx(2 * gate)


def test_the_attention_side_has_its_index() -> None:
    sizes = {"sequences": 4, "context_tokens": 100_000, "overhead_s": 0.0}
    found = attention_side_s(SPARSE, H200, **sizes)  # type: ignore[arg-type]
    works = layer_decode(SPARSE, INDEXED, sequences=4, context_tokens=100_000)
    assert found == operators_s(H200, works) > H200.time_s(works[0])


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_cache_that_an_index_needs_whole_is_not_split() -> None:
    with pytest.raises(InstanceError, match=r"kvp = 2: an index selects among all tokens: .*Use 1"):
        layer_decode(SPARSE, INDEXED, sequences=1, context_tokens=1, kvp=2)
    with pytest.raises(InstanceError, match="kvp = 4: compressed entries are not dealt out"):
        layer_decode(PRO, LayerKind(128, ratio=128), sequences=1, context_tokens=1, kvp=4)


def test_heads_of_linear_layers_and_groups_of_outputs_bound_the_degree() -> None:
    with pytest.raises(InstanceError, match=r"tp = 32: must divide linear_key_heads = 16\. Use 16"):
        kv_copies(QWEN, 32)
    with pytest.raises(InstanceError, match=r"tp = 32: must divide out_groups = 16\. Use 16"):
        kv_copies(PRO, 32)


def test_what_is_missing_is_named_by_its_field() -> None:
    unknown = replace(SPARSE, attention=replace(SPARSE.attention, index_top_k=None))
    with pytest.raises(InstanceError, match=r"attention\.index_top_k = not known: .*\(index_topk\)"):
        layer_decode(unknown, INDEXED, sequences=1, context_tokens=10)
    with pytest.raises(InstanceError, match="has no linear layers"):
        linear_decode(SPARSE, sequences=1)
    with pytest.raises(InstanceError, match="attention = unknown: is not known"):
        layer_decode(replace(SPARSE, attention=Attention("unknown")), LayerKind(), sequences=1, context_tokens=1)
