"""A map and its options are written both or not at all; bytes that no codec knows are refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from moeopt.documents import write_files
from moeopt.engines import ExpertMap, read_dump, read_source, what_is, write_map
from moeopt.errors import InstanceError, Violations

MAP = ExpertMap("plain", np.array([[0, 1, 1, 2]], np.int32), (0,), (2, 2), 3)
LLM = {"layers": 1, "dense_layers": []}


@pytest.mark.parametrize("force", [False, True])
def test_folder_where_the_options_go(force: bool, tmp_path: Path) -> None:
    target = tmp_path / "map.json"
    (tmp_path / "map.json.options.txt").mkdir()
    if force:
        target.write_text("before")
    with pytest.raises(InstanceError, match=r"map\.json\.options\.txt"):
        write_map(MAP, "vllm-ascend", target, llm=LLM, force=force)
    assert target.exists() == force
    assert not force or target.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1 + force


def test_names_that_are_too_long_for_the_options(tmp_path: Path) -> None:
    for length in (244, 245, 250, 300):
        with pytest.raises(InstanceError, match="cannot be written"):
            write_map(MAP, "vllm-ascend", tmp_path / ("a" * (length - 5) + ".json"), llm=LLM)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [False, True])
def test_what_was_written_is_taken_back(force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    if force:
        one.write_text("before")
    whole = os.fsync
    calls: list[int] = []

    def second_fails(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        whole(handle)

    monkeypatch.setattr(os, "fsync", second_fails)
    with pytest.raises(InstanceError, match="No space left"):
        write_files({str(one): "1", str(other): "2"}, force=force)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == ([("a", "before")] if force else [])
    write_files({str(one): "1", str(other): "2"}, force=force)
    assert sorted((file.name, file.read_text()) for file in tmp_path.iterdir()) == [("a", "1"), ("b", "2")]


def test_names_of_columns_that_are_no_text(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"layer": [0], "expert": [0], "count": [1]}), path)
    path.write_bytes(path.read_bytes().replace(b"expert", b"\xff\xfepert"))
    with pytest.raises(InstanceError):
        read_dump(str(path))


def test_long_texts_in_place_of_paths() -> None:
    text = '{"physical_to_logical_map": [[' + ", ".join(map(str, range(2000))) + "]]}"
    assert what_is(text) == ("sglang", "init-expert-location map")
    found = read_source(text)
    assert isinstance(found, ExpertMap)
    assert found.slot_expert.shape == (1, 2000)
    assert what_is("\x00") is None
    assert what_is("a" * 5000) is None


def test_messages_hold_nothing_that_a_terminal_obeys() -> None:
    check = Violations()
    check.add("\x1b[31m", "\ud800\x07", rule="is bad", fix="Repair")
    assert str(check.found[0]) == "\\x1b[31m = \\ud800\\x07: is bad. Repair."
