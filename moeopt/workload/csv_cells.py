"""Text of a CSV file to rows of cells, and a cell to a number; every fault has its line."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from moeopt.errors import Violations

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
_COUNTER_DIGITS = 4000  # Python refuses to read longer integers


@dataclass(frozen=True)
class Row:
    """The stripped cells of one row, and the line of the file it ends on.

    >>> Row(2, ("1", "2")).line
    2
    """

    line: int
    cells: tuple[str, ...]


def split_rows(data: bytes, check: Violations) -> list[Row]:
    """Rows of a UTF-8 text cut at commas, semicolons or tabs; blank lines may stand at its end only.

    >>> [row.cells for row in split_rows(b"\\xef\\xbb\\xbf1;2\\r\\n3;4\\r\\n\\r\\n", Violations())]
    [('1', '2'), ('3', '4')]
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        rule = "is not UTF-8 text"
        check.add(
            "csv", f"byte 0x{data[error.start]:02x}", rule=rule, fix="Save the file as UTF-8", where=f"line {line}"
        )
        return []
    text = text.rstrip("\r\n ")  # a tab at the end would be a cell
    if not text.strip():
        check.add("csv", "''", rule="the file is empty", fix="Record again, or check that the copy finished")
        return []
    rows: list[Row] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        for cells in reader:
            if cells:
                rows.append(Row(reader.line_num, tuple(cell.strip() for cell in cells)))
            else:
                rule, fix = "blank lines may stand at the end only", "Is a layer missing here?"
                check.add("csv", "''", rule=rule, fix=fix, where=f"line {reader.line_num}")
    except csv.Error as error:
        rule = f"broken CSV ({error})"
        check.add("csv", "...", rule=rule, fix="Was the file cut short?", where=f"line {reader.line_num}")
        return []
    return rows


def _delimiter(text: str) -> str:
    first_line = re.sub(r'"[^"]*"', "", text.lstrip().splitlines()[0])
    return next((mark for mark in "\t;" if mark in first_line), ",")


def is_number(cell: str) -> bool:
    """Whether a cell is written as a number; digits of other scripts and ``1_000`` are not.

    >>> [is_number(cell) for cell in ("7", "1e3", "nan", "", "1_000", "expert 7")]
    [True, True, True, False, False, False]
    """
    return _NUMBER.fullmatch(cell) is not None


def number(cell: str) -> int | float | None:
    """The number a cell holds, whole ones as `int`; ``None`` if it holds none.

    >>> number("10"), number("10.0"), number("1e3"), number("x")
    (10, 10.0, 1000.0, None)
    """
    if _WHOLE.fullmatch(cell) and len(cell) < _COUNTER_DIGITS:
        return int(cell)
    return float(cell) if is_number(cell) else None


def load(cell: str, where: str, check: Violations) -> int | float:
    """The load in a cell; a cell without a number is noted and counts as 0 from then on.

    >>> load("12", "line 3", Violations())
    12
    >>> check = Violations(); load("n/a", "line 3", check), str(check.found[0])
    (0, 'loads[line 3] = n/a: loads must be numbers. Repair the cell.')
    """
    value = number(cell)
    if value is not None:
        return value
    fix = "Write decimals with a point" if "," in cell else "Repair the cell"
    check.add("loads", cell or "''", rule="loads must be numbers", fix=fix, where=where)
    return 0


def whole_id(field: str, cell: str, where: str, check: Violations) -> int | None:
    """The id in a cell, a whole number >= 0, or ``None`` with a violation noted.

    >>> whole_id("layer", "12", "line 3", Violations())
    12
    >>> check = Violations(); whole_id("layer", "1.0", "line 3", check); print(check.found[0])
    layer[line 3] = 1.0: ids must be whole numbers >= 0. Repair the cell.
    """
    value = number(cell)
    if isinstance(value, int) and value >= 0:
        return value
    check.add(field, cell or "''", rule="ids must be whole numbers >= 0", fix="Repair the cell", where=where)
    return None
