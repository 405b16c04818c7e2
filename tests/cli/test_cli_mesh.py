"""``moeopt mesh``: what it answers, in words and JSON, option by option, and its files."""

from __future__ import annotations

import json
import shlex

import pytest
from conftest import ROOT

from moeopt.cli import main
from moeopt.cli.mesh import EXAMPLE

SMALL = ("--llm", "mixtral-8x7b", "--gpu", "h100:8", "--input-tokens", 1024, "--output-tokens", 128,
         "--families", "colocated", "--most-pp", 1)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mesh")


@pytest.fixture(scope="module")
def plan(folder):
    file = folder / "plan.json"
    assert main(["mesh", *map(str, SMALL), "--ttft", "2s", "--tpot", "40ms", "-q", "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def document(plan):
    return json.loads(plan.read_text())


@pytest.fixture(scope="module")
def instance(plan, document):
    file = plan.with_name("instance.json")
    file.write_text(json.dumps(document["instance"]["document"]))
    return file


def test_words_have_one_answer_its_band_its_bound_and_the_command(moeopt, instance):
    run = moeopt("mesh", instance)
    out = " ".join(run.out.split())
    assert run.code == 0
    assert "uncalibrated, from data sheets: nine of ten of the 821 measured runs" in out
    assert "no plan of these configurations serves more than" in out and "(certified); gap 0 %; OPTIMAL" in out
    assert "runners-up, by what a request costs with them" in out and "bought" in out
    assert "vllm serve mistralai/Mixtral-8x7B" in out
    assert "ms of 40 ms" in out and "s of 2 s" in out


def test_the_document_and_the_options_are_the_same_question(moeopt, instance, document):
    run = moeopt("mesh", instance, "--json")
    for key in ("objective", "lower_bound", "solution", "certificate"):
        assert run.document[key] == document[key]
    piped = moeopt("mesh", "-", "--json", stdin=instance.read_text())
    assert piped.document["solution"] == document["solution"]
    assert piped.code == 0


def test_quiet_says_nothing_and_json_is_one_strict_object(moeopt, instance):
    assert moeopt("mesh", instance, "-q").out == ""
    run = moeopt("mesh", instance, "-q", "-o", "-")
    assert run.err == "" and run.document["schema"] == "moeopt/mesh-result/1"
    assert {"pools", "ranking", "pareto", "idle_gpus", "sensitivity"} <= set(run.document["solution"])


def test_verbose_lists_more_runners_up_and_every_engine(moeopt, instance):
    short, long = moeopt("mesh", instance).out, moeopt("mesh", instance, "-v").out
    assert len(long.splitlines()) > len(short.splitlines())
    assert "sglang" in long and "sglang" not in short


def test_a_plot_is_drawn_and_nothing_is_overwritten_unasked(moeopt, instance, folder):
    svg, png = folder / "front.svg", folder / "front.png"
    assert moeopt("mesh", instance, "-q", "-o", svg).code == 0
    assert moeopt("mesh", instance, "-q", "-o", png).code == 0
    assert "<svg" in svg.read_text() and "TPOT 40 ms" in svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")
    run = moeopt("mesh", instance, "-o", svg)
    assert (run.code, run.out) == (2, "") and "exists and is never overwritten unasked" in run.err
    assert moeopt("mesh", instance, "-q", "-o", svg, "--force").code == 0


def fields(document):
    return document["instance"]["document"]


@pytest.fixture
def asked(moeopt):
    """The document of an answer to the small question with some options more."""

    def ask(*words):
        run = moeopt("mesh", *SMALL, *words, "--json")
        assert run.code == 0, run.err
        return run.document

    return ask


def test_every_option_reaches_the_instance(asked):
    found = asked(
        *("--cached", 0.5, "--rate", 20, "--ttft", "3s", "--tpot", "60ms", "--objective", "price", "--price", 2.5),
        *("--engine", "sglang", "--dtype", "bf16", "--kv", "bf16,fp8", "--most-batch", 32, "--redundant", "0,8"),
        *("--transport", "allgather", "--imbalance", 1.2, "--drafts", "1.8", "--usable", 0.8, "--reserve", "2GB"),
        *("--node-gpus", 4, "--roles", "colocated=h100", "--method", "uniform", "--seed", 3, "--time-limit", "60s"),
    )
    given = fields(found)
    (demand,), (gpu,) = given["demands"], given["gpus"]
    assert demand["workload"] == {"input_tokens": 1024, "output_tokens": 128, "cached": 0.5, "rate_per_s": 20.0}
    assert (demand["slo"]["ttft_s"], demand["slo"]["tpot_s"]) == (3.0, 0.06)
    assert demand["numerics"]["weights"] == "bf16"
    assert (gpu["stock"], gpu["price"], gpu["node_gpus"]) == (8, 2.5, 4)
    assert gpu["machine"]["efficiency"]["usable_memory"] == 0.8
    wanted = {
        "objective": "price",
        "families": ["colocated"],
        "kv_formats": ["bf16", "fp8"],
        "reserve_bytes": 2e9,
        "most_pp": 1,
        "most_batch": 32,
        "redundant": [0, 8],
        "sides": {"colocated": "H100"},
        "engine": "sglang",
        "transport": "allgather",
        "drafts": [1.8],
    }
    assert {key: given[key] for key in wanted} == wanted
    assert given["imbalance"]["rows"] == [[2, 0, 1.2]]
    assert (found["method"], found["seed"], found["unit"]) == ("uniform", 3, "price")
    assert found["solution"]["price"] == 2.5 * found["solution"]["total_gpus"]
    assert all(pool["config"]["batch"] <= 32 for pool in found["solution"]["pools"])


def test_a_rate_asks_for_gpus_with_prices_for_the_price_and_without_for_goodput(asked, document):
    assert fields(document)["objective"] == "goodput" and document["unit"] == "s/request"
    assert asked("--rate", 5)["unit"] == "GPUs"
    assert asked("--rate", 5, "--price", "h100=3")["unit"] == "price"


def test_a_context_is_a_prompt_and_half_of_the_answer(moeopt):
    words = [word for pair in zip(SMALL[::2], SMALL[1::2], strict=True) if pair[0] != "--input-tokens" for word in pair]
    run = moeopt("mesh", *words, "--context", 1088, "--json")
    assert fields(run.document)["demands"][0]["workload"]["input_tokens"] == 1024
    assert "a context of 1,088 tokens is a prompt of 1,024 and half of the answer" in run.document["notes"]


def test_recorded_loads_say_how_uneven_ranks_are(asked, tmp_path):
    loads = tmp_path / "loads.csv"
    loads.write_text("layer,a,b,c,d,e,f,g,h\n0,90,10,10,10,10,10,10,10\n")
    uneven = fields(asked("--loads", loads))["imbalance"]
    assert str(loads) in uneven["source"] and any(row[2] > 1 for row in uneven["rows"])
    assert fields(asked("--imbalance", "one-domain"))["imbalance"]["shipped"] == "one-domain"
    assert fields(asked("--imbalance", "even"))["imbalance"]["rows"][0][2] == 1.0


def test_clusters_by_name_and_of_a_file_bring_their_links(moeopt):
    words = [word for pair in zip(SMALL[::2], SMALL[1::2], strict=True) if pair[0] != "--gpu" for word in pair]
    named = moeopt("mesh", *words, "--cluster", "1x8-h100", "--price", "h100=2", "--json").document
    (gpu,) = fields(named)["gpus"]
    assert (gpu["name"], gpu["stock"], gpu["price"], gpu["domain_gpus"]) == ("H100", 8, 2.0, 8)
    assert any("8 H100 of 1x8-h100, links of its tiers times" in note for note in named["notes"])
    file = ROOT / "tests" / "data" / "topologies" / "nccl_h100_a.xml"
    filed = moeopt("mesh", *words, "--cluster", file, "--gpu", "h100", "--json").document
    assert fields(filed)["gpus"][0]["stock"] == 8


def test_a_configuration_file_is_an_llm(moeopt, tmp_path):
    words = SMALL[2:]
    file = tmp_path / "config.json"
    sizes = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 4096,
             "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
             "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "max_position_embeddings": 32768,
             "torch_dtype": "bfloat16", "tie_word_embeddings": False}  # fmt: skip
    file.write_text(json.dumps(sizes))
    run = moeopt("mesh", "--hf-config", file, *words, "--json")
    assert run.code == 0, run.err
    assert fields(run.document)["demands"][0]["llm"]["experts"] == 8


def test_measured_constants_change_times_and_the_band(moeopt, tmp_path):
    from tests.calibrate.tables import as_csv, moe_perf

    table, constants = tmp_path / "kernel.csv", tmp_path / "constants.json"
    table.write_text(as_csv(moe_perf()))
    assert moeopt("calibrate", table, "-o", constants, "-q").code == 0
    words = ["h200:8" if word == "h100:8" else word for word in SMALL]
    run = moeopt("mesh", *words, "--tpot", "60ms", "--calibration", constants)
    assert run.code == 0, run.err
    assert "with measured kernels and links" in " ".join(run.out.split())


def test_a_simulation_stands_beside_the_rate_of_means(moeopt, plan, instance, tmp_path):
    file = tmp_path / "simulated.json"
    words = ("mesh", instance, "--simulate", "--attainment", 0.8, "--requests", 200, "--seed", 5)
    run = moeopt(*words, "-o", file)
    (found,) = json.loads(file.read_text())["simulation"]
    assert (found["attainment"], found["requests"], found["seed"]) == (0.8, 200, 5)
    assert found["kept"] >= 0.8 and found["rate_per_s"] > 0 and len(found["ttft_s"]) == 3
    assert "80.0 % of requests keep TTFT 2.00 s and TPOT 40.0 ms" in run.out and "of the rate of means" in run.out
    again = moeopt(*words, "--json").document["simulation"]
    assert again == [found]
    checked = moeopt("verify", file)
    assert checked.code == 0 and "simulation" in checked.err


def test_examples_of_the_help_can_be_parsed():
    lines = [line for line in EXAMPLE.splitlines() if line.startswith("moeopt ")]
    assert len(lines) >= 5 and all(shlex.split(line)[1] == "mesh" for line in lines)
