"""Re-planning on the command line: the running plan in, moves and a decision out."""

from __future__ import annotations

import json

import numpy as np
import pytest

SHAPE = ("--gpus", 3, "--slots", 6)


@pytest.fixture
def running(tmp_path, moeopt):
    """Loads, and a running plan of ours for other loads."""
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("10,9,5,4,2,1\n")
    new.write_text("10,9,5,4,2,7\n")
    assert moeopt("place", old, *SHAPE, "-o", tmp_path / "plan.json").code == 0
    table = tmp_path / "in_order.json"
    table.write_text("[[0, 1, 2, 3, 4, 5]]")
    np.save(tmp_path / "in_order.npy", np.arange(6)[None, :])
    return tmp_path


def test_a_plan_of_ours_is_replanned_within_a_budget_and_verified(moeopt, running):
    out = running / "next.json"
    words = (*SHAPE, "--current", running / "plan.json", "--max-moves", 2, "--expert-bytes", "42MB")
    run = moeopt("place", running / "new.csv", *words, "-o", out)
    assert run.code == 0
    assert "moves        2 of 6 slots new (33.3 %), 84 MB; imbalance of all layers together " in run.out
    assert moeopt("verify", out, running / "new.csv").code == 0
    document = json.loads(out.read_text())
    document["solution"]["moves"] = 1
    out.write_text(json.dumps(document))
    assert moeopt("verify", out, running / "new.csv").code == 5


@pytest.mark.parametrize("table", ["in_order.json", "in_order.npy"])
def test_bare_tables_of_slots_are_running_plans(moeopt, running, table):
    words = ("--current", running / table, "--max-moves", 0, "--json")
    run = moeopt("place", running / "old.csv", *SHAPE, *words)
    assert run.code == 0 and run.document["objective"] == 19 and run.document["solution"]["moves"] == 0
    assert "keep: the budget of moves is 0" in run.err


def test_the_frontier_is_a_table_with_v(moeopt, running):
    words = ("--current", running / "in_order.json", "--max-moves", 2)
    plain = moeopt("place", running / "old.csv", *SHAPE, *words)
    assert "what moves buy" not in plain.out
    run = moeopt("place", running / "old.csv", *SHAPE, *words, "-v")
    assert "what moves buy" in run.out and "2 <" in run.out


@pytest.mark.parametrize(("steps", "code", "said"), [(6, 5, "keep"), (6000, 0, "move")])
def test_what_is_not_worth_the_stall_is_a_gate(moeopt, running, steps, code, said):
    price = ("--stall", "2s", "--step-time", "30ms", "--steps-until-next", steps)
    words = ("--current", running / "in_order.json", "--max-moves", 2, *price)
    run = moeopt("place", running / "old.csv", *SHAPE, *words, "--fail-if-worse")
    assert run.code == code
    assert f"decision     {said}: " in run.out and "breaks even after 159 steps" in run.out
    assert moeopt("place", running / "old.csv", *SHAPE, *words).code == 0
    document = moeopt("place", running / "old.csv", *SHAPE, *words, "--json").document
    assert document["solution"]["decision"]["decision"] == said


def test_bandwidth_and_bytes_give_the_stall(moeopt, running):
    words = ("--current", running / "in_order.json", "--max-moves", 2, "--expert-bytes", "1GB", "--bandwidth", "1GB")
    price = ("--step-time", "30ms", "--steps-until-next", 10)
    run = moeopt("place", running / "old.csv", *SHAPE, *words, *price, "--json")
    assert run.document["solution"]["decision"]["stall_s"] == 2.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--stall", "2s"), "--steps-until-next = missing"),
        (("--stall", "2s", "--step-time", "30ms", "--steps-until-next", 5), "--current = missing"),
        (("--current", "TABLE", "--steps-until-next", 5, "--step-time", "30ms"), "--stall = missing"),
        (("--max-moves", 5), "needs the running plan"),
        (("--current", "TABLE", "--max-moves", -1), "max_moves (--max-moves) = -1"),
        (("--current", "TABLE", "--method", "eplb", "--max-moves", 1), "eplb does not apply"),
        (("--method", "replan"), "there is no running plan"),
    ],
)
def test_bad_usage_names_the_option(moeopt, running, words, said):
    words = [running / "in_order.json" if word == "TABLE" else word for word in words]
    run = moeopt("place", running / "old.csv", *SHAPE, *words)
    assert run.code == 2 and said in run.err


