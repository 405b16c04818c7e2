"""Grids run into folders: the same bytes however they are cut and spread, and nothing of another grid is taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.bench import Grid, pivot, read_cells, read_grid, run_cell, run_grid
from moeopt.bench.folder import TIMES
from moeopt.errors import InstanceError
from moeopt.executors import make_executor
from moeopt.report.grid_file import write_pivot

DRAWN = {"generator": "zipf", "layers": 2, "experts": 8, "top_k": 2, "tokens": 1000}
GRID = Grid(
    ("contiguous", "lpt", "snake"),
    {"g2": {"gpus": 2, "slots": 8}, "tight": {"gpus": 2, "slots": 6}},
    {"steep": {**DRAWN, "alpha": 1.5}, "flat": {**DRAWN, "generator": "uniform"}},
    (0, 1),
)


def results(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.glob("*.json")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("grid") / "results"
    ran = run_grid(GRID, folder)
    assert (ran.ran, ran.kept, ran.lost) == (24, 0, ())
    return results(folder)


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 23), min_size=1, max_size=3))
def test_however_it_is_cut_and_gone_on_with_the_bytes_are_the_same(
    undisturbed: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("cut")

    for cut in cuts:

        def stop(done: int, total: int, cut: int = cut) -> None:
            if done == cut:
                raise KeyboardInterrupt

        if len(results(folder)) < cut:
            with pytest.raises(KeyboardInterrupt):
                run_grid(GRID, folder, on_cell=stop)
            assert len(results(folder)) == cut
    run_grid(GRID, folder)
    assert results(folder) == undisturbed


@pytest.mark.parametrize("words", ["threads:3", "processes:2"])
def test_however_it_is_spread_the_bytes_are_the_same(undisturbed: dict[str, bytes], tmp_path: Path, words: str) -> None:
    run_grid(GRID, tmp_path, executor=make_executor(words))
    assert results(tmp_path) == undisturbed


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'{"schema": "moeopt/bench-cell/1"}', None])
def test_a_result_that_is_damaged_or_gone_is_made_again(
    undisturbed: dict[str, bytes], tmp_path: Path, damage: bytes | None
) -> None:
    run_grid(GRID, tmp_path)
    name = sorted(undisturbed)[5]
    (tmp_path / name).unlink()
    if damage is not None:
        (tmp_path / name).write_bytes(damage)
    (tmp_path / TIMES).write_text("half a li")
    assert run_grid(GRID, tmp_path).ran == 1
    assert results(tmp_path) == undisturbed


def test_a_result_of_another_grid_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    """A name may be equal by chance; the fingerprint says whose it is."""
    first = next(GRID.cells())
    run_grid(GRID, tmp_path)
    document = json.loads((tmp_path / first.file_name).read_text())
    (tmp_path / first.file_name).write_text(json.dumps({**document, "fingerprint": "0" * 64}))
    assert run_grid(GRID, tmp_path).ran == 1


def test_new_contents_of_a_file_are_new_cells(tmp_path: Path) -> None:
    loads = tmp_path / "loads.csv"
    loads.write_text("4,3,2,1\n")
    (tmp_path / "grid.json").write_text(
        json.dumps(
            {"policies": ["lpt"], "shapes": {"g2": {"gpus": 2, "slots": 4}}, "loads": {"own": {"file": "loads.csv"}}}
        )
    )
    folder = tmp_path / "results"
    assert run_grid(read_grid(tmp_path / "grid.json"), folder).ran == 1
    assert run_grid(read_grid(tmp_path / "grid.json"), folder).kept == 1
    loads.write_text("4,3,2,9\n")
    assert run_grid(read_grid(tmp_path / "grid.json"), folder).ran == 1
    found = [one["objective"] for one in read_cells(folder)]
    assert sorted(found) == [5.0, 11.0]  # 4 + 1 beside 3 + 2, and 9 + 2


def test_cells_say_why_they_have_no_result(tmp_path: Path) -> None:
    run_grid(GRID, tmp_path)
    tight = [one for one in read_cells(tmp_path, GRID.cells()) if one["cell"]["shape"] == "tight"]
    assert len(tight) == 12
    assert all(one["status"] is None and "must hold each of 8 experts once" in one["reason"] for one in tight)
    gone = Grid(("lpt",), {"g": {"gpus": 1, "slots": 4}}, {"own": {"file": str(tmp_path / "none.csv")}})
    assert "none.csv" in run_cell(next(gone.cells()))["reason"]


def test_the_pivot_is_the_mean_of_what_cells_have(tmp_path: Path) -> None:
    run_grid(GRID, tmp_path)
    documents = read_cells(tmp_path, GRID.cells())
    found = pivot(documents, ["loads", "policy"], "imbalance_worst")
    for row, loads in enumerate(found.row_names):
        for column, policy in enumerate(found.column_names):
            cells = [
                one["imbalance_worst"] for one in documents
                if (one["cell"]["loads"], one["cell"]["policy"]) == (loads, policy) and one["status"]
            ]  # fmt: skip
            assert found.counts[row][column] == len(cells) == 2
            assert found.means[row][column] == pytest.approx(np.mean(cells), rel=1e-12)
    assert found.missing == 12
    assert [one["runtime_s"] is not None for one in documents] == [True] * 24


def cells_by_hand(metric: str = "objective") -> list[dict[str, Any]]:
    """Two policies, two shapes, two seeds: the second policy is best on the first shape alone."""
    tops = {("lpt", "a", 0): 10, ("lpt", "a", 1): 11, ("lpt", "b", 0): 100, ("lpt", "b", 1): 102,
            ("search", "a", 0): 8, ("search", "a", 1): 9, ("search", "b", 0): 104}  # fmt: skip
    return [
        {
            "cell": {"policy": policy, "shape": shape, "loads": "z", "seed": seed},
            "objective": top,
            "lower_bound": 8 if shape == "a" and policy == "lpt" else 7 if shape == "a" else 99.9,
            metric: top,
        }
        for (policy, shape, seed), top in tops.items()
    ]


def test_gaps_are_to_the_best_bound_of_the_instance_and_shown_in_per_cent() -> None:
    """A policy without a bound of its own worth the name is measured by that of the others."""
    found = pivot(cells_by_hand(), ["policy", "shape"], "gap")
    assert found.means[1][0] == pytest.approx((0 + 1 / 9) / 2)  # 8 proves 8 and 9, of which search knew 7
    assert found.as_text().splitlines() == [
        "policy  a (%)     b (%)",
        "lpt     23.64  1.08",
        "search   5.56  3.94 (1)",
    ]
    assert "gap to the best bound that any policy proved" in found.as_csv() and "0.0555" in found.as_csv()


def test_a_table_for_a_paper_has_caption_label_deviations_and_the_best_in_bold() -> None:
    text = pivot(cells_by_hand(), ["policy", "shape"], "gap").as_tex()
    assert r"\label{tab:gap-policy-shape}" in text and r"mean $\pm$ standard deviation over all other axes." in text
    assert [rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"a (\%) & b (\%) \\")] == [True] * 4
    rows = [line for line in text.splitlines() if line.startswith(("lpt", "search"))]
    assert rows[0].count("mathbf") == 1 and r"& $\mathbf{1.08} \pm" in rows[0]
    assert rows[1].count("mathbf") == 1 and r"search & $\mathbf{5.56} \pm 7.86$ &" in rows[1]
    turned = pivot(cells_by_hand(), ["shape", "policy"], "objective").as_tex()
    assert [line.count("mathbf") for line in turned.splitlines() if line.startswith(("a &", "b &"))] == [1, 1]
    assert "mathbf" not in pivot(cells_by_hand(), ["shape", "seed"], "gap").as_tex()


@pytest.mark.parametrize("metric", ["imbalance_mean", "objective", "gap", "runtime_s"])
def test_points_of_a_column_are_below_each_other(metric: str) -> None:
    text = pivot(cells_by_hand(metric), ["policy", "shape"], metric).as_text()
    _, *lines = text.splitlines()
    assert len({line.rindex(".") for line in lines}) == 1 and len({line.index(".") for line in lines}) == 1


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX")
def test_killed_at_half_and_resumed_the_bytes_are_those_of_an_undisturbed_run(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "policies: [contiguous, lpt]\nshapes: {g: {gpus: 4, slots: 40}}\nseeds: "
        f"{list(range(30))}\nloads: {{z: {{generator: zipf, layers: 2, experts: 32, top_k: 4}}}}\n"
    )
    command = [sys.executable, "-m", "moeopt", "bench", str(grid), "-q", "-o"]
    half, whole = tmp_path / "half", tmp_path / "whole"
    subprocess.run([*command, str(whole)], check=True)
    with subprocess.Popen([*command, str(half)]) as child:
        while not half.is_dir() or len(results(half)) < 10:
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    left = len(results(half))
    assert 10 <= left < 60
    refused = subprocess.run([*command, str(half)], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "--resume" in refused.stderr
    subprocess.run([*command, str(half), "--resume"], check=True)
    assert results(half) == results(whole) and len(results(half)) == 60


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="cannot be made"):
        run_grid(GRID, tmp_path / "no" / "such")


def test_results_are_handed_over_as_they_would_be_read(tmp_path: Path) -> None:
    handed: dict[int, dict[str, Any]] = {}
    cells = list(GRID.cells())
    run_grid(GRID, tmp_path, on_result=handed.__setitem__)
    (tmp_path / cells[5].file_name).unlink()
    again: dict[int, dict[str, Any]] = {}
    run_grid(GRID, tmp_path, on_result=again.__setitem__)
    assert list(handed) == list(range(24)) and list(again)[-1] == 5
    known = {index: {**document, "runtime_s": 0.0} for index, document in handed.items()}
    assert {index: {**document, "runtime_s": 0.0} for index, document in again.items()} == known
    assert [again[index] for index in range(24)] == read_cells(tmp_path, cells)


def test_what_was_not_run_took_no_time_and_is_not_the_fastest() -> None:
    """A policy that did not apply had the least runtime, 0 s, in every table."""
    cells = cells_by_hand("runtime_s")
    cells.append({"cell": {**cells[0]["cell"], "policy": "fold"}, "runtime_s": 0.0, "status": "", "reason": "no"})
    found = pivot(cells, ["policy"], "runtime_s")
    assert found.means[-1] == (None,) and found.missing == 1 and found.reasons == (("no", 1),)


def test_a_policy_that_lacks_the_hard_cells_is_not_called_the_best() -> None:
    cells = [one for one in cells_by_hand("imbalance_mean") if one["cell"]["seed"] == 0]
    easy = {"cell": {"policy": "fold", "shape": "a", "loads": "z", "seed": 0}, "imbalance_mean": 8}
    text = pivot([*cells, easy], ["policy", "loads"], "imbalance_mean").as_tex()
    assert [line.count("mathbf") for line in text.splitlines() if line.startswith(("lpt", "search", "fold"))] == [
        1,
        0,
        0,
    ]
    alone = pivot([one for one in cells if one["cell"]["policy"] == "lpt"], ["policy"], "imbalance_mean").as_tex()
    assert "mathbf" not in alone  # of one policy none is the best


@pytest.mark.parametrize("size", [1e308, -1e308, 1e-310, 2.5e15])
def test_numbers_of_any_size_have_means_and_a_short_text(size: float, tmp_path: Path) -> None:
    cells = [{**one, "objective": size} for one in cells_by_hand()]
    found = pivot(cells, ["policy", "shape"], "objective")
    assert found.means[0][0] == pytest.approx(size) and max(map(len, found.as_text().splitlines())) < 60
    for ending in (".html", ".svg", ".md", ".tex", ".json", ".csv"):
        write_pivot(tmp_path / f"table{ending}", found)


def test_a_result_that_names_another_cell_is_made_anew(tmp_path: Path) -> None:
    grid = Grid(
        ("lpt",), {"g": {"gpus": 2, "slots": 8}}, {"z": {"generator": "zipf", "layers": 1, "experts": 8, "top_k": 2}}
    )
    run_grid(grid, tmp_path)
    (file,) = tmp_path.glob("*.json")
    whole = file.read_text()
    file.write_text(whole.replace('"policy": "lpt"', '"policy": 7'))
    assert run_grid(grid, tmp_path).ran == 1 and file.read_text() == whole
