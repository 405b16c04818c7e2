"""The folder of a grid's results: a file a cell, written whole or not at all; what a clock says stands beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from moeopt.bench.cell import CELL_SCHEMA, Cell
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
        with (folder / TIMES).open("a", encoding="utf-8") as times:
            times.write(json.dumps({"fingerprint": cell.fingerprint, "runtime_s": seconds}) + "\n")
    except OSError as error:
        rule = f"cannot be written ({error.strerror or error})"
        raise InstanceError([Violation("output", "", str(folder / TIMES), rule, "Make room and --resume")]) from None


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
    times = _times(place)
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


def done(folder: Path, cell: Cell) -> bool:
    """Whether its result is there, whole, and is the result of this very cell."""
    document = _read(folder / cell.file_name)
    return document is not None and document["fingerprint"] == cell.fingerprint


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None  # it is done again
    known = isinstance(document, dict) and document.get("schema") == CELL_SCHEMA
    return document if known and isinstance(document.get("fingerprint"), str) else None


def _times(folder: Path) -> dict[str, float]:
    try:
        lines = (folder / TIMES).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    found: dict[str, float] = {}
    for line in lines:
        try:
            one = json.loads(line)
            found[one["fingerprint"]] = float(one["runtime_s"])
        except (ValueError, TypeError, KeyError):
            continue  # the line that a kill cut short
    return found
