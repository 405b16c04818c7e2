"""Troubles that users have met with degrees, memory and stocks, each as an input through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moeopt.mesh.document import read_instance
from moeopt.mesh.market import configs_of
from moeopt.mesh.public import Demand, MeshInstance, Workload
from tests.mesh.strategies import LLMS, config, gpu_type

QUICK = ("--input-tokens", 512, "--output-tokens", 64, "--most-pp", 1)
LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 5120, "intermediate_size": 13824,
    "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 40, "vocab_size": 32000,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
QWEN: dict[str, Any] = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936,
    "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def llm(folder: Path, sizes: dict[str, Any], **more: Any) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(sizes | more))
    return file


def document(folder: Path, instance: MeshInstance) -> Path:
    file = folder / "instance.json"
    file.write_text(json.dumps(instance.to_dict()))
    return file


def rows(run: Any, **of: Any) -> list[dict[str, Any]]:
    return [row for row in run.document["solution"]["ranking"] if all(row[key] == value for key, value in of.items())]


def test_a_budget_is_a_cap(moeopt, tmp_path):
    """Replicas of 8 and of 2 GPUs, 10 requests/s each: three of both, and two GPUs stay idle."""
    pools = (config(0, "prefill", {"H100": 8}, 10, name="P"), config(0, "decode", {"H100": 2}, 10, name="D"))
    families = ("prefill", "decode")
    demand = Demand(LLMS[0], Workload(100, 10))
    instance = MeshInstance((demand,), (gpu_type("H100", 32),), "goodput", families, configs=pools)
    file, plan = document(tmp_path, instance), tmp_path / "plan.json"
    run = moeopt("mesh", file, "--json", "-o", plan)
    found = run.document["solution"]
    assert (run.code, found["rate_per_s"], found["total_gpus"], found["idle_gpus"]) == (0, 30.0, 30, {"H100": 2})
    assert {pool["label"]: pool["replicas"] for pool in found["pools"]} == {"P": 3, "D": 3}
    assert "2 of 32 H100 stay idle" in run.err
    assert moeopt("verify", plan, file).code == 0


def test_tp_has_to_divide_the_heads(moeopt, tmp_path):
    words = ("--gpu", "h200", "--gpus", 6, "--node-gpus", 6, "--families", "colocated", *QUICK)
    run = moeopt("mesh", "--hf-config", llm(tmp_path, LLAMA), *words, "--json")
    assert run.code == 0, run.err
    reasons = {row["label"]: row["why_not"] for row in rows(run, behind=None)}
    assert any("TP3" in label and "40 heads" in why for label, why in reasons.items()), reasons
    assert any("TP6" in label and "40 heads" in why for label, why in reasons.items()), reasons
    used = {pool["config"]["shape"]["tp"] for pool in run.document["solution"]["pools"]}
    assert used <= {1, 2}
    assert all(
        "TP3" not in row["label"] and "TP6" not in row["label"] for row in rows(run) if row["behind"] is not None
    )


def test_blocks_of_fp8_keep_experts_whole_enough(moeopt, tmp_path):
    """768 columns are six blocks of 128: a quarter would be one and a half. EP 8 uses the GPUs."""
    quantised = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    file = llm(tmp_path, QWEN, quantization_config=quantised)
    run = moeopt("mesh", "--hf-config", file, "--gpu", "h100:8", "--families", "colocated", *QUICK, "--json")
    assert run.code == 0, run.err
    refused = {row["label"]: row["why_not"] for row in rows(run, behind=None)}
    assert any("MoE-TP4" in label and "128" in why for label, why in refused.items()), refused
    usable = [row["label"] for row in rows(run) if row["behind"] is not None]
    assert not any("MoE-TP4" in label or "MoE-TP8" in label for label in usable) and any("EP8" in one for one in usable)
    words = ("--gpu", "h100:8", "--families", "colocated", *QUICK)
    unsaid = moeopt("mesh", "--hf-config", llm(tmp_path, QWEN), *words)  # the folder's name says FP8, its file does not
    assert unsaid.code == 2 and "--dtype = missing" in unsaid.err and "Give bf16, fp8 or fp4" in unsaid.err
    plain = moeopt("mesh", "--hf-config", llm(tmp_path, QWEN), *words, "--dtype", "bf16", "--json")
    assert plain.code == 0, plain.err
    assert any("MoE-TP4" in row["label"] for row in rows(plain) if row["behind"] is not None)


def test_kv_heads_are_copied_where_tp_exceeds_them(moeopt, tmp_path):
    """Two KV heads on eight GPUs: each head four times, so a GPU keeps of a sequence what it does at TP 2."""
    file = llm(tmp_path, LLAMA, num_attention_heads=16, num_key_value_heads=2, head_dim=128)
    words = ("--gpu", "h200", "--gpus", 8, "--families", "colocated", *QUICK, "--objective", "time")
    run = moeopt("mesh", "--hf-config", file, *words, "--json")
    assert run.code == 0, run.err
    kv = {}
    for one in configs_of(read_instance(run.document["instance"]["document"])):
        if one.batch:
            (memory,) = one.memory.values()
            kv[one.shape.tp] = memory.kv / one.batch
    assert kv[8] == kv[4] == kv[2] == kv[1] / 2


def test_latents_are_copied_by_tp_and_not_by_dp(moeopt):
    """One latent cannot be split: eight ranks of their own hold about eight times the sequences."""
    words = ("--gpu", "b200", "--gpus", 8, "--families", "colocated", "--imbalance", "even", "--redundant", 0)
    run = moeopt("mesh", "--llm", "deepseek-v3", *words, "--input-tokens", 4096, "--output-tokens", 1024,
                 "--most-pp", 1, "--transport", "none", "--json")  # fmt: skip
    assert run.code == 0, run.err
    batch = {row["label"].removeprefix("colocated "): row["batch"] for row in rows(run)}
    by_tp = next(batch[label] for label in batch if label.startswith("TP8"))
    assert 8 * batch["DP8 = EP8"] > 6 * by_tp  # TP leaves a little more room beside the weights


def test_stages_cover_all_layers(moeopt, tmp_path):
    """One head cannot be split and 61 equal layers need four GPUs: 16, 15, 15 and 15 layers."""
    sizes = {"num_hidden_layers": 61, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 128}
    file = llm(tmp_path, LLAMA, **sizes, hidden_size=16384, intermediate_size=73728, vocab_size=1024)
    words = ("--gpu", "h200", "--gpus", 4, "--families", "colocated", "--input-tokens", 512, "--output-tokens", 64)
    run = moeopt("mesh", "--hf-config", file, *words, "--json")
    assert run.code == 0, run.err
    (pool,) = run.document["solution"]["pools"]
    assert pool["config"]["shape"]["pp"] == 4
    assert sorted(pool["stages"]["layers"], reverse=True) == [16, 15, 15, 15]
