"""`moeopt inspect`: what a file is, and what any plan could reach."""

from __future__ import annotations

import json

import pytest
from conftest import LOADS

SHAPE = ("--gpus", 3, "--slots", 6)


def test_inspect_says_what_a_file_is(moeopt, tiny, plan):
    run = moeopt("inspect", tiny, plan)
    assert run.code == 0
    assert "layer ids 3, 7" in run.out and "1 of 8 cells is 0" in run.out and "structure  ok" in run.out
    loads, document = moeopt("inspect", tiny, plan, "--json").document["files"]
    assert (loads["what"], loads["hottest"][1]["experts"][0], document["what"]) == ("loads", 3, "plan")


def test_inspect_with_a_shape_says_what_any_plan_could_reach(moeopt, tiny):
    run = moeopt("inspect", tiny, *SHAPE)
    assert "no plan gets below" in run.out
    facts = moeopt("inspect", tiny, *SHAPE, "--json").document["files"][0]
    for row in facts["per_layer"]:
        assert 1 <= row["best_possible"] <= row["now"]


def test_inspect_shows_the_running_plan_beside_the_best_any_plan_could_reach(moeopt, tiny, plan):
    """--current was accepted and ignored."""
    placed = json.loads(plan.read_text())["solution"]
    facts = moeopt("inspect", tiny, *SHAPE, "--current", plan, "--json").document["files"][0]
    assert facts["now_mean"] == placed["imbalance_mean"] and facts["now_total"] == placed["imbalance_total"]
    assert [row["now"] for row in facts["per_layer"]] == [layer["imbalance"] for layer in placed["layers"]]
    run = moeopt("inspect", tiny, *SHAPE, "--current", plan)
    assert f"imbalance of the running plan {placed['imbalance_mean']:.4f}; no plan gets below" in run.out
    lost = moeopt("inspect", tiny, "--gpus", 3, "--slots", 6, "--current", plan, "--lost", 0)
    assert "of the running plan unknown, as it breaks today's rules: layer 3: expert" in lost.out


def test_inspect_refuses_options_that_say_nothing(moeopt, tiny, plan):
    run = moeopt("inspect", plan, "--gpus", 3)
    assert run.code == 2 and "is a plan, and options are for loads. Leave out --gpus" in run.err
    assert "the shape is that of the running plan" in moeopt("inspect", tiny, "--current", plan).err
    assert "--combine" in moeopt("inspect", tiny, *SHAPE, "--combine", "mean").err


@pytest.mark.parametrize("combine", ["worst", "mean"])
def test_several_files_mean_the_same_windows_to_every_verb(moeopt, tiny, tmp_path, combine):
    """They were windows to place, blocks to compare, and strangers to inspect."""
    other = tmp_path / "other.csv"
    other.write_text("layer,a,b,c,d\n3,1,9,2,4\n7,2,2,8,1\n")
    words = (tiny, other, *SHAPE, "--combine", combine)
    placed = moeopt("place", *words, "--method", "contiguous", "--json").document
    (block,) = moeopt("compare", *words, "--methods", "contiguous", "--json").document["blocks"]
    assert block["rows"][0]["objective"] == placed["objective"]
    together = moeopt("inspect", *words, "--json").document["together"]
    assert together["windows"] == 2 and together["combine"] == combine
    assert together["now_mean"] == placed["solution"]["imbalance_mean"]
    shown = moeopt("inspect", *words).out
    assert f"together, as 2 windows of which the {combine} counts" in shown
    unlike = tmp_path / "unlike.csv"
    unlike.write_text("1,2,3,4\n")
    strangers = moeopt("inspect", tiny, unlike, *SHAPE)
    assert strangers.code == 0 and "not windows of one plan:" in strangers.out
    refused = moeopt("compare", tiny, unlike, *SHAPE, "--methods", "eplb")
    assert refused.code == 2 and "compare --apart" in refused.err


def test_the_shipped_loads_are_read_by_inspect(moeopt):
    assert "26 layers, 64 experts" in moeopt("inspect", LOADS).out
