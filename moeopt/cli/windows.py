"""Several files of loads as the windows of one instance, and files that a plan is scored on but was not fitted to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moeopt.cli.accepting import check_names, guarded
from moeopt.cli.inputs import experts_of, from_loads, name_of, read_any, read_instance
from moeopt.cli.options import Shape
from moeopt.cli.say import Say
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.workload import LoadTable

PHASES = ("prefill", "decode")


def read_inputs(paths: Sequence[str], shape: Shape, say: Say, name: str | None = None) -> PlacementInstance:
    """One file: its instance. Several: their loads as windows of one instance, in the order given."""
    if len(paths) == 1:
        instance = read_instance(paths[0], shape, say, name)
        if instance.window_loads is None:
            refuse_window_options(shape)
        return instance
    table = joined(paths, say, shape.steps, shape=shape)
    return from_loads(table, ", ".join(paths), shape, say, name or name_of_windows(paths))


def refuse_window_options(shape: Shape) -> None:
    """Options that say how windows count, where there is one."""
    check = Violations()
    for option, value in (("--combine", shape.combine), ("--alpha", shape.alpha)):
        if value is not None:
            rule = "says how several windows become one figure, and this is one window"
            check.add(option, value, rule=rule, fix="Leave it out, or give several files of loads")
    check.raise_if_any()


def name_of_windows(paths: Sequence[str]) -> str:
    """What all names begin with, and how many there are.

    >>> name_of_windows(["a/day_1.csv", "a/day_2.csv"]), name_of_windows(["x.csv", "y.csv"])
    ('day, 2 windows', 'x + 1 more, 2 windows')
    """
    names = [name_of(path) for path in paths]
    start = names[0]
    while not all(name.startswith(start) for name in names):
        start = start[:-1]
    start = start.rstrip("_-. :0123456789")
    first = start if len(start) > 1 else f"{names[0]} + {len(names) - 1} more"
    return f"{first}, {len(names)} windows"


def joined(
    paths: Sequence[str],
    say: Say,
    steps_of_each: int | None = None,
    read: Sequence[LoadTable] | None = None,
    shape: Shape | None = None,
    experts: int | None = None,
) -> LoadTable:
    """The tables of several files as one table with windows; `steps_of_each` stands above what files say.

    `read` are the tables where the files have been read already. With a shape, each is to be planned on and is held
    against the laws of `moeopt.workload.laws`. `experts` are those of a layer, for traces that do not say it.

    Raises
    ------
    InstanceError
        A file is given twice or holds no loads; shapes, layers or expert names differ; or phases are mixed.
    """
    import numpy as np

    from moeopt.workload import LoadTable

    check = Violations()
    for path in dict.fromkeys(paths):
        if list(paths).count(path) > 1:
            check.add("input", path, rule="is given twice", fix="Give each window once")
    _refuse_mixed_phases(paths, check)
    check.raise_if_any()
    experts = experts if shape is None else experts_of(shape)
    tables = [_loads(path, check, experts) for path in paths] if read is None else list(read)
    check.raise_if_any()
    if shape is not None:
        tables = all_guarded(paths, tables, shape, say)
    known = [table for table in tables if table is not None]
    _refuse_unlike(paths, known, check)
    steps = [table.steps if steps_of_each is None else steps_of_each for table in known]
    if None in steps and any(step is not None for step in steps):
        missing = ", ".join(path for path, step in zip(paths, steps, strict=True) if step is None)
        rule = "say how many forward passes their loads are of, others do not"
        check.add("steps", f"missing in {missing}", rule=f"some files {rule}", fix="Give --steps for all")
    check.raise_if_any()
    for path, table in zip(paths, known, strict=True):
        for note in table.notes:
            say.note(f"{path}: {note}")
    windows: Any = np.concatenate([_windows(table) for table in known])
    passes = None if None in steps else tuple(each for table in known for each in _passes(table, steps_of_each))
    first = known[0]
    return LoadTable(windows.sum(axis=0), first.layers, passes, first.names, ", ".join(paths), (), windows)


def all_guarded(
    paths: Sequence[str], tables: Sequence[LoadTable | None], shape: Shape, say: Say
) -> list[LoadTable | None]:
    """Every table fit to be planned on, or the findings of all files together."""
    check_names(shape.accept, shape.drop)
    kept: list[LoadTable | None] = []
    faults: list[Violation] = []
    for path, table in zip(paths, tables, strict=True):
        try:
            kept.append(None if table is None else guarded(table, path, shape, say))
        except InstanceError as error:
            faults += [replace(one, field=f"{path}: {one.field}") for one in error.violations]
    if faults:
        raise InstanceError(dict.fromkeys(faults))
    return kept


def _loads(path: str, check: Violations, experts: int | None = None) -> LoadTable | None:
    what, found = read_any(path, experts=experts)
    if what == "loads":
        table: LoadTable = found
        return table
    rule = f"is {'a plan' if what == 'plan' else 'an instance document'}, and several inputs are windows of loads"
    check.add(
        "input", path, rule=rule, fix="Give it alone, or the loads it was made from; compare --apart takes several"
    )
    return None


def _windows(table: LoadTable) -> Any:
    return table.loads[None] if table.windows is None else table.windows


def _passes(table: LoadTable, steps_of_each: int | None) -> tuple[int, ...]:
    count = 1 if table.windows is None else len(table.windows)
    if steps_of_each is not None:
        return (steps_of_each,) * count
    return table.steps if isinstance(table.steps, tuple) else (table.steps or 1,) * count


def phase_of(path: str) -> str | None:
    """The phase that the name of a file, or of an array in it, says.

    >>> phase_of("a/dsv3_decode_32.npz"), phase_of("x.npz:prefill"), phase_of("decoder.csv")
    ('decode', 'prefill', None)
    """
    said = {word for word in re.split(r"[^a-z]+", name_of(path).lower()) if word in PHASES}
    return said.pop() if len(said) == 1 else None


def _refuse_mixed_phases(paths: Sequence[str], check: Violations) -> None:
    found = {phase: [path for path in paths if phase_of(path) == phase] for phase in PHASES}
    if all(found.values()):
        shown = "; ".join(f"{phase}: {', '.join(files)}" for phase, files in found.items())
        rule = "are of different phases, which are served apart and need a plan each"
        check.add("input", shown, rule=rule, fix="Place each phase by itself, with --phase to keep it in the plan")


def _refuse_unlike(paths: Sequence[str], tables: Sequence[LoadTable], check: Violations) -> None:
    first = tables[0]
    for path, table in zip(paths[1:], tables[1:], strict=True):
        if table.loads.shape != first.loads.shape:
            shown = "{} layers of {} experts".format(*table.loads.shape)
            rule = "must have the shape of the first input, {} layers of {} experts".format(*first.loads.shape)
            check.add(
                "input",
                f"{path}: {shown}",
                rule=rule,
                fix="Windows are of one LLM; place others apart, or compare --apart",
            )
        elif table.layers != first.layers:
            rule = f"must have the layers of the first input, {_few(first.layers)}"
            check.add("input", f"{path}: layers {_few(table.layers)}", rule=rule, fix="Cut both with --layers")
        elif table.names is not None and first.names is not None and table.names != first.names:
            rule = "must have the expert names of the first input, in the same order"
            check.add("input", path, rule=rule, fix="Put the columns in one order")


def _few(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) if len(ids) <= 6 else f"{ids[0]}, {ids[1]}, ... {ids[-1]}"


def files_of(option: str, patterns: Sequence[str], check: Violations) -> list[str]:
    """Files of an option that takes patterns: as the shell would list them; ``FILE.npz:KEY`` as it stands."""
    found: list[str] = []
    for pattern in [part for item in patterns for part in item.split(",") if part]:
        matching = sorted(glob(pattern))  # noqa: PTH207, for Path.glob takes no absolute patterns
        if not matching and Path(re.sub(r"(\.npz):.*", r"\1", pattern)).exists():
            matching = [pattern]
        if not matching:
            check.add(option, pattern, rule="matches no file", fix="Quote the pattern, and look at the folder")
        found.extend(path for path in matching if path not in found)
    return found


def read_passes(path: str, instance: PlacementInstance) -> Any:
    """(T, L, E) single passes of a file, for the layers of an instance."""
    what, table = read_any(path, experts=instance.loads.shape[-1])
    check = Violations(path)
    if what != "loads":
        check.add("--per-step", path, rule="holds no loads", fix="Give an array of passes x layers x experts")
        check.raise_if_any()
    absent = [layer for layer in instance.layers if layer not in table.layers]
    if absent:
        check.add("--per-step", f"no layer {absent[0]}", rule="must have every layer that is planned", fix="Record all")
        check.raise_if_any()
    rows = [table.layers.index(layer) for layer in instance.layers]
    passes = _windows(table) if table.per_step is None else table.per_step
    return passes[:, rows]
