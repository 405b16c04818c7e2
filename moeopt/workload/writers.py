"""A load table to a file that `read_loads` reads back."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from moeopt import kinds
from moeopt.documents import to_json, write_file
from moeopt.errors import Violations
from moeopt.workload.assemble import Content, assemble
from moeopt.workload.csv_loads import parse_csv
from moeopt.workload.table import LoadTable

ENDINGS = (".json", ".npz", ".npy", ".csv")
"""The forms that are written, by the ending of the file's name."""
WITH_WINDOWS = (".json", ".npz", ".npy")
"""Those that hold an axis of windows."""


@kinds.expects(path=kinds.path, table="moeopt.workload.table:LoadTable", force=bool)
def write_loads(path: str | Path, table: LoadTable, force: bool = False) -> tuple[str, ...]:
    """Write a table whole or not at all, in the form the ending names: `.npz`, `.json`, `.csv` or `.npy`.

    Parameters
    ----------
    path
        The file to write.
    table
        Checked again before a byte is written. Its source and notes are not stored.
    force
        Replace a file that exists.

    Returns
    -------
    tuple[str, ...]
        What the form cannot hold, a sentence each: `.npz` and `.json` hold everything, `.csv` no steps and no names
        that would read as numbers, headings or sums, `.npy` the loads alone. Windows are three axes, which all but
        `.csv` hold.

    Raises
    ------
    InstanceError
        The ending is unknown or holds no windows and the table has some, the table is malformed, or the file exists or
        cannot be written.

    >>> import tempfile
    >>> table = LoadTable(np.array([[10, 30]]), layers=(3,), steps=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_loads(Path(folder, "loads.csv"), table)
    ('steps are not written: a .csv file has no place for them',)
    """
    check = Violations(str(path))
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        check.add(
            "output", ending or "no ending", rule="is not a form of loads", fix=f"Use one of {', '.join(ENDINGS)}"
        )
    elif table.windows is not None and ending not in WITH_WINDOWS:
        rule = f"holds one window, and these are {len(table.windows)}"
        check.add("output", ending, rule=rule, fix=f"Use one of {', '.join(WITH_WINDOWS)}")
    with check.within():
        content = Content(
            table.loads if table.windows is None else table.windows, table.layers, table.steps, table.names
        )
        table = assemble(content, Violations(str(path)))
    check.raise_if_any()
    lost: list[str] = []
    if ending == ".json":
        data: str | bytes = to_json(_parts(table, arrays=False)) + "\n"
    elif ending == ".csv":
        data = _csv(table, lost)
    else:
        file = io.BytesIO()
        if ending == ".npz":
            np.savez(file, **_parts(table, arrays=True))
        else:
            np.save(file, _loads(table), allow_pickle=False)
            for field, given in (("steps", table.steps), ("names", table.names)):
                if given is not None:
                    lost.append(f"{field} are not written: a .npy file holds loads alone")
            if _has_own_ids(table):
                lost.append("layer ids are not written: a .npy file holds loads alone")
        data = file.getvalue()
    write_file(path, data, force=force)
    return tuple(lost)


def _parts(table: LoadTable, *, arrays: bool) -> dict[str, Any]:
    parts = {"loads": _loads(table), "layers": np.array(table.layers), "steps": table.steps, "names": table.names}
    given = {key: np.asarray(part) for key, part in parts.items() if part is not None}
    return {key: part if arrays else part.tolist() for key, part in given.items()}


def _loads(table: LoadTable) -> Any:
    return table.loads if table.windows is None else table.windows


def _has_own_ids(table: LoadTable) -> bool:
    return table.layers != tuple(range(len(table.layers)))


def _csv(table: LoadTable, lost: list[str]) -> str:
    names = table.names
    if table.steps is not None:
        lost.append("steps are not written: a .csv file has no place for them")
    if names is None and not _has_own_ids(table) and _reads_back(text := _csv_text(table, None), table):
        return text
    if names is not None:
        if _reads_back(text := _csv_text(table, ["layer", *names]), table):
            return text
        lost.append("names are not written: in a .csv file some columns would read as numbers, headings or sums")
    return _csv_text(table, ["layer", *map(str, range(table.loads.shape[1]))])


def _csv_text(table: LoadTable, header: list[str] | None) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    rows = table.loads.tolist()
    if header is None:
        writer.writerows(rows)
    else:
        writer.writerow(header)
        writer.writerows([layer, *row] for layer, row in zip(table.layers, rows, strict=True))
    return text.getvalue()


def _reads_back(text: str, table: LoadTable) -> bool:
    """Whether the reader makes the same table of a text; it may doubt, such as a last column that is a sum."""
    check = Violations()
    content = parse_csv(text.encode(), check)
    if content is None or check.found or content.loads != table.loads.tolist():
        return False
    names = None if table.names is None else list(table.names)
    return bool(content.names == names)
