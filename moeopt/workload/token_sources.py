"""The GPU that each token lies on, from a file of its own or from the trace itself."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InstanceError, Violation, Violations
from moeopt.workload.arrays import read_array
from moeopt.workload.token_ids import TokenIds

Ints = NDArray[np.int64]
NAMES = ("source", "sources", "source_gpu", "source_rank", "gpu", "rank")
"""Arrays, keys and columns that sources go by."""


def read_sources(path: str, trace: str, found: TokenIds) -> tuple[Ints, str]:
    """(T,) GPU of each token that was kept of a trace, and where it was read.

    Parameters
    ----------
    path
        A file, ``FILE:KEY``, or ``:KEY`` for an array or key in the trace itself.

    Raises
    ------
    InstanceError
        It cannot be read, or is not one whole number a row of the trace.
    """
    where = path
    if path.startswith(":"):
        table: Ints | None = _beside(trace, path[1:])
        where = f"{trace}{path}"
        if table is None:
            rule = f"is no array or key of {trace}"
            raise InstanceError([Violation("source", "", path[1:], rule, "Give a file with one GPU a token")])
    else:
        table = read_array(path, "source", NAMES)
    return of_rows(table, found, where), where


def sources_within(trace: str, found: TokenIds) -> tuple[Ints, str] | None:
    """The same from a trace that has them as ``source``; ``None`` where it has not."""
    table = _beside(trace, "source")
    return None if table is None else (of_rows(table, found, trace), f"{trace}:source")


def of_rows(table: Ints, found: TokenIds, where: str) -> Ints:
    """The sources of the rows of a trace that were kept."""
    check = Violations(where)
    flat = table.reshape(-1) if table.ndim == 2 and 1 in table.shape else table
    if flat.ndim != 1 or len(flat) != found.total_rows:
        said = f"{len(flat):,} numbers" if flat.ndim == 1 else f"shape {table.shape}"
        rule = (
            f"must be one GPU for each of the {found.total_rows:,} rows of the trace, padding and dummy rows among them"
        )
        check.add("source", said, rule=rule, fix="Record them with the trace")
        check.raise_if_any()
    kept: Ints = flat[found.rows]
    return kept


def _beside(trace: str, key: str) -> Ints | None:
    """An array of an `.npz`, or a key of every row of JSON lines (of the layer that comes first)."""
    if trace.lower().endswith(".npz"):
        with zipfile.ZipFile(trace) as archive:
            if f"{key}.npy" not in archive.namelist():
                return None
        return read_array(f"{trace}:{key}", "source", NAMES)
    first: Any = None
    found: list[int] = []
    check, missing = Violations(trace), 0
    with Path(trace).open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            entry = json.loads(line)  # the trace was read before, and every line is JSON
            if entry.get("type") != "route":
                continue
            first = entry["layer"] if first is None else first
            if entry["layer"] != first:
                continue
            value = entry.get(key)
            if value is None:
                missing += 1
            elif type(value) is not int:
                check.add(key, value, rule="must be the number of a GPU", fix="Log its rank", where=f"line {number}")
            else:
                found.append(value)
    check.raise_if_any()
    if not found:
        return None
    if missing:
        rule = f"stands in {len(found):,} rows of the trace and lacks in {missing:,}"
        raise InstanceError([Violation("source", "", key, rule, "Log it with every row, or with none")])
    return np.array(found, dtype=np.int64)
