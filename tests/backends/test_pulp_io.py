"""PuLP problems in, text and values out."""

from __future__ import annotations

import math

import numpy as np
import pulp
import pytest

from moeopt.backends import LinearModel, available_backends, read_back, solve_model, write_lp, write_mps
from moeopt.errors import InstanceError
from moeopt.result import Status


def small(sense: int = pulp.LpMinimize) -> pulp.LpProblem:
    problem = pulp.LpProblem("small", sense)
    a = problem.add_variable("a", 0, 5, cat="Integer")
    b = problem.add_variable("b", cat="Binary")
    c = problem.add_variable("c", None, 8)
    problem += 2 * a - 3 * b + c + 7
    problem += a + b + c >= 2.5, "floor"
    problem += a - c <= 4
    problem += a - c >= -40
    problem += a + 2 * b == 3, "tie"
    return problem


def test_from_pulp_reads_every_part_of_the_problem():
    model = LinearModel.from_pulp(small())
    assert model.columns == ("a", "b", "c") and model.rows == ("floor", "_C1", "_C2", "tie")
    assert model.cost.tolist() == [2, -3, 1] and model.offset == 7
    assert model.row_lower.tolist() == [2.5, -math.inf, -40, 3] and model.row_upper.tolist() == [
        math.inf,
        4,
        math.inf,
        3,
    ]
    assert model.column_lower.tolist() == [0, 0, -math.inf] and model.column_upper.tolist() == [5, 1, 8]
    assert model.integral.tolist() == [True, True, False]
    assert model.activity_of(np.array([1.0, 10.0, 100.0])).tolist() == [111, -99, -99, 21]


@pytest.mark.parametrize("name", available_backends())
def test_solution_is_read_back_by_name(name):
    model = LinearModel.from_pulp(small())
    answer = solve_model(model, backend=name, in_process=True)
    assert answer.status is Status.OPTIMAL and answer.objective == pytest.approx(6.5)
    assert read_back(model, answer.values) == pytest.approx({"a": 1, "b": 1, "c": 0.5})


def test_from_pulp_refuses_a_problem_that_maximises():
    with pytest.raises(InstanceError, match="moeopt minimises"):
        LinearModel.from_pulp(small(pulp.LpMaximize))


def test_from_pulp_takes_a_problem_without_objective_or_rows():
    problem = pulp.LpProblem("bare", pulp.LpMinimize)
    problem.add_variable("a", 0, 5)
    model = LinearModel.from_pulp(problem)
    assert model.num_rows == 0 and model.cost.tolist() in ([0.0], [])


@pytest.mark.parametrize("write", [write_lp, write_mps])
def test_text_is_the_same_each_time_and_on_disk(write, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = write(small())
    assert text == write(small(), tmp_path / "small.txt") == (tmp_path / "small.txt").read_text()
    assert "floor" in text and [path.name for path in tmp_path.iterdir()] == ["small.txt"]
    with pytest.raises(InstanceError, match="never overwritten"):
        write(small(), tmp_path / "small.txt")
    write(small(), tmp_path / "small.txt", force=True)


def test_name_that_pulp_cannot_write_is_refused():
    problem = small()
    problem += problem.add_variable("v" * 120, 0, 1) >= 0
    with pytest.raises(InstanceError, match="at most 100 characters"):
        write_lp(problem)


def test_model_is_checked_at_birth_and_cannot_be_written_to():
    model = LinearModel.from_pulp(small())
    with pytest.raises(ValueError, match="read-only"):
        model.cost[0] = 1
    parts = vars(model)
    for change, text in [
        ({"cost": [1.0, math.nan, 0.0]}, "model.cost = nan or inf"),
        ({"cost": [1.0]}, "must have shape"),
        ({"columns": ("a", "a", "c")}, "names must be distinct"),
        ({"row_lower": [0.0, math.inf, 0.0, 0.0]}, r"model.row_lower\[1\] = inf"),
        ({"indptr": [0, 3, 2, 7, 9]}, "must rise"),
        ({"indices": model.indices + 1}, r"must lie in 0..2"),
    ]:
        with pytest.raises(InstanceError, match=text):
            LinearModel(**{**parts, **change})


def test_values_that_rounding_would_break_are_left_and_noted():
    from moeopt.backends.judge import settle

    from .conftest import dense

    model = dense([1, 1], [[1e6, -1]], 0, 0, 1e6, integral=[True, False])
    values, remark = settle(model, np.array([1 + 5e-7, 1e6 + 0.5]))
    assert remark is None and values.tolist() == [1.0, 1000000.5]
    values, remark = settle(model, np.array([5e-7, 0.5]))
    assert values.tolist() == [5e-7, 0.5] and "left as the solver gave them" in remark
