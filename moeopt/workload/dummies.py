"""Dummy rows of a routing trace: what an engine ran on made-up tokens to measure its memory or to warm up.

Such a pass repeats one token, so that all of its rows select the same experts, layer by layer. Real text never does
this for long in all layers together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from moeopt import kinds

if TYPE_CHECKING:
    from moeopt.workload.table import LoadTable

SHORTEST = 64
"""Rows below which equal rows are no dummy run, however unlikely they are."""

FALSE_ALARM = 1e-6
"""Chance that a trace of independent tokens has a run that is called dummy."""


@dataclass(frozen=True)
class Run:
    """Rows one after the other that select one set of experts.

    Parameters
    ----------
    first, rows
        First row, from 0, and how many.
    experts
        The set, ascending; for each layer in the order of the table, empty in idle layers.
    """

    first: int
    rows: int
    experts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Dummies:
    """All dummy runs of a trace, and where its steps begin.

    Parameters
    ----------
    runs
        In order, apart from each other.
    total
        Rows of the trace.
    starts
        First row of every step, where steps are known.
    """

    runs: tuple[Run, ...]
    total: int
    starts: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Dummy rows in all."""
        return sum(run.rows for run in self.runs)

    def cut(self, rows: Sequence[int]) -> Dummies:
        """The same for some layers of the table, given by their place in it."""
        runs = tuple(Run(run.first, run.rows, tuple(run.experts[row] for row in rows)) for run in self.runs)
        return Dummies(runs, self.total, self.starts)


def least_run(rows: int, equal_pairs: int, pairs: int) -> int:
    """Rows that a run of equal rows must have to be called dummy.

    Parameters
    ----------
    rows
        Rows of the layer.
    equal_pairs, pairs
        Of neighbouring rows outside runs of `SHORTEST` rows: how many are alike, and how many there are.

    Notes
    -----
    Let tokens be independent with chances ``p_s`` of the sets s. Neighbours are alike with chance
    ``q = sum p_s**2 >= max p_s**2``, so a run of R rows begins at a given row with chance at most
    ``sum p_s**R <= q**((R - 1) / 2)``. The number returned keeps ``rows`` times that at `FALSE_ALARM` or below, with
    q estimated from the trace itself, on the high side. Where one text repeats itself q rises with it.

    Examples
    --------
    >>> least_run(12_805, 60, 4_356), least_run(12_805, 4_000, 4_356)
    (64, 546)
    """
    chance = (equal_pairs + 3) / (pairs + 4)
    return max(SHORTEST, 1 + math.ceil(2 * math.log(max(rows, 1) / FALSE_ALARM) / -math.log(chance)))


def shared_runs(layers: Sequence[Sequence[Run]]) -> list[tuple[int, int]]:
    """Rows ``[first, end)`` that lie in a run of every layer, pieces shorter than `SHORTEST` left aside.

    >>> shared_runs([[Run(0, 200, ((1, 2),))], [Run(50, 100, ((0, 3),)), Run(160, 20, ((0, 3),))]])
    [(50, 150)]
    """
    common = [(run.first, run.first + run.rows) for run in layers[0]] if layers else []
    for runs in layers[1:]:
        common = _overlaps(common, [(run.first, run.first + run.rows) for run in runs])
    return [(first, end) for first, end in common if end - first >= SHORTEST]


def _overlaps(these: list[tuple[int, int]], those: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What two lists of intervals, each in order, have in common."""
    found, one, other = [], 0, 0
    while one < len(these) and other < len(those):
        first, end = max(these[one][0], those[other][0]), min(these[one][1], those[other][1])
        if first < end:
            found.append((first, end))
        if these[one][1] < those[other][1]:
            one += 1
        else:
            other += 1
    return found


def dummy_loads(dummies: Dummies, shape: tuple[int, int]) -> NDArray[np.int64]:
    """(L, E) counts of the dummy rows.

    >>> dummy_loads(Dummies((Run(0, 64, ((0, 2),)),), 100), (1, 4)).tolist()
    [[64, 0, 64, 0]]
    """
    found = np.zeros(shape, dtype=np.int64)
    for run in dummies.runs:
        for row, experts in enumerate(run.experts):
            found[row, list(experts)] += run.rows
    return found


def constant_steps(per_step: NDArray[np.int64], top_k: int | None) -> NDArray[np.intp]:
    """Steps of (T, L, E) in which every busy layer has one count, of `SHORTEST` or more, for all that it selected.

    >>> constant_steps(np.array([[[70, 0, 70]], [[80, 1, 59]]]), 2).tolist()
    [0]
    """
    most = per_step.max(axis=2)
    used = (per_step > 0).sum(axis=2)
    sums = per_step.sum(axis=2)
    busy = sums > 0
    few = used == top_k if top_k is not None else (used <= 16) & (used < per_step.shape[2])
    equal = (sums == most * used) & few & (most >= SHORTEST)
    return np.flatnonzero((equal | ~busy).all(axis=1) & busy.any(axis=1))


@kinds.expects(table="moeopt.workload.table:LoadTable")
def without_dummies(table: LoadTable) -> LoadTable:
    """The table without its dummy rows, said in a note; steps of dummy rows alone are gone too.

    A table without dummy rows comes back as it is.

    >>> import numpy as np
    >>> from moeopt.workload import LoadTable
    >>> table = LoadTable(np.array([[3, 1]]), (0,))
    >>> without_dummies(table) is table
    True
    """
    from dataclasses import replace

    dummies = table.dummies
    if dummies is None or not dummies.runs:
        made_up = () if table.per_step is None else constant_steps(table.per_step, table.top_k)
        if table.per_step is None or not len(made_up):
            return table
        left = np.delete(table.per_step, made_up, axis=0)
        note = f"{len(made_up):,} of {len(table.per_step):,} steps dropped, all of dummy rows"
        fewer = table.loads.astype(np.int64) - table.per_step[made_up].sum(axis=0)
        for array in (fewer, left):
            array.flags.writeable = False
        notes = (*table.notes, note)
        return replace(table, loads=fewer, per_step=left, steps=len(left) or None, notes=notes)
    kept = table.loads.astype(np.int64) - dummy_loads(dummies, (table.loads.shape[0], table.loads.shape[1]))
    kept.flags.writeable = False
    steps, per_step = table.steps, table.per_step
    if per_step is not None and len(dummies.starts) == len(per_step):
        per_step = per_step.copy()
        ends = (*dummies.starts[1:], dummies.total)
        for step, (start, end) in enumerate(zip(dummies.starts, ends, strict=True)):
            for run in dummies.runs:
                inside = min(end, run.first + run.rows) - max(start, run.first)
                if inside > 0:
                    for row, experts in enumerate(run.experts):
                        per_step[step, row, list(experts)] -= inside
        per_step = per_step[per_step.any(axis=(1, 2))]
        per_step.flags.writeable = False
        steps = len(per_step) or None
    note = f"{dummies.rows:,} of {dummies.total:,} rows dropped as dummy rows"
    return replace(table, loads=kept, steps=steps, per_step=per_step, dummies=None, notes=(*table.notes, note))
