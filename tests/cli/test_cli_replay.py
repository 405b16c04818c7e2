"""Replays on the command line: histories in, policies judged, documents and pages out."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt.workload import generate_history
from tests.cli.conftest import start

SHAPE = ("--gpus", 3, "--slots", 12)
QUICK = (*SHAPE, "--first", "lpt", "--policies", "keep,eplb")


@pytest.fixture
def windows() -> np.ndarray:
    return generate_history("walk", windows=5, layers=2, experts=8, top_k=2, tokens=500, drift=0.4).windows


@pytest.fixture
def history(tmp_path: Path, windows: np.ndarray) -> Path:
    np.savez(tmp_path / "history.npz", loads=windows)
    return tmp_path / "history.npz"


@pytest.fixture
def files(tmp_path: Path, windows: np.ndarray) -> list[Path]:
    found = [tmp_path / f"hour{number}.csv" for number in (8, 9, 10, 11, 12)]
    for file, window in zip(found, windows, strict=True):
        np.savetxt(file, window, fmt="%d", delimiter=",")
    return found


def test_generated_history_is_replayed_written_and_verified(tmp_path: Path, moeopt: Callable[..., Any]) -> None:
    file, answer = tmp_path / "h.npz", tmp_path / "r.json"
    sizes = ("--windows", 4, "--layers", 2, "--experts", 8, "--top-k", 2, "--tokens", 500, "-o", file)
    assert moeopt("generate", "shift", *sizes).code == 0
    run = moeopt("replay", file, *QUICK, "--max-moves", "10%", "-o", answer)
    assert run.code == 0 and "over the budget: up to" in run.out and "windows 1 to 3 are scored" in run.out
    assert moeopt("verify", answer, file).out == f"{answer}: ok (every plan, score, move and figure)\n"
    seen = moeopt("inspect", answer)
    assert seen.code == 0 and "4, scored from 1 to 3" in seen.out and "eplb" in seen.out
    facts = moeopt("inspect", answer, "--json").document["files"][0]
    document = json.loads(answer.read_text())
    assert [row["imbalance_mean"] for row in facts["policies"]] == [
        row["figures"]["imbalance_mean"] for row in document["policies"]
    ]
    assert document["max_moves"] == 2 and document["schema"] == "moeopt/replay-result/1"
    document["policies"][0]["figures"]["moves"] = 1
    answer.write_text(json.dumps(document))
    broken = moeopt("verify", answer, file)
    assert (broken.code, broken.out) == (5, "policy keep: moves is 1, the referee finds 0\n")


def test_files_and_an_axis_of_windows_are_one_history(
    history: Path, files: list[Path], moeopt: Callable[..., Any]
) -> None:
    one = moeopt("replay", history, *QUICK, "--json").document
    many = moeopt("replay", *files, *QUICK, "--json").document
    quoted = moeopt("replay", history.parent / "hour*.csv", *QUICK, "--json").document
    assert one["instance"]["sha256"] == many["instance"]["sha256"] == quoted["instance"]["sha256"]
    assert [window["name"] for window in quoted["windows"]] == ["hour8", "hour9", "hour10", "hour11", "hour12"]
    assert one["policies"][1]["scores"] == many["policies"][1]["scores"]


def test_order_that_a_shell_gives_is_remarked_on(files: list[Path], moeopt: Callable[..., Any]) -> None:
    run = moeopt("replay", *sorted(files), *QUICK)
    assert run.code == 0
    assert "time is taken to run as the files are given (hour10.csv, hour11.csv, ...)" in run.err
    assert "quote the pattern" not in moeopt("replay", *files, *QUICK).err


@pytest.mark.parametrize("ending", ["html", "md", "csv", "tex", "svg", "png"])
def test_every_format_is_written_and_equal_inputs_give_equal_bytes(
    ending: str, history: Path, moeopt: Callable[..., Any]
) -> None:
    written = []
    for _ in range(2):
        file = history.parent / f"replay.{ending}"
        assert moeopt("replay", history, *QUICK, "-o", file, "--force").code == 0
        written.append(file.read_bytes())
    assert written[0] == written[1] and len(written[0]) > 100


def test_slices_are_dealt_again_by_verify(tmp_path: Path, moeopt: Callable[..., Any]) -> None:
    for name, rows in (("law", [[90, 30, 20, 20], [40, 40, 40, 40]]), ("novel", [[10, 30, 20, 100], [40, 20, 50, 50]])):
        np.savetxt(tmp_path / f"{name}.csv", rows, fmt="%d", delimiter=",")
    files, answer = (tmp_path / "law.csv", tmp_path / "novel.csv"), tmp_path / "r.json"
    words = ("--slices", 3, "--seed", 5, "--gpus", 2, "--slots", 6, "--policies", "keep,lpt", "--first", "lpt")
    run = moeopt("replay", *files, *words, "-o", answer)
    assert run.code == 0
    assert run.err.count("the selections of each file are dealt at random into 3 windows, by seed 5") == 1
    assert moeopt("verify", answer, *files).code == 0
    assert moeopt("verify", answer, *reversed(files)).code == 5


def test_a_running_plan_is_the_first_placement(history: Path, moeopt: Callable[..., Any]) -> None:
    plan = history.parent / "plan.json"
    assert moeopt("place", history, *SHAPE, "--method", "lpt", "-o", plan).code == 0
    found = moeopt("replay", history, *SHAPE, "--policies", "keep,eplb", "--current", plan, "--json").document
    layers = json.loads(plan.read_text())["solution"]["layers"]
    assert found["first"] == {"method": "current", "slot_expert": [layer["slot_expert"] for layer in layers]}
    assert [replan["window"] for replan in found["policies"][1]["replans"]] == [1, 2, 3, 4]


def test_seconds_and_bytes_are_told_where_they_are_known(history: Path, moeopt: Callable[..., Any]) -> None:
    words = ("--step-time", "30ms", "--bandwidth", "1GB", "--llm", "deepseek-v3", "--steps", 100)
    run = moeopt("replay", history, *QUICK, *words, "--json")
    keep, eplb = (row["figures"] for row in run.document["policies"])
    assert eplb["moved_bytes"] == eplb["moves"] * 44_050_944
    assert eplb["stall_s"] == pytest.approx(eplb["moves"] * 44_050_944 / 1e9)
    assert keep["saved_s"] == 0.0
    missing = moeopt("replay", history, *QUICK, "--step-time", "30ms")
    assert missing.code == 2 and "--steps = missing" in missing.err
    stall = moeopt("replay", history, *QUICK, "--step-time", "30ms", "--steps", 5)
    assert stall.code == 2 and "stall_seconds (--stall) = missing" in stall.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policies", "keep,serach"), "Did you mean search?"),
        (("--max-moves", "ten"), "max_moves (--max-moves) = ten"),
        (("--lost", "1"), "--lost = 1: has no meaning in a replay"),
        (("--every", "0"), "every = 0"),
        (("--lookback", "5"), "needs more windows than the 5"),
        (("--slices", "2"), "is for files of one window"),
        (("--if-it-pays",), "are needed to say whether a move pays"),
        (("-o", "x.pdf"), "a replay is written as .html"),
    ],
)
def test_what_is_wrong_is_said(words: tuple[str, ...], said: str, history: Path, moeopt: Callable[..., Any]) -> None:
    run = moeopt("replay", history, *SHAPE, *words)
    assert run.code == 2 and said in run.err and run.out == ""


def test_one_window_is_no_history(tiny: Path, plan: Path, moeopt: Callable[..., Any]) -> None:
    assert "holds one window, and a history has several" in moeopt("replay", tiny, *SHAPE).err
    assert "is a plan, not loads" in moeopt("replay", plan, *SHAPE).err
    assert "matches no file" in moeopt("replay", "nothing*.csv", *SHAPE).err


def test_a_plug_in_is_a_policy_and_its_fault_is_a_row(
    history: Path, moeopt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def stay(instance, limits, seed):\n    return instance.current\n\n\n"
    code += "def fail(*given):\n    raise ValueError('no')\n"
    (history.parent / "theirs_replay.py").write_text(code)
    monkeypatch.chdir(history.parent)
    run = moeopt(
        "replay", history, *SHAPE, "--first", "lpt", "--policies", "keep,theirs_replay:stay,theirs_replay:fail"
    )
    assert run.code == 2
    assert "error: theirs_replay:fail: at window 2: the policy failed: ValueError: no" in run.err
    assert "theirs_replay:stay" in run.out


def test_a_policy_over_the_budget_is_a_row_and_no_error(
    history: Path, moeopt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from moeopt import placement\n\n\ndef fresh(instance, limits, seed):\n"
    code += "    return placement.solve(instance.changed(current=None, max_moves=None), method='lpt').plan\n"
    (history.parent / "ctl_replay.py").write_text(code)
    monkeypatch.chdir(history.parent)
    run = moeopt(
        "replay", history, *SHAPE, "--first", "lpt", "--policies", "keep,lpt,ctl_replay:fresh", "--max-moves", 1
    )
    assert run.code == 0 and "error" not in run.err
    assert "ctl_replay:fresh@none or ctl_replay:fresh@100% may be" in run.err
    lines = [line.split() for line in run.out.splitlines()]
    (lpt,), (fresh,) = ([line[1:] for line in lines if line[:1] == [name]] for name in ("lpt", "ctl_replay:fresh"))
    assert lpt == fresh and "best" not in fresh and "over" in fresh


@pytest.mark.parametrize("width", [100, 120])
def test_the_table_fits_a_terminal_and_folds_its_remarks(
    width: int, history: Path, moeopt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    words = ("replay", history, *QUICK, "--max-moves", 1)
    whole = moeopt(*words).out
    monkeypatch.setattr("moeopt.cli.say._console", lambda stream: Console(file=stream, width=width, markup=False))
    shown = moeopt(*words).out
    table = [line for line in shown.splitlines() if not line.startswith(("history", "first", "budget", "time"))]
    assert max(map(len, table)) <= width < max(map(len, whole.splitlines()))
    numbers = [line[:75].split() for line in whole.splitlines() if line.startswith((" keep", " eplb", " bound"))]
    assert numbers == [line[:75].split() for line in table if line.startswith((" keep", " eplb", " bound"))]


def test_conflicting_rules_are_infeasible(history: Path, moeopt: Callable[..., Any]) -> None:
    run = moeopt("replay", history, *SHAPE, "--min-replicas", 2, "--policies", "keep")
    assert run.code == 3 and "infeasible" in run.err


def test_ctrl_c_keeps_the_periods_that_were_played(tmp_path: Path) -> None:
    table = generate_history("walk", windows=30, layers=2, experts=8, top_k=2, tokens=500, drift=0.4)
    np.savez(tmp_path / "h.npz", loads=table.windows)
    waits = "import pathlib, time\n\n\ndef slow(instance, limits, seed):\n    pathlib.Path('ran').touch()\n"
    (tmp_path / "slow_policy.py").write_text(waits + "    time.sleep(0.2)\n    return instance.current\n")
    policies = "keep,slow_policy:slow"
    with start("replay", "h.npz", *SHAPE, "--first", "lpt", "--policies", policies, "--json", cwd=tmp_path) as child:
        while not (tmp_path / "ran").exists():
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    document = json.loads(out)
    assert child.returncode == 0
    assert (document["stop"], document["complete"]) == ("INTERRUPTED", False)
    assert [score["window"] for score in document["policies"][1]["scores"]] == list(range(1, document["scored"][1] + 1))
    assert "interrupted before window" in err


def test_max_moves_of_place_may_be_a_part_of_all_slots(history: Path, moeopt: Callable[..., Any]) -> None:
    plan = history.parent / "plan.json"
    first = history.parent / "first.csv"
    np.savetxt(first, np.load(history)["loads"][0], fmt="%d", delimiter=",")
    assert moeopt("place", first, *SHAPE, "--method", "contiguous", "-o", plan).code == 0
    found = moeopt(
        "place", first, *SHAPE, "--current", plan, "--max-moves", "15%", "--iterations", 1, "--json"
    ).document
    assert found["instance"]["document"]["max_moves"] == 3
    assert found["solution"]["moves"] <= 3
