"""`solve_model`: one door for every back end, in a child process or not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from moeopt.backends.base import Claim, FloatArray, LinearModel, SolverAnswer
from moeopt.backends.judge import judge, settle
from moeopt.backends.registry import choose
from moeopt.backends.worker import Request, Worker
from moeopt.errors import Violations
from moeopt.limits import Deadline, Limits

LARGEST_SEED = 2**31 - 2
"""What fits the seeds of every back end."""


def solve_model(
    model: LinearModel,
    *,
    backend: str = "auto",
    limits: Limits | None = None,
    seed: int = 0,
    start: npt.ArrayLike | None = None,
    bound: float | None = None,
    in_process: bool = False,
    options: Mapping[str, Any] | None = None,
    worker: Worker | None = None,
) -> SolverAnswer:
    """Solve a model and check the answer.

    Parameters
    ----------
    model
        What to minimise.
    backend
        A name of `BACKENDS`, or ``auto``: highs if highspy is installed, else scipy with a note.
    limits
        `time_s` (the start of a child process included), `gap` (``None``: 0), `nodes` and `threads` count;
        `iterations` does not.
    seed
        Seed of the solver, 0..2**31-2. scipy has none.
    start
        (n,), a solution to begin from. A feasible one is never made worse; an infeasible one is noted and not used.
    bound
        A lower bound on the objective that the caller has proved. highs stops once it is met.
    in_process
        Run in this process: no deadline beyond the solver's own, no interrupt, and a banner on standard output.
    options
        Options of the back end by its own names; unknown names and impossible values are refused.
    worker
        A child process to reuse, for many models; without it one is started for this call and ended after it.

    Returns
    -------
    SolverAnswer
        After a ``KeyboardInterrupt`` the best so far, with stop INTERRUPTED; a loop over models should check for it.

    Raises
    ------
    InstanceError
        Unknown back end, option, or a start of the wrong length.
    BackendUnavailable
        The back end's package is missing.

    >>> model = LinearModel(("x",), [2.0], 1.0, ("r",), [0, 1], [0], [3.0], [4.0], [9.0], [0.0], [5.0], [True])
    >>> answer = solve_model(model, backend="scipy", in_process=True)
    >>> str(answer.status), answer.objective, answer.values.tolist()
    ('OPTIMAL', 5.0, [2.0])
    """
    limits = Limits() if limits is None else limits
    deadline = Deadline(limits.time_s, limits.stop)
    chosen, notes = choose(backend)
    first = _first(model, seed, start, bound)
    feasible, floor = None, None if bound is None else float(bound)
    if first is not None:
        feasible, remark = settle(model, first)
        if feasible is None:
            notes = (*notes, f"the given start is not used: {remark}")
    request = Request(chosen, model, replace(limits, stop=None), seed, feasible, floor, dict(options or {}))
    empty = _trivially_infeasible(model)
    if empty is not None:
        claim = Claim(outcome="infeasible", notes=(empty,), nodes=0)
    elif in_process:
        claim = request.run(deadline)
    elif worker is not None:
        claim = worker.run(request, deadline)
    else:
        with Worker() as own:
            claim = own.run(request, deadline)
    claim = Claim(**{**vars(claim), "notes": (*notes, *claim.notes)})
    return judge(model, claim, backend=chosen.label(), limits=limits, start=feasible, floor=floor)


def _first(model: LinearModel, seed: int, start: npt.ArrayLike | None, bound: float | None) -> FloatArray | None:
    check = Violations()
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        check.refuse("seed", seed, rule=f"must be a whole number in 0..{LARGEST_SEED}", fix="Use 0")
    if bound is not None and not math.isfinite(bound):
        check.add("bound", bound, rule="must be finite", fix="Leave it out")
    first = None if start is None else np.array(start, dtype=np.float64)
    if first is not None and first.shape != (model.num_columns,):
        rule = f"must have one value a column, {model.num_columns}"
        check.add("start", f"shape {first.shape}", rule=rule, fix="Build it in the order of model.columns")
    check.raise_if_any()
    return first


def _trivially_infeasible(model: LinearModel) -> str | None:
    """Bounds that cross: solvers disagree on whether that is infeasible or an error, so they never see it."""
    pairs = (
        ("column", model.columns, model.column_lower, model.column_upper),
        ("row", model.rows, model.row_lower, model.row_upper),
    )
    for kind, names, lower, upper in pairs:
        for where in np.flatnonzero(lower > upper)[:1]:
            return f"{kind} {names[where]} has lower bound {lower[where]:g} above its upper bound {upper[where]:g}"
    return None
