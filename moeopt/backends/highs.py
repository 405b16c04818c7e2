"""HiGHS through highspy, without PuLP in between: its own bound, MIP start, and every option's status checked."""

from __future__ import annotations

import importlib
import importlib.util
import math
import threading
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import numpy as np

from moeopt.backends.base import Claim, FloatArray, LinearModel
from moeopt.backends.registry import OnIncumbent, unknown_name
from moeopt.errors import Violations
from moeopt.limits import Deadline, Limits
from moeopt.result import Stop

RESERVED = {
    "time_limit": "limits.time_s",
    "mip_max_nodes": "limits.nodes",
    "mip_rel_gap": "limits.gap",
    "threads": "limits.threads",
    "random_seed": "seed",
    "objective_target": "bound",
    "output_flag": "nothing: HiGHS stays silent",
    "log_to_console": "nothing: HiGHS stays silent",
}
"""Options that have a name of our own."""

ONE_AT_A_TIME = threading.Lock()  # the scheduler is reset before each solve


def why_not() -> str | None:
    """Say why it cannot be used."""
    return None if importlib.util.find_spec("highspy") else "highspy is not installed"


def version() -> str:
    """Version of the highspy distribution."""
    return metadata.version("highspy")


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
    """Solve with HiGHS; gaps are 0 unless ``limits.gap`` says otherwise."""
    highspy: Any = importlib.import_module("highspy")
    if not ONE_AT_A_TIME.acquire(timeout=max(0.0, deadline.remaining_s()) if deadline.limited else -1.0):
        return Claim(outcome="stopped", stop=Stop.TIME, notes=("time was up before HiGHS was free",))
    try:
        # A solve with another number of threads than the last one fails unless the scheduler is made anew.
        highspy.Highs.resetGlobalScheduler(True)
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        _set_options(highspy, solver, limits, seed, floor, options)
        _pass_model(highspy, solver, model)
        if start is not None:
            where = np.arange(model.num_columns, dtype=np.int32)
            if solver.setSolution(model.num_columns, where, start) == highspy.HighsStatus.kError:
                raise RuntimeError("HiGHS refused a start of the right length")
        if on_incumbent is not None and model.has_integers:
            _stream(highspy, solver, on_incumbent)
        return _solve(highspy, solver, model, deadline, limits)
    finally:
        ONE_AT_A_TIME.release()


def _set_options(
    highspy: Any, solver: Any, limits: Limits, seed: int, floor: float | None, options: Mapping[str, Any]
) -> None:
    ours: dict[str, Any] = {
        "threads": limits.threads,
        "random_seed": seed,
        "mip_rel_gap": float(limits.gap or 0.0),
        "mip_abs_gap": 0.0,
    }
    if limits.nodes is not None:
        ours["mip_max_nodes"] = min(limits.nodes, 2**31 - 1)
    if floor is not None:
        ours["objective_target"] = floor + 1e-9 * max(1.0, abs(floor))
    names = [name for name in dir(solver.getOptions()) if not name.startswith("_")]
    check = Violations()
    for name, value in {**ours, **options}.items():
        if name in options and name in RESERVED:
            check.add("options", repr(value), where=name, rule="is not set here", fix=f"Use {RESERVED[name]}")
        elif name not in names:
            check.found.append(unknown_name("options", "highs", name, names))
        elif solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            assert name in options, (name, value)
            check.add("options", value, where=name, rule="HiGHS refuses this value", fix="Look it up in its manual")
    check.raise_if_any()


def _pass_model(highspy: Any, solver: Any, model: LinearModel) -> None:
    status = solver.passModel(
        model.num_columns,
        model.num_rows,
        model.data.size,
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        model.offset,
        model.cost,
        model.column_lower,
        model.column_upper,
        model.row_lower,
        model.row_upper,
        model.indptr,
        model.indices,
        model.data,
        model.integral.astype(np.int32),
    )
    if status == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS refused a checked model")


