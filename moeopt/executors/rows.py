"""The rows of a comparison: one after the other, or beside each other through an executor."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from moeopt.comparison import NOT_RUN, Row
from moeopt.executors.run import Lost, run_all
from moeopt.executors.spoken import Given
from moeopt.limits import Limits
from moeopt.result import Stop

Work = tuple[str, Callable[[], Row]]
"""Name of a row, and what makes it."""


def make_rows(
    work: Sequence[Work],
    executor: Given = None,
    on_row: Callable[[int, str], Any] | None = None,
) -> tuple[list[Row], bool]:
    """All rows in their order, and whether Ctrl-C ended it: the others say then that they were not run.

    Parameters
    ----------
    work
        For workers that are processes, what makes a row must be picklable. One that ends its worker is a row that says
        so.
    on_row
        Called with how many rows there are, and the name of the last one.

    Raises
    ------
    KeyboardInterrupt
        There was no row yet: there is nothing to keep.
    """
    found: dict[int, Row] = {}
    interrupted = False
    try:
        with closing(run_all(_call, [make for _, make in work], executor)) as rows:
            for place, made in rows:
                name = work[place][0]
                if isinstance(made, Lost):
                    made = Row(name, None, f"it ended its worker: {made.reason}")
                found[place] = made
                if on_row is not None:
                    on_row(len(found), name)
                interrupted = made.result is not None and made.result.stop is Stop.INTERRUPTED
                if interrupted:
                    break
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
        if executor is None:
            found[len(found)] = Row(work[len(found)][0], None, "interrupted")
    return [found.get(place, Row(name, None, NOT_RUN)) for place, (name, _) in enumerate(work)], interrupted


def row_in_worker(problem: str, instance: Any, method: Any, limits: Limits, seed: int) -> Row:
    """One method. Exceptions lose their traceback on the way from a process, so it goes as text."""
    from moeopt.registry import problem as room

    row = room(problem).row(instance, method, limits, seed)
    return (
        row if row.error is None else replace(row, error=RuntimeError("".join(traceback.format_exception(row.error))))
    )


def _call(make: Callable[[], Row]) -> Row:
    return make()
