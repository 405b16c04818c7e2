"""The shape of a plan where it is not typed: nodes, groups, speeds, slots of each GPU, memory."""

from __future__ import annotations

import json

import pytest

LOADS = "7,5,3,1,9,4,2,6\n1,2,3,4,5,6,7,8\n"
NEW = "1,9,3,7,2,4,8,6\n8,7,1,5,4,3,2,6\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "old.csv").write_text(LOADS)
    (tmp_path / "new.csv").write_text(NEW)
    return tmp_path


def planned(moeopt, folder, *words):
    """A plan of the old loads, in a file."""
    run = moeopt("place", folder / "old.csv", "--method", "lpt", *words, "-o", folder / "plan.json", "--force")
    assert run.code == 0, run.err
    return folder / "plan.json"


def again(moeopt, folder, *words):
    """A plan of the new loads, searched for a moment."""
    return moeopt("place", folder / "new.csv", *words, "--iterations", 1)


def embedded(run):
    assert run.code == 0, run.err
    return run.document["instance"]["document"]


def shape(document):
    return {key: document[key] for key in ("slots", "nodes", "groups", "group_rule", "speed", "expert_bytes")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", 4, "--slots", 12, "--nodes", 2), "4 GPUs, slots 12, 2 nodes"),
        (("--gpus", 4, "--slots", 12, "--nodes", "0,1,0,1"), "4 GPUs, slots 12, 2 nodes, as they lie there"),
        (
            ("--gpus", 4, "--slots", 12, "--nodes", 2, "--groups", 4, "--group-rule", "hierarchical"),
            "4 GPUs, slots 12, 2 nodes, 4 groups of experts, group rule hierarchical",
        ),
        (("--gpus", 4, "--slots", "2,3,3,4", "--nodes", 2), "4 GPUs, slots 2 to 4 a GPU, 2 nodes"),
        (("--gpus", 4, "--slots", 12, "--speed", "1,1,0.5,1"), "4 GPUs, slots 12, speeds 0.5 to 1"),
        (
            ("--gpus", 4, "--slots", 12, "--expert-bytes", "42MB", "--memory-bytes", "200MB"),
            "4 GPUs, slots 12, 42,000,000 bytes an expert, 200,000,000 bytes of memory a GPU",
        ),
    ],
)
def test_everything_of_the_shape_is_that_of_the_running_plan(moeopt, folder, words, said):
    method = ("--method", "eplb") if "--groups" in words else ()
    plan = planned(moeopt, folder, *words, *method)
    before = json.loads(plan.read_text())["instance"]["document"]
    run = again(moeopt, folder, "--current", plan, "--json")
    assert f"note: the shape is that of the running plan: {said}\n" in run.err
    after = embedded(run)
    assert shape(after) == shape(before) and after["memory_bytes"] == before["memory_bytes"]


def test_what_is_typed_stands_above_the_running_plan(moeopt, folder):
    plan = planned(moeopt, folder, "--gpus", 4, "--slots", 12, "--nodes", 2)
    run = again(moeopt, folder, "--current", plan, "--nodes", 4, "--json")
    assert embedded(run)["nodes"] == [0, 1, 2, 3]
    assert "the shape is that of the running plan: 4 GPUs, slots 12\n" in run.err
    run = again(moeopt, folder, "--current", plan, "--slots", 16, "--json")
    assert embedded(run)["slots"] == [4] * 4 and embedded(run)["nodes"] == [0, 0, 1, 1]
    assert "note: taken from the running plan: 4 GPUs, 2 nodes\n" in run.err
    run = again(moeopt, folder, "--current", plan, "--slots-per-gpu", 4, "--json")
    assert embedded(run)["slots"] == [4] * 4
    run = again(moeopt, folder, "--current", plan, "--gpus", 4, "--slots", 12, "--json")
    assert embedded(run)["nodes"] == [0, 0, 1, 1]


def test_nodes_of_other_gpus_are_not_taken_and_that_is_said(moeopt, folder):
    plan = planned(moeopt, folder, "--gpus", 4, "--slots", 12, "--nodes", 2)
    run = again(moeopt, folder, "--current", plan, "--gpus", 5, "--slots", 15, "--json")
    assert embedded(run)["nodes"] == [0] * 5
    assert "nodes of the running plan are not taken over: it has 4 GPUs, --gpus says 5" in run.err


def test_nodes_of_the_running_plan_are_lost_and_survived(moeopt, folder):
    plan = planned(moeopt, folder, "--gpus", 4, "--slots", 16, "--nodes", 2)
    run = again(moeopt, folder, "--current", plan, "--lost-nodes", 1, "--json")
    assert embedded(run)["lost"] == [2, 3]
    run = again(moeopt, folder, "--current", plan, "--survive-nodes", 1, "--json")
    for layer in run.document["solution"]["layers"]:
        rows = layer["slot_expert"]
        assert set(rows[:8]) == set(rows[8:]) == set(range(8))


