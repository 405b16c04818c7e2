"""HiGHS as scipy carries it: always there, without a MIP start, a seed or a choice of threads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np

from moeopt.backends.base import Claim, FloatArray, LinearModel
from moeopt.backends.registry import OnIncumbent, unknown_name
from moeopt.errors import Violations
from moeopt.limits import Deadline, Limits
from moeopt.result import Stop

OPTIONS = ("presolve",)
"""What may be set; time, nodes and gap come from the limits."""


def why_not() -> str | None:
    """Say why it cannot be used; scipy is a dependency, so it always can."""
    return None


def version() -> str:
    """Version of the scipy distribution."""
    return metadata.version("scipy")


def run(
    model: LinearModel,
    *,
    deadline: Deadline,
    limits: Limits,
    seed: int,
    start: FloatArray | None,
    floor: float | None,
    options: Mapping[str, Any],
    on_incumbent: OnIncumbent | None,
) -> Claim:
    """Solve with `scipy.optimize.milp`; what it cannot be told is noted."""
    check = Violations()
    for name, value in options.items():
        if name not in OPTIONS:
            check.found.append(unknown_name("options", "scipy", name, list(OPTIONS)))
        elif not isinstance(value, bool):
            check.refuse("options", value, where=name, rule="must be true or false")
    check.raise_if_any()
    from scipy import optimize, sparse

    notes = ["scipy takes no seed and chooses its number of threads"]
    if start is not None:
        notes.append("scipy takes no MIP start: the start was not shown to the solver")
    given: dict[str, Any] = {"disp": False, "mip_rel_gap": float(limits.gap or 0.0), **options}
    if limits.nodes is not None:
        given["node_limit"] = min(limits.nodes, 2**31 - 1)
    shape = (model.num_rows, model.num_columns)
    matrix = sparse.csr_array((model.data, model.indices, model.indptr), shape=shape)
    rows = [optimize.LinearConstraint(matrix, model.row_lower, model.row_upper)] if model.num_rows else []
    if deadline.passed():
        return Claim(outcome="stopped", stop=Stop.TIME, notes=(*notes, "time was up before scipy had begun"))

    def attempt() -> Any:
        if deadline.limited:
            given["time_limit"] = max(0.0, deadline.remaining_s())
        return optimize.milp(
            model.cost,
            integrality=model.integral.astype(np.uint8),
            bounds=optimize.Bounds(model.column_lower, model.column_upper),
            constraints=rows,
            options=given,
        )

    answer = attempt()
    if "solve error" in str(answer.message).lower() and given.get("presolve", True):
        given["presolve"] = False  # HiGHS in scipy 1.17 fails so on small infeasible models that presolve touches
        notes.append("HiGHS failed in scipy, and was run again without presolve")
        answer = attempt()
    return _claim(model, limits, answer, notes)


def _claim(model: LinearModel, limits: Limits, answer: Any, notes: list[str]) -> Claim:
    values = None if answer.x is None else np.array(answer.x, dtype=np.float64)
    nodes = 0 if answer.mip_node_count is None else int(answer.mip_node_count)
    if model.has_integers:
        claimed = answer.mip_dual_bound
    else:
        claimed = answer.fun if answer.status == 0 else None
    bound = float(claimed) + model.offset if claimed is not None and math.isfinite(claimed) else None
    if answer.status == 0:
        return Claim(outcome="optimal", values=values, bound=bound, nodes=nodes, notes=tuple(notes))
    if answer.status == 2:
        return Claim(outcome="infeasible", nodes=nodes, notes=tuple(notes))
    if answer.status == 3:
        return Claim(outcome="unbounded", nodes=nodes, notes=tuple(notes))
    stop, message = Stop.FINISHED, str(answer.message).lower()
    if "time limit" in message:
        stop = Stop.TIME
    elif limits.nodes is not None and (answer.status == 1 or "solution limit" in message):
        stop = Stop.NODES  # a status of HiGHS that scipy calls not recognised, with an incumbent all the same
    else:
        notes.append(f"scipy says: {answer.message}")
    return Claim(outcome="stopped", stop=stop, values=values, bound=bound, nodes=nodes, notes=tuple(notes))
