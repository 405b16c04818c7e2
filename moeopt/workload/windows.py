"""Several tables of loads as windows: each checked by itself, their sum kept within whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from moeopt.errors import Violations
from moeopt.workload.table import Loads, as_loads
from moeopt.workload.table import place as place_of


def stacked(values: Iterable[Any], check: Violations, layers: Sequence[int] | None) -> Loads | None:
    """(W, L, E) read-only windows, or every violation noted, each with its window, and ``None``.

    >>> stacked([[[1, 2]], [[3, 4]]], Violations(), None).shape
    (2, 1, 2)
    >>> check = Violations(); stacked([[[1, 2]], [[3]]], check, None); print(check.found[0].where)
    window 1
    """
    before = len(check.found)
    tables: list[Loads] = []
    for place, value in enumerate(values):
        mine = Violations()
        table = as_loads(value, mine, layers=layers)
        check.found += [
            replace(one, where=", ".join(filter(None, (f"window {place}", one.where)))) for one in mine.found
        ]
        if table is not None:
            tables.append(table)
    if len(check.found) > before:
        return None
    for place, table in enumerate(tables):
        if table.shape != tables[0].shape:
            shown = f"{table.shape[0]} layers of {table.shape[1]} experts"
            rule = f"every window must have the shape of the first, {tables[0].shape[0]} x {tables[0].shape[1]}"
            check.add("loads", shown, rule=rule, fix="Plan windows of another shape apart", where=f"window {place}")
    if len(check.found) > before:
        return None
    stack: Any = np.stack(tables)
    if stack.dtype == np.int64 and int(stack.max()) > (2**63 - 1) // len(tables):
        check.add("loads", "...", rule="the sum over windows must be below 2**63", fix="Divide all loads by one number")
        return None
    with np.errstate(over="ignore"):
        total = stack.sum(axis=0, dtype=np.float64)
    if not np.isfinite(total).all():
        row, expert = np.argwhere(~np.isfinite(total))[0].tolist()
        rule = "the sum over windows must be a finite double"
        fix = "Divide all loads by one number"
        check.add("loads", float(stack[:, row, expert].max()), rule=rule, fix=fix, where=place_of(row, expert, layers))
        return None
    stack.flags.writeable = False
    windows: Loads = stack
    return windows
