"""Experts in slots as a table that nobody writes to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import PlanError


def slot_table(slot_expert: Any) -> NDArray[np.int32]:
    """(L, S) experts of slots, a copy, read-only, of anything array-like: one layer flat or all layers.

    Raises
    ------
    PlanError
        It is no table of whole numbers of 32 bits.

    >>> slot_table([0, 1, 1, 2]).tolist()
    [[0, 1, 1, 2]]
    """
    if isinstance(slot_expert, np.ma.MaskedArray) and np.ma.is_masked(slot_expert):
        raise PlanError(["slot_expert has entries that are masked: an empty slot is -1"])
    try:
        array = np.asarray(slot_expert)
    except ValueError as error:
        raise PlanError([f"slot_expert is not a table of layers x slots: {_lengths(slot_expert)}"]) from error
    except OverflowError as error:
        raise PlanError(["slot_expert holds an id beyond 32 bits"]) from error
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or array.dtype.kind not in "iu" or array.size == 0:
        raise PlanError([f"slot_expert has shape {array.shape}, dtype {array.dtype}: need whole (layers, slots)"])
    if int(array.max()) >= 2**31 or int(array.min()) < -(2**31):
        raise PlanError(["slot_expert holds an id beyond 32 bits"])
    copy = array.astype(np.int32, order="C")
    copy.flags.writeable = False
    return copy


def _lengths(rows: Any) -> str:
    """How the rows of what is no table differ."""
    try:
        sizes = [len(row) for row in rows]
    except TypeError:
        return "some rows are no lists"
    odd = next((row for row, size in enumerate(sizes) if size != sizes[0]), None)
    if odd is None:
        return "entries are no numbers"
    return f"row 0 has {sizes[0]} slots, row {odd} has {sizes[odd]}"
