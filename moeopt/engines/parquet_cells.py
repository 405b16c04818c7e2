"""Cells and names of columns of a `.parquet`: numbers or a fault, and what the readers of CSV say of the names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations

IDS_MAX = 65536
"""Experts of a layer, at most."""


def numbers(column: Any, name: str, check: Violations, *, fractions: bool = False) -> NDArray[Any]:
    """The numbers of a column; empty cells, text, and fractions where none may be, are refused."""
    if column.null_count:
        check.add(name, f"{column.null_count} empty cells", rule="every cell must have a number", fix="Drop the rows")
        check.raise_if_any()
    array: NDArray[Any] = np.asarray(column)
    if array.dtype.kind not in ("iuf" if fractions else "iu"):
        quoted = array.dtype.kind in "OUS"
        rule = "must be numbers, not text" if quoted else "must be whole numbers"
        check.add(name, str(column.type), rule=rule, fix="Write the column as integers")
        check.raise_if_any()
    return array


@contextmanager
def as_columns(check: Violations) -> Iterator[Violations]:
    """Takes what a reader of CSV notes about the names in line 1, and says it of the columns of a table."""
    inner = Violations()
    yield inner
    for one in inner.found:
        own = one.field == "csv" and one.where == "line 1"
        check.found.append(replace(one, field="columns", where="") if own else one)


def width_of(largest: int, experts: int | None, check: Violations, notes: list[str]) -> int:
    """E: as it is known, and no id beyond; else one more than the largest id, which is noted."""
    if experts is not None and not 1 <= experts <= IDS_MAX:
        check.add("experts", experts, rule=f"must be from 1 to {IDS_MAX}", fix="Leave it out where it is not known")
        check.raise_if_any()
    if experts is None:
        notes.append(f"experts are taken to be {largest + 1}, one more than the largest id")
        return largest + 1
    if largest >= experts:
        rule = f"ids of experts run from 0 to {experts - 1}"
        check.add("expert", largest, rule=rule, fix="Is it a recording of another LLM?")
        check.raise_if_any()
    return experts
