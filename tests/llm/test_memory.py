"""Bytes of experts, slots and caches, against figures worked out by hand or printed elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.errors import InstanceError
from moeopt.llm import (
    FORMATS,
    Attention,
    catalogue,
    expert_bytes,
    find,
    kv_bytes,
    kv_bytes_per_token,
    slot_bytes,
)
from moeopt.llm.layer_kinds import LayerKind
from moeopt.llm.memory import compressing_bytes

CACHED = [name for name, facts in catalogue().items() if facts.attention.kind != "unknown"]


def test_the_price_of_a_slot_of_deepseek_v3() -> None:
    """42 MiB an expert in FP8 and 2.38 GiB over 58 layers; scales add 0.02 %."""
    facts = find("deepseek-v3")
    assert expert_bytes(facts) == 3 * (7168 * 2048 + 56 * 16 * 4)
    assert slot_bytes(facts) == 58 * expert_bytes(facts)
    assert slot_bytes(facts) / 2**30 == pytest.approx(2.38, abs=0.005)
    assert expert_bytes(facts, "fp4") == 3 * 7168 * 2048 // 2


def test_scales_and_biases_of_an_expert() -> None:
    facts = find("gpt-oss-120b")
    assert expert_bytes(facts) == 3 * (2880 * 1440 + 2880 * 90) + 2 * (3 * 2880)
    v3 = find("deepseek-v3")
    weights = 3 * 7168 * 2048
    assert expert_bytes(v3, "nvfp4") == weights // 2 + weights // 16
    assert expert_bytes(v3, "mxfp4") == weights // 2 + weights // 32
    assert expert_bytes(v3, "mxfp8") == weights + weights // 32
    assert expert_bytes(v3, "fp8") == weights + 3 * 4
    assert expert_bytes(v3, "int8") == weights + 4 * (2 * 2048 + 7168)
    assert expert_bytes(v3, "int4_g128") == weights // 2 + weights // 128 * 5 // 2


def test_blocks_that_stick_out_count_whole() -> None:
    assert FORMATS["fp8_block"].matrix_bytes(130, 1) == 130 + 2 * 4
    assert FORMATS["mxfp4"].matrix_bytes(1, 33) == 17 + 2
    assert FORMATS["bf16"].matrix_bytes(3, 5) == 30


def test_latent_experts_cost_half() -> None:
    facts = find("kimi-k3")
    assert expert_bytes(facts, "bf16") == 3 * 3584 * 3072 * 2


@pytest.mark.parametrize(
    ("name", "dtype", "per_token"),
    [
        ("mixtral-8x7b", "bf16", 32 * 2 * 8 * 128 * 2),
        ("deepseek-v3", "bf16", 61 * 576 * 2),
        ("deepseek-v3", "fp8", 61 * 576),
        ("deepseek-v3.2", "bf16", 61 * (576 * 2 + 128 + 4)),
        ("gpt-oss-20b", "bf16", 12 * 2 * 8 * 64 * 2),
        ("llama-4-scout", "bf16", 12 * 2 * 8 * 128 * 2),
        ("qwen3.5-397b-a17b", "bf16", 15 * 2 * 2 * 256 * 2),
        ("kimi-k3", "bf16", 24 * 576 * 2),
        ("hunyuan-large", "bf16", 32 * 2 * 8 * 80 * 2),
        ("deepseek-v4-pro", "bf16", (30 * (512 + 128) / 4 + 31 * 512 / 128) * 2),
        ("llama-3.1-405b", "fp4", 126 * 8 * 128),
    ],
)
def test_bytes_a_token_adds(name: str, dtype: str, per_token: float) -> None:
    assert kv_bytes_per_token(find(name), dtype) == per_token


def test_caches_printed_elsewhere() -> None:
    """DeepSeek-V4-Pro has 9.6 GiB in BF16 for 2**20 tokens; Helix reads 576 half bytes of 61 layers for DeepSeek-R1."""
    assert kv_bytes(find("deepseek-v4-pro"), 2**20) / 2**30 == pytest.approx(9.6, abs=0.05)
    assert 8 * kv_bytes(find("deepseek-r1"), 10**6, "fp4") / 8e12 == pytest.approx(17.6e-3, rel=2e-3)


def test_windows_fill_and_states_do_not_grow() -> None:
    oss = find("gpt-oss-20b")
    one = 2 * 8 * 64 * 2
    assert kv_bytes(oss, 100) == 24 * 100 * one
    assert kv_bytes(oss, 1000) == 12 * (1000 + 128) * one
    qwen = find("qwen3.5-397b-a17b")
    state = 64 * 128 * 128 * 4 + (2 * 16 * 128 + 64 * 128) * 3 * 2
    assert kv_bytes(qwen, 0) == 45 * state
    assert kv_bytes(qwen, 10) - kv_bytes(qwen, 0) == 10 * kv_bytes_per_token(qwen)
    assert kv_bytes(find("kimi-k3"), 0) == 69 * (96 * 128 * 128 * 4 + 3 * 96 * 128 * 3 * 2)
    v4 = find("deepseek-v4-flash")
    unfinished = 20 * 128 * 2 * 512 * 4 + 21 * 2 * 4 * 2 * 2 * (512 + 128) * 4
    assert kv_bytes(v4, 128) == (43 * 128 + 21 * 32 + 20) * 512 * 2 + 21 * 32 * 128 * 2 + unfinished
    assert unfinished == 20 * compressing_bytes(v4, LayerKind(128, ratio=128)) + 21 * compressing_bytes(
        v4, LayerKind(128, indexed=True, ratio=4)
    )


@pytest.mark.parametrize("name", CACHED)
@given(st.integers(0, 2**21), st.integers(0, 2**15))
def test_a_longer_sequence_never_keeps_less_and_grows_as_told(name: str, tokens: int, more: int) -> None:
    facts = find(name)
    assert kv_bytes(facts, tokens) <= kv_bytes(facts, tokens + more)
    if tokens >= 8192 and tokens % 128 == 0:
        grown = kv_bytes(facts, tokens + 128 * more) - kv_bytes(facts, tokens)
        assert grown == pytest.approx(128 * more * kv_bytes_per_token(facts))


def test_what_is_not_known_is_refused_where_it_is_needed() -> None:
    m1 = find("minimax-m1")
    assert m1.layers == 80 and m1.experts is None and len(m1.attention.linear) == 70
    assert expert_bytes(m1, "bf16") == 3 * 6144 * 9216 * 2
    with pytest.raises(InstanceError, match="expert_format = not known"):
        expert_bytes(m1)
    with pytest.raises(InstanceError, match="attention = unknown"):
        kv_bytes_per_token(m1)
    with pytest.raises(InstanceError, match="this LLM is dense"):
        expert_bytes(find("llama-3-70b"))
    with pytest.raises(InstanceError, match="fp7: is not a format this version knows"):
        expert_bytes(find("deepseek-v3"), "fp7")
    with pytest.raises(InstanceError, match="tokens = -1"):
        kv_bytes(find("deepseek-v3"), -1)
    gqa = replace(m1, attention=Attention("gqa", head_dim=128))
    with pytest.raises(InstanceError, match=r"attention\.kv_heads = not known: is needed"):
        kv_bytes_per_token(gqa)
