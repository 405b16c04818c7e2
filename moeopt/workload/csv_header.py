"""What the names in the first line of a wide CSV table say: expert ids, names, or sums that are no experts."""

from __future__ import annotations

import re
from collections import Counter

from moeopt.errors import Violations
from moeopt.workload.csv_cells import is_number

TOTALS = frozenset(
    ["all", "average", "avg", "mean", "overall", "sum", "sums", "total", "totals"]
    + [f"{of} {what}" for of in ("row", "column", "col", "layer", "grand") for what in ("total", "sum", "mean")]
)
"""Names of columns and rows that other tools put beside their parts, in lower case with single spaces."""

_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})", re.DOTALL)
_SHOWN = 5


def is_total(name: str) -> bool:
    """Whether a column or row of this name sums up others.

    >>> [is_total(name) for name in ("Row total", "row_total", "MEAN", "totality")]
    [True, True, True, False]
    """
    return re.sub(r"[\s_-]+", " ", name.casefold()).strip() in TOTALS


def expert_order(names: list[str], check: Violations) -> list[int] | None:
    """The columns in the order of their experts, or ``None`` with violations noted.

    Names that are one prefix and whole numbers are expert ids, each of 0 to E - 1 once. Other names have no order
    but that of the file.

    >>> expert_order(["e1", "e0"], Violations()), expert_order(["maths", "law"], Violations())
    ([1, 0], [0, 1])
    >>> check = Violations(); expert_order(["e0", "e2"], check); print(check.found[0])
    csv[line 1] = e2: experts are numbered from 0 without holes, and there is no e1. Add a column of zeros for \
each, or renumber the columns; names that are no ids must not all end in numbers.
    """
    before = len(check.found)
    for name in names:
        if is_total(name):
            fix = "Drop the column, or rename it if it is an expert"
            check.add("csv", name, rule="a column of totals or means is not an expert", fix=fix, where="line 1")
    if len(check.found) > before:
        return None
    if is_numbered(names):
        return _by_id(names, check)
    prefixes = Counter(map(_prefix, names))
    (main, _), *others = prefixes.most_common()
    if main is not None and len(names) > 2 and [count for _, count in others] == [1]:
        odd = next(name for name in names if _prefix(name) != main)
        rule = "beside numbered experts, this column is not one"
        fix = "Call a column of layer ids 'layer'; drop any other"
        check.add("csv", odd, rule=rule, fix=fix, where="line 1")
        return None
    for name in names:
        if is_number(name):
            rule = "a header has expert ids alone or names alone, and this is a number among other names"
            fix = "Use whole numbers from 0 for all, or names for all"
            check.add("csv", name, rule=rule, fix=fix, where="line 1")
    return list(range(len(names))) if len(check.found) == before else None


def is_numbered(names: list[str]) -> bool:
    """Whether all names are one prefix, or none, and a whole number.

    >>> is_numbered(["Expert 2", "expert 0"]), is_numbered(["7", "8"]), is_numbered(["1e3", "1e4"])
    (True, True, False)
    """
    if any(is_number(name) and not (name.isascii() and name.isdigit()) for name in names):
        return False
    prefixes = {_prefix(name) for name in names}
    return len(prefixes) == 1 and None not in prefixes


def _prefix(name: str) -> str | None:
    found = _NUMBERED.fullmatch(name)
    return None if found is None else " ".join(found[1].casefold().split())


def _by_id(names: list[str], check: Violations) -> list[int] | None:
    column: dict[int, int] = {}
    before = len(check.found)
    for index, name in enumerate(names):
        expert = int(_NUMBERED.fullmatch(name)[2])  # type: ignore[index]
        if expert in column:
            rule = f"is a second column of expert {expert}, after {names[column[expert]]}"
            check.add("csv", name, rule=rule, fix="Keep one of them", where="line 1")
        else:
            column[expert] = index
    if len(check.found) > before:
        return None
    last = max(column)
    if last == len(names) - 1:
        return [column[expert] for expert in range(len(names))]
    prefix = names[column[last]].removesuffix(str(last))
    missing: list[str] = []
    expert = 0
    while len(missing) < _SHOWN and expert < last:
        if expert not in column:
            missing.append(f"{prefix}{expert}")
        expert += 1
    num_missing = last + 1 - len(names)
    more = f" and {num_missing - len(missing)} more" if num_missing > len(missing) else ""
    rule = f"experts are numbered from 0 without holes, and there is no {', '.join(missing)}{more}"
    fix = "Add a column of zeros for each, or renumber the columns; names that are no ids must not all end in numbers"
    if min(column) == 1 and last == len(names):
        fix = f"Count the columns from 0, {prefix}0 to {prefix}{last - 1}"
    check.add("csv", names[column[last]], rule=rule, fix=fix, where="line 1")
    return None
