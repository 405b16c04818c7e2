"""The command line about LLMs and GPUs: facts, prices, engines' limits, and plans against a configuration."""

from __future__ import annotations

import json

import pytest

from moeopt.llm import GPUS, catalogue

SHAPE = ("--slots", 288, "--gpus", 72, "--nodes", 9)

CONFIG = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "vocab_size": 1000,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "intermediate_size": 128,
    "mlp_only_layers": [0],
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    return file


def test_info_lists_every_llm_and_gpu(moeopt):
    out = moeopt("info", "llms").out
    assert all(name in out for name in catalogue()) and "2,779.48" in out
    rows = moeopt("info", "llms", "--json").document
    assert rows["deepseek-v3"]["total_params_b"] == pytest.approx(671.03, abs=0.01)
    assert rows["kimi-k3"]["total_params_b"] == pytest.approx(2779.48, abs=0.01)
    assert rows["minimax-m1"]["total_params_b"] is None and rows["minimax-m1"]["experts"] is None
    assert all(row["source"] for row in rows.values())
    assert list(moeopt("info", "gpus", "--json").document) == list(GPUS)
    line = next(line for line in moeopt("info", "gpus").out.splitlines() if "Ascend-910B" in line)
    assert line.split()[1:5] == ["-"] * 4


def test_check_takes_layers_experts_and_bytes_from_the_llm(moeopt):
    run = moeopt("check", "--llm", "deepseek-v3", *SHAPE, "--gpu-mem", "80GB")
    assert run.code == 0
    for said in (
        "61 layers, experts in 58 (3-60), 256 experts, top-8, 1 shared expert, 1 MTP layer",
        "671.03 billion, 36.62 active (expected: 671, 37)",
        "2.38 GiB) on its GPU over 58 layers",
        "in fp8_block), MTP layers not counted",
        "32 redundant experts cost 81.76 GB (76.14 GiB) in all",
        "silently plans flat",
    ):
        assert said in run.out
    facts = moeopt("check", "--llm", "deepseek-v3", *SHAPE, "--json").document
    assert facts["llm"]["experts"] == 256 and facts["slot_bytes"] == 58 * 44050944
    assert facts["redundant_bytes"] == 32 * facts["slot_bytes"]
    assert [one["engine"] for one in facts["engines"] if not one["ok"]] == []
    half = moeopt("check", "--llm", "deepseek-v3", *SHAPE, "--expert-dtype", "fp4", "--json").document
    assert half["slot_bytes"] == 58 * 3 * 7168 * 2048 // 2


def test_check_without_a_shape_shows_an_llm(moeopt, config):
    run = moeopt("check", "--hf-config", config, "--params", "0.1M,1M")
    assert run.code == 0 and "experts in 3 (1-3), 6 experts, top-2" in run.out and "a slot costs" in run.out
    assert "off those expected" in run.err
    for name in ("llama-3-70b", "minimax-m1", "kimi-k3"):
        assert moeopt("check", "--llm", name).code == 0
        assert moeopt("check", "--llm", name, "--json").document["llm"]["name"] == name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--experts = missing: is needed. Give it, or an LLM"),
        (("--llm", "deepseek-v3", "--slots", 288), "--gpus = missing"),
        (("--llm", "deepseek-v3", *SHAPE, "--experts", 255), "--experts = 255: contradicts deepseek-v3, which has 256"),
        (("--llm", "deepseek-v3", *SHAPE, "--layers", 61), "--layers = 61: contradicts deepseek-v3, which has 58"),
        (("--llm", "deepseek-v4", *SHAPE), "is not in the catalogue (moeopt info llms). Did you mean"),
        (("--llm", "deepseek-v3", "--hf-config", "x", *SHAPE), "names an LLM, and --hf-config does too"),
        (("--llm", "llama-3-70b", *SHAPE), "this LLM is dense"),
        (("--llm", "minimax-m1", *SHAPE), "experts = not known: is needed for a shape"),
        (("--llm", "minimax-m1", *SHAPE, "--experts", 256, "--gpu-mem", "80GB"), "expert_format = not known"),
        (("--llm", "deepseek-v3", *SHAPE, "--expert-dtype", "fp7"), "fp7: is not a format"),
        (("--llm", "deepseek-v3", *SHAPE, "--params", "much"), "--params = much: must be a number > 0"),
        (("--experts", 256, *SHAPE, "--params", "671B"), "--params = 671B: is about an LLM, and none is named"),
        (("--hf-config", "nothing.json"), "nothing.json = cannot be read"),
    ],
)
def test_check_refuses_what_does_not_fit(moeopt, words, said):
    run = moeopt("check", *words)
    assert run.code == 2 and said.replace("nothing.json = ", "") in run.err


def test_verify_holds_a_plan_against_the_configuration(moeopt, config, tmp_path):
    loads, plan = tmp_path / "loads.json", tmp_path / "plan.json"
    words = ("generate", "zipf", "--experts", 6, "--top-k", 2, "--tokens", 100, "--layers", 4)
    assert moeopt(*words, "-o", loads).code == 0
    shape = ("--gpus", 2, "--slots", 8, "--method", "lpt", "--top-k", 2)
    assert moeopt("place", loads, *shape, "--layers", "1-3", "-o", plan).code == 0
    assert moeopt("verify", plan, "--hf-config", config).code == 0
    config.write_text(json.dumps(CONFIG | {"num_experts": 8, "num_experts_per_tok": 3, "mlp_only_layers": []}))
    run = moeopt("verify", plan, "--hf-config", config)
    assert run.code == 5
    assert "layers: the plan has 1-3" in run.out and "0 has no plan" in run.out
    assert "experts: the plan has 6" in run.out and "top_k: the plan has 2" in run.out
    assert "experts: the plan has 6, deepseek-v3 has 256" in moeopt("verify", plan, "--llm", "deepseek-v3").out
