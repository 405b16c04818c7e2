"""The load table: how many selections each expert of each layer got, checked entry by entry."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import Violations
from moeopt.workload.dummies import Dummies

Loads = NDArray[np.int64] | NDArray[np.float64]

LEAST = 2.0**-1022
"""Smallest normal double: what lies below has fewer digits, and ratios of such loads are not what they say."""

MASKED = ("a masked entry has no load", "Fill it, such as with array.filled(0), or drop its layer")


@dataclass(frozen=True, eq=False)
class LoadTable:
    """Recorded or generated loads and what is known about them.

    Parameters
    ----------
    loads
        (L, E) selections per expert, int64 or float64, finite and >= 0, read-only; of windows, their sum.
    layers
        L layer ids of the LLM, in the order of the rows.
    steps
        Forward passes the counts were summed over, of windows those of each; ``None`` where the file does not say.
    names
        E expert names, where the file has them.
    source
        File or generator the table came from.
    notes
        What the reader did that was not asked for.
    windows
        (W, L, E) windows, where an array with a third axis holds several.
    top_k
        Experts a token selects, where the recording says it.
    per_step
        (T, L, E) counts of single steps, where the recording has them; they sum to `loads`.
    dummies
        Rows that an engine ran on made-up tokens, where routed ids were read and had some; they count in `loads`.
    """

    loads: Loads
    layers: tuple[int, ...]
    steps: int | tuple[int, ...] | None = None
    names: tuple[str, ...] | None = None
    source: str = ""
    notes: tuple[str, ...] = ()
    windows: Loads | None = None
    top_k: int | None = None
    per_step: NDArray[np.int64] | None = None
    dummies: Dummies | None = None


def as_loads(value: Any, check: Violations, *, layers: Sequence[int] | None = None) -> Loads | None:
    """Turn `value` into a read-only (L, E) table, or note every violation and return ``None``.

    `layers` are ids that messages name rows by.

    One row may be given flat. Integers of any width become int64, so sums never wrap; the caller's array is
    copied. A ragged list, a third axis, text, NaN, infinities, negative and masked entries are each named by place.

    >>> as_loads([[1, 2], [3, 4]], Violations()).tolist()
    [[1, 2], [3, 4]]
    >>> check = Violations(); as_loads([[5.0, float("nan")]], check); print(check.found[0])
    loads[layer 0, expert 1] = nan: loads must be finite tokens >= 0. Drop the window or repair the trace.
    """
    if _name_masked(value, check, layers):
        return None
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        widths = [len(row) if _is_row(row) else None for row in value]
        bad_cells = _name_list_cells(value, check, layers)
        if len(set(widths)) > 1:
            _name_ragged(widths, check, layers)
            return None
        if bad_cells:
            return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        check.add("loads", "...", rule=f"must be a table of layers x experts ({error})", fix="Give rows of numbers")
        return None
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or 0 in array.shape:
        fix = "Sum over the leading axis, or give one array per window" if array.ndim == 3 else "Give rows of numbers"
        check.add("loads", f"shape {array.shape}", rule="must have two axes, layers x experts, none empty", fix=fix)
        return None
    if array.dtype == object or array.dtype.kind not in "iuf":
        _name_non_numbers(array, check, layers)
        return None
    before = len(check.found)
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        _name_places(
            array > np.uint64(2**63 - 1), array, "loads must be below 2**63", "Did a counter wrap?", check, layers
        )
    elif array.dtype.kind == "f":
        bad = ~np.isfinite(array)
        _name_places(
            bad, array, "loads must be finite tokens >= 0", "Drop the window or repair the trace", check, layers
        )
        _name_places(array < 0, array, "loads must be >= 0", "Did a counter wrap?", check, layers)
        rule = f"loads must be 0 or at least {LEAST:.3g}, below which a double has fewer digits"
        _name_places((array > 0) & (array < LEAST), array, rule, "Use another unit, or 0", check, layers)
        with np.errstate(over="ignore"):
            if not bad.any() and not np.isfinite(array.astype(np.float64).sum()):
                rule = "the sum of all must fit a double"
                check.add("loads", "...", rule=rule, fix="Divide all loads by one number")
    else:
        _name_places(array < 0, array, "loads must be >= 0", "Did a counter wrap?", check, layers)
    if len(check.found) > before:
        return None
    table: Loads
    if array.dtype.kind == "f":
        table = array.astype(np.float64)  # astype copies
    else:
        table = array.astype(np.int64)
    table.flags.writeable = False
    return table


def loads_digest(loads: Loads) -> str:
    """First 16 hex digits of the SHA-256 of the entries, row by row, as little-endian int64 (or float64).

    `loads` is a table as `as_loads` gives it.

    >>> loads_digest(np.array([[1, 2]])), loads_digest(np.array([[2, 1]]))
    ('0c730b69905c5ef7', '66c313335fc249ae')
    """
    order = "<f8" if loads.dtype.kind == "f" else "<i8"
    return hashlib.sha256(np.ascontiguousarray(loads, dtype=order).tobytes()).hexdigest()[:16]


def place(layer_index: int, expert: int, layers: Sequence[int] | None = None) -> str:
    """``layer 3, expert 17``, in the LLM's own layer ids where they are known.

    >>> place(0, 17, [3])
    'layer 3, expert 17'
    """
    layer = layers[layer_index] if layers is not None and layer_index < len(layers) else layer_index
    return f"layer {layer}, expert {expert}"


def _name_places(
    bad: NDArray[np.bool_],
    array: NDArray[Any],
    rule: str,
    fix: str,
    check: Violations,
    layers: Sequence[int] | None,
) -> None:
    for row, column in np.argwhere(bad):
        value = array[row, column].item()
        check.add("loads", value, rule=rule, fix=fix, where=place(int(row), int(column), layers))


def _name_ragged(widths: list[int | None], check: Violations, layers: Sequence[int] | None) -> None:
    first = widths[0]
    ids = [layers[row] if layers is not None and row < len(layers) else row for row in range(len(widths))]
    apart: dict[int | None, list[int]] = {}
    for layer, width in zip(ids, widths, strict=True):
        apart.setdefault(width, []).append(layer)
    ways = [f"--layers {id_ranges(members)}" for width, members in apart.items() if width is not None]
    fix = f"Plan layers of another width in an instance of their own: {' and '.join(ways[:4])}"
    for row, width in enumerate(widths):
        if width != first:
            layer = ids[row]
            seen = "a single number" if width is None else f"{width} experts"
            rule = f"every layer must have as many experts as the first one, {first} in layer {ids[0]}"
            check.add("loads", seen, rule=rule, fix=fix, where=f"layer {layer}")


def id_ranges(ids: Sequence[int]) -> str:
    """Ids with runs drawn together.

    >>> id_ranges([1, 2, 3, 7])
    '1-3,7'
    """
    parts: list[list[int]] = []
    for number in ids:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)


def _is_row(item: object) -> bool:
    if isinstance(item, np.ndarray):
        return item.ndim > 0
    return isinstance(item, Sequence) and not isinstance(item, str | bytes)


def _name_masked(value: Any, check: Violations, layers: Sequence[int] | None) -> bool:
    """Name masked entries, whose mask numpy would drop and whose hidden numbers it would take."""
    if isinstance(value, np.ma.MaskedArray):
        rows = [value] if value.ndim < 2 else list(value) if value.ndim == 2 else []
        if value.ndim > 2 and np.ma.is_masked(value):
            count = int(np.ma.getmaskarray(value).sum())
            check.add("loads", f"{count} masked entries", rule=MASKED[0], fix=MASKED[1])
            return True
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        rows = list(value) if any(map(_is_row, value)) else [value]
    else:
        return False
    before = len(check.found)
    for index, row in enumerate(rows):
        if isinstance(row, np.ma.MaskedArray):
            masked = np.flatnonzero(np.ma.getmaskarray(row)).tolist()
        elif isinstance(row, Sequence):
            masked = [expert for expert, item in enumerate(row) if item is np.ma.masked]
        else:
            continue
        for expert in masked:
            check.add("loads", "masked", rule=MASKED[0], fix=MASKED[1], where=place(index, expert, layers))
    return len(check.found) > before


def _name_list_cells(rows: Sequence[Any], check: Violations, layers: Sequence[int] | None) -> bool:
    """Name what numpy would silently turn into a number (a truth value) or round (a large count beside fractions)."""
    lists = [row for row in rows if _is_row(row)] or [rows]  # one layer may be given flat
    kinds = [set(map(type, row)) if isinstance(row, Sequence) else {row.dtype.type} for row in lists]
    fractions = any(issubclass(kind, float | np.floating) for kind in set().union(*kinds))
    exact = 2**53 if fractions else 2**63 - 1
    before = len(check.found)
    for index, (row, kinds_of_row) in enumerate(zip(lists, kinds, strict=True)):
        if kinds_of_row <= {float} or isinstance(row, np.ndarray):
            continue
        if kinds_of_row == {int} and -exact <= min(row) and max(row) <= exact:
            continue
        for expert, item in enumerate(row):
            if _is_row(item):
                continue  # a third axis: the shape is named instead
            if isinstance(item, bool | np.bool_) or not isinstance(item, int | float | np.integer | np.floating):
                rule, fix = "loads must be numbers", "Repair the cell"
            elif isinstance(item, int) and not -(2**63) <= item < 2**63:
                rule, fix = "loads must be below 2**63", "Did a counter wrap?"
            elif isinstance(item, int) and fractions and int(float(item)) != item:
                rule, fix = "a double beside fractions cannot hold this count", "Give whole numbers only"
            else:
                continue
            shown = repr(item) if isinstance(item, str) else item
            check.add("loads", shown, rule=rule, fix=fix, where=place(index, expert, layers))
    return len(check.found) > before


def _name_non_numbers(array: NDArray[Any], check: Violations, layers: Sequence[int] | None) -> None:
    named = False
    for (row, column), item in np.ndenumerate(array):
        if isinstance(item, bool | np.bool_) or not isinstance(item, int | float | np.integer | np.floating):
            rule = "loads must be numbers"
            shown = item.item() if isinstance(item, np.generic) else item
            check.add("loads", shown, rule=rule, fix="Repair the cell", where=place(row, column, layers))
            named = True
        elif isinstance(item, int) and not -(2**63) <= item < 2**63:
            rule = "loads must be below 2**63"
            check.add("loads", item, rule=rule, fix="Did a counter wrap?", where=place(row, column, layers))
            named = True
    if not named:  # a dtype we do not take, such as complex
        check.add("loads", f"dtype {array.dtype}", rule="loads must be integers or floats", fix="Convert the array")
