"""What every back end speaks: a `LinearModel` goes in, a `Claim` comes out, a checked `SolverAnswer` is handed on."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from moeopt.errors import Violations
from moeopt.result import Status, Stop

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Minimise ``cost @ x + offset`` subject to ``row_lower <= A x <= row_upper`` and bounds on x.

    Parameters
    ----------
    columns, rows
        Names, distinct; n and m of them. Their order is part of the model: a solver's path depends on it.
    cost, offset
        The objective, (n,) and a constant.
    indptr, indices, data
        A, (m, n), by rows: row i holds ``data[k]`` at ``indices[k]`` for ``indptr[i] <= k < indptr[i + 1]``.
    row_lower, row_upper, column_lower, column_upper
        (m,) and (n,); ``-inf`` and ``inf`` for no bound.
    integral
        (n,), whether the column is a whole number.

    The arrays are copied and cannot be written to. Numbers should be scaled to about 1 beforehand: solvers work
    with absolute tolerances of about 1e-6, and costs or bounds of 1e9 make their claims worthless.

    >>> model = LinearModel(("x",), [2.0], 1.0, ("r",), [0, 1], [0], [3.0], [4.0], [9.0], [0.0], [5.0], [True])
    >>> model.objective_of([2.0])
    5.0
    """

    columns: tuple[str, ...]
    cost: FloatArray
    offset: float
    rows: tuple[str, ...]
    indptr: IndexArray
    indices: IndexArray
    data: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    column_lower: FloatArray
    column_upper: FloatArray
    integral: BoolArray

    def __post_init__(self) -> None:
        types: dict[str, npt.DTypeLike] = {"indptr": np.int32, "indices": np.int32, "integral": np.bool_}
        for item in fields(self):
            if item.name in ("columns", "rows"):
                object.__setattr__(self, item.name, tuple(getattr(self, item.name)))
            elif item.name != "offset":
                array: npt.NDArray[Any] = np.array(getattr(self, item.name), dtype=types.get(item.name, np.float64))
                array.setflags(write=False)
                object.__setattr__(self, item.name, array)
        self._check()

    @property
    def num_columns(self) -> int:
        """n."""
        return len(self.columns)

    @property
    def num_rows(self) -> int:
        """m."""
        return len(self.rows)

    @property
    def has_integers(self) -> bool:
        """Whether any column has to be whole."""
        return bool(self.integral.any())

    @classmethod
    def from_pulp(cls, problem: Any) -> LinearModel:
        """Read a `pulp.LpProblem`; see `moeopt.backends.pulp_io.from_pulp`."""
        from moeopt.backends.pulp_io import from_pulp

        return from_pulp(problem)

    def objective_of(self, values: npt.ArrayLike) -> float:
        """``cost @ values + offset``, summed without rounding error."""
        return math.fsum([*(self.cost * np.asarray(values, dtype=float)).tolist(), self.offset])

    def activity_of(self, values: FloatArray) -> FloatArray:
        """``A @ values``, (m,)."""
        return self._row_reduce(np.add, self.data * values[self.indices])

    def row_scale_of(self, values: FloatArray) -> FloatArray:
        """Largest ``|a_ij x_j|`` of each row, (m,): the size its rounding errors are measured against."""
        return self._row_reduce(np.maximum, np.abs(self.data * values[self.indices]))

    def _row_reduce(self, operation: np.ufunc, terms: FloatArray) -> FloatArray:
        result = np.zeros(self.num_rows)
        filled = np.flatnonzero(np.diff(self.indptr))  # reduceat gives nonsense for empty rows
        if filled.size:
            result[filled] = operation.reduceat(terms, self.indptr[filled])
        return result

    def _check(self) -> None:
        check = Violations()
        n, m, nonzeros = self.num_columns, self.num_rows, self.data.size
        sizes = {"cost": n, "column_lower": n, "column_upper": n, "integral": n, "indices": nonzeros}
        sizes |= {"indptr": m + 1, "row_lower": m, "row_upper": m, "data": nonzeros}
        for name, size in sizes.items():
            if getattr(self, name).shape != (size,):
                check.add(f"model.{name}", f"shape {getattr(self, name).shape}", rule=f"must have shape ({size},)")
        for kind in ("columns", "rows"):
            names = getattr(self, kind)
            if len(set(names)) != len(names):
                twice = Counter(names).most_common(1)[0][0]
                check.add(f"model.{kind}", twice, rule="names must be distinct", fix="Rename one of them")
        check.raise_if_any()
        for name in ("cost", "data", "offset"):
            if not np.isfinite(getattr(self, name)).all():
                check.add(f"model.{name}", "nan or inf", rule="must be finite", fix="Check what it is built from")
        for name in ("row_lower", "row_upper", "column_lower", "column_upper"):
            array, wrong = getattr(self, name), math.inf if name.endswith("lower") else -math.inf
            for where in np.flatnonzero(np.isnan(array) | (array == wrong))[:1]:
                check.add(f"model.{name}", float(array[where]), where=str(where), rule="is not a bound")
        pointers_rise = self.indptr[0] == 0 and self.indptr[-1] == nonzeros and bool((np.diff(self.indptr) >= 0).all())
        if not pointers_rise:
            check.add("model.indptr", "...", rule=f"must rise from 0 to the number of entries, {nonzeros}")
        if nonzeros and not (self.indices.min() >= 0 and self.indices.max() < n):
            check.add("model.indices", "...", rule=f"must lie in 0..{n - 1}")
        check.raise_if_any()


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """What a back end says, not yet believed.

    `outcome` is ``optimal`` (within the gap it was given), ``stopped``, ``infeasible``, ``unbounded`` or ``failed``.
    """

    outcome: Literal["optimal", "stopped", "infeasible", "unbounded", "failed"]
    stop: Stop = Stop.FINISHED
    values: FloatArray | None = None
    bound: float | None = None
    nodes: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class SolverAnswer:
    """A back end's answer after our own check.

    Parameters
    ----------
    status, stop
        As in `moeopt.result`; OPTIMAL only with a bound within 1e-6 of the objective.
    values
        (n,), whole numbers exact; ``None`` without an incumbent, never zeros in its place.
    objective
        Recomputed from `values`; ``None`` without them.
    bound
        Lower bound on the objective that the back end claims or the caller gave; ``None`` if there is none.
    nodes
        Branch-and-bound nodes; ``None`` if the back end does not say.
    backend
        Name and version.
    notes
        Everything worth knowing that was not asked for.
    """

    status: Status
    stop: Stop
    values: FloatArray | None
    objective: float | None
    bound: float | None
    nodes: int | None
    backend: str
    notes: tuple[str, ...] = ()
