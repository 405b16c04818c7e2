"""What a comparison of methods says: a row a method, the best of them, and the best bound of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        """Gap of a row's objective, which is a sum over layers, to the best bound of all rows."""
        if row.result is None or row.result.objective is None or self.lower_bound is None:
            return None
        return max(relative_gap(row.result.objective, self.lower_bound), 0.0)

    def floors(self) -> list[float] | None:
        """The best bound of each layer that any row proved for the full set of rules; ``None`` without layers."""
        rows = [_layers(row) for row in self.rows if not row.remark and _layers(row)]
        return [max(column) for column in zip(*(_bounds(row) for row in rows), strict=True)] if rows else None

    def layer_gaps(self, row: Row, floors: Sequence[float] | None = None) -> list[float]:
        """Gap of each layer to the best bound of all rows; empty for a plan without layers, or that breaks a rule."""
        floors = self.floors() if floors is None else floors
        if row.remark or floors is None:
            return []
        tops = [layer["max_load"] for layer in _layers(row)]
        return [max(relative_gap(top, floor), 0.0) for top, floor in zip(tops, floors, strict=True)]

    def __repr__(self) -> str:
        names = ", ".join(row.method for row in self.rows)
        return f"<Comparison: {self.problem} by {names}, best {self.best}>"

    def __str__(self) -> str:
        """A text table, with the figures of the command line: a line a method, and the bound."""
        summed = any(row.result is not None and row.result.unit == "imbalance" for row in self.rows)
        floors = self.floors()
        moving = any(_moves(row) is not None for row in self.rows)
        heads = (
            "method",
            "imbalance sum" if summed else "objective",
            "imbalance mean",
            "imbalance worst",
            *(["gap"] if floors is None else ["gap mean", "gap worst"]),
            *(["moves"] if moving else []),
            "remark",
        )
        lines = [heads, *(self._cells(row, floors, moving) for row in self.rows)]
        if self.lower_bound is not None:
            lines.append(("lower bound", total(self.lower_bound, summed), *[""] * (len(heads) - 2)))
        return "\n".join([*table(lines), *self.notes])

    def _cells(self, row: Row, floors: Sequence[float] | None, moving: bool) -> tuple[str, ...]:
        result = row.result
        if result is None or result.objective is None:
            reason = row.reason if result is None else str(result.status)
            reason = " ".join(reason.split())
            short = reason if len(reason) <= REASON_SHOWN else reason[: REASON_SHOWN - 4] + " ..."
            return (row.method, *["-"] * ((4 if floors is None else 5) + moving), short)
        layers = (result.solution or {}).get("layers", ())
        ratios = [layer["imbalance"] for layer in layers if "imbalance" in layer]
        if floors is None:
            gap = None if row.remark else self.gap(row)
            gaps = ["-" if gap is None else percent(gap)]
        else:
            each = self.layer_gaps(row, floors)
            gaps = [percent(sum(each) / len(each)), percent(max(each))] if each else ["-", "-"]
        moves = _moves(row)
        return (
            row.method,
            total(result.objective, result.unit == "imbalance"),
            f"{sum(ratios) / len(ratios):.4f}" if ratios else "-",
            f"{max(ratios):.4f}" if ratios else "-",
            *gaps,
            *(["-" if moves is None else f"{moves:,}"] if moving else []),
            ", ".join(part for part in ("best" if row.method == self.best else "", row.said) if part),
        )


def _layers(row: Row) -> Sequence[Mapping[str, Any]]:
    """Layers of a plan, where they have a load and a bound each."""
    layers = () if row.result is None else (row.result.solution or {}).get("layers", ())
    return layers if layers and all("max_load" in one and "lower_bound" in one for one in layers) else ()


def _bounds(layers: Sequence[Mapping[str, Any]]) -> list[float]:
    return [layer["lower_bound"] for layer in layers]


def _moves(row: Row) -> int | None:
    """Copies to load, where a plan runs."""
    return None if row.result is None else (row.result.solution or {}).get("moves")