def test_all_that_weighing_a_move_lacks_is_said_at_once_and_before_any_work(moeopt, running, monkeypatch):
    monkeypatch.setattr("moeopt.cli.solving.solve", lambda *_: pytest.fail("worked before the question was clear"))
    run = moeopt("place", running / "old.csv", *SHAPE, "--bandwidth", "50GB")
    assert run.code == 2
    for option in ("--current", "--steps-until-next", "--step-time", "--expert-bytes"):
        assert f"{option} = missing: is needed" in run.err
    words = ("--current", running / "in_order.json", "--max-moves", 2)
    run = moeopt("place", running / "old.csv", *SHAPE, *words, "--steps-until-next", -1)
    assert run.code == 2 and "--steps-until-next = -1" in run.err


def test_a_dead_gpu_beyond_the_budget_is_infeasible_with_the_shortfall(moeopt, running):
    (running / "nine.json").write_text("[[0, 1, 2, 3, 4, 5, 0, 1, 2]]")
    words = ("--gpus", 3, "--slots", 9, "--current", running / "nine.json", "--lost", 1, "--max-moves")
    run = moeopt("place", running / "old.csv", *words, 1)
    assert run.code == 3 and "restoring every expert takes 3 moves, max_moves allows 1" in run.err
    assert moeopt("place", running / "old.csv", *words, 3).code == 0


@pytest.mark.parametrize("text", ["null", "3", '"plan"', "true"])
def test_a_file_without_a_running_plan_is_refused_and_never_ignored(moeopt, running, text):
    (running / "odd.json").write_text(text)
    run = moeopt("place", running / "old.csv", *SHAPE, "--current", running / "odd.json")
    assert run.code == 2 and "is neither a plan" in run.err


def test_faults_of_a_running_plan_are_named_in_plain_numbers(moeopt, running):
    np.save(running / "odd.npy", np.array([[0, 1, 2, 3, 4, 99]]))
    run = moeopt("place", running / "old.csv", *SHAPE, "--current", running / "odd.npy")
    assert run.code == 2 and "slot 5] = 99: expert ids run from 0 to 5" in run.err
    plan = json.loads((running / "plan.json").read_text())
    plan["solution"]["layers"].append({**plan["solution"]["layers"][0], "layer": 1, "slot_expert": [0, 1]})
    (running / "short.json").write_text(json.dumps(plan))
    (running / "two.csv").write_text("10,9,5,4,2,1\n10,9,5,4,2,1\n")
    run = moeopt("place", running / "two.csv", *SHAPE, "--current", running / "short.json")
    assert run.code == 2 and "row 0 has 6 slots, row 1 has 2" in run.err


def place_running(moeopt, running, *words):
    return moeopt("place", running / "old.csv", *words)


def test_a_running_plan_for_more_gpus_is_one_line(moeopt, running):
    run = place_running(moeopt, running, "--gpus", 2, "--slots", 6, "--current", running / "plan.json")
    assert run.code == 2 and run.err.count("error:") == 1
    assert "(--current) = 3 GPUs, 6 slots: the running plan is for more GPUs than the 2 given" in run.err


def test_the_shape_of_the_running_plan_is_taken_where_none_is_given(moeopt, running):
    run = place_running(moeopt, running, "--current", running / "plan.json", "--max-moves", 0, "--json")
    assert run.code == 0 and run.document["solution"]["ep_size"] == 3
    assert "the shape is that of the running plan: 3 GPUs" in run.err
    assert moeopt("inspect", running / "old.csv", "--current", running / "plan.json").code == 0


def test_a_running_plan_may_be_a_csv_of_slots(moeopt, running):
    (running / "slots.csv").write_text("0,1,2,3,4,5\n")
    run = place_running(moeopt, running, *SHAPE, "--current", running / "slots.csv", "--max-moves", 0, "--json")
    assert run.code == 0 and run.document["objective"] == 19
    (running / "bad.csv").write_text("slot0,slot1\n0,1\n")
    run = place_running(moeopt, running, *SHAPE, "--current", running / "bad.csv")
    assert run.code == 2 and "a slot table has a row a layer of whole expert ids" in run.err


def test_gpus_that_come_back_empty_are_named_with_the_next_step(moeopt, running):
    (running / "back.json").write_text("[[0, 1, 2, 3, 4, 5, -1, -1, -1]]")
    words = ("--gpus", 3, "--slots", 9, "--current", running / "back.json", "--max-moves", 1)
    run = place_running(moeopt, running, *words)
    assert run.code == 3 and "empty slots on GPUs 2" in run.err
    for way in ("--lost 2", "--fill at_most", "max_moves = 3"):
        assert way in run.err


