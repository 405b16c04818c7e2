"""compare works alike for all problems: what it takes, writes, says, and when it is a gate."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from moeopt.report import FORMATS
from tests.cli.conftest import ROOT, Run

TINY = ROOT / "instances" / "tiny"
Cli = Callable[..., Run]

CASES = {
    "placement": (TINY / "pair.json", "contiguous,lpt", "place"),
    "routing": (TINY / "routing" / "pair.json", "even,newton", "route"),
    "collocation": (TINY / "collocation" / "two_pairs.json", "id_order,load_only", "collocate"),
    "microbatch": (TINY / "microbatch" / "pair.json", "simulate,search", "microbatch"),
    "mesh": (TINY / "mesh" / "mixed.json", "recipe,covering", "mesh"),
}


@pytest.mark.parametrize("name", CASES)
def test_tables_json_and_reports_have_the_same_rows(moeopt: Cli, tmp_path: Path, name: str) -> None:
    path, methods, _ = CASES[name]
    files = [tmp_path / f"report{ending}" for ending in FORMATS if ending != ".html"]  # drawn elsewhere
    run = moeopt("compare", path, "--methods", methods, "-o", ",".join(map(str, files)))
    assert run.code == 0, run.err
    rows = [line.split()[0] for line in run.out.splitlines() if line.strip()]
    assert all(method in rows for method in methods.split(",")) and "best" in run.out
    document = moeopt("compare", path, "--methods", methods, "--json").document
    (block,) = document["blocks"]
    assert document["problem"] == block["problem"] == name and block["best"] in methods
    written = json.loads(files[-1].read_text())["blocks"][0]
    kept = [
        (row["method"], row["objective"]) for row in csv.DictReader((tmp_path / "report.csv").read_text().splitlines())
    ]
    assert [row["method"] for row in block["rows"]] == [row["method"] for row in written["rows"]] == methods.split(",")
    assert [(row["method"], str(row["objective"])) for row in block["rows"]] == kept
    assert all(f"compared: {written['instance']['name']}" in file.read_text() for file in files[:1])
    again = moeopt("compare", path, "--methods", methods, "-o", f"{files[0]},{files[1]}")
    assert again.code == 2 and again.err.count("never overwritten unasked") == 2


@pytest.mark.parametrize("name", CASES)
def test_a_misspelt_method_or_output_is_refused_before_the_work(moeopt: Cli, tmp_path: Path, name: str) -> None:
    path, methods, _ = CASES[name]
    run = moeopt("compare", path, "--methods", f"{methods},elpb,serch")
    assert run.code == 2 and "'elpb': is not a method" in run.err and "'serch': is not a method" in run.err
    run = moeopt("compare", path, "--methods", methods, "-o", tmp_path / "report.pdf")
    assert run.code == 2 and "report.pdf" in run.err and ".html" in run.err and run.out == ""


def test_options_of_other_problems_are_refused_by_name(moeopt: Cli) -> None:
    run = moeopt("compare", CASES["routing"][0], "--slots", 4, "--max-moves", 3)
    assert run.code == 2
    assert all(f"{option} = given: is not for a routing" in run.err for option in ("--slots", "--max-moves"))
    run = moeopt("compare", CASES["microbatch"][0], "--gpus", 4)
    assert run.code == 2 and "--gpus = given: is not for a micro-batch instance" in run.err
    run = moeopt("compare", "--integer")
    assert run.code == 2 and "INPUT = missing" in run.err


def test_a_plan_and_loads_are_compared_as_route_takes_them(moeopt: Cli, plan: Path, tmp_path: Path) -> None:
    loads = tmp_path / "drifted.csv"
    loads.write_text("layer,a,b,c,d\n7,1,0,1,9\n3,2,8,4,2\n")
    routed = moeopt("route", plan, loads, "--json").document
    (block,) = moeopt("compare", plan, loads, "--json").document["blocks"]
    rows = {row["method"]: row for row in block["rows"]}
    assert rows["newton"]["objective"] == routed["objective"] == block["lower_bound"]
    assert rows["even"]["objective"] == routed["solution"]["even_objective"] >= routed["objective"]
    assert "local_first" not in rows and rows["integer"]["reason"]
    shares = tmp_path / "routing.json"
    assert moeopt("route", plan, loads, "--method", "even", "-o", shares).code == 0
    run = moeopt("compare", plan, loads, "--methods", "newton", "--plans", shares, "--nodes", 3, "--integer")
    assert run.code == 2 and "routing.json" in run.err  # its shares cut tokens, which --integer forbids
    run = moeopt("compare", plan, loads, "--methods", "newton", "--plans", shares)
    assert run.code == 0 and "routing.json" in run.out
    assert "is no routing" in moeopt("compare", plan, loads, "--plans", plan).err


def test_a_bare_table_of_slots_and_loads_are_a_routing_and_tables_of_loads_are_not(moeopt: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    slots = np.stack([np.concatenate([rng.permutation(12), rng.integers(12, size=4)]) for _ in range(2)])
    loads, other = rng.integers(0, 50, (2, 12)), rng.integers(0, 50, (2, 12))
    for name, table in (("map", slots), ("loads", loads), ("other", other)):
        np.save(tmp_path / f"{name}.npy", table)
    files = [tmp_path / f"{name}.npy" for name in ("map", "loads", "other")]
    routed = moeopt("compare", files[0], files[1], "--gpus", 4, "--methods", "even,newton", "--json")
    assert routed.code == 0 and routed.document["problem"] == "routing"
    best = moeopt("route", files[0], files[1], "--gpus", 4, "--json").document["objective"]
    assert routed.document["blocks"][0]["lower_bound"] == best
    windows = moeopt("compare", files[1], files[2], "--gpus", 4, "--slots", 16, "--methods", "lpt", "--json")
    assert windows.code == 0 and windows.document["problem"] == "placement"


def test_the_gate_asks_the_rival_of_the_problem(moeopt: Cli, tmp_path: Path) -> None:
    """A plan that is worse is exit 5, one that is as good is not; without plans the best method is asked."""
    for name, good, poor, said in (
        ("routing", "newton", None, "even"),
        ("microbatch", "search", "worse", "simulate"),
        ("collocation", "load_only", "id_order", "load_only"),
        ("mesh", "covering", None, "recipe"),
    ):
        path, _, verb = CASES[name]
        first, second = tmp_path / f"{name}_good.json", tmp_path / f"{name}_poor.json"
        assert moeopt(verb, path, "--method", good, "-o", first).code == 0, name
        asked = ("compare", path, "--methods", good, "--fail-if-worse")
        assert moeopt(*asked).code == 0, name
        assert moeopt(*asked, "--plans", first).code == 0, name
        if poor is None:
            continue
        if poor == "worse":
            document = json.loads(first.read_text())
            document["solution"] |= {"m": 1, "sequences": None}
            second.write_text(json.dumps(document))
        else:
            assert moeopt(verb, path, "--method", poor, "-o", second).code == 0
        run = moeopt(*asked, "--plans", f"{first},{second}")
        assert run.code == 5 and f"worse than {said}: {second.name} has objective" in run.err, name


@pytest.mark.parametrize("name", ["routing", "microbatch", "mesh"])
def test_an_instance_comes_by_a_pipe(moeopt: Cli, name: str) -> None:
    path, methods, _ = CASES[name]
    run = moeopt("compare", "-", "--methods", methods, "--json", stdin=path.read_text())
    assert run.code == 0 and run.document["problem"] == name


def test_a_running_plan_is_what_the_gate_asks_first(moeopt: Cli, plan: Path, tmp_path: Path) -> None:
    """A placement that is better than eplb, and worse than what runs, is no better."""
    tiny, words = plan.with_name("tiny.csv"), ("--gpus", 3, "--slots", 6)
    poor = tmp_path / "poor.json"
    assert moeopt("place", tiny, *words, "--method", "contiguous", "-o", poor).code == 0
    run = moeopt("compare", tiny, *words, "--methods", "lpt", "--current", plan, "--plans", poor, "--fail-if-worse")
    assert run.code == 5 and "worse than running plan: poor.json has objective" in run.err
    assert moeopt("compare", tiny, *words, "--methods", "lpt", "--current", plan, "--fail-if-worse").code == 0


def test_several_instances_of_any_problem_make_one_page(moeopt: Cli, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    paths = [CASES[name][0] for name in ("routing", "microbatch")]
    run = moeopt("compare", "--apart", *paths, "-o", page, "--json")
    assert run.code == 0, run.err
    assert [block["problem"] for block in run.document["blocks"]] == ["routing", "microbatch"]
    assert "problem" not in run.document
    text = page.read_text()
    assert "2 problems compared on 2 instances" in text and text.count("| Method |") == 2


def test_a_plan_of_micro_batches_is_compared_by_its_instance(moeopt: Cli, tmp_path: Path) -> None:
    path, plan = CASES["microbatch"][0], tmp_path / "plan.json"
    assert moeopt("microbatch", path, "-o", plan).code == 0
    (block,) = moeopt("compare", plan, "--methods", "simulate", "--plans", plan, "--json").document["blocks"]
    (own,) = moeopt("compare", path, "--methods", "simulate", "--json").document["blocks"]
    assert block["instance"]["sha256"] == own["instance"]["sha256"]
    assert [row["method"] for row in block["rows"]] == ["simulate", "plan.json"]
