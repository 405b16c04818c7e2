"""Tables for people: numbers rounded for reading, the best marked, the bound beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moeopt.cli.spoken import spoken
from moeopt.percent import percent as plain_percent
from moeopt.percent import tokens as tokens
from moeopt.percent import total

if TYPE_CHECKING:
    from rich.table import Column, Table

    from moeopt.registry import Comparison, Row
    from moeopt.report.sheet import Line
    from moeopt.result import Result


REMARK = 80
"""Characters of a reason in a table of the terminal."""
REMARK_LEAST = 20
"""Columns that remarks have at least: fewer would make a line of every word."""


def amount(result: Result, value: float, what: str = "") -> str:
    """An objective or bound with its unit: tokens, or with windows the mean imbalance of a layer, and the sum."""
    from moeopt.placement.problem import RATIO

    if result.unit != RATIO:
        return f"{tokens(value)} {result.unit}{what}"
    assert result.solution is not None
    layers = len(result.solution["layers"])
    return f"mean imbalance {value / layers:.4f} (sum over {layers:,} layer{'s' * (layers > 1)} {value:.4f})"


def percent(value: float | None) -> str:
    """As everywhere, and a dash where there is no number.

    >>> percent(0.00123), percent(None)
    ('0.123 %', '-')
    """
    return "-" if value is None else plain_percent(value)


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.0123), duration(12.3)
    ('12.3 ms', '12.3 s')
    """
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def table(title: str, *columns: str) -> Table:
    """An empty table; all columns but the first are numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    return made


def figures(result: Result, floors: list[float] | None = None) -> dict[str, Any]:
    """The figures of a plan that tables and JSON show, gaps measured against `floors` or its own bounds."""
    assert result.solution is not None and result.objective is not None
    layers = result.solution["layers"]
    floors = [layer["lower_bound"] for layer in layers] if floors is None else floors
    gaps = [_gap(layer["max_load"], floor) for layer, floor in zip(layers, floors, strict=True)]
    worst = max(layers, key=lambda layer: layer["imbalance"])
    return {
        "objective": result.objective,
        "imbalance_mean": result.solution["imbalance_mean"],
        "imbalance_worst": worst["imbalance"],
        "worst_layer": worst["layer"],
        "gap_mean": sum(gaps) / len(gaps),
        "gap_worst": max(gaps),
        "replicas_max": max(max(layer["replicas"]) for layer in layers),
        **({"moves": result.solution["moves"]} if "moves" in result.solution else {}),
        "runtime_s": result.runtime_s,
    }


def comparison_table(comparison: Comparison, *, everything: bool = False) -> Table:
    """A row a method, and what no plan can beat; long reasons are cut unless `everything` is wanted."""
    name = comparison.instance.get("name") or "instance"
    scored = any(row.held_out is not None for row in comparison.rows)
    from moeopt.placement.problem import RATIO

    moving = any(row.result is not None and "moves" in (row.result.solution or {}) for row in comparison.rows)
    ratios_count = any(row.result is not None and row.result.unit == RATIO for row in comparison.rows)
    made = table(
        str(name),
        "method",
        "imbalance sum" if ratios_count else "objective",
        "imbalance mean",
        "imbalance worst",
        *(["held-out mean", "held-out worst"] if scored else []),
        "gap mean",
        "gap worst",
        "replicas max",
        *(["moves"] if moving else []),
        "time",
        "remark",
    )
    _folding(made.columns[-1])
    floors = comparison.floors()
    reference = None
    for row in comparison.rows:
        best = row.method == comparison.best
        made.add_row(*_cells(row, floors, best, everything, scored, moving), style="bold green" if best else None)
        if row.result is not None and row.result.solution is not None:
            reference = row.result.solution["layers"]
    if floors is not None and reference is not None:
        ratios = [
            floor / layer["ideal"] if layer["ideal"] else 1.0 for floor, layer in zip(floors, reference, strict=True)
        ]
        made.add_section()
        mean, worst = sum(ratios) / len(ratios), max(ratios)
        made.add_row(
            "lower bound",
            total(sum(floors), ratios_count),
            f"{mean:.4f}",
            f"{worst:.4f}",
            *["", ""] * scored,
            *[""] * moving,
            "",
            "",
            "",
            "",
            _claim(comparison),
            style="dim",
        )
    _widened(made)
    return made


def _cells(row: Row, floors: list[float] | None, best: bool, everything: bool, scored: bool, moving: bool) -> list[str]:
    from moeopt.placement.problem import RATIO
    from moeopt.report.words import short

    result = row.result
    if result is None or result.solution is None:
        reason = row.reason
        if result is not None:
            reason = "; ".join([str(result.status), *(str(conflict["message"]) for conflict in result.conflicts)])
        reason = spoken(" ".join(reason.split()))
        return [row.method, *["-"] * (7 + 2 * scored + moving), reason if everything else short(reason, REMARK)]
    found = figures(result, floors)
    return [
        row.method,
        total(found["objective"], result.unit == RATIO),
        f"{found['imbalance_mean']:.4f}",
        f"{found['imbalance_worst']:.4f}",
        *(_held_out(row) if scored else []),
        percent(found["gap_mean"]),
        percent(found["gap_worst"]),
        str(found["replicas_max"]),
        *([f"{found['moves']:,}" if "moves" in found else "-"] if moving else []),
        duration(found["runtime_s"]),
        ", ".join(part for part in ("best" if best else "", row.said) if part),
    ]


def _held_out(row: Row) -> list[str]:
    """Mean and worst imbalance on loads that the plan was not made for."""
    if row.held_out is None:
        return ["-", "-"]
    return [f"{row.held_out['mean']:.4f}", f"{row.held_out['worst']:.4f}"]


def _claim(comparison: Comparison) -> str:
    """What stands behind the bounds: a certificate for each, or somewhere a solver's word."""
    kinds = [row.result.bound_kind for row in comparison.rows if row.result is not None and not row.remark]
    return "in part a solver's claim" if "solver" in kinds else "proved"


def _folding(column: Column) -> None:
    """A column of remarks: sentences, which fold where the terminal ends."""
    column.justify, column.no_wrap, column.overflow = "left", False, "fold"


def _widened(made: Table) -> None:
    """Room for remarks, as far as they need it."""
    made.columns[-1].min_width = min(REMARK_LEAST, max(len(str(cell)) for cell in made.columns[-1].cells))


def _gap(value: float, floor: float) -> float:
    from moeopt.result import relative_gap

    return max(relative_gap(value, floor), 0.0)


def sheet(name: str, titles: Sequence[str], lines: Sequence[Line], heads: Mapping[str, str]) -> Table:
    """The table of a comparison: `lines` of a report under its `titles`, or what `heads` has for them."""
    from moeopt.report.words import short

    made = table(name, "method", *(heads.get(title, title.lower()) for title in titles), "remark")
    _folding(made.columns[-1])
    for line in lines:
        if line.kind == "bound":
            made.add_section()
        said = ", ".join(part for part in ("best" if line.kind == "best" else "", line.remark) if part)
        style = {"best": "bold green", "bound": "dim"}.get(line.kind)
        made.add_row(line.method, *(line.cells or ["-"] * len(titles)), short(spoken(said), REMARK), style=style)
    _widened(made)
    return made
