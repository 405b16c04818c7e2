"""Long tables in `.parquet`: a row per pair of layer and expert, with its count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from moeopt.engines.base import Dump
from moeopt.engines.counting import dump
from moeopt.engines.parquet_cells import IDS_MAX, as_columns, numbers, width_of
from moeopt.errors import Violations
from moeopt.workload.csv_long import CELLS_MAX, columns_of

FORM_COUNTS = "parquet counts"


def read_counts(table: Any, names: Sequence[str], experts: int | None, notes: list[str], check: Violations) -> Dump:
    """Rows of layer, expert and count; any other column is refused by its name, as in CSV, and so are pairs twice."""
    with as_columns(check) as inner:
        place = columns_of([name.casefold() for name in names], inner)
        if {"layer", "expert"} <= place.keys() and "count" not in place:
            fix = "Name the columns layer, expert, count; rows of a trace have a column token as well"
            inner.found[-1] = replace(inner.found[-1], fix=fix)
    check.raise_if_any()
    wanted = [names[place[role]] for role in ("layer", "expert", "count")]
    read = table.read(columns=wanted)
    layer, expert, count = (
        numbers(read.column(name).combine_chunks(), name, check, fractions=role == 2)
        for role, name in enumerate(wanted)
    )
    if not len(layer):
        check.add("input", "0 rows", rule="the table has no rows", fix="Record again")
    bad = np.flatnonzero((expert < 0) | (expert >= IDS_MAX) | (layer < 0) | (layer >= IDS_MAX))
    if len(bad):
        rule = f"layers are from 0 to {IDS_MAX - 1}, and ids of experts run from 0 to {IDS_MAX - 1}"
        shown = f"{expert[bad[0]]} of layer {layer[bad[0]]}"
        check.add("expert", shown, rule=rule, fix="Check the columns", where=f"row {bad[0]}")
    check.raise_if_any()
    notes = [*notes]
    width = width_of(int(expert.max()), experts, check, notes)
    ids, rows = np.unique(layer, return_inverse=True)
    if len(ids) * width > CELLS_MAX:
        rule = f"the table would have {len(ids) * width} cells and may have {CELLS_MAX}"
        check.add("layer", f"{len(ids)} layers", rule=rule, fix="Check the columns")
        check.raise_if_any()
    cells = rows.reshape(-1) * width + expert.astype(np.int64)
    places, first, times = np.unique(cells, return_index=True, return_counts=True)
    for row in first[times > 1]:
        rule, where = "the expert stands twice in the layer", f"layer {layer[row]}"
        check.add("expert", int(expert[row]), rule=rule, fix="Sum the rows", where=where)
    check.raise_if_any()
    found = np.zeros(len(ids) * width, dtype=count.dtype)
    found[cells] = count
    if len(places) < len(found):
        missing = len(found) - len(places)
        notes.append(f"{missing} of {len(found)} (layer, expert) pairs are not in the file and count as 0")
    return dump("plain", FORM_COUNTS, found.reshape(len(ids), width), check, layers=ids.tolist(), notes=notes)
