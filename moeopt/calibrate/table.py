"""Tables of measurements from CSV, JSON or Parquet: columns by name, numbers checked, times in seconds."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt import kinds
from moeopt.documents import read_bytes, read_json
from moeopt.errors import BackendUnavailable, InstanceError, Violation, Violations
from moeopt.workload.csv_cells import number, split_rows

Floats = NDArray[np.float64]
MAGIC = b"PAR1"
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
SECONDS = ("seconds", "time", "latency", "itl", "tpot", "step")


LEAST, MOST = 1e-15, 1e15
"""Numbers outside of these are no measurement: milliseconds, tokens, bytes."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length by their names, in small letters.

    Parameters
    ----------
    source
        The file.
    columns
        Cells by column: text or numbers, ``None`` where a cell is empty.
    sha256
        Of the file.
    """

    source: str
    columns: dict[str, list[Any]]
    sha256: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def find(self, names: Sequence[str]) -> str | None:
        """The first of these names that is a column."""
        return next((name for name in names if name in self.columns), None)

    def numbers(self, names: Sequence[str], check: Violations, *, default: float | None = None) -> Floats:
        """A column of numbers above 0; the default where there is no such column."""
        name = self.find(names)
        if name is None:
            if default is None:
                check.add(names[0], "missing", rule="must be a column", fix=self._call_it(names))
            return np.full(len(self), np.nan if default is None else default)
        cells = self.columns[name]
        plain = all(type(cell) is float for cell in cells)
        values = np.array(cells if plain else [_number(cell) for cell in cells], dtype=float)
        for place in np.flatnonzero(~((values >= LEAST) & (values <= MOST))).tolist():
            fix, rule = "Leave the row out, or repair it", "must be a finite number > 0"
            if np.isfinite(values[place]) and values[place] > 0:
                rule = f"must be between {LEAST:g} and {MOST:g}"
            seen = repr(cells[place])
            seen = seen if len(seen) < 60 else f"{seen[:57]}..."
            check.add(name, seen, rule=rule, fix=fix, where=f"row {place + 1}")
            values[place] = np.nan  # what is wrong is said once
        return values

    def _call_it(self, names: Sequence[str]) -> str:
        """Names that a missing column may have; of times, with a unit."""
        if tuple(names) != ("seconds",):
            return f"Call it {' or '.join(names)}"
        bare = [name for name in SECONDS if name in self.columns]
        return "Call it time_s, time_ms or time_us" + (f": {bare[0]} has no unit" if bare else "")

    def words(self, names: Sequence[str], default: str) -> list[str]:
        """A column of text; the default where there is none, or a cell is empty."""
        name = self.find(names)
        if name is None:
            return [default] * len(self)
        return [default if cell in (None, "") else str(cell) for cell in self.columns[name]]

    def seconds_column(self) -> tuple[str, float] | None:
        """The column of times and its unit in seconds; a bare ``latency`` is of no unit and is none."""
        for kind in SECONDS:
            if kind == "seconds" and kind in self.columns:
                return kind, 1.0
            for unit, size in UNITS.items():
                if f"{kind}_{unit}" in self.columns:
                    return f"{kind}_{unit}", size
        return None


@kinds.expects(path=kinds.path)
def read_table(path: str) -> Table:
    """Read a table of measurements.

    `path` says by its ending what the file is.

    CSV has a line of names first (``.csv``, ``.tsv``, ``.txt``, standard input); JSON is a list of rows or an object
    of columns; Parquet needs the extra ``parquet``.

    Raises
    ------
    InstanceError
        Broken, empty, ragged, a name twice.
    BackendUnavailable
        Parquet without pyarrow.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "times.csv").write_text("ranks,bytes\\n8,1024\\n")
    ...     read_table(f"{folder}/times.csv").columns
    {'ranks': ['8'], 'bytes': ['1024']}
    """
    data = read_bytes(path)
    digest = hashlib.sha256(data).hexdigest()
    if data.startswith(MAGIC):
        columns = _from_parquet(data, path)
    elif data.lstrip()[:1] in (b"[", b"{"):
        columns = _from_json(data, path)
    else:
        columns = _from_csv(data, path)
    names = [name.strip().lower() for name in columns]
    check = Violations(path)
    for name in sorted({name for name in names if names.count(name) > 1}):
        check.add("columns", name, rule="is there twice", fix="Rename a column")
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        check.add("columns", "...", rule="have different lengths", fix="Give a cell for each row")
    elif not lengths or lengths == {0}:
        check.add("input", Path(path).name, rule="has no rows", fix="Record again, or check that the copy finished")
    check.raise_if_any()
    return Table(str(path), dict(zip(names, columns.values(), strict=True)), digest)


def _number(cell: Any) -> float:
    found = number(cell) if isinstance(cell, str) else cell
    if not isinstance(found, int | float) or isinstance(found, bool):
        return math.nan
    try:
        return float(found)
    except OverflowError:  # a whole number beyond a double
        return math.inf


def _from_csv(data: bytes, path: str) -> dict[str, list[Any]]:
    check = Violations(path)
    rows, _ = split_rows(data, check)
    check.raise_if_any()
    head, *body = rows
    for row in body:
        if len(row.cells) != len(head.cells):
            rule = f"has {len(row.cells)} cells, the first line {len(head.cells)}"
            check.add("csv", "...", rule=rule, fix="Was the file cut short?", where=f"line {row.line}")
    check.raise_if_any()
    if len({cell.lower() for cell in head.cells}) < len(head.cells):
        check.add("columns", ", ".join(head.cells), rule="names stand twice", fix="Rename a column")
        check.raise_if_any()
    return {name: [row.cells[place] or None for row in body] for place, name in enumerate(head.cells)}


def _from_json(data: bytes, path: str) -> dict[str, list[Any]]:
    document = read_json(data, path)
    rule = "must be a list of rows, or an object of columns"
    if isinstance(document, dict):
        if all(isinstance(column, list) for column in document.values()):
            return document
        raise InstanceError([Violation("json", "", "...", rule, "Give one of these")], path)
    if not all(isinstance(row, dict) for row in document):
        raise InstanceError([Violation("json", "", "...", rule, "Give one of these")], path)
    names = list(dict.fromkeys(name for row in document for name in row))
    return {name: [row.get(name) for row in document] for name in names}


def _from_parquet(data: bytes, path: str) -> dict[str, list[Any]]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise BackendUnavailable(
            f"{path}: .parquet is read by pyarrow, which is not installed. pip install 'moeopt[parquet]' installs it"
        ) from error
    try:
        with parquet.ParquetFile(arrow.BufferReader(data)) as file:
            found: dict[str, list[Any]] = file.read().to_pydict()
            return found
    except (arrow.ArrowException, OSError, ValueError) as error:
        rule = f"is not a whole .parquet ({error})"
        raise InstanceError([Violation("input", "", Path(path).name, rule, "Copy or write it again")]) from error
