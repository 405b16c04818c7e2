"""A command shown as Python gives, run, what the command gives."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import Limits
from moeopt.cli.as_python.render import Renderer, Unwritable
from moeopt.mesh import GpuType

LOADS = ("place", "one.csv", "--gpus", 4, "--slots", 12)
TIMES = ("runtime_s", "versions", "incumbents")
TINY = Path(__file__).parents[2] / "instances" / "tiny"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moeopt: Callable[..., Any]) -> Path:
    """Loads, a trace, a plan and its map in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    for name in ("one", "two"):
        rows = rng.integers(0, 90, (3, 8)).tolist()
        Path(f"{name}.csv").write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    Path("named.csv").write_text("layer,a,b,c,d\n3,8,4,2,2\n7,5,0,1,9\n")
    Path("slots.json").write_text("[[0, 1, 2, 3], [0, 1, 2, 3]]")
    ids = np.array([[rng.choice(8, 2, replace=False) for _ in range(40)] for _ in range(2)])
    np.save("passes.npy", rng.integers(0, 9, (5, 3, 8)))
    np.savez("trace.npz", topk_ids=ids, layers=np.arange(2), num_experts=8)
    assert moeopt(*LOADS, "--method", "lpt", "-o", "plan.json").code == 0
    return tmp_path


def shown(run: Any) -> dict[str, Any]:
    """The names that the printed text defines, once it has run."""
    assert run.code == 0, run.err
    ast.parse(run.out)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(run.out.replace("print(", "(lambda *a, **k: None)("), "shown", "exec"), names)
    return names


def timeless(document: Any) -> Any:
    """A document without what differs from run to run."""
    if isinstance(document, dict):
        return {key: timeless(value) for key, value in document.items() if key not in TIMES}
    return [timeless(one) for one in document] if isinstance(document, list) else document


DECIDED = ("--max-moves", 3, "--stall", "2s", "--step-time", "30ms", "--steps-until-next", 2000)
SOLVED: dict[str, tuple[object, ...]] = {
    "place": (*LOADS, "--method", "eplb"),
    "limits": (*LOADS, "--method", "search", "--gap", 0.05, "--iterations", 20, "--seed", 4),
    "layer beside layer": (*LOADS, "--method", "search", "--iterations", 5, "--executor", "threads:2"),
    "names and layers": ("place", "named.csv", "--gpus", 2, "--slots", 4, "--layers", "7", "--method", "lpt"),
    "windows": ("place", "one.csv", "two.csv", "--gpus", 4, "--slots", 12, "--combine", "mean", "--method", "lpt"),
    "single passes": (*LOADS, "--method", "lpt", "--layers", "0,2", "--per-step", "passes.npy"),
    "replan": ("place", "named.csv", "--gpus", 2, "--slots", 4, "--current", "slots.json", *DECIDED),
    "repair": ("place", "one.csv", "--gpus", 4, "--slots", 12, "--current", "plan.json", "--lost", 2),
    "memory": ("place", "one.csv", "--expert-bytes", "1GB", "--memory-bytes", "3GB,2GB,4GB,3GB", "--method", "lpt"),
    "an instance": ("place", TINY / "two_threes.json"),
    "route": ("route", "plan.json", "two.csv"),
    "route whole tokens": ("route", "plan.json", "two.csv", "--integer"),
    "collocate": ("collocate", "trace.npz", "--nodes", 2, "--gpus", 4, "--method", "greedy"),
    "a cluster": ("collocate", "trace.npz", "--cluster", "2x2-h100", "--step", "80ms", "--method", "id_order"),
    "microbatch": ("microbatch", "--ta", 0.4, "--te", 0.5, "--tc", 0.3, "--layers", 40),
    "a choice of batches": ("microbatch", "--ta", "0.1+0.002n", "--te", 0.5, "--tc", "5us+14336B*n/50GB/s",
                            "--layers", 40, "--batch", "64-256:64", "--tbt", "50ms"),
    "mesh": ("mesh", "--llm", "mixtral-8x7b", "--gpu", "h200:4:2.5", "--tpot", "50ms", "--families", "colocated",
             "--most-pp", 1),
    "a purchase": ("mesh", TINY / "mesh" / "two_types.json"),
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVED)
def test_shown_python_gives_the_document_of_the_command(moeopt, folder, name):
    names = shown(moeopt(*SOLVED[name], "--show-python"))
    told = moeopt(*SOLVED[name], "--json", *(["-v"] if name in ("mesh", "a purchase") else []))
    assert told.code == 0, told.err
    assert timeless(json.loads(names["result"].to_json())) == timeless(told.document)


