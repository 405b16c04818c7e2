"""Routing traces in `.parquet`: a row a selection beside its token, or a row a token with its experts in a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.base import Dump
from moeopt.engines.counting import dump
from moeopt.engines.parquet_cells import IDS_MAX, numbers, width_of
from moeopt.errors import Violations
from moeopt.workload.csv_long import COUNT, EXPERT, LAYER
from moeopt.workload.sums import add_counts

FORM_TRACE = "parquet trace"
IDS = ("topk_ids", "expert_ids", "experts")
"""Lists of ids, a token's in each."""
TOKEN = ("token", "token_id", "token_idx", "req_id", "request_id")
"""What a row has of which token it is: with such a column, rows are selections and no sums."""
BESIDE = ("slot", "k", "step", "rank", "weight", "weights", "topk_weight", "topk_weights", "position", "pos")
"""Further columns of traces, which are left aside with a note."""

Parts = Iterator[tuple[NDArray[Any], NDArray[Any]]]


def read_trace(
    table: Any, names: Sequence[str], experts: int | None, notes: list[str], check: Violations, *, listed: bool
) -> Dump:
    """Count the selections of every layer; -1 is padding.

    Parameters
    ----------
    names
        Columns; numbers under a name that no trace has are refused, as they may be counts.
    experts
        E, where it is known.
    listed
        Ids stand in lists.
    """
    layer, ids, notes = _columns(table, names, IDS if listed else EXPERT, [*notes], check)
    counts: dict[int, NDArray[np.int64]] = {}
    padding = 0
    for layers, chosen in (_listed if listed else _rows)(table, layer, ids, check):
        bad = (chosen >= IDS_MAX) | (chosen < -1) | (layers < 0) | (layers >= IDS_MAX)
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            rule = f"layers are from 0 to {IDS_MAX - 1}, and ids of experts run from 0 to {IDS_MAX - 1}; -1 is padding"
            check.add("expert", f"{chosen[place]} of layer {layers[place]}", rule=rule, fix="Check the columns")
            check.raise_if_any()
        used = chosen >= 0
        padding += int(len(chosen) - used.sum())
        for one in np.unique(layers[used]).tolist():
            row = np.bincount(chosen[used & (layers == one)]).astype(np.int64)
            before = counts.get(one, row[:0])
            wide = np.zeros(max(len(before), len(row)), dtype=np.int64)
            wide[: len(before)] += before
            add_counts(wide[: len(row)], row, check, where=f"layer {one}", axes=("expert",))
            counts[one] = wide
    if not counts:
        check.add("input", "0 selections", rule="the table has no rows", fix="Record again")
    check.raise_if_any()
    width = width_of(max(len(row) for row in counts.values()) - 1, experts, check, notes)
    found = np.stack([np.pad(counts[one], (0, width - len(counts[one]))) for one in sorted(counts)])
    if padding:
        notes.append(f"{padding:,} ids of -1, padding, are left out")
    return dump("plain", FORM_TRACE, found, check, layers=sorted(counts), notes=notes)


def _columns(
    table: Any, names: Sequence[str], words: Sequence[str], notes: list[str], check: Violations
) -> tuple[str, str, list[str]]:
    """The columns of layers and ids, and the notes with those that are left aside."""
    import pyarrow.types as kinds

    roles: dict[str, str] = {}
    aside = []
    for name in names:
        word, kind = name.casefold(), table.schema_arrow.field(name).type
        role = "layer" if word in LAYER else "ids" if word in words else None
        if role in roles:
            check.add("columns", name, rule=f"is a second column for the {role}", fix="Keep one of them")
        elif role is not None:
            roles[role] = name
        elif word in COUNT or (
            word not in (*TOKEN, *BESIDE)
            and (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))
        ):
            fix = "Leave it out; a table of counts has the columns layer, expert and count, and none of tokens"
            check.add("columns", name, rule="is not a known column of a trace, and may be counts", fix=fix)
        else:
            aside.append(name)
    if "layer" not in roles:
        rule = f"a trace needs a column {' or '.join(LAYER)}"
        check.add("columns", ", ".join(names), rule=rule, fix="Give the layer of every row")
    check.raise_if_any()
    if aside:
        notes.append(f"{'column' if len(aside) == 1 else 'columns'} {', '.join(aside)} left aside")
    return roles["layer"], roles["ids"], notes


def _rows(table: Any, layer: str, ids: str, check: Violations) -> Parts:
    for batch in table.iter_batches(columns=[layer, ids]):
        yield numbers(batch.column(layer), layer, check), numbers(batch.column(ids), ids, check)


def _listed(table: Any, layer: str, ids: str, check: Violations) -> Parts:
    for batch in table.iter_batches(columns=[layer, ids]):
        column = batch.column(ids)
        if not hasattr(column, "flatten") or not str(column.type).startswith(("list", "fixed_size_list", "large_list")):
            check.add(ids, str(column.type), rule="must be a list of ids a token", fix="Write lists of whole numbers")
            check.raise_if_any()
        lengths = np.asarray(column.value_lengths().fill_null(0))
        yield np.repeat(numbers(batch.column(layer), layer, check), lengths), numbers(column.flatten(), ids, check)
