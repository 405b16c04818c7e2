"""Routing traces token by token: the ids themselves, with every check that counting them has, dummy rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations
from moeopt.workload.table import LoadTable
from moeopt.workload.trace_fold import PADDING, Folding


@dataclass(frozen=True, eq=False)
class TokenIds:
    """The experts that every token selected.

    Parameters
    ----------
    ids
        (L, T, k) int64, -1 for padding; layers without routing are left out.
    layers
        L layer ids.
    num_experts
        E.
    notes
        What was left out or assumed.
    rows, total_rows
        (T,) row of the file that each token was, and how many rows the file has; what is neither is left out.
    """

    ids: NDArray[np.int64]
    layers: tuple[int, ...]
    num_experts: int
    notes: tuple[str, ...] = ()
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    total_rows: int = 0


class _Keeping(Folding):
    """Keeps the rows besides counting them."""

    def __init__(self, check: Violations, **known: Any) -> None:
        super().__init__(check, **known)
        self.rows: dict[int, list[NDArray[np.int32]]] = {}

    def add(
        self,
        layer: int,
        ids: NDArray[Any],
        first: NDArray[np.bool_] | None = None,
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        super().add(layer, ids, first, lines)
        self.rows.setdefault(layer, []).append(ids.astype(np.int32))


def read_token_ids(
    path: str | Path,
    *,
    experts: int | None = None,
    top_k: int | None = None,
    layers: Sequence[int] | None = None,
    dummies: bool = False,
) -> TokenIds:
    """Read the ids of a routing trace, in any form that `read_trace` takes.

    Parameters
    ----------
    path, experts, top_k, layers
        As in `read_trace`.
    dummies
        Keep dummy rows.

    Raises
    ------
    InstanceError
        As in `read_trace`; layers have different numbers of rows, so that rows are not the same tokens.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "trace.npz")
    ...     np.savez(file, topk_ids=np.array([[0, 2], [1, 3], [-1, -1]]))
    ...     found = read_token_ids(file)
    >>> found.ids.tolist(), found.num_experts
    ([[[0, 2], [1, 3]]], 4)
    """
    from moeopt.workload.laws import findings
    from moeopt.workload.traces import _read_file

    check = Violations(str(path))
    folding = _Keeping(check, experts=experts, top_k=top_k)
    order = _read_file(path, folding, check, layers)
    table = folding.table(order, str(path))
    kept = [layer for layer, loads in zip(table.layers, table.loads, strict=True) if loads.any()]
    rows = [_wide(folding.rows[layer]) for layer in kept]
    counts = {layer: len(found) for layer, found in zip(kept, rows, strict=True)}
    if len(set(counts.values())) > 1:
        rule = "every layer must have the same tokens, row by row"
        check.add("topk_ids", f"rows {counts}", rule=rule, fix="Give one layer at a time")
        check.raise_if_any()
    width = max(found.shape[1] for found in rows)
    ids = np.full((len(kept), len(rows[0]), width), PADDING, dtype=np.int64)
    for place, found in enumerate(rows):
        ids[place, :, : found.shape[1]] = found
    notes = [*table.notes, *(f"{one.name}: {one.text}" for one in findings(table) if one.name == "mixed-phases")]
    keep = (ids >= 0).any(axis=(0, 2))
    if not dummies:
        keep &= _no_dummies(ids, table, notes)
    total, numbers = ids.shape[1], np.flatnonzero(keep)
    ids = ids[:, keep]
    ids = ids[:, :, (ids >= 0).any(axis=(0, 1))]
    if not ids.size:
        check.add("topk_ids", "no rows", rule="the trace has no tokens but dummy rows", fix="Record real requests")
        check.raise_if_any()
    return TokenIds(ids, tuple(kept), int(table.loads.shape[1]), tuple(notes), numbers, total)


def _wide(chunks: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    width = max(chunk.shape[1] for chunk in chunks)
    padded = [np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=PADDING) for one in chunks]
    return np.concatenate(padded)


def _no_dummies(ids: NDArray[np.int64], table: LoadTable, notes: list[str]) -> NDArray[np.bool_]:
    """(rows,) which were not made up by the engine."""
    keep = np.ones(ids.shape[1], dtype=bool)
    if table.dummies is None or not table.dummies.runs:
        return keep
    for run in table.dummies.runs:
        keep[run.first : run.first + run.rows] = False
    notes.append(f"{table.dummies.rows:,} of {table.dummies.total:,} rows dropped as dummy rows")
    return keep
