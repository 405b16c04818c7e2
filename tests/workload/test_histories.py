"""Histories that drift: sizes that are told, seeds that are kept, drifts that are what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.errors import InstanceError
from moeopt.workload import HISTORIES, LoadTable, generate_history, read_loads, sliced, write_loads

SIZES: dict[str, Any] = {"windows": 12, "layers": 3, "experts": 64, "top_k": 4, "tokens": 50_000}


def change(kind: str, **parameters: Any) -> np.ndarray:
    """Relative change of popularity from one window to the next, the mean over layers."""
    windows = generate_history(kind, **{**SIZES, **parameters}).windows.astype(float)
    return np.abs(np.diff(windows, axis=0)).sum(axis=2).mean(axis=1) / windows[0, 0].sum()


@pytest.mark.parametrize("kind", HISTORIES)
def test_every_window_has_its_tokens_and_a_seed_its_history(kind: str) -> None:
    table = generate_history(kind, **SIZES)
    assert table.windows.shape == (12, 3, 64) and table.windows.dtype == np.int64
    assert (table.windows.sum(axis=2) == 200_000).all() and table.windows.max() <= 50_000
    assert np.array_equal(table.loads, table.windows.sum(axis=0))
    assert np.array_equal(table.windows, generate_history(kind, **SIZES).windows)
    assert not np.array_equal(table.windows, generate_history(kind, **SIZES, seed=1).windows)


@pytest.mark.parametrize(
    ("kind", "still", "much"), [("walk", 0, 0.5), ("shift", 0, 1), ("hotspot", 1, 10), ("burst", 1, 20)]
)
def test_more_drift_changes_more(kind: str, still: float, much: float) -> None:
    noise, moved = change(kind, drift=still), change(kind, drift=much)
    assert noise.max() < 0.03 < moved.max()


def test_a_topic_stays_six_windows_and_bursts_pass() -> None:
    jumps = change("shift", drift=1.0, windows=13)
    assert {window for window, size in enumerate(jumps) if size > 0.1} == {5, 6, 11}
    bursts = change("burst", drift=20.0, windows=40)
    assert 0.05 < (bursts > 0.1).mean() < 0.9
    walks = generate_history("walk", **{**SIZES, "windows": 60}, drift=0.3).windows
    spread = np.log(walks + 1.0).std(axis=2).mean(axis=1)
    assert abs(spread[:10].mean() / spread[-10:].mean() - 1) < 0.2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"windows": 0}, "windows = 0"),
        ({"top_k": 65}, "at most experts = 64"),
        ({"sigma": -1}, "sigma = -1"),
        ({"drift": 2.0}, "from 0 to sigma"),
        ({"windows": 10**8}, "windows \\* layers \\* experts"),
        ({"kind": "wlak"}, "Known are walk, shift, hotspot, burst"),
    ],
)
def test_what_is_out_of_range_is_named(arguments: dict[str, Any], words: str) -> None:
    arguments = {"kind": "walk", **SIZES, **arguments}
    with pytest.raises(InstanceError, match=words):
        generate_history(arguments.pop("kind"), **arguments)


@pytest.mark.parametrize("ending", ["npz", "npy", "json"])
def test_windows_are_written_and_read_back(tmp_path: Path, ending: str) -> None:
    table = generate_history("burst", **SIZES)
    write_loads(tmp_path / f"history.{ending}", table)
    assert np.array_equal(read_loads(tmp_path / f"history.{ending}").windows, table.windows)


def test_csv_holds_no_windows(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="holds one window, and these are 12"):
        write_loads(tmp_path / "history.csv", generate_history("burst", **SIZES))


def test_windows_in_json_are_those_of_an_array_with_all_beside_them(tmp_path: Path) -> None:
    file = tmp_path / "windows.json"
    file.write_text('{"loads": [[[1, 2], [3, 4]], [[5, 6], [7, 8.5]]], "layers": [3, 9], "steps": [2, 5]}')
    table = read_loads(file)
    assert table.windows.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8.5]]] and table.loads[1, 1] == 12.5
    assert table.layers == (3, 9) and table.steps == (2, 5)
    assert "an array of three axes, (2, 2, 2), is taken as windows x layers x experts" in table.notes
    file.write_text("[[[1, 2], [3, 4]]]")
    np.save(tmp_path / "windows.npy", np.array([[[1, 2], [3, 4]]]))
    assert read_loads(file).windows.tolist() == read_loads(tmp_path / "windows.npy").windows.tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[[1, 2]], [[3, -4]]]", r"loads\[window 1, layer 0, expert 1\] = -4"),
        ("[[[1, 2]], [3, 4]]", r"loads\[window 1\] = \.\.\.: must be rows of numbers, as the first window is"),
        ("[[[1, 2]], 5]", r"loads\[window 1\] = 5: must be rows of numbers"),
        ("[[[1, 2]], [[3, 4], [5, 6]]]", r"loads\[window 1\] = 2 layers of 2 experts: every window must have"),
        ("[[[1, 2], [3]]]", r"loads\[window 0, layer 1\] = 1 experts: every layer must have as many"),
        ("[[[[1]]]]", r"loads\[window 0\]"),
        ("[[[]]]", "none empty"),
    ],
)
def test_windows_in_json_that_are_none_are_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InstanceError, match=said):
        read_loads(tmp_path / "bad.json")


@given(st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=1, max_size=3), st.integers(1, 5))
def test_slices_deal_every_selection_once(rows: list[list[int]], parts: int) -> None:
    table = LoadTable(np.array(rows), tuple(range(len(rows))))
    cut = sliced(table, parts, seed=1)
    assert np.array_equal(cut.windows.sum(axis=0), table.loads) and (cut.windows >= 0).all()
    sums = cut.windows.sum(axis=2)
    assert (sums.max(axis=0) - sums.min(axis=0) <= 1).all()
    assert np.array_equal(cut.windows, sliced(table, parts, seed=1).windows)


def test_slices_of_weights_and_of_windows_are_refused() -> None:
    with pytest.raises(InstanceError, match="needs whole selections"):
        sliced(LoadTable(np.array([[0.5, 1.0]]), (0,)), 2)
    with pytest.raises(InstanceError, match="is for files of one window"):
        sliced(generate_history("walk", **SIZES), 2)
