"""What the sheets of several problems share: lines under columns, notes, figures by layer, and the block in JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from moeopt.registry import Comparison, Row
from moeopt.report import words
from moeopt.report.block import Block
from moeopt.report.rows import RowFigures, best_place, bound_kind, conflicts_said
from moeopt.report.sheet import Head, Line, Sheet
from moeopt.result import relative_gap

Column = tuple[Head, Callable[[Any], str], str]
"""Head, the cell of a row, and the cell of the bound."""


def figures_of(comparison: Comparison) -> list[RowFigures]:
    """All rows in the order given, each with its gap to the best bound."""
    return [_whole(row, comparison, best) for row, best in _with_best(comparison)]


def layered(comparison: Comparison, key: str) -> list[RowFigures]:
    """The same where the solution has layers: `key` is what a layer's bound is a bound of."""
    floors = floors_of(comparison)
    return [_by_layer(row, comparison, best, floors, key) for row, best in _with_best(comparison)]


def _with_best(comparison: Comparison) -> Iterable[tuple[Row, bool]]:
    best = best_place(comparison)
    return [(row, place == best) for place, row in enumerate(comparison.rows)]


def _whole(row: Row, comparison: Comparison, best: bool, **more: Any) -> RowFigures:
    reason = row.reason
    if row.result is not None and row.result.solution is None:
        told = "" if row.result.conflicts else "; ".join(row.result.notes)
        reason = reason or told or conflicts_said(row.result)
    gap = None if row.remark else comparison.gap(row)  # the bounds are for plans that keep the rules
    return RowFigures(
        row.method, row.result, best, reason, row.remark, row.said, **{"gap": gap, "gap_worst": gap} | more
    )


def _by_layer(row: Row, comparison: Comparison, best: bool, floors: list[float], key: str) -> RowFigures:
    if row.result is None or row.result.solution is None or row.remark:
        return _whole(row, comparison, best)
    layers = row.result.solution["layers"]
    gaps = [
        max(relative_gap(layer[key], floor), 0.0) if layer[key] else 0.0
        for layer, floor in zip(layers, floors, strict=True)
    ]
    worst = max(range(len(gaps)), key=gaps.__getitem__)
    return _whole(row, comparison, best, gap_worst=gaps[worst], worst_layer=layers[worst]["layer"])


def floors_of(comparison: Comparison) -> list[float]:
    """The best bound of each layer that any row proved."""
    rows = [
        [layer["lower_bound"] for layer in row.result.solution["layers"]]
        for row in comparison.rows
        if row.result is not None and row.result.solution is not None and not row.remark
    ]
    return [max(column) for column in zip(*rows, strict=True)]


def sheet_of(block: Block, rows: Sequence[RowFigures], shown: Sequence[Column], /, **own: Any) -> Sheet:
    """The sheet of a block; `own` has the fields that only its problem knows."""
    instance, comparison = block.instance, block.comparison
    alike: dict[str, Any] = {
        "name": instance.name.strip() or f"instance {instance.sha256[:8]}",
        "heads": [head for head, _, _ in shown],
        "lines": lines(comparison, rows, shown),
        "notes": notes(comparison, getattr(instance, "notes", ())),
        "versions": versions_of(rows),
    }
    return Sheet(**{**alike, **own})


def by_layer(instance: Any, comparison: Comparison) -> list[dict[str, Any]]:
    """The best bound of each layer, for JSON."""
    floors = zip(instance.layers, floors_of(comparison), strict=False)
    return [{"layer": layer, "lower_bound": floor} for layer, floor in floors]


def best_of(rows: Sequence[RowFigures]) -> RowFigures | None:
    """The row that is marked, where it has a plan."""
    return next((row for row in rows if row.best and row.solution is not None), None)


def versions_of(rows: Iterable[RowFigures]) -> dict[str, str]:
    """Packages that the methods name."""
    found: dict[str, str] = {}
    for row in rows:
        for package, version in row.result.versions.items() if row.result is not None else ():
            found.setdefault(package, version)
    return found


def lines(comparison: Comparison, rows: Sequence[RowFigures], columns: Sequence[Column]) -> list[Line]:
    """A line for each method in the order given, and the bound."""
    found = []
    for row in rows:
        if row.solution is None:
            found.append(Line("none", row.method, (), words.short(row.reason)))
            continue
        kind = "best" if row.best else "broken" if row.remark else "plan"
        found.append(Line(kind, row.method, tuple(cell(row) for _, cell, _ in columns), row.said))
    if comparison.lower_bound is not None:
        checked = bound_kind(comparison) == "certified"
        claim = "proven: no plan is below" if checked else "a solver's claim, not checked"
        found.append(Line("bound", "bound", tuple(bound for _, _, bound in columns), claim))
    return found


def notes(comparison: Comparison, of_all: Sequence[str] = ()) -> list[tuple[str, list[str]]]:
    """Each note once, with the methods it is of (none: of all); `of_all` are those of the instance."""
    found: dict[str, list[str]] = {note: [] for note in (*comparison.notes, *of_all)}
    known = set(found)
    results = [(row.method, row.result) for row in comparison.rows if row.result is not None]
    for method, result in results:
        for note in result.notes if result.solution is not None else ():  # else it is the reason in the table
            if note not in known:
                found.setdefault(note, []).append(method)
    return [(note, [] if len(methods) == len(results) else methods) for note, methods in found.items()]


def numbers_of(row: RowFigures) -> dict[str, Any]:
    """What every method has: state, objective, bound, gaps, time, and why there is no plan."""
    result = row.result
    same = ("objective", "unit", "lower_bound", "bound_kind", "runtime_s", "iterations")
    return {
        "method": row.method,
        "status": None if result is None else str(result.status),
        "stop": None if result is None else str(result.stop),
        **{key: None if result is None else getattr(result, key) for key in same},
        "gap": row.gap,
        "remark": row.remark,
        "reason": row.reason,
    }


def worst_of(row: RowFigures) -> dict[str, Any]:
    """The layer with the largest gap."""
    return {"gap_worst": row.gap_worst, "gap_worst_layer": row.worst_layer}


def record(comparison: Comparison, row: RowFigures, known: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """One row of the CSV, but what is said of the whole report: `known` under the names of `columns`."""
    best = {"best_bound": comparison.lower_bound, "best_bound_kind": bound_kind(comparison)}
    found = {**known, **best, "best": "true" if row.best else "false"}
    return {name: found.get(name) for name in columns}


def document(
    instance: Any,
    comparison: Comparison,
    rows: Sequence[RowFigures],
    numbers: Callable[[RowFigures], Mapping[str, Any]],
    embedded: Mapping[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """The block in JSON; `embedded` is the instance's document, which the results then only name."""
    named = {"name": instance.name, "sha256": instance.sha256}
    made = []
    for row in rows:
        result = None if row.result is None else {**row.result.to_dict(), "instance": named}
        made.append({**numbers(row), "best": row.best, "result": result})
    return {
        "problem": comparison.problem,
        "instance": {**named, "document": embedded},
        "interrupted": comparison.interrupted,
        "not_run": list(comparison.not_run),
        "best": comparison.best,
        "lower_bound": comparison.lower_bound,
        "bound_kind": bound_kind(comparison),
        **more,
        "rows": made,
    }
