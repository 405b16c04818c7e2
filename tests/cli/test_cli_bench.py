"""The verb bench: tables, reasons, formats, and what is refused before anything runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Run

GRID = """
policies: [contiguous, lpt, replan]
shapes: {g2: {gpus: 2, slots: 8}, tight: {gpus: 2, slots: 6}}
loads: {steep: {generator: zipf, alpha: 1.5, layers: 2, experts: 8, top_k: 2, tokens: 1000}}
seeds: [0, 1]
"""

Moeopt = Callable[..., Run]


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_means_are_shown_and_reasons_counted(moeopt: Moeopt, grid: Path, tmp_path: Path) -> None:
    run = moeopt("bench", grid, "-o", tmp_path / "out")
    lines = run.out.splitlines()
    assert run.code == 0 and lines[1].split() == ["policy", "g2", "tight"]
    assert [line.split()[0] for line in lines[2:]] == ["contiguous", "lpt", "replan"]
    assert lines[2].split()[2] == lines[4].split()[1] == "-"
    assert "12 cells run, 0 kept, of 12" in run.err
    assert "6 cells: slots = 6 in all: must hold each of 8 experts once" in run.err
    assert "2 cells: replan does not apply" in run.err


def test_resume_keeps_and_the_table_is_written_in_every_format(moeopt: Moeopt, grid: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert moeopt("bench", grid, "-o", out, "-q").out == ""
    refused = moeopt("bench", grid, "-o", out)
    assert refused.code == 2 and "holds 12 results already. Add --resume" in refused.err
    for ending in ("md", "csv", "tex", "json", "html", "svg", "png"):
        table = tmp_path / f"table.{ending}"
        given = ("bench", grid, "-o", out, "--resume", "--pivot", "loads,policy", "--metric", "gap", "--table", table)
        run = moeopt(*given, "--json")
        assert run.code == 0 and (run.document["ran"], run.document["kept"]) == (0, 12)
        assert run.document["pivot"]["columns"]["names"] == ["contiguous", "lpt", "replan"]
        assert moeopt(*given).code == 2  # it exists
    shown = run.document["pivot"]
    assert json.loads((tmp_path / "table.json").read_text()) == shown
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [float(row["mean"]) for row in rows[:2]] == shown["means"][0][:2]
    assert "| steep |" in (tmp_path / "table.md").read_text() and "steep & " in (tmp_path / "table.tex").read_text()


def test_all_that_is_wrong_is_said_before_anything_runs(moeopt: Moeopt, grid: Path, tmp_path: Path) -> None:
    grid.write_text(GRID.replace("lpt", "lptt"))
    run = moeopt(
        "bench", grid, "--executor", "process:2", "--pivot", "polices", "--metric", "speed", "--table", "a.txt"
    )
    assert run.code == 2 and not (tmp_path / "out").exists()
    faults = [
        "is not a method of placement. Did you mean lpt?",
        "Did you mean processes:2?",
        "is no axis of a grid",
        "is no metric of a cell",
        "a table is written as .html, .md, .csv, .tex, .json, .svg or .png",
        "results go there",
    ]
    assert [one for one in faults if one not in run.err] == []


def test_no_cell_with_a_result_is_bad_input(moeopt: Moeopt, grid: Path, tmp_path: Path) -> None:
    grid.write_text(GRID.replace("g2: {gpus: 2, slots: 8}, ", ""))
    assert moeopt("bench", grid, "-o", tmp_path / "out").code == 2


def test_a_policy_of_ones_own_is_a_row_and_its_fault_a_reason(
    moeopt: Moeopt, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_policy.py").write_text(
        "def good(instance, limits, seed):\n    print('noise')\n    return [list(range(8))] * 2\n\n\n"
        "def bad(instance, limits, seed):\n    return 1 / 0\n"
    )
    grid.write_text(GRID.replace("replan", "'own_policy:good', 'own_policy:bad'"))
    run = moeopt("bench", grid, "-o", "out", "--json")
    assert run.code == 0
    assert run.document["pivot"]["rows"]["names"][2:] == ["own_policy:good", "own_policy:bad"]
    assert run.document["pivot"]["cells"][2:] == [[2, 0], [0, 0]]
    assert any("ZeroDivisionError" in reason for reason in run.document["without_result"])


def test_the_grid_that_is_kept_is_a_grid() -> None:
    from moeopt.bench import read_grid

    assert len(read_grid(ROOT / "instances" / "policies.yaml")) == 72


def test_a_table_named_twice_is_written_once(
    moeopt: Moeopt, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = moeopt("bench", grid, "-o", "out", "-q", "--table", "t.md, t.html,./t.md")
    assert run.code == 0 and {one.name for one in tmp_path.glob("t.*")} == {"t.md", "t.html"}
