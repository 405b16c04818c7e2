"""Mesh documents in the other verbs: verify, inspect, export, compare and info."""

from __future__ import annotations

import csv
import json

import pytest
from conftest import ROOT

from moeopt.cli import main

TINY = ROOT / "instances" / "tiny" / "mesh"
MIXED = TINY / "mixed.json"
SMALL = ("--llm", "mixtral-8x7b", "--gpu", "h100", "--gpus", 4, "--dtype", "fp8", "--input-tokens", 512,
         "--output-tokens", 64, "--families", "colocated", "--most-pp", 1)  # fmt: skip


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    file = tmp_path_factory.mktemp("mesh") / "plan.json"
    assert main(["mesh", str(MIXED), "-q", "-o", str(file)]) == 0
    return file


def changed(plan, name, change):
    document = json.loads(plan.read_text())
    change(document)
    file = plan.with_name(name)
    file.write_text(json.dumps(document))
    return file


def test_a_plan_is_verified_alone_and_against_its_instance(moeopt, plan):
    run = moeopt("verify", plan)
    assert (run.code, run.out) == (0, f"{plan}: ok (structure, numbers and bounds)\n")
    assert "not re-checked: method, stop" in run.err
    assert moeopt("verify", plan, MIXED, "-q").out == ""
    run = moeopt("verify", plan, TINY / "pair.json")
    assert run.code == 5 and "the plan was made for another instance" in run.out
    assert moeopt("verify", "-", stdin=plan.read_text()).code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["solution"]["pools"][0].update(replicas=2), "20 H100 are used, the stock is 12"),
        (lambda one: one.update(objective=0.08), "objective = 0.08: recomputed 0.0909"),
        (lambda one: one["solution"]["demands"][0].update(rate_per_s=12.0), "rate_per_s = 12.0: recomputed 11.0"),
        (lambda one: one["certificate"].update(value="10"), "certificate"),
        (lambda one: one["solution"].update(luck=1), "solution.luck: is not a field of this document"),
        (lambda one: one["instance"].update(sha256="0"), "instance.sha256 = '0': recomputed"),
        (lambda one: one["instance"]["document"]["gpus"][0].update(stock=13), "instance.sha256"),
    ],
)
def test_any_number_that_is_changed_is_a_fault(moeopt, plan, change, said):
    run = moeopt("verify", changed(plan, "changed.json", change))
    assert run.code == 5 and said in run.out, run.out
    found = moeopt("verify", plan.with_name("changed.json"), "--json")
    assert found.code == 5 and found.document["ok"] is False


def test_what_is_no_plan_of_a_mesh_is_refused(moeopt, plan):
    run = moeopt("verify", MIXED)
    assert run.code == 2 and "is a mesh instance, not a plan. Solve it with moeopt mesh" in run.err
    run = moeopt("verify", plan, plan)
    assert run.code == 2 and "is a plan, not the instance it was made for" in run.err
    run = moeopt("verify", plan, "--gpus", 4)
    assert run.code == 2 and "is a mesh plan, which says it itself" in run.err
    run = moeopt("verify", changed(plan, "older.json", lambda one: one.update(schema="moeopt/mesh-result/9")))
    assert run.code == 2 and "This version reads moeopt/mesh-result/1" in run.err


def test_inspect_says_what_a_plan_buys_and_what_an_instance_asks(moeopt, plan):
    out = moeopt("inspect", plan, TINY / "two_types.json").out
    assert "mesh plan mixed" in out and "1 x P of small on 8 H100" in out and "structure  ok" in out
    assert "mesh instance two_types" in out and "12 of cheap, price 1" in out and "lowest price" in out
    assert "6 configurations given; usable: 2 colocated, 2 prefill, 2 decode" in out
    one, two = moeopt("inspect", plan, MIXED, "--json").document["files"]
    assert one["faults"] == [] and one["total_gpus"] == 12
    assert two["usable"] == {"colocated": 1, "prefill": 1, "decode": 1} and two["conflicts"] == []
    run = moeopt("inspect", plan, "--gpus", 4)
    assert run.code == 2 and "options are for loads" in run.err


def test_the_purchase_is_exported_of_an_instance_and_of_a_plan(moeopt, plan, tmp_path):
    text = moeopt("export", MIXED).out
    assert moeopt("export", plan).out == text
    for row in ("serve_0_prefill:", "serve_0_decode:", "stock_0:", "n_0", "theta"):
        assert row in text
    file = tmp_path / "mesh.mps"
    assert moeopt("export", plan, "-o", file, "-q").code == 0 and "ROWS" in file.read_text()
    run = moeopt("export", MIXED, "--layer", 1)
    assert run.code == 2 and "is a mesh instance, which says everything itself. Leave out --layer" in run.err


