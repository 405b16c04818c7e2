"""Wide tables in `.parquet`: a column an expert, by the same names as in CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from moeopt.engines.base import Dump
from moeopt.engines.counting import dump
from moeopt.engines.parquet_cells import as_columns, numbers
from moeopt.engines.parquet_long import FORM_COUNTS
from moeopt.errors import Violations
from moeopt.workload.csv_doubts import check_sums
from moeopt.workload.csv_header import expert_order, is_numbered
from moeopt.workload.csv_long import LAYER


def read_wide(table: Any, names: Sequence[str], index: Sequence[str], check: Violations) -> Dump:
    """A row a layer; `names` are the columns but for those of a row index, `index`.

    Experts go by the numbers of their columns, and sums among the loads are refused, as in CSV. Layer ids are those of
    a column ``layer``, else of the row index.
    """
    said = [name for name in names if name.casefold() in LAYER]
    for name in said[1:]:
        check.add("columns", name, rule="is a second column for the layer", fix="Keep one of them")
    columns = [name for name in names if name not in said]
    if not columns:
        fix = "Write layer, expert, count"
        check.add("columns", ", ".join(names) or "none", rule="has no column of an expert", fix=fix)
    check.raise_if_any()
    with as_columns(check) as inner:
        order = expert_order(columns, inner)
    check.raise_if_any()
    assert order is not None
    notes = []
    if order != sorted(order):
        notes.append("the columns were put in the order of the expert ids in their names")
    columns = [columns[place] for place in order]
    cells = [numbers(table.column(name).combine_chunks(), name, check, fractions=True) for name in columns]
    layers = _layers(table, said, index, check, notes)
    found = np.stack(cells, axis=1)
    numbered = is_numbered(columns)
    ids_alone = numbered and all(name.isdigit() for name in columns)
    notes += check_sums(
        found.tolist(), check, columns_named=numbered and (not ids_alone or bool(said)), rows_named=bool(said)
    )
    return dump("plain", FORM_COUNTS, found, check, layers=layers, names=None if ids_alone else columns, notes=notes)


def _layers(
    table: Any, said: Sequence[str], index: Sequence[str], check: Violations, notes: list[str]
) -> list[int] | None:
    if said:
        if index:
            notes.append("the column without a name was left aside as a row index")
        ids: list[int] = numbers(table.column(said[0]).combine_chunks(), said[0], check).tolist()
        return ids
    if not index:
        return None
    column = table.column(index[0]).combine_chunks()
    array = np.asarray(column)
    whole = array.dtype.kind in "iu" and not column.null_count
    if len(index) > 1 or not whole or (array < 0).any() or len(np.unique(array)) < len(array):
        rule = "is a row index, and does not hold a layer id of its own for every row"
        check.add("columns", ", ".join(index), rule=rule, fix="Call a column of layer ids 'layer', or leave it out")
        check.raise_if_any()
    notes.append("the column without a name was read as layer ids")
    found: list[int] = array.tolist()
    return found
