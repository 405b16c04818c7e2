"""One thing has one option: the size of an expert from the LLM, the memory of a GPU, the shape of ready-made plans."""

from __future__ import annotations

import json

import pytest

DSV3 = 44_050_944  # 3 matrices of 7168 x 2048 in FP8, with a scale of 4 bytes for every block of 128 x 128


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "old.csv").write_text("7,5,3,1,9,4,2,6\n1,2,3,4,5,6,7,8\n")
    (tmp_path / "new.csv").write_text("1,9,3,7,2,4,8,6\n8,7,1,5,4,3,2,6\n")
    return tmp_path


def planned(moeopt, folder, name, *words):
    run = moeopt("place", folder / "old.csv", "--method", "lpt", *words, "-o", folder / name)
    assert run.code == 0, run.err
    return folder / name


def test_the_llm_says_what_a_move_weighs(moeopt, folder):
    plan = planned(moeopt, folder, "plan.json", "--gpus", 4, "--slots", 12)
    words = ("place", folder / "new.csv", "--current", plan, "--iterations", 1, "--json")
    asked = ("--bandwidth", "50GB", "--step-time", "30ms", "--steps-until-next", 100)
    assert "--expert-bytes = missing: is needed beside --bandwidth" in moeopt(*words, *asked).err
    run = moeopt(*words, *asked, "--llm", "deepseek-v3")
    assert run.code == 0 and f"an expert of deepseek-v3 has {DSV3:,} bytes (fp8_block)" in run.err
    solution = run.document["solution"]
    assert solution["moved_bytes"] == solution["moves"] * DSV3 > 0
    assert "is needed beside" not in run.err and run.err.count("an expert of") == 1
    same = moeopt(*words, *asked, "--expert-bytes", DSV3).document["solution"]
    assert same["decision"] == solution["decision"]


