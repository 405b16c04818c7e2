"""PuLP in and out: problems become `LinearModel`, LP and MPS text, on PuLP 3.3 and 4 alike."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from moeopt.backends.base import FloatArray, LinearModel
from moeopt.documents import write_file
from moeopt.errors import InstanceError, Violation, Violations


def from_pulp(problem: Any) -> LinearModel:
    """Read a `pulp.LpProblem` that minimises.

    Columns come in the order of ``problem.variables()`` (by name on PuLP 3, by creation on PuLP 4), rows in the order
    of their creation.

    Raises
    ------
    InstanceError
        The problem maximises or holds special ordered sets, which a `LinearModel` cannot say.

    >>> import pulp
    >>> problem = pulp.LpProblem("two", pulp.LpMinimize)
    >>> x, y = (problem.add_variable(name, 0, 4, cat="Integer") for name in "xy")
    >>> problem += x + 2 * y + 1
    >>> problem += x + y >= 3, "enough"
    >>> model = from_pulp(problem)
    >>> model.columns, model.rows, model.cost.tolist(), model.row_lower.tolist()
    (('x', 'y'), ('enough',), [1.0, 2.0], [3.0])
    """
    check = Violations()
    if problem.sense != 1:
        rule, fix = "moeopt minimises", "Negate the objective and use LpMinimize"
        check.add("problem.sense", "maximise", rule=rule, fix=fix)
    has_sets = problem.has_sos() if hasattr(problem, "has_sos") else bool(problem.sos1 or problem.sos2)
    if has_sets:
        rule, fix = "special ordered sets are not supported", "Write them with binaries"
        check.add("problem.sos", "...", rule=rule, fix=fix)
    check.raise_if_any()
    variables = list(problem.variables())
    constraints = _constraints(problem)
    index = {variable.name: column for column, variable in enumerate(variables)}
    cost = np.zeros(len(variables))
    objective = problem.objective
    for variable, coefficient in objective.items() if objective is not None else ():
        cost[index[variable.name]] += coefficient
    indptr, indices, data = [0], [], []
    for _, constraint in constraints:
        for variable, coefficient in constraint.items():
            indices.append(index[variable.name])
            data.append(float(coefficient))
        indptr.append(len(indices))
    return LinearModel(
        columns=tuple(variable.name for variable in variables),
        cost=cost,
        offset=float(objective.constant) if objective is not None else 0.0,
        rows=tuple(name for name, _ in constraints),
        indptr=np.array(indptr, dtype=np.int32),
        indices=np.array(indices, dtype=np.int32),
        data=np.array(data),
        row_lower=_bounds([row.getLb() for _, row in constraints], -math.inf),
        row_upper=_bounds([row.getUb() for _, row in constraints], math.inf),
        column_lower=_bounds([variable.lowBound for variable in variables], -math.inf),
        column_upper=_bounds([variable.upBound for variable in variables], math.inf),
        integral=np.array([variable.cat == "Integer" for variable in variables], dtype=bool),
    )


def read_back(model: LinearModel, values: FloatArray) -> dict[str, float]:
    """Values by the names of the columns.

    `values` has one entry a column, in the order of ``model.columns``.

    >>> model = LinearModel(("x",), [1.0], 0.0, (), [0], [], [], [], [], [0.0], [5.0], [True])
    >>> read_back(model, np.array([2.0]))
    {'x': 2.0}
    """
    return dict(zip(model.columns, values.tolist(), strict=True))


def write_lp(problem: Any, path: str | Path | None = None, *, force: bool = False) -> str:
    """The problem as CPLEX LP text; also written to `path` if one is given.

    Raises
    ------
    InstanceError
        PuLP cannot write it (a name is used twice or too long), or `path` exists and `force` is not set.

    >>> import pulp
    >>> problem = pulp.LpProblem("two", pulp.LpMinimize)
    >>> variable = getattr(problem, "add_variable", pulp.LpVariable)  # PuLP 4 has the former
    >>> problem += 2 * variable("x", 1)
    >>> "Minimize" in write_lp(problem) and "2 x" in write_lp(problem)
    True
    """
    return _write(problem, "writeLP", path, force)


def write_mps(problem: Any, path: str | Path | None = None, *, force: bool = False) -> str:
    """The problem as MPS text; raises as `write_lp` does. MPS has no place for the objective's constant.

    Written to `path` too if one is given, which is replaced only with `force`.

    >>> import pulp
    >>> problem = pulp.LpProblem("two", pulp.LpMinimize)
    >>> variable = getattr(problem, "add_variable", pulp.LpVariable)  # PuLP 4 has the former
    >>> problem += 2 * variable("x", 1)
    >>> "ROWS" in write_mps(problem), "COLUMNS" in write_mps(problem)
    (True, True)
    """
    return _write(problem, "writeMPS", path, force)


def _write(problem: Any, writer: str, path: str | Path | None, force: bool) -> str:
    import pulp

    with tempfile.TemporaryDirectory(prefix="moeopt-") as folder:
        file = Path(folder) / "problem.txt"
        try:
            problem.checkDuplicateVars()  # PuLP's writers ask this too, but leave their file open when they refuse
            if writer == "writeLP":
                problem.checkLengthVars(100)
            getattr(problem, writer)(str(file))
        except pulp.PulpError as error:
            fix = "Give every variable its own name of at most 100 characters"
            raise InstanceError([Violation("problem", "", str(problem.name), f"PuLP: {error}", fix)]) from error
        text = file.read_text()
    if path is not None:
        write_file(path, text, force=force)
    return text


def _constraints(problem: Any) -> list[tuple[str, Any]]:
    """Names and rows in the order of creation.

    PuLP 3 keeps a dict, under a name that the releases differ in, and only its keys name the rows that nobody named.
    """
    kept = getattr(problem, "_constraints", None) or problem.constraints
    if isinstance(kept, Mapping):
        return [(str(name), row) for name, row in kept.items()]
    return [(str(row.name), row) for row in kept()]


def _bounds(values: list[float | None], absent: float) -> FloatArray:
    return np.array([absent if value is None else float(value) for value in values], dtype=np.float64)
