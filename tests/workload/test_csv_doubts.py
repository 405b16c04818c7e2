"""A CSV table that can be read in two ways is refused with both next steps, or read with a note."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from moeopt.errors import InstanceError
from moeopt.workload import LoadTable, read_loads, write_loads


def read(tmp_path: Path, text: str, name: str = "loads.csv") -> LoadTable:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_loads(path)


def refused(tmp_path: Path, text: str, name: str = "loads.csv") -> str:
    with pytest.raises(InstanceError) as caught:
        read(tmp_path, text, name)
    return str(caught.value)


# --- numbers in the names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["expert_1,expert_0", "e1,e0", "Expert 1,expert 0", "1,0", "e01,e00"])
def test_numbers_in_names_are_expert_ids_whatever_the_order_of_columns(tmp_path: Path, header: str) -> None:
    table = read(tmp_path, f"layer,{header}\n0,10,20\n4,30,40\n")
    assert table.loads.tolist() == [[20, 10], [40, 30]] and table.layers == (0, 4)
    assert table.notes == ("the columns were put in the order of the expert ids in the header",)
    names = tuple(reversed(header.split(",")))
    assert table.names == (None if header == "1,0" else names)


def test_numbered_names_in_order_and_names_without_numbers_keep_the_order_of_the_file(tmp_path: Path) -> None:
    table = read(tmp_path, "expert_0,expert_1\n10,20\n")
    assert table.loads.tolist() == [[10, 20]] and table.notes == () and table.names == ("expert_0", "expert_1")
    table = read(tmp_path, "layer,maths,law,a1\n0,10,20,5\n")
    assert table.loads.tolist() == [[10, 20, 5]] and table.notes == () and table.names == ("maths", "law", "a1")


@pytest.mark.parametrize(
    ("header", "parts"),
    [
        ("e0,e3", ["e3: experts are numbered from 0 without holes, and there is no e1, e2. Add a column of zeros"]),
        ("e1,e2", ["there is no e0. Count the columns from 0, e0 to e1."]),
        ("e0,e00", ["e00: is a second column of expert 0, after e0. Keep one of them."]),
        ("2023,2024", ["there is no 0, 1, 2, 3, 4 and 2018 more"]),
        ("e0,e999999999999999999999", ["is not one"]),
        ("1,a", ["1: a header has expert ids alone or names alone"]),
        ("1.5,2.5", ["1.5: a header has expert ids alone", "2.5: a header"]),
    ],
)
def test_holes_and_repeated_ids_are_refused_by_name(tmp_path: Path, header: str, parts: list[str]) -> None:
    extra = ",e1" if "9999" in header else ""
    message = refused(tmp_path, f"layer,{header}{extra}\n0,10,20{',30' if extra else ''}\n")
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("header", ["layers,e0,e1", "id,0,1"])
def test_one_other_column_beside_numbered_experts_is_refused(tmp_path: Path, header: str) -> None:
    message = refused(tmp_path, f"{header}\n0,10,20\n")
    assert "beside numbered experts, this column is not one. Call a column of layer ids 'layer'" in message


@pytest.mark.parametrize("cell", ["x", "-3"])
def test_bad_cell_of_a_named_table_is_shown_with_id_name_and_line(tmp_path: Path, cell: str) -> None:
    message = refused(tmp_path, f"layer,maths,law\n3,10,{cell}\n")
    assert f"loads[layer 3, expert 1 (law), line 2] = {cell}: " in message
    message = refused(tmp_path, f"layer,e1,e0\n3,10,{cell}\n")
    assert f"loads[layer 3, expert 0 (e0), line 2] = {cell}: " in message


# --- sums among the loads -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["total", "Sum", "MEAN", "all", "row total", "Row_Total"])
def test_column_named_as_a_sum_is_refused(tmp_path: Path, name: str) -> None:
    for text in (f"layer,a,b,{name}\n0,1,2,9\n", f"{name},e0,e1\n3,1,2\n"):
        message = refused(tmp_path, text)
        assert f"{name}: a column of totals or means is not an expert. Drop the column" in message


def test_row_named_as_a_sum_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, "layer,a,b\n0,1,2\nTotal,1,2\n")
    assert "layers[line 3] = Total: a row of totals or means is not a layer. Drop the row." in message


@pytest.mark.parametrize(
    "text", ["1,2,3\n4,5,9\n", "a,b,c\n1,2,3\n4,5,9\n", "0.1,0.2,0.3\n1,2,3\n", ",0,1,2\n0,1,2,3\n1,4,5,9"]
)
def test_last_column_that_sums_up_the_others_is_refused(tmp_path: Path, text: str) -> None:
    message = refused(tmp_path, text)
    assert "equals the sum of all others in every row. Drop the column; if it really is an expert" in message


def test_last_row_that_sums_up_the_others_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, "1,2\n3,4\n4,6\n")
    assert "loads[last row] = 4, 6: equals the sum of all others in every column. Drop the row" in message


def test_sums_that_are_named_as_experts_and_layers_are_read_with_a_note(tmp_path: Path) -> None:
    table = read(tmp_path, "layer,e0,e1,e2\n0,1,2,3\n1,4,5,9\n2,5,7,12\n")
    assert table.loads.shape == (3, 3)
    assert [note.split(" equals")[0] for note in table.notes] == ["the last column", "the last row"]


@pytest.mark.parametrize("text", ["1,2,3\n", "1,1\n2,2\n", "1,2\n1,2\n", "0,0,0\n0,0,0\n0,0,0\n", "1,2,3\n4,5,8\n"])
def test_small_or_idle_tables_are_not_taken_for_sums(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).notes == ()


# --- what pandas writes ---------------------------------------------------------------------------------------------


def test_header_of_column_numbers_is_a_header_and_said_so(tmp_path: Path) -> None:
    table = read(tmp_path, "0,1,2,3\n10,20,30,40\n")
    assert table.loads.tolist() == [[10, 20, 30, 40]] and table.names is None and table.layers == (0,)
    assert table.notes == ("the first line counts 0, 1, 2, ... and was read as a header",)
    assert read(tmp_path, "0,1,2,3\n").loads.tolist() == [[0, 1, 2, 3]]
    assert read(tmp_path, "0,1\n5,6\n").loads.tolist() == [[0, 1], [5, 6]]


@pytest.mark.parametrize("first", ["2,0,1,3,4,5,6,7", "1,2,3,4,5,6,7,8"])
def test_first_row_that_might_be_ids_in_another_order_is_read_with_a_note(tmp_path: Path, first: str) -> None:
    table = read(tmp_path, f"{first}\n10,20,30,40,50,60,70,80\n")
    assert table.loads.shape == (2, 8) and "was read as loads, not as a header" in table.notes[0]


@pytest.mark.parametrize("corner", ["", "Unnamed: 0"])
@pytest.mark.parametrize("mark", [",", "\t"])
def test_index_column_is_taken_as_layer_ids_and_said_so(tmp_path: Path, corner: str, mark: str) -> None:
    table = read(tmp_path, f"{corner},0,1\n4,10,20\n2,30,41\n".replace(",", mark))
    assert table.loads.tolist() == [[10, 20], [30, 41]] and table.layers == (4, 2) and table.names is None
    assert table.notes == ("the first column has no name and was read as layer ids",)
    assert read(tmp_path, f"{corner}{mark}law\n4{mark}10\n").names == ("law",)


@pytest.mark.parametrize("ids", ["4 4", "-1 0", "a b", "0.5 1"])
def test_index_column_without_ids_is_refused(tmp_path: Path, ids: str) -> None:
    first, second = ids.split()
    for corner in ("", "Unnamed: 0"):
        message = refused(tmp_path, f"{corner},law,maths\n{first},10,20\n{second},30,40\n")
        assert "does not hold a layer id of its own for every row. Call a column of layer ids 'layer'" in message


def test_index_beside_a_long_table_or_a_layer_column_is_left_aside_and_said_so(tmp_path: Path) -> None:
    for text in (",layer,expert,count\n0,3,0,10\n1,3,1,20\n", ",layer,a,b\n0,3,10,20\n"):
        table = read(tmp_path, text)
        assert table.loads.tolist() == [[10, 20]] and table.layers == (3,)
        assert table.notes == ("the first column has no name and was left aside as a row index",)


# --- long form without a header -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["0,0,5\n0,1,6\n1,0,7\n1,1,8\n", "3,0,5\n3,2,6\n3,1,7\n4,1,8.5\n", "0,1,2\n0,2,2\n0,3,2\n0,4,2\n"]
)
def test_long_form_without_a_header_is_refused_with_both_ways_out(tmp_path: Path, text: str) -> None:
    message = refused(tmp_path, text)
    assert "looks like long form without a header. Add layer,expert,count as the first line" in message
    assert "if it really is 3 experts, add a header expert_0,expert_1,expert_2." in message
    assert read(tmp_path, "expert_0,expert_1,expert_2\n" + text).loads.shape == (4, 3)
    assert read(tmp_path, "layer,expert,count\n" + text).loads.sum() > 0


@pytest.mark.parametrize(
    "text", ["0,0,5\n0,1,6\n1,0,7\n", "5,1,2\n6,1,2\n7,1,2\n8,1,2\n", "5,1,2\n5,1,2\n6,1,2\n8,1,2\n"]
)
def test_three_experts_that_cannot_be_long_form_are_read(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).loads.shape[1] == 3


# --- spreadsheets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [",\n", ",\n\n,\n", "\n ,\n"])
def test_rows_of_empty_cells_at_the_end_are_ignored(tmp_path: Path, end: str) -> None:
    assert read(tmp_path, "1,2\n3,4\n" + end).loads.tolist() == [[1, 2], [3, 4]]
    assert read(tmp_path, "layer,law\n3,4\n" + end).loads.tolist() == [[4]]
    assert "line 2" in refused(tmp_path, "1,2\n,\n3,4\n" + end)


@pytest.mark.parametrize("name", ["loads.tsv", "loads.txt", "LOADS.TSV"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_tsv_and_txt_are_read_with_any_delimiter(tmp_path: Path, name: str, mark: str) -> None:
    assert read(tmp_path, f"1{mark}2\n3{mark}4\n", name).loads.tolist() == [[1, 2], [3, 4]]


def test_cells_cut_at_spaces_are_refused_with_the_marks_that_are_known(tmp_path: Path) -> None:
    assert "Put commas, semicolons or tabs between the cells" in refused(tmp_path, "1 2\n3 4\n", "loads.txt")


@pytest.mark.parametrize("text", ['"1,234",5\n', '5,"1,234"\n6,7\n', '"1,234","5,678"\n1,2\n', "layer\ta\n0\t1,234\n"])
def test_thousands_commas_are_named(tmp_path: Path, text: str) -> None:
    message = refused(tmp_path, text)
    assert "1,234: loads must be numbers without thousands commas. Write 1234" in message


def test_first_line_of_decimal_commas_is_not_taken_for_names(tmp_path: Path) -> None:
    assert "Write decimals with a point" in refused(tmp_path, "1,5;2,5\n1;2\n")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_comment_in_the_first_line_is_skipped_with_a_note(tmp_path: Path, end: str) -> None:
    table = read(tmp_path, f'# run "7; step 3{end}1,2{end}3,4{end}')
    assert table.loads.tolist() == [[1, 2], [3, 4]]
    assert table.notes == ('line 1 is a comment and was skipped: # run "7; step 3',)
    assert "line 3] = x" in refused(tmp_path, f"# run{end}1,2{end}3,x{end}")
    assert "a comment alone" in refused(tmp_path, f"# run{end}")


# --- standard input -------------------------------------------------------------------------------------------------


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_standard_input_takes_numpy_files_by_their_first_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, np.array([[1, 2]]))
    np.savez(npz, law=np.array([[3, 4]]), maths=np.array([[5, 6]]))
    pipe(monkeypatch, npy.getvalue())
    assert read_loads("-").loads.tolist() == [[1, 2]]
    pipe(monkeypatch, npz.getvalue())
    assert read_loads("-", key="maths").loads.tolist() == [[5, 6]]
    pipe(monkeypatch, npz.getvalue())
    assert read_loads("-:law").source == "-:law"
    pipe(monkeypatch, npz.getvalue())
    with pytest.raises(InstanceError, match="holds several arrays"):
        read_loads("-")
    pipe(monkeypatch, npy.getvalue())
    with pytest.raises(InstanceError, match=r"only an \.npz file"):
        read_loads("-", key="law")


@pytest.mark.parametrize("data", [b"\x1f\x8b\x08\x00\xff", b"1,2\x00\n", "1,2\n".encode("utf-16")])
def test_standard_input_of_other_bytes_is_refused_with_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    pipe(monkeypatch, data)
    with pytest.raises(InstanceError, match=r"Pipe CSV, JSON, \.npz or \.npy into it"):
        read_loads("-")


def test_standard_input_that_begins_with_the_letters_of_a_zip_file_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, b"PK,law\n1,2\n")
    assert read_loads("-").names == ("PK", "law")


# --- what is written is not doubted ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2, 3], [4, 5, 9]],
        [[1, 2], [3, 4], [4, 6]],
        [[0, 1, 2], [7, 8, 9]],
        [[0, 0, 5], [0, 1, 6], [1, 0, 7], [1, 1, 8]],
    ],
)
@pytest.mark.parametrize("names", [None, ("b", "a", "c"), ("e1", "e0", "e2"), ("e0", "e1", "total")])
def test_table_that_looks_like_another_is_written_under_a_header_and_read_back(
    tmp_path: Path, rows: list[list[int]], names: tuple[str, ...] | None
) -> None:
    table = LoadTable(np.array(rows), tuple(range(len(rows))), None, names and names[: len(rows[0])])
    lost = write_loads(tmp_path / "loads.csv", table)
    again = read_loads(tmp_path / "loads.csv")
    assert again.loads.tolist() == rows and again.layers == table.layers
    assert (again.names == table.names) != any(sentence.startswith("names") for sentence in lost)
