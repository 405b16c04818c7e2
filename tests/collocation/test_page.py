"""The format of a trace is as the page says: its example is read, and every key does what stands beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt.cli import main
from moeopt.workload.token_ids import read_token_ids
from moeopt.workload.token_sources import sources_within
from moeopt.workload.traces import read_trace

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str, holding: str) -> str:
    """The block of a page that has a word."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (found,) = [one for kind, one in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
                if kind == language and holding in one]  # fmt: skip
    return found


def test_the_trace_that_the_page_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks("collocation.md", "python", "np.savez"), names)
    found = read_token_ids("recorded.npz")
    assert (found.ids == names["ids"]).all() and found.ids.shape == (3, 1000, 4)
    assert found.layers == (0, 8, 16) and found.num_experts == 60
    exec("from moeopt import collocation\n" + blocks("python.md", "python", "read_token_ids"), names)
    assert names["recorded"].layers == (0, 8, 16) and names["recorded"].num_experts == 60
    assert main(["inspect", "recorded.npz", "-q"]) == 0


def test_each_key_is_what_the_page_says(tmp_path: Path) -> None:
    file = tmp_path / "recorded.npz"
    said = re.findall(r"^\| `(\w+)` \|", (DOCS / "collocation.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert said == ["topk_ids", "layers", "num_experts", "token_idx", "source"]
    ids = np.array([[[2, 0], [1, 2], [0, 1]], [[2, 1], [-1, -1], [1, 0]]])
    beside = {"num_experts": 5, "token_idx": [0, 1, 0], "source": [1, 0, 1], "scores": ids / 2, "weights": ids}
    np.savez(file, topk_ids=ids.swapaxes(0, 1), layers=[4, 9], **beside)
    found, counted = read_token_ids(file), read_trace(file)
    assert (found.ids == ids).all() and found.layers == (4, 9) and found.num_experts == 5
    assert counted.steps == 2
    told = sources_within(str(file), found)
    assert told is not None and told[0].tolist() == [1, 0, 1]
    np.savez(file, topk_ids=ids[0])
    assert read_token_ids(file).ids.shape == (1, 3, 2) and read_token_ids(file).num_experts == 3


def test_the_lines_of_the_page_are_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "recorded.jsonl"
    file.write_text(blocks("collocation.md", "", '"type": "route"'))
    found = read_token_ids(file)
    assert found.ids.tolist() == [[[17, 3, 41, 8]], [[5, 22, 9, 30]]]
    assert found.layers == (0, 8) and found.num_experts == 60
