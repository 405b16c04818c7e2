"""`.parquet` tables of counts and of traces, by the extra ``parquet`` (pyarrow)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.base import Dump
from moeopt.engines.counting import dump
from moeopt.errors import BackendUnavailable, Violations

ENGINE, FORM_COUNTS, FORM_TRACE = "plain", "parquet counts", "parquet trace"
MAGIC = b"PAR1"
LAYER = ("layer", "layer_id", "layer_idx")
EXPERT = ("expert", "expert_id")
COUNT = ("count", "load", "loads", "tokens")
IDS = ("topk_ids", "expert_ids", "experts")
IGNORED = ("token", "token_idx", "slot", "req_id", "step", "rank", "weight", "topk_weights")
IDS_MAX = 65536


def read_parquet(path: str) -> Dump:
    """Loads of a table, in any of four forms.

    Rows ``layer, expert, count``; rows ``layer, expert`` of a trace (a row a selection, beside ``token`` and ``slot``);
    rows ``layer, topk_ids`` of a trace (a row a token, ids in a list); or a column an expert with an optional first
    column ``layer``.

    Raises
    ------
    InstanceError
        The file is cut short, has none of these forms, or holds text, fractions of ids, negatives or missing cells.
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
        with parquet.ParquetFile(path) as table:
            names = list(table.schema_arrow.names)
            lower = {name.lower(): name for name in names}
            layer, expert, count, ids = (
                next((lower[word] for word in words if word in lower), None) for words in (LAYER, EXPERT, COUNT, IDS)
            )
            if len(lower) < len(names):
                check.add("columns", ", ".join(names)[:80], rule="names stand twice", fix="Rename a column")
                check.raise_if_any()
            if ids is not None and layer is not None:
                return _long(path, _listed(table, layer, ids, check), FORM_TRACE, check)
            if expert is not None and layer is not None:
                form = FORM_TRACE if count is None else FORM_COUNTS
                return _long(path, _triples(table, layer, expert, count, check), form, check)
            return _wide(table.read(), names, layer, check)
    except (arrow.ArrowException, OSError) as error:
        check.add("input", Path(path).name, rule=f"is not a whole .parquet ({error})", fix="Copy or write it again")
        check.raise_if_any()
        raise


Triples = Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]]


def _triples(table: Any, layer: str, expert: str, count: str | None, check: Violations) -> Triples:
    wanted = [layer, expert] + ([] if count is None else [count])
    for batch in table.iter_batches(columns=wanted):
        yield (
            _numbers(batch.column(layer), layer, check),
            _numbers(batch.column(expert), expert, check),
            None if count is None else _numbers(batch.column(count), count, check, fractions=True),
        )


def _listed(table: Any, layer: str, ids: str, check: Violations) -> Triples:
    for batch in table.iter_batches(columns=[layer, ids]):
        column = batch.column(ids)
        if not hasattr(column, "flatten") or not str(column.type).startswith(("list", "fixed_size_list", "large_list")):
            check.add(ids, str(column.type), rule="must be a list of ids a token", fix="Write lists of whole numbers")
            check.raise_if_any()
        lengths = np.asarray(column.value_lengths().fill_null(0))
        yield (
            np.repeat(_numbers(batch.column(layer), layer, check), lengths),
            _numbers(column.flatten(), ids, check),
            None,
        )


def _numbers(column: Any, name: str, check: Violations, *, fractions: bool = False) -> NDArray[Any]:
    if column.null_count:
        check.add(name, f"{column.null_count} empty cells", rule="every cell must have a number", fix="Drop the rows")
        check.raise_if_any()
    array: NDArray[Any] = np.asarray(column)
    if array.dtype.kind not in ("iuf" if fractions else "iu"):
        quoted = array.dtype.kind in "OUS"
        rule = "must be numbers, not text" if quoted else "must be whole numbers"
        check.add(name, str(column.type), rule=rule, fix="Write the column as integers")
        check.raise_if_any()
    return array


def _long(path: str, parts: Triples, form: str, check: Violations) -> Dump:
    counts: dict[int, NDArray[Any]] = {}
    seen: set[tuple[int, int]] = set()
    padding = 0
    for layers, experts, amounts in parts:
        bad = (experts >= IDS_MAX) | (experts < -1) | (layers < 0)
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            rule = f"layers are >= 0, and ids of experts run from 0 to {IDS_MAX - 1}; -1 is padding"
            check.add("expert", f"{experts[place]} of layer {layers[place]}", rule=rule, fix="Check the columns")
            check.raise_if_any()
        used = experts >= 0
        padding += int(len(experts) - used.sum())
        layers, experts = layers[used], experts[used]
        for layer in np.unique(layers).tolist():
            mine = layers == layer
            ids = experts[mine]
            if amounts is None:
                row = np.bincount(ids)
            else:
                given = amounts[used][mine]
                places = [(layer, int(expert)) for expert in ids]
                twice = [expert for place, expert in zip(places, ids.tolist(), strict=True) if place in seen]
                twice += [] if len(set(places)) == len(places) else [ids.tolist()[0]]
                seen.update(places)
                for expert in twice:
                    rule, where = "the expert stands twice in the layer", f"layer {layer}"
                    check.add("expert", expert, rule=rule, fix="Sum the rows", where=where)
                row = np.zeros(int(ids.max()) + 1, dtype=given.dtype)
                row[ids] = given
            before = counts.get(layer, np.zeros(0, dtype=row.dtype))
            wide = np.zeros(max(len(before), len(row)), dtype=np.result_type(before, row))
            wide[: len(before)] += before
            wide[: len(row)] += row
            counts[layer] = wide
    if not counts:
        check.add("input", Path(path).name, rule="the table has no rows", fix="Record again")
    check.raise_if_any()
    names = sorted(counts)
    width = max(len(row) for row in counts.values())
    table = np.stack([np.concatenate([counts[name], np.zeros(width - len(counts[name]), int)]) for name in names])
    notes = [f"experts are taken to be {width}, one more than the largest id"]
    if padding:
        notes.append(f"{padding:,} ids of -1, padding, are left out")
    return dump(ENGINE, form, table, check, layers=names, notes=notes)


def _wide(table: Any, names: list[str], layer: str | None, check: Violations) -> Dump:
    columns = [name for name in names if name != layer and not name.startswith("__index_level")]
    if not columns:
        check.add("columns", ", ".join(names)[:80], rule="has no column of an expert", fix="Write layer, expert, count")
        check.raise_if_any()
    numbered = [re.fullmatch(r"(.*?)(\d+)", name) for name in columns]
    if all(numbered) and len({match[1] for match in numbered if match}) == 1:
        columns.sort(key=lambda name: int(re.sub(r"^.*?(?=\d+$)", "", name)))  # expert_10 comes after expert_9
    cells = [_numbers(table.column(name).combine_chunks(), name, check, fractions=True) for name in columns]
    layers = None
    if layer is not None:
        layers = _numbers(table.column(layer).combine_chunks(), layer, check).tolist()
    found = np.stack(cells, axis=1)
    return dump(ENGINE, FORM_COUNTS, found, check, layers=layers)
