"""The history of a replay: files in the order of time, or one file with windows in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moeopt.cli.inputs import experts_of, from_loads, name_of, read_any, sources
from moeopt.cli.options import Shape
from moeopt.cli.say import Say
from moeopt.cli.windows import all_guarded, joined, name_of_windows
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.workload import LoadTable

SUM = "sum"
WHAT = {"plan": "a plan", "instance": "an instance document"}


def in_time(patterns: Sequence[str], say: Say) -> list[str]:
    """Files in the order given; those of a quoted pattern by the numbers in their names."""
    check = Violations()
    found: list[str] = []
    for pattern in patterns:
        if pattern == "-" or not re.search(r"[*?[]", pattern) or Path(pattern).exists():
            found.append(pattern)
            continue
        matching = sorted(glob(pattern), key=by_numbers)  # noqa: PTH207, for Path.glob takes no absolute patterns
        if not matching:
            check.add("history", pattern, rule="matches no file", fix="Look at the folder")
        found += matching
    check.raise_if_any()
    files = [Path(path).name for path in found]
    alike = len({re.sub(r"\d+", "0", name) for name in files}) == 1
    if alike and files != (ordered := sorted(files, key=by_numbers)):
        said = f"{files[0]}, {files[1]}, ..." if len(files) > 2 else ", ".join(files)
        say.note(
            f"time is taken to run as the files are given ({said}); by their numbers it would begin with "
            f"{ordered[0]}, {ordered[1]}: quote the pattern for that order"
        )
    return found


def by_numbers(name: str) -> list[Any]:
    """A key that has 2 before 10.

    >>> sorted(["w10.csv", "w9.csv"], key=by_numbers)
    ['w9.csv', 'w10.csv']
    """
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def read_history(
    patterns: Sequence[str], shape: Shape, slices: int | None, seed: int, priced: bool, say: Say
) -> tuple[PlacementInstance, list[str]]:
    """The history as an instance with windows, and the name of each window.

    Raises
    ------
    InstanceError
        Fewer than two windows, a plan among the files, loads that are refused; or seconds are asked for and nothing
        says how many forward passes a window has.
    """
    paths = sources(in_time(patterns, say), say)
    found = [read_any(path, shape.layers, experts_of(shape)) for path in paths]
    if len(found) == 1 and found[0][0] == "instance":
        return _of_document(found[0][1], paths[0], shape, slices)
    tables = tables_of(paths, found, slices, seed, shape, say)
    names = [name for path, table in zip(paths, tables, strict=True) for name in _names(path, table, len(paths) > 1)]
    table = tables[0] if len(paths) == 1 else joined(paths, say, shape.steps, read=tables)
    if table.windows is None:
        rule = "holds one window, and a history has several"
        fix = "Give all files of the history, an array of windows x layers x experts, or --slices"
        raise InstanceError([Violation("history", "", paths[0], rule, fix)])
    if priced and shape.steps is None and table.steps is None:
        rule = "is needed to tell seconds: no file says how many forward passes a window has"
        raise InstanceError([Violation("--steps", "", "missing", rule, "Give the forward passes of a window")])
    label = name_of(paths[0]) if len(paths) == 1 else name_of_windows(paths).rpartition(",")[0]
    instance = from_loads(table, ", ".join(paths), shape, say, label)
    return instance, names


def tables_of(
    paths: Sequence[str],
    found: Sequence[tuple[str, Any]],
    slices: int | None,
    seed: int,
    shape: Shape | None = None,
    say: Say | None = None,
) -> list[LoadTable]:
    """The tables of a history, cut into slices where that is wanted; with a shape, fit to be planned on."""
    from moeopt.workload import sliced

    wrong = [(path, what) for path, (what, _) in zip(paths, found, strict=True) if what != "loads"]
    if wrong:
        raise InstanceError(
            [
                Violation("history", "", path, f"is {WHAT[what]}, not loads", "Give the loads of every window")
                for path, what in wrong
            ]
        )
    tables: list[Any] = [table for _, table in found]
    if shape is not None and say is not None:
        tables = all_guarded(paths, tables, shape, say)
    if slices is not None:
        tables = [sliced(table, slices, seed=seed + place) for place, table in enumerate(tables)]
        if say is not None:
            each = "the file" if len(tables) == 1 else "each file"
            say.keep(f"the selections of {each} are dealt at random into {slices} windows, by seed {seed}")
    return tables


def _of_document(
    instance: PlacementInstance, path: str, shape: Shape, slices: int | None
) -> tuple[PlacementInstance, list[str]]:
    """An instance document, which has its own shape."""
    given = [*shape.given(), *(["--slices"] if slices is not None else [])]
    if given:
        rule = "is an instance document, which has its own shape"
        raise InstanceError([Violation("history", "", path, rule, f"Leave out {', '.join(given)}")])
    return instance, list(map(str, range(max(len(instance.windows), 1))))


def _names(path: str, table: LoadTable, several: bool) -> list[str]:
    if table.windows is None:
        return [name_of(path)]
    numbers = range(len(table.windows))
    return [f"{name_of(path)} {number}" if several else str(number) for number in numbers]


def without_budget(shape: Shape) -> Shape:
    """The shape of the history: budgets are of every re-plan, and windows that are added up combine in no way."""
    combine = None if shape.combine == SUM else shape.combine
    return replace(shape, max_moves=None, max_moves_per_layer=None, combine=combine)
