"""What a comparison of methods says: a row a method, the best of them, and the best bound of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moeopt.brief import table
from moeopt.percent import percent, total
from moeopt.result import Result, Stop, relative_gap

REASON_SHOWN = 100
"""Characters of a reason in the text table; the row has it whole."""
NOT_RUN = "not run: the comparison was interrupted"


@dataclass(frozen=True)
class Row:
    """One method in a comparison: its result, or the reason why there is none; `remark` marks a broken rule.

    `held_out` has what its plan is worth on loads it was not made for, where it was scored on some; `error` is what
    somebody's policy raised.
    """

    method: str
    result: Result | None
    reason: str = ""
    remark: str = ""
    held_out: Mapping[str, Any] | None = None
    error: Exception | None = field(default=None, compare=False, repr=False)

    @property
    def cut_short(self) -> str:
        """What ended the method before it was done: time, a limit on nodes, or a signal; else empty."""
        if self.result is None or self.result.stop not in (Stop.TIME, Stop.NODES, Stop.INTERRUPTED):
            return ""
        return "interrupted" if self.result.stop is Stop.INTERRUPTED else f"stopped by {self.result.stop}"

    @property
    def said(self) -> str:
        """The broken rule, and what ended the method early, for a column of remarks."""
        return ", ".join(part for part in (self.remark, self.cut_short) if part)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several methods on one instance, judged by one referee and measured against the best bound of all.

    ``print`` shows it as a table.

    Parameters
    ----------
    lower_bound
        Largest bound that any method proved, ``None`` when there is none.
    best
        Name of the method with the least objective among plans that break no rule; the first of equals.
    interrupted
        Whether Ctrl-C ended it; methods and plans that were left out are in `not_run`, and are rows that say so.
    """

    problem: str
    instance: Mapping[str, Any]
    rows: tuple[Row, ...]
    lower_bound: float | None
    best: str | None
    interrupted: bool = False

    @property
    def not_run(self) -> tuple[str, ...]:
        """Names of the rows that an interrupt left out."""
        return tuple(row.method for row in self.rows if row.result is None and row.reason == NOT_RUN)

    @property
    def notes(self) -> tuple[str, ...]:
        """What happened to the comparison as a whole and was not asked for."""
        if not self.interrupted:
            return ()
        if not self.not_run:
            return ("interrupted",)
        return (f"interrupted: {', '.join(self.not_run)} {'was' if len(self.not_run) == 1 else 'were'} not run",)

    def gap(self, row: Row) -> float | None:
        """Gap of a row to the best bound of all rows."""
        if row.result is None or row.result.objective is None or self.lower_bound is None:
            return None
        return max(relative_gap(row.result.objective, self.lower_bound), 0.0)

    def __repr__(self) -> str:
        names = ", ".join(row.method for row in self.rows)
        return f"<Comparison: {self.problem} by {names}, best {self.best}>"

    def __str__(self) -> str:
        """A text table: a line a method, and the bound."""
        summed = any(row.result is not None and row.result.unit == "imbalance" for row in self.rows)
        heads = (
            "method",
            "imbalance sum" if summed else "objective",
            "imbalance mean",
            "imbalance worst",
            "gap",
            "remark",
        )
        lines = [heads, *(self._cells(row) for row in self.rows)]
        if self.lower_bound is not None:
            lines.append(("lower bound", total(self.lower_bound, summed), "", "", "", ""))
        return "\n".join([*table(lines), *self.notes])

    def _cells(self, row: Row) -> tuple[str, ...]:
        result = row.result
        if result is None or result.objective is None:
            reason = row.reason if result is None else str(result.status)
            reason = " ".join(reason.split())
            short = reason if len(reason) <= REASON_SHOWN else reason[: REASON_SHOWN - 4] + " ..."
            return (row.method, "-", "-", "-", "-", short)
        layers = (result.solution or {}).get("layers", ())
        ratios = [layer["imbalance"] for layer in layers if "imbalance" in layer]
        gap = None if row.remark else self.gap(row)
        return (
            row.method,
            total(result.objective, result.unit == "imbalance"),
            f"{sum(ratios) / len(ratios):.4f}" if ratios else "-",
            f"{max(ratios):.4f}" if ratios else "-",
            "-" if gap is None else percent(gap),
            ", ".join(part for part in ("best" if row.method == self.best else "", row.said) if part),
        )
