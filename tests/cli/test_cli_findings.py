"""Findings on the command line: shown by inspect, refused by place and compare until accepted by name."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import LOADS

SHAPE = ("--gpus", 4, "--slots", 20, "--iterations", 2, "--gap", 0.5)


@pytest.fixture
def trace(tmp_path):
    """A look-alike of an engine's log: 8,448 dummy rows, a prefill step and 60 steps of decoding."""
    sizes = [8192, 256, 900, *[25] * 60]
    rng = np.random.default_rng(0)
    keys = rng.gumbel(size=(2, sum(sizes), 16)) - 0.4 * np.log(np.arange(1, 17))
    ids = (-keys).argpartition(4, axis=2)[:, :, :4].astype(np.int16)
    ids[0, :8448], ids[1, :8448] = (3, 5, 8, 7), (13, 15, 6, 4)
    token_idx = np.concatenate([np.arange(size) for size in sizes])
    np.savez(tmp_path / "trace.npz", topk_ids=ids, layers=[3, 5], token_idx=token_idx)
    return tmp_path / "trace.npz"


@pytest.fixture
def lopsided(tmp_path):
    """Counts of an int32 that wrapped."""
    (tmp_path / "wrapped.csv").write_text("2147483647,5,7,9\n4,5,6,7\n")
    return tmp_path / "wrapped.csv"


def test_inspect_shows_findings_and_what_dummy_rows_do(moeopt, trace):
    run = moeopt("inspect", trace)
    assert run.code == 0
    assert "matters    dummy-rows: 8,448 of 10,848 rows (77.9 %; rows 0-8447)" in run.out
    assert "matters    mixed-phases: 60 steps of about 25 tokens and 1 of about 900" in run.out
    assert "note       short-sample: layer 3" in run.out


def test_inspect_without_dummy_rows_shows_what_is_left(moeopt, trace):
    run = moeopt("inspect", trace, "--drop", "dummy-rows", "--json")
    facts = run.document["files"][0]
    assert facts["tokens"] == 2 * 4 * 2400 and facts["steps"] == 61
    assert [finding["name"] for finding in facts["findings"]] == ["mixed-phases", "short-sample"]
    assert {finding["severity"] for finding in facts["findings"]} == {"matters", "note"}
    assert "8,448 of 10,848 rows dropped as dummy rows" in facts["notes"]


def test_inspect_has_imbalance_now_and_at_best_beside_the_findings(moeopt, trace):
    with_rows = moeopt("inspect", trace, *SHAPE[:4], "--json").document["files"][0]
    without = moeopt("inspect", trace, *SHAPE[:4], "--drop", "dummy-rows", "--json").document["files"][0]
    assert with_rows["now_mean"] > 1.4 > 1.3 > without["now_mean"] >= without["best_possible_mean"]


def test_inspect_is_silent_on_clean_loads(moeopt):
    assert moeopt("inspect", LOADS, *SHAPE[:2], "--slots", 72, "--json").document["files"][0]["findings"] == []


def test_inspect_accepts_nothing(moeopt, trace):
    run = moeopt("inspect", trace, "--accept", "dummy-rows")
    assert run.code == 2 and "--accept = dummy-rows: is for plans" in run.err


@pytest.mark.parametrize("verb", ["place", "compare"])
def test_planning_on_findings_that_matter_is_refused_with_all_of_them(moeopt, trace, verb):
    run = moeopt(verb, trace, *SHAPE)
    assert run.code == 2 and run.out == ""
    errors = [line for line in run.err.splitlines() if line.startswith("error:")]
    assert [line.split(": ")[2].split(" = ")[0] for line in errors] == ["dummy-rows", "mixed-phases"]
    assert "Give --accept dummy-rows to plan all the same, or --drop dummy-rows to leave them out." in errors[0]
    assert errors[1].endswith("Give --accept mixed-phases to plan all the same.")


def test_what_is_accepted_and_dropped_becomes_notes_of_the_plan(moeopt, trace, tmp_path):
    plan = tmp_path / "plan.json"
    run = moeopt("place", trace, *SHAPE, "--drop", "dummy-rows", "--accept", "mixed-phases", "-o", plan)
    assert run.code == 0
    notes = json.loads(plan.read_text())["notes"]
    assert notes[0].endswith("8,448 of 10,848 rows dropped as dummy rows")
    assert "accepted mixed-phases: 60 steps of about 25 tokens" in notes[1]
    assert run.err.count("rows dropped as dummy rows") == 1
    again = moeopt("place", trace, *SHAPE, "--accept", "dummy-rows", "--accept", "mixed-phases", "--json")
    document = again.document
    assert sum("accepted" in note for note in document["notes"]) == 2
    assert sum(layer["ideal"] for layer in document["solution"]["layers"]) == 2 * 10_848


def test_compare_keeps_what_was_accepted(moeopt, trace, tmp_path):
    words = (trace, *SHAPE, "--methods", "eplb", "--accept", "mixed-phases", "--drop", "dummy-rows")
    run = moeopt("compare", *words, "--json", "-o", tmp_path / "report.md")
    assert run.code == 0 and len(run.document["notes"]) == 2
    assert "accepted mixed-phases" in (tmp_path / "report.md").read_text()


def test_a_slots_curve_asks_as_well(moeopt, trace):
    words = ("place", trace, "--gpus", 4, "--slots-curve", "--max-redundant", 4, "--method", "eplb")
    assert moeopt(*words).code == 2
    run = moeopt(*words, "--accept", "mixed-phases", "--drop", "dummy-rows", "--json")
    assert run.code == 0 and "accepted mixed-phases" in run.document["notes"][1]


