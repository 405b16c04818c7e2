"""`moeopt check`: shapes that work, and that it agrees with `place`."""

from __future__ import annotations

import pytest


def test_check_lists_feasible_totals_and_the_price_of_a_slot(moeopt):
    words = ("check", "--experts", 256, "--slots", 288, "--gpus", 72, "--nodes", 9)
    run = moeopt(*words, "--expert-bytes", "42MiB", "--layers", 58)
    assert run.code == 0
    assert "32 redundant experts" in run.out and "2.38 GiB" in run.out
    document = moeopt(*words, "--json").document
    assert document["ok"] and [row["slots"] for row in document["feasible_slots"]] == [288, 360, 432, 504]


def test_check_tells_all_violations_with_the_nearest_values(moeopt):
    run = moeopt("check", "--experts", 256, "--slots", 270, "--gpus", 72, "--nodes", 7, "--groups", 10)
    assert run.code == 2
    for said in ("nodes = 7: must divide gpus = 72. Use 6", "slots = 270", "groups = 10: must divide experts = 256"):
        assert said in run.err
    run = moeopt("check", "--experts", 8, "--slots", 16, "--gpus", 4, "--expert-bytes", "1GB", "--gpu-mem", "2GB")
    assert run.code == 2 and "At most 2 slots a GPU, 8 in all" in run.err


@pytest.mark.parametrize("rule", [(), ("--group-rule", "auto"), ("--group-rule", "hierarchical")])
@pytest.mark.parametrize("more", [(), ("--uneven-slots",), ("--allow-doubles",)])
@pytest.mark.parametrize(
    "shape",
    [(12, 16, 4, 2, 2), (12, 16, 4, 2, 3), (12, 14, 4, 1, None), (4, 24, 4, 1, None), (12, 8, 4, 1, None),
     (12, 16, 4, 2, 5), (12, 16, 4, 3, None), (12, 12, 4, 4, 2)],
)  # fmt: skip
def test_check_agrees_with_place(moeopt, tmp_path, shape, rule, more):
    experts, slots, gpus, nodes, groups = shape
    file = tmp_path / "loads.csv"
    file.write_text(",".join("1" * experts) + "\n")
    words = ["--slots", slots, "--gpus", gpus, "--nodes", nodes, *rule, *more]
    words += [] if groups is None else ["--groups", groups]
    checked = moeopt("check", "--experts", experts, *words, "--json")
    placed = moeopt("place", file, *words, "--method", "search", "--iterations", 0, "--json")
    assert checked.code == placed.code, checked.out + placed.err
    feasible = checked.document["feasible_slots"] if checked.code == 0 else []
    for row in (*feasible[:1], *feasible[-1:]):
        words[1] = row["slots"]
        again = moeopt("place", file, *words, "--method", "search", "--iterations", 0, "--json")
        assert again.code == 0, again.err


def test_check_says_that_groups_are_ignored(moeopt):
    words = ("check", "--experts", 12, "--slots", 16, "--gpus", 4, "--nodes", 2, "--groups", 3)
    run = moeopt(*words)
    assert run.code == 0 and "note: groups ignored (global placement)" in run.err
    refused = moeopt(*words, "--group-rule", "hierarchical")
    assert refused.code == 2 and "group_rule auto (--group-rule auto)" in refused.err


def test_check_leads_with_too_few_slots(moeopt):
    words = ("check", "--experts", 64, "--slots", 61, "--gpus", 4, "--groups", 7)
    first = moeopt(*words).err.splitlines()[0]
    assert first.startswith("error: slots = 61 in all: must hold each of 64 experts once. Use 64 (16 a GPU) or more")
    assert moeopt(*words, "--json").document["redundant_experts"] is None


@pytest.mark.parametrize(
    ("memory", "code", "said"),
    [
        ("8GB", 0, "8.00 GB (7.45 GiB) a GPU holds 8 slots, 32 in all: this shape fits"),
        ("3GB", 2, "3.00 GB (2.79 GiB) a GPU holds 3 slots, 12 in all: this shape does not fit"),
        ("1GB", 3, "1.00 GB (0.93 GiB) a GPU holds 1 slot, 4 in all: this shape does not fit"),
    ],
)
def test_check_says_how_many_slots_fit(moeopt, memory, code, said):
    words = ("check", "--experts", 12, "--slots", 16, "--gpus", 4, "--expert-bytes", "1GB", "--gpu-mem", memory)
    run = moeopt(*words)
    assert run.code == code and said in run.out
    assert ("infeasible: " in run.err) == (code == 3)
    assert moeopt(*words, "--json").document["fits"] == (code == 0)
