"""What a CSV table without telling names may be instead: a long table, or one with sums among its loads."""

from __future__ import annotations

import math
from collections.abc import Sequence

from moeopt.errors import Violations
from moeopt.workload.csv_cells import Row, is_number, number

Number = int | float


def refuse_long(rows: list[Row], check: Violations) -> bool:
    """Refuse three columns that read as well as layer, expert and count as they do as three experts.

    >>> rows = [Row(1 + index, (str(index // 2), str(index % 2), "9")) for index in range(4)]
    >>> refuse_long(rows, Violations()), refuse_long(rows[:3], Violations())
    (True, False)
    """
    if len(rows) < 4 or any(len(row.cells) != 3 or not is_number(row.cells[2]) for row in rows):
        return False
    ids = [(number(row.cells[0]), number(row.cells[1])) for row in rows]
    if not all(isinstance(item, int) and item >= 0 for pair in ids for item in pair):
        return False
    if len(set(ids)) < len(ids) or len({layer for layer, _ in ids}) == len(ids):
        return False
    rule = "looks like long form without a header"
    fix = "Add layer,expert,count as the first line; if it really is 3 experts, add a header expert_0,expert_1,expert_2"
    check.add("csv", "three columns", rule=rule, fix=fix)
    return True


def note_order(first: tuple[str, ...]) -> tuple[str, ...]:
    """A note where the first row of a matrix may be expert ids in another order, or counted from 1.

    Fewer than 8 columns are left alone: toy tables often begin with 1, 2, 3.

    >>> len(note_order(tuple("20134567"))), len(note_order(tuple("20134569")))
    (1, 0)
    """
    values = sorted(value for value in map(number, first) if isinstance(value, int))
    if len(first) < 8 or not any(values == list(range(start, start + len(first))) for start in (0, 1)):
        return ()
    shown = f"{values[0]} to {values[-1]}"
    return (f"the first line holds each of {shown} once and was read as loads, not as a header of expert ids",)


def check_sums(
    loads: Sequence[Sequence[Number]], check: Violations, *, columns_named: bool, rows_named: bool
) -> tuple[str, ...]:
    """Refuse a last column or row that is the sum of the others, or note it where its name says it is none.

    Looked for in a last column of at least 2 rows and 3 columns, and a last row of at least 3 rows.

    >>> check = Violations(); check_sums([[1, 2, 3], [4, 5, 9]], check, columns_named=False, rows_named=False)
    ()
    >>> print(check.found[0])
    loads[last column] = 3, 9: equals the sum of all others in every row. Drop the column; if it really is an \
expert, add a header expert_0 to expert_2.
    >>> check_sums([[1, 2, 3], [4, 5, 9]], Violations(), columns_named=True, rows_named=False)
    ('the last column equals the sum of all others in every row, and was read as an expert',)
    """
    if len({len(row) for row in loads}) != 1:
        return ()
    notes: list[str] = []
    rule = "equals the sum of all others in every row"
    if len(loads) >= 2 and len(loads[0]) >= 3 and _last_are_sums(loads):
        fix = f"Drop the column; if it really is an expert, add a header expert_0 to expert_{len(loads[0]) - 1}"
        if columns_named:
            notes.append(f"the last column {rule}, and was read as an expert")
        else:
            check.add("loads", _shown([row[-1] for row in loads]), rule=rule, fix=fix, where="last column")
    rule = "equals the sum of all others in every column"
    if len(loads) >= 3 and _last_are_sums(list(zip(*loads, strict=True))):
        fix = "Drop the row; if it really is a layer, add a first column layer with the ids of the layers"
        if rows_named:
            notes.append(f"the last row {rule}, and was read as a layer")
        else:
            check.add("loads", _shown(loads[-1]), rule=rule, fix=fix, where="last row")
    return tuple(notes)


def _last_are_sums(lines: Sequence[Sequence[Number]]) -> bool:
    return any(line[-1] > 0 for line in lines) and all(_is_sum(line[-1], line[:-1]) for line in lines)


def _is_sum(last: Number, others: Sequence[Number]) -> bool:
    if all(isinstance(value, int) for value in others) and isinstance(last, int):
        return last == sum(others)
    if not all(-(2**63) <= value < 2**63 for value in others if isinstance(value, int)):
        return False  # refused elsewhere, and no double may hold it
    try:
        return math.isclose(last, math.fsum(map(float, others)), rel_tol=1e-9)
    except OverflowError:
        return False  # beyond every double


def _shown(values: Sequence[Number]) -> str:
    return ", ".join(map(str, values[:4])) + (", ..." if len(values) > 4 else "")
