"""Loads from CSV in three forms, told apart by the first line: plain matrix, wide with a header, long."""

from __future__ import annotations

import re
from collections.abc import Callable

from moeopt.errors import Violations
from moeopt.workload.assemble import Content
from moeopt.workload.csv_cells import Row, is_number, load, split_rows, whole_id
from moeopt.workload.table import place

LAYER = ("layer", "layer_id")
EXPERT = ("expert", "expert_id")
COUNT = ("count", "load", "tokens")
STEPS = ("step", "steps")
RESERVED = frozenset(LAYER + EXPERT + COUNT + STEPS)
"""Header words with a meaning; no expert of a CSV file can have one as its name."""

CELLS_MAX = 10_000_000
"""The largest table a long file may spell out; beyond it, ids are hardly ids."""


def parse_csv(data: bytes, check: Violations) -> Content | None:
    """Find the load table in a CSV text; ``None`` once something was noted that leaves nothing to check.

    A plain matrix has a row per layer and no header. A wide table has expert names in its header, and layer ids
    in a first column ``layer`` or ``layer_id``. A long table has the columns layer, expert and count.

    >>> parse_csv(b"layer,a,b\\n3,10,30\\n", Violations()).loads
    [[10, 30]]
    >>> content = parse_csv(b"layer_id,expert_id,count\\n0,0,10\\n0,2,30\\n", Violations())
    >>> content.loads, content.notes
    ([[10, 0, 30]], ('1 of 3 (layer, expert) pairs are not in the file and count as 0',))
    """
    rows = split_rows(data, check)
    if not rows:
        return None
    header = [cell.lower() for cell in rows[0].cells]
    if not header[0]:
        rule = "the first cell is empty"
        check.add("csv", "''", rule=rule, fix="Call a column of layer ids 'layer', or leave it out", where="line 1")
        return None
    if header[0] not in LAYER and any(is_number(cell) for cell in header):
        return _matrix(rows, None, None, check)
    if len(rows) == 1:
        check.add("csv", "a header alone", rule="the table is empty", fix="Record again, or add a row per layer")
        return None
    if any(cell in RESERVED for cell in header[1:]) or header[0] in RESERVED - set(LAYER):
        return _long(rows, header, check)
    return _wide(rows, check)


def _matrix(rows: list[Row], layers: list[int] | None, names: list[str] | None, check: Violations) -> Content:
    loads = []
    lines: dict[int, int] = {}
    for index, row in enumerate(rows):
        layer = index if layers is None else layers[index]
        lines.setdefault(layer, row.line)
        places = (f"{place(index, expert, layers)}, line {row.line}" for expert in range(len(row.cells)))
        loads.append([load(cell, where, check) for cell, where in zip(row.cells, places, strict=True)])
    return Content(loads, layers, names=names, locate=_locator(lambda layer, _: lines.get(layer)))


def _wide(rows: list[Row], check: Violations) -> Content | None:
    header, *body = rows
    names: list[str] | None = list(header.cells)
    layers: list[int] | None = None
    if header.cells[0].lower() in LAYER:
        names = list(header.cells[1:])
        body = [Row(row.line, row.cells[1:]) for row in rows[1:]]
        ids = [whole_id("layers", row.cells[0], f"line {row.line}", check) for row in rows[1:]]
        known = [layer for layer in ids if layer is not None]
        layers = known if len(known) == len(ids) else None  # else refused anyway, and rows are named by position
        if any(is_number(name) for name in names):
            if names != [str(expert) for expert in range(len(names))]:
                rule = f"expert ids in a header must run from 0 to {len(names) - 1} in order"
                check.add("csv", ", ".join(names), rule=rule, fix="Sort the columns", where="line 1")
            names = None
    for row in body:
        if len(row.cells) != len(body[0].cells):
            break  # named with its layer when the rows are put together
    else:
        if names is not None and len(body[0].cells) != len(names):
            rule = f"must be as many as the header has experts, {len(names)}"
            check.add("csv", f"{len(body[0].cells)} cells", rule=rule, fix="Repair the header", where="every row")
            return None
    return _matrix(body, layers, names, check)


def _long(rows: list[Row], header: list[str], check: Violations) -> Content | None:
    column: dict[str, int] = {}
    for index, cell in enumerate(header):
        role = next((words[0] for words in (LAYER, EXPERT, COUNT) if cell in words), None)
        if cell in STEPS:
            fix = "Sum the counts over the steps and leave the column out"
            check.add("csv", cell, rule="a column of steps is not read", fix=fix, where="line 1")
        elif role is None:
            fix = "A long table has the columns layer, expert and count"
            check.add("csv", cell or "''", rule="is not a known column", fix=fix, where="line 1")
        elif role in column:
            check.add("csv", cell, rule=f"is a second column for the {role}", fix="Keep one of them", where="line 1")
        else:
            column[role] = index
    for words in (LAYER, EXPERT, COUNT):
        if words[0] not in column:
            rule = f"a long table needs a column {' or '.join(words)}"
            check.add("csv", ", ".join(header), rule=rule, fix="Name the columns layer, expert, count", where="line 1")
    if check.found:
        return None
    values: dict[tuple[int, int], int | float] = {}
    lines: dict[tuple[int, int], int] = {}
    for row in rows[1:]:
        if len(row.cells) != len(header):
            rule = f"must have as many cells as the header, {len(header)}"
            check.add("csv", f"{len(row.cells)} cells", rule=rule, fix="Repair the row", where=f"line {row.line}")
            continue
        layer = whole_id("layer", row.cells[column["layer"]], f"line {row.line}", check)
        expert = whole_id("expert", row.cells[column["expert"]], f"line {row.line}", check)
        if layer is None or expert is None:
            continue
        where = f"layer {layer}, expert {expert}"
        value = load(row.cells[column["count"]], f"{where}, line {row.line}", check)
        if (layer, expert) in lines:
            rule = f"the pair was given on line {lines[layer, expert]} already"
            check.add("loads", value, rule=rule, fix="Keep one of them", where=f"{where}, line {row.line}")
            continue
        values[layer, expert], lines[layer, expert] = value, row.line
    return _spread(values, lines, check) if values else None


def _spread(
    values: dict[tuple[int, int], int | float], lines: dict[tuple[int, int], int], check: Violations
) -> Content | None:
    layers = sorted({layer for layer, _ in values})
    num_experts = 1 + max(expert for _, expert in values)
    cells = len(layers) * num_experts
    if cells > CELLS_MAX:
        where = next(f"line {line}" for (_, expert), line in lines.items() if expert == num_experts - 1)
        rule = f"the table would have {cells} cells and may have {CELLS_MAX}"
        check.add("expert", num_experts - 1, rule=rule, fix="Number the experts from 0", where=where)
        return None
    loads: list[list[int | float]] = [
        [values.get((layer, expert), 0) for expert in range(num_experts)] for layer in layers
    ]
    missing = cells - len(values)
    notes = (f"{missing} of {cells} (layer, expert) pairs are not in the file and count as 0",) if missing else ()
    return Content(loads, layers, notes=notes, locate=_locator(lambda *pair: lines.get(pair)))


def _locator(line_of: Callable[[int, int], int | None]) -> Callable[[str], str]:
    """A function that puts the line behind a place such as ``layer 3, expert 17`` or ``layer 3``."""

    def locate(where: str) -> str:
        found = re.fullmatch(r"layer (\d+)(?:, expert (\d+))?", where)
        line = line_of(int(found[1]), int(found[2] or 0)) if found else None
        return where if line is None else f"{where}, line {line}"

    return locate
