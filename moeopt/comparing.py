"""Several methods on one instance: their names, the row of each, and what the rows say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moeopt.comparison import Comparison, Row
from moeopt.errors import MoeoptError, NotApplicable
from moeopt.limits import Deadline, Limits
from moeopt.method import Context, Method, Outcome, Progress
from moeopt.plugins import failure

if TYPE_CHECKING:
    from moeopt.registry import Problem
    from moeopt.result import Result

    Room = Problem[Any, Any]


def counted(listen: Callable[[Progress], None] | None, total: int) -> Callable[[int, str], None] | None:
    """Rows that are done, as progress."""
    return None if listen is None else lambda done, name: listen(Progress(done, total, name))


def judged_row(room: Room, instance: Any, name: str, raw: Any, limits: Limits, seed: int) -> Row:
    """A ready-made plan."""
    context = Context(limits, seed, Deadline(None))  # its clock starts here
    try:
        return Row(name, room.result(instance, name, Outcome(room.as_plan(instance, raw)), context))
    except MoeoptError as error:
        return Row(name, None, str(error))


def solved_row(room: Room, instance: Any, chosen: Method[Any, Any], solve: Callable[[Any], Result]) -> Row:
    """What `solve` gives for the instance, or for one without the rule that keeps the method from working."""
    name = chosen.name
    try:
        return Row(name, solve(instance))
    except NotApplicable as error:
        relaxed = room.relaxed(instance, name)
        if relaxed is None:
            return Row(name, None, str(error))
        easier, rule = relaxed
        try:
            result = solve(easier)
            room.evaluate(instance, result.plan)
            return Row(name, result)
        except MoeoptError as broken:
            if isinstance(broken, NotApplicable):
                return Row(name, None, str(broken))
            return Row(name, result, remark=f"breaks {rule}")
    except MoeoptError as error:
        return Row(name, None, str(error))
    except Exception as error:
        if chosen.claim != "plug-in":
            raise
        return Row(name, None, f"the policy failed: {failure(error)}", error=error)


def together(problem: str, instance: Any, rows: Sequence[Row], interrupted: bool) -> Comparison:
    """The rows with the best of them, and the best bound, of those that break no rule."""
    legal = [row for row in rows if row.result is not None and not row.remark]
    solved = [row for row in legal if row.result is not None and row.result.objective is not None]
    bounds = [row.result.lower_bound for row in legal if row.result and row.result.lower_bound is not None]
    best = min(solved, key=_objective, default=None)
    named: Mapping[str, Any] = {"name": getattr(instance, "name", "")}
    reference = next((dict(row.result.instance) for row in legal if row.result is not None), named)
    lower_bound, winner = max(bounds, default=None), best.method if best else None
    return Comparison(problem, reference, tuple(rows), lower_bound, winner, interrupted)


def _objective(row: Row) -> float:
    assert row.result is not None and row.result.objective is not None
    return row.result.objective
