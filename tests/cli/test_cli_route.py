"""`moeopt route`: from plans, maps and instances, what it says, what it writes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import ROOT, Run

TINY = ROOT / "instances" / "tiny" / "routing"
Cli = Callable[..., Run]


@pytest.fixture
def drifted(tmp_path: Path) -> Path:
    """The layers of `tiny` under other loads, and one more."""
    file = tmp_path / "drifted.csv"
    file.write_text("layer,a,b,c,d\n7,1,0,1,9\n3,2,8,4,2\n9,1,1,1,1\n")
    return file


def test_an_instance_is_answered_in_figures_and_words(moeopt: Cli) -> None:
    run = moeopt("route", TINY / "pair.json")
    assert run.code == 0
    assert "7.5 tokens, certified: no dispatch rule gets below it" in run.out
    assert "8.5 tokens; a better dispatch rule could win 11.8 % of it, none more" in run.out
    assert "layer 0: all 2 GPUs have 15 tokens of 3 experts that lie nowhere else" in run.out
    whole = moeopt("route", TINY / "pair.json", "--integer", "--json").document
    assert (whole["objective"], whole["status"], whole["solution"]["unit"]) == (8.0, "OPTIMAL", "tokens")


def test_a_plan_is_routed_under_drifted_loads_layer_by_layer(moeopt: Cli, plan: Path, drifted: Path) -> None:
    run = moeopt("route", plan, drifted, "--json")
    assert run.code == 0
    assert [layer["layer"] for layer in run.document["solution"]["layers"]] == [3, 7]
    assert "layers 9 are not in the plan and left out" in run.err
    hosted = json.loads(plan.read_text())["solution"]["layers"][0]["slot_expert"]
    assert run.document["instance"]["document"]["slot_expert"][0] == hosted


def test_what_was_written_is_verified_and_inspected(moeopt: Cli, plan: Path, drifted: Path, tmp_path: Path) -> None:
    out = tmp_path / "routing.json"
    for options in ([], ["--integer"], ["--nodes", 3, "--local"]):
        assert moeopt("route", plan, drifted, *options, "-o", out, "--force").code == 0
        assert moeopt("verify", out).out.endswith("ok (structure)\n")
        assert moeopt("verify", out, drifted).out.endswith("ok (structure, numbers and bounds)\n")
        again = moeopt("route", out, drifted, *options[-1:] if "--local" in options else options, "--json")
        assert again.document["objective"] == json.loads(out.read_text())["objective"]
    assert "local_first: OPTIMAL, gap 0 %" in moeopt("inspect", out).out
    assert moeopt("verify", "-", drifted, stdin=out.read_bytes()).out == "-: ok (structure, numbers and bounds)\n"
    assert moeopt("route", plan, drifted, "-o", out).code == 2


@pytest.mark.parametrize("field", ["max_load", "lower_bound", "imbalance", "gap", "ideal"])
def test_every_number_that_was_edited_is_found(moeopt: Cli, tmp_path: Path, field: str) -> None:
    out = tmp_path / "routing.json"
    assert moeopt("route", TINY / "pair.json", "-o", out).code == 0
    document = json.loads(out.read_text())
    document["solution"]["layers"][0][field] += 0.5
    out.write_text(json.dumps(document))
    run = moeopt("verify", out, TINY / "pair.json", "--json")
    assert run.code == 5 and not run.document["ok"]


def test_shares_and_proofs_that_were_edited_are_found(moeopt: Cli, tmp_path: Path) -> None:
    out = tmp_path / "routing.json"
    assert moeopt("route", TINY / "pair.json", "-o", out).code == 0
    written = out.read_text()
    for change in (
        lambda d: d["solution"]["shares"][0][0].__setitem__(2, 0.9),
        lambda d: d["solution"]["shares"][0][0].__setitem__(1, 7),
        lambda d: d["solution"]["shares"][0].pop(0),
        lambda d: d["certificate"]["layers"][0].__setitem__("value", "9"),
        lambda d: d["certificate"]["layers"][0].__setitem__("value", "7.5"),
        lambda d: d["certificate"]["layers"][0].__setitem__("gpus", []),
        lambda d: d["certificate"]["layers"][0].__setitem__("gpus", [-1]),
        lambda d: d["certificate"].__setitem__("layers", []),
    ):
        document = json.loads(written)
        change(document)
        out.write_text(json.dumps(document))
        assert moeopt("verify", out, TINY / "pair.json").code in (2, 5)
    assert moeopt("verify", out, TINY / "chain.json").code == 5
    out.write_text(written)
    assert moeopt("verify", out, TINY / "pair.json").code == 0


def test_an_engine_s_map_needs_its_gpus(moeopt: Cli, tmp_path: Path) -> None:
    table = tmp_path / "map.npy"
    np.save(table, np.array([[0, 1, 0, 2]], dtype=np.int64))
    loads = tmp_path / "loads.csv"
    loads.write_text("9,4,2\n")
    run = moeopt("route", table, loads)
    assert run.code == 2 and "--gpus = missing" in run.err
    run = moeopt("route", table, loads, "--gpus", 2, "--speed", "1,1", "--json")
    assert run.document["objective"] == 7.5
    assert moeopt("route", table, loads, "--gpus", 2, "--floor-tokens", 4, "--json").document["objective"] == 8.5
    assert moeopt("route", table, loads, "--gpus", 2, "--base", 1, "--json").document["objective"] == 8.5


def test_the_rule_of_the_plan_is_judged_beside_even_parts(moeopt: Cli, tiny: Path, drifted: Path) -> None:
    plan = tiny.with_name("ruled.json")
    options = ["--gpus", 3, "--slots", 9, "--split", "sglang-static", "-o", plan]
    assert moeopt("place", tiny, *options).code == 0
    run = moeopt("route", plan, drifted)
    assert run.code == 0
    assert "sglang-static: " in run.out
    random = ["--gpus", 3, "--slots", 9, "--split", "random", "-o", plan, "--force"]
    assert moeopt("place", tiny, *random).code == 0
    assert "as even parts in expectation" in moeopt("route", plan, drifted).out


def test_shared_experts_of_a_plan_are_a_base_load(moeopt: Cli, tiny: Path) -> None:
    plan = tiny.with_name("shared.json")
    options = ["--gpus", 3, "--slots", 6, "--shared", "replicated", "--top-k", 2, "-o", plan]
    assert moeopt("place", tiny, *options).code == 0
    document = moeopt("route", plan, tiny, "--json").document
    assert document["status"] == "OPTIMAL"
    assert max(map(max, np.atleast_2d(document["instance"]["document"]["base"]))) > 0
    placed = json.loads(plan.read_text())
    assert document["objective"] <= placed["objective"] * (1 + 1e-9)


def test_what_cannot_be_routed_is_refused_with_the_next_step(
    moeopt: Cli, plan: Path, tiny: Path, drifted: Path, tmp_path: Path
) -> None:
    for words, said in (
        ((plan,), "needs loads"),
        ((tiny, drifted), "no plan, no map of an engine and no routing instance"),
        ((TINY / "pair.json", drifted), "has its loads within"),
        ((TINY / "pair.json", "--speed", "1,2"), "--speed"),
        ((plan, drifted, "--local"), "needs several nodes"),
        ((plan, drifted, "--local", "--method", "newton"), "method of its own"),
        ((plan, drifted, "--gpus", 7), "the plan has 3"),
        ((plan, drifted, "--method", "newtn"), "Did you mean newton?"),
        ((plan, drifted, "--method", "integer"), "does not apply"),
        ((plan, drifted, "--nodes", 2), "must divide gpus = 3"),
        ((plan, drifted, "--floor-tokens", 2.5, "--integer"), "whole"),
        ((plan, drifted, "-o", tmp_path / "out.csv"), ".json"),
    ):
        run = moeopt("route", *words)
        assert (run.code, said in run.err) == (2, True), (words, run.err)


def test_an_expert_without_a_replica_is_infeasible(moeopt: Cli, tmp_path: Path) -> None:
    table = tmp_path / "map.npy"
    np.save(table, np.array([[0, 1, 0, 1]], dtype=np.int64))
    loads = tmp_path / "loads.csv"
    loads.write_text("9,4,2\n")
    run = moeopt("route", table, loads, "--gpus", 2)
    assert run.code == 3
    assert "expert 2 has 2 tokens and no replica" in run.err


def test_a_routing_instance_is_inspected_and_exported(moeopt: Cli) -> None:
    run = moeopt("inspect", TINY / "chain.json")
    assert run.code == 0 and "even parts 1.5000, best split 1.0000 (proved" in run.out
    assert moeopt("export", TINY / "floor.json").out == (ROOT / "models" / "routing.lp").read_text()
    assert moeopt("export", TINY / "floor.json", "--gpus", 2).code == 2
    assert moeopt("export", TINY / "floor.json", "--layer", 4).code == 2


def test_a_plan_of_collocate_is_routed_and_dummy_rows_are_dropped(moeopt: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    real = np.array([rng.choice(8, size=2, replace=False) for _ in range(400)])
    trace, plan = tmp_path / "trace.npz", tmp_path / "collocated.json"
    np.savez(trace, topk_ids=np.concatenate([np.tile([3, 5], (8192, 1)), real])[None], layers=np.array([0]))
    assert moeopt("collocate", trace, "--nodes", 2, "--gpus", 4, "--slots", 12, "-o", plan).code == 0
    run = moeopt("route", plan, trace, "--drop", "dummy-rows", "--json")
    assert run.code == 0
    told = run.document["solution"]["layers"][0]
    assert told["ideal"] == len(real) * 2 / 4
    hosted = json.loads(plan.read_text())["solution"]["layers"][0]["slot_expert"]
    assert run.document["instance"]["document"]["slot_expert"] == [hosted]
    kept = moeopt("route", plan, trace)
    assert kept.code == 0 and "--drop dummy-rows" in kept.err
    assert moeopt("route", plan, trace, "--gpus", 5).code == 2


def test_loads_of_another_llm_and_parts_of_tokens_are_refused_in_words_of_the_command(
    moeopt: Cli, plan: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("layer,a,b,c\n3,2,8,4\n7,1,0,1\n")
    run = moeopt("route", plan, other)
    assert run.code == 2 and "loads = 3 experts: the plan has 4. Give loads of the LLM" in run.err
    other.write_text("layer,a,b,c,d\n3,2,8,4.5,1\n7,1,0,1,1\n")
    run = moeopt("route", plan, other, "--integer")
    assert run.code == 2 and "or leave whole out (--integer)" in run.err
