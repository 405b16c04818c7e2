"""`moeopt place`: what it prints, how options reach the instance, and its exit codes."""

from __future__ import annotations

import json

import pytest

from moeopt.placement import PlacementInstance

SHAPE = ("--gpus", 3, "--slots", 6)


def test_place_prints_layers_and_a_summary(moeopt, tiny):
    run = moeopt("place", tiny, *SHAPE, "--method", "search", "--iterations", 50, "--split", "even")
    assert run.code == 0
    for word in ("imbalance", "lower bound", "status", "layers       2: "):
        assert word in run.out


def test_quiet_place_prints_nothing_and_json_all(moeopt, tiny):
    assert moeopt("place", tiny, *SHAPE, "--method", "lpt", "-q").out == ""
    document = moeopt("place", tiny, *SHAPE, "--method", "lpt", "-q", "--json").document
    assert [layer["layer"] for layer in document["solution"]["layers"]] == [3, 7]
    assert document["instance"]["document"]["names"] == ["a", "b", "c", "d"]


def test_options_reach_the_instance(moeopt, tiny):
    words = ("--slots-per-gpu", 2, "--gpus", 2, "--speed", "1,0.5", "--floor-tokens", 2, "--steps", 3, "--nodes", 2)
    more = ("--fill", "at_most", "--allow-doubles", "--phase", "decode", "--engine", "sglang", "--name", "n")
    document = moeopt("place", tiny, *words, *more, "--layers", 7, "--method", "lpt", "--json").document
    rules = document["instance"]["document"]
    assert rules["slots"] == [2, 2] and rules["speed"] == [1.0, 0.5] and rules["nodes"] == [0, 1]
    assert (rules["floor_tokens"], rules["steps"], rules["fill"], rules["distinct"]) == (2.0, 3, "at_most", False)
    assert (rules["phase"], rules["engine"], rules["name"], rules["layers"]) == ("decode", "sglang", "n", [7])


def test_sizes_keep_gb_and_gib_apart(moeopt, tiny):
    words = ("place", tiny, "--gpus", 2, "--expert-bytes", "1GB", "--method", "lpt", "--json")
    slots = {
        memory: moeopt(*words, "--memory-bytes", memory).document["instance"]["document"]["slots"]
        for memory in ("3GB,3.9GB", "2.8GiB")
    }
    assert slots == {"3GB,3.9GB": [3, 3], "2.8GiB": [3, 3]}


def test_infeasible_is_exit_3_with_the_rules_that_conflict(moeopt, tiny):
    words = ("place", tiny, "--gpus", 1, "--expert-bytes", "1GB", "--memory-bytes", "2GB", "--method", "lpt", "--json")
    run = moeopt(*words)
    assert run.code == 3
    assert run.document["status"] == "INFEASIBLE"
    assert "infeasible: 4 GB needed" in run.err


def test_fail_if_worse_is_a_gate(moeopt, tiny):
    worse = moeopt("place", tiny, *SHAPE, "--method", "contiguous", "--fail-if-worse")
    assert worse.code == 5 and "worse than eplb" in worse.err
    assert moeopt("place", tiny, *SHAPE, "--method", "search", "--iterations", 0, "--fail-if-worse").code == 0


def test_an_instance_document_brings_its_own_shape(moeopt, tmp_path):
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="mine").to_dict()))
    assert moeopt("place", file, "--method", "lpt", "--json").document["instance"]["name"] == "mine"
    run = moeopt("place", file, "--method", "lpt", "--gpus", 2, "--allow-doubles")
    assert run.code == 2 and "Leave out --gpus, --allow-doubles" in run.err
    assert moeopt("place", "-", "--method", "lpt", stdin=file.read_text()).code == 0
    file.write_text(file.read_text().replace("instance/1", "instance/9"))
    assert "is not a placement instance this version knows" in moeopt("place", file).err


def test_place_says_which_gap_is_which_and_one_layer_is_one(moeopt, tiny):
    run = moeopt("place", tiny, *SHAPE, "--method", "lpt", "--layers", 3)
    assert "gap          of the sum " in run.out and "; of layers: mean " in run.out
    run = moeopt("inspect", tiny, *SHAPE, "--layers", 3)
    assert "1 layer, 4 experts; layer ids 3" in run.out and " 7 " not in run.out
    one = tiny.with_name("one.csv")
    one.write_text("8,4,2,2\n")
    assert "1 layer, 4 experts" in moeopt("inspect", one).out


@pytest.mark.parametrize("split", ["sglang-static", "sglang-static-node", "random"])
def test_place_says_what_an_engines_rule_costs_beside_even_parts(moeopt, tiny, tmp_path, split):
    plan = tmp_path / "plan.json"
    run = moeopt("place", tiny, *SHAPE, "--split", split, "-o", plan)
    assert run.code == 0
    assert [line for line in run.out.splitlines() if line.startswith(f"rule         {split}")]
    assert moeopt("verify", plan, tiny).code == 0
    document = json.loads(plan.read_text())
    document["solution"]["layers"][0]["max_load_even"] += 1.0
    plan.write_text(json.dumps(document))
    run = moeopt("verify", plan, tiny)
    assert run.code == 5 and "max_load_even" in run.err + run.out
