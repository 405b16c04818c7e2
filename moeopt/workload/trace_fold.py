"""Routed ids, chunk by chunk, folded to counts: checked, with their steps and their long runs of equal rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations
from moeopt.workload.dummies import SHORTEST, Dummies
from moeopt.workload.sums import add_counts
from moeopt.workload.table import LoadTable
from moeopt.workload.trace_layers import LayerSoFar, dummy_runs, grown, note_run

PADDING = -1
CHUNK_ROWS = 16_384
"""Rows that are looked at together."""
EXPERTS_MAX = 65_536
STEP_BYTES_MAX = 2**28
"""Counts of single steps are kept up to this size."""
NAMED = 100
"""Violations of one kind that are named one by one."""

Ids = NDArray[np.int64]


class Folding:
    """Takes the routed ids of a trace in pieces and makes one `LoadTable` of them.

    Parameters
    ----------
    check
        Takes what is wrong.
    experts
        E, where it is known; else one more than the largest id.
    top_k
        Experts a token selects, where it is known.

    Notes
    -----
    Memory is that of a chunk, of the counts, and of the counts of single steps up to `STEP_BYTES_MAX`.

    Examples
    --------
    >>> folding = Folding(Violations(), experts=4)
    >>> folding.add(3, np.array([[0, 2], [2, 3], [-1, -1]]))
    >>> table = folding.table()
    >>> table.loads.tolist(), table.layers, table.top_k, table.notes
    ([[1, 0, 2, 1]], (3,), 2, ('1 padding row (-1) left out in a layer',))
    """

    def __init__(self, check: Violations, *, experts: int | None = None, top_k: int | None = None) -> None:
        self.check = check
        self.experts = experts
        self.top_k = top_k
        self.notes: list[str] = []
        self._width = 0
        self._layers: dict[int, LayerSoFar] = {}
        self._named: dict[str, int] = {}
        self._bytes = 0
        self._steps_known = True
        self._closed: set[int] = set()

    def close(self) -> None:
        """A file has ended: its layers come in no other."""
        self._closed |= set(self._layers)

    def add(
        self,
        layer: int,
        ids: NDArray[Any],
        first: NDArray[np.bool_] | None = None,
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        """Fold the next rows of a layer.

        Parameters
        ----------
        layer
            Id of the layer.
        ids
            (rows, k) expert ids in any order; -1 is padding, of whole rows or of whole columns.
        first
            (rows,) where a step begins; ``None``: steps are not known.
        lines
            (rows,) lines of the file, to name places by.
        """
        if layer in self._closed:
            rule = "the layer is in a file before this one too"
            self.check.add("layer", layer, rule=rule, fix="Give files of different layers of one recording")
            self._closed.remove(layer)  # said once
        for start in range(0, len(ids), CHUNK_ROWS):
            end = start + CHUNK_ROWS
            self._chunk(
                layer,
                ids[start:end],
                None if first is None else first[start:end],
                None if lines is None else lines[start:end],
            )

    def _chunk(
        self, layer: int, ids: NDArray[Any], first: NDArray[np.bool_] | None, lines: NDArray[np.int64] | None
    ) -> None:
        state = self._layers.setdefault(layer, LayerSoFar())
        self._width = max(self._width, ids.shape[1])
        whole = np.minimum(ids, np.iinfo(np.int64).max) if ids.dtype == np.uint64 else ids  # none wraps to padding
        rows = np.sort(whole.astype(np.int64), axis=1)
        zero = (rows == 0).all(axis=1) if rows.shape[1] > 1 else np.zeros(len(rows), dtype=bool)
        good = self._checked(state, layer, ids, rows, zero, lines)
        if zero.any() and not state.zeros:
            state.first_zero = state.rows + int(zero.argmax())
        state.zeros += int(zero.sum())
        state.padded += int((rows[:, -1] == PADDING).sum())
        cells = np.where((good & ~zero)[:, None], rows, PADDING)
        self._count(state, cells, first)
        self._follow(state, rows)
        state.rows += len(rows)

    def _checked(
        self,
        state: LayerSoFar,
        layer: int,
        ids: NDArray[Any],
        rows: Ids,
        zero: NDArray[np.bool_],
        lines: NDArray[np.int64] | None,
    ) -> NDArray[np.bool_]:
        """Which rows can be counted; what is wrong with the others is named."""
        most = EXPERTS_MAX if self.experts is None else self.experts
        low, high = rows[:, 0] < PADDING, rows[:, -1] >= most
        filled = rows != PADDING
        width = filled.sum(axis=1)
        some = width > 0
        if self.top_k is None and (some & ~zero).any():
            many = np.bincount(width[some & ~zero])
            self.top_k = int(np.flatnonzero(many == many.max())[-1])  # of most rows: the first may be the odd one
        uneven = some & (width != self.top_k) & ~zero
        twice = ((rows[:, 1:] == rows[:, :-1]) & filled[:, 1:]).any(axis=1) & ~zero

        def name(kind: str, bad: NDArray[np.bool_], value: Any, rule: str, fix: str) -> None:
            places = np.flatnonzero(bad)
            room = NAMED - self._named.get(kind, 0)
            self._named[kind] = self._named.get(kind, 0) + len(places)
            for row in places[: max(room, 0)].tolist():
                where = f"layer {layer}, row {state.rows + row}" + ("" if lines is None else f", line {lines[row]}")
                self.check.add("topk_ids", value(row), rule=rule, fix=fix, where=where)

        known = f"expert ids run from 0 to {most - 1}" + ("" if self.experts is not None else " at most")
        name("high", high, lambda row: int(ids[row].max()), known, "Are they ids of slots, or of another LLM?")
        name("low", low, lambda row: int(rows[row, 0]), f"{known}; -1 is padding", "Did an id wrap?")
        name(
            "twice",
            twice & ~low,
            lambda row: _repeated(rows[row]),
            "stands twice in one token, and a token selects different experts",
            "Are they ids of slots, or rows of several tokens?",
        )
        name(
            "uneven",
            uneven & ~low,
            lambda row: f"{int(width[row])} experts",
            f"every token must have top_k = {self.top_k} experts",
            "Record before ids are mapped to those of one rank",
        )
        good: NDArray[np.bool_] = some & ~(low | high | twice | uneven)
        return good

    def _count(self, state: LayerSoFar, cells: Ids, first: NDArray[np.bool_] | None) -> None:
        most = max(int(cells.max(initial=PADDING)) + 1, len(state.counts))
        state.counts = grown(state.counts, most)
        kept = cells >= 0
        add_counts(state.counts, np.bincount(cells[kept], minlength=most), self.check, axes=("expert",))
        if first is None:
            self._forget_steps()
        if not self._steps_known or first is None:
            return
        if not state.rows and len(first) and not first[0]:
            first = first.copy()
            first[0] = True  # a trace may begin inside a step
        state.starts += (state.rows + np.flatnonzero(first)).tolist()
        step = np.cumsum(first) - 1 + (0 if not state.rows else 1)  # 0: the step that goes on, where there is one
        count = int(step.max(initial=-1)) + 1
        flat = np.broadcast_to(step[:, None], cells.shape)[kept] * most + cells[kept]
        found = np.bincount(flat, minlength=count * most).reshape(count, most)
        parts = list(found)
        if state.rows and parts:
            state.steps[-1] = grown(state.steps[-1], most) + parts[0]
            parts = parts[1:]
        state.steps += parts
        self._bytes += len(parts) * most * 8
        if self._bytes > STEP_BYTES_MAX:
            self._forget_steps()
            self.notes.append(f"counts of single steps take more than {STEP_BYTES_MAX >> 20} MiB and are not kept")

    def _forget_steps(self) -> None:
        self._steps_known = False
        for state in self._layers.values():
            state.steps, state.starts = [], []

    def _follow(self, state: LayerSoFar, rows: Ids) -> None:
        """Note where rows stop being like the row before."""
        if not len(rows):
            return
        before = rows[:1] if state.last is None or len(state.last) != rows.shape[1] else state.last[None]
        changed = (np.concatenate([before, rows[:-1]]) != rows).any(axis=1)
        state.alike += int(len(rows) - changed.sum()) - (state.rows == 0)
        ends = np.flatnonzero(changed)
        if len(ends):
            starts = np.concatenate([[state.run_first], state.rows + ends[:-1]])
            stops = state.rows + ends
            for place in np.flatnonzero(stops - starts >= SHORTEST).tolist():
                row = before[0] if place == 0 else rows[ends[place] - 1]
                note_run(state, int(starts[place]), int(stops[place]), row)
            state.run_first = int(stops[-1])
        state.last = rows[-1].copy()

    def table(self, order: list[int] | None = None, source: str = "") -> LoadTable:
        """The counts of all layers, once everything was given.

        Parameters
        ----------
        order
            Ids of the layers as rows of the table; ascending by default.
        source
            Name of the file.

        Raises
        ------
        InstanceError
            Anything was wrong, or nothing was routed; all at once.
        """
        check, layers = self.check, self._layers
        if check.found and not layers:
            check.raise_if_any()  # what was wrong is why nothing is there
        if not layers or all(state.idle for state in layers.values()):
            check.add("topk_ids", "no rows", rule="the trace has no routed tokens", fix="Record some")
        elif self.top_k is not None and self.experts is not None and self.top_k > self.experts:
            rule = f"must be at most experts = {self.experts}"
            check.add("top_k", self.top_k, rule=rule, fix="A token selects different experts")
        for layer, state in layers.items():
            if state.zeros and not state.idle:
                rule = "rows are expert 0 alone: a buffer that was not filled"
                where = f"layer {layer}, from row {state.first_zero}"
                check.add("topk_ids", f"{state.zeros:,} rows", rule=rule, fix="Leave them out", where=where)
        for kind, count in self._named.items():
            if count > NAMED:
                check.add("topk_ids", f"{count:,} rows", rule=f"have this fault in all ({kind})", fix="See above")
        check.raise_if_any()
        ids = sorted(layers) if order is None else order
        states = [layers[layer] for layer in ids]
        seen = max(len(state.counts) for state in states)
        experts = seen if self.experts is None else self.experts
        loads = np.stack([grown(state.counts, experts) for state in states])
        loads.flags.writeable = False
        per_step = self._per_step(states, experts)
        self._say(ids, states)
        runs, total = dummy_runs(states), max(state.rows for state in states)
        starts = () if per_step is None else tuple(states[0].starts)
        steps = None if per_step is None else len(per_step)
        dummies = Dummies(runs, total, starts) if runs else None
        return LoadTable(loads, tuple(ids), steps, None, source, tuple(self.notes), None, self.top_k, per_step, dummies)

    def _per_step(self, states: list[LayerSoFar], experts: int) -> NDArray[np.int64] | None:
        if not self._steps_known:
            return None
        if any(state.starts != states[0].starts for state in states):
            self.notes.append("steps begin at other rows in other layers, and are not told apart")
            return None
        count, cells = len(states[0].starts), len(states) * experts
        if count * cells * 8 > STEP_BYTES_MAX:
            self.notes.append(f"counts of single steps take more than {STEP_BYTES_MAX >> 20} MiB and are not kept")
            return None
        found = np.zeros((count, len(states), experts), dtype=np.int64)
        for row, state in enumerate(states):
            for step, counts in enumerate(state.steps):
                found[step, row, : len(counts)] = counts
        found.flags.writeable = False
        return found

    def _say(self, ids: list[int], states: list[LayerSoFar]) -> None:
        if self.experts is None:
            most = max(len(state.counts) for state in states)
            self.notes.append(f"experts are taken to be {most}, one more than the largest id: the trace does not say")
        padded = max(state.padded for state in states)
        if padded:
            self.notes.append(f"{padded:,} padding row{'s' if padded > 1 else ''} (-1) left out in a layer")
        if self.top_k is not None and self._width > self.top_k:
            self.notes.append(f"{self._width - self.top_k} of {self._width} columns are padding (-1)")
        empty = [layer for layer, state in zip(ids, states, strict=True) if state.zeros]
        if empty:
            what = f"layer {empty[0]}" if len(empty) == 1 else f"{len(empty)} layers"
            self.notes.append(f"{what} with expert 0 alone, as an unfilled buffer has it, taken as idle")


def _repeated(row: NDArray[Any]) -> str:
    same = row[1:][(row[1:] == row[:-1]) & (row[1:] != PADDING)]
    return f"expert {int(same[0])}"