def test_a_lost_gpu_of_the_plan_stays_lost_beside_another(moeopt, folder):
    plan = planned(moeopt, folder, "--gpus", 4, "--slots", 16, "--nodes", 2)
    fixed = folder / "fixed.json"
    assert again(moeopt, folder, "--current", plan, "--retire", 3, "-o", fixed).code == 0
    run = again(moeopt, folder, "--current", fixed, "--lost", 0, "--json")
    assert embedded(run)["lost"] == [0, 3] and embedded(run)["slots"] == [4] * 4
    run = again(moeopt, folder, "--current", fixed, "--lost", 3, "--json")
    assert embedded(run)["lost"] == [3] and "count as lost" not in run.err
    run = moeopt("route", fixed, folder / "new.csv", "--json")
    assert run.code == 0 and run.document["instance"]["document"]["nodes"] == [0, 0, 1, 1]


def test_a_gpu_that_never_had_slots_is_not_lost(moeopt, folder):
    plan = planned(moeopt, folder, "--gpus", 3, "--slots", "6,0,6")
    document = embedded(again(moeopt, folder, "--current", plan, "--json"))
    assert document["slots"] == [6, 0, 6] and not document.get("lost")


def test_compare_and_inspect_take_it_too(moeopt, folder):
    plan = planned(moeopt, folder, "--gpus", 4, "--slots", 16, "--nodes", 2, "--groups", 4, "--method", "eplb")
    run = moeopt("compare", folder / "new.csv", "--current", plan, "--methods", "eplb", "--json")
    same = moeopt("compare", folder / "new.csv", "--gpus", 4, "--slots", 16, "--nodes", 2, "--groups", 4,
                  "--current", plan, "--methods", "eplb", "--json")  # fmt: skip
    assert run.document["blocks"][0]["instance"] == same.document["blocks"][0]["instance"]
    said = moeopt("inspect", plan)
    assert "2 layers, 8 experts, 16 slots, 4 GPUs, 2 nodes, 4 groups of experts" in said.out
    assert moeopt("inspect", plan, "--json").document["files"][0]["shape"]["nodes"] == 2


def test_a_shape_that_breaks_its_own_rules_is_said_of_the_running_plan(moeopt, folder):
    plan = planned(moeopt, folder, "--gpus", 4, "--slots", 12)
    document = json.loads(plan.read_text())
    document["instance"]["document"]["nodes"] = [0, 1]
    plan.write_text(json.dumps(document))
    run = again(moeopt, folder, "--current", plan)
    assert run.code == 2 and run.err.count("error:") == 1
    assert "holds a shape that breaks its own rules: nodes = 2 ids: must have one node id a GPU, 4" in run.err


def test_the_same_as_python(moeopt, folder):
    plan = planned(moeopt, folder, "--gpus", 4, "--slots", 12, "--nodes", 2)
    run = again(moeopt, folder, "--current", plan, "--show-python")
    assert "gpus=4,\n    slots=12,\n    nodes=2,\n" in run.out


def test_rules_of_the_running_plan_that_are_not_asked_for_again_are_named(moeopt, folder):
    file = planned(moeopt, folder, "--gpus", 4, "--slots", 12, "--split", "random", "--floor-tokens", 2)
    said = "the running plan was made under rules that are not asked for now, so that this one may break them: "
    assert f"{said}split random, a floor of 2.0 tokens\n" in again(moeopt, folder, "--current", file).err
    run = again(moeopt, folder, "--current", file, "--split", "random")
    assert run.code == 0 and f"{said}a floor of 2.0 tokens\n" in run.err
    assert said not in again(moeopt, folder, "--current", file, "--split", "even", "--floor-tokens", 0).err
    run = again(moeopt, folder, "--current", file, "--json", "-q")
    assert run.document["notes"][0].startswith(said)
    bare = planned(moeopt, folder, "--gpus", 4, "--slots", 12)
    assert said not in again(moeopt, folder, "--current", bare).err


def test_pins_of_the_running_plan_are_counted(moeopt, folder):
    document = json.loads(planned(moeopt, folder, "--gpus", 4, "--slots", 12, "-q").read_text())
    document["instance"]["document"]["pin"] = [[0, 1], [2, 3]]
    document["instance"]["document"]["min_replicas"] = [2] + [1] * 7
    (folder / "pinned.json").write_text(json.dumps(document))
    run = again(moeopt, folder, "--current", folder / "pinned.json")
    assert "2 pins, at least 2 replicas of some experts" in run.err
