"""Several demands: by options, from a document, and beside brute force."""

import json

from conftest import ROOT

from moeopt.cli.mesh_demands import KEYS

TYPES = ROOT / "instances" / "tiny" / "mesh" / "two_types.json"
GPUS = ("--gpu", "h100:8:2.5", "--gpu", "h20:8:1.2", "--families", "pools", "--most-pp", 1, "--redundant", 0)


def test_two_demands_share_a_stock_of_two_types(moeopt, tmp_path):
    plan = tmp_path / "plan.json"
    run = moeopt(
        *("mesh", *GPUS, "--input-tokens", "1k", "--output-tokens", 200, "--tpot", "60ms"),
        *("--demand", "llm=mixtral-8x7b,rate=3,ttft=2s", "-o", plan),
        *("--demand", "LLM=qwen3-30b-a3b, rate=2, input-tokens=4Ki, tpot=30ms, cached=0.5"),
    )
    assert run.code == 0, run.err
    document = json.loads(plan.read_text())
    first, second = document["instance"]["document"]["demands"]
    assert (first["llm"]["name"], second["llm"]["name"]) == ("mixtral-8x7b", "qwen3-30b-a3b")
    assert first["workload"] == {"input_tokens": 1000, "output_tokens": 200, "cached": 0.0, "rate_per_s": 3.0}
    assert second["workload"] == {"input_tokens": 4096, "output_tokens": 200, "cached": 0.5, "rate_per_s": 2.0}
    assert (first["slo"]["ttft_s"], first["slo"]["tpot_s"], second["slo"]["tpot_s"]) == (2.0, 0.06, 0.03)
    assert document["unit"] == "price" and document["instance"]["name"] == "mixtral-8x7b, qwen3-30b-a3b"
    served = {row["llm"]: row["rate_per_s"] for row in document["solution"]["demands"]}
    assert served["mixtral-8x7b"] >= 3 and served["qwen3-30b-a3b"] >= 2
    assert "serves" in run.out and "qwen3-30b-a3b: " in run.out
    assert moeopt("verify", plan).code == 0
    known = moeopt("inspect", plan)
    assert known.code == 0 and "of qwen3-30b-a3b on" in known.out


def test_two_workloads_of_one_llm_are_told_apart(moeopt):
    words = ("--llm", "qwen3-30b-a3b", "--gpu", "h100:4", "--families", "colocated", "--most-pp", 1)
    run = moeopt("mesh", *words, "--demand", "rate=1,context=1k,output-tokens=100", "--demand", "rate=0.5")
    assert run.code == 0 and "qwen3-30b-a3b (1)" in run.out and "qwen3-30b-a3b (2)" in run.out
    assert "note: demand 1: a context of 1,000 tokens is a prompt of 950 and half of the answer" in run.err
    assert "note: demand 2: prompts of 4,000 tokens and answers of 1,000 are assumed" in run.err


def test_everything_wrong_with_demands_is_said_with_its_place(moeopt):
    run = moeopt(
        *("mesh", *GPUS, "--demand", "llm=mixtral-8x7bb,rate=10,ttft=2x", "--demand", "rates=5,llm=qwen3-30b-a3b"),
        *("--demand", "rate=-1,llm=mixtral-8x7b", "--demand", "fast", "--demand", "rate=1,rate=2,llm=mixtral-8x7b"),
    )
    assert run.code == 2 and run.out == ""
    for said in (
        "--demand 1: llm = mixtral-8x7bb: is not in the catalogue (moeopt info llms). Did you mean mixtral-8x7b",
        "--demand 1: ttft = 2x: must be a number and a unit",
        f"--demand 2: rates = 5: is not one of {', '.join(KEYS)}. Did you mean rate?",
        "--demand 3: rate = -1.0: must be a finite number > 0",
        "--demand 4: fast = '': must be KEY=VALUE",
        "--demand 4: llm = missing: there must be an LLM",
        "--demand 5: rate = 2: is given twice",
    ):
        assert said in run.err, run.err


def test_a_rate_is_needed_by_each_of_several_demands(moeopt):
    run = moeopt("mesh", *GPUS, "--demand", "llm=mixtral-8x7b,rate=1", "--demand", "llm=qwen3-30b-a3b")
    assert run.code == 2 and "--rate[1: qwen3-30b-a3b] = missing" in run.err


def test_what_holds_for_one_llm_is_refused_for_several(moeopt, tmp_path):
    several = ("--demand", "llm=mixtral-8x7b,rate=1", "--demand", "llm=qwen3-30b-a3b,rate=1")
    run = moeopt("mesh", *GPUS, *several, "--loads", "loads.csv")
    assert run.code == 2 and "--loads = loads.csv: are of one LLM, and the demands of 2" in run.err


def test_a_document_of_two_demands_and_two_types_is_proved_and_equals_brute_force(moeopt):
    run = moeopt("mesh", TYPES)
    out = " ".join(run.out.split())
    assert run.code == 0 and "no plan of these configurations costs less than 20.25 (certified); gap 0 %" in out
    run = moeopt("compare", TYPES, "--methods", "brute_force,covering,exact,auto")
    rows = [line.split() for line in run.out.splitlines() if line.strip()[:5] in ("brute", "cover", "exact", "auto ")]
    assert [row[:2] for row in rows[:4]] == [[name, "20.2500"] for name in ("brute_force", "covering", "exact", "auto")]
    assert "proven: no plan is below" in run.out