def test_shown_python_reads_the_files_and_holds_no_numbers_of_theirs(moeopt, folder):
    text = moeopt(*SOLVED["windows"], "--show-python").out
    assert 'read_loads("one.csv")' in text and 'read_loads("two.csv")' in text and text.count("read_loads(") == 2
    rows = moeopt("place", "two.csv", "--current", "plan.json", *DECIDED, "--show-python").out
    assert 'json.loads(Path("plan.json").read_text())' in rows and len(rows.splitlines()) < 25


def test_shown_python_writes_the_same_file(moeopt, folder):
    words = (*LOADS, "--method", "lpt", "-o")
    assert moeopt(*words, "shown.json", "--show-python").code == 0 and not Path("shown.json").exists()
    shown(moeopt(*words, "shown.json", "--show-python"))
    assert moeopt(*words, "command.json").code == 0
    first, second = (json.loads(Path(name).read_text()) for name in ("shown.json", "command.json"))
    assert timeless(first) == timeless(second)


def test_comparisons_reports_and_curves_are_shown(moeopt, folder):
    names = shown(moeopt("compare", *LOADS[1:], "--methods", "lpt,eplb", "--plans", "plan.json", "--show-python",
                         "-o", "report.md"))  # fmt: skip
    told = moeopt("compare", *LOADS[1:], "--methods", "lpt,eplb", "--plans", "plan.json", "--json").document
    rows = {row["method"]: row["objective"] for row in told["blocks"][0]["rows"]}
    assert {row.method: row.result.objective for row in names["comparison"].rows} == rows
    assert Path("report.md").read_text().startswith("#")
    curve = ("place", "one.csv", "--gpus", 4, "--slots-curve", "--max-redundant", 8, "--method", "lpt")
    names = shown(moeopt(*curve, "--show-python"))
    assert timeless(names["curve"].to_dict())["points"] == timeless(moeopt(*curve, "--json").document)["points"]


def test_replays_grids_and_maps_are_shown(moeopt, folder):
    played = (
        "replay",
        "one.csv",
        "two.csv",
        "--slices",
        2,
        "--gpus",
        4,
        "--slots",
        12,
        "--policies",
        "keep,eplb",
        "--first",
        "lpt",
    )
    names = shown(moeopt(*played, "--show-python"))
    assert timeless(json.loads(names["played"].to_json())) == timeless(moeopt(*played, "--json").document)
    shown(moeopt("convert", "plan.json", "--to", "eplb", "-o", "shown.npz", "--show-python"))
    assert moeopt("convert", "plan.json", "--to", "eplb", "-o", "command.npz").code == 0
    assert Path("shown.npz").read_bytes() == Path("command.npz").read_bytes()
    loads = "loads: {z: {generator: zipf, layers: 1, experts: 8, top_k: 2}}"
    Path("grid.yaml").write_text(f"policies: [lpt]\nshapes: {{g: {{gpus: 2, slots: 8}}}}\n{loads}")
    names = shown(moeopt("bench", "grid.yaml", "-o", "cells", "--show-python"))
    assert (names["ran"].ran, names["ran"].kept) == (1, 0) and Path("cells").is_dir()


