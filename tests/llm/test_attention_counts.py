"""Parameters of attention by kind of layer, against figures worked out by hand from the published sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moeopt.errors import InstanceError
from moeopt.llm import find, parameters
from moeopt.llm.attention_counts import Counted, counted, index_parameters, latent_parameters
from moeopt.llm.config import facts_of
from moeopt.llm.layer_kinds import LayerKind, draft_kind, layer_kinds
from tests.llm.look_alikes import CONFIGS


def test_a_gated_delta_layer_by_hand() -> None:
    """Qwen3.5: 16 key heads and 64 value heads of 128, tokens of 4,096, convolution of 4."""
    keys, values = 2_048, 8_192
    inputs = 4_096 * (2 * keys + values + values + 64 + 64)
    found = counted(find("qwen3.5-397b-a17b"), LayerKind(linear=True))
    assert found == Counted(inputs + 4 * (2 * keys + values) + values * 4_096, values * 4_096)


def test_a_kda_layer_by_hand_with_either_gate() -> None:
    """Kimi K3: 96 heads of 128, tokens of 7,168; only the decay goes through 128 here."""
    k3, wide = find("kimi-k3"), 96 * 128
    found = counted(k3, LayerKind(linear=True))
    assert found.out == wide * 7_168
    assert found.copied == 7_168 * 128
    assert found.split == 5 * 7_168 * wide + 7_168 * 96 + 128 * wide + 3 * 4 * wide
    low = counted(replace(k3, attention=replace(k3.attention, linear_gate_rank=128)), LayerKind(linear=True))
    assert low.copied == 2 * 7_168 * 128
    assert low.split == 4 * 7_168 * wide + 7_168 * 96 + 2 * 128 * wide + 3 * 4 * wide


def test_latent_attention_with_a_gate_by_hand() -> None:
    k3 = find("kimi-k3")
    full = counted(k3, LayerKind())
    out = 96 * 128 * 7_168
    assert full == Counted(1_536 * 96 * 192 + 512 * 96 * 256 + 2 * out, out, 7_168 * (512 + 64) + 7_168 * 1_536)
    assert latent_parameters(k3) == 2 * 7_168 * 3_584
    assert latent_parameters(find("deepseek-v3")) == 0


def test_compressed_layers_by_hand() -> None:
    """DeepSeek-V4-Pro: 128 heads of 512, one entry for both key and value, 16 groups of outputs of 1,024."""
    pro = find("deepseek-v4-pro")
    out = 128 * 512 * 1_024 + 16 * 1_024 * 7_168
    for ratio, entries in ((0, 0), (128, 2 * 7_168 * 512), (4, 4 * 7_168 * 512)):
        found = counted(pro, LayerKind(128, ratio=ratio))
        assert found == Counted(1_536 * 128 * 512 + out, out, 7_168 * (1_536 + 512) + entries)
    assert index_parameters(pro) == 1_536 * 64 * 128 + 7_168 * 64 + 4 * 7_168 * 128


def test_an_index_by_hand() -> None:
    assert index_parameters(find("deepseek-v3.2")) == 1_536 * 64 * 128 + 7_168 * 128 + 7_168 * 64
    assert index_parameters(find("glm-5")) == 2_048 * 32 * 128 + 6_144 * 128 + 6_144 * 32
    assert index_parameters(find("deepseek-v3")) == 0


def test_an_index_does_not_change_what_is_counted_of_the_rest() -> None:
    assert parameters(find("deepseek-v3.2")) == parameters(find("deepseek-v3"))


def test_kinds_of_layers_and_of_the_one_that_drafts() -> None:
    v4 = find("deepseek-v4-flash")
    assert [kind.ratio for kind in layer_kinds(v4)[:4]] == [0, 0, 4, 128]
    assert [kind.indexed for kind in layer_kinds(v4)[:4]] == [False, False, True, False]
    assert draft_kind(v4) == LayerKind(128, ratio=0)
    assert draft_kind(find("qwen3.5-397b-a17b")) == LayerKind()
    assert draft_kind(find("deepseek-v3.2")) == LayerKind(indexed=True)
    oss = layer_kinds(find("gpt-oss-20b"))
    assert oss[:2] == (LayerKind(128), LayerKind()) and oss[1].whole and not oss[0].whole


def test_keys_of_configurations_that_say_how_much_is_read() -> None:
    assert facts_of(CONFIGS["deepseek-v3.2"]).attention.index_top_k == 2_048
    v4 = facts_of(CONFIGS["deepseek-v4-flash"]).attention
    assert (v4.index_top_k, v4.out_groups, v4.out_rank) == (512, 8, 1_024)
    assert facts_of(CONFIGS["minimax-m3"]).attention.index_top_k is None
    k3 = facts_of(CONFIGS["kimi-k3"]).attention
    assert k3.gated and k3.linear_gate_rank is None


def test_kimi_linear_gates_through_a_latent_and_a_flag_must_be_one() -> None:
    text = dict(CONFIGS["kimi-k3"]["text_config"])
    plain = {key: value for key, value in text.items() if key != "mla_use_output_gate"}
    plain["linear_attn_config"] = {
        key: value for key, value in text["linear_attn_config"].items() if key != "use_full_rank_gate"
    }
    at = facts_of({**plain, "model_type": "kimi_linear"}).attention
    assert not at.gated and at.linear_gate_rank == 128
    with pytest.raises(InstanceError, match="mla_use_output_gate = 'yes': must be true or false"):
        facts_of({**text, "mla_use_output_gate": "yes"})


def test_a_missing_size_is_named() -> None:
    pro = find("deepseek-v4-pro")
    broken = replace(pro, attention=replace(pro.attention, out_rank=None, out_groups=None))
    with pytest.raises(InstanceError) as refused:
        parameters(broken)
    assert [fault.field for fault in refused.value.violations] == ["attention.out_groups", "attention.out_rank"]