def test_windows_are_asked_for_one_by_one(moeopt, trace, tmp_path):
    other = tmp_path / "other.npz"
    other.write_bytes(trace.read_bytes())
    run = moeopt("place", trace, other, *SHAPE, "--accept", "dummy-rows")
    assert run.code == 2 and run.err.count("mixed-phases = ") == 2 and "other.npz: mixed-phases" in run.err
    accepted = ("--accept", "dummy-rows", "--accept", "mixed-phases")
    assert moeopt("compare", trace, other, *SHAPE, "--methods", "contiguous", *accepted).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--accept", "dumy-rows"), "--accept = dumy-rows: is not a finding. Nearest is dummy-rows; known are"),
        (("--drop", "short-sample"), "--drop = short-sample: cannot be dropped. Nearest is dummy-rows."),
    ],
)
def test_names_that_there_are_not_are_refused_with_the_nearest(moeopt, trace, words, said):
    run = moeopt("place", trace, *SHAPE, *words)
    assert run.code == 2 and said in run.err


def test_findings_of_layers_that_are_left_out_do_not_stand_in_the_way(moeopt, lopsided):
    shape = ("--gpus", 2, "--slots", 4, "--method", "lpt", "-q")
    assert moeopt("place", lopsided, *shape).code == 2
    assert moeopt("place", lopsided, *shape, "--layers", 1).code == 0
    assert moeopt("place", lopsided, *shape, "--accept", "int32-wrap").code == 0


def test_a_trace_of_dummy_rows_alone_is_refused(moeopt, tmp_path):
    np.savez(tmp_path / "warm.npz", topk_ids=np.tile(np.array([1, 2], np.int16), (1, 300, 1)), layers=[0])
    run = moeopt("place", tmp_path / "warm.npz", "--gpus", 1, "--slots", 4, "--drop", "dummy-rows")
    assert run.code == 2 and "dummy-rows: are all that there is" in run.err


def test_the_configuration_of_the_llm_tells_experts_and_dense_layers(moeopt, tmp_path):
    config = {
        "model_type": "qwen2_moe", "num_hidden_layers": 3, "num_experts": 8, "num_experts_per_tok": 2,
        "hidden_size": 64, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "intermediate_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100, "mlp_only_layers": [0],
        "decoder_sparse_step": 1,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    rows = np.random.default_rng(0).multinomial(10**6, np.full(8, 1 / 8), size=3)
    rows[2] = 0
    (tmp_path / "loads.json").write_text(json.dumps({"loads": rows.tolist()}))
    words = ("inspect", tmp_path / "loads.json", "--hf-config", tmp_path / "config.json", "--json")
    found = [finding["text"] for finding in moeopt(*words).document["files"][0]["findings"]]
    assert any("layer 2 has experts by the configuration, and no load at all" in text for text in found)
    assert any("layer 0 is dense by the configuration, and loaded here" in text for text in found)


def test_logs_of_several_layers_are_one_recording(moeopt, tmp_path):
    rng = np.random.default_rng(0)
    for layer in (2, 7):
        lines = [{"type": "meta", "model_id": "m", "top_k": 2, "layers_logged": [layer]}]
        for token in range(200):
            ids = rng.choice(8, 2, replace=False).tolist()
            lines.append({"type": "route", "token_idx": token % 20, "layer": layer, "topk_ids": ids})
        (tmp_path / f"moe_layer{layer}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    run = moeopt("inspect", tmp_path / "moe_layer2.jsonl", tmp_path / "moe_layer7.jsonl", "--json")
    facts = run.document["files"]
    assert len(facts) == 1 and facts[0]["layer_ids"] == [2, 7] and facts[0]["steps"] == 10


def test_a_small_table_of_ones_own_is_planned_as_ever(moeopt, tmp_path):
    (tmp_path / "small.csv").write_text("5,4,3,2\n9,9,1,1\n")
    run = moeopt("place", tmp_path / "small.csv", "--gpus", 2, "--slots", 4, "--top-k", 2, "--method", "lpt", "--json")
    assert run.code == 0 and run.document["notes"] == []


def test_verify_leaves_out_what_the_plan_left_out(moeopt, tmp_path):
    """A plan made with --drop could not be verified, and a map was judged on rows that nobody asked for."""
    rng = np.random.default_rng(0)
    real = rng.permuted(np.tile(np.arange(16), (4000, 1)), axis=1)[:, :2]
    ids = np.concatenate([np.tile([3, 9], (8000, 1)), real])
    trace = tmp_path / "trace.npz"
    np.savez(trace, topk_ids=ids[None], layers=np.array([3]), num_experts=16)
    plan, table = tmp_path / "plan.json", tmp_path / "map.npz"
    words = ("--gpus", 4, "--slots", 20, "--drop", "dummy-rows", "--accept", "short-sample")
    assert moeopt("place", trace, *words, "-o", plan).code == 0
    assert moeopt("verify", plan, trace, "--drop", "dummy-rows").code == 0
    run = moeopt("verify", plan, trace)
    assert run.code == 5 and "(--drop dummy-rows)" in run.err
    assert moeopt("convert", plan, "--to", "eplb", "-o", table).code == 0
    without = moeopt("verify", table, trace, "--gpus", 4, "--drop", "dummy-rows")
    run = moeopt("verify", table, trace, "--gpus", 4)
    assert run.code == without.code == 0 and run.out != without.out
    assert "dummy-rows:" in run.err and "dummy-rows:" not in without.err
    assert "nearest" in moeopt("verify", plan, trace, "--drop", "dummies").err.lower()
