"""A linear programme that grows: columns and rows are added, and each solve starts from the basis of the last one.

For cutting planes and column generation. HiGHS through highspy, one thread; what it says is only a proposal, which
its callers prove by other means.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.backends.highs import ONE_AT_A_TIME

Floats = NDArray[np.float64]
Numbers = Sequence[float] | Floats


class Master:
    """Maximise ``c x`` subject to ``A x <= b`` and bounds on x.

    >>> master = Master()
    >>> x, y = master.add_columns([1.0, 1.0], [0.0, 0.0], [4.0, 4.0])
    >>> rows = master.add_rows([[x, y]], [[1.0, 2.0]], [5.0])
    >>> value, point = master.solve()
    >>> round(value, 6), [round(float(number), 6) for number in point]
    (4.5, [4.0, 0.5])
    """

    def __init__(self) -> None:
        self._highspy: Any = importlib.import_module("highspy")
        self._infinite = float(self._highspy.kHighsInf)
        # The class below `Highs`, which has no callbacks: turning them on prints a banner to standard output.
        self._solver: Any = self._highspy.Highs.__base__()
        self.num_columns = self.num_rows = 0
        self.row_price: Floats = np.zeros(0)  # dual of each row at the last optimum
        for name, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("random_seed", 0)):
            self._solver.setOptionValue(name, value)
        self._solver.changeObjectiveSense(self._highspy.ObjSense.kMaximize)

    def add_columns(self, cost: Numbers, lower: Numbers, upper: Numbers) -> list[int]:
        """Add columns without entries; their numbers."""
        first, count = self.num_columns, len(cost)
        empty = np.zeros(0, dtype=np.int32)
        self._solver.addCols(
            count, _floats(cost), _floats(lower), _floats(upper), 0, np.zeros(count, np.int32), empty, np.zeros(0)
        )
        self.num_columns += count
        return list(range(first, first + count))

    def add_rows(
        self, columns: Sequence[Sequence[int]], values: Sequence[Sequence[float]], upper: Sequence[float]
    ) -> list[int]:
        """Add rows ``sum_k values[i][k] x[columns[i][k]] <= upper[i]``; their numbers."""
        first, count = self.num_rows, len(columns)
        if not count:
            return []
        starts = np.cumsum([0, *(len(row) for row in columns)]).astype(np.int32)
        where = np.concatenate([np.asarray(row, dtype=np.int32) for row in columns])
        entries = np.concatenate([_floats(row) for row in values])
        below = np.full(count, -self._infinite)
        self._solver.addRows(count, below, _floats(upper), len(where), starts[:-1], where, entries)
        self.num_rows += count
        return list(range(first, first + count))

    def set_upper(self, rows: Sequence[int], upper: Sequence[float]) -> None:
        """Change right sides; infinity takes a row out."""
        for row, value in zip(rows, upper, strict=True):
            self._solver.changeRowBounds(int(row), -self._infinite, float(value))

    def solve(self, time_s: float = float("inf")) -> tuple[float, Floats] | None:
        """Optimum and a point that attains it; ``None`` when HiGHS does not find one, in this time."""
        with ONE_AT_A_TIME:
            # HiGHS counts the time of all runs of one solver together.
            self._solver.setOptionValue("time_limit", min(self._solver.getRunTime() + max(time_s, 0.0), self._infinite))
            # A solve with another number of threads than the last one fails unless the scheduler is made anew.
            self._highspy.Highs.resetGlobalScheduler(True)
            self._solver.run()
        if self._solver.getModelStatus() != self._highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._solver.getSolution()
        self.row_price = np.abs(np.array(solution.row_dual))
        return float(self._solver.getObjectiveValue()), np.array(solution.col_value)


def _floats(values: Numbers) -> Floats:
    return np.asarray(values, dtype=np.float64)