def test_methods_are_compared_in_one_table(moeopt, plan):
    run = moeopt("compare", MIXED, "--plans", plan)
    rows = {line.split()[0]: " ".join(line.split()) for line in run.out.splitlines() if line.strip()}
    assert run.code == 0 and "best" in rows["per_price"]
    assert "megascale does not apply: no configuration has attention and experts" in rows["megascale"]
    assert "45.5 %" in rows["recipe"] and "0 %" in rows["exact"] and "plan.json" in rows
    assert "proven: no plan is below" in rows["bound"]
    assert "covering, exact, plan.json: 1 x P + 1 x D + 1 x C" in run.out
    found = moeopt("compare", plan, "--methods", "recipe,covering", "--json").document
    (block,) = found["blocks"]
    assert found["problem"] == "mesh" and block["best"] == "covering" and block["bound_kind"] == "certified"
    assert [row["pools"] for row in block["rows"]] == ["6 x C", "1 x P + 1 x D + 1 x C"]


def test_options_are_compared_as_moeopt_mesh_takes_them(moeopt):
    words = ("--methods", "uniform,covering")
    run = moeopt("compare", *SMALL, "--tpot", "50ms", *words, "--json")
    assert run.code == 0, run.err
    instance = run.document["blocks"][0]["instance"]["document"]
    assert instance["gpus"][0]["stock"] == 4 and instance["demands"][0]["slo"]["tpot_s"] == 0.05
    run = moeopt("compare", *SMALL, *words, "--tpot", "1us")
    assert run.code == 3 and "infeasible: tpot_s = 0.001 ms" in run.err
    run = moeopt("compare", *SMALL, *words, "--slots", 4, "--apart", "--max-imbalance", 1.1)
    assert run.code == 2
    assert all(f"{name} = given: is not for a mesh" in run.err for name in ("--slots", "--apart", "--max-imbalance"))
    run = moeopt("compare", MIXED, "--gpus", 4)
    assert run.code == 2 and "which says everything itself. Leave out --gpus" in run.err
    run = moeopt("compare", ROOT / "instances" / "published" / "deepseek_v2_lite_law.csv", "--tpot", "5ms")
    assert run.code == 2 and "is no mesh instance or mesh plan, and --tpot are options of a mesh" in run.err
    assert moeopt("compare", MIXED, "--plans", MIXED).code == 2


def test_reports_have_the_same_numbers_in_every_format(moeopt, tmp_path):
    texts = {}
    for ending in ("html", "md", "tex", "csv", "json"):
        file = tmp_path / f"report.{ending}"
        assert moeopt("compare", MIXED, "--methods", "recipe,megascale,covering", "-q", "-o", file).code == 0
        texts[ending] = file.read_text()
    rows = list(csv.DictReader(texts["csv"].splitlines()))
    block = json.loads(texts["json"])["blocks"][0]
    for row, other in zip(rows, block["rows"], strict=True):
        assert row["method"] == other["method"]
        assert (float(row["rate_per_s"]) if row["rate_per_s"] else None) == other["rate_per_s"]
    for ending in ("html", "md", "tex"):
        assert "Parallel mesh compared: mixed" in texts[ending] and "does not apply" in texts[ending]
    assert "11 requests/s, by <code>covering</code>" in texts["html"]
    assert "recipe" in texts["md"] and "45.5 % fewer requests" in texts["md"]
    run = moeopt("compare", MIXED, "-o", tmp_path / "report.md")
    assert run.code == 2 and "exists" in run.err


def test_info_knows_the_documents_the_methods_and_the_gpus(moeopt):
    schemas = moeopt("info", "schema").document
    assert {"moeopt/mesh-instance/1", "moeopt/mesh-result/1", "moeopt/calibration/1"} <= set(schemas)
    assert {"demands", "gpus", "families"} <= set(schemas["moeopt/mesh-instance/1"]["properties"])
    assert "simulation" in schemas["moeopt/mesh-result/1"]["properties"]
    methods = moeopt("info", "methods", "--json").document
    assert {"mesh covering", "mesh exact", "mesh per_price", "mesh auto"} <= set(methods)
    assert {"H800", "H20", "GB200"} <= set(moeopt("info", "gpus", "--json").document)
