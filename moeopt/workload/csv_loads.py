"""Loads from CSV in three forms, told apart by the first line: plain matrix, wide with a header, long."""

from __future__ import annotations

import re
from dataclasses import replace

from moeopt.errors import Violations
from moeopt.workload.assemble import Content
from moeopt.workload.csv_cells import Row, is_like_number, load, locator, number, split_rows, whole_id
from moeopt.workload.csv_doubts import check_sums, note_order, refuse_long
from moeopt.workload.csv_header import expert_order, is_numbered, is_total
from moeopt.workload.csv_long import LAYER, RESERVED, parse_long
from moeopt.workload.table import place

_INDEX = re.compile(r"(unnamed: 0)?", re.IGNORECASE)
"""How the header of a row index reads that pandas wrote, or wrote and read and wrote again."""


def parse_csv(data: bytes, check: Violations) -> Content | None:
    """Find the load table in a CSV text; ``None`` once something was noted that leaves nothing to check.

    A plain matrix has a row per layer and no header. A wide table has expert names in its header, and layer ids
    in a first column ``layer`` or ``layer_id``. A long table has the columns layer, expert and count.

    >>> parse_csv(b"layer,a,b\\n3,10,30\\n", Violations()).loads
    [[10, 30]]
    >>> parse_csv(b"expert_1,expert_0\\n10,30\\n", Violations()).loads
    [[30, 10]]
    >>> content = parse_csv(b"layer_id,expert_id,count\\n0,0,10\\n0,2,30\\n", Violations())
    >>> content.loads, content.notes
    ([[10, 0, 30]], ('1 of 3 (layer, expert) pairs are not in the file and count as 0',))
    """
    rows, notes = split_rows(data, check)
    content = _parse_rows(rows, check) if rows else None
    return None if content is None else replace(content, notes=notes + content.notes)


def _parse_rows(rows: list[Row], check: Violations) -> Content | None:
    header = [cell.lower() for cell in rows[0].cells]
    if _INDEX.fullmatch(header[0]):
        return _indexed(rows, header, check)
    ids = list(map(str, range(len(header))))
    if header[0] not in LAYER and any(map(is_like_number, header)):
        if len(header) >= 3 and not is_like_number(header[0]) and header[1:] == ids[:-1]:
            return _wide(rows, check)  # which refuses the first column by its name
        if refuse_long(rows, check):
            return None
        if len(header) >= 3 and len(rows) > 1 and header == ids:
            return _wide(rows, check, notes=("the first line counts 0, 1, 2, ... and was read as a header",))
        return _matrix(rows, check, notes=note_order(rows[0].cells) if len(rows) > 1 else ())
    if len(rows) == 1:
        check.add("csv", "a header alone", rule="the table is empty", fix="Record again, or add a row per layer")
        return None
    if any(cell in RESERVED for cell in header[1:]) or header[0] in RESERVED - set(LAYER):
        return parse_long(rows, header, check)
    return _wide(rows, check)


def _indexed(rows: list[Row], header: list[str], check: Violations) -> Content | None:
    """A table whose first column has no name, as pandas writes its index."""
    ids = [number(row.cells[0]) for row in rows[1:]]
    if not ids or not all(isinstance(item, int) and item >= 0 for item in ids) or len(set(ids)) < len(ids):
        rule = "the first cell is empty, and the column under it does not hold a layer id of its own for every row"
        if header[0]:
            rule = "the column under it does not hold a layer id of its own for every row"
        fix = "Call a column of layer ids 'layer', or leave it out"
        check.add("csv", rows[0].cells[0] or "''", rule=rule, fix=fix, where="line 1")
        return None
    if any(cell in RESERVED for cell in header[1:]):
        note = "the first column has no name and was left aside as a row index"
        content = _parse_rows([Row(row.line, row.cells[1:]) for row in rows if len(row.cells) > 1], check)
        return None if content is None else replace(content, notes=(note, *content.notes))
    named = [Row(rows[0].line, (LAYER[0], *rows[0].cells[1:])), *rows[1:]]
    return _wide(named, check, notes=("the first column has no name and was read as layer ids",), index=True)


def _matrix(
    rows: list[Row],
    check: Violations,
    *,
    layers: list[int] | None = None,
    names: list[str] | None = None,
    columns_named: bool = False,
    rows_named: bool = False,
    notes: tuple[str, ...] = (),
) -> Content:
    loads: list[list[int | float]] = []
    lines: dict[int, int] = {}
    for index, row in enumerate(rows):
        lines.setdefault(index if layers is None else layers[index], row.line)
    locate = locator(lambda layer, _: lines.get(layer), names)
    before = len(check.found)
    for index, row in enumerate(rows):
        loads.append([])
        for expert, cell in enumerate(row.cells):
            value = number(cell)
            loads[-1].append(load(cell, locate(place(index, expert, layers)), check) if value is None else value)
    if len(check.found) == before:
        notes += check_sums(loads, check, columns_named=columns_named, rows_named=rows_named)
    return Content(loads, layers, names=names, notes=notes, locate=locate)


def _wide(rows: list[Row], check: Violations, *, notes: tuple[str, ...] = (), index: bool = False) -> Content | None:
    """Rows under a header of expert names; `index` says that the column ``layer`` is not called so in the file."""
    body, names = rows[1:], list(rows[0].cells)
    layers: list[int] | None = None
    has_layers = names[0].lower() in LAYER
    if has_layers:
        del names[0]
        layers = _layers(body, check)
        body = [Row(row.line, row.cells[1:]) for row in body]
    if not names:
        check.add("csv", "a column layer alone", rule="the table has no expert", fix="Add a column per expert")
        return None
    order = expert_order(names, check)
    if order is None:
        return None
    if order != sorted(order):
        notes += ("the columns were put in the order of the expert ids in the header",)
        names = [names[column] for column in order]
    widths = {len(row.cells) for row in body}
    if len(widths) == 1 and widths != {len(names)}:  # of different widths, rows are named with their layers later
        rule = f"must be as many as the header has experts, {len(names)}"
        check.add("csv", f"{widths.pop()} cells", rule=rule, fix="Repair the header", where="every row")
        return None
    if widths == {len(names)}:
        body = [Row(row.line, tuple(row.cells[column] for column in order)) for row in body]
    ids_alone = is_numbered(names) and all(name.isdigit() for name in names)
    return _matrix(
        body,
        check,
        layers=layers,
        names=None if ids_alone else names,
        columns_named=is_numbered(names) and (not ids_alone or (has_layers and not index)),
        rows_named=has_layers and not index,
        notes=notes,
    )


def _layers(body: list[Row], check: Violations) -> list[int] | None:
    """Layer ids in the first cells; ``None`` if any is refused, and rows are then named by position."""
    ids: list[int] = []
    for row in body:
        if is_total(row.cells[0]):
            rule, where = "a row of totals or means is not a layer", f"line {row.line}"
            check.add("layers", row.cells[0], rule=rule, fix="Drop the row", where=where)
        else:
            found = whole_id("layers", row.cells[0], f"line {row.line}", check)
            ids += [] if found is None else [found]
    return ids if len(ids) == len(body) else None
