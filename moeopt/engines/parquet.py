"""`.parquet` tables of counts and of traces, by the extra ``parquet`` (pyarrow).

What the names of columns say is asked of the readers of CSV, so that a table means the same in both.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import Any

from moeopt.engines.base import Dump
from moeopt.engines.parquet_long import FORM_COUNTS, read_counts
from moeopt.engines.parquet_trace import FORM_TRACE, IDS, TOKEN, read_trace
from moeopt.engines.parquet_wide import read_wide
from moeopt.errors import BackendUnavailable, InstanceError, Violations
from moeopt.workload.csv_long import COUNT, EXPERT, LAYER, RESERVED

__all__ = ["ENGINE", "FORM_COUNTS", "FORM_TRACE", "MAGIC", "read_parquet"]

ENGINE, MAGIC = "plain", b"PAR1"
_INDEX = re.compile(r"__index_level_\d+__|(unnamed: 0)?", re.IGNORECASE)
"""How the columns are called that are a row index of pandas; the last two, of tables that were CSV once, come first."""


def read_parquet(path: str, experts: int | None = None) -> Dump:
    """Loads of a table, in any of four forms.

    Rows ``layer, expert, count``; rows ``token, layer, expert`` of a trace (a row a selection); rows
    ``layer, topk_ids`` of a trace (a row a token, ids in a list); or a column an expert with an optional column
    ``layer``. Columns go by their names exactly as in CSV, see `moeopt.workload.read_loads`.

    Parameters
    ----------
    path
        The file.
    experts
        E, where it is known; else one more than the largest id of a long table or a trace.

    Raises
    ------
    InstanceError
        The file is cut short, is several files one behind the other, has none of these forms or a column that is not
        known, or holds text, fractions of ids, negatives or missing cells.
    BackendUnavailable
        pyarrow is not installed.
    """
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise BackendUnavailable(
            f"{path}: .parquet is read by pyarrow, which is not installed. pip install 'moeopt[parquet]' installs it"
        ) from error
    check = Violations(path)
    try:
        _refuse_joined(path, check)
        with parquet.ParquetFile(path) as table:
            return _read(table, experts, check)
    except InstanceError:
        raise
    except (arrow.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
        check.add("input", Path(path).name, rule=f"is not a whole .parquet ({error})", fix="Copy or write it again")
        check.raise_if_any()
        raise


def _read(table: Any, experts: int | None, check: Violations) -> Dump:
    names = list(table.schema_arrow.names)
    if len({name.casefold() for name in names}) < len(names):
        check.add("columns", ", ".join(names), rule="names stand twice", fix="Rename a column")
        check.raise_if_any()
    index = [name for place, name in enumerate(names) if _INDEX.fullmatch(name) and (place == 0 or name[0] == "_")]
    kept = [name for name in names if name not in index]
    words = {name.casefold() for name in kept}
    aside = ["the column without a name was left aside as a row index"] if index else []
    if words & set(IDS):
        return read_trace(table, kept, experts, aside, check, listed=True)
    if words & set(EXPERT) and words & set(TOKEN) and not words & set(COUNT):
        return read_trace(table, kept, experts, aside, check, listed=False)
    if words & (RESERVED - set(LAYER)) or words & set(TOKEN):
        return read_counts(table, kept, experts, aside, check)
    return read_wide(table.read(), kept, index, check)


def _refuse_joined(path: str, check: Violations) -> None:
    """Refuse files one behind the other, of which the last one's table of contents counts from the first one's start.

    Only where one file ends and another begins does the mark stand twice in a row, but for a chance of 2**-64 a byte.
    """
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place = data.find(MAGIC + MAGIC)
    if place >= 0:
        rule = f"holds several files one behind the other, the second from byte {place + len(MAGIC):,}"
        check.add("input", Path(path).name, rule=rule, fix="Give each file by itself")
        check.raise_if_any()
