"""`moeopt compare`: its rows and what they are called, its gate, and its reports."""

from __future__ import annotations

import json

import numpy as np
import pytest

from moeopt.placement import PlacementInstance

SHAPE = ("--gpus", 3, "--slots", 6)


def test_compare_marks_the_best_and_the_bound(moeopt, tiny):
    run = moeopt("compare", tiny, *SHAPE, "--methods", "contiguous,eplb,eplb_raw,fold,lpt")
    assert run.code == 0
    assert "best" in run.out and "lower bound" in run.out and "proved" in run.out


def test_compare_takes_plans_and_several_inputs(moeopt, tiny, plan, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("1,2,3,4\n")
    words = ("compare", tiny, other, "--apart", *SHAPE, "--methods", "eplb", "--plans", plan, "--json")
    first, second = moeopt(*words).document["blocks"]
    assert [row["method"] for row in first["rows"]] == ["eplb", "plan.json"]
    assert first["rows"][1]["objective"] == json.loads(plan.read_text())["objective"]
    assert second["rows"][1]["reason"] == "the plan has no layer 0"


def test_compare_is_a_gate_for_plans(moeopt, tiny, tmp_path):
    bad = tmp_path / "bad.json"
    moeopt("place", tiny, *SHAPE, "--method", "contiguous", "-o", bad)
    run = moeopt("compare", tiny, *SHAPE, "--methods", "eplb,lpt", "--plans", bad, "--fail-if-worse")
    assert run.code == 5 and "worse than eplb: bad.json has objective" in run.err
    assert moeopt("compare", tiny, *SHAPE, "--methods", "eplb,lpt", "--fail-if-worse").code == 0


def test_compare_of_an_infeasible_instance_is_exit_3(moeopt, tiny):
    words = ("--gpus", 1, "--expert-bytes", "1GB", "--memory-bytes", "2GB", "--methods", "eplb,lpt")
    assert moeopt("compare", tiny, *words).code == 3


@pytest.mark.parametrize("ending", ["html", "md", "csv", "json"])
def test_compare_writes_a_report(moeopt, tiny, tmp_path, ending):
    file = tmp_path / f"report.{ending}"
    words = ("compare", tiny, *SHAPE, "--methods", "eplb,lpt", "-o", file)
    assert moeopt(*words).code == 0
    text = file.read_text()
    assert "eplb" in text
    again = moeopt(*words)
    assert again.code == 2 and "give --force" in again.err
    assert file.read_text() == text


def test_arrays_of_one_file_are_told_apart(moeopt, tmp_path):
    """Two blocks of one file bore one name."""
    file = tmp_path / "loads.npz"
    np.savez(file, a=np.array([[8, 4, 2, 2]]), b=np.array([[1, 2, 3, 4]]))
    words = ("--gpus", 2, "--slots", 4)
    blocks = moeopt("compare", "--apart", f"{file}:a", f"{file}:b", *words, "--methods", "lpt", "--json").document[
        "blocks"
    ]
    assert [block["instance"]["name"] for block in blocks] == ["loads:a", "loads:b"]
    placed = moeopt("place", f"{file}:b", *words, "--method", "lpt", "--json").document
    assert placed["instance"]["name"] == "loads:b"


def test_files_of_one_name_in_two_folders_are_told_apart(moeopt, tmp_path):
    files = [tmp_path / folder / "loads.csv" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text("8,4,2,2\n")
    words = ("--gpus", 2, "--slots", 4, "--methods", "lpt", "--json")
    blocks = moeopt("compare", "--apart", *files, *words).document["blocks"]
    assert [block["instance"]["name"] for block in blocks] == [str(file) for file in files]


def test_plans_are_called_as_their_files(moeopt, tiny, plan, tmp_path):
    other = tmp_path / "b" / "plan.json"
    other.parent.mkdir()
    other.write_bytes(plan.read_bytes())
    words = ("compare", tiny, *SHAPE, "--methods", "lpt", "--json", "--plans")
    rows = moeopt(*words, f"{plan},{other}").document["blocks"][0]["rows"]
    assert [row["method"] for row in rows] == ["lpt", str(plan), str(other)]
    twice = moeopt(*words, f"{plan},{plan}")
    assert twice.code == 2 and f"--plans = {plan}: is given twice" in twice.err


def test_plans_that_all_fail_are_exit_2_and_some_a_note(moeopt, tiny, plan, tmp_path):
    wide = tmp_path / "wide.json"
    assert moeopt("place", tiny, "--gpus", 4, "--slots", 8, "--method", "lpt", "-o", wide).code == 0
    words = ("compare", tiny, *SHAPE, "--methods", "lpt", "--plans")
    alone = moeopt(*words, wide)
    assert alone.code == 2 and "8 slots, the instance 6" in alone.out
    assert "note: no plan for these loads: wide.json" in alone.err
    both = moeopt(*words, f"{wide},{plan}")
    assert both.code == 0 and "note: no plan for these loads: wide.json" in both.err


def test_an_infeasible_instance_without_a_name_is_called_by_its_file(moeopt, tmp_path):
    file = tmp_path / "tight.json"
    instance = PlacementInstance([[8, 4, 2, 2]], gpus=1, expert_bytes=10, memory_bytes=20)
    file.write_text(json.dumps(instance.to_dict() | {"name": ""}))
    run = moeopt("place", file, "--method", "lpt")
    assert run.code == 3 and f"error: {file}: infeasible: " in run.err
    assert "error: the instance: infeasible: " in moeopt("place", "-", "--method", "lpt", stdin=file.read_text()).err


def test_columns_say_what_they_are_the_worst_and_most_of(moeopt, tiny):
    head = moeopt("compare", tiny, *SHAPE, "--methods", "lpt").out.splitlines()[2]
    assert [name in head for name in ("imbalance mean", "imbalance worst", "replicas max")] == [True] * 3