WRITTEN: dict[str, tuple[tuple[object, ...], tuple[object, ...]]] = {
    "plan": ((*LOADS, "--method", "lpt"), ("one.csv",)),
    "windows": (("place", "one.csv", "two.csv", *LOADS[2:], "--method", "lpt"), ("one.csv", "two.csv")),
    "route": (SOLVED["route"], ("two.csv",)),
    "collocate": (SOLVED["collocate"], ("trace.npz",)),
    "microbatch": (SOLVED["microbatch"], ()),
    "mesh": (SOLVED["a purchase"], (TINY / "mesh" / "two_types.json",)),
    "replay": (("replay", "one.csv", "two.csv", "--slices", 2, *LOADS[2:], "--policies", "keep,eplb", "--first", "lpt",
                "--seed", 5), ("one.csv", "two.csv")),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_shown_python_of_a_verdict_finds_what_the_command_finds(moeopt, folder, name):
    made, beside = WRITTEN[name]
    assert moeopt(*made, "-o", "written.json").code == 0
    given = ("verify", "written.json", *beside)
    run = moeopt(*given, "--show-python")
    assert shown(run)["faults"] == moeopt(*given, "--json").document["faults"] == []
    assert not [line for line in run.out.splitlines() if line.count(",") > 8]  # no numbers of the files
    document = json.loads(Path("written.json").read_text())
    place = document["policies"][0]["figures"] if name == "replay" else document
    key = "imbalance_mean" if name == "replay" else "objective"
    place[key] = place[key] / 2
    Path("written.json").write_text(json.dumps(document))
    told = moeopt(*given, "--json")
    assert told.code == 5 and shown(moeopt(*given, "--show-python"))["faults"] == told.document["faults"] != []


@pytest.mark.parametrize(
    "options",
    [("--gpus", 3, "--experts", 8), ("--layers-total", 6, "--dense", "0"), ("two.csv",), ("--llm", "mixtral-8x7b"), ()],
)
def test_shown_python_of_a_verdict_has_shape_llm_and_failures(moeopt, folder, options):
    told = moeopt("verify", "plan.json", *options, "--failures", "--json").document
    names = shown(moeopt("verify", "plan.json", *options, "--failures", "--show-python"))
    assert names["faults"] == told["faults"] and bool(options) is bool(names["faults"])
    kept = json.loads(json.dumps(names.get("lost", {})))
    lost = {"gpu": kept["gpu"], "node": kept["node"]} if kept else {}
    assert lost == {by.removesuffix("s"): held for by, held in told.get("lost_if", {}).items()}


def test_shown_python_of_a_map_and_of_constants_judges_the_same(moeopt, folder):
    whole = ("--layers-total", 3, "--dense", "none")
    assert moeopt("convert", "plan.json", "--to", "sglang", *whole, "-o", "map.json").code == 0
    judged = shown(moeopt("verify", "map.json", "--gpus", 4, "--slots", 9, "--show-python"))["judged"]
    assert list(judged.faults) == moeopt("verify", "map.json", "--gpus", 4, "--slots", 9, "--json").document["faults"]
    cost = shown(moeopt("verify", "map.json", "one.csv", "--gpus", 4, "--show-python"))["cost"]
    told = moeopt("verify", "map.json", "one.csv", "--gpus", 4, "--json").document
    assert (cost.imbalance_mean, cost.best_possible_mean) == (told["imbalance_mean"], told["best_possible_mean"])
    Path("table.csv").write_text("batch,time_ms\n1,10\n2,11\n4,13\n8,17\n")
    assert moeopt("calibrate", "table.csv", "-o", "constants.json").code == 0
    given = ("verify", "constants.json", "table.csv")
    assert shown(moeopt(*given, "--show-python"))["faults"] == moeopt(*given, "--json").document["faults"] == []


def test_bad_input_is_refused_as_without_it(moeopt, folder):
    run = moeopt("place", "one.csv", "--gpus", 3, "--slots", 7, "--show-python")
    assert (run.code, run.out) == (2, "") and "slots" in run.err


def test_values_are_written_by_public_names():
    made = Renderer()
    assert made.value(GpuType.of("H100")).startswith("mesh.GpuType(")
    assert made.value((Limits(gap=0.5),)) == "(Limits(gap=0.5),)"
    assert made.value(np.array([[1, 2]])) == "[[1, 2]]" and made.value(np.float64("nan")) == 'float("nan")'
    assert made.imports >= {"from moeopt import mesh", "from moeopt import Limits"}
    with pytest.raises(Unwritable):
        made.value(lambda: 0)


GRID = "policies: [contiguous, lpt]\nshapes: {g: {gpus: 2, slots: 8}, h: {gpus: 4, slots: 8}}\nseeds: [0, 1]\n"


def test_shown_python_of_a_grid_in_json_prints_json(moeopt, folder):
    Path("grid.yaml").write_text(GRID + "loads: {z: {generator: zipf, layers: 2, experts: 8, top_k: 2}}\n")
    assert "print(to_json(table.to_dict()))" in moeopt("bench", "grid.yaml", "-o", "one", "--json", "--show-python").out


@pytest.mark.parametrize("ending", ["tex", "csv", "md", "json", "svg", "html"])
def test_shown_python_of_a_grid_writes_the_same_table(moeopt, folder, ending):
    Path("grid.yaml").write_text(GRID + "loads: {z: {generator: zipf, layers: 2, experts: 8, top_k: 2}}\n")
    words = ("bench", "grid.yaml", "--metric", "gap", "--pivot", "shape,policy")
    run = moeopt(*words, "-o", "one", "--table", f"shown.{ending}", "--show-python")
    shown(run)
    assert moeopt(*words, "-o", "two", "--table", f"command.{ending}").code == 0
    as_command = Path(f"shown.{ending}").read_text().replace("-o one", "-o two").replace("shown.", "command.")
    assert as_command == Path(f"command.{ending}").read_text()
    shown(moeopt(*words, "-o", "two", "--resume", "--table", f"shown.{ending}", "--force", "--show-python"))


DRAWN: dict[str, tuple[object, ...]] = {
    "zipf": ("generate", "zipf", "--layers", 2, "--experts", 8, "--top-k", 2, "--alpha", 0.7, "--seed", 3),
    "shape": ("generate", "lognormal", "--shape", "dsv3_288_g32", "--tokens", 200, "--noise", "poisson"),
    "shift": ("generate", "shift", "--windows", 3, "--layers", 2, "--experts", 8, "--top-k", 2, "--drift", 0.3),
}


@pytest.mark.parametrize("name", DRAWN)
def test_shown_python_of_generate_writes_the_same_loads(moeopt, folder, name):
    shown(moeopt(*DRAWN[name], "-o", "shown.npy", "--show-python"))
    assert moeopt(*DRAWN[name], "-o", "command.npy").code == 0
    assert np.array_equal(np.load("shown.npy"), np.load("command.npy"))
    if name == "zipf":
        printed = moeopt(*DRAWN[name], "--show-python").out
        assert printed.splitlines()[-1].startswith("print(") and "write_loads" not in printed


def test_shown_python_of_a_replay_says_nothing_that_is_usual(moeopt, folder):
    np.save("history.npy", np.random.default_rng(1).integers(1, 50, (12, 2, 8)))
    words = ("replay", "history.npy", "--gpus", 2, "--slots", 10, "--policies", "keep,lpt", "--first", "lpt")
    run = moeopt(*words, "--max-moves", "10%", "--show-python")
    assert "prepared" not in run.out and "windows=" not in run.out
    told = moeopt(*words, "--max-moves", "10%", "--json").document
    assert timeless(json.loads(shown(run)["played"].to_json())) == timeless(told)


def test_shown_python_of_a_comparison_has_moves_where_a_plan_runs(moeopt, folder):
    words = ("compare", "two.csv", "--current", "plan.json", "--methods", "lpt")
    names = shown(moeopt(*words, "--show-python"))
    head = str(names["comparison"]).splitlines()[0]
    assert "moves" in head and "gap mean" in head
