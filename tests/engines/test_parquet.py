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
        ({"token": [0], "layer": [3], "expert": [0.5]}, "must be whole numbers"),
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


@pytest.mark.parametrize("beside", [{}, {"layer": [3, 7]}])
@pytest.mark.parametrize("prefix", ["", "expert_", "E "])
def test_numbered_columns_go_by_their_numbers(tmp_path: Path, beside: dict[str, Any], prefix: str) -> None:
    columns = beside | {f"{prefix}{expert}": [100 + expert, 900 - expert] for expert in range(256)}
    table = read_dump([written(tmp_path / "a.parquet", columns)]).table
    assert table.loads.tolist() == [[100 + expert for expert in range(256)], [900 - expert for expert in range(256)]]
    shuffled = dict(sorted(columns.items()))  # as text: 0, 1, 10, 100, ...
    table = read_dump([written(tmp_path / "b.parquet", shuffled)]).table
    assert table.loads[0].tolist() == [100 + expert for expert in range(256)]
    assert "the columns were put in the order of the expert ids in their names" in table.notes


ROWS = [
    {"layer": [3, 4], "e0": [1, 2], "e1": [3, 4], "total": [4, 6]},
    {"layer": [3, 4], "e0": [1, 2], "e2": [3, 4]},
    {"layer": [3, 4], "1": [1, 2], "2": [3, 4]},
    {"layer": [3, 4], "e0": [1, 2], "e00": [3, 4]},
    {"layer": [3, 4], "e0": [1, 2], "e1": [3, 4], "qps": [4, 6]},
    {"a": [1, 2, 4], "b": [3, 4, 4], "c": [4, 6, 8]},
    {"layer": [3, 4], "maths": [1, 2], "law": [3, 4], "7": [3, 4]},
    {"layer": [3, 3], "expert": [0, 1], "num_tokens": [7, 2]},
    {"layer": [3, 3], "expert": [0, 1], "weight": [0.5, 0.5]},
    {"step": [0, 0], "layer_id": [3, 3], "expert_id": [0, 1], "num_tokens": [7, 2]},
    {"step": [0, 0], "layer_id": [3, 3], "expert_id": [0, 1], "load": [7, 2]},
    {"layer": [3, 3], "layer_id": [3, 3], "expert": [0, 1], "count": [7, 2]},
    {"layer": [3, 3], "expert": [0, -1], "count": [7, 2]},
    {"layer": [3, 3], "expert": [0, 1]},
    {"expert": [0, 1], "count": [7, 2]},
]


@pytest.mark.parametrize("columns", ROWS)
def test_what_csv_refuses_is_refused_with_the_same_words(tmp_path: Path, columns: dict[str, Any]) -> None:
    from moeopt.workload import read_loads

    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    text = tmp_path / "a.csv"
    text.write_text("\n".join(",".join(map(str, row)) for row in rows))
    with pytest.raises(InstanceError) as csv:
        read_loads(text)
    with pytest.raises(InstanceError) as parquet:
        read_dump([written(tmp_path / "a.parquet", columns)])
    mine, other = ([(one.value, one.rule) for one in caught.value.violations] for caught in (parquet, csv))
    if columns.get("expert") != [0, -1]:
        assert mine == other
    else:
        assert "-1 of layer 3" in mine[0]


@pytest.mark.parametrize("name", ["count", "load", "tokens", "loads"])
def test_counts_are_known_by_the_names_that_csv_knows(tmp_path: Path, name: str) -> None:
    columns = {"layer_id": [3, 3, 5], "expert_id": [1, 0, 1], name: [7, 2, 4]}
    found = read_dump(written(tmp_path / "a.parquet", columns))
    assert found.table.loads.tolist() == [[2, 7], [0, 4]] and found.form == "parquet counts"
    assert "1 of 4 (layer, expert) pairs are not in the file and count as 0" in found.notes


@pytest.mark.parametrize("ids", [{"expert": [0, 1]}, {"topk_ids": [[0], [1]]}])
def test_trace_refuses_numbers_that_may_be_counts_and_names_what_it_leaves_aside(
    tmp_path: Path, ids: dict[str, Any]
) -> None:
    columns = {"token": [0, 1], "layer": [3, 3], "weight": [0.5, 0.5], "phase": ["decode", "decode"], **ids}
    found = read_dump(written(tmp_path / "a.parquet", columns))
    assert found.form == "parquet trace" and found.table.loads.tolist() == [[1, 1]]
    assert "columns token, weight, phase left aside" in found.notes
    for name in ("num_tokens", "hits"):
        assert f"columns = {name}: is not a known column of a trace" in refusal(
            written(tmp_path / "b.parquet", columns | {name: [7, 2]})
        )


def test_single_path_is_taken_as_one(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "a.parquet", {"layer": [3], "expert": [0], "count": [7]}))
    assert read_dump(path).table.loads.tolist() == read_dump([path]).table.loads.tolist() == [[7]]
    with pytest.raises(InstanceError, match="does not exist"):
        read_dump("no.parquet")


def test_experts_that_are_known_are_those_of_the_table(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", {"token": [0, 1], "layer": [3, 3], "expert": [0, 2]})
    assert read_dump(path, experts=5).table.loads.tolist() == [[1, 0, 1, 0, 0]]
    with pytest.raises(InstanceError, match="expert = 2: ids of experts run from 0 to 1"):
        read_dump(path, experts=2)


def test_row_index_of_pandas_is_layer_ids_or_left_aside_with_a_note(tmp_path: Path) -> None:
    index = {"__index_level_0__": [3, 5]}
    wide = read_dump(written(tmp_path / "a.parquet", {"e0": [1, 2], "e1": [3, 4], **index})).table
    assert wide.layers == (3, 5) and "the column without a name was read as layer ids" in wide.notes
    long = {"layer": [3, 4], "expert": [0, 0], "count": [1, 2], **index}
    assert "left aside as a row index" in read_dump(written(tmp_path / "b.parquet", long)).notes[0]
    twice = {"e0": [1, 2], "e1": [3, 4], "__index_level_0__": [3, 3]}
    assert "does not hold a layer id of its own" in refusal(written(tmp_path / "c.parquet", twice))


def test_files_one_behind_the_other_are_refused(tmp_path: Path) -> None:
    one, other = (
        Path(written(tmp_path / f"{number}.parquet", {"layer": [3], "e0": [number], "e1": [2]})) for number in (1, 2)
    )
    one.write_bytes(one.read_bytes() + other.read_bytes())
    assert "holds several files one behind the other" in refusal(str(one))
