"""Text of a CSV file to rows of cells, and a cell to a number; every fault has its line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moeopt.errors import Violations, shortened

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
_LIKE_NUMBER = re.compile(r"[+-]?[0-9][0-9.,'_ \u00a0]*(e[+-]?[0-9]+)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")
_COUNTER_DIGITS = 4000  # Python refuses to read longer integers


@dataclass(frozen=True)
class Row:
    """The stripped cells of one row, and the line of the file it ends on.

    >>> Row(2, ("1", "2")).line
    2
    """

    line: int
    cells: tuple[str, ...]


def split_rows(data: bytes, check: Violations, *, gaps: bool = False) -> tuple[list[Row], tuple[str, ...]]:
    """Rows of a UTF-8 text cut at commas, semicolons or tabs, and notes of what was skipped.

    Blank lines and rows of empty cells may stand at the end only, or with `gaps` anywhere; a first line that begins
    with ``#`` is a comment.

    >>> [row.cells for row in split_rows(b"\\xef\\xbb\\xbf1;2\\r\\n3;4\\r\\n;\\r\\n", Violations())[0]]
    [('1', '2'), ('3', '4')]
    >>> split_rows(b"# step 7\\n1,2", Violations())
    ([Row(line=2, cells=('1', '2'))], ('line 1 is a comment and was skipped: # step 7',))
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        rule = "is not UTF-8 text"
        check.add(
            "csv", f"byte 0x{data[error.start]:02x}", rule=rule, fix="Save the file as UTF-8", where=f"line {line}"
        )
        return [], ()
    notes: tuple[str, ...] = ()
    if text.startswith("#"):
        comment = re.split(r"[\r\n]", text, maxsplit=1)[0]
        notes = (f"line 1 is a comment and was skipped: {shortened(comment)}",)
        text = text[len(comment) :].removeprefix("\r").removeprefix("\n")
    text = text.rstrip("\r\n ")  # a tab at the end would be a cell
    rows: list[Row] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        for cells in reader:
            rows.append(Row(reader.line_num + len(notes), tuple(cell.strip() for cell in cells)))
    except csv.Error as error:
        rule, where = f"broken CSV ({error})", f"line {reader.line_num + len(notes)}"
        check.add("csv", "...", rule=rule, fix="Was the file cut short?", where=where)
        return [], notes
    while rows and not any(rows[-1].cells):
        rows.pop()
    if not rows:
        rule = "the file holds a comment alone" if notes else "the file is empty"
        check.add("csv", "''", rule=rule, fix="Record again, or check that the copy finished")
    for row in rows:
        if not any(row.cells) and not gaps:
            rule, fix = "blank lines may stand at the end only", "Is a layer missing here?"
            check.add("csv", "''", rule=rule, fix=fix, where=f"line {row.line}")
    return [row for row in rows if any(row.cells)], notes


def _delimiter(text: str) -> str:
    first_line = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", text.lstrip("\r\n "), maxsplit=1)[0])
    return next((mark for mark in "\t;" if mark in first_line), ",")


def is_number(cell: str) -> bool:
    """Whether a cell is written as a number; digits of other scripts and ``1_000`` are not.

    >>> [is_number(cell) for cell in ("7", "1e3", "nan", "", "1_000", "expert 7")]
    [True, True, True, False, False, False]
    """
    return _NUMBER.fullmatch(cell) is not None


def is_like_number(cell: str) -> bool:
    """Whether a cell is a number or was meant as one, such as ``1,234``; it is no name then.

    >>> [is_like_number(cell) for cell in ("7", "1,234", "1 234", "1_000", "expert 7", "")]
    [True, True, True, True, False, False]
    """
    return is_number(cell) or _LIKE_NUMBER.fullmatch(cell) is not None


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
    >>> check = Violations(); load("1,234", "line 3", check), str(check.found[0].rule)
    (0, 'loads must be numbers without thousands commas')
    """
    value = number(cell)
    if value is not None:
        return value
    rule, fix = "loads must be numbers", "Repair the cell"
    if _THOUSANDS.fullmatch(cell):
        rule = "loads must be numbers without thousands commas"
        fix = f"Write {cell.replace(',', '')}, or a point where the comma begins decimals"
    elif "," in cell:
        fix = "Write decimals with a point"
    elif len(cell.split()) > 1 and all(map(is_number, cell.split())):
        fix = "Put commas, semicolons or tabs between the cells, and no spaces into a number"
    check.add("loads", cell or "''", rule=rule, fix=fix, where=where)
    return 0


def whole_id(field: str, cell: str, where: str, check: Violations) -> int | None:
    """The id in a cell, a whole number >= 0, or ``None`` with a violation noted.

    >>> whole_id("layer", "12", "line 3", Violations())
    12
    >>> check = Violations(); whole_id("layer", "1.0", "line 3", check); print(check.found[0])
    layer[line 3] = 1.0: ids must be whole numbers >= 0. Repair the cell.
    """
    value = number(cell)
    if isinstance(value, int) and 0 <= value < 2**63:
        return value
    large = isinstance(value, int) and value > 0
    rule = "ids must be below 2**63" if large else "ids must be whole numbers >= 0"
    check.add(field, cell or "''", rule=rule, fix="Repair the cell", where=where)
    return None


def locator(line_of: Callable[[int, int], int | None], names: Sequence[str] | None = None) -> Callable[[str], str]:
    """A function that puts name and line behind a place such as ``layer 3, expert 1`` or ``layer 3``.

    >>> locator(lambda layer, expert: 7, ["maths", "law"])("layer 3, expert 1")
    'layer 3, expert 1 (law), line 7'
    """

    def locate(where: str) -> str:
        found = re.fullmatch(r"layer (\d+)(?:, expert (\d+))?", where)
        if found is None:
            return where
        expert = int(found[2] or 0)
        name = f" ({names[expert]})" if names is not None and found[2] and expert < len(names) else ""
        line = line_of(int(found[1]), expert)
        return f"{where}{name}" if line is None else f"{where}{name}, line {line}"

    return locate