def test_the_configuration_says_it_too_where_it_is_asked(moeopt, folder, tmp_path):
    config = tmp_path / "config.json"
    known = {"model_type": "mixtral", "num_hidden_layers": 2, "num_local_experts": 8, "num_experts_per_tok": 2}
    known |= {"hidden_size": 128, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
    known |= {"vocab_size": 1000, "torch_dtype": "bfloat16"}
    config.write_text(json.dumps(known))
    words = ("place", folder / "old.csv", "--hf-config", config, "--gpus", 4, "--method", "lpt", "--json")
    run = moeopt(*words, "--slots", 12)
    assert run.code == 0, run.err
    assert run.document["instance"]["document"]["expert_bytes"] is None and "an expert of" not in run.err
    run = moeopt(*words, "--memory-bytes", f"{3 * 3 * 128 * 64 * 2}")
    assert run.code == 0, run.err
    assert run.document["instance"]["document"]["expert_bytes"] == 3 * 128 * 64 * 2
    assert run.document["instance"]["document"]["slots"] == [3] * 4


@pytest.mark.parametrize("verb", ["place", "compare"])
def test_the_memory_of_a_gpu_is_counted_in_experts_of_the_llm(moeopt, folder, verb):
    words = (folder / "old.csv", "--gpus", 4, "--memory-bytes", f"{3 * DSV3}", "--llm", "deepseek-v3", "--json")
    method = ("--method" if verb == "place" else "--methods", "lpt")
    run = moeopt(verb, *words, *method)
    same = moeopt(verb, folder / "old.csv", "--gpus", 4, "--slots", 12, "--memory-bytes", f"{3 * DSV3}",
                  "--expert-bytes", DSV3, "--json", *method)  # fmt: skip
    assert run.code == same.code == 0, run.err
    one, other = ((run.document, same.document) if verb == "place" else
                  (run.document["blocks"][0], same.document["blocks"][0]))  # fmt: skip
    assert one["instance"]["sha256"] == other["instance"]["sha256"]


def test_a_budget_of_memory_asks_the_llm_and_two_llms_are_refused(moeopt, folder):
    words = ("place", folder / "old.csv", "--gpus", 4, "--slots-curve", "--method", "lpt", "--memory-budget", "1GB")
    assert "--expert-bytes = missing" in moeopt(*words).err
    run = moeopt(*words, "--llm", "deepseek-v3", "--json")
    assert run.code == 0 and run.document["memory_budget"] is not None
    run = moeopt(*words, "--llm", "deepseek-v3", "--hf-config", "config.json")
    assert run.code == 2 and "--llm = deepseek-v3: names an LLM, and --hf-config does too" in run.err


def test_an_llm_alone_is_compared_as_a_mesh(moeopt):
    run = moeopt("compare", "--llm", "no-such-llm")
    assert run.code == 2 and "INPUT" not in run.err and "no-such-llm" in run.err


@pytest.mark.parametrize("option", ["--memory-budget", "--gpu-mem"])
def test_the_memory_of_a_gpu_has_one_name_and_its_old_one(moeopt, option):
    words = ("check", "--experts", 12, "--slots", 16, "--gpus", 4, "--expert-bytes", "1GB")
    run = moeopt(*words, option, "3GB", "--json")
    assert run.document["slots_that_fit"] == 3 and not run.document["fits"]
    assert run.document["violations"][0].startswith("--memory-budget = 3GB: 4 slots of 1.00 GB")
    assert "ok: 4 slots a GPU" in moeopt(*words, option, "5GB").out


def test_ready_made_plans_give_the_shape_of_a_comparison(moeopt, folder):
    one = planned(moeopt, folder, "one.json", "--gpus", 4, "--slots", 16, "--nodes", 2)
    two = planned(moeopt, folder, "two.json", "--gpus", 4, "--slots", 16, "--nodes", 2, "--seed", 1)
    words = ("compare", folder / "new.csv", "--methods", "lpt", "--json")
    run = moeopt(*words, "--plans", f"{one},{two}")
    assert run.code == 0 and "the shape is that of the plans: 4 GPUs, slots 16, 2 nodes\n" in run.err
    same = moeopt(*words, "--plans", f"{one},{two}", "--gpus", 4, "--slots", 16, "--nodes", 2)
    strip = [[{**row, "runtime_s": 0} for row in each.document["blocks"][0]["rows"]] for each in (run, same)]
    assert strip[0] == strip[1]
    assert "the shape is that of one.json: 4 GPUs" in moeopt(*words, "--plans", one).err
    run = moeopt("compare", "--fit", folder / "old.csv", "--score", folder / "new.csv", "--plans", one,
                 "--methods", "lpt", "--json")  # fmt: skip
    assert run.code == 0 and all("held_out" in row for row in run.document["blocks"][0]["rows"])


def test_plans_of_different_shapes_give_none(moeopt, folder):
    one = planned(moeopt, folder, "one.json", "--gpus", 4, "--slots", 16)
    two = planned(moeopt, folder, "two.json", "--gpus", 4, "--slots", 12)
    run = moeopt("compare", folder / "new.csv", "--methods", "lpt", "--plans", f"{one},{two}")
    assert run.code == 2 and run.err.count("error:") == 2
    assert "--plans = two.json: is of another shape than the others: 4 GPUs, slots 12." in run.err
    run = moeopt("compare", folder / "new.csv", "--methods", "lpt", "--plans", f"{one},{two}", "--current", two)
    assert "the shape is that of the running plan: 4 GPUs, slots 12" in run.err and run.code == 0


def test_what_the_configuration_does_not_tell_is_said_and_asked_of_an_llm_that_is_named(moeopt, folder, tmp_path):
    config = tmp_path / "config.json"
    known = {"model_type": "mixtral", "num_hidden_layers": 2, "num_local_experts": 8, "num_experts_per_tok": 2}
    known |= {"hidden_size": 128, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
    config.write_text(json.dumps({**known, "vocab_size": 1000, "quantization_config": {"quant_method": "strange"}}))
    words = ("place", folder / "old.csv", "--gpus", 4, "--method", "lpt", "--memory-bytes", "1GB")
    run = moeopt(*words, "--hf-config", config)
    assert run.code == 2 and "note: bytes are not told: " in run.err and "expert_bytes = missing" in run.err
    run = moeopt(*words, "--llm", config)
    assert run.code == 2 and "note: bytes are not told" not in run.err
