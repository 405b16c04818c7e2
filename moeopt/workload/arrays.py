"""One array of whole numbers from a `.npy`, `.npz`, `.csv` or `.json`, with everything wrong said at once."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.documents import read_bytes, read_json
from moeopt.errors import Violations
from moeopt.workload.readers import split_key

Ints = NDArray[np.int64]
NAMED = 5
"""Cells that are no numbers are named one by one up to so many."""
ENDINGS = (".npy", ".npz", ".csv", ".json")


def read_array(path: str, field: str, names: Sequence[str]) -> Ints:
    """The array in a file.

    Parameters
    ----------
    path
        The file; ``FILE:KEY`` names an array of an `.npz`, a key of a `.json` or a column of a `.csv`.
    field
        What it is, for messages.
    names
        Keys and columns it goes by where no KEY is given; else the only one there is.

    Raises
    ------
    InstanceError
        Another ending, no such key, broken, or not whole numbers.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "source.csv")
    ...     _ = file.write_text("token,gpu\\n0,3\\n1,2\\n")
    ...     read_array(str(file), "source", ("source", "gpu")).tolist()
    [3, 2]
    """
    file, key = split_key(path)
    check = Violations(file)
    ending = Path(file).suffix.lower()
    if ending not in ENDINGS:
        check.add(field, path, rule=f"is read from {', '.join(ENDINGS)}", fix="Write it as one of these")
        check.raise_if_any()
    data = read_bytes(file)
    if ending == ".csv":
        found: Any = _csv(data, field, key, names, check)
    elif ending == ".json":
        found = _json(read_json(data, file), field, key, names, check)
    else:
        found = _numpy(data, ending, field, key, names, check)
    check.raise_if_any()
    try:
        array = np.asarray(found)
    except (ValueError, OverflowError):
        array = np.zeros(0, dtype=object)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64) if float(np.abs(array).max(initial=0)) < 2**62 else array
    if array.dtype.kind not in "iu" or not array.size:
        what = f"{array.dtype} of shape {array.shape}"
        check.add(field, what, rule="must be whole numbers, in rows of equal length", fix="Write them as integers")
        check.raise_if_any()
    if array.dtype.kind == "u" and int(array.max()) >= 2**63:
        check.add(field, int(array.max()), rule="is beyond 63 bits", fix="Write smaller numbers")
        check.raise_if_any()
    return array.astype(np.int64)


def _chosen(keys: Sequence[str], key: str | None, field: str, names: Sequence[str], check: Violations) -> str | None:
    """Which of several is meant."""
    if key is not None and key in keys:
        return key
    known = ", ".join(keys) or "nothing"
    if key is not None:
        check.add(field, key, rule=f"is not in the file, which holds {known}", fix="Give FILE:KEY with one of these")
        return None
    found = [name for name in names if name in keys]
    if len(found) == 1 or (not found and len(keys) == 1):
        return (found or list(keys))[0]
    rule = f"the file holds {known}" + (", and several go by that name" if found else "")
    check.add(field, "missing", rule=rule, fix=f"Name one {names[0]}, or give FILE:KEY")
    return None


def _numpy(data: bytes, ending: str, field: str, key: str | None, names: Sequence[str], check: Violations) -> Any:
    from moeopt.workload.numpy_loads import _array, _unpack

    if ending == ".npy":
        if key is not None:
            check.add(field, key, rule="is a key, and a .npy holds one array", fix="Leave the key out")
        return _array(field, data, check)
    members = _unpack(data, check)
    if members is None:
        return None
    chosen = _chosen(list(members), key, field, names, check)
    return None if chosen is None else _array(chosen, members[chosen], check)


def _json(document: Any, field: str, key: str | None, names: Sequence[str], check: Violations) -> Any:
    if isinstance(document, dict):
        lists = [name for name, value in document.items() if isinstance(value, list)]
        chosen = _chosen(lists, key, field, names, check)
        return None if chosen is None else document[chosen]
    if key is not None:
        check.add(field, key, rule="is a key, and the file holds one list", fix="Leave the key out")
    elif not isinstance(document, list):
        rule = "must be a list of numbers, or an object with one"
        check.add(field, type(document).__name__, rule=rule, fix="Write [0, 1, ...]")
    return document


def _csv(data: bytes, field: str, key: str | None, names: Sequence[str], check: Violations) -> Any:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        check.add(field, "...", rule=f"is not UTF-8 text (byte {error.start})", fix="Is this a CSV file?")
        return None
    rows = [
        (line, row) for line, row in enumerate(csv.reader(io.StringIO(text)), 1) if any(cell.strip() for cell in row)
    ]
    if not rows:
        check.add(field, "''", rule="the file is empty", fix="Check that the copy finished")
        return None
    heads = [cell.strip() for cell in rows[0][1]]
    place = None
    if any(_number(cell) is None for cell in heads):
        rows = rows[1:]
        chosen = heads[0] if len(heads) == 1 and key is None else _chosen(heads, key, field, names, check)
        if chosen is None:
            return None
        place = heads.index(chosen)
    elif key is not None:
        check.add(field, key, rule="is a column, and the file has no row of names", fix="Leave it out")
        return None
    wrong, table = 0, []
    for line, row in rows:
        if place is not None and place >= len(row):
            check.add(field, f"{len(row)} cells", rule=f"has no column {heads[place]}", where=f"line {line}")
            return None
        cells = row if place is None else [row[place]]
        numbers = [_number(cell) for cell in cells]
        if None in numbers:
            wrong += 1
            if wrong <= NAMED:
                shown = cells[numbers.index(None)]
                check.add(field, shown or "''", rule="must be a whole number", fix="Repair it", where=f"line {line}")
        table.append(numbers)
    if wrong > NAMED:
        check.add(field, f"{wrong:,} lines", rule="have this fault in all", fix="See above")
    if wrong:
        return None
    return [row[0] for row in table] if all(len(row) == 1 for row in table) else table


def _number(cell: str) -> int | None:
    try:
        return int(cell.strip())
    except ValueError:
        return None
