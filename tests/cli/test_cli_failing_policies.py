"""A policy that fails costs its row and the exit code, not the table."""

from __future__ import annotations

import numpy as np
import pytest

WORDS = ("--gpus", 2, "--slots", 4)
POLICY = """
def breaks(instance, limits, seed):
    raise ValueError("a long story " * 40 + "\\n\\ntold in lines")


def wrong(instance, limits, seed):
    return [[0, 0, 0, 0]] * instance.num_layers
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "bad_policies.py").write_text(POLICY)
    (tmp_path / "loads.csv").write_text("4,3,2,1\n4,3,1,1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_failing_policy_exits_2_beside_a_whole_table(moeopt, folder):
    run = moeopt("compare", "loads.csv", *WORDS, "--methods", "eplb,bad_policies:breaks")
    assert run.code == 2 and "lower bound" in run.out and "best" in run.out
    assert max(map(len, run.out.splitlines())) < 250
    assert "Traceback" in moeopt("compare", "loads.csv", *WORDS, "--methods", "bad_policies:breaks", "--debug").err


def test_a_comparison_of_failures_alone_still_has_its_name(moeopt, folder):
    run = moeopt("compare", "loads.csv", *WORDS, "--methods", "bad_policies:breaks")
    assert run.code == 2 and run.out.startswith("loads")


def test_all_unknown_methods_are_named_at_once(moeopt, folder):
    run = moeopt("compare", "loads.csv", *WORDS, "--methods", "serch,elpb,lpt")
    assert run.code == 2 and "'serch'" in run.err and "'elpb'" in run.err


def test_faults_of_a_policys_plan_name_the_policy_a_line_a_kind(moeopt, folder):
    run = moeopt("place", "loads.csv", *WORDS, "--method", "bad_policies:wrong")
    assert run.code == 2 and "method bad_policies:wrong: " in run.err and "more of this kind" in run.err
    assert run.err.count("error:") <= 3


@pytest.mark.parametrize("verb", ["route", "collocate"])
def test_every_verb_that_solves_calls_a_failing_policy_the_failure(moeopt, folder, verb):
    np.savez(folder / "trace.npz", topk_ids=np.array([[[0, 1], [2, 3]] * 2] * 2), layers=[0, 1], num_experts=4)
    assert moeopt("place", "loads.csv", *WORDS, "-o", "plan.json").code == 0
    words = ("plan.json", "loads.csv") if verb == "route" else ("trace.npz", "--nodes", 2, "--gpus", 2)
    run = moeopt(verb, *words, "--method", "bad_policies:breaks")
    assert run.code == 2 and "method bad_policies:breaks failed: ValueError" in run.err


def test_emptying_gpus_speaks_of_no_loss(moeopt, folder):
    words = ("--gpus", 4, "--slots", 8, "--current", "run.json", "--retire", 3)
    (folder / "run.json").write_text("[[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 2, 3, 0, 1, 2, 3]]")
    run = moeopt("place", "loads.csv", *words)
    assert "no expert has to come from storage" in run.err and "0 (layer, expert) pairs" not in run.err


def test_verify_on_other_loads_says_that_first_and_little_else(moeopt, folder):
    assert moeopt("place", "loads.csv", *WORDS, "-o", "plan.json").code == 0
    (folder / "other.csv").write_text("40,3,20,1\n4,30,1,10\n")
    run = moeopt("verify", "plan.json", "other.csv")
    lines = run.out.splitlines()
    assert run.code == 5 and len(lines) == 3 and lines[1].startswith("instance.sha256 says")
    assert lines[0].startswith("other.csv: not the loads, or not the rules, that plan.json was made for; ")
    assert "compare other.csv --plans plan.json and inspect other.csv --current plan.json" in lines[0]
    assert len(moeopt("verify", "plan.json", "other.csv", "-v").out.splitlines()) > 3
