"""Windows, held-out scores, floors, prices and single passes on the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from moeopt.cli.windows import files_of, phase_of
from moeopt.errors import Violations
from tests.cli.conftest import ROOT, Run

PUBLISHED = ROOT / "instances" / "published"
TASKS = [PUBLISHED / f"deepseek_v2_lite_{task}.csv" for task in ("intent", "law", "summary", "translation")]
SHAPE = ("--gpus", 2, "--slots", 6)
Cli = Callable[..., Run]


@pytest.fixture
def days(tmp_path: Path) -> list[Path]:
    """Three small windows of two layers and four experts."""
    rng = np.random.default_rng(1)
    paths = []
    for day in range(3):
        paths.append(tmp_path / f"day_{day}.csv")
        np.savetxt(paths[-1], rng.integers(1, 50, (2, 4)), fmt="%d", delimiter=",")
    return paths


def test_several_files_are_windows_and_verify_takes_them(moeopt: Cli, days: list[Path], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    run = moeopt("place", *days, *SHAPE, "--combine", "cvar", "--alpha", 0.5, "-o", plan)
    assert run.code == 0 and "windows      3" in run.out and "CVaR" in run.out
    document = json.loads(plan.read_text())
    assert document["unit"] == "imbalance" and len(document["solution"]["layers"][0]["windows"]) == 3
    assert document["instance"]["document"]["combine"] == "cvar"
    assert moeopt("verify", plan, *days).code == 0
    assert moeopt("verify", plan, *days[::-1]).code == 5
    assert "the plan was made for 3" in moeopt("verify", plan, days[0]).out


@pytest.mark.parametrize("combine", ["worst", "mean", "cvar"])
@pytest.mark.parametrize("method", ["eplb", "search"])
def test_with_windows_the_objective_is_said_as_mean_imbalance_and_sum(
    moeopt: Cli, days: list[Path], combine: str, method: str
) -> None:
    words = (*days, *SHAPE, "--combine", combine, "--method", method)
    document = moeopt("place", *words, "--json").document
    value, bound = document["objective"], document["lower_bound"]
    run = moeopt("place", *words)
    assert f"objective    mean imbalance {value / 2:.4f} (sum over 2 layers {value:.4f})" in run.out
    assert f"lower bound  mean imbalance {bound / 2:.4f} (sum over 2 layers {bound:.4f}), certified" in run.out
    assert "max load" not in run.out


def test_an_array_of_three_axes_is_windows(moeopt: Cli, days: list[Path], tmp_path: Path) -> None:
    stack = np.stack([np.loadtxt(day, delimiter=",") for day in days])
    np.save(tmp_path / "days.npy", stack)
    np.savez(tmp_path / "days.npz", loads=stack, steps=np.array([1, 2, 3]))
    one = moeopt("place", tmp_path / "days.npy", *SHAPE, "--json").document
    several = moeopt("place", *days, *SHAPE, "--json").document
    assert one["objective"] == several["objective"] and one["solution"] == several["solution"]
    run = moeopt("place", tmp_path / "days.npz", *SHAPE, "--json")
    assert run.document["instance"]["document"]["steps"] == [1, 2, 3]
    assert "windows x layers x experts" in run.err
    assert moeopt("inspect", tmp_path / "days.npz", *SHAPE).code == 0
    assert moeopt("compare", tmp_path / "days.npy", *SHAPE, "--methods", "eplb,lpt").code == 0


def test_windows_that_do_not_belong_together_are_refused(moeopt: Cli, days: list[Path], tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text("1,2,3\n4,5,6\n")
    cases = {
        (days[0], wide): "shape of the first input",
        (days[0], days[0]): "given twice",
        (tmp_path / "x_prefill.csv", tmp_path / "x_decode.csv"): "different phases",
        (days[0], tmp_path / "missing.csv"): "missing.csv",
    }
    for paths, said in cases.items():
        run = moeopt("place", *paths, *SHAPE)
        assert run.code == 2 and said in run.err, run.err
    steps = tmp_path / "steps.json"
    steps.write_text('{"loads": [[1, 2, 3, 4], [4, 3, 2, 1]], "steps": 5}')
    run = moeopt("place", days[0], steps, *SHAPE)
    assert run.code == 2 and "--steps" in run.err
    assert moeopt("place", days[0], steps, *SHAPE, "--steps", 5).code == 0


def test_a_phase_is_kept_in_the_plan(moeopt: Cli, days: list[Path]) -> None:
    document = moeopt("place", *days, *SHAPE, "--phase", "decode", "--json").document
    assert document["solution"]["phase"] == "decode"
    assert [phase_of(name) for name in ("a/decode_1.npz", "b.npz:prefill", "decoder.csv", "prefill_decode.csv")] == [
        "decode",
        "prefill",
        None,
        None,
    ]


def test_fit_and_score_in_every_format(moeopt: Cli, days: list[Path], tmp_path: Path) -> None:
    fit = ["--fit", str(days[0]), "--fit", str(days[1])]
    words = (*fit, "--score", str(tmp_path / "day_2*.csv"), *SHAPE, "--methods", "contiguous,eplb,search")
    run = moeopt("compare", *words)
    assert run.code == 0 and "held-out mean" in run.out and "day, 2 windows" in run.out
    document = moeopt("compare", *words, "--json").document
    rows = {row["method"]: row for row in document["blocks"][0]["rows"]}
    assert rows["search"]["held_out"]["worst_name"] == "day_2" and rows["search"]["held_out"]["mean"] >= 1
    for ending in ("html", "md", "csv", "json"):
        assert moeopt("compare", *words, "-o", tmp_path / f"r.{ending}").code == 0
    assert "held out" in (tmp_path / "r.html").read_text() and "held out" in (tmp_path / "r.md").read_text()
    with (tmp_path / "r.csv").open() as file:
        table = {row["method"]: row for row in csv.DictReader(file)}
    assert float(table["search"]["held_out_mean"]) == rows["search"]["held_out"]["mean"]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["blocks"][0]["rows"][2]["held_out"]["means"].keys() == {"day_2"}
    bound = next(line for line in (tmp_path / "r.md").read_text().splitlines() if line.startswith("| bound"))
    assert " 1.0" in bound  # ratios of windows are not divided by tokens


def test_held_out_figure_is_the_referees(moeopt: Cli, tmp_path: Path) -> None:
    from moeopt import placement
    from moeopt.placement import PlacementInstance
    from moeopt.workload import read_loads

    words = ["--fit", TASKS[0], "--score", TASKS[3], "--gpus", 8, "--slots", 72, "--methods", "eplb", "--json"]
    row = moeopt("compare", *words).document["blocks"][0]["rows"][0]
    fitted = placement.solve(PlacementInstance(read_loads(TASKS[0]).loads, gpus=8, slots=72), method="eplb")
    unseen = PlacementInstance(read_loads(TASKS[3]).loads, gpus=8, slots=72)
    judged = placement.evaluate(unseen, fitted.plan)
    assert row["held_out"]["mean"] == pytest.approx(judged.imbalance_mean, rel=1e-12)
    assert row["imbalance_mean"] == fitted.solution["imbalance_mean"]


def test_fit_and_score_must_be_apart_and_complete(moeopt: Cli, days: list[Path], tmp_path: Path) -> None:
    cases = {
        ("--fit", days[0]): "--score = missing",
        ("--score", days[0]): "--fit = missing",
        ("--fit", days[0], "--score", days[0]): "fitted to already",
        ("--fit", days[0], "--score", tmp_path / "no*.csv"): "matches no file",
        (days[0], "--fit", days[1], "--score", days[2]): "cannot be given beside",
        (): "INPUT = missing",
    }
    for words, said in cases.items():
        run = moeopt("compare", *words, *SHAPE)
        assert run.code == 2 and said in run.err, run.err
    check = Violations()
    assert files_of("--fit", [f"{tmp_path}/day_[01].csv"], check) == [str(days[0]), str(days[1])] and not check.found


def test_the_floor_of_a_gpu_is_printed_and_used(moeopt: Cli, days: list[Path]) -> None:
    run = moeopt("place", days[0], *SHAPE, "--floor-gpu", "H800", "--floor-dtype", "fp8", "--json")
    assert "floor: 258 tokens a pass" in run.err
    assert run.document["instance"]["document"]["floor_tokens"] == pytest.approx(258.3, abs=0.1)
    assert run.document["solution"]["advice"]["action"] == "any"
    for words, said in (
        (("--floor-gpu", "H800"), "--floor-dtype"),
        (("--floor-gpu", "A100", "--floor-dtype", "fp8"), "not confirmed"),
        (("--floor-gpu", "H801", "--floor-dtype", "fp8"), "is not one of"),
        (("--floor-gpu", "H800", "--floor-dtype", "fp8", "--floor-tokens", 3), "Give one of them"),
    ):
        run = moeopt("place", days[0], *SHAPE, *words)
        assert run.code == 2 and said in run.err, run.err


def test_seconds_and_noise_are_said(moeopt: Cli, days: list[Path], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert moeopt("place", days[0], *SHAPE, "--method", "contiguous", "-o", plan).code == 0
    prices = ("--c-slot", "3us", "--c-tok", "0.1us", "--top-k", 2, "--batch-tokens", 64)
    run = moeopt("place", days[0], *SHAPE, *prices, "--current", plan)
    assert run.code == 0 and "a pass now" in run.out and "best in seconds" in run.out
    assert "noise of counting" in run.out
    exact = moeopt("place", days[0], *SHAPE, *prices, "--method", "exact")
    assert "far below" in exact.out


def test_single_passes_are_measured(moeopt: Cli, days: list[Path], tmp_path: Path) -> None:
    passes = np.random.default_rng(0).integers(0, 5, (7, 2, 4))
    np.save(tmp_path / "passes.npy", passes)
    words = ("place", days[0], *SHAPE, "--per-step", tmp_path / "passes.npy")
    run = moeopt(*words)
    assert run.code == 0 and "measured on 7 passes" in run.out
    solution = moeopt(*words, "--json").document["solution"]
    assert solution["per_step"] == {"measured_on": "passes", "steps": 7}
    assert all(layer["per_step_imbalance"] >= 1 for layer in solution["layers"])
    one = moeopt(*words, "--layers", 1, "--json").document["solution"]["layers"]
    assert len(one) == 1 and one[0]["layer"] == 1
    np.save(tmp_path / "short.npy", passes[:, :1])
    assert moeopt("place", days[0], *SHAPE, "--per-step", tmp_path / "short.npy").code == 2


def test_shared_experts_on_the_command_line(moeopt: Cli, days: list[Path], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    for how, slots in (("replicated", 6), ("fused", 8), ("hosted", 6)):
        words = ("--gpus", 2, "--slots", slots, "--shared", how, "--top-k", 2)
        assert moeopt("place", days[0], *words, "-o", plan, "--force").code == 0
        assert moeopt("verify", plan, days[0]).code == 0
        held = json.loads(plan.read_text())["solution"]["layers"][0]
        assert len(held["slot_expert"]) == 6 and len(held["replicas"]) == (5 if how == "hosted" else 4)
    assert moeopt("place", days[0], *SHAPE, "--shared", "fused").code == 2
