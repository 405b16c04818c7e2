"""Failures and sizes on the command line: repairs, least replicas, the slots curve and the memory budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run

EIGHT = "layer,a,b,c,d,e,f,g,h\n3,40,9,7,5,3,2,2,1\n7,9,9,8,8,7,7,6,6\n"


@pytest.fixture
def eight(tmp_path: Path) -> Path:
    file = tmp_path / "eight.csv"
    file.write_text(EIGHT)
    return file


@pytest.fixture
def running(eight: Path, moeopt: Callable[..., Run]) -> Path:
    """A plan on four GPUs of three slots, two nodes."""
    file = eight.with_name("running.json")
    words = ("--gpus", 4, "--slots", 12, "--nodes", 2, "--method", "lpt", "-o", file)
    assert moeopt("place", eight, *words).code == 0
    return file


SHAPE = ("--gpus", 4, "--slots", 12, "--nodes", 2)


def test_a_lost_gpu_is_repaired_with_the_fewest_loads(eight: Path, running: Path, moeopt: Callable[..., Run]) -> None:
    run = moeopt("place", eight, *SHAPE, "--current", running, "--lost", 3, "--json")
    assert run.code == 0
    repair = run.document["solution"]["repair"]
    before = json.loads(running.read_text())["solution"]["layers"]
    for layer, own in zip(before, repair["layers"], strict=True):
        gone = set(layer["slot_expert"][9:]) - set(layer["slot_expert"][:9])
        assert set(own["lost"]) == gone == {load[0] for load in own["from_storage"]}
    assert repair["storage_loads"] == repair["storage_loads_fewest"] == repair["moves"] == repair["moves_fewest"]
    shown = moeopt("place", eight, *SHAPE, "--current", running, "--lost", 3)
    assert "load from storage" in shown.out and "fewest possible" in shown.out
    assert "lost with their last replica" in shown.err
    retired = moeopt("place", eight, *SHAPE, "--current", running, "--retire", 3, "--json").document
    assert retired["solution"]["repair"]["storage_loads"] == 0


def test_more_moves_win_balance_and_the_plan_verifies(
    eight: Path, running: Path, tmp_path: Path, moeopt: Callable[..., Run]
) -> None:
    file = tmp_path / "repaired.json"
    least = moeopt("place", eight, *SHAPE, "--current", running, "--lost", 3, "--json").document
    words = ("--current", running, "--lost", 3, "--max-moves", 12, "-o", file)
    assert moeopt("place", eight, *SHAPE, *words).code == 0
    document = json.loads(file.read_text())
    assert document["solution"]["repair"]["moves"] <= 12
    assert document["objective"] <= least["objective"]
    assert moeopt("verify", file, eight).code == 0
    again = moeopt("place", eight, *SHAPE, "--current", file, "--lost", 3, "--json", "--method", "repair")
    assert again.document["solution"]["repair"]["moves"] == 0
    document["solution"]["repair"]["storage_loads"] += 1
    file.write_text(json.dumps(document))
    broken = moeopt("verify", file, eight)
    assert broken.code == 5 and "repair.storage_loads says" in broken.out


def test_a_lost_node_that_leaves_too_few_slots_is_infeasible(
    eight: Path, running: Path, moeopt: Callable[..., Run]
) -> None:
    run = moeopt("place", eight, *SHAPE, "--current", running, "--lost-nodes", 1)
    assert run.code == 3
    assert "6 slots" in run.err and "8 experts" in run.err and "2 experts too many" in run.err
    assert "4 a GPU would do" in run.err


def test_survival_rules_are_kept_or_explained(eight: Path, moeopt: Callable[..., Run]) -> None:
    short = moeopt("place", eight, *SHAPE, "--survive-nodes", 1)
    assert short.code == 3 and "16 replicas on different nodes, which have room for 12" in short.err
    few = moeopt("place", eight, *SHAPE, "--min-replicas", 2)
    assert few.code == 3 and "16 replicas in all, there are 12 slots: 4 replicas too many" in few.err


def test_verify_says_what_each_failure_would_lose(running: Path, moeopt: Callable[..., Run]) -> None:
    run = moeopt("verify", running, "--failures", "--json")
    lost = run.document["lost_if"]
    rows = {layer["layer"]: layer["slot_expert"] for layer in json.loads(running.read_text())["solution"]["layers"]}
    for gpu in range(4):
        for layer, row in rows.items():
            mine = set(row[3 * gpu : 3 * gpu + 3]) - set(row[: 3 * gpu] + row[3 * gpu + 3 :])
            assert lost["gpus"][str(gpu)].get(str(layer), []) == sorted(mine)
    shown = moeopt("verify", running, "--failures").out
    assert "experts that would have no replica left, of 8 in each of 2 layers; the worst first" in shown
    assert "no node may fail: each of the 2 nodes has experts that no other has" in shown
    worst = max(sum(map(len, gone.values())) for gone in lost["nodes"].values())
    first = next(line for line in shown.splitlines() if line.startswith(("GPU", " GPU", "node", " node")))
    assert f" {worst} " in first  # a node takes more with it than any of its GPUs


def test_verify_says_in_a_line_that_any_gpu_may_fail(eight: Path, tmp_path: Path, moeopt: Callable[..., Run]) -> None:
    safe = tmp_path / "safe.json"
    shape = ("--gpus", 4, "--slots", 16, "--nodes", 2, "--survive-nodes", 1)
    assert moeopt("place", eight, *shape, "-o", safe).code == 0
    assert moeopt("verify", safe, "--failures").out.splitlines()[1:] == [
        "any one of the 4 GPUs may fail: no expert is lost",
        "any one of the 2 nodes may fail: no expert is lost",
    ]


def test_failures_of_a_plan_with_faults_are_said_not_to_be_looked_at(running: Path, moeopt: Callable[..., Run]) -> None:
    run = moeopt("verify", running, "--gpus", 5, "--failures")
    assert run.code == 5 and "what failures would lose was not looked at: the plan has faults" in run.err


def test_a_repair_leads_with_its_summary_and_a_long_list_is_cut(tmp_path: Path, moeopt: Callable[..., Run]) -> None:
    loads = tmp_path / "loads.csv"
    loads.write_text("\n".join(",".join(["5", "4", "3", "2", "2", "1"]) for _ in range(10)) + "\n")
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    assert moeopt("place", loads, "--gpus", 4, "--slots", 8, "--method", "lpt", "-o", before).code == 0
    run = moeopt("place", loads, "--gpus", 4, "--slots", 8, "--current", before, "--lost", 0, "-o", after)
    lines = run.out.splitlines()
    assert lines[0].startswith("method") and lines[1] == "GPUs         lost 0"
    loads_made = json.loads(after.read_text())["solution"]["repair"]["storage_loads"]
    assert f"storage      {loads_made} loads, the fewest possible" in run.out
    assert run.out.index("lower bound") < run.out.index("load from storage")
    assert lines[-1] == f"... and {loads_made - 12} more; all are in {after}"
    moves, stays = lines[lines.index(next(line for line in lines if line.startswith("moves"))) :][:2]
    assert ", the fewest that restore every expert; imbalance of all layers together 1." in moves
    assert moves.endswith(" after it") and "(" not in moves.partition(";")[2]
    assert stays.startswith("running plan cannot stay: ")


def test_the_slots_curve_is_a_table_and_a_file(eight: Path, tmp_path: Path, moeopt: Callable[..., Run]) -> None:
    file = tmp_path / "curve.svg"
    words = ("--gpus", 4, "--slots-curve", "--expert-bytes", "42MB", "--method", "lpt")
    run = moeopt("place", eight, *words, "-o", file)
    assert run.code == 0 and file.read_text().count("<svg") == 1
    for said in ("memory a GPU", "within 1 %", "bound on the mean", "0.17 GB"):
        assert said in run.out
    made = moeopt("place", eight, *words, "--json", "--max-redundant", 8).document
    assert [point["redundant"] for point in made["points"]] == [0, 4, 8] and made["memory_budget"] is None
    assert moeopt("place", eight, *words, "-o", file).code == 2  # never overwritten unasked


def test_one_memory_budget_chooses_for_every_layer(eight: Path, moeopt: Callable[..., Run]) -> None:
    words = ("--gpus", 4, "--slots-curve", "--expert-bytes", "1GB", "--method", "lpt", "--max-redundant", 12)
    budget = moeopt("place", eight, *words, "--memory-budget", "6GB", "--json").document["memory_budget"]
    assert budget["fits"] and budget["gpu_bytes"] <= 6e9 and len(budget["redundant"]) == 2
    assert budget["redundant"][0] > budget["redundant"][1] == 0  # the skewed layer gets them
    shown = moeopt("place", eight, *words, "--memory-budget", "6GB")
    assert "another number on each layer" in shown.out and "every layer" in shown.err
    other = eight.with_name("other.csv")
    other.write_text(EIGHT.replace("40,9", "9,40"))
    windows = moeopt("place", eight, other, *words, "--memory-budget", "6GB")
    assert "tokens" not in windows.out and ", mean imbalance " in windows.out
    short = moeopt("place", eight, *words, "--memory-budget", "3GB")
    assert short.code == 3 and "takes 4 GB" in short.err and "has 3 GB" in short.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "4", "--slots", "8", "--slots-curve"), "--slots = 8: is what the curve runs over"),
        (("--gpus", "4", "--slots", "8", "--memory-budget", "1GB"), "belongs to the curve. Add --slots-curve"),
        (("--gpus", "4", "--slots-curve", "--memory-budget", "1GB"), "--expert-bytes = missing"),
        (("--gpus", "4", "--slots-curve", "--lost", "1"), "has no meaning for a curve"),
        (("--gpus", "4", "--slots-curve", "-o", "curve.pdf"), "ends in .pdf"),
        (("--slots-curve",), "gpus"),
        (("--gpus", "3", "--slots-curve", "--max-redundant", "0"), "Use 1 or more"),
    ],
)
def test_what_does_not_go_together_is_exit_2(
    eight: Path, moeopt: Callable[..., Run], words: tuple[str, ...], said: str
) -> None:
    run = moeopt("place", eight, *words)
    assert (run.code, run.out) == (2, "") and said in run.err


def test_an_equal_split_is_planned_and_verified(eight: Path, tmp_path: Path, moeopt: Callable[..., Run]) -> None:
    file = tmp_path / "equal.json"
    words = ("--gpus", 4, "--slots", 12, "--split", "free", "--fill", "at_most", "--method", "equal_split", "-o", file)
    run = moeopt("place", eight, *words)
    assert run.code == 0 and "OPTIMAL" in run.out and "equal split:" in run.err
    assert moeopt("verify", file, eight).code == 0


def test_layers_of_different_width_are_planned_apart(tmp_path: Path, moeopt: Callable[..., Run]) -> None:
    file = tmp_path / "pruned.json"
    file.write_text(json.dumps({"loads": [[1] * 8, [1] * 4, [2] * 8, [3] * 4], "layers": [2, 3, 5, 6]}))
    run = moeopt("place", file, "--gpus", 4, "--slots", 8)
    assert run.code == 2
    for said in ("layer 3", "4 experts", "8 in layer 2", "--layers 2,5 and --layers 3,6"):
        assert said in run.err
    assert moeopt("place", file, "--gpus", 4, "--slots", 8, "--layers", "2,5").code == 0
    small = moeopt("place", file, "--gpus", 4, "--slots", 4, "--layers", "3,6", "--json").document
    assert [layer["layer"] for layer in small["solution"]["layers"]] == [3, 6]
    assert all(len(layer["replicas"]) == 4 for layer in small["solution"]["layers"])  # no phantom experts
    assert moeopt("place", file, "--gpus", 4, "--slots", 8, "--layers", "2,3").code == 2


@pytest.mark.parametrize("shared", ["replicated", "fused", "hosted"])
def test_a_curve_begins_where_shared_experts_fit(eight: Path, moeopt: Callable[..., Run], shared: str) -> None:
    words = ("--gpus", 4, "--slots-curve", "--method", "lpt", "--max-redundant", 4)
    made = moeopt("place", eight, *words, "--shared", shared, "--top-k", 2, "--json").document
    assert [point["redundant"] for point in made["points"]] == ([3] if shared == "hosted" else [0, 4])