def _stream(highspy: Any, solver: Any, on_incumbent: OnIncumbent) -> None:
    def improved(kind: Any, message: str, out: Any, back: Any, data: Any) -> None:
        bound = float(out.mip_dual_bound)
        on_incumbent(np.array(out.mip_solution, dtype=np.float64), bound if math.isfinite(bound) else None)

    solver.setCallback(improved, None)
    solver.startCallback(highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution)


def _solve(highspy: Any, solver: Any, model: LinearModel, deadline: Deadline, limits: Limits) -> Claim:
    says = highspy.HighsModelStatus
    if deadline.passed():
        return Claim(outcome="stopped", stop=Stop.TIME, notes=("time was up before HiGHS had begun",))
    notes: tuple[str, ...] = ()
    failed = _run(highspy, solver, deadline)
    if failed and solver.getOptionValue("presolve")[1] != "off":
        notes = ("HiGHS failed, and was run again without presolve",)
        solver.clearSolver()
        solver.setOptionValue("presolve", "off")
        failed = _run(highspy, solver, deadline)
    status, info, solution = solver.getModelStatus(), solver.getInfo(), solver.getSolution()
    nodes = int(info.mip_node_count) if model.has_integers else 0
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = np.array(solution.col_value) if feasible and solution.value_valid else None
    if model.has_integers:
        bound = float(info.mip_dual_bound) if math.isfinite(info.mip_dual_bound) else None
    else:
        bound = float(info.objective_function_value) if status == says.kOptimal else None
    if status == says.kUnboundedOrInfeasible:
        return _tell_apart(highspy, solver, model, deadline)
    if status == says.kInfeasible:
        return Claim(outcome="infeasible", nodes=nodes, notes=notes)
    if status == says.kUnbounded:
        return Claim(outcome="unbounded", nodes=nodes, notes=notes)
    if status in (says.kOptimal, says.kModelEmpty):
        values = np.array(solution.col_value) if values is None and model.num_rows == 0 else values
        return Claim(outcome="optimal", values=values, bound=bound, nodes=nodes, notes=notes)
    stops = {says.kTimeLimit: Stop.TIME, says.kIterationLimit: Stop.ITERATIONS, says.kInterrupt: Stop.INTERRUPTED}
    stop = stops.get(status, Stop.FINISHED)
    if status == says.kSolutionLimit and limits.nodes is not None and nodes >= limits.nodes:
        stop = Stop.NODES
    elif status == says.kObjectiveTarget:
        notes = (*notes, "HiGHS stopped at the given lower bound")
    elif stop is Stop.FINISHED or failed:
        notes = (*notes, f"HiGHS stopped with: {solver.modelStatusToString(status)}")
    return Claim(
        outcome="failed" if failed else "stopped", stop=stop, values=values, bound=bound, nodes=nodes, notes=notes
    )


def _run(highspy: Any, solver: Any, deadline: Deadline) -> bool:
    """Run in the time that is left, and say whether that failed."""
    if deadline.limited:
        solver.setOptionValue("time_limit", max(0.0, deadline.remaining_s()))
    return bool(solver.run() == highspy.HighsStatus.kError)


def _tell_apart(highspy: Any, solver: Any, model: LinearModel, deadline: Deadline) -> Claim:
    """Unbounded or infeasible? The same model without an objective is infeasible only in the second case."""
    says = highspy.HighsModelStatus
    solver.changeColsCost(model.num_columns, np.arange(model.num_columns, dtype=np.int32), np.zeros(model.num_columns))
    solver.clearSolver()
    _run(highspy, solver, deadline)
    status = solver.getModelStatus()
    if status == says.kInfeasible:
        return Claim(outcome="infeasible")
    if status == says.kOptimal:
        return Claim(outcome="unbounded")
    return Claim(outcome="stopped", notes=("HiGHS says: unbounded or infeasible",))
