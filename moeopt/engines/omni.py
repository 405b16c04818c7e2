"""Omni: placement patterns, cubes of 0 and 1, and folders of activation counts.

Layouts: ``omni/accelerators/placement`` of omni-infer and its pattern tool. Layers count MoE layers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.documents import read_bytes
from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.bounds import NUMBERS_MAX, RANKS_MAX, STEPS_MAX, gaps, numbered, within
from moeopt.engines.counting import be, dump, expert_map, uneven
from moeopt.errors import Violations
from moeopt.workload.sums import add_counts

ENGINE, PATTERN, ACTIVATIONS = "omni", "placement pattern", "activation counts"
_NAME = re.compile(r"activation_counts_recordstep_([0-9]+)_rank_([0-9]+)\.txt")


def is_pattern(array: NDArray[Any]) -> bool:
    """Whether an array is a cube of 0 and 1 in which every expert of every layer is somewhere.

    >>> is_pattern(np.ones((2, 3, 4), int)), is_pattern(np.full((2, 3, 4), 7))
    (True, False)
    """
    if not may_be_pattern(array.shape, array.dtype) or not ((array[0] == 0) | (array[0] == 1)).all():
        return False
    return bool(((array == 0) | (array == 1)).all() and array.any(axis=0).mean() > 0.5)


def may_be_pattern(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether an array has the axes and the type of a pattern."""
    return len(shape) == 3 and dtype.kind in "iubf" and 0 not in shape


def read_pattern(path: str, cube: NDArray[Any]) -> ExpertMap:
    """The map of a cube (devices, layers, experts); devices with fewer experts in a layer get empty slots, -1."""
    check = Violations(path)
    if not may_be_pattern(cube.shape, cube.dtype) or not ((cube == 0) | (cube == 1)).all():
        rule = "must be 0 and 1, devices x layers x experts"
        check.add("pattern", f"{cube.dtype} of shape {cube.shape}", rule=rule, fix="Give the file of pattern_path")
        check.raise_if_any()
    gpus, layers, experts = cube.shape
    held = cube.astype(bool)
    sizes = held.sum(axis=2)  # (G, L)
    slots = sizes.max(axis=1)
    notes = ["layers count MoE layers: layer 0 is the first one with experts"]
    if (slots == 0).any():
        empty = np.flatnonzero(slots == 0).tolist()
        check.add(
            "pattern",
            uneven(empty, "devices"),
            rule=f"{'has' if len(empty) == 1 else 'have'} no expert in any layer",
            fix="Is the axis right?",
        )
        check.raise_if_any()
    if (sizes != slots[:, None]).any():
        less = int((sizes != slots[:, None]).any(axis=0).sum())
        have = "1 layer has" if less == 1 else f"{less} layers have"
        notes.append(f"{have} devices with fewer experts than others have there: slots left empty")
    rows = np.full((layers, int(slots.sum())), -1, dtype=np.int32)
    start = 0
    for gpu in range(gpus):
        for layer in range(layers):
            here = np.flatnonzero(held[gpu, layer])
            rows[layer, start : start + len(here)] = here
        start += int(slots[gpu])
    return expert_map(
        ENGINE, rows, check, slots=slots.tolist(), num_experts=experts, empty=True, field="pattern", notes=notes
    )


def is_activations(path: str) -> bool:
    """Whether a folder holds activation counts, or a file is one of them, by their names."""
    if Path(path).is_dir():
        return any(_NAME.fullmatch(file.name) for file in Path(path).iterdir())
    return _NAME.fullmatch(Path(path).name) is not None


