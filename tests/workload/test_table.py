"""The load table names every cell that numpy would convert or round without a word."""

from __future__ import annotations

import numpy as np
import pytest

from moeopt.errors import Violations
from moeopt.workload.table import as_loads


def messages(value: object) -> list[str]:
    check = Violations()
    assert as_loads(value, check) is None
    return [str(violation) for violation in check.found]


def test_loads_keep_whole_numbers_exact_up_to_the_largest_int64() -> None:
    table = as_loads([[2**63 - 1, 0], [2**53 + 1, 1]], Violations())
    assert table is not None
    assert table.dtype == np.int64
    assert table.tolist() == [[2**63 - 1, 0], [2**53 + 1, 1]]


@pytest.mark.parametrize("rows", [[[1, True]], [1, True], [[0, 1], [2.5, True]]])
def test_loads_refuse_a_truth_value_among_numbers(rows: object) -> None:
    (message,) = messages(rows)
    assert "expert 1] = True: loads must be numbers" in message


def test_loads_name_only_the_text_cell_of_a_row() -> None:
    assert messages([[1, "2", 3]]) == ["loads[layer 0, expert 1] = '2': loads must be numbers. Repair the cell."]


def test_loads_refuse_a_count_that_a_double_would_round() -> None:
    (message,) = messages([[2**60 + 1, 0.5]])
    assert "layer 0, expert 0" in message and str(2**60 + 1) in message


def test_loads_refuse_a_count_beyond_int64_beside_a_small_one() -> None:
    (message,) = messages([[2**63, 1]])
    assert "loads must be below 2**63" in message


def test_loads_take_rows_that_are_arrays() -> None:
    table = as_loads([np.array([1, 2]), np.array([3, 4])], Violations())
    assert table is not None and table.tolist() == [[1, 2], [3, 4]]


def test_loads_name_bad_cells_and_ragged_rows_together() -> None:
    assert len(messages([[1, None], [2]])) == 2


def test_loads_refuse_a_third_axis_by_its_shape() -> None:
    (message,) = messages([[[1, 2]], [[3, 4]]])
    assert "shape (2, 1, 2)" in message and "Sum over the leading axis" in message


@pytest.mark.parametrize(
    "value",
    [
        np.ma.array([[1, 2], [3, 4]], mask=[[False, False], [False, True]]),
        [[1, 2], np.ma.array([3, 4], mask=[False, True])],
        [[1, 2], [3, np.ma.masked]],
    ],
)
def test_loads_refuse_a_masked_entry_by_its_place(value: object) -> None:
    (message,) = messages(value)
    assert "loads[layer 1, expert 1] = masked: a masked entry has no load. Fill it" in message


def test_loads_refuse_masks_of_one_row_and_of_three_axes() -> None:
    (message,) = messages(np.ma.array([1, 2], mask=[True, False]))
    assert "layer 0, expert 0] = masked" in message
    (message,) = messages(np.ma.array(np.ones((1, 2, 2)), mask=[[[1, 0], [1, 0]]]))
    assert "loads = 2 masked entries" in message


def test_loads_take_a_masked_array_that_masks_nothing() -> None:
    table = as_loads(np.ma.array([[1, 2]], mask=False), Violations())
    assert type(table) is np.ndarray and table.tolist() == [[1, 2]]


def test_loads_refuse_arrays_without_an_axis_among_numbers() -> None:
    assert "expert 1] = 2: loads must be numbers" in messages([1, np.array(2)])[0]


def test_question_of_a_message_ends_with_its_mark() -> None:
    assert messages([[-1]]) == ["loads[layer 0, expert 0] = -1: loads must be >= 0. Did a counter wrap?"]
