"""What ``moeopt mesh`` refuses, in the names of its options, and what cannot be served."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT

from moeopt.mesh import MeshInstance, recheck

TINY = ROOT / "instances" / "tiny" / "mesh"
LLM = ("--llm", "mixtral-8x7b")
EIGHT = (*LLM, "--gpu", "h100:8")
XML = ROOT / "tests" / "data" / "topologies" / "nccl_h100_a.xml"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), ["--llm = missing: there must be an LLM", "--gpu = missing: there must be a type of GPU"]),
        (("--llm", "nope", "--gpu", "gtx:8"), ["--llm = nope: is not in the catalogue", "--gpu = gtx: is not one of"]),
        ((*LLM, "--gpu", "h100", "--gpus", 0), ["--gpus = 0: must be a whole number >= 1"]),
        ((*LLM, "--gpu", "h100", "--gpus", -8), ["--gpus = -8: must be a whole number >= 1"]),
        ((*LLM, "--gpu", "h100:0"), ["--gpu = h100:0: must have a whole count >= 1, not 0"]),
        ((*LLM, "--gpu", "h100:1.5"), ["must have a whole count >= 1, not 1.5"]),
        ((*LLM, "--gpu", "h100:8:2:1"), ["must be NAME, NAME:COUNT or NAME:COUNT:PRICE"]),
        ((*EIGHT, "--gpus", 8), ["--gpus = 8: says the same as --gpu"]),
        ((*EIGHT, "--gpu", "h20:8", "--gpus", 8), ["--gpus = 8: is for one type of GPU"]),
        ((*EIGHT, "--gpu", "h100:8"), ["--gpu = H100: is there twice"]),
        ((*LLM, "--gpu", "h100", "--rate", 5, "--objective", "price"), ["--price[H100] = missing: is needed"]),
        ((*LLM, "--gpu", "h100"), ["--gpus[H100] = missing: is needed for the objective goodput"]),
        ((*LLM, "--gpu", "h100", "--objective", "gpus"), ["--rate[0: mixtral-8x7b] = missing: is needed"]),
        ((*EIGHT, "--price", "h20=2"), ["--price = h20: is no type of GPU given with --gpu"]),
        ((*LLM, "--gpu", "h100:8:2", "--price", 3), ["--price = 3.0: h100 has one with --gpu"]),
        ((*EIGHT, "--price", -1), ["--price = -1: must be a number >= 0"]),
        ((*EIGHT, "--input-tokens", 9, "--context", 99), ["--context = 99: says the same as --input-tokens"]),
        ((*EIGHT, "--context", 100), ["--context = 100: is not more than half of the answer, 1,000 tokens"]),
        ((*EIGHT, "--hf-config", "x.json"), ["--llm = mixtral-8x7b: names an LLM, and --hf-config does too"]),
        ((*EIGHT, "--loads", "a.csv", "--imbalance", "even"), ["--imbalance = even: says the same as --loads"]),
        ((*EIGHT, "--loads", "none.csv"), ["none.csv: cannot be read"]),
        ((*EIGHT, "--calibration", "none.json"), ["none.json: cannot be read"]),
        ((*EIGHT, "--roles", "experts"), ["--roles = experts: must be PART=GPU"]),
        (
            (*EIGHT, "--roles", "brain=h100,experts=h20"),
            ["--roles = brain: is not one of prefill, decode,", "--roles[experts] = H20: is no type of GPU here"],
        ),
        ((*LLM, "--cluster", "2x8-h100", "--gpu", "h100"), ["--cluster = 2x8-h100: has its GPUs"]),
        ((*LLM, "--cluster", "2x8-h100", "--price", "h20=1"), ["--price = h20: is not the GPU of 2x8-h100, H100"]),
        (
            (*LLM, "--cluster", "2x8-nothing", "--gpus", 4, "--node-gpus", 4),
            ["--gpus = 4: is said by --cluster", "--node-gpus = 4: is said by --cluster", "is not one of h100"],
        ),
        ((*LLM, "--cluster", XML), ["is a topology, which does not say which GPUs these are. Give --gpu h100 too"]),
        ((*LLM, "--cluster", XML, "--gpu", "h100:8"), ["--gpu = h100:8: says how many, and --cluster does too"]),
        ((*EIGHT, "--attainment", 0.9, "--requests", 5), ["--attainment = 0.9: is for --simulate", "--requests = 5:"]),
        ((*EIGHT, "--simulate", "--attainment", 2), ["--attainment = 2.0: must be a number above 0, at most 1"]),
        ((*EIGHT, "--simulate", "--requests", 0), ["--requests = 0: must be a whole number >= 1"]),
        ((*EIGHT, "--method", "guess"), ["method = 'guess': is not a method of mesh; known: per_price"]),
        ((*EIGHT, "-o", "plan.txt"), ["a plan or a front is written as .json, .svg or .png"]),
        ((TINY / "pair.json", "--gpus", 4), ["is an instance document, which says everything itself. Leave out"]),
        ((*EIGHT, "--usable", 2), ["--usable = 2.0: must be a part above 0 and at most 1"]),
        (("none.json",), ["none.json: cannot be read"]),
    ],
)  # fmt: skip
def test_what_is_contradictory_or_missing_is_refused(moeopt, words, said):
    run = moeopt("mesh", *words)
    assert (run.code, run.out) == (2, "")
    assert not [text for text in said if text not in run.err], run.err


def test_every_fault_is_said_at_once(moeopt):
    run = moeopt(
        *("mesh", *EIGHT, "--objective", "luck", "--families", "big", "--kv", "fp1", "--dtype", "fp2"),
        *("--engine", "own", "--transport", "mail", "--redundant", -1, "--drafts", 0, "--imbalance", 0.5),
        *("--reserve", "5x"),
        *("--most-pp", 0, "--most-batch", 0, "--cached", 1, "--rate", 0, "--ttft", "2 eons", "--tpot", -1, "-v"),
        *("--time-limit", "soon",),
    )  # fmt: skip
    assert run.code == 2
    begun = ["objective = luck", "families = big", "kv = fp1", "dtype = fp2", "engine = own", "transport = mail",
             "imbalance = 0.5", "reserve = 5x", "cached = 1.0", "rate = 0.0", "ttft = 2 eons",
             "tpot = -1", "time-limit = soon"]  # fmt: skip
    assert not [text for text in begun if f"error: --{text}: " not in run.err], run.err


def test_documents_are_strict(moeopt, tmp_path):
    good = json.loads((TINY / "pair.json").read_text())
    file = tmp_path / "bad.json"
    for change, said in (
        ({"gpu": []}, "gpu = ...: is not a field of this document. Did you mean gpus?"),
        ({"schema": "moeopt/mesh-instance/9"}, "schema = moeopt/mesh-instance/9: is not a mesh instance"),
        ({"most_pp": "8"}, "most_pp = '8': input should be a valid integer"),
        ({"reserve_bytes": float("nan")}, "reserve_bytes = nan"),
    ):
        file.write_text(json.dumps({**good, **change}))
        run = moeopt("mesh", file)
        assert run.code == 2 and said in run.err, run.err
    file.write_text("{")
    assert moeopt("mesh", file).code == 2


def test_levels_that_cannot_be_kept_name_the_closest_and_leave_the_target(moeopt):
    small = ("--input-tokens", 512, "--output-tokens", 64, "--families", "colocated", "--most-pp", 1)
    run = moeopt("mesh", *EIGHT, *small, "--tpot", "0.1ms")
    assert (run.code, run.out) == (3, "")
    assert "below what any configuration of the decode" in run.err or "closest" in run.err
    assert "The target is left as it was given" in run.err
    found = moeopt("mesh", *EIGHT, *small, "--tpot", "0.1ms", "--json")
    assert found.code == 3 and found.document["status"] == "INFEASIBLE" and found.document["solution"] is None
    assert found.document["conflicts"][0]["rule"] == "tpot_s" and found.document["conflicts"][0]["best"] > 1e-4


def test_memory_that_is_short_says_how_many_gpus_would_do(moeopt):
    run = moeopt("mesh", "--llm", "deepseek-v3", "--gpu", "h100:8", "--families", "colocated", "--most-pp", 1)
    assert run.code == 3 and "GPUs" in run.err and "more than the stock" not in run.err, run.err


@pytest.mark.parametrize("gpus", [1, 7, 13])
def test_a_prime_number_of_gpus_is_used_as_far_as_shapes_divide(moeopt, gpus):
    """Seven ranks hold 8 experts only with six redundant ones; heads do not divide by 7 at all."""
    small = ("--input-tokens", 512, "--output-tokens", 64, "--families", "colocated", "--most-pp", 1)
    run = moeopt("mesh", "--llm", "mixtral-8x7b", "--dtype", "fp8", "--gpu", f"h100:{gpus}", *small, "--json")
    assert run.code == 0, run.err
    solution = run.document["solution"]
    used = solution["total_gpus"]
    assert 1 <= used <= gpus and sum(solution["idle_gpus"].values()) == gpus - used
    for row in solution["pools"]:
        shape = row["config"]["shape"]
        assert 32 % shape["tp"] == 0 and (8 + shape["redundant"]) % shape["ep"] == 0
    assert all(row["why_not"] for row in solution["ranking"] if not row["bought"])


@pytest.mark.parametrize(("given", "said"), [
    (("--drafts", "1e300,2"), "--drafts[0] = 1e+300: a step with 1 drafted tokens yields 1 to 2"),
    (("--drafts", 0.5), "--drafts[0] = 0.5: a step with 1 drafted tokens yields 1 to 2"),
    (("--price", 1e308), "--price = 1e+308: must be at most 1,000,000,000"),
    (("--gpus", 10**30), f"--gpus = {10**30}: must be at most 1,000,000,000,000"),
    (("--node-gpus", 0), "--node-gpus = 0: must be a whole number >= 1"),
    (("--imbalance", 1e300), "--imbalance = 1e+300: must be at most the number of experts, 8"),
    (("--reserve", "1e30GB"), "must leave something of a GPU's"),
])  # fmt: skip
def test_numbers_beyond_reason_are_refused_and_not_computed_with(moeopt, given, said):
    """They ended in overflows, in warnings of numpy, or were taken for no answer at all."""
    asked = given if "--gpus" in given else ("--gpus", 8, *given)
    run = moeopt("mesh", "--llm", "mixtral-8x7b", "--gpu", "h100", *asked)
    assert run.code == 2 and said in run.err, run.err


def test_no_claim_of_a_solver_is_taken_for_a_proof():
    instance = MeshInstance.from_dict(json.loads((TINY / "pair.json").read_text()))
    assert recheck(instance, {"kind": "solver", "value": "1"}) == ["a solver's claim proves nothing by itself"]
