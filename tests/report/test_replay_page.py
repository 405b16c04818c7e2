"""The page of a replay: whole by itself, the same numbers in every format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from moeopt.errors import InstanceError
from moeopt.placement import PlacementInstance
from moeopt.replay import Prices, Replay, replay
from moeopt.report.block import Header
from moeopt.report.replay_file import FORMATS, write_replay
from moeopt.workload import generate_history
from tests.report.page_check import Page


@pytest.fixture(scope="module")
def played() -> Replay:
    table = generate_history("burst", windows=6, layers=2, experts=8, top_k=2, tokens=500)
    history = PlacementInstance(table.windows, gpus=3, slots=12, steps=10, expert_bytes=44e6, name="<six> windows")
    prices = Prices(step_seconds=0.03, stall_seconds=2.0)
    return replay(history, ["keep", "eplb", "lpt@none"], first="lpt", max_moves=2, prices=prices)


def test_page_is_whole_by_itself_and_says_who_is_best(played: Replay) -> None:
    text = FORMATS[".html"](played, Header("moeopt replay h.npz"))
    assert isinstance(text, str)
    page = Page(text)
    assert page.faults == [] and not any(tag in ("img", "link") for tag, _ in page.tags)
    assert [dict(given) for tag, given in page.tags if tag == "script"] == [{}]  # what sorts tables, from nowhere else
    said = " ".join(page.text)
    assert "<six> windows" in said and "over the budget: up to " in said and "windows 1 to 5 are scored" in said
    assert len(text) < 200_000


def test_formats_have_the_same_numbers(played: Replay) -> None:
    header = Header()
    texts = {ending: str(FORMATS[ending](played, header)) for ending in (".html", ".md", ".tex")}
    for row in played.rows:
        assert row.figures is not None
        for text in texts.values():
            assert f"{row.figures.imbalance_mean:.4f}" in text
    rows = list(csv.DictReader(io.StringIO(str(FORMATS[".csv"](played, header)))))
    assert len(rows) == 3 * 5
    for row, score in zip(rows, [score for one in played.rows for score in one.scores], strict=True):
        assert float(row["imbalance_mean"]) == score.imbalance_mean and int(row["window"]) == score.window
    moved = sum(int(row["moves"] or 0) for row in rows if row["policy"] == "eplb")
    assert moved == played.rows[1].figures.moves  # type: ignore[union-attr]
    assert json.loads(str(FORMATS[".json"](played, header)))["best"] == played.best


def test_a_replay_without_moves_and_with_one_window_is_drawn() -> None:
    history = PlacementInstance([[[3, 1]], [[1, 3]]], gpus=2, slots=2)
    for ending in (".svg", ".png", ".html"):
        assert FORMATS[ending](replay(history, ["keep"], first="lpt"), Header())


def test_an_unknown_ending_is_refused(played: Replay, tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="no format of a replay"):
        write_replay(tmp_path / "x.pdf", played)
    write_replay(tmp_path / "x.svg", played)
    assert (tmp_path / "x.svg").read_text().count("<svg") == 1
