"""No claim of a solver is taken on trust: values are checked against the model, words against the numbers."""

from __future__ import annotations

import math

import numpy as np

from moeopt.backends.base import Claim, FloatArray, LinearModel, SolverAnswer
from moeopt.limits import Limits
from moeopt.result import SOLVER_TOLERANCE, Status, Stop

TOLERANCE = 1e-6
"""Largest violation of a bound, a row or integrality, relative to the size of its terms where that exceeds 1."""
FLOOR_TOLERANCE = 1e-5
"""How far, relatively, an objective may lie below a floor before the floor is called wrong."""


def fault(model: LinearModel, values: FloatArray) -> str | None:
    """Say what is wrong with `values`, or ``None`` if they keep every bound, row and integrality within 1e-6.

    >>> model = LinearModel(("x",), [1.0], 0.0, ("r",), [0, 1], [0], [2.0], [3.0], [9.0], [0.0], [5.0], [True])
    >>> fault(model, np.array([1.0]))
    'row r is 2, outside 3..9'
    >>> fault(model, np.array([1.5]))
    'column x = 1.5 is not whole'
    """
    if values.shape != (model.num_columns,):
        return f"{values.size} values for {model.num_columns} columns"
    if not np.isfinite(values).all():
        return f"column {model.columns[int(np.argmin(np.isfinite(values)))]} is not finite"
    slack = TOLERANCE * np.maximum(1.0, np.abs(values))
    outside = (values < model.column_lower - slack) | (values > model.column_upper + slack)
    for j in np.flatnonzero(outside)[:1]:
        span = f"{model.column_lower[j]:g}..{model.column_upper[j]:g}"
        return f"column {model.columns[j]} = {values[j]:g} is outside {span}"
    for j in np.flatnonzero(model.integral & (np.abs(values - np.rint(values)) > TOLERANCE))[:1]:
        return f"column {model.columns[j]} = {values[j]:g} is not whole"
    activity = model.activity_of(values)
    slack = TOLERANCE * np.maximum(1.0, model.row_scale_of(values))
    for i in np.flatnonzero((activity < model.row_lower - slack) | (activity > model.row_upper + slack))[:1]:
        return f"row {model.rows[i]} is {activity[i]:g}, outside {model.row_lower[i]:g}..{model.row_upper[i]:g}"
    return None


def settle(model: LinearModel, values: FloatArray) -> tuple[FloatArray | None, str | None]:
    """Values fit to hand on (whole numbers made exact), and what to say about them.

    Rounding may break a row with huge coefficients that the raw values keep; then the raw values stay, and it is said.
    """
    values = np.array(values, dtype=np.float64)
    problem = fault(model, values)
    if problem:
        return None, problem
    whole = np.where(model.integral, np.rint(values), values)
    broken = fault(model, whole)
    if broken:
        return values, f"integers are left as the solver gave them: rounded to whole numbers, {broken}"
    return whole, None


def judge(
    model: LinearModel,
    claim: Claim,
    *,
    backend: str,
    limits: Limits,
    start: FloatArray | None = None,
    floor: float | None = None,
) -> SolverAnswer:
    """Turn a claim into an answer.

    `start`, already found feasible, is handed on when the claim has nothing better; `floor` is the caller's own lower
    bound and counts as much as the back end's.
    """
    notes = list(claim.notes)
    values, objective = None, None
    if claim.values is not None:
        values, remark = settle(model, claim.values)
        if remark:
            notes.append(remark if values is not None else f"the solver's values are refused: {remark}")
        if values is not None:
            objective = model.objective_of(values)
    refused = claim.values is not None and values is None
    if start is not None and (objective is None or model.objective_of(start) < objective):
        values, objective = start, model.objective_of(start)
        notes.append("the answer is the given start")
    bound = claim.bound if claim.bound is not None and math.isfinite(claim.bound) else None
    if floor is not None and objective is not None and objective < floor - FLOOR_TOLERANCE * max(1.0, abs(floor)):
        notes.append(f"the given lower bound {floor:.12g} is wrong, a solution with {objective:.12g} exists; ignored")
        floor = None
    if floor is not None:
        bound = floor if bound is None else max(bound, floor)
    if bound is not None and objective is not None and bound > objective:
        if not meets(objective, bound):
            notes.append(f"the solver's bound {bound:.12g} is wrong, a solution with {objective:.12g} exists; ignored")
            bound = floor
        bound = objective if bound is not None and bound > objective else bound
    status, stop = _status(claim, objective, bound, floor, limits, refused, notes)
    if status in (Status.INFEASIBLE, Status.UNKNOWN):
        values, objective = None, None
    if status is Status.INFEASIBLE:
        bound = None
    if values is not None:
        values.setflags(write=False)
    return SolverAnswer(
        status=status,
        stop=stop,
        values=values,
        objective=objective,
        bound=bound,
        nodes=claim.nodes,
        backend=backend,
        notes=tuple(notes),
    )


def meets(objective: float, bound: float) -> bool:
    """Whether the two are equal within what a back end can tell apart: 1e-6 relative, 1e-9 around zero."""
    return abs(objective - bound) <= max(1e-9, SOLVER_TOLERANCE * min(abs(objective), abs(bound)))


def _status(
    claim: Claim,
    objective: float | None,
    bound: float | None,
    floor: float | None,
    limits: Limits,
    refused: bool,
    notes: list[str],
) -> tuple[Status, Stop]:
    if objective is None:
        if claim.outcome == "infeasible":
            return Status.INFEASIBLE, Stop.FINISHED
        if claim.outcome == "unbounded":
            notes.append("the objective is unbounded below: a bound is missing from the model")
        elif claim.outcome == "optimal" and not refused:
            notes.append("the solver says optimal and gives no values")
        return Status.UNKNOWN, claim.stop
    if claim.outcome == "infeasible":
        notes.append("the solver says infeasible, yet the given start is feasible: its claim is ignored")
    elif claim.outcome == "unbounded":
        notes.append("the objective is unbounded below: a bound is missing from the model")
    by_floor = floor is not None and meets(objective, floor)
    if by_floor or (claim.outcome == "optimal" and bound is not None and meets(objective, bound)):
        return Status.OPTIMAL, Stop.FINISHED
    if claim.outcome == "optimal":
        if limits.gap:
            return Status.FEASIBLE, Stop.GAP
        said = "no bound" if bound is None else f"a bound of {bound:.12g}"
        notes.append(f"the solver says optimal, with {said} under the objective {objective:.12g}: no proof")
    return Status.FEASIBLE, claim.stop
