"""Readers take every known form exactly, and name file, place, value, rule and next step of every fault."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from moeopt.errors import InstanceError
from moeopt.workload import LoadTable, read_loads


def file_with(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_text(tmp_path: Path, text: str | bytes, name: str = "loads.csv") -> LoadTable:
    return read_loads(file_with(tmp_path, name, text))


def refusal(path: str | Path, key: str | None = None) -> str:
    """The message, after checking that each of its lines begins with the name of the file as given."""
    with pytest.raises(InstanceError) as caught:
        read_loads(path, key=key)
    assert caught.value.source in str(path)
    assert all(line.startswith(f"{caught.value.source}: ") for line in str(caught.value).splitlines())
    return str(caught.value)


def refused_text(tmp_path: Path, text: str | bytes, name: str = "loads.csv") -> str:
    return refusal(file_with(tmp_path, name, text))


def npy(array: object, *, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array), allow_pickle=allow_pickle)
    return file.getvalue()


def npz(**arrays: object) -> bytes:
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(array) for name, array in arrays.items()})
    return file.getvalue()


# --- CSV ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_csv_matrix_is_read_whatever_the_delimiter_line_end_and_mark(
    tmp_path: Path, mark: str, end: str, bom: str
) -> None:
    text = bom + f'1{mark}"2"{mark} 3{end}4{mark}5{mark}6{end}{end}  {end}'
    table = read_text(tmp_path, text)
    assert table.loads.dtype == np.int64 and table.loads.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert table.layers == (0, 1) and table.names is None and table.notes == ()


def test_csv_long_form_with_mark_and_crlf_is_read(tmp_path: Path) -> None:
    table = read_text(tmp_path, b"\xef\xbb\xbflayer_id,expert_id,count\r\n0,0,10\r\n0,1,30\r\n")
    assert table.loads.tolist() == [[10, 30]] and table.layers == (0,) and table.notes == ()


def test_csv_long_form_fills_missing_pairs_with_zero_and_says_how_many(tmp_path: Path) -> None:
    table = read_text(tmp_path, "Expert;LOAD;Layer\n2;1.5;7\n0;4;3\n")
    assert table.loads.tolist() == [[4, 0, 0], [0, 0, 1.5]] and table.layers == (3, 7)
    assert table.notes == ("4 of 6 (layer, expert) pairs are not in the file and count as 0",)


def test_csv_wide_form_takes_names_and_layer_ids_from_its_header(tmp_path: Path) -> None:
    table = read_text(tmp_path, "layer_id,maths,law\n5,1,2\n3,3,4\n")
    assert table.layers == (5, 3) and table.names == ("maths", "law") and table.loads.tolist() == [[1, 2], [3, 4]]
    assert read_text(tmp_path, "maths,law\n1,2\n").names == ("maths", "law")


def test_csv_wide_form_takes_expert_ids(tmp_path: Path) -> None:
    table = read_text(tmp_path, "layer,0,1,2\n5,1,2,3\n")
    assert table.names is None and table.layers == (5,) and table.loads.tolist() == [[1, 2, 3]]


def test_csv_numbers_stay_as_exact_as_they_are_written(tmp_path: Path) -> None:
    assert read_text(tmp_path, f"{2**63 - 1},{2**53 + 1}\n").loads.tolist() == [[2**63 - 1, 2**53 + 1]]
    table = read_text(tmp_path, "1e3,10.0,.5,+7\n")
    assert table.loads.dtype == np.float64 and table.loads.tolist() == [[1000.0, 10.0, 0.5, 7.0]]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1,2\n3,NaN\n", ["layer 1, expert 1, line 2", "nan", "finite"]),
        ("1,-2\n", ["layer 0, expert 1, line 1", "-2", ">= 0"]),
        ("1,x\n2,\n", ["expert 1, line 1] = x", "layer 1, expert 1, line 2] = ''", "must be numbers"]),
        ("1,True\n", ["expert 1, line 1] = True: loads must be numbers"]),
        ("1,1_000\n", ["1_000"]),
        ("1,٣\n", ["٣"]),
        ("1,1e999\n", ["inf", "finite"]),
        (f"1,{2**63}\n", ["below 2**63", "line 1"]),
        (f"0.5,{2**60 + 1}\n", ["expert 1, line 1", "a double"]),
        ("1;2,5\n", ["2,5", "Write decimals with a point"]),
        ("1,2\n3\n4,5,6\n", ["layer 1, line 2] = 1 experts", "first one, 2", "layer 2, line 3] = 3 experts"]),
        ("1,2\n\n3,4\n", ["line 2", "blank lines may stand at the end only"]),
        ("a,b\n", ["a header alone", "empty"]),
        ("a,a\n1,2\n", ["names[expert 1] = a", "twice"]),
        ("a,b\n1,2,3\n", ["3 cells", "as many as the header has experts, 2"]),
        (",0,1\nx,5,6\n", ["the first cell is empty", "layer"]),
        ("layer,a\n1,5\n1,6\n", ["layers[index 1] = 1", "twice"]),
        ("layer,a\n1.5,x\n", ["layers[line 2] = 1.5", "whole numbers", "line 2] = x"]),
        ("layer,a,count\n0,5,6\n", ["a", "needs a column expert or expert_id"]),
        ("expert,count\n0,5\n", ["needs a column layer or layer_id"]),
        ("step,layer,expert,count\n0,0,0,1\n", ["step", "Sum the counts over the steps"]),
        ("layer,expert,count,gpu\n0,0,1,1\n", ["gpu", "not a known column"]),
        ("layer,expert,count,load\n0,0,1,1\n", ["load", "second column"]),
        ("layer,expert,count\n0,1,5\n0,0,1\n0,1,6\n", ["layer 0, expert 1, line 4] = 6", "on line 2 already"]),
        ("layer,expert,count\n-1,0,5\n0,a,5\n0,0\n", ["layer[line 2] = -1", "expert[line 3] = a", "line 4] = 2 cells"]),
        (
            "layer,expert,count\n0,0,nan\n2,1,-5\n",
            ["layer 0, expert 0, line 2] = nan", "layer 2, expert 1, line 3] = -5"],
        ),
        ("layer,expert,count\n0,123456789012,1\n", ["expert[line 2]", "cells"]),
        ('1,"2\n3', ["broken CSV", "line 2"]),
        ("", ["empty"]),
        (" \r\n\n", ["empty"]),
        (b"1,2\n3,\xff\n", ["line 2", "not UTF-8"]),
    ],
)
def test_csv_fault_is_named_with_its_line(tmp_path: Path, text: str | bytes, parts: list[str]) -> None:
    message = refused_text(tmp_path, text)
    assert all(part in message for part in parts), message


# --- JSON -----------------------------------------------------------------------------------------------------------


def test_json_rows_one_row_and_objects_are_read(tmp_path: Path) -> None:
    assert read_text(tmp_path, "[[1, 2], [3, 4]]", "a.json").loads.tolist() == [[1, 2], [3, 4]]
    assert read_text(tmp_path, "\ufeff[1, 2.5]", "b.json").loads.tolist() == [[1, 2.5]]
    text = json.dumps({"logical_count": [[1, 2]], "layers": [3], "steps": 8, "names": ["a", "b"]})
    table = read_text(tmp_path, text, "c.json")
    assert (table.layers, table.steps, table.names) == ((3,), 8, ("a", "b"))
    assert table.source == str(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('{"logical_count": [[1, 2, 3', ["line 1, column", "cut short"]),
        ("", ["empty"]),
        ("[[5.0, NaN, 3.0, -Infinity]]", ["layer 0, expert 1] = nan", "layer 0, expert 3] = -inf"]),
        ('[[5.0, "NaN"]]', ["layer 0, expert 1] = 'NaN'", "must be numbers"]),
        ("[[1, true], [null, 2]]", ["layer 0, expert 1] = True", "layer 1, expert 0] = None"]),
        ('{"loads": [[1, -2]], "layers": [7]}', ["layer 7, expert 1] = -2"]),
        ("[[1, 2, 3], [4]]", ["layer 1] = 1 experts", "3"]),
        ("[[[[1, 2]]]]", ["window 0] = shape (1, 1, 2)", "must have two axes"]),
        ("[]", ["none empty"]),
        ("7", ["rows of numbers"]),
        ('{"loads": 7}', ["loads = 7", "rows of numbers"]),
        ('{"layers": [1]}', ["loads = absent"]),
        ('{"loads": [[1]], "logical_count": [[1]]}', ["not both"]),
        ('{"loads": [[-1]], "weights": 3, "steps": 0}', ["weights = 3", "steps = 0", "expert 0] = -1"]),
        ('{"loads": [[1]], "layers": [0, 1], "names": ["a", "b"]}', ["layers = 2 ids", "names = 2 names"]),
        ('{"loads": [[1, 2]], "names": ["e1", "e1"], "layers": 3}', ["expert 1] = e1", "twice", "layers = 3"]),
        ('{"loads": [[1, 2]], "names": ["", 5], "layers": [-1]}', ["expert 0", "expert 1] = 5", "index 0] = -1"]),
        ('{"schema": "moeopt/placement-instance/1", "loads": [[1]]}', ["`moeopt place` takes this file directly"]),
        ('{"schema": "moeopt/plan/1"}', ["another kind of document"]),
    ],
)
def test_json_fault_is_named_with_its_place(tmp_path: Path, text: str, parts: list[str]) -> None:
    message = refused_text(tmp_path, text, "loads.json")
    assert all(part in message for part in parts), message


def test_one_message_has_all_violations_of_a_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, "x.json", json.dumps([[-1] * 30] * 2))
    with pytest.raises(InstanceError) as caught:
        read_loads(path)
    assert len(caught.value.violations) == 60


# --- numpy ----------------------------------------------------------------------------------------------------------


def test_npy_is_read_without_wrapping_narrow_counts(tmp_path: Path) -> None:
    table = read_text(tmp_path, npy(np.full((1, 4), 2_000_000_000, dtype=np.int32)), "a.npy")
    assert table.loads.dtype == np.int64 and table.loads.sum() == 8_000_000_000
    assert read_text(tmp_path, npy(np.asfortranarray([[1.5, 2], [3, 4]])), "b.npy").loads.tolist() == [[1.5, 2], [3, 4]]


def test_npz_with_one_array_needs_no_key_and_with_loads_takes_it(tmp_path: Path) -> None:
    assert read_text(tmp_path, npz(anything=[[1, 2]]), "a.npz").loads.tolist() == [[1, 2]]
    table = read_text(tmp_path, npz(loads=[[1, 2]], layers=[4], steps=9, names=["a", "b"], more=[1]), "b.npz")
    assert (table.layers, table.steps, table.names) == ((4,), 9, ("a", "b"))
    assert table.notes == ("more in the same file not read",)


def test_npz_with_several_arrays_takes_the_key_from_either_place(tmp_path: Path) -> None:
    path = file_with(tmp_path, "many.npz", npz(law=[[1, 2]], **{"a:b": [[3, 4]]}, layers=[6]))
    assert read_loads(f"{path}:law").loads.tolist() == [[1, 2]]
    assert read_loads(path, key="a:b").loads.tolist() == read_loads(f"{path}:a:b").loads.tolist() == [[3, 4]]
    assert read_loads(f"{path}:law").layers == (6,)
    assert read_loads(f"{path}:law").source == f"{path}:law"


def test_npz_without_the_needed_key_lists_keys_and_shapes(tmp_path: Path) -> None:
    path = file_with(tmp_path, "many.npz", npz(law=np.ones((2, 4)), maths=np.ones((3, 8))))
    for message in (refusal(path), refusal(f"{path}:lore"), refusal(f"{path}:")):
        assert "law (2, 4), maths (3, 8)" in message
    with pytest.raises(InstanceError, match="the name of the file says 'law'"):
        read_loads(f"{path}:law", key="maths")


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz_of_scipy_sparse_is_read_as_a_matrix(tmp_path: Path, form: str) -> None:
    matrix = sparse.coo_matrix(np.array([[0, 2_000_000_000, 0], [3, 0, 0]], dtype=np.int32)).asformat(form)
    sparse.save_npz(tmp_path / "s.npz", matrix)
    table = read_loads(tmp_path / "s.npz")
    assert table.loads.dtype == np.int64 and table.loads.tolist() == [[0, 2_000_000_000, 0], [3, 0, 0]]
    assert "sparse" in table.notes[0]


def test_npz_of_scipy_sparse_with_indices_beyond_its_shape_is_refused(tmp_path: Path) -> None:
    broken = npz(format=b"csr", shape=[1, 2], data=[1.0], indices=[900_000_000], indptr=[0, 1])
    assert "not a whole sparse matrix" in refused_text(tmp_path, broken, "s.npz")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["empty"]),
        (b"\x93NUMPY", ["not a whole .npy array"]),
        (npy([[1, 2], [3, 4]])[:-3], ["not a whole .npy array", "cut short"]),
        (npy([[1, 2]]) + npy([[3, 4]]), ["follow the end of the array"]),
        (npy(np.array([[1, {}]], dtype=object), allow_pickle=True), ["Python objects", "not read"]),
        (npy([[1.0, np.nan]]), ["layer 0, expert 1] = nan"]),
        (npy([[1, -5]]), ["layer 0, expert 1] = -5"]),
        (npy([[True, False]]), ["expert 0] = True", "must be numbers"]),
        (npy([["1", "2"]]), ["expert 0] = 1", "must be numbers"]),
        (npy([[1j]]), ["must be numbers"]),
        (npy(np.ones((2, 1, 1, 3))), ["shape (2, 1, 1, 3)", "must have two axes"]),
        (npy(np.full((2, 1, 3), np.nan)), ["window 1, layer 0, expert 2] = nan"]),
        (npy(np.ones((0, 3))), ["none empty"]),
        (npy(np.array([[2**63, 1]], dtype=np.uint64)), ["expert 0] = 9223372036854775808", "below 2**63"]),
        (npy(np.ones((2, 4))).replace(b"(2, 4)", b"(9**9)"), ["not a whole .npy array"]),
        (b"\x80\x04K\x01.", ["not a whole .npy array"]),
    ],
)
def test_npy_fault_is_named(tmp_path: Path, content: bytes, parts: list[str]) -> None:
    message = refused_text(tmp_path, content, "loads.npy")
    assert all(part in message for part in parts), message


def zipped(members: list[tuple[str, bytes]]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["empty"]),
        (npz(loads=[[1, 2]])[:40], ["not a whole .npz archive"]),
        (npz(loads=[[1, 2]])[:-30], ["not a whole .npz archive"]),
        (npy([[1, 2]]), ["not a whole .npz archive"]),
        (npz(loads=[[12345, 2]]).replace(b"\x39\x30", b"\x38\x30"), ["CRC"]),
        (npz(), ["no table"]),
        (npz(layers=[1]), ["no table"]),
        (zipped([("data.pkl", b"\x80\x04K\x01.")]), ["data.pkl", "is not an array"]),
        (zipped([("loads.npy", npy(np.array([[{}]], dtype=object), allow_pickle=True))]), ["loads", "Python objects"]),
        (zipped([("loads.npy", npy([[1, 2]])[:-1])]), ["loads", "not a whole .npy array"]),
        (
            npz(loads=[[1, 2]], layers=[0.5], steps=[1, 2], names=[1, 2]),
            ["layers[index 0]", "steps", "names[expert 0]"],
        ),
    ],
)
def test_npz_fault_is_named(tmp_path: Path, content: bytes, parts: list[str]) -> None:
    message = refused_text(tmp_path, content, "loads.npz")
    assert all(part in message for part in parts), message


def test_npz_that_would_unpack_to_gigabytes_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moeopt.workload.numpy_loads.UNPACKED_BYTES_MAX", 1000)
    bomb = zipped([("loads.npy", bytes(100_000))])
    assert len(bomb) < 1000
    assert "would unpack to more than" in refused_text(tmp_path, bomb, "loads.npz")


# --- which file -----------------------------------------------------------------------------------------------------


def test_missing_file_and_folder_are_refused_by_name(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.csv")
    assert "directory" in refusal(tmp_path)
    (tmp_path / "folder.json").mkdir()
    assert "directory" in refusal(tmp_path / "folder.json")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("loads.xlsx", [".xlsx", ".json, .npz, .npy, .csv, .tsv, .txt"]),
        ("loads", ["no ending", ".json, .npz, .npy, .csv"]),
        ("loads.pt", [".pt", "moeopt.engines.read_dump", "numpy.savez"]),
        ("loads.parquet", [".parquet", "moeopt.engines.read_dump"]),
    ],
)
def test_unknown_ending_is_refused_with_the_known_ones_or_the_way_to_convert(
    tmp_path: Path, name: str, parts: list[str]
) -> None:
    message = refused_text(tmp_path, "1,2", name)
    assert all(part in message for part in parts), message


def test_key_is_refused_where_there_is_nothing_to_choose(tmp_path: Path) -> None:
    path = file_with(tmp_path, "loads.csv", "1,2")
    assert "only an .npz file" in refusal(f"{path}:law")
    assert "only an .npz file" in refusal(path, key="law")


def test_file_whose_name_has_a_colon_is_read_by_its_name(tmp_path: Path) -> None:
    assert read_text(tmp_path, "1,2", "run.csv:old.CSV").loads.tolist() == [[1, 2]]


@pytest.mark.parametrize("text", ["[[1, 2]]", ' \n{"loads": [[1, 2]]}', "1,2\n", "\ufeff[[1, 2]]"])
def test_standard_input_is_json_or_csv_by_its_first_sign(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    table = read_loads("-")
    assert table.loads.tolist() == [[1, 2]] and table.source == "-"


def test_standard_input_that_is_empty_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert "empty" in refusal("-")
