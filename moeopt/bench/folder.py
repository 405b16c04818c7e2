"""The folder of a grid's results: a file a cell, written whole or not at all; what a clock says stands beside them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from moeopt import kinds
from moeopt.bench.cell import CELL_SCHEMA, Cell
from moeopt.documents import TEMPORARY
from moeopt.errors import InstanceError, Violation

TIMES = "times.jsonl"
"""Seconds of each cell, a line each as they were done: apart, so that equal grids give equal results."""


def write_cell(folder: Path, cell: Cell, document: dict[str, Any]) -> None:
    """Its result, and its seconds on another file."""
    from moeopt.documents import to_json, write_file

    result = dict(document)
    seconds = result.pop("runtime_s")
    write_file(folder / cell.file_name, to_json(result) + "\n", force=True)
    try:
        with (folder / TIMES).open("ab+") as times:
            line = json.dumps({"fingerprint": cell.fingerprint, "runtime_s": seconds}) + "\n"
            times.write((b"" if _ends(times) else b"\n") + line.encode())
    except OSError as error:
        rule = f"cannot be written ({error.strerror or error})"
        raise InstanceError([Violation("output", "", str(folder / TIMES), rule, "Make room and --resume")]) from None


def _ends(times: BinaryIO) -> bool:
    """Whether the last line is whole: a kill cuts it short, and the next one must not grow on it."""
    if not times.seek(0, os.SEEK_END):
        return True
    times.seek(-1, os.SEEK_END)
    return times.read(1) == b"\n"


def tidy(folder: Path) -> None:
    """Remove what a kill while a file was being written has left behind."""
    for one in folder.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):
            one.unlink()


@kinds.expects(folder=kinds.path, cells=kinds.some)
def read_cells(folder: str | Path, cells: Iterable[Cell] | None = None) -> list[dict[str, Any]]:
    """Documents of a folder in the order of `cells`, or of their names, with the seconds they took (None: not known).

    Parameters
    ----------
    cells
        Only these, where their result is there and is theirs by its fingerprint.

    Raises
    ------
    InstanceError
        The folder cannot be read.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     read_cells(folder)
    []
    """
    place = Path(folder)
    times = read_times(place)
    try:
        names = [cell.file_name for cell in cells] if cells is not None else sorted(
            one.name for one in place.iterdir() if one.suffix == ".json"
        )  # fmt: skip
    except OSError as error:
        rule = f"cannot be read ({error.strerror or error})"
        raise InstanceError(
            [Violation("folder", "", str(folder), rule, "Give the folder of moeopt bench -o")]
        ) from None
    found = []
    for name in names:
        document = _read(place / name)
        if document is not None:
            found.append({**document, "runtime_s": times.get(document["fingerprint"])})
    return found


def kept(folder: Path, cell: Cell) -> dict[str, Any] | None:
    """Its result, where that is there, whole, and is the result of this very cell."""
    document = _read(folder / cell.file_name)
    if document is None or any(document[key] != value for key, value in cell.document().items()):
        return None
    return document


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None  # it is done again
    return document if _is_result(document) else None


def _is_result(document: Any) -> bool:
    """Whether this is what `write_cell` wrote, as far as tables read it: somebody may have edited the file."""
    from moeopt.bench.tables import AXES, METRICS

    if not isinstance(document, dict) or document.get("schema") != CELL_SCHEMA:
        return False
    cell, figures = document.get("cell"), [document.get(name) for name in METRICS]
    named = isinstance(cell, dict) and all(isinstance(cell.get(axis), str | int) for axis in AXES)
    numbers = all(one is None or (type(one) in (int, float) and kinds.is_number(one)) for one in figures)
    return named and numbers and isinstance(document.get("fingerprint"), str)


def read_times(folder: Path) -> dict[str, float]:
    """Seconds of cells by their fingerprints."""
    try:
        lines = (folder / TIMES).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found: dict[str, float] = {}
    for line in lines:
        try:
            one = json.loads(line)
            seconds = one["runtime_s"]
            if type(seconds) in (int, float) and kinds.is_number(seconds):
                found[one["fingerprint"]] = float(seconds)
        except (ValueError, TypeError, KeyError, RecursionError):
            continue  # the line that a kill cut short
    return found
