"""Configurations of every family, with what a naive reader gets wrong in each."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.errors import InstanceError
from moeopt.llm import (
    LlmFacts,
    catalogue,
    expert_bytes,
    facts_of,
    find,
    kv_bytes_per_token,
    parameters,
    read_config,
    routed_parameters,
)
from moeopt.llm.counts import parts_of
from moeopt.llm.families import BY_NAME
from tests.llm.look_alikes import CONFIGS, COUNTS, FP8, ROUTED, deepseek, minimax, mixtral, qwen3


def config(name: str, **changes: Any) -> dict[str, Any]:
    made = {**CONFIGS[name], **changes}
    return {key: value for key, value in made.items() if value is not ...}


def text(name: str, **changes: Any) -> dict[str, Any]:
    return {**CONFIGS[name], "text_config": {**CONFIGS[name]["text_config"], **changes}}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_equal_those_that_others_computed(name: str) -> None:
    total, active = parameters(facts_of(CONFIGS[name], name=name))
    assert total == pytest.approx(COUNTS[name][0] * 1e9, rel=1e-3, abs=5e6)
    assert active == pytest.approx(COUNTS[name][1] * 1e9, rel=1e-3, abs=5e6)


@pytest.mark.parametrize("name", ROUTED)
def test_routed_parameters_equal_those_that_others_computed(name: str) -> None:
    facts = facts_of(CONFIGS[name], name=name)
    assert routed_parameters(facts) == pytest.approx(ROUTED[name] * 1e9, rel=1e-3)


def test_counts_near_public_figures_of_families_that_no_one_counted_for_us() -> None:
    for name, total, active in (
        ("minimax-m1", 456, 45.9),
        ("minimax-m3", 428, 23),
        ("glm-5", 744, 40),
        ("qwen3.5-397b-a17b", 397, 17),
        ("kimi-k3", 2780, 104),
        ("deepseek-v4-flash", 284, 13),
    ):
        found = parameters(facts_of(CONFIGS[name]))
        assert found[0] / 1e9 == pytest.approx(total, rel=0.01)
        assert found[1] / 1e9 == pytest.approx(active, rel=0.07)


def test_every_family_of_the_table_has_a_look_alike() -> None:
    told = {row.get("model_type", "deepseek_inference") for row in CONFIGS.values()}
    read = {BY_NAME[kind].names[0] for kind in told}
    assert {family.names[0] for family in BY_NAME.values()} - read == {"olmoe"}
    olmoe = {"model_type": "olmoe", "num_experts": 64, "num_experts_per_tok": 8, "intermediate_size": 1024}
    sizes = {"num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16, "vocab_size": 50304}
    total, active = parameters(facts_of(olmoe | sizes))
    assert (total / 1e9, active / 1e9) == (pytest.approx(6.92, rel=2e-3), pytest.approx(1.18, rel=2e-2))


@pytest.mark.parametrize("name", [name for name in CONFIGS if name in catalogue() and name != "minimax-m1"])
def test_the_catalogue_says_what_the_configuration_says(name: str) -> None:
    read, listed = facts_of(CONFIGS[name], name=name), find(name)
    aside = {"notes": (), "source": "", "hf_id": None, "published_total_b": None, "published_active_b": None}
    aside |= {"context": None, "family": ""}
    assert replace(read, **aside) == replace(listed, **aside)


# --- traps ------------------------------------------------------------------------------------------------------------


def test_dense_layers_by_each_rule() -> None:
    assert find("deepseek-v3").dense_layers == (0, 1, 2) == facts_of(deepseek()).dense_layers
    assert facts_of(deepseek(num_hidden_layers=8, moe_layer_freq=2)).dense_layers == (0, 1, 2, 3, 5, 7)
    assert facts_of(deepseek(num_hidden_layers=4, moe_layer_freq=[0, 1, 0, 1], first_k_dense_replace=0)).moe_layers == (
        1,
        3,
    )
    assert facts_of(CONFIGS["llama-4-maverick"]).moe_layers == tuple(range(1, 48, 2))
    assert facts_of(text("llama-4-maverick", moe_layers=[5, 3])).moe_layers == (3, 5)
    sparse = config("qwen3-30b-a3b", decoder_sparse_step=2, mlp_only_layers=[1, 3])
    assert facts_of(sparse).moe_layers == tuple(range(5, 48, 2))
    assert facts_of(CONFIGS["minimax-m3"]).dense_layers == (0, 1, 2)
    assert facts_of(CONFIGS["llama-3-70b"]).dense


def test_llama4_swaps_the_widths_and_implies_a_shared_expert() -> None:
    facts = facts_of(CONFIGS["llama-4-maverick"])
    assert (facts.expert_width, facts.dense_width, facts.shared_experts, facts.shared_width) == (8192, 16384, 1, 8192)
    assert facts.attention.windowed[:4] == (0, 1, 2, 4) and facts.attention.window == 8192
    assert facts.extra == {"vision_config": {"hidden_size": 1408}}


def test_kimi_k3_experts_live_in_a_latent_space_and_its_layers_count_from_one() -> None:
    facts = facts_of(CONFIGS["kimi-k3"])
    assert (facts.hidden, facts.dispatch_width, facts.top_k, facts.expert_format) == (7168, 3584, 16, "mxfp4")
    assert len(facts.attention.linear) == 69 and facts.attention.linear[:4] == (0, 1, 2, 4)
    assert facts.weight_format == "bf16"


def test_deepseek_v4_ratios_may_go_on_for_mtp_layers() -> None:
    facts = facts_of(CONFIGS["deepseek-v4-pro"])
    assert len(facts.attention.ratios) == 61 and facts.mtp_layers == 1 and facts.dense_layers == ()
    assert (facts.weight_format, facts.expert_format) == ("fp8_block", "mxfp4")
    assert any("hash" in note for note in facts.notes)
    with pytest.raises(InstanceError, match=r"one a layer \(61, or 62 with MTP\)"):
        facts_of(config("deepseek-v4-pro", compress_ratios=[4] * 60))


def test_top_k_may_be_a_list_and_synonyms_must_agree() -> None:
    assert facts_of(CONFIGS["hunyuan-large"]).top_k == 1
    with pytest.raises(InstanceError, match="differs from layer to layer"):
        facts_of(config("hunyuan-large", moe_topk=[1, 2] * 32))
    with pytest.raises(InstanceError, match="num_experts_per_tok and experts_per_token = 4 and 8: mean the same"):
        facts_of(config("gpt-oss-20b", experts_per_token=8))
    assert facts_of(config("gpt-oss-20b", num_experts_per_tok=...)).top_k == 4


def test_deepseek_s_own_format_needs_no_model_type() -> None:
    facts = facts_of(CONFIGS["deepseek-v2"])
    assert (facts.experts, facts.top_k, facts.groups, facts.top_groups) == (160, 6, 8, 3)
    assert any("short format" in note for note in facts.notes)
    assert facts_of(config("deepseek-v2", dtype="fp8")).expert_format == "fp8_block"


def test_queries_without_a_latent_and_head_sizes_that_hidden_does_not_tell() -> None:
    lite = deepseek("deepseek_v2", q_lora_rank=None)
    assert facts_of(lite).attention.q_rank is None
    assert parts_of(facts_of(lite)).attention > parts_of(facts_of(deepseek())).attention
    assert facts_of(CONFIGS["qwen3-235b-a22b"]).attention.head_dim == 128
    assert facts_of(CONFIGS["glm-5"]).attention.kind == "mla"
    with pytest.raises(InstanceError, match="hidden = 4097 is no multiple of 32 heads"):
        facts_of(mixtral(32, 4097, 32, 14336))


def test_windows_linear_layers_and_mtp() -> None:
    assert facts_of(CONFIGS["gpt-oss-20b"]).attention.windowed == tuple(range(0, 24, 2))
    assert facts_of(config("gpt-oss-20b", layer_types=...)).attention.windowed == tuple(range(0, 24, 2))
    assert facts_of({**mixtral(4, 64, 4, 64), "num_key_value_heads": 4, "sliding_window": 9}).attention.window == 9
    late = config("qwen3-30b-a3b", use_sliding_window=True, sliding_window=9, max_window_layers=46)
    assert facts_of(late).attention.windowed == (46, 47)
    assert not facts_of(config("qwen3-30b-a3b", sliding_window=9)).attention.windowed
    qwen = facts_of(CONFIGS["qwen3.5-397b-a17b"])
    assert qwen.attention.linear == tuple(layer for layer in range(60) if layer % 4 != 3)
    assert qwen.attention.gated and qwen.mtp_layers == 1 and qwen.shared_experts == 1
    assert facts_of(CONFIGS["minimax-m2"]).mtp_layers == 3
    assert facts_of(config("minimax-m2", use_mtp=False)).mtp_layers == 0
    assert facts_of(CONFIGS["minimax-m1"]).attention.linear_kind == "lightning"
    assert facts_of(CONFIGS["minimax-m3"]).attention.index_layers == tuple(range(3, 60))


def test_a_width_that_blocks_do_not_divide_is_noticed() -> None:
    assert any("2880 elements are dispatched" in note for note in facts_of(CONFIGS["gpt-oss-20b"]).notes)
    assert not facts_of(CONFIGS["kimi-k2"]).notes


def test_arctic_says_what_it_does_not_count() -> None:
    facts = facts_of(CONFIGS["snowflake-arctic"])
    assert facts.parallel_dense and any("5.39 billion" in note for note in facts.notes)
    assert not facts_of(config("snowflake-arctic", use_residual=False)).parallel_dense


@pytest.mark.parametrize(
    ("quantization", "expert_format"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [64, 64]}, None),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4_g128"),
        ({"quant_method": "gptq", "bits": 8}, None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": {"type": "int", "num_bits": 4, "group_size": 32}}},
            },
            "int4_g32",
        ),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.mlp.experts"]}, "bf16"),
        ({"quant_method": "something"}, None),
        ({}, "bf16"),
    ],
)
def test_formats_of_weights(quantization: dict[str, Any], expert_format: str | None) -> None:
    facts = facts_of(deepseek(quantization_config=quantization))
    assert facts.expert_format == expert_format
    assert any("--expert-dtype" in note for note in facts.notes) == (expert_format is None)


def test_hf_quant_config_beside_decides_and_its_absence_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "DeepSeek-V3.1-NVFP4 ü"
    folder.mkdir()
    (folder / "config.json").write_text("\ufeff" + json.dumps(deepseek(quantization_config=None)), encoding="utf-8")
    plain = read_config(folder)
    assert plain.name == folder.name and plain.expert_format is None
    assert any("the name says NVFP4" in note for note in plain.notes)
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}
    (folder / "hf_quant_config.json").write_text(json.dumps(beside))
    assert read_config(folder / "config.json").expert_format == "nvfp4"


def test_unknown_keys_are_kept() -> None:
    assert facts_of(deepseek(rope_theta=10000, novelty={"a": 1})).extra == {"rope_theta": 10000, "novelty": {"a": 1}}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "config = list: must be a JSON object"),
        ({"model_type": "deepseek_v33"}, "Did you mean deepseek_v3"),
        (
            {**qwen3(4, 64, 4, 64, 64), "model_type": "bailing"},
            "keys look most like those of qwen3_moe; if they mean the same, set model_type to that",
        ),
        ({**minimax("x", 4, 64, 4, 64, 8, 2), "model_type": "zebra"}, "look most like those of mixtral"),
        ({"model_type": "zebra"}, "Known: mixtral, dbrx, deepseek_v3"),
        ({}, "model_type = missing: is needed"),
        ({"schema": "moeopt/placement-instance/1"}, "is a document of moeopt"),
        (deepseek(num_hidden_layers=10**9), "must be at most 10,000"),
        (deepseek(num_hidden_layers="61"), "num_hidden_layers = '61': must be a whole number >= 1"),
        (deepseek(n_routed_experts=True), "n_routed_experts = True: must be a whole number"),
        (deepseek(num_experts_per_tok=257), "must be at most the 256 experts"),
        (deepseek(n_group=7), "n_group = 7: must divide 256 experts"),
        (deepseek(tie_word_embeddings="no"), "tie_word_embeddings = 'no': must be true or false"),
        (deepseek(moe_layer_freq=[1, 1]), "must have one a layer, 61"),
        ({**CONFIGS["llama-4-scout"], "text_config": {}}, "num_hidden_layers = missing"),
        (text("llama-4-scout", moe_layers=[48]), "must be different layer ids from 0 to 47"),
        (config("gpt-oss-20b", sliding_window=None), "whose size is missing"),
        (config("gpt-oss-20b", num_key_value_heads=7), "num_key_value_heads = 7: must divide 64 heads"),
        (text("kimi-k3", linear_attn_config={"full_attn_layers": [0], "kda_layers": []}), "every layer from 1 to 93"),
        (text("qwen3.5-397b-a17b", full_attention_interval=None), "is needed to tell linear layers"),
    ],
)
def test_what_cannot_be_understood_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(InstanceError) as refused:
        facts_of(wrong, source="config.json")
    assert said in str(refused.value) and str(refused.value).startswith("config.json: ")


def test_all_faults_are_told_at_once() -> None:
    wrong = deepseek(kv_lora_rank=None, moe_intermediate_size=0, v_head_dim=1.5)
    with pytest.raises(InstanceError) as refused:
        facts_of(wrong)
    said = {violation.field for violation in refused.value.violations}
    assert said == {"kv_lora_rank", "moe_intermediate_size", "v_head_dim"}


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 200) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=400)
@given(st.data())
def test_no_value_of_a_key_does_anything_but_read_or_be_refused(data: st.DataObject) -> None:
    """Whatever stands behind a key: facts that can be counted, or an error that names it."""
    made = copy.deepcopy(CONFIGS[data.draw(st.sampled_from(sorted(CONFIGS)))])
    for _ in range(data.draw(st.integers(1, 2))):
        place = made
        while True:
            key = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or data.draw(st.booleans()):
                break
            if not place[key]:
                break
            place = place[key]
        place[key] = data.draw(ANY)
    try:
        facts = facts_of(made)
        assert LlmFacts.from_dict(facts.to_dict()) == facts
        assert len(facts.dense_layers) + len(facts.moe_layers) == facts.layers
        kv_bytes_per_token(facts)
        expert_bytes(facts)
        total, active = parameters(facts)
        assert 0 < active <= total
    except InstanceError as error:
        assert error.violations


def test_a_broken_file_is_refused_by_place(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "mixtral", "model_type": "mixtral"}')
    with pytest.raises(InstanceError, match="stands twice"):
        read_config(file)
    file.write_text('{"model_type": ')
    with pytest.raises(InstanceError, match="line 1"):
        read_config(file)
    with pytest.raises(InstanceError, match="cannot be read"):
        read_config(tmp_path / "nothing")
    assert FP8["quantization_config"]["quant_method"] == "fp8"
