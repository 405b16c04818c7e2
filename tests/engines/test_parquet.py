"""Tables in `.parquet`, where pyarrow is installed, and its name where it is not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from moeopt.engines import read_dump, what_is
from moeopt.errors import BackendUnavailable, InstanceError


def written(path: Path, columns: dict[str, Any]) -> str:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), path)
    return str(path)


def refusal(path: str) -> str:
    with pytest.raises(InstanceError) as caught:
        read_dump([path])
    return str(caught.value)


def test_missing_pyarrow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1....PAR1")
    assert what_is(str(path)) == ("plain", "parquet counts")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'moeopt\[parquet\]'"):
        read_dump([str(path)])


@pytest.mark.parametrize(
    ("columns", "loads", "layers"),
    [
        ({"layer": [3, 3, 5], "expert": [0, 1, 1], "count": [7, 2, 4]}, [[7, 2], [0, 4]], (3, 5)),
        ({"token": [0, 0, 1], "layer": [3, 3, 3], "slot": [0, 1, 0], "expert": [1, 0, 1]}, [[1, 2]], (3,)),
        ({"layer": [3, 4], "topk_ids": [[0, 2], [2, -1]]}, [[1, 0, 1], [0, 0, 1]], (3, 4)),
        ({"layer": [3, 4], "e1": [1, 2], "e0": [3, 4]}, [[3, 1], [4, 2]], (3, 4)),
        ({"a": [1, 2], "b": [3.5, 4]}, [[1, 3.5], [2, 4]], (0, 1)),
    ],
)
def test_each_form_is_read(tmp_path: Path, columns: dict[str, Any], loads: Any, layers: tuple[int, ...]) -> None:
    table = read_dump([written(tmp_path / "a.parquet", columns)]).table
    assert table.loads.tolist() == loads
    assert table.layers == layers


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"layer": [3, 3], "expert": [0, 0], "count": [7, 2]}, "the expert stands twice in the layer"),
        ({"layer": [3], "expert": ["0"], "count": [7]}, "must be numbers, not text"),
        ({"layer": [3], "expert": [None], "count": [7]}, "1 empty cells: every cell must have a number"),
        ({"layer": [3, None], "expert": [0, 1], "count": [7, 1]}, "every cell must have a number"),
        ({"layer": [3], "expert": [2**40], "count": [7]}, "ids of experts run from 0"),
        ({"layer": [3], "expert": [0], "count": [-7]}, "loads must be >= 0"),
        ({"layer": [3], "expert": [0.5]}, "must be whole numbers"),
        ({"layer": [3], "topk_ids": [3]}, "must be a list of ids"),
        ({"layer": [3]}, "has no column of an expert"),
    ],
)
def test_faults_are_named(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    assert said in refusal(written(tmp_path / "a.parquet", columns))


def test_file_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "a.parquet", {"a": list(range(100))}))
    path.write_bytes(path.read_bytes()[:-20])
    assert "is not a whole .parquet" in refusal(str(path))
