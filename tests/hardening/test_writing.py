"""Disks that fill up, folders that cannot be written and processes that are killed: whole files or none, and words."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moeopt.bench import read_cells, read_grid, run_grid
from moeopt.bench.folder import TIMES
from moeopt.documents import TEMPORARY, write_file, write_files
from tests.fuzz.kinds import GRID, run
from tests.hardening.verbs import CALLS, prepare

WRITERS = [name for name, line in CALLS.items() if " -o " in line]
SLOW = ("compare", "mesh", "replay")
"""What writes by the same call as others do, and takes longest."""


def killed(call: Callable[[], object]) -> None:
    """Run a call in a forked child that is killed when what it writes should come to the disk."""
    child = os.fork()
    if child == 0:
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        try:
            call()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOEOPT_INTERPRET", "1")
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    return tmp_path


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_verbs_say_that_nothing_could_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    assert run(*CALLS["place"].split())[0] == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    opened = os.open

    def fails(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    def opens(path: Any, *rest: Any, **named: Any) -> int:
        return fails() or 0 if TEMPORARY in str(path) else opened(path, *rest, **named)

    if error == errno.EROFS:  # shows at once, and a full disk when bytes come to it
        monkeypatch.setattr(os, "open", opens)
    else:
        monkeypatch.setattr(os, "fsync", fails)
    for name in WRITERS:
        if name.split()[0] in SLOW and (error != errno.ENOSPC or name not in SLOW):
            continue
        line = f"{CALLS[name]} --force" if name not in ("bench",) else CALLS[name]
        code, said = run(*line.split())
        assert code == 2 and "cannot be written" in said and os.strerror(error) in said, (name, said)
        assert "Traceback" not in said and "fault of moeopt" not in said
        made = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert made == before, name


def test_a_kill_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("old")
    killed(lambda: write_file(old, "new", force=True))
    killed(lambda: write_file(new, "new"))
    killed(lambda: write_files({old: "new", new: "new"}, force=True))  # type: ignore[dict-item]
    left = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(TEMPORARY))
    assert left == ["old.json"] and old.read_text() == "old"


def test_what_a_kill_leaves_in_the_folder_of_a_grid_is_gone_after_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(GRID.replace("seeds: [0]", "seeds: [0, 1]"))
    grid, cells, whole = read_grid(tmp_path / "grid.yaml"), tmp_path / "cells", tmp_path / "whole"
    killed(lambda: run_grid(grid, cells))
    assert [path.name.startswith(TEMPORARY) for path in cells.iterdir()] == [True]
    (cells / ".mine").write_text("kept")
    run_grid(grid, cells)
    run_grid(grid, whole)
    names = {path.name for path in whole.iterdir()}
    assert {path.name for path in cells.iterdir()} == names | {".mine"}
    assert all((cells / name).read_bytes() == (whole / name).read_bytes() for name in names if name != TIMES)


def test_a_line_of_seconds_that_was_cut_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(GRID.replace("seeds: [0]", "seeds: [0, 1]"))
    grid, cells = read_grid(tmp_path / "grid.yaml"), tmp_path / "cells"
    run_grid(grid, cells)
    lines = (cells / TIMES).read_text().splitlines()
    odd = [
        "[" * 100_000,
        '{"fingerprint": "x", "runtime_s": 1' + "0" * 400 + "}",
        '{"fingerprint": [], "runtime_s": 1}',
        "7",
    ]
    (cells / TIMES).write_text("\n".join([*odd, lines[0], lines[1][:20]]))
    next(path for path in cells.glob("*.json") if lines[1].split('"')[3] in path.read_text()).unlink()
    run_grid(grid, cells)
    assert all(one["runtime_s"] is not None for one in read_cells(cells, grid.cells()))


@pytest.mark.parametrize(
    "damage",
    [
        {"cell": 3},
        {"cell": {}},
        {"cell": {"policy": [], "shape": "g2", "loads": "steep", "seed": 0}},
        {"imbalance_mean": "1"},
        {"gap": [1]},
        {"objective": 10**400},
        {"imbalance_worst": True},
    ],
)
def test_a_result_that_somebody_edited_is_made_again(tmp_path: Path, damage: dict[str, object]) -> None:
    """A table of such results ended in a traceback."""
    import json

    (tmp_path / "grid.yaml").write_text(GRID)
    grid, cells = read_grid(tmp_path / "grid.yaml"), tmp_path / "cells"
    run_grid(grid, cells)
    (file,) = cells.glob("*.json")
    good = file.read_bytes()
    file.write_text(json.dumps({**json.loads(good), **damage}))
    assert read_cells(cells) == [] and run_grid(grid, cells).ran == 1 and file.read_bytes() == good
