"""A `LinearModel` as free MPS text with short names, and solutions in the form that CBC reads."""

from __future__ import annotations

import math

import numpy as np

from moeopt.backends.base import FloatArray, LinearModel


def to_mps(model: LinearModel) -> str:
    """Columns ``x0, x1, ...`` and rows ``r0, r1, ...``; numbers keep all their digits, the offset is left out.

    Every integer column has its bounds written out, for readers disagree on what is meant without them.

    >>> model = LinearModel(("a",), [2.0], 0.0, ("b",), [0, 1], [0], [3.0], [4.0], [9.0], [0.0], [5.0], [True])
    >>> print(to_mps(model))
    NAME          moeopt    FREE
    ROWS
     N cost
     L r0
    COLUMNS
     M0 'MARKER' 'INTORG'
     x0 cost 2.0
     x0 r0 3.0
     M1 'MARKER' 'INTEND'
    RHS
     RHS r0 9.0
    RANGES
     RNG r0 5.0
    BOUNDS
     LO BND x0 0.0
     UP BND x0 5.0
    ENDATA
    """
    lines = ["NAME          moeopt    FREE", "ROWS", " N cost"]
    right, ranges = ["RHS"], ["RANGES"]
    for i, (lower, upper) in enumerate(zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)):
        kind, side = _sense(lower, upper)
        if kind == "N":
            continue  # a row without bounds says nothing
        lines.append(f" {kind} r{i}")
        if side:
            right.append(f" RHS r{i} {side!r}")
        if kind == "L" and lower > -math.inf:
            ranges.append(f" RNG r{i} {upper - lower!r}")
    return "\n".join([*lines, *_columns(model), *right, *ranges, *_bounds(model), "ENDATA"])


def to_start(model: LinearModel, values: FloatArray) -> str:
    """Values as a CBC solution file."""
    lines = ["Stopped on time - objective value 0"]
    return "\n".join([*lines, *(f"{j:>7} x{j} {value!r} 0" for j, value in enumerate(values.tolist()))]) + "\n"


def _sense(lower: float, upper: float) -> tuple[str, float]:
    if lower == upper:
        return "E", upper
    if upper < math.inf:
        return "L", upper
    return ("G", lower) if lower > -math.inf else ("N", 0.0)


def _columns(model: LinearModel) -> list[str]:
    free = (model.row_lower == -math.inf) & (model.row_upper == math.inf)
    row_of = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    keep = np.flatnonzero(~free[row_of])
    order = keep[np.lexsort((row_of[keep], model.indices[keep]))]
    entries = list(zip(model.indices[order].tolist(), row_of[order].tolist(), model.data[order].tolist(), strict=True))
    lines, position, integral = ["COLUMNS"], 0, False
    markers = 0
    for j, cost in enumerate(model.cost.tolist()):
        if bool(model.integral[j]) != integral:
            integral = not integral
            lines.append(f" M{markers} 'MARKER' '{'INTORG' if integral else 'INTEND'}'")
            markers += 1
        lines.append(f" x{j} cost {cost!r}")
        while position < len(entries) and entries[position][0] == j:
            lines.append(f" x{j} r{entries[position][1]} {entries[position][2]!r}")
            position += 1
    if integral:
        lines.append(f" M{markers} 'MARKER' 'INTEND'")
    return lines


def _bounds(model: LinearModel) -> list[str]:
    lines = ["BOUNDS"]
    for j, (lower, upper) in enumerate(zip(model.column_lower.tolist(), model.column_upper.tolist(), strict=True)):
        if lower == -math.inf:
            lines.append(f" {'FR' if upper == math.inf else 'MI'} BND x{j}")
        else:
            lines.append(f" LO BND x{j} {lower!r}")
        if upper < math.inf:
            lines.append(f" UP BND x{j} {upper!r}")
        elif lower > -math.inf:
            lines.append(f" PL BND x{j}")
    return lines
