"""The long form of CSV: a row per pair of layer and expert, under a header."""

from __future__ import annotations

from collections.abc import Sequence

from moeopt.errors import Violations
from moeopt.workload.assemble import Content
from moeopt.workload.csv_cells import Row, load, locator, whole_id

LAYER = ("layer", "layer_id", "layer_idx")
EXPERT = ("expert", "expert_id")
COUNT = ("count", "load", "loads", "tokens")
STEPS = ("step", "steps")
RESERVED = frozenset(LAYER + EXPERT + COUNT + STEPS)
"""Header words with a meaning; no expert of a CSV file can have one as its name."""

CELLS_MAX = 10_000_000
"""The largest table a long file may spell out; beyond it, ids are hardly ids."""


def parse_long(rows: list[Row], header: list[str], check: Violations) -> Content | None:
    """The table that rows of (layer, expert, count) spell out; ``None`` once it cannot be known.

    >>> rows = [Row(1, ("layer", "expert", "count")), Row(2, ("3", "1", "40"))]
    >>> parse_long(rows, ["layer", "expert", "count"], Violations()).loads
    [[0, 40]]
    """
    column = columns_of(header, check)
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


def columns_of(header: Sequence[str], check: Violations) -> dict[str, int]:
    """The column of each of layer, expert and count; every other column of a long table is refused by its name.

    >>> columns_of(["layer_id", "expert", "load"], Violations())
    {'layer': 0, 'expert': 1, 'count': 2}
    >>> check = Violations(); columns_of(["layer", "expert", "num_tokens"], check); print(check.found[0])
    {'layer': 0, 'expert': 1}
    csv[line 1] = num_tokens: is not a known column. A long table has the columns layer, expert and count.
    """
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
    return column


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
    return Content(loads, layers, notes=notes, locate=locator(lambda *pair: lines.get(pair)))
