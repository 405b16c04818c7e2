"""Loads from `.npy` and `.npz`, without ever running a pickle or unpacking more than a set size."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.archives import SEVERAL, joined
from moeopt.errors import Violations
from moeopt.workload.assemble import Content

UNPACKED_BYTES_MAX = 2**30
SPARSE_KEYS = frozenset({"format", "shape", "data"})
BESIDE = ("layers", "steps", "names")
"""Arrays that describe the table of the same `.npz` and are never the table."""


def parse_npy(data: bytes, check: Violations) -> Content | None:
    """The one array of a `.npy` file.

    >>> file = io.BytesIO(); np.save(file, np.array([[1, 2]])); parse_npy(file.getvalue(), Violations()).loads
    array([[1, 2]])
    """
    array = _array("npy", data, check)
    return None if array is None else Content(array)


def parse_npz(data: bytes, key: str | None, check: Violations) -> Content | None:
    """The array `key` of an `.npz` file: the only one, else ``loads``, if no key is given; or a scipy.sparse matrix.

    >>> file = io.BytesIO(); np.savez(file, a=np.ones((2, 4)), b=np.ones((2, 8)))
    >>> parse_npz(file.getvalue(), "b", Violations()).loads.shape
    (2, 8)
    >>> check = Violations(); parse_npz(file.getvalue(), None, check); print(check.found[0])
    key = missing: the file holds several arrays: a (2, 4), b (2, 8). Give FILE:KEY, such as :a.
    """
    members = _unpack(data, check)
    if members is None:
        return None
    if key is None and members.keys() >= SPARSE_KEYS:
        return _sparse(data, check)
    tables, chosen = table_of(members, key)
    if not tables:
        fix = "Store the table as loads"
        check.add("npz", ", ".join(members) or "empty", rule="the file holds no table of loads", fix=fix)
        return None
    if chosen not in members:
        shapes = ", ".join(f"{name} {_shape(member)}" for name, member in members.items() if name in tables)
        rule = (
            f"the file holds several arrays: {shapes}" if key is None else f"is not in the file, which holds {shapes}"
        )
        check.add("key", "missing" if key is None else key, rule=rule, fix=f"Give FILE:KEY, such as :{tables[0]}")
        return None
    loads = _array(chosen, members[chosen], check)
    layers, steps, names = (_array(name, members[name], check) if name in members else None for name in BESIDE)
    others = [name for name in tables if name != chosen]
    notes = (f"{', '.join(others)} in the same file not read",) if others and key is None else ()
    if loads is None:
        return None
    return Content(loads, _plain(layers), _scalar(steps), _plain(names), notes)


def table_of(names: Iterable[str], key: str | None) -> tuple[list[str], str]:
    """The arrays of an `.npz` that may be its table, and the one that is: `key`, the only one, or ``loads``.

    >>> table_of(["layers", "cube"], None)
    (['cube'], 'cube')
    """
    tables = [name for name in names if name not in BESIDE]
    return tables, key if key is not None else tables[0] if len(tables) == 1 else "loads"


def _unpack(data: bytes, check: Violations) -> dict[str, bytes] | None:
    members: dict[str, bytes] = {}
    before = len(check.found)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if several := joined(archive):
                check.add("npz", f"{len(data)} bytes", rule=several, fix=SEVERAL)
                return None
            size = sum(info.file_size for info in archive.infolist())
            if size > UNPACKED_BYTES_MAX:
                rule = f"would unpack to more than {UNPACKED_BYTES_MAX} bytes"
                check.add("npz", f"{size} bytes", rule=rule, fix="Store the load table alone")
                return None
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name == info.filename:
                    check.add("npz", name, rule="is not an array", fix="Write the file with numpy.savez")
                elif name in members:
                    check.add("npz", name, rule="the array stands twice in the file", fix="Write the file again")
                else:
                    with archive.open(info) as file:
                        members[name] = file.read(info.file_size)
    except Exception as error:  # bytes from anywhere: zipfile and zlib fail in more ways than they document
        rule = f"is not a whole .npz archive ({error})"
        check.add("npz", f"{len(data)} bytes", rule=rule, fix="Was the file cut short?")
        return None
    return members if len(check.found) == before else None


def _array(name: str, data: bytes, check: Violations) -> NDArray[Any] | None:
    file = io.BytesIO(data)
    try:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # bytes from anywhere: a broken header fails in numpy, ast, tokenize or malloc
        pickled = "Object arrays" in str(error)
        rule = "holds Python objects, which are not read" if pickled else f"is not a whole .npy array ({error})"
        fix = "Save plain numbers" if pickled else "Was the file cut short?"
        check.add(name, f"{len(data)} bytes", rule=rule, fix=fix)
        return None
    if file.tell() != len(data):
        extra = f"{len(data) - file.tell()} bytes"
        check.add(name, extra, rule="follow the end of the array", fix="Store one array per .npy, or use .npz")
        return None
    return array


def _shape(data: bytes) -> str:
    array = _array("", data, Violations())
    return "unreadable" if array is None else str(array.shape)


def _sparse(data: bytes, check: Violations) -> Content | None:
    from scipy import sparse  # heavy, and few files need it

    try:
        matrix = sparse.load_npz(io.BytesIO(data))
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # scipy's compiled loops trust the indices
        if len(matrix.shape) != 2 or matrix.shape[0] * matrix.shape[1] * 8 > UNPACKED_BYTES_MAX:
            check.add("npz", f"shape {matrix.shape}", rule="is no table of layers x experts", fix="Check the matrix")
            return None
        if matrix.dtype.kind == "i":
            matrix = matrix.astype(np.int64)  # entries of one place are summed: not in a narrow type
        return Content(matrix.toarray(), notes=(f"read from a sparse matrix with {matrix.nnz} stored entries",))
    except Exception as error:  # as in _array
        check.add(
            "npz", "...", rule=f"is not a whole sparse matrix ({error})", fix="Save it with scipy.sparse.save_npz"
        )
        return None


def _plain(array: NDArray[Any] | None) -> Any:
    if array is None:
        return None
    return array.astype(str).tolist() if array.dtype.kind == "S" else array.tolist()


def _scalar(array: NDArray[Any] | None) -> Any:
    return array.item() if array is not None and array.size == 1 else _plain(array)
