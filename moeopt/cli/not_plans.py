"""Files that were given in the place of a plan: loads, which are told by name, and plans among the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.workload import LoadTable

AS_CUT = 8
"""A map that was cut off may have ids above its slots, by this factor at most."""


def is_loads(path: str, experts: int | None = None) -> bool:
    """Whether a file reads as loads, of so many experts where they are known."""
    table = _loads_of(path, experts)
    return table is not None and experts in (None, table.loads.shape[-1])


def _loads_of(path: str, experts: int | None = None) -> LoadTable | None:
    from moeopt.cli.inputs import read_any

    try:
        what, found = read_any(path, experts=experts)
    except (InstanceError, OSError):
        return None
    return found if what == "loads" else None


def no_plan(field: str, path: str, fix: str) -> InstanceError:
    """What is said of loads in the place of a plan."""
    return InstanceError([Violation(field, "", path, "is a file of loads, not a plan", fix)])


def are_counts(table: Iterable[Any], experts: int) -> bool:
    """Whether a quarter or more of the numbers in a table of experts in slots can be no ids of experts.

    >>> are_counts([[0, 1, 2, 99]], 4), are_counts([[5000, 1, 2, 7000]], 4)
    (False, True)
    """
    cells = [cell for row in table if isinstance(row, Iterable) for cell in row]
    strange = sum(not (_is_number(cell) and float(cell).is_integer() and -1 <= cell < experts) for cell in cells)
    return 4 * strange > len(cells)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) or hasattr(cell, "dtype")


def are_loads(path: str) -> bool:
    """Whether a bare table, which may be loads or the map of an engine, has numbers far above its slots."""
    table = _loads_of(path)
    if table is None:
        return False
    return table.windows is not None or are_counts(table.loads, AS_CUT * table.loads.shape[-1])


def refuse_spaced(plans: Sequence[str], inputs: Sequence[str]) -> None:
    """Refuse a placement among the inputs where --plans has others: a space was typed where a comma goes."""
    given = [part for item in plans for part in item.split(",") if part]
    kinds = {_kind(path) for path in given} - {None}
    check = Violations()
    for path in inputs:
        if path not in given and _kind(path) in kinds:
            rule = "is a plan beside --plans, which takes several with commas between them"
            fix = f"Write --plans {','.join([*given, path])}"
            check.found.append(Violation("input", "", path, rule, fix))  # paths are said whole
    check.raise_if_any()


def _kind(path: str) -> str | None:
    """A placement or a map of an engine; ``None`` for anything else."""
    from moeopt.cli.inputs import PLAN
    from moeopt.cli.piped import file_of
    from moeopt.cli.route_input import schema_of
    from moeopt.engines.kinds import WITH_MAP, what_is

    if path == "-":
        return None
    try:
        with file_of(path) as file:
            if what_is(file) in WITH_MAP:
                return "map"
        return "plan" if schema_of(path).startswith(PLAN) else None
    except (InstanceError, OSError):
        return None