def read_activations(paths: Sequence[str]) -> Dump:
    """Counts of a folder, or of some of its files: a file a step and rank, a row a layer, a column a position.

    The positions of ranks stand side by side; they are taken as experts, as without redundancy they are.
    """
    files = [Path(path) for path in paths]
    if len(files) == 1 and files[0].is_dir():
        files = sorted(file for file in files[0].iterdir() if _NAME.fullmatch(file.name))
    check = Violations(paths[0] if len(paths) == 1 else "")
    tables: dict[tuple[int, int], NDArray[np.int64]] = {}
    for file in files:
        match = _NAME.fullmatch(file.name)
        if match is None:
            rule = "files are named activation_counts_recordstep_<step>_rank_<rank>.txt"
            check.add("input", file.name, rule=rule, fix="Give the folder of dump_dir")
            continue
        place = numbered(match[1]), numbered(match[2])
        if not within(place[0], "step", NUMBERS_MAX - 1, check, where=file.name) or not within(
            place[1], "rank", RANKS_MAX - 1, check, where=file.name
        ):
            continue
        if place in tables:
            check.add("input", file.name, rule="the step and rank have two files", fix="Keep one of them")
        with check.within():
            tables[place] = _table(file)
    check.raise_if_any()
    steps, ranks = sorted({step for step, _ in tables}), sorted({rank for _, rank in tables})
    within(len(steps), "steps", STEPS_MAX, check)
    missing = gaps(ranks)
    if missing:
        one = missing.isdigit()
        rule = f"{'is' if one else 'are'} missing: there {be(ranks)} {uneven(ranks, 'ranks')}"
        check.add("input", f"{'rank' if one else 'ranks'} {missing}", rule=rule, fix="Give the files of all ranks")
    for step in steps:
        for rank in ranks:
            if (step, rank) not in tables:
                where = f"step {step}, rank {rank}"
                check.add("input", "absent", rule="others have this rank", fix="Copy the file too", where=where)
    shapes = {rank: tables[steps[0], rank].shape for rank in ranks if (steps[0], rank) in tables}
    for (step, rank), table in tables.items():
        if rank in shapes and (table.shape != shapes[rank] or table.shape[0] != next(iter(shapes.values()))[0]):
            rule = f"must have {next(iter(shapes.values()))[0]} layers of {shapes[rank][1]} positions, as others"
            where = f"step {step}, rank {rank}"
            check.add("input", f"shape {table.shape}", rule=rule, fix="Is the file whole?", where=where)
    check.raise_if_any()
    total = np.zeros((shapes[ranks[0]][0], sum(shape[1] for shape in shapes.values())), dtype=np.int64)
    for step in steps:
        table = np.concatenate([tables[step, rank] for rank in ranks], axis=1)
        add_counts(total, table, check, where=f"step {step}", axes=("layer", "position"))
    summed = "1 record step is" if len(steps) == 1 else f"{len(steps)} record steps are"
    notes = [
        "layers count MoE layers: layer 0 is the first one with experts",
        "positions are taken as experts",
        f"{summed} summed; how many passes each is of is not in the files",
    ]
    if len(ranks) > 1:
        notes.append(f"{uneven(ranks, 'ranks')} stand side by side")
    return dump(ENGINE, ACTIVATIONS, total, check, notes=notes)


def _table(file: Path) -> NDArray[np.int64]:
    check = Violations(str(file))
    try:
        lines = read_bytes(file).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        check.add("input", file.name, rule=f"is not UTF-8 text (byte {error.start})", fix="Copy it again")
        check.raise_if_any()
        raise
    rows = [line.split() for line in lines if line.strip()]
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            rule = f"every line must have as many counts as the first one, {len(rows[0])}"
            check.add("input", f"{len(row)} counts", rule=rule, fix="Is the file whole?", where=f"line {number + 1}")
        for place, cell in enumerate(row):
            if not (cell.isascii() and cell.isdigit() and len(cell) < 19):
                where = f"line {number + 1}, column {place + 1}"
                check.add("input", cell[:20], rule="counts are whole numbers >= 0", fix="Record again", where=where)
    if not rows:
        check.add("input", file.name, rule="the file is empty", fix="Record again")
    check.raise_if_any()
    return np.array([[int(cell) for cell in row] for row in rows], dtype=np.int64)