def test_lost_gpus_without_a_running_plan_are_said_to_be_out(moeopt, running):
    run = place_running(moeopt, running, "--gpus", 3, "--slots", 9, "--lost", 1)
    assert run.code == 0 and "out, with nothing placed there: GPUs 1;" in run.err


def test_the_running_plan_is_a_row_of_a_comparison_and_moves_are_a_column(moeopt, running):
    words = (*SHAPE, "--current", running / "plan.json", "--methods", "eplb,search")
    run = moeopt("compare", running / "new.csv", *words)
    assert "moves" in run.out and "running plan" in run.out
    run = moeopt("compare", running / "new.csv", *words, "--json", "-o", running / "report.csv")
    rows = {row["method"]: row for row in run.document["blocks"][0]["rows"]}
    assert rows["running plan"]["moves"] == 0
    place = moeopt("place", running / "new.csv", *SHAPE, "--current", running / "plan.json", "--json").document
    assert rows["search"]["moves"] == place["solution"]["moves"] > 0
    assert rows["running plan"]["objective"] >= rows["search"]["objective"]
    assert "moves" in (running / "report.csv").read_text().splitlines()[0].split(",")
    without = moeopt("compare", running / "new.csv", *SHAPE, "--methods", "eplb,search")
    assert "moves" not in without.out and "running plan" not in without.out


def test_a_repaired_plan_is_a_running_plan_whose_empty_gpus_are_lost(moeopt, tmp_path):
    loads = tmp_path / "loads.csv"
    loads.write_text("10,9,5,4,2,1\n")
    plan, fixed, again = (tmp_path / name for name in ("plan.json", "fixed.json", "again.json"))
    assert moeopt("place", loads, "--gpus", 4, "--slots", 12, "-o", plan).code == 0
    assert moeopt("place", loads, "--current", plan, "--lost", 3, "-o", fixed).code == 0
    said = moeopt("inspect", fixed).out
    assert "new against the plan that ran, which " in said and "without slots: 3" in said
    loads.write_text("1,9,5,4,2,10\n")
    run = moeopt("place", loads, "--current", fixed, "-o", again, "--json")
    assert run.code == 0 and "4 GPUs, slots 12; GPUs 3 have no slot in it and count as lost" in run.err
    assert "repair" not in run.document["solution"] and run.document["instance"]["document"]["lost"] == [3]
    assert moeopt("verify", again, loads).code == 0


def test_a_gate_says_why_also_when_quiet(moeopt, running):
    run = moeopt("compare", running / "old.csv", *SHAPE, "--current", running / "plan.json", "--methods", "contiguous",
                 "--fail-if-worse", "--quiet")  # fmt: skip
    assert run.code == 5 and run.out == ""
    assert run.err.startswith("note: worse than running plan: contiguous has objective ") and run.err.count("\n") == 1
    weighed = ("--stall", "1h", "--step-time", "1ms", "--steps-until-next", 1)
    words = ("--current", running / "in_order.json", "--fail-if-worse", "--quiet")
    run = moeopt("place", running / "new.csv", *SHAPE, *words, *weighed)
    assert run.code == 5 and run.err == "note: not worth it: keep the running plan\n" and run.out == ""
    run = moeopt("place", running / "old.csv", *SHAPE, "--method", "contiguous", "--fail-if-worse", "--quiet")
    assert run.code == 5 and run.err.startswith("note: worse than eplb: ") and run.err.count("\n") == 1


def test_the_lead_of_a_comparison_has_the_moves_of_the_best_plan(moeopt, running):
    words = (*SHAPE, "--current", running / "in_order.json", "--methods", "search", "--json")
    page = running / "report.md"
    run = moeopt("compare", running / "new.csv", *words, "-o", page)
    rows = {row["method"]: row for row in run.document["blocks"][0]["rows"]}
    moves = rows["search"]["moves"]
    assert run.document["blocks"][0]["best"] == "search" and moves > 0
    said = f"It takes {moves} moves: {100 * moves / 6:.1f} % of 6 slots are new, where the running plan has imbalance "
    assert said in page.read_text()
    assert moeopt("compare", running / "old.csv", *SHAPE, "--current", running / "plan.json", "--methods", "contiguous",
                  "-o", running / "stay.md").code == 0  # fmt: skip
    assert "Nothing moves for it" in (running / "stay.md").read_text()
